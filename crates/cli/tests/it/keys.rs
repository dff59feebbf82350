//! `tenure keys`, and the flags of `tenure up` about keys, events and the audit log.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use crate::process::{Server, run};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The ids and uses that `tenure keys list` prints.
fn listed(data: &Path) -> Vec<(String, String)> {
    let list = run(&["keys", "list", "--data-dir", text(data)]);
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    let mut lines = list.stdout.lines();
    assert!(lines.next().unwrap().starts_with("ID "), "{}", list.stdout);
    let pair = |line: &str| {
        let (id, what) = line.rsplit_once("  ").unwrap();
        (id.trim().to_owned(), what.to_owned())
    };
    lines.map(pair).collect()
}

#[test]
fn keys_are_rotated_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let folder = ["--data-dir", text(&data)];
    let absent = run(&["keys", "rotate", folder[0], folder[1]]);
    assert_eq!(absent.code, Some(1));
    assert!(absent.stderr.starts_with("error: there is no data folder "), "{}", absent.stderr);
    let server = Server::start(&["--listen", "127.0.0.1:0", folder[0], folder[1]]);
    let [(first, signs)] = &listed(&data)[..] else { panic!("one key") };
    assert_eq!(signs, "signs");
    let locked = run(&["keys", "rotate", folder[0], folder[1]]);
    assert_eq!(locked.code, Some(1));
    let hint = format!("  hint: stop the server that uses `{}` first\n", data.display());
    assert!(locked.stderr.ends_with(&hint), "{}", locked.stderr);
    assert_eq!(server.end(Signal::TERM).0.code, Some(0));

    let rotated = run(&["keys", "rotate", folder[0], folder[1]]);
    assert_eq!(rotated.code, Some(0), "{}", rotated.stderr);
    let [(new, signs), (old, verifies)] = &listed(&data)[..] else { panic!("two keys") };
    assert_eq!((old, signs.as_str(), verifies.as_str()), (first, "signs", "verifies"));
    let expected = format!(
        "`{new}` signs from the next start on\n`{old}` still verifies; forget it with \
         `tenure keys remove {old}` when its tokens are gone\n"
    );
    assert_eq!(rotated.stdout, expected);

    let refused = run(&["keys", "remove", new, folder[0], folder[1]]);
    let expected = format!(
        "error: the key `{new}` signs tokens\n  \
         hint: make another one sign first with `tenure keys rotate`\n"
    );
    assert_eq!((refused.code, refused.stderr), (Some(1), expected));
    let removed = run(&["keys", "remove", old, folder[0], folder[1]]);
    let expected = format!("tokens of `{old}` are refused from the next start on\n");
    assert_eq!((removed.code, removed.stdout), (Some(0), expected));
    let again = run(&["keys", "remove", old, folder[0], folder[1]]);
    let expected =
        format!("error: there is no key `{old}`\n  hint: see them all with `tenure keys list`\n");
    assert_eq!((again.code, again.stderr), (Some(1), expected));
    // An id may begin with a hyphen and is no flag then.
    let hyphen = run(&["keys", "remove", "-x", folder[0], folder[1]]);
    assert!(hyphen.stderr.starts_with("error: there is no key `-x`\n"), "{}", hyphen.stderr);
}

#[test]
fn flags_that_cannot_be_kept_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let level = run(&["up", "--ephemeral", "--audit-level", "request"]);
    assert_eq!(level.code, Some(2));
    assert!(level.stderr.contains("--audit-log <FILE>"), "{}", level.stderr);
    let time = run(&["up", "--ephemeral", "--event-ttl", "1d"]);
    assert_eq!(time.code, Some(2));
    assert!(time.stderr.contains("such as `90m`"), "{}", time.stderr);
    let file = dir.path().join("none/audit.log");
    let log = run(&["up", "--ephemeral", "--listen", "127.0.0.1:0", "--audit-log", text(&file)]);
    assert_eq!(log.code, Some(1));
    let expected = format!("error: the audit log `{}` cannot be written\n", file.display());
    assert!(log.stderr.starts_with(&expected), "{}", log.stderr);
    let keys = run(&["up", "--ephemeral", "--service-account-key-file", text(&file)]);
    assert_eq!(keys.code, Some(1));
    let expected = format!("error: `{}` cannot be read or written\n", file.display());
    assert!(keys.stderr.starts_with(&expected), "{}", keys.stderr);
}

#[test]
fn an_audit_log_is_begun_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("audit.log");
    fs::write(&file, "what was there\n").unwrap();
    let flags = ["--ephemeral", "--listen", "127.0.0.1:0", "--audit-log", text(&file)];
    assert_eq!(Server::start(&flags).end(Signal::TERM).0.code, Some(0));
    assert_eq!(fs::read_to_string(&file).unwrap(), "what was there\n");
}
