//! Rules of StatefulSet, DaemonSet and ControllerRevision.

use serde_json::{Value, json};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use super::common::{
    default_template, has_moved, immutable, is_new, keep_status, labels_mismatch, not_negative,
    selector_matches_template, share, shown, spec_of, template_warning, usable_selector,
    validate_collisions, validate_counts, validate_long_running, validate_selector, validate_share,
    validate_share_cap, validate_spec_template,
};
use crate::podspec::selector::{is_empty, matches, template_labels, validate_label_selector};
use crate::podspec::text;
use crate::podspec::{WARNINGS_MAX, claim_warnings, default_claim_spec};

use crate::stored::is_status_write;

/// Where a DaemonSet counts changes of its template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Rules of StatefulSet.
pub struct StatefulSetRules;

impl Rules for StatefulSetRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        default_template(spec);
        spec.set_default("podManagementPolicy", "OrderedReady");
        let strategy = spec.map_mut("updateStrategy");
        if strategy.str_at(&["type"]).is_none_or(str::is_empty) {
            strategy.insert("type".to_owned(), json!("RollingUpdate"));
            strategy.map_mut("rollingUpdate");
        }
        if strategy.str_at(&["type"]) == Some("RollingUpdate")
            && let Some(rolling) = strategy.get_mut("rollingUpdate").and_then(Value::as_object_mut)
        {
            rolling.set_default("partition", 0);
            rolling.set_default("maxUnavailable", 1);
        }
        let retention = spec.map_mut("persistentVolumeClaimRetentionPolicy");
        retention.set_default("whenDeleted", "Retain");
        retention.set_default("whenScaled", "Retain");
        spec.set_default("replicas", 1);
        spec.set_default("revisionHistoryLimit", 10);
        let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut);
        for claim in claims.into_iter().flatten().filter_map(Value::as_object_mut) {
            claim.set_default("apiVersion", "v1");
            claim.set_default("kind", "PersistentVolumeClaim");
            default_claim_spec(claim.map_mut("spec"));
            claim.map_mut("status").set_default("phase", "Pending");
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        object.insert("status".to_owned(), json!({"availableReplicas": 0, "replicas": 0}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep_status(object, old);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        let at = path.field("podManagementPolicy");
        match spec.str_at(&["podManagementPolicy"]).unwrap_or_default() {
            "" => errors.required(&at, ""),
            "OrderedReady" | "Parallel" => {}
            other => {
                let why = "must be 'OrderedReady' or 'Parallel'";
                errors.invalid(&at, format_args!("{other:?}"), why);
            }
        }
        validate_set_strategy(spec, &path.field("updateStrategy"), errors);
        validate_retention(spec, &path.field("persistentVolumeClaimRetentionPolicy"), errors);
        if is_new(object) {
            validate_claims(spec, &path.field("volumeClaimTemplates"), errors);
        }
        not_negative(spec, "replicas", &path, errors);
        not_negative(spec, "minReadySeconds", &path, errors);
        text::non_negative(
            spec.int_at(&["ordinals", "start"]),
            &path.field("ordinals.start"),
            errors,
        );
        match spec.str_at(&["serviceName"]).unwrap_or_default() {
            "" => {}
            name if is_new(object) => text::dns_label(name, &path.field("serviceName"), errors),
            _ => {}
        }
        validate_selector(spec, &path, errors);
        if usable_selector(spec, &path, errors) {
            selector_matches_template(spec, &path, errors);
            validate_spec_template(&with_claim_volumes(spec), &path, errors);
        }
        validate_long_running(spec, &path, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let (new, old) = (spec_of(object), spec_of(old));
        let path = Path::Root.field("spec");
        for name in ["selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"] {
            immutable(new, old, name, &path, errors);
        }
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let counts = &[
            "replicas",
            "readyReplicas",
            "currentReplicas",
            "updatedReplicas",
            "availableReplicas",
            "observedGeneration",
            "collisionCount",
        ];
        let parts = &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        validate_counts(object, counts, parts, errors);
        validate_collisions(object, old, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = Vec::new();
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        if has_moved(object, old) {
            warnings.extend(template_warning(spec, &path));
        }
        if is_status_write(object, old) {
            return warnings;
        }
        let list = path.field("volumeClaimTemplates");
        let claims = spec.list_at(&["volumeClaimTemplates"]).iter().enumerate();
        for (index, claim) in claims {
            let at = list.index(index);
            // Updates are told of in another spelling upstream.
            let at = if old.is_some() { at.field("Spec") } else { at };
            let claim = claim.get("spec").and_then(Value::as_object);
            warnings.extend(claim.into_iter().flat_map(|claim| claim_warnings(claim, &at)));
        }
        if spec.int_at(&["revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
            let advice =
                "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {advice}"));
        }
        warnings.truncate(WARNINGS_MAX);
        warnings
    }
}

fn validate_set_strategy(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("rollingUpdate");
    let rolling = spec.map_at(&["updateStrategy", "rollingUpdate"]);
    match (spec.str_at(&["updateStrategy", "type"]).unwrap_or_default(), rolling) {
        ("", _) => errors.required(path, ""),
        ("OnDelete", Some(_)) => {
            errors.invalid(&at, "", "only allowed for updateStrategy 'RollingUpdate'");
        }
        ("OnDelete", None) | ("RollingUpdate", None) => {}
        ("RollingUpdate", Some(rolling)) => {
            not_negative(rolling, "partition", &at, errors);
            let unavailable = rolling.get("maxUnavailable");
            if unavailable.is_some() {
                let at = at.field("maxUnavailable");
                validate_share(unavailable, &at, errors);
                if share(unavailable) == 0 {
                    errors.invalid(&at, shown(unavailable), "cannot be 0");
                }
                validate_share_cap(unavailable, &at, errors);
            }
        }
        (other, _) => {
            let why = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid(path, format_args!("{other:?}"), why);
        }
    }
}

fn validate_retention(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(policy) = spec.map_at(&["persistentVolumeClaimRetentionPolicy"]) else { return };
    for name in ["whenDeleted", "whenScaled"] {
        let value = policy.str_at(&[name]).unwrap_or_default();
        text::choice(value, &["Retain", "Delete"], &path.field(name), errors);
    }
}

fn validate_claims(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let empty = Object::new();
    let claims = spec.list_at(&["volumeClaimTemplates"]).iter().filter_map(Value::as_object);
    for (index, claim) in claims.enumerate() {
        let claim = claim.map_at(&["spec"]).unwrap_or(&empty);
        let at = path.index(index);
        let at = at.field("spec");
        let modes = claim.list_at(&["accessModes"]);
        if modes.is_empty() {
            errors.required(&at.field("accessModes"), "at least 1 access mode is required");
        }
        for mode in modes.iter().filter_map(Value::as_str) {
            text::choice(mode, MODES, &at.field("accessModes"), errors);
        }
        let at = at.field("resources");
        let at = at.key("storage");
        match claim.at(&["resources", "requests", "storage"]).and_then(Quantity::from_value) {
            None => errors.required(&at, ""),
            Some(size) if size <= Quantity::ZERO => {
                errors.invalid(&at, size.canonical(), "must be greater than zero");
            }
            Some(_) => {}
        }
    }
}

/// The specification with the volumes that claims will become, and without what the controller sets.
fn with_claim_volumes(spec: &Object) -> Object {
    let mut spec = spec.clone();
    let claims: Vec<String> = spec
        .list_at(&["volumeClaimTemplates"])
        .iter()
        .filter_map(|claim| claim.as_object().map(|claim| claim.name().to_owned()))
        .collect();
    let pod = spec.map_mut("template").map_mut("spec");
    pod.remove("subdomain");
    pod.remove("hostname");
    if !claims.is_empty() {
        let named = |volume: &Value| volume.get("name").and_then(Value::as_str).map(str::to_owned);
        let kept = pod.list_at(&["volumes"]).iter();
        let kept = kept.filter(|volume| named(volume).is_none_or(|name| !claims.contains(&name)));
        let made = claims
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<Value> = made.chain(kept.cloned()).collect();
        pod.insert("volumes".to_owned(), Value::Array(volumes));
    }
    spec
}

/// Rules of DaemonSet.
pub struct DaemonSetRules;

impl Rules for DaemonSetRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        default_template(spec);
        spec.set_default("revisionHistoryLimit", 10);
        let strategy = spec.map_mut("updateStrategy");
        if strategy.str_at(&["type"]).is_none_or(str::is_empty) {
            strategy.insert("type".to_owned(), json!("RollingUpdate"));
        }
        if strategy.str_at(&["type"]) == Some("RollingUpdate") {
            let rolling = strategy.map_mut("rollingUpdate");
            rolling.set_default("maxUnavailable", 1);
            rolling.set_default("maxSurge", 0);
        }
        // Clients see the count as theirs, so it is there before ownership of fields is taken.
        if template_generation(object) == 0 {
            set_template_generation(object, 1);
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        let status = json!({
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        });
        object.insert("status".to_owned(), status);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep_status(object, old);
        let changed = object.at(&["spec", "template"]) != old.at(&["spec", "template"]);
        let generation = template_generation(old).saturating_add(i64::from(changed));
        set_template_generation(object, generation);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        let selector = spec.map_at(&["selector"]);
        let mut usable = true;
        if let Some(selector) = selector {
            let before = errors.causes().len();
            validate_label_selector(selector, &path.field("selector"), errors);
            usable = errors.causes().len() == before;
        }
        let labels = spec.map_at(&["template"]).and_then(template_labels);
        if usable && !matches(selector, labels) {
            labels_mismatch(labels, &path, errors);
        }
        if selector.is_some_and(is_empty) {
            errors.invalid(
                &path.field("selector"),
                "{}",
                "empty selector is invalid for daemonset",
            );
        }
        validate_spec_template(spec, &path, errors);
        validate_long_running(spec, &path, errors);
        not_negative(spec, "minReadySeconds", &path, errors);
        validate_daemon_strategy(spec, &path.field("updateStrategy"), errors);
        not_negative(spec, "revisionHistoryLimit", &path, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        immutable(spec_of(object), spec_of(old), "selector", &Path::Root.field("spec"), errors);
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let counts = &[
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        validate_counts(object, counts, &[], errors);
        validate_collisions(object, old, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let changed = old.is_none_or(|old| template_generation(old) != template_generation(object));
        let spec = Path::Root.field("spec");
        if changed { template_warning(spec_of(object), &spec) } else { Vec::new() }
    }
}

fn template_generation(object: &Object) -> i64 {
    let text = object.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(object: &mut Object, generation: i64) {
    let annotations = object.map_mut("metadata").map_mut("annotations");
    annotations.insert(TEMPLATE_GENERATION.to_owned(), json!(generation.to_string()));
}

fn validate_daemon_strategy(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("rollingUpdate");
    let rolling = spec.map_at(&["updateStrategy", "rollingUpdate"]);
    match (spec.str_at(&["updateStrategy", "type"]).unwrap_or_default(), rolling) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.required(&at, ""),
        ("RollingUpdate", Some(rolling)) => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            let (unavailable_path, surge_path) = (at.field("maxUnavailable"), at.field("maxSurge"));
            validate_share(unavailable, &unavailable_path, errors);
            validate_share(surge, &surge_path, errors);
            validate_share_cap(unavailable, &unavailable_path, errors);
            validate_share_cap(surge, &surge_path, errors);
            match (share(unavailable) != 0, share(surge) != 0) {
                (true, true) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&surge_path, shown(surge), why);
                }
                (false, false) => {
                    errors.required(&unavailable_path, "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        (other, _) => errors.not_supported(path, other, &["RollingUpdate", "OnDelete"]),
    }
}

/// Rules of ControllerRevision.
pub struct ControllerRevisionRules;

impl Rules for ControllerRevisionRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        not_negative(object, "revision", &Path::Root, errors);
        if is_new(object) && !object.get("data").is_some_and(Value::is_object) {
            errors.required(&Path::Root.field("data"), "data is mandatory");
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        immutable(object, old, "data", &Path::Root, errors);
    }
}
