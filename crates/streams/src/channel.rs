//! Channels over WebSocket messages: which subprotocols there are, and what a message means in each.
//! Messages come whole from a WebSocket library; frames of WebSocket itself never come here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut, Bytes, BytesMut};

/// Standard input, or the first data channel of a forwarded port.
pub const STDIN: u8 = 0;
/// Standard output.
pub const STDOUT: u8 = 1;
/// Standard error.
pub const STDERR: u8 = 2;
/// The outcome of a command.
pub const ERROR: u8 = 3;
/// Sizes of the terminal.
pub const RESIZE: u8 = 4;
/// Closes another channel, in version 5.
pub const CLOSE: u8 = 255;

/// A subprotocol of channels (R126).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `v5.channel.k8s.io`: channels can be closed.
    V5,
    /// `v4.channel.k8s.io`: the outcome is a Status.
    V4,
    /// `v4.base64.channel.k8s.io`: as version 4, in text.
    V4Text,
    /// `channel.k8s.io`, or no subprotocol: the outcome is a sentence.
    V1,
    /// `base64.channel.k8s.io`: as version 1, in text.
    V1Text,
}

/// Every subprotocol that commands are served with, the best first.
pub const COMMAND: [Protocol; 5] =
    [Protocol::V5, Protocol::V4, Protocol::V4Text, Protocol::V1, Protocol::V1Text];

/// Every subprotocol that ports are forwarded with over plain channels (R130).
pub const FORWARD: [Protocol; 2] = [Protocol::V4, Protocol::V4Text];

/// The subprotocol whose messages carry SPDY frames (R129).
pub const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

impl Protocol {
    /// The name clients ask for.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::V5 => "v5.channel.k8s.io",
            Protocol::V4 => "v4.channel.k8s.io",
            Protocol::V4Text => "v4.base64.channel.k8s.io",
            Protocol::V1 => "channel.k8s.io",
            Protocol::V1Text => "base64.channel.k8s.io",
        }
    }

    /// Whether messages are text: a digit, then base64.
    #[must_use]
    pub fn text(self) -> bool {
        matches!(self, Protocol::V4Text | Protocol::V1Text)
    }

    /// Whether the outcome is a Status rather than a sentence.
    #[must_use]
    pub fn outcome_is_status(self) -> bool {
        matches!(self, Protocol::V5 | Protocol::V4 | Protocol::V4Text)
    }

    /// What a message means.
    #[must_use]
    pub fn decode(self, message: Bytes) -> ChannelMessage {
        let Some((&first, _)) = message.split_first() else { return ChannelMessage::Nothing };
        let rest = message.slice(1..);
        if self == Protocol::V5 && first == CLOSE {
            return match rest.as_ref() {
                [channel] => ChannelMessage::Close(*channel),
                _ => ChannelMessage::Broken,
            };
        }
        if !self.text() {
            return ChannelMessage::Data(first, rest);
        }
        match (first.checked_sub(b'0'), STANDARD.decode(&rest)) {
            (Some(channel), Ok(bytes)) => ChannelMessage::Data(channel, bytes.into()),
            _ => ChannelMessage::Nothing,
        }
    }

    /// A message that carries these bytes on a channel.
    #[must_use]
    pub fn encode(self, channel: u8, bytes: &[u8]) -> Bytes {
        if !self.text() {
            let mut message = BytesMut::with_capacity(bytes.len() + 1);
            message.put_u8(channel);
            message.put_slice(bytes);
            return message.freeze();
        }
        let mut message = String::with_capacity(bytes.len().div_ceil(3) * 4 + 1);
        message.push(char::from(b'0'.saturating_add(channel)));
        STANDARD.encode_string(bytes, &mut message);
        message.into()
    }

    /// A message that closes a channel; `None` where the protocol has none.
    #[must_use]
    pub fn close(self, channel: u8) -> Option<Bytes> {
        (self == Protocol::V5).then(|| Bytes::copy_from_slice(&[CLOSE, channel]))
    }
}

/// What a message means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelMessage {
    /// Bytes on a channel; none at all says that the other side is there.
    Data(u8, Bytes),
    /// The other side writes no more on this channel.
    Close(u8),
    /// Nothing that anybody could use; to be passed over.
    Nothing,
    /// A message that breaks the protocol: the connection ends.
    Broken,
}

/// The first protocol the client asks for that is offered; a client that asks for none gets version 1
/// if that is offered, and no name.
///
/// `asked` is the list of names as they stand in `Sec-WebSocket-Protocol`.
#[must_use]
pub fn negotiate(
    requested: &str,
    offered: &[Protocol],
) -> Option<(Protocol, Option<&'static str>)> {
    let mut names = requested.split(',').map(str::trim).filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        // Old clients name no protocol, and mean binary channels.
        let plain = if offered.contains(&Protocol::V1) { Protocol::V1 } else { Protocol::V4 };
        return offered.contains(&plain).then_some((plain, None));
    }
    names
        .find_map(|name| offered.iter().find(|protocol| protocol.name() == name))
        .map(|protocol| (*protocol, Some(protocol.name())))
}

/// Every subprotocol of a stream that only the server writes, such as a log: messages are its bytes, or its
/// bytes as base64 (R123a).
pub const ONE_WAY: [&str; 2] = ["binary.k8s.io", "base64.binary.k8s.io"];

/// Whether the messages of such a stream are text, and the name to answer with; none if the client asks for
/// others only. One that asks for none gets bytes.
#[must_use]
pub fn negotiate_one_way(requested: &str) -> Option<(bool, Option<&'static str>)> {
    let mut names = requested.split(',').map(str::trim).filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return Some((false, None));
    }
    let [_, text] = ONE_WAY;
    names
        .find_map(|name| ONE_WAY.into_iter().find(|own| *own == name))
        .map(|own| (own == text, Some(own)))
}

/// A message of such a stream.
#[must_use]
pub fn encode_one_way(text: bool, bytes: Bytes) -> Bytes {
    if text { STANDARD.encode(bytes).into() } else { bytes }
}

/// Columns and rows out of a message on the resize channel; members of any case, as Go reads them.
#[must_use]
pub fn terminal_size(bytes: &[u8]) -> Option<(u16, u16)> {
    let value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    size_of(&value)
}

/// Sizes from a stream of JSON objects, one after the other with nothing between them (R131).
#[derive(Debug, Default)]
pub struct Sizes {
    pending: Vec<u8>,
}

/// An object with a size is some forty bytes; more than this without an end is thrown away.
const SIZE_BYTES_MAX: usize = 1024;

impl Sizes {
    /// Takes bytes and gives the sizes that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<(u16, u16)> {
        let mut sizes = Vec::new();
        for part in bytes.chunks(SIZE_BYTES_MAX) {
            self.pending.extend_from_slice(part);
            let mut values = serde_json::Deserializer::from_slice(&self.pending)
                .into_iter::<serde_json::Value>();
            let mut broken = false;
            let mut used = 0;
            while let Some(value) = values.next() {
                match value {
                    Ok(value) => {
                        sizes.extend(size_of(&value));
                        used = values.byte_offset();
                    }
                    Err(error) => {
                        broken = !error.is_eof();
                        break;
                    }
                }
            }
            self.pending.drain(..used.min(self.pending.len()));
            if broken || self.pending.len() > SIZE_BYTES_MAX {
                self.pending.clear();
            }
        }
        sizes
    }
}

fn size_of(value: &serde_json::Value) -> Option<(u16, u16)> {
    let members = value.as_object()?;
    let number = |wanted: &str| {
        let found = members.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.and_then(|(_, value)| value.as_u64()).and_then(|number| u16::try_from(number).ok())
    };
    Some((number("width")?, number("height")?))
}
