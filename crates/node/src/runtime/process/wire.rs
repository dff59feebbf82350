//! What the agent and a shim say to each other: frames of JSON over a socket of this machine, some
//! with open descriptors. What they do about it is not here.
//!
//! ```text
//!   frame = length (4 bytes, little-endian)  JSON
//! ```

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::network::HolderOrder;
use crate::runtime::{Mount, RedactedValue};

/// The largest frame: an environment may be long, nothing else is.
const FRAME_MAX: usize = 64 << 20;

/// What the agent asks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ShimRequest {
    /// Make another process that holds a container, for whoever is at the other end of the descriptor
    /// that comes along.
    Begin {
        /// What it is called among processes.
        title: String,
    },
    /// Make the container; it waits. First and once. The namespaces that it enters come along.
    Make(Box<LaunchSpec>),
    /// Hold the network of the node instead of a container. First and once.
    HoldNetwork(HolderOrder),
    /// Let it run.
    Go,
    /// Send a signal to its process; 9 ends all of it.
    Signal(i32),
    /// Tell on this connection when it ends.
    Follow,
    /// Run another command in it; the connection's end is the command's end.
    Exec {
        /// The command and its arguments.
        command: Vec<String>,
        /// Which streams.
        wanted: StreamOptions,
    },
    /// Open its streams.
    Attach {
        /// Which streams.
        wanted: StreamOptions,
    },
}

/// Which streams somebody wants.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each stream is wanted or is not")]
pub(super) struct StreamOptions {
    /// Standard input.
    pub(super) stdin: bool,
    /// Standard output.
    pub(super) stdout: bool,
    /// Standard error.
    pub(super) stderr: bool,
    /// A terminal.
    pub(super) tty: bool,
    /// Output and error as one.
    pub(super) joined: bool,
}

/// What a shim answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ShimResponse {
    /// It is made and waits; its first process.
    Made(Process),
    /// It runs.
    Running(ContainerProcesses),
    /// It could not be made or run.
    Failed {
        /// Whether the command was at fault rather than the surroundings.
        command: bool,
        /// What people read.
        message: String,
    },
    /// Streams are open; their descriptors come along.
    Opened {
        /// To standard input.
        stdin: bool,
        /// From standard output.
        stdout: bool,
        /// From standard error.
        stderr: bool,
        /// A terminal, before all others.
        tty: bool,
    },
    /// A further command ended.
    Ended(i32),
    /// The container ended.
    Exited(Exited),
}

/// The processes of a container, as they can be found again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ContainerProcesses {
    /// The shim.
    pub(super) shim: Process,
    /// The first process of the container.
    pub(super) init: Process,
    /// Since when.
    pub(super) started: jiff::Timestamp,
}

/// A process that cannot be taken for another with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    /// Its number, as the node sees it.
    pub(super) pid: i32,
    /// When it began, in the kernel's ticks since the machine began.
    pub(super) start: u64,
    /// Since which start of the machine these count; none in the record of an older shim.
    #[serde(default)]
    pub(super) boot: Option<u64>,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exited {
    /// When it began.
    pub(super) started: jiff::Timestamp,
    /// When it ended.
    pub(super) finished: jiff::Timestamp,
    /// Its exit code.
    pub(super) code: i32,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`, `ContainerStatusUnknown`.
    pub(super) reason: String,
    /// What people read.
    pub(super) message: String,
}

/// A container to be made: every decision is already taken.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LaunchSpec {
    /// The folder of this container: socket, records.
    pub(super) folder: PathBuf,
    /// The command and its arguments; none: wait for a signal and nothing else.
    pub(super) command: Vec<String>,
    /// The whole environment.
    pub(super) env: Vec<(String, RedactedValue)>,
    /// Where it begins.
    pub(super) directory: String,
    /// What it sees as `/`.
    pub(super) root: Root,
    /// What else it sees, in order.
    pub(super) mounts: Vec<Mount>,
    /// The name it sees as its own; empty: that of the node.
    pub(super) hostname: String,
    /// `/etc/hosts`, unless a mount is there.
    pub(super) hosts: String,
    /// `/etc/resolv.conf`, unless a mount is there.
    pub(super) resolver: String,
    /// Which walls are there.
    pub(super) walls: Walls,
    /// User.
    pub(super) uid: u32,
    /// Group; none: as the user's entry says.
    pub(super) gid: Option<u32>,
    /// Further groups.
    pub(super) groups: Vec<u32>,
    /// Capabilities, as a set of bits; none: leave them.
    pub(super) capabilities: Option<u64>,
    /// Never more privileges than at the start.
    pub(super) no_new_privileges: bool,
    /// Its calls to the kernel are filtered.
    pub(super) filter_calls: bool,
    /// It reaches no abstract sockets but its own.
    pub(super) own_abstract_sockets: bool,
    /// `kernel.shm_rmid_forced` of its memory segments; none: as the kernel has it.
    #[serde(default)]
    pub(super) shm_rmid_forced: Option<String>,
    /// How many processes its user may have; none: as many as the agent's.
    pub(super) processes_max: Option<u64>,
    /// How likely the kernel ends it first.
    pub(super) oom_score: Option<i64>,
    /// Control groups and what is written there.
    pub(super) groups_of_control: Vec<(PathBuf, Vec<(String, String)>)>,
    /// The log file; none: nobody reads its output.
    pub(super) log: Option<PathBuf>,
    /// Bytes of a log file before it is put aside.
    pub(super) log_size: u64,
    /// How many log files there are.
    pub(super) log_files: usize,
    /// Keep standard input open.
    pub(super) stdin: bool,
    /// Close standard input after the first attach.
    pub(super) stdin_once: bool,
    /// Give it a terminal.
    pub(super) tty: bool,
    /// End it when the agent that ordered it is gone: no other will look for it.
    #[serde(default)]
    pub(super) ends_with_agent: bool,
}

/// What a container sees as `/`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Root {
    /// The node's own programs, read-only.
    #[default]
    Host,
    /// A folder, with a layer of its own above it unless that is read-only.
    Folder {
        /// Where.
        path: PathBuf,
        /// No layer above.
        read_only: bool,
    },
}

/// Which walls are around a container.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each wall is there or is not")]
pub(super) struct Walls {
    /// Own mounts; without them folders are links below a private root.
    pub(super) mount: bool,
    /// Own processes.
    pub(super) pid: bool,
    /// Join the processes of this one instead.
    pub(super) pid_of: Option<Process>,
    /// Own name.
    pub(super) uts: bool,
    /// Own memory segments.
    pub(super) ipc: bool,
    /// Join those of this process instead.
    pub(super) ipc_of: Option<Process>,
    /// Whose users it has.
    pub(super) users: Users,
    /// Whose network it has.
    #[serde(default)]
    pub(super) network: NetworkOf,
    /// There is only one user it can be.
    pub(super) single: bool,
    /// `/tmp` and its like may not be written either.
    pub(super) read_only: bool,
    /// Everything of the node is visible.
    pub(super) privileged: bool,
}

/// Whose users a container has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Users {
    /// Those of the node.
    #[default]
    Node,
    /// One: the agent's own, in a namespace of its own.
    One,
    /// A range of the node's ids that is the pod's alone.
    Range {
        /// The node's id of the container's user 0.
        first: u32,
        /// Join the namespace of this process, a container of the same pod.
        of: Option<Process>,
    },
}

/// Whose network a container has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NetworkOf {
    /// That of the machine.
    #[default]
    Machine,
    /// One of the holder's, which comes along.
    Holder {
        /// The user namespace around it comes along before it.
        users: bool,
    },
}

impl Walls {
    /// The node's id of the container's user 0, where it has a range.
    pub(super) fn first_id(&self) -> Option<u32> {
        match self.users {
            Users::Range { first, .. } => Some(first),
            Users::Node | Users::One => None,
        }
    }

    /// Whether the kernel ends everything in the container with its first process.
    pub(super) fn own_processes(&self) -> bool {
        self.pid && self.pid_of.is_none()
    }
}

/// A frame, ready to be sent.
pub(super) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
    if let Some(head) = bytes.get_mut(..4) {
        head.copy_from_slice(&length.to_le_bytes());
    }
    Ok(bytes)
}

/// Sends one message, with descriptors, on a socket that may block.
pub(super) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = frame(message)?;
    let mut rest: &[u8] = &bytes;
    let mut along = descriptors;
    while !rest.is_empty() {
        let sent = send_part(&socket, rest, along)?;
        along = &[];
        rest = rest.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Sends what the socket takes at once, with descriptors, and says how much that was.
pub(super) fn send_part(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    });
    Ok(sent?)
}

/// Bytes and descriptors that came in, taken apart into messages.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Inbox {
    /// Takes in what the socket has; `false` when the other side is gone.
    pub(super) fn fill(&mut self, socket: impl AsFd) -> io::Result<bool> {
        let mut chunk = [0; 16 << 10];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &socket,
                &mut [IoSliceMut::new(&mut chunk)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.bytes.extend_from_slice(chunk.get(..got.bytes).unwrap_or_default());
        Ok(got.bytes > 0)
    }

    /// The next whole message.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((head, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length > FRAME_MAX {
            return Err(io::Error::other("a frame is longer than any may be"));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(body)?;
        self.bytes.drain(..4 + length);
        Ok(Some(message))
    }

    /// The next descriptor that came along.
    pub(super) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }
}

/// Reads one message from a socket that may block; nothing when the other side is gone.
pub(super) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
    inbox: &mut Inbox,
) -> io::Result<Option<T>> {
    loop {
        if let Some(message) = inbox.next()? {
            return Ok(Some(message));
        }
        if !inbox.fill(&socket)? {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptor_and_split_frames_are_joined() {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        send(&here, &ShimResponse::Ended(3), &[writer.as_fd()]).unwrap();
        let bytes = frame(&ShimResponse::Ended(4)).unwrap();
        rustix::io::write(&here, &bytes[..5]).unwrap();
        let mut inbox = Inbox::default();
        assert!(matches!(receive(&there, &mut inbox).unwrap(), Some(ShimResponse::Ended(3))));
        assert!(inbox.descriptor().is_some());
        assert!(inbox.next::<ShimResponse>().unwrap().is_none());
        rustix::io::write(&here, &bytes[5..]).unwrap();
        assert!(matches!(receive(&there, &mut inbox).unwrap(), Some(ShimResponse::Ended(4))));
        drop(here);
        assert!(receive::<ShimResponse>(&there, &mut inbox).unwrap().is_none());
    }
}
