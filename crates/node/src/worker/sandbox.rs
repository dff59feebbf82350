//! The sandbox of a pod: made, made again, remembered. What runs in it never comes here.

use std::net::IpAddr;
use std::sync::Arc;

use tenure_machinery::ObjectExt as _;

use crate::agent::AgentContext;
use crate::clock;
use crate::container;
use crate::events::Grade;
use crate::runtime::{RuntimeError, Sandbox};
use crate::worker::{AWAY_RETRY, HeldSandbox, Worker, WorkerMessage};

/// The longest name that a kernel lets a machine have.
const NAME_MAX: usize = 64;

/// The handler that a RuntimeClass names.
async fn handler_of(shared: &AgentContext, class: &str) -> Result<String, RuntimeError> {
    let found = shared.client.get(&format!("/apis/node.k8s.io/v1/runtimeclasses/{class}")).await;
    let found = found.map_err(|error| {
        RuntimeError::Failed(format!("RuntimeClass {class:?} cannot be read: {error}"))
    })?;
    Ok(found.str_at(&["handler"]).unwrap_or_default().to_owned())
}

impl Worker {
    pub(super) fn hold_sandbox(&mut self, sandbox: &Sandbox) {
        self.seen.sandbox = sandbox.ready;
        let network = self.pod.bool_at(&["spec", "hostNetwork"]) == Some(true);
        let own: Vec<String> = sandbox.addresses.iter().map(IpAddr::to_string).collect();
        self.seen.pod_addresses =
            if network || own.is_empty() { self.shared.addresses() } else { own };
        self.shared.remember(&sandbox.id, &self.key.uid);
        let known = self.sandbox.as_ref().map(|known| known.addresses.as_slice());
        if known.unwrap_or_default() != sandbox.addresses {
            self.files.addressed();
            self.seen.volumes &= !self.files.waits();
        }
        self.sandbox =
            Some(HeldSandbox { id: sandbox.id.clone(), addresses: sandbox.addresses.clone() });
    }

    pub(super) fn make_sandbox(&mut self) {
        if self.seen.sandbox_busy {
            return;
        }
        self.seen.sandbox_busy = true;
        if self.sandbox.is_some() {
            let message = "Pod sandbox changed, it will be killed and re-created.".to_owned();
            self.shared.events.tell(&self.subject, Grade::Normal, "SandboxChanged", message);
        }
        let logs = container::log_folder(&self.shared.logs, &self.key);
        let names = self.shared.name_servers();
        let mut config = container::sandbox(&self.pod, self.attempts, logs, names.as_ref());
        let class = self.pod.str_at(&["spec", "runtimeClassName"]).map(str::to_owned);
        self.attempts += 1;
        let old = self.sandbox.as_ref().map(|sandbox| sandbox.id.clone());
        let (shared, out) = (Arc::clone(&self.shared), self.out.clone());
        self.work.spawn(async move {
            if let Some(old) = old {
                // What is left of it goes with the pod if it cannot go now.
                let _ = shared.runtime.stop_sandbox(&old).await;
                let _ = shared.runtime.remove_sandbox(&old).await;
            }
            let handler = match class.filter(|class| !class.is_empty()) {
                Some(class) => handler_of(&shared, &class).await,
                None => Ok(String::new()),
            };
            let made = match (handler, std::fs::create_dir_all(&config.logs)) {
                _ if config.hostname.len() > NAME_MAX => Err(RuntimeError::Refused(format!(
                    "the name of the pod as a host, {:?}, is longer than {NAME_MAX} characters",
                    config.hostname
                ))),
                (Ok(handler), Ok(())) => {
                    config.handler = handler;
                    shared.runtime.run_sandbox(&config).await
                }
                (Err(error), _) => Err(error),
                (_, Err(error)) => Err(RuntimeError::Failed(error.to_string())),
            };
            let _ = out.send(WorkerMessage::SandboxMade(made));
        });
    }

    pub(super) fn sandbox_made(&mut self, made: Result<Sandbox, RuntimeError>) {
        self.seen.sandbox_busy = false;
        match made {
            Ok(sandbox) => {
                self.hold_sandbox(&sandbox);
                self.seen.sandbox_after = None;
            }
            Err(error) => {
                if !matches!(error, RuntimeError::Away(_)) {
                    let message = format!("Failed to create pod sandbox: {error}");
                    let reason = "FailedCreatePodSandBox";
                    self.shared.events.tell(&self.subject, Grade::Warning, reason, message);
                }
                self.seen.sandbox_after = Some(clock::timestamp() + AWAY_RETRY);
            }
        }
    }
}
