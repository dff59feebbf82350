//! Requests and limits: which names, which amounts, and how the two lists relate.

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Errors, Object, Path};

use crate::podspec::text;
use crate::podspec::view::{has, items, map, text as text_of};

/// Resources of containers that need no prefix.
const CONTAINER: &[&str] = &["cpu", "memory", "ephemeral-storage"];

/// Names without a prefix that mean something somewhere: quotas, claims, nodes.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whose resources are checked, which decides the names they may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceScope {
    Container,
    Pod,
}

/// The `resources` of a container; `claims` are the names of the pod's resource claims.
pub fn validate_resource_requirements(
    resources: &Object,
    claims: &[&str],
    path: &Path<'_>,
    errors: &mut Errors,
) {
    validate_requirements(resources, ResourceScope::Container, claims, path, errors);
}

pub(crate) fn validate_requirements(
    resources: &Object,
    holder: ResourceScope,
    claims: &[&str],
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let empty = Object::new();
    let limits = map(resources, "limits").unwrap_or(&empty);
    let requests = map(resources, "requests").unwrap_or(&empty);
    let limits_path = path.field("limits");
    let requests_path = path.field("requests");
    for (name, value) in limits {
        validate_amount(name, value, holder, &limits_path.key(name), errors);
        let amount = Quantity::from_value(value).unwrap_or(Quantity::ZERO);
        huge_page_fault(name, amount, &limits_path.key(name), errors);
    }
    for (name, value) in requests {
        validate_amount(name, value, holder, &requests_path.key(name), errors);
        let amount = Quantity::from_value(value).unwrap_or(Quantity::ZERO);
        match limits.get(name).and_then(Quantity::from_value) {
            Some(limit) if amount != limit && !may_overcommit(name) => {
                let why = format!("must be equal to {name} limit of {}", limit.canonical());
                errors.invalid(&requests_path, format_args!("{:?}", amount.canonical()), &why);
            }
            Some(limit) if amount > limit => {
                let why =
                    format!("must be less than or equal to {name} limit of {}", limit.canonical());
                errors.invalid(&requests_path, format_args!("{:?}", amount.canonical()), &why);
            }
            None if !may_overcommit(name) => {
                errors.required(&limits_path, "must be set for non overcommitable resources");
            }
            _ => {}
        }
        huge_page_fault(name, amount, &requests_path.key(name), errors);
    }
    let mut names = limits.keys().chain(requests.keys());
    let huge = names.clone().any(|name| is_huge(name));
    if huge && !names.any(|name| matches!(name.as_str(), "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
    validate_claims(resources, claims, &path.field("claims"), errors);
}

fn validate_amount(
    name: &str,
    value: &Value,
    holder: ResourceScope,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    validate_name(name, holder, path, errors);
    let amount = Quantity::from_value(value).unwrap_or(Quantity::ZERO);
    if amount.is_negative() {
        let why = "must be greater than or equal to 0";
        errors.invalid(path, format_args!("{:?}", amount.canonical()), why);
    }
    if is_extended(name) && !amount.is_whole() {
        errors.invalid(path, format_args!("{:?}", amount.canonical()), "must be an integer");
    }
}

fn validate_name(name: &str, holder: ResourceScope, path: &Path<'_>, errors: &mut Errors) {
    let mut wrong = Errors::new();
    text::qualified_name(name, path, &mut wrong);
    let is_name = wrong.is_empty();
    for cause in wrong.causes() {
        errors.push(cause.reason, path, cause.message.clone());
    }
    let plain = !name.contains('/');
    if is_name && plain && !STANDARD.contains(&name) && !is_huge(name) {
        let why = "must be a standard resource type or fully qualified";
        errors.invalid(path, format_args!("{name:?}"), why);
        if holder == ResourceScope::Pod {
            return;
        }
    } else if !is_name && holder == ResourceScope::Pod {
        return;
    }
    match holder {
        ResourceScope::Pod if !matches!(name, "cpu" | "memory") && !is_huge(name) => {
            errors.not_supported(path, name, &["cpu", "memory", "hugepages-"]);
        }
        ResourceScope::Container if plain && !CONTAINER.contains(&name) && !is_huge(name) => {
            let why = "must be a standard resource for containers";
            errors.invalid(path, format_args!("{name:?}"), why);
        }
        ResourceScope::Container if !plain && !is_native(name) && !is_extended(name) => {
            let why = "doesn't follow extended resource name standard";
            errors.invalid(path, format_args!("{name:?}"), why);
        }
        _ => {}
    }
}

fn validate_claims(resources: &Object, known: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for (index, claim) in items(resources, "claims").enumerate() {
        let at = path.index(index);
        let name = text_of(claim, "name");
        if name.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let request = text_of(claim, "request");
        let key = if request.is_empty() { name.to_owned() } else { format!("{name}/{request}") };
        if seen.iter().any(|s| s == name) {
            errors.duplicate(&at, format_args!("{name:?}"));
        } else {
            if !request.is_empty() {
                text::dns_label(request, &at.field("request"), errors);
            }
            let prefix = format!("{name}/");
            let overlaps = request.is_empty() && seen.iter().any(|s| s.starts_with(&prefix));
            if overlaps || seen.contains(&key) {
                errors.duplicate(&at, format_args!("{key:?}"));
            }
            seen.push(key);
        }
        if !known.contains(&name) {
            errors.not_found(&at, format_args!("{name:?}"));
        }
    }
}

/// The `resources` of a whole pod.
pub(crate) fn validate_pod_resources(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(resources) = map(spec, "resources") else { return };
    let at = path.field("resources");
    if map(spec, "os").is_some_and(|os| text_of(os, "name") == "windows") {
        errors.forbidden(&at, "may not be set for a windows pod");
        return;
    }
    if has(resources, "claims") {
        errors.forbidden(&at.field("claims"), "claims may not be set for Resources at pod-level");
    }
    validate_requirements(resources, ResourceScope::Pod, &[], &at, errors);
    validate_consistency(spec, resources, path, errors);
}

/// Containers together may not ask for more than their pod, nor one alone be allowed more.
fn validate_consistency(spec: &Object, resources: &Object, path: &Path<'_>, errors: &mut Errors) {
    let amount = |container: &Object, list: &str, name: &str| {
        let lists = map(container, "resources").and_then(|r| map(r, list));
        lists.and_then(|l| l.get(name)).and_then(Quantity::from_value)
    };
    for (name, value) in map(resources, "requests").into_iter().flatten() {
        let Some(most) = Quantity::from_value(value) else { continue };
        let sum = items(spec, "containers")
            .filter_map(|container| amount(container, "requests", name))
            .fold(Quantity::ZERO, Quantity::plus);
        if sum > most {
            let list = path.field("resources");
            let list = list.field("requests");
            let why = format!(
                "must be greater than or equal to aggregate container requests of {}",
                sum.canonical()
            );
            errors.invalid(&list.key(name), format_args!("{:?}", most.canonical()), &why);
        }
    }
    for list in ["initContainers", "containers"] {
        for (index, container) in items(spec, list).enumerate() {
            for (name, value) in map(resources, "limits").into_iter().flatten() {
                let most = Quantity::from_value(value);
                let own = amount(container, "limits", name);
                if let (Some(most), Some(own)) = (most, own)
                    && own > most
                {
                    let list = path.field(list);
                    let at = list.index(index);
                    let at = at.field("resources");
                    let at = at.field("limits");
                    let why =
                        format!("must be less than or equal to pod limits of {}", most.canonical());
                    errors.invalid(&at.key(name), format_args!("{:?}", own.canonical()), &why);
                }
            }
        }
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    let mut wrong = Errors::new();
    text::qualified_name(&format!("requests.{name}"), &Path::Root, &mut wrong);
    !is_native(name) && !name.starts_with("requests.") && wrong.is_empty()
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge(name)
}

fn huge_page_fault(name: &str, amount: Quantity, path: &Path<'_>, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-").and_then(Quantity::parse) else { return };
    let divides = size.value() > 0 && amount.value() > 0 && amount.value() % size.value() == 0;
    if !divides && !amount.is_zero() {
        let why = "is not a positive integer multiple of the page size";
        errors.invalid(path, format_args!("{:?}", amount.canonical()), why);
    }
}
