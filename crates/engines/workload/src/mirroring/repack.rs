//! What slices Endpoints become: addresses with the same ports lie together, each of them once (ES5).
//!
//! ```text
//!   subsets ─► port ─► its addresses ─► ports with the same addresses ─► family ─► Wanted
//! ```

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

/// How many addresses of a subset are mirrored.
pub(super) const ADDRESSES_MAX: usize = 1000;

/// A slice as it should be.
pub(super) struct DesiredEndpointSlice {
    pub(super) family: &'static str,
    pub(super) ports: Vec<Value>,
    pub(super) endpoints: Vec<Value>,
}

impl DesiredEndpointSlice {
    /// Whether a slice is for the same ports and addresses of the same family.
    pub(super) fn fits(&self, slice: &Object) -> bool {
        let listed = slice.list_at(&["ports"]);
        slice.str_at(&["addressType"]) == Some(self.family)
            && listed.len() == self.ports.len()
            && self.ports.iter().all(|port| listed.contains(port))
    }

    /// Whether these are the endpoints, in any order.
    pub(super) fn holds(&self, endpoints: &[Value]) -> bool {
        let known: BTreeMap<EndpointIdentity, &Value> =
            endpoints.iter().map(|known| (identity(known), known)).collect();
        known.len() == endpoints.len()
            && known.len() == self.endpoints.len()
            && self.endpoints.iter().all(|own| known.get(&identity(own)) == Some(&own))
    }
}

/// An address counts once, by its text and the uid of what it belongs to.
type Address = (String, String);

/// Ports, and the addresses that have them, each with whether it is ready.
type Subset<'a> = (Vec<Value>, Vec<(&'a Value, bool)>);

/// What one endpoint is told from another by: address, host name, namespace and name of its target.
type EndpointIdentity = [String; 4];

/// The slices for these subsets, and how many addresses were left out.
pub(super) fn wanted(subsets: &[Value]) -> (Vec<DesiredEndpointSlice>, usize) {
    let mut all: Vec<DesiredEndpointSlice> = Vec::new();
    let mut left_out = 0;
    for (ports, addresses) in repacked(subsets) {
        let ports: Vec<Value> = ports.iter().map(port).collect();
        left_out += addresses.len().saturating_sub(ADDRESSES_MAX);
        for (address, ready) in addresses.into_iter().take(ADDRESSES_MAX) {
            let Some((family, endpoint)) = endpoint(address, ready) else { continue };
            let same =
                |slice: &DesiredEndpointSlice| slice.family == family && slice.ports == ports;
            let place = all.iter().position(same).unwrap_or_else(|| {
                all.push(DesiredEndpointSlice {
                    family,
                    ports: ports.clone(),
                    endpoints: Vec::new(),
                });
                all.len().saturating_sub(1)
            });
            let Some(slice) = all.get_mut(place) else { continue };
            if slice.endpoints.len() < ADDRESSES_MAX {
                slice.endpoints.push(endpoint);
            }
        }
    }
    for slice in &mut all {
        // Two subsets may have told the same endpoint; the later word counts.
        let by_identity = slice.endpoints.drain(..).map(|own| (identity(&own), own));
        let by_identity: BTreeMap<EndpointIdentity, Value> = by_identity.collect();
        slice.endpoints = by_identity.into_values().collect();
    }
    (all, left_out)
}

/// Ports that have the same addresses, and these: ready ones first.
fn repacked(subsets: &[Value]) -> Vec<Subset<'_>> {
    let mut addresses: BTreeMap<Address, &Value> = BTreeMap::new();
    let mut by_port: Vec<(Option<&Value>, BTreeMap<Address, bool>)> = Vec::new();
    for subset in subsets.iter().filter_map(Value::as_object) {
        let ports: Vec<Option<&Value>> = match subset.list_at(&["ports"]) {
            // Addresses without a port are not lost.
            [] => [None].to_vec(),
            ports => ports.iter().map(Some).collect(),
        };
        for port in ports {
            let place = by_port.iter().position(|(known, _)| *known == port);
            let place = place.unwrap_or_else(|| {
                by_port.push((port, BTreeMap::new()));
                by_port.len().saturating_sub(1)
            });
            let Some((_, found)) = by_port.get_mut(place) else { continue };
            for (list, ready) in [("addresses", true), ("notReadyAddresses", false)] {
                for address in subset.list_at(&[list]) {
                    addresses.entry(key(address)).or_insert(address);
                    let known = found.entry(key(address)).or_insert(ready);
                    // Not ready has the last word.
                    *known = *known && ready;
                }
            }
        }
    }
    let mut groups: Vec<(Vec<Value>, BTreeMap<Address, bool>)> = Vec::new();
    for (port, found) in by_port {
        let port = port.cloned();
        match groups.iter_mut().find(|(_, known)| *known == found) {
            Some((ports, _)) => ports.extend(port),
            None => groups.push((port.into_iter().collect(), found)),
        }
    }
    let read = |found: BTreeMap<Address, bool>| {
        let own = found.into_iter();
        let mut read: Vec<(&Value, bool)> =
            own.filter_map(|(key, ready)| Some((*addresses.get(&key)?, ready))).collect();
        read.sort_by_key(|(_, ready)| !ready);
        read
    };
    groups.into_iter().map(|(ports, found)| (ports, read(found))).collect()
}

fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    value.as_object().and_then(|value| value.str_at(path)).unwrap_or_default()
}

fn key(address: &Value) -> Address {
    (text(address, &["ip"]).to_string(), text(address, &["targetRef", "uid"]).to_string())
}

fn identity(endpoint: &Value) -> EndpointIdentity {
    let address = endpoint.as_object().map(|endpoint| endpoint.list_at(&["addresses"]));
    let address = address.and_then(|listed| listed.first()?.as_str()).unwrap_or_default();
    let target = |member: &str| text(endpoint, &["targetRef", member]).to_string();
    let hostname = text(endpoint, &["hostname"]).to_string();
    [address.to_string(), hostname, target("namespace"), target("name")]
}

/// A port as slices write it: its name is there, also when it is empty.
fn port(port: &Value) -> Value {
    let mut port = port.as_object().cloned().unwrap_or_default();
    port.entry("name").or_insert_with(|| "".into());
    Value::Object(port)
}

fn endpoint(address: &Value, ready: bool) -> Option<(&'static str, Value)> {
    let ip: IpAddr = text(address, &["ip"]).parse().ok()?;
    let ip = ip.to_canonical();
    let mut made = Object::new();
    made.insert("addresses".to_string(), json!([ip.to_string()]));
    made.insert("conditions".to_string(), json!({"ready": ready}));
    for member in ["targetRef", "nodeName", "hostname"] {
        if let Some(value) = address.get(member).filter(|value| value.as_str() != Some("")) {
            made.insert(member.to_string(), value.clone());
        }
    }
    Some((if ip.is_ipv4() { "IPv4" } else { "IPv6" }, Value::Object(made)))
}
