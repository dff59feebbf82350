//! Objects of this API as they are written to a server.

use serde_json::{Value, json};
use tenure_reference::{GROUP, Grant, Resource};

/// A grant as an object. A selector of namespaces is left out: nobody who makes grants has one to give.
#[must_use]
pub fn grant_object(grant: &Grant) -> Value {
    let Resource { group, resource } = &grant.origin;
    let origin = match grant.origin_namespace.as_str() {
        "" => json!({ "group": group, "resource": resource }),
        from => json!({ "group": group, "resource": resource, "namespace": from }),
    };
    let Resource { group, resource } = &grant.target;
    json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "ReferenceGrant",
        "metadata": { "name": grant.name, "namespace": grant.namespace },
        "origin": origin,
        "target": { "group": group, "resource": resource, "names": grant.names },
        "purpose": grant.purpose,
    })
}
