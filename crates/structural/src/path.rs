//! The small paths that definitions name: of replicas, of selectable fields, of rules.
//!
//! Printer columns have a richer language, which is read where tables are made.

use serde_json::Value;

use crate::raw::Raw;

/// The members that a dotted path such as `.spec.replicas` leads through.
#[must_use]
pub fn members(path: &str) -> Vec<String> {
    let plain = path.strip_prefix('.').unwrap_or(path);
    plain.split('.').map(str::to_owned).collect()
}

/// What is wrong with a dotted path.
#[must_use]
pub fn fault(path: &str) -> Option<&'static str> {
    match path.strip_prefix('.') {
        _ if path.is_empty() => Some("must not be empty"),
        None => Some("must be a simple path starting with a dot"),
        Some(_) => None,
    }
}

/// The path of a rule's cause as causes write it: `.a['b']` is `a.b`, or `a[b]` if `a` is a map.
///
/// A path that the schema does not know is kept as it is.
#[must_use]
pub fn written(path: &str, schema: &Value) -> String {
    let plain = path.strip_prefix('.').unwrap_or(path);
    let (Some(root), false) = (Raw::new(schema), path.is_empty()) else { return plain.to_owned() };
    let Ok(found) = follow(path, root, true) else { return plain.to_owned() };
    let mut text = String::new();
    let mut schema = Some(root);
    for name in found.members {
        match schema {
            Some(map) if !map.has_properties() => text.push_str(&format!("[{name}]")),
            _ if text.is_empty() => text.push_str(&name),
            _ => text.push_str(&format!(".{name}")),
        }
        schema = step(schema, &name).ok().flatten();
    }
    text
}

/// A path that a schema knows: where it leads.
pub(crate) struct ResolvedPath<'a> {
    pub(crate) schema: Option<Raw<'a>>,
    pub(crate) members: Vec<String>,
}

/// Follows a path through a schema; brackets with quoted names are allowed on request.
pub(crate) fn follow<'a>(
    path: &str,
    schema: Raw<'a>,
    brackets: bool,
) -> Result<ResolvedPath<'a>, String> {
    let mut found = ResolvedPath { schema: Some(schema), members: Vec::new() };
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(inside) = rest.strip_prefix('.') {
            let end = inside.find(['.', '[', ']']).unwrap_or(inside.len());
            (
                inside.get(..end).unwrap_or_default().to_owned(),
                inside.get(end..).unwrap_or_default(),
            )
        } else if let Some(inside) = rest.strip_prefix('[') {
            if !brackets {
                return Err("it must not have brackets".to_owned());
            }
            quoted(inside)?
        } else {
            return Err("it must consist of parts that start with a dot or a bracket".to_owned());
        };
        if name.is_empty() {
            return Err("it ends too early".to_owned());
        }
        found.schema = step(found.schema, &name)?;
        found.members.push(name);
        rest = after;
    }
    Ok(found)
}

fn step<'a>(schema: Option<Raw<'a>>, name: &str) -> Result<Option<Raw<'a>>, String> {
    let unknown = || format!("the schema has no member {name:?} there");
    let schema = schema.ok_or_else(unknown)?;
    if schema.has_properties() {
        return schema.property(name).map(Some).ok_or_else(unknown);
    }
    match schema.additional() {
        Some(_) => Ok(schema.additional_schema()),
        None => Err(unknown()),
    }
}

fn quoted(inside: &str) -> Result<(String, &str), String> {
    let bad = || "a bracket must hold a name in single quotes".to_owned();
    let mut name = String::new();
    let mut characters = inside.strip_prefix('\'').ok_or_else(bad)?.chars();
    loop {
        match characters.next().ok_or_else(bad)? {
            '\\' => name.push(characters.next().ok_or_else(bad)?),
            '\'' => break,
            other => name.push(other),
        }
    }
    let after = characters.as_str().strip_prefix(']').ok_or_else(bad)?;
    Ok((name, after))
}
