//! ConfigMap and Secret: keys, sizes, types, and the immutable switch.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tenure_machinery::kind::UpdateTurn;
use tenure_machinery::validate::{same, text, validate_frozen};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules, name};

use crate::key_pair::pair_fault;

/// How many bytes the values of one object may have.
const BYTES_MAX: usize = 1024 * 1024;

/// Rules of ConfigMap.
pub(crate) struct ConfigMapRules;

/// Rules of Secret.
pub(crate) struct SecretRules;

impl Rules for ConfigMapRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let empty = Object::new();
        let data = object.map_at(&["data"]).unwrap_or(&empty);
        let binary = object.map_at(&["binaryData"]).unwrap_or(&empty);
        let path = Path::Root.field("data");
        for key in data.keys() {
            validate_key(key, &path, errors);
            if binary.contains_key(key) {
                errors.invalid(
                    &path.key(key),
                    format_args!("{key:?}"),
                    "also stands in binaryData",
                );
            }
        }
        let path = Path::Root.field("binaryData");
        for key in binary.keys() {
            validate_key(key, &path, errors);
        }
        let texts: usize = data.values().filter_map(Value::as_str).map(str::len).sum();
        if texts.saturating_add(decoded_bytes(binary)) > BYTES_MAX {
            errors.too_long(&Path::Root, BYTES_MAX);
        }
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::First
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_immutable(object, old, &["data", "binaryData"], errors);
    }
}

impl Rules for SecretRules {
    fn default(&self, object: &mut Object) {
        if text(object, "type").is_empty() {
            object.insert("type".to_owned(), "Opaque".into());
        }
        let Some(Value::Object(plain)) = object.remove("stringData") else { return };
        if plain.is_empty() {
            return;
        }
        let data = object.map_mut("data");
        for (key, value) in plain {
            let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
            data.insert(key, encoded.into());
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let empty = Object::new();
        let data = object.map_at(&["data"]).unwrap_or(&empty);
        let path = Path::Root.field("data");
        for key in data.keys() {
            validate_key(key, &path, errors);
        }
        if decoded_bytes(data) > BYTES_MAX {
            errors.too_long(&path, BYTES_MAX);
        }
        validate_type(object, data, &path, errors);
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::First
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_frozen(object, old, "type", &Path::Root, errors);
        validate_immutable(object, old, &["data"], errors);
    }

    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        if text(object, "type") != "kubernetes.io/tls" {
            return Vec::new();
        }
        let value = |key| STANDARD.decode(object.str_at(&["data", key]).unwrap_or_default());
        let (certificate, key) = (value("tls.crt"), value("tls.key"));
        pair_fault(&certificate.unwrap_or_default(), &key.unwrap_or_default()).into_iter().collect()
    }
}

/// Each type of secret wants certain keys.
fn validate_type(object: &Object, data: &Object, path: &Path<'_>, errors: &mut Errors) {
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if object.str_at(&["metadata", "annotations", ACCOUNT]).is_none_or(str::is_empty) {
                let meta = Path::Root.field("metadata");
                errors.required(&meta.field("annotations").key(ACCOUNT), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json(data, ".dockercfg", path, errors),
        "kubernetes.io/dockerconfigjson" => {
            validate_json(data, ".dockerconfigjson", path, errors);
        }
        "kubernetes.io/basic-auth"
            if !data.contains_key("username") && !data.contains_key("password") =>
        {
            errors.required(&path.key("username"), "");
            errors.required(&path.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if text(data, "ssh-privatekey").is_empty() => {
            errors.required(&path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.contains_key(key) {
                    errors.required(&path.key(key), "");
                }
            }
        }
        _ => {}
    }
}

/// The key holds a JSON object; its content never stands in a message.
fn validate_json(data: &Object, key: &str, path: &Path<'_>, errors: &mut Errors) {
    let Some(value) = data.get(key) else {
        errors.required(&path.key(key), "");
        return;
    };
    let decoded = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
    let is_object = serde_json::from_slice::<Value>(&decoded)
        .is_ok_and(|parsed| parsed.is_object() || parsed.is_null());
    if !is_object {
        errors.invalid(&path.key(key), "\"(hidden)\"", "must be a JSON object");
    }
}

fn validate_key(key: &str, path: &Path<'_>, errors: &mut Errors) {
    for why in name::config_key_faults(key) {
        errors.invalid(&path.key(key), format_args!("{key:?}"), why);
    }
}

fn validate_immutable(object: &Object, old: &Object, members: &[&str], errors: &mut Errors) {
    const WHY: &str = "field is immutable when `immutable` is set";
    if old.bool_at(&["immutable"]) != Some(true) {
        return;
    }
    if object.bool_at(&["immutable"]) != Some(true) {
        errors.forbidden(&Path::Root.field("immutable"), WHY);
    }
    for member in members {
        if !same(object.get(*member), old.get(*member)) {
            errors.forbidden(&Path::Root.field(member), WHY);
        }
    }
}

/// The bytes that base64 texts stand for.
fn decoded_bytes(data: &Object) -> usize {
    data.values()
        .filter_map(Value::as_str)
        .map(|text| text.trim_end_matches('=').len().saturating_mul(3) / 4)
        .sum()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row, update_faults};

    #[test]
    fn r136_config_map_keys() {
        let kind = row("", "ConfigMap");
        let cases = [
            (json!({"data": {"bad key": "v"}}), vec!["data[bad key] FieldValueInvalid"]),
            (json!({"data": {"..": "v"}}), vec!["data[..] FieldValueInvalid"]),
            (json!({"data": {".": "v"}}), vec!["data[.] FieldValueInvalid"]),
            (json!({"data": {"..x": "v"}}), vec!["data[..x] FieldValueInvalid"]),
            (
                json!({"data": {"k": "v"}, "binaryData": {"k": "AAEC"}}),
                vec!["data[k] FieldValueInvalid"],
            ),
            (json!({"data": {"k": "x".repeat(1024 * 1024 + 1)}}), vec![" FieldValueTooLong"]),
            (json!({"data": {"A_b-c.1": "v"}, "binaryData": {"bin": "AAEC"}}), vec![]),
        ];
        for (body, expected) in cases {
            assert_eq!(faults(&kind, body), expected);
        }
    }

    #[test]
    fn r136_immutable_config_map() {
        let kind = row("", "ConfigMap");
        let old = json!({"data": {"k": "1"}, "immutable": true});
        let cases = [
            (json!({"data": {"k": "2"}, "immutable": true}), vec!["data FieldValueForbidden"]),
            (
                json!({"data": {"k": "1"}, "immutable": false}),
                vec!["immutable FieldValueForbidden"],
            ),
            (json!({"data": {"k": "1"}}), vec!["immutable FieldValueForbidden"]),
            (
                json!({"data": {"k": "1"}, "binaryData": {"b": "AA=="}, "immutable": true}),
                vec!["binaryData FieldValueForbidden"],
            ),
            (json!({"data": {"k": "1"}, "immutable": true}), vec![]),
        ];
        for (new, expected) in cases {
            assert_eq!(update_faults(&kind, old.clone(), new), expected);
        }
    }

    #[test]
    fn r136_secret_string_data_is_folded_in() {
        let body = json!({"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "new", "c": ""}});
        assert_eq!(
            created(&row("", "Secret"), body),
            json!({"data": {"a": "YQ==", "b": "bmV3", "c": ""}, "type": "Opaque"})
        );
        assert_eq!(created(&row("", "Secret"), json!({})), json!({"type": "Opaque"}));
    }

    #[test]
    fn r136_secret_types_want_keys() {
        let kind = row("", "Secret");
        let cases = [
            (
                json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ=="}}),
                vec!["data[tls.key] FieldValueRequired"],
            ),
            (
                json!({"type": "kubernetes.io/dockerconfigjson",
                    "stringData": {".dockerconfigjson": "{bad"}}),
                vec!["data[.dockerconfigjson] FieldValueInvalid"],
            ),
            (
                json!({"type": "kubernetes.io/dockerconfigjson"}),
                vec!["data[.dockerconfigjson] FieldValueRequired"],
            ),
            (
                json!({"type": "kubernetes.io/basic-auth"}),
                vec!["data[username] FieldValueRequired", "data[password] FieldValueRequired"],
            ),
            (
                json!({"type": "kubernetes.io/ssh-auth"}),
                vec!["data[ssh-privatekey] FieldValueRequired"],
            ),
            (
                json!({"type": "kubernetes.io/service-account-token"}),
                vec!["metadata.annotations[kubernetes.io/service-account.name] FieldValueRequired"],
            ),
            (json!({"type": "kubernetes.io/basic-auth", "stringData": {"username": "u"}}), vec![]),
            (json!({"type": "example.com/any"}), vec![]),
        ];
        for (body, expected) in cases {
            assert_eq!(faults(&kind, body), expected);
        }
    }

    #[test]
    fn r136_every_fault_of_a_key_is_a_cause() {
        for (key, count) in [
            ("k_1.X-", 0),
            ("a b", 1),
            (".", 1),
            ("..", 1),
            ("../x", 2),
            ("...", 1),
            (&*"x".repeat(254), 1),
            (&*" ".repeat(254), 2),
        ] {
            for kind in ["ConfigMap", "Secret"] {
                let told = faults(&row("", kind), json!({"data": {key: ""}}));
                assert_eq!(told, vec![format!("data[{key}] FieldValueInvalid"); count], "{kind}");
            }
        }
    }

    #[test]
    fn r136_secret_type_is_frozen() {
        assert_eq!(
            update_faults(&row("", "Secret"), json!({}), json!({"type": "example.com/x"})),
            ["type FieldValueInvalid"]
        );
    }

    #[test]
    fn r65_what_is_wrong_with_the_change_comes_first() {
        let secret = row("", "Secret");
        let typed = |kind: &str| json!({"type": kind});
        assert_eq!(
            update_faults(&secret, typed("Opaque"), typed("kubernetes.io/tls")),
            [
                "type FieldValueInvalid",
                "data[tls.crt] FieldValueRequired",
                "data[tls.key] FieldValueRequired",
            ]
        );
        let frozen = |key: &str| json!({"immutable": true, "data": {key: "v"}});
        assert_eq!(
            update_faults(&row("", "ConfigMap"), frozen("a"), frozen("a b")),
            ["data FieldValueForbidden", "data[a b] FieldValueInvalid"]
        );
    }
}
