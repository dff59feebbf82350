//! How much a world may hold. Whoever asks for more is refused; reading and removing go on.
//!
//! What counts is what memory must hold: the bytes of every object that is there, its key, and what
//! is kept beside it. History has a bound of its own.

use crate::proposal::{ProposalError, StagedWrite};
use crate::record::Record;
use crate::snapshot::RecordIndex;

/// What is kept beside an object: its header, and its places in the map and the indexes.
const BESIDE_BYTES: u64 = 512;

/// What removing may take beyond the quota: an object on its way out grows by the time of its deletion.
const LEAVING_BYTES: u64 = 16 << 20;

/// What an object counts.
pub(crate) fn weight(record: &Record) -> u64 {
    weight_of(record.key().len(), record.bytes().len())
}

fn weight_of(key: usize, bytes: usize) -> u64 {
    BESIDE_BYTES + (key + bytes) as u64
}

/// Passes, or refuses writes that would make a world larger than it may be.
///
/// A proposal that adds nothing in sum always passes; so does one that brings objects on their way
/// out, up to a reserve.
pub(crate) fn check(
    objects: &RecordIndex,
    writes: &[StagedWrite],
    quota: Option<u64>,
) -> Result<(), ProposalError> {
    let Some(quota) = quota else { return Ok(()) };
    let puts = writes.iter().filter_map(|write| match write {
        StagedWrite::Put(prepared) => Some(prepared),
        StagedWrite::Delete(_) => None,
    });
    let most: u64 = puts.clone().map(|put| weight_of(put.key.len(), put.len())).sum();
    if objects.bytes().saturating_add(most) <= quota {
        return Ok(());
    }
    let key = |write: &StagedWrite| match write {
        StagedWrite::Put(prepared) => objects.get(&prepared.key).map(|record| weight(record)),
        StagedWrite::Delete(key) => objects.get(key).map(|record| weight(record)),
    };
    let replaced: u64 = writes.iter().filter_map(key).sum();
    let after = objects.bytes().saturating_add(most).saturating_sub(replaced);
    let leaving = puts.clone().all(|put| put.is_leaving());
    let limit = if leaving { quota.saturating_add(LEAVING_BYTES) } else { quota };
    if most <= replaced || after <= limit {
        return Ok(());
    }
    Err(ProposalError::Full { used: objects.bytes(), quota })
}
