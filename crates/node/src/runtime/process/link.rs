//! The agent's end of a conversation with a shim.

use std::io;
use std::os::fd::OwnedFd;
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
        let bytes = wire::frame(ask)?;
        let mut rest: &[u8] = &bytes;
        while !rest.is_empty() {
            self.socket.writable().await?;
            match self.socket.try_write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
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
