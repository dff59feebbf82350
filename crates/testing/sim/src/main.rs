//! `cargo xtask sim`: many seeds of histories and of hosts with faults.

use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tenure_sim::run::{Trial, TrialFailure, try_seed};
use tenure_sim::{access, reference, retention};

const USAGE: &str = "usage: tenure-sim [--seed N] [--histories N] [--runs N]\n       \
                     tenure-sim retention [--seed N] [--histories N] [--events N]\n       \
                     tenure-sim reference [--seed N] [--steps N]\n       \
                     tenure-sim access [--seed N] [--decisions N]";

/// The exit code of words that mean nothing; a violation has 1.
const MISUSED: u8 = 2;

/// So many worlds of roles ask about everything that is built in.
const COVERING: u64 = 100;

/// How many changes a world of references lives through.
const STEPS_EACH: u64 = 500;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mut seed, mut histories, mut runs) = (None, 100_000, 10_000);
    let (mut retaining, mut events) = (false, 4);
    let (mut referring, mut steps) = (false, 1_000_000);
    let (mut deciding, mut decisions) = (false, 10_000_000);
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|text| text.parse::<u64>().ok());
        let taken = match word {
            "retention" => {
                retaining = true;
                Some(())
            }
            "reference" => {
                referring = true;
                Some(())
            }
            "access" => {
                deciding = true;
                Some(())
            }
            "--decisions" if deciding => number().map(|n| decisions = n),
            "--steps" if referring => number().map(|n| steps = n),
            "--events" if retaining => number().map(|n| events = n as usize),
            "--seed" => number().map(|n| seed = Some(n)),
            "--histories" => number().map(|n| histories = n),
            "--runs" => number().map(|n| runs = n),
            _ => None,
        };
        if taken.is_none() {
            eprintln!("{USAGE}");
            return ExitCode::from(MISUSED);
        }
    }
    if retaining {
        let seeds = seed.map_or(0..histories, |seed| seed..seed + 1);
        return retain(seeds, events);
    }
    if referring {
        let seeds = seed.map_or(0..steps.div_ceil(STEPS_EACH), |seed| seed..seed + 1);
        return refer(seeds);
    }
    if deciding {
        let worlds = decisions.div_ceil(access::DECISIONS_EACH);
        return decide(seed.map_or(0..worlds, |seed| seed..seed + 1));
    }
    // One seed is tried in every way; without one, all seeds from zero on.
    let trials = [
        (Trial::History, histories),
        (Trial::Up, runs.div_ceil(2)),
        (Trial::Attach, runs.div_ceil(2)),
        (Trial::Schedules, runs.div_ceil(10)),
    ];
    let begin = Instant::now();
    for (trial, count) in trials {
        let seeds = seed.map_or(0..count, |seed| seed..seed + 1);
        let count = seeds.end - seeds.start;
        println!("{trial:?}: {count} seeds");
        if let Some(failure) = all(trial, seeds, begin) {
            println!("{trial:?}: seed {} fails: {}", failure.seed, failure.what);
            println!("needed for it, with `--seed {}`:", failure.seed);
            for op in &failure.trace {
                println!("  {op:?}");
            }
            return ExitCode::FAILURE;
        }
    }
    println!("no violation; {} s", begin.elapsed().as_secs());
    ExitCode::SUCCESS
}

/// Histories of retention, random ones and all short ones.
fn retain(seeds: Range<u64>, events: usize) -> ExitCode {
    let begin = Instant::now();
    println!("Retention: {} seeds", seeds.end - seeds.start);
    let mut failed = many(seeds, begin, retention::try_seed, |failure| failure.seed);
    if failed.is_none() {
        println!("Retention: every sequence of {events} events");
        match retention::exhaust(events) {
            Ok(tried) => println!("  {tried} sequences"),
            Err(failure) => failed = Some(failure),
        }
    }
    let Some(failure) = failed else {
        println!("no violation; {} s", begin.elapsed().as_secs());
        return ExitCode::SUCCESS;
    };
    println!("seed {} fails: {}", failure.seed, failure.what);
    println!("needed for it:");
    for op in &failure.trace {
        println!("  {op:?}");
    }
    ExitCode::FAILURE
}

/// Random changes to worlds of references, compared after each.
fn refer(seeds: Range<u64>) -> ExitCode {
    let begin = Instant::now();
    println!("Reference: {} seeds of {STEPS_EACH} changes", seeds.end - seeds.start);
    let trial = |seed| reference::try_seed(seed, STEPS_EACH as usize);
    let Some(failure) = many(seeds, begin, trial, |failure| failure.seed) else {
        println!("no violation; {} s", begin.elapsed().as_secs());
        return ExitCode::SUCCESS;
    };
    println!("seed {} fails: {}", failure.seed, failure.what);
    println!("the changes before it:");
    for change in &failure.trace {
        println!("  {change:?}");
    }
    ExitCode::FAILURE
}

/// Random roles and request lines, decided twice.
fn decide(seeds: Range<u64>) -> ExitCode {
    let begin = Instant::now();
    let worlds = seeds.end - seeds.start;
    println!("Access: {worlds} seeds of {} decisions", access::DECISIONS_EACH);
    let all_seen: Mutex<access::AccessCoverage> = Mutex::default();
    let trial = |seed| {
        let seen = access::try_seed(seed, access::DECISIONS_EACH)?;
        all_seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).merge(seen);
        Ok(())
    };
    let failed = many(seeds, begin, trial, |failure: &access::AccessFailure| failure.seed);
    if let Some(failure) = failed {
        println!("seed {} fails: {}", failure.seed, failure.what);
        println!("with these roles and bindings:");
        for line in &failure.world {
            println!("  {line}");
        }
        return ExitCode::FAILURE;
    }
    let seen = all_seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    println!(
        "{} decisions, {} of them allowed; {} created by updating, {} wrote roles or bindings",
        seen.decisions, seen.allowed, seen.creations, seen.writes
    );
    // A few worlds need not meet everything.
    let missing = seen.missing();
    if worlds >= COVERING && !missing.is_empty() {
        println!("never asked about: {}", missing.join(", "));
        return ExitCode::FAILURE;
    }
    println!("no difference; {} s", begin.elapsed().as_secs());
    ExitCode::SUCCESS
}

/// Tries seeds on all cores; the failure with the smallest seed.
fn all(trial: Trial, seeds: Range<u64>, begin: Instant) -> Option<Box<TrialFailure>> {
    many(seeds, begin, |seed| try_seed(trial, seed), |failure| failure.seed)
}

fn many<F: Send>(
    seeds: Range<u64>,
    begin: Instant,
    trial: impl Fn(u64) -> Result<(), Box<F>> + Sync,
    seed_of: impl Fn(&F) -> u64 + Sync,
) -> Option<Box<F>> {
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<Box<F>>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if seed > seeds.start && seed.is_multiple_of(10_000) {
                println!("  {seed} ({} s)", begin.elapsed().as_secs());
            }
            if let Err(failure) = trial(seed) {
                next.store(seeds.end, Ordering::Relaxed);
                let mut first = failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if first.as_ref().is_none_or(|first| seed_of(first) > seed_of(&failure)) {
                    *first = Some(failure);
                }
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}
