//! Grants: each is counted at every target it names, whether somebody points there or not.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::{Kind, Outputs};
use crate::extract;
use crate::index::Index;
use crate::intern::NONE;
use crate::model::{Grant, Triple};

/// A grant, and where it is counted.
#[derive(Clone, Debug)]
pub(crate) struct KeptGrant {
    pub(crate) grant: Grant,
    pub(crate) triple: u32,
    /// The namespace of origins.
    pub(crate) from: u32,
    pub(crate) targets: Vec<u32>,
}

impl Index {
    pub(crate) fn put_grant(&mut self, grant: Grant, out: &mut Outputs) {
        self.forget_unusable(Kind::Grant, &grant.namespace, &grant.name);
        let key = (grant.namespace.clone(), grant.name.clone());
        let before = self.grants_by_name.get(&key).copied();
        if before.and_then(|id| self.grant(id)).is_some_and(|kept| kept.grant == grant) {
            return;
        }
        // The new one under a new number before the old one goes: what both give is not interrupted.
        let id = self.add_grant(grant, out);
        self.grants_by_name.insert(key, id);
        if let Some(before) = before {
            self.remove_grant(before, out);
        }
    }

    pub(crate) fn drop_grant(&mut self, namespace: &str, name: &str, out: &mut Outputs) {
        self.forget_unusable(Kind::Grant, namespace, name);
        let key: (String, String) = (namespace.into(), name.into());
        if let Some(id) = self.grants_by_name.remove(&key) {
            self.remove_grant(id, out);
        }
    }

    pub(crate) fn grant(&self, id: u32) -> Option<&KeptGrant> {
        self.grants.get(id as usize)?.as_ref()
    }

    fn add_grant(&mut self, grant: Grant, out: &mut Outputs) -> u32 {
        let triple = self.words.hold_triple(&Triple {
            origin: grant.origin.clone(),
            target: grant.target.clone(),
            purpose: grant.purpose.clone(),
        });
        let from = self.words.hold_namespace(&grant.origin_namespace);
        let id = match self.grants_free.pop() {
            Some(id) => id,
            None => {
                self.grants.push(None);
                u32::try_from(self.grants.len() - 1).unwrap_or(NONE)
            }
        };
        let resource = self.words.hold_resource(&grant.target);
        let namespace = self.words.hold_namespace(&grant.namespace);
        let mut targets = Vec::with_capacity(grant.names.len());
        // A grant without a namespace cannot be stored, and must not speak for targets without one.
        let names = grant.names.iter().filter(|_| !grant.namespace.is_empty());
        for name in names.filter(|name| extract::is_name(name)) {
            let target = self.target_in(resource, namespace, name);
            if !targets.contains(&target) {
                targets.push(target);
                self.grant_at(target, (triple, from, id), true, out);
            }
        }
        self.words.release_resource(resource);
        self.words.release_namespace(namespace);
        if let Some(free) = self.grants.get_mut(id as usize) {
            *free = Some(KeptGrant { grant, triple, from, targets });
        }
        id
    }

    fn remove_grant(&mut self, id: u32, out: &mut Outputs) {
        let Some(kept) = self.grants.get_mut(id as usize).and_then(Option::take) else { return };
        for target in &kept.targets {
            self.grant_at(*target, (kept.triple, kept.from, id), false, out);
        }
        self.words.release_triple(kept.triple);
        self.words.release_namespace(kept.from);
        self.grants_free.push(id);
    }
}
