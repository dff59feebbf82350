//! Query parameters as clients send them: decoded, in order; and the readings that all parameters share.
//!
//! Which parameters a request has, and what they mean to it, is decided where requests are handled.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::status::Failure;

/// The longest duration that Go can hold.
const NANOS_MAX: u128 = i64::MAX as u128;

/// The parameters of a request, in order, decoded.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads `a=b&c=d`. A pair with a semicolon or a broken escape counts as not sent: two readers that
    /// split it differently would see two requests.
    #[must_use]
    pub fn parse(text: Option<&str>) -> Query {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.filter(|pair| !pair.contains(';')).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text| percent_decode(text, true).map(Cow::into_owned);
            Some((decode(name)?, decode(value)?))
        });
        Query { pairs: pairs.collect() }
    }

    /// The first value of a parameter; `None` when absent.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.pairs.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The parameters as one text, for whoever is to read the same of it: what counted as not sent is not
    /// in it, and everything but plain letters is escaped.
    #[must_use]
    pub fn encoded(&self) -> String {
        let mut out = String::new();
        for (name, value) in &self.pairs {
            if !out.is_empty() {
                out.push('&');
            }
            escape(name, &mut out);
            out.push('=');
            escape(value, &mut out);
        }
        out
    }

    /// A value other than empty.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A truth value as the API reads it: present and neither `false`, in any case, nor `0`.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    /// As [`Query::flag`], telling absence apart.
    #[must_use]
    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A whole number; 400 when it is none, or empty.
    pub fn number(&self, name: &str) -> Result<Option<i64>, Failure> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                Failure::bad_request(format!("{name}: `{text}` is not a whole number"))
            }),
        }
    }

    /// Checks `timeout`, which may shorten the server's own deadline; less than nothing is none (R7).
    pub fn timeout(&self) -> Result<Option<std::time::Duration>, Failure> {
        let text = self.text("timeout");
        if text.is_empty() {
            return Ok(None);
        }
        let (negative, amount) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
            (Some(amount), _) => (true, amount),
            (None, Some(amount)) => (false, amount),
            (None, None) => (false, text),
        };
        match parse_duration(amount).filter(|duration| duration.as_nanos() <= NANOS_MAX) {
            Some(duration) => Ok((!negative && !duration.is_zero()).then_some(duration)),
            None => Err(Failure::bad_request(format!("timeout: `{text}` is not a duration"))),
        }
    }
}

/// A duration as Go writes it: `300ms`, `1.5h`, `2h45m`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<std::time::Duration> {
    if text == "0" {
        return Some(std::time::Duration::ZERO);
    }
    let mut seconds = 0.0_f64;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    std::time::Duration::try_from_secs_f64(seconds).ok()
}

/// Decodes `%41`; also `+` as a space when reading queries. `None` when an escape is broken; bytes that are
/// not UTF-8 become replacement characters.
#[must_use]
pub fn percent_decode(text: &str, plus_is_space: bool) -> Option<Cow<'_, str>> {
    let escaped = text.contains('%') || (plus_is_space && text.contains('+'));
    if !escaped {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            b'+' if plus_is_space => b' ',
            other => other,
        });
    }
    Some(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
}

fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    #[test]
    fn r10_what_two_readers_would_split_differently_is_not_sent() {
        let query = Query::parse(Some("limit=1;watch=1&a=%zz&b=%4&%=x&c=a+b%20c&d"));
        assert_eq!(query.get("limit"), None);
        assert_eq!(query.get("watch"), None);
        assert_eq!((query.get("a"), query.get("b")), (None, None));
        assert_eq!((query.text("c"), query.get("d")), ("a b c", Some("")));
    }

    #[test]
    fn r131b_parameters_are_read_as_the_same_where_they_are_passed_on() {
        let query = Query::parse(Some("watch=1;x&labelSelector=a%3Db%26c,d&a=%zz&e&f=+g%2B&ü=%00"));
        let encoded = query.encoded();
        assert_eq!(encoded, "labelSelector=a%3Db%26c%2Cd&e=&f=%20g%2B&%C3%BC=%00");
        assert_eq!(Query::parse(Some(&encoded)).pairs, query.pairs);
    }

    #[test]
    fn r10_numbers_and_truth_values_are_read_as_upstream_reads_them() {
        let query = Query::parse(Some("n=&m=1.5&o=-1&p=0x10&w=banana&x=FaLsE&y=0&z="));
        for bad in ["n", "m", "p"] {
            assert_eq!(query.number(bad).map_err(|failure| failure.code), Err(400), "{bad}");
        }
        assert_eq!(query.number("o").ok().flatten(), Some(-1));
        assert_eq!(query.number("none").ok().flatten(), None);
        let flags = ["w", "x", "y", "z", "none"].map(|name| query.flag(name));
        assert_eq!(flags, [true, false, false, true, false]);
    }

    #[test]
    fn r2_escapes_are_decoded_whole_or_not_at_all() {
        assert_eq!(percent_decode("a%2Fb+c", false).as_deref(), Some("a/b+c"));
        assert_eq!(percent_decode("%ff", false).as_deref(), Some("\u{fffd}"));
        for broken in ["%", "%4", "%zz", "%+1", "%é"] {
            assert_eq!(percent_decode(broken, false), None, "{broken}");
        }
    }
}
