//! Schedules of CronJobs: five fields or a macro. When the next run is due never lives here.

use std::sync::LazyLock;

use jiff::tz::TimeZoneDatabase;

/// The times a schedule names, one bit for each value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// What a schedule is: times of the calendar, or a pause between runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// Minutes that match.
    Calendar(Schedule),
    /// `@every`: so many seconds apart.
    Every(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    bits: u64,
    any: bool,
}

/// The zones that come with the program, so that no host's files decide what is valid.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

const MONTHS: &[&str] =
    &["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Whether the minute is named; days and weekdays count together when both are restricted.
    #[must_use]
    pub fn matches(&self, minute: u32, hour: u32, day: u32, month: u32, weekday: u32) -> bool {
        let (in_days, in_week) = (self.days.has(day), self.weekdays.has(weekday));
        let day = if self.days.any || self.weekdays.any {
            in_days && in_week
        } else {
            in_days || in_week
        };
        self.minutes.has(minute) && self.hours.has(hour) && self.months.has(month) && day
    }
}

impl Field {
    fn has(self, value: u32) -> bool {
        1_u64.checked_shl(value).is_some_and(|bit| self.bits & bit != 0)
    }
}

/// Reads a schedule; the error is the sentence for the client.
///
/// A leading `TZ=` or `CRON_TZ=` is read over: whether it is allowed is the caller's question.
///
/// # Errors
///
/// When the text is no schedule.
pub fn parse(text: &str) -> Result<Recurrence, String> {
    let mut rest = text;
    if let Some(zone) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        let (zone, after) = zone.split_once(' ').ok_or("missing fields after the time zone")?;
        if !is_zone(zone) {
            return Err(format!("provided bad location {zone}"));
        }
        rest = after.trim();
    }
    let fields = match rest {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => rest,
    };
    if let Some(every) = fields.strip_prefix("@every ") {
        return duration(every)
            .map(Recurrence::Every)
            .ok_or(format!("failed to parse duration {every}"));
    }
    if fields.starts_with('@') {
        return Err(format!("unrecognized descriptor: {fields}"));
    }
    let parts: Vec<&str> = fields.split_whitespace().collect();
    let [minutes, hours, days, months, weekdays] = parts.as_slice() else {
        return Err(format!("expected exactly 5 fields, found {}", parts.len()));
    };
    Ok(Recurrence::Calendar(Schedule {
        minutes: field(minutes, 0, 59, &[])?,
        hours: field(hours, 0, 23, &[])?,
        days: field(days, 1, 31, &[])?,
        months: field(months, 1, 12, MONTHS)?,
        weekdays: field(weekdays, 0, 6, WEEKDAYS)?,
    }))
}

fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Result<Field, String> {
    let mut field = Field { bits: 0, any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(number(step, &[])?)),
            None => (part, None),
        };
        let bounds: Vec<&str> = range.split('-').collect();
        let (start, end, any) = match bounds.as_slice() {
            ["*" | "?", ..] => (least, most, step.is_none_or(|step| step <= 1)),
            // A single value with a step runs to the end.
            [value] if step.is_some() => (number(value, names)?, most, false),
            [value] => (number(value, names)?, number(value, names)?, false),
            [start, end] => (number(start, names)?, number(end, names)?, false),
            _ => return Err(format!("too many hyphens: {part}")),
        };
        let step = step.unwrap_or(1);
        if start < least || end > most || start > end || step == 0 {
            return Err(format!("out of range: {part}"));
        }
        field.any |= any;
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        field.bits |= (start..=end).step_by(step).fold(0, |bits, value| bits | 1_u64 << value);
    }
    Ok(field)
}

fn number(text: &str, names: &[&str]) -> Result<u32, String> {
    let lower = text.to_lowercase();
    let named = names.iter().position(|name| !name.is_empty() && *name == lower);
    match named {
        Some(index) => u32::try_from(index).map_err(|error| error.to_string()),
        None => text.parse().map_err(|_| format!("failed to parse int from {text}")),
    }
}

/// `1h30m`, `45s`; whole seconds, at least one.
fn duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, after) = rest.split_at_checked(end)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let scale = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += amount.parse::<f64>().ok()? * scale;
        rest = after;
    }
    // Pauses below a second are rounded up; the cap keeps the conversion exact.
    Some(total.clamp(1.0, 1e15) as u64)
}

/// Whether the name is a time zone of the bundled database.
#[must_use]
pub fn is_zone(name: &str) -> bool {
    let part = |part: &str| {
        let letters = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
        !matches!(part, "" | "." | "..")
            && part.len() <= 14
            && !part.starts_with('-')
            && part.bytes().all(letters)
    };
    name.split('/').all(part) && ZONES.get(name).is_ok()
}

#[cfg(test)]
mod tests {
    //! Section 7.1 of spec/api-server.md, row CronJob.

    use super::*;

    #[test]
    fn schedules_that_parse() {
        for text in [
            "*/5 * * * *",
            "0 0 1 1 *",
            "@hourly",
            "@every 1h30m",
            "TZ=UTC 0 0 * * *",
            "CRON_TZ=Europe/Berlin 0 0 * * *",
            "0,30 9-17 ? JAN-MAR mon-fri",
            "5/15 * * * SUN",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn schedules_that_do_not() {
        for text in [
            "",
            "not a schedule",
            "61 * * * *",
            "* * * *",
            "* * * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "1-2-3 * * * *",
            "@sometimes",
            "@every soon",
            "TZ=UTC",
            "TZ=Nowhere/Land * * * * *",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_minute_matches_all_fields() {
        let Ok(Recurrence::Calendar(schedule)) = parse("30 9 13 * FRI") else {
            panic!("no calendar")
        };
        assert!(schedule.matches(30, 9, 13, 2, 1), "the day alone is enough");
        assert!(schedule.matches(30, 9, 14, 2, 5), "so is the weekday");
        assert!(!schedule.matches(30, 9, 14, 2, 1));
        assert!(!schedule.matches(31, 9, 13, 2, 5));
    }

    #[test]
    fn zones_are_looked_up() {
        for name in ["UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Ushuaia"] {
            assert!(is_zone(name), "{name}");
        }
        for name in ["Nowhere/Land", "", "/", "../etc", "Local"] {
            assert!(!is_zone(name), "{name}");
        }
    }
}
