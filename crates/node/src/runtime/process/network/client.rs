//! The agent's end of a conversation with the holder of the node's network. Which pods there are is not known
//! here.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::messages::{HolderRecord, HolderRequest, HolderResponse, SocketWanted};
use crate::runtime::process::socket_name;
use crate::runtime::process::wire::{self, Inbox, Process};

/// How long the holder may take; it does nothing that waits.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A connection to a holder.
#[derive(Debug)]
pub(in super::super) struct HolderClient {
    channel: Arc<Mutex<Channel>>,
    record: HolderRecord,
    users: Option<OwnedFd>,
    node: OwnedFd,
    pods: Vec<String>,
}

#[derive(Debug)]
struct Channel {
    socket: UnixStream,
    inbox: Inbox,
}

/// Why the holder did not do what it was asked.
#[derive(Debug)]
pub(in super::super) struct HolderRefusal {
    message: String,
    code: Option<i32>,
}

impl HolderRefusal {
    /// The error of a socket, if it was one; else what the holder says.
    pub(in super::super) fn into_io(self) -> io::Error {
        match self.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::other(self.message),
        }
    }
}

impl std::fmt::Display for HolderRefusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.message)
    }
}

impl From<io::Error> for HolderRefusal {
    fn from(error: io::Error) -> HolderRefusal {
        HolderRefusal { message: format!("the holder of the network: {error}"), code: None }
    }
}

/// An answer that was done, and what came with it.
type Answered = Result<Vec<OwnedFd>, HolderRefusal>;

impl Channel {
    fn begin(socket: UnixStream) -> io::Result<Channel> {
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(ANSWER_MAX))?;
        socket.set_write_timeout(Some(ANSWER_MAX))?;
        Ok(Channel { socket, inbox: Inbox::default() })
    }

    fn hear(&mut self) -> Result<(HolderResponse, Vec<OwnedFd>), HolderRefusal> {
        let Some(response) = wire::receive(&self.socket, &mut self.inbox)? else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        let wanted = match &response {
            HolderResponse::Failed { message, code } => {
                return Err(HolderRefusal { message: message.clone(), code: *code });
            }
            HolderResponse::Done(count) => *count,
            HolderResponse::Here { users, .. } => 1 + usize::from(*users),
        };
        let given: Vec<OwnedFd> = std::iter::from_fn(|| self.inbox.descriptor()).collect();
        if given.len() == wanted {
            return Ok((response, given));
        }
        // At the limit of descriptors the kernel brings the words without them (N41).
        let message = format!("{} descriptors came where {wanted} were said to", given.len());
        Err(HolderRefusal { message, code: None })
    }

    fn ask(
        &mut self,
        request: &HolderRequest,
    ) -> Result<(HolderResponse, Vec<OwnedFd>), HolderRefusal> {
        wire::send(&self.socket, request, &[])?;
        self.hear()
    }
}

impl HolderClient {
    /// A holder that was begun just now: it says when it is there.
    pub(super) fn begun(socket: UnixStream) -> Result<HolderClient, HolderRefusal> {
        let mut channel = Channel::begin(socket)?;
        channel.hear()?;
        HolderClient::greet(channel)
    }

    /// Finds a holder by its folder.
    pub(super) fn find(folder: &Path) -> Result<HolderClient, HolderRefusal> {
        let held = std::fs::File::open(folder)?;
        HolderClient::greet(Channel::begin(UnixStream::connect(socket_name(&held))?)?)
    }

    fn greet(mut channel: Channel) -> Result<HolderClient, HolderRefusal> {
        let (HolderResponse::Here { record, users, pods }, given) =
            channel.ask(&HolderRequest::Hello)?
        else {
            return Err(io::Error::other("an answer to another question").into());
        };
        let mut given = given.into_iter();
        let users = if users { given.next() } else { None };
        let node = given.next().ok_or_else(|| io::Error::other("no namespace came"))?;
        let channel = Arc::new(Mutex::new(channel));
        Ok(HolderClient { channel, record, users, node, pods })
    }

    /// A name that no other holder has.
    pub(in super::super) fn instance(&self) -> &str {
        &self.record.instance
    }

    pub(in super::super) fn process(&self) -> Process {
        self.record.process
    }

    /// The pods that it had when it was found.
    pub(super) fn pods(&self) -> &[String] {
        &self.pods
    }

    /// The user namespace around the networks; none: that of the machine.
    pub(super) fn users(&self) -> Option<&OwnedFd> {
        self.users.as_ref()
    }

    /// The network of the node.
    pub(super) fn node(&self) -> &OwnedFd {
        &self.node
    }

    /// Asks; once it was asked, the answer is waited for even if nobody wants it any more.
    pub(super) async fn ask(&self, request: HolderRequest) -> Answered {
        let channel = Arc::clone(&self.channel);
        let asking = tokio::task::spawn_blocking(move || {
            let mut channel = channel.lock().unwrap_or_else(PoisonError::into_inner);
            channel.ask(&request).map(|(_, given)| given)
        });
        asking.await.map_err(io::Error::other)?
    }

    /// A namespace or a socket.
    pub(super) async fn ask_for_one(
        &self,
        request: HolderRequest,
    ) -> Result<OwnedFd, HolderRefusal> {
        let given = self.ask(request).await?.pop();
        Ok(given.ok_or_else(|| io::Error::other("nothing came"))?)
    }

    /// A socket, not connected unless it was to be bound.
    pub(in super::super) async fn socket(&self, wanted: SocketWanted) -> io::Result<OwnedFd> {
        self.ask_for_one(HolderRequest::Socket(wanted)).await.map_err(HolderRefusal::into_io)
    }
}
