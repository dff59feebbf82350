//! DELETE of one object (R69–R77; ownership R31–R63).

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use tenure_machinery::kind::Dependents;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_world::{Record, Submission, World};

use crate::admit::policy::AdmissionAttributes;
use crate::admit::{self, Operation};
use crate::api::ApiServer;
use crate::query::{FieldValidation, Query, check_dry_run};
use crate::read::get::missing;
use crate::request::ResourceRequest;
use crate::response::ResponseObject;
use crate::write::commit::{
    CommitOutcome, Extras, ResultingObject, operation, outcome, shown, shown_record, submit,
    to_stored, unmoved,
};
use crate::write::decide::{DeletionDecision, decide, is_definition, is_namespace};
use crate::write::decode;
use crate::write::stages::StoredObject;

/// What becomes of dependents, if the client said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedPropagation {
    /// They stay and lose the reference.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
}

impl RequestedPropagation {
    fn as_str(self) -> &'static str {
        match self {
            RequestedPropagation::Orphan => "Orphan",
            RequestedPropagation::Background => "Background",
            RequestedPropagation::Foreground => "Foreground",
        }
    }
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// Seconds until removal.
    pub grace_seconds: Option<i64>,
    /// What becomes of dependents.
    pub propagation: Option<RequestedPropagation>,
    /// Whether the old `orphanDependents: false` was used: the answer is then 202 (ownership R62).
    pub orphan_false: bool,
    /// The uid the object must have.
    pub uid: Option<String>,
    /// The version the object must have.
    pub version: Option<String>,
    /// Answer as if it happened.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// From the body, or from the query if there is no body (R71).
    pub(crate) fn read(request: &ResourceRequest) -> Result<DeleteOptions, Failure> {
        if request.body.is_empty() {
            return DeleteOptions::from_object(&from_query(&request.query)?);
        }
        let expected =
            decode::ExpectedType::named("apimachinery.meta.v1.DeleteOptions", "DeleteOptions");
        let (value, _) =
            decode::parse(&request.content_type, &request.body, FieldValidation::Ignore, expected)?;
        match value {
            Value::Object(object) => DeleteOptions::from_object(&object),
            Value::Null => DeleteOptions::from_object(&Object::new()),
            _ => Err(Failure::bad_request("the body is not a DeleteOptions object")),
        }
    }

    /// From a DeleteOptions object.
    pub(crate) fn from_object(object: &Object) -> Result<DeleteOptions, Failure> {
        match DeleteOptions::unjudged(object)? {
            (options, None) => Ok(options),
            (_, Some(fault)) => Err(fault),
        }
    }

    /// As policies and webhooks see them.
    pub(crate) fn to_object(&self) -> Object {
        let mut object = Object::new();
        object.insert("kind".into(), "DeleteOptions".into());
        object.insert("apiVersion".into(), "meta.k8s.io/v1".into());
        if let Some(seconds) = self.grace_seconds {
            object.insert("gracePeriodSeconds".into(), seconds.into());
        }
        for (member, wanted) in [("uid", &self.uid), ("resourceVersion", &self.version)] {
            if let Some(wanted) = wanted {
                object.map_mut("preconditions").insert(member.into(), wanted.as_str().into());
            }
        }
        match self.propagation {
            Some(_) if self.orphan_false => {
                object.insert("orphanDependents".into(), false.into());
            }
            Some(propagation) => {
                object.insert("propagationPolicy".into(), propagation.as_str().into());
            }
            None => {}
        }
        if self.dry_run {
            object.insert("dryRun".into(), json!(["All"]));
        }
        object
    }

    /// The same, with what is wrong about values that can be read: whoever has to look at something else
    /// first tells it later.
    pub(crate) fn unjudged(object: &Object) -> Result<(DeleteOptions, Option<Failure>), Failure> {
        check_types(object)?;
        let field = Path::Root.field("propagationPolicy");
        let mut errors = Errors::new();
        let orphan = object.bool_at(&["orphanDependents"]);
        let policy = object.str_at(&["propagationPolicy"]);
        if orphan.is_some() && policy.is_some() {
            errors.invalid(
                &field,
                format!("{:?}", policy.unwrap_or_default()),
                "orphanDependents and deletionPropagation cannot be both set",
            );
        }
        let propagation = match (orphan, policy) {
            (Some(true), _) | (None, Some("Orphan")) => Some(RequestedPropagation::Orphan),
            (Some(false), _) | (None, Some("Background")) => Some(RequestedPropagation::Background),
            (None, Some("Foreground")) => Some(RequestedPropagation::Foreground),
            (None, None) => None,
            (None, Some(other)) => {
                errors.not_supported(&field, other, &["Background", "Foreground", "Orphan"]);
                None
            }
        };
        let dry_run = check_dry_run(
            object.list_at(&["dryRun"]).iter().filter_map(Value::as_str),
            &mut errors,
        );
        let fault = (!errors.is_empty())
            .then(|| Failure::invalid("meta.k8s.io", "DeleteOptions", "", errors));
        let text = |member| {
            object.str_at(&["preconditions", member]).filter(|t| !t.is_empty()).map(str::to_owned)
        };
        let options = DeleteOptions {
            grace_seconds: object.int_at(&["gracePeriodSeconds"]),
            propagation,
            orphan_false: orphan == Some(false),
            uid: text("uid"),
            version: text("resourceVersion"),
            dry_run,
        };
        Ok((options, fault))
    }
}

fn from_query(query: &Query) -> Result<Object, Failure> {
    let mut object = Object::new();
    if let Some(seconds) = query.number("gracePeriodSeconds")? {
        object.insert("gracePeriodSeconds".into(), seconds.into());
    }
    if let Some(policy) = query.get("propagationPolicy") {
        object.insert("propagationPolicy".into(), policy.into());
    }
    if let Some(orphan) = query.optional_flag("orphanDependents") {
        object.insert("orphanDependents".into(), orphan.into());
    }
    let dry: Vec<&str> = query.all("dryRun").collect();
    if !dry.is_empty() {
        object.insert("dryRun".into(), json!(dry));
    }
    query.timeout()?;
    Ok(object)
}

fn check_types(object: &Object) -> Result<(), Failure> {
    let wrong = |field: &str, what: &str| {
        Err(Failure::bad_request(format!("DeleteOptions.{field}: must be {what}")))
    };
    for (field, value) in object {
        match (field.as_str(), value) {
            (_, Value::Null) => {}
            ("gracePeriodSeconds", value) if value.as_i64().is_none() => {
                return wrong(field, "a whole number");
            }
            ("orphanDependents", value) if !value.is_boolean() => {
                return wrong(field, "true or false");
            }
            ("propagationPolicy", value) if !value.is_string() => return wrong(field, "text"),
            // A condition that is misread is one that does not hold back.
            ("preconditions", Value::Object(conditions))
                if conditions.values().all(|value| value.is_string() || value.is_null()) => {}
            ("preconditions", _) => return wrong(field, "an object of texts"),
            ("dryRun", Value::Array(list)) if list.iter().all(Value::is_string) => {}
            ("dryRun", _) => return wrong(field, "a list of texts"),
            ("kind", value) if value.as_str() != Some("DeleteOptions") && value != "" => {
                return wrong(field, "DeleteOptions");
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a delete did.
pub(crate) enum Deleted {
    /// The object is gone; its last state.
    Removed(Object),
    /// The object is marked, or was already.
    Marked(ResponseObject),
}

/// DELETE of one object.
pub(crate) async fn delete(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<(DeleteOptions, Deleted), Failure> {
    let options = DeleteOptions::read(request)?;
    keep_system_class(request)?;
    warn_of_kept_pods(request, &options);
    let name = request.name.clone();
    let namespace = request.namespace.clone();
    let deleted = one(api, request, &options, &namespace, &name).await?;
    Ok((options, deleted))
}

/// The classes of the cluster's own pods cannot be deleted by name (R79).
fn keep_system_class(request: &ResourceRequest) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.kind != "PriorityClass"
        || !matches!(request.name.as_str(), "system-cluster-critical" | "system-node-critical")
    {
        return Ok(());
    }
    let why = "this is a system priority class and cannot be deleted";
    Err(Failure::forbidden(&kind.group, &kind.plural, &request.name, why))
}

/// A Job without options keeps its pods: worth telling (ownership, defaults per resource).
pub(crate) fn warn_of_kept_pods(request: &mut ResourceRequest, options: &DeleteOptions) {
    let kind = &request.served.kind;
    let keeps =
        kind.kind == "Job" && kind.group == "batch" && kind.dependents == Dependents::Orphan;
    if keeps && options.propagation.is_none() {
        request.warn(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
             this warning",
        );
    }
}

/// Deletes one object of the request's kind; a lost race is tried again until the deadline.
pub(crate) async fn one(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &DeleteOptions,
    namespace: &str,
    name: &str,
) -> Result<Deleted, Failure> {
    let mut options = Cow::Borrowed(options);
    loop {
        let begun = begin(api, request, &mut options, namespace, name).await?;
        if let Some(deleted) = begun.end(api, request).await? {
            return Ok(deleted);
        }
    }
}

/// A deletion that needs nothing more, or whose write has its place in the order.
pub(crate) enum DeletionProgress {
    /// There was nothing to write.
    Done(Deleted),
    /// To be written.
    Submitted {
        /// What comes of it.
        submission: Submission,
        /// The object's last state, if it goes.
        removed: Option<Object>,
    },
}

impl DeletionProgress {
    /// Waits for the end; `None` when the object, or what its end relies on, has moved since.
    pub(crate) async fn end(
        self,
        api: &ApiServer,
        request: &ResourceRequest,
    ) -> Result<Option<Deleted>, Failure> {
        let (submission, removed) = match self {
            DeletionProgress::Done(deleted) => return Ok(Some(deleted)),
            DeletionProgress::Submitted { submission, removed } => (submission, removed),
        };
        match (outcome(submission.await)?, removed) {
            (CommitOutcome::Committed(_), Some(object)) => Ok(Some(Deleted::Removed(object))),
            (CommitOutcome::Committed(committed), None) => {
                let found = shown(api, request, &committed).await?;
                Ok(Some(Deleted::Marked(found)))
            }
            (CommitOutcome::Moved(_) | CommitOutcome::Retry(_), _) => Ok(None),
        }
    }
}

/// Asks whoever is to be asked about an object as it stands now, and submits what its deletion means.
pub(crate) async fn begin(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &mut Cow<'_, DeleteOptions>,
    namespace: &str,
    name: &str,
) -> Result<DeletionProgress, Failure> {
    let served = Arc::clone(&request.served);
    let state = api.world.current();
    let Some(record) = state.get(&served.key(namespace, name)) else {
        return Err(missing(&served, name));
    };
    if options.uid.is_none() && (is_namespace(&served.kind) || is_definition(&served.kind)) {
        // What is made anew under the name of one that was seen is not deleted (ownership R150).
        options.to_mut().uid = Some(record.uid().to_owned());
    }
    let StoredObject { object: old, .. } = StoredObject::read(api, request, record).await?;
    // What the client asks for is looked at before anybody is asked about the object (R69).
    check_preconditions(request, options, record)?;
    admit::validate(api, &state, request, Operation::Delete, Some(&old), None)?;
    let said = options.to_object();
    let subject = AdmissionAttributes {
        operation: Operation::Delete,
        old: Some(&old),
        new: None,
        dry_run: options.dry_run,
        kind: None,
        options: Some(&said),
    };
    admit::review(api, request, subject, None).await?;
    // Expressions may take long.
    request.permit.check(&api.world)?;
    carry_out(api, request, options, &state, record, old).await
}

/// Deletes what was decided to go, although it may have moved since: whoever had to be asked was asked
/// about this object, and it is marked for all to see. Another under its name stays.
pub(crate) async fn finish(
    api: &ApiServer,
    request: &ResourceRequest,
    options: &DeleteOptions,
    key: &str,
    uid: &str,
) -> Result<(), Failure> {
    loop {
        let state = api.world.current();
        let Some(record) = state.get(key).filter(|record| record.uid() == uid) else {
            return Ok(());
        };
        let StoredObject { object: old, .. } = StoredObject::read(api, request, record).await?;
        let begun = carry_out(api, request, options, &state, record, old).await?;
        if begun.end(api, request).await?.is_some() {
            return Ok(());
        }
    }
}

/// Submits what the deletion of an object means.
async fn carry_out(
    api: &ApiServer,
    request: &ResourceRequest,
    options: &DeleteOptions,
    state: &World,
    record: &Arc<Record>,
    old: Object,
) -> Result<DeletionProgress, Failure> {
    let kept = |result| DeletionProgress::Done(Deleted::Marked(result));
    let (removes, new) = match decide(&request.served.kind, api.collects_garbage, options, &old) {
        DeletionDecision::Keep => {
            return shown_record(api, request, Arc::clone(record)).await.map(kept);
        }
        DeletionDecision::Mark(object) => (false, object),
        DeletionDecision::Remove(object) => (true, object),
    };
    if options.dry_run {
        return match removes {
            true => Ok(DeletionProgress::Done(Deleted::Removed(new))),
            false => Ok(kept(ResponseObject::Object(new))),
        };
    }
    let form = if removes { Cow::Borrowed(&new) } else { to_stored(api, request, &new).await? };
    let result =
        if removes { ResultingObject::Nothing(&old) } else { ResultingObject::Object(&form) };
    if matches!(form, Cow::Owned(_)) {
        // A webhook was waited for.
        request.permit.check(&api.world)?;
    }
    let mut extras = Extras::default();
    let write = operation(api, state, request, record.key(), result, &mut extras)?;
    let submission = submit(&api.world, unmoved(record), write, extras)?;
    Ok(DeletionProgress::Submitted { submission, removed: removes.then_some(new) })
}

pub(crate) fn check_preconditions(
    request: &ResourceRequest,
    options: &DeleteOptions,
    record: &Record,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let version = record.revision().to_string();
    for (what, wanted, actual) in [
        ("UID", options.uid.as_deref(), record.uid()),
        ("ResourceVersion", options.version.as_deref(), version.as_str()),
    ] {
        if wanted.is_some_and(|wanted| wanted != actual) {
            let why = format!(
                "Precondition failed: {what} in precondition: {}, {what} in object meta: {actual}",
                wanted.unwrap_or_default()
            );
            // Clients see the Kind here, but the plural where deletion has its own way.
            let own_way = is_namespace(kind) || is_definition(kind);
            let what = if own_way { &kind.plural } else { &kind.kind };
            return Err(Failure::conflict(&kind.group, what, record.name(), &why));
        }
    }
    Ok(())
}

/// The Status that answers the removal of most kinds (ownership R59).
#[must_use]
pub(crate) fn success(request: &ResourceRequest, object: &Object) -> Value {
    let kind = &request.served.kind;
    let mut details = json!({ "name": object.name(), "kind": kind.plural });
    if let Some(map) = details.as_object_mut() {
        if !kind.group.is_empty() {
            map.insert("group".into(), kind.group.as_ref().into());
        }
        if let Some(uid) = object.str_at(&["metadata", "uid"]) {
            map.insert("uid".into(), uid.into());
        }
    }
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    })
}
