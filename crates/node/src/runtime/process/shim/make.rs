//! Makes a container: its pipes, its namespaces and its first process. What runs in it, and who looks
//! on, is not known here.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};
use rustix::thread::{LinkNameSpaceType, ThreadNameSpaceType, UnshareFlags};

use super::Shim;
use crate::clock;
use crate::runtime::process::init;
use crate::runtime::process::landlock;
use crate::runtime::process::launch::ProcessStreams;
use crate::runtime::process::log::{ContainerLog, OutputStream};
use crate::runtime::process::raw::{self, Alone};
use crate::runtime::process::users;
use crate::runtime::process::wire::{Inbox, LaunchSpec, NetworkOf, Users};

/// Makes the first process and waits until its surroundings are there.
/// `given` are the namespaces of the network, which come with the order.
pub(super) fn make(alone: Alone, order: LaunchSpec, given: Vec<OwnedFd>) -> Result<Shim, String> {
    let told = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let log = match &order.log {
        Some(path) => Some(
            ContainerLog::open(path, order.log_size, order.log_files)
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
    let users = leave(alone, &order, given)?;
    // Here and not in the first process, so that commands which come later are on the same side.
    if order.own_abstract_sockets {
        landlock::restrict().map_err(|error| told("restrict abstract sockets", &error))?;
    }
    let pipes = Pipes::make(&order).map_err(|error| told("make pipes", &error))?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| told("make a channel", &error))?;
    let forked = raw::fork(alone).map_err(|error| told("make the first process", &error))?;
    let Some(init) = forked else {
        drop((ours, pipes.stdin, pipes.outputs));
        init::live(alone, &order, pipes.theirs, users.as_ref(), &theirs);
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
        users,
        channel: ours,
        inbox: Inbox::default(),
        log,
        stdin: pipes.stdin,
        terminal: None,
        outputs: pipes.outputs,
        devices: None,
        listener: None,
        connections: Vec::new(),
        kill_at: None,
        started: clock::timestamp(),
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

/// Leaves the namespaces that concern the shim's children; gives the one of the pod's users, which
/// they enter later.
fn leave(alone: Alone, order: &LaunchSpec, given: Vec<OwnedFd>) -> Result<Option<OwnedFd>, String> {
    let told = |what: &str, error: io::Error| format!("{what}: {error}");
    let walls = &order.walls;
    let joined = match walls.network {
        NetworkOf::Machine => false,
        NetworkOf::Holder { users } => {
            enter_network(given, users).map_err(|error| told("enter the pod's network", error))?;
            users
        }
    };
    // Before the process namespace: the process that makes it must not be the first in there.
    let users = match walls.users {
        Users::Node => Ok(None),
        Users::One if joined => users::one(alone, order.uid, order.gid.unwrap_or(0)).map(Some),
        Users::One => one_user(order).map(|()| None),
        Users::Range { first, of } => users::namespace(alone, first, of).map(Some),
    };
    let users = users.map_err(|error| told("make a user namespace", error))?;
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
    Ok(users)
}

/// The network of the pod. The user namespace around it comes first: it gives the power to enter, and all that
/// is made from then on belongs to it and not to the container (N6).
fn enter_network(given: Vec<OwnedFd>, users: bool) -> io::Result<()> {
    let mut given = given.into_iter();
    let mut enter = |kind: LinkNameSpaceType| {
        let held = given.next().ok_or_else(|| io::Error::other("no namespace came along"))?;
        Ok::<(), io::Error>(rustix::thread::move_into_link_name_space(held.as_fd(), Some(kind))?)
    };
    if users {
        enter(LinkNameSpaceType::User)?;
    }
    enter(LinkNameSpaceType::Network)
}

/// A user namespace with one user: whoever this is.
fn one_user(order: &LaunchSpec) -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    raw::unshare(UnshareFlags::NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{} {} 1", order.uid, uid.as_raw()))?;
    let inside = order.gid.unwrap_or(0);
    std::fs::write("/proc/self/gid_map", format!("{inside} {} 1", gid.as_raw()))
}

/// Both ends of a container's streams.
struct Pipes {
    stdin: Option<OwnedFd>,
    outputs: Vec<(OutputStream, OwnedFd)>,
    /// None: the first process makes a terminal.
    theirs: Option<ProcessStreams>,
}

impl Pipes {
    fn make(order: &LaunchSpec) -> io::Result<Pipes> {
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
            let theirs =
                ProcessStreams { stdin: theirs_in, stdout: sink()?, stderr: sink()?, tty: false };
            return Ok(Pipes { stdin, outputs: Vec::new(), theirs: Some(theirs) });
        }
        let (out, stdout) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (err, stderr) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let theirs = ProcessStreams { stdin: theirs_in, stdout, stderr, tty: false };
        theirs.give(order);
        let outputs = vec![(OutputStream::Out, out), (OutputStream::Err, err)];
        Ok(Pipes { stdin, outputs, theirs: Some(theirs) })
    }
}

pub(super) fn sink() -> io::Result<OwnedFd> {
    std::fs::OpenOptions::new().write(true).open("/dev/null").map(OwnedFd::from)
}
