//! How a world stores, deletes and collects objects, and whom each change wakes.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt};
use tenure_workload::{
    BuiltinResource, ClusterView, Departure, IntentPropagation, ObjectChange, UpdateEndpoint,
    VersionedObject, owner, pod,
};

use super::objects::owners;
use super::{Job, World};

impl World {
    pub(super) fn woken(
        &self,
        resource: BuiltinResource,
        before: Option<&VersionedObject>,
        after: Option<&VersionedObject>,
    ) -> Vec<Job> {
        let mut jobs = Vec::new();
        let change = ObjectChange { resource, before, after };
        for (place, controller) in self.controllers.iter().enumerate() {
            if controller.watches().contains(&resource) {
                controller.wake(&change, &self.objects, &mut |key| jobs.push((place, key)));
            }
            if let (Some(gone), None) = (before, after) {
                let departure = Departure {
                    group: resource.group(),
                    resource: resource.plural(),
                    namespace: gone.namespace(),
                };
                let wake = &mut |key| jobs.push((place, key));
                controller.wake_by_departure(&departure, &self.objects, wake);
            }
        }
        jobs
    }

    pub(super) fn wake(
        &mut self,
        resource: BuiltinResource,
        before: Option<&VersionedObject>,
        after: Option<&VersionedObject>,
    ) {
        let jobs = self.woken(resource, before, after);
        self.queue.extend(jobs);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn put_new(
        &mut self,
        resource: BuiltinResource,
        mut object: Object,
    ) -> Result<VersionedObject, &'static str> {
        let number = self.number();
        let now = self.now.to_string();
        let metadata = object.map_mut("metadata");
        if let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
            && !metadata.contains_key("name")
        {
            let name = format!("{prefix}{number:05}");
            metadata.insert("name".to_owned(), name.into());
        }
        if resource.namespaced() {
            metadata.entry("namespace").or_insert_with(|| "default".into());
        }
        metadata.insert("uid".to_owned(), format!("uid-{number:05}").into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        metadata.insert("generation".to_owned(), 1.into());
        if resource != BuiltinResource::Nodes {
            object.remove("status");
        }
        match resource {
            BuiltinResource::Pods => {
                object.insert("status".to_owned(), json!({"phase": "Pending"}))
            }
            BuiltinResource::ReplicaSets | BuiltinResource::ReplicationControllers => {
                object.insert("status".to_owned(), json!({"replicas": 0}))
            }
            _ => None,
        };
        if self.objects.get(resource, object.namespace(), object.name()).is_some() {
            return Err("AlreadyExists");
        }
        self.writes.push(format!("create {}/{}", resource.plural(), object.name()));
        Ok(self.store(resource, object))
    }

    pub(super) fn put(
        &mut self,
        resource: BuiltinResource,
        mut object: Object,
        endpoint: UpdateEndpoint,
        revision: Revision,
    ) -> Result<(), &'static str> {
        let stored = self.objects.get(resource, object.namespace(), object.name());
        let Some(stored) = stored else { return Err("NotFound") };
        if stored.revision != revision {
            return Err("Conflict");
        }
        if endpoint == UpdateEndpoint::Binding {
            if !pod::node(&stored).is_empty() {
                return Err("Conflict");
            }
            let node = object.at(&["target", "name"]).cloned().unwrap();
            object = Object::clone(&stored.object);
            object.map_mut("spec").insert("nodeName".to_owned(), node);
        }
        match endpoint {
            UpdateEndpoint::Status | UpdateEndpoint::Approval => {
                let mut whole = Object::clone(&stored.object);
                whole.insert("status".to_owned(), object.remove("status").unwrap_or(json!({})));
                if resource == BuiltinResource::Deployments
                    && let Some(annotations) = object.at(&["metadata", "annotations"])
                {
                    whole.map_mut("metadata").insert("annotations".into(), annotations.clone());
                }
                if resource == BuiltinResource::CustomResourceDefinitions
                    && let Some(finalizers) = object.at(&["metadata", "finalizers"])
                {
                    whole.map_mut("metadata").insert("finalizers".into(), finalizers.clone());
                } else if resource == BuiltinResource::CustomResourceDefinitions {
                    whole.map_mut("metadata").remove("finalizers");
                }
                object = whole;
            }
            UpdateEndpoint::Finalize => {
                let mut whole = Object::clone(&stored.object);
                whole.insert("spec".to_owned(), object.remove("spec").unwrap_or(json!({})));
                object = whole;
            }
            _ => {
                match stored.get("status") {
                    Some(status) => object.insert("status".to_owned(), status.clone()),
                    None => object.remove("status"),
                };
                let annotated = resource == BuiltinResource::Deployments
                    && object.at(&["metadata", "annotations"])
                        != stored.at(&["metadata", "annotations"]);
                if object.get("spec") != stored.get("spec") || annotated {
                    let next = owner::generation(&stored) + 1;
                    object.map_mut("metadata").insert("generation".to_owned(), next.into());
                }
            }
        }
        if object == *stored.object {
            return Ok(());
        }
        let how = endpoint.subresource();
        self.writes.push(format!("update {}/{} {how}", resource.plural(), object.name()));
        let free = |object: &Object| {
            object.list_at(&["metadata", "finalizers"]).is_empty()
                && object.list_at(&["spec", "finalizers"]).is_empty()
        };
        // A pod on a node stays until the node lets go of it.
        let stopped = resource != BuiltinResource::Pods
            || (!free(&stored) && (pod::node(&object).is_empty() || pod::terminal(&object)));
        if owner::deleting(&object) && free(&object) && stopped {
            self.take(resource, &stored);
        } else {
            self.store(resource, object);
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        resource: BuiltinResource,
        mut object: Object,
    ) -> VersionedObject {
        self.revision += 1;
        let revision = Revision(self.revision);
        object.map_mut("metadata").insert("resourceVersion".into(), revision.to_string().into());
        let place = (resource, object.namespace().to_owned(), object.name().to_owned());
        let seen = VersionedObject { object: Arc::new(object), revision };
        self.living.insert(owner::uid(&seen).to_owned());
        self.untidy |= owners(&seen).any(|owner| !self.living.contains(owner));
        let before = self.objects.0.insert(place, seen.clone());
        self.wake(resource, before.as_ref(), Some(&seen));
        seen
    }

    /// Begins a deletion, or ends it where nothing has to be waited for.
    pub(super) fn remove(
        &mut self,
        resource: BuiltinResource,
        seen: &VersionedObject,
        how: Option<IntentPropagation>,
    ) {
        self.writes.push(format!("delete {}/{}", resource.plural(), seen.name()));
        if how == Some(IntentPropagation::Orphan) {
            for kind in BuiltinResource::ALL {
                for dependent in self.objects.owned_by(owner::uid(seen), *kind) {
                    let free = owner::released(&dependent, owner::uid(seen));
                    self.store(*kind, free);
                }
            }
        }
        let held = [["metadata", "finalizers"], ["spec", "finalizers"]]
            .iter()
            .any(|path| !seen.list_at(path).is_empty());
        let on_node = resource == BuiltinResource::Pods && !pod::node(seen).is_empty();
        let waits = held || (on_node && !pod::terminal(seen));
        if !waits {
            self.take(resource, seen);
        } else if !owner::deleting(seen) {
            let mut object = Object::clone(&seen.object);
            let now = self.now.to_string();
            object.map_mut("metadata").insert("deletionTimestamp".to_owned(), now.into());
            self.store(resource, object);
        }
    }

    /// Lets an object that is being deleted wait for nothing but its finalizers.
    pub(super) fn end_grace(&mut self, resource: BuiltinResource, namespace: &str, name: &str) {
        let Some(seen) = self.objects.get(resource, namespace, name) else { return };
        if seen.list_at(&["metadata", "finalizers"]).is_empty() {
            self.take(resource, &seen);
        } else {
            let mut object = Object::clone(&seen.object);
            object.map_mut("metadata").insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            self.store(resource, object);
        }
    }

    /// Takes an object away for good.
    pub(super) fn take(&mut self, resource: BuiltinResource, seen: &VersionedObject) {
        let place = (resource, seen.namespace().to_owned(), seen.name().to_owned());
        if let Some(before) = self.objects.0.remove(&place) {
            self.revision += 1;
            self.living.remove(owner::uid(&before));
            self.untidy = true;
            self.wake(resource, Some(&before), None);
        }
    }

    /// Deletes what has owners, none of which is left.
    pub(super) fn collect(&mut self) {
        while std::mem::take(&mut self.untidy) {
            let lost = self.objects.0.iter().find(|(_, seen)| {
                let mut owners = owners(seen).peekable();
                owners.peek().is_some()
                    && owners.all(|owner| !self.living.contains(owner))
                    && !owner::deleting(seen)
            });
            let Some((resource, seen)) = lost.map(|((r, _, _), seen)| (*r, seen.clone())) else {
                return;
            };
            self.remove(resource, &seen, None);
            self.untidy = true;
        }
    }
}
