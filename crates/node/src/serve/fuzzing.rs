//! The frames that clients of streams send, for the fuzz targets. Nothing here is part of the interface,
//! and nothing of the node uses it.

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;

use super::socket::Socket;

/// Bytes that may be under way.
const IN_MEMORY: usize = 64 * 1024;

/// The messages that a WebSocket makes of bytes from a client, which leaves after the last of them.
pub async fn messages(bytes: &[u8], text: bool) -> Vec<Bytes> {
    let (client, server) = tokio::io::duplex(IN_MEMORY);
    let mut socket = Socket::start(server, text).await;
    let (mut answers, mut sender) = tokio::io::split(client);
    let send = async {
        // A server that has heard enough closes; then there is nobody to send to.
        let _ = sender.write_all(bytes).await;
        let _ = sender.shutdown().await;
    };
    let drain = async {
        let _ = tokio::io::copy(&mut answers, &mut tokio::io::sink()).await;
    };
    let receive = async {
        let mut messages = Vec::new();
        while let Some(message) = socket.incoming.recv().await {
            messages.push(message);
        }
        drop(socket);
        messages
    };
    tokio::join!(send, drain, receive).2
}
