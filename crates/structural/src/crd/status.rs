//! The status of a definition: accepted names, conditions, stored versions, and how its end begins.
//!
//! Conditions follow from the definition and from the names that others in its group hold. Time is
//! handed in; nothing is looked up.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_machinery::validate::text;
use tenure_machinery::{Errors, Kind, Object, ObjectExt, Path, name};

use super::{APPROVAL, FINALIZER, conversion};
use crate::check;

/// Names that other definitions of a group, and kinds that need no definition, hold.
#[derive(Clone, Debug, Default)]
pub struct ReservedNames {
    /// Plurals, singulars and short names.
    pub resources: BTreeSet<String>,
    /// Kinds and kinds of lists.
    pub kinds: BTreeSet<String>,
}

impl ReservedNames {
    /// Collects what the definitions of `group` hold, but for the one called `name`.
    pub fn held<'a>(
        definitions: impl IntoIterator<Item = &'a Object>,
        group: &str,
        name: &str,
    ) -> ReservedNames {
        let mut held = ReservedNames::default();
        for crd in definitions {
            let Some(names) = crd.map_at(&["status", "acceptedNames"]) else { continue };
            if crd.str_at(&["spec", "group"]) != Some(group) || crd.name() == name {
                continue;
            }
            let mut hold = |set: fn(&mut ReservedNames) -> &mut BTreeSet<String>, text: &str| {
                if !text.is_empty() {
                    set(&mut held).insert(text.to_owned());
                }
            };
            for member in ["plural", "singular"] {
                hold(|names| &mut names.resources, text(names, member));
            }
            for short in names.list_at(&["shortNames"]).iter().filter_map(Value::as_str) {
                hold(|names| &mut names.resources, short);
            }
            for member in ["kind", "listKind"] {
                hold(|names| &mut names.kinds, text(names, member));
            }
        }
        held
    }

    /// Adds what a kind without a definition holds in its group.
    pub fn hold_builtin(&mut self, kind: &Kind) {
        let own = [&kind.plural, &kind.singular].into_iter().chain(&kind.short_names);
        self.resources.extend(own.filter(|name| !name.is_empty()).map(ToString::to_string));
        self.kinds.extend([kind.kind.to_string(), format!("{}List", kind.kind)]);
    }
}

/// Sets accepted names and conditions, given the names that others hold.
///
/// A definition whose names are free is established at once. Answers whether anything changed.
pub fn settle(crd: &mut Object, held: &ReservedNames, now: &str) -> bool {
    let before = crd.get("status").cloned();
    let (accepted, conflict) = accept(crd, held);
    crd.map_mut("status").insert("acceptedNames".to_owned(), Value::Object(accepted));
    let (status, reason, message) = match &conflict {
        None => ("True", "NoConflicts", "no name is taken".to_owned()),
        Some((reason, name)) => ("False", *reason, format!("the name {name:?} is taken")),
    };
    set_condition(crd, "NamesAccepted", status, reason, &message, now);
    if !is_established(crd) {
        match conflict {
            None if conversion::bundle_fault(crd).is_some() => {
                let message = "The conversion webhook CABundle is invalid";
                set_condition(crd, "Established", "False", "InvalidCABundle", message, now);
            }
            None => {
                let message = "the initial names have been accepted";
                set_condition(crd, "Established", "True", "InitialNamesAccepted", message, now);
            }
            Some(_) => {
                let message = "some names are not accepted";
                set_condition(crd, "Established", "False", "NotAccepted", message, now);
            }
        }
    }
    settle_structure(crd, now);
    if let Some((approval, words)) = approval(crd) {
        let (status, reason) = match approval {
            Approval::Missing => ("False", "MissingAnnotation"),
            Approval::Invalid => ("False", "InvalidAnnotation"),
            Approval::Bypassed => ("False", "UnapprovedAnnotation"),
            Approval::Given => ("True", "ApprovedAnnotation"),
        };
        let kind = "KubernetesAPIApprovalPolicyConformant";
        set_condition(crd, kind, status, reason, &words, now);
    }
    crd.get("status") != before.as_ref()
}

/// The names that a definition gets, and the last of them that it does not.
fn accept(crd: &Object, held: &ReservedNames) -> (Object, Option<(&'static str, String)>) {
    let empty = Object::new();
    let wanted = crd.map_at(&["spec", "names"]).unwrap_or(&empty);
    let had = crd.map_at(&["status", "acceptedNames"]).unwrap_or(&empty);
    let mut accepted = had.clone();
    let mut conflict = None;
    let singles = [
        ("plural", &held.resources, "PluralConflict"),
        ("singular", &held.resources, "SingularConflict"),
        ("shortNames", &held.resources, "ShortNamesConflict"),
        ("kind", &held.kinds, "KindConflict"),
        ("listKind", &held.kinds, "ListKindConflict"),
    ];
    for (member, taken, reason) in singles {
        let names: Vec<&str> = match member {
            "shortNames" => wanted.list_at(&[member]).iter().filter_map(Value::as_str).collect(),
            _ => vec![text(wanted, member)],
        };
        let owns = |name: &&&str| {
            let list = had.list_at(&[member]);
            text(had, member) == **name || list.iter().any(|own| own.as_str() == Some(**name))
        };
        match names.iter().find(|name| !owns(name) && taken.contains(**name)) {
            Some(name) => conflict = Some((reason, (*name).to_owned())),
            None => copy(&mut accepted, wanted, member),
        }
    }
    copy(&mut accepted, wanted, "categories");
    // These two are written even when they are empty.
    for member in ["plural", "kind"] {
        accepted.entry(member).or_insert_with(|| json!(""));
    }
    (accepted, conflict)
}

fn copy(to: &mut Object, from: &Object, member: &str) {
    match from
        .get(member)
        .filter(|value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()))
    {
        Some(value) => to.insert(member.to_owned(), value.clone()),
        None => to.remove(member),
    };
}

/// The condition is there only while a schema is not structural.
fn settle_structure(crd: &mut Object, now: &str) {
    let mut errors = Errors::new();
    let versions = Path::Root.field("spec").to_string();
    for (index, version) in crd.list_at(&["spec", "versions"]).iter().enumerate() {
        let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
        if let Some(schema) = schema.filter(|schema| !schema.is_null()) {
            let field = format!("{versions}.versions[{index}].schema.openAPIV3Schema");
            check::check_structure(schema, &Path::Root.field(&field), &mut errors);
        }
    }
    let said: Vec<String> =
        errors.causes().iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    if said.is_empty() {
        if let Some(Value::Array(all)) = crd.map_mut("status").get_mut("conditions") {
            all.retain(|condition| condition.get("type") != Some(&json!("NonStructuralSchema")));
        }
    } else {
        let message = format!("[{}]", said.join(", "));
        set_condition(crd, "NonStructuralSchema", "True", "Violations", &message, now);
    }
}

/// Sets a condition; its time moves with its status only.
fn set_condition(
    crd: &mut Object,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: &str,
) {
    let all = crd.map_mut("status").entry("conditions").or_insert_with(|| json!([]));
    if !all.is_array() {
        *all = json!([]);
    }
    let Some(all) = all.as_array_mut() else { return };
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": now,
        "reason": reason, "message": message});
    match all.iter_mut().find(|other| other.get("type") == Some(&json!(kind))) {
        None => all.push(condition),
        Some(known) => {
            if known.get("status") == condition.get("status")
                && let (Some(time), Some(map)) =
                    (known.get("lastTransitionTime").cloned(), condition.as_object_mut())
            {
                map.insert("lastTransitionTime".to_owned(), time);
            }
            *known = condition;
        }
    }
}

fn condition_is_true(crd: &Object, kind: &str) -> bool {
    crd.list_at(&["status", "conditions"]).iter().any(|condition| {
        condition.get("type") == Some(&json!(kind))
            && condition.get("status") == Some(&json!("True"))
    })
}

/// Whether the definition has been established, which nothing takes back.
#[must_use]
pub fn is_established(crd: &Object) -> bool {
    condition_is_true(crd, "Established")
}

/// Whether its versions are served.
#[must_use]
pub fn is_served(crd: &Object) -> bool {
    let readable = || conversion::bundle_fault(crd).is_none();
    is_established(crd) || condition_is_true(crd, "NamesAccepted") && readable()
}

/// Whether it is being deleted, so that no instance may be created.
#[must_use]
pub fn is_terminating(crd: &Object) -> bool {
    condition_is_true(crd, "Terminating")
}

/// Whether it waits for its instances to go.
#[must_use]
pub fn has_finalizer(crd: &Object) -> bool {
    crd.list_at(&["metadata", "finalizers"]).iter().any(|f| f.as_str() == Some(FINALIZER))
}

/// What a DELETE does first: the definition waits for its instances.
pub fn begin_deletion(crd: &mut Object, now: &str) {
    let waits = has_finalizer(crd);
    let meta = crd.map_mut("metadata");
    meta.set_default("deletionTimestamp", now);
    if !waits {
        let list = meta.entry("finalizers").or_insert_with(|| json!([]));
        match list.as_array_mut() {
            Some(list) => list.push(json!(FINALIZER)),
            None => *list = json!([FINALIZER]),
        }
    }
    let message = "the definition is marked for deletion; its instances will go first";
    set_condition(crd, "Terminating", "True", "InstanceDeletionPending", message, now);
}

/// Who approved a kind in a protected group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Bypassed,
    Given,
}

/// How a definition in a protected group stands; `None` for other groups.
fn approval(crd: &Object) -> Option<(Approval, String)> {
    let group = crd.str_at(&["spec", "group"]).unwrap_or_default();
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|of| {
        group.strip_suffix(of).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    if !protected {
        return None;
    }
    let said = crd.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
    let is_url = said.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.bytes().all(|b| b.is_ascii_alphanumeric())
            && !scheme.is_empty()
            && !rest.is_empty()
            && !rest.starts_with('/')
    });
    Some(if said.is_empty() {
        (Approval::Missing, format!("a protected group needs the annotation {APPROVAL:?}"))
    } else if said.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {said:?}"))
    } else if is_url {
        (Approval::Given, format!("approved in {said}"))
    } else {
        let words = "must be a URL, or a reason that starts with \"unapproved\"";
        (Approval::Invalid, format!("the annotation {APPROVAL:?} {words}"))
    })
}

/// A protected group needs an approval, unless it had none before either.
pub(super) fn validate_approval(crd: &Object, old: Option<&Object>, errors: &mut Errors) {
    let Some((now, words)) = approval(crd) else { return };
    if old.and_then(approval).is_some_and(|(before, _)| before == now) {
        return;
    }
    let meta = Path::Root.field("metadata");
    let annotations = meta.field("annotations");
    let at = annotations.key(APPROVAL);
    match now {
        Approval::Missing => errors.required(&at, &words),
        Approval::Invalid => {
            let said = crd.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default();
            errors.invalid(&at, format_args!("{said:?}"), &words);
        }
        Approval::Bypassed | Approval::Given => {}
    }
}

pub(super) fn validate(crd: &Object, errors: &mut Errors) {
    validate_accepted(crd, errors);
    let status = Path::Root.field("status");
    validate_stored(crd, &status.field("storedVersions"), errors);
}

pub(super) fn validate_accepted(crd: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    if let Some(names) = crd.map_at(&["status", "acceptedNames"]) {
        validate_names(names, &status.field("acceptedNames"), errors);
    }
}

fn validate_stored(crd: &Object, path: &Path<'_>, errors: &mut Errors) {
    let stored: Vec<&str> =
        crd.list_at(&["status", "storedVersions"]).iter().filter_map(Value::as_str).collect();
    if stored.is_empty() {
        errors.invalid(path, "[]", "must have at least one version");
        return;
    }
    let versions = crd.list_at(&["spec", "versions"]);
    let name_of = |version: &Value| {
        version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for version in versions {
        let name = name_of(version);
        let storage = version.get("storage") == Some(&Value::Bool(true));
        if storage && !stored.contains(&name.as_str()) {
            let why = format!("must have the storage version {name}");
            errors.invalid(path, format_args!("{stored:?}"), &why);
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| name_of(version) == *name) {
            let why = "must be in spec.versions, since objects may be stored in this version";
            errors.invalid(&path.index(index), format_args!("{name:?}"), why);
        }
    }
}

pub(super) fn validate_names(names: &Object, path: &Path<'_>, errors: &mut Errors) {
    for member in ["plural", "singular", "kind", "listKind"] {
        let value = text(names, member);
        let fault = match member {
            _ if value.is_empty() => None,
            "kind" | "listKind" => name::dns_1035_label(&value.to_lowercase()),
            _ => name::dns_1035_label(value),
        };
        if let Some(why) = fault {
            errors.invalid(&path.field(member), format_args!("{value:?}"), why);
        }
    }
    validate_list(names, "shortNames", path, errors);
    if !text(names, "kind").is_empty() && text(names, "kind") == text(names, "listKind") {
        let value = text(names, "listKind");
        let why = "must differ from the kind";
        errors.invalid(&path.field("listKind"), format_args!("{value:?}"), why);
    }
    validate_list(names, "categories", path, errors);
}

fn validate_list(names: &Object, member: &str, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field(member);
    for (index, value) in names.list_at(&[member]).iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        if let Some(why) = name::dns_1035_label(value) {
            errors.invalid(&list.index(index), format_args!("{value:?}"), why);
        }
    }
}
