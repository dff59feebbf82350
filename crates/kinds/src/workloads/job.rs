//! Rules of Job: generated selectors, policies, and what may change.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use super::common::{
    default_template, has_moved, immutable, is_new, keep_status, labels_mismatch, name_warning,
    not_negative, shown, spec_of, template_warning, validate_counts, validate_spec_template,
};
use super::job_policy::validate_policies;
use crate::podspec::selector::{is_usable, matches, template_labels, validate_label_selector};
use crate::podspec::text;

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

/// Rules of Job.
pub struct JobRules;

impl Rules for JobRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        default_template(spec);
        if spec.int_at(&["completions"]).is_none() && spec.int_at(&["parallelism"]).is_none() {
            spec.insert("completions".to_owned(), json!(1));
        }
        spec.set_default("parallelism", 1);
        let per_index = spec.int_at(&["backoffLimitPerIndex"]).is_some();
        spec.set_default("backoffLimit", if per_index { i32::MAX } else { 6 });
        spec.set_default("completionMode", "NonIndexed");
        spec.set_default("suspend", false);
        let policy = spec.map_at(&["podFailurePolicy"]).is_some();
        spec.set_default(
            "podReplacementPolicy",
            if policy { "Failed" } else { "TerminatingOrFailed" },
        );
        spec.set_default("manualSelector", false);
        default_failure_policy(spec);
        if object.map_at(&["metadata", "labels"]).is_none_or(Object::is_empty) {
            share_template_labels(object);
        }
    }

    fn prepare_create(&self, object: &mut Object, cx: &Cx) {
        if object.bool_at(&["spec", "manualSelector"]) != Some(true) {
            generate_selector(object, &cx.uid);
        }
        // A Job that its client did not label shares the labels of its template, these too.
        if cx.unlabelled {
            share_template_labels(object);
        }
        object.insert("status".to_owned(), json!({}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep_status(object, old);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        if is_new(object) && spec.bool_at(&["manualSelector"]) != Some(true) {
            validate_generated(object, spec, errors);
        }
        validate_job_spec(spec, &path, errors);
        let at = path.field("selector");
        match spec.map_at(&["selector"]) {
            None => errors.required(&at, ""),
            Some(selector) => validate_label_selector(selector, &at, errors),
        }
        let selector = spec.map_at(&["selector"]);
        let labels = spec.map_at(&["template"]).and_then(template_labels);
        if selector.is_none_or(is_usable) && !matches(selector, labels) {
            labels_mismatch(labels, &path, errors);
        }
        validate_indexed_name(object, spec, errors);
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let (new, spec) = (spec_of(object), spec_of(old));
        let path = Path::Root.field("spec");
        if new.str_at(&["completionMode"]) != Some("Indexed") {
            immutable(new, spec, "completions", &path, errors);
        } else if new.get("completions") != spec.get("completions")
            && new.int_at(&["completions"]).is_some()
            && new.get("completions") != new.get("parallelism")
        {
            let at = path.field("completions");
            let why = "can only be modified in tandem with spec.parallelism";
            errors.invalid(&at, shown(new.get("completions")), why);
        }
        immutable(new, spec, "selector", &path, errors);
        validate_template_update(new, spec, old, &path, errors);
        for name in [
            "completionMode",
            "podFailurePolicy",
            "backoffLimitPerIndex",
            "managedBy",
            "successPolicy",
        ] {
            immutable(new, spec, name, &path, errors);
        }
    }

    fn validate_status(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let counts = &["active", "succeeded", "failed", "ready", "terminating"];
        validate_counts(object, counts, &[], errors);
        validate_conditions(object, old, errors);
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = name_warning(object, old);
        if has_moved(object, old) {
            warnings.extend(job_warnings(spec_of(object), &Path::Root.field("spec")));
        }
        warnings
    }
}

/// What to tell about the specification of a Job at `path`.
pub(super) fn job_warnings(spec: &Object, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let more = |name: &str, than: i64| spec.int_at(&[name]).is_some_and(|count| count > than);
    let indexed = spec.str_at(&["completionMode"]) == Some("Indexed");
    if indexed && more("completions", 100_000) && more("parallelism", 10_000) {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism \
             higher than 10^4, Kubernetes might not be able to track completedIndexes when a big \
             number of indexes fail"
        ));
    }
    warnings.extend(template_warning(spec, path));
    warnings
}

/// Fills the status that a pattern of pod conditions expects.
pub(super) fn default_failure_policy(spec: &mut Object) {
    let policy = spec.get_mut("podFailurePolicy").and_then(Value::as_object_mut);
    let rules = policy.and_then(|policy| policy.get_mut("rules")).and_then(Value::as_array_mut);
    for rule in rules.into_iter().flatten() {
        let patterns = rule.get_mut("onPodConditions").and_then(Value::as_array_mut);
        for pattern in patterns.into_iter().flatten().filter_map(Value::as_object_mut) {
            if pattern.str_at(&["status"]).is_none_or(str::is_empty) {
                pattern.insert("status".to_owned(), json!("True"));
            }
        }
    }
}

/// Adds labels to the template and a selector that finds this Job's pods and no others.
fn generate_selector(object: &mut Object, uid: &str) {
    let name = object.name().to_owned();
    let spec = object.map_mut("spec");
    let labels = spec.map_mut("template").map_mut("metadata").map_mut("labels");
    for (keys, value) in [(NAME_LABELS, name.as_str()), (UID_LABELS, uid)] {
        for key in keys {
            labels.entry(key).or_insert_with(|| json!(value));
        }
    }
    let wanted = spec.map_mut("selector").map_mut("matchLabels");
    wanted.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| json!(uid));
}

/// Adds to a Job's labels those of its template that it lacks.
fn share_template_labels(object: &mut Object) {
    let labels = object.map_at(&["spec", "template"]).and_then(template_labels).cloned();
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else { return };
    let own = object.map_mut("metadata").map_mut("labels");
    for (name, value) in labels {
        own.entry(name).or_insert(value);
    }
}

/// Labels that the server generates may be set by clients only to what they would be.
fn validate_generated(object: &Object, spec: &Object, errors: &mut Errors) {
    let Some(uid) = object.str_at(&["metadata", "uid"]).filter(|uid| !uid.is_empty()) else {
        return;
    };
    let name = object.name();
    let labels = spec.map_at(&["template"]).and_then(template_labels);
    let path = Path::Root.field("spec");
    let path = path.field("template");
    let path = path.field("metadata");
    let path = path.field("labels");
    let expected = [
        (UID_LABELS[0], uid),
        (NAME_LABELS[0], name),
        (UID_LABELS[1], uid),
        (NAME_LABELS[1], name),
    ];
    for (key, value) in expected {
        match labels.and_then(|labels| labels.get(key)).and_then(Value::as_str) {
            None => errors.required(&path.key(key), &format!("must be '{value}'")),
            Some(is) if is != value => {
                errors.invalid(
                    &path.key(key),
                    format_args!("{is:?}"),
                    &format!("must be '{value}'"),
                );
            }
            Some(_) => {}
        }
    }
    let expected: Object = expected.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let selector = spec.map_at(&["selector"]);
    if selector.is_some_and(|s| is_usable(s) && !matches(Some(s), Some(&expected))) {
        let path = Path::Root.field("spec");
        let at = path.field("selector");
        errors.invalid(&at, shown(spec.get("selector")), "`selector` not auto-generated");
    }
}

/// Pods of an indexed Job are named after it, so the longest name must be a label.
fn validate_indexed_name(object: &Object, spec: &Object, errors: &mut Errors) {
    let completions = spec.int_at(&["completions"]).unwrap_or_default();
    if spec.str_at(&["completionMode"]) != Some("Indexed") || completions <= 0 {
        return;
    }
    let longest = format!("{}-{}", object.name(), completions.saturating_sub(1));
    if tenure_machinery::name::dns_label(&longest).is_some() {
        let path = Path::Root.field("metadata");
        let why = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.invalid(&path.field("name"), format_args!("{:?}", object.name()), &why);
    }
}

/// A Job's specification without its selector, as CronJobs hold it too.
pub(super) fn validate_job_spec(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(spec, name, path, errors);
    }
    let set = |name: &str| spec.int_at(&[name]).is_some();
    if set("maxFailedIndexes") && !set("backoffLimitPerIndex") {
        errors.required(&path.field("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = spec.str_at(&["managedBy"]) {
        validate_manager(manager, &path.field("managedBy"), errors);
    }
    validate_mode(spec, path, errors);
    validate_policies(spec, path, errors);
    validate_spec_template(spec, path, errors);
    let at = path.field("template");
    let at = at.field("spec");
    let at = at.field("restartPolicy");
    match spec.str_at(&["template", "spec", "restartPolicy"]).unwrap_or_default() {
        "" | "Always" => errors.required(&at, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        "OnFailure" => {
            if spec.map_at(&["podFailurePolicy"]).is_some() {
                let why = "only \"Never\" is supported when podFailurePolicy is specified";
                errors.invalid(&at, "\"OnFailure\"", why);
            }
        }
        other => errors.not_supported(&at, other, &["OnFailure", "Never"]),
    }
}

/// `example.com/manager`, at most 63 characters.
fn validate_manager(manager: &str, path: &Path<'_>, errors: &mut Errors) {
    if manager.is_empty() {
        errors.required(path, "");
    } else {
        match manager.split_once('/') {
            Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
                text::dns_subdomain(domain, path, errors);
            }
            _ => {
                let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                errors.invalid(path, format_args!("{manager:?}"), why);
            }
        }
    }
    if manager.len() > 63 {
        errors.too_long(path, 63);
    }
}

fn validate_mode(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    const MANY: i64 = 100_000;
    const MANY_LIMIT: i64 = 10_000;
    let number = |name: &str| spec.int_at(&[name]);
    let mode = spec.str_at(&["completionMode"]).unwrap_or("NonIndexed");
    text::choice(mode, &["NonIndexed", "Indexed"], &path.field("completionMode"), errors);
    let (completions, failed) = (number("completions"), number("maxFailedIndexes"));
    if mode == "Indexed" {
        if completions.is_none() {
            errors.required(&path.field("completions"), "when completion mode is Indexed");
        }
        let at = path.field("parallelism");
        if let Some(count) = number("parallelism").filter(|count| *count > MANY) {
            errors.invalid(&at, count, "must be less than or equal to 100000");
        }
        let failed_path = path.field("maxFailedIndexes");
        if let (Some(all), Some(failed)) = (completions, failed)
            && failed > all
        {
            errors.invalid(&failed_path, failed, "must be less than or equal to completions");
        }
        if let Some(failed) = failed.filter(|failed| *failed > MANY) {
            errors.invalid(&failed_path, failed, "must be less than or equal to 100000");
        }
        if completions.is_some_and(|all| all > MANY) && number("backoffLimitPerIndex").is_some() {
            if failed.is_none() {
                errors.required(&failed_path, "must be specified when completions is above 100000");
            }
            if let Some(count) = number("parallelism").filter(|count| *count > MANY_LIMIT) {
                errors.invalid(&at, count, "must be less than or equal to 10000");
            }
            if let Some(failed) = failed.filter(|failed| *failed > MANY_LIMIT) {
                errors.invalid(&failed_path, failed, "must be less than or equal to 10000");
            }
        }
    }
    if mode == "NonIndexed" {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(value) = number(name) {
                errors.invalid(&path.field(name), value, "requires indexed completion mode");
            }
        }
    }
}

/// The template is frozen, but for where and with what pods run while the Job waits.
fn validate_template_update(
    new: &Object,
    spec: &Object,
    old: &Object,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let suspended = spec.bool_at(&["suspend"]) == Some(true);
    let started = old.at(&["status", "startTime"]).is_some_and(|time| !time.is_null());
    let idle = old.int_at(&["status", "active"]).unwrap_or_default() == 0;
    let open = suspended && idle && (!started || condition(old, "Suspended"));
    let empty = Object::new();
    let template = new.map_at(&["template"]).unwrap_or(&empty);
    let mut allowed = spec.map_at(&["template"]).cloned().unwrap_or_default();
    if open {
        forgive_placement(&mut allowed, template);
        forgive_resources(&mut allowed, template);
        if template.get("spec") != allowed.get("spec") {
            let at = path.field("template.spec");
            errors.invalid(&at, shown(template.get("spec")), "field is immutable");
        }
    } else if *template != allowed {
        let at = path.field("template");
        errors.invalid(&at, shown(new.get("template")), "field is immutable");
    }
}

fn put(object: &mut Object, name: &str, value: Option<&Value>) {
    match value {
        Some(value) => object.insert(name.to_owned(), value.clone()),
        None => object.remove(name),
    };
}

/// Takes over the new node affinity, selector, tolerations, gates, labels and annotations.
fn forgive_placement(allowed: &mut Object, new: &Object) {
    for member in ["labels", "annotations"] {
        put(allowed.map_mut("metadata"), member, new.at(&["metadata", member]));
    }
    let spec = allowed.map_mut("spec");
    for member in ["nodeSelector", "tolerations", "schedulingGates"] {
        put(spec, member, new.at(&["spec", member]));
    }
    let node = new.at(&["spec", "affinity", "nodeAffinity"]);
    if new.at(&["spec", "affinity"]).is_some() {
        put(spec.map_mut("affinity"), "nodeAffinity", node);
    } else if spec.contains_key("affinity") {
        let affinity = spec.map_mut("affinity");
        affinity.remove("nodeAffinity");
        if affinity.is_empty() {
            spec.remove("affinity");
        }
    }
}

fn forgive_resources(allowed: &mut Object, new: &Object) {
    let spec = allowed.map_mut("spec");
    for list in ["containers", "initContainers"] {
        let news = new.list_at(&["spec", list]);
        let Some(olds) = spec.get_mut(list).and_then(Value::as_array_mut) else { continue };
        if olds.len() != news.len() {
            continue;
        }
        for (old, new) in olds.iter_mut().zip(news) {
            if old.get("name") == new.get("name")
                && let Some(old) = old.as_object_mut()
            {
                put(old, "resources", new.get("resources"));
            }
        }
    }
}

fn condition(object: &Object, kind: &str) -> bool {
    object.list_at(&["status", "conditions"]).iter().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some(kind)
            && condition.get("status").and_then(Value::as_str) == Some("True")
    })
}

/// What conditions may not say together, and what may not be taken back.
fn validate_conditions(object: &Object, old: &Object, errors: &mut Errors) {
    let path = Path::Root.field("status");
    let at = path.field("conditions");
    for (one, other) in [
        ("Complete", "Failed"),
        ("Complete", "FailureTarget"),
        ("SuccessCriteriaMet", "Failed"),
        ("SuccessCriteriaMet", "FailureTarget"),
    ] {
        if condition(object, one) && condition(object, other) {
            let why = format!("cannot set {one}=True and {other}=true conditions");
            errors.push(tenure_machinery::Reason::Invalid, &at, why);
        }
    }
    for kind in ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"] {
        if condition(old, kind) && !condition(object, kind) {
            let why = format!("cannot disable the terminal {kind}=True condition");
            errors.push(tenure_machinery::Reason::Invalid, &at, why);
        }
    }
}
