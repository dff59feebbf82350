//! Rules of spec/referential-authorization.md: strategies that come, change and go over thousands of origins, beside
//! other writes (R122, R155, R174, R175).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tenure_reference::{
    Consumer, Index, IndexEvent, Need, Origin, OriginName, Outputs, ReferenceApiKind, Resource,
    ServedType, Strategy, Synced,
};
use tenure_server::Peer;
use tenure_server::reference::ReferenceOptions;
use tenure_world::{Draft, Proposal, WriteOperation};

use super::access::{LOCAL, watched};
use super::*;

const ORIGINS: &str = "/api/v1/namespaces/prod/configmaps";
/// The issue of many origins begins here; what is told within a commit ends far below.
const MANY: usize = 5_000;

fn origin(number: usize, secret: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("o{number}"), "namespace": "prod",
            "uid": format!("00000000-0000-4000-8000-{number:012}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "data": {
            // One of ten is somebody else's.
            "class": if number % 10 == 9 { "envoy" } else { "contour" },
            "secret": secret, "other": format!("e{number}"), "half": format!("s{}", number / 2 * 2),
        },
    })
}

fn over_maps(path: &str) -> Value {
    let origin = json!({ "group": "", "resource": "configmaps" });
    let strategy = with(strategy("maps"), "/origin", origin);
    let strategy = with(strategy, "/versions/0/classPath", json!(".data.class"));
    with(strategy, "/versions/0/references/0/path", json!(path))
}

/// A server with many origins, and their consumer; the origins are written as from a backup.
async fn crowd(house: House, many: usize) -> (House, Peer) {
    let house = furnished(house).await;
    let origin_type = json!({ "group": "", "resource": "configmaps" });
    let consumer = with(consumer("contour-maps"), "/references/0/origin", origin_type);
    let user = json!({ "kind": "User", "name": "contour" });
    house.made(CONSUMERS, with(consumer, "/subject", user)).await;
    let writes = (0..many).map(|number| {
        let object = origin(number, &format!("s{number}"));
        let key: Arc<str> = format!("/registry/configmaps/prod/o{number}").into();
        WriteOperation::Put {
            key,
            draft: Draft::encode("ConfigMap", "v1", object.as_object().unwrap()),
        }
    });
    for some in writes.collect::<Vec<WriteOperation>>().chunks(1_000) {
        let proposal = Proposal { guards: Vec::new(), writes: some.to_vec() };
        house.world.propose(proposal).await.unwrap();
    }
    (house, peer("contour", &[]))
}

async fn allowed(house: &House, who: &Peer, name: &str) -> bool {
    match house.ask_as(who, "GET", &format!("{LOCAL}/{name}"), &[], "").await.code {
        200 | 404 => true,
        403 => false,
        other => panic!("{other}"),
    }
}

/// Every Secret that the server lets somebody read in the namespace.
async fn readable(house: &House, who: &Peer) -> BTreeSet<String> {
    let body = json!({ "spec": { "namespace": "prod" } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let status = house.post_as(who, path, &body).await.with(201)["status"].clone();
    let rules = status["resourceRules"].as_array().unwrap().clone();
    let of_secrets = rules.iter().filter(|rule| rule["resources"] == json!(["secrets"]));
    let names = of_secrets.flat_map(|rule| rule["resourceNames"].as_array().unwrap().clone());
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The same by an index that is made from what is stored.
async fn rebuilt(house: &House) -> BTreeSet<String> {
    let listed = |path: &'static str| async {
        let list = house.get(path).await.with(200);
        list["items"].as_array().unwrap().clone()
    };
    let mut index = Index::new(7);
    let mut out = Outputs::default();
    let served = |resource: &str, kind: &str| ServedType {
        resource: Resource::new("", resource),
        kind: kind.into(),
        namespaced: true,
        versions: vec!["v1".into()],
    };
    let types = vec![served("configmaps", "ConfigMap"), served("secrets", "Secret")];
    index.apply(IndexEvent::Served(types), &mut out);
    for item in listed(STRATEGIES).await {
        let strategy = Strategy::from_object(item.as_object().unwrap()).unwrap();
        index.apply(IndexEvent::PutStrategy(strategy), &mut out);
    }
    for item in listed(CONSUMERS).await {
        let consumer = Consumer::from_object(item.as_object().unwrap()).unwrap();
        index.apply(IndexEvent::PutConsumer(consumer), &mut out);
    }
    for object in &listed("/api/v1/configmaps").await {
        let (namespace, name) = (object["metadata"]["namespace"].as_str().unwrap(), name(object));
        let name = OriginName { group: "", resource: "configmaps", namespace, name };
        index.apply(IndexEvent::PutOrigin(Origin { name, version: "v1", object }), &mut out);
    }
    for kind in [ReferenceApiKind::Strategy, ReferenceApiKind::Consumer, ReferenceApiKind::Grant] {
        index.apply(IndexEvent::Synced(Synced::Kind(kind)), &mut out);
    }
    let synced = Synced::Origins { group: "", resource: "configmaps", version: "v1" };
    index.apply(IndexEvent::Synced(synced), &mut out);
    assert!(out.needs.iter().all(|need| matches!(need, Need::Feed(..))));
    let view = index.publish();
    view.live_targets("contour", &[]).map(|target| target.name.to_owned()).collect()
}

/// Waits until nothing is left in the index of strategies that are gone.
pub async fn cleared(house: &House, origins: usize) {
    let wanted = format!(r#"tenure_ref_objects{{kind="origin"}} {origins}"#);
    for _ in 0..1_000 {
        let text = house.get("/metrics").await;
        if text.text().lines().any(|line| line == wanted) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("something is left: {}", house.get("/metrics").await.text());
}

#[tokio::test]
async fn r174_r122_an_edit_over_thousands_takes_away_with_its_answer_and_interrupts_nothing() {
    let (house, contour) = crowd(House::new().await, MANY).await;
    house.made(STRATEGIES, over_maps(".data.secret")).await;
    for number in [0, 1, MANY / 2, MANY - 2] {
        assert!(allowed(&house, &contour, &format!("s{number}")).await, "{number}");
    }
    let (done, path) = (AtomicBool::new(false), format!("{STRATEGIES}/maps"));
    let edit = async {
        let versions = over_maps(".data.half")["versions"].clone();
        house.merge(&path, json!({ "versions": versions })).await.with(200);
        done.store(true, Ordering::Relaxed);
        // Every second one is not found any more.
        for number in (1..MANY).step_by(501) {
            assert!(!allowed(&house, &contour, &format!("s{}", number / 2 * 2 + 1)).await);
        }
    };
    let reads = async {
        let mut rounds = 0;
        while !done.load(Ordering::Relaxed) {
            let name = format!("s{}", rounds * 2 % (MANY / 10));
            assert!(allowed(&house, &contour, &name).await, "{name} is lost meanwhile");
            rounds += 1;
            tokio::task::yield_now().await;
        }
        assert!(rounds > 10, "{rounds}");
    };
    tokio::join!(edit, reads);
    assert_eq!(readable(&house, &contour).await, rebuilt(&house).await);
    house.delete(&path).await.with(200);
    assert!(readable(&house, &contour).await.is_empty() && !allowed(&house, &contour, "s0").await);
    cleared(&house, 0).await;
}

#[tokio::test]
async fn r174_r175_writers_that_overlap_a_strategy_leave_the_index_as_if_built_anew() {
    let (house, contour) = crowd(House::new().await, MANY).await;
    let (house, contour) = (&house, &contour);
    let (stranger, done) = (peer("stranger", &[]), AtomicBool::new(false));
    let path = format!("{STRATEGIES}/maps");
    let strategy = async {
        house.made(STRATEGIES, over_maps(".data.secret")).await;
        for paths in [".data.other", ".data.secret", ".data['secret','other']"] {
            let versions = over_maps(paths)["versions"].clone();
            house.merge(&path, json!({ "versions": versions })).await.with(200);
        }
        house.delete(&path).await.with(200);
        house.made(STRATEGIES, over_maps(".data['other','secret']")).await;
        done.store(true, Ordering::Relaxed);
    };
    // Each writer has origins of its own, and knows what they refer to.
    let writes = |writer: usize| {
        let done = &done;
        async move {
            let mut turn = 0;
            while !done.load(Ordering::Relaxed) || turn < 40 {
                let number = (turn * 37 + writer) * 3 % MANY / 10 * 10 + writer;
                let at = format!("{ORIGINS}/o{number}");
                match turn % 4 {
                    0 => drop(house.delete(&at).await),
                    1 => {
                        let made = origin(MANY + turn * 10 + writer, &format!("n{turn}-{writer}"));
                        house.post(ORIGINS, made).await;
                    }
                    2 => drop(house.merge(&at, json!({ "data": { "class": "envoy" } })).await),
                    _ => {
                        let secret = format!("t{turn}-{writer}");
                        house.merge(&at, json!({ "data": { "secret": secret } })).await;
                    }
                }
                // What an acknowledged write took away is gone, however far the strategy is.
                if turn % 4 != 1 {
                    assert!(!allowed(house, contour, &format!("s{number}")).await, "s{number}");
                }
                turn += 1;
            }
        }
    };
    let reads = async {
        let mut turn = 0;
        while !done.load(Ordering::Relaxed) {
            // Of another class, of nobody, and for a stranger.
            let number = turn * 10 % MANY;
            for name in [format!("s{}", number + 9), format!("e{}", number + 9), "none".to_owned()]
            {
                assert!(!allowed(house, contour, &name).await, "{name}");
            }
            assert!(!allowed(house, &stranger, &format!("s{number}")).await);
            turn += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(strategy, writes(1), writes(2), writes(3), reads);
    let is = readable(house, contour).await;
    assert_eq!(is, rebuilt(house).await);
    assert!(is.len() > MANY, "{}", is.len());
    house.delete(&path).await.with(200);
    cleared(house, 0).await;
}

#[tokio::test]
async fn r122_r174_nobody_hears_of_a_strategy_before_it_is_in_force() {
    let (house, contour) = crowd(House::new().await, MANY).await;
    let mut watch = house.watch(&format!("{STRATEGIES}?watch=1")).await;
    let (path, last) = (format!("{STRATEGIES}/maps"), format!("s{}", MANY - 2));
    let hears = async {
        watch.expect(&["ADDED maps"]).await;
        assert!(allowed(&house, &contour, "s0").await && allowed(&house, &contour, &last).await);
    };
    tokio::join!(hears, house.made(STRATEGIES, over_maps(".data.secret")));
    let hears = async {
        watch.expect(&["MODIFIED maps"]).await;
        assert!(!allowed(&house, &contour, "s0").await && !allowed(&house, &contour, &last).await);
        assert!(allowed(&house, &contour, "e0").await);
    };
    let versions = json!({ "versions": over_maps(".data.other")["versions"] });
    tokio::join!(hears, async { house.merge(&path, versions).await.with(200) });
    let hears = async {
        watch.expect(&["DELETED maps"]).await;
        assert!(!allowed(&house, &contour, "e0").await);
    };
    tokio::join!(hears, async { house.delete(&path).await.with(200) });
}

#[tokio::test]
async fn r174_what_is_refused_or_only_tried_is_given_up() {
    let (house, contour) = crowd(House::new().await, 500).await;
    let path = format!("{STRATEGIES}?dryRun=All");
    house.made(&path, over_maps(".data.secret")).await;
    assert!(!allowed(&house, &contour, "s0").await);
    // Two at once: one is stored, the other is not, and nothing of it remains.
    let made = |path: &'static str| house.post(STRATEGIES, over_maps(path));
    let (one, two) = tokio::join!(made(".data.secret"), made(".data.other"));
    let mut codes = [one.code, two.code];
    codes.sort_unstable();
    assert_eq!(codes, [201, 409]);
    assert_eq!(readable(&house, &contour).await, rebuilt(&house).await);
    // A writer that goes away while it waits leaves nothing either.
    let edit = json!({ "versions": over_maps(".data.half")["versions"] });
    let path = format!("{STRATEGIES}/maps");
    let late = std::time::Duration::from_millis(1);
    let _ = tokio::time::timeout(late, house.merge(&path, edit)).await;
    assert_eq!(readable(&house, &contour).await, rebuilt(&house).await);
    house.delete(&path).await.with(200);
    cleared(&house, 0).await;
    assert!(readable(&house, &contour).await.is_empty());
}

#[tokio::test]
async fn r155_r174_filtered_watches_see_what_a_strategy_over_thousands_brings_and_takes() {
    let settings = ReferenceOptions { filtered_lists: true, ..ReferenceOptions::default() };
    let (house, contour) = crowd(House::referring(settings).await, MANY).await;
    for name in ["s0", "s1", "s9", "e0", "x"] {
        house.made(LOCAL, named(name)).await;
    }
    let list = house.ask_as(&contour, "GET", LOCAL, &[], "").await.with(200);
    assert!(names(&list).is_empty());
    let mut watch = watched(&house, &contour, &format!("{LOCAL}?watch=1")).await;
    house.made(STRATEGIES, over_maps(".data.secret")).await;
    watch.expect(&["ADDED s0", "ADDED s1"]).await;
    let path = format!("{STRATEGIES}/maps");
    let versions = over_maps(".data['half','other']")["versions"].clone();
    house.merge(&path, json!({ "versions": versions })).await.with(200);
    let mut told = [brief(&watch.next().await.unwrap()), brief(&watch.next().await.unwrap())];
    told.sort();
    assert_eq!(told, ["ADDED e0", "DELETED s1"]);
    // Who goes on from before the change of its rights lists again.
    let from = format!("{LOCAL}?watch=1&resourceVersion={}", version(&list));
    let told = house.ask_as(&contour, "GET", &from, &[], "").await;
    assert!(told.code == 410 || told.text().contains("\"code\":410"), "{}", told.text());
    house.delete(&path).await.with(200);
    let mut told = [brief(&watch.next().await.unwrap()), brief(&watch.next().await.unwrap())];
    told.sort();
    assert_eq!(told, ["DELETED e0", "DELETED s0"]);
    assert!(watch.is_silent().await);
}

/// A Gateway whose versions find different Secrets, every second one the same.
fn both_ways(number: usize) -> Value {
    let new = if number.is_multiple_of(2) { format!("s{number}") } else { format!("t{number}") };
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "name": format!("g{number}") },
        "spec": { "old": format!("s{number}"), "new": new },
    })
}

#[tokio::test]
async fn r59_r155_r174_a_new_version_over_many_origins_interrupts_nothing_and_is_seen() {
    let settings = ReferenceOptions { filtered_lists: true, ..ReferenceOptions::default() };
    let house = furnished(House::referring(settings).await).await;
    serve_gateways(&house, &["v1"]).await;
    let user = json!({ "kind": "User", "name": "contour" });
    house.made(CONSUMERS, with(consumer("contour-gateway"), "/subject", user)).await;
    let (contour, many) = (peer("contour", &[]), 300);
    for number in 0..many {
        house.made(&super::access::gateways_path(), both_ways(number)).await;
    }
    for name in ["s0", "s1", "t1"] {
        house.made(LOCAL, named(name)).await;
    }
    let paths = |version: &str, path: &str| {
        let reference = json!({ "path": path, "target": secrets(), "purpose": "tls-serving" });
        json!({ "version": version, "references": [reference] })
    };
    let versions = json!([paths("v1", ".spec.old"), paths("v2", ".spec.new")]);
    house.made(STRATEGIES, with(strategy("gateways"), "/versions", versions)).await;
    let mut watch = watched(&house, &contour, &format!("{LOCAL}?watch=1")).await;
    watch.expect(&["ADDED s0", "ADDED s1"]).await;
    let done = AtomicBool::new(false);
    let switch = async {
        let spec = json!({ "spec": { "versions": definition(&["v2", "v1"])["spec"]["versions"] } });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let path = format!("{path}/gateways.gateway.networking.k8s.io");
        house.merge(&path, spec).await.with(200);
        done.store(true, Ordering::Relaxed);
    };
    let reads = async {
        let mut turn = 0;
        while !done.load(Ordering::Relaxed) {
            let name = format!("s{}", turn * 2 % many);
            assert!(allowed(&house, &contour, &name).await, "{name} is lost meanwhile");
            turn += 1;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(switch, reads);
    for number in (1..many).step_by(2) {
        assert!(!allowed(&house, &contour, &format!("s{number}")).await, "s{number}");
        assert!(allowed(&house, &contour, &format!("t{number}")).await, "t{number}");
    }
    let mut told = [brief(&watch.next().await.unwrap()), brief(&watch.next().await.unwrap())];
    told.sort();
    assert_eq!(told, ["ADDED t1", "DELETED s1"]);
    assert!(watch.is_silent().await);
    // What moved between two commits counts as of the next one: whoever goes on from the last one lists again.
    let list = house.ask_as(&contour, "GET", LOCAL, &[], "").await.with(200);
    assert_eq!(names(&list), ["s0", "t1"]);
    let from = format!("{LOCAL}?watch=1&resourceVersion={}", version(&list));
    let told = house.ask_as(&contour, "GET", &from, &[], "").await;
    assert!(told.text().contains("\"code\":410"), "{}", told.text());
    house.made(LOCAL, named("next")).await;
    let list = house.ask_as(&contour, "GET", LOCAL, &[], "").await.with(200);
    let from = format!("{LOCAL}?watch=1&resourceVersion={}", version(&list));
    let mut later = watched(&house, &contour, &from).await;
    house.merge(&format!("{LOCAL}/t1"), json!({ "metadata": { "labels": { "a": "b" } } })).await;
    watch.expect(&["MODIFIED t1"]).await;
    later.expect(&["MODIFIED t1"]).await;
}

#[tokio::test]
async fn r136_unused_grants_are_counted_however_many_there_are() {
    let house = house().await;
    let many = 10_500;
    let writes = (0..many).map(|number| {
        let name = format!("g{number}");
        let object = with(grant(&name, &["a"]), "/metadata/namespace", json!("prod-tls"));
        let kind = ("ReferenceGrant", "reference.authorization.k8s.io/v1alpha1");
        let key: Arc<str> = format!("/registry/referencegrants/prod-tls/{name}").into();
        WriteOperation::Put {
            key,
            draft: Draft::encode(kind.0, kind.1, object.as_object().unwrap()),
        }
    });
    for some in writes.collect::<Vec<WriteOperation>>().chunks(1_000) {
        let proposal = Proposal { guards: Vec::new(), writes: some.to_vec() };
        house.world.propose(proposal).await.unwrap();
    }
    let text = house.get("/metrics").await;
    let counted = format!(r#"tenure_ref_findings{{finding="unused-grant"}} {many}"#);
    assert!(text.text().lines().any(|line| line == counted), "{}", text.text());
}
