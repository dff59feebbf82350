//! DELETE of a collection (R77; ownership R64–R67).
//!
//! ```text
//!   records ──► begin: options, admission, finalizers, grace ──► sequencer ──► end
//!                 │ one after the other, as each stands now          │ many share a commit
//!                 └────────────── at most AT_ONCE in between ────────┘
//! ```
//!
//! Every object has its own deletion, its own guard and its own revision. Only the waiting is shared: the
//! next object is looked at while those before it are written.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use tenure_machinery::Failure;
use tenure_world::Record;

use crate::api::ApiServer;
use crate::request::ResourceRequest;
use crate::write::delete::{DeleteOptions, DeletionProgress, begin, one};

/// How many deletions of one request wait for the sequencer. Enough to keep a disk busy; few enough that
/// others' writes come in between, and that little follows a failure.
const AT_ONCE: usize = 128;

/// A deletion under way.
struct UnderWay<'a> {
    record: &'a Record,
    /// Of the object that was seen, where its kind is particular about that.
    options: Cow<'a, DeleteOptions>,
    begun: DeletionProgress,
}

/// Deletes objects of the request's kind in order, and answers when the last that was begun has ended.
///
/// One that is gone meanwhile is what was wanted. The first other failure in the order of the objects is
/// told; nothing further is begun after it, and nothing is taken back.
pub(crate) async fn delete(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &DeleteOptions,
    records: &[Arc<Record>],
) -> Result<(), Failure> {
    let mut under_way = VecDeque::new();
    let mut ended = Ok(());
    let mut begun = Ok(());
    for record in records {
        if under_way.len() >= AT_ONCE {
            ended = end_first(api, request, &mut under_way).await;
        }
        if ended.is_ok() {
            begun = begin_last(api, request, options, record, &mut under_way).await;
        }
        if ended.is_err() || begun.is_err() {
            break;
        }
    }
    while ended.is_ok() && !under_way.is_empty() {
        ended = end_first(api, request, &mut under_way).await;
    }
    // What is on its way after a failure is only waited for, so that the answer is the end of it.
    for UnderWay { begun, .. } in under_way {
        let _ = begun.end(api, request).await;
    }
    ended.and(begun)
}

/// Begins the deletion of an object behind those that are under way.
async fn begin_last<'a>(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &'a DeleteOptions,
    record: &'a Record,
    under_way: &mut VecDeque<UnderWay<'a>>,
) -> Result<(), Failure> {
    let mut options = Cow::Borrowed(options);
    loop {
        match begin(api, request, &mut options, record.namespace(), record.name()).await {
            Ok(begun) => {
                under_way.push_back(UnderWay { record, options, begun });
                return Ok(());
            }
            // The sequencer may have no room but for what is in it already.
            Err(failure) if failure.code == 429 && !under_way.is_empty() => {
                end_first(api, request, under_way).await?;
            }
            Err(failure) => return unless_gone(failure),
        }
    }
}

/// Waits for the first that is under way; if its object has moved meanwhile, it is deleted as it is now.
async fn end_first(
    api: &ApiServer,
    request: &mut ResourceRequest,
    under_way: &mut VecDeque<UnderWay<'_>>,
) -> Result<(), Failure> {
    let Some(UnderWay { record, options, begun }) = under_way.pop_front() else { return Ok(()) };
    let ended = match begun.end(api, request).await {
        Ok(Some(_)) => return Ok(()),
        Ok(None) => one(api, request, &options, record.namespace(), record.name()).await,
        Err(failure) => Err(failure),
    };
    ended.map(drop).or_else(unless_gone)
}

/// Passes over an object that is not there any more.
fn unless_gone(failure: Failure) -> Result<(), Failure> {
    if failure.code == 404 { Ok(()) } else { Err(failure) }
}
