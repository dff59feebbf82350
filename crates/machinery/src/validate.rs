//! Checks that many kinds share: selectors, ports, addresses, closed sets, frozen fields.
//!
//! Nothing here knows a kind, and nothing here changes an object.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::name;
use crate::object::{Object, ObjectExt};

/// Keys and values of labels; every cause stands at the map itself.
pub fn validate_labels(labels: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels {
        for why in name::qualified_name_faults(key) {
            errors.invalid(path, format_args!("{key:?}"), why);
        }
        let text = value.as_str().unwrap_or_default();
        for why in name::label_value_faults(text) {
            errors.invalid(path, format_args!("{text:?}"), why);
        }
    }
}

/// A `metav1.LabelSelector`.
pub fn validate_label_selector(selector: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(labels) = selector.map_at(&["matchLabels"]) {
        validate_labels(labels, &path.field("matchLabels"), errors);
    }
    let list = path.field("matchExpressions");
    for (index, item) in objects(selector, "matchExpressions") {
        validate_requirement(item, &list.index(index), errors);
    }
}

fn validate_requirement(item: &Object, path: &Path<'_>, errors: &mut Errors) {
    let values = item.list_at(&["values"]);
    let operator = text(item, "operator");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&path.field("values"), "In and NotIn need at least one value");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&path.field("values"), "Exists and DoesNotExist take no values");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            errors.invalid(&path.field("operator"), format_args!("{other:?}"), "is no operator");
        }
    }
    let key = text(item, "key");
    for why in name::qualified_name_faults(key) {
        errors.invalid(&path.field("key"), format_args!("{key:?}"), why);
    }
    let list = path.field("values");
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        for why in name::label_value_faults(value) {
            errors.invalid(&list.index(index), format_args!("{value:?}"), why);
        }
    }
}

/// What is wrong with a port number.
#[must_use]
pub fn port_number(port: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&port)).then_some("must be between 1 and 65535")
}

/// What is wrong with the name of a port, one sentence per fault.
#[must_use]
pub fn port_name(text: &str) -> Vec<&'static str> {
    let mut faults = Vec::new();
    if text.len() > 15 {
        faults.push("must have at most 15 characters");
    }
    if !text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        faults.push("must consist of lower case letters, digits and '-'");
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter");
    }
    if text.contains("--") {
        faults.push("must not contain two hyphens in a row");
    }
    if text.starts_with('-') || text.ends_with('-') {
        faults.push("must not start or end with a hyphen");
    }
    faults
}

/// A port by number or by name, as `targetPort` and probes take it.
pub fn validate_port_or_name(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) => {
            for why in port_name(text) {
                errors.invalid(path, format_args!("{text:?}"), why);
            }
        }
        other => {
            if let Some(why) = port_number(other.as_i64().unwrap_or_default()) {
                errors.invalid(path, other, why);
            }
        }
    }
}

/// An IP address in its usual spelling: no leading zeros, no IPv4 inside IPv6, no zone.
#[must_use]
pub fn ip(text: &str) -> Option<IpAddr> {
    let parsed: IpAddr = text.parse().ok()?;
    match parsed {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => None,
        other => Some(other),
    }
}

/// A network such as `10.0.0.0/8`: its address and the number of fixed bits.
#[must_use]
pub fn cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    if bits.is_empty() || (bits.len() > 1 && bits.starts_with('0')) {
        return None;
    }
    let address = ip(address)?;
    let bits: u8 = bits.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then_some((address, bits))
}

/// Whether an address is one that nodes of this machine give to pods in the machine's own network:
/// 127.64.0.0/10. It is loopback and yet not anybody's, and can be reached on that machine.
#[must_use]
pub fn is_pod_of_machine(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(v4) if matches!(v4.octets(), [127, 64..=127, ..]))
}

/// Why an address cannot be shown as that of an endpoint, one sentence per fault. Those of pods in the
/// machine's own network can (ES4a).
#[must_use]
pub fn published_ip_faults(address: IpAddr) -> Vec<&'static str> {
    if is_pod_of_machine(address) { Vec::new() } else { endpoint_ip_faults(address) }
}

/// Why an address cannot be that of an endpoint, one sentence per fault.
#[must_use]
pub fn endpoint_ip_faults(address: IpAddr) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let (link_local, link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets().starts_with(&[224, 0, 0])),
        IpAddr::V6(v6) => {
            (v6.segments().first().is_some_and(|s| s & 0xffc0 == 0xfe80), is_link_multicast(v6))
        }
    };
    if is_unspecified(address) {
        faults.push("must not be the unspecified address");
    }
    if address.is_loopback() {
        faults.push("must not be a loopback address");
    }
    if link_local {
        faults.push("must not be a link-local address");
    }
    if link_multicast {
        faults.push("must not be a link-local multicast address");
    }
    faults
}

fn is_unspecified(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(Ipv4Addr::UNSPECIFIED) | IpAddr::V6(Ipv6Addr::UNSPECIFIED))
}

fn is_link_multicast(address: Ipv6Addr) -> bool {
    address.segments().first().is_some_and(|s| s & 0xff0f == 0xff02)
}

/// The value, if set, is one of a closed set.
pub fn validate_one_of(
    object: &Object,
    member: &str,
    supported: &[&str],
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if let Some(value) = object.get(member).and_then(Value::as_str)
        && !supported.contains(&value)
    {
        errors.not_supported(&path.field(member), value, supported);
    }
}

/// The integer, if set, is not below zero.
pub fn validate_non_negative(object: &Object, member: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(value) = object.get(member).and_then(Value::as_i64)
        && value < 0
    {
        errors.invalid(&path.field(member), value, "must not be negative");
    }
}

/// A count of at least zero, or a percentage of digits such as `25%`.
pub fn validate_count_or_percent(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::String(text) if percent(text).is_none() => {
            errors.invalid(path, format_args!("{text:?}"), "must be an integer or a percentage");
        }
        Value::String(_) => {}
        other if other.as_i64().is_some_and(|n| n < 0) => {
            errors.invalid(path, other, "must not be negative");
        }
        _ => {}
    }
}

/// A percentage, if it is one, is at most a hundred.
pub fn validate_at_most_all(value: &Value, path: &Path<'_>, errors: &mut Errors) {
    if let Some(text) = value.as_str()
        && percent(text).is_some_and(|n| n > 100)
    {
        errors.invalid(path, format_args!("{text:?}"), "must not be more than 100%");
    }
}

/// The number before the sign in `25%`.
#[must_use]
pub fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// The member is the same as in the stored object; absent, null and empty are the same.
pub fn validate_frozen(
    object: &Object,
    old: &Object,
    member: &str,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if !same(object.get(member), old.get(member)) {
        let value = object.get(member).unwrap_or(&Value::Null);
        errors.invalid(&path.field(member), value, "field is immutable");
    }
}

/// Whether two members are equal when absent, null, empty and zero count as unset.
#[must_use]
pub fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    let set = |value: Option<&Value>| value.is_some_and(|v| !is_zero(v));
    match (set(a), set(b)) {
        (true, true) => a == b,
        (false, false) => true,
        _ => false,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// The text of a member, or empty.
#[must_use]
pub fn text<'a>(object: &'a Object, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The objects in the list under `member`, each with its position.
pub fn objects<'a>(
    object: &'a Object,
    member: &str,
) -> impl Iterator<Item = (usize, &'a Object)> + 'a {
    object
        .get(member)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, item)| item.as_object().map(|item| (index, item)))
}

/// The objects in the list under `member`, to change.
pub fn objects_mut<'a>(
    object: &'a mut Object,
    member: &str,
) -> impl Iterator<Item = &'a mut Object> + 'a {
    object
        .get_mut(member)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::*;

    fn found(check: impl Fn(&mut Errors)) -> Vec<String> {
        let mut errors = Errors::new();
        check(&mut errors);
        errors.causes().iter().map(|c| format!("{} {}", c.field, c.reason.as_str())).collect()
    }

    #[test]
    fn r60_label_selectors() {
        let cases = [
            (json!({"matchLabels": {"a": "b"}}), vec![]),
            (json!({"matchLabels": {"": "b"}}), vec!["s.matchLabels FieldValueInvalid"; 2]),
            (json!({"matchLabels": {"a/": "b"}}), vec!["s.matchLabels FieldValueInvalid"; 2]),
            (json!({"matchLabels": {"/": ""}}), vec!["s.matchLabels FieldValueInvalid"; 3]),
            (json!({"matchLabels": {"a b": "c d"}}), vec!["s.matchLabels FieldValueInvalid"; 2]),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
                vec!["s.matchExpressions[0].values FieldValueRequired"],
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
                vec!["s.matchExpressions[0].values FieldValueForbidden"],
            ),
            (
                json!({"matchExpressions": [{"key": "", "operator": "Like", "values": ["x y"]}]}),
                vec![
                    "s.matchExpressions[0].operator FieldValueInvalid",
                    // Nothing is too short a key, and not of its form.
                    "s.matchExpressions[0].key FieldValueInvalid",
                    "s.matchExpressions[0].key FieldValueInvalid",
                    "s.matchExpressions[0].values[0] FieldValueInvalid",
                ],
            ),
        ];
        for (selector, expected) in cases {
            let selector = selector.as_object().unwrap();
            let got = found(|e| validate_label_selector(selector, &Path::Root.field("s"), e));
            assert_eq!(got, expected, "{selector:?}");
        }
    }

    #[test]
    fn r137_ports_and_addresses() {
        assert_eq!(
            [0, 1, 65535, 65536].map(|p| port_number(p).is_none()),
            [false, true, true, false]
        );
        assert_eq!(
            ["http", "-a", "8080", "much-too-long-name"].map(|n| port_name(n).is_empty()),
            [true, false, false, false]
        );
        assert_eq!(
            ["10.0.0.1", "::1", "1.2.3", "010.0.0.1", "::ffff:1.2.3.4"].map(|t| ip(t).is_some()),
            [true, true, false, false, false]
        );
        assert_eq!(
            ["10.0.0.0/8", "fd00::/64", "10.0.0.0/33", "10.0.0.0"].map(|t| cidr(t).is_some()),
            [true, true, false, false]
        );
        for bad in ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.9", "fe80::1", "ff02::1", "::1"]
        {
            assert_eq!(endpoint_ip_faults(bad.parse().unwrap()).len(), 1, "{bad}");
            assert_eq!(published_ip_faults(bad.parse().unwrap()).len(), 1, "{bad}");
        }
        for (address, of_machine) in [
            ("127.64.0.1", true),
            ("127.127.255.254", true),
            ("127.63.255.255", false),
            ("127.128.0.1", false),
            ("10.64.0.1", false),
            ("::1", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(is_pod_of_machine(address), of_machine, "{address}");
            assert_eq!(
                published_ip_faults(address).is_empty(),
                of_machine || !address.is_loopback()
            );
        }
    }

    #[test]
    fn r137_unset_members_are_equal() {
        assert!(same(None, Some(&json!([]))));
        assert!(same(Some(&json!("")), None));
        assert!(!same(Some(&json!("a")), None));
        assert!(!same(Some(&json!(1)), Some(&json!(2))));
    }
}
