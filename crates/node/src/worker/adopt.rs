//! What an agent before this one left: found again by what the runtime holds and what the status says (R83,
//! R146). What happens to it from then on is the worker's business.

use tenure_lifecycle::{ContainerInstance, ContainerTermination, InstanceState, ObservedContainer};
use tenure_machinery::{Object, ObjectExt as _};

use crate::runtime::{Container, ContainerState, Sandbox};
use crate::worker::container_state::{lost, state};
use crate::worker::{ContainerAttempt, ContainerHistory, Worker};

impl Worker {
    /// Finds what an agent before this one left running (R83, R146).
    pub(super) fn adopt(&mut self, found: &[Sandbox]) {
        let mut sandboxes: Vec<&Sandbox> = found.iter().collect();
        sandboxes.sort_by_key(|sandbox| sandbox.attempt);
        if let Some(sandbox) = sandboxes.last() {
            self.attempts = sandbox.attempt + 1;
            self.hold_sandbox(sandbox);
        }
        let all: Vec<Container> =
            sandboxes.iter().flat_map(|sandbox| sandbox.containers.iter().cloned()).collect();
        for spec in self.spec.containers.clone() {
            let mut own: Vec<&Container> =
                all.iter().filter(|container| container.name == spec.name).collect();
            own.sort_by_key(|container| container.attempt);
            let newest = own.pop().cloned();
            let before = own.pop().cloned();
            match newest {
                Some(newest) => self.adopt_container(&spec.name, newest, before),
                None => self.adopt_status(&spec.name),
            }
        }
    }

    fn adopt_container(&mut self, name: &str, newest: Container, before: Option<Container>) {
        let mut seen =
            ObservedContainer { backoff: self.shared.backoff, ..ObservedContainer::default() };
        seen.restarts = newest.attempt;
        if let Some(before) = &before
            && let InstanceState::Ended(mut ended) = state(&before.state)
        {
            ended.message = self.last_words(name, before.attempt, &ended);
            seen.last = Some((self.shared.full_id(&before.id), ended));
        }
        let mut now = state(&newest.state);
        if let InstanceState::Ended(ended) = &mut now {
            ended.message = self.last_words(name, newest.attempt, ended);
        }
        // What was made and never started is made again.
        seen.current = (now != InstanceState::Created).then(|| ContainerInstance {
            id: self.shared.full_id(&newest.id),
            image: newest.image.clone(),
            image_id: newest.image_id.clone(),
            state: now,
        });
        seen.resources = self.given.get(name).cloned();
        seen.startup_passed = status_flag(&self.pod, name, "started");
        seen.ready = status_flag(&self.pod, name, "ready");
        let held = |found: &Container| self.held(name, found);
        let kept = ContainerHistory {
            current: Some(held(&newest)),
            previous: before.as_ref().map(held),
            adopted: true,
            ..ContainerHistory::default()
        };
        self.seen.containers.insert(name.to_owned(), seen);
        self.kept.insert(name.to_owned(), kept);
    }

    /// A container that the status knows and the runtime does not: its end was not seen.
    fn adopt_status(&mut self, name: &str) {
        let Some(status) = status_of(&self.pod, name) else { return };
        let Some(id) = status.str_at(&["containerID"]).filter(|id| !id.is_empty()) else { return };
        let attempt = status.int_at(&["restartCount"]).unwrap_or_default();
        let attempt = u32::try_from(attempt).unwrap_or_default();
        let time = |terminated: &Object, name: &str| terminated.str_at(&[name])?.parse().ok();
        let ended = match status.map_at(&["state", "terminated"]) {
            Some(terminated) => ContainerTermination {
                started: time(terminated, "startedAt"),
                finished: time(terminated, "finishedAt"),
                code: terminated.int_at(&["exitCode"]).unwrap_or_default(),
                reason: terminated.str_at(&["reason"]).unwrap_or_default().to_owned(),
                message: terminated.str_at(&["message"]).unwrap_or_default().to_owned(),
            },
            None => lost(),
        };
        let seen = ObservedContainer {
            current: Some(ContainerInstance {
                id: id.to_owned(),
                image: status.str_at(&["image"]).unwrap_or_default().to_owned(),
                image_id: status.str_at(&["imageID"]).unwrap_or_default().to_owned(),
                state: InstanceState::Ended(ended),
            }),
            restarts: attempt,
            backoff: self.shared.backoff,
            ..ObservedContainer::default()
        };
        let id = id.split_once("://").map_or(id, |(_, id)| id).to_owned();
        let log = self.log(name, attempt);
        let held = ContainerAttempt { id, attempt, log, state: ContainerState::Unknown };
        self.seen.containers.insert(name.to_owned(), seen);
        self.kept.insert(
            name.to_owned(),
            ContainerHistory { current: Some(held), ..ContainerHistory::default() },
        );
    }

    fn held(&self, name: &str, found: &Container) -> ContainerAttempt {
        let (id, attempt) = (found.id.clone(), found.attempt);
        ContainerAttempt { id, attempt, log: self.log(name, attempt), state: found.state.clone() }
    }
}

/// What the status of the server says of a container.
fn status_of<'a>(pod: &'a Object, name: &str) -> Option<&'a Object> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let all = lists.into_iter().flat_map(|list| pod.list_at(&["status", list]));
    all.filter_map(serde_json::Value::as_object).find(|one| one.str_at(&["name"]) == Some(name))
}

fn status_flag(pod: &Object, container: &str, flag: &str) -> bool {
    status_of(pod, container).and_then(|status| status.bool_at(&[flag])).unwrap_or_default()
}
