//! `tenure snapshot save` of a server that runs: its objects come over the API, and are written here.
//!
//! ```text
//!   server ──► this thread: the connection ──► few chunks ──► another thread: the file
//! ```

use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use futures::{AsyncRead, AsyncReadExt as _};
use tenure_host::HostStartError;
use tenure_host::storage::{self, Saved};
use tenure_inspect::{ClusterReader, ConnectionOptions};

use crate::inspect::block_on;
use crate::progress::{ProgressLine, Unit};
use crate::report::CommandError;

/// Where the server sends all its objects.
const PATH: &str = "/tenure/snapshot";
/// How many bytes are read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// How many chunks may wait for the disk.
const CHUNKS: usize = 4;

type Chunk = io::Result<Vec<u8>>;

/// Saves what the server of a kubeconfig has at this moment, while it goes on.
pub(crate) fn save(
    kubeconfig: &Path,
    context: Option<&str>,
    file: &Path,
) -> Result<Saved, CommandError> {
    if file.symlink_metadata().is_ok() {
        // Said before anybody is asked for anything, in the words of a stopped server.
        let what = format!("`{}` exists; a snapshot is never written over a file", file.display());
        return Err(CommandError::new("the snapshot failed").cause(&what));
    }
    let (sender, receiver) = sync_channel(CHUNKS);
    let place = file.to_owned();
    let writing = std::thread::spawn(move || {
        let mut progress = ProgressLine::new("saving", Unit::Objects);
        let sent = Chunks { receiver, rest: io::Cursor::default() };
        storage::save_sent(sent, &place, &mut |done, all| {
            progress.tell(done, all);
        })
    });
    let asked = block_on(ask(kubeconfig, context, sender));
    let written = writing.join().map_err(|_| CommandError::new("the snapshot was not written"))?;
    // What the server refused explains why nothing came.
    asked?;
    written.map_err(|error| CommandError::from(HostStartError::from(error)))
}

async fn ask(
    kubeconfig: &Path,
    context: Option<&str>,
    sender: SyncSender<Chunk>,
) -> Result<(), CommandError> {
    let kubeconfig = Some(kubeconfig.to_owned());
    let access =
        ConnectionOptions { kubeconfig, context: context.map(str::to_owned), namespace: None };
    let reader = ClusterReader::connect(&access).await?;
    let request = http::Request::get(PATH).body(Vec::new());
    let request =
        request.map_err(|error| CommandError::new("no request could be made").cause(&error))?;
    let stream = reader.client().request_stream(request).await.map_err(|error| refused(&error))?;
    let mut stream = std::pin::pin!(stream);
    while let Some(chunk) = next(&mut stream).await {
        // A writer that has ended says why itself.
        if sender.send(chunk).is_err() {
            break;
        }
    }
    Ok(())
}

async fn next(stream: &mut (impl AsyncRead + Unpin)) -> Option<Chunk> {
    let mut bytes = vec![0; CHUNK_BYTES];
    match stream.read(&mut bytes).await {
        Ok(0) => None,
        Ok(count) => {
            bytes.truncate(count);
            Some(Ok(bytes))
        }
        Err(error) => Some(Err(error)),
    }
}

fn refused(error: &kube::Error) -> CommandError {
    let problem = CommandError::new("the running server did not send its objects");
    match error {
        kube::Error::Api(status) if status.code == 403 => problem
            .cause(&status.message)
            .hint("use the kubeconfig of an administrator, or stop the server first"),
        kube::Error::Api(status) if status.code == 404 => problem
            .cause(&"it knows no snapshots: it is no server of this release")
            .hint("stop the server first"),
        error => problem.cause(error).hint("see whether it answers with `kubectl version`"),
    }
}

/// Chunks as one stream; it ends when the sender is gone.
struct Chunks {
    receiver: Receiver<Chunk>,
    rest: io::Cursor<Vec<u8>>,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(into)?;
        if count > 0 || into.is_empty() {
            return Ok(count);
        }
        match self.receiver.recv() {
            Ok(chunk) => self.rest = io::Cursor::new(chunk?),
            Err(_) => return Ok(0),
        }
        self.rest.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_one_stream() {
        let (sender, receiver) = sync_channel(3);
        for text in ["one", "two", "three"] {
            sender.send(Ok(text.as_bytes().to_vec())).unwrap();
        }
        drop(sender);
        let mut all = String::new();
        let mut chunks = Chunks { receiver, rest: io::Cursor::default() };
        chunks.read_to_string(&mut all).unwrap();
        assert_eq!(all, "onetwothree");
    }
}
