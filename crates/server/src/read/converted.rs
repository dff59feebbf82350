//! Lists of objects that a webhook brings into the version that is asked for (R129).
//!
//! ```text
//!   page ──► those in another version ──► as few calls as their number allows ──► page in the version
//! ```
//!
//! Labels and fields are those of the version that is asked for, so where somebody selects by them objects
//! are converted first and chosen then. Who converts, and how, is decided elsewhere.

use std::sync::Arc;

use tenure_machinery::Failure;
use tenure_world::Record;

use crate::api::ApiServer;
use crate::fair::BudgetGuard;
use crate::permit::Redeemed;
use crate::read::list::{ListPage, candidates, expired};
use crate::read::token::ContinueToken;
use crate::reference::Visibility;
use crate::request::ResourceRequest;
use crate::select::SelectionPredicate;

/// How many objects are looked at before the next call.
const LOOK_AT: usize = 500;

/// What of a collection is chosen after it was converted.
pub(super) struct ConvertedWalk {
    pub(super) prefix: String,
    /// The key behind which the page begins.
    pub(super) after: Option<String>,
    pub(super) selection: SelectionPredicate,
    /// Zero for no limit.
    pub(super) limit: usize,
}

/// A page with all its objects in the version of the request.
///
/// # Errors
/// One of them could not be converted, so that there is no list.
pub(super) async fn page(
    api: &ApiServer,
    request: &ResourceRequest,
    mut page: ListPage,
) -> Result<ListPage, Failure> {
    let Some(charge) = charge(api, request, &page.records)? else { return Ok(page) };
    let converted = api.conversions.records(&request.user.name, &request.served, page.records);
    page.records = converted.await?;
    page.charge = charge.or(page.charge);
    Ok(page)
}

/// Counts what is held while some records are converted; the outer none says that none of them is.
fn charge(
    api: &ApiServer,
    request: &ResourceRequest,
    records: &[Arc<Record>],
) -> Result<Option<Option<BudgetGuard>>, Failure> {
    let converted = records.iter().filter(|record| request.served.needs_conversion(record));
    let bytes: Vec<usize> = converted.map(|record| record.bytes().len()).collect();
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes = bytes.into_iter().sum::<usize>() as u64;
    api.shares.bytes(&request.user, bytes).map(Some)
}

/// Reads a page that is chosen by what objects say in the version of the request.
///
/// # Errors
/// One of the objects that were looked at could not be converted.
pub(super) async fn collect(
    api: &ApiServer,
    request: &ResourceRequest,
    state: &Redeemed,
    mut walk: ConvertedWalk,
    visibility: Option<&Visibility>,
) -> Result<ListPage, Failure> {
    let revision = state.revision();
    let mut chosen =
        ListPage { records: Vec::new(), revision, next: None, remaining: None, charge: None };
    let mut charges = Vec::new();
    loop {
        let (looked_at, last) = look(state, &walk, visibility)?;
        let ends = last.is_none();
        walk.after = last;
        charges.extend(charge(api, request, &looked_at)?.flatten());
        let converted = api.conversions.records(&request.user.name, &request.served, looked_at);
        for record in converted.await? {
            if !walk.selection.matches(&record) {
                continue;
            }
            if walk.limit > 0 && chosen.records.len() == walk.limit {
                chosen.next = chosen.records.last().map(|last| ContinueToken {
                    revision: Some(revision),
                    after: last.key().strip_prefix(&*walk.prefix).unwrap_or(last.key()).to_owned(),
                });
                return held(api, request, chosen, charges);
            }
            chosen.records.push(record);
        }
        if ends {
            return held(api, request, chosen, charges);
        }
    }
}

/// Counts what the page holds, in place of what was looked at for it.
fn held(
    api: &ApiServer,
    request: &ResourceRequest,
    mut page: ListPage,
    looked_at: Vec<BudgetGuard>,
) -> Result<ListPage, Failure> {
    drop(looked_at);
    let bytes: usize = page.records.iter().map(|record| record.bytes().len()).sum();
    page.charge = api.shares.bytes(&request.user, bytes as u64)?;
    Ok(page)
}

/// The next objects to be converted, and behind which key to go on; no key at the end.
fn look(
    state: &Redeemed,
    walk: &ConvertedWalk,
    visibility: Option<&Visibility>,
) -> Result<(Vec<Arc<Record>>, Option<String>), Failure> {
    let own = walk.selection.of_identity();
    let mut all = candidates(state, &walk.prefix, walk.after.as_deref(), &own);
    let mut found = Vec::new();
    let mut last = None;
    for record in all.by_ref().take(LOOK_AT) {
        last = Some(record.key().to_string());
        if own.matches(record) && visibility.is_none_or(|visibility| visibility.sees(record)) {
            found.push(Arc::clone(record));
        }
    }
    if all.next().is_none() {
        last = None;
    }
    if let Some(visibility) = visibility {
        let forgotten = |gone: crate::reference::Forgotten| expired(state.revision(), gone.oldest);
        found = visibility.was_seen(&found, state.revision()).map_err(forgotten)?;
    }
    Ok((found, last))
}
