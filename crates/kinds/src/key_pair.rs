//! Whether a certificate and a key in PEM form can serve TLS together, as far as reading them tells: keys
//! that only arithmetic could tell apart count as a pair.

use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::public_key::PublicKey;

const CERTIFICATE: &str = "CERTIFICATE";
/// Keys beyond this size are not searched: no key in use comes near.
const KEY_BYTES_MAX: usize = 16 * 1024;

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
    if key.label.starts_with("ENCRYPTED") || key.contents.is_empty() {
        return Some("tls: failed to parse private key".to_owned());
    }
    // A private RSA key holds the modulus of its public one.
    let fits = match leaf.public_key().parsed() {
        Ok(PublicKey::RSA(rsa)) if key.contents.len() <= KEY_BYTES_MAX => {
            let modulus = rsa.modulus;
            key.contents.windows(modulus.len().max(1)).any(|part| part == modulus)
        }
        _ => true,
    };
    (!fits).then(|| "tls: private key does not match public key".to_owned())
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

    #[test]
    fn r31_an_rsa_key_holds_the_modulus_of_its_certificate() {
        let leaf = Pem::iter_from_buffer(RSA.as_bytes()).next().unwrap().unwrap();
        let leaf = X509Certificate::from_der(&leaf.contents).unwrap().1;
        let Ok(PublicKey::RSA(public)) = leaf.public_key().parsed() else { panic!("no RSA key") };
        let pem = |bytes: &[u8]| {
            let text = STANDARD.encode(bytes);
            format!("-----BEGIN RSA PRIVATE KEY-----\n{text}\n-----END RSA PRIVATE KEY-----\n")
        };
        let kind = row("", "Secret");
        let own = pem(&[&[0x30], public.modulus, &[0]].concat());
        assert_eq!(warned(&kind, secret(RSA, &own)), [""; 0]);
        let mut other = public.modulus.to_vec();
        other.reverse();
        assert_eq!(warned(&kind, secret(RSA, &pem(&other))).len(), 1);
    }
}
