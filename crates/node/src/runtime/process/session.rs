//! The agent's side of open streams: descriptors a shim sent, as bytes that can be awaited.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::link::ShimClient;
use super::raw;
use super::wire::{ShimRequest, ShimResponse};
use crate::runtime::{OutputReader, RuntimeError, Session, StdinWriter};

/// A terminal that somebody holds.
#[derive(Clone)]
struct Terminal(Arc<AsyncFd<OwnedFd>>);

impl Terminal {
    fn new(held: OwnedFd) -> io::Result<Terminal> {
        rustix::io::ioctl_fionbio(&held, true)?;
        Ok(Terminal(Arc::new(raw::awaitable(held)?)))
    }
}

impl AsyncRead for Terminal {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let read = guard.try_io(|held| {
                let got = rustix::io::read(held.get_ref(), buffer.initialize_unfilled());
                match got {
                    // The last process that had the terminal is gone.
                    Err(rustix::io::Errno::IO) => Ok(0),
                    other => other.map_err(io::Error::from),
                }
            });
            if let Ok(read) = read {
                buffer.advance(read?);
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            let written = guard
                .try_io(|held| rustix::io::write(held.get_ref(), bytes).map_err(io::Error::from));
            if let Ok(written) = written {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Asks a shim for streams and wraps what it sends.
pub(super) async fn open(
    link: ShimClient,
    ask: &ShimRequest,
    stdin: bool,
) -> Result<Session, RuntimeError> {
    let failed = |error: io::Error| RuntimeError::Failed(format!("open streams: {error}"));
    link.ask(ask).await.map_err(failed)?;
    let (has_in, has_out, has_err, tty) = match link.hear().await.map_err(failed)? {
        Some(ShimResponse::Opened { stdin, stdout, stderr, tty }) => (stdin, stdout, stderr, tty),
        Some(ShimResponse::Failed { command: true, message }) => {
            return Err(RuntimeError::CannotRun(message));
        }
        Some(ShimResponse::Failed { message, .. }) => return Err(RuntimeError::Failed(message)),
        _ => return Err(RuntimeError::NotFound("the container".to_owned())),
    };
    let missing = || failed(io::Error::other("a stream is missing"));
    let next = || link.descriptor().ok_or_else(missing);
    let terminal = if tty { Some(Terminal::new(next()?).map_err(failed)?) } else { None };
    let mut writer: Option<StdinWriter> = None;
    if has_in {
        writer = Some(Box::new(pipe::Sender::from_owned_fd(next()?).map_err(failed)?));
    } else if let Some(terminal) = terminal.clone().filter(|_| stdin) {
        writer = Some(Box::new(terminal));
    }
    let receiver = |held: OwnedFd| -> Result<OutputReader, RuntimeError> {
        Ok(Box::new(pipe::Receiver::from_owned_fd(held).map_err(failed)?))
    };
    let mut stdout = if has_out { Some(receiver(next()?)?) } else { None };
    if let (None, Some(terminal)) = (&stdout, terminal.clone()) {
        stdout = Some(Box::new(terminal));
    }
    let stderr = if has_err { Some(receiver(next()?)?) } else { None };
    Ok(Session { stdin: writer, stdout, stderr, resize: resizer(terminal), exit: exit(link) })
}

fn exit(link: ShimClient) -> futures::future::BoxFuture<'static, Result<i32, RuntimeError>> {
    Box::pin(async move {
        match link.hear().await {
            Ok(Some(ShimResponse::Ended(code))) => Ok(code),
            Ok(_) => Err(RuntimeError::Failed("the container's shim is gone".to_owned())),
            Err(error) => Err(RuntimeError::Failed(error.to_string())),
        }
    })
}

/// Sizes go to the terminal until nobody sends any more; without one they go nowhere.
fn resizer(terminal: Option<Terminal>) -> mpsc::Sender<(u16, u16)> {
    let (sender, mut sizes) = mpsc::channel::<(u16, u16)>(4);
    tokio::spawn(async move {
        while let Some((columns, rows)) = sizes.recv().await {
            if let Some(terminal) = &terminal {
                let size = rustix::termios::Winsize {
                    ws_row: rows,
                    ws_col: columns,
                    ws_xpixel: 0,
                    ws_ypixel: 0,
                };
                let _ = rustix::termios::tcsetwinsize(terminal.0.get_ref(), size);
            }
        }
    });
    sender
}
