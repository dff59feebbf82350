//! What a shim is asked for by those who connect: signals, further commands, attachments.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::pipe::PipeFlags;
use rustix::process::{PidfdFlags, Signal, WaitOptions};
use rustix::thread::ThreadNameSpaceType;

use super::make::sink;
use super::{PeerConnection, Shim, ShimPeer};
use crate::clock;
use crate::runtime::process::init;
use crate::runtime::process::launch::{self, ProcessStreams};
use crate::runtime::process::log::OutputStream;
use crate::runtime::process::raw;
use crate::runtime::process::tap::Tap;
use crate::runtime::process::users;
use crate::runtime::process::wire::{self, ShimRequest, ShimResponse, StreamOptions};

/// How long a container that ends with its agent may take once that is gone.
const ALONE_MAX: Duration = Duration::from_secs(2);
/// The number of SIGTERM.
const TERMINATE: i32 = 15;

impl Shim {
    /// Hears what a connection asks; `false` when it is gone.
    pub(super) fn hear(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections.get_mut(index) else { return true };
        if !matches!(connection.inbox.fill(&connection.socket), Ok(true)) {
            return false;
        }
        loop {
            let Some(connection) = self.connections.get_mut(index) else { return true };
            match connection.inbox.next::<ShimRequest>() {
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

    fn answer(&mut self, index: usize, ask: ShimRequest) -> io::Result<()> {
        match ask {
            ShimRequest::Signal(9) => self.kill_all(),
            ShimRequest::Signal(signal) => raw::kill(self.init, signal),
            ShimRequest::Follow
            | ShimRequest::Go
            | ShimRequest::Make(_)
            | ShimRequest::HoldNetwork(_)
            | ShimRequest::Begin { .. } => Ok(()),
            ShimRequest::Exec { command, wanted } => self.exec(index, &command, wanted),
            ShimRequest::Attach { wanted } => self.attach(index, wanted),
        }
    }

    /// Ends everything in the container without asking.
    pub(super) fn kill_all(&self) -> io::Result<()> {
        let signal = if self.order.walls.own_processes() { 9 } else { init::END_ALL };
        raw::kill(self.init, signal)
    }

    fn exec(&mut self, index: usize, command: &[String], wanted: StreamOptions) -> io::Result<()> {
        let opened = open_streams(self.devices.as_ref(), wanted);
        let (streams, ours) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let message = format!("open streams: {error}");
                return self.tell(index, &ShimResponse::Failed { command: false, message }, &[]);
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
        let users = self.users.as_ref();
        let order = &self.order;
        streams.give(order);
        let spawned = init::spawn(self.alone, &self.order, command, streams, || {
            for (folder, _) in groups {
                // Its own number is another one in there; zero means the writer.
                let _ = std::fs::write(folder.join("cgroup.procs"), "0");
            }
            launch::set_oom_score(order);
            if !kinds.is_empty() {
                rustix::thread::move_into_thread_name_spaces(init, kinds)
                    .map_err(|error| format!("enter the container: {error}"))?;
            }
            let enter = |users| users::enter(users, order.walls.single);
            users.map_or(Ok(()), enter).map_err(|error| format!("become its user: {error}"))
        });
        let failed = match spawned {
            Ok(Ok(pid)) => {
                let held = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
                let StreamOptions { stdin, stdout, stderr, tty, joined } = wanted;
                let tell = ShimResponse::Opened {
                    stdin: stdin && !tty,
                    stdout: stdout && !tty,
                    stderr: stderr && !tty && !joined,
                    tty,
                };
                let descriptors: Vec<_> = ours.iter().map(AsFd::as_fd).collect();
                let told = self.tell(index, &tell, &descriptors);
                if let Some(connection) = self.connections.get_mut(index) {
                    connection.role = ShimPeer::Command { pid, held };
                }
                return told;
            }
            Ok(Err(message)) => ShimResponse::Failed { command: true, message },
            Err(error) => ShimResponse::Failed { command: false, message: error.to_string() },
        };
        self.tell(index, &failed, &[])
    }

    fn attach(&mut self, index: usize, wanted: StreamOptions) -> io::Result<()> {
        let StreamOptions { stdin, stdout, stderr, .. } = wanted;
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
        for (wanted, stream) in [(stdout, OutputStream::Out), (stderr && !tty, OutputStream::Err)] {
            if wanted {
                let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                given.push(reader);
                taps.push((stream, Tap::new(writer)?));
            }
        }
        let tell = ShimResponse::Opened { stdin: has_stdin, stdout, stderr: stderr && !tty, tty };
        let descriptors: Vec<_> = given.iter().map(AsFd::as_fd).collect();
        self.tell(index, &tell, &descriptors)?;
        if let Some(connection) = self.connections.get_mut(index) {
            connection.role = ShimPeer::Reader { taps, stdin: has_stdin };
        }
        Ok(())
    }

    fn tell(
        &self,
        index: usize,
        tell: &ShimResponse,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        match self.connections.get(index) {
            Some(connection) => wire::send(&connection.socket, tell, descriptors),
            None => Ok(()),
        }
    }

    /// A further command ended: say so.
    pub(super) fn ended(&mut self, index: usize) -> bool {
        let Some(PeerConnection { role: ShimPeer::Command { pid, .. }, socket, .. }) =
            self.connections.get(index)
        else {
            return false;
        };
        let Ok(Some((_, status))) = rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG)
        else {
            return false;
        };
        let _ = wire::send(socket, &ShimResponse::Ended(init::code(status)), &[]);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.role = ShimPeer::Follower;
        }
        true
    }

    /// What a connection's end means for what it asked for.
    pub(super) fn leave_by(&mut self, connection: PeerConnection) {
        match connection.role {
            ShimPeer::Agent if self.order.ends_with_agent => {
                self.kill_at = Some(clock::instant() + ALONE_MAX);
                // Whoever holds the processes of the whole pod goes last: all others go with it.
                if !self.order.command.is_empty() {
                    let _ = raw::kill(self.init, TERMINATE);
                }
            }
            ShimPeer::Agent | ShimPeer::Follower => {}
            ShimPeer::Command { pid, .. } => {
                // A command leads a process group of its own.
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                let _ = rustix::process::kill_process(pid, Signal::KILL);
                let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
            }
            ShimPeer::Reader { stdin, .. } => {
                if stdin && self.order.stdin_once {
                    self.stdin = None;
                }
            }
        }
    }
}

/// Streams for a further command: its ends, and ours in the order of [`ShimResponse::Opened`].
fn open_streams(
    devices: Option<&OwnedFd>,
    wanted: StreamOptions,
) -> io::Result<(ProcessStreams, Vec<OwnedFd>)> {
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
    Ok((ProcessStreams { stdin, stdout, stderr, tty: false }, ours))
}
