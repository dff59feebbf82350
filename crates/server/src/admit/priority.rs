//! Pods get the priority of their class, and no other (R251).

use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::World;

use crate::request::ResourceRequest;

/// The policy of pods whose class says nothing, or that have none.
const PREEMPTS: &str = "PreemptLowerPriority";

fn defaults(state: &World) -> impl Iterator<Item = Object> {
    state
        .range("/registry/priorityclasses/", None)
        .filter_map(|record| serde_json::from_slice::<Object>(record.bytes()).ok())
        .filter(|class| class.bool_at(&["globalDefault"]) == Some(true))
}

/// Resolves the priority class of a new pod, or the global default, or zero.
pub(super) fn resolve(state: &World, pod: &mut Object) -> Result<(), Failure> {
    let pod_name = pod.name().to_owned();
    let refuse = |why: String| Failure::forbidden("", "pods", &pod_name, &why);
    let spec = pod.map_mut("spec");
    let named = spec.str_at(&["priorityClassName"]).filter(|n| !n.is_empty()).map(str::to_owned);
    let class: Option<Object> = match &named {
        Some(name) => {
            let record = state
                .get(&format!("/registry/priorityclasses/{name}"))
                .ok_or_else(|| refuse(format!("no PriorityClass with name {name} was found")))?;
            Some(serde_json::from_slice(record.bytes()).map_err(Failure::internal)?)
        }
        // Should there be several, the least of them is the least surprise.
        None => defaults(state).min_by_key(|class| class.int_at(&["value"]).unwrap_or(0)),
    };
    let value = class.as_ref().and_then(|class| class.int_at(&["value"])).unwrap_or(0);
    let policy = match &class {
        Some(class) => class.str_at(&["preemptionPolicy"]),
        None => Some(PREEMPTS),
    };
    if let (None, Some(class)) = (&named, &class) {
        spec.insert("priorityClassName".into(), class.name().into());
    }
    if let Some(given) = spec.int_at(&["priority"]).filter(|given| *given != value) {
        return Err(refuse(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             its PriorityClass gives it {value}"
        )));
    }
    spec.insert("priority".into(), value.into());
    let Some(policy) = policy else { return Ok(()) };
    if let Some(given) = spec.str_at(&["preemptionPolicy"]).filter(|given| *given != policy) {
        return Err(refuse(format!(
            "the value of preemptionPolicy ({given}) must not be provided in pod spec; \
             its PriorityClass gives it {policy}"
        )));
    }
    spec.insert("preemptionPolicy".into(), policy.into());
    Ok(())
}

/// Keeps what an update leaves out.
pub(super) fn keep(pod: &mut Object, old: &Object) {
    for member in ["priority", "preemptionPolicy"] {
        if let Some(value) = old.at(&["spec", member]).cloned() {
            let spec = pod.map_mut("spec");
            if spec.get(member).is_none_or(Value::is_null) {
                spec.insert(member.to_owned(), value);
            }
        }
    }
}

/// Refuses a second default; one that is made is a second one even under the name of the first.
pub(super) fn one_default(
    state: &World,
    request: &ResourceRequest,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.kind != "PriorityClass"
        || kind.group != "scheduling.k8s.io"
        || new.bool_at(&["globalDefault"]) != Some(true)
    {
        return Ok(());
    }
    match defaults(state).find(|class| old.is_none() || class.name() != new.name()) {
        None => Ok(()),
        Some(other) => {
            let why =
                format!("PriorityClass {} is the default already; there is one", other.name());
            Err(Failure::forbidden(&kind.group, &kind.plural, new.name(), &why))
        }
    }
}
