//! Short ways to say: this rule, on this data, gives that.

use serde_json::{Value as Json, json};
use tenure_cel::{Bindings, CostBudget, DeclaredType, Env, OldSelf, Value, compile, compile_rule};

pub(crate) struct Case {
    pub(crate) schema: Json,
    pub(crate) object: Json,
}

/// An object with members `val1`, `val2` and so on, each of a schema and a value.
pub(crate) fn values(members: &[(Json, Json)]) -> Case {
    let mut properties = serde_json::Map::new();
    let mut object = serde_json::Map::new();
    for (at, (schema, value)) in members.iter().enumerate() {
        properties.insert(format!("val{}", at + 1), schema.clone());
        object.insert(format!("val{}", at + 1), value.clone());
    }
    Case {
        schema: json!({"type": "object", "properties": properties}),
        object: Json::Object(object),
    }
}

pub(crate) fn list(items: Json) -> Json {
    json!({"type": "array", "items": items})
}

pub(crate) fn map(values: Json) -> Json {
    json!({"type": "object", "additionalProperties": values})
}

pub(crate) fn object(properties: Json) -> Json {
    json!({"type": "object", "properties": properties})
}

impl Case {
    /// What a rule says: true, false, or the reason it says nothing.
    pub(crate) fn run(&self, rule: &str) -> Result<bool, String> {
        let shape = DeclaredType::from_schema(&self.schema, false).expect("a schema rules can see");
        let program = compile_rule(rule, &Env::for_rule(&shape, OldSelf::Present))
            .map_err(|error| format!("compile: {error}"))?;
        let value = Value::from_json(&self.object, &shape).map_err(|e| e.message)?;
        let bindings = Bindings::new().bind("self", value.clone()).bind("oldSelf", value);
        let made = program.eval(&bindings, &mut CostBudget::for_object()).map_err(|e| e.message)?;
        made.as_bool().ok_or_else(|| format!("{made:?}"))
    }

    pub(crate) fn cost(&self, rule: &str) -> u64 {
        let shape = DeclaredType::from_schema(&self.schema, false).expect("a schema rules can see");
        let program = compile(rule, &Env::for_rule(&shape, OldSelf::Absent)).expect(rule);
        let value = Value::from_json(&self.object, &shape).expect("data that fits");
        let mut budget = CostBudget::for_object();
        let before = budget.remaining();
        program.eval(&Bindings::new().bind("self", value), &mut budget).expect(rule);
        before - budget.remaining()
    }

    pub(crate) fn valid(&self, rules: &[&str]) {
        let wrong: Vec<_> = rules
            .iter()
            .filter_map(|rule| match self.run(rule) {
                Ok(true) => None,
                other => Some(format!("{rule}\n    gives {other:?}")),
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    pub(crate) fn fails(&self, rules: &[(&str, &str)]) {
        let wrong: Vec<_> = rules
            .iter()
            .filter_map(|(rule, wanted)| match self.run(rule) {
                Err(error) if error.contains(wanted) => None,
                other => Some(format!("{rule}\n    wants {wanted}, gives {other:?}")),
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// Rules about nothing.
pub(crate) fn plain() -> Case {
    Case { schema: object(json!({})), object: json!({}) }
}
