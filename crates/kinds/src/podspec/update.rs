//! What may change in a pod that exists: little, and through three doors.
//!
//! Each function says what is wrong with the change only; `validate_pod` runs on the new pod besides.

use serde_json::Value;
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::podspec::annotations::validate_annotation_update;
use crate::podspec::qos::qos_class;
use crate::podspec::view::{any, has, int, items, map, text as text_of};

const MIRROR: &str = "kubernetes.io/config.mirror";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// An ordinary update: images, deadline, added tolerations, removed gates.
pub fn validate_pod_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate_annotation_update(new, old, errors);
    let (empty, other) = (Object::new(), Object::new());
    let new = new.map_at(&["spec"]).unwrap_or(&empty);
    let old = old.map_at(&["spec"]).unwrap_or(&other);
    let path = Path::Root.field("spec");
    for list in ["containers", "initContainers"] {
        if items(new, list).count() != items(old, list).count() {
            errors.forbidden(&path.field(list), "pod updates may not add or remove containers");
            return;
        }
    }
    let at = path.field("activeDeadlineSeconds");
    match (int(new, "activeDeadlineSeconds"), int(old, "activeDeadlineSeconds")) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid(&at, new, "must be less than or equal to previous value");
            return;
        }
        (None, Some(_)) => {
            errors.invalid(&at, "null", "must not update from a positive integer to nil value");
        }
        _ => {}
    }
    if !items(old, "tolerations")
        .all(|old| items(new, "tolerations").any(|new| tolerates(new, old)))
    {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&path.field("tolerations"), why);
    }
    let gates = path.field("schedulingGates");
    for (index, gate) in items(new, "schedulingGates").enumerate() {
        let name = text_of(gate, "name");
        if !items(old, "schedulingGates").any(|gate| text_of(gate, "name") == name) {
            let at = gates.index(index);
            errors.forbidden(&at.field("name"), "only deletion is allowed, but found a new gate");
        }
    }
    let mut rest = new.clone();
    forgive_allowed(&mut rest, old);
    if any(old, "schedulingGates") {
        forgive_narrowing(&mut rest, old, &path, errors);
    }
    if &rest != old {
        let why = "pod updates may not change fields other than `spec.containers[*].image`, \
                   `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` \
                   (only additions to existing tolerations), `spec.terminationGracePeriodSeconds` \
                   (allow it to be set to 1 if it was previously negative)";
        errors.forbidden(&path, why);
    }
}

/// Whether the new toleration is the old one but for its seconds.
fn tolerates(new: &Object, old: &Object) -> bool {
    let plain = |toleration: &Object| {
        let mut toleration = toleration.clone();
        toleration.remove("tolerationSeconds");
        toleration
    };
    plain(new) == plain(old)
}

/// Puts old values where new ones are allowed, so that what still differs is not.
fn forgive_allowed(new: &mut Object, old: &Object) {
    for list in ["containers", "initContainers"] {
        let olds: Vec<Option<Value>> = items(old, list).map(|c| c.get("image").cloned()).collect();
        for (container, image) in crate::podspec::view::items_mut(new, list).zip(olds) {
            put(container, "image", image);
        }
    }
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        put(new, member, old.get(member).cloned());
    }
    let grace = "terminationGracePeriodSeconds";
    if int(old, grace).is_some_and(|seconds| seconds < 0) && int(new, grace) == Some(1) {
        put(new, grace, old.get(grace).cloned());
    }
}

fn put(object: &mut Object, name: &str, value: Option<Value>) {
    match value {
        Some(value) => object.insert(name.to_owned(), value),
        None => object.remove(name),
    };
}

/// While a gate holds the pod back, the choice of nodes may be narrowed.
fn forgive_narrowing(new: &mut Object, old: &Object, path: &Path<'_>, errors: &mut Errors) {
    if new.get("nodeSelector") != old.get("nodeSelector") {
        let kept = map(old, "nodeSelector").is_none_or(|old| {
            let new = map(new, "nodeSelector");
            old.iter().all(|(key, value)| new.and_then(|new| new.get(key)) == Some(value))
        });
        if !kept {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.invalid(&path.field("nodeSelector"), "", why);
        }
        put(new, "nodeSelector", old.get("nodeSelector").cloned());
    }
    let old_node = old.at(&["affinity", "nodeAffinity"]).cloned();
    if new.at(&["affinity", "nodeAffinity"]) == old_node.as_ref() {
        return;
    }
    let affinity = path.field("affinity");
    let at = affinity.field("nodeAffinity");
    let at = at.field(REQUIRED);
    let at = at.field("nodeSelectorTerms");
    let terms = ["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];
    let (new_terms, old_terms) = (new.list_at(&terms), old.list_at(&terms));
    if !old_terms.is_empty() && old_terms.len() != new_terms.len() {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.invalid(&at, "", why);
    } else {
        for (index, (new, old)) in new_terms.iter().zip(old_terms).enumerate() {
            if !only_adds(new, old) {
                let why = "only additions are allowed (no mutations or deletions)";
                errors.invalid(&at.index(index), "", why);
            }
        }
    }
    restore_node_affinity(new, old, old_node);
}

fn restore_node_affinity(new: &mut Object, old: &Object, old_node: Option<Value>) {
    let alone = map(new, "affinity")
        .is_some_and(|affinity| !has(affinity, "podAffinity") && !has(affinity, "podAntiAffinity"));
    match (has(new, "affinity"), &old_node) {
        (false, None) => {}
        (true, _) if !has(old, "affinity") && alone => {
            new.remove("affinity");
        }
        _ => put(new.map_mut("affinity"), "nodeAffinity", old_node),
    }
}

fn only_adds(new: &Value, old: &Value) -> bool {
    let list = |term: &Value, name: &str| {
        term.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let names = ["matchExpressions", "matchFields"];
    let empty = names.iter().all(|name| list(old, name).is_empty());
    if empty {
        return names.iter().all(|name| list(new, name).is_empty());
    }
    names.iter().all(|name| list(new, name).starts_with(&list(old, name)))
}

/// Keeps what a client may otherwise write of the metadata: whoever may change a part of a pod only
/// changes nothing of whose it is, what selects it and what holds it.
fn keep_metadata(new: &mut Object, old: &Object) {
    for member in ["labels", "annotations", "finalizers", "ownerReferences", "generateName"] {
        put(new.map_mut("metadata"), member, old.at(&["metadata", member]).cloned());
    }
}

/// Lets an update through `ephemeralcontainers` touch that list alone.
pub fn prepare_ephemeral_update(new: &mut Object, old: &Object) {
    keep_metadata(new, old);
    let containers = new.at(&["spec", "ephemeralContainers"]).cloned();
    for member in ["spec", "status"] {
        put(new, member, old.get(member).cloned());
    }
    put(new.map_mut("spec"), "ephemeralContainers", containers);
}

/// Lets an update through `resize` touch resources alone; changed lists are left for validation.
pub fn prepare_resize(new: &mut Object, old: &Object) {
    keep_metadata(new, old);
    put(new, "status", old.get("status").cloned());
    let (Some(asked), Some(spec)) = (new.map_at(&["spec"]), old.map_at(&["spec"])) else { return };
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        let same = items(asked, list)
            .map(|c| text_of(c, "name"))
            .eq(items(&spec, list).map(|c| text_of(c, "name")));
        if !same {
            return;
        }
        let asked: Vec<Object> = items(asked, list).cloned().collect();
        for (container, asked) in crate::podspec::view::items_mut(&mut spec, list).zip(asked) {
            for member in ["resources", "resizePolicy"] {
                put(container, member, asked.get(member).cloned());
            }
        }
    }
    if has(asked, "resources") {
        put(&mut spec, "resources", asked.get("resources").cloned());
    }
    put(new, "spec", Some(Value::Object(spec)));
}

/// An update through `ephemeralcontainers`: containers may be added, none changed or removed.
pub fn validate_ephemeral_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate_annotation_update(new, old, errors);
    if old.str_at(&["metadata", "annotations", MIRROR]).is_some() {
        errors.forbidden(&Path::Root, "static pods do not support ephemeral containers");
        return;
    }
    let path = Path::Root.field("spec");
    let at = path.field("ephemeralContainers");
    let list = |pod: &Object| -> Vec<Object> {
        pod.map_at(&["spec"])
            .map(|spec| items(spec, "ephemeralContainers").cloned().collect())
            .unwrap_or_default()
    };
    let news = list(new);
    for old in list(old) {
        let name = text_of(&old, "name");
        match news.iter().rev().find(|new| text_of(new, "name") == name) {
            None => {
                let why = format!("existing ephemeral containers {name:?} may not be removed");
                errors.forbidden(&at, &why);
            }
            Some(new) if *new != old => {
                let why = format!("existing ephemeral containers {name:?} may not be changed");
                errors.forbidden(&at, &why);
            }
            Some(_) => {}
        }
    }
}

/// An update through `resize`: cpu and memory of containers, nothing else.
pub fn validate_resize(new: &Object, old: &Object, errors: &mut Errors) {
    let old_pod = old;
    if old.str_at(&["metadata", "annotations", MIRROR]).is_some() {
        errors.forbidden(&Path::Root, "static pods cannot be resized");
        return;
    }
    if old.str_at(&["spec", "os", "name"]) == Some("windows") {
        errors.forbidden(&Path::Root, "windows pods cannot be resized");
        return;
    }
    let (empty, other) = (Object::new(), Object::new());
    let new = new.map_at(&["spec"]).unwrap_or(&empty);
    let old = old.map_at(&["spec"]).unwrap_or(&other);
    let path = Path::Root.field("spec");
    let before = old_pod.str_at(&["status", "qosClass"]).unwrap_or_else(|| qos_class(old));
    if before != qos_class(new) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, format_args!("{before:?}"), why);
    }
    if !validate_resize_order(new, old, &path, errors) {
        return;
    }
    for list in ["initContainers", "containers"] {
        let list_path = path.field(list);
        for (index, (new, old)) in items(new, list).zip(items(old, list)).enumerate() {
            let at = list_path.index(index);
            let at = at.field("resources");
            for kind in ["requests", "limits"] {
                if removed(new, old, kind) {
                    errors
                        .forbidden(&at.field(kind), &format!("resource {kind} cannot be removed"));
                }
            }
        }
    }
    let mut rest = new.clone();
    forgive_resources(&mut rest, old);
    for (new, old) in items(&rest, "containers").zip(items(old, "containers")) {
        if new != old {
            errors.forbidden(&path, "only cpu and memory resources are mutable");
        }
    }
    let list = path.field("initContainers");
    for (index, (new, old)) in
        items(&rest, "initContainers").zip(items(old, "initContainers")).enumerate()
    {
        if new != old {
            errors.forbidden(&list.index(index), "only cpu and memory resources are mutable");
        }
    }
    if new.get("volumes") != old.get("volumes") {
        errors.forbidden(&path.field("volumes"), "volumes are immutable on resize");
    }
    if errors.is_empty() && &rest != old {
        errors.forbidden(&path, "only cpu and memory resources are mutable");
    }
}

/// Containers may not be added, removed, renamed or moved.
fn validate_resize_order(new: &Object, old: &Object, path: &Path<'_>, errors: &mut Errors) -> bool {
    let before = errors.causes().len();
    for list in ["containers", "initContainers"] {
        let at = path.field(list);
        if items(new, list).count() != items(old, list).count() {
            errors.forbidden(&at, &format!("{list} may not be added or removed on resize"));
            continue;
        }
        for (index, (new, old)) in items(new, list).zip(items(old, list)).enumerate() {
            if text_of(new, "name") != text_of(old, "name") {
                let at = at.index(index);
                let why = format!("{list} may not be renamed or reordered on resize");
                errors.forbidden(&at.field("name"), &why);
            }
        }
    }
    errors.causes().len() == before
}

fn removed(new: &Object, old: &Object, kind: &str) -> bool {
    let list =
        |container: &Object| container.map_at(&["resources", kind]).cloned().unwrap_or_default();
    let new = list(new);
    list(old).keys().any(|name| !new.contains_key(name))
}

/// Puts the old cpu and memory back, so that what still differs may not.
fn forgive_resources(new: &mut Object, old: &Object) {
    if let (Some(resources), Some(olds)) =
        (new.get_mut("resources").and_then(Value::as_object_mut), map(old, "resources"))
    {
        restore_amounts(resources, olds);
    }
    for list in ["containers", "initContainers"] {
        let olds: Vec<Object> =
            items(old, list).map(|c| map(c, "resources").cloned().unwrap_or_default()).collect();
        for (container, olds) in crate::podspec::view::items_mut(new, list).zip(&olds) {
            restore_amounts(container.map_mut("resources"), olds);
        }
    }
}

fn restore_amounts(resources: &mut Object, olds: &Object) {
    for kind in ["requests", "limits"] {
        let mut list = map(resources, kind).cloned().unwrap_or_default();
        for name in ["cpu", "memory"] {
            put(&mut list, name, map(olds, kind).and_then(|old| old.get(name)).cloned());
        }
        let list = (!list.is_empty()).then_some(Value::Object(list));
        put(resources, kind, list);
    }
}
