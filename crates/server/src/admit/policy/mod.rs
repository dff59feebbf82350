//! ValidatingAdmissionPolicies: what users forbid, in expressions (spec/downward-api.md R59).
//!
//! ```text
//!   commit of a policy or binding ──► Feed ──► Policies (replaced whole; compiled when first needed)
//!   write ──► matching ──► parameters ──► evaluate ──► refusal, warnings, lines for the audit log
//! ```
//!
//! The language lives in crate `cel`. Reviews are not looked at: they write nothing.

mod authorize;
mod check;
pub(in crate::admit) mod compile;
pub(in crate::admit) mod evaluate;
pub(in crate::admit) mod matching;
mod proxied;
pub(in crate::admit) mod subject;

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use tenure_core::selector::LabelSelector;
use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::validate::text;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Change, LockStep, Record, World};

pub(super) use authorize::may_read_parameters;
pub(super) use check::check;
pub(crate) use proxied::proxied_path;
pub(crate) use subject::AdmissionAttributes;

use crate::api::ApiServer;
use crate::registry::{Registry, ServedKind};
use crate::request::ResourceRequest;
use compile::CompiledPolicy;
use evaluate::{BudgetExceeded, Denial, EvaluationContext, EvaluationMode, evaluate};
use matching::Matching;
use subject::AdmissionRequest;

const POLICIES: &str = "/registry/validatingadmissionpolicies/";
const BINDINGS: &str = "/registry/validatingadmissionpolicybindings/";
/// Where the audit log says what did not hold.
const FAILURES: &str = "validation.policy.admission.k8s.io/validation_failure";
/// How many failures one line of the audit log tells of.
const FAILURES_MAX: usize = 50;

/// The policies that are bound, as they are now.
#[derive(Default)]
pub(crate) struct AdmissionPolicies {
    current: ArcSwap<Vec<Arc<BoundPolicy>>>,
}

/// A policy with its bindings.
struct BoundPolicy {
    policy: LazyRecord<CompiledPolicy>,
    bindings: Vec<Arc<LazyRecord<CompiledBinding>>>,
}

/// A stored object, and what is made of it when it is first needed: the thread that commits must not
/// wait for a compiler.
pub(in crate::admit) struct LazyRecord<T> {
    record: Arc<Record>,
    made: OnceLock<T>,
}

impl<T> LazyRecord<T> {
    pub(in crate::admit) fn new(record: &Arc<Record>) -> LazyRecord<T> {
        LazyRecord { record: Arc::clone(record), made: OnceLock::new() }
    }

    pub(in crate::admit) fn get(&self, make: impl FnOnce(&Object) -> T) -> &T {
        self.made.get_or_init(|| make(&read(&self.record)))
    }

    /// Whether it was made of this very state of the object.
    pub(in crate::admit) fn is_of(&self, record: &Record) -> bool {
        self.record.revision() == record.revision() && self.record.key() == record.key()
    }
}

fn read(record: &Record) -> Object {
    serde_json::from_slice(record.bytes()).unwrap_or_default()
}

/// A binding, ready to use.
struct CompiledBinding {
    name: String,
    matching: Matching,
    params: Option<Params>,
    actions: Vec<String>,
}

/// Which objects are the parameters of a policy.
struct Params {
    name: String,
    namespace: String,
    selector: LabelSelector,
    /// Whether a request is refused when there are none.
    required: bool,
}

impl CompiledBinding {
    fn new(object: &Object) -> CompiledBinding {
        let actions = object.list_at(&["spec", "validationActions"]).iter();
        CompiledBinding {
            name: object.name().to_owned(),
            matching: Matching::new(object.map_at(&["spec", "matchResources"])),
            params: object.map_at(&["spec", "paramRef"]).map(|params| Params {
                name: text(params, "name").to_owned(),
                namespace: text(params, "namespace").to_owned(),
                selector: matching::selector(params.map_at(&["selector"])),
                required: text(params, "parameterNotFoundAction") == "Deny",
            }),
            actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}

impl AdmissionPolicies {
    /// The index that must be handed to the world.
    #[must_use]
    pub(crate) fn feed(self: &Arc<AdmissionPolicies>) -> Box<dyn LockStep> {
        Box::new(PolicyUpdater { policies: Arc::clone(self) })
    }

    /// Whether no policy is bound, so that nobody has to look further.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.load().is_empty()
    }

    /// Takes over what a state holds; what did not change stays compiled.
    fn read(&self, world: &World) {
        let known = self.current.load_full();
        let bindings: Vec<(String, &Arc<Record>)> = world
            .range(BINDINGS, None)
            .map(|record| (text_at(record, &["spec", "policyName"]), record))
            .collect();
        let bound = world.range(POLICIES, None).filter_map(|record| {
            let bindings = bindings.iter().filter(|(name, _)| name == record.name());
            let bindings: Vec<&Arc<Record>> = bindings.map(|(_, record)| *record).collect();
            (!bindings.is_empty()).then(|| BoundPolicy::new(&known, record, &bindings))
        });
        self.current.store(Arc::new(bound.collect()));
    }
}

fn text_at(record: &Record, path: &[&str]) -> String {
    read(record).str_at(path).unwrap_or_default().to_owned()
}

impl BoundPolicy {
    fn new(
        known: &[Arc<BoundPolicy>],
        policy: &Arc<Record>,
        bindings: &[&Arc<Record>],
    ) -> Arc<BoundPolicy> {
        let unchanged = |bound: &&Arc<BoundPolicy>| {
            let own = bound.bindings.iter();
            bound.policy.is_of(policy)
                && own.len() == bindings.len()
                && own.zip(bindings).all(|(own, other)| own.is_of(other))
        };
        known.iter().find(unchanged).cloned().unwrap_or_else(|| {
            let bindings = bindings.iter().map(|record| Arc::new(LazyRecord::new(record)));
            Arc::new(BoundPolicy { policy: LazyRecord::new(policy), bindings: bindings.collect() })
        })
    }
}

struct PolicyUpdater {
    policies: Arc<AdmissionPolicies>,
}

impl LockStep for PolicyUpdater {
    fn start(&mut self, world: &World) {
        self.policies.read(world);
    }

    fn apply(&mut self, world: &World, changes: &[Arc<Change>]) {
        let concerns = |key: &str| key.starts_with(POLICIES) || key.starts_with(BINDINGS);
        if changes.iter().any(|change| concerns(&change.key)) {
            self.policies.read(world);
        }
    }
}

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
    if api.admission.policies.is_empty() {
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
    if api.admission.policies.is_empty() {
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
    let cases = cases(api, &asked);
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
fn unfinished(_: BudgetExceeded) -> Failure {
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
    for case in cases(api, &asked) {
        case.judge(&asked, pace, &mut told)?;
    }
    Ok(told)
}

/// A policy that applies under one of its bindings.
struct Case {
    bound: Arc<BoundPolicy>,
    binding: Arc<LazyRecord<CompiledBinding>>,
    /// Under which of its names the resource is looked at.
    place: usize,
    params: Result<Vec<Option<Object>>, String>,
}

/// What applies to a request, in the order of names.
fn cases(api: &ApiServer, asked: &AdmissionRequest<'_>) -> Vec<Case> {
    if asked.is_exempt() {
        return Vec::new();
    }
    let state = api.world.current();
    let registry = api.kinds.current();
    let mut cases = Vec::new();
    for bound in api.admission.policies.current.load().iter() {
        let policy = bound.policy.get(CompiledPolicy::new);
        let Some(place) = asked.place(&policy.matching) else { continue };
        for source in &bound.bindings {
            let binding = source.get(CompiledBinding::new);
            if asked.place(&binding.matching).is_some() {
                let params = params(&state, &registry, policy, binding, asked.namespace());
                let (bound, binding) = (Arc::clone(bound), Arc::clone(source));
                cases.push(Case { bound, binding, place, params });
            }
        }
    }
    cases
}

/// The parameters of a policy under a binding; a policy without any runs once.
fn params(
    state: &World,
    registry: &Registry,
    policy: &CompiledPolicy,
    binding: &CompiledBinding,
    namespace: &str,
) -> Result<Vec<Option<Object>>, String> {
    let (Some((version, kind)), Some(wanted)) = (&policy.param_kind, &binding.params) else {
        return Ok(vec![None]);
    };
    let known = |served: &&Arc<ServedKind>| {
        served.api_version == *version && served.kind.kind == kind.as_str()
    };
    let served = registry.kinds().iter().find(known);
    let served =
        served.ok_or_else(|| format!("paramKind kind `{version}, Kind={kind}` not known"))?;
    let namespace = match (served.kind.namespaced, wanted.namespace.as_str(), namespace) {
        (false, "", _) => "",
        (false, _, _) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(why.to_owned());
        }
        (true, "", "") => {
            let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "", own) => own,
        (true, given, _) => given,
    };
    let read = |record: &Arc<Record>| served.read(record).ok().map(Some);
    let found: Vec<Option<Object>> = if wanted.name.is_empty() {
        let place = served.collection(namespace);
        let all = state.range(&place, None);
        let all = all.filter(|record| wanted.selector.matches(|key| record.label(key)));
        all.filter_map(read).collect()
    } else {
        state.get(&served.key(namespace, &wanted.name)).and_then(read).into_iter().collect()
    };
    if found.is_empty() && wanted.required {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(why.to_owned());
    }
    Ok(found)
}

impl Case {
    fn judge(
        &self,
        asked: &AdmissionRequest<'_>,
        pace: EvaluationMode,
        told: &mut PolicyOutcome,
    ) -> Result<(), BudgetExceeded> {
        let policy = self.bound.policy.get(CompiledPolicy::new);
        let binding = self.binding.get(CompiledBinding::new);
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
