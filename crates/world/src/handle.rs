//! A handle of the world: read, propose, watch, and the chores of the host.

use std::pin::Pin;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_core::Revision;
use tenure_store::{DEFAULT_VALUE_BYTES_MAX, Log, LogStats};
use tokio::sync::oneshot;

use crate::header::{PlainLayout, SelectableFields};
use crate::metrics::CommitMetrics;
use crate::past::{self, RevisionError};
use crate::proposal::{Committed, LockStep, Proposal, ProposalError, StagedWrite};
use crate::replay::{self, WorldOpenError};
use crate::sequencer::{QueuedProposal, Sequencer, SequencerCommand};
use crate::shared::PublishedState;
use crate::snapshot::World;
use crate::watch::{CompactedError, Interest, Watch};

/// How a world is opened.
pub struct WorldOptions {
    /// Which members of objects are selectable.
    pub layout: Arc<dyn SelectableFields>,
    /// Indexes that move with each commit.
    pub indexes: Vec<Box<dyn LockStep>>,
    /// How often a relaxed log is synced; `None` for a log that syncs on every append.
    pub sync_every: Option<Duration>,
    /// About how many bytes of records that are no longer current are kept for watches.
    pub history_bytes: u64,
    /// The largest object that is taken; not more than the log takes.
    pub value_bytes_max: usize,
    /// How many bytes the objects may have, what is kept beside them included; `None` for no bound.
    pub quota: Option<u64>,
    /// How many proposals may wait before further ones are refused as busy.
    pub queue: usize,
    /// Is told how many of the log's entries were read so far, and of how many.
    pub progress: Option<Box<dyn FnMut(u64, u64) + Send>>,
}

impl Default for WorldOptions {
    fn default() -> WorldOptions {
        WorldOptions {
            layout: Arc::new(PlainLayout),
            indexes: Vec::new(),
            sync_every: None,
            history_bytes: 64 << 20,
            value_bytes_max: DEFAULT_VALUE_BYTES_MAX,
            quota: None,
            queue: 4096,
            progress: None,
        }
    }
}

/// Whether writes are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteAvailability {
    /// All is well.
    Running,
    /// Writes are refused until the next start, for this reason; reads go on.
    Stopped(Arc<str>),
}

/// A chore of the host failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoreError {
    /// The log could not do it.
    #[error("{0}")]
    Failed(String),
    /// The world was stopped.
    #[error("the world was stopped")]
    Stopped,
}

/// A shared handle of one world; clones lead to the same one.
///
/// When the last clone is dropped the world stops by itself.
#[derive(Clone)]
pub struct WorldHandle {
    shared: Arc<PublishedState>,
    layout: Arc<dyn SelectableFields>,
    value_bytes_max: usize,
    quota: Option<u64>,
    queue: SyncSender<SequencerCommand>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// A proposal that was submitted: waits for what comes of it.
#[derive(Debug)]
pub struct Submission {
    answered: oneshot::Receiver<Result<Committed, ProposalError>>,
    world: WorldHandle,
}

impl Future for Submission {
    type Output = Result<Committed, ProposalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answered)
            .poll(context)
            .map(|answer| answer.unwrap_or_else(|_| Err(self.world.gone())))
    }
}

impl std::fmt::Debug for WorldHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Handle").field("revision", &self.current().revision()).finish()
    }
}

/// Replays a log and starts the world it leads to.
///
/// # Errors
/// The log cannot be read, holds something that is not an object, or a thread cannot be started.
pub fn open(mut log: Box<dyn Log>, options: WorldOptions) -> Result<WorldHandle, WorldOpenError> {
    let WorldOptions { layout, mut indexes, sync_every, history_bytes, value_bytes_max, .. } =
        options;
    let (quota, queue) = (options.quota, options.queue);
    let mut progress = options.progress.unwrap_or_else(|| Box::new(|_, _| {}));
    let (world, recorder) = replay::replay(&mut *log, &*layout, history_bytes, &mut *progress)?;
    for index in &mut indexes {
        index.start(&world);
    }
    let shared = Arc::new(PublishedState::new(world, recorder.shared()));
    let dispatching = shared.clone();
    let dispatcher = std::thread::Builder::new()
        .name("dispatcher".into())
        .spawn(move || {
            dispatching.guard("dispatcher", || dispatching.dispatch());
        })
        .map_err(WorldOpenError::Thread)?;
    let (sender, receiver): (_, Receiver<SequencerCommand>) = sync_channel(queue);
    let sequencer = Sequencer {
        log,
        recorder,
        indexes,
        shared: shared.clone(),
        dispatcher: dispatcher.thread().clone(),
        sync_every,
        quota,
        sync_due: None,
    };
    let sequencer = std::thread::Builder::new()
        .name("sequencer".into())
        .spawn(move || sequencer.run(receiver))
        .map_err(WorldOpenError::Thread)?;
    let threads = Arc::new(Mutex::new(vec![sequencer, dispatcher]));
    Ok(WorldHandle { shared, layout, value_bytes_max, quota, queue: sender, threads })
}

impl WorldHandle {
    /// Has the thread `sequencer` or `dispatcher` panic at its next turn, so that a test sees what becomes of it.
    #[doc(hidden)]
    pub fn plant_panic(&self, thread: &'static str) {
        let _ = self.shared.planted.set(thread);
    }

    /// The newest state; every write acknowledged before the call is in it.
    #[must_use]
    pub fn current(&self) -> Arc<World> {
        self.shared.world.load_full()
    }

    /// Asks for writes that happen together or not at all.
    ///
    /// The answer comes once they are as durable as the log promises and visible to everybody.
    ///
    /// # Errors
    /// A guard no longer holds, too many proposals wait, or writes have stopped.
    pub async fn propose(&self, proposal: Proposal) -> Result<Committed, ProposalError> {
        self.submit(proposal)?.await
    }

    /// As [`WorldHandle::propose`], but the proposal has its place in the order when this returns: one
    /// submitted later may rest on it.
    ///
    /// # Errors
    /// Too many proposals wait, or writes have stopped.
    pub fn submit(&self, proposal: Proposal) -> Result<Submission, ProposalError> {
        if let WriteAvailability::Stopped(reason) = self.status() {
            return Err(ProposalError::Stopped(reason));
        }
        let writes = StagedWrite::all(proposal.writes, &*self.layout, self.value_bytes_max)?;
        let (answer, answered) = oneshot::channel();
        let submitted = QueuedProposal { guards: proposal.guards, writes, answer };
        self.queue.try_send(SequencerCommand::Propose(Box::new(submitted))).map_err(|error| {
            match error {
                TrySendError::Full(_) => ProposalError::Busy,
                TrySendError::Disconnected(_) => self.gone(),
            }
        })?;
        Ok(Submission { answered, world: self.clone() })
    }

    /// The refusal of a world whose sequencer has ended.
    fn gone(&self) -> ProposalError {
        let reason = self.shared.stopped.get().cloned();
        ProposalError::Stopped(reason.unwrap_or_else(|| "the sequencer has ended".into()))
    }

    /// The exact state after a revision.
    ///
    /// # Errors
    /// The revision is compacted or yet to come.
    pub fn at(&self, revision: Revision) -> Result<Arc<World>, RevisionError> {
        past::at(&self.shared, revision)
    }

    /// Waits until a revision is reached; false when it was not within the given time.
    pub async fn wait_for(&self, revision: Revision, most: Duration) -> bool {
        if self.current().revision() >= revision {
            return true;
        }
        let mut advanced = self.shared.advanced.subscribe();
        let reached = advanced.wait_for(|newest| *newest >= revision);
        tokio::time::timeout(most, reached).await.is_ok_and(|reached| reached.is_ok())
    }

    /// Watches every change after a revision that concerns an interest.
    ///
    /// A revision yet to come is accepted: nothing is handed out until the log has passed it.
    ///
    /// # Errors
    /// The history after the revision is no longer complete.
    pub fn watch(&self, after: Revision, interest: Interest) -> Result<Watch, CompactedError> {
        Watch::start(self.shared.clone(), after, interest)
    }

    /// As [`WorldHandle::watch`], for a client that names the last revision it was told.
    ///
    /// Its stream may have been cut between two changes of that revision, and it cannot say so: if the revision
    /// changed several keys of the interest, they are handed out again first.
    ///
    /// # Errors
    /// As [`WorldHandle::watch`].
    pub fn resume(&self, after: Revision, interest: Interest) -> Result<Watch, CompactedError> {
        Watch::resume(self.shared.clone(), after, interest)
    }

    /// The oldest revision whose state is known and after which a watch may start.
    #[must_use]
    pub fn oldest(&self) -> Revision {
        self.shared.retained.load().oldest
    }

    /// Whether writes are taken.
    #[must_use]
    pub fn status(&self) -> WriteAvailability {
        match self.shared.stopped.get() {
            Some(reason) => WriteAvailability::Stopped(reason.clone()),
            None => WriteAvailability::Running,
        }
    }

    /// Waits until one of the world's threads panics, and says why; what was written is on the disk, and
    /// nothing more can be done than to start again.
    pub async fn broken(&self) -> Arc<str> {
        let mut broken = self.shared.broken.subscribe();
        match broken.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(Some(why)) => why,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// How many bytes the objects may have; `None` for no bound.
    #[must_use]
    pub fn quota(&self) -> Option<u64> {
        self.quota
    }

    /// How many watches there are.
    #[must_use]
    pub fn watches(&self) -> usize {
        self.shared.watchers.count()
    }

    /// What commits cost so far.
    #[must_use]
    pub fn commit_metrics(&self) -> &CommitMetrics {
        &self.shared.commits
    }

    /// Lets go of the history before a revision; the newest record of each key stays.
    ///
    /// # Errors
    /// The log could not do it, or the world was stopped.
    pub async fn compact(&self, upto: Revision) -> Result<(), ChoreError> {
        self.chore(|answer| SequencerCommand::Compact { upto, answer }).await
    }

    /// Brings everything written so far to the disk.
    ///
    /// # Errors
    /// The log could not do it, or the world was stopped.
    pub async fn sync(&self) -> Result<(), ChoreError> {
        self.chore(|answer| SequencerCommand::Sync { answer }).await
    }

    /// How large the log is.
    ///
    /// # Errors
    /// The world was stopped.
    pub async fn stats(&self) -> Result<LogStats, ChoreError> {
        self.chore(|answer| SequencerCommand::Stats { answer }).await
    }

    /// Finishes what waits, closes the log and ends every watch.
    ///
    /// # Errors
    /// The last sync failed, or the world was stopped already.
    pub async fn stop(&self) -> Result<(), ChoreError> {
        let result = self.chore(|answer| SequencerCommand::Stop { answer }).await;
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Both have nothing left to do but to return.
            let _ = thread.join();
        }
        result
    }

    /// Sends a chore, waiting for room in the queue, and waits for its end.
    async fn chore<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<Result<T, String>>) -> SequencerCommand,
    ) -> Result<T, ChoreError> {
        let (answer, answered) = oneshot::channel();
        let mut message = message(answer);
        loop {
            match self.queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return Err(ChoreError::Stopped),
                Err(TrySendError::Full(back)) => message = back,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        answered.await.map_err(|_| ChoreError::Stopped)?.map_err(ChoreError::Failed)
    }
}
