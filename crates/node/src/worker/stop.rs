//! How a container and a pod come to their end: hook, signal, sandbox, volumes, the object itself
//! (R106 to R109).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tenure_lifecycle::{ContainerTransition, Kill, MIN_GRACE};
use tenure_machinery::{Object, ObjectExt as _};

use crate::agent::AgentContext;
use crate::client::{Answered, ClientError};
use crate::clock;
use crate::container;
use crate::events::Grade;
use crate::runtime::RuntimeError;
use crate::worker::{AWAY_RETRY, Worker, WorkerMessage, list};

impl Worker {
    /// Stops a container, its hook first.
    pub(super) fn stop(&mut self, kill: Kill) {
        let Some(spec) = self.spec.container(&kill.container).cloned() else { return };
        let Some(seen) = self.seen.containers.get_mut(&kill.container) else { return };
        let Some(held) = self.kept.get(&kill.container).and_then(|kept| kept.current.clone())
        else {
            return;
        };
        let first = seen.busy.is_none();
        seen.busy = Some(ContainerTransition::Stopping { until: kill.until });
        self.unprobe(&kill.container);
        let asked = self.probe_target(&spec, &held.id);
        if first {
            let (subject, message) = (asked.subject.clone(), kill.message.clone());
            self.shared.events.tell(&subject, Grade::Normal, "Killing", message);
        }
        let hook = spec.object.map_at(&["lifecycle", "preStop"]).cloned();
        let hook = hook.filter(|_| kill.hook && first);
        let (shared, out) = (Arc::clone(&self.shared), self.out.clone());
        let subject = self.subject.container(list(spec.role), &spec.name);
        self.work.spawn(async move {
            let left = || {
                let left = kill.until.duration_since(clock::timestamp());
                Duration::try_from(left).unwrap_or_default()
            };
            if let Some(hook) = hook
                && !left().is_zero()
            {
                let limit = left();
                let done = tokio::time::timeout(limit, asked.hook(&hook, limit)).await;
                if !matches!(done, Ok(Ok(()))) {
                    let words = "PreStopHook failed".to_owned();
                    shared.events.tell(&subject, Grade::Warning, "FailedPreStopHook", words);
                }
            }
            let grace = if kill.hook { left().max(MIN_GRACE) } else { left() };
            match shared.runtime.stop(&held.id, None, grace).await {
                Ok(()) | Err(RuntimeError::NotFound(_)) => {}
                Err(error) => {
                    tracing::warn!(
                        %error, container = held.id,
                        "a container could not be stopped"
                    );
                    tokio::time::sleep(AWAY_RETRY).await;
                }
            }
            // A worker that is gone has nothing to stop.
            let _ = out.send(WorkerMessage::Stopped(kill.container));
        });
    }

    /// Lets go of what the pod has on the node.
    pub(super) fn finish(&mut self, remove: bool) {
        if self.finishing {
            return;
        }
        self.finishing = true;
        self.shared.objects.release(&self.key.uid);
        let sandbox = self.sandbox.as_ref().map(|sandbox| sandbox.id.clone());
        let (shared, out, key) = (Arc::clone(&self.shared), self.out.clone(), self.key.clone());
        self.work.spawn(async move {
            loop {
                match let_go(&shared, sandbox.as_deref(), &key.uid, remove).await {
                    Ok(()) => break,
                    Err(why) => {
                        tracing::warn!(why, pod = key.name, "a pod could not be cleaned up")
                    }
                }
                tokio::time::sleep(AWAY_RETRY).await;
            }
            if remove {
                let logs = container::log_folder(&shared.logs, &key);
                // There may never have been any.
                let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(logs)).await;
            }
            let _ = out.send(WorkerMessage::Finished { remove });
        });
    }

    /// The last act: the object goes once nothing of the pod is left and its end was told (R108).
    pub(super) fn end_for_good(&mut self) {
        if !self.seen.removed || self.gone {
            return;
        }
        if self.seen.forgotten {
            self.gone = true;
            return;
        }
        if self.spec.deletion.is_none() || !self.report.settled() || self.report.deleting {
            return;
        }
        self.report.deleting = true;
        let path = format!("/api/v1/namespaces/{}/pods/{}", self.key.namespace, self.key.name);
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": {"uid": self.key.uid},
        });
        let options = options.as_object().cloned().unwrap_or_default();
        let (client, out) = (self.shared.client.clone(), self.out.clone());
        let wait = self.report.retry_wait();
        self.work.spawn(async move {
            tokio::time::sleep(wait).await;
            let answer = client.delete(&path, &options).await;
            let _ = out.send(WorkerMessage::Deleted(answer));
        });
    }

    pub(super) fn deleted(&mut self, answer: Answered<Object>) {
        match answer {
            Ok(object) => {
                self.report.failures = 0;
                // Finalizers of others may keep it; then there is nothing more to do here.
                let kept = !object.list_at(&["metadata", "finalizers"]).is_empty();
                self.gone = !kept;
            }
            Err(ClientError::Refused { code: 404 | 409, .. }) => self.gone = true,
            Err(error) => {
                tracing::debug!(
                    %error, pod = self.key.name, "a pod could not be deleted"
                );
                self.report.deleting = false;
                self.report.failures += 1;
            }
        }
    }
}

async fn let_go(
    shared: &Arc<AgentContext>,
    sandbox: Option<&str>,
    uid: &str,
    remove: bool,
) -> Result<(), String> {
    if let Some(sandbox) = sandbox {
        let gone = |done: Result<(), RuntimeError>| match done {
            Ok(()) | Err(RuntimeError::NotFound(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        gone(shared.runtime.stop_sandbox(sandbox).await)?;
        if remove {
            gone(shared.runtime.remove_sandbox(sandbox).await)?;
        }
    }
    let (volumes, uid) = (Arc::clone(&shared.volumes), uid.to_owned());
    let span = tracing::Span::current();
    let tearing_down = move || span.in_scope(|| volumes.tear_down(&uid));
    let done = tokio::task::spawn_blocking(tearing_down).await;
    match done {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
