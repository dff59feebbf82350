//! What a container may use, as a number (R28 to R35).

use alloc::string::{String, ToString};

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

use crate::field::ResolveError;
use crate::view::RuntimeView;

/// The value behind a `resourceFieldRef`; `own` is the container that asks, if one does.
///
/// A limit that is not set is the pod's limit, else what the node can give out: for containers of
/// every kind, in variables and in files (D1, D2).
///
/// # Errors
/// The pod has no such container, or the resource is none that is told.
pub fn resolve_resource(
    reference: &Object,
    pod: &Object,
    own: Option<&Object>,
    runtime: &RuntimeView<'_>,
) -> Result<String, ResolveError> {
    let named = reference.str_at(&["containerName"]).filter(|name| !name.is_empty());
    let container = match (named, own) {
        (None, Some(own)) => own,
        (named, _) => {
            let name = named.unwrap_or_default();
            find(pod, name).ok_or_else(|| ResolveError::Container(name.into()))?
        }
    };
    let requested = reference.str_at(&["resource"]).unwrap_or_default();
    let unknown = || ResolveError::Resource(requested.into());
    let (list, resource) = requested.split_once('.').ok_or_else(unknown)?;
    let usual = matches!(resource, "cpu" | "memory" | "ephemeral-storage");
    if !(usual || resource.starts_with("hugepages-")) || !matches!(list, "limits" | "requests") {
        return Err(unknown());
    }
    let amount = amount(container.map_at(&["resources", list]), resource);
    let amount = match amount {
        Some(amount) => amount,
        // Huge pages are never given out beyond what was asked for, so they have no default.
        None if list == "limits" && usual => default_limit(pod, resource, runtime),
        None => Quantity::ZERO,
    };
    let divisor = reference.get("divisor").and_then(Quantity::from_value);
    let divisor = divisor.filter(|divisor| !divisor.is_zero());
    let divisor = divisor.unwrap_or(Quantity::from_units(1));
    let (amount, divisor) = if resource == "cpu" {
        (amount.milli(), divisor.milli())
    } else {
        (amount.value(), divisor.value())
    };
    Ok(divided(amount, divisor).to_string())
}

/// Regular containers first, then init containers; others are not found (R17).
fn find<'a>(pod: &'a Object, name: &str) -> Option<&'a Object> {
    ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod.list_at(&["spec", list]))
        .filter_map(Value::as_object)
        .find(|container| container.str_at(&["name"]) == Some(name))
}

fn default_limit(pod: &Object, resource: &str, runtime: &RuntimeView<'_>) -> Quantity {
    let pod_level = pod.map_at(&["spec", "resources", "limits"]);
    let pod_level = pod_level.filter(|_| resource != "ephemeral-storage");
    let node = runtime.node.and_then(|node| node.map_at(&["status", "allocatable"]));
    let limit = amount(pod_level, resource).or_else(|| amount(node, resource));
    limit.unwrap_or(Quantity::ZERO)
}

/// An amount that is set and is not nothing.
fn amount(list: Option<&Object>, resource: &str) -> Option<Quantity> {
    let amount = list?.get(resource).and_then(Quantity::from_value)?;
    (!amount.is_zero()).then_some(amount)
}

/// The quotient, rounded up.
fn divided(amount: i64, divisor: i64) -> i64 {
    let (Some(whole), Some(rest)) = (amount.checked_div(divisor), amount.checked_rem(divisor))
    else {
        return amount;
    };
    whole.saturating_add(i64::from(rest != 0 && (rest > 0) == (divisor > 0)))
}
