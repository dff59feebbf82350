//! What a cluster holds at one moment, for tools that look once: the three kinds, and the origins that
//! strategies point into. What may not be read is named.

use std::sync::Arc;

use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use tenure_reference::{
    Consumer, Expressions, GROUP, Grant, Obj, Resource, ServedType, Strategy, references_of,
};

use super::discovery;
use crate::index::RefIndex;
use crate::names::{ObjectName, Reference};

/// How many objects one answer holds.
const PAGE: u32 = 500;

/// What a cluster holds.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What it serves.
    pub served: Vec<ServedType>,
    /// The objects of the three kinds.
    pub objects: Vec<Value>,
    /// The origins, each with its type, at the version that is read.
    pub origins: Vec<(Resource, Value)>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

impl Snapshot {
    /// Reads a cluster. Origins are also read for strategies that are not in force, such as bundled ones.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn read(client: &kube::Client, more: &[Strategy]) -> kube::Result<Snapshot> {
        let served = discovery::served(client).await?;
        let mut snapshot = Snapshot { served, ..Snapshot::default() };
        for resource in ["referencestrategies", "clusterreferenceconsumers", "referencegrants"] {
            let found = snapshot.list(client, &Resource::new(GROUP, resource), None).await?;
            snapshot.objects.extend(found);
        }
        let mut strategies = snapshot.strategies();
        strategies.extend(more.iter().cloned());
        let mut read: Vec<(Resource, String)> = Vec::new();
        for strategy in &strategies {
            let Some(version) = snapshot.active_version(strategy) else { continue };
            let key = (strategy.origin.clone(), version);
            if !read.contains(&key) {
                let found = snapshot.list(client, &key.0, Some(&key.1)).await?;
                snapshot.origins.extend(found.into_iter().map(|object| (key.0.clone(), object)));
                read.push(key);
            }
        }
        Ok(snapshot)
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
        let Some(row) = self.served.iter().find(|row| row.resource == *resource) else {
            return Ok(Vec::new());
        };
        let Some(version) = version.or(row.versions.first().map(String::as_str)) else {
            return Ok(Vec::new());
        };
        let api_version = match resource.group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let kind = row.kind.clone();
        let api = ApiResource {
            group: resource.group.clone(),
            version: version.to_owned(),
            api_version: api_version.clone(),
            kind: kind.clone(),
            plural: resource.resource.clone(),
        };
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &api);
        let mut objects = Vec::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = match api.list(&page).await {
                Ok(list) => list,
                Err(kube::Error::Api(status)) => {
                    self.unread.push(format!("{resource}: {}", status.message));
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
        all.filter_map(|object| Consumer::from_object(object).ok()).collect()
    }

    /// The grants that can be understood.
    #[must_use]
    pub fn grants(&self) -> Vec<Grant> {
        let all = self.of_kind("ReferenceGrant");
        all.filter_map(|object| Grant::from_object(object).ok()).collect()
    }

    fn active_version(&self, strategy: &Strategy) -> Option<String> {
        let row = self.served.iter().find(|row| row.resource == strategy.origin)?;
        let listed =
            |version: &&String| strategy.versions.iter().any(|paths| paths.version == **version);
        row.versions.iter().find(listed).cloned()
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
        index.serve(self.served.clone());
        for object in &self.objects {
            // What cannot be understood grants nothing.
            let _ = index.put(object);
        }
        for (resource, object) in &self.origins {
            index.put_origin(resource, object);
        }
        index.all_told();
        index
    }
}
