//! Field selectors: fields of an object that must, or must not, have a value.
//!
//! Whether a kind offers a field is decided where kinds are known.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::SelectorError;

/// One field and the value it must, or must not, have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field's path as written, such as `metadata.name`.
    pub field: String,
    /// The value, without escapes.
    pub value: String,
    /// Whether the field must have the value (`=`, `==`) or must not (`!=`).
    pub equal: bool,
}

/// Requirements that must all hold; none at all means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Reads the form that clients send; empty terms are skipped.
    pub fn parse(text: &str) -> Result<FieldSelector, SelectorError> {
        let mut requirements = Vec::new();
        for term in terms(text) {
            if !term.is_empty() {
                requirements.push(requirement(term)?);
            }
        }
        Ok(FieldSelector { requirements })
    }

    /// The requirements in the order in which they were written.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The one value that this field must have, if the selector names one.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equal && r.field == field).map(|r| r.value.as_str())
    }

    /// Whether every object matches because nothing is required.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether fields, looked up by path, satisfy every requirement; a missing field is empty.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| (get(&r.field).unwrap_or("") == r.value) == r.equal)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.equal { "=" } else { "!=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash precedes; backslashes stay.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let ends = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })
}

fn requirement(term: &str) -> Result<FieldRequirement, SelectorError> {
    // The field knows no escapes, so the first operator ends it.
    let split = term
        .char_indices()
        .map(|(index, _)| term.split_at(index))
        .find(|(_, rest)| rest.starts_with('=') || rest.starts_with("!="));
    let Some((field, rest)) = split else {
        return Err(SelectorError::NoOperator { term: term.to_owned() });
    };
    let (raw, equal) = match rest.strip_prefix("!=") {
        Some(raw) => (raw, false),
        None => (rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')).unwrap_or(rest), true),
    };
    Ok(FieldRequirement { field: field.to_owned(), value: unescaped(term, raw)?, equal })
}

fn unescaped(term: &str, raw: &str) -> Result<String, SelectorError> {
    let mut value = String::with_capacity(raw.len());
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => value.push(c),
                _ => return Err(SelectorError::Escape { term: term.to_owned() }),
            },
            ',' | '=' => return Err(SelectorError::Unescaped { term: term.to_owned() }),
            c => value.push(c),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    //! Rules of the API server specification.

    extern crate std;

    use alloc::collections::BTreeMap;
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Vec<(String, String, bool)> {
        let selector = FieldSelector::parse(text).unwrap();
        selector.requirements.into_iter().map(|r| (r.field, r.value, r.equal)).collect()
    }

    fn term(field: &str, value: &str, equal: bool) -> (String, String, bool) {
        (field.into(), value.into(), equal)
    }

    #[test]
    fn r13_three_operators() {
        assert_eq!(
            parsed("metadata.name=a,type==example.com/t,spec.nodeName!=,status.phase="),
            [
                term("metadata.name", "a", true),
                term("type", "example.com/t", true),
                term("spec.nodeName", "", false),
                term("status.phase", "", true),
            ]
        );
        assert_eq!(parsed(""), []);
        assert_eq!(parsed(",a=b,,"), [term("a", "b", true)]);
    }

    #[test]
    fn r13_escapes() {
        assert_eq!(parsed(r"a=b\,c,d=\=\\"), [term("a", "b,c", true), term("d", r"=\", true)]);
        for (text, sentence) in [
            ("metadata.name", "the field selector term `metadata.name` has none of"),
            ("a>5", "the field selector term `a>5` has none of"),
            (r"a=\x", r"the field selector term `a=\x` has a backslash that is not followed by"),
            (r"a=\", r"the field selector term `a=\` has a backslash that is not followed by"),
            ("a===b", "the field selector term `a===b` has `,` or `=` in its value"),
            ("a=b=c", "the field selector term `a=b=c` has `,` or `=` in its value"),
        ] {
            let error = FieldSelector::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(sentence), "{text}: {error}");
        }
    }

    #[test]
    fn r13_exact_value_serves_an_index() {
        let selector = FieldSelector::parse("a!=1,b=2").unwrap();
        assert_eq!(selector.exact("a"), None);
        assert_eq!(selector.exact("b"), Some("2"));
        assert_eq!(selector.exact("c"), None);
        assert!(FieldSelector::parse("").unwrap().is_everything());
    }

    fn requirement() -> impl Strategy<Value = FieldRequirement> {
        (r"[a-c]{1,2}", r"([ab]|\\|,|=|!){0,4}", any::<bool>())
            .prop_map(|(field, value, equal)| FieldRequirement { field, value, equal })
    }

    proptest! {
        #[test]
        fn r13_parse_is_the_inverse_of_print(
            requirements in proptest::collection::vec(requirement(), 0..5)
        ) {
            let selector = FieldSelector { requirements };
            prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
        }

        #[test]
        fn r13_matching_equals_the_model(
            requirements in proptest::collection::vec(requirement(), 0..4),
            fields in proptest::collection::btree_map("[a-c]", "[ab]{0,1}", 0..4),
        ) {
            let mut expected = true;
            for r in &requirements {
                let field = fields.get(&r.field).cloned().unwrap_or_default();
                if r.equal && field != r.value || !r.equal && field == r.value {
                    expected = false;
                }
            }
            let selector = FieldSelector { requirements };
            let get = |path: &str| fields.get(path).map(String::as_str);
            prop_assert_eq!(selector.matches(get), expected);
        }

        #[test]
        fn r13_any_text_parses_or_is_refused(text in r"([ab.]|\\|,|=|!|é){0,12}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                let fields: BTreeMap<&str, &str> = BTreeMap::new();
                selector.matches(|path| fields.get(path).copied());
                prop_assert_eq!(FieldSelector::parse(&selector.to_string()).unwrap(), selector);
            }
        }
    }
}
