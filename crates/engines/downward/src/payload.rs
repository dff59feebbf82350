//! The files of one volume: downwardAPI, configMap, secret, projected. All of them or none (R86); how
//! they reach a disk is the writer's.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::certificate::CredentialBundle;
use crate::env::decoded;
use crate::field::resolve_field_ref;
use crate::path::clean_path;
use crate::resource::resolve_resource;
use crate::view::{RuntimeView, Sources, TokenWanted, ValueDestination};

/// The mode of files when nothing is said.
const MODE: u32 = 0o644;

/// The mode of a credential that belongs to one user or group.
const PRIVATE_MODE: u32 = 0o600;

/// What the files of one volume may take together: an object of a megabyte can name a large value ten
/// thousand times, and volumes are in memory (R88).
pub(crate) const BYTES_MAX: usize = 64 << 20;

/// One file; its bytes never show when it is printed (R214).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PayloadFile {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
    /// The user it belongs to; none: whoever writes it.
    pub owner: Option<u32>,
}

impl fmt::Debug for PayloadFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, mode, owner) = (self.bytes.len(), self.mode, self.owner);
        write!(out, "File({length} bytes, {mode:o}, {owner:?})")
    }
}

/// The files of a volume by clean relative path.
pub type Payload = BTreeMap<String, PayloadFile>;

/// Why a volume has no files; every reason at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadError(pub Vec<String>);

impl fmt::Display for PayloadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => out.write_str(one),
            all => write!(out, "[{}]", all.join(", ")),
        }
    }
}

impl core::error::Error for PayloadError {}

/// The files of `volume`, an item of the pod's `volumes`; none for a volume of another kind.
///
/// # Errors
/// Everything that is missing or cannot be told; then nothing should be written.
pub fn collect_payload(
    volume: &Object,
    pod: &Object,
    runtime: &RuntimeView<'_>,
    sources: &dyn Sources,
) -> Result<Payload, PayloadError> {
    let kinds = ["downwardAPI", "configMap", "secret", "projected"];
    let found = kinds.iter().find_map(|kind| Some((*kind, volume.map_at(&[kind])?)));
    let Some((kind, source)) = found else { return Ok(Payload::new()) };
    let mode = source.int_at(&["defaultMode"]).and_then(|mode| u32::try_from(mode).ok());
    let mut collect = Collect {
        volume: volume.str_at(&["name"]).unwrap_or_default(),
        pod,
        runtime,
        sources,
        mode: mode.unwrap_or(MODE),
        user: user(source, "defaultUser"),
        files: Payload::new(),
        bytes: 0,
        wrong: Vec::new(),
    };
    match kind {
        "downwardAPI" => collect.fields(source),
        "configMap" => collect.config_map(source, "name"),
        "secret" => collect.secret(source, "secretName"),
        _ => collect.projected(source),
    }
    collect.finish()
}

struct Collect<'a> {
    volume: &'a str,
    pod: &'a Object,
    runtime: &'a RuntimeView<'a>,
    sources: &'a dyn Sources,
    mode: u32,
    user: Option<u32>,
    files: Payload,
    bytes: usize,
    wrong: Vec<String>,
}

impl Collect<'_> {
    /// No path may be a folder and a file at once (R62h).
    fn finish(mut self) -> Result<Payload, PayloadError> {
        for path in self.files.keys() {
            let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
            for folder in folders.filter(|folder| self.files.contains_key(*folder)) {
                let why = format!("`{folder}` cannot be a file and the folder of `{path}`");
                self.wrong.push(why);
            }
        }
        if self.bytes > BYTES_MAX {
            self.wrong.push(format!("the files take more than {BYTES_MAX} bytes"));
        }
        if self.wrong.is_empty() { Ok(self.files) } else { Err(PayloadError(self.wrong)) }
    }

    fn projected(&mut self, source: &Object) {
        let sources = source.list_at(&["sources"]).iter().filter_map(Value::as_object);
        for (at, source) in sources.enumerate() {
            if let Some(source) = source.map_at(&["secret"]) {
                self.secret(source, "name");
            } else if let Some(source) = source.map_at(&["configMap"]) {
                self.config_map(source, "name");
            } else if let Some(source) = source.map_at(&["downwardAPI"]) {
                self.fields(source);
            } else if let Some(source) = source.map_at(&["serviceAccountToken"]) {
                let token = self.sources.token(&TokenWanted::of(source));
                self.credential(source, "path", token);
            } else if let Some(source) = source.map_at(&["clusterTrustBundle"]) {
                let bundle = self.sources.trust_bundle(source);
                self.credential(source, "path", bundle);
            } else if let Some(source) = source.map_at(&["podCertificate"]) {
                self.certificate(source, at);
            }
        }
    }

    /// Items of the downward API; the last of one path wins (R62f).
    fn fields(&mut self, source: &Object) {
        for item in source.list_at(&["items"]).iter().filter_map(Value::as_object) {
            let value = if let Some(reference) = item.map_at(&["fieldRef"]) {
                resolve_field_ref(reference, self.pod, self.runtime, ValueDestination::File)
            } else if let Some(reference) = item.map_at(&["resourceFieldRef"]) {
                resolve_resource(reference, self.pod, None, self.runtime)
            } else {
                Ok(String::new())
            };
            match value {
                Ok(value) => self.item(item, value.into_bytes()),
                Err(error) => self.wrong.push(error.to_string()),
            }
        }
    }

    fn config_map(&mut self, source: &Object, name: &str) {
        let name = source.str_at(&[name]).unwrap_or_default();
        let found = self.sources.config_map(name);
        let Some(map) = self.there(found, "configmap", name, source) else { return };
        let value = |key: &str| match map.at(&["data", key]) {
            Some(text) => Some(Ok(text.as_str().unwrap_or_default().as_bytes().to_vec())),
            None => map.at(&["binaryData", key]).map(decoded),
        };
        let keys = ["data", "binaryData"];
        let keys = keys.iter().filter_map(|part| map.map_at(&[part])).flat_map(Object::keys);
        let keys: Vec<&str> = keys.map(String::as_str).collect();
        self.keyed(source, &keys, value, "configmap references non-existent config key");
    }

    fn secret(&mut self, source: &Object, name: &str) {
        let name = source.str_at(&[name]).unwrap_or_default();
        let found = self.sources.secret(name);
        let Some(secret) = self.there(found, "secret", name, source) else { return };
        let value = |key: &str| secret.at(&["data", key]).map(decoded);
        let keys = secret.map_at(&["data"]).into_iter().flat_map(Object::keys);
        let keys: Vec<&str> = keys.map(String::as_str).collect();
        self.keyed(source, &keys, value, "references non-existent secret key");
    }

    /// The object, an empty one where it is optional and missing, or nothing and a reason.
    fn there(
        &mut self,
        found: Result<Option<Arc<Object>>, String>,
        kind: &str,
        name: &str,
        source: &Object,
    ) -> Option<Arc<Object>> {
        match found {
            Ok(Some(object)) => Some(object),
            Ok(None) if optional(source) => Some(Arc::new(Object::new())),
            Ok(None) => {
                self.wrong.push(format!("{kind} {name:?} not found"));
                None
            }
            Err(why) => {
                self.wrong.push(why);
                None
            }
        }
    }

    /// The keys that `items` asks for, or all there are.
    fn keyed(
        &mut self,
        source: &Object,
        keys: &[&str],
        value: impl Fn(&str) -> Option<Result<Vec<u8>, String>>,
        missing: &str,
    ) {
        let items = source.list_at(&["items"]);
        if items.is_empty() {
            for key in keys {
                match value(key) {
                    Some(Ok(bytes)) => self.put(key, bytes, self.mode, self.user),
                    Some(Err(why)) => self.wrong.push(format!("{key}: {why}")),
                    None => {}
                }
            }
        }
        for item in items.iter().filter_map(Value::as_object) {
            let key = item.str_at(&["key"]).unwrap_or_default();
            match value(key) {
                Some(Ok(bytes)) => self.item(item, bytes),
                Some(Err(why)) => self.wrong.push(format!("{key}: {why}")),
                None if optional(source) => {}
                None => self.wrong.push(format!("{missing}: {key}")),
            }
        }
    }

    fn certificate(&mut self, source: &Object, at: usize) {
        let CredentialBundle { key, chain } = match self.sources.pod_certificate(self.volume, at) {
            Ok(bundle) => bundle,
            Err(why) => return self.wrong.push(why),
        };
        let both = [key.as_slice(), chain.as_slice()].concat();
        for (member, bytes) in
            [("credentialBundlePath", both), ("keyPath", key), ("certificateChainPath", chain)]
        {
            if source.str_at(&[member]).is_some_and(|path| !path.is_empty()) {
                self.credential(source, member, Ok(bytes));
            }
        }
    }

    /// A file that only its user, or the pod's group, may read.
    fn credential(&mut self, source: &Object, path: &str, bytes: Result<Vec<u8>, String>) {
        let path = source.str_at(&[path]).unwrap_or_default();
        let owner = user(source, "user").or(self.user).or_else(|| one_user(self.pod));
        let group = self.pod.at(&["spec", "securityContext", "fsGroup"]).and_then(Value::as_i64);
        let private = owner.is_some() || group.is_some();
        let mode = if private { PRIVATE_MODE } else { self.mode };
        match bytes {
            Ok(bytes) => self.put(path, bytes, mode, owner),
            Err(why) => self.wrong.push(why),
        }
    }

    fn item(&mut self, item: &Object, bytes: Vec<u8>) {
        let path = item.str_at(&["path"]).unwrap_or_default();
        let mode = item.int_at(&["mode"]).and_then(|mode| u32::try_from(mode).ok());
        let owner = user(item, "user").or(self.user);
        self.put(path, bytes, mode.unwrap_or(self.mode), owner);
    }

    fn put(&mut self, path: &str, bytes: Vec<u8>, mode: u32, owner: Option<u32>) {
        self.bytes = self.bytes.saturating_add(bytes.len());
        match clean_path(path) {
            // What is too much is counted and not kept.
            Ok(_) if self.bytes > BYTES_MAX => {}
            Ok(path) => {
                self.files.insert(path, PayloadFile { bytes, mode, owner });
            }
            Err(error) => self.wrong.push(error.to_string()),
        }
    }
}

fn optional(source: &Object) -> bool {
    source.bool_at(&["optional"]).unwrap_or_default()
}

fn user(source: &Object, name: &str) -> Option<u32> {
    source.int_at(&[name]).and_then(|user| u32::try_from(user).ok())
}

/// The user of all containers, if they have the same: what a token belongs to.
fn one_user(pod: &Object) -> Option<u32> {
    let usual = pod.map_at(&["spec", "securityContext"]).and_then(|all| user(all, "runAsUser"));
    let containers = ["initContainers", "containers"];
    let containers = containers.iter().flat_map(|list| pod.list_at(&["spec", list]));
    let mut users = containers.filter_map(Value::as_object).map(|container| {
        let own = container.map_at(&["securityContext"]).and_then(|own| user(own, "runAsUser"));
        own.or(usual)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(first)
}

/// Where an error of set-up is told: the words people look for (R77).
#[must_use]
pub fn set_up_failed(volume: &str, error: impl core::fmt::Display) -> String {
    format!("MountVolume.SetUp failed for volume {volume:?} : {error}")
}
