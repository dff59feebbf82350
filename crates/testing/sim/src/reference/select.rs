//! Selectors in the small world: namespaces with labels, objects that describe classes, and what is selected among
//! them, by looking at each (D9, D13). Nothing is shared with the engine but the form of selectors.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tenure_core::selector::{LabelRequirement, LabelRule, LabelSelector};
use tenure_reference::path::JsonPath;
use tenure_reference::{ClassSelector, Consumer, Grant, NamespaceSelector, Resource, ServedType};

use crate::random::Random;

/// The types that selectors look at: group and resource. Neither has a namespace.
pub const LOOKED_AT: [(&str, &str); 2] = [("", "namespaces"), ("gw", "classes")];
const KEYS: [&str; 2] = ["team", "stage"];
const VALUES: [&str; 3] = ["one", "two", ""];
const CONTROLLERS: [&str; 2] = ["k0", "k1"];
/// What classes are called; the last is no pattern, whatever it looks like.
const CLASS_OBJECTS: [&str; 4] = ["x", "y", "z", "*"];
/// Where classes name their controller.
const MEMBERS: [&str; 2] = ["controller", "handler"];

/// A namespace or a class, as it is stored.
pub type Body = Value;

/// What selectors look at: by type and name.
pub(super) type Bodies = BTreeMap<(usize, &'static str), Body>;

/// A random object of a type that selectors look at.
pub(super) fn body(random: &mut Random) -> (usize, &'static str, Body) {
    match random.below(2) {
        0 => {
            let name = super::truth::namespace(random);
            (0, name, json!({ "metadata": { "name": name, "labels": labels(random) } }))
        }
        _ => {
            let name = class_object(random);
            let mut spec = json!({});
            for member in MEMBERS {
                spec[member] = match random.below(5) {
                    0 => Value::Null,
                    1 => json!(7),
                    _ => json!(CONTROLLERS[random.below(2)]),
                };
            }
            (1, name, json!({ "metadata": { "name": name }, "spec": spec }))
        }
    }
}

/// The type and name of one that may be there.
pub(super) fn named(random: &mut Random) -> (usize, &'static str) {
    match random.below(2) {
        0 => (0, super::truth::namespace(random)),
        _ => (1, class_object(random)),
    }
}

fn class_object(random: &mut Random) -> &'static str {
    CLASS_OBJECTS[random.below(CLASS_OBJECTS.len())]
}

fn labels(random: &mut Random) -> Value {
    // Labels that are none select nothing.
    if random.once_in(12) {
        return json!({ "team": 1 });
    }
    let mut labels = json!({});
    for key in KEYS {
        if random.once_in(2) {
            labels[key] = json!(VALUES[random.below(VALUES.len())]);
        }
    }
    labels
}

/// A random selector of namespaces; one in three selects them all.
pub(super) fn namespace_selector(random: &mut Random) -> NamespaceSelector {
    let requirements = (0..random.below(3)).map(|_| {
        let mut values = BTreeSet::new();
        for _ in 0..1 + random.below(2) {
            values.insert(VALUES[random.below(VALUES.len())].to_owned());
        }
        let values: Vec<String> = values.into_iter().collect();
        let rule = match random.below(5) {
            0 => LabelRule::Equals(VALUES[random.below(VALUES.len())].into()),
            1 => LabelRule::In(values),
            2 => LabelRule::NotIn(values),
            3 => LabelRule::Exists,
            _ => LabelRule::Missing,
        };
        LabelRequirement { key: KEYS[random.below(KEYS.len())].into(), rule }
    });
    let labels = LabelSelector::new(requirements.collect());
    NamespaceSelector { labels, selected: BTreeSet::new() }
}

/// A random selector of classes.
pub(super) fn class_selector(random: &mut Random) -> ClassSelector {
    let (group, resource) = LOOKED_AT[1];
    let text = format!(".spec.{}", MEMBERS[random.below(MEMBERS.len())]);
    let controller_path = match JsonPath::parse(&text) {
        Ok(path) => path,
        Err(error) => unreachable!("{text}: {error}"),
    };
    ClassSelector {
        resource: Resource::new(group, resource),
        controller_path,
        controller_name: CONTROLLERS[random.below(2)].into(),
        selected: BTreeSet::new(),
    }
}

/// Whether a grant is for origins of a namespace (D9).
pub(super) fn is_from(grant: &Grant, namespace: &str, bodies: &Bodies) -> bool {
    let Some(selector) = &grant.namespace_selector else {
        return grant.origin_namespace == namespace;
    };
    let Some(body) = bodies.iter().find(|((kind, name), _)| (*kind, *name) == (0, namespace))
    else {
        return false;
    };
    let labels = &body.1["metadata"]["labels"];
    let usable = labels.as_object().is_some_and(|labels| labels.values().all(Value::is_string));
    usable
        && selector.labels.requirements().iter().all(|LabelRequirement { key, rule }| {
            let label = labels[key].as_str();
            let among = |values: &[String]| label.is_some_and(|is| values.iter().any(|v| v == is));
            match rule {
                LabelRule::Equals(value) => among(std::slice::from_ref(value)),
                LabelRule::In(values) => among(values),
                LabelRule::NotIn(values) => !among(values),
                LabelRule::Exists => label.is_some(),
                LabelRule::Missing => label.is_none(),
                other => unreachable!("{other:?} is not drawn"),
            }
        })
}

/// The classes that a consumer selects (D13), where classes are served.
pub(super) fn selected_classes(consumer: &Consumer, bodies: &Bodies, served: bool) -> Vec<String> {
    let Some(selector) = consumer.class_selector.as_ref().filter(|_| served) else {
        return Vec::new();
    };
    let member = selector.controller_path.text().rsplit('.').next().unwrap_or_default();
    let classes = bodies.iter().filter(|((kind, _), _)| *kind == 1);
    let its = classes.filter(|(_, body)| body["spec"][member] == *selector.controller_name);
    // No object of this world has a class of that name, so nothing may come of it.
    its.map(|((_, name), _)| (*name).to_owned()).filter(|name| name != "*").collect()
}

/// The versions in which a type that selectors look at is served, the preferred one first.
pub(super) fn versions(kind: usize, serving: usize) -> &'static [&'static str] {
    match (kind, serving) {
        (0, _) | (_, 0 | 3) => &["v1"],
        (_, 1) => &["v1beta1", "v1"],
        _ => &[],
    }
}

/// What is served of these types.
pub(super) fn served(serving: usize) -> impl Iterator<Item = ServedType> {
    let types = LOOKED_AT.iter().enumerate();
    let types = types.filter(move |(kind, _)| !versions(*kind, serving).is_empty());
    types.map(move |(kind, (group, resource))| ServedType {
        resource: Resource::new(group, resource),
        kind: ["Namespace", "Class"][kind].into(),
        namespaced: false,
        versions: versions(kind, serving).iter().map(|version| (*version).into()).collect(),
    })
}
