//! A bound on what users hold: so much each, so much in all, and always a little.
//!
//! Counts bytes of bodies that are on their way, or open watches. What is counted never lives here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fair_queue::Flow;

/// How much may be held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// By one user.
    pub(crate) user: u64,
    /// By all accounts of a namespace together.
    pub(crate) owner: u64,
    /// By all together.
    pub(crate) all: u64,
    /// What a user, or a namespace, may hold although all together hold too much.
    pub(crate) always: u64,
}

#[derive(Default)]
struct BudgetUsage {
    // INVARIANT: holds only users and namespaces that hold something.
    names: HashMap<Box<str>, u64>,
    all: u64,
}

impl BudgetUsage {
    fn of(&self, name: &str) -> u64 {
        self.names.get(name).copied().unwrap_or_default()
    }

    fn give_back(&mut self, name: &str, amount: u64) {
        if let Some(held) = self.names.get_mut(name) {
            *held = held.saturating_sub(amount);
            if *held == 0 {
                self.names.remove(name);
            }
        }
    }
}

/// What is held of one thing.
pub(crate) struct Budget {
    bounds: Bounds,
    held: Mutex<BudgetUsage>,
}

/// A part of a budget, until this is dropped.
pub(crate) struct BudgetGuard {
    budget: Arc<Budget>,
    user: Box<str>,
    amount: u64,
}

impl Budget {
    pub(crate) fn new(bounds: Bounds) -> Arc<Budget> {
        Arc::new(Budget { bounds, held: Mutex::default() })
    }

    /// Takes some for a user; none if that is too much.
    pub(crate) fn take(self: &Arc<Budget>, flow: Flow<'_>, amount: u64) -> Option<BudgetGuard> {
        let Bounds { user, owner, all, always } = self.bounds;
        let mut held = self.lock();
        let of_user = held.of(flow.user()).saturating_add(amount);
        let of_owner = held.of(flow.owner()).saturating_add(amount);
        let of_all = held.all.saturating_add(amount);
        if of_user > user || of_owner > owner || (of_all > all && of_owner > always) {
            return None;
        }
        held.all = of_all;
        held.names.insert(flow.user().into(), of_user);
        if flow.owner() != flow.user() {
            held.names.insert(flow.owner().into(), of_owner);
        }
        Some(BudgetGuard { budget: Arc::clone(self), user: flow.user().into(), amount })
    }

    /// How much is held in all, and by how many users and namespaces.
    pub(crate) fn load(&self) -> (u64, usize) {
        let held = self.lock();
        (held.all, held.names.len())
    }

    fn lock(&self) -> MutexGuard<'_, BudgetUsage> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        let flow = Flow::named(&self.user);
        let mut held = self.budget.lock();
        held.all = held.all.saturating_sub(self.amount);
        held.give_back(flow.user(), self.amount);
        if flow.owner() != flow.user() {
            held.give_back(flow.owner(), self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r241_a_user_holds_so_much_all_hold_so_much_and_everybody_a_little() {
        let budget = Budget::new(Bounds { user: 10, owner: 12, all: 15, always: 2 });
        let (m, n) =
            (budget.take(Flow::named("m"), 10).unwrap(), budget.take(Flow::named("n"), 5).unwrap());
        assert!(budget.take(Flow::named("m"), 1).is_none(), "of one user");
        assert!(budget.take(Flow::named("alice"), 3).is_none(), "in all");
        let alice = budget.take(Flow::named("alice"), 2).unwrap();
        assert!(budget.take(Flow::named("alice"), 1).is_none());
        assert_eq!(budget.load(), (17, 3));
        drop(m);
        assert_eq!(budget.load(), (7, 2));
        assert!(budget.take(Flow::named("m"), 8).is_some());
        drop((n, alice));
        assert_eq!(budget.load(), (0, 0), "nobody is remembered who holds nothing");
    }

    #[test]
    fn r241_accounts_of_a_namespace_hold_so_much_together() {
        let budget = Budget::new(Bounds { user: 10, owner: 12, all: 100, always: 2 });
        let web = budget.take(Flow::named("system:serviceaccount:shop:web"), 10).unwrap();
        assert!(budget.take(Flow::named("system:serviceaccount:shop:job"), 3).is_none());
        assert!(budget.take(Flow::named("system:serviceaccount:shop:job"), 2).is_some());
        drop(web);
        assert_eq!(budget.load(), (0, 0));
    }

    #[test]
    fn r241_amounts_that_overflow_are_refused() {
        let budget = Budget::new(Bounds { user: 10, owner: 12, all: 15, always: 2 });
        let _one = budget.take(Flow::named("m"), 1).unwrap();
        assert!(budget.take(Flow::named("m"), u64::MAX).is_none());
        assert_eq!(budget.load(), (1, 1));
    }
}
