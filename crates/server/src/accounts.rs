//! What service accounts leave in namespaces: token secrets, and the certificate of the authority.
//!
//! ```text
//!   Secret of an account ──► gets its token       account gone ──► the Secret goes
//!   kube-root-ca.crt edited ──► as it was
//! ```
//!
//! Law: `spec/workload-controllers.md` SA1, SA2. Tokens that clients request are not made here.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_token::{LegacyClaims, Subject, issue_legacy};
use tenure_world::{Change, Guard, Record, World, Write};

use crate::api::Api;
use crate::internal;
use crate::write::commit::{Extras, draft, propose};

const SECRETS: &str = "/registry/secrets/";
const ACCOUNTS: &str = "/registry/serviceaccounts/";
const CONFIG_MAPS: &str = "/registry/configmaps/";
const AUTHORITY: &str = "/kube-root-ca.crt";
const TOKEN: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

fn is_token(record: &Record) -> bool {
    record.key().starts_with(SECRETS) && record.field("type") == Some(TOKEN)
}

fn is_authority(key: &str) -> bool {
    key.starts_with(CONFIG_MAPS) && key.ends_with(AUTHORITY)
}

/// What a change may have made wrong.
pub(crate) fn touches(state: &World, change: &Change, keys: &mut BTreeSet<Arc<str>>) {
    let key = &change.key;
    if let Some(after) = &change.after
        && (is_token(after) || is_authority(key))
    {
        keys.insert(Arc::clone(key));
    }
    let Some(before) = change.before.as_ref().filter(|_| key.starts_with(ACCOUNTS)) else { return };
    if change.after.as_ref().is_none_or(|after| after.uid() != before.uid()) {
        let here = format!("{SECRETS}{}/", before.namespace());
        let tokens = state.range(&here, None).filter(|record| is_token(record));
        keys.extend(tokens.map(|record| Arc::clone(record.key())));
    }
}

/// Everything that is looked at once when following begins.
pub(crate) fn all(state: &World) -> BTreeSet<Arc<str>> {
    let tokens = state.range(SECRETS, None).filter(|record| is_token(record));
    let authorities = state.range(CONFIG_MAPS, None).filter(|record| is_authority(record.key()));
    tokens.chain(authorities).map(|record| Arc::clone(record.key())).collect()
}

/// Brings one of them right.
pub(crate) async fn settle(api: &Api, key: &str) -> Result<(), Failure> {
    let state = api.world.current();
    let Some(record) = state.get(key).filter(|record| !record.deleting()) else { return Ok(()) };
    let resource = if is_authority(key) { "configmaps" } else { "secrets" };
    let served = internal::find(api, "", resource)?;
    let old = served.read(record)?;
    let new =
        if is_authority(key) { authority(api, &old) } else { token(api, &state, record, &old)? };
    if new.as_ref() == Some(&old) {
        return Ok(());
    }
    let key = Arc::clone(record.key());
    let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
    let write = match &new {
        None => Write::Delete { key },
        Some(new) => Write::Put { key, draft: draft(&served, new)? },
    };
    // A lost race comes by again as a change.
    propose(&api.world, own, write, Extras::default()).await.map(|_| ())
}

/// The ConfigMap with nothing but the certificate.
fn authority(api: &Api, old: &Object) -> Option<Object> {
    let mut new = old.clone();
    new.insert("data".to_owned(), json!({"ca.crt": api.authority_pem}));
    new.remove("binaryData");
    Some(new)
}

/// The Secret with its token; `None` when its account is not there.
fn token(
    api: &Api,
    state: &World,
    record: &Record,
    old: &Object,
) -> Result<Option<Object>, Failure> {
    let annotation = |name: &str| old.str_at(&["metadata", "annotations", name]);
    let name = annotation(ACCOUNT_NAME).unwrap_or_default();
    let Some(account) = state.get(&format!("{ACCOUNTS}{}/{name}", record.namespace())) else {
        return Ok(None);
    };
    let uid = annotation(ACCOUNT_UID).filter(|uid| !uid.is_empty());
    if uid.is_some_and(|uid| uid != account.uid()) {
        return Ok(None);
    }
    let mut new = old.clone();
    let annotations = new.map_mut("metadata").map_mut("annotations");
    annotations.insert(ACCOUNT_UID.to_owned(), account.uid().into());
    let data = new.map_mut("data");
    let put = |data: &mut Object, name: &str, text: &str| {
        data.insert(name.to_owned(), Value::String(STANDARD.encode(text)));
    };
    put(data, "ca.crt", &api.authority_pem);
    put(data, "namespace", record.namespace());
    if data.get("token").and_then(Value::as_str).is_none_or(str::is_empty) {
        put(data, "token", &signed(api, record, account)?);
    }
    Ok(Some(new))
}

/// A token for the account that counts while the Secret holds it.
fn signed(api: &Api, secret: &Record, account: &Record) -> Result<String, Failure> {
    let subject = Subject {
        namespace: account.namespace().to_owned(),
        name: account.name().to_owned(),
        uid: account.uid().to_owned(),
    };
    let claims = LegacyClaims { subject, secret: secret.name().to_owned() };
    issue_legacy(&api.tokens.keys, &claims).map_err(Failure::internal)
}
