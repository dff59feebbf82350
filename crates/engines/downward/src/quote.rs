//! Text as Go's `strconv.Quote` writes it, and maps as files show them. What is in the map never
//! matters here.

use alloc::string::String;
use core::fmt::Write;

use tenure_machinery::Object;

use crate::printable::is_printable;

/// Bytes in double quotes, as Go writes them (R23).
#[must_use]
pub fn go_quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    quote_into(bytes, &mut out);
    out
}

/// One `key="value"` for each line, keys in the order of their bytes (R22).
#[must_use]
pub fn format_map(map: &Object) -> String {
    let mut out = String::with_capacity(
        map.iter()
            .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len) + "=\"\"\n".len())
            .sum(),
    );
    for (key, value) in map {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(key);
        out.push('=');
        quote_into(value.as_str().unwrap_or_default().as_bytes(), &mut out);
    }
    out
}

fn quote_into(bytes: &[u8], out: &mut String) {
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|letter| quote_letter(letter, out));
        chunk.invalid().iter().for_each(|byte| put(out, format_args!("\\x{byte:02x}")));
    }
    out.push('"');
}

fn quote_letter(letter: char, out: &mut String) {
    match letter {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        ' '..='~' => out.push(letter),
        letter if is_printable(letter) => out.push(letter),
        letter => match u32::from(letter) {
            code @ (0..0x20 | 0x7f) => put(out, format_args!("\\x{code:02x}")),
            code @ ..=0xffff => put(out, format_args!("\\u{code:04x}")),
            code => put(out, format_args!("\\U{code:08x}")),
        },
    }
}

fn put(out: &mut String, text: core::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(text);
}
