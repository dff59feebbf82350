//! Requests that the server makes of itself, through the same door as everybody.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::{Failure, Object};

use crate::answer::Found;
use crate::api::{Api, no_such_resource};
use crate::authenticate::User;
use crate::query::{FieldValidation, Query, WriteOptions};
use crate::registry::Served;
use crate::request::Request;
use crate::write::create;
use crate::write::decode;
use crate::write::managed::Fields;

/// A request by the server itself, under the name of the upstream part that would make it.
pub(crate) fn request(served: &Arc<Served>, namespace: &str, name: &str, agent: &str) -> Request {
    Request {
        served: Arc::clone(served),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource: String::new(),
        query: Query::default(),
        accept: None,
        content_type: String::new(),
        agent: agent.to_owned(),
        gzip: false,
        user: User {
            name: format!("system:{agent}"),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
        },
        body: Bytes::new(),
        warnings: Vec::new(),
    }
}

/// Creates an object unless it is there.
pub(crate) async fn ensure(
    api: &Api,
    group: &str,
    resource: &str,
    namespace: &str,
    object: Value,
    agent: &str,
) -> Result<(), Failure> {
    let served = api
        .registry
        .kinds()
        .iter()
        .find(|served| served.kind.group == group && served.kind.plural == resource)
        .cloned()
        .ok_or_else(no_such_resource)?;
    let Value::Object(mut object) = object else { return Ok(()) };
    let mut request = request(&served, namespace, "", agent);
    decode::check_schema(&served, &mut object).map_err(Failure::internal)?;
    decode::settle_namespace(&request, &mut object)?;
    match create_object(api, &mut request, object).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.reason == "AlreadyExists" => Ok(()),
        Err(failure) => Err(failure),
    }
}

async fn create_object(api: &Api, request: &mut Request, object: Object) -> Result<Found, Failure> {
    let options = WriteOptions {
        dry_run: false,
        manager: None,
        validation: FieldValidation::Ignore,
        force: false,
    };
    create::from_object(api, request, &options, object, Fields::Written).await
}
