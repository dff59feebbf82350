//! Watches: a cursor, a filter and a socket (R103–R113).

mod converted;
mod filtered;
pub(crate) mod outlet;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_kinds::retention::opted_in;
use tenure_machinery::{Failure, Object};
use tenure_world::{Change, Interest, Record, Watch, WatchEnded, WorldHandle};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::authenticate::User;
use crate::body::Body;
use crate::clock;
use crate::conversion::Conversions;
use crate::fair::Shares;
use crate::metrics::InFlightGuard;
use crate::negotiate::{MetaVersion, Representation};
use crate::permit::{Hold, Permit};
use crate::query::ListOptions;
use crate::read::list::expired;
use crate::registry::{ServedKind, ServedKinds};
use crate::response::{self, Columns, Include, ResponseObject};
use crate::select::SelectionPredicate;

use outlet::{Outlet, SendPermit};

/// Events that wait together travel together, up to about this many bytes.
const GATHER_BYTES: usize = 64 * 1024;
/// How often a watch that asked for bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// What one watch was asked to do.
pub(crate) struct WatchRequest {
    /// The kind.
    pub served: Arc<ServedKind>,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The one name to watch, from the path's old watch form; empty for all.
    pub only: String,
    /// Selectors and start.
    pub options: ListOptions,
    /// Plain objects, metadata or rows.
    pub shape: Representation,
    /// What rows carry.
    pub include: Include,
    /// Its life, if the client named none.
    pub lifetime: Duration,
    /// Counts events sent.
    pub events: Counter,
    /// Counts this watch while it is open.
    pub running: InFlightGuard,
    /// What must go on holding.
    pub permit: Permit,
    /// Who answers for what waits for the client.
    pub user: Arc<User>,
    /// Of which that is a part.
    pub shares: Arc<Shares>,
    /// Who brings objects into the version that is watched.
    pub conversions: Arc<Conversions>,
}

/// What there is to tell about one object.
struct WatchEvent {
    kind: &'static str,
    record: Arc<Record>,
    /// The end of an object that is gone.
    gone: Option<EndOfObject>,
}

/// When an object ended, and its last state as it was stored, which is written once for all watches.
struct EndOfObject {
    at: Revision,
    last_state: Option<Bytes>,
}

impl WatchEvent {
    fn bytes(&self) -> Bytes {
        match &self.gone {
            None => self.record.bytes().clone(),
            Some(EndOfObject { last_state: Some(stored), .. }) if !self.record.is_reshaped() => {
                stored.clone()
            }
            Some(gone) => self.record.with_revision(gone.at),
        }
    }
}

/// What a watch begins with.
struct WatchStart {
    /// What there is.
    initial: Vec<Arc<Record>>,
    /// What comes later follows.
    after: Revision,
    /// Whether the client named that revision: what it was told of it may be a part (R104).
    resumes: bool,
    /// What the client sees, if that is not everything.
    filtered_view: Option<filtered::FilteredView>,
}

/// Starts a watch and answers with its stream.
pub(crate) async fn start(
    world: &WorldHandle,
    kinds: &Arc<ServedKinds>,
    requested: WatchRequest,
    stop: watch::Receiver<bool>,
) -> Result<Response<Body>, Failure> {
    // Before anything is read, so that nothing is missed in between.
    let hold = requested.permit.hold(world);
    let selection = SelectionPredicate::new(
        &requested.served,
        &requested.options.labels,
        &requested.options.fields,
    )?;
    let prefix = requested.served.collection(&requested.namespace);
    let only = Some(requested.only.as_str()).filter(|name| !name.is_empty());
    let interest = match only.or(selection.name()) {
        Some(name) if !requested.served.kind.namespaced || !requested.namespace.is_empty() => {
            Interest::Key(format!("{prefix}{name}"))
        }
        _ => Interest::Prefix(prefix.clone()),
    };
    let (outlet, body) = Outlet::new(Arc::clone(&requested.shares), Arc::clone(&requested.user));
    let response = response::respond(StatusCode::OK, "application/json", body);
    let encoder = EventEncoder {
        shape: requested.shape,
        include: requested.include,
        served: Arc::clone(&requested.served),
        columns: None,
    };
    let begun = match requested.permit.visibility()? {
        Some(visibility) => filtered::begin(world, &requested, visibility, &selection).await,
        None => begin(world, &requested, &selection).await,
    };
    let begun = begun.and_then(|begun| {
        let cursor = match begun.resumes {
            true => world.resume(begun.after, interest),
            false => world.watch(begun.after, interest),
        };
        match cursor {
            Ok(cursor) => Ok((begun, cursor)),
            Err(compacted) => Err(expired(begun.after, compacted.oldest)),
        }
    });
    let (begun, cursor) = match begun {
        Ok(begun) => begun,
        Err(failure) if failure.code == 410 => {
            // The stream is accepted and says so in its one event (R107).
            let room = outlet.room(0).await;
            room.into_iter().for_each(|room| room.send(encoder.error(&failure)));
            return Ok(response);
        }
        Err(failure) => return Err(failure),
    };
    let options = &requested.options;
    let stream = WatchResponse {
        selection,
        encoder,
        outlet,
        bookmarks: options.bookmarks,
        closing_bookmark: options.initial_events == Some(true) && options.bookmarks,
        deadline: clock::timer_instant() + requested.lifetime,
        stop,
        events: requested.events,
        _running: requested.running,
        replaced: kinds.replacements(),
        kinds: Arc::clone(kinds),
        hold,
        conversions: requested.conversions,
        user: requested.user,
    };
    tokio::spawn(stream.run(cursor, begun));
    Ok(response)
}

/// The revision to start after; none if the present state comes first (R106, R111).
fn starts_after(world: &WorldHandle, options: &ListOptions) -> Option<Revision> {
    let from_state = match options.initial_events {
        Some(wants) => wants,
        None => options.revision.unwrap_or(Revision::ZERO) == Revision::ZERO,
    };
    (!from_state).then(|| options.revision.unwrap_or_else(|| world.current().revision()))
}

async fn begin(
    world: &WorldHandle,
    requested: &WatchRequest,
    selection: &SelectionPredicate,
) -> Result<WatchStart, Failure> {
    let filtered_view = None;
    if let Some(after) = starts_after(world, &requested.options) {
        requested.permit.since(world, after)?;
        let resumes = requested.options.revision.is_some();
        return Ok(WatchStart { initial: Vec::new(), after, resumes, filtered_view });
    }
    let state = requested.permit.newest(world, requested.options.revision).await?;
    // What a webhook converts is chosen when it is.
    let identity = requested.served.may_convert().then(|| selection.of_identity());
    let selection = identity.as_ref().unwrap_or(selection);
    let initial: Vec<Arc<Record>> = state
        .range(&requested.served.collection(&requested.namespace), None)
        .filter(|record| requested.only.is_empty() || record.name() == requested.only)
        .filter(|record| selection.matches(record))
        .cloned()
        .collect();
    Ok(WatchStart { initial, after: state.revision(), resumes: false, filtered_view })
}

struct WatchResponse {
    selection: SelectionPredicate,
    encoder: EventEncoder,
    outlet: Outlet,
    bookmarks: bool,
    closing_bookmark: bool,
    deadline: Instant,
    stop: watch::Receiver<bool>,
    events: Counter,
    _running: InFlightGuard,
    kinds: Arc<ServedKinds>,
    replaced: watch::Receiver<u64>,
    /// What lets it go on.
    hold: Hold,
    /// Who brings objects into the version that is watched.
    conversions: Arc<Conversions>,
    user: Arc<User>,
}

impl WatchResponse {
    /// Whether the kind is served as it was when the watch began; else clients list again (R115).
    fn is_still_served(&self) -> bool {
        let served = &self.encoder.served;
        let kind = &served.kind;
        self.kinds
            .current()
            .find(&kind.group, &kind.version, &kind.plural)
            .is_some_and(|now| now.same_as(served))
    }

    /// Whether what was read up to now may be sent. If not, the stream ends: a client whose role or credential
    /// is gone hears of it when it asks again (R260), one whose reference is gone at once (referential
    /// authorization R123).
    async fn is_permitted(&mut self) -> bool {
        let Err(failure) = self.hold.check() else { return true };
        if self.hold.is_by_reference() {
            self.fail(&failure).await;
            self.hold.count_revocation();
        }
        false
    }

    /// The last event of a stream that cannot go on.
    async fn fail(&self, failure: &Failure) {
        if let Some(room) = self.outlet.room(0).await {
            room.send(self.encoder.error(failure));
        }
    }

    async fn run(mut self, mut cursor: Watch, begun: WatchStart) {
        let WatchStart { initial, after: at, filtered_view, .. } = begun;
        if self.send_initial(initial, at).await.is_none() {
            return;
        }
        match filtered_view {
            Some(filtered_view) => self.follow_filtered(&mut cursor, filtered_view).await,
            None => self.follow(&mut cursor, at).await,
        }
    }

    async fn send_initial(&mut self, initial: Vec<Arc<Record>>, at: Revision) -> Option<()> {
        let added = |record: Arc<Record>| WatchEvent { kind: "ADDED", record, gone: None };
        let bookmark = self.closing_bookmark.then_some((at, true));
        if self.encoder.served.may_convert() {
            return self.send_converted(initial, bookmark).await;
        }
        self.tell(initial.into_iter().map(added), bookmark).await
    }

    /// Sends live events until the client leaves, time is up, the server stops or history is gone.
    async fn follow(&mut self, cursor: &mut Watch, mut reported: Revision) {
        let mut bookmark_at = clock::timer_instant() + BOOKMARK_EVERY;
        loop {
            let (mut changes, mut bookmark, mut ends) = (Vec::new(), None, false);
            tokio::select! {
                next = cursor.next() => match next {
                    Ok(change) => {
                        changes.push(change);
                        reported = self.gather_changes(cursor, &mut changes).unwrap_or(reported);
                    }
                    Err(WatchEnded::Compacted { oldest }) => {
                        return self.fail(&expired(reported, oldest)).await;
                    }
                    Err(WatchEnded::Stopped) => return,
                },
                () = tokio::time::sleep_until(bookmark_at), if self.bookmarks => {
                    bookmark_at = clock::timer_instant() + BOOKMARK_EVERY;
                    bookmark = Some((cursor.delivered(), false));
                }
                () = tokio::time::sleep_until(self.deadline) => {
                    bookmark = self.bookmarks.then(|| (cursor.delivered(), false));
                    ends = true;
                }
                () = self.outlet.closed() => return,
                _ = self.stop.changed() => return,
                () = self.hold.changed() => {}
                _ = self.replaced.changed(), if self.encoder.served.custom.is_some() => {
                    if !self.is_still_served() {
                        // What happened before the end is told first.
                        self.gather_changes(cursor, &mut changes);
                        ends = true;
                    }
                }
            }
            // Nothing is told after the right has gone, not even what happened just before.
            if !self.is_permitted().await {
                return;
            }
            let Some(events) = self.events(&changes).await else { return };
            if self.tell(events, bookmark).await.is_none() || ends {
                return;
            }
        }
    }

    /// Adds the changes that wait together; the revision of the last, if there is one.
    fn gather_changes(
        &self,
        cursor: &mut Watch,
        changes: &mut Vec<Arc<Change>>,
    ) -> Option<Revision> {
        let length = |change: &Change| {
            let record = change.after.as_ref().or(change.before.as_ref());
            record.map_or(0, |record| record.bytes().len())
        };
        let mut bytes: usize = changes.iter().map(|change| length(change)).sum();
        while bytes < GATHER_BYTES {
            let Ok(Some(change)) = cursor.try_next() else { break };
            bytes += length(&change);
            changes.push(change);
        }
        changes.last().map(|change| change.revision)
    }

    /// What a change is to this watch, of an object that was and is so; the type is relative to the filter
    /// (R105).
    fn event(
        &self,
        change: &Change,
        was: Option<&Arc<Record>>,
        is: Option<&Arc<Record>>,
    ) -> Option<WatchEvent> {
        let was = was.filter(|record| self.selection.matches(record));
        let is = is.filter(|record| self.selection.matches(record));
        let end = || EndOfObject { at: change.revision, last_state: change.last_state() };
        let (kind, record, gone) = match (was, is) {
            (None, Some(record)) => ("ADDED", record, None),
            (Some(_), Some(record)) => ("MODIFIED", record, None),
            (Some(record), None) => ("DELETED", record, Some(end())),
            (None, None) => return None,
        };
        Some(WatchEvent { kind, record: Arc::clone(record), gone })
    }

    /// Tells events as fast as the client takes them, and a bookmark after them. Nothing is encoded before
    /// there is room for it. None if the stream has come to its end.
    async fn tell(
        &mut self,
        events: impl IntoIterator<Item = WatchEvent>,
        bookmark: Option<(Revision, bool)>,
    ) -> Option<()> {
        let mut chunk = BytesMut::new();
        let mut room = None;
        for event in events {
            let bytes = event.bytes();
            let WatchEvent { kind, record, .. } = event;
            if chunk.len() + bytes.len() > GATHER_BYTES
                && let Some(full) = room.take()
            {
                SendPermit::send(full, chunk.split().freeze());
            }
            if room.is_none() {
                room = Some(self.room(bytes.len()).await?);
            }
            self.encoder.event(&mut chunk, kind, &bytes, &record);
            self.events.inc();
        }
        if let Some((at, ends_initial)) = bookmark {
            if room.is_none() {
                room = Some(self.room(0).await?);
            }
            self.encoder.bookmark(&mut chunk, at, ends_initial);
        }
        if let Some(room) = room {
            room.send(chunk.freeze());
        }
        Some(())
    }

    /// Room for about so many bytes. A client may take as long as it likes to make some, so what lets the
    /// stream go on is looked at again.
    async fn room(&mut self, bytes: usize) -> Option<SendPermit> {
        let room = self.outlet.room(bytes).await?;
        self.is_permitted().await.then_some(room)
    }
}

struct EventEncoder {
    shape: Representation,
    include: Include,
    served: Arc<ServedKind>,
    /// The columns of the Tables, once the first was sent.
    columns: Option<Columns>,
}

impl EventEncoder {
    fn event(&mut self, chunk: &mut BytesMut, kind: &str, bytes: &Bytes, record: &Arc<Record>) {
        chunk.extend_from_slice(b"{\"type\":\"");
        chunk.extend_from_slice(kind.as_bytes());
        chunk.extend_from_slice(b"\",\"object\":");
        match self.shape {
            Representation::Plain if self.served.shows_verbatim(record) => {
                chunk.extend_from_slice(bytes)
            }
            Representation::Plain => {
                let shown = self.served.read_as(record, bytes).unwrap_or_default();
                write_json(chunk, &Value::Object(shown));
            }
            Representation::Metadata(version) => {
                let found = parsed(bytes, record);
                let partial = response::partial(&self.served, &found, version);
                write_json(chunk, &partial.unwrap_or_default());
            }
            Representation::Table(version) => {
                if let Ok(object) = self.served.read_as(record, bytes) {
                    let table = self.table(&object, version, self.include);
                    write_json(chunk, &table);
                }
            }
        }
        chunk.extend_from_slice(b"}\n");
    }

    /// One row; the columns come with the first event only (R27).
    fn table(&mut self, object: &Object, version: MetaVersion, include: Include) -> Value {
        let (columns, mut table) = self.table_head(version, opted_in(object));
        let revision = object
            .get("metadata")
            .and_then(|m| m.get("resourceVersion"))
            .cloned()
            .unwrap_or_default();
        table.insert("metadata".into(), json!({ "resourceVersion": revision }));
        let row = response::row(&self.served, object, version, include, columns);
        table.insert("rows".into(), Value::Array(vec![row]));
        Value::Object(table)
    }

    /// The columns that the first event brought, or brings now.
    fn table_head(&mut self, version: MetaVersion, opted_in: bool) -> (Columns, Object) {
        let first = self.columns.is_none().then(|| Columns::of(&self.served, opted_in));
        let columns = *self.columns.get_or_insert_with(|| Columns::of(&self.served, opted_in));
        (columns, response::table_head(&self.served, version, first))
    }

    fn bookmark(&mut self, chunk: &mut BytesMut, at: Revision, ends_initial: bool) {
        let mut metadata = json!({ "resourceVersion": at.to_string() });
        if let (true, Some(map)) = (ends_initial, metadata.as_object_mut()) {
            map.insert("annotations".into(), json!({ "k8s.io/initial-events-end": "true" }));
        }
        let (kind, api_version) = match self.shape {
            Representation::Metadata(version) => ("PartialObjectMetadata", version.api_version()),
            _ => (self.served.kind.kind.as_ref(), self.served.api_version.as_str()),
        };
        let object = json!({ "kind": kind, "apiVersion": api_version, "metadata": metadata });
        let object = match (self.shape, object) {
            // An object without content has a row like any other; what ends the state is always shown (R27).
            (Representation::Table(version), Value::Object(object)) => {
                let include = match self.include {
                    Include::None if ends_initial => Include::Metadata,
                    include => include,
                };
                self.table(&object, version, include)
            }
            (_, object) => object,
        };
        write_json(chunk, &json!({ "type": "BOOKMARK", "object": object }));
        chunk.extend_from_slice(b"\n");
    }

    fn error(&self, failure: &Failure) -> Bytes {
        Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", failure.to_text()))
    }
}

fn parsed(bytes: &Bytes, record: &Arc<Record>) -> ResponseObject {
    match serde_json::from_slice(bytes) {
        Ok(object) => ResponseObject::Object(object),
        Err(_) => ResponseObject::Record(Arc::clone(record)),
    }
}

fn write_json(chunk: &mut BytesMut, value: &Value) {
    chunk.extend_from_slice(value.to_string().as_bytes());
}
