//! One object.

use std::sync::Arc;

use tenure_machinery::Failure;
use tenure_world::{Record, World};

use crate::permit::Redeemed;
use crate::registry::ServedKind;

/// The object that a request for one is answered with, or NotFound.
pub(crate) fn shown(
    state: &Redeemed,
    served: &ServedKind,
    namespace: &str,
    name: &str,
) -> Result<Arc<Record>, Failure> {
    stored(state, served, namespace, name)
}

/// As [`shown`], for those who look something up and answer with something else.
pub(crate) fn stored(
    world: &World,
    served: &ServedKind,
    namespace: &str,
    name: &str,
) -> Result<Arc<Record>, Failure> {
    world.get(&served.key(namespace, name)).cloned().ok_or_else(|| missing(served, name))
}

/// NotFound for an object of this kind.
#[must_use]
pub(crate) fn missing(served: &ServedKind, name: &str) -> Failure {
    Failure::not_found(&served.kind.group, &served.kind.plural, name)
}
