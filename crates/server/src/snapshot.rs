//! All objects of the server at one revision, for whoever saves them (R198).
//!
//! ```text
//!   GET /tenure/snapshot ──► may they read everything? ──► the state of this moment ──► chunks, as the client takes them
//! ```
//!
//! States are immutable: nobody waits, however slow the client is. What becomes of the bytes never lives here.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use tenure_machinery::Failure;
use tenure_rbac::RequestAttributes;
use tenure_world::Transfer;

use crate::access::refusal;
use crate::api::{ApiServer, RequestLine};
use crate::authenticate::User;
use crate::authorize::Consultation;
use crate::body::{Body, BudgetedBody};
use crate::permit::Permit;
use crate::read::watch::outlet::Outlet;
use crate::response;

/// Where objects are asked for.
pub(crate) const PATH: &str = "/tenure/snapshot";
/// The type of the answer.
const CONTENT_TYPE: &str = "application/vnd.tenure.snapshot";
/// How many bytes travel together.
const CHUNK_BYTES: usize = 256 * 1024;

/// Answers with all objects.
pub(crate) async fn answer(
    api: &ApiServer,
    user: &Arc<User>,
    permit: &Permit,
    line: &RequestLine,
) -> Result<Response<Body>, Failure> {
    if line.method != Method::GET {
        let method = line.method.as_str().to_lowercase();
        return Err(Failure::method_not_allowed(&method, line.path()));
    }
    let by_role = api.access.has_role(user, &EVERYTHING);
    if !by_role {
        Consultation::default().must(&api.access, user, &EVERYTHING).await?;
    }
    // It stays open for as long as a watch may, and is counted as one.
    let open = api.shares.watch(user)?;
    let (outlet, body) = Outlet::new(Arc::clone(&api.shares), Arc::clone(user));
    let transfer = Transfer::new(api.world.current());
    let mut stop = api.stop.clone();
    let mut hold = permit.hold(&api.world);
    let (access, reader) = (Arc::clone(&api.access), Arc::clone(user));
    let may_go_on = move || {
        hold.check()?;
        match by_role && !access.has_role(&reader, &EVERYTHING) {
            true => Err(refusal(&reader, &EVERYTHING)),
            false => Ok(()),
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = send(outlet, transfer, may_go_on) => {}
            // The client finds that objects are missing.
            _ = stop.changed() => {}
        }
    });
    Ok(BudgetedBody::held(response::respond(StatusCode::OK, CONTENT_TYPE, body), open))
}

/// Sends what is left, for as long as the reader may read it.
async fn send(
    outlet: Outlet,
    mut transfer: Transfer,
    mut may_go_on: impl FnMut() -> Result<(), Failure>,
) {
    while let Some(room) = outlet.room(CHUNK_BYTES).await {
        // The client may have taken its time: what was taken away meanwhile ends the transfer.
        if may_go_on().is_err() {
            return;
        }
        let Some(chunk) = transfer.next(CHUNK_BYTES) else { return };
        room.send(chunk);
    }
}

/// A right to a path says nothing about objects: whoever gets all of them, Secrets included, must hold every
/// right to every resource.
const EVERYTHING: RequestAttributes<'static> = RequestAttributes::Resource {
    verb: "*",
    group: "*",
    resource: "*",
    subresource: "",
    namespace: "",
    name: "",
};
