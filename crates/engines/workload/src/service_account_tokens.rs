//! Secrets that hold the token of a service account (SA2).
//!
//! ```text
//!   Secret of an account ──► gets its token       account gone, or another ──► the Secret goes
//! ```
//!
//! Tokens that clients request are not made here, and keys never come here: the host draws the token.

use alloc::string::{String, ToString};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, Reliance, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};

const TOKEN: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The controller of token Secrets.
pub struct ServiceAccountTokens;

impl Controller for ServiceAccountTokens {
    fn name(&self) -> &'static str {
        "serviceaccount-token-controller"
    }
    fn alias(&self) -> &'static str {
        "serviceaccount-token"
    }
    fn account(&self) -> &'static str {
        "tokens-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Secrets, BuiltinResource::ServiceAccounts]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::Secrets {
            if let Some(secret) = change.after.filter(|secret| is_token(secret)) {
                wake(ReconcileKey::of(secret));
            }
            return;
        }
        let Some(before) = change.before else { return };
        if change.after.is_none_or(|after| owner::uid(after) != owner::uid(before)) {
            let mut secrets = view.list(BuiltinResource::Secrets, Some(before.namespace()));
            secrets.retain(|secret| is_token(secret));
            secrets.iter().for_each(|secret| wake(ReconcileKey::of(secret)));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let secret = pass.view.get(BuiltinResource::Secrets, &pass.key.namespace, &pass.key.name);
        let secret = secret.filter(|secret| is_token(secret) && !owner::deleting(secret));
        if let Some(secret) = secret {
            out.intents.extend(settle(pass, &secret));
        }
        out
    }
}

fn is_token(secret: &Object) -> bool {
    secret.str_at(&["type"]) == Some(TOKEN)
}

/// What a Secret needs to hold the token of its account; it goes where it has none.
fn settle(pass: &Pass<'_>, secret: &VersionedObject) -> Option<ControllerIntent> {
    let namespace = secret.namespace();
    let name = owner::annotation(secret, ACCOUNT_NAME).unwrap_or_default();
    let account = pass.view.get(BuiltinResource::ServiceAccounts, namespace, name);
    let wanted = owner::annotation(secret, ACCOUNT_UID).filter(|uid| !uid.is_empty());
    let Some(account) = account.filter(|a| wanted.is_none_or(|uid| uid == owner::uid(a))) else {
        return Some(
            ControllerIntent::delete(BuiltinResource::Secrets, secret)
                .unless_changed(secret.revision),
        );
    };
    let uid = owner::uid(&account);
    let mut object = Object::clone(&secret.object);
    owner::annotate(&mut object, ACCOUNT_UID, uid);
    let data = object.map_mut("data");
    put(data, "ca.crt", pass.view.authority());
    put(data, "namespace", namespace);
    let living = Reliance::Living {
        resource: BuiltinResource::ServiceAccounts,
        namespace: namespace.to_string(),
        name: name.to_string(),
        uid: uid.to_string(),
    };
    if data.str_at(&["token"]).is_none_or(str::is_empty) {
        let (name, uid) = (name.to_string(), uid.to_string());
        let issue = ControllerIntent::issue_token(object, secret.revision, name, uid);
        return Some(issue.relying_on(living));
    }
    let update = || {
        ControllerIntent::update(
            BuiltinResource::Secrets,
            object.clone(),
            UpdateEndpoint::Main,
            secret.revision,
        )
    };
    (object != *secret.object).then(update)
}

fn put(data: &mut Object, name: &str, text: &str) {
    data.insert(String::from(name), Value::String(STANDARD.encode(text)));
}
