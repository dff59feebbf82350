//! Checks of who makes files: what must be private is written by crates/files and by nobody else.
//!
//! A file is made in many ways, so the words are looked for, outside of tests. Whoever has a reason to
//! make a file that others may read is listed with it.

use std::path::Path;

use anyhow::Result;

use super::Complaints;

/// The one place where private files are made.
const WRITER: &str = "crates/files/src/";
/// What is run by tests only.
const TESTING: &str = "crates/testing/";
/// Words that make a file, a folder for everybody, or open a file that somebody else may have made.
const WORDS: [&str; 9] = [
    "fs::write(",
    "fs::copy(",
    "File::create(",
    "File::create_new(",
    "File::options(",
    "OpenOptions::new(",
    "OFlags::CREATE",
    "tempfile::",
    "write_private(",
];
/// Files that may say them, each with the reason.
const ALLOWED: [(&str, &str); 20] = [
    ("crates/cli/src/envtest/install.rs", "programs and a mark, for everybody"),
    ("crates/cli/src/man.rs", "manual pages, for everybody"),
    ("crates/node/src/runtime/process/cgroup.rs", "files of a control group"),
    ("crates/node/src/runtime/process/init.rs", "a file of /proc"),
    ("crates/node/src/runtime/process/launch.rs", "a file of /proc"),
    ("crates/node/src/runtime/process/log.rs", "a log, which a link in a pod cannot redirect"),
    (
        "crates/node/src/runtime/process/launch_spec.rs",
        "what a container says is read by its users",
    ),
    ("crates/node/src/runtime/process/root.rs", "the root of a container, below a private folder"),
    (
        concat!("crates/node/src/runtime/process/ro", "ot/base.rs"),
        "the root of a container, for all its users",
    ),
    ("crates/node/src/runtime/process/network/holder.rs", "files of /proc"),
    ("crates/node/src/runtime/process/network/sysctls.rs", "files of /proc"),
    ("crates/node/src/runtime/process/shim.rs", "/dev/null"),
    ("crates/node/src/runtime/process/shim/answer.rs", "files of a control group"),
    ("crates/node/src/runtime/process/shim/make.rs", "files of a control group and of /proc"),
    ("crates/node/src/runtime/process/tar.rs", "files of an image, with the modes that it says"),
    ("crates/node/src/runtime/process/users.rs", "files of /proc"),
    ("crates/node/src/volume/execute.rs", "files of a volume, with the mode that the pod asks for"),
    ("crates/node/src/volume/host_path.rs", "the mode of a hostPath is the kubelet's"),
    ("crates/node/src/volume/sub_path.rs", "a place to mount on"),
    (
        "crates/node/src/worker/start.rs",
        "hosts and the termination message, for all users of a pod",
    ),
];

pub(super) fn check(root: &Path, files: &[String], complaints: &mut Complaints) -> Result<()> {
    let mut used = Vec::new();
    for file in files.iter().filter(|file| is_shipped(file)) {
        let text = std::fs::read_to_string(root.join(file))?;
        let found = making(&text);
        if ALLOWED.iter().any(|(allowed, _)| allowed == file) {
            used.extend((!found.is_empty()).then_some(file.as_str()));
            continue;
        }
        complaints.extend(found.iter().map(|(line, word)| {
            format!(
                "{file}:{line}: `{word}` makes a file; if it is private use crates/files, else give \
                 the reason in xtask/src/tidy/files.rs"
            )
        }));
    }
    let unused = ALLOWED.iter().filter(|(file, _)| !used.contains(file));
    complaints.extend(unused.map(|(file, _)| {
        format!("{file}: makes no file any more; remove it from xtask/src/tidy/files.rs")
    }));
    Ok(())
}

/// Whether users run it.
fn is_shipped(file: &str) -> bool {
    let is_test = file.ends_with("/tests.rs") || file.contains("/tests/");
    file.starts_with("crates/")
        && file.ends_with(".rs")
        && file.contains("/src/")
        && !is_test
        && !file.starts_with(WRITER)
        && !file.starts_with(TESTING)
}

/// The lines before the tests that make a file, with the word that does so.
fn making(text: &str) -> Vec<(usize, &'static str)> {
    let shipped = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = shipped.lines().enumerate().filter(|(_, line)| !line.trim().starts_with("//"));
    lines
        .filter_map(|(number, line)| {
            let word = WORDS.iter().find(|word| line.contains(**word))?;
            Some((number + 1, *word))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_made_elsewhere_is_found() {
        let text = "//! A.\n// fs::write(\nfn a() {\n    std::fs::write(path, key)?;\n}\n";
        assert_eq!(making(text), [(4, "fs::write(")]);
        let options = "//! A.\nlet file = std::fs::OpenOptions::new().create(true);\n";
        assert_eq!(making(options), [(2, "OpenOptions::new(")]);
        assert!(making("//! A.\n\n#[cfg(test)]\nmod tests {\n fs::write(a, b)\n}\n").is_empty());
    }

    #[test]
    fn tests_and_the_writer_itself_are_left_alone() {
        assert!(is_shipped("crates/host/src/pki.rs"));
        for file in [
            "crates/files/src/lib.rs",
            "crates/host/src/pki/tests.rs",
            "crates/store/tests/it/folder.rs",
            "xtask/src/main.rs",
            "crates/testing/containerd/src/lib.rs",
        ] {
            assert!(!is_shipped(file), "{file}");
        }
    }
}
