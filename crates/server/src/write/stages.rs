//! What an object goes through on its way into the store, whether it is new or replaces another (R53, R161).
//!
//! ```text
//!   identify → default → restrict → opt in → keep the other half → own fields
//!            → mutate → name → prepare → validate → warn → admit → allocate → settle
//! ```
//!
//! Every step sees the object as it stands, if there is one, and as it should become. From `mutate` on all
//! of them judge against one World. Nothing is stored here: what comes out is ready to be proposed.

use std::sync::Arc;

use serde_json::Value;
use tenure_core::Revision;
use tenure_kinds::reference;
use tenure_kinds::retention::is_subject;
use tenure_machinery::kind::StatusMeta;
use tenure_machinery::{Cx, Errors, Failure, Kind, Object, ObjectExt, meta};
use tenure_world::{Record, World};

use crate::admit::policy::AdmissionAttributes;
use crate::admit::{self, Operation};
use crate::api::ApiServer;
use crate::clock::now;
use crate::query::{WriteOptions, write_options};
use crate::reference::ReferenceContext;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::write::commit::Extras;
use crate::write::managed::ManagedFieldsMode;
use crate::write::{create, decode, managed};

/// An object as it is stored.
pub(crate) struct StoredObject<'a> {
    /// The record.
    pub(crate) record: &'a Arc<Record>,
    /// What it says.
    pub(crate) object: Object,
}

impl<'a> StoredObject<'a> {
    /// Reads a record.
    ///
    /// # Errors
    /// It cannot be shown as the kind of the request.
    pub(crate) async fn read(
        api: &ApiServer,
        request: &ResourceRequest,
        record: &'a Arc<Record>,
    ) -> Result<StoredObject<'a>, Failure> {
        let object = api.conversions.read(&request.user.name, &request.served, record).await?;
        Ok(StoredObject { record, object })
    }
}

/// An object that is ready to be stored.
pub(crate) struct PreparedObject {
    /// What it replaces.
    pub(crate) old: Option<Object>,
    /// What it is.
    pub(crate) new: Object,
    /// What goes with it.
    pub(crate) extras: Extras,
    /// The state it was judged in.
    pub(crate) state: Arc<World>,
}

/// Takes a decoded object through all steps, as a new one or in place of `live`.
pub(crate) async fn prepare(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &WriteOptions,
    live: Option<StoredObject<'_>>,
    object: Object,
    fields: ManagedFieldsMode,
) -> Result<PreparedObject, Failure> {
    let mut write = ObjectWrite::new(api, request, options, live, object);
    write.identify();
    write.default();
    write.restrict().await?;
    write.opt_in();
    write.keep_other_half();
    write.own_fields(fields);
    write.mutate().await?;
    write.name();
    write.prepare();
    write.validate().await?;
    // Whoever refuses the object from here on leaves its writer with what there is to say about it.
    write.warn();
    write.admit().await?;
    write.allocate()?;
    Ok(write.settle())
}

/// An object on its way.
struct ObjectWrite<'a> {
    api: &'a ApiServer,
    request: &'a mut ResourceRequest,
    options: &'a WriteOptions,
    served: Arc<ServedKind>,
    operation: Operation,
    cx: Cx,
    /// The revision of what stands.
    revision: Option<Revision>,
    old: Option<Object>,
    new: Object,
    state: Arc<World>,
    extras: Extras,
}

impl<'a> ObjectWrite<'a> {
    fn new(
        api: &'a ApiServer,
        request: &'a mut ResourceRequest,
        options: &'a WriteOptions,
        live: Option<StoredObject<'_>>,
        new: Object,
    ) -> ObjectWrite<'a> {
        let (revision, uid, old) = match live {
            Some(live) => {
                let record = live.record;
                (Some(record.revision()), record.uid().to_owned(), Some(live.object))
            }
            None => (None, api.chance.uid(), None),
        };
        request.restates_identity =
            old.as_ref().is_some_and(|old: &Object| restates_identity(&new, old));
        let labels = new.map_at(&["metadata", "labels"]);
        let cx = Cx {
            now: now(),
            uid,
            subresource: old.as_ref().and_then(|_| subresource_name(&request.subresource)),
            unlabelled: old.is_none() && labels.is_none_or(Object::is_empty),
        };
        ObjectWrite {
            served: Arc::clone(&request.served),
            operation: if old.is_some() { Operation::Update } else { Operation::Create },
            state: api.world.current(),
            extras: Extras::default(),
            api,
            request,
            options,
            cx,
            revision,
            old,
            new,
        }
    }

    fn kind(&self) -> &Kind {
        &self.served.kind
    }

    /// Metadata that only the server sets is dropped, or as it was (R56–R58, R65).
    fn identify(&mut self) {
        match (&self.old, self.revision) {
            (Some(old), Some(revision)) => {
                meta::keep_stored_meta(&mut self.new, old);
                // From here on the object counts as stored: rules for new objects do not apply.
                let version = revision.to_string().into();
                self.new.map_mut("metadata").insert("resourceVersion".into(), version);
            }
            _ => drop_system_metadata(&mut self.new, &self.served.kind),
        }
    }

    fn default(&mut self) {
        self.served.kind.rules.default(&mut self.new);
    }

    /// What nodes may touch is judged on the object as it was sent.
    async fn restrict(&mut self) -> Result<(), Failure> {
        let judge = || admit::restrict(self.api, self.request, self.old.as_ref(), &self.new);
        self.request.consultation.settle(judge).await
    }

    /// Features that objects opt in to are settled.
    fn opt_in(&mut self) {
        let old = self.old.as_ref();
        admit::settle_retention(self.api, self.request, old, &mut self.new);
        self.api.downward.settle(&self.served.kind, &mut self.new, old);
    }

    /// A write of the status leaves the rest as it was, and any other leaves the status (R81).
    fn keep_other_half(&mut self) {
        let Some(old) = &self.old else { return };
        let kind = &self.served.kind;
        if self.cx.subresource == Some("status") {
            let new = std::mem::take(&mut self.new);
            self.new = status_only(new, old, kind.status.unwrap_or(StatusMeta::Frozen));
        } else if kind.status.is_some() && self.cx.subresource != Some("approval") {
            copy_member(&mut self.new, old, "status");
        }
    }

    /// Whose fields are whose (R92, R94).
    fn own_fields(&mut self, fields: ManagedFieldsMode) {
        if fields == ManagedFieldsMode::Written {
            let manager = self.request.manager(self.options.manager.as_deref());
            let (old, cx) = (self.old.as_ref(), &self.cx);
            managed::record(&self.served, old, &mut self.new, &manager, cx.subresource, &cx.now);
        }
        decode::settle_empty(&self.served, &mut self.new);
    }

    /// Admission changes the object as the cluster and its users want it, or refuses.
    async fn mutate(&mut self) -> Result<(), Failure> {
        self.state = match self.old {
            Some(_) => self.api.world.current(),
            None => admit::state_for_new(self.api, self.request, &self.new).await,
        };
        let (api, operation, state) = (self.api, self.operation, &self.state);
        let (old, new, extras) = (self.old.as_ref(), &mut self.new, &mut self.extras);
        let request = &*self.request;
        let mutate = || {
            *extras = Extras::default();
            admit::mutate(api, state, request, operation, old, new, extras)
        };
        request.consultation.settle(mutate).await?;
        if !api.admission.is_empty() {
            self.mutate_dynamically().await?;
        }
        for repeated in meta::dedupe_owner_references(&mut self.new) {
            self.request.warn(repeated);
        }
        Ok(())
    }

    /// Policies and webhooks change the object, and the cluster once more what they left.
    async fn mutate_dynamically(&mut self) -> Result<(), Failure> {
        let (api, operation) = (self.api, self.operation);
        let said = self.said();
        let managers = self.new.at(&["metadata", "managedFields"]).cloned();
        let changed = {
            let (old, state, extras) = (self.old.as_ref(), &self.state, &mut self.extras);
            let dry_run = self.options.dry_run;
            let options = Some(&said);
            let subject =
                AdmissionAttributes { operation, old, new: None, dry_run, kind: None, options };
            let settle = |request: &mut ResourceRequest, new: &mut Object| {
                // Nobody moves an object into a namespace that its writer did not name.
                decode::settle_namespace(request, new)?;
                *extras = Extras::default();
                admit::mutate(api, state, request, operation, old, new, extras)
            };
            admit::mutate_dynamically(api, self.request, subject, Some(&mut self.new), settle)
                .await?
        };
        if changed {
            // Whoever changes an object changes nothing that only the server sets.
            self.identify();
            decode::settle_namespace(self.request, &mut self.new)?;
            self.keep_name()?;
            self.opt_in();
            self.keep_other_half();
            self.keep_managers(managers);
        }
        Ok(())
    }

    /// What a PUT or an apply makes is called what the path says; others may name what a POST makes.
    fn keep_name(&self) -> Result<(), Failure> {
        let (wanted, name) = (self.request.name.as_str(), self.new.name());
        if self.old.is_some() || wanted.is_empty() || name == wanted {
            return Ok(());
        }
        Err(Failure::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        )))
    }

    /// Whose fields are whose is not for others to say in a way that nobody can read.
    fn keep_managers(&mut self, managers: Option<Value>) {
        if managed::is_readable(&self.new) {
            return;
        }
        self.request.warn(
            ".metadata.managedFields was in an invalid state after admission; this could be caused by an \
             outdated mutating admission controller; please fix your requests",
        );
        let metadata = self.new.map_mut("metadata");
        match managers {
            Some(managers) => metadata.insert("managedFields".into(), managers),
            None => metadata.remove("managedFields"),
        };
    }

    /// The options of the request, as policies and webhooks see them.
    fn said(&self) -> Object {
        let kind =
            if self.operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
        write_options(&self.request.query, kind, self.options.dry_run)
    }

    /// What only the server sets, and a name where there is only the beginning of one (R56–R59).
    fn name(&mut self) {
        if self.old.is_some() {
            return;
        }
        if self.new.name().is_empty() && !create::generate_name(&self.new).is_empty() {
            create::draw_name(self.api, &mut self.new);
        }
        fill_system_metadata(&mut self.new, &self.served.kind, &self.cx);
    }

    /// What the kind sets by itself.
    fn prepare(&mut self) {
        let rules = &self.served.kind.rules;
        let Some(old) = &self.old else {
            rules.prepare_create(&mut self.new, &self.cx);
            return;
        };
        if self.cx.subresource == Some("status") {
            rules.prepare_status(&mut self.new, old, &self.cx);
            return;
        }
        rules.prepare_update(&mut self.new, old, &self.cx);
        if self.served.kind.generation {
            move_generation(&self.served.kind, &mut self.new, old);
        }
    }

    /// The rules of the kind; those that take long are asked elsewhere.
    async fn validate(&mut self) -> Result<(), Failure> {
        let api = self.api;
        let (of, subresource) = (Arc::clone(&self.served), self.cx.subresource);
        let (retention, downward) = (Arc::clone(&api.retention), api.downward);
        let around = ReferenceContext::now(api);
        let check = move |(new, old): &(Object, Option<Object>), errors: &mut Errors| {
            let (kind, old) = (&of.kind, old.as_ref());
            if subresource.is_none() {
                kind.rules.validate_alone(new, old, errors);
                if !errors.is_empty() {
                    return;
                }
            }
            match old {
                Some(old) => validate_change(kind, new, old, subresource, errors),
                None => kind.validate_new(new, errors),
            }
            if is_subject(kind) {
                retention.validate(new, old, errors);
            }
            downward.validate(kind, new, old, errors);
            reference::validate(kind, new, old, &around, errors);
            admit::check_expressions(kind, new, old, errors);
            if kind.tells_once() {
                errors.dedupe();
            }
        };
        let both = (std::mem::take(&mut self.new), self.old.take());
        let (both, errors) = api.offload.check(&self.request.user, both, check).await?;
        (self.new, self.old) = both;
        if errors.is_empty() {
            return Ok(());
        }
        let name = self.old.as_ref().unwrap_or(&self.new).name();
        Err(Failure::invalid(self.served.refusing_group(), &self.kind().kind, name, errors))
    }

    fn warn(&mut self) {
        let kind = &self.served.kind;
        let found = meta::finalizer_warnings(&self.new, kind);
        let found = found.into_iter().chain(kind.rules.warnings(&self.new, self.old.as_ref()));
        for warning in found {
            self.request.warn(warning);
        }
    }

    /// Admission refuses what may not happen.
    async fn admit(&mut self) -> Result<(), Failure> {
        let (api, operation) = (self.api, self.operation);
        let (old, new) = (self.old.as_ref(), Some(&self.new));
        let consultation = self.request.consultation.clone();
        let annotations = self.request.annotations.len();
        let judge = || {
            self.request.annotations.truncate(annotations);
            admit::validate(api, &self.state, self.request, operation, old, new)
        };
        consultation.settle(judge).await?;
        if !api.admission.is_empty() {
            let said = self.said();
            let (dry_run, options) = (self.options.dry_run, Some(&said));
            let subject = AdmissionAttributes { operation, old, new, dry_run, kind: None, options };
            admit::enforce(api, self.request, subject).await?;
        }
        if let Some(old) = old.filter(|_| api.plugins.on(admit::AdmissionPlugin::PodSecurity)) {
            admit::judge_existing_pods(api, &self.state, self.request, old, &self.new).await?;
        }
        for warning in admit::warnings(api, &self.state, self.request, old, &self.new) {
            self.request.warn(warning);
        }
        Ok(())
    }

    /// Takes what the object needs of what there is little of, to be committed with it.
    ///
    /// Of a POST the name is looked at last: what it would take is refused first. A PUT or an apply that
    /// finds the object goes on to update it, and followers want to know that it is there.
    fn allocate(&mut self) -> Result<(), Failure> {
        let there = match self.old {
            Some(_) => None,
            None => self.state.get(&self.served.key(self.new.namespace(), self.new.name())),
        };
        if there.is_none() || self.request.verb == "create" {
            let (old, new) = (self.old.as_ref(), &mut self.new);
            let (state, extras) = (&self.state, &mut self.extras);
            admit::allocate(self.api, state, self.request, old, new, extras)?;
        }
        match there {
            Some(record) => Err(exists(self.kind(), self.new.name(), record.deleting())),
            None => Ok(()),
        }
    }

    /// A write that changes nothing but times changes nothing (R62).
    fn settle(mut self) -> PreparedObject {
        if let Some(old) = &self.old {
            managed::settle(old, &mut self.new);
        }
        let ObjectWrite { old, new, extras, state, .. } = self;
        PreparedObject { old, new, extras, state }
    }
}

/// 409: the name is taken.
pub(crate) fn exists(kind: &Kind, name: &str, deleting: bool) -> Failure {
    let prefix = if deleting { "object is being deleted: " } else { "" };
    Failure::already_exists(&kind.group, &kind.plural, name, prefix)
}

fn subresource_name(text: &str) -> Option<&'static str> {
    ["status", "scale", "finalize", "ephemeralcontainers", "resize", "approval", "binding"]
        .into_iter()
        .find(|name| *name == text)
}

fn validate_change(
    kind: &Kind,
    new: &Object,
    old: &Object,
    subresource: Option<&str>,
    errors: &mut Errors,
) {
    meta::validate_meta_update(new, old, kind, errors);
    match subresource {
        Some("status") => kind.rules.validate_status(new, old, errors),
        Some("ephemeralcontainers") => {
            kind.rules.validate(new, errors);
            tenure_kinds::validate_ephemeral_update(new, old, errors);
        }
        Some("resize") => {
            kind.rules.validate(new, errors);
            tenure_kinds::validate_resize(new, old, errors);
        }
        _ => kind.validate_change(new, old, errors),
    }
}

/// Whether an object that was sent names the stored one as it stands, as whoever read it before would.
fn restates_identity(new: &Object, old: &Object) -> bool {
    ["uid", "creationTimestamp"].iter().all(|member| {
        let path = ["metadata", *member];
        new.str_at(&path) == old.str_at(&path)
    })
}

/// Drops what only the server sets (R56–R58, ownership R74).
fn drop_system_metadata(object: &mut Object, kind: &Kind) {
    let metadata = object.map_mut("metadata");
    for member in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(member);
    }
    // Of kinds that do not count their changes the number is the client's (R61).
    if kind.generation || metadata.get("generation").and_then(Value::as_i64) == Some(0) {
        metadata.remove("generation");
    }
}

fn fill_system_metadata(object: &mut Object, kind: &Kind, cx: &Cx) {
    let metadata = object.map_mut("metadata");
    metadata.insert("uid".into(), cx.uid.as_str().into());
    metadata.insert("creationTimestamp".into(), cx.now.as_str().into());
    if kind.generation {
        metadata.insert("generation".into(), 1.into());
    }
}

/// Everything as stored but the status, and what of the metadata this kind lets through (R81).
fn status_only(new: Object, old: &Object, rule: StatusMeta) -> Object {
    let mut result = old.clone();
    copy_member(&mut result, &new, "status");
    let Some(Value::Object(sent)) = new.get("metadata") else { return result };
    let stored = result.map_mut("metadata");
    let kept: &[&str] = match rule {
        StatusMeta::Frozen => {
            copy_member(stored, sent, "managedFields");
            return result;
        }
        StatusMeta::KeepLabels => &["labels"],
        StatusMeta::KeepOwners => &["ownerReferences"],
        StatusMeta::Open => &[],
    };
    let mut metadata = sent.clone();
    for member in kept {
        match stored.get(*member) {
            Some(value) => metadata.insert((*member).to_owned(), value.clone()),
            None => metadata.remove(*member),
        };
    }
    *stored = metadata;
    result
}

fn copy_member(into: &mut Object, from: &Object, member: &str) {
    match from.get(member) {
        Some(value) => into.insert(member.to_owned(), value.clone()),
        None => into.remove(member),
    };
}

/// Counts a change outside metadata and status (R61).
fn move_generation(kind: &Kind, new: &mut Object, old: &Object) {
    // Without an endpoint of its own, status is content like any other.
    let counts = |name: &str| match name {
        "metadata" | "kind" | "apiVersion" => false,
        "status" => kind.status.is_none(),
        _ => true,
    };
    let same = new.iter().filter(|(n, _)| counts(n)).eq(old.iter().filter(|(n, _)| counts(n)));
    if !same || kind.rules.counts(new, old) {
        let generation = old.int_at(&["metadata", "generation"]).unwrap_or(0).saturating_add(1);
        new.map_mut("metadata").insert("generation".into(), generation.into());
    }
}
