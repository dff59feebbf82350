//! What came of a start: an instance that runs, or a reason to wait and when to try again (R97, R101).

use jiff::Timestamp;
use tenure_lifecycle::{ContainerInstance, InstanceState, KillOrder, WaitingState};

use crate::clock;
use crate::events::Grade;
use crate::worker::container_state::state;
use crate::worker::start::{NotBegun, StartedContainer};
use crate::worker::{AWAY_RETRY, CONFIG_RETRY, ContainerAttempt, PULL_SHOWN, Worker, list};

impl Worker {
    /// What came of a start.
    pub(super) async fn started(&mut self, name: &str, begun: Result<StartedContainer, NotBegun>) {
        let now = clock::timestamp();
        let log = |attempt| self.log(name, attempt);
        match begun {
            Ok(begun) => {
                let held = ContainerAttempt {
                    id: begun.id.clone(),
                    attempt: begun.attempt,
                    log: log(begun.attempt),
                    state: begun.state.clone(),
                };
                let id = self.shared.full_id(&begun.id);
                let kept = self.kept.entry(name.to_owned()).or_default();
                kept.previous = kept.current.replace(held);
                (kept.retry, kept.pull_failed) = (None, None);
                (kept.told_backoff, kept.adopted) = (false, false);
                let Some(seen) = self.seen.containers.get_mut(name) else { return };
                if let Some(ContainerInstance { id, state: InstanceState::Ended(ended), .. }) =
                    seen.current.take()
                {
                    if !seen.resizing {
                        seen.backoff.started_again();
                    }
                    seen.last = Some((id, ended));
                }
                seen.busy = None;
                (seen.waiting, seen.after, seen.kill) = (None, None, None);
                (seen.ready, seen.startup_passed, seen.resizing) = (false, false, false);
                seen.restarts = begun.attempt;
                seen.current = Some(ContainerInstance {
                    id,
                    image: begun.image,
                    image_id: begun.image_id,
                    // An end is taken in below, with its last words.
                    state: match state(&begun.state) {
                        InstanceState::Ended(ended) => {
                            InstanceState::Running { started: ended.started.unwrap_or(now) }
                        }
                        other => other,
                    },
                });
                if let Some(message) = begun.hook_failed {
                    seen.waiting =
                        Some(WaitingState { reason: "PostStartHookError".into(), message });
                    seen.kill = Some(KillOrder {
                        message: "FailedPostStartHook".to_owned(),
                        grace_seconds: None,
                    });
                }
                self.learn(name, begun.state).await;
            }
            Err(failure) => self.not_started(name, failure, now),
        }
    }

    fn not_started(&mut self, name: &str, failure: NotBegun, now: Timestamp) {
        let curve = self.shared.backoff;
        let kept = self.kept.entry(name.to_owned()).or_default();
        let Some(seen) = self.seen.containers.get_mut(name) else { return };
        seen.busy = None;
        let (reason, message) = match failure {
            NotBegun::Cancelled => return,
            NotBegun::Away => {
                seen.after = Some(now + AWAY_RETRY);
                return;
            }
            NotBegun::Waits { reason, message } => (reason, message),
        };
        let wait = if reason == "CreateContainerConfigError" {
            CONFIG_RETRY.min(curve.max)
        } else {
            let retry = kept.retry.get_or_insert(curve);
            retry.started_again();
            retry.wait
        };
        seen.after = Some(now + wait);
        if reason == "ErrImagePull" {
            kept.pull_failed = Some((now, message.clone()));
        }
        seen.waiting = Some(WaitingState { reason: reason.to_owned(), message });
    }

    /// A pull that failed some time ago is one that waits.
    pub(super) fn age_pulls(&mut self, now: Timestamp, wake: &mut Timestamp) {
        for (name, kept) in &mut self.kept {
            let Some((at, message)) = &kept.pull_failed else { continue };
            let wait = kept.retry.map_or(PULL_SHOWN, |retry| retry.wait / 2);
            let due = *at + PULL_SHOWN.min(wait);
            if due > now {
                *wake = (*wake).min(due);
                continue;
            }
            let Some(seen) = self.seen.containers.get_mut(name) else { continue };
            let Some(spec) = self.spec.container(name) else { continue };
            let words = format!("Back-off pulling image \"{}\"", spec.image);
            if seen.busy.is_none() {
                let message = format!("{words}: ErrImagePull: {message}");
                seen.waiting = Some(WaitingState { reason: "ImagePullBackOff".into(), message });
                let subject = self.subject.container(list(spec.role), name);
                self.shared.events.tell(&subject, Grade::Normal, "BackOff", words);
            }
            kept.pull_failed = None;
        }
    }

    /// Tells once that a container waits to be started again.
    pub(super) fn tell_backoff(&mut self, now: Timestamp) {
        for (name, kept) in &mut self.kept {
            let Some(seen) = self.seen.containers.get(name) else { continue };
            let Some(spec) = self.spec.container(name) else { continue };
            let Some(ended) = seen.ended() else { continue };
            let waits = !seen.backoff.wait.is_zero()
                && ended.finished.is_some_and(|finished| finished + seen.backoff.wait > now)
                && spec.restarts_after(ended.code)
                && self.seen.ending.is_none();
            if waits && !kept.told_backoff {
                kept.told_backoff = true;
                let key = &self.key;
                let message = format!(
                    "Back-off restarting failed container {name} in pod {}_{}({})",
                    key.name, key.namespace, key.uid
                );
                let subject = self.subject.container(list(spec.role), name);
                self.shared.events.tell(&subject, Grade::Warning, "BackOff", message);
            }
        }
    }
}
