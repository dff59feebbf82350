//! Rules of spec/downward-api.md, sections 2, 3, 6 and 9: what the API accepts and in which words it
//! refuses.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::{Errors, Path};

use super::{container, pod};
use crate::podspec::*;

/// Field and message of each cause of a pod, where files show no more than upstream's.
fn told(spec: Value) -> Vec<(String, String)> {
    let off = Withheld { volume_parity: true, ..Withheld::default() };
    told_without(off, spec)
}

fn told_without(off: Withheld, spec: Value) -> Vec<(String, String)> {
    let mut errors = Errors::new();
    let pod = pod(spec);
    validate_pod(&pod, &mut errors);
    off.refuse(pod["spec"].as_object().unwrap(), &Path::Root.field("spec"), &mut errors);
    errors.causes().iter().map(|cause| (cause.field.clone(), cause.message.clone())).collect()
}

fn with_source(source: Value) -> Value {
    json!({ "containers": [container(json!({ "env": [{ "name": "E", "valueFrom": source }] }))] })
}

fn in_env(path: &str) -> Vec<(String, String)> {
    told(with_source(json!({ "fieldRef": { "fieldPath": path } })))
}

fn with_volume(source: Value) -> Value {
    let mut volume = super::object(source);
    volume.insert("name".into(), "v".into());
    json!({ "containers": [container(json!({}))], "volumes": [volume] })
}

fn in_file(path: &str) -> Vec<(String, String)> {
    let item = json!({ "path": "f", "fieldRef": { "fieldPath": path } });
    told(with_volume(json!({ "downwardAPI": { "items": [item] } })))
}

/// The one cause.
fn only(mut causes: Vec<(String, String)>) -> (String, String) {
    assert_eq!(causes.len(), 1, "{causes:?}");
    causes.remove(0)
}

const ENV_FIELD: &str = "spec.containers[0].env[0].valueFrom.fieldRef";
const FILE_FIELD: &str = "spec.volumes[0].downwardAPI.fieldRef";

fn warned(spec: Value) -> Vec<String> {
    let pod = pod(spec);
    downward_warnings(pod["spec"].as_object().unwrap(), &Path::Root.field("spec"))
}

fn warned_in_env(path: &str) -> bool {
    !warned(with_source(json!({ "fieldRef": { "fieldPath": path } }))).is_empty()
}

#[test]
fn r1_r3_r4_r5_r7_r8_r14a_the_table_of_the_grammar() {
    let accepted = [
        "metadata.annotations['spec.pod.beta.kubernetes.io/statefulset-index']",
        "metadata.annotations['foo.bar/example-annotation']",
        "metadata.annotations['Www.k8s.io/test']",
        "metadata.labels['app']",
    ];
    let accepted_with_a_warning = [
        r#"metadata.annotations['foo.bar/more\'complicated\]example\[with\'characters"to-escape']"#,
        r"metadata.annotations['a\\']",
    ];
    for path in accepted {
        assert_eq!((in_env(path), in_file(path)), (vec![], vec![]), "{path}");
        assert!(!warned_in_env(path), "{path}");
    }
    for path in accepted_with_a_warning {
        assert_eq!((in_env(path), in_file(path)), (vec![], vec![]), "{path}");
        assert!(warned_in_env(path), "{path}");
    }
    for (path, why) in [
        (r"metadata.annotations['a[b]c']", "name part must consist of alphanumeric characters"),
        (r"metadata.annotations['a\qb']", "unknown escape"),
        (r"metadata.annotations['a\']", "unterminated"),
        (r"metadata.annotations['a\]b'c']", "unescaped character"),
        (r"metadata.labels['a\[']", "name part must consist of alphanumeric characters"),
        (
            r"metadata.labels['Www.k8s.io/test']",
            "prefix part must be a lowercase RFC 1123 subdomain",
        ),
    ] {
        // A bad key is told of the reference, not of its path (R14a).
        let (field, message) = only(in_env(path));
        assert_eq!(field, ENV_FIELD, "{path}");
        assert!(message.contains(why), "{path}: {message}");
        assert_eq!(only(in_file(path)).0, FILE_FIELD, "{path}");
    }
    assert_eq!(in_env("metadata.labels['']").len(), 2);
}

#[test]
fn r8_the_warning_names_the_place_and_the_key() {
    let warnings = warned(with_source(
        json!({ "fieldRef": { "fieldPath": r"metadata.annotations['a\[0\]']" } }),
    ));
    assert_eq!(
        warnings,
        [
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: the annotation \"a[0]\" can never \
          be set, so the value is always empty"
        ]
    );
}

#[test]
fn r11_version_and_path_must_be_said() {
    let reference = |reference: Value| told(with_source(json!({ "fieldRef": reference })));
    assert_eq!(reference(json!({ "fieldPath": "metadata.name" })), []);
    assert_eq!(
        only(reference(json!({ "apiVersion": "v2", "fieldPath": "metadata.name" }))),
        (
            format!("{ENV_FIELD}.fieldPath"),
            "Invalid value: \"metadata.name\": error converting fieldPath: unsupported pod version: v2"
                .to_owned()
        )
    );
    let (field, message) = only(reference(json!({ "fieldPath": "" })));
    assert_eq!(
        (field.as_str(), message.as_str()),
        (&*format!("{ENV_FIELD}.fieldPath"), "Required value")
    );
    // Without defaults the version is missing too.
    let mut bare = super::object(with_source(json!({ "fieldRef": { "fieldPath": "x" } })));
    default_pod_spec(&mut bare);
    bare["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] = "".into();
    let mut errors = Errors::new();
    validate_pod_spec(&bare, &Path::Root.field("spec"), &mut errors, PodSpecOptions::default());
    assert_eq!(errors.causes()[0].field, format!("{ENV_FIELD}.apiVersion"));
}

#[test]
fn r12_r13_each_path_in_each_place() {
    // Path, in a variable, in a file.
    for (path, env, file) in [
        ("metadata.name", true, true),
        ("metadata.namespace", true, true),
        ("metadata.uid", true, true),
        ("metadata.labels", false, true),
        ("metadata.annotations", false, true),
        ("metadata.labels['k']", true, true),
        ("metadata.annotations['k']", true, true),
        ("metadata.ownerReferences", true, true),
        ("spec.nodeName", true, false),
        ("spec.serviceAccountName", true, false),
        ("spec.host", true, false),
        ("status.hostIP", true, false),
        ("status.hostIPs", true, false),
        ("status.podIP", true, false),
        ("status.podIPs", true, false),
        ("spec.restartPolicy", false, false),
        ("spec.schedulerName", false, false),
        ("status.phase", false, false),
    ] {
        assert_eq!(in_env(path).is_empty(), env, "{path}");
        assert_eq!(in_file(path).is_empty(), file, "{path}");
    }
    assert_eq!(
        only(in_env("metadata.labels")),
        (
            format!("{ENV_FIELD}.fieldPath"),
            "Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \
             \"metadata.namespace\", \"metadata.ownerReferences\", \"metadata.uid\", \
             \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \
             \"status.podIP\", \"status.podIPs\""
                .to_owned()
        )
    );
    let (field, message) = only(in_file("spec.host"));
    assert_eq!(field, format!("{FILE_FIELD}.fieldPath"));
    assert!(message.starts_with(
        "Unsupported value: \"spec.nodeName\": supported values: \"metadata.annotations\", \"metadata.labels\""
    ));
}

#[test]
fn r15_with_the_feature_files_show_what_variables_may() {
    let paths = [
        "spec.nodeName",
        "spec.host",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    for path in paths {
        let item = json!({ "path": "f", "fieldRef": { "fieldPath": path } });
        let volumes = [
            json!({ "downwardAPI": { "items": [item] } }),
            json!({ "projected": { "sources": [{ "downwardAPI": { "items": [item] } }] } }),
        ];
        for volume in volumes {
            let spec = with_volume(volume);
            assert_eq!(told_without(Withheld::default(), spec.clone()), [], "{path}");
            let (field, message) = only(told(spec));
            assert!(field.ends_with("downwardAPI.fieldRef.fieldPath"), "{field}");
            assert!(message.starts_with("Unsupported value: "), "{message}");
        }
    }
    for path in ["spec.restartPolicy", "spec.schedulerName", "status.phase"] {
        let item = json!({ "path": "f", "fieldRef": { "fieldPath": path } });
        let spec = with_volume(json!({ "downwardAPI": { "items": [item] } }));
        assert_eq!(told_without(Withheld::default(), spec).len(), 1, "{path}");
    }
}

#[test]
fn r14_r14b_what_is_no_field_says_so() {
    for (path, why) in [
        ("spec.containers", "field label not supported: spec.containers"),
        ("metadata.labels[]", "field label not supported: metadata.labels[]"),
        (
            "metadata.ownerReferences['x']",
            "field label does not support subscript: metadata.ownerReferences['x']",
        ),
    ] {
        let message = format!("Invalid value: {path:?}: error converting fieldPath: {why}");
        assert_eq!(only(in_env(path)), (format!("{ENV_FIELD}.fieldPath"), message.clone()));
        assert_eq!(only(in_file(path)), (format!("{FILE_FIELD}.fieldPath"), message));
    }
    let item = json!({ "path": "f", "fieldRef": { "fieldPath": "x" } });
    let source = json!({ "downwardAPI": { "items": [item] } });
    let causes = told(with_volume(json!({ "projected": { "sources": [source] } })));
    assert_eq!(
        only(causes).0,
        "spec.volumes[0].projected.sources[0].downwardAPI.fieldRef.fieldPath"
    );
}

fn resource(reference: Value) -> Vec<(String, String)> {
    told(with_source(json!({ "resourceFieldRef": reference })))
}

#[test]
fn r16_resources_that_are_told() {
    for list in ["limits", "requests"] {
        for name in ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-"] {
            assert_eq!(resource(json!({ "resource": format!("{list}.{name}") })), []);
        }
    }
    let (field, message) = only(resource(json!({ "resource": "limits.gpu" })));
    assert_eq!(field, "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource");
    assert_eq!(
        message,
        "Unsupported value: \"limits.gpu\": supported values: \"limits.cpu\", \
         \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \
         \"requests.ephemeral-storage\", \"requests.memory\""
    );
}

#[test]
fn r17_files_name_their_container() {
    let file = |reference: Value| {
        let item = json!({ "path": "f", "resourceFieldRef": reference });
        told(with_volume(json!({ "downwardAPI": { "items": [item] } })))
    };
    let (field, message) = only(file(json!({ "resource": "limits.cpu" })));
    assert_eq!(field, "spec.volumes[0].downwardAPI.resourceFieldRef.containerName");
    assert_eq!(message, "Required value");
    // Whether the container is there is not asked.
    assert_eq!(file(json!({ "resource": "limits.cpu", "containerName": "none" })), []);
    assert_eq!(resource(json!({ "resource": "limits.cpu", "containerName": "none" })), []);
}

#[test]
fn r18_divisors_by_their_canonical_text() {
    let divided = |resource: &str, divisor: Value| {
        self::resource(json!({ "resource": resource, "divisor": divisor }))
    };
    for divisor in [json!("1m"), json!("1"), json!(1), json!("1000m"), json!("0"), json!("")] {
        if divisor != "" {
            assert_eq!(divided("limits.cpu", divisor.clone()), [], "{divisor}");
        }
    }
    for divisor in [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
        "1024Ki", "0",
    ] {
        for name in ["requests.memory", "limits.ephemeral-storage", "limits.hugepages-2Mi"] {
            assert_eq!(divided(name, divisor.into()), [], "{name} {divisor}");
        }
    }
    for (name, divisor) in [
        ("limits.cpu", "2"),
        ("limits.cpu", "1k"),
        ("limits.memory", "1m"),
        ("limits.memory", "2Mi"),
        ("requests.hugepages-2Mi", "3"),
    ] {
        let (field, message) = only(divided(name, divisor.into()));
        assert_eq!(field, "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor");
        let allowed = if name.ends_with("cpu") {
            "1m, 1 "
        } else {
            "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei "
        };
        assert!(message.starts_with(&format!("Invalid value: {name:?}: ")), "{message}");
        assert!(message.contains(allowed), "{message}");
    }
}

#[test]
fn r19_one_source_and_no_more() {
    let field = json!({ "fieldPath": "metadata.name" });
    let resource = json!({ "resource": "limits.cpu", "containerName": "c" });
    let (at, message) = only(told(with_source(json!({}))));
    assert_eq!(at, "spec.containers[0].env[0].valueFrom");
    assert!(message.contains("must specify one of: `fieldRef`, `resourceFieldRef`"), "{message}");
    let both = json!({ "fieldRef": field, "resourceFieldRef": resource });
    let (at, message) = only(told(with_source(both.clone())));
    assert_eq!(at, "spec.containers[0].env[0].valueFrom");
    assert!(message.ends_with("may not have more than one field specified at a time"));
    let variable = json!({ "name": "E", "value": "x", "valueFrom": { "fieldRef": field } });
    let (_, message) =
        only(told(json!({ "containers": [container(json!({ "env": [variable] }))] })));
    assert!(message.ends_with("may not be specified when `value` is not empty"));
    let mut item = super::object(both);
    item.insert("path".into(), "f".into());
    let (at, message) = only(told(with_volume(json!({ "downwardAPI": { "items": [item] } }))));
    assert_eq!(at, "spec.volumes[0].downwardAPI");
    assert!(message.ends_with("fieldRef and resourceFieldRef can not be specified simultaneously"));
    let (at, message) =
        only(told(with_volume(json!({ "downwardAPI": { "items": [{ "path": "f" }] } }))));
    assert_eq!(at, "spec.volumes[0].downwardAPI");
    assert_eq!(message, "Required value: one of fieldRef and resourceFieldRef is required");
}

fn item_at(path: &str) -> Value {
    json!({ "path": path, "fieldRef": { "fieldPath": "metadata.name" } })
}

fn file_at(path: &str) -> Vec<(String, String)> {
    told(with_volume(json!({ "downwardAPI": { "items": [item_at(path)] } })))
}

#[test]
fn r62_r62a_r62b_r62c_paths_that_lead_out() {
    for (path, why) in [
        ("", "Required value"),
        ("/a", "Invalid value: \"/a\": must be a relative path"),
        ("a/../../b", "Invalid value: \"a/../../b\": must not contain '..'"),
        ("..data", "Invalid value: \"..data\": must not start with '..'"),
        ("..x/y", "Invalid value: \"..x/y\": must not start with '..'"),
        ("..", "Invalid value: \"..\": must not contain '..'"),
    ] {
        let causes = file_at(path);
        assert_eq!(causes[0], ("spec.volumes[0].downwardAPI.path".to_owned(), why.to_owned()));
        // Upstream says twice what is wrong with `..` alone.
        assert_eq!(causes.len(), if path == ".." { 2 } else { 1 }, "{causes:?}");
        let source = json!({ "downwardAPI": { "items": [item_at(path)] } });
        let causes = told(with_volume(json!({ "projected": { "sources": [source] } })));
        assert_eq!(causes[0].0, "spec.volumes[0].projected.sources[0].downwardAPI.path");
    }
}

#[test]
fn r62d_paths_that_stay_inside() {
    for path in ["a/b/c", "./a", "a//b", ".x", "x..y", "a/..b"] {
        assert_eq!(file_at(path), [], "{path}");
    }
}

#[test]
fn r62e_modes_are_octal_permissions() {
    let why = "must be a number between 0 and 0777 (octal), both inclusive";
    for source in ["downwardAPI", "configMap", "secret", "projected"] {
        for (mode, good) in [(0, true), (0o777, true), (0o1000, false), (-1, false)] {
            let name = if source == "secret" { "secretName" } else { "name" };
            let mut content = json!({ "defaultMode": mode });
            if matches!(source, "configMap" | "secret") {
                content[name] = "x".into();
            }
            let causes = told(with_volume(json!({ source: content })));
            if good {
                assert_eq!(causes, [], "{source} {mode}");
            } else {
                let field = format!("spec.volumes[0].{source}.defaultMode");
                assert_eq!(only(causes), (field, format!("Invalid value: {mode}: {why}")));
            }
        }
        let pod = pod(with_volume(json!({ source: { "name": "x" } })));
        assert_eq!(pod["spec"]["volumes"][0][source]["defaultMode"], 0o644, "{source}");
    }
    let mut item = item_at("f");
    item["mode"] = 512.into();
    let causes = told(with_volume(json!({ "downwardAPI": { "items": [item] } })));
    assert_eq!(only(causes).0, "spec.volumes[0].downwardAPI.mode");
}

#[test]
fn r62f_r62g_duplicate_paths() {
    let twice = json!({ "items": [item_at("a"), item_at("a")] });
    assert_eq!(told(with_volume(json!({ "downwardAPI": twice }))), []);
    let projected =
        |sources: Value| told(with_volume(json!({ "projected": { "sources": sources } })));
    let (field, message) = only(projected(json!([{ "downwardAPI": twice }])));
    assert_eq!(field, "spec.volumes[0].projected");
    assert_eq!(message, "Invalid value: \"a\": conflicting duplicate paths");
    let map = |path: &str| json!({ "configMap": { "name": "m", "items": [{ "key": "k", "path": path }] } });
    let file = json!({ "downwardAPI": { "items": [item_at("a")] } });
    // What comes from an object is told by the object's name.
    let (field, message) = only(projected(json!([file, map("a")])));
    assert_eq!(field, "spec.volumes[0].projected");
    assert_eq!(message, "Invalid value: \"m\": conflicting duplicate paths");
    let secret = json!({ "secret": { "name": "s", "items": [{ "key": "k", "path": "a" }] } });
    let (_, message) = only(projected(json!([file, secret])));
    assert_eq!(message, "Invalid value: \"s\": conflicting duplicate paths");
    // The texts are compared, and keys that nobody lists are not.
    assert_eq!(projected(json!([file, map("./a")])), []);
    assert_eq!(projected(json!([file, { "configMap": { "name": "a" } }])), []);
}

#[test]
fn r62h_a_path_inside_another_passes() {
    let items = json!({ "items": [item_at("a"), item_at("a/b")] });
    assert_eq!(told(with_volume(json!({ "downwardAPI": items }))), []);
}

#[test]
fn r62i_paths_that_cannot_be_written_are_warned_of() {
    let long = "x".repeat(256);
    let spec = with_volume(
        json!({ "downwardAPI": { "items": [item_at(&long), item_at(&"x/".repeat(100))] } }),
    );
    assert_eq!(told(spec.clone()), []);
    let warnings = warned(spec);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("spec.volumes[0]: the path of a file of 256 bytes"),
        "{warnings:?}"
    );
    let source =
        json!({ "secret": { "name": "s", "items": [{ "key": "k", "path": "y/".repeat(2049) }] } });
    assert_eq!(warned(with_volume(json!({ "projected": { "sources": [source] } }))).len(), 1);
}

#[test]
fn r62j_users_of_files_can_be_taken_out() {
    let mut item = item_at("f");
    item["user"] = 7.into();
    let sources = json!([
        { "serviceAccountToken": { "path": "t", "user": 7 } },
        { "downwardAPI": { "items": [item] } },
    ]);
    for source in [
        json!({ "projected": { "defaultUser": 7, "sources": sources } }),
        json!({ "downwardAPI": { "defaultUser": 7, "items": [item] } }),
        json!({ "secret": { "secretName": "s", "items": [{ "key": "k", "path": "f", "user": 7 }] } }),
    ] {
        let mut pod = pod(with_volume(source));
        let mut errors = Errors::new();
        validate_pod(&pod, &mut errors);
        assert!(errors.is_empty());
        let spec = pod["spec"].as_object_mut().unwrap();
        assert!(drop_file_users(spec));
        assert!(!drop_file_users(spec));
        assert!(!serde_json::to_string(spec).unwrap().to_lowercase().contains("user\":7"));
    }
    // The user of another volume is another thing.
    let source = json!({ "rbd": { "monitors": ["m"], "image": "i", "user": "u" } });
    let mut kept = pod(with_volume(source));
    assert!(!drop_file_users(kept["spec"].as_object_mut().unwrap()));
    assert_eq!(kept["spec"]["volumes"][0]["rbd"]["user"], "u");
}

#[test]
fn r62j_users_are_numbers_of_users() {
    let (field, message) = only(told(with_volume(json!({ "downwardAPI": { "defaultUser": -1 } }))));
    assert_eq!(field, "spec.volumes[0].downwardAPI.defaultUser");
    assert_eq!(message, "Invalid value: -1: must be between 0 and 2147483647, inclusive");
    let token = json!({ "serviceAccountToken": { "path": "t", "user": 2_147_483_648_i64 } });
    let causes = told(with_volume(json!({ "projected": { "sources": [token] } })));
    assert_eq!(only(causes).0, "spec.volumes[0].projected.sources[0].serviceAccountToken.user");
}

#[test]
fn r62k_one_kind_for_each_source() {
    let projected =
        |source: Value| told(with_volume(json!({ "projected": { "sources": [source] } })));
    let token = |seconds: i64| json!({ "serviceAccountToken": { "path": "t", "expirationSeconds": seconds } });
    assert_eq!(projected(token(600)), []);
    assert_eq!(projected(token(1 << 32)), []);
    let field = "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds";
    assert_eq!(only(projected(token(599))).0, field);
    assert_eq!(only(projected(token((1 << 32) + 1))).0, field);
    let two = json!({ "configMap": { "name": "m" }, "secret": { "name": "s" } });
    let (field, message) = only(projected(two));
    assert_eq!(field, "spec.volumes[0].projected.sources[0]");
    assert_eq!(message, "Forbidden: may not specify more than 1 volume type per source");
    let certificate = |path: &str| json!({ "podCertificate": { "signerName": "a.b/c", "keyType": "ED25519", "keyPath": path } });
    assert_eq!(projected(certificate("key.pem")), []);
    let at = "spec.volumes[0].projected.sources[0].podCertificate";
    assert_eq!(only(projected(certificate("../key"))).0, format!("{at}.keyPath"));
    assert_eq!(only(projected(certificate(""))).0, at);
    // What upstream's conformance suite looks for.
    for (seconds, words) in [(3599, ">= 3600"), (91 * 86_400 + 1, "<= 7862400")] {
        let source = json!({ "podCertificate": { "signerName": "a.b/s", "keyType": "ECDSAP256",
            "keyPath": "k", "maxExpirationSeconds": seconds } });
        let (_, message) = only(projected(source));
        let words = format!("if provided, maxExpirationSeconds must be {words}");
        assert!(message.ends_with(&words), "{message}");
    }
}

#[test]
fn r62m_certificates_of_a_pod_name_signer_key_and_life() {
    let told = |certificate: Value| {
        let source = json!({ "podCertificate": certificate });
        let pod = with_volume(json!({ "projected": { "sources": [source] } }));
        let at = "spec.volumes[0].projected.sources[0].podCertificate.";
        told(pod).into_iter().map(|(field, _)| field.replace(at, "")).collect::<Vec<_>>()
    };
    assert_eq!(told(json!({ "keyPath": "k" })), ["signerName", "keyType"]);
    let with = |signer: &str, key: &str, seconds: i64| {
        told(json!({ "signerName": signer, "keyType": key, "keyPath": "k",
            "maxExpirationSeconds": seconds }))
    };
    assert_eq!(with("example.com/s", "RSA2048", 3600), ["keyType"]);
    for (signer, seconds, good) in [
        ("example.com/s", 3599, false),
        ("example.com/s", 3600, true),
        ("example.com/s", 91 * 86_400, true),
        ("example.com/s", 91 * 86_400 + 1, false),
        ("kubernetes.io/s", 86_400, true),
        ("a.kubernetes.io/s", 86_401, false),
    ] {
        let wanted: &[&str] = if good { &[] } else { &["maxExpirationSeconds"] };
        assert_eq!(with(signer, "RSA3072", seconds), wanted, "{signer} {seconds}");
    }
}

#[test]
fn r62l_no_items_is_good() {
    assert_eq!(told(with_volume(json!({ "downwardAPI": {} }))), []);
}

#[test]
fn r52_without_the_feature_each_use_is_refused_as_upstream_does() {
    let field = json!({ "fieldRef": { "fieldPath": "metadata.ownerReferences" } });
    let mut item = field.clone();
    item["path"] = "o".into();
    let pod = pod(json!({
        "containers": [container(json!({
            "env": [{ "name": "A", "value": "x" }, { "name": "E", "valueFrom": field }],
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }, { "name": "w", "mountPath": "/w" }],
        }))],
        "volumes": [
            { "name": "w", "emptyDir": {} },
            { "name": "v", "projected": { "sources": [{ "downwardAPI": { "items": [item] } }] } },
        ],
    }));
    let spec = pod["spec"].as_object().unwrap();
    let mut errors = Errors::new();
    validate_pod(&pod, &mut errors);
    assert!(errors.is_empty());
    let off = Withheld { owner_references: true, ..Withheld::default() };
    assert!(off.used_by(spec).owner_references);
    let path = Path::Root.field("spec");
    off.refuse(spec, &path, &mut errors);
    let found: Vec<&str> = errors.causes().iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(
        found,
        [
            "spec.volumes[1].projected.sources[0].downwardAPI.fieldRef.fieldPath",
            "spec.containers[0].env[1].valueFrom.fieldRef.fieldPath",
            "spec.containers[0].volumeMounts[0].name",
        ]
    );
    assert_eq!(
        errors.causes()[1].message,
        "Invalid value: \"metadata.ownerReferences\": error converting fieldPath: field label not \
         supported: metadata.ownerReferences"
    );
    assert_eq!(owner_reference_uses(spec, &path).len(), 2);
}

#[test]
fn r57_both_spellings_are_uses() {
    let pod = pod(with_source(json!({ "fieldRef": { "fieldPath": CARRIER } })));
    let spec = pod["spec"].as_object().unwrap();
    let off = Withheld { owner_references: true, ..Withheld::default() };
    assert_eq!(off.used_by(spec), Withheld::default());
    let uses = owner_reference_uses(spec, &Path::Root.field("spec"));
    assert_eq!(uses, ["spec.containers[0].env[0].valueFrom.fieldRef.fieldPath"]);
}

/// What upstream says of a path, after the prose of the grammar and nothing else.
fn upstream_accepts(path: &str, env: bool) -> bool {
    let alphanumeric = |text: &str| {
        let edge = |letter: Option<char>| letter.is_some_and(|l| l.is_ascii_alphanumeric());
        edge(text.chars().next()) && edge(text.chars().last())
    };
    let name = |text: &str| {
        alphanumeric(text)
            && text.len() <= 63
            && text.chars().all(|l| l.is_ascii_alphanumeric() || "-_.".contains(l))
    };
    let prefix = |text: &str| {
        text.len() <= 253
            && text.split('.').all(|part| {
                alphanumeric(part)
                    && part
                        .chars()
                        .all(|l| l.is_ascii_digit() || l.is_ascii_lowercase() || l == '-')
            })
    };
    let qualified = |text: &str| match text.split('/').collect::<Vec<_>>()[..] {
        [one] => name(one),
        [first, last] => prefix(first) && name(last),
        _ => false,
    };
    if path.len() > 2 && path.ends_with("']") {
        let inner = &path[..path.len() - 2];
        if let Some(at) = inner.find("['").filter(|at| *at > 0) {
            let key = &inner[at + 2..];
            return match &inner[..at] {
                "metadata.annotations" => qualified(&key.to_lowercase()),
                "metadata.labels" => qualified(key),
                _ => false,
            };
        }
    }
    let both = ["metadata.name", "metadata.namespace", "metadata.uid"];
    let variables = [
        "spec.nodeName",
        "spec.host",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let files = ["metadata.labels", "metadata.annotations"];
    both.contains(&path) || if env { variables.contains(&path) } else { files.contains(&path) }
}

fn paths() -> impl Strategy<Value = String> {
    let base = prop_oneof![
        Just("metadata.annotations"),
        Just("metadata.labels"),
        Just("metadata.name"),
        Just("spec.host"),
        Just("status.podIP"),
        Just(""),
    ];
    let key = prop_oneof!["[aZ0./_-]{0,6}", "[aA\\[\\]' é]{0,5}", "[a-z]{60,66}", "\\PC{0,4}"];
    let end = prop_oneof![Just("']"), Just("']"), Just("]"), Just("")];
    let whole = (base, key, end).prop_map(|(base, key, end)| match end {
        "" => base.to_owned(),
        end => format!("{base}['{key}{end}"),
    });
    whole.prop_filter("a backslash", |path| !path.contains('\\') && !path.is_empty())
}

proptest! {
    #[test]
    fn r6_without_a_backslash_the_verdict_is_upstreams(path in paths()) {
        prop_assert_eq!(in_env(&path).is_empty(), upstream_accepts(&path, true), "{}", path);
        prop_assert_eq!(in_file(&path).is_empty(), upstream_accepts(&path, false), "{}", path);
    }

    #[test]
    fn r6_what_is_accepted_besides_has_an_escape(key in "[aA/\\[\\]'\\\\]{0,6}") {
        let path = format!("metadata.annotations['{key}']");
        if in_env(&path).is_empty() && !upstream_accepts(&path, true) {
            prop_assert!(path.contains('\\'));
            prop_assert!(warned_in_env(&path));
        }
    }
}
