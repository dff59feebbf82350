//! Lists: a prefix, slices and commas (R14–R19, R199).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_kinds::retention::OPTED_IN_TEXT;
use tenure_machinery::Failure;
use tenure_machinery::status::Details;
use tenure_world::{At, Handle, Record, World};

use crate::answer::{self, Columns, Found, Style};
use crate::body::Body;
use crate::negotiate::{Format, MetaVersion, Shape, Wanted};
use crate::query::{ListOptions, Match};
use crate::read::get::not_older_than;
use crate::read::token::Token;
use crate::reference::Sight;
use crate::registry::Served;
use crate::select::Selection;

/// One page of a collection.
pub(crate) struct Page {
    /// The objects, in key order.
    pub records: Vec<Arc<Record>>,
    /// The revision the page shows.
    pub revision: Revision,
    /// How to go on, if there is more.
    pub next: Option<Token>,
    /// How many more there are, where that is known.
    pub remaining: Option<usize>,
}

/// Reads one page; with a sight, of what is seen.
pub(crate) async fn page(
    world: &Handle,
    served: &Served,
    namespace: &str,
    options: &ListOptions,
    sight: Option<&Sight>,
) -> Result<Page, Failure> {
    let selection = Selection::new(served, &options.labels, &options.fields)?;
    let token = options.token.as_deref().map(Token::decode).transpose()?;
    let state = state(world, options, token.as_ref()).await?;
    let prefix = served.collection(namespace);
    let after = token.map(|token| format!("{prefix}{}", token.after));
    // The state comes first: what is seen is never older than it, so a watch from its revision misses nothing.
    let chosen = Chosen { selection: &selection, sight };
    Ok(collect(&state, &prefix, after.as_deref(), &chosen, options.limit))
}

async fn state(
    world: &Handle,
    options: &ListOptions,
    token: Option<&Token>,
) -> Result<Arc<World>, Failure> {
    if let Some(token) = token {
        return match token.revision {
            None => Ok(world.current()),
            Some(revision) => exact(world, revision).map_err(|failure| resumable(failure, token)),
        };
    }
    match (options.revision, options.matching) {
        (Some(revision), Match::Exact) => exact(world, revision),
        (Some(revision), Match::Unset) if revision > Revision::ZERO && options.limit > 0 => {
            exact(world, revision)
        }
        (revision, _) => not_older_than(world, revision).await,
    }
}

fn exact(world: &Handle, revision: Revision) -> Result<Arc<World>, Failure> {
    world.at(revision).map_err(|error| match error {
        At::Compacted(oldest) => expired(revision, oldest),
        At::Future(current) => Failure::bad_request(format!(
            "resourceVersion: {revision} is newer than the current {current}"
        )),
    })
}

/// 410 for a revision that history no longer holds.
#[must_use]
pub(crate) fn expired(revision: Revision, oldest: Revision) -> Failure {
    Failure::new(410, "Expired", format!("too old resource version: {revision} ({oldest})"))
}

/// Lets a pager go on at the newest state although its walk's revision is gone (R15).
fn resumable(mut failure: Failure, token: &Token) -> Failure {
    if failure.code == 410 {
        failure.message = "The provided continue parameter is too old to display a consistent list \
                           result. The list may go on inconsistently with the token in metadata.continue."
            .to_owned();
        let fresh = Token { revision: None, after: token.after.clone() };
        failure.resume = Some(fresh.encode());
        failure.details.get_or_insert_with(|| Box::new(Details::default()));
    }
    failure
}

/// What of a collection is listed.
struct Chosen<'a> {
    selection: &'a Selection,
    sight: Option<&'a Sight>,
}

impl Chosen<'_> {
    fn holds(&self, record: &Record) -> bool {
        self.selection.matches(record) && self.sight.is_none_or(|sight| sight.sees(record))
    }

    fn is_everything(&self) -> bool {
        self.selection.is_everything() && self.sight.is_none()
    }
}

fn collect(
    state: &World,
    prefix: &str,
    after: Option<&str>,
    chosen: &Chosen<'_>,
    limit: usize,
) -> Page {
    let revision = state.revision();
    let mut walk = candidates(state, prefix, after, chosen.selection);
    let mut records = Vec::new();
    let mut next = None;
    let mut remaining = None;
    for record in walk.by_ref() {
        if !chosen.holds(record) {
            continue;
        }
        if limit > 0 && records.len() == limit {
            // This one starts the next page; what is left is it and everything behind it.
            let rest = walk.count() + 1;
            remaining = chosen.is_everything().then_some(rest);
            next = records.last().map(|last: &Arc<Record>| Token {
                revision: Some(revision),
                after: last.key().strip_prefix(prefix).unwrap_or(last.key()).to_owned(),
            });
            break;
        }
        records.push(Arc::clone(record));
    }
    Page { records, revision, next, remaining }
}

/// What a page is chosen from, in key order: the collection, or what an owner that is asked for owns.
fn candidates<'a>(
    state: &'a World,
    prefix: &'a str,
    after: Option<&'a str>,
    selection: &'a Selection,
) -> Box<dyn Iterator<Item = &'a Arc<Record>> + 'a> {
    match selection.owner() {
        None => Box::new(state.range(prefix, after)),
        Some(uid) => Box::new(state.owned_by(uid).filter(move |record| {
            record.key().starts_with(prefix) && after.is_none_or(|after| &**record.key() > after)
        })),
    }
}

/// A page as a response.
pub(crate) fn respond(
    served: &Served,
    page: &Page,
    wanted: Wanted,
    style: Style,
) -> Result<Response<Body>, Failure> {
    match (wanted.shape, wanted.format) {
        (Shape::Plain, Format::Json) if !style.pretty => Ok(plain(served, page, style)),
        (Shape::Metadata(version), Format::Json) if !style.pretty => {
            Ok(metadata(page, version, style))
        }
        (Shape::Plain, _) => {
            let value = serde_json::from_slice::<Value>(&gathered(plain_slices(served, page)))
                .map_err(Failure::internal)?;
            answer::json_value(StatusCode::OK, &value, wanted.format, style)
        }
        (Shape::Metadata(version), _) => {
            let value = serde_json::from_slice::<Value>(&gathered(metadata_slices(page, version)))
                .map_err(Failure::internal)?;
            answer::json_value(StatusCode::OK, &value, wanted.format, style)
        }
        (Shape::Table(version), _) => {
            let table = table(served, page, version, style)?;
            answer::json_value(StatusCode::OK, &table, wanted.format, style)
        }
    }
}

fn plain(served: &Served, page: &Page, style: Style) -> Response<Body> {
    answer::sliced(StatusCode::OK, "application/json", plain_slices(served, page), style)
}

fn metadata(page: &Page, version: MetaVersion, style: Style) -> Response<Body> {
    answer::sliced(StatusCode::OK, "application/json", metadata_slices(page, version), style)
}

fn plain_slices(served: &Served, page: &Page) -> VecDeque<Bytes> {
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{},\"items\":[",
        served.kind.kind,
        served.api_version,
        list_meta(page, served.custom.is_some())
    );
    // Items of built-in lists carry no kind and apiVersion, those of custom lists do (R19).
    let typed = served.custom.is_some();
    let items = page.records.iter().map(|record| match (served.shows_verbatim(record), typed) {
        (true, true) => (Bytes::new(), record.bytes().clone()),
        (true, false) => (Bytes::from_static(b"{"), record.typeless()),
        (false, _) => {
            let mut object = served.read(record).unwrap_or_default();
            if !typed {
                object.remove("kind");
                object.remove("apiVersion");
            }
            (Bytes::new(), Bytes::from(Value::Object(object).to_string()))
        }
    });
    joined(head, items, "")
}

fn metadata_slices(page: &Page, version: MetaVersion) -> VecDeque<Bytes> {
    let api_version = version.api_version();
    let head = format!(
        "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{api_version}\",\"metadata\":{},\"items\":[",
        list_meta(page, false)
    );
    let before = Bytes::from(format!(
        "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"{api_version}\",\"metadata\":"
    ));
    joined(head, page.records.iter().map(|record| (before.clone(), record.metadata())), "}")
}

fn joined(
    head: String,
    items: impl Iterator<Item = (Bytes, Bytes)>,
    after_each: &'static str,
) -> VecDeque<Bytes> {
    let mut slices = VecDeque::new();
    slices.push_back(Bytes::from(head));
    for (at, (before, item)) in items.enumerate() {
        if at > 0 {
            slices.push_back(Bytes::from_static(b","));
        }
        slices.push_back(before);
        slices.push_back(item);
        if !after_each.is_empty() {
            slices.push_back(Bytes::from_static(after_each.as_bytes()));
        }
    }
    slices.push_back(Bytes::from_static(b"]}"));
    slices
}

fn gathered(slices: VecDeque<Bytes>) -> Vec<u8> {
    slices.into_iter().flatten().collect()
}

fn list_meta(page: &Page, custom: bool) -> Value {
    let mut meta = json!({ "resourceVersion": page.revision.to_string() });
    if let (Some(map), Some(next)) = (meta.as_object_mut(), &page.next) {
        map.insert("continue".into(), next.encode().into());
        if let Some(remaining) = page.remaining {
            map.insert("remainingItemCount".into(), remaining.into());
        }
    }
    // Lists of custom kinds say that there is no more; others leave it out.
    if let (true, None, Some(map)) = (custom, &page.next, meta.as_object_mut()) {
        map.insert("continue".into(), "".into());
    }
    meta
}

fn table(
    served: &Served,
    page: &Page,
    version: MetaVersion,
    style: Style,
) -> Result<Value, Failure> {
    let opted_in = page.records.iter().any(|record| record.contains(OPTED_IN_TEXT));
    let columns = Columns::of(served, opted_in);
    let mut table = answer::table_head(served, version, Some(columns));
    table.insert("metadata".into(), list_meta(page, false));
    let rows = page
        .records
        .iter()
        .map(|record| {
            let found = Found::Record(Arc::clone(record));
            let object = found.object(served)?;
            Ok(answer::row(served, object.as_ref(), version, style.include, columns))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let printed = served.custom.is_some() || tenure_table::has_printer(&served.kind);
    let none = rows.is_empty() && !printed;
    table.insert("rows".into(), if none { Value::Null } else { Value::Array(rows) });
    Ok(Value::Object(table))
}
