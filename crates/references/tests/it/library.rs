//! The index by hand: checks, subscriptions, what may be read, the condition.
//! Rules of spec/referential-authorization.md.

use futures::channel::mpsc::UnboundedReceiver;
use serde_json::{Value, json};
use tenure_references::{
    Condition, Filter, Identity, NotUnderstood, Obj, ObjectName, RefIndex, RefQuery, Resource,
    ServedType, Subject, TargetChange, UnmetCondition, Verdict, VerdictUpdate,
};

const GATEWAY: &str = "gateway.networking.k8s.io";

fn gateways() -> Resource {
    Resource::new(GATEWAY, "gateways")
}

fn secrets() -> Resource {
    Resource::new("", "secrets")
}

fn served() -> Vec<ServedType> {
    let row = |resource: Resource, kind: &str| ServedType {
        resource,
        kind: kind.to_owned(),
        namespaced: true,
        versions: vec!["v1".to_owned()],
    };
    vec![row(gateways(), "Gateway"), row(secrets(), "Secret")]
}

fn strategy() -> Value {
    json!({
        "kind": "ReferenceStrategy",
        "metadata": { "name": "gateways" },
        "origin": { "group": GATEWAY, "resource": "gateways" },
        "versions": [{ "version": "v1", "classPath": ".spec.gatewayClassName", "references": [{
            "path": ".spec.listeners[*].tls.certificateRefs[*].name",
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }]}],
    })
}

fn consumer(classes: &[&str]) -> Value {
    json!({
        "kind": "ClusterReferenceConsumer",
        "metadata": { "name": "contour" },
        "subject": { "kind": "ServiceAccount", "namespace": "contour-system", "name": "contour" },
        "classNames": classes,
        "references": [{
            "origin": { "group": GATEWAY, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" },
            "purpose": "tls-serving",
        }],
    })
}

fn grant(name: &str, names: &[&str]) -> Value {
    json!({
        "kind": "ReferenceGrant",
        "metadata": { "namespace": "prod-tls", "name": name },
        "origin": { "group": GATEWAY, "resource": "gateways", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": names },
        "purpose": "tls-serving",
    })
}

fn gateway(name: &str, class: &str, references: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{GATEWAY}/v1"),
        "metadata": { "namespace": "prod", "name": name },
        "spec": {
            "gatewayClassName": class,
            "listeners": [{ "tls": { "certificateRefs": references } }],
        },
    })
}

fn far(name: &str) -> Value {
    json!({ "name": name, "namespace": "prod-tls" })
}

fn near(name: &str) -> Value {
    json!({ "name": name })
}

/// A strategy, a consumer of class `contour`, and nothing else.
fn index() -> RefIndex {
    let mut index = RefIndex::new();
    index.serve(served());
    index.put(&strategy()).unwrap();
    index.put(&consumer(&["contour"])).unwrap();
    index.mark_all_synced();
    index
}

fn query<'a>(origin: &'a str, namespace: &'a str, name: &'a str) -> RefQuery<'a> {
    RefQuery {
        origin: Obj { group: GATEWAY, resource: "gateways", namespace: "prod", name: origin },
        target: Obj { group: "", resource: "secrets", namespace, name },
        purpose: "tls-serving",
        class: None,
        subject: None,
    }
}

fn secret(namespace: &str, name: &str) -> ObjectName {
    ObjectName { resource: secrets(), namespace: namespace.into(), name: name.into() }
}

/// What has been told so far.
fn drain<T>(told: &mut UnboundedReceiver<T>) -> Vec<T> {
    std::iter::from_fn(|| told.try_recv().ok()).collect()
}

/// `+origin>namespace/name` became allowed, `-…` became denied.
fn lines(changes: Vec<VerdictUpdate>) -> Vec<String> {
    let line = |change: VerdictUpdate| {
        let sign = if matches!(change, VerdictUpdate::BecameAllowed(_)) { '+' } else { '-' };
        let reference = change.reference();
        let (origin, target) = (&reference.origin.name, &reference.target);
        format!("{sign}{origin}>{}/{}", target.namespace, target.name)
    };
    changes.into_iter().map(line).collect()
}

#[test]
fn r110_a_verdict_says_what_allows_and_what_is_missing() {
    let mut index = index();
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own"), far("acme")]));
    assert_eq!(index.check(&query("web", "prod", "own")), Verdict::Local { strategy: "gateways" });
    let Verdict::NotPermitted(why) = index.check(&query("web", "prod-tls", "acme")) else {
        panic!("not granted yet");
    };
    assert_eq!((why.code, why.nearest), (UnmetCondition::Grant, None));
    index.put(&grant("one", &["acme"])).unwrap();
    index.put(&grant("two", &["acme", "more"])).unwrap();
    let Verdict::Granted { strategy, grants } = index.check(&query("web", "prod-tls", "acme"))
    else {
        panic!("granted twice");
    };
    assert_eq!(
        (strategy, grants.as_slice()),
        ("gateways", &[("prod-tls", "one"), ("prod-tls", "two")][..])
    );
    assert_eq!(index.check(&query("web", "prod-tls", "more")), Verdict::NotAReference);
    assert_eq!(index.check(&query("api", "prod", "own")), Verdict::UnknownOrigin);
}

#[test]
fn r110_class_and_subject_are_checked_when_they_are_said() {
    let mut index = index();
    index.put_origin(&gateways(), &gateway("web", "envoy", &[near("own")]));
    let contour =
        Subject::ServiceAccount { namespace: "contour-system".into(), name: "contour".into() };
    let ann = Subject::User("ann".into());
    let ask = |index: &RefIndex, class, subject| {
        let query = RefQuery { class, subject, ..query("web", "prod", "own") };
        match index.check(&query) {
            Verdict::NotPermitted(why) => Some(why.code),
            verdict => {
                assert!(verdict.is_allowed());
                None
            }
        }
    };
    assert_eq!(ask(&index, None, None), None);
    assert_eq!(ask(&index, Some("envoy"), None), None);
    assert_eq!(ask(&index, Some("contour"), None), Some(UnmetCondition::Class));
    assert_eq!(ask(&index, None, Some(&contour)), Some(UnmetCondition::Class));
    assert_eq!(ask(&index, None, Some(&ann)), Some(UnmetCondition::Subject));
    index.put(&consumer(&["*"])).unwrap();
    assert_eq!(ask(&index, None, Some(&contour)), None);
}

#[test]
fn r112_each_turn_of_a_verdict_is_told_once() {
    let mut index = index();
    let mut told = index.watch(Filter::default());
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own"), far("acme")]));
    assert_eq!(lines(drain(&mut told)), ["+web>prod/own"]);
    // Overlapping grants: one word for the first that comes and for the last that goes.
    for name in ["one", "two"] {
        index.put(&grant(name, &["acme"])).unwrap();
    }
    assert_eq!(lines(drain(&mut told)), ["+web>prod-tls/acme"]);
    index.remove(&grant("one", &[])).unwrap();
    assert!(drain(&mut told).is_empty());
    index.put(&grant("two", &["other"])).unwrap();
    assert_eq!(lines(drain(&mut told)), ["-web>prod-tls/acme"]);
    // The same object again says nothing new.
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own"), far("acme")]));
    assert!(drain(&mut told).is_empty());
    index.remove_origin(&query("web", "", "").origin);
    assert_eq!(lines(drain(&mut told)), ["-web>prod/own"]);
}

#[test]
fn r112_a_subscriber_hears_first_what_is_allowed_and_then_what_it_asked_for() {
    let mut index = index();
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own")]));
    let mut all = index.watch(Filter::default());
    let mut elsewhere =
        index.watch(Filter { origin_namespace: Some("other".into()), ..Filter::default() });
    let mut certificates = index.watch(Filter {
        origin: Some(gateways()),
        target: Some(secrets()),
        purpose: Some("tls-serving".into()),
        ..Filter::default()
    });
    assert_eq!(lines(drain(&mut all)), ["+web>prod/own"]);
    index.remove(&strategy()).unwrap();
    assert_eq!(lines(drain(&mut all)), ["-web>prod/own"]);
    assert_eq!(lines(drain(&mut certificates)), ["+web>prod/own", "-web>prod/own"]);
    assert!(drain(&mut elsewhere).is_empty());
}

#[test]
fn r112_nothing_is_told_before_everything_was_seen() {
    let mut index = RefIndex::new();
    let mut told = index.watch(Filter::default());
    index.serve(served());
    index.put(&strategy()).unwrap();
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own")]));
    assert!(drain(&mut told).is_empty() && !index.is_ready());
    assert_eq!(index.check(&query("web", "prod", "own")), Verdict::UnknownOrigin);
    index.mark_all_synced();
    assert_eq!(lines(drain(&mut told)), ["+web>prod/own"]);
    assert!(index.is_ready());
}

#[test]
fn r114_a_target_opens_with_its_first_reference_and_closes_with_its_last() {
    let mut index = index();
    let mut told = index.readable(Identity::service_account("contour-system", "contour"));
    index.put_origin(&gateways(), &gateway("a", "contour", &[near("own"), far("acme")]));
    index.put_origin(&gateways(), &gateway("b", "contour", &[near("own")]));
    assert_eq!(drain(&mut told), [TargetChange::Opened(secret("prod", "own"))]);
    index.put(&grant("one", &["acme"])).unwrap();
    assert_eq!(drain(&mut told), [TargetChange::Opened(secret("prod-tls", "acme"))]);
    index.remove_origin(&query("a", "", "").origin);
    assert_eq!(drain(&mut told), [TargetChange::Closed(secret("prod-tls", "acme"))]);
    // The class moves away from this consumer.
    index.put_origin(&gateways(), &gateway("b", "envoy", &[near("own")]));
    assert_eq!(drain(&mut told), [TargetChange::Closed(secret("prod", "own"))]);
    // The consumer follows, and is then gone.
    index.put(&consumer(&["envoy"])).unwrap();
    assert_eq!(drain(&mut told), [TargetChange::Opened(secret("prod", "own"))]);
    index.remove(&consumer(&[])).unwrap();
    assert_eq!(drain(&mut told), [TargetChange::Closed(secret("prod", "own"))]);
}

#[test]
fn r115_reading_follows_from_references_alone() {
    let mut index = index();
    let contour = Identity::service_account("contour-system", "contour");
    let other = Identity::service_account("default", "contour");
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own")]));
    let own = secret("prod", "own");
    assert!(index.may_read(&contour, &own.as_obj()));
    assert!(!index.may_read(&other, &own.as_obj()));
    assert!(!index.may_read(&contour, &secret("prod", "other").as_obj()));
}

#[test]
fn r116_the_condition_speaks_gateway_api_and_leaks_nothing() {
    let mut index = index();
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own"), far("acme")]));
    let condition = |index: &RefIndex, namespace, name| {
        let query = query("web", namespace, name);
        Condition::of(&query, &index.check(&query))
    };
    let denied = condition(&index, "prod-tls", "acme");
    assert_eq!((denied.status, denied.reason), ("False", "RefNotPermitted"));
    // A grant that nearly fits is the business of its namespace.
    index.put(&grant("near", &["other"])).unwrap();
    assert_eq!(condition(&index, "prod-tls", "acme"), denied);
    let allowed = condition(&index, "prod", "own");
    assert_eq!((allowed.status, allowed.reason), ("True", "ResolvedRefs"));
    let written = denied.to_json(3, "2026-01-01T00:00:00Z");
    assert_eq!(written["type"], "ResolvedRefs");
    assert_eq!(written["observedGeneration"], 3);
}

#[test]
fn r83_what_cannot_be_understood_grants_nothing_and_harms_nobody() {
    let mut index = index();
    index.put_origin(&gateways(), &gateway("web", "contour", &[near("own"), far("acme")]));
    index.put(&grant("one", &["acme"])).unwrap();
    let mut broken = grant("one", &["acme"]);
    broken.as_object_mut().unwrap().remove("purpose");
    assert!(matches!(index.put(&broken), Err(NotUnderstood::Unusable(_))));
    assert!(!index.check(&query("web", "prod-tls", "acme")).is_allowed());
    assert!(index.check(&query("web", "prod", "own")).is_allowed());
    let pod = json!({ "kind": "Pod", "metadata": { "name": "a" } });
    assert_eq!(index.put(&pod), Err(NotUnderstood::Kind("Pod".into())));
}
