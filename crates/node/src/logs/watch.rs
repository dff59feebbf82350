//! Tells whoever follows a log that its folder changed, at once (R124). One watcher serves all folders:
//! the system gives each user few of them.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Without a watcher, and in case it missed something, followers look this often.
const POLL_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Watches the folders of followed logs; clones are the same watcher.
#[derive(Clone)]
pub struct Watcher {
    shared: Option<Arc<LogWatchState>>,
}

struct LogWatchState {
    inotify: AsyncFd<OwnedFd>,
    folders: Mutex<BTreeMap<i32, WatchedFolder>>,
}

struct WatchedFolder {
    changed: Arc<Notify>,
    followers: usize,
}

/// Changes of one folder, for one follower.
pub struct FolderWatch {
    watched: Option<(Arc<LogWatchState>, i32, Arc<Notify>)>,
}

impl Watcher {
    /// Starts; where the system has no watcher left, followers look at their files now and then.
    #[must_use]
    pub fn start() -> Watcher {
        let shared = LogWatchState::new().map(Arc::new);
        if let Err(error) = &shared {
            tracing::warn!(
                %error, "logs cannot be watched; they are looked at every 100 ms"
            );
        }
        let shared = shared.ok();
        if let Some(shared) = &shared {
            tokio::spawn(tell(Arc::downgrade(shared)));
        }
        Watcher { shared }
    }

    /// Follows the changes of a folder from now on.
    #[must_use]
    pub fn follow(&self, folder: &Path) -> FolderWatch {
        let watched = self.shared.as_ref().and_then(|shared| {
            let mut folders = shared.lock();
            let flags = WatchFlags::MODIFY
                | WatchFlags::CREATE
                | WatchFlags::MOVED_TO
                | WatchFlags::MOVED_FROM
                | WatchFlags::DELETE_SELF;
            let id = inotify::add_watch(shared.inotify.get_ref(), folder, flags).ok()?;
            let known = folders
                .entry(id)
                .or_insert_with(|| WatchedFolder { changed: Arc::default(), followers: 0 });
            known.followers += 1;
            Some((Arc::clone(shared), id, Arc::clone(&known.changed)))
        });
        FolderWatch { watched }
    }
}

impl FolderWatch {
    /// Waits until something may have changed since `wait` was last polled, for a second at most.
    ///
    /// The future must be made, and enabled, before the file is looked at for the last time.
    pub fn notified(&self) -> Option<tokio::sync::futures::Notified<'_>> {
        self.watched.as_ref().map(|(_, _, changed)| changed.notified())
    }

    /// How long a follower waits at most before it looks again.
    #[must_use]
    pub fn patience(&self) -> Duration {
        if self.watched.is_some() { LOOK_EVERY } else { POLL_EVERY }
    }
}

impl Drop for FolderWatch {
    fn drop(&mut self) {
        let Some((shared, id, _)) = &self.watched else { return };
        let mut folders = shared.lock();
        if let Some(folder) = folders.get_mut(id) {
            folder.followers -= 1;
            if folder.followers == 0 {
                folders.remove(id);
                // It is gone already if its folder is.
                let _ = inotify::remove_watch(shared.inotify.get_ref(), *id);
            }
        }
    }
}

impl LogWatchState {
    #[expect(
        deprecated,
        reason = "an owned descriptor stays the same one; the other way is unsafe"
    )]
    fn new() -> io::Result<LogWatchState> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(LogWatchState { inotify: AsyncFd::new(inotify)?, folders: Mutex::default() })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, WatchedFolder>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the followers of every folder that changed.
    fn drain(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
        while let Ok(event) = events.next() {
            let folders = self.lock();
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                folders.values().for_each(|folder| folder.changed.notify_waiters());
            } else if let Some(folder) = folders.get(&event.wd()) {
                folder.changed.notify_waiters();
            }
        }
    }
}

async fn tell(shared: Weak<LogWatchState>) {
    while let Some(shared) = shared.upgrade() {
        // Looked at again now and then, so that the task ends with the last watcher.
        let ready = tokio::time::timeout(LOOK_EVERY, shared.inotify.readable()).await;
        if let Ok(Ok(mut ready)) = ready {
            shared.drain();
            ready.clear_ready();
        }
    }
}
