//! Is this particular reference allowed, and by what? (spec section 7)
//!
//! A controller that may read an object must still ask whether *this* origin may use it. The answer is the
//! same from the index and from plain values.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde_json::Value;
use smallvec::SmallVec;

use crate::extract::{self, Evaluation, Expressions, TargetType};
use crate::index::Index;
use crate::model::{Class, Consumer, Grant, Obj, ServedType, Strategy, Subject};
use crate::nearest::{Nearest, Needed, UnmetCondition};
use crate::source::{PathSource, active_version};

/// A question about one reference.
#[derive(Clone, Copy, Debug)]
pub struct RefQuery<'a> {
    /// What points.
    pub origin: Obj<'a>,
    /// What is pointed at.
    pub target: Obj<'a>,
    /// What for.
    pub purpose: &'a str,
    /// The class of the origin as the caller read it, empty for unset; `None` does not check it.
    pub class: Option<&'a str>,
    /// Who would read; `None` asks about the reference alone.
    pub subject: Option<&'a Subject>,
}

/// The namespace and name of a grant.
pub type GrantName<'a> = (&'a str, &'a str);

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Allowed: both are in one namespace.
    Local {
        /// The strategy that finds the reference; the first by name.
        strategy: &'a str,
    },
    /// Allowed by grants.
    Granted {
        /// The strategy that finds the reference; the first by name.
        strategy: &'a str,
        /// Every grant that covers it, by name.
        grants: SmallVec<[GrantName<'a>; 2]>,
    },
    /// The reference is there and may not be followed.
    NotPermitted(Box<WhyNot>),
    /// The origin does not point there for this purpose.
    NotAReference,
    /// This origin was not seen, or its type has not been seen to the end.
    UnknownOrigin,
}

impl Verdict<'_> {
    /// Whether the reference may be followed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Local { .. } | Verdict::Granted { .. })
    }
}

/// Why a reference may not be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhyNot {
    /// The first condition that is not met.
    pub code: UnmetCondition,
    /// The grant that lacks a single field.
    pub nearest: Option<Nearest>,
}

/// The values a check without an index is made from.
#[derive(Clone, Copy)]
pub struct Detached<'a> {
    /// What the API serves.
    pub served: &'a [ServedType],
    /// All strategies.
    pub strategies: &'a [Strategy],
    /// All consumers; looked at only when a subject is asked about.
    pub consumers: &'a [Consumer],
    /// All grants, or those in the namespace of the target.
    pub grants: &'a [Grant],
    /// Evaluates expressions.
    pub expressions: &'a dyn Expressions,
}

/// A reference found, by a strategy and with a class.
#[derive(Clone, Copy)]
struct StrategyMatch<'a> {
    strategy: &'a str,
    class: Class<'a>,
}

impl Index {
    /// Is this reference allowed, and by what? Nothing is allocated where it is (R110).
    #[must_use]
    pub fn check<'i>(&'i self, query: &RefQuery<'_>) -> Verdict<'i> {
        let Some(origin) = self.find_origin(&query.origin) else { return Verdict::UnknownOrigin };
        let Some(target) = self.find_target(&query.target) else { return Verdict::NotAReference };
        let (from, edges) = self.edges_at(origin, target);
        let mut triple = None;
        let mut matches: SmallVec<[StrategyMatch<'i>; 8]> = SmallVec::new();
        for edge in edges {
            let (of_edge, class) = (self.triple(edge), edge.class);
            let purpose = self.words.triple_of(of_edge).map(|(.., purpose)| &**purpose);
            let requested =
                |source: &&PathSource| source.is_in_force() && purpose == Some(query.purpose);
            let Some(source) = self.source(edge.source).filter(requested) else { continue };
            triple = Some(of_edge);
            matches.push(StrategyMatch {
                strategy: &source.spec.strategy,
                class: self.words.class_of(class),
            });
        }
        let Some(triple) = triple else { return Verdict::NotAReference };
        if !self.is_open(triple) {
            return Verdict::UnknownOrigin;
        }
        let consumers = self.consumers.values().map(|kept| &kept.consumer);
        let local = self.is_local(from, target);
        let grants = self.side(target).grants(triple, from).filter_map(|id| self.grant(id));
        let grants = grants.map(|kept| (kept.grant.namespace.as_str(), kept.grant.name.as_str()));
        let all = || self.grants.iter().flatten().map(|kept| &kept.grant);
        judge(query, &matches, consumers, local, grants, all)
    }

    /// The number of a target somebody speaks of.
    pub(crate) fn find_target(&self, object: &Obj<'_>) -> Option<u32> {
        let resource = self.words.resource(object.group, object.resource)?;
        let namespace = self.words.namespace(object.namespace)?;
        self.find_in(self.words.place(resource, namespace)?, object.name)
    }
}

/// The same as [`Index::check`] from plain values, for one origin that was read at the version the
/// strategies are active in (R111).
#[must_use]
pub fn check_detached<'a>(
    facts: &Detached<'a>,
    origin: &'a Value,
    query: &RefQuery<'_>,
) -> Verdict<'a> {
    let is_type = |resource: &crate::Resource, object: &Obj<'_>| {
        resource.group == object.group && resource.resource == object.resource
    };
    let served = |object: &Obj<'_>| facts.served.iter().find(|row| is_type(&row.resource, object));
    let mut matches: SmallVec<[StrategyMatch<'a>; 8]> = SmallVec::new();
    let strategies = facts.strategies.iter().filter(|row| is_type(&row.origin, &query.origin));
    let mut evaluation = Evaluation::new(facts.expressions);
    for strategy in strategies {
        let Some(paths) = active_version(strategy, served(&query.origin)) else { continue };
        let class = extract::class(paths.class_path.as_ref(), origin);
        let wanted = paths
            .references
            .iter()
            .filter(|path| is_type(&path.target, &query.target) && path.purpose == query.purpose);
        for path in wanted {
            let Some(target) = served(&query.target) else { continue };
            let (mut points, target) =
                (false, TargetType { namespaced: target.namespaced, kind: &target.kind });
            let found = extract::references(
                path,
                target,
                query.origin.namespace,
                origin,
                &mut evaluation,
                &mut |name, namespace| {
                    points |= (name, namespace) == (query.target.name, query.target.namespace);
                },
                &mut |_| {},
            );
            if points && found.is_ok() {
                matches.push(StrategyMatch { strategy: &strategy.name, class });
            }
        }
    }
    if matches.is_empty() {
        return Verdict::NotAReference;
    }
    let needed = needed(query);
    let local =
        query.target.namespace.is_empty() || query.target.namespace == query.origin.namespace;
    let grants = facts.grants.iter().filter(|grant| needed.is_met_by(grant));
    let grants = grants.map(|grant| (grant.namespace.as_str(), grant.name.as_str()));
    judge(query, &matches, facts.consumers.iter(), local, grants, || facts.grants.iter())
}

fn needed<'q>(query: &RefQuery<'q>) -> Needed<'q> {
    Needed { origin: query.origin, target: query.target, purpose: query.purpose }
}

/// Conditions 7, 2 to 4 and 8 of R132, on a reference that is there.
fn judge<'a, 'g, G: Iterator<Item = &'g Grant>>(
    query: &RefQuery<'_>,
    matches: &[StrategyMatch<'a>],
    consumers: impl Iterator<Item = &'a Consumer>,
    local: bool,
    grants: impl Iterator<Item = GrantName<'a>>,
    all_grants: impl FnOnce() -> G,
) -> Verdict<'a> {
    let as_read = |class: Class<'_>| match (query.class, class) {
        (None, _) | (_, Class::Unpartitioned) => true,
        (Some(read), Class::Unset) => read.is_empty(),
        (Some(read), Class::Named(class)) => read == class,
    };
    let mut fitting: SmallVec<[StrategyMatch<'a>; 8]> =
        matches.iter().copied().filter(|found| as_read(found.class)).collect();
    let refuse = |code| Verdict::NotPermitted(Box::new(WhyNot { code, nearest: None }));
    if fitting.is_empty() {
        return refuse(UnmetCondition::Class);
    }
    if let Some(subject) = query.subject
        && let Err(code) = keep_served(query, subject, consumers, &mut fitting)
    {
        return refuse(code);
    }
    let Some(strategy) = fitting.iter().map(|found| found.strategy).min() else {
        return refuse(UnmetCondition::Class);
    };
    if local {
        return Verdict::Local { strategy };
    }
    let mut grants: SmallVec<[GrantName<'a>; 2]> = grants.collect();
    if grants.is_empty() {
        let nearest = needed(query).nearest(all_grants());
        return Verdict::NotPermitted(Box::new(WhyNot { code: UnmetCondition::Grant, nearest }));
    }
    grants.sort_unstable();
    Verdict::Granted { strategy, grants }
}

/// Keeps what a consumer of the subject serves; else the condition that is not met.
fn keep_served<'a>(
    query: &RefQuery<'_>,
    subject: &Subject,
    consumers: impl Iterator<Item = &'a Consumer>,
    fitting: &mut SmallVec<[StrategyMatch<'a>; 8]>,
) -> Result<(), UnmetCondition> {
    let is = |resource: &crate::Resource, object: &Obj<'_>| {
        resource.group == object.group && resource.resource == object.resource
    };
    let mut code = UnmetCondition::Subject;
    let mut accepted: SmallVec<[StrategyMatch<'a>; 8]> = SmallVec::new();
    for consumer in consumers.filter(|consumer| consumer.subject.is_same(subject)) {
        code = code.max(UnmetCondition::Target);
        for entry in consumer.references.iter().filter(|entry| is(&entry.target, &query.target)) {
            code = code.max(UnmetCondition::Triple);
            if is(&entry.origin, &query.origin) && entry.purpose == query.purpose {
                code = code.max(UnmetCondition::Class);
                let served = fitting.iter().filter(|found| consumer.accepts(found.class));
                accepted.extend(served.copied());
            }
        }
    }
    *fitting = accepted;
    if fitting.is_empty() { Err(code) } else { Ok(()) }
}

/// Every reference that strategies find in an object, for people and tools; no index is needed.
#[must_use]
pub fn references_of<'a>(
    served: &'a [ServedType],
    strategies: &'a [Strategy],
    origin: &Obj<'_>,
    object: &Value,
    expressions: &dyn Expressions,
) -> Vec<FoundReference<'a>> {
    let mut all = Vec::new();
    let mut evaluation = Evaluation::new(expressions);
    let row = |resource: &crate::Resource| served.iter().find(|row| row.resource == *resource);
    for strategy in strategies {
        if strategy.origin.group != origin.group || strategy.origin.resource != origin.resource {
            continue;
        }
        let Some(paths) = active_version(strategy, row(&strategy.origin)) else { continue };
        for path in &paths.references {
            let Some(target) = row(&path.target) else { continue };
            let target_type = TargetType { namespaced: target.namespaced, kind: &target.kind };
            let mut keep = |name: &str, namespace: &str| {
                all.push(FoundReference {
                    strategy: &strategy.name,
                    version: &paths.version,
                    target: &path.target,
                    purpose: &path.purpose,
                    namespace: namespace.into(),
                    name: name.into(),
                });
            };
            // What fails finds nothing; telling its author is the index's.
            let _ = extract::references(
                path,
                target_type,
                origin.namespace,
                object,
                &mut evaluation,
                &mut keep,
                &mut |_| {},
            );
        }
    }
    all
}

/// A reference a strategy finds in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundReference<'a> {
    /// The strategy.
    pub strategy: &'a str,
    /// The version whose paths found it.
    pub version: &'a str,
    /// The type of the target.
    pub target: &'a crate::Resource,
    /// What for.
    pub purpose: &'a str,
    /// The namespace of the target.
    pub namespace: alloc::string::String,
    /// The name of the target.
    pub name: alloc::string::String,
}
