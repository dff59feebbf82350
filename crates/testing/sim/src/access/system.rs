//! The parts of the server that decide, put together as the server does.

use tenure_machinery::RequestInfo;
use tenure_rbac::{Rbac, RequestAttributes, Requester, RoleChange, RoleWrite};

use super::model::{ModelAttributes, RbacObject};
use super::{Person, RbacWrite, SimulatedRequest};

/// What is compared with the model. Each step is a function of its own, so that a fault can be put into one.
pub trait System {
    /// A role or binding is stored.
    fn put(&mut self, stored: &RbacObject);
    /// A role or binding is gone.
    fn remove(&mut self, stored: &RbacObject);
    /// What a request line asks for.
    fn attributes(&self, method: &str, target: &str) -> ModelAttributes;
    /// Whether somebody may do it.
    fn allows(&self, person: &Person, requests: &ModelAttributes) -> bool;
    /// What must be allowed beside it when it turns out to create.
    fn to_create(&self, requests: &ModelAttributes) -> Option<ModelAttributes>;
    /// Whether somebody may write a role or binding.
    fn may_write(&self, person: &Person, change: &RbacWrite) -> bool;

    /// Whether a request is let through.
    fn decide(&self, person: &Person, request: &SimulatedRequest) -> bool {
        let requests = self.attributes(&request.method, &request.target);
        if !self.allows(person, &requests) {
            return false;
        }
        let creates = !request.exists && requests.creates_where_absent(request.applies);
        let needed = if creates { self.to_create(&requests) } else { None };
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
    fn put(&mut self, stored: &RbacObject) {
        let object = stored.to_object();
        match stored {
            RbacObject::Role(_) => self.rbac.put_role(tenure_rbac::Role::from_object(&object)),
            RbacObject::Binding(_) => {
                if let Some(binding) = tenure_rbac::RoleBinding::from_object(&object) {
                    self.rbac.put_binding(binding);
                }
            }
        }
        self.gather();
    }

    fn remove(&mut self, stored: &RbacObject) {
        let (namespace, name) = stored.place();
        match stored {
            RbacObject::Role(_) => self.rbac.remove_role(namespace, name),
            RbacObject::Binding(_) => self.rbac.remove_binding(namespace, name),
        }
        self.gather();
    }

    fn attributes(&self, method: &str, target: &str) -> ModelAttributes {
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let info = RequestInfo::new(method, path, query);
        if info.is_malformed {
            return ModelAttributes::Malformed;
        }
        let verb = info.verb.into_owned();
        match info.resource {
            None => ModelAttributes::Path { verb, path: info.path },
            Some(of) => ModelAttributes::Resource {
                verb,
                name: of.checked_name().to_owned(),
                group: of.group,
                resource: of.resource,
                subresource: of.subresource,
                namespace: of.namespace,
            },
        }
    }

    fn allows(&self, person: &Person, requests: &ModelAttributes) -> bool {
        let who = Requester { user: &person.user, groups: &person.groups };
        let Some(requests) = question(requests) else { return false };
        who.is_master() || self.rbac.allows(&who, &requests).is_allowed()
    }

    fn to_create(&self, requests: &ModelAttributes) -> Option<ModelAttributes> {
        question(requests)?.to_create().map(answer)
    }

    fn may_write(&self, person: &Person, change: &RbacWrite) -> bool {
        let who = Requester { user: &person.user, groups: &person.groups };
        let old = change.old.as_ref().map(RbacObject::to_object);
        let new = change.new.to_object();
        let path_name = if old.is_some() { change.new.place().1 } else { "" };
        let write = RoleWrite { old: old.as_ref(), new: &new, restated: true, path_name };
        let may = |requests: &RequestAttributes<'_>| {
            who.is_master() || self.rbac.allows(&who, requests).is_allowed()
        };
        self.rbac.check_write(&who, &write, may).is_ok()
    }
}

fn question(requests: &ModelAttributes) -> Option<RequestAttributes<'_>> {
    Some(match requests {
        ModelAttributes::Malformed => return None,
        ModelAttributes::Path { verb, path } => RequestAttributes::Path { verb, path },
        ModelAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
            RequestAttributes::Resource { verb, group, resource, subresource, namespace, name }
        }
    })
}

fn answer(requests: RequestAttributes<'_>) -> ModelAttributes {
    let own = str::to_owned;
    match requests {
        RequestAttributes::Path { verb, path } => {
            ModelAttributes::Path { verb: own(verb), path: own(path) }
        }
        RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
            ModelAttributes::Resource {
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
