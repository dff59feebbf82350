//! A cluster as it changes: every kind is read, watched and read again when it changed.
//!
//! ```text
//!   kind ──► list ──► watch ──► change ──► list …   one task each
//!                └────────────────┴──► facts
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clock;
use crate::connect::ReadError;
use crate::facts::{ClusterSnapshot, UnreadableKind};
use crate::meta::ObjectMetadata;
use crate::reader::{ClusterReader, found, listable, said};
use crate::served::{DiscoveredKinds, DiscoveredResource};

/// How long changes are gathered before a kind is read again.
const GATHER: Duration = Duration::from_millis(200);
/// How long a kind that cannot be read or watched is left alone.
const LEAVE_ALONE: Duration = Duration::from_secs(5);

/// What was read of a kind and why no more, or why nothing.
type KindListResult = Result<(Vec<ObjectMetadata>, Option<String>), String>;

/// A cluster that is being watched; dropping it ends the watches.
pub struct LiveCluster {
    reader: ClusterReader,
    kinds: DiscoveredKinds,
    groups_unread: Vec<UnreadableKind>,
    served: Vec<Arc<DiscoveredResource>>,
    lists: BTreeMap<usize, KindListResult>,
    news: mpsc::Receiver<(usize, KindListResult)>,
    // Held for its drop.
    _tasks: JoinSet<()>,
}

impl LiveCluster {
    /// Begins to watch everything.
    ///
    /// # Errors
    /// The cluster does not say what it serves.
    pub async fn start(reader: &ClusterReader) -> Result<LiveCluster, ReadError> {
        let (kinds, groups_unread) = reader.discover().await?;
        let served: Vec<Arc<DiscoveredResource>> =
            listable(&kinds).map(|served| Arc::new(served.clone())).collect();
        let (sender, news) = mpsc::channel(served.len().max(1));
        let mut tasks = JoinSet::new();
        for (index, served) in served.iter().enumerate() {
            tasks.spawn(follow(reader.clone(), Arc::clone(served), index, sender.clone()));
        }
        let (reader, lists) = (reader.clone(), BTreeMap::new());
        Ok(LiveCluster { reader, kinds, groups_unread, served, lists, news, _tasks: tasks })
    }

    /// Waits for a change and gives everything as it then is; the first time, everything at once.
    pub async fn next(&mut self) -> Option<ClusterSnapshot> {
        let (index, listed) = self.news.recv().await?;
        self.lists.insert(index, listed);
        while self.lists.len() < self.served.len() {
            let (index, listed) = self.news.recv().await?;
            self.lists.insert(index, listed);
        }
        // What happens together is shown together.
        tokio::time::sleep(GATHER).await;
        while let Ok((index, listed)) = self.news.try_recv() {
            self.lists.insert(index, listed);
        }
        Some(self.facts().await)
    }

    async fn facts(&self) -> ClusterSnapshot {
        let mut unread = self.groups_unread.clone();
        let mut objects = Vec::new();
        for (index, listed) in &self.lists {
            let Some(served) = self.served.get(*index) else { continue };
            match listed {
                Ok((metas, narrowed)) => {
                    let narrowed = narrowed.clone();
                    unread.extend(narrowed.map(|why| {
                        UnreadableKind::but_within(served.qualified(), why, self.reader.namespace())
                    }));
                    objects.extend(found(served, metas.clone()));
                }
                Err(why) => unread.push(UnreadableKind::new(served.qualified(), why.as_str())),
            }
        }
        let now = clock::timestamp();
        let mut facts = ClusterSnapshot { kinds: self.kinds.clone(), objects, unread, now };
        self.reader.confirm(&mut facts).await;
        facts
    }
}

/// Reads one kind again and again, each time it changed.
async fn follow(
    reader: ClusterReader,
    served: Arc<DiscoveredResource>,
    index: usize,
    news: mpsc::Sender<(usize, KindListResult)>,
) {
    loop {
        let mut listed = match reader.list(&served).await {
            Ok(listed) => listed,
            Err(error) => {
                if news.send((index, Err(said(&error)))).await.is_err() {
                    return;
                }
                tokio::time::sleep(LEAVE_ALONE).await;
                continue;
            }
        };
        let metas = std::mem::take(&mut listed.metas);
        if news.send((index, Ok((metas, listed.narrowed.clone())))).await.is_err() {
            return;
        }
        let changes = match served.can("watch") {
            true => reader.changes(&served, &listed).await.ok(),
            false => None,
        };
        let Some(changes) = changes else {
            tokio::time::sleep(LEAVE_ALONE).await;
            continue;
        };
        let mut changes = std::pin::pin!(changes);
        while let Some(true) = changes.next().await {
            tokio::time::sleep(GATHER).await;
            let Ok(listed) = reader.list(&served).await else { break };
            if news.send((index, Ok((listed.metas, listed.narrowed)))).await.is_err() {
                return;
            }
        }
    }
}
