//! Something worth telling: one sentence, its causes, a hint that can be run, the rule behind it.
//!
//! The sentences of `why` and `audit` about references are here, so that both say the same.

use jiff::Timestamp;
use serde::Serialize;
use tenure_ownership::{OwnerIdentity, Referenced};

use crate::facts::ObjectIdentity;
use crate::ownership_analysis::{LifecycleState, OwnerStatus, OwnershipAnalysis};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Somebody should look.
    Warning,
    /// Good to know.
    Note,
}

/// What it is about, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingCode {
    /// It will be collected.
    Collected,
    /// It stays and loses references.
    LosesReferences,
    /// It is not collected.
    Kept,
    /// A reference names an absent owner.
    Dangling,
    /// A reference crosses namespaces.
    CrossNamespace,
    /// Nothing may be concluded from a reference.
    Unresolvable,
    /// Objects own one another.
    Ring,
    /// An object names itself as its owner.
    OwnsItself,
    /// A foreground deletion waits for dependents.
    Blocked,
    /// An orphaning deletion waits for its dependents to be let go.
    Orphaning,
    /// A deletion waits for a finalizer of somebody else.
    Finalizer,
    /// A grace period runs, or is over without effect.
    Grace,
    /// A blocking reference that holds nobody.
    NotBlocking,
    /// A namespace waits for its content.
    Namespace,
    /// Its deletion is about to end.
    AboutToGo,
    /// The controller of an object that goes may make another.
    Replaced,
    /// A revision keeps it.
    Retained,
    /// The server will not do it.
    Refused,
    /// Something could not be read.
    Unread,
}

/// Something worth telling.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Severity,
    /// What it is about.
    pub code: FindingCode,
    /// Whom it is about.
    pub object: ObjectIdentity,
    /// What is so.
    pub what: String,
    /// Why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// What can be done; begins a command with `{program}` where the program is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The rule of spec/ownership.md, or of the specification it names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// Others it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<ObjectIdentity>,
}

impl Finding {
    pub(crate) fn warning(code: FindingCode, object: &ObjectIdentity, what: String) -> Finding {
        Finding {
            level: Severity::Warning,
            code,
            object: object.clone(),
            what,
            causes: Vec::new(),
            hint: None,
            rule: None,
            related: Vec::new(),
        }
    }

    pub(crate) fn note(code: FindingCode, object: &ObjectIdentity, what: String) -> Finding {
        Finding { level: Severity::Note, ..Finding::warning(code, object, what) }
    }

    pub(crate) fn cause(mut self, cause: String) -> Finding {
        self.causes.push(cause);
        self
    }

    pub(crate) fn causes(mut self, causes: impl IntoIterator<Item = String>) -> Finding {
        self.causes.extend(causes);
        self
    }

    pub(crate) fn hint(mut self, hint: String) -> Finding {
        self.hint = Some(hint);
        self
    }

    pub(crate) fn rule(mut self, rule: &'static str) -> Finding {
        self.rule = Some(rule);
        self
    }

    pub(crate) fn related(mut self, related: impl IntoIterator<Item = ObjectIdentity>) -> Finding {
        self.related.extend(related);
        self
    }

    /// Puts the name that the program was called by into its hint.
    #[must_use]
    pub fn called_by(mut self, program: &str) -> Finding {
        self.hint = self.hint.map(|hint| hint.replace("{program}", program));
        self
    }
}

/// A time as kubectl writes ages: one or two units.
#[must_use]
pub fn age(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.duration_since(from).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How an object stands, in words that follow its name.
pub(crate) fn stands(state: LifecycleState) -> &'static str {
    match state {
        LifecycleState::Alive => "lives",
        LifecycleState::Terminating => "is Terminating",
        LifecycleState::Waiting => "is being deleted in the foreground",
        LifecycleState::Orphaning => "is being deleted and leaves its dependents behind",
        LifecycleState::Absent => "is absent",
        LifecycleState::Unread => "could not be read",
    }
}

/// A number of things.
pub(crate) fn count(number: usize, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

impl OwnershipAnalysis {
    /// The one namespace in which an owner's kind could be read.
    fn read_where(&self, reference: &OwnerIdentity, dependent: &ObjectIdentity) -> Option<String> {
        let served = self.facts().kinds.find(&reference.api_version, &reference.kind)?;
        let unread = self.facts().unread_kind(served)?;
        unread.within.clone().filter(|within| *within == dependent.namespace)
    }

    /// Whether a group and version is served by somebody who does not answer.
    fn is_silent(&self, api_version: &str) -> bool {
        self.unread().iter().any(|unread| unread.kind == api_version)
    }

    /// What one reference of an object is worth, in a sentence.
    pub(crate) fn sentence(&self, referenced: &Referenced, dependent: &ObjectIdentity) -> String {
        let reference = &referenced.reference;
        let who = format!("{} `{}` (uid {})", reference.kind, reference.name, reference.uid);
        let elsewhere = referenced.owner.as_ref().map(|key| self.named(key));
        let real = elsewhere.unwrap_or_else(|| self.referred(reference, &dependent.namespace));
        match self.worth_of(referenced) {
            OwnerStatus::Solid => {
                format!("owner {who} {}", stands(self.lifecycle_state(&reference.uid)))
            }
            OwnerStatus::Waiting => format!("owner {who} is being deleted in the foreground"),
            OwnerStatus::Dangling => match self.read_where(reference, dependent) {
                Some(namespace) => format!(
                    "owner {who} is not in namespace `{namespace}`, and others could not be read"
                ),
                None => format!("owner {who} is absent"),
            },
            OwnerStatus::OtherNamespace => format!(
                "owner {who} lives in namespace `{}`; owner references do not cross namespaces",
                real.namespace
            ),
            OwnerStatus::OtherKind => {
                format!("owner {who} is none: the object with that uid is {real}")
            }
            OwnerStatus::OtherName => {
                format!("owner {who} is none: the object with that uid is named `{}`", real.name)
            }
            OwnerStatus::UnknownKind if self.is_silent(&reference.api_version) => format!(
                "owner {who} cannot be looked up: the server of `{}` does not answer",
                reference.api_version
            ),
            OwnerStatus::UnknownKind => format!(
                "owner {who} cannot be looked up: `{}` serves no kind `{}`",
                reference.api_version, reference.kind
            ),
            OwnerStatus::Scope => format!(
                "owner {who} cannot be looked up: it lives in a namespace, {dependent} in none"
            ),
            OwnerStatus::Unread => {
                format!("owner {who} could not be read; it is taken to be alive")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        let from: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (seconds, text) in
            [(0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172_800, "2d"), (-5, "0s")]
        {
            let to = from + jiff::SignedDuration::from_secs(seconds);
            assert_eq!(age(from, to), text);
        }
    }
}
