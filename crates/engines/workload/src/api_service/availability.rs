//! Whether the server that an APIService names is available (api-server R131e).
//!
//! ```text
//!   Service there? ──► port? ──► slices? ──► a ready endpoint with the port? ──► the host asks ──► Passed
//!        └── no ──► False, with the first reason that holds
//! ```
//!
//! A Service that is no cluster address has no endpoints to look at: it is asked at once.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::condition;

/// What is looked at again after this time, even if nothing happened: a network may be cut in silence.
pub const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The longest that a server which gave no answer waits until it is asked again.
pub const RETRY_WITHIN: Duration = Duration::from_secs(30);
/// The port that is meant where none is said.
const PORT: i64 = 443;
/// What a strange server says is cut here.
const MESSAGE_BYTES_MAX: usize = 1024;
const AVAILABLE: &str = "Available";

/// The Service that an APIService names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTarget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its port.
    pub port: i64,
}

impl ServiceTarget {
    /// The Service of an APIService; none if this server serves the group itself.
    #[must_use]
    pub fn of(api_service: &Object) -> Option<ServiceTarget> {
        let service = api_service.map_at(&["spec", "service"])?;
        let text = |member: &str| service.str_at(&[member]).unwrap_or_default().to_string();
        let port = service.int_at(&["port"]).unwrap_or(PORT);
        Some(ServiceTarget { namespace: text("namespace"), name: text("name"), port })
    }

    fn words(&self) -> String {
        format!("service/{} in {:?}", self.name, self.namespace)
    }
}

/// Whether a server is available, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// Whether requests are passed on.
    pub available: bool,
    reason: &'static str,
    message: String,
}

impl Availability {
    fn not(reason: &'static str, message: String) -> Availability {
        Availability { available: false, reason, message }
    }

    /// What this server serves by itself.
    #[must_use]
    pub fn local() -> Availability {
        let message = "Local APIServices are always available".to_string();
        Availability { available: true, reason: "Local", message }
    }

    /// What came of asking the server for its resources.
    #[must_use]
    pub fn answered(requested: &Result<(), String>) -> Availability {
        match requested {
            Ok(()) => {
                let message = "all checks passed".to_string();
                Availability { available: true, reason: "Passed", message }
            }
            Err(why) => {
                let why = why.get(..why.floor_char_boundary(MESSAGE_BYTES_MAX)).unwrap_or_default();
                Availability::not("FailedDiscoveryCheck", why.to_string())
            }
        }
    }

    /// Writes it into the status of an APIService; whether that says something new.
    pub fn put(&self, api_service: &mut Object, now: Timestamp) -> bool {
        let status = if self.available { "True" } else { "False" };
        let known = api_service.list_at(&["status", "conditions"]);
        let same = condition::find(known, AVAILABLE).is_some_and(|known| {
            known.str_at(&["status"]) == Some(status)
                && known.str_at(&["reason"]) == Some(self.reason)
                && known.str_at(&["message"]) == Some(self.message.as_str())
        });
        if !same {
            condition::put(api_service, (AVAILABLE, status), self.reason, &self.message, now);
        }
        !same
    }
}

/// What is wrong before anybody is asked; nothing if the server can be asked.
#[must_use]
pub fn wrong<'a>(
    target: &ServiceTarget,
    service: Option<&Object>,
    mut slices: impl Iterator<Item = &'a Object> + Clone,
) -> Option<Availability> {
    let words = target.words();
    let Some(service) = service else {
        return Some(Availability::not("ServiceNotFound", format!("{words} is not present")));
    };
    // What is served elsewhere than at a cluster address says nothing of itself here.
    if service.str_at(&["spec", "type"]).is_some_and(|kind| kind != "ClusterIP") {
        return None;
    }
    let mut ports = service.list_at(&["spec", "ports"]).iter().filter_map(Value::as_object);
    let Some(port) = ports.find(|port| port.int_at(&["port"]) == Some(target.port)) else {
        let message = format!("{words} is not listening on port {}", target.port);
        return Some(Availability::not("ServicePortError", message));
    };
    let port = port.str_at(&["name"]).unwrap_or_default();
    if slices.clone().next().is_none() {
        let message = format!("cannot find endpointslices for {words}");
        return Some(Availability::not("EndpointsNotFound", message));
    }
    if !slices.any(|slice| has_endpoint(slice, port)) {
        let message =
            format!("endpointslices for {words} have no addresses with port name {port:?}");
        return Some(Availability::not("MissingEndpoints", message));
    }
    None
}

fn has_endpoint(slice: &Object, port: &str) -> bool {
    let mut endpoints = slice.list_at(&["endpoints"]).iter().filter_map(Value::as_object);
    let mut ports = slice.list_at(&["ports"]).iter().filter_map(Value::as_object);
    endpoints.any(|one| one.bool_at(&["conditions", "ready"]) != Some(false))
        && ports.any(|one| {
            one.str_at(&["name"]).unwrap_or_default() == port && one.int_at(&["port"]).is_some()
        })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use alloc::vec;
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    fn target() -> ServiceTarget {
        let spec = json!({ "spec": { "service": { "namespace": "n", "name": "s" } } });
        ServiceTarget::of(&object(spec)).unwrap()
    }

    fn found(service: Option<Value>, slices: &[Value]) -> Option<(&'static str, String)> {
        let (service, slices) = (service.map(object), slices.iter().cloned().map(object));
        let slices: vec::Vec<Object> = slices.collect();
        let wrong = wrong(&target(), service.as_ref(), slices.iter())?;
        assert!(!wrong.available);
        Some((wrong.reason, wrong.message))
    }

    #[test]
    fn r131e_the_first_thing_that_is_missing_is_the_reason() {
        let service = |port: i64| {
            json!({ "spec": { "type": "ClusterIP", "ports": [{ "port": 80, "name": "x" },
                { "port": port, "name": "api" }] } })
        };
        let slice = |ready: Value, port: Value| json!({ "endpoints": [{ "conditions": { "ready": ready } }], "ports": [port] });
        let port = json!({ "name": "api", "port": 8443 });
        let reason = |service, slices: &[Value]| found(service, slices).map(|(reason, _)| reason);
        assert_eq!(
            found(None, &[]),
            Some(("ServiceNotFound", "service/s in \"n\" is not present".to_string()))
        );
        assert_eq!(reason(Some(service(444)), &[]), Some("ServicePortError"));
        assert_eq!(reason(Some(service(443)), &[]), Some("EndpointsNotFound"));
        for slice in [
            slice(json!(false), port.clone()),
            slice(json!(true), json!({ "name": "api" })),
            slice(json!(true), json!({ "name": "other", "port": 1 })),
            json!({ "endpoints": [], "ports": [port] }),
        ] {
            assert_eq!(
                reason(Some(service(443)), core::slice::from_ref(&slice)),
                Some("MissingEndpoints"),
                "{slice}"
            );
        }
        for ready in [json!(true), json!(null)] {
            assert_eq!(reason(Some(service(443)), &[slice(ready, port.clone())]), None);
        }
        let elsewhere = json!({ "spec": { "type": "ExternalName", "externalName": "a.example" } });
        assert_eq!(reason(Some(elsewhere), &[]), None);
    }

    #[test]
    fn r131e_a_condition_changes_with_what_it_says_and_keeps_its_time_with_its_status() {
        let mut api_service = Object::new();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let failed = |why: &str| Availability::answered(&Err(why.to_string()));
        assert!(failed("a").put(&mut api_service, at(1)));
        assert!(!failed("a").put(&mut api_service, at(2)));
        assert!(failed("b").put(&mut api_service, at(3)));
        let condition = |api_service: &Object| api_service["status"]["conditions"][0].clone();
        assert_eq!(condition(&api_service)["lastTransitionTime"], "1970-01-01T00:00:01Z");
        assert_eq!(condition(&api_service)["message"], "b");
        assert!(Availability::answered(&Ok(())).put(&mut api_service, at(4)));
        let passed = condition(&api_service);
        assert_eq!((&passed["reason"], &passed["status"]), (&json!("Passed"), &json!("True")));
        assert_eq!(passed["lastTransitionTime"], "1970-01-01T00:00:04Z");
        let long = failed(&"é".repeat(MESSAGE_BYTES_MAX));
        assert!(long.message.len() <= MESSAGE_BYTES_MAX);
    }
}
