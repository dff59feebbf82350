//! The little DER that is written here: public keys in the one form their id is taken from.
//!
//! Reading is left to ring and x509-parser.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// The algorithm identifier of a key on the curve P-256.
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// The algorithm identifier of an RSA key.
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// The `SubjectPublicKeyInfo` of an uncompressed point on P-256.
pub(crate) fn p256_public(point: &[u8]) -> Vec<u8> {
    sequence(&[P256, &bits(point)])
}

/// The `SubjectPublicKeyInfo` of an RSA key, given both numbers without leading zeros.
pub(crate) fn rsa_public(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let key = sequence(&[&unsigned(modulus), &unsigned(exponent)]);
    sequence(&[RSA, &bits(&key)])
}

/// A bare P-256 `ECPrivateKey` put into the PKCS#8 envelope that ring reads.
pub(crate) fn p256_private_envelope(key: &[u8]) -> Vec<u8> {
    sequence(&[&element(INTEGER, &[&[0]]), P256, &element(OCTET_STRING, &[key])])
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, parts)
}

/// A bit string whose bits fill its last byte.
fn bits(content: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], content])
}

/// A number that is never negative: a leading zero keeps the sign bit clear.
fn unsigned(number: &[u8]) -> Vec<u8> {
    match number.first() {
        Some(first) if *first < 0x80 => element(INTEGER, &[number]),
        _ => element(INTEGER, &[&[0], number]),
    }
}

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 6);
    out.push(tag);
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let digits = bytes.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
            // A length has at most eight bytes, so its count stays in the low bits.
            out.push(0x80 | u8::try_from(digits.len()).unwrap_or(0x7f));
            out.extend(digits);
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}
