//! Rules of spec/downward-api.md, section 8.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Shelf, object};
use crate::env::{EnvError, Environment, build_env};
use crate::expand::{expand, expand_strict};
use crate::services::service_env;
use crate::view::RuntimeView;

fn try_env(container: Value, shelf: &Shelf) -> Result<Environment, EnvError> {
    let pod = object(json!({
        "metadata": { "namespace": "ns", "name": "p", "labels": { "a": "$(B)" } },
        "spec": { "containers": [container.clone()] },
    }));
    build_env(&pod, &object(container), &RuntimeView::default(), shelf)
}

fn env(container: Value, shelf: &Shelf) -> BTreeMap<String, String> {
    let env = try_env(container, shelf).unwrap();
    env.iter()
        .map(|(name, value)| (name.into(), String::from_utf8_lossy(value).into_owned()))
        .collect()
}

fn refused(container: Value, shelf: &Shelf) -> String {
    let error = try_env(container, shelf).unwrap_err();
    assert_eq!(error.reason, "CreateContainerConfigError");
    error.message
}

fn pairs(env: &BTreeMap<String, String>) -> String {
    env.iter().map(|(name, value)| format!("{name}={value} ")).collect::<String>().trim().into()
}

#[test]
fn r61_later_sources_win_and_each_name_is_there_once() {
    let shelf = Shelf::default()
        .service("ns", "a", json!({ "clusterIP": "10.0.0.1", "ports": [{ "port": 80 }] }))
        .config_map("one", json!({ "data": { "A_SERVICE_HOST": "one", "X": "one", "Y": "one" } }))
        .secret("two", &[("X", b"two")]);
    let env = env(
        json!({
            "name": "c",
            "envFrom": [{ "configMapRef": { "name": "one" } }, { "secretRef": { "name": "two" } }],
            "env": [{ "name": "Y", "value": "first" }, { "name": "Y", "value": "$(Y), last" }],
        }),
        &shelf,
    );
    assert_eq!(env["A_SERVICE_HOST"], "one");
    assert_eq!(env["A_SERVICE_PORT"], "80");
    assert_eq!(env["X"], "two");
    assert_eq!(env["Y"], "first, last");
}

#[test]
fn r61a_all_of_a_config_map_or_secret() {
    let shelf = Shelf::default()
        .config_map("m", json!({ "data": { "a.b": "1" }, "binaryData": { "bin": "AA==" } }))
        .secret("s", &[("k", b"v\xff")]);
    let container = json!({ "envFrom": [
        { "prefix": "P_", "configMapRef": { "name": "m" } },
        { "configMapRef": { "name": "none", "optional": true } },
        { "secretRef": { "name": "none", "optional": true } },
        { "secretRef": { "name": "s" } },
    ] });
    let all = try_env(container, &shelf).unwrap();
    let names: alloc::vec::Vec<_> = all.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["P_a.b", "k"]);
    assert_eq!(all.get("k"), Some(&b"v\xff"[..]));
    let missing = |kind: &str| json!({ "envFrom": [{ kind: { "name": "none" } }] });
    assert_eq!(refused(missing("configMapRef"), &shelf), "configmap \"none\" not found");
    assert_eq!(refused(missing("secretRef"), &shelf), "secret \"none\" not found");
}

#[test]
fn r61b_one_key_of_a_config_map_or_secret() {
    let shelf = Shelf::default()
        .config_map("m", json!({ "data": { "k": "one" }, "binaryData": { "bin": "AA==" } }))
        .secret("s", &[("k", b"two")]);
    let from = |kind: &str, name: &str, key: &str, optional: bool| {
        let source = json!({ kind: { "name": name, "key": key, "optional": optional } });
        json!({ "env": [{ "name": "X", "valueFrom": source }] })
    };
    assert_eq!(pairs(&env(from("configMapKeyRef", "m", "k", false), &shelf)), "X=one");
    assert_eq!(pairs(&env(from("secretKeyRef", "s", "k", false), &shelf)), "X=two");
    for (kind, name, key) in [
        ("configMapKeyRef", "m", "no"),
        ("configMapKeyRef", "m", "bin"),
        ("configMapKeyRef", "no", "k"),
        ("secretKeyRef", "s", "no"),
        ("secretKeyRef", "no", "k"),
    ] {
        assert_eq!(pairs(&env(from(kind, name, key, true), &shelf)), "", "{kind} {name} {key}");
    }
    let why = refused(from("configMapKeyRef", "m", "no", false), &shelf);
    assert_eq!(why, "couldn't find key no in ConfigMap ns/m");
    let why = refused(from("secretKeyRef", "s", "no", false), &shelf);
    assert_eq!(why, "couldn't find key no in Secret ns/s");
    let why = refused(from("secretKeyRef", "no", "k", false), &shelf);
    assert_eq!(why, "secret \"no\" not found");
}

#[test]
fn r61b_an_absent_optional_value_leaves_what_was_there() {
    let shelf = Shelf::default().config_map("m", json!({ "data": { "X": "kept" } }));
    let container = json!({
        "envFrom": [{ "configMapRef": { "name": "m" } }],
        "env": [{ "name": "X", "valueFrom": {
            "secretKeyRef": { "name": "no", "key": "k", "optional": true } } }],
    });
    assert_eq!(pairs(&env(container, &shelf)), "X=kept");
}

#[test]
fn r61c_references_to_earlier_variables_are_replaced() {
    for (text, want) in [
        ("$(A)", "a"),
        ("x$(A)y$(A)", "xaya"),
        ("$(NONE)", "$(NONE)"),
        ("$$", "$"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$a"),
        ("$$$$(A)", "$$(A)"),
        ("$(A", "$(A"),
        ("$(A$(B)", "$(A$(B)"),
        ("$A", "$A"),
        ("a$", "a$"),
        ("$é$(A)", "$éa"),
        ("$(E)", ""),
        ("$()", "$()"),
        ("$(D)", "$(A)"),
        ("$", "$"),
        ("", ""),
    ] {
        let lookup = |name: &str| match name {
            "A" => Some(&b"a"[..]),
            "B" => Some(&b"b"[..]),
            "D" => Some(&b"$(A)"[..]),
            "E" => Some(&b""[..]),
            _ => None,
        };
        assert_eq!(String::from_utf8(expand(text, lookup)).unwrap(), want, "{text}");
    }
    let shelf = Shelf::default();
    let env = env(
        json!({ "env": [
            { "name": "EARLY", "value": "$(LATE)" },
            { "name": "LATE", "value": "late" },
            { "name": "BOTH", "value": "$(EARLY)/$(LATE)" },
            { "name": "FIELD", "valueFrom": { "fieldRef": { "fieldPath": "metadata.labels['a']" } } },
            { "name": "B", "value": "b" },
        ] }),
        &shelf,
    );
    assert_eq!(pairs(&env), "B=b BOTH=$(LATE)/late EARLY=$(LATE) FIELD=$(B) LATE=late");
}

#[test]
fn r61d_a_variable_without_a_value_is_empty() {
    let env =
        env(json!({ "env": [{ "name": "X" }, { "name": "Y", "value": "" }] }), &Shelf::default());
    assert_eq!(pairs(&env), "X= Y=");
}

#[test]
fn r61e_commands_see_the_whole_environment() {
    let shelf = Shelf::default()
        .service("ns", "web", json!({ "clusterIP": "10.0.0.1", "ports": [{ "port": 80 }] }))
        .config_map("m", json!({ "data": { "K": "v" } }));
    let env = try_env(
        json!({
            "envFrom": [{ "configMapRef": { "name": "m" } }],
            "env": [{ "name": "X", "value": "x" }],
        }),
        &shelf,
    )
    .unwrap();
    let words = json!(["sh", "-c", "$(X) $(K) $(WEB_SERVICE_HOST) $(NONE) $$(X)"]);
    let words = env.expand_all(words.as_array().unwrap());
    assert_eq!(words, ["sh", "-c", "x v 10.0.0.1 $(NONE) $(X)"]);
}

#[test]
fn r61f_paths_need_every_value() {
    let mut env = Environment::default();
    for (name, value) in [("A", "a"), ("EMPTY", ""), ("UP", "../x"), ("ROOT", "/x")] {
        env.set(name.into(), value);
    }
    assert_eq!(env.expand_path("$(A)/logs").unwrap(), "a/logs");
    let why = env.expand_path("$(Z)/$(EMPTY)/$(A)/$(B)/$(Z)").unwrap_err();
    assert_eq!(why, "missing value for B, EMPTY, Z");
    assert!(env.expand_path("$(UP)").is_err());
    assert!(env.expand_path("$(ROOT)").is_err());
    assert!(env.expand_path("a..b").is_ok());
    assert_eq!(expand_strict("$$(A)", |_| None).unwrap(), b"$(A)");
}

fn service_vars(shelf: &Shelf, links: bool) -> String {
    service_env(&shelf.services, "ns", links)
        .into_iter()
        .map(|(name, value)| format!("{name}={}\n", String::from_utf8_lossy(&value)))
        .collect()
}

#[test]
fn r61g_services_of_the_namespace_are_told() {
    let shelf = Shelf::default()
        .service(
            "ns",
            "redis-main",
            json!({ "clusterIP": "10.0.0.11", "ports": [
            { "name": "client-port", "port": 6379 }, { "name": "m", "port": 1, "protocol": "UDP" },
        ] }),
        )
        .service("ns", "six", json!({ "clusterIP": "fd00::1", "ports": [{ "port": 8 }] }))
        .service("ns", "headless", json!({ "clusterIP": "None", "ports": [{ "port": 8 }] }))
        .service("ns", "named", json!({ "type": "ExternalName", "externalName": "x" }))
        .service("other", "far", json!({ "clusterIP": "10.0.0.9", "ports": [{ "port": 8 }] }));
    assert_eq!(
        service_vars(&shelf, true),
        "REDIS_MAIN_PORT=tcp://10.0.0.11:6379\n\
         REDIS_MAIN_PORT_6379_TCP=tcp://10.0.0.11:6379\n\
         REDIS_MAIN_PORT_6379_TCP_ADDR=10.0.0.11\n\
         REDIS_MAIN_PORT_6379_TCP_PORT=6379\n\
         REDIS_MAIN_PORT_6379_TCP_PROTO=tcp\n\
         REDIS_MAIN_PORT_1_UDP=udp://10.0.0.11:1\n\
         REDIS_MAIN_PORT_1_UDP_ADDR=10.0.0.11\n\
         REDIS_MAIN_PORT_1_UDP_PORT=1\n\
         REDIS_MAIN_PORT_1_UDP_PROTO=udp\n\
         REDIS_MAIN_SERVICE_HOST=10.0.0.11\n\
         REDIS_MAIN_SERVICE_PORT=6379\n\
         REDIS_MAIN_SERVICE_PORT_CLIENT_PORT=6379\n\
         REDIS_MAIN_SERVICE_PORT_M=1\n\
         SIX_PORT=tcp://[fd00::1]:8\n\
         SIX_PORT_8_TCP=tcp://[fd00::1]:8\n\
         SIX_PORT_8_TCP_ADDR=fd00::1\n\
         SIX_PORT_8_TCP_PORT=8\n\
         SIX_PORT_8_TCP_PROTO=tcp\n\
         SIX_SERVICE_HOST=fd00::1\n\
         SIX_SERVICE_PORT=8\n"
    );
}

#[test]
fn r61g_the_servers_own_service_is_always_told() {
    let spec = |address: &str| json!({ "clusterIP": address, "ports": [{ "port": 443 }] });
    let shelf = Shelf::default()
        .service("default", "kubernetes", spec("10.0.0.1"))
        .service("default", "other", spec("10.0.0.2"))
        .service("ns", "own", spec("10.0.0.3"));
    assert!(service_vars(&shelf, false).contains("KUBERNETES_SERVICE_HOST=10.0.0.1\n"));
    assert!(!service_vars(&shelf, false).contains("OWN"));
    assert!(!service_vars(&shelf, true).contains("OTHER"));
    for shelf in [
        Shelf::default().service("ns", "kubernetes", spec("10.9.9.9")).service(
            "default",
            "kubernetes",
            spec("10.0.0.1"),
        ),
        Shelf::default().service("default", "kubernetes", spec("10.0.0.1")).service(
            "ns",
            "kubernetes",
            spec("10.9.9.9"),
        ),
    ] {
        assert!(service_vars(&shelf, true).contains("KUBERNETES_SERVICE_HOST=10.9.9.9\n"));
        assert!(service_vars(&shelf, false).contains("KUBERNETES_SERVICE_HOST=10.0.0.1\n"));
    }
    let container = json!({ "name": "c" });
    let pod = object(json!({
        "metadata": { "namespace": "ns" }, "spec": { "enableServiceLinks": false },
    }));
    let env = build_env(&pod, &object(container), &RuntimeView::default(), &shelf).unwrap();
    assert!(env.get("OWN_SERVICE_HOST").is_none());
    assert!(env.get("KUBERNETES_SERVICE_HOST").is_some());
}

#[test]
fn r61g_of_ports_that_give_one_name_the_last_counts() {
    let ports = json!([{ "name": "a-b", "port": 1 }, { "name": "a_b", "port": 2 }]);
    let shelf =
        Shelf::default().service("ns", "x", json!({ "clusterIP": "10.0.0.1", "ports": ports }));
    let env = env(
        json!({ "env": [{ "name": "X_PORT", "value": "own" }, { "name": "Z", "value": "z" }] }),
        &shelf,
    );
    assert_eq!(env["X_SERVICE_PORT_A_B"], "2");
    assert_eq!((env["X_PORT"].as_str(), env["Z"].as_str()), ("own", "z"));
    assert_eq!(env.len(), 8 + 4 + 1);
}

#[test]
fn r61h_nothing_is_built_before_services_were_read() {
    let shelf = Shelf { not_yet: true, ..Shelf::default() };
    assert!(refused(json!({ "name": "c" }), &shelf).contains("services have not yet been read"));
}

#[test]
fn r61i_each_start_sees_the_pod_as_it_is() {
    let container = object(json!({ "env": [{ "name": "X", "valueFrom": {
        "fieldRef": { "fieldPath": "metadata.labels['a']" } } }] }));
    let value = |label: &str| {
        let pod = object(json!({ "metadata": { "labels": { "a": label } } }));
        let env = build_env(&pod, &container, &RuntimeView::default(), &Shelf::default()).unwrap();
        env.get("X").unwrap().to_vec()
    };
    assert_eq!(value("one"), b"one");
    assert_eq!(value("two"), b"two");
}

#[test]
fn r61j_values_come_from_files_of_other_containers() {
    let text = "# made by init\n\nA='one'\n  B='two\nlines' # note\nC= 'none'\nD=''\n";
    let shelf = Shelf::default().file("v", "env/x", text).file("v", "bad", "A=b\n");
    let from = |path: &str, key: &str, optional: bool| {
        json!({ "env": [{ "name": "X", "valueFrom": { "fileKeyRef": {
            "volumeName": "v", "path": path, "key": key, "optional": optional } } }] })
    };
    assert_eq!(pairs(&env(from("env/x", "A", false), &shelf)), "X=one");
    assert_eq!(pairs(&env(from("env/x", "B", false), &shelf)), "X=two\nlines");
    for key in ["C", "D", "Z"] {
        assert_eq!(pairs(&env(from("env/x", key, true), &shelf)), "");
        let why = refused(from("env/x", key, false), &shelf);
        assert_eq!(why, format!("environment variable key {key:?} not found in file \"env/x\""));
    }
    assert!(refused(from("none", "A", true), &shelf).contains("no such file"));
    let why = refused(from("bad", "A", true), &shelf);
    assert!(why.ends_with("at line 1: value must be enclosed in single quotes"), "{why}");
}

#[test]
fn r61j_files_that_are_not_of_the_form_are_told_by_line() {
    for (text, why) in [
        ("A\n", "line 1: missing '='"),
        ("\n=x\n", "line 2: empty variable name"),
        ("A ='x'\n", "line 1: whitespace before '=' is not allowed"),
        ("A='x\n\n", "line 1: unclosed single quote"),
        ("A='x' y\n", "line 1: unexpected content after closing quote"),
        ("A=\"x\"\n", "line 1: value must be enclosed in single quotes"),
    ] {
        let error = crate::env_file::value(text, "A").unwrap_err();
        assert!(error.ends_with(why), "{text:?}: {error}");
    }
}

#[test]
fn r61k_what_a_process_cannot_be_given_is_told() {
    let with = |value: String| json!({ "env": [{ "name": "NAME", "value": value }] });
    let shelf = Shelf::default();
    let most = 131_071 - "NAME=".len();
    assert!(try_env(with("x".repeat(most)), &shelf).is_ok());
    let why = refused(with("x".repeat(most + 1)), &shelf);
    assert_eq!(
        why,
        "environment variable \"NAME\" takes 131072 bytes, a process can be given 131071 at most"
    );
    let why = refused(with("a\0b".into()), &shelf);
    assert_eq!(why, "environment variable \"NAME\" (3 bytes) has a NUL byte");
    let many: Value = (0..40)
        .map(|at| json!({ "name": format!("N{at}"), "value": "x".repeat(60_000 + at) }))
        .collect();
    let why = refused(json!({ "env": many }), &shelf);
    assert!(why.contains("the largest variable is \"N39\" with 60043 bytes"), "{why}");
}

#[test]
fn r214_values_never_show_in_debug_output() {
    let mut env = Environment::default();
    env.set("PASSWORD".into(), b"hunter2".to_vec());
    let shown = format!("{env:?}");
    assert!(shown.contains("PASSWORD") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn r61c_a_text_of_openings_is_read_in_one_pass() {
    let text = "$(".repeat(400_000);
    assert_eq!(expand(&text, |_| None).len(), text.len());
}

proptest! {
    #[test]
    fn r61c_text_without_a_dollar_stays(text in "[^$]{0,40}") {
        prop_assert_eq!(expand(&text, |_| Some(&b"x"[..])), text.as_bytes());
    }

    #[test]
    fn r61c_doubled_dollars_give_the_text_back(text in any::<String>()) {
        let doubled = text.replace('$', "$$");
        prop_assert_eq!(expand(&doubled, |_| Some(&b"x"[..])), text.as_bytes());
    }

    #[test]
    fn r61j_any_file_is_read_without_panic(text in any::<String>(), key in "[A-Z]") {
        let _ = crate::env_file::value(&text, &key).map_err(|why| why.to_string());
    }
}
