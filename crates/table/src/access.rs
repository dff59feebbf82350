//! Who may do what, and what is checked on the way: bindings, certificates, admission.

use serde_json::{Value, json};
use tenure_machinery::object::ObjectExt;

use crate::column::{AGE, NAME, integer, text, wide};
use crate::row::RowInput;
use crate::{Column, Printer, age, selector};

/// Role bindings of both scopes.
pub(crate) static BINDING: Printer = Printer { columns: BINDING_COLUMNS, cells: binding_cells };

static BINDING_COLUMNS: &[Column] = &[
    NAME,
    text("Role", "Role that is given"),
    AGE,
    wide("Users", "Users who have the role"),
    wide("Groups", "Groups that have the role"),
    wide("ServiceAccounts", "Service accounts that have the role"),
];

fn binding_cells(row: &RowInput<'_>) -> Vec<Value> {
    let role = format!("{}/{}", row.text(&["roleRef", "kind"]), row.text(&["roleRef", "name"]));
    let subjects = |kind: &str| {
        let names: Vec<_> = row
            .items(&["subjects"])
            .filter(|subject| subject.str_at(&["kind"]) == Some(kind))
            .map(|subject| {
                let name = subject.str_at(&["name"]).unwrap_or_default();
                if kind == "ServiceAccount" {
                    format!("{}/{name}", subject.str_at(&["namespace"]).unwrap_or_default())
                } else {
                    name.to_owned()
                }
            })
            .collect();
        json!(names.join(", "))
    };
    vec![
        json!(row.name()),
        json!(role),
        json!(row.age()),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

/// Certificate signing requests.
pub(crate) static SIGNING_REQUEST: Printer =
    Printer { columns: SIGNING_REQUEST_COLUMNS, cells: signing_request_cells };

static SIGNING_REQUEST_COLUMNS: &[Column] = &[
    NAME,
    AGE,
    text("SignerName", "Signer that is asked"),
    text("Requestor", "User who asks"),
    text("RequestedDuration", "How long the certificate should last"),
    text("Condition", "How far the request has come"),
];

fn signing_request_cells(row: &RowInput<'_>) -> Vec<Value> {
    let lifetime = row.object.int_at(&["spec", "expirationSeconds"]);
    let has = |kind: &str| row.condition(kind).is_some();
    let mut condition = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        condition.push_str(",Failed");
    }
    if !row.text(&["status", "certificate"]).is_empty() {
        condition.push_str(",Issued");
    }
    vec![
        json!(row.name()),
        json!(row.age()),
        json!(row.filled(&["spec", "signerName"], "<none>")),
        json!(row.text(&["spec", "username"])),
        json!(lifetime.map_or("<none>".to_owned(), age::duration)),
        json!(condition),
    ]
}

/// Cluster trust bundles.
pub(crate) static TRUST_BUNDLE: Printer = Printer {
    columns: TRUST_BUNDLE_COLUMNS,
    cells: |row| vec![json!(row.name()), json!(row.filled(&["spec", "signerName"], "<none>"))],
};

static TRUST_BUNDLE_COLUMNS: &[Column] = &[NAME, text("SignerName", "Signer the bundle is for")];

/// Pod certificate requests.
pub(crate) static POD_CERTIFICATE: Printer =
    Printer { columns: POD_CERTIFICATE_COLUMNS, cells: pod_certificate_cells };

static POD_CERTIFICATE_COLUMNS: &[Column] = &[
    NAME,
    text("PodName", "Pod the certificate is for"),
    text("ServiceAccountName", "Service account of the pod"),
    text("NodeName", "Node that runs the pod"),
    text("SignerName", "Signer that is asked"),
    text("State", "How far the request has come"),
    text("UnverifiedUserAnnotations", "What the pod adds, unchecked"),
];

fn pod_certificate_cells(row: &RowInput<'_>) -> Vec<Value> {
    let state = row
        .items(&["status", "conditions"])
        .filter_map(|c| c.str_at(&["type"]))
        .rfind(|kind| matches!(*kind, "Issued" | "Denied" | "Failed"));
    let [pod, account, node, signer] = ["podName", "serviceAccountName", "nodeName", "signerName"]
        .map(|member| json!(row.text(&["spec", member])));
    let annotations = row.object.map_at(&["spec", "unverifiedUserAnnotations"]);
    vec![
        json!(row.name()),
        pod,
        account,
        node,
        signer,
        json!(state.unwrap_or("Pending")),
        json!(selector::labels(annotations)),
    ]
}

/// API services.
pub(crate) static API_SERVICE: Printer =
    Printer { columns: API_SERVICE_COLUMNS, cells: api_service_cells };

static API_SERVICE_COLUMNS: &[Column] = &[
    NAME,
    text("Service", "Service that answers, or Local"),
    text("Available", "Whether it answers"),
    AGE,
];

fn api_service_cells(row: &RowInput<'_>) -> Vec<Value> {
    let service = row.object.map_at(&["spec", "service"]).map_or("Local".to_owned(), |service| {
        let member = |name| service.str_at(&[name]).unwrap_or_default();
        format!("{}/{}", member("namespace"), member("name"))
    });
    let available = row.condition("Available").map_or("Unknown".to_owned(), |condition| {
        let member = |name| condition.str_at(&[name]).unwrap_or_default();
        match (member("status"), member("reason")) {
            ("True", _) | (_, "") => member("status").to_owned(),
            (status, reason) => format!("{status} ({reason})"),
        }
    });
    vec![json!(row.name()), json!(service), json!(available), json!(row.age())]
}

/// Webhook configurations of both sorts.
pub(crate) static WEBHOOKS: Printer = Printer {
    columns: WEBHOOKS_COLUMNS,
    cells: |row| vec![json!(row.name()), json!(row.count(&["webhooks"])), json!(row.age())],
};

static WEBHOOKS_COLUMNS: &[Column] = &[NAME, integer("Webhooks", "Number of webhooks"), AGE];

/// Validating admission policies.
pub(crate) static VALIDATING_POLICY: Printer =
    Printer { columns: VALIDATING_POLICY_COLUMNS, cells: |row| policy_cells(row, "validations") };

static VALIDATING_POLICY_COLUMNS: &[Column] = &[
    NAME,
    integer("Validations", "Number of checks"),
    text("ParamKind", "Kind of the parameters"),
    AGE,
];

/// Mutating admission policies.
pub(crate) static MUTATING_POLICY: Printer =
    Printer { columns: MUTATING_POLICY_COLUMNS, cells: |row| policy_cells(row, "mutations") };

static MUTATING_POLICY_COLUMNS: &[Column] = &[
    NAME,
    integer("Mutations", "Number of changes"),
    text("ParamKind", "Kind of the parameters"),
    AGE,
];

fn policy_cells(row: &RowInput<'_>, counted: &str) -> Vec<Value> {
    let kind = row.object.map_at(&["spec", "paramKind"]).map_or("<unset>".to_owned(), |kind| {
        let member = |name| kind.str_at(&[name]).unwrap_or_default();
        format!("{}/{}", member("apiVersion"), member("kind"))
    });
    vec![json!(row.name()), json!(row.count(&["spec", counted])), json!(kind), json!(row.age())]
}

/// Bindings of admission policies of both sorts.
pub(crate) static POLICY_BINDING: Printer =
    Printer { columns: POLICY_BINDING_COLUMNS, cells: policy_binding_cells };

static POLICY_BINDING_COLUMNS: &[Column] = &[
    NAME,
    text("PolicyName", "Policy that is bound"),
    text("ParamRef", "Parameters of the policy"),
    AGE,
];

fn policy_binding_cells(row: &RowInput<'_>) -> Vec<Value> {
    let reference = row.object.map_at(&["spec", "paramRef"]);
    let member = |name| reference.and_then(|r| r.str_at(&[name])).unwrap_or_default();
    let parameters = match (member("namespace"), member("name")) {
        ("", "") | (_, "") => reference
            .and_then(|reference| reference.map_at(&["selector"]))
            .map_or("<unset>".to_owned(), |wanted| selector::selector(Some(wanted))),
        // Whether the parameter has a namespace at all cannot be told from here.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![
        json!(row.name()),
        json!(row.text(&["spec", "policyName"])),
        json!(parameters),
        json!(row.age()),
    ]
}
