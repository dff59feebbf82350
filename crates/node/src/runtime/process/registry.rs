//! The agent's memory of sandboxes and containers, and how it is refilled from disk after a
//! restart. What is made or stopped is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};

use super::link::ShimClient;
use super::network::PodRange;
use super::state::{self, ContainerRecord, SandboxRecord};
use super::users;
use super::wire::{ContainerProcesses, Exited, Process, ShimRequest, ShimResponse};
use crate::clock;
use crate::runtime::{Container, ContainerState, RuntimeError, Sandbox};

/// How long a container may take from its start to the record of it.
const STARTING_MAX: std::time::Duration = std::time::Duration::from_secs(2);

/// How long an address is nobody's after a pod gave it up: who still speaks to the old pod reaches no other.
const RESTS: std::time::Duration = std::time::Duration::from_secs(30);

/// How many ranges of users are remembered for pods without a sandbox.
const FIRST_IDS_MAX: usize = 1024;

/// All that is known.
pub(super) struct Keep {
    folder: PathBuf,
    known: Mutex<ProcessRegistry>,
    changes: broadcast::Sender<String>,
}

#[derive(Default)]
struct ProcessRegistry {
    sandboxes: BTreeMap<String, SandboxRecord>,
    containers: BTreeMap<String, ProcessContainer>,
    turns: BTreeMap<String, Arc<tokio::sync::Mutex<()>>>,
    /// The first id of pods that may have no sandbox yet: their volumes have owners before.
    first_ids: BTreeMap<String, u32>,
    /// Addresses of sandboxes that are being made.
    reserved: BTreeSet<IpAddr>,
    /// Addresses that were given up lately, since when and by which pod.
    resting: BTreeMap<IpAddr, (std::time::Instant, String)>,
}

/// One container.
pub(super) struct ProcessContainer {
    record: ContainerRecord,
    folder: PathBuf,
    state: watch::Sender<ContainerState>,
    link: Option<Arc<ShimClient>>,
    /// While it lives; its number may be another's afterwards.
    init: Option<Process>,
    running: Option<ContainerProcesses>,
}

impl ProcessContainer {
    /// A container that waits to be started.
    pub(super) fn made(
        record: ContainerRecord,
        folder: PathBuf,
        link: ShimClient,
        init: Process,
    ) -> ProcessContainer {
        ProcessContainer {
            record,
            folder,
            state: watch::Sender::new(ContainerState::Created),
            link: Some(Arc::new(link)),
            init: Some(init),
            running: None,
        }
    }

    fn seen(&self) -> Container {
        Container {
            id: self.record.id.clone(),
            sandbox: self.record.sandbox.clone(),
            name: self.record.name.clone(),
            attempt: self.record.attempt,
            image: self.record.image.clone(),
            image_id: self.record.image_id.clone(),
            state: self.state.borrow().clone(),
        }
    }
}

impl From<Exited> for ContainerState {
    fn from(exited: Exited) -> ContainerState {
        let Exited { started, finished, code, reason, message } = exited;
        ContainerState::Exited { started, finished, code, reason, message }
    }
}

/// A container whose end nobody saw.
fn unknown(started: Option<jiff::Timestamp>) -> Exited {
    let now = clock::timestamp();
    Exited {
        started: started.unwrap_or(now),
        finished: now,
        code: 137,
        reason: "ContainerStatusUnknown".to_owned(),
        message: "the container could not be found when the agent looked for it".to_owned(),
    }
}

impl Keep {
    /// Reads the folder and takes up every container that lives (R146).
    pub(super) fn open(folder: &Path) -> std::io::Result<Arc<Keep>> {
        let (changes, _) = broadcast::channel(1024);
        let keep = Arc::new(Keep { folder: folder.to_owned(), known: Mutex::default(), changes });
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let hidden =
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if hidden || !path.is_dir() {
                continue;
            }
            match state::load::<SandboxRecord>(&path.join("sandbox.json")) {
                Some(record) => keep.adopt_sandbox(&path, record)?,
                // An agent was killed before it wrote what this is.
                None => std::fs::remove_dir_all(&path)?,
            }
        }
        Ok(keep)
    }

    fn adopt_sandbox(self: &Arc<Self>, path: &Path, record: SandboxRecord) -> std::io::Result<()> {
        self.known().sandboxes.insert(record.id.clone(), record);
        for entry in std::fs::read_dir(path)? {
            let folder = entry?.path();
            if !folder.is_dir() {
                continue;
            }
            match state::load::<ContainerRecord>(&folder.join("container.json")) {
                Some(record) => self.adopt(folder, record),
                None => std::fs::remove_dir_all(&folder)?,
            }
        }
        Ok(())
    }

    fn adopt(self: &Arc<Self>, folder: PathBuf, record: ContainerRecord) {
        let id = record.id.clone();
        let exited: Option<Exited> = state::load(&folder.join("exited.json"));
        let running: Option<ContainerProcesses> = state::load(&folder.join("running.json"));
        let mut held = ProcessContainer {
            record,
            folder: folder.clone(),
            state: watch::Sender::new(ContainerState::Unknown),
            link: None,
            init: None,
            running: running.clone(),
        };
        match (exited, running) {
            (Some(exited), _) => {
                held.state.send_replace(exited.into());
                self.add(held);
            }
            (None, Some(running)) => {
                let lives = running.shim.lives() && running.init.lives();
                let link = if lives { ShimClient::connect(&folder).ok() } else { None };
                match link {
                    Some(link) => {
                        let started = running.started;
                        held.state.send_replace(ContainerState::Running { started });
                        let link = Arc::new(link);
                        held.link = Some(Arc::clone(&link));
                        held.init = Some(running.init);
                        self.add(held);
                        self.follow(&id, link);
                    }
                    None => {
                        // It may have ended between the two looks.
                        let exited = state::load(&folder.join("exited.json"))
                            .unwrap_or_else(|| unknown(Some(running.started)));
                        running.shim.kill();
                        running.init.kill();
                        let _ = state::save(&folder.join("exited.json"), &exited);
                        held.state.send_replace(exited.into());
                        self.add(held);
                    }
                }
            }
            (None, None) => self.adopt_unsure(&folder, held.record),
        }
    }

    /// There is no record of its start: it never ran, or is starting at this moment for the agent
    /// that is gone. A shim whose folder is moved away cannot write the record any more and gives up.
    fn adopt_unsure(self: &Arc<Self>, folder: &Path, record: ContainerRecord) {
        let begin = clock::instant();
        let recorded = |folder: &Path| folder.join("running.json").exists();
        while !recorded(folder) && ShimClient::connect(folder).is_ok() {
            if begin.elapsed() > STARTING_MAX {
                break;
            }
            clock::block_for(std::time::Duration::from_millis(5));
        }
        let aside = folder.with_extension("gone");
        if !recorded(folder) && std::fs::rename(folder, &aside).is_ok() {
            if !recorded(&aside) {
                let _ = std::fs::remove_dir_all(&aside);
                return;
            }
            let _ = std::fs::rename(&aside, folder);
        }
        if recorded(folder) {
            self.adopt(folder.to_owned(), record);
        }
    }

    fn known(&self) -> MutexGuard<'_, ProcessRegistry> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn changes(&self) -> broadcast::Receiver<String> {
        self.changes.subscribe()
    }

    /// The folder of a container.
    pub(super) fn place(&self, sandbox: &str, id: &str) -> PathBuf {
        self.folder.join(sandbox).join(id)
    }

    pub(super) fn add(&self, held: ProcessContainer) {
        self.known().containers.insert(held.record.id.clone(), held);
    }

    pub(super) fn add_sandbox(&self, record: SandboxRecord) -> std::io::Result<()> {
        let folder = self.folder.join(&record.id);
        std::fs::create_dir_all(&folder)?;
        state::save(&folder.join("sandbox.json"), &record)?;
        let mut known = self.known();
        known.reserved.remove(&record.address);
        known.sandboxes.insert(record.id.clone(), record);
        Ok(())
    }

    /// All sandboxes as they are written down.
    pub(super) fn sandbox_records(&self) -> Vec<SandboxRecord> {
        self.known().sandboxes.values().cloned().collect()
    }

    /// An address of the range that no other pod here has or had in the last half minute; the same for the same
    /// pod where that is possible (N5). It is kept for a sandbox that is being made.
    pub(super) fn reserve_address(&self, uid: &str, range: PodRange) -> Option<Ipv4Addr> {
        let mut hasher = std::hash::DefaultHasher::new();
        uid.hash(&mut hasher);
        let now = clock::instant();
        let mut known = self.known();
        known.resting.retain(|_, (since, _)| now.duration_since(*since) < RESTS);
        let given: BTreeSet<IpAddr> =
            known.sandboxes.values().map(|record| record.address).collect();
        let found = range.free(hasher.finish(), |address| {
            let rests = known.resting.get(&address).is_some_and(|(_, before)| before != uid);
            rests || given.contains(&address) || known.reserved.contains(&address)
        })?;
        known.reserved.insert(found.into());
        Some(found)
    }

    /// The sandbox that an address was for is not made.
    pub(super) fn release_address(&self, address: IpAddr) {
        self.known().reserved.remove(&address);
    }

    /// Whose turn it is to make containers in a sandbox: they share what the first one makes.
    pub(super) fn turn(&self, sandbox: &str) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(self.known().turns.entry(sandbox.to_owned()).or_default())
    }

    /// An address below 127.64.0.0/10 that no other pod here has; the same for the same pod.
    pub(super) fn free_address(&self, uid: &str) -> IpAddr {
        let mut hasher = std::hash::DefaultHasher::new();
        uid.hash(&mut hasher);
        let begin = hasher.finish();
        let known = self.known();
        let taken: Vec<IpAddr> = known.sandboxes.values().map(|record| record.address).collect();
        for step in 0..u64::from(u16::MAX) {
            let number = u32::try_from(begin.wrapping_add(step) & 0x3f_ffff).unwrap_or_default();
            let [_, high, middle, low] = number.to_be_bytes();
            let address = IpAddr::V4(Ipv4Addr::new(127, 64 | high, middle, low));
            if low != 0 && low != 255 && !taken.contains(&address) {
                return address;
            }
        }
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }

    /// The node's id of a pod's user 0: a range that no other pod here has; the same for the same pod.
    pub(super) fn first_id(&self, uid: &str) -> u32 {
        let mut known = self.known();
        let of_sandbox = |record: &SandboxRecord| record.first_id.filter(|_| record.pod.uid == uid);
        let found = known.sandboxes.values().find_map(of_sandbox);
        if let Some(found) = found.or_else(|| known.first_ids.get(uid).copied()) {
            return found;
        }
        let mut hasher = std::hash::DefaultHasher::new();
        uid.hash(&mut hasher);
        let begin = hasher.finish();
        if known.first_ids.len() > FIRST_IDS_MAX {
            // Pods that are gone; who still has a sandbox is known by that.
            known.first_ids.clear();
        }
        let sandboxes = known.sandboxes.values().filter_map(|record| record.first_id);
        let taken: Vec<u32> = sandboxes.chain(known.first_ids.values().copied()).collect();
        let mut steps =
            (0..=taken.len() as u64).map(|step| users::first_of(begin.wrapping_add(step)));
        let first =
            steps.find(|first| !taken.contains(first)).unwrap_or_else(|| users::first_of(begin));
        known.first_ids.insert(uid.to_owned(), first);
        first
    }

    /// A process in the user namespace of a pod.
    pub(super) fn holder_of_users(&self, sandbox: &str) -> Option<Process> {
        self.known().alive(sandbox, |held| held.record.own_users)
    }

    pub(super) fn sandbox_record(&self, id: &str) -> Result<SandboxRecord, RuntimeError> {
        let known = self.known();
        let record = known.sandboxes.get(id);
        record.cloned().ok_or_else(|| RuntimeError::NotFound(format!("sandbox {id}")))
    }

    pub(super) fn sandbox(&self, id: &str) -> Option<Sandbox> {
        let known = self.known();
        let record = known.sandboxes.get(id)?;
        Some(see(record, known.containers.values().filter(|held| held.record.sandbox == id)))
    }

    pub(super) fn all(&self) -> Vec<Sandbox> {
        let known = self.known();
        let mut held: BTreeMap<&str, Vec<&ProcessContainer>> = BTreeMap::new();
        for one in known.containers.values() {
            held.entry(&one.record.sandbox).or_default().push(one);
        }
        let of = |id: &str| held.get(id).map(Vec::as_slice).unwrap_or_default();
        let records = known.sandboxes.values();
        records.map(|record| see(record, of(&record.id).iter().copied())).collect()
    }

    pub(super) fn stop_sandbox(&self, id: &str) {
        let mut known = self.known();
        if let Some(record) = known.sandboxes.get_mut(id) {
            record.stopped = true;
            let _ = state::save(&self.folder.join(id).join("sandbox.json"), record);
        }
    }

    pub(super) fn remove_sandbox(&self, id: &str) {
        let mut known = self.known();
        let removed = known.sandboxes.remove(id);
        let there = removed.is_some();
        if let Some(record) = removed.filter(|record| !record.host_network) {
            let rests = (clock::instant(), record.pod.uid);
            known.resting.insert(record.address, rests);
        }
        known.turns.remove(id);
        known.containers.retain(|_, held| held.record.sandbox != id);
        drop(known);
        if there {
            let _ = std::fs::remove_dir_all(self.folder.join(id));
            self.tell(id);
        }
    }

    /// Containers of a sandbox; the one that holds its processes last.
    pub(super) fn containers_of(&self, sandbox: &str) -> Vec<String> {
        let known = self.known();
        let of = known.containers.values().filter(|held| held.record.sandbox == sandbox);
        let mut ids: Vec<_> = of.map(|held| (held.record.pause, held.record.id.clone())).collect();
        ids.sort();
        ids.into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn remove(&self, id: &str) {
        let removed = self.known().containers.remove(id);
        if let Some(held) = removed {
            let _ = std::fs::remove_dir_all(&held.folder);
            self.tell(&held.record.sandbox);
        }
    }

    pub(super) fn container(&self, id: &str) -> Result<Container, RuntimeError> {
        self.with(id, |held| held.seen())
    }

    pub(super) fn look(&self, id: &str) -> Result<(ContainerRecord, ContainerState), RuntimeError> {
        self.with(id, |held| (held.record.clone(), held.state.borrow().clone()))
    }

    pub(super) fn folder(&self, id: &str) -> Result<PathBuf, RuntimeError> {
        self.with(id, |held| held.folder.clone())
    }

    pub(super) fn link(&self, id: &str) -> Result<Arc<ShimClient>, RuntimeError> {
        let link = self.with(id, |held| held.link.clone())?;
        link.ok_or_else(|| RuntimeError::Failed(format!("container {id:.12} has no shim")))
    }

    pub(super) fn states(&self, id: &str) -> Option<watch::Receiver<ContainerState>> {
        self.with(id, |held| held.state.subscribe()).ok()
    }

    pub(super) fn stop_signal(&self, id: &str) -> Option<String> {
        self.with(id, |held| held.record.stop_signal.clone()).ok().flatten()
    }

    fn with<T>(
        &self,
        id: &str,
        read: impl FnOnce(&ProcessContainer) -> T,
    ) -> Result<T, RuntimeError> {
        let known = self.known();
        let held = known.containers.get(id);
        held.map(read).ok_or_else(|| RuntimeError::NotFound(format!("container {id}")))
    }

    /// The first process of any container of a pod that lives.
    pub(super) fn first_process_of(&self, sandbox: &str) -> Option<Process> {
        self.known().alive(sandbox, |_| true)
    }

    /// The shims of the containers of a pod that were started.
    pub(super) fn shims_of(&self, sandbox: &str) -> Vec<Process> {
        let known = self.known();
        let of = known.containers.values().filter(|held| held.record.sandbox == sandbox);
        of.filter_map(|held| held.running.as_ref()).map(|running| running.shim).collect()
    }

    /// The process that holds the process namespace of a pod.
    pub(super) fn pause_of(&self, sandbox: &str) -> Option<Process> {
        self.known().alive(sandbox, |held| held.record.pause)
    }

    pub(super) fn runs(&self, id: &str, running: &ContainerProcesses) {
        let mut known = self.known();
        let Some(held) = known.containers.get_mut(id) else { return };
        held.running = Some(running.clone());
        held.state.send_replace(ContainerState::Running { started: running.started });
        let sandbox = held.record.sandbox.clone();
        drop(known);
        self.tell(&sandbox);
    }

    /// Waits for the end of a container that runs.
    pub(super) fn follow(self: &Arc<Self>, id: &str, link: Arc<ShimClient>) {
        let (keep, id) = (Arc::clone(self), id.to_owned());
        tokio::spawn(async move {
            loop {
                match link.hear().await {
                    Ok(Some(ShimResponse::Exited(exited))) => {
                        return keep.ended(&id, exited, false);
                    }
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return keep.lost(&id),
                }
            }
        });
    }

    /// Notes the end of a container, on disk too where its shim could not.
    pub(super) fn ended(&self, id: &str, exited: Exited, save: bool) {
        let mut known = self.known();
        let Some(held) = known.containers.get_mut(id) else { return };
        if save {
            let _ = state::save(&held.folder.join("exited.json"), &exited);
        }
        held.link = None;
        held.init = None;
        held.state.send_replace(exited.into());
        let sandbox = held.record.sandbox.clone();
        drop(known);
        self.tell(&sandbox);
    }

    /// The shim of a container is gone: what it wrote is the truth, else nobody knows it.
    pub(super) fn lost(&self, id: &str) {
        let Ok(folder) = self.folder(id) else { return };
        let running = self.with(id, |held| held.running.clone()).ok().flatten();
        match state::load::<Exited>(&folder.join("exited.json")) {
            Some(exited) => self.ended(id, exited, false),
            None => {
                if let Some(running) = &running {
                    running.init.kill();
                }
                self.ended(id, unknown(running.map(|running| running.started)), true);
            }
        }
    }

    /// A container that was made is given up.
    pub(super) fn never_ran(&self, id: &str) {
        let mut exited = unknown(None);
        "ContainerStatusUnknown".clone_into(&mut exited.reason);
        "the container was stopped before it was started".clone_into(&mut exited.message);
        self.ended(id, exited, true);
    }

    pub(super) async fn signal(&self, id: &str, signal: i32) {
        if let Ok(link) = self.link(id)
            && link.ask(&ShimRequest::Signal(signal)).await.is_ok()
        {
            return;
        }
        if signal == 9 {
            self.kill(id);
        }
    }

    /// Ends a container without its shim's help, and the shim with it.
    pub(super) fn kill(&self, id: &str) {
        if let Ok(Some(running)) = self.with(id, |held| held.running.clone()) {
            running.init.kill();
            running.shim.kill();
        }
    }

    /// Tells the agent to look at a sandbox.
    pub(super) fn tell(&self, sandbox: &str) {
        // Nobody listening is no failure.
        let _ = self.changes.send(sandbox.to_owned());
    }
}

impl ProcessRegistry {
    fn alive(&self, sandbox: &str, fits: impl Fn(&ProcessContainer) -> bool) -> Option<Process> {
        let of = self.containers.values().filter(|held| held.record.sandbox == sandbox);
        of.filter(|held| fits(held)).find_map(|held| held.init.filter(|init| init.lives()))
    }
}

/// A sandbox with these containers, as others see it.
fn see<'a>(record: &SandboxRecord, held: impl Iterator<Item = &'a ProcessContainer>) -> Sandbox {
    let running =
        |held: &ProcessContainer| matches!(*held.state.borrow(), ContainerState::Running { .. });
    let (mut containers, mut held_together) = (Vec::new(), true);
    for held in held {
        if held.record.pause {
            held_together &= running(held);
        } else {
            containers.push(held.seen());
        }
    }
    containers.sort_by(|a: &Container, b| (&a.name, a.attempt).cmp(&(&b.name, b.attempt)));
    Sandbox {
        id: record.id.clone(),
        pod: record.pod.clone(),
        attempt: record.attempt,
        ready: !record.stopped && held_together,
        addresses: vec![record.address],
        containers,
    }
}
