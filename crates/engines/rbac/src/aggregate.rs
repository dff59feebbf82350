//! ClusterRoles that gather their rules from others (R157).
//!
//! The result is data; the server writes it in the transaction that made it necessary.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tenure_core::selector::LabelSelector;

use crate::decide::Rbac;
use crate::role::Role;
use crate::rule::PolicyRule;

/// A change to the ClusterRoles that is about to happen.
#[derive(Clone, Copy, Debug)]
pub enum RoleChange<'a> {
    /// None; every role is as the index knows it.
    None,
    /// This ClusterRole is written.
    Put(&'a Role),
    /// The ClusterRole of this name is deleted.
    Gone(&'a str),
}

impl Rbac {
    /// What aggregated ClusterRoles must hold after a change, where that differs from what they hold.
    ///
    /// A role that is being put is listed when the rules it comes with are not the gathered ones.
    #[must_use]
    pub fn aggregates(&self, change: RoleChange<'_>) -> Vec<(String, Vec<PolicyRule>)> {
        let mut roles: BTreeMap<&str, &Role> =
            self.cluster_roles().map(|role| (role.name.as_str(), role)).collect();
        match change {
            RoleChange::None => {}
            RoleChange::Put(role) => {
                roles.insert(&role.name, role);
            }
            RoleChange::Gone(name) => {
                roles.remove(name);
            }
        }
        let gathered = aggregate(roles.values().copied());
        let differs = |name: &str, rules: &Vec<PolicyRule>| {
            roles.get(name).is_some_and(|role| role.rules != *rules)
        };
        gathered
            .into_iter()
            .filter(|(name, rules)| differs(name, rules))
            .map(|(name, rules)| (name.to_string(), rules))
            .collect()
    }
}

/// The rules of every aggregated role among these ClusterRoles.
///
/// Rules come by selector, then by the name of the role they are taken from, each rule once.
/// Rules that an aggregated role has of its own count for nothing, so roles that gather each other
/// keep no rule alive that no plain role has.
pub fn aggregate<'a>(
    roles: impl IntoIterator<Item = &'a Role>,
) -> BTreeMap<&'a str, Vec<PolicyRule>> {
    let roles: BTreeMap<&str, &Role> =
        roles.into_iter().map(|role| (role.name.as_str(), role)).collect();
    let mut gathered: BTreeMap<&str, Vec<PolicyRule>> = roles
        .values()
        .filter(|role| role.gathers.is_some())
        .map(|role| (role.name.as_str(), Vec::new()))
        .collect();
    // A rule travels one role a round at least, so as many rounds as roles bring it everywhere.
    for _ in 0..=gathered.len() {
        let mut settled = true;
        for role in roles.values().filter(|role| role.gathers.is_some()) {
            let rules = gather(role, &roles, &gathered);
            if gathered.get(role.name.as_str()) != Some(&rules) {
                gathered.insert(&role.name, rules);
                settled = false;
            }
        }
        if settled {
            break;
        }
    }
    gathered
}

fn gather(
    role: &Role,
    roles: &BTreeMap<&str, &Role>,
    gathered: &BTreeMap<&str, Vec<PolicyRule>>,
) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    let mut seen: BTreeSet<&PolicyRule> = BTreeSet::new();
    for selector in role.gathers.iter().flatten() {
        for source in roles.values().filter(|source| source.name != role.name) {
            if !selects(selector, source) {
                continue;
            }
            let offered = gathered.get(source.name.as_str()).unwrap_or(&source.rules);
            for rule in offered {
                if seen.insert(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}

fn selects(selector: &LabelSelector, role: &Role) -> bool {
    selector.matches(|key| role.labels.get(key).map(String::as_str))
}
