//! A field of a pod as text (R20 to R27, R40 to R50). Which place may use which field is said in
//! `tenure_core::field_path`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use tenure_core::field_path::{FieldPath, FieldPathErrorKind, FieldPathTarget, KeyedMap, PodField};
use tenure_machinery::{Object, ObjectExt};

use crate::owners::owner_envelope;
use crate::quote::format_map;
use crate::view::{RuntimeView, ValueDestination};

/// Why a value cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// The reference is not of version `v1`.
    Version(String),
    /// The path names no field, or is badly escaped.
    Path(String),
    /// The path has a key where there are none.
    Subscript(String),
    /// The field is not told here.
    Unsupported(String),
    /// The pod has no such container.
    Container(String),
    /// The resource is not told.
    Resource(String),
    /// The node has no address that is known.
    NoAddress,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::Version(version) => write!(out, "unsupported pod version: {version}"),
            ResolveError::Path(why) => out.write_str(why),
            ResolveError::Subscript(path) => {
                write!(out, "fieldPath {path:?} does not support subscript")
            }
            ResolveError::Unsupported(path) => write!(out, "unsupported fieldPath: {path}"),
            ResolveError::Container(name) => write!(out, "container {name} not found"),
            ResolveError::Resource(name) => write!(out, "unsupported container resource : {name}"),
            ResolveError::NoAddress => out.write_str("the node has no address yet"),
        }
    }
}

impl core::error::Error for ResolveError {}

/// The value behind a `fieldRef`.
///
/// # Errors
/// The path is none, or not for this place.
pub fn resolve_field_ref(
    reference: &Object,
    pod: &Object,
    runtime: &RuntimeView<'_>,
    form: ValueDestination,
) -> Result<String, ResolveError> {
    let version = reference.str_at(&["apiVersion"]).unwrap_or("v1");
    if version != "v1" {
        return Err(ResolveError::Version(version.into()));
    }
    let text = reference.str_at(&["fieldPath"]).unwrap_or_default();
    let path = FieldPath::parse(text).map_err(|error| match error.fault {
        FieldPathErrorKind::NoSubscript => ResolveError::Subscript(text.into()),
        _ => ResolveError::Path(error.to_string()),
    })?;
    resolve_field(&path, pod, runtime, form)
}

/// The value of a field; a label or annotation that is not set is the empty text (R21).
///
/// # Errors
/// The field is not for this place, or the node has no address.
pub fn resolve_field(
    path: &FieldPath<'_>,
    pod: &Object,
    runtime: &RuntimeView<'_>,
    form: ValueDestination,
) -> Result<String, ResolveError> {
    match path {
        FieldPath::Key { map, key, .. } => {
            let map = match map {
                KeyedMap::Annotations => "annotations",
                KeyedMap::Labels => "labels",
            };
            Ok(text(pod, &["metadata", map, key]))
        }
        FieldPath::Whole(field) => whole(*field, pod, runtime, form),
    }
}

fn whole(
    field: PodField,
    pod: &Object,
    runtime: &RuntimeView<'_>,
    form: ValueDestination,
) -> Result<String, ResolveError> {
    let scope =
        if form == ValueDestination::Env { FieldPathTarget::Env } else { FieldPathTarget::Volume };
    if !scope.allows(field, runtime.settings.extra) {
        return Err(ResolveError::Unsupported(field.as_str().into()));
    }
    Ok(match field {
        PodField::Name => text(pod, &["metadata", "name"]),
        PodField::Namespace => text(pod, &["metadata", "namespace"]),
        PodField::Uid => text(pod, &["metadata", "uid"]),
        PodField::Annotations => map(pod, "annotations"),
        PodField::Labels => map(pod, "labels"),
        PodField::OwnerReferences => {
            let form = if runtime.settings.compact_files { ValueDestination::Env } else { form };
            owner_envelope(pod.list_at(&["metadata", "ownerReferences"]), form)
        }
        PodField::NodeName => text(pod, &["spec", "nodeName"]),
        PodField::ServiceAccountName => text(pod, &["spec", "serviceAccountName"]),
        PodField::HostIp => joined(host_ips(runtime)?.get(..1).unwrap_or_default()),
        PodField::HostIps => joined(&host_ips(runtime)?),
        // A file may be made before the pod has an address; it is written again when it has (R15).
        PodField::PodIp => joined(runtime.pod_ips(pod).get(..1).unwrap_or_default()),
        PodField::PodIps => joined(&runtime.pod_ips(pod)),
        PodField::RestartPolicy | PodField::SchedulerName | PodField::Phase => {
            return Err(ResolveError::Unsupported(field.as_str().into()));
        }
    })
}

fn text(pod: &Object, path: &[&str]) -> String {
    pod.str_at(path).unwrap_or_default().into()
}

fn map(pod: &Object, name: &str) -> String {
    pod.map_at(&["metadata", name]).map(format_map).unwrap_or_default()
}

fn host_ips(runtime: &RuntimeView<'_>) -> Result<Vec<IpAddr>, ResolveError> {
    let ips = runtime.host_ips();
    if ips.is_empty() { Err(ResolveError::NoAddress) } else { Ok(ips) }
}

fn joined(ips: &[IpAddr]) -> String {
    let texts: Vec<String> = ips.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// Whether a pod, or the pod of a template, uses its owner references; `spec` is the specification.
#[must_use]
pub fn uses_owner_references(spec: &Object) -> bool {
    crate::inputs::field_paths(spec).any(|path| path == PodField::OwnerReferences.as_str())
}
