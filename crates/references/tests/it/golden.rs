//! The bundled strategies find what they should in an object of each API, and nothing else.
//! Rules of spec/referential-authorization.md.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use tenure_references::migrate::KNOWN_KINDS;
use tenure_references::strategies::{BUNDLES, PURPOSES, UNPARTITIONED};
use tenure_references::{Expressions, Obj, Resource, ServedType, Strategy, references_of};

/// An object of an API, and the references in it: `resource namespace/name purpose`.
#[derive(Deserialize)]
struct Golden {
    strategy: String,
    object: Value,
    references: Vec<String>,
}

/// Expressions as the API server runs them.
struct Cel;

impl Expressions for Cel {
    fn evaluate(&self, expression: &str, object: &Value, _: &mut u64) -> Result<Value, String> {
        crate::cel::evaluate(expression, object)
    }
}

fn parsed(document: &str) -> (Value, Strategy) {
    let value =
        tenure_yaml::to_json(document.as_bytes(), tenure_yaml::YamlLimits::default()).unwrap();
    let strategy = Strategy::from_object(value.as_object().unwrap()).unwrap();
    (value, strategy)
}

fn goldens(bundle: &str) -> Vec<Golden> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/strategies/golden");
    let text = std::fs::read_to_string(format!("{folder}/{bundle}.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Everything known, with one type served in one version.
fn served(origin: &Resource, version: &str) -> Vec<ServedType> {
    let known = KNOWN_KINDS.iter().map(|known| ServedType {
        resource: Resource::new(known.group, known.resource),
        kind: known.kind.to_owned(),
        namespaced: true,
        versions: vec!["v1".to_owned()],
    });
    let mut types: Vec<ServedType> = known.collect();
    let row = types.iter_mut().find(|row| row.resource == *origin).expect("a known kind");
    row.versions = vec![version.to_owned()];
    types
}

fn found(strategy: &Strategy, object: &Value) -> Vec<String> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
    let version = text("/apiVersion").rsplit('/').next().unwrap();
    let served = served(&strategy.origin, version);
    let strategies = [strategy.clone()];
    let origin = Obj {
        group: &strategy.origin.group,
        resource: &strategy.origin.resource,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
    };
    let found = references_of(&served, &strategies, &origin, object, &Cel);
    let mut lines: Vec<String> = found
        .iter()
        .map(|found| {
            format!("{} {}/{} {}", found.target, found.namespace, found.name, found.purpose)
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn r161_every_bundled_strategy_finds_its_golden_references() {
    for bundle in BUNDLES {
        let goldens = goldens(bundle.name);
        for document in bundle.documents() {
            let (_, strategy) = parsed(document);
            let mine: Vec<&Golden> =
                goldens.iter().filter(|golden| golden.strategy == strategy.name).collect();
            for golden in &mine {
                let found = found(&strategy, &golden.object);
                assert_eq!(found, golden.references, "{} {}", strategy.name, golden.object);
            }
            for version in &strategy.versions {
                let of_version = mine.iter().filter(|golden| {
                    golden.object["apiVersion"].as_str().unwrap().rsplit('/').next()
                        == Some(&version.version)
                });
                let all: Vec<&&Golden> = of_version.collect();
                for at in 0..version.references.len() {
                    let mut alone = strategy.clone();
                    for listed in &mut alone.versions {
                        listed.references = vec![listed.references[at].clone()];
                    }
                    let finder = version.references[at].finder.to_string();
                    let finds = all.iter().any(|golden| !found(&alone, &golden.object).is_empty());
                    assert!(finds, "{}@{}: {finder} finds nothing", strategy.name, version.version);
                }
            }
        }
        let known: BTreeSet<String> =
            bundle.documents().map(|document| parsed(document).1.name).collect();
        assert!(goldens.iter().all(|golden| known.contains(&golden.strategy)), "{}", bundle.name);
    }
}

#[test]
fn r160_the_notes_are_in_the_yaml() {
    let text = |name: &str| tenure_references::strategies::bundle(name).unwrap().text;
    for (bundle, note) in [
        ("gateway-api", "from an early draft of GEP-91"),
        ("gateway-api", "installed only with --allow-unpartitioned"),
        ("gateway-api", "have no class of their own"),
        ("ingress", "must list \"\" in its classNames"),
        ("ingress-nginx-annotations", "`namespace/name`"),
        ("cert-manager", "nothing for ClusterIssuers"),
        ("cert-manager", "writing it is not"),
        ("flux", "sourceRef of a HelmChart is local"),
    ] {
        let words = text(bundle).replace("\n  # ", " ").replace("\n# ", " ");
        assert!(words.contains(note), "{bundle}: {note}");
    }
}

#[test]
fn r160_only_the_listener_set_reads_secrets_of_every_class_and_says_so() {
    for bundle in BUNDLES {
        for document in bundle.documents() {
            let (value, strategy) = parsed(document);
            let marked = value.pointer("/metadata/annotations").is_some_and(|annotations| {
                annotations.get(UNPARTITIONED).and_then(Value::as_str) == Some("true")
            });
            assert_eq!(marked, strategy.origin.resource == "listenersets", "{}", strategy.name);
            for version in &strategy.versions {
                for path in &version.references {
                    assert!(PURPOSES.contains(&path.purpose.as_str()), "{}", path.purpose);
                }
            }
        }
    }
}
