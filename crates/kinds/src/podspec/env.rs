//! Environment variables and what they, and files in volumes, may refer to.

use tenure_core::field_path::{
    Extra, FieldPath, FieldPathErrorKind, FieldPathTarget, KeyedMap, split_subscript,
};
use tenure_machinery::quantity::{self, Quantity};
use tenure_machinery::{Errors, Object, Path};

use crate::podspec::text;
use crate::podspec::view::{has, items, map, text as text_of};

/// Owner references pass here; where the feature is off the server refuses them afterwards, since only
/// it knows what was stored before ([`crate::podspec::Withheld`]).
const EXTRA: Extra = Extra { owner_references: true, volume_parity: false };

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTE_DIVISORS: &[&str] =
    &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// The list `env` of a container.
pub(crate) fn validate_env(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("env");
    for (index, variable) in items(container, "env").enumerate() {
        let at = list.index(index);
        match text_of(variable, "name") {
            "" => errors.required(&at.field("name"), ""),
            name => text::env_name(name, &at.field("name"), errors),
        }
        if let Some(source) = map(variable, "valueFrom") {
            let filled = !text_of(variable, "value").is_empty();
            validate_source(source, filled, &at.field("valueFrom"), errors);
        }
    }
}

fn validate_source(source: &Object, has_value: bool, path: &Path<'_>, errors: &mut Errors) {
    let mut count = 0;
    if let Some(reference) = map(source, "fieldRef") {
        count += 1;
        validate_field_path(reference, FieldPathTarget::Env, &path.field("fieldRef"), errors);
    }
    if let Some(reference) = map(source, "resourceFieldRef") {
        count += 1;
        validate_resource_field(reference, false, &path.field("resourceFieldRef"), errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = map(source, name) {
            count += 1;
            let at = path.field(name);
            text::dns_subdomain(text_of(reference, "name"), &at.field("name"), errors);
            match text_of(reference, "key") {
                "" => errors.required(&at.field("key"), ""),
                key => text::config_key(key, &at.field("key"), errors),
            }
        }
    }
    if let Some(reference) = map(source, "fileKeyRef") {
        count += 1;
        validate_file_key(reference, &path.field("fileKeyRef"), errors);
    }
    if count == 0 {
        let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "\"\"", why);
    } else if has_value {
        errors.invalid(path, "\"\"", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(path, "\"\"", "may not have more than one field specified at a time");
    }
}

fn validate_file_key(reference: &Object, path: &Path<'_>, errors: &mut Errors) {
    match text_of(reference, "key") {
        "" => errors.required(&path.field("key"), ""),
        key => text::env_name(key, &path.field("key"), errors),
    }
    match text_of(reference, "volumeName") {
        "" => errors.required(&path.field("volumeName"), ""),
        name => text::dns_label(name, &path.field("volumeName"), errors),
    }
    match text_of(reference, "path") {
        "" => errors.required(&path.field("path"), ""),
        file => text::path_without_backsteps(file, &path.field("path"), errors),
    }
}

/// A `fieldRef` against the paths its place allows.
pub(crate) fn validate_field_path(
    reference: &Object,
    scope: FieldPathTarget,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let version = text_of(reference, "apiVersion");
    let field = text_of(reference, "fieldPath");
    if version.is_empty() {
        errors.required(&path.field("apiVersion"), "");
        return;
    }
    if field.is_empty() {
        errors.required(&path.field("fieldPath"), "");
        return;
    }
    if version != "v1" {
        let why = format!("error converting fieldPath: unsupported pod version: {version}");
        errors.invalid(&path.field("fieldPath"), format_args!("{field:?}"), &why);
        return;
    }
    match FieldPath::parse(field) {
        Ok(FieldPath::Whole(field)) => {
            // What a server withholds is refused where its features are known.
            let offered = Extra { volume_parity: true, ..EXTRA };
            if !scope.allows(field, offered) {
                let allowed: Vec<&str> = scope.allowed(EXTRA).collect();
                errors.not_supported(&path.field("fieldPath"), field.as_str(), &allowed);
            }
        }
        // Annotation keys are compared without regard to case, so their prefix may be upper-case.
        Ok(FieldPath::Key { map: KeyedMap::Annotations, key, escaped: false }) => {
            text::qualified_name(&key.to_lowercase(), path, errors);
        }
        // A key with escapes can never be set; it is accepted with a warning (R5, R8).
        Ok(FieldPath::Key { map: KeyedMap::Annotations, escaped: true, .. }) => {}
        Ok(FieldPath::Key { map: KeyedMap::Labels, key, .. }) => {
            text::qualified_name(&key, path, errors);
        }
        Err(error)
            if matches!(
                error.fault,
                FieldPathErrorKind::Unknown | FieldPathErrorKind::NoSubscript
            ) =>
        {
            let why = format!("error converting fieldPath: {error}");
            errors.invalid(&path.field("fieldPath"), format_args!("{field:?}"), &why);
        }
        // What is wrong with a key is told of the reference, not of its path (R14a).
        Err(error) => {
            let key = split_subscript(field).map_or("", |(_, key)| key);
            errors.invalid(path, format_args!("{key:?}"), &error.to_string());
        }
    }
}

/// A `resourceFieldRef`; in volumes it must name the container.
pub(crate) fn validate_resource_field(
    reference: &Object,
    in_volume: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let resource = text_of(reference, "resource");
    let huge =
        resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && text_of(reference, "containerName").is_empty() {
        errors.required(&path.field("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.field("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.not_supported(&path.field("resource"), resource, RESOURCES);
    }
    let divisor = text_of(reference, "divisor");
    if Quantity::parse(divisor).is_none_or(Quantity::is_zero) {
        return;
    }
    let written = quantity::canonical(divisor).unwrap_or_default();
    let allowed: &[&str] = match resource {
        "limits.cpu" | "requests.cpu" => &["1m", "1"],
        _ if huge || RESOURCES.contains(&resource) => BYTE_DIVISORS,
        _ => return,
    };
    if !allowed.contains(&written.as_str()) {
        let why = format!("only the divisors {} are supported", allowed.join(", "));
        errors.invalid(&path.field("divisor"), format_args!("{resource:?}"), &why);
    }
}

/// The list `envFrom` of a container.
pub(crate) fn validate_env_from(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("envFrom");
    for (index, source) in items(container, "envFrom").enumerate() {
        let at = list.index(index);
        match text_of(source, "prefix") {
            "" => {}
            prefix => text::env_name(prefix, &at.field("prefix"), errors),
        }
        let mut count = 0;
        for name in ["configMapRef", "secretRef"] {
            if let Some(reference) = map(source, name) {
                count += 1;
                let at = at.field(name);
                match text_of(reference, "name") {
                    "" => errors.required(&at.field("name"), ""),
                    name => text::dns_subdomain(name, &at.field("name"), errors),
                }
            }
        }
        // Both causes name the list, not the item.
        if count == 0 {
            errors.invalid(&list, "\"\"", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errors.invalid(&list, "\"\"", "may not have more than one field specified at a time");
        }
    }
}

/// Volumes that variables read files from must be there and be scratch space.
pub(crate) fn validate_file_key_volumes(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let containers = path.field(list);
        for (index, container) in items(spec, list).enumerate() {
            let container_path = containers.index(index);
            let env = container_path.field("env");
            for (position, variable) in items(container, "env").enumerate() {
                let reference = map(variable, "valueFrom").and_then(|from| map(from, "fileKeyRef"));
                let Some(name) = reference.map(|r| text_of(r, "volumeName")) else { continue };
                let at = env.index(position);
                let at = at.field("valueFrom");
                let at = at.field("fileKeyRef");
                let at = at.field("volumeName");
                match items(spec, "volumes").filter(|v| text_of(v, "name") == name).last() {
                    None => errors.not_found(&at, format_args!("{name:?}")),
                    Some(volume) if !has(volume, "emptyDir") => {
                        let why = "referenced volume must be of type emptyDir";
                        errors.invalid(&at, format_args!("{name:?}"), why);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
