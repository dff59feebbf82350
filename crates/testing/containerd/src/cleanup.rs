//! What a containerd leaves when it is killed, and how it is removed: processes, mounts, cgroups and
//! sockets. Only what belongs to one folder is touched.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Removes everything that the daemon of this folder left.
pub(super) fn remove(folder: &Path, socket: &Path) {
    let tasks = folder.join("state/io.containerd.runtime.v2.task/k8s.io");
    let tasks: Vec<_> = std::fs::read_dir(tasks).into_iter().flatten().flatten().collect();
    // Killed processes may have left others meanwhile.
    for _ in 0..50 {
        let processes = processes(socket);
        if processes.is_empty() {
            break;
        }
        let numbers = processes.iter().map(u32::to_string);
        let _ = Command::new("kill").arg("-9").args(numbers).stderr(Stdio::null()).status();
        std::thread::sleep(Duration::from_millis(20));
    }
    for task in tasks {
        if let Ok(address) = std::fs::read_to_string(task.path().join("address")) {
            let _ = std::fs::remove_file(address.trim().trim_start_matches("unix://"));
        }
        cgroups(&task.file_name().to_string_lossy());
    }
    for mount in mounts(folder) {
        let _ = Command::new("umount").args(["--lazy", &mount]).stderr(Stdio::null()).status();
    }
}

/// The watchers of this daemon's containers and all that they started.
pub(super) fn processes(socket: &Path) -> Vec<u32> {
    let socket = socket.to_string_lossy();
    let is_watcher = |process: u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let program = words.next().map(String::from_utf8_lossy).unwrap_or_default();
        program.contains("containerd-shim") && words.any(|word| word == socket.as_bytes())
    };
    let all: Vec<(u32, u32)> = all();
    let mut tree: Vec<u32> =
        all.iter().map(|(process, _)| *process).filter(|p| is_watcher(*p)).collect();
    let mut at = 0;
    while let Some(parent) = tree.get(at).copied() {
        tree.extend(all.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process));
        at += 1;
    }
    tree
}

/// Each process with the one that started it.
fn all() -> Vec<(u32, u32)> {
    let parent = |process: u32| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|process| Some((process, parent(process)?))).collect()
}

/// Mounts below the folder, the innermost first.
fn mounts(folder: &Path) -> Vec<String> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut below: Vec<String> =
        points.filter(|point| Path::new(point).starts_with(folder)).map(str::to_owned).collect();
    below.reverse();
    below
}

/// Removes the groups of one container, in whichever hierarchy they are.
fn cgroups(id: &str) {
    let base = Path::new("/sys/fs/cgroup");
    let _ = std::fs::remove_dir(base.join("k8s.io").join(id));
    for hierarchy in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let _ = std::fs::remove_dir(hierarchy.path().join("k8s.io").join(id));
    }
}
