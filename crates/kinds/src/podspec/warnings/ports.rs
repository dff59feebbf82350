//! Ports of containers that clash: in number, on the host, or by name.

use std::collections::BTreeMap;

use tenure_machinery::{Object, Path};

use super::Warnings;
use crate::podspec::view::{each_container, int, items, text as text_of};

/// A port as others may clash with it: its number and protocol, then where the host has it.
type Port<'a> = (i64, &'a str, i64, &'a str);

/// Ports that clash, within a container or between containers.
pub(super) fn warn_ports(spec: &Object, path: &Path<'_>, warnings: &mut Warnings) {
    let mut ports: BTreeMap<Port<'_>, Vec<String>> = BTreeMap::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut repeated = Warnings::default();
    each_container(spec, path, &mut |container, at| {
        let list = at.field("ports");
        for (index, port) in items(container, "ports").enumerate() {
            let at = list.index(index);
            let host = (int(port, "hostPort").unwrap_or(0), text_of(port, "hostIP"));
            if !host.1.is_empty() && host.0 == 0 {
                warnings.at(&at, &format!("hostIP set without hostPort: {:?}", host.1));
            }
            let number = int(port, "containerPort").unwrap_or(0);
            let key = (number, text_of(port, "protocol"), host.0, host.1);
            warn_clashes(&ports, key, &at, warnings);
            ports.entry(key).or_default().push(at.to_string());
            let name = text_of(port, "name");
            if name.is_empty() {
                continue;
            }
            match names.get(name) {
                Some(other) => repeated.at(
                    &at,
                    &format!(
                        "duplicate port name {name:?} with {other}, services and probes that \
                         select ports by name will use {other}"
                    ),
                ),
                None => {
                    names.insert(name, at.to_string());
                }
            }
        }
    });
    repeated.0.into_iter().for_each(|warning| warnings.push(|| warning));
}

/// Each port seen before that clashes; only those are looked at, and no more than may be told.
fn warn_clashes(
    ports: &BTreeMap<Port<'_>, Vec<String>>,
    key: Port<'_>,
    path: &Path<'_>,
    warnings: &mut Warnings,
) {
    let (number, protocol, host, address) = key;
    let first = |host| (number, protocol, host, "");
    let same_port = |other: &Port<'_>| (other.0, other.1) == (number, protocol);
    let mut tell = |how: &str, others: &[String]| {
        for other in others {
            if warnings.is_full() {
                return false;
            }
            warnings.at(path, &format!("{how} port definition with {other}"));
        }
        true
    };
    if !ports.get(&key).is_none_or(|others| tell("duplicate", others)) {
        return;
    }
    // Without a number, the host's port overlaps with every other of this port; else with those without.
    let others = ports
        .range(first(if host == 0 { i64::MIN } else { 0 })..)
        .take_while(|(other, _)| same_port(other) && (host == 0 || other.2 == 0))
        .filter(|(other, _)| **other != key);
    for (_, others) in others {
        if !tell("overlapping", others) {
            return;
        }
    }
    // On one port of the host, all addresses and one address leave open which is meant.
    if host != 0 && !address.is_empty() {
        tell("dangerously ambiguous", ports.get(&first(host)).map_or(&[], Vec::as_slice));
    } else if host != 0 {
        let others = ports
            .range(first(host)..)
            .take_while(|(other, _)| same_port(other) && other.2 == host)
            .filter(|(other, _)| !other.3.is_empty());
        for (_, others) in others {
            if !tell("dangerously ambiguous", others) {
                return;
            }
        }
    }
}
