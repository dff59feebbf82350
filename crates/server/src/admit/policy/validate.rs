//! What ValidatingAdmissionPolicies say about a request: a refusal, warnings, lines for the audit log.

use std::sync::Arc;

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
    let reported = Box::pin(ask(api, request, &subject)).await?;
    settle(request, reported)
}

/// Asks every policy that applies; what is looked at in another version is converted first.
async fn ask(
    api: &ApiServer,
    request: &ResourceRequest,
    subject: &AdmissionAttributes<'_>,
) -> Result<PolicyOutcome, Failure> {
    let mut requested = AdmissionRequest::new(api, request, subject);
    let mut cases = cases(api, &api.admission.policies.validating, &requested);
    for case in &mut cases {
        requested.convert_to(api, &request.user.name, case.place).await?;
        case.convert_params(api).await;
    }
    let cases = Arc::new(cases);
    let consultation = &request.consultation;
    consultation.forget();
    let mut round = 0;
    loop {
        let reported = match judge(&requested, &cases, EvaluationMode::Hasty) {
            Ok(reported) => reported,
            Err(BudgetExceeded) => {
                // This happens seldom, so that copies do not matter.
                let (owned, cases) = (requested.into_owned(), Arc::clone(&cases));
                let work = move || {
                    let reported = judge(&owned, &cases, EvaluationMode::WithTime);
                    (owned, reported)
                };
                let (owned, reported) = api.offload.run(&request.user, work).await?;
                requested = owned;
                reported.map_err(unfinished)?
            }
        };
        if !consultation.goes_on(&mut round).await? {
            return Ok(reported);
        }
    }
}

/// As [`enforce`], for followers, which have no thread to wait on. Whether somebody is left who has to be
/// asked by [`enforce`], because a webhook must be waited for first.
///
/// # Errors
/// As [`enforce`].
pub(crate) fn enforce_now(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
) -> Result<bool, Failure> {
    if api.admission.policies.validating.is_empty() {
        return Ok(false);
    }
    let (reported, waits) = {
        let requested = AdmissionRequest::new(api, request, &subject);
        let all = cases(api, &api.admission.policies.validating, &requested);
        let (later, now): (Vec<Case>, Vec<Case>) =
            all.into_iter().partition(|case| case.waits(&requested));
        let judged = || judge(&requested, &now, EvaluationMode::WithTime).map_err(unfinished);
        (request.consultation.settle_now(judged)?, !later.is_empty())
    };
    settle(request, reported)?;
    Ok(waits)
}

fn settle(request: &mut ResourceRequest, reported: PolicyOutcome) -> Result<(), Failure> {
    for warning in reported.warnings {
        request.warn(warning);
    }
    request.annotations.extend(reported.annotations);
    if !reported.failures.is_empty() {
        let failures = Value::Array(reported.failures).to_string();
        request.annotations.push((FAILURES.to_owned(), failures));
    }
    reported.refusal.map_or(Ok(()), Err)
}

/// With time nothing is too long; whatever is must not pass for allowed.
pub(super) fn unfinished(_: BudgetExceeded) -> Failure {
    Failure::internal("a policy did not come to an end")
}

fn judge(
    requested: &AdmissionRequest<'_>,
    cases: &[Case],
    pace: EvaluationMode,
) -> Result<PolicyOutcome, BudgetExceeded> {
    let mut reported = PolicyOutcome::default();
    for case in cases {
        case.judge(requested, pace, &mut reported)?;
    }
    Ok(reported)
}

impl Case {
    fn judge(
        &self,
        requested: &AdmissionRequest<'_>,
        pace: EvaluationMode,
        reported: &mut PolicyOutcome,
    ) -> Result<(), BudgetExceeded> {
        let (policy, binding) = (self.policy(), self.binding());
        let params = match &self.params {
            Ok(params) => params,
            Err(why) => {
                if !policy.ignores_failures {
                    let message = format!("failed to configure binding: {why}");
                    reported.refuse(requested, policy, binding, &message, ("Invalid", 422));
                }
                return Ok(());
            }
        };
        let looked_at = requested.at(self.place);
        for params in params {
            let seen = EvaluationContext { params: params.as_ref(), ..looked_at.seen() };
            let verdict = evaluate(policy, seen, pace)?;
            for denial in &verdict.denials {
                reported.denial(requested, policy, binding, denial);
            }
            for (key, value) in verdict.annotations {
                reported.annotate(format!("{}/{key}", policy.name), value);
            }
        }
        Ok(())
    }
}

impl PolicyOutcome {
    fn denial(
        &mut self,
        requested: &AdmissionRequest<'_>,
        policy: &CompiledPolicy,
        binding: &CompiledBinding,
        denial: &Denial,
    ) {
        let (message, how) = (&denial.message, (denial.reason, denial.code));
        if denial.always {
            self.refuse(requested, policy, binding, message, how);
            return;
        }
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.refuse(requested, policy, binding, message, how),
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
        requested: &AdmissionRequest<'_>,
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
        let mut failure = requested.forbidden(&message);
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
