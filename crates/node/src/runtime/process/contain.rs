//! A container from its making to its end, and the commands that run beside it. What the agent asks
//! for in which order is its own affair.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::link::ShimClient;
use super::network::Place;
use super::registry::ProcessContainer;
use super::state::{self, ContainerRecord, SandboxRecord};
use super::wire::{self, Exited, ShimRequest, ShimResponse, StreamOptions};
use super::{ProcessRuntime, entries, listening, session, signal};
use crate::clock;
use crate::runtime::{ContainerState, Duplex, Ran, RuntimeError};

/// What a probe or a hook may say.
const OUTPUT_MAX: u64 = 16 << 10;

impl ProcessRuntime {
    /// The process that holds the process namespace of a whole pod.
    pub(super) async fn start_pause(&self, sandbox: &SandboxRecord) -> Result<(), RuntimeError> {
        let id = state::fresh_id().map_err(|error| RuntimeError::Failed(error.to_string()))?;
        let record = ContainerRecord {
            id: id.clone(),
            sandbox: sandbox.id.clone(),
            name: "pause".to_owned(),
            attempt: 0,
            image: "host".to_owned(),
            image_id: "host".to_owned(),
            stop_signal: None,
            tty: false,
            stdin: false,
            pause: true,
            own_users: !self.abilities.single,
        };
        let order = self.pause_order(sandbox, self.keep.place(&sandbox.id, &id));
        self.make_container(record, order).await?;
        self.start_container(&id).await
    }

    pub(super) async fn make_container(
        &self,
        record: ContainerRecord,
        order: wire::LaunchSpec,
    ) -> Result<String, RuntimeError> {
        let folder = order.folder.clone();
        let id = record.id.clone();
        let title = format!("shim {}", record.name);
        std::fs::create_dir_all(&folder)
            .and_then(|()| state::save(&folder.join("container.json"), &record))
            .map_err(|error| RuntimeError::Failed(format!("{}: {error}", folder.display())))?;
        let made = match self.keep.sandbox_record(&record.sandbox) {
            Ok(sandbox) => match self.namespaces_of(&sandbox).await {
                Ok(given) => self.make(&folder, order, &given, &title).await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match made {
            Ok((link, init)) => {
                self.keep.add(ProcessContainer::made(record, folder, link, init));
                Ok(id)
            }
            Err(error) => {
                let _ = std::fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    pub(super) async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let link = self.keep.link(id)?;
        let failed = |error: std::io::Error| RuntimeError::Failed(format!("start: {error}"));
        link.ask(&ShimRequest::Go).await.map_err(failed)?;
        match link.hear().await.map_err(failed)? {
            Some(ShimResponse::Running(running)) => {
                self.keep.runs(id, &running);
                self.keep.follow(id, link);
                Ok(())
            }
            Some(ShimResponse::Failed { command, message }) => {
                let now = clock::timestamp();
                let exited = Exited {
                    started: now,
                    finished: now,
                    code: 128,
                    reason: "StartError".to_owned(),
                    message: message.clone(),
                };
                self.keep.ended(id, exited, true);
                if command && let Ok((record, _)) = self.keep.look(id) {
                    // The next start looks whether its image is still whole.
                    entries::doubt(std::path::Path::new(&record.image_id));
                }
                Err(if command {
                    RuntimeError::CannotRun(message)
                } else {
                    RuntimeError::Failed(message)
                })
            }
            _ => {
                self.keep.lost(id);
                Err(RuntimeError::Failed("the container's shim is gone".to_owned()))
            }
        }
    }

    pub(super) async fn stop_container(
        &self,
        id: &str,
        name: Option<&str>,
        grace: Duration,
    ) -> Result<(), RuntimeError> {
        let Some(mut states) = self.keep.states(id) else { return Ok(()) };
        let ended = |state: &ContainerState| matches!(state, ContainerState::Exited { .. });
        if ended(&states.borrow()) {
            return Ok(());
        }
        if *states.borrow() == ContainerState::Created {
            // Its shim ends with the link.
            self.keep.never_ran(id);
            return Ok(());
        }
        let wanted = name.map(str::to_owned).or_else(|| self.keep.stop_signal(id));
        let wanted = wanted.as_deref().and_then(signal::number).unwrap_or(15);
        if !grace.is_zero() {
            self.keep.signal(id, wanted).await;
            let waited = tokio::time::timeout(grace, states.wait_for(ended)).await;
            if waited.is_ok() {
                return Ok(());
            }
        }
        self.keep.signal(id, 9).await;
        for patience in [Duration::from_secs(3), Duration::from_secs(7)] {
            if tokio::time::timeout(patience, states.wait_for(ended)).await.is_ok() {
                return Ok(());
            }
            // A shim that does not answer goes with what it holds.
            self.keep.kill(id);
        }
        Err(RuntimeError::Failed(format!("container {id:.12} does not end")))
    }

    pub(super) fn session_link(&self, container: &str) -> Result<ShimClient, RuntimeError> {
        let (record, state) = self.keep.look(container)?;
        if !matches!(state, ContainerState::Running { .. }) {
            return Err(RuntimeError::Failed(format!("container {} is not running", record.name)));
        }
        let folder = self.keep.folder(container)?;
        ShimClient::connect(&folder).map_err(|error| RuntimeError::Away(error.to_string()))
    }

    /// A connection to a port on which a process of the pod listens, and to no other of the node (R148).
    pub(super) async fn connect_port(
        &self,
        sandbox: &str,
        port: u16,
    ) -> Result<Box<dyn Duplex>, RuntimeError> {
        let record = self.keep.sandbox_record(sandbox)?;
        let address = record.address;
        if record.holder.is_some() && !record.host_network {
            let gone = || RuntimeError::Failed("the network of the pod is gone".to_owned());
            let holder = self.network.holder().ok_or_else(gone)?;
            return self.connect_in_pod(&holder, &record, port).await;
        }
        let failed = |why: &dyn std::fmt::Display| {
            RuntimeError::Failed(format!("connect to port {port} of the pod: {why}"))
        };
        // On the node's network pods share its ports, as they share the machine's where there is no other.
        let holder = self.network.holder().filter(|_| record.holder.is_some());
        let network = holder.as_ref().map_or_else(
            || PathBuf::from(listening::MACHINE),
            |holder| PathBuf::from(format!("/proc/{}/net", holder.process().pid)),
        );
        let mut problem = None;
        // Who listens for all listens on the pod's address too; the others chose one of these.
        for host in [address, Ipv4Addr::LOCALHOST.into(), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            let shims = self.keep.shims_of(sandbox);
            let place = network.clone();
            let looking = tokio::task::spawn_blocking(move || {
                listening::sockets_of_pod(&place, &shims, host, port)
            });
            let looked = looking.await.map_err(|error| failed(&error))?;
            let Some(sockets) = looked.map_err(|error| failed(&error))? else { continue };
            let dialling = async {
                match &holder {
                    Some(holder) => holder.connect(Place::Node, (host, port).into()).await,
                    None => tokio::net::TcpStream::connect((host, port)).await,
                }
            };
            match dialling.await {
                Ok(stream) => {
                    // Somebody else may have begun to listen since; a pod that listens no more may have
                    // wanted this one connection.
                    let now = listening::sockets_at(&network, host, port);
                    let now = now.map_err(|error| failed(&error))?;
                    if now.is_subset(&sockets) {
                        return Ok(Box::new(stream));
                    }
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Err(match problem {
            Some(error) => failed(&error),
            None => failed(&"connection refused: no process of the pod listens on it"),
        })
    }

    pub(super) async fn run_command(
        &self,
        container: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<Ran, RuntimeError> {
        let link = self.session_link(container)?;
        let wanted = StreamOptions { stdout: true, joined: true, ..StreamOptions::default() };
        let ask = ShimRequest::Exec { command: command.to_vec(), wanted };
        let mut session = session::open(link, &ask, false).await?;
        let mut output = Vec::new();
        let mut rest = Vec::new();
        let work = async {
            if let Some(stdout) = &mut session.stdout {
                let mut first = stdout.take(OUTPUT_MAX);
                let _ = first.read_to_end(&mut output).await;
                // What is too much is read all the same, so that the command can end.
                let mut bytes = [0; 4096];
                while let Ok(1..) = stdout.read(&mut bytes).await {
                    rest.clear();
                    rest.push(0_u8);
                }
            }
            (&mut session.exit).await
        };
        match tokio::time::timeout(timeout, work).await {
            Ok(code) => Ok(Ran { code: code?, output, timed_out: false }),
            Err(_) => Ok(Ran { code: 0, output, timed_out: true }),
        }
    }
}
