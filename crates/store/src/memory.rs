//! A log without a disk: for ephemeral servers and for tests.
//!
//! Forgetting, it only counts revisions; keeping, it satisfies the whole contract.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tenure_core::Revision;

use crate::file::snapshot;
use crate::format::StoredEntry;
use crate::log::{
    AppendError, Commit, CompactionOutcome, DEFAULT_VALUE_BYTES_MAX, Log, LogEntry, LogStats,
    ReplayError, Replayed, SaveError, check_batch,
};

#[derive(Debug)]
struct MemoryEntry {
    value: Option<Bytes>,
    replaces: Option<Revision>,
}

/// A log in memory.
#[derive(Debug)]
pub struct MemoryLog {
    last: Revision,
    compacted: Revision,
    value_bytes_max: usize,
    /// None when nothing is kept.
    entries: Option<BTreeMap<(Revision, Arc<str>), MemoryEntry>>,
}

impl MemoryLog {
    /// A log that takes everything and remembers nothing but the newest revision.
    #[must_use]
    pub fn forgetting() -> MemoryLog {
        MemoryLog {
            last: Revision::ZERO,
            compacted: Revision::ZERO,
            value_bytes_max: DEFAULT_VALUE_BYTES_MAX,
            entries: None,
        }
    }

    /// A log that hands back what it was given for as long as it lives.
    #[must_use]
    pub fn keeping() -> MemoryLog {
        MemoryLog { entries: Some(BTreeMap::new()), ..MemoryLog::forgetting() }
    }
}

impl Log for MemoryLog {
    fn append(&mut self, commits: &[Commit]) -> Result<(), AppendError> {
        self.last = check_batch(self.last, commits, self.value_bytes_max)?;
        if let Some(entries) = &mut self.entries {
            for commit in commits {
                for write in &commit.writes {
                    let kept = MemoryEntry { value: write.value.clone(), replaces: write.replaces };
                    entries.insert((commit.revision, Arc::clone(&write.key)), kept);
                }
            }
        }
        Ok(())
    }

    fn replay(&mut self, visit: &mut dyn FnMut(LogEntry)) -> Result<Replayed, ReplayError> {
        for ((revision, key), kept) in self.entries.iter().flatten() {
            visit(LogEntry {
                revision: *revision,
                key: Arc::clone(key),
                value: kept.value.clone(),
            });
        }
        Ok(Replayed { last: self.last, compacted: self.compacted })
    }

    fn compact(&mut self, upto: Revision) -> Result<CompactionOutcome, AppendError> {
        let upto = upto.min(self.last);
        if upto <= self.compacted {
            return Ok(CompactionOutcome::default());
        }
        let mut removed = 0;
        if let Some(entries) = &mut self.entries {
            let mut gone = Vec::new();
            for ((revision, key), kept) in entries.iter() {
                if *revision > upto {
                    break;
                }
                if *revision <= self.compacted {
                    continue;
                }
                gone.extend(kept.replaces.map(|replaced| (replaced, Arc::clone(key))));
                if kept.value.is_none() {
                    gone.push((*revision, Arc::clone(key)));
                }
            }
            for place in gone {
                removed += u64::from(entries.remove(&place).is_some());
            }
        }
        self.compacted = upto;
        Ok(CompactionOutcome { removed })
    }

    fn sync(&mut self) -> Result<(), AppendError> {
        Ok(())
    }

    fn stats(&self) -> LogStats {
        let entries = self.entries.as_ref().map_or(0, BTreeMap::len);
        let entries = u64::try_from(entries).unwrap_or(u64::MAX);
        LogStats { entries, ..LogStats::default() }
    }

    fn save(&mut self, path: &Path) -> Result<(), SaveError> {
        let entries = self.entries.as_ref().ok_or(SaveError::NotKept)?;
        let position = Replayed { last: self.last, compacted: self.compacted };
        snapshot::write(path, position, |sink| {
            for ((revision, key), kept) in entries {
                let stored = StoredEntry { replaces: kept.replaces, value: kept.value.as_deref() };
                sink.push(*revision, key, stored)?;
            }
            Ok(())
        })
    }
}
