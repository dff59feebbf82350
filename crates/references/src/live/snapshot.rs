//! What a cluster holds at one moment, for tools that look once: the three kinds, and the origins that
//! strategies point into. What may not be read is named.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use serde_json::Value;
use tenure_reference::{
    Consumer, Expressions, GROUP, Grant, Obj, Resource, Selectors, ServedType, Strategy,
    references_of,
};

use super::discovery;
use crate::index::RefIndex;
use crate::names::{ObjectName, Reference};
use crate::served::{active_version, api_resource, row};

/// How many objects one answer holds.
const PAGE: u32 = 500;

/// What a cluster holds.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What it serves.
    pub served: Vec<ServedType>,
    /// The objects of the three kinds.
    pub objects: Vec<Value>,
    /// The origins, each with its type, at the version that is read; also what selectors look at.
    pub origins: Vec<(Resource, Value)>,
    /// What could not be read, and why.
    pub unread: Vec<UnreadableResource>,
}

/// What is not stored, and is read for as if it were: a change that is to be judged, or a bundle.
#[derive(Clone, Debug, Default)]
pub struct ProposedObjects {
    /// The origins of these are read.
    pub strategies: Vec<Strategy>,
    /// The classes that these select among are read (D13).
    pub consumers: Vec<Consumer>,
}

impl ProposedObjects {
    /// The types whose objects its consumers select classes by.
    #[must_use]
    pub fn looked_at(&self) -> BTreeSet<Resource> {
        classes_of(&self.consumers).collect()
    }
}

/// A type that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableResource {
    /// The type.
    pub resource: Resource,
    /// What the cluster says.
    pub why: String,
}

impl fmt::Display for UnreadableResource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.resource, self.why)
    }
}

impl Snapshot {
    /// Reads a cluster, also for what is proposed.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn read(client: &kube::Client, proposal: &ProposedObjects) -> kube::Result<Snapshot> {
        let served = discovery::served(client).await?;
        let mut snapshot = Snapshot { served, ..Snapshot::default() };
        for resource in ["referencestrategies", "clusterreferenceconsumers", "referencegrants"] {
            let found = snapshot.list(client, &Resource::new(GROUP, resource), None).await?;
            snapshot.objects.extend(found);
        }
        let mut strategies = snapshot.strategies();
        strategies.extend(proposal.strategies.iter().cloned());
        let mut read: Vec<(Resource, String)> = Vec::new();
        for strategy in &strategies {
            let Some(version) = active_version(&snapshot.served, strategy) else { continue };
            let key = (strategy.origin.clone(), version.clone());
            if !read.contains(&key) {
                let found = snapshot.list(client, &key.0, Some(&key.1)).await?;
                snapshot.origins.extend(found.into_iter().map(|object| (key.0.clone(), object)));
                read.push(key);
            }
        }
        let mut looked_at = snapshot.looked_at();
        looked_at.extend(proposal.looked_at());
        // Also where no grant selects them yet: a change that is judged may.
        let namespaces = Resource::new("", "namespaces");
        for resource in looked_at.iter().chain([&namespaces]).collect::<BTreeSet<_>>() {
            let preferred = row(&snapshot.served, resource);
            let preferred = preferred.and_then(|row| row.versions.first()).cloned();
            let Some(version) = preferred else { continue };
            if read.iter().any(|key| key.0 == *resource && key.1 == version) {
                continue;
            }
            let unread = snapshot.unread.len();
            let found = snapshot.list(client, resource, Some(&version)).await?;
            snapshot.origins.extend(found.into_iter().map(|it| (resource.clone(), it)));
            if !looked_at.contains(resource) {
                snapshot.unread.truncate(unread);
            }
        }
        Ok(snapshot)
    }

    /// The types that selectors look at (D9, D13).
    #[must_use]
    pub fn looked_at(&self) -> BTreeSet<Resource> {
        let grants = self.of_kind("ReferenceGrant").filter_map(|it| Grant::from_object(it).ok());
        let selects = grants.into_iter().any(|grant| grant.namespace_selector.is_some());
        let namespaces = selects.then(|| Resource::new("", "namespaces"));
        namespaces.into_iter().chain(classes_of(&self.consumers())).collect()
    }

    fn objects_of<'s>(&'s self, wanted: &'s Resource) -> impl Iterator<Item = &'s Value> {
        let of_type = self.origins.iter().filter(move |(resource, _)| resource == wanted);
        of_type.map(|(_, object)| object)
    }

    /// Every object of a type; nothing if it is not served, or may not be read.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn list(
        &mut self,
        client: &kube::Client,
        resource: &Resource,
        version: Option<&str>,
    ) -> kube::Result<Vec<Value>> {
        let row = row(&self.served, resource);
        let Some(api) = row.and_then(|row| api_resource(row, version)) else {
            return Ok(Vec::new());
        };
        let (api_version, kind) = (api.api_version.clone(), api.kind.clone());
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &api);
        let mut objects = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = match api.list(&page).await {
                Ok(list) => list,
                Err(kube::Error::Api(status)) => {
                    let why = match status.code {
                        403 => "you may not list it".to_owned(),
                        _ => status.message,
                    };
                    self.unread.push(UnreadableResource { resource: resource.clone(), why });
                    return Ok(Vec::new());
                }
                Err(error) => return Err(error),
            };
            for object in list.items {
                let mut value = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
                // Items of a list do not say what they are.
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("apiVersion".into(), api_version.clone().into());
                    fields.insert("kind".into(), kind.clone().into());
                }
                objects.push(value);
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok(objects),
            }
        }
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &serde_json::Map<String, Value>> {
        let objects = self.objects.iter().filter_map(Value::as_object);
        objects.filter(move |object| object.get("kind").and_then(Value::as_str) == Some(kind))
    }

    /// The strategies that can be understood.
    #[must_use]
    pub fn strategies(&self) -> Vec<Strategy> {
        let all = self.of_kind("ReferenceStrategy");
        all.filter_map(|object| Strategy::from_object(object).ok()).collect()
    }

    /// The consumers that can be understood.
    #[must_use]
    pub fn consumers(&self) -> Vec<Consumer> {
        let all = self.of_kind("ClusterReferenceConsumer");
        let consumers = all.filter_map(|object| Consumer::from_object(object).ok());
        let select = |mut consumer: Consumer| {
            let resource = consumer.class_selector.as_ref().map(|of| of.resource.clone());
            consumer.select(resource.iter().flat_map(|resource| self.objects_of(resource)));
            consumer
        };
        consumers.map(select).collect()
    }

    /// The grants that can be understood.
    #[must_use]
    pub fn grants(&self) -> Vec<Grant> {
        let all = self.of_kind("ReferenceGrant");
        let namespaces = Resource::new("", "namespaces");
        let select = |mut grant: Grant| {
            grant.select(self.objects_of(&namespaces));
            grant
        };
        all.filter_map(|object| Grant::from_object(object).ok()).map(select).collect()
    }

    /// Every reference that strategies find in the origins, allowed or not.
    #[must_use]
    pub fn references(
        &self,
        strategies: &[Strategy],
        expressions: &dyn Expressions,
    ) -> Vec<Reference> {
        let mut all = Vec::new();
        for (resource, object) in &self.origins {
            let text = |pointer: &str| {
                object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let origin = ObjectName {
                resource: resource.clone(),
                namespace: text("/metadata/namespace"),
                name: text("/metadata/name"),
            };
            let obj: Obj<'_> = origin.as_obj();
            for found in references_of(&self.served, strategies, &obj, object, expressions) {
                all.push(Reference {
                    origin: origin.clone(),
                    target: ObjectName {
                        resource: found.target.clone(),
                        namespace: found.namespace,
                        name: found.name,
                    },
                    purpose: found.purpose.to_owned(),
                });
            }
        }
        all.sort();
        all.dedup();
        all
    }

    /// An index of all this, to be asked; references that an `expression` finds are not in it.
    #[must_use]
    pub fn index(&self) -> RefIndex {
        self.filled(RefIndex::new())
    }

    /// The same, with something that evaluates `expression` (R79).
    #[must_use]
    pub fn index_with(&self, expressions: Arc<dyn Expressions + Send + Sync>) -> RefIndex {
        self.filled(RefIndex::new().with_expressions(expressions))
    }

    fn filled(&self, mut index: RefIndex) -> RefIndex {
        // Where somebody wrote a selector, the cluster let them.
        index = index.with_selectors(Selectors::ALL);
        index.serve(self.served.clone());
        for object in &self.objects {
            // What cannot be understood grants nothing.
            let _ = index.put(object);
        }
        for (resource, object) in &self.origins {
            index.put_origin(resource, object);
        }
        index.mark_all_synced();
        index
    }
}

/// The types whose objects consumers select classes by.
fn classes_of(consumers: &[Consumer]) -> impl Iterator<Item = Resource> {
    let selectors = consumers.iter().filter_map(|it| it.class_selector.as_ref());
    selectors.map(|selector| selector.resource.clone())
}
