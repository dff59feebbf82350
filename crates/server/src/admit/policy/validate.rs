//! What ValidatingAdmissionPolicies say about a request: a refusal, warnings, lines for the audit log.

use serde_json::{Value, json};
use tenure_machinery::Failure;
use tenure_machinery::status::{Details, StatusCause};

use super::bound::CompiledBinding;
use super::cases::{Case, cases};
use super::compile::CompiledPolicy;
use super::evaluate::{BudgetExceeded, Denial, EvaluationContext, EvaluationMode, evaluate};
use super::subject::{AdmissionAttributes, AdmissionRequest};
use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// Where the audit log says what did not hold.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";
/// How many failures one line of the audit log tells of.
const FAILURES_MAX: usize = 50;

/// What policies have to tell about a request that they let pass, or not.
#[derive(Default)]
struct PolicyOutcome {
    warnings: Vec<String>,
    annotations: Vec<(String, String)>,
    failures: Vec<Value>,
    refusal: Option<Failure>,
}

/// Refuses what a policy denies; tells the client and the audit log the rest.
///
/// # Errors
/// In the words of the policy, or why it could not be asked.
pub(crate) async fn enforce(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
) -> Result<(), Failure> {
    if api.admission.policies.validating.is_empty() {
        return Ok(());
    }
    let consultation = request.consultation.clone();
    consultation.forget();
    let mut round = 0;
    loop {
        let told = match judge(api, request, &subject, EvaluationMode::Hasty) {
            Ok(told) => Ok(told),
            Err(BudgetExceeded) => Box::pin(evaluate_offloaded(api, request, &subject)).await,
        };
        if !consultation.goes_on(&mut round).await? {
            return settle(request, told?);
        }
    }
}

/// As [`enforce`], for followers, which have no thread to wait on.
///
/// # Errors
/// As [`enforce`].
pub(crate) fn enforce_now(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
) -> Result<(), Failure> {
    if api.admission.policies.validating.is_empty() {
        return Ok(());
    }
    let judged = || judge(api, request, &subject, EvaluationMode::WithTime).map_err(unfinished);
    let told = request.consultation.settle_now(judged)?;
    settle(request, told)
}

fn settle(request: &mut ResourceRequest, told: PolicyOutcome) -> Result<(), Failure> {
    for warning in told.warnings {
        request.warn(warning);
    }
    request.annotations.extend(told.annotations);
    if !told.failures.is_empty() {
        let failures = Value::Array(told.failures).to_string();
        request.annotations.push((FAILURES.to_owned(), failures));
    }
    told.refusal.map_or(Ok(()), Err)
}

/// Judges on a thread that may be kept; this happens seldom, so that copies do not matter.
async fn evaluate_offloaded(
    api: &ApiServer,
    request: &ResourceRequest,
    subject: &AdmissionAttributes<'_>,
) -> Result<PolicyOutcome, Failure> {
    let asked = AdmissionRequest::new(api, request, subject);
    let cases = cases(api, &api.admission.policies.validating, &asked);
    let owned = asked.into_owned();
    let work = move || {
        let mut told = PolicyOutcome::default();
        let mut cases = cases.iter();
        cases
            .try_for_each(|case| case.judge(&owned, EvaluationMode::WithTime, &mut told))
            .map(|()| told)
    };
    api.aside.run(&request.user, work).await?.map_err(unfinished)
}

/// With time nothing is too long; whatever is must not pass for allowed.
pub(super) fn unfinished(_: BudgetExceeded) -> Failure {
    Failure::internal("a policy did not come to an end")
}

fn judge(
    api: &ApiServer,
    request: &ResourceRequest,
    subject: &AdmissionAttributes<'_>,
    pace: EvaluationMode,
) -> Result<PolicyOutcome, BudgetExceeded> {
    let asked = AdmissionRequest::new(api, request, subject);
    let mut told = PolicyOutcome::default();
    for case in cases(api, &api.admission.policies.validating, &asked) {
        case.judge(&asked, pace, &mut told)?;
    }
    Ok(told)
}

impl Case {
    fn judge(
        &self,
        asked: &AdmissionRequest<'_>,
        pace: EvaluationMode,
        told: &mut PolicyOutcome,
    ) -> Result<(), BudgetExceeded> {
        let (policy, binding) = (self.policy(), self.binding());
        let params = match &self.params {
            Ok(params) => params,
            Err(why) => {
                if !policy.ignores_failures {
                    let message = format!("failed to configure binding: {why}");
                    told.refuse(asked, policy, binding, &message, ("Invalid", 422));
                }
                return Ok(());
            }
        };
        let looked_at = asked.at(self.place);
        for params in params {
            let seen = EvaluationContext { params: params.as_ref(), ..looked_at.seen() };
            let verdict = evaluate(policy, seen, pace)?;
            for denial in &verdict.denials {
                told.denial(asked, policy, binding, denial);
            }
            for (key, value) in verdict.annotations {
                told.annotate(format!("{}/{key}", policy.name), value);
            }
        }
        Ok(())
    }
}

impl PolicyOutcome {
    fn denial(
        &mut self,
        asked: &AdmissionRequest<'_>,
        policy: &CompiledPolicy,
        binding: &CompiledBinding,
        denial: &Denial,
    ) {
        let (message, how) = (&denial.message, (denial.reason, denial.code));
        if denial.always {
            self.refuse(asked, policy, binding, message, how);
            return;
        }
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.refuse(asked, policy, binding, message, how),
                "Warn" => self.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                )),
                _ if self.failures.len() < FAILURES_MAX => self.failures.push(json!({
                    "message": message, "policy": policy.name, "binding": binding.name,
                    "expressionIndex": denial.index, "validationActions": binding.actions,
                })),
                _ => {}
            }
        }
    }

    /// Refuses, in the words of the first that does.
    fn refuse(
        &mut self,
        asked: &AdmissionRequest<'_>,
        policy: &CompiledPolicy,
        binding: &CompiledBinding,
        why: &str,
        (reason, code): (&'static str, u16),
    ) {
        if self.refusal.is_some() {
            return;
        }
        let message = format!(
            "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {why}",
            policy.name, binding.name
        );
        let mut failure = asked.forbidden(&message);
        failure.reason = reason.into();
        failure.code = code;
        let details = failure.details.as_deref().cloned().unwrap_or_default();
        let cause = StatusCause { reason: String::new(), message, field: String::new() };
        self.refusal = Some(failure.with(Details { causes: vec![cause], ..details }));
    }

    /// Several values of one key are told together, each once.
    fn annotate(&mut self, key: String, value: String) {
        match self.annotations.iter_mut().find(|(known, _)| *known == key) {
            None => self.annotations.push((key, value)),
            Some((_, values)) if values.split(", ").any(|known| known == value) => {}
            Some((_, values)) => {
                values.push_str(", ");
                values.push_str(&value);
            }
        }
    }
}
