//! Property names as identifiers: `foo-bar` is written `foo__dash__bar` in a rule.

use crate::parse::RESERVED;

/// The identifier for a property name; `None` when rules cannot name the property.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.peek() == Some(&'_') => {
                rest.next();
                out.push_str("__underscores__");
            }
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => out.push(c),
            _ => return None,
        }
    }
    Some(out)
}

/// The property name behind an identifier; `None` when an escape in it is unknown.
#[must_use]
pub fn unescape(ident: &str) -> Option<String> {
    let keyword = ident.strip_prefix("__").and_then(|k| k.strip_suffix("__"));
    if let Some(word) = keyword.filter(|k| RESERVED.contains(k)) {
        return Some(word.to_owned());
    }
    let mut out = String::with_capacity(ident.len());
    let mut rest = ident;
    while let Some(start) = rest.find("__") {
        let (before, after) = rest.split_at(start);
        let body = after.get(2..).unwrap_or_default();
        let Some(end) = body.find("__").filter(|&end| end > 0) else {
            break;
        };
        let word = match body.get(..end) {
            Some("underscores") => "__",
            Some("dot") => ".",
            Some("dash") => "-",
            Some("slash") => "/",
            _ => return None,
        };
        out.push_str(before);
        out.push_str(word);
        rest = body.get(end + 2..).unwrap_or_default();
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::{escape, unescape};

    #[test]
    fn r125_property_names_are_escaped() {
        for (name, ident) in [
            ("a", "a"),
            ("a.a", "a__dot__a"),
            ("a__a", "a__underscores__a"),
            ("foo-bar/baz", "foo__dash__bar__slash__baz"),
            ("namespace", "__namespace__"),
            ("true", "__true__"),
            ("_", "_"),
            ("a_b", "a_b"),
            ("a__a__a", "a__underscores__a__underscores__a"),
            ("k8s.io/x", "k8s__dot__io__slash__x"),
            (".", "__dot__"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(ident), "{name}");
            assert_eq!(unescape(ident).as_deref(), Some(name), "{ident}");
        }
        for name in ["", "1a", "a b", "ä", "a$"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__nope__b"), None);
    }
}
