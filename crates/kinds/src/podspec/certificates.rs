//! Projected sources that come from signers: bundles of trust, and certificates for the pod itself.

use tenure_machinery::signer::{lifetime_seconds, validate_signer, validate_user_annotations};
use tenure_machinery::validate::{validate_label_selector, validate_one_of};
use tenure_machinery::{Errors, Object, Path, name};

use crate::podspec::text;
use crate::podspec::view::{has, int, map, text as text_of};
use crate::podspec::volumes::user;

const KEY_TYPES: &[&str] =
    &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

/// One bundle by name, or those of a signer by labels.
pub(crate) fn validate_bundle(bundle: &Object, path: &Path<'_>, errors: &mut Errors) {
    match (has(bundle, "name"), has(bundle, "signerName")) {
        (true, true) => errors.invalid(path, "", "only one of name and signerName may be used"),
        (false, false) => errors.required(path, "either name or signerName must be specified"),
        (true, false) => {
            validate_bundle_name(text_of(bundle, "name"), &path.field("name"), errors);
            if has(bundle, "labelSelector") {
                let why = "may not be set beside a name";
                errors.invalid(&path.field("labelSelector"), "{}", why);
            }
        }
        (false, true) => {
            let signer = text_of(bundle, "signerName");
            if signer.is_empty() {
                errors.required(&path.field("signerName"), "must be a valid signer name");
            } else {
                validate_signer(signer, &path.field("signerName"), errors);
            }
            if let Some(selector) = map(bundle, "labelSelector") {
                validate_label_selector(selector, &path.field("labelSelector"), errors);
            }
        }
    }
    if text_of(bundle, "path").is_empty() {
        errors.required(&path.field("path"), "");
    }
    user(bundle, "user", path, errors);
    text::local_path(text_of(bundle, "path"), &path.field("path"), errors);
}

/// What follows the signer and its colon, or all of it, is a subdomain.
fn validate_bundle_name(given: &str, path: &Path<'_>, errors: &mut Errors) {
    if given.is_empty() {
        errors.required(path, "must be a valid object name");
    }
    let own = given.rsplit_once(':').map_or(given, |(_, own)| own);
    if let Some(why) = name::dns_subdomain(own) {
        errors.invalid(path, format_args!("{given:?}"), why);
    }
}

/// Who signs, what for, and how long it lasts; where the files go is looked at with all others.
pub(crate) fn validate_certificate(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    let signer = text_of(source, "signerName");
    validate_signer(signer, &path.field("signerName"), errors);
    if let Some(annotations) = map(source, "userAnnotations") {
        validate_user_annotations(annotations, &path.field("userAnnotations"), errors);
    }
    user(source, "user", path, errors);
    match text_of(source, "keyType") {
        "" => errors.not_supported(&path.field("keyType"), "", KEY_TYPES),
        _ => validate_one_of(source, "keyType", KEY_TYPES, path, errors),
    }
    let bounds = lifetime_seconds(signer);
    if let Some(seconds) = int(source, "maxExpirationSeconds")
        && !bounds.contains(&seconds)
    {
        // Upstream's conformance suite looks for these words.
        let why = if seconds < *bounds.start() {
            format!("if provided, maxExpirationSeconds must be >= {}", bounds.start())
        } else {
            format!("if provided, maxExpirationSeconds must be <= {}", bounds.end())
        };
        errors.invalid(&path.field("maxExpirationSeconds"), seconds, &why);
    }
}
