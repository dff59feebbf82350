//! How a pod's resources change while it runs (R111b): given by the node, then brought to each container. What fits
//! is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tenure_lifecycle::{
    ContainerType, KillOrder, LifecycleSpec, PodResources, pod_requests, pod_resources,
    resize_restarts, same_resources, with_resources,
};
use tenure_machinery::{Object, ObjectExt as _};

use crate::container;
use crate::events::Grade;
use crate::runtime::RuntimeError;
use crate::worker::{Worker, WorkerMessage};

/// How often is looked whether there is room by now, and how long a container that did not get its resources waits.
const RETRY: Duration = Duration::from_secs(3);

/// What a pod was given when an agent before this one looked after it: what its containers have, as its status says.
pub(super) fn given_before(pod: &Object) -> PodResources {
    let mut given = pod_resources(pod);
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in pod.list_at(&["status", list]).iter().filter_map(Value::as_object) {
            let name = status.str_at(&["name"]).unwrap_or_default();
            let runs = status.map_at(&["state", "running"]).is_some();
            if let Some(has) = status.map_at(&["resources"]).filter(|_| runs)
                && let Some(known) = given.get_mut(name)
            {
                known.clone_from(has);
            }
        }
    }
    given
}

/// The pod with what it was given.
pub(super) fn granted(pod: &Arc<Object>, given: &PodResources) -> Arc<Object> {
    with_resources(pod, given).map_or_else(|| Arc::clone(pod), Arc::new)
}

impl Worker {
    /// Gives the pod what it wants if there is room, and brings that to its containers.
    pub(super) fn resize(&mut self, now: Timestamp, wake: &mut Timestamp) {
        if self.seen.refused.is_some() || self.seen.over || self.seen.cleaned {
            self.shared.allocations.remove(&self.key.uid);
            return;
        }
        if self.seen.ending.is_some() || self.seen.leaving.is_some() {
            return;
        }
        self.allocate(now, wake);
        self.bring_resources(now, wake);
        self.end_resize();
    }

    fn allocate(&mut self, now: Timestamp, wake: &mut Timestamp) {
        if with_resources(&self.pod, &self.given).is_none() {
            self.seen.resize.pending = None;
            return;
        }
        let generation = self.spec.generation;
        let wanted = pod_requests(&self.pod);
        let room = &self.shared.room;
        match self.shared.allocations.change(&self.key.uid, wanted, room, generation) {
            Ok(()) => {
                self.given = pod_resources(&self.pod);
                self.granted = Arc::clone(&self.pod);
                self.spec = LifecycleSpec::read(&self.granted);
                let resize = &mut self.seen.resize;
                (resize.pending, resize.error) = (None, None);
                resize.in_progress = Some(generation);
                self.resize_after = None;
                let words = self.resize_words("started", generation, "");
                self.shared.events.tell(&self.subject, Grade::Normal, "ResizeStarted", words);
            }
            Err(pending) => {
                if self.seen.resize.pending.as_ref() != Some(&pending) {
                    let (reason, event) = match pending.infeasible {
                        true => ("Infeasible", "ResizeInfeasible"),
                        false => ("Deferred", "ResizeDeferred"),
                    };
                    let words = self.resize_words(reason, generation, &pending.message);
                    self.shared.events.tell(&self.subject, Grade::Warning, event, words);
                }
                self.seen.resize.pending = Some(pending);
                *wake = (*wake).min(now + RETRY);
            }
        }
    }

    /// Changes containers that run with other resources than the pod was given, or has them end to be started
    /// again.
    fn bring_resources(&mut self, now: Timestamp, wake: &mut Timestamp) {
        if let Some(after) = self.resize_after.filter(|after| *after > now) {
            *wake = (*wake).min(after);
            return;
        }
        for spec in &self.spec.containers {
            if spec.role == ContainerType::Ephemeral || self.updating.contains(&spec.name) {
                continue;
            }
            let Some(given) = self.given.get(&spec.name) else { continue };
            let Some(seen) = self.seen.containers.get_mut(&spec.name) else { continue };
            if !seen.runs() || seen.busy.is_some() || seen.kill.is_some() {
                continue;
            }
            let Some(has) = seen.resources.as_ref().filter(|has| !same_resources(has, given))
            else {
                continue;
            };
            if resize_restarts(&spec.object, has, given) {
                let message = format!("Container {} resize requires restart", spec.name);
                seen.kill = Some(KillOrder { message, grace_seconds: None });
                seen.resizing = true;
                continue;
            }
            let held = self.kept.get(&spec.name).and_then(|kept| kept.current.as_ref());
            let Some(id) = held.map(|held| held.id.clone()) else { continue };
            let memory = self.shared.room.memory_bytes;
            let limits = container::limits(&self.granted, &spec.object, memory);
            let (shared, out) = (Arc::clone(&self.shared), self.out.clone());
            let (container, resources) = (spec.name.clone(), given.clone());
            self.updating.insert(container.clone());
            self.work.spawn(async move {
                let done = shared.runtime.update(&id, &limits).await;
                let _ = out.send(WorkerMessage::Resized { container, id, resources, done });
            });
        }
    }

    /// A container was changed, or could not be.
    pub(super) fn resized(
        &mut self,
        container: &str,
        id: &str,
        resources: Object,
        done: Result<(), RuntimeError>,
    ) {
        self.updating.remove(container);
        let held = self.kept.get(container).and_then(|kept| kept.current.as_ref());
        if held.is_none_or(|held| held.id != id) {
            return;
        }
        match done {
            Ok(()) => {
                self.seen.resize.error = None;
                if let Some(seen) = self.seen.containers.get_mut(container) {
                    seen.resources = Some(resources);
                }
            }
            Err(error) => {
                let why = error.to_string();
                self.resize_after = Some(crate::clock::timestamp() + RETRY);
                if self.seen.resize.error.as_ref() != Some(&why) {
                    let words = self.resize_words("error", self.spec.generation, &why);
                    self.shared.events.tell(&self.subject, Grade::Warning, "ResizeError", words);
                }
                self.seen.resize.error = Some(why);
            }
        }
    }

    /// Says that a change is done once every container that runs has it.
    fn end_resize(&mut self) {
        let Some(generation) = self.seen.resize.in_progress else { return };
        let waits = self.spec.containers.iter().any(|spec| {
            let Some(seen) = self.seen.containers.get(&spec.name) else { return false };
            let Some(given) = self.given.get(&spec.name) else { return false };
            let other = seen.resources.as_ref().is_some_and(|has| !same_resources(has, given));
            seen.resizing || (other && seen.lives())
        });
        if !waits && self.updating.is_empty() {
            (self.seen.resize.in_progress, self.seen.resize.error) = (None, None);
            let words = self.resize_words("completed", generation, "");
            self.shared.events.tell(&self.subject, Grade::Normal, "ResizeCompleted", words);
        }
    }

    /// What an event says of a change: what is wanted of each container, as JSON.
    fn resize_words(&self, what: &str, generation: i64, error: &str) -> String {
        let list = |name: &str| {
            let containers = self.pod.list_at(&["spec", name]).iter().filter_map(Value::as_object);
            let containers: Vec<String> = containers
                .map(|container| {
                    let name = Value::from(container.str_at(&["name"]).unwrap_or_default());
                    let none = Value::Object(Object::new());
                    let resources = container.get("resources").unwrap_or(&none);
                    format!("{{\"name\":{name},\"resources\":{resources}}}")
                })
                .collect();
            match containers.as_slice() {
                [] => String::new(),
                some => format!("\"{name}\":[{}],", some.join(",")),
            }
        };
        let (inits, containers) = (list("initContainers"), list("containers"));
        let error = match error {
            "" => String::new(),
            error => format!(",\"error\":{}", Value::from(error)),
        };
        format!("Pod resize {what}: {{{inits}{containers}\"generation\":{generation}{error}}}")
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use serde_json::json;

    use super::*;

    #[test]
    fn r111b_what_containers_have_outlives_the_agent() {
        let pod = json!({
            "spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": "2"}}},
                {"name": "b", "resources": {"limits": {"cpu": "2"}}}]},
            "status": {"containerStatuses": [
                {"name": "a", "state": {"running": {}}, "resources": {"limits": {"cpu": "1"}}},
                {"name": "b", "state": {"waiting": {}}, "resources": {"limits": {"cpu": "1"}}}]},
        });
        let given = given_before(pod.as_object().unwrap());
        assert_eq!(given["a"]["limits"]["cpu"], "1", "it has no more yet");
        assert_eq!(given["b"]["limits"]["cpu"], "2", "it will be started with this");
    }
}
