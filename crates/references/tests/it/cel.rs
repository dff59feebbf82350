//! Expressions of strategies, run as the API server runs them: with its library and its budget.

use serde_json::Value;
use tenure_cel::{
    Bindings, CostBudget, DeclaredType, Env, ListValue, MapKey, MapValue, Value as Made, compile,
};

pub(crate) fn evaluate(expression: &str, object: &Value) -> Result<Value, String> {
    let shape = DeclaredType::any();
    let env = Env::new().with_shape("self", &shape);
    let program = compile(expression, &env).map_err(|error| error.to_string())?;
    let object = Made::from_json(object, &shape).map_err(|error| error.to_string())?;
    let bindings = Bindings::new().bind("self", object);
    let made = program.eval(&bindings, &mut CostBudget::for_object());
    made.map_err(|error| error.to_string()).map(|made| json(&made))
}

fn json(made: &Made<'_>) -> Value {
    match made {
        Made::String(text) => Value::String((**text).to_owned()),
        Made::List(ListValue::Json(items, _)) => Value::Array(items.to_vec()),
        Made::List(ListValue::Made(items)) => items.iter().map(json).collect(),
        Made::Map(MapValue::Json(map, _)) => Value::Object((*map).clone()),
        Made::Map(MapValue::Made(map)) => {
            let members = map.iter().filter_map(|(key, value)| match key {
                MapKey::String(key) => Some(((**key).to_owned(), json(value))),
                _ => None,
            });
            members.collect()
        }
        _ => Value::Null,
    }
}
