//! Kinds that other API servers serve, as APIServices register them (api-server R131h).

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::resource::BuiltinResource;
use crate::view::ClusterView;

/// A group that another server serves, in these versions, the first one before all.
pub(crate) struct RemoteGroup {
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
}

/// The groups that other servers serve.
pub(crate) fn groups(view: &dyn ClusterView) -> Vec<RemoteGroup> {
    let mut found: Vec<(String, Reverse<i64>, String)> = view
        .list(BuiltinResource::ApiServices, None)
        .iter()
        .filter(|service| service.map_at(&["spec", "service"]).is_some())
        .map(|service| {
            let text = |member: &str| service.str_at(&["spec", member]).unwrap_or_default();
            let priority = service.int_at(&["spec", "versionPriority"]).unwrap_or_default();
            (text("group").to_owned(), Reverse(priority), text("version").to_owned())
        })
        // The core group is always served here.
        .filter(|(group, _, _)| !group.is_empty())
        .collect();
    found.sort();
    let mut groups: Vec<RemoteGroup> = Vec::new();
    for (name, _, version) in found {
        match groups.last_mut().filter(|group| group.name == name) {
            Some(group) => group.versions.push(version),
            None => groups.push(RemoteGroup { name, versions: [version].into() }),
        }
    }
    groups
}

/// A kind in a list of resources.
#[derive(Clone, Copy)]
pub(crate) struct ListedKind<'a> {
    pub(crate) plural: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) namespaced: bool,
    verbs: &'a [Value],
}

/// The kinds of a list of resources, without what lies below them.
pub(crate) fn kinds(list: &Object) -> impl Iterator<Item = ListedKind<'_>> {
    let all = list.list_at(&["resources"]).iter().filter_map(Value::as_object);
    all.filter_map(|resource| {
        let plural = resource.str_at(&["name"]).filter(|name| !name.is_empty())?;
        (!plural.contains('/')).then(|| ListedKind {
            plural,
            kind: resource.str_at(&["kind"]).unwrap_or_default(),
            namespaced: resource.bool_at(&["namespaced"]).unwrap_or_default(),
            verbs: resource.list_at(&["verbs"]),
        })
    })
}

/// Those whose objects can be listed and deleted.
pub(crate) fn deletable(list: &Object) -> impl Iterator<Item = ListedKind<'_>> {
    kinds(list).filter(|kind| {
        ["list", "delete"].iter().all(|verb| kind.verbs.iter().any(|v| v.as_str() == Some(*verb)))
    })
}
