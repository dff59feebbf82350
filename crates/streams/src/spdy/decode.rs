//! From bytes to frames.

use bytes::{Buf, Bytes, BytesMut};

use super::headers::Unpacker;
use super::{
    CONTROL_BYTES_MAX, FLAG_FIN, FLAG_UNIDIRECTIONAL, FrameError, LENGTH_MASK, STREAM_MASK,
    SpdyFrame, VERSION, kind,
};

/// Reads frames of one direction of a connection.
///
/// It holds at most what was pushed since the last `None` and one control frame: data is handed out as
/// it arrives.
pub struct Decoder {
    buffer: BytesMut,
    unpacker: Unpacker,
    state: DecoderState,
}

enum DecoderState {
    /// A frame begins.
    Head,
    /// Within a data frame.
    Data { stream: u32, left: usize, fin: bool },
    /// Within a control frame nobody knows.
    Skip { left: usize },
    /// Nothing can be read any more.
    Failed(FrameError),
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { buffer: BytesMut::new(), unpacker: Unpacker::new(), state: DecoderState::Head }
    }
}

impl Decoder {
    /// Takes bytes as they came.
    pub fn push(&mut self, bytes: &[u8]) {
        if !matches!(self.state, DecoderState::Failed(_)) {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// How many bytes wait to become frames.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// The next frame; `None` when more bytes are needed. After an error there is no more.
    pub fn next_frame(&mut self) -> Result<Option<SpdyFrame>, FrameError> {
        let result = self.step();
        if let Err(error) = &result {
            self.state = DecoderState::Failed(error.clone());
            self.buffer.clear();
        }
        result
    }

    fn step(&mut self) -> Result<Option<SpdyFrame>, FrameError> {
        loop {
            match &mut self.state {
                DecoderState::Failed(error) => return Err(error.clone()),
                DecoderState::Skip { left } => {
                    let part = (*left).min(self.buffer.len());
                    self.buffer.advance(part);
                    *left -= part;
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.state = DecoderState::Head;
                }
                DecoderState::Data { stream, left, fin } => {
                    let part = (*left).min(self.buffer.len());
                    if part == 0 && *left > 0 {
                        return Ok(None);
                    }
                    *left -= part;
                    let (stream, last) = (*stream, *left == 0);
                    let fin = *fin && last;
                    if last {
                        self.state = DecoderState::Head;
                    }
                    let bytes = self.buffer.split_to(part).freeze();
                    return Ok(Some(SpdyFrame::Data { stream, bytes, fin }));
                }
                DecoderState::Head => match self.head()? {
                    DecodeStep::Wait => return Ok(None),
                    DecodeStep::Frame(frame) => return Ok(Some(frame)),
                    DecodeStep::Again => {}
                },
            }
        }
    }

    fn head(&mut self) -> Result<DecodeStep, FrameError> {
        let mut peek = self.buffer.as_ref();
        let (Ok(first), Ok(second)) = (peek.try_get_u32(), peek.try_get_u32()) else {
            return Ok(DecodeStep::Wait);
        };
        let [flags, ..] = second.to_be_bytes();
        let length = usize::try_from(second & LENGTH_MASK).unwrap_or(usize::MAX);
        if first & !STREAM_MASK == 0 {
            if first == 0 {
                return Err(FrameError::StreamZero);
            }
            self.buffer.advance(8);
            let fin = flags & FLAG_FIN != 0;
            self.state = DecoderState::Data { stream: first, left: length, fin };
            return Ok(DecodeStep::Again);
        }
        let [high, low, kind_high, kind_low] = first.to_be_bytes();
        let version = u16::from_be_bytes([high & 0x7f, low]);
        let kind = u16::from_be_bytes([kind_high, kind_low]);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        if !known(kind) {
            self.buffer.advance(8);
            self.state = DecoderState::Skip { left: length };
            return Ok(DecodeStep::Again);
        }
        if length > CONTROL_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        if peek.len() < length {
            return Ok(DecodeStep::Wait);
        }
        self.buffer.advance(8);
        let payload = self.buffer.split_to(length).freeze();
        self.control(kind, flags, payload).map(DecodeStep::Frame)
    }

    fn control(&mut self, kind: u16, flags: u8, payload: Bytes) -> Result<SpdyFrame, FrameError> {
        let mut payload = payload;
        let mut number = || payload.try_get_u32().map_err(|_| FrameError::Malformed(kind));
        let fin = flags & FLAG_FIN != 0;
        let frame = match kind {
            kind::SYN_STREAM => {
                let stream = named(number()?)?;
                number()?;
                payload.try_get_u16().map_err(|_| FrameError::Malformed(kind))?;
                let headers = self.unpacker.unpack(&payload)?;
                let unidirectional = flags & FLAG_UNIDIRECTIONAL != 0;
                return Ok(SpdyFrame::Open { stream, headers, fin, unidirectional });
            }
            kind::SYN_REPLY => {
                let stream = named(number()?)?;
                let headers = self.unpacker.unpack(&payload)?;
                return Ok(SpdyFrame::Reply { stream, headers, fin });
            }
            kind::HEADERS => {
                let stream = named(number()?)?;
                let headers = self.unpacker.unpack(&payload)?;
                return Ok(SpdyFrame::Headers { stream, headers, fin });
            }
            kind::RST_STREAM => SpdyFrame::Reset { stream: named(number()?)?, status: number()? },
            kind::PING => SpdyFrame::Ping { id: number()? },
            kind::GOAWAY => SpdyFrame::GoAway { last: number()? & STREAM_MASK, status: number()? },
            kind::WINDOW_UPDATE => {
                SpdyFrame::Window { stream: number()? & STREAM_MASK, delta: number()? }
            }
            _ => return Ok(SpdyFrame::Settings),
        };
        if payload.has_remaining() {
            return Err(FrameError::Malformed(kind));
        }
        Ok(frame)
    }
}

enum DecodeStep {
    /// More bytes are needed.
    Wait,
    /// Here is one.
    Frame(SpdyFrame),
    /// The state has moved.
    Again,
}

fn known(number: u16) -> bool {
    matches!(
        number,
        kind::SYN_STREAM
            | kind::SYN_REPLY
            | kind::RST_STREAM
            | kind::SETTINGS
            | kind::PING
            | kind::GOAWAY
            | kind::HEADERS
            | kind::WINDOW_UPDATE
    )
}

fn named(stream: u32) -> Result<u32, FrameError> {
    match stream & STREAM_MASK {
        0 => Err(FrameError::StreamZero),
        stream => Ok(stream),
    }
}
