//! A whole cluster, or one namespace of it: every reference, ring and deletion that somebody should
//! look at.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use tenure_ownership::{Dangling, ObjectId, OwnerIdentity, OwnershipProblem, Unresolvable};

use crate::facts::{ObjectIdentity, UnreadableKind};
use crate::finding::{Finding, FindingCode, Severity};
use crate::ownership_analysis::OwnershipAnalysis;
use crate::reader::listable;

/// The answer to `audit`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// What was found.
    pub findings: Vec<Finding>,
    /// How many objects were looked at.
    pub objects: usize,
    /// How many kinds were looked at.
    pub kinds: usize,
    /// The only namespace that was looked at, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What could not be read.
    pub unread: Vec<UnreadableKind>,
    /// When it was read.
    pub now: Timestamp,
}

impl AuditReport {
    /// Whether everything that it is about could be read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let place = self.namespace.as_deref().unwrap_or_default();
        self.unread.iter().all(|unread| unread.was_read_in(place))
    }

    /// Whether there was anything to look at; without, not even a part is known. Some kinds may be
    /// listed by everybody and are empty.
    #[must_use]
    pub fn saw_anything(&self) -> bool {
        self.objects > 0 || self.is_whole()
    }
}

/// What an audit leaves out.
#[derive(Clone, Debug, Default)]
pub struct AuditOptions {
    /// Only findings about objects in this namespace.
    pub namespace: Option<String>,
    /// Deletions younger than this are left to those who look after them.
    pub stuck_after: std::time::Duration,
}

impl OwnershipAnalysis {
    /// Everything that somebody should look at.
    #[must_use]
    pub fn audit(&self, scope: &AuditOptions) -> AuditReport {
        let mut findings: Vec<Finding> = Vec::new();
        for problem in self.engine().problems() {
            self.finding(&problem, scope, &mut findings);
        }
        for found in &self.facts().objects {
            let itself = |owner: &crate::OwnerReference| owner.uid == found.meta.uid;
            if !found.assumed && found.meta.owner_references.iter().any(itself) {
                findings.push(self.owns_itself(&found.named()));
            }
        }
        if let Some(namespace) = &scope.namespace {
            findings.retain(|finding| {
                finding.object.namespace == *namespace
                    || finding.related.iter().any(|other| other.namespace == *namespace)
            });
        }
        findings.retain(|finding| finding.level == Severity::Warning);
        findings.sort_by(|one, other| {
            (one.code, &one.object, &one.what).cmp(&(other.code, &other.object, &other.what))
        });
        let wholly = self.unread().iter().filter(|unread| unread.within.is_none());
        let wholly: std::collections::BTreeSet<&str> =
            wholly.map(|unread| unread.kind.as_str()).collect();
        let read =
            |served: &&crate::DiscoveredResource| !wholly.contains(served.qualified().as_str());
        let of_scope = |found: &&crate::ObservedObject| {
            !found.assumed
                && scope.namespace.as_ref().is_none_or(|only| found.meta.namespace == *only)
        };
        AuditReport {
            findings,
            objects: self.facts().objects.iter().filter(of_scope).count(),
            kinds: listable(&self.facts().kinds).filter(read).count(),
            namespace: scope.namespace.clone(),
            unread: self.facts().unread_about(scope.namespace.as_deref().unwrap_or_default()),
            now: self.now(),
        }
    }

    fn finding(
        &self,
        problem: &OwnershipProblem,
        scope: &AuditOptions,
        findings: &mut Vec<Finding>,
    ) {
        match problem {
            OwnershipProblem::Dangling { dependent, reference, why } => {
                findings.push(self.dangling(dependent, reference, *why));
            }
            OwnershipProblem::Unresolvable { dependent, reference, why } => {
                findings.push(self.unresolvable(dependent, reference, *why));
            }
            OwnershipProblem::Ring { members, waiting } => {
                let members: Vec<ObjectIdentity> =
                    members.iter().map(|key| self.named(key)).collect();
                if let Some(first) = members.first().cloned() {
                    findings.push(self.ring_finding(&first, members, *waiting));
                }
            }
            OwnershipProblem::Blocked { owner, .. } => {
                if let (true, Some(explained)) =
                    (self.stuck(&owner.uid, scope), self.explain(&owner.uid))
                {
                    findings.push(self.why_waiting(&self.named(owner), &explained));
                }
            }
            OwnershipProblem::Held { object } => {
                let Some(found) = self.get(&object.uid) else { return };
                if !self.stuck(&object.uid, scope) {
                    return;
                }
                let named = found.named();
                let held = crate::release::of_others(found);
                findings.extend(held.map(|finalizer| self.why_held(found, &named, finalizer)));
            }
        }
    }

    fn stuck(&self, uid: &str, scope: &AuditOptions) -> bool {
        let begun = self.get(uid).and_then(|found| found.meta.deleted_at());
        let least = SignedDuration::try_from(scope.stuck_after).unwrap_or(SignedDuration::MAX);
        begun.is_some_and(|begun| self.now().duration_since(begun) >= least)
    }

    fn dangling(&self, dependent: &ObjectId, reference: &OwnerIdentity, why: Dangling) -> Finding {
        let object = self.named(dependent);
        let explained = self.explain(&dependent.uid);
        let fate = explained.as_ref().map(|explained| self.fate(&object, explained));
        let collected = fate.as_ref().is_some_and(|fate| fate.code == FindingCode::Collected);
        let others = explained.as_ref().map_or(0, |explained| explained.references.len());
        let what = match (collected, others) {
            (true, 1) => format!("{object} will be collected: its only owner is absent"),
            (true, _) => format!("{object} will be collected: none of its owners holds it"),
            (false, _) => format!("{object} has an owner reference that means nobody"),
        };
        let code = match why {
            Dangling::OtherNamespace => FindingCode::CrossNamespace,
            _ => FindingCode::Dangling,
        };
        let rule = match why {
            Dangling::OtherNamespace => "R13",
            Dangling::Absent | Dangling::OtherKind | Dangling::OtherName => "R84",
        };
        Finding::warning(code, &object, what)
            .causes(self.cause_of(dependent, reference))
            .hint(self.both_sides(&object))
            .rule(rule)
    }

    fn unresolvable(
        &self,
        dependent: &ObjectId,
        reference: &OwnerIdentity,
        why: Unresolvable,
    ) -> Finding {
        let object = self.named(dependent);
        let what = format!("{object} is never collected through one of its references");
        let (code, rule) = match why {
            Unresolvable::UnknownKind => (FindingCode::Unresolvable, "R86"),
            Unresolvable::Scope => (FindingCode::CrossNamespace, "R16"),
        };
        Finding::warning(code, &object, what)
            .causes(self.cause_of(dependent, reference))
            .hint(self.both_sides(&object))
            .rule(rule)
    }

    fn cause_of(&self, dependent: &ObjectId, reference: &OwnerIdentity) -> Option<String> {
        let explained = self.explain(&dependent.uid)?;
        let referenced = explained.references.iter().find(|r| r.reference == *reference)?;
        Some(self.sentence(referenced, &self.named(dependent)))
    }

    fn both_sides(&self, object: &ObjectIdentity) -> String {
        format!("show both sides with `{{program}} tree --up {}`", object.argument())
    }
}
