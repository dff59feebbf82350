//! Times and durations as text and as parts. No clock: nothing here knows what time it is.

use jiff::civil::{Date, DateTime};
use jiff::{Span, Unit};

pub(crate) const NANOS: i64 = 1_000_000_000;
/// The first second of year one.
pub(crate) const FIRST_SECOND: i64 = -62_135_596_800;
/// From there to the last of year 9999.
const SECONDS: core::ops::RangeInclusive<i64> = FIRST_SECOND..=253_402_300_799;

/// A point in time, and the offset it was written with; the offset matters only when it is shown.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanos: u32,
    /// Minutes east of Greenwich.
    pub offset_minutes: i16,
}

impl Stamp {
    pub(crate) fn utc(seconds: i64, nanos: u32) -> Stamp {
        Stamp { seconds, nanos, offset_minutes: 0 }
    }

    pub(crate) fn order(self) -> (i64, u32) {
        (self.seconds, self.nanos)
    }
}

/// Whether a second lies in the years one to 9999.
pub(crate) fn in_range(seconds: i64) -> bool {
    SECONDS.contains(&seconds)
}

/// Reads `1h2m3.5s`; units from nanoseconds to hours, a sign in front.
pub(crate) fn go_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total = total.checked_add(scaled(number, nanos)?)?;
        rest = next;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// A decimal number times a whole one, the rest cut off.
fn scaled(number: &str, factor: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 20 {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = fraction.get(..fraction.len().min(15)).unwrap_or_default();
    let part: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let scale = 10i128.checked_pow(u32::try_from(digits.len()).ok()?)?;
    whole.checked_mul(factor)?.checked_add(part.checked_mul(factor)? / scale)
}

/// A duration as text: whole or fractional seconds.
pub(crate) fn duration_text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let (seconds, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// Reads `2006-01-02T15:04:05.999Z` with any offset.
pub(crate) fn rfc3339(text: &str) -> Option<Stamp> {
    let bytes = text.as_bytes();
    let shaped = bytes.len() >= 20
        && bytes.get(4) == Some(&b'-')
        && bytes.get(7) == Some(&b'-')
        && matches!(bytes.get(10), Some(b'T' | b't'))
        && bytes.get(13) == Some(&b':')
        && bytes.get(16) == Some(&b':');
    if !shaped {
        return None;
    }
    let days = date(text.get(..10)?)?;
    let two = |range: core::ops::Range<usize>| number(text.get(range)?);
    let (hour, minute, second) = (two(11..13)?, two(14..16)?, two(17..19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let rest = text.get(19..)?;
    let zone_at = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (fraction, zone) = rest.split_at(zone_at);
    let nanos = match fraction.strip_prefix('.') {
        None if fraction.is_empty() => 0,
        Some(digits) if !digits.is_empty() && !digits.contains('.') => {
            let padded: String = digits.chars().chain("000000000".chars()).take(9).collect();
            padded.parse().ok()?
        }
        _ => return None,
    };
    let offset = match zone {
        "Z" | "z" => 0,
        _ => fixed_offset(zone).filter(|_| zone.len() == 6)?,
    };
    let seconds = days + hour * 3600 + minute * 60 + second - offset;
    let offset_minutes = i16::try_from(offset / 60).ok()?;
    in_range(seconds).then_some(Stamp { seconds, nanos, offset_minutes })
}

/// Reads `2006-01-02` as midnight there, in seconds since 1970.
pub(crate) fn date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes.get(4) != Some(&b'-') || bytes.get(7) != Some(&b'-') {
        return None;
    }
    let year = i16::try_from(number(text.get(..4)?)?).ok()?;
    let month = i8::try_from(number(text.get(5..7)?)?).ok()?;
    let day = i8::try_from(number(text.get(8..)?)?).ok()?;
    let date = Date::new(year, month, day).ok()?;
    let days = date.until((Unit::Day, Date::constant(1970, 1, 1))).ok()?.get_days();
    Some(i64::from(days).checked_neg()?.saturating_mul(86_400))
}

fn number(text: &str) -> Option<i64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// A point in time as text, at the offset it was written with.
pub(crate) fn timestamp_text(stamp: Stamp) -> String {
    let offset = i64::from(stamp.offset_minutes);
    let Some(date) = civil(stamp.seconds, offset * 60) else { return String::new() };
    let fraction = if stamp.nanos == 0 {
        String::new()
    } else {
        format!(".{:09}", stamp.nanos).trim_end_matches('0').to_owned()
    };
    let zone = if offset == 0 {
        "Z".to_owned()
    } else {
        let sign = if offset < 0 { '-' } else { '+' };
        format!("{sign}{:02}:{:02}", offset.abs() / 60, offset.abs() % 60)
    };
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{fraction}{zone}",
        date.year(),
        date.month(),
        date.day(),
        date.hour(),
        date.minute(),
        date.second()
    )
}

/// The calendar date and time of a point in time, at an offset in seconds.
pub(crate) fn civil(seconds: i64, offset: i64) -> Option<DateTime> {
    let seconds = seconds.checked_add(offset)?;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let span = Span::new().try_days(days).ok()?;
    let date = Date::constant(1970, 1, 1).checked_add(span).ok()?;
    let part = |value: i64| i8::try_from(value).ok();
    Some(date.at(part(second / 3600)?, part(second / 60 % 60)?, part(second % 60)?, 0))
}

/// The offset that a zone means, in seconds: `UTC`, or hours and minutes.
///
/// Names of cities need a database that changes every year; they are refused.
pub(crate) fn zone_offset(zone: &str) -> Option<i64> {
    match zone {
        "" | "UTC" | "GMT" | "Etc/UTC" | "Z" => Some(0),
        _ => fixed_offset(zone),
    }
}

fn fixed_offset(zone: &str) -> Option<i64> {
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let (hours, minutes) = rest.split_once(':')?;
    if hours.is_empty() || minutes.len() != 2 || hours.len() > 2 {
        return None;
    }
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::{duration_text, go_duration, rfc3339, timestamp_text};

    #[test]
    fn durations_are_read_and_written() {
        assert_eq!(go_duration("1h2m3s4ms"), Some(3_723_004_000_000));
        assert_eq!(go_duration("-1.5h"), Some(-5_400_000_000_000));
        assert_eq!(go_duration(".5s"), Some(500_000_000));
        for bad in ["", "1", "1d", "1nns", "-", "s", "1..2s", "9999999h9999999999h"] {
            assert_eq!(go_duration(bad), None, "{bad}");
        }
        assert_eq!(duration_text(3_723_004_000_000), "3723.004s");
        assert_eq!(duration_text(-1), "-0.000000001s");
    }

    #[test]
    fn times_are_read_and_written() {
        let stamp = rfc3339("2011-08-18T19:03:37.010000000+01:00").expect("a time");
        assert_eq!(timestamp_text(stamp), "2011-08-18T19:03:37.01+01:00");
        for bad in
            ["1000-00-00T00:00:00Z", "1000-01-01T00:00:00ZZ", "2000-01-01", "é000-01-01T00:00:00Z"]
        {
            assert!(rfc3339(bad).is_none(), "{bad}");
        }
    }
}
