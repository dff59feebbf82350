//! Runs a vector against the index of this crate, fed by hand; and against plain values, which must agree
//! (R111).

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tenure_reference::{
    Attributes, Consumer, Detached, Grant, Need, NoExpressions, RefQuery, Resource, Selectors,
    ServedType, Strategy, Verdict, check_detached,
};

use super::{Base, CONSUMER, Expect, Step, Vector};
use crate::index::RefIndex;
use crate::names::Identity;

/// Kind, namespace and name.
type VectorObjectKey = (String, String, String);

/// The objects there are, and the index that was told of them.
struct Bench {
    index: RefIndex,
    selectors: Selectors,
    served: Vec<ServedType>,
    objects: BTreeMap<VectorObjectKey, Value>,
    failures: Vec<String>,
}

/// Runs a vector; what does not hold, in words. None: it passes.
#[must_use]
pub fn run(base: &Base, vector: &Vector) -> Vec<String> {
    let served = base.served.iter().map(|row| ServedType {
        resource: Resource::new(&row.group, &row.resource),
        kind: row.kind.clone(),
        namespaced: row.namespaced,
        versions: row.versions.clone(),
    });
    let mut bench = Bench {
        index: RefIndex::new().with_selectors(vector.selectors()),
        selectors: vector.selectors(),
        served: served.collect(),
        objects: BTreeMap::new(),
        failures: Vec::new(),
    };
    bench.index.serve(bench.served.clone());
    bench.apply(&base.objects);
    let namespaces = base.namespaces.iter().map(
        |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
    );
    bench.apply(&namespaces.collect::<Vec<Value>>());
    for (number, step) in vector.steps.iter().enumerate() {
        match step {
            Step::Apply(objects) => bench.apply(objects),
            Step::Delete(names) => names.iter().for_each(|name| bench.delete(name)),
            Step::Serve { group, resource, versions } => bench.serve(group, resource, versions),
            Step::Expect(all) => all.iter().for_each(|expect| bench.expect(number, expect)),
        }
        bench.feed();
    }
    bench.failures
}

impl Bench {
    fn apply(&mut self, objects: &[Value]) {
        for object in objects {
            self.objects.insert(key(object), object.clone());
            match origin_type(&self.served, object) {
                Some(resource) => self.index.put_origin(&resource, object),
                None => {
                    if let Err(why) = self.index.put(object) {
                        self.failures.push(format!("{:?}: {why}", key(object)));
                    }
                }
            }
        }
        self.feed();
    }

    fn delete(&mut self, name: &Value) {
        self.objects.remove(&key(name));
        match origin_type(&self.served, name) {
            Some(resource) => {
                let (_, namespace, name) = key(name);
                let gone = crate::ObjectName { resource, namespace, name };
                self.index.remove_origin(&gone.as_obj());
            }
            None => {
                if let Err(why) = self.index.remove(name) {
                    self.failures.push(why.to_string());
                }
            }
        }
    }

    fn serve(&mut self, group: &str, resource: &str, versions: &[String]) {
        let wanted = Resource::new(group, resource);
        for row in self.served.iter_mut().filter(|row| row.resource == wanted) {
            row.versions = versions.to_vec();
        }
        let now = self.served.iter().filter(|row| !row.versions.is_empty());
        self.index.serve(now.cloned().collect());
    }

    /// Tells the index of every origin it asks for.
    fn feed(&mut self) {
        for need in self.index.needs() {
            let Need::Feed(resource, _) = need else { continue };
            for object in self.objects.values() {
                if origin_type(&self.served, object).as_ref() == Some(&resource) {
                    self.index.put_origin(&resource, object);
                }
            }
        }
        self.index.mark_all_synced();
    }

    fn expect(&mut self, step: usize, expect: &Expect) {
        match expect {
            Expect::Read { read, allowed } => {
                let consumer = Identity::service_account(CONSUMER.0, CONSUMER.1);
                let asked = Attributes {
                    user: read.user.as_deref().unwrap_or(&consumer.user),
                    groups: if read.user.is_some() { &read.groups } else { &consumer.groups },
                    verb: &read.verb,
                    group: &read.group,
                    resource: &read.resource,
                    subresource: &read.subresource,
                    namespace: &read.namespace,
                    name: &read.name,
                };
                if self.index.decides(&asked) != *allowed {
                    let not = if *allowed { "is not" } else { "is" };
                    self.failures.push(format!("step {step}: {read:?} {not} allowed"));
                }
            }
            Expect::Check { check, .. } => {
                let query = RefQuery {
                    origin: check.origin.as_obj(),
                    target: check.target.as_obj(),
                    purpose: &check.purpose,
                    class: check.class.as_deref(),
                    subject: None,
                };
                let verdict = self.index.check(&query);
                let mut wrong: Vec<String> = differs(expect, &verdict).into_iter().collect();
                wrong.extend(self.detached_differs(&query, &verdict));
                let told = wrong.into_iter().map(|why| format!("step {step}: {check:?}: {why}"));
                self.failures.extend(told.collect::<Vec<_>>());
            }
        }
    }

    /// Tells plain values what they select; without the gates nothing.
    fn select(&self, grants: &mut [Grant], consumers: &mut [Consumer]) {
        let of = |wanted: &Resource| {
            let is = |object: &&Value| origin_type(&self.served, object).as_ref() == Some(wanted);
            self.objects.values().filter(is).collect::<Vec<&Value>>()
        };
        if self.selectors.namespaces {
            let namespaces = of(&Resource::new("", "namespaces"));
            grants.iter_mut().for_each(|grant| grant.select(namespaces.iter().copied()));
        }
        if self.selectors.classes {
            for consumer in consumers {
                let resource = consumer.class_selector.as_ref().map(|of| of.resource.clone());
                consumer.select(resource.iter().flat_map(of));
            }
        }
    }

    /// What a check from plain values says instead, if it says something else (R111).
    fn detached_differs(&self, query: &RefQuery<'_>, verdict: &Verdict<'_>) -> Option<String> {
        let origin = self.objects.values().find(|object| {
            let (_, namespace, name) = key(object);
            let resource = origin_type(&self.served, object);
            let is_type = resource.is_some_and(|resource| {
                resource.group == query.origin.group && resource.resource == query.origin.resource
            });
            is_type && namespace == query.origin.namespace && name == query.origin.name
        })?;
        // An index does not know an origin of a type that is not served; plain values have it in hand.
        if matches!(verdict, Verdict::UnknownOrigin) {
            return None;
        }
        let of = |kind: &'static str| {
            let all = self.objects.iter().filter(move |((found, ..), _)| found == kind);
            all.filter_map(|(_, object)| object.as_object())
        };
        let served: Vec<ServedType> =
            self.served.iter().filter(|row| !row.versions.is_empty()).cloned().collect();
        let strategies: Vec<_> =
            of("ReferenceStrategy").filter_map(|o| Strategy::from_object(o).ok()).collect();
        let mut consumers: Vec<_> =
            of("ClusterReferenceConsumer").filter_map(|o| Consumer::from_object(o).ok()).collect();
        let mut grants: Vec<_> =
            of("ReferenceGrant").filter_map(|o| Grant::from_object(o).ok()).collect();
        self.select(&mut grants, &mut consumers);
        let facts = Detached {
            served: &served,
            strategies: &strategies,
            consumers: &consumers,
            grants: &grants,
            expressions: &NoExpressions,
        };
        let detached = check_detached(&facts, origin, query);
        let (one, two) = (format!("{verdict:?}"), format!("{detached:?}"));
        (one != two).then(|| format!("the index says {one}, plain values {two}"))
    }
}

/// How a verdict differs from what is expected.
fn differs(expect: &Expect, verdict: &Verdict<'_>) -> Option<String> {
    let Expect::Check { verdict: wanted, code, nearest, grants, .. } = expect else { return None };
    let (name, found_code, found_nearest, found_grants) = match verdict {
        Verdict::Local { .. } => ("Local", None, None, None),
        Verdict::Granted { grants, .. } => {
            let names = grants.iter().map(|(namespace, name)| format!("{namespace}/{name}"));
            ("Granted", None, None, Some(names.collect::<Vec<_>>()))
        }
        Verdict::NotPermitted(why) => {
            let field = why.nearest.as_ref().map(|nearest| nearest.field.to_owned());
            ("NotPermitted", Some(why.code.as_str().to_owned()), field, None)
        }
        Verdict::NotAReference => ("NotAReference", None, None, None),
        Verdict::UnknownOrigin => ("UnknownOrigin", None, None, None),
    };
    let holds = name == wanted
        && code.as_ref().is_none_or(|code| Some(code) == found_code.as_ref())
        && nearest.as_ref().is_none_or(|field| Some(field) == found_nearest.as_ref())
        && grants.as_ref().is_none_or(|names| Some(names) == found_grants.as_ref());
    (!holds).then(|| format!("expected {expect:?}, found {verdict:?}"))
}

/// The type of an object that is none of the three kinds.
fn origin_type(served: &[ServedType], object: &Value) -> Option<Resource> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    served.iter().find(|row| row.kind == kind).map(|row| row.resource.clone())
}

fn key(object: &Value) -> VectorObjectKey {
    let text = |pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}
