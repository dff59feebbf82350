//! Every active namespace has the ServiceAccount `default` (SA1; api-server R80).

use alloc::string::ToString;

use serde_json::json;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Change, Controller, Key, Outcome, Pass};
use crate::intent::Intent;
use crate::owner;
use crate::resource::Resource;
use crate::view::View;

const DEFAULT: &str = "default";

/// The controller of default accounts. A key names a namespace.
pub struct ServiceAccounts;

impl Controller for ServiceAccounts {
    fn name(&self) -> &'static str {
        "serviceaccount-controller"
    }
    fn alias(&self) -> &'static str {
        "serviceaccount"
    }
    fn account(&self) -> &'static str {
        "service-account-controller"
    }
    fn is_essential(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [Resource] {
        &[Resource::Namespaces, Resource::ServiceAccounts]
    }
    fn wake(&self, change: &Change<'_>, _: &dyn View, wake: &mut dyn FnMut(Key)) {
        if change.resource == Resource::Namespaces {
            wake_new_namespace(change, wake);
        } else if change.after.is_none()
            && let Some(account) = change.before.filter(|account| account.name() == DEFAULT)
        {
            wake(Key::new("", account.namespace()));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> Outcome {
        let mut out = Outcome::default();
        let namespace = &pass.key.name;
        if is_active(pass.view, namespace)
            && pass.view.get(Resource::ServiceAccounts, namespace, DEFAULT).is_none()
        {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": DEFAULT, "namespace": namespace.to_string() },
            });
            let account: Object = account.as_object().cloned().unwrap_or_default();
            out.push(Intent::create(Resource::ServiceAccounts, account).forgiving(THERE_OR_GONE));
        }
        out
    }
}

/// Codes of a creation that was not needed: the object is there, or its namespace is gone.
pub(crate) const THERE_OR_GONE: &[u16] = &[404, 409];

/// Wakes for a namespace that is new.
pub(crate) fn wake_new_namespace(change: &Change<'_>, wake: &mut dyn FnMut(Key)) {
    if let (None, Some(namespace)) = (change.before, change.after) {
        wake(Key::of(namespace));
    }
}

/// Whether there is such a namespace, and it is not being deleted.
pub(crate) fn is_active(view: &dyn View, namespace: &str) -> bool {
    view.get(Resource::Namespaces, "", namespace).is_some_and(|found| !owner::deleting(&found))
}
