//! The source: a ReferenceGrant of the Gateway API, in its own spelling or in that of KEP-3766 (M1).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The group of the old grants.
pub const SOURCE_GROUP: &str = "gateway.networking.k8s.io";

/// Which words a source uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spelling {
    /// `from` and `to`, as the Gateway API has it.
    FromTo,
    /// `origin` and `target`, as the examples of KEP-3766 have it.
    OriginTarget,
}

impl Spelling {
    pub(super) fn from(self) -> &'static str {
        if self == Spelling::FromTo { "from" } else { "origin" }
    }

    pub(super) fn to(self) -> &'static str {
        if self == Spelling::FromTo { "to" } else { "target" }
    }
}

/// Who may point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct From {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) namespace: String,
}

/// What may be pointed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct To {
    pub(super) group: String,
    pub(super) kind: String,
    /// `None` is every object of the kind.
    pub(super) name: Option<String>,
}

/// A ReferenceGrant of the Gateway API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceGrant {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) spelling: Spelling,
    pub(super) from: Vec<From>,
    pub(super) to: Vec<To>,
}

/// All names of one kind among the targets.
#[derive(Default)]
pub(super) struct TargetNames {
    /// The entry that named the kind first.
    pub(super) first: usize,
    pub(super) names: BTreeSet<String>,
    /// Whether some entry means every name.
    pub(super) all: bool,
}

/// Whether an object is a ReferenceGrant of the Gateway API, in any version.
#[must_use]
pub fn is_source(object: &Value) -> bool {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    text("kind") == "ReferenceGrant" && group == SOURCE_GROUP
}

impl SourceGrant {
    /// Reads one, in either spelling.
    ///
    /// # Errors
    /// The field that is wrong, and how.
    pub fn read(object: &Value) -> Result<SourceGrant, (&'static str, String)> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        if !is_source(object) {
            let found = format!("it is no ReferenceGrant of {SOURCE_GROUP}");
            return Err(("apiVersion", found));
        }
        let empty = Value::Null;
        let spec = object.get("spec").unwrap_or(&empty);
        let has = |name: &str| spec.get(name).is_some();
        let spelling = match (has("from") || has("to"), has("origin") || has("target")) {
            (true, true) => {
                let both = "`from`/`to` and `origin`/`target` cannot stand in one object";
                return Err(("spec", both.to_owned()));
            }
            (_, true) => Spelling::OriginTarget,
            _ => Spelling::FromTo,
        };
        let member = |entry: &Value, name: &str| {
            entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let from = entries(spec, spelling.from()).map(|entry| From {
            group: member(entry, "group"),
            kind: member(entry, "kind"),
            namespace: member(entry, "namespace"),
        });
        let to = entries(spec, spelling.to()).map(|entry| To {
            group: member(entry, "group"),
            kind: member(entry, "kind"),
            name: Some(member(entry, "name")).filter(|name| !name.is_empty()),
        });
        Ok(SourceGrant {
            namespace: text("/metadata/namespace").unwrap_or("default").to_owned(),
            name: text("/metadata/name").unwrap_or_default().to_owned(),
            spelling,
            from: from.collect(),
            to: to.collect(),
        })
    }

    /// The targets, those of one kind together.
    pub(super) fn targets(&self) -> BTreeMap<(&str, &str), TargetNames> {
        let mut targets: BTreeMap<(&str, &str), TargetNames> = BTreeMap::new();
        for (number, to) in self.to.iter().enumerate() {
            let fresh = || TargetNames { first: number, ..TargetNames::default() };
            let names = targets.entry((&to.group, &to.kind)).or_insert_with(fresh);
            match &to.name {
                Some(name) => drop(names.names.insert(name.clone())),
                None => names.all = true,
            }
        }
        targets
    }

    /// Whether some entry means every name, so that living origins decide what it comes to.
    pub(super) fn is_open(&self) -> bool {
        self.to.iter().any(|to| to.name.is_none())
    }

    /// Whether the same kind of origin is named with another namespace as well.
    pub(super) fn names_elsewhere(&self, from: &From) -> bool {
        self.from.iter().any(|other| {
            (&other.group, &other.kind) == (&from.group, &from.kind)
                && other.namespace != from.namespace
        })
    }

    /// Whether it lets an origin point at a target, by the rules of the Gateway API.
    #[must_use]
    pub(super) fn allows(&self, from: (&str, &str, &str), to: (&str, &str, &str, &str)) -> bool {
        let (to_group, to_kind, to_namespace, to_name) = to;
        self.namespace == to_namespace
            && self.from.iter().any(|f| (&*f.group, &*f.kind, &*f.namespace) == from)
            && self.to.iter().any(|t| {
                t.group == to_group
                    && t.kind == to_kind
                    && t.name.as_deref().is_none_or(|name| name == to_name)
            })
    }
}

/// A list, or one entry where the list was forgotten: the examples of the KEP write both.
fn entries<'v>(spec: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
    let field = spec.get(name);
    let list = field.and_then(Value::as_array).into_iter().flatten();
    list.chain(field.filter(|field| field.is_object()))
}
