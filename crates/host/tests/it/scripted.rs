//! A runtime that starts nothing and does what a test says. No test lives here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use tenure_node::runtime::{
    Container, ContainerConfig, ContainerLimits, ContainerRuntime, ContainerState, Duplex, Image,
    ImageWanted, Ran, RuntimeError, RuntimeFuture, RuntimeInfo, Sandbox, SandboxConfig, Session,
    Streams,
};
use tokio::sync::broadcast;

#[derive(Default)]
struct State {
    sandboxes: BTreeMap<String, Sandbox>,
    configs: BTreeMap<String, ContainerConfig>,
    said: Vec<String>,
    away: bool,
    next: u32,
    /// Containers that ignore the stop signal until they are killed.
    stubborn: Vec<String>,
    /// The exit code of commands that are run, by their first word.
    commands: BTreeMap<String, i32>,
}

/// A runtime; clones are the same one.
#[derive(Clone)]
pub(crate) struct Scripted {
    state: Arc<Mutex<State>>,
    changes: broadcast::Sender<String>,
}

impl Scripted {
    pub(crate) fn new() -> Scripted {
        Scripted { state: Arc::default(), changes: broadcast::channel(64).0 }
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap())
    }

    /// Another runtime that holds what this one holds, as a new process finds it.
    pub(crate) fn left(&self) -> Scripted {
        let left = Scripted::new();
        let (sandboxes, next) = self.with(|state| (state.sandboxes.clone(), state.next));
        left.with(|state| (state.sandboxes, state.next) = (sandboxes, next));
        left
    }

    /// Everything that was asked, in order.
    pub(crate) fn said(&self) -> Vec<String> {
        self.with(|state| state.said.clone())
    }

    /// The settings of a container that was made.
    pub(crate) fn config(&self, name: &str) -> Option<ContainerConfig> {
        self.with(|state| {
            let mut found = state.configs.values().filter(|config| config.name == name);
            found.next_back().cloned()
        })
    }

    pub(crate) fn go_away(&self, away: bool) {
        self.with(|state| state.away = away);
    }

    pub(crate) fn stubborn(&self, name: &str) {
        self.with(|state| state.stubborn.push(name.to_owned()));
    }

    /// What a command of a probe or hook ends with from now on.
    pub(crate) fn command(&self, word: &str, code: i32) {
        self.with(|state| state.commands.insert(word.to_owned(), code));
    }

    /// Ends the running instance of a container.
    pub(crate) fn exit(&self, name: &str, code: i32) {
        let sandbox = self.with(|state| {
            let mut found = None;
            for sandbox in state.sandboxes.values_mut() {
                for container in &mut sandbox.containers {
                    if container.name == name
                        && let ContainerState::Running { started } = container.state
                    {
                        container.state = ended(started, code);
                        found = Some(sandbox.id.clone());
                    }
                }
            }
            found
        });
        self.changed(sandbox);
    }

    fn changed(&self, sandbox: Option<String>) {
        if let Some(sandbox) = sandbox {
            let _ = self.changes.send(sandbox);
        }
    }

    fn answer<T: Send + 'static>(
        &self,
        word: String,
        work: impl FnOnce(&mut State) -> Result<T, RuntimeError>,
    ) -> RuntimeFuture<'static, T> {
        let done = self.with(|state| {
            if state.away {
                return Err(RuntimeError::Away("gone for a walk".into()));
            }
            if !word.is_empty() {
                state.said.push(word);
            }
            work(state)
        });
        Box::pin(async move { done })
    }
}

fn ended(started: Timestamp, code: i32) -> ContainerState {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let (reason, message) = (reason.to_owned(), String::new());
    ContainerState::Exited { started, finished: Timestamp::now(), code, reason, message }
}

fn find<'a>(state: &'a mut State, id: &str) -> Result<&'a mut Container, RuntimeError> {
    let all = state.sandboxes.values_mut().flat_map(|sandbox| &mut sandbox.containers);
    let mut found = all.filter(|container| container.id == id);
    found.next().ok_or_else(|| RuntimeError::NotFound(id.to_owned()))
}

impl ContainerRuntime for Scripted {
    fn about(&self) -> RuntimeFuture<'_, RuntimeInfo> {
        self.answer(String::new(), |_| {
            let word = "scripted".to_owned();
            let about =
                RuntimeInfo { name: word.clone(), version: "1".into(), ..RuntimeInfo::default() };
            Ok(RuntimeInfo { scheme: word, ..about })
        })
    }

    fn image<'a>(&'a self, wanted: &'a ImageWanted) -> RuntimeFuture<'a, Image> {
        let wanted = wanted.clone();
        self.answer(format!("image {}", wanted.name), move |_| {
            if wanted.name.starts_with("missing") {
                wanted.pulling.begin();
                let message = format!("{} is nowhere", wanted.name);
                return Err(RuntimeError::Image { reason: "ErrImagePull", message });
            }
            Ok(Image { reference: wanted.name, id: "sha".into(), uid: None, pulled: false })
        })
    }

    fn run_sandbox<'a>(&'a self, config: &'a SandboxConfig) -> RuntimeFuture<'a, Sandbox> {
        let (pod, attempt) = (config.pod.clone(), config.attempt);
        self.answer(format!("sandbox {}", pod.name), move |state| {
            let sandbox = Sandbox {
                id: format!("sandbox-{}-{attempt}", pod.uid),
                pod,
                attempt,
                ready: true,
                addresses: vec!["10.1.2.3".parse().unwrap()],
                containers: Vec::new(),
            };
            state.sandboxes.insert(sandbox.id.clone(), sandbox.clone());
            Ok(sandbox)
        })
    }

    fn stop_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()> {
        self.answer("stop sandbox".to_owned(), |state| {
            if let Some(sandbox) = state.sandboxes.get_mut(sandbox) {
                sandbox.ready = false;
                for container in &mut sandbox.containers {
                    if let ContainerState::Running { started } = container.state {
                        container.state = ended(started, 137);
                    }
                }
            }
            Ok(())
        })
    }

    fn remove_sandbox<'a>(&'a self, sandbox: &'a str) -> RuntimeFuture<'a, ()> {
        self.answer("remove sandbox".to_owned(), |state| {
            state.sandboxes.remove(sandbox);
            Ok(())
        })
    }

    fn create<'a>(
        &'a self,
        sandbox: &'a str,
        config: &'a ContainerConfig,
    ) -> RuntimeFuture<'a, String> {
        self.answer(format!("create {}", config.name), |state| {
            state.next += 1;
            let id = format!("{:04}-{}", state.next, config.name);
            let container = Container {
                id: id.clone(),
                sandbox: sandbox.to_owned(),
                name: config.name.clone(),
                attempt: config.attempt,
                image: config.image_name.clone(),
                image_id: "sha".to_owned(),
                state: ContainerState::Created,
            };
            state.configs.insert(id.clone(), config.clone());
            let found = state.sandboxes.get_mut(sandbox);
            let found = found.ok_or_else(|| RuntimeError::NotFound(sandbox.to_owned()))?;
            found.containers.push(container);
            Ok(id)
        })
    }

    fn start<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()> {
        let name = container.split_once('-').map_or("", |(_, name)| name).to_owned();
        self.answer(format!("start {name}"), |state| {
            if name == "unrunnable" {
                return Err(RuntimeError::CannotRun("exec: \"x\": no such file".to_owned()));
            }
            find(state, container)?.state = ContainerState::Running { started: Timestamp::now() };
            Ok(())
        })
    }

    fn update<'a>(
        &'a self,
        container: &'a str,
        limits: &'a ContainerLimits,
    ) -> RuntimeFuture<'a, ()> {
        let name = container.split_once('-').map_or("", |(_, name)| name).to_owned();
        let limits = limits.clone();
        self.answer(format!("update {name}"), move |state| {
            find(state, container)?;
            if let Some(config) = state.configs.get_mut(container) {
                config.limits = limits;
            }
            Ok(())
        })
    }

    fn stop<'a>(
        &'a self,
        container: &'a str,
        _signal: Option<&'a str>,
        grace: Duration,
    ) -> RuntimeFuture<'a, ()> {
        let name = container.split_once('-').map_or("", |(_, name)| name).to_owned();
        let stubborn = self.with(|state| state.stubborn.contains(&name));
        let begun = self.answer(format!("stop {name} {}", grace.as_secs_f64().ceil()), |_| Ok(()));
        let (runtime, container) = (self.clone(), container.to_owned());
        Box::pin(async move {
            begun.await?;
            if stubborn {
                tokio::time::sleep(grace).await;
            }
            let sandbox = runtime.with(|state| {
                let code = if stubborn { 137 } else { 143 };
                let found = find(state, &container).ok()?;
                if let ContainerState::Running { started } = found.state {
                    found.state = ended(started, code);
                }
                Some(found.sandbox.clone())
            });
            runtime.changed(sandbox);
            Ok(())
        })
    }

    fn remove<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, ()> {
        self.answer(String::new(), |state| {
            for sandbox in state.sandboxes.values_mut() {
                sandbox.containers.retain(|found| found.id != container);
            }
            Ok(())
        })
    }

    fn list(&self) -> RuntimeFuture<'_, Vec<Sandbox>> {
        self.answer(String::new(), |state| Ok(state.sandboxes.values().cloned().collect()))
    }

    fn status<'a>(&'a self, container: &'a str) -> RuntimeFuture<'a, Container> {
        self.answer(String::new(), |state| find(state, container).cloned())
    }

    fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }

    fn run<'a>(&'a self, _: &'a str, command: &'a [String], _: Duration) -> RuntimeFuture<'a, Ran> {
        let word = command.first().cloned().unwrap_or_default();
        self.answer(format!("run {word}"), |state| {
            let code = state.commands.get(&word).copied().unwrap_or_default();
            Ok(Ran { code, output: b"said".to_vec(), timed_out: false })
        })
    }

    fn exec<'a>(&'a self, _: &'a str, _: &'a [String], _: Streams) -> RuntimeFuture<'a, Session> {
        self.answer(String::new(), |_| Err(RuntimeError::Refused("not here".into())))
    }

    fn attach<'a>(&'a self, _: &'a str, _: Streams) -> RuntimeFuture<'a, Session> {
        self.answer(String::new(), |_| Err(RuntimeError::Refused("not here".into())))
    }

    fn connect<'a>(&'a self, _: &'a str, _: u16) -> RuntimeFuture<'a, Box<dyn Duplex>> {
        self.answer(String::new(), |_| Err(RuntimeError::Refused("not here".into())))
    }
}
