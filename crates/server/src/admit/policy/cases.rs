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
}

impl Case {
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
    asked: &AdmissionRequest<'_>,
) -> Vec<Case> {
    if asked.is_exempt() {
        return Vec::new();
    }
    let state = api.world.current();
    let registry = api.kinds.current();
    let mut cases = Vec::new();
    for bound in policies.current().iter() {
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
