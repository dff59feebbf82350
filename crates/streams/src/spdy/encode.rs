//! From frames to bytes.

use bytes::BufMut;

use super::headers::Packer;
use super::{
    FLAG_FIN, FLAG_UNIDIRECTIONAL, Headers, LENGTH_MASK, STREAM_MASK, SpdyFrame, VERSION, kind,
};

/// Writes frames of one direction of a connection.
///
/// INVARIANT: bytes of frames go out in the order in which they were encoded, for headers depend on all
/// headers before them.
#[derive(Debug, Default)]
pub struct Encoder {
    packer: Packer,
}

impl Encoder {
    /// Writes a frame. Data longer than a frame becomes several.
    pub fn encode(&mut self, frame: &SpdyFrame, out: &mut Vec<u8>) {
        match frame {
            SpdyFrame::Data { stream, bytes, fin } => data(*stream, bytes, *fin, out),
            SpdyFrame::Open { stream, headers, fin, unidirectional } => {
                let unidirectional = if *unidirectional { FLAG_UNIDIRECTIONAL } else { 0 };
                let mut payload = Vec::new();
                payload.put_u32(stream & STREAM_MASK);
                payload.put_u32(0);
                payload.put_u16(0);
                self.packer.pack(headers, &mut payload);
                control(kind::SYN_STREAM, fin_flag(*fin) | unidirectional, &payload, out);
            }
            SpdyFrame::Reply { stream, headers, fin } => {
                let payload = self.stream_headers(*stream, headers);
                control(kind::SYN_REPLY, fin_flag(*fin), &payload, out);
            }
            SpdyFrame::Headers { stream, headers, fin } => {
                let payload = self.stream_headers(*stream, headers);
                control(kind::HEADERS, fin_flag(*fin), &payload, out);
            }
            SpdyFrame::Reset { stream, status } => {
                control(kind::RST_STREAM, 0, &two(stream & STREAM_MASK, *status), out);
            }
            SpdyFrame::Settings => control(kind::SETTINGS, 0, &0_u32.to_be_bytes(), out),
            SpdyFrame::Ping { id } => control(kind::PING, 0, &id.to_be_bytes(), out),
            SpdyFrame::GoAway { last, status } => {
                control(kind::GOAWAY, 0, &two(last & STREAM_MASK, *status), out);
            }
            SpdyFrame::Window { stream, delta } => {
                control(kind::WINDOW_UPDATE, 0, &two(stream & STREAM_MASK, *delta), out);
            }
        }
    }

    fn stream_headers(&mut self, stream: u32, headers: &Headers) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.put_u32(stream & STREAM_MASK);
        self.packer.pack(headers, &mut payload);
        payload
    }
}

fn fin_flag(fin: bool) -> u8 {
    if fin { FLAG_FIN } else { 0 }
}

fn two(first: u32, second: u32) -> [u8; 8] {
    (u64::from(first) << 32 | u64::from(second)).to_be_bytes()
}

fn control(kind: u16, flags: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u32(u32::from(flags) << 24 | length(payload));
    out.put_slice(payload);
}

fn data(stream: u32, bytes: &[u8], fin: bool, out: &mut Vec<u8>) {
    let most = usize::try_from(LENGTH_MASK).unwrap_or(usize::MAX);
    let mut rest = bytes;
    loop {
        let (part, left) = rest.split_at(rest.len().min(most));
        let flags = fin_flag(fin && left.is_empty());
        out.put_u32(stream & STREAM_MASK);
        out.put_u32(u32::from(flags) << 24 | length(part));
        out.put_slice(part);
        if left.is_empty() {
            return;
        }
        rest = left;
    }
}

/// INVARIANT: payloads are no longer than 24 bits can say; headers are bounded by whoever makes them.
fn length(payload: &[u8]) -> u32 {
    u32::try_from(payload.len()).unwrap_or(LENGTH_MASK) & LENGTH_MASK
}
