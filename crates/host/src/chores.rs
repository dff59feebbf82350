//! What must be done now and then while a server runs. Only the clock lives here; what is due is
//! decided by those who know.

use std::time::Duration;

use tenure_world::{Compaction, WorldHandle};
use tokio::sync::watch;

use crate::clock;

/// Clients may rely on this much history (api-server R114).
const COMPACT_EVERY: Duration = Duration::from_secs(5 * 60);
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// Compacts until the end is asked for.
pub(crate) async fn compact_regularly(world: WorldHandle, mut stop: watch::Receiver<bool>) {
    let begin = clock::instant();
    let mut policy = Compaction::every(COMPACT_EVERY);
    loop {
        tokio::select! {
            _ = stop.wait_for(|asked| *asked) => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let Some(upto) = policy.due(begin.elapsed(), world.current().revision()) else { continue };
        let took = clock::instant();
        match world.compact(upto).await {
            Ok(()) => {
                let ms = took.elapsed().as_millis();
                tracing::info!(%upto, ms, "old revisions are let go");
            }
            Err(error) => tracing::warn!(%error, "old revisions could not be let go"),
        }
    }
}
