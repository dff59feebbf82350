//! The index by subject, and the decision it answers.
//!
//! Roles and bindings are told as they change; nothing here looks into a store.
//!
//! ```text
//!   place ─┬─ users ──► slot ──► role
//!          ├─ groups ─► slot ──► role       places: the cluster (``) and every namespace
//!          ├─ roles ──► slot
//!          └─ bindings
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::role::{Binding, Party, Role, RoleRef, Who};
use crate::rule::{Asked, Rule};
use crate::sorted::Sorted;

/// What the roles say to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Allowed, and by which binding. When several allow it, one of them is named.
    Allow(Granted<'a>),
    /// Nothing allows it; another authorizer may.
    NoOpinion,
}

impl Decision<'_> {
    /// Whether this is an `Allow`.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// The binding and role that allow something, and the subject they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted<'a> {
    /// The binding's namespace; empty for a ClusterRoleBinding.
    pub namespace: &'a str,
    /// The binding's name.
    pub binding: &'a str,
    /// The role it hands out.
    pub role: &'a Role,
    /// The group that is bound; `None` when the user is.
    pub group: Option<&'a str>,
}

impl fmt::Display for Granted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            "" => write!(f, "ClusterRoleBinding \"{}\"", self.binding)?,
            namespace => write!(f, "RoleBinding \"{namespace}/{}\"", self.binding)?,
        }
        let kind = if self.role.namespace.is_empty() { "ClusterRole" } else { "Role" };
        write!(f, " grants {kind} \"{}\"", self.role.name)?;
        match self.group {
            Some(group) => write!(f, " to group \"{group}\""),
            None => f.write_str(" to the user"),
        }
    }
}

/// Every role and binding, indexed by whom they concern.
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    // INVARIANT: a slot is in `free` exactly when it has no role and no binding mentions it.
    slots: Vec<Slot>,
    free: Vec<usize>,
    // INVARIANT: a slot that is not free stands in `roles` of exactly one place.
    places: BTreeMap<String, Place>,
}

/// A role that exists or is at least mentioned.
#[derive(Clone, Debug, Default)]
struct Slot {
    role: Option<Role>,
    // INVARIANT: made of the rules of `role`.
    sorted: Sorted,
    bindings: usize,
}

/// The cluster, or one namespace.
#[derive(Clone, Debug, Default)]
struct Place {
    roles: BTreeMap<String, usize>,
    bindings: BTreeMap<String, Binding>,
    users: BTreeMap<String, Held>,
    groups: BTreeMap<String, Held>,
}

/// The roles that one subject holds in one place, and the names of the bindings that say so.
///
/// Bindings of one role share an entry, so a role is tried once however often it is bound.
type Held = BTreeMap<usize, BTreeSet<String>>;

impl Rbac {
    /// An index without roles or bindings, which allows nothing.
    #[must_use]
    pub fn new() -> Rbac {
        Rbac::default()
    }

    /// Whether no role and no binding is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        // Nothing known leaves nothing behind: every slot is free again.
        self.places.is_empty() && self.free.len() == self.slots.len()
    }

    /// Takes in a role as it now is.
    pub fn put_role(&mut self, role: Role) {
        let slot = self.slot(&role.namespace, &role.name);
        if let Some(slot) = self.slots.get_mut(slot) {
            slot.sorted = Sorted::new(&role.rules);
            slot.role = Some(role);
        }
    }

    /// Forgets a role; bindings to it grant nothing until it returns.
    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        let known = self.places.get(namespace).and_then(|place| place.roles.get(name)).copied();
        let Some(number) = known else { return };
        let Some(slot) = self.slots.get_mut(number) else { return };
        slot.role = None;
        slot.sorted = Sorted::default();
        if slot.bindings == 0 {
            self.release(number, namespace, name);
        }
    }

    /// Takes in a binding as it now is.
    pub fn put_binding(&mut self, binding: Binding) {
        self.remove_binding(&binding.namespace, &binding.name);
        if let Some(home) = role_home(&binding) {
            let number = self.slot(home, binding.role.name());
            if let Some(slot) = self.slots.get_mut(number) {
                slot.bindings += 1;
            }
            let place = self.place(&binding.namespace);
            for party in parties(&binding) {
                let held = match party {
                    Party::User(name) => place.users.entry(name.into_owned()).or_default(),
                    Party::Group(name) => place.groups.entry(name.to_string()).or_default(),
                };
                held.entry(number).or_default().insert(binding.name.clone());
            }
        }
        let place = self.place(&binding.namespace);
        place.bindings.insert(binding.name.clone(), binding);
    }

    /// Forgets a binding.
    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(place) = self.places.get_mut(namespace) else { return };
        let Some(binding) = place.bindings.remove(name) else { return };
        let known = role_home(&binding).and_then(|home| {
            let number = *self.places.get(home)?.roles.get(binding.role.name())?;
            Some((home, number))
        });
        if let Some((home, number)) = known {
            if let Some(place) = self.places.get_mut(namespace) {
                for party in parties(&binding) {
                    match party {
                        Party::User(who) => forget(&mut place.users, &who, number, name),
                        Party::Group(who) => forget(&mut place.groups, who, number, name),
                    }
                }
            }
            if let Some(slot) = self.slots.get_mut(number) {
                slot.bindings = slot.bindings.saturating_sub(1);
                if slot.bindings == 0 && slot.role.is_none() {
                    self.release(number, home, binding.role.name());
                }
            }
        }
        self.forget_empty_place(namespace);
    }

    /// Whether a role allows what is asked, by a binding for the cluster or for the namespace asked
    /// about.
    #[must_use]
    pub fn allows(&self, who: &Who<'_>, asked: &Asked<'_>) -> Decision<'_> {
        let namespace = asked.namespace();
        let local = if namespace.is_empty() { None } else { self.places.get_key_value(namespace) };
        for (namespace, place) in self.places.get_key_value("").into_iter().chain(local) {
            for (held, group) in place.held(who) {
                if let Some((binding, role)) = self.granting(held, asked) {
                    return Decision::Allow(Granted { namespace, binding, role, group });
                }
            }
        }
        Decision::NoOpinion
    }

    /// Every rule that applies to somebody in a namespace, or in the cluster when it is empty.
    ///
    /// Rules of one role stay together; the cluster's roles come first, then by name.
    #[must_use]
    pub fn rules_for(&self, who: &Who<'_>, namespace: &str) -> Vec<&Rule> {
        let mut roles = BTreeMap::new();
        let local = if namespace.is_empty() { None } else { self.places.get(namespace) };
        for place in self.places.get("").into_iter().chain(local) {
            for (held, _) in place.held(who) {
                for role in held.keys().filter_map(|number| self.role_at(*number)) {
                    roles.insert((role.namespace.as_str(), role.name.as_str()), role);
                }
            }
        }
        roles.into_values().flat_map(|role| &role.rules).collect()
    }

    /// The role of this name; a ClusterRole when the namespace is empty.
    #[must_use]
    pub fn role(&self, namespace: &str, name: &str) -> Option<&Role> {
        self.role_at(*self.places.get(namespace)?.roles.get(name)?)
    }

    /// Every ClusterRole, by name.
    pub fn cluster_roles(&self) -> impl Iterator<Item = &Role> {
        let cluster = self.places.get("").into_iter();
        cluster.flat_map(|place| place.roles.values()).filter_map(|number| self.role_at(*number))
    }

    /// The first of the held roles that allows what is asked, with a binding that hands it out.
    fn granting<'a>(&'a self, held: &'a Held, asked: &Asked<'_>) -> Option<(&'a str, &'a Role)> {
        held.iter().find_map(|(number, bindings)| {
            let slot = self.slots.get(*number)?;
            let role = slot.role.as_ref()?;
            if slot.sorted.allows(&role.rules, asked) {
                Some((bindings.first()?.as_str(), role))
            } else {
                None
            }
        })
    }

    fn role_at(&self, number: usize) -> Option<&Role> {
        self.slots.get(number)?.role.as_ref()
    }

    fn place(&mut self, namespace: &str) -> &mut Place {
        self.places.entry(namespace.to_string()).or_default()
    }

    /// The slot of a role, made when nobody spoke of the role before.
    fn slot(&mut self, namespace: &str, name: &str) -> usize {
        if let Some(number) = self.places.get(namespace).and_then(|place| place.roles.get(name)) {
            return *number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.place(namespace).roles.insert(name.to_string(), number);
        number
    }

    fn release(&mut self, number: usize, namespace: &str, name: &str) {
        if let Some(place) = self.places.get_mut(namespace) {
            place.roles.remove(name);
        }
        self.free.push(number);
        self.forget_empty_place(namespace);
    }

    fn forget_empty_place(&mut self, namespace: &str) {
        if self.places.get(namespace).is_some_and(Place::is_empty) {
            self.places.remove(namespace);
        }
    }
}

impl Place {
    /// What the user holds by name, then by each group; with the group.
    fn held<'a>(&'a self, who: &Who<'_>) -> impl Iterator<Item = (&'a Held, Option<&'a str>)> {
        let user = self.users.get(who.user).map(|held| (held, None));
        let groups = who.groups.iter().filter_map(|group| {
            self.groups
                .get_key_value(group.as_str())
                .map(|(name, held)| (held, Some(name.as_str())))
        });
        user.into_iter().chain(groups)
    }

    fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.bindings.is_empty()
    }
}

/// Where the role of a binding lives; `None` when it can live nowhere.
fn role_home(binding: &Binding) -> Option<&str> {
    match &binding.role {
        RoleRef::ClusterRole(_) => Some(""),
        // A ClusterRoleBinding has no namespace in which to look for a Role.
        RoleRef::Role(_) if binding.namespace.is_empty() => None,
        RoleRef::Role(_) => Some(&binding.namespace),
    }
}

fn parties(binding: &Binding) -> impl Iterator<Item = Party<'_>> {
    binding.subjects.iter().filter_map(|subject| subject.party(&binding.namespace))
}

fn forget(holders: &mut BTreeMap<String, Held>, who: &str, number: usize, binding: &str) {
    let Some(held) = holders.get_mut(who) else { return };
    if let Some(names) = held.get_mut(&number) {
        names.remove(binding);
        if names.is_empty() {
            held.remove(&number);
        }
    }
    if held.is_empty() {
        holders.remove(who);
    }
}
