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

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::role::{Party, Requester, Role, RoleBinding, RoleRef};
use crate::rule::{PolicyRule, RequestAttributes};
use crate::shared::PersistentMap;
use crate::slots::RoleTable;
use crate::sorted::bit_of;

/// What the roles say to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RbacDecision<'a> {
    /// Allowed, and by which binding. When several allow it, one of them is named.
    Allow(RoleGrant<'a>),
    /// Nothing allows it; another authorizer may.
    NoOpinion,
}

impl RbacDecision<'_> {
    /// Whether this is an `Allow`.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow(_))
    }
}

/// The binding and role that allow something, and the subject they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleGrant<'a> {
    /// The binding's namespace; empty for a ClusterRoleBinding.
    pub namespace: &'a str,
    /// The binding's name.
    pub binding: &'a str,
    /// The role it hands out.
    pub role: &'a Role,
    /// The group that is bound; `None` when the user is.
    pub group: Option<&'a str>,
}

impl fmt::Display for RoleGrant<'_> {
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
///
/// A copy shares all it can with what it is a copy of, so that a change costs what changes and not what there is.
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    slots: RoleTable,
    // INVARIANT: a slot that is taken stands in `roles` of exactly one place.
    cluster: ScopeIndex,
    /// The namespaces in which there is something.
    places: PersistentMap<Arc<str>, ScopeIndex>,
}

/// The cluster, or one namespace.
#[derive(Clone, Debug, Default)]
struct ScopeIndex {
    roles: PersistentMap<Arc<str>, usize>,
    bindings: PersistentMap<Arc<str>, Arc<RoleBinding>>,
    users: Holders,
    groups: Holders,
}

/// Subjects of one sort, and what they hold.
type Holders = PersistentMap<Arc<str>, SubjectRoles>;

/// The roles that one subject holds in one place, and the names of the bindings that say so.
///
/// Bindings of one role share an entry, so a role is tried once however often it is bound.
type SubjectRoles = PersistentMap<usize, PersistentMap<Arc<str>, ()>>;

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
        self.cluster.is_empty() && self.places.is_empty() && self.slots.is_empty()
    }

    /// Takes in a role as it now is.
    pub fn put_role(&mut self, role: Role) {
        let number = self.slot(&role.namespace, &role.name);
        self.slots.put_role(number, role);
    }

    /// Forgets a role; bindings to it grant nothing until it returns.
    pub fn remove_role(&mut self, namespace: &str, name: &str) {
        let known = self.place(namespace).and_then(|place| place.roles.get(name)).copied();
        let Some(number) = known else { return };
        if self.slots.remove_role(number) {
            self.forget_role(namespace, name);
        }
    }

    /// Takes in a binding as it now is.
    pub fn put_binding(&mut self, binding: RoleBinding) {
        self.remove_binding(&binding.namespace, &binding.name);
        let name: Arc<str> = Arc::from(binding.name.as_str());
        let number = role_home(&binding).map(|home| self.slot(home, binding.role.name()));
        if let Some(number) = number {
            self.slots.bind(number);
        }
        let binding = Arc::new(binding);
        self.change_place(&binding.namespace, |place| {
            for party in parties(&binding) {
                let Some(number) = number else { break };
                let (holders, who) = match &party {
                    Party::User(who) => (&mut place.users, &**who),
                    Party::Group(who) => (&mut place.groups, *who),
                };
                let bound = |held: &mut SubjectRoles| {
                    held.change(&number, |names| names.insert(Arc::clone(&name), ()));
                };
                holders.change(&Arc::from(who), bound);
            }
            place.bindings.insert(Arc::clone(&name), Arc::clone(&binding));
        });
    }

    /// Forgets a binding.
    pub fn remove_binding(&mut self, namespace: &str, name: &str) {
        let Some(place) = self.place_mut(namespace) else { return };
        let Some(binding) = place.bindings.remove(name) else { return };
        let known = role_home(&binding).and_then(|home| {
            let number = *self.place(home)?.roles.get(binding.role.name())?;
            Some((home, number))
        });
        if let Some((home, number)) = known {
            if let Some(place) = self.place_mut(namespace) {
                for party in parties(&binding) {
                    match party {
                        Party::User(who) => forget(&mut place.users, &who, number, name),
                        Party::Group(who) => forget(&mut place.groups, who, number, name),
                    }
                }
            }
            if self.slots.unbind(number) {
                self.forget_role(home, binding.role.name());
            }
        }
        self.forget_empty_place(namespace);
    }

    /// Whether a role allows what is asked, by a binding for the cluster or for the namespace asked
    /// about.
    #[must_use]
    pub fn allows(
        &self,
        who: &Requester<'_>,
        requested: &RequestAttributes<'_>,
    ) -> RbacDecision<'_> {
        let bit = bit_of(requested);
        let granted = self.cluster.granted("", &self.slots, bit, who, requested);
        let locally = || {
            let namespace =
                Some(requested.namespace()).filter(|namespace| !namespace.is_empty())?;
            let (namespace, place) = self.places.get_key_value(namespace)?;
            place.granted(namespace, &self.slots, bit, who, requested)
        };
        granted.or_else(locally).map_or(RbacDecision::NoOpinion, RbacDecision::Allow)
    }

    /// Every rule that applies to somebody in a namespace, or in the cluster when it is empty.
    ///
    /// Rules of one role stay together; the cluster's roles come first, then by name.
    #[must_use]
    pub fn rules_for(&self, who: &Requester<'_>, namespace: &str) -> Vec<&PolicyRule> {
        self.roles_for(who, namespace).into_iter().flat_map(|held| &held.role.rules).collect()
    }

    /// Every role that somebody holds in a namespace, each once, with a binding that says so.
    pub(crate) fn roles_for(&self, who: &Requester<'_>, namespace: &str) -> Vec<RoleGrant<'_>> {
        let mut roles = BTreeMap::new();
        let local = if namespace.is_empty() { None } else { self.places.get_key_value(namespace) };
        let local = local.map(|(namespace, place)| (&**namespace, place));
        for (namespace, place) in [("", &self.cluster)].into_iter().chain(local) {
            for (held, group) in place.held(who) {
                for (number, bindings) in held.iter() {
                    let Some(role) = self.slots.role(*number) else { continue };
                    let Some((binding, ())) = bindings.first() else { continue };
                    let granted = RoleGrant { namespace, binding, role, group };
                    roles.insert((role.namespace.as_str(), role.name.as_str()), granted);
                }
            }
        }
        roles.into_values().collect()
    }

    /// The role of this name; a ClusterRole when the namespace is empty.
    #[must_use]
    pub fn role(&self, namespace: &str, name: &str) -> Option<&Role> {
        self.slots.role(*self.place(namespace)?.roles.get(name)?)
    }

    /// Every ClusterRole, by name.
    pub fn cluster_roles(&self) -> impl Iterator<Item = &Role> {
        self.cluster.roles.iter().filter_map(|(_, number)| self.slots.role(*number))
    }

    fn place(&self, namespace: &str) -> Option<&ScopeIndex> {
        if namespace.is_empty() { Some(&self.cluster) } else { self.places.get(namespace) }
    }

    fn place_mut(&mut self, namespace: &str) -> Option<&mut ScopeIndex> {
        if namespace.is_empty() { Some(&mut self.cluster) } else { self.places.get_mut(namespace) }
    }

    fn change_place(&mut self, namespace: &str, change: impl FnOnce(&mut ScopeIndex)) {
        if namespace.is_empty() {
            change(&mut self.cluster);
        } else {
            self.places.change(&Arc::from(namespace), change);
        }
    }

    /// The slot of a role, made when nobody spoke of the role before.
    fn slot(&mut self, namespace: &str, name: &str) -> usize {
        if let Some(number) = self.place(namespace).and_then(|place| place.roles.get(name)) {
            return *number;
        }
        let number = self.slots.take();
        self.change_place(namespace, |place| place.roles.insert(Arc::from(name), number));
        number
    }

    /// Forgets a role of which nobody speaks any more.
    fn forget_role(&mut self, namespace: &str, name: &str) {
        if let Some(place) = self.place_mut(namespace) {
            place.roles.remove(name);
        }
        self.forget_empty_place(namespace);
    }

    fn forget_empty_place(&mut self, namespace: &str) {
        if self.places.get(namespace).is_some_and(ScopeIndex::is_empty) {
            self.places.remove(namespace);
        }
    }
}

impl ScopeIndex {
    /// What of the place allows somebody what is asked; `bit` is that of the question.
    fn granted<'a>(
        &'a self,
        namespace: &'a str,
        slots: &'a RoleTable,
        bit: u64,
        who: &Requester<'_>,
        requested: &RequestAttributes<'_>,
    ) -> Option<RoleGrant<'a>> {
        self.held(who).find_map(|(held, group)| {
            held.find(|number, bindings| {
                let role = slots.allowing(*number, bit, requested)?;
                let (binding, ()) = bindings.first()?;
                Some(RoleGrant { namespace, binding, role, group })
            })
        })
    }

    /// What the user holds by name, then by each group; with the group.
    fn held<'a>(
        &'a self,
        who: &Requester<'_>,
    ) -> impl Iterator<Item = (&'a SubjectRoles, Option<&'a str>)> {
        let user = self.users.get(who.user).map(|held| (held, None));
        let groups = who.groups.iter().filter_map(|group| {
            self.groups.get_key_value(group.as_str()).map(|(name, held)| (held, Some(&**name)))
        });
        user.into_iter().chain(groups)
    }

    fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.bindings.is_empty()
    }
}

/// Where the role of a binding lives; `None` when it can live nowhere.
fn role_home(binding: &RoleBinding) -> Option<&str> {
    match &binding.role {
        RoleRef::ClusterRole(_) => Some(""),
        // A ClusterRoleBinding has no namespace in which to look for a Role.
        RoleRef::Role(_) if binding.namespace.is_empty() => None,
        RoleRef::Role(_) => Some(&binding.namespace),
    }
}

fn parties(binding: &RoleBinding) -> impl Iterator<Item = Party<'_>> {
    binding.subjects.iter().filter_map(|subject| subject.party(&binding.namespace))
}

fn forget(holders: &mut Holders, who: &str, number: usize, binding: &str) {
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
