//! Paths of a kind and the operations on each.

use serde_json::{Map, Value, json};
use tenure_machinery::kind::{Kind, Subresource, Verbs};

use super::schema::Schemas;
use super::{name, parameter, root};
use crate::discovery::body_kind;
use crate::put;

/// Media types of one object.
const OBJECT: &[&str] = &["application/json", "application/yaml"];
/// Media types of a list, which may also be a stream of events.
const LIST: &[&str] = &["application/json", "application/json;stream=watch", "application/yaml"];
/// Patches every kind takes.
const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
];
/// The patch only built-in kinds take, since it needs to know their lists.
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The discovery document of the version itself.
pub(super) fn root_path(
    group: &str,
    version: &str,
    schemas: &mut Schemas<'_>,
    paths: &mut Map<String, Value>,
) {
    let list = schemas.meta("APIResourceList");
    let operation = json!({
        "tags": [name::tag(group, version)],
        "operationId": format!("get{}APIResources", name::operation_scope(group, version)),
        "responses": responses(&["200"], &list, OBJECT),
    });
    paths.insert(format!("/{}/", root(group, version)), json!({"get": operation}));
}

/// Everything a kind offers.
pub(super) fn kind_paths(kind: &Kind, schemas: &mut Schemas<'_>, paths: &mut Map<String, Value>) {
    let base = format!("/{}", root(&kind.group, &kind.version));
    let collection = if kind.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{base}/{}", kind.plural)
    };
    let writer = OperationWriter {
        kind,
        target: OperationTarget::main(kind, schemas),
        suffix: String::new(),
    };
    paths.insert(collection.clone(), writer.collection(schemas));
    if kind.verbs != Verbs::CreateOnly {
        if kind.namespaced {
            paths.insert(format!("{base}/{}", kind.plural), writer.everywhere(schemas));
        }
        paths.insert(format!("{collection}/{{name}}"), writer.item(schemas));
    }
    for subresource in &kind.subresources {
        let path = format!("{collection}/{{name}}/{}", subresource.name);
        paths.insert(path, subresource_path(kind, subresource, schemas));
    }
}

/// What an operation is about: a kind, and the schema of its bodies if they have one.
struct OperationTarget {
    gvk: Value,
    body: Option<Value>,
}

impl OperationTarget {
    fn main(kind: &Kind, schemas: &mut Schemas<'_>) -> Self {
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        Self { gvk, body: Some(schemas.kind(kind)) }
    }

    fn of(kind: &Kind, subresource: &Subresource, schemas: &mut Schemas<'_>) -> Self {
        let body = body_kind(kind, subresource);
        let (group, version) =
            subresource.group_version.unwrap_or((kind.group.as_ref(), kind.version.as_ref()));
        let gvk = json!({"group": group, "version": version, "kind": body});
        let body = if subresource.name == "log" {
            None
        } else if body == kind.kind && subresource.group_version.is_none() {
            Some(schemas.kind(kind))
        } else {
            schemas.named(group, version, body)
        };
        Self { gvk, body }
    }

    fn body(&self) -> Value {
        self.body.clone().unwrap_or_else(|| json!({"type": "string"}))
    }
}

struct OperationWriter<'a> {
    kind: &'a Kind,
    target: OperationTarget,
    /// `Status` and such, at the end of operation names.
    suffix: String,
}

impl OperationWriter<'_> {
    fn collection(&self, schemas: &mut Schemas<'_>) -> Value {
        let mut path = Map::new();
        path.insert("post".to_owned(), self.post());
        if self.kind.verbs != Verbs::CreateOnly {
            path.insert("get".to_owned(), self.list(schemas, false));
        }
        if self.kind.verbs == Verbs::All {
            path.insert("delete".to_owned(), self.delete_collection(schemas));
        }
        self.close(path, false, self.kind.namespaced)
    }

    /// The list over all namespaces.
    fn everywhere(&self, schemas: &mut Schemas<'_>) -> Value {
        let mut path = Map::new();
        path.insert("get".to_owned(), self.list(schemas, true));
        self.close(path, false, false)
    }

    fn item(&self, schemas: &mut Schemas<'_>) -> Value {
        let mut path = Map::new();
        path.insert("get".to_owned(), self.read());
        path.insert("put".to_owned(), self.put());
        path.insert("patch".to_owned(), self.patch(schemas));
        path.insert("delete".to_owned(), self.delete(schemas));
        self.close(path, true, self.kind.namespaced)
    }

    #[expect(clippy::unused_self, reason = "it closes what the other methods began")]
    fn close(&self, mut path: Map<String, Value>, name: bool, namespace: bool) -> Value {
        path.insert("parameters".to_owned(), parameter::shared(name, namespace).into());
        Value::Object(path)
    }

    /// An operation without its body: `verb` starts its name, `action` is what it does.
    fn operation(
        &self,
        (verb, part, action): (&str, &str, &str),
        parameters: &[(&str, &str)],
        responses: Value,
    ) -> Value {
        let kind = self.kind;
        let scope = name::operation_scope(&kind.group, &kind.version);
        let namespaced = if kind.namespaced { "Namespaced" } else { "" };
        let mut operation = json!({
            "tags": [name::tag(&kind.group, &kind.version)],
            "operationId":
                format!("{verb}{scope}{part}{namespaced}{}{}", kind.kind, self.suffix),
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.target.gvk,
        });
        if !parameters.is_empty() {
            put(&mut operation, "parameters", parameter::query(parameters));
        }
        operation
    }

    fn read(&self) -> Value {
        let responses = responses(&["200"], &self.target.body(), OBJECT);
        self.operation(("read", "", "get"), &[], responses)
    }

    fn list(&self, schemas: &mut Schemas<'_>, everywhere: bool) -> Value {
        let responses = responses(&["200"], &schemas.list(self.kind), LIST);
        let mut operation = self.operation(("list", "", "list"), parameter::LIST, responses);
        if everywhere {
            let scope = name::operation_scope(&self.kind.group, &self.kind.version);
            put(
                &mut operation,
                "operationId",
                json!(format!("list{scope}{}ForAllNamespaces", self.kind.kind)),
            );
        }
        operation
    }

    fn post(&self) -> Value {
        let responses = responses(&["200", "201", "202"], &self.target.body(), OBJECT);
        let operation = self.operation(("create", "", "post"), parameter::WRITE, responses);
        with_body(operation, &["*/*"], &self.target.body(), true)
    }

    fn put(&self) -> Value {
        let responses = responses(&["200", "201"], &self.target.body(), OBJECT);
        let operation = self.operation(("replace", "", "put"), parameter::WRITE, responses);
        with_body(operation, &["*/*"], &self.target.body(), true)
    }

    fn patch(&self, schemas: &mut Schemas<'_>) -> Value {
        let responses = responses(&["200", "201"], &self.target.body(), OBJECT);
        let operation = self.operation(("patch", "", "patch"), parameter::PATCH, responses);
        let mut types = PATCHES.to_vec();
        if !self.kind.type_name.is_empty() {
            types.push(STRATEGIC);
        }
        with_body(operation, &types, &schemas.meta("Patch"), true)
    }

    fn delete(&self, schemas: &mut Schemas<'_>) -> Value {
        let removed =
            if self.kind.returns_deleted { self.target.body() } else { schemas.meta("Status") };
        let responses = responses(&["200", "202"], &removed, OBJECT);
        let operation = self.operation(("delete", "", "delete"), parameter::DELETE, responses);
        with_body(operation, &["*/*"], &schemas.meta("DeleteOptions"), false)
    }

    fn delete_collection(&self, schemas: &mut Schemas<'_>) -> Value {
        let responses = responses(&["200"], &schemas.meta("Status"), OBJECT);
        let verb = ("delete", "Collection", "deletecollection");
        let operation = self.operation(verb, parameter::DELETE_COLLECTION, responses);
        with_body(operation, &["*/*"], &schemas.meta("DeleteOptions"), false)
    }

    /// A connection that leaves HTTP behind; its answer has no schema.
    fn connect(&self, method: &str) -> Value {
        let kind = self.kind;
        let responses = responses(&["200"], &self.target.body(), &["*/*"]);
        let mut operation = self.operation(("connect", "", "connect"), &[], responses);
        let scope = name::operation_scope(&kind.group, &kind.version);
        let namespaced = if kind.namespaced { "Namespaced" } else { "" };
        put(
            &mut operation,
            "operationId",
            json!(format!("connect{scope}{method}{namespaced}{}{}", kind.kind, self.suffix)),
        );
        operation
    }
}

fn subresource_path(kind: &Kind, subresource: &Subresource, schemas: &mut Schemas<'_>) -> Value {
    let target = OperationTarget::of(kind, subresource, schemas);
    let connects = target.body.is_none() && subresource.name != "log";
    let mut letters = subresource.name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let suffix = first.into_iter().chain(letters).collect();
    let writer = OperationWriter { kind, target, suffix };
    let mut path = Map::new();
    for verb in subresource.verbs {
        let (method, name) = match *verb {
            "get" => ("get", "Get"),
            "create" => ("post", "Post"),
            "update" => ("put", "Put"),
            "patch" => ("patch", "Patch"),
            "delete" => ("delete", "Delete"),
            _ => continue,
        };
        let operation = match method {
            _ if connects => writer.connect(name),
            "get" if subresource.name == "log" => {
                let text = responses(&["200"], &writer.target.body(), &["text/plain"]);
                writer.operation(("read", "", "get"), parameter::LOG, text)
            }
            "get" => writer.read(),
            "post" => writer.post(),
            "put" => writer.put(),
            "patch" => writer.patch(schemas),
            _ => writer.delete(schemas),
        };
        path.insert(method.to_owned(), operation);
    }
    writer.close(path, true, kind.namespaced)
}

fn with_body(mut operation: Value, types: &[&str], schema: &Value, required: bool) -> Value {
    let mut body = json!({"content": content(types, schema)});
    if required {
        put(&mut body, "required", true);
    }
    put(&mut operation, "requestBody", body);
    operation
}

fn content(types: &[&str], schema: &Value) -> Value {
    let entries = types.iter().map(|media| ((*media).to_owned(), json!({"schema": schema})));
    Value::Object(entries.collect())
}

fn responses(codes: &[&str], schema: &Value, types: &[&str]) -> Value {
    let mut all = Map::new();
    for code in codes {
        let description = match *code {
            "201" => "Created",
            "202" => "Accepted",
            _ => "OK",
        };
        let response = json!({"description": description, "content": content(types, schema)});
        all.insert((*code).to_owned(), response);
    }
    all.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(all)
}
