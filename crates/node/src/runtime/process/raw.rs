//! The calls to the kernel that have no safe form: making a process out of this one, leaving
//! namespaces, waiting for signals. Nothing else in this crate is unsafe.
#![expect(
    unsafe_code,
    reason = "fork, signal sets and mount attributes have no safe form in the libraries used here"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;
use rustix::thread::UnshareFlags;
use tokio::io::unix::AsyncFd;

/// Proof that this process has one thread, so that a fork of it may do anything it could do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alone(());

impl Alone {
    /// Counts the threads. Whoever holds the proof starts none.
    pub(super) fn prove() -> io::Result<Alone> {
        let threads = std::fs::read_dir("/proc/self/task")?.count();
        if threads == 1 {
            Ok(Alone(()))
        } else {
            Err(io::Error::other(format!("{threads} threads where one may be")))
        }
    }
}

/// Makes a second process; `None` in the new one.
pub(super) fn fork(_: Alone) -> io::Result<Option<Pid>> {
    // SAFETY: the proof says that no other thread exists, so no lock is held by one that is gone.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Ends this process at once, without the destructors of the process it was forked from.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` has no conditions.
    unsafe { libc::_exit(code) }
}

/// Leaves namespaces for new ones.
pub(super) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: the table of descriptors, the one thing that could surprise, is never unshared.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Sends a signal by its number; real-time ones too.
pub(super) fn kill(pid: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: `kill` has no conditions.
    match unsafe { libc::kill(pid.as_raw_nonzero().get(), signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A descriptor whose readiness can be awaited.
pub(super) fn awaitable(held: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, stays the same one, and is closed only when dropped.
    unsafe { AsyncFd::register(held) }.map_err(io::Error::from)
}

/// Holds back every signal, for [`next_signal`] to take.
pub(super) fn hold_signals() -> io::Result<()> {
    set_mask(every_signal())
}

/// Lets signals through again: a command begins with none held back.
pub(super) fn release_signals() -> io::Result<()> {
    let mut set = every_signal();
    // SAFETY: the set is one, and `sigemptyset` writes all of it.
    unsafe { libc::sigemptyset(&raw mut set) };
    set_mask(set)
}

fn set_mask(set: libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is one and the old one is not asked for.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for the next signal that was held back.
pub(super) fn next_signal() -> io::Result<i32> {
    let set = every_signal();
    // SAFETY: the set was filled above and no details are asked for.
    match unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) } {
        -1 => Err(io::Error::last_os_error()),
        signal => Ok(signal),
    }
}

fn every_signal() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `sigfillset` writes the whole set, and a zeroed one is a set too.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// What `mount_setattr` takes.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Makes a mount and every mount below it read-only; Linux 5.12 or later.
pub(super) fn read_only_recursive(path: &CStr, nodev: bool) -> io::Result<()> {
    const READ_ONLY: u64 = 0x1;
    const NO_SET_UID: u64 = 0x2;
    const NO_DEVICES: u64 = 0x4;
    const RECURSIVE: libc::c_int = 0x8000;
    let set = if nodev { READ_ONLY | NO_SET_UID | NO_DEVICES } else { READ_ONLY };
    let attributes = MountAttributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: path and attributes live through the call and the size is that of the attributes.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            RECURSIVE,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
