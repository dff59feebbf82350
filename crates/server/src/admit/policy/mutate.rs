//! MutatingAdmissionPolicies: one round of asking those that apply, each about what those before it left (R161,
//! R164a).

use std::sync::Arc;

use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::{Failure, Object, ObjectExt};

use super::cases::{Case, cases};
use super::compile::CompiledPolicy;
use super::evaluate::{
    BudgetExceeded, EvaluationContext, EvaluationMode, conditions_hold, patch_of,
};
use super::patch::{MutationError, apply};
use super::subject::{AdmissionAttributes, AdmissionRequest};
use super::validate::unfinished;
use crate::admit::reinvocation::Reinvocation;
use crate::admit::shown::ShownObject;
use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// What came of a policy.
enum MutationOutcome {
    /// It does not look at the request.
    Passed,
    /// It cannot be said whether it wants to.
    Undecided(String),
    /// It was asked.
    Evaluated {
        /// What it sees of the object as it left that, if it changed something.
        changed: Option<Changed>,
        /// Which mutations failed.
        errors: Vec<String>,
    },
}

/// What a policy made of what it sees, and in which form it sees the object.
type Changed = (Object, ShownObject);

/// Asks the policies that change what is written, one after the other. `object` is what is written.
///
/// # Errors
/// One of them failed and is not passed over; all such are told.
pub(in crate::admit) async fn mutate(
    api: &ApiServer,
    request: &ResourceRequest,
    subject: AdmissionAttributes<'_>,
    object: &mut Object,
    rounds: &mut Reinvocation,
) -> Result<(), Failure> {
    let policies = &api.admission.policies;
    if !policies.may_change(subject.operation, request) {
        return Ok(());
    }
    // Which policies apply is decided on the object as the round found it.
    let cases = {
        let subject = AdmissionAttributes { new: Some(object), ..subject };
        cases(api, &policies.mutating, &AdmissionRequest::new(api, request, &subject))
    };
    rounds.begin(object);
    let mut refusals = PolicyRefusals::default();
    let mut changed_any = false;
    for mut case in cases {
        case.convert_params(api).await;
        let case = Arc::new(case);
        let count = match &case.params {
            Ok(params) => params.len(),
            Err(why) => {
                refusals.add(&case, &format!("failed to configure binding: {why}"), "Forbidden");
                continue;
            }
        };
        for which in 0..count {
            let who = case.identity(which);
            if !rounds.invokes(&who) {
                continue;
            }
            let subject = AdmissionAttributes { new: Some(object), ..subject };
            match ask(api, request, &subject, &case, which).await? {
                MutationOutcome::Passed => {}
                MutationOutcome::Undecided(why) => refusals.add(&case, &why, "Invalid"),
                MutationOutcome::Evaluated { changed, errors } => {
                    for why in errors {
                        refusals.add(&case, &why, "Invalid");
                    }
                    let changed = match changed {
                        Some((changed, shown)) => {
                            let user = &request.user.name;
                            Some(shown.restore(api, user, changed, object).await?)
                        }
                        None => None,
                    };
                    let changed = changed.filter(|changed| changed != object);
                    rounds.note(&who, case.policy().reinvoked, changed.is_some());
                    if let Some(changed) = changed {
                        *object = changed;
                        changed_any = true;
                    }
                }
            }
        }
    }
    if changed_any {
        // Upstream asks all of them again, the last that changed something included.
        rounds.outdate();
    }
    rounds.end(object);
    if refusals.0.is_empty() {
        return Ok(());
    }
    let subject = AdmissionAttributes { new: Some(object), ..subject };
    Err(refusals.failure(&AdmissionRequest::new(api, request, &subject)))
}

/// Asks one policy, with one of its parameters; in haste first, with time on a thread that may be kept. What
/// it looks at in another version is converted first.
async fn ask(
    api: &ApiServer,
    request: &ResourceRequest,
    subject: &AdmissionAttributes<'_>,
    case: &Arc<Case>,
    which: usize,
) -> Result<MutationOutcome, Failure> {
    let mut requested = AdmissionRequest::new(api, request, subject);
    requested.convert_to(api, &request.user.name, case.place).await?;
    let consultation = &request.consultation;
    consultation.forget();
    let mut round = 0;
    loop {
        let outcome = match case.mutate(which, &requested, EvaluationMode::Hasty) {
            Ok(outcome) => outcome,
            Err(BudgetExceeded) => {
                let (owned, case) = (requested.into_owned(), Arc::clone(case));
                let work = move || {
                    let outcome = case.mutate(which, &owned, EvaluationMode::WithTime);
                    (owned, outcome)
                };
                let (owned, outcome) = Box::pin(api.offload.run(&request.user, work)).await?;
                requested = owned;
                outcome.map_err(unfinished)?
            }
        };
        if !consultation.goes_on(&mut round).await? {
            return outcome;
        }
    }
}

impl Case {
    /// One of its parameters; a policy without any has one that is nothing.
    fn param(&self, which: usize) -> Option<&Object> {
        self.params.as_ref().ok()?.get(which)?.as_ref()
    }

    /// What tells it from others in the second round.
    fn identity(&self, which: usize) -> String {
        let param = self.param(which);
        let (namespace, name) = param.map_or(("", ""), |param| (param.namespace(), param.name()));
        format!("{}/{}/{namespace}/{name}", self.policy().name, self.binding().name)
    }

    /// Makes all mutations of the policy, each of what the one before it left.
    fn mutate(
        &self,
        which: usize,
        requested: &AdmissionRequest<'_>,
        pace: EvaluationMode,
    ) -> Result<Result<MutationOutcome, Failure>, BudgetExceeded> {
        let policy: &CompiledPolicy = self.policy();
        let looked_at = requested.at(self.place);
        let context = EvaluationContext { params: self.param(which), ..looked_at.seen() };
        let (Some(shown), Some(seen)) = (requested.shown(self.place), context.new) else {
            return Ok(Ok(MutationOutcome::Passed));
        };
        match conditions_hold(policy, context, pace)? {
            Ok(true) => {}
            Ok(false) => return Ok(Ok(MutationOutcome::Passed)),
            Err(why) => return Ok(Ok(MutationOutcome::Undecided(why))),
        }
        let mut changed: Option<Object> = None;
        let mut errors = Vec::new();
        for mutation in &policy.mutations {
            let seen = changed.as_ref().unwrap_or(seen);
            let context = EvaluationContext { new: Some(seen), ..context };
            let made = match patch_of(policy, &mutation.expression, context, pace)? {
                Ok(made) => apply(mutation.patch, made, seen, &shown),
                Err(why) => Err(MutationError::Policy(why)),
            };
            match made {
                Ok(made) => changed = made.or(changed),
                Err(MutationError::Policy(why)) => errors.push(why),
                Err(MutationError::Request(failure)) => return Ok(Err(failure)),
            }
        }
        // What came to nothing is not brought back, which may lose something on the way.
        let changed = changed.filter(|changed| changed != seen).map(|changed| (changed, shown));
        Ok(Ok(MutationOutcome::Evaluated { changed, errors }))
    }
}

/// What went wrong with policies that are not passed over.
#[derive(Default)]
struct PolicyRefusals(Vec<(String, &'static str)>);

impl PolicyRefusals {
    fn add(&mut self, case: &Case, why: &str, reason: &'static str) {
        let policy = case.policy();
        if !policy.ignores_failures {
            let (name, binding) = (&policy.name, &case.binding().name);
            let reported =
                format!("policy '{name}' with binding '{binding}' denied request: {why}");
            self.0.push((reported, reason));
        }
    }

    /// 403 in the words of the first, with all of them as causes.
    fn failure(self, requested: &AdmissionRequest<'_>) -> Failure {
        let mut failure = requested.forbidden("");
        if let Some((message, reason)) = self.0.first() {
            failure.message.clone_from(message);
            failure.reason = (*reason).into();
        }
        let cause =
            |(message, _)| StatusCause { reason: String::new(), message, field: String::new() };
        let causes = self.0.into_iter().map(cause).collect();
        let details = failure.details.as_deref().cloned().unwrap_or_default();
        failure.with(Details { causes, ..details })
    }
}
