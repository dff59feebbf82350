//! Keys from PEM: one that signs, and all that verify, each under the id it is known by.
//!
//! No key is made here, and none is read from a file.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::{Value, json};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::{der, random};

/// Why keys could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A block is cut short or its text is not base64.
    #[error("the text is not well-formed PEM")]
    Pem,
    /// No block is a key or a certificate.
    #[error("the text holds no key")]
    Missing,
    /// A block bears the name of a key or a certificate and does not hold one.
    #[error("a key or certificate cannot be read")]
    Unreadable,
    /// The key is neither on P-256 nor RSA with 2048 to 8192 bits.
    #[error("a key is of no supported kind: use P-256, or RSA with 2048 to 8192 bits")]
    Unsupported,
}

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Es256,
    Rs256,
}

impl Algorithm {
    /// The algorithm of that exact name; every other one is refused, `none` included.
    pub(crate) fn named(name: &str) -> Option<Algorithm> {
        match name {
            "ES256" => Some(Algorithm::Es256),
            "RS256" => Some(Algorithm::Rs256),
            _ => None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::Rs256 => "RS256",
        }
    }
}

/// The signing key, and every key whose tokens are believed.
pub struct KeySet {
    signer: SigningKeyPair,
    // INVARIANT: the first is the public half of `signer`; no id stands twice.
    verifying: Vec<VerifyingKey>,
}

impl fmt::Debug for KeySet {
    /// Ids only, so that no key reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.verifying.iter().map(|key| &key.id)).finish()
    }
}

impl KeySet {
    /// Reads the signing key (a private key) and any other keys that verify.
    ///
    /// Each of `others` may hold several blocks: public keys, private keys or certificates.
    /// Of a certificate only the key counts; nobody asks whether it is still valid.
    ///
    /// # Errors
    /// When a text is not PEM, holds no key, or a key is of no supported kind.
    pub fn from_pem(signing: &str, others: &[&str]) -> Result<KeySet, KeyError> {
        let signer = blocks(signing)?
            .iter()
            .find_map(SigningKeyPair::from_block)
            .unwrap_or(Err(KeyError::Missing))?;
        let mut verifying = vec![VerifyingKey::new(signer.public()?)];
        for text in others {
            let mut found = false;
            for public in blocks(text)?.iter().filter_map(public_of) {
                found = true;
                let key = VerifyingKey::new(public?);
                if verifying.iter().all(|known| known.id != key.id) {
                    verifying.push(key);
                }
            }
            if !found {
                return Err(KeyError::Missing);
            }
        }
        Ok(KeySet { signer, verifying })
    }

    /// The public keys as a JSON Web Key Set (`/openid/v1/jwks`).
    #[must_use]
    pub fn jwks(&self) -> Value {
        json!({ "keys": self.verifying.iter().map(VerifyingKey::jwk).collect::<Vec<_>>() })
    }

    /// The ids of all keys whose tokens are believed, the one that signs first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.verifying.iter().map(VerifyingKey::id)
    }

    /// The id of the key that signs.
    #[must_use]
    pub fn signing_id(&self) -> &str {
        self.verifying.first().map_or("", |key| &key.id)
    }

    pub(crate) fn signing_algorithm(&self) -> Algorithm {
        match self.signer {
            SigningKeyPair::Es256(_) => Algorithm::Es256,
            SigningKeyPair::Rs256(_) => Algorithm::Rs256,
        }
    }

    pub(crate) fn verifying(&self) -> &[VerifyingKey] {
        &self.verifying
    }

    /// Signs, or nothing if the system has no randomness to give.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = random::source();
        match &self.signer {
            SigningKeyPair::Es256(key) => {
                key.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec())
            }
            SigningKeyPair::Rs256(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

enum SigningKeyPair {
    Es256(Box<EcdsaKeyPair>),
    Rs256(Box<RsaKeyPair>),
}

impl SigningKeyPair {
    /// The private key in a block; nothing if the block is of another sort.
    fn from_block(block: &Pem) -> Option<Result<SigningKeyPair, KeyError>> {
        let bytes = block.contents.as_slice();
        match block.label.as_str() {
            "PRIVATE KEY" => Some(SigningKeyPair::p256(bytes).or_else(|_| {
                let key = RsaKeyPair::from_pkcs8(bytes).map_err(|_| KeyError::Unsupported)?;
                Ok(SigningKeyPair::Rs256(Box::new(key)))
            })),
            "EC PRIVATE KEY" => Some(SigningKeyPair::p256(&der::p256_private_envelope(bytes))),
            "RSA PRIVATE KEY" => Some(
                RsaKeyPair::from_der(bytes)
                    .map(|key| SigningKeyPair::Rs256(Box::new(key)))
                    .map_err(|_| KeyError::Unsupported),
            ),
            _ => None,
        }
    }

    fn p256(pkcs8: &[u8]) -> Result<SigningKeyPair, KeyError> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random::source())
            .map(|key| SigningKeyPair::Es256(Box::new(key)))
            .map_err(|_| KeyError::Unsupported)
    }

    fn public(&self) -> Result<Public, KeyError> {
        match self {
            SigningKeyPair::Es256(key) => Public::p256(key.public_key().as_ref()),
            SigningKeyPair::Rs256(key) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = key.public().into();
                Public::rsa(&n, &e)
            }
        }
    }
}

/// A public key in the one form it is used in.
enum Public {
    /// An uncompressed point: 4, then x and y in 32 bytes each.
    P256 { point: Vec<u8> },
    /// Modulus and exponent without leading zeros.
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
}

impl Public {
    fn p256(point: &[u8]) -> Result<Public, KeyError> {
        match point {
            [4, coordinates @ ..] if coordinates.len() == 64 => {
                Ok(Public::P256 { point: point.to_vec() })
            }
            _ => Err(KeyError::Unsupported),
        }
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Public, KeyError> {
        let (n, e) = (without_zeros(modulus), without_zeros(exponent));
        if (256..=1024).contains(&n.len()) && (1..=8).contains(&e.len()) {
            Ok(Public::Rsa(RsaPublicKeyComponents { n, e }))
        } else {
            Err(KeyError::Unsupported)
        }
    }

    fn from_info(info: &SubjectPublicKeyInfo<'_>) -> Result<Public, KeyError> {
        const P256_CURVE: &str = "1.2.840.10045.3.1.7";
        match info.parsed().map_err(|_| KeyError::Unsupported)? {
            PublicKey::RSA(key) => Public::rsa(key.modulus, key.exponent),
            PublicKey::EC(point) => {
                let curve = info.algorithm.parameters.as_ref().and_then(|any| any.as_oid().ok());
                if curve.is_some_and(|curve| curve.to_id_string() == P256_CURVE) {
                    Public::p256(point.data())
                } else {
                    Err(KeyError::Unsupported)
                }
            }
            _ => Err(KeyError::Unsupported),
        }
    }

    /// The encoding that every holder of the key derives, however the key came.
    fn to_der(&self) -> Vec<u8> {
        match self {
            Public::P256 { point } => der::p256_public(point),
            Public::Rsa(key) => der::rsa_public(&key.n, &key.e),
        }
    }
}

fn without_zeros(number: &[u8]) -> Vec<u8> {
    number.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// A public key and its id.
pub(crate) struct VerifyingKey {
    id: String,
    public: Public,
}

impl VerifyingKey {
    /// The id is a digest, so that it never gives the key away.
    fn new(public: Public) -> VerifyingKey {
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &public.to_der()));
        VerifyingKey { id, public }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        match self.public {
            Public::P256 { .. } => Algorithm::Es256,
            Public::Rsa(_) => Algorithm::Rs256,
        }
    }

    /// Whether this key's owner signed the message; the key, not the token, names the algorithm.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.public {
            Public::P256 { point } => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
            Public::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok(),
        }
    }

    fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let alg = self.algorithm().name();
        match &self.public {
            Public::P256 { point } => {
                let coordinates = point.get(1..).unwrap_or_default();
                let (x, y) = coordinates.split_at_checked(32).unwrap_or_default();
                json!({
                    "use": "sig", "kty": "EC", "crv": "P-256", "alg": alg, "kid": self.id,
                    "x": text(x), "y": text(y),
                })
            }
            Public::Rsa(key) => json!({
                "use": "sig", "kty": "RSA", "alg": alg, "kid": self.id,
                "n": text(&key.n), "e": text(&key.e),
            }),
        }
    }
}

fn blocks(text: &str) -> Result<Vec<Pem>, KeyError> {
    Pem::iter_from_buffer(text.as_bytes()).collect::<Result<_, _>>().map_err(|_| KeyError::Pem)
}

/// The public key in a block; nothing if the block is of another sort, such as curve parameters.
fn public_of(block: &Pem) -> Option<Result<Public, KeyError>> {
    let bytes = block.contents.as_slice();
    match block.label.as_str() {
        "PUBLIC KEY" => Some(match SubjectPublicKeyInfo::from_der(bytes) {
            Ok(([], info)) => Public::from_info(&info),
            _ => Err(KeyError::Unreadable),
        }),
        "CERTIFICATE" => Some(match X509Certificate::from_der(bytes) {
            Ok(([], certificate)) => Public::from_info(certificate.public_key()),
            _ => Err(KeyError::Unreadable),
        }),
        _ => SigningKeyPair::from_block(block).map(|signer| signer?.public()),
    }
}
