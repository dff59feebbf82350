//! Rules of spec/api-server.md: who decides on certificates, R136b and R136e.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
const POD_REQUESTS: &str = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn request(name: &str, signer: &str, groups: &[&str]) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "alice");
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]},
    })
}

pub fn certificate(authority: bool) -> String {
    let mut params = CertificateParams::default();
    if authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
}

/// Lets a user do this to these resources, and to these names of signers.
async fn grant(house: &House, user: &str, role: &str, rules: Value) {
    house
        .made(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": role}, "rules": rules}))
        .await;
    let of = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let bound = json!({
        "metadata": {"name": role},
        "roleRef": of("ClusterRole", role), "subjects": [of("User", user)],
    });
    house.made(&format!("{RBAC}/clusterrolebindings"), bound).await;
}

fn on_signers(verb: &str, names: &[&str]) -> Value {
    json!([{"verbs": [verb], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "resourceNames": names}])
}

async fn code(house: &House, peer: &Peer, path: &str, body: &Value) -> u16 {
    let headers = [("content-type", MERGE)];
    house.ask_as(peer, "PATCH", path, &headers, body.to_string()).await.code
}

#[tokio::test]
async fn r136b_deciding_needs_the_right_on_the_signer() {
    let house = House::new().await;
    let approve = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let sign = json!({"status": {"certificate": STANDARD.encode(certificate(false))}});
    let fail = json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}});
    for (part, verb, body) in
        [("approval", "approve", &approve), ("status", "sign", &sign), ("status", "sign", &fail)]
    {
        for (number, (names, good)) in [
            (&[][..], false),
            (&["example.com/other"], false),
            (&["example.org/*"], false),
            (&["example.com"], false),
            (&["example.com/own"], true),
            (&["example.com/*"], true),
        ]
        .into_iter()
        .enumerate()
        {
            let user = format!("{part}-{verb}-{number}-{}", body.to_string().len());
            let path = format!("{REQUESTS}/{user}");
            house.made(REQUESTS, request(&user, "example.com/own", &[])).await;
            let rules = json!([{
                "verbs": ["update", "patch"], "apiGroups": ["certificates.k8s.io"],
                "resources": [format!("certificatesigningrequests/{part}")],
            }]);
            grant(&house, &user, &format!("{user}-part"), rules).await;
            if !names.is_empty() {
                grant(&house, &user, &format!("{user}-signer"), on_signers(verb, names)).await;
            }
            let wanted = if good { 200 } else { 403 };
            let peer = peer(&user, &[]);
            let found = code(&house, &peer, &format!("{path}/{part}"), body).await;
            assert_eq!(found, wanted, "{part} {verb} {names:?}");
            let status = house.get(&path).await.json["status"].clone();
            assert_eq!(status != json!({}), good, "{status}");
        }
    }
}

#[tokio::test]
async fn r136b_nobody_becomes_an_administrator_by_asking() {
    let house = House::new().await;
    let client = "kubernetes.io/kube-apiserver-client";
    house.made(REQUESTS, request("good", client, &["dev"])).await;
    house.made(REQUESTS, request("elsewhere", "example.com/own", &["system:masters"])).await;
    house.post(REQUESTS, request("bad", client, &["system:masters"])).await.fails(403, "Forbidden");
    let mut garbage = request("garbage", "example.com/own", &[]);
    garbage["spec"]["request"] = STANDARD.encode("garbage").into();
    house.post(REQUESTS, garbage).await.fails(422, "Invalid");
    // Who asks is what the server knows, and what was asked for stays.
    let mut lie = request("lie", "example.com/own", &[]);
    lie["spec"]["username"] = "system:admin".into();
    lie["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let made = house.made(REQUESTS, lie).await;
    assert_ne!(made["spec"]["username"], "system:admin");
    assert_eq!(made["status"], json!({}));
    let path = format!("{REQUESTS}/lie");
    house.merge(&path, json!({"spec": {"signerName": client}})).await.with(200);
    assert_eq!(house.get(&path).await.json["spec"]["signerName"], "example.com/own");
    let both = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]}});
    house.merge(&format!("{path}/approval"), both).await.fails(422, "Invalid");
    // Whoever writes a status repeats the decision, in whatever words, and changes nothing of it.
    let approved = json!({"type": "Approved", "status": "True", "reason": "Checked"});
    let approve = json!({"status": {"conditions": [approved]}});
    let stored = house.merge(&format!("{path}/approval"), approve).await.with(200);
    let repeated = json!({"type": "Approved", "status": "True", "reason": "Other"});
    let failed = json!({"type": "Failed", "status": "True", "reason": "Why"});
    let status = json!({"status": {"conditions": [repeated, failed]}});
    let written = house.merge(&format!("{path}/status"), status).await.with(200);
    assert_eq!(written["status"]["conditions"][0], stored["status"]["conditions"][0]);
    assert_eq!(written["status"]["conditions"][1]["type"], "Failed");
}

#[tokio::test]
async fn r136b_a_bundle_speaks_for_a_signer_by_its_word() {
    let house = House::new().await;
    let bundle = |name: &str, signer: &str| {
        json!({"metadata": {"name": name},
            "spec": {"signerName": signer, "trustBundle": certificate(true)}})
    };
    let rules = json!([{"verbs": ["create"], "apiGroups": ["certificates.k8s.io"],
        "resources": ["clustertrustbundles"]}]);
    grant(&house, "alice", "bundles", rules).await;
    let send = async |body: Value| {
        let headers = [("content-type", JSON)];
        house.ask_as(&peer("alice", &[]), "POST", BUNDLES, &headers, body.to_string()).await.code
    };
    assert_eq!(send(bundle("example.com:s:a", "example.com/s")).await, 403);
    let unsigned =
        json!({"metadata": {"name": "plain"}, "spec": {"trustBundle": certificate(true)}});
    assert_eq!(send(unsigned).await, 201);
    grant(&house, "alice", "attest", on_signers("attest", &["example.com/s"])).await;
    assert_eq!(send(bundle("example.com:s:a", "example.com/s")).await, 201);
}

pub fn pod_request(name: &str, key: &KeyPair) -> Value {
    let stub = CertificateParams::default().serialize_request(key).unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {
            "signerName": "example.com/own", "podName": "p", "podUID": "pu",
            "serviceAccountName": "s", "serviceAccountUID": "su", "nodeName": "n", "nodeUID": "nu",
            "maxExpirationSeconds": 86400, "stubPKCS10Request": STANDARD.encode(stub.der()),
        },
        "status": {"certificateChain": "x"},
    })
}

fn answered(kind: &str) -> Value {
    json!({"conditions": [{"type": kind, "status": "True", "reason": "Why", "message": "",
        "lastTransitionTime": "2024-01-02T03:04:05Z"}]})
}

/// A certificate for the key that began so many seconds ago, as the status of a request.
pub fn issued(key: &KeyPair, seconds_ago: i64) -> Value {
    let begins = jiff::Timestamp::now().as_second() - seconds_ago;
    let time = |seconds: i64| jiff::Timestamp::from_second(seconds).unwrap().to_string();
    let of = |seconds: i64| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds as u64);
    let mut params = CertificateParams::default();
    params.not_before = of(begins).into();
    params.not_after = of(begins + 7200).into();
    let mut status = answered("Issued");
    status["certificateChain"] = params.self_signed(key).unwrap().pem().into();
    status["notBefore"] = time(begins).into();
    status["notAfter"] = time(begins + 7200).into();
    status["beginRefreshAt"] = time(begins + 3600).into();
    status
}

#[tokio::test]
async fn r136e_answering_a_pod_needs_the_right_on_the_signer() {
    let house = House::new().await;
    let key = KeyPair::generate().unwrap();
    let rules = json!([{"verbs": ["patch"], "apiGroups": ["certificates.k8s.io"],
        "resources": ["podcertificaterequests", "podcertificaterequests/status"]}]);
    for (number, (names, good)) in [
        (&[][..], false),
        (&["example.com/other"], false),
        (&["example.com/own"], true),
        (&["example.com/*"], true),
    ]
    .into_iter()
    .enumerate()
    {
        let user = format!("user-{number}");
        grant(&house, &user, &format!("{user}-part"), rules.clone()).await;
        if !names.is_empty() {
            grant(&house, &user, &format!("{user}-signer"), on_signers("sign", names)).await;
        }
        for (part, status) in [("deny", answered("Denied")), ("issue", issued(&key, 0))] {
            let name = format!("{user}-{part}");
            let made = house.made(POD_REQUESTS, pod_request(&name, &key)).await;
            assert_eq!(made["status"], json!({}));
            let path = format!("{POD_REQUESTS}/{name}/status");
            let body = json!({"status": status}).to_string();
            let peer = peer(&user, &[]);
            let headers = [("content-type", MERGE)];
            let answer = house.ask_as(&peer, "PATCH", &path, &headers, body).await;
            if good {
                answer.with(200);
                continue;
            }
            let cause = answer.fails(422, "Invalid")["details"]["causes"][0].clone();
            assert_eq!(cause["field"], "spec.signerName");
            assert_eq!(cause["reason"], "FieldValueForbidden");
            // What is not changed needs no right.
            assert_eq!(code(&house, &peer, &path, &json!({})).await, 200);
        }
    }
}

#[tokio::test]
async fn r136e_what_a_pod_asked_for_stays_and_begins_when_it_is_issued() {
    let house = House::new().await;
    let key = KeyPair::generate().unwrap();
    let mut usual = pod_request("usual", &key);
    usual["spec"].as_object_mut().unwrap().remove("maxExpirationSeconds");
    let usual = house.made(POD_REQUESTS, usual).await;
    assert_eq!(usual["spec"]["maxExpirationSeconds"], 86_400);
    house.made(POD_REQUESTS, pod_request("r", &key)).await;
    let path = format!("{POD_REQUESTS}/r");
    let other = json!({"spec": {"signerName": "example.com/other"}});
    house.merge(&path, other).await.fails(422, "Invalid");
    let late = json!({"status": issued(&key, 301)});
    let late = house.merge(&format!("{path}/status"), late).await.fails(422, "Invalid");
    assert_eq!(late["details"]["causes"][0]["field"], "status.notBefore");
    let timely = json!({"status": issued(&key, 240)});
    house.merge(&format!("{path}/status"), timely).await.with(200);
}
