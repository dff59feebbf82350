//! Names of signers of certificates, and what is asked of them beside a key.

use crate::field::{Errors, Path};
use crate::meta::ANNOTATIONS_BYTES_MAX;
use crate::name;
use crate::object::Object;

/// What the two halves of a signer's name may have together, after the slash.
const PATH_BYTES_MAX: usize = 253 + 63 + 1;
const HOUR_SECONDS: i64 = 60 * 60;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;

/// A domain with a dot, one slash, and a name.
pub fn validate_signer(signer: &str, path: &Path<'_>, errors: &mut Errors) {
    if signer.is_empty() {
        return errors.required(path, "");
    }
    let shown = format_args!("{signer:?}");
    let halves = signer.split_once('/').filter(|(_, rest)| !rest.contains('/'));
    let Some((domain, rest)) = halves else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, shown, why);
    };
    if let Some(why) = domain.split('.').find_map(name::dns_label) {
        errors.invalid(path, shown, why);
    } else if let Some(why) = name::dns_subdomain(domain) {
        errors.invalid(path, shown, why);
    } else if !domain.contains('.') {
        errors.invalid(path, shown, "should be a domain with two labels separated by a dot");
    }
    if let Some(why) = rest.split('.').find_map(name::dns_subdomain) {
        errors.invalid(path, shown, why);
    } else if rest.len() > PATH_BYTES_MAX {
        errors.too_long(path, PATH_BYTES_MAX);
    }
}

/// How long the certificates of a signer may live: those of Kubernetes for a day, others for 91.
#[must_use]
pub fn lifetime_seconds(signer: &str) -> core::ops::RangeInclusive<i64> {
    let domain = signer.split('/').next().unwrap_or_default();
    let kubernetes = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
    HOUR_SECONDS..=if kubernetes { DAY_SECONDS } else { 91 * DAY_SECONDS }
}

/// What a signer is told beside the request: keys have a domain, and all of it is bounded.
pub fn validate_user_annotations(annotations: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut size = 0_usize;
    for (key, value) in annotations {
        size = size.saturating_add(key.len() + value.as_str().map_or(0, str::len));
        if key.is_empty() {
            errors.required(path, "");
            continue;
        }
        let faults = name::qualified_name_faults(&key.to_ascii_lowercase());
        for why in &faults {
            errors.invalid(path, format_args!("{key:?}"), why);
        }
        if faults.is_empty() && !key.contains('/') {
            let why = "must be a domain-prefixed key (such as \"acme.io/foo\")";
            errors.invalid(path, format_args!("{key:?}"), why);
        }
    }
    if size > ANNOTATIONS_BYTES_MAX {
        errors.too_long(path, ANNOTATIONS_BYTES_MAX);
    }
}
