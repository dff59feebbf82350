//! Documents that are made from the tables when first asked for, and kept in every form that was asked for.
//!
//! ```text
//!   registry ──► Document ─┬─ bytes, tag, YAML
//!                          └─ gzipped, aside, once (R242)
//! ```
//!
//! Whoever asks again costs a look into a map, in whatever form. Which documents there are never lives here.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, VARY};
use http::{Response, StatusCode};
use serde_json::Value;
use tenure_machinery::{Failure, Kind};

use crate::api::{ApiServer, header};
use crate::authenticate::User;
use crate::body::{Body, full};
use crate::registry::Registry;
use crate::response::{self, GZIP_FROM_BYTES};

/// The documents of one registry.
///
/// INVARIANT: each is kept under a name made of served groups and versions, never of what a client
/// wrote, so there are as many as the tables have documents (R200).
#[derive(Default)]
pub(crate) struct Documents {
    kept: Mutex<HashMap<String, Arc<CachedDocument>>>,
}

/// One document and its other forms, each made once.
pub(super) struct CachedDocument {
    bytes: Bytes,
    tag: OnceLock<String>,
    yaml: OnceLock<Bytes>,
    gzipped: OnceLock<Bytes>,
}

impl Documents {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    fn get(&self, name: &str) -> Option<Arc<CachedDocument>> {
        self.lock().get(name).cloned()
    }

    /// Keeps a document; if somebody else was faster, theirs, so that its other forms are made once as well.
    fn keep(&self, name: &str, bytes: Bytes) -> Arc<CachedDocument> {
        let made = CachedDocument {
            bytes,
            tag: OnceLock::new(),
            yaml: OnceLock::new(),
            gzipped: OnceLock::new(),
        };
        Arc::clone(self.lock().entry(name.to_owned()).or_insert_with(|| Arc::new(made)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<CachedDocument>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedDocument {
    /// As it was made.
    pub(super) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Its strong tag. Hashing megabytes takes milliseconds, so it is kept as well.
    pub(super) fn tag(&self) -> &str {
        self.tag.get_or_init(|| tenure_openapi::etag(&self.bytes))
    }

    /// A JSON document as YAML.
    pub(super) fn yaml(&self) -> Result<Bytes, Failure> {
        if let Some(kept) = self.yaml.get() {
            return Ok(kept.clone());
        }
        let value: Value = serde_json::from_slice(&self.bytes).map_err(Failure::internal)?;
        let made = Bytes::from(tenure_yaml::from_json(&value));
        Ok(self.yaml.get_or_init(|| made).clone())
    }

    fn gzipped(&self) -> Bytes {
        self.gzipped.get_or_init(|| gzip(&self.bytes)).clone()
    }
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    Bytes::from(encoder.finish().unwrap_or_default())
}

/// The document of that name, made on the spot from the kinds of a registry.
pub(super) fn kept(
    registry: &Registry,
    name: &str,
    make: impl FnOnce(&[&Kind]) -> Option<Value>,
) -> Option<Arc<CachedDocument>> {
    kept_bytes(registry, name, |kinds| Some(Bytes::from(make(kinds)?.to_string())))
}

fn kept_bytes(
    registry: &Registry,
    name: &str,
    make: impl FnOnce(&[&Kind]) -> Option<Bytes>,
) -> Option<Arc<CachedDocument>> {
    if let Some(document) = registry.documents.get(name) {
        return Some(document);
    }
    let here = |kind: &&Kind| registry.remote.find(&kind.group, &kind.version).is_none();
    let kinds = registry.kinds().iter().map(|served| &served.kind).filter(here);
    let kinds: Vec<&Kind> = kinds.collect();
    let bytes = make(&kinds)?;
    Some(registry.documents.keep(name, bytes))
}

/// A large document: made aside if it is not kept, because that takes long.
pub(super) async fn cached_or_offloaded(
    api: &ApiServer,
    user: &User,
    registry: &Arc<Registry>,
    name: String,
    make: impl FnOnce(&Registry, &[&Kind]) -> Option<Bytes> + Send + 'static,
) -> Result<Option<Arc<CachedDocument>>, Failure> {
    if let Some(document) = registry.documents.get(&name) {
        return Ok(Some(document));
    }
    let registry = Arc::clone(registry);
    let work = move || {
        let document = kept_bytes(&registry, &name, |kinds| make(&registry, kinds));
        if let Some(document) = &document {
            // Whoever answers with the document asks for its tag.
            document.tag();
        }
        document
    };
    api.offload.run(user, work).await
}

/// A document as an answer, gzipped for those who take that; compressed aside, and only once.
pub(super) async fn respond(
    api: &ApiServer,
    user: &User,
    document: &Arc<CachedDocument>,
    media: &'static str,
    headers: &HeaderMap,
) -> Result<Response<Body>, Failure> {
    let accepted = header(headers, ACCEPT_ENCODING.as_str());
    let takes_gzip = accepted.is_some_and(|text| text.contains("gzip"));
    if !takes_gzip || document.bytes.len() as u64 <= GZIP_FROM_BYTES {
        return Ok(response::respond(StatusCode::OK, media, full(document.bytes())));
    }
    let gzipped = match document.gzipped.get() {
        Some(kept) => kept.clone(),
        None => {
            let document = Arc::clone(document);
            api.offload.run(user, move || document.gzipped()).await?
        }
    };
    let mut response = response::respond(StatusCode::OK, media, full(gzipped));
    let headers = response.headers_mut();
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    Ok(response)
}
