//! Reads the published source of `k8s-pb`: protobuf tags and the markers in doc comments. No JSON names.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::source;

/// A protobuf message.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// Its table name, in the spelling of Rust (`RbdVolumeSource`).
    pub(super) name: String,
    /// The markers of the struct itself, without the plus sign.
    pub(super) markers: Vec<String>,
    /// Its fields in source order.
    pub(super) fields: Vec<Member>,
}

/// A field of a protobuf message.
#[derive(Debug)]
pub(super) struct Member {
    /// The Rust name.
    pub(super) name: String,
    /// The protobuf tag.
    pub(super) tag: u32,
    /// The markers, without the plus sign: `optional`, `listType=atomic`.
    pub(super) markers: Vec<String>,
    /// The key of the message it holds, when it holds exactly one message.
    pub(super) message: Option<String>,
}

impl Message {
    /// Whether the marker is there, word for word.
    pub(super) fn is(&self, marker: &str) -> bool {
        self.markers.iter().any(|m| m == marker)
    }
}

impl Member {
    /// Whether the marker is there, word for word.
    pub(super) fn is(&self, marker: &str) -> bool {
        self.markers.iter().any(|m| m == marker)
    }
    /// The values of the marker `name=value`, in order.
    pub(super) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.markers.iter().filter_map(move |m| m.strip_prefix(name)?.strip_prefix('='))
    }
}

/// The key of a message: its table name in lower case, because the sources spell acronyms differently.
pub(super) fn key(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// All messages by key.
pub(super) fn read(root: &Path) -> Result<BTreeMap<String, Message>> {
    let mut messages = BTreeMap::new();
    for (module, path) in source::rust_files(root)? {
        let text = std::fs::read_to_string(&path)?;
        let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        for item in file.items {
            if let syn::Item::Struct(item) = item {
                let name = source::table_name(&module, &item.ident.to_string());
                let made = message(&module, name, &item)?;
                messages.insert(key(&made.name), made);
            }
        }
    }
    Ok(messages)
}

fn message(module: &[String], name: String, item: &syn::ItemStruct) -> Result<Message> {
    let mut fields = Vec::new();
    for field in &item.fields {
        let (Some(ident), Some(tag)) = (&field.ident, tag(field)?) else {
            continue;
        };
        fields.push(Member {
            name: ident.to_string().trim_start_matches("r#").to_owned(),
            tag,
            markers: markers(&field.attrs),
            message: single_message(module, &field.ty),
        });
    }
    Ok(Message { name, markers: markers(&item.attrs), fields })
}

/// The number in `#[prost(string, optional, tag = "1")]`.
fn tag(field: &syn::Field) -> Result<Option<u32>> {
    for attribute in &field.attrs {
        let syn::Meta::List(list) = &attribute.meta else {
            continue;
        };
        if !list.path.is_ident("prost") {
            continue;
        }
        let tokens = list.tokens.to_string();
        let Some((_, after)) = tokens.rsplit_once("tag = \"") else {
            continue;
        };
        let digits = after.split('"').next().unwrap_or_default();
        return Ok(Some(digits.parse().with_context(|| tokens.clone())?));
    }
    Ok(None)
}

/// The lines of the doc comment that begin with a plus sign.
fn markers(attributes: &[syn::Attribute]) -> Vec<String> {
    let mut markers = Vec::new();
    for attribute in attributes {
        let syn::Meta::NameValue(pair) = &attribute.meta else {
            continue;
        };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
            continue;
        };
        if !pair.path.is_ident("doc") {
            continue;
        }
        let text = text.value();
        // Indented examples inside a doc comment begin with a comment sign and do not count.
        markers.extend(
            text.lines().filter_map(|line| line.trim().strip_prefix('+').map(str::to_owned)),
        );
    }
    markers
}

/// `Option<Message>` and `Option<Box<Message>>`; lists, maps and scalars give nothing.
fn single_message(module: &[String], ty: &syn::Type) -> Option<String> {
    let inner = source::argument(ty, "Option")?;
    let inner = source::argument(inner, "Box").unwrap_or(inner);
    let path = source::path(inner)?;
    let mut at = module.to_vec();
    let mut segments = path.as_slice();
    if let Some((first, rest)) = segments.split_first()
        && first == "crate"
    {
        at.clear();
        segments = rest;
    }
    while let Some((first, rest)) = segments.split_first() {
        if first != "super" {
            break;
        }
        at.pop();
        segments = rest;
    }
    let (name, modules) = segments.split_last()?;
    at.extend_from_slice(modules);
    (!matches!(name.as_str(), "String" | "Vec") && name.starts_with(char::is_uppercase))
        .then(|| key(&source::table_name(&at, name)))
}
