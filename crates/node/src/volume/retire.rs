//! Generations that are no longer current stay for their grace, so that a reader who was on the way
//! arrives (R65), and are then removed by a thread that lives only while there is one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tenure_downward::writer::GRACE_MS;

use super::folder::VolumeFolder;
use super::{Inner, Volumes};

use crate::clock;

/// What waits to be removed, soonest first.
#[derive(Default)]
pub(super) struct RemovalQueue(Mutex<RetiredGenerations>);

#[derive(Default)]
struct RetiredGenerations {
    all: VecDeque<(Instant, (String, String), String)>,
    sweeping: bool,
}

/// Removes a generation of a volume after its grace.
pub(super) fn later(inner: &Arc<Inner>, volume: (String, String), generation: String) {
    let grace = Duration::from_millis(GRACE_MS.unsigned_abs());
    let mut waiting = inner.retired.0.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.all.push_back((clock::instant() + grace, volume, generation));
    if waiting.sweeping {
        return;
    }
    let weak = Arc::downgrade(inner);
    let spawned =
        std::thread::Builder::new().name("volumes".to_owned()).spawn(move || sweep(&weak));
    // Without a thread the next write of the volume removes it.
    waiting.sweeping = spawned.is_ok();
}

fn sweep(weak: &Weak<Inner>) {
    loop {
        let Some(inner) = weak.upgrade() else { return };
        let mut waiting = inner.retired.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((due, volume, generation)) = waiting.all.pop_front() else {
            waiting.sweeping = false;
            return;
        };
        let left = due.saturating_duration_since(clock::instant());
        if !left.is_zero() {
            waiting.all.push_front((due, volume, generation));
            drop(waiting);
            drop(inner);
            clock::block_for(left);
            continue;
        }
        drop(waiting);
        forget(&Volumes { inner }, &volume, &generation);
    }
}

fn forget(volumes: &Volumes, (uid, name): &(String, String), generation: &str) {
    let known = volumes.all_known().get(&(uid.clone(), name.clone())).cloned();
    let Some(known) = known else { return };
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.retired.remove(generation);
    let Some(place) = &known.place else { return };
    let folder = place.parent().map(|base| VolumeFolder::open(base, name, None));
    if let Some(Ok(folder)) = folder
        && let Err(error) = folder.forget(generation)
    {
        tracing::debug!(
            volume = %place.display(), %error, "an old generation stays"
        );
    }
}
