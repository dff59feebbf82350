//! DELETE of one object and of a collection (R69–R77; ownership R31–R68).

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_machinery::kind::Dependents;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_world::{Guard, Record, Write};

use crate::admit::{self, Operation};
use crate::answer::Found;
use crate::api::Api;
use crate::clock::{now, seconds_after};
use crate::query::{FieldValidation, Query, check_dry_run};
use crate::read::get::missing;
use crate::request::Request;
use crate::write::commit::{Extras, Outcome, draft, propose};
use crate::write::decode;

/// What becomes of dependents, if the client said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They stay and lose the reference.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// The options of a delete.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    /// Seconds until removal.
    pub grace_seconds: Option<i64>,
    /// What becomes of dependents.
    pub propagation: Option<Propagation>,
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
    pub(crate) fn read(request: &Request) -> Result<DeleteOptions, Failure> {
        if request.body.is_empty() {
            return DeleteOptions::from_object(&from_query(&request.query)?);
        }
        let expected =
            decode::Expected::named("apimachinery.meta.v1.DeleteOptions", "DeleteOptions");
        let (value, _) =
            decode::parse(&request.content_type, &request.body, FieldValidation::Ignore, expected)?;
        match value {
            Value::Object(object) => DeleteOptions::from_object(&object),
            _ => Err(Failure::bad_request("the body is not a DeleteOptions object")),
        }
    }

    /// From a DeleteOptions object.
    pub(crate) fn from_object(object: &Object) -> Result<DeleteOptions, Failure> {
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
            (Some(true), _) | (None, Some("Orphan")) => Some(Propagation::Orphan),
            (Some(false), _) | (None, Some("Background")) => Some(Propagation::Background),
            (None, Some("Foreground")) => Some(Propagation::Foreground),
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
        if !errors.is_empty() {
            return Err(Failure::invalid("meta.k8s.io", "DeleteOptions", "", errors));
        }
        let text = |member| {
            object.str_at(&["preconditions", member]).filter(|t| !t.is_empty()).map(str::to_owned)
        };
        Ok(DeleteOptions {
            grace_seconds: object.int_at(&["gracePeriodSeconds"]),
            propagation,
            orphan_false: orphan == Some(false),
            uid: text("uid"),
            version: text("resourceVersion"),
            dry_run,
        })
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
    Marked(Found),
}

/// DELETE of one object.
pub(crate) async fn delete(
    api: &Api,
    request: &mut Request,
) -> Result<(DeleteOptions, Deleted), Failure> {
    let options = DeleteOptions::read(request)?;
    warn_of_kept_pods(request, &options);
    let name = request.name.clone();
    let namespace = request.namespace.clone();
    let deleted = one(api, request, &options, &namespace, &name).await?;
    Ok((options, deleted))
}

/// A Job without options keeps its pods: worth telling (ownership, defaults per resource).
pub(crate) fn warn_of_kept_pods(request: &mut Request, options: &DeleteOptions) {
    if request.served.kind.kind == "Job" && options.propagation.is_none() {
        request.warn(
            "child pods are preserved by default when jobs are deleted; set \
             propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress \
             this warning",
        );
    }
}

/// Deletes one object of the request's kind; a lost race is tried again until the deadline.
pub(crate) async fn one(
    api: &Api,
    request: &mut Request,
    options: &DeleteOptions,
    namespace: &str,
    name: &str,
) -> Result<Deleted, Failure> {
    let served = Arc::clone(&request.served);
    let key = served.key(namespace, name);
    loop {
        let state = api.world.current();
        let Some(record) = state.get(&key).cloned() else { return Err(missing(&served, name)) };
        let old = served.read(&record)?;
        admit::validate(api, request, Operation::Delete, Some(&old), None)?;
        check_preconditions(request, options, &record)?;
        let step = decide(api, request, options, &old);
        let removes = matches!(step, Step::Remove(_));
        let new = match step {
            Step::Keep => return Ok(Deleted::Marked(Found::Record(record))),
            Step::Mark(object) | Step::Remove(object) => object,
        };
        if options.dry_run {
            return Ok(if removes {
                Deleted::Removed(new)
            } else {
                Deleted::Marked(Found::Object(new))
            });
        }
        let own = Guard::At { key: Arc::clone(record.key()), revision: Some(record.revision()) };
        let mut extras = Extras::default();
        let write = if removes {
            admit::release(api, &state, request, &old, &mut extras)?;
            Write::Delete { key: Arc::clone(record.key()) }
        } else {
            Write::Put { key: Arc::clone(record.key()), draft: draft(&served, &new)? }
        };
        match propose(&api.world, own, write, extras).await? {
            Outcome::Committed(_) if removes => return Ok(Deleted::Removed(new)),
            Outcome::Committed(committed) => {
                let record = committed.records.into_iter().next().flatten();
                return record
                    .map(|record| Deleted::Marked(Found::Record(record)))
                    .ok_or_else(|| Failure::internal("the commit answered without the object"));
            }
            Outcome::Moved(_) | Outcome::Retry => {}
        }
    }
}

fn check_preconditions(
    request: &Request,
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
            // Clients see the Kind here, but the plural for namespaces.
            let is_namespace = kind.group.is_empty() && kind.kind == "Namespace";
            let what = if is_namespace { &kind.plural } else { &kind.kind };
            return Err(Failure::conflict(&kind.group, what, record.name(), &why));
        }
    }
    Ok(())
}

enum Step {
    /// Nothing changes.
    Keep,
    /// The object stays, with these marks.
    Mark(Object),
    /// The object goes; its last state.
    Remove(Object),
}

fn decide(api: &Api, request: &Request, options: &DeleteOptions, old: &Object) -> Step {
    if request.served.kind.kind == "Namespace" && request.served.kind.group.is_empty() {
        return decide_namespace(old);
    }
    if request.served.kind.kind == "CustomResourceDefinition" {
        return decide_definition(old);
    }
    let mut new = old.clone();
    if api.collects_garbage {
        settle_finalizers(&mut new, request.served.kind.dependents, options.propagation);
    }
    let marked = old.str_at(&["metadata", "deletionTimestamp"]).is_some();
    let stored_grace = old.int_at(&["metadata", "deletionGracePeriodSeconds"]);
    let graceful = request.served.kind.kind == "Pod" && request.served.kind.group.is_empty();
    if graceful {
        let asked = pod_grace(options, old);
        match stored_grace.filter(|_| marked) {
            // Already going: the period may shrink, never grow (ownership R55–R57).
            Some(stored) if stored > 0 && asked.is_none_or(|asked| asked >= stored) => {
                return Step::Keep;
            }
            Some(stored) if stored > 0 => {
                let asked = asked.unwrap_or(0);
                mark(&mut new, asked);
                return if asked == 0 { finish(new) } else { Step::Mark(new) };
            }
            _ => {}
        }
        if !marked {
            let grace = asked.unwrap_or(0);
            mark(&mut new, grace);
            move_generation(&mut new);
            return if grace == 0 { finish(new) } else { Step::Mark(new) };
        }
    }
    if new.list_at(&["metadata", "finalizers"]).is_empty() {
        return Step::Remove(new);
    }
    if !marked {
        mark(&mut new, 0);
        move_generation(&mut new);
    }
    if new == *old { Step::Keep } else { Step::Mark(new) }
}

fn finish(object: Object) -> Step {
    if object.list_at(&["metadata", "finalizers"]).is_empty() {
        Step::Remove(object)
    } else {
        Step::Mark(object)
    }
}

/// A namespace is marked and waits for its content to go (ownership R149, R150).
fn decide_namespace(old: &Object) -> Step {
    if old.str_at(&["metadata", "deletionTimestamp"]).is_some() {
        let waits = !old.list_at(&["spec", "finalizers"]).is_empty()
            || !old.list_at(&["metadata", "finalizers"]).is_empty();
        return if waits { Step::Keep } else { Step::Remove(old.clone()) };
    }
    let mut new = old.clone();
    new.map_mut("metadata").insert("deletionTimestamp".into(), now().into());
    new.map_mut("status").insert("phase".into(), "Terminating".into());
    Step::Mark(new)
}

/// A definition is marked and waits for its instances to go (ownership R160).
fn decide_definition(old: &Object) -> Step {
    if old.str_at(&["metadata", "deletionTimestamp"]).is_some() {
        return if old.list_at(&["metadata", "finalizers"]).is_empty() {
            Step::Remove(old.clone())
        } else {
            Step::Keep
        };
    }
    let mut new = old.clone();
    tenure_structural::crd::begin_deletion(&mut new, &now());
    mark(&mut new, 0);
    move_generation(&mut new);
    Step::Mark(new)
}

/// The period a pod gets; `None` means "not said" for a pod that is already going (ownership R52).
fn pod_grace(options: &DeleteOptions, pod: &Object) -> Option<i64> {
    let asked = options.grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let marked = pod.str_at(&["metadata", "deletionTimestamp"]).is_some();
    let settled = pod.str_at(&["spec", "nodeName"]).is_none_or(str::is_empty)
        || matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"));
    if settled && !marked {
        return Some(0);
    }
    if marked {
        return asked;
    }
    asked.or_else(|| pod.int_at(&["spec", "terminationGracePeriodSeconds"])).or(Some(30))
}

fn mark(object: &mut Object, grace_seconds: i64) {
    let metadata = object.map_mut("metadata");
    metadata.insert("deletionTimestamp".into(), seconds_after(grace_seconds).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace_seconds.into());
}

fn move_generation(object: &mut Object) {
    let generation = object.int_at(&["metadata", "generation"]).unwrap_or(0);
    if generation > 0 {
        let next = generation.saturating_add(1);
        object.map_mut("metadata").insert("generation".into(), next.into());
    }
}

/// Which of the two collector finalizers ends up on the object (ownership R39–R47).
fn settle_finalizers(object: &mut Object, default: Dependents, propagation: Option<Propagation>) {
    const OWN: [&str; 2] = ["orphan", "foregroundDeletion"];
    if default == Dependents::Unsupported {
        return;
    }
    let present = object
        .list_at(&["metadata", "finalizers"])
        .iter()
        .filter_map(Value::as_str)
        .find_map(|name| OWN.into_iter().find(|own| *own == name));
    let wanted = match (propagation, present, default) {
        (Some(Propagation::Orphan), _, _) | (None, None, Dependents::Orphan) => Some("orphan"),
        (Some(Propagation::Foreground), _, _) => Some("foregroundDeletion"),
        (Some(Propagation::Background), _, _) => None,
        (None, present, _) => present,
    };
    let metadata = object.map_mut("metadata");
    let mut finalizers: Vec<Value> = match metadata.remove("finalizers") {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    if present == wanted && present.is_some() {
        // Untouched lists keep their order.
    } else {
        finalizers.retain(|name| !name.as_str().is_some_and(|name| OWN.contains(&name)));
        finalizers.extend(wanted.map(Value::from));
    }
    if !finalizers.is_empty() {
        metadata.insert("finalizers".into(), Value::Array(finalizers));
    }
}

/// The Status that answers the removal of most kinds (ownership R59).
#[must_use]
pub(crate) fn success(request: &Request, object: &Object) -> Value {
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
