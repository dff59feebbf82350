//! Runs compiled rules on an object and on its change.
//!
//! Object and rules are walked together, and all runs share one budget: when it is spent the object is
//! refused. What did not change is not blamed (R124).

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::Value;
use tenure_cel::{
    Bindings, CostBudget, DeclaredType, EvalError, EvalErrorKind, Program, Type, Value as CelValue,
};
use tenure_machinery::{Errors, Object, Path, Reason};
use tenure_structural::ratchet::Old;
use tenure_structural::{Evaluate, Schema};

use super::{Compiled, RuleNode};

/// How many causes one object may have; the rest would tell nobody anything.
const CAUSES_MAX: usize = 1_000;
/// The longest message that an expression may compute, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// How much of a value is shown in a cause, in characters.
const SHOWN_MAX: usize = 200;
/// What a run pays that costs nothing by itself: starting it takes time.
const RUN_COST: u64 = 4;
/// What a check in haste may cost: about a millisecond.
const HASTY_COST_MAX: u64 = 20_000;

impl Evaluate for RuleNode {
    fn evaluate(
        &self,
        schema: &Schema,
        object: &Object,
        old: Option<&Object>,
        errors: &mut Errors,
    ) {
        let budget = if errors.is_hasty() {
            CostBudget::new(HASTY_COST_MAX)
        } else {
            CostBudget::for_object()
        };
        let mut walk = RuleEvaluator { budget, errors };
        let seen = VisitedValue {
            data: Data::Object(object),
            old: old.map(|old| Old::of(old, schema)),
            unchanged: false,
        };
        // A walk that was stopped has said why.
        let _ = walk.node(self, seen, &Path::Root);
        if walk.budget.remaining() == 0 {
            walk.errors.give_up();
        }
    }
}

/// A value on the way through an object.
#[derive(Clone, Copy)]
struct VisitedValue<'a> {
    data: Data<'a>,
    old: Option<Old<'a>>,
    /// Whether it is part of something that did not change.
    unchanged: bool,
}

/// Whole objects are not wrapped in values, so that none has to be copied.
#[derive(Clone, Copy)]
enum Data<'a> {
    Object(&'a Object),
    Value(&'a Value),
}

impl<'a> Data<'a> {
    fn cel(self, shape: &'a Arc<DeclaredType>) -> Result<CelValue<'a>, EvalError> {
        match self {
            Data::Value(value) => CelValue::from_json(value, shape),
            Data::Object(object) => whole(object, shape),
        }
    }
}

fn whole<'a>(object: &'a Object, shape: &'a Arc<DeclaredType>) -> Result<CelValue<'a>, EvalError> {
    match shape.ty() {
        Type::Object(_) => Ok(CelValue::Object(object, shape)),
        _ => Err(EvalError {
            message: "the schema of the object is no object".to_owned(),
            kind: EvalErrorKind::Failed,
        }),
    }
}

struct RuleEvaluator<'e> {
    budget: CostBudget,
    errors: &'e mut Errors,
}

impl RuleEvaluator<'_> {
    fn node(
        &mut self,
        node: &RuleNode,
        mut seen: VisitedValue<'_>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        // What is part of something unchanged need not be compared again.
        seen.unchanged = seen.unchanged
            || seen.old.is_some_and(|old| match seen.data {
                Data::Object(object) => old.members_unchanged(object),
                Data::Value(value) => old.unchanged(value),
            });
        match seen.data {
            // Only a rule around a value can ask whether it is null.
            Data::Value(Value::Null) => ControlFlow::Continue(()),
            Data::Value(Value::Object(object)) | Data::Object(object) => {
                self.rules(node, seen, path)?;
                self.members(node, object, seen, path)
            }
            Data::Value(Value::Array(items)) => {
                self.rules(node, seen, path)?;
                self.items(node, items, seen, path)
            }
            Data::Value(_) => self.rules(node, seen, path),
        }
    }

    fn members(
        &mut self,
        node: &RuleNode,
        object: &Object,
        seen: VisitedValue<'_>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        let old = seen.old.filter(|_| node.members_correspond);
        for (name, value) in object {
            let below = VisitedValue {
                data: Data::Value(value),
                old: old.and_then(|old| old.member(name)),
                unchanged: seen.unchanged,
            };
            if let Some(property) = node.properties.get(name) {
                self.node(property, below, &path.field(name))?;
            } else if let Some(additional) = &node.additional {
                self.node(additional, below, &path.key(name))?;
            }
        }
        ControlFlow::Continue(())
    }

    fn items(
        &mut self,
        node: &RuleNode,
        items: &[Value],
        seen: VisitedValue<'_>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        let Some(item) = &node.items else { return ControlFlow::Continue(()) };
        let old = seen.old.and_then(Old::items);
        for (index, value) in items.iter().enumerate() {
            let below = VisitedValue {
                data: Data::Value(value),
                old: old.as_ref().and_then(|old| old.find(value)),
                unchanged: seen.unchanged,
            };
            self.node(item, below, &path.index(index))?;
        }
        ControlFlow::Continue(())
    }

    fn rules(
        &mut self,
        node: &RuleNode,
        seen: VisitedValue<'_>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        for rule in &node.rules {
            if self.errors.causes().len() >= CAUSES_MAX {
                return ControlFlow::Break(());
            }
            // An old value that is null is none.
            let old = seen.old.filter(|old| !old.value().is_some_and(Value::is_null));
            let applies =
                if rule.uses_old { old.is_some() || rule.optional_old } else { !seen.unchanged };
            if applies {
                self.rule(node, rule, seen.data, old, path)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn rule<'a>(
        &mut self,
        node: &'a RuleNode,
        rule: &Compiled,
        data: Data<'a>,
        old: Option<Old<'a>>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        let (program, shape) = match (&rule.program, &node.shape) {
            (Ok(program), Some(shape)) => (program, shape),
            (Err(error), _) => {
                self.fault(node, path, &format!("the rule cannot be compiled: {error}"));
                return ControlFlow::Continue(());
            }
            (Ok(_), None) => return ControlFlow::Continue(()),
        };
        let made =
            if rule.uses_old { bind(rule, data, old, shape) } else { bind_self(data, shape) };
        let answer = made.and_then(|bindings| self.run(program, &bindings));
        match answer {
            Ok(CelValue::Bool(true)) => ControlFlow::Continue(()),
            Ok(_) => self.refuse(node, rule, VisitedValue { data, old, unchanged: false }, path),
            Err(error) => {
                let spent = error.kind == EvalErrorKind::Overspent;
                let after = if spent { "; no further rules were run" } else { "" };
                self.fault(node, path, &format!("{error} in rule: {}{after}", rule.title));
                if spent { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        }
    }

    /// Runs an expression; none is free, or a long list with many rules would hold its thread.
    fn run<'a>(
        &mut self,
        program: &Program,
        bindings: &Bindings<'a>,
    ) -> Result<CelValue<'a>, EvalError> {
        let before = self.budget.remaining();
        if before == 0 {
            return Err(EvalError {
                message: "the cost budget of the object is spent".to_owned(),
                kind: EvalErrorKind::Overspent,
            });
        }
        let answer = program.eval(bindings, &mut self.budget);
        if self.budget.remaining() == before {
            self.budget.spend(RUN_COST);
        }
        answer
    }

    /// Tells that a rule failed, in its own words if it computes them.
    fn refuse(
        &mut self,
        node: &RuleNode,
        rule: &Compiled,
        seen: VisitedValue<'_>,
        path: &Path<'_>,
    ) -> ControlFlow<()> {
        let below;
        let path = if rule.field.is_empty() {
            path
        } else {
            below = path.field(&rule.field);
            &below
        };
        let detail = match self.message(node, rule, seen) {
            Ok(said) => said.unwrap_or_else(|| rule.detail.clone()),
            Err(spent) => {
                let why = format!("{spent} in a messageExpression; no further rules were run");
                self.fault(node, path, &why);
                return ControlFlow::Break(());
            }
        };
        let value = shown(seen.data);
        match (rule.reason, value) {
            (Reason::Required, _) => self.errors.required(path, &detail),
            (Reason::Forbidden, _) => self.errors.forbidden(path, &detail),
            (Reason::Duplicate, value) => self.errors.duplicate(path, value.unwrap_or_default()),
            (_, Some(value)) => self.errors.invalid(path, value, &detail),
            (_, None) => {
                self.errors.push(Reason::Invalid, path, format!("Invalid value: {detail}"));
            }
        }
        ControlFlow::Continue(())
    }

    /// The message that a rule computes; an expression that fails computes none.
    ///
    /// The error says that the budget is spent.
    fn message(
        &mut self,
        node: &RuleNode,
        rule: &Compiled,
        seen: VisitedValue<'_>,
    ) -> Result<Option<String>, EvalError> {
        let (Some(Ok(message)), Some(shape)) = (&rule.message, &node.shape) else {
            return Ok(None);
        };
        let made = bind(rule, seen.data, seen.old, shape);
        let said = match made.and_then(|bindings| self.run(message, &bindings)) {
            Err(error) if error.kind == EvalErrorKind::Overspent => return Err(error),
            said => said.ok(),
        };
        let text = said.as_ref().and_then(CelValue::as_str).unwrap_or_default().trim();
        let fits = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX;
        Ok((fits && !text.contains(['\n', '\r'])).then(|| text.to_owned()))
    }

    fn fault(&mut self, node: &RuleNode, path: &Path<'_>, why: &str) {
        self.errors.invalid(path, format_args!("{:?}", node.kind), why);
    }
}

/// Binds what a rule sees that does not look at the old value.
fn bind_self<'a>(data: Data<'a>, shape: &'a Arc<DeclaredType>) -> Result<Bindings<'a>, EvalError> {
    Ok(Bindings::new().bind("self", data.cel(shape)?).bind("oldSelf", CelValue::Null))
}

fn bind<'a>(
    rule: &Compiled,
    data: Data<'a>,
    old: Option<Old<'a>>,
    shape: &'a Arc<DeclaredType>,
) -> Result<Bindings<'a>, EvalError> {
    let bindings = Bindings::new().bind("self", data.cel(shape)?);
    let old = old.and_then(|old| match old.value() {
        Some(value) => Some(Data::Value(value)),
        None => old.object().map(Data::Object),
    });
    let old = old.map(|old| old.cel(shape));
    if rule.optional_old {
        let old = old.transpose()?.map(Arc::new);
        return Ok(bindings.bind("oldSelf", CelValue::Optional(old)));
    }
    // An old value that does not fit the schema of today matters only to rules that look at it.
    Ok(match old {
        Some(Ok(old)) => bindings.bind("oldSelf", old),
        Some(Err(error)) if rule.uses_old => return Err(error),
        Some(Err(_)) | None => bindings,
    })
}

/// A value in a cause; lists and objects are not repeated there.
fn shown(data: Data<'_>) -> Option<String> {
    match data {
        Data::Object(_) | Data::Value(Value::Array(_) | Value::Object(_)) => None,
        Data::Value(Value::String(text)) if text.chars().nth(SHOWN_MAX).is_some() => {
            let start: String = text.chars().take(SHOWN_MAX).collect();
            Some(format!("{:?}", format!("{start}…")))
        }
        Data::Value(value) => Some(value.to_string()),
    }
}
