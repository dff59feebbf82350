//! Reads what may mention a ConfigMap or Secret: the subjects as rows, everything else whole, page by page. What was looked
//! through is let go at once, so that memory holds names and not clusters.

use std::sync::Arc;

use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;

use crate::clock;
use crate::connect::ReadError;
use crate::facts::UnreadableKind;
use crate::ownership_analysis::shared;
use crate::reader::{ClusterReader, listable, said};
use crate::served::{DiscoveredKinds, DiscoveredResource};
use crate::unused::{Inventory, UnusedReport};
use crate::usage::{PageUsage, SUBJECTS, SubjectNames, TablePage};
use crate::wire::or_default;

/// How many requests are under way at once.
const REQUESTS_AT_ONCE: usize = 8;
/// How many objects one answer holds.
const PAGE: usize = 500;
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1";
const JSON: &str = "application/json";

/// Kinds that mention nothing and change all the time.
const SILENT: [&str; 4] = ["events", "leases", "endpoints", "endpointslices"];

#[derive(Deserialize)]
struct ObjectPage {
    #[serde(default, deserialize_with = "or_default")]
    metadata: ContinueMetadata,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct ContinueMetadata {
    #[serde(default, rename = "continue", deserialize_with = "or_default")]
    next: String,
}

impl ClusterReader {
    /// Which ConfigMaps and Secrets nothing mentions, in this reader's namespace or everywhere. With `partial`, what
    /// could not be read is taken to mention nothing.
    ///
    /// # Errors
    /// The cluster does not answer, or ConfigMaps and Secrets cannot be read at all.
    pub async fn unused(&self, everywhere: bool, partial: bool) -> Result<UnusedReport, ReadError> {
        let (kinds, mut unread) = self.discover().await?;
        let namespace = if everywhere { "" } else { self.namespace() };
        let mut subjects = Vec::new();
        for (kind, plural) in SUBJECTS {
            let Some(served) = kinds.called(plural) else { continue };
            match self.subjects(served, namespace).await {
                Ok(pages) => {
                    subjects.extend(pages.into_iter().flat_map(|page| page.subjects(kind)))
                }
                Err(error) => unread.push(UnreadableKind::new(plural, said(&error))),
            }
        }
        let names = SubjectNames::new(&subjects);
        let seen = self.look_through(&kinds, namespace, &names, &mut unread).await;
        let inventory = Inventory {
            namespace: (!everywhere).then(|| namespace.to_owned()),
            seen,
            unread,
            partial,
            now: clock::timestamp(),
        };
        Ok(UnusedReport::new(subjects, inventory))
    }

    async fn subjects(
        &self,
        served: &DiscoveredResource,
        namespace: &str,
    ) -> Result<Vec<TablePage>, kube::Error> {
        let path = served.path(namespace, "");
        let (mut pages, mut next, mut limit) =
            (Vec::new(), String::new(), format!("?limit={PAGE}"));
        loop {
            let page = self.get::<TablePage>(&format!("{path}{limit}{next}"), TABLE).await;
            let page = match page {
                Err(error) if begins_anew(&error, &mut next, &mut limit) => {
                    pages.clear();
                    continue;
                }
                page => page?,
            };
            let more = page.metadata.next.clone();
            pages.push(page);
            if more.is_empty() {
                return Ok(pages);
            }
            next = format!("&continue={more}");
        }
    }

    /// Everything that is no subject.
    async fn look_through(
        &self,
        kinds: &DiscoveredKinds,
        namespace: &str,
        names: &SubjectNames,
        unread: &mut Vec<UnreadableKind>,
    ) -> Vec<PageUsage> {
        let subject = |served: &DiscoveredResource| {
            served.group.is_empty() && SUBJECTS.iter().any(|(_, plural)| served.plural == *plural)
        };
        let wanted = |served: &&DiscoveredResource| {
            !SILENT.contains(&served.plural.as_str()) && !subject(served)
        };
        let kinds: Vec<Arc<DiscoveredResource>> =
            listable(kinds).filter(wanted).map(shared).collect();
        let looks = futures::stream::iter(kinds)
            .map(|served| async move {
                // Built-in kinds mention what is in their own namespace; those of others may reach further.
                let own = !served.namespaced || namespace.is_empty();
                let place = if own || !is_custom(&served) { namespace } else { "" };
                let place = if served.namespaced { place } else { "" };
                let mut seen = self.look_at(&served, place, names).await;
                let mut narrowed = None;
                if let Err(error) = &seen
                    && place != namespace
                    && served.namespaced
                {
                    narrowed = Some(UnreadableKind::but_within(
                        served.qualified(),
                        said(error),
                        namespace,
                    ));
                    seen = self.look_at(&served, namespace, names).await;
                }
                (served, seen, narrowed)
            })
            .buffered(REQUESTS_AT_ONCE);
        let looks: Vec<_> = looks.collect().await;
        let mut all = Vec::with_capacity(looks.len());
        for (served, seen, narrowed) in looks {
            unread.extend(narrowed);
            match seen {
                Ok(seen) => all.push(seen),
                Err(error) => {
                    // Not even where one may usually look.
                    unread.retain(|known| known.kind != served.qualified());
                    unread.push(UnreadableKind::new(served.qualified(), said(&error)));
                }
            }
        }
        unread.sort();
        unread.dedup();
        all
    }

    async fn look_at(
        &self,
        served: &DiscoveredResource,
        namespace: &str,
        names: &SubjectNames,
    ) -> Result<PageUsage, kube::Error> {
        let path = served.path(namespace, "");
        let (mut seen, mut next, mut limit) =
            (PageUsage::default(), String::new(), format!("?limit={PAGE}"));
        loop {
            let page = self.get::<ObjectPage>(&format!("{path}{limit}{next}"), JSON).await;
            let page = match page {
                Err(error) if begins_anew(&error, &mut next, &mut limit) => {
                    seen = PageUsage::default();
                    continue;
                }
                page => page?,
            };
            for object in &page.items {
                names.see(served, object, &mut seen);
            }
            if page.metadata.next.is_empty() {
                return Ok(seen);
            }
            next = format!("&continue={}", page.metadata.next);
        }
    }
}

/// Whether the rest of the pages is gone, so that all is read once more in one piece.
fn begins_anew(error: &kube::Error, next: &mut String, limit: &mut String) -> bool {
    let gone = matches!(error, kube::Error::Api(status) if status.code == 410);
    if !gone || next.is_empty() {
        return false;
    }
    next.clear();
    limit.clear();
    true
}

/// Kinds of others have a group with a dot that is not one of the cluster's own.
fn is_custom(served: &DiscoveredResource) -> bool {
    !crate::usage::is_known(served)
}
