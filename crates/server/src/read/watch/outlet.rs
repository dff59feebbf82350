//! The way to the client of a watch, and how much may wait on it (R241).
//!
//! ```text
//!   change ──► room? ──► encoded ──► one or two wait ──► socket
//!                └── the client takes nothing, or its user holds too much elsewhere: the change waits,
//!                    and costs nothing while it does
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::authenticate::User;
use crate::body::{Body, Chunk, StreamingBody};
use crate::fair::{BudgetGuard, Shares};

/// A client that takes nothing for this long is left; it resumes from its last version.
const STALLED: Duration = Duration::from_secs(30);
/// How often a user who holds too much is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Outlet {
    sender: mpsc::Sender<Chunk>,
    shares: Arc<Shares>,
    user: Arc<User>,
}

/// Room for something that is not encoded yet.
pub(crate) struct SendPermit {
    place: mpsc::OwnedPermit<Chunk>,
    charge: Option<BudgetGuard>,
}

impl Outlet {
    /// The way, and the body at its end.
    pub(crate) fn new(shares: Arc<Shares>, user: Arc<User>) -> (Outlet, Body) {
        let (sender, body) = StreamingBody::channel();
        (Outlet { sender, shares, user }, body)
    }

    /// Room for about so many bytes; none if the client is gone, or takes nothing for long.
    pub(crate) async fn room(&self, bytes: usize) -> Option<SendPermit> {
        let room = async {
            let place = self.sender.clone().reserve_owned().await.ok()?;
            let charge = loop {
                match self.shares.bytes(&self.user, bytes as u64) {
                    Ok(charge) => break charge,
                    Err(_) => tokio::time::sleep(LOOK_EVERY).await,
                }
            };
            Some(SendPermit { place, charge })
        };
        tokio::time::timeout(STALLED, room).await.ok()?
    }

    /// Resolves when the client is gone.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }
}

impl SendPermit {
    pub(crate) fn send(self, bytes: Bytes) {
        self.place.send(Chunk { bytes, charge: self.charge });
    }
}
