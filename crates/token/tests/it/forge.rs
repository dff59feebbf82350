//! The forger's workshop: keys, honest claims, and tokens with any header, payload and signature.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use tenure_token::{Claims, KeySet, TokenErrorReason, TokenSubject, Verified, issue, verify};

pub(crate) const EC_A: &str = include_str!("keys/ec-a.pem");
pub(crate) const EC_A_SEC1: &str = include_str!("keys/ec-a-sec1.pem");
pub(crate) const EC_A_PUBLIC: &str = include_str!("keys/ec-a-public.pem");
pub(crate) const EC_A_CERTIFICATE: &str = include_str!("keys/ec-a-certificate.pem");
pub(crate) const EC_B: &str = include_str!("keys/ec-b.pem");
pub(crate) const RSA: &str = include_str!("keys/rsa.pem");
pub(crate) const RSA_PKCS1: &str = include_str!("keys/rsa-pkcs1.pem");
pub(crate) const RSA_PUBLIC: &str = include_str!("keys/rsa-public.pem");
pub(crate) const RSA_CERTIFICATE: &str = include_str!("keys/rsa-certificate.pem");

/// Ids as OpenSSL computes them: SHA-256 over the DER of the public key.
pub(crate) const EC_A_ID: &str = "wktyezVNRgcb4yF_O420U00C14om-YD9RM5AkF9wG-M";
pub(crate) const RSA_ID: &str = "e9BeqbDjBfTjEcC6mkRKc68h_AX-lGr8LfHHOjlQaOM";

pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
pub(crate) const NOW: i64 = 2_000_000_000;

pub(crate) fn keys() -> KeySet {
    KeySet::from_pem(EC_A, &[]).unwrap()
}

pub(crate) fn claims() -> Claims {
    Claims {
        issuer: ISSUER.to_owned(),
        subject: TokenSubject {
            namespace: "default".to_owned(),
            name: "builder".to_owned(),
            uid: "a-1".to_owned(),
        },
        audiences: vec![ISSUER.to_owned()],
        issued_at: NOW,
        not_before: NOW,
        expires_at: NOW + 3600,
        id: "t-1".to_owned(),
        bound: None,
        node: None,
        warn_after: None,
    }
}

/// An honest token.
pub(crate) fn token() -> String {
    issue(&keys(), &claims()).unwrap()
}

/// The claims of an honest token, as JSON.
pub(crate) fn payload() -> Value {
    part(&token(), 1)
}

/// One part of a token, decoded.
pub(crate) fn part(token: &str, index: usize) -> Value {
    let text = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Header and payload as they are given, signed by a P-256 key, however little sense they make.
pub(crate) fn sign_raw(key: &str, header: &str, payload: &str) -> String {
    let message = format!("{}.{}", encode(header), encode(payload));
    let body = key.lines().filter(|line| !line.starts_with('-')).collect::<String>();
    let der = base64::engine::general_purpose::STANDARD.decode(body).unwrap();
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random).unwrap();
    let signature = pair.sign(&random, message.as_bytes()).unwrap();
    format!("{message}.{}", encode(signature))
}

/// A payload signed by the right key under an honest header.
pub(crate) fn sign(payload: &Value) -> String {
    sign_raw(EC_A, &header().to_string(), &payload.to_string())
}

pub(crate) fn header() -> Value {
    json!({ "alg": "ES256", "kid": EC_A_ID })
}

/// Verifies with the honest keys, issuer, audience and time.
pub(crate) fn check(token: &str) -> Result<Verified, TokenErrorReason> {
    check_at(token, NOW)
}

pub(crate) fn check_at(token: &str, now: i64) -> Result<Verified, TokenErrorReason> {
    verify(&keys(), token, now, ISSUER, &[ISSUER]).map_err(|refused| refused.reason)
}
