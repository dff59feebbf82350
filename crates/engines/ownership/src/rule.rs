//! The rules of spec/ownership.md that a write or a verdict is explained by.

use core::fmt;

/// Why something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnershipRule {
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

impl fmt::Display for OwnershipRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OwnershipRule::Client => "client",
            OwnershipRule::R90 => "R90",
            OwnershipRule::R91 => "R91",
            OwnershipRule::R92 => "R92",
            OwnershipRule::R104 => "R104",
            OwnershipRule::R105 => "R105",
            OwnershipRule::R114 => "R114",
            OwnershipRule::R115 => "R115",
        })
    }
}
