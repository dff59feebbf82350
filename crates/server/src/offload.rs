//! Work that takes long, done aside so that others are answered meanwhile (dependencies R18).
//!
//! ```text
//!   check in haste ──► done, on the spot                     (nearly always)
//!        └─ gave up ──► line of the user ──► check with time, on a thread of its own
//!   long lists ──► a part at a time ──┘
//! ```
//!
//! Few threads do such work, users take turns, and few pieces wait; whoever finds the line full is told
//! to come again. The threads give way to those that answer requests. What is checked or made, and when
//! a check gives up, never lives here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use tenure_machinery::{Errors, Failure};
use tokio::sync::oneshot;

use crate::authenticate::User;
use crate::fair::{self, FairQueue, Flow, QueueLimits, too_many};

/// How much work may wait.
const ROOM: QueueLimits = QueueLimits { user: 16, owner: 24, all: 64 };
/// How long work may wait and run; a spent budget of rules takes half a second.
const DEADLINE: Duration = Duration::from_secs(15);
/// How far the threads step back behind those that answer requests.
const NICE: i32 = 5;

type OffloadTask = Box<dyn FnOnce() + Send>;

/// The threads for work that takes long.
pub(crate) struct OffloadPool {
    shared: Arc<OffloadState>,
    threads: usize,
    started: Once,
}

struct OffloadState {
    queue: Mutex<OffloadQueue>,
    ready: Condvar,
}

struct OffloadQueue {
    lines: FairQueue<OffloadTask>,
    ended: bool,
}

impl Default for OffloadPool {
    /// Half of the processors, so that the others are left to requests.
    fn default() -> OffloadPool {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        OffloadPool::new((processors / 2).max(1), ROOM)
    }
}

impl Drop for OffloadPool {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.ready.notify_all();
    }
}

impl OffloadPool {
    fn new(threads: usize, room: QueueLimits) -> OffloadPool {
        let queue = Mutex::new(OffloadQueue { lines: FairQueue::new(room), ended: false });
        let shared = Arc::new(OffloadState { queue, ready: Condvar::new() });
        OffloadPool { shared, threads, started: Once::new() }
    }

    /// Checks on the spot; if that would take long, checks again aside. Hands back what it checked.
    pub(crate) async fn check<T, F>(
        &self,
        user: &User,
        what: T,
        check: F,
    ) -> Result<(T, Errors), Failure>
    where
        T: Send + 'static,
        F: Fn(&T, &mut Errors) + Send + 'static,
    {
        let mut errors = Errors::in_haste();
        check(&what, &mut errors);
        if !errors.gave_up() {
            return Ok((what, errors));
        }
        let with_time = move || {
            let mut errors = Errors::new();
            check(&what, &mut errors);
            (what, errors)
        };
        Box::pin(self.run(user, with_time)).await
    }

    /// Does work on a thread that may be kept, in turn with the work of others.
    pub(crate) async fn run<T, W>(&self, user: &User, work: W) -> Result<T, Failure>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (work, made) = answering(work);
        let refused = self.shared.lock().lines.push(Flow::of(user), work).err();
        if let Some(refused) = refused {
            // This one, or the last of a longer line, which hears of it when it is dropped.
            drop(refused);
        }
        self.wake();
        // Whoever waits here works elsewhere.
        fair::rest();
        let late = |_| Failure::new(504, "Timeout", "the work took too long");
        match tokio::time::timeout(DEADLINE, made).await.map_err(late)? {
            Ok(OffloadOutcome::Done(made)) => Ok(made),
            Ok(OffloadOutcome::Failed) => Err(Failure::internal("a check was cut short")),
            Err(_) => Err(too_many("too many objects are waiting for their check")),
        }
    }

    /// As [`OffloadPool::run`], for work that has its bound elsewhere and no deadline.
    pub(crate) async fn go_on<T, W>(&self, user: &str, work: W) -> Option<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (work, made) = answering(work);
        self.shared.lock().lines.push_always(Flow::named(user), work);
        self.wake();
        match made.await {
            Ok(OffloadOutcome::Done(made)) => Some(made),
            _ => None,
        }
    }

    /// Work that nobody waits for.
    pub(crate) fn leave(&self, user: &str, work: impl FnOnce() + Send + 'static) {
        self.shared.lock().lines.push_always(Flow::named(user), Box::new(work));
        self.wake();
    }

    /// How much waits.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.lock().lines.len()
    }

    fn wake(&self) {
        self.started.call_once(|| {
            for _ in 0..self.threads {
                let shared = Arc::clone(&self.shared);
                let thread = thread::Builder::new().name("aside".to_owned());
                if let Err(error) = thread.spawn(move || shared.work()) {
                    tracing::error!(%error, "a thread for long work could not be started");
                }
            }
        });
        self.shared.ready.notify_one();
    }
}

impl OffloadState {
    fn lock(&self) -> MutexGuard<'_, OffloadQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the end.
    fn work(&self) {
        // Of this thread alone; where it is not allowed, the system shares as it likes.
        let _ = rustix::process::nice(NICE);
        while let Some(work) = self.next() {
            // Whoever waits is told by the line that breaks.
            let _ = catch_unwind(AssertUnwindSafe(work));
            // Those that answer requests may have waited for the processor meanwhile.
            thread::yield_now();
        }
    }

    fn next(&self) -> Option<OffloadTask> {
        let mut queue = self.lock();
        loop {
            if queue.ended {
                return None;
            }
            if let Some(work) = queue.lines.pop() {
                return Some(work);
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What came of work.
enum OffloadOutcome<T> {
    Done(T),
    Failed,
}

/// Tells the end of work, also when it ends by a panic.
struct CompletionSender<T>(Option<oneshot::Sender<OffloadOutcome<T>>>);

impl<T> CompletionSender<T> {
    fn tell(mut self, made: T) {
        if let Some(done) = self.0.take() {
            let _ = done.send(OffloadOutcome::Done(made));
        }
    }
}

impl<T> Drop for CompletionSender<T> {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            let _ = done.send(OffloadOutcome::Failed);
        }
    }
}

/// Work that tells its result, unless nobody waits for it any more when its turn comes.
fn answering<T, W>(work: W) -> (OffloadTask, oneshot::Receiver<OffloadOutcome<T>>)
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    let (done, made) = oneshot::channel();
    let work = move || {
        if done.is_closed() {
            return;
        }
        let ending = CompletionSender(Some(done));
        ending.tell(work());
    };
    (Box::new(work), made)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.

    use std::sync::Mutex;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    fn offload(threads: usize, places: usize) -> OffloadPool {
        OffloadPool::new(threads, QueueLimits { user: places, owner: places, all: places })
    }

    /// Gives up in haste.
    fn long(_: &(), errors: &mut Errors) {
        errors.give_up();
    }

    #[tokio::test]
    async fn r18_a_quick_check_stays_on_its_thread() {
        let offload = offload(0, 0);
        let here = thread::current().id();
        let quick = move |(): &(), _: &mut Errors| assert_eq!(thread::current().id(), here);
        assert!(offload.check(&User::anonymous(), (), quick).await.unwrap().1.is_empty());
    }

    #[tokio::test]
    async fn r18_a_long_check_is_made_again_elsewhere() {
        let here = thread::current().id();
        let check = move |(): &(), errors: &mut Errors| {
            assert_eq!(errors.is_hasty(), thread::current().id() == here);
            errors.required(&tenure_machinery::Path::Root.field("a"), "");
            errors.give_up();
        };
        let (_, errors) = offload(1, 1).check(&User::anonymous(), (), check).await.unwrap();
        assert!(!errors.gave_up());
        assert_eq!(errors.causes().len(), 1);
    }

    #[tokio::test]
    async fn r18_a_full_line_is_refused() {
        let (offload, user) = (offload(1, 1), User::anonymous());
        let (release, held) = mpsc::channel::<()>();
        let (begin, begun) = oneshot::channel();
        let held = Mutex::new((held, Some(begin)));
        let holding = offload.check(&user, (), move |(), errors| {
            errors.give_up();
            if !errors.is_hasty() {
                let mut held = held.lock().unwrap();
                held.1.take().unwrap().send(()).unwrap();
                held.0.recv().unwrap();
            }
        });
        let others = async {
            begun.await.unwrap();
            let third = async {
                let refused = offload.check(&user, (), long).await.err().unwrap();
                release.send(()).unwrap();
                refused
            };
            tokio::join!(offload.check(&user, (), long), third)
        };
        let (first, (second, refused)) = tokio::join!(holding, others);
        assert!(second.is_ok());
        assert!(first.is_ok());
        assert_eq!((refused.code, &*refused.reason), (429, "TooManyRequests"));
        assert!(offload.check(&user, (), long).await.is_ok());
    }

    #[tokio::test]
    async fn r18_a_check_that_is_cut_short_is_no_success() {
        let check = |(): &(), errors: &mut Errors| {
            assert!(errors.is_hasty(), "as a fault in a rule would");
            errors.give_up();
        };
        let offload = offload(1, 1);
        assert_eq!(offload.check(&User::anonymous(), (), check).await.err().unwrap().code, 500);
        assert!(
            offload.check(&User::anonymous(), (), long).await.is_ok(),
            "its place is free again"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn r18_a_check_that_gets_no_turn_fails_at_its_deadline() {
        assert_eq!(
            offload(0, 1).check(&User::anonymous(), (), long).await.err().unwrap().code,
            504
        );
    }
}
