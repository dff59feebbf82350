//! May it, why, who may, the map of it all, and what is worth knowing.
//! Rules of spec/referential-authorization.md.

use serde_json::{Value, json};
use tenure_inspect::access::{ConditionState, MapScope, Review, identity};
use tenure_inspect::render::{self, Paint, access};

use super::*;
use crate::same;

fn review(allowed: bool, reason: &str) -> Review {
    Review { allowed, reason: reason.to_owned() }
}

#[test]
fn r96_r130_an_answer_says_which_of_both_gives_it() {
    let rights = Town::story().rights();
    let question = asks(EDGE, "get", "shop", "web-tls");
    let reason = rights.explain(&question).message;
    let answer = rights.answer(&question, review(true, &reason));
    assert_eq!(answer.by, Some("reference"));
    let text = access::can(&answer, Paint::Plain);
    let chain = "ingresses.networking.k8s.io shop/web -> secrets shop/web-tls for tls-serving, strategy \
                 ingresses.networking.k8s.io@v1, consumer edge";
    assert_eq!(text, format!("yes\n  roles: no\n  reference: yes, {chain}\n"));

    let by_role =
        "RBAC: allowed by ClusterRoleBinding \"all\" grants ClusterRole \"all\" to the user";
    let answer = rights.answer(&question, review(true, by_role));
    assert_eq!(answer.by, Some("roles"));
    let json: Value = serde_json::from_str(&render::json(&answer)).unwrap();
    assert_eq!((&json["allowed"], &json["by"]), (&json!(true), &json!("roles")));
    assert_eq!(json["reference"]["witnesses"][0]["origin"]["name"], "web");
    let text = access::can(&answer, Paint::Plain);
    assert!(text.starts_with("yes\n  roles: yes, allowed by ClusterRoleBinding \"all\""), "{text}");
    assert!(text.contains(&format!("  reference: yes, {chain}\n")), "{text}");

    let question = asks("alice", "get", "shop", "web-tls");
    let answer = rights.answer(&question, review(false, ""));
    assert_eq!(answer.by, None);
    let text = access::can(&answer, Paint::Plain);
    let why = "no ClusterReferenceConsumer names this subject";
    assert_eq!(text, format!("no\n  roles: no\n  reference: no, {why}\n"));
}

#[test]
fn r81_a_service_account_is_in_its_groups_as_when_it_is_impersonated() {
    let edge = identity(EDGE, &[]);
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:edge-system", "system:authenticated"];
    assert_eq!(edge.groups, groups);
    assert_eq!(identity(EDGE, &["dev".to_owned()]).groups, ["dev", "system:authenticated"]);
    assert_eq!(identity("system:anonymous", &[]).groups, ["system:unauthenticated"]);
}

#[test]
fn r132_the_eight_conditions_are_told_and_the_first_that_is_missing() {
    let codes = ["VERB", "SUBJECT", "TARGET", "TRIPLE", "VERSION", "REFERENCE", "CLASS", "GRANT"];
    let mut town = Town::story();
    let services = |rights: &ClusterAccess| {
        let mut question = asks(EDGE, "get", "shop", "web");
        question.object = ObjectName::new(&Resource::new("", "services"), "shop", "web");
        rights.explain(&question)
    };
    let rights = town.rights();
    let explain = |rights: &ClusterAccess, verb: &str, user: &str, namespace: &str, name: &str| {
        rights.explain(&asks(user, verb, namespace, name))
    };
    let mut told = vec![
        explain(&rights, "delete", EDGE, "shop", "web-tls"),
        explain(&rights, "get", "alice", "shop", "web-tls"),
        services(&rights),
    ];
    // A strategy for another purpose, then one for a version that is not served.
    town.snapshot.objects[0]["versions"][0]["references"][0]["purpose"] = json!("backend");
    town.snapshot.objects[2]["references"] =
        json!([town.snapshot.objects[2]["references"][0].clone()]);
    told.push(explain(&town.rights(), "get", EDGE, "shop", "web-tls"));
    town.snapshot.objects[0]["versions"][0]["references"][0]["purpose"] = json!("tls-serving");
    town.snapshot.objects[0]["versions"][0]["version"] = json!("v2");
    told.push(explain(&town.rights(), "get", EDGE, "shop", "web-tls"));
    told.push(explain(&rights, "get", EDGE, "shop", "web-tlss"));
    told.push(explain(&rights, "get", EDGE, "shop", "old-tls"));
    told.push(explain(&rights, "get", EDGE, "prod-tls", "api-tls"));
    for (at, (explained, code)) in told.iter().zip(codes).enumerate() {
        assert_eq!(
            (explained.allowed, explained.code),
            (false, Some(code)),
            "{}",
            explained.message
        );
        for (number, condition) in explained.conditions.iter().enumerate() {
            let state = match number.cmp(&at) {
                std::cmp::Ordering::Less => ConditionState::Met,
                std::cmp::Ordering::Equal => ConditionState::Missing,
                std::cmp::Ordering::Greater => ConditionState::Unknown,
            };
            assert_eq!((condition.code, condition.state), (codes[number], state), "{code}");
        }
    }
    assert!(told[5].message.contains("web-tls"), "{}", told[5].message);
    assert!(told[6].message.contains("class `haproxy`"), "{}", told[6].message);
}

#[test]
fn r132_an_explanation_reads_like_this() {
    let rights = Town::story().rights();
    let refused = rights.answer(&asks(EDGE, "get", "prod-tls", "api-tls"), review(false, ""));
    same("access-explain-refused.txt", &access::explain(&refused, Paint::Plain));
    let json: Value = serde_json::from_str(&render::json(&refused.report())).unwrap();
    assert_eq!((&json["allowed"], &json["code"]), (&json!(false), &json!("GRANT")));
    assert_eq!(json["witnesses"], json!([]));
    assert_eq!(json["nearest"]["kind"], "ReferenceGrant");
    assert_eq!(json["nearest"]["field"], "target.names");
    assert!(json["fix"].as_str().unwrap().contains("kind: ReferenceGrant\n"));
    let question = asks(EDGE, "get", "prod-tls", "acme-tls");
    let reason = rights.explain(&question).message;
    let allowed = rights.answer(&question, review(true, &reason));
    same("access-explain-allowed.txt", &access::explain(&allowed, Paint::Plain));
    let json: Value = serde_json::from_str(&render::json(&allowed.report())).unwrap();
    assert_eq!(
        (&json["allowed"], &json["code"], &json["fix"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    assert_eq!(json["witnesses"][0]["grants"][0]["name"], "prod-gateways");
}

#[test]
fn r133_who_can_names_subjects_with_witnesses_and_those_by_roles() {
    let mut town = Town::story();
    town.bind("", "all", json!([{ "kind": "Group", "name": "ops" }]), reads("", "secrets"));
    town.bind("prod-tls", "one", edge_account(), json!({
        "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["acme-tls"], "verbs": ["get"],
    }));
    town.bind(
        "shop",
        "elsewhere",
        json!([{ "kind": "User", "name": "bob" }]),
        reads("", "secrets"),
    );
    let rights = town.rights();
    let readers = rights.who_can(&asks("", "get", "prod-tls", "acme-tls"));
    same("access-who-can.txt", &access::who_can(&readers, Paint::Plain));
    let json: Value = serde_json::from_str(&render::json(&readers)).unwrap();
    assert_eq!(json["byReference"][0]["subject"]["name"], "edge");
    assert_eq!(json["byReference"][0]["witnesses"][0]["origin"]["name"], "web");
    assert_eq!(json["byRoles"].as_array().unwrap().len(), 2);
    // Nobody is given a whole namespace by references, nor anything but reading.
    for question in [asks("", "list", "shop", ""), asks("", "delete", "shop", "web-tls")] {
        assert!(rights.who_can(&question).by_reference.is_empty());
    }
    assert_eq!(rights.who_can(&asks("", "list", "shop", "")).by_roles.len(), 2);
}

#[test]
fn r133_the_map_shows_every_target_of_a_subject_and_what_waits() {
    let mut town = Town::story();
    town.snapshot.objects.push(consumer("idle", "alice", &["none"], &[(NETWORKING, "ingresses")]));
    let rights = town.rights();
    let map = rights.map(&MapScope::default());
    same("access-map.txt", &access::map(&map, Paint::Plain));
    same("access-map.dot", &access::map_dot(&map));
    same("access-map.svg", &access::map_svg(&map));
    let json: Value = serde_json::from_str(&render::json(&map)).unwrap();
    let states: Vec<&str> =
        json["chains"].as_array().unwrap().iter().map(|it| it["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["waiting", "live", "live"]);
    let scope = |namespace: Option<&str>, user: Option<&str>| MapScope {
        namespace: namespace.map(str::to_owned),
        who: user.map(|user| identity(user, &[])),
    };
    assert_eq!(rights.map(&scope(Some("shop"), None)).chains.len(), 1);
    assert_eq!(rights.map(&scope(Some("prod-tls"), None)).chains.len(), 2);
    assert_eq!(rights.map(&scope(None, Some(EDGE))).chains.len(), 3);
    let alice = rights.map(&scope(None, Some("alice")));
    assert!(alice.chains.is_empty() && alice.idle.len() == 1);
    let nobody = rights.map(&scope(None, Some("bob")));
    assert_eq!(access::map(&nobody, Paint::Plain), "nobody reaches anything by reference\n");
}

#[test]
fn r133_names_of_strangers_do_not_leave_their_quotes_on_a_map() {
    let mut town = Town::story();
    let strange = "a\"<b>&";
    town.snapshot.objects.push(consumer(strange, strange, &["*"], &[(NETWORKING, "ingresses")]));
    let map = town.rights().map(&MapScope::default());
    let svg = access::map_svg(&map);
    assert!(svg.contains("user a&quot;&lt;b&gt;&amp;") && !svg.contains(strange), "{svg}");
    assert!(access::map_dot(&map).contains("a\\\"<b>&"));
}

#[test]
fn r133_grants_that_cover_nothing_are_unused() {
    let mut town = Town::story();
    let every = town.rights().unused_grants(None);
    assert_eq!(access::unused_grants(&every, Paint::Plain), "every grant covers a reference\n");
    town.snapshot.objects.push(grant("prod-tls", "old", "prod", &["gone-tls"]));
    let unused = town.rights().unused_grants(None);
    assert_eq!(
        access::unused_grants(&unused, Paint::Plain),
        "prod-tls/old\n1 grant covers no reference\n"
    );
    let none = town.rights().unused_grants(Some("shop"));
    assert_eq!(access::unused_grants(&none, Paint::Plain), "there are no grants\n");
    // Many are told together.
    let told = |town: &Town| {
        let advice = town.rights().doctor().advice;
        let unused = advice.into_iter().filter(|it| it.code == "unused-grant");
        unused.map(|it| it.what).collect::<Vec<_>>()
    };
    assert_eq!(told(&town), ["ReferenceGrant `prod-tls/old` covers no reference"]);
    for number in 1..=10 {
        town.snapshot.objects.push(grant("prod-tls", &format!("old-{number}"), "prod", &["gone"]));
    }
    assert_eq!(told(&town), ["11 ReferenceGrants cover no reference"]);
}

#[test]
fn r64_the_doctor_says_what_each_strategy_leaves_to_the_writers_of_origins() {
    let doctor = Town::story().rights().doctor();
    let notes: Vec<&str> = doctor
        .advice
        .iter()
        .filter(|it| it.code == "authors-choose" && it.rule == "R64")
        .map(|it| it.what.as_str())
        .collect();
    assert_eq!(notes.len(), 2, "{:?}", doctor.advice);
    assert!(
        notes[0]
            .contains("whoever writes gateways.gateway.networking.k8s.io in a namespace chooses")
    );
    assert!(!doctor.warns());
}

#[test]
fn r65_the_doctor_warns_of_a_consumer_that_can_give_itself_access() {
    let mut town = Town::story();
    let rule = |resource: &str, verbs: Value| json!({ "apiGroups": [GATEWAY], "resources": [resource], "verbs": verbs });
    town.bind("", "status", edge_account(), rule("gateways/status", json!(["update", "patch"])));
    town.bind("", "reads", edge_account(), reads(GATEWAY, "gateways"));
    assert!(!town.rights().doctor().warns());
    town.bind("prod", "writes", edge_account(), rule("gateways", json!(["patch"])));
    let doctor = town.rights().doctor();
    let found = &doctor.advice[0];
    assert_eq!((found.code, found.rule), ("self-referencing-consumer", "R65"));
    assert!(found.what.starts_with("service account edge-system/edge can give itself access"));
    same("access-doctor.txt", &access::doctor(&doctor, "tenure", Paint::Plain));
}

#[test]
fn r42_r83_the_doctor_warns_of_broad_access_and_of_objects_without_use() {
    let mut town = Town::story();
    town.bind("", "all", edge_account(), reads("", "secrets"));
    town.snapshot.objects.push(json!({
        "kind": "ClusterReferenceConsumer", "metadata": { "name": "odd" },
        "subject": { "kind": "Robot", "name": "r" }, "references": [],
    }));
    let doctor = town.rights().doctor();
    let codes: Vec<&str> = doctor.advice.iter().map(|it| it.code).collect();
    assert_eq!(codes[..2], ["unusable", "broad-access"]);
    let hint = doctor.advice[1].clone().called_by("kubectl tenure").hint.unwrap();
    assert!(hint.contains(
        "`kubectl tenure access narrow --subject system:serviceaccount:edge-system:edge"
    ));
}
