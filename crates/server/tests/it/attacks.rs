//! Rules of spec/dependencies.md: every forged credential is refused by the whole server, and the audit
//! log says who was seen, what was answered and why.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PublicKeyData as _};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use tenure_server::Peer;
use tenure_server::audit::AuditLevel;
use tenure_token::{KeySet, TOKEN_BYTES_MAX};

use crate::house::{CONFIG_MAPS, House, PODS, SECRETS, admin, named, peer, pod};
use crate::paper::Paper;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

const ROBOT: &str = "system:serviceaccount:default:robot";

const MALFORMED: &str = "the token is malformed";
const ALGORITHM: &str = "the token's signing algorithm is not accepted";
const UNKNOWN_KEY: &str = "the token names an unknown key";
const SIGNATURE: &str = "the token's signature does not hold";
const CLAIMS: &str = "the token's claims cannot be read";
const ACCOUNT_GONE: &str = "the token's service account is gone";
const BOUND_GONE: &str = "the object the token is bound to is gone";

/// A server whose keys the attacker knows better than an attacker should.
struct Scene {
    house: House,
    paper: Paper,
    signing: KeyPair,
    /// A second key that verifies.
    older: KeyPair,
}

impl Scene {
    /// A server with an account `robot` that may list pods.
    async fn new() -> Scene {
        let (signing, older) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let others = older.public_key_pem();
        let keys = KeySet::from_pem(&signing.serialize_pem(), &[&others]).unwrap();
        let paper = Paper::new(AuditLevel::RequestResponse);
        let house = House::with(keys, Some(paper.audit.clone())).await;
        house.made(ACCOUNTS, named("robot")).await;
        let rule = json!({ "verbs": ["list"], "apiGroups": [""], "resources": ["pods"] });
        let role = json!({ "metadata": { "name": "look" }, "rules": [rule] });
        house.made(ROLES, role).await;
        house
            .made(
                BINDINGS,
                binding(
                    "look",
                    &json!({
                        "kind": "ServiceAccount", "namespace": "default", "name": "robot",
                    }),
                ),
            )
            .await;
        paper.text().await;
        Scene { house, paper, signing, older }
    }

    /// A token of the account, as the server grants it.
    async fn token(&self, spec: Value) -> String {
        let path = format!("{ACCOUNTS}/robot/token");
        let granted = self.house.made(&path, json!({ "spec": spec })).await;
        self.paper.text().await;
        granted["status"]["token"].as_str().unwrap().to_owned()
    }

    /// Asks for the pods with an Authorization header; answers the code and the audit line.
    async fn present(&self, credential: &str) -> (u16, Value) {
        let headers = [("authorization", credential)];
        let answer = self.house.ask_as(&Peer::new(None), "GET", PODS, &headers, "").await;
        let line = self.paper.line().await;
        assert_eq!(line["auditID"], answer.header("audit-id"));
        assert_eq!(line["responseStatus"]["code"], answer.code);
        if answer.code == 401 {
            // Why is for the log; the client learns nothing that would help it.
            assert_eq!(answer.json["message"], "Unauthorized");
        }
        (answer.code, line)
    }

    async fn holds(&self, token: &str) {
        let (code, line) = self.present(&format!("Bearer {token}")).await;
        assert_eq!(code, 200, "{line:#}");
        assert_eq!(line["user"]["username"], ROBOT);
    }

    /// Checks that a token is refused for a reason, and that the log does not hold it.
    #[track_caller]
    fn is_refused(&self, what: &str, (code, line): (u16, Value), token: &str, why: &str) {
        assert_eq!(code, 401, "{what}: {line:#}");
        assert_eq!(line["user"], json!({}), "{what}");
        assert_eq!(line["responseStatus"]["message"], format!("Unauthorized: {why}"), "{what}");
        assert_eq!(line["responseStatus"]["reason"], "Unauthorized", "{what}");
        assert_eq!(line["objectRef"]["resource"], "pods", "{what}");
        assert_eq!(line["annotations"], json!({}), "{what}: nothing was decided");
        assert!(token.len() < 20 || !line.to_string().contains(token), "{what}");
    }

    async fn refused(&self, what: &str, token: &str, why: &str) {
        let seen = self.present(&format!("Bearer {token}")).await;
        self.is_refused(what, seen, token, why);
    }
}

fn binding(role: &str, subject: &Value) -> Value {
    json!({
        "metadata": { "name": role },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    })
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn part(token: &str, at: usize) -> Value {
    serde_json::from_slice(&raw_part(token, at)).unwrap()
}

fn raw_part(token: &str, at: usize) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(token.split('.').nth(at).unwrap()).unwrap()
}

/// Header and payload as they are given, signed by a key, however little sense they make.
fn sign(key: &KeyPair, header: &str, payload: &str) -> String {
    let message = format!("{}.{}", encode(header), encode(payload));
    let random = SystemRandom::new();
    let der = key.serialize_der();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
    let signature = pair.sign(&random, message.as_bytes()).unwrap();
    format!("{message}.{}", encode(signature))
}

/// A value with one member changed.
fn changed(value: &Value, pointer: &str, to: Value) -> String {
    let mut value = value.clone();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[member] = to;
    value.to_string()
}

#[tokio::test]
async fn r24_forged_signatures_are_refused_and_written_down() {
    let scene = Scene::new().await;
    let good = scene.token(json!({})).await;
    scene.holds(&good).await;
    let (header, claims) = (part(&good, 0), part(&good, 1).to_string());
    let id = header["kid"].as_str().unwrap();
    // The forger can also be honest, so the forgeries below fail for what they change.
    scene.holds(&sign(&scene.signing, &header.to_string(), &claims)).await;

    let [_, payload, signature] = *good.split('.').collect::<Vec<_>>() else { panic!("{good}") };
    for name in ["none", "None", "NONE", "nOnE", ""] {
        let head = encode(json!({ "alg": name, "kid": id }).to_string());
        scene.refused(name, &format!("{head}.{payload}."), ALGORITHM).await;
        scene.refused(name, &format!("{head}.{payload}.{signature}"), ALGORITHM).await;
    }
    let pem = scene.signing.public_key_pem();
    let der = STANDARD.decode(pem.lines().filter(|l| !l.starts_with('-')).collect::<String>());
    for secret in [pem.as_bytes(), pem.trim().as_bytes(), &der.unwrap(), scene.signing.der_bytes()]
    {
        for name in ["HS256", "HS384", "HS512"] {
            let head = json!({ "alg": name, "kid": id }).to_string();
            let message = format!("{}.{payload}", encode(head));
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            let forged = format!("{message}.{}", encode(hmac::sign(&key, message.as_bytes())));
            scene.refused("the public key as secret", &forged, ALGORITHM).await;
        }
    }
    let stranger = KeyPair::generate().unwrap();
    let keys = KeySet::from_pem(&stranger.serialize_pem(), &[]).unwrap();
    let older = KeySet::from_pem(&scene.older.serialize_pem(), &[]).unwrap();
    let mut jwk = keys.jwks()["keys"][0].clone();
    jwk["kid"] = id.into();
    let head = |kid: &str| json!({ "alg": "ES256", "kid": kid });
    for (what, key, head, why) in [
        ("a key of somebody else", &stranger, head(id), SIGNATURE),
        ("no id", &stranger, json!({ "alg": "ES256" }), SIGNATURE),
        ("the id of its own key", &stranger, head(keys.signing_id()), UNKNOWN_KEY),
        ("the id of another key of ours", &scene.signing, head(older.signing_id()), SIGNATURE),
        ("our key under the id of another", &scene.older, head(id), SIGNATURE),
        ("an id that is a path", &scene.signing, head("../../dev/null"), UNKNOWN_KEY),
        ("an id that is a query", &scene.signing, head("' or 1=1 --"), UNKNOWN_KEY),
        (
            "an id of another type",
            &scene.signing,
            json!({ "alg": "ES256", "kid": [id] }),
            MALFORMED,
        ),
        ("a key brought along", &stranger, json!({ "alg": "ES256", "jwk": jwk }), SIGNATURE),
        (
            "a demand",
            &scene.signing,
            json!({ "alg": "ES256", "kid": id, "crit": ["b64"] }),
            MALFORMED,
        ),
        (
            "an empty demand",
            &scene.signing,
            json!({ "alg": "ES256", "kid": id, "crit": [] }),
            MALFORMED,
        ),
        (
            "the algorithm of other keys",
            &scene.signing,
            json!({ "alg": "RS256", "kid": id }),
            ALGORITHM,
        ),
    ] {
        scene.refused(what, &sign(key, &head.to_string(), &claims), why).await;
    }
    // An older key that still verifies is no attack.
    scene.holds(&sign(&scene.older, &head(older.signing_id()).to_string(), &claims)).await;
    let twice = [
        format!(r#"{{"alg":"none","alg":"ES256","kid":"{id}"}}"#),
        format!(r#"{{"alg":"ES256","kid":"x","kid":"{id}"}}"#),
    ];
    for head in twice {
        scene.refused("a member twice", &sign(&scene.signing, &head, &claims), MALFORMED).await;
    }
}

#[tokio::test]
async fn r24_forged_claims_are_refused_and_written_down() {
    let scene = Scene::new().await;
    let good = scene.token(json!({})).await;
    let (header, claims) = (part(&good, 0).to_string(), part(&good, 1));
    let now = claims["iat"].as_i64().unwrap();
    let own = claims["iss"].as_str().unwrap();
    let subject = |name: &str| json!(format!("system:serviceaccount:{name}"));
    for (what, pointer, to, why) in [
        ("another issuer", "/iss", json!("https://elsewhere"), "the token is from another issuer"),
        (
            "an issuer that begins alike",
            "/iss",
            json!(format!("{own}/")),
            "the token is from another issuer",
        ),
        ("another audience", "/aud", json!(["elsewhere"]), "the token is for other audiences"),
        (
            "an audience that begins alike",
            "/aud",
            json!([format!("{own}.evil")]),
            "the token is for other audiences",
        ),
        ("no audience", "/aud", json!([]), CLAIMS),
        ("expired", "/exp", json!(now), CLAIMS),
        ("expiry as text", "/exp", json!((now + 3600).to_string()), CLAIMS),
        ("expiry with a fraction", "/exp", json!(now as f64 + 3600.5), CLAIMS),
        ("no expiry", "/exp", Value::Null, CLAIMS),
        ("not yet valid", "/nbf", json!(now + 600), "the token is not valid yet"),
        ("made in the future", "/iat", json!(now + 600), "the token was issued in the future"),
        ("another subject", "/sub", subject("kube-system:default"), CLAIMS),
        ("another account", "/kubernetes.io/serviceaccount/name", json!("default"), CLAIMS),
        ("another uid", "/kubernetes.io/serviceaccount/uid", json!("x"), ACCOUNT_GONE),
        ("an unknown binding", "/kubernetes.io/volume", json!({ "name": "v", "uid": "u" }), CLAIMS),
        (
            "a pod that never was",
            "/kubernetes.io/pod",
            json!({ "name": "p", "uid": "u" }),
            BOUND_GONE,
        ),
    ] {
        let mut payload = changed(&claims, pointer, to);
        let mut why = why;
        if what == "expired" {
            // Begun and ended long ago, and signed rightly.
            let mut old = claims.clone();
            for (member, ago) in [("iat", 7200), ("nbf", 7200), ("exp", 3600)] {
                old[member] = json!(now - ago);
            }
            payload = old.to_string();
            why = "the token has expired";
        }
        scene.refused(what, &sign(&scene.signing, &header, &payload), why).await;
    }
    let twice = claims.to_string().replacen('{', &format!(r#"{{"aud":["x"],"exp":{now},"#), 1);
    scene.refused("claims twice", &sign(&scene.signing, &header, &twice), CLAIMS).await;
}

#[tokio::test]
async fn r24_broken_credentials_are_refused_and_written_down() {
    let scene = Scene::new().await;
    let good = scene.token(json!({})).await;
    let cut = |end: usize| good[..end].to_owned();
    let last = good.len();
    let second_dot = good.rfind('.').unwrap();
    let giant = format!("{good}.{}", "A".repeat(TOKEN_BYTES_MAX));
    let huge = sign(&scene.signing, &part(&good, 0).to_string(), &"x".repeat(TOKEN_BYTES_MAX));
    for (what, token, why) in [
        ("without its last letters", cut(last - 2), SIGNATURE),
        ("without a signature", cut(second_dot + 1), SIGNATURE),
        ("without its third part", cut(second_dot), MALFORMED),
        ("half", cut(last / 2), MALFORMED),
        ("with a fourth part", format!("{good}.x"), MALFORMED),
        ("giant", giant, "the token is too long"),
        ("giant and signed", huge, "the token is too long"),
        ("dots", "..".to_owned(), MALFORMED),
        ("letters", "garbage".to_owned(), MALFORMED),
        ("padded", format!("{good}=="), MALFORMED),
    ] {
        scene.refused(what, &token, why).await;
    }
    for (what, credential, why) in [
        ("two tokens, the first one wrong", format!("Bearer x {good}"), MALFORMED),
        ("two with a comma", format!("Bearer {good}, Bearer {good}"), MALFORMED),
    ] {
        let seen = scene.present(&credential).await;
        scene.is_refused(what, seen, &good, why);
    }
    // What is no bearer token is nobody's.
    for credential in
        [format!("Basic {good}"), good.clone(), "Bearer".to_owned(), "Bearer ".to_owned()]
    {
        let headers = [("authorization", credential.as_str())];
        let nobody = Peer::new(None);
        scene.house.ask_as(&nobody, "GET", PODS, &headers, "").await.fails(403, "Forbidden");
        let line = scene.paper.line().await;
        assert_eq!(line["user"]["username"], "system:anonymous");
        assert!(!line.to_string().contains(&good), "{line}");
    }
    // Two headers: neither counts, whichever a proxy before us looked at.
    let bearer = format!("Bearer {good}");
    for second in [bearer.as_str(), "Bearer x"] {
        let headers = [("authorization", bearer.as_str()), ("authorization", second)];
        let nobody = Peer::new(None);
        scene.house.ask_as(&nobody, "GET", PODS, &headers, "").await.fails(401, "Unauthorized");
        let line = scene.paper.line().await;
        assert_eq!(line["user"], json!({}));
    }
}

#[tokio::test]
async fn r24_a_token_elsewhere_than_in_its_header_counts_for_nothing() {
    let scene = Scene::new().await;
    let good = scene.token(json!({})).await;
    let (query, cookie) = (format!("{PODS}?access_token={good}"), format!("token={good}"));
    let protocol = format!("base64url.bearer.authorization.k8s.io.{}", encode(&good));
    for (path, headers) in [
        (query.as_str(), vec![]),
        (PODS, vec![("cookie", cookie.as_str())]),
        (PODS, vec![("x-remote-user", "admin"), ("x-remote-group", "system:masters")]),
        (PODS, vec![("sec-websocket-protocol", protocol.as_str())]),
        (PODS, vec![("proxy-authorization", good.as_str())]),
    ] {
        let answer = scene.house.ask_as(&Peer::new(None), "GET", path, &headers, "").await;
        answer.fails(403, "Forbidden");
        let line = scene.paper.line().await;
        assert_eq!(line["user"]["username"], "system:anonymous");
        assert_eq!(line["responseStatus"]["code"], 403);
        assert_eq!(line["annotations"]["authorization.k8s.io/decision"], "forbid");
        assert!(!line.to_string().contains(&good), "{line:#}");
    }
}

#[tokio::test]
async fn r24_a_token_ends_with_what_it_is_bound_to() {
    let scene = Scene::new().await;
    let house = &scene.house;
    let mut robot_pod = pod("p");
    robot_pod["spec"]["serviceAccountName"] = "robot".into();
    for (kind, path, object) in [("Pod", PODS, robot_pod), ("Secret", SECRETS, named("p"))] {
        house.made(path, object.clone()).await;
        let reference = json!({ "kind": kind, "apiVersion": "v1", "name": "p" });
        let token = scene.token(json!({ "boundObjectRef": reference })).await;
        scene.holds(&token).await;
        let one = format!("{path}/p");
        house.delete_with(&one, json!({ "gracePeriodSeconds": 0 })).await.with(200);
        house.until(&one, 404).await;
        scene.paper.text().await;
        scene.refused("deleted", &token, BOUND_GONE).await;
        house.made(path, object).await;
        scene.paper.text().await;
        scene.refused("another of that name", &token, BOUND_GONE).await;
    }
    let token = scene.token(json!({})).await;
    house.delete(&format!("{ACCOUNTS}/robot")).await.with(200);
    scene.paper.text().await;
    scene.refused("without its account", &token, ACCOUNT_GONE).await;
    house.made(ACCOUNTS, named("robot")).await;
    scene.paper.text().await;
    scene.refused("another account of that name", &token, ACCOUNT_GONE).await;
}

#[tokio::test]
async fn r24_a_certificate_that_proves_nothing_is_not_anonymous() {
    let scene = Scene::new().await;
    let good = format!("Bearer {}", scene.token(json!({})).await);
    for (headers, code, user) in [
        (vec![], 401, Value::Null),
        (vec![("authorization", "")], 401, Value::Null),
        (vec![("authorization", "Bearer x")], 401, Value::Null),
        (vec![("authorization", good.as_str())], 200, json!(ROBOT)),
    ] {
        let answer = scene.house.ask_as(&Peer::untrusted(), "GET", PODS, &headers, "").await;
        assert_eq!(answer.code, code, "{headers:?}");
        let line = scene.paper.line().await;
        assert_eq!(line["user"]["username"], user);
        assert_eq!(line["responseStatus"]["code"], code);
    }
    let answer = scene.house.ask_as(&Peer::untrusted(), "GET", "/healthz", &[], "").await;
    answer.fails(401, "Unauthorized");
    let line = scene.paper.line().await;
    let why = "Unauthorized: the client certificate is not trusted";
    assert_eq!(line["responseStatus"]["message"], why);
}

#[tokio::test]
async fn r24_impersonation_without_the_right_is_refused_and_written_down() {
    let scene = Scene::new().await;
    let rules = json!([
        { "verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
          "resourceNames": ["alice"] },
    ]);
    scene.house.made(ROLES, json!({ "metadata": { "name": "act" }, "rules": rules })).await;
    let helper =
        json!({ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "helper" });
    scene.house.made(BINDINGS, binding("act", &helper)).await;
    scene.paper.text().await;
    let (outsider, helper) = (peer("outsider", &[]), peer("helper", &[]));
    let alice = ("impersonate-user", "alice");
    for (who, name, headers, code) in [
        (&outsider, "outsider", vec![alice], 403),
        (&helper, "helper", vec![("impersonate-user", "kubernetes-admin")], 403),
        (&helper, "helper", vec![("impersonate-user", ROBOT)], 403),
        (&helper, "helper", vec![alice, ("impersonate-group", "system:masters")], 403),
        (
            &helper,
            "helper",
            vec![alice, ("impersonate-group", "a"), ("impersonate-group", "b")],
            403,
        ),
        (&helper, "helper", vec![alice, ("impersonate-uid", "0")], 403),
        (&helper, "helper", vec![alice, ("impersonate-extra-scopes", "all")], 403),
        (&helper, "helper", vec![("impersonate-group", "system:masters")], 400),
        (&helper, "helper", vec![("impersonate-uid", "0")], 400),
        (&helper, "helper", vec![("impersonate-extra-scopes", "all")], 400),
    ] {
        let answer = scene.house.ask_as(who, "GET", CONFIG_MAPS, &headers, "").await;
        assert_eq!(answer.code, code, "{headers:?}");
        let line = scene.paper.line().await;
        assert_eq!(line["user"]["username"], name, "{headers:?}");
        assert_eq!(line["responseStatus"]["code"], code);
        assert_eq!(line["impersonatedUser"], Value::Null, "{headers:?}");
        let decision = &line["annotations"]["authorization.k8s.io/decision"];
        assert_eq!(*decision, if code == 403 { json!("forbid") } else { Value::Null });
    }
    // Who may act as alice has her rights, which are none.
    scene.house.ask_as(&helper, "GET", CONFIG_MAPS, &[alice], "").await.fails(403, "Forbidden");
    let line = scene.paper.line().await;
    assert_eq!(line["user"]["username"], "helper");
    assert_eq!(line["impersonatedUser"]["username"], "alice");
    // Letters that cannot be a name are no way to be forgotten.
    for name in ["impersonate-user", "impersonate-group", "impersonate-uid", "impersonate-extra-x"]
    {
        let value = http::HeaderValue::from_bytes(b"\xff\xfe").unwrap();
        let mut request = crate::house::build("GET", PODS, &[alice], "");
        request.headers_mut().insert(http::HeaderName::from_static(name), value);
        let answer = scene.house.send(admin(), request).await;
        assert_eq!(answer.status(), 400, "{name}");
        drop(answer);
        assert_eq!(scene.paper.line().await["responseStatus"]["code"], 400);
    }
}

#[tokio::test]
async fn r24_a_token_in_a_body_never_reaches_the_log() {
    let scene = Scene::new().await;
    let token = scene.token(json!({})).await;
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    scene.house.made(review, json!({ "spec": { "token": token } })).await;
    let spec = json!({ "spec": { "expirationSeconds": 3600 } });
    scene.house.made(&format!("{ACCOUNTS}/robot/token"), spec).await;
    let text = scene.paper.text().await;
    assert_eq!(text.lines().count(), 2);
    assert!(!text.contains("eyJ"), "something that looks like a token: {text}");
    assert_eq!(raw_part(&token, 0)[0], b'{', "all tokens begin so");
}
