//! Builds the world again from the log at the start.

use std::sync::Arc;

use tenure_core::Revision;
use tenure_store::{Log, LogEntry};

use crate::header::{BadRecord, SelectableFields};
use crate::history::{Change, HistoryWriter};
use crate::record::Record;
use crate::snapshot::World;

/// After how many entries it is told how far the reading is.
const PROGRESS_ENTRIES: u64 = 1024;

/// A world could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum WorldOpenError {
    /// The log cannot be read.
    #[error("the log cannot be read: {0}")]
    Replay(String),
    /// A value in the log is not an object.
    #[error("the value of `{key}` at revision {revision} cannot be read: {cause}")]
    Record {
        /// The key of the value.
        key: Arc<str>,
        /// The revision it was written at.
        revision: Revision,
        /// What is wrong with it.
        cause: BadRecord,
    },
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(std::io::Error),
}

/// Reads every entry, oldest first, into a state and its retained changes.
///
/// Entries at or before the compaction become state only; the history before them is not whole.
pub(crate) fn replay(
    log: &mut dyn Log,
    layout: &dyn SelectableFields,
    history_bytes: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(World, HistoryWriter), WorldOpenError> {
    let (mut read, all) = (0, log.stats().entries);
    let mut world = World::default();
    let mut recorder = HistoryWriter::new(history_bytes);
    let mut bad = None;
    let replayed = log
        .replay(&mut |entry| {
            read += 1;
            if read % PROGRESS_ENTRIES == 0 {
                progress(read, all);
            }
            if bad.is_none() {
                bad = take(entry, layout, &mut world, &mut recorder).err();
            }
        })
        .map_err(|error| WorldOpenError::Replay(error.to_string()))?;
    if let Some(error) = bad {
        return Err(error);
    }
    recorder.forget(replayed.compacted);
    world.revision = world.revision.max(replayed.last);
    world.end = recorder.end();
    Ok((world, recorder))
}

/// Takes in one entry.
fn take(
    entry: LogEntry,
    layout: &dyn SelectableFields,
    world: &mut World,
    recorder: &mut HistoryWriter,
) -> Result<(), WorldOpenError> {
    let LogEntry { revision, key, value } = entry;
    let after = match value {
        Some(bytes) => {
            let record = Record::read(key.clone(), revision, bytes, layout)
                .map_err(|cause| WorldOpenError::Record { key: key.clone(), revision, cause })?;
            Some(Arc::new(record))
        }
        None => None,
    };
    let before = match &after {
        Some(record) => world.objects.insert(key.clone(), record.clone()),
        None => world.objects.remove(&key),
    };
    world.revision = world.revision.max(revision);
    if before.is_some() || after.is_some() {
        recorder.push(Arc::new(Change::new(revision, key, before, after)));
    }
    Ok(())
}
