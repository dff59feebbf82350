//! Paths to fields of a pod, as environment variables and files in volumes name them: parsed and
//! written back. What a field is worth, and whether a key could be set, is never decided here.
//!
//! ```text
//!   metadata.name                        one field
//!   metadata.labels['app']               one value of a map, the key as it is written
//!   metadata.annotations['a\'b\[0\]']    the same with escapes: `\[`, `\]`, `\'` and `\\`
//! ```
//!
//! Kubernetes refuses every key with a backslash, so both ways to write a key live together without
//! a switch (R6 of `spec/downward-api.md`).

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

/// A field that is read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodField {
    /// `metadata.annotations`.
    Annotations,
    /// `metadata.labels`.
    Labels,
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// `metadata.ownerReferences`.
    OwnerReferences,
    /// `metadata.uid`.
    Uid,
    /// `spec.nodeName`.
    NodeName,
    /// `spec.restartPolicy`.
    RestartPolicy,
    /// `spec.schedulerName`.
    SchedulerName,
    /// `spec.serviceAccountName`.
    ServiceAccountName,
    /// `status.hostIP`.
    HostIp,
    /// `status.hostIPs`.
    HostIps,
    /// `status.phase`.
    Phase,
    /// `status.podIP`.
    PodIp,
    /// `status.podIPs`.
    PodIps,
}

/// Every field and how it is written.
const FIELDS: &[(PodField, &str)] = &[
    (PodField::Annotations, "metadata.annotations"),
    (PodField::Labels, "metadata.labels"),
    (PodField::Name, "metadata.name"),
    (PodField::Namespace, "metadata.namespace"),
    (PodField::OwnerReferences, "metadata.ownerReferences"),
    (PodField::Uid, "metadata.uid"),
    (PodField::NodeName, "spec.nodeName"),
    (PodField::RestartPolicy, "spec.restartPolicy"),
    (PodField::SchedulerName, "spec.schedulerName"),
    (PodField::ServiceAccountName, "spec.serviceAccountName"),
    (PodField::HostIp, "status.hostIP"),
    (PodField::HostIps, "status.hostIPs"),
    (PodField::Phase, "status.phase"),
    (PodField::PodIp, "status.podIP"),
    (PodField::PodIps, "status.podIPs"),
];

/// The old name of `spec.nodeName`, which lives on for old clients.
const OLD_NODE_NAME: &str = "spec.host";

impl PodField {
    /// The path as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        FIELDS.iter().find(|(field, _)| *field == self).map_or("", |(_, path)| *path)
    }
}

/// A map whose values are read one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyedMap {
    /// `metadata.annotations`.
    Annotations,
    /// `metadata.labels`.
    Labels,
}

impl KeyedMap {
    /// The path as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            KeyedMap::Annotations => PodField::Annotations.as_str(),
            KeyedMap::Labels => PodField::Labels.as_str(),
        }
    }
}

/// A path that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldPath<'a> {
    /// A whole field.
    Whole(PodField),
    /// One value of a map.
    Key {
        /// Which map.
        map: KeyedMap,
        /// The key, without escapes.
        key: Cow<'a, str>,
        /// Whether the key was written with escapes; such a key can never be set on an object.
        escaped: bool,
    },
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPathErrorKind {
    /// No field is called so.
    Unknown,
    /// The field has no values by key.
    NoSubscript,
    /// A backslash stands before a character that needs none.
    Escape,
    /// The quote that should end the key is escaped.
    Unterminated,
    /// A key with escapes has `[`, `]` or `'` without one.
    Raw,
}

/// A text that is no path of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Where, in bytes from the start.
    pub offset: usize,
    /// What is wrong there.
    pub fault: FieldPathErrorKind,
    path: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        let at = self.offset;
        match self.fault {
            FieldPathErrorKind::Unknown => write!(out, "field label not supported: {path}"),
            FieldPathErrorKind::NoSubscript => {
                write!(out, "field label does not support subscript: {path}")
            }
            FieldPathErrorKind::Escape => {
                write!(out, "unknown escape at byte {at} of the field path: {path}")
            }
            FieldPathErrorKind::Unterminated => {
                write!(out, "unterminated key, the last quote is escaped: {path}")
            }
            FieldPathErrorKind::Raw => {
                write!(out, "unescaped character at byte {at} of the field path: {path}")
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// Splits `base['key']`; none where the text has no subscript, the first `['` splits (R1).
#[must_use]
pub fn split_subscript(path: &str) -> Option<(&str, &str)> {
    let (base, key) = path.strip_suffix("']")?.split_once("['")?;
    (!base.is_empty()).then_some((base, key))
}

impl<'a> FieldPath<'a> {
    /// Reads a path.
    ///
    /// # Errors
    /// No field is called so, the field has no values by key, or the key is badly escaped.
    pub fn parse(path: &'a str) -> Result<FieldPath<'a>, ParseError> {
        let wrong = |offset, fault| ParseError { offset, fault, path: path.into() };
        let Some((base, key)) = split_subscript(path) else {
            let path = if path == OLD_NODE_NAME { PodField::NodeName.as_str() } else { path };
            let found = FIELDS.iter().find(|(_, known)| *known == path);
            return found
                .map(|(field, _)| FieldPath::Whole(*field))
                .ok_or_else(|| wrong(0, FieldPathErrorKind::Unknown));
        };
        let map = match base {
            "metadata.annotations" => KeyedMap::Annotations,
            "metadata.labels" => KeyedMap::Labels,
            _ => return Err(wrong(base.len(), FieldPathErrorKind::NoSubscript)),
        };
        if !key.contains('\\') {
            return Ok(FieldPath::Key { map, key: Cow::Borrowed(key), escaped: false });
        }
        let start = base.len() + "['".len();
        match unescape(key) {
            Ok(key) => Ok(FieldPath::Key { map, key: Cow::Owned(key), escaped: true }),
            Err((offset, fault)) => Err(wrong(start + offset, fault)),
        }
    }
}

/// The key behind its escapes.
fn unescape(key: &str) -> Result<String, (usize, FieldPathErrorKind)> {
    let mut plain = String::with_capacity(key.len());
    let mut letters = key.char_indices();
    while let Some((offset, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some((_, special @ ('[' | ']' | '\'' | '\\'))) => plain.push(special),
                Some(_) => return Err((offset, FieldPathErrorKind::Escape)),
                None => return Err((offset, FieldPathErrorKind::Unterminated)),
            },
            '[' | ']' | '\'' => return Err((offset, FieldPathErrorKind::Raw)),
            letter => plain.push(letter),
        }
    }
    Ok(plain)
}

/// The path as it is written, with no more escapes than it needs (R10).
impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Whole(field) => out.write_str(field.as_str()),
            FieldPath::Key { map, key, escaped: false } => {
                write!(out, "{}['{key}']", map.as_str())
            }
            FieldPath::Key { map, key, escaped: true } => {
                write!(out, "{}['", map.as_str())?;
                for letter in key.chars() {
                    if matches!(letter, '[' | ']' | '\'' | '\\') {
                        out.write_str("\\")?;
                    }
                    write!(out, "{letter}")?;
                }
                out.write_str("']")
            }
        }
    }
}

/// Where a path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldPathTarget {
    /// An environment variable.
    Env,
    /// A file in a volume.
    Volume,
}

/// What may be used besides the fields that every Kubernetes has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra {
    /// `metadata.ownerReferences`: the feature `DownwardAPIOwnerReferences`.
    pub owner_references: bool,
    /// Fields of `spec` and `status` in volumes too (R15): the feature `DownwardAPIVolumeParity`.
    pub volume_parity: bool,
}

impl FieldPathTarget {
    /// Whether a field may be used whole in this place.
    #[must_use]
    pub fn allows(self, field: PodField, extra: Extra) -> bool {
        match field {
            PodField::Name | PodField::Namespace | PodField::Uid => true,
            PodField::Annotations | PodField::Labels => self == FieldPathTarget::Volume,
            PodField::OwnerReferences => extra.owner_references,
            PodField::NodeName
            | PodField::ServiceAccountName
            | PodField::HostIp
            | PodField::HostIps
            | PodField::PodIp
            | PodField::PodIps => self == FieldPathTarget::Env || extra.volume_parity,
            PodField::RestartPolicy | PodField::SchedulerName | PodField::Phase => false,
        }
    }

    /// The fields that may be used whole in this place, as they are written, in order.
    pub fn allowed(self, extra: Extra) -> impl Iterator<Item = &'static str> {
        let fields = FIELDS.iter().filter(move |(field, _)| self.allows(*field, extra));
        fields.map(|(_, path)| *path)
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md, section 2.

    use alloc::format;
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    fn key(path: &str) -> (KeyedMap, String, bool) {
        match FieldPath::parse(path).unwrap() {
            FieldPath::Key { map, key, escaped } => (map, key.into_owned(), escaped),
            FieldPath::Whole(field) => panic!("{path} is {field:?}"),
        }
    }

    fn fault(path: &str) -> (FieldPathErrorKind, usize) {
        let error = FieldPath::parse(path).unwrap_err();
        (error.fault, error.offset)
    }

    #[test]
    fn r1_a_subscript_ends_with_a_quote_and_a_bracket() {
        assert_eq!(split_subscript("metadata.labels['k']"), Some(("metadata.labels", "k")));
        assert_eq!(split_subscript("metadata.labels['a['b']"), Some(("metadata.labels", "a['b")));
        assert_eq!(split_subscript("metadata.labels['']"), Some(("metadata.labels", "")));
        for plain in [
            "['k']",
            "metadata.labels[]",
            "metadata.labels[']",
            "metadata.labels['k']x",
            "metadata.labels[ 'k' ]",
            "metadata.labels",
            "",
            "']",
        ] {
            assert_eq!(split_subscript(plain), None, "{plain}");
            if plain != "metadata.labels" {
                assert_eq!(fault(plain), (FieldPathErrorKind::Unknown, 0), "{plain}");
            }
        }
    }

    #[test]
    fn r2_only_annotations_and_labels_have_keys() {
        for path in ["metadata.ownerReferences['x']", "metadata.name['x']", "nothing['\\q']"] {
            let error = FieldPath::parse(path).unwrap_err();
            assert_eq!(error.fault, FieldPathErrorKind::NoSubscript);
            assert_eq!(
                error.to_string(),
                format!("field label does not support subscript: {path}")
            );
        }
    }

    #[test]
    fn r3_a_key_without_a_backslash_is_taken_as_it_is() {
        let want = (KeyedMap::Annotations, "Www.k8s.io/test".into(), false);
        assert_eq!(key("metadata.annotations['Www.k8s.io/test']"), want);
        assert_eq!(key("metadata.labels['']"), (KeyedMap::Labels, "".into(), false));
    }

    #[test]
    fn r4_raw_brackets_split_as_upstream_splits_them() {
        let want = (KeyedMap::Annotations, "a[b]c".into(), false);
        assert_eq!(key("metadata.annotations['a[b]c']"), want);
    }

    #[test]
    fn r5_a_key_with_a_backslash_is_unescaped() {
        let want = "foo.bar/more'complicated]example[with'characters\"to-escape";
        let path = r#"metadata.annotations['foo.bar/more\'complicated\]example\[with\'characters"to-escape']"#;
        assert_eq!(key(path), (KeyedMap::Annotations, want.into(), true));
        assert_eq!(key(r"metadata.annotations['a\\']").1, r"a\");
        assert_eq!(fault(r"metadata.annotations['a\qb']"), (FieldPathErrorKind::Escape, 23));
        assert_eq!(fault(r"metadata.annotations['a\']"), (FieldPathErrorKind::Unterminated, 23));
        assert_eq!(fault(r"metadata.annotations['a\]b'c']"), (FieldPathErrorKind::Raw, 26));
    }

    #[test]
    fn r7_a_label_may_be_written_with_escapes() {
        assert_eq!(key(r"metadata.labels['a\[']"), (KeyedMap::Labels, "a[".into(), true));
    }

    #[test]
    fn r12_the_old_name_of_the_node_is_understood() {
        assert_eq!(FieldPath::parse("spec.host"), Ok(FieldPath::Whole(PodField::NodeName)));
        for (field, path) in FIELDS {
            assert_eq!(FieldPath::parse(path), Ok(FieldPath::Whole(*field)));
            assert_eq!(field.as_str(), *path);
        }
        assert!(FIELDS.is_sorted_by_key(|(_, path)| path));
    }

    #[test]
    fn r13_each_place_has_its_list() {
        let plain = Extra::default();
        let env: alloc::vec::Vec<_> = FieldPathTarget::Env.allowed(plain).collect();
        assert_eq!(
            env,
            [
                "metadata.name",
                "metadata.namespace",
                "metadata.uid",
                "spec.nodeName",
                "spec.serviceAccountName",
                "status.hostIP",
                "status.hostIPs",
                "status.podIP",
                "status.podIPs"
            ]
        );
        let volume: alloc::vec::Vec<_> = FieldPathTarget::Volume.allowed(plain).collect();
        assert_eq!(
            volume,
            [
                "metadata.annotations",
                "metadata.labels",
                "metadata.name",
                "metadata.namespace",
                "metadata.uid"
            ]
        );
        let owners = Extra { owner_references: true, ..plain };
        assert!(
            FieldPathTarget::Env.allowed(owners).any(|path| path == "metadata.ownerReferences")
        );
        assert!(
            FieldPathTarget::Volume.allowed(owners).any(|path| path == "metadata.ownerReferences")
        );
    }

    #[test]
    fn r15_parity_gives_volumes_what_variables_have() {
        let extra = Extra { volume_parity: true, ..Extra::default() };
        for path in FieldPathTarget::Env.allowed(extra) {
            assert!(
                FieldPathTarget::Volume.allowed(extra).any(|allowed| allowed == path),
                "{path}"
            );
        }
        assert!(!FieldPathTarget::Env.allows(PodField::Labels, extra));
    }

    fn paths() -> impl Strategy<Value = String> {
        let base = prop_oneof![
            Just("metadata.annotations"),
            Just("metadata.labels"),
            Just("metadata.name"),
            Just("")
        ];
        let key = proptest::string::string_regex(r"[\[\]'\\ab/é]{0,12}").unwrap();
        (base, key).prop_map(|(base, key)| format!("{base}['{key}']"))
    }

    proptest! {
        #[test]
        fn r9_any_text_is_read_without_panic(path in any::<String>()) {
            let _ = FieldPath::parse(&path);
        }

        #[test]
        fn r9_any_subscript_is_read_without_panic(path in paths()) {
            if let Err(error) = FieldPath::parse(&path) {
                prop_assert!(path.is_char_boundary(error.offset));
            }
        }

        #[test]
        fn r10_what_was_read_is_written_back(path in paths()) {
            if let Ok(parsed) = FieldPath::parse(&path) {
                prop_assert_eq!(parsed.to_string(), path);
            }
        }

        #[test]
        fn r10_what_was_written_is_read_back(key in any::<String>()) {
            let path = FieldPath::Key {
                map: KeyedMap::Annotations,
                escaped: key.contains(['[', ']', '\'', '\\']),
                key: Cow::Owned(key),
            };
            let text = path.to_string();
            prop_assert_eq!(FieldPath::parse(&text).unwrap(), path);
        }
    }
}
