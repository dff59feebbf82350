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

mod answer;
mod make;
mod serve;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use self::make::make;
use super::init::InitReport;
use super::log::{ContainerLog, OutputStream};
use super::network;
use super::raw::{self, Alone};
use super::state;
use super::tap::Tap;
use super::wire::{
    self, ContainerProcesses, Inbox, LaunchSpec, Process, ShimRequest, ShimResponse,
};

use crate::clock;

/// The argument that makes this program hold containers.
pub const ARGUMENT: &str = "__container";

/// How often a shim looks whether its folder is still there, and their parent whether one ended.
const LOOK: Duration = Duration::from_secs(2);

/// If this process was started to hold containers, does so to the end. The first thing a program
/// calls, before it starts any thread.
#[must_use]
pub fn take_over() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.nth(1)? != ARGUMENT {
        return None;
    }
    Some(match run_fork_server() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// The agent is at the other end of standard input. One process makes all shims of an agent: a fork
/// of a small process is faster than a start of the whole program, and shares its memory.
fn run_fork_server() -> io::Result<()> {
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
        while let Some(ShimRequest::Begin { title }) = inbox.next()? {
            let socket = inbox.descriptor().ok_or_else(|| io::Error::other("no descriptor"))?;
            if raw::fork(alone)?.is_none() {
                drop((agent, inbox));
                raw::exit(i32::from(hold(alone, UnixStream::from(socket), &title).is_err()));
            }
        }
    }
}

/// Holds one container, or the network of a node, from its order to its end.
fn hold(alone: Alone, agent: UnixStream, title: &str) -> io::Result<()> {
    let _ = rustix::process::setsid();
    let short: Vec<u8> = title.bytes().filter(|byte| *byte != 0).take(15).collect();
    if let Ok(name) = std::ffi::CString::new(short) {
        let _ = rustix::thread::set_name(&name);
    }
    // Without a process namespace, orphans of the container come here and are ended here.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let mut inbox = Inbox::default();
    let order = match wire::receive(&agent, &mut inbox)? {
        Some(ShimRequest::Make(order)) => order,
        Some(ShimRequest::HoldNetwork(order)) => {
            network::live(alone, agent, inbox, order);
            return Ok(());
        }
        _ => return Ok(()),
    };
    let given: Vec<OwnedFd> = std::iter::from_fn(|| inbox.descriptor()).collect();
    let mut made = match make(alone, *order, given) {
        Ok(made) => made,
        Err(message) => {
            return wire::send(&agent, &ShimResponse::Failed { command: false, message }, &[]);
        }
    };
    let init = match Process::of(made.init.as_raw_nonzero().get()) {
        Ok(init) => init,
        Err(error) => {
            made.abandon();
            let message = format!("look at the first process: {error}");
            return wire::send(&agent, &ShimResponse::Failed { command: false, message }, &[]);
        }
    };
    wire::send(&agent, &ShimResponse::Made(init), &[])?;
    let Some(ShimRequest::Go) = wire::receive(&agent, &mut inbox)? else {
        // An agent that went away before the start left nothing to run.
        made.abandon();
        return Ok(());
    };
    match made.go() {
        Ok(running) => {
            // An agent that is gone by now finds the container again by its record.
            let _ = wire::send(&agent, &ShimResponse::Running(running), &[]);
            made.connections.push(PeerConnection { socket: agent, inbox, role: ShimPeer::Agent });
            made.serve();
            Ok(())
        }
        Err((command, message)) => {
            made.abandon();
            wire::send(&agent, &ShimResponse::Failed { command, message }, &[])
        }
    }
}

/// A container and everything its shim holds for it.
struct Shim {
    alone: Alone,
    order: LaunchSpec,
    init: Pid,
    init_held: OwnedFd,
    /// The user namespace of the pod, if its surroundings were made outside of it.
    users: Option<OwnedFd>,
    channel: UnixStream,
    inbox: Inbox,
    log: Option<ContainerLog>,
    stdin: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    outputs: Vec<(OutputStream, OwnedFd)>,
    devices: Option<OwnedFd>,
    listener: Option<UnixListener>,
    connections: Vec<PeerConnection>,
    /// When it is killed, once its agent is gone and it is to end with it.
    kill_at: Option<Instant>,
    started: jiff::Timestamp,
}

struct PeerConnection {
    socket: UnixStream,
    inbox: Inbox,
    role: ShimPeer,
}

enum ShimPeer {
    /// Ordered the container, and waits for its end.
    Agent,
    /// Asks, or waits for the end.
    Follower,
    /// Runs a command.
    Command { pid: Pid, held: OwnedFd },
    /// Reads the streams.
    Reader { taps: Vec<(OutputStream, Tap)>, stdin: bool },
}
impl Shim {
    fn ready(&mut self) -> Result<(), String> {
        match wire::receive(&self.channel, &mut self.inbox) {
            Ok(Some(InitReport::Ready { devices, terminal })) => {
                if devices {
                    self.devices = self.inbox.descriptor();
                }
                if terminal {
                    self.terminal = self.inbox.descriptor();
                }
                Ok(())
            }
            Ok(Some(InitReport::Failed { message, .. })) => Err(message),
            Ok(_) => Err("the first process ended early".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Lets the command run.
    fn go(&mut self) -> Result<ContainerProcesses, (bool, String)> {
        let ours = |error: io::Error| (false, error.to_string());
        self.listener = Some(listen(&self.order.folder).map_err(ours)?);
        wire::send(&self.channel, &true, &[]).map_err(ours)?;
        match wire::receive(&self.channel, &mut self.inbox) {
            Ok(Some(InitReport::Running)) => {}
            Ok(Some(InitReport::Failed { command, message })) => return Err((command, message)),
            Ok(_) => return Err((false, "the first process ended early".to_owned())),
            Err(error) => return Err(ours(error)),
        }
        self.started = clock::timestamp();
        if let Some(terminal) = &self.terminal {
            let output = rustix::io::fcntl_dupfd_cloexec(terminal, 3);
            self.outputs.push((OutputStream::Out, output.map_err(|error| ours(error.into()))?));
        }
        for (_, output) in &self.outputs {
            let _ = rustix::io::ioctl_fionbio(output, true);
        }
        let running = ContainerProcesses {
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
}

/// A path of a socket may be 107 bytes long; a folder that is held has a short name.
fn listen(folder: &std::path::Path) -> io::Result<UnixListener> {
    let held = std::fs::File::open(folder)?;
    let _ = std::fs::remove_file(folder.join("shim"));
    let listener = UnixListener::bind(super::socket_name(&held))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
