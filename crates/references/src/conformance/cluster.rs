//! Runs vectors against any cluster: objects are applied, requests are asked about with
//! SubjectAccessReviews. Everything that was made is removed again.
//!
//! Whoever runs it must be allowed to do all that; the consumer needs no right at all, and must have none on
//! Secrets and ConfigMaps by other means, for then the answers would say nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tenure_reference::GROUP;

use super::{Base, CONSUMER, Expect, ReadRequest, Step, Vector};

/// How a cluster is asked.
#[derive(Clone, Copy, Debug)]
pub struct ConformanceTiming {
    /// How long a change may take until answers follow it.
    pub patience: Duration,
    /// How long an answer of no must hold, so that a change that comes late is not taken for none.
    pub hold: Duration,
}

impl Default for ConformanceTiming {
    fn default() -> ConformanceTiming {
        ConformanceTiming { patience: Duration::from_secs(10), hold: Duration::from_millis(100) }
    }
}

/// How often an answer is asked for while it is not the expected one.
const PAUSE: Duration = Duration::from_millis(50);

/// A cluster under test.
pub struct ConformanceCluster {
    client: kube::Client,
    base: Base,
    consumer: (String, String),
    pace: ConformanceTiming,
}

impl ConformanceCluster {
    /// Makes the sample kinds and the namespaces.
    ///
    /// # Errors
    /// The cluster refuses.
    pub async fn prepare(
        client: kube::Client,
        base: Base,
        consumer: (&str, &str),
        pace: ConformanceTiming,
    ) -> kube::Result<ConformanceCluster> {
        let consumer = (consumer.0.to_owned(), consumer.1.to_owned());
        let cluster = ConformanceCluster { client, base, consumer, pace };
        for definition in &cluster.base.definitions {
            cluster.apply(definition).await?;
        }
        for name in &cluster.base.namespaces {
            cluster.apply(&namespace(name)).await?;
        }
        for row in &cluster.base.served {
            let version = row.versions.first().map(String::as_str).unwrap_or_default();
            let path = collection(&row.group, version, &row.resource, "");
            // A new kind is served a moment after its definition is accepted.
            let mut left = cluster.tries();
            while let Err(error) = cluster.send("GET", &format!("{path}?limit=1"), None).await {
                left = left.checked_sub(1).ok_or(error)?;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(cluster)
    }

    /// Removes the sample kinds and the namespaces.
    ///
    /// # Errors
    /// The cluster refuses.
    pub async fn clean(&self) -> kube::Result<()> {
        for definition in &self.base.definitions {
            self.delete(definition).await?;
        }
        for name in &self.base.namespaces {
            self.delete(&json!({ "kind": "Namespace", "metadata": { "name": name } })).await?;
        }
        Ok(())
    }

    /// Runs a vector; what does not hold, in words. None: it passes.
    ///
    /// # Errors
    /// The cluster refuses an object, or does not answer.
    pub async fn run(&self, vector: &Vector) -> kube::Result<Vec<String>> {
        let mut made: BTreeMap<String, Value> = BTreeMap::new();
        let outcome = self.steps(vector, &mut made).await;
        // Removed whatever happened, so that the next vector starts from nothing.
        for object in made.values() {
            match object.get("kind").and_then(Value::as_str) {
                // Namespaces of the base stay, without what the vector wrote on them.
                Some("Namespace") => drop(self.apply(&namespace(named(object))).await?),
                _ => self.delete(object).await?,
            }
        }
        for definition in &self.base.definitions {
            self.apply(definition).await?;
        }
        outcome
    }

    async fn steps(
        &self,
        vector: &Vector,
        made: &mut BTreeMap<String, Value>,
    ) -> kube::Result<Vec<String>> {
        let mut failures = Vec::new();
        let base = Step::Apply(self.base.objects.clone());
        for (number, step) in std::iter::once(&base).chain(&vector.steps).enumerate() {
            match step {
                Step::Apply(objects) => {
                    for object in objects {
                        let object = self.for_consumer(object);
                        self.apply(&object).await?;
                        made.insert(self.path(&object), object);
                    }
                }
                Step::Delete(names) => {
                    for name in names {
                        self.delete(name).await?;
                        made.remove(&self.path(name));
                    }
                }
                Step::Serve { group, resource, versions } => {
                    self.serve(group, resource, versions).await?;
                }
                Step::Expect(all) => {
                    for expect in all {
                        let Expect::Read { read, allowed } = expect else { continue };
                        if !self.holds(read, *allowed).await? {
                            let not = if *allowed { "is not" } else { "is" };
                            // The base is step 0 here.
                            let step = number.saturating_sub(1);
                            failures.push(format!("step {step}: {read:?} {not} allowed"));
                        }
                    }
                }
            }
        }
        Ok(failures)
    }

    /// The object with the consumer under test in the place of the one in the vectors.
    fn for_consumer(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(subject) = object.get_mut("subject") {
            let stands = json!({
                "kind": "ServiceAccount", "namespace": CONSUMER.0, "name": CONSUMER.1,
            });
            if *subject == stands {
                let (namespace, name) = &self.consumer;
                *subject = json!({
                    "kind": "ServiceAccount", "namespace": namespace, "name": name,
                });
            }
        }
        object
    }

    /// Whether the answer becomes the expected one in time, and a no stays one.
    async fn holds(&self, read: &ReadRequest, expected: bool) -> kube::Result<bool> {
        let mut left = self.tries();
        while self.allowed(read).await? != expected {
            let Some(fewer) = left.checked_sub(1) else { return Ok(false) };
            left = fewer;
            tokio::time::sleep(PAUSE).await;
        }
        if expected || self.pace.hold.is_zero() {
            return Ok(true);
        }
        tokio::time::sleep(self.pace.hold).await;
        Ok(!self.allowed(read).await?)
    }

    fn tries(&self) -> u128 {
        self.pace.patience.as_millis() / PAUSE.as_millis()
    }

    async fn allowed(&self, read: &ReadRequest) -> kube::Result<bool> {
        let consumer = crate::Identity::service_account(&self.consumer.0, &self.consumer.1);
        let (user, groups) = match &read.user {
            Some(user) => (user, &read.groups),
            None => (&consumer.user, &consumer.groups),
        };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": { "user": user, "groups": groups, "resourceAttributes": {
                "verb": read.verb, "group": read.group, "resource": read.resource,
                "subresource": read.subresource, "namespace": read.namespace, "name": read.name,
            }},
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.send("POST", path, Some(("application/json", &review))).await?;
        Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false))
    }

    async fn serve(&self, group: &str, resource: &str, versions: &[String]) -> kube::Result<()> {
        let name = format!("{resource}.{group}");
        let wanted = |definition: &&Value| {
            definition.pointer("/metadata/name").and_then(Value::as_str) == Some(&name)
        };
        let Some(definition) = self.base.definitions.iter().find(wanted) else { return Ok(()) };
        let mut definition = definition.clone();
        let rows = definition.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
        for row in rows.into_iter().flatten() {
            let served = row.get("name").and_then(Value::as_str);
            let served = served.is_some_and(|name| versions.iter().any(|wanted| wanted == name));
            if let Some(row) = row.as_object_mut() {
                row.insert("served".into(), served.into());
            }
        }
        self.apply(&definition).await?;
        Ok(())
    }

    async fn apply(&self, object: &Value) -> kube::Result<Value> {
        let path = format!("{}?fieldManager=conformance&force=true", self.path(object));
        self.send("PATCH", &path, Some(("application/apply-patch+yaml", object))).await
    }

    async fn delete(&self, object: &Value) -> kube::Result<()> {
        match self.send("DELETE", &self.path(object), None).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    /// The address of an object of one of the kinds that vectors have.
    fn path(&self, object: &Value) -> String {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").unwrap_or_default();
        let place = match kind {
            "Namespace" => collection("", "v1", "namespaces", ""),
            "CustomResourceDefinition" => {
                collection("apiextensions.k8s.io", "v1", "customresourcedefinitions", "")
            }
            "ReferenceStrategy" => collection(GROUP, "v1alpha1", "referencestrategies", ""),
            "ClusterReferenceConsumer" => {
                collection(GROUP, "v1alpha1", "clusterreferenceconsumers", "")
            }
            _ => {
                let namespace = text("/metadata/namespace").unwrap_or_default();
                let row = self.base.served.iter().find(|row| row.kind == kind);
                match row {
                    Some(row) => {
                        let version = text("/apiVersion").and_then(|v| v.rsplit('/').next());
                        let version = version.unwrap_or("v1");
                        collection(&row.group, version, &row.resource, namespace)
                    }
                    None => collection(GROUP, "v1alpha1", "referencegrants", namespace),
                }
            }
        };
        format!("{place}/{}", text("/metadata/name").unwrap_or_default())
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> kube::Result<Value> {
        let request = Request::builder().method(method).uri(path);
        let request = match body {
            Some((kind, value)) => {
                request.header(CONTENT_TYPE, kind).body(value.to_string().into_bytes())
            }
            None => request.body(Vec::new()),
        };
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn named(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn collection(group: &str, version: &str, resource: &str, namespace: &str) -> String {
    let root = match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    match namespace {
        "" => format!("{root}/{resource}"),
        namespace => format!("{root}/namespaces/{namespace}/{resource}"),
    }
}
