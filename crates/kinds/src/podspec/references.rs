//! Which ConfigMaps and Secrets a pod mentions: the one list that owners, guards and reports share.
//!
//! ```text
//!   containers, initContainers, ephemeralContainers ── env, envFrom ──┐
//!   volumes (projected ones source by source) ────────────────────────┼──► { (kind, name) }
//!   imagePullSecrets ─────────────────────────────────────────────────┘
//! ```
//!
//! What is reached through other objects (claims, storage classes, service accounts) never counts here.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_machinery::Object;

use crate::podspec::view::{items, map, text};
use crate::podspec::volumes::SOURCES;

/// The two kinds a pod takes its settings from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl ReferenceKind {
    /// The kind as objects name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

/// What a pod mentions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodReferences<'a> {
    /// Each kind and name once, in order.
    pub names: BTreeSet<(ReferenceKind, &'a str)>,
    /// The Secrets among them that images are pulled with and nothing else.
    pub pulled: BTreeSet<&'a str>,
    /// How many mentions were guessed in volume sources nobody here knows.
    pub guessed: usize,
}

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Volume sources whose secret is the object under a member.
const SECRET_MEMBERS: [(&str, &str); 8] = [
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("csi", "nodePublishSecretRef"),
    ("flexVolume", "secretRef"),
    ("iscsi", "secretRef"),
    ("rbd", "secretRef"),
    ("scaleIO", "secretRef"),
    ("storageos", "secretRef"),
];

/// Sources of a projected volume that are known.
const PROJECTED: [&str; 6] = [
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
];

/// How deep a source nobody knows is searched; real sources end at three.
const GUESS_DEPTH_MAX: usize = 16;

/// The ConfigMaps and Secrets that a pod specification mentions, whether optional or not.
pub fn references(spec: &Object) -> PodReferences<'_> {
    let mut found = PodReferences::default();
    for container in CONTAINERS.iter().flat_map(|list| items(spec, list)) {
        found.container(container);
    }
    for volume in items(spec, "volumes") {
        found.volume(volume);
    }
    for name in items(spec, "imagePullSecrets").map(|secret| text(secret, "name")) {
        if !name.is_empty() && found.names.insert((ReferenceKind::Secret, name)) {
            found.pulled.insert(name);
        }
    }
    found
}

/// The ConfigMaps and Secrets that a pod template, or a pod, mentions.
pub fn template_references(template: &Object) -> PodReferences<'_> {
    map(template, "spec").map(references).unwrap_or_default()
}

impl<'a> PodReferences<'a> {
    fn add(&mut self, kind: ReferenceKind, name: &'a str) {
        if !name.is_empty() {
            self.names.insert((kind, name));
        }
    }

    fn add_named(&mut self, kind: ReferenceKind, within: &'a Object, member: &str) {
        if let Some(reference) = map(within, member) {
            self.add(kind, text(reference, "name"));
        }
    }

    fn container(&mut self, container: &'a Object) {
        for variable in items(container, "env") {
            if let Some(from) = map(variable, "valueFrom") {
                self.add_named(ReferenceKind::ConfigMap, from, "configMapKeyRef");
                self.add_named(ReferenceKind::Secret, from, "secretKeyRef");
            }
        }
        for from in items(container, "envFrom") {
            self.add_named(ReferenceKind::ConfigMap, from, "configMapRef");
            self.add_named(ReferenceKind::Secret, from, "secretRef");
        }
    }

    fn volume(&mut self, volume: &'a Object) {
        self.add_named(ReferenceKind::ConfigMap, volume, "configMap");
        for source in ["secret", "azureFile"].iter().filter_map(|source| map(volume, source)) {
            self.add(ReferenceKind::Secret, text(source, "secretName"));
        }
        for (source, member) in SECRET_MEMBERS {
            if let Some(source) = map(volume, source) {
                self.add_named(ReferenceKind::Secret, source, member);
            }
        }
        if let Some(projected) = map(volume, "projected") {
            for source in items(projected, "sources") {
                self.add_named(ReferenceKind::ConfigMap, source, "configMap");
                self.add_named(ReferenceKind::Secret, source, "secret");
                self.guess_unknown(source, &PROJECTED);
            }
        }
        self.guess_unknown(volume, SOURCES);
    }

    /// Searches the sources that `known` does not list: too much kept is safe, too little is not.
    fn guess_unknown(&mut self, sources: &'a Object, known: &[&str]) {
        let unknown = sources.iter().filter(|(name, _)| !known.contains(&name.as_str()));
        for (_, source) in unknown {
            self.guess(source, 0);
        }
    }

    fn guess(&mut self, value: &'a Value, depth: usize) {
        if depth > GUESS_DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    self.guess_member(name, value);
                    self.guess(value, depth + 1);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.guess(value, depth + 1)),
            _ => {}
        }
    }

    fn guess_member(&mut self, member: &str, value: &'a Value) {
        let named = || value.get("name").and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = match member {
            "configMapRef" => (ReferenceKind::ConfigMap, named()),
            "secretRef" | "nodePublishSecretRef" => (ReferenceKind::Secret, named()),
            "secretName" => (ReferenceKind::Secret, value.as_str().unwrap_or_default()),
            _ => return,
        };
        if !name.is_empty() {
            self.guessed += 1;
            self.add(kind, name);
        }
    }
}
