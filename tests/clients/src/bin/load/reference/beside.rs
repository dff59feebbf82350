//! Decisions beside a writer: while events come at a rate, and while a strategy over a million origins changes.
//!
//! The writer has a thread of its own, and readers take their view as in the server: from a cell that the writer
//! replaces. A second core must be free for these measures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use arc_swap::ArcSwap;
use tenure_reference::path::JsonPath;
use tenure_reference::{CapabilityView, Finder, Index, IndexEvent, Outputs, Strategy};

use super::super::measure::Measure;
use super::world::{four, gateway, place, put, resource, secret, strategy, web, world_of};
use super::{Asking, ORIGINS_MANY, SINGLES, slowest};

/// How long is looked at what the machine does alone.
const CONTROL: Duration = Duration::from_secs(3);
const EVENTS_A_SECOND: u32 = 10_000;
const RATE_REACHED: f64 = 9_900.0;
/// As many as the server tells, or clears away, before a commit may come between.
const AT_ONCE: usize = 64;
/// How often a reader is waited for, as in the server.
const PATIENCE: usize = 1_000;
/// A reader that was kept for longer than this looks whether another process had its core.
const NOTED: Duration = Duration::from_micros(20);

/// Publishes, and waits a moment for whoever still decides on the view before, as the server does.
fn publish(index: &mut Index, cell: &ArcSwap<CapabilityView>) {
    cell.store(index.publish());
    for _ in 0..PATIENCE {
        if index.is_free() {
            break;
        }
        std::thread::yield_now();
    }
}

/// The slowest decisions while origins of four references come and go at a rate, and without.
pub(super) fn events(mut index: Index) -> Result<[Measure; 2]> {
    let cell = ArcSwap::new(index.publish());
    let is_over = AtomicBool::new(false);
    let reader = Asking::reader();
    let slow = || slowest(&reader, SINGLES, |asked| cell.load().decide(asked).is_allowed());
    let quiet = slow()?;
    let (busy, rate) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| paced(&mut index, &cell, &is_over));
        let busy = (0..5).map(|_| slow()).collect::<Result<Vec<f64>>>();
        is_over.store(true, Ordering::Relaxed);
        Ok::<_, anyhow::Error>((busy?, writer.join().ok().context("the writer failed")?))
    })?;
    let mut busy = busy;
    busy.sort_by(f64::total_cmp);
    let busy = busy.get(busy.len() / 2).copied().context("no decisions")?;
    let name = "reference: allow, random targets, p99 while 10,000 events/s come (twice without)";
    Ok([
        Measure::at_most(name, 2.0 * quiet, busy, "ns"),
        // They are told at a rate: a machine that is too busy for it measures something easier.
        Measure::at_least("reference: events meanwhile", RATE_REACHED, rate),
    ])
}

/// Tells origins at a rate until it is over; how many a second that were.
fn paced(index: &mut Index, cell: &ArcSwap<CapabilityView>, is_over: &AtomicBool) -> f64 {
    let mut out = Outputs::default();
    let begin = Instant::now();
    let mut told = 0_u32;
    while !is_over.load(Ordering::Relaxed) {
        let number = usize::try_from(told % 20_000).unwrap_or_default();
        // The second time round references go that came the first time.
        let secrets = four(number);
        let secrets = if (told / 20_000).is_multiple_of(2) { secrets.as_slice() } else { &[] };
        let name = [resource(number), place(number), format!("paced-{number}")];
        let object = gateway(secrets);
        put(index, &name, &object, &mut out);
        out.transitions.clear();
        publish(index, cell);
        told += 1;
        while begin.elapsed() < Duration::from_secs(1) * told / EVENTS_A_SECOND
            && !is_over.load(Ordering::Relaxed)
        {
            std::hint::spin_loop();
        }
    }
    f64::from(told) / begin.elapsed().as_secs_f64()
}

/// A strategy over a million origins is edited, as the server does it: the new form is told beside, comes into
/// force at once, and what the old one found is cleared away.
pub(super) fn strategy_change() -> Result<Vec<Measure>> {
    let (mut index, _) = world_of(ORIGINS_MANY, 1)?;
    let cell = ArcSwap::new(index.publish());
    // What the machine does to a reader when nothing changes.
    let (_, control) = beside_reader(&cell, || {
        std::thread::sleep(CONTROL);
        Ok(())
    })?;
    let (work, pause) = beside_reader(&cell, || change(&mut index, &cell))?;
    let edges = index.stats().edges;
    ensure!(edges == 2 * ORIGINS_MANY, "{edges} edges");
    let name = "reference: a strategy over 1,000,000 origins changes";
    let millis = |pause: Duration| pause.as_secs_f64() * 1e3;
    Ok(vec![
        Measure::at_most(name, 5.0, work.as_secs_f64(), "s"),
        Measure::at_most("reference: longest pause of decisions then", 1.0, millis(pause), "ms"),
        Measure::at_most("reference: the same without a change", 1.0, millis(control), "ms"),
    ])
}

/// Does something while another thread decides; what came of it, and the longest pause of decisions.
fn beside_reader<T>(
    cell: &ArcSwap<CapabilityView>,
    does: impl FnOnce() -> Result<T>,
) -> Result<(T, Duration)> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| longest_pause(cell, &is_over));
        let done = does();
        is_over.store(true, Ordering::Relaxed);
        let pause = reader.join().ok().context("the reader failed")??;
        Ok((done?, pause))
    })
}

/// The same strategy with a path that finds the same in another way.
fn edited() -> Result<Strategy> {
    let mut edited = strategy(0)?;
    let path = JsonPath::parse("$.spec.listeners[*].tls.certificateRefs[*].name")?;
    let references = edited.versions.iter_mut().flat_map(|version| &mut version.references);
    references.for_each(|reference| reference.finder = Finder::Path(path.clone()));
    Ok(edited)
}

/// Changes the strategy; how long that took, without making the objects that a host would have.
fn change(index: &mut Index, cell: &ArcSwap<CapabilityView>) -> Result<Duration> {
    let mut out = Outputs::default();
    let edited = edited()?;
    let mut work = Duration::ZERO;
    let mut timed = |does: &mut dyn FnMut()| {
        let begin = Instant::now();
        does();
        work += begin.elapsed();
    };
    timed(&mut || index.prepare(&edited, &mut out));
    ensure!(!out.needs.is_empty(), "nothing is asked for");
    for start in (0..ORIGINS_MANY).step_by(AT_ONCE) {
        let objects: Vec<_> = (start..(start + AT_ONCE).min(ORIGINS_MANY))
            .map(|number| {
                let name = [resource(0), place(number), web(number)];
                (name, gateway(&[secret(number), format!("ca-{number:07}")]))
            })
            .collect();
        timed(&mut || {
            objects.iter().for_each(|(name, object)| put(index, name, object, &mut out));
            publish(index, cell);
        });
    }
    timed(&mut || {
        index.prepared();
        index.apply(IndexEvent::PutStrategy(edited.clone()), &mut out);
        publish(index, cell);
    });
    let mut has_more = index.has_to_clear();
    ensure!(has_more, "nothing is to be cleared away");
    while has_more {
        timed(&mut || {
            has_more = index.clear_away(AT_ONCE, &mut out);
            publish(index, cell);
        });
    }
    Ok(work)
}

/// Decides until it is over; the longest time from one decision to the next, all of which allow.
///
/// The time for which the thread could have run, and another process or another machine had the core, is no pause
/// of the engine and is taken off; time for which it ran, or waited for something, is not.
fn longest_pause(cell: &ArcSwap<CapabilityView>, is_over: &AtomicBool) -> Result<Duration> {
    let reader = Asking::reader();
    let (mut longest, mut decisions) = (Duration::ZERO, 0_u64);
    let mut mixed = 7_u64;
    let mut before = Moment::now()?;
    let mut last = before.wall;
    while !is_over.load(Ordering::Relaxed) {
        mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = usize::try_from(mixed >> 33)? % ORIGINS_MANY;
        let name = secret(number);
        // All origins are of the type that the first consumer serves.
        let mut asked = reader.asked(number, &name);
        asked.user = reader.users.first().context("a user")?;
        ensure!(cell.load().decide(&asked).is_allowed(), "{name} is not allowed");
        let now = Instant::now();
        let pause = now - last;
        last = now;
        decisions += 1;
        // Short times add up, and must not be taken off a long one.
        if pause > NOTED || decisions % 1_000 == 0 {
            let after = Moment::now()?;
            if pause > NOTED {
                longest = longest.max(pause.saturating_sub(after.kept_since(&before)));
            }
            last = after.wall;
            before = after;
        }
    }
    Ok(longest)
}

/// A moment of this thread.
struct Moment {
    wall: Instant,
    /// For how long it ran until then; what a hypervisor gave to others does not count.
    ran: Duration,
    /// For how long it could have run, and another thread did.
    queued: Duration,
    /// How often it waited for something.
    waits: u64,
}

impl Moment {
    fn now() -> Result<Moment> {
        let of_thread = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/{file}"));
        let schedstat = of_thread("schedstat")?;
        let queued = schedstat.split(' ').nth(1).context("time on a run queue")?.parse()?;
        let status = of_thread("status")?;
        let mut lines = status.lines();
        let waits = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        let ran = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Ok(Moment {
            ran: Duration::new(u64::try_from(ran.tv_sec)?, u32::try_from(ran.tv_nsec)?),
            queued: Duration::from_nanos(queued),
            waits: waits.context("how often it waited")?.trim().parse()?,
            wall: Instant::now(),
        })
    }

    /// For how long it was kept from running since a moment.
    fn kept_since(&self, before: &Moment) -> Duration {
        if self.waits == before.waits {
            (self.wall - before.wall).saturating_sub(self.ran - before.ran)
        } else {
            self.queued - before.queued
        }
    }
}
