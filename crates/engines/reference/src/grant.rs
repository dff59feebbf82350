//! Grants: each is counted at every target it names, whether somebody points there or not.
//!
//! One that selects namespaces is counted once for each of them (D9).

use alloc::string::String;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::event::{Outputs, ReferenceApiKind};
use crate::extract;
use crate::index::Index;
use crate::intern::NONE;
use crate::model::{Grant, Triple};

/// A grant, and where it is counted.
#[derive(Clone, Debug)]
pub(crate) struct KeptGrant {
    pub(crate) grant: Grant,
    pub(crate) triple: u32,
    /// The namespaces of origins; one, unless it selects them.
    pub(crate) from: SmallVec<[u32; 1]>,
    /// INVARIANT: empty while `from` is, because nothing is counted then.
    pub(crate) targets: Vec<u32>,
}

impl Index {
    pub(crate) fn put_grant(&mut self, mut grant: Grant, out: &mut Outputs) {
        self.forget_unusable(ReferenceApiKind::Grant, &grant.namespace, &grant.name);
        self.select_namespaces(&mut grant);
        let key = (grant.namespace.clone(), grant.name.clone());
        let before = self.grants_by_name.get(&key).copied();
        let kept = before.and_then(|id| self.grant(id));
        if kept.is_some_and(|kept| kept.grant == grant) {
            return;
        }
        let selects = grant.namespace_selector.is_some();
        let selected = kept.is_some_and(|kept| kept.grant.namespace_selector.is_some());
        // The new one under a new number before the old one goes: what both give is not interrupted.
        let id = self.add_grant(grant, out);
        self.grants_by_name.insert(key, id);
        if let Some(before) = before {
            self.remove_grant(before, out);
        }
        if selects || selected {
            self.look_out(out);
        }
    }

    pub(crate) fn drop_grant(&mut self, namespace: &str, name: &str, out: &mut Outputs) {
        self.forget_unusable(ReferenceApiKind::Grant, namespace, name);
        let key: (String, String) = (namespace.into(), name.into());
        if let Some(id) = self.grants_by_name.remove(&key)
            && self.remove_grant(id, out)
        {
            self.look_out(out);
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
        let id = match self.grants_free.pop() {
            Some(id) => id,
            None => {
                self.grants.push(None);
                u32::try_from(self.grants.len() - 1).unwrap_or(NONE)
            }
        };
        let mut kept = KeptGrant { grant, triple, from: SmallVec::new(), targets: Vec::new() };
        match kept.grant.namespace_selector.clone() {
            None => {
                let from = kept.grant.origin_namespace.clone();
                self.count_from(id, &mut kept, &from, out);
            }
            Some(selector) => {
                self.keep_selecting(id, true);
                for from in &selector.selected {
                    self.count_from(id, &mut kept, from, out);
                }
            }
        }
        if let Some(free) = self.grants.get_mut(id as usize) {
            *free = Some(kept);
        }
        id
    }

    /// Removes a grant; whether it had a selector.
    fn remove_grant(&mut self, id: u32, out: &mut Outputs) -> bool {
        let Some(mut kept) = self.grants.get_mut(id as usize).and_then(Option::take) else {
            return false;
        };
        for from in core::mem::take(&mut kept.from) {
            self.discount_from(id, &kept, from, out);
        }
        self.words.release_triple(kept.triple);
        self.grants_free.push(id);
        self.keep_selecting(id, false);
        kept.grant.namespace_selector.is_some()
    }

    /// A namespace comes (true) or goes among those that a grant selects.
    pub(crate) fn grant_namespace(
        &mut self,
        id: u32,
        namespace: &str,
        comes: bool,
        out: &mut Outputs,
    ) {
        let Some(mut kept) = self.grants.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        if let Some(selector) = &mut kept.grant.namespace_selector {
            match comes {
                true => drop(selector.selected.insert(namespace.into())),
                false => drop(selector.selected.remove(namespace)),
            }
        }
        if comes {
            self.count_from(id, &mut kept, namespace, out);
        } else if let Some(from) = self.words.namespace(namespace) {
            self.discount_from(id, &kept, from, out);
            kept.from.retain(|other| *other != from);
            if kept.from.is_empty() {
                kept.targets.clear();
            }
        }
        if let Some(place) = self.grants.get_mut(id as usize) {
            *place = Some(kept);
        }
    }

    /// Counts a grant for origins of a namespace, which is held from now on.
    fn count_from(&mut self, id: u32, kept: &mut KeptGrant, namespace: &str, out: &mut Outputs) {
        let from = self.words.hold_namespace(namespace);
        let grant = &kept.grant;
        let resource = self.words.hold_resource(&grant.target);
        let place = self.words.hold_namespace(&grant.namespace);
        let mut targets = Vec::with_capacity(grant.names.len());
        // A grant without a namespace cannot be stored, and must not speak for targets without one.
        let names = grant.names.iter().filter(|_| !grant.namespace.is_empty());
        for name in names.filter(|name| extract::is_name(name)) {
            let target = self.target_in(resource, place, name);
            if !targets.contains(&target) {
                targets.push(target);
                self.grant_at(target, (kept.triple, from, id), true, out);
            }
        }
        self.words.release_resource(resource);
        self.words.release_namespace(place);
        kept.from.push(from);
        kept.targets = targets;
    }

    fn discount_from(&mut self, id: u32, kept: &KeptGrant, from: u32, out: &mut Outputs) {
        for target in &kept.targets {
            self.grant_at(*target, (kept.triple, from, id), false, out);
        }
        self.words.release_namespace(from);
    }
}
