//! The calls to the kernel that have no safe form: making a process out of this one, leaving
//! namespaces, waiting for signals, filters of calls. Nothing else in this crate is unsafe.
#![expect(
    unsafe_code,
    reason = "fork, signal sets, mount attributes and filters of calls have no safe form in the libraries used here"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

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

/// Lets no descriptor but standard input, output and error reach the next program. What the server was started with
/// may lead anywhere, past every wall of the container.
pub(super) fn close_others_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: descriptors are only marked; none is closed here, and numbers without one are passed over.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel can answer calls with an error instead of making them.
pub(super) fn filters_are_supported() -> io::Result<()> {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the action lives through the call, which only reads it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_GET_ACTION_AVAIL,
            0 as libc::c_uint,
            &raw const action,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Has the kernel ask this program about every call of this process and of those it makes.
pub(super) fn filter_calls(program: &[seccompiler::sock_filter]) -> io::Result<()> {
    let mut instructions: Vec<libc::sock_filter> = program
        .iter()
        .map(|one| libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k })
        .collect();
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(io::Error::other)?,
        filter: instructions.as_mut_ptr(),
    };
    // SAFETY: the program and its instructions live through the call, which copies and checks them, and
    // the length is that of the instructions.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0 as libc::c_uint,
            &raw const program,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a socket have addresses that are not those of its network namespace.
pub(super) fn set_transparent(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of::<libc::c_int>()).map_err(io::Error::other)?;
    // SAFETY: the value lives through the call, which only reads it, and the size is its own.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_IP,
            libc::IP_TRANSPARENT,
            (&raw const on).cast(),
            size,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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

/// What is taken from a mount.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restrict {
    pub(super) read_only: bool,
    /// Device files are files without meaning.
    pub(super) no_devices: bool,
    /// Programs that change the user do not.
    pub(super) no_set_uid: bool,
}

impl Restrict {
    /// All of it.
    pub(super) const CLOSED: Restrict =
        Restrict { read_only: true, no_devices: true, no_set_uid: true };
    /// Only what writes.
    pub(super) const READ_ONLY: Restrict =
        Restrict { read_only: true, no_devices: false, no_set_uid: false };

    fn bits(self) -> u64 {
        const READ_ONLY: u64 = 0x1;
        const NO_SET_UID: u64 = 0x2;
        const NO_DEVICES: u64 = 0x4;
        let bit = |holds: bool, bit: u64| if holds { bit } else { 0 };
        bit(self.read_only, READ_ONLY)
            | bit(self.no_set_uid, NO_SET_UID)
            | bit(self.no_devices, NO_DEVICES)
    }
}

/// Takes abilities from a mount and every mount below it; Linux 5.12 or later.
pub(super) fn restrict_recursive(path: &CStr, restrict: Restrict) -> io::Result<()> {
    let attributes =
        MountAttributes { set: restrict.bits(), clear: 0, propagation: 0, user_namespace: 0 };
    set_attributes(libc::AT_FDCWD, path, 0, attributes)
}

/// Shows the files of a mount that nobody sees yet as those of a user namespace's users.
pub(super) fn map_users(mount: &OwnedFd, users: &OwnedFd) -> io::Result<()> {
    const MAP_USERS: u64 = 0x0010_0000;
    let user_namespace = u64::try_from(users.as_raw_fd()).map_err(io::Error::other)?;
    let attributes = MountAttributes { set: MAP_USERS, clear: 0, propagation: 0, user_namespace };
    set_attributes(mount.as_raw_fd(), c"", libc::AT_EMPTY_PATH, attributes)
}

fn set_attributes(
    at: libc::c_int,
    path: &CStr,
    flags: libc::c_int,
    attributes: MountAttributes,
) -> io::Result<()> {
    const RECURSIVE: libc::c_int = 0x8000;
    // SAFETY: path and attributes live through the call and the size is that of the attributes.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            RECURSIVE | flags,
            &raw const attributes,
            size_of::<MountAttributes>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
