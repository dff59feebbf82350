//! Durations for people: two figures at most, coarser the longer they are.

use jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The time from `time` to `now`; `<unknown>` without a time.
#[must_use]
pub fn since(time: Option<&str>, now: Timestamp) -> String {
    match time.and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(time) => duration(whole_seconds(time, now)),
        None => "<unknown>".to_owned(),
    }
}

/// Seconds from one time to another, cut towards zero.
pub(crate) fn whole_seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

/// A number of seconds in short form, such as `2m3s` or `3d4h`.
///
/// One second in the future counts as now, since clocks differ; anything further is `<invalid>`.
#[must_use]
pub fn duration(seconds: i64) -> String {
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..=119 => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Two units, the second left out at zero.
fn two(seconds: i64, (large, large_name): (i64, &str), (small, small_name): (i64, &str)) -> String {
    let rest = seconds % large / small;
    if rest == 0 {
        format!("{}{large_name}", seconds / large)
    } else {
        format!("{}{large_name}{rest}{small_name}", seconds / large)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use super::*;

    #[test]
    fn r29_age_gets_coarser_with_time() {
        let table = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (123, "2m3s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (5 * HOUR + 7 * MINUTE, "5h7m"),
            (47 * HOUR + 59, "47h"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (8 * DAY + 4 * HOUR, "8d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 3 * DAY, "2y3d"),
            (9 * YEAR + 3 * DAY, "9y"),
        ];
        for (seconds, want) in table {
            assert_eq!(duration(seconds), want, "{seconds}");
        }
    }

    #[test]
    fn r29_age_without_a_time_is_unknown() {
        let now = "2024-01-01T00:02:03Z".parse().expect("a time");
        assert_eq!(since(None, now), "<unknown>");
        assert_eq!(since(Some("2024-01-01T00:00:00Z"), now), "2m3s");
        assert_eq!(since(Some("2024-01-01T00:02:05Z"), now), "<invalid>");
    }
}
