//! The objects that would replace broad access: strategies for what the subject serves, a consumer, and grants
//! for references that leave their namespace. They are tried in a copy of the cluster before they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tenure_reference::{Class, Consumer, GROUP, Grant, Resource, Strategy, Triple};
use tenure_references::migrate::NAMES_MAX;
use tenure_references::strategies::UNPARTITIONED;
use tenure_references::{Identity, Reference, grant_object};

use super::{NarrowOutcome, NarrowQuestion, Reach};
use crate::access::{ClusterAccess, Roles, Via};

/// The longest name that a consumer is given here.
const NAME_MAX: usize = 63;

/// What is missing, and what is reached with it.
pub(super) struct NarrowProposal {
    pub(super) references: Vec<Reach>,
    pub(super) objects: Vec<Value>,
    pub(super) notes: Vec<String>,
}

impl ClusterAccess {
    /// What would have to be applied so that the subject reaches all that its origins point at.
    pub(super) fn proposal(&self, question: &NarrowQuestion<'_>) -> NarrowProposal {
        let mut notes = Vec::new();
        let (strategies, more) = self.candidates(question, &mut notes);
        let references = self.references_by(&strategies, question.resource);
        let grants = self.missing_grants(&references);
        let vias = self.tried(question, &strategies, &more, &grants);
        let now = self.reached(question.who, question.resource);
        let is_now = |via: &Via| {
            now.iter().any(|it| {
                (&it.origin, &it.target, &it.purpose) == (&via.origin, &via.target, &via.purpose)
            })
        };
        let (kept, new): (Vec<Via>, Vec<Via>) = vias.into_iter().partition(is_now);
        let mut objects: Vec<Value> = Vec::new();
        let wanted: BTreeSet<&str> = new.iter().map(|via| via.strategy.as_str()).collect();
        let wanted = more.iter().filter(|(strategy, _)| wanted.contains(strategy.name.as_str()));
        objects.extend(wanted.map(|(_, object)| object.clone()));
        objects.extend(self.consumer(question.who, &new));
        let used: BTreeSet<(&str, &str)> = new
            .iter()
            .flat_map(|via| &via.grants)
            .map(|grant| (grant.namespace.as_str(), grant.name.as_str()))
            .collect();
        let is_used = |grant: &&Value| used.contains(&place(grant));
        objects.extend(grants.iter().filter(is_used).cloned());
        if objects.iter().any(|object| object["kind"] == "ReferenceGrant") {
            notes.push(
                "a ReferenceGrant lets others point here: read each before it is applied"
                    .to_owned(),
            );
        }
        let reach = |outcome: NarrowOutcome| move |via: Via| Reach { outcome, via };
        let mut references: Vec<Reach> = kept.into_iter().map(reach(NarrowOutcome::Kept)).collect();
        references.extend(new.into_iter().map(reach(NarrowOutcome::KeptWithObjects)));
        references.sort();
        NarrowProposal { references, objects, notes }
    }

    /// The strategies in force, and those that could be applied, for origins that the subject serves: it has a
    /// consumer for them, or roles let it list or watch them.
    fn candidates(
        &self,
        question: &NarrowQuestion<'_>,
        notes: &mut Vec<String>,
    ) -> (Vec<Strategy>, Vec<(Strategy, Value)>) {
        let who = question.who;
        let consumers = self.consumers();
        let serves = |strategy: &Strategy| {
            let Resource { group, resource } = &strategy.origin;
            let mine = consumers.iter().filter(|consumer| who.is(&consumer.subject));
            let mut entries = mine.flat_map(|consumer| &consumer.references);
            entries.any(|entry| entry.origin == strategy.origin)
                || self.roles.may_somewhere(who, &["list", "watch"], group, resource)
        };
        let leads = |strategy: &Strategy| {
            let mut paths = strategy.versions.iter().flat_map(|version| &version.references);
            paths.any(|path| path.target == *question.resource)
        };
        let in_force: Vec<Strategy> = self.snapshot.strategies();
        let mine = in_force.iter().filter(|strategy| leads(strategy) && serves(strategy));
        let mut all: Vec<Strategy> = mine.cloned().collect();
        let mut more = Vec::new();
        for (strategy, object) in question.bundled {
            let is_there = in_force.iter().any(|it| it.name == strategy.name);
            if is_there || !leads(strategy) || !serves(strategy) {
                continue;
            }
            let annotation = object.pointer("/metadata/annotations");
            let annotation = annotation.and_then(|all| all.get(UNPARTITIONED));
            if annotation.and_then(Value::as_str) == Some("true") {
                if !self.references_by(std::slice::from_ref(strategy), question.resource).is_empty()
                {
                    notes.push(format!(
                        "strategy `{}` would let the subject read {} of every class, and is left out",
                        strategy.name, question.resource
                    ));
                }
                continue;
            }
            // One that finds what those before it find already adds nothing.
            let known = self.references_by(&all, question.resource);
            let found = self.references_by(std::slice::from_ref(strategy), question.resource);
            if found.iter().any(|reference| !known.contains(reference)) {
                all.push(strategy.clone());
                more.push((strategy.clone(), object.clone()));
            }
        }
        if all.is_empty() {
            notes.push(format!(
                "{} serves no type whose references to {} a strategy finds: no consumer names it, and no role \
                 lets it list or watch such a type",
                who.user, question.resource
            ));
        }
        (all, more)
    }

    fn references_by(&self, strategies: &[Strategy], target: &Resource) -> Vec<Reference> {
        let mut found = self.snapshot.references(strategies, &*self.expressions);
        found.retain(|reference| reference.target.resource == *target);
        found
    }

    /// Grants for references into other namespaces that none covers, up to sixteen names each.
    fn missing_grants(&self, references: &[Reference]) -> Vec<Value> {
        let there = self.snapshot.grants();
        let mut missing: BTreeMap<(&str, &Resource, &str, &Resource, &str), BTreeSet<&str>> =
            BTreeMap::new();
        for reference in references {
            let Reference { origin, target, purpose } = reference;
            let covered = || there.iter().any(|grant| reference.is_granted_by(grant));
            if reference.needs_grant() && !covered() {
                let key = (
                    target.namespace.as_str(),
                    &origin.resource,
                    origin.namespace.as_str(),
                    &target.resource,
                    purpose.as_str(),
                );
                missing.entry(key).or_default().insert(&target.name);
            }
        }
        let mut taken: BTreeSet<(String, String)> =
            there.into_iter().map(|grant| (grant.namespace, grant.name)).collect();
        let mut grants = Vec::new();
        for ((namespace, origin, from, target, purpose), names) in missing {
            let names: Vec<&str> = names.into_iter().collect();
            for names in names.chunks(NAMES_MAX) {
                let place = if from.is_empty() { "cluster" } else { from };
                let base = format!("{place}-{}-{purpose}", origin.resource);
                let name =
                    free_name(&base, |name| taken.insert((namespace.to_owned(), name.to_owned())));
                grants.push(grant_object(&Grant {
                    namespace: namespace.to_owned(),
                    name,
                    origin: origin.clone(),
                    origin_namespace: from.to_owned(),
                    namespace_selector: None,
                    target: target.clone(),
                    names: names.iter().map(ToString::to_string).collect(),
                    purpose: purpose.to_owned(),
                }));
            }
        }
        grants
    }

    /// What the subject would reach with everything applied, and a consumer for all of it.
    fn tried(
        &self,
        question: &NarrowQuestion<'_>,
        strategies: &[Strategy],
        more: &[(Strategy, Value)],
        grants: &[Value],
    ) -> Vec<Via> {
        let mut triples: BTreeSet<Triple> = BTreeSet::new();
        for strategy in strategies {
            let paths = strategy.versions.iter().flat_map(|version| &version.references);
            let paths = paths.filter(|path| path.target == *question.resource);
            triples.extend(paths.map(|path| Triple {
                origin: strategy.origin.clone(),
                target: path.target.clone(),
                purpose: path.purpose.clone(),
            }));
        }
        let any = ["*".to_owned(), String::new()];
        let classes = if question.classes.is_empty() { any.as_slice() } else { question.classes };
        let consumer = consumer("narrow.tenure.dev", question.who, classes, &triples);
        let mut after = self.snapshot.clone();
        after.objects.extend(more.iter().map(|(_, object)| object.clone()));
        after.objects.extend(grants.iter().cloned());
        after.objects.push(consumer);
        let after = ClusterAccess::new(after, Roles::default(), Arc::clone(&self.expressions));
        let mut all = after.reached(question.who, question.resource);
        all.retain(|via| {
            let class = via.class.as_deref();
            class.is_none_or(|class| {
                classes.iter().any(|it| it == class || (it == "*" && !class.is_empty()))
            })
        });
        // One way to a target is enough, and the consumer that tried it does not exist.
        let mut seen = BTreeSet::new();
        all.retain(|via| {
            seen.insert((via.origin.clone(), via.target.clone(), via.purpose.clone()))
        });
        all
    }

    /// Every way of somebody to objects of a type.
    fn reached(&self, who: &Identity, resource: &Resource) -> Vec<Via> {
        let mut all = Vec::new();
        for target in self.engine().view().live_targets(&who.user, &who.groups) {
            if target.group != resource.group || target.resource != resource.resource {
                continue;
            }
            let witnesses = self.engine().who_can(&target.object()).into_iter();
            let mine = witnesses.filter(|reader| who.is(&reader.subject));
            all.extend(mine.flat_map(|reader| reader.witnesses).map(|it| Via::from(&it)));
        }
        all.sort_by(|one, two| {
            let key = |via: &Via| (via.target.clone(), via.origin.clone(), via.strategy.clone());
            key(one).cmp(&key(two))
        });
        all
    }

    /// A consumer for what none of the subject's own serves yet.
    fn consumer(&self, who: &Identity, vias: &[Via]) -> Option<Value> {
        let mine: Vec<Consumer> =
            self.consumers().into_iter().filter(|it| who.is(&it.subject)).collect();
        let mut triples = BTreeSet::new();
        let mut classes = BTreeSet::new();
        for via in vias {
            let triple = Triple {
                origin: via.origin.resource.clone(),
                target: via.target.resource.clone(),
                purpose: via.purpose.clone(),
            };
            let class = match via.class.as_deref() {
                None => Class::Unpartitioned,
                Some("") => Class::Unset,
                Some(class) => Class::Named(class),
            };
            let served = |it: &Consumer| it.references.contains(&triple) && it.accepts(class);
            if !mine.iter().any(served) {
                triples.insert(triple);
                classes.extend(via.class.clone());
            }
        }
        if triples.is_empty() {
            return None;
        }
        let taken: BTreeSet<String> = self.consumers().into_iter().map(|it| it.name).collect();
        let base = who.user.rsplit(':').next().unwrap_or_default();
        let name = free_name(base, |name| !taken.contains(name));
        let classes: Vec<String> = classes.into_iter().collect();
        Some(consumer(&name, who, &classes, &triples))
    }
}

fn consumer(name: &str, who: &Identity, classes: &[String], triples: &BTreeSet<Triple>) -> Value {
    let account = who.user.strip_prefix("system:serviceaccount:");
    let subject = match account.and_then(|rest| rest.split_once(':')) {
        Some((namespace, name)) => {
            json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
        }
        None => json!({ "kind": "User", "name": who.user }),
    };
    let resource =
        |resource: &Resource| json!({ "group": resource.group, "resource": resource.resource });
    let references = triples.iter().map(|triple| {
        json!({
            "origin": resource(&triple.origin),
            "target": resource(&triple.target),
            "purpose": triple.purpose,
        })
    });
    let references: Vec<Value> = references.collect();
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"),
        "kind": "ClusterReferenceConsumer",
        "metadata": { "name": name },
        "subject": subject,
        "references": references,
    });
    if let (false, Some(fields)) = (classes.is_empty(), object.as_object_mut()) {
        fields.insert("classNames".to_owned(), json!(classes));
    }
    object
}

fn place(object: &Value) -> (&str, &str) {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    (text("/metadata/namespace"), text("/metadata/name"))
}

/// The first name that is free: the base, then with numbers. Letters that names may not have become dashes.
fn free_name(base: &str, mut free: impl FnMut(&str) -> bool) -> String {
    let fits = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9' | '-') => letter,
        _ => '-',
    };
    let base: String = base.chars().map(fits).take(NAME_MAX).collect();
    let base = base.trim_matches('-');
    let base = if base.is_empty() { "subject" } else { base };
    let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    names.find(|name| free(name)).unwrap_or_else(|| base.to_owned())
}
