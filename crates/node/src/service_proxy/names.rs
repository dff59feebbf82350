//! The server of names: those of the cluster are answered from what is known of Services, all others are passed on
//! to the machine's own resolver as they are (N22, N23).

pub(crate) mod message;
pub(crate) mod zone;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use self::message::{Code, Data, Question};
use self::zone::{DOMAIN, Found, Zone};
use super::table::Known;

/// Where the machine says whom it asks.
const RESOLVER: &str = "/etc/resolv.conf";
/// How long a name elsewhere may take before the client is told that it failed.
const ELSEWHERE_MAX: Duration = Duration::from_secs(2);
/// How many questions may be on their way elsewhere; more are not answered, and clients ask again.
const PENDING_MAX: usize = 1024;
/// How long a connection may be silent, and how many there may be.
const SILENT_MAX: Duration = Duration::from_secs(10);
const CONNECTIONS_MAX: usize = 256;
const PORT: u16 = 53;

/// What all listeners answer from.
pub(super) struct Names {
    zone: Mutex<Arc<Zone>>,
    servers: Mutex<(Option<SystemTime>, Vec<SocketAddr>)>,
    pending: Arc<Semaphore>,
    connections: Arc<Semaphore>,
}

impl Names {
    pub(super) fn new() -> Names {
        Names {
            zone: Mutex::default(),
            servers: Mutex::default(),
            pending: Arc::new(Semaphore::new(PENDING_MAX)),
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        }
    }

    /// From now on these Services have names.
    pub(super) fn learn(&self, known: &Known) {
        let zone = Arc::new(Zone::new(known));
        *self.zone.lock().unwrap_or_else(PoisonError::into_inner) = zone;
    }

    /// Whom the machine asks; read again when that changed.
    fn servers(&self) -> Vec<SocketAddr> {
        let changed = std::fs::metadata(Path::new(RESOLVER)).and_then(|seen| seen.modified()).ok();
        let mut known = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.is_none() || known.0 != changed {
            let text = std::fs::read_to_string(RESOLVER).unwrap_or_default();
            *known = (changed, servers_in(&text));
        }
        known.1.clone()
    }

    /// What can be said at once.
    fn known(&self, asked: &Question, only_elsewhere: bool) -> Found {
        if only_elsewhere {
            return Found::Elsewhere;
        }
        let zone = Arc::clone(&self.zone.lock().unwrap_or_else(PoisonError::into_inner));
        zone.find(asked)
    }

    /// The answer, which may take a while where it is another's.
    async fn answer(&self, bytes: &[u8], asked: &Question, found: Found, stream: bool) -> Vec<u8> {
        let room = if stream { usize::from(u16::MAX) } else { asked.room };
        match found {
            Found::Records(code, records) => asked.answer(code, &records, Some(DOMAIN), room),
            Found::Alias(target) => {
                let lookup = tokio::net::lookup_host((target.as_str(), 0));
                let there = tokio::time::timeout(ELSEWHERE_MAX, lookup).await;
                let mut records = vec![(asked.name.clone(), Data::Alias(target.clone()))];
                if let Ok(Ok(there)) = there {
                    records.extend(there.filter_map(|found| match found.ip() {
                        IpAddr::V4(v4) => Some((target.clone(), Data::Address(v4))),
                        IpAddr::V6(_) => None,
                    }));
                }
                asked.answer(Code::Good, &records, Some(DOMAIN), room)
            }
            Found::Elsewhere => {
                let passing = pass_on(self.servers(), bytes, stream);
                match tokio::time::timeout(ELSEWHERE_MAX, passing).await {
                    Ok(Ok(answer)) => answer,
                    _ => asked.answer(Code::Failed, &[], None, room),
                }
            }
        }
    }
}

fn servers_in(text: &str) -> Vec<SocketAddr> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let servers = words.filter_map(|words| match words.as_slice() {
        ["nameserver", address, ..] => Some(SocketAddr::new(address.parse().ok()?, PORT)),
        _ => None,
    });
    servers.take(3).collect()
}

/// Asks the machine's servers one by one.
async fn pass_on(servers: Vec<SocketAddr>, bytes: &[u8], stream: bool) -> io::Result<Vec<u8>> {
    let mut problem = io::Error::from(io::ErrorKind::NotFound);
    let share = ELSEWHERE_MAX / u32::try_from(servers.len().max(1)).unwrap_or(1);
    for server in servers {
        let asking = async {
            if stream {
                over_stream(server, bytes).await
            } else {
                over_datagrams(server, bytes).await
            }
        };
        match tokio::time::timeout(share, asking).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => problem = error,
            Err(_) => problem = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(problem)
}

async fn over_datagrams(server: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = match server.is_ipv4() {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(bytes).await?;
    let mut answer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut answer).await?;
        // Only whoever was asked can send here, but an old answer may still come.
        if answer.get(..2) == bytes.get(..2) && length >= 12 {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn over_stream(server: SocketAddr, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    send(&mut stream, bytes).await?;
    receive(&mut stream).await
}

async fn send(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(bytes);
    stream.write_all(&framed).await
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Answers datagrams. `only_elsewhere`: no name of the cluster is known here.
pub(super) fn serve_datagrams(
    names: Arc<Names>,
    socket: UdpSocket,
    only_elsewhere: bool,
) -> AbortHandle {
    let serving = async move {
        let socket = Arc::new(socket);
        let mut bytes = vec![0; 4096];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut bytes).await else { continue };
            let asked = bytes.get(..length).unwrap_or_default();
            let Some(question) = message::read(asked) else {
                if let Some(answer) = message::malformed(asked) {
                    let _ = socket.send_to(&answer, from).await;
                }
                continue;
            };
            let found = names.known(&question, only_elsewhere);
            if let Found::Records(..) = found {
                let answer = names.answer(asked, &question, found, false).await;
                let _ = socket.send_to(&answer, from).await;
                continue;
            }
            let Ok(place) = Arc::clone(&names.pending).try_acquire_owned() else { continue };
            let (names, socket, asked) = (Arc::clone(&names), Arc::clone(&socket), asked.to_vec());
            tokio::spawn(async move {
                let answer = names.answer(&asked, &question, found, false).await;
                let _ = socket.send_to(&answer, from).await;
                drop(place);
            });
        }
    };
    tokio::spawn(serving).abort_handle()
}

/// Answers over connections.
pub(super) fn serve_streams(
    names: Arc<Names>,
    listener: TcpListener,
    only_elsewhere: bool,
) -> AbortHandle {
    let serving = async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&names.connections).try_acquire_owned() else { continue };
            let names = Arc::clone(&names);
            tokio::spawn(async move {
                while let Ok(Ok(bytes)) =
                    tokio::time::timeout(SILENT_MAX, receive(&mut stream)).await
                {
                    let Some(question) = message::read(&bytes) else { break };
                    let found = names.known(&question, only_elsewhere);
                    let answer = names.answer(&bytes, &question, found, true).await;
                    if send(&mut stream, &answer).await.is_err() {
                        break;
                    }
                }
                drop(place);
            });
        }
    };
    tokio::spawn(serving).abort_handle()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use super::*;

    #[test]
    fn n23_the_machines_servers_are_read_from_its_file() {
        let text = "# mine\nsearch a b\nnameserver 127.0.0.53\nnameserver fd00::1 # six\nnameserver x\n\
            nameserver 192.0.2.1\nnameserver 192.0.2.2\n";
        let found: Vec<String> = servers_in(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["127.0.0.53:53", "[fd00::1]:53", "192.0.2.1:53"]);
        assert!(servers_in("").is_empty());
    }

    #[tokio::test]
    async fn n23_other_names_go_elsewhere_as_they_are_and_fail_in_time() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = server.local_addr().unwrap();
        let answering = tokio::spawn(async move {
            let mut bytes = [0; 512];
            let (length, from) = server.recv_from(&mut bytes).await.unwrap();
            // An old answer first, which nobody waits for.
            server.send_to(&[9; 20], from).await.unwrap();
            bytes[2] |= 0x80;
            server.send_to(&bytes[..length], from).await.unwrap();
        });
        let question = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'x', 0, 0, 1, 0, 1];
        let answer = pass_on(vec![at], &question, false).await.unwrap();
        assert_eq!((&answer[..2], answer[2], answer.len()), (&question[..2], 0x81, 19));
        answering.await.unwrap();
        assert!(pass_on(Vec::new(), &question, false).await.is_err());
    }
}
