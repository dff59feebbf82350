//! A cluster as data in, text and pictures out; and plans compared with what then really happens.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end loudly"
)]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod access;
mod agree;
mod cluster;
mod pictures;
mod words;

/// Compares with a file of `tests/snapshots`; `TENURE_SNAPSHOTS=write` writes it instead.
#[track_caller]
fn same(name: &str, seen: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("TENURE_SNAPSHOTS").is_some_and(|word| word == "write") {
        std::fs::write(&path, seen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(seen == expected, "{name}\n--- seen\n{seen}\n--- expected\n{expected}");
}
