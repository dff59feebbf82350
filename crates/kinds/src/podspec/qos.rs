//! The quality-of-service class that follows from requests and limits.

use tenure_machinery::Object;
use tenure_machinery::quantity::Quantity;

use crate::podspec::view::{items, map};

const BEST_EFFORT: &str = "BestEffort";
const BURSTABLE: &str = "Burstable";
const GUARANTEED: &str = "Guaranteed";

/// `BestEffort`, `Burstable` or `Guaranteed`.
#[must_use]
pub fn qos_class(spec: &Object) -> &'static str {
    let whole = map(spec, "resources").filter(|resources| {
        ["requests", "limits"]
            .iter()
            .any(|list| map(resources, list).is_some_and(|l| !l.is_empty()))
    });
    if whole.is_some() {
        return class_of(whole);
    }
    let containers = items(spec, "initContainers").chain(items(spec, "containers"));
    combine(containers.map(|container| class_of(map(container, "resources"))))
}

fn class_of(resources: Option<&Object>) -> &'static str {
    combine(["cpu", "memory"].iter().map(|name| {
        let request = amount(resources, "requests", name);
        let limit = amount(resources, "limits", name);
        if request != limit {
            BURSTABLE
        } else if request.is_zero() {
            BEST_EFFORT
        } else {
            GUARANTEED
        }
    }))
}

/// One class if all agree, else burstable.
fn combine(mut classes: impl Iterator<Item = &'static str>) -> &'static str {
    let Some(first) = classes.next() else { return BEST_EFFORT };
    if classes.all(|class| class == first) { first } else { BURSTABLE }
}

fn amount(resources: Option<&Object>, list: &str, name: &str) -> Quantity {
    let value = resources.and_then(|resources| map(resources, list)).and_then(|l| l.get(name));
    value.and_then(Quantity::from_value).unwrap_or(Quantity::ZERO)
}
