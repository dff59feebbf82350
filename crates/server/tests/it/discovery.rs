//! Rules of spec/api-server.md.
//!
//! What is served and how it fares: version, discovery, health, metrics and OpenAPI.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Subresources that discovery names for the sake of clients and that are not built yet.
const NOT_YET: [&str; 1] = ["token"];

/// The paths of all group versions, such as `/apis/apps/v1`.
async fn group_versions(house: &House) -> Vec<String> {
    let groups = house.get("/apis").await.with(200);
    let mut paths = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            paths.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    paths
}

fn entry<'a>(list: &'a Value, name: &str) -> &'a Value {
    let mut resources = list["resources"].as_array().unwrap().iter();
    resources.find(|resource| resource["name"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn r37_the_version_is_one_that_clients_can_compare() {
    let house = House::new().await;
    let answer = house.ask_as(&Peer::default(), "GET", "/version", &[], "").await.with(200);
    for member in ["gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        assert!(answer[member].is_string(), "{member}");
    }
    for member in [
        "major",
        "minor",
        "emulationMajor",
        "emulationMinor",
        "minCompatibilityMajor",
        "minCompatibilityMinor",
    ] {
        assert!(answer[member].as_str().unwrap().parse::<u32>().is_ok(), "{member}");
    }
    let (release, build) = answer["gitVersion"].as_str().unwrap().split_once('+').unwrap();
    let (major, minor) = (answer["major"].as_str().unwrap(), answer["minor"].as_str().unwrap());
    assert_eq!(release, format!("v{major}.{minor}.0"));
    assert!(build.starts_with("tenure"), "{build}");
}

#[tokio::test]
async fn r38_groups_and_versions_are_listed() {
    let house = House::new().await;
    let core = house.get("/api").await.with(200);
    assert_eq!((&core["kind"], &core["versions"]), (&json!("APIVersions"), &json!(["v1"])));
    assert!(core["serverAddressByClientCIDRs"][0]["serverAddress"].is_string());
    let groups = house.get("/apis").await.with(200);
    assert_eq!((&groups["kind"], &groups["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    let apps = json!({ "groupVersion": "apps/v1", "version": "v1" });
    let expected = json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": "apps",
        "versions": [apps], "preferredVersion": apps,
    });
    assert_eq!(house.get("/apis/apps").await.with(200), expected);
    for group in groups["groups"].as_array().unwrap() {
        let path = format!("/apis/{}", group["name"].as_str().unwrap());
        let alone = house.get(&path).await.with(200);
        assert_eq!(alone["versions"], group["versions"], "{path}");
        assert_eq!(alone["preferredVersion"], group["versions"][0], "{path}");
    }
}

#[tokio::test]
async fn r38_resources_are_listed_with_their_subresources() {
    let house = House::new().await;
    let core = house.get("/api/v1").await.with(200);
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let pods = entry(&core, "pods");
    assert_eq!(pods["kind"], "Pod");
    assert_eq!(pods["singularName"], "pod");
    assert_eq!(pods["namespaced"], true);
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(pods["categories"], json!(["all"]));
    let verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    assert_eq!(texts(&pods["verbs"]), verbs);
    assert_eq!((pods.get("group"), pods.get("version")), (None, None));
    let apps = house.get("/apis/apps/v1").await.with(200);
    for (list, name, group, version, kind) in [
        (&core, "pods/eviction", "policy", "v1", "Eviction"),
        (&core, "replicationcontrollers/scale", "autoscaling", "v1", "Scale"),
        (&apps, "deployments/scale", "autoscaling", "v1", "Scale"),
        (&apps, "statefulsets/scale", "autoscaling", "v1", "Scale"),
    ] {
        let found = entry(list, name);
        assert_eq!(
            (&found["group"], &found["version"]),
            (&json!(group), &json!(version)),
            "{name}"
        );
        assert_eq!(found["kind"], kind, "{name}");
    }
    for name in ["deployments/status", "daemonsets/status", "replicasets/status"] {
        let verbs = &entry(&apps, name)["verbs"];
        assert_eq!(verbs, &json!(["get", "patch", "update"]), "{name}");
    }
    let hooks = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    let definitions = ["customresourcedefinitions", "customresourcedefinitions/status"];
    for (group, plurals) in
        [("admissionregistration.k8s.io", hooks), ("apiextensions.k8s.io", definitions)]
    {
        let groups = house.get("/apis").await.with(200);
        let listed = groups["groups"].as_array().unwrap().iter().map(|group| &group["name"]);
        assert_eq!(listed.filter(|name| **name == group).count(), 1, "{group}");
        let list = house.get(&format!("/apis/{group}/v1")).await.with(200);
        for plural in plurals {
            assert_eq!(entry(&list, plural)["name"], plural, "{group}");
        }
    }
}

#[tokio::test]
async fn r39_aggregated_discovery_answers_those_who_ask() {
    let house = House::new().await;
    for (accept, aggregated) in [
        (AGGREGATED, true),
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", true),
        (
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
          application/json",
            true,
        ),
        ("application/json", false),
        ("", false),
    ] {
        for path in ["/api", "/apis"] {
            let answer = house.get_as(path, accept).await;
            let media = if aggregated { AGGREGATED } else { JSON };
            assert_eq!(answer.header("content-type"), media, "{path} {accept}");
            let found = answer.with(200);
            assert_eq!(found["kind"] == "APIGroupDiscoveryList", aggregated, "{path} {accept}");
        }
    }
    let core = house.get_as("/api", AGGREGATED).await.with(200);
    assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
    assert_eq!(core["items"][0]["metadata"].get("name"), None);
    let version = &core["items"][0]["versions"][0];
    assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
    let pods = version["resources"].as_array().unwrap().iter();
    let pods = pods.clone().find(|resource| resource["resource"] == "pods").unwrap();
    assert_eq!(pods["responseKind"]["kind"], "Pod");
    assert_eq!((&pods["scope"], &pods["singularResource"]), (&json!("Namespaced"), &json!("pod")));
    let mut parts = pods["subresources"].as_array().unwrap().iter();
    let eviction = parts.find(|part| part["subresource"] == "eviction").unwrap();
    let kind = json!({ "group": "policy", "version": "v1", "kind": "Eviction" });
    assert_eq!(eviction["responseKind"], kind);
}

#[tokio::test]
async fn r39_both_discoveries_tell_the_same() {
    let house = House::new().await;
    let mut legacy = BTreeSet::new();
    for path in group_versions(&house).await {
        let list = house.get(&path).await.with(200);
        for resource in list["resources"].as_array().unwrap() {
            let verbs = resource["verbs"].to_string();
            legacy.insert((path.clone(), resource["name"].as_str().unwrap().to_owned(), verbs));
        }
    }
    let mut aggregated = BTreeSet::new();
    for root in ["/api", "/apis"] {
        let all = house.get_as(root, AGGREGATED).await.with(200);
        for group in all["items"].as_array().unwrap() {
            let prefix = match group["metadata"]["name"].as_str() {
                Some(name) => format!("{root}/{name}"),
                None => root.to_owned(),
            };
            for version in group["versions"].as_array().unwrap() {
                let path = format!("{prefix}/{}", version["version"].as_str().unwrap());
                for resource in version["resources"].as_array().unwrap() {
                    let name = resource["resource"].as_str().unwrap().to_owned();
                    for part in resource["subresources"].as_array().into_iter().flatten() {
                        let part_name = format!("{name}/{}", part["subresource"].as_str().unwrap());
                        aggregated.insert((path.clone(), part_name, part["verbs"].to_string()));
                    }
                    aggregated.insert((path.clone(), name, resource["verbs"].to_string()));
                }
            }
        }
    }
    assert!(legacy.len() > 100, "{}", legacy.len());
    assert_eq!(legacy, aggregated);
}

#[tokio::test]
async fn r40_a_known_tag_is_304() {
    let house = House::new().await;
    for path in ["/api", "/apis"] {
        let first = house.get_as(path, AGGREGATED).await;
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 10, "{tag}");
        for (given, code) in
            [(tag.clone(), 304), (format!("\"x\", {tag}"), 304), ("\"x\"".into(), 200)]
        {
            let headers = [("accept", AGGREGATED), ("if-none-match", given.as_str())];
            let again = house.ask("GET", path, &headers, "").await;
            assert_eq!(again.code, code, "{path} {given}");
            assert_eq!(again.header("etag"), tag, "{path} {given}");
            assert_eq!(again.bytes.is_empty(), code == 304, "{path} {given}");
        }
    }
    let (core, groups) =
        (house.get_as("/api", AGGREGATED).await, house.get_as("/apis", AGGREGATED).await);
    assert_ne!(core.header("etag"), groups.header("etag"));
}

#[tokio::test]
async fn r41_groups_come_by_priority() {
    let order = [
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
    ];
    let house = House::new().await;
    let groups = house.get("/apis").await.with(200);
    let groups = groups["groups"].as_array().unwrap();
    let listed: Vec<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    let known: Vec<&str> = listed.iter().copied().filter(|name| order.contains(name)).collect();
    let expected: Vec<&str> = order.into_iter().filter(|name| listed.contains(name)).collect();
    assert_eq!(known, expected);
    let aggregated = house.get_as("/apis", AGGREGATED).await.with(200);
    let again: Vec<&str> = aggregated["items"].as_array().unwrap().iter().map(name).collect();
    assert_eq!(again, listed);
}

#[tokio::test]
async fn r42_verbs_are_true() {
    let house = House::new().await;
    let options = [("content-type", JSON)];
    let mut lies = Vec::new();
    for root in group_versions(&house).await {
        let list = house.get(&root).await.with(200);
        for resource in list["resources"].as_array().unwrap() {
            let full = resource["name"].as_str().unwrap();
            let (plural, part) = full.split_once('/').unwrap_or((full, ""));
            if NOT_YET.contains(&part) {
                continue;
            }
            let space = if resource["namespaced"] == true { "/namespaces/default" } else { "" };
            let collection = format!("{root}{space}/{plural}");
            let object = match part {
                "" => format!("{collection}/none"),
                part => format!("{collection}/none/{part}"),
            };
            let create = if part.is_empty() { &collection } else { &object };
            let verbs = texts(&resource["verbs"]);
            for (verb, method, path) in [
                ("list", "GET", &collection),
                ("deletecollection", "DELETE", &collection),
                ("create", "POST", create),
                ("get", "GET", &object),
                ("update", "PUT", &object),
                ("patch", "PATCH", &object),
                ("delete", "DELETE", &object),
            ] {
                if !part.is_empty() && matches!(verb, "list" | "deletecollection") {
                    continue;
                }
                let path = format!("{path}?dryRun=All");
                let code = house.ask(method, &path, &options, "").await.code;
                if (code != 405) != verbs.contains(&verb) {
                    lies.push(format!("{verb} {path} answers {code}"));
                }
            }
        }
    }
    assert_eq!(lies, Vec::<String>::new());
    let namespaces = house.get("/api/v1").await.with(200);
    let verbs = texts(&entry(&namespaces, "namespaces")["verbs"]).join(" ");
    assert_eq!(verbs, "create delete get list patch update watch");
}

#[tokio::test]
async fn r43_health_is_told_in_whole_and_in_part() {
    let house = House::new().await;
    for probe in ["healthz", "livez", "readyz"] {
        let answer = house.get(&format!("/{probe}")).await;
        assert_eq!((answer.code, answer.text()), (200, "ok"), "{probe}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{probe}");
        let verbose = house.get(&format!("/{probe}?verbose")).await;
        for check in ["ping", "log", "etcd"] {
            assert!(verbose.text().contains(&format!("[+]{check} ok\n")), "{probe} {check}");
            let one = house.get(&format!("/{probe}/{check}")).await;
            assert_eq!((one.code, one.text()), (200, "ok"), "{probe}/{check}");
        }
        assert!(verbose.text().ends_with(&format!("{probe} check passed\n")), "{probe}");
        let less = house.get(&format!("/{probe}?verbose&exclude=etcd&exclude=log")).await;
        assert!(less.text().contains("[+]ping ok"), "{probe}");
        assert!(!less.text().contains("[+]etcd") && !less.text().contains("[+]log"), "{probe}");
        let none = house.get(&format!("/{probe}/nope")).await;
        assert_eq!((none.code, none.text()), (404, "404 page not found\n"), "{probe}");
    }
}

#[tokio::test]
async fn r43_a_server_that_ends_is_not_ready_but_lives() {
    let house = House::new().await;
    house.stop();
    let answer = house.get("/readyz").await;
    assert_eq!(answer.code, 500);
    assert!(answer.text().contains("[-]shutdown failed: reason withheld\n"), "{}", answer.text());
    assert!(answer.text().ends_with("readyz check failed\n"), "{}", answer.text());
    for (path, code) in [
        ("/livez", 200),
        ("/readyz/ping", 200),
        ("/readyz/shutdown", 500),
        ("/readyz?exclude=shutdown", 200),
    ] {
        assert_eq!(house.get(path).await.code, code, "{path}");
    }
}

#[tokio::test]
async fn r44_health_and_version_are_for_everybody() {
    let house = House::new().await;
    for (path, code) in [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/version", 200),
        ("/version/", 200),
        ("/api", 403),
        ("/apis", 403),
        ("/apis/apps/v1", 403),
        ("/openapi/v3", 403),
        ("/metrics", 403),
        ("/readyz/ping", 403),
        ("/", 403),
    ] {
        let answer = house.ask_as(&Peer::default(), "GET", path, &[], "").await;
        assert_eq!(answer.code, code, "{path}");
        if code == 403 {
            assert_eq!(answer.fails(403, "Forbidden")["details"], json!({}), "{path}");
        }
    }
}

#[tokio::test]
async fn r46_metrics_have_the_names_of_dashboards() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    house.get(SECRETS).await.with(200);
    house.get("/api/v1/hostile-resource-name").await.fails(404, "NotFound");
    let mut stream = house.watch(&format!("{SECRETS}?watch=1")).await;
    stream.expect(&["ADDED a"]).await;
    let answer = house.get("/metrics").await;
    assert!(answer.header("content-type").contains("text"), "{}", answer.header("content-type"));
    let text = answer.text();
    for name in [
        "apiserver_request_total{",
        "apiserver_request_duration_seconds_bucket{",
        "apiserver_current_inflight_requests{",
        "apiserver_longrunning_requests{",
        "apiserver_watch_events_total{",
        "apiserver_storage_objects{",
    ] {
        assert!(text.contains(&format!("\n{name}")), "{name}");
    }
    assert!(!text.contains("hostile"));
    let line = |start: &str, parts: &[&str]| {
        let mut lines = text.lines().filter(|line| line.starts_with(start));
        lines.any(|line| parts.iter().all(|part| line.contains(part)))
    };
    assert!(line(
        "apiserver_request_total{",
        &["verb=\"LIST\"", "resource=\"secrets\"", "code=\"200\""]
    ));
    assert!(line("apiserver_storage_objects{", &["resource=\"secrets\"", "} 1"]));
    assert!(line("apiserver_longrunning_requests{", &["resource=\"secrets\"", "} 1"]));
}

#[tokio::test]
async fn r47_documents_are_immutable_under_their_hash() {
    let house = House::new().await;
    let index = house.get("/openapi/v3").await.with(200);
    let paths = index["paths"].as_object().unwrap();
    for root in group_versions(&house).await {
        let name = root.trim_start_matches('/');
        let url = paths[name]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{name}?hash=")), "{url}");
    }
    let url = paths["apis/coordination.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = house.get(url).await;
    assert_eq!(document.header("content-type"), JSON);
    let cache = document.header("cache-control");
    assert!(cache.contains("public") && cache.contains("immutable"), "{cache}");
    let expires = document.header("expires");
    let expires = jiff::fmt::rfc2822::parse(expires).unwrap().timestamp();
    let days = (expires.as_second() - jiff::Timestamp::now().as_second()) / (24 * 60 * 60);
    assert!((364..=365).contains(&days), "{days}");
    let (plain, hash) = url.split_once("?hash=").unwrap();
    let unhashed = house.get(plain).await;
    assert_eq!(unhashed.bytes, document.bytes);
    assert_eq!(unhashed.header("cache-control"), "no-cache, private");
    assert!(document.with(200)["openapi"].as_str().unwrap().starts_with("3."));
    let stale = house.get(&format!("{plain}?hash=00{hash}")).await;
    assert_eq!((stale.code, stale.header("location")), (301, url));
    for path in ["/openapi/v3/apis/nope/v1", "/openapi/v3/api/v2", "/openapi/v3/x"] {
        assert_eq!(house.get(path).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn r48_a_document_says_what_kubectl_reads() {
    let house = House::new().await;
    let document = house.get("/openapi/v3/apis/apps/v1").await.with(200);
    let patch =
        &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let kind = json!({ "group": "apps", "version": "v1", "kind": "Deployment" });
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let mut parameters = patch["parameters"].as_array().unwrap().iter();
    assert!(parameters.any(|parameter| parameter["name"] == "fieldValidation"));
    let content = patch["requestBody"]["content"].as_object().unwrap();
    for media in [STRATEGIC, MERGE, JSON_PATCH, "application/apply-patch+yaml"] {
        assert!(content.contains_key(media), "{media}");
    }
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["x-kubernetes-group-version-kind"], json!([kind]));
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
}
