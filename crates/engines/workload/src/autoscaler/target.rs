//! What is scaled: its resource, found by discovery, and its Scale (HA2).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

use crate::api_question::{ApiQuestions, Fact, MissingFact, escaped, versions};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, selector};

/// The Scale of a target and where it is.
pub(super) struct ScaleTarget {
    /// The path of the Scale.
    pub(super) path: String,
    /// The Scale.
    pub(super) scale: Object,
}

impl ScaleTarget {
    /// The size that is wanted.
    pub(super) fn replicas(&self) -> i32 {
        count(self.scale.int_at(&["spec", "replicas"]))
    }

    /// The size that is.
    pub(super) fn current(&self) -> i32 {
        count(self.scale.int_at(&["status", "replicas"]))
    }

    /// Which pods are counted, as text.
    pub(super) fn selector(&self) -> &str {
        self.scale.str_at(&["status", "selector"]).unwrap_or_default()
    }

    /// The Scale with another size, whatever else has changed in it since.
    pub(super) fn resized(&self, replicas: i32) -> Object {
        let mut scale = self.scale.clone();
        scale.map_mut("metadata").remove("resourceVersion");
        scale.map_mut("spec").insert("replicas".to_string(), replicas.into());
        scale
    }
}

fn count(value: Option<i64>) -> i32 {
    value.and_then(|value| i32::try_from(value).ok()).unwrap_or_default()
}

/// A kind as paths write it: the version it is served in, and its resource.
pub(super) struct KindResource {
    version: String,
    plural: String,
}

/// The group in an `apiVersion`, or why that is none.
fn group_of(api_version: &str) -> Fact<&str> {
    let mut parts = api_version.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(_), None) => Ok(group),
        (_, None, None) => Ok(""),
        _ => Err(MissingFact::Failed(format!("unexpected GroupVersion string: {api_version}"))),
    }
}

/// The resource of a kind, in the preferred version of its group that has it.
pub(super) fn resource_of(
    questions: &ApiQuestions<'_>,
    api_version: &str,
    kind: &str,
) -> Fact<(String, KindResource)> {
    let group = group_of(api_version)?;
    let all = match group {
        "" => Vec::from(["v1".to_string()]),
        group => versions(questions, &escaped(group))?,
    };
    for version in all {
        let path = list_path(group, &version);
        let Ok(list) = questions.read(&path)? else { continue };
        let of_kind = |resource: &&Object| {
            let name = resource.str_at(&["name"]).unwrap_or_default();
            resource.str_at(&["kind"]) == Some(kind) && !name.contains('/')
        };
        let resources = list.list_at(&["resources"]).iter().filter_map(|r| r.as_object());
        if let Some(found) = resources.into_iter().find(of_kind) {
            let plural = found.str_at(&["name"]).unwrap_or_default().to_string();
            return Ok((group.to_string(), KindResource { version, plural }));
        }
    }
    let group = if group.is_empty() { String::new() } else { format!(" in group \"{group}\"") };
    Err(MissingFact::Failed(format!("no matches for kind \"{kind}\"{group}")))
}

/// A resource with its group, such as `deployments.apps`.
pub(super) fn qualified(group: &str, resource: &KindResource) -> String {
    match group {
        "" => resource.plural.clone(),
        group => format!("{}.{group}", resource.plural),
    }
}

fn list_path(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{}/{}", escaped(group), escaped(version)),
    }
}

/// The target of an autoscaler.
pub(super) fn scale_of(questions: &ApiQuestions<'_>, autoscaler: &Object) -> Fact<ScaleTarget> {
    let text = |name| autoscaler.str_at(&["spec", "scaleTargetRef", name]).unwrap_or_default();
    let (group, resource) = resource_of(questions, text("apiVersion"), text("kind"))?;
    let path = format!(
        "{}/namespaces/{}/{}/{}/scale",
        list_path(&group, &resource.version),
        escaped(autoscaler.namespace()),
        escaped(&resource.plural),
        escaped(text("name")),
    );
    let what = format!("get {}", qualified(&group, &resource));
    let scale = questions.get(&path, &what)?.clone();
    Ok(ScaleTarget { path, scale })
}

/// The names of other autoscalers of the namespace whose targets select one of these pods. Targets that are no
/// workloads of the server's own are not looked at.
pub(super) fn rivals(
    view: &dyn ClusterView,
    autoscaler: &VersionedObject,
    pods: &[VersionedObject],
) -> Vec<String> {
    let namespace = autoscaler.namespace();
    let mut found = Vec::new();
    for other in view.list(super::AUTOSCALERS, Some(namespace)) {
        if owner::uid(&other) == owner::uid(autoscaler) {
            continue;
        }
        let selects = selector_of(view, &other)
            .is_some_and(|selects| pods.iter().any(|pod| selector::matches(&selects, pod)));
        if selects {
            found.push(format!("{namespace}/{}", other.name()));
        }
    }
    found
}

/// Which pods the target of an autoscaler selects, if it is one of the server's own workloads.
fn selector_of(view: &dyn ClusterView, autoscaler: &Object) -> Option<LabelSelector> {
    let text = |name| autoscaler.str_at(&["spec", "scaleTargetRef", name]).unwrap_or_default();
    let group = group_of(text("apiVersion")).ok()?;
    let path = ["spec", "selector"];
    let resource = match (group, text("kind")) {
        ("apps", "Deployment") => BuiltinResource::Deployments,
        ("apps", "ReplicaSet") => BuiltinResource::ReplicaSets,
        ("apps", "StatefulSet") => BuiltinResource::StatefulSets,
        ("", "ReplicationController") => BuiltinResource::ReplicationControllers,
        _ => return None,
    };
    let target = view.get(resource, autoscaler.namespace(), text("name"))?;
    match resource {
        BuiltinResource::ReplicationControllers => selector::map_at(&target, &path),
        _ => selector::at(&target, &path),
    }
}
