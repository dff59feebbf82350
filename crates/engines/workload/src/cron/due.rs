//! Which time of a schedule is due, and when to look again (CJ3, CJ8).

use core::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tenure_machinery::{Object, ObjectExt};

use crate::time;
use tenure_machinery::schedule::Schedule;

/// From so many missed times on somebody should know.
const MANY: i64 = 100;

/// Clocks differ a little; so a time counts as past, and is looked for, a little after it (CJ8).
const MARGIN: SignedDuration = SignedDuration::from_millis(100);

/// What a schedule says about now.
pub(super) enum Due {
    /// Nothing was missed.
    Nothing,
    /// This time was, and perhaps very many before it.
    Since { time: Timestamp, many: bool },
    /// The schedule names no time at all.
    Never,
}

/// The most recent time that is past and not started.
pub(super) fn due(cron: &Object, schedule: &Schedule, now: Timestamp) -> Due {
    let now = surely(now);
    let from = last_start(cron, now);
    let Some(first) = schedule.next(from) else { return Due::Never };
    let Some(last) = schedule.last(first, now) else { return Due::Nothing };
    Due::Since { time: last, many: missed(cron, schedule, from, now) > MANY }
}

/// Roughly how many times passed that could still have been started: as if all pauses were as long
/// as the first.
fn missed(cron: &Object, schedule: &Schedule, from: Timestamp, now: Timestamp) -> i64 {
    let limit = deadline(cron).map_or(Timestamp::MIN, |seconds| time::after(now, -seconds));
    let Some(first) = schedule.next(from.max(limit)).filter(|first| *first <= now) else {
        return 0;
    };
    let pause = schedule.next(first).map_or(i64::MAX, |s| s.as_second() - first.as_second());
    (now.as_second() - first.as_second()) / pause.max(1) + 1
}

/// How long it is until the next time.
pub(super) fn wait(cron: &Object, schedule: &Schedule, now: Timestamp) -> Option<Duration> {
    let past = surely(now);
    // What counts from the last start goes on doing so; the calendar does not care.
    let first = schedule.next(last_start(cron, now))?;
    let next = match schedule.last(first, past) {
        Some(last) => schedule.next(last)?,
        None => first,
    };
    Some(time::until(next, past))
}

/// The time up to which everything is past on every clock.
fn surely(now: Timestamp) -> Timestamp {
    now.saturating_sub(MARGIN).unwrap_or(now)
}

/// `startingDeadlineSeconds`: what is later than that is not started.
pub(super) fn deadline(cron: &Object) -> Option<i64> {
    cron.int_at(&["spec", "startingDeadlineSeconds"])
}

/// The last time that was started, or when the CronJob was made.
fn last_start(cron: &Object, now: Timestamp) -> Timestamp {
    let started = time::at(cron, &["status", "lastScheduleTime"]);
    started.or_else(|| time::created(cron)).unwrap_or(now)
}
