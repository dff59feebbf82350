//! Owners and dependents of which one is stored by another API server (api-server R131h).
//!
//! ```text
//!   objects of other servers, with owners ─────┐
//!   objects here whose owner is elsewhere ─────┴─► every owner is asked for ──► none is there ──► deleted
//! ```
//!
//! Engine `ownership` knows what is stored here, in the order of one log. What another server stores comes in
//! no order, so nothing is concluded from not having seen it: an owner is absent when its server says so, or
//! says that another object bears its name. Whoever does not answer keeps what it may own.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::api_question::{ApiQuestions, Fact, escaped};
use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, IntentPropagation};
use crate::namespace::GONE_OR_MOVED;
use crate::remote_kinds;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, ObjectOwner};

/// How often everything is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// How many objects of one resource are asked for at once.
const PAGE: usize = 500;
/// How many pages of one resource are looked at.
const PAGES: usize = 200;

/// The controller. Its one key stands for everything.
pub struct AggregatedOwners;

impl Controller for AggregatedOwners {
    fn name(&self) -> &'static str {
        "aggregated-garbage-collector"
    }
    fn alias(&self) -> &'static str {
        "aggregatedgarbagecollector"
    }
    fn account(&self) -> &'static str {
        "generic-garbage-collector"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::ApiServices]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let service = |object: &Object| object.at(&["spec", "service"]).cloned();
        let before = change.before.and_then(|object| service(object));
        let after = change.after.and_then(|object| service(object));
        if after.is_some() && before != after {
            wake(ReconcileKey::new("", ""));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let groups = remote_kinds::groups(pass.view);
        let mut out = ReconcileResult::default();
        if groups.is_empty() {
            return out;
        }
        let asked = ApiQuestions::new(pass.answers);
        let mut deletions = elsewhere(&asked, &groups);
        let names: BTreeSet<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        deletions.extend(here(&asked, pass.view, &names));
        let questions = asked.into_questions();
        if !questions.is_empty() {
            return ReconcileResult { questions, ..out };
        }
        let all = deletions.into_iter().enumerate();
        out.intents.extend(all.map(|(number, delete)| {
            delete.independent().together(number > 0).forgiving(GONE_OR_MOVED)
        }));
        out.wake_after(LOOK_AGAIN);
        out
    }
}

/// Deletions of objects of other servers.
fn elsewhere(
    asked: &ApiQuestions<'_>,
    groups: &[remote_kinds::RemoteGroup],
) -> Vec<ControllerIntent> {
    let mut found = Vec::new();
    for group in groups {
        let mut seen = BTreeSet::new();
        for version in &group.versions {
            let path = format!("/apis/{}/{version}", group.name);
            let Ok(Ok(list)) = asked.read(&path) else { continue };
            for kind in remote_kinds::deletable(list) {
                if seen.insert(kind.plural) {
                    // What is still to be asked is asked with the others.
                    let _ = objects(asked, &path, kind.plural, kind.namespaced, &mut found);
                }
            }
        }
    }
    found
}

/// Looks at all objects of one resource.
fn objects(
    asked: &ApiQuestions<'_>,
    version: &str,
    plural: &str,
    namespaced: bool,
    found: &mut Vec<ControllerIntent>,
) -> Fact<()> {
    let mut token = String::new();
    for _ in 0..PAGES {
        let next = if token.is_empty() { String::new() } else { format!("&continue={token}") };
        let Ok(list) = asked.read(&format!("{version}/{}?limit={PAGE}{next}", escaped(plural)))?
        else {
            return Ok(());
        };
        for object in list.list_at(&["items"]).iter().filter_map(Value::as_object) {
            let owners: Vec<ObjectOwner> = object
                .list_at(&["metadata", "ownerReferences"])
                .iter()
                .filter_map(Value::as_object)
                .map(ObjectOwner::of)
                .collect();
            let going = object.str_at(&["metadata", "deletionTimestamp"]).is_some();
            if !going && all_absent(asked, object.namespace(), &owners) == Ok(true) {
                let (name, space) = (escaped(object.name()), escaped(object.namespace()));
                let within =
                    if namespaced { format!("namespaces/{space}/") } else { String::new() };
                let uid = object.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned();
                let path = format!("{version}/{within}{}/{name}", escaped(plural));
                let name = object.name().to_owned();
                found.push(ControllerIntent::remove_elsewhere(path, name, uid));
            }
        }
        token = escaped(list.str_at(&["metadata", "continue"]).unwrap_or_default());
        if token.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Deletions of objects that are stored here and have an owner in one of these groups.
fn here(
    asked: &ApiQuestions<'_>,
    view: &dyn ClusterView,
    groups: &BTreeSet<&str>,
) -> Vec<ControllerIntent> {
    let elsewhere = |owner: &ObjectOwner| {
        owner.api_version.split_once('/').is_some_and(|(group, _)| groups.contains(group))
    };
    let owned = view.owned_objects(&|owners| owners.iter().any(elsewhere)).into_iter();
    let absent =
        owned.filter(|(object, owners)| all_absent(asked, &object.namespace, owners) == Ok(true));
    absent
        .map(|(object, _)| ControllerIntent::remove(object, Some(IntentPropagation::Background)))
        .collect()
}

/// Whether an object has owners, and none of them is there.
fn all_absent(asked: &ApiQuestions<'_>, namespace: &str, owners: &[ObjectOwner]) -> Fact<bool> {
    for owner in owners {
        if !is_absent(asked, namespace, owner)? {
            return Ok(false);
        }
    }
    Ok(!owners.is_empty())
}

/// Whether an owner is not there, by the word of whoever stores it.
fn is_absent(asked: &ApiQuestions<'_>, namespace: &str, owner: &ObjectOwner) -> Fact<bool> {
    let ObjectOwner { api_version, kind, name, uid } = owner;
    let safe = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'/'))
    };
    if !safe(api_version) || name.is_empty() || matches!(name.as_str(), "." | "..") {
        return Ok(false);
    }
    let root = if api_version.contains('/') { "/apis" } else { "/api" };
    let version = format!("{root}/{api_version}");
    let Ok(list) = asked.read(&version)? else { return Ok(false) };
    let Some(found) = remote_kinds::kinds(list).find(|known| known.kind == kind.as_str()) else {
        return Ok(false);
    };
    if found.namespaced && namespace.is_empty() {
        return Ok(false);
    }
    let within = match found.namespaced {
        true => format!("namespaces/{}/", escaped(namespace)),
        false => String::new(),
    };
    let path = format!("{version}/{within}{}/{}", escaped(found.plural), escaped(name));
    Ok(match asked.read(&path)? {
        Ok(object) => {
            let there = object.str_at(&["metadata", "uid"]);
            there.is_some_and(|there| !there.is_empty() && there != uid)
        }
        Err(refusal) => refusal.code == 404,
    })
}
