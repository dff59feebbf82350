//! The formats that schemas may name and values must then have.
//!
//! Formats not listed are ignored. Nothing is resolved or looked up: a host name need not exist.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;
use tenure_machinery::name;

use crate::schema::JsonType;

macro_rules! formats {
    ($($variant:ident $text:literal),* $(,)?) => {
        /// A format that is enforced.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Format { $($variant),* }

        impl Format {
            /// As it is written, without dashes.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Format::$variant => $text),* }
            }

            fn of(text: &str) -> Option<Format> {
                match text { $($text => Some(Format::$variant),)* _ => None }
            }
        }
    };
}

formats! {
    BsonObjectId "bsonobjectid", Uri "uri", Email "email", Hostname "hostname", Ipv4 "ipv4",
    Ipv6 "ipv6", Cidr "cidr", Mac "mac", Uuid "uuid", Uuid3 "uuid3", Uuid4 "uuid4", Uuid5 "uuid5",
    Isbn "isbn", Isbn10 "isbn10", Isbn13 "isbn13", CreditCard "creditcard", Ssn "ssn",
    HexColor "hexcolor", RgbColor "rgbcolor", Byte "byte", Password "password", Date "date",
    Duration "duration", DateTime "datetime", ShortName "k8sshortname", LongName "k8slongname",
    Int32 "int32", Int64 "int64", Float "float", Double "double",
}

impl Format {
    /// The format of that name, if it is enforced for values of that type.
    pub(crate) fn named(text: &str, kind: Option<JsonType>) -> Option<Format> {
        let format = Format::of(&text.replace('-', ""))?;
        let fits = match format {
            Format::Int32 | Format::Int64 => kind == Some(JsonType::Integer),
            Format::Float | Format::Double => kind == Some(JsonType::Number),
            _ => matches!(kind, None | Some(JsonType::String)),
        };
        fits.then_some(format)
    }

    /// Whether a text has this format.
    pub(crate) fn holds(self, text: &str) -> bool {
        match self {
            Format::BsonObjectId => text.len() == 24 && is_hex(text),
            Format::Uri => is_uri(text),
            Format::Email => is_email(text),
            Format::Hostname => is_hostname(text),
            Format::Ipv4 => text.contains('.') && is_address(text),
            Format::Ipv6 => text.contains(':') && is_address(text),
            Format::Cidr => is_network(text),
            Format::Mac => is_mac(text),
            Format::Uuid => is_uuid(text, None, false),
            Format::Uuid3 => is_uuid(text, Some(b'3'), false),
            Format::Uuid4 => is_uuid(text, Some(b'4'), true),
            Format::Uuid5 => is_uuid(text, Some(b'5'), true),
            Format::Isbn => is_isbn10(text) || is_isbn13(text),
            Format::Isbn10 => is_isbn10(text),
            Format::Isbn13 => is_isbn13(text),
            Format::CreditCard => is_credit_card(text),
            Format::Ssn => matches(&SSN, text),
            Format::HexColor => is_hex_color(text),
            Format::RgbColor => matches(&RGB_COLOR, text),
            Format::Byte => is_base64(text),
            Format::Date => is_date(text),
            Format::Duration => is_duration(text),
            Format::DateTime => is_date_time(text),
            Format::ShortName => name::dns_label(text).is_none(),
            Format::LongName => name::dns_subdomain(text).is_none(),
            Format::Password | Format::Int32 | Format::Int64 | Format::Float | Format::Double => {
                true
            }
        }
    }
}

type Lazy = LazyLock<Option<Regex>>;

static SSN: Lazy = LazyLock::new(|| Regex::new(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$").ok());
static RGB_COLOR: Lazy = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    Regex::new(&format!(r"^rgb\({part},{part},{part}\)$")).ok()
});
static TIME: Lazy = LazyLock::new(|| {
    Regex::new(r"^[0-9]{2}:[0-9]{2}:[0-9]{2}(.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})$").ok()
});
static DURATION: Lazy = LazyLock::new(|| Regex::new(r"([0-9]+)\s*([A-Za-zµ]+)").ok());
static HOST_NAME: Lazy = LazyLock::new(|| {
    let sign = r"a-zA-Z0-9\p{S}\p{L}";
    Regex::new(&format!(
        r"^([{sign}](-?[{sign}]{{0,62}})?|([{sign}]([{sign}-]{{0,61}}[{sign}])?\.)+[a-zA-Z\p{{L}}]{{2,63}})$"
    ))
    .ok()
});
static CREDIT_CARD: Lazy = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        r"|3(0[0-5]|[68][0-9])[0-9]{11}|(2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
    .ok()
});

fn matches(lazy: &Lazy, text: &str) -> bool {
    lazy.as_ref().is_some_and(|regex| regex.is_match(text))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

fn is_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        return false;
    }
    let mut parts = text.split('%').skip(1);
    if !parts.all(|part| part.get(..2).is_some_and(is_hex)) {
        return false;
    }
    text.starts_with('/') || text == "*" || has_scheme(text)
}

fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.split_once('<') {
        Some((_, address)) => match address.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c))
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    (quoted || local.split('.').all(atom))
        && (domain.split('.').all(atom) || (domain.starts_with('[') && domain.ends_with(']')))
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && matches(&HOST_NAME, text)
}

/// An address; numbers of the older form may have leading zeros.
fn is_address(text: &str) -> bool {
    let head = text.rfind(':').map_or(0, |colon| colon + 1);
    let (six, four) = (text.get(..head).unwrap_or_default(), text.get(head..).unwrap_or_default());
    let plain = if four.contains('.') {
        let parts: Vec<&str> = four
            .split('.')
            .map(|part| match part.trim_start_matches('0') {
                "" if !part.is_empty() => "0",
                other => other,
            })
            .collect();
        format!("{six}{}", parts.join("."))
    } else {
        text.to_owned()
    };
    plain.parse::<Ipv4Addr>().is_ok() || plain.parse::<Ipv6Addr>().is_ok()
}

fn is_network(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = if address.contains(':') { 128 } else { 32 };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    is_address(address) && digits && bits.parse::<u16>().is_ok_and(|bits| bits <= most)
}

/// Six, eight or twenty octets, in pairs of digits or in fours.
fn is_mac(text: &str) -> bool {
    let groups = |sign: char, width: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(sign).collect();
        counts.contains(&parts.len()) && parts.iter().all(|p| p.len() == width && is_hex(p))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// Dashes are optional at their places.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let mut digits = Vec::with_capacity(32);
    for byte in text.bytes() {
        match byte {
            b'-' if matches!(digits.len(), 8 | 12 | 16 | 20) => {}
            hex if hex.is_ascii_hexdigit() => digits.push(hex.to_ascii_lowercase()),
            _ => return false,
        }
    }
    digits.len() == 32
        && !text.contains("--")
        && version.is_none_or(|version| digits.get(12) == Some(&version))
        && (!variant || digits.get(16).is_some_and(|d| matches!(d, b'8' | b'9' | b'a' | b'b')))
}

fn isbn_digits(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | ' ')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    let mut sum = 0;
    for (place, byte) in (1_u32..).zip(digits.bytes()) {
        match byte {
            b'0'..=b'9' => sum += place * u32::from(byte - b'0'),
            b'X' if place == 10 => sum += 100,
            _ => return false,
        }
    }
    digits.len() == 10 && sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    let mut sum = 0;
    for (place, byte) in digits.bytes().enumerate() {
        if !byte.is_ascii_digit() {
            return false;
        }
        sum += u32::from(byte - b'0') * if place % 2 == 0 { 1 } else { 3 };
    }
    digits.len() == 13 && sum % 10 == 0
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let mut sum = 0;
    for (place, byte) in digits.bytes().rev().enumerate() {
        let digit = u32::from(byte - b'0');
        sum += match (place % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        };
    }
    matches(&CREDIT_CARD, &digits) && sum % 10 == 0
}

fn is_base64(text: &str) -> bool {
    let body = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() < 3
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    let number = |from: usize, to: usize| {
        let part = text.get(from..to)?;
        part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse::<u32>().ok())?
    };
    let dashes = text.len() == 10 && text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    dashes && (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let below = |from: usize, most: &str| time.get(from..from + 2).is_some_and(|n| n <= most);
    is_date(date) && matches(&TIME, time) && below(0, "23") && below(3, "59") && below(6, "59")
}

/// Such as `1h30m`, `-1.5s`, `0`, and the longer words of other systems, as in `2 days`.
fn is_duration(text: &str) -> bool {
    is_plain_duration(text) || is_worded_duration(text)
}

fn is_plain_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut nanoseconds = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = (rest.get(..end).unwrap_or_default(), rest.get(end..));
        let tail = tail.unwrap_or_default();
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let unit = match tail.get(..end).unwrap_or_default() {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 6e10,
            "h" => 3.6e12,
            _ => return false,
        };
        let Ok(count) = number.parse::<f64>() else { return false };
        nanoseconds += count * unit;
        rest = tail.get(end..).unwrap_or_default();
    }
    !text.is_empty() && text != "-" && text != "+" && nanoseconds <= 9.223_372_036_854_775e18
}

fn is_worded_duration(text: &str) -> bool {
    const WHOLE: [&str; 12] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk", "nano"];
    const STEMS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    let Some(regex) = DURATION.as_ref() else { return false };
    let mut any = false;
    for found in regex.captures_iter(text) {
        let part = |index: usize| found.get(index).map_or("", |m| m.as_str());
        if part(1).parse::<i64>().is_err() {
            return false;
        }
        let unit = part(2).to_lowercase();
        any |= WHOLE.contains(&unit.as_str()) || STEMS.iter().any(|stem| unit.starts_with(stem));
    }
    any
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    #[test]
    fn r123_formats_hold_or_not() {
        let table: [(&str, &[&str], &[&str]); 16] = [
            (
                "date-time",
                &["2020-01-01T00:00:00Z", "2020-01-01t00:00:00.5+01:00"],
                &["yesterday", "2020-01-01", "2020-02-30T00:00:00Z", "2020-01-01T24:00:00Z"],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "2023-2-1", ""]),
            ("duration", &["1h", "-1.5h30m", "0", "2 days", "1µs"], &["soon", "", "1", "-"]),
            ("ipv4", &["1.2.3.4", "01.2.3.4"], &["1.2.3", "::1", "1.2.3.256"]),
            ("ipv6", &["::1", "::ffff:1.2.3.4"], &["1.2.3.4", ":::"]),
            ("cidr", &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "a/8"]),
            ("byte", &["YWI=", "YWJj", "YQ=="], &["***", "", "YWI", "===="]),
            ("mac", &["00:11:22:33:44:55", "0011.2233.4455"], &["00:11", "zz:11:22:33:44:55"]),
            (
                "uuid",
                &["2d4cc3b7-3f4e-4b7a-8f5a-5d0a1f1c9f10", "2D4CC3B73F4E4B7A8F5A5D0A1F1C9F10"],
                &["2d4c", "g"],
            ),
            (
                "uuid4",
                &["2d4cc3b7-3f4e-4b7a-8f5a-5d0a1f1c9f10"],
                &["2d4cc3b7-3f4e-3b7a-8f5a-5d0a1f1c9f10"],
            ),
            ("uri", &["https://a/b?c", "/x", "mailto:a"], &["a/b", "", "http://a b", "/%zz"]),
            ("email", &["a@b", "A B <a.c@d.e>"], &["a", "@b", "a@", "a b@c"]),
            ("hostname", &["a", "a.example.com", "1a"], &["-a", "a..b", "a_b", ""]),
            ("isbn", &["0321751043", "978-0321751041"], &["0321751044"]),
            ("k8s-short-name", &["a-b"], &["A", "a.b"]),
            ("hexcolor", &["#fff", "00AAff"], &["#ffff", "x"]),
        ];
        for (name, good, bad) in table {
            let format = Format::named(name, Some(JsonType::String)).expect(name);
            for text in good {
                assert!(format.holds(text), "{name}: {text:?}");
            }
            for text in bad {
                assert!(!format.holds(text), "{name}: {text:?}");
            }
        }
    }

    #[test]
    fn r123_formats_belong_to_types() {
        assert_eq!(Format::named("int32", Some(JsonType::String)), None);
        assert_eq!(Format::named("int32", Some(JsonType::Integer)), Some(Format::Int32));
        assert_eq!(Format::named("date", Some(JsonType::Integer)), None);
        assert_eq!(Format::named("no-such-format", None), None);
    }
}
