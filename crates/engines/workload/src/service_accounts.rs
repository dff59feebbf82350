//! Every active namespace has the ServiceAccount `default` (SA1; api-server R80).

use alloc::string::ToString;

use serde_json::json;
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::ControllerIntent;
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::ClusterView;

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
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Namespaces, BuiltinResource::ServiceAccounts]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::Namespaces {
            wake_new_namespace(change, wake);
        } else if change.after.is_none()
            && let Some(account) = change.before.filter(|account| account.name() == DEFAULT)
        {
            wake(ReconcileKey::new("", account.namespace()));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        let mut out = ReconcileResult::default();
        let namespace = &pass.key.name;
        if is_active(pass.view, namespace)
            && pass.view.get(BuiltinResource::ServiceAccounts, namespace, DEFAULT).is_none()
        {
            let account = json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": { "name": DEFAULT, "namespace": namespace.to_string() },
            });
            let account: Object = account.as_object().cloned().unwrap_or_default();
            out.push(
                ControllerIntent::create(BuiltinResource::ServiceAccounts, account)
                    .forgiving(THERE_OR_GONE),
            );
        }
        out
    }
}

/// Codes of a creation that was not needed: the object is there, or its namespace is gone.
pub(crate) const THERE_OR_GONE: &[WriteRefusal] = &[WriteRefusal::Absent, WriteRefusal::Conflict];

/// Wakes for a namespace that is new.
pub(crate) fn wake_new_namespace(change: &ObjectChange<'_>, wake: &mut dyn FnMut(ReconcileKey)) {
    if let (None, Some(namespace)) = (change.before, change.after) {
        wake(ReconcileKey::of(namespace));
    }
}

/// Whether there is such a namespace, and it is not being deleted.
pub(crate) fn is_active(view: &dyn ClusterView, namespace: &str) -> bool {
    view.get(BuiltinResource::Namespaces, "", namespace)
        .is_some_and(|found| !owner::deleting(&found))
}
