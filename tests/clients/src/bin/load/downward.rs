//! What a pod reads about itself, the engine alone: owner references as text, labels as a file, the
//! environment of a container with many variables in a namespace with many Services.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use tenure_core::FieldPath;
use tenure_downward::{
    RuntimeView, Sources, TokenWanted, ValueDestination, build_env, owner_envelope, resolve_field,
};

use super::measure::Measure;

const ROUNDS: u32 = 100_000;
const BUILDS: u32 = 2000;
const VARIABLES: usize = 100;
const SERVICES: usize = 50;
const MANY: usize = 400;

type Object = Map<String, Value>;

/// Takes every measure of the engine.
pub(super) fn engine() -> Result<Vec<Measure>> {
    let one = [reference(0)];
    let many: Vec<Value> = (0..MANY).map(reference).collect();
    let pod = object(json!({
        "metadata": { "namespace": "shop", "name": "web-1", "ownerReferences": one,
            "labels": { "app": "web", "tier": "front", "pod-template-hash": "5d6f7c8b9" } },
    }))?;
    let runtime = RuntimeView::default();
    let value = |path: &str, form: ValueDestination| -> Result<f64> {
        let path = FieldPath::parse(path)?;
        Ok(each(ROUNDS, || resolve_field(black_box(&path), black_box(&pod), &runtime, form)))
    };
    let container = container()?;
    let shelf = Shelf::new()?;
    build_env(&pod, &container, &runtime, &shelf)?;
    let built =
        each(BUILDS, || build_env(black_box(&pod), black_box(&container), &runtime, &shelf));
    Ok(vec![
        Measure::at_most(
            "downward: owner references, 1 reference, as a variable",
            1.0,
            each(ROUNDS, || owner_envelope(black_box(&one), ValueDestination::Env)),
            "µs",
        ),
        Measure::at_most(
            "downward: owner references, 400 references, as a variable",
            200.0,
            each(BUILDS, || owner_envelope(black_box(&many), ValueDestination::Env)),
            "µs",
        ),
        Measure::at_most(
            "downward: owner references of a pod, as a file",
            1.0,
            value("metadata.ownerReferences", ValueDestination::File)?,
            "µs",
        ),
        Measure::at_most(
            "downward: labels of a pod, as a file",
            1.0,
            value("metadata.labels", ValueDestination::File)?,
            "µs",
        ),
        Measure::at_most(
            "downward: one label, as a variable",
            1.0,
            value("metadata.labels['app']", ValueDestination::Env)?,
            "µs",
        ),
        Measure::at_most(
            "downward: environment of 100 variables and 50 Services",
            100.0,
            built,
            "µs",
        ),
    ])
}

/// How long one call takes, in microseconds.
fn each<T>(rounds: u32, mut call: impl FnMut() -> T) -> f64 {
    for _ in 0..rounds / 10 {
        black_box(call());
    }
    let begin = Instant::now();
    for _ in 0..rounds {
        black_box(call());
    }
    begin.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
}

fn object(value: Value) -> Result<Object> {
    value.as_object().cloned().context("an object")
}

fn reference(number: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": format!("set-{number}"),
        "uid": format!("6be1683f-da9c-4f68-9440-{number:012}"),
        "controller": true, "blockOwnerDeletion": true,
    })
}

/// A quarter of the variables are texts with references, the others come from elsewhere.
fn container() -> Result<Object> {
    let variable = |number: usize| {
        let name = format!("VARIABLE_{number}");
        let from = match number % 4 {
            0 => {
                return json!({ "name": name, "value": "http://$(SERVICE_7_SERVICE_HOST):80/$(NONE)" });
            }
            1 => {
                json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.labels['app']" } })
            }
            2 => {
                json!({ "configMapKeyRef": { "name": "settings", "key": format!("key-{number}") } })
            }
            _ => {
                json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.ownerReferences" } })
            }
        };
        json!({ "name": name, "valueFrom": from })
    };
    let env: Vec<Value> = (0..VARIABLES).map(variable).collect();
    object(json!({ "name": "c", "env": env }))
}

/// What the environment is made from.
struct Shelf {
    services: Vec<Arc<Object>>,
    settings: Arc<Object>,
}

impl Shelf {
    fn new() -> Result<Shelf> {
        let service = |number: usize| {
            object(json!({
                "metadata": { "namespace": "shop", "name": format!("service-{number}") },
                "spec": { "clusterIP": format!("10.96.0.{number}"), "ports": [
                    { "name": "http", "port": 80, "protocol": "TCP" },
                ] },
            }))
            .map(Arc::new)
        };
        let data: Object =
            (0..VARIABLES).map(|number| (format!("key-{number}"), "a value".into())).collect();
        Ok(Shelf {
            services: (0..SERVICES).map(service).collect::<Result<_>>()?,
            settings: Arc::new(object(json!({ "data": data }))?),
        })
    }
}

impl Sources for Shelf {
    fn services(&self) -> Result<&[Arc<Object>], String> {
        Ok(&self.services)
    }

    fn config_map(&self, _name: &str) -> Result<Option<Arc<Object>>, String> {
        Ok(Some(Arc::clone(&self.settings)))
    }

    fn secret(&self, _name: &str) -> Result<Option<Arc<Object>>, String> {
        Ok(None)
    }

    fn file(&self, _volume: &str, path: &str) -> Result<Vec<u8>, String> {
        Err(path.to_owned())
    }

    fn token(&self, _wanted: &TokenWanted) -> Result<Vec<u8>, String> {
        Err("none".to_owned())
    }
}
