//! The rules of spec/ownership.md that a write or a verdict is explained by.

use core::fmt;

/// Why something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A client deleted the object, or it went for reasons of its own.
    Client,
    /// A solid owner is left: dangling and waiting references are removed.
    R90,
    /// An owner waits, the object has dependents: it is deleted in the foreground.
    R91,
    /// No owner is left, or only waiting ones and nothing depends on the object: it is deleted.
    R92,
    /// Nothing blocks the waiting object any more.
    R104,
    /// The waiting objects form a ring: one reference of it no longer blocks.
    R105,
    /// The owner leaves its dependents behind: they lose the reference.
    R114,
    /// Nobody refers to the orphaning owner any more.
    R115,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Client => "client",
            Rule::R90 => "R90",
            Rule::R91 => "R91",
            Rule::R92 => "R92",
            Rule::R104 => "R104",
            Rule::R105 => "R105",
            Rule::R114 => "R114",
            Rule::R115 => "R115",
        })
    }
}
