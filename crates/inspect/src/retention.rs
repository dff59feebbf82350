//! What keeps an opted-in ConfigMap or Secret, and until when (retention sections 9 and 13.7); which of its owners the
//! retention engine wrote. Nothing here asks anybody.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::facts::ObjectIdentity;
use crate::finding::{Finding, FindingCode, count};
use crate::meta::{ObjectMetadata, OwnerReference};

/// The name that the retention engine writes under.
pub const MANAGER: &str = "tenure-retention";

/// How many revisions a root keeps beside the current one unless it says so.
const LIMIT_USUAL: i64 = 10;

/// Where a kind of holder is served.
pub(crate) const HOLDERS: [(&str, &str); 3] =
    [("ReplicaSet", "apps/v1"), ("ControllerRevision", "apps/v1"), ("ReplicationController", "v1")];

/// A subject and the owners that the engine gave it.
#[derive(Clone, Debug)]
pub struct RetainedSubject {
    /// The subject.
    pub subject: ObjectIdentity,
    /// The entries the engine wrote; others are none of its business.
    pub managed: Vec<OwnerReference>,
}

/// The owner entries of an object that the engine wrote: a holder, neither controlling nor blocking, recorded under
/// its name.
#[must_use]
pub(crate) fn managed(meta: &ObjectMetadata) -> Vec<OwnerReference> {
    let fields = meta.managed_fields.as_ref().map(|raw| raw.get()).unwrap_or("[]");
    let entries: Vec<Value> = serde_json::from_str(fields).unwrap_or_default();
    let ours = |entry: &&Value| entry.get("manager").and_then(Value::as_str) == Some(MANAGER);
    let written = |uid: &str| {
        let key = format!("k:{{\"uid\":\"{uid}\"}}");
        entries.iter().filter(ours).any(|entry| {
            let list = entry.pointer("/fieldsV1/f:metadata/f:ownerReferences");
            list.is_some_and(|list| list.get(&key).is_some())
        })
    };
    let holder = |owner: &&OwnerReference| {
        HOLDERS.contains(&(owner.kind.as_str(), owner.api_version.as_str()))
            && owner.controller.is_none()
            && !owner.block_owner_deletion.unwrap_or(false)
            && written(&owner.uid)
    };
    meta.owner_references.iter().filter(holder).cloned().collect()
}

/// What was read about the holders of one subject.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    /// All objects of the kinds of holders in its namespace.
    pub(crate) objects: Vec<Value>,
    /// The roots of its holders, by uid.
    pub(crate) roots: BTreeMap<String, Value>,
    /// Whether the subject opted in.
    pub(crate) opted_in: bool,
}

impl Holders {
    /// The object with a uid.
    pub(crate) fn get(&self, uid: &str) -> Option<&Value> {
        self.objects.iter().find(|object| text(object, "/metadata/uid") == uid)
    }

    /// What keeps a subject, one finding for each of its owners that is a holder.
    pub(crate) fn explain(
        &self,
        subject: &ObjectIdentity,
        owners: &[OwnerReference],
    ) -> Vec<Finding> {
        let held = owners.iter().filter_map(|owner| {
            let holder = self.get(&owner.uid)?;
            Some(self.held(subject, owner, holder))
        });
        let mut findings: Vec<Finding> = held.collect();
        if self.opted_in && owners.is_empty() {
            let what = format!("{subject} is opted in to retention and has no owner");
            let cause = "it stays until a revision that mentions it becomes its owner, and goes with \
                         the last one";
            findings.push(
                Finding::note(FindingCode::Retained, subject, what)
                    .cause(cause.to_owned())
                    .rule("retention R26"),
            );
        }
        findings
    }

    fn held(&self, subject: &ObjectIdentity, owner: &OwnerReference, holder: &Value) -> Finding {
        let replicas = holder.pointer("/spec/replicas").and_then(Value::as_i64);
        let size = match replicas {
            Some(replicas) => {
                format!(", {}", count(usize::try_from(replicas).unwrap_or(0), "replica"))
            }
            None => String::new(),
        };
        let controller = controller(holder);
        let root = controller.and_then(|uid| self.roots.get(uid));
        let (what, goes) = match (root, controller) {
            (Some(root), Some(uid)) => {
                let named = format!("{} `{}`", text(root, "/kind"), text(root, "/metadata/name"));
                let number = revision(holder);
                let what = format!(
                    "{subject} is held by {} `{}`: revision {number} of {named}{size}",
                    owner.kind, owner.name
                );
                (what, self.goes(holder, root, uid, &named))
            }
            (None, Some(_)) => {
                let what = format!("{subject} is held by {} `{}`{size}", owner.kind, owner.name);
                (what, "goes when its controller lets it go".to_owned())
            }
            _ => {
                let what = format!("{subject} is held by {} `{}`{size}", owner.kind, owner.name);
                (what, format!("goes when that {} is deleted", owner.kind))
            }
        };
        Finding::note(FindingCode::Retained, subject, what).cause(goes).rule("retention R33")
    }

    /// When a revision leaves the history of its root.
    fn goes(&self, holder: &Value, root: &Value, root_uid: &str, named: &str) -> String {
        let kind = text(holder, "/kind");
        let newer = self.objects.iter().filter(|other| {
            text(other, "/kind") == kind
                && controller(other) == Some(root_uid)
                && revision(other) > revision(holder)
        });
        let newer = i64::try_from(newer.count()).unwrap_or(i64::MAX);
        let limit = root.pointer("/spec/revisionHistoryLimit").and_then(Value::as_i64);
        let limit = limit.unwrap_or(LIMIT_USUAL);
        if newer == 0 {
            let left = usize::try_from(limit.saturating_add(1)).unwrap_or(0);
            return format!(
                "the newest revision: goes after {}, or with {named}",
                count(left, "more rollout")
            );
        }
        let left = limit.saturating_add(1).saturating_sub(newer).max(0);
        match usize::try_from(left).unwrap_or(0) {
            0 => format!("goes as soon as nothing runs it any more: {named} keeps {limit}"),
            left => format!(
                "goes after {}, or with {named} ({newer} newer, limit {limit})",
                count(left, "more rollout")
            ),
        }
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The uid of the managing owner.
pub(crate) fn controller(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    let manages = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    owners.iter().find(manages)?.get("uid").and_then(Value::as_str)
}

/// The number of a revision: a ControllerRevision has one, a ReplicaSet is told.
fn revision(holder: &Value) -> i64 {
    let own = holder.get("revision").and_then(Value::as_i64);
    let annotations = holder.pointer("/metadata/annotations");
    let reported = annotations.and_then(|all| all.get("deployment.kubernetes.io/revision"));
    own.or_else(|| reported.and_then(Value::as_str).and_then(|text| text.parse().ok())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/retention.md.

    use serde_json::json;

    use super::*;

    fn meta(value: Value) -> ObjectMetadata {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    fn subject() -> ObjectIdentity {
        ObjectIdentity {
            kind: "ConfigMap".into(),
            namespace: "shop".into(),
            name: "settings".into(),
            api_version: "v1".into(),
            uid: "c".into(),
        }
    }

    fn owner(kind: &str, name: &str, uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: if kind == "ReplicationController" { "v1" } else { "apps/v1" }.into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.into(),
            ..OwnerReference::default()
        }
    }

    #[test]
    fn r70_only_what_the_engine_wrote_is_managed() {
        let set = |uid: &str| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": uid});
        let mut controls = set("controls");
        controls["controller"] = json!(true);
        let mut blocks = set("blocks");
        blocks["blockOwnerDeletion"] = json!(true);
        let mut deployment = set("root");
        deployment["kind"] = json!("Deployment");
        let keys: serde_json::Map<String, Value> = ["ours", "controls", "blocks", "root"]
            .iter()
            .map(|uid| (format!("k:{{\"uid\":\"{uid}\"}}"), json!({})))
            .collect();
        let by_hand = json!({ "k:{\"uid\":\"foreign\"}": {} });
        let meta = meta(json!({
            "name": "a",
            "ownerReferences": [set("ours"), set("foreign"), controls, blocks, deployment],
            "managedFields": [
                {"manager": MANAGER, "fieldsV1": {"f:metadata": {"f:ownerReferences": keys}}},
                {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:ownerReferences": by_hand}}},
            ],
        }));
        let uids: Vec<String> = managed(&meta).into_iter().map(|owner| owner.uid).collect();
        assert_eq!(uids, ["ours"]);
    }

    /// A Deployment with so many revisions, the newest last.
    fn history(revisions: i64, limit: i64) -> Holders {
        let objects = (1..=revisions).map(|number| {
            json!({
                "kind": "ReplicaSet",
                "metadata": {
                    "uid": format!("r{number}"),
                    "annotations": { "deployment.kubernetes.io/revision": number.to_string() },
                    "ownerReferences": [{ "uid": "d", "controller": true }],
                },
                "spec": { "replicas": i64::from(number == revisions) },
            })
        });
        let root = json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"revisionHistoryLimit": limit}});
        Holders {
            objects: objects.collect(),
            roots: BTreeMap::from([("d".to_owned(), root)]),
            opted_in: true,
        }
    }

    #[test]
    fn r33_a_revision_goes_when_history_does() {
        let said = |holders: &Holders, uid: &str| {
            let owners = [owner("ReplicaSet", "web-5d9", uid)];
            let [finding] = holders.explain(&subject(), &owners).try_into().unwrap();
            (finding.what, finding.causes.join(" "))
        };
        let (what, goes) = said(&history(11, 10), "r4");
        assert_eq!(
            what,
            "ConfigMap `shop/settings` is held by ReplicaSet `web-5d9`: revision 4 of Deployment `web`, 0 replicas"
        );
        assert_eq!(
            goes,
            "goes after 4 more rollouts, or with Deployment `web` (7 newer, limit 10)"
        );
        let (what, goes) = said(&history(11, 10), "r11");
        assert!(what.ends_with("revision 11 of Deployment `web`, 1 replica"), "{what}");
        assert_eq!(
            goes,
            "the newest revision: goes after 11 more rollouts, or with Deployment `web`"
        );
        let (_, goes) = said(&history(2, 0), "r1");
        assert_eq!(goes, "goes as soon as nothing runs it any more: Deployment `web` keeps 0");
    }

    #[test]
    fn r24_a_holder_without_a_root_speaks_for_itself() {
        let alone = json!({"kind": "ReplicationController", "metadata": {"uid": "r"}, "spec": {"replicas": 2}});
        let holders = Holders { objects: vec![alone], ..Holders::default() };
        let owners = [owner("ReplicationController", "old", "r"), owner("ReplicaSet", "x", "gone")];
        let [finding] = holders.explain(&subject(), &owners).try_into().unwrap();
        assert_eq!(
            finding.what,
            "ConfigMap `shop/settings` is held by ReplicationController `old`, 2 replicas"
        );
        assert_eq!(finding.causes, ["goes when that ReplicationController is deleted"]);
    }

    #[test]
    fn r26_an_opted_in_subject_without_owners_waits_for_one() {
        let holders = Holders { opted_in: true, ..Holders::default() };
        let findings = holders.explain(&subject(), &[]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].code, FindingCode::Retained);
        assert!(Holders::default().explain(&subject(), &[]).is_empty());
    }
}
