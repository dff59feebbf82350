//! What may be read at this moment because something refers to it: the authorizer after roles (R155).
//!
//! ```text
//!   feed ──► Index (one writer) ──► View (replaced whole) ──► may(user, asked)
//!                └─► revoked ──► open watches look again (R123)
//! ```
//!
//! Readers wait for nobody. Why something is allowed is asked of the index, which a writer may hold: then it is
//! said without the why.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use arc_swap::ArcSwap;
use tenure_rbac::Asked;
use tenure_reference::{Attributes, Index, Resource, Subject, View};
use tokio::sync::watch;

use super::expression::Cel;
use crate::authenticate::User;
use crate::clock::Chance;

/// Said when the reason cannot be looked up without waiting.
const REASON: &str = "reference: allowed";

/// Who consumes references to what.
pub(super) type Consumed = (Subject, Vec<Resource>);

/// The index and what readers see of it.
pub(crate) struct Standing {
    view: ArcSwap<View>,
    index: Mutex<Index>,
    consumed: ArcSwap<Vec<Consumed>>,
    revoked: watch::Sender<u64>,
}

impl Default for Standing {
    fn default() -> Standing {
        let index = Index::new(Chance::default().seed());
        let mut index = index.with_expressions(Arc::new(Cel::default()));
        Standing {
            view: ArcSwap::new(index.publish()),
            index: Mutex::new(index),
            consumed: ArcSwap::default(),
            revoked: watch::Sender::new(0),
        }
    }
}

impl Standing {
    /// Why a user may read what is asked for; `None` when no reference leads there.
    pub(crate) fn may(&self, user: &User, asked: &Asked<'_>) -> Option<String> {
        let asked = attributes(user, asked)?;
        if !self.view.load().decide(&asked).is_allowed() {
            return None;
        }
        let reason = match self.index.try_lock() {
            Ok(index) => index.reason(&asked),
            Err(TryLockError::Poisoned(index)) => index.into_inner().reason(&asked),
            Err(TryLockError::WouldBlock) => None,
        };
        Some(reason.unwrap_or_else(|| REASON.to_owned()))
    }

    /// What to tell somebody who was refused: the same for all targets of a type, whether they exist or not
    /// (R97, R131).
    pub(crate) fn hint(&self, user: &User, asked: &Asked<'_>) -> Option<&'static str> {
        let asked = attributes(user, asked)?;
        let consumed = self.consumed.load();
        let consumes = consumed.iter().any(|(subject, targets)| {
            subject.matches(asked.user, asked.groups)
                && targets.iter().any(|to| to.group == asked.group && to.resource == asked.resource)
        });
        consumes.then_some(if asked.is_eligible() {
            "no live reference for you leads there"
        } else {
            "references let you read one named object at a time"
        })
    }

    /// Every name in a namespace that references let a user read, by resource, sorted (R96).
    pub(crate) fn names(&self, user: &User, namespace: &str) -> Vec<(Resource, Vec<String>)> {
        let view = self.view.load();
        let mut found: std::collections::BTreeMap<Resource, Vec<String>> =
            std::collections::BTreeMap::new();
        for target in view.live_targets(&user.name, &user.groups) {
            if target.namespace == namespace || target.namespace.is_empty() {
                let resource = Resource::new(target.group, target.resource);
                found.entry(resource).or_default().push(target.name.to_owned());
            }
        }
        found.values_mut().for_each(|names| names.sort_unstable());
        found.into_iter().collect()
    }

    /// Tells when something may have been revoked.
    pub(crate) fn revocations(&self) -> watch::Receiver<u64> {
        self.revoked.subscribe()
    }

    /// The index, for the one who writes it.
    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets readers see the index as it is; open watches look again if something may be gone.
    pub(super) fn publish(&self, index: &mut Index, revokes: bool) {
        self.view.store(index.publish());
        if revokes {
            self.revoked.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    pub(super) fn set_consumed(&self, consumed: Vec<Consumed>) {
        self.consumed.store(Arc::new(consumed));
    }
}

fn attributes<'a>(user: &'a User, asked: &Asked<'a>) -> Option<Attributes<'a>> {
    let Asked::Resource { verb, group, resource, subresource, namespace, name } = *asked else {
        return None;
    };
    let (user, groups) = (user.name.as_str(), user.groups.as_slice());
    Some(Attributes { user, groups, verb, group, resource, subresource, namespace, name })
}
