//! Which policies apply to a request, under which of their bindings, and with which parameters.

use std::sync::Arc;

use tenure_machinery::Object;
use tenure_world::{Record, World};

use super::bound::{BoundPolicies, BoundPolicy, CompiledBinding, LazyRecord};
use super::compile::CompiledPolicy;
use super::subject::AdmissionRequest;
use crate::api::ApiServer;
use crate::registry::{Registry, ServedKind};

/// A policy that applies under one of its bindings.
pub(super) struct Case {
    bound: Arc<BoundPolicy>,
    binding: Arc<LazyRecord<CompiledBinding>>,
    /// Under which of its names the resource is looked at.
    pub(super) place: usize,
    pub(super) params: Result<Vec<Option<Object>>, String>,
    /// Parameters that a webhook has to convert first.
    unread: UnreadParams,
}

/// Records of a kind that cannot be read before they are converted.
type UnreadParams = Vec<(Arc<ServedKind>, Arc<Record>)>;

impl Case {
    /// Whether a webhook has to be waited for before the policy can be asked.
    pub(super) fn waits(&self, requested: &AdmissionRequest<'_>) -> bool {
        requested.needs_conversion(self.place) || !self.unread.is_empty()
    }

    /// Has webhooks convert the parameters that need it; without them the policy is not configured.
    pub(super) async fn convert_params(&mut self, api: &ApiServer) {
        let unread = std::mem::take(&mut self.unread);
        let Some((served, _)) = unread.first().cloned() else { return };
        let records = unread.into_iter().map(|(_, record)| record).collect();
        // Every write asks for them, so they are shared like events.
        let converted = api.conversions.events(&served, records).await;
        let read = converted.and_then(|records| {
            records
                .iter()
                .map(|record| served.read(record).map(Some))
                .collect::<Result<Vec<_>, _>>()
        });
        match (&mut self.params, read) {
            (Ok(params), Ok(read)) => params.extend(read),
            (params, Err(failure)) => *params = Err(failure.message),
            (Err(_), Ok(_)) => {}
        }
    }

    pub(super) fn policy(&self) -> &CompiledPolicy {
        self.bound.policy.get(CompiledPolicy::new)
    }

    pub(super) fn binding(&self) -> &CompiledBinding {
        self.binding.get(CompiledBinding::new)
    }
}

/// What applies to a request, in the order of names.
pub(super) fn cases(
    api: &ApiServer,
    policies: &BoundPolicies,
    requested: &AdmissionRequest<'_>,
) -> Vec<Case> {
    if requested.is_exempt() {
        return Vec::new();
    }
    let state = api.world.current();
    let registry = api.kinds.current();
    let mut cases = Vec::new();
    for bound in policies.current().iter() {
        let policy = bound.policy.get(CompiledPolicy::new);
        let Some(place) = requested.place(&policy.matching) else { continue };
        for source in &bound.bindings {
            let binding = source.get(CompiledBinding::new);
            if requested.place(&binding.matching).is_some() {
                let params = params(&state, &registry, policy, binding, requested.namespace());
                let (params, unread) = match params {
                    Ok((params, unread)) => (Ok(params), unread),
                    Err(why) => (Err(why), Vec::new()),
                };
                let (bound, binding) = (Arc::clone(bound), Arc::clone(source));
                cases.push(Case { bound, binding, place, params, unread });
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
) -> Result<(Vec<Option<Object>>, UnreadParams), String> {
    let (Some((version, kind)), Some(wanted)) = (&policy.param_kind, &binding.params) else {
        return Ok((vec![None], Vec::new()));
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
    let place = served.collection(namespace);
    let found: Vec<&Arc<Record>> = if wanted.name.is_empty() {
        let all = state.range(&place, None);
        all.filter(|record| wanted.selector.matches(|key| record.label(key))).collect()
    } else {
        state.get(&served.key(namespace, &wanted.name)).into_iter().collect()
    };
    let (unread, here): (Vec<&Arc<Record>>, Vec<&Arc<Record>>) =
        found.into_iter().partition(|record| served.needs_conversion(record));
    let found: Vec<Option<Object>> =
        here.into_iter().filter_map(|record| served.read(record).ok().map(Some)).collect();
    let unread: UnreadParams =
        unread.into_iter().map(|record| (Arc::clone(served), Arc::clone(record))).collect();
    if found.is_empty() && unread.is_empty() && wanted.required {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(why.to_owned());
    }
    Ok((found, unread))
}
