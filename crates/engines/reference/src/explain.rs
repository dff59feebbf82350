//! Why: the witnesses of an allow, and the nearest miss of everything else (spec section 9).
//!
//! ```text
//!   verb ─► subject ─► target ─► triple ─► version ─► reference ─► class ─► grant ─► allowed
//! ```
//!
//! The conditions are tried in this order on every candidate, a consumer's entry; the one that comes
//! furthest is told, ties by name. Explanations are for those who may see them, never for the one refused.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use crate::index::Index;
use crate::model::{Class, Consumer, Obj, Resource, Subject, Triple};
use crate::nearest::{Nearest, Needed, UnmetCondition, is_close, only_part};
use crate::origin::OriginEdge;
use crate::selector::ClassSelector;
use crate::source::active_version;
use crate::view::Attributes;

/// One chain of objects that gives access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Witness {
    /// The strategy that finds the reference.
    pub strategy: String,
    /// The namespace of the origin; empty when it has none.
    pub origin_namespace: String,
    /// The name of the origin.
    pub origin_name: String,
    /// The version whose paths found it.
    pub version: String,
    /// The type of the origin.
    pub origin: Resource,
    /// The type of the target.
    pub target: Resource,
    /// The namespace of the target; empty when it has none.
    pub target_namespace: String,
    /// The name of the target.
    pub target_name: String,
    /// What for.
    pub purpose: String,
    /// The class of the origin; `None` when its type is not partitioned, empty when it has none.
    pub class: Option<String>,
    /// The grants that cover the reference, by namespace and name; none for a local one.
    pub grants: Vec<(String, String)>,
    /// The consumer.
    pub consumer: String,
}

impl fmt::Display for Witness {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object =
            |out: &mut fmt::Formatter<'_>, resource: &Resource, namespace: &str, name: &str| {
                let (group, resource) = (&resource.group, &resource.resource);
                write!(out, "{}", Obj { group, resource, namespace, name })
            };
        out.write_str("reference: ")?;
        object(out, &self.origin, &self.origin_namespace, &self.origin_name)?;
        out.write_str(" -> ")?;
        object(out, &self.target, &self.target_namespace, &self.target_name)?;
        write!(out, " for {}, strategy {}@{}", self.purpose, self.strategy, self.version)?;
        if let Some((namespace, name)) = self.grants.first() {
            write!(out, ", grant {namespace}/{name}")?;
        }
        write!(out, ", consumer {}", self.consumer)
    }
}

/// Why a request is allowed or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Whether it is allowed.
    pub allowed: bool,
    /// The first condition that is not met on the best candidate; `None` when allowed or not yet synced.
    pub code: Option<UnmetCondition>,
    /// Everything that allows it, the one of the reason first (R130).
    pub witnesses: Vec<Witness>,
    /// What the best candidate lacks, in words.
    pub message: String,
    /// An object that would do, but for one field.
    pub nearest: Option<Nearest>,
    /// YAML that would allow it.
    pub fix: Option<String>,
}

impl Explanation {
    fn refused(code: UnmetCondition, message: String) -> Explanation {
        Explanation {
            allowed: false,
            code: Some(code),
            witnesses: Vec::new(),
            message,
            nearest: None,
            fix: None,
        }
    }
}

/// A subject that may read a target, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetReader {
    /// Who.
    pub subject: Subject,
    /// Why.
    pub witnesses: Vec<Witness>,
}

impl Index {
    /// One line that says why a request is allowed (R130): of all witnesses the smallest by strategy, then
    /// namespace and name of the origin.
    #[must_use]
    pub fn reason(&self, requested: &Attributes<'_>) -> Option<String> {
        self.witness(requested).map(|witness| witness.to_string())
    }

    /// The witness of [`Index::reason`].
    #[must_use]
    pub fn witness(&self, requested: &Attributes<'_>) -> Option<Witness> {
        self.witnesses(requested).into_iter().next()
    }

    /// Everything that allows a request, sorted.
    #[must_use]
    pub fn witnesses(&self, requested: &Attributes<'_>) -> Vec<Witness> {
        if !self.decide(requested).is_allowed() {
            return Vec::new();
        }
        let matching =
            |consumer: &Consumer| consumer.subject.matches(requested.user, requested.groups);
        self.witnesses_of(&object_of(requested), matching)
    }

    /// Every chain that ends at a target, for consumers that match.
    fn witnesses_of(&self, target: &Obj<'_>, matching: impl Fn(&Consumer) -> bool) -> Vec<Witness> {
        let Some(id) = self.find_target(target) else { return Vec::new() };
        let mut all = Vec::new();
        for origin in self.side(id).origins() {
            let (from, edges) = self.edges_at(origin, id);
            for edge in edges.iter().filter(|edge| self.is_live(from, edge)) {
                let (triple, class) = (self.triple(edge), edge.class);
                let accepting = self.consumers.values().filter(|kept| {
                    self.is_open(triple)
                        && kept.triples.contains(&triple)
                        && kept.consumer.accepts(self.words.class_of(class))
                });
                for kept in accepting.filter(|kept| matching(&kept.consumer)) {
                    all.extend(self.witness_of(origin, from, edge, &kept.consumer.name));
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    fn witness_of(
        &self,
        origin: u32,
        from: u32,
        edge: &OriginEdge,
        consumer: &str,
    ) -> Option<Witness> {
        let (triple, class) = (self.triple(edge), edge.class);
        let source = self.source(edge.source)?;
        let object = self.origin(origin)?;
        let target = self.target_name(edge.target)?;
        let mut grants: Vec<(String, String)> = Vec::new();
        if !self.is_local(from, edge.target) {
            let ids = self.side(edge.target).grants(triple, from);
            let kept = ids.filter_map(|id| self.grant(id));
            grants.extend(kept.map(|k| (k.grant.namespace.clone(), k.grant.name.clone())));
            grants.sort_unstable();
        }
        let class = match self.words.class_of(class) {
            Class::Unpartitioned => None,
            Class::Unset => Some(String::new()),
            Class::Named(class) => Some(class.into()),
        };
        Some(Witness {
            strategy: source.spec.strategy.clone(),
            version: source.spec.version.clone(),
            origin: source.spec.origin.clone(),
            origin_namespace: object.namespace.into(),
            origin_name: object.name.into(),
            target: source.spec.reference.target.clone(),
            target_namespace: target.namespace.into(),
            target_name: target.name,
            purpose: source.spec.reference.purpose.clone(),
            class,
            grants,
            consumer: consumer.into(),
        })
    }

    /// Everybody who may read a target, with witnesses (R133).
    #[must_use]
    pub fn who_can(&self, target: &Obj<'_>) -> Vec<TargetReader> {
        let all = self.witnesses_of(target, |_| true);
        let subjects: BTreeSet<&Subject> = all
            .iter()
            .filter_map(|witness| self.consumers.get(&witness.consumer))
            .map(|kept| &kept.consumer.subject)
            .collect();
        let readers = subjects.into_iter().map(|subject| {
            let of_subject = |witness: &&Witness| {
                let kept = self.consumers.get(&witness.consumer);
                kept.is_some_and(|kept| kept.consumer.subject == *subject)
            };
            let witnesses = all.iter().filter(of_subject).cloned().collect();
            TargetReader { subject: subject.clone(), witnesses }
        });
        readers.collect()
    }

    /// Why a request is allowed, or the nearest miss (R132).
    #[must_use]
    pub fn explain(&self, requested: &Attributes<'_>) -> Explanation {
        if !requested.is_eligible() {
            return Explanation::refused(UnmetCondition::Verb, verb_message(requested));
        }
        let witnesses = self.witnesses(requested);
        if let Some(first) = witnesses.first() {
            let message = first.to_string();
            return Explanation {
                allowed: true,
                code: None,
                witnesses,
                message,
                nearest: None,
                fix: None,
            };
        }
        let consumers = self.consumers.values().map(|kept| &kept.consumer);
        let mine: Vec<&Consumer> = consumers
            .filter(|consumer| consumer.subject.matches(requested.user, requested.groups))
            .collect();
        if mine.is_empty() {
            return self.no_subject(requested);
        }
        let target = object_of(requested);
        let is_target = |resource: &Resource| {
            resource.group == target.group && resource.resource == target.resource
        };
        let entries = mine.iter().flat_map(|consumer| {
            let served = consumer.references.iter().filter(|entry| is_target(&entry.target));
            served.map(|entry| (*consumer, entry))
        });
        let mut best: Option<Explanation> = None;
        for (consumer, entry) in entries {
            let miss = self.miss(&target, consumer, entry);
            // The first of those that come as far stays: consumers are in the order of their names.
            if best.as_ref().is_none_or(|best| best.code < miss.code) {
                best = Some(miss);
            }
        }
        let refused = best.unwrap_or_else(|| no_target(&target, &mine));
        if !self.view().is_ready() {
            return Explanation { code: None, message: "index not synced".into(), ..refused };
        }
        refused
    }

    fn no_subject(&self, requested: &Attributes<'_>) -> Explanation {
        let mut message = String::from("no ClusterReferenceConsumer names this subject");
        let account = requested.user.strip_prefix("system:serviceaccount:");
        let account = account.and_then(|rest| rest.split_once(':')).map(|(_, name)| name);
        let others = self.consumers.values().filter(|kept| match &kept.consumer.subject {
            Subject::ServiceAccount { name, .. } => Some(name.as_str()) == account,
            _ => false,
        });
        let others: Vec<String> = others
            .map(|kept| format!("{} ({})", kept.consumer.name, kept.consumer.subject))
            .collect();
        if !others.is_empty() {
            message += &format!("; consumers of that name elsewhere: {}", others.join(", "));
        }
        Explanation::refused(UnmetCondition::Subject, message)
    }

    /// What one entry of a consumer lacks to reach a target: conditions 4 to 8.
    fn miss(&self, target: &Obj<'_>, consumer: &Consumer, entry: &Triple) -> Explanation {
        let mut inert = None;
        let mut active = false;
        for kept in self.strategies.values().filter(|k| k.strategy.origin == entry.origin) {
            let strategy = &kept.strategy;
            let has = |paths: &crate::VersionPaths| {
                let mut paths = paths.references.iter();
                paths.any(|path| path.target == entry.target && path.purpose == entry.purpose)
            };
            if active_version(strategy, self.served.get(&strategy.origin)).is_some_and(has) {
                active = true;
            } else if strategy.versions.iter().any(has) {
                inert.get_or_insert(strategy);
            }
        }
        match inert {
            _ if active => {}
            Some(strategy) => return self.no_version(strategy),
            None => return self.no_triple(consumer, entry),
        }
        let edges = self.edges_for(target, entry);
        if edges.is_empty() {
            return self.no_reference(target, entry);
        }
        let accepted =
            |edge: &&(u32, u32, OriginEdge)| consumer.accepts(self.words.class_of(edge.2.class));
        match edges.iter().find(accepted) {
            None => self.no_class(consumer, edges.first()),
            Some((origin, ..)) => self.no_grant(*origin, target, entry),
        }
    }

    /// Every edge of a triple at a target: origin, its namespace, and the edge; by names.
    fn edges_for(&self, target: &Obj<'_>, entry: &Triple) -> Vec<(u32, u32, OriginEdge)> {
        let Some(id) = self.find_target(target) else { return Vec::new() };
        let mut all = Vec::new();
        for origin in self.side(id).origins() {
            let (from, edges) = self.edges_at(origin, id);
            let of_entry = edges.iter().filter(|edge| {
                let source = self.source(edge.source).filter(|source| source.is_in_force());
                source.is_some_and(|source| {
                    source.spec.origin == entry.origin
                        && source.spec.reference.purpose == entry.purpose
                })
            });
            all.extend(of_entry.map(|edge| (origin, from, *edge)));
        }
        all.sort_by_key(|(origin, _, edge)| {
            let strategy = self.source(edge.source).map(|source| source.spec.strategy.as_str());
            (strategy, self.origin(*origin))
        });
        all
    }

    fn no_triple(&self, consumer: &Consumer, entry: &Triple) -> Explanation {
        let message = format!(
            "no ReferenceStrategy finds references {} -> {} for `{}`, which consumer `{}` serves",
            entry.origin, entry.target, entry.purpose, consumer.name
        );
        let triples = self.strategies.values().flat_map(|kept| {
            let strategy = &kept.strategy;
            let paths = strategy.versions.iter().flat_map(|version| &version.references);
            paths.map(|path| {
                let origin = strategy.origin.clone();
                let (target, purpose) = (path.target.clone(), path.purpose.clone());
                (strategy.name.clone(), Triple { origin, target, purpose })
            })
        });
        let near = triples.filter_map(|(name, triple)| Some((name, only_part(entry, &triple)?)));
        let nearest = near.min().map(|(name, (field, wanted, found))| Nearest {
            kind: "ReferenceStrategy",
            namespace: String::new(),
            name,
            field,
            wanted,
            found,
        });
        Explanation { nearest, ..Explanation::refused(UnmetCondition::Triple, message) }
    }

    fn no_version(&self, strategy: &crate::Strategy) -> Explanation {
        let listed: Vec<&str> = strategy.versions.iter().map(|v| v.version.as_str()).collect();
        let served = self.served.get(&strategy.origin).map(|served| served.versions.join(", "));
        let message = format!(
            "strategy `{}` lists {} of {}; served: {}",
            strategy.name,
            listed.join(", "),
            strategy.origin,
            served.as_deref().unwrap_or("none"),
        );
        Explanation::refused(UnmetCondition::Version, message)
    }

    fn no_reference(&self, target: &Obj<'_>, entry: &Triple) -> Explanation {
        let mut message = format!("no {} points at {target} for `{}`", entry.origin, entry.purpose);
        let close = self.close_names(target, entry);
        if !close.is_empty() {
            message += &format!("; close names that are pointed at: {}", close.join(", "));
        }
        Explanation::refused(UnmetCondition::Reference, message)
    }

    /// Names in the namespace that somebody points at and that are at most two edits away.
    fn close_names(&self, target: &Obj<'_>, entry: &Triple) -> Vec<String> {
        let place = || {
            let resource = self.words.resource(target.group, target.resource)?;
            self.words.place(resource, self.words.namespace(target.namespace)?)
        };
        let Some(place) = place() else { return Vec::new() };
        let names = self.names_in(place).filter(|name| is_close(name, target.name));
        let pointed_at =
            names.filter(|name| !self.edges_for(&Obj { name, ..*target }, entry).is_empty());
        let mut close: Vec<String> = pointed_at.collect();
        close.sort_unstable();
        close.truncate(5);
        close
    }

    fn no_class(&self, consumer: &Consumer, edge: Option<&(u32, u32, OriginEdge)>) -> Explanation {
        let origin = edge.and_then(|(origin, ..)| self.origin(*origin));
        let origin = origin.map(|origin| origin.to_string()).unwrap_or_default();
        let class = match edge.map(|(_, _, edge)| self.words.class_of(edge.class)) {
            Some(Class::Named(class)) => format!("class `{class}`"),
            _ => "no class".into(),
        };
        let listed = consumer.class_names.join("`, `");
        let allowed = match (consumer.class_names.is_empty(), &consumer.class_selector) {
            (true, None) => "no class, because it lists none".into(),
            (false, None) => format!("`{listed}`"),
            (true, Some(selector)) => selected(selector),
            (false, Some(selector)) => format!("`{listed}` and {}", selected(selector)),
        };
        let message =
            format!("{origin} has {class}; consumer `{}` allows {allowed}", consumer.name);
        Explanation::refused(UnmetCondition::Class, message)
    }

    fn no_grant(&self, origin: u32, target: &Obj<'_>, entry: &Triple) -> Explanation {
        let Some(origin) = self.origin(origin) else {
            return Explanation::refused(UnmetCondition::Grant, String::new());
        };
        let needed = Needed { origin, target: *target, purpose: &entry.purpose };
        let grants = self.grants.iter().flatten().map(|kept| &kept.grant);
        let nearest = needed.nearest(grants);
        let message = match &nearest {
            Some(nearest) => nearest.to_string(),
            None => format!(
                "{origin} is in another namespace than its target, and no ReferenceGrant in `{}` \
                 allows it for `{}`",
                target.namespace, entry.purpose
            ),
        };
        let fix = Some(needed.yaml());
        Explanation { nearest, fix, ..Explanation::refused(UnmetCondition::Grant, message) }
    }
}

/// The classes of a selector, in words.
fn selected(selector: &ClassSelector) -> String {
    let classes: Vec<&str> = selector.selected.iter().map(String::as_str).collect();
    match classes.as_slice() {
        [] => format!("those of {selector}, which are none"),
        classes => format!("those of {selector}: `{}`", classes.join("`, `")),
    }
}

fn object_of<'a>(requested: &Attributes<'a>) -> Obj<'a> {
    let Attributes { group, resource, namespace, name, .. } = *requested;
    Obj { group, resource, namespace, name }
}

fn verb_message(requested: &Attributes<'_>) -> String {
    if !matches!(requested.verb, "get" | "list" | "watch") {
        return format!(
            "`{}` is never granted by a reference; only get, list and watch",
            requested.verb
        );
    }
    if !requested.subresource.is_empty() {
        return "subresources are never granted by a reference".into();
    }
    if requested.name.is_empty() {
        return format!(
            "{} of a whole namespace is never granted; use a metadata.name field selector",
            requested.verb
        );
    }
    "wildcards are never granted by a reference".into()
}

fn no_target(target: &Obj<'_>, mine: &[&Consumer]) -> Explanation {
    let served: BTreeSet<String> = mine
        .iter()
        .flat_map(|consumer| consumer.references.iter().map(|entry| entry.target.to_string()))
        .collect();
    let served: Vec<String> = served.into_iter().collect();
    let requested = Resource::new(target.group, target.resource);
    let message =
        format!("the subject serves no references to {requested}, only to {}", served.join(", "));
    Explanation::refused(UnmetCondition::Target, message)
}
