//! What this runtime keeps on disk, so that an agent started later finds its containers again. No
//! environment is written here: it may hold a Secret.
//!
//! ```text
//!   <state>/<sandbox>/sandbox.json
//!   <state>/<sandbox>/<container>/container.json   made
//!                                /running.json     by the shim: processes and their start
//!                                /exited.json      by the shim: how it ended
//!                                /shim             the shim's socket
//! ```

use std::fs::File;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::wire::Process;
use crate::random;
use crate::runtime::PodKey;

/// More than a record has.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// The record of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SandboxRecord {
    pub(super) id: String,
    pub(super) pod: PodKey,
    pub(super) attempt: u32,
    pub(super) hostname: String,
    pub(super) logs: PathBuf,
    pub(super) address: IpAddr,
    /// The holder of the network that it is in; none: it is in the machine's.
    #[serde(default)]
    pub(super) holder: Option<String>,
    pub(super) host_network: bool,
    pub(super) host_pid: bool,
    pub(super) host_ipc: bool,
    /// The node's id of the pod's user 0; none where pods have no range of users.
    #[serde(default)]
    pub(super) first_id: Option<u32>,
    pub(super) share_processes: bool,
    pub(super) resolver: String,
    /// What the pod asked for as `kernel.shm_rmid_forced`, the only such setting it may have.
    #[serde(default)]
    pub(super) shm_rmid_forced: Option<String>,
    /// Somebody stopped it; nothing may be made in it any more.
    pub(super) stopped: bool,
}

/// The record of a container.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ContainerRecord {
    pub(super) id: String,
    pub(super) sandbox: String,
    pub(super) name: String,
    pub(super) attempt: u32,
    pub(super) image: String,
    pub(super) image_id: String,
    pub(super) stop_signal: Option<String>,
    pub(super) tty: bool,
    pub(super) stdin: bool,
    /// Holds the process namespace of its sandbox and is no container of the pod.
    pub(super) pause: bool,
    /// It is in the user namespace of its pod.
    #[serde(default)]
    pub(super) own_users: bool,
}

/// Writes a record whole or not at all.
pub(super) fn save(path: &Path, record: &impl Serialize) -> io::Result<()> {
    tenure_files::replace_unsynced(path, &serde_json::to_vec(record)?)
}

/// Reads a record; nothing if it is not there or is not one. Neither a link nor a pipe is: what reads records is
/// not led elsewhere and never waits.
pub(super) fn load<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// A name nobody else has: 64 hexadecimal digits.
pub(super) fn fresh_id() -> io::Result<String> {
    use std::fmt::Write as _;
    let bytes = random::bytes::<32>()?;
    let mut id = String::with_capacity(64);
    for byte in bytes {
        let _ = write!(id, "{byte:02x}");
    }
    Ok(id)
}

impl Process {
    /// The process with this number, as it is now.
    pub(super) fn of(pid: i32) -> io::Result<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Process::from_stat(pid, &stat).ok_or_else(|| io::Error::other("no start time"))
    }

    /// The process with this number, as its file in `/proc` says it.
    pub(super) fn from_stat(pid: i32, stat: &str) -> Option<Process> {
        Some(Process { pid, start: start_time(stat)?, boot: boot() })
    }

    /// Whether it is still this very process. A number alone says nothing: another pod's process may
    /// have it by now.
    pub(super) fn lives(self) -> bool {
        if self.boot.is_some() && self.boot != boot() {
            return false;
        }
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)) else {
            return false;
        };
        let zombie = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']));
        !zombie && start_time(&stat) == Some(self.start)
    }

    /// Holds this very process: what is held cannot become another's number.
    pub(super) fn hold(self) -> io::Result<OwnedFd> {
        let gone = || io::Error::other("the process is gone");
        let pid = Pid::from_raw(self.pid).ok_or_else(gone)?;
        let held = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        // Looked at after it is held: if it lives now, it had its number all the while.
        if self.lives() { Ok(held) } else { Err(gone()) }
    }

    /// Ends it, if it is still this very process.
    pub(super) fn kill(self) {
        if let Ok(held) = self.hold() {
            let _ = rustix::process::pidfd_send_signal(held, rustix::process::Signal::KILL);
        }
    }
}

/// Which start of the machine this is: ticks and numbers begin anew with each.
fn boot() -> Option<u64> {
    static BOOT: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();
    *BOOT.get_or_init(|| {
        parse_boot(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
    })
}

/// The first half of the number, which is random: enough to tell two starts apart.
fn parse_boot(id: &str) -> Option<u64> {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).ok()
}

/// Field 22, counted behind the name, which may hold spaces and brackets.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r146_a_process_is_known_by_number_and_start() {
        let me = Process::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(me.lives());
        assert!(!Process { start: me.start + 1, ..me }.lives());
        assert!(!Process { pid: i32::MAX, ..me }.lives());
        assert!(!Process { pid: 0, ..me }.lives());
    }

    #[test]
    fn r146a_a_process_of_an_earlier_start_of_the_machine_is_gone() {
        let me = Process::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(me.boot, boot());
        let Some(now) = boot() else { return };
        assert!(!Process { boot: Some(now ^ 1), ..me }.lives());
        assert!(Process { boot: None, ..me }.lives(), "as an older shim wrote it");
        assert_eq!(
            parse_boot("20b09c67-612a-4c86-82fa-0f429fcb8936\n"),
            Some(0x20b0_9c67_612a_4c86)
        );
        assert_eq!(parse_boot(""), None);
    }

    #[test]
    fn r146a_only_this_very_process_is_held_and_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let known = Process::of(i32::try_from(child.id()).unwrap()).unwrap();
        let other = Process { start: known.start + 1, ..known };
        assert!(other.hold().is_err() && known.hold().is_ok());
        other.kill();
        assert!(known.lives(), "another process with this number was meant");
        known.kill();
        child.wait().unwrap();
        assert!(known.hold().is_err());
    }

    #[test]
    fn r146_a_name_with_brackets_does_not_hide_the_start() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        assert_eq!(start_time(stat), Some(4711));
    }

    #[test]
    fn a_record_is_whole_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        assert_eq!(load::<u32>(&path), None);
        save(&path, &7_u32).unwrap();
        assert_eq!(load::<u32>(&path), Some(7));
        let link = folder.path().join("y.json");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(load::<u32>(&link), None);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(load::<u32>(&path), None);
        assert_ne!(fresh_id().unwrap(), fresh_id().unwrap());
    }
}
