//! How many connections the node's own port holds, and which one gives way when there is no room.
//!
//! ```text
//!   accept ──► room? ─ yes ─► a place, until the connection ends, or what it became
//!                └── no ──► the oldest that was never allowed anything is closed; none: refused
//! ```
//!
//! Whoever reaches the port may open connections. Only whom the gate let in keeps a place that others
//! want, so strangers cannot take the port from the API server.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// All connections of one port.
pub(super) struct NodeConnections {
    most: usize,
    open: Mutex<ConnectionTable>,
}

#[derive(Default)]
struct ConnectionTable {
    // INVARIANT: holds a connection from its acceptance until its last `ConnectionPermit` is dropped or it gives way.
    by_number: BTreeMap<u64, Arc<ConnectionState>>,
    next: u64,
}

#[derive(Default)]
struct ConnectionState {
    allowed: AtomicBool,
    gives_way: Notify,
}

/// A place among the connections, until this is dropped.
pub(super) struct ConnectionPermit {
    connections: Arc<NodeConnections>,
    number: u64,
    standing: Arc<ConnectionState>,
}

impl NodeConnections {
    pub(super) fn new(most: usize) -> Arc<NodeConnections> {
        Arc::new(NodeConnections { most: most.max(1), open: Mutex::default() })
    }

    /// A place for one more; none if all are taken by connections that were allowed something.
    pub(super) fn add(self: &Arc<NodeConnections>) -> Option<Arc<ConnectionPermit>> {
        let mut open = self.lock();
        if open.by_number.len() >= self.most {
            let mut oldest_first = open.by_number.iter();
            let stranger =
                oldest_first.find(|(_, standing)| !standing.allowed.load(Ordering::Relaxed));
            let number = stranger.map(|(number, _)| *number)?;
            // Its place is free at once, its socket a moment later.
            open.by_number.remove(&number)?.gives_way.notify_one();
        }
        let (number, standing) = (open.next, Arc::<ConnectionState>::default());
        open.next += 1;
        open.by_number.insert(number, Arc::clone(&standing));
        Some(Arc::new(ConnectionPermit { connections: Arc::clone(self), number, standing }))
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionTable> {
        // Nothing panics while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// A request of this connection was allowed: it gives way to nobody any more.
    pub(super) fn allow(&self) {
        self.standing.allowed.store(true, Ordering::Relaxed);
    }

    /// Resolves when another connection got this place.
    pub(super) async fn gives_way(&self) {
        self.standing.gives_way.notified().await;
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.lock().by_number.remove(&self.number);
    }
}

/// A socket and its place. A connection that became a stream of another kind keeps both.
pub(super) struct Placed<T> {
    socket: T,
    _place: Arc<ConnectionPermit>,
}

impl<T> Placed<T> {
    pub(super) fn new(socket: T, place: Arc<ConnectionPermit>) -> Placed<T> {
        Placed { socket, _place: place }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Placed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Placed<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r133f_the_oldest_stranger_gives_way_and_whom_the_gate_let_in_does_not() {
        let connections = NodeConnections::new(2);
        let first = connections.add().unwrap();
        let second = connections.add().unwrap();
        first.allow();
        let third = connections.add().unwrap();
        let open: Vec<u64> = connections.lock().by_number.keys().copied().collect();
        assert_eq!(open, [first.number, third.number]);
        drop(second);
        third.allow();
        assert!(connections.add().is_none(), "nobody gives way");
        let socket = Placed::new((), first);
        assert!(connections.add().is_none(), "what the connection became has its place");
        drop(socket);
        assert!(connections.add().is_some());
    }
}
