//! The kind CustomResourceDefinition: its defaults, its rules, its conditions, and what it defines.
//!
//! Pure functions of one definition and of the names that others hold. Serving what is defined,
//! deleting instances and keeping time belong to the server.

mod conversion;
mod spec;
mod status;
mod version;

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::custom::RuleEngine;
use crate::format::Format;
use crate::raw::{self, Raw};
use crate::schema::JsonType;

pub use status::{
    ReservedNames, begin_deletion, has_finalizer, is_established, is_served, is_terminating, settle,
};
pub use version::{CustomVersion, ScalePaths, kinds, stored_kinds, versions};

/// The finalizer that keeps a definition until its instances are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// The annotation that says who approved a kind in a protected group.
pub const APPROVAL: &str = "api-approved.kubernetes.io";

/// The rules of definitions.
pub struct CustomResourceDefinitionRules {
    /// Compiles the rules that schemas carry; without it they are not looked into.
    pub engine: Option<Arc<dyn RuleEngine>>,
}

impl Rules for CustomResourceDefinitionRules {
    fn default(&self, crd: &mut Object) {
        let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = names.str_at(&["kind"]).unwrap_or_default().to_owned();
            if !kind.is_empty() {
                default_text(names, "singular", kind.to_lowercase());
                default_text(names, "listKind", format!("{kind}List"));
            }
        }
        spec.set_default("conversion", json!({"strategy": "None"}));
        let service = spec
            .get_mut("conversion")
            .and_then(|conversion| conversion.get_mut("webhook"))
            .and_then(|webhook| webhook.get_mut("clientConfig"))
            .and_then(|config| config.get_mut("service"))
            .and_then(Value::as_object_mut);
        if let Some(service) = service {
            service.set_default("port", 443);
        }
    }

    fn prepare_create(&self, crd: &mut Object, _: &Cx) {
        crd.insert("status".to_owned(), json!({}));
        add_stored_version(crd);
    }

    fn prepare_update(&self, crd: &mut Object, old: &Object, _: &Cx) {
        match old.get("status") {
            Some(status) => crd.insert("status".to_owned(), status.clone()),
            None => crd.remove("status"),
        };
        add_stored_version(crd);
    }

    fn validate(&self, crd: &Object, errors: &mut Errors) {
        // Definitions are large and seldom written, and their rules must be compiled.
        if errors.is_hasty() {
            errors.give_up();
            return;
        }
        let stored = crd.str_at(&["metadata", "resourceVersion"]).is_some_and(|v| !v.is_empty());
        if !stored {
            validate_name(crd, errors);
        }
        spec::validate(crd, self.engine.as_deref(), errors);
        status::validate(crd, errors);
        if !stored {
            status::validate_approval(crd, None, errors);
        }
        if crd.bool_at(&["spec", "preserveUnknownFields"]) == Some(true) {
            let path = Path::Root.field("spec");
            let why = "must not be true; use x-kubernetes-preserve-unknown-fields in the schema";
            errors.invalid(&path.field("preserveUnknownFields"), true, why);
        }
    }

    fn validate_update(&self, crd: &Object, old: &Object, errors: &mut Errors) {
        spec::validate_change(crd, old, errors);
        conversion::validate_change(crd, old, status::is_established(old), errors);
        status::validate_approval(crd, Some(old), errors);
    }

    fn validate_status(&self, crd: &Object, _: &Object, errors: &mut Errors) {
        status::validate_accepted(crd, errors);
    }

    fn warnings(&self, crd: &Object, old: Option<&Object>) -> Vec<String> {
        let known = old.map(unknown_formats).unwrap_or_default();
        let mut found = unknown_formats(crd);
        found.retain(|format| !known.contains(format));
        found.into_iter().map(|format| format!("unrecognized format {format:?}")).collect()
    }
}

fn default_text(object: &mut Object, member: &str, text: String) {
    if object.str_at(&[member]).is_none_or(str::is_empty) {
        object.insert(member.to_owned(), text.into());
    }
}

fn validate_name(crd: &Object, errors: &mut Errors) {
    let text = |path: &[&str]| crd.str_at(path).unwrap_or_default().to_owned();
    let wanted = format!("{}.{}", text(&["spec", "names", "plural"]), text(&["spec", "group"]));
    if crd.name() != wanted {
        let path = Path::Root.field("metadata");
        let why = "must be the plural name, a dot and the group";
        errors.invalid(&path.field("name"), format_args!("{:?}", crd.name()), why);
    }
}

/// The storage version joins the versions that may be found in storage.
fn add_stored_version(crd: &mut Object) {
    let storage = crd
        .list_at(&["spec", "versions"])
        .iter()
        .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
        .and_then(|version| version.get("name").cloned());
    let Some(name) = storage else { return };
    let status = crd.map_mut("status");
    match status.get_mut("storedVersions") {
        Some(Value::Array(stored)) if stored.contains(&name) => {}
        Some(Value::Array(stored)) => stored.push(name),
        _ => {
            status.insert("storedVersions".to_owned(), json!([name]));
        }
    }
}

/// Formats in the schemas that nobody enforces, sorted.
fn unknown_formats(crd: &Object) -> Vec<String> {
    let mut found = Vec::new();
    for version in crd.list_at(&["spec", "versions"]) {
        let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
        let Some(schema) = schema.and_then(Raw::new) else { continue };
        raw::walk(schema, &mut |schema| {
            let format = schema.text("format");
            let kind = JsonType::named(schema.kind());
            if !format.is_empty() && Format::named(format, kind).is_none() {
                found.push(format.to_owned());
            }
        });
    }
    found.sort();
    found.dedup();
    found
}
