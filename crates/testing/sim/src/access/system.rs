//! The parts of the server that decide, put together as the server does.

use tenure_machinery::RequestInfo;
use tenure_rbac::{Asked, Rbac, RoleChange, RoleWrite, Who};

use super::model::{Attributes, Stored};
use super::{Change, Person, Request};

/// What is compared with the model. Each step is a function of its own, so that a fault can be put into one.
pub trait System {
    /// A role or binding is stored.
    fn put(&mut self, stored: &Stored);
    /// A role or binding is gone.
    fn remove(&mut self, stored: &Stored);
    /// What a request line asks for.
    fn attributes(&self, method: &str, target: &str) -> Attributes;
    /// Whether somebody may do it.
    fn allows(&self, person: &Person, asked: &Attributes) -> bool;
    /// What must be allowed beside it when it turns out to create.
    fn to_create(&self, asked: &Attributes) -> Option<Attributes>;
    /// Whether somebody may write a role or binding.
    fn may_write(&self, person: &Person, change: &Change) -> bool;

    /// Whether a request is let through.
    fn decide(&self, person: &Person, request: &Request) -> bool {
        let asked = self.attributes(&request.method, &request.target);
        if !self.allows(person, &asked) {
            return false;
        }
        let creates = !request.exists && asked.creates_where_absent(request.applies);
        let needed = if creates { self.to_create(&asked) } else { None };
        needed.is_none_or(|needed| self.allows(person, &needed))
    }
}

/// `RequestInfo` and `Rbac`.
#[derive(Default)]
pub struct Real {
    rbac: Rbac,
}

impl Real {
    /// Aggregated roles follow in the same transaction.
    fn gather(&mut self) {
        for (name, rules) in self.rbac.aggregates(RoleChange::None) {
            if let Some(role) = self.rbac.role("", &name) {
                let role = tenure_rbac::Role { rules, ..role.clone() };
                self.rbac.put_role(role);
            }
        }
    }
}

impl System for Real {
    fn put(&mut self, stored: &Stored) {
        let object = stored.to_object();
        match stored {
            Stored::Role(_) => self.rbac.put_role(tenure_rbac::Role::from_object(&object)),
            Stored::Binding(_) => {
                if let Some(binding) = tenure_rbac::Binding::from_object(&object) {
                    self.rbac.put_binding(binding);
                }
            }
        }
        self.gather();
    }

    fn remove(&mut self, stored: &Stored) {
        let (namespace, name) = stored.place();
        match stored {
            Stored::Role(_) => self.rbac.remove_role(namespace, name),
            Stored::Binding(_) => self.rbac.remove_binding(namespace, name),
        }
        self.gather();
    }

    fn attributes(&self, method: &str, target: &str) -> Attributes {
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let info = RequestInfo::new(method, path, query);
        if info.is_malformed {
            return Attributes::Malformed;
        }
        let verb = info.verb.into_owned();
        match info.resource {
            None => Attributes::Path { verb, path: info.path },
            Some(of) => Attributes::Resource {
                verb,
                name: of.checked_name().to_owned(),
                group: of.group,
                resource: of.resource,
                subresource: of.subresource,
                namespace: of.namespace,
            },
        }
    }

    fn allows(&self, person: &Person, asked: &Attributes) -> bool {
        let who = Who { user: &person.user, groups: &person.groups };
        let Some(asked) = question(asked) else { return false };
        who.is_master() || self.rbac.allows(&who, &asked).is_allowed()
    }

    fn to_create(&self, asked: &Attributes) -> Option<Attributes> {
        question(asked)?.to_create().map(answer)
    }

    fn may_write(&self, person: &Person, change: &Change) -> bool {
        let who = Who { user: &person.user, groups: &person.groups };
        let old = change.old.as_ref().map(Stored::to_object);
        let new = change.new.to_object();
        let path_name = if old.is_some() { change.new.place().1 } else { "" };
        let write = RoleWrite { old: old.as_ref(), new: &new, path_name };
        let may = |asked: &Asked<'_>| who.is_master() || self.rbac.allows(&who, asked).is_allowed();
        self.rbac.check_write(&who, &write, may).is_ok()
    }
}

fn question(asked: &Attributes) -> Option<Asked<'_>> {
    Some(match asked {
        Attributes::Malformed => return None,
        Attributes::Path { verb, path } => Asked::Path { verb, path },
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            Asked::Resource { verb, group, resource, subresource, namespace, name }
        }
    })
}

fn answer(asked: Asked<'_>) -> Attributes {
    let own = str::to_owned;
    match asked {
        Asked::Path { verb, path } => Attributes::Path { verb: own(verb), path: own(path) },
        Asked::Resource { verb, group, resource, subresource, namespace, name } => {
            Attributes::Resource {
                verb: own(verb),
                group: own(group),
                resource: own(resource),
                subresource: own(subresource),
                namespace: own(namespace),
                name: own(name),
            }
        }
    }
}
