//! Checks that take long, made aside so that others are answered meanwhile (dependencies R18).
//!
//! ```text
//!   check in haste ──► done, on the spot                     (nearly always)
//!        └─ gave up ──► a place in line ──► check with time, on a thread that may be kept
//! ```
//!
//! Few checks run at a time and few wait; whoever finds the line full is told to come again. What is
//! checked, and when a check gives up, never lives here.

use std::sync::Arc;
use std::time::Duration;

use tenure_machinery::status::Details;
use tenure_machinery::{Errors, Failure};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// How many checks run at a time.
const RUNNING_MAX: usize = 2;
/// How many run or wait.
const PLACES: usize = 18;
/// How long a check may wait and run; a spent budget of rules takes half a second.
const DEADLINE: Duration = Duration::from_secs(15);

/// A place for checks that take long.
pub(crate) struct Aside {
    places: Semaphore,
    running: Arc<Semaphore>,
}

impl Default for Aside {
    fn default() -> Aside {
        Aside::new(RUNNING_MAX, PLACES)
    }
}

impl Aside {
    fn new(running: usize, places: usize) -> Aside {
        Aside { places: Semaphore::new(places), running: Arc::new(Semaphore::new(running)) }
    }

    /// Checks on the spot; if that would take long, checks again aside. Hands back what it checked.
    pub(crate) async fn check<T, F>(&self, what: T, check: F) -> Result<(T, Errors), Failure>
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
        Box::pin(self.run(with_time)).await
    }

    /// Does work on a thread that may be kept.
    pub(crate) async fn run<T, W>(&self, work: W) -> Result<T, Failure>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let _place = self.places.try_acquire().map_err(|_| busy())?;
        let done = async {
            let turn =
                Arc::clone(&self.running).acquire_owned().await.map_err(Failure::internal)?;
            // The thread keeps its turn, also when nobody waits for the answer any more.
            let work = move || {
                let made = work();
                drop(turn);
                made
            };
            spawn_blocking(work).await.map_err(|_| Failure::internal("a check was cut short"))
        };
        let late = |_| Failure::new(504, "Timeout", "the check of the object took too long");
        tokio::time::timeout(DEADLINE, done).await.map_err(late)?
    }
}

fn busy() -> Failure {
    let why = "too many objects are waiting for their check, please try again later";
    let details = Details { retry_after_seconds: 1, ..Details::default() };
    Failure::new(429, "TooManyRequests", why).with(details)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.

    use std::sync::Mutex;
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// Gives up in haste.
    fn long(_: &(), errors: &mut Errors) {
        errors.give_up();
    }

    #[tokio::test]
    async fn r18_a_quick_check_stays_on_its_thread() {
        let aside = Aside::new(0, 0);
        let here = thread::current().id();
        let quick = move |(): &(), _: &mut Errors| assert_eq!(thread::current().id(), here);
        assert!(aside.check((), quick).await.unwrap().1.is_empty());
    }

    #[tokio::test]
    async fn r18_a_long_check_is_made_again_elsewhere() {
        let here = thread::current().id();
        let check = move |(): &(), errors: &mut Errors| {
            assert_eq!(errors.is_hasty(), thread::current().id() == here);
            errors.required(&tenure_machinery::Path::Root.field("a"), "");
            errors.give_up();
        };
        let (_, errors) = Aside::new(1, 1).check((), check).await.unwrap();
        assert!(!errors.gave_up());
        assert_eq!(errors.causes().len(), 1);
    }

    #[tokio::test]
    async fn r18_a_full_line_is_refused() {
        let aside = Aside::new(1, 1);
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let holding = aside.check((), move |(), errors| {
            errors.give_up();
            if !errors.is_hasty() {
                held.lock().unwrap().recv().unwrap();
            }
        });
        let second = async {
            let refused = aside.check((), long).await.err().unwrap();
            release.send(()).unwrap();
            refused
        };
        let (first, refused) = tokio::join!(holding, second);
        assert!(first.is_ok());
        assert_eq!((refused.code, refused.reason), (429, "TooManyRequests"));
        assert!(aside.check((), long).await.is_ok());
    }

    #[tokio::test]
    async fn r18_a_check_that_is_cut_short_is_no_success() {
        let check = |(): &(), errors: &mut Errors| {
            assert!(errors.is_hasty(), "as a fault in a rule would");
            errors.give_up();
        };
        let aside = Aside::new(1, 1);
        assert_eq!(aside.check((), check).await.err().unwrap().code, 500);
        assert!(aside.check((), long).await.is_ok(), "its place is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn r18_a_check_that_gets_no_turn_fails_at_its_deadline() {
        assert_eq!(Aside::new(0, 1).check((), long).await.err().unwrap().code, 504);
    }
}
