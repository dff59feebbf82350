//! The way out: connections of pods to whatever is outside are dialled from the machine, as this user's own
//! (N24). Which addresses are refused is the same for all.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use super::{Shared, carry, is_refused};

/// How long somebody outside may take to answer.
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// How long accepting waits when there is no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts for as long as nobody ends it.
pub(super) fn serve(shared: Arc<Shared>, socket: TcpListener) -> AbortHandle {
    let accepting = async move {
        loop {
            match socket.accept().await {
                Ok((client, _)) => {
                    tokio::spawn(pass(Arc::clone(&shared), client));
                }
                Err(error) => {
                    tracing::debug!(%error, "no connection could be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::spawn(accepting).abort_handle()
}

async fn pass(shared: Arc<Shared>, client: TcpStream) {
    // What the client dialled is what the socket has as its own.
    let dialled = match client.local_addr() {
        Ok(to) => dial(&shared, to).await.map_err(|error| (to, error)),
        Err(_) => return,
    };
    match dialled {
        Ok(server) => carry::carry(client, server).await,
        Err((to, error)) => {
            tracing::debug!(%to, %error, "a pod reaches nobody outside");
            carry::reset(&client);
        }
    }
}

async fn dial(shared: &Shared, to: SocketAddr) -> io::Result<TcpStream> {
    if is_refused(to.ip()) || shared.network.has(to.ip()) || !shared.network.reaches(to.ip()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    match tokio::time::timeout(CONNECT_MAX, TcpStream::connect(to)).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
