//! Questions and answers about names, as bytes (RFC 1035). What the answers are is decided elsewhere.
//!
//! ```text
//!   message = id flags counts   question   answers   authority
//! ```

use std::net::Ipv4Addr;

/// How long an answer may be kept.
const TTL_SECONDS: u32 = 5;
/// The bytes before the question.
const HEADER: usize = 12;
/// The longest name, as bytes.
const NAME_MAX: usize = 255;
/// What every client takes in a datagram.
pub(super) const DATAGRAM_USUAL: usize = 512;
/// What a datagram may have at most, whatever a client says.
const DATAGRAM_MAX: usize = 1232;

const INTERNET: u16 = 1;
pub(super) const A: u16 = 1;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const TXT: u16 = 16;
const SRV: u16 = 33;
const OPTIONS: u16 = 41;
pub(super) const ANY: u16 = 255;

/// What somebody asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    id: u16,
    /// Whether recursion is desired, which an answer repeats.
    recursion: bool,
    /// The name in lower case, its labels joined by dots, without one at the end.
    pub(super) name: String,
    pub(super) kind: u16,
    /// The question itself, as it was asked.
    raw: Vec<u8>,
    /// How long an answer in a datagram may be.
    pub(super) room: usize,
}

/// What a name has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Data {
    Address(Ipv4Addr),
    Alias(String),
    Pointer(String),
    Text(String),
    Service { port: u16, target: String },
}

impl Data {
    pub(super) fn kind(&self) -> u16 {
        match self {
            Data::Address(_) => A,
            Data::Alias(_) => CNAME,
            Data::Pointer(_) => PTR,
            Data::Text(_) => TXT,
            Data::Service { .. } => SRV,
        }
    }
}

/// How a question ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Good = 0,
    Malformed = 1,
    Failed = 2,
    NoName = 3,
    NotDone = 4,
}

/// Reads a question; none if the bytes are not one, or an answer.
pub(super) fn read(bytes: &[u8]) -> Option<Question> {
    let flags = number(bytes, 2)?;
    let is_answer = flags & 0x8000 != 0;
    let operation = (flags >> 11) & 0xf;
    if is_answer || operation != 0 || number(bytes, 4)? != 1 {
        return None;
    }
    let (name, end) = read_name(bytes, HEADER)?;
    let (kind, class) = (number(bytes, end)?, number(bytes, end + 2)?);
    if class != INTERNET && class != ANY {
        return None;
    }
    let raw = bytes.get(HEADER..end + 4)?.to_vec();
    let room = room(bytes, end + 4).unwrap_or(DATAGRAM_USUAL);
    let recursion = flags & 0x0100 != 0;
    Some(Question { id: number(bytes, 0)?, recursion, name, kind, raw, room })
}

/// What a client says that it takes in a datagram: an additional record right behind the question.
fn room(bytes: &[u8], at: usize) -> Option<usize> {
    let others = (number(bytes, 6)?, number(bytes, 8)?);
    let is_option = others == (0, 0) && number(bytes, 10)? > 0 && *bytes.get(at)? == 0;
    if !is_option || number(bytes, at + 1)? != OPTIONS {
        return None;
    }
    Some(usize::from(number(bytes, at + 3)?).clamp(DATAGRAM_USUAL, DATAGRAM_MAX))
}

/// A name and where it ends. A question has no reason to point elsewhere, so none may.
fn read_name(bytes: &[u8], begin: usize) -> Option<(String, usize)> {
    let (mut name, mut at) = (String::new(), begin);
    loop {
        let length = usize::from(*bytes.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if length > 63 || at + length - begin > NAME_MAX {
            return None;
        }
        let label = bytes.get(at..at + length)?;
        if !name.is_empty() {
            name.push('.');
        }
        // Labels may hold any byte; what is no text is nobody's name here.
        let text = std::str::from_utf8(label).ok()?;
        if text.contains('.') {
            return None;
        }
        name.push_str(&text.to_ascii_lowercase());
        at += length;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

impl Question {
    /// An answer: records of names, and what a zone says where there are none. What has no room is left out and
    /// said to be.
    pub(super) fn answer(
        &self,
        code: Code,
        records: &[(String, Data)],
        zone: Option<&str>,
        room: usize,
    ) -> Vec<u8> {
        let authority = zone.filter(|_| records.is_empty()).map(start_of_zone);
        let whole = self.written(code, records, authority.as_deref(), false);
        if whole.len() <= room {
            return whole;
        }
        let mut fits = records.len();
        loop {
            fits = fits.saturating_sub(1 + fits / 8);
            let some = self.written(code, records.get(..fits).unwrap_or_default(), None, true);
            if some.len() <= room || fits == 0 {
                return some;
            }
        }
    }

    fn written(
        &self,
        code: Code,
        records: &[(String, Data)],
        authority: Option<&[u8]>,
        cut: bool,
    ) -> Vec<u8> {
        let mut flags = 0x8400 | 0x0080 | (code as u16);
        flags |= if self.recursion { 0x0100 } else { 0 };
        flags |= if cut { 0x0200 } else { 0 };
        let count = u16::try_from(records.len()).unwrap_or(u16::MAX);
        let mut out = Vec::with_capacity(DATAGRAM_USUAL);
        for word in [self.id, flags, 1, count, u16::from(authority.is_some()), 0] {
            out.extend(word.to_be_bytes());
        }
        out.extend(&self.raw);
        for (name, data) in records.iter().take(usize::from(u16::MAX)) {
            if *name == self.name {
                out.extend(0xc00c_u16.to_be_bytes());
            } else {
                write_name(&mut out, name);
            }
            write_data(&mut out, data);
        }
        out.extend(authority.unwrap_or_default());
        out
    }
}

/// An answer to what is no question, as far as its number can be told.
pub(super) fn malformed(bytes: &[u8]) -> Option<Vec<u8>> {
    let (id, flags) = (number(bytes, 0)?, number(bytes, 2)?);
    if flags & 0x8000 != 0 {
        return None;
    }
    let operation = flags & 0x7800;
    let code = if operation == 0 { Code::Malformed } else { Code::NotDone };
    let words = [id, 0x8080 | operation | (code as u16), 0, 0, 0, 0];
    Some(words.iter().flat_map(|word| word.to_be_bytes()).collect())
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let bytes = label.as_bytes().get(..63).unwrap_or(label.as_bytes());
        out.push(u8::try_from(bytes.len()).unwrap_or_default());
        out.extend(bytes);
    }
    out.push(0);
}

fn write_data(out: &mut Vec<u8>, data: &Data) {
    let mut bytes = Vec::new();
    match data {
        Data::Address(address) => bytes.extend(address.octets()),
        Data::Alias(name) | Data::Pointer(name) => write_name(&mut bytes, name),
        Data::Text(text) => {
            let text = text.as_bytes().get(..255).unwrap_or(text.as_bytes());
            bytes.push(u8::try_from(text.len()).unwrap_or_default());
            bytes.extend(text);
        }
        Data::Service { port, target } => {
            for word in [0, 100, *port] {
                bytes.extend(word.to_be_bytes());
            }
            write_name(&mut bytes, target);
        }
    }
    write_record(out, data.kind(), &bytes);
}

/// What stands behind the name of a record.
fn write_record(out: &mut Vec<u8>, kind: u16, bytes: &[u8]) {
    out.extend(kind.to_be_bytes());
    out.extend(INTERNET.to_be_bytes());
    out.extend(TTL_SECONDS.to_be_bytes());
    out.extend(u16::try_from(bytes.len()).unwrap_or_default().to_be_bytes());
    out.extend(bytes);
}

fn start_of_zone(zone: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_name(&mut bytes, &format!("ns.dns.{zone}"));
    write_name(&mut bytes, &format!("hostmaster.{zone}"));
    for word in [1, 7200, 1800, 86_400, TTL_SECONDS] {
        bytes.extend(word.to_be_bytes());
    }
    let mut out = Vec::new();
    write_name(&mut out, zone);
    write_record(&mut out, SOA, &bytes);
    out
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn question(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [7_u16, 0x0100, 1, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
        write_name(&mut bytes, name);
        bytes.extend([kind, INTERNET].iter().flat_map(|word| word.to_be_bytes()));
        bytes
    }

    #[test]
    fn n22_a_question_is_read_and_its_answer_repeats_it() {
        let bytes = question("Web.Shop.svc.cluster.local", A);
        let asked = read(&bytes).unwrap();
        assert_eq!((asked.name.as_str(), asked.kind), ("web.shop.svc.cluster.local", A));
        let address = Data::Address(Ipv4Addr::new(10, 96, 0, 7));
        let answer = asked.answer(Code::Good, &[(asked.name.clone(), address)], None, 512);
        assert_eq!(&answer[..2], [0, 7]);
        assert_eq!(number(&answer, 2), Some(0x8580));
        assert_eq!((number(&answer, 4), number(&answer, 6)), (Some(1), Some(1)));
        assert_eq!(answer[12..bytes.len()], bytes[12..], "as it was asked");
        assert_eq!(answer[bytes.len()..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 10, 96, 0, 7]);
    }

    #[test]
    fn n22_what_has_no_room_is_said_to_be_cut() {
        let asked = read(&question("many.shop.svc.cluster.local", A)).unwrap();
        let records: Vec<(String, Data)> = (0..100)
            .map(|last| (asked.name.clone(), Data::Address(Ipv4Addr::new(10, 244, 0, last))))
            .collect();
        let cut = asked.answer(Code::Good, &records, None, DATAGRAM_USUAL);
        assert!(cut.len() <= DATAGRAM_USUAL && number(&cut, 2).unwrap() & 0x0200 != 0);
        assert!(number(&cut, 6).unwrap() > 5);
        let whole = asked.answer(Code::Good, &records, None, 65_535);
        assert_eq!((number(&whole, 6), number(&whole, 2).unwrap() & 0x0200), (Some(100), 0));
    }

    #[test]
    fn n22_no_name_comes_with_the_zone() {
        let asked = read(&question("none.cluster.local", A)).unwrap();
        let answer = asked.answer(Code::NoName, &[], Some("cluster.local"), 512);
        assert_eq!((number(&answer, 6), number(&answer, 8)), (Some(0), Some(1)));
        assert_eq!(number(&answer, 2).unwrap() & 0xf, 3);
        let wide = [question("x", A), vec![0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]].concat();
        let mut wide = wide;
        wide[11] = 1;
        assert_eq!(read(&wide).unwrap().room, DATAGRAM_MAX);
    }

    #[test]
    fn n43_junk_is_no_question() {
        let good = question("a.b", A);
        for end in 0..good.len() {
            assert_eq!(read(&good[..end]), None, "{end}");
        }
        let mut points = good.clone();
        points[12] = 0xc0;
        assert_eq!(read(&points), None, "a name that points to itself");
        let mut answer = good.clone();
        answer[2] |= 0x80;
        assert_eq!((read(&answer), malformed(&answer)), (None, None), "answers are not answered");
        assert_eq!(malformed(&good).unwrap()[3] & 0xf, 1);
        assert_eq!(malformed(&[1]), None);
    }

    proptest! {
        #[test]
        fn n43_no_bytes_make_it_fall(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(asked) = read(&bytes) {
                let records = [(asked.name.clone(), Data::Alias("a.b".to_owned()))];
                let answer = asked.answer(Code::Good, &records, None, asked.room);
                prop_assert!(answer.len() <= asked.room.max(HEADER + asked.raw.len()));
            }
            let _ = malformed(&bytes);
        }
    }
}
