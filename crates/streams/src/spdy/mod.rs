//! SPDY/3.1 as Kubernetes speaks it: streams with headers over one connection, without flow control.
//!
//! ```text
//!   bytes ──► Decoder ──► Frame          Frame ──► encode ──► bytes
//!                │                          │
//!                └─ headers: one zlib stream in each direction, with SPDY's dictionary
//! ```
//!
//! Neither end of Kubernetes announces windows or minds them: a slow reader is felt through the
//! socket. Both roles use the same frames; who opens odd streams and who even ones is for the user
//! of this room to know.

mod decode;
mod encode;
mod headers;

use bytes::Bytes;

pub use decode::Decoder;
pub use encode::Encoder;
pub use headers::Headers;

/// The payload of a control frame may not be longer.
pub const CONTROL_BYTES_MAX: usize = 64 * 1024;

/// Headers of one frame may not be longer once they are inflated.
pub const HEADER_BYTES_MAX: usize = 32 * 1024;

/// One frame may not have more headers.
pub const HEADERS_MAX: u32 = 100;

/// The reset status of a stream that breaks the protocol.
pub const PROTOCOL_ERROR: u32 = 1;
/// The reset status of a stream that is not there.
pub const INVALID_STREAM: u32 = 2;
/// The reset status of a stream that is not wanted.
pub const REFUSED_STREAM: u32 = 3;
/// The reset status of a stream that nobody needs any more.
pub const CANCEL: u32 = 5;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpdyFrame {
    /// `SYN_STREAM`: the sender opens a stream.
    Open {
        /// Its number: odd from clients, even from servers.
        stream: u32,
        /// What it is for.
        headers: Headers,
        /// The sender writes nothing on it.
        fin: bool,
        /// The sender reads nothing from it.
        unidirectional: bool,
    },
    /// `SYN_REPLY`: the receiver takes the stream.
    Reply {
        /// Its number.
        stream: u32,
        /// What the receiver says about it.
        headers: Headers,
        /// The sender writes nothing on it.
        fin: bool,
    },
    /// `RST_STREAM`: the stream is over in both directions.
    Reset {
        /// Its number.
        stream: u32,
        /// Why.
        status: u32,
    },
    /// `SETTINGS`: nothing in it concerns us.
    Settings,
    /// `PING`: to be sent back by whoever did not make the number.
    Ping {
        /// Odd from clients, even from servers.
        id: u32,
    },
    /// `GOAWAY`: no more streams are taken.
    GoAway {
        /// The last stream that was taken.
        last: u32,
        /// Why.
        status: u32,
    },
    /// `HEADERS`: more headers for a stream.
    Headers {
        /// Its number.
        stream: u32,
        /// More of them.
        headers: Headers,
        /// The sender writes no more on it.
        fin: bool,
    },
    /// `WINDOW_UPDATE`: not minded.
    Window {
        /// Its number; zero is the connection.
        stream: u32,
        /// How many more bytes.
        delta: u32,
    },
    /// Bytes on a stream: a data frame, or as much of one as has arrived.
    Data {
        /// Its number.
        stream: u32,
        /// The bytes.
        bytes: Bytes,
        /// The sender writes no more on it.
        fin: bool,
    },
}

/// Why bytes are no frames. The connection cannot be read any further: its headers depend on all
/// headers before them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is of another version.
    #[error("the frame is of SPDY version {0}, not 3")]
    Version(u16),
    /// The frame is longer than any that is needed.
    #[error("a control frame of {0} bytes is too long")]
    TooLong(usize),
    /// The frame is shorter or longer than its kind, or says what may not be.
    #[error("a frame of kind {0} is malformed")]
    Malformed(u16),
    /// Stream zero is the connection.
    #[error("a frame names stream 0")]
    StreamZero,
    /// The headers cannot be inflated.
    #[error("headers could not be inflated")]
    Inflate,
    /// There are more headers, or longer ones, than any client needs.
    #[error("headers are too many or too long")]
    TooManyHeaders,
    /// The headers do not fit their lengths, or a name stands twice.
    #[error("headers are malformed")]
    Headers,
}

/// The number of a kind of control frame.
mod kind {
    pub(super) const SYN_STREAM: u16 = 1;
    pub(super) const SYN_REPLY: u16 = 2;
    pub(super) const RST_STREAM: u16 = 3;
    pub(super) const SETTINGS: u16 = 4;
    pub(super) const PING: u16 = 6;
    pub(super) const GOAWAY: u16 = 7;
    pub(super) const HEADERS: u16 = 8;
    pub(super) const WINDOW_UPDATE: u16 = 9;
}

const FLAG_FIN: u8 = 1;
const FLAG_UNIDIRECTIONAL: u8 = 2;
const VERSION: u16 = 3;
/// Stream numbers have 31 bits.
const STREAM_MASK: u32 = 0x7fff_ffff;
/// Lengths of frames have 24 bits.
const LENGTH_MASK: u32 = 0x00ff_ffff;
