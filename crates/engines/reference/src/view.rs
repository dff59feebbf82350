//! What readers look at: which capabilities are live at a target, and which a subject has.
//!
//! ```text
//!   (group, resource, namespace, name) ──► capabilities at the target ──┐
//!                                                                       ├──► any in both?
//!   user, groups ────────────────────────► capabilities of the subject ─┘
//!
//!   capability = (triple, class)
//! ```
//!
//! A view is never changed while somebody reads it. There are two: readers have one, the index makes its
//! changes in the other and repeats them in the first when readers have left it (see `index.rs`).
//! Why something is allowed is not known here: `explain.rs` asks the index.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{BuildHasher as _, Hash, Hasher};

use foldhash::fast::FixedState;
use hashbrown::{Equivalent, HashMap, HashTable};

use crate::intern::NONE;
use crate::model::Obj;

/// What a reference is good for: a triple and a class, by their numbers in the index.
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

/// Below this many unused bytes of names nothing is squeezed out.
const UNUSED_MIN: usize = 1 << 16;

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
    group: Box<str>,
    resource: Box<str>,
    namespace: Box<str>,
    /// Where the hash of everything in this place starts.
    seed: u64,
}

/// A target: where its name lies, and the set of capabilities that are live there.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: u32,
    at: u32,
    capabilities: u32,
    length: u8,
    used: bool,
}

/// One change of a view, so that it can be repeated in the other one.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Place(u32, Option<Place>),
    /// A new target, whose name lies in the text of the steps.
    Insert {
        place: u32,
        at: usize,
        length: usize,
    },
    Remove(u32),
    Set {
        target: u32,
        capabilities: u32,
    },
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
    entries: Vec<Entry>,
    free: Vec<u32>,
    table: HashTable<u32>,
    names: String,
    unused: usize,
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
            entries: Vec::new(),
            free: Vec::new(),
            table: HashTable::new(),
            names: String::new(),
            unused: 0,
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
        let Some(target) = self.asked_target(asked) else { return Decision::NoOpinion };
        let live = self.capabilities_at(target);
        if live.is_empty() {
            return Decision::NoOpinion;
        }
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
    ) -> impl Iterator<Item = Obj<'v>> + use<'v> {
        let of_groups = groups.iter().map(|group| self.rights(true, group));
        let mut rights: Vec<Capability> = self.rights(false, user).to_vec();
        of_groups.for_each(|more| rights.extend_from_slice(more));
        rights.sort_unstable();
        self.targets().filter_map(move |target| {
            common(self.capabilities_at(target), &rights)?;
            self.object(target)
        })
    }

    fn object(&self, target: u32) -> Option<Obj<'_>> {
        let (place, name) = self.target(target)?;
        let Place { group, resource, namespace, .. } = self.place(place)?;
        Some(Obj { group, resource, namespace, name })
    }

    fn asked_target(&self, asked: &Attributes<'_>) -> Option<u32> {
        let seed = self.seed(asked.group, asked.resource, asked.namespace);
        self.table
            .find(self.hash(seed, asked.name), |id| {
                let Some(entry) = self.entries.get(*id as usize) else { return false };
                same(self.name_of(entry), asked.name)
                    && self.place(entry.place).is_some_and(|place| {
                        same(&place.namespace, asked.namespace)
                            && same(&place.resource, asked.resource)
                            && same(&place.group, asked.group)
                    })
            })
            .copied()
    }

    pub(crate) fn find(&self, place: u32, name: &str) -> Option<u32> {
        let seed = self.place(place)?.seed;
        let is = |id: &u32| {
            let entry = self.entries.get(*id as usize);
            entry.is_some_and(|entry| entry.place == place && same(self.name_of(entry), name))
        };
        self.table.find(self.hash(seed, name), is).copied()
    }

    /// The capabilities that are live at a target, sorted.
    pub(crate) fn capabilities_at(&self, target: u32) -> &[Capability] {
        let entry = self.entries.get(target as usize);
        let set = entry.and_then(|entry| self.capabilities.get(entry.capabilities as usize));
        set.and_then(Option::as_deref).unwrap_or_default()
    }

    pub(crate) fn set_of(&self, target: u32) -> u32 {
        self.entries.get(target as usize).map_or(NO_CAPABILITIES, |entry| entry.capabilities)
    }

    /// The place and the name of a target.
    pub(crate) fn target(&self, target: u32) -> Option<(u32, &str)> {
        let entry = self.entries.get(target as usize).filter(|entry| entry.used)?;
        Some((entry.place, self.name_of(entry)))
    }

    /// Every target there is.
    pub(crate) fn targets(&self) -> impl Iterator<Item = u32> {
        let numbered = (0_u32..).zip(&self.entries);
        numbered.filter(|(_, entry)| entry.used).map(|(id, _)| id)
    }

    pub(crate) fn targets_len(&self) -> usize {
        self.table.len()
    }

    /// The number the next new target will have.
    pub(crate) fn next_target(&self) -> u32 {
        let end = u32::try_from(self.entries.len()).unwrap_or(NONE);
        self.free.last().copied().unwrap_or(end)
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
        let (group, resource) = (group.into(), resource.into());
        Place { group, resource, namespace: namespace.into(), seed }
    }

    /// Takes a change; `text` holds the names that steps speak of.
    pub(crate) fn take(&mut self, step: Step, text: &str) {
        match step {
            Step::Place(id, place) => put_at(&mut self.places, id, place),
            Step::Insert { place, at, length } => {
                self.insert(place, text.get(at..at + length).unwrap_or_default());
            }
            Step::Remove(target) => self.remove(target),
            Step::Set { target, capabilities } => {
                if let Some(entry) = self.entries.get_mut(target as usize) {
                    entry.capabilities = capabilities;
                }
            }
            Step::Capabilities(id, set) => put_at(&mut self.capabilities, id, set),
            Step::User(name, rights) => put_subject(&mut self.users, name, rights),
            Step::Group(name, rights) => put_subject(&mut self.groups, name, rights),
            Step::Ready(ready) => self.ready = ready,
        }
    }

    fn insert(&mut self, place: u32, name: &str) {
        let Some(seed) = self.place(place).map(|place| place.seed) else { return };
        let at = u32::try_from(self.names.len()).unwrap_or(NONE);
        let length = u8::try_from(name.len()).unwrap_or_default();
        self.names.push_str(name);
        let entry = Entry { place, at, capabilities: NO_CAPABILITIES, length, used: true };
        let id = self.next_target();
        match self.entries.get_mut(id as usize) {
            Some(free) => {
                *free = entry;
                self.free.pop();
            }
            None => self.entries.push(entry),
        }
        let hash = self.hash(seed, name);
        let (entries, places, names) = (&self.entries, &self.places, &self.names);
        let hasher = &self.hasher;
        self.table.insert_unique(hash, id, |id| rehash(*id, entries, places, names, hasher));
    }

    fn remove(&mut self, target: u32) {
        let Some((place, name)) = self.target(target) else { return };
        let Some(seed) = self.place(place).map(|place| place.seed) else { return };
        let (hash, length) = (self.hash(seed, name), name.len());
        if let Ok(found) = self.table.find_entry(hash, |id| *id == target) {
            found.remove();
        }
        if let Some(entry) = self.entries.get_mut(target as usize) {
            entry.used = false;
            entry.capabilities = NO_CAPABILITIES;
        }
        self.free.push(target);
        self.unused += length;
        if self.unused > UNUSED_MIN && self.unused * 2 > self.names.len() {
            self.squeeze();
        }
    }

    /// Writes the names that are in use anew, without gaps.
    fn squeeze(&mut self) {
        let mut names = String::with_capacity(self.names.len() - self.unused);
        for entry in self.entries.iter_mut().filter(|entry| entry.used) {
            let at = u32::try_from(names.len()).unwrap_or(NONE);
            names.push_str(text_at(&self.names, entry));
            entry.at = at;
        }
        self.names = names;
        self.unused = 0;
    }

    fn place(&self, id: u32) -> Option<&Place> {
        self.places.get(id as usize)?.as_ref()
    }

    fn name_of(&self, entry: &Entry) -> &str {
        text_at(&self.names, entry)
    }

    fn seed(&self, group: &str, resource: &str, namespace: &str) -> u64 {
        self.hasher.hash_one((group, resource, namespace))
    }

    fn hash(&self, seed: u64, name: &str) -> u64 {
        self.hasher.hash_one((seed, name))
    }
}

fn rehash(
    id: u32,
    entries: &[Entry],
    places: &[Option<Place>],
    names: &str,
    hasher: &FixedState,
) -> u64 {
    let Some(entry) = entries.get(id as usize) else { return 0 };
    let Some(Some(place)) = places.get(entry.place as usize) else { return 0 };
    hasher.hash_one((place.seed, text_at(names, entry)))
}

fn text_at<'a>(names: &'a str, entry: &Entry) -> &'a str {
    let at = entry.at as usize;
    names.get(at..at + usize::from(entry.length)).unwrap_or_default()
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

/// Whether two texts are the same, word by word: for texts as short as names that takes less time than the
/// call of a function that is good at long ones.
fn same(one: &str, two: &str) -> bool {
    if one.len() != two.len() {
        return false;
    }
    let (ones, rest) = one.as_bytes().as_chunks::<8>();
    let (twos, other) = two.as_bytes().as_chunks::<8>();
    let words = ones.iter().zip(twos);
    words.into_iter().all(|(one, two)| u64::from_ne_bytes(*one) == u64::from_ne_bytes(*two))
        && rest.iter().zip(other).fold(0, |differs, (one, two)| differs | (one ^ two)) == 0
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
        same(self.0, key)
    }
}

/// The first capability that is live at the target and accepted by the subject.
fn common(live: &[Capability], rights: &[Capability]) -> Option<Capability> {
    live.iter().copied().find(|capability| accepted(*capability, rights))
}

/// Whether rights cover a capability (R55).
pub(crate) fn accepted((triple, class): Capability, rights: &[Capability]) -> bool {
    let has = |class: u32| rights.binary_search(&(triple, class)).is_ok();
    has(class) || (class >= NAMED && has(ANY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_same_exactly_when_they_are_equal() {
        let texts =
            ["", "a", "b", "1234567", "12345678", "12345679", "123456789", "12345678x", "x2345678"];
        for one in texts {
            for two in texts {
                assert_eq!(same(one, two), one == two, "{one} {two}");
            }
        }
    }
}
