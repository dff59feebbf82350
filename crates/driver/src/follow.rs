//! The one loop around everything that follows changes, and the contract of those inside it.
//!
//! ```text
//!   source ──► start, see ──► Follower ──► next ──► task ──► ended ──┐
//!   others ──► hear ────────────► ▲                                  │
//!                                 └──────────────────────────────────┘
//! ```
//!
//! The loop owns the watch and its restart, the pace, the clock, progress and health; a follower owns
//! its rule. The source is a world: this process's own, or one that mirrors another API server. A
//! follower that panics is started again from the state as it is, and readiness names it meanwhile.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures::future::select_all;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use tenure_core::Revision;
use tenure_world::{Change, Interest, Watch, WatchEnded, World, WorldHandle, WriteAvailability};
use tokio::sync::mpsc;

use crate::clock;
use crate::poll_throttle::PollThrottle;
use crate::progress::{FollowerProgress, Load, Position};
use crate::retry::wait_after;

/// So many failures in a row lead to the longest wait before a follower is started again, ten seconds.
const FAILURES_MOST: u32 = 12;
/// A follower that panicked counts as well again once it has run for this long.
const WELL_AFTER: Duration = Duration::from_secs(1);

/// Something that a follower wants done; it is polled on the follower's own thread.
pub type Task<E> = Pin<Box<dyn Future<Output = E>>>;

/// What a follower wants.
pub enum Want<E> {
    /// This; afterwards it is asked again at once.
    Task(Task<E>),
    /// Nothing before something happens or this time has come.
    Rest(Option<Instant>),
    /// To be started again from the state as it is.
    Restart,
}

/// Follows one source of changes and wants things done; the loop around it does the rest.
pub trait Follower {
    /// What comes of a task.
    type Ended;
    /// What others may say to it while it runs.
    type Message;

    /// What it is called in readiness, in metrics and in the log.
    fn name(&self) -> &'static str;

    /// Forgets everything and takes in a state; gives back which changes it wants to see from there on.
    ///
    /// Called at the beginning and whenever it has to begin anew: when it fell behind what is kept, asked
    /// for it, or panicked.
    fn start(&mut self, state: &World) -> Vec<Interest>;

    /// Takes in a change; `state` has it and perhaps more.
    fn see(&mut self, state: &World, change: &Change);

    /// Takes in what somebody says.
    fn hear(&mut self, message: Self::Message);

    /// What is wanted now; everything up to `seen` was handed to it. Asked until it rests.
    fn next(&mut self, now: Instant, seen: Revision) -> Want<Self::Ended>;

    /// Takes in what came of a task. All changes that were published before have been seen.
    fn ended(&mut self, ended: Self::Ended, now: Instant);

    /// How much it has to do.
    fn load(&self) -> Load;
}

/// Why following ended.
enum FollowExit {
    /// The source takes no more writes: nothing is left to follow.
    Stopped,
    /// What comes next is no longer kept.
    Behind,
    /// The follower asked for it.
    Restart,
}

/// Follows a source until it stops, whatever happens to the follower on the way.
pub async fn run<F: Follower>(
    source: &WorldHandle,
    mut follower: F,
    mut messages: mpsc::UnboundedReceiver<F::Message>,
    progress: FollowerProgress,
) {
    let name = follower.name();
    let mut failures = 0;
    loop {
        let following = follow(source, &mut follower, &mut messages, &progress);
        let following = AssertUnwindSafe(following).catch_unwind();
        tokio::pin!(following);
        let left = tokio::select! {
            left = &mut following => left,
            () = tokio::time::sleep(WELL_AFTER), if failures > 0 => {
                failures = 0;
                progress.recovered();
                following.await
            }
        };
        match left {
            Ok(FollowExit::Stopped) => return,
            Ok(FollowExit::Restart) => {}
            Ok(FollowExit::Behind) => {
                tracing::warn!(follower = name, "fell behind the log and begins anew");
            }
            Err(panic) => {
                failures = FAILURES_MOST.min(failures + 1);
                let why = tenure_supervise::message(&*panic);
                tracing::error!(follower = name, why, "a follower panicked and is started again");
                progress.failed(why);
                tokio::time::sleep(wait_after(failures)).await;
            }
        }
    }
}

/// Follows from the state as it is now, as far as changes are kept.
async fn follow<F: Follower>(
    source: &WorldHandle,
    follower: &mut F,
    messages: &mut mpsc::UnboundedReceiver<F::Message>,
    progress: &FollowerProgress,
) -> FollowExit {
    let state = source.current();
    let interests = follower.start(&state);
    let Ok(mut changes) = WatchCursors::after(source, state.revision(), interests) else {
        return FollowExit::Behind;
    };
    drop(state);
    let mut tasks = FuturesUnordered::new();
    let mut pace = PollThrottle::default();
    loop {
        if let Err(ended) = changes.take(source, follower) {
            return left(source, ended);
        }
        progress.fault();
        let seen = changes.delivered();
        let rest = loop {
            match follower.next(clock::instant(), seen) {
                Want::Task(task) => tasks.push(task),
                Want::Rest(until) => break until,
                Want::Restart => return FollowExit::Restart,
            }
        };
        let load = follower.load();
        progress.report(Position { seen, load });
        // Tasks that end at once must not keep other followers of this thread from their turn.
        tokio::task::coop::consume_budget().await;
        pace.looked(load.depth > 0);
        tokio::select! {
            ready = pace.ready(changes.ready()) => if let Err(ended) = ready {
                return left(source, ended);
            },
            Some(ended) = tasks.next(), if !tasks.is_empty() => {
                // Who decides anew has to know what the write before ran into.
                if let Err(ended) = changes.take(source, follower) {
                    return left(source, ended);
                }
                follower.ended(ended, clock::instant());
                // Those that ended together are known before anything is decided on them.
                while let Some(Some(ended)) = tasks.next().now_or_never() {
                    follower.ended(ended, clock::instant());
                }
            }
            Some(message) = messages.recv() => {
                follower.hear(message);
                while let Ok(message) = messages.try_recv() {
                    follower.hear(message);
                }
            }
            () = clock::sleep_until(rest), if rest.is_some() => {}
        }
    }
}

fn left(source: &WorldHandle, ended: WatchEnded) -> FollowExit {
    match ended {
        WatchEnded::Stopped => FollowExit::Stopped,
        WatchEnded::Compacted { .. } if source.status() != WriteAvailability::Running => {
            FollowExit::Stopped
        }
        WatchEnded::Compacted { .. } => FollowExit::Behind,
    }
}

/// Cursors over the changes of some interests; in order within each.
struct WatchCursors(Vec<Watch>);

impl WatchCursors {
    fn after(
        source: &WorldHandle,
        after: Revision,
        interests: Vec<Interest>,
    ) -> Result<WatchCursors, ()> {
        let watches = interests.into_iter().map(|interest| source.watch(after, interest));
        watches.collect::<Result<_, _>>().map(WatchCursors).map_err(|_| ())
    }

    /// Hands everything that is published to the follower.
    fn take<F: Follower>(
        &mut self,
        source: &WorldHandle,
        follower: &mut F,
    ) -> Result<(), WatchEnded> {
        for watch in &mut self.0 {
            let Some(mut change) = watch.try_next()? else { continue };
            let mut state = source.current();
            loop {
                follower.see(&state, &change);
                match watch.try_next()? {
                    Some(next) => change = next,
                    None => break,
                }
                // Published while the others were taken in.
                if change.revision > state.revision() {
                    state = source.current();
                }
            }
        }
        Ok(())
    }

    /// Everything up to here has been handed out.
    fn delivered(&mut self) -> Revision {
        self.0.iter_mut().map(Watch::delivered).min().unwrap_or(Revision::ZERO)
    }

    /// Waits until there is something to take.
    async fn ready(&mut self) -> Result<(), WatchEnded> {
        match self.0.as_mut_slice() {
            [] => std::future::pending().await,
            [only] => only.ready().await,
            many => select_all(many.iter_mut().map(|watch| Box::pin(watch.ready()))).await.0,
        }
    }
}
