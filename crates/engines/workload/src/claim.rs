//! Adopting and releasing: which objects of a kind belong to a controller (CR1 to CR9).
//!
//! ```text
//!   candidate ── controlled by another ─────────► left alone (CR2)
//!             ── controlled by us, matches ─────► ours (CR3)
//!             ── controlled by us, no match ────► released, unless we are being deleted (CR4)
//!             └─ no controller, matches ────────► adopted, unless either is being deleted (CR5)
//! ```
//!
//! The view is exact and every adoption relies on the controller being alive when it is carried
//! out, which is what the live lookup of CR6 is for.

use alloc::vec::Vec;

use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, selector};

/// Who claims what.
pub struct Claim<'a> {
    /// What kind of object the controller is.
    pub resource: BuiltinResource,
    /// The controller.
    pub controller: &'a VersionedObject,
    /// What kind of object is claimed.
    pub children: BuiltinResource,
    /// Which labels they must have.
    pub selector: &'a LabelSelector,
    /// Which candidates are looked at; others are neither adopted nor released nor ours.
    pub among: fn(&Object) -> bool,
    /// What else must hold, besides labels, for a candidate to be ours.
    pub fits: &'a dyn Fn(&Object) -> bool,
    /// A finalizer that comes with adoption and goes with release (JB2).
    pub finalizer: Option<&'static str>,
}

/// What a claim found.
#[derive(Debug, Default)]
pub struct Claimed {
    /// Objects that are ours already, in the order of their names.
    pub ours: Vec<VersionedObject>,
    /// Objects that we control but that were not looked at.
    pub others: Vec<VersionedObject>,
    /// Adoptions and releases.
    ///
    /// While there are any, the pass should end with them: the next one sees their effect.
    pub intents: Vec<ControllerIntent>,
}

impl Claim<'_> {
    /// Looks at all candidates.
    #[must_use]
    pub fn make(&self, view: &dyn ClusterView) -> Claimed {
        let uid = owner::uid(self.controller);
        let terminating = owner::deleting(self.controller);
        let mut claimed = Claimed::default();
        for child in view.owned_by(uid, self.children) {
            if !owner::controlled_by(&child, uid)
                || child.namespace() != self.controller.namespace()
            {
                continue;
            }
            if !(self.among)(&child) {
                claimed.others.push(child);
            } else if self.wants(&child) {
                claimed.ours.push(child);
            } else if !terminating {
                claimed.intents.push(self.release(&child));
            }
        }
        if terminating {
            return claimed;
        }
        for orphan in view.orphans(self.children, self.controller.namespace(), self.selector) {
            if (self.among)(&orphan) && !owner::deleting(&orphan) && self.wants(&orphan) {
                claimed.intents.push(self.adopt(&orphan));
            }
        }
        claimed
    }

    fn wants(&self, child: &Object) -> bool {
        selector::matches(self.selector, child) && (self.fits)(child)
    }

    fn adopt(&self, orphan: &VersionedObject) -> ControllerIntent {
        let mut object = owner::adopted(orphan, self.resource, self.controller);
        if let Some(finalizer) = self.finalizer {
            owner::add_finalizer(&mut object, finalizer);
        }
        let controller = InvolvedObject::of(self.resource, self.controller);
        ControllerIntent::update(self.children, object, UpdateEndpoint::Main, orphan.revision)
            .relying_on(controller.living())
            .independent()
            .forgiving(&[WriteRefusal::Absent])
    }

    fn release(&self, child: &VersionedObject) -> ControllerIntent {
        let mut object = owner::released(child, owner::uid(self.controller));
        if let Some(finalizer) = self.finalizer {
            owner::remove_finalizer(&mut object, finalizer);
        }
        ControllerIntent::update(self.children, object, UpdateEndpoint::Main, child.revision)
            .independent()
            .forgiving(&[WriteRefusal::Absent, WriteRefusal::Invalid])
    }
}
