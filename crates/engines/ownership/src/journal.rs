//! Why things happened: a bounded memory of causes, each pointing to the one before it.
//!
//! ```text
//!   write ──► write on its owner ──► … ──► a client's DELETE
//! ```

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tenure_core::Revision;

use crate::object::ObjectId;
use crate::rule::OwnershipRule;

/// How many causes are remembered.
const REMEMBERED: usize = 65_536;

/// The number of a cause; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CauseId(pub u64);

/// One step of a chain of causes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The rule that decided, or that a client did it.
    pub rule: OwnershipRule,
    /// The object it happened to.
    pub key: Arc<ObjectId>,
    /// The revision it was seen or decided at.
    pub revision: Revision,
    /// What led to it; zero for none.
    pub parent: CauseId,
}

/// The newest causes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CauseHistory {
    causes: VecDeque<Cause>,
    /// The number of the first cause that is still remembered, less one.
    forgotten: u64,
}

impl CauseHistory {
    pub(crate) fn note(&mut self, cause: Cause) -> CauseId {
        if self.causes.len() >= REMEMBERED {
            self.causes.pop_front();
            self.forgotten += 1;
        }
        self.causes.push_back(cause);
        CauseId(self.forgotten + self.causes.len() as u64)
    }

    pub(crate) fn get(&self, id: CauseId) -> Option<&Cause> {
        let at = id.0.checked_sub(self.forgotten + 1)?;
        self.causes.get(usize::try_from(at).ok()?)
    }

    /// The causes from one back to the first, as far as they are remembered.
    pub(crate) fn chain(&self, from: CauseId) -> Vec<Cause> {
        let mut chain = Vec::new();
        let mut at = from;
        while let Some(cause) = self.get(at) {
            chain.push(cause.clone());
            at = cause.parent;
        }
        chain
    }
}
