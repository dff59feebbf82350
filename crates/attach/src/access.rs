//! Referential authorization on a cluster that is already there, by Roles that are written (A20 to A24).
//!
//! ```text
//!   three kinds, origins ──► ConsumerReferences ──► plan: names in Roles ──► synthesis ──► server-side apply
//! ```

mod host;
mod plan;
mod roles;
mod synthesis;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinSet;

use crate::leader::Leadership;
use crate::status::{AccessStatus, ProcessStatus};
use crate::{AttachFeature, NAMESPACE, probe};

pub(crate) use synthesis::SynthesisCounts;

/// How synthesis runs.
#[derive(Clone, Debug)]
pub struct AccessSettings {
    /// What this replica is called among the others.
    pub identity: String,
    /// Where it answers `/livez`, `/readyz` and `/metrics`; nowhere without one.
    pub listen: Option<SocketAddr>,
}

/// Synthesis while it runs; it ends when this is dropped, and Roles stay as they are.
pub struct AccessAttachment {
    tasks: JoinSet<()>,
    status: Arc<AccessStatus>,
    leadership: Arc<Leadership>,
    address: Option<SocketAddr>,
}

impl AccessAttachment {
    /// Starts on the current runtime.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(
        client: kube::Client,
        settings: &AccessSettings,
    ) -> io::Result<AccessAttachment> {
        let status = Arc::new(AccessStatus::default());
        let mut tasks = JoinSet::new();
        let mut address = None;
        if let Some(wanted) = settings.listen {
            let listener = probe::listen(wanted).await?;
            address = Some(listener.local_addr()?);
            let shown: Arc<dyn ProcessStatus> = Arc::clone(&status) as _;
            tasks.spawn(probe::serve(listener, shown));
        }
        let lease = format!("tenure-{}", AttachFeature::Access.name());
        let leadership = Leadership::start(client.clone(), NAMESPACE, &lease, &settings.identity);
        let leadership = Arc::new(leadership);
        tasks.spawn(host::run(client, Arc::clone(&leadership), Arc::clone(&status)));
        Ok(AccessAttachment { tasks, status, leadership, address })
    }

    /// Where it answers.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What stands in the way of its work, a line each.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.status.unready()
    }

    /// Writes no more, and lets another replica begin at once.
    pub async fn leave(self) {
        self.leadership.leave().await;
    }

    /// Waits for an end that nobody asked for: a part of it panicked.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }
}
