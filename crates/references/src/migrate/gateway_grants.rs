//! Old grants honoured beside new ones while a migration goes on (M6): off unless a controller asks this way.
//!
//! Only for library checks. An old grant never lets anybody read an object through the API server.

use std::collections::BTreeMap;

use serde_json::Value;
use tenure_reference::{RefQuery, ServedType, UnmetCondition, Verdict};

use super::source::SourceGrant;
use crate::index::RefIndex;

/// ReferenceGrants of the Gateway API, as they are.
#[derive(Clone, Debug, Default)]
pub struct GatewayGrants {
    grants: BTreeMap<(String, String), SourceGrant>,
    served: Vec<ServedType>,
}

/// A verdict, and whether an old grant was needed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Honoured<'a> {
    /// What this API says.
    New(Verdict<'a>),
    /// This API says no for want of a grant, and an old one is there: its namespace and name.
    Old(&'a str, &'a str),
}

impl Honoured<'_> {
    /// Whether the reference may be followed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        match self {
            Honoured::New(verdict) => verdict.is_allowed(),
            Honoured::Old(..) => true,
        }
    }
}

impl GatewayGrants {
    /// None yet. What is served says which kinds resources are.
    #[must_use]
    pub fn new(served: Vec<ServedType>) -> GatewayGrants {
        GatewayGrants { grants: BTreeMap::new(), served }
    }

    /// An old grant as it now is; one that cannot be read counts as gone.
    pub fn put(&mut self, object: &Value) {
        self.remove(object);
        if let Ok(grant) = SourceGrant::read(object) {
            self.grants.insert((grant.namespace.clone(), grant.name.clone()), grant);
        }
    }

    /// An old grant is gone.
    pub fn remove(&mut self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let namespace = text("/metadata/namespace").unwrap_or("default").to_owned();
        let name = text("/metadata/name").unwrap_or_default().to_owned();
        self.grants.remove(&(namespace, name));
    }

    /// As [`RefIndex::check`]; where only a grant is missing, an old one does as well.
    #[must_use]
    pub fn check<'a>(&'a self, index: &'a RefIndex, query: &RefQuery<'_>) -> Honoured<'a> {
        let verdict = index.check(query);
        let wants_grant = match &verdict {
            Verdict::NotPermitted(why) => why.code == UnmetCondition::Grant,
            _ => false,
        };
        if !wants_grant {
            return Honoured::New(verdict);
        }
        let kind = |group: &str, resource: &str| {
            let is = |row: &&ServedType| {
                row.resource.group == group && row.resource.resource == resource
            };
            self.served.iter().find(is).map_or("", |row| row.kind.as_str())
        };
        let (origin, target) = (&query.origin, &query.target);
        let from = (origin.group, kind(origin.group, origin.resource), origin.namespace);
        let to = (target.group, kind(target.group, target.resource), target.namespace, target.name);
        let old = self.grants.values().find(|grant| grant.allows(from, to));
        match old {
            Some(grant) => Honoured::Old(&grant.namespace, &grant.name),
            None => Honoured::New(verdict),
        }
    }
}
