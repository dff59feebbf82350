//! Ingress and IngressClass as stored; routing is an ingress controller's work.

use serde_json::json;
use tenure_machinery::kind::UpdateTurn;
use tenure_machinery::validate::{
    ip, objects, port_name, port_number, text, validate_frozen, validate_one_of,
};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::address_warning::balancer_warnings;
use crate::podspec::text::{dns_label, dns_subdomain};
use crate::stored::{is_status_write, keep, member, set_status, spec, texts};

/// Rules of Ingress.
pub(crate) struct IngressRules;
/// Rules of IngressClass.
pub(crate) struct IngressClassRules;

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const PATH_PARTS: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const CONTROLLER_BYTES_MAX: usize = 250;
/// What the path of a controller has besides letters and digits.
const PATH_SIGNS: &[u8] = b"/-._~%!$&'()*+,;=:";

impl Rules for IngressRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({"loadBalancer": {}}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        if is_status_write(object, old) {
            return balancer_warnings(object);
        }
        let named = object.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some();
        if old.is_some() || !named || spec(object).str_at(&["ingressClassName"]).is_some() {
            return Vec::new();
        }
        let advice = "is deprecated, please use 'spec.ingressClassName' instead";
        vec![format!("annotation {CLASS_ANNOTATION:?} {advice}")]
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        let backend = spec.map_at(&["defaultBackend"]);
        if spec.list_at(&["rules"]).is_empty() && backend.is_none() {
            errors.invalid(&path, "[]", "needs rules or a defaultBackend");
        }
        if let Some(backend) = backend {
            validate_backend(backend, &path.field("defaultBackend"), errors);
        }
        let list = path.field("rules");
        for (index, rule) in objects(spec, "rules") {
            validate_rule(rule, &list.index(index), errors);
        }
        let list = path.field("tls");
        for (index, tls) in objects(spec, "tls") {
            let item = list.index(index);
            let hosts = item.field("hosts");
            for (index, host) in texts(tls, "hosts").iter().enumerate() {
                validate_host(host, &hosts.index(index), errors);
            }
        }
        if let Some(class) = spec.str_at(&["ingressClassName"])
            && let Some(why) = name::dns_subdomain(class)
        {
            errors.invalid(&path.field("ingressClassName"), format_args!("{class:?}"), why);
        }
    }
}

impl Rules for IngressClassRules {
    fn default(&self, object: &mut Object) {
        if let Some(spec) = member(object, "spec")
            && let Some(parameters) = member(spec, "parameters")
        {
            parameters.set_default("scope", "Cluster");
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        validate_controller(text(spec, "controller"), &path.field("controller"), errors);
        if let Some(parameters) = spec.map_at(&["parameters"]) {
            validate_parameters(parameters, &path.field("parameters"), errors);
        }
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        let Some(parameters) = spec(object).map_at(&["parameters"]) else { return };
        let path = Path::Root.field("spec");
        let place = path.field("parameters");
        for member in ["kind", "name"] {
            if text(parameters, member).is_empty() {
                errors.required(&place.field(member), "");
            }
        }
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::First
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        validate_frozen(spec(object), spec(old), "controller", &path, errors);
    }
}

/// A domain, a slash and a path.
fn validate_controller(given: &str, path: &Path<'_>, errors: &mut Errors) {
    if given.len() > CONTROLLER_BYTES_MAX {
        errors.too_long(path, CONTROLLER_BYTES_MAX);
    }
    if given.is_empty() {
        return errors.required(path, "");
    }
    let (domain, rest) = given.split_once('/').unwrap_or((given, ""));
    if domain.is_empty() || rest.is_empty() {
        let why = "must be a domain and a path, such as example.com/name";
        return errors.invalid(path, format_args!("{given:?}"), why);
    }
    dns_subdomain(domain, path, errors);
    if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || PATH_SIGNS.contains(&b)) {
        errors.invalid(path, format_args!("{rest:?}"), "has letters that paths do not have");
    }
}

fn validate_parameters(parameters: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(group) = parameters.str_at(&["apiGroup"]) {
        dns_subdomain(group, &path.field("apiGroup"), errors);
    }
    for member in ["kind", "name"] {
        let given = text(parameters, member);
        for why in name::path_segment_faults(given) {
            errors.invalid(&path.field(member), format_args!("{given:?}"), why);
        }
    }
    validate_one_of(parameters, "scope", &["Cluster", "Namespace"], path, errors);
    match (text(parameters, "scope"), parameters.str_at(&["namespace"])) {
        ("Namespace", None) => errors.required(&path.field("namespace"), ""),
        ("Namespace", Some(name)) => dns_label(name, &path.field("namespace"), errors),
        ("Cluster", Some(_)) => {
            errors.forbidden(&path.field("namespace"), "has no meaning in scope Cluster");
        }
        _ => {}
    }
}

fn validate_host(host: &str, path: &Path<'_>, errors: &mut Errors) {
    if host.is_empty() {
        return;
    }
    if ip(host).is_some() {
        errors.invalid(path, format_args!("{host:?}"), "must be a name, not an address");
    }
    let plain = host.strip_prefix("*.").unwrap_or(host);
    if let Some(why) = name::dns_subdomain(plain) {
        errors.invalid(path, format_args!("{host:?}"), why);
    }
}

fn validate_rule(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_host(text(rule, "host"), &path.field("host"), errors);
    let Some(http) = rule.map_at(&["http"]) else { return };
    let place = path.field("http");
    let list = place.field("paths");
    if http.list_at(&["paths"]).is_empty() {
        errors.required(&list, "");
    }
    for (index, item) in objects(http, "paths") {
        let place = list.index(index);
        let Some(kind) = item.str_at(&["pathType"]) else {
            errors.required(&place.field("pathType"), "pathType must be specified");
            continue;
        };
        let value = text(item, "path");
        let free = kind == "ImplementationSpecific";
        if PATH_TYPES.contains(&kind) {
            let silent = free && value.is_empty();
            if !silent && !value.starts_with('/') {
                let why = "must be an absolute path";
                errors.invalid(&place.field("path"), format_args!("{value:?}"), why);
            }
            let bad = PATH_PARTS.iter().filter(|part| !free && value.contains(**part));
            let bad_end = ["/..", "/."].into_iter().filter(|end| !free && value.ends_with(end));
            for part in bad.copied().chain(bad_end) {
                let why = format!("must not contain {part:?}");
                errors.invalid(&place.field("path"), format_args!("{value:?}"), &why);
            }
        } else {
            errors.not_supported(&place.field("pathType"), kind, PATH_TYPES);
        }
        let empty = Object::new();
        let backend = item.map_at(&["backend"]).unwrap_or(&empty);
        validate_backend(backend, &place.field("backend"), errors);
    }
}

fn validate_backend(backend: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (resource, service) = (backend.map_at(&["resource"]), backend.map_at(&["service"]));
    match (resource, service) {
        (Some(_), Some(_)) => errors.invalid(path, "\"\"", "one of resource and service"),
        (None, None) => errors.invalid(path, "\"\"", "needs a resource or a service"),
        (Some(resource), None) => {
            let place = path.field("resource");
            for member in ["kind", "name"] {
                if text(resource, member).is_empty() {
                    errors.required(&place.field(member), "");
                }
            }
        }
        (None, Some(service)) => validate_service(service, path, errors),
    }
}

fn validate_service(service: &Object, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("service");
    match text(service, "name") {
        "" => errors.required(&place.field("name"), ""),
        text => {
            if let Some(why) = name::dns_label(text) {
                errors.invalid(&place.field("name"), format_args!("{text:?}"), why);
            }
        }
    }
    let port = place.field("port");
    let number = service.int_at(&["port", "number"]).unwrap_or_default();
    let named = service.str_at(&["port", "name"]).unwrap_or_default();
    match (named.is_empty(), number) {
        (false, 0) => {
            for why in port_name(named) {
                errors.invalid(&port.field("name"), format_args!("{named:?}"), why);
            }
        }
        (false, _) => errors.invalid(path, "\"\"", "a port has a name or a number, not both"),
        (true, 0) => errors.required(path, "needs a port by name or number"),
        (true, number) => {
            if let Some(why) = port_number(number) {
                errors.invalid(&port.field("number"), number, why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};

    use crate::check::{created, faults, row, update_faults, warned, warned_status, warned_update};

    const GROUP: &str = "networking.k8s.io";

    #[test]
    fn r136_ingress() {
        let kind = row(GROUP, "Ingress");
        let path = |item: Value| {
            json!({"spec": {"rules": [{"host": "a.example.com",
            "http": {"paths": [item]}}]}})
        };
        let backend = json!({"service": {"name": "s", "port": {"number": 80}}});
        let at = |tail: &str| format!("spec.rules[0].http.paths[0].{tail}");
        let cases = [
            (json!({"spec": {}}), vec!["spec FieldValueInvalid".to_owned()]),
            (path(json!({"pathType": "Prefix", "path": "/", "backend": backend})), vec![]),
            (
                path(json!({"path": "/", "backend": backend})),
                vec![at("pathType FieldValueRequired")],
            ),
            (
                path(json!({"pathType": "Exact", "path": "x", "backend": {}})),
                vec![at("path FieldValueInvalid"), at("backend FieldValueInvalid")],
            ),
        ];
        for (body, expected) in cases {
            assert_eq!(faults(&kind, body), expected);
        }
    }

    #[test]
    fn r136_ingress_class() {
        let kind = row(GROUP, "IngressClass");
        let class = |name: &str| {
            json!({"spec": {"controller": name, "parameters": {"kind": "K",
            "name": "n"}}})
        };
        let scope = created(&kind, class("example.com/c"))["spec"]["parameters"]["scope"].clone();
        assert_eq!(scope, json!("Cluster"));
        assert_eq!(faults(&kind, class("nodomain")), ["spec.controller FieldValueInvalid"]);
        assert_eq!(
            update_faults(&kind, class("example.com/c"), class("example.com/d")),
            ["spec.controller FieldValueInvalid"]
        );
    }

    #[test]
    fn r136_what_an_ingress_class_is_given() {
        let kind = row(GROUP, "IngressClass");
        let of = |parameters: Value| {
            let spec = json!({"controller": "example.com/c", "parameters": parameters});
            let found = faults(&kind, json!({"spec": spec}));
            let short = found.iter().map(|cause| cause.replace("spec.parameters.", ""));
            short.map(|cause| cause.replace(" FieldValue", " ")).collect::<Vec<_>>()
        };
        assert!(of(json!({"apiGroup": "example.com", "kind": "K", "name": "n"})).is_empty());
        assert_eq!(
            of(json!({"apiGroup": "", "kind": "a/b%", "namespace": "n"})),
            [
                "apiGroup Invalid",
                "kind Invalid",
                "kind Invalid",
                "namespace Forbidden",
                "name Required",
            ]
        );
        let inside = |namespace: Value| {
            let mut parameters = json!({"kind": "K", "name": "..", "scope": "Namespace"});
            parameters.as_object_mut().unwrap().extend(namespace.as_object().unwrap().clone());
            of(parameters)
        };
        assert_eq!(inside(json!({})), ["name Invalid", "namespace Required"]);
        assert_eq!(inside(json!({"namespace": "A.b"})), ["name Invalid", "namespace Invalid"]);
        for (controller, reasons) in [
            ("example.com/a b", vec!["Invalid"]),
            ("example.com/", vec!["Invalid"]),
            ("A/b", vec!["Invalid"]),
            ("", vec!["Required"]),
        ] {
            let found = faults(&kind, json!({"spec": {"controller": controller}}));
            let wanted = reasons.iter().map(|r| format!("spec.controller FieldValue{r}"));
            assert_eq!(found, wanted.collect::<Vec<_>>(), "{controller}");
        }
    }

    #[test]
    fn r31_an_ingress_that_names_its_class_by_annotation() {
        let kind = row(GROUP, "Ingress");
        let meta = json!({"annotations": {"kubernetes.io/ingress.class": "x"}});
        let body = json!({"metadata": meta, "spec": {}});
        assert_eq!(warned(&kind, body.clone()).len(), 1);
        assert_eq!(warned(&kind, json!({"spec": {}})), [""; 0]);
        let both = json!({"metadata": meta, "spec": {"ingressClassName": "x"}});
        assert_eq!(warned(&kind, both), [""; 0]);
        assert_eq!(warned_update(&kind, body.clone(), body.clone()), [""; 0]);
        let status = json!({"loadBalancer": {"ingress": [{"ip": "FD00::1"}, {"ip": "10.0.0.1"}]}});
        assert_eq!(warned_status(&kind, body, status).len(), 1);
    }
}
