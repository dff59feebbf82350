//! Private keys as PEM blocks hold them, PKCS #1, PKCS #8 and SEC 1: which kind they are, and whether a
//! public key belongs to one. Nothing is ever signed here.

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair,
};
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

const INTEGER: u8 = 0x02;
const BITS: u8 = 0x03;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The curve within a key of SEC 1, and its public key.
const CURVE_FIELD: u8 = 0xa0;
const PUBLIC_FIELD: u8 = 0xa1;
/// How many numbers an RSA key consists of, beside its version.
const RSA_NUMBERS: usize = 8;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const X25519: &[u8] = &[0x2b, 0x65, 0x6e];

/// A curve by name, how long its numbers are, and who can compute on it.
pub(crate) struct Curve {
    oid: &'static [u8],
    bytes: usize,
    arithmetic: Option<&'static EcdsaSigningAlgorithm>,
}

static CURVES: [Curve; 4] = [
    Curve {
        oid: &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
        bytes: 32,
        arithmetic: Some(&ECDSA_P256_SHA256_ASN1_SIGNING),
    },
    Curve {
        oid: &[0x2b, 0x81, 0x04, 0x00, 0x22],
        bytes: 48,
        arithmetic: Some(&ECDSA_P384_SHA384_ASN1_SIGNING),
    },
    Curve { oid: &[0x2b, 0x81, 0x04, 0x00, 0x21], bytes: 28, arithmetic: None },
    Curve { oid: &[0x2b, 0x81, 0x04, 0x00, 0x23], bytes: 66, arithmetic: None },
];

/// A private key that TLS can use.
pub(crate) enum PrivateKey<'k> {
    Rsa { modulus: &'k [u8] },
    Ec { curve: &'static Curve, scalar: &'k [u8], public: Option<&'k [u8]> },
    Ed25519 { seed: &'k [u8] },
}

/// Why bytes are no key that TLS can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFault {
    Unreadable,
    /// A key for something else than signatures.
    Unusable,
}

impl<'k> PrivateKey<'k> {
    /// Reads a key; what the block calls itself is not looked at, as nobody does.
    pub(crate) fn read(der: &'k [u8]) -> Result<PrivateKey<'k>, KeyFault> {
        if let Some(modulus) = rsa(der) {
            return Ok(PrivateKey::Rsa { modulus });
        }
        match wrapped(der) {
            Some(found) => found,
            None => ec(der, None).ok_or(KeyFault::Unreadable),
        }
    }

    /// Whether this is the private key of a public one; keys that only arithmetic could tell apart, and
    /// nobody here can do, count as a pair.
    pub(crate) fn fits(&self, public: &SubjectPublicKeyInfo<'_>) -> Result<(), &'static str> {
        const OTHER: &str = "tls: private key does not match public key";
        const OTHER_TYPE: &str = "tls: private key type does not match public key type";
        let algorithm = public.algorithm.algorithm.as_bytes();
        let point: &[u8] = &public.subject_public_key.data;
        let fits = match (self, algorithm) {
            (PrivateKey::Rsa { modulus }, RSA) => {
                matches!(public.parsed(), Ok(PublicKey::RSA(rsa)) if plain(rsa.modulus) == *modulus)
            }
            (PrivateKey::Ec { curve, scalar, public: own }, EC) => {
                let named = public.algorithm.parameters.as_ref().map(|named| named.data);
                named == Some(curve.oid) && is_on(curve, scalar, *own, point)
            }
            (PrivateKey::Ed25519 { seed }, ED25519) => {
                Ed25519KeyPair::from_seed_and_public_key(seed, point).is_ok()
            }
            (_, RSA | EC | ED25519) => return Err(OTHER_TYPE),
            _ => return Err("tls: unknown public key algorithm"),
        };
        if fits { Ok(()) } else { Err(OTHER) }
    }
}

/// Whether a point is the one of a private number.
#[expect(
    clippy::disallowed_methods,
    reason = "ring wants random numbers for signatures, which are never made: the answer does not depend on them"
)]
fn is_on(curve: &Curve, scalar: &[u8], own: Option<&[u8]>, point: &[u8]) -> bool {
    let Some(arithmetic) = curve.arithmetic else {
        return own.is_none_or(|own| own == point);
    };
    let mut padded = vec![0; curve.bytes.saturating_sub(scalar.len())];
    padded.extend_from_slice(scalar);
    let random = SystemRandom::new();
    EcdsaKeyPair::from_private_key_and_public_key(arithmetic, &padded, point, &random).is_ok()
}

/// The modulus of a key of PKCS #1.
fn rsa(der: &[u8]) -> Option<&[u8]> {
    let (mut body, []) = element(der, SEQUENCE)? else { return None };
    let version = next(&mut body, INTEGER)?;
    let modulus = next(&mut body, INTEGER)?;
    let mut positive = is_positive(modulus) && matches!(version, [0 | 1]);
    for _ in 1..RSA_NUMBERS {
        positive &= is_positive(next(&mut body, INTEGER)?);
    }
    positive.then(|| plain(modulus))
}

/// A key of PKCS #8; none where the bytes are no such thing.
fn wrapped(der: &[u8]) -> Option<Result<PrivateKey<'_>, KeyFault>> {
    let (mut body, _) = element(der, SEQUENCE)?;
    next(&mut body, INTEGER)?;
    let mut algorithm = next(&mut body, SEQUENCE)?;
    let key = next(&mut body, OCTETS)?;
    let kind = next(&mut algorithm, OID)?;
    let key = match kind {
        RSA => rsa(key).map(|modulus| PrivateKey::Rsa { modulus }),
        EC => ec(key, next(&mut algorithm, OID)),
        ED25519 => match element(key, OCTETS) {
            Some((seed, _)) if seed.len() == 32 => Some(PrivateKey::Ed25519 { seed }),
            _ => None,
        },
        X25519 => return Some(Err(KeyFault::Unusable)),
        _ => None,
    };
    Some(key.ok_or(KeyFault::Unreadable))
}

/// A key of SEC 1, on the curve that is named around it or in it.
fn ec<'k>(der: &'k [u8], named: Option<&[u8]>) -> Option<PrivateKey<'k>> {
    let (mut body, _) = element(der, SEQUENCE)?;
    if next(&mut body, INTEGER)? != [1] {
        return None;
    }
    let scalar = plain(next(&mut body, OCTETS)?);
    let own = next(&mut body, CURVE_FIELD).and_then(|field| Some(element(field, OID)?.0));
    let oid = named.or(own)?;
    let curve = CURVES.iter().find(|curve| curve.oid == oid)?;
    // The first byte counts the bits that are not used.
    let public = next(&mut body, PUBLIC_FIELD).and_then(|field| element(field, BITS)?.0.get(1..));
    let fits = !scalar.is_empty() && scalar.len() <= curve.bytes;
    fits.then_some(PrivateKey::Ec { curve, scalar, public })
}

/// A number without the zeros in front.
fn plain(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

fn is_positive(number: &[u8]) -> bool {
    number.first().is_some_and(|first| first & 0x80 == 0) && !plain(number).is_empty()
}

/// Takes the next element of this kind, if it is one.
fn next<'k>(bytes: &mut &'k [u8], tag: u8) -> Option<&'k [u8]> {
    let (content, rest) = element(bytes, tag)?;
    *bytes = rest;
    Some(content)
}

/// The content of an element of this kind, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (short, rest) = rest.split_first()?;
    let (length, rest) = match *short {
        length @ 0..=0x7f => (usize::from(length), rest),
        // Four bytes count more than any key has.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
            (digits.iter().fold(0_usize, |sum, digit| (sum << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    #[test]
    fn r31_elements_are_read_within_their_bounds() {
        assert_eq!(element(&[0x02, 0x01, 0x05, 0x09], INTEGER), Some((&[5][..], &[9][..])));
        assert_eq!(element(&[0x02, 0x81, 0x01, 0x05], INTEGER), Some((&[5][..], &[][..])));
        for broken in [
            &[][..],
            &[0x02],
            &[0x02, 0x02, 0x05],
            &[0x02, 0x80],
            &[0x02, 0x84, 0xff, 0xff, 0xff, 0xff, 0x05],
            &[0x02, 0x85, 0, 0, 0, 0, 1, 0x05],
            &[0x04, 0x01, 0x05],
        ] {
            assert_eq!(element(broken, INTEGER), None, "{broken:?}");
        }
        assert!(is_positive(&[0, 0x80]) && !is_positive(&[0x80]) && !is_positive(&[0]));
    }
}
