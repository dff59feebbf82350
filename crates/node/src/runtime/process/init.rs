//! The first process of a container: builds its surroundings, starts the command, reaps whatever
//! ends, passes signals on, and ends when the command ends, which ends everything else in it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};
use serde::{Deserialize, Serialize};

use super::launch::{self, ProcessStreams};
use super::raw::{self, Alone};
use super::root::{self, Entered};
use super::users;
use super::wire::{self, Inbox, LaunchSpec, Process};

use crate::clock;

/// The signal by which a shim asks for the end of all, where killing this process would not do.
pub(super) const END_ALL: i32 = 64;

/// What the first process says to its shim.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum InitReport {
    /// All is set up; the folder of terminals, if there is one, and the terminal, if one was asked
    /// for, come along.
    Ready { devices: bool, terminal: bool },
    /// The command runs.
    Running,
    /// It does not.
    Failed { command: bool, message: String },
}

/// The whole life of the first process.
pub(super) fn live(
    alone: Alone,
    order: &LaunchSpec,
    streams: Option<ProcessStreams>,
    users: Option<&OwnedFd>,
    shim: &UnixStream,
) -> ! {
    end_with_shim();
    let (streams, entered) = match set_up(order, streams, users, shim) {
        Ok(ready) => ready,
        Err(message) => fail(shim, false, message),
    };
    launch::set_oom_score(order);
    let mut left = entered.map_or(Ok(()), root::let_go);
    if let Some(users) = users.filter(|_| left.is_ok()) {
        left = users::enter(users, order.walls.single)
            .map_err(|error| format!("become a user of the pod: {error}"));
        // A change of user forgets this.
        end_with_shim();
    }
    let go: io::Result<Option<bool>> = wire::receive(shim, &mut Inbox::default());
    if !matches!(go, Ok(Some(true))) {
        raw::exit(0);
    }
    if let Err(message) = left {
        fail(shim, false, message);
    }
    if raw::hold_signals().is_err() {
        fail(shim, false, "hold back signals".to_owned());
    }
    // Orphans of the command come here, as they do to the first process of a namespace.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    if order.command.is_empty() {
        let _ = wire::send(shim, &InitReport::Running, &[]);
        raw::exit(wait(None));
    }
    match start(alone, order, streams) {
        Ok(command) => {
            let _ = wire::send(shim, &InitReport::Running, &[]);
            raw::exit(wait(Some(command)))
        }
        Err((command, message)) => fail(shim, command, message),
    }
}

/// Nothing of a container may outlive its shim.
fn end_with_shim() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

fn fail(shim: &UnixStream, command: bool, message: String) -> ! {
    let _ = wire::send(shim, &InitReport::Failed { command, message }, &[]);
    raw::exit(128)
}

fn set_up(
    order: &LaunchSpec,
    streams: Option<ProcessStreams>,
    users: Option<&OwnedFd>,
    shim: &UnixStream,
) -> Result<(ProcessStreams, Option<Entered>), String> {
    let walls = &order.walls;
    let mut flags = UnshareFlags::empty();
    flags.set(UnshareFlags::NEWNS, walls.mount);
    flags.set(UnshareFlags::NEWUTS, walls.uts);
    flags.set(UnshareFlags::NEWIPC, walls.ipc && walls.ipc_of.is_none());
    raw::unshare(flags).map_err(|error| format!("make namespaces: {error}"))?;
    if let Some(value) =
        order.shm_rmid_forced.as_ref().filter(|_| flags.contains(UnshareFlags::NEWIPC))
    {
        // The node's /proc shows whoever looks the setting of its own memory segments.
        std::fs::write("/proc/sys/kernel/shm_rmid_forced", value)
            .map_err(|error| format!("set kernel.shm_rmid_forced to {value:?}: {error}"))?;
    }
    if walls.uts && !order.hostname.is_empty() {
        rustix::system::sethostname(order.hostname.as_bytes())
            .map_err(|error| format!("set the name of the host: {error}"))?;
    }
    let mut entered = None;
    if walls.mount {
        entered = Some(root::enter(order, users)?);
    } else {
        root::link_all(order)?;
    }
    let devices = open_terminals();
    let mut ours = None;
    let streams = match (streams, &devices) {
        (Some(streams), _) => streams,
        (None, Some(devices)) => {
            let (held, theirs) = launch::terminal(devices.as_fd())
                .map_err(|error| format!("make a terminal: {error}"))?;
            ours = Some(held);
            let streams = launch::terminal_streams(theirs);
            let streams = streams.map_err(|error| format!("a terminal: {error}"))?;
            streams.give(order);
            streams
        }
        (None, None) => return Err("there are no terminals here".to_owned()),
    };
    let descriptors: Vec<_> = devices.iter().chain(&ours).map(|held| held.as_fd()).collect();
    let ready = InitReport::Ready { devices: devices.is_some(), terminal: ours.is_some() };
    wire::send(shim, &ready, &descriptors).map_err(|error| format!("tell the shim: {error}"))?;
    Ok((streams, entered))
}

/// Moves this process into a namespace of another.
pub(super) fn join(other: Process, kinds: ThreadNameSpaceType) -> io::Result<()> {
    let held = other.hold()?;
    Ok(rustix::thread::move_into_thread_name_spaces(held.as_fd(), kinds)?)
}

fn open_terminals() -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open("/dev/pts", flags, Mode::empty()).ok()
}

fn start(alone: Alone, order: &LaunchSpec, streams: ProcessStreams) -> Result<Pid, (bool, String)> {
    let ours = |error: io::Error| (false, format!("start the command: {error}"));
    match spawn(alone, order, &order.command, streams, || Ok(())).map_err(ours)? {
        Ok(pid) => Ok(pid),
        Err(message) => Err((true, message)),
    }
}

/// Makes a process that becomes a command. The outer failure is ours, the inner the command's.
pub(super) fn spawn(
    alone: Alone,
    order: &LaunchSpec,
    command: &[String],
    streams: ProcessStreams,
    before: impl FnOnce() -> Result<(), String>,
) -> io::Result<Result<Pid, String>> {
    // Closed by the kernel when the command is there; what is written to it is why it is not.
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let Some(pid) = raw::fork(alone)? else {
        let problem = match before() {
            Ok(()) => launch::become_command(order, command, &streams),
            Err(problem) => problem,
        };
        let _ = std::fs::File::from(writer).write_all(problem.as_bytes());
        raw::exit(128);
    };
    drop(writer);
    drop(streams);
    let mut problem = Vec::new();
    std::fs::File::from(reader).read_to_end(&mut problem)?;
    if problem.is_empty() {
        return Ok(Ok(pid));
    }
    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    Ok(Err(String::from_utf8_lossy(&problem).into_owned()))
}

/// Reaps and passes signals on until the command ends; without a command, until somebody asks.
fn wait(command: Option<Pid>) -> i32 {
    let first = std::process::id() == 1;
    loop {
        let mut ended = None;
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if Some(pid) == command {
                ended = Some(code(status));
            }
        }
        if let Some(code) = ended {
            if !first {
                end_descendants();
            }
            return code;
        }
        match (raw::next_signal(), command) {
            (Ok(libc::SIGCHLD) | Err(_), _) => {}
            (Ok(END_ALL), _) => {
                end_descendants();
                return 137;
            }
            (Ok(signal), Some(command)) => {
                let _ = raw::kill(command, signal);
            }
            (Ok(libc::SIGTERM | libc::SIGINT | libc::SIGQUIT), None) => return 0,
            (Ok(_), None) => {}
        }
    }
}

/// The exit code people know: 128 and the signal, if one ended it.
pub(super) fn code(status: WaitStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 255,
    }
}

/// Where the process namespace is not ours alone, the kernel does not end what the command left.
/// Orphans come to this process, so it is done when no child is left.
pub(super) fn end_descendants() {
    for _ in 0..1000 {
        let me = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/self/task/{me}/children"));
        for child in children.unwrap_or_default().split_whitespace() {
            if let Some(pid) = child.parse().ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
        match rustix::process::wait(WaitOptions::NOHANG) {
            Err(_) => return,
            Ok(Some(_)) => {}
            Ok(None) => clock::block_for(std::time::Duration::from_millis(1)),
        }
    }
}
