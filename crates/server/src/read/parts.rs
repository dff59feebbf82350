//! A list as text, written a part at a time: plain, as metadata or as rows; compact, indented or YAML.
//!
//! ```text
//!   before ─ item ─ item ─ item ─ … ─ after        a part holds as many items as fill it
//! ```
//!
//! Nobody holds a long answer whole. Who asks for the parts, and when, is decided elsewhere.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};
use tenure_world::Record;

use crate::negotiate::{BodyFormat, MetaVersion};
use crate::registry::ServedKind;
use crate::response::{self, Columns, Include};

/// How much of an answer is made at a time.
pub(crate) const PART_BYTES: usize = 128 * 1024;

/// What of an object is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemRepresentation {
    /// The whole of it.
    Plain,
    /// Its metadata.
    Metadata(MetaVersion),
    /// A row of a Table, and what the row carries.
    Row(MetaVersion, Columns, Include),
}

/// How text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextLayout {
    /// JSON without white space.
    Compact,
    /// Indented JSON.
    Pretty,
    /// YAML.
    Yaml,
}

impl TextLayout {
    pub(crate) fn of(format: BodyFormat, pretty: bool) -> TextLayout {
        match format {
            BodyFormat::Yaml => TextLayout::Yaml,
            BodyFormat::Json if pretty => TextLayout::Pretty,
            BodyFormat::Json => TextLayout::Compact,
        }
    }

    pub(crate) fn media(self) -> &'static str {
        if self == TextLayout::Yaml { "application/yaml" } else { "application/json" }
    }
}

/// A list on its way to text.
pub(crate) struct ListEncoder {
    served: Arc<ServedKind>,
    records: std::vec::IntoIter<Arc<Record>>,
    shown: ItemRepresentation,
    layout: TextLayout,
    before: Bytes,
    after: Bytes,
    /// Where in the text the next part begins.
    at: EncoderState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EncoderState {
    Begin,
    First,
    Items,
    End,
}

impl ListEncoder {
    /// The list of some records around which this shell stands; its member of that name holds the items.
    ///
    /// A shell without items there, such as `null`, is written as it is.
    pub(crate) fn new(
        (served, records): (Arc<ServedKind>, Vec<Arc<Record>>),
        shown: ItemRepresentation,
        layout: TextLayout,
        (shell, member): (&Value, &str),
    ) -> ListEncoder {
        let (before, after) = around(shell, member, layout, records.is_empty());
        let records = records.into_iter();
        ListEncoder { served, records, shown, layout, before, after, at: EncoderState::Begin }
    }

    /// About how many bytes are still to be written, and whether that is just so many.
    pub(crate) fn size(&self) -> (u64, bool) {
        let around = self.before.len() + self.after.len();
        let mut exact = self.layout == TextLayout::Compact
            && !matches!(self.shown, ItemRepresentation::Row(..));
        let mut total = around as u64;
        for record in self.records.as_slice() {
            let (bytes, is_exact) = self.length(record);
            total += bytes as u64;
            exact &= is_exact;
        }
        // Commas.
        let items = self.records.len() as u64;
        (total + items.saturating_sub(1), exact)
    }

    fn length(&self, record: &Record) -> (usize, bool) {
        match self.shown {
            ItemRepresentation::Plain if self.typed() => {
                (record.bytes().len(), self.served.shows_verbatim(record))
            }
            ItemRepresentation::Plain => {
                (1 + record.typeless().len(), self.served.shows_verbatim(record))
            }
            ItemRepresentation::Metadata(version) => {
                (metadata_head(version).len() + record.metadata().len() + 1, true)
            }
            ItemRepresentation::Row(..) => (record.bytes().len(), false),
        }
    }

    /// Whether items carry their kind: those of custom lists do, those of built-in lists do not (R19).
    fn typed(&self) -> bool {
        self.served.custom.is_some()
    }

    pub(crate) fn media(&self) -> &'static str {
        self.layout.media()
    }

    /// The next part; none at the end.
    pub(crate) fn next_part(&mut self) -> Option<Bytes> {
        if self.at == EncoderState::End {
            return None;
        }
        let mut part = BytesMut::with_capacity(PART_BYTES);
        if self.at == EncoderState::Begin {
            part.extend_from_slice(&self.before);
            self.at = EncoderState::First;
        }
        while part.len() < PART_BYTES {
            let Some(record) = self.records.next() else {
                part.extend_from_slice(&self.after);
                self.at = EncoderState::End;
                break;
            };
            self.separate(&mut part);
            self.item(&mut part, &record);
            self.at = EncoderState::Items;
        }
        Some(part.freeze())
    }

    /// The whole text.
    pub(crate) fn whole(mut self) -> Bytes {
        let Some(first) = self.next_part() else { return Bytes::new() };
        if self.at == EncoderState::End {
            return first;
        }
        let mut all = BytesMut::from(first);
        while let Some(part) = self.next_part() {
            all.extend_from_slice(&part);
        }
        all.freeze()
    }

    fn separate(&self, part: &mut BytesMut) {
        let first = self.at == EncoderState::First;
        part.extend_from_slice(match (self.layout, first) {
            (TextLayout::Compact, true) | (TextLayout::Yaml, _) => b"",
            (TextLayout::Compact, false) => b",",
            (TextLayout::Pretty, true) => b"\n",
            (TextLayout::Pretty, false) => b",\n",
        });
    }

    fn item(&self, part: &mut BytesMut, record: &Record) {
        if self.layout == TextLayout::Compact && self.copied(part, record) {
            return;
        }
        let value = self.value(record);
        match self.layout {
            TextLayout::Compact => part.extend_from_slice(value.to_string().as_bytes()),
            TextLayout::Yaml => {
                let text = tenure_yaml::from_json(&Value::Array(vec![value]));
                part.extend_from_slice(text.as_bytes());
            }
            TextLayout::Pretty => {
                let text = serde_json::to_string_pretty(&value).unwrap_or_default();
                for (number, line) in text.lines().enumerate() {
                    part.extend_from_slice(if number > 0 { b"\n    " } else { b"    " });
                    part.extend_from_slice(line.as_bytes());
                }
            }
        }
    }

    /// Writes an item that is stored as it is shown; false if it is not.
    fn copied(&self, part: &mut BytesMut, record: &Record) -> bool {
        match self.shown {
            ItemRepresentation::Metadata(version) => {
                part.extend_from_slice(metadata_head(version).as_bytes());
                part.extend_from_slice(&record.metadata());
                part.extend_from_slice(b"}");
                true
            }
            ItemRepresentation::Plain if self.served.shows_verbatim(record) => {
                if self.typed() {
                    part.extend_from_slice(record.bytes());
                } else {
                    part.extend_from_slice(b"{");
                    part.extend_from_slice(&record.typeless());
                }
                true
            }
            ItemRepresentation::Plain | ItemRepresentation::Row(..) => false,
        }
    }

    fn value(&self, record: &Record) -> Value {
        if let ItemRepresentation::Metadata(version) = self.shown {
            let metadata: Value = serde_json::from_slice(&record.metadata()).unwrap_or_default();
            return json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": version.api_version(),
                "metadata": metadata,
            });
        }
        // What was read when it was stored can be read.
        let mut object = self.served.read(record).unwrap_or_default();
        if let ItemRepresentation::Row(version, columns, include) = self.shown {
            return response::row(&self.served, &object, version, include, columns);
        }
        if !self.typed() {
            object.remove("kind");
            object.remove("apiVersion");
        }
        Value::Object(object)
    }
}

fn metadata_head(version: MetaVersion) -> &'static str {
    match version {
        MetaVersion::V1 => {
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#
        }
        MetaVersion::V1Beta1 => {
            r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":"#
        }
    }
}

/// The text before and after the items of a list.
fn around(shell: &Value, member: &str, layout: TextLayout, empty: bool) -> (Bytes, Bytes) {
    let (mut text, mark) = match layout {
        TextLayout::Compact => return around_compact(shell, member),
        TextLayout::Pretty => {
            let text = serde_json::to_string_pretty(shell).unwrap_or_default();
            (text, format!("\n  \"{member}\": []"))
        }
        TextLayout::Yaml => (tenure_yaml::from_json(shell), format!("\n{member}: []")),
    };
    if layout == TextLayout::Pretty {
        text.push('\n');
    }
    // A marked text inside of a value is quoted or indented, so the last one at the top is the member.
    let found = if empty { None } else { text.rfind(&mark) };
    let Some(at) = found else { return (Bytes::from(text), Bytes::new()) };
    let end = at + mark.len();
    let (before, after) =
        (text.get(..end).unwrap_or_default(), text.get(end..).unwrap_or_default());
    let before = match layout {
        TextLayout::Yaml => format!("{}\n", before.trim_end_matches(" []")),
        _ => before.trim_end_matches(']').to_owned(),
    };
    let after = match layout {
        TextLayout::Compact | TextLayout::Pretty => format!("\n  ]{after}"),
        TextLayout::Yaml => after.trim_start_matches('\n').to_owned(),
    };
    (Bytes::from(before), Bytes::from(after))
}

/// The same without white space; readers learn first what they read.
fn around_compact(shell: &Value, member: &str) -> (Bytes, Bytes) {
    let Some(members) =
        shell.as_object().filter(|shell| shell.get(member).is_some_and(Value::is_array))
    else {
        return (Bytes::from(shell.to_string()), Bytes::new());
    };
    let names = ["kind", "apiVersion"].into_iter();
    let others =
        members.keys().map(String::as_str).filter(|name| !matches!(*name, "kind" | "apiVersion"));
    let mut text = String::from("{");
    for name in names.chain(others).filter(|name| *name != member) {
        if let Some(value) = members.get(name) {
            text += &format!("\"{name}\":{value},");
        }
    }
    (Bytes::from(format!("{text}\"{member}\":[")), Bytes::from_static(b"]}"))
}

#[cfg(test)]
#[path = "parts/tests.rs"]
mod tests;
