//! The process beside a container that outlives the agent: it makes the container, writes its log,
//! serves those who attach or run further commands, and records how it ended.
//!
//! ```text
//!   agent ──starts──► nurse ──forks──► shim ──forks──► first process ──forks──► command
//!                                       │  ◄── pipes: output ──────────────────────┘
//!                                       └── socket in its folder: agents that come later
//! ```
//!
//! It has one thread and one loop, and knows no pods.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};

use super::init::{self, Report};
use super::launch::{self, Streams};
use super::log::{Log, Stream};
use super::raw::{self, Alone};
use super::state;
use super::tap::Tap;
use super::wire::{self, Ask, Exited, Inbox, Order, Process, Running, Tell, Wanted};

/// The argument that makes this program hold containers.
pub const ARGUMENT: &str = "__container";

/// How often a shim looks whether its folder is still there, and their parent whether one ended.
const LOOK: Duration = Duration::from_secs(2);

/// How long the last output of a container that ended is waited for.
const DRAIN: Duration = Duration::from_secs(2);

/// If this process was started to hold containers, does so to the end. The first thing a program
/// calls, before it starts any thread.
#[must_use]
pub fn take_over() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.nth(1)? != ARGUMENT {
        return None;
    }
    Some(match nurse() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// The agent is at the other end of standard input. One process makes all shims of an agent: a fork
/// of a small process is faster than a start of the whole program, and shares its memory.
fn nurse() -> io::Result<()> {
    let alone = Alone::prove()?;
    let agent = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    // A terminal's signals are for the agent.
    let _ = rustix::process::setsid();
    let mut inbox = Inbox::default();
    loop {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let mut polled = [PollFd::new(&agent, PollFlags::IN)];
        let ready = rustix::event::poll(&mut polled, LOOK.try_into().ok().as_ref());
        if ready == Ok(0) {
            continue;
        }
        // Shims of an agent that is gone go on without it.
        if !inbox.fill(&agent)? {
            return Ok(());
        }
        while let Some(Ask::Begin { title }) = inbox.next()? {
            let socket = inbox.descriptor().ok_or_else(|| io::Error::other("no descriptor"))?;
            if raw::fork(alone)?.is_none() {
                drop((agent, inbox));
                raw::exit(i32::from(hold(alone, UnixStream::from(socket), &title).is_err()));
            }
        }
    }
}

/// Holds one container, from its order to its end.
fn hold(alone: Alone, agent: UnixStream, title: &str) -> io::Result<()> {
    let _ = rustix::process::setsid();
    let short: Vec<u8> = title.bytes().filter(|byte| *byte != 0).take(15).collect();
    if let Ok(name) = std::ffi::CString::new(short) {
        let _ = rustix::thread::set_name(&name);
    }
    // Without a process namespace, orphans of the container come here and are ended here.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut inbox = Inbox::default();
    let Some(Ask::Make(order)) = wire::receive(&agent, &mut inbox)? else { return Ok(()) };
    let mut made = match make(alone, *order) {
        Ok(made) => made,
        Err(message) => {
            return wire::send(&agent, &Tell::Failed { command: false, message }, &[]);
        }
    };
    wire::send(&agent, &Tell::Made(made.init.as_raw_nonzero().get()), &[])?;
    let Some(Ask::Go) = wire::receive(&agent, &mut inbox)? else {
        // An agent that went away before the start left nothing to run.
        made.abandon();
        return Ok(());
    };
    match made.go() {
        Ok(running) => {
            // An agent that is gone by now finds the container again by its record.
            let _ = wire::send(&agent, &Tell::Running(running), &[]);
            made.connections.push(Connection { socket: agent, inbox, role: Role::Follower });
            made.serve();
            Ok(())
        }
        Err((command, message)) => {
            made.abandon();
            wire::send(&agent, &Tell::Failed { command, message }, &[])
        }
    }
}

/// A container and everything its shim holds for it.
struct Shim {
    alone: Alone,
    order: Order,
    init: Pid,
    init_held: OwnedFd,
    channel: UnixStream,
    inbox: Inbox,
    log: Option<Log>,
    stdin: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    outputs: Vec<(Stream, OwnedFd)>,
    devices: Option<OwnedFd>,
    listener: Option<UnixListener>,
    connections: Vec<Connection>,
    started: jiff::Timestamp,
}

struct Connection {
    socket: UnixStream,
    inbox: Inbox,
    role: Role,
}

enum Role {
    /// Asks, or waits for the end.
    Follower,
    /// Runs a command.
    Command { pid: Pid, held: OwnedFd },
    /// Reads the streams.
    Reader { taps: Vec<(Stream, Tap)>, stdin: bool },
}

/// Makes the first process and waits until its surroundings are there.
fn make(alone: Alone, order: Order) -> Result<Shim, String> {
    let told = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let log = match &order.log {
        Some(path) => Some(
            Log::open(path, order.log_size, order.log_files)
                .map_err(|error| told("open the log", &error))?,
        ),
        None => None,
    };
    for (folder, settings) in &order.groups_of_control {
        // Limits are kept where the kernel lets us; the agent says where it does not.
        let _ = std::fs::create_dir_all(folder);
        for (file, value) in settings {
            let _ = std::fs::write(folder.join(file), value);
        }
    }
    leave(alone, &order)?;
    let pipes = Pipes::make(&order).map_err(|error| told("make pipes", &error))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| told("make a channel", &error))?;
    let forked = raw::fork(alone).map_err(|error| told("make the first process", &error))?;
    let Some(init) = forked else {
        drop((ours, pipes.stdin, pipes.outputs));
        init::live(alone, &order, pipes.theirs, &theirs);
    };
    drop((theirs, pipes.theirs));
    for (folder, _) in &order.groups_of_control {
        join_group(folder, init);
    }
    let init_held = rustix::process::pidfd_open(init, PidfdFlags::empty())
        .map_err(|error| told("hold the first process", &error))?;
    let mut shim = Shim {
        alone,
        order,
        init,
        init_held,
        channel: ours,
        inbox: Inbox::default(),
        log,
        stdin: pipes.stdin,
        terminal: None,
        outputs: pipes.outputs,
        devices: None,
        listener: None,
        connections: Vec::new(),
        started: jiff::Timestamp::now(),
    };
    match shim.ready() {
        Ok(()) => Ok(shim),
        Err(message) => {
            shim.abandon();
            Err(message)
        }
    }
}

fn join_group(folder: &std::path::Path, pid: Pid) {
    let _ = std::fs::write(folder.join("cgroup.procs"), pid.as_raw_nonzero().to_string());
}

/// Leaves the namespaces that concern the shim's children.
fn leave(alone: Alone, order: &Order) -> Result<(), String> {
    let told = |what: &str, error: io::Error| format!("{what}: {error}");
    let walls = &order.walls;
    if walls.user {
        own_users(alone, order).map_err(|error| told("make a user namespace", error))?;
    }
    // The first process will not know the numbers of the node's processes any more.
    if let Some(other) = walls.ipc_of {
        init::join(other, ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION)
            .map_err(|error| told("join the pod's memory segments", error))?;
    }
    if let Some(other) = walls.pid_of {
        init::join(other, ThreadNameSpaceType::PROCESS_ID)
            .map_err(|error| told("join the pod's processes", error))?;
    } else if walls.pid {
        raw::unshare(UnshareFlags::NEWPID)
            .map_err(|error| told("make a process namespace", error))?;
    }
    Ok(())
}

fn own_users(alone: Alone, order: &Order) -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if order.walls.single {
        raw::unshare(UnshareFlags::NEWUSER)?;
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{} {} 1", order.uid, uid.as_raw()))?;
        let inside = order.gid.unwrap_or(0);
        return std::fs::write("/proc/self/gid_map", format!("{inside} {} 1", gid.as_raw()));
    }
    // Only somebody who stayed outside may map more than one user.
    let me = rustix::process::getpid().as_raw_nonzero();
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let Some(outside) = raw::fork(alone)? else {
        drop(writer);
        let _ = rustix::io::read(&reader, &mut [0; 1]);
        let map = "0 0 4294967295";
        let done = std::fs::write(format!("/proc/{me}/uid_map"), map)
            .and_then(|()| std::fs::write(format!("/proc/{me}/gid_map"), map));
        raw::exit(i32::from(done.is_err()));
    };
    let left = raw::unshare(UnshareFlags::NEWUSER);
    drop((reader, writer));
    let status = rustix::process::waitpid(Some(outside), WaitOptions::empty())?;
    left?;
    match status {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => Err(io::Error::other("users could not be mapped")),
    }
}

/// Both ends of a container's streams.
struct Pipes {
    stdin: Option<OwnedFd>,
    outputs: Vec<(Stream, OwnedFd)>,
    /// None: the first process makes a terminal.
    theirs: Option<Streams>,
}

impl Pipes {
    fn make(order: &Order) -> io::Result<Pipes> {
        if order.tty {
            return Ok(Pipes { stdin: None, outputs: Vec::new(), theirs: None });
        }
        let null = || std::fs::File::open("/dev/null").map(OwnedFd::from);
        let (stdin, theirs_in) = if order.stdin {
            let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            (Some(writer), reader)
        } else {
            (None, null()?)
        };
        if order.log.is_none() {
            let theirs = Streams { stdin: theirs_in, stdout: sink()?, stderr: sink()?, tty: false };
            return Ok(Pipes { stdin, outputs: Vec::new(), theirs: Some(theirs) });
        }
        let (out, stdout) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (err, stderr) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Pipes {
            stdin,
            outputs: vec![(Stream::Out, out), (Stream::Err, err)],
            theirs: Some(Streams { stdin: theirs_in, stdout, stderr, tty: false }),
        })
    }
}

impl Shim {
    fn ready(&mut self) -> Result<(), String> {
        match wire::receive(&self.channel, &mut self.inbox) {
            Ok(Some(Report::Ready { devices, terminal })) => {
                if devices {
                    self.devices = self.inbox.descriptor();
                }
                if terminal {
                    self.terminal = self.inbox.descriptor();
                }
                Ok(())
            }
            Ok(Some(Report::Failed { message, .. })) => Err(message),
            Ok(_) => Err("the first process ended early".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Lets the command run.
    fn go(&mut self) -> Result<Running, (bool, String)> {
        let ours = |error: io::Error| (false, error.to_string());
        self.listener = Some(listen(&self.order.folder).map_err(ours)?);
        wire::send(&self.channel, &true, &[]).map_err(ours)?;
        match wire::receive(&self.channel, &mut self.inbox) {
            Ok(Some(Report::Running)) => {}
            Ok(Some(Report::Failed { command, message })) => return Err((command, message)),
            Ok(_) => return Err((false, "the first process ended early".to_owned())),
            Err(error) => return Err(ours(error)),
        }
        self.started = jiff::Timestamp::now();
        if let Some(terminal) = &self.terminal {
            let output = rustix::io::fcntl_dupfd_cloexec(terminal, 3);
            self.outputs.push((Stream::Out, output.map_err(|error| ours(error.into()))?));
        }
        for (_, output) in &self.outputs {
            let _ = rustix::io::ioctl_fionbio(output, true);
        }
        let running = Running {
            shim: Process::of(rustix::process::getpid().as_raw_nonzero().get()).map_err(ours)?,
            init: Process::of(self.init.as_raw_nonzero().get()).map_err(ours)?,
            started: self.started,
        };
        state::save(&self.order.folder.join("running.json"), &running).map_err(ours)?;
        Ok(running)
    }

    /// Ends a container that never ran.
    fn abandon(&mut self) {
        let _ = rustix::process::kill_process(self.init, Signal::KILL);
        let _ = rustix::process::waitpid(Some(self.init), WaitOptions::empty());
        self.clear_groups();
    }

    fn clear_groups(&self) {
        for (folder, _) in &self.order.groups_of_control {
            let _ = std::fs::remove_dir(folder);
        }
    }

    /// The loop, until the container ends.
    fn serve(&mut self) {
        let folder = std::fs::File::open(&self.order.folder);
        loop {
            let ready = self.wait(Some(LOOK));
            self.act(&ready);
            if ready.contains(&Source::Init) {
                break;
            }
            // Without its folder nobody will ever find this container again.
            let gone = |folder: &std::fs::File| {
                rustix::fs::fstat(folder).is_ok_and(|seen| seen.st_nlink == 0)
            };
            if ready.is_empty() && folder.as_ref().is_ok_and(gone) {
                let _ = rustix::process::kill_process(self.init, Signal::KILL);
            }
        }
        let status = rustix::process::waitpid(Some(self.init), WaitOptions::empty());
        let code = match status {
            Ok(Some((_, status))) => init::code(status),
            _ => 137,
        };
        let finished = jiff::Timestamp::now();
        if !self.order.walls.own_processes() {
            init::end_descendants();
        }
        self.drain();
        self.record(code, finished);
    }

    /// Takes the last output; all who could write are gone, unless somebody outside holds a pipe.
    fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        while Instant::now() < end && (!self.outputs.is_empty() || self.owes_readers()) {
            let ready = self.wait(Some(Duration::from_millis(20)));
            let only: Vec<Source> =
                ready.into_iter().filter(|source| *source != Source::Init).collect();
            if only.is_empty() && !self.owes_readers() {
                break;
            }
            self.act(&only);
        }
        let now = jiff::Timestamp::now();
        if let Some(log) = &mut self.log {
            log.finish(Stream::Out, now);
            log.finish(Stream::Err, now);
        }
    }

    fn owes_readers(&self) -> bool {
        self.connections.iter().any(|connection| match &connection.role {
            Role::Reader { taps, .. } => taps.iter().any(|(_, tap)| tap.owes()),
            _ => false,
        })
    }

    fn record(&mut self, code: i32, finished: jiff::Timestamp) {
        let killed = super::cgroup::out_of_memory(&self.order.groups_of_control);
        let reason = match code {
            0 => "Completed",
            137 if killed => "OOMKilled",
            _ => "Error",
        };
        let exited = Exited {
            started: self.started,
            finished,
            code,
            reason: reason.to_owned(),
            message: String::new(),
        };
        let _ = state::save(&self.order.folder.join("exited.json"), &exited);
        let _ = std::fs::remove_file(self.order.folder.join("shim"));
        for connection in std::mem::take(&mut self.connections) {
            let told = match connection.role {
                Role::Command { pid, .. } => {
                    let status = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                    let code = status.ok().flatten().map_or(137, |(_, status)| init::code(status));
                    Tell::Ended(code)
                }
                Role::Reader { .. } => Tell::Ended(code),
                Role::Follower => Tell::Exited(exited.clone()),
            };
            let _ = wire::send(&connection.socket, &told, &[]);
        }
        self.clear_groups();
    }

    /// Waits until somebody has something.
    fn wait(&self, limit: Option<Duration>) -> Vec<Source> {
        let mut sources = vec![Source::Init];
        let mut polled = vec![PollFd::new(&self.init_held, PollFlags::IN)];
        if let Some(listener) = &self.listener {
            sources.push(Source::Listener);
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        for (index, (_, output)) in self.outputs.iter().enumerate() {
            sources.push(Source::Output(index));
            polled.push(PollFd::new(output, PollFlags::IN));
        }
        for (index, connection) in self.connections.iter().enumerate() {
            sources.push(Source::Connection(index));
            polled.push(PollFd::new(&connection.socket, PollFlags::IN));
            match &connection.role {
                Role::Command { held, .. } => {
                    sources.push(Source::Command(index));
                    polled.push(PollFd::new(held, PollFlags::IN));
                }
                Role::Reader { taps, .. } => {
                    for (_, tap) in taps.iter().filter(|(_, tap)| tap.owes()) {
                        sources.push(Source::Tap(index));
                        polled.push(PollFd::new(tap.descriptor(), PollFlags::OUT));
                    }
                }
                Role::Follower => {}
            }
        }
        let limit = limit.and_then(|limit| limit.try_into().ok());
        if rustix::event::poll(&mut polled, limit.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = polled.iter().map(|polled| !polled.revents().is_empty());
        sources
            .into_iter()
            .zip(ready)
            .filter_map(|(source, ready)| ready.then_some(source))
            .collect()
    }

    fn act(&mut self, ready: &[Source]) {
        let mut gone = Vec::new();
        // Output first: a line is in the log before anybody is told that its writer ended.
        let outputs: Vec<usize> = ready
            .iter()
            .filter_map(
                |source| if let Source::Output(index) = source { Some(*index) } else { None },
            )
            .collect();
        for index in outputs.into_iter().rev() {
            self.read(index);
        }
        for source in ready {
            match *source {
                Source::Listener => self.accept(),
                Source::Connection(index) if !self.hear(index) => gone.push(index),
                Source::Command(index) if self.ended(index) => gone.push(index),
                Source::Tap(index) => self.flush(index),
                _ => {}
            }
        }
        gone.sort_unstable();
        gone.dedup();
        for index in gone.into_iter().rev() {
            let connection = self.connections.remove(index);
            self.leave_by(connection);
        }
    }

    /// Reads what a stream has; forgets it at its end.
    fn read(&mut self, index: usize) {
        let Some((stream, output)) = self.outputs.get(index) else { return };
        let stream = *stream;
        let mut bytes = [0; 32 << 10];
        let got = rustix::io::retry_on_intr(|| rustix::io::read(output, &mut bytes));
        let now = jiff::Timestamp::now();
        match got {
            Ok(got) if got > 0 => {
                let bytes = bytes.get(..got).unwrap_or_default();
                if let Some(log) = &mut self.log {
                    log.write(stream, bytes, now);
                }
                self.copy(stream, bytes);
            }
            Err(rustix::io::Errno::AGAIN) => {}
            // A terminal whose last user is gone says so with an error.
            _ => {
                if let Some(log) = &mut self.log {
                    log.finish(stream, now);
                }
                self.outputs.remove(index);
            }
        }
    }

    fn copy(&mut self, stream: Stream, bytes: &[u8]) {
        for connection in &mut self.connections {
            if let Role::Reader { taps, .. } = &mut connection.role {
                taps.retain_mut(|(of, tap)| *of != stream || tap.write(bytes));
            }
        }
    }

    fn flush(&mut self, index: usize) {
        if let Some(Connection { role: Role::Reader { taps, .. }, .. }) =
            self.connections.get_mut(index)
        {
            taps.retain_mut(|(_, tap)| tap.write(&[]));
        }
    }

    fn accept(&mut self) {
        if let Some(listener) = &self.listener
            && let Ok((socket, _)) = listener.accept()
        {
            self.connections.push(Connection {
                socket,
                inbox: Inbox::default(),
                role: Role::Follower,
            });
        }
    }

    /// Hears what a connection asks; `false` when it is gone.
    fn hear(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections.get_mut(index) else { return true };
        if !matches!(connection.inbox.fill(&connection.socket), Ok(true)) {
            return false;
        }
        loop {
            let Some(connection) = self.connections.get_mut(index) else { return true };
            match connection.inbox.next::<Ask>() {
                Ok(Some(ask)) => {
                    if self.answer(index, ask).is_err() {
                        return false;
                    }
                }
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn answer(&mut self, index: usize, ask: Ask) -> io::Result<()> {
        match ask {
            Ask::Signal(9) if !self.order.walls.own_processes() => {
                raw::kill(self.init, init::END_ALL)
            }
            Ask::Signal(signal) => raw::kill(self.init, signal),
            Ask::Follow | Ask::Go | Ask::Make(_) | Ask::Begin { .. } => Ok(()),
            Ask::Exec { command, wanted } => self.exec(index, &command, wanted),
            Ask::Attach { wanted } => self.attach(index, wanted),
        }
    }

    fn exec(&mut self, index: usize, command: &[String], wanted: Wanted) -> io::Result<()> {
        let opened = open_streams(self.devices.as_ref(), wanted);
        let (streams, ours) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let message = format!("open streams: {error}");
                return self.tell(index, &Tell::Failed { command: false, message }, &[]);
            }
        };
        let walls = &self.order.walls;
        let mut kinds = ThreadNameSpaceType::empty();
        kinds.set(ThreadNameSpaceType::MOUNT, walls.mount);
        kinds.set(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME, walls.uts);
        let ipc = walls.ipc || walls.ipc_of.is_some();
        kinds.set(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION, ipc);
        let groups = &self.order.groups_of_control;
        let init = self.init_held.as_fd();
        let spawned = init::spawn(self.alone, &self.order, command, streams, || {
            for (folder, _) in groups {
                // Its own number is another one in there; zero means the writer.
                let _ = std::fs::write(folder.join("cgroup.procs"), "0");
            }
            if kinds.is_empty() {
                return Ok(());
            }
            rustix::thread::move_into_thread_name_spaces(init, kinds)
                .map_err(|error| format!("enter the container: {error}"))
        });
        let failed = match spawned {
            Ok(Ok(pid)) => {
                let held = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
                let Wanted { stdin, stdout, stderr, tty, joined } = wanted;
                let tell = Tell::Opened {
                    stdin: stdin && !tty,
                    stdout: stdout && !tty,
                    stderr: stderr && !tty && !joined,
                    tty,
                };
                let descriptors: Vec<_> = ours.iter().map(AsFd::as_fd).collect();
                let told = self.tell(index, &tell, &descriptors);
                if let Some(connection) = self.connections.get_mut(index) {
                    connection.role = Role::Command { pid, held };
                }
                return told;
            }
            Ok(Err(message)) => Tell::Failed { command: true, message },
            Err(error) => Tell::Failed { command: false, message: error.to_string() },
        };
        self.tell(index, &failed, &[])
    }

    fn attach(&mut self, index: usize, wanted: Wanted) -> io::Result<()> {
        let Wanted { stdin, stdout, stderr, .. } = wanted;
        let tty = self.terminal.is_some();
        let mut given = Vec::new();
        let mut taps = Vec::new();
        if let Some(terminal) = &self.terminal {
            given.push(rustix::io::fcntl_dupfd_cloexec(terminal, 3)?);
        }
        let has_stdin = stdin && !tty && self.stdin.is_some();
        if has_stdin && self.order.stdin_once {
            // Given away: the input ends when whoever is attached closes it, not only when it leaves.
            given.extend(self.stdin.take());
        } else if let Some(held) = self.stdin.as_ref().filter(|_| has_stdin) {
            given.push(rustix::io::fcntl_dupfd_cloexec(held, 3)?);
        }
        for (wanted, stream) in [(stdout, Stream::Out), (stderr && !tty, Stream::Err)] {
            if wanted {
                let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                given.push(reader);
                taps.push((stream, Tap::new(writer)?));
            }
        }
        let tell = Tell::Opened { stdin: has_stdin, stdout, stderr: stderr && !tty, tty };
        let descriptors: Vec<_> = given.iter().map(AsFd::as_fd).collect();
        self.tell(index, &tell, &descriptors)?;
        if let Some(connection) = self.connections.get_mut(index) {
            connection.role = Role::Reader { taps, stdin: has_stdin };
        }
        Ok(())
    }

    fn tell(&self, index: usize, tell: &Tell, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self.connections.get(index) {
            Some(connection) => wire::send(&connection.socket, tell, descriptors),
            None => Ok(()),
        }
    }

    /// A further command ended: say so.
    fn ended(&mut self, index: usize) -> bool {
        let Some(Connection { role: Role::Command { pid, .. }, socket, .. }) =
            self.connections.get(index)
        else {
            return false;
        };
        let Ok(Some((_, status))) = rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG)
        else {
            return false;
        };
        let _ = wire::send(socket, &Tell::Ended(init::code(status)), &[]);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.role = Role::Follower;
        }
        true
    }

    /// What a connection's end means for what it asked for.
    fn leave_by(&mut self, connection: Connection) {
        match connection.role {
            Role::Follower => {}
            Role::Command { pid, .. } => {
                // A command leads a process group of its own.
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            }
            Role::Reader { stdin, .. } => {
                if stdin && self.order.stdin_once {
                    self.stdin = None;
                }
            }
        }
    }
}

/// Who has something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Init,
    Listener,
    Output(usize),
    Connection(usize),
    Command(usize),
    Tap(usize),
}

/// A path of a socket may be 107 bytes long; a folder that is held has a short name.
fn listen(folder: &std::path::Path) -> io::Result<UnixListener> {
    let held = std::fs::File::open(folder)?;
    let _ = std::fs::remove_file(folder.join("shim"));
    let listener = UnixListener::bind(super::socket_name(&held))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Streams for a further command: its ends, and ours in the order of [`Tell::Opened`].
fn open_streams(devices: Option<&OwnedFd>, wanted: Wanted) -> io::Result<(Streams, Vec<OwnedFd>)> {
    if wanted.tty {
        let devices = devices.ok_or_else(|| io::Error::other("there are no terminals here"))?;
        let (ours, theirs) = launch::terminal(devices.as_fd())?;
        return Ok((launch::terminal_streams(theirs)?, vec![ours]));
    }
    let mut ours = Vec::new();
    let stdin = if wanted.stdin {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        ours.push(writer);
        reader
    } else {
        std::fs::File::open("/dev/null")?.into()
    };
    let mut output = |wanted: bool| -> io::Result<OwnedFd> {
        if !wanted {
            return sink();
        }
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        ours.push(reader);
        Ok(writer)
    };
    let stdout = output(wanted.stdout)?;
    let stderr = if wanted.joined {
        rustix::io::fcntl_dupfd_cloexec(&stdout, 3)?
    } else {
        output(wanted.stderr)?
    };
    Ok((Streams { stdin, stdout, stderr, tty: false }, ours))
}

fn sink() -> io::Result<OwnedFd> {
    std::fs::OpenOptions::new().write(true).open("/dev/null").map(OwnedFd::from)
}
