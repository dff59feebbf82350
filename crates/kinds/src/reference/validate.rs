//! What is wrong with an object of the three kinds (R10–R32, R84), all of it, in the order of its fields.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_machinery::validate::{objects, text, validate_frozen};
use tenure_machinery::{Errors, Kind, Object, ObjectExt, Path, name};
use tenure_reference::path::{BYTES_MAX, JsonPath as ReferencePath, JsonPathError};

use super::read::TripleView;
use super::{NAMES_MAX, ReferencePolicyKind, Surroundings, is_everybody};

const CLASSES_MAX: usize = 64;
const REFERENCES_MAX: usize = 64;
const VERSIONS_MAX: usize = 16;
const EXPRESSION_BYTES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 253;

/// Adds what is wrong with an object, and with the change if there is an old one.
pub fn validate(
    kind: &Kind,
    object: &Object,
    old: Option<&Object>,
    around: &dyn Surroundings,
    errors: &mut Errors,
) {
    let mut check = ReferenceValidator { around, errors };
    match ReferencePolicyKind::of(kind) {
        Some(ReferencePolicyKind::Strategy) => check.strategy(object, old),
        Some(ReferencePolicyKind::Consumer) => check.consumer(object, old),
        Some(ReferencePolicyKind::Grant) => check.grant(object, old),
        None => {}
    }
}

pub(super) struct ReferenceValidator<'a> {
    pub(super) around: &'a dyn Surroundings,
    pub(super) errors: &'a mut Errors,
}

impl ReferenceValidator<'_> {
    fn consumer(&mut self, consumer: &Object, old: Option<&Object>) {
        match consumer.map_at(&["subject"]) {
            Some(subject) => self.subject(subject, &Path::Root.field("subject")),
            None => self.errors.required(&Path::Root.field("subject"), ""),
        }
        self.classes(consumer);
        self.class_selector(consumer, old);
        let list = Path::Root.field("references");
        self.count(consumer, "references", REFERENCES_MAX, &Path::Root);
        let mut seen = BTreeSet::new();
        for (index, entry) in objects(consumer, "references") {
            let path = list.index(index);
            if !seen.insert(TripleView::read(entry)) {
                self.errors
                    .duplicate(&path, format_args!("{:?}", TripleView::read(entry).to_string()));
            }
            self.resource(entry, "origin", &path);
            self.resource(entry, "target", &path);
            self.purpose(entry, &path);
        }
    }

    fn subject(&mut self, subject: &Object, path: &Path<'_>) {
        let (kind, who) = (text(subject, "kind"), text(subject, "name"));
        let namespace = text(subject, "namespace");
        let is_account = kind == "ServiceAccount";
        if !matches!(kind, "Group" | "ServiceAccount" | "User") {
            let kinds = ["Group", "ServiceAccount", "User"];
            self.errors.not_supported(&path.field("kind"), kind, &kinds);
        }
        let at = path.field("name");
        if who.is_empty() {
            self.errors.required(&at, "");
        } else if is_account && let Some(why) = name::dns_subdomain(who) {
            self.errors.invalid(&at, format_args!("{who:?}"), why);
        } else if is_everybody(who) && !is_account && !self.around.lets_everybody() {
            self.errors.forbidden(&at, "a consumer must not be everybody");
        }
        let at = path.field("namespace");
        let quoted = format!("{namespace:?}");
        match (is_account, namespace) {
            (true, "") => self.errors.required(&at, "a service account lives in a namespace"),
            (true, _) => {
                if let Some(why) = name::dns_label(namespace) {
                    self.errors.invalid(&at, quoted, why);
                }
            }
            (false, "") => {}
            (false, _) if matches!(kind, "User" | "Group") => {
                let why = format!("must be empty for kind {kind}");
                self.errors.invalid(&at, quoted, &why);
            }
            // Of an unknown kind nothing is known about namespaces.
            (false, _) => {}
        }
    }

    fn classes(&mut self, consumer: &Object) {
        let list = Path::Root.field("classNames");
        let classes = consumer.list_at(&["classNames"]);
        if classes.len() > CLASSES_MAX {
            self.errors.too_many(&list, classes.len(), CLASSES_MAX);
        }
        let mut seen = BTreeSet::new();
        for (index, class) in classes.iter().filter_map(Value::as_str).enumerate() {
            let path = list.index(index);
            if !seen.insert(class) {
                self.errors.duplicate(&path, format_args!("{class:?}"));
            } else if !matches!(class, "" | "*")
                && let Some(why) = name::dns_subdomain(class)
            {
                self.errors.invalid(&path, format_args!("{class:?}"), why);
            }
        }
    }

    fn strategy(&mut self, strategy: &Object, old: Option<&Object>) {
        self.resource(strategy, "origin", &Path::Root);
        if let Some(old) = old {
            validate_frozen(strategy, old, "origin", &Path::Root, self.errors);
        }
        self.count(strategy, "versions", VERSIONS_MAX, &Path::Root);
        let list = Path::Root.field("versions");
        let mut seen = BTreeSet::new();
        for (index, versioned) in objects(strategy, "versions") {
            let path = list.index(index);
            let version = text(versioned, "version");
            let at = path.field("version");
            if version.is_empty() {
                self.errors.required(&at, "");
            } else if let Some(why) = name::dns_1035_label(version) {
                self.errors.invalid(&at, format_args!("{version:?}"), why);
            } else if !seen.insert(version) {
                self.errors.duplicate(&at, format_args!("{version:?}"));
            }
            self.class_path(versioned, &path);
            self.count(versioned, "references", REFERENCES_MAX, &path);
            let list = path.field("references");
            for (index, entry) in objects(versioned, "references") {
                self.reference(entry, &list.index(index));
            }
        }
    }

    fn class_path(&mut self, versioned: &Object, path: &Path<'_>) {
        let class = text(versioned, "classPath");
        let at = path.field("classPath");
        if let Some(parsed) = self.path(class, &at, ReferencePath::parse) {
            self.must_be_singular(&parsed, class, &at);
        }
    }

    pub(super) fn must_be_singular(&mut self, path: &ReferencePath, text: &str, at: &Path<'_>) {
        if !path.is_singular() {
            let why = "must lead to one value: no wildcard, filter, slice or union";
            self.errors.invalid(at, format_args!("{text:?}"), why);
        }
    }

    fn reference(&mut self, entry: &Object, path: &Path<'_>) {
        let (place, expression) = (text(entry, "path"), text(entry, "expression"));
        match (place.is_empty(), expression.is_empty()) {
            (false, false) => {
                let why = "path and expression exclude each other";
                self.errors.invalid(path, format_args!("{place:?}"), why);
            }
            (true, true) => {
                self.errors
                    .required(&path.field("path"), "a reference has a path or an expression");
            }
            _ => {}
        }
        self.path(place, &path.field("path"), ReferencePath::parse);
        self.resource(entry, "target", path);
        self.purpose(entry, path);
        let beside = text(entry, "namespacePath");
        self.path(beside, &path.field("namespacePath"), ReferencePath::parse_relative);
        let at = path.field("expression");
        if expression.len() > EXPRESSION_BYTES_MAX {
            self.errors.too_long(&at, EXPRESSION_BYTES_MAX);
        } else if !expression.is_empty()
            && let Some(why) = self.around.expression_fault(expression)
        {
            self.errors.invalid(&at, format_args!("{expression:?}"), &why);
        }
    }

    /// A path that parses, if there is one; what is wrong with it is said.
    pub(super) fn path(
        &mut self,
        text: &str,
        at: &Path<'_>,
        parse: fn(&str) -> Result<ReferencePath, JsonPathError>,
    ) -> Option<ReferencePath> {
        if text.is_empty() {
            return None;
        }
        if text.len() > BYTES_MAX {
            self.errors.too_long(at, BYTES_MAX);
            return None;
        }
        match parse(text) {
            Ok(path) => Some(path),
            Err(error) => {
                self.errors.invalid(at, format_args!("{text:?}"), &error.to_string());
                None
            }
        }
    }

    fn grant(&mut self, grant: &Object, old: Option<&Object>) {
        self.resource(grant, "origin", &Path::Root);
        if let Some(origin) = grant.map_at(&["origin"]) {
            let path = Path::Root.field("origin");
            self.origin_namespace(origin, &path.field("namespace"));
            let old = old.and_then(|old| old.map_at(&["origin"]));
            self.namespace_selector(origin, old, &path);
        }
        self.resource(grant, "target", &Path::Root);
        let list = Path::Root.field("target");
        let list = list.field("names");
        let names = grant.list_at(&["target", "names"]);
        if names.len() > NAMES_MAX {
            self.errors.too_many(&list, names.len(), NAMES_MAX);
        }
        let mut seen = BTreeSet::new();
        for (index, name) in names.iter().filter_map(Value::as_str).enumerate() {
            let path = list.index(index);
            if let Some(why) = name_fault(name) {
                self.errors.invalid(&path, format_args!("{name:?}"), why);
            } else if !seen.insert(name) {
                self.errors.duplicate(&path, format_args!("{name:?}"));
            }
        }
        self.purpose(grant, &Path::Root);
    }

    fn origin_namespace(&mut self, origin: &Object, path: &Path<'_>) {
        let namespace = text(origin, "namespace");
        let served = self.around.served(text(origin, "group"), text(origin, "resource"));
        match (namespace, served.map(|served| served.namespaced)) {
            ("", _) if origin.map_at(&["namespaceSelector"]).is_some() => {}
            ("", Some(true)) => {
                self.errors.required(path, "objects of the origin live in namespaces");
            }
            ("", _) => {}
            (_, Some(false)) => {
                let why = "must be empty: objects of the origin live in no namespace";
                self.errors.invalid(path, format_args!("{namespace:?}"), why);
            }
            (_, _) => {
                if let Some(why) = name::dns_label(namespace) {
                    self.errors.invalid(path, format_args!("{namespace:?}"), why);
                }
            }
        }
    }

    /// A group and a resource under a member that must be there.
    pub(super) fn resource(&mut self, object: &Object, member: &str, path: &Path<'_>) {
        let path = path.field(member);
        let Some(named) = object.map_at(&[member]) else {
            self.errors.required(&path, "");
            return;
        };
        let at = path.field("group");
        let group = text(named, "group");
        let quoted = format!("{group:?}");
        if !named.contains_key("group") {
            self.errors.required(&at, "the core group is written as \"\"");
        } else if group == "core" {
            self.errors.invalid(&at, quoted, "the core group is written as \"\"");
        } else if !group.is_empty()
            && let Some(why) = name::dns_subdomain(group)
        {
            self.errors.invalid(&at, quoted, why);
        }
        let at = path.field("resource");
        let resource = text(named, "resource");
        if resource.is_empty() {
            self.errors.required(&at, "");
        } else if let Some(why) = name::dns_1035_label(resource) {
            let why = match self.around.resource_of(group, resource) {
                Some(plural) => format!("{why}; the resource of kind {resource} is {plural:?}"),
                None => why.to_owned(),
            };
            self.errors.invalid(&at, format_args!("{resource:?}"), &why);
        }
    }

    fn purpose(&mut self, object: &Object, path: &Path<'_>) {
        let purpose = text(object, "purpose");
        let at = path.field("purpose");
        if purpose.is_empty() {
            self.errors.required(&at, "");
        } else if let Some(why) = name::dns_1035_label(purpose) {
            self.errors.invalid(&at, format_args!("{purpose:?}"), why);
        }
    }

    /// A list that has something, and not too much.
    fn count(&mut self, object: &Object, member: &str, max: usize, path: &Path<'_>) {
        let at = path.field(member);
        match object.list_at(&[member]).len() {
            0 => self.errors.required(&at, "needs at least one"),
            count if count > max => self.errors.too_many(&at, count, max),
            _ => {}
        }
    }
}

/// Why a text cannot be the name of a target; a pattern is no name (D18).
fn name_fault(text: &str) -> Option<&'static str> {
    match text {
        "" => Some("must not be empty"),
        "*" => Some("names are exact; there is no wildcard"),
        _ if text.len() > NAME_BYTES_MAX => Some("may not be more than 253 bytes"),
        _ => name::path_segment(text),
    }
}
