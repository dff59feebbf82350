//! The three kinds of referential authorization in this server: how they are treated, what is around them, which
//! version of an origin is read (spec/referential-authorization.md).
//!
//! ```text
//!   commit ──► feed ──► standing: what may be read because something refers to it
//! ```
//!
//! What is wrong with such an object is decided in crate `kinds`; who may write it, in `admit`; what a reference
//! is good for, in the engine `reference`.

mod expression;
mod feed;
mod standing;

use std::sync::Arc;

use tenure_kinds::reference::{ReferenceKind, Resource, ServedResource, Surroundings};
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Kind, Object};

use crate::api::Api;
use crate::registry::{Registry, Served};

pub(crate) use feed::Feed;
pub(crate) use standing::Standing;

/// How references are treated; closed unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// A consumer may be everybody, with a warning (R84).
    pub lets_everybody: bool,
    /// Consumers and strategies are written by whoever may write them, whatever they expose (R105).
    pub unchecked_consumers: bool,
}

/// What the rules of the three kinds see of this server.
pub(crate) struct Around {
    registry: Arc<Registry>,
    settings: References,
}

impl Around {
    /// What is around at this moment.
    pub(crate) fn now(api: &Api) -> Around {
        Around { registry: api.kinds.current(), settings: api.access.references() }
    }

    /// The version of a strategy's origin that is read: the first in the server's own order that has paths (R58).
    pub(crate) fn active_version(&self, strategy: &Object) -> Option<String> {
        active_version(&self.registry, strategy)
    }
}

impl Surroundings for Around {
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
}

fn active_version(registry: &Registry, strategy: &Object) -> Option<String> {
    let origin = Resource::read(strategy, "origin");
    let listed: Vec<&str> =
        objects(strategy, "versions").map(|(_, of)| text(of, "version")).collect();
    let served = registry.resource(origin.group, origin.resource)?;
    served.versions.into_iter().find(|version| listed.contains(&version.as_str()))
}

/// As [`Around::active_version`], for an object that is shown; none if it is no strategy.
pub(crate) fn shown_version(served: &Served, object: &Object) -> Option<String> {
    if !is_strategy(&served.kind) {
        return None;
    }
    active_version(&served.around.upgrade()?.load(), object)
}

fn is_strategy(kind: &Kind) -> bool {
    ReferenceKind::of(kind) == Some(ReferenceKind::Strategy)
}
