//! Label selectors: requirements on the labels of an object, all of which must hold.
//!
//! The grammar is the one that clients of Kubernetes write in `labelSelector`.
//! The structured form inside objects (`matchLabels`) is read in `object.rs`.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::SelectorError;

/// The longest name part of a key, and the longest value.
const NAME_BYTES_MAX: usize = 63;
/// The longest prefix of a key.
const PREFIX_BYTES_MAX: usize = 253;

/// What the label of one key must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelRule {
    /// `k=v` and `k==v`.
    Equals(String),
    /// `k!=v`; an object without the label satisfies it too.
    NotEquals(String),
    /// `k in (a,b)`; sorted, without repetition, never empty.
    In(Vec<String>),
    /// `k notin (a,b)`; an object without the label satisfies it too.
    NotIn(Vec<String>),
    /// `k`.
    Exists,
    /// `!k`.
    Missing,
    /// `k>5`, both sides read as integers.
    Greater(i64),
    /// `k<5`, both sides read as integers.
    Less(i64),
}

/// A key and what its label must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key, a qualified name.
    pub key: String,
    /// What the label must be.
    pub rule: LabelRule,
}

/// Requirements that must all hold; none at all means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    // INVARIANT: sorted by key; requirements of one key keep the order in which they were written.
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// A selector of requirements that were read elsewhere; lists in them must be sorted.
    #[must_use]
    pub fn new(mut requirements: Vec<LabelRequirement>) -> LabelSelector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements }
    }

    /// Reads the form that clients send.
    pub fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
        let mut parser = SelectorParser { tokens: tokens(text).into_iter().peekable() };
        Ok(LabelSelector::new(parser.selector()?))
    }

    /// Whether labels, looked up by key, satisfy every requirement.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.rule.holds(get(&requirement.key)))
    }

    /// Whether every object matches because nothing is required.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, sorted by key.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// The one value that the label of this key must have, if the selector names one.
    #[must_use]
    pub fn exact(&self, key: &str) -> Option<&str> {
        self.requirements.iter().filter(|requirement| requirement.key == key).find_map(
            |requirement| match &requirement.rule {
                LabelRule::Equals(value) => Some(value.as_str()),
                LabelRule::In(values) => match values.as_slice() {
                    [value] => Some(value.as_str()),
                    _ => None,
                },
                _ => None,
            },
        )
    }
}

impl LabelRule {
    fn holds(&self, label: Option<&str>) -> bool {
        match self {
            Self::Equals(value) => label == Some(value),
            Self::NotEquals(value) => label != Some(value),
            Self::In(values) => label.is_some_and(|label| has(values, label)),
            Self::NotIn(values) => label.is_none_or(|label| !has(values, label)),
            Self::Exists => label.is_some(),
            Self::Missing => label.is_none(),
            Self::Greater(limit) => integer(label).is_some_and(|number| number > *limit),
            Self::Less(limit) => integer(label).is_some_and(|number| number < *limit),
        }
    }
}

/// Values are sorted, so that a selector of many costs no more than one of few.
fn has(values: &[String], label: &str) -> bool {
    values.binary_search_by(|value| value.as_str().cmp(label)).is_ok()
}

fn integer(label: Option<&str>) -> Option<i64> {
    label?.parse().ok()
}

impl fmt::Display for LabelSelector {
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

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.rule {
            LabelRule::Equals(value) => write!(f, "{key}={value}"),
            LabelRule::NotEquals(value) => write!(f, "{key}!={value}"),
            LabelRule::In(values) => write!(f, "{key} in ({})", values.join(",")),
            LabelRule::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            LabelRule::Exists => f.write_str(key),
            LabelRule::Missing => write!(f, "!{key}"),
            LabelRule::Greater(limit) => write!(f, "{key}>{limit}"),
            LabelRule::Less(limit) => write!(f, "{key}<{limit}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectorToken<'a> {
    Symbol(&'static str),
    Word(&'a str),
}

impl SelectorToken<'_> {
    fn text(&self) -> &str {
        match self {
            SelectorToken::Symbol(text) => text,
            SelectorToken::Word(text) => text,
        }
    }
}

/// Longer symbols come before their prefixes.
const SYMBOLS: [&str; 9] = ["==", "=", "!=", "!", "(", ")", ",", ">", "<"];

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn ends_word(c: char) -> bool {
    is_blank(c) || matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn tokens(text: &str) -> Vec<SelectorToken<'_>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let symbol = SYMBOLS.iter().find_map(|s| Some((*s, rest.strip_prefix(s)?)));
        let after = match symbol {
            Some((symbol, after)) => {
                found.push(SelectorToken::Symbol(symbol));
                after
            }
            None => {
                let (word, after) = rest.split_at(rest.find(ends_word).unwrap_or(rest.len()));
                found.push(SelectorToken::Word(word));
                after
            }
        };
        rest = after.trim_start_matches(is_blank);
    }
    found
}

struct SelectorParser<'a> {
    tokens: core::iter::Peekable<alloc::vec::IntoIter<SelectorToken<'a>>>,
}

impl<'a> SelectorParser<'a> {
    fn selector(&mut self) -> Result<Vec<LabelRequirement>, SelectorError> {
        let mut requirements = Vec::new();
        if self.tokens.peek().is_none() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.tokens.next() {
                None => return Ok(requirements),
                Some(SelectorToken::Symbol(",")) => {}
                other => return Err(unexpected(other, "`,` or the end")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        let negated = self.tokens.next_if_eq(&SelectorToken::Symbol("!")).is_some();
        // The words `in` and `notin` are keys here, operators only after a key.
        let key = match self.tokens.next() {
            Some(SelectorToken::Word(word)) => checked_key(word)?,
            other => return Err(unexpected(other, "a label key")),
        };
        let rule = if negated {
            LabelRule::Missing
        } else if matches!(self.tokens.peek(), None | Some(SelectorToken::Symbol(","))) {
            LabelRule::Exists
        } else {
            self.comparison(&key)?
        };
        Ok(LabelRequirement { key, rule })
    }

    fn comparison(&mut self, key: &str) -> Result<LabelRule, SelectorError> {
        match self.tokens.next() {
            Some(SelectorToken::Symbol("=" | "==")) => Ok(LabelRule::Equals(self.value(key)?)),
            Some(SelectorToken::Symbol("!=")) => Ok(LabelRule::NotEquals(self.value(key)?)),
            Some(SelectorToken::Symbol(">")) => Ok(LabelRule::Greater(self.number(key)?)),
            Some(SelectorToken::Symbol("<")) => Ok(LabelRule::Less(self.number(key)?)),
            Some(SelectorToken::Word("in")) => Ok(LabelRule::In(self.values(key)?)),
            Some(SelectorToken::Word("notin")) => Ok(LabelRule::NotIn(self.values(key)?)),
            other => Err(unexpected(other, "one of `=`, `==`, `!=`, `>`, `<`, `in` and `notin`")),
        }
    }

    fn value(&mut self, key: &str) -> Result<String, SelectorError> {
        if matches!(self.tokens.peek(), None | Some(SelectorToken::Symbol(","))) {
            return Ok(String::new());
        }
        match self.tokens.next() {
            Some(SelectorToken::Word(word)) => checked_value(key, word),
            other => Err(unexpected(other, "a value")),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, SelectorError> {
        let value = self.value(key)?;
        value.parse().map_err(|_| SelectorError::NotAnInteger { key: key.to_owned(), value })
    }

    /// Reads `(a,b)`; a place without a value is the empty value, also in `()`.
    fn values(&mut self, key: &str) -> Result<Vec<String>, SelectorError> {
        match self.tokens.next() {
            Some(SelectorToken::Symbol("(")) => {}
            other => return Err(unexpected(other, "`(`")),
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.tokens.peek() {
                Some(SelectorToken::Word(word)) => {
                    let value = checked_value(key, word)?;
                    self.tokens.next();
                    value
                }
                _ => String::new(),
            };
            values.insert(value);
            match self.tokens.next() {
                Some(SelectorToken::Symbol(")")) => return Ok(values.into_iter().collect()),
                Some(SelectorToken::Symbol(",")) => {}
                other => return Err(unexpected(other, "`,` or `)`")),
            }
        }
    }
}

fn unexpected(found: Option<SelectorToken<'_>>, expected: &'static str) -> SelectorError {
    let found = found.map_or_else(String::new, |token| token.text().to_string());
    SelectorError::Unexpected { found, expected }
}

fn checked_key(key: &str) -> Result<String, SelectorError> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_none_or(is_subdomain) && is_name(name) {
        Ok(key.to_owned())
    } else {
        Err(SelectorError::Key { key: key.to_owned() })
    }
}

fn checked_value(key: &str, value: &str) -> Result<String, SelectorError> {
    if value.is_empty() || is_name(value) {
        Ok(value.to_owned())
    } else {
        Err(SelectorError::Value { key: key.to_owned(), value: value.to_owned() })
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_subdomain(prefix: &str) -> bool {
    let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    prefix.len() <= PREFIX_BYTES_MAX
        && prefix.split('.').all(|part| {
            part.starts_with(small)
                && part.ends_with(small)
                && part.chars().all(|c| small(c) || c == '-')
        })
}

#[cfg(test)]
mod tests {
    //! Rules of the API server specification.

    extern crate std;

    use alloc::collections::BTreeMap;
    use alloc::format;
    use std::vec;

    use proptest::prelude::*;

    use super::*;

    fn names(text: &str) -> String {
        let objects = [
            ("a", vec![("t", "x"), ("n", "5")]),
            ("b", vec![("t", "y"), ("n", "7")]),
            ("c", vec![]),
        ];
        let selector = LabelSelector::parse(text).unwrap();
        let mut found = String::new();
        for (name, labels) in objects {
            let labels: BTreeMap<&str, &str> = labels.into_iter().collect();
            if selector.matches(|key| labels.get(key).copied()) {
                found.push_str(name);
            }
        }
        found
    }

    #[test]
    fn r12_each_operator_selects() {
        for (text, expected) in [
            ("", "abc"),
            ("t=x", "a"),
            ("t==x", "a"),
            ("t!=x", "bc"),
            ("t in (x,y)", "ab"),
            ("t notin (x)", "bc"),
            ("t", "ab"),
            ("!t", "c"),
            ("n>5", "b"),
            ("n<7", "a"),
            ("t>1", ""),
            ("t,n>5", "b"),
            ("t=x,t=y", ""),
            ("t=", ""),
            ("t in ()", ""),
            ("t notin ()", "abc"),
        ] {
            assert_eq!(names(text), expected, "{text}");
        }
    }

    #[test]
    fn r12_blanks_and_words_are_read_like_upstream() {
        for (text, printed) in [
            (" t\t=\r\nx ", "t=x"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin", "notin"),
            ("t=in", "t=in"),
            ("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()"),
            ("a in (b,)", "a in (,b)"),
            ("a in (,b)", "a in (,b)"),
            ("a in (,)", "a in ()"),
            ("a=,b", "a=,b"),
            ("b,a", "a,b"),
            ("! a", "!a"),
            ("example.com/A_b.c-d=1", "example.com/A_b.c-d=1"),
            ("n>05", "n>5"),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.to_string(), printed, "{text}");
        }
    }

    #[test]
    fn r12_bad_syntax_is_refused_with_a_sentence() {
        for (text, sentence) in [
            ("t===x", "the label selector has `=` where a value is expected"),
            ("t in x", "the label selector has `x` where `(` is expected"),
            (",", "the label selector has `,` where a label key is expected"),
            ("t,", "the label selector ends where a label key is expected"),
            ("t=bad value", "the label selector has `value` where `,` or the end is expected"),
            ("t in (a b)", "the label selector has `b` where `,` or `)` is expected"),
            ("t in (a", "the label selector ends where `,` or `)` is expected"),
            ("t in (", "the label selector ends where `,` or `)` is expected"),
            ("!t=x", "the label selector has `=` where `,` or the end is expected"),
            ("!!t", "the label selector has `!` where a label key is expected"),
            ("t>5x", "`5x` is no integer, so the label `t` cannot be compared with it"),
            ("t>", "`` is no integer, so the label `t` cannot be compared with it"),
        ] {
            let error = LabelSelector::parse(text).unwrap_err();
            assert_eq!(error.to_string(), sentence, "{text}");
        }
        let error = LabelSelector::parse("bad key=x").unwrap_err().to_string();
        assert!(error.contains("`key` where one of `=`"), "{error}");
    }

    #[test]
    fn r12_keys_and_values_are_checked() {
        let long = "a".repeat(64);
        let long_prefix = format!("{}/a", "a".repeat(254));
        for key in ["-a", "a-", "/a", "a/", "a/b/c", "A.com/b", "a..b/c", "é", &long, &long_prefix]
        {
            let error = LabelSelector::parse(key).unwrap_err();
            assert_eq!(error, SelectorError::Key { key: key.to_owned() });
        }
        for value in ["-a", "a_", "a/b", "é", "\0", &long] {
            let error = LabelSelector::parse(&format!("k={value}")).unwrap_err();
            assert_eq!(error, SelectorError::Value { key: "k".into(), value: value.to_owned() });
        }
    }

    #[test]
    fn r12_exact_value_serves_an_index() {
        let selector = LabelSelector::parse("a=1,b in (2),c in (3,4),d!=5").unwrap();
        assert_eq!(selector.exact("a"), Some("1"));
        assert_eq!(selector.exact("b"), Some("2"));
        assert_eq!(selector.exact("c"), None);
        assert_eq!(selector.exact("d"), None);
        assert!(!selector.is_everything());
        assert!(LabelSelector::parse(" ").unwrap().is_everything());
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "[0-9]{1,2}",
            "[ab]",
            "in|notin",
            "[A-Za-z0-9][a-z._-]?[a-z]"
        ]
    }

    fn values() -> impl Strategy<Value = Vec<String>> {
        proptest::collection::btree_set(value(), 1..4).prop_map(|set| set.into_iter().collect())
    }

    fn requirement() -> impl Strategy<Value = LabelRequirement> {
        let rule = prop_oneof![
            value().prop_map(LabelRule::Equals),
            value().prop_map(LabelRule::NotEquals),
            values().prop_map(LabelRule::In),
            values().prop_map(LabelRule::NotIn),
            Just(LabelRule::Exists),
            Just(LabelRule::Missing),
            (0..20i64).prop_map(LabelRule::Greater),
            (0..20i64).prop_map(LabelRule::Less),
        ];
        ("[a-c]|in|notin|x[.]y/[ab]", rule).prop_map(|(key, rule)| LabelRequirement { key, rule })
    }

    /// The slow, obvious reading: list the values that satisfy a rule among all values there are.
    fn model(requirement: &LabelRequirement, labels: &BTreeMap<String, String>) -> bool {
        let Some(label) = labels.get(&requirement.key) else {
            let text = requirement.to_string();
            return text.contains("!") || text.contains(" notin ");
        };
        let number = label.parse::<i64>();
        match &requirement.rule {
            LabelRule::Exists => true,
            LabelRule::Missing => false,
            LabelRule::Equals(value) => [value].contains(&label),
            LabelRule::NotEquals(value) => ![value].contains(&label),
            LabelRule::In(values) => values.contains(label),
            LabelRule::NotIn(values) => !values.contains(label),
            LabelRule::Greater(limit) => number.is_ok() && number.unwrap() > *limit,
            LabelRule::Less(limit) => number.is_ok() && number.unwrap() < *limit,
        }
    }

    proptest! {
        #[test]
        fn r12_parse_is_the_inverse_of_print(
            mut requirements in proptest::collection::vec(requirement(), 0..5),
            blank in "[ \t]{0,2}",
        ) {
            let spaced: Vec<String> = requirements
                .iter()
                .map(|r| format!("{blank}{r}{blank}").replace('=', &format!("{blank}={blank}")))
                // A blank inside `!=` would split the operator.
                .map(|text| text.replace(&format!("!{blank}="), &format!("{blank}!=")))
                .collect();
            requirements.sort_by(|a, b| a.key.cmp(&b.key));
            let parsed = LabelSelector::parse(&spaced.join(",")).unwrap();
            prop_assert_eq!(parsed.requirements(), requirements.as_slice());
            prop_assert_eq!(LabelSelector::parse(&parsed.to_string()).unwrap(), parsed);
        }

        #[test]
        fn r12_matching_equals_the_model(
            requirements in proptest::collection::vec(requirement(), 0..4),
            labels in proptest::collection::btree_map("[a-c]|in|notin|x[.]y/[ab]", value(), 0..4),
        ) {
            let text: Vec<String> = requirements.iter().map(ToString::to_string).collect();
            let selector = LabelSelector::parse(&text.join(",")).unwrap();
            prop_assert_eq!(
                selector.matches(|key| labels.get(key).map(String::as_str)),
                requirements.iter().all(|r| model(r, &labels))
            );
        }

        #[test]
        fn r12_any_text_parses_or_is_refused(text in "([ab]|[=!(),<> ]|in|notin|5|é){0,12}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                prop_assert_eq!(LabelSelector::parse(&selector.to_string()).unwrap(), selector);
            }
        }
    }
}
