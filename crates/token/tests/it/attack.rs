//! Rules of spec/dependencies.md: every token but the right one is refused, for a stated reason.

use ring::hmac;
use serde_json::json;
use tenure_token::{
    BoundKind, BoundObject, KeySet, LEEWAY_SECONDS, ObjectLiveness, TOKEN_BYTES_MAX,
    TokenErrorReason, issue, verify,
};

use crate::forge::*;

#[test]
fn r24_the_right_token_holds() {
    let verified = check(&token()).unwrap();
    assert_eq!(verified.username(), "system:serviceaccount:default:builder");
    assert_eq!(verified.uid, "a-1");
    assert_eq!(verified.audiences, [ISSUER]);
    assert!(check(&sign(&payload())).is_ok(), "the forger can also be honest");
}

#[test]
fn r24_algorithm_none_is_refused() {
    for name in ["none", "None", "NONE", "nOnE", ""] {
        for header in [json!({ "alg": name }), json!({ "alg": name, "kid": EC_A_ID })] {
            let message =
                format!("{}.{}", encode(header.to_string()), encode(payload().to_string()));
            let signature = token().rsplit_once('.').unwrap().1.to_owned();
            assert_eq!(check(&format!("{message}.")), Err(TokenErrorReason::Algorithm));
            assert_eq!(check(&format!("{message}.{signature}")), Err(TokenErrorReason::Algorithm));
            assert_eq!(check(&message), Err(TokenErrorReason::Malformed), "without a third part");
        }
    }
}

#[test]
fn r24_missing_or_odd_algorithm_is_refused() {
    for header in [
        json!({ "kid": EC_A_ID }),
        json!({ "alg": null, "kid": EC_A_ID }),
        json!({ "alg": ["ES256"], "kid": EC_A_ID }),
        json!({ "alg": 256, "kid": EC_A_ID }),
    ] {
        let token = sign_raw(EC_A, &header.to_string(), &payload().to_string());
        assert_eq!(check(&token), Err(TokenErrorReason::Malformed), "{header}");
    }
    for name in ["es256", "ES256 ", "ES384", "ES256K", "PS256", "RS384", "EdDSA", "HS256"] {
        let header = json!({ "alg": name, "kid": EC_A_ID });
        let token = sign_raw(EC_A, &header.to_string(), &payload().to_string());
        assert_eq!(check(&token), Err(TokenErrorReason::Algorithm), "{name}");
    }
}

#[test]
fn r24_algorithm_confusion_with_the_public_key_as_secret_is_refused() {
    let lines = EC_A_PUBLIC.lines().filter(|line| !line.starts_with('-')).collect::<String>();
    let der = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, lines).unwrap();
    for secret in [EC_A_PUBLIC.as_bytes(), EC_A_PUBLIC.trim().as_bytes(), &der, &der[26..]] {
        for header in [json!({ "alg": "HS256" }), json!({ "alg": "HS256", "kid": EC_A_ID })] {
            let message =
                format!("{}.{}", encode(header.to_string()), encode(payload().to_string()));
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            let forged = format!("{message}.{}", encode(hmac::sign(&key, message.as_bytes())));
            assert_eq!(check(&forged), Err(TokenErrorReason::Algorithm));
        }
    }
}

#[test]
fn r24_algorithm_that_the_named_key_is_not_for_is_refused() {
    let keys = KeySet::from_pem(EC_A, &[RSA_PUBLIC]).unwrap();
    for (algorithm, id) in [("RS256", EC_A_ID), ("ES256", RSA_ID)] {
        let header = json!({ "alg": algorithm, "kid": id });
        let token = sign_raw(EC_A, &header.to_string(), &payload().to_string());
        let refused = verify(&keys, &token, NOW, ISSUER, &[ISSUER]).unwrap_err();
        assert_eq!(refused.reason, TokenErrorReason::Algorithm);
    }
}

#[test]
fn r24_wrong_key_is_refused() {
    let under_our_id = sign_raw(EC_B, &header().to_string(), &payload().to_string());
    assert_eq!(check(&under_our_id), Err(TokenErrorReason::Signature));
    let without_id = sign_raw(EC_B, r#"{"alg":"ES256"}"#, &payload().to_string());
    assert_eq!(check(&without_id), Err(TokenErrorReason::Signature));
}

#[test]
fn r24_unknown_key_id_is_refused() {
    for id in ["x", "../ec-a.pem", &EC_A_ID.to_lowercase(), &format!("{EC_A_ID} ")] {
        let header = json!({ "alg": "ES256", "kid": id });
        // The signature is right, so only the id speaks against it.
        let token = sign_raw(EC_A, &header.to_string(), &payload().to_string());
        assert_eq!(check(&token), Err(TokenErrorReason::UnknownKey), "{id}");
    }
    for id in [json!(1), json!(null), json!([EC_A_ID])] {
        let header = json!({ "alg": "ES256", "kid": id });
        let token = sign_raw(EC_A, &header.to_string(), &payload().to_string());
        assert_eq!(check(&token), Err(TokenErrorReason::Malformed), "{id}");
    }
}

#[test]
fn r24_missing_key_id_tries_every_key_of_the_algorithm() {
    let keys = KeySet::from_pem(EC_B, &[RSA_PUBLIC, EC_A_PUBLIC]).unwrap();
    for header in [r#"{"alg":"ES256"}"#, r#"{"alg":"ES256","kid":""}"#] {
        let token = sign_raw(EC_A, header, &payload().to_string());
        assert!(verify(&keys, &token, NOW, ISSUER, &[ISSUER]).is_ok());
    }
    let token = sign_raw(EC_A, r#"{"alg":"RS256"}"#, &payload().to_string());
    let refused = verify(&keys, &token, NOW, ISSUER, &[ISSUER]).unwrap_err();
    assert_eq!(refused.reason, TokenErrorReason::Signature);
}

#[test]
fn r24_keys_that_a_token_brings_along_are_not_used() {
    let attacker = KeySet::from_pem(EC_B, &[]).unwrap();
    let mut jwk = attacker.jwks()["keys"][0].clone();
    for id in [attacker.signing_id(), EC_A_ID] {
        jwk["kid"] = id.into();
        let header = json!({ "alg": "ES256", "jwk": jwk, "jku": "https://e/", "x5c": ["AA"] });
        let token = sign_raw(EC_B, &header.to_string(), &payload().to_string());
        assert_eq!(check(&token), Err(TokenErrorReason::Signature));
    }
}

#[test]
fn r24_demanded_extensions_are_refused() {
    for crit in [json!(["b64"]), json!([]), json!(null)] {
        let header = json!({ "alg": "ES256", "kid": EC_A_ID, "b64": false, "crit": crit });
        let token = sign_raw(EC_A, &header.to_string(), &payload().to_string());
        assert_eq!(check(&token), Err(TokenErrorReason::Malformed));
    }
}

#[test]
fn r24_expired_is_refused() {
    let last = NOW + 3600 + LEEWAY_SECONDS;
    assert!(check_at(&token(), last).is_ok());
    assert_eq!(check_at(&token(), last + 1), Err(TokenErrorReason::Expired));
    assert_eq!(check_at(&token(), i64::MAX), Err(TokenErrorReason::Expired));
}

#[test]
fn r24_not_yet_valid_is_refused() {
    let first = NOW - LEEWAY_SECONDS;
    assert!(check_at(&token(), first).is_ok());
    assert_eq!(check_at(&token(), first - 1), Err(TokenErrorReason::NotYetValid));
    assert_eq!(check_at(&token(), i64::MIN), Err(TokenErrorReason::NotYetValid));
}

#[test]
fn r24_issued_in_the_future_is_refused() {
    let mut payload = payload();
    payload["iat"] = (NOW + LEEWAY_SECONDS).into();
    assert!(check(&sign(&payload)).is_ok());
    payload["iat"] = (NOW + LEEWAY_SECONDS + 1).into();
    assert_eq!(check(&sign(&payload)), Err(TokenErrorReason::IssuedInFuture));
}

#[test]
fn r24_wrong_audience_is_refused() {
    for accepted in [&["vault"][..], &[], &["HTTPS://KUBERNETES.DEFAULT.SVC"], &[""]] {
        let refused = verify(&keys(), &token(), NOW, ISSUER, accepted).unwrap_err();
        assert_eq!(refused.reason, TokenErrorReason::Audience, "{accepted:?}");
    }
}

#[test]
fn r24_audiences_are_those_meant_and_accepted() {
    let mut claims = claims();
    claims.audiences = ["vault", "a", "b"].map(str::to_owned).to_vec();
    let token = issue(&keys(), &claims).unwrap();
    let verified = verify(&keys(), &token, NOW, ISSUER, &["b", "c", "a"]).unwrap();
    assert_eq!(verified.audiences, ["b", "a"]);
}

#[test]
fn r24_wrong_issuer_is_refused() {
    for issuer in ["https://other", "", "https://kubernetes.default.svc/"] {
        let refused = verify(&keys(), &token(), NOW, issuer, &[ISSUER]).unwrap_err();
        assert_eq!(refused.reason, TokenErrorReason::Issuer, "{issuer}");
    }
}

#[test]
fn r24_tampered_parts_are_refused() {
    let token = token();
    let parts = token.split('.').collect::<Vec<_>>();
    let mut other = payload();
    other["kubernetes.io"]["serviceaccount"]["name"] = "admin".into();
    other["sub"] = "system:serviceaccount:default:admin".into();
    let swapped = format!("{}.{}.{}", parts[0], encode(other.to_string()), parts[2]);
    assert_eq!(check(&swapped), Err(TokenErrorReason::Signature));
    let header = json!({ "alg": "ES256", "kid": EC_A_ID, "typ": "JWT" });
    let swapped = format!("{}.{}.{}", encode(header.to_string()), parts[1], parts[2]);
    assert_eq!(check(&swapped), Err(TokenErrorReason::Signature));
}

#[test]
fn r24_every_changed_letter_is_refused() {
    let token = token();
    for (index, letter) in token.char_indices() {
        for other in ['A', 'B', '_', '.', '=', '/', ' '] {
            if other != letter {
                let mut forged = token.clone();
                forged.replace_range(index..=index, &other.to_string());
                assert!(check(&forged).is_err(), "{index}: {letter} became {other}");
            }
        }
    }
}

#[test]
fn r24_signatures_of_zero_or_another_length_are_refused() {
    let token = token();
    let (message, _) = token.rsplit_once('.').unwrap();
    for signature in [vec![], vec![0; 64], vec![0xff; 64], vec![0; 63], vec![1; 65], vec![0x30; 72]]
    {
        let forged = format!("{message}.{}", encode(signature));
        assert_eq!(check(&forged), Err(TokenErrorReason::Signature));
    }
}

#[test]
fn r24_truncated_tokens_are_refused() {
    let token = token();
    for end in 0..token.len() {
        assert!(check(&token[..end]).is_err(), "cut at {end}");
        assert!(check(&token[end + 1..]).is_err(), "cut until {end}");
    }
}

#[test]
fn r24_garbage_is_refused() {
    let token = token();
    for text in [
        "",
        ".",
        "..",
        "...",
        "a",
        "a.b",
        "a.b.c",
        "wrong",
        "{}",
        "{}.{}.{}",
        "\0\0\0",
        "é.é.é",
        "e30.e30.",
        "W10.W10.W10",
        "bnVsbA.bnVsbA.bnVsbA",
    ] {
        assert_eq!(check(text), Err(TokenErrorReason::Malformed), "{text:?}");
    }
    for text in [
        format!(" {token}"),
        format!("{token}\n"),
        format!("Bearer {token}"),
        format!("{token}."),
        format!(".{token}"),
        format!("{token}.{token}"),
        token.replace('.', ".."),
        format!("{{\"protected\":\"{token}\"}}"),
    ] {
        assert_eq!(check(&text), Err(TokenErrorReason::Malformed), "{text:?}");
    }
}

#[test]
fn r24_huge_tokens_are_refused_unread() {
    const MEBIBYTE: usize = 1024 * 1024;
    for text in [
        "A".repeat(MEBIBYTE),
        ".".repeat(MEBIBYTE),
        format!("{}.{}", "A".repeat(MEBIBYTE), token()),
        format!("{}{}", token(), "A".repeat(MEBIBYTE)),
    ] {
        assert_eq!(check(&text), Err(TokenErrorReason::TooLong));
    }
    let mut payload = payload();
    payload["padding"] = "a".repeat(MEBIBYTE).into();
    assert_eq!(
        check(&sign(&payload)),
        Err(TokenErrorReason::TooLong),
        "though the signature is right"
    );
    payload["padding"] = "a".repeat(TOKEN_BYTES_MAX / 2).into();
    assert!(check(&sign(&payload)).is_ok());
}

#[test]
fn r24_deeply_nested_json_is_refused() {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let header = format!(r#"{{"alg":"ES256","kid":"{EC_A_ID}","x":{deep}}}"#);
    assert_eq!(check(&sign_raw(EC_A, &header, "{}")), Err(TokenErrorReason::Malformed));
    let token = sign_raw(EC_A, &header_text(), &format!(r#"{{"x":{deep}}}"#));
    assert_eq!(check(&token), Err(TokenErrorReason::Claims));
}

fn header_text() -> String {
    header().to_string()
}

#[test]
fn r24_repeated_members_are_refused() {
    let honest = payload().to_string();
    let inner = honest.strip_prefix('{').unwrap();
    for first in [
        r#""exp":1"#,
        r#""aud":["vault"]"#,
        r#""sub":"system:serviceaccount:default:admin""#,
        r#""kubernetes.io":{}"#,
        r#""\u0065xp":1"#,
    ] {
        let token = sign_raw(EC_A, &header_text(), &format!("{{{first},{inner}"));
        assert_eq!(check(&token), Err(TokenErrorReason::Claims), "{first}");
    }
    let nested = honest.replace(r#""uid":"a-1""#, r#""uid":"a-0","uid":"a-1""#);
    assert_ne!(nested, honest);
    assert_eq!(check(&sign_raw(EC_A, &header_text(), &nested)), Err(TokenErrorReason::Claims));
    let header = format!(r#"{{"alg":"none","alg":"ES256","kid":"{EC_A_ID}"}}"#);
    assert_eq!(check(&sign_raw(EC_A, &header, &honest)), Err(TokenErrorReason::Malformed));
}

#[test]
fn r24_times_that_are_no_whole_seconds_are_refused() {
    for claim in ["exp", "nbf", "iat"] {
        for value in [
            "99999999999999999999",
            "9223372036854775808",
            "1e400",
            "-1e400",
            "1e300",
            "2e9",
            "2000000000.5",
            "\"2000003600\"",
            "\"never\"",
            "null",
            "true",
            "[]",
            "{}",
            "NaN",
        ] {
            let mut payload = payload();
            payload[claim] = "@".into();
            let text = payload.to_string().replace("\"@\"", value);
            let token = sign_raw(EC_A, &header_text(), &text);
            assert_eq!(check(&token), Err(TokenErrorReason::Claims), "{claim}: {value}");
        }
    }
}

#[test]
fn r24_times_at_the_ends_of_the_range_do_not_overflow() {
    let mut payload = payload();
    payload["exp"] = i64::MAX.into();
    payload["nbf"] = i64::MIN.into();
    payload["iat"] = i64::MIN.into();
    let token = sign(&payload);
    for now in [i64::MIN, -1, 0, NOW, i64::MAX] {
        assert!(check_at(&token, now).is_ok(), "{now}");
    }
    payload["exp"] = i64::MIN.into();
    assert_eq!(check(&sign(&payload)), Err(TokenErrorReason::Expired));
}

#[test]
fn r24_missing_claims_are_refused() {
    for claim in ["iss", "sub", "aud", "exp", "nbf", "iat", "kubernetes.io"] {
        let mut payload = payload();
        payload.as_object_mut().unwrap().remove(claim).unwrap();
        assert_eq!(check(&sign(&payload)), Err(TokenErrorReason::Claims), "{claim}");
    }
    for claim in ["namespace", "serviceaccount"] {
        let mut payload = payload();
        payload["kubernetes.io"].as_object_mut().unwrap().remove(claim).unwrap();
        assert_eq!(check(&sign(&payload)), Err(TokenErrorReason::Claims), "{claim}");
    }
}

#[test]
fn r24_subject_at_odds_with_the_account_is_refused() {
    let mut changed = payload();
    changed["sub"] = "system:serviceaccount:default:admin".into();
    assert_eq!(check(&sign(&changed)), Err(TokenErrorReason::Claims));
    // Both readings of this subject would be the same user.
    let mut changed = payload();
    changed["kubernetes.io"]["namespace"] = "a:b".into();
    changed["sub"] = "system:serviceaccount:a:b:builder".into();
    assert_eq!(check(&sign(&changed)), Err(TokenErrorReason::Claims));
}

#[test]
fn r24_unknown_or_doubled_bindings_are_refused() {
    let reference = json!({ "name": "x", "uid": "u" });
    for binding in [
        json!({ "validatingwebhookconfiguration": reference }),
        json!({ "attestations": {} }),
        json!({ "pod": reference, "secret": reference }),
        json!({ "secret": reference, "node": reference }),
        json!({ "pod": null }),
        json!({ "pod": {} }),
        json!({ "pod": { "name": "x" } }),
        json!({ "secret": { "name": "x", "uid": 1 } }),
        json!({ "warnafter": "soon" }),
    ] {
        let mut payload = payload();
        let own = payload["kubernetes.io"].as_object_mut().unwrap();
        own.extend(binding.as_object().unwrap().clone());
        assert_eq!(check(&sign(&payload)), Err(TokenErrorReason::Claims), "{binding}");
    }
}

#[test]
fn r24_base64_that_is_not_canonical_is_refused() {
    let token = token();
    let parts = token.split('.').collect::<Vec<_>>();
    for index in 0..3 {
        let part = parts[index];
        let line_break = format!("{}\n{}", &part[..4], &part[4..]);
        let padded = format!("{part}=");
        let standard = format!("{}+/", &part[..part.len() - 2]);
        for other in [line_break, padded, standard, format!("{part} ")] {
            let mut forged = parts.clone();
            forged[index] = &other;
            assert_eq!(check(&forged.join(".")), Err(TokenErrorReason::Malformed), "{other}");
        }
    }
    // 64 bytes leave four bits over: sixteen texts would decode to the same signature.
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let last = *token.as_bytes().last().unwrap();
    let place = LETTERS.iter().position(|letter| *letter == last).unwrap();
    for stray in 1..16 {
        let other = char::from(LETTERS[place + stray]);
        let forged = format!("{}{other}", &token[..token.len() - 1]);
        assert_eq!(check(&forged), Err(TokenErrorReason::Malformed));
    }
}

#[test]
fn r24_bound_object_deleted_is_refused() {
    let mut claims = claims();
    let pod = BoundObject { kind: BoundKind::Pod, name: "web".to_owned(), uid: "p-1".to_owned() };
    claims.bound = Some(pod);
    let verified = check(&issue(&keys(), &claims).unwrap()).unwrap();
    let alive = |uid| Some(ObjectLiveness { uid, deleted_at: None });
    let deleted = |uid, at| Some(ObjectLiveness { uid, deleted_at: Some(at) });
    let stands =
        |account, bound| verified.stands(NOW, account, bound).map_err(|refused| refused.reason);
    assert_eq!(stands(alive("a-1"), alive("p-1")), Ok(()));
    assert_eq!(stands(None, alive("p-1")), Err(TokenErrorReason::AccountGone));
    assert_eq!(stands(alive("a-2"), alive("p-1")), Err(TokenErrorReason::AccountGone));
    assert_eq!(stands(deleted("a-1", NOW - 61), alive("p-1")), Err(TokenErrorReason::AccountGone));
    assert_eq!(stands(alive("a-1"), None), Err(TokenErrorReason::BoundGone));
    assert_eq!(stands(alive("a-1"), alive("p-2")), Err(TokenErrorReason::BoundGone));
    assert_eq!(stands(alive("a-1"), deleted("p-1", NOW - 60)), Ok(()));
    assert_eq!(stands(alive("a-1"), deleted("p-1", NOW - 61)), Err(TokenErrorReason::BoundGone));
    assert_eq!(stands(alive("a-1"), deleted("p-1", NOW + 30)), Ok(()), "a grace period");
}

#[test]
fn r24_every_reason_has_its_own_sentence() {
    let reasons = [
        TokenErrorReason::TooLong,
        TokenErrorReason::Malformed,
        TokenErrorReason::Algorithm,
        TokenErrorReason::UnknownKey,
        TokenErrorReason::Signature,
        TokenErrorReason::Claims,
        TokenErrorReason::Issuer,
        TokenErrorReason::Audience,
        TokenErrorReason::NotYetValid,
        TokenErrorReason::IssuedInFuture,
        TokenErrorReason::Expired,
        TokenErrorReason::AccountGone,
        TokenErrorReason::BoundGone,
    ];
    let sentences = reasons.map(TokenErrorReason::sentence);
    let distinct = sentences.iter().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(distinct.len(), reasons.len());
    let refused = verify(&keys(), "wrong", NOW, ISSUER, &[ISSUER]).unwrap_err();
    assert_eq!(refused.to_string(), "the token is malformed");
}
