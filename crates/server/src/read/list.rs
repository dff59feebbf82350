//! Lists: a prefix, slices and commas (R14–R19, R199).

use std::collections::VecDeque;
use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_kinds::retention::OPTED_IN_TEXT;
use tenure_machinery::Failure;
use tenure_machinery::status::Details;
use tenure_world::{Record, World, WorldHandle};

use crate::api::ApiServer;
use crate::authenticate::User;
use crate::body::Body;
use crate::fair::{self, BudgetGuard};
use crate::negotiate::{NegotiatedFormat, Representation};
use crate::permit::{Permit, Redeemed};
use crate::query::{ListOptions, ResourceVersionMatch};
use crate::read::converted::{self, ConvertedWalk};
use crate::read::long;
use crate::read::parts::{ItemRepresentation, ListEncoder, TextLayout};
use crate::read::token::ContinueToken;
use crate::reference::Visibility;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::response::{self, Columns, Style};
use crate::select::SelectionPredicate;

/// What is read and written on the spot: a look at so many objects, so many bytes of an answer.
const SHORT_OBJECTS: usize = 512;
const SHORT_BYTES: u64 = 256 * 1024;

/// One page of a collection.
pub(crate) struct ListPage {
    /// The objects, in key order.
    pub records: Vec<Arc<Record>>,
    /// The revision the page shows.
    pub revision: Revision,
    /// How to go on, if there is more.
    pub next: Option<ContinueToken>,
    /// How many more there are, where that is known.
    pub remaining: Option<usize>,
    /// What a long page counts until it is sent: nobody collects what could not be sent (R241).
    pub charge: Option<BudgetGuard>,
}

/// Reads one page; for one who sees a part, of what is seen.
pub(crate) async fn page(
    api: &ApiServer,
    request: &ResourceRequest,
    options: &ListOptions,
) -> Result<ListPage, Failure> {
    let served = &request.served;
    let selection = SelectionPredicate::new(served, &options.labels, &options.fields)?;
    let token = options.token.as_deref().map(ContinueToken::decode).transpose()?;
    let permit = &request.permit;
    let visibility = permit.visibility()?;
    let state = state(permit, &api.world, options, token.as_ref()).await?;
    let prefix = served.collection(&request.namespace);
    let after = token.as_ref().map(|token| format!("{prefix}{}", token.after));
    // The state comes first: what is seen is never older than it, so a watch from its revision misses nothing.
    let limit = options.limit;
    if served.may_convert() && !selection.is_by_identity() {
        let walk = ConvertedWalk { prefix, after, selection, limit };
        let page = converted::collect(api, request, &state, walk, visibility.as_ref()).await?;
        permit.check(&api.world)?;
        return Ok(page);
    }
    let chosen = ListFilter { selection, visibility: visibility.clone() };
    // What is known to be long is not begun here.
    let is_long = request.collection_objects > SHORT_OBJECTS && chosen.selection.owner().is_none();
    let here = if is_long { 0 } else { SHORT_OBJECTS };
    let mut page = match collect(&state, &prefix, after.as_deref(), &chosen, limit, here) {
        Some(page) => page,
        None => {
            let long =
                move || collect(&state, &prefix, after.as_deref(), &chosen, limit, usize::MAX);
            let charge = api.shares.stream(&request.user)?;
            let page = api.offload.run(&request.user, long).await?;
            // It may have waited.
            permit.check(&api.world)?;
            let page = page.ok_or_else(|| Failure::internal("a list without an end"))?;
            ListPage { charge, ..page }
        }
    };
    if let Some(visibility) = &visibility {
        let seen = visibility.was_seen(&page.records, page.revision).map_err(|gone| {
            let failure = expired(page.revision, gone.oldest);
            token.as_ref().map_or(failure.clone(), |token| resumable(failure, token))
        })?;
        page.records = seen;
    }
    if served.may_convert() {
        page = converted::page(api, request, page).await?;
        permit.check(&api.world)?;
    }
    Ok(page)
}

async fn state(
    permit: &Permit,
    world: &WorldHandle,
    options: &ListOptions,
    token: Option<&ContinueToken>,
) -> Result<Redeemed, Failure> {
    if let Some(token) = token {
        return match token.revision {
            None => permit.newest(world, None).await,
            Some(revision) => {
                permit.exact(world, revision).map_err(|failure| resumable(failure, token))
            }
        };
    }
    match (options.revision, options.matching) {
        (Some(revision), ResourceVersionMatch::Exact) => permit.exact(world, revision),
        (Some(revision), ResourceVersionMatch::Unset)
            if revision > Revision::ZERO && options.limit > 0 =>
        {
            permit.exact(world, revision)
        }
        (revision, _) => permit.newest(world, revision).await,
    }
}

/// 410 for a revision that history no longer holds.
#[must_use]
pub(crate) fn expired(revision: Revision, oldest: Revision) -> Failure {
    Failure::new(410, "Expired", format!("too old resource version: {revision} ({oldest})"))
}

/// Lets a pager go on at the newest state although its walk's revision is gone (R15).
fn resumable(mut failure: Failure, token: &ContinueToken) -> Failure {
    if failure.code == 410 {
        failure.message = "The provided continue parameter is too old to display a consistent list \
                           result. The list may go on inconsistently with the token in metadata.continue."
            .to_owned();
        let fresh = ContinueToken { revision: None, after: token.after.clone() };
        failure.resume = Some(fresh.encode());
        failure.details.get_or_insert_with(|| Box::new(Details::default()));
    }
    failure
}

/// What of a collection is listed.
struct ListFilter {
    selection: SelectionPredicate,
    visibility: Option<Visibility>,
}

impl ListFilter {
    fn holds(&self, record: &Record) -> bool {
        let sees = |visibility: &Visibility| visibility.sees(record);
        self.selection.matches(record) && self.visibility.as_ref().is_none_or(sees)
    }

    fn is_everything(&self) -> bool {
        self.selection.is_everything() && self.visibility.is_none()
    }
}

/// Reads a page; none if that takes a look at more objects than `most`.
fn collect(
    state: &Redeemed,
    prefix: &str,
    after: Option<&str>,
    chosen: &ListFilter,
    limit: usize,
    most: usize,
) -> Option<ListPage> {
    let revision = state.revision();
    let mut looked = 0;
    let mut walk = candidates(state, prefix, after, &chosen.selection);
    let mut records = Vec::new();
    let mut next = None;
    let mut remaining = None;
    for record in walk.by_ref() {
        looked += chosen.selection.cost();
        if looked > most {
            return None;
        }
        if !chosen.holds(record) {
            continue;
        }
        if limit > 0 && records.len() == limit {
            // This one starts the next page; what is left is it and everything behind it.
            if chosen.is_everything() {
                let rest = walk.take(most.saturating_sub(looked).saturating_add(1)).count();
                if looked.saturating_add(rest) > most {
                    return None;
                }
                remaining = Some(rest + 1);
            }
            next = records.last().map(|last: &Arc<Record>| ContinueToken {
                revision: Some(revision),
                after: last.key().strip_prefix(prefix).unwrap_or(last.key()).to_owned(),
            });
            break;
        }
        records.push(Arc::clone(record));
    }
    Some(ListPage { records, revision, next, remaining, charge: None })
}

/// What a page is chosen from, in key order: the collection, or what an owner that is asked for owns.
pub(super) fn candidates<'a>(
    state: &'a World,
    prefix: &'a str,
    after: Option<&'a str>,
    selection: &'a SelectionPredicate,
) -> Box<dyn Iterator<Item = &'a Arc<Record>> + 'a> {
    match selection.owner() {
        None => Box::new(state.range(prefix, after)),
        Some(uid) => Box::new(state.owned_by(uid).filter(move |record| {
            record.key().starts_with(prefix) && after.is_none_or(|after| &**record.key() > after)
        })),
    }
}

/// A page as a response: a short one at once, a long one while it is sent.
pub(crate) async fn respond(
    api: &ApiServer,
    user: &User,
    served: &Arc<ServedKind>,
    mut page: ListPage,
    wanted: NegotiatedFormat,
    style: Style,
) -> Result<Response<Body>, Failure> {
    let charge = page.charge.take();
    let is_long = page.records.len() > SHORT_OBJECTS;
    let prepare = {
        let served = Arc::clone(served);
        move || {
            let parts = parts(&served, page, wanted, style);
            let size = parts.size();
            (parts, size)
        }
    };
    let (parts, (bytes, exact)) = if is_long {
        fair::rest();
        let prepared = api.offload.go_on(&user.name, prepare).await;
        prepared.ok_or_else(|| Failure::internal("a list could not be prepared"))?
    } else {
        prepare()
    };
    if !is_long && bytes <= SHORT_BYTES {
        let media = TextLayout::of(wanted.format, style.pretty).media();
        let slices = VecDeque::from([parts.whole()]);
        return Ok(response::sliced(StatusCode::OK, media, slices, style));
    }
    let charge = match charge {
        Some(charge) => Some(charge),
        None => api.shares.stream(user)?,
    };
    Ok(long::respond(api, user, parts, exact.then_some(bytes), style.gzip, charge))
}

fn parts(
    served: &Arc<ServedKind>,
    page: ListPage,
    wanted: NegotiatedFormat,
    style: Style,
) -> ListEncoder {
    let layout = TextLayout::of(wanted.format, style.pretty);
    let custom = served.custom.is_some();
    let of = |page: ListPage| (Arc::clone(served), page.records);
    match wanted.shape {
        Representation::Plain => {
            let shell = json!({
                "kind": format!("{}List", served.kind.kind),
                "apiVersion": served.api_version,
                "metadata": list_meta(&page, custom),
                "items": [],
            });
            ListEncoder::new(of(page), ItemRepresentation::Plain, layout, (&shell, "items"))
        }
        Representation::Metadata(version) => {
            let shell = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": version.api_version(),
                "metadata": list_meta(&page, false),
                "items": [],
            });
            ListEncoder::new(
                of(page),
                ItemRepresentation::Metadata(version),
                layout,
                (&shell, "items"),
            )
        }
        Representation::Table(version) => {
            let opted_in = page.records.iter().any(|record| record.contains(OPTED_IN_TEXT));
            let columns = Columns::of(served, opted_in);
            let mut table = response::table_head(served, version, Some(columns));
            table.insert("metadata".into(), list_meta(&page, false));
            let printed = custom || tenure_table::has_printer(&served.kind);
            let none = page.records.is_empty() && !printed;
            table.insert("rows".into(), if none { Value::Null } else { json!([]) });
            let shown = ItemRepresentation::Row(version, columns, style.include);
            ListEncoder::new(of(page), shown, layout, (&Value::Object(table), "rows"))
        }
    }
}

fn list_meta(page: &ListPage, custom: bool) -> Value {
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
