//! Retention under misfortune: clients, the engine behind a log it reads late, a collector that asks it,
//! writes that land late or never, crashes, and the feature turned off and on.
//!
//! ```text
//!   clients ──► Truth (one order) ──► feed, late ──► engine ──► plan ──► writes under way ──► Truth
//!                  ▲                                   ▲ ask                                  guards
//!                  └──────────── collector ────────────┘
//! ```
//!
//! Every commit is checked for what must never happen; at the end everything is let run out, and what
//! must have happened is checked.

mod host;
mod truth;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use host::Host;
pub use truth::{RetentionOperation, client};

use crate::random::Random;

/// A history that went wrong.
#[derive(Clone, Debug)]
pub struct RetentionFailure {
    /// With which seed.
    pub seed: u64,
    /// What went wrong.
    pub what: String,
    /// The steps that are needed for it.
    pub trace: Vec<RetentionOperation>,
}

/// The steps of a seed.
#[must_use]
pub fn steps(seed: u64) -> Vec<RetentionOperation> {
    let mut random = Random::new(seed ^ 0x7e7e);
    let count = 8 + random.below(28);
    let mut ops = Vec::new();
    for _ in 0..count {
        ops.push(client(&mut random));
        for _ in 0..random.below(5) {
            ops.push(truth::host(&mut random));
        }
    }
    ops
}

/// Runs steps and lets everything run out.
///
/// # Errors
/// What went wrong.
pub fn run(seed: u64, ops: &[RetentionOperation]) -> Result<(), String> {
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let mut host = Host::new(seed);
        ops.iter().try_for_each(|op| host.step(op))?;
        host.finish()
    }));
    caught.unwrap_or_else(|_| Err("panic".into()))
}

/// Tries one seed.
///
/// # Errors
/// The failure, shrunk to the steps that matter.
pub fn try_seed(seed: u64) -> Result<(), Box<RetentionFailure>> {
    let ops = steps(seed);
    match run(seed, &ops) {
        Ok(()) => Ok(()),
        Err(_) => Err(Box::new(shrink(seed, ops))),
    }
}

fn shrink(seed: u64, mut ops: Vec<RetentionOperation>) -> RetentionFailure {
    let mut size = ops.len() / 2;
    while size > 0 {
        let (mut at, mut removed) = (0, false);
        while at < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(at..(at + size).min(ops.len()));
            if run(seed, &fewer).is_err() {
                ops = fewer;
                removed = true;
            } else {
                at += size;
            }
        }
        if !removed || size > 1 {
            size /= 2;
        }
    }
    let what = run(seed, &ops).err().unwrap_or_default();
    RetentionFailure { seed, what, trace: ops }
}

/// Every sequence of so many events over two subjects and three holders, each let run out.
///
/// # Errors
/// The first that went wrong.
pub fn exhaust(events: usize) -> Result<u64, Box<RetentionFailure>> {
    let mut tried = 0;
    let mut trace = Vec::new();
    let mut host = Host::new(0);
    for op in truth::few_at_first() {
        host.step(&op).map_err(|what| failed(what, &trace))?;
    }
    deeper(&host, events, &mut trace, &mut tried)?;
    Ok(tried)
}

fn deeper(
    host: &Host,
    left: usize,
    trace: &mut Vec<RetentionOperation>,
    tried: &mut u64,
) -> Result<(), Box<RetentionFailure>> {
    if left == 0 {
        *tried += 1;
        return host.clone().finish().map_err(|what| failed(what, trace));
    }
    for op in truth::few() {
        let mut next = host.clone();
        trace.push(op.clone());
        next.step(&op).map_err(|what| failed(what, trace))?;
        deeper(&next, left - 1, trace, tried)?;
        trace.pop();
    }
    Ok(())
}

fn failed(what: String, trace: &[RetentionOperation]) -> Box<RetentionFailure> {
    Box::new(RetentionFailure { seed: 0, what, trace: trace.to_vec() })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/retention.md, section 11: the invariants I1 to I6 over random histories.
    use super::{exhaust, try_seed};

    #[test]
    fn r50_r55_no_history_loses_a_needed_subject_or_keeps_an_unneeded_one() {
        for seed in 0..3000 {
            if let Err(failure) = try_seed(seed) {
                panic!("seed {seed}: {}\n{:#?}", failure.what, failure.trace);
            }
        }
    }

    #[test]
    fn r50_r55_no_short_history_does_either() {
        match exhaust(3) {
            Ok(tried) => assert!(tried > 1000),
            Err(failure) => panic!("{}\n{:#?}", failure.what, failure.trace),
        }
    }
}
