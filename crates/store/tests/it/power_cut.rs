//! Power cuts after every single access, and disks that fill up at every single access.

use redb::StorageBackend as _;
use tenure_core::Revision;
use tenure_store::{
    AppendDurability, AppendError, Commit, FileLog, FileOptions, Log, REVISION_STEP,
};

use crate::contract::{State, commit, gone, put, state};
use crate::disk::{Disk, PowerCuts, Unsynced};

enum Step {
    Append(Vec<Commit>),
    Compact(u64),
    Sync,
}

/// A journal that is full every few steps.
const JOURNAL_BYTES: usize = 32 * 1024;

/// Creations, updates, deletions, a value of many pages and one larger than the journal, batches, compactions.
fn workload() -> Vec<Step> {
    let (long, longer) = ("x".repeat(20_000), "y".repeat(2 * JOURNAL_BYTES));
    vec![
        Step::Append(vec![commit(1, vec![put("a", "1", 0), put("b", "1", 0)])]),
        Step::Append(vec![
            commit(2, vec![put("a", "2", 1)]),
            commit(3, vec![put("c", &long, 0), gone("b", 1)]),
        ]),
        Step::Sync,
        Step::Append((4..40).map(|r| commit(r, vec![put("d", &format!("{r}"), r - 1)])).collect()),
        Step::Append(vec![commit(40, vec![gone("c", 3), put("a", "40", 2)])]),
        Step::Compact(30),
        Step::Append(vec![commit(50, vec![])]),
        Step::Sync,
        Step::Append(vec![commit(51, vec![put("c", "51", 0)])]),
        Step::Compact(51),
        Step::Append(vec![commit(52, vec![put("e", &long, 0)])]),
        Step::Append(vec![commit(53, vec![put("e", "53", 52)])]),
        Step::Append(vec![commit(54, vec![put("f", &longer, 0)]), commit(55, vec![gone("a", 40)])]),
        Step::Append(vec![commit(56, vec![gone("c", 51)])]),
        Step::Append(vec![commit(57, vec![])]),
        Step::Append(vec![commit(58, vec![put("e", &long, 53)])]),
        Step::Append(vec![commit(59, vec![put("d", &long, 39)])]),
    ]
}

fn run(log: &mut FileLog, step: &Step) -> Result<(), AppendError> {
    match step {
        Step::Append(commits) => log.append(commits),
        Step::Compact(upto) => log.compact(Revision(*upto)).map(|_| ()),
        Step::Sync => log.sync(),
    }
}

fn options(durability: AppendDurability) -> FileOptions {
    FileOptions {
        durability,
        cache_bytes: 1024 * 1024,
        journal_bytes: JOURNAL_BYTES,
        ..FileOptions::default()
    }
}

/// A state of the log, and how many accesses the disk had seen around it.
struct Milestone {
    state: State,
    /// When the state was asked for.
    begun: usize,
    /// When the call for it returned.
    returned: usize,
    /// Whether it was durable when the call returned.
    durable: bool,
}

/// A disk with an empty log, as the data folder receives it: made aside, synced, then moved there.
fn empty_log() -> Disk {
    let disk = Disk::default();
    drop(disk.open(options(AppendDurability::Strict)).unwrap());
    disk.sync_data().unwrap();
    disk.journal().sync_data().unwrap();
    disk
}

/// Runs the workload on a disk that records, and notes what held when.
fn record(durability: AppendDurability) -> (Disk, Vec<Milestone>) {
    let disk = empty_log();
    let begin = disk.count();
    let mut log = disk.open(options(durability)).unwrap();
    let empty = Milestone { state: state(&mut log), begun: begin, returned: begin, durable: true };
    let mut milestones = vec![empty];
    for step in workload() {
        let begun = disk.count();
        run(&mut log, &step).unwrap();
        let durable = durability == AppendDurability::Strict || !matches!(step, Step::Append(_));
        let returned = disk.count();
        milestones.push(Milestone { state: state(&mut log), begun, returned, durable });
    }
    (disk, milestones)
}

/// Cuts the power everywhere; `same` says whether a recovered state is one of the history.
fn check_every_cut(durability: AppendDurability, same: impl Fn(usize, &State, &State) -> bool) {
    let (disk, milestones) = record(durability);
    let accesses = disk.accesses();
    let mut cuts = PowerCuts::new(&accesses);
    for cut in milestones[0].begun..=accesses.len() {
        let torn = (0..4).map(Unsynced::Torn);
        for unsynced in [Unsynced::Lost, Unsynced::Kept].into_iter().chain(torn) {
            let case = format!("{durability:?}, cut after {cut}, {unsynced:?}");
            let survivor = Disk::with_images(cuts.images(cut, unsynced));
            let mut log = survivor
                .open(options(durability))
                .unwrap_or_else(|error| panic!("{case}: {error}"));
            let found = state(&mut log);
            // Nothing durable is lost, and nothing appears that was not yet asked for.
            let oldest = milestones.iter().rposition(|m| m.durable && m.returned <= cut).unwrap();
            assert!(
                milestones[oldest..]
                    .iter()
                    .take_while(|m| m.begun <= cut)
                    .any(|m| same(cut, &m.state, &found)),
                "{case}: no state of the history: {found:?}"
            );
            // The survivor takes writes and keeps them.
            let next = found.1 + 1;
            log.append(&[commit(next, vec![put("new", "1", 0)])]).unwrap();
            drop(log);
            let mut log = survivor.open(options(durability)).unwrap();
            assert_eq!(state(&mut log).0.len(), found.0.len() + 1, "{case}");
        }
    }
}

#[test]
fn r31_r186_strict_survives_a_power_cut_after_every_access() {
    check_every_cut(AppendDurability::Strict, |_, expected, found| expected == found);
}

#[test]
fn r31_r186_relaxed_keeps_a_prefix_and_jumps_ahead() {
    let (_, milestones) = record(AppendDurability::Relaxed);
    let closing = milestones.last().unwrap().returned;
    check_every_cut(AppendDurability::Relaxed, |cut, expected, found| {
        let prefix = (&expected.0, expected.2) == (&found.0, found.2);
        let handed_out = milestones.iter().rfind(|m| m.returned <= cut).unwrap().state.1;
        let jumped = found.1 == REVISION_STEP;
        // Before anything was handed out, and once the log is closing, nothing may be missing.
        prefix && (jumped || (handed_out == 0 || cut > closing) && found.1 == handed_out)
    });
}

#[test]
fn r186_a_clean_end_does_not_jump() {
    let disk = Disk::default();
    for revision in 1..4 {
        let mut log = disk.open(options(AppendDurability::Relaxed)).unwrap();
        assert_eq!(state(&mut log).1, revision - 1);
        log.append(&[commit(revision, vec![put("a", "", 0)])]).unwrap();
    }
    let mut log = disk.open(options(AppendDurability::Strict)).unwrap();
    assert_eq!(state(&mut log).1, 3);
}

#[test]
fn r32_a_full_disk_stops_writes_and_loses_nothing() {
    let (_, milestones) = record(AppendDurability::Strict);
    let opened = milestones[1].begun;
    let workload_end = milestones.last().unwrap().returned;
    for room in 0..workload_end - opened {
        let disk = empty_log();
        let mut log = disk.open(options(AppendDurability::Strict)).unwrap();
        disk.fill_up_after(room);
        let mut done = 0;
        let mut failure = None;
        for step in workload() {
            match run(&mut log, &step) {
                Ok(()) => done += 1,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        let cause = "no space is left on the disk".to_owned();
        assert_eq!(failure, Some(AppendError::Failed { cause: cause.clone(), disk_full: true }));
        // Reads go on, writes do not, and they name the first cause.
        state(&mut log);
        for error in [
            log.append(&[commit(1000, vec![])]).unwrap_err(),
            log.compact(Revision(1000)).unwrap_err(),
            log.sync().unwrap_err(),
        ] {
            assert_eq!(error, AppendError::Stopped { cause: cause.clone() });
        }
        drop(log);
        let mut log = Disk::with_images(disk.images())
            .open(options(AppendDurability::Strict))
            .unwrap_or_else(|error| panic!("room for {room}: {error}"));
        // Of the write that failed nobody knows whether it arrived, but it did so whole.
        let found = state(&mut log);
        assert!(
            [&milestones[done].state, &milestones[done + 1].state].contains(&&found),
            "room for {room}: {found:?}"
        );
    }
}
