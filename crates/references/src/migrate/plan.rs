//! From what is wanted and the grants that are there to what has to be done: nothing but grants that were made
//! here before is ever changed, and a name stays in the grant it is in, so that it is never without one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};
use tenure_reference::{Grant, Resource};

use super::{Converted, DesiredGrant, place};
use crate::objects::grant_object;

/// The annotation of every grant that was made from an old one: the name of that one.
pub const MADE_FROM: &str = "reference.tenure.dev/migrated-from";

/// The most names in one grant (D20).
pub const NAMES_MAX: usize = 16;

/// The longest name of an object.
const NAME_MAX: usize = 253;

/// How much is known, and so what may be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalScope {
    /// Not everything that was asked for could be read: nothing is taken away.
    Part,
    /// All of these sources: names that they no longer want go.
    Sources,
    /// All sources there are: what was made from one that is not among them goes as well.
    Cluster,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum MigrationStep {
    /// A grant that is not there.
    Create(Value),
    /// A grant that has other names now.
    Change {
        /// The grant with its new names.
        grant: Value,
        /// The names it did not have.
        added: Vec<String>,
        /// The names it has no longer.
        dropped: Vec<String>,
    },
    /// A grant without a name that is wanted, or without its source.
    Delete(Value),
}

impl MigrationStep {
    /// The grant.
    #[must_use]
    pub fn grant(&self) -> &Value {
        let (MigrationStep::Create(grant)
        | MigrationStep::Change { grant, .. }
        | MigrationStep::Delete(grant)) = self;
        grant
    }
}

impl fmt::Display for MigrationStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: ", place(self.grant()))?;
        match self {
            MigrationStep::Create(grant) => {
                write!(out, "created, with {}", names_of(grant).join(", "))
            }
            MigrationStep::Change { added, dropped, .. } => {
                match (added.as_slice(), dropped.as_slice()) {
                    (added, []) => write!(out, "now with {}", added.join(", ")),
                    ([], dropped) => write!(out, "without {}", dropped.join(", ")),
                    _ => {
                        write!(out, "now with {}, without {}", added.join(", "), dropped.join(", "))
                    }
                }
            }
            MigrationStep::Delete(_) => out.write_str("deleted"),
        }
    }
}

/// What has to be done, additions first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MigrationPlan {
    /// In this order.
    pub steps: Vec<MigrationStep>,
    /// The grants whose names were needed and which somebody else made, by namespace and name.
    pub taken: Vec<String>,
}

/// Grants with one key were made from one source and differ in nothing but their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GrantKey {
    namespace: String,
    source: String,
    origin: Resource,
    origin_namespace: String,
    target: Resource,
    purpose: String,
}

impl GrantKey {
    fn of_wanted(wanted: &DesiredGrant) -> GrantKey {
        GrantKey {
            namespace: wanted.namespace.clone(),
            source: wanted.source.clone(),
            origin: wanted.origin.clone(),
            origin_namespace: wanted.origin_namespace.clone(),
            target: wanted.target.clone(),
            purpose: wanted.purpose.clone(),
        }
    }

    /// Of a grant that is there; `None` if it was not made here, or does not say what it was made to say.
    fn of_grant(object: &Value) -> Option<GrantKey> {
        let source = object.pointer("/metadata/annotations")?.get(MADE_FROM)?.as_str()?;
        let grant = Grant::from_object(object.as_object()?).ok()?;
        let made = GrantKey {
            namespace: grant.namespace,
            source: source.to_owned(),
            origin: grant.origin,
            origin_namespace: grant.origin_namespace,
            target: grant.target,
            purpose: grant.purpose,
        };
        Some(made).filter(|_| grant.namespace_selector.is_none())
    }
}

impl MigrationPlan {
    /// What has to be done so that exactly what is wanted is granted. `sources` have their namespace and name
    /// each, `there` are the grants of this API.
    #[must_use]
    pub fn new<'g>(
        sources: &[(String, Converted)],
        there: impl IntoIterator<Item = &'g Value>,
        scope: RemovalScope,
    ) -> MigrationPlan {
        let mut drawing = Drawing { scope, names: BTreeMap::new(), plan: MigrationPlan::default() };
        let mut made: BTreeMap<GrantKey, Vec<&Value>> = BTreeMap::new();
        for grant in there {
            let key = GrantKey::of_grant(grant);
            drawing.names.insert(place(grant), key.is_some());
            if let Some(key) = key {
                made.entry(key).or_default().push(grant);
            }
        }
        let mut wanted: BTreeMap<GrantKey, DesiredGrant> = BTreeMap::new();
        for one in sources.iter().flat_map(|(_, converted)| &converted.wanted) {
            let all = wanted.entry(GrantKey::of_wanted(one)).or_insert_with(|| one.clone());
            all.names.extend(one.names.iter().cloned());
        }
        for (key, wanted) in &wanted {
            drawing.draw(wanted, &made.remove(key).unwrap_or_default());
        }
        let left = made.into_iter().filter(|(key, _)| {
            let source = format!("{}/{}", key.namespace, key.source);
            let source = sources.iter().find(|(place, _)| *place == source);
            match (scope, source) {
                (RemovalScope::Part, _) | (RemovalScope::Sources, None) => false,
                (RemovalScope::Cluster, None) => true,
                // What could not be converted may still be meant.
                (_, Some((_, converted))) => converted.is_whole(),
            }
        });
        let left = left.flat_map(|(_, grants)| grants);
        drawing.plan.steps.extend(left.map(|grant| MigrationStep::Delete(grant.clone())));
        // Additions first, so that nothing is missed in between.
        drawing.plan.steps.sort_by_key(|step| matches!(step, MigrationStep::Delete(_)));
        drawing.plan
    }

    /// The grants to create, without the mark: whoever applies them by other means keeps them.
    pub(super) fn into_created(self) -> Vec<Value> {
        let created = self.steps.into_iter().filter_map(|step| match step {
            MigrationStep::Create(mut grant) => {
                if let Some(metadata) = grant.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("annotations");
                }
                Some(grant)
            }
            MigrationStep::Change { .. } | MigrationStep::Delete(_) => None,
        });
        created.collect()
    }
}

/// A plan that is being made.
struct Drawing {
    scope: RemovalScope,
    /// The namespace and name of every grant there is or will be, and whether it was made here.
    names: BTreeMap<String, bool>,
    plan: MigrationPlan,
}

impl Drawing {
    /// Brings the grants that were made for this to what is wanted now.
    fn draw(&mut self, wanted: &DesiredGrant, made: &[&Value]) {
        let mut missing = wanted.names.clone();
        let mut kept: Vec<(&Value, Vec<String>, BTreeSet<String>)> = Vec::new();
        for grant in made {
            let had = names_of(grant);
            let stays = |name: &&String| missing.remove(*name) || self.scope == RemovalScope::Part;
            let names: BTreeSet<String> = had.iter().filter(stays).cloned().collect();
            kept.push((grant, had, names));
        }
        let mut missing = missing.into_iter();
        for (_, _, names) in &mut kept {
            let room = NAMES_MAX.saturating_sub(names.len());
            names.extend(missing.by_ref().take(room));
        }
        for (grant, had, names) in kept {
            self.plan.steps.extend(step(grant, &had, &names));
        }
        let missing: Vec<String> = missing.collect();
        let chunks: Vec<&[String]> = missing.chunks(NAMES_MAX).collect();
        let alone = made.is_empty() && chunks.len() == 1;
        let mut number = usize::from(!alone);
        for names in chunks {
            if let Some(name) = self.free_name(wanted, &mut number) {
                self.plan.steps.push(MigrationStep::Create(grant(wanted, &name, names)));
            }
        }
    }

    /// The next name for a grant: the base alone, then with numbers. Names of other grants that were made here
    /// are passed over; one of somebody else's is reported.
    fn free_name(&mut self, wanted: &DesiredGrant, number: &mut usize) -> Option<String> {
        loop {
            let name = match *number {
                0 => wanted.base.clone(),
                number => format!("{}-{number}", wanted.base),
            };
            *number += 1;
            let name = shortened(&name);
            let place = format!("{}/{name}", wanted.namespace);
            match self.names.get(&place) {
                None => {
                    self.names.insert(place, true);
                    return Some(name);
                }
                Some(true) => {}
                Some(false) => {
                    self.plan.taken.push(place);
                    return None;
                }
            }
        }
    }
}

/// What has to be done with a grant that is there.
fn step(grant: &Value, had: &[String], names: &BTreeSet<String>) -> Option<MigrationStep> {
    let added: Vec<String> = names.iter().filter(|name| !had.contains(name)).cloned().collect();
    let dropped: Vec<String> = had.iter().filter(|name| !names.contains(*name)).cloned().collect();
    if names.is_empty() {
        return Some(MigrationStep::Delete(grant.clone()));
    }
    if added.is_empty() && dropped.is_empty() {
        return None;
    }
    let mut grant = grant.clone();
    if let Some(target) = grant.get_mut("target").and_then(Value::as_object_mut) {
        target.insert("names".to_owned(), json!(names));
    }
    Some(MigrationStep::Change { grant, added, dropped })
}

fn grant(wanted: &DesiredGrant, name: &str, names: &[String]) -> Value {
    let mut object = grant_object(&Grant {
        namespace: wanted.namespace.clone(),
        name: name.to_owned(),
        origin: wanted.origin.clone(),
        origin_namespace: wanted.origin_namespace.clone(),
        namespace_selector: None,
        target: wanted.target.clone(),
        names: names.to_vec(),
        purpose: wanted.purpose.clone(),
    });
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("annotations".to_owned(), json!({ MADE_FROM: wanted.source }));
    }
    object
}

fn names_of(grant: &Value) -> Vec<String> {
    let names = grant.pointer("/target/names").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

/// A name that is short enough; what is cut off is kept as a hash.
fn shortened(name: &str) -> String {
    if name.len() <= NAME_MAX {
        return name.to_owned();
    }
    // FNV-1a: stable in all releases, since names of objects must not change with the program.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let keep = NAME_MAX - 9;
    let kept = name.get(..keep).unwrap_or_default().trim_end_matches(['-', '.']);
    format!("{kept}-{hash:08x}")
}
