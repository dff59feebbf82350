//! Requests that the server makes of itself, on the same way as everybody's.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use tenure_machinery::Failure;

use crate::api::{ApiServer, no_such_resource};
use crate::authenticate::User;
use crate::authorize::Consultation;
use crate::permit::Permit;
use crate::query::{FieldValidation, Query, WriteOptions};
use crate::registry::ServedKind;
use crate::request::ResourceRequest;

/// A request by the server itself, under the name of the upstream part that would make it.
pub(crate) fn request(
    served: &Arc<ServedKind>,
    namespace: &str,
    name: &str,
    agent: &str,
) -> ResourceRequest {
    ResourceRequest {
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
        consultation: Consultation::default(),
        body: Bytes::new(),
        warnings: Vec::new(),
        annotations: Vec::new(),
        relied_on: Vec::new(),
        restates_identity: false,
        collection_objects: 0,
    }
}

/// How the server writes for itself.
pub(crate) const OPTIONS: WriteOptions = WriteOptions {
    dry_run: false,
    manager: None,
    validation: FieldValidation::Ignore,
    force: false,
};

/// The kind behind a resource, in any version.
pub(crate) fn find(
    api: &ApiServer,
    group: &str,
    resource: &str,
) -> Result<Arc<ServedKind>, Failure> {
    let registry = api.kinds.current();
    let found = registry
        .kinds()
        .iter()
        .find(|served| served.kind.group == group && served.kind.plural == resource);
    found.cloned().ok_or_else(no_such_resource)
}
