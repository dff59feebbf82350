//! The sequencer: one thread that owns the order of all writes.
//!
//! It takes everything that waits, checks guards, numbers, appends once and publishes.
//! It never parses an object, never wakes a watch and never decides what to write.
//!
//! ```text
//!   queue ──► batch ──► guards hold? ──► number ──► append (one fsync) ──► publish ──► answer
//!                          └ no: refused, with the record that is there now
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tenure_core::Revision;
use tenure_store::{AppendError, Commit, Log, LogStats};
use tokio::sync::oneshot;

use crate::clock;
use crate::history::{Change, HistoryWriter, Recent};
use crate::proposal::{Committed, LockStep, Precondition, ProposalError, StagedWrite};
use crate::quota;
use crate::record::Record;
use crate::shared::PublishedState;
use crate::snapshot::{RecordIndex, World};

/// The most proposals that share one append.
const BATCH_PROPOSALS: usize = 1024;

/// A batch takes no further proposal once it holds this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// A proposal on its way, with the line its answer goes back on.
#[derive(Debug)]
pub(crate) struct QueuedProposal {
    pub(crate) guards: Vec<Precondition>,
    pub(crate) writes: Vec<StagedWrite>,
    pub(crate) answer: oneshot::Sender<Result<Committed, ProposalError>>,
}

/// How a chore ended: nothing to say, or why it failed.
pub(crate) type Done = Result<(), String>;

/// What the sequencer is asked to do.
#[derive(Debug)]
pub(crate) enum SequencerCommand {
    Propose(Box<QueuedProposal>),
    Compact { upto: Revision, answer: oneshot::Sender<Done> },
    Sync { answer: oneshot::Sender<Done> },
    Stats { answer: oneshot::Sender<Result<LogStats, String>> },
    Stop { answer: oneshot::Sender<Done> },
}

/// The owner of the order.
pub(crate) struct Sequencer {
    pub(crate) log: Box<dyn Log>,
    pub(crate) recorder: HistoryWriter,
    pub(crate) indexes: Vec<Box<dyn LockStep>>,
    pub(crate) shared: Arc<PublishedState>,
    pub(crate) dispatcher: Thread,
    /// Bring written commits to the disk at least this often; `None` when the log always does.
    pub(crate) sync_every: Option<Duration>,
    /// How many bytes the objects may have; `None` for no bound.
    pub(crate) quota: Option<u64>,
    /// When the commits written since the last sync are due.
    pub(crate) sync_due: Option<Instant>,
}

/// Tells everybody that nothing more will be written, also when the thread ends by a panic.
struct ShutdownGuard {
    shared: Arc<PublishedState>,
    dispatcher: Thread,
}

impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        let _ = self.shared.stopped.set("the world was stopped".into());
        self.shared.ended.store(true, Ordering::SeqCst);
        self.dispatcher.unpark();
    }
}

/// The effect of one proposal on the state of its batch.
struct Numbered {
    commit: Option<Commit>,
    changes: Vec<Arc<Change>>,
    committed: Committed,
}

impl Sequencer {
    /// Runs until it is told to stop or nobody is left to tell it.
    pub(crate) fn run(self, queue: Receiver<SequencerCommand>) {
        let ending =
            ShutdownGuard { shared: self.shared.clone(), dispatcher: self.dispatcher.clone() };
        let shared = Arc::clone(&self.shared);
        // A panic ends all writes, and is told.
        let worked = shared.guard("sequencer", || self.work(&queue));
        let (answer, result) =
            worked.unwrap_or_else(|| (None, Err("the sequencer panicked".to_owned())));
        // What still waits is refused now, and the file is closed: only then the end is told.
        drop(queue);
        drop(ending);
        if let Some(answer) = answer {
            let _ = answer.send(result);
        }
    }

    /// Takes messages until the end, and closes the log.
    fn work(mut self, queue: &Receiver<SequencerCommand>) -> (Option<oneshot::Sender<Done>>, Done) {
        let answer = loop {
            let Some(message) = self.wait(queue) else { break None };
            let then = match message {
                SequencerCommand::Propose(first) => {
                    let (batch, then) = gather(first, queue);
                    self.commit(batch);
                    then
                }
                other => Some(other),
            };
            match then {
                Some(SequencerCommand::Stop { answer }) => break Some(answer),
                Some(chore) => self.chore(chore),
                None => {}
            }
        };
        (answer, self.log.sync().map_err(|error| error.to_string()))
    }

    /// Waits for a message, and syncs meanwhile when that is due; `None` when nobody is left.
    fn wait(&mut self, queue: &Receiver<SequencerCommand>) -> Option<SequencerCommand> {
        loop {
            let Some(due) = self.sync_due else { return queue.recv().ok() };
            let left = due.saturating_duration_since(clock::instant());
            if !left.is_zero() {
                match queue.recv_timeout(left) {
                    Ok(message) => return Some(message),
                    Err(RecvTimeoutError::Disconnected) => return None,
                    Err(RecvTimeoutError::Timeout) => {}
                }
            }
            let _ = self.sync();
        }
    }

    fn sync(&mut self) -> Done {
        self.sync_due = None;
        self.log.sync().map_err(|error| self.stop_writes(&error.to_string()))
    }

    /// What a failed append means for the batch, and for all writes after it.
    fn failed(&self, error: &AppendError) -> ProposalError {
        match error {
            AppendError::Order { .. } | AppendError::Key { .. } | AppendError::TooLarge { .. } => {
                ProposalError::Unwritten(error.to_string().into())
            }
            AppendError::Failed { .. } | AppendError::Stopped { .. } => {
                ProposalError::Stopped(self.stop_writes(&error.to_string()).into())
            }
        }
    }

    /// Refuses all writes from now on: what is on the disk is no longer known.
    fn stop_writes(&self, reason: &str) -> String {
        if self.shared.stopped.set(reason.into()).is_ok() {
            tracing::error!(reason, "writes have stopped until the next start");
        }
        reason.to_owned()
    }

    fn chore(&mut self, message: SequencerCommand) {
        match message {
            SequencerCommand::Compact { upto, answer } => {
                let _ = answer.send(self.compact(upto));
            }
            SequencerCommand::Sync { answer } => {
                let _ = answer.send(self.sync());
            }
            SequencerCommand::Stats { answer } => {
                let _ = answer.send(Ok(self.log.stats()));
            }
            SequencerCommand::Propose(_) | SequencerCommand::Stop { .. } => {}
        }
    }

    fn compact(&mut self, upto: Revision) -> Done {
        let upto = upto.min(self.shared.world.load().revision);
        if upto <= self.shared.retained.load().oldest {
            return Ok(());
        }
        self.log.compact(upto).map_err(|error| error.to_string())?;
        self.recorder.forget(upto);
        self.dispatcher.unpark();
        Ok(())
    }

    /// Commits a batch: every proposal whose guards hold, in order, with one append.
    fn commit(&mut self, batch: Vec<QueuedProposal>) {
        self.shared.panic_if_planted("sequencer");
        if let Some(reason) = self.shared.stopped.get() {
            let refused = ProposalError::Stopped(reason.clone());
            return refuse_all(batch.into_iter().map(|submitted| submitted.answer), &refused);
        }
        let current = self.shared.world.load_full();
        let mut objects = current.objects.clone();
        let mut revision = current.revision;
        let mut commits = Vec::with_capacity(batch.len());
        let mut changes = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        for QueuedProposal { guards, writes, answer } in batch {
            let recent = Recent { log: &self.recorder, batch: &changes };
            let outcome = hold(&guards, &objects, &recent)
                .and_then(|()| quota::check(&objects, &writes, self.quota))
                .map(|()| number(writes, &mut objects, revision));
            let outcome = outcome.map(|numbered| {
                revision = numbered.committed.revision;
                commits.extend(numbered.commit);
                changes.extend(numbered.changes);
                numbered.committed
            });
            answers.push((answer, outcome));
        }
        if !commits.is_empty() {
            let begin = clock::instant();
            let appended = self.log.append(&commits);
            let metrics = &self.shared.commits;
            metrics.duration.observe(begin.elapsed().as_secs_f64());
            metrics.batch.observe(commits.len() as f64);
            if let Err(error) = appended {
                let refused = self.failed(&error);
                // Even a broken guard may rest on a write of this batch that never happened.
                return refuse_all(answers.into_iter().map(|(answer, _)| answer), &refused);
            }
            self.publish(revision, objects, &changes);
            if let (Some(every), None) = (self.sync_every, self.sync_due) {
                self.sync_due = Some(clock::instant() + every);
            }
        }
        for (answer, outcome) in answers {
            let _ = answer.send(outcome);
        }
    }

    /// Makes a batch visible: changes first, then indexes, then the state that counts them.
    fn publish(&mut self, revision: Revision, objects: RecordIndex, changes: &[Arc<Change>]) {
        for change in changes {
            self.recorder.push(change.clone());
        }
        let world = World { revision, objects, end: self.recorder.end() };
        for index in &mut self.indexes {
            index.apply(&world, changes);
        }
        self.shared.world.store(Arc::new(world));
        self.dispatcher.unpark();
    }
}

/// Takes what else waits, up to the size of a batch; a chore ends the batch.
fn gather(
    first: Box<QueuedProposal>,
    queue: &Receiver<SequencerCommand>,
) -> (Vec<QueuedProposal>, Option<SequencerCommand>) {
    let size =
        |submitted: &QueuedProposal| submitted.writes.iter().map(StagedWrite::len).sum::<usize>();
    let mut bytes = size(&first);
    let mut batch = vec![*first];
    while batch.len() < BATCH_PROPOSALS && bytes < BATCH_BYTES {
        match queue.try_recv() {
            Ok(SequencerCommand::Propose(next)) => {
                bytes += size(&next);
                batch.push(*next);
            }
            Ok(chore) => return (batch, Some(chore)),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
        }
    }
    (batch, None)
}

/// Checks the guards of one proposal against the state of its batch.
fn hold(
    guards: &[Precondition],
    objects: &RecordIndex,
    recent: &Recent<'_>,
) -> Result<(), ProposalError> {
    for (index, guard) in guards.iter().enumerate() {
        guard.check(objects, recent).map_err(|current| ProposalError::Guard { index, current })?;
    }
    Ok(())
}

/// Carries one proposal out on the state of its batch.
fn number(writes: Vec<StagedWrite>, objects: &mut RecordIndex, revision: Revision) -> Numbered {
    let next = revision.next();
    let mut changes = Vec::with_capacity(writes.len());
    let mut lines = Vec::with_capacity(writes.len());
    let mut records = Vec::with_capacity(writes.len());
    for write in writes {
        let (key, before, after) = match write {
            StagedWrite::Put(prepared) => {
                let record = Arc::new(prepared.number(next));
                let key = record.key().clone();
                let before = objects.insert(key.clone(), record.clone());
                records.push(Some(record.clone()));
                (key, before, Some(record))
            }
            StagedWrite::Delete(key) => {
                let before = objects.remove(&key);
                records.push(before.clone());
                if before.is_none() {
                    continue;
                }
                (key, before, None)
            }
        };
        lines.push(line(&key, before.as_deref(), after.as_deref()));
        changes.push(Arc::new(Change::new(next, key, before, after)));
    }
    if changes.is_empty() {
        let committed = Committed { revision, records };
        return Numbered { commit: None, changes, committed };
    }
    let commit = Commit { revision: next, writes: lines };
    Numbered { commit: Some(commit), changes, committed: Committed { revision: next, records } }
}

/// One write as the log stores it.
fn line(key: &Arc<str>, before: Option<&Record>, after: Option<&Record>) -> tenure_store::KeyWrite {
    tenure_store::KeyWrite {
        key: key.clone(),
        value: after.map(|record| record.bytes().clone()),
        replaces: before.map(Record::revision),
    }
}

fn refuse_all(
    answers: impl Iterator<Item = oneshot::Sender<Result<Committed, ProposalError>>>,
    refused: &ProposalError,
) {
    for answer in answers {
        let _ = answer.send(Err(refused.clone()));
    }
}
