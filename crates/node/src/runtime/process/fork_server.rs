//! How shims are begun: one small process forks them all, and makes one that does nothing to find out
//! which walls this node can give.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use super::link::ShimClient;
use super::wire::{self, Process, ShimRequest, ShimResponse};
use super::{ARGUMENT, ProcessRuntime, seccomp};
use crate::runtime::RuntimeError;

impl ProcessRuntime {
    /// Makes a container that does nothing; says which wall cannot be built. Without walls there is
    /// nothing to try. Where it is the network that cannot be had, pods use the machine's (N10).
    pub(super) async fn try_walls(&self) -> Result<Option<String>, RuntimeError> {
        if self.settings.plain {
            return Ok(None);
        }
        if let Err(why) = seccomp::supported() {
            return Ok(Some(why));
        }
        let networked = match self.trial_network().await {
            Ok(None) => None,
            Ok(Some(given)) => {
                let tried = self.try_container(&given).await?;
                self.end_trial().await;
                if tried.is_none() {
                    return Ok(None);
                }
                tried
            }
            Err(why) => Some(why),
        };
        let without = self.try_container(&[]).await?;
        if without.is_none()
            && let Some(why) = networked
        {
            self.do_without_network(why).await;
        }
        Ok(without)
    }

    async fn try_container(&self, given: &[OwnedFd]) -> Result<Option<String>, RuntimeError> {
        let folder = self.settings.state.join(".trial");
        let order = self.trial_order(folder.clone(), !given.is_empty());
        let tried = self.make(&folder, order, given, "trial").await;
        let _ = std::fs::remove_dir_all(&folder);
        match tried {
            Ok(_) => Ok(None),
            Err(RuntimeError::Failed(why)) => Ok(Some(why)),
            Err(other) => Err(other),
        }
    }

    /// Starts a shim and has it make a container.
    pub(super) async fn make(
        &self,
        folder: &std::path::Path,
        order: wire::LaunchSpec,
        given: &[OwnedFd],
        title: &str,
    ) -> Result<(ShimClient, Process), RuntimeError> {
        let failed = |error: std::io::Error| {
            RuntimeError::Failed(format!("start a container's shim: {error}"))
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let order = ShimRequest::Make(Box::new(order));
        // A nurse that was killed since the last time is found out by asking it.
        for _ in 0..2 {
            let link = ShimClient::new(self.begin(title).await.map_err(failed)?).map_err(failed)?;
            if link.ask_with(&order, given).await.is_ok() {
                match link.hear().await {
                    Ok(Some(ShimResponse::Made(init))) => return Ok((link, init)),
                    Ok(Some(ShimResponse::Failed { message, .. })) => {
                        return Err(RuntimeError::Failed(message));
                    }
                    _ => {}
                }
            }
            *self.nurse.lock().await = None;
        }
        let program = self.program().map_err(failed)?;
        Err(RuntimeError::Failed(format!("{} does not hold containers", program.display())))
    }

    /// A socket with a new shim at its other end.
    pub(super) async fn begin(&self, title: &str) -> std::io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let ask = ShimRequest::Begin { title: title.to_owned() };
        let mut nurse = self.nurse.lock().await;
        if let Some(socket) = &*nurse
            && wire::send(socket, &ask, &[theirs.as_fd()]).is_ok()
        {
            return Ok(ours);
        }
        let socket = self.start_fork_server()?;
        wire::send(&socket, &ask, &[theirs.as_fd()])?;
        *nurse = Some(socket);
        Ok(ours)
    }

    fn program(&self) -> std::io::Result<PathBuf> {
        match &self.settings.program {
            Some(program) => Ok(program.clone()),
            None => std::env::current_exe(),
        }
    }

    fn start_fork_server(&self) -> std::io::Result<UnixStream> {
        let program = self.program()?;
        let (ours, theirs) = UnixStream::pair()?;
        let mut child = tokio::process::Command::new(&program)
            .arg(ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .map_err(|error| std::io::Error::other(format!("{}: {error}", program.display())))?;
        // Its end is seen on the socket; here it is only reaped.
        tokio::spawn(async move {
            let _ = child.wait().await;
        });
        Ok(ours)
    }
}
