//! The variables that tell a container where Services are (R61g).

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

/// The Service that every pod hears of, and its namespace.
const MASTER: (&str, &str) = ("default", "kubernetes");

/// A Service that a pod hears of.
struct Heard<'a> {
    name: &'a str,
    /// What the names of its variables begin with.
    prefix: String,
    host: &'a str,
    ports: &'a [Value],
}

impl<'a> Heard<'a> {
    /// None for a Service without an address of its own.
    fn of(service: &'a Object, name: &'a str) -> Option<Heard<'a>> {
        let spec = service.map_at(&["spec"])?;
        let host = text(spec, "clusterIP");
        if host.is_empty() || host == "None" {
            return None;
        }
        let ports = spec.list_at(&["ports"]);
        Some(Heard { name, prefix: variable_name(name), host, ports })
    }
}

/// Variables of the Services a pod in `namespace` hears of, in the order of their names; with
/// `links` those of its namespace, and `kubernetes` of `default` always.
#[must_use]
pub fn service_env(services: &[Arc<Object>], namespace: &str, links: bool) -> Vec<(String, Bytes)> {
    let mut heard = Vec::new();
    let mut master = None;
    for service in services {
        let Some(metadata) = service.map_at(&["metadata"]) else { continue };
        let of = text(metadata, "namespace");
        let own = links && of == namespace;
        if own {
            heard.extend(Heard::of(service, text(metadata, "name")));
        } else if of == MASTER.0 && text(metadata, "name") == MASTER.1 {
            master = Heard::of(service, MASTER.1);
        }
    }
    // A Service of the pod's own namespace hides the one of `default`.
    if let Some(master) = master.filter(|_| heard.iter().all(|own| own.name != MASTER.1)) {
        heard.push(master);
    }
    // By what every name of a variable begins with, so that all names come nearly in order.
    let start = |heard: &Heard<'_>| [heard.prefix.as_str(), "_"].concat();
    heard.sort_by_cached_key(start);
    let mut out = Vec::with_capacity(heard.len() * 8);
    heard.iter().for_each(|service| variables(service, &mut out));
    out
}

/// The variables of one Service, in the order of their names where it has one port.
fn variables(service: &Heard<'_>, out: &mut Vec<(String, Bytes)>) {
    let Heard { prefix, host, ports, .. } = service;
    let mut first = None;
    for port in ports.iter().filter_map(Value::as_object) {
        let number = number(port);
        let protocol = match text(port, "protocol") {
            "" => "TCP",
            protocol => protocol,
        };
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        let mut address = [protocol, "://", open, host, close, ":", &number].concat();
        if let Some(letters) = address.get_mut(..protocol.len()) {
            letters.make_ascii_lowercase();
        }
        // Every value is a part of the address, so all of them share its bytes.
        let address = Bytes::from(address);
        let host_at = protocol.len() + "://".len() + open.len();
        let host = address.slice(host_at..host_at + host.len());
        let port = address.slice(address.len() - number.len()..);
        if first.is_none() {
            out.push((joined(prefix, "_PORT"), address.clone()));
            first = Some((host.clone(), port.clone()));
        }
        let protocol_value = address.slice(..protocol.len());
        let protocol = protocol.to_ascii_uppercase();
        let prefix = [prefix.as_str(), "_PORT_", &number, "_", &protocol].concat();
        let names = ["_ADDR", "_PORT", "_PROTO"].map(|end| joined(&prefix, end));
        out.push((prefix, address));
        out.extend(names.into_iter().zip([host, port, protocol_value]));
    }
    let Some((host, first)) = first else {
        out.push((joined(prefix, "_SERVICE_HOST"), Bytes::copy_from_slice(host.as_bytes())));
        return;
    };
    out.push((joined(prefix, "_SERVICE_HOST"), host));
    out.push((joined(prefix, "_SERVICE_PORT"), first));
    for port in ports.iter().filter_map(Value::as_object) {
        let name = text(port, "name");
        if !name.is_empty() {
            let mut variable = joined(prefix, "_SERVICE_PORT_");
            variable.push_str(&variable_name(name));
            out.push((variable, number(port).into()));
        }
    }
}

fn joined(start: &str, end: &str) -> String {
    let mut name = String::with_capacity(start.len() + end.len());
    name.push_str(start);
    name.push_str(end);
    name
}

fn text<'a>(object: &'a Object, member: &str) -> &'a str {
    object.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn number(port: &Object) -> String {
    port.get("port").and_then(Value::as_i64).unwrap_or_default().to_string()
}

fn variable_name(name: &str) -> String {
    let mut name = name.replace('-', "_");
    name.make_ascii_uppercase();
    name
}
