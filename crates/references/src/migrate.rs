//! From ReferenceGrants of the Gateway API to those of this API (spec section 11). Nothing is read or written
//! here, and nothing is ever guessed: what cannot be converted is said.
//!
//! ```text
//!   spec.from × spec.to ──► what is wanted: for each (from, group and kind of to, purpose) all names together
//!   wanted, what is there ──► Plan: grants to create, to change and to delete, sixteen names in each
//! ```

mod follow;
mod gateway_grants;
mod in_use;
mod kinds;
mod plan;
mod source;
mod verify;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use tenure_reference::{GROUP, Resource, ServedType, Strategy};

pub use follow::{Following, Origins};
pub use gateway_grants::{GatewayGrants, Honoured};
pub use in_use::InUse;
pub use kinds::{KNOWN_KINDS, KnownKind};
pub use plan::{MADE_FROM, MigrationPlan, MigrationStep, NAMES_MAX, RemovalScope};
pub use source::{SOURCE_GROUP, SourceGrant, is_source};
pub use verify::{ChangedVerdict, verify};

/// What is known of the cluster, or of the files.
#[derive(Clone, Copy, Debug, Default)]
pub struct MigrationContext<'a> {
    /// What is served; empty where nobody was asked, then the built-in table is used alone.
    pub served: &'a [ServedType],
    /// Strategies in force.
    pub strategies: &'a [Strategy],
    /// Strategies that could be put in force: the bundled ones. They know purposes, and warn.
    pub bundled: &'a [Strategy],
    /// What living origins reference in other namespaces; `None` where nobody looked.
    pub in_use: Option<&'a InUse>,
}

/// The strategies by which references are found: those in force, and bundled ones for types that none in force
/// reads.
#[must_use]
pub fn finding<'a>(in_force: &'a [Strategy], bundled: &'a [Strategy]) -> Vec<&'a Strategy> {
    let reads = |origin: &Resource| in_force.iter().any(|strategy| strategy.origin == *origin);
    let others = bundled.iter().filter(|strategy| !reads(&strategy.origin));
    in_force.iter().chain(others).collect()
}

/// The code of the note that an entry means every name, and was taken to mean those in use.
pub const SNAPSHOT: &str = "snapshot-of-wildcard";

/// How much a note matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Part of the source is not converted.
    Error,
    /// It is converted, and may not do what its author means.
    Warning,
    /// Good to know.
    Note,
}

impl fmt::Display for Weight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Weight::Error => "error",
            Weight::Warning => "warning",
            Weight::Note => "note",
        })
    }
}

/// Something to say about a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationNote {
    /// How much it matters.
    pub weight: Weight,
    /// What it is about, for programs.
    pub code: &'static str,
    /// The field of the source.
    pub field: String,
    /// In words.
    pub text: String,
}

impl fmt::Display for MigrationNote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MigrationNote { weight, code, field, text } = self;
        write!(out, "{weight}: {field}: {text} ({code})")
    }
}

/// The names that origins of one type and namespace may point at, for one purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredGrant {
    /// The source.
    pub source: String,
    /// Its namespace, which is that of the targets.
    pub namespace: String,
    /// The name of the grant; of several, what their names begin with.
    pub base: String,
    /// The type of origins.
    pub origin: Resource,
    /// The namespace of origins; empty for origins without one.
    pub origin_namespace: String,
    /// The type of targets.
    pub target: Resource,
    /// What for.
    pub purpose: String,
    /// The names of targets.
    pub names: BTreeSet<String>,
}

/// What came of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Converted {
    /// What is to be granted. The source stays as it is (M5).
    pub wanted: Vec<DesiredGrant>,
    /// What there is to say.
    pub notes: Vec<MigrationNote>,
}

impl Converted {
    /// The grants as they are where there are none yet.
    #[must_use]
    pub fn grants(&self) -> Vec<Value> {
        MigrationPlan::new(&[(String::new(), self.clone())], [], RemovalScope::Sources)
            .into_created()
    }

    /// Whether all of the source was converted.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.notes.iter().any(|note| note.weight == Weight::Error)
    }

    fn note(&mut self, weight: Weight, code: &'static str, field: &str, text: String) {
        let note = MigrationNote { weight, code, field: field.to_owned(), text };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Converts one ReferenceGrant of the Gateway API, in either spelling (M1).
#[must_use]
pub fn convert(object: &Value, facts: &MigrationContext<'_>) -> Converted {
    let mut out = Converted::default();
    let source = match SourceGrant::read(object) {
        Ok(source) => source,
        Err((field, text)) => {
            out.note(Weight::Error, "unreadable", field, text);
            return out;
        }
    };
    for (number, from) in source.from.iter().enumerate() {
        let field = format!("spec.{}[{number}]", source.spelling.from());
        let Some(origin) = kinds::resolve(&from.group, &from.kind, facts.served) else {
            unknown_kind(&mut out, &field, &from.group, &from.kind);
            continue;
        };
        if !origin.namespaced && !from.namespace.is_empty() {
            let text = format!("{} have no namespace, but one is named", origin.resource);
            out.note(Weight::Error, "cluster-scoped-origin", &field, text);
            continue;
        }
        for ((group, kind), to) in source.targets() {
            let field = format!("spec.{}[{}]", source.spelling.to(), to.first);
            let Some(target) = kinds::resolve(group, kind, facts.served) else {
                unknown_kind(&mut out, &field, group, kind);
                continue;
            };
            let link = OriginTargetPair {
                source: &source,
                from,
                origin: &origin.resource,
                target: &target.resource,
            };
            link.convert(facts, &to.names, to.all, &field, &mut out);
        }
    }
    out
}

fn unknown_kind(out: &mut Converted, field: &str, group: &str, kind: &str) {
    let text = format!("nobody knows the resource of kind `{kind}` in group `{group}`");
    out.note(Weight::Error, "unknown-kind", field, text);
}

/// One origin type and namespace, and one target type, of a source.
struct OriginTargetPair<'a> {
    source: &'a SourceGrant,
    from: &'a source::From,
    origin: &'a Resource,
    target: &'a Resource,
}

impl OriginTargetPair<'_> {
    fn convert(
        &self,
        facts: &MigrationContext<'_>,
        names: &BTreeSet<String>,
        all: bool,
        field: &str,
        out: &mut Converted,
    ) {
        let (purposes, in_force) = self.purposes(facts);
        if purposes.is_empty() {
            let skeleton = skeleton(self.origin, self.target, facts.served);
            let text = format!(
                "no strategy says what references from {} to {} are for; write one such as:\n{skeleton}",
                self.origin, self.target
            );
            return out.note(Weight::Error, "no-strategy", field, text);
        }
        if !in_force {
            let text = format!(
                "no strategy in force finds references from {} to {}: the grant has no effect until one is applied",
                self.origin, self.target
            );
            out.note(Weight::Warning, "inert", field, text);
        }
        if self.target.group.is_empty() && self.target.resource == "services" {
            let text = "a grant to a Service lets its object be read; sending traffic to it stays the duty of the controller";
            out.note(Weight::Note, "data-path", field, text.to_owned());
        }
        for purpose in &purposes {
            let mut names = names.clone();
            if all {
                names.extend(self.referenced(facts, purpose, field, out));
            }
            let several = purposes.len() > 1;
            out.wanted.push(self.wanted(names, purpose, several));
        }
    }

    /// What such references are for, and whether strategies in force say so.
    fn purposes(&self, facts: &MigrationContext<'_>) -> (BTreeSet<String>, bool) {
        let purposes = |strategies: &[Strategy]| {
            let of_type = strategies.iter().filter(|strategy| strategy.origin == *self.origin);
            let versions = of_type.flat_map(|strategy| &strategy.versions);
            let paths = versions.flat_map(|version| &version.references);
            let paths = paths.filter(|path| path.target == *self.target);
            paths.map(|path| path.purpose.clone()).collect::<BTreeSet<String>>()
        };
        let in_force = purposes(facts.strategies);
        match in_force.is_empty() {
            true => (purposes(facts.bundled), false),
            false => (in_force, true),
        }
    }

    /// The names that living origins reference now, in the place of all names there may ever be (M4).
    fn referenced(
        &self,
        facts: &MigrationContext<'_>,
        purpose: &str,
        field: &str,
        out: &mut Converted,
    ) -> Vec<String> {
        let Some(in_use) = facts.in_use else {
            let text = "it means every name, which this API cannot say; the names in use can be told with --cluster";
            out.note(Weight::Error, "wildcard", field, text.to_owned());
            return Vec::new();
        };
        let (origin, target) = (
            (self.origin, self.from.namespace.as_str()),
            (self.target, self.source.namespace.as_str()),
        );
        let names: Vec<String> = in_use.names(origin, target, purpose).map(str::to_owned).collect();
        let text = match names.len() {
            0 => format!(
                "it means every name, which this API cannot say, and none is referenced now for {purpose}"
            ),
            count => format!(
                "it means every name, which this API cannot say; {count} referenced now for {purpose} are granted"
            ),
        };
        out.note(Weight::Warning, SNAPSHOT, field, text);
        names
    }

    /// What is to be granted of these names (M2).
    fn wanted(&self, names: BTreeSet<String>, purpose: &str, several: bool) -> DesiredGrant {
        let mut base =
            format!("{}-{}-{}", self.source.name, self.origin.resource, self.target.resource);
        if several {
            base = format!("{base}-{purpose}");
        }
        // Two namespaces may be named in one source, and their grants must not have one name.
        if self.source.names_elsewhere(self.from) {
            base = format!("{base}-{}", self.from.namespace);
        }
        DesiredGrant {
            source: self.source.name.clone(),
            namespace: self.source.namespace.clone(),
            base,
            origin: self.origin.clone(),
            origin_namespace: self.from.namespace.clone(),
            target: self.target.clone(),
            purpose: purpose.to_owned(),
            names,
        }
    }
}

/// A strategy to begin with, for an API that none is known for.
fn skeleton(origin: &Resource, target: &Resource, served: &[ServedType]) -> String {
    let row = served.iter().find(|row| row.resource == *origin);
    let version = row.and_then(|row| row.versions.first()).map_or("v1", String::as_str);
    format!(
        "apiVersion: {GROUP}/v1alpha1\nkind: ReferenceStrategy\nmetadata: {{name: {origin}}}\n\
         origin: {{group: \"{}\", resource: {}}}\nversions:\n- version: {version}\n  references:\n  \
         - path: .spec.PATH.name\n    target: {{group: \"{}\", resource: {}}}\n    purpose: PURPOSE\n",
        origin.group, origin.resource, target.group, target.resource
    )
}

/// Converts several sources; each with its namespace and name.
#[must_use]
pub fn convert_all<'s>(
    sources: impl IntoIterator<Item = &'s Value>,
    facts: &MigrationContext<'_>,
) -> Vec<(String, Converted)> {
    let sources = sources.into_iter();
    sources.map(|object| (place(object), convert(object, facts))).collect()
}

/// The namespace and name of an object.
fn place(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"))
}
