//! What readers look at: which capabilities are live at a target, and which a subject has.
//!
//! ```text
//!   (group, resource, namespace, name) ──► capabilities at the target ──┐
//!                                                                       ├──► any in both?
//!   user, groups ────────────────────────► capabilities of the subject ─┘
//!
//!   capability = (source, class)
//! ```
//!
//! Targets are found by the texts of the request, not word by word: one probe, whose every miss of a cache
//! counts (`slots.rs`). Among a million targets a decision waits for memory most of its time, and the processor
//! begins the next one meanwhile if it can see it: some five hundred instructions ahead. A decision is therefore
//! kept shorter than that. What is rare or long (`TargetQuery::long`, `search_target`, rights through groups) stands in
//! functions of its own, so that the way everything takes has no loop and keeps to registers.
//!
//! What a view answers is never changed while somebody reads it. There are two: readers have one, the index makes
//! its changes in the other and repeats them in the first when readers have left it (see `index.rs`). Both read
//! the same targets, each a column of its own.
//! Why something is allowed is not known here: `explain.rs` asks the index.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use foldhash::fast::FixedState;
use hashbrown::hash_table::{Entry, HashTable};

use crate::intern::NONE;
use crate::key::{INLINE, TextKey, same};
use crate::model::TargetName;
use crate::slots::{First, SHARD_BITS, Shard, TargetSlot, TargetTable, ViewColumn};

/// What makes a reference good for something: a source, with its triple, and a class, by their numbers in the index.
pub(crate) type Capability = (u32, u32);

/// The class of everything under a strategy without a `classPath`; everybody accepts it.
pub(crate) const UNPARTITIONED: u32 = 0;
/// The class of an object that has none; only an explicit empty text accepts it (D12).
pub(crate) const UNSET: u32 = 1;
/// Named classes are numbered from here.
pub(crate) const NAMED: u32 = 2;
/// In rights: every named class.
pub(crate) const ANY: u32 = u32::MAX;

/// The set without a capability.
pub(crate) const NO_CAPABILITIES: u32 = NONE;

/// A request, as authorizers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// The user's name.
    pub user: &'a str,
    /// The groups the user was authenticated with; none is implied (R81).
    pub groups: &'a [String],
    /// The verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for all or for none.
    pub namespace: &'a str,
    /// The name, of the path or of an exact `metadata.name` selector (R93); empty for none.
    pub name: &'a str,
}

impl Attributes<'_> {
    /// Whether requests like this are granted at all (R90, R91, R92).
    #[must_use]
    #[inline]
    pub fn is_eligible(&self) -> bool {
        let wild = |text: &str| text == "*";
        matches!(self.verb, "get" | "list" | "watch")
            && self.subresource.is_empty()
            && !self.name.is_empty()
            && !(wild(self.name) || wild(self.group) || wild(self.resource))
            && !wild(self.namespace)
    }
}

/// The answer to a request: never a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceDecision {
    /// It may be read, because of this.
    Allow(DecisionHandle),
    /// Somebody else may know.
    NoOpinion,
}

impl ReferenceDecision {
    /// Whether it is allowed.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        matches!(self, ReferenceDecision::Allow(_))
    }
}

/// What admitted a request, good until the next change: a target and a capability live there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionHandle {
    pub(crate) target: u32,
    pub(crate) capability: Capability,
}

/// The capabilities of a subject, sorted.
pub(crate) type SubjectCapabilities = Box<[Capability]>;

/// A target as it is asked for: a type of object, a namespace, a name.
struct TargetQuery<'a> {
    request: &'a Attributes<'a>,
    resource: TextKey<'a>,
    namespace: TextKey<'a>,
    name: TextKey<'a>,
    /// Whether one of them is long.
    long: bool,
}

impl<'a> TargetQuery<'a> {
    #[inline]
    fn new(request: &'a Attributes<'a>) -> TargetQuery<'a> {
        let Attributes { resource, namespace, name, .. } = *request;
        TargetQuery {
            request,
            resource: TextKey::new(resource),
            namespace: TextKey::new(namespace),
            name: TextKey::new(name),
            long: (resource.len() | namespace.len() | name.len()) > INLINE,
        }
    }

    #[inline]
    fn hash(&self, hasher: &FixedState) -> u32 {
        if self.long {
            return long_hash(self.request, hasher);
        }
        let hash = |key: &TextKey<'_>| key.short_hash(hasher);
        let place = [hash(&self.resource), hash(&self.namespace)];
        hash_in(seed(place), hash(&self.name))
    }

    /// Whether this is in a place.
    #[inline]
    fn is_in(&self, place: &NamespacedResource) -> bool {
        let [resource, namespace] = place.words;
        self.namespace.has(namespace)
            && self.resource.has(resource)
            && same(place.group.as_bytes(), self.request.group.as_bytes())
            && (!self.long || place.is_of(self.request))
    }
}

/// As [`TargetQuery::hash`], for texts of any length.
#[inline(never)]
fn long_hash(request: &Attributes<'_>, hasher: &FixedState) -> u32 {
    let hash = |text| TextKey::new(text).hash(hasher);
    let place = [hash(request.resource), hash(request.namespace)];
    hash_in(seed(place), hash(request.name))
}

// What is rotated differently does not cancel out where two of the texts are the same.

/// Where the hashes of everything in a place start, from those of its resource and namespace. Its group hardly
/// tells anything apart that these do not.
#[inline]
fn seed([resource, namespace]: [u64; 2]) -> u64 {
    namespace ^ resource.rotate_left(16)
}

/// The hash of a name in a place, from those of both.
#[inline]
fn hash_in(seed: u64, name: u64) -> u32 {
    let mixed = seed ^ name.rotate_left(32);
    u32::try_from(mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).unwrap_or_default()
}

/// A type of object in a namespace.
#[derive(Clone, Debug)]
pub(crate) struct NamespacedResource {
    group: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    /// The words of the resource and the namespace, which say all of them unless one is long.
    words: [[u64; 2]; 2],
    /// Where the hash of everything in this place starts.
    seed: u64,
}

impl NamespacedResource {
    #[inline(never)]
    fn is_of(&self, request: &Attributes<'_>) -> bool {
        same(self.namespace.as_bytes(), request.namespace.as_bytes())
            && same(self.resource.as_bytes(), request.resource.as_bytes())
            && same(self.group.as_bytes(), request.group.as_bytes())
    }
}

/// One change of a view, so that it can be repeated in the other one.
#[derive(Clone, Debug)]
pub(crate) enum ViewChange {
    Place(u32, Option<NamespacedResource>),
    /// The targets of a shard, or of all.
    Shard(usize, Shard),
    Targets(TargetTable),
    /// More room for long names.
    Long(Arc<[AtomicU64]>),
    Capabilities(u32, Option<Box<[Capability]>>),
    User(Box<str>, SubjectCapabilities),
    Group(Box<str>, SubjectCapabilities),
    Ready(bool),
}

/// What readers look at; see the head of this file.
#[derive(Clone, Debug)]
pub struct CapabilityView {
    hasher: FixedState,
    places: Vec<Option<NamespacedResource>>,
    targets: TargetTable,
    column: ViewColumn,
    capabilities: Vec<Option<Box<[Capability]>>>,
    users: Subjects,
    groups: Subjects,
    ready: bool,
}

impl CapabilityView {
    pub(crate) fn new(hasher: &FixedState) -> CapabilityView {
        CapabilityView {
            hasher: hasher.clone(),
            places: Vec::new(),
            targets: TargetTable::new(),
            column: ViewColumn::FIRST,
            capabilities: Vec::new(),
            users: Subjects::default(),
            groups: Subjects::default(),
            ready: false,
        }
    }

    /// Whether everything that was asked for has been seen; until then more may be refused than must be
    /// ("index not synced", R125).
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// May this be read, because something the subject serves points at it?
    ///
    /// One probe for the user and one for the target (R173); nothing is allocated and nothing waited for.
    #[must_use]
    pub fn decide(&self, request: &Attributes<'_>) -> ReferenceDecision {
        if !request.is_eligible() {
            return ReferenceDecision::NoOpinion;
        }
        let user = self.users.get(request.user, &self.hasher);
        if user.is_none() && self.groups.by_name.is_empty() {
            return ReferenceDecision::NoOpinion;
        }
        let Some((target, set)) = self.requested_target(request) else {
            return ReferenceDecision::NoOpinion;
        };
        let live = self.set(set);
        match user.and_then(|rights| common(live, rights)) {
            Some(capability) => ReferenceDecision::Allow(DecisionHandle { target, capability }),
            None => self.decide_for_groups(request.groups, target, live),
        }
    }

    #[inline(never)]
    fn decide_for_groups(
        &self,
        groups: &[String],
        target: u32,
        live: &[Capability],
    ) -> ReferenceDecision {
        let mut rights = groups.iter().filter_map(|group| self.groups.get(group, &self.hasher));
        match rights.find_map(|rights| common(live, rights)) {
            Some(capability) => ReferenceDecision::Allow(DecisionHandle { target, capability }),
            None => ReferenceDecision::NoOpinion,
        }
    }

    /// Every target that is live for a user with groups, in no particular order.
    ///
    /// It walks over all targets, unless somebody has no rights at all: for people and for filling a cache, not
    /// for requests.
    pub fn live_targets<'v>(
        &'v self,
        user: &str,
        groups: &[String],
    ) -> impl Iterator<Item = TargetName<'v>> + use<'v> {
        let rights = self.all_rights(user, groups);
        let shards = if rights.is_empty() { &[] } else { self.targets.shards.as_slice() };
        shards.iter().flat_map(move |shard| self.live_in(shard, rights.clone()))
    }

    /// As [`CapabilityView::live_targets`], in one of [`CapabilityView::PARTS`]. Whoever takes a new view for each holds none of them
    /// for long, and the next change need not be made in a copy.
    pub fn live_part<'v>(
        &'v self,
        part: usize,
        user: &str,
        groups: &[String],
    ) -> impl Iterator<Item = TargetName<'v>> + use<'v> {
        let rights = self.all_rights(user, groups);
        let shard = self.targets.shards.get(part).filter(|_| !rights.is_empty());
        shard.into_iter().flat_map(move |shard| self.live_in(shard, rights.clone()))
    }

    /// How many parts there are of what is live.
    pub const PARTS: usize = 1 << SHARD_BITS;

    fn live_in<'v>(
        &'v self,
        shard: &'v Shard,
        rights: Arc<[Capability]>,
    ) -> impl Iterator<Item = TargetName<'v>> + use<'v> {
        shard.used().filter_map(move |slot| {
            // Nothing else of a slot without a set is at rest.
            common(self.set(slot.set(self.column)), &rights)?;
            let place = self.place(slot.place())?;
            Some(TargetName {
                group: &place.group,
                resource: &place.resource,
                namespace: &place.namespace,
                name: self.targets.name(slot, &mut [0; 256]).into(),
            })
        })
    }

    /// The rights of a user with groups, sorted.
    fn all_rights(&self, user: &str, groups: &[String]) -> Arc<[Capability]> {
        let of_groups = groups.iter().map(|group| self.rights(true, group));
        let mut rights: Vec<Capability> = self.rights(false, user).to_vec();
        of_groups.for_each(|more| rights.extend_from_slice(more));
        rights.sort_unstable();
        rights.into()
    }

    /// The target of a request and its set, if something is live there.
    #[inline]
    fn requested_target(&self, request: &Attributes<'_>) -> Option<(u32, u32)> {
        let sought = TargetQuery::new(request);
        let hash = sought.hash(&self.hasher);
        match self.targets.first(hash) {
            First::Nothing => None,
            First::Slot(slot) if self.is_live(slot, &sought) => {
                Some((slot.target(), slot.set(self.column)))
            }
            _ => self.search_target(request, hash),
        }
    }

    /// As [`CapabilityView::requested_target`], for those that are not where a search starts. They are few, and this is kept
    /// apart: a loop in the midst of a decision makes all of it slower.
    #[cold]
    #[inline(never)]
    fn search_target(&self, request: &Attributes<'_>, hash: u32) -> Option<(u32, u32)> {
        let name = TextKey::new(request.name);
        let found = self.targets.find(hash, |slot| {
            slot.set(self.column) != NONE
                && self.place(slot.place()).is_some_and(|place| place.is_of(request))
                && name.is(slot, &self.targets.long)
        });
        found.map(|(_, slot)| (slot.target(), slot.set(self.column)))
    }

    /// Whether a slot is the one that is sought, and something is live there.
    #[inline]
    fn is_live(&self, slot: &TargetSlot, sought: &TargetQuery<'_>) -> bool {
        // The order matters: nothing but the set of a slot without one may be looked at.
        slot.set(self.column) != NONE
            && self.place(slot.place()).is_some_and(|place| sought.is_in(place))
            && sought.name.is(slot, &self.targets.long)
    }

    /// The capabilities that are live at what is asked for, sorted.
    pub(crate) fn live_at(&self, request: &Attributes<'_>) -> &[Capability] {
        let hash = long_hash(request, &self.hasher);
        self.search_target(request, hash).map(|(_, set)| self.set(set)).unwrap_or_default()
    }

    /// The capabilities of a set, sorted.
    pub(crate) fn set(&self, id: u32) -> &[Capability] {
        self.capabilities.get(id as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// The hash of a name in a place.
    pub(crate) fn hash_at(&self, place: u32, name: &str) -> Option<u32> {
        Some(self.hash(self.seed_of(place)?, &TextKey::new(name)))
    }

    /// Where the hashes of names in a place start.
    pub(crate) fn seed_of(&self, place: u32) -> Option<u64> {
        self.place(place).map(|place| place.seed)
    }

    pub(crate) fn column(&self) -> ViewColumn {
        self.column
    }

    /// The same view in the other column.
    pub(crate) fn turned(&self) -> CapabilityView {
        CapabilityView { column: self.column.other(), ..self.clone() }
    }

    /// The rights of a user or of a group.
    pub(crate) fn rights(&self, is_group: bool, name: &str) -> &[Capability] {
        let subjects = if is_group { &self.groups } else { &self.users };
        subjects.get(name, &self.hasher).map(|rights| &**rights).unwrap_or_default()
    }

    pub(crate) fn has_place(&self, id: u32) -> bool {
        self.place(id).is_some()
    }

    pub(crate) fn make_place(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
    ) -> NamespacedResource {
        let keys = [TextKey::new(resource), TextKey::new(namespace)];
        NamespacedResource {
            group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            words: keys.map(|key| key.words),
            seed: seed(keys.map(|key| key.hash(&self.hasher))),
        }
    }

    /// Takes a change.
    pub(crate) fn take(&mut self, step: ViewChange) {
        match step {
            ViewChange::Place(id, place) => put_at(&mut self.places, id, place),
            ViewChange::Shard(at, shard) => {
                if let Some(place) = self.targets.shards.get_mut(at) {
                    *place = shard;
                }
            }
            ViewChange::Targets(targets) => self.targets = targets,
            ViewChange::Long(chunk) => self.targets.long.push(chunk),
            ViewChange::Capabilities(id, set) => put_at(&mut self.capabilities, id, set),
            ViewChange::User(name, rights) => self.users.put(name, rights, &self.hasher),
            ViewChange::Group(name, rights) => self.groups.put(name, rights, &self.hasher),
            ViewChange::Ready(ready) => self.ready = ready,
        }
    }

    fn place(&self, id: u32) -> Option<&NamespacedResource> {
        self.places.get(id as usize)?.as_ref()
    }

    /// The hash of a name where hashes start with a seed.
    pub(crate) fn hash(&self, seed: u64, name: &TextKey<'_>) -> u32 {
        hash_in(seed, name.hash(&self.hasher))
    }
}

fn put_at<T>(list: &mut Vec<Option<T>>, id: u32, value: Option<T>) {
    let at = id as usize;
    if at >= list.len() {
        list.resize_with(at + 1, || None);
    }
    if let Some(place) = list.get_mut(at) {
        *place = value;
    }
}

/// Users or groups, by name.
#[derive(Clone, Debug, Default)]
struct Subjects {
    by_name: HashTable<(Box<str>, SubjectCapabilities)>,
}

impl Subjects {
    // Always, because what a decision is made of must not be called.
    #[inline(always)]
    fn get(&self, name: &str, hasher: &FixedState) -> Option<&SubjectCapabilities> {
        let hash = TextKey::new(name).hash(hasher);
        let found = self.by_name.find(hash, |(known, _)| **known == *name);
        found.map(|(_, rights)| rights)
    }

    fn put(&mut self, name: Box<str>, rights: SubjectCapabilities, hasher: &FixedState) {
        let hash_of = |(name, _): &(Box<str>, SubjectCapabilities)| TextKey::new(name).hash(hasher);
        let hash = TextKey::new(&name).hash(hasher);
        let entry = self.by_name.entry(hash, |(known, _)| *known == name, hash_of);
        match entry {
            Entry::Occupied(known) if rights.is_empty() => {
                known.remove();
            }
            Entry::Occupied(mut known) => known.get_mut().1 = rights,
            Entry::Vacant(_) if rights.is_empty() => {}
            Entry::Vacant(place) => {
                place.insert((name, rights));
            }
        }
    }
}

/// So few rights are looked through faster than they are searched.
const FEW: usize = 4;

/// The first capability that is live at the target and accepted by the subject.
#[inline]
fn common(live: &[Capability], rights: &[Capability]) -> Option<Capability> {
    // Most targets have one, and most subjects few.
    match live {
        [only] if rights.len() <= FEW => {
            rights.iter().any(|right| covers(*right, *only)).then_some(*only)
        }
        _ => search(live, rights),
    }
}

#[inline(never)]
fn search(live: &[Capability], rights: &[Capability]) -> Option<Capability> {
    live.iter().copied().find(|capability| accepted(*capability, rights))
}

/// Whether one right covers a capability (R55).
#[inline]
fn covers((of, covered): Capability, (source, class): Capability) -> bool {
    of == source && (covered == class || (covered == ANY && class >= NAMED))
}

/// Whether rights cover a capability.
pub(crate) fn accepted((source, class): Capability, rights: &[Capability]) -> bool {
    let has = |class: u32| rights.binary_search(&(source, class)).is_ok();
    has(class) || (class >= NAMED && has(ANY))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;

    /// The parts are mixed without order among them, so that none waits for another; see `seed` and `hash_in`.
    #[test]
    fn hashes_are_spread_where_parts_are_the_same_or_change_places() {
        let view = CapabilityView::new(&FixedState::with_seed(7));
        let hash = |resource: &str, namespace: &str, name: &str| {
            let place = view.make_place("", resource, namespace);
            view.hash(place.seed, &TextKey::new(name))
        };
        let texts = (0..2_000).map(|number| format!("web-{number}"));
        let all = texts.flat_map(|text| {
            [
                hash("secrets", &text, &text),
                hash(&text, &text, &text),
                hash(&text, "shop", "web"),
                hash("web", &text, "shop"),
                hash("shop", "web", &text),
            ]
        });
        let different: BTreeSet<u32> = all.collect();
        // Of 10,000 hashes of 32 bits hardly any two are the same by chance.
        assert!(different.len() > 9_995, "{}", different.len());
    }
}
