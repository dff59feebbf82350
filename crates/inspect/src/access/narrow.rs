//! What would break if broad access went, and which objects would take its place (R135).
//!
//! ```text
//!   bindings ──► which of them give broad access
//!   references, as strategies in force and bundled ones find them ──► what is still reached
//!                                                                 ├─► objects that are missing for it
//!   recorded requests ──► kept, lost, or broken                   ┘
//! ```

mod proposal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tenure_reference::{Resource, Strategy};
use tenure_references::Identity;

use super::roles::READS;
use super::{
    AccessRequest, AccessSubject, BindingName, ClusterAccess, ObjectName, RecordedRequest, Records,
    Roles, Via,
};
use crate::facts::UnreadableKind;

/// How many programs are named at one read.
const AGENTS_MAX: usize = 3;

/// What to find out.
pub struct NarrowQuestion<'a> {
    /// Whose access is to go.
    pub who: &'a Identity,
    /// To which type.
    pub resource: &'a Resource,
    /// Only origins of these classes; all without any.
    pub classes: &'a [String],
    /// Strategies that could be applied, each as it is read and as it is written.
    pub bundled: &'a [(Strategy, Value)],
    /// What was asked for; without, references alone are looked at.
    pub records: Option<&'a Records>,
    /// Whether the server shows a consumer its part of a collection that it may not read whole (R155).
    pub filtered_lists: FilteredLists,
}

/// Whether the server shows a consumer its part of a collection, instead of refusing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FilteredLists {
    /// It does.
    On,
    /// It does not.
    Off,
    /// Nobody knows: taken for off.
    Unknown,
}

impl From<Option<bool>> for FilteredLists {
    fn from(reported: Option<bool>) -> FilteredLists {
        match reported {
            Some(true) => FilteredLists::On,
            Some(false) => FilteredLists::Off,
            None => FilteredLists::Unknown,
        }
    }
}

/// A binding that gives broad access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Broad {
    /// The binding.
    pub binding: BindingName,
    /// The role, with its kind.
    pub role: String,
    /// How the access may be used.
    pub verbs: Vec<&'static str>,
    /// Whether the role gives more than this: then a rule should go out of the role, not the binding.
    pub gives_more: bool,
    /// Others who have it through the same binding.
    pub others: Vec<AccessSubject>,
    /// What would be lost if this binding alone went, as things are.
    pub loses: Vec<String>,
}

/// What becomes of something that is read, or could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NarrowOutcome {
    /// It stays, as things are.
    Kept,
    /// It stays once the objects are applied.
    KeptWithObjects,
    /// Nothing would allow it.
    Lost,
    /// It reads a whole collection, which the server refuses.
    Breaks,
}

/// Something that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRead {
    /// What becomes of it.
    pub outcome: NarrowOutcome,
    /// Whether it stays but shows less: of a whole collection just what is referenced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
    /// How it was read.
    pub verb: String,
    /// What.
    pub object: ObjectName,
    /// How often.
    pub times: usize,
    /// By which programs.
    pub user_agents: Vec<String>,
    /// Why it stays, or the nearest miss, or the remedy.
    pub why: String,
}

/// Something that a served origin points at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Reach {
    /// Whether it is reached as things are, or with the objects.
    pub outcome: NarrowOutcome,
    /// By way of what.
    #[serde(flatten)]
    pub via: Via,
}

/// What the records cover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Where they come from.
    pub source: String,
    /// The first request.
    pub from: Option<Timestamp>,
    /// The last one.
    pub to: Option<Timestamp>,
    /// How many requests of the subject there are, of whatever type the source tells.
    pub requests: usize,
    /// Whether the subject began anew within it: everything that it reads at a start is there.
    pub restart_seen: bool,
    /// How many requests are missing because there was no room for them.
    pub dropped: u64,
}

impl Window {
    /// Whether everything that is read has been seen: a start, and nothing that was dropped.
    fn is_whole(&self) -> bool {
        self.restart_seen && self.dropped == 0
    }
}

/// Whether broad access can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NarrowVerdict {
    /// It can.
    Safe,
    /// Something that was read would be refused.
    WouldBreak,
    /// Nothing speaks against it, and too little was recorded to say so.
    NotShown,
}

/// What would break if broad access went.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Narrow {
    /// Whose access.
    pub user: String,
    /// In which groups.
    pub groups: Vec<String>,
    /// To which type.
    pub resource: String,
    /// The bindings that give it.
    pub bindings: Vec<Broad>,
    /// Whether the server shows a consumer its part of a collection.
    pub filtered_lists: FilteredLists,
    /// What the records cover; none without records.
    pub window: Option<Window>,
    /// What was read.
    pub reads: Vec<RecordedRead>,
    /// What served origins point at.
    pub references: Vec<Reach>,
    /// What to know before acting on this.
    pub notes: Vec<String>,
    /// The objects that are missing to reach all that is referenced.
    pub objects: Vec<Value>,
    /// Whether the access can go as things are.
    pub verdict: NarrowVerdict,
    /// Whether it can go once the objects are applied.
    pub verdict_with_objects: NarrowVerdict,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadableKind>,
}

/// Why a whole collection cannot be read, and what to do.
const WHOLE: &str = "whole-collection read: read one name at a time, as `ReferencedCache` of the crate \
    tenure-references does with one watch for each object that is referenced, or have the server show just those \
    (feature ReferenceFilteredLists)";

/// Why a whole collection can be read all the same.
const FILTERED: &str = "whole-collection read: the server shows just what is referenced, since it has the feature \
    ReferenceFilteredLists on";

impl ClusterAccess {
    /// What would break if the broad access of somebody went.
    #[must_use]
    pub fn narrow(&self, question: &NarrowQuestion<'_>) -> Narrow {
        let NarrowQuestion { who, resource, .. } = *question;
        let broad = self.roles.broad(who, &resource.group, &resource.resource);
        let names: Vec<&BindingName> = broad.iter().map(|(given, _)| &given.binding).collect();
        let rest = self.roles.without(&names);
        let proposal = self.proposal(question);
        let mut after = self.snapshot.clone();
        after.objects.extend(proposal.objects.iter().cloned());
        let after = ClusterAccess::new(after, rest.clone(), Arc::clone(&self.expressions));
        let distinct = question.records.map(|records| distinct(records, resource));
        let distinct = distinct.unwrap_or_default();
        let reads: Vec<RecordedRead> = distinct
            .iter()
            .map(|(key, seen)| self.read_of(key, seen, question, &rest, &after))
            .collect();
        let window = question.records.map(window);
        let roles_known = !self.roles.is_empty();
        let judge = |broken: fn(NarrowOutcome) -> bool| {
            if roles_known && broad.is_empty() {
                NarrowVerdict::Safe
            } else if reads.iter().any(|read| broken(read.outcome)) {
                NarrowVerdict::WouldBreak
            } else if window.as_ref().is_some_and(Window::is_whole) {
                NarrowVerdict::Safe
            } else {
                NarrowVerdict::NotShown
            }
        };
        let bindings = broad.iter().map(|(given, verbs)| Broad {
            binding: given.binding.clone(),
            role: given.role.clone(),
            verbs: verbs.clone(),
            gives_more: given.gives_more(&resource.group, &resource.resource),
            others: others(&given.subjects, who),
            loses: self.loses(&distinct, who, &given.binding),
        });
        Narrow {
            user: who.user.clone(),
            groups: who.groups.clone(),
            resource: resource.to_string(),
            bindings: bindings.collect(),
            filtered_lists: question.filtered_lists,
            verdict: judge(|outcome| outcome != NarrowOutcome::Kept),
            verdict_with_objects: judge(|outcome| outcome >= NarrowOutcome::Lost),
            window,
            reads,
            references: proposal.references,
            notes: self.notes(question, broad.len(), proposal.notes),
            objects: proposal.objects,
            unread: self.unread(),
        }
    }

    fn notes(&self, question: &NarrowQuestion<'_>, broad: usize, more: Vec<String>) -> Vec<String> {
        let NarrowQuestion { who, resource, records, .. } = question;
        let mut notes = Vec::new();
        if self.roles.is_empty() {
            notes.push(
                "roles and bindings could not be read: what gives the access is not known"
                    .to_owned(),
            );
        } else if broad == 0 {
            notes.push(format!("no binding gives {} broad access to {resource}", who.user));
            if !self.roles.names(who) && !self.consumers().iter().any(|it| who.is(&it.subject)) {
                notes.push(format!(
                    "no binding and no consumer names {} at all: see whether the name is right; a service account is \
                     written system:serviceaccount:NAMESPACE:NAME",
                    who.user
                ));
            }
        }
        if who.groups.iter().any(|group| group == "system:masters") {
            notes
                .push("members of system:masters may do everything, whatever roles say".to_owned());
        }
        let whole = records
            .is_some_and(|records| distinct(records, resource).keys().any(ReadKey::is_whole));
        if whole && question.filtered_lists == FilteredLists::Unknown {
            notes.push(
                "whether the server shows consumers their part of whole collections is not known, and taken for \
                 no: if it has the feature ReferenceFilteredLists on, say --filtered-lists"
                    .to_owned(),
            );
        }
        match records {
            _ if broad == 0 && !self.roles.is_empty() => {}
            None => notes.push(
                "nothing was recorded: judged by references alone, so what else is read is not known".to_owned(),
            ),
            Some(records) if records.requests.is_empty() => {
                notes.push(format!("{} has no request of {}", records.source, who.user));
            }
            Some(records) if !records.requests.iter().any(|request| request.fresh) => notes.push(
                "no restart was recorded: what is read at a start is not known".to_owned(),
            ),
            Some(records) if records.dropped > 0 => notes.push(format!(
                "{} had no room for {} requests: what they read is not known",
                records.source, records.dropped
            )),
            Some(_) => {}
        }
        notes.extend(more);
        notes
    }

    /// What becomes of a request once all broad bindings are gone.
    fn read_of(
        &self,
        key: &ReadKey,
        seen: &RequestCounts,
        narrow: &NarrowQuestion<'_>,
        rest: &Roles,
        after: &ClusterAccess,
    ) -> RecordedRead {
        let NarrowQuestion { who, resource, .. } = *narrow;
        let question = key.question(who);
        let by_roles = rest.giving(who, &question.rbac_attributes());
        let now = self.explain(&question);
        let then = after.explain(&question);
        let filtered = key.is_whole() && narrow.filtered_lists == FilteredLists::On;
        let (outcome, why) = match by_roles.first() {
            Some(given) => (NarrowOutcome::Kept, format!("{} still gives it", given.binding)),
            None if now.allowed => (NarrowOutcome::Kept, now.message),
            None if then.allowed => (NarrowOutcome::KeptWithObjects, then.message),
            None if filtered && self.consumes(who, resource) => {
                (NarrowOutcome::Kept, FILTERED.to_owned())
            }
            None if filtered && after.consumes(who, resource) => {
                (NarrowOutcome::KeptWithObjects, FILTERED.to_owned())
            }
            None if key.is_whole() => (NarrowOutcome::Breaks, WHOLE.to_owned()),
            None => (NarrowOutcome::Lost, then.message),
        };
        RecordedRead {
            outcome,
            filtered: why == FILTERED,
            verb: key.verb.clone(),
            object: key.object.clone(),
            times: seen.times,
            user_agents: seen.agents.iter().take(AGENTS_MAX).cloned().collect(),
            why,
        }
    }

    /// Whether somebody is a consumer of references to a type.
    fn consumes(&self, who: &Identity, target: &Resource) -> bool {
        let mine = self.consumers().into_iter().filter(|consumer| who.is(&consumer.subject));
        mine.flat_map(|consumer| consumer.references).any(|entry| entry.target == *target)
    }

    /// What would be lost if one binding alone went.
    fn loses(
        &self,
        all: &BTreeMap<ReadKey, RequestCounts>,
        who: &Identity,
        gone: &BindingName,
    ) -> Vec<String> {
        let rest = self.roles.without(&[gone]);
        let lost = all.keys().filter(|key| {
            let question = key.question(who);
            rest.giving(who, &question.rbac_attributes()).is_empty()
                && !self.explain(&question).allowed
        });
        lost.map(|key| format!("{} {}", key.verb, key.object.place())).collect()
    }
}

/// One kind of read: the same again is the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReadKey {
    verb: String,
    object: ObjectName,
    subresource: String,
}

impl ReadKey {
    fn is_whole(&self) -> bool {
        self.object.name.is_empty() && READS.contains(&self.verb.as_str())
    }

    fn question(&self, who: &Identity) -> AccessRequest {
        AccessRequest {
            who: who.clone(),
            verb: self.verb.clone(),
            object: self.object.clone(),
            subresource: self.subresource.clone(),
        }
    }
}

/// How often, and by which programs.
#[derive(Clone, Debug, Default)]
struct RequestCounts {
    times: usize,
    agents: BTreeSet<String>,
}

fn distinct(records: &Records, resource: &Resource) -> BTreeMap<ReadKey, RequestCounts> {
    let mut all: BTreeMap<ReadKey, RequestCounts> = BTreeMap::new();
    let of_type = |request: &&RecordedRequest| {
        request.group == resource.group && request.resource == resource.resource
    };
    for request in records.requests.iter().filter(of_type) {
        let key = ReadKey {
            verb: request.verb.clone(),
            object: ObjectName::new(resource, &request.namespace, &request.name),
            subresource: request.subresource.clone(),
        };
        let seen = all.entry(key).or_default();
        seen.times = seen.times.saturating_add(request.times);
        if !request.agent.is_empty() {
            seen.agents.insert(request.agent.clone());
        }
    }
    all
}

fn window(records: &Records) -> Window {
    let times = records.requests.iter().map(|request| request.times);
    Window {
        source: records.source.clone(),
        from: records.since.or(records.requests.iter().filter_map(|request| request.at).min()),
        to: records.requests.iter().filter_map(|request| request.last).max(),
        requests: times.fold(0, usize::saturating_add),
        restart_seen: records.requests.iter().any(|request| request.fresh),
        dropped: records.dropped,
    }
}

/// Everybody whom a binding names besides the one asked about.
fn others(subjects: &[AccessSubject], who: &Identity) -> Vec<AccessSubject> {
    let is_it = |subject: &&AccessSubject| match subject.kind {
        "ServiceAccount" => {
            who.user == format!("system:serviceaccount:{}:{}", subject.namespace, subject.name)
        }
        "User" => who.user == subject.name,
        _ => false,
    };
    subjects.iter().filter(|subject| !is_it(subject)).cloned().collect()
}
