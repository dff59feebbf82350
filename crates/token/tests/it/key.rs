//! Rules of spec/api-server.md: which keys are read, under which ids, and how they are published.

use serde_json::json;
use tenure_token::{KeyError, KeySet, issue, openid_configuration, verify};

use crate::forge::*;

fn ids(keys: &KeySet) -> Vec<String> {
    let set = keys.jwks();
    let list = set["keys"].as_array().unwrap().iter();
    list.map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn r149_every_form_of_a_key_has_the_same_id() {
    for form in [EC_A, EC_A_SEC1, EC_A_PUBLIC, EC_A_CERTIFICATE] {
        let keys = KeySet::from_pem(EC_B, &[form]).unwrap();
        assert_eq!(ids(&keys)[1..], [EC_A_ID]);
    }
    for form in [RSA, RSA_PKCS1, RSA_PUBLIC, RSA_CERTIFICATE] {
        let keys = KeySet::from_pem(EC_B, &[form]).unwrap();
        assert_eq!(ids(&keys)[1..], [RSA_ID]);
    }
}

#[test]
fn r149_private_keys_of_every_form_sign() {
    for form in [EC_A, EC_A_SEC1] {
        let keys = KeySet::from_pem(form, &[]).unwrap();
        let token = issue(&keys, &claims()).unwrap();
        assert_eq!(part(&token, 0), json!({ "alg": "ES256", "kid": EC_A_ID }));
        assert!(check(&token).is_ok());
    }
    for form in [RSA, RSA_PKCS1] {
        let keys = KeySet::from_pem(form, &[]).unwrap();
        let token = issue(&keys, &claims()).unwrap();
        assert_eq!(part(&token, 0), json!({ "alg": "RS256", "kid": RSA_ID }));
        assert!(verify(&keys, &token, NOW, ISSUER, &[ISSUER]).is_ok());
    }
}

#[test]
fn r149_a_token_signed_elsewhere_verifies_with_a_certificate() {
    // Both tokens were signed by OpenSSL.
    for (token, certificate, id) in [
        (include_str!("keys/rs256.jwt"), RSA_CERTIFICATE, "t-2"),
        (include_str!("keys/es256.jwt"), EC_A_CERTIFICATE, "t-1"),
    ] {
        let keys = KeySet::from_pem(EC_B, &[certificate]).unwrap();
        let verified = verify(&keys, token.trim(), NOW, ISSUER, &[ISSUER]).unwrap();
        assert_eq!(verified.id, id);
        assert_eq!(verified.username(), "system:serviceaccount:default:builder");
        assert_eq!(verified.bound.unwrap().uid, "p-1");
    }
}

#[test]
fn r149_a_changed_rs256_token_is_refused() {
    let keys = KeySet::from_pem(EC_B, &[RSA_CERTIFICATE]).unwrap();
    let token = include_str!("keys/rs256.jwt").trim();
    let (message, signature) = token.rsplit_once('.').unwrap();
    assert!(message.contains("eyJhdWQi"));
    for forged in [
        format!("{message}.{}", encode([0; 256])),
        format!("{message}.{}", encode([])),
        format!("{}.{signature}", message.replacen("eyJhdWQi", "eyJhdXQi", 1)),
    ] {
        assert!(verify(&keys, &forged, NOW, ISSUER, &[ISSUER]).is_err());
    }
}

#[test]
fn r149_after_a_rotation_the_old_key_verifies_and_the_new_one_signs() {
    let old = token();
    let keys = KeySet::from_pem(EC_B, &[EC_A_PUBLIC]).unwrap();
    assert!(verify(&keys, &old, NOW, ISSUER, &[ISSUER]).is_ok());
    let new = issue(&keys, &claims()).unwrap();
    assert_eq!(part(&new, 0)["kid"], keys.signing_id());
    assert_ne!(keys.signing_id(), EC_A_ID);
    assert!(verify(&keys, &new, NOW, ISSUER, &[ISSUER]).is_ok());
    assert!(check(&new).is_err(), "the old keys know nothing of the new one");
    let dropped = KeySet::from_pem(EC_B, &[]).unwrap();
    assert!(verify(&dropped, &old, NOW, ISSUER, &[ISSUER]).is_err());
}

#[test]
fn r149_one_text_may_hold_several_keys_and_a_key_may_come_twice() {
    let text = format!("# keys\n{EC_A_SEC1}\n{RSA_CERTIFICATE}{EC_A_PUBLIC}");
    let keys = KeySet::from_pem(EC_B, &[&text, RSA_PUBLIC, EC_B]).unwrap();
    assert_eq!(ids(&keys), [keys.signing_id(), EC_A_ID, RSA_ID]);
}

#[test]
fn r149_other_keys_are_named_as_faults() {
    let error = |signing: &str, other: &str| KeySet::from_pem(signing, &[other]).unwrap_err();
    let p384 = include_str!("keys/ec-384.pem");
    assert_eq!(KeySet::from_pem(p384, &[]).unwrap_err(), KeyError::Unsupported);
    assert_eq!(error(EC_A, p384), KeyError::Unsupported);
    for other in [
        include_str!("keys/ec-384-public.pem"),
        include_str!("keys/secp256k1-public.pem"),
        include_str!("keys/rsa-1024-public.pem"),
        include_str!("keys/ed25519-public.pem"),
    ] {
        assert_eq!(error(EC_A, other), KeyError::Unsupported);
    }
    assert_eq!(KeySet::from_pem("", &[]).unwrap_err(), KeyError::Missing);
    assert_eq!(KeySet::from_pem(EC_A_PUBLIC, &[]).unwrap_err(), KeyError::Missing);
    assert_eq!(error(EC_A, "no key"), KeyError::Missing);
    assert_eq!(error(EC_A, &EC_A_PUBLIC[..100]), KeyError::Pem);
    let empty = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
    assert_eq!(error(EC_A, empty), KeyError::Unreadable);
}

#[test]
fn r149_keys_do_not_print_themselves() {
    assert_eq!(format!("{:?}", keys()), format!("[{EC_A_ID:?}]"));
}

#[test]
fn r51_keys_are_published_without_their_private_half() {
    let keys = KeySet::from_pem(EC_A, &[RSA]).unwrap();
    let set = keys.jwks();
    let names =
        |index: usize| set["keys"][index].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(0), ["alg", "crv", "kid", "kty", "use", "x", "y"]);
    assert_eq!(names(1), ["alg", "e", "kid", "kty", "n", "use"]);
    // Coordinates as OpenSSL prints them.
    assert_eq!(set["keys"][0]["x"], "-yyGav27oMt5F-yrKp5yjoyNi9CNbjBKEgfll3rZQQM");
    assert_eq!(set["keys"][0]["y"], "03Q97PNhbpKHNSJykSa44CflkDPT1siddXooK3BxEX4");
    assert_eq!(set["keys"][1]["e"], "AQAB");
    assert_eq!(set["keys"][1]["n"].as_str().unwrap().len(), 342, "256 bytes, no leading zero");
}

#[test]
fn r51_discovery_names_issuer_keys_and_algorithms() {
    let uri = "https://10.0.0.1:6443/openid/v1/jwks";
    let keys = KeySet::from_pem(RSA, &[EC_A]).unwrap();
    assert_eq!(
        openid_configuration(&keys, ISSUER, uri),
        json!({
            "issuer": ISSUER, "jwks_uri": uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256", "RS256"],
        })
    );
}
