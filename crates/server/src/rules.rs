//! Rules in schemas: checked when a definition is written, run when an object is (R125).
//!
//! ```text
//!   definition ──► check ───► causes          (check.rs)
//!   served version ──► Node ──► evaluate      (evaluate.rs)
//! ```
//!
//! The language itself lives in crate `cel`. A rule that cannot be compiled is never passed over:
//! its definition is refused, and an object of a definition that was stored before is refused, too
//! (dependencies R20).

mod check;
mod evaluate;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tenure_cel::{
    CompileError, DeclaredType, Env, OldSelf, Program, compile_message, compile_rule,
};
use tenure_machinery::{Errors, Path, Reason};
use tenure_structural::schema::{Additional, ValidationRule};
use tenure_structural::{Evaluate, RuleEngine, Schema, path};

/// Runs the rules of schemas.
pub struct SchemaRuleEngine;

impl RuleEngine for SchemaRuleEngine {
    fn check(&self, raw: &Value, schema: &Schema, path: &Path<'_>, errors: &mut Errors) {
        check::check(raw, schema, path, errors);
    }

    fn compile(&self, raw: &Value, schema: &Schema) -> Option<Box<dyn Evaluate>> {
        RuleNode::new(raw, schema, true).map(|node| Box::new(node) as Box<dyn Evaluate>)
    }
}

/// A schema as far as it has rules in it.
struct RuleNode {
    /// What rules see of a value; none if they cannot see it.
    shape: Option<Arc<DeclaredType>>,
    /// The name of its type.
    kind: &'static str,
    rules: Vec<Compiled>,
    properties: BTreeMap<String, RuleNode>,
    additional: Option<Box<RuleNode>>,
    items: Option<Box<RuleNode>>,
    /// Whether the members of an old value correspond to those of a new one.
    members_correspond: bool,
}

/// A rule, ready to run.
struct Compiled {
    program: Result<Program, CompileError>,
    message: Option<Result<Program, CompileError>>,
    /// Whether the rule is about a change.
    uses_old: bool,
    /// Whether it also runs when there is no old value.
    optional_old: bool,
    reason: Reason,
    /// What to say when the message expression says nothing.
    detail: String,
    /// The rule in causes about the rule itself.
    title: String,
    /// Where the cause stands, below the value.
    field: String,
}

impl RuleNode {
    /// None if there is no rule in the schema.
    fn new(raw: &Value, schema: &Schema, root: bool) -> Option<RuleNode> {
        let properties: BTreeMap<String, RuleNode> = schema
            .properties
            .iter()
            .filter_map(|(name, schema)| {
                let raw = raw.get("properties")?.get(name)?;
                Some((name.clone(), RuleNode::new(raw, schema, false)?))
            })
            .collect();
        let below = |member: &str, schema: Option<&Schema>| {
            Some(Box::new(RuleNode::new(raw.get(member)?, schema?, false)?))
        };
        let items = below("items", schema.items.as_deref());
        let additional = below("additionalProperties", additional(schema));
        if schema.rules.is_empty()
            && properties.is_empty()
            && items.is_none()
            && additional.is_none()
        {
            return None;
        }
        let shape = shape(raw, schema, root);
        let rules = schema.rules.iter();
        Some(RuleNode {
            rules: rules.map(|rule| Compiled::new(rule, shape.as_ref(), raw)).collect(),
            kind: schema.kind.map_or("", |kind| kind.as_str()),
            members_correspond: !schema.map_atomic,
            shape,
            properties,
            additional,
            items,
        })
    }
}

impl Compiled {
    fn new(rule: &ValidationRule, shape: Option<&Arc<DeclaredType>>, raw: &Value) -> Compiled {
        let optional_old = rule.optional_old_self == Some(true);
        let old = if optional_old { OldSelf::Optional } else { OldSelf::Present };
        let env = shape.map(|shape| Env::for_rule(shape, old)).ok_or_else(|| CompileError {
            message: "rules cannot see values of this schema".to_owned(),
        });
        let env = env.as_ref().map_err(Clone::clone);
        let program = env.clone().and_then(|env| compile_rule(rule.rule.trim(), env));
        let computed = rule.message_expression.trim();
        let message =
            (!computed.is_empty()).then(|| env.and_then(|env| compile_message(computed, env)));
        let said = rule.message.trim();
        let title = if said.is_empty() { rule.rule.trim() } else { said };
        Compiled {
            uses_old: program.as_ref().is_ok_and(|program| program.uses("oldSelf")),
            program,
            message,
            optional_old,
            reason: reason(rule),
            detail: if said.is_empty() { format!("failed rule: {title}") } else { said.to_owned() },
            title: title.to_owned(),
            field: path::written(&rule.field_path, raw),
        }
    }
}

fn reason(rule: &ValidationRule) -> Reason {
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => Reason::Forbidden,
        Some("FieldValueRequired") => Reason::Required,
        Some("FieldValueDuplicate") => Reason::Duplicate,
        _ => Reason::Invalid,
    }
}

/// What rules of a schema see; resources show their metadata.
fn shape(raw: &Value, schema: &Schema, root: bool) -> Option<Arc<DeclaredType>> {
    if schema.rules.is_empty() {
        None
    } else {
        DeclaredType::from_schema(raw, root || schema.embedded)
    }
}

fn additional(schema: &Schema) -> Option<&Schema> {
    match &schema.additional {
        Additional::Schema(schema) => Some(schema),
        Additional::Unsaid | Additional::Bool(_) => None,
    }
}
