//! Rules of spec/api-server.md: custom objects that a webhook converts (R129), called over TLS as it is by
//! users. Fixtures live here, tests in the modules.

mod admission;
mod answers;
mod reads;
mod versions;
mod watches;
mod writes;

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_https::{HttpsServer, HttpsSettings, ReviewServer};

use crate::house::*;

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/routes.example.com";
pub const V1: &str = "/apis/example.com/v1/namespaces/default/routes";
pub const V2: &str = "/apis/example.com/v2/namespaces/default/routes";
pub const APPLY: &str = "application/apply-patch+yaml";

type Answering = Box<dyn Fn(&Value) -> Response<Bytes> + Send + Sync>;

/// A conversion webhook that runs, with all reviews that it was sent.
pub struct Converter {
    pub reviews: ReviewServer,
    answering: Arc<Mutex<Answering>>,
}

impl Converter {
    /// One that knows both versions of routes.
    pub async fn start() -> Converter {
        let answering: Arc<Mutex<Answering>> =
            Arc::new(Mutex::new(Box::new(|review| done(review, each(review)))));
        let current = Arc::clone(&answering);
        let reviews = ReviewServer::start(move |review| current.lock().unwrap()(review)).await;
        Converter { reviews, answering }
    }

    /// From now on it answers so.
    pub fn answers(&self, answer: impl Fn(&Value) -> Response<Bytes> + Send + Sync + 'static) {
        *self.answering.lock().unwrap() = Box::new(answer);
    }

    /// From now on it answers rightly, but for what this does to the converted objects.
    pub fn changes(&self, change: impl Fn(&mut Vec<Value>) + Send + Sync + 'static) {
        self.answers(move |review| {
            let mut converted = each(review);
            change(&mut converted);
            done(review, converted)
        });
    }

    /// From now on it works.
    pub fn works(&self) {
        self.changes(|_| {});
    }

    /// From now on it is out of order.
    pub fn breaks(&self) {
        self.answers(|_| status(StatusCode::INTERNAL_SERVER_ERROR, "out of order"));
    }

    /// What it was asked since this was looked at last: the requests of the reviews.
    pub fn asked(&self) -> Vec<Value> {
        self.reviews.take().into_iter().map(|review| review.body["request"].clone()).collect()
    }

    /// How often it was asked since that was looked at last.
    pub fn calls(&self) -> usize {
        self.asked().len()
    }

    /// The stanza of a definition that names it.
    pub fn stanza(&self) -> Value {
        json!({ "strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {
                "url": self.reviews.server.url("/convert"),
                "caBundle": STANDARD.encode(&self.reviews.server.authority),
            },
        } })
    }
}

/// All objects of a review in the version that it wants.
pub fn each(review: &Value) -> Vec<Value> {
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = review["request"]["objects"].as_array().cloned().unwrap_or_default();
    objects.into_iter().map(|object| route(object, wanted)).collect()
}

/// A route of version 1 has `spec.address`, `host:port`; one of version 2 has both apart.
fn route(mut object: Value, wanted: &str) -> Value {
    let spec = object["spec"].as_object_mut();
    if let Some(spec) = spec {
        if wanted == "example.com/v2"
            && let Some(address) = spec.remove("address")
        {
            let (host, port) = address.as_str().unwrap().split_once(':').unwrap();
            spec.insert("host".into(), host.into());
            spec.insert("port".into(), port.parse::<u16>().unwrap().into());
        }
        if wanted == "example.com/v1"
            && let Some(host) = spec.remove("host")
        {
            let port = spec.remove("port").unwrap_or_default();
            spec.insert("address".into(), format!("{}:{port}", host.as_str().unwrap()).into());
        }
    }
    object["apiVersion"] = wanted.into();
    object
}

/// An answer with these objects.
pub fn done(review: &Value, converted: Vec<Value>) -> Response<Bytes> {
    answer(review, json!({ "convertedObjects": converted, "result": { "status": "Success" } }))
}

/// An answer with these members in its response.
pub fn answer(review: &Value, members: Value) -> Response<Bytes> {
    let mut response = json!({ "uid": review["request"]["uid"] });
    response.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let whole = json!({
        "kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response,
    });
    Response::new(whole.to_string().into())
}

pub fn status(code: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = code;
    response
}

/// A version of routes with these fields in its spec.
pub fn version_with(name: &str, storage: bool, spec: Value) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": { "type": "object", "properties": spec },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    });
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": { "openAPIV3Schema": schema },
        "subresources": {
            "status": {},
            "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" },
        },
    })
}

/// Both versions of routes; the one of this name is stored.
pub fn versions(stored: &str) -> Value {
    let text = json!({ "type": "string" });
    let number = json!({ "type": "integer" });
    let mut first = version_with(
        "v1",
        stored == "v1",
        json!({ "address": text, "replicas": number, "old": text }),
    );
    first["additionalPrinterColumns"] =
        json!([{ "name": "Address", "type": "string", "jsonPath": ".spec.address" }]);
    let mut second = version_with(
        "v2",
        stored == "v2",
        json!({ "host": text, "port": number, "replicas": number, "new": text }),
    );
    second["additionalPrinterColumns"] =
        json!([{ "name": "Host", "type": "string", "jsonPath": ".spec.host" }]);
    second["selectableFields"] = json!([{ "jsonPath": ".spec.host" }]);
    json!([first, second])
}

/// The definition of routes, stored in this version.
pub fn definition(converter: &Converter, stored: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "routes.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "routes", "kind": "Route" },
            "versions": versions(stored), "conversion": converter.stanza(),
        },
    })
}

/// A server with routes that are stored in this version, and who converts them.
pub async fn routes(stored: &str) -> (House, Converter) {
    let (house, converter) = (House::new().await, Converter::start().await);
    house.made(DEFINITIONS, definition(&converter, stored)).await;
    (house, converter)
}

/// From now on routes are stored in another version.
pub async fn store_as(house: &House, stored: &str) {
    let change = json!({ "spec": { "versions": versions(stored) } });
    house.merge(DEFINITION, change).await.with(200);
}

/// A route of version 1.
pub fn first(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Route",
        "metadata": { "name": name }, "spec": { "address": address },
    })
}

/// A route of version 2.
pub fn second(name: &str, host: &str, port: u16) -> Value {
    json!({
        "apiVersion": "example.com/v2", "kind": "Route",
        "metadata": { "name": name }, "spec": { "host": host, "port": port },
    })
}

/// A conversion failed: 500 with the words of upstream in front.
#[track_caller]
pub fn fails(answer: Answer, why: &str) {
    assert_eq!(answer.code, 500, "{}", String::from_utf8_lossy(&answer.bytes));
    assert_eq!(answer.json["kind"], "Status");
    let message = answer.json["message"].as_str().unwrap();
    assert!(message.starts_with("conversion webhook for example.com/v"), "{message}");
    assert!(message.contains(", Kind=Route "), "{message}");
    assert!(message.contains(why), "{why}: {message}");
}
