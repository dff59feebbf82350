//! What events of a watch mean across closed connections and new lists: what is there, and what is gone.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream::{AbortHandle, BoxStream, abortable};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Map, Value};

/// The namespace and name of an object.
pub(super) type WatchKey = (String, String);

/// An event, with what its watch is of.
pub(super) type Tagged<T> = (T, watcher::Result<Event<DynamicObject>>);

/// A watch of every object of a type, which begins again whenever it ends.
pub(super) fn watch_all<T: Clone + Send + 'static>(
    client: &kube::Client,
    resource: &ApiResource,
    tag: T,
) -> (BoxStream<'static, Tagged<T>>, AbortHandle) {
    let api: kube::Api<DynamicObject> = kube::Api::all_with(client.clone(), resource);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let (events, handle) = abortable(events.map(move |event| (tag.clone(), event)));
    (events.boxed(), handle)
}

/// What an event means.
pub(super) enum WatchUpdate {
    /// A list begins; until it has ended, what is known may be old.
    Begins,
    /// An object as it now is.
    Put(Box<DynamicObject>),
    /// An object is gone.
    Gone(WatchKey),
    /// A list has ended; these were there before, and are not in it.
    Ended(Vec<WatchKey>),
}

/// The names a watch has told, and those of the list it is telling now.
#[derive(Default)]
pub(super) struct WatchedNames {
    known: BTreeSet<WatchKey>,
    fresh: BTreeSet<WatchKey>,
}

impl WatchedNames {
    pub(super) fn take(&mut self, event: Event<DynamicObject>) -> WatchUpdate {
        match event {
            Event::Init => {
                self.fresh.clear();
                WatchUpdate::Begins
            }
            Event::InitApply(object) => {
                self.fresh.insert(place(&object));
                self.known.insert(place(&object));
                WatchUpdate::Put(Box::new(object))
            }
            Event::Apply(object) => {
                self.known.insert(place(&object));
                WatchUpdate::Put(Box::new(object))
            }
            Event::Delete(object) => {
                let place = place(&object);
                self.known.remove(&place);
                WatchUpdate::Gone(place)
            }
            Event::InitDone => {
                let fresh = std::mem::take(&mut self.fresh);
                let gone = self.known.difference(&fresh).cloned().collect();
                self.known = fresh;
                WatchUpdate::Ended(gone)
            }
        }
    }
}

pub(super) fn place(object: &DynamicObject) -> WatchKey {
    let meta = &object.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

pub(super) fn fields(object: DynamicObject) -> Map<String, Value> {
    match serde_json::to_value(object) {
        Ok(Value::Object(fields)) => fields,
        // It was JSON a moment ago.
        _ => Map::new(),
    }
}

/// An error with everything underneath, in one line.
pub(super) fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Libraries repeat what is underneath in their own sentence.
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
