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
//! counts (`slots.rs`). What a view answers is never changed while somebody reads it. There are two: readers have
//! one, the index makes its changes in the other and repeats them in the first when readers have left it (see
//! `index.rs`). Both read the same targets, each a column of its own.
//! Why something is allowed is not known here: `explain.rs` asks the index.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{BuildHasher as _, Hash, Hasher};
use core::sync::atomic::AtomicU64;

use foldhash::fast::FixedState;
use hashbrown::{Equivalent, HashMap};

use crate::intern::NONE;
use crate::model::TargetName;
use crate::slots::{Column, Key, Shard, Slots, same};

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
pub enum Decision {
    /// It may be read, because of this.
    Allow(Handle),
    /// Somebody else may know.
    NoOpinion,
}

impl Decision {
    /// Whether it is allowed.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        matches!(self, Decision::Allow(_))
    }
}

/// What admitted a request, good until the next change: a target and a capability live there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub(crate) target: u32,
    pub(crate) capability: Capability,
}

/// The capabilities of a subject, sorted.
pub(crate) type Rights = Box<[Capability]>;

/// A type of object in a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Group, resource and namespace, one after the other, so that they lie in one line of a cache.
    text: Box<str>,
    /// Where the resource and the namespace start.
    resource_at: u32,
    namespace_at: u32,
    /// Where the hash of everything in this place starts.
    seed: u64,
}

impl Place {
    /// Group, resource and namespace.
    fn words(&self) -> Option<(&str, &str, &str)> {
        let (rest, namespace) = self.text.split_at_checked(self.namespace_at as usize)?;
        let (group, resource) = rest.split_at_checked(self.resource_at as usize)?;
        Some((group, resource, namespace))
    }
}

/// One change of a view, so that it can be repeated in the other one.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Place(u32, Option<Place>),
    /// The targets of a shard, or of all.
    Shard(usize, Shard),
    Targets(Slots),
    /// More room for long names.
    Long(Arc<[AtomicU64]>),
    Capabilities(u32, Option<Box<[Capability]>>),
    User(Box<str>, Rights),
    Group(Box<str>, Rights),
    Ready(bool),
}

/// What readers look at; see the head of this file.
#[derive(Clone, Debug)]
pub struct View {
    hasher: FixedState,
    places: Vec<Option<Place>>,
    targets: Slots,
    column: Column,
    capabilities: Vec<Option<Box<[Capability]>>>,
    users: HashMap<Box<str>, Rights, FixedState>,
    groups: HashMap<Box<str>, Rights, FixedState>,
    ready: bool,
}

impl View {
    pub(crate) fn new(hasher: &FixedState) -> View {
        View {
            hasher: hasher.clone(),
            places: Vec::new(),
            targets: Slots::new(),
            column: Column::FIRST,
            capabilities: Vec::new(),
            users: HashMap::with_hasher(hasher.clone()),
            groups: HashMap::with_hasher(hasher.clone()),
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
    pub fn decide(&self, asked: &Attributes<'_>) -> Decision {
        if !asked.is_eligible() {
            return Decision::NoOpinion;
        }
        let user = self.users.get(&Name(asked.user));
        if user.is_none() && self.groups.is_empty() {
            return Decision::NoOpinion;
        }
        let Some((target, set)) = self.asked_target(asked) else { return Decision::NoOpinion };
        let live = self.set(set);
        let found = user.and_then(|rights| common(live, rights)).or_else(|| {
            let groups = asked.groups.iter();
            let mut rights = groups.filter_map(|group| self.groups.get(&Name(group)));
            rights.find_map(|rights| common(live, rights))
        });
        match found {
            Some(capability) => Decision::Allow(Handle { target, capability }),
            None => Decision::NoOpinion,
        }
    }

    /// Every target that is live for a user with groups, in no particular order.
    ///
    /// It walks over all targets: for people and for filling a cache, not for requests.
    pub fn live_targets<'v>(
        &'v self,
        user: &str,
        groups: &[String],
    ) -> impl Iterator<Item = TargetName<'v>> + use<'v> {
        let of_groups = groups.iter().map(|group| self.rights(true, group));
        let mut rights: Vec<Capability> = self.rights(false, user).to_vec();
        of_groups.for_each(|more| rights.extend_from_slice(more));
        rights.sort_unstable();
        self.targets.used().filter_map(move |slot| {
            // Nothing else of a slot without a set is at rest.
            common(self.set(slot.set(self.column)), &rights)?;
            let (group, resource, namespace) = self.place(slot.place())?.words()?;
            let name = self.targets.name(slot, &mut [0; 256]).into();
            Some(TargetName { group, resource, namespace, name })
        })
    }

    /// The target of a request and its set, if something is live there.
    #[inline]
    fn asked_target(&self, asked: &Attributes<'_>) -> Option<(u32, u32)> {
        let seed = self.seed(asked.group, asked.resource, asked.namespace);
        let hash = self.hash(seed, asked.name);
        self.targets.live(hash, &Key::new(asked.name), self.column, |place| {
            let words = self.place(place).and_then(Place::words);
            words.is_some_and(|(group, resource, namespace)| {
                same(namespace.as_bytes(), asked.namespace.as_bytes())
                    && same(resource.as_bytes(), asked.resource.as_bytes())
                    && same(group.as_bytes(), asked.group.as_bytes())
            })
        })
    }

    /// The capabilities that are live at what is asked for, sorted.
    pub(crate) fn live_at(&self, asked: &Attributes<'_>) -> &[Capability] {
        self.asked_target(asked).map(|(_, set)| self.set(set)).unwrap_or_default()
    }

    /// The capabilities of a set, sorted.
    pub(crate) fn set(&self, id: u32) -> &[Capability] {
        self.capabilities.get(id as usize).and_then(Option::as_deref).unwrap_or_default()
    }

    /// The hash of a name in a place.
    pub(crate) fn hash_at(&self, place: u32, name: &str) -> Option<u32> {
        Some(self.hash(self.seed_of(place)?, name))
    }

    /// Where the hashes of names in a place start.
    pub(crate) fn seed_of(&self, place: u32) -> Option<u64> {
        self.place(place).map(|place| place.seed)
    }

    pub(crate) fn column(&self) -> Column {
        self.column
    }

    /// The same view in the other column.
    pub(crate) fn turned(&self) -> View {
        View { column: self.column.other(), ..self.clone() }
    }

    /// The rights of a user or of a group.
    pub(crate) fn rights(&self, is_group: bool, name: &str) -> &[Capability] {
        let subjects = if is_group { &self.groups } else { &self.users };
        subjects.get(name).map(|rights| &**rights).unwrap_or_default()
    }

    pub(crate) fn has_place(&self, id: u32) -> bool {
        self.place(id).is_some()
    }

    pub(crate) fn make_place(&self, group: &str, resource: &str, namespace: &str) -> Place {
        let seed = self.seed(group, resource, namespace);
        let text = [group, resource, namespace].concat().into_boxed_str();
        let end = |length: usize| u32::try_from(length).unwrap_or(NONE);
        let (resource_at, namespace_at) = (end(group.len()), end(group.len() + resource.len()));
        Place { text, resource_at, namespace_at, seed }
    }

    /// Takes a change.
    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Place(id, place) => put_at(&mut self.places, id, place),
            Step::Shard(at, shard) => {
                if let Some(place) = self.targets.shards.get_mut(at) {
                    *place = shard;
                }
            }
            Step::Targets(targets) => self.targets = targets,
            Step::Long(chunk) => self.targets.long.push(chunk),
            Step::Capabilities(id, set) => put_at(&mut self.capabilities, id, set),
            Step::User(name, rights) => put_subject(&mut self.users, name, rights),
            Step::Group(name, rights) => put_subject(&mut self.groups, name, rights),
            Step::Ready(ready) => self.ready = ready,
        }
    }

    fn place(&self, id: u32) -> Option<&Place> {
        self.places.get(id as usize)?.as_ref()
    }

    fn seed(&self, group: &str, resource: &str, namespace: &str) -> u64 {
        self.hasher.hash_one((group, resource, namespace))
    }

    /// The hash of a name where hashes start with a seed.
    pub(crate) fn hash(&self, seed: u64, name: &str) -> u32 {
        hash_in(&self.hasher, seed, name.as_bytes())
    }
}

/// The hash of a name in a place. Both halves depend on the secret seed of the index, and neither waits for
/// the other.
fn hash_in(hasher: &FixedState, seed: u64, name: &[u8]) -> u32 {
    let mut hash = hasher.build_hasher();
    hash.write(name);
    let mixed = (seed ^ hash.finish()).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    u32::try_from(mixed >> 32).unwrap_or_default()
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

fn put_subject(
    subjects: &mut HashMap<Box<str>, Rights, FixedState>,
    name: Box<str>,
    rights: Rights,
) {
    if rights.is_empty() {
        subjects.remove(&name);
    } else {
        subjects.insert(name, rights);
    }
}

/// The name of a subject that is looked up.
struct Name<'a>(&'a str);

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<Box<str>> for Name<'_> {
    fn equivalent(&self, key: &Box<str>) -> bool {
        same(self.0.as_bytes(), key.as_bytes())
    }
}

/// The first capability that is live at the target and accepted by the subject.
fn common(live: &[Capability], rights: &[Capability]) -> Option<Capability> {
    live.iter().copied().find(|capability| accepted(*capability, rights))
}

/// Whether rights cover a capability (R55).
pub(crate) fn accepted((source, class): Capability, rights: &[Capability]) -> bool {
    let has = |class: u32| rights.binary_search(&(source, class)).is_ok();
    has(class) || (class >= NAMED && has(ANY))
}
