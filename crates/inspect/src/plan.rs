//! What a deletion would do: what goes, what stays and why, in which order, before anything is
//! touched. The engine decides; namespaces and definitions of kinds, whose content goes before
//! them, are added here.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;
use tenure_ownership::{
    Circumstances, DeletionPropagation, Done, OwnerIdentity, OwnershipRule, Release,
};

use crate::facts::{ObjectIdentity, ObservedObject, UnreadableKind};
use crate::finding::{Finding, FindingCode};
use crate::ownership_analysis::{OwnerStatus, OwnershipAnalysis};
use crate::release::{lets_go, of_others};

/// What happens to one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "action")]
pub enum Happens {
    /// It is gone.
    Removed,
    /// It is Terminating and stays for now.
    Terminating {
        /// How it is deleted.
        cascade: &'static str,
    },
    /// It loses references.
    LosesReferences {
        /// The owners that it loses.
        owners: Vec<String>,
    },
    /// References of it no longer block.
    Unblocked {
        /// The owners that no longer wait for it.
        owners: Vec<String>,
    },
    /// It loses a finalizer and stays.
    LosesFinalizer {
        /// The finalizer.
        finalizer: &'static str,
    },
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanStep {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectIdentity,
    /// What happens to it.
    #[serde(flatten)]
    pub happens: Happens,
    /// The rule behind it; none for what you ask for yourself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The rule in words.
    pub why: &'static str,
}

/// An object that is still there in the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stays {
    /// The object.
    #[serde(flatten)]
    pub object: ObjectIdentity,
    /// Whether it is Terminating.
    pub terminating: bool,
    /// Why it stays.
    pub why: String,
}

/// The answer to `plan delete`.
#[derive(Clone, Debug, Serialize)]
pub struct DeletionPlan {
    /// What would be deleted.
    pub object: ObjectIdentity,
    /// How: `background`, `foreground` or `orphan`.
    pub cascade: &'static str,
    /// What would happen, in order.
    pub steps: Vec<PlanStep>,
    /// What would be gone in the end, in the order of going.
    pub gone: Vec<ObjectIdentity>,
    /// What depends on what goes and would still be there.
    pub stays: Vec<Stays>,
    /// What else is good to know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Finding>,
    /// What could not be read.
    pub unread: Vec<UnreadableKind>,
    /// When it was read.
    pub now: Timestamp,
}

/// The word of `--cascade`.
fn word(policy: DeletionPropagation) -> &'static str {
    match policy {
        DeletionPropagation::Background => "background",
        DeletionPropagation::Foreground => "foreground",
        DeletionPropagation::Orphan => "orphan",
    }
}

/// A rule in words.
fn because(rule: OwnershipRule) -> &'static str {
    match rule {
        OwnershipRule::Client => "you ask for it",
        OwnershipRule::R90 => "an owner of it lives; the others no longer count",
        OwnershipRule::R91 => "an owner waits and something depends on it",
        OwnershipRule::R92 => "no owner of it stays",
        OwnershipRule::R104 => "nothing blocks it any more",
        OwnershipRule::R105 => "it lies on a ring, which is opened here",
        OwnershipRule::R114 => "its owner leaves it behind",
        OwnershipRule::R115 => "nobody refers to it any more",
    }
}

impl OwnershipAnalysis {
    /// What would happen if an object were deleted so and nobody else wrote anything.
    #[must_use]
    pub fn plan(&self, found: &ObservedObject, policy: DeletionPropagation) -> DeletionPlan {
        let object = found.named();
        let mut content = self.content(found);
        content.retain(|inside| inside.served.can("delete"));
        let (steps, left) = match self.refused(&object) {
            true => (Vec::new(), 0),
            false => self.stages(&object, policy, &content),
        };
        let about = self.connected(&object.uid, &content);
        let mut planned: Vec<PlanStep> = Vec::new();
        if !content.is_empty() && !self.refused(&object) {
            planned.push(PlanStep {
                object: object.clone(),
                happens: Happens::Terminating { cascade: word(policy) },
                rule: None,
                why: because(OwnershipRule::Client),
            });
        }
        for step in steps.iter().filter(|step| about.contains(&*step.key.uid)) {
            let before = planned.iter().any(|known| known.object.uid == *step.key.uid);
            let mut next = self.step(step);
            next.why = self.because(step, &object.uid, before);
            planned.push(next);
        }
        let gone: Vec<ObjectIdentity> = planned
            .iter()
            .filter(|step| step.happens == Happens::Removed)
            .map(|step| step.object.clone())
            .collect();
        let stays = self.stays(&object, &planned, &gone, left);
        let notes = self.notes(found, &object, &gone);
        let unread = self.facts().unread_about(&object.namespace);
        DeletionPlan {
            object,
            cascade: word(policy),
            steps: planned,
            gone,
            stays,
            notes,
            unread,
            now: self.now(),
        }
    }

    /// The steps of a deletion whose content goes first, pods before everything else (R154), and how
    /// much of the content stays and so holds the rest.
    fn stages(
        &self,
        object: &ObjectIdentity,
        policy: DeletionPropagation,
        content: &[&ObservedObject],
    ) -> (Vec<tenure_ownership::DeletionStep>, usize) {
        let (pods, others): (Vec<&ObservedObject>, Vec<&ObservedObject>) =
            content.iter().copied().partition(|inside| inside.served.kind == "Pod");
        let mut deletes: Vec<(&str, DeletionPropagation)> = Vec::new();
        let graceful = |uid: &str| self.is_graceful(uid);
        let releases: Vec<Release<'_>> =
            self.releases().iter().map(|(uid, users)| Release { uid, users }).collect();
        let circumstances = Circumstances { graceful: &graceful, releases: &releases };
        for stage in [pods, others] {
            let uids = stage.iter().map(|inside| inside.meta.uid.as_str());
            deletes.extend(uids.map(|uid| (uid, DeletionPropagation::Background)));
            let steps = self.engine().plan_knowing(&deletes, circumstances);
            let gone = |uid: &str| {
                steps.iter().any(|step| *step.key.uid == *uid && step.done == Done::Removed)
            };
            if stage.iter().any(|inside| !gone(&inside.meta.uid)) {
                let left = content.iter().filter(|inside| !gone(&inside.meta.uid)).count();
                return (steps, left);
            }
        }
        deletes.push((&object.uid, policy));
        (self.engine().plan_knowing(&deletes, circumstances), 0)
    }

    /// Whether the server refuses to delete it (R151).
    fn refused(&self, object: &ObjectIdentity) -> bool {
        object.kind == "Namespace"
            && object.api_version == "v1"
            && matches!(&*object.name, "default" | "kube-system" | "kube-public")
    }

    /// Why a step is taken; `before` when something was done to the object already.
    fn because(
        &self,
        step: &tenure_ownership::DeletionStep,
        target: &str,
        before: bool,
    ) -> &'static str {
        let under_way = self.want(&step.key.uid).is_some() && *step.key.uid != *target;
        if let (Some(found), true) = (self.get(&step.key.uid), step.done == Done::Removed)
            && let Some(why) = of_others(found).find_map(lets_go)
        {
            return why;
        }
        match (step.rule, step.done == Done::Removed && before) {
            (OwnershipRule::Client, true) if *step.key.uid == *target => {
                "nothing is left that holds it"
            }
            (OwnershipRule::Client, true) => "its grace period is over",
            (OwnershipRule::Client, false) if *step.key.uid != *target => {
                "it lives inside what you delete"
            }
            (rule, _) if under_way && !before && rule != OwnershipRule::Client => {
                "the collector is about to do so anyway"
            }
            (rule, _) => because(rule),
        }
    }

    fn step(&self, step: &tenure_ownership::DeletionStep) -> PlanStep {
        let owners = |references: &[OwnerIdentity]| {
            references.iter().map(|r| format!("{}/{}", r.kind, r.name)).collect()
        };
        let happens = match &step.done {
            Done::Removed => Happens::Removed,
            Done::Terminating(policy) => Happens::Terminating { cascade: word(*policy) },
            Done::DroppedReferences(lost) => Happens::LosesReferences { owners: owners(lost) },
            Done::Unblocked(open) => Happens::Unblocked { owners: owners(open) },
            Done::DroppedFinalizer(finalizer) => {
                Happens::LosesFinalizer { finalizer: finalizer.text() }
            }
        };
        let rule = (step.rule != OwnershipRule::Client).then(|| step.rule.to_string());
        PlanStep { object: self.named(&step.key), happens, rule, why: because(step.rule) }
    }

    /// What goes before an object because it lives inside it: of a namespace everything in it, of
    /// the definition of a kind all its objects.
    pub(crate) fn content(&self, found: &ObservedObject) -> Vec<&ObservedObject> {
        let (served, meta) = (&found.served, &found.meta);
        let inside: Box<dyn Fn(&&ObservedObject) -> bool> =
            match (served.group.as_str(), served.kind.as_str()) {
                ("", "Namespace") => Box::new(|other| other.meta.namespace == meta.name),
                ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                    Box::new(|other| other.served.qualified() == meta.name)
                }
                _ => return Vec::new(),
            };
        let all = self.facts().objects.iter();
        all.filter(|other| !other.assumed).filter(inside).collect()
    }

    /// Everything that a deletion of an object may touch.
    pub(crate) fn concerned(&self, found: &ObservedObject) -> Vec<&ObservedObject> {
        let about = self.connected(&found.meta.uid, &self.content(found));
        about.iter().filter_map(|uid| self.get(uid)).filter(|found| !found.assumed).collect()
    }

    /// Everything that is tied to an object through owners and dependents.
    fn connected(&self, uid: &str, content: &[&ObservedObject]) -> BTreeSet<String> {
        let mut left: Vec<String> = content.iter().map(|inside| inside.meta.uid.clone()).collect();
        left.push(uid.to_owned());
        let mut found = BTreeSet::new();
        while let Some(uid) = left.pop() {
            let Some(explained) = self.explain(&uid).filter(|_| found.insert(uid)) else {
                continue;
            };
            left.extend(explained.references.iter().map(|r| r.reference.uid.to_string()));
            left.extend(explained.dependents.iter().map(|d| d.key.uid.to_string()));
        }
        found
    }

    /// What is still there in the end: touched, or dependent on something that goes.
    fn stays(
        &self,
        object: &ObjectIdentity,
        steps: &[PlanStep],
        gone: &[ObjectIdentity],
        left: usize,
    ) -> Vec<Stays> {
        let gone: BTreeSet<&str> = gone.iter().map(|named| named.uid.as_str()).collect();
        let mut last: BTreeMap<&str, Vec<&Happens>> = BTreeMap::new();
        let mut concerned: BTreeSet<ObjectIdentity> = BTreeSet::new();
        for step in steps {
            last.entry(&step.object.uid).or_default().push(&step.happens);
            concerned.insert(step.object.clone());
            let explained = self.explain(&step.object.uid);
            for dependent in explained.map(|e| e.dependents).unwrap_or_default() {
                concerned.insert(self.named(&dependent.key));
            }
        }
        let staying = concerned.into_iter().filter(|named| !gone.contains(named.uid.as_str()));
        staying
            .map(|named| {
                let happened = last.get(named.uid.as_str()).map(Vec::as_slice).unwrap_or_default();
                let deleted =
                    happened.iter().any(|happens| matches!(happens, Happens::Terminating { .. }));
                let before = self.get(&named.uid).is_some_and(|found| found.meta.terminating());
                let why = if named == *object && left > 0 {
                    format!("{left} of the objects inside stay")
                } else {
                    self.why_stays(&named, deleted || before, happened, &gone)
                };
                Stays { terminating: deleted || before, why, object: named }
            })
            .collect()
    }

    fn why_stays(
        &self,
        named: &ObjectIdentity,
        terminating: bool,
        happened: &[&Happens],
        gone: &BTreeSet<&str>,
    ) -> String {
        let found = self.get(&named.uid);
        let foreign: Vec<&str> = found.map(|it| of_others(it).collect()).unwrap_or_default();
        if terminating {
            let users = self.releases().get(&named.uid).into_iter().flatten();
            let users: Vec<String> = users
                .filter(|user| !gone.contains(user.as_str()))
                .filter_map(|user| self.get(user).map(|found| found.named().to_string()))
                .collect();
            return match foreign.as_slice() {
                [finalizer, ..] if !users.is_empty() => {
                    format!("`{finalizer}` holds it while it is used by {}", users.join(", "))
                }
                [] => "dependents that stay block it".to_owned(),
                list => format!("finalizers of others hold it: `{}`", list.join("`, `")),
            };
        }
        let explained = self.explain(&named.uid);
        let references = explained.map(|explained| explained.references).unwrap_or_default();
        let lost: BTreeSet<&String> = happened
            .iter()
            .filter_map(|happens| match happens {
                Happens::LosesReferences { owners } => Some(owners),
                _ => None,
            })
            .flatten()
            .collect();
        let holding = references.iter().find(|referenced| {
            let text = format!("{}/{}", referenced.reference.kind, referenced.reference.name);
            self.worth_of(referenced).ties()
                && !gone.contains(&*referenced.reference.uid)
                && !lost.contains(&text)
        });
        let doubtful = references.iter().any(|referenced| {
            matches!(self.worth_of(referenced), OwnerStatus::UnknownKind | OwnerStatus::Scope)
        });
        match holding.and_then(|referenced| referenced.owner.as_ref()) {
            _ if doubtful => "nothing may be concluded from one of its references".to_owned(),
            Some(key) => format!("{} still owns it", self.named(key)),
            None if lost.is_empty() => "the collector does not look after it".to_owned(),
            None => "it is left behind without an owner".to_owned(),
        }
    }

    fn notes(
        &self,
        found: &ObservedObject,
        object: &ObjectIdentity,
        gone: &[ObjectIdentity],
    ) -> Vec<Finding> {
        if self.refused(object) {
            let what = format!("{object} cannot be deleted: the server refuses");
            return vec![Finding::warning(FindingCode::Refused, object, what).rule("R151")];
        }
        let controller =
            found.meta.owner_references.iter().find(|owner| owner.controller == Some(true));
        let Some(owner) = controller else { return Vec::new() };
        let lives = self.get(&owner.uid).is_some_and(|found| !found.meta.terminating());
        if !lives || gone.iter().any(|named| named.uid == owner.uid) {
            return Vec::new();
        }
        let what = format!(
            "{object} may be replaced: {} `{}`, which manages it, lives",
            owner.kind, owner.name
        );
        vec![Finding::note(FindingCode::Replaced, object, what)]
    }
}
