//! Expressions of strategies, evaluated for the engine within the budget of one call (R79).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tenure_cel::{Bindings, Budget, CALL_COST_MAX, Env, Key, List, Map, Program, Shape, Type};
use tenure_reference::Expressions;

/// How many expressions are kept compiled.
const KEPT_MAX: usize = 1024;

/// Compiles an expression over `self`, or says what is wrong with it.
pub(super) fn compile(expression: &str) -> Result<Program, String> {
    let env = Env::new().with_shape("self", &Shape::any());
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
    fn program(&self, expression: &str) -> Compiled {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = kept.get(expression) {
            return Arc::clone(program);
        }
        // Strategies come and go seldom; starting over is simpler than knowing which are gone.
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let program = Arc::new(compile(expression));
        kept.insert(expression.to_owned(), Arc::clone(&program));
        program
    }
}

impl Expressions for Cel {
    fn evaluate(&self, expression: &str, object: &Value) -> Result<Value, String> {
        let program = self.program(expression);
        let program = program.as_ref().as_ref().map_err(Clone::clone)?;
        let shape = Shape::any();
        let seen =
            tenure_cel::Value::from_json(object, &shape).map_err(|error| error.to_string())?;
        let bindings = Bindings::new().bind("self", seen);
        let mut budget = Budget::new(CALL_COST_MAX);
        let made = program.eval(&bindings, &mut budget).map_err(|error| error.to_string())?;
        Ok(json(&made))
    }
}

/// A value as JSON; what has no form there is null, and no reference.
fn json(value: &tenure_cel::Value<'_>) -> Value {
    use tenure_cel::Value as Made;
    match value {
        Made::Bool(truth) => (*truth).into(),
        Made::Int(number) => (*number).into(),
        Made::Uint(number) => (*number).into(),
        Made::String(text) => Value::String((**text).to_owned()),
        Made::List(List::Json(items, _)) => Value::Array(items.to_vec()),
        Made::List(List::Made(items)) => items.iter().map(json).collect(),
        Made::Map(Map::Json(map, _)) | Made::Object(map, _) => Value::Object((*map).clone()),
        Made::Map(Map::Made(map)) => {
            let named = map.iter().filter_map(|(key, value)| match key {
                Key::String(name) => Some(((**name).to_owned(), json(value))),
                _ => None,
            });
            Value::Object(named.collect())
        }
        Made::Optional(Some(inner)) => json(inner),
        Made::Raw(raw) => (*raw).clone(),
        _ => Value::Null,
    }
}
