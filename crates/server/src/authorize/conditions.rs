//! When a webhook is asked at all: expressions over the review that it would get (R154b).

use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};
use tenure_cel::{
    Bindings, CostBudget, DeclaredType, Env, MATCH_COST_MAX, Program, Type, Value, compile,
};
use tenure_machinery::Object;

/// What expressions call the review.
const REQUEST: &str = "request";
/// What a run pays that costs nothing by itself.
const RUN_COST: u64 = 4;

/// The conditions of a webhook, ready to run.
#[derive(Default)]
pub(crate) struct MatchConditions {
    programs: Vec<(String, Program)>,
}

impl MatchConditions {
    /// Makes expressions ready; tells why one of them cannot run.
    pub(crate) fn compile(expressions: &[String]) -> Result<MatchConditions, String> {
        let env = Env::new().with_shape(REQUEST, &REVIEW);
        let programs = expressions.iter().map(|text| {
            let program = compile(text, &env)
                .map_err(|why| format!("compilation failed: {}", why.message))?;
            match program.result_type() {
                Type::Bool => Ok((text.clone(), program)),
                other => Err(format!("must evaluate to bool but got {other}")),
            }
        });
        Ok(MatchConditions { programs: programs.collect::<Result<_, String>>()? })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Whether all hold. One that does not hold counts more than others that fail.
    pub(crate) fn hold(&self, review: &Object) -> Result<bool, String> {
        let mut budget = CostBudget::new(MATCH_COST_MAX);
        let mut failed = Ok(true);
        for (text, program) in &self.programs {
            let bindings = Bindings::new().bind(REQUEST, Value::Object(review, &REVIEW));
            budget.spend(RUN_COST);
            match program.eval(&bindings, &mut budget) {
                Ok(Value::Bool(true)) => {}
                Ok(Value::Bool(false)) => return Ok(false),
                Ok(_) => failed = Err(format!("expression {text:?} answers no bool")),
                Err(error) => {
                    failed = Err(format!("expression {text:?} resulted in error: {error}"));
                }
            }
        }
        failed
    }
}

/// The review as expressions see it.
static REVIEW: LazyLock<Arc<DeclaredType>> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let selector = json!({"type": "object", "properties": {
        "rawSelector": text,
        "requirements": {"type": "array", "items": {"type": "object", "properties": {
            "key": text, "operator": text, "values": texts,
        }}},
    }});
    let whole = json!({"type": "object", "properties": {
        "resourceAttributes": {"type": "object", "properties": {
            "namespace": text, "verb": text, "group": text, "version": text, "resource": text,
            "subresource": text, "name": text, "fieldSelector": selector, "labelSelector": selector,
        }},
        "nonResourceAttributes": {"type": "object", "properties": {"path": text, "verb": text}},
        "user": text, "groups": texts, "uid": text,
        "extra": {"type": "object", "additionalProperties": texts},
    }});
    DeclaredType::from_schema(&whole, false).unwrap_or_else(DeclaredType::any)
});

/// A review with every member that expressions may name without asking whether it is there.
pub(crate) fn filled(spec: &Object) -> Object {
    let mut filled = spec.clone();
    for (member, usual) in
        [("user", json!("")), ("uid", json!("")), ("groups", json!([])), ("extra", json!({}))]
    {
        filled.entry(member).or_insert(usual);
    }
    if let Some(Json::Object(about)) = filled.get_mut("resourceAttributes") {
        for member in ["namespace", "verb", "group", "version", "resource", "subresource", "name"] {
            about.entry(member).or_insert_with(|| json!(""));
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    fn hold(expressions: &[&str]) -> Result<bool, String> {
        let expressions: Vec<String> = expressions.iter().map(|text| (*text).to_owned()).collect();
        let spec = json!({
            "user": "jane", "groups": ["dev"], "resourceAttributes": {"verb": "get", "resource": "pods"},
        });
        let filled = filled(spec.as_object().unwrap());
        MatchConditions::compile(&expressions)?.hold(&filled)
    }

    #[test]
    fn r154b_conditions_see_the_review() {
        for (expression, wanted) in [
            ("has(request.resourceAttributes) && request.resourceAttributes.verb in ['get']", true),
            ("has(request.nonResourceAttributes)", false),
            ("request.user == 'jane' && 'dev' in request.groups", true),
            ("request.uid == '' && request.extra.size() == 0", true),
            (
                "request.resourceAttributes.name == '' && request.resourceAttributes.namespace == ''",
                true,
            ),
            ("has(request.resourceAttributes.labelSelector)", false),
        ] {
            assert_eq!(hold(&[expression]), Ok(wanted), "{expression}");
        }
    }

    #[test]
    fn r154b_what_does_not_hold_counts_more_than_what_fails() {
        let fails = "request.nonResourceAttributes.path == '/'";
        assert!(hold(&[fails]).unwrap_err().contains("resulted in error"));
        assert_eq!(hold(&[fails, "request.user == 'joe'"]), Ok(false));
        assert_eq!(hold(&["request.user == 'joe'", fails]), Ok(false));
        assert!(hold(&[fails, "request.user == 'jane'"]).is_err());
    }

    #[test]
    fn r154b_what_costs_too_much_fails() {
        let list = format!("[{}]", vec!["'x'"; 400].join(","));
        let dear = format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b != c)))");
        assert!(hold(&[&dear]).is_err());
    }

    #[test]
    fn r154b_what_cannot_run_is_refused() {
        for (expression, why) in [
            ("request.user", "must evaluate to bool but got string"),
            ("request.nothing == ''", "compilation failed"),
            ("object.x", "compilation failed"),
            ("authorizer.group('').resource('pods').check('get').allowed()", "compilation failed"),
            ("1 +", "compilation failed"),
        ] {
            let found = hold(&[expression]).unwrap_err();
            assert!(found.contains(why), "{expression}: {found}");
        }
    }
}
