//! The users of a pod: a range of ids of the node that nobody else has, in a user namespace that the
//! containers of the pod share. Who a command runs as inside is not decided here.
//!
//! ```text
//!   in the pod    0 ─────────── 65535
//!   on the node   first ─────── first + 65535
//! ```
//!
//! Mounts, names and processes are made by the node's root before the namespace is entered, so nothing
//! inside has any power over them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Gid, Signal, Uid, WaitOptions};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::raw::{self, Alone};
use super::wire::Process;

use crate::clock;

/// How many users a pod has.
pub(super) const USERS: u32 = 65_536;
/// The first id of the first range. No allocation of users or of other container managers reaches here:
/// those of shadow end at 600,100,000 and those of systemd below this.
const FIRST: u32 = 0x7000_0000;
/// How many ranges there are, up to where systemd's foreign users begin.
const RANGES: u32 = (0x7ffe_0000 - FIRST) / USERS;
/// How long another container of the pod may take to enter the namespace it was made with.
const ENTERED_MAX: Duration = Duration::from_secs(5);

/// The first id of a range; the numbers start again after the last.
pub(super) fn first_of(range: u64) -> u32 {
    FIRST + u32::try_from(range % u64::from(RANGES)).unwrap_or_default() * USERS
}

/// Whether this process may give those ids away; in a user namespace of somebody else's making it
/// has fewer.
pub(super) fn are_ours() -> bool {
    let covers = |map: &str| {
        let map = std::fs::read_to_string(map).unwrap_or_default();
        map.lines().any(covers_all)
    };
    rustix::process::geteuid().is_root()
        && covers("/proc/self/uid_map")
        && covers("/proc/self/gid_map")
}

fn covers_all(line: &str) -> bool {
    let mut numbers = line.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(start)), Some(Ok(_)), Some(Ok(count))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return false;
    };
    let end = u64::from(FIRST) + u64::from(RANGES) * u64::from(USERS);
    start <= u64::from(FIRST) && start + count >= end
}

/// The user namespace of a pod: a new one, or that of a container of it. Only the node's root can map a
/// whole range.
pub(super) fn namespace(alone: Alone, first: u32, of: Option<Process>) -> io::Result<OwnedFd> {
    if let Some(other) = of {
        return entered_by(other);
    }
    let map = format!("0 {first} {USERS}");
    mapped(alone, &map, &map)
}

/// A user namespace with one user, inside the one that this process is in and has all power over.
pub(super) fn one(alone: Alone, uid: u32, gid: u32) -> io::Result<OwnedFd> {
    mapped(alone, &format!("{uid} 0 1"), &format!("{gid} 0 1"))
}

/// A new user namespace with these users and groups.
fn mapped(alone: Alone, users: &str, groups: &str) -> io::Result<OwnedFd> {
    let (up, ready) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let Some(child) = raw::fork(alone)? else {
        // Holds the namespace until somebody else does.
        drop(up);
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        if raw::unshare(UnshareFlags::NEWUSER).is_ok() {
            let _ = rustix::io::write(&ready, &[1]);
            clock::block_for(Duration::from_secs(60));
        }
        raw::exit(1);
    };
    drop(ready);
    let made = rustix::io::read(&up, &mut [0; 1]);
    let pid = child.as_raw_nonzero();
    let held = match made {
        Ok(1) => std::fs::write(format!("/proc/{pid}/uid_map"), users)
            .and_then(|()| std::fs::write(format!("/proc/{pid}/gid_map"), groups))
            .and_then(|()| open(pid.get())),
        _ => Err(io::Error::other("it cannot be made")),
    };
    let _ = rustix::process::kill_process(child, Signal::KILL);
    let _ = rustix::process::waitpid(Some(child), WaitOptions::empty());
    held
}

fn open(pid: i32) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/{pid}/ns/user"), flags, Mode::empty())?)
}

/// The namespace of another container, which enters it only when its surroundings are there.
fn entered_by(other: Process) -> io::Result<OwnedFd> {
    let inode =
        |pid: &str| std::fs::metadata(format!("/proc/{pid}/ns/user")).map(|seen| seen.ino());
    let ours = inode("self")?;
    let begin = clock::instant();
    while inode(&other.pid.to_string())? == ours {
        if begin.elapsed() > ENTERED_MAX {
            return Err(io::Error::other("another container of the pod never entered it"));
        }
        clock::block_for(Duration::from_millis(1));
    }
    let found = open(other.pid)?;
    // Opened by number, so it is looked at afterwards whose it was: another pod's may have it by now.
    if other.lives() { Ok(found) } else { Err(io::Error::other("the other container is gone")) }
}

/// Enters the namespace as its user 0, or as the only one it has. There is no way back.
pub(super) fn enter(namespace: &OwnedFd, single: bool) -> io::Result<()> {
    rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::User))?;
    if single {
        return Ok(());
    }
    rustix::thread::set_thread_groups(&[])?;
    let (gid, uid) = (Gid::ROOT, Uid::ROOT);
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_and_stay_where_nobody_else_is() {
        assert_eq!(first_of(0), 0x7000_0000);
        assert_eq!(first_of(1) - first_of(0), USERS);
        assert_eq!(first_of(u64::from(RANGES)), first_of(0));
        assert_eq!(first_of(u64::from(RANGES) - 1) + (USERS - 1), 0x7ffd_ffff);
    }

    #[test]
    fn only_a_map_that_has_them_all_gives_ids_away() {
        assert!(covers_all("         0          0 4294967295"));
        assert!(!covers_all("0 1000 1"));
        assert!(!covers_all("0 100000 65536"));
        assert!(!covers_all(""));
    }
}
