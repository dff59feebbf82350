//! Rules of spec/api-server.md.
//!
//! What clients send leaves nothing behind, long answers are made in parts, users have their turns, and a
//! full store is told clearly.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tenure_server::{Body, Peer, ServerLimits};
use tokio::task::JoinSet;

use crate::connect::furnished;
use crate::house::*;

/// The value of a line of `/metrics`.
async fn metric(house: &House, line: &str) -> u64 {
    let text = house.get("/metrics").await;
    let text = String::from_utf8(text.bytes.to_vec()).unwrap();
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no {line} in\n{text}")).parse().unwrap()
}

#[tokio::test]
async fn r240_a_path_behind_a_document_is_not_found() {
    let house = House::new().await;
    house.get("/openapi/v3/apis/apps/v1").await.with(200);
    house.get("/openapi/v3/api/v1").await.with(200);
    for path in
        ["apis/apps/v1/x", "apis/apps/v1/x/y", "apis/apps/v1//", "api/v1/x", "apis", "apis/apps"]
    {
        assert_eq!(house.get(&format!("/openapi/v3/{path}x")).await.code, 404, "{path}");
    }
}

#[tokio::test]
async fn r245_a_full_store_is_told_and_serves_reads_and_deletes() {
    let house = House::bounded(2 << 20).await;
    let big = "x".repeat(100_000);
    let body = |name: &str| json!({ "metadata": { "name": name }, "data": { "k": big } });
    let mut made = 0;
    let refused = loop {
        let answer = house.post(CONFIG_MAPS, body(&format!("m-{made}"))).await;
        if answer.code != 201 {
            break answer;
        }
        made += 1;
        assert!(made < 30, "a quota of 2 MiB takes no more than 20");
    };
    let status = refused.with(500);
    assert_eq!(status["reason"], "InternalError");
    assert_eq!(status["details"]["causes"][0]["reason"], "StoreQuotaExceeded");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("database space exceeded: the store holds "), "{message}");
    assert!(message.contains("of 2097152 bytes"), "{message}");
    assert_eq!(metric(&house, "tenure_store_quota_bytes").await, 2 << 20);
    let used = metric(&house, r#"apiserver_storage_size_bytes{storage_cluster_id="tenure"}"#).await;
    assert!(used > (2 << 20) - 200_000 && used <= 2 << 20, "{used}");

    let ready = house.get("/readyz?verbose").await;
    assert_eq!(ready.code, 200);
    house.get(&format!("{CONFIG_MAPS}/m-0")).await.with(200);
    assert_eq!(house.get(CONFIG_MAPS).await.with(200)["items"].as_array().unwrap().len() - 1, made);
    // What has finalizers grows by its deletion.
    house.merge(&format!("{CONFIG_MAPS}/m-1"), json!({ "data": null })).await.with(200);
    house
        .merge(&format!("{CONFIG_MAPS}/m-1"), json!({ "metadata": { "finalizers": ["a.b/c"] } }))
        .await
        .with(200);
    house.delete(&format!("{CONFIG_MAPS}/m-1")).await.with(200);
    house.delete(&format!("{CONFIG_MAPS}/m-0")).await.with(200);
    house.made(CONFIG_MAPS, body("again")).await;
}

/// The lines of `/metrics` that tell what is kept.
async fn kept(house: &House) -> Vec<String> {
    let text = house.get("/metrics").await;
    let text = String::from_utf8(text.bytes.to_vec()).unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    let kept = text.lines().filter(|line| line.starts_with("tenure_kept_entries{"));
    kept.map(str::to_owned).chain([format!("series {series}")]).collect()
}

#[tokio::test]
async fn r240_strings_that_clients_invent_are_not_kept() {
    let house = House::new().await;
    let nobody = peer("nobody", &[]);
    let paths = |word: &str| {
        [
            format!("/openapi/v3/apis/apps/v1/{word}"),
            format!("/openapi/v3/apis/{word}/v1"),
            format!("/openapi/v3/apis/apps/v1?hash={word}"),
            format!("/openapi/v3/{word}"),
            format!("/openapi/v2/{word}"),
            format!("/openapi/v2?{word}={word}"),
            format!("/apis/{word}"),
            format!("/apis/{word}/v1"),
            format!("/apis/apps/{word}"),
            format!("/apis/apps/v1/{word}"),
            format!("/apis/{word}/v1/things"),
            format!("/api/{word}"),
            format!("/api/v1/{word}"),
            format!("/api/v1/namespaces/{word}/pods"),
            format!("/api/v1/namespaces/{word}/pods/{word}"),
            format!("/api/v1/namespaces/default/pods/x/{word}"),
            format!("/api/v1/pods?labelSelector={word}%3D{word}"),
            format!("/api/v1/pods?fieldSelector=metadata.name%3D{word}"),
            format!("/api/v1/pods?limit=1&continue={word}"),
            format!("/healthz/{word}"),
            format!("/readyz?exclude={word}"),
            format!("/version/{word}"),
            format!("/metrics/{word}"),
            format!("/{word}"),
            format!("/debug/tenure/access?user={word}"),
            format!("/tenure/{word}"),
            format!("/.well-known/{word}"),
        ]
    };
    let send = async |number: usize| {
        let word = format!("w{number}");
        let bearer = format!("Bearer {word}");
        let headers = [
            ("accept", "application/json"),
            ("user-agent", word.as_str()),
            ("audit-id", word.as_str()),
            ("impersonate-user", word.as_str()),
            ("impersonate-extra-scopes", word.as_str()),
        ];
        for path in paths(&word) {
            for (peer, headers) in
                [(admin(), &headers[..3]), (admin(), &headers[..]), (&nobody, &headers[..3])]
            {
                let answer = house.ask_as(peer, "GET", &path, headers, "").await;
                assert!(answer.code < 500, "{path}: {}", answer.code);
            }
        }
        let token = [("authorization", bearer.as_str()), ("accept", word.as_str())];
        assert_eq!(house.ask_as(&Peer::default(), "GET", "/api", &token, "").await.code, 401);
        let odd = [
            ("accept", word.as_str()),
            ("accept-encoding", word.as_str()),
            ("content-type", word.as_str()),
        ];
        house.ask("GET", "/api/v1/pods", &odd, "").await;
        house.ask("GET", "/openapi/v2", &odd, "").await;
        house.ask("GET", "/openapi/v3/apis/apps/v1", &[("if-none-match", word.as_str())], "").await;
        house.ask("POST", CONFIG_MAPS, &odd, word.clone()).await;
        house.ask("PATCH", &format!("{CONFIG_MAPS}/{word}"), &odd, word.clone()).await;
        house.ask(&word, "/api", &[], "").await;
    };
    // Whatever is made once is made by the first.
    for number in 0..3 {
        send(number).await;
    }
    let before = kept(&house).await;
    for number in 3..80 {
        send(number).await;
    }
    assert_eq!(kept(&house).await, before);
}

/// A server with so many ConfigMaps.
async fn filled(house: &House, count: usize, bytes: usize) {
    let text = "x".repeat(bytes);
    for number in 0..count {
        let body =
            json!({ "metadata": { "name": format!("m-{number:04}") }, "data": { "k": text } });
        house.made(CONFIG_MAPS, body).await;
    }
}

/// Items, or rows without the cell that tells their age.
fn ageless(items: &Value) -> Vec<Value> {
    let mut items = items.as_array().unwrap().clone();
    for cells in items.iter_mut().filter_map(|row| row.get_mut("cells")) {
        cells.as_array_mut().unwrap().pop();
    }
    items
}

#[tokio::test]
async fn r242_long_answers_hold_what_short_ones_would() {
    let house = House::new().await;
    filled(&house, 600, 20).await;
    let total = house.get(CONFIG_MAPS).await.with(200)["items"].as_array().unwrap().len();
    assert_eq!(total, 601);
    // Page by page they are short.
    for accept in [JSON, TABLE, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"]
    {
        for pretty in ["", "&pretty=true"] {
            let (mut paged, mut token) = (Vec::new(), String::new());
            let member = if accept == TABLE { "rows" } else { "items" };
            loop {
                let path = format!("{CONFIG_MAPS}?limit=250&continue={token}{pretty}");
                let page = house.get_as(&path, accept).await.with(200);
                paged.extend(ageless(&page[member]));
                match page["metadata"].get("continue").and_then(Value::as_str) {
                    Some(next) => token = next.to_owned(),
                    None => break,
                }
            }
            let whole = house.get_as(&format!("{CONFIG_MAPS}?x=y{pretty}"), accept).await;
            assert!(!whole.headers.contains_key("content-encoding"));
            let whole = whole.with(200);
            assert_eq!(paged.len(), total, "{accept} {pretty}");
            assert_eq!(ageless(&whole[member]), paged, "{accept} {pretty}");
        }
    }
    let yaml = house.get_as(CONFIG_MAPS, "application/yaml").await;
    let text = String::from_utf8(yaml.bytes.to_vec()).unwrap();
    assert_eq!(
        text.matches("\n- data:").count()
            + text.matches("\n- metadata:").count()
            + text.matches("\n  - data:").count(),
        total
    );
    // A selector looks at all of them and answers with few.
    let one = house
        .get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name!%3Dm-0001&limit=600"))
        .await
        .with(200);
    assert_eq!(one["items"].as_array().unwrap().len(), 600);
}

#[tokio::test]
async fn r241_answers_that_nobody_reads_have_a_bound() {
    let house = House::new().await;
    filled(&house, 600, 1000).await;
    may_everything(&house, &["mallory", "alice"]).await;
    let (mallory, alice) = (peer("mallory", &[]), peer("alice", &[]));
    let list = |accept: &'static str| build("GET", CONFIG_MAPS, &[("accept", accept)], "");
    let mut unread = Vec::new();
    let refused = loop {
        let response =
            house.send(&mallory, list(if unread.len() % 2 == 0 { JSON } else { TABLE })).await;
        if response.status() != 200 {
            break response;
        }
        unread.push(response);
        assert!(unread.len() <= 16, "4 MiB each, 64 MiB in all");
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(metric(&house, r#"tenure_held{of="bytes"}"#).await, 64 << 20);
    // Others are served, and so is whoever reads.
    assert_eq!(house.send(&alice, list(TABLE)).await.status(), 200);
    let read = unread.remove(0).into_body().collect().await.unwrap().to_bytes();
    assert_eq!(
        serde_json::from_slice::<Value>(&read).unwrap()["items"].as_array().unwrap().len(),
        601
    );
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(house.send(&mallory, list(JSON)).await.status(), 200);
    drop(unread);
    assert_eq!(metric(&house, r#"tenure_held{of="bytes"}"#).await, 0);
}

/// Reads so much of an answer that does not end.
async fn read(response: http::Response<Body>, bytes: usize) {
    let (mut body, mut have) = (response.into_body(), 0);
    while have < bytes {
        have += body.frame().await.unwrap().unwrap().into_data().unwrap().len();
    }
}

#[tokio::test]
async fn r241_events_that_nobody_reads_have_a_bound() {
    let house = House::new().await;
    filled(&house, 1, 1_000_000).await;
    may_everything(&house, &["mallory", "alice"]).await;
    let watch = || build("GET", &format!("{CONFIG_MAPS}?watch=1"), &[], "");
    let (mallory, alice) = (peer("mallory", &[]), peer("alice", &[]));
    let mut unread = Vec::new();
    for _ in 0..100 {
        unread.push(house.send(&mallory, watch()).await);
    }
    for round in 0..4 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let label = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        house.merge(&format!("{CONFIG_MAPS}/m-0000"), label).await.with(200);
    }
    let held = metric(&house, r#"tenure_held{of="bytes"}"#).await;
    assert!((50 << 20..=64 << 20).contains(&held), "{held}");
    // Others hear of everything, and so does whoever is left when there is room again.
    read(house.send(&alice, watch()).await, 1_000_000).await;
    unread.truncate(20);
    for response in unread {
        read(response, 5_000_000).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(metric(&house, r#"tenure_held{of="bytes"}"#).await, 0);
}

#[tokio::test]
async fn r241_a_compressed_object_counts_as_long_as_it_is() {
    let house = House::new().await;
    filled(&house, 1, 1_000_000).await;
    may_everything(&house, &["mallory"]).await;
    let mallory = peer("mallory", &[]);
    let path = format!("{CONFIG_MAPS}/m-0000");
    let get = || build("GET", &path, &[("accept-encoding", "gzip")], "");
    let mut unread = Vec::new();
    while unread.len() <= 64 {
        let response = house.send(&mallory, get()).await;
        if response.status() == 429 {
            return;
        }
        unread.push(response);
    }
    panic!("{} answers of 1 MB are held", unread.len());
}

#[tokio::test]
async fn r241_connections_to_nodes_have_a_bound() {
    // A twentieth of the connections is for one user.
    let limits = ServerLimits { connections: 60, ..ServerLimits::default() };
    let house = furnished(House::limited(limits).await).await;
    may_everything(&house, &["mallory", "alice"]).await;
    let (mallory, alice) = (peer("mallory", &[]), peer("alice", &[]));
    let log = || build("GET", &format!("{PODS}/web/log"), &[], "");
    let mut unread = Vec::new();
    for _ in 0..3 {
        let response = house.send(&mallory, log()).await;
        assert_eq!(response.status(), 200);
        unread.push(response);
    }
    let refused = house.send(&mallory, log()).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(house.send(&alice, log()).await.status(), 200);
    drop(unread);
    assert_eq!(house.send(&mallory, log()).await.status(), 200);
}

#[tokio::test]
async fn r242_documents_are_compressed_once() {
    let house = House::new().await;
    let gzip = [("accept-encoding", "gzip")];
    for path in ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"] {
        let (first, again) =
            (house.ask("GET", path, &gzip, "").await, house.ask("GET", path, &gzip, "").await);
        assert_eq!(first.header("content-encoding"), "gzip", "{path}");
        assert!(first.header("vary").contains("Accept-Encoding"), "{path}");
        assert_eq!(first.bytes.as_ptr(), again.bytes.as_ptr(), "{path} is compressed again");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&first.bytes[..]).read_to_end(&mut plain).unwrap();
        assert!(plain == house.get(path).await.bytes, "{path} differs");
    }
    let yaml = [("accept", "application/yaml")];
    let (first, again) = (
        house.ask("GET", "/api/v1", &yaml, "").await,
        house.ask("GET", "/api/v1", &yaml, "").await,
    );
    assert_eq!(first.header("content-type"), "application/yaml");
    assert_eq!(first.bytes.as_ptr(), again.bytes.as_ptr(), "it is laid out again");
}

#[tokio::test]
async fn r241_documents_that_nobody_reads_have_a_bound() {
    let house = House::new().await;
    let (mallory, alice) = (peer("mallory", &[]), peer("alice", &[]));
    for headers in [[].as_slice(), &[("accept-encoding", "gzip")]] {
        let ask = || build("GET", "/openapi/v2", headers, "");
        let one = house.ask("GET", "/openapi/v2", headers, "").await.bytes.len();
        let mut unread = Vec::new();
        let refused = loop {
            let response = house.send(&mallory, ask()).await;
            if response.status() != 200 {
                break response;
            }
            unread.push(response);
            assert!(unread.len() * one <= 64 << 20, "64 MiB in all");
        };
        assert_eq!(refused.status(), 429);
        assert_eq!(house.send(&alice, ask()).await.status(), 200, "others are served");
        drop(unread);
        assert_eq!(metric(&house, r#"tenure_held{of="bytes"}"#).await, 0);
    }
}

#[tokio::test]
async fn r242_an_answer_that_nobody_reads_is_cut_off() {
    let house = House::new().await;
    filled(&house, 600, 2000).await;
    let mut body = house.send(admin(), build("GET", CONFIG_MAPS, &[], "")).await.into_body();
    body.frame().await.unwrap().unwrap();
    // Parts are made by a thread that knows no paused clock; soon as many are made as may wait.
    tokio::time::sleep(Duration::from_millis(300)).await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(31)).await;
    let rest = body.collect().await;
    assert!(rest.is_err(), "it must not look whole");
}

#[tokio::test]
async fn r169_requests_beyond_the_line_are_refused_and_others_are_served() {
    let house =
        House::limited(ServerLimits { reads: 2, writes: 1, ..ServerLimits::default() }).await;
    may_everything(&house, &["mallory", "alice"]).await;
    let (mallory, alice) = (Arc::new(peer("mallory", &[])), Arc::new(peer("alice", &[])));
    let post = |peer: &Arc<Peer>, name: String| {
        let (api, peer) = (Arc::clone(&house.api), Arc::clone(peer));
        let body = named(&name).to_string();
        let request = build("POST", CONFIG_MAPS, &[("content-type", JSON)], body);
        async move { api.call(request, &peer).await }
    };
    let mut flood = JoinSet::new();
    for number in 0..300 {
        flood.spawn(post(&mallory, format!("m-{number}")));
    }
    // All of them are in line, or refused, before the first is committed.
    tokio::task::yield_now().await;
    assert_eq!(post(&alice, "of-alice".to_owned()).await.status(), 201);
    assert!(!flood.is_empty());
    let (mut made, mut refused) = (0, 0);
    while let Some(answer) = flood.join_next().await {
        let answer = answer.unwrap();
        match answer.status().as_u16() {
            201 => made += 1,
            429 => {
                assert_eq!(answer.headers()["retry-after"], "1");
                refused += 1;
            }
            other => panic!("{other}"),
        }
    }
    // One on the seat, 128 in line; those who come later find what the first have left.
    assert!((129..200).contains(&made), "{made} made, {refused} refused");
    assert_eq!(made + refused, 300);
    let of = |name: &str| format!(r#"{name}{{priority_level="workload",request_kind="mutating"}}"#);
    assert_eq!(metric(&house, &of("apiserver_flowcontrol_nominal_limit_seats")).await, 1);
    assert_eq!(metric(&house, &of("apiserver_flowcontrol_current_executing_seats")).await, 0);
    assert_eq!(metric(&house, &of("apiserver_flowcontrol_current_inqueue_requests")).await, 0);
    let counted = r#"apiserver_flowcontrol_rejected_requests_total{priority_level="workload",request_kind="mutating",reason="queue-full"}"#;
    assert_eq!(metric(&house, counted).await, refused);
}

#[tokio::test]
async fn r169_health_and_administrators_do_not_wait() {
    let house =
        House::limited(ServerLimits { reads: 0, writes: 0, ..ServerLimits::default() }).await;
    assert_eq!(house.ask_as(&Peer::default(), "GET", "/readyz", &[], "").await.code, 200);
    house.config_map("a").await;
    house.get(&format!("{CONFIG_MAPS}/a")).await.with(200);
}

/// Lets some users do everything with objects of the core group.
pub(crate) async fn may_everything(house: &House, names: &[&str]) {
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{ "verbs": ["*"], "apiGroups": [""], "resources": ["*"] }]);
    let role = json!({ "metadata": { "name": "everything" }, "rules": rules });
    house.made(&format!("/apis/{group}/v1/clusterroles"), role).await;
    for name in names {
        let binding = json!({
            "metadata": { "name": name },
            "subjects": [{ "kind": "User", "apiGroup": group, "name": name }],
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "everything" },
        });
        house.made(&format!("/apis/{group}/v1/clusterrolebindings"), binding).await;
    }
}
