//! Datagrams of a Service: each client and port has a session with one endpoint, which ends when nobody speaks,
//! when the endpoint is gone, or when there are too many (N17).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::table::{Backends, Listener, Target};
use super::{Shared, is_refused};

/// How long a session lasts in which nobody speaks.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How many sessions a node has; one more ends the oldest.
const SESSIONS_MAX: usize = 4096;
/// The longest datagram.
const DATAGRAM_MAX: usize = 64 << 10;

/// All sessions of the node, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<BTreeMap<u64, AbortHandle>>,
    next: AtomicU64,
}

impl Sessions {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn add(&self, number: u64, task: AbortHandle) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, task| !task.is_finished());
        while open.len() >= SESSIONS_MAX {
            if let Some((_, oldest)) = open.pop_first() {
                oldest.abort();
            }
        }
        open.insert(number, task);
    }
}

/// A session of a client.
struct Session {
    endpoint: SocketAddr,
    socket: Arc<UdpSocket>,
    task: AbortHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries datagrams for as long as the listener is open.
pub(super) fn serve(
    shared: Arc<Shared>,
    listener: Listener,
    socket: UdpSocket,
    mut target: watch::Receiver<Arc<Target>>,
) -> AbortHandle {
    let carrying = async move {
        let socket = Arc::new(socket);
        let mut clients: HashMap<SocketAddr, Session> = HashMap::new();
        let mut bytes = vec![0; DATAGRAM_MAX];
        loop {
            let (length, client) = tokio::select! {
                got = socket.recv_from(&mut bytes) => match got {
                    Ok(got) => got,
                    // A client that is gone is told of by the next call.
                    Err(_) => continue,
                },
                changed = target.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let now = Arc::clone(&target.borrow());
                    if let Backends::Endpoints(endpoints) = &now.backends {
                        clients.retain(|_, session| endpoints.contains(&session.endpoint));
                    }
                    continue;
                }
            };
            let message = bytes.get(..length).unwrap_or_default();
            clients.retain(|_, session| !session.task.is_finished());
            if !clients.contains_key(&client) {
                let now = Arc::clone(&target.borrow());
                match begin(&shared, listener, &now, client, &socket).await {
                    Ok(session) => {
                        clients.insert(client, session);
                    }
                    Err(error) => {
                        tracing::debug!(%error, ?listener, "nobody takes datagrams");
                        continue;
                    }
                }
            }
            if let Some(session) = clients.get(&client) {
                // Datagrams may be lost anywhere.
                let _ = session.socket.send(message).await;
            }
        }
    };
    tokio::spawn(carrying).abort_handle()
}

async fn begin(
    shared: &Arc<Shared>,
    listener: Listener,
    target: &Target,
    client: SocketAddr,
    answers: &Arc<UdpSocket>,
) -> io::Result<Session> {
    let Backends::Endpoints(endpoints) = &target.backends else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let order = shared.affinities.order(listener, target, endpoints, client.ip());
    let endpoint = *order.first().ok_or(io::ErrorKind::ConnectionRefused)?;
    let socket = if shared.network.has(endpoint.ip()) {
        shared.network.datagrams(endpoint).await?
    } else if is_refused(endpoint.ip()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    } else {
        UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0)).await?
    };
    socket.connect(endpoint).await?;
    shared.affinities.given(listener, target, client.ip(), endpoint);
    let socket = Arc::new(socket);
    let (reading, answers) = (Arc::clone(&socket), Arc::clone(answers));
    let back = async move {
        let mut bytes = vec![0; DATAGRAM_MAX];
        while let Ok(Ok(length)) = tokio::time::timeout(IDLE_MAX, reading.recv(&mut bytes)).await {
            let _ = answers.send_to(bytes.get(..length).unwrap_or_default(), client).await;
        }
    };
    let number = shared.sessions.number();
    let task = tokio::spawn(back).abort_handle();
    shared.sessions.add(number, task.clone());
    Ok(Session { endpoint, socket, task })
}
