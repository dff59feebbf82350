//! Requests that the server makes of itself, through the same door as everybody.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::Failure;
use tenure_world::{Guard, Proposal, Refused, Write};

use crate::api::{Api, no_such_resource};
use crate::authenticate::User;
use crate::permit::Permit;
use crate::query::{FieldValidation, Query, WriteOptions};
use crate::registry::Served;
use crate::request::Request;
use crate::write::commit::draft;
use crate::write::managed::Fields;
use crate::write::{create, decode};

/// A request by the server itself, under the name of the upstream part that would make it.
pub(crate) fn request(served: &Arc<Served>, namespace: &str, name: &str, agent: &str) -> Request {
    Request {
        served: Arc::clone(served),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: String::new(),
        verb: Cow::Borrowed(""),
        query: Query::default(),
        accept: None,
        content_type: String::new(),
        agent: agent.to_owned(),
        gzip: false,
        user: Arc::new(User {
            name: format!("system:{agent}"),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            ..User::default()
        }),
        permit: Permit::of_server(),
        body: Bytes::new(),
        warnings: Vec::new(),
        annotations: Vec::new(),
        relied_on: Vec::new(),
        collection_objects: 0,
    }
}

/// An object the server wants to be there.
pub(crate) struct Wanted {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) namespace: String,
    pub(crate) object: Value,
}

/// Creates those of the objects that are missing, all in one transaction.
///
/// None of them may rely on another of them.
pub(crate) async fn ensure_all(api: &Api, wanted: Vec<Wanted>, agent: &str) -> Result<(), Failure> {
    loop {
        let mut proposal = Proposal::default();
        for one in &wanted {
            let served = find(api, one.group, one.resource)?;
            let Value::Object(mut object) = one.object.clone() else { continue };
            let mut request = request(&served, &one.namespace, "", agent);
            decode::check_schema(&served, &mut object).map_err(Failure::internal)?;
            decode::settle_namespace(&request, &mut object)?;
            let prepared =
                create::prepare(api, &mut request, &OPTIONS, object, Fields::Written).await;
            match prepared {
                Ok(ready) => {
                    let draft = draft(&served, &ready.object)?;
                    proposal.guards.push(Guard::At { key: Arc::clone(&ready.key), revision: None });
                    proposal.guards.extend(ready.extras.guards);
                    proposal.writes.push(Write::Put { key: ready.key, draft });
                    proposal.writes.extend(ready.extras.writes);
                }
                Err(failure) if failure.reason == "AlreadyExists" => {}
                Err(failure) => return Err(failure),
            }
        }
        if proposal.writes.is_empty() {
            return Ok(());
        }
        match api.world.propose(proposal).await {
            Ok(_) => return Ok(()),
            // Somebody made one of them meanwhile: look again.
            Err(Refused::Guard { .. }) => {}
            Err(refused) => return Err(Failure::internal(refused)),
        }
    }
}

/// Creates one object unless it is there.
pub(crate) async fn ensure(api: &Api, wanted: Wanted, agent: &str) -> Result<(), Failure> {
    ensure_all(api, vec![wanted], agent).await
}

/// How the server writes for itself.
pub(crate) const OPTIONS: WriteOptions = WriteOptions {
    dry_run: false,
    manager: None,
    validation: FieldValidation::Ignore,
    force: false,
};

/// The kind behind a resource, in any version.
pub(crate) fn find(api: &Api, group: &str, resource: &str) -> Result<Arc<Served>, Failure> {
    let registry = api.kinds.current();
    let found = registry
        .kinds()
        .iter()
        .find(|served| served.kind.group == group && served.kind.plural == resource);
    found.cloned().ok_or_else(no_such_resource)
}
