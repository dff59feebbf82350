//! Rules of spec/api-server.md: who decides on certificates, R136b.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const BUNDLES: &str = "/apis/certificates.k8s.io/v1/clustertrustbundles";
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

fn certificate(authority: bool) -> String {
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
