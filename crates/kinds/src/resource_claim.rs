//! ResourceClaim and ResourceClaimTemplate as stored (R136c), and what of a change needs a right of its own
//! (R136d). Whether somebody has that right is asked elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tenure_machinery::validate::{objects, text, validate_frozen};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::device::{validate_device_name, validate_driver_name, validate_pool_name};
use crate::stored::{set_status, spec};

/// Rules of ResourceClaim.
pub(crate) struct ResourceClaimRules;
/// Rules of ResourceClaimTemplate.
pub(crate) struct ResourceClaimTemplateRules;

const RESULTS_MAX: usize = 32;
const CONSUMERS_MAX: usize = 256;
/// The label of a namespace whose claims may have devices that others use.
pub const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";

impl Rules for ResourceClaimRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({}));
    }

    fn prepare_status(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        drop_deallocated(object, old);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_frozen(object, old, "spec", &Path::Root, errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_consumers(object, old, errors);
        validate_devices(object, errors);
        if allocation(object).is_none() {
            return;
        }
        let path = Path::Root.field("status");
        if allocation(old).is_none() {
            validate_results(object, errors);
        } else if allocation(object) != allocation(old) {
            errors.invalid(&path.field("allocation"), "<value omitted>", "field is immutable");
        }
    }
}

impl Rules for ResourceClaimTemplateRules {
    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_frozen(object, old, "spec", &Path::Root, errors);
    }
}

/// Whether what the claim got, or who may use it, changes. An empty allocation is one.
#[must_use]
pub fn changes_binding(object: &Object, old: &Object) -> bool {
    let consumers = |claim| Object::list_at(claim, &["status", "reservedFor"]);
    allocation(object) != allocation(old) || consumers(object) != consumers(old)
}

/// The drivers that a change of `status.devices` speaks for. A claim that is not allocated has no devices to
/// speak of.
#[must_use]
pub fn changed_drivers<'a>(object: &'a Object, old: &'a Object) -> BTreeSet<&'a str> {
    if allocation(object).is_none() {
        return BTreeSet::new();
    }
    let mut before: BTreeMap<_, &Object> =
        devices(old).map(|(_, device)| (identity(device), device)).collect();
    let mut drivers = BTreeSet::new();
    for (_, device) in devices(object) {
        if before.remove(&identity(device)) != Some(device) {
            drivers.insert(text(device, "driver"));
        }
    }
    drivers.extend(before.into_values().map(|device| text(device, "driver")));
    drivers
}

/// The node whose devices the claim got, if its selector names that one and nothing else.
#[must_use]
pub fn allocated_node(object: &Object) -> Option<&str> {
    let terms = allocation(object)?.list_at(&["nodeSelector", "nodeSelectorTerms"]);
    let [Value::Object(term)] = terms else { return None };
    let [Value::Object(field)] = term.list_at(&["matchFields"]) else { return None };
    let [Value::String(node)] = field.list_at(&["values"]) else { return None };
    let named = text(field, "key") == "metadata.name" && text(field, "operator") == "In";
    (named && term.list_at(&["matchExpressions"]).is_empty()).then_some(node.as_str())
}

/// The position of the first request of a claim's spec that wants a device whoever else uses it.
#[must_use]
pub fn wants_admin_access(spec: &Object) -> Option<usize> {
    let requests = spec.list_at(&["devices", "requests"]).iter();
    let wants = |request: &Value| {
        let request = request.as_object();
        request.and_then(|it| it.bool_at(&["exactly", "adminAccess"])) == Some(true)
    };
    requests.into_iter().position(wants)
}

/// The position of the first device that was given to the claim whoever else uses it.
#[must_use]
pub fn has_admin_access(object: &Object) -> Option<usize> {
    let given = |(_, result): &(usize, &Object)| result.bool_at(&["adminAccess"]) == Some(true);
    results(object).find(given).map(|(index, _)| index)
}

fn allocation(object: &Object) -> Option<&Object> {
    object.map_at(&["status", "allocation"])
}

fn results(object: &Object) -> impl Iterator<Item = (usize, &Object)> {
    let devices = object.map_at(&["status", "allocation", "devices"]);
    devices.into_iter().flat_map(|devices| objects(devices, "results"))
}

fn devices(object: &Object) -> impl Iterator<Item = (usize, &Object)> {
    object.map_at(&["status"]).into_iter().flat_map(|status| objects(status, "devices"))
}

/// What tells a device, or a share of one, from others.
fn identity(device: &Object) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|member| text(device, member))
}

/// What drivers said about devices that the claim no longer has goes with them: whoever takes them away may
/// not know of it.
fn drop_deallocated(object: &mut Object, old: &Object) {
    let left: BTreeSet<_> = results(object).map(|(_, result)| identity(result)).collect();
    let had = results(old).map(|(_, result)| identity(result));
    let gone: BTreeSet<_> = had.filter(|device| !left.contains(device)).collect();
    if gone.is_empty() {
        return;
    }
    let Some(status) = crate::stored::member(object, "status") else { return };
    let Some(Value::Array(devices)) = status.get_mut("devices") else { return };
    devices.retain(|device| device.as_object().is_none_or(|it| !gone.contains(&identity(it))));
    if devices.is_empty() {
        status.remove("devices");
    }
}

fn validate_consumers(object: &Object, old: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    let path = status.field("reservedFor");
    let consumers = object.list_at(&["status", "reservedFor"]);
    if consumers.len() > CONSUMERS_MAX {
        return errors.too_many(&path, consumers.len(), CONSUMERS_MAX);
    }
    let mut seen = BTreeSet::new();
    for (index, consumer) in consumers.iter().enumerate() {
        let Some(consumer) = consumer.as_object() else { continue };
        let place = path.index(index);
        for member in ["resource", "name", "uid"] {
            if text(consumer, member).is_empty() {
                errors.required(&place.field(member), "");
            }
        }
        if !seen.insert(text(consumer, "uid")) {
            errors.duplicate(&place, format_args!("{:?}", text(consumer, "uid")));
        }
    }
    if consumers.is_empty() {
        return;
    }
    let before = old.list_at(&["status", "reservedFor"]);
    let going = object.str_at(&["metadata", "deletionTimestamp"]).is_some();
    if allocation(object).is_none() {
        errors.forbidden(&path, "may not be specified when `allocated` is not set");
    } else if going && consumers.iter().any(|consumer| !before.contains(consumer)) {
        let why = "new entries may not be added while `deallocationRequested` or \
                   `deletionTimestamp` are set";
        errors.forbidden(&path, why);
    }
}

fn validate_devices(object: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    let path = status.field("devices");
    let allocated: BTreeSet<_> = results(object).map(|(_, result)| identity(result)).collect();
    let mut seen = BTreeSet::new();
    for (index, device) in devices(object) {
        let place = path.index(index);
        validate_identity(device, &place, errors);
        let shown = identity(device).join("/");
        if !allocated.contains(&identity(device)) {
            let why = "must be an allocated device in the claim";
            errors.invalid(&place, format_args!("{shown:?}"), why);
        }
        if !seen.insert(identity(device)) {
            errors.duplicate(&place, format_args!("{shown:?}"));
        }
    }
}

/// What a claim gets is looked at once: afterwards it does not change.
fn validate_results(object: &Object, errors: &mut Errors) {
    let status = Path::Root.field("status");
    let allocation = status.field("allocation");
    let devices = allocation.field("devices");
    let path = devices.field("results");
    let count = results(object).count();
    if count > RESULTS_MAX {
        return errors.too_many(&path, count, RESULTS_MAX);
    }
    let known = request_names(spec(object));
    for (index, result) in results(object) {
        let place = path.index(index);
        let request = text(result, "request");
        if !known.contains(request) {
            let why = "must be the name of a request in the claim";
            errors.invalid(&place.field("request"), format_args!("{request:?}"), why);
        }
        validate_identity(result, &place, errors);
    }
}

fn validate_identity(device: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_driver_name(text(device, "driver"), &path.field("driver"), errors);
    validate_pool_name(text(device, "pool"), &path.field("pool"), errors);
    validate_device_name(text(device, "device"), &path.field("device"), errors);
}

/// The names by which results refer to requests: its own, and that of each alternative after a slash.
fn request_names(spec: &Object) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some(devices) = spec.map_at(&["devices"]) else { return names };
    for (_, request) in objects(devices, "requests") {
        let name = text(request, "name");
        names.insert(name.to_owned());
        let alternatives = objects(request, "firstAvailable");
        names.extend(alternatives.map(|(_, one)| format!("{name}/{}", text(one, "name"))));
    }
    names
}

#[cfg(test)]
mod tests;
