//! What becomes of an intent: written, told, or refused.

use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_workload::intent::UNSIGNED;
use tenure_workload::{
    Act, BuiltinResource, ClusterView, ControllerIntent, EventReport, FailedIntent, Reliance,
    UpdateEndpoint, Verb, owner,
};

use super::World;

impl World {
    pub(super) fn carry_out_all(&mut self, intents: &[ControllerIntent]) -> Vec<FailedIntent> {
        let (mut refused, mut failed) = (Vec::new(), false);
        for intent in intents {
            // A run of intents that go out together ends before a failure is looked at.
            if failed && !intent.together {
                break;
            }
            if let Err(why) = self.carry_out(intent) {
                failed |= !intent.independent;
                refused.push(why);
            }
        }
        refused
    }

    pub(super) fn carry_out(&mut self, intent: &ControllerIntent) -> Result<(), FailedIntent> {
        let done = self.act(intent);
        if done.as_ref().is_err_and(|why| intent.forgiven.contains(&why.why)) {
            return Ok(());
        }
        match (&done, &intent.done, &intent.refused) {
            (Ok(name), Some(note), _) => self.tell(note, name, ""),
            (Err(why), _, Some(note)) if !why.namespace_terminating => {
                self.tell(note, "", &why.message.clone());
            }
            _ => {}
        }
        self.collect();
        if let Some(check) = self.check {
            check(self);
        }
        done.map(|_| ())
    }

    pub(super) fn tell(&mut self, note: &EventReport, name: &str, error: &str) {
        let kind = if note.warning { "Warning" } else { "Normal" };
        self.events.push(format!("{kind} {} {}", note.reason, note.words(name, error)));
    }

    pub(super) fn act(&mut self, intent: &ControllerIntent) -> Result<String, FailedIntent> {
        if let Some((code, reason, message)) = self.objection.as_ref().and_then(|o| o(intent)) {
            return Err(refusal(&intent.act, code, reason, message));
        }
        for reliance in &intent.relies_on {
            if !self.holds(reliance) {
                return Err(refusal(&intent.act, 409, "Conflict", "what it relies on changed"));
            }
        }
        let stale = |code, reason| refusal(&intent.act, code, reason, reason);
        match &intent.act {
            Act::Create { resource, object } => self
                .put_new(*resource, Object::clone(object))
                .map(|seen| seen.name().to_owned())
                .map_err(|reason| stale(409, reason)),
            Act::Update { resource, object, endpoint, revision } => self
                .put(*resource, Object::clone(object), *endpoint, *revision)
                .map(|()| object.name().to_owned())
                .map_err(|reason| stale(409, reason)),
            Act::Delete {
                resource,
                namespace,
                name,
                uid,
                revision,
                propagation,
                grace_seconds,
            } => {
                let found = self.objects.get(*resource, namespace, name);
                let found = found.filter(|found| owner::uid(found) == uid);
                let Some(found) = found else { return Err(stale(404, "NotFound")) };
                if revision.is_some_and(|revision| revision != found.revision) {
                    return Err(stale(409, "Conflict"));
                }
                self.remove(*resource, &found, *propagation);
                if *grace_seconds == Some(0) {
                    self.end_grace(*resource, namespace, name);
                }
                Ok(name.clone())
            }
            Act::IssueToken { object, revision, account, .. } => {
                let mut object = Object::clone(object);
                object.map_mut("data").insert("token".into(), format!("for {account}").into());
                self.put(BuiltinResource::Secrets, object.clone(), UpdateEndpoint::Main, *revision)
                    .map(|()| object.name().to_owned())
                    .map_err(|reason| stale(409, reason))
            }
            Act::Apply { .. } => panic!("nothing that is tested here applies"),
            Act::Remove { object, .. } => {
                let at = BuiltinResource::find(&object.group, &object.resource).unwrap();
                let found = self.objects.get(at, &object.namespace, &object.name);
                let found = found.filter(|found| owner::uid(found) == object.uid);
                if let Some(found) = found {
                    self.remove(at, &found, None);
                }
                Ok(object.name.clone())
            }
            Act::SignCertificate { request, .. } if request == "bad" => {
                Err(refusal(&intent.act, 422, UNSIGNED, "no request"))
            }
            Act::SignCertificate { approved, revision, node, request } => {
                let at = BuiltinResource::CertificateSigningRequests;
                let mut object = Object::clone(approved);
                let certificate = format!("{request} for {node}");
                object.map_mut("status").insert("certificate".into(), certificate.into());
                self.put(at, object, UpdateEndpoint::Status, *revision)
                    .map(|()| approved.name().to_owned())
                    .map_err(|reason| stale(409, reason))
            }
            Act::CheckTypes { policy, revision } => {
                let mut object = Object::clone(policy);
                let generation = policy.int_at(&["metadata", "generation"]);
                let seen = policy
                    .list_at(&["spec", "validations"])
                    .iter()
                    .map(|validation| json!({"fieldRef": "", "warning": validation["expression"]}));
                let warnings = json!({"expressionWarnings": seen.collect::<Vec<_>>()});
                let status = object.map_mut("status");
                status.insert("observedGeneration".into(), generation.into());
                status.insert("typeChecking".into(), warnings);
                self.put(
                    BuiltinResource::ValidatingAdmissionPolicies,
                    object,
                    UpdateEndpoint::Status,
                    *revision,
                )
                .map(|()| policy.name().to_owned())
                .map_err(|reason| stale(409, reason))
            }
            Act::PutScale { path, scale } => {
                let replicas = scale.int_at(&["spec", "replicas"]).unwrap();
                self.writes.push(format!("scale {} {replicas}", scale.name()));
                self.api.get_mut(path).unwrap()["spec"]["replicas"] = replicas.into();
                Ok(scale.name().to_owned())
            }
            Act::Touch { path, name } => {
                self.writes.push(format!("touch {path}"));
                Ok(name.clone())
            }
            Act::RemoveElsewhere { path, name, uid } => {
                self.writes.push(format!("delete {path} {uid}"));
                let lists = self.api.values_mut().filter_map(|list| list.get_mut("items"));
                for list in lists.filter_map(Value::as_array_mut) {
                    list.retain_mut(|item| {
                        let meant = item["metadata"]["uid"] == **uid;
                        let held = item["metadata"].get("finalizers").is_some();
                        if meant && held {
                            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                        }
                        !meant || held
                    });
                }
                Ok(name.clone())
            }
            Act::Tell(note) => {
                self.tell(note, "", "");
                Ok(String::new())
            }
        }
    }

    pub(super) fn holds(&self, reliance: &Reliance) -> bool {
        match reliance {
            Reliance::NoInstances { definition } => {
                let mut none = true;
                self.objects.each_instance(definition, &mut |_| none = false);
                none
            }
            Reliance::NamespaceEmpty { namespace } => {
                let mut empty = true;
                self.objects.each_in_namespace(namespace, &mut |_| empty = false);
                empty
            }
            Reliance::Living { resource, namespace, name, uid } => self
                .objects
                .get(*resource, namespace, name)
                .is_some_and(|found| owner::uid(&found) == uid && !owner::deleting(&found)),
            Reliance::At { resource, namespace, name, revision } => {
                self.objects.get(*resource, namespace, name).map(|found| found.revision)
                    == *revision
            }
        }
    }
}

fn refusal(act: &Act, code: u16, reason: &str, message: &str) -> FailedIntent {
    let (verb, resource, name) = match act {
        Act::Create { resource, object } => {
            let prefix = object.str_at(&["metadata", "generateName"]).unwrap_or_default();
            let name = if object.name().is_empty() { prefix } else { object.name() };
            (Verb::Create, Some(*resource), name.to_owned())
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
        Act::Tell(note) => (Verb::Create, Some(note.about.resource), note.about.name.clone()),
    };
    FailedIntent {
        verb,
        resource,
        name,
        why: Failure::new(code, "", "").refusal(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        namespace_terminating: reason == "NamespaceTerminating",
    }
}
