//! One object.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::Revision;
use tenure_machinery::Failure;
use tenure_machinery::status::{Details, StatusCause};
use tenure_world::{Handle, Record, World};

use crate::registry::Served;

/// How long a reader waits for a revision that is not there yet (R17).
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// The state to read from: the newest, and not older than `revision` if one is given.
pub(crate) async fn not_older_than(
    world: &Handle,
    revision: Option<Revision>,
) -> Result<Arc<World>, Failure> {
    let current = world.current();
    let Some(revision) = revision.filter(|r| *r > current.revision()) else { return Ok(current) };
    if world.wait_for(revision, FUTURE_WAIT).await {
        return Ok(world.current());
    }
    let message = format!(
        "Timeout: Too large resource version: {revision}, current: {}",
        world.current().revision()
    );
    Err(Failure::new(504, "Timeout", message).with(Details {
        causes: vec![StatusCause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        }],
        retry_after_seconds: 1,
        ..Details::default()
    }))
}

/// The stored object, or NotFound.
pub(crate) fn stored(
    world: &World,
    served: &Served,
    namespace: &str,
    name: &str,
) -> Result<Arc<Record>, Failure> {
    world.get(&served.key(namespace, name)).cloned().ok_or_else(|| missing(served, name))
}

/// NotFound for an object of this kind.
#[must_use]
pub(crate) fn missing(served: &Served, name: &str) -> Failure {
    Failure::not_found(&served.kind.group, &served.kind.plural, name)
}
