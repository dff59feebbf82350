//! What is wrong with the rules of a definition: they do not compile, or they could cost too much.

use serde_json::Value;
use tenure_cel::{CompileError, DEFINITION_ESTIMATE_MAX, EXPRESSION_ESTIMATE_MAX, Program};
use tenure_machinery::{Errors, Path};
use tenure_structural::Schema;
use tenure_structural::schema::{ListType, ValidationRule};

use super::{Compiled, additional, shape};

/// How many expressions are named when all together cost too much.
const NAMED_MAX: usize = 4;
/// What an expression must cost to be named then.
const NAMED_COST_MIN: u64 = DEFINITION_ESTIMATE_MAX / 100;

/// Adds what is wrong with the rules of a schema that stands at `path`.
pub(super) fn check(raw: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Errors) {
    let mut total = Total::default();
    let root = SchemaContext { root: true, occurs: Some(1), apart: None };
    RuleValidator { errors, total: &mut total }.node(raw, schema, &root, path);
    if total.cost > DEFINITION_ESTIMATE_MAX {
        for (_, field) in &total.most {
            let why = "contributes to the cost of all expressions, which exceeds the limit";
            errors.forbidden(&Path::Root.field(field), why);
        }
        let why = excess("the expressions of the schema together", total.cost);
        errors.forbidden(path, &format!("{why} of {DEFINITION_ESTIMATE_MAX}"));
    }
}

/// What all expressions cost, and which cost most.
#[derive(Default)]
struct Total {
    cost: u64,
    most: Vec<(u64, String)>,
}

impl Total {
    fn add(&mut self, cost: u64, path: &Path<'_>) {
        self.cost = self.cost.saturating_add(cost);
        if cost >= NAMED_COST_MIN {
            self.most.push((cost, path.to_string()));
            self.most.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.most.truncate(NAMED_MAX);
        }
    }
}

/// What is around a schema.
struct SchemaContext {
    root: bool,
    /// How often its values occur in one object; none if nothing bounds that.
    occurs: Option<u64>,
    /// The list or map around it whose old values do not correspond to new ones.
    apart: Option<String>,
}

impl SchemaContext {
    /// Inside, where `times` as many values occur; `apart` if their old values are not known.
    fn inside(&self, times: Option<u64>, apart: bool, path: &Path<'_>) -> SchemaContext {
        let occurs = self.occurs.zip(times).map(|(outside, times)| outside.saturating_mul(times));
        let known = self.apart.clone();
        SchemaContext {
            root: false,
            occurs,
            apart: known.or_else(|| apart.then(|| path.to_string())),
        }
    }
}

struct RuleValidator<'a> {
    errors: &'a mut Errors,
    total: &'a mut Total,
}

impl RuleValidator<'_> {
    fn node(&mut self, raw: &Value, schema: &Schema, place: &SchemaContext, path: &Path<'_>) {
        let most = schema.size_max().map(|most| u64::try_from(most).unwrap_or(0));
        if let (Some(values), Some(raw)) = (additional(schema), raw.get("additionalProperties")) {
            let inside = place.inside(most, schema.map_atomic, path);
            self.node(raw, values, &inside, &path.field("additionalProperties"));
        }
        let at = path.field("properties");
        for (name, property) in &schema.properties {
            if let Some(raw) = raw.get("properties").and_then(|all| all.get(name)) {
                let inside = place.inside(Some(1), schema.map_atomic, path);
                self.node(raw, property, &inside, &at.key(name));
            }
        }
        if let (Some(items), Some(raw)) = (schema.items.as_deref(), raw.get("items")) {
            let inside = place.inside(most, schema.list_type != ListType::Map, path);
            self.node(raw, items, &inside, &path.field("items"));
        }
        self.rules(raw, schema, place, &path.field("x-kubernetes-validations"));
    }

    fn rules(&mut self, raw: &Value, schema: &Schema, place: &SchemaContext, path: &Path<'_>) {
        let shape = shape(raw, schema, place.root);
        let occurs = place.occurs.or(shape.as_ref().map(|shape| shape.cardinality_max()));
        for (index, rule) in schema.rules.iter().enumerate() {
            let compiled = Compiled::new(rule, shape.as_ref(), raw);
            let at = path.index(index);
            let of = at.field("rule");
            self.expression(&compiled.program, &rule.rule, occurs.unwrap_or(1), &of);
            if let Some(message) = &compiled.message {
                // One run of a failing rule computes one message, so it is not multiplied.
                let of = at.field("messageExpression");
                self.expression(message, &rule.message_expression, 1, &of);
            }
            self.change(rule, &compiled, place, &at);
        }
    }

    fn expression(
        &mut self,
        program: &Result<Program, CompileError>,
        text: &str,
        occurs: u64,
        path: &Path<'_>,
    ) {
        match program {
            Ok(program) => {
                let cost = program.estimate().max.saturating_mul(occurs);
                if cost > EXPRESSION_ESTIMATE_MAX {
                    let why = excess("the expression", cost);
                    let why = format!(
                        "{why} of {EXPRESSION_ESTIMATE_MAX}; limits such as maxItems, \
                         maxProperties and maxLength make it cheaper"
                    );
                    self.errors.forbidden(path, &why);
                }
                self.total.add(cost, path);
            }
            Err(error) => {
                let why = format!("compilation failed: {error}");
                self.errors.invalid(path, format_args!("{text:?}"), &why);
            }
        }
    }

    fn change(
        &mut self,
        rule: &ValidationRule,
        compiled: &Compiled,
        place: &SchemaContext,
        path: &Path<'_>,
    ) {
        if compiled.uses_old {
            if let Some(apart) = &place.apart {
                let why = format!(
                    "oldSelf must not be used within {apart}, where old values are not known"
                );
                self.errors.invalid(&path.field("rule"), format_args!("{:?}", rule.rule), &why);
            }
        } else if let (Some(said), true) = (rule.optional_old_self, compiled.program.is_ok()) {
            let why = "must not be set if the rule does not use oldSelf";
            self.errors.invalid(&path.field("optionalOldSelf"), said, why);
        }
    }
}

/// How much too much, in words that do not pretend to know a cost that has no bound.
fn excess(what: &str, cost: u64) -> String {
    if cost == u64::MAX {
        return format!("{what} has no bound on its estimated cost and exceeds the limit");
    }
    format!("{what} has an estimated cost of {cost}, which exceeds the limit")
}
