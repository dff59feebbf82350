//! One object as it is stored and sent: final JSON bytes and a small parsed header.
//!
//! Bytes are written once, by the draft, and only the revision is put in later.
//! Nothing here decodes an object or knows a kind.
//!
//! ```text
//!   {"kind":K,"apiVersion":V,"metadata":{…,"resourceVersion":"123"},…}
//!                            └ body_at  └ metadata          └ version
//! ```

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tenure_core::Revision;

use crate::header::{BadRecord, OwnerSpans, RecordHeader, SelectableFields, SelectablePath};
use crate::scan::Span;

/// One owner reference of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The group and version the reference was written with.
    pub api_version: &'a str,
    /// The kind of the owner.
    pub kind: &'a str,
    /// The name of the owner.
    pub name: &'a str,
    /// The uid of the owner.
    pub uid: &'a str,
    /// Whether this owner is the managing controller.
    pub controller: bool,
    /// Whether the owner's foreground deletion waits for this record.
    pub block: bool,
}

/// An object at a revision: what readers, watchers and engines share.
#[derive(Debug)]
pub struct Record {
    key: Arc<str>,
    revision: Revision,
    bytes: Bytes,
    header: RecordHeader,
    /// Whether the bytes were made from those that are stored, for readers who want another form.
    reshaped: bool,
}

impl Record {
    /// Reads a record back from stored bytes.
    ///
    /// # Errors
    /// The bytes are not an object as [`Draft::encode`] writes it.
    pub fn read(
        key: Arc<str>,
        revision: Revision,
        bytes: Bytes,
        layout: &dyn SelectableFields,
    ) -> Result<Record, BadRecord> {
        let header = RecordHeader::read(&bytes, layout.fields(&key))?;
        Ok(Record { key, revision, bytes, header, reshaped: false })
    }

    /// The same object at the same revision in another form, which nobody stores.
    ///
    /// # Errors
    /// The draft is no object.
    pub fn reshape(
        &self,
        draft: Draft,
        fields: Option<Arc<[SelectablePath]>>,
    ) -> Result<Record, BadRecord> {
        let header = RecordHeader::read(&draft.bytes, fields)?;
        let prepared = PreparedDraft { key: Arc::clone(&self.key), draft, header };
        Ok(Record { reshaped: true, ..prepared.number(self.revision) })
    }

    /// Whether this is another form of what is stored.
    #[must_use]
    pub fn is_reshaped(&self) -> bool {
        self.reshaped
    }

    /// The key it is stored under.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The revision of the write that made it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The whole object as final JSON.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    fn text(&self, span: Span) -> &str {
        span.text(&self.bytes, &self.header.side)
    }

    /// Whether the stored text contains another.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        // The bytes were read as text when the record was made; reading them again costs less than
        // keeping a second copy.
        std::str::from_utf8(&self.bytes).is_ok_and(|stored| stored.contains(text))
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text(self.header.name)
    }

    /// `metadata.namespace`; empty for what lives in no namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text(self.header.namespace)
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text(self.header.uid)
    }

    /// `metadata.generation`, or zero.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.header.generation
    }

    /// `metadata.creationTimestamp` as written, or empty.
    #[must_use]
    pub fn created(&self) -> &str {
        self.text(self.header.created)
    }

    /// `metadata.deletionTimestamp` as written, if there is one.
    #[must_use]
    pub fn deleted(&self) -> Option<&str> {
        (self.header.deleted != Span::ABSENT).then(|| self.text(self.header.deleted))
    }

    /// Whether a deletion has begun and waits for finalizers.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.header.deleted != Span::ABSENT
    }

    /// The labels, sorted by name.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.header.labels.iter().map(|(name, value)| (self.text(*name), self.text(*value)))
    }

    /// The value of one label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels().find(|(has, _)| *has == name).map(|(_, value)| value)
    }

    /// The finalizers, in their order.
    pub fn finalizers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.header.finalizers.iter().map(|span| self.text(*span))
    }

    /// The owner references, in their order.
    pub fn owners(&self) -> impl ExactSizeIterator<Item = Owner<'_>> {
        self.header.owners.iter().map(|owner| Owner {
            api_version: self.text(owner.api_version),
            kind: self.text(owner.kind),
            name: self.text(owner.name),
            uid: self.text(owner.uid),
            controller: owner.controller,
            block: owner.block,
        })
    }

    /// Whether identity, deletion, finalizers and owner references are those of another record.
    #[must_use]
    pub fn owned_like(&self, other: &Record) -> bool {
        let (mine, theirs) = (&self.header, &other.header);
        // As bytes, because nearly every change comes by here.
        let same = |one: Span, two: Span| {
            one.of(&self.bytes, &mine.side) == two.of(&other.bytes, &theirs.side)
        };
        let same_owner = |(one, two): (&OwnerSpans, &OwnerSpans)| {
            one.block == two.block
                && one.controller == two.controller
                && same(one.uid, two.uid)
                && same(one.name, two.name)
                && same(one.kind, two.kind)
                && same(one.api_version, two.api_version)
        };
        same(mine.uid, theirs.uid)
            && self.deleting() == other.deleting()
            && mine.finalizers.len() == theirs.finalizers.len()
            && mine.owners.len() == theirs.owners.len()
            && mine.finalizers.iter().zip(&theirs.finalizers).all(|(one, two)| same(*one, *two))
            && mine.owners.iter().zip(&theirs.owners).all(same_owner)
    }

    /// The text of a selectable member, by its dotted path.
    ///
    /// `None` when the layout did not name the path when the record was made.
    #[must_use]
    pub fn field(&self, dotted: &str) -> Option<&str> {
        let paths = self.header.paths.as_deref()?;
        let number = paths.iter().position(|path| path.dotted() == dotted)?;
        let span = self.header.fields.get(number).copied()?;
        if span == Span::ABSENT {
            return paths.get(number).map(SelectablePath::absent);
        }
        Some(self.text(span))
    }

    /// The selectable members with their texts, in the order of the layout.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let paths = self.header.paths.as_deref().unwrap_or_default();
        paths.iter().zip(&*self.header.fields).map(|(path, span)| {
            let text = if *span == Span::ABSENT { path.absent() } else { self.text(*span) };
            (path.dotted(), text)
        })
    }

    /// `apiVersion` as it is written; no group and no version has a character that needs an escape.
    #[must_use]
    pub fn api_version(&self) -> &str {
        const MEMBER: &str = "\"apiVersion\":\"";
        let head = self.bytes.get(..self.body_at()).unwrap_or_default();
        let head = std::str::from_utf8(head).unwrap_or_default();
        let value = head.split_once(MEMBER).map_or("", |(_, value)| value);
        value.split_once('"').map_or("", |(version, _)| version)
    }

    /// Where the object goes on after `kind` and `apiVersion`.
    #[must_use]
    pub fn body_at(&self) -> usize {
        self.header.body_at as usize
    }

    /// The object without `kind` and `apiVersion`: write `{` and then this.
    #[must_use]
    pub fn typeless(&self) -> Bytes {
        self.bytes.slice(self.body_at().min(self.bytes.len())..)
    }

    /// The value of `metadata`.
    #[must_use]
    pub fn metadata(&self) -> Bytes {
        self.part(self.header.metadata)
    }

    /// The value of `metadata.managedFields`; empty when there is none.
    #[must_use]
    pub fn managed_fields(&self) -> Bytes {
        self.part(self.header.managed)
    }

    /// The value of `status`; empty when there is none.
    #[must_use]
    pub fn status(&self) -> Bytes {
        self.part(self.header.status)
    }

    fn part(&self, span: Span) -> Bytes {
        let range = span.range();
        if range.end > self.bytes.len() || range.start > range.end {
            return Bytes::new();
        }
        self.bytes.slice(range)
    }

    /// The object as JSON with another revision, as a deletion's last state is told.
    #[must_use]
    pub fn with_revision(&self, revision: Revision) -> Bytes {
        let range = self.header.version.range();
        let (Some(before), Some(after)) =
            (self.bytes.get(..range.start), self.bytes.get(range.end..))
        else {
            return self.bytes.clone();
        };
        spliced(before, revision, after)
    }

    /// About how many bytes this record keeps in memory.
    #[must_use]
    pub fn weight(&self) -> usize {
        let header = &self.header;
        size_of::<Record>()
            + 64
            + self.key.len()
            + self.bytes.len()
            + size_of_val(&*header.labels)
            + size_of_val(&*header.owners)
            + size_of_val(&*header.finalizers)
            + size_of_val(&*header.fields)
            + header.side.len()
    }
}

/// Puts the decimal revision between two parts, in one allocation of the exact size.
fn spliced(before: &[u8], revision: Revision, after: &[u8]) -> Bytes {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(revision.0).as_bytes();
    let mut out = Vec::with_capacity(before.len() + digits.len() + after.len());
    out.extend_from_slice(before);
    out.extend_from_slice(digits);
    out.extend_from_slice(after);
    Bytes::from(out)
}

/// An object written out but for its revision, which only the commit knows.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: Vec<u8>,
    hole: usize,
}

impl Draft {
    /// Writes an object out once, with a hole where the revision goes.
    ///
    /// `kind`, `apiVersion` and `metadata.resourceVersion` inside `object` are not looked at.
    #[must_use]
    pub fn encode(kind: &str, api_version: &str, object: &Map<String, Value>) -> Draft {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(b"{\"kind\":");
        write_text(&mut out, kind);
        out.extend_from_slice(b",\"apiVersion\":");
        write_text(&mut out, api_version);
        out.extend_from_slice(b",\"metadata\":{");
        let metadata = object.get("metadata").and_then(Value::as_object);
        for (name, value) in metadata.into_iter().flatten() {
            if name != "resourceVersion" {
                write_member(&mut out, name, value);
                out.push(b',');
            }
        }
        out.extend_from_slice(b"\"resourceVersion\":\"");
        let hole = out.len();
        out.extend_from_slice(b"\"}");
        for (name, value) in object {
            if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                out.push(b',');
                write_member(&mut out, name, value);
            }
        }
        out.push(b'}');
        Draft { bytes: out, hole }
    }

    /// How many bytes were written, without the revision.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written; never so for an encoded object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether a record says the same but for its revision, so that writing it would change nothing.
    #[must_use]
    pub fn says_the_same_as(&self, record: &Record) -> bool {
        let version = record.header.version.range();
        self.bytes.get(..self.hole) == record.bytes.get(..version.start)
            && self.bytes.get(self.hole..) == record.bytes.get(version.end..)
    }

    /// Reads the header, so that the commit has nothing left to parse.
    pub(crate) fn prepare(
        self,
        key: Arc<str>,
        layout: &dyn SelectableFields,
    ) -> Result<PreparedDraft, BadRecord> {
        let header = RecordHeader::read(&self.bytes, layout.fields(&key))?;
        Ok(PreparedDraft { key, draft: self, header })
    }
}

/// A draft with its header, ready to be numbered.
#[derive(Debug)]
pub(crate) struct PreparedDraft {
    pub(crate) key: Arc<str>,
    draft: Draft,
    header: RecordHeader,
}

impl PreparedDraft {
    pub(crate) fn len(&self) -> usize {
        self.draft.bytes.len()
    }

    /// Whether it is on its way out.
    pub(crate) fn is_leaving(&self) -> bool {
        self.header.deleted != Span::ABSENT
    }

    /// Puts the revision in.
    pub(crate) fn number(self, revision: Revision) -> Record {
        let PreparedDraft { key, draft, mut header } = self;
        let (before, after) = draft.bytes.split_at(draft.hole.min(draft.bytes.len()));
        let bytes = spliced(before, revision, after);
        let digits = bytes.len() - draft.bytes.len();
        header.shift(u32::try_from(digits).unwrap_or_default());
        Record { key, revision, bytes, header, reshaped: false }
    }
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &Value) {
    write_text(out, name);
    out.push(b':');
    // Writing a tree into memory cannot fail; an empty value would be caught by the header.
    let _ = serde_json::to_writer(&mut *out, value);
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    let _ = serde_json::to_writer(&mut *out, text);
}
