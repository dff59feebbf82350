//! What is stored and not acted on says so, with every write of it (R255).
//!
//! Which kinds and members those are stands in `kinds`; here it becomes a warning.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use serde_json::Value;
use tenure_kinds::{IGNORED, IgnoredMember};
use tenure_machinery::kind::ActedOn;
use tenure_machinery::{Object, ObjectExt};
use tenure_schema::{ApiType, TypeFacts, TypeId, ValueType, facts};

use crate::aggregate;
use crate::request::ResourceRequest;

/// Says that nothing acts on an object, or on a part of it.
pub(super) fn warnings(request: &ResourceRequest, new: &Object) -> Vec<String> {
    if !request.subresource.is_empty() {
        return Vec::new();
    }
    let kind = &request.served.kind;
    match kind.acted_on {
        ActedOn::By(_) => {
            let members = members(&kind.type_name, new);
            served_here_anyway(request, new).into_iter().chain(members).collect()
        }
        ActedOn::Nobody(why) => {
            vec![format!("this server stores a {} and does not act on it: {why}", kind.kind)]
        }
    }
}

/// Some groups are served here, whatever an APIService says (R131a).
fn served_here_anyway(request: &ResourceRequest, new: &Object) -> Option<String> {
    let kind = &request.served.kind;
    let is_api_service = kind.kind == "APIService" && kind.group == "apiregistration.k8s.io";
    let group = new.str_at(&["spec", "group"]).unwrap_or_default();
    let ignored = is_api_service
        && new.map_at(&["spec", "service"]).is_some()
        && !aggregate::may_be_elsewhere(group);
    ignored.then(|| sentence("spec.service", "the group is always served here"))
}

fn sentence(path: &str, why: &str) -> String {
    format!("{path}: this server stores it and does not act on it: {why}")
}

/// Where a member that nobody acts on may stand in the objects of a kind.
struct IgnoredPath {
    /// The members on the way; of a list every item is looked at.
    way: Vec<&'static str>,
    member: &'static IgnoredMember,
}

type Paths = HashMap<&'static str, Vec<IgnoredPath>>;

/// The members of an object that nobody acts on, each where it stands first.
fn members(type_name: &str, new: &Object) -> Vec<String> {
    static PATHS: OnceLock<Paths> = OnceLock::new();
    let paths = PATHS.get_or_init(all_paths).get(type_name);
    let found = paths.into_iter().flatten().filter_map(|path| {
        let at = find(new, &path.way, path.member.harmless)?;
        Some(sentence(&at, path.member.why))
    });
    found.collect()
}

/// Where a member stands that says something, in the words of field paths.
fn find(object: &Object, way: &[&'static str], harmless: &[&str]) -> Option<String> {
    let (first, rest) = way.split_first()?;
    let value = object.get(*first)?;
    if rest.is_empty() {
        return says_something(value, harmless).then(|| (*first).to_owned());
    }
    match value {
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            Some(format!("{first}[{index}].{}", find(item.as_object()?, rest, harmless)?))
        }),
        Value::Object(member) => Some(format!("{first}.{}", find(member, rest, harmless)?)),
        _ => None,
    }
}

fn says_something(value: &Value, harmless: &[&str]) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty() && !harmless.contains(&text.as_str()),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// For every kind of the table where its ignored members are.
fn all_paths() -> Paths {
    let facts = facts();
    let reach = reaching(facts);
    let kinds = facts.types().iter().filter(|api_type| api_type.kind.is_some());
    kinds
        .filter_map(|api_type| {
            let mut search =
                Search { facts, reach: &reach, on_the_way: Vec::new(), out: Vec::new() };
            search.look(api_type, &mut Vec::new());
            (!search.out.is_empty()).then_some((api_type.name, search.out))
        })
        .collect()
}

/// The types with an ignored member in them, or in a member of theirs.
fn reaching(facts: &TypeFacts) -> HashSet<TypeId> {
    let named = IGNORED.iter().filter_map(|ignored| facts.type_id(ignored.type_name));
    let mut reach: HashSet<TypeId> = named.collect();
    loop {
        let before = reach.len();
        for api_type in facts.types() {
            let leads = |field: &tenure_schema::Field| {
                inner(&field.shape).is_some_and(|inner| reach.contains(&inner))
            };
            if api_type.fields.iter().any(leads) {
                reach.extend(facts.type_id(api_type.name));
            }
        }
        if reach.len() == before {
            return reach;
        }
    }
}

/// The type of a member or of its items. No map holds objects with such members.
fn inner(shape: &ValueType) -> Option<TypeId> {
    match shape {
        ValueType::Struct(id) => Some(*id),
        ValueType::List(items) => inner(items),
        _ => None,
    }
}

/// A walk through a kind.
struct Search<'a> {
    facts: &'static TypeFacts,
    reach: &'a HashSet<TypeId>,
    on_the_way: Vec<TypeId>,
    out: Vec<IgnoredPath>,
}

impl Search<'_> {
    fn look(&mut self, api_type: &'static ApiType, way: &mut Vec<&'static str>) {
        for field in &api_type.fields {
            way.push(field.json);
            let here =
                |one: &&IgnoredMember| one.type_name == api_type.name && one.member == field.json;
            if let Some(member) = IGNORED.iter().find(here) {
                self.out.push(IgnoredPath { way: way.clone(), member });
            } else if let Some(id) = inner(&field.shape)
                && self.reach.contains(&id)
                && !self.on_the_way.contains(&id)
                && let Some(next) = self.facts.get(id)
            {
                self.on_the_way.push(id);
                self.look(next, way);
                self.on_the_way.pop();
            }
            way.pop();
        }
    }
}
