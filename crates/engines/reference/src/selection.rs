//! What selectors select is kept in step with the objects they look at.
//!
//! ```text
//!   a namespace comes, is relabelled, goes ──► grants that select it or no longer do ──► entries per namespace
//!   a class comes, changes hands, goes     ──► consumers of its controller ──────────► classes as if listed
//! ```
//!
//! Targets and subjects know nothing of this: a grant counts at its targets once for each namespace it selects, and
//! a consumer accepts the classes it selects as if it had listed them. The objects come as origins do, asked
//! for by a need. Whatever was not told, or cannot be read, is not selected.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use crate::event::{Need, Origin, OriginName, Outputs};
use crate::index::Index;
use crate::model::{Consumer, Grant, Resource};
use crate::path::JsonPath;
use crate::selector::{Labels, Selectors, controller, labels_of};

/// What is looked at for selectors, and what was seen there.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectorIndex {
    /// Which selectors mean anything.
    on: Selectors,
    /// The types that are asked for, and the version of each.
    pub(crate) looked_at: BTreeMap<Resource, String>,
    /// The labels of namespaces.
    labels: BTreeMap<String, Labels>,
    /// Grants that have a selector.
    grants: BTreeSet<u32>,
    /// Consumers that have one.
    consumers: BTreeSet<String>,
    /// What objects of a type say at a path.
    controllers: BTreeMap<(Resource, String), ClassControllers>,
}

/// The controllers that objects name at one path, by the objects' names.
#[derive(Clone, Debug)]
struct ClassControllers {
    path: JsonPath,
    by_class: BTreeMap<String, String>,
}

fn namespaces() -> Resource {
    Resource::new("", "namespaces")
}

impl Index {
    /// Which selectors mean anything; to be said before the first event. Without, none does (D9, D13).
    #[must_use]
    pub fn with_selectors(mut self, selectors: Selectors) -> Index {
        self.selection.on = selectors;
        self
    }

    /// An object of a type that selectors look at, as it now is.
    pub(crate) fn see(&mut self, origin: &Origin<'_>, out: &mut Outputs) {
        if self.looks_at(&origin.name, Some(origin.version)) {
            self.note(&origin.name, Some(origin.object), out);
        }
    }

    /// Such an object is gone.
    pub(crate) fn lose(&mut self, name: &OriginName<'_>, out: &mut Outputs) {
        if self.looks_at(name, None) {
            self.note(name, None, out);
        }
    }

    fn looks_at(&self, name: &OriginName<'_>, version: Option<&str>) -> bool {
        let mut types = self.selection.looked_at.iter();
        name.namespace.is_empty()
            && types.any(|(resource, at)| {
                is(resource, name) && version.is_none_or(|version| version == at)
            })
    }

    fn note(&mut self, name: &OriginName<'_>, object: Option<&Value>, out: &mut Outputs) {
        if self.selection.on.namespaces && is(&namespaces(), name) {
            self.relabel(name.name, object.and_then(labels_of), out);
        }
        let mut changed = false;
        let of_type = self.selection.controllers.iter_mut().filter(|((of, _), _)| is(of, name));
        for (_, seen) in of_type {
            changed |= match object.and_then(|object| controller(&seen.path, object)) {
                Some(now) => {
                    seen.by_class.insert(name.name.into(), now.into()).as_deref() != Some(now)
                }
                None => seen.by_class.remove(name.name).is_some(),
            };
        }
        if changed {
            self.select_again(out);
        }
    }

    /// The labels of a namespace are these from now on; `None` when there are none to go by.
    fn relabel(&mut self, name: &str, labels: Option<Labels>, out: &mut Outputs) {
        let known = &mut self.selection.labels;
        let changed = match &labels {
            Some(labels) => known.insert(name.into(), labels.clone()).as_ref() != Some(labels),
            None => known.remove(name).is_some(),
        };
        if !changed {
            return;
        }
        let turned = self.selection.grants.iter().filter_map(|id| {
            let selector = self.grant(*id)?.grant.namespace_selector.as_ref()?;
            let now = labels.as_ref().is_some_and(|labels| selector.matches(labels));
            (now != selector.selected.contains(name)).then_some((*id, now))
        });
        let turned: Vec<(u32, bool)> = turned.collect();
        for (id, now) in turned {
            self.grant_namespace(id, name, now, out);
        }
    }

    /// Sets what a grant selects, from what is known.
    pub(crate) fn select_namespaces(&self, grant: &mut Grant) {
        let Some(selector) = &mut grant.namespace_selector else { return };
        let all = self.selection.labels.iter();
        let matching = all.filter(|(_, labels)| selector.matches(labels));
        let selected = matching.map(|(name, _)| name.clone()).collect();
        selector.selected = selected;
    }

    /// The same for the classes of a consumer.
    pub(crate) fn select_classes(&self, consumer: &mut Consumer) {
        let Some(selector) = &mut consumer.class_selector else { return };
        let seen = self.selection.controllers.get(&selector.key());
        let all = seen.into_iter().flat_map(|seen| &seen.by_class);
        let its = all.filter(|(_, controller)| **controller == selector.controller_name);
        selector.selected = its.map(|(class, _)| class.clone()).collect();
    }

    /// Brings consumers in line with what class objects say.
    fn select_again(&mut self, out: &mut Outputs) {
        let names: Vec<String> = self.selection.consumers.iter().cloned().collect();
        for name in names {
            let Some(kept) = self.consumers.get(&name) else { continue };
            let mut consumer = kept.consumer.clone();
            self.select_classes(&mut consumer);
            self.replace_consumer(consumer, out);
        }
    }

    /// A grant with or without a selector came, or went.
    pub(crate) fn keep_selecting(&mut self, grant: u32, selects: bool) {
        if selects {
            self.selection.grants.insert(grant);
        } else {
            self.selection.grants.remove(&grant);
        }
    }

    /// The same for a consumer; whether it is news.
    pub(crate) fn keep_classifying(&mut self, consumer: &str, selects: bool) -> bool {
        let had = self.selection.consumers.contains(consumer);
        match selects {
            true => drop(self.selection.consumers.insert(consumer.into())),
            false => drop(self.selection.consumers.remove(consumer)),
        }
        had || selects
    }

    /// Asks for the types that selectors look at, and no longer for others.
    pub(crate) fn look_out(&mut self, out: &mut Outputs) {
        let fresh = self.settle_controllers();
        let mut types: BTreeSet<Resource> =
            self.selection.controllers.keys().map(|(resource, _)| resource.clone()).collect();
        if self.selection.on.namespaces && !self.selection.grants.is_empty() {
            types.insert(namespaces());
        }
        let wanted: BTreeMap<Resource, String> = types
            .into_iter()
            .filter_map(|of| Some((of.clone(), self.looked_at_in(&of)?)))
            .collect();
        let feeds = self.feeds();
        let before = core::mem::replace(&mut self.selection.looked_at, wanted.clone());
        for (resource, version) in &wanted {
            if before.get(resource) != Some(version) || fresh.contains(resource) {
                out.needs.push(Need::Feed(resource.clone(), version.clone()));
            }
        }
        // What strategies still read goes on.
        self.stop_feeds(&feeds, out);
        let gone = before.keys().filter(|resource| !wanted.contains_key(*resource));
        gone.for_each(|resource| self.forget_type(resource, out));
    }

    /// The version at which a type is looked at: the preferred one. Objects in namespaces say nothing.
    fn looked_at_in(&self, resource: &Resource) -> Option<String> {
        let served = self.served.get(resource).filter(|served| !served.namespaced)?;
        served.versions.first().cloned()
    }

    /// Keeps a list for each path that consumers name; the types of those that are new.
    fn settle_controllers(&mut self) -> BTreeSet<Resource> {
        let mut fresh = BTreeSet::new();
        if !self.selection.on.classes {
            return fresh;
        }
        let consumers = self.selection.consumers.iter().filter_map(|name| self.consumers.get(name));
        let selectors = consumers.filter_map(|kept| kept.consumer.class_selector.as_ref());
        let named: BTreeMap<(Resource, String), JsonPath> =
            selectors.map(|of| (of.key(), of.controller_path.clone())).collect();
        self.selection.controllers.retain(|key, _| named.contains_key(key));
        for (key, path) in named {
            if let Entry::Vacant(place) = self.selection.controllers.entry(key) {
                fresh.insert(place.key().0.clone());
                place.insert(ClassControllers { path, by_class: BTreeMap::new() });
            }
        }
        fresh
    }

    /// What was seen of a type no longer holds.
    fn forget_type(&mut self, resource: &Resource, out: &mut Outputs) {
        if *resource == namespaces() {
            let known: Vec<String> = self.selection.labels.keys().cloned().collect();
            known.iter().for_each(|name| self.relabel(name, None, out));
        }
        let of_type = self.selection.controllers.iter_mut().filter(|((of, _), _)| of == resource);
        of_type.for_each(|(_, seen)| seen.by_class.clear());
        self.select_again(out);
    }
}

fn is(resource: &Resource, name: &OriginName<'_>) -> bool {
    resource.group == name.group && resource.resource == name.resource
}
