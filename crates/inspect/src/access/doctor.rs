//! What is worth knowing about who may read what: rights that make references pointless, consumers that can give
//! themselves access, grants nobody uses, and what each strategy leaves to the writers of origins.

use serde::Serialize;
use serde_json::Value;
use tenure_reference::{Consumer, ReferenceFinding, Resource, Subject};
use tenure_references::RefIndex;

use super::{AccessSubject, ClusterAccess, NamespacedName, identity_of};
use crate::facts::UnreadableKind;
use crate::finding::Severity;

/// The verbs with which an origin can be made to point elsewhere.
const WRITES: [&str; 3] = ["create", "update", "patch"];

/// More unused grants than this are told together.
const UNUSED_MAX: usize = 10;

/// Something worth knowing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessFinding {
    /// How much it matters.
    pub level: Severity,
    /// What it is, for programs.
    pub code: &'static str,
    /// What is so.
    pub what: String,
    /// Why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// What can be done; `{program}` stands for the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The rule of spec/referential-authorization.md.
    pub rule: &'static str,
}

impl AccessFinding {
    fn new(level: Severity, code: &'static str, rule: &'static str, what: String) -> AccessFinding {
        AccessFinding { level, code, what, causes: Vec::new(), hint: None, rule }
    }

    fn cause(mut self, cause: impl Into<String>) -> AccessFinding {
        self.causes.push(cause.into());
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> AccessFinding {
        self.hint = Some(hint.into());
        self
    }

    /// Puts the name that the program was called by into its hint.
    #[must_use]
    pub fn called_by(mut self, program: &str) -> AccessFinding {
        self.hint = self.hint.map(|hint| hint.replace("{program}", program));
        self
    }
}

/// Everything worth knowing, warnings first.
#[derive(Clone, Debug, Serialize)]
pub struct Doctor {
    /// What was found.
    pub advice: Vec<AccessFinding>,
    /// How many strategies there are.
    pub strategies: usize,
    /// How many consumers there are.
    pub consumers: usize,
    /// How many grants there are.
    pub grants: usize,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadableKind>,
}

impl Doctor {
    /// Whether somebody should look.
    #[must_use]
    pub fn warns(&self) -> bool {
        self.advice.iter().any(|advice| advice.level == Severity::Warning)
    }
}

/// Grants that cover no reference.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnusedGrants {
    /// Which.
    pub grants: Vec<NamespacedName>,
    /// Of how many.
    pub looked_at: usize,
    /// What could not be read, so that a grant may be missing, or only seem to cover nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadableKind>,
}

impl ClusterAccess {
    /// What is worth knowing (R64, R65).
    #[must_use]
    pub fn doctor(&self) -> Doctor {
        let may_write = |subject: &Subject, origin: &Resource| {
            let who = identity_of(subject);
            self.roles.may_somewhere(&who, &WRITES, &origin.group, &origin.resource)
        };
        let consumers = self.consumers();
        let mut advice: Vec<AccessFinding> = self.broken();
        advice.extend(consumers.iter().flat_map(|consumer| self.report_broad_roles(consumer)));
        let is_unused =
            |finding: &ReferenceFinding| matches!(finding, ReferenceFinding::UnusedGrant { .. });
        let mut findings = self.engine().findings(&may_write);
        let unused = findings.iter().filter(|it| is_unused(it)).count();
        if unused > UNUSED_MAX {
            findings.retain(|finding| !is_unused(finding));
            let what = format!("{unused} ReferenceGrants cover no reference");
            let one = AccessFinding::new(Severity::Note, "unused-grant", "R133", what);
            advice.push(one.hint("see which with `{program} access unused`"));
        }
        advice.extend(findings.into_iter().map(|finding| describe_finding(finding, &consumers)));
        advice.extend(self.unmatched(&consumers));
        advice.sort_by_key(|advice| advice.level);
        let stats = self.engine().stats();
        Doctor {
            advice,
            strategies: stats.strategies,
            consumers: stats.consumers,
            grants: stats.grants,
            unread: self.unread(),
        }
    }

    /// Grants without a reference to cover, of one namespace or of all (R133).
    #[must_use]
    pub fn unused_grants(&self, namespace: Option<&str>) -> UnusedGrants {
        let is_meant = |it: &str| namespace.is_none_or(|namespace| namespace == it);
        let all = self.snapshot.grants();
        let unused = self.engine().unused_grants().filter(|grant| is_meant(&grant.namespace));
        let unused = unused.map(|grant| NamespacedName {
            namespace: grant.namespace.clone(),
            name: grant.name.clone(),
        });
        UnusedGrants {
            grants: unused.collect(),
            looked_at: all.iter().filter(|grant| is_meant(&grant.namespace)).count(),
            unread: self.unread(),
        }
    }

    /// Stored objects that cannot be understood, and so do nothing (R83).
    fn broken(&self) -> Vec<AccessFinding> {
        let mut index = RefIndex::new();
        let objects = self.snapshot.objects.iter();
        let wrong = objects.filter_map(|object| Some((object, index.put(object).err()?)));
        let wrong = wrong.map(|(object, why)| {
            let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
            let what = format!("{} `{}` is of no use", text("/kind"), text("/metadata/name"));
            AccessFinding::new(Severity::Warning, "unusable", "R83", what).cause(why.to_string())
        });
        wrong.collect()
    }

    /// A subject that reads everything by roles gains nothing by references (R42).
    fn report_broad_roles(&self, consumer: &Consumer) -> Vec<AccessFinding> {
        let who = identity_of(&consumer.subject);
        let mut targets: Vec<&Resource> =
            consumer.references.iter().map(|entry| &entry.target).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut advice = Vec::new();
        for target in targets {
            let broad = self.roles.broad(&who, &target.group, &target.resource);
            let bindings: Vec<String> = broad
                .iter()
                .map(|(given, verbs)| format!("{} gives {}", given.binding, verbs.join(", ")))
                .collect();
            if bindings.is_empty() {
                continue;
            }
            let subject = AccessSubject::from(&consumer.subject);
            let what = format!(
                "{subject} reads all {target} by roles, so that consumer `{}` adds nothing",
                consumer.name
            );
            let mut one = AccessFinding::new(Severity::Warning, "broad-access", "R42", what);
            one.causes = bindings;
            advice.push(if consumer.subject.is_group() {
                one
            } else {
                let user = consumer.subject.request_name();
                one.hint(format!("see what would break without with `{{program}} access narrow --subject {user} --resource {target}`"))
            });
        }
        advice
    }

    /// Objects whose counterpart is missing, or which match nothing (R38–R40).
    fn unmatched(&self, consumers: &[Consumer]) -> Vec<AccessFinding> {
        let mut advice = Vec::new();
        let mut note = |what: String, reported: Vec<tenure_reference::FieldWarning>| {
            if !reported.is_empty() {
                let mut one = AccessFinding::new(Severity::Note, "unmatched", "R40", what);
                one.causes.extend(reported.into_iter().map(|it| it.text));
                advice.push(one);
            }
        };
        for consumer in consumers {
            let what = format!("consumer `{}` does not do all it says", consumer.name);
            note(what, self.engine().advise_consumer(consumer));
        }
        for strategy in self.snapshot.strategies() {
            let what = format!("strategy `{}` is not used as it could be", strategy.name);
            note(what, self.engine().advise_strategy(&strategy));
        }
        advice
    }
}

fn describe_finding(finding: ReferenceFinding, consumers: &[Consumer]) -> AccessFinding {
    match finding {
        ReferenceFinding::AuthorsChoose { strategy, origin, targets } => {
            let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let what = format!(
                "whoever writes {origin} in a namespace chooses which {} there its consumers read",
                targets.join(", ")
            );
            let cause = format!("strategy `{strategy}` finds them");
            let hint = format!(
                "see who that is with `{{program}} access who-can create {origin} -n NAMESPACE`"
            );
            AccessFinding::new(Severity::Note, "authors-choose", "R64", what)
                .cause(cause)
                .hint(hint)
        }
        ReferenceFinding::SelfReferencing { consumer, origin } => {
            let subject = consumers.iter().find(|it| it.name == consumer);
            let subject =
                subject.map(|it| AccessSubject::from(&it.subject).to_string()).unwrap_or_default();
            let what =
                format!("{subject} can give itself access: it writes {origin}, which it serves");
            AccessFinding::new(Severity::Warning, "self-referencing-consumer", "R65", what)
                .cause(format!("consumer `{consumer}` names it, and a role lets it create, update or patch {origin}"))
                .hint("let it write the `status` subresource only")
        }
        ReferenceFinding::UnusedGrant { namespace, name } => {
            let what = format!("ReferenceGrant `{namespace}/{name}` covers no reference");
            AccessFinding::new(Severity::Note, "unused-grant", "R133", what)
                .hint(format!("if nothing is to come, `kubectl delete referencegrants.reference.authorization.k8s.io {name} -n {namespace}`"))
        }
    }
}
