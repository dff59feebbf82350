//! Netlink: messages are written, carried out together, and the kernel's answer to each is read. What they
//! ask for is written elsewhere.
//!
//! ```text
//!   message = length kind flags sequence port   fixed part   attribute…
//!   attribute = length kind   value, or attributes
//! ```

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// The bytes before the fixed part of a message.
const HEADER: usize = 16;
/// What the kernel answers to each message.
const ERROR: u16 = 2;
/// This is a question and it wants an answer.
const ASKED: u16 = 0x1 | 0x4;
/// The mark of an attribute that holds attributes.
const NESTED: u16 = 0x8000;
/// More than the kernel says at once: it repeats what it refuses.
const ANSWER_MAX: usize = 32 << 10;

/// Makes what is there no more than once.
pub(super) const CREATE: u16 = 0x400;
/// Refuses what is there already.
pub(super) const EXCLUSIVE: u16 = 0x200;
/// Takes the place of what is there already.
pub(super) const REPLACE: u16 = 0x100;
/// Behind what is there already.
pub(super) const APPEND: u16 = 0x800;

/// A message in the making.
#[derive(Debug, Clone)]
pub(super) struct NetlinkMessage {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

impl NetlinkMessage {
    /// An empty message of a kind.
    pub(super) fn new(kind: u16, flags: u16) -> NetlinkMessage {
        NetlinkMessage { kind, flags, body: Vec::new() }
    }

    /// Adds a part without a name.
    pub(super) fn fixed(mut self, bytes: &[u8]) -> NetlinkMessage {
        self.body.extend_from_slice(bytes);
        self.pad();
        self
    }

    /// Adds an attribute.
    pub(super) fn with(self, kind: u16, value: &[u8]) -> NetlinkMessage {
        self.attribute(kind, |message| message.fixed_unpadded(value))
    }

    /// Adds an attribute that is a word with a zero behind it.
    pub(super) fn with_name(self, kind: u16, name: &str) -> NetlinkMessage {
        let mut bytes = name.as_bytes().to_vec();
        bytes.push(0);
        self.with(kind, &bytes)
    }

    /// Adds an attribute made of attributes.
    pub(super) fn nested(
        self,
        kind: u16,
        fill: impl FnOnce(NetlinkMessage) -> NetlinkMessage,
    ) -> NetlinkMessage {
        self.attribute(kind | NESTED, fill)
    }

    fn attribute(
        mut self,
        kind: u16,
        fill: impl FnOnce(NetlinkMessage) -> NetlinkMessage,
    ) -> NetlinkMessage {
        let begin = self.body.len();
        self.body.extend_from_slice(&[0; 2]);
        self.body.extend_from_slice(&kind.to_ne_bytes());
        let mut filled = fill(self);
        let length = u16::try_from(filled.body.len() - begin).unwrap_or(u16::MAX);
        if let Some(place) = filled.body.get_mut(begin..begin + 2) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        filled.pad();
        filled
    }

    fn fixed_unpadded(mut self, bytes: &[u8]) -> NetlinkMessage {
        self.body.extend_from_slice(bytes);
        self
    }

    fn pad(&mut self) {
        self.body.resize(self.body.len().next_multiple_of(4), 0);
    }

    /// The whole message.
    fn written(&self, sequence: u32, wants_answer: bool) -> Vec<u8> {
        let length = u32::try_from(HEADER + self.body.len()).unwrap_or(u32::MAX);
        let asked = if wants_answer { ASKED } else { 1 };
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&self.kind.to_ne_bytes());
        bytes.extend_from_slice(&(self.flags | asked).to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A message, and what a person calls what it does.
pub(super) type Step = (&'static str, NetlinkMessage);

/// A conversation with the kernel about one network namespace: that in which it was begun.
#[derive(Debug)]
pub(super) struct NetlinkSocket {
    socket: OwnedFd,
    sequence: u32,
}

impl NetlinkSocket {
    /// Begins it, about devices and routes or, with a protocol, something else.
    pub(super) fn open(protocol: Option<Protocol>) -> io::Result<NetlinkSocket> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        Ok(NetlinkSocket { socket, sequence: 0 })
    }

    /// Has all steps done, in one message to the kernel; the first that it refused (N48).
    pub(super) fn carry_out(&mut self, steps: &[Step]) -> Result<(), String> {
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for (_, message) in steps {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.extend(message.written(self.sequence, true));
        }
        self.send(&bytes)?;
        self.answers(first, steps)
    }

    /// Has all steps done or none: `begin` and `end` stand around them.
    pub(super) fn carry_out_together(
        &mut self,
        begin: &NetlinkMessage,
        steps: &[Step],
        end: &NetlinkMessage,
    ) -> Result<(), String> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = begin.written(self.sequence, false);
        let first = self.sequence.wrapping_add(1);
        for (_, message) in steps {
            self.sequence = self.sequence.wrapping_add(1);
            bytes.extend(message.written(self.sequence, true));
        }
        self.sequence = self.sequence.wrapping_add(1);
        bytes.extend(end.written(self.sequence, false));
        self.send(&bytes)?;
        self.answers(first, steps)
    }

    fn send(&self, bytes: &[u8]) -> Result<(), String> {
        let sent = rustix::io::retry_on_intr(|| send(&self.socket, bytes, SendFlags::empty()));
        match sent {
            Ok(sent) if sent == bytes.len() => Ok(()),
            Ok(_) => Err("ask the kernel: it took a part only".to_owned()),
            Err(error) => Err(format!("ask the kernel: {error}")),
        }
    }

    fn answers(&self, first: u32, steps: &[Step]) -> Result<(), String> {
        let mut open = steps.len();
        let mut refused = Ok(());
        let mut chunk = vec![0; ANSWER_MAX];
        while open > 0 {
            let got = rustix::io::retry_on_intr(|| {
                recv(&self.socket, chunk.as_mut_slice(), RecvFlags::empty())
            });
            let (length, _) = got.map_err(|error| format!("hear the kernel: {error}"))?;
            for (sequence, code) in errors(chunk.get(..length).unwrap_or_default()) {
                let index = sequence.wrapping_sub(first) as usize;
                let Some((step, _)) = steps.get(index) else {
                    if code != 0 && refused.is_ok() {
                        refused = Err(format!("ask the kernel: {}", said(code)));
                    }
                    continue;
                };
                open = open.saturating_sub(1);
                if code != 0 && refused.is_ok() {
                    refused = Err(format!("{step}: {}", said(code)));
                }
            }
        }
        refused
    }
}

fn said(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code.wrapping_neg())
}

/// The answers in what came from the kernel: which message, and the error or zero.
fn errors(mut bytes: &[u8]) -> Vec<(u32, i32)> {
    let mut found = Vec::new();
    while let Some(length) = number(bytes, 0).map(|length| length as usize) {
        let message = bytes.get(..length).unwrap_or(bytes);
        let kind = message.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes);
        if kind == Some(ERROR)
            && let (Some(sequence), Some(code)) = (number(message, 8), number(message, HEADER))
        {
            found.push((sequence, code.cast_signed()));
        }
        // A message without a length would never end.
        bytes = bytes.get(length.max(HEADER).next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use super::*;

    #[test]
    fn n48_attributes_say_how_long_they_are_and_begin_at_whole_words() {
        let message = NetlinkMessage::new(16, CREATE)
            .fixed(&[7; 16])
            .with_name(3, "eth0")
            .nested(18, |inner| inner.with(1, b"ab"));
        let bytes = message.written(9, true);
        assert_eq!(number(&bytes, 0), Some(u32::try_from(bytes.len()).unwrap()));
        assert_eq!(&bytes[4..8], [16_u16.to_ne_bytes(), (CREATE | ASKED).to_ne_bytes()].concat());
        assert_eq!(number(&bytes, 8), Some(9));
        let rest = &bytes[32..];
        assert_eq!(&rest[..4], [9_u16.to_ne_bytes(), 3_u16.to_ne_bytes()].concat());
        assert_eq!(&rest[4..12], b"eth0\0\0\0\0");
        let nested = &rest[12..];
        assert_eq!(&nested[..4], [12_u16.to_ne_bytes(), (18 | NESTED).to_ne_bytes()].concat());
        assert_eq!(&nested[4..8], [6_u16.to_ne_bytes(), 1_u16.to_ne_bytes()].concat());
        assert_eq!(&nested[8..], b"ab\0\0");
    }

    #[test]
    fn n48_every_answer_in_a_reply_is_read_and_a_cut_one_ends_it() {
        let answer = |sequence: u32, code: i32| {
            let mut bytes = 36_u32.to_ne_bytes().to_vec();
            bytes.extend(ERROR.to_ne_bytes());
            bytes.extend([0; 2]);
            bytes.extend(sequence.to_ne_bytes());
            bytes.extend([0; 4]);
            bytes.extend(code.to_ne_bytes());
            bytes.extend([0; 16]);
            bytes
        };
        let both = [answer(1, 0), answer(2, -17)].concat();
        assert_eq!(errors(&both), [(1, 0), (2, -17)]);
        assert_eq!(errors(&both[..50]), [(1, 0)]);
        assert_eq!(errors(&[0; 40]), []);
        assert_eq!(said(-17).kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn n48_a_step_that_the_kernel_refuses_is_named() {
        let mut socket = NetlinkSocket::open(None).unwrap();
        // No device has this number, whoever asks.
        let step = super::super::links::switch_on(i32::MAX);
        let error = socket.carry_out(&[("switch on a device", step)]).unwrap_err();
        assert!(error.starts_with("switch on a device: "), "{error}");
    }
}
