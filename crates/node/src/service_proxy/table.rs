//! What is to be listened on for Services, and who is behind it: a pure function of Services, their
//! EndpointSlices and the node (N12, N14). Sockets are opened elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};

/// The label that leaves a Service to somebody else.
const LEFT_TO_OTHERS: &str = "service.kubernetes.io/service-proxy-name";
/// The label of a slice that names its Service.
const OF_SERVICE: &str = "kubernetes.io/service-name";

/// What carries bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

/// Where is listened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Listener {
    /// An address of a Service, in the node's network.
    Service(Ipv4Addr, u16, Transport),
    /// A port of the node: on its address in its network, and on the loopback of its machine.
    Node(u16, Transport),
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backends {
    /// One of these, not empty.
    Endpoints(Vec<SocketAddr>),
    /// The API server, which is reached as the node reaches it (N20).
    Server,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Namespace and name of the Service.
    pub(crate) service: (String, String),
    pub(crate) uid: String,
    pub(crate) backends: Backends,
    /// How long a client stays with whom it was given.
    pub(crate) affinity: Option<Duration>,
}

/// What a node knows of Services.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) services: BTreeMap<(String, String), Arc<Object>>,
    pub(crate) slices: BTreeMap<(String, String), Arc<Object>>,
}

/// The node for which the table is made.
pub(crate) struct Here<'a> {
    pub(crate) node: &'a str,
    /// Whether an address can be dialled from here at all.
    pub(crate) reaches: &'a dyn Fn(IpAddr) -> bool,
}

/// Everything that is to be listened on.
pub(crate) fn table(known: &Known, here: &Here<'_>) -> BTreeMap<Listener, Target> {
    let mut slices: BTreeMap<(&str, &str), Vec<&Object>> = BTreeMap::new();
    for slice in known.slices.values() {
        let name = slice.str_at(&["metadata", "labels", OF_SERVICE]);
        if let Some(name) = name.filter(|_| slice.str_at(&["addressType"]) == Some("IPv4")) {
            slices.entry((slice.namespace(), name)).or_default().push(slice);
        }
    }
    let mut all = BTreeMap::new();
    for service in known.services.values() {
        let found = slices.get(&(service.namespace(), service.name()));
        of_service(service, found.map(Vec::as_slice).unwrap_or_default(), here, &mut all);
    }
    all
}

fn of_service(
    service: &Object,
    slices: &[&Object],
    here: &Here<'_>,
    all: &mut BTreeMap<Listener, Target>,
) {
    let left = service.at(&["metadata", "labels", LEFT_TO_OTHERS]).is_some();
    if left || service.str_at(&["spec", "type"]) == Some("ExternalName") {
        return;
    }
    let Some(Ok(address)) = service.str_at(&["spec", "clusterIP"]).map(str::parse::<Ipv4Addr>)
    else {
        return;
    };
    let key = (service.namespace().to_owned(), service.name().to_owned());
    let is_server = key.0 == "default" && key.1 == "kubernetes";
    let affinity = affinity(service);
    let local = |field: &str| service.str_at(&["spec", field]) == Some("Local");
    for port in service.list_at(&["spec", "ports"]).iter().filter_map(Value::as_object) {
        let transport = match port.str_at(&["protocol"]).unwrap_or("TCP") {
            "TCP" => Transport::Tcp,
            "UDP" => Transport::Udp,
            _ => continue,
        };
        let number = |name: &str| port.int_at(&[name]).and_then(|port| u16::try_from(port).ok());
        let name = port.str_at(&["name"]).unwrap_or_default();
        let target = |only_here: bool| {
            let backends = if is_server {
                Backends::Server
            } else {
                let found = usable(slices, (name, transport), only_here, here);
                Backends::Endpoints(Some(found).filter(|found| !found.is_empty())?)
            };
            let uid = service.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned();
            Some(Target { service: key.clone(), uid, backends, affinity })
        };
        if let (Some(port), Some(target)) = (number("port"), target(local("internalTrafficPolicy")))
        {
            all.insert(Listener::Service(address, port, transport), target);
        }
        let node_port = number("nodePort").filter(|port| *port > 0);
        if let (Some(port), Some(target)) = (node_port, target(local("externalTrafficPolicy"))) {
            all.insert(Listener::Node(port, transport), target);
        }
    }
}

fn affinity(service: &Object) -> Option<Duration> {
    const USUAL: i64 = 3 * 60 * 60;
    if service.str_at(&["spec", "sessionAffinity"]) != Some("ClientIP") {
        return None;
    }
    let seconds = service.int_at(&["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
    Some(Duration::from_secs(seconds.unwrap_or(USUAL).max(1).unsigned_abs()))
}

/// The endpoints of a port that may be dialled: those that are ready; if there is none, those that still serve
/// while they end.
fn usable(
    slices: &[&Object],
    (name, transport): (&str, Transport),
    only_here: bool,
    here: &Here<'_>,
) -> Vec<SocketAddr> {
    let (mut ready, mut ending) = (BTreeSet::new(), BTreeSet::new());
    for slice in slices {
        let Some(port) = port(slice, name, transport) else { continue };
        for endpoint in slice.list_at(&["endpoints"]).iter().filter_map(Value::as_object) {
            if only_here && endpoint.str_at(&["nodeName"]) != Some(here.node) {
                continue;
            }
            let is = |condition: &str, usual: bool| {
                endpoint.bool_at(&["conditions", condition]).unwrap_or(usual)
            };
            let addresses = endpoint.list_at(&["addresses"]).iter().filter_map(Value::as_str);
            let address = addresses.filter_map(|text| text.parse::<IpAddr>().ok()).next();
            let Some(address) = address.filter(|address| (here.reaches)(*address)) else {
                continue;
            };
            if is("ready", true) {
                ready.insert(SocketAddr::new(address, port));
            } else if is("serving", false) && is("terminating", false) {
                ending.insert(SocketAddr::new(address, port));
            }
        }
    }
    let chosen = if ready.is_empty() { ending } else { ready };
    chosen.into_iter().collect()
}

/// The number that a slice has for a port of its Service.
fn port(slice: &Object, name: &str, transport: Transport) -> Option<u16> {
    let protocol = match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
    };
    let mut ports = slice.list_at(&["ports"]).iter().filter_map(Value::as_object);
    let found = ports.find(|port| {
        port.str_at(&["name"]).unwrap_or_default() == name
            && port.str_at(&["protocol"]).unwrap_or("TCP") == protocol
    });
    found?.int_at(&["port"]).and_then(|port| u16::try_from(port).ok())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Arc<Object> {
        Arc::new(value.as_object().unwrap().clone())
    }

    fn known(services: &[Value], slices: &[Value]) -> Known {
        let key = |object: &Arc<Object>| (object.namespace().to_owned(), object.name().to_owned());
        let all = |values: &[Value]| {
            let objects = values.iter().cloned().map(object);
            objects.map(|object| (key(&object), object)).collect()
        };
        Known { services: all(services), slices: all(slices) }
    }

    fn service(spec: Value) -> Value {
        json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": spec})
    }

    fn endpoint(address: &str, ready: bool, serving: bool, terminating: bool) -> Value {
        json!({"addresses": [address], "nodeName": "a", "conditions": {
            "ready": ready, "serving": serving, "terminating": terminating}})
    }

    fn slice(endpoints: Value) -> Value {
        json!({"metadata": {"namespace": "shop", "name": "web-1",
                "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]})
    }

    fn listed(service: Value, endpoints: Value) -> Vec<(Listener, Backends)> {
        let known = known(&[service], &[slice(endpoints)]);
        let here = Here { node: "a", reaches: &|address| address.to_string() != "10.244.9.9" };
        table(&known, &here).into_iter().map(|(at, target)| (at, target.backends)).collect()
    }

    fn web() -> Value {
        service(json!({"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": 80}]}))
    }

    fn at(addresses: &[&str]) -> Backends {
        Backends::Endpoints(addresses.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn n12_n14_a_port_is_listened_on_while_somebody_is_ready() {
        let key = Listener::Service(Ipv4Addr::new(10, 96, 0, 7), 80, Transport::Tcp);
        for (endpoints, expected) in [
            (json!([]), None),
            (Value::Null, None),
            (json!([endpoint("10.244.0.2", false, false, false)]), None),
            (
                json!([
                    endpoint("10.244.0.2", true, true, false),
                    endpoint("10.244.0.3", false, true, true)
                ]),
                Some(at(&["10.244.0.2:8080"])),
            ),
            (
                json!([
                    endpoint("10.244.0.2", false, false, true),
                    endpoint("10.244.0.3", false, true, true)
                ]),
                Some(at(&["10.244.0.3:8080"])),
            ),
            (json!([endpoint("10.244.9.9", true, true, false)]), None),
            // What says nothing of itself counts as ready.
            (json!([{"addresses": ["10.244.0.2"]}]), Some(at(&["10.244.0.2:8080"]))),
        ] {
            let found = listed(web(), endpoints.clone());
            assert_eq!(
                found,
                expected.map(|to| (key, to)).into_iter().collect::<Vec<_>>(),
                "{endpoints}"
            );
        }
    }

    #[test]
    fn n14_services_that_nobody_serves_here_are_left_alone() {
        let ready = || json!([endpoint("10.244.0.2", true, true, false)]);
        assert_eq!(listed(web(), ready()).len(), 1);
        let mut foreign = web();
        foreign["metadata"]["labels"] =
            json!({"service.kubernetes.io/service-proxy-name": "other"});
        assert_eq!(listed(foreign, ready()), []);
        for (name, value) in [
            ("clusterIP", json!("None")),
            ("clusterIP", json!("fd00::1")),
            ("clusterIP", Value::Null),
            ("type", json!("ExternalName")),
            ("ports", json!([{"name": "http", "port": 80, "protocol": "SCTP"}])),
            ("ports", json!([{"name": "other", "port": 80}])),
        ] {
            let mut service = web();
            service["spec"][name] = value.clone();
            assert_eq!(listed(service, ready()), [], "{name} {value}");
        }
    }

    #[test]
    fn n14_local_policies_keep_to_the_node() {
        let mut both = json!([
            endpoint("10.244.0.2", true, true, false),
            endpoint("10.244.0.3", true, true, false)
        ]);
        both[1]["nodeName"] = json!("b");
        let mut service = web();
        service["spec"]["type"] = json!("NodePort");
        service["spec"]["ports"][0]["nodePort"] = json!(30080);
        let all = at(&["10.244.0.2:8080", "10.244.0.3:8080"]);
        let own = at(&["10.244.0.2:8080"]);
        let backends = |service: &Value| -> Vec<Backends> {
            listed(service.clone(), both.clone()).into_iter().map(|(_, to)| to).collect()
        };
        assert_eq!(backends(&service), [all.clone(), all.clone()]);
        service["spec"]["internalTrafficPolicy"] = json!("Local");
        assert_eq!(backends(&service), [own.clone(), all.clone()]);
        service["spec"]["externalTrafficPolicy"] = json!("Local");
        assert_eq!(backends(&service), [own.clone(), own]);
        let ports: Vec<Listener> =
            listed(service, both.clone()).into_iter().map(|(at, _)| at).collect();
        assert_eq!(ports[1], Listener::Node(30080, Transport::Tcp));
    }

    #[test]
    fn n15_affinity_has_a_time() {
        let target = |config: Value| {
            let mut service = web();
            service["spec"]["sessionAffinity"] = json!("ClientIP");
            service["spec"]["sessionAffinityConfig"] = config;
            let known =
                known(&[service], &[slice(json!([endpoint("10.244.0.2", true, true, false)]))]);
            let all = table(&known, &Here { node: "a", reaches: &|_| true });
            all.into_values().next().unwrap().affinity
        };
        assert_eq!(target(Value::Null), Some(Duration::from_secs(10_800)));
        assert_eq!(
            target(json!({"clientIP": {"timeoutSeconds": 7}})),
            Some(Duration::from_secs(7))
        );
    }

    #[test]
    fn n20_the_service_of_the_server_needs_no_endpoints() {
        let kubernetes = json!({"metadata": {"namespace": "default", "name": "kubernetes"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]}});
        let found = table(&known(&[kubernetes], &[]), &Here { node: "a", reaches: &|_| false });
        let key = Listener::Service(Ipv4Addr::new(10, 96, 0, 1), 443, Transport::Tcp);
        assert_eq!(found[&key].backends, Backends::Server);
        assert_eq!((found.len(), found[&key].affinity), (1, None));
    }
}
