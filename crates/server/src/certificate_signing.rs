//! CertificateSigningRequests as they come in, and who signs for nodes (downward-api R133).
//!
//! Who gets a certificate is decided in engine `workload`. Keys of authorities never come here.

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::authenticate::User;

/// Holds the authority of the cluster.
pub trait CertificateSigner: Send + Sync + 'static {
    /// The certificate, in PEM form, that a request in PEM form asks for, for what this node serves; or
    /// why there is none.
    ///
    /// # Errors
    /// The request asks for something else.
    fn sign(&self, request: &str, node: &str) -> Result<String, String>;
}

/// A request is the word of who made it, whatever it says itself.
pub(crate) fn stamp(user: &User, object: &mut Object) {
    let spec = object.map_mut("spec");
    for (name, value) in [
        ("username", Value::from(user.name.as_str())),
        ("uid", Value::from(user.uid.as_str())),
        ("groups", json!(user.groups)),
        ("extra", json!(user.extra)),
    ] {
        let empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if empty {
            spec.remove(name);
        } else {
            spec.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r133_who_asks_is_what_the_server_knows() {
        let said = json!({"spec": {"username": "system:node:victim", "groups": ["system:nodes"]}});
        let mut object = said.as_object().unwrap().clone();
        let user = User {
            name: "system:node:own".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..User::default()
        };
        stamp(&user, &mut object);
        assert_eq!(object.str_at(&["spec", "username"]), Some("system:node:own"));
        assert_eq!(object.list_at(&["spec", "groups"]), [Value::from("system:authenticated")]);
    }
}
