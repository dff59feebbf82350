//! How a container comes to run: image, environment, mounts, made, started, its first hook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure_downward::{RuntimeView, ValueInput, build_env};
use tenure_lifecycle::{ContainerSpec, ContainerTransition, ContainerType, ObservedContainer};
use tenure_machinery::{Object, ObjectExt as _};
use tokio::sync::watch;

use crate::agent::AgentContext;
use crate::clock;
use crate::container;
use crate::events::{EventSubject, Grade};
use crate::probe::ProbeTarget;
use crate::runtime::{
    ContainerConfig, ContainerState, Image, ImageWanted, Mount, PodKey, Pulling, RedactedValue,
    RuntimeError,
};
use crate::volume::MountWanted;
use crate::worker::{Worker, WorkerMessage, list};

/// Where names of hosts are, on a node and in its containers.
const HOSTS: &str = "/etc/hosts";
/// A hook after the start may take this long; upstream sets no bound at all.
const HOOK_MAX: Duration = Duration::from_secs(60 * 60);

/// A container that was started.
pub(crate) struct StartedContainer {
    pub(super) id: String,
    pub(super) attempt: u32,
    pub(super) image: String,
    pub(super) image_id: String,
    pub(super) state: ContainerState,
    pub(super) hook_failed: Option<String>,
}

/// Why a container was not started.
pub(crate) enum NotBegun {
    /// The pod ends.
    Cancelled,
    /// The runtime is away.
    Away,
    /// It waits, for this reason.
    Waits { reason: &'static str, message: String },
}

/// Everything a start needs, so that it runs beside the worker.
struct Starting {
    shared: Arc<AgentContext>,
    pod: Arc<Object>,
    key: PodKey,
    spec: ContainerSpec,
    subject: EventSubject,
    sandbox: String,
    addresses: Vec<IpAddr>,
    shown_address: String,
    attempt: u32,
    /// The instance before the last, which nobody may ask for any more.
    remove: Option<(String, PathBuf)>,
    ending: watch::Receiver<bool>,
    asked: ProbeTarget,
}

impl Worker {
    pub(super) fn start(&mut self, name: &str) {
        let Some(spec) = self.spec.container(name).cloned() else { return };
        let Some(sandbox) = self.sandbox.as_ref() else { return };
        let kept = self.kept.entry(name.to_owned()).or_default();
        let curve = self.shared.backoff;
        let seen = self.seen.containers.entry(name.to_owned()).or_insert_with(|| {
            ObservedContainer { backoff: curve, ..ObservedContainer::default() }
        });
        seen.busy = Some(ContainerTransition::Starting);
        seen.resources = Some(spec.object.map_at(&["resources"]).cloned().unwrap_or_default());
        let attempt = kept.current.as_ref().map_or(0, |held| held.attempt + 1);
        let remove = kept.previous.as_ref().map(|held| (held.id.clone(), held.log.clone()));
        let starting = Starting {
            shared: Arc::clone(&self.shared),
            pod: Arc::clone(&self.granted),
            key: self.key.clone(),
            subject: self.subject.container(list(spec.role), name),
            sandbox: sandbox.id.clone(),
            addresses: sandbox.addresses.clone(),
            shown_address: self.seen.pod_addresses.first().cloned().unwrap_or_default(),
            attempt,
            remove,
            ending: self.ending.subscribe(),
            asked: self.probe_target(&spec, ""),
            spec,
        };
        let (out, name) = (self.out.clone(), name.to_owned());
        self.work.spawn(async move {
            let begun = Box::pin(starting.run()).await;
            // A worker that is gone has nothing to start.
            let _ = out.send(WorkerMessage::Started(name, begun));
        });
    }
}

impl Starting {
    async fn run(mut self) -> Result<StartedContainer, NotBegun> {
        let image = self.image().await?;
        let config = self.config(&image).await?;
        if *self.ending.borrow() {
            return Err(NotBegun::Cancelled);
        }
        if let Some((id, log)) = self.remove.take() {
            // What is left of it goes with the sandbox if it cannot go now.
            let _ = self.shared.runtime.remove(&id).await;
            remove_logs(&log);
        }
        let id = match self.shared.runtime.create(&self.sandbox, &config).await {
            Ok(id) => id,
            Err(error) => return Err(self.failed("CreateContainerError", error)),
        };
        let say = |reason, words: &str| {
            self.shared.events.tell(&self.subject, Grade::Normal, reason, words.to_owned());
        };
        say("Created", "Container created");
        let (attempt, image_id) = (self.attempt, image.id.clone());
        let begun = |state, hook_failed| StartedContainer {
            id: id.clone(),
            attempt,
            image: self.spec.image.clone(),
            image_id: image_id.clone(),
            state,
            hook_failed,
        };
        if let Err(error) = self.shared.runtime.start(&id).await {
            if matches!(error, RuntimeError::Away(_)) {
                return Err(NotBegun::Away);
            }
            let message = error.to_string();
            self.tell_failed(&message);
            let found = self.shared.runtime.status(&id).await.map(|found| found.state);
            let state = match found {
                Ok(state @ ContainerState::Exited { .. }) => state,
                _ => never_ran(message),
            };
            return Ok(begun(state, None));
        }
        say("Started", "Container started");
        let hook_failed = self.post_start(&id).await.err();
        match self.shared.runtime.status(&id).await {
            Ok(found) => Ok(begun(found.state, hook_failed)),
            Err(RuntimeError::NotFound(_)) => Ok(begun(ContainerState::Unknown, None)),
            Err(_) => {
                let started = clock::timestamp();
                Ok(begun(ContainerState::Running { started }, hook_failed))
            }
        }
    }

    fn tell_failed(&self, message: &str) {
        let words = format!("Error: {message}");
        self.shared.events.tell(&self.subject, Grade::Warning, "Failed", words);
    }

    fn failed(&self, reason: &'static str, error: RuntimeError) -> NotBegun {
        match error {
            RuntimeError::Away(_) => NotBegun::Away,
            RuntimeError::Image { reason, message } => {
                self.tell_failed(&message);
                NotBegun::Waits { reason, message }
            }
            error => {
                let message = error.to_string();
                self.tell_failed(&message);
                NotBegun::Waits { reason, message }
            }
        }
    }

    fn misconfigured(&self, message: String) -> NotBegun {
        self.tell_failed(&message);
        NotBegun::Waits { reason: "CreateContainerConfigError", message }
    }

    /// The image, pulled if need be; given up when the pod ends.
    async fn image(&mut self) -> Result<Image, NotBegun> {
        let name = &self.spec.image;
        let text = |name: &str| self.spec.object.str_at(&[name]);
        let policy = text("imagePullPolicy").unwrap_or("IfNotPresent").to_owned();
        let pulling = {
            let (events, subject) = (self.shared.events.clone(), self.subject.clone());
            let words = format!("Pulling image \"{name}\"");
            Pulling::telling(move || {
                events.tell(&subject, Grade::Normal, "Pulling", words.clone());
            })
        };
        let wanted = ImageWanted { name: name.clone(), policy, pulling };
        let say = |grade, reason, words| {
            self.shared.events.tell(&self.subject, grade, reason, words);
        };
        let begin = clock::instant();
        let mut ending = self.ending.clone();
        let found = tokio::select! {
            found = self.shared.runtime.image(&wanted) => found,
            _ = ending.wait_for(|ending| *ending) => return Err(NotBegun::Cancelled),
        };
        match found {
            Ok(image) if image.pulled => {
                let took = begin.elapsed().as_millis();
                let words = format!("Successfully pulled image \"{name}\" in {took}ms");
                say(Grade::Normal, "Pulled", words);
                Ok(image)
            }
            Ok(image) => {
                let words = format!("Container image \"{name}\" already present on machine");
                say(Grade::Normal, "Pulled", words);
                Ok(image)
            }
            Err(RuntimeError::Image { reason, message }) => {
                let (word, words) = match reason {
                    "ErrImageNeverPull" => ("ErrImageNeverPull", message.clone()),
                    "InvalidImageName" => ("InspectFailed", message.clone()),
                    _ => ("Failed", format!("Failed to pull image \"{name}\": {message}")),
                };
                say(Grade::Warning, word, words);
                self.tell_failed(reason);
                Err(NotBegun::Waits { reason, message })
            }
            Err(error) => Err(self.failed("ErrImagePull", error)),
        }
    }

    /// The container in the words of the runtime.
    async fn config(&self, image: &Image) -> Result<ContainerConfig, NotBegun> {
        let (shared, pod, container) = (&self.shared, &self.pod, &self.spec.object);
        let security = container::security(pod, container);
        if container::refuses_root(pod, container)
            && let Some(why) = container::may_be_root(security.uid, image.uid.as_ref())
        {
            return Err(self.misconfigured(format!(
                "{why} (pod: \"{}_{}({})\", container: {})",
                self.key.name, self.key.namespace, self.key.uid, self.spec.name
            )));
        }
        let inputs: BTreeSet<ValueInput> = tenure_downward::env_inputs(container);
        shared.objects.settle(&self.key.namespace, &inputs).await;
        let mut around = shared.objects.around(&self.key.namespace, &inputs, BTreeMap::new());
        for name in file_volumes(container) {
            let wanted = MountWanted { volume: name.clone(), ..MountWanted::default() };
            if let Ok(mount) = shared.volumes.mount(&self.key, &wanted) {
                around.files.insert(name, mount.from);
            }
        }
        let node = shared.node.borrow().clone();
        let view = RuntimeView {
            node: node.as_deref(),
            pod_ips: &self.addresses,
            settings: shared.settings,
        };
        let env = build_env(pod, container, &view, &around)
            .map_err(|error| self.misconfigured(error.message))?;
        let mut mounts = Vec::new();
        let opens = shared.runtime.opens_paths();
        let listed = container.list_at(&["volumeMounts"]).iter().filter_map(Value::as_object);
        for (index, mount) in listed.enumerate() {
            let text = |name: &str| mount.str_at(&[name]).unwrap_or_default().to_owned();
            let sub_path = match mount.str_at(&["subPathExpr"]).filter(|text| !text.is_empty()) {
                Some(text) => env.expand_path(text).map_err(|error| self.misconfigured(error))?,
                None => text("subPath"),
            };
            let wanted = MountWanted {
                volume: text("name"),
                at: text("mountPath"),
                read_only: mount.bool_at(&["readOnly"]).unwrap_or_default(),
                sub_path,
                propagation: mount.str_at(&["mountPropagation"]).map(str::to_owned),
                bound_as: opens.then(|| format!("{}.{index}", self.spec.name)),
            };
            let found = shared.volumes.mount(&self.key, &wanted);
            mounts.push(found.map_err(|error| self.misconfigured(error.to_string()))?);
        }
        let (termination, hosts) = self.own_files().map_err(|error| {
            self.misconfigured(format!("the files of the container cannot be made: {error}"))
        })?;
        if mounts.iter().all(|mount| mount.at != hosts.at) {
            mounts.push(hosts);
        }
        let words = |name: &str| env.expand_all(container.list_at(&[name]));
        let (command, args) = (words("command"), words("args"));
        let flag = |name: &str| container.bool_at(&[name]).unwrap_or_default();
        Ok(ContainerConfig {
            name: self.spec.name.clone(),
            attempt: self.attempt,
            image: image.reference.clone(),
            image_name: self.spec.image.clone(),
            command,
            args,
            directory: container.str_at(&["workingDir"]).unwrap_or_default().to_owned(),
            env: env
                .into_vec()
                .into_iter()
                .map(|(name, value)| (name, RedactedValue(value)))
                .collect(),
            mounts,
            log: container::log_file(&self.spec.name, self.attempt),
            stdin: flag("stdin"),
            stdin_once: flag("stdinOnce"),
            tty: flag("tty"),
            termination: Some(termination),
            stop_signal: container.str_at(&["lifecycle", "stopSignal"]).map(str::to_owned),
            security,
            limits: container::limits(pod, container, shared.room.memory_bytes),
        })
    }

    /// The file of last words, the folder of the log, and the pod's own names of hosts.
    fn own_files(&self) -> std::io::Result<((String, PathBuf), Mount)> {
        let folder = self.shared.volumes.folder(&self.key.uid);
        let file = termination_file(&folder, &self.spec.name, self.attempt);
        make_parent(&file)?;
        fs::write(&file, "")?;
        // Whoever the container runs as may write its last words.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
        let logs = container::log_folder(&self.shared.logs, &self.key);
        fs::create_dir_all(logs.join(&self.spec.name))?;
        let at = self.spec.object.str_at(&["terminationMessagePath"]);
        let termination = (at.unwrap_or("/dev/termination-log").to_owned(), file);
        let from = folder.join("etc-hosts");
        if !from.exists() {
            make_parent(&from)?;
            let text = if self.pod.bool_at(&["spec", "hostNetwork"]) == Some(true) {
                // A node without names of hosts has none to give.
                let node = fs::read(HOSTS).unwrap_or_default();
                container::hosts_of_node(&self.pod, &String::from_utf8_lossy(&node))
            } else {
                container::hosts(&self.pod, &self.shown_address)
            };
            fs::write(&from, text)?;
            fs::set_permissions(&from, fs::Permissions::from_mode(0o644))?;
        }
        let at = HOSTS.to_owned();
        Ok((termination, Mount { at, from, read_only: false, propagation: None }))
    }

    /// The hook after the start; its failure ends the container (R100).
    async fn post_start(&self, id: &str) -> Result<(), String> {
        let Some(hook) = self.spec.object.map_at(&["lifecycle", "postStart"]) else {
            return Ok(());
        };
        if self.spec.role == ContainerType::Ephemeral {
            return Ok(());
        }
        let asked = ProbeTarget { id: id.to_owned(), ..self.asked.clone() };
        let done = asked.hook(hook, HOOK_MAX).await;
        if let Err(why) = &done {
            tracing::debug!(container = self.spec.name, why, "a hook failed");
            let words = "PostStartHook failed".to_owned();
            self.shared.events.tell(&self.subject, Grade::Warning, "FailedPostStartHook", words);
        }
        done
    }
}

/// Where the last words of an instance are written.
pub(super) fn termination_file(folder: &Path, container: &str, attempt: u32) -> PathBuf {
    folder.join("containers").join(container).join(attempt.to_string())
}

fn make_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Removes the log of an instance, rotated files too.
fn remove_logs(log: &Path) {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { return };
    let Ok(files) = fs::read_dir(folder) else { return };
    let name = name.to_string_lossy().into_owned();
    for file in files.flatten() {
        if file.file_name().to_string_lossy().starts_with(&name) {
            // A log that stays is removed with the pod.
            let _ = fs::remove_file(file.path());
        }
    }
}

/// The volumes that variables are read from.
fn file_volumes(container: &Object) -> BTreeSet<String> {
    let variables = container.list_at(&["env"]).iter().filter_map(Value::as_object);
    variables
        .filter_map(|variable| variable.str_at(&["valueFrom", "fileKeyRef", "volumeName"]))
        .map(str::to_owned)
        .collect()
}

/// The end of a container whose command cannot be run.
fn never_ran(message: String) -> ContainerState {
    let now = clock::timestamp();
    ContainerState::Exited {
        started: now,
        finished: now,
        code: 128,
        reason: "StartError".to_owned(),
        message,
    }
}
