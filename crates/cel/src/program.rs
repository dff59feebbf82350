//! Compiled expressions.

use std::fmt;
use std::sync::Arc;

use crate::check::check;
use crate::env::Env;
use crate::error::{CompileError, EvalError};
use crate::estimate::{Cost, estimate};
use crate::eval::Evaluator;
use crate::fold::fold;
use crate::meter::CostBudget;
use crate::node::TypedNode;
use crate::parse::parse;
use crate::types::Type;
use crate::value::Value;

/// A compiled and checked expression.
pub struct Program {
    node: TypedNode,
    variables: Vec<(Arc<str>, bool)>,
    cost: Cost,
}

/// What the variables of a run hold.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'a> {
    values: Vec<(&'a str, Result<Value<'a>, EvalError>)>,
}

impl<'a> Bindings<'a> {
    /// Nothing bound.
    #[must_use]
    pub fn new() -> Bindings<'a> {
        Bindings::default()
    }

    /// One more variable.
    #[must_use]
    pub fn bind(self, name: &'a str, value: Value<'a>) -> Bindings<'a> {
        self.bind_made(name, Ok(value))
    }

    /// One more variable, which an expression made or failed to make; a failure is that of whoever
    /// looks at the variable.
    #[must_use]
    pub fn bind_made(mut self, name: &'a str, made: Result<Value<'a>, EvalError>) -> Bindings<'a> {
        self.values.push((name, made));
        self
    }

    fn get(&self, name: &str) -> Option<&Result<Value<'a>, EvalError>> {
        self.values.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

/// Compiles an expression of any type.
///
/// # Errors
///
/// When it cannot be read, names what is not declared, or uses types that do not fit. The message
/// names each.
pub fn compile(expression: &str, env: &Env) -> Result<Program, CompileError> {
    let parsed = parse(expression)?;
    let checked = check(expression, &parsed, env)?;
    let cost = estimate(&checked.node, env);
    let mut node = checked.node;
    fold(&mut node);
    let names = env.variables.iter().map(|v| v.name.clone());
    let variables = names.zip(checked.used).collect();
    Ok(Program { node, variables, cost })
}

/// Compiles a rule, which must be true or false.
///
/// # Errors
///
/// As [`compile`], and when the expression is of another type.
pub fn compile_rule(expression: &str, env: &Env) -> Result<Program, CompileError> {
    let program = compile(expression, env)?;
    match program.result_type() {
        Type::Bool => Ok(program),
        other => Err(CompileError {
            message: format!("cel expression must evaluate to a bool, not to `{other}`"),
        }),
    }
}

/// Compiles a message expression, which must be text.
///
/// # Errors
///
/// As [`compile`], and when the expression is of another type.
pub fn compile_message(expression: &str, env: &Env) -> Result<Program, CompileError> {
    let program = compile(expression, env)?;
    match program.result_type() {
        Type::String => Ok(program),
        other => Err(CompileError {
            message: format!("messageExpression must evaluate to a string, not to `{other}`"),
        }),
    }
}

impl Program {
    /// Whether the expression names a variable.
    #[must_use]
    pub fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|(name, used)| *used && &**name == variable)
    }

    /// The type of the result.
    #[must_use]
    pub fn result_type(&self) -> &Type {
        &self.node.ty
    }

    /// What a run costs, from the limits of the schema.
    #[must_use]
    pub fn estimate(&self) -> Cost {
        self.cost
    }

    /// Runs the expression, at most at the cost of one call and of what is left of the budget.
    ///
    /// # Errors
    ///
    /// When the cost is spent, or when the expression fails on this data.
    pub fn eval<'a>(
        &self,
        bindings: &Bindings<'a>,
        budget: &mut CostBudget,
    ) -> Result<Value<'a>, EvalError> {
        let mut meter = budget.meter();
        let frame = self.variables.iter().map(|(name, _)| {
            let absent = || Err(EvalError::failed(format!("no such attribute: {name}")));
            bindings.get(name).cloned().unwrap_or_else(absent)
        });
        let frame = frame.collect();
        let made = Evaluator { frame, meter: &mut meter }.eval(&self.node);
        budget.settle(&meter);
        made
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("result", &self.node.ty)
            .field("variables", &self.variables)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(expression: &str, env: &Env, bindings: &Bindings<'_>) -> Result<i64, String> {
        let program = compile(expression, env).map_err(|error| error.message)?;
        match program.eval(bindings, &mut CostBudget::for_object()) {
            Ok(Value::Int(value)) => Ok(value),
            Ok(other) => Ok(i64::from(other.as_bool().unwrap_or_default())),
            Err(error) => Err(error.message),
        }
    }

    #[test]
    fn a_variable_may_have_a_dot_in_its_name() {
        let env = Env::new().with_type("v.a", Type::Int).with_type("v.b", Type::Int);
        let failed = Err(EvalError::failed("broken"));
        let bindings = Bindings::new().bind("v.a", Value::Int(1)).bind_made("v.b", failed);
        assert_eq!(value("v.a + 1", &env, &bindings), Ok(2));
        assert_eq!(value("has(v.a) && has(v.b)", &env, &bindings), Ok(1));
        // A failure is that of whoever looks.
        assert_eq!(value("true || v.b == 1", &env, &bindings), Ok(1));
        assert_eq!(value("v.b", &env, &bindings), Err("broken".to_owned()));
        assert!(value("v.c", &env, &bindings).unwrap_err().contains("undeclared reference to 'v'"));
        // What is nearer counts.
        let nearer = "[{'a': 5}].map(v, v.a)[0]";
        assert_eq!(value(nearer, &env, &bindings), Ok(5));
        let program = compile("v.a", &env).unwrap();
        assert!(program.uses("v.a") && !program.uses("v.b"));
    }
}
