//! Clearing the index, beside the commits, of what strategies found that are in force no longer (R174).
//!
//! Nobody waits for it: with the commit that took them out of force it has no effect any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use tenure_reference::{Index, Outputs};

use super::fill::{PAUSE, SLICE};
use crate::access::AuthorizerChain;
use crate::clock;

/// So many origins are cleared between two looks at the clock.
const AT_ONCE: usize = 8;

/// Starts to clear, if there is something to clear and nobody does already. Called by whoever has the index.
pub(super) fn start(access: &Arc<AuthorizerChain>, index: &Index) {
    let authorizer = access.reference_authorizer();
    if !index.has_to_clear() || authorizer.set_clearing(true) {
        return;
    }
    let weak = Arc::downgrade(access);
    let thread = std::thread::Builder::new().name("reference-clear".to_owned());
    if let Err(error) = thread.spawn(move || run(&weak)) {
        // It takes memory, and has no effect; the next change tries again.
        tracing::warn!(%error, "what strategies found stays until the next change");
        authorizer.set_clearing(false);
    }
}

fn run(access: &Weak<AuthorizerChain>) {
    let clearing = AssertUnwindSafe(|| {
        while let Some(access) = access.upgrade() {
            if !clear(&access) {
                return;
            }
            drop(access);
            clock::block_for(PAUSE);
        }
    });
    if let Err(panic) = catch_unwind(clearing) {
        let why = tenure_supervise::message(&*panic);
        tracing::error!(why, "clearing the index panicked; the next change tries again");
        if let Some(access) = access.upgrade() {
            access.reference_authorizer().set_clearing(false);
        }
    }
}

/// Clears for a short while; whether there is more.
fn clear(access: &Arc<AuthorizerChain>) -> bool {
    let authorizer = access.reference_authorizer();
    let mut index = authorizer.index_to_change();
    let (begin, mut out) = (clock::instant(), Outputs::default());
    let mut more = true;
    while more && begin.elapsed() < SLICE {
        more = index.clear_away(AT_ONCE, &mut out);
    }
    authorizer.feeds().stop(access, &out.needs);
    authorizer.publish(&mut index, authorizer.applied(), &out);
    if !more {
        authorizer.set_clearing(false);
    }
    more
}
