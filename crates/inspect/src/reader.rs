//! Reads a cluster: discovery, then the metadata of everything that can be listed, side by side.
//! A kind that is forbidden or fails is named, never guessed about. Nothing is ever written.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use http::Request;
use http::header::ACCEPT;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::clock;
use crate::connect::ReadError;
use crate::facts::{ClusterSnapshot, ObservedObject, UnreadableKind};
use crate::meta::ObjectMetadata;
use crate::ownership_analysis::{OwnershipAnalysis, shared};
use crate::served::{DiscoveredKinds, DiscoveredResource, DiscoveryDocument, OldList};
use crate::status;
use crate::wire::or_default;

/// How many requests are under way at once.
const REQUESTS_AT_ONCE: usize = 16;
/// How many objects one answer holds.
const PAGE: usize = 500;
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

/// A client that only reads.
#[derive(Clone)]
pub struct ClusterReader {
    pub(crate) client: kube::Client,
    pub(crate) url: String,
    pub(crate) namespace: String,
}

#[derive(Deserialize)]
struct PartialObjectList {
    #[serde(default, deserialize_with = "or_default")]
    metadata: ListMeta,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<PartialObject>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[serde(default, deserialize_with = "or_default")]
    resource_version: String,
    #[serde(default, rename = "continue", deserialize_with = "or_default")]
    next: String,
}

#[derive(Deserialize)]
struct PartialObject {
    #[serde(default, deserialize_with = "or_default")]
    metadata: ObjectMetadata,
}

/// All objects of one kind, and the revision they were read at.
pub(crate) struct Listed {
    pub(crate) metas: Vec<ObjectMetadata>,
    pub(crate) revision: String,
    /// Why only one namespace was read; none when all were.
    pub(crate) narrowed: Option<String>,
}

/// What became of an object that somebody names.
pub enum ObjectPresence {
    /// It is there, under this uid.
    Found(String),
    /// The cluster says that it is not there.
    Absent,
    /// The cluster does not say: it refuses, or fails.
    Unknown(String),
}

impl ClusterReader {
    /// A reader with a client of the caller's.
    #[must_use]
    pub fn with(client: kube::Client, namespace: &str) -> ClusterReader {
        ClusterReader { client, url: "in this process".to_owned(), namespace: namespace.to_owned() }
    }

    /// The namespace that names without one mean.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What the cluster serves, for words that name a kind.
    ///
    /// # Errors
    /// The cluster does not answer, or says nothing about what it serves.
    pub async fn kinds(&self) -> Result<DiscoveredKinds, ReadError> {
        Ok(self.discover().await?.0)
    }

    /// Reads everything.
    ///
    /// # Errors
    /// The cluster does not answer at all, or says nothing about what it serves.
    pub async fn read(&self) -> Result<ClusterSnapshot, ReadError> {
        let (kinds, mut unread) = self.discover().await?;
        let listable: Vec<Arc<DiscoveredResource>> = listable(&kinds).map(shared).collect();
        let lists = futures::stream::iter(listable)
            .map(|served| {
                let reader = self.clone();
                async move {
                    let listed = reader.list(&served).await;
                    (served, listed)
                }
            })
            .buffered(REQUESTS_AT_ONCE);
        let lists: Vec<_> = lists.collect().await;
        let mut objects = Vec::new();
        for (served, listed) in lists {
            match listed {
                Ok(listed) => {
                    let kind = served.qualified();
                    unread.extend(
                        listed
                            .narrowed
                            .map(|why| UnreadableKind::but_within(kind, why, &self.namespace)),
                    );
                    objects.extend(found(&served, listed.metas));
                }
                Err(error) => unread.push(UnreadableKind::new(served.qualified(), said(&error))),
            }
        }
        let mut facts = ClusterSnapshot { kinds, objects, unread, now: clock::timestamp() };
        self.confirm(&mut facts).await;
        Ok(facts)
    }

    /// Asks for every owner that was not among what was read: lists are older than one another,
    /// and an owner is called absent only after a look under its name.
    pub(crate) async fn confirm(&self, facts: &mut ClusterSnapshot) {
        let answers = futures::stream::iter(facts.unseen_owners())
            .map(|(uid, served, namespace, name)| {
                let reader = self.clone();
                async move {
                    let path = served.path(&namespace, &name);
                    let answer = reader.get::<PartialObject>(&path, METADATA).await;
                    (uid, served, namespace, name, answer)
                }
            })
            .buffered(REQUESTS_AT_ONCE);
        let answers: Vec<_> = answers.collect().await;
        for (uid, served, namespace, name, answer) in answers {
            match answer {
                Ok(item) if item.metadata.uid == uid => {
                    facts.objects.extend(found(&served, vec![item.metadata]));
                }
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(_) => facts.assume(&uid, &served, &namespace, &name),
            }
        }
    }

    /// Looks for an object by its name. Only the cluster's own word makes it absent: who may not list a
    /// kind may still be allowed to read one object of it.
    pub async fn seek(
        &self,
        facts: &mut ClusterSnapshot,
        served: &DiscoveredResource,
        namespace: &str,
        name: &str,
    ) -> ObjectPresence {
        let known = facts.objects.iter().find(|found| {
            !found.assumed
                && found.meta.name == name
                && found.meta.namespace == namespace
                && found.served.group == served.group
                && found.served.plural == served.plural
        });
        if let Some(found) = known {
            return ObjectPresence::Found(found.meta.uid.clone());
        }
        match self.get::<PartialObject>(&served.path(namespace, name), METADATA).await {
            Ok(item) => {
                let uid = item.metadata.uid.clone();
                // Somebody may have named it as an owner, so that it was taken to be alive.
                facts.objects.retain(|found| found.meta.uid != uid);
                facts.objects.extend(found(&shared(served), vec![item.metadata.slim()]));
                self.confirm(facts).await;
                ObjectPresence::Found(uid)
            }
            Err(kube::Error::Api(status)) if status.code == 404 => ObjectPresence::Absent,
            Err(kube::Error::Api(status)) => ObjectPresence::Unknown(status.message.clone()),
            Err(error) => ObjectPresence::Unknown(said(&error)),
        }
    }

    /// What the cluster serves, and the groups that do not answer.
    pub(crate) async fn discover(
        &self,
    ) -> Result<(DiscoveredKinds, Vec<UnreadableKind>), ReadError> {
        let failed = |error| self.failed(error);
        let core: DiscoveryDocument = self.get("/api", DISCOVERY).await.map_err(failed)?;
        let named: DiscoveryDocument = self.get("/apis", DISCOVERY).await.map_err(failed)?;
        if core.items.is_empty() && named.items.is_empty() {
            return self.discover_one_by_one(named).await;
        }
        let (mut rows, mut stale) = core.rows();
        let (more, more_stale) = named.rows();
        rows.extend(more);
        stale.extend(more_stale);
        let why = "its server does not answer";
        let unread = stale.into_iter().map(|kind| UnreadableKind::new(kind, why));
        Ok((DiscoveredKinds::new(rows), unread.collect()))
    }

    /// Discovery of older servers: one document for each version.
    async fn discover_one_by_one(
        &self,
        named: DiscoveryDocument,
    ) -> Result<(DiscoveredKinds, Vec<UnreadableKind>), ReadError> {
        let mut versions = vec!["v1".to_owned()];
        for group in named.groups {
            versions.extend(group.versions.into_iter().map(|version| version.group_version));
        }
        let documents = futures::stream::iter(versions)
            .map(|version| {
                let reader = self.clone();
                async move {
                    let root = if version.contains('/') { "/apis" } else { "/api" };
                    let path = format!("{root}/{version}");
                    let list = reader.get::<OldList>(&path, "application/json").await;
                    (version, list)
                }
            })
            .buffered(REQUESTS_AT_ONCE);
        let documents: Vec<_> = documents.collect().await;
        let (mut rows, mut unread) = (Vec::new(), Vec::new());
        for (version, list) in documents {
            match list {
                Ok(list) => rows.extend(list.rows(&version)),
                Err(error) => unread.push(UnreadableKind::new(version, said(&error))),
            }
        }
        Ok((DiscoveredKinds::new(rows), unread))
    }

    /// The metadata of all objects of a kind; of those in one namespace where no more is allowed.
    pub(crate) async fn list(&self, served: &DiscoveredResource) -> Result<Listed, kube::Error> {
        self.pages_allowed(served, "", ObjectMetadata::slim).await
    }

    async fn pages_allowed(
        &self,
        served: &DiscoveredResource,
        fields: &str,
        keep: fn(ObjectMetadata) -> ObjectMetadata,
    ) -> Result<Listed, kube::Error> {
        match self.pages(served, "", fields, keep).await {
            Err(kube::Error::Api(status)) if status.code == 403 && served.namespaced => {
                let why = said(&kube::Error::Api(status));
                let listed = self.pages(served, &self.namespace, fields, keep).await?;
                Ok(Listed { narrowed: Some(why), ..listed })
            }
            listed => listed,
        }
    }

    /// The metadata of all objects of a kind in a namespace, with everything that it holds.
    pub(crate) async fn metas(
        &self,
        served: &DiscoveredResource,
        namespace: &str,
    ) -> Result<Vec<ObjectMetadata>, kube::Error> {
        Ok(self.pages(served, namespace, "", |meta| meta).await?.metas)
    }

    async fn pages(
        &self,
        served: &DiscoveredResource,
        namespace: &str,
        fields: &str,
        keep: fn(ObjectMetadata) -> ObjectMetadata,
    ) -> Result<Listed, kube::Error> {
        let path = served.path(namespace, "");
        let (mut metas, mut next, mut revision) = (Vec::new(), String::new(), String::new());
        let mut limit = format!("limit={PAGE}");
        loop {
            let query = format!("{fields}{limit}{next}");
            let page =
                self.get::<PartialObjectList>(&format!("{path}?{query}"), METADATA_LIST).await;
            let page = match page {
                // The rest of the pages is gone: once more, in one piece.
                Err(kube::Error::Api(status)) if status.code == 410 && !next.is_empty() => {
                    metas.clear();
                    next.clear();
                    limit.clear();
                    continue;
                }
                page => page?,
            };
            metas.extend(page.items.into_iter().map(|item| keep(item.metadata)));
            revision = if page.metadata.resource_version.is_empty() {
                revision
            } else {
                page.metadata.resource_version
            };
            if page.metadata.next.is_empty() {
                return Ok(Listed { metas, revision, narrowed: None });
            }
            next = format!("&continue={}", page.metadata.next);
        }
    }

    /// Learns which pods go at once when they are deleted, because they run nowhere or have finished;
    /// where that cannot be read, a plan gives every pod its grace period.
    pub async fn graces(&self, look: &mut OwnershipAnalysis) {
        let Some(pods) = look.facts().kinds.find("v1", "Pod").cloned() else { return };
        let fields =
            "fieldSelector=spec.nodeName!%3D,status.phase!%3DSucceeded,status.phase!%3DFailed&";
        let Ok(running) = self.pages_allowed(&pods, fields, ObjectMetadata::slim).await else {
            return;
        };
        let running: HashSet<String> = running.metas.into_iter().map(|meta| meta.uid).collect();
        let others = look.facts().objects.iter().filter(|found| {
            found.served.kind == "Pod" && !found.assumed && !running.contains(&found.meta.uid)
        });
        let at_once = others.map(|found| found.meta.uid.clone()).collect();
        look.set_at_once(at_once);
    }

    /// How the objects of a tree fare, in the words of their kinds.
    pub async fn statuses(&self, look: &mut OwnershipAnalysis, tree: &crate::Tree) {
        let mut places: BTreeMap<(String, String), Arc<DiscoveredResource>> = BTreeMap::new();
        for row in &tree.objects {
            if let Some(found) = look.get(&row.object.uid).filter(|found| !found.assumed) {
                let place = (found.served.qualified(), found.meta.namespace.clone());
                places.entry(place).or_insert_with(|| Arc::clone(&found.served));
            }
        }
        let tables = futures::stream::iter(places)
            .map(|((_, namespace), served)| {
                let reader = self.clone();
                async move {
                    let path = served.path(&namespace, "");
                    reader.get::<status::Table>(&path, TABLE).await
                }
            })
            .buffer_unordered(REQUESTS_AT_ONCE);
        let tables: Vec<_> = tables.collect().await;
        // A tree without statuses is still a tree.
        for (uid, status) in tables.into_iter().flatten().flat_map(status::Table::statuses) {
            look.set_status(uid, status);
        }
    }

    /// The changes of one kind from a revision on: `true` for each, `false` when the watch broke.
    pub(crate) async fn changes(
        &self,
        served: &DiscoveredResource,
        listed: &Listed,
    ) -> Result<impl futures::Stream<Item = bool> + use<>, kube::Error> {
        let (place, revision) = match listed.narrowed {
            Some(_) => (self.namespace.as_str(), &listed.revision),
            None => ("", &listed.revision),
        };
        let path = served.path(place, "");
        let request = request(&format!("{path}?watch=1&resourceVersion={revision}"), METADATA)?;
        let events = self.client.request_events::<serde::de::IgnoredAny>(request).await?;
        Ok(events.map(|event| !matches!(event, Err(_) | Ok(WatchEvent::Error(_)))))
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        accept: &str,
    ) -> Result<T, kube::Error> {
        let text = self.client.request_text(request(path, accept)?).await?;
        serde_json::from_str(&text).map_err(kube::Error::SerdeError)
    }
}

/// The kinds whose objects are read: all that can be listed, but events own nothing.
pub(crate) fn listable(kinds: &DiscoveredKinds) -> impl Iterator<Item = &DiscoveredResource> {
    kinds.preferred().filter(|served| served.can("list") && served.plural != "events")
}

pub(crate) fn found(
    served: &Arc<DiscoveredResource>,
    metas: Vec<ObjectMetadata>,
) -> impl Iterator<Item = ObservedObject> {
    let served = Arc::clone(served);
    let with_uid = metas.into_iter().filter(|meta| !meta.uid.is_empty());
    with_uid.map(move |meta| ObservedObject { served: Arc::clone(&served), meta, assumed: false })
}

fn request(path: &str, accept: &str) -> Result<Request<Vec<u8>>, kube::Error> {
    Request::get(path).header(ACCEPT, accept).body(Vec::new()).map_err(kube::Error::HttpError)
}

/// What an error says, in one line.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => "you may not list it".to_owned(),
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        error => {
            let mut deepest: &dyn std::error::Error = error;
            while let Some(below) = deepest.source() {
                deepest = below;
            }
            deepest.to_string()
        }
    }
}
