//! Where a walk through a value stands, written as upstream writes it: `spec.containers[0].bar`.

use std::fmt;

/// A step and the steps before it. Lives on the stack, so that a walk without findings allocates nothing.
#[derive(Clone, Copy)]
pub(crate) struct Trail<'a> {
    before: Option<&'a Trail<'a>>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Start,
    Member(&'a str),
    Item(usize),
}

impl<'a> Trail<'a> {
    /// The top of the value.
    pub(crate) const START: Trail<'static> = Trail { before: None, step: Step::Start, depth: 0 };

    /// One step down, to a member.
    pub(crate) fn member(&'a self, name: &'a str) -> Trail<'a> {
        self.down(Step::Member(name))
    }

    /// One step down, to an item.
    pub(crate) fn item(&'a self, at: usize) -> Trail<'a> {
        self.down(Step::Item(at))
    }

    fn down(&'a self, step: Step<'a>) -> Trail<'a> {
        Trail { before: Some(self), step, depth: self.depth + 1 }
    }

    /// How many steps lie behind.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(before) = self.before else {
            return Ok(());
        };
        before.fmt(out)?;
        match self.step {
            Step::Start => Ok(()),
            Step::Member(name) if before.before.is_none() => out.write_str(name),
            Step::Member(name) => write!(out, ".{name}"),
            Step::Item(at) => write!(out, "[{at}]"),
        }
    }
}
