//! Whether a certificate and a key in PEM form can serve TLS together. What a key holds is read in
//! `private_key`.

use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::private_key::{KeyFault, PrivateKey};

const CERTIFICATE: &str = "CERTIFICATE";

/// Why the two are no pair.
pub(crate) fn pair_fault(certificate: &[u8], key: &[u8]) -> Option<String> {
    let leaf = match first_block(certificate, "certificate", |label| label == CERTIFICATE) {
        Ok(leaf) => leaf,
        Err(why) => return Some(why),
    };
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    let key = match first_block(key, "key", is_key) {
        Ok(key) => key,
        Err(why) => return Some(why),
    };
    let leaf = match X509Certificate::from_der(&leaf.contents) {
        Ok(([], leaf)) => leaf,
        Ok(_) => return Some("x509: trailing data".to_owned()),
        Err(error) => return Some(format!("x509: malformed certificate: {error}")),
    };
    match PrivateKey::read(&key.contents) {
        Ok(key) => key.fits(leaf.public_key()).err().map(str::to_owned),
        Err(KeyFault::Unusable) => {
            Some("tls: found unknown private key type in PKCS#8 wrapping".to_owned())
        }
        Err(KeyFault::Unreadable) => Some("tls: failed to parse private key".to_owned()),
    }
}

/// The first block whose label is wanted.
fn first_block(pem: &[u8], what: &str, wanted: impl Fn(&str) -> bool) -> Result<Pem, String> {
    let mut others = false;
    for block in Pem::iter_from_buffer(pem).filter_map(Result::ok) {
        if wanted(&block.label) {
            return Ok(block);
        }
        others = true;
    }
    Err(if others {
        format!("tls: failed to find {what} PEM data in {what} input")
    } else {
        format!("tls: failed to find any PEM data in {what} input")
    })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};
    use x509_parser::pem::Pem;
    use x509_parser::prelude::{FromDer as _, X509Certificate};
    use x509_parser::public_key::PublicKey;

    use crate::check::{row, warned, warned_update};

    fn secret(certificate: &str, key: &str) -> Value {
        let data =
            json!({"tls.crt": STANDARD.encode(certificate), "tls.key": STANDARD.encode(key)});
        json!({"type": "kubernetes.io/tls", "data": data})
    }

    #[test]
    fn r31_a_pair_that_does_not_load_is_warned_about() {
        let kind = row("", "Secret");
        let pair = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
        let (certificate, key) = (pair.cert.pem(), pair.signing_key.serialize_pem());
        assert_eq!(warned(&kind, secret(&certificate, &key)), [""; 0]);
        for (certificate, key) in [
            ("", ""),
            ("x", "y"),
            (&*certificate, "y"),
            ("x", &*key),
            (&*key, &*certificate),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &*key),
            (
                &*certificate,
                "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            ),
        ] {
            let body = secret(certificate, key);
            assert_eq!(warned(&kind, body.clone()).len(), 1, "{certificate} {key}");
            assert_eq!(warned_update(&kind, body.clone(), body).len(), 1);
        }
        let mut other = secret("x", "y");
        other["type"] = json!("Opaque");
        assert_eq!(warned(&kind, other), [""; 0]);
    }

    /// A certificate of an RSA key that nobody has any more.
    const RSA: &str = "-----BEGIN CERTIFICATE-----\n\
MIIB9jCCAV+gAwIBAgIUfMRJqC4ZV7icW+rS5n0GX+JSveMwDQYJKoZIhvcNAQEL\n\
BQAwDDEKMAgGA1UEAwwBYTAgFw0yNjExMTgxMzU5NDJaGA8yMTI2MTAyNTEzNTk0\n\
MlowDDEKMAgGA1UEAwwBYTCBnzANBgkqhkiG9w0BAQEFAAOBjQAwgYkCgYEA/VFr\n\
TsDgUyln/k1InJv1Oqr2t58prDQxDQCBQIuQ855fBzJmcxOg7Sl8j/Um2Y3E+q3v\n\
a8De4qqIyFOURRQcNSQmYIiVVu6e5hWUIuys7EaGBVg+5zMA2gLg8KeKnSAGYgAa\n\
vXQp59E0XvIDwfM0iGFqmTfR0QBpqxHcbPFajHUCAwEAAaNTMFEwHQYDVR0OBBYE\n\
FKp/qPRvkr2OUmBY7gcxF6ziBBFdMB8GA1UdIwQYMBaAFKp/qPRvkr2OUmBY7gcx\n\
F6ziBBFdMA8GA1UdEwEB/wQFMAMBAf8wDQYJKoZIhvcNAQELBQADgYEAwrDRC0xv\n\
eUm0ZrxU4o/3IrfML+qQRWRZJm2d4Mn4vjyxwS2+gzMziYpFChz4RztxRDvZ0tFJ\n\
M1P6lyLM7HJipKrr2AlZvnaHKMKlhSmMp+S2ljsAZw1eMypaaGRduUDQ6usZWHfp\n\
k3pwNxzUBcyLqIVIsycxygNPw2wcgzfCzL8=\n\
-----END CERTIFICATE-----\n";

    /// An element of DER.
    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], content].concat()
    }

    fn pem(label: &str, bytes: &[u8]) -> String {
        let text = STANDARD.encode(bytes);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    }

    #[test]
    fn r31_an_rsa_key_holds_the_modulus_of_its_certificate() {
        let leaf = Pem::iter_from_buffer(RSA.as_bytes()).next().unwrap().unwrap();
        let leaf = X509Certificate::from_der(&leaf.contents).unwrap().1;
        let Ok(PublicKey::RSA(public)) = leaf.public_key().parsed() else { panic!("no RSA key") };
        let with = |modulus: &[u8]| {
            let numbers = [&[1_u8][..]; 7].map(|number| element(2, number)).concat();
            let own = [element(2, &[0]), element(2, modulus), numbers].concat();
            element(0x30, &own)
        };
        let kind = row("", "Secret");
        let own = with(public.modulus);
        let oid = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
        let algorithm = element(0x30, &[element(6, &oid), element(5, &[])].concat());
        let wrapped = [element(2, &[0]), algorithm, element(4, &own)].concat();
        let wrapped = element(0x30, &wrapped);
        for key in [pem("RSA PRIVATE KEY", &own), pem("PRIVATE KEY", &wrapped)] {
            assert_eq!(warned(&kind, secret(RSA, &key)), [""; 0]);
        }
        let mut other = public.modulus.to_vec();
        other.reverse();
        other.insert(0, 0);
        // A modulus among other bytes is no key, nor is one with something behind it.
        let loose = [&[0x30], public.modulus, &[0]].concat();
        let longer = [own, vec![0]].concat();
        for (key, why) in [
            (with(&other), "tls: private key does not match public key"),
            (loose, "tls: failed to parse private key"),
            (longer, "tls: failed to parse private key"),
        ] {
            assert_eq!(warned(&kind, secret(RSA, &pem("RSA PRIVATE KEY", &key))), [why]);
        }
    }

    #[test]
    fn r31_a_key_on_a_curve_is_the_one_of_its_certificate() {
        let kind = row("", "Secret");
        let other = "tls: private key does not match public key";
        let other_type = "tls: private key type does not match public key type";
        let made = |algorithm| {
            let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
            let params = rcgen::CertificateParams::new(["example.com".to_owned()]).unwrap();
            (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        let kinds =
            [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519];
        let pairs = kinds.map(made);
        for (place, (certificate, key)) in pairs.iter().enumerate() {
            assert_eq!(warned(&kind, secret(certificate, key)), [""; 0]);
            let (_, another) = made(kinds[place]);
            assert_eq!(warned(&kind, secret(certificate, &another)), [other]);
            assert_eq!(warned(&kind, secret(RSA, key)), [other_type]);
        }
        // Another curve is another key; another kind of key is none for this certificate.
        assert_eq!(warned(&kind, secret(&pairs[0].0, &pairs[1].1)), [other]);
        assert_eq!(warned(&kind, secret(&pairs[0].0, &pairs[2].1)), [other_type]);
        assert_eq!(warned(&kind, secret(&pairs[2].0, &pairs[0].1)), [other_type]);
    }

    #[test]
    fn r31_a_block_that_calls_itself_a_key_has_to_be_one() {
        let kind = row("", "Secret");
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let params = rcgen::CertificateParams::new(["example.com".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        let unreadable = "tls: failed to parse private key";
        for label in ["EC PRIVATE KEY", "PRIVATE KEY", "RSA PRIVATE KEY"] {
            let garbage = secret(&certificate, &pem(label, b"garbage"));
            assert_eq!(warned(&kind, garbage), [unreadable], "{label}");
        }
        // What is in a wrapping, under the other name and without it.
        let whole = key.serialize_der();
        let at = whole.windows(2).position(|pair| pair == [4, 0x6d]).unwrap();
        let bare = whole[at + 2..].to_vec();
        let named = pem("EC PRIVATE KEY", &whole);
        assert_eq!(warned(&kind, secret(&certificate, &named)), [""; 0]);
        let unnamed = pem("EC PRIVATE KEY", &bare);
        assert_eq!(warned(&kind, secret(&certificate, &unnamed)), [unreadable], "on no curve");
        let curve = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        let scalar = &bare[7..39];
        let sec1 =
            [element(2, &[1]), element(4, scalar), element(0xa0, &element(6, &curve))].concat();
        let sec1 = pem("EC PRIVATE KEY", &element(0x30, &sec1));
        assert_eq!(warned(&kind, secret(&certificate, &sec1)), [""; 0]);
        let x25519 = [&[0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 34, 4, 32][..], &[7; 32]].concat();
        let x25519 = pem("PRIVATE KEY", &element(0x30, &[&[2, 1, 0][..], &x25519].concat()));
        assert_eq!(
            warned(&kind, secret(&certificate, &x25519)),
            ["tls: found unknown private key type in PKCS#8 wrapping"]
        );
    }
}
