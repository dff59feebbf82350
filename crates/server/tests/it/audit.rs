//! Rules of spec/api-server.md.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rcgen::KeyPair;
use serde_json::{Value, json};
use tenure_machinery::Object;
use tenure_server::Peer;
use tenure_server::audit::AuditLevel;
use tenure_server::internal_writer::{
    Actor, InternalWriteOutcome, InternalWriter, PrepareOutcome, WriteTarget,
};
use tenure_token::KeySet;

use crate::house::{CONFIG_MAPS, House, JSON, MERGE, PODS, SECRETS, admin, named, peer, pod};
use crate::paper::Paper;

async fn audited(level: AuditLevel) -> (House, Paper) {
    let paper = Paper::new(level);
    let keys = KeySet::from_pem(&KeyPair::generate().unwrap().serialize_pem(), &[]).unwrap();
    let house = House::with(keys, Some(paper.audit.clone())).await;
    (house, paper)
}

#[tokio::test]
async fn r168_a_line_says_who_asked_what_and_what_came_of_it() {
    let (house, paper) = audited(AuditLevel::Metadata).await;
    assert_eq!(
        paper.lines().await,
        Vec::<Value>::new(),
        "the server's own writes are not requests"
    );
    let headers = [("user-agent", "test/1"), ("content-type", JSON), ("x-real-ip", "9.9.9.9")];
    let from = admin().clone().at([10, 1, 2, 3].into());
    let path = format!("{PODS}?fieldManager=m");
    let answer = house.ask_as(&from, "POST", &path, &headers, pod("a").to_string()).await;
    assert_eq!(answer.code, 201);
    let line = paper.line().await;
    assert_eq!(line["auditID"], answer.header("audit-id"));
    for time in ["requestReceivedTimestamp", "stageTimestamp"] {
        let text = line[time].as_str().unwrap();
        assert!(text.len() == 27 && text.parse::<jiff::Timestamp>().is_ok(), "{text}");
    }
    let mut rest = line.clone();
    for gone in ["auditID", "requestReceivedTimestamp", "stageTimestamp"] {
        rest.as_object_mut().unwrap().remove(gone);
    }
    let wanted = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
        "stage": "ResponseComplete", "requestURI": path, "verb": "create",
        "user": {
            "username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"],
        },
        "sourceIPs": ["9.9.9.9", "10.1.2.3"], "userAgent": "test/1",
        "objectRef": {
            "resource": "pods", "namespace": "default", "name": "a", "apiVersion": "v1",
        },
        "responseStatus": { "metadata": {}, "code": 201 },
        "annotations": {
            "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "",
            "pod-security.kubernetes.io/enforce-policy": "privileged:latest",
        },
    });
    assert_eq!(rest, wanted);
}

#[tokio::test]
async fn r168_refusals_are_written_with_their_reason() {
    let (house, paper) = audited(AuditLevel::Metadata).await;
    let nobody = Peer::new(None);
    let wrong = [("authorization", "Bearer a.b.c")];
    house.ask_as(&nobody, "GET", PODS, &wrong, "").await.fails(401, "Unauthorized");
    let line = paper.line().await;
    assert_eq!(line["user"], json!({}));
    assert_eq!(line["responseStatus"]["code"], 401);
    assert_eq!(line["responseStatus"]["message"], "Unauthorized: the token is malformed");
    assert_eq!(line["annotations"], json!({}));
    house.ask_as(&nobody, "GET", PODS, &[], "").await.fails(403, "Forbidden");
    let line = paper.line().await;
    assert_eq!(line["user"]["username"], "system:anonymous");
    assert_eq!(line["responseStatus"]["reason"], "Forbidden");
    assert_eq!(line["annotations"]["authorization.k8s.io/decision"], "forbid");
    house.get(&format!("{PODS}/none")).await.fails(404, "NotFound");
    let line = paper.line().await;
    assert_eq!(line["responseStatus"]["message"], "pods \"none\" not found");
    house.get("/healthz").await;
    let line = paper.line().await;
    assert_eq!((&line["verb"], line.get("objectRef")), (&json!("get"), None));
    // What a create was about is known although its path does not name it.
    house.made(CONFIG_MAPS, named("a")).await;
    house.post(CONFIG_MAPS, named("a")).await.fails(409, "AlreadyExists");
    for line in paper.lines().await {
        assert_eq!(line["objectRef"]["name"], "a");
    }
}

#[tokio::test]
async fn r168_who_acts_as_somebody_is_written_as_both() {
    let (house, paper) = audited(AuditLevel::Metadata).await;
    let alice = [("impersonate-user", "alice")];
    house.ask("GET", PODS, &alice, "").await.fails(403, "Forbidden");
    let line = paper.line().await;
    assert_eq!(line["user"]["username"], "kubernetes-admin");
    assert_eq!(line["impersonatedUser"]["username"], "alice");
    // Who may not act as somebody has not acted as them.
    house.ask_as(&peer("u", &[]), "GET", PODS, &alice, "").await.fails(403, "Forbidden");
    let line = paper.line().await;
    assert_eq!(line["user"]["username"], "u");
    assert_eq!(line["impersonatedUser"], Value::Null);
    assert_eq!(line["annotations"]["authorization.k8s.io/decision"], "forbid");
}

#[tokio::test]
async fn r168_the_level_says_which_bodies_are_written() {
    for (level, request, response) in [
        (AuditLevel::Metadata, false, false),
        (AuditLevel::Request, true, false),
        (AuditLevel::RequestResponse, true, true),
    ] {
        let (house, paper) = audited(level).await;
        house.made(PODS, pod("a")).await;
        let path = format!("{PODS}/a");
        house
            .patch(&path, MERGE, json!({ "metadata": { "labels": { "x": "y" } } }))
            .await
            .with(200);
        house.get(&path).await.with(200);
        house.delete_with(&path, json!({ "gracePeriodSeconds": 0 })).await.with(200);
        let yaml = [("content-type", "application/yaml")];
        house.ask("POST", PODS, &yaml, "metadata: {name: b}").await.fails(422, "Invalid");
        let lines = paper.lines().await;
        let body = |at: usize, member: &str| lines[at].get(member).cloned().unwrap_or_default();
        for line in &lines {
            assert_eq!(line["level"], level.name());
            assert_eq!(line.get("responseObject").is_some(), response, "{line:#}");
        }
        assert_eq!(body(2, "requestObject"), Value::Null, "a read has no body");
        if request {
            assert_eq!(body(0, "requestObject")["metadata"]["name"], "a");
            assert_eq!(body(1, "requestObject")["metadata"]["labels"], json!({ "x": "y" }));
            assert_eq!(body(3, "requestObject"), json!({ "gracePeriodSeconds": 0 }));
            assert_eq!(body(4, "requestObject")["metadata"]["name"], "b");
        } else {
            assert!(lines.iter().all(|line| line.get("requestObject").is_none()));
        }
        if response {
            assert_eq!(body(0, "responseObject")["kind"], "Pod");
            assert!(body(2, "responseObject")["metadata"]["uid"].is_string());
            assert_eq!(body(4, "responseObject")["kind"], "Status");
        }
    }
}

#[tokio::test]
async fn r168_confidential_bodies_are_never_written() {
    let (house, paper) = audited(AuditLevel::RequestResponse).await;
    const HIDDEN: &str = "c2VjcmV0LXRleHQ=";
    let secret = json!({ "metadata": { "name": "s" }, "data": { "k": HIDDEN } });
    house.made(SECRETS, secret.clone()).await;
    house.get(SECRETS).await.with(200);
    house.merge(&format!("{SECRETS}/s"), json!({ "data": { "k": HIDDEN } })).await.with(200);
    // Refusals repeat what they refuse.
    let wrong = json!({ "metadata": { "name": "t" }, "type": "kubernetes.io/tls",
        "data": { "tls.crt": HIDDEN, HIDDEN: HIDDEN } });
    assert!(house.post(SECRETS, wrong).await.code >= 400);
    let broken = format!("{{\"data\": {{ \"k\": {HIDDEN}");
    let json_type = [("content-type", JSON)];
    house.ask("POST", SECRETS, &json_type, broken).await.fails(400, "BadRequest");
    let config = json!({ "metadata": { "name": "c" }, "data": { "k": HIDDEN } });
    house.made(CONFIG_MAPS, config).await;
    house.delete(&format!("{CONFIG_MAPS}/c")).await.with(200);
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    house.made(review, json!({ "spec": { "token": HIDDEN } })).await;
    let account = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let granted = house.made(account, json!({ "spec": {} })).await;
    let token = granted["status"]["token"].as_str().unwrap();
    house.get(&format!("{SECRETS}/s?access_token={token}")).await.with(200);
    let text = paper.text().await;
    assert_eq!(text.lines().count(), 10);
    for hidden in [HIDDEN, token, token.split('.').next_back().unwrap()] {
        assert!(!text.contains(hidden), "{text}");
    }
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"], "Metadata");
    }
}

#[tokio::test]
async fn r168_a_watch_is_written_when_it_starts_and_when_it_ends() {
    let (house, paper) = audited(AuditLevel::RequestResponse).await;
    let watch = house.watch(&format!("{PODS}?watch=1")).await;
    let line = paper.line().await;
    assert_eq!((&line["stage"], &line["verb"]), (&json!("ResponseStarted"), &json!("watch")));
    drop(watch);
    let end = paper.line().await;
    assert_eq!(end["stage"], "ResponseComplete");
    assert_eq!(end["auditID"], line["auditID"]);
    assert_eq!(end.get("responseObject"), None);
}

#[tokio::test]
async fn r168_a_stream_is_written_when_it_starts_and_when_it_ends() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (house, paper) = audited(AuditLevel::RequestResponse).await;
    house.api.put_dialer(std::sync::Arc::new(crate::connect::Nodes));
    house.made("/api/v1/nodes", named("n")).await;
    house.bound(pod("web")).await;
    let _ = paper.lines().await;

    let exec = format!("{PODS}/web/exec?command=x&stdout=1");
    let mut wire = crate::connect::upgraded(&house, &exec).await;
    let begun = paper.line().await;
    assert_eq!((&begun["stage"], &begun["verb"]), (&json!("ResponseStarted"), &json!("create")));
    assert_eq!(begun["requestURI"], exec);
    assert_eq!(begun["responseStatus"]["code"], 101);
    let object = json!({
        "resource": "pods", "namespace": "default", "name": "web", "apiVersion": "v1",
        "subresource": "exec",
    });
    assert_eq!(begun["objectRef"], object);
    assert_eq!(begun["user"]["username"], "kubernetes-admin");
    wire.shutdown().await.unwrap();
    let mut heard = Vec::new();
    wire.read_to_end(&mut heard).await.unwrap();
    drop(wire);
    let mut lines = Vec::new();
    for _ in 0..500 {
        lines.extend(paper.lines().await);
        if !lines.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert_eq!(lines[0]["stage"], "ResponseComplete");
    assert_eq!((&lines[0]["auditID"], &lines[0]["objectRef"]), (&begun["auditID"], &object));

    let log = house.get(&format!("{PODS}/web/log")).await;
    assert_eq!(log.code, 200);
    let lines = paper.lines().await;
    let stages: Vec<&str> = lines.iter().map(|line| line["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    assert_eq!(lines[1]["objectRef"]["subresource"], "log");
    assert_eq!(lines[1].get("responseObject"), None, "what a container says is nobody's business");

    house.get(&format!("{PODS}/none/log")).await.fails(404, "NotFound");
    let line = paper.line().await;
    assert_eq!(
        (&line["stage"], &line["responseStatus"]["code"]),
        (&json!("ResponseComplete"), &json!(404))
    );
    let nobody = peer("nobody", &[]);
    house
        .ask_as(&nobody, "POST", &exec, &crate::connect::UPGRADE, "")
        .await
        .fails(403, "Forbidden");
    let line = paper.line().await;
    assert_eq!(line["annotations"]["authorization.k8s.io/decision"], "forbid");
}

/// A body whose client says nothing any more.
struct Silent;

impl http_body::Body for Silent {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn r168_a_client_that_leaves_is_written_all_the_same() {
    let (house, paper) = audited(AuditLevel::Metadata).await;
    let request = http::Request::post(PODS).body(Silent).unwrap();
    let call = Box::pin(house.api.call(request, admin()));
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    let line = paper.line().await;
    assert_eq!(line["responseStatus"]["code"], 499);
    assert_eq!(line["user"]["username"], "kubernetes-admin");
    assert_eq!(line["annotations"]["authorization.k8s.io/decision"], "allow");
}

#[tokio::test]
async fn r8_an_id_from_outside_is_bounded_and_the_same_everywhere() {
    let (house, paper) = audited(AuditLevel::Metadata).await;
    let long = "x".repeat(5000);
    for (given, wanted) in [("mine", "mine"), (&long, &long[..64])] {
        let answer = house.ask("GET", "/healthz", &[("audit-id", given)], "").await;
        assert_eq!(answer.header("audit-id"), wanted);
        assert_eq!(paper.line().await["auditID"], wanted);
    }
    let metrics = house.get("/metrics").await;
    assert!(metrics.text().contains("\napiserver_audit_event_total 2\n"), "{}", metrics.text());
    assert!(metrics.text().contains("\napiserver_audit_error_total 0\n"));
}

#[tokio::test]
async fn r168_followers_are_written_down_like_clients() {
    const ACTOR: Actor = Actor { account: "some-controller", manager: "controllers" };
    let paper = Paper::new(AuditLevel::RequestResponse);
    let house = House::followed(Some(paper.audit.clone()), 1 << 20).await;
    let door = InternalWriter::new(house.api.clone());
    let at = ("", "configmaps");
    let body = |name: &str| named(name).as_object().unwrap().clone();
    let old = door.create(ACTOR, at, "default", body("a"), Vec::new()).await.unwrap();
    let refused = door.create(ACTOR, at, "default", body("a"), Vec::new()).await.unwrap_err();
    assert_eq!(refused.code, 409);
    let edit = |record| {
        let label = |metadata: &mut Object| metadata.insert("labels".into(), json!({ "x": "y" }));
        let edit = |metadata: &mut Object| drop(label(metadata));
        let prepared = door.prepare_edit(ACTOR, &WriteTarget::Stored(record), Vec::new(), edit);
        let Ok(PrepareOutcome::Ready(ready)) = prepared else { panic!("nothing to write") };
        door.submit(ready).unwrap()
    };
    let Ok(InternalWriteOutcome::Stored(new)) = edit(&old).outcome().await else {
        panic!("not stored")
    };
    assert!(matches!(edit(&old).outcome().await, Ok(InternalWriteOutcome::Moved)));
    let gone = door.delete(ACTOR, &new, None, None, Vec::new()).await;
    assert!(matches!(gone, Ok(InternalWriteOutcome::Gone)));

    let lines = paper.lines().await;
    let user = "system:serviceaccount:kube-system:some-controller";
    assert!(lines.iter().all(|line| line["user"]["username"] == user));
    assert!(lines.iter().all(|line| line["stage"] == "ResponseComplete"));
    assert!(lines.iter().all(|line| line["objectRef"]["name"] == "a"));
    let said = |line: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let status = &line["responseStatus"];
        (
            text(&line["verb"]),
            text(&line["requestURI"]),
            status["code"].clone(),
            text(&status["reason"]),
        )
    };
    let one = format!("{CONFIG_MAPS}/a");
    let wanted = [
        ("create", CONFIG_MAPS, 201, ""),
        ("create", CONFIG_MAPS, 409, "AlreadyExists"),
        ("patch", &one, 200, ""),
        ("patch", &one, 409, "Conflict"),
        ("delete", &one, 200, ""),
    ];
    let wanted = wanted.map(|(verb, uri, code, reason)| {
        (verb.to_owned(), uri.to_owned(), json!(code), reason.to_owned())
    });
    assert_eq!(lines.iter().map(said).collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn r168_a_policy_says_how_much_of_which_request_is_written() {
    let paper = Paper::by_policy(&json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["ResponseStarted"],
        "rules": [
            { "level": "None", "nonResourceURLs": ["/version"] },
            { "level": "None", "users": ["system:anonymous"], "userGroups": ["system:unauthenticated"] },
            { "level": "None", "userGroups": ["system:serviceaccounts"] },
            { "level": "RequestResponse", "resources": [{ "group": "", "resources": ["services"] }], "omitManagedFields": true },
            { "level": "Request", "verbs": ["create"] },
            { "level": "RequestResponse", "resources": [{ "group": "", "resources": ["secrets"] }] },
            { "level": "Metadata", "resources": [{ "group": "" }] },
        ],
    }));
    let keys = KeySet::from_pem(&KeyPair::generate().unwrap().serialize_pem(), &[]).unwrap();
    let house = House::with(keys, Some(paper.audit.clone())).await;
    paper.lines().await;
    house.get("/version").await;
    house.get("/api").await;
    assert!(paper.lines().await.is_empty(), "a path that is named, and one that no rule fits");
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    house.made("/api/v1/namespaces/default/services", service).await;
    let line = paper.line().await;
    assert_eq!(line["level"], "RequestResponse");
    assert_eq!(line["responseObject"]["metadata"]["name"], "s");
    assert!(line["responseObject"]["metadata"].get("managedFields").is_none(), "{line:#}");
    house.made("/api/v1/namespaces", named("n")).await;
    let line = paper.line().await;
    assert_eq!(line["level"], "Request");
    assert_eq!(line["requestObject"]["metadata"]["name"], "n");
    house.get(PODS).await;
    assert_eq!(paper.line().await["level"], "Metadata");
    house.get(SECRETS).await;
    let line = paper.line().await;
    assert_eq!(line["level"], "Metadata", "secrets are never written, whatever a policy says");
    assert!(line.get("responseObject").is_none());
    let nobody = house.ask_as(&Peer::default(), "GET", PODS, &[], "").await;
    assert_eq!(nobody.code, 403);
    assert!(paper.lines().await.is_empty(), "whom a rule leaves out");
}
