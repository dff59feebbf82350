//! Addresses and node ports of Services (section 7.1).
//!
//! Each cluster address is an `IPAddress` object, taken in the same transaction as the Service: two
//! Services can never hold one address, and nothing leaks when a write fails. Node ports are taken the
//! same way under keys of their own. Addresses come from the networks of ServiceCIDRs that are ready; a
//! write relies on the one it took from, so that a network can be removed at any moment (R79a).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::{Value, json};
use tenure_machinery::network::IpNetwork;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path};
use tenure_world::{Draft, Precondition, World, WriteOperation};

use crate::api::ApiServer;
use crate::write::commit::Extras;

/// The ServiceCIDR with the range that the server was told of.
pub(crate) const SERVICE_RANGE_NAME: &str = "kubernetes";
/// How many of the lowest addresses are left to those who ask for one by name: a sixteenth of the network,
/// but not fewer or more than this.
const RESERVED: std::ops::RangeInclusive<u32> = 16..=256;
/// How many addresses are looked at one by one when guessing finds none.
const SCANNED_MAX: u32 = 65_536;
/// Where node ports come from.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
const TRIES: usize = 512;

/// A network that Services get addresses from now.
struct ServiceNetwork {
    /// The ServiceCIDR.
    key: Arc<str>,
    uid: Box<str>,
    network: IpNetwork,
}

impl ServiceNetwork {
    /// That the ServiceCIDR is there still and not being deleted.
    fn guard(&self) -> Precondition {
        Precondition::Living { key: Arc::clone(&self.key), uid: self.uid.clone() }
    }
}

/// The networks of ServiceCIDRs that are ready and stay; the first of the cluster comes first.
fn networks(state: &World) -> Vec<ServiceNetwork> {
    let mut found = Vec::new();
    for record in state.range("/registry/servicecidrs/", None).filter(|record| !record.deleting()) {
        let Ok(object) = serde_json::from_slice::<Object>(record.bytes()) else { continue };
        let conditions = object.list_at(&["status", "conditions"]).iter();
        let is = |condition: &Object, member: &str, value: &str| {
            condition.str_at(&[member]) == Some(value)
        };
        let ready = conditions
            .filter_map(Value::as_object)
            .any(|condition| is(condition, "type", "Ready") && is(condition, "status", "True"));
        let texts = object.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
        let networks =
            texts.filter_map(IpNetwork::parse).filter(|network| ready && network.is_ipv4());
        let (key, uid) = (record.key(), record.uid());
        found.extend(networks.map(|network| ServiceNetwork {
            key: Arc::clone(key),
            uid: uid.into(),
            network,
        }));
    }
    let first = format!("/registry/servicecidrs/{SERVICE_RANGE_NAME}");
    found.sort_by_key(|network| *network.key != *first);
    found
}

fn address_key(address: &str) -> String {
    format!("/registry/ipaddresses/{address}")
}

fn port_key(port: i64) -> String {
    format!("/registry/ranges/servicenodeports/{port}")
}

/// Takes what the Service needs and gives back what it no longer has.
pub(super) fn allocate(
    api: &ApiServer,
    state: &World,
    old: Option<&Object>,
    service: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    cluster_address(api, state, old, service, extras)?;
    node_ports(api, state, old, service, extras)
}

/// Gives back everything a removed Service had.
pub(super) fn release(state: &World, service: &Object, extras: &mut Extras) {
    let address = service.str_at(&["spec", "clusterIP"]).unwrap_or_default();
    free(state, &address_key(address), extras);
    for port in ports_of(service) {
        free(state, &port_key(port), extras);
    }
}

fn free(state: &World, key: &str, extras: &mut Extras) {
    if let Some(record) = state.get(key) {
        extras.writes.push(WriteOperation::Delete { key: Arc::clone(record.key()) });
    }
}

fn take(key: &str, kind: &str, api_version: &str, object: &Object, extras: &mut Extras) {
    extras.guards.push(Precondition::At { key: key.into(), revision: None });
    extras.writes.push(WriteOperation::Put {
        key: key.into(),
        draft: Draft::encode(kind, api_version, object),
    });
}

fn cluster_address(
    api: &ApiServer,
    state: &World,
    old: Option<&Object>,
    service: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let stored =
        old.and_then(|old| old.str_at(&["spec", "clusterIP"])).unwrap_or_default().to_owned();
    let external = service.str_at(&["spec", "type"]) == Some("ExternalName");
    let requested = service.str_at(&["spec", "clusterIP"]).unwrap_or_default().to_owned();
    if external {
        if !stored.is_empty() && stored != "None" {
            free(state, &address_key(&stored), extras);
        }
        return Ok(());
    }
    if requested == "None" || (!requested.is_empty() && requested == stored) {
        return Ok(());
    }
    let networks = networks(state);
    let (address, network) = if requested.is_empty() {
        draw_address(api, state, &networks)
            .ok_or_else(|| Failure::internal("failed to allocate a serviceIP: range is full"))?
    } else {
        let network = check_address(state, service, &requested, &networks)?;
        (requested, network)
    };
    extras.guards.push(network.guard());
    let spec = service.map_mut("spec");
    spec.insert("clusterIP".into(), address.as_str().into());
    spec.insert("clusterIPs".into(), json!([address]));
    let object = address_object(api, &address, service);
    take(&address_key(&address), "IPAddress", "networking.k8s.io/v1", &object, extras);
    Ok(())
}

fn draw_address<'a>(
    api: &ApiServer,
    state: &World,
    networks: &'a [ServiceNetwork],
) -> Option<(String, &'a ServiceNetwork)> {
    networks.iter().find_map(|from| {
        let hosts = from.network.ipv4_hosts();
        let reserved = match hosts / RESERVED.start() {
            0 => 0,
            part => part.clamp(*RESERVED.start(), *RESERVED.end()),
        };
        let free = |number: u32| {
            let address = from.network.ipv4_host(number)?.to_string();
            state.get(&address_key(&address)).is_none().then_some(address)
        };
        let guess = |_| {
            let width = hosts.checked_sub(reserved).filter(|width| *width > 0)?;
            free(reserved + api.chance.below(width))
        };
        // What nobody drew by chance is looked for; the reserved ones come last.
        let last = hosts.min(SCANNED_MAX);
        let found = (0..TRIES)
            .find_map(guess)
            .or_else(|| (reserved..last).chain(0..reserved.min(hosts)).find_map(free));
        found.map(|address| (address, from))
    })
}

fn check_address<'a>(
    state: &World,
    service: &Object,
    requested: &str,
    networks: &'a [ServiceNetwork],
) -> Result<&'a ServiceNetwork, Failure> {
    let has =
        |address: Ipv4Addr| networks.iter().find(|from| from.network.has_host(IpAddr::V4(address)));
    let why = match requested.parse::<Ipv4Addr>().map(has) {
        Ok(None) => "failed to allocate IP: the provided network does not match the current range",
        Ok(Some(_)) if state.get(&address_key(requested)).is_some() => {
            "failed to allocate IP: provided IP is already allocated"
        }
        Ok(Some(from)) => return Ok(from),
        Err(_) => "must be an IPv4 address of the service range",
    };
    let mut errors = Errors::new();
    let spec = Path::Root.field("spec");
    let path = spec.field("clusterIPs");
    errors.invalid(&path, json!([requested]), why);
    Err(Failure::invalid("", "Service", service.name(), errors))
}

fn address_object(api: &ApiServer, address: &str, service: &Object) -> Object {
    let value = json!({
        "metadata": {
            "name": address,
            "uid": api.chance.uid(),
            "creationTimestamp": crate::clock::now(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": { "parentRef": {
            "resource": "services", "namespace": service.namespace(), "name": service.name(),
        } },
    });
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}

fn node_ports(
    api: &ApiServer,
    state: &World,
    old: Option<&Object>,
    service: &mut Object,
    extras: &mut Extras,
) -> Result<(), Failure> {
    let before: Vec<i64> = old.map(ports_of).unwrap_or_default();
    let name = service.name().to_owned();
    let mut taken: Vec<i64> = Vec::new();
    if wants_node_ports(service) {
        // A drawn port is never one that the Service asks for further on.
        taken = ports_of(service);
        let spec = service.map_mut("spec");
        let Some(Value::Array(ports)) = spec.get_mut("ports") else { return Ok(()) };
        for (at, port) in ports.iter_mut().enumerate() {
            let Some(port) = port.as_object_mut() else { continue };
            let requested = port.int_at(&["nodePort"]).unwrap_or(0);
            let number = if requested == 0 {
                draw_port(api, state, &before, &taken).ok_or_else(|| {
                    Failure::internal("failed to allocate a nodePort: range is full")
                })?
            } else {
                check_port(state, &name, at, requested, &before)?;
                requested
            };
            port.insert("nodePort".into(), number.into());
            taken.push(number);
        }
    }
    taken.sort_unstable();
    taken.dedup();
    for port in taken.iter().filter(|port| !before.contains(port)) {
        let mut object = Object::new();
        object.insert("metadata".into(), json!({ "name": port.to_string() }));
        object.insert("service".into(), format!("{}/{name}", service.namespace()).into());
        take(&port_key(*port), "RangeAllocation", "v1", &object, extras);
    }
    for port in before.iter().filter(|port| !taken.contains(port)) {
        free(state, &port_key(*port), extras);
    }
    Ok(())
}

fn wants_node_ports(service: &Object) -> bool {
    match service.str_at(&["spec", "type"]) {
        Some("NodePort") => true,
        Some("LoadBalancer") => {
            service.bool_at(&["spec", "allocateLoadBalancerNodePorts"]).unwrap_or(true)
        }
        _ => false,
    }
}

/// Each node port once: TCP and UDP may share a number, and so one allocation.
fn ports_of(service: &Object) -> Vec<i64> {
    let mut ports: Vec<i64> = service
        .list_at(&["spec", "ports"])
        .iter()
        .filter_map(|port| port.get("nodePort").and_then(Value::as_i64))
        .filter(|port| *port > 0)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn draw_port(api: &ApiServer, state: &World, before: &[i64], taken: &[i64]) -> Option<i64> {
    let size = u32::try_from(NODE_PORTS.end() - NODE_PORTS.start() + 1).unwrap_or(1);
    (0..TRIES).map(|_| NODE_PORTS.start() + i64::from(api.chance.below(size))).find(|port| {
        !before.contains(port) && !taken.contains(port) && state.get(&port_key(*port)).is_none()
    })
}

fn check_port(
    state: &World,
    name: &str,
    at: usize,
    requested: i64,
    before: &[i64],
) -> Result<(), Failure> {
    let why = if !NODE_PORTS.contains(&requested) {
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    } else if !before.contains(&requested) && state.get(&port_key(requested)).is_some() {
        "provided port is already allocated"
    } else {
        return Ok(());
    };
    let mut errors = Errors::new();
    let spec = Path::Root.field("spec");
    let ports = spec.field("ports");
    let item = ports.index(at);
    errors.invalid(&item.field("nodePort"), requested, why);
    Err(Failure::invalid("", "Service", name, errors))
}
