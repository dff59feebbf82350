//! The whole specification, in the order in which causes are listed.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::podspec::annotations::{validate_pod_annotations, validate_profile_agreement};
use crate::podspec::container::{
    Pod, validate_containers, validate_ephemeral_containers, validate_image_padding,
    validate_init_containers,
};
use crate::podspec::env::validate_file_key_volumes;
use crate::podspec::placement::{
    validate_affinity, validate_gates, validate_spreading, validate_tolerations,
};
use crate::podspec::resources::{validate_pod_resources, validate_resource_requirements};
use crate::podspec::security::{validate_os, validate_pod_security};
use crate::podspec::selector::{template_labels, validate_annotations, validate_labels};
use crate::podspec::text;
use crate::podspec::view::{any, flag, has, int, items, map, text as text_of, texts};
use crate::podspec::volumes::validate_volumes;
use crate::podspec::windows::validate_host_process;

/// What surrounds the specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodSpecOptions<'a> {
    /// The pod's name; `None` in templates.
    pub pod: Option<&'a str>,
}

/// A Pod: its annotations, its specification and what templates may leave open.
pub fn validate_pod(pod: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let spec = pod.map_at(&["spec"]).unwrap_or(&empty);
    let metadata = Path::Root.field("metadata");
    validate_pod_annotations(pod, spec, &metadata.field("annotations"), errors);
    let path = Path::Root.field("spec");
    validate_pod_spec(spec, &path, errors, PodSpecOptions { pod: Some(pod.name()) });
    if text_of(spec, "serviceAccountName").is_empty() {
        refuse_tokens(spec, &path.field("volumes"), errors);
    }
    let grace = int(spec, "terminationGracePeriodSeconds");
    text::non_negative(grace, &path.field("terminationGracePeriodSeconds"), errors);
    for list in ["containers", "initContainers"] {
        let list_path = path.field(list);
        for (index, container) in items(spec, list).enumerate() {
            validate_image_padding(container, &list_path.index(index), errors);
        }
    }
}

/// What a Pod may not have when it is made; follows [`validate_pod`].
pub fn validate_pod_create(pod: &Object, errors: &mut Errors) {
    let Some(spec) = pod.map_at(&["spec"]) else { return };
    let path = Path::Root.field("spec");
    if any(spec, "ephemeralContainers") {
        errors.forbidden(&path.field("ephemeralContainers"), "cannot be set on create");
    }
    if !text_of(spec, "nodeName").is_empty() && any(spec, "schedulingGates") {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&path.field("nodeName"), why);
    }
    validate_profile_agreement(pod, spec, &path, errors);
}

/// A template: labels, annotations and specification.
pub fn validate_template(template: &Object, path: &Path<'_>, errors: &mut Errors) {
    let empty = Object::new();
    let spec = map(template, "spec").unwrap_or(&empty);
    if let Some(labels) = template_labels(template) {
        validate_labels(labels, &path.field("labels"), errors);
    }
    if let Some(annotations) = template.map_at(&["metadata", "annotations"]) {
        validate_annotations(annotations, &path.field("annotations"), errors);
    }
    validate_pod_annotations(template, spec, &path.field("annotations"), errors);
    let at = path.field("spec");
    validate_pod_spec(spec, &at, errors, PodSpecOptions::default());
    validate_profile_agreement(template, spec, &at, errors);
    if any(spec, "ephemeralContainers") {
        let why = "ephemeral containers not allowed in pod template";
        errors.forbidden(&at.field("ephemeralContainers"), why);
    }
}

/// A specification at `path`.
pub fn validate_pod_spec(
    spec: &Object,
    path: &Path<'_>,
    errors: &mut Errors,
    options: PodSpecOptions<'_>,
) {
    if int(spec, "terminationGracePeriodSeconds").is_none() {
        errors.required(&path.field("terminationGracePeriodSeconds"), "");
    }
    let volumes = validate_volumes(spec, options.pod, &path.field("volumes"), errors);
    validate_resource_claims(spec, &path.field("resourceClaims"), errors);
    let claims = items(spec, "resourceClaims").map(|claim| text_of(claim, "name"));
    let pod = Pod { spec, volumes, claims: claims.filter(|name| !name.is_empty()).collect() };
    validate_containers(&pod, &path.field("containers"), errors);
    validate_init_containers(&pod, &path.field("initContainers"), errors);
    validate_ephemeral_containers(&pod, &path.field("ephemeralContainers"), errors);
    validate_pod_resources(spec, path, errors);
    if flag(spec, "hostNetwork") {
        validate_host_network(spec, options.pod.is_some(), path, errors);
    }
    let policies = ["Always", "OnFailure", "Never"];
    let at = path.field("restartPolicy");
    text::required_choice(text_of(spec, "restartPolicy"), &policies, &at, errors);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    text::required_choice(text_of(spec, "dnsPolicy"), &policies, &path.field("dnsPolicy"), errors);
    if let Some(labels) = map(spec, "nodeSelector") {
        validate_labels(labels, &path.field("nodeSelector"), errors);
    }
    validate_pod_security(spec, path, errors);
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.field("shareProcessNamespace"), true, why);
    }
    validate_affinity(spec, &path.field("affinity"), errors);
    validate_dns(spec, &path.field("dnsConfig"), errors);
    validate_gates(spec, path, errors);
    validate_spreading(spec, &path.field("topologySpreadConstraints"), errors);
    validate_host_process(spec, path, errors);
    validate_host_users(spec, path, errors);
    validate_hostname_override(spec, path, errors);
    validate_names_and_limits(spec, path, errors);
    if let Some(overhead) = map(spec, "overhead") {
        let resources = Object::from_iter([("limits".to_owned(), Value::Object(overhead.clone()))]);
        validate_resource_requirements(&resources, &[], &path.field("overhead"), errors);
    }
    validate_os(spec, path, errors);
    validate_file_key_volumes(spec, path, errors);
}

/// Members that are one name or one number, and the lists between them.
fn validate_names_and_limits(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for name in ["serviceAccountName", "nodeName"] {
        match text_of(spec, name) {
            "" => {}
            value => text::dns_subdomain(value, &path.field(name), errors),
        }
    }
    if let Some(seconds) = int(spec, "activeDeadlineSeconds")
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.invalid(&path.field("activeDeadlineSeconds"), seconds, why);
    }
    for name in ["hostname", "subdomain"] {
        match text_of(spec, name) {
            "" => {}
            value => text::dns_label(value, &path.field(name), errors),
        }
    }
    validate_tolerations(spec, &path.field("tolerations"), errors);
    let list = path.field("hostAliases");
    for (index, alias) in items(spec, "hostAliases").enumerate() {
        let at = list.index(index);
        text::ip(text_of(alias, "ip"), &at.field("ip"), errors);
        let names = at.field("hostnames");
        for (position, name) in texts(alias, "hostnames").enumerate() {
            text::dns_subdomain(name, &names.index(position), errors);
        }
    }
    match text_of(spec, "priorityClassName") {
        "" => {}
        value => text::dns_subdomain(value, &path.field("priorityClassName"), errors),
    }
    if has(spec, "runtimeClassName") {
        let at = path.field("runtimeClassName");
        text::dns_subdomain(text_of(spec, "runtimeClassName"), &at, errors);
    }
    if has(spec, "preemptionPolicy") {
        let policies = ["PreemptLowerPriority", "Never"];
        let at = path.field("preemptionPolicy");
        text::required_choice(text_of(spec, "preemptionPolicy"), &policies, &at, errors);
    }
}

fn validate_resource_claims(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, claim) in items(spec, "resourceClaims").enumerate() {
        let at = path.index(index);
        match text_of(claim, "name") {
            "" => errors.required(&at.field("name"), ""),
            name if !seen.insert(name) => {
                errors.duplicate(&at.field("name"), format_args!("{name:?}"));
            }
            name => text::dns_label(name, &at.field("name"), errors),
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        if sources.iter().filter(|source| has(claim, source)).count() != 1 {
            errors.invalid(
                &at,
                "",
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            );
        }
        for source in sources.iter().filter(|source| has(claim, source)) {
            text::dns_subdomain(text_of(claim, source), &at.field(source), errors);
        }
    }
}

/// On the host's network a port is the same inside and outside.
fn validate_host_network(spec: &Object, is_pod: bool, path: &Path<'_>, errors: &mut Errors) {
    let containers = path.field("containers");
    for (index, container) in items(spec, "containers").enumerate() {
        let at = containers.index(index);
        let ports = at.field("ports");
        for (position, port) in items(container, "ports").enumerate() {
            let host = int(port, "hostPort").unwrap_or(0);
            if (is_pod || host != 0) && host != int(port, "containerPort").unwrap_or(0) {
                let at = ports.index(position);
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&at.field("hostPort"), host, why);
            }
        }
    }
}

fn validate_dns(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let config = map(spec, "dnsConfig");
    if text_of(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        };
        if !any(config, "nameservers") {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&path.field("nameservers"), why);
            return;
        }
    }
    let Some(config) = config else { return };
    let servers = path.field("nameservers");
    if texts(config, "nameservers").count() > 3 {
        errors.invalid(&servers, "", "must not have more than 3 nameservers");
    }
    for (index, server) in texts(config, "nameservers").enumerate() {
        text::ip(server, &servers.index(index), errors);
    }
    let searches = path.field("searches");
    let all: Vec<&str> = texts(config, "searches").collect();
    if all.len() > 32 {
        errors.invalid(&searches, "", "must not have more than 32 search paths");
    }
    if all.join(" ").len() > 2048 {
        errors.invalid(&searches, "", "must not have more than 2048 characters");
    }
    for (index, search) in all.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        text::dns_subdomain_with_underscores(search, &searches.index(index), errors);
    }
    let options = path.field("options");
    for (index, option) in items(config, "options").enumerate() {
        if text_of(option, "name").is_empty() {
            errors.required(&options.index(index), "must not be empty");
        }
    }
}

fn validate_host_users(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    if spec.get("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    let why = "when `hostUsers` is false";
    // The last two are spelled so upstream.
    for (member, shown) in
        [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
    {
        if flag(spec, member) {
            errors.forbidden(&path.field(shown), why);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let list_path = path.field(list);
        for (index, container) in items(spec, list).enumerate() {
            if any(container, "volumeDevices") {
                errors.forbidden(&list_path.index(index).field("volumeDevices"), why);
            }
        }
    }
}

fn validate_hostname_override(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    if !has(spec, "hostnameOverride") {
        return;
    }
    let at = path.field("hostnameOverride");
    for member in ["setHostnameAsFQDN", "hostNetwork"] {
        if flag(spec, member) {
            errors.forbidden(&at, &format!("may not be specified when {member} is true"));
        }
    }
    let name = text_of(spec, "hostnameOverride");
    if name.len() > 64 {
        errors.too_long(&at, 64);
    }
    text::dns_subdomain(name, &at, errors);
}

/// Without an account there can be no token.
fn refuse_tokens(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (index, volume) in items(spec, "volumes").enumerate() {
        let Some(projected) = map(volume, "projected") else { continue };
        let at = path.index(index);
        let at = at.field("projected");
        let sources = at.field("sources");
        for (position, source) in items(projected, "sources").enumerate() {
            if has(source, "serviceAccountToken") {
                let at = sources.index(position);
                let why = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&at.field("serviceAccountToken"), why);
            }
        }
    }
}
