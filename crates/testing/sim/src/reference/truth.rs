//! What is stored, as plain sets, and what follows from it, by looking at everything (spec sections 2 to 5).
//! Nothing is shared with the engine but the names of its types; speed is no concern.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tenure_reference::path::JsonPath;
use tenure_reference::{
    Consumer, Finder, Grant, ReferencePath, Resource, ServedType, Strategy, Subject, Triple,
    VersionPaths,
};

use super::select::{self, Bodies, Body};
use crate::random::Random;

/// Types of origins: group and resource. The last has no namespace.
pub const ORIGINS: [(&str, &str); 3] = [("gw", "gateways"), ("gw", "routes"), ("gw", "profiles")];
/// Types of targets: group, resource, whether they have a namespace.
pub const TARGETS: [(&str, &str, bool); 3] =
    [("", "secrets", true), ("", "configmaps", true), ("x", "certs", false)];
const KINDS: [&str; 3] = ["Secret", "ConfigMap", "Cert"];
/// Users that are asked about.
pub const USERS: [&str; 3] = ["u0", "u1", "system:serviceaccount:a:sa"];
/// Groups that are asked about.
pub const GROUPS: [&str; 1] = ["g0"];
const NAMESPACES: [&str; 3] = ["a", "b", "c"];
const NAMES: [&str; 3] = ["s0", "s1", "s2"];
const PURPOSES: [&str; 2] = ["p", "q"];
const CLASSES: [&str; 3] = ["x", "y", "z"];

/// Whether a group is meant, the subject, the type, namespace and name of the target.
pub type ExpectedAccess = (bool, &'static str, usize, &'static str, &'static str);

/// One allowed reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are what they are called")]
pub struct AllowedReference {
    pub origin: Resource,
    pub origin_namespace: String,
    pub origin_name: String,
    pub target: Resource,
    pub target_namespace: String,
    pub target_name: String,
    pub purpose: String,
}

pub(super) fn namespace(random: &mut Random) -> &'static str {
    NAMESPACES[random.below(NAMESPACES.len())]
}

pub(super) fn name(random: &mut Random) -> &'static str {
    NAMES[random.below(NAMES.len())]
}

pub(super) fn purpose(random: &mut Random) -> &'static str {
    PURPOSES[random.below(PURPOSES.len())]
}

/// Everything that can be asked for.
pub(super) fn every_target() -> impl Iterator<Item = (usize, &'static str, &'static str)> {
    (0..TARGETS.len()).flat_map(|target| {
        let places: &[&str] = if TARGETS[target].2 { &NAMESPACES } else { &[""] };
        places.iter().flat_map(move |place| NAMES.iter().map(move |name| (target, *place, *name)))
    })
}

/// How a strategy of this world finds references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategyPathForm {
    /// The names of references whose kind is the target's.
    ByKind,
    /// References as they are.
    Whole,
    /// A member of another name, which has no namespace beside it.
    Plain,
}

/// One path of a strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct StrategyPath {
    pub way: StrategyPathForm,
    pub target: usize,
    pub purpose: &'static str,
    pub allow_cluster_scoped: bool,
}

/// A strategy of this world: steps for each version.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedStrategy {
    pub name: String,
    pub origin: usize,
    pub versions: Vec<(&'static str, bool, Vec<StrategyPath>)>,
}

impl SimulatedStrategy {
    /// The strategy as it would be stored.
    #[must_use]
    pub fn strategy(&self) -> Strategy {
        let (group, resource) = ORIGINS[self.origin];
        let versions = self.versions.iter().map(|(version, partitioned, steps)| {
            let (class, list) = members(version);
            VersionPaths {
                version: (*version).into(),
                class_path: partitioned.then(|| parsed(&format!(".spec.{class}"))),
                references: steps.iter().map(|step| step.path(list)).collect(),
            }
        });
        Strategy {
            name: self.name.clone(),
            origin: Resource::new(group, resource),
            versions: versions.collect(),
        }
    }
}

/// The members that hold the class and the references in a version.
fn members(version: &str) -> (&'static str, &'static str) {
    if version == "v1" { ("class", "refs") } else { ("className", "references") }
}

fn parsed(text: &str) -> JsonPath {
    match JsonPath::parse(text) {
        Ok(path) => path,
        Err(error) => unreachable!("{text}: {error}"),
    }
}

impl StrategyPath {
    fn path(&self, list: &str) -> ReferencePath {
        let (group, resource, _) = TARGETS[self.target];
        let text = match self.way {
            StrategyPathForm::ByKind => {
                format!(".spec.{list}[?(@.kind=='{}')].name", KINDS[self.target])
            }
            StrategyPathForm::Whole => format!("$.spec.{list}[*]"),
            StrategyPathForm::Plain => ".spec.plain".into(),
        };
        ReferencePath {
            finder: Finder::Path(parsed(&text)),
            target: Resource::new(group, resource),
            purpose: self.purpose.into(),
            namespace_path: None,
            allow_cluster_scoped: self.allow_cluster_scoped,
        }
    }
}

/// What an origin says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub class: Option<&'static str>,
    pub references: Vec<(usize, &'static str, Option<&'static str>)>,
    pub plain: Option<&'static str>,
}

/// One change of the world.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the variants are what they are called")]
pub enum SimulatedChange {
    PutConsumer(Consumer),
    DropConsumer(String),
    PutStrategy(SimulatedStrategy),
    DropStrategy(String),
    PutGrant(Grant),
    DropGrant(String, String),
    PutOrigin(usize, String, String, Content),
    DropOrigin(usize, String, String),
    PutLookedAt(usize, &'static str, Body),
    DropLookedAt(usize, &'static str),
    Serve(usize),
}

impl SimulatedChange {
    /// A random change, most often to what changes most often.
    #[must_use]
    pub fn random(random: &mut Random, truth: &ReferenceModel) -> SimulatedChange {
        match random.below(24) {
            0 | 1 => SimulatedChange::PutConsumer(consumer(random)),
            2 => SimulatedChange::DropConsumer(format!("c{}", random.below(4))),
            3 | 4 => SimulatedChange::PutStrategy(plan(random)),
            5 if random.once_in(2) => {
                SimulatedChange::DropStrategy(format!("t{}", random.below(4)))
            }
            5 => SimulatedChange::Serve((truth.serving + 1 + random.below(3)) % 4),
            6..=9 => SimulatedChange::PutGrant(grant(random)),
            10 | 11 => SimulatedChange::DropGrant(
                namespace(random).into(),
                format!("r{}", random.below(3)),
            ),
            20..=22 => {
                let (kind, name, body) = select::body(random);
                SimulatedChange::PutLookedAt(kind, name, body)
            }
            23 => {
                let (kind, name) = select::named(random);
                SimulatedChange::DropLookedAt(kind, name)
            }
            12 | 13 => {
                let kind = random.below(ORIGINS.len());
                SimulatedChange::DropOrigin(kind, place(kind, random).into(), origin_name(random))
            }
            _ => {
                let kind = random.below(ORIGINS.len());
                let content = content(random);
                SimulatedChange::PutOrigin(
                    kind,
                    place(kind, random).into(),
                    origin_name(random),
                    content,
                )
            }
        }
    }
}

fn place(kind: usize, random: &mut Random) -> &'static str {
    if kind == 2 { "" } else { namespace(random) }
}

fn origin_name(random: &mut Random) -> String {
    format!("o{}", random.below(3))
}

fn consumer(random: &mut Random) -> Consumer {
    let subject = match random.below(4) {
        0 => Subject::User(USERS[0].into()),
        1 => Subject::User(USERS[1].into()),
        2 => Subject::ServiceAccount { namespace: "a".into(), name: "sa".into() },
        _ => Subject::Group(GROUPS[0].into()),
    };
    let mut class_names = BTreeSet::new();
    for _ in 0..random.below(3) {
        class_names.insert(["*", "", "x", "y", "z"][random.below(5)].to_owned());
    }
    let references = (0..2 + random.below(6)).map(|_| {
        let (origin, target) =
            (ORIGINS[random.below(ORIGINS.len())], TARGETS[random.below(TARGETS.len())]);
        Triple {
            origin: Resource::new(origin.0, origin.1),
            target: Resource::new(target.0, target.1),
            purpose: purpose(random).into(),
        }
    });
    let references = references.collect();
    let class_names = class_names.into_iter().collect();
    let class_selector = random.once_in(2).then(|| Box::new(select::class_selector(random)));
    let name = format!("c{}", random.below(4));
    Consumer { name, subject, class_names, class_selector, references }
}

fn plan(random: &mut Random) -> SimulatedStrategy {
    let mut versions = Vec::new();
    for version in ["v1", "v1beta1"] {
        if random.once_in(4) {
            continue;
        }
        let steps = (0..1 + random.below(5)).map(|_| StrategyPath {
            way: [StrategyPathForm::ByKind, StrategyPathForm::Whole, StrategyPathForm::Plain]
                [random.below(3)],
            target: random.below(TARGETS.len()),
            purpose: purpose(random),
            allow_cluster_scoped: random.once_in(2),
        });
        let steps = steps.collect();
        versions.push((version, random.once_in(2), steps));
    }
    SimulatedStrategy {
        name: format!("t{}", random.below(4)),
        origin: random.below(ORIGINS.len()),
        versions,
    }
}

fn grant(random: &mut Random) -> Grant {
    let origin = ORIGINS[random.below(ORIGINS.len())];
    let target = TARGETS[random.below(2)];
    let names = (0..random.below(3)).map(|_| name(random).to_owned());
    let names: BTreeSet<String> = names.collect();
    let namespace_selector =
        random.once_in(2).then(|| Box::new(select::namespace_selector(random)));
    let none = random.once_in(4) || namespace_selector.is_some();
    Grant {
        namespace: namespace(random).into(),
        name: format!("r{}", random.below(3)),
        origin: Resource::new(origin.0, origin.1),
        origin_namespace: if none { "" } else { namespace(random) }.into(),
        namespace_selector,
        target: Resource::new(target.0, target.1),
        names: names.into_iter().collect(),
        purpose: purpose(random).into(),
    }
}

fn content(random: &mut Random) -> Content {
    let references = (0..random.below(4)).map(|_| {
        let wild = random.once_in(10);
        let name = if wild { ["", "a/b", ".."][random.below(3)] } else { name(random) };
        let place = match random.below(8) {
            0..=2 => None,
            3 => Some(""),
            4 if wild => Some("Not_A_Label"),
            _ => Some(namespace(random)),
        };
        (random.below(TARGETS.len()), name, place)
    });
    let references = references.collect();
    let class = match random.below(5) {
        0 => None,
        1 => Some(""),
        at => Some(CLASSES[at - 2]),
    };
    let plain = random.once_in(3).then(|| name(random));
    Content { class, references, plain }
}

/// What is stored.
#[derive(Clone, Debug, Default)]
pub struct ReferenceModel {
    consumers: BTreeMap<String, Consumer>,
    plans: BTreeMap<String, SimulatedStrategy>,
    grants: BTreeMap<(String, String), Grant>,
    origins: BTreeMap<(usize, String, String), Content>,
    looked_at: Bodies,
    serving: usize,
}

impl ReferenceModel {
    pub(super) fn apply(&mut self, change: &SimulatedChange) {
        match change.clone() {
            SimulatedChange::PutConsumer(consumer) => {
                self.consumers.insert(consumer.name.clone(), consumer);
            }
            SimulatedChange::DropConsumer(name) => {
                self.consumers.remove(&name);
            }
            SimulatedChange::PutStrategy(plan) => {
                self.plans.insert(plan.name.clone(), plan);
            }
            SimulatedChange::DropStrategy(name) => {
                self.plans.remove(&name);
            }
            SimulatedChange::PutGrant(grant) => {
                self.grants.insert((grant.namespace.clone(), grant.name.clone()), grant);
            }
            SimulatedChange::DropGrant(namespace, name) => {
                self.grants.remove(&(namespace, name));
            }
            SimulatedChange::PutOrigin(kind, namespace, name, content) => {
                self.origins.insert((kind, namespace, name), content);
            }
            SimulatedChange::DropOrigin(kind, namespace, name) => {
                self.origins.remove(&(kind, namespace, name));
            }
            SimulatedChange::PutLookedAt(kind, name, body) => {
                self.looked_at.insert((kind, name), body);
            }
            SimulatedChange::DropLookedAt(kind, name) => {
                self.looked_at.remove(&(kind, name));
            }
            SimulatedChange::Serve(serving) => self.serving = serving,
        }
    }

    /// The versions of origins that are served, best first.
    fn versions(&self) -> &'static [&'static str] {
        [&["v1", "v1beta1"][..], &["v1beta1", "v1"], &["v1beta1"], &[]][self.serving]
    }

    /// What is served: in the last of four ways origins and ConfigMaps are not.
    #[must_use]
    pub fn served(&self) -> Vec<ServedType> {
        let versions = self.versions();
        let origins = ORIGINS.iter().enumerate().map(|(at, (group, resource))| ServedType {
            resource: Resource::new(group, resource),
            kind: format!("Origin{at}"),
            namespaced: at != 2,
            versions: versions.iter().map(|version| (*version).into()).collect(),
        });
        let targets = (0..TARGETS.len()).filter(|at| self.serves(*at)).map(|at| {
            let (group, resource, namespaced) = TARGETS[at];
            ServedType {
                resource: Resource::new(group, resource),
                kind: KINDS[at].into(),
                namespaced,
                versions: vec!["v1".into()],
            }
        });
        origins.chain(targets).chain(select::served(self.serving)).collect()
    }

    fn serves(&self, target: usize) -> bool {
        target != 1 || self.serving != 2
    }

    /// The first version that is served.
    #[must_use]
    pub fn version_of(&self, _kind: usize) -> Option<&'static str> {
        // Strategies that lack the version read another one: only ask where there is no choice.
        match self.versions() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// An origin as it is served at a version.
    #[must_use]
    pub fn object(&self, kind: usize, namespace: &str, name: &str, version: &str) -> Option<Value> {
        if !self.versions().contains(&version) {
            return None;
        }
        let content = self.origins.get(&(kind, namespace.to_owned(), name.to_owned()))?;
        let (class, list) = members(version);
        let references = content.references.iter().map(|(target, name, namespace)| {
            let mut reference = json!({ "kind": KINDS[*target], "name": name });
            if let Some(namespace) = namespace {
                reference["namespace"] = json!(namespace);
            }
            reference
        });
        let references: Vec<Value> = references.collect();
        let mut spec = json!({ list: references });
        if let Some(value) = content.class {
            spec[class] = json!(value);
        }
        if let Some(plain) = content.plain {
            spec["plain"] = json!(plain);
            spec["namespace"] = json!("b");
        }
        Some(json!({ "metadata": { "name": name, "namespace": namespace }, "spec": spec }))
    }

    /// The origins of a type, by namespace and name.
    #[must_use]
    pub fn names_of(&self, kind: usize) -> Vec<(String, String)> {
        let all = self.origins.keys().filter(|(of, ..)| *of == kind);
        all.map(|(_, namespace, name)| (namespace.clone(), name.clone())).collect()
    }

    /// The objects of a type that selectors look at, by name; none at a version that is not served.
    #[must_use]
    pub fn looked_at(&self, kind: usize, version: Option<&str>) -> Vec<(&'static str, Body)> {
        let versions = select::versions(kind, self.serving);
        let served = version.map_or(!versions.is_empty(), |version| versions.contains(&version));
        let all = self.looked_at.iter().filter(|((of, _), _)| served && *of == kind);
        all.map(|((_, name), body)| (*name, body.clone())).collect()
    }

    /// All origins.
    #[must_use]
    pub fn origins(&self) -> Vec<(usize, String, String)> {
        self.origins.keys().cloned().collect()
    }

    /// All strategies.
    #[must_use]
    pub fn strategies(&self) -> Vec<Strategy> {
        self.plans.values().map(SimulatedStrategy::strategy).collect()
    }

    /// All consumers.
    #[must_use]
    pub fn consumers(&self) -> Vec<Consumer> {
        self.consumers.values().cloned().collect()
    }

    /// All grants.
    #[must_use]
    pub fn grants(&self) -> Vec<Grant> {
        self.grants.values().cloned().collect()
    }

    /// Changes that make this world from an empty one.
    #[must_use]
    pub fn changes(&self) -> Vec<SimulatedChange> {
        let mut all = Vec::new();
        all.extend(self.consumers.values().cloned().map(SimulatedChange::PutConsumer));
        all.extend(self.plans.values().cloned().map(SimulatedChange::PutStrategy));
        all.extend(self.grants.values().cloned().map(SimulatedChange::PutGrant));
        all.extend(self.origins.iter().map(|((kind, namespace, name), content)| {
            SimulatedChange::PutOrigin(*kind, namespace.clone(), name.clone(), content.clone())
        }));
        all.extend(
            self.looked_at.iter().map(|((kind, name), body)| {
                SimulatedChange::PutLookedAt(*kind, name, body.clone())
            }),
        );
        all
    }

    /// Changes that empty this world.
    #[must_use]
    pub fn removals(&self) -> Vec<SimulatedChange> {
        let removed = self.changes().into_iter().map(|change| match change {
            SimulatedChange::PutConsumer(consumer) => SimulatedChange::DropConsumer(consumer.name),
            SimulatedChange::PutStrategy(plan) => SimulatedChange::DropStrategy(plan.name),
            SimulatedChange::PutGrant(grant) => {
                SimulatedChange::DropGrant(grant.namespace, grant.name)
            }
            SimulatedChange::PutOrigin(kind, namespace, name, _) => {
                SimulatedChange::DropOrigin(kind, namespace, name)
            }
            SimulatedChange::PutLookedAt(kind, name, _) => {
                SimulatedChange::DropLookedAt(kind, name)
            }
            other => other,
        });
        removed.collect()
    }

    /// Everything that may be read, by whom (R50 to R55, R58, R80).
    #[must_use]
    pub fn allowed(&self) -> BTreeSet<ExpectedAccess> {
        let mut allowed = BTreeSet::new();
        self.each_reference(&mut |found| {
            if !self.is_live(found) {
                return;
            }
            for consumer in self.consumers.values() {
                let serves = consumer.references.iter().any(|entry| {
                    let origin = ORIGINS[found.kind];
                    let target = TARGETS[found.target];
                    entry.origin == Resource::new(origin.0, origin.1)
                        && entry.target == Resource::new(target.0, target.1)
                        && entry.purpose == found.purpose
                });
                if serves && self.accepts(consumer, found.class) {
                    let (is_group, subject) = match &consumer.subject {
                        Subject::Group(_) => (true, GROUPS[0]),
                        Subject::User(name) => {
                            (false, USERS.into_iter().find(|user| user == name).unwrap_or(""))
                        }
                        Subject::ServiceAccount { .. } => (false, USERS[2]),
                    };
                    let place = NAMESPACES.into_iter().find(|known| *known == found.namespace);
                    let place = place.unwrap_or("");
                    allowed.insert((is_group, subject, found.target, place, found.name));
                }
            }
        });
        allowed
    }

    /// R55, and what is selected beside what is listed.
    fn accepts(&self, consumer: &Consumer, class: Option<&str>) -> bool {
        let served = !select::versions(1, self.serving).is_empty();
        let selected = select::selected_classes(consumer, &self.looked_at, served);
        let is_selected = |class: &str| selected.iter().any(|name| name == class);
        accepts(&consumer.class_names, class)
            || class.is_some_and(|class| !class.is_empty() && is_selected(class))
    }

    /// Every reference that may be followed, whoever reads.
    #[must_use]
    pub fn allowed_references(&self) -> BTreeSet<AllowedReference> {
        let mut all = BTreeSet::new();
        self.each_reference(&mut |found| {
            if self.is_live(found) {
                let (origin, target) = (ORIGINS[found.kind], TARGETS[found.target]);
                all.insert(AllowedReference {
                    origin: Resource::new(origin.0, origin.1),
                    origin_namespace: found.origin_namespace.into(),
                    origin_name: found.origin_name.into(),
                    target: Resource::new(target.0, target.1),
                    target_namespace: found.namespace.into(),
                    target_name: found.name.into(),
                    purpose: found.purpose.into(),
                });
            }
        });
        all
    }

    fn is_live(&self, found: &ModelReference<'_>) -> bool {
        if found.namespace.is_empty() || found.namespace == found.origin_namespace {
            return true;
        }
        let (origin, target) = (ORIGINS[found.kind], TARGETS[found.target]);
        self.grants.values().any(|grant| {
            grant.namespace == found.namespace
                && grant.origin == Resource::new(origin.0, origin.1)
                && select::is_from(grant, found.origin_namespace, &self.looked_at)
                && grant.target == Resource::new(target.0, target.1)
                && grant.names.iter().any(|name| name == found.name)
                && grant.purpose == found.purpose
        })
    }

    fn each_reference(&self, each: &mut dyn FnMut(&ModelReference<'_>)) {
        for plan in self.plans.values() {
            let active = self
                .versions()
                .iter()
                .find_map(|version| plan.versions.iter().find(|(listed, ..)| listed == version));
            let Some((_, partitioned, steps)) = active else { continue };
            for ((kind, origin_namespace, origin_name), content) in &self.origins {
                if *kind != plan.origin {
                    continue;
                }
                for step in steps.iter().filter(|step| self.serves(step.target)) {
                    for (name, namespace) in found(step, content, origin_namespace) {
                        each(&ModelReference {
                            kind: *kind,
                            origin_namespace,
                            origin_name,
                            target: step.target,
                            namespace,
                            name,
                            purpose: step.purpose,
                            class: partitioned.then(|| content.class.unwrap_or("")),
                        });
                    }
                }
            }
        }
    }
}

struct ModelReference<'a> {
    kind: usize,
    origin_namespace: &'a str,
    origin_name: &'a str,
    target: usize,
    namespace: &'a str,
    name: &'static str,
    purpose: &'static str,
    /// `None` where classes play no part; empty where there is none.
    class: Option<&'static str>,
}

/// R55.
fn accepts(names: &[String], class: Option<&str>) -> bool {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    match class {
        None => true,
        Some("") => has(""),
        Some(class) => has("*") || has(class),
    }
}

/// Names and namespaces a step finds (R52, R53, R74 to R76).
fn found<'a>(
    step: &StrategyPath,
    content: &'a Content,
    origin_namespace: &'a str,
) -> Vec<(&'static str, &'a str)> {
    let raw: Vec<(&'static str, &'a str)> = match step.way {
        StrategyPathForm::Plain => content.plain.into_iter().map(|name| (name, "")).collect(),
        StrategyPathForm::ByKind | StrategyPathForm::Whole => content
            .references
            .iter()
            .filter(|(target, ..)| *target == step.target)
            .map(|(_, name, namespace)| (*name, namespace.unwrap_or("")))
            .collect(),
    };
    let mut kept = Vec::new();
    for (name, namespace) in raw {
        if !NAMES.contains(&name) {
            continue;
        }
        if !TARGETS[step.target].2 {
            if step.allow_cluster_scoped {
                kept.push((name, ""));
            }
            continue;
        }
        let namespace = if namespace.is_empty() { origin_namespace } else { namespace };
        if NAMESPACES.contains(&namespace) {
            kept.push((name, namespace));
        }
    }
    kept
}
