//! What must be known to keep grants in step with the old ones they are made from (M4), told change by change. The
//! watches are those of `live`; nothing is read or written here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tenure_reference::{Expressions, Resource, ServedType, Strategy, references_of};

use super::{
    Converted, InUse, MigrationContext, MigrationPlan, RemovalScope, SourceGrant, convert_all,
    finding, kinds,
};
use crate::names::{ObjectName, Reference};
use crate::served::active_version;

/// The namespace and name of an object.
type OriginKey = (String, String);

/// A type of origins, and the version at which it is read.
pub type Origins = (Resource, String);

/// Old grants, strategies, origins and the grants that are there.
pub struct Following {
    bundled: Vec<Strategy>,
    expressions: Arc<dyn Expressions + Send + Sync>,
    served: Vec<ServedType>,
    strategies: BTreeMap<String, Strategy>,
    sources: BTreeMap<OriginKey, Value>,
    grants: BTreeMap<OriginKey, Value>,
    readers: BTreeMap<Origins, Vec<Strategy>>,
    references: BTreeMap<Origins, BTreeMap<OriginKey, Vec<Reference>>>,
    in_use: InUse,
}

impl Following {
    /// Nothing is known yet. Bundled strategies say what references are for where none is in force.
    #[must_use]
    pub fn new(
        bundled: Vec<Strategy>,
        expressions: Arc<dyn Expressions + Send + Sync>,
    ) -> Following {
        Following {
            bundled,
            expressions,
            served: Vec::new(),
            strategies: BTreeMap::new(),
            sources: BTreeMap::new(),
            grants: BTreeMap::new(),
            readers: BTreeMap::new(),
            references: BTreeMap::new(),
            in_use: InUse::default(),
        }
    }

    /// What is served now.
    pub fn serve(&mut self, served: Vec<ServedType>) {
        self.served = served;
    }

    /// What is served, as it was told.
    #[must_use]
    pub fn served(&self) -> &[ServedType] {
        &self.served
    }

    /// A strategy as it now is; one that cannot be understood counts as gone.
    pub fn put_strategy(&mut self, object: &Value) {
        let (_, name) = place(object);
        match object.as_object().map(Strategy::from_object) {
            Some(Ok(strategy)) => drop(self.strategies.insert(name, strategy)),
            _ => drop(self.strategies.remove(&name)),
        }
    }

    /// A strategy is gone.
    pub fn remove_strategy(&mut self, name: &str) {
        self.strategies.remove(name);
    }

    /// An old grant as it now is.
    pub fn put_source(&mut self, object: Value) {
        self.sources.insert(place(&object), object);
    }

    /// An old grant is gone.
    pub fn remove_source(&mut self, namespace: &str, name: &str) {
        self.sources.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// A grant of this API as it now is.
    pub fn put_grant(&mut self, object: Value) {
        self.grants.insert(place(&object), object);
    }

    /// A grant of this API is gone.
    pub fn remove_grant(&mut self, namespace: &str, name: &str) {
        self.grants.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// An origin as it now is.
    pub fn put_origin(&mut self, of: &Origins, object: &Value) {
        let (namespace, name) = place(object);
        self.remove_origin(of, &namespace, &name);
        let origin = ObjectName::new(&of.0, &namespace, &name);
        let Some(strategies) = self.readers.get(of) else { return };
        let found =
            references_of(&self.served, strategies, &origin.as_obj(), object, &*self.expressions);
        let found: BTreeSet<Reference> = found
            .into_iter()
            .map(|found| Reference {
                origin: origin.clone(),
                target: ObjectName::new(found.target, &found.namespace, &found.name),
                purpose: found.purpose.to_owned(),
            })
            .filter(Reference::needs_grant)
            .collect();
        found.iter().for_each(|reference| self.in_use.add(reference));
        if !found.is_empty() {
            let origins = self.references.entry(of.clone()).or_default();
            origins.insert((namespace, name), found.into_iter().collect());
        }
    }

    /// An origin is gone.
    pub fn remove_origin(&mut self, of: &Origins, namespace: &str, name: &str) {
        let Some(origins) = self.references.get_mut(of) else { return };
        let gone = origins.remove(&(namespace.to_owned(), name.to_owned()));
        gone.iter().flatten().for_each(|reference| self.in_use.remove(reference));
    }

    /// A type of origins is no longer looked at.
    pub fn forget(&mut self, of: &Origins) {
        let gone = self.references.remove(of).unwrap_or_default();
        gone.values().flatten().for_each(|reference| self.in_use.remove(reference));
    }

    /// The types whose origins decide what an entry without a name comes to, each with the strategies that read
    /// it at that version. When these change, all its origins must be told again.
    pub fn origins(&mut self) -> &BTreeMap<Origins, Vec<Strategy>> {
        let sources = self.sources.values().filter_map(|object| SourceGrant::read(object).ok());
        let mut open: BTreeSet<Resource> = BTreeSet::new();
        for source in sources.filter(SourceGrant::is_open) {
            let kinds = source.from.iter();
            let known = kinds.filter_map(|it| kinds::resolve(&it.group, &it.kind, &self.served));
            open.extend(known.map(|it| it.resource));
        }
        let in_force: Vec<Strategy> = self.strategies.values().cloned().collect();
        let mut all: BTreeMap<Origins, Vec<Strategy>> = BTreeMap::new();
        for strategy in finding(&in_force, &self.bundled) {
            let version = active_version(&self.served, strategy);
            if let (Some(version), true) = (version, open.contains(&strategy.origin)) {
                let of = (strategy.origin.clone(), version.clone());
                all.entry(of).or_default().push(strategy.clone());
            }
        }
        self.readers = all;
        &self.readers
    }

    /// What has to be done, and what there is to say about each source.
    #[must_use]
    pub fn plan(&self) -> (MigrationPlan, Vec<(String, Converted)>) {
        let strategies: Vec<Strategy> = self.strategies.values().cloned().collect();
        let facts = MigrationContext {
            served: &self.served,
            strategies: &strategies,
            bundled: &self.bundled,
            in_use: Some(&self.in_use),
        };
        let sources = convert_all(self.sources.values(), &facts);
        (MigrationPlan::new(&sources, self.grants.values(), RemovalScope::Cluster), sources)
    }
}

fn place(object: &Value) -> OriginKey {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}
