//! Which names living origins reference in other namespaces now: what an entry without a name comes to (M4).

use std::collections::BTreeMap;

use tenure_reference::Resource;

use crate::names::Reference;

/// Type and namespace of origins, type and namespace of targets, and what for.
type UsageKey = (Resource, String, Resource, String, String);

/// The names in use, each with the number of origins that use it.
#[derive(Clone, Debug, Default)]
pub struct InUse {
    names: BTreeMap<UsageKey, BTreeMap<String, usize>>,
}

impl InUse {
    /// One more origin uses a name. A reference within a namespace needs no grant, and is passed over.
    pub fn add(&mut self, reference: &Reference) {
        if reference.needs_grant() {
            let names = self.names.entry(key(reference)).or_default();
            *names.entry(reference.target.name.clone()).or_default() += 1;
        }
    }

    /// One origin less uses a name.
    pub fn remove(&mut self, reference: &Reference) {
        let key = key(reference);
        let Some(names) = self.names.get_mut(&key) else { return };
        if let Some(uses) = names.get_mut(&reference.target.name) {
            *uses -= 1;
            if *uses == 0 {
                names.remove(&reference.target.name);
            }
        }
        if names.is_empty() {
            self.names.remove(&key);
        }
    }

    /// The names that origins of a type in a namespace use of targets of a type in another, sorted.
    pub(super) fn names(
        &self,
        (origin, from): (&Resource, &str),
        (target, to): (&Resource, &str),
        purpose: &str,
    ) -> impl Iterator<Item = &str> {
        let key =
            (origin.clone(), from.to_owned(), target.clone(), to.to_owned(), purpose.to_owned());
        self.names.get(&key).into_iter().flat_map(BTreeMap::keys).map(String::as_str)
    }
}

impl<'r> FromIterator<&'r Reference> for InUse {
    fn from_iter<I: IntoIterator<Item = &'r Reference>>(references: I) -> InUse {
        let mut in_use = InUse::default();
        references.into_iter().for_each(|reference| in_use.add(reference));
        in_use
    }
}

fn key(reference: &Reference) -> UsageKey {
    let Reference { origin, target, purpose } = reference;
    (
        origin.resource.clone(),
        origin.namespace.clone(),
        target.resource.clone(),
        target.namespace.clone(),
        purpose.clone(),
    )
}
