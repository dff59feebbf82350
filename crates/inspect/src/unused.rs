//! Which ConfigMaps and Secrets nothing mentions, and what holds the others (retention section 13.2). Nothing is touched,
//! and nothing is ever called safe to remove: programs may read what no object mentions.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;

use crate::facts::UnreadableKind;
use crate::usage::{PageUsage, PolicyParameters, UsageSubject};

/// How many users of one subject are named; the rest is counted.
const USERS_MAX: usize = 10;

/// What was found out about one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageState {
    /// Nothing that was read mentions it.
    Unused,
    /// Something may use it, or not everything could be read.
    Unknown,
    /// Something mentions it.
    Used,
}

impl UsageState {
    /// The word for tables.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            UsageState::Unused => "unused",
            UsageState::Unknown => "unknown",
            UsageState::Used => "used",
        }
    }
}

/// Somebody who mentions a subject, or owns it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UsageHolder {
    /// The kind.
    pub kind: String,
    /// The namespace, where it is not the subject's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// One subject and what holds it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// `ConfigMap` or `Secret`.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// What was found out.
    pub verdict: UsageState,
    /// How many entries it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Whether it goes by itself when the last revision that needs it goes.
    pub controllers_as_owners: bool,
    /// Who mentions it for certain; the first few.
    pub users: Vec<UsageHolder>,
    /// How many mention it for certain.
    pub users_total: usize,
    /// Its owners.
    pub owners: Vec<UsageHolder>,
    /// Why it is used or may be, beyond its users.
    pub reasons: Vec<String>,
}

/// The answer to `unused`.
#[derive(Clone, Debug, Serialize)]
pub struct UnusedReport {
    /// Every subject: unused ones first, then those of which nothing is known.
    pub subjects: Vec<Usage>,
    /// How many are unused.
    pub unused: usize,
    /// Of how many nothing is known.
    pub unknown: usize,
    /// How many are used.
    pub used: usize,
    /// The only namespace that was looked at, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// How many objects were looked through.
    pub objects: usize,
    /// What could not be read.
    pub unread: Vec<UnreadableKind>,
    /// When it was read.
    pub now: Timestamp,
}

/// What was looked through, besides the subjects.
pub(crate) struct Inventory {
    pub(crate) namespace: Option<String>,
    pub(crate) seen: Vec<PageUsage>,
    pub(crate) unread: Vec<UnreadableKind>,
    /// Whether a verdict may rest on less than everything.
    pub(crate) partial: bool,
    pub(crate) now: Timestamp,
}

impl UnusedReport {
    /// Gives every subject its verdict.
    pub(crate) fn new(subjects: Vec<UsageSubject>, mut inventory: Inventory) -> UnusedReport {
        let mut policies = PolicyParameters::default();
        for seen in &mut inventory.seen {
            policies.join(std::mem::take(&mut seen.policies));
        }
        let parameters = policies.uses(&subjects);
        let mut alive: HashSet<String> = subjects.iter().map(|one| one.uid.clone()).collect();
        let mut usages: Vec<Usage> = Vec::with_capacity(subjects.len());
        let mut owned = Vec::with_capacity(subjects.len());
        for subject in subjects {
            owned.push(subject.owners.clone());
            usages.push(Usage::begin(subject));
        }
        for used in parameters {
            if let Some(usage) = usages.get_mut(used.subject) {
                usage.take(used);
            }
        }
        let mut objects = 0;
        for seen in inventory.seen {
            objects += seen.objects;
            alive.extend(seen.owners);
            for used in seen.uses {
                if let Some(usage) = usages.get_mut(used.subject) {
                    usage.take(used);
                }
            }
        }
        let unread = inventory.unread;
        for (usage, owners) in usages.iter_mut().zip(owned) {
            let living = owners.iter().filter(|owner| alive.contains(&owner.uid));
            for owner in living {
                let why = format!("owned by {} `{}`, which may read it", owner.kind, owner.name);
                usage.reasons.push(why);
            }
            if !unread.is_empty() && !inventory.partial {
                usage.reasons.push("not everything could be read".to_owned());
            }
            usage.end();
        }
        usages.sort_by(|one, other| {
            let key = |usage: &Usage| {
                (usage.verdict, usage.namespace.clone(), usage.kind, usage.name.clone())
            };
            key(one).cmp(&key(other))
        });
        let count = |verdict| usages.iter().filter(|usage| usage.verdict == verdict).count();
        UnusedReport {
            unused: count(UsageState::Unused),
            unknown: count(UsageState::Unknown),
            used: count(UsageState::Used),
            subjects: usages,
            namespace: inventory.namespace,
            objects,
            unread,
            now: inventory.now,
        }
    }
}

impl Usage {
    fn begin(subject: UsageSubject) -> Usage {
        let mut usage = Usage {
            kind: subject.kind.as_str(),
            verdict: UsageState::Unused,
            entries: subject.entries,
            created: subject.created,
            controllers_as_owners: subject.opted_in,
            users: Vec::new(),
            users_total: 0,
            owners: subject
                .owners
                .into_iter()
                .map(|owner| UsageHolder {
                    kind: owner.kind,
                    namespace: String::new(),
                    name: owner.name,
                })
                .collect(),
            reasons: Vec::new(),
            namespace: subject.namespace,
            name: subject.name,
            uid: subject.uid,
        };
        if let Some((verdict, why)) = subject.known {
            usage.verdict = verdict;
            usage.reasons.push(why);
        }
        usage
    }

    fn take(&mut self, used: crate::usage::Use) {
        let namespace =
            if used.namespace == self.namespace { String::new() } else { used.namespace };
        let user = UsageHolder { kind: used.kind, namespace, name: used.name };
        let Some(how) = used.perhaps else {
            self.verdict = UsageState::Used;
            self.users_total += 1;
            if self.users.len() < USERS_MAX {
                self.users.push(user);
            }
            return;
        };
        if self.reasons.len() < USERS_MAX {
            self.reasons.push(format!("{} `{}` has {how}", user.kind, user.name));
        }
    }

    fn end(&mut self) {
        if self.verdict == UsageState::Unused && !self.reasons.is_empty() {
            self.verdict = UsageState::Unknown;
        }
        self.users.sort();
    }
}
