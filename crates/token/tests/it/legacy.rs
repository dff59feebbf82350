//! Tokens that Secrets hold (spec/api-server.md R149).

use serde_json::json;
use tenure_token::{LegacyClaims, ObjectLiveness, TokenErrorReason, issue_legacy, verify};

use crate::forge::{ISSUER, NOW, check, claims, keys, part, sign};

fn legacy() -> LegacyClaims {
    LegacyClaims { subject: claims().subject, secret: "t".to_owned() }
}

fn token() -> String {
    issue_legacy(&keys(), &legacy()).unwrap()
}

#[test]
fn r149_a_token_that_a_secret_holds_says_what_upstreams_says() {
    let payload = part(&token(), 1);
    assert_eq!(
        payload,
        json!({
            "iss": "kubernetes/serviceaccount",
            "sub": "system:serviceaccount:default:builder",
            "kubernetes.io/serviceaccount/namespace": "default",
            "kubernetes.io/serviceaccount/secret.name": "t",
            "kubernetes.io/serviceaccount/service-account.name": "builder",
            "kubernetes.io/serviceaccount/service-account.uid": "a-1",
        })
    );
    let verified = check(&token()).unwrap();
    assert!(verified.is_legacy());
    assert_eq!(verified.username(), "system:serviceaccount:default:builder");
    assert!(verified.extra().is_empty(), "no id of a credential");
    assert_eq!(verified.audiences, [ISSUER]);
    let elsewhere = verify(&keys(), &token(), NOW, ISSUER, &["vault"]);
    assert_eq!(elsewhere.map_err(|refused| refused.reason), Err(TokenErrorReason::Audience));
    // Whatever it leaves out, or says besides, might have limited it.
    for (member, value) in [
        ("sub", json!("system:serviceaccount:default:other")),
        ("sub", json!(null)),
        ("exp", json!(NOW - 1000)),
        ("kubernetes.io/serviceaccount/secret.name", json!("")),
        ("kubernetes.io/serviceaccount/service-account.uid", json!(1)),
    ] {
        let mut payload = payload.clone();
        payload[member] = value;
        assert_eq!(check(&sign(&payload)), Err(TokenErrorReason::Claims), "{member}");
    }
    let mut both = payload;
    both["kubernetes.io"] = json!({});
    assert_eq!(check(&sign(&both)), Err(TokenErrorReason::Claims));
    let unsound = LegacyClaims { secret: String::new(), ..legacy() };
    assert!(issue_legacy(&keys(), &unsound).is_err());
}

#[test]
fn r149_a_token_that_a_secret_holds_ends_at_once() {
    let token = token();
    let verified = check(&token).unwrap();
    let alive = |uid| Some(ObjectLiveness { uid, deleted_at: None });
    let deleted = |uid| Some(ObjectLiveness { uid, deleted_at: Some(NOW) });
    let stands =
        |account, bound| verified.stands(NOW, account, bound).map_err(|refused| refused.reason);
    assert_eq!(stands(alive("a-1"), alive("any")), Ok(()));
    assert_eq!(stands(alive("a-2"), alive("any")), Err(TokenErrorReason::AccountGone));
    assert_eq!(stands(deleted("a-1"), alive("any")), Err(TokenErrorReason::AccountGone));
    assert_eq!(stands(alive("a-1"), deleted("any")), Err(TokenErrorReason::BoundGone));
    assert_eq!(stands(alive("a-1"), None), Err(TokenErrorReason::BoundGone));
    assert!(verified.is_held_as(token.as_bytes()));
    assert!(!verified.is_held_as(b"other"));
    assert_eq!(verified.ends_at(alive("a-1"), alive("any")), i64::MAX);
}
