//! What is wrong with `spec.conversion`: a strategy, and for webhooks an address and the certificates that it
//! is known by.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tenure_machinery::validate::{port_number, text};
use tenure_machinery::{Errors, Object, ObjectExt, Path, name};
use x509_parser::pem::Pem;

/// Versions of ConversionReview that the server speaks.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

pub(super) fn validate(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(conversion) = spec.map_at(&["conversion"]) else { return };
    let path = path.field("conversion");
    let strategy = text(conversion, "strategy");
    match strategy {
        "" => errors.required(&path.field("strategy"), ""),
        "None" | "Webhook" => {}
        other => errors.not_supported(&path.field("strategy"), other, &["None", "Webhook"]),
    }
    let config = conversion.map_at(&["webhook", "clientConfig"]);
    let reviews = conversion.list_at(&["webhook", "conversionReviewVersions"]);
    let (at, of_reviews) =
        (path.field("webhookClientConfig"), path.field("conversionReviewVersions"));
    if strategy != "Webhook" {
        let why = "must not be set unless the strategy is Webhook";
        if config.is_some() {
            errors.forbidden(&at, why);
        }
        if !reviews.is_empty() {
            errors.forbidden(&of_reviews, why);
        }
        return;
    }
    match config {
        None => errors.required(&at, "is needed for the strategy Webhook"),
        Some(config) => validate_config(config, &at, errors),
    }
    let reviews: Vec<&str> = reviews.iter().filter_map(|review| review.as_str()).collect();
    validate_reviews(&reviews, &of_reviews, errors);
}

/// What keeps the server from knowing the webhook of a definition by its `caBundle`; an empty one is no fault.
pub(super) fn bundle_fault(crd: &Object) -> Option<&'static str> {
    let config = crd.map_at(&["spec", "conversion", "webhook", "clientConfig"])?;
    let bundle = config.str_at(&["caBundle"]).filter(|bundle| !bundle.is_empty())?;
    let Ok(bundle) = STANDARD.decode(bundle) else { return Some("is not base64") };
    let mut found = false;
    for block in Pem::iter_from_buffer(&bundle) {
        let Ok(block) = block else { return Some("is not PEM") };
        if block.label == "CERTIFICATE" {
            if block.parse_x509().is_err() {
                return Some("has a certificate that cannot be read");
            }
            found = true;
        }
    }
    (!found).then_some("has no certificate")
}

/// A bundle that an established definition is served with stays readable.
pub(super) fn validate_change(
    crd: &Object,
    old: &Object,
    is_established: bool,
    errors: &mut Errors,
) {
    if is_established
        && bundle_fault(old).is_none()
        && let Some(why) = bundle_fault(crd)
    {
        let path = Path::Root.field("spec");
        let path = path.field("conversion");
        let path = path.field("webhookClientConfig");
        let words = format!("unable to load root certificates: the bundle {why}");
        errors.invalid(&path.field("caBundle"), "<bytes>", &words);
    }
}

fn validate_config(config: &Object, path: &Path<'_>, errors: &mut Errors) {
    let service = config.map_at(&["service"]);
    match (config.str_at(&["url"]), service) {
        (Some(url), None) => {
            if let Some(why) = url_fault(url) {
                errors.invalid(&path.field("url"), format_args!("{url:?}"), why);
            }
        }
        (None, Some(service)) => validate_service(service, &path.field("service"), errors),
        _ => errors.required(path, "exactly one of url and service is needed"),
    }
}

fn url_fault(url: &str) -> Option<&'static str> {
    let Some(rest) = url.strip_prefix("https://") else {
        return Some("must start with https://");
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() {
        return Some("must name a host");
    }
    if host.contains('@') {
        return Some("must not name a user");
    }
    rest.contains(['#', '?']).then_some("must not have a query or a fragment")
}

fn validate_service(service: &Object, path: &Path<'_>, errors: &mut Errors) {
    // The missing one is told at the path of the other, as upstream does.
    for (member, at) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, member).is_empty() {
            errors.required(&path.field(at), &format!("the {member} must not be empty"));
        }
    }
    if let Some(port) = service.int_at(&["port"])
        && let Some(why) = port_number(port)
    {
        errors.invalid(&path.field("port"), port, why);
    }
    let Some(value) = service.str_at(&["path"]).filter(|value| !value.is_empty()) else { return };
    let plain = value.strip_prefix('/');
    let good = plain.is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_suffix('/')
                .unwrap_or(rest)
                .split('/')
                .all(|step| !step.is_empty() && name::dns_subdomain(step).is_none())
    });
    if !good {
        let why = "must be a path of lower-case names that starts with a slash";
        errors.invalid(&path.field("path"), format_args!("{value:?}"), why);
    }
}

fn validate_reviews(reviews: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if reviews.is_empty() {
        errors.required(path, "");
        return;
    }
    for (index, review) in reviews.iter().enumerate() {
        let at = path.index(index);
        if reviews.iter().take(index).any(|other| other == review) {
            errors.invalid(&at, format_args!("{review:?}"), "must not repeat an earlier version");
        } else if let Some(why) = name::dns_1035_label(review) {
            errors.invalid(&at, format_args!("{review:?}"), why);
        }
    }
    if !reviews.iter().any(|review| REVIEWS.contains(review)) {
        let why = format!("must have at least one of {}", REVIEWS.join(", "));
        errors.invalid(path, format_args!("{reviews:?}"), &why);
    }
}
