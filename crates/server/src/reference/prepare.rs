//! A strategy over many origins is told before it is stored (R174): the commit only puts it in force.
//!
//! ```text
//!   checked ──► told beside the commits, without effect ──► stored: in force, the old form out of it ──► watchers
//!                                                    └──► refused: given up
//! ```
//!
//! So the commit is short, what only the old form found is gone with it, what both find is never interrupted, and
//! nobody hears of a strategy before it is in force. Strategies are prepared one at a time.

use std::sync::Arc;
use std::time::Duration;

use tenure_machinery::Object;
use tenure_reference::{Need, Outputs, Strategy};
use tenure_world::World;
use tokio::sync::OwnedMutexGuard;

use super::feeds::Fed;
use super::fill::Ongoing;
use super::{active_version, clear, is_strategy};
use crate::access::AuthorizerChain;
use crate::api::ApiServer;
use crate::registry::{Registry, ServedKind};

/// How long origins are told before the strategy is stored; what is left then is told afterwards.
const PREPARE_MOST: Duration = Duration::from_secs(20);
/// How long a commit may take to be seen.
const COMMIT_MOST: Duration = Duration::from_secs(1);

/// A strategy that is ready to be stored; given up when this is dropped before that.
pub(crate) struct Preparation {
    access: Arc<AuthorizerChain>,
    ongoing: Option<Arc<Ongoing>>,
    _turn: OwnedMutexGuard<()>,
}

/// Makes ready what is to be stored, if it is a strategy over many origins.
pub(crate) async fn prepare(
    api: &ApiServer,
    served: &ServedKind,
    object: &Object,
) -> Option<Preparation> {
    if !is_strategy(&served.kind) {
        return None;
    }
    let strategy = Strategy::from_object(object).ok()?;
    let registry = api.kinds.current();
    let version = active_version(&registry, object)?;
    let fed = Fed::find(&registry, strategy.origin.clone(), version)?;
    if !fed.has_many(&api.world.current()) {
        return None;
    }
    let turn = api.access.reference_authorizer().turn().await;
    let mut preparation =
        Preparation { access: Arc::clone(&api.access), ongoing: None, _turn: turn };
    if let Some(ongoing) = preparation.begin(&registry, &strategy) {
        preparation.tell(api, &ongoing).await;
    }
    Some(preparation)
}

impl Preparation {
    /// From now on commits tell the strategy, too; what there is already is to be told.
    fn begin(&mut self, registry: &Registry, strategy: &Strategy) -> Option<Arc<Ongoing>> {
        let authorizer = self.access.reference_authorizer();
        let mut index = authorizer.index_to_change();
        let mut out = Outputs::default();
        index.prepare(strategy, &mut out);
        let fed = out.needs.into_iter().find_map(|need| match need {
            Need::Feed(resource, version) => Fed::find(registry, resource, version),
            Need::Stop(..) => None,
        })?;
        let ongoing = Ongoing::prepared(fed.clone());
        let mut feeds = authorizer.feeds();
        feeds.add(fed);
        feeds.begin(Arc::clone(&ongoing));
        self.ongoing = Some(Arc::clone(&ongoing));
        Some(ongoing)
    }

    async fn tell(&self, api: &ApiServer, ongoing: &Arc<Ongoing>) {
        // Commits that did not look at the new list of types yet must be in the state that is told.
        let reached = self.access.reference_authorizer().reached();
        if !api.world.wait_for(reached, COMMIT_MOST).await {
            return ongoing.cut(&self.access);
        }
        if ongoing.start(&self.access, World::clone(&api.world.current())) {
            let _ = tokio::time::timeout(PREPARE_MOST, ongoing.ended()).await;
        }
    }

    /// It is stored.
    pub(crate) fn stored(self) {
        let authorizer = self.access.reference_authorizer();
        if let Some(ongoing) = &self.ongoing {
            authorizer.teller().tell(authorizer.reached(), &mut ongoing.reports());
        }
    }
}

impl Drop for Preparation {
    fn drop(&mut self) {
        let authorizer = self.access.reference_authorizer();
        let mut index = authorizer.index_to_change();
        let mut out = Outputs::default();
        index.abandon(&mut out);
        if let Some(ongoing) = &self.ongoing {
            ongoing.cut(&self.access);
        }
        authorizer.feeds().stop(&self.access, &out.needs);
        clear::start(&self.access, &index);
    }
}
