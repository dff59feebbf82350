//! Rules of spec/api-server.md: a right is looked at again after every wait, and ends what it opened (R260, R261).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body::{Body, Frame};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use tenure_server::Peer;
use tokio::sync::oneshot;

use crate::house::*;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Lets somebody do something with Secrets of the namespace `default`.
async fn may(house: &House, subject: Value, verbs: &[&str]) {
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": verbs }]);
    let role = json!({ "metadata": { "name": "r" }, "rules": rules });
    house.made(&format!("{RBAC}/roles"), role).await;
    let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" });
    let binding = json!({ "metadata": { "name": "r" }, "roleRef": role, "subjects": [subject] });
    house.made(&format!("{RBAC}/rolebindings"), binding).await;
}

async fn alice(house: &House, verbs: &[&str]) -> Peer {
    may(house, json!({ "kind": "User", "name": "alice" }), verbs).await;
    peer("alice", &[])
}

async fn revoke(house: &House) {
    house.delete(&format!("{RBAC}/rolebindings/r")).await.with(200);
}

async fn watch_as(house: &House, who: &Peer, headers: &[(&str, &str)]) -> Stream {
    let path = format!("{SECRETS}?watch=1");
    let response = house.send(who, build("GET", &path, headers, "")).await;
    assert_eq!(response.status(), 200);
    Stream::of(response.into_body())
}

#[tokio::test]
async fn r260_a_request_that_waited_is_refused_when_its_role_is_gone() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    let alice = alice(&house, &["get", "list"]).await;
    for path in [format!("{SECRETS}/a?"), format!("{SECRETS}?")] {
        let ahead = house.revision().0 + 2;
        let path = format!("{path}resourceVersion={ahead}");
        let changes = async {
            revoke(&house).await;
            house.made(SECRETS, json!({ "metadata": { "generateName": "b-" } })).await;
        };
        let (answer, ()) = tokio::join!(house.ask_as(&alice, "GET", &path, &[], ""), changes);
        answer.fails(403, "Forbidden");
        let subject = json!([{ "kind": "User", "name": "alice" }]);
        let role = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" });
        let again = json!({ "metadata": { "name": "r" }, "roleRef": role, "subjects": subject });
        house.made(&format!("{RBAC}/rolebindings"), again).await;
    }
}

/// A body that comes when its sender likes.
struct Slow {
    when: oneshot::Receiver<Bytes>,
    done: bool,
}

impl Body for Slow {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.done {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.when).poll(context).map(|bytes| {
            self.done = true;
            bytes.ok().map(|bytes| Ok(Frame::data(bytes)))
        })
    }
}

#[tokio::test]
async fn r260_a_body_that_comes_late_writes_nothing() {
    let house = House::new().await;
    let alice = alice(&house, &["create"]).await;
    let (send, when) = oneshot::channel();
    let request = http::Request::builder().method("POST").uri(SECRETS);
    let request = request.header("content-type", JSON).body(Slow { when, done: false }).unwrap();
    let late = async {
        revoke(&house).await;
        send.send(Bytes::from(named("late").to_string())).unwrap();
    };
    let (response, ()) = tokio::join!(house.api.call(request, &alice), late);
    assert_eq!(response.status(), 403);
    assert_eq!(house.get(&format!("{SECRETS}/late")).await.code, 404);
}

#[tokio::test]
async fn r260_who_acts_as_somebody_needs_the_right_to_for_as_long() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    let alice = alice(&house, &["list", "watch"]).await;
    assert_eq!(house.ask_as(&alice, "GET", SECRETS, &[], "").await.code, 200);
    let cluster = RBAC.trim_end_matches("/namespaces/default");
    let rules = json!([{ "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"] }]);
    let role = json!({ "metadata": { "name": "act" }, "rules": rules });
    house.made(&format!("{cluster}/clusterroles"), role).await;
    let role =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "act" });
    let subjects = json!([{ "kind": "User", "name": "bob" }]);
    let binding = json!({ "metadata": { "name": "act" }, "roleRef": role, "subjects": subjects });
    house.made(&format!("{cluster}/clusterrolebindings"), binding).await;
    let mut watch = watch_as(&house, &peer("bob", &[]), &[("impersonate-user", "alice")]).await;
    watch.expect(&["ADDED a"]).await;
    house.delete(&format!("{cluster}/clusterrolebindings/act")).await.with(200);
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn r261_a_watch_ends_with_its_role_and_tells_nothing_more() {
    for what in ["rolebindings/r", "roles/r"] {
        let house = House::new().await;
        house.made(SECRETS, named("a")).await;
        let alice = alice(&house, &["list", "watch"]).await;
        let mut watch = watch_as(&house, &alice, &[]).await;
        watch.expect(&["ADDED a"]).await;
        // What only adds ends nothing.
        let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
        let other = json!({ "metadata": { "name": "other" }, "rules": rules });
        house.made(&format!("{RBAC}/roles"), other).await;
        house.made(SECRETS, named("b")).await;
        watch.expect(&["ADDED b"]).await;
        // Nor what takes away something else.
        house.delete(&format!("{RBAC}/roles/other")).await.with(200);
        house.made(SECRETS, named("c")).await;
        watch.expect(&["ADDED c"]).await;
        house.delete(&format!("{RBAC}/{what}")).await.with(200);
        house.made(SECRETS, named("d")).await;
        assert_eq!(watch.next().await, None, "{what}");
    }
}

#[tokio::test]
async fn r261_a_watch_ends_with_the_account_and_with_what_the_token_is_bound_to() {
    for bound in [false, true] {
        let house = House::new().await;
        house.made(SECRETS, named("a")).await;
        house.made(ACCOUNTS, named("robot")).await;
        let subject = json!({ "kind": "ServiceAccount", "name": "robot", "namespace": "default" });
        may(&house, subject, &["list", "watch"]).await;
        let holder = house.made(SECRETS, named("holder")).await;
        let to = json!({ "kind": "Secret", "apiVersion": "v1", "name": "holder",
            "uid": holder["metadata"]["uid"] });
        let spec = if bound { json!({ "boundObjectRef": to }) } else { json!({}) };
        let asked = house.post(&format!("{ACCOUNTS}/robot/token"), json!({ "spec": spec })).await;
        let token = asked.with(201)["status"]["token"].as_str().unwrap().to_owned();
        let credential = format!("Bearer {token}");
        let nobody = Peer::new(None);
        let mut watch = watch_as(&house, &nobody, &[("authorization", &credential)]).await;
        watch.expect(&["ADDED a", "ADDED holder"]).await;
        // A change that leaves it valid leaves the watch open.
        let label = json!({ "metadata": { "labels": { "a": "b" } } });
        house.merge(&format!("{ACCOUNTS}/robot"), label).await.with(200);
        house.made(SECRETS, named("b")).await;
        watch.expect(&["ADDED b"]).await;
        let gone = if bound { format!("{SECRETS}/holder") } else { format!("{ACCOUNTS}/robot") };
        house.delete(&gone).await.with(200);
        assert_eq!(watch.next().await, None, "{gone}");
    }
}

/// Somebody whose certificate ends in so many seconds.
fn expiring(name: &str, seconds: i64) -> Peer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let end = Duration::from_secs(now.saturating_add_signed(seconds));
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    Peer::new(Some(certificate.der()))
}

#[tokio::test]
async fn r261_a_watch_ends_with_the_certificate() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    alice(&house, &["list", "watch"]).await;
    house.ask_as(&expiring("alice", -1), "GET", SECRETS, &[], "").await.fails(401, "Unauthorized");
    let alice = expiring("alice", 2);
    let mut watch = watch_as(&house, &alice, &[]).await;
    watch.expect(&["ADDED a"]).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(watch.next().await, None);
    house.ask_as(&alice, "GET", SECRETS, &[], "").await.fails(401, "Unauthorized");
}
