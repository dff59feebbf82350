//! Headers of streams: names and values, packed with zlib and SPDY's dictionary.
//!
//! ```text
//!   connection, one direction:  78 bb <adler of the dictionary> | block of frame 1 | block of frame 2 …
//! ```
//!
//! We pack by not packing: every block is sent as it is, in stored deflate blocks. Headers here are a
//! few words long, a compressor costs hundreds of kilobytes for every connection, and what is not
//! packed tells nobody anything by its length. What others pack is unpacked in full.

use std::sync::OnceLock;

use bytes::{Buf, BufMut, Bytes};
use flate2::{Decompress, FlushDecompress, Status};

use super::{FrameError, HEADER_BYTES_MAX, HEADERS_MAX};

/// Names and values, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// These, in this order.
    #[must_use]
    pub fn new(pairs: &[(&str, &str)]) -> Headers {
        Headers(pairs.iter().map(|(n, v)| (n.to_ascii_lowercase(), (*v).to_owned())).collect())
    }

    /// The value of a name in any case; empty if there is none.
    #[must_use]
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The words that stand in the dictionary with their length before them.
const WORDS: &[&str] = &[
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// What stands in the dictionary after the words.
const TAIL: &str = concat!(
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request",
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented",
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 ",
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,",
    "application/xml,application/xhtml+xml,text/plain,text/javascript,public",
    "privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
);

/// The first bytes of a zlib stream that needs SPDY's dictionary.
const ZLIB_HEAD: [u8; 6] = [0x78, 0xbb, 0xe3, 0xc6, 0xa7, 0xc2];

/// A stored deflate block is at most this long.
const STORED_BYTES_MAX: usize = 0xffff;

/// The dictionary of SPDY/3, 1,423 bytes.
pub(super) fn dictionary() -> &'static [u8] {
    static DICTIONARY: OnceLock<Vec<u8>> = OnceLock::new();
    DICTIONARY.get_or_init(|| {
        let mut bytes = Vec::with_capacity(1423);
        for word in WORDS {
            put_text(&mut bytes, word);
        }
        bytes.put_slice(TAIL.as_bytes());
        bytes
    })
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.put_slice(text.as_bytes());
}

/// Packs headers; one for each connection and direction.
#[derive(Debug, Default)]
pub(super) struct Packer {
    begun: bool,
}

impl Packer {
    pub(super) fn pack(&mut self, headers: &Headers, out: &mut Vec<u8>) {
        if !self.begun {
            self.begun = true;
            out.put_slice(&ZLIB_HEAD);
        }
        let mut block = Vec::new();
        block.put_u32(u32::try_from(headers.0.len()).unwrap_or(u32::MAX));
        for (name, value) in &headers.0 {
            put_text(&mut block, name);
            put_text(&mut block, value);
        }
        for part in block.chunks(STORED_BYTES_MAX) {
            put_stored(out, part);
        }
        // Go gives out what it has inflated only at an empty block, as every flush of zlib writes.
        put_stored(out, &[]);
    }
}

/// A stored block that is not the last one.
fn put_stored(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.put_u8(0);
    out.put_u16_le(length);
    out.put_u16_le(!length);
    out.put_slice(bytes);
}

/// Unpacks headers; one for each connection and direction.
pub(super) struct Unpacker {
    inflate: Decompress,
    begun: bool,
}

impl Unpacker {
    pub(super) fn new() -> Unpacker {
        Unpacker { inflate: Decompress::new(false), begun: false }
    }

    /// The headers of one block.
    pub(super) fn unpack(&mut self, packed: &[u8]) -> Result<Headers, FrameError> {
        let packed = if self.begun { packed } else { self.begin(packed)? };
        let mut block = Vec::new();
        self.inflate(packed, &mut block)?;
        parse(block.into())
    }

    /// Reads the head of the zlib stream and lays the dictionary where back references find it.
    fn begin<'a>(&mut self, packed: &'a [u8]) -> Result<&'a [u8], FrameError> {
        self.begun = true;
        let Some((head, rest)) = packed.split_at_checked(2) else {
            return Err(FrameError::Inflate);
        };
        let &[method, flags] = head else { return Err(FrameError::Inflate) };
        let sound = (u16::from(method) << 8 | u16::from(flags)) % 31 == 0;
        if method & 0x0f != 8 || !sound {
            return Err(FrameError::Inflate);
        }
        if flags & 0x20 == 0 {
            // A packer that uses no dictionary is as good.
            return Ok(rest);
        }
        let (id, rest) = rest.split_at_checked(4).ok_or(FrameError::Inflate)?;
        if ZLIB_HEAD.get(2..) != Some(id) {
            return Err(FrameError::Inflate);
        }
        let mut stored = Vec::new();
        put_stored(&mut stored, dictionary());
        self.inflate(&stored, &mut Vec::new())?;
        Ok(rest)
    }

    fn inflate(&mut self, mut packed: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
        let mut buffer = [0_u8; 4096];
        loop {
            let (read, wrote) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(packed, &mut buffer, FlushDecompress::Sync)
                .map_err(|_| FrameError::Inflate)?;
            let read = usize::try_from(self.inflate.total_in() - read).unwrap_or(usize::MAX);
            let wrote = usize::try_from(self.inflate.total_out() - wrote).unwrap_or(usize::MAX);
            packed = packed.get(read..).unwrap_or_default();
            out.extend_from_slice(buffer.get(..wrote).unwrap_or_default());
            if out.len() > HEADER_BYTES_MAX {
                return Err(FrameError::TooManyHeaders);
            }
            if status == Status::StreamEnd {
                // The stream lives as long as its connection.
                return Err(FrameError::Inflate);
            }
            if packed.is_empty() && wrote < buffer.len() {
                return Ok(());
            }
            if read == 0 && wrote == 0 {
                return Err(FrameError::Inflate);
            }
        }
    }
}

/// Reads a block that was unpacked.
fn parse(mut block: Bytes) -> Result<Headers, FrameError> {
    let count = block.try_get_u32().map_err(|_| FrameError::Headers)?;
    if count > HEADERS_MAX {
        return Err(FrameError::TooManyHeaders);
    }
    let mut headers: Vec<(String, String)> = Vec::new();
    for _ in 0..count {
        let name = text(&mut block)?;
        let value = text(&mut block)?;
        if name.is_empty() || headers.iter().any(|(other, _)| *other == name) {
            return Err(FrameError::Headers);
        }
        headers.push((name, value));
    }
    if block.has_remaining() {
        return Err(FrameError::Headers);
    }
    Ok(Headers(headers))
}

fn text(block: &mut Bytes) -> Result<String, FrameError> {
    let length = block.try_get_u32().map_err(|_| FrameError::Headers)?;
    let length = usize::try_from(length).map_err(|_| FrameError::Headers)?;
    if length > block.len() {
        return Err(FrameError::Headers);
    }
    let bytes = block.split_to(length);
    let text = String::from_utf8(bytes.into()).map_err(|_| FrameError::Headers)?;
    // Go sends several values with a zero between them; the first one counts.
    Ok(text.split('\0').next().unwrap_or_default().to_owned())
}
