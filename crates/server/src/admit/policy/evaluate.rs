//! Runs the expressions of a policy on one request. Who is told, and how, is decided beside this.

use std::sync::Arc;

use tenure_cel::{
    AccessCheck, AccessCheckBuilder, Authorize, Bindings, CostBudget, EvalError, EvalErrorKind,
    MATCH_COST_MAX, MapValue, Value,
};
use tenure_machinery::Object;

use super::compile::{
    ANY, AUTHORIZER, CompiledPolicy, Expression, NAMESPACE, REQUEST, REQUEST_RESOURCE, Validation,
    uses_authorizer,
};

/// The longest message that an expression may compute, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// The longest value of an annotation, in bytes.
const ANNOTATION_BYTES_MAX: usize = 10 * 1024;
/// What a run pays that costs nothing by itself: starting it takes time.
const RUN_COST: u64 = 4;
/// What a run in haste may cost: about a millisecond.
const HASTY_COST_MAX: u64 = 20_000;
/// How many checks of rights a run in haste makes: what they count for fits into every budget.
const HASTY_CHECKS_MAX: u64 = 6;

/// What expressions see.
#[derive(Clone, Copy)]
pub(in crate::admit) struct EvaluationContext<'a> {
    pub(in crate::admit) new: Option<&'a Object>,
    pub(in crate::admit) old: Option<&'a Object>,
    pub(in crate::admit) request: &'a Object,
    pub(in crate::admit) namespace: Option<&'a Object>,
    pub(in crate::admit) params: Option<&'a Object>,
    pub(in crate::admit) rights: AuthorizerContext<'a>,
}

/// Who answers what the user may do, and what the request is about.
#[derive(Clone, Copy)]
pub(in crate::admit) struct AuthorizerContext<'a> {
    pub(in crate::admit) authorizer: &'a dyn Authorize,
    pub(in crate::admit) request: &'a Arc<AccessCheck>,
}

/// What a policy has to say against a request.
#[derive(Default)]
pub(super) struct PolicyVerdict {
    pub(super) denials: Vec<Denial>,
    /// What belongs into the audit log, by key.
    pub(super) annotations: Vec<(String, String)>,
}

/// One thing that does not hold.
pub(super) struct Denial {
    /// Its place among the validations.
    pub(super) index: usize,
    pub(super) message: String,
    pub(super) reason: &'static str,
    pub(super) code: u16,
    /// Whether it denies whatever the binding says: an annotation that cannot be computed.
    pub(super) always: bool,
}

/// The run would take long: do it again with time.
pub(in crate::admit) struct BudgetExceeded;

/// How much time there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::admit) enum EvaluationMode {
    Hasty,
    WithTime,
}

/// Runs a policy.
pub(super) fn evaluate(
    policy: &CompiledPolicy,
    seen: EvaluationContext<'_>,
    pace: EvaluationMode,
) -> Result<PolicyVerdict, BudgetExceeded> {
    let mut verdict = PolicyVerdict::default();
    let failed = |message: String| (!policy.ignores_failures).then(|| Denial::of(0, message));
    if let Some(fault) = &policy.fault {
        verdict.denials.extend(failed(fault.clone()));
        return Ok(verdict);
    }
    let mut run = PolicyEvaluation::new(policy, seen, pace);
    match run.conditions()? {
        Ok(true) => {}
        Ok(false) => return Ok(verdict),
        Err(message) => {
            verdict.denials.extend(failed(message));
            return Ok(verdict);
        }
    }
    for (index, validation) in policy.validations.iter().enumerate() {
        match run.validation(validation)? {
            Ok(None) => {}
            Ok(Some(message)) => verdict.denials.push(Denial {
                reason: validation.reason,
                code: validation.code,
                ..Denial::of(index, message)
            }),
            Err(error) => {
                let message = describe_error(&validation.expression, &error);
                let denial = failed(message).map(|denial| Denial { index, ..denial });
                verdict.denials.extend(denial);
                if run.budget.remaining() == 0 {
                    return Ok(verdict);
                }
            }
        }
    }
    for (key, expression) in &policy.annotations {
        match run.run(expression)? {
            Ok(value) => {
                let text = value.as_str().unwrap_or_default().trim();
                if !text.is_empty() {
                    let end = text.floor_char_boundary(ANNOTATION_BYTES_MAX);
                    let text = text.get(..end).unwrap_or_default();
                    verdict.annotations.push((key.clone(), text.to_owned()));
                }
            }
            Err(error) => {
                let denial = failed(describe_error(expression, &error));
                verdict.denials.extend(denial.map(|denial| Denial { always: true, ..denial }));
            }
        }
    }
    Ok(verdict)
}

/// Whether the conditions of a policy let it look at the request; or why that cannot be said.
pub(in crate::admit) fn conditions_hold(
    policy: &CompiledPolicy,
    seen: EvaluationContext<'_>,
    pace: EvaluationMode,
) -> Result<Result<bool, String>, BudgetExceeded> {
    match &policy.fault {
        Some(_) if policy.ignores_failures => Ok(Ok(false)),
        Some(fault) => Ok(Err(fault.clone())),
        None => PolicyEvaluation::new(policy, seen, pace).conditions(),
    }
}

/// The patch that an expression makes, as JSON; or why it makes none.
pub(super) fn patch_of(
    policy: &CompiledPolicy,
    expression: &Expression,
    seen: EvaluationContext<'_>,
    pace: EvaluationMode,
) -> Result<Result<serde_json::Value, String>, BudgetExceeded> {
    let mut run = PolicyEvaluation::new(policy, seen, pace);
    let made = match run.run(expression)? {
        Ok(value) => value.to_json(&mut run.budget),
        Err(error) => Err(error),
    };
    match made {
        Err(error) if run.is_in_haste(&error) => Err(BudgetExceeded),
        made => Ok(made.map_err(|error| describe_error(expression, &error))),
    }
}

impl Denial {
    fn of(index: usize, message: String) -> Denial {
        Denial { index, message, reason: "Invalid", code: 422, always: false }
    }
}

fn describe_error(expression: &Expression, error: &EvalError) -> String {
    format!("expression '{}' resulted in error: {error}", expression.text)
}

type ExpressionResult<'a> = Result<Value<'a>, EvalError>;

/// One policy, running.
struct PolicyEvaluation<'a> {
    policy: &'a CompiledPolicy,
    seen: EvaluationContext<'a>,
    budget: CostBudget,
    pace: EvaluationMode,
    /// Variables that were needed so far.
    variables: Vec<Option<ExpressionResult<'a>>>,
}

impl<'a> PolicyEvaluation<'a> {
    fn new(
        policy: &'a CompiledPolicy,
        seen: EvaluationContext<'a>,
        pace: EvaluationMode,
    ) -> PolicyEvaluation<'a> {
        let variables = policy.variables.iter().map(|_| None).collect();
        PolicyEvaluation { policy, seen, budget: budget(pace, None), pace, variables }
    }

    /// Whether the policy wants to look at the request at all.
    ///
    /// Conditions see no namespace, and one that is false outweighs others that fail.
    fn conditions(&mut self) -> Result<Result<bool, String>, BudgetExceeded> {
        if self.policy.conditions.is_empty() {
            return Ok(Ok(true));
        }
        let own = std::mem::replace(&mut self.budget, budget(self.pace, Some(MATCH_COST_MAX)));
        let namespace = self.seen.namespace.take();
        let mut faults = Vec::new();
        for condition in &self.policy.conditions {
            match self.run(condition)? {
                Ok(value) if value.as_bool() == Some(false) => return Ok(Ok(false)),
                Ok(_) => {}
                Err(error) => faults.push(describe_error(condition, &error)),
            }
        }
        (self.budget, self.seen.namespace) = (own, namespace);
        Ok(match faults.as_slice() {
            [] => Ok(true),
            _ if self.policy.ignores_failures => Ok(false),
            [one] => Err(one.clone()),
            _ => Err(format!("[{}]", faults.join(", "))),
        })
    }

    /// What is said against the request; nothing if the validation holds.
    fn validation(
        &mut self,
        validation: &'a Validation,
    ) -> Result<Result<Option<String>, EvalError>, BudgetExceeded> {
        match self.run(&validation.expression)? {
            Err(error) => return Ok(Err(error)),
            Ok(value) if value.as_bool() == Some(true) => return Ok(Ok(None)),
            Ok(_) => {}
        }
        let computed = match &validation.computed {
            None => None,
            Some(expression) => match self.run(expression)? {
                Err(error) if error.kind == EvalErrorKind::Overspent => return Ok(Err(error)),
                made => made.ok(),
            },
        };
        let text = computed.as_ref().and_then(Value::as_str).unwrap_or_default().trim();
        let fits = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        Ok(Ok(Some(if fits { text.to_owned() } else { validation.message.clone() })))
    }

    /// Runs one expression, after the variables that it needs.
    fn run(&mut self, expression: &'a Expression) -> Result<ExpressionResult<'a>, BudgetExceeded> {
        let policy = self.policy;
        // A variable names only those before it, so this ends; a chain of them may be long.
        let mut wanted = expression.needs.clone();
        while let Some(place) = wanted.last().copied() {
            let variable = policy.variables.get(place).filter(|_| !self.is_made(place));
            let Some(variable) = variable else {
                wanted.pop();
                continue;
            };
            let mut needs = variable.expression.needs.iter();
            if let Some(first) = needs.find(|place| !self.is_made(**place)) {
                wanted.push(*first);
                continue;
            }
            let made = self.alone(&variable.expression)?;
            if let Some(slot) = self.variables.get_mut(place) {
                *slot = Some(made);
            }
        }
        self.alone(expression)
    }

    fn is_made(&self, place: usize) -> bool {
        self.variables.get(place).is_some_and(Option::is_some)
    }

    /// Runs one expression whose variables are there.
    fn alone(
        &mut self,
        expression: &'a Expression,
    ) -> Result<ExpressionResult<'a>, BudgetExceeded> {
        let mut bindings = self.bindings();
        if uses_authorizer(&expression.program) {
            let AuthorizerContext { authorizer, request } = self.seen.rights;
            bindings = bindings
                .bind(AUTHORIZER, Value::Access(AccessCheckBuilder::new(authorizer)))
                .bind(REQUEST_RESOURCE, Value::Access(AccessCheckBuilder::of(authorizer, request)));
        }
        for place in &expression.needs {
            let variable = self.policy.variables.get(*place);
            if let (Some(variable), Some(Some(made))) = (variable, self.variables.get(*place)) {
                bindings = bindings.bind_made(&variable.name, made.clone());
            }
        }
        let before = self.budget.remaining();
        let made = expression.program.eval(&bindings, &mut self.budget);
        if self.budget.remaining() == before {
            self.budget.spend(RUN_COST);
        }
        match &made {
            Err(error) if self.is_in_haste(error) => Err(BudgetExceeded),
            _ if self.pace == EvaluationMode::Hasty && self.budget.remaining() == 0 => {
                Err(BudgetExceeded)
            }
            _ => Ok(made),
        }
    }

    /// Whether something only failed for want of time.
    fn is_in_haste(&self, error: &EvalError) -> bool {
        self.pace == EvaluationMode::Hasty && error.kind == EvalErrorKind::Overspent
    }

    fn bindings(&self) -> Bindings<'a> {
        let data = |object: Option<&'a Object>| {
            object.map_or(Value::Null, |object| Value::Map(MapValue::Json(object, &ANY)))
        };
        let namespace = self.seen.namespace;
        let namespace =
            namespace.map_or(Value::Null, |namespace| Value::Object(namespace, &NAMESPACE));
        Bindings::new()
            .bind("object", data(self.seen.new))
            .bind("oldObject", data(self.seen.old))
            .bind("request", Value::Object(self.seen.request, &REQUEST))
            .bind("namespaceObject", namespace)
            .bind("params", data(self.seen.params))
    }
}

fn budget(pace: EvaluationMode, most: Option<u64>) -> CostBudget {
    match (pace, most) {
        (EvaluationMode::Hasty, _) => CostBudget::hasty(HASTY_COST_MAX, HASTY_CHECKS_MAX),
        (EvaluationMode::WithTime, Some(most)) => CostBudget::new(most),
        (EvaluationMode::WithTime, None) => CostBudget::for_object(),
    }
}
