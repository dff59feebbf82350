//! The agent's end of a conversation with a shim.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Plain;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::io::Interest;
use tokio::net::UnixStream;

use super::wire::{self, Inbox, ShimRequest, ShimResponse};

/// A connection to a shim.
#[derive(Debug)]
pub(super) struct ShimClient {
    socket: UnixStream,
    inbox: Mutex<Inbox>,
}

impl ShimClient {
    pub(super) fn new(socket: Plain) -> io::Result<ShimClient> {
        socket.set_nonblocking(true)?;
        Ok(ShimClient { socket: UnixStream::from_std(socket)?, inbox: Mutex::default() })
    }

    /// Finds the shim of a container by its folder.
    pub(super) fn connect(folder: &Path) -> io::Result<ShimClient> {
        let held = std::fs::File::open(folder)?;
        ShimClient::new(Plain::connect(super::socket_name(&held))?)
    }

    pub(super) async fn ask(&self, ask: &ShimRequest) -> io::Result<()> {
        self.ask_with(ask, &[]).await
    }

    /// Asks, and gives these descriptors along.
    pub(super) async fn ask_with(&self, ask: &ShimRequest, given: &[OwnedFd]) -> io::Result<()> {
        let bytes = wire::frame(ask)?;
        let mut rest: &[u8] = &bytes;
        let mut along = given;
        while !rest.is_empty() {
            let send = || {
                let descriptors: Vec<_> = along.iter().map(AsFd::as_fd).collect();
                wire::send_part(&self.socket, rest, &descriptors)
            };
            let sent = self.socket.async_io(Interest::WRITABLE, send).await?;
            along = &[];
            rest = rest.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// The next thing the shim says; nothing when it is gone.
    pub(super) async fn hear(&self) -> io::Result<Option<ShimResponse>> {
        loop {
            if let Some(tell) = self.inbox().next()? {
                return Ok(Some(tell));
            }
            let more = self
                .socket
                .async_io(Interest::READABLE, || self.inbox().fill(&self.socket))
                .await?;
            if !more {
                return Ok(None);
            }
        }
    }

    /// The next descriptor that came along.
    pub(super) fn descriptor(&self) -> Option<OwnedFd> {
        self.inbox().descriptor()
    }

    fn inbox(&self) -> std::sync::MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
