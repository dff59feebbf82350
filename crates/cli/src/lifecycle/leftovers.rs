//! What a server that was killed left behind: containers that run on, and mounts in its folder. The next start
//! would find both again; `tenure delete` ends them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

/// How long processes may take to go.
const LIMIT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// A process that cannot be taken for another with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    start: u64,
}

/// Ends the containers of a folder that no server uses, and takes away what is mounted there.
pub(super) fn end(dir: &Path) {
    let mut left = Vec::new();
    processes(&dir.join("nodes"), &mut left);
    left.retain(|process| lives(*process));
    for process in &left {
        if let Some(id) = Pid::from_raw(process.id)
            && let Ok(held) = pidfd_open(id, PidfdFlags::empty())
            // Looked at after it is held: its number cannot become another's.
            && lives(*process)
        {
            let _ = pidfd_send_signal(held, Signal::KILL);
        }
    }
    let begin = Instant::now();
    while left.iter().any(|process| lives(*process)) && begin.elapsed() < LIMIT {
        std::thread::sleep(LOOK);
    }
    let Ok(dir) = fs::canonicalize(dir) else { return };
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // The last that was mounted lies on top.
    for place in mounts(&table, &dir).iter().rev() {
        // What stays is told when its folder cannot be removed.
        let _ = rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH);
    }
}

/// The processes that records below a folder name: those of containers first, then who holds them.
fn processes(folder: &Path, found: &mut Vec<Process>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            processes(&path, found);
        } else if path.file_name().is_some_and(|name| name == "running.json") {
            let record = fs::read(&path).unwrap_or_default();
            let record: Value = serde_json::from_slice(&record).unwrap_or_default();
            found.extend(["init", "shim"].iter().filter_map(|name| read(record.get(*name)?)));
        }
    }
}

fn read(record: &Value) -> Option<Process> {
    let id = i32::try_from(record.get("pid")?.as_i64()?).ok()?;
    Some(Process { id, start: record.get("start")?.as_u64()? })
}

/// Whether it is still this very process.
fn lives(process: Process) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.id)).unwrap_or_default();
    // The state is the third field and the start the 22nd; the second is a name in brackets.
    let Some((_, rest)) = stat.rsplit_once(") ") else { return false };
    let start = rest.split(' ').nth(19).and_then(|start| start.parse().ok());
    !rest.starts_with(['Z', 'X']) && start == Some(process.start)
}

/// What is mounted below a folder, in the order of mounting.
fn mounts(table: &str, folder: &Path) -> Vec<PathBuf> {
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    // Spaces and their like are written as `\040`.
    let places = places.map(|place| {
        let plain = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
        plain.iter().fold(place.to_owned(), |place, (from, to)| place.replace(from, to))
    });
    places.map(PathBuf::from).filter(|place| place.starts_with(folder) && place != folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_folder_are_found() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda rw\n\
                     40 22 0:5 / /a\\040b/nodes/m rw - tmpfs tmpfs rw\n\
                     41 22 0:6 / /a\\040bc rw - tmpfs tmpfs rw\n";
        assert_eq!(mounts(table, Path::new("/a b")), [PathBuf::from("/a b/nodes/m")]);
    }

    #[test]
    fn a_container_that_was_left_is_ended_and_a_number_alone_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("nodes/node-1/containers/x");
        fs::create_dir_all(&folder).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let start: u64 =
            stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
        let record = |start: u64| {
            let init = serde_json::json!({ "pid": id, "start": start });
            fs::write(folder.join("running.json"), serde_json::json!({ "init": init }).to_string())
                .unwrap();
        };
        record(start + 1);
        end(dir.path());
        assert!(child.try_wait().unwrap().is_none(), "another process was ended");
        record(start);
        end(dir.path());
        assert!(!child.wait().unwrap().success());
    }
}
