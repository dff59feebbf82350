//! Reads the source of `k8s-openapi`: JSON names, JSON types, which kinds are served. No tags, no markers.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::source;

/// A struct as JSON has it.
#[derive(Debug, Default)]
pub(super) struct Struct {
    /// Its members by JSON name.
    pub(super) members: BTreeMap<String, Member>,
    /// Group, version, kind, path segment and scope, when it is a kind of its own.
    pub(super) kind: Option<Kind>,
}

/// What the API calls a kind and where it is served.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) segment: String,
    pub(super) scope: String,
}

/// One member.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// The shape as the table writes it: `string`, `[api.core.v1.Container]`, `{quantity}`.
    pub(super) shape: String,
    /// The type of which an object here is, when the shape is `any` and other values are allowed too.
    pub(super) object: Option<String>,
    /// Whether the Rust struct always has it.
    pub(super) required: bool,
}

const SCHEMA: &str = "apiextensions_apiserver.apiextensions.v1.JSONSchemaProps";

/// All structs by table name.
pub(super) fn read(root: &Path) -> Result<BTreeMap<String, Struct>> {
    let mut structs = BTreeMap::new();
    for (module, path) in source::rust_files(root)? {
        let text = std::fs::read_to_string(&path)?;
        // The struct comes first; the many implementations after it are read as text.
        let (head, tail) = text.split_once("\nimpl").unwrap_or((&text, ""));
        let file = syn::parse_file(head).with_context(|| path.display().to_string())?;
        for item in file.items {
            if let syn::Item::Struct(item) = item
                && item.generics.params.is_empty()
            {
                let name = source::table_name(&module, &item.ident.to_string());
                let of = one(&item, tail).with_context(|| name.clone())?;
                structs.insert(name, of);
            }
        }
    }
    Ok(structs)
}

fn one(item: &syn::ItemStruct, tail: &str) -> Result<Struct> {
    let names = json_names(tail);
    let kind = kind(tail);
    let mut members = BTreeMap::new();
    for field in &item.fields {
        let Some(ident) = &field.ident else {
            continue;
        };
        let ident = ident.to_string();
        let json =
            names.get(ident.as_str()).with_context(|| format!("{ident} has no JSON name"))?;
        let mut member = member(&field.ty).with_context(|| ident.clone())?;
        // The crate asks for metadata on every kind; the API does not.
        if kind.is_some() && *json == "metadata" {
            member.required = false;
        }
        members.insert((*json).to_owned(), member);
    }
    if kind.is_some() {
        for name in ["apiVersion", "kind"] {
            let text = Member { shape: "string".into(), object: None, required: false };
            members.insert(name.to_owned(), text);
        }
    }
    Ok(Struct { members, kind })
}

/// Rust name → JSON name, from the lines `"clusterIPs" => Field::Key_cluster_ips,`.
fn json_names(tail: &str) -> BTreeMap<&str, &str> {
    tail.lines()
        .filter_map(|line| {
            let (json, rust) = line.trim().split_once(" => Field::Key_")?;
            Some((rust.trim_end_matches(','), json.trim_matches('"')))
        })
        .collect()
}

fn kind(tail: &str) -> Option<Kind> {
    let after = |prefix: &str| {
        tail.lines().find_map(|line| {
            let value = line.trim().strip_prefix(prefix)?;
            Some(value.trim_end_matches(';').trim_matches('"').to_owned())
        })
    };
    let scope = after("type Scope = crate::")?;
    Some(Kind {
        group: after("const GROUP: &'static str = ")?,
        version: after("const VERSION: &'static str = ")?,
        kind: after("const KIND: &'static str = ")?,
        segment: after("const URL_PATH_SEGMENT: &'static str = ")?,
        scope: match scope.as_str() {
            "ClusterResourceScope" => "cluster".into(),
            "NamespaceResourceScope" => "namespace".into(),
            _ => "sub".into(),
        },
    })
}

fn member(ty: &syn::Type) -> Result<Member> {
    let (inner, required) = match source::argument(ty, "Option") {
        Some(inner) => (inner, false),
        None => (ty, true),
    };
    let mut object = None;
    let shape = shape(inner, &mut object)?;
    Ok(Member { shape, object, required })
}

fn shape(ty: &syn::Type, object: &mut Option<String>) -> Result<String> {
    if let Some(inner) = source::argument(ty, "Box") {
        return shape(inner, object);
    }
    if let Some(inner) = source::argument(ty, "Vec") {
        return Ok(format!("[{}]", shape(inner, object)?));
    }
    if let Some(inner) = source::argument(ty, "BTreeMap") {
        return Ok(format!("{{{}}}", shape(inner, object)?));
    }
    let Some(path) = source::path(ty) else {
        bail!("not a path type");
    };
    let Some((name, modules)) = path.split_last() else {
        bail!("an empty path");
    };
    let word = match name.as_str() {
        "String" => "string",
        "ByteString" => "bytes",
        "bool" => "bool",
        "i32" => "int32",
        "i64" => "int64",
        "f64" => "double",
        "Quantity" => "quantity",
        "IntOrString" => "intorstring",
        "Time" => "time",
        "MicroTime" => "microtime",
        "RawExtension" | "FieldsV1" | "JSON" => "any",
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            *object = Some(SCHEMA.to_owned());
            "any"
        }
        _ => match modules.split_first() {
            Some((first, rest)) if first == "crate" => {
                return Ok(source::table_name(rest, name));
            }
            _ => bail!("an unknown type {name}"),
        },
    };
    Ok(word.to_owned())
}
