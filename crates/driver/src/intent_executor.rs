//! Carries out what a controller wants, in order, and tells what came of it (PU3).

use std::sync::Arc;

use futures::future::join_all;
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_server::internal_client::InternalClient;
use tenure_server::internal_writer::{
    Actor, InternalWriteOutcome, InternalWriter, RequestedPropagation,
};
use tenure_workload::intent::UNSIGNED;
use tenure_workload::{
    Act, BuiltinResource, ControllerIntent, EventReport, FailedIntent, Reliance, Verb,
};
use tenure_world::{Precondition, Record};

use crate::event_publisher::EventPublisher;
use crate::recorder::Notice;
use crate::view::Places;

/// Writes for one controller.
pub(crate) struct IntentExecutor {
    pub(crate) writer: InternalWriter,
    pub(crate) places: Arc<Places>,
    pub(crate) teller: Arc<EventPublisher>,
    /// The source of its events.
    pub(crate) component: &'static str,
    /// Whose name its writes bear, and whose fields they are.
    pub(crate) actor: Actor,
}

impl IntentExecutor {
    /// Does one thing after the other, or several at once where they allow it; gives back what was
    /// refused.
    pub(crate) async fn carry_out(&self, intents: Vec<ControllerIntent>) -> Vec<FailedIntent> {
        let mut refused = Vec::new();
        let mut left = intents.into_iter().peekable();
        while let Some(first) = left.next() {
            let mut run = vec![first];
            while let Some(next) = left.next_if(|next| next.together) {
                run.push(next);
            }
            let mut stops = false;
            let independent: Vec<bool> = run.iter().map(|intent| intent.independent).collect();
            let results = join_all(run.into_iter().map(|intent| self.one(intent))).await;
            for (result, independent) in results.into_iter().zip(independent) {
                if let Some(no) = result {
                    stops |= !independent;
                    refused.push(no);
                }
            }
            if stops {
                break;
            }
        }
        refused
    }

    /// Does one thing.
    async fn one(&self, intent: ControllerIntent) -> Option<FailedIntent> {
        let ControllerIntent { act, relies_on, forgiven, done, refused, .. } = intent;
        if let Act::Tell(note) = &act {
            self.tell(note, "", "");
            return None;
        }
        let (verb, resource, name) = about(&act);
        match self.write(act, &relies_on).await {
            Ok(made) => {
                if let Some(note) = done {
                    self.tell(&note, if made.is_empty() { &name } else { &made }, "");
                }
                None
            }
            Err(failure) if forgiven.contains(&failure.refusal()) => None,
            Err(failure) => {
                // What somebody else changed meanwhile is tried again with what is there then.
                let conflict = failure.reason == "Conflict";
                let no = refusal(verb, resource, name, &failure);
                if let Some(note) = refused.filter(|_| !no.namespace_terminating && !conflict) {
                    self.tell(&note, &no.name, &no.message);
                }
                Some(no)
            }
        }
    }

    /// Writes; gives back the name that an object got.
    async fn write(&self, act: Act, relies_on: &[Reliance]) -> Result<String, Failure> {
        let guards = relies_on.iter().flat_map(|reliance| self.guards(reliance)).collect();
        match act {
            Act::Create { resource, object } => {
                let namespace = object.namespace().to_owned();
                let at = (resource.group(), resource.plural());
                let made = self.writer.create(self.actor, at, &namespace, *object, guards).await?;
                Ok(made.name().to_owned())
            }
            Act::Update { resource, object, endpoint, revision } => {
                let record = self.record(resource, object.namespace(), object.name())?;
                check_revision(resource, &record, Some(revision))?;
                let written = self
                    .writer
                    .update(self.actor, &record, endpoint.subresource(), *object, guards)
                    .await?;
                self.settled(resource, &record, &written)
            }
            Act::Delete {
                resource,
                namespace,
                name,
                uid,
                revision,
                propagation,
                grace_seconds,
            } => {
                let propagation = propagation.map(propagated);
                loop {
                    let record = match self.record(resource, &namespace, &name) {
                        Ok(record) if record.uid() == uid => record,
                        // Gone, or another object under its name: what was wanted has happened.
                        _ => return Ok(name),
                    };
                    check_revision(resource, &record, revision)?;
                    let written = self
                        .writer
                        .delete(
                            self.actor,
                            &record,
                            propagation,
                            grace_seconds,
                            Vec::clone(&guards),
                        )
                        .await?;
                    // Without a revision the deletion stands whatever else has changed.
                    if !matches!(written, InternalWriteOutcome::Moved)
                        || revision.is_some()
                        || !guards.is_empty()
                    {
                        return self.settled(resource, &record, &written);
                    }
                }
            }
            Act::Remove { object, propagation } => {
                let propagation = propagation.map(propagated);
                loop {
                    let state = self.writer.world().current();
                    let key = self.writer.kinds().key_of(
                        &object.group,
                        &object.resource,
                        &object.namespace,
                        &object.name,
                    );
                    let record = key.and_then(|key| state.get(&key).cloned());
                    let Some(record) = record.filter(|record| record.uid() == object.uid) else {
                        return Ok(object.name);
                    };
                    let actor = self.actor;
                    let written =
                        self.writer.delete(actor, &record, propagation, None, Vec::new()).await?;
                    if !matches!(written, InternalWriteOutcome::Moved) {
                        return Ok(object.name);
                    }
                }
            }
            Act::Apply { resource, config } => {
                let at = (resource.group(), resource.plural());
                let name = config.name().to_owned();
                self.writer.apply(self.actor, at, *config).await?;
                Ok(name)
            }
            Act::IssueToken { mut object, revision, account, account_uid } => {
                let (at, namespace) = (BuiltinResource::Secrets, object.namespace().to_owned());
                let record = self.record(at, &namespace, object.name())?;
                check_revision(at, &record, Some(revision))?;
                let token = self.writer.issue_token(&record, &account, &account_uid)?;
                object.map_mut("data").insert("token".into(), token.into());
                let written = self.writer.update(self.actor, &record, "", *object, guards).await?;
                self.settled(at, &record, &written)
            }
            Act::SignCertificate { approved, revision, node, request } => {
                self.sign_certificate(*approved, revision, &node, &request, guards).await
            }
            Act::CheckTypes { policy, revision } => {
                self.check_types(*policy, revision, guards).await
            }
            Act::PutScale { path, scale } => {
                let client = InternalClient::new(&self.writer, self.actor.account);
                client.put(self.actor.manager, &path, &scale).await?;
                Ok(scale.name().to_owned())
            }
            Act::Touch { path, name } => {
                let client = InternalClient::new(&self.writer, self.actor.account);
                client.merge(self.actor.manager, &path, &json!({})).await?;
                Ok(name)
            }
            Act::RemoveElsewhere { path, name, uid } => {
                let client = InternalClient::new(&self.writer, self.actor.account);
                let preconditions = (!uid.is_empty()).then(|| json!({ "uid": uid }));
                let options = json!({
                    "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
                    "preconditions": preconditions,
                });
                client.delete(self.actor.manager, &path, &options).await?;
                Ok(name)
            }
            Act::Tell(_) => Ok(String::new()),
        }
    }

    /// Has the expressions of a policy compiled against the kinds that it is about, and writes down what came
    /// of it.
    async fn check_types(
        &self,
        mut policy: Object,
        revision: Revision,
        guards: Vec<Precondition>,
    ) -> Result<String, Failure> {
        let at = BuiltinResource::ValidatingAdmissionPolicies;
        let record = self.record(at, "", policy.name())?;
        check_revision(at, &record, Some(revision))?;
        let warnings = self.writer.expression_warnings(self.actor, &record, &policy).await?;
        let generation = policy.int_at(&["metadata", "generation"]);
        let status = policy.map_mut("status");
        status.insert("observedGeneration".into(), generation.into());
        let checked = match warnings.is_empty() {
            true => json!({}),
            false => json!({ "expressionWarnings": warnings }),
        };
        status.insert("typeChecking".into(), checked);
        let written = self.writer.update(self.actor, &record, "status", policy, guards).await?;
        self.settled(at, &record, &written)
    }

    /// Has a certificate signed, then approves the request and puts the certificate into its status.
    async fn sign_certificate(
        &self,
        approved: Object,
        revision: Revision,
        node: &str,
        request: &str,
        guards: Vec<Precondition>,
    ) -> Result<String, Failure> {
        let at = BuiltinResource::CertificateSigningRequests;
        let record = self.record(at, "", approved.name())?;
        check_revision(at, &record, Some(revision))?;
        let Some(signed) = self.writer.sign_certificate(request, node) else {
            // Nobody signs here: the request waits for somebody else.
            return Ok(approved.name().to_owned());
        };
        let certificate = signed.map_err(|why| Failure::new(422, UNSIGNED, why))?;
        let mut signed = approved.clone();
        let written = self.writer.update(self.actor, &record, "approval", approved, guards).await?;
        let InternalWriteOutcome::Stored(record) = written else {
            return Err(moved(at, record.name()));
        };
        signed.map_mut("status").insert("certificate".into(), certificate.into());
        let written = self.writer.update(self.actor, &record, "status", signed, Vec::new()).await?;
        self.settled(at, &record, &written)
    }

    fn record(
        &self,
        at: BuiltinResource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Record>, Failure> {
        let state = self.writer.world().current();
        let record = state.get(&self.places.key(at, namespace, name)).cloned();
        record.ok_or_else(|| Failure::not_found(at.group(), at.plural(), name))
    }

    fn settled(
        &self,
        at: BuiltinResource,
        record: &Record,
        written: &InternalWriteOutcome,
    ) -> Result<String, Failure> {
        match written {
            InternalWriteOutcome::Stored(_) | InternalWriteOutcome::Gone => {
                Ok(record.name().to_owned())
            }
            InternalWriteOutcome::Moved => Err(moved(at, record.name())),
        }
    }

    fn guards(&self, reliance: &Reliance) -> Vec<Precondition> {
        let vacant = |prefix: String| Precondition::Vacant { prefix: prefix.into() };
        match reliance {
            Reliance::Living { resource, namespace, name, uid } => vec![Precondition::Living {
                key: self.places.key(*resource, namespace, name).into(),
                uid: uid.as_str().into(),
            }],
            Reliance::At { resource, namespace, name, revision } => vec![Precondition::At {
                key: self.places.key(*resource, namespace, name).into(),
                revision: *revision,
            }],
            Reliance::NoInstances { definition } => {
                let kinds = self.writer.kinds();
                let kind = kinds.defined_by(definition);
                kind.map(|served| vacant(served.prefix.clone())).into_iter().collect()
            }
            Reliance::NamespaceEmpty { namespace } => {
                let kinds = self.writer.kinds();
                kinds.in_namespaces().map(|served| vacant(served.collection(namespace))).collect()
            }
        }
    }

    fn tell(&self, note: &EventReport, name: &str, error: &str) {
        let about = &note.about;
        let mut object = json!({
            "kind": about.resource.kind(),
            "apiVersion": about.resource.api_version(),
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.revision.to_string(),
        });
        if let (Some(object), false) = (object.as_object_mut(), about.namespace.is_empty()) {
            object.insert("namespace".into(), about.namespace.as_str().into());
        }
        let about = match object {
            Value::Object(object) => object,
            _ => Object::new(),
        };
        self.teller.tell(Notice {
            source: self.component,
            about,
            warning: note.warning,
            reason: note.reason.clone(),
            message: note.words(name, error),
        });
    }
}

fn propagated(wanted: tenure_workload::IntentPropagation) -> RequestedPropagation {
    match wanted {
        tenure_workload::IntentPropagation::Background => RequestedPropagation::Background,
        tenure_workload::IntentPropagation::Foreground => RequestedPropagation::Foreground,
        tenure_workload::IntentPropagation::Orphan => RequestedPropagation::Orphan,
    }
}

fn moved(at: BuiltinResource, name: &str) -> Failure {
    Failure::conflict(at.group(), at.plural(), name, "it has changed since it was looked at")
}

fn check_revision(
    at: BuiltinResource,
    record: &Record,
    seen: Option<Revision>,
) -> Result<(), Failure> {
    match seen {
        Some(seen) if seen != record.revision() => Err(moved(at, record.name())),
        _ => Ok(()),
    }
}

/// What an act is about, for whoever is told that it was refused.
fn about(act: &Act) -> (Verb, Option<BuiltinResource>, String) {
    match act {
        Act::Create { resource, object } => {
            let name = object.str_at(&["metadata", "name"]).filter(|name| !name.is_empty());
            let name = name.or_else(|| object.str_at(&["metadata", "generateName"]));
            (Verb::Create, Some(*resource), name.unwrap_or_default().to_owned())
        }
        Act::Update { resource, object, .. } => {
            (Verb::Update, Some(*resource), object.name().to_owned())
        }
        Act::Apply { resource, config } => {
            (Verb::Update, Some(*resource), config.name().to_owned())
        }
        Act::IssueToken { object, .. } => {
            (Verb::Update, Some(BuiltinResource::Secrets), object.name().to_owned())
        }
        Act::SignCertificate { approved, .. } => {
            let resource = BuiltinResource::CertificateSigningRequests;
            (Verb::Update, Some(resource), approved.name().to_owned())
        }
        Act::CheckTypes { policy, .. } => {
            let resource = BuiltinResource::ValidatingAdmissionPolicies;
            (Verb::Update, Some(resource), policy.name().to_owned())
        }
        Act::Delete { resource, name, .. } => (Verb::Delete, Some(*resource), name.clone()),
        Act::Remove { object, .. } => {
            let resource = BuiltinResource::find(&object.group, &object.resource);
            (Verb::Delete, resource, object.name.clone())
        }
        Act::PutScale { scale, .. } => (Verb::Update, None, scale.name().to_owned()),
        Act::Touch { name, .. } => (Verb::Update, None, name.clone()),
        Act::RemoveElsewhere { name, .. } => (Verb::Delete, None, name.clone()),
        Act::Tell(note) => (Verb::Update, Some(note.about.resource), note.about.name.clone()),
    }
}

fn refusal(
    verb: Verb,
    resource: Option<BuiltinResource>,
    name: String,
    failure: &Failure,
) -> FailedIntent {
    let causes = failure.details.as_ref().map(|details| details.causes.as_slice());
    let terminating = |reason: &str| reason == "NamespaceTerminating";
    FailedIntent {
        verb,
        resource,
        name,
        why: failure.refusal(),
        reason: failure.reason.to_string(),
        message: failure.message.clone(),
        namespace_terminating: causes
            .unwrap_or_default()
            .iter()
            .any(|cause| terminating(&cause.reason)),
    }
}
