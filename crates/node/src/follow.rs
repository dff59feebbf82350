//! One collection of the server, followed: everything once, then every change, for ever. What is
//! done with the objects is decided by others.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};

use crate::client::{Answered, Client};

/// The waits between tries while the server is away.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What happens to a collection.
#[derive(Debug, Clone)]
pub enum CollectionEvent {
    /// Everything there is; what was known before and is not here is gone.
    All(Vec<Arc<Object>>),
    /// An object as it now is.
    Put(Arc<Object>),
    /// An object as it last was.
    Gone(Arc<Object>),
    /// The collection may not be read, or the server is away; what was known stays.
    Unread(String),
}

/// Follows a collection until nobody listens: `tell` says whether to go on.
pub async fn follow(client: Client, path: String, mut tell: impl FnMut(CollectionEvent) -> bool) {
    let mut wait = RETRY_FIRST;
    loop {
        match round(&client, &path, &mut tell).await {
            Ok(true) => wait = RETRY_FIRST,
            Ok(false) => return,
            Err(error) => {
                if !tell(CollectionEvent::Unread(error.to_string())) {
                    return;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
    }
}

/// One list and the watches after it; ends well when the history was lost and a new list is needed.
async fn round(
    client: &Client,
    path: &str,
    tell: &mut impl FnMut(CollectionEvent) -> bool,
) -> Answered<bool> {
    let mut list = client.get(path).await?;
    let mut revision = list.str_at(&["metadata", "resourceVersion"]).unwrap_or_default().to_owned();
    let items = match list.remove("items") {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let (kind, version) = item_kind(&list);
    let items = items
        .into_iter()
        .filter_map(|item| match item {
            Value::Object(mut item) => {
                // Items of a list do not say what they are; those of a watch do.
                item.set_default("kind", kind.as_str());
                item.set_default("apiVersion", version.as_str());
                lighten(&mut item);
                Some(Arc::new(item))
            }
            _ => None,
        })
        .collect();
    if !tell(CollectionEvent::All(items)) {
        return Ok(false);
    }
    let joint = if path.contains('?') { '&' } else { '?' };
    loop {
        let watch = format!(
            "{path}{joint}watch=true&allowWatchBookmarks=true&timeoutSeconds=3600\
             &resourceVersion={revision}"
        );
        let mut lines = client.watch(&watch).await?;
        let mut heard = false;
        while let Some(line) = lines.next().await {
            heard = true;
            let Value::Object(mut line) = line else { return Ok(true) };
            let Some(Value::Object(mut object)) = line.remove("object") else { return Ok(true) };
            lighten(&mut object);
            if let Some(newer) = object.str_at(&["metadata", "resourceVersion"]) {
                newer.clone_into(&mut revision);
            }
            let event = match line.str_at(&["type"]).unwrap_or_default() {
                "ADDED" | "MODIFIED" => CollectionEvent::Put(Arc::new(object)),
                "DELETED" => CollectionEvent::Gone(Arc::new(object)),
                "BOOKMARK" => continue,
                _ => return Ok(true),
            };
            if !tell(event) {
                return Ok(false);
            }
        }
        if !heard {
            // A watch that ends at once must not become a storm.
            tokio::time::sleep(RETRY_FIRST).await;
        }
    }
}

/// Takes away who wrote what: no pod reads it, and it is most of what an object holds in memory.
pub(crate) fn lighten(object: &mut Object) {
    object.map_mut("metadata").remove("managedFields");
}

/// The kind of a list's items.
fn item_kind(list: &Object) -> (String, String) {
    let text = |name| list.str_at(&[name]).unwrap_or_default();
    let kind = text("kind");
    (kind.strip_suffix("List").unwrap_or(kind).to_owned(), text("apiVersion").to_owned())
}
