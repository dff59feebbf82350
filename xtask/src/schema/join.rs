//! Joins both sources into one table and writes it down. Reads no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::{json, pb};

/// The table: types by name.
pub(super) type Table = BTreeMap<String, Type>;

/// One type of the table.
#[derive(Debug, Default)]
pub(super) struct Type {
    /// The words after the name: `kind=…`, `atomic`.
    pub(super) kind: Option<String>,
    pub(super) atomic: bool,
    /// Tags whose messages lie open in the parent's JSON.
    pub(super) inlines: BTreeMap<u32, String>,
    pub(super) fields: BTreeMap<String, Field>,
}

/// One member of a type.
#[derive(Debug, Default, Clone)]
pub(super) struct Field {
    pub(super) tag: u32,
    pub(super) shape: String,
    pub(super) object: Option<String>,
    /// `set` or `map=a,b`.
    pub(super) list: Option<String>,
    pub(super) atomic: bool,
    pub(super) merge: Option<String>,
    pub(super) retain: bool,
    pub(super) required: bool,
    pub(super) omit: bool,
    pub(super) always: bool,
    pub(super) null: bool,
    pub(super) default: Option<String>,
}

/// Types that no kind reaches and that the server reads or writes nevertheless.
const ALSO: [&str; 3] = [
    "apimachinery.meta.v1.DeleteOptions",
    "apimachinery.meta.v1.ListMeta",
    "apimachinery.meta.v1.Status",
];

/// Joins names without case and punctuation.
pub(super) fn join(
    messages: &BTreeMap<String, pb::Message>,
    structs: &BTreeMap<String, json::Struct>,
) -> Result<Table> {
    let mut table = Table::new();
    for name in reachable(structs)? {
        let of = structs.get(&name).context("reached from a struct")?;
        let mut made = plain(of);
        if let Some(message) = messages.get(&pb::key(&name)) {
            made.atomic = message.is("structType=atomic") || message.is("mapType=atomic");
            let mut inlined = Table::new();
            mark(&mut made, message, messages, true, &mut inlined);
            for (name, inner) in inlined {
                table.entry(name).or_insert(inner);
            }
        }
        made.fields.values_mut().for_each(usual);
        if made.kind.is_some() {
            usual_of_kind(&mut made);
        }
        table.insert(name, made);
    }
    Ok(table)
}

/// Every struct that a kind leads to, in order.
fn reachable(structs: &BTreeMap<String, json::Struct>) -> Result<BTreeSet<String>> {
    let mut open: Vec<String> = ALSO.iter().map(|&name| name.to_owned()).collect();
    open.extend(structs.iter().filter(|(_, of)| of.kind.is_some()).map(|(name, _)| name.clone()));
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let of = structs.get(&name).with_context(|| format!("{name} has no source"))?;
        for member in of.members.values() {
            let word = member.shape.trim_matches(['[', ']', '{', '}']);
            if word.contains('.') {
                open.push(word.to_owned());
            }
            open.extend(member.object.clone());
        }
    }
    Ok(seen)
}

fn plain(of: &json::Struct) -> Type {
    let fields = of.members.iter().map(|(name, member)| {
        let field = Field {
            shape: member.shape.clone(),
            object: member.object.clone(),
            required: member.required,
            ..Field::default()
        };
        (name.clone(), field)
    });
    Type {
        kind: of
            .kind
            .as_ref()
            .map(|k| format!("{}/{}/{}/{}/{}", k.group, k.version, k.kind, k.segment, k.scope)),
        fields: fields.collect(),
        ..Type::default()
    }
}

/// Carries tags and markers over to the members. A member message that JSON does not name lies open in
/// its parent when all its own members are found there.
fn mark(
    made: &mut Type,
    message: &pb::Message,
    messages: &BTreeMap<String, pb::Message>,
    tags: bool,
    inlined: &mut Table,
) {
    let names: BTreeMap<String, String> =
        made.fields.keys().map(|json| (bare(json), json.clone())).collect();
    for member in &message.fields {
        if let Some(json) = names.get(&bare(&member.name))
            && let Some(field) = made.fields.get_mut(json)
        {
            if tags {
                field.tag = member.tag;
            }
            markers(field, member);
        } else if let Some(key) = &member.message
            && let Some(inner) = messages.get(key)
            && lies_open(inner, messages, &names)
        {
            if tags {
                made.inlines.insert(member.tag, inner.name.clone());
            }
            let mut own = Type { fields: made.fields.clone(), ..Type::default() };
            own.fields.values_mut().for_each(|field| field.tag = 0);
            mark(&mut own, inner, messages, true, inlined);
            own.fields.retain(|_, field| field.tag != 0);
            own.fields.values_mut().for_each(usual);
            inlined.insert(inner.name.clone(), own);
            mark(made, inner, messages, false, inlined);
        }
    }
}

fn lies_open(
    inner: &pb::Message,
    messages: &BTreeMap<String, pb::Message>,
    names: &BTreeMap<String, String>,
) -> bool {
    inner.fields.iter().all(|member| {
        names.contains_key(&bare(&member.name))
            || member
                .message
                .as_ref()
                .and_then(|key| messages.get(key))
                .is_some_and(|deeper| lies_open(deeper, messages, names))
    })
}

/// The name without case and punctuation.
fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn markers(field: &mut Field, member: &pb::Member) {
    if member.is("optional") || member.is("k8s:optional") {
        field.required = false;
    }
    field.atomic = member.is("mapType=atomic") || member.is("structType=atomic");
    let strategy = member.values("patchStrategy").next().unwrap_or_default();
    let merge_key = member.values("patchMergeKey").next().unwrap_or_default();
    field.retain = strategy.split(',').any(|word| word == "retainKeys");
    let merges = strategy.split(',').any(|word| word == "merge");
    field.merge = merges.then(|| merge_key.to_owned());
    field.list = list(field, member, merge_key);
    field.default =
        member.values("default").find(|value| !value.starts_with("ref(")).map(str::to_owned);
}

/// A list without a list type merges under apply as its patch strategy says.
fn list(field: &Field, member: &pb::Member, merge_key: &str) -> Option<String> {
    if !field.shape.starts_with('[') {
        return None;
    }
    let said = member.values("listType").chain(member.values("k8s:listType")).next();
    let mut keys: Vec<&str> = member.values("listMapKey").collect();
    if keys.is_empty() {
        keys = member.values("k8s:listMapKey").collect();
    }
    match (said, &field.merge) {
        (Some("set"), _) => Some("set".into()),
        (Some("map"), _) => Some(format!("map={}", keys.join(","))),
        (Some(_), _) | (None, None) => None,
        (None, Some(_)) if merge_key.is_empty() => Some("set".into()),
        (None, Some(_)) => Some(format!("map={merge_key}")),
    }
}

/// How most members of a shape are written; the overlay holds the others.
fn usual(field: &mut Field) {
    let shape = field.shape.as_str();
    let collection = shape.starts_with(['[', '{']) || shape == "bytes";
    field.omit = !field.required && (collection || shape == "string");
    field.always = field.required;
}

/// The three parts of a kind are written even when empty.
fn usual_of_kind(of: &mut Type) {
    for name in ["metadata", "spec", "status"] {
        if let Some(field) = of.fields.get_mut(name)
            && field.shape.contains('.')
        {
            (field.omit, field.always) = (false, true);
        }
    }
}

/// The table as text.
pub(super) fn write(table: &Table) -> String {
    let mut text = String::new();
    for (name, of) in table {
        text.push_str(name);
        if let Some(kind) = &of.kind {
            let _ = write!(text, " kind={kind}");
        }
        if of.atomic {
            text.push_str(" atomic");
        }
        text.push('\n');
        for (tag, inner) in &of.inlines {
            let _ = writeln!(text, " + {tag} {inner}");
        }
        for (json, field) in &of.fields {
            line(&mut text, json, field);
        }
    }
    text
}

fn line(text: &mut String, json: &str, field: &Field) {
    let _ = write!(text, " {json} {} {}", field.tag, field.shape);
    let words = [
        (field.required, "required"),
        (field.omit, "omit"),
        (field.always, "always"),
        (field.null, "null"),
        (field.atomic, "atomic"),
        (field.retain, "retain"),
    ];
    for (_, word) in words.iter().filter(|(said, _)| *said) {
        text.push(' ');
        text.push_str(word);
    }
    if let Some(object) = &field.object {
        let _ = write!(text, " object={object}");
    }
    if let Some(list) = &field.list {
        let _ = write!(text, " {list}");
    }
    match field.merge.as_deref() {
        Some("") => text.push_str(" merge"),
        Some(key) => {
            let _ = write!(text, " merge={key}");
        }
        None => {}
    }
    if let Some(default) = &field.default {
        let _ = write!(text, " default={default}");
    }
    text.push('\n');
}
