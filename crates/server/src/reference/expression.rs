//! Expressions of strategies, evaluated for the engine within the budget of one call (R79).
//!
//! Commits wait for them. What one may cost takes about two milliseconds, what all expressions of one object may
//! cost together about ten; what an expression makes is read only as far as it can be references.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tenure_cel::{
    Bindings, CostBudget, DeclaredType, Env, ListValue, MapKey, MapValue, Program, Type,
};
use tenure_reference::Expressions;
use tenure_reference::path::RESULTS_MAX;

/// How many expressions are kept compiled.
const KEPT_MAX: usize = 1024;
/// What one evaluation may cost.
const CALL_COST_MAX: u64 = 20_000;
/// What it costs to compile an expression that is not kept.
const COMPILE_COST: u64 = 5_000;

/// Compiles an expression over `self`, or says what is wrong with it.
pub(super) fn compile(expression: &str) -> Result<Program, String> {
    let env = Env::new().with_shape("self", &DeclaredType::any());
    let program = tenure_cel::compile(expression, &env)
        .map_err(|error| format!("compilation failed: {error}"))?;
    match program.result_type() {
        Type::List(_) | Type::Dyn => Ok(program),
        other => Err(format!("must evaluate to a list of references, not to `{other}`")),
    }
}

type Compiled = Arc<Result<Program, String>>;

/// Evaluates, and keeps what it compiled.
#[derive(Default)]
pub(super) struct Cel {
    kept: Mutex<HashMap<String, Compiled>>,
}

impl Cel {
    fn program(&self, expression: &str, units: &mut u64) -> Compiled {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = kept.get(expression) {
            return Arc::clone(program);
        }
        // Strategies come and go seldom; starting over is simpler than knowing which are gone.
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        *units = units.saturating_sub(COMPILE_COST);
        let program = Arc::new(compile(expression));
        kept.insert(expression.to_owned(), Arc::clone(&program));
        program
    }
}

impl Expressions for Cel {
    fn evaluate(&self, expression: &str, object: &Value, units: &mut u64) -> Result<Value, String> {
        let program = self.program(expression, units);
        let program = program.as_ref().as_ref().map_err(Clone::clone)?;
        let shape = DeclaredType::any();
        let seen =
            tenure_cel::Value::from_json(object, &shape).map_err(|error| error.to_string())?;
        let bindings = Bindings::new().bind("self", seen);
        let most = CALL_COST_MAX.min(*units);
        let mut budget = CostBudget::new(most);
        let made = program.eval(&bindings, &mut budget).map_err(|error| error.to_string());
        *units = units.saturating_sub(most.saturating_sub(budget.remaining()));
        Ok(results(&made?))
    }
}

/// What an expression made, as far as it can be references: a list in the list is opened, nothing else is copied.
///
/// A value may hold the object many times over without having cost anything.
fn results(made: &tenure_cel::Value<'_>) -> Value {
    use tenure_cel::Value as Made;
    let list = match made {
        Made::List(list) => list,
        Made::Raw(Value::Array(items)) => {
            return items.iter().take(RESULTS_MAX + 1).map(json_reference).collect();
        }
        Made::Optional(Some(inner)) => return results(inner),
        _ => return Value::Null,
    };
    let mut found = Vec::new();
    for_each(list, &mut |item| {
        match item {
            ListElement::Made(Made::List(inner)) => for_each(inner, &mut |item| {
                found.push(item.reference());
                found.len() <= RESULTS_MAX
            }),
            ListElement::Json(Value::Array(inner)) => {
                found.extend(inner.iter().take(RESULTS_MAX + 1).map(json_reference));
            }
            item => found.push(item.reference()),
        }
        found.len() <= RESULTS_MAX
    });
    Value::Array(found)
}

/// One of a list: of the object, or made.
enum ListElement<'l, 'v> {
    Json(&'l Value),
    Made(&'l tenure_cel::Value<'v>),
}

/// Calls for one after the other, until it is enough.
fn for_each<'v>(list: &ListValue<'v>, each: &mut dyn FnMut(ListElement<'_, 'v>) -> bool) {
    match list {
        ListValue::Json(items, _) => drop(items.iter().all(|item| each(ListElement::Json(item)))),
        ListValue::Made(items) => drop(items.iter().all(|item| each(ListElement::Made(item)))),
    }
}

impl ListElement<'_, '_> {
    /// The name, or the name and the namespace; null for what is no reference.
    fn reference(&self) -> Value {
        use tenure_cel::Value as Made;
        match self {
            ListElement::Json(value) => json_reference(value),
            ListElement::Made(Made::String(name)) => Value::String((**name).to_owned()),
            ListElement::Made(Made::Map(MapValue::Json(map, _)) | Made::Object(map, _)) => {
                members(map)
            }
            ListElement::Made(Made::Map(MapValue::Made(map))) => {
                let named = map.iter().filter_map(|(key, value)| match (key, value) {
                    (MapKey::String(key), Made::String(text)) if is_member(key) => {
                        Some(((**key).to_owned(), Value::String((**text).to_owned())))
                    }
                    _ => None,
                });
                Value::Object(named.collect())
            }
            ListElement::Made(Made::Optional(Some(inner))) => ListElement::Made(inner).reference(),
            ListElement::Made(Made::Raw(raw)) => json_reference(raw),
            ListElement::Made(_) => Value::Null,
        }
    }
}

fn json_reference(value: &Value) -> Value {
    match value {
        Value::String(name) => Value::String(name.clone()),
        Value::Object(map) => members(map),
        _ => Value::Null,
    }
}

fn members(map: &serde_json::Map<String, Value>) -> Value {
    let texts = map.iter().filter(|(key, value)| is_member(key) && value.is_string());
    Value::Object(texts.map(|(key, value)| (key.clone(), value.clone())).collect())
}

fn is_member(key: &str) -> bool {
    matches!(key, "name" | "namespace")
}

#[cfg(test)]
mod tests {
    //! Rules of spec/referential-authorization.md.

    use serde_json::json;

    use super::*;

    #[test]
    fn r79_what_an_expression_makes_is_read_as_far_as_it_is_references() {
        let cel = Cel::default();
        let object = json!({
            "one": { "name": "a", "namespace": "n", "data": { "k": "v" } },
            "many": [{ "name": "b", "data": 1 }, "c", 7, ["d"]],
        });
        let made = |expression: &str| cel.evaluate(expression, &object, &mut 100_000).unwrap();
        let one = json!({ "name": "a", "namespace": "n" });
        assert_eq!(made("[self.one, dyn('x'), dyn(1)]"), json!([one, "x", null]));
        assert_eq!(made("[self.many]"), json!([{ "name": "b" }, "c", null, null]));
        assert_eq!(made("[[{'name': dyn('y'), 'z': self.many}]]"), json!([{ "name": "y" }]));
        assert_eq!(made("self.many"), json!([{ "name": "b" }, "c", null, "d"]));
    }

    #[test]
    fn r79_an_object_held_many_times_over_is_not_copied() {
        let object =
            json!({ "items": vec![json!({ "name": "n", "data": "x".repeat(500) }); 2_000] });
        let expression = "self.items.map(x, [self.items, self.items, self.items, self.items])";
        let begin = std::time::Instant::now();
        // As many copies would take gigabytes.
        let _ = Cel::default().evaluate(expression, &object, &mut 100_000);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5));
    }

    #[test]
    fn r79_what_one_object_may_cost_is_spent_by_all_expressions() {
        let object = json!({ "items": vec![json!("a"); 2_000] });
        let (cel, mut units) = (Cel::default(), 100_000);
        let hostile = "self.items.map(x, self.items.exists(y, y == 'b') ? x : 'c')";
        let mut calls = 0;
        while units > 0 {
            let failed = cel.evaluate(hostile, &object, &mut units).unwrap_err();
            assert!(failed.contains("cost"), "{failed}");
            calls += 1;
        }
        assert!(calls <= 6, "{calls}");
    }
}
