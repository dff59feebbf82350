//! R139: annotations that mean something to pods, and the fields that replaced them.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use super::{causes, container, object, pod};
use crate::podspec::*;

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/c";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP: &str = "container.seccomp.security.alpha.kubernetes.io/c";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";

fn annotated(annotations: Value, spec: Value) -> Object {
    let mut pod = pod(spec);
    pod.map_mut("metadata").insert("annotations".to_owned(), annotations);
    pod
}

fn listed(errors: &Errors) -> Vec<String> {
    causes(errors).into_iter().map(|(field, reason)| format!("{field} {reason}")).collect()
}

/// The causes of a new pod; those of a template with the same content are as many.
fn faults(pod: &Object) -> Vec<String> {
    let mut errors = Errors::new();
    validate_pod(pod, &mut errors);
    validate_pod_create(pod, &mut errors);
    let mut of_template = Errors::new();
    validate_template(pod, &Path::Root.field("template"), &mut of_template);
    assert_eq!(of_template.causes().len(), errors.causes().len(), "{:?}", of_template.causes());
    listed(&errors)
}

fn plain() -> Value {
    json!({"containers": [container(json!({}))]})
}

fn secured(context: Value) -> Value {
    json!({"containers": [container(json!({"securityContext": context}))]})
}

#[test]
fn r139_app_armor_annotations_name_a_container_and_a_profile() {
    let at = format!("metadata.annotations[{APP_ARMOR}] Invalid");
    for (value, want) in [
        ("", 0),
        ("runtime/default", 0),
        ("unconfined", 0),
        ("localhost/x", 0),
        ("docker/default", 1),
        ("x", 1),
    ] {
        let pod = annotated(json!({APP_ARMOR: value}), plain());
        assert_eq!(faults(&pod), vec![at.clone(); want], "{value}");
    }
    let key = "container.apparmor.security.beta.kubernetes.io/other";
    let pod = annotated(json!({key: "unconfined"}), plain());
    assert_eq!(faults(&pod), [format!("metadata.annotations[{key}] Invalid")]);
}

#[test]
fn r139_app_armor_annotation_and_field_agree() {
    let at = |member: &str| {
        vec![format!("spec.containers[0].securityContext.appArmorProfile.{member} Forbidden")]
    };
    let local = json!({"type": "Localhost", "localhostProfile": "x"});
    for (value, profile, want) in [
        ("unconfined", json!({"type": "Unconfined"}), vec![]),
        ("unconfined", json!({"type": "RuntimeDefault"}), at("type")),
        ("runtime/default", json!({"type": "RuntimeDefault"}), vec![]),
        ("runtime/default", json!({"type": "Unconfined"}), at("type")),
        ("localhost/x", local.clone(), vec![]),
        ("localhost/y", local.clone(), at("localhostProfile")),
        ("unconfined", local, at("type")),
    ] {
        let own = secured(json!({"appArmorProfile": profile}));
        assert_eq!(faults(&annotated(json!({APP_ARMOR: value}), own)), want, "{value}");
        // A profile of the pod is that of its containers.
        let mut of_pod = plain();
        of_pod["securityContext"] = json!({"appArmorProfile": profile});
        assert_eq!(faults(&annotated(json!({APP_ARMOR: value}), of_pod)), want, "{value}");
    }
}

#[test]
fn r139_app_armor_annotations_of_a_pod_stay() {
    let with = |value: &str| annotated(json!({APP_ARMOR: value, "a": value}), plain());
    let without = annotated(json!({"a": "b"}), plain());
    let change = |new: &Object, old: &Object| {
        let mut errors = Errors::new();
        validate_annotation_update(new, old, &mut errors);
        listed(&errors)
    };
    let forbidden = format!("metadata.annotations[{APP_ARMOR}] Forbidden");
    assert_eq!(change(&with("unconfined"), &with("unconfined")), [""; 0]);
    let forbidden = [forbidden];
    assert_eq!(change(&with("runtime/default"), &with("unconfined")), forbidden);
    assert_eq!(change(&without, &with("unconfined")), forbidden);
    assert_eq!(change(&with("unconfined"), &without), forbidden);
}

#[test]
fn r138_an_app_armor_annotation_becomes_the_field() {
    let profile = |pod: &Object| {
        pod["spec"]["containers"][0].get("securityContext").map(|c| c["appArmorProfile"].clone())
    };
    let applied = |mut pod: Object| {
        apply_app_armor_annotations(&mut pod);
        profile(&pod)
    };
    for (value, want) in [
        ("unconfined", Some(json!({"type": "Unconfined"}))),
        ("runtime/default", Some(json!({"type": "RuntimeDefault"}))),
        ("localhost/x", Some(json!({"type": "Localhost", "localhostProfile": "x"}))),
        ("localhost/", None),
        ("localhost/ x", None),
        ("", None),
    ] {
        assert_eq!(applied(annotated(json!({APP_ARMOR: value}), plain())), want, "{value}");
    }
    let written = json!({"type": "RuntimeDefault"});
    let own = secured(json!({"appArmorProfile": written}));
    assert_eq!(applied(annotated(json!({APP_ARMOR: "unconfined"}), own)), Some(written));
    let mut of_pod = plain();
    of_pod["securityContext"] = json!({"appArmorProfile": {"type": "Unconfined"}});
    assert_eq!(applied(annotated(json!({APP_ARMOR: "unconfined"}), of_pod)), None);
    let mut windows = plain();
    windows["os"] = json!({"name": "windows"});
    assert_eq!(applied(annotated(json!({APP_ARMOR: "unconfined"}), windows)), None);
}

#[test]
fn r139_seccomp_annotations_name_a_profile() {
    for (value, want) in [
        ("runtime/default", 0),
        ("docker/default", 0),
        ("unconfined", 0),
        ("localhost/a/b", 0),
        ("localhost//a", 1),
        ("localhost/../a", 1),
        ("", 1),
        ("other", 1),
    ] {
        for key in [SECCOMP_POD, SECCOMP] {
            let fault = format!("metadata.annotations.{key} Invalid");
            let pod = annotated(json!({key: value}), plain());
            assert_eq!(faults(&pod), vec![fault; want], "{key} {value}");
        }
    }
}

#[test]
fn r139_seccomp_annotation_and_field_agree() {
    let local = json!({"type": "Localhost", "localhostProfile": "x"});
    for (value, profile, want) in [
        ("docker/default", json!({"type": "RuntimeDefault"}), None),
        ("unconfined", json!({"type": "RuntimeDefault"}), Some("type")),
        ("unconfined", json!({"type": "Unconfined"}), None),
        ("runtime/default", json!({"type": "Unconfined"}), Some("type")),
        ("localhost/x", local.clone(), None),
        ("localhost/y", local.clone(), Some("localhostProfile")),
        ("unconfined", local, Some("type")),
    ] {
        let at = |place: &str| {
            let fault = want.map(|w| format!("{place}.seccompProfile.{w} Forbidden"));
            fault.into_iter().collect::<Vec<_>>()
        };
        let own = secured(json!({"seccompProfile": profile}));
        let want = at("spec.containers[0].securityContext");
        assert_eq!(faults(&annotated(json!({SECCOMP: value}), own)), want, "{value}");
        let mut of_pod = plain();
        of_pod["securityContext"] = json!({"seccompProfile": profile});
        let want = at("spec.securityContext");
        assert_eq!(faults(&annotated(json!({SECCOMP_POD: value}), of_pod)), want, "{value}");
    }
}

#[test]
fn r139_tolerations_in_an_annotation_are_looked_at() {
    let item =
        |member: &str| vec![format!("metadata.annotations.{TOLERATIONS}[0].{member} Invalid")];
    let whole = || vec!["metadata.annotations Invalid".to_owned()];
    for (value, want) in [
        ("", vec![]),
        ("null", vec![]),
        ("[]", vec![]),
        (r#"[{"Key": "a", "operator": "Exists", "more": 1}]"#, vec![]),
        (r#"[{"key": "a b", "operator": "Exists"}]"#, item("key")),
        (r#"[{"operator": "Equal"}]"#, item("operator")),
        ("[null]", item("operator")),
        ("{}", whole()),
        ("[", whole()),
        ("[1]", whole()),
        (r#"[{"key": 1}]"#, whole()),
        (r#"[{"tolerationSeconds": "1"}]"#, whole()),
    ] {
        assert_eq!(faults(&annotated(json!({TOLERATIONS: value}), plain())), want, "{value}");
    }
}

#[test]
fn r139_odd_annotations_are_answered() {
    let mut pod =
        object(json!({"metadata": {"annotations": {APP_ARMOR: 1, SECCOMP: {}}}, "spec": []}));
    apply_app_armor_annotations(&mut pod);
    let mut errors = Errors::new();
    validate_pod(&pod, &mut errors);
    validate_annotation_update(&pod, &pod.clone(), &mut errors);
}
