//! Which types of objects the index is told of, and which of them are being told beside the commits.
//!
//! Commits look here whether a change concerns the index. Whoever changes what is here has the index locked first.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use tenure_reference::{Index, IndexEvent, Need, Origin, OriginName, Outputs, Resource, Synced};
use tenure_world::{Record, World};

use super::fill::Ongoing;
use crate::access::AuthorizerChain;
use crate::registry::{Registry, ServedKind, prefixes};

/// Up to so many origins are told within the commit.
const WITHIN_COMMIT: usize = 32;

/// A type whose objects are told at one version.
#[derive(Clone)]
pub(super) struct Fed {
    pub(super) resource: Resource,
    pub(super) version: String,
    pub(super) served: Arc<ServedKind>,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Feeds {
    /// The types, by where their objects are kept.
    fed: HashMap<String, Vec<Fed>>,
    /// Those that are being told beside the commits.
    ongoing: Vec<Arc<Ongoing>>,
}

impl Feeds {
    /// Whether a change of what is kept under a key is told.
    pub(super) fn concerns(&self, key: &str) -> bool {
        !self.fed.is_empty() && prefixes(key).any(|prefix| self.fed.contains_key(prefix))
    }

    /// Whether anything is being told beside the commits.
    pub(super) fn is_filling(&self) -> bool {
        self.ongoing.iter().any(|ongoing| !ongoing.is_ended())
    }

    /// The types and versions that an object is told as; who tells them beside the commits need not tell it.
    pub(super) fn changed(&self, key: &Arc<str>) -> impl Iterator<Item = &Fed> {
        let types = prefixes(key).find_map(|prefix| self.fed.get(prefix));
        types.into_iter().flatten().inspect(move |fed| {
            let ongoing = self.ongoing.iter().filter(|other| other.fed.is_same(fed));
            ongoing.for_each(|other| other.mark(key));
        })
    }

    /// From now on changes of this type are told.
    pub(super) fn add(&mut self, fed: Fed) {
        let types = self.fed.entry(fed.served.prefix.clone()).or_default();
        if !types.iter().any(|other| other.is_same(&fed)) {
            types.push(fed);
        }
    }

    /// A type is being told beside the commits.
    pub(super) fn begin(&mut self, ongoing: Arc<Ongoing>) {
        self.ongoing.retain(|other| !other.is_ended());
        self.ongoing.push(ongoing);
    }

    /// Nobody needs these any more.
    pub(super) fn stop(&mut self, access: &AuthorizerChain, needs: &[Need]) {
        for need in needs {
            let Need::Stop(resource, version) = need else { continue };
            let is = |fed: &Fed| fed.resource == *resource && fed.version == *version;
            self.cut(access, is);
            self.fed.values_mut().for_each(|types| types.retain(|fed| !is(fed)));
            self.fed.retain(|_, types| !types.is_empty());
        }
    }

    /// Ends what is being told of these types.
    pub(super) fn cut(&mut self, access: &AuthorizerChain, is: impl Fn(&Fed) -> bool) {
        let these = self.ongoing.iter().filter(|ongoing| is(&ongoing.fed));
        these.for_each(|ongoing| ongoing.cut(access));
    }

    /// The types whose objects have another form now than when they were told.
    pub(super) fn reformed(&mut self, registry: &Registry) -> Vec<Fed> {
        let mut reformed = Vec::new();
        for fed in self.fed.values_mut().flatten() {
            let (group, resource) = (&fed.resource.group, &fed.resource.resource);
            let Some(now) = registry.find(group, &fed.version, resource) else { continue };
            if !now.same_as(&fed.served) {
                fed.served = Arc::clone(now);
                reformed.push(fed.clone());
            }
        }
        reformed
    }
}

impl Fed {
    /// A type at a version, if it is served there.
    pub(super) fn find(registry: &Registry, resource: Resource, version: String) -> Option<Fed> {
        let served = Arc::clone(registry.find(&resource.group, &version, &resource.resource)?);
        Some(Fed { resource, version, served })
    }

    /// Whether both are one type at one version.
    pub(super) fn is_same(&self, other: &Fed) -> bool {
        self.resource == other.resource && self.version == other.version
    }

    /// Whether there are more of them than are told within a commit.
    pub(super) fn has_many(&self, world: &World) -> bool {
        world.range(&self.served.prefix, None).nth(WITHIN_COMMIT).is_some()
    }

    fn name<'a>(&'a self, record: &'a Record) -> OriginName<'a> {
        OriginName {
            group: &self.resource.group,
            resource: &self.resource.resource,
            namespace: record.namespace(),
            name: record.name(),
        }
    }

    /// An object as the API shows it at the version that was asked for (R77); `None` if it cannot.
    pub(super) fn read(&self, record: &Record) -> Option<Value> {
        self.served.read(record).ok().map(Value::Object)
    }

    /// Tells an object.
    pub(super) fn put(&self, index: &mut Index, record: &Record, out: &mut Outputs) {
        self.put_read(index, record, self.read(record).as_ref(), out);
    }

    /// The same, read already; one that cannot be read refers to nothing.
    pub(super) fn put_read(
        &self,
        index: &mut Index,
        record: &Record,
        object: Option<&Value>,
        out: &mut Outputs,
    ) {
        let Some(object) = object else { return self.drop(index, record, out) };
        let origin = Origin { name: self.name(record), version: &self.version, object };
        index.apply(IndexEvent::PutOrigin(origin), out);
    }

    /// Tells that an object is gone.
    pub(super) fn drop(&self, index: &mut Index, record: &Record, out: &mut Outputs) {
        index.apply(IndexEvent::DropOrigin(self.name(record)), out);
    }

    /// All of them are told.
    pub(super) fn synced(&self, index: &mut Index, out: &mut Outputs) {
        let (group, resource) = (self.resource.group.as_str(), self.resource.resource.as_str());
        let synced = Synced::Origins { group, resource, version: &self.version };
        index.apply(IndexEvent::Synced(synced), out);
    }
}
