//! Services, their endpoints, ingresses and addresses.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_machinery::object::{Object, ObjectExt};

use crate::column::{AGE, NAME, text, wide};
use crate::row::{RowInput, first_three};
use crate::{Column, Printer, selector};

/// Services.
pub(crate) static SERVICE: Printer = Printer { columns: SERVICE_COLUMNS, cells: service_cells };

static SERVICE_COLUMNS: &[Column] = &[
    NAME,
    text("Type", "How the service is reached"),
    text("Cluster-IP", "Address inside the cluster"),
    text("External-IP", "Addresses outside the cluster"),
    text("Port(s)", "Ports, node ports and protocols"),
    AGE,
    wide("Selector", "Labels that select the pods"),
];

fn service_cells(row: &RowInput<'_>) -> Vec<Value> {
    let cluster = row.texts(&["spec", "clusterIPs"]);
    let ports: Vec<_> = row.items(&["spec", "ports"]).map(port).collect();
    vec![
        json!(row.name()),
        json!(row.text(&["spec", "type"])),
        json!(cluster.first().copied().unwrap_or("<none>")),
        json!(external(row)),
        json!(if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }),
        json!(row.age()),
        json!(selector::labels(row.object.map_at(&["spec", "selector"]))),
    ]
}

fn port(port: &Object) -> String {
    let number = port.int_at(&["port"]).unwrap_or_default();
    let protocol = port.str_at(&["protocol"]).unwrap_or_default();
    match port.int_at(&["nodePort"]).unwrap_or_default() {
        1.. => format!("{number}:{}/{protocol}", port.int_at(&["nodePort"]).unwrap_or_default()),
        _ => format!("{number}/{protocol}"),
    }
}

fn external(row: &RowInput<'_>) -> String {
    let named = row.texts(&["spec", "externalIPs"]).into_iter().map(str::to_owned);
    match row.text(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => join(named.collect(), "<none>"),
        "LoadBalancer" => join(balancer(row).into_iter().chain(named).collect(), "<pending>"),
        "ExternalName" => row.text(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn join(texts: Vec<String>, empty: &str) -> String {
    if texts.is_empty() { empty.to_owned() } else { texts.join(",") }
}

/// Addresses or host names of the load balancer, sorted.
fn balancer(row: &RowInput<'_>) -> BTreeSet<String> {
    row.items(&["status", "loadBalancer", "ingress"])
        .filter_map(|ingress| {
            ["ip", "hostname"]
                .iter()
                .find_map(|member| ingress.str_at(&[member]).filter(|text| !text.is_empty()))
        })
        .map(str::to_owned)
        .collect()
}

/// Endpoints.
pub(crate) static ENDPOINTS: Printer =
    Printer { columns: ENDPOINTS_COLUMNS, cells: endpoints_cells };

static ENDPOINTS_COLUMNS: &[Column] = &[NAME, text("Endpoints", "Ready addresses with ports"), AGE];

fn endpoints_cells(row: &RowInput<'_>) -> Vec<Value> {
    let shown = if row.count(&["subsets"]) == 0 {
        "<none>".to_owned()
    } else {
        let all: Vec<_> = row.items(&["subsets"]).flat_map(subset).collect();
        first_three(&all, "")
    };
    vec![json!(row.name()), json!(shown), json!(row.age())]
}

/// Every address with every port; addresses alone when there are no ports.
fn subset(subset: &Object) -> Vec<String> {
    let addresses: Vec<_> = subset
        .list_at(&["addresses"])
        .iter()
        .filter_map(|address| address.as_object()?.str_at(&["ip"]))
        .collect();
    let ports = subset.list_at(&["ports"]);
    if ports.is_empty() {
        return addresses.into_iter().map(str::to_owned).collect();
    }
    let numbers = ports
        .iter()
        .map(|port| port.as_object().and_then(|port| port.int_at(&["port"])).unwrap_or_default());
    numbers.flat_map(|port| addresses.iter().map(move |address| host_port(address, port))).collect()
}

fn host_port(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// Endpoint slices.
pub(crate) static ENDPOINT_SLICE: Printer = Printer { columns: SLICE_COLUMNS, cells: slice_cells };

static SLICE_COLUMNS: &[Column] = &[
    NAME,
    text("AddressType", "Kind of the addresses"),
    text("Ports", "Ports of every endpoint"),
    text("Endpoints", "Addresses of the endpoints"),
    AGE,
];

fn slice_cells(row: &RowInput<'_>) -> Vec<Value> {
    let ports: Vec<_> = row
        .items(&["ports"])
        .map(|port| match port.int_at(&["port"]) {
            Some(number) => number.to_string(),
            None => port.str_at(&["name"]).unwrap_or("*").to_owned(),
        })
        .collect();
    let addresses: Vec<_> = row
        .items(&["endpoints"])
        .flat_map(|endpoint| endpoint.list_at(&["addresses"]))
        .map(|address| address.as_str().unwrap_or_default().to_owned())
        .collect();
    vec![
        json!(row.name()),
        json!(row.text(&["addressType"])),
        json!(first_three(&ports, "<unset>")),
        json!(first_three(&addresses, "<unset>")),
        json!(row.age()),
    ]
}

/// Ingresses.
pub(crate) static INGRESS: Printer = Printer { columns: INGRESS_COLUMNS, cells: ingress_cells };

static INGRESS_COLUMNS: &[Column] = &[
    NAME,
    text("Class", "Class that serves the ingress"),
    text("Hosts", "Host names with rules"),
    text("Address", "Addresses of the load balancer"),
    text("Ports", "Ports that are open"),
    AGE,
];

fn ingress_cells(row: &RowInput<'_>) -> Vec<Value> {
    let addresses: Vec<_> = balancer(row).into_iter().collect();
    vec![
        json!(row.name()),
        json!(row.text_or(&["spec", "ingressClassName"], "<none>")),
        json!(hosts(row)),
        json!(addresses.join(",")),
        json!(if row.count(&["spec", "tls"]) == 0 { "80" } else { "80, 443" }),
        json!(row.age()),
    ]
}

/// The first three hosts; what is said to be more counts rules, with or without a host.
fn hosts(row: &RowInput<'_>) -> String {
    let rules = row.count(&["spec", "rules"]);
    let mut shown = Vec::new();
    for rule in row.items(&["spec", "rules"]) {
        if shown.len() == 3 {
            return format!("{} + {} more...", shown.join(","), rules - 3);
        }
        shown.extend(rule.str_at(&["host"]).filter(|host| !host.is_empty()));
    }
    if shown.is_empty() { "*".to_owned() } else { shown.join(",") }
}

/// Ingress classes.
pub(crate) static INGRESS_CLASS: Printer = Printer { columns: CLASS_COLUMNS, cells: class_cells };

static CLASS_COLUMNS: &[Column] = &[
    NAME,
    text("Controller", "Controller that serves the class"),
    text("Parameters", "Object with further settings"),
    AGE,
];

fn class_cells(row: &RowInput<'_>) -> Vec<Value> {
    let default = row.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
    let parameters = match row.object.map_at(&["spec", "parameters"]) {
        None => "<none>".to_owned(),
        Some(parameters) => {
            let member = |name| parameters.str_at(&[name]).unwrap_or_default();
            match parameters.str_at(&["apiGroup"]) {
                Some(group) => format!("{}.{group}/{}", member("kind"), member("name")),
                None => format!("{}/{}", member("kind"), member("name")),
            }
        }
    };
    vec![
        json!(format!("{}{}", row.name(), if default { " (default)" } else { "" })),
        json!(row.text(&["spec", "controller"])),
        json!(parameters),
        json!(row.age()),
    ]
}

/// Network policies.
pub(crate) static POLICY: Printer = Printer { columns: POLICY_COLUMNS, cells: policy_cells };

static POLICY_COLUMNS: &[Column] =
    &[NAME, text("Pod-Selector", "Labels of the pods the policy binds"), AGE];

fn policy_cells(row: &RowInput<'_>) -> Vec<Value> {
    let pods = selector::selector(row.object.map_at(&["spec", "podSelector"]));
    vec![json!(row.name()), json!(pods), json!(row.age())]
}

/// Ranges of service addresses.
pub(crate) static SERVICE_CIDR: Printer = Printer { columns: CIDR_COLUMNS, cells: cidr_cells };

static CIDR_COLUMNS: &[Column] = &[NAME, text("CIDRs", "Ranges of addresses"), AGE];

fn cidr_cells(row: &RowInput<'_>) -> Vec<Value> {
    vec![json!(row.name()), json!(row.texts(&["spec", "cidrs"]).join(",")), json!(row.age())]
}

/// Addresses in use.
pub(crate) static IP_ADDRESS: Printer = Printer { columns: ADDRESS_COLUMNS, cells: address_cells };

static ADDRESS_COLUMNS: &[Column] = &[NAME, text("ParentRef", "Object that uses the address")];

fn address_cells(row: &RowInput<'_>) -> Vec<Value> {
    let parent = match row.object.map_at(&["spec", "parentRef"]) {
        None => "<none>".to_owned(),
        Some(parent) => {
            let member = |name| parent.str_at(&[name]).filter(|text: &&str| !text.is_empty());
            let mut shown = member("resource").unwrap_or_default().to_lowercase();
            if let Some(group) = member("group") {
                shown = format!("{shown}.{}", group.to_lowercase());
            }
            if let Some(namespace) = member("namespace") {
                shown = format!("{shown}/{namespace}");
            }
            format!("{shown}/{}", member("name").unwrap_or_default())
        }
    };
    vec![json!(row.name()), json!(parent)]
}
