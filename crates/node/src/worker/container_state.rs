//! What containers do now, as the runtime tells it, in the engine's words; and their last words (R99).

use tenure_lifecycle::{
    ContainerTermination, ContainerTransition, InstanceState, clip_message, fallback_message,
};
use tenure_machinery::ObjectExt as _;

use crate::clock;
use crate::runtime::{Container, ContainerState, RuntimeError, Sandbox};
use crate::worker::{Worker, report, start};

impl Worker {
    /// Looks at every container that may have changed.
    pub(super) async fn look(&mut self) {
        let names: Vec<(String, String)> = self
            .kept
            .iter()
            .filter_map(|(name, kept)| {
                let seen = self.seen.containers.get(name)?;
                let waits = seen.busy == Some(ContainerTransition::Starting) || !seen.lives();
                (!waits).then(|| Some((name.clone(), kept.current.as_ref()?.id.clone())))?
            })
            .collect();
        for (name, id) in names {
            match self.shared.runtime.status(&id).await {
                Ok(found) => self.learn(&name, found.state).await,
                Err(RuntimeError::NotFound(_)) => {
                    self.learn(&name, ContainerState::Unknown).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "a container could not be looked at")
                }
            }
        }
    }

    /// Compares with everything the runtime holds of this pod.
    pub(super) async fn compare(&mut self, found: Vec<Sandbox>) {
        if self.seen.cleaned || self.seen.sandbox_busy {
            return;
        }
        if let Some(held) = &self.sandbox {
            let same = found.iter().find(|sandbox| sandbox.id == held.id);
            self.seen.sandbox = same.is_some_and(|sandbox| sandbox.ready);
        }
        let all: Vec<Container> =
            found.into_iter().flat_map(|sandbox| sandbox.containers).collect();
        let known: Vec<(String, String)> = self
            .kept
            .iter()
            .filter_map(|(name, kept)| Some((name.clone(), kept.current.as_ref()?.id.clone())))
            .collect();
        for (name, id) in known {
            let Some(seen) = self.seen.containers.get(&name) else { continue };
            if seen.busy == Some(ContainerTransition::Starting) || !seen.lives() {
                continue;
            }
            let state = all.iter().find(|container| container.id == id);
            let state = state.map_or(ContainerState::Unknown, |container| container.state.clone());
            self.learn(&name, state).await;
        }
    }

    /// Takes in what a container does now.
    pub(super) async fn learn(&mut self, name: &str, found: ContainerState) {
        let Some(kept) = self.kept.get_mut(name) else { return };
        let Some(held) = &mut kept.current else { return };
        let attempt = held.attempt;
        held.state = found.clone();
        let ended = match state(&found) {
            InstanceState::Ended(ended) => ended,
            InstanceState::Unknown => lost(),
            other => {
                if let Some(current) =
                    self.seen.containers.get_mut(name).and_then(|seen| seen.current.as_mut())
                {
                    current.state = other;
                }
                return;
            }
        };
        let message = self.last_words(name, attempt, &ended);
        let ended = ContainerTermination { message, ..ended };
        let Some(seen) = self.seen.containers.get_mut(name) else { return };
        let Some(current) = seen.current.as_mut() else { return };
        if matches!(current.state, InstanceState::Ended(_)) {
            return;
        }
        seen.backoff.ended(&ended);
        current.state = InstanceState::Ended(ended);
        seen.kill = None;
        (seen.ready, seen.startup_passed) = (false, false);
        self.unprobe(name);
    }

    /// The last words of an instance (R99).
    pub(super) fn last_words(
        &self,
        name: &str,
        attempt: u32,
        ended: &ContainerTermination,
    ) -> String {
        if !ended.message.is_empty() {
            return ended.message.clone();
        }
        let file =
            start::termination_file(&self.shared.volumes.folder(&self.key.uid), name, attempt);
        let bytes = read_some(&file, tenure_lifecycle::TERMINATION_MESSAGE_MAX);
        if !bytes.is_empty() {
            return clip_message(&bytes, tenure_lifecycle::TERMINATION_MESSAGE_MAX);
        }
        let policy = self
            .spec
            .container(name)
            .and_then(|spec| spec.object.str_at(&["terminationMessagePolicy"]));
        if policy != Some("FallbackToLogsOnError") || ended.code == 0 {
            return String::new();
        }
        fallback_message(&report::log_tail(&self.log(name, attempt)))
    }
}

/// The state of a container in the engine's words.
pub(super) fn state(found: &ContainerState) -> InstanceState {
    match found {
        ContainerState::Created => InstanceState::Created,
        ContainerState::Running { started } => InstanceState::Running { started: *started },
        ContainerState::Unknown => InstanceState::Unknown,
        ContainerState::Exited { started, finished, code, reason, message } => {
            InstanceState::Ended(ContainerTermination {
                started: Some(*started),
                finished: Some(*finished),
                code: i64::from(*code),
                reason: reason.clone(),
                message: message.clone(),
            })
        }
    }
}

/// An end that nobody saw.
pub(super) fn lost() -> ContainerTermination {
    ContainerTermination {
        started: None,
        finished: Some(clock::timestamp()),
        code: 137,
        reason: "ContainerStatusUnknown".to_owned(),
        message: "The container could not be located when the pod was terminated".to_owned(),
    }
}

/// The first bytes of a file; nothing if it cannot be read.
fn read_some(path: &std::path::Path, max: usize) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(max as u64).read_to_end(&mut bytes);
    }
    bytes
}
