//! Where a walk through a value stands, written as upstream writes it: `spec.containers[0].bar`.

use std::fmt;

/// A step and the steps before it. Lives on the stack, so that a walk without findings allocates nothing.
#[derive(Clone, Copy)]
pub(crate) struct ValuePath<'a> {
    before: Option<&'a ValuePath<'a>>,
    step: ValuePathSegment<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum ValuePathSegment<'a> {
    Start,
    Member(&'a str),
    Item(usize),
}

impl<'a> ValuePath<'a> {
    /// The top of the value.
    pub(crate) const START: ValuePath<'static> =
        ValuePath { before: None, step: ValuePathSegment::Start, depth: 0 };

    /// One step down, to a member.
    pub(crate) fn member(&'a self, name: &'a str) -> ValuePath<'a> {
        self.down(ValuePathSegment::Member(name))
    }

    /// One step down, to an item.
    pub(crate) fn item(&'a self, at: usize) -> ValuePath<'a> {
        self.down(ValuePathSegment::Item(at))
    }

    fn down(&'a self, step: ValuePathSegment<'a>) -> ValuePath<'a> {
        ValuePath { before: Some(self), step, depth: self.depth + 1 }
    }

    /// How many steps lie behind.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(before) = self.before else {
            return Ok(());
        };
        before.fmt(out)?;
        match self.step {
            ValuePathSegment::Start => Ok(()),
            ValuePathSegment::Member(name) if before.before.is_none() => out.write_str(name),
            ValuePathSegment::Member(name) => write!(out, ".{name}"),
            ValuePathSegment::Item(at) => write!(out, "[{at}]"),
        }
    }
}
