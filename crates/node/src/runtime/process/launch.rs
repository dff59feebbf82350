//! From a made container to a running command: terminal, user, groups, privileges, then the
//! command itself. Mounts are done before; waiting for the end is done by others.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FileType;
use rustix::process::{DumpableBehavior, Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::wire::LaunchSpec;
use super::{raw, seccomp};

/// What a process has as input, output and error.
pub(super) struct ProcessStreams {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) tty: bool,
}

impl ProcessStreams {
    /// Gives them to the user of the command, so that it can open `/dev/stdout` again. Whoever calls has
    /// a name for that user. Only pipes and terminals are the command's own: `/dev/null` is the node's.
    pub(super) fn give(&self, order: &LaunchSpec) {
        let uid = order.walls.first_id().unwrap_or(0).saturating_add(order.uid);
        for stream in [&self.stdin, &self.stdout, &self.stderr] {
            let is_pipe = rustix::fs::fstat(stream)
                .is_ok_and(|seen| FileType::from_raw_mode(seen.st_mode) == FileType::Fifo);
            if is_pipe || rustix::termios::isatty(stream) {
                let _ = rustix::fs::fchown(stream, Some(Uid::from_raw(uid)), None);
            }
        }
    }
}

/// Sets how likely the kernel ends this process first. To ask to be spared takes a privilege of the
/// node; to do without it is no reason to fail.
pub(super) fn set_oom_score(order: &LaunchSpec) {
    if let Some(score) = order.oom_score {
        let _ = std::fs::write("/proc/self/oom_score_adj", score.to_string());
    }
}

/// Becomes the command; comes back only with the reason why not.
pub(super) fn become_command(
    order: &LaunchSpec,
    command: &[String],
    streams: &ProcessStreams,
) -> String {
    if let Err(error) = raw::close_others_on_exec() {
        return format!("keep descriptors of the node from the command: {error}");
    }
    // Until it is the command, this process holds descriptors of the node, and others in the container
    // would find them in /proc as soon as it is no more than they are. The command begins anew.
    let hidden = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = hidden {
        return format!("keep this process from others in the container: {error}");
    }
    match prepare(order, streams) {
        Err(problem) => problem,
        Ok(()) => run(order, command),
    }
}

fn prepare(order: &LaunchSpec, streams: &ProcessStreams) -> Result<(), String> {
    // A process that leads a session already keeps it.
    let _ = rustix::process::setsid();
    if streams.tty {
        with_context("take the terminal", rustix::process::ioctl_tiocsctty(&streams.stdin))?;
    }
    with_context("standard input", rustix::stdio::dup2_stdin(&streams.stdin))?;
    with_context("standard output", rustix::stdio::dup2_stdout(&streams.stdout))?;
    with_context("standard error", rustix::stdio::dup2_stderr(&streams.stderr))?;
    with_context("let signals through", raw::release_signals())?;
    become_user(order)
}

fn with_context<T>(what: &str, done: Result<T, impl std::fmt::Display>) -> Result<T, String> {
    done.map_err(|error| format!("{what}: {error}"))
}

fn become_user(order: &LaunchSpec) -> Result<(), String> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    limit_processes(order)?;
    if !order.no_new_privileges {
        // Without that promise only whoever may do everything here can set a filter.
        filter_calls(order)?;
    }
    if let Some(bits) = order.capabilities {
        let keep = CapabilitySet::from_bits_retain(bits);
        for number in 0..64_u32 {
            let one = CapabilitySet::from_bits_retain(1 << number);
            if !keep.contains(one) {
                // Numbers the kernel does not know are not there to be dropped.
                let _ = rustix::thread::remove_capability_from_bounding_set(one);
            }
        }
    }
    let gid = order.gid.unwrap_or_else(|| group_of(order.uid));
    // With one user in the namespace there is nothing to change to.
    if !order.walls.single {
        let groups: Vec<Gid> = order.groups.iter().copied().map(Gid::from_raw).collect();
        with_context("set groups", rustix::thread::set_thread_groups(&groups))?;
        let gid = Gid::from_raw(gid);
        with_context("set the group", rustix::thread::set_thread_res_gid(gid, gid, gid))?;
        let uid = Uid::from_raw(order.uid);
        with_context("set the user", rustix::thread::set_thread_res_uid(uid, uid, uid))?;
    }
    if let (0, Some(bits)) = (order.uid, order.capabilities) {
        let have = with_context("read capabilities", rustix::thread::capabilities(None))?;
        let keep = CapabilitySet::from_bits_retain(bits) & have.permitted;
        let inheritable = CapabilitySet::empty();
        let sets = CapabilitySets { effective: keep, permitted: keep, inheritable };
        with_context("set capabilities", rustix::thread::set_capabilities(None, sets))?;
    }
    if order.no_new_privileges {
        with_context("give up new privileges", rustix::thread::set_no_new_privs(true))?;
    }
    // A change of user forgets this, so it comes last: no command outlives who started it.
    let signal = Some(rustix::process::Signal::KILL);
    with_context("end with the shim", rustix::process::set_parent_process_death_signal(signal))
}

/// Counted by the kernel for each user of each user namespace, so that pods do not share it.
fn limit_processes(order: &LaunchSpec) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit};
    let Some(max) = order.processes_max else { return Ok(()) };
    let had = rustix::process::getrlimit(Resource::Nproc).maximum;
    let max = had.map_or(max, |had| had.min(max));
    let limit = Rlimit { current: Some(max), maximum: Some(max) };
    with_context("limit processes", rustix::process::setrlimit(Resource::Nproc, limit))
}

fn filter_calls(order: &LaunchSpec) -> Result<(), String> {
    if !order.filter_calls {
        return Ok(());
    }
    let all = CapabilitySet::all();
    let capabilities = order.capabilities.map_or(all, CapabilitySet::from_bits_retain);
    with_context("filter calls to the kernel", seccomp::restrict(capabilities))
}

/// The group of a user by the container's own list of users; 0 if it has no entry.
fn group_of(uid: u32) -> u32 {
    let users = users_file();
    user_entry(&users, uid).and_then(|fields| fields.get(3)?.parse().ok()).unwrap_or(0)
}

/// The container's own list of users. The container may have written anything there, so what is no
/// file is not waited for, and what is too long is not read.
fn users_file() -> String {
    use rustix::fs::{Mode, OFlags};
    const BYTES_MAX: u64 = 1 << 20;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(held) = rustix::fs::open("/etc/passwd", flags, Mode::empty()) else {
        return String::new();
    };
    let file = std::fs::File::from(held);
    let mut text = String::new();
    if file.metadata().is_ok_and(|seen| seen.is_file()) {
        let _ = file.take(BYTES_MAX).read_to_string(&mut text);
    }
    text
}

fn user_entry(users: &str, uid: u32) -> Option<Vec<&str>> {
    let uid = uid.to_string();
    users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>())
        .find(|fields| fields.get(2).is_some_and(|field| *field == uid))
}

fn run(order: &LaunchSpec, command: &[String]) -> String {
    let Some((name, arguments)) = command.split_first() else {
        return "no command".to_owned();
    };
    if !order.directory.is_empty()
        && let Err(error) = rustix::process::chdir(order.directory.as_str())
    {
        return format!("working directory {:?}: {error}", order.directory);
    }
    let path = match find(name, order) {
        Ok(path) => path,
        Err(problem) => return problem,
    };
    let mut process = Command::new(&path);
    process.arg0(name).args(arguments).env_clear();
    if !order.env.iter().any(|(name, _)| name == "HOME") {
        process.env("HOME", home(order.uid));
    }
    for (name, value) in &order.env {
        process.env(name, OsStr::from_bytes(&value.0));
    }
    if order.no_new_privileges
        && let Err(problem) = filter_calls(order)
    {
        return problem;
    }
    let error = process.exec();
    format!("exec {:?}: {error}", path.display())
}

fn home(uid: u32) -> OsString {
    let users = users_file();
    let entry = user_entry(&users, uid).and_then(|fields| fields.get(5).copied());
    entry.filter(|home| !home.is_empty()).unwrap_or("/").into()
}

/// Where the command is, by the container's own `PATH`.
fn find(name: &str, order: &LaunchSpec) -> Result<PathBuf, String> {
    if name.contains('/') {
        return match std::fs::metadata(name) {
            Err(error) => Err(format!("exec: {name:?}: {}", plain(&error))),
            Ok(seen) if seen.is_dir() => Err(format!("exec: {name:?}: is a directory")),
            Ok(seen) if seen.permissions().mode() & 0o111 == 0 => {
                Err(format!("exec: {name:?}: permission denied"))
            }
            Ok(_) => Ok(PathBuf::from(name)),
        };
    }
    let path = order.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| &path.0);
    let folders = path.map(|path| path.split(|byte| *byte == b':')).into_iter().flatten();
    for folder in folders.filter(|folder| !folder.is_empty()) {
        let candidate = Path::new(OsStr::from_bytes(folder)).join(name);
        if let Ok(seen) = std::fs::metadata(&candidate)
            && seen.is_file()
            && seen.permissions().mode() & 0o111 != 0
        {
            return Ok(candidate);
        }
    }
    let mut text = String::new();
    let _ = write!(text, "exec: {name:?}: executable file not found in $PATH");
    Err(text)
}

fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// A pair of terminal ends: the one that people hold, and the one a process has.
pub(super) fn terminal(devices: BorrowedFd<'_>) -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::OpenptFlags;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let ours = rustix::fs::openat(devices, "ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&ours)?;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    Ok((ours, theirs))
}

/// The same stream three times: a terminal.
pub(super) fn terminal_streams(theirs: OwnedFd) -> io::Result<ProcessStreams> {
    let stdout = rustix::io::fcntl_dupfd_cloexec(theirs.as_fd(), 3)?;
    let stderr = rustix::io::fcntl_dupfd_cloexec(theirs.as_fd(), 3)?;
    Ok(ProcessStreams { stdin: theirs, stdout, stderr, tty: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533::/nonexistent:\n";
        assert_eq!(user_entry(users, 65534).unwrap()[3], "65533");
        assert_eq!(user_entry(users, 6553), None);
    }

    #[test]
    fn r144_a_command_is_found_by_the_containers_path_or_named_in_the_error() {
        let path = ("PATH".to_owned(), crate::runtime::RedactedValue(b"/nowhere:/bin".to_vec()));
        let order = LaunchSpec { env: vec![path], ..LaunchSpec::default() };
        assert_eq!(find("sh", &order).unwrap(), Path::new("/bin/sh"));
        let problem = find("no-such-command", &order).unwrap_err();
        assert_eq!(problem, "exec: \"no-such-command\": executable file not found in $PATH");
        assert!(find("/no/such", &order).unwrap_err().contains("/no/such"));
        assert!(find("/etc/passwd", &order).unwrap_err().contains("permission denied"));
    }
}
