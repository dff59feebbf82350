//! May somebody do something, and why; who may; and which half of the handshake is missing (R130–R133).

use serde::Serialize;
use tenure_reference::{Explanation, Nearest, UnmetCondition};

use super::{AccessRequest, AccessSubject, ClusterAccess, ObjectName, RightsHolder, Via};
use crate::facts::UnreadableKind;

/// What the API server itself says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    /// Whether it allows the request.
    pub allowed: bool,
    /// Why, in its words.
    pub reason: String,
}

impl Review {
    /// Whether a reference is the reason; roles are asked first.
    #[must_use]
    pub fn is_by_reference(&self) -> bool {
        self.allowed && self.reason.starts_with("reference:")
    }
}

/// How one of the eight conditions stands (R132).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConditionState {
    /// It is met.
    Met,
    /// It is the first that is not.
    Missing,
    /// One before it is not met.
    Unknown,
}

/// One of the eight conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessCondition {
    /// Its place in the order, from 1 on.
    pub number: usize,
    /// Its name for programs.
    pub code: &'static str,
    /// What it asks for.
    pub what: &'static str,
    /// How it stands.
    pub state: ConditionState,
}

/// An object that would do, but for one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Near {
    /// The kind.
    pub kind: &'static str,
    /// The namespace, if it has one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The field that differs.
    pub field: &'static str,
    /// What it would have to be, or contain.
    pub wanted: String,
    /// What it is.
    pub found: String,
}

impl From<Nearest> for Near {
    fn from(nearest: Nearest) -> Near {
        let Nearest { kind, namespace, name, field, wanted, found } = nearest;
        Near { kind, namespace, name, field, wanted, found }
    }
}

/// Why references allow a request, or what is missing.
#[derive(Clone, Debug, Serialize)]
pub struct ReferenceExplanation {
    /// Whether they do.
    pub allowed: bool,
    /// The first condition that is not met.
    pub code: Option<&'static str>,
    /// In one line.
    pub message: String,
    /// Every chain that allows it, the one of the reason first.
    pub witnesses: Vec<Via>,
    /// What would do, but for one field.
    pub nearest: Option<Near>,
    /// YAML that would allow it.
    pub fix: Option<String>,
    /// All eight conditions.
    pub conditions: Vec<AccessCondition>,
}

/// The conditions in their order.
const CONDITIONS: [(UnmetCondition, &str); 8] = [
    (UnmetCondition::Verb, "it is get, list or watch of one named object"),
    (UnmetCondition::Subject, "a ClusterReferenceConsumer names the subject"),
    (UnmetCondition::Target, "the consumer serves references to this type"),
    (UnmetCondition::Triple, "a ReferenceStrategy finds such references"),
    (UnmetCondition::Version, "the strategy has paths for a version that is served"),
    (UnmetCondition::Reference, "an origin points at this name"),
    (UnmetCondition::Class, "the consumer serves the class of that origin"),
    (UnmetCondition::Grant, "both are in one namespace, or a ReferenceGrant allows it"),
];

impl From<Explanation> for ReferenceExplanation {
    fn from(reported: Explanation) -> ReferenceExplanation {
        let state = |code: UnmetCondition| match reported.code {
            None if reported.allowed => ConditionState::Met,
            None => ConditionState::Unknown,
            Some(missing) if code < missing => ConditionState::Met,
            Some(missing) if code == missing => ConditionState::Missing,
            Some(_) => ConditionState::Unknown,
        };
        let conditions = (1..).zip(CONDITIONS).map(|(number, (code, what))| AccessCondition {
            number,
            code: code.as_str(),
            what,
            state: state(code),
        });
        let conditions = conditions.collect();
        ReferenceExplanation {
            allowed: reported.allowed,
            code: reported.code.map(UnmetCondition::as_str),
            message: reported.message,
            witnesses: reported.witnesses.iter().map(Via::from).collect(),
            nearest: reported.nearest.map(Near::from),
            fix: reported.fix,
            conditions,
        }
    }
}

/// May somebody do something, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessExplanation {
    /// Who asks.
    pub user: String,
    /// In which groups.
    pub groups: Vec<String>,
    /// To do what.
    pub verb: String,
    /// With which object.
    pub object: ObjectName,
    /// Whether it may: what the server says.
    pub allowed: bool,
    /// Which of both answers: `roles`, `reference`, or neither.
    pub by: Option<&'static str>,
    /// What the server says, and why, by whatever it knows.
    pub server: Review,
    /// What references say.
    pub reference: ReferenceExplanation,
    /// What could not be read, so that the why may be wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadableKind>,
}

impl AccessExplanation {
    /// Whether what references say is known: they allow it, the verb rules it out, or everything that
    /// would allow it was read. Roles have nothing to do with it.
    #[must_use]
    pub fn is_reference_known(&self) -> bool {
        let roles = |unread: &UnreadableKind| unread.kind.ends_with(super::ROLES);
        self.reference.allowed
            || self.reference.code == Some(UnmetCondition::Verb.as_str())
            || self.unread.iter().all(roles)
    }
}

/// What references say, for programs (R132).
#[derive(Clone, Debug, Serialize)]
pub struct AccessReport<'a> {
    user: &'a str,
    groups: &'a [String],
    verb: &'a str,
    object: &'a ObjectName,
    #[serde(flatten)]
    reference: &'a ReferenceExplanation,
    server: &'a Review,
    #[serde(skip_serializing_if = "<[UnreadableKind]>::is_empty")]
    unread: &'a [UnreadableKind],
}

impl AccessExplanation {
    /// What references say to it, whatever the server says.
    #[must_use]
    pub fn report(&self) -> AccessReport<'_> {
        let AccessExplanation { user, groups, verb, object, server, reference, unread, .. } = self;
        AccessReport { user, groups, verb, object, reference, server, unread }
    }
}

/// Everybody who may do something.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Readers {
    /// What.
    pub verb: String,
    /// With which object.
    pub object: ObjectName,
    /// Whom references allow it, with witnesses.
    pub by_reference: Vec<Reached>,
    /// Whom roles allow it.
    pub by_roles: Vec<RightsHolder>,
    /// What could not be read, so that somebody may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadableKind>,
}

/// Somebody whom references allow something.
#[derive(Clone, Debug, Serialize)]
pub struct Reached {
    /// Who.
    pub subject: AccessSubject,
    /// Why.
    pub witnesses: Vec<Via>,
}

impl ClusterAccess {
    /// May it, and why; the server was asked already.
    #[must_use]
    pub fn answer(&self, question: &AccessRequest, server: Review) -> AccessExplanation {
        let by = match (server.allowed, server.is_by_reference()) {
            (false, _) => None,
            (true, true) => Some("reference"),
            (true, false) => Some("roles"),
        };
        AccessExplanation {
            user: question.who.user.clone(),
            groups: question.who.groups.clone(),
            verb: question.verb.clone(),
            object: question.object.clone(),
            allowed: server.allowed,
            by,
            server,
            reference: self.explain(question),
            unread: self.unread(),
        }
    }

    /// Why references allow a request, or the nearest miss (R132).
    #[must_use]
    pub fn explain(&self, question: &AccessRequest) -> ReferenceExplanation {
        self.engine().explain(&question.attributes()).into()
    }

    /// Everybody who may (R133). Nobody is asked about: the question's own subject plays no part.
    #[must_use]
    pub fn who_can(&self, question: &AccessRequest) -> Readers {
        let eligible = question.attributes().is_eligible();
        let readers =
            if eligible { self.engine().who_can(&question.object.as_obj()) } else { Vec::new() };
        let by_reference = readers.iter().map(|reader| Reached {
            subject: AccessSubject::from(&reader.subject),
            witnesses: reader.witnesses.iter().map(Via::from).collect(),
        });
        Readers {
            verb: question.verb.clone(),
            object: question.object.clone(),
            by_reference: by_reference.collect(),
            by_roles: self.roles.holders(&question.rbac_attributes()),
            unread: self.unread(),
        }
    }
}
