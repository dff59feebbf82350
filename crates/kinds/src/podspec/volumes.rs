//! Volumes: exactly one source each, and sources that make sense.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::field_path::FieldPathTarget;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Errors, Object, Path};

use crate::podspec::certificates::{validate_bundle, validate_certificate};
use crate::podspec::env::{validate_field_path, validate_resource_field};
use crate::podspec::text;
use crate::podspec::view::{has, int, items, map, text as text_of};

/// The sources in the order they are looked at: the first counts, each further one is refused.
pub(crate) const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Members of rarer sources that must be filled.
const NEEDED: &[(&str, &[&str])] = &[
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &["volumeName"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
    ("image", &["reference"]),
];

/// Good volumes by name: mounts may name only these.
pub(crate) type VolumesByName<'a> = BTreeMap<&'a str, &'a Object>;

/// Checks the list `volumes`; `pod` is the pod's name where there is a pod.
pub(crate) fn validate_volumes<'a>(
    spec: &'a Object,
    pod: Option<&str>,
    path: &Path<'_>,
    errors: &mut Errors,
) -> VolumesByName<'a> {
    let mut good = VolumesByName::new();
    let pod = pod.filter(|name| !name.is_empty());
    for (index, volume) in items(spec, "volumes").enumerate() {
        let at = path.index(index);
        let name = text_of(volume, "name");
        let before = errors.causes().len();
        validate_source(volume, pod, &at, errors);
        match name {
            "" => errors.required(&at.field("name"), ""),
            name => text::dns_label(name, &at.field("name"), errors),
        }
        if good.contains_key(name) {
            errors.duplicate(&at.field("name"), format_args!("{name:?}"));
        }
        if errors.causes().len() == before {
            good.insert(name, volume);
        }
        let claim = map(volume, "persistentVolumeClaim").map(|c| text_of(c, "claimName"));
        if let (Some(pod), Some(claim)) = (pod, claim)
            && items(spec, "volumes")
                .any(|v| has(v, "ephemeral") && claim == format!("{pod}-{}", text_of(v, "name")))
        {
            let at = at.field("persistentVolumeClaim");
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&at.field("claimName"), format_args!("{claim:?}"), why);
        }
    }
    good
}

fn validate_source(volume: &Object, pod: Option<&str>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = false;
    for name in SOURCES {
        let Some(source) = map(volume, name) else { continue };
        let at = path.field(name);
        if seen {
            // Two of the paths are misspelled upstream, and clients see them so.
            let shown = match *name {
                "downwardAPI" => "downwarAPI",
                "cephfs" => "cephFS",
                name => name,
            };
            errors.forbidden(&path.field(shown), "may not specify more than 1 volume type");
            continue;
        }
        seen = true;
        validate_one(name, source, &at, errors);
        if *name == "ephemeral"
            && let Some(pod) = pod
            && !text_of(volume, "name").is_empty()
        {
            let claim = format!("{pod}-{}", text_of(volume, "name"));
            text::dns_subdomain(&claim, &path.field("name"), errors);
        }
    }
    if !seen {
        errors.required(path, "must specify a volume type");
    }
}

fn validate_one(name: &str, source: &Object, path: &Path<'_>, errors: &mut Errors) {
    match name {
        "emptyDir" => validate_empty_dir(source, path, errors),
        "hostPath" => validate_host_path(source, path, errors),
        "secret" => validate_keyed(source, "secretName", path, errors),
        "configMap" => validate_keyed(source, "name", path, errors),
        "nfs" => validate_nfs(source, path, errors),
        "downwardAPI" => {
            mode(source, "defaultMode", path, errors);
            user(source, "defaultUser", path, errors);
            // The cause names the source, not the item.
            items(source, "items").for_each(|file| validate_file(file, path, errors));
        }
        "projected" => {
            mode(source, "defaultMode", path, errors);
            user(source, "defaultUser", path, errors);
            validate_projections(source, path, errors);
        }
        "ephemeral" => match map(source, "volumeClaimTemplate") {
            None => errors.required(&path.field("volumeClaimTemplate"), ""),
            Some(template) => {
                let at = path.field("volumeClaimTemplate");
                validate_claim_spec(template, &at.field("spec"), errors);
            }
        },
        _ => {
            let members =
                NEEDED.iter().find(|(source, _)| *source == name).map_or(&[][..], |(_, m)| m);
            for member in members {
                let filled = match source.get(*member) {
                    Some(serde_json::Value::String(text)) => !text.is_empty(),
                    Some(serde_json::Value::Array(list)) => !list.is_empty(),
                    _ => false,
                };
                if !filled {
                    errors.required(&path.field(member), "");
                }
            }
        }
    }
}

fn validate_empty_dir(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let limit = source.get("sizeLimit").and_then(Quantity::from_value);
    if limit.is_some_and(Quantity::is_negative) {
        errors.forbidden(
            &path.field("sizeLimit"),
            "SizeLimit field must be a valid resource quantity",
        );
    }
}

fn validate_host_path(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let at = path.field("path");
    if text_of(source, "path").is_empty() {
        errors.required(&at, "");
        return;
    }
    text::path_without_backsteps(text_of(source, "path"), &at, errors);
    text::choice(text_of(source, "type"), TYPES, &path.field("type"), errors);
}

fn validate_nfs(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    for member in ["server", "path"] {
        if text_of(source, member).is_empty() {
            errors.required(&path.field(member), "");
        }
    }
    let file = text_of(source, "path");
    if !file.starts_with('/') {
        errors.invalid(&path.field("path"), format_args!("{file:?}"), "must be an absolute path");
    }
}

/// A secret or a config map with its items.
fn validate_keyed(source: &Object, name: &str, path: &Path<'_>, errors: &mut Errors) {
    if text_of(source, name).is_empty() {
        errors.required(&path.field(name), "");
    }
    mode(source, "defaultMode", path, errors);
    user(source, "defaultUser", path, errors);
    validate_items(source, path, errors);
}

fn validate_items(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("items");
    for (index, item) in items(source, "items").enumerate() {
        validate_item(item, &list.index(index), errors);
    }
}

fn validate_item(item: &Object, path: &Path<'_>, errors: &mut Errors) {
    for member in ["key", "path"] {
        if text_of(item, member).is_empty() {
            errors.required(&path.field(member), "");
        }
    }
    text::local_path(text_of(item, "path"), &path.field("path"), errors);
    mode(item, "mode", path, errors);
    user(item, "user", path, errors);
}

/// A file of the downward API; causes name `path`, which is the source.
fn validate_file(file: &Object, path: &Path<'_>, errors: &mut Errors) {
    if text_of(file, "path").is_empty() {
        errors.required(&path.field("path"), "");
    }
    text::local_path(text_of(file, "path"), &path.field("path"), errors);
    match (map(file, "fieldRef"), map(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            validate_field_path(field, FieldPathTarget::Volume, &path.field("fieldRef"), errors);
            if resource.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "\"resource\"", why);
            }
        }
        (None, Some(resource)) => {
            validate_resource_field(resource, true, &path.field("resourceFieldRef"), errors);
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    mode(file, "mode", path, errors);
    user(file, "user", path, errors);
}

fn validate_projections(projected: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut paths: BTreeSet<String> = BTreeSet::new();
    // The cause shows the file, but the name of the object where the file comes from one.
    let mut claim = |file: &str, shown: &str, errors: &mut Errors| {
        if !file.is_empty() && !paths.insert(file.to_owned()) {
            errors.invalid(path, format_args!("{shown:?}"), "conflicting duplicate paths");
        }
    };
    let list = path.field("sources");
    for (index, source) in items(projected, "sources").enumerate() {
        let at = list.index(index);
        let mut count = 0;
        for name in ["secret", "configMap"] {
            let Some(keyed) = map(source, name) else { continue };
            count += 1;
            let at = at.field(name);
            if text_of(keyed, "name").is_empty() {
                errors.required(&at.field("name"), "");
            }
            let list = at.field("items");
            for (position, item) in items(keyed, "items").enumerate() {
                validate_item(item, &list.index(position), errors);
                claim(text_of(item, "path"), text_of(keyed, "name"), errors);
            }
        }
        if let Some(files) = map(source, "downwardAPI") {
            count += 1;
            for file in items(files, "items") {
                validate_file(file, &at.field("downwardAPI"), errors);
                claim(text_of(file, "path"), text_of(file, "path"), errors);
            }
        }
        if let Some(token) = map(source, "serviceAccountToken") {
            count += 1;
            validate_token(token, path, &at.field("serviceAccountToken"), errors);
        }
        if let Some(bundle) = map(source, "clusterTrustBundle") {
            count += 1;
            validate_bundle(bundle, &at.field("clusterTrustBundle"), errors);
            claim(text_of(bundle, "path"), text_of(bundle, "path"), errors);
        }
        if let Some(certificate) = map(source, "podCertificate") {
            count += 1;
            let at = at.field("podCertificate");
            validate_certificate(certificate, &at, errors);
            let members = ["credentialBundlePath", "keyPath", "certificateChainPath"];
            for member in members {
                text::local_path(text_of(certificate, member), &at.field(member), errors);
                let file = text_of(certificate, member);
                claim(file, file, errors);
            }
            if members.iter().all(|member| text_of(certificate, member).is_empty()) {
                let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
                errors.required(&at, why);
            }
        }
        if count > 1 {
            errors.forbidden(&at, "may not specify more than 1 volume type per source");
        }
    }
}

fn validate_token(token: &Object, projected: &Path<'_>, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("expirationSeconds");
    match int(token, "expirationSeconds") {
        None => errors.required(&at, ""),
        Some(seconds) if seconds < 600 => {
            errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > 1 << 32 => {
            errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
        }
        Some(_) => {}
    }
    // The path of a token is reported beside the sources.
    match text_of(token, "path") {
        "" => errors.required(&projected.field("path"), ""),
        file => text::local_path(file, &projected.field("path"), errors),
    }
    user(token, "user", path, errors);
}

/// The claim inside an ephemeral volume: access modes and a size.
fn validate_claim_spec(template: &Object, path: &Path<'_>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = map(template, "spec").unwrap_or(&empty);
    if !crate::podspec::view::any(spec, "accessModes") {
        errors.required(&path.field("accessModes"), "at least 1 access mode is required");
    }
    let requests = map(spec, "resources").and_then(|r| map(r, "requests"));
    if !requests.is_some_and(|requests| has(requests, "storage")) {
        let at = path.field("resources");
        errors.required(&at.key("storage"), "");
    }
}

/// The user that a file belongs to.
pub(crate) fn user(object: &Object, name: &str, path: &Path<'_>, errors: &mut Errors) {
    let range = 0..=i64::from(i32::MAX);
    if let Some(user) = int(object, name).filter(|user| !range.contains(user)) {
        errors.invalid(&path.field(name), user, "must be between 0 and 2147483647, inclusive");
    }
}

fn mode(object: &Object, name: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(mode) = int(object, name).filter(|mode| !(0..=0o777).contains(mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.invalid(&path.field(name), mode, why);
    }
}
