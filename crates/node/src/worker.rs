//! One pod, from its first sight to its last: what the engine decides is done here, what is done is
//! told to the engine. Only the order of things lives here; each thing has its own room below.
//!
//! ```text
//!   messages ──► what is seen ──► engine: next actions ──► work beside ──► messages …
//!                           └──► engine: status ──► server
//! ```

mod files;
mod report;
mod start;
mod stop;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tenure_downward::Input;
use tenure_lifecycle::{
    Action, Backoff, Busy, Ended, Instance, KillOrder, Observed, Refusal, Role, Seen, Spec, State,
    Waiting, clip_message, fallback_message, is_ending, next_actions,
};
use tenure_machinery::{Object, ObjectExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::agent::Shared;
use crate::client::Answered;
use crate::container;
use crate::events::{Grade, Subject};
use crate::objects::Tell;
use crate::pods::{self, KnownContainer, KnownPod};
use crate::probe::{self, Asked, Purpose};
use crate::runtime::{Container, ContainerState, PodKey, RuntimeError, Sandbox};

use files::Files;
use report::Report;
use start::{Begun, NotBegun};

/// How long a pull that failed is shown as such before it is shown as waiting.
const PULL_SHOWN: Duration = Duration::from_secs(2);
/// When a container whose settings are wrong is tried again although nothing changed.
const CONFIG_RETRY: Duration = Duration::from_secs(10);
/// When something is tried again while the runtime is away.
const AWAY_RETRY: Duration = Duration::from_secs(1);
/// The longest sleep, so that a clock that jumps does no harm.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// What a worker is told.
pub(crate) enum Message {
    /// The pod as the server now has it.
    Pod(Arc<Object>),
    /// The pod is gone from the server.
    Gone,
    /// Something outside the pod that it reads changed.
    Input(Input),
    /// Its sandbox changed, or may have.
    Look,
    /// What the runtime holds of the pod, complete.
    Held(Vec<Sandbox>),
    /// The node puts the pod out.
    Evict(Refusal),
    SandboxMade(Result<Sandbox, RuntimeError>),
    Started(String, Result<Begun, NotBegun>),
    Stopped(String),
    Finished {
        remove: bool,
    },
    Filled {
        volume: String,
        done: Result<(), String>,
        refresh: Option<Timestamp>,
    },
    Written(Answered<Object>),
    Deleted(Answered<Object>),
    Probed {
        container: String,
        id: String,
        purpose: Purpose,
        well: bool,
    },
}

/// The sandbox of a pod, as the runtime knows it.
struct HeldSandbox {
    id: String,
    addresses: Vec<IpAddr>,
}

/// An instance of a container, as the runtime knows it.
#[derive(Clone)]
struct Held {
    id: String,
    attempt: u32,
    log: PathBuf,
    state: ContainerState,
}

/// What is kept of a container beside what the engine sees.
#[derive(Default)]
struct Kept {
    current: Option<Held>,
    previous: Option<Held>,
    /// How long the next try to make it waits.
    retry: Option<Backoff>,
    /// When a pull failed.
    pull_failed: Option<(Timestamp, String)>,
    /// Whether its back-off was told.
    told_backoff: bool,
    /// Whether it was there before this agent.
    adopted: bool,
}

/// The one who cares for a pod.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    key: PodKey,
    subject: Subject,
    pod: Arc<Object>,
    spec: Spec,
    seen: Observed,
    sandbox: Option<HeldSandbox>,
    attempts: u32,
    kept: BTreeMap<String, Kept>,
    files: Files,
    report: Report,
    probes: BTreeMap<(String, Purpose), (String, AbortHandle)>,
    /// Set once the pod ends, for work that should not go on then.
    ending: watch::Sender<bool>,
    finishing: bool,
    gone: bool,
    work: JoinSet<()>,
    out: mpsc::UnboundedSender<Message>,
    inbox: mpsc::UnboundedReceiver<Message>,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        pod: Arc<Object>,
        found: &[Sandbox],
        refused: Option<Refusal>,
        (out, inbox): (mpsc::UnboundedSender<Message>, mpsc::UnboundedReceiver<Message>),
    ) -> Worker {
        let spec = Spec::read(&pod);
        let phase = pod.str_at(&["status", "phase"]).and_then(tenure_lifecycle::Phase::read);
        let started = pod.str_at(&["status", "startTime"]).and_then(|time| time.parse().ok());
        let over = phase.is_some_and(tenure_lifecycle::Phase::is_final);
        let seen = Observed {
            refused,
            over,
            started: Some(started.unwrap_or_else(Timestamp::now)),
            host_addresses: shared.addresses(),
            ..Observed::default()
        };
        let mut worker = Worker {
            key: container::key(&pod),
            subject: Subject::pod(&pod),
            files: Files::default(),
            report: Report::default(),
            spec,
            seen,
            sandbox: None,
            attempts: 0,
            kept: BTreeMap::new(),
            probes: BTreeMap::new(),
            ending: watch::Sender::new(false),
            finishing: false,
            gone: false,
            work: JoinSet::new(),
            shared,
            pod,
            out,
            inbox,
        };
        worker.adopt(found);
        worker.hold();
        worker
    }

    /// Cares for the pod until nothing of it is left.
    pub(crate) async fn run(mut self) {
        loop {
            let wake = self.step();
            if self.gone {
                break;
            }
            let sleep = tokio::time::sleep(wake);
            tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => break,
                },
                () = sleep => {}
            }
            // What happened together is answered together.
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message).await;
            }
            while self.work.try_join_next().is_some() {}
        }
        for (_, (_, probe)) in std::mem::take(&mut self.probes) {
            probe.abort();
        }
        self.shared.objects.release(&self.key.uid);
        self.shared.forget(&self.key.uid, self.sandbox.as_ref().map(|sandbox| sandbox.id.as_str()));
    }

    /// One round: decide, do, tell. Says how long nothing is due.
    fn step(&mut self) -> Duration {
        let now = Timestamp::now();
        let mut wake = now + SLEEP_MAX;
        self.age_pulls(now, &mut wake);
        if self.seen.ending.is_none() && is_ending(&self.spec, &self.seen, now) {
            self.seen.ending = Some(now);
            self.ending.send_replace(true);
        }
        if self.seen.ending.is_none() {
            self.fill(now, &mut wake);
        }
        let plan = next_actions(&self.spec, &self.seen, now);
        for action in plan.actions {
            match action {
                Action::MakeSandbox => self.make_sandbox(),
                Action::Start { container, .. } => self.start(&container),
                Action::Stop(kill) => self.stop(kill),
                Action::Finish { remove } => self.finish(remove),
            }
        }
        if let Some(due) = plan.wake {
            wake = wake.min(due);
        }
        self.probe();
        self.tell_backoff(now);
        self.write_status(now, &mut wake);
        self.publish();
        self.end_for_good();
        Duration::try_from(wake.duration_since(now))
            .unwrap_or_default()
            .max(Duration::from_millis(1))
    }

    async fn take(&mut self, message: Message) {
        match message {
            Message::Pod(pod) => {
                if self.take_pod(pod) {
                    self.report.heard();
                }
            }
            Message::Gone => {
                if self.seen.removed {
                    self.gone = true;
                }
                self.seen.forgotten = true;
            }
            Message::Input(input) => {
                self.files.touched(&input);
                self.retry_settings();
            }
            Message::Look => self.look().await,
            Message::Held(found) => self.compare(found).await,
            Message::Evict(why) => {
                if self.seen.evicted.is_none() {
                    let message = why.message.clone();
                    self.shared.events.tell(&self.subject, Grade::Warning, "Evicted", message);
                    self.seen.evicted = Some(why);
                }
            }
            Message::SandboxMade(made) => self.sandbox_made(made),
            Message::Started(name, begun) => self.started(&name, begun).await,
            Message::Stopped(name) => {
                if let Some(seen) = self.seen.containers.get_mut(&name) {
                    seen.busy = None;
                }
                self.look().await;
            }
            Message::Finished { remove } => {
                self.finishing = false;
                self.seen.cleaned = true;
                self.seen.removed |= remove;
                self.seen.sandbox = false;
            }
            Message::Filled { volume, done, refresh } => self.filled(&volume, done, refresh),
            Message::Written(answer) => self.written(answer),
            Message::Deleted(answer) => self.deleted(answer),
            Message::Probed { container, id, purpose, well } => {
                self.probed(&container, &id, purpose, well);
            }
        }
    }

    /// Takes the pod as the server has it, if that is news.
    fn take_pod(&mut self, pod: Arc<Object>) -> bool {
        if revision(&pod) <= revision(&self.pod) {
            return false;
        }
        let before = std::mem::replace(&mut self.pod, pod);
        let pod = Arc::clone(&self.pod);
        self.files.changed(&before, &pod);
        if before.get("spec") != pod.get("spec") || before.get("metadata") != pod.get("metadata") {
            self.spec = Spec::read(&pod);
            self.retry_settings();
            if before.get("spec") != pod.get("spec") {
                self.hold();
            }
        }
        true
    }

    /// Follows what the pod mentions.
    fn hold(&mut self) {
        if self.seen.refused.is_some() || self.seen.over {
            return;
        }
        let out = self.out.clone();
        let tell: Tell = Arc::new(move |input| {
            // A worker that is gone needs no news.
            let _ = out.send(Message::Input(input));
        });
        let inputs = tenure_downward::pod_inputs(&self.pod);
        self.shared.objects.hold(&self.key.uid, &self.key.namespace, &inputs, &tell);
        self.files.read(&self.pod);
    }

    /// Lets containers whose settings were wrong be tried at once.
    fn retry_settings(&mut self) {
        for seen in self.seen.containers.values_mut() {
            let waits = seen.waiting.as_ref().map(|waiting| waiting.reason.as_str());
            if waits == Some("CreateContainerConfigError") {
                seen.after = None;
            }
        }
    }

    /// Finds what an agent before this one left running (R83, R146).
    fn adopt(&mut self, found: &[Sandbox]) {
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
        let mut seen = Seen { backoff: self.shared.backoff, ..Seen::default() };
        seen.restarts = newest.attempt;
        if let Some(before) = &before
            && let State::Ended(mut ended) = state(&before.state)
        {
            ended.message = self.last_words(name, before.attempt, &ended);
            seen.last = Some((self.shared.full_id(&before.id), ended));
        }
        let mut now = state(&newest.state);
        if let State::Ended(ended) = &mut now {
            ended.message = self.last_words(name, newest.attempt, ended);
        }
        // What was made and never started is made again.
        seen.current = (now != State::Created).then(|| Instance {
            id: self.shared.full_id(&newest.id),
            image: newest.image.clone(),
            image_id: newest.image_id.clone(),
            state: now,
        });
        seen.startup_passed = status_flag(&self.pod, name, "started");
        seen.ready = status_flag(&self.pod, name, "ready");
        let held = |found: &Container| self.held(name, found);
        let kept = Kept {
            current: Some(held(&newest)),
            previous: before.as_ref().map(held),
            adopted: true,
            ..Kept::default()
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
            Some(terminated) => Ended {
                started: time(terminated, "startedAt"),
                finished: time(terminated, "finishedAt"),
                code: terminated.int_at(&["exitCode"]).unwrap_or_default(),
                reason: terminated.str_at(&["reason"]).unwrap_or_default().to_owned(),
                message: terminated.str_at(&["message"]).unwrap_or_default().to_owned(),
            },
            None => lost(),
        };
        let seen = Seen {
            current: Some(Instance {
                id: id.to_owned(),
                image: status.str_at(&["image"]).unwrap_or_default().to_owned(),
                image_id: status.str_at(&["imageID"]).unwrap_or_default().to_owned(),
                state: State::Ended(ended),
            }),
            restarts: attempt,
            backoff: self.shared.backoff,
            ..Seen::default()
        };
        let id = id.split_once("://").map_or(id, |(_, id)| id).to_owned();
        let log = self.log(name, attempt);
        let held = Held { id, attempt, log, state: ContainerState::Unknown };
        self.seen.containers.insert(name.to_owned(), seen);
        self.kept.insert(name.to_owned(), Kept { current: Some(held), ..Kept::default() });
    }

    fn held(&self, name: &str, found: &Container) -> Held {
        let (id, attempt) = (found.id.clone(), found.attempt);
        Held { id, attempt, log: self.log(name, attempt), state: found.state.clone() }
    }

    fn log(&self, name: &str, attempt: u32) -> PathBuf {
        container::log_folder(&self.shared.logs, &self.key).join(container::log_file(name, attempt))
    }

    fn hold_sandbox(&mut self, sandbox: &Sandbox) {
        self.seen.sandbox = sandbox.ready;
        let network = self.pod.bool_at(&["spec", "hostNetwork"]) == Some(true);
        let own: Vec<String> = sandbox.addresses.iter().map(IpAddr::to_string).collect();
        self.seen.pod_addresses =
            if network || own.is_empty() { self.shared.addresses() } else { own };
        self.shared.remember(&sandbox.id, &self.key.uid);
        self.sandbox =
            Some(HeldSandbox { id: sandbox.id.clone(), addresses: sandbox.addresses.clone() });
    }

    fn make_sandbox(&mut self) {
        if self.seen.sandbox_busy {
            return;
        }
        self.seen.sandbox_busy = true;
        if self.sandbox.is_some() {
            let message = "Pod sandbox changed, it will be killed and re-created.".to_owned();
            self.shared.events.tell(&self.subject, Grade::Normal, "SandboxChanged", message);
        }
        let logs = container::log_folder(&self.shared.logs, &self.key);
        let config = container::sandbox(&self.pod, self.attempts, logs);
        self.attempts += 1;
        let old = self.sandbox.as_ref().map(|sandbox| sandbox.id.clone());
        let (shared, out) = (Arc::clone(&self.shared), self.out.clone());
        self.work.spawn(async move {
            if let Some(old) = old {
                // What is left of it goes with the pod if it cannot go now.
                let _ = shared.runtime.stop_sandbox(&old).await;
                let _ = shared.runtime.remove_sandbox(&old).await;
            }
            let made = match std::fs::create_dir_all(&config.logs) {
                Ok(()) => shared.runtime.run_sandbox(&config).await,
                Err(error) => Err(RuntimeError::Failed(error.to_string())),
            };
            let _ = out.send(Message::SandboxMade(made));
        });
    }

    fn sandbox_made(&mut self, made: Result<Sandbox, RuntimeError>) {
        self.seen.sandbox_busy = false;
        match made {
            Ok(sandbox) => {
                self.hold_sandbox(&sandbox);
                self.seen.sandbox_after = None;
            }
            Err(error) => {
                if !matches!(error, RuntimeError::Away(_)) {
                    let message = format!("Failed to create pod sandbox: {error}");
                    let reason = "FailedCreatePodSandBox";
                    self.shared.events.tell(&self.subject, Grade::Warning, reason, message);
                }
                self.seen.sandbox_after = Some(Timestamp::now() + AWAY_RETRY);
            }
        }
    }

    /// What came of a start.
    async fn started(&mut self, name: &str, begun: Result<Begun, NotBegun>) {
        let now = Timestamp::now();
        let log = |attempt| self.log(name, attempt);
        match begun {
            Ok(begun) => {
                let held = Held {
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
                if let Some(Instance { id, state: State::Ended(ended), .. }) = seen.current.take() {
                    seen.backoff.started_again();
                    seen.last = Some((id, ended));
                }
                seen.busy = None;
                (seen.waiting, seen.after, seen.kill) = (None, None, None);
                (seen.ready, seen.startup_passed) = (false, false);
                seen.restarts = begun.attempt;
                seen.current = Some(Instance {
                    id,
                    image: begun.image,
                    image_id: begun.image_id,
                    // An end is taken in below, with its last words.
                    state: match state(&begun.state) {
                        State::Ended(ended) => {
                            State::Running { started: ended.started.unwrap_or(now) }
                        }
                        other => other,
                    },
                });
                if let Some(message) = begun.hook_failed {
                    seen.waiting = Some(Waiting { reason: "PostStartHookError".into(), message });
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
        seen.waiting = Some(Waiting { reason: reason.to_owned(), message });
    }

    /// A pull that failed some time ago is one that waits.
    fn age_pulls(&mut self, now: Timestamp, wake: &mut Timestamp) {
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
                seen.waiting = Some(Waiting { reason: "ImagePullBackOff".into(), message });
                let subject = self.subject.container(list(spec.role), name);
                self.shared.events.tell(&subject, Grade::Normal, "BackOff", words);
            }
            kept.pull_failed = None;
        }
    }

    /// Looks at every container that may have changed.
    async fn look(&mut self) {
        let names: Vec<(String, String)> = self
            .kept
            .iter()
            .filter_map(|(name, kept)| {
                let seen = self.seen.containers.get(name)?;
                let waits = seen.busy == Some(Busy::Starting) || !seen.lives();
                (!waits).then(|| Some((name.clone(), kept.current.as_ref()?.id.clone())))?
            })
            .collect();
        for (name, id) in names {
            match self.shared.runtime.status(&id).await {
                Ok(found) => self.learn(&name, found.state).await,
                Err(RuntimeError::NotFound(_)) => {
                    self.learn(&name, ContainerState::Unknown).await;
                }
                Err(error) => tracing::debug!(%error, "a container could not be looked at"),
            }
        }
    }

    /// Compares with everything the runtime holds of this pod.
    async fn compare(&mut self, found: Vec<Sandbox>) {
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
            if seen.busy == Some(Busy::Starting) || !seen.lives() {
                continue;
            }
            let state = all.iter().find(|container| container.id == id);
            let state = state.map_or(ContainerState::Unknown, |container| container.state.clone());
            self.learn(&name, state).await;
        }
    }

    /// Takes in what a container does now.
    async fn learn(&mut self, name: &str, found: ContainerState) {
        let Some(kept) = self.kept.get_mut(name) else { return };
        let Some(held) = &mut kept.current else { return };
        let attempt = held.attempt;
        held.state = found.clone();
        let ended = match state(&found) {
            State::Ended(ended) => ended,
            State::Unknown => lost(),
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
        let ended = Ended { message, ..ended };
        let Some(seen) = self.seen.containers.get_mut(name) else { return };
        let Some(current) = seen.current.as_mut() else { return };
        if matches!(current.state, State::Ended(_)) {
            return;
        }
        seen.backoff.ended(&ended);
        current.state = State::Ended(ended);
        seen.kill = None;
        (seen.ready, seen.startup_passed) = (false, false);
        self.unprobe(name);
    }

    /// The last words of an instance (R99).
    fn last_words(&self, name: &str, attempt: u32, ended: &Ended) -> String {
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

    /// Tells once that a container waits to be started again.
    fn tell_backoff(&mut self, now: Timestamp) {
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

    /// Begins the probes of containers that run.
    fn probe(&mut self) {
        if self.seen.ending.is_some() {
            for (_, (_, probe)) in std::mem::take(&mut self.probes) {
                probe.abort();
            }
            return;
        }
        for spec in &self.spec.containers {
            if matches!(spec.role, Role::Init | Role::Ephemeral) {
                continue;
            }
            let Some(seen) = self.seen.containers.get(&spec.name) else { continue };
            let Some(kept) = self.kept.get(&spec.name) else { continue };
            let Some(held) = &kept.current else { continue };
            if !seen.runs() || seen.busy.is_some() {
                continue;
            }
            for purpose in Purpose::ALL {
                let waits = match purpose {
                    Purpose::Startup => seen.startup_passed,
                    Purpose::Liveness | Purpose::Readiness => spec.startup && !seen.startup_passed,
                };
                let key = (spec.name.clone(), purpose);
                let there = self.probes.get(&key).is_some_and(|(id, _)| *id == held.id);
                if waits || there || !spec.object.contains_key(purpose.field()) {
                    continue;
                }
                let asked = self.asked(spec, &held.id);
                let (out, name, id) = (self.out.clone(), spec.name.clone(), held.id.clone());
                let spread = kept.adopted.then(|| self.shared.spread());
                let task = tokio::spawn(probe::run(asked, purpose, spread, move |well| {
                    let (container, id) = (name.clone(), id.clone());
                    let told = out.send(Message::Probed { container, id, purpose, well });
                    // A startup probe has said all it can once it passed.
                    told.is_ok() && !(purpose == Purpose::Startup && well)
                }));
                let held = (held.id.clone(), task.abort_handle());
                if let Some((_, old)) = self.probes.insert(key, held) {
                    old.abort();
                }
            }
        }
    }

    fn asked(&self, spec: &tenure_lifecycle::ContainerSpec, id: &str) -> Asked {
        let address = self.seen.pod_addresses.first().and_then(|address| address.parse().ok());
        Asked {
            runtime: Arc::clone(&self.shared.runtime),
            events: self.shared.events.clone(),
            subject: self.subject.container(list(spec.role), &spec.name),
            id: id.to_owned(),
            container: Arc::new(spec.object.clone()),
            address,
        }
    }

    fn unprobe(&mut self, name: &str) {
        for purpose in Purpose::ALL {
            if let Some((_, probe)) = self.probes.remove(&(name.to_owned(), purpose)) {
                probe.abort();
            }
        }
    }

    /// What follows from a probe (R110).
    fn probed(&mut self, name: &str, id: &str, purpose: Purpose, well: bool) {
        let current = self.kept.get(name).and_then(|kept| kept.current.as_ref());
        if current.is_none_or(|held| held.id != id) {
            return;
        }
        let Some(seen) = self.seen.containers.get_mut(name) else { return };
        let spec = self.spec.container(name);
        match purpose {
            Purpose::Readiness => seen.ready = well,
            Purpose::Startup if well => seen.startup_passed = true,
            Purpose::Liveness if well => {}
            Purpose::Startup | Purpose::Liveness => {
                let word = if purpose == Purpose::Startup { "startup" } else { "liveness" };
                let grace_seconds = spec.and_then(|spec| {
                    spec.object.int_at(&[purpose.field(), "terminationGracePeriodSeconds"])
                });
                let message = format!("Container {name} failed {word} probe, will be restarted");
                seen.kill = Some(KillOrder { message, grace_seconds });
            }
        }
    }

    /// Shows the pod to those who serve logs and commands.
    fn publish(&self) {
        let containers = self.spec.containers.iter().map(|spec| {
            let kept = self.kept.get(&spec.name);
            let seen = self.seen.containers.get(&spec.name);
            let instance = |held: &Held| pods::Instance {
                id: held.id.clone(),
                attempt: held.attempt,
                state: held.state.clone(),
                log: held.log.clone(),
            };
            let waits = seen.is_none_or(|seen| !seen.runs());
            let waiting = seen
                .and_then(|seen| seen.waiting.as_ref())
                .map_or_else(|| "ContainerCreating".to_owned(), |waiting| waiting.reason.clone());
            KnownContainer {
                name: spec.name.clone(),
                current: kept.and_then(|kept| kept.current.as_ref()).map(instance),
                previous: kept.and_then(|kept| kept.previous.as_ref()).map(instance),
                waiting: if waits { waiting } else { String::new() },
                stdin: spec.object.bool_at(&["stdin"]).unwrap_or_default(),
                tty: spec.object.bool_at(&["tty"]).unwrap_or_default(),
            }
        });
        self.shared.pods.put(KnownPod {
            key: self.key.clone(),
            object: self.report.shown(&self.pod),
            sandbox: self.sandbox.as_ref().map(|sandbox| sandbox.id.clone()),
            containers: containers.collect(),
        });
    }
}

/// The state of a container in the engine's words.
fn state(found: &ContainerState) -> State {
    match found {
        ContainerState::Created => State::Created,
        ContainerState::Running { started } => State::Running { started: *started },
        ContainerState::Unknown => State::Unknown,
        ContainerState::Exited { started, finished, code, reason, message } => {
            State::Ended(Ended {
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
fn lost() -> Ended {
    Ended {
        started: None,
        finished: Some(Timestamp::now()),
        code: 137,
        reason: "ContainerStatusUnknown".to_owned(),
        message: "The container could not be located when the pod was terminated".to_owned(),
    }
}

/// The list of the pod a role stands in.
pub(crate) fn list(role: Role) -> &'static str {
    match role {
        Role::Init | Role::Sidecar => "initContainers",
        Role::Regular => "containers",
        Role::Ephemeral => "ephemeralContainers",
    }
}

/// The order of versions of an object.
fn revision(object: &Object) -> u64 {
    let text = object.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
    text.parse().unwrap_or_default()
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

/// The first bytes of a file; nothing if it cannot be read.
fn read_some(path: &std::path::Path, max: usize) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.take(max as u64).read_to_end(&mut bytes);
    }
    bytes
}
