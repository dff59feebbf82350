//! The parts of protobuf's encoding that documents need. Nothing here knows a message.

/// A message in the making.
#[derive(Default)]
pub(super) struct ProtobufWriter {
    bytes: Vec<u8>,
}

impl ProtobufWriter {
    /// The message's bytes.
    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// A string, message or bytes.
    pub(super) fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.key(number, 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, number: u32, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    pub(super) fn flag(&mut self, number: u32, flag: bool) {
        self.key(number, 0);
        self.varint(u64::from(flag));
    }

    /// A number of type `int64`; negative ones take ten bytes.
    pub(super) fn whole(&mut self, number: u32, value: i64) {
        self.key(number, 0);
        self.varint(value.cast_unsigned());
    }

    pub(super) fn double(&mut self, number: u32, value: f64) {
        self.key(number, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    fn key(&mut self, number: u32, form: u64) {
        self.varint(u64::from(number) << 3 | form);
    }

    /// Seven bits to a byte, lowest first; the high bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            let [low, ..] = value.to_le_bytes();
            self.bytes.push(low | 0x80);
            value >>= 7;
        }
        let [low, ..] = value.to_le_bytes();
        self.bytes.push(low);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    #[test]
    fn r50_numbers_and_lengths_are_varints() {
        let mut writer = ProtobufWriter::default();
        writer.whole(1, 300);
        writer.text(16, "a");
        writer.flag(2, true);
        assert_eq!(writer.finish(), [0x08, 0xac, 0x02, 0x82, 0x01, 0x01, b'a', 0x10, 0x01]);
        let mut writer = ProtobufWriter::default();
        writer.whole(1, -1);
        writer.double(3, 1.5);
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let bytes = writer.finish();
        assert_eq!(bytes[1..11], minus_one);
        assert_eq!(bytes[11..], [0x19, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]);
    }
}
