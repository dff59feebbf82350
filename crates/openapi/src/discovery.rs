//! Discovery in both forms: one document per level, and everything at once.
//!
//! Verbs are true: what is listed here is what the router admits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use serde_json::{Value, json};
use tenure_machinery::kind::{Kind, Subresource, Verbs};

use crate::order::{self, GroupVersions, VersionKinds};
use crate::put;
use crate::remote::{self, RemoteVersion};

/// The media type of [`aggregated_core`] and [`aggregated_groups`].
pub const AGGREGATED_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`: the versions of the core group, and which address clients of which network should use.
#[must_use]
pub fn api_versions(addresses: &[(&str, &str)]) -> Value {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|(client, server)| json!({"clientCIDR": client, "serverAddress": server}))
        .collect();
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": addresses,
    })
}

/// `/apis`: every group but core.
#[must_use]
pub fn group_list(kinds: &[&Kind], remote: &[RemoteVersion<'_>]) -> Value {
    let groups: Vec<_> = order::merged(kinds, remote)
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(group_value)
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`; `None` when nothing is served in it.
#[must_use]
pub fn group(kinds: &[&Kind], remote: &[RemoteVersion<'_>], name: &str) -> Option<Value> {
    let all = order::merged(kinds, remote);
    let found = all.iter().find(|group| group.name == name).filter(|_| !name.is_empty())?;
    let mut value = group_value(found);
    put(&mut value, "kind", "APIGroup");
    put(&mut value, "apiVersion", "v1");
    Some(value)
}

fn group_value(group: &GroupVersions<'_>) -> Value {
    let versions: Vec<_> = group
        .versions
        .iter()
        .map(|version| {
            let group_version = format!("{}/{}", group.name, version.version);
            json!({"groupVersion": group_version, "version": version.version})
        })
        .collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1` and `/apis/{group}/{version}`; `None` when nothing is served in it.
#[must_use]
pub fn resource_list(kinds: &[&Kind], group: &str, version: &str) -> Option<Value> {
    let group = order::group(kinds, group)?;
    let found = group.versions.iter().find(|found| found.version == version)?;
    let resources: Vec<_> = found.kinds.iter().flat_map(|kind| resources(kind)).collect();
    let mut list = json!({"kind": "APIResourceList", "resources": resources});
    if group.name.is_empty() {
        put(&mut list, "groupVersion", version);
    } else {
        put(&mut list, "groupVersion", format!("{}/{version}", group.name));
        // The core group's list has no apiVersion, for reasons older than groups.
        put(&mut list, "apiVersion", "v1");
    }
    Some(list)
}

/// A kind and its subresources as entries of one list.
fn resources(kind: &Kind) -> Vec<Value> {
    let mut main = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs(kind),
    });
    names(kind, &mut main);
    if kind.verbs != Verbs::CreateOnly {
        put(&mut main, "storageVersionHash", storage_version_hash(kind));
    }
    let mut all = vec![main];
    all.extend(kind.subresources.iter().map(|subresource| {
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, subresource.name),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": body_kind(kind, subresource),
            "verbs": subresource.verbs,
        });
        if let Some((group, version)) = subresource.group_version {
            put(&mut entry, "group", group);
            put(&mut entry, "version", version);
        }
        entry
    }));
    all
}

fn names(kind: &Kind, entry: &mut Value) {
    if !kind.short_names.is_empty() {
        put(entry, "shortNames", json!(kind.short_names));
    }
    if !kind.categories.is_empty() {
        put(entry, "categories", json!(kind.categories));
    }
}

/// Custom kinds list the same verbs in an order of their own, as clients have always seen them.
fn verbs(kind: &Kind) -> &'static [&'static str] {
    match kind.verbs {
        Verbs::All if kind.type_name.is_empty() => {
            &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
        }
        Verbs::All => {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
        Verbs::NoDeleteCollection => {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
        Verbs::CreateOnly => &["create"],
    }
}

/// The kind of a subresource's bodies; rows cannot name the kind of a custom resource, so it is read
/// from the parent.
pub(crate) fn body_kind<'a>(kind: &'a Kind, subresource: &Subresource) -> &'a str {
    if subresource.kind.is_empty() || subresource.name == "status" {
        &kind.kind
    } else {
        subresource.kind
    }
}

/// A short fingerprint of the form in which a kind is stored.
fn storage_version_hash(kind: &Kind) -> String {
    let text = format!("{}/{}/{}", kind.group, kind.version, kind.kind);
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    STANDARD.encode(hash.as_ref().get(..8).unwrap_or_default())
}

/// `/api`, everything at once: the core group alone.
#[must_use]
pub fn aggregated_core(kinds: &[&Kind]) -> Value {
    aggregated(kinds, &[], true)
}

/// `/apis`, everything at once: every group but core.
#[must_use]
pub fn aggregated_groups(kinds: &[&Kind], remote: &[RemoteVersion<'_>]) -> Value {
    aggregated(kinds, remote, false)
}

fn aggregated(kinds: &[&Kind], remote: &[RemoteVersion<'_>], core: bool) -> Value {
    let items: Vec<_> = order::merged(kinds, remote)
        .iter()
        .filter(|group| group.name.is_empty() == core)
        .map(|group| {
            let metadata = if core { json!({}) } else { json!({"name": group.name}) };
            let versions: Vec<_> = group.versions.iter().map(aggregated_version).collect();
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_version(version: &VersionKinds<'_>) -> Value {
    if let Some(remote) = version.remote {
        return remote::aggregated(remote);
    }
    let resources: Vec<_> = version.kinds.iter().map(|kind| aggregated_resource(kind)).collect();
    json!({"version": version.version, "freshness": "Current", "resources": resources})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": response_kind(kind, None),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    names(kind, &mut entry);
    if !kind.subresources.is_empty() {
        let subresources: Vec<_> = kind
            .subresources
            .iter()
            .map(|subresource| {
                json!({
                    "subresource": subresource.name,
                    "responseKind": response_kind(kind, Some(subresource)),
                    "verbs": subresource.verbs,
                })
            })
            .collect();
        put(&mut entry, "subresources", subresources);
    }
    entry
}

/// Built-in kinds leave out the group and version they are listed under; custom kinds repeat them.
fn response_kind(kind: &Kind, subresource: Option<&Subresource>) -> Value {
    let name = subresource.map_or(&*kind.kind, |subresource| body_kind(kind, subresource));
    let (group, version) = match subresource.and_then(|subresource| subresource.group_version) {
        Some(elsewhere) => elsewhere,
        None if kind.type_name.is_empty() => (kind.group.as_ref(), kind.version.as_ref()),
        None => ("", ""),
    };
    json!({"group": group, "version": version, "kind": name})
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;
    use crate::sample;

    #[test]
    fn r38_root_documents() {
        let versions = api_versions(&[("0.0.0.0/0", "127.0.0.1:6443")]);
        assert_eq!(
            versions,
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}]})
        );
        let all = sample::kinds();
        let kinds: Vec<_> = all.iter().collect();
        let list = group_list(&kinds, &[]);
        assert_eq!(list["kind"], "APIGroupList");
        assert_eq!(list["apiVersion"], "v1");
        let names: Vec<_> = list["groups"].as_array().expect("groups").iter().collect();
        assert!(names.iter().all(|group| group["name"] != ""));
        assert_eq!(names.last().expect("a group")["name"], "example.com");
    }

    #[test]
    fn r38_group_documents() {
        let all = sample::kinds();
        let kinds: Vec<_> = all.iter().collect();
        assert_eq!(
            group(&kinds, &[], "apps").expect("apps"),
            json!({"apiVersion": "v1", "kind": "APIGroup", "name": "apps",
                "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
                "versions": [{"groupVersion": "apps/v1", "version": "v1"}]})
        );
        let scaling = group(&kinds, &[], "autoscaling").expect("autoscaling");
        assert_eq!(scaling["preferredVersion"]["version"], "v2");
        assert!(group(&kinds, &[], "missing.example.com").is_none());
        assert!(group(&kinds, &[], "").is_none());
    }

    #[test]
    fn r38_resource_lists_have_recorded_shapes() {
        let all = sample::kinds();
        let kinds: Vec<_> = all.iter().collect();
        let list = resource_list(&kinds, "apps", "v1").expect("apps/v1");
        assert_eq!(list["apiVersion"], "v1");
        assert_eq!(list["groupVersion"], "apps/v1");
        let find = |list: &Value, name: &str| {
            let entries = list["resources"].as_array().expect("resources");
            let mut entry = entries.iter().find(|entry| entry["name"] == name).expect(name).clone();
            entry.as_object_mut().expect("an object").remove("storageVersionHash");
            entry
        };
        assert_eq!(
            find(&list, "deployments"),
            json!({"categories": ["all"], "kind": "Deployment", "name": "deployments",
                "namespaced": true, "shortNames": ["deploy"], "singularName": "deployment",
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]})
        );
        assert_eq!(
            find(&list, "deployments/scale"),
            json!({"group": "autoscaling", "kind": "Scale", "name": "deployments/scale", "namespaced": true,
                "singularName": "", "verbs": ["get", "patch", "update"], "version": "v1"})
        );
        let core = resource_list(&kinds, "", "v1").expect("v1");
        assert!(core.get("apiVersion").is_none());
        let custom = resource_list(&kinds, "example.com", "v1").expect("example.com/v1");
        assert_eq!(
            find(&custom, "widgets")["verbs"],
            json!([
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "create",
                "update",
                "watch"
            ])
        );
        assert!(resource_list(&kinds, "apps", "v9").is_none());
    }

    #[test]
    fn r38_storage_version_hashes_are_upstreams() {
        let all = sample::kinds();
        let namespace = all.iter().find(|kind| kind.kind == "Namespace").expect("a kind");
        assert_eq!(storage_version_hash(namespace), "Q3oi5N2YM8M=");
    }

    #[test]
    fn r39_aggregated_documents() {
        let all = sample::kinds();
        let kinds: Vec<_> = all.iter().collect();
        let core = aggregated_core(&kinds);
        assert_eq!(core["kind"], "APIGroupDiscoveryList");
        assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
        assert_eq!(core["items"][0]["metadata"], json!({}));
        assert_eq!(core["items"][0]["versions"][0]["freshness"], "Current");
        assert_eq!(core["items"].as_array().expect("items").len(), 1);
        let groups = aggregated_groups(&kinds, &[]);
        let items = groups["items"].as_array().expect("items");
        let apps = items.iter().find(|item| item["metadata"]["name"] == "apps").expect("apps");
        let resources = apps["versions"][0]["resources"].as_array().expect("resources");
        let entry = resources.iter().find(|entry| entry["resource"] == "deployments").expect("one");
        assert_eq!(
            entry["responseKind"],
            json!({"group": "", "version": "", "kind": "Deployment"})
        );
        assert_eq!(entry["scope"], "Namespaced");
        assert_eq!(
            entry["subresources"][0],
            json!({"subresource": "scale", "verbs": ["get", "patch", "update"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}})
        );
        let custom = items.last().expect("a group");
        assert_eq!(
            custom["versions"][0]["resources"][0]["responseKind"],
            json!({"group": "example.com", "version": "v1", "kind": "Widget"})
        );
    }

    #[test]
    fn r42_namespaces_have_no_deletecollection() {
        let all = sample::kinds();
        let namespace = all.iter().find(|kind| kind.kind == "Namespace").expect("a kind");
        assert!(!verbs(namespace).contains(&"deletecollection"));
    }
}
