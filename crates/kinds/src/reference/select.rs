//! What is wrong with the selectors of grants and consumers (D9, D13).
//!
//! While a selector's feature is off, it may not be written. One that is stored already may stay as it is, so that
//! finalizers and owners of the object can still be changed; it selects nothing.

use serde_json::Value;
use tenure_machinery::validate::{text, validate_label_selector};
use tenure_machinery::{Object, ObjectExt, Path};
use tenure_reference::path::JsonPath as ReferencePath;

use super::validate::ReferenceValidator;

/// The longest name of a controller, in bytes.
const CONTROLLER_BYTES_MAX: usize = 253;

impl ReferenceValidator<'_> {
    /// Namespaces by labels (D9); `old` is the origin as it was.
    pub(super) fn namespace_selector(
        &mut self,
        origin: &Object,
        old: Option<&Object>,
        path: &Path<'_>,
    ) {
        let Some(selector) = origin.map_at(&["namespaceSelector"]) else { return };
        let at = path.field("namespaceSelector");
        let is_kept = old.and_then(|old| old.map_at(&["namespaceSelector"])) == Some(selector);
        if !self.around.selectors().namespaces && !is_kept {
            return self.errors.forbidden(&at, "needs the feature gate GrantNamespaceSelector");
        }
        let written = Value::Object(selector.clone());
        if !text(origin, "namespace").is_empty() {
            let why = "namespace and namespaceSelector exclude each other";
            self.errors.invalid(&at, &written, why);
        }
        let served = self.around.served(text(origin, "group"), text(origin, "resource"));
        if served.is_some_and(|served| !served.namespaced) {
            let why = "must be absent: objects of the origin live in no namespace";
            self.errors.invalid(&at, &written, why);
        }
        validate_label_selector(selector, &at, self.errors);
    }

    /// Classes by their controller (D13).
    pub(super) fn class_selector(&mut self, consumer: &Object, old: Option<&Object>) {
        let Some(selector) = consumer.map_at(&["classSelector"]) else { return };
        let path = Path::Root.field("classSelector");
        let is_kept = old.and_then(|old| old.map_at(&["classSelector"])) == Some(selector);
        if !self.around.selectors().classes && !is_kept {
            return self.errors.forbidden(&path, "needs the feature gate ConsumerClassSelector");
        }
        self.resource(consumer, "classSelector", &Path::Root);
        let resource = text(selector, "resource");
        let served = self.around.served(text(selector, "group"), resource);
        if served.is_some_and(|served| served.namespaced) {
            let why = "objects that describe classes live in no namespace";
            self.errors.invalid(&path.field("resource"), format_args!("{resource:?}"), why);
        }
        self.controller_path(text(selector, "controllerPath"), &path.field("controllerPath"));
        let controller = text(selector, "controllerName");
        let at = path.field("controllerName");
        if controller.is_empty() {
            self.errors.required(&at, "");
        } else if controller.len() > CONTROLLER_BYTES_MAX {
            self.errors.too_long(&at, CONTROLLER_BYTES_MAX);
        }
    }

    fn controller_path(&mut self, place: &str, at: &Path<'_>) {
        if place.is_empty() {
            return self.errors.required(at, "");
        }
        if let Some(parsed) = self.path(place, at, ReferencePath::parse) {
            self.must_be_singular(&parsed, place, at);
        }
    }
}
