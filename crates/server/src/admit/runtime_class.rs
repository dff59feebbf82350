//! Pods run as their RuntimeClass says: it must exist, and its costs and nodes become theirs (R252).

use serde_json::Value;
use tenure_machinery::usage::amounts;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::World;

/// Adds what the class of a new pod demands, or refuses the pod.
pub(super) fn apply(state: &World, pod: &mut Object) -> Result<(), Failure> {
    let pod_name = pod.name().to_owned();
    let refuse = |why: &str| Err(Failure::forbidden("", "pods", &pod_name, why));
    let spec = pod.map_mut("spec");
    let named = spec.str_at(&["runtimeClassName"]).map(str::to_owned);
    let class: Option<Object> = match &named {
        None => None,
        Some(name) => {
            let Some(record) = state.get(&format!("/registry/runtimeclasses/{name}")) else {
                return refuse(&format!("pod rejected: RuntimeClass \"{name}\" not found"));
            };
            Some(serde_json::from_slice(record.bytes()).map_err(Failure::internal)?)
        }
    };
    let given = spec.map_at(&["overhead"]).filter(|overhead| !overhead.is_empty());
    match (class.as_ref().and_then(|class| class.map_at(&["overhead"])), given) {
        (None, None) => {}
        (None, Some(_)) => {
            return refuse("pod rejected: Pod Overhead set without a RuntimeClass that defines it");
        }
        (Some(defined), given) => {
            let fixed = defined.map_at(&["podFixed"]);
            if given.is_some() && amounts(given) != amounts(fixed) {
                return refuse("pod rejected: Pod's Overhead is not that of its RuntimeClass");
            }
            match fixed.cloned() {
                Some(fixed) => spec.insert("overhead".into(), Value::Object(fixed)),
                None => spec.remove("overhead"),
            };
        }
    }
    let Some(scheduling) = class.as_ref().and_then(|class| class.map_at(&["scheduling"])) else {
        return Ok(());
    };
    if let Some(wanted) = scheduling.map_at(&["nodeSelector"]).filter(|wanted| !wanted.is_empty()) {
        let own = spec.map_mut("nodeSelector");
        for (key, value) in wanted {
            if own.get(key).is_some_and(|known| known != value) {
                let why =
                    format!("the RuntimeClass wants nodes with {key}={value}, the pod others");
                return refuse(&format!("conflict: {why}"));
            }
            own.insert(key.clone(), value.clone());
        }
    }
    tolerate(spec, scheduling.list_at(&["tolerations"]));
    Ok(())
}

/// Adds tolerations, each only if no other covers it; those of the pod come first.
fn tolerate(spec: &mut Object, more: &[Value]) {
    if more.is_empty() {
        return;
    }
    let own = spec.list_at(&["tolerations"]);
    let all: Vec<&Object> = own.iter().chain(more).filter_map(Value::as_object).collect();
    let mut merged: Vec<Value> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let covered = merged.iter().filter_map(Value::as_object).any(|kept| covers(kept, one));
        let later = all.iter().skip(index + 1).any(|other| covers(other, one) && other != one);
        if !covered && !later {
            merged.push(Value::Object((*one).clone()));
        }
    }
    spec.insert("tolerations".into(), Value::Array(merged));
}

/// Whether whatever a second toleration tolerates, a first one does as well.
fn covers(first: &Object, second: &Object) -> bool {
    let text = |of: &'_ Object, name: &str| of.str_at(&[name]).unwrap_or_default().to_owned();
    let same = |name: &str| text(first, name) == text(second, name);
    let empty = |name: &str| text(first, name).is_empty();
    if !(empty("key") || same("key")) || !(empty("effect") || same("effect")) {
        return false;
    }
    let seconds = |of: &Object| of.int_at(&["tolerationSeconds"]);
    let lasts = match (seconds(first), seconds(second)) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(first), Some(second)) => first >= second,
    };
    let operator = |of: &Object| match text(of, "operator").as_str() {
        "" => "Equal".to_owned(),
        other => other.to_owned(),
    };
    lasts
        && match operator(first).as_str() {
            "Exists" => true,
            // An empty key without Exists matches nothing of its own.
            "Equal" => !empty("key") && operator(second) == "Equal" && same("value"),
            other => operator(second) == other && same("value"),
        }
}
