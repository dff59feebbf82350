//! Finds where things are in JSON bytes without building a tree.
//!
//! It walks once, forwards, without recursion, and answers with places.
//! It never changes, copies or validates beyond what finding needs.

use smallvec::SmallVec;

use crate::header::SelectablePath;

/// A part of a record's bytes, or of its side text when the value is written with escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

/// Set in both ends of a span that points into the side text.
const SIDE: u32 = 1 << 31;

impl Span {
    /// Nothing, found at no place.
    pub(crate) const EMPTY: Span = Span { start: 0, end: 0 };
    /// A member that is not there, as opposed to one that is empty.
    pub(crate) const ABSENT: Span = Span { start: u32::MAX, end: u32::MAX };

    /// The part from `start` to `end`; `None` for bytes beyond what a record may hold.
    pub(crate) fn new(start: usize, end: usize) -> Option<Span> {
        let start = u32::try_from(start).ok().filter(|at| *at < SIDE)?;
        let end = u32::try_from(end).ok().filter(|at| *at < SIDE)?;
        Some(Span { start, end })
    }

    /// The same part of the side text.
    fn in_side_text(self) -> Span {
        Span { start: self.start | SIDE, end: self.end | SIDE }
    }

    /// The bytes this span points at; empty when it points at nothing.
    pub(crate) fn of<'a>(self, bytes: &'a [u8], side: &'a str) -> &'a [u8] {
        if self == Span::ABSENT {
            return &[];
        }
        if self.start & SIDE != 0 {
            let range = (self.start & !SIDE) as usize..(self.end & !SIDE) as usize;
            return side.as_bytes().get(range).unwrap_or_default();
        }
        bytes.get(self.range()).unwrap_or_default()
    }

    /// The text this span points at.
    pub(crate) fn text<'a>(self, bytes: &'a [u8], side: &'a str) -> &'a str {
        std::str::from_utf8(self.of(bytes, side)).unwrap_or_default()
    }

    /// As a range of the record's own bytes.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Where this span lies after `by` bytes were put in at `hole`.
    pub(crate) fn shifted(self, hole: u32, by: u32) -> Span {
        if self.start & SIDE != 0 {
            return self;
        }
        Span {
            start: if self.start > hole { self.start.saturating_add(by) } else { self.start },
            end: if self.end >= hole { self.end.saturating_add(by) } else { self.end },
        }
    }
}

/// The bytes are not the JSON that was looked for; the number is how far the walk came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost(pub(crate) usize);

/// What kind of value comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonValueKind {
    /// An object.
    Object,
    /// A list.
    List,
    /// A string.
    Text,
    /// The word null.
    Null,
    /// A number or a truth.
    Plain,
}

/// A walk over the bytes of one JSON value.
pub(crate) struct JsonScanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Strings whose written form has escapes, in their plain form.
    pub(crate) side: String,
}

impl<'a> JsonScanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> JsonScanner<'a> {
        JsonScanner { bytes, at: 0, side: String::new() }
    }

    /// How far the walk has come.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The text of a part that was just stepped over.
    pub(crate) fn written(&self, span: Span) -> &'a str {
        std::str::from_utf8(self.bytes.get(span.range()).unwrap_or_default()).unwrap_or_default()
    }

    /// Goes back to a place seen before.
    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    fn lost(&self) -> Lost {
        Lost(self.at)
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Result<(), Lost> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.lost())
    }

    /// What kind of value comes next.
    pub(crate) fn next_is(&mut self) -> Result<JsonValueKind, Lost> {
        match self.peek() {
            Some(b'{') => Ok(JsonValueKind::Object),
            Some(b'[') => Ok(JsonValueKind::List),
            Some(b'"') => Ok(JsonValueKind::Text),
            Some(b'n') => Ok(JsonValueKind::Null),
            Some(b't' | b'f' | b'-' | b'0'..=b'9') => Ok(JsonValueKind::Plain),
            _ => Err(self.lost()),
        }
    }

    /// Steps over a string and says where its content lies and whether it has escapes.
    fn quoted(&mut self) -> Result<(usize, usize, bool), Lost> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = self.bytes.get(self.at..).ok_or(self.lost())?;
            let stop = rest.iter().position(|b| matches!(b, b'"' | b'\\')).ok_or(self.lost())?;
            self.at += stop;
            if self.bytes.get(self.at) == Some(&b'"') {
                self.at += 1;
                return Ok((start, self.at - 1, escaped));
            }
            escaped = true;
            self.at += 2;
        }
    }

    /// Reads a string; one with escapes goes to the side text.
    pub(crate) fn text(&mut self) -> Result<Span, Lost> {
        let (start, end, escaped) = self.quoted()?;
        if !escaped {
            return Span::new(start, end).ok_or(self.lost());
        }
        let written = self.bytes.get(start - 1..end + 1).unwrap_or_default();
        let plain: String = serde_json::from_slice(written).map_err(|_| Lost(start))?;
        let from = self.side.len();
        self.side.push_str(&plain);
        Span::new(from, self.side.len()).map(Span::in_side_text).ok_or(self.lost())
    }

    /// Reads the next value as text if it is a string, and steps over it otherwise.
    pub(crate) fn text_or_skip(&mut self) -> Result<Span, Lost> {
        if self.next_is()? == JsonValueKind::Text {
            return self.text();
        }
        self.skip().map(|_| Span::EMPTY)
    }

    /// Steps over any value and says where it lies.
    pub(crate) fn skip(&mut self) -> Result<Span, Lost> {
        let kind = self.next_is()?;
        let start = self.at;
        match kind {
            JsonValueKind::Text => {
                self.quoted()?;
            }
            JsonValueKind::Object | JsonValueKind::List => self.skip_nested()?,
            JsonValueKind::Null | JsonValueKind::Plain => {
                let rest = self.bytes.get(start..).unwrap_or_default();
                let length = rest
                    .iter()
                    .position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'))
                    .unwrap_or(rest.len());
                self.at += length;
            }
        }
        Span::new(start, self.at).ok_or(self.lost())
    }

    fn skip_nested(&mut self) -> Result<(), Lost> {
        let mut depth = 0_usize;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.quoted()?;
                    continue;
                }
                Some(b'{' | b'[') => depth += 1,
                Some(b'}' | b']') => depth = depth.saturating_sub(1),
                Some(_) => {}
                None => return Err(self.lost()),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Walks the members of an object; the visitor must step over each value.
    pub(crate) fn members(
        &mut self,
        mut visit: impl FnMut(&mut JsonScanner<'a>, &'a [u8]) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            let (start, end, _) = self.quoted()?;
            let name = self.bytes.get(start..end).unwrap_or_default();
            self.expect(b':')?;
            self.space();
            visit(self, name)?;
            if !self.more(b'}')? {
                return Ok(());
            }
        }
    }

    /// Walks the items of a list; the visitor must step over each item.
    pub(crate) fn items(
        &mut self,
        mut visit: impl FnMut(&mut JsonScanner<'a>) -> Result<(), Lost>,
    ) -> Result<(), Lost> {
        self.expect(b'[')?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            visit(self)?;
            if !self.more(b']')? {
                return Ok(());
            }
        }
    }

    fn more(&mut self, close: u8) -> Result<bool, Lost> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.lost()),
        }
    }

    /// Reads the map of strings that comes next, such as labels.
    pub(crate) fn pairs(&mut self) -> Result<Vec<(Span, Span)>, Lost> {
        let mut pairs = Vec::new();
        if self.next_is()? != JsonValueKind::Object {
            self.skip()?;
            return Ok(pairs);
        }
        self.expect(b'{')?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(pairs);
        }
        loop {
            self.space();
            let name = self.text()?;
            self.expect(b':')?;
            pairs.push((name, self.text_or_skip()?));
            if !self.more(b'}')? {
                return Ok(pairs);
            }
        }
    }

    /// Steps over the next value and notes the selectable fields inside it.
    ///
    /// `wanted` holds the numbers of the paths whose first `depth` segments lead here.
    pub(crate) fn fields(
        &mut self,
        paths: &[SelectablePath],
        wanted: &[usize],
        depth: usize,
        found: &mut [Span],
    ) -> Result<(), Lost> {
        let kind = self.next_is()?;
        let ends_here = |number: &&usize| paths.get(**number).is_some_and(|p| p.depth() == depth);
        let leaves: SmallVec<[usize; 4]> = wanted.iter().filter(ends_here).copied().collect();
        if kind != JsonValueKind::Object {
            let span = match kind {
                JsonValueKind::Text => self.text()?,
                JsonValueKind::Plain => self.skip()?,
                _ => self.skip().map(|_| Span::ABSENT)?,
            };
            for number in leaves {
                if let Some(slot) = found.get_mut(number) {
                    *slot = span;
                }
            }
            return Ok(());
        }
        self.members(|scan, name| {
            let below: SmallVec<[usize; 8]> = wanted
                .iter()
                .filter(|number| paths.get(**number).is_some_and(|p| p.passes(depth, name)))
                .copied()
                .collect();
            if below.is_empty() {
                return scan.skip().map(|_| ());
            }
            scan.fields(paths, &below, depth + 1, found)
        })
    }
}
