//! Checks of texts that push one cause for each thing wrong, as clients count them.
//!
//! The checks of `tenure_machinery::name` say whether a text is good; these say how often it is not.

use tenure_machinery::{Errors, Path, name};

/// Pushes each message against `path`.
fn report(value: &str, path: &Path<'_>, errors: &mut Errors, wrong: &[(bool, &str)]) {
    for (_, why) in wrong.iter().filter(|(is_wrong, _)| *is_wrong) {
        errors.invalid(path, format_args!("{value:?}"), why);
    }
}

/// A DNS label: too long and badly formed are two causes.
pub fn dns_label(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let shape = shape_is(value, |part| name::dns_label(part).is_none());
    report(
        value,
        path,
        errors,
        &[
            (value.len() > 63, "must be no more than 63 bytes"),
            (!shape, "must be a lowercase RFC 1123 label"),
        ],
    );
}

/// A DNS subdomain: too long and badly formed are two causes.
pub fn dns_subdomain(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let shape = value.split('.').all(|part| shape_is(part, |p| name::dns_label(p).is_none()));
    report(
        value,
        path,
        errors,
        &[
            (value.len() > 253, "must be no more than 253 bytes"),
            (!shape, "must be a lowercase RFC 1123 subdomain"),
        ],
    );
}

/// A search domain: a subdomain that may have underscores.
pub fn dns_subdomain_with_underscores(value: &str, path: &Path<'_>, errors: &mut Errors) {
    dns_subdomain(&value.replace('_', "a"), path, errors);
}

/// A qualified name such as `example.com/role`.
pub fn qualified_name(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.invalid(path, format_args!("{value:?}"), "prefix part must be non-empty");
            } else {
                let mut wrong = Errors::new();
                dns_subdomain(prefix, &Path::Root, &mut wrong);
                let shown = format!("Invalid value: {prefix:?}: ");
                for cause in wrong.causes() {
                    let why = cause.message.strip_prefix(&shown).unwrap_or(&cause.message);
                    let why = format!("prefix part {why}");
                    errors.invalid(path, format_args!("{value:?}"), &why);
                }
            }
            *name
        }
        _ => {
            let why = "a qualified name must be a name with an optional prefix and one '/'";
            errors.invalid(path, format_args!("{value:?}"), why);
            return;
        }
    };
    let shape = shape_is(name, |part| !part.is_empty() && name::label_value(part).is_none());
    report(
        value,
        path,
        errors,
        &[
            (name.is_empty(), "name part must be non-empty"),
            (name.len() > 63, "name part must be no more than 63 bytes"),
            (!shape, "name part must consist of alphanumeric characters, '-', '_' or '.'"),
        ],
    );
}

/// A label value.
pub fn label_value(value: &str, path: &Path<'_>, errors: &mut Errors) {
    for why in label_value_faults(value) {
        errors.invalid(path, format_args!("{value:?}"), why);
    }
}

/// What is wrong with a label value.
pub(crate) fn label_value_faults(value: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push("must be no more than 63 bytes");
    }
    if !shape_is(value, |part| name::label_value(part).is_none()) {
        faults.push("a valid label consists of alphanumeric characters, '-', '_' or '.'");
    }
    faults
}

/// The name of a port.
pub fn port_name(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    report(
        value,
        path,
        errors,
        &[
            (value.len() > 15, "must be no more than 15 characters long"),
            (
                value.is_empty() || !value.bytes().all(letters),
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            ),
            (
                !value.bytes().any(|b| b.is_ascii_lowercase()),
                "must contain at least one letter (a-z)",
            ),
            (value.contains("--"), "must not contain consecutive hyphens"),
            (value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen"),
        ],
    );
}

/// The number of a port.
pub fn port_number(value: i64, path: &Path<'_>, errors: &mut Errors) {
    if !(1..=65535).contains(&value) {
        errors.invalid(path, value, "must be between 1 and 65535, inclusive");
    }
}

/// A key of a ConfigMap or Secret.
pub fn config_key(value: &str, path: &Path<'_>, errors: &mut Errors) {
    let shape = !value.is_empty()
        && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    report(
        value,
        path,
        errors,
        &[
            (value.len() > 253, "must be no more than 253 bytes"),
            (!shape, "must consist of alphanumeric characters, '-', '_' or '.'"),
            (value == "." || value.starts_with(".."), "must not be '.' or start with '..'"),
        ],
    );
}

/// The name of an environment variable.
pub fn env_name(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(why) = name::env_name(value) {
        errors.invalid(path, format_args!("{value:?}"), why);
    }
}

/// An IP address.
pub fn ip(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if value.parse::<std::net::IpAddr>().is_err() {
        errors.invalid(path, format_args!("{value:?}"), "must be a valid IP address");
    }
}

/// A path without `..`.
pub fn path_without_backsteps(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if value.split('/').any(|part| part == "..") {
        errors.invalid(path, format_args!("{value:?}"), "must not contain '..'");
    }
}

/// A relative path without `..`.
pub fn descending_path(value: &str, path: &Path<'_>, errors: &mut Errors) {
    if value.starts_with('/') {
        errors.invalid(path, format_args!("{value:?}"), "must be a relative path");
    }
    path_without_backsteps(value, path, errors);
}

/// A relative path that neither has nor starts with `..`.
pub fn local_path(value: &str, path: &Path<'_>, errors: &mut Errors) {
    descending_path(value, path, errors);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, format_args!("{value:?}"), "must not start with '..'");
    }
}

/// A number that must not be negative.
pub fn non_negative(value: Option<i64>, path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = value.filter(|value| *value < 0) {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

/// One of a closed set; empty is a missing value.
pub fn required_choice(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if value.is_empty() {
        errors.required(path, "");
    } else {
        choice(value, allowed, path, errors);
    }
}

/// One of a closed set.
pub fn choice(value: &str, allowed: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if !allowed.contains(&value) {
        errors.not_supported(path, value, allowed);
    }
}

/// Whether the text has the right shape whatever its length: the first part that fits is checked, and
/// the last, with what lies between looked at piece by piece.
fn shape_is(value: &str, good: impl Fn(&str) -> bool) -> bool {
    if value.len() <= 63 {
        return good(value);
    }
    // Long texts are cut into pieces whose edges are padded, so that only letters are judged.
    let bytes = value.as_bytes();
    let edges = [bytes.first(), bytes.last()];
    let edge_ok = edges.iter().all(|b| b.is_some_and(u8::is_ascii_alphanumeric));
    let pieces = bytes.chunks(60).map(String::from_utf8_lossy);
    edge_ok && pieces.into_iter().all(|piece| good(&format!("0{piece}0")))
}
