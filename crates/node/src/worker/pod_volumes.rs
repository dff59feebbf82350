//! The volumes of one pod: which must be written, when, and what came of it (R70 to R81). What is in
//! them is computed by the engine and written by `volume`.

mod certificates;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_downward::{
    RuntimeView, TokenWanted, ValueInput, collect_payload, pod_changed, tokens_wanted,
    volume_inputs,
};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt as _};
use tokio::sync::Mutex;

use crate::agent::AgentContext;
use crate::clock;
use crate::container;
use crate::events::{EventSubject, Grade};
use crate::runtime::PodKey;
use crate::volume::{VolumeSource, VolumeWanted};
use crate::worker::pod_volumes::certificates::Certificates;
use crate::worker::{Worker, WorkerMessage};

/// The least time between two writes of one volume (R75).
const WRITE_EVERY: Duration = Duration::from_millis(50);
/// The waits after a write that failed.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(122);
/// The middle of the time between two writes that nothing asked for (R70).
const RESYNC: Duration = Duration::from_secs(60);
/// The oldest a token becomes, whatever its life.
const TOKEN_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A token and when the next is due.
#[derive(Clone)]
struct ProjectedToken {
    bytes: Vec<u8>,
    refresh: Timestamp,
}

type Tokens = Arc<Mutex<BTreeMap<TokenWanted, ProjectedToken>>>;

/// One volume of the pod.
struct PodVolume {
    volume: Arc<Object>,
    inputs: BTreeSet<ValueInput>,
    certificates: Certificates,
    dirty: bool,
    busy: bool,
    ready: bool,
    written: Option<Timestamp>,
    after: Option<Timestamp>,
    refresh: Option<Timestamp>,
    failures: u32,
}

/// The volumes of a pod.
#[derive(Default)]
pub(super) struct PodVolumes {
    volumes: BTreeMap<String, PodVolume>,
    tokens: Tokens,
}

impl PodVolumes {
    /// Takes in which volumes the pod has.
    pub(super) fn read(&mut self, pod: &Object) {
        for volume in pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object) {
            let name = volume.str_at(&["name"]).unwrap_or_default().to_owned();
            self.volumes.entry(name).or_insert_with(|| PodVolume {
                inputs: volume_inputs(volume),
                volume: Arc::new(volume.clone()),
                certificates: Certificates::default(),
                dirty: true,
                busy: false,
                ready: false,
                written: None,
                after: None,
                refresh: None,
                failures: 0,
            });
        }
    }

    /// Marks the volumes that a change of the pod touches (R71).
    pub(super) fn changed(&mut self, before: &Object, after: &Object) {
        for kept in self.volumes.values_mut() {
            if pod_changed(&kept.inputs, before, after) {
                (kept.dirty, kept.after) = (true, None);
            }
        }
    }

    /// The pod has got its addresses: files that show them must be right before a container starts
    /// (R15).
    pub(super) fn addressed(&mut self) {
        for kept in self.volumes.values_mut() {
            if kept.inputs.contains(&ValueInput::PodIps) {
                (kept.dirty, kept.ready) = (true, false);
                (kept.after, kept.written) = (None, None);
            }
        }
    }

    /// Whether a volume is not what it must be before a container starts.
    pub(super) fn waits(&self) -> bool {
        self.volumes.values().any(|kept| !kept.ready)
    }

    /// Marks the volumes that something outside the pod touches.
    pub(super) fn touched(&mut self, input: &ValueInput) {
        for kept in self.volumes.values_mut() {
            if kept.inputs.contains(input) {
                (kept.dirty, kept.after) = (true, None);
            }
        }
    }
}

impl Worker {
    /// Begins the writes that are due.
    pub(super) fn fill(&mut self, now: Timestamp, wake: &mut Timestamp) {
        let mut due = Vec::new();
        for (name, kept) in &mut self.files.volumes {
            if let Some(refresh) = kept.refresh {
                if refresh <= now {
                    (kept.dirty, kept.refresh) = (true, None);
                } else {
                    *wake = (*wake).min(refresh);
                }
            }
            if !kept.dirty || kept.busy {
                continue;
            }
            let spaced = kept.written.map(|written| written + WRITE_EVERY);
            match kept.after.max(spaced).filter(|after| *after > now) {
                Some(after) => *wake = (*wake).min(after),
                None => {
                    (kept.dirty, kept.busy) = (false, true);
                    let volume = (Arc::clone(&kept.volume), Arc::clone(&kept.certificates));
                    due.push((name.clone(), volume, kept.inputs.clone()));
                }
            }
        }
        for (name, (volume, certificates), inputs) in due {
            let filling = Filling {
                shared: Arc::clone(&self.shared),
                key: self.key.clone(),
                pod: Arc::clone(&self.pod),
                volume,
                inputs,
                tokens: Arc::clone(&self.files.tokens),
                certificates,
                subject: self.subject.clone(),
                addresses: self.sandbox.as_ref().map_or_else(Vec::new, |one| one.addresses.clone()),
            };
            let out = self.out.clone();
            self.work.spawn(async move {
                let (done, refresh) = match Box::pin(filling.run()).await {
                    Ok(refresh) => (Ok(()), refresh),
                    Err(why) => (Err(why), None),
                };
                // A worker that is gone has no files.
                let _ = out.send(WorkerMessage::Filled { volume: name, done, refresh });
            });
        }
        self.seen.volumes = self.files.volumes.values().all(|kept| kept.ready);
    }

    /// What came of a write.
    pub(super) fn filled(
        &mut self,
        name: &str,
        done: Result<(), String>,
        refresh: Option<Timestamp>,
    ) {
        let now = clock::timestamp();
        let Some(kept) = self.files.volumes.get_mut(name) else { return };
        kept.busy = false;
        kept.written = Some(now);
        match done {
            Ok(()) => {
                // What was written before the pod had addresses is not what containers wait for.
                let early = kept.dirty && kept.inputs.contains(&ValueInput::PodIps);
                kept.ready |= !early;
                (kept.failures, kept.after) = (0, None);
                let resync = (!kept.inputs.is_empty())
                    .then(|| now + RESYNC.mul_f64(0.5 + self.shared.spread()));
                kept.refresh = refresh.into_iter().chain(resync).min();
            }
            Err(why) => {
                let wait = RETRY_FIRST.saturating_mul(1 << kept.failures.min(16)).min(RETRY_MAX);
                kept.failures += 1;
                kept.dirty = true;
                // What an earlier agent wrote serves as well as what this one wrote (R80, R84).
                kept.ready |= self.shared.volumes.is_set_up(&self.key.uid, name);
                kept.after = Some(now + wait);
                let message = tenure_downward::set_up_failed(name, &why);
                self.shared.events.tell(&self.subject, Grade::Warning, "FailedMount", message);
            }
        }
        self.seen.volumes = self.files.volumes.values().all(|kept| kept.ready);
    }
}

/// Everything one write needs, so that it runs beside the worker.
struct Filling {
    shared: Arc<AgentContext>,
    key: PodKey,
    pod: Arc<Object>,
    volume: Arc<Object>,
    inputs: BTreeSet<ValueInput>,
    tokens: Tokens,
    certificates: Certificates,
    subject: EventSubject,
    addresses: Vec<IpAddr>,
}

impl Filling {
    /// Writes the volume; says when a token in it must be replaced.
    async fn run(self) -> Result<Option<Timestamp>, String> {
        let mut refresh = None;
        let source = match self.plain() {
            Some(source) => source?,
            None => {
                let (payload, due) = self.payload().await?;
                refresh = due;
                let memory = !self.volume.contains_key("configMap");
                VolumeSource::Files { payload, memory }
            }
        };
        let wanted = VolumeWanted {
            name: self.volume.str_at(&["name"]).unwrap_or_default().to_owned(),
            source,
            fs_group: container::fs_group(&self.pod),
            first_id: self.shared.runtime.first_id(&self.key.uid).unwrap_or(0),
            nested: nested(&self.pod, self.volume.str_at(&["name"]).unwrap_or_default()),
        };
        let (volumes, key) = (Arc::clone(&self.shared.volumes), self.key.clone());
        let span = tracing::Span::current();
        let setting_up = move || span.in_scope(|| volumes.set_up(&key, &wanted));
        let done = tokio::task::spawn_blocking(setting_up).await;
        match done {
            Ok(Ok(())) => Ok(refresh),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Volumes that are no files of the agent's.
    fn plain(&self) -> Option<Result<VolumeSource, String>> {
        let volume = &self.volume;
        if let Some(empty) = volume.map_at(&["emptyDir"]) {
            let limit = empty.get("sizeLimit").and_then(Quantity::from_value);
            let limit = limit.and_then(|limit| u64::try_from(limit.value()).ok());
            let memory = empty.str_at(&["medium"]) == Some("Memory");
            return Some(Ok(VolumeSource::EmptyDir { memory, limit }));
        }
        if let Some(host) = volume.map_at(&["hostPath"]) {
            let path = PathBuf::from(host.str_at(&["path"]).unwrap_or_default());
            let kind = host.str_at(&["type"]).unwrap_or_default().to_owned();
            return Some(Ok(VolumeSource::HostPath { path, kind }));
        }
        let files = ["downwardAPI", "configMap", "secret", "projected"];
        if files.iter().any(|kind| volume.contains_key(*kind)) {
            return None;
        }
        let kinds: Vec<&str> =
            volume.keys().map(String::as_str).filter(|name| *name != "name").collect();
        if kinds.is_empty() {
            // A volume of no kind is an empty folder.
            return Some(Ok(VolumeSource::EmptyDir { memory: false, limit: None }));
        }
        Some(Err(format!("this node has no volumes of the kind {}", kinds.join(", "))))
    }

    async fn payload(&self) -> Result<(tenure_downward::Payload, Option<Timestamp>), String> {
        let namespace = &self.key.namespace;
        self.shared.objects.settle(namespace, &self.inputs).await;
        let (tokens, refresh) = self.tokens().await?;
        let (certificates, due) = self.certificates().await;
        let refresh = refresh.into_iter().chain(due).min();
        let mut around = self.shared.objects.around(namespace, &self.inputs, tokens);
        around.certificates = certificates;
        let node = self.shared.node.borrow().clone();
        let view = RuntimeView {
            node: node.as_deref(),
            pod_ips: &self.addresses,
            settings: self.shared.settings,
        };
        let payload = collect_payload(&self.volume, &self.pod, &view, &around);
        Ok((payload.map_err(|error| error.to_string())?, refresh))
    }

    /// The tokens the volume shows, asked for if they are old (R73).
    async fn tokens(&self) -> Result<(BTreeMap<TokenWanted, Vec<u8>>, Option<Timestamp>), String> {
        let mut found = BTreeMap::new();
        let mut first: Option<Timestamp> = None;
        for wanted in tokens_wanted(&self.volume) {
            let mut tokens = self.tokens.lock().await;
            let fresh = tokens.get(&wanted).filter(|token| token.refresh > clock::timestamp());
            let token = match fresh {
                Some(token) => token.clone(),
                None => match self.request(&wanted).await {
                    Ok(token) => token,
                    // An old token is better than none.
                    Err(why) => match tokens.get(&wanted) {
                        Some(old) => ProjectedToken {
                            bytes: old.bytes.clone(),
                            refresh: clock::timestamp() + Duration::from_secs(30),
                        },
                        None => return Err(why),
                    },
                },
            };
            first = first.into_iter().chain([token.refresh]).min();
            found.insert(wanted.clone(), token.bytes.clone());
            tokens.insert(wanted, token);
        }
        Ok((found, first))
    }

    async fn request(&self, wanted: &TokenWanted) -> Result<ProjectedToken, String> {
        let account = self.pod.str_at(&["spec", "serviceAccountName"]).unwrap_or("default");
        let namespace = &self.key.namespace;
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let audiences: Vec<&String> = wanted.audience.iter().collect();
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": audiences,
                "expirationSeconds": wanted.expiration_seconds,
                "boundObjectRef": {
                    "kind": "Pod", "apiVersion": "v1", "name": self.key.name, "uid": self.key.uid,
                },
            },
        });
        let request = request.as_object().cloned().unwrap_or_default();
        let answer = self.shared.client.post(&path, &request).await;
        let answer = answer.map_err(|error| format!("failed to fetch token: {error}"))?;
        let bytes = answer.str_at(&["status", "token"]).unwrap_or_default().as_bytes().to_vec();
        let now = clock::timestamp();
        let expires = answer.str_at(&["status", "expirationTimestamp"]);
        let expires: Timestamp = expires.and_then(|text| text.parse().ok()).unwrap_or(now);
        let life = Duration::try_from(expires.duration_since(now)).unwrap_or_default();
        let age = life.mul_f64(0.8).min(TOKEN_AGE_MAX);
        // A little earlier, so that many pods do not ask at once.
        let age = age.saturating_sub(age.mul_f64(0.1 * self.shared.spread()));
        Ok(ProjectedToken { bytes, refresh: now + age.max(Duration::from_secs(1)) })
    }
}

/// Paths inside a volume where containers mount other volumes (R69).
fn nested(pod: &Object, volume: &str) -> Vec<String> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = lists.into_iter().flat_map(|list| pod.list_at(&["spec", list]));
    let mut found = BTreeSet::new();
    for container in containers.filter_map(Value::as_object) {
        let mounts = || container.list_at(&["volumeMounts"]).iter().filter_map(Value::as_object);
        let at = |mount: &Object| {
            mount.str_at(&["mountPath"]).unwrap_or_default().trim_end_matches('/').to_owned()
        };
        let whole = |mount: &&Object| {
            mount.str_at(&["name"]) == Some(volume)
                && mount.str_at(&["subPath"]).unwrap_or_default().is_empty()
                && mount.str_at(&["subPathExpr"]).unwrap_or_default().is_empty()
        };
        for own in mounts().filter(whole) {
            let own = at(own);
            for other in mounts() {
                let other = at(other);
                if let Some(inside) =
                    other.strip_prefix(&own).and_then(|rest| rest.strip_prefix('/'))
                {
                    found.insert(inside.to_owned());
                }
            }
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    #[test]
    fn r69_mounts_inside_a_volume_are_found() {
        let pod = json!({"spec": {"containers": [{"volumeMounts": [
            {"name": "info", "mountPath": "/etc/podinfo/"},
            {"name": "more", "mountPath": "/etc/podinfo/extra"},
            {"name": "else", "mountPath": "/etc/podinfos"},
        ]}]}});
        assert_eq!(nested(pod.as_object().unwrap(), "info"), ["extra"]);
        assert!(nested(pod.as_object().unwrap(), "more").is_empty());
    }

    #[test]
    fn r15_files_with_addresses_wait_for_the_addresses() {
        let pod = json!({"spec": {"volumes": [
            {"name": "address", "downwardAPI": {"items": [
                {"path": "a", "fieldRef": {"fieldPath": "status.podIP"}}]}},
            {"name": "name", "downwardAPI": {"items": [
                {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}});
        let mut files = PodVolumes::default();
        files.read(pod.as_object().unwrap());
        for kept in files.volumes.values_mut() {
            (kept.dirty, kept.ready) = (false, true);
        }
        files.addressed();
        let state = |name: &str| (files.volumes[name].dirty, files.volumes[name].ready);
        assert_eq!(state("address"), (true, false), "it is written again, and waited for");
        assert_eq!(state("name"), (false, true));
    }

    #[test]
    fn r71_only_volumes_that_depend_on_a_change_are_written() {
        let pod = |owner: &str, label: &str| {
            json!({
                "metadata": {"labels": {"a": label}, "ownerReferences": [{"name": owner}]},
                "spec": {"volumes": [
                    {"name": "owners", "downwardAPI": {"items": [
                        {"path": "o", "fieldRef": {"fieldPath": "metadata.ownerReferences"}}]}},
                    {"name": "labels", "downwardAPI": {"items": [
                        {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
                    {"name": "map", "configMap": {"name": "m"}},
                    {"name": "empty", "emptyDir": {}},
                ]},
            })
        };
        let first = pod("x", "1");
        let mut files = PodVolumes::default();
        files.read(first.as_object().unwrap());
        let clean = |files: &mut PodVolumes| {
            files.volumes.values_mut().for_each(|kept| kept.dirty = false);
        };
        let dirty = |files: &PodVolumes| -> Vec<String> {
            let dirty = files.volumes.iter().filter(|(_, kept)| kept.dirty);
            dirty.map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(dirty(&files).len(), 4, "everything is written once");
        clean(&mut files);
        let second = pod("y", "1");
        files.changed(first.as_object().unwrap(), second.as_object().unwrap());
        assert_eq!(dirty(&files), ["owners"]);
        clean(&mut files);
        files.changed(second.as_object().unwrap(), pod("y", "2").as_object().unwrap());
        assert_eq!(dirty(&files), ["labels"]);
        clean(&mut files);
        files.touched(&ValueInput::ConfigMap("m".to_owned()));
        files.touched(&ValueInput::ConfigMap("other".to_owned()));
        assert_eq!(dirty(&files), ["map"]);
    }
}
