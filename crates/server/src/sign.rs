//! Certificates for what nodes serve (downward-api R133): a node asks by a CertificateSigningRequest,
//! and gets one that names that node and nothing else.
//!
//! ```text
//!   CertificateSigningRequest, kubernetes.io/kubelet-serving, by system:node:<name>
//!       ──► asked as it should be ──► Signer ──► Approved, and the certificate in the status
//!       ──► not so                ──► Denied, with a sentence
//! ```
//!
//! Requests to other signers wait for those, and so do requests that no node of the cluster made: nobody
//! is approved by asking. Keys of authorities never come here.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Change, Guard, Record, World, Write};

use crate::api::Api;
use crate::authenticate::User;
use crate::clock::now;
use crate::internal;
use crate::node::node_of;
use crate::write::commit::{Extras, draft, propose};

const PREFIX: &str = "/registry/certificatesigningrequests/";
/// Where nodes are stored.
const NODES: &str = "/registry/minions/";
const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// What the certificate of a server is for.
const USAGES: [&str; 3] = ["digital signature", "key encipherment", "server auth"];

/// Holds the authority of the cluster.
pub trait Signer: Send + Sync + 'static {
    /// The certificate, in PEM form, that a request in PEM form asks for, for what this node serves; or
    /// why there is none.
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

/// What a change may have brought: a request, or the node that one was made by.
pub(crate) fn touches(state: &World, change: &Change, keys: &mut BTreeSet<Arc<str>>) {
    if change.after.is_none() {
        return;
    }
    if change.key.starts_with(PREFIX) {
        keys.insert(Arc::clone(&change.key));
    }
    if change.before.is_none() && change.key.starts_with(NODES) {
        keys.extend(all(state));
    }
}

/// Everything that is looked at once when following begins.
pub(crate) fn all(state: &World) -> impl Iterator<Item = Arc<str>> {
    state.range(PREFIX, None).map(|record| Arc::clone(record.key()))
}

/// Answers one request, if it is for us and has no answer yet.
pub(crate) async fn settle(api: &Api, key: &str) -> Result<(), Failure> {
    let Some(signer) = api.signer.get() else { return Ok(()) };
    let state = api.world.current();
    let Some(record) = state.get(key).filter(|record| !record.deleting()) else { return Ok(()) };
    let served = internal::find(api, "certificates.k8s.io", "certificatesigningrequests")?;
    let old = served.read(record)?;
    let known = |node: &str| state.get(&format!("{NODES}{node}")).is_some();
    let Some(new) = answered(&old, signer.as_ref(), known) else { return Ok(()) };
    let key = Arc::clone(Record::key(record));
    let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
    let write = Write::Put { key, draft: draft(&served, &new)? };
    // A lost race comes by again as a change.
    propose(&api.world, own, write, Extras::default()).await.map(|_| ())
}

/// The request with its answer; `None` where there is nothing to say.
fn answered(request: &Object, signer: &dyn Signer, known: impl Fn(&str) -> bool) -> Option<Object> {
    let ours = request.str_at(&["spec", "signerName"]) == Some(SIGNER);
    let conditions = request.list_at(&["status", "conditions"]);
    if !ours || !conditions.is_empty() || request.at(&["status", "certificate"]).is_some() {
        return None;
    }
    let user = User {
        name: request.str_at(&["spec", "username"]).unwrap_or_default().to_owned(),
        groups: texts(request, "groups"),
        ..User::default()
    };
    let node = node_of(&user).filter(|node| !node.is_empty() && known(node))?;
    let (kind, reason, message, certificate) = match certificate(request, node, signer) {
        Ok(certificate) => {
            ("Approved", "NodeServes", "a node asked for itself".into(), certificate)
        }
        Err(why) => ("Denied", "NotAsItShouldBe", why, String::new()),
    };
    let (mut new, now) = (request.clone(), now());
    let status = new.map_mut("status");
    let condition = json!({
        "type": kind, "status": "True", "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": now,
    });
    status.insert("conditions".to_owned(), json!([condition]));
    if !certificate.is_empty() {
        status.insert("certificate".to_owned(), STANDARD.encode(certificate).into());
    }
    Some(new)
}

fn texts(request: &Object, name: &str) -> Vec<String> {
    let list = request.list_at(&["spec", name]).iter().filter_map(Value::as_str);
    list.map(str::to_owned).collect()
}

fn certificate(request: &Object, node: &str, signer: &dyn Signer) -> Result<String, String> {
    let usages = texts(request, "usages");
    if !usages.iter().any(|usage| usage == "server auth")
        || usages.iter().any(|usage| !USAGES.contains(&usage.as_str()))
    {
        return Err(format!("the usages must be `server auth` and at most {USAGES:?}"));
    }
    let text = request.str_at(&["spec", "request"]).unwrap_or_default();
    let text = STANDARD.decode(text).map_err(|error| error.to_string())?;
    signer.sign(&String::from_utf8_lossy(&text), node)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    struct Echo;

    impl Signer for Echo {
        fn sign(&self, request: &str, node: &str) -> Result<String, String> {
            if request == "bad" { Err("no request".into()) } else { Ok(format!("for {node}")) }
        }
    }

    fn request(user: &str, group: &str, usages: &[&str], text: &str) -> Object {
        let value = json!({
            "metadata": {"name": "csr"},
            "spec": {
                "signerName": SIGNER, "request": STANDARD.encode(text), "usages": usages,
                "username": user, "groups": [group],
            },
            "status": {},
        });
        value.as_object().unwrap().clone()
    }

    #[test]
    fn r133_a_node_gets_a_certificate_for_itself_and_nobody_else_gets_one() {
        let usages = ["digital signature", "server auth"];
        let good = request("system:node:a", "system:nodes", &usages, "text");
        let known = |node: &str| node == "a";
        let new = answered(&good, &Echo, known).unwrap();
        let signed = new.str_at(&["status", "certificate"]).unwrap();
        assert_eq!(STANDARD.decode(signed).unwrap(), b"for a");
        assert_eq!(new.list_at(&["status", "conditions"])[0]["type"], "Approved");
        assert!(answered(&new, &Echo, known).is_none(), "an answer stands");
        // Nobody is approved by asking, and only nodes of the cluster are answered.
        for other in [
            request("system:node:a", "system:masters", &usages, "text"),
            request("kubernetes-admin", "system:nodes", &usages, "text"),
            request("system:node:", "system:nodes", &usages, "text"),
            request("system:node:b", "system:nodes", &usages, "text"),
        ] {
            assert!(answered(&other, &Echo, known).is_none(), "{other:?}");
        }
        for bad in [
            request("system:node:a", "system:nodes", &["server auth", "client auth"], "text"),
            request("system:node:a", "system:nodes", &["digital signature"], "text"),
            request("system:node:a", "system:nodes", &usages, "bad"),
        ] {
            let new = answered(&bad, &Echo, known).unwrap();
            assert_eq!(new.list_at(&["status", "conditions"])[0]["type"], "Denied", "{new:?}");
            assert!(new.at(&["status", "certificate"]).is_none());
        }
        let mut other = good.clone();
        other.map_mut("spec").insert("signerName".to_owned(), "example.com/own".into());
        assert!(answered(&other, &Echo, known).is_none());
    }

    #[test]
    fn r133_who_asks_is_what_the_server_knows() {
        let mut object = request("system:node:victim", "system:nodes", &["server auth"], "text");
        let user = User {
            name: "system:node:own".to_owned(),
            groups: vec!["system:authenticated".to_owned()],
            ..User::default()
        };
        stamp(&user, &mut object);
        assert_eq!(object.str_at(&["spec", "username"]), Some("system:node:own"));
        assert_eq!(object.list_at(&["spec", "groups"]), [Value::from("system:authenticated")]);
        assert!(answered(&object, &Echo, |_| true).is_none());
    }
}
