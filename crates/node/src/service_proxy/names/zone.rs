//! Which names there are and what they have: a pure function of Services and their EndpointSlices (N22).

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};

use super::message::{A, ANY, Code, Data, Question};
use crate::service_proxy::table::Known;

/// The domain of the cluster.
pub(crate) const DOMAIN: &str = "cluster.local";
const REVERSE: &str = "in-addr.arpa";
/// The version of the scheme of names.
const SCHEME: &str = "1.1.0";

/// All names of a cluster.
#[derive(Debug, Default)]
pub(super) struct Zone {
    names: HashMap<String, Vec<Data>>,
    /// Names that only have others below them.
    parents: HashSet<String>,
}

/// What a zone says to a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// These records of these names.
    Records(Code, Vec<(String, Data)>),
    /// This alias, and what that name has elsewhere.
    Alias(String),
    /// It is another's to say.
    Elsewhere,
}

impl Zone {
    pub(super) fn new(known: &Known) -> Zone {
        let mut zone = Zone::default();
        zone.put(format!("dns-version.{DOMAIN}"), Data::Text(SCHEME.to_owned()));
        for top in ["svc", "pod"] {
            zone.parents.insert(format!("{top}.{DOMAIN}"));
        }
        zone.parents.insert(DOMAIN.to_owned());
        for service in known.services.values() {
            zone.service(service);
        }
        for slice in known.slices.values() {
            let name = slice.str_at(&["metadata", "labels", "kubernetes.io/service-name"]);
            let key = (slice.namespace().to_owned(), name.unwrap_or_default().to_owned());
            if let Some(service) = known.services.get(&key).filter(|service| is_headless(service)) {
                zone.endpoints(service, slice);
            }
        }
        zone
    }

    fn put(&mut self, name: String, data: Data) {
        let mut rest = name.as_str();
        while let Some((_, parent)) = rest.split_once('.') {
            if parent.len() < DOMAIN.len() || !self.parents.insert(parent.to_owned()) {
                break;
            }
            rest = parent;
        }
        let all = self.names.entry(name).or_default();
        if !all.contains(&data) {
            all.push(data);
        }
    }

    fn service(&mut self, service: &Object) {
        let name = name_of(service);
        if service.str_at(&["spec", "type"]) == Some("ExternalName") {
            if let Some(target) = service.str_at(&["spec", "externalName"]) {
                let target = target.trim_end_matches('.').to_ascii_lowercase();
                self.put(name, Data::Alias(target));
            }
            return;
        }
        let Some(Ok(address)) = service.str_at(&["spec", "clusterIP"]).map(str::parse::<Ipv4Addr>)
        else {
            return;
        };
        self.put(name.clone(), Data::Address(address));
        self.put(reverse(address), Data::Pointer(name.clone()));
        for port in service.list_at(&["spec", "ports"]).iter().filter_map(Value::as_object) {
            self.port(&name, port, &name);
        }
    }

    /// `_http._tcp` of a Service: a port of a target.
    fn port(&mut self, service: &str, port: &Object, target: &str) {
        let number = port.int_at(&["port"]).and_then(|port| u16::try_from(port).ok());
        let name = port.str_at(&["name"]).filter(|name| !name.is_empty());
        if let (Some(number), Some(name)) = (number, name) {
            let protocol = port.str_at(&["protocol"]).unwrap_or("TCP").to_ascii_lowercase();
            let data = Data::Service { port: number, target: target.to_owned() };
            self.put(format!("_{name}._{protocol}.{service}"), data);
        }
    }

    fn endpoints(&mut self, service: &Object, slice: &Object) {
        let name = name_of(service);
        for endpoint in slice.list_at(&["endpoints"]).iter().filter_map(Value::as_object) {
            let ready = endpoint.bool_at(&["conditions", "ready"]).unwrap_or(true);
            let addresses = endpoint.list_at(&["addresses"]).iter().filter_map(Value::as_str);
            for address in addresses.filter_map(|text| text.parse::<Ipv4Addr>().ok()) {
                if !ready {
                    continue;
                }
                let host = endpoint.str_at(&["hostname"]).filter(|host| !host.is_empty());
                let host = host.map_or_else(|| dashed(address), str::to_owned);
                let target = format!("{host}.{name}");
                self.put(name.clone(), Data::Address(address));
                self.put(target.clone(), Data::Address(address));
                self.put(reverse(address), Data::Pointer(target.clone()));
                for port in slice.list_at(&["ports"]).iter().filter_map(Value::as_object) {
                    self.port(&name, port, &target);
                }
            }
        }
    }

    /// What a question is answered.
    pub(super) fn find(&self, asked: &Question) -> Found {
        let name = asked.name.as_str();
        let within = |domain: &str| {
            name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        let Some(all) = self.names.get(name) else {
            if !within(DOMAIN) {
                // Addresses that are nobody's here may have names elsewhere.
                return Found::Elsewhere;
            }
            return match pod(name) {
                Some(address) => self.of(asked, &[Data::Address(address)]),
                None if self.parents.contains(name) => Found::Records(Code::Good, Vec::new()),
                None => Found::Records(Code::NoName, Vec::new()),
            };
        };
        debug_assert!(within(DOMAIN) || within(REVERSE), "{name}");
        self.of(asked, all)
    }

    fn of(&self, asked: &Question, all: &[Data]) -> Found {
        if let (Some(Data::Alias(target)), A) = (all.first(), asked.kind) {
            return match self.names.get(target) {
                Some(there) => {
                    let alias = (asked.name.clone(), Data::Alias(target.clone()));
                    // One step only: a circle of aliases ends here.
                    let there = there.iter().filter(|data| data.kind() == A).cloned();
                    let there = there.map(|data| (target.clone(), data));
                    Found::Records(Code::Good, std::iter::once(alias).chain(there).collect())
                }
                None => Found::Alias(target.clone()),
            };
        }
        let fits = |data: &&Data| {
            asked.kind == ANY || data.kind() == asked.kind || matches!(data, Data::Alias(_))
        };
        let found = all.iter().filter(fits).map(|data| (asked.name.clone(), data.clone()));
        Found::Records(Code::Good, found.collect())
    }
}

fn is_headless(service: &Object) -> bool {
    service.str_at(&["spec", "clusterIP"]) == Some("None")
}

fn name_of(service: &Object) -> String {
    format!("{}.{}.svc.{DOMAIN}", service.name(), service.namespace())
}

fn dashed(address: Ipv4Addr) -> String {
    address.to_string().replace('.', "-")
}

fn reverse(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("{d}.{c}.{b}.{a}.{REVERSE}")
}

/// The address that `10-244-0-7.shop.pod.cluster.local` says itself.
fn pod(name: &str) -> Option<Ipv4Addr> {
    let rest = name.strip_suffix(DOMAIN)?.strip_suffix(".pod.")?;
    let (address, namespace) = rest.split_once('.')?;
    if namespace.is_empty() || namespace.contains('.') {
        return None;
    }
    let parsed: Ipv4Addr = address.replace('-', ".").parse().ok()?;
    (dashed(parsed) == address).then_some(parsed)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use std::sync::Arc;

    use serde_json::json;

    use super::super::message;
    use super::*;

    fn known() -> Known {
        let mut known = Known::default();
        for (name, spec) in [
            ("web", json!({"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": 80}]})),
            ("db", json!({"clusterIP": "None"})),
            ("away", json!({"type": "ExternalName", "externalName": "Example.COM."})),
            ("near", json!({"type": "ExternalName", "externalName": "web.shop.svc.cluster.local"})),
            (
                "self",
                json!({"type": "ExternalName", "externalName": "self.shop.svc.cluster.local"}),
            ),
        ] {
            let service = json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec});
            let service = Arc::new(service.as_object().unwrap().clone());
            known.services.insert(("shop".to_owned(), name.to_owned()), service);
        }
        let slice = json!({
            "metadata": {"namespace": "shop", "labels": {"kubernetes.io/service-name": "db"}},
            "addressType": "IPv4", "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
            "endpoints": [
                {"addresses": ["10.244.0.5"], "hostname": "db-0", "conditions": {"ready": true}},
                {"addresses": ["10.244.0.6"], "conditions": {"ready": true}},
                {"addresses": ["10.244.0.9"], "conditions": {"ready": false}},
            ],
        });
        let slice = Arc::new(slice.as_object().unwrap().clone());
        known.slices.insert(("shop".to_owned(), "db-1".to_owned()), slice);
        known
    }

    fn ask(name: &str, kind: u16) -> Found {
        let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label.bytes());
        }
        bytes.push(0);
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        Zone::new(&known()).find(&message::read(&bytes).unwrap())
    }

    fn data(name: &str, kind: u16) -> Vec<String> {
        match ask(name, kind) {
            Found::Records(Code::Good, all) => {
                let mut all: Vec<String> =
                    all.into_iter().map(|(_, data)| format!("{data:?}")).collect();
                all.sort();
                all
            }
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn n22_services_endpoints_and_pods_have_names() {
        let none = || vec!["Records(NoName, [])".to_owned()];
        for (name, kind, expected) in [
            ("web.shop.svc.cluster.local", A, vec!["Address(10.96.0.7)".to_owned()]),
            ("WEB.shop.SVC.cluster.local", A, vec!["Address(10.96.0.7)".to_owned()]),
            ("web.shop.svc.cluster.local", 28, vec![]),
            ("web.other.svc.cluster.local", A, none()),
            (
                "db.shop.svc.cluster.local",
                A,
                vec!["Address(10.244.0.5)".to_owned(), "Address(10.244.0.6)".to_owned()],
            ),
            ("db-0.db.shop.svc.cluster.local", A, vec!["Address(10.244.0.5)".to_owned()]),
            ("10-244-0-6.db.shop.svc.cluster.local", A, vec!["Address(10.244.0.6)".to_owned()]),
            ("10-244-0-9.db.shop.svc.cluster.local", A, none()),
            ("10-244-0-77.shop.pod.cluster.local", A, vec!["Address(10.244.0.77)".to_owned()]),
            ("10-244-0-777.shop.pod.cluster.local", A, none()),
            (
                "_http._tcp.web.shop.svc.cluster.local",
                33,
                vec!["Service { port: 80, target: \"web.shop.svc.cluster.local\" }".to_owned()],
            ),
            (
                "7.0.96.10.in-addr.arpa",
                12,
                vec!["Pointer(\"web.shop.svc.cluster.local\")".to_owned()],
            ),
            (
                "5.0.244.10.in-addr.arpa",
                12,
                vec!["Pointer(\"db-0.db.shop.svc.cluster.local\")".to_owned()],
            ),
            ("dns-version.cluster.local", 16, vec!["Text(\"1.1.0\")".to_owned()]),
            ("shop.svc.cluster.local", A, vec![]),
            ("cluster.local", A, vec![]),
            ("cluster.local.", A, none()),
        ] {
            if name.ends_with('.') {
                continue;
            }
            assert_eq!(data(name, kind), expected, "{name} {kind}");
        }
        assert_eq!(data("_sql._tcp.db.shop.svc.cluster.local", 33).len(), 2);
    }

    #[test]
    fn n22_n43_an_alias_leads_one_step_and_what_is_outside_is_elsewhere() {
        assert_eq!(ask("away.shop.svc.cluster.local", A), Found::Alias("example.com".to_owned()));
        let near = data("near.shop.svc.cluster.local", A);
        assert_eq!(near, ["Address(10.96.0.7)", "Alias(\"web.shop.svc.cluster.local\")"]);
        assert_eq!(data("self.shop.svc.cluster.local", A).len(), 1, "a circle ends");
        assert_eq!(data("away.shop.svc.cluster.local", 28), ["Alias(\"example.com\")"]);
        for name in ["example.com", "notcluster.local", "9.9.9.9.in-addr.arpa"] {
            assert_eq!(ask(name, A), Found::Elsewhere, "{name}");
        }
    }
}
