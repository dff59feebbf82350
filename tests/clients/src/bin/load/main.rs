//! The load generator of `cargo xtask bench`: takes each measure and prints one table.
//! What takes a second or less is taken three times, and the middle counts.
//! Loopback only, bounded in count and time; one thread, so that the server keeps a core.
//!
//! ```text
//!   life      how fast a server starts, opens what it kept, and what it costs in memory
//!   traffic   creates, gets, lists, watches
//!   ownership the engine alone
//!   reference who may read what is referred to: decisions, changes, memory, the engine alone; and how
//!             soon open watches end over HTTP when a grant goes
//!   downward  what a pod reads about itself: values and environments, the engine alone
//!   node      pods that run for real: their start, commands in them, their logs, their agent
//!   files     files of such pods, which follow every change
//!   retention the engine alone, and owner lists on a server with many ConfigMaps
//!   cascade   deletions that take dependents along
//!   collection collections and namespaces that go; what one write alone costs
//!   apply     server-side apply
//!   custom    from a definition to the first object of its kind
//!   workload  the controllers on simulated nodes: time until all pods are Ready, cost of rest
//!   policies  what admission policies add to a write
//!   overload  one user who asks for too much: how others fare, and the memory it takes
//!   access    who may do what: over HTTP, and the engine alone
//! ```

mod access;
mod apply;
mod cascade;
mod collection;
mod custom;
mod downward;
mod files;
mod life;
mod measure;
mod node;
mod overload;
mod ownership;
mod policies;
mod reference;
mod retention;
mod revocation;
mod traffic;
mod workload;

use std::future::Future;
use std::pin::Pin;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use tokio::task::LocalSet;

use measure::Measure;

/// The allocator of the command itself: engines are measured as they are shipped.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Taking = Pin<Box<dyn Future<Output = Result<Vec<Measure>>>>>;
type Take = fn() -> Taking;

/// What can be measured, by the name that chooses it.
const MEASURES: [(&str, Take); 35] = [
    ("start", || Box::pin(life::start())),
    ("rest", || Box::pin(life::rest())),
    ("inside", || Box::pin(life::inside())),
    ("envtest", || Box::pin(life::stand_ins())),
    ("rate", || Box::pin(traffic::rates())),
    ("list", || Box::pin(traffic::list())),
    ("watch", || Box::pin(traffic::watch())),
    ("alone", || Box::pin(collection::alone())),
    ("collection", || Box::pin(collection::deletions())),
    ("cascade", || Box::pin(cascade::rates())),
    ("workload", || Box::pin(workload::converge())),
    ("idle", || Box::pin(workload::idle())),
    ("apply", || Box::pin(apply::rates())),
    ("custom", || Box::pin(custom::usable())),
    ("policies", || Box::pin(policies::added())),
    ("review", || Box::pin(access::reviews())),
    ("retention", || Box::pin(retention::settles())),
    ("retention engine", || Box::pin(async { retention::engine() })),
    ("engine", || Box::pin(async { ownership::engine() })),
    ("reference", || Box::pin(async { reference::engine() })),
    ("revocation", || Box::pin(revocation::closes())),
    ("downward", || Box::pin(async { downward::engine() })),
    ("pod start", || Box::pin(node::starts())),
    ("pod talk", || Box::pin(node::talks())),
    ("agent", || Box::pin(node::rests())),
    ("pod files", || Box::pin(files::refreshes())),
    ("pod settings", || Box::pin(files::settings())),
    ("shared settings", || Box::pin(files::shared())),
    ("simulated", || Box::pin(workload::simulated())),
    ("decision", || Box::pin(async { access::decisions() })),
    ("fairness", || Box::pin(overload::fairness())),
    ("overload watches", || Box::pin(overload::watches())),
    ("overload lists", || Box::pin(overload::lists())),
    ("overload quota", || Box::pin(overload::quota())),
    ("many", || Box::pin(life::many())),
];

/// The first argument of a process that takes one measure.
const ALONE: &str = "--alone";

/// Each measure has a process of its own, so that none counts or reuses the memory another one left.
fn main() -> Result<()> {
    // A name or part of one chooses measures; without arguments all are taken.
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = chosen.as_slice()
        && flag == ALONE
    {
        return alone(name);
    }
    // A build that has just ended has bytes on their way to the disk, which durable writes wait behind.
    eprintln!("waiting for the disk");
    rustix::fs::sync();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|part| name.contains(part));
    let mut rows = String::new();
    for (name, _) in MEASURES.into_iter().filter(|(name, _)| wanted(name)) {
        eprintln!("measuring: {name}");
        let mut taking = Command::new(std::env::current_exe()?);
        let taken = taking.args([ALONE, name]).stderr(Stdio::inherit()).output()?;
        ensure!(taken.status.success(), "`{name}` could not be measured");
        rows.push_str(&String::from_utf8(taken.stdout)?);
    }
    print!("| measure | target | measured | |\n|---|---|---|---|\n{rows}");
    Ok(())
}

fn alone(wanted: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    for (_, take) in MEASURES.into_iter().filter(|(name, _)| *name == wanted) {
        for Measure { name, target, measured, met } in local.block_on(&runtime, take())? {
            println!("| {name} | {target} | {measured} | {} |", if met { "met" } else { "missed" });
        }
    }
    Ok(())
}
