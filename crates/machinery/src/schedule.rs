//! Schedules: five fields or a macro, and which moments they name (CJ1).
//!
//! ```text
//!   minute hour day month weekday      `*`, `1,5`, `9-17`, `*/15`, `mon-fri`
//! ```
//!
//! A moment is named when the wall clock of its zone shows what the fields say: a time that the clock
//! skips is not named, one that it shows twice is named twice. Every search ends after a few thousand
//! steps, whatever the fields say.

use std::sync::LazyLock;

use jiff::civil::{Date, DateTime};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

/// How many days a search goes through: 29 February may be eight years away.
const DAYS_MAX: usize = 9 * 366;

/// How many minutes and hours of matching days a search goes through before it gives up.
const STEPS_MAX: usize = 200_000;

const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The moments at which something runs.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// Minutes of the calendar.
    Calendar(Calendar),
    /// `@every`: so many seconds after the last time.
    Every(i64),
}

/// Minutes of the calendar in one zone.
#[derive(Clone, Debug)]
pub struct Calendar {
    minutes: CronField,
    hours: CronField,
    days: CronField,
    months: CronField,
    weekdays: CronField,
    zone: TimeZone,
}

/// The values of a field, one bit for each.
#[derive(Clone, Copy, Debug)]
struct CronField {
    bits: u64,
    any: bool,
}

/// The zones that come with the program, so that no host's files decide what is valid.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The zone of a name, from what comes with the program; without a name it is UTC.
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" | "Local" => Some(TimeZone::UTC),
        _ => ZONES.get(name).ok(),
    }
}

/// Whether a client may name this zone: one of the known ones, written as their names are.
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

impl Schedule {
    /// Reads a schedule; a zone in its text goes before the one that is given.
    ///
    /// # Errors
    /// The text is no schedule; says why.
    pub fn parse(text: &str, given: &TimeZone) -> Result<Schedule, String> {
        let (text, given) = match text.strip_prefix("TZ=").or(text.strip_prefix("CRON_TZ=")) {
            Some(named) => {
                let (name, rest) = named.split_once(' ').unwrap_or((named, ""));
                let found = zone(name).ok_or_else(|| {
                    format!("provided bad location {name}: unknown time zone {name}")
                })?;
                (rest.trim(), found)
            }
            None => (text, given.clone()),
        };
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            _ => text,
        };
        if let Some(pause) = fields.strip_prefix("@every ") {
            let seconds = seconds(pause);
            let seconds = seconds.ok_or_else(|| format!("failed to parse duration {text}"))?;
            return Ok(Schedule::Every(seconds));
        }
        if fields.starts_with('@') {
            return Err(format!("unrecognized descriptor: {fields}"));
        }
        let parts: Vec<&str> = fields.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = parts.as_slice() else {
            let count = parts.len();
            return Err(format!("expected exactly 5 fields, found {count}: {parts:?}"));
        };
        Ok(Schedule::Calendar(Calendar {
            minutes: CronField::parse(minutes, 0, 59, &[])?,
            hours: CronField::parse(hours, 0, 23, &[])?,
            days: CronField::parse(days, 1, 31, &[])?,
            months: CronField::parse(months, 1, 12, MONTHS)?,
            weekdays: CronField::parse(weekdays, 0, 6, WEEKDAYS)?,
            zone: given,
        }))
    }

    /// The first moment after a time; none when there is none for years.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Schedule::Calendar(calendar) => calendar.next(after),
            Schedule::Every(seconds) => moved(whole(after)?, *seconds),
        }
    }

    /// The last moment that is not after a time, given the first that is counted from.
    #[must_use]
    pub fn last(&self, first: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if first > until {
            return None;
        }
        match self {
            Schedule::Calendar(calendar) => calendar.last(until).filter(|last| *last >= first),
            Schedule::Every(seconds) => {
                let passed = until.as_second() - first.as_second();
                moved(first, passed - passed % seconds)
            }
        }
    }
}

impl Calendar {
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let wall = self.wall(after);
        let mut at = moved(whole(after)?, 60 - i64::from(wall.second()))?;
        let mut days = 0;
        for _ in 0..STEPS_MAX {
            let wall = self.wall(at);
            if !self.names_day(wall.date()) {
                days += 1;
                if days > DAYS_MAX {
                    return None;
                }
                // Where the clock skips midnight, the day begins later.
                let next = self.midnight(wall.date().tomorrow().ok()?)?;
                at = if next > at { next } else { moved(at, 3600)? };
            } else if !self.hours.has(wall.hour()) {
                at = moved(at, (60 - i64::from(wall.minute())) * 60)?;
            } else if self.minutes.has(wall.minute()) {
                return Some(at);
            } else {
                at = moved(at, 60)?;
            }
        }
        None
    }

    fn last(&self, until: Timestamp) -> Option<Timestamp> {
        let wall = self.wall(until);
        let mut at = moved(whole(until)?, -i64::from(wall.second()))?;
        let mut days = 0;
        for _ in 0..STEPS_MAX {
            let wall = self.wall(at);
            if !self.names_day(wall.date()) {
                days += 1;
                if days > DAYS_MAX {
                    return None;
                }
                let end = moved(self.midnight(wall.date())?, -60)?;
                at = if end < at { end } else { moved(at, -3600)? };
            } else if !self.hours.has(wall.hour()) {
                at = moved(at, -(i64::from(wall.minute()) + 1) * 60)?;
            } else if self.minutes.has(wall.minute()) {
                return Some(at);
            } else {
                at = moved(at, -60)?;
            }
        }
        None
    }

    /// Days and weekdays count together when both are restricted.
    fn names_day(&self, date: Date) -> bool {
        let weekday = date.weekday().to_sunday_zero_offset();
        let (in_days, in_week) = (self.days.has(date.day()), self.weekdays.has(weekday));
        let any = self.days.any || self.weekdays.any;
        let day = if any { in_days && in_week } else { in_days || in_week };
        self.months.has(date.month()) && day
    }

    fn wall(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(at)
    }

    fn midnight(&self, date: Date) -> Option<Timestamp> {
        self.zone.to_timestamp(date.at(0, 0, 0, 0)).ok()
    }
}

impl CronField {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.bits >> value.min(63) & 1 == 1)
    }

    fn parse(text: &str, least: u32, most: u32, names: &[&str]) -> Result<CronField, String> {
        let mut field = CronField { bits: 0, any: false };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(number(step, least, &[])?)),
                None => (part, None),
            };
            let value = |text: &str| number(text, least, names);
            let bounds: Vec<&str> = range.split('-').collect();
            let (start, end, any) = match bounds.as_slice() {
                ["*" | "?", ..] => (least, most, step.is_none_or(|step| step <= 1)),
                // A single value with a step runs to the end.
                [one] if step.is_some() => (value(one)?, most, false),
                [one] => (value(one)?, value(one)?, false),
                [start, end] => (value(start)?, value(end)?, false),
                _ => return Err(format!("too many hyphens: {part}")),
            };
            if start < least {
                return Err(format!(
                    "beginning of range ({start}) below minimum ({least}): {part}"
                ));
            }
            if end > most {
                return Err(format!("end of range ({end}) above maximum ({most}): {part}"));
            }
            if start > end {
                return Err(format!(
                    "beginning of range ({start}) beyond end of range ({end}): {part}"
                ));
            }
            let step = match usize::try_from(step.unwrap_or(1)) {
                Ok(step) if step > 0 => step,
                _ => return Err(format!("step of range should be a positive number: {part}")),
            };
            field.any |= any;
            field.bits |= (start..=end).step_by(step).fold(0, |bits, value| bits | 1_u64 << value);
        }
        Ok(field)
    }
}

fn number(text: &str, least: u32, names: &[&str]) -> Result<u32, String> {
    let lower = text.to_lowercase();
    let named = names.iter().position(|name| *name == lower).and_then(|n| u32::try_from(n).ok());
    match named {
        Some(place) => Ok(place + least),
        None => text.parse().map_err(|_| format!("failed to parse int from {text}")),
    }
}

/// The seconds of `1h30m`; at least one.
fn seconds(text: &str) -> Option<i64> {
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
    // The cap keeps the conversion exact; nobody waits that long.
    Some(total.clamp(1.0, 1e12) as i64)
}

/// A time without what is less than a second.
fn whole(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second()).ok()
}

fn moved(time: Timestamp, seconds: i64) -> Option<Timestamp> {
    time.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// A moment as a zone writes it: `2026-01-01T00:00:00+01:00`.
#[must_use]
pub fn written(moment: Timestamp, zone: &TimeZone) -> String {
    let offset = zone.to_offset(moment);
    let whole = whole(moment).unwrap_or(moment);
    if offset.seconds() == 0 {
        return whole.to_string();
    }
    whole.display_with_offset(offset).to_string()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{Schedule, is_zone, written, zone};
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(text: &str, name: &str) -> Schedule {
        Schedule::parse(text, &zone(name).unwrap()).unwrap()
    }

    fn runs(text: &str, name: &str, from: &str, count: usize) -> Vec<String> {
        let (schedule, mut time) = (schedule(text, name), at(from));
        let mut runs = Vec::new();
        for _ in 0..count {
            let Some(next) = schedule.next(time) else { break };
            runs.push(next.to_string());
            time = next;
        }
        runs
    }

    #[test]
    fn cj1_fields_name_minutes() {
        assert_eq!(
            runs("*/20 9-10 * * mon-fri", "UTC", "2026-01-02T10:30:59.5Z", 3),
            ["2026-01-02T10:40:00Z", "2026-01-05T09:00:00Z", "2026-01-05T09:20:00Z"]
        );
        // Both days are restricted: either will do.
        assert_eq!(
            runs("0 0 13 * 5", "UTC", "2026-02-10T00:00:00Z", 3),
            ["2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z"]
        );
        // A star with a step of one is any day, with a larger one it is a restriction.
        assert_eq!(runs("0 0 */1 * 5", "UTC", "2026-02-10T00:00:00Z", 1), ["2026-02-13T00:00:00Z"]);
        assert_eq!(runs("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
        assert_eq!(runs("@hourly", "UTC", "2026-01-01T00:00:00Z", 1), ["2026-01-01T01:00:00Z"]);
        assert_eq!(runs("@weekly", "UTC", "2026-01-01T00:00:00Z", 1), ["2026-01-04T00:00:00Z"]);
        assert_eq!(
            runs("59 23 31 dec ?", "UTC", "2026-01-01T00:00:00Z", 1),
            ["2026-12-31T23:59:00Z"]
        );
    }

    #[test]
    fn cj1_every_counts_from_the_last_time() {
        assert_eq!(
            runs("@every 1h30m", "UTC", "2026-01-01T00:00:07.9Z", 2),
            ["2026-01-01T01:30:07Z", "2026-01-01T03:00:07Z"]
        );
        assert_eq!(runs("@every 10ms", "UTC", "2026-01-01T00:00:00Z", 1), ["2026-01-01T00:00:01Z"]);
    }

    #[test]
    fn cj1_what_never_comes_ends_the_search() {
        for never in ["0 0 31 2 *", "0 0 30 2 *", "* * 31 4,6,9,11 *", ", * * * *"] {
            let schedule = schedule(never, "Europe/Berlin");
            assert_eq!(schedule.next(at("2026-01-01T00:00:00Z")), None, "{never}");
            assert_eq!(schedule.last(at("1980-01-01T00:00:00Z"), at("2026-01-01T00:00:00Z")), None);
        }
        assert_eq!(schedule("* * * * *", "UTC").next(Timestamp::MAX), None);
    }

    #[test]
    fn cj1_wall_clocks_skip_and_repeat() {
        // The clock goes from 02:00 to 03:00: half past two does not come that day.
        assert_eq!(
            runs("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", 1),
            ["2026-03-30T00:30:00Z"]
        );
        // It goes from 03:00 back to 02:00: half past two comes twice.
        assert_eq!(
            runs("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 3),
            ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]
        );
        // Here midnight itself was skipped.
        assert_eq!(
            runs("0 1 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00Z", 1),
            ["2018-11-04T03:00:00Z"]
        );
        assert_eq!(
            runs("TZ=Asia/Tokyo 0 9 * * *", "Europe/Berlin", "2026-01-01T00:00:00Z", 1),
            ["2026-01-02T00:00:00Z"]
        );
    }

    #[test]
    fn cj1_what_is_no_schedule_is_refused() {
        let bad = [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "a * * * *",
            "1-2-3 * * * *",
            "@often",
            "@every",
            "@every x",
            "TZ=Nowhere/Land 0 0 * * *",
            "TZ=UTC",
        ];
        for text in bad {
            assert!(Schedule::parse(text, &zone("UTC").unwrap()).is_err(), "{text}");
        }
        assert!(zone("Nowhere/Land").is_none());
    }

    #[test]
    fn cj2_moments_are_written_in_their_zone() {
        let moment = at("2026-07-01T00:00:00Z");
        assert_eq!(written(moment, &zone("").unwrap()), "2026-07-01T00:00:00Z");
        let berlin = written(moment, &zone("Europe/Berlin").unwrap());
        assert_eq!(berlin, "2026-07-01T02:00:00+02:00");
        let winter = written(at("2026-01-01T00:00:00Z"), &zone("Europe/London").unwrap());
        assert_eq!(winter, "2026-01-01T00:00:00Z");
    }

    proptest! {
        #[test]
        fn cj3_the_last_moment_is_the_one_that_has_no_next_before_now(
            start in 1_500_000_000_i64..1_900_000_000,
            minute in 0_u32..60, hour in 0_u32..24, day in 1_u32..29, shape in 0_u8..5,
            name in prop::sample::select(&["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo"][..]),
            far in 1_i64..4_000_000,
        ) {
            let text = match shape {
                0 => format!("{minute} * * * *"),
                1 => format!("{minute} {hour} * * *"),
                2 => format!("{minute} {hour} {day} * *"),
                3 => format!("*/17 {hour} * * 1-5"),
                _ => format!("@every {}m", minute + 1),
            };
            let schedule = schedule(&text, name);
            let from = Timestamp::from_second(start).unwrap();
            let until = Timestamp::from_second(start + far).unwrap();
            let first = schedule.next(from).unwrap();
            prop_assert!(first > from);
            match schedule.last(first, until) {
                None => prop_assert!(first > until),
                Some(last) => {
                    prop_assert!(first <= last && last <= until);
                    prop_assert!(schedule.next(last).unwrap() > until, "{} {}", text, last);
                }
            }
        }
    }

    #[test]
    fn cj1_schedules_that_parse() {
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
            assert!(Schedule::parse(text, &zone("").unwrap()).is_ok(), "{text}");
        }
    }

    #[test]
    fn cj1_schedules_that_do_not() {
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
            assert!(Schedule::parse(text, &zone("").unwrap()).is_err(), "{text}");
        }
    }

    #[test]
    fn cj1_zones_are_looked_up() {
        for name in ["UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Ushuaia"] {
            assert!(is_zone(name), "{name}");
        }
        for name in ["Nowhere/Land", "", "/", "../etc", "Local"] {
            assert!(!is_zone(name), "{name}");
        }
    }
}
