//! Whether the expressions of a ValidatingAdmissionPolicy fit the kinds that it is about (api-server R164d).
//!
//! ```text
//!   resource rules ──► kinds ──► schemas ──► types of object, oldObject and params
//!   validations, compiled once more with those types ──► what does not fit
//! ```
//!
//! Nobody is refused for it: a policy may be about kinds of which each has other members.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tenure_cel::{DeclaredType, Env, Type, compile};
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Object, ObjectExt};
use tenure_schema::{TypeId, ValueType, facts};

use super::compile::{VARIABLES, typed_env};
use crate::registry::{Registry, ServedKind};

/// The most kinds that one rule brings in.
const KINDS_MAX: usize = 10;
/// The most bytes of warnings that are told: they are part of an object.
const WARNINGS_BYTES_MAX: usize = 256 * 1024;
/// Members of a validation that are looked at.
const EXPRESSIONS: [&str; 2] = ["expression", "messageExpression"];

/// What does not fit, as entries of `status.typeChecking.expressionWarnings`.
pub(crate) fn expression_warnings(registry: &Registry, policy: &Object) -> Vec<Value> {
    let none = Object::new();
    let spec = policy.map_at(&["spec"]).unwrap_or(&none);
    let params = spec.map_at(&["paramKind"]).map(|wanted| param_type(registry, wanted));
    let kinds = kinds(registry, spec);
    let typed: Vec<(String, Env)> = kinds
        .iter()
        .filter_map(|served| {
            let env = typed_env(&declared(served)?, params.as_ref());
            Some((name(served), with_variables(spec, env)))
        })
        .collect();
    let mut warnings = Vec::new();
    let mut left = WARNINGS_BYTES_MAX;
    for (index, validation) in objects(spec, "validations") {
        for member in EXPRESSIONS {
            let expression = text(validation, member);
            if expression.trim().is_empty() {
                continue;
            }
            let reported = typed.iter().filter_map(|(name, env)| {
                let error = compile(expression, env).err()?;
                Some(format!("{name}: {}\n", error.message))
            });
            let reported = reported.collect::<Vec<_>>().join("\n");
            left = left.saturating_sub(reported.len());
            if left == 0 {
                return warnings;
            }
            if !reported.is_empty() {
                let place = format!("spec.validations[{index}].{member}");
                warnings.push(json!({ "fieldRef": place, "warning": reported }));
            }
        }
    }
    warnings
}

/// Variables are typed by what makes them; one that does not compile is anything.
fn with_variables(spec: &Object, mut env: Env) -> Env {
    for (_, variable) in objects(spec, VARIABLES) {
        let made = compile(text(variable, "expression"), &env);
        let ty = made.map_or(Type::Dyn, |program| program.result_type().clone());
        env = env.with_type(&format!("{VARIABLES}.{}", text(variable, "name")), ty);
    }
    env
}

/// `apps/v1, Kind=Deployment`.
fn name(served: &ServedKind) -> String {
    let kind = &served.kind;
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

/// The kinds that the resource rules name, in order, each once; rules with `*` name none.
fn kinds<'r>(registry: &'r Registry, spec: &Object) -> Vec<&'r Arc<ServedKind>> {
    let mut found: Vec<&Arc<ServedKind>> = Vec::new();
    let none = Object::new();
    let constraints = spec.map_at(&["matchConstraints"]).unwrap_or(&none);
    for (_, rule) in objects(constraints, "resourceRules") {
        let texts = |list: &str| -> Vec<&str> {
            rule.list_at(&[list]).iter().filter_map(Value::as_str).collect()
        };
        let (groups, versions, resources) =
            (texts("apiGroups"), texts("apiVersions"), texts("resources"));
        if groups.iter().chain(&versions).any(|word| word.contains('*')) {
            continue;
        }
        let named = registry.kinds().iter().filter(|served| {
            let kind = &served.kind;
            groups.contains(&&*kind.group)
                && versions.contains(&&*kind.version)
                && resources.contains(&&*kind.plural)
        });
        let before = found.len();
        found.extend(named.take(KINDS_MAX));
        if found.len().saturating_sub(before) == KINDS_MAX {
            break;
        }
    }
    let order = |served: &&Arc<ServedKind>| {
        let kind = &served.kind;
        (kind.group.to_string(), kind.version.to_string(), kind.kind.to_string())
    };
    found.sort_by_cached_key(order);
    found.dedup_by_key(|served| order(served));
    found
}

/// The type of the parameters; anything where nobody knows their kind.
fn param_type(registry: &Registry, wanted: &Object) -> Arc<DeclaredType> {
    let (version, kind) = (text(wanted, "apiVersion"), text(wanted, "kind"));
    let mut all = registry.kinds().iter();
    let served = all.find(|one| one.api_version == version && one.kind.kind == kind);
    served.and_then(|served| declared(served)).unwrap_or_else(DeclaredType::any)
}

/// The type of the objects of a kind; none where it has no schema.
fn declared(served: &ServedKind) -> Option<Arc<DeclaredType>> {
    let schema = match &served.custom {
        None => of_type(served.type_id?, &mut Vec::new()),
        Some(custom) => {
            let mut schema = custom.raw.clone();
            let metadata = facts().type_id("apimachinery.meta.v1.ObjectMeta")?;
            let properties = schema.as_object_mut()?.entry("properties");
            let properties = properties.or_insert_with(|| Value::Object(Map::new()));
            let properties = properties.as_object_mut()?;
            properties.insert("metadata".into(), of_type(metadata, &mut Vec::new()));
            for member in ["kind", "apiVersion"] {
                properties.insert(member.into(), json!({ "type": "string" }));
            }
            schema
        }
    };
    DeclaredType::from_schema(&schema, true)
}

/// The schema of a built-in type. A type inside itself is anything there.
fn of_type(id: TypeId, above: &mut Vec<TypeId>) -> Value {
    let Some(of) = facts().get(id).filter(|_| !above.contains(&id)) else { return anything() };
    above.push(id);
    let members = of.fields.iter();
    let members: Map<String, Value> =
        members.map(|field| (field.json.to_owned(), of_value(&field.shape, above))).collect();
    above.pop();
    json!({ "type": "object", "properties": members })
}

fn of_value(shape: &ValueType, above: &mut Vec<TypeId>) -> Value {
    match shape {
        ValueType::String => json!({ "type": "string" }),
        ValueType::Bytes => json!({ "type": "string", "format": "byte" }),
        ValueType::Bool => json!({ "type": "boolean" }),
        ValueType::Int32 | ValueType::Int64 => json!({ "type": "integer" }),
        ValueType::Double => json!({ "type": "number" }),
        ValueType::Time | ValueType::MicroTime => {
            json!({ "type": "string", "format": "date-time" })
        }
        ValueType::Quantity | ValueType::IntOrString | ValueType::Any => anything(),
        ValueType::Struct(id) => of_type(*id, above),
        ValueType::List(item) => json!({ "type": "array", "items": of_value(item, above) }),
        ValueType::Map(value) => {
            json!({ "type": "object", "additionalProperties": of_value(value, above) })
        }
    }
}

/// What is checked only when an expression runs.
fn anything() -> Value {
    json!({ "x-kubernetes-int-or-string": true })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use super::*;

    #[test]
    fn r164d_every_built_in_type_has_a_shape() {
        for (at, of) in facts().types().iter().enumerate() {
            let id = TypeId(u16::try_from(at).unwrap());
            assert!(
                DeclaredType::from_schema(&of_type(id, &mut Vec::new()), true).is_some(),
                "{}",
                of.name
            );
        }
    }
}
