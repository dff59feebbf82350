//! Snapshots and compaction of a stopped server, and what is said when its files are unusable.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::process::{Server, run};

/// A folder that a server has used.
fn used() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let arguments = ["--listen", "127.0.0.1:0", "--data-dir", text(&data)];
    let (ended, _) = Server::start(&arguments).end(Signal::TERM);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_snapshot_is_saved_once_and_restored() {
    let dir = used();
    let (data, file) = (dir.path().join("data"), dir.path().join("snapshot"));
    let save = ["snapshot", "save", text(&file), "--data-dir", text(&data)];
    let saved = run(&save);
    assert_eq!(saved.code, Some(0), "{}", saved.stderr);
    assert!(saved.stdout.starts_with(&format!("saved `{}` (", file.display())), "{}", saved.stdout);
    let again = run(&save);
    assert_eq!(again.code, Some(1));
    let expected = format!(
        "error: the snapshot failed\n  \
         cause: `{}` exists; a snapshot is never written over a file\n",
        file.display()
    );
    assert_eq!(again.stderr, expected);
    let restored = run(&["snapshot", "restore", text(&file), "--data-dir", text(&data)]);
    assert_eq!(restored.code, Some(0), "{}", restored.stderr);
    let expected = format!(
        "restored `{}` into `{}`\nwhat was there before is in `{}.",
        file.display(),
        data.display(),
        data.join("store.before-restore").display()
    );
    assert!(restored.stdout.starts_with(&expected), "{}", restored.stdout);
    let kept = restored.stdout.split('`').nth(5).unwrap();
    assert!(Path::new(kept).join("log.redb").exists(), "{kept}");
    let arguments = ["--listen", "127.0.0.1:0", "--data-dir", text(&data)];
    assert_eq!(Server::start(&arguments).end(Signal::TERM).0.code, Some(0));
}

#[test]
fn compaction_says_what_it_did() {
    let dir = used();
    let ended = run(&["storage", "compact", "--data-dir", text(&dir.path().join("data"))]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("forgot "), "{}", ended.stdout);
    assert!(ended.stdout.contains(" old revisions: "), "{}", ended.stdout);
}

#[test]
fn an_absent_folder_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("none");
    let ended = run(&["storage", "compact", "--data-dir", text(&data)]);
    assert_eq!(ended.code, Some(1));
    let expected = format!(
        "error: there is no data folder `{}`\n  \
         hint: name the folder that `tenure up` uses with `--data-dir DIR`\n",
        data.display()
    );
    assert_eq!(ended.stderr, expected);
    assert!(!data.exists());
}

#[test]
fn a_damaged_store_is_told_and_left_as_it_is() {
    let dir = used();
    let data = dir.path().join("data");
    let log = data.join("store/log.redb");
    fs::write(&log, "nonsense").unwrap();
    let ended = run(&["up", "--listen", "127.0.0.1:0", "--data-dir", text(&data)]);
    assert_eq!(ended.code, Some(1));
    let said = format!(
        "error: the objects in `{}` cannot be read\n  cause: ",
        data.join("store").display()
    );
    assert!(ended.stderr.starts_with(&said), "{}", ended.stderr);
    let hint = "  hint: go back to a snapshot with `tenure snapshot restore FILE`, or use another \
                folder with `--data-dir DIR`\n";
    assert!(ended.stderr.ends_with(hint), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&log).unwrap(), "nonsense");
}
