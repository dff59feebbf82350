//! Nobody hands on what they do not hold: the check before a role or a binding is written (R158).
//!
//! The words of the refusal are made here because the rules it lists are; its code is the server's.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use crate::GROUP;
use crate::cover::{Cover, cover};
use crate::decide::{Rbac, RoleGrant};
use crate::role::{Requester, Role, RoleBinding, RoleRef};
use crate::rule::{PolicyRule, Quoted, RequestAttributes};

/// What garbage collection and the server itself change; none of it says who may do what.
const UPKEEP: [&str; 5] =
    ["ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"];

/// So many of the rules that are not held are told; a refusal need not be longer than what is refused.
const LINES_MAX: usize = 200;

type Object = Map<String, Value>;

/// A role or binding that somebody writes.
#[derive(Clone, Copy, Debug)]
pub struct RoleWrite<'a> {
    /// What stands; `None` when it is created.
    pub old: Option<&'a Object>,
    /// What it becomes.
    pub new: &'a Object,
    /// Whether its writer sent the uid and the time of creation that stand; a manifest has neither.
    pub restated: bool,
    /// The name in the path of the request, empty for a POST.
    pub path_name: &'a str,
}

/// Whether a change leaves what an object says as it was: all but what lets it be collected.
///
/// Labels are something that is said: aggregated roles gather by them.
#[must_use]
pub fn is_upkeep(old: &Object, new: &Object) -> bool {
    let reported = |object: &Object| {
        let mut reported = object.clone();
        if let Some(metadata) = reported.get_mut("metadata").and_then(Value::as_object_mut) {
            UPKEEP.iter().for_each(|member| drop(metadata.remove(*member)));
        }
        reported
    };
    reported(old) == reported(new)
}

/// Why a role or binding may not be written by somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Escalation {
    /// These rules are not held.
    Missing(Vec<PolicyRule>),
    /// A role that gathers rules can come to hold anything, so writing one needs everything.
    Gathers,
    /// The role to be bound is absent, so nobody can be said to hold it.
    RoleAbsent {
        /// Its name.
        name: String,
    },
    /// The role to be bound has no name, or none that a role can have.
    RoleNameless,
    /// A Role is to be bound in the whole cluster, where there are none.
    RoleNowhere,
}

impl Escalation {
    /// The sentence for the refusal.
    #[must_use]
    pub fn message(&self, who: &Requester<'_>) -> String {
        match self {
            Self::Missing(rules) => {
                let lines: BTreeSet<String> =
                    compact(rules).iter().map(ToString::to_string).collect();
                let more = lines.len().saturating_sub(LINES_MAX);
                let mut lines: Vec<String> = lines.into_iter().take(LINES_MAX).collect();
                if more > 0 {
                    lines.push(format!("and {more} more"));
                }
                format!(
                    "user {:?} (groups={}) is attempting to grant RBAC permissions not currently \
                     held:\n{}",
                    who.user,
                    Quoted(who.groups),
                    lines.join("\n")
                )
            }
            Self::Gathers => {
                "only somebody who may do everything can write an aggregationRule".to_owned()
            }
            Self::RoleAbsent { .. } => "the role to be bound does not exist".to_owned(),
            Self::RoleNameless => "the role to be bound needs a name".to_owned(),
            Self::RoleNowhere => "a Role can only be bound in its namespace".to_owned(),
        }
    }
}

/// What a decision relied on: roles, and bindings that hand them out to the writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relied<'a> {
    /// The role that is bound, by namespace and name.
    pub bound: Option<(&'a str, &'a str)>,
    /// By namespace, which is empty for a ClusterRole, and name.
    pub roles: BTreeSet<(&'a str, &'a str)>,
    /// By namespace, which is empty for a ClusterRoleBinding, and name.
    pub bindings: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Relied<'a> {
    /// Adds that somebody holds a role.
    pub fn add(&mut self, granted: &RoleGrant<'a>) {
        self.bindings.insert((granted.namespace, granted.binding));
        self.roles.insert((&granted.role.namespace, &granted.role.name));
    }
}

impl Rbac {
    /// Whether somebody may write the role or binding, and what of roles and bindings says so; what `may` says is
    /// not among it. Every change is judged by what the object then hands out, also one that leaves its rules as they
    /// are: with a label more, an aggregated role may gather them.
    ///
    /// `may` asks the whole chain of authorizers on behalf of `who`.
    pub fn check_write(
        &self,
        who: &Requester<'_>,
        write: &RoleWrite<'_>,
        may: impl FnOnce(&RequestAttributes<'_>) -> bool,
    ) -> Result<Relied<'_>, Escalation> {
        if write.restated && write.old.is_some_and(|old| is_upkeep(old, write.new)) {
            return Ok(Relied::default());
        }
        match write.new.get("kind").and_then(Value::as_str) {
            Some("Role" | "ClusterRole") => {
                let role = Role::from_object(write.new);
                let before = write.old.map(Role::from_object);
                let gathered = before.is_some_and(|before| before.is_aggregated());
                self.check_role(who, &role, write.path_name, gathered, may)
            }
            // A binding to nothing that is known hands out nothing; validation has its word on it.
            _ => match RoleBinding::from_object(write.new) {
                Some(binding) => self.check_binding(who, &binding, may),
                None => Ok(Relied::default()),
            },
        }
    }

    /// Whether somebody may create the role, or change it into this.
    ///
    /// `asked_name` is the name in the request's path, empty for a POST.
    /// `gathered` says whether the role had an aggregation rule before.
    /// `may` asks the whole chain of authorizers on behalf of `who`.
    pub fn check_role(
        &self,
        who: &Requester<'_>,
        role: &Role,
        asked_name: &str,
        gathered: bool,
        may: impl FnOnce(&RequestAttributes<'_>) -> bool,
    ) -> Result<Relied<'_>, Escalation> {
        let resource = if role.namespace.is_empty() { "clusterroles" } else { "roles" };
        if who.is_master() || may(&question("escalate", resource, &role.namespace, asked_name)) {
            return Ok(Relied::default());
        }
        let mut relied = self.must_hold(who, &role.namespace, &role.rules)?;
        if role.is_aggregated() || gathered {
            let all = self.must_hold(who, &role.namespace, &everything());
            let all = all.map_err(|_| Escalation::Gathers)?;
            relied.roles.extend(all.roles);
            relied.bindings.extend(all.bindings);
        }
        Ok(relied)
    }

    /// Whether somebody may create the binding, or change it into this.
    ///
    /// `may` asks the whole chain of authorizers on behalf of `who`.
    pub fn check_binding(
        &self,
        who: &Requester<'_>,
        binding: &RoleBinding,
        may: impl FnOnce(&RequestAttributes<'_>) -> bool,
    ) -> Result<Relied<'_>, Escalation> {
        let (resource, home) = match &binding.role {
            RoleRef::ClusterRole(_) => ("clusterroles", ""),
            RoleRef::Role(_) => ("roles", binding.namespace.as_str()),
        };
        let name = binding.role.name();
        if who.is_master() || may(&question("bind", resource, &binding.namespace, name)) {
            return Ok(Relied::default());
        }
        if resource == "roles" && home.is_empty() {
            return Err(Escalation::RoleNowhere);
        }
        if matches!(name, "" | "." | "..") || name.contains(['/', '%']) {
            return Err(Escalation::RoleNameless);
        }
        let absent = || Escalation::RoleAbsent { name: name.to_owned() };
        let role = self.role(home, name).ok_or_else(absent)?;
        let mut relied = self.must_hold(who, &binding.namespace, &role.rules)?;
        relied.bound = Some((&role.namespace, &role.name));
        Ok(relied)
    }

    /// Passes if somebody holds all of the rules in a namespace.
    fn must_hold(
        &self,
        who: &Requester<'_>,
        namespace: &str,
        wanted: &[PolicyRule],
    ) -> Result<Relied<'_>, Escalation> {
        let roles = self.roles_for(who, namespace);
        let held: Vec<(&PolicyRule, &RoleGrant<'_>)> = roles
            .iter()
            .flat_map(|granted| granted.role.rules.iter().map(move |rule| (rule, granted)))
            .collect();
        let rules: Vec<&PolicyRule> = held.iter().map(|(rule, _)| *rule).collect();
        let Cover { missing, used } = cover(&rules, wanted);
        if !missing.is_empty() {
            return Err(Escalation::Missing(missing));
        }
        let mut relied = Relied::default();
        for (_, granted) in used.into_iter().filter_map(|number| held.get(number)) {
            relied.add(granted);
        }
        Ok(relied)
    }
}

fn question<'a>(
    verb: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> RequestAttributes<'a> {
    RequestAttributes::Resource { verb, group: GROUP, resource, subresource: "", namespace, name }
}

fn everything() -> [PolicyRule; 2] {
    let star = || vec!["*".to_owned()];
    [
        PolicyRule {
            verbs: star(),
            api_groups: star(),
            resources: star(),
            ..PolicyRule::default()
        },
        PolicyRule { verbs: star(), non_resource_urls: star(), ..PolicyRule::default() },
    ]
}

/// Rules that differ only in their verbs become one, so that a refusal stays short.
fn compact(rules: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut merged: BTreeMap<PolicyRule, Vec<String>> = BTreeMap::new();
    for rule in rules {
        let mut key = rule.clone();
        let verbs = core::mem::take(&mut key.verbs);
        merged.entry(key).or_default().extend(verbs);
    }
    merged.into_iter().map(|(rule, verbs)| PolicyRule { verbs, ..rule }).collect()
}
