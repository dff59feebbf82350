//! Rules of spec/referential-authorization.md, section 9: reasons and nearest misses.

use serde_json::json;
use tenure_reference::*;

use crate::house::*;

#[test]
fn r130_the_reason_names_every_part_and_is_reproducible() {
    let mut house = House::story();
    let asked = get(CONTOUR, "secrets", "prod-tls", "acme-tls");
    let reason = "reference: gateways.gateway.networking.k8s.io prod/web -> secrets prod-tls/acme-tls for \
                  tls-serving, strategy gateways@v1, grant prod-tls/prod-gateways, consumer contour-gateway";
    assert_eq!(house.index.reason(&asked).as_deref(), Some(reason));
    house.gateway("prod", "zzz", "contour", &[("acme-tls", "prod-tls")]);
    house.grant("prod-tls", "zzz", "prod", &["acme-tls"]);
    house.consumer("zzz", CONTOUR, &["*"], "gateways");
    assert_eq!(house.index.reason(&asked).as_deref(), Some(reason));
    house.gateway("prod", "aaa", "contour", &[("acme-tls", "prod-tls")]);
    assert!(house.index.reason(&asked).unwrap().contains(" prod/aaa -> "));
    house.gateway("prod", "aaa", "contour", &[("own", "")]);
    let local = house.index.reason(&get(CONTOUR, "secrets", "prod", "own")).unwrap();
    assert!(local.ends_with("for tls-serving, strategy gateways@v1, consumer contour-gateway"));
}

#[test]
fn r131_an_answer_does_not_depend_on_who_else_points_there() {
    let mut house = House::story();
    let before = house.index.decide(&get("stranger", "secrets", "prod-tls", "acme-tls"));
    let told = house.index.explain(&get("stranger", "secrets", "prod-tls", "acme-tls"));
    let other = house.index.explain(&get("stranger", "secrets", "prod-tls", "nothing"));
    assert_eq!((before, told), (ReferenceDecision::NoOpinion, other));
    house.gateway("prod", "envoy", "envoy", &[("hidden", "")]);
    assert_eq!(
        house.index.decide(&get(CONTOUR, "secrets", "prod", "hidden")),
        ReferenceDecision::NoOpinion
    );
}

#[test]
fn r132_the_first_condition_not_met_is_told() {
    let mut house = House::story();
    let explain = |house: &House, change: fn(&mut Attributes<'static>)| {
        let mut asked = get(CONTOUR, "secrets", "prod-tls", "acme-tls");
        change(&mut asked);
        house.index.explain(&asked)
    };
    let allowed = explain(&house, |_| {});
    assert!(allowed.allowed && allowed.code.is_none() && allowed.witnesses.len() == 1);
    assert_eq!(allowed.witnesses[0].class.as_deref(), Some("contour"));
    let verb = explain(&house, |asked| (asked.verb, asked.name) = ("list", ""));
    assert_eq!(verb.code.map(UnmetCondition::as_str), Some("VERB"));
    assert_eq!(
        verb.message,
        "list of a whole namespace is never granted; use a metadata.name field selector"
    );
    let subject = explain(&house, |asked| asked.user = "stranger");
    assert_eq!(subject.message, "no ClusterReferenceConsumer names this subject");
    let target = explain(&house, |asked| asked.resource = "configmaps");
    assert_eq!(target.code, Some(UnmetCondition::Target));
    assert_eq!(target.message, "the subject serves no references to configmaps, only to secrets");
    let reference = explain(&house, |asked| asked.name = "acne-tls");
    assert_eq!(reference.code, Some(UnmetCondition::Reference));
    assert!(reference.message.ends_with("close names that are pointed at: acme-tls"));
    house.gateway("prod", "web", "envoy", &[("acme-tls", "prod-tls")]);
    let class = explain(&house, |_| {});
    assert_eq!(class.code, Some(UnmetCondition::Class));
    assert_eq!(
        class.message,
        "gateways.gateway.networking.k8s.io prod/web has class `envoy`; consumer `contour-gateway` \
         allows `contour`"
    );
    // The same service account elsewhere is a hint.
    house.put_consumer(json!({
        "metadata": { "name": "there" },
        "subject": { "kind": "ServiceAccount", "namespace": "there", "name": "me" }, "references": [],
    }));
    let hint = explain(&house, |asked| asked.user = "system:serviceaccount:here:me");
    assert!(
        hint.message.ends_with("elsewhere: there (service account there/me)"),
        "{}",
        hint.message
    );
}

#[test]
fn r132_a_missing_grant_comes_ready_to_apply() {
    let mut house = House::story();
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    let explained = house.explain("prod-tls", "acme-tls");
    assert_eq!((explained.code, explained.nearest), (Some(UnmetCondition::Grant), None));
    let fix = "apiVersion: reference.authorization.k8s.io/v1alpha1\nkind: ReferenceGrant\nmetadata:\n  \
               name: \"prod-gateways-secrets\"\n  namespace: \"prod-tls\"\norigin:\n  \
               group: \"gateway.networking.k8s.io\"\n  resource: \"gateways\"\n  namespace: \"prod\"\n\
               target:\n  group: \"\"\n  resource: \"secrets\"\n  names: [\"acme-tls\"]\n\
               purpose: \"tls-serving\"\n";
    assert_eq!(explained.fix.as_deref(), Some(fix));
}

#[test]
fn r132_the_candidate_that_comes_furthest_is_told() {
    let mut house = House::story();
    house.tell(IndexEvent::DropGrant("prod-tls", "prod-gateways"));
    house.consumer("a-first-by-name", CONTOUR, &["contour"], "httproutes");
    assert_eq!(house.explain("prod-tls", "acme-tls").code, Some(UnmetCondition::Grant));
}

#[test]
fn r133_who_can_and_unused_grants_are_listed() {
    let mut house = House::story();
    house.consumer("other", "alice", &["*"], "gateways");
    let target = Obj { group: "", resource: "secrets", namespace: "prod-tls", name: "acme-tls" };
    let readers = house.index.who_can(&target);
    let names: Vec<String> = readers.iter().map(|reader| reader.subject.request_name()).collect();
    assert_eq!(names, ["alice", CONTOUR]);
    assert_eq!(readers[0].witnesses[0].consumer, "other");
    assert_eq!(house.index.unused_grants().count(), 0);
    house.grant("prod-tls", "idle", "test", &["acme-tls"]);
    assert_eq!(house.index.unused_grants().next().unwrap().name, "idle");
}

#[test]
fn r136_edges_are_counted_by_state() {
    let mut house = House::story();
    house.gateway("prod", "more", "envoy", &[("closed", ""), ("waits", "elsewhere")]);
    let states = house.index.edge_states();
    let gateways = &states[&Resource::new(GATEWAYS, "gateways")];
    assert_eq!(*gateways, EdgeStates { live: 1, waiting_grant: 1, class_closed: 1 });
    let stats = house.index.stats();
    assert_eq!((stats.consumers, stats.strategies, stats.grants), (1, 1, 1));
    assert_eq!((stats.origins, stats.edges, stats.targets), (2, 3, 3));
}
