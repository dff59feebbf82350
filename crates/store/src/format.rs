//! The bytes of one entry, as `docs/design/log-format.md` lists them.
//!
//! Encoding and decoding are pure; damaged bytes give an error, never a panic.

use tenure_core::Revision;

/// The newest version this build reads: a log with a journal beside it.
pub const FORMAT_VERSION: u64 = 2;
/// The version of a file that stands alone, such as a snapshot.
pub const FORMAT_VERSION_ALONE: u64 = 1;

/// How many bytes of a stored key hold the revision.
pub const REVISION_BYTES: usize = 8;
/// How many bytes precede the value in a stored entry.
pub const HEADER_BYTES: usize = 9;

const TAG_GONE: u8 = 0;
const TAG_VALUE: u8 = 1;

/// A stored entry without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEntry<'a> {
    /// The revision of the write that this one supersedes.
    pub replaces: Option<Revision>,
    /// The value; none means the key is gone.
    pub value: Option<&'a [u8]>,
}

/// Why stored bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Fewer bytes than the fixed part needs.
    #[error("the entry has {bytes} bytes, too few")]
    Short {
        /// How many there are.
        bytes: usize,
    },
    /// The key is empty or not UTF-8.
    #[error("the key is empty or not UTF-8")]
    Key,
    /// The first byte is none that this version knows.
    #[error("the tag {tag} is unknown")]
    Tag {
        /// The byte.
        tag: u8,
    },
    /// The journal has whole frames behind one that is not.
    #[error("the journal is damaged at byte {at}: what follows there is whole")]
    Journal {
        /// Where the damage begins.
        at: u64,
    },
    /// A deletion carries a value.
    #[error("a deletion carries {bytes} bytes")]
    Surplus {
        /// How many.
        bytes: usize,
    },
}

/// Appends the stored form of a key to `out`.
pub fn encode_key(revision: Revision, key: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&revision.0.to_be_bytes());
    out.extend_from_slice(key.as_bytes());
}

/// Reads the stored form of a key.
pub fn decode_key(bytes: &[u8]) -> Result<(Revision, &str), FormatError> {
    let (revision, key) = bytes
        .split_first_chunk::<REVISION_BYTES>()
        .ok_or(FormatError::Short { bytes: bytes.len() })?;
    match std::str::from_utf8(key) {
        Ok(key) if !key.is_empty() => Ok((Revision(u64::from_be_bytes(*revision)), key)),
        _ => Err(FormatError::Key),
    }
}

/// Appends the stored form of an entry to `out`.
pub fn encode_entry(entry: StoredEntry<'_>, out: &mut Vec<u8>) {
    out.push(if entry.value.is_some() { TAG_VALUE } else { TAG_GONE });
    let replaces = entry.replaces.unwrap_or(Revision::ZERO);
    out.extend_from_slice(&replaces.0.to_be_bytes());
    out.extend_from_slice(entry.value.unwrap_or_default());
}

/// Reads the stored form of an entry.
pub fn decode_entry(bytes: &[u8]) -> Result<StoredEntry<'_>, FormatError> {
    let short = FormatError::Short { bytes: bytes.len() };
    let (tag, rest) = bytes.split_first().ok_or(short)?;
    let (replaces, value) = rest.split_first_chunk::<REVISION_BYTES>().ok_or(short)?;
    let value = match *tag {
        TAG_VALUE => Some(value),
        TAG_GONE if value.is_empty() => None,
        TAG_GONE => return Err(FormatError::Surplus { bytes: value.len() }),
        tag => return Err(FormatError::Tag { tag }),
    };
    let replaces = match u64::from_be_bytes(*replaces) {
        0 => None,
        revision => Some(Revision(revision)),
    };
    Ok(StoredEntry { replaces, value })
}

#[cfg(test)]
mod tests {
    //! Rules of the dependencies specification (R48) and of the API server specification.

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn r48_keys_sort_by_revision_then_key() {
        let encoded = |revision, key| {
            let mut out = Vec::new();
            encode_key(Revision(revision), key, &mut out);
            out
        };
        assert!(encoded(1, "z") < encoded(2, "a"));
        assert!(encoded(255, "z") < encoded(256, "a"));
        assert!(encoded(2, "a") < encoded(2, "b"));
    }

    #[test]
    fn r196_bytes_are_as_documented() {
        let mut out = Vec::new();
        encode_key(Revision(0x0102), "/a", &mut out);
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 1, 2, b'/', b'a']);
        out.clear();
        encode_entry(StoredEntry { replaces: Some(Revision(3)), value: Some(b"v") }, &mut out);
        assert_eq!(out, [1, 0, 0, 0, 0, 0, 0, 0, 3, b'v']);
        out.clear();
        encode_entry(StoredEntry { replaces: None, value: None }, &mut out);
        assert_eq!(out, [0; HEADER_BYTES]);
    }

    #[test]
    fn r196_damaged_bytes_are_refused() {
        assert_eq!(decode_key(&[0; 7]), Err(FormatError::Short { bytes: 7 }));
        assert_eq!(decode_key(&[0; 8]), Err(FormatError::Key));
        assert_eq!(decode_key(&[0xff; 9]), Err(FormatError::Key));
        assert_eq!(decode_entry(&[1; 8]), Err(FormatError::Short { bytes: 8 }));
        assert_eq!(decode_entry(&[]), Err(FormatError::Short { bytes: 0 }));
        assert_eq!(decode_entry(&[2; 9]), Err(FormatError::Tag { tag: 2 }));
        assert_eq!(decode_entry(&[0; 10]), Err(FormatError::Surplus { bytes: 1 }));
    }

    proptest! {
        #[test]
        fn r196_any_bytes_decode_to_what_encodes_them(
            bytes in proptest::collection::vec(prop_oneof![0u8..3, any::<u8>()], 0..24)
        ) {
            let mut out = Vec::new();
            if let Ok(entry) = decode_entry(&bytes) {
                encode_entry(entry, &mut out);
                prop_assert_eq!(&out, &bytes);
            }
            out.clear();
            if let Ok((revision, key)) = decode_key(&bytes) {
                encode_key(revision, key, &mut out);
                prop_assert_eq!(&out, &bytes);
            }
        }
    }
}
