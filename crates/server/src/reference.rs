//! The three kinds of referential authorization in this server: how they are treated, what is around them, which
//! version of an origin is read (spec/referential-authorization.md).
//!
//! ```text
//!   strategy ──► prepare ──► commit ──► feed ──┬─► standing: what may be read because something refers to it
//!                   └─────── fill ───────┘     └─► filtered: whose sight of what has changed (R155)
//! ```
//!
//! What is wrong with such an object is decided in crate `kinds`; who may write it, in `admit`; what a reference
//! is good for, in the engine `reference`.

mod authorizer;
mod clear;
mod expression;
mod feed;
mod feeds;
mod fill;
mod origin_events;
mod prepare;
mod recent;
mod tally;
mod visibility;

use std::sync::Arc;

pub use tenure_kinds::reference::Selectors;

/// The groups of the kinds that are about references.
pub const GROUPS: [&str; 2] =
    [tenure_kinds::reference::GROUP, tenure_kinds::reference::REVIEW_GROUP];

use tenure_kinds::reference::{
    GroupResourceRef, ReferencePolicyKind, ServedResource, Surroundings,
};
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Kind, Object};

use crate::api::ApiServer;
use crate::registry::{Registry, ServedKind};

pub(crate) use authorizer::ReferenceAuthorizer;
pub(crate) use feed::ReferenceUpdater;
pub use origin_events::run;
pub(crate) use prepare::prepare;
pub(crate) use tally::ReferenceMetrics;
pub(crate) use visibility::{Forgotten, Then, Visibility, VisibilityChange};

/// What becomes of the decisions about references (D15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthorizerMode {
    /// What is referenced may be read.
    #[default]
    On,
    /// Decisions are made, counted and recorded, and allow nothing.
    Observe,
    /// Nothing is decided.
    Off,
}

/// Evaluates expressions of strategies as this server does, for tools that look from outside (R79).
#[must_use]
pub fn expressions() -> Arc<dyn tenure_reference::Expressions + Send + Sync> {
    Arc::new(expression::Cel::default())
}

/// How references are treated; closed unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceOptions {
    /// A consumer may be everybody, with a warning (R84).
    pub lets_everybody: bool,
    /// Consumers and strategies are written by whoever may write them, whatever they expose (R105).
    pub unchecked_consumers: bool,
    /// Consumers may list and watch whole collections, and see what references lead to (R155).
    pub filtered_lists: bool,
    /// What becomes of decisions (D15).
    pub authorizer: AuthorizerMode,
    /// Which selectors grants and consumers may have (D9, D13).
    pub selectors: Selectors,
    /// Who reads what may be referenced is recorded (R135); always while decisions are only observed.
    pub record_access: bool,
}

impl ReferenceOptions {
    /// Whether it is recorded who reads what (R135).
    pub(crate) fn records(&self) -> bool {
        self.record_access || self.authorizer == AuthorizerMode::Observe
    }
}

/// What the rules of the three kinds see of this server.
pub(crate) struct ReferenceContext {
    registry: Arc<Registry>,
    settings: ReferenceOptions,
}

impl ReferenceContext {
    /// What is around at this moment.
    pub(crate) fn now(api: &ApiServer) -> ReferenceContext {
        ReferenceContext { registry: api.kinds.current(), settings: api.access.references() }
    }

    /// The version of a strategy's origin that is read: the first in the server's own order that has paths (R58).
    pub(crate) fn active_version(&self, strategy: &Object) -> Option<String> {
        active_version(&self.registry, strategy)
    }
}

impl Surroundings for ReferenceContext {
    fn served(&self, group: &str, resource: &str) -> Option<ServedResource> {
        self.registry.resource(group, resource)
    }

    fn resource_of(&self, group: &str, kind: &str) -> Option<String> {
        self.registry.by_kind(group, kind).map(|served| served.kind.plural.to_string())
    }

    fn expression_fault(&self, expression: &str) -> Option<String> {
        expression::compile(expression).err()
    }

    fn lets_everybody(&self) -> bool {
        self.settings.lets_everybody
    }

    fn selectors(&self) -> Selectors {
        self.settings.selectors
    }
}

fn active_version(registry: &Registry, strategy: &Object) -> Option<String> {
    let origin = GroupResourceRef::read(strategy, "origin");
    let listed: Vec<&str> =
        objects(strategy, "versions").map(|(_, of)| text(of, "version")).collect();
    let served = registry.resource(origin.group, origin.resource)?;
    served.versions.into_iter().find(|version| listed.contains(&version.as_str()))
}

/// As [`ReferenceContext::active_version`], for an object that is shown; none if it is no strategy.
pub(crate) fn shown_version(served: &ServedKind, object: &Object) -> Option<String> {
    if !is_strategy(&served.kind) {
        return None;
    }
    active_version(&served.around.upgrade()?.load(), object)
}

/// Whether a write of such an object may bring origins that are told beside the commits (R174), or what selectors
/// look at.
pub(crate) fn brings_origins(kind: &Kind) -> bool {
    ReferencePolicyKind::of(kind).is_some() || kind.group == "apiextensions.k8s.io"
}

fn is_strategy(kind: &Kind) -> bool {
    ReferencePolicyKind::of(kind) == Some(ReferencePolicyKind::Strategy)
}
