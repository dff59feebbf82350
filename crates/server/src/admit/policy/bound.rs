//! Policies and their bindings as they are stored now, each compiled when it is first needed.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use serde_json::Value;
use tenure_core::selector::LabelSelector;
use tenure_machinery::validate::text;
use tenure_machinery::{Object, ObjectExt};
use tenure_world::{Change, Record, World};

use super::compile::CompiledPolicy;
use super::matching::{self, Matching};
use crate::admit::Operation;
use crate::request::ResourceRequest;

/// The policies of one kind that are bound, as they are now, in the order of their names.
pub(crate) struct BoundPolicies {
    policies: &'static str,
    bindings: &'static str,
    current: ArcSwap<Vec<Arc<BoundPolicy>>>,
}

/// A policy with its bindings.
pub(super) struct BoundPolicy {
    pub(super) policy: LazyRecord<CompiledPolicy>,
    pub(super) bindings: Vec<Arc<LazyRecord<CompiledBinding>>>,
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

pub(super) fn read(record: &Record) -> Object {
    serde_json::from_slice(record.bytes()).unwrap_or_default()
}

/// A binding, ready to use.
pub(super) struct CompiledBinding {
    pub(super) name: String,
    pub(super) matching: Matching,
    pub(super) params: Option<Params>,
    pub(super) actions: Vec<String>,
}

/// Which objects are the parameters of a policy.
pub(super) struct Params {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) selector: LabelSelector,
    /// Whether a request is refused when there are none.
    pub(super) required: bool,
}

impl CompiledBinding {
    pub(super) fn new(object: &Object) -> CompiledBinding {
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

impl BoundPolicies {
    /// Those that are stored under these prefixes.
    pub(super) fn new(policies: &'static str, bindings: &'static str) -> BoundPolicies {
        BoundPolicies { policies, bindings, current: ArcSwap::default() }
    }

    /// Whether no policy is bound, so that nobody has to look further.
    pub(crate) fn is_empty(&self) -> bool {
        self.current.load().is_empty()
    }

    pub(super) fn current(&self) -> Arc<Vec<Arc<BoundPolicy>>> {
        self.current.load_full()
    }

    /// Whether some policy may be about such a request.
    pub(super) fn may_concern(&self, operation: Operation, request: &ResourceRequest) -> bool {
        let (resource, subresource) = (&*request.served.kind.plural, &*request.subresource);
        self.current.load().iter().any(|bound| {
            let matching = &bound.policy.get(CompiledPolicy::new).matching;
            matching.may_concern(operation.verb(), resource, subresource)
        })
    }

    /// Takes over what a state holds, if these changes matter; what did not change stays compiled.
    pub(super) fn apply(&self, world: &World, changes: &[Arc<Change>]) {
        let concerns = |key: &str| key.starts_with(self.policies) || key.starts_with(self.bindings);
        if changes.iter().any(|change| concerns(&change.key)) {
            self.read(world);
        }
    }

    /// Takes over what a state holds.
    pub(super) fn read(&self, world: &World) {
        let known = self.current.load_full();
        let bindings: Vec<(String, &Arc<Record>)> = world
            .range(self.bindings, None)
            .map(|record| (text_at(record, &["spec", "policyName"]), record))
            .collect();
        let bound = world.range(self.policies, None).filter_map(|record| {
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
