//! What the server makes of itself when it starts: many objects in one transaction.

use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::{Failure, ObjectExt};
use tenure_world::{Precondition, Proposal, ProposalError, WriteOperation};

use crate::api::ApiServer;
use crate::internal::{OPTIONS, find, request};
use crate::write::commit::{self, draft};
use crate::write::decode;
use crate::write::managed::ManagedFieldsMode;
use crate::write::stages::{self, PreparedObject};

/// An object the server wants to be there.
pub(crate) struct DesiredObject {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) namespace: String,
    pub(crate) object: Value,
}

/// Creates those of the objects that are missing, all in one transaction.
///
/// None of them may rely on another of them.
pub(crate) async fn ensure_all(
    api: &ApiServer,
    wanted: Vec<DesiredObject>,
    agent: &str,
) -> Result<(), Failure> {
    loop {
        let mut proposal = Proposal::default();
        for one in &wanted {
            let served = find(api, one.group, one.resource)?;
            let Value::Object(mut object) = one.object.clone() else { continue };
            let mut request = request(&served, &one.namespace, "", agent);
            decode::check_schema(&served, &mut object).map_err(Failure::internal)?;
            decode::settle_namespace(&request, &mut object)?;
            let fields = ManagedFieldsMode::Written;
            match stages::prepare(api, &mut request, &OPTIONS, None, object, fields).await {
                Ok(PreparedObject { new, extras, .. }) => {
                    let key: Arc<str> = served.key(new.namespace(), new.name()).into();
                    let draft = draft(&served, &new)?;
                    let own = Precondition::At { key: Arc::clone(&key), revision: None };
                    let one = commit::proposal(own, WriteOperation::Put { key, draft }, extras);
                    proposal.guards.extend(one.guards);
                    proposal.writes.extend(one.writes);
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
            Err(ProposalError::Guard { .. }) => {}
            Err(refused) => return Err(Failure::internal(refused)),
        }
    }
}
