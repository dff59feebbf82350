//! Why an object is still there, or will not stay: each reason with its causes and its rule.

use jiff::Timestamp;
use serde::Serialize;
use tenure_ownership::{ObjectExplanation, WriteAction};

use crate::facts::{ObjectIdentity, ObservedObject, UnreadableKind};
use crate::finding::{Finding, FindingCode, age, count, stands};
use crate::ownership_analysis::{LifecycleState, OwnerStatus, OwnershipAnalysis};
use crate::release::waits_for;

/// How many objects one reason names; the rest is counted.
const NAMED_MAX: usize = 10;

/// The answer to `why`.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectDiagnosis {
    /// The object.
    pub object: ObjectIdentity,
    /// How it stands.
    #[serde(rename = "standing")]
    pub state: LifecycleState,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// When its deletion was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// The reasons, most telling first.
    pub reasons: Vec<Finding>,
    /// What could not be read.
    pub unread: Vec<UnreadableKind>,
    /// When it was read.
    pub now: Timestamp,
}

impl OwnershipAnalysis {
    /// Why an object is as it is.
    #[must_use]
    pub fn why(&self, found: &ObservedObject) -> ObjectDiagnosis {
        let object = found.named();
        let unread = self.facts().unread_about(&object.namespace);
        let mut reasons = Vec::new();
        if let Some(explained) = self.explain(&object.uid) {
            if found.meta.terminating() {
                self.why_terminating(found, &object, &explained, &mut reasons);
            } else {
                reasons.push(self.fate(&object, &explained));
                self.blocked_owners(&object, &explained, &mut reasons);
            }
            self.ring(&object, &explained, &mut reasons);
        }
        ObjectDiagnosis {
            state: self.lifecycle_state(&object.uid),
            created: found.meta.creation_timestamp,
            deleted: found.meta.deleted_at(),
            object,
            reasons,
            unread,
            now: self.now(),
        }
    }

    fn why_terminating(
        &self,
        found: &ObservedObject,
        object: &ObjectIdentity,
        explained: &ObjectExplanation,
        reasons: &mut Vec<Finding>,
    ) {
        if explained.state.foreground {
            reasons.push(self.why_waiting(object, explained));
        }
        if explained.state.orphan {
            let left = count(explained.dependents.len(), "dependent");
            let what = format!("{object} goes when the collector has let go of {left}");
            reasons.push(Finding::note(FindingCode::Orphaning, object, what).rule("R115"));
        }
        for finalizer in &found.meta.finalizers {
            if finalizer != "foregroundDeletion" && finalizer != "orphan" {
                reasons.push(self.why_held(found, object, finalizer));
            }
        }
        if object.kind == "Namespace" && object.api_version == "v1" {
            self.why_namespace(object, reasons);
        }
        self.why_grace(found, object, reasons);
        let blocking = explained.dependents.iter().filter(|dependent| dependent.block).count();
        if !explained.state.foreground && blocking > 0 {
            let what = format!(
                "{object} does not wait for {} that would block it",
                count(blocking, "dependent")
            );
            reasons.push(
                Finding::note(FindingCode::NotBlocking, object, what)
                    .cause("it was not deleted in the foreground".to_owned())
                    .rule("R100"),
            );
        }
        if reasons.is_empty() {
            let holds = match self.sees_all_about(object) {
                true => "nothing holds it",
                false => "nothing that could be read holds it",
            };
            let what = format!("{object} is about to go: {holds}");
            reasons.push(Finding::note(FindingCode::AboutToGo, object, what).rule("R75"));
        }
    }

    /// Whether nothing that hangs on an object, or lives inside it, can have been missed.
    fn sees_all_about(&self, object: &ObjectIdentity) -> bool {
        let place = match (object.kind.as_str(), object.api_version.as_str()) {
            ("Namespace", "v1") => &object.name,
            _ => &object.namespace,
        };
        self.facts().unread_about(place).iter().all(|unread| unread.was_read_in(place))
    }

    /// A foreground deletion: who blocks it.
    pub(crate) fn why_waiting(
        &self,
        object: &ObjectIdentity,
        explained: &ObjectExplanation,
    ) -> Finding {
        let blockers: Vec<_> =
            explained.dependents.iter().filter(|dependent| dependent.blocks).collect();
        let Some(first) = blockers.first() else {
            let blocks = match self.sees_all_about(object) {
                true => "no dependent blocks it any more",
                false => "no dependent that could be read blocks it any more",
            };
            let what = format!("{object} is about to go: {blocks}");
            return Finding::note(FindingCode::AboutToGo, object, what).rule("R104");
        };
        let what = format!(
            "{object} waits for {} before its foreground deletion can end",
            count(blockers.len(), "dependent")
        );
        let named: Vec<ObjectIdentity> =
            blockers.iter().map(|blocker| self.named(&blocker.key)).collect();
        let first = self.named(&first.key);
        let mut causes: Vec<String> =
            named.iter().take(NAMED_MAX).map(|blocker| self.blocks(blocker)).collect();
        if named.len() > NAMED_MAX {
            causes.push(format!("and {} more", named.len() - NAMED_MAX));
        }
        Finding::warning(FindingCode::Blocked, object, what)
            .causes(causes)
            .hint(format!("go on with `{{program}} why {}`", first.argument()))
            .rule("R104")
            .related(named)
    }

    fn blocks(&self, blocker: &ObjectIdentity) -> String {
        let state = stands(self.lifecycle_state(&blocker.uid));
        let held = self.get(&blocker.uid).map(|found| found.meta.finalizers.as_slice());
        match held.unwrap_or_default() {
            [] => format!("{blocker} blocks it and {state}"),
            finalizers => {
                let list = finalizers.join("`, `");
                format!("{blocker} blocks it and {state}, with finalizers `{list}`")
            }
        }
    }

    /// A finalizer of somebody else: who wrote it last.
    pub(crate) fn why_held(
        &self,
        found: &ObservedObject,
        object: &ObjectIdentity,
        finalizer: &str,
    ) -> Finding {
        let since = found.meta.deleted_at().map(|at| age(at, self.now())).unwrap_or_default();
        let what = format!("{object} has waited {since} for finalizer `{finalizer}`");
        let writer = found.meta.writer_of(finalizer);
        let written = match &writer {
            Some(writer) => {
                let when = writer.time.map(|time| format!(" {} ago", age(time, self.now())));
                format!("last written by `{}`{}", writer.manager, when.unwrap_or_default())
            }
            None => "nobody is recorded as its writer".to_owned(),
        };
        let waits = waits_for(finalizer);
        Finding::warning(FindingCode::Finalizer, object, what)
            .cause(written)
            .causes(waits.map(str::to_owned))
            .hint(format!(
                "see who looks after it with `kubectl get {} -o yaml --show-managed-fields`",
                object.argument()
            ))
            .rule("R100")
    }

    fn why_grace(
        &self,
        found: &ObservedObject,
        object: &ObjectIdentity,
        reasons: &mut Vec<Finding>,
    ) {
        let Some(end) = found.meta.deletion_timestamp else { return };
        if found.meta.deletion_grace_period_seconds.unwrap_or(0) == 0 {
            return;
        }
        if end > self.now() {
            let what = format!("{object} has {} left of its grace period", age(self.now(), end));
            reasons.push(Finding::note(FindingCode::Grace, object, what).rule("R52"));
        } else if found.meta.finalizers.is_empty() {
            let what = format!("{object} outlives its grace period by {}", age(end, self.now()));
            let cause = "nobody has said that it ended; for a pod the kubelet of its node does";
            reasons.push(
                Finding::warning(FindingCode::Grace, object, what)
                    .cause(cause.to_owned())
                    .rule("R76"),
            );
        }
    }

    fn why_namespace(&self, object: &ObjectIdentity, reasons: &mut Vec<Finding>) {
        let inside: Vec<&ObservedObject> = self
            .facts()
            .objects
            .iter()
            .filter(|found| found.meta.namespace == object.name && !found.assumed)
            .filter(|found| found.served.collected())
            .collect();
        if inside.is_empty() {
            return;
        }
        let what = format!("{object} waits for {} inside it", count(inside.len(), "object"));
        let mut sorted: Vec<&ObservedObject> = inside.clone();
        sorted.sort_by_key(|found| (found.meta.finalizers.is_empty(), found.named()));
        let mut causes: Vec<String> = sorted
            .iter()
            .take(NAMED_MAX)
            .map(|found| {
                let state = stands(self.lifecycle_state(&found.meta.uid));
                match found.meta.finalizers.as_slice() {
                    [] => format!("{} {state}", found.named()),
                    list => {
                        format!(
                            "{} {state}, with finalizers `{}`",
                            found.named(),
                            list.join("`, `")
                        )
                    }
                }
            })
            .collect();
        if inside.len() > NAMED_MAX {
            causes.push(format!("and {} more", inside.len() - NAMED_MAX));
        }
        let related: Vec<ObjectIdentity> = sorted.iter().map(|found| found.named()).collect();
        reasons.push(
            Finding::warning(FindingCode::Namespace, object, what)
                .causes(causes)
                .rule("R157")
                .related(related),
        );
    }

    /// Whether a living object will be collected, and why.
    pub(crate) fn fate(&self, object: &ObjectIdentity, explained: &ObjectExplanation) -> Finding {
        let sentences: Vec<String> = explained
            .references
            .iter()
            .map(|referenced| self.sentence(referenced, object))
            .collect();
        let worths: Vec<OwnerStatus> =
            explained.references.iter().map(|referenced| self.worth_of(referenced)).collect();
        let unread = worths.contains(&OwnerStatus::Unread);
        let unresolvable = worths
            .iter()
            .any(|worth| matches!(worth, OwnerStatus::UnknownKind | OwnerStatus::Scope));
        let finding = match self.want(&object.uid).map(|want| (&want.action, want.rule)) {
            Some((WriteAction::Delete(policy), _)) => {
                let what = format!("{object} will be collected: none of its owners holds it");
                let rule = match policy {
                    tenure_ownership::DeletionPropagation::Foreground => "R91",
                    _ => "R92",
                };
                Finding::warning(FindingCode::Collected, object, what)
                    .hint(format!(
                        "see what goes with it: `{{program}} plan delete {}`",
                        object.argument()
                    ))
                    .rule(rule)
            }
            Some((WriteAction::DropReferences(drops), _)) => {
                let what = format!(
                    "{object} is not collected and loses {}",
                    count(drops.len(), "reference")
                );
                Finding::note(FindingCode::LosesReferences, object, what).rule("R90")
            }
            _ if explained.references.is_empty() => {
                let what = format!("{object} is not collected: it has no owners");
                Finding::note(FindingCode::Kept, object, what).rule("R93")
            }
            _ if unresolvable => {
                let what = format!(
                    "{object} is not collected: nothing may be concluded from one of its references"
                );
                let rule = if worths.contains(&OwnerStatus::Scope) { "R16" } else { "R86" };
                Finding::warning(FindingCode::Unresolvable, object, what).rule(rule)
            }
            _ if unread => {
                let what = format!("{object} is not collected as far as can be seen");
                Finding::note(FindingCode::Unread, object, what).rule("R86")
            }
            _ => {
                let what = format!("{object} is not collected: an owner of it lives");
                Finding::note(FindingCode::Kept, object, what).rule("R89")
            }
        };
        finding.causes(sentences)
    }

    /// The owners whose foreground deletion waits for this object.
    fn blocked_owners(
        &self,
        object: &ObjectIdentity,
        explained: &ObjectExplanation,
        reasons: &mut Vec<Finding>,
    ) {
        for referenced in &explained.references {
            if self.worth_of(referenced) != OwnerStatus::Waiting || !referenced.block {
                continue;
            }
            if let Some(key) = &referenced.owner {
                let owner = self.named(key);
                let what = format!("{object} blocks the foreground deletion of {owner}");
                reasons.push(
                    Finding::note(FindingCode::Blocked, object, what).rule("R104").related([owner]),
                );
            }
        }
    }

    fn ring(
        &self,
        object: &ObjectIdentity,
        explained: &ObjectExplanation,
        reasons: &mut Vec<Finding>,
    ) {
        let itself = explained.references.iter().any(|r| *r.reference.uid == *object.uid);
        if itself {
            reasons.push(self.owns_itself(object));
        }
        if let Some((members, waiting)) = self.ring_of(&object.uid) {
            reasons.push(self.ring_finding(object, members, waiting));
        }
    }

    pub(crate) fn owns_itself(&self, object: &ObjectIdentity) -> Finding {
        let what = format!("{object} names itself as its owner");
        Finding::warning(FindingCode::OwnsItself, object, what)
            .cause("such a reference never lets it be collected".to_owned())
            .rule("R101")
    }

    /// The ring an object lies on and whether its members wait for one another.
    fn ring_of(&self, uid: &str) -> Option<(Vec<ObjectIdentity>, bool)> {
        self.engine().problems().into_iter().find_map(|problem| match problem {
            tenure_ownership::OwnershipProblem::Ring { members, waiting }
                if members.iter().any(|member| *member.uid == *uid) =>
            {
                Some((members.iter().map(|member| self.named(member)).collect(), waiting))
            }
            _ => None,
        })
    }

    pub(crate) fn ring_finding(
        &self,
        object: &ObjectIdentity,
        members: Vec<ObjectIdentity>,
        waiting: bool,
    ) -> Finding {
        let list: Vec<String> =
            members.iter().take(NAMED_MAX).map(ObjectIdentity::to_string).collect();
        let what = format!("{} own one another", list.join(", "));
        let (cause, rule) = if waiting {
            ("they wait for one another; the collector of Tenure opens such a ring", "R105")
        } else {
            ("each keeps the next one alive, so none is ever collected on its own", "R101")
        };
        Finding::warning(FindingCode::Ring, object, what)
            .cause(cause.to_owned())
            .hint(format!("see them with `{{program}} tree {}`", object.argument()))
            .rule(rule)
            .related(members)
    }
}
