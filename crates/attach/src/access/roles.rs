//! Roles and RoleBindings as they are written, and what is read back from them.

use serde_json::{Map, Value, json};
use tenure_references::{GROUP, Subject};

use super::plan::{RoleNames, RoleTarget};
use crate::api::text;
use crate::{AttachFeature, FEATURE, MANAGED_BY, VERSION};

const RBAC: &str = "rbac.authorization.k8s.io";
/// How the name of each begins.
const PREFIX: &str = "tenure-ref-";
/// The name that no object has: a rule that loses its last name otherwise would mean every object (A22).
const IMPOSSIBLE: &str = "-";
/// Those that are everybody, or nearly.
const EVERYBODY: [&str; 5] = [
    "system:anonymous",
    "system:unauthenticated",
    "system:authenticated",
    "system:masters",
    "system:serviceaccounts",
];

/// Which Role: of a consumer, in a namespace, by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShardKey {
    pub(super) consumer: String,
    pub(super) namespace: String,
    pub(super) shard: usize,
}

impl ShardKey {
    /// Reads the name of a Role or RoleBinding.
    pub(super) fn of(object: &Value) -> Option<ShardKey> {
        let rest = text(object, "/metadata/name").strip_prefix(PREFIX)?;
        let (consumer, number) = rest.rsplit_once('-')?;
        let shard: usize = number.parse().ok()?;
        let is_ours = shard < crate::install::SHARDS && number == shard.to_string();
        let namespace = text(object, "/metadata/namespace").to_owned();
        is_ours.then(|| ShardKey { consumer: consumer.to_owned(), namespace, shard })
    }

    /// The name of both.
    pub(super) fn name(&self) -> String {
        format!("{PREFIX}{}-{}", self.consumer, self.shard)
    }

    pub(super) fn path(&self, plural: &str) -> String {
        format!("/apis/{RBAC}/v1/namespaces/{}/{plural}/{}", self.namespace, self.name())
    }
}

/// The consumer that Roles are written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoleOwner {
    pub(super) uid: String,
    pub(super) subject: Subject,
}

impl RoleOwner {
    /// Whether Roles may be bound to it at all.
    pub(super) fn is_everybody(&self) -> bool {
        match &self.subject {
            Subject::User(name) | Subject::Group(name) => EVERYBODY.contains(&name.as_str()),
            Subject::ServiceAccount { .. } => false,
        }
    }
}

/// The rules of a Role: each names what it is about (A22).
pub(super) fn rules(names: &RoleNames) -> Value {
    let of_type = |((group, plural), names): (&(String, String), &_)| {
        let names: &std::collections::BTreeSet<String> = names;
        let mut all = vec![IMPOSSIBLE.to_owned()];
        all.extend(names.iter().filter(|name| *name != IMPOSSIBLE).cloned());
        json!({
            "apiGroups": [group], "resources": [plural], "resourceNames": all,
            "verbs": ["get", "list", "watch"],
        })
    };
    names.iter().map(of_type).collect()
}

pub(super) fn role(key: &ShardKey, owner: &RoleOwner, rules: &Value) -> Value {
    let mut role = object("Role", key, owner);
    role.insert("rules".into(), rules.clone());
    role.into()
}

pub(super) fn binding(key: &ShardKey, owner: &RoleOwner) -> Value {
    let mut binding = object("RoleBinding", key, owner);
    binding
        .insert("roleRef".into(), json!({ "apiGroup": RBAC, "kind": "Role", "name": key.name() }));
    binding.insert("subjects".into(), json!([subject(&owner.subject)]));
    binding.into()
}

/// A Role that opens everything, which nobody may write (A23).
pub(super) fn open_role(key: &ShardKey) -> Value {
    let (manager, tenure) = MANAGED_BY;
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "Role",
        "metadata": { "name": key.name(), "namespace": key.namespace, "labels": { manager: tenure } },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }],
    })
}

fn subject(subject: &Subject) -> Value {
    match subject {
        Subject::User(name) => json!({ "kind": "User", "apiGroup": RBAC, "name": name }),
        Subject::Group(name) => json!({ "kind": "Group", "apiGroup": RBAC, "name": name }),
        Subject::ServiceAccount { namespace, name } => {
            json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
        }
    }
}

fn labels() -> [(&'static str, &'static str); 3] {
    [MANAGED_BY, (FEATURE, AttachFeature::Access.name()), (VERSION, env!("CARGO_PKG_VERSION"))]
}

fn object(kind: &str, key: &ShardKey, owner: &RoleOwner) -> Map<String, Value> {
    let labels: Map<String, Value> =
        labels().iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": kind,
        "metadata": {
            "name": key.name(), "namespace": key.namespace, "labels": labels,
            "ownerReferences": [owner_reference(key, owner)],
        },
    });
    match object {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn owner_reference(key: &ShardKey, owner: &RoleOwner) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "ClusterReferenceConsumer",
        "name": key.consumer, "uid": owner.uid,
    })
}

/// Whether an object was written by us: it says so, or its owner does.
pub(super) fn is_ours(object: &Value) -> bool {
    let (manager, tenure) = MANAGED_BY;
    let label = object.pointer("/metadata/labels").and_then(|labels| labels.get(manager));
    let mut owners = each(object, "/metadata/ownerReferences");
    label.is_some_and(|label| label == tenure)
        || owners.any(|owner| {
            text(owner, "/kind") == "ClusterReferenceConsumer"
                && text(owner, "/apiVersion").starts_with(GROUP)
        })
}

/// Whether an object is what was wanted; what others added to its metadata does not matter.
pub(super) fn holds(stored: &Value, wanted: &Value) -> bool {
    let same = |member: &str| stored.get(member) == wanted.get(member);
    let stored_labels = stored.pointer("/metadata/labels");
    let mut labels = labels().into_iter();
    let owner = wanted.pointer("/metadata/ownerReferences/0/uid");
    let mut owners = each(stored, "/metadata/ownerReferences");
    same("rules")
        && same("roleRef")
        && same("subjects")
        && labels.all(|(name, value)| {
            stored_labels.and_then(|all| all.get(name)).is_some_and(|label| label == value)
        })
        && owners.any(|one| one.get("uid") == owner)
}

/// The names in a Role of before.
pub(super) fn targets(role: &Value) -> Vec<RoleTarget> {
    let of_rule = |rule: &Value| -> Vec<RoleTarget> {
        let one = |member: &str| match rule.get(member).and_then(Value::as_array).map(Vec::as_slice)
        {
            Some([Value::String(only)]) => Some(only.clone()),
            _ => None,
        };
        let (Some(group), Some(plural)) = (one("apiGroups"), one("resources")) else {
            return Vec::new();
        };
        let names = each(rule, "/resourceNames").filter_map(Value::as_str);
        let names = names.filter(|name| *name != IMPOSSIBLE && !name.is_empty());
        let target = |name: &str| {
            let (group, plural) = (group.clone(), plural.clone());
            RoleTarget { group, plural, name: name.to_owned() }
        };
        names.map(target).collect()
    };
    each(role, "/rules").flat_map(of_rule).collect()
}

fn each<'v>(object: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use super::*;
    use crate::access::plan::RolePlan;

    fn key(shard: usize) -> ShardKey {
        ShardKey { consumer: "edge-0".into(), namespace: "shop".into(), shard }
    }

    fn owner() -> RoleOwner {
        let (namespace, name) = ("edge".to_owned(), "edge".to_owned());
        RoleOwner { uid: "1".into(), subject: Subject::ServiceAccount { namespace, name } }
    }

    #[test]
    fn a22_no_role_ever_has_an_empty_list_of_names() {
        let mut plan = RolePlan::default();
        let kinds = [("", "secrets"), ("", "configmaps"), ("x.io", "things")];
        let target = |at: usize| {
            let (group, plural) = kinds[at % 3];
            let name = format!("n{}", at % 40);
            RoleTarget { group: group.into(), plural: plural.into(), name }
        };
        // Whatever comes and goes in whatever order.
        for at in 0..2_000_usize {
            let target = target(at.wrapping_mul(7919) % 311);
            if at % 3 == 1 {
                plan.remove(&target);
            } else {
                plan.add(target);
            }
            for shard in 0..crate::install::SHARDS {
                let Some(names) = plan.names(shard) else { continue };
                let written = role(&key(shard), &owner(), &rules(names));
                let rules = written["rules"].as_array().unwrap();
                assert!(!rules.is_empty());
                for rule in rules {
                    let names = rule["resourceNames"].as_array().unwrap();
                    assert_eq!(names[0], IMPOSSIBLE);
                    assert!(names.len() > 1 && names.iter().all(|name| name != ""), "{rule}");
                    assert_eq!(rule["verbs"], json!(["get", "list", "watch"]));
                }
            }
        }
    }

    #[test]
    fn a20_a_name_says_which_role_it_is() {
        let object = role(&key(3), &owner(), &json!([]));
        assert_eq!(object["metadata"]["name"], "tenure-ref-edge-0-3");
        assert_eq!(ShardKey::of(&object), Some(key(3)));
        for name in [
            "tenure-ref-edge-4",
            "tenure-ref-edge-00",
            "tenure-ref-edge-",
            "edge-0",
            "tenure-ref-x",
        ] {
            let object = json!({ "metadata": { "name": name, "namespace": "shop" } });
            assert_eq!(ShardKey::of(&object), None, "{name}");
        }
    }

    #[test]
    fn a20_what_is_written_is_read_back_and_holds() {
        let mut plan = RolePlan::default();
        let target = RoleTarget { group: "x.io".into(), plural: "things".into(), name: "a".into() };
        plan.add(target.clone());
        let written = role(&key(0), &owner(), &rules(plan.names(0).unwrap()));
        assert_eq!(targets(&written), [target]);
        let mut stored = written.clone();
        stored["metadata"]["annotations"] = json!({ "a": "b" });
        assert!(holds(&stored, &written) && is_ours(&stored));
        stored["rules"][0]["verbs"] = json!(["*"]);
        assert!(!holds(&stored, &written));
        let bound = binding(&key(0), &owner());
        let mut stored = bound.clone();
        assert!(holds(&stored, &bound));
        stored["metadata"]["labels"] = json!({});
        assert!(!holds(&stored, &bound) && is_ours(&stored), "its owner says so");
        stored["metadata"]["ownerReferences"] = json!([]);
        assert!(!is_ours(&stored));
    }
}
