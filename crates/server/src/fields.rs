//! Documents of settings, read field by field; what is wrong is collected with its field.
//!
//! Which fields there are, and what they mean, is known by whoever reads.

use serde_json::Value;
use tenure_machinery::{Errors, Object, Path, Reason};

/// Reads fields and collects what is wrong with them.
pub(crate) struct FieldReader<'e> {
    pub(crate) errors: &'e mut Errors,
}

impl FieldReader<'_> {
    /// Refuses another document than that of a kind in one of these versions.
    pub(crate) fn document_is(&mut self, document: &Object, versions: &[&str], kind: &str) {
        let (root, kinds) = (Path::Root, [kind]);
        for (member, known) in [("apiVersion", versions), ("kind", kinds.as_slice())] {
            match self.text(document, &root, member) {
                "" => self.errors.required(&root.field(member), ""),
                said if known.contains(&said) => {}
                said => self.errors.not_supported(&root.field(member), said, known),
            }
        }
    }

    /// Refuses members that nobody knows: a misspelt one would be a rule that nobody keeps.
    pub(crate) fn known(&mut self, object: &Object, path: &Path<'_>, known: &[&str]) {
        for member in object.keys().filter(|member| !known.contains(&member.as_str())) {
            self.errors.push(Reason::Invalid, &path.field(member), "unknown field");
        }
    }

    pub(crate) fn no_mapping(&mut self, path: &Path<'_>, value: &Value) {
        self.errors.invalid(path, shown(value), "must be a mapping");
    }

    /// A text; empty where there is none.
    pub(crate) fn text<'a>(
        &mut self,
        object: &'a Object,
        path: &Path<'_>,
        member: &str,
    ) -> &'a str {
        match object.get(member) {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(other) => {
                self.errors.invalid(&path.field(member), shown(other), "must be a string");
                ""
            }
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&mut self, object: &Object, path: &Path<'_>, member: &str) -> Vec<String> {
        let list = self.list(object, path, member);
        let path = path.field(member);
        let mut texts = Vec::new();
        for (index, one) in list.iter().enumerate() {
            match one {
                Value::String(text) => texts.push(text.clone()),
                other => {
                    self.errors.invalid(&path.index(index), shown(other), "must be a string");
                }
            }
        }
        texts
    }

    pub(crate) fn flag(&mut self, object: &Object, path: &Path<'_>, member: &str) -> Option<bool> {
        match object.get(member)? {
            Value::Null => None,
            Value::Bool(flag) => Some(*flag),
            other => {
                self.errors.invalid(&path.field(member), shown(other), "must be true or false");
                None
            }
        }
    }

    pub(crate) fn list<'a>(
        &mut self,
        object: &'a Object,
        path: &Path<'_>,
        member: &str,
    ) -> &'a [Value] {
        match object.get(member) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(list)) => list,
            Some(other) => {
                self.errors.invalid(&path.field(member), shown(other), "must be a list");
                &[]
            }
        }
    }
}

/// The beginning of a value, for somebody who looks for it in the file.
pub(crate) fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}
