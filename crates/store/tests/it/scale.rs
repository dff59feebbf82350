//! Large logs: how long an open takes after a kill.

use std::fs;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_store::{Commit, FileLog, FileOptions, Log};

use crate::contract::{commit, put};
use crate::disk::Random;

/// Without optimisation a tenth has to do.
const OBJECTS: u64 = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
const BATCH: u64 = 500;

fn value(random: &mut Random) -> String {
    (0..64).map(|_| format!("{:016x}", random.next())).collect()
}

#[test]
fn r30_r48_a_killed_log_opens_quickly() {
    let folder = TempDir::new().unwrap();
    let (before, after) = (folder.path().join("before"), folder.path().join("after"));
    let mut log = FileLog::open(&before, FileOptions::default()).unwrap();
    let mut random = Random::seeded(1);
    for batch in 0..OBJECTS / BATCH {
        let commits: Vec<Commit> = (1..=BATCH)
            .map(|n| batch * BATCH + n)
            .map(|r| {
                commit(r, vec![put(&format!("/registry/pods/ns/{r}"), &value(&mut random), 0)])
            })
            .collect();
        log.append(&commits).unwrap();
    }
    println!("written: {:?}", log.stats());
    // The files of a running log are what a killed process leaves behind.
    fs::create_dir(&after).unwrap();
    for file in ["log.redb", "log.journal"] {
        fs::copy(before.join(file), after.join(file)).unwrap();
        // Otherwise the open would pay for writing the copy.
        fs::File::open(after.join(file)).unwrap().sync_all().unwrap();
    }

    let start = Instant::now();
    let mut log = FileLog::open(&after, FileOptions::default()).unwrap();
    let opened = start.elapsed();
    let (mut entries, mut bytes) = (0, 0);
    let replayed = log
        .replay(&mut |entry| {
            entries += 1;
            bytes += entry.value.map_or(0, |value| value.len());
        })
        .unwrap();
    let loaded = start.elapsed();
    println!("opened in {opened:?}, loaded in {loaded:?}, {:?}", log.stats());
    assert_eq!((entries, replayed.last.0), (OBJECTS, OBJECTS));
    assert_eq!(bytes as u64, OBJECTS * 1024);
    // Without optimisation redb also checks every page when it opens a file.
    let (open_max, load_max) = if cfg!(debug_assertions) { (5000, 10_000) } else { (100, 2000) };
    assert!(opened < Duration::from_millis(open_max), "opened in {opened:?}");
    assert!(loaded < Duration::from_millis(load_max), "loaded in {loaded:?}");
}
