//! Rules of spec/api-server.md.
//!
//! Paths, methods, headers and media types. What Status bodies, lists, watches, Tables and discovery
//! hold lives in the modules of these names.

use std::collections::BTreeSet;
use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A JSON object with this name, padded with spaces to just so many bytes.
fn padded(name: &str, length: usize) -> String {
    let mut text = named(name).to_string();
    text.extend(std::iter::repeat_n(' ', length - text.len()));
    text
}

#[tokio::test]
async fn r2_paths_and_methods_lead_to_verbs() {
    let house = House::new().await;
    let a = format!("{CONFIG_MAPS}/a");
    let json = |value: Value| (JSON, value.to_string());
    let merge = || (MERGE, json!({ "data": { "k": "v" } }).to_string());
    let none = || (JSON, String::new());
    for (method, path, (kind, body), code) in [
        ("POST", CONFIG_MAPS, json(named("a")), 201),
        ("GET", a.as_str(), none(), 200),
        ("GET", CONFIG_MAPS, none(), 200),
        ("GET", "/api/v1/configmaps", none(), 200),
        ("PUT", &a, json(named("a")), 200),
        ("PATCH", &a, merge(), 200),
        ("DELETE", &a, none(), 200),
        ("DELETE", CONFIG_MAPS, none(), 200),
        ("POST", NAMESPACES, json(named("shop")), 201),
        ("GET", "/api/v1/namespaces/shop", none(), 200),
        ("GET", "/api/v1/namespaces/shop/status", none(), 200),
        ("PUT", "/api/v1/namespaces/shop/finalize", json(named("shop")), 200),
        ("GET", "/apis/apps/v1/deployments", none(), 200),
    ] {
        let answer = house.ask(method, path, &[("content-type", kind)], body).await;
        assert_eq!(answer.code, code, "{method} {path} {}", answer.text());
    }
}

#[tokio::test]
async fn r2_methods_that_a_path_has_not_are_405() {
    let house = House::new().await;
    for (method, path) in [
        ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("PUT", CONFIG_MAPS),
        ("PATCH", CONFIG_MAPS),
        ("GET", REVIEWS),
        ("DELETE", "/api/v1/namespaces/default/pods/p/status"),
        ("DELETE", NAMESPACES),
        ("POST", "/api/v1/configmaps"),
        ("OPTIONS", CONFIG_MAPS),
        ("TRACE", "/api/v1/namespaces/default/configmaps/a"),
        ("POST", "/healthz"),
        ("DELETE", "/apis"),
    ] {
        let answer = house.ask(method, path, &[("content-type", MERGE)], "{}").await;
        let status = answer.fails(405, "MethodNotAllowed");
        assert_eq!(status["details"], json!({}), "{method} {path}");
    }
}

#[tokio::test]
async fn r3_watch_is_on_unless_its_value_says_no() {
    let house = House::new().await;
    for off in ["?watch=false", "?watch=0", "?watch=False", ""] {
        let list = house.get(&format!("{SECRETS}{off}")).await.with(200);
        assert_eq!(list["kind"], "SecretList", "{off}");
    }
    house.made(SECRETS, named("a")).await;
    for on in ["?watch=true", "?watch=1", "?watch", "?watch=yes"] {
        house.watch(&format!("{SECRETS}{on}")).await.expect(&["ADDED a"]).await;
    }
}

#[tokio::test]
async fn r3_head_is_authorized_as_a_read_and_answered_by_no_resource() {
    let house = House::new().await;
    house.config_map("a").await;
    let nobody = Peer::default();
    for (path, code, to_nobody) in [
        ("/api/v1/namespaces/default/configmaps/a", 405, 403),
        ("/api/v1/namespaces/default/configmaps", 405, 403),
        ("/version", 405, 403),
        ("/api", 405, 403),
        // The verb of other paths is the method itself, and nobody has `head`.
        ("/healthz", 200, 403),
    ] {
        let answer = house.ask("HEAD", path, &[], "").await;
        assert_eq!((answer.code, answer.bytes.len()), (code, 0), "{path}");
        assert_eq!(house.ask_as(&nobody, "HEAD", path, &[], "").await.code, to_nobody, "{path}");
    }
}

#[tokio::test]
async fn r3_methods_that_mean_nothing_need_every_verb() {
    let house = House::new().await;
    house.config_map("a").await;
    for method in ["OPTIONS", "TRACE", "FOO"] {
        let path = format!("{CONFIG_MAPS}/a");
        house.ask(method, &path, &[], "").await.fails(405, "MethodNotAllowed");
        let answer = house.ask_as(&Peer::default(), method, &path, &[], "").await;
        answer.fails(403, "Forbidden");
    }
}

#[tokio::test]
async fn r2_a_path_is_served_as_it_was_authorized() {
    let house = House::new().await;
    house.config_map("a").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (path, code) in [
        (format!("/{maps}/a"), 404),
        ("/api//v1/namespaces/default/configmaps/a".to_owned(), 404),
        ("/apis//v1/namespaces/default/configmaps/a".to_owned(), 404),
        ("/apis//v1".to_owned(), 404),
        ("//healthz".to_owned(), 404),
        ("/healthz/".to_owned(), 404),
        ("/metrics/".to_owned(), 404),
        ("/api/v1/namespaces//configmaps".to_owned(), 200),
        ("/api/v1/namespaces//configmaps/a".to_owned(), 400),
        ("/api/v1/namespaces//namespaces/default".to_owned(), 404),
        ("/api/v1/namespaces/default//configmaps/a".to_owned(), 404),
        (format!("{maps}//a"), 404),
        (format!("{maps}/a/"), 200),
        (format!("{maps}/"), 200),
        (format!("{maps}/."), 400),
        (format!("{maps}/.."), 400),
        (format!("{maps}/a%2F"), 200),
        (format!("{maps}%2Fa"), 200),
        (format!("{maps}/a%25"), 400),
        (format!("{maps}/%zz"), 400),
        ("/api/v1/namespaces/default/pods//status".to_owned(), 400),
        ("/api/v1/proxy/namespaces/default/configmaps/a".to_owned(), 404),
        ("/api/v1/watch".to_owned(), 404),
    ] {
        assert_eq!(house.get(&path).await.code, code, "{path}");
    }
}

#[tokio::test]
async fn r3_a_selected_name_is_what_access_is_checked_for() {
    let house = House::new().await;
    let nobody = Peer::default();
    for (query, name) in [
        ("?fieldSelector=metadata.name%3Dx", json!("x")),
        ("?watch=1&fieldSelector=metadata.name%3Dx,metadata.namespace%3Dy", json!("x")),
        ("?fieldSelector=metadata.name!%3Dx", Value::Null),
        ("?fieldSelector=metadata.name%3Da/b", Value::Null),
        ("", Value::Null),
    ] {
        let path = format!("{CONFIG_MAPS}{query}");
        let status = house.ask_as(&nobody, "GET", &path, &[], "").await.fails(403, "Forbidden");
        assert_eq!(status["details"]["name"], name, "{query}");
    }
}

#[tokio::test]
async fn r4_unknown_paths_are_text_and_unknown_resources_a_status() {
    let house = House::new().await;
    for path in ["/nope", "/apis/nope.example.com/v1", "/apis/nope.example.com", "/api/", "/apix"] {
        let answer = house.get(path).await;
        if path == "/api/" {
            assert_eq!(answer.code, 200);
            continue;
        }
        assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"), "{path}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{path}");
    }
    for path in [
        "/api/v2",
        "/apis/apps/v9",
        "/api/v1/nopes",
        "/apis/apps/v9/deployments",
        "/api/v1/namespaces/default/nopes/x",
        "/api/v1/namespaces/default/configmaps/a/nosub",
        "/api/v1/namespaces/default/pods/a/log/deeper",
        "/api/v1/configmaps/a",
        "/api/v1/namespaces/default/nodes",
    ] {
        let status = house.get(path).await.fails(404, "NotFound");
        assert_eq!(status["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn r5_the_root_lists_every_path_in_order() {
    let house = House::new().await;
    let root = house.get("/").await.with(200);
    let paths: Vec<&str> =
        root["paths"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
    assert!(paths.is_sorted(), "{paths:?}");
    for path in ["/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/version"]
    {
        assert!(paths.contains(&path), "{path}");
    }
    // The OpenAPI documents are large, and tested elsewhere.
    for path in paths.into_iter().filter(|path| !path.starts_with("/openapi")) {
        assert_eq!(house.get(path).await.code, 200, "{path}");
    }
}

#[tokio::test]
async fn r6_patches_with_very_many_objects_are_413() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let many = vec![json!({}); 70_000];
    let merge = json!({ "spec": { "template": { "spec": { "containers": many } } } });
    house.merge(&path, merge.clone()).await.fails(413, "RequestEntityTooLarge");
    house.patch(&path, STRATEGIC, merge).await.fails(413, "RequestEntityTooLarge");
    let add = json!([{ "op": "add", "path": "/spec/template/spec/containers", "value": many }]);
    let answer = house.patch(&path, "application/json-patch+json", add).await;
    answer.fails(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn r6_bodies_above_three_mebibytes_are_413() {
    let house = House::new().await;
    let headers = [("content-type", JSON)];
    let fits = house.ask("POST", CONFIG_MAPS, &headers, padded("a", BODY_BYTES_MAX)).await;
    fits.with(201);
    let large = house.ask("POST", CONFIG_MAPS, &headers, padded("b", BODY_BYTES_MAX + 1)).await;
    large.fails(413, "RequestEntityTooLarge");
    house.get(&format!("{CONFIG_MAPS}/b")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r6_json_patches_have_at_most_ten_thousand_operations() {
    let house = House::new().await;
    house.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let operation = json!({ "op": "test", "path": "/metadata/name", "value": "a" });
    let patch = |count| Value::from(vec![operation.clone(); count]);
    house.patch(&path, JSON_PATCH, patch(10_000)).await.with(200);
    house.patch(&path, JSON_PATCH, patch(10_001)).await.fails(413, "RequestEntityTooLarge");
}

#[tokio::test]
async fn r7_the_client_may_shorten_the_deadline() {
    let house = House::new().await;
    for (timeout, code) in [
        ("abc", 400),
        ("5", 400),
        ("s", 400),
        ("", 200),
        ("0s", 200),
        ("1m30s", 200),
        ("9999h", 200),
        ("9999999h", 400),
        ("%2B5s", 200),
        ("-5s", 200),
        ("-0", 200),
        ("-", 400),
        ("--5s", 400),
    ] {
        let answer = house.get(&format!("{SECRETS}?timeout={timeout}")).await;
        assert_eq!(answer.code, code, "{timeout}");
    }
    let future = format!("{SECRETS}?timeout=20ms&resourceVersion=9000000000000000000");
    house.get(&future).await.fails(504, "Timeout");
    // A watch has another clock.
    house.watch(&format!("{SECRETS}?watch=true&timeout=abc")).await;
    house.post(&format!("{SECRETS}?timeout=soon"), named("a")).await.fails(400, "BadRequest");
    house.get(&format!("{SECRETS}/a")).await.fails(404, "NotFound");
}

/// A body that never comes.
pub(crate) struct Silence;

impl http_body::Body for Silence {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, std::io::Error>>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn r7_a_body_that_never_comes_is_not_waited_for_forever() {
    let house = House::new().await;
    tokio::time::pause();
    for (query, seconds) in [("", 34), ("?timeout=1h", 34), ("?timeout=0s", 34), ("?timeout=5s", 5)]
    {
        let uri = format!("{CONFIG_MAPS}{query}");
        let request = ::http::Request::builder().method("POST").uri(uri).body(Silence).unwrap();
        let start = tokio::time::Instant::now();
        let response = Box::pin(house.api.call(request, admin())).await;
        assert_eq!(
            (response.status().as_u16(), start.elapsed().as_secs()),
            (504, seconds),
            "{query}"
        );
    }
}

#[tokio::test]
async fn r8_every_answer_has_an_audit_id_and_is_not_cached() {
    let house = House::new().await;
    let mut seen = BTreeSet::new();
    for (peer, path) in [
        (admin(), SECRETS),
        (admin(), "/healthz"),
        (admin(), "/nope"),
        (admin(), "/api/v1/nopes"),
        (&Peer::default(), SECRETS),
    ] {
        let answer = house.ask_as(peer, "GET", path, &[], "").await;
        assert_eq!(answer.header("cache-control"), "no-cache, private", "{path}");
        let id = answer.header("audit-id");
        assert_eq!((id.len(), id.matches('-').count()), (36, 4), "{path} {id}");
        assert!(seen.insert(id.to_owned()), "{id} again");
        let echo = house.ask_as(peer, "GET", path, &[("audit-id", "mine")], "").await;
        assert_eq!(echo.header("audit-id"), "mine", "{path}");
    }
}

#[tokio::test]
async fn r10_unknown_parameters_are_ignored_and_bad_values_refused() {
    let house = House::new().await;
    for (query, code) in [
        ("nonsense=1&resourceVersion=", 200),
        ("shardSelector=x", 200),
        ("limit=abc", 400),
        ("limit=1.5", 400),
        ("timeoutSeconds=abc", 400),
        ("resourceVersion=abc", 400),
        ("resourceVersion=-1", 400),
        ("watch=1&timeoutSeconds=abc", 400),
        ("watch=1&resourceVersion=abc", 400),
    ] {
        let answer = house.get(&format!("{SECRETS}?{query}")).await;
        assert_eq!(answer.code, code, "{query}");
        if code == 400 {
            let status = answer.fails(400, "BadRequest");
            assert_eq!(status.get("details"), None, "{query}");
        }
    }
}

#[tokio::test]
async fn r10_options_that_do_not_go_together_are_422_of_their_kind() {
    let house = House::new().await;
    house.config_map("a").await;
    let a = format!("{CONFIG_MAPS}/a");
    for (method, path, kind, options, field) in [
        ("POST", format!("{CONFIG_MAPS}?dryRun=Yes"), JSON, "CreateOptions", "dryRun"),
        ("PUT", format!("{a}?fieldValidation=Loud"), JSON, "UpdateOptions", "fieldValidation"),
        ("PATCH", format!("{a}?force=true"), MERGE, "PatchOptions", "force"),
        ("DELETE", format!("{a}?dryRun=Yes"), JSON, "DeleteOptions", "dryRun"),
        (
            "GET",
            format!("{CONFIG_MAPS}?sendInitialEvents=1"),
            JSON,
            "ListOptions",
            "sendInitialEvents",
        ),
    ] {
        let body = if matches!(method, "GET" | "DELETE") { Value::Null } else { named("a") };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = house.ask(method, &path, &[("content-type", kind)], body).await;
        let status = answer.fails(422, "Invalid");
        assert_eq!(status["details"]["group"], "meta.k8s.io", "{path}");
        assert_eq!(status["details"]["kind"], options, "{path}");
        assert_eq!(fields(&status), [field], "{path}");
    }
}

#[tokio::test]
async fn r11_pretty_answers_are_for_people() {
    let house = House::new().await;
    house.config_map("a").await;
    for (path, query, agent, pretty) in [
        ("/a", "", "client/1", false),
        ("/a", "?pretty=true", "client/1", true),
        ("/a", "?pretty=1", "client/1", true),
        ("/a", "", "curl/8.0", true),
        ("", "", "Wget/1.2", true),
        ("", "", "Mozilla/5.0 (X11)", true),
        ("", "?pretty=false", "curl/8.0", false),
        ("", "", "client/1", false),
    ] {
        let path = format!("{CONFIG_MAPS}{path}{query}");
        let answer = house.ask("GET", &path, &[("user-agent", agent)], "").await;
        assert_eq!(answer.text().contains("\n  \""), pretty, "{path} {agent}");
        assert!(answer.json["kind"].is_string());
    }
}

#[tokio::test]
async fn r20_the_best_acceptable_media_type_is_served() {
    let house = House::new().await;
    house.config_map("a").await;
    let a = format!("{CONFIG_MAPS}/a");
    let yaml = "application/yaml";
    for (accept, media) in [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/html, */*", JSON),
        ("application/vnd.kubernetes.protobuf,application/json", JSON),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", JSON),
        (yaml, yaml),
        ("application/yaml,application/json", yaml),
        ("application/json;q=0.1, application/yaml;q=0.5", yaml),
        ("text/html;q=0.9,application/json;q=0.2", JSON),
    ] {
        for path in [a.as_str(), CONFIG_MAPS, "/apis"] {
            let answer = house.get_as(path, accept).await;
            assert_eq!((answer.code, answer.header("content-type")), (200, media), "{accept}");
        }
    }
    for path in [a.as_str(), CONFIG_MAPS, "/apis", "/api/v1/secrets?watch=1"] {
        let status = house.get_as(path, "text/html").await.fails(406, "NotAcceptable");
        assert!(status["message"].as_str().unwrap().contains(JSON), "{path}");
        assert_eq!(status["details"], json!({}), "{path}");
    }
}

#[tokio::test]
async fn r25_yaml_is_for_objects_and_lists_but_not_for_watches() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, json!({ "metadata": { "name": "a" }, "data": { "k": "1" } })).await;
    let object = house.get_as(&format!("{CONFIG_MAPS}/a"), "application/yaml").await;
    assert!(object.json.is_null());
    assert!(object.text().contains("kind: ConfigMap\n"), "{}", object.text());
    assert!(object.text().contains("  k: \"1\"\n"), "{}", object.text());
    let list = house.get_as(CONFIG_MAPS, "application/yaml").await;
    assert!(list.text().contains("kind: ConfigMapList\n"), "{}", list.text());
    let watch = format!("{CONFIG_MAPS}?watch=1");
    house.get_as(&watch, "application/yaml").await.fails(406, "NotAcceptable");
}

#[tokio::test]
async fn r26_large_answers_are_gzipped_on_request() {
    let house = House::new().await;
    let body = |name: &str, size| json!({ "metadata": { "name": name }, "data": { "k": "x".repeat(size) } });
    house.made(CONFIG_MAPS, body("large", 128 * 1024)).await;
    house.made(CONFIG_MAPS, body("small", 120 * 1024)).await;
    let gzip = [("accept-encoding", "deflate, gzip")];
    for (path, headers, zipped) in [
        ("/large", gzip.as_slice(), true),
        ("", &gzip, true),
        ("/small", &gzip, false),
        ("/large", &[], false),
        ("/large", &[("accept-encoding", "br")], false),
    ] {
        let answer = house.ask("GET", &format!("{CONFIG_MAPS}{path}"), headers, "").await;
        assert_eq!(answer.header("content-encoding") == "gzip", zipped, "{path} {headers:?}");
        let mut plain = Vec::new();
        if zipped {
            flate2::read::GzDecoder::new(&answer.bytes[..]).read_to_end(&mut plain).unwrap();
        } else {
            plain.extend_from_slice(&answer.bytes);
        }
        let whole = house.get(&format!("{CONFIG_MAPS}{path}")).await;
        assert!(plain == whole.bytes, "{path} differs");
    }
    let watch = build("GET", &format!("{CONFIG_MAPS}?watch=1"), &gzip, "");
    let response = house.send(admin(), watch).await;
    assert!(!response.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn r31_warnings_are_quoted_and_come_once() {
    let house = House::new().await;
    let twice = json!({ "metadata": { "name": "a" }, "what\"now": 1, "data": {} });
    let answer = house.post(CONFIG_MAPS, twice).await;
    assert_eq!(answer.code, 201);
    assert_eq!(answer.warnings(), [r#"299 - "unknown field \"what\\\"now\"""#]);
    let endpoints = house.get("/api/v1/namespaces/default/endpoints").await;
    let warnings = endpoints.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("299 - \"v1 Endpoints is deprecated"), "{warnings:?}");
    assert!(house.get(CONFIG_MAPS).await.warnings().is_empty());
}

#[tokio::test]
async fn r31_many_warnings_are_cut() {
    let house = House::new().await;
    let mut body = named("a");
    for at in 0..30 {
        body[format!("{at:02}{}", "x".repeat(400))] = json!(1);
    }
    let answer = house.post(CONFIG_MAPS, body).await;
    let warnings = answer.warnings();
    assert_eq!(answer.code, 201);
    assert!((10..30).contains(&warnings.len()), "{}", warnings.len());
    assert!(warnings.iter().map(String::len).sum::<usize>() < 5_000);
    assert!(warnings.iter().all(|text| text.len() < 300));
}
