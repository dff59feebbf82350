//! The messages that have a JSON form of their own: quantities, times, numbers-or-texts and raw JSON.
//! Messages that the table describes member by member are read next door.

use jiff::Timestamp;
use serde_json::{Number, Value};

use super::wire::{WireError, WireReader, WireValue};

/// The text of a quantity; whether it is one is found out when the object is decoded.
pub(super) fn quantity(message: &[u8]) -> Result<Value, WireError> {
    let mut text = "0";
    each(message, |tag, wire| {
        if tag == 1 {
            text = wire.text()?;
        }
        Ok(())
    })?;
    Ok(Value::String(text.to_owned()))
}

/// A number or a text, as its first member says.
pub(super) fn int_or_string(message: &[u8]) -> Result<Value, WireError> {
    let (mut kind, mut number, mut text) = (0, 0, "");
    each(message, |tag, wire| {
        match tag {
            1 => kind = wire.int64()?,
            2 => number = wire.int32()?,
            3 => text = wire.text()?,
            _ => {}
        }
        Ok(())
    })?;
    match kind {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::String(text.to_owned())),
        _ => Err("neither a number nor a text"),
    }
}

/// How the API writes whole seconds.
const SECONDS: &str = "%Y-%m-%dT%H:%M:%SZ";
/// How the API writes microseconds.
const MICROSECONDS: &str = "%Y-%m-%dT%H:%M:%S%.6fZ";
/// The first second of the year 0: RFC 3339 has no name for earlier times.
const EARLIEST_SECONDS: i64 = -62_167_219_200;
/// The last second of the year 9999.
const LATEST_SECONDS: i64 = 253_402_300_799;

/// A time in whole seconds; an empty message is an unset time.
pub(super) fn time(message: &[u8]) -> Result<Value, WireError> {
    instant(message, SECONDS)
}

/// A time in microseconds; an empty message is an unset time.
pub(super) fn micro_time(message: &[u8]) -> Result<Value, WireError> {
    instant(message, MICROSECONDS)
}

fn instant(message: &[u8], form: &str) -> Result<Value, WireError> {
    if message.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0, 0);
    each(message, |tag, wire| {
        match tag {
            1 => seconds = wire.int64()?,
            2 => nanoseconds = wire.int32()?,
            _ => {}
        }
        Ok(())
    })?;
    let nanoseconds = if form == SECONDS { 0 } else { nanoseconds - nanoseconds % 1_000 };
    // Upstream takes more nanoseconds than a second has, and fewer than none.
    let seconds = seconds.saturating_add(i64::from(nanoseconds.div_euclid(1_000_000_000)));
    let nanoseconds = nanoseconds.rem_euclid(1_000_000_000);
    if !(EARLIEST_SECONDS..=LATEST_SECONDS).contains(&seconds) {
        return Err("a time out of range");
    }
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| "a time out of range")?;
    Ok(Value::String(time.strftime(form).to_string()))
}

/// The JSON text that a message holds under its first tag; null when it holds none.
pub(super) fn json(message: &[u8]) -> Result<Value, WireError> {
    let mut text: &[u8] = &[];
    each(message, |tag, wire| {
        if tag == 1 {
            text = wire.bytes()?;
        }
        Ok(())
    })?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(text).map_err(|_| "raw bytes that are not JSON")
}

/// A number as Go writes it: without a fraction where it has none.
pub(super) fn double(number: f64) -> Result<Value, WireError> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Ok(Value::from(number as i64));
    }
    Number::from_f64(number).map(Value::Number).ok_or("a number that JSON cannot say")
}

/// How many levels of lists and objects the value has.
pub(super) fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// Hands over every member of a message.
pub(super) fn each<'a>(
    message: &'a [u8],
    mut hand_over: impl FnMut(u32, WireValue<'a>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let mut reader = WireReader::new(message);
    while let Some((tag, wire)) = reader.next()? {
        hand_over(tag, wire)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r22_times_have_the_precision_of_their_kind() {
        // 1_600_000_000 seconds and 123_456_789 nanoseconds.
        let message = [0x08, 0x80, 0xa0, 0xf8, 0xfa, 0x05, 0x10, 0x95, 0x9a, 0xef, 0x3a];
        assert_eq!(time(&message), Ok(json!("2020-09-13T12:26:40Z")));
        assert_eq!(micro_time(&message), Ok(json!("2020-09-13T12:26:40.123456Z")));
        assert_eq!(micro_time(&[0x08, 0x00]), Ok(json!("1970-01-01T00:00:00.000000Z")));
        assert_eq!(time(&[]), Ok(Value::Null));
    }

    #[test]
    fn r22_times_before_the_year_0_and_after_9999_are_refused() {
        let least = [0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
        let most = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(time(&least), Err("a time out of range"));
        assert_eq!(micro_time(&most), Err("a time out of range"));
    }

    #[test]
    fn r22_numbers_are_written_as_go_writes_them() {
        let rows = [(5.0, json!(5)), (-5.0, json!(-5)), (0.0, json!(0)), (0.5, json!(0.5))];
        for (number, expected) in rows {
            assert_eq!(double(number), Ok(expected));
        }
        assert!(double(f64::NAN).is_err());
        assert!(double(f64::INFINITY).is_err());
    }

    #[test]
    fn r22_a_number_or_a_text_says_which_it_is() {
        assert_eq!(int_or_string(&[0x08, 0, 0x10, 80, 0x1a, 0]), Ok(json!(80)));
        assert_eq!(int_or_string(&[0x08, 1, 0x10, 0, 0x1a, 1, b'a']), Ok(json!("a")));
        assert_eq!(int_or_string(&[]), Ok(json!(0)));
        assert!(int_or_string(&[0x08, 2]).is_err());
    }
}
