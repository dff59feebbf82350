//! The journal: where an append goes first, as one write and one sync.
//!
//! ```text
//!   append ──► frame ──► journal, from its beginning ──► durable
//!                                   └ full ──► all of it into the database, and from the beginning again
//! ```
//!
//! A transaction of the database touches a dozen pages and syncs twice; a frame is the bytes that are new. Space
//! is filled with zeros once and then written over, so that a sync has no metadata to bring along.
//!
//! `docs/design/log-format.md` describes the bytes.

use std::io;

use redb::StorageBackend;
use tenure_core::Revision;

use crate::format::{self, FormatError, StoredEntry};
use crate::log::{Commit, KeyWrite};

/// Frames begin at multiples of this, so that no block of a frame that was acknowledged is written again.
const BLOCK_BYTES: usize = 4096;
/// How much the file grows at a time.
const GROWTH_BYTES: usize = 256 * 1024;

/// What precedes the writes of a frame: checksum, length, number of the round, checksum of the frame before,
/// and four zeros.
const HEADER_BYTES: usize = 24;
const CHECKSUM_BYTES: usize = 4;

/// A journal, and where its next frame goes.
#[derive(Debug)]
pub(super) struct Journal {
    storage: Box<dyn StorageBackend>,
    /// How large the file may become.
    most: usize,
    /// Which time it is that the journal is filled; frames of another round count nothing.
    round: u64,
    /// Where the next frame goes.
    at: usize,
    /// How large the file is.
    size: usize,
    /// The checksum of the frame before.
    previous: u32,
    /// A frame in the making.
    frame: Vec<u8>,
}

/// What a journal held when it was opened.
pub(super) struct JournalContents {
    /// The commits of the round, in order.
    pub(super) commits: Vec<Commit>,
    /// Whether there may be anything at all, readable or not.
    pub(super) used: bool,
}

impl Journal {
    pub(super) fn new(storage: Box<dyn StorageBackend>, most: usize) -> Journal {
        Journal { storage, most, round: 0, at: 0, size: 0, previous: 0, frame: Vec::new() }
    }

    /// Reads the frames of a round up to the first that is not whole.
    ///
    /// Where each frame was synced before the next was written, none may be whole behind it.
    pub(super) fn read(
        &mut self,
        round: u64,
        synced: bool,
    ) -> Result<JournalContents, JournalError> {
        self.size = usize::try_from(self.storage.len()?).map_err(io::Error::other)?;
        let mut bytes = vec![0; self.size];
        self.storage.read(0, &mut bytes)?;
        let mut commits = Vec::new();
        let (mut at, mut previous) = (0, 0);
        while let Some(frame) =
            JournalFrame::at(&bytes, at, round).filter(|f| f.previous == previous)
        {
            decode(frame.writes, &mut commits)?;
            at += blocks(HEADER_BYTES + frame.writes.len());
            previous = frame.checksum;
        }
        let mut rest = (at..bytes.len()).step_by(BLOCK_BYTES);
        if synced && rest.any(|at| JournalFrame::at(&bytes, at, round).is_some()) {
            return Err(FormatError::Journal { at: at as u64 }.into());
        }
        Ok(JournalContents { commits, used: self.size > 0 })
    }

    /// Begins a round at the beginning of the file; what was there counts nothing from now on.
    pub(super) fn begin(&mut self, round: u64) {
        (self.round, self.at, self.previous) = (round, 0, 0);
    }

    /// Puts commits together as the next frame; false when there is no room for it in this round.
    pub(super) fn prepare(&mut self, commits: &[Commit]) -> bool {
        self.frame.clear();
        self.frame.resize(HEADER_BYTES, 0);
        for commit in commits {
            encode(commit, &mut self.frame);
        }
        self.fits_at(self.at)
    }

    /// Whether the frame has room in an empty journal.
    pub(super) fn fits(&self) -> bool {
        self.fits_at(0)
    }

    fn fits_at(&self, at: usize) -> bool {
        at + blocks(self.frame.len()) <= self.most
    }

    /// Writes the frame that was put together.
    pub(super) fn write(&mut self) -> io::Result<()> {
        let length = self.frame.len();
        let writes = u32::try_from(length - HEADER_BYTES).map_err(io::Error::other)?;
        let header = [
            &writes.to_be_bytes()[..],
            &self.round.to_be_bytes(),
            &self.previous.to_be_bytes(),
            &[0; 4],
        ];
        let header = header.concat();
        if let Some(place) = self.frame.get_mut(CHECKSUM_BYTES..HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
        let checksum = crc32fast::hash(self.frame.get(CHECKSUM_BYTES..).unwrap_or_default());
        if let Some(place) = self.frame.get_mut(..CHECKSUM_BYTES) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
        let mut end = self.at + blocks(length);
        if end > self.size {
            end = end.next_multiple_of(GROWTH_BYTES).min(self.most);
            self.storage.set_len(end as u64)?;
        }
        self.frame.resize(end - self.at, 0);
        self.storage.write(self.at as u64, &self.frame)?;
        self.at += blocks(length);
        self.size = self.size.max(end);
        self.previous = checksum;
        Ok(())
    }

    /// Makes durable what was written.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.storage.sync_data()
    }

    /// Gives the space back; nothing in it counts any more.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.size = 0;
        self.storage.set_len(0)
    }

    /// The round that is filled now.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// How large the file is.
    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }
}

/// Why a journal cannot be read.
pub(super) enum JournalError {
    Io(io::Error),
    Format(FormatError),
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        JournalError::Io(error)
    }
}

impl From<FormatError> for JournalError {
    fn from(error: FormatError) -> Self {
        JournalError::Format(error)
    }
}

/// A frame that is whole.
struct JournalFrame<'a> {
    checksum: u32,
    previous: u32,
    writes: &'a [u8],
}

impl<'a> JournalFrame<'a> {
    fn at(bytes: &'a [u8], at: usize, round: u64) -> Option<JournalFrame<'a>> {
        let (checksum, rest) = bytes.get(at..)?.split_first_chunk()?;
        let (length, tail) = rest.split_first_chunk()?;
        let (of, tail) = tail.split_first_chunk()?;
        let (previous, tail) = tail.split_first_chunk()?;
        let (_, tail) = tail.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let writes = tail.get(..length)?;
        let checked = rest.get(..HEADER_BYTES - CHECKSUM_BYTES + length)?;
        let checksum = u32::from_be_bytes(*checksum);
        let whole = u64::from_be_bytes(*of) == round && crc32fast::hash(checked) == checksum;
        let previous = u32::from_be_bytes(*previous);
        whole.then_some(JournalFrame { checksum, previous, writes })
    }
}

/// How much room so many bytes take.
fn blocks(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}

fn encode(commit: &Commit, out: &mut Vec<u8>) {
    let lengths = |out: &mut Vec<u8>, key: usize, entry: usize| {
        for length in [key, entry] {
            // Keys and values are far smaller.
            out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        }
    };
    if commit.writes.is_empty() {
        out.extend_from_slice(&commit.revision.0.to_be_bytes());
        lengths(out, 0, 0);
    }
    for write in &commit.writes {
        out.extend_from_slice(&commit.revision.0.to_be_bytes());
        let value = write.value.as_deref();
        let entry = format::HEADER_BYTES + value.map_or(0, <[u8]>::len);
        lengths(out, write.key.len(), entry);
        out.extend_from_slice(write.key.as_bytes());
        format::encode_entry(StoredEntry { replaces: write.replaces, value }, out);
    }
}

fn decode(mut bytes: &[u8], commits: &mut Vec<Commit>) -> Result<(), FormatError> {
    while !bytes.is_empty() {
        let short = FormatError::Short { bytes: bytes.len() };
        let (revision, rest) = bytes.split_first_chunk().ok_or(short)?;
        let (key, rest) = rest.split_first_chunk().ok_or(short)?;
        let (entry, rest) = rest.split_first_chunk().ok_or(short)?;
        let length =
            |bytes: &[u8; 4]| usize::try_from(u32::from_be_bytes(*bytes)).map_err(|_| short);
        let (key, rest) = rest.split_at_checked(length(key)?).ok_or(short)?;
        let (entry, rest) = rest.split_at_checked(length(entry)?).ok_or(short)?;
        bytes = rest;
        let revision = Revision(u64::from_be_bytes(*revision));
        if commits.last().is_none_or(|commit: &Commit| commit.revision != revision) {
            commits.push(Commit { revision, writes: Vec::new() });
        }
        if key.is_empty() && entry.is_empty() {
            continue;
        }
        let key = std::str::from_utf8(key).ok().filter(|key| !key.is_empty());
        let key = key.ok_or(FormatError::Key)?.into();
        let StoredEntry { replaces, value } = format::decode_entry(entry)?;
        let value = value.map(bytes::Bytes::copy_from_slice);
        if let Some(commit) = commits.last_mut() {
            commit.writes.push(KeyWrite { key, value, replaces });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Rules of the API server specification.

    use redb::backends::InMemoryBackend;

    use super::*;

    fn commit(revision: u64, key: &str, bytes: usize) -> Commit {
        let value = Some(vec![b'x'; bytes].into());
        let write = KeyWrite { key: key.into(), value, replaces: None };
        Commit { revision: Revision(revision), writes: vec![write] }
    }

    fn append(journal: &mut Journal, commits: &[Commit]) {
        assert!(journal.prepare(commits));
        journal.write().unwrap();
    }

    fn found(journal: &mut Journal, round: u64, synced: bool) -> Option<Vec<Commit>> {
        journal.read(round, synced).ok().map(|found| found.commits)
    }

    fn new() -> Journal {
        let mut journal = Journal::new(Box::new(InMemoryBackend::new()), 1 << 20);
        journal.begin(1);
        journal
    }

    #[test]
    fn r196_what_is_written_is_read() {
        let mut journal = new();
        let gone = KeyWrite { key: "/a".into(), value: None, replaces: Some(Revision(1)) };
        let both =
            vec![gone, KeyWrite { key: "/b".into(), value: Some("".into()), replaces: None }];
        let commits = [
            commit(1, "/a", 10_000),
            Commit { revision: Revision(2), writes: both },
            Commit { revision: Revision(3), writes: Vec::new() },
        ];
        append(&mut journal, &commits[..1]);
        append(&mut journal, &commits[1..]);
        assert_eq!(found(&mut journal, 1, true).unwrap(), commits);
        assert_eq!(found(&mut journal, 2, true).unwrap(), [], "another round");
    }

    #[test]
    fn r196_bytes_are_as_documented() {
        let mut journal = new();
        append(&mut journal, &[commit(0x0102, "/a", 1)]);
        let mut bytes = [0; HEADER_BYTES + 16 + 2 + 10 + 1];
        journal.storage.read(0, &mut bytes).unwrap();
        let checksum = crc32fast::hash(&bytes[4..52]);
        assert_eq!(bytes[..4], checksum.to_be_bytes());
        assert_eq!(bytes[4..24], [0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..40], [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 2, 0, 0, 0, 10]);
        assert_eq!(bytes[40..], *b"/a\x01\0\0\0\0\0\0\0\0x\0");
        assert_eq!(journal.size(), GROWTH_BYTES as u64);
        append(&mut journal, &[commit(0x0103, "/a", 1)]);
        let mut next = [0; 4];
        journal.storage.read(4096 + 16, &mut next).unwrap();
        assert_eq!(next, checksum.to_be_bytes(), "the frame before");
    }

    #[test]
    fn r186_rounds_do_not_mix() {
        let mut journal = new();
        for revision in 1..10 {
            append(&mut journal, &[commit(revision, "/a", 100)]);
        }
        journal.begin(2);
        append(&mut journal, &[commit(10, "/a", 100)]);
        let revisions: Vec<u64> =
            found(&mut journal, 2, true).unwrap().iter().map(|c| c.revision.0).collect();
        assert_eq!(revisions, [10]);
        // The same round begun anew: what follows the new frame did not follow it when it was written.
        let mut journal = new();
        append(&mut journal, &[commit(1, "/a", 100)]);
        append(&mut journal, &[commit(2, "/a", 100)]);
        journal.begin(1);
        append(&mut journal, &[commit(3, "/b", 100)]);
        assert_eq!(found(&mut journal, 1, false).unwrap(), [commit(3, "/b", 100)]);
    }

    #[test]
    fn r186_a_hole_ends_what_counts_and_is_damage_where_every_frame_was_synced() {
        let mut journal = new();
        for revision in 1..4 {
            append(&mut journal, &[commit(revision, "/a", 100)]);
        }
        journal.storage.write(4096 + 50, b"!").unwrap();
        assert_eq!(found(&mut journal, 1, false).unwrap(), [commit(1, "/a", 100)]);
        let error = journal.read(1, true).err().unwrap();
        assert!(matches!(error, JournalError::Format(FormatError::Journal { at: 4096 })));
        // The last one may be torn: it was never acknowledged.
        journal.storage.write(2 * 4096 + 50, b"!").unwrap();
        assert_eq!(found(&mut journal, 1, true).unwrap(), [commit(1, "/a", 100)]);
    }

    #[test]
    fn r196_it_is_as_large_as_it_may_be_and_not_larger() {
        let mut journal = new();
        let mut count = 0;
        while journal.prepare(&[commit(count + 1, "/a", 100_000)]) {
            journal.write().unwrap();
            count += 1;
        }
        assert!(journal.fits());
        assert_eq!(count, 10);
        assert_eq!(found(&mut journal, 1, true).unwrap().len(), 10);
        assert!(!journal.prepare(&[commit(99, "/a", 1 << 20)]));
        assert!(!journal.fits());
        journal.clear().unwrap();
        assert_eq!(journal.size(), 0);
        assert!(!journal.read(1, true).ok().unwrap().used);
    }
}
