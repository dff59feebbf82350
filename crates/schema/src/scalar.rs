//! One scalar: is it of its shape, and how does the API write it? Structs, lists and maps are `decode`'s.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::quantity;

use crate::facts::ValueType;

/// Upstream's reader asks for padding and does not mind what the last bits are.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// Brings a scalar into the form that the API writes, or says what was expected instead.
pub(crate) fn normal(shape: &ValueType, value: &mut Value) -> Result<(), &'static str> {
    match shape {
        ValueType::String if value.is_string() => Ok(()),
        ValueType::String => Err("text"),
        ValueType::Bool if value.is_boolean() => Ok(()),
        ValueType::Bool => Err("true or false"),
        ValueType::Int32 if is_int32(value) => Ok(()),
        ValueType::Int32 => Err("a 32-bit integer"),
        ValueType::Int64 if value.is_i64() => Ok(()),
        ValueType::Int64 => Err("a 64-bit integer"),
        ValueType::Double if value.is_number() => Ok(()),
        ValueType::Double => Err("a number"),
        ValueType::IntOrString if value.is_string() || is_int32(value) => Ok(()),
        ValueType::IntOrString => Err("a 32-bit integer or text"),
        ValueType::Bytes => rewrite(value, "base64 text", bytes),
        ValueType::Time => rewrite(value, "a time as in RFC 3339", time),
        ValueType::MicroTime => {
            rewrite(value, "a time as in RFC 3339 with microseconds", micro_time)
        }
        ValueType::Quantity => as_quantity(value).ok_or("a quantity"),
        ValueType::Any | ValueType::Struct(_) | ValueType::List(_) | ValueType::Map(_) => Ok(()),
    }
}

fn is_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|number| i32::try_from(number).is_ok())
}

fn rewrite(
    value: &mut Value,
    expected: &'static str,
    form: fn(&str) -> Option<Value>,
) -> Result<(), &'static str> {
    let text = value.as_str().ok_or(expected)?;
    *value = form(text).ok_or(expected)?;
    Ok(())
}

fn bytes(text: &str) -> Option<Value> {
    // Line breaks inside base64 are skipped by upstream's reader.
    let joined: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = BASE64.decode(joined).ok()?;
    Some(Value::String(BASE64.encode(bytes)))
}

/// The first instant of the year 1 is upstream's unset time and is written as null.
fn is_unset(time: Timestamp) -> bool {
    time.as_second() == -62_135_596_800 && time.subsec_nanosecond() == 0
}

fn time(text: &str) -> Option<Value> {
    let time = rfc3339(text)?;
    if is_unset(time) {
        return Some(Value::Null);
    }
    Some(Value::String(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

fn micro_time(text: &str) -> Option<Value> {
    let (_, fraction) = text.split_once('.')?;
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 6 {
        return None;
    }
    let time = rfc3339(text)?;
    if is_unset(time) {
        return Some(Value::Null);
    }
    Some(Value::String(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()))
}

/// The library reads more than RFC 3339 (a space for the `T`, no seconds, no colon in the offset), so the
/// letters are looked at first.
fn rfc3339(text: &str) -> Option<Timestamp> {
    let date = text.get(..19)?;
    let shape_fits = date.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit(),
    });
    let rest = text.get(19..)?;
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            if zone.len() == fraction.len() {
                return None;
            }
            zone
        }
    };
    let zone_fits = zone == "Z"
        || (zone.len() == 6
            && zone.starts_with(['+', '-'])
            && zone.bytes().enumerate().skip(1).all(|(at, byte)| match at {
                3 => byte == b':',
                _ => byte.is_ascii_digit(),
            }));
    (shape_fits && zone_fits).then(|| text.parse().ok())?
}

fn as_quantity(value: &mut Value) -> Option<()> {
    let text = match value {
        Value::String(text) => quantity::canonical(text.trim())?,
        Value::Number(number) => quantity::canonical(&number.to_string())?,
        _ => return None,
    };
    *value = Value::String(text);
    Some(())
}
