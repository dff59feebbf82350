//! The wire format of protobuf: tags and what follows them. What a tag means is not known here.
//!
//! ```text
//!   0  varint              up to ten bytes, seven bits each, the lowest first
//!   1  eight bytes         little-endian
//!   2  length and bytes    text, bytes, messages, packed numbers
//!   5  four bytes          little-endian
//! ```
//!
//! Groups (3 and 4) are refused: no kind of the API has one. A length is believed only as far as the
//! bytes at hand reach, and nothing is allocated.

/// What is wrong with the bytes.
pub(super) type WireError = &'static str;

const CUT: WireError = "the message ends too early";
const WRONG: WireError = "the wire type does not fit the member";

/// One value as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireValue<'a> {
    /// A number of variable length.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Text, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes; no member of the API is written so, but unknown ones are stepped over.
    Fixed32,
}

impl<'a> WireValue<'a> {
    /// The bytes of a text, a message or packed numbers.
    pub(super) fn bytes(self) -> Result<&'a [u8], WireError> {
        match self {
            WireValue::Bytes(bytes) => Ok(bytes),
            _ => Err(WRONG),
        }
    }

    /// The text; it must be UTF-8.
    pub(super) fn text(self) -> Result<&'a str, WireError> {
        str::from_utf8(self.bytes()?).map_err(|_| "text that is not UTF-8")
    }

    /// The number of variable length.
    pub(super) fn varint(self) -> Result<u64, WireError> {
        match self {
            WireValue::Varint(number) => Ok(number),
            _ => Err(WRONG),
        }
    }

    /// A signed number; negative ones are written as their two's complement.
    pub(super) fn int64(self) -> Result<i64, WireError> {
        Ok(self.varint()?.cast_signed())
    }

    /// A signed number of which the lower half counts, as upstream's reader has it.
    pub(super) fn int32(self) -> Result<i32, WireError> {
        Ok(self.varint()? as i32)
    }

    /// A number with a fraction.
    pub(super) fn double(self) -> Result<f64, WireError> {
        match self {
            WireValue::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(WRONG),
        }
    }
}

/// Reads a message member by member.
pub(super) struct WireReader<'a> {
    rest: &'a [u8],
}

impl<'a> WireReader<'a> {
    /// A reader of that message.
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next member's tag and value; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let tag = u32::try_from(key >> 3).map_err(|_| "a tag out of range")?;
        if tag == 0 {
            return Err("a tag of zero");
        }
        let wire = match key & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(self.fixed64()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                WireValue::Fixed32
            }
            _ => return Err("a group or an unknown wire type"),
        };
        Ok(Some((tag, wire)))
    }

    /// The next of packed numbers: of eight bytes each, or of variable length.
    pub(super) fn next_packed(
        &mut self,
        eight_bytes: bool,
    ) -> Result<Option<WireValue<'a>>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let wire = match eight_bytes {
            true => WireValue::Fixed64(self.fixed64()?),
            false => WireValue::Varint(self.varint()?),
        };
        Ok(Some(wire))
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(CUT)?;
            self.rest = rest;
            // The tenth byte has room for one bit; upstream's reader lets the others fall off too.
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number of more than ten bytes")
    }

    fn fixed64(&mut self) -> Result<u64, WireError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CUT)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(CUT)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, WireValue<'_>)>, WireError> {
        let mut reader = WireReader::new(message);
        let mut found = Vec::new();
        while let Some(member) = reader.next()? {
            found.push(member);
        }
        Ok(found)
    }

    #[test]
    fn r22_members_are_read_one_after_the_other() {
        let message = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: hi
            0x19, 1, 0, 0, 0, 0, 0, 0, 0, // 3: eight bytes
            0x25, 1, 2, 3, 4, // 4: four bytes
        ];
        let expected = vec![
            (1, WireValue::Varint(150)),
            (2, WireValue::Bytes(b"hi")),
            (3, WireValue::Fixed64(1)),
            (4, WireValue::Fixed32),
        ];
        assert_eq!(all(&message), Ok(expected));
        assert_eq!(all(&[]), Ok(Vec::new()));
    }

    #[test]
    fn r22_negative_numbers_take_ten_bytes() {
        let minus_one = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let wire = all(&minus_one).unwrap()[0].1;
        assert_eq!((wire.int64(), wire.int32()), (Ok(-1), Ok(-1)));
    }

    #[test]
    fn r22_broken_bytes_are_refused() {
        let rows: [(&[u8], WireError); 10] = [
            (&[0x08], CUT),
            (&[0x08, 0x80], CUT),
            (&[0x80], CUT),
            (&[0x12, 0x05, b'a'], CUT),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], CUT),
            (&[0x19, 1, 2, 3], CUT),
            (&[0x25, 1, 2, 3], CUT),
            (&[0x00, 0x00], "a tag of zero"),
            (&[0x0b, 0x0c], "a group or an unknown wire type"),
            (&[0x80; 12], "a number of more than ten bytes"),
        ];
        for (message, fault) in rows {
            assert_eq!(all(message), Err(fault), "{message:x?}");
        }
    }
}
