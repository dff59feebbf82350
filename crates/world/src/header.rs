//! What is known of a record without decoding it: identity, labels, owners, places of its parts.
//!
//! A header holds places in the record's bytes, not copies; the record answers with text.
//! It never holds the content of an object.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::scan::{JsonScanner, JsonValueKind, Lost, Span};

/// A member that clients may select by, such as `spec.nodeName`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectablePath {
    /// The path as selectors write it.
    dotted: Box<str>,
    segments: Box<[Box<str>]>,
    absent: Box<str>,
}

impl SelectablePath {
    /// The member at a dotted path, and the text it reads as when it is absent or null.
    #[must_use]
    pub fn new(dotted: &str, absent: &str) -> SelectablePath {
        SelectablePath {
            dotted: dotted.into(),
            segments: dotted.split('.').map(Into::into).collect(),
            absent: absent.into(),
        }
    }

    /// The path as selectors write it, such as `spec.nodeName`.
    #[must_use]
    pub fn dotted(&self) -> &str {
        &self.dotted
    }

    /// What an absent member reads as.
    #[must_use]
    pub fn absent(&self) -> &str {
        &self.absent
    }

    pub(crate) fn depth(&self) -> usize {
        self.segments.len()
    }

    /// Whether the segment at `depth` is `name`.
    pub(crate) fn passes(&self, depth: usize, name: &[u8]) -> bool {
        self.segments.get(depth).is_some_and(|segment| segment.as_bytes() == name)
    }
}

/// Says which members of the objects under a key are selectable.
pub trait SelectableFields: Send + Sync {
    /// The selectable members of the object at `key`; `None` when there are none.
    fn fields(&self, key: &str) -> Option<Arc<[SelectablePath]>>;
}

/// A layout without selectable members.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainLayout;

impl SelectableFields for PlainLayout {
    fn fields(&self, _key: &str) -> Option<Arc<[SelectablePath]>> {
        None
    }
}

/// The bytes of a record are not an object in the form this crate writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// The JSON ends early or is not an object with an object `metadata`.
    #[error("not a stored object: reading stopped at byte {0}")]
    Malformed(usize),
    /// The bytes are not UTF-8.
    #[error("not a stored object: not UTF-8")]
    NotText,
}

impl From<Lost> for BadRecord {
    fn from(lost: Lost) -> BadRecord {
        BadRecord::Malformed(lost.0)
    }
}

/// One owner reference, as places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnerSpans {
    pub(crate) api_version: Span,
    pub(crate) kind: Span,
    pub(crate) name: Span,
    pub(crate) uid: Span,
    pub(crate) controller: bool,
    pub(crate) block: bool,
}

/// The places of the parts of a record that others ask for.
#[derive(Clone, Debug)]
pub(crate) struct RecordHeader {
    pub(crate) name: Span,
    pub(crate) namespace: Span,
    pub(crate) uid: Span,
    pub(crate) created: Span,
    pub(crate) deleted: Span,
    pub(crate) metadata: Span,
    pub(crate) managed: Span,
    pub(crate) status: Span,
    pub(crate) version: Span,
    /// Where the first member after `kind` and `apiVersion` begins.
    pub(crate) body_at: u32,
    pub(crate) generation: i64,
    pub(crate) labels: Box<[(Span, Span)]>,
    pub(crate) owners: Box<[OwnerSpans]>,
    pub(crate) finalizers: Box<[Span]>,
    pub(crate) fields: Box<[Span]>,
    pub(crate) paths: Option<Arc<[SelectablePath]>>,
    /// Plain forms of the strings that are written with escapes; nearly always empty.
    pub(crate) side: Box<str>,
}

impl RecordHeader {
    /// Reads the header of stored bytes, with the selectable members of its kind.
    ///
    /// # Errors
    /// The bytes are not an object as [`crate::Draft::encode`] writes it.
    pub(crate) fn read(
        bytes: &[u8],
        paths: Option<Arc<[SelectablePath]>>,
    ) -> Result<RecordHeader, BadRecord> {
        std::str::from_utf8(bytes).map_err(|_| BadRecord::NotText)?;
        let mut header = RecordHeader::empty();
        let wanted = paths.as_deref().unwrap_or_default();
        let mut found: SmallVec<[Span; 8]> = SmallVec::from_elem(Span::ABSENT, wanted.len());
        let mut scan = JsonScanner::new(bytes);
        scan.members(|scan, name| header.member(scan, name, wanted, &mut found))?;
        let body = bytes.get(header.body_at as usize..).unwrap_or_default();
        if header.metadata == Span::EMPTY || !body.starts_with(b"\"metadata\":{") {
            return Err(BadRecord::Malformed(scan.at()));
        }
        header.fields = found.into_vec().into_boxed_slice();
        header.paths = paths;
        header.side = scan.side.into_boxed_str();
        Ok(header)
    }

    fn empty() -> RecordHeader {
        RecordHeader {
            name: Span::EMPTY,
            namespace: Span::EMPTY,
            uid: Span::EMPTY,
            created: Span::EMPTY,
            deleted: Span::ABSENT,
            metadata: Span::EMPTY,
            managed: Span::EMPTY,
            status: Span::EMPTY,
            version: Span::EMPTY,
            body_at: 0,
            generation: 0,
            labels: Box::default(),
            owners: Box::default(),
            finalizers: Box::default(),
            fields: Box::default(),
            paths: None,
            side: Box::default(),
        }
    }

    /// Takes in one member of the object.
    fn member(
        &mut self,
        scan: &mut JsonScanner<'_>,
        name: &[u8],
        paths: &[SelectablePath],
        found: &mut [Span],
    ) -> Result<(), Lost> {
        let start = scan.at();
        let wanted: SmallVec<[usize; 8]> =
            (0..paths.len()).filter(|n| paths.get(*n).is_some_and(|p| p.passes(0, name))).collect();
        if name == b"metadata" {
            // The quoted name and the colon come right before the value.
            self.body_at = u32::try_from(start.saturating_sub(11)).map_err(|_| Lost(start))?;
            self.read_metadata(scan)?;
            self.metadata = Span::new(start, scan.at()).ok_or(Lost(start))?;
            if wanted.is_empty() {
                return Ok(());
            }
            scan.rewind(start);
        }
        if wanted.is_empty() {
            scan.skip()?;
        } else {
            scan.fields(paths, &wanted, 1, found)?;
        }
        if name == b"status" {
            self.status = Span::new(start, scan.at()).ok_or(Lost(start))?;
        }
        Ok(())
    }

    fn read_metadata(&mut self, scan: &mut JsonScanner<'_>) -> Result<(), Lost> {
        scan.members(|scan, name| {
            match name {
                b"name" => self.name = scan.text_or_skip()?,
                b"namespace" => self.namespace = scan.text_or_skip()?,
                b"uid" => self.uid = scan.text_or_skip()?,
                b"resourceVersion" => self.version = scan.text_or_skip()?,
                b"creationTimestamp" => self.created = scan.text_or_skip()?,
                b"deletionTimestamp" if scan.next_is()? == JsonValueKind::Text => {
                    self.deleted = scan.text()?;
                }
                b"generation" => self.generation = number(scan)?,
                b"labels" => self.labels = scan.pairs()?.into_boxed_slice(),
                b"finalizers" => self.finalizers = texts(scan)?,
                b"ownerReferences" => self.owners = owners(scan)?,
                b"managedFields" => self.managed = scan.skip()?,
                _ => {
                    scan.skip()?;
                }
            }
            Ok(())
        })
    }

    /// Moves every place after the version to where it lies once `by` digits are put in.
    pub(crate) fn shift(&mut self, by: u32) {
        let hole = u32::try_from(self.version.range().start).unwrap_or_default();
        for span in [
            &mut self.metadata,
            &mut self.managed,
            &mut self.status,
            &mut self.version,
            &mut self.name,
            &mut self.namespace,
            &mut self.uid,
            &mut self.created,
            &mut self.deleted,
        ] {
            *span = span.shifted(hole, by);
        }
        for span in self.fields.iter_mut().chain(self.finalizers.iter_mut()) {
            *span = span.shifted(hole, by);
        }
    }
}

fn number(scan: &mut JsonScanner<'_>) -> Result<i64, Lost> {
    let span = scan.skip()?;
    Ok(scan.written(span).parse().unwrap_or_default())
}

fn truth(scan: &mut JsonScanner<'_>) -> Result<bool, Lost> {
    let span = scan.skip()?;
    Ok(scan.written(span) == "true")
}

fn texts(scan: &mut JsonScanner<'_>) -> Result<Box<[Span]>, Lost> {
    let mut texts = Vec::new();
    if scan.next_is()? != JsonValueKind::List {
        scan.skip()?;
        return Ok(Box::default());
    }
    scan.items(|scan| {
        texts.push(scan.text_or_skip()?);
        Ok(())
    })?;
    Ok(texts.into_boxed_slice())
}

fn owners(scan: &mut JsonScanner<'_>) -> Result<Box<[OwnerSpans]>, Lost> {
    let mut owners = Vec::new();
    if scan.next_is()? != JsonValueKind::List {
        scan.skip()?;
        return Ok(Box::default());
    }
    scan.items(|scan| {
        owners.push(owner(scan)?);
        Ok(())
    })?;
    Ok(owners.into_boxed_slice())
}

fn owner(scan: &mut JsonScanner<'_>) -> Result<OwnerSpans, Lost> {
    let mut owner = OwnerSpans {
        api_version: Span::EMPTY,
        kind: Span::EMPTY,
        name: Span::EMPTY,
        uid: Span::EMPTY,
        controller: false,
        block: false,
    };
    if scan.next_is()? != JsonValueKind::Object {
        scan.skip()?;
        return Ok(owner);
    }
    scan.members(|scan, name| {
        match name {
            b"apiVersion" => owner.api_version = scan.text_or_skip()?,
            b"kind" => owner.kind = scan.text_or_skip()?,
            b"name" => owner.name = scan.text_or_skip()?,
            b"uid" => owner.uid = scan.text_or_skip()?,
            b"controller" => owner.controller = truth(scan)?,
            b"blockOwnerDeletion" => owner.block = truth(scan)?,
            _ => {
                scan.skip()?;
            }
        }
        Ok(())
    })?;
    Ok(owner)
}
