//! Which texts are names: DNS labels and subdomains, qualified names, label values.
//!
//! Each check answers `None` for a good text, else the sentence that says what is wrong. Those whose name ends in
//! `_faults` answer with every sentence that holds.

/// A DNS-1123 label: lower-case letters, digits, `-`; at most 63 characters.
#[must_use]
pub fn dns_label(text: &str) -> Option<&'static str> {
    dns_label_faults(text).into_iter().next()
}

/// What is wrong with a DNS-1123 label, one sentence per fault: clients count them.
#[must_use]
pub fn dns_label_faults(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes");
    }
    if !dns_segment(text) {
        faults.push(if text.split('.').all(dns_segment) {
            "must not contain dots"
        } else {
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and start and end with an alphanumeric character"
        });
    }
    faults
}

/// A DNS-1035 label: as [`dns_label`] but starting with a letter.
#[must_use]
pub fn dns_1035_label(text: &str) -> Option<&'static str> {
    let ok = text.len() <= 63
        && dns_segment(text)
        && text.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    (!ok).then_some(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
         alphabetic character, end with an alphanumeric character, and have at most 63 characters",
    )
}

/// A DNS-1123 subdomain: labels joined by dots; at most 253 characters.
#[must_use]
pub fn dns_subdomain(text: &str) -> Option<&'static str> {
    dns_subdomain_faults(text).into_iter().next()
}

/// What is wrong with a DNS-1123 subdomain, one sentence per fault: clients count them.
#[must_use]
pub fn dns_subdomain_faults(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push("must be no more than 253 bytes");
    }
    if !text.split('.').all(dns_segment) {
        faults.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
             '-' or '.', and start and end with an alphanumeric character",
        );
    }
    faults
}

/// One path segment: not `.` or `..`, without `/` and `%`.
#[must_use]
pub fn path_segment(text: &str) -> Option<&'static str> {
    path_segment_faults(text).into_iter().next()
}

/// What is wrong with a path segment, one sentence per fault: clients count them.
#[must_use]
pub fn path_segment_faults(text: &str) -> Vec<&'static str> {
    match text {
        "." => vec!["may not be '.'"],
        ".." => vec!["may not be '..'"],
        _ => path_segment_prefix_faults(text),
    }
}

/// What is wrong with the first part of a path segment: more follows, so it may be dots alone.
#[must_use]
pub fn path_segment_prefix_faults(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.contains('/') {
        faults.push("may not contain '/'");
    }
    if text.contains('%') {
        faults.push("may not contain '%'");
    }
    faults
}

/// A qualified name such as `example.com/role`: optional DNS subdomain, then at most 63 characters.
#[must_use]
pub fn qualified_name(text: &str) -> Option<&'static str> {
    qualified_name_faults(text).into_iter().next()
}

/// What is wrong with a qualified name, one sentence per fault: clients count them.
#[must_use]
pub fn qualified_name_faults(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut parts = text.rsplit('/');
    let name = parts.next().unwrap_or_default();
    match (parts.next(), parts.next()) {
        (_, Some(_)) => {
            return vec!["a qualified name must be a name with an optional prefix and one '/'"];
        }
        (Some(""), None) => faults.push("prefix part must be non-empty"),
        (Some(prefix), None) => {
            if prefix.len() > 253 {
                faults.push("prefix part must be no more than 253 bytes");
            }
            if !prefix.split('.').all(dns_segment) {
                faults.push("prefix part must be a lowercase RFC 1123 subdomain");
            }
        }
        (None, None) => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty");
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes");
    }
    if !label_text(name) {
        faults.push(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and start and end \
             with an alphanumeric character",
        );
    }
    faults
}

/// A label value: empty, or at most 63 characters.
#[must_use]
pub fn label_value(text: &str) -> Option<&'static str> {
    label_value_faults(text).into_iter().next()
}

/// What is wrong with a label value, one sentence per fault: clients count them.
#[must_use]
pub fn label_value_faults(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.len() > 63 {
        faults.push("must be no more than 63 bytes");
    }
    if !text.is_empty() && !label_text(text) {
        faults.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and start and end with an alphanumeric character",
        );
    }
    faults
}

/// What is wrong with a key of ConfigMap or Secret data, one sentence per fault: clients count them.
#[must_use]
pub fn config_key_faults(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.len() > 253 {
        faults.push("must be no more than 253 bytes");
    }
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(inner) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.', and have \
             at least one of them",
        );
    }
    if text == "." || text.starts_with("..") {
        faults.push("must not be '.' or start with '..'");
    }
    faults
}

/// The name of an environment variable: any printable ASCII but `=`.
#[must_use]
pub fn env_name(text: &str) -> Option<&'static str> {
    let ok = !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    (!ok).then_some(
        "a valid environment variable name must consist only of printable ASCII characters other \
         than '='",
    )
}

fn dns_segment(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    bytes.iter().copied().all(inner) && edge(bytes.first()) && edge(bytes.last())
}

fn label_text(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.iter().copied().all(inner) && edge(bytes.first()) && edge(bytes.last())
}
