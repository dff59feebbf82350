//! From a body to a checked object (R21, R32, R54, R55).

use serde_json::Value;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_schema::{TypeId, decode as schema, duplicate, facts, protobuf};

use crate::query::FieldValidation;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;

/// The media type of protobuf bodies (R22).
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// How many objects one body may nest.
const OBJECTS_MAX: usize = 65_536;

/// Reads the body of a create or update.
pub(crate) fn body(
    request: &mut ResourceRequest,
    validation: FieldValidation,
) -> Result<Object, Failure> {
    let expected =
        ExpectedType { type_id: request.served.type_id, kind: request.served.kind.kind.as_ref() };
    let (value, duplicates) = parse(&request.content_type, &request.body, validation, expected)?;
    let mut object = match value {
        Value::Object(object) => object,
        // Nothing is said of a type that needs no saying; a custom object says its kind.
        Value::Null if request.served.custom.is_none() => Object::new(),
        _ => return Err(Failure::bad_request("the body is not an object")),
    };
    if let Err(wrong) = check_type(&object, &request.served) {
        let unread = unread(&object, &request.served);
        report(request, validation, &unread).map_err(Failure::bad_request)?;
        return Err(wrong);
    }
    let served = std::sync::Arc::clone(&request.served);
    let unknown = check_schema(&served, &mut object).map_err(Failure::bad_request)?;
    let typed = served.custom.is_none() && is_json(&request.content_type);
    let findings = if typed && !duplicates.is_empty() && !unknown.is_empty() {
        in_order(&request.body, &unknown)
    } else {
        duplicates.into_iter().chain(unknown).collect()
    };
    report(request, validation, &findings).map_err(Failure::bad_request)?;
    Ok(object)
}

fn is_json(content_type: &str) -> bool {
    matches!(content_type, "" | "application/json")
}

/// What stands twice and what nobody knows, as one reads the text. Of what nobody knows nothing else is
/// told.
fn in_order(body: &[u8], unknown: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut strange: Vec<String> = Vec::new();
    duplicate::members(body, &mut |at, again| {
        let path = at.to_string();
        let below = strange.iter().any(|above| {
            let rest = path.strip_prefix(above.as_str());
            rest.is_some_and(|rest| rest.starts_with(['.', '[']))
        });
        let mut finding = format!("unknown field {path:?}");
        if unknown.contains(&finding) {
            strange.push(path);
        } else if again {
            finding = format!("duplicate field {path:?}");
        } else {
            return;
        }
        if !below && !found.contains(&finding) {
            found.push(finding);
        }
    });
    found
}

/// Which type a protobuf body is read by, and which kind it must say it is.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedType<'a> {
    /// The type in the facts table; `None` for kinds that protobuf cannot carry.
    pub(crate) type_id: Option<TypeId>,
    /// The kind the envelope must name, if it names one.
    pub(crate) kind: &'a str,
}

impl ExpectedType<'_> {
    /// A body of a type by name, such as `apimachinery.meta.v1.DeleteOptions`.
    pub(crate) fn named<'a>(type_name: &str, kind: &'a str) -> ExpectedType<'a> {
        ExpectedType { type_id: facts().type_id(type_name), kind }
    }
}

/// Reads JSON, YAML or protobuf; says in words which keys stand twice when somebody wants to know.
pub(crate) fn parse(
    content_type: &str,
    body: &[u8],
    validation: FieldValidation,
    expected: ExpectedType<'_>,
) -> Result<(Value, Vec<String>), Failure> {
    let (value, duplicates) = match content_type {
        "" | "application/json" => {
            let (value, paths) = duplicate::parse(body)
                .map_err(|error| Failure::bad_request(format!("the body is not JSON: {error}")))?;
            let wanted = validation != FieldValidation::Ignore;
            (value, if wanted { repeated(&paths) } else { Vec::new() })
        }
        "application/yaml" => {
            let (value, repeated) = tenure_yaml::to_json_lenient(body, yaml_limits())
                .map_err(|error| Failure::bad_request(format!("the body is not YAML: {error}")))?;
            (value, repeated.iter().map(ToString::to_string).collect())
        }
        PROTOBUF => (Value::Object(parse_protobuf(body, expected)?), Vec::new()),
        other => return Err(unsupported(other)),
    };
    check_size(&value)?;
    Ok((value, duplicates))
}

/// How members that stand twice are told.
pub(crate) fn repeated(paths: &[String]) -> Vec<String> {
    paths.iter().map(|path| format!("duplicate field {path:?}")).collect()
}

/// Bounds for YAML bodies: what aliases unfold to is counted as well.
pub(crate) fn yaml_limits() -> tenure_yaml::YamlLimits {
    tenure_yaml::YamlLimits {
        expanded_bytes_max: 2 * crate::api::BODY_BYTES_MAX,
        ..Default::default()
    }
}

fn parse_protobuf(body: &[u8], expected: ExpectedType<'_>) -> Result<Object, Failure> {
    let Some(type_id) = expected.type_id else { return Err(unsupported(PROTOBUF)) };
    let bad = |bad: protobuf::BadProtobuf| Failure::bad_request(bad.message);
    let envelope = protobuf::envelope(body).map_err(bad)?;
    // Another kind's message would be misread, so its name is looked at first.
    if !envelope.kind.is_empty() && envelope.kind != expected.kind {
        return Err(Failure::bad_request(format!(
            "the kind in the data ({}) does not match the expected kind ({})",
            envelope.kind, expected.kind
        )));
    }
    let mut object = protobuf::decode(type_id, envelope.raw).map_err(bad)?;
    for (member, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            object.insert(member.into(), text.into());
        }
    }
    Ok(object)
}

/// As [`check_size`], for what a patch made.
pub(crate) fn check_object_size(object: &Object) -> Result<(), Failure> {
    check_values(object.values())
}

/// A small body may hold very many objects, and each grows when its members are filled in.
pub(crate) fn check_size(value: &Value) -> Result<(), Failure> {
    check_values(std::iter::once(value))
}

fn check_values<'a>(values: impl Iterator<Item = &'a Value>) -> Result<(), Failure> {
    fn count(value: &Value, left: &mut usize) {
        match value {
            Value::Object(map) => {
                *left = left.saturating_sub(1);
                map.values().filter(|v| v.is_object() || v.is_array()).for_each(|v| count(v, left));
            }
            Value::Array(list) => {
                list.iter().filter(|v| v.is_object() || v.is_array()).for_each(|v| count(v, left));
            }
            _ => {}
        }
    }
    let mut left = OBJECTS_MAX;
    values.for_each(|value| count(value, &mut left));
    if left > 0 {
        return Ok(());
    }
    Err(Failure::new(
        413,
        "RequestEntityTooLarge",
        format!("the body holds more than {OBJECTS_MAX} objects"),
    ))
}

/// 415 with the types that are read here.
#[must_use]
pub(crate) fn unsupported(media: &str) -> Failure {
    Failure::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, {PROTOBUF} (not `{media}`)"
        ),
    )
}

/// `apiVersion` and `kind` may be absent, the latter only of built-in kinds; if present they agree with
/// the path.
fn check_type(object: &Object, served: &ServedKind) -> Result<(), Failure> {
    let version = object.str_at(&["apiVersion"]).unwrap_or_default();
    let kind = object.str_at(&["kind"]).unwrap_or_default();
    if !version.is_empty() && version != served.api_version {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            served.api_version
        )));
    }
    if kind.is_empty() && served.custom.is_some() {
        return Err(Failure::bad_request("Object 'Kind' is missing"));
    }
    if kind != served.kind.kind && served.custom.is_some() {
        let mut errors = Errors::new();
        let why = format!("must be {}", served.kind.kind);
        errors.invalid(&Path::Root.field("kind"), format!("{kind:?}"), &why);
        return Err(Failure::invalid(&served.kind.group, kind, object.name(), errors));
    }
    if !kind.is_empty() && kind != served.kind.kind {
        return Err(Failure::bad_request(format!(
            "the kind in the data ({kind}) does not match the expected kind ({})",
            served.kind.kind
        )));
    }
    Ok(())
}

/// What is unknown in a custom object of a version that is not the path's: all but its metadata.
fn unread(object: &Object, served: &ServedKind) -> Vec<String> {
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    let version = object.str_at(&["apiVersion"]).unwrap_or_default();
    let own = object.str_at(&["kind"]) == Some(&served.kind.kind)
        && group(version).as_deref() == Some(&served.kind.group);
    if served.custom.is_none() || !own {
        return Vec::new();
    }
    let members =
        object.keys().filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    members.map(|name| format!("unknown field {name:?}")).collect()
}

/// Runs the schema over the object; says which unknown fields it dropped, or what has a wrong type.
pub(crate) fn check_schema(
    served: &ServedKind,
    object: &mut Object,
) -> Result<Vec<String>, String> {
    let unknown = unknown_members(served, object)?;
    Ok(unknown.iter().map(|path| format!("unknown field {path:?}")).collect())
}

/// As [`check_schema`], but answers the paths alone.
///
/// The normal form has no empty lists, but two are told apart from absent ones before it is stored: an
/// emptied `managedFields` forgets its managers (R99), and an emptied member that is written as null
/// belongs to its writer. See [`settle_empty`].
pub(crate) fn unknown_members(
    served: &ServedKind,
    object: &mut Object,
) -> Result<Vec<String>, String> {
    if let Some(custom) = &served.custom {
        let dropped = custom.decode(object)?;
        object.insert("kind".into(), served.kind.kind.as_ref().into());
        object.insert("apiVersion".into(), served.api_version.as_str().into());
        return Ok(dropped);
    }
    let Some(type_id) = served.type_id else { return Ok(Vec::new()) };
    let is_empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let empty: Vec<String> = object
        .iter()
        .filter(|(_, value)| is_empty_list(value))
        .map(|(name, _)| name.clone())
        .collect();
    let forgets = object.at(&["metadata", "managedFields"]).is_some_and(is_empty_list);
    let noticed = schema::decode(type_id, object).map_err(|wrong| wrong.message)?;
    for name in empty {
        if object.get(&name) == Some(&Value::Null) {
            object.insert(name, Value::Array(Vec::new()));
        }
    }
    if forgets {
        object.map_mut("metadata").insert("managedFields".into(), Value::Array(Vec::new()));
    }
    object.insert("kind".into(), served.kind.kind.as_ref().into());
    object.insert("apiVersion".into(), served.api_version.as_str().into());
    Ok(noticed.unknown)
}

/// Brings the empty lists that [`check_schema`] kept into their stored form.
pub(crate) fn settle_empty(served: &ServedKind, object: &mut Object) {
    let Some(of) = served.type_id.and_then(|id| facts().get(id)) else { return };
    for (name, value) in object.iter_mut() {
        let empty = value.as_array().is_some_and(Vec::is_empty);
        if empty && of.field(name).is_some_and(|field| field.always) {
            *value = Value::Null;
        }
    }
}

/// A kind that is read and answered and never stored.
pub(crate) struct Unstored {
    kind: &'static str,
    type_name: &'static str,
    /// The versions in which it may be sent.
    api_versions: &'static [&'static str],
}

impl Unstored {
    pub(crate) const BINDING: Unstored =
        Unstored { kind: "Binding", type_name: "api.core.v1.Binding", api_versions: &["v1"] };
    pub(crate) const EVICTION: Unstored = Unstored {
        kind: "Eviction",
        type_name: "api.policy.v1.Eviction",
        api_versions: &["policy/v1", "policy/v1beta1"],
    };
    pub(crate) const TOKEN_REQUEST: Unstored = Unstored {
        kind: "TokenRequest",
        type_name: "api.authentication.v1.TokenRequest",
        api_versions: &["authentication.k8s.io/v1"],
    };
}

/// Reads the body of a kind that is answered and never stored.
pub(crate) fn unstored(
    request: &mut ResourceRequest,
    validation: FieldValidation,
    Unstored { kind, type_name, api_versions }: Unstored,
) -> Result<Object, Failure> {
    let expected = ExpectedType::named(type_name, kind);
    let (value, duplicates) = parse(&request.content_type, &request.body, validation, expected)?;
    let mut object = match value {
        Value::Object(object) => object,
        // What else is posted here names its pod.
        Value::Null if kind == "TokenRequest" => Object::new(),
        _ => return Err(Failure::bad_request("the body is not an object")),
    };
    let version = object.str_at(&["apiVersion"]).unwrap_or_default();
    if !version.is_empty() && !api_versions.contains(&version) {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            api_versions.join(" or ")
        )));
    }
    let unknown = check_unstored(&mut object, kind, type_name).map_err(Failure::bad_request)?;
    let findings: Vec<String> = if is_json(&request.content_type) && !unknown.is_empty() {
        in_order(&request.body, &unknown)
    } else {
        duplicates.into_iter().chain(unknown).collect()
    };
    report(request, validation, &findings).map_err(Failure::bad_request)?;
    settle_namespace(request, &mut object)?;
    Ok(object)
}

/// Checks an object that is read and never stored, such as a Scale or a Binding; answers what nobody knows.
pub(crate) fn check_unstored(
    object: &mut Object,
    kind: &str,
    type_name: &str,
) -> Result<Vec<String>, String> {
    match object.str_at(&["kind"]) {
        Some(given) if !given.is_empty() && given != kind => {
            return Err(format!(
                "the kind in the data ({given}) does not match the expected kind ({kind})"
            ));
        }
        _ => {}
    }
    let Some(type_id) = facts().type_id(type_name) else { return Ok(Vec::new()) };
    let noticed = schema::decode(type_id, object).map_err(|wrong| wrong.message)?;
    Ok(noticed.unknown.iter().map(|path| format!("unknown field {path:?}")).collect())
}

/// Refuses, warns or keeps still.
pub(crate) fn report(
    request: &mut ResourceRequest,
    validation: FieldValidation,
    findings: &[String],
) -> Result<(), String> {
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Strict if findings.is_empty() => Ok(()),
        FieldValidation::Strict => Err(format!("strict decoding error: {}", findings.join(", "))),
        FieldValidation::Warn => {
            findings.iter().for_each(|finding| request.warn(finding.clone()));
            Ok(())
        }
    }
}

/// The body's namespace agrees with the path's and is filled from it; cluster-scoped kinds have none.
pub(crate) fn settle_namespace(
    request: &ResourceRequest,
    object: &mut Object,
) -> Result<(), Failure> {
    let metadata = object.map_mut("metadata");
    if !request.served.kind.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
    if !given.is_empty() && given != request.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    metadata.insert("namespace".into(), request.namespace.as_str().into());
    Ok(())
}
