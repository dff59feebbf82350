//! What was allowed before the latest transitions, for hosts that keep them (R155).
//!
//! ```text
//!   live now ── undo what became live since ── redo what became dead since ──► live then
//! ```
//!
//! The rights of the subject must be the same then and now: numbers of capabilities mean the same for as
//! long as somebody has rights to them. Nothing is kept here.

use smallvec::SmallVec;

use crate::event::Transition;
use crate::view::{Attributes, Capability, CapabilityView, accepted};

impl CapabilityView {
    /// Whether the subject of a request could follow what a transition speaks of.
    #[must_use]
    pub fn accepts(&self, requested: &Attributes<'_>, transition: &Transition) -> bool {
        self.accepts_capability(requested, transition.capability)
    }

    /// Whether a request was allowed before these transitions of its target, the oldest first.
    #[must_use]
    pub fn was_allowed<'t>(
        &self,
        requested: &Attributes<'_>,
        since: impl Iterator<Item = &'t Transition>,
    ) -> bool {
        if !requested.is_eligible() {
            return false;
        }
        let mut moved: SmallVec<[(Capability, bool); 4]> = SmallVec::new();
        for transition in since {
            if !moved.iter().any(|(capability, _)| *capability == transition.capability) {
                moved.push((transition.capability, transition.live));
            }
        }
        let now = self.live_at(requested).iter().copied();
        let stayed = now.filter(|capability| !moved.iter().any(|(other, _)| other == capability));
        // What first became dead was live before.
        let went = moved.iter().filter(|(_, live)| !live).map(|(capability, _)| *capability);
        stayed.chain(went).any(|capability| self.accepts_capability(requested, capability))
    }

    fn accepts_capability(&self, requested: &Attributes<'_>, capability: Capability) -> bool {
        let mut groups = requested.groups.iter();
        accepted(capability, self.rights(false, requested.user))
            || groups.any(|group| accepted(capability, self.rights(true, group)))
    }
}
