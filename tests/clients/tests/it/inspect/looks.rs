//! Rules of spec/ownership.md: how trees look: colors by how objects fare, equal siblings counted, several objects, what is inside a namespace.

use serde_json::{Value, json};

use super::House;

/// Says that the pods of a Deployment crash.
fn crash(house: &House, namespace: &str) {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let list = super::typed::send(&house.server, "GET", &pods, None);
    for pod in list["items"].as_array().unwrap() {
        let mut pod = pod.clone();
        pod["status"] = json!({ "phase": "Running", "containerStatuses": [{
            "name": "c", "image": "example.com/web", "imageID": "", "ready": false,
            "restartCount": 5, "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        }]});
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        house.send("PUT", &format!("{pods}/{name}/status"), &pod);
    }
}

#[test]
fn r171c_what_fails_is_not_green() {
    let house = House::new();
    house.namespace("shop");
    house.deployment("shop", "web", 1);
    let waits = house.ok("tree deploy/web -n shop --color always");
    assert!(waits.contains("\x1b[33m0/1 ready\x1b[0m"), "{waits}");
    assert!(waits.contains("\x1b[33mPending 0/1\x1b[0m"), "{waits}");
    crash(&house, "shop");
    let fails = house.ok("tree deploy/web -n shop --color always");
    assert!(fails.contains("\x1b[31mCrashLoopBackOff 0/1\x1b[0m"), "{fails}");
    assert!(fails.contains("\x1b[31m0/1 ready\x1b[0m"), "{fails}");
    assert!(!fails.contains("\x1b[32m"), "{fails}");

    let svg = house.ok("tree deploy/web -n shop -o svg");
    assert!(svg.contains("class=\"box failing\"") && !svg.contains("class=\"box good\""), "{svg}");
    // A heading, a legend and arrows.
    assert!(svg.contains(">what is owned by Deployment shop/web</text>"), "{svg}");
    assert!(svg.contains(">fails</text>") && svg.contains("marker-end="), "{svg}");
    let json: Value = serde_json::from_str(&house.ok("tree deploy/web -n shop -o json")).unwrap();
    assert_eq!(json["objects"][2]["health"], "failing");
    assert!(house.ok("tree deploy/web -n shop -o dot").contains("#cf222e"));
}

#[test]
fn r171d_equal_siblings_are_counted() {
    let house = House::new();
    house.namespace("shop");
    house.deployment("shop", "many", 300);
    let tree = house.ok("tree deploy/many -n shop");
    assert_eq!(tree.lines().count(), 6, "{tree}");
    let last = tree.lines().last().unwrap();
    assert!(last.contains("└─298 more") && last.contains("Pending 0/1"), "{tree}");
    assert_eq!(house.ok("tree deploy/many -n shop --all").lines().count(), 303);
    let json: Value = serde_json::from_str(&house.ok("tree deploy/many -n shop -o json")).unwrap();
    assert_eq!(json["objects"].as_array().unwrap().len(), 302);
    assert!(house.ok("tree deploy/many -n shop -o svg").contains(">298 more</text>"));
}

#[test]
fn r171d_several_objects_and_whole_namespaces_are_shown() {
    let house = House::new();
    house.namespace("shop");
    house.namespace("farm");
    house.deployment("shop", "web", 1);
    house.deployment("shop", "api", 1);
    house.deployment("farm", "web", 1);
    let tops = |words: &str| -> Vec<String> {
        let tree = house.ok(words);
        let cells = |line: &str| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let tops = tree.lines().filter(|line| line.contains(" Deployment/"));
        tops.map(cells).collect()
    };
    let both = ["shop Deployment/web", "shop Deployment/api"];
    assert_eq!(tops("tree deploy/web deploy/api -n shop"), both);
    assert_eq!(tops("tree deploy web api -n shop"), both);
    assert_eq!(tops("tree deployments -n shop"), ["shop Deployment/api", "shop Deployment/web"]);
    assert_eq!(
        tops("tree deployments -A"),
        ["farm Deployment/web", "shop Deployment/api", "shop Deployment/web"]
    );
    assert_eq!(tops("tree deploy/web -A"), ["farm Deployment/web", "shop Deployment/web"]);
    // What hangs on another one is shown there only.
    let tree = house.ok("tree pods,deployments -n farm");
    assert_eq!(tree.matches("Pod/web-").count(), 1, "{tree}");

    let inside = house.ok("tree namespace/shop");
    let rows: Vec<&str> = inside.lines().collect();
    assert!(rows[1].contains("Namespace/shop"), "{inside}");
    assert!(
        inside.contains("├─Deployment/api") && inside.contains("│ └─ReplicaSet/api-"),
        "{inside}"
    );
    assert!(inside.contains("├─ConfigMap/kube-root-ca.crt"), "{inside}");
    assert!(!inside.contains("farm"), "{inside}");
}

#[test]
fn rules_have_words() {
    let house = House::new();
    house.map("default", "plain", &[], &[]);
    let why = house.ok("why cm/plain");
    assert!(
        why.contains("rule: R93: what has no owner is never collected (spec/ownership.md)"),
        "{why}"
    );
    house.deployment("default", "web", 1);
    let plan = house.ok("plan delete deploy/web");
    assert!(plan.contains("no owner of it stays (R92)"), "{plan}");
    assert!(plan.ends_with("numbers are rules of spec/ownership.md\n"), "{plan}");
}
