//! All objects of one state as a stream of bytes, for whoever saves them elsewhere.
//!
//! The state is immutable, so however long the stream takes, it is the state at one revision, and no writer
//! waits for it. History is not part of it. Where the bytes go never lives here.
//!
//! ```text
//!   tenure-snapshot 1 REVISION OBJECTS\n        then for each object:
//!   revision (8 bytes) │ length of the key (4) │ length of the value (4) │ key │ value
//! ```

use std::io::{self, Read};
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use tenure_core::Revision;
use tenure_store::{DEFAULT_VALUE_BYTES_MAX, LogEntry};

use crate::snapshot::World;

/// The first word of a stream, and the version of its form.
const NAME: &str = "tenure-snapshot 1";
/// The first line is no longer than this.
const HEAD_BYTES_MAX: usize = 128;
/// No key is longer than this: a kind, a namespace and a name.
const KEY_BYTES_MAX: usize = 4096;

/// The sending end.
#[derive(Debug)]
pub struct Transfer {
    world: Arc<World>,
    /// The last key that was sent; none before the first line.
    sent: Option<Arc<str>>,
}

impl Transfer {
    /// Sends this state.
    #[must_use]
    pub fn new(world: Arc<World>) -> Transfer {
        Transfer { world, sent: None }
    }

    /// The next bytes, a little more than asked for; none at the end.
    pub fn next(&mut self, bytes: usize) -> Option<Bytes> {
        let mut chunk = BytesMut::with_capacity(bytes.saturating_add(bytes / 4));
        if self.sent.is_none() {
            let head = format!("{NAME} {} {}\n", self.world.revision(), self.world.len());
            chunk.put_slice(head.as_bytes());
        }
        let mut last = None;
        for record in self.world.range("", self.sent.as_deref()) {
            let (key, value) = (record.key(), record.bytes());
            let length = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
            chunk.put_u64(record.revision().0);
            chunk.put_u32(length(key.len()));
            chunk.put_u32(length(value.len()));
            chunk.put_slice(key.as_bytes());
            chunk.put_slice(value);
            last = Some(key);
            if chunk.len() >= bytes {
                break;
            }
        }
        // An empty state has a first line and nothing else; no key is empty.
        self.sent = Some(last.cloned().or(self.sent.take()).unwrap_or_default());
        (!chunk.is_empty()).then(|| chunk.freeze())
    }
}

/// The receiving end: hands over every object, or says that the stream is cut or no such stream.
#[derive(Debug)]
pub struct Received<R> {
    from: R,
    /// The revision of the state.
    pub revision: Revision,
    /// How many objects there are.
    pub objects: u64,
    left: u64,
}

impl<R: Read> Received<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// The stream cannot be read, or is something else.
    pub fn new(mut from: R) -> io::Result<Received<R>> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') && line.len() < HEAD_BYTES_MAX {
            let mut byte = [0];
            from.read_exact(&mut byte)?;
            line.extend(byte);
        }
        let line = String::from_utf8_lossy(&line);
        let mut words = line.strip_prefix(NAME).unwrap_or_default().split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(revision), Some(objects)) = (number(), number()) else {
            return Err(strange("it does not begin as one"));
        };
        Ok(Received { from, revision: Revision(revision), objects, left: objects })
    }

    fn entry(&mut self) -> io::Result<LogEntry> {
        let revision = Revision(u64::from_be_bytes(self.array()?));
        let key_bytes = u32::from_be_bytes(self.array()?) as usize;
        let value_bytes = u32::from_be_bytes(self.array()?) as usize;
        let fits = (1..=KEY_BYTES_MAX).contains(&key_bytes)
            && value_bytes <= DEFAULT_VALUE_BYTES_MAX
            && revision <= self.revision;
        if !fits {
            return Err(strange("it holds something that is no object"));
        }
        let mut key = vec![0; key_bytes];
        self.from.read_exact(&mut key)?;
        let mut value = vec![0; value_bytes];
        self.from.read_exact(&mut value)?;
        let key = String::from_utf8(key).map_err(|_| strange("a key is no text"))?;
        Ok(LogEntry { revision, key: key.into(), value: Some(value.into()) })
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl<R: Read> Iterator for Received<R> {
    type Item = io::Result<LogEntry>;

    fn next(&mut self) -> Option<io::Result<LogEntry>> {
        self.left = self.left.checked_sub(1)?;
        let entry = self.entry();
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry)
    }
}

fn strange(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("this is no stream of objects: {why}"))
}
