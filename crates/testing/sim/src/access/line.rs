//! What a request line means, step by step as the table of spec/api-server.md (R2, R3) says it. Slow, obvious, and
//! on purpose without a line of the server's own reading.

use super::draw::{BAD_LABELS, GOOD_LABELS};
use super::model::ModelAttributes;

/// Reads a request line.
#[must_use]
pub(super) fn attributes(method: &str, target: &str) -> ModelAttributes {
    let (raw_path, raw_query) = match target.find('?') {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, ""),
    };
    let Some(path) = unescape(raw_path, false) else { return ModelAttributes::Malformed };
    let mut parts: Vec<String> = path.trim_matches('/').split('/').map(str::to_owned).collect();
    let other = || ModelAttributes::Path { verb: method.to_lowercase(), path: path.clone() };

    // /api/VERSION/RESOURCE…, /apis/GROUP/VERSION/RESOURCE…
    let group = match parts.remove(0).as_str() {
        "api" if parts.len() >= 2 => String::new(),
        "apis" if parts.len() >= 3 => parts.remove(0),
        _ => return other(),
    };
    let _version = parts.remove(0);

    let mut verb = match method {
        "GET" | "HEAD" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    };
    let mut by_path = false;
    for word in ["watch", "proxy"] {
        if !by_path && parts[0] == word {
            by_path = true;
            verb = word;
            parts.remove(0);
            if parts.is_empty() {
                parts.push(String::new());
            }
        }
    }

    let mut namespace = String::new();
    if parts[0] == "namespaces" && parts.len() > 1 {
        namespace.clone_from(&parts[1]);
        if parts.len() > 2 && parts[2] != "status" && parts[2] != "finalize" {
            parts.drain(..2);
        }
    }
    let part = |at: usize| parts.get(at).cloned().unwrap_or_default();
    let (resource, mut name) = (part(0), part(1));
    let subresource = if verb == "proxy" { String::new() } else { part(2) };

    let query = parameters(raw_query);
    let first = |wanted: &str| query.iter().find(|(key, _)| key == wanted).map(|(_, v)| v.as_str());
    if name.is_empty() && verb == "get" {
        let watches = first("watch").is_some_and(|v| v != "0" && v.to_lowercase() != "false");
        verb = if watches { "watch" } else { "list" };
        let is_number = |text: &str| text.parse::<i64>().is_ok();
        let readable = first("limit").is_none_or(is_number)
            && first("timeoutSeconds").is_none_or(is_number)
            && first("labelSelector").is_none_or(|text| {
                assert!(GOOD_LABELS.contains(&text) || BAD_LABELS.contains(&text), "{text}");
                GOOD_LABELS.contains(&text)
            });
        if let (true, Some(selected)) = (readable, first("fieldSelector").and_then(selected)) {
            name = selected;
        }
    }
    if name.is_empty() && verb == "delete" {
        verb = "deletecollection";
    }
    ModelAttributes::Resource {
        verb: verb.to_owned(),
        group,
        resource,
        subresource,
        namespace,
        name,
    }
}

/// The pairs of a query; what is not well-formed is not there.
fn parameters(query: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for pair in query.split('&') {
        if pair.is_empty() || pair.contains(';') {
            continue;
        }
        let at = pair.find('=').unwrap_or(pair.len());
        let value = pair.get(at + 1..).unwrap_or("");
        if let (Some(key), Some(value)) = (unescape(&pair[..at], true), unescape(value, true)) {
            pairs.push((key, value));
        }
    }
    pairs
}

/// `%41` is `A`, and in queries `+` a space.
fn unescape(text: &str, query: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut at, mut out) = (0, Vec::new());
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = bytes.get(at + 1..at + 3)?;
            if !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            let digits = std::str::from_utf8(digits).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            out.push(if query && bytes[at] == b'+' { b' ' } else { bytes[at] });
            at += 1;
        }
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// The name that a field selector requires, if it can be read and could be a name.
fn selected(selector: &str) -> Option<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for letter in selector.chars() {
        if letter == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = letter == '\\' && !escaped;
        terms.last_mut()?.push(letter);
    }
    let mut name = None;
    for term in terms.iter().filter(|term| !term.is_empty()) {
        let at = term.find("!=").into_iter().chain(term.find('=')).min()?;
        let (field, rest) = term.split_at(at);
        let (equal, value) = match rest {
            rest if rest.starts_with("!=") => (false, &rest[2..]),
            rest if rest.starts_with("==") => (true, &rest[2..]),
            rest => (true, &rest[1..]),
        };
        let mut plain = String::new();
        let mut letters = value.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => plain.push(letters.next().filter(|next| "\\,=".contains(*next))?),
                ',' | '=' => return None,
                other => plain.push(other),
            }
        }
        if equal && field == "metadata.name" && name.is_none() {
            name = Some(plain);
        }
    }
    let name = name?;
    let could_be = name != "." && name != ".." && !name.contains('/') && !name.contains('%');
    (could_be && !name.is_empty()).then_some(name)
}
