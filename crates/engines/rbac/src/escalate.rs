//! Nobody hands on what they do not hold: the check before a role or a binding is written (R158).
//!
//! The words of the refusal are made here because the rules it lists are; its code is the server's.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;

use serde_json::{Map, Value};

use crate::GROUP;
use crate::decide::Rbac;
use crate::role::{Binding, Role, RoleRef, Who};
use crate::rule::{Asked, Quoted, Rule, has_or_star, reaches};

/// Of wanted rules, at most this many single permissions are looked at; the rest counts as missing.
///
/// Lists multiply, so a small body could otherwise keep the server busy for hours.
const PARTS_MAX: usize = 1 << 16;

/// What garbage collection and the server itself change; none of it says who may do what.
const UPKEEP: [&str; 5] =
    ["ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"];

type Object = Map<String, Value>;

/// A role or binding that somebody writes.
#[derive(Clone, Copy, Debug)]
pub struct RoleWrite<'a> {
    /// What stands; `None` when it is created.
    pub old: Option<&'a Object>,
    /// What it becomes.
    pub new: &'a Object,
    /// The name in the path of the request, empty for a POST.
    pub path_name: &'a str,
}

/// Whether a change leaves what an object says as it was: all but what lets it be collected.
///
/// Labels are something that is said: aggregated roles gather by them.
#[must_use]
pub fn is_upkeep(old: &Object, new: &Object) -> bool {
    let told = |object: &Object| {
        let mut told = object.clone();
        if let Some(metadata) = told.get_mut("metadata").and_then(Value::as_object_mut) {
            UPKEEP.iter().for_each(|member| drop(metadata.remove(*member)));
        }
        told
    };
    told(old) == told(new)
}

/// Why a role or binding may not be written by somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Escalation {
    /// These rules are not held.
    Missing(Vec<Rule>),
    /// A role that gathers rules can come to hold anything, so writing one needs everything.
    Gathers,
    /// The role to be bound is absent, so nobody can be said to hold it.
    RoleAbsent,
}

impl Escalation {
    /// The sentence for the refusal.
    #[must_use]
    pub fn message(&self, who: &Who<'_>) -> String {
        match self {
            Self::Missing(rules) => {
                let lines: BTreeSet<String> =
                    compact(rules).iter().map(ToString::to_string).collect();
                let lines: Vec<String> = lines.into_iter().collect();
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
            Self::RoleAbsent => "the role to be bound does not exist".to_owned(),
        }
    }
}

impl Rbac {
    /// Whether somebody may write the role or binding. Every change is judged by what the object then hands out, also
    /// one that leaves its rules as they are: with a label more, an aggregated role may gather them.
    ///
    /// `may` asks the whole chain of authorizers on behalf of `who`.
    pub fn check_write(
        &self,
        who: &Who<'_>,
        write: &RoleWrite<'_>,
        may: impl FnOnce(&Asked<'_>) -> bool,
    ) -> Result<(), Escalation> {
        if write.old.is_some_and(|old| is_upkeep(old, write.new)) {
            return Ok(());
        }
        match write.new.get("kind").and_then(Value::as_str) {
            Some("Role" | "ClusterRole") => {
                let role = Role::from_object(write.new);
                let before = write.old.map(Role::from_object);
                let gathered = before.is_some_and(|before| before.is_aggregated());
                self.check_role(who, &role, write.path_name, gathered, may)
            }
            // A binding to nothing that is known hands out nothing; validation has its word on it.
            _ => match Binding::from_object(write.new) {
                Some(binding) => self.check_binding(who, &binding, may),
                None => Ok(()),
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
        who: &Who<'_>,
        role: &Role,
        asked_name: &str,
        gathered: bool,
        may: impl FnOnce(&Asked<'_>) -> bool,
    ) -> Result<(), Escalation> {
        let resource = if role.namespace.is_empty() { "clusterroles" } else { "roles" };
        if who.is_master() || may(&question("escalate", resource, &role.namespace, asked_name)) {
            return Ok(());
        }
        let held = self.rules_for(who, &role.namespace);
        refuse_missing(missing(&held, &role.rules))?;
        if (role.is_aggregated() || gathered) && !missing(&held, &everything()).is_empty() {
            return Err(Escalation::Gathers);
        }
        Ok(())
    }

    /// Whether somebody may create the binding, or change it into this.
    ///
    /// `may` asks the whole chain of authorizers on behalf of `who`.
    pub fn check_binding(
        &self,
        who: &Who<'_>,
        binding: &Binding,
        may: impl FnOnce(&Asked<'_>) -> bool,
    ) -> Result<(), Escalation> {
        let (resource, home) = match &binding.role {
            RoleRef::ClusterRole(_) => ("clusterroles", ""),
            RoleRef::Role(_) => ("roles", binding.namespace.as_str()),
        };
        let name = binding.role.name();
        if who.is_master() || may(&question("bind", resource, &binding.namespace, name)) {
            return Ok(());
        }
        let placeless = resource == "roles" && home.is_empty();
        let role = if placeless { None } else { self.role(home, name) };
        let role = role.ok_or(Escalation::RoleAbsent)?;
        refuse_missing(missing(&self.rules_for(who, &binding.namespace), &role.rules))
    }
}

fn question<'a>(verb: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Asked<'a> {
    Asked::Resource { verb, group: GROUP, resource, subresource: "", namespace, name }
}

fn refuse_missing(missing: Vec<Rule>) -> Result<(), Escalation> {
    if missing.is_empty() { Ok(()) } else { Err(Escalation::Missing(missing)) }
}

fn everything() -> [Rule; 2] {
    let star = || vec!["*".to_owned()];
    [
        Rule { verbs: star(), api_groups: star(), resources: star(), ..Rule::default() },
        Rule { verbs: star(), non_resource_urls: star(), ..Rule::default() },
    ]
}

/// The single permissions of the wanted rules that no held rule covers.
///
/// Rules are only compared, never resolved: `*` is covered by `*` alone, and `pods` named one by
/// one do not add up to all pods.
pub fn missing<H: Borrow<Rule>>(held: &[H], wanted: &[Rule]) -> Vec<Rule> {
    let mut found = Vec::new();
    let mut parts_left = PARTS_MAX;
    for rule in wanted {
        // One held rule often covers the whole; this also spares taking large rules apart.
        if held.iter().any(|held| covers_whole(held.borrow(), rule)) {
            continue;
        }
        let Some(left) = parts_left.checked_sub(parts_count(rule)) else {
            found.push(rule.clone());
            continue;
        };
        parts_left = left;
        for_each_part(rule, |part| {
            if !held.iter().any(|held| part.is_covered_by(held.borrow())) {
                found.push(part.to_rule());
            }
        });
    }
    found
}

/// One verb on one resource or path.
enum Part<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
    Path { verb: &'a str, path: &'a str },
}

impl Part<'_> {
    fn is_covered_by(&self, held: &Rule) -> bool {
        match *self {
            Self::Resource { verb, group, resource, name } => {
                has_or_star(&held.verbs, verb)
                    && has_or_star(&held.api_groups, group)
                    && covers_resource(&held.resources, resource)
                    && covers_name(&held.resource_names, name)
            }
            Self::Path { verb, path } => {
                has_or_star(&held.verbs, verb)
                    && held.resource_names.is_empty()
                    && held.non_resource_urls.iter().any(|held| reaches(held, path))
            }
        }
    }

    fn to_rule(&self) -> Rule {
        let one = |text: &str| vec![text.to_owned()];
        match *self {
            Self::Resource { verb, group, resource, name } => Rule {
                verbs: one(verb),
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                non_resource_urls: Vec::new(),
            },
            Self::Path { verb, path } => {
                Rule { verbs: one(verb), non_resource_urls: one(path), ..Rule::default() }
            }
        }
    }
}

fn covers_resource(held: &[String], wanted: &str) -> bool {
    if has_or_star(held, wanted) {
        return true;
    }
    let Some((_, below)) = wanted.split_once('/') else { return false };
    held.iter().any(|held| held.strip_prefix("*/") == Some(below))
}

/// A list of names covers only names on it; no list covers everything.
fn covers_name(held: &[String], wanted: Option<&str>) -> bool {
    held.is_empty() || wanted.is_some_and(|wanted| held.iter().any(|held| held == wanted))
}

/// Whether one held rule covers every part of a wanted rule.
fn covers_whole(held: &Rule, wanted: &Rule) -> bool {
    let verbs = wanted.verbs.iter().all(|verb| has_or_star(&held.verbs, verb));
    let names = if wanted.resource_names.is_empty() {
        held.resource_names.is_empty()
    } else {
        wanted.resource_names.iter().all(|name| covers_name(&held.resource_names, Some(name)))
    };
    let resources = names
        && wanted.api_groups.iter().all(|group| has_or_star(&held.api_groups, group))
        && wanted.resources.iter().all(|resource| covers_resource(&held.resources, resource));
    let paths = held.resource_names.is_empty()
        && wanted
            .non_resource_urls
            .iter()
            .all(|path| held.non_resource_urls.iter().any(|held| reaches(held, path)));
    verbs
        && (resources || wanted.resources.is_empty())
        && (paths || wanted.non_resource_urls.is_empty())
}

fn parts_count(rule: &Rule) -> usize {
    let resources = rule
        .api_groups
        .len()
        .saturating_mul(rule.resources.len())
        .saturating_mul(rule.resource_names.len().max(1));
    resources.saturating_add(rule.non_resource_urls.len()).saturating_mul(rule.verbs.len())
}

fn for_each_part<'a>(rule: &'a Rule, mut visit: impl FnMut(&Part<'a>)) {
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let mut part = Part::Resource { verb, group, resource, name: None };
                if rule.resource_names.is_empty() {
                    visit(&part);
                }
                for name in &rule.resource_names {
                    part = Part::Resource { verb, group, resource, name: Some(name) };
                    visit(&part);
                }
            }
        }
    }
    for path in &rule.non_resource_urls {
        for verb in &rule.verbs {
            visit(&Part::Path { verb, path });
        }
    }
}

/// Rules that differ only in their verbs become one, so that a refusal stays short.
fn compact(rules: &[Rule]) -> Vec<Rule> {
    let mut merged: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for rule in rules {
        let mut key = rule.clone();
        let verbs = core::mem::take(&mut key.verbs);
        merged.entry(key).or_default().extend(verbs);
    }
    merged.into_iter().map(|(rule, verbs)| Rule { verbs, ..rule }).collect()
}
