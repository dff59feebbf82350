//! Rules of spec/dependencies.md, with random tokens: nothing panics, and what is issued holds.

use proptest::option;
use proptest::prelude::*;
use tenure_token::{BoundKind, BoundObject, Claims, NodeClaim, TokenSubject, issue, verify};

use crate::forge::*;

fn part_text() -> impl Strategy<Value = String> {
    "[^:]{1,20}"
}

fn bound() -> impl Strategy<Value = BoundObject> {
    let kind = prop_oneof![Just(BoundKind::Pod), Just(BoundKind::Secret), Just(BoundKind::Node)];
    (kind, ".{1,9}", ".{1,9}").prop_map(|(kind, name, uid)| BoundObject { kind, name, uid })
}

prop_compose! {
    fn any_claims()(
        issuer in ".{1,20}",
        (namespace, name, uid) in (part_text(), part_text(), ".{1,9}"),
        audiences in prop::collection::vec(".{0,9}", 1..4),
        issued_at in 0..=NOW, age in 0_i64..1 << 32, id in ".{0,9}",
        bound in option::of(bound()), node in option::of((".{1,9}", ".{0,9}")),
        warn_after in option::of(any::<i64>()),
    ) -> Claims {
        let on_pod = bound.as_ref().is_some_and(|bound| bound.kind == BoundKind::Pod);
        Claims {
            issuer, subject: TokenSubject { namespace, name, uid }, audiences,
            issued_at, not_before: issued_at, expires_at: issued_at + age, id,
            node: node.filter(|_| on_pod).map(|(name, uid)| NodeClaim { name, uid }),
            bound, warn_after,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn r24_any_text_is_refused_without_a_panic(text in ".{0,400}", now in any::<i64>()) {
        prop_assert!(check_at(&text, now).is_err());
    }

    #[test]
    fn r24_any_three_parts_are_refused_without_a_panic(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 3)
    ) {
        let token = parts.iter().map(encode).collect::<Vec<_>>().join(".");
        prop_assert!(check(&token).is_err());
    }

    #[test]
    fn r24_any_payload_under_a_right_signature_does_not_panic(payload in any::<Vec<u8>>()) {
        let text = String::from_utf8_lossy(&payload);
        prop_assert!(check(&sign_raw(EC_A, &header().to_string(), &text)).is_err());
    }

    #[test]
    fn r24_any_header_does_not_panic(header in any::<Vec<u8>>()) {
        let text = String::from_utf8_lossy(&header);
        prop_assert!(check(&sign_raw(EC_A, &text, &payload().to_string())).is_err());
    }

    #[test]
    fn r24_a_damaged_token_is_refused(at in any::<prop::sample::Index>(), byte in 0_u8..128) {
        let mut bytes = token().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        prop_assert!(check(&String::from_utf8(bytes).unwrap()).is_err());
    }

    #[test]
    fn r24_what_is_issued_verifies_as_it_was_meant(claims in any_claims()) {
        let keys = keys();
        let token = issue(&keys, &claims).unwrap();
        let accepted = claims.audiences.iter().map(String::as_str).collect::<Vec<_>>();
        let verified =
            verify(&keys, &token, claims.issued_at, &claims.issuer, &accepted).unwrap();
        prop_assert_eq!(verified.username(), claims.subject.username());
        prop_assert_eq!(verified.uid, claims.subject.uid);
        prop_assert_eq!(verified.audiences, claims.audiences);
        prop_assert_eq!(verified.bound, claims.bound);
        prop_assert_eq!(verified.node, claims.node);
        prop_assert_eq!(verified.id, claims.id);
        prop_assert_eq!(verified.warn_after, claims.warn_after);
    }
}
