//! The address families of a Service, and how its addresses fit them.
//!
//! Upstream settles both while it hands out addresses, before it looks at anything else: what is wrong here is told
//! alone. Services of this cluster have addresses of one family; those without address and selector may name both,
//! since their endpoints are somebody else's.

use std::net::IpAddr;

use serde_json::{Value, json};
use tenure_machinery::validate::{ip, text, validate_one_of};
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::service::{has_address, headless};
use crate::stored::texts;

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
/// The family that the cluster has addresses of.
const SERVED: &str = "IPv4";
const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];
const SINGLE: &str = "SingleStack";
const REQUIRED: &str = "RequireDualStack";

/// Fills what the client left open, as far as what it said is right.
pub(crate) fn fill(spec: &mut Object, before: Option<&Object>) {
    if !has_address(spec) || stays(spec, before) {
        return;
    }
    if spec.str_at(&["ipFamilyPolicy"]).is_none() {
        let usual = if is_open(spec) { REQUIRED } else { SINGLE };
        let stored = before.and_then(|before| before.str_at(&["ipFamilyPolicy"]));
        spec.insert("ipFamilyPolicy".to_owned(), stored.unwrap_or(usual).into());
    }
    let (path, mut wrong) = (Path::Root.field("spec"), Errors::new());
    validate_addresses(spec, &path, &mut wrong);
    if !wrong.is_empty() {
        return;
    }
    if let Some(before) = before {
        release_second(spec, before);
    }
    infer_families(spec);
    validate_policy(spec, before, &path, &mut wrong);
    if !wrong.is_empty() {
        return;
    }
    if texts(spec, "ipFamilies").is_empty() {
        spec.insert("ipFamilies".to_owned(), json!([SERVED]));
    }
    let families = texts(spec, "ipFamilies");
    if is_open(spec)
        && text(spec, "ipFamilyPolicy") != SINGLE
        && let [one] = families.as_slice()
    {
        let other = if *one == "IPv4" { "IPv6" } else { "IPv4" };
        let both = json!([one, other]);
        spec.insert("ipFamilies".to_owned(), both);
    }
}

/// What is wrong with the families and with the addresses that the client names, told before anything else.
pub(crate) fn validate(spec: &Object, before: Option<&Object>, errors: &mut Errors) {
    if !has_address(spec) || stays(spec, before) {
        return;
    }
    let path = Path::Root.field("spec");
    validate_addresses(spec, &path, errors);
    if !errors.is_empty() {
        return;
    }
    validate_policy(spec, before, &path, errors);
    if !errors.is_empty() || is_open(spec) {
        return;
    }
    let policy = text(spec, "ipFamilyPolicy");
    if policy == REQUIRED {
        let why = "services of this cluster have addresses of one family";
        errors.invalid(&path.field("ipFamilyPolicy"), format_args!("{policy:?}"), why);
    }
    let list = path.field("ipFamilies");
    for (index, family) in texts(spec, "ipFamilies").iter().enumerate() {
        if *family != SERVED {
            let why = "this cluster has no such addresses";
            errors.invalid(&list.index(index), format_args!("{family:?}"), why);
        }
    }
}

/// The addresses, families and policy as such.
pub(crate) fn validate_addresses(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    if !has_address(spec) {
        return;
    }
    let list = path.field("clusterIPs");
    let addresses = texts(spec, "clusterIPs");
    let value = format!("{addresses:?}");
    match (text(spec, "clusterIP"), addresses.first()) {
        ("", None) => {}
        ("", Some(_)) => errors.invalid(&list, &value, "must be empty as clusterIP is"),
        (_, None) => errors.required(&list, ""),
        (single, Some(first)) if single != *first => {
            errors.invalid(&list, &value, "the first must be clusterIP");
        }
        _ => {}
    }
    validate_families(spec, path, errors);
    let mut good = true;
    for (index, address) in addresses.iter().enumerate() {
        if index == 0 && *address == "None" {
            if addresses.len() > 1 {
                good = false;
                errors.invalid(&list, &value, "None stands alone");
            }
        } else if ip(address).is_none() {
            good = false;
            let why = "must be an IP address";
            errors.invalid(&list.index(index), format_args!("{address:?}"), why);
        }
    }
    if addresses.len() > 2 {
        errors.invalid(&list, &value, "at most two addresses");
    }
    if good {
        validate_address_families(spec, &addresses, &list, errors);
    }
}

fn validate_families(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("ipFamilies");
    let families = texts(spec, "ipFamilies");
    for (index, family) in families.iter().enumerate() {
        if !FAMILIES.contains(family) {
            errors.not_supported(&list.index(index), family, FAMILIES);
        }
        if families.iter().take(index).any(|other| other == family) {
            errors.duplicate(&list.index(index), format_args!("{family:?}"));
        }
    }
    validate_one_of(spec, "ipFamilyPolicy", POLICIES, path, errors);
}

fn validate_address_families(
    spec: &Object,
    addresses: &[&str],
    list: &Path<'_>,
    errors: &mut Errors,
) {
    let parsed: Vec<IpAddr> = addresses.iter().filter_map(|a| ip(a)).collect();
    let (v4, v6) = (parsed.iter().any(IpAddr::is_ipv4), parsed.iter().any(IpAddr::is_ipv6));
    if parsed.len() > 1 && !(v4 && v6) {
        errors.invalid(list, format_args!("{addresses:?}"), "one address per family");
    }
    if headless(spec) {
        return;
    }
    for (index, (address, family)) in parsed.iter().zip(texts(spec, "ipFamilies")).enumerate() {
        let fits = match family {
            "IPv4" => address.is_ipv4(),
            "IPv6" => address.is_ipv6(),
            _ => true,
        };
        if !fits {
            let why = format!("must be {family} as ipFamilies says");
            errors.invalid(&list.index(index), format_args!("\"{address}\""), &why);
        }
    }
}

/// Whether policy, families and addresses fit each other, and an address or a family goes only with the policy that
/// says so.
fn validate_policy(spec: &Object, before: Option<&Object>, path: &Path<'_>, errors: &mut Errors) {
    let policy = text(spec, "ipFamilyPolicy");
    let at = path.field("ipFamilyPolicy");
    let count = |spec: &Object, member: &str| spec.list_at(&[member]).len();
    for (member, what) in [("clusterIPs", "address"), ("ipFamilies", "family")] {
        let (now, stored) = (count(spec, member), before.map_or(0, |b| count(b, member)));
        if policy != SINGLE && now > 0 && now < stored {
            let why = format!("must be SingleStack to give back the second {what}");
            errors.invalid(&at, format_args!("{policy:?}"), &why);
        }
        if policy == SINGLE && now == 2 {
            let why = format!("must not be SingleStack with a second {what}");
            errors.invalid(&at, format_args!("{policy:?}"), &why);
        }
    }
    let families = count(spec, "ipFamilies");
    let list = path.field("clusterIPs");
    for (index, address) in named(spec).iter().enumerate().skip(families) {
        if !address.is_ipv4() {
            let why = "this cluster has no such addresses";
            errors.invalid(&list.index(index), format_args!("\"{address}\""), why);
        }
    }
}

/// A policy of one family gives back the second address and the second family, where the client did not touch them.
fn release_second(spec: &mut Object, before: &Object) {
    if text(spec, "ipFamilyPolicy") != SINGLE {
        return;
    }
    for member in ["clusterIPs", "ipFamilies"] {
        if texts(spec, member) == texts(before, member)
            && let Some(Value::Array(list)) = spec.get_mut(member)
        {
            list.truncate(1);
        }
    }
}

/// Names the families of the addresses that have none yet, as far as the cluster has them.
fn infer_families(spec: &mut Object) {
    let mut families: Vec<String> =
        texts(spec, "ipFamilies").into_iter().map(str::to_owned).collect();
    let known = families.len();
    let served = named(spec).into_iter().skip(known).take_while(IpAddr::is_ipv4);
    families.extend(served.map(|_| SERVED.to_owned()));
    if families.len() > known {
        spec.insert("ipFamilies".to_owned(), families.into());
    }
}

/// The addresses that stand there; `None` is no address.
fn named(spec: &Object) -> Vec<IpAddr> {
    texts(spec, "clusterIPs").into_iter().map_while(ip).collect()
}

/// Whether the service has neither address nor selector.
fn is_open(spec: &Object) -> bool {
    text(spec, "clusterIP") == "None" && spec.map_at(&["selector"]).is_none_or(Object::is_empty)
}

/// Whether a service that takes what there is asks for what it had: it is neither given nor deprived of anything.
fn stays(spec: &Object, before: Option<&Object>) -> bool {
    const PREFERRED: &str = "PreferDualStack";
    before.is_some_and(|before| {
        let stored = before.str_at(&["ipFamilyPolicy"]);
        text(spec, "type") == text(before, "type")
            && text(spec, "ipFamilyPolicy") == PREFERRED
            && stored.is_none_or(|stored| stored == PREFERRED)
            && ["clusterIPs", "ipFamilies"].iter().all(|m| texts(spec, m) == texts(before, m))
    })
}

#[cfg(test)]
mod tests;
