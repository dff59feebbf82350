//! What is said to whoever started the server and waits: systemd, or `tenure up --detach`. A datagram with lines
//! such as `READY=1` goes to the socket that the variable NOTIFY_SOCKET names.

use std::ffi::OsString;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::environment;

/// Where to say it.
pub(crate) const VARIABLE: &str = "NOTIFY_SOCKET";

/// How much longer a start may take after it was said how far it is, in microseconds.
const MORE: u64 = 60_000_000;

/// Whoever asked goes away once the server is ready.
static UNTIL_READY: AtomicBool = AtomicBool::new(false);

/// Tells nobody any more once the server is ready: `tenure up --detach` has ended by then.
pub(crate) fn only_until_ready() {
    UNTIL_READY.store(true, Ordering::Relaxed);
}

/// The start goes on; it needs more time than it was given.
pub(crate) fn starting(status: &str) {
    send(&format!("EXTEND_TIMEOUT_USEC={MORE}\nSTATUS={status}\n"));
}

/// The server answers requests.
pub(crate) fn ready(line: &str) {
    send(&format!("READY=1\nSTATUS={line}\n"));
}

/// The server ends.
pub(crate) fn stopping() {
    if !UNTIL_READY.load(Ordering::Relaxed) {
        send("STOPPING=1\nSTATUS=stopping\n");
    }
}

/// Whether somebody started the server who looks after it, such as systemd or `tenure up --detach`: what it says on
/// stderr is kept, and read later.
pub(crate) fn is_looked_after() -> bool {
    socket().is_some()
}

fn socket() -> Option<OsString> {
    environment::variable(VARIABLE).filter(|place| !place.is_empty())
}

fn send(text: &str) {
    let Some(place) = socket() else { return };
    // Whoever asked for it and went away again is no reason not to serve.
    if let Err(error) = send_to(Path::new(&place), text) {
        let _ = io::Write::write_all(
            &mut io::stderr().lock(),
            format!("nobody listens at {VARIABLE} `{}`: {error}\n", place.display()).as_bytes(),
        );
    }
}

fn send_to(place: &Path, text: &str) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::ffi::OsStrExt as _;
        // A name of its own kind, without a file.
        if let Some(name) = place.as_os_str().as_bytes().strip_prefix(b"@") {
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            return socket.send_to_addr(text.as_bytes(), &address).map(|_| ());
        }
    }
    socket.send_to(text.as_bytes(), place).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_reach_a_file_and_a_name_without_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send_to(&path, "READY=1\n").unwrap();
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..length], b"READY=1\n");
        assert!(send_to(&dir.path().join("nobody"), "x").is_err());
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt as _;
            let name = format!("tenure-test-{}", std::process::id());
            let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
            let socket = UnixDatagram::bind_addr(&address).unwrap();
            send_to(Path::new(&format!("@{name}")), "STOPPING=1\n").unwrap();
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..length], b"STOPPING=1\n");
        }
    }
}
