//! What a server that was killed left behind and nobody will look for again: its containers are ended, what
//! it mounted is taken away. Files are removed by whoever owns the folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cgroup::CgroupHierarchy;
use super::network::{self, HolderRecord};
use super::state::{self, ContainerRecord};
use super::wire::ContainerProcesses;

use crate::clock;

/// How long containers that were killed may take to be gone.
const GONE_MAX: Duration = Duration::from_secs(5);

/// Ends every container of the nodes below a folder, and takes away every mount there (R146c), but for the nodes
/// that stay. The caller knows that no agent of the others uses the folder.
pub fn clear_left(nodes: &Path, stays: impl Fn(&OsStr) -> bool) {
    // By the name that the kernel has for it, which lists mounts by that.
    let Ok(nodes) = std::fs::canonicalize(nodes) else { return };
    let stays = |node: &PathBuf| node.file_name().is_some_and(&stays);
    let left: Vec<PathBuf> = folders(&nodes).into_iter().filter(|node| !stays(node)).collect();
    let mut living = Vec::new();
    // Exactly where records are: elsewhere below a node, files are written by pods.
    for node in &left {
        for container in folders(&node.join("process")).iter().flat_map(|path| folders(path)) {
            living.extend(running(&container));
        }
    }
    for node in &left {
        let record = node.join("process").join(network::FOLDER).join(network::RECORD);
        if let Some(HolderRecord { process, .. }) = state::load(&record) {
            process.kill();
        }
    }
    for ContainerProcesses { shim, init, .. } in living.iter().map(|(running, _)| running) {
        // The shim first: else it would take the end for one that it should record.
        shim.kill();
        init.kill();
    }
    let lives =
        |(running, _): &(ContainerProcesses, _)| running.shim.lives() || running.init.lives();
    let end = clock::instant() + GONE_MAX;
    while living.iter().any(lives) && clock::instant() < end {
        clock::block_for(Duration::from_millis(10));
    }
    if let Ok(groups) = CgroupHierarchy::find() {
        living.iter().for_each(|(_, record)| groups.clear(&record.id));
    }
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    // What was mounted last lies in what was mounted before.
    for place in mounts_below(&mounts, &nodes).iter().rev() {
        if !left.iter().any(|node| place.starts_with(node)) {
            continue;
        }
        use rustix::mount::UnmountFlags;
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        if let Err(error) = rustix::mount::unmount(place, flags) {
            tracing::debug!(place = %place.display(), %error, "not unmounted");
        }
    }
}

/// A container that was recorded as running.
fn running(folder: &Path) -> Option<(ContainerProcesses, ContainerRecord)> {
    let record = state::load(&folder.join("container.json"))?;
    Some((state::load(&folder.join("running.json"))?, record))
}

/// The folders in a folder; links are none.
fn folders(within: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(within) else { return Vec::new() };
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_folder).map(|entry| entry.path()).collect()
}

/// Where something is mounted below a folder, as the kernel lists it.
fn mounts_below(mounts: &[u8], folder: &Path) -> Vec<PathBuf> {
    let lines = mounts.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped);
    places.filter(|place| place != folder && place.starts_with(folder)).collect()
}

/// A path as the kernel writes it: blanks and backslashes are three octal digits after a backslash.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let escape = digits.and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match escape {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::super::wire::Process;
    use super::*;

    fn record() -> ContainerRecord {
        ContainerRecord {
            id: "0".repeat(64),
            sandbox: String::new(),
            name: "a".to_owned(),
            attempt: 0,
            image: String::new(),
            image_id: String::new(),
            stop_signal: None,
            tty: false,
            stdin: false,
            pause: false,
            own_users: false,
        }
    }

    #[test]
    fn r146c_mounts_below_a_folder_are_found_whatever_it_is_called() {
        let mounts = b"1 0 0:1 / / rw - ext4 x rw\n\
            2 1 0:2 / /tmp/a\\040b rw - tmpfs x rw\n\
            3 1 0:3 / /tmp/a\\040b/c\\134d rw shared:1 - tmpfs x rw\n\
            4 1 0:4 / /tmp/a\\040bc rw - tmpfs x rw\n";
        let found = mounts_below(mounts, Path::new("/tmp/a b"));
        assert_eq!(found, [PathBuf::from("/tmp/a b/c\\d")]);
    }

    #[test]
    fn r146c_what_is_recorded_as_running_is_ended_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut children: Vec<_> = (0..3)
            .map(|_| std::process::Command::new("sleep").arg("1000").spawn().unwrap())
            .collect();
        let process =
            |child: &std::process::Child| Process::of(i32::try_from(child.id()).unwrap()).unwrap();
        let (shim, init, other) =
            (process(&children[0]), process(&children[1]), process(&children[2]));
        // A number that another process has by now.
        let reused = Process { start: other.start + 1, ..other };
        for (place, shim, init) in [
            ("node-1/process/sandbox/a", shim, init),
            ("node-1/process/sandbox/b", reused, reused),
            // A node that goes on.
            ("node-2/process/sandbox/a", other, other),
            // What a pod wrote, who would have another's process ended.
            ("node-1/volumes/pods/a", other, other),
        ] {
            let place = folder.path().join(place);
            std::fs::create_dir_all(&place).unwrap();
            let running = ContainerProcesses { shim, init, started: jiff::Timestamp::now() };
            state::save(&place.join("running.json"), &running).unwrap();
            state::save(&place.join("container.json"), &record()).unwrap();
        }
        // What would be waited for for ever, and what somebody else's file is.
        let place = folder.path().join("node-1/process/sandbox/c");
        std::fs::create_dir_all(&place).unwrap();
        state::save(&place.join("container.json"), &record()).unwrap();
        let pipe = place.join("running.json");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let place = folder.path().join("node-1/process/sandbox/d");
        std::fs::create_dir_all(&place).unwrap();
        state::save(&place.join("container.json"), &record()).unwrap();
        let written = folder.path().join("node-1/volumes/pods/a/running.json");
        std::os::unix::fs::symlink(written, place.join("running.json")).unwrap();
        // Ended children are zombies, which live no more.
        clear_left(folder.path(), |node| node == "node-2");
        assert!(!shim.lives() && !init.lives() && other.lives());
        children[2].kill().unwrap();
        for child in &mut children {
            child.wait().unwrap();
        }
    }
}
