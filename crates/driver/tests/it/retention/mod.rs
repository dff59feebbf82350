//! Rules of spec/retention.md with all controllers running: one namespace for every kind of root with
//! a ConfigMap and with a Secret, and the same steps in each of them.

mod guard;
mod history;
mod lists;
mod order;

use serde_json::{Value, json};
use tenure_driver::Controllers;

use crate::estate::*;
use crate::house::*;

/// The kinds that templates are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    Controller,
}
use Kind::{Controller, DaemonSet, Deployment, ReplicaSet, StatefulSet};

pub const ALL: [Kind; 5] = [Deployment, StatefulSet, DaemonSet, ReplicaSet, Controller];
/// Those that keep a history.
pub const ROOTS: [Kind; 3] = [Deployment, StatefulSet, DaemonSet];
/// Those that are their own holder.
pub const PLAIN: [Kind; 2] = [ReplicaSet, Controller];

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Deployment => "/apis/apps/v1/namespaces/NS/deployments",
            StatefulSet => "/apis/apps/v1/namespaces/NS/statefulsets",
            DaemonSet => "/apis/apps/v1/namespaces/NS/daemonsets",
            ReplicaSet => "/apis/apps/v1/namespaces/NS/replicasets",
            Controller => "/api/v1/namespaces/NS/replicationcontrollers",
        }
    }

    fn holders(self) -> &'static str {
        match self {
            Deployment | ReplicaSet => ReplicaSet.path(),
            StatefulSet | DaemonSet => "/apis/apps/v1/namespaces/NS/controllerrevisions",
            Controller => Controller.path(),
        }
    }

    pub fn holder_kind(self) -> &'static str {
        match self {
            Deployment | ReplicaSet => "ReplicaSet",
            StatefulSet | DaemonSet => "ControllerRevision",
            Controller => "ReplicationController",
        }
    }
}

/// Everything of one namespace.
pub struct Place<'a> {
    house: &'a House,
    pub kind: Kind,
    pub secret: bool,
    namespace: String,
}

/// A server with controllers and nodes, and a namespace for each case.
pub struct Village {
    pub estate: Estate,
    cases: Vec<(Kind, bool, String)>,
}

impl Village {
    pub async fn new(kinds: &[Kind]) -> Village {
        Village::with(kinds, &[false, true]).await
    }

    pub async fn with(kinds: &[Kind], secrets: &[bool]) -> Village {
        let words = ["*", "scheduler", "simulated-node"].map(str::to_owned);
        let controllers = Controllers::with_nodes(&words, 1).unwrap();
        let estate = Estate::run_by(House::collecting().await, controllers).await;
        let mut cases = Vec::new();
        for (kind, secret) in kinds.iter().flat_map(|k| secrets.iter().map(|s| (*k, *s))) {
            let namespace = format!("{kind:?}-{}", if secret { "secret" } else { "map" });
            let namespace = namespace.to_lowercase();
            estate.house.made(NAMESPACES, named(&namespace)).await;
            // Pods need it, and the server makes it in its own time.
            let account = format!("{NAMESPACES}/{namespace}/serviceaccounts/default");
            estate.house.until(&account, 200).await;
            cases.push((kind, secret, namespace));
        }
        let village = Village { estate, cases };
        village.settle().await;
        village
    }

    pub fn places(&self) -> impl Iterator<Item = Place<'_>> {
        let house = &self.estate.house;
        self.cases.iter().map(move |(kind, secret, namespace)| Place {
            house,
            kind: *kind,
            secret: *secret,
            namespace: namespace.clone(),
        })
    }

    pub async fn settle(&self) {
        self.estate.settle().await;
    }
}

/// One entry of an owner list: kind and name.
pub type Entry = (String, String);

impl Place<'_> {
    pub fn about(&self, what: &str) -> String {
        format!("{what} in {}", self.namespace)
    }

    pub fn path(&self, template: &str) -> String {
        template.replace("NS", &self.namespace)
    }

    pub fn subjects(&self) -> String {
        let plural = if self.secret { "secrets" } else { "configmaps" };
        format!("/api/v1/namespaces/{}/{plural}", self.namespace)
    }

    pub fn subject_path(&self, name: &str) -> String {
        format!("{}/{name}", self.subjects())
    }

    /// Makes a ConfigMap or Secret that opted in.
    pub async fn subject(&self, name: &str) -> Value {
        let body = json!({ "metadata": { "name": name }, "controllersAsOwners": true });
        self.house.made(&self.subjects(), body).await
    }

    pub async fn plain_subject(&self, name: &str) {
        self.house.made(&self.subjects(), named(name)).await;
    }

    /// The subject, if it is there.
    pub async fn find(&self, name: &str) -> Option<Value> {
        let answer = self.house.get(&self.subject_path(name)).await;
        (answer.code != 404).then(|| answer.with(200))
    }

    /// The owners of a subject, sorted; `None` when it is gone.
    pub async fn owners(&self, name: &str) -> Option<Vec<Entry>> {
        let subject = self.find(name).await?;
        let mut entries: Vec<Entry> = entries(&subject).iter().map(entry).collect();
        entries.sort();
        Some(entries)
    }

    /// A pod template that mentions these, with this image.
    pub fn template(&self, app: &str, refs: &[&str], image: &str) -> Value {
        let volume = |name: &&str| match self.secret {
            true => json!({ "name": name, "secret": { "secretName": name } }),
            false => json!({ "name": name, "configMap": { "name": name } }),
        };
        let volumes: Vec<Value> = refs.iter().map(volume).collect();
        json!({
            "metadata": { "labels": { "app": app } },
            "spec": {
                "containers": [{ "name": "c", "image": format!("example.com/app:{image}") }],
                "volumes": volumes,
                "terminationGracePeriodSeconds": 0,
            },
        })
    }

    pub fn root_path(&self, name: &str) -> String {
        format!("{}/{name}", self.path(self.kind.path()))
    }

    /// Makes a root whose template mentions these, with further members of its specification.
    pub async fn root_with(&self, name: &str, refs: &[&str], extra: Value) -> Value {
        let labels = json!({ "app": name });
        let mut spec = json!({ "template": self.template(name, refs, "v1") });
        spec["selector"] = match self.kind {
            Controller => labels,
            _ => json!({ "matchLabels": labels }),
        };
        match self.kind {
            DaemonSet => {}
            StatefulSet => {
                spec["replicas"] = json!(1);
                spec["serviceName"] = json!("s");
            }
            _ => spec["replicas"] = json!(1),
        }
        for (member, value) in extra.as_object().unwrap() {
            spec[member] = value.clone();
        }
        let body = json!({ "metadata": { "name": name }, "spec": spec });
        self.house.made(&self.path(self.kind.path()), body).await
    }

    pub async fn root(&self, name: &str, refs: &[&str]) -> Value {
        self.root_with(name, refs, json!({})).await
    }

    /// Changes the template of a root.
    pub async fn update(&self, name: &str, refs: &[&str], image: &str) {
        let template = self.template(name, refs, image);
        let path = self.root_path(name);
        let mut body = self.house.get(&path).await.with(200);
        body["spec"]["template"] = template;
        body["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        self.house.put(&path, body).await.with(200);
    }

    /// Changes something else of a root.
    pub async fn change(&self, name: &str, spec: Value) {
        self.house.merge(&self.root_path(name), json!({ "spec": spec })).await.with(200);
    }

    pub async fn end(&self, name: &str, policy: &str) {
        let path = format!("{}?propagationPolicy={policy}", self.root_path(name));
        self.house.delete(&path).await.with(200);
    }

    /// The holders of a root, as entries of an owner list, sorted.
    pub async fn holders(&self, root: &str) -> Vec<Entry> {
        let found = self.holder_objects(root).await;
        let entry = |holder: &Value| (self.kind.holder_kind().to_owned(), name(holder).to_owned());
        let mut entries: Vec<Entry> = found.iter().map(entry).collect();
        entries.sort();
        entries
    }

    /// Holders that belong to a root, or are it.
    pub async fn holder_objects(&self, root: &str) -> Vec<Value> {
        let list = self.house.get(&self.path(self.kind.holders())).await.with(200);
        let items = list["items"].as_array().unwrap().clone();
        let of = |holder: &Value| match PLAIN.contains(&self.kind) {
            true => name(holder) == root,
            false => name(holder).starts_with(&format!("{root}-")),
        };
        items.into_iter().filter(of).collect()
    }

    pub async fn pods(&self) -> Vec<Value> {
        let list = self.house.get(&self.path("/api/v1/namespaces/NS/pods")).await.with(200);
        list["items"].as_array().unwrap().clone()
    }

    pub async fn end_pods(&self) {
        for pod in self.pods().await {
            let path = self.path("/api/v1/namespaces/NS/pods");
            self.house.delete(&format!("{path}/{}?gracePeriodSeconds=0", name(&pod))).await;
        }
    }

    /// The reasons of the events about a subject.
    pub async fn events(&self, about: &str) -> Vec<String> {
        let list = self.house.get(&self.path("/api/v1/namespaces/NS/events")).await.with(200);
        let events = list["items"].as_array().unwrap().iter();
        let of = events.filter(|event| event["involvedObject"]["name"] == json!(about));
        of.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until an event about a subject was written.
    pub async fn told(&self, about: &str, reason: &str) {
        for _ in 0..400 {
            if self.events(about).await.iter().any(|told| told == reason) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{}: {:?}", self.about(reason), self.events(about).await);
    }
}

pub fn entries(subject: &Value) -> Vec<Value> {
    subject["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}

pub fn entry(entry: &Value) -> Entry {
    let text = |member: &str| entry[member].as_str().unwrap().to_owned();
    (text("kind"), text("name"))
}
