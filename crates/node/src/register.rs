//! The Node object and its lease: who this node is, what it has, that it lives (R134 to R138).

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_lifecycle::{NodeCapacity, written};
use tenure_machinery::{Object, ObjectExt as _, quantity};
use tokio::sync::watch;

use crate::client::{Answered, Client, ClientError};
use crate::clock;
use crate::events::{EventSubject, Events, Grade};
use crate::offline_cache::{OfflineCache, OfflineObjectKey};
use crate::runtime::{ContainerRuntime, RuntimeInfo};

/// How often the conditions are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often the status is written although nothing changed.
const WRITE_EVERY: Duration = Duration::from_secs(5 * 60);
/// How long the lease holds.
const LEASE_SECONDS: u64 = 40;
/// How often it is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// The first wait after a failure.
const RETRY: Duration = Duration::from_millis(200);
/// How long the server may take to give the node addresses for its pods before pods are told.
const RANGE_MAX: Duration = Duration::from_secs(5);
/// The first wait for them.
const RANGE_RETRY: Duration = Duration::from_millis(2);
const LEASES: &str = "kube-node-lease";
/// The label that says what runs the pods.
const RUNTIME_LABEL: &str = "tenure.dev/runtime";
/// The annotation that says what the runtime isolates (R141).
const ISOLATION: &str = "tenure.dev/runtime-isolation";
/// The version of the API this agent speaks.
const VERSION: &str = "v1.38.0";

/// The addresses of a node: what it was told, and the one that its pods reach it at.
#[derive(Debug, Clone, Default)]
pub struct NodeAddresses {
    told: Vec<IpAddr>,
    /// The address among its pods is the main one: the server needs none to reach the node (N5).
    pods_first: bool,
    among_pods: Arc<OnceLock<IpAddr>>,
}

impl NodeAddresses {
    /// These, the main one first.
    #[must_use]
    pub fn new(told: Vec<IpAddr>, pods_first: bool) -> NodeAddresses {
        NodeAddresses { told, pods_first, among_pods: Arc::default() }
    }

    /// All of them, the main one first.
    #[must_use]
    pub fn all(&self) -> Vec<IpAddr> {
        let mut all = self.told.clone();
        match self.among_pods.get() {
            Some(own) if self.pods_first => all.insert(0, *own),
            // A node on loopback is reached there by whoever is on its machine, and never by pods.
            Some(own) if all.iter().all(IpAddr::is_loopback) => all.push(*own),
            _ => {}
        }
        all
    }

    fn lack_pods(&self) -> bool {
        self.among_pods.get().is_none()
    }

    /// Adds the address that pods reach the node at.
    pub(crate) fn found_among_pods(&self, own: IpAddr) {
        // It stays what it was at first: pods were told.
        let _ = self.among_pods.set(own);
    }
}

/// What a node is and has.
#[derive(Debug, Clone)]
pub struct NodeDescription {
    /// Its name.
    pub name: String,
    /// The name of the machine.
    pub hostname: String,
    /// Its addresses, the main one first; that among its pods is added once it is known.
    pub addresses: NodeAddresses,
    /// The port of its endpoints.
    pub port: u16,
    /// What it has for pods.
    pub room: NodeCapacity,
    /// More labels.
    pub labels: Vec<(String, String)>,
    /// Features it has beyond every node (R138).
    pub features: Vec<String>,
}

/// What this machine has: processors, memory, disk below `folder`.
#[must_use]
pub fn room_of_machine(folder: &Path, pods: u64) -> NodeCapacity {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let disk = rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_blocks * disk.f_frsize);
    NodeCapacity {
        cpu_millis: cpus as u64 * 1000,
        memory_bytes: memory("MemTotal").unwrap_or(1 << 30),
        storage_bytes: disk.max(1 << 30),
        pods,
    }
}

/// A line of the kernel's words about memory, in bytes.
pub(crate) fn memory(line: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

/// Whether something is scarce, as the conditions say it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Memory is scarce.
    pub memory: bool,
    /// Disk is scarce.
    pub disk: bool,
}

/// What the registrar needs to know of the rest.
pub(crate) struct Registrar {
    pub(crate) client: Client,
    pub(crate) identity: NodeDescription,
    pub(crate) events: Events,
    /// What the runtime says of itself; an error while it is away.
    pub(crate) about: watch::Receiver<Result<RuntimeInfo, String>>,
    /// The Node object as the server last had it.
    pub(crate) node: watch::Sender<Option<Arc<Object>>>,
    pub(crate) pressure: watch::Receiver<Pressure>,
    pub(crate) keeper: OfflineCache,
    pub(crate) runtime: Arc<dyn ContainerRuntime>,
}

impl Registrar {
    fn path(&self) -> String {
        format!("/api/v1/nodes/{}", self.identity.name)
    }

    /// Registers the node; tries until the server takes it.
    pub(crate) async fn register(&self) {
        let mut wait = RETRY;
        loop {
            match self.try_register().await {
                Ok(node) => {
                    let node = Arc::new(self.take_range(node).await);
                    self.keeper.put(OfflineObjectKey::Node, &node);
                    self.node.send_replace(Some(node));
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "the node could not be registered");
                    self.recall();
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RENEW_EVERY);
        }
    }

    /// While the server is away, the node is what it was last time (R84).
    fn recall(&self) {
        if self.node.borrow().is_none()
            && let Some(kept) = self.keeper.get(&OfflineObjectKey::Node)
        {
            self.node.send_replace(Some(kept));
        }
    }

    /// Has pods get addresses from what the server gave the node, and tells the node's own among them (N3). Without
    /// any, the node is there and its pods say what they wait for.
    async fn take_range(&self, node: Object) -> Object {
        let wanted = self.about.borrow().as_ref().is_ok_and(|about| about.pod_network);
        if !wanted {
            return node;
        }
        match tokio::time::timeout(RANGE_MAX, self.try_range(node.clone())).await {
            Ok(Ok(node)) => node,
            Ok(Err(why)) => {
                tracing::warn!(why, "pods of this node get no addresses");
                node
            }
            Err(_) => {
                tracing::warn!("the server gives this node no addresses for pods (spec.podCIDRs)");
                node
            }
        }
    }

    async fn try_range(&self, mut node: Object) -> Result<Object, String> {
        let mut wait = RANGE_RETRY;
        let ranges = loop {
            let listed = node.list_at(&["spec", "podCIDRs"]).iter();
            let ranges: Vec<String> = listed.filter_map(Value::as_str).map(str::to_owned).collect();
            if !ranges.is_empty() {
                break ranges;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY);
            node = self.client.get(&self.path()).await.map_err(|error| error.to_string())?;
        };
        let own = self.runtime.use_pod_range(&ranges).await.map_err(|error| error.to_string())?;
        if let Some(own) = own {
            self.identity.addresses.found_among_pods(own);
        }
        self.write(&node).await.map_err(|error| error.to_string())
    }

    async fn try_register(&self) -> Answered<Object> {
        let wanted = self.object(None);
        match self.client.post("/api/v1/nodes", &wanted).await {
            Err(ClientError::Refused { code: 409, .. }) => {
                let found = self.client.get(&self.path()).await?;
                self.write(&found).await
            }
            made => made,
        }
    }

    /// Writes labels and status of a node that is there.
    async fn write(&self, found: &Object) -> Answered<Object> {
        let wanted = self.object(Some(found));
        let labels = wanted.at(&["metadata", "labels"]).cloned().unwrap_or_default();
        let annotations = wanted.at(&["metadata", "annotations"]).cloned().unwrap_or_default();
        let differs = |name: &str, values: &Value| {
            let values = values.as_object().into_iter().flatten();
            values.into_iter().any(|(key, value)| found.at(&["metadata", name, key]) != Some(value))
        };
        if differs("labels", &labels) || differs("annotations", &annotations) {
            let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
            self.client.patch(&self.path(), &object(patch)).await?;
        }
        let mut status = wanted.at(&["status"]).cloned().unwrap_or_default();
        // This list is merged by type unless told otherwise, and a node may have two addresses of one type.
        if let Some(addresses) = status.get_mut("addresses").and_then(Value::as_array_mut) {
            addresses.insert(0, json!({"$patch": "replace"}));
        }
        let patch = object(json!({"status": status}));
        self.client.patch(&format!("{}/status", self.path()), &patch).await
    }

    /// Looks at the conditions for ever; writes on change, else now and then; registers again if the
    /// node was deleted (R135, R137).
    pub(crate) async fn keep(&self) {
        let mut about = self.about.clone();
        let mut pressure = self.pressure.clone();
        let mut written_at = clock::timer_instant();
        self.events.tell(
            &EventSubject::node(&self.identity.name),
            Grade::Normal,
            "Starting",
            "Starting kubelet.".to_owned(),
        );
        let unable = about.borrow().as_ref().ok().and_then(|about| about.unable.clone());
        if let Some(why) = unable {
            let node = EventSubject::node(&self.identity.name);
            let message = format!("pods cannot be isolated: {why}");
            self.events.tell(&node, Grade::Warning, "NodeNotReady", message);
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                changed = about.changed() => if changed.is_err() { return },
                changed = pressure.changed() => if changed.is_err() { return },
            }
            let found = match self.client.get(&self.path()).await {
                Ok(found) => found,
                Err(ClientError::Refused { code: 404, .. }) => {
                    self.register().await;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, "the node could not be read");
                    continue;
                }
            };
            let late = self.identity.addresses.lack_pods()
                && !found.list_at(&["spec", "podCIDRs"]).is_empty();
            let found = if late { self.take_range(found).await } else { found };
            let wanted = self.object(Some(&found));
            let due = written_at.elapsed() >= WRITE_EVERY;
            if due || !same(&found, &wanted) {
                let before = ready(&found);
                match self.write(&found).await {
                    Ok(node) => {
                        written_at = clock::timer_instant();
                        self.say_ready(before, ready(&node));
                        self.node.send_replace(Some(Arc::new(node)));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the node could not be written")
                    }
                }
            } else {
                let known = self.node.borrow().as_ref().and_then(|node| {
                    node.str_at(&["metadata", "resourceVersion"]).map(str::to_owned)
                });
                if known.as_deref() != found.str_at(&["metadata", "resourceVersion"]) {
                    self.node.send_replace(Some(Arc::new(found)));
                }
            }
        }
    }

    fn say_ready(&self, before: bool, after: bool) {
        let (reason, grade) = match (before, after) {
            (false, true) => ("NodeReady", Grade::Normal),
            (true, false) => ("NodeNotReady", Grade::Warning),
            _ => return,
        };
        let name = &self.identity.name;
        let message = format!("Node {name} status is now: {reason}");
        self.events.tell(&EventSubject::node(name), grade, reason, message);
    }

    /// Renews the lease for ever (R136).
    pub(crate) async fn renew(&self) {
        let mut lease: Option<Object> = None;
        loop {
            let wait = match self.try_renew(lease.take()).await {
                Ok(renewed) => {
                    lease = Some(renewed);
                    // Up to 4 % more, so that many nodes do not renew at once.
                    let spread = u64::from(clock::timestamp().subsec_nanosecond().unsigned_abs());
                    RENEW_EVERY + RENEW_EVERY.mul_f64(0.04 * (spread % 1000) as f64 / 1000.0)
                }
                Err(error) => {
                    tracing::debug!(%error, "the lease could not be renewed");
                    Duration::from_secs(1)
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_renew(&self, lease: Option<Object>) -> Answered<Object> {
        let name = &self.identity.name;
        let all = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASES}/leases");
        let path = format!("{all}/{name}");
        let now = clock::timestamp().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let spec = json!({
            "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now,
        });
        let found = match lease {
            Some(lease) => Ok(lease),
            None => self.client.get(&path).await,
        };
        let mut object = match found {
            Ok(found) => found,
            Err(ClientError::Refused { code: 404, .. }) => object(json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASES},
            })),
            Err(error) => return Err(error),
        };
        object.insert("spec".to_owned(), spec);
        let uid = self
            .node
            .borrow()
            .as_ref()
            .and_then(|node| node.str_at(&["metadata", "uid"]).map(str::to_owned));
        if let Some(uid) = uid {
            let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]);
            object.map_mut("metadata").insert("ownerReferences".to_owned(), owner);
        }
        if object.at(&["metadata", "resourceVersion"]).is_some() {
            self.client.put(&path, &object).await
        } else {
            self.client.post(&all, &object).await
        }
    }

    /// The node as it should be; times of conditions that did not change are kept.
    fn object(&self, found: Option<&Object>) -> Object {
        let identity = &self.identity;
        let about = self.about.borrow().clone();
        let mut labels = json!({
            "kubernetes.io/hostname": identity.hostname,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": architecture(),
        });
        if let Some(labels) = labels.as_object_mut() {
            if let Ok(about) = &about {
                labels.insert(RUNTIME_LABEL.to_owned(), about.name.as_str().into());
            }
            for (key, value) in &identity.labels {
                labels.insert(key.clone(), value.as_str().into());
            }
        }
        let mut annotations = Object::new();
        if let Ok(about) = &about
            && !about.isolation.is_empty()
        {
            let said: Vec<String> = about
                .isolation
                .iter()
                .map(|(aspect, held)| match held {
                    Ok(()) => format!("{aspect}=yes"),
                    Err(_) => format!("{aspect}=no"),
                })
                .collect();
            annotations.insert(ISOLATION.to_owned(), said.join(", ").into());
        }
        let mut addresses: Vec<Value> = identity
            .addresses
            .all()
            .iter()
            .map(|address| json!({"type": "InternalIP", "address": address.to_string()}))
            .collect();
        addresses.push(json!({"type": "Hostname", "address": identity.hostname}));
        let room = &identity.room;
        // Written as the server keeps it, or the node would look changed for ever.
        let written = |text: String| quantity::canonical(&text).unwrap_or(text);
        let mut capacity = json!({
            "cpu": written(format!("{}m", room.cpu_millis)),
            "memory": written(format!("{}Ki", room.memory_bytes / 1024)),
            "ephemeral-storage": written(format!("{}Ki", room.storage_bytes / 1024)),
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "pods": room.pods.to_string(),
        });
        let mut allocatable = capacity.clone();
        extended_resources(found, &mut capacity, &mut allocatable);
        object(json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": identity.name, "labels": labels, "annotations": annotations},
            "status": {
                "addresses": addresses,
                "capacity": capacity,
                "allocatable": allocatable,
                "conditions": self.conditions(found, &about),
                "daemonEndpoints": {"kubeletEndpoint": {"Port": identity.port}},
                "nodeInfo": node_info(about.as_ref().ok()),
                "declaredFeatures": identity.features,
            },
        }))
    }

    fn conditions(
        &self,
        found: Option<&Object>,
        about: &Result<RuntimeInfo, String>,
    ) -> Vec<Value> {
        let now = written(clock::timestamp());
        let pressure = *self.pressure.borrow();
        let old = found.map(|node| node.list_at(&["status", "conditions"])).unwrap_or_default();
        let said = |kind: &str, holds: bool, reason: &str, message: &str| {
            let status = if holds { "True" } else { "False" };
            let before = old.iter().filter_map(Value::as_object).find(|condition| {
                condition.str_at(&["type"]) == Some(kind)
                    && condition.str_at(&["status"]) == Some(status)
            });
            let since = before.and_then(|before| before.str_at(&["lastTransitionTime"]));
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": since.unwrap_or(&now),
            })
        };
        let calm = |kind: &str, scarce: bool, yes: &str, no: &str, words: &str| {
            let (reason, verb) = if scarce { (yes, "has") } else { (no, "has no") };
            let enough = format!("kubelet {verb} {words}");
            said(kind, scarce, reason, &enough)
        };
        let mut conditions = vec![
            calm(
                "MemoryPressure",
                pressure.memory,
                "KubeletHasInsufficientMemory",
                "KubeletHasSufficientMemory",
                "memory pressure",
            ),
            calm(
                "DiskPressure",
                pressure.disk,
                "KubeletHasDiskPressure",
                "KubeletHasNoDiskPressure",
                "disk pressure",
            ),
            said(
                "PIDPressure",
                false,
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            match about {
                Ok(RuntimeInfo { unable: Some(why), .. }) => {
                    let message = format!("pods cannot be isolated: {why}");
                    said("Ready", false, "KubeletNotReady", &message)
                }
                Ok(_) => said("Ready", true, "KubeletReady", "kubelet is posting ready status"),
                Err(why) => said("Ready", false, "KubeletNotReady", why),
            },
        ];
        if let Ok(about) = about
            && about.unable.is_none()
        {
            let open: Vec<String> = about
                .isolation
                .iter()
                .filter_map(|(aspect, held)| match (aspect.as_str(), held) {
                    // Pods of other runtimes have the network that was set up for these.
                    ("network", Err(why)) if about.name == "process" => {
                        Some(format!("network ({why})"))
                    }
                    (aspect, Err(_)) if aspect.starts_with("mount") => Some(aspect.to_owned()),
                    _ => None,
                })
                .collect();
            if !open.is_empty() {
                let message = format!("containers share with the node: {}", open.join(", "));
                conditions.push(said("TenureIsolation", false, "NamespacesUnavailable", &message));
            }
        }
        conditions
    }
}

/// Resources that others gave the node, such as `example.com/dongle`: what its capacity has of them can be allocated,
/// and nothing else (R135).
fn extended_resources(found: Option<&Object>, capacity: &mut Value, allocatable: &mut Value) {
    let (Some(found), Some(capacity), Some(allocatable)) =
        (found, capacity.as_object_mut(), allocatable.as_object_mut())
    else {
        return;
    };
    let of = |list: &str| {
        let list = found.map_at(&["status", list]).into_iter().flatten();
        list.filter(|(name, _)| name.contains('/'))
            .map(|(name, value)| (name.clone(), value.clone()))
    };
    allocatable.extend(of("allocatable").map(|(name, _)| (name, Value::Null)));
    allocatable.extend(of("capacity"));
    capacity.extend(of("capacity"));
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

fn ready(node: &Object) -> bool {
    node.list_at(&["status", "conditions"]).iter().filter_map(Value::as_object).any(|condition| {
        condition.str_at(&["type"]) == Some("Ready")
            && condition.str_at(&["status"]) == Some("True")
    })
}

/// Whether the server has the node as it should be; heartbeats do not count.
fn same(found: &Object, wanted: &Object) -> bool {
    let said = |node: &Object| -> Vec<(String, String, String)> {
        let conditions = node.list_at(&["status", "conditions"]).iter();
        let text = |condition: &Object, name: &str| {
            condition.str_at(&[name]).unwrap_or_default().to_owned()
        };
        let mut all: Vec<_> = conditions
            .filter_map(Value::as_object)
            .map(|one| (text(one, "type"), text(one, "status"), text(one, "message")))
            .collect();
        all.sort();
        all
    };
    let meta = |name: &str| {
        let wanted = wanted.map_at(&["metadata", name]).into_iter().flatten();
        wanted.into_iter().all(|(key, value)| found.at(&["metadata", name, key]) == Some(value))
    };
    // Conditions that others set do not count either.
    let have = said(found);
    said(wanted).iter().all(|one| have.contains(one))
        && meta("labels")
        && meta("annotations")
        && ["addresses", "capacity", "allocatable", "daemonEndpoints", "nodeInfo"]
            .iter()
            .all(|name| found.at(&["status", name]) == wanted.at(&["status", name]))
        // No features are the same as an empty list of them.
        && found.list_at(&["status", "declaredFeatures"])
            == wanted.list_at(&["status", "declaredFeatures"])
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn node_info(about: Option<&RuntimeInfo>) -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let release = read("/etc/os-release");
    let pretty = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .unwrap_or("Linux")
        .trim_matches('"')
        .to_owned();
    let runtime = about.map_or_else(
        || "unknown://".to_owned(),
        |about| format!("{}://{}", about.scheme, about.version),
    );
    json!({
        "machineID": read("/etc/machine-id"),
        "systemUUID": read("/etc/machine-id"),
        "bootID": read("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": read("/proc/sys/kernel/osrelease"),
        "osImage": pretty,
        "containerRuntimeVersion": runtime,
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": architecture(),
    })
}
