//! Custom kinds: what definitions define, served from the commit that accepts them (R118–R133).
//!
//! ```text
//!   commit of a definition ──► Feed ──► Kinds (replaced whole) ──► discovery, OpenAPI, requests
//!   commit of an APIService ──┘
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Failure, Kind, Object, ObjectExt};
use tenure_patch::{Structural, TypeSchema};
use tenure_schema::facts;
use tenure_structural::crd::{self, ReservedNames, ScalePaths};
use tenure_structural::meta::{Wrong, coerce};
use tenure_structural::{RuleEngine, Schema, default, prune};
use tenure_table::CustomColumns;
use tenure_world::{Change, LockStep, Record, World};

use crate::aggregate;
use crate::conversion::ConversionWebhook;
use crate::registry::{Registry, ServedKind, ServedKinds};

/// Where definitions are kept.
pub(crate) const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// What a custom kind has beyond its row.
pub struct Custom {
    /// The definition's name.
    pub(crate) definition: String,
    /// The definition's uid and spec: a watch ends when either is another.
    pub(crate) identity: Arc<(String, Value)>,
    /// The revision that last changed the definition.
    pub(crate) revision: Revision,
    /// The version objects are stored in, as they name it.
    pub(crate) storage_version: String,
    /// The schema; a version without one keeps nothing but metadata.
    pub(crate) schema: Option<Arc<Schema>>,
    /// The schemas of all versions, by what objects call the version.
    pub(crate) schemas: Arc<[(String, Arc<Schema>)]>,
    /// The schema as written.
    pub(crate) raw: Value,
    /// Columns for people.
    pub(crate) columns: CustomColumns,
    /// Where replicas are counted.
    pub(crate) scale: Option<ScalePaths>,
    /// Where each version of the definition has the wanted ones, by what objects call the version; none
    /// where it has no Scale.
    pub(crate) replicas: Arc<[(String, Option<Vec<String>>)]>,
    /// Who brings objects from one version to another; without one, versions differ in apiVersion only.
    pub(crate) conversion: Option<Arc<ConversionWebhook>>,
    /// The rows under which objects are worked on in whichever version they are stored; only where versions
    /// differ.
    pub(crate) as_stored: Arc<[Arc<ServedKind>]>,
    /// Whether the definition is going.
    pub(crate) terminating: bool,
}

impl Custom {
    /// How values merge and who owns what, by the schema.
    pub(crate) fn merging(&self) -> Structural<'_> {
        let metadata = facts()
            .type_id("apimachinery.meta.v1.ObjectMeta")
            .map(|type_id| TypeSchema::new(facts(), type_id));
        Structural::new(&self.raw, metadata)
    }

    /// Whether the bytes of a record are what this version shows: written in it, under this schema.
    pub(crate) fn shows_verbatim(&self, record: &Record, api_version: &str) -> bool {
        record.is_reshaped()
            || (record.revision() > self.revision && record.api_version() == api_version)
    }

    /// Whether objects of one version say nothing in another before a webhook has converted them.
    pub(crate) fn converts(&self, from: &str, to: &str) -> bool {
        self.conversion.is_some() && from != to
    }

    /// What a record says in the version that it is stored in, which fills in what is missing.
    ///
    /// # Errors
    /// It cannot be read, or its version is none of the definition.
    pub(crate) fn read_stored(&self, record: &Record) -> Result<Object, Failure> {
        let mut object = parse(record.bytes())?;
        let version = record.api_version();
        let schema = self.schema_of(version).ok_or_else(|| {
            let why = "request to convert CR from an invalid group/version";
            Failure::new(500, "", format!("{why}: {version}"))
        })?;
        tidy(&mut object, schema);
        default::default(&mut object, schema);
        Ok(object)
    }

    /// Checks a body, drops what the schema does not know; answers the paths that were dropped.
    pub(crate) fn decode(&self, object: &mut Object) -> Result<Vec<String>, String> {
        let Some(schema) = &self.schema else { return Ok(Vec::new()) };
        let mut dropped =
            coerce(object, schema, Wrong::Refuse).map_err(|wrong| wrong.to_string())?;
        dropped.extend(prune::prune(object, schema));
        Ok(dropped)
    }

    /// Brings an object that is stored in a version into the form of today's schemas: that version's, which
    /// fills in what is missing as well, and then this one's (R121, R122, R121a).
    pub(crate) fn show(&self, object: &mut Object, stored: &str) {
        let stored = self.schema_of(stored).or(self.schema.as_ref());
        if let Some(stored) = stored {
            tidy(object, stored);
            default::default(object, stored);
        }
        match (&self.schema, stored) {
            (Some(own), Some(stored)) if Arc::ptr_eq(own, stored) => {}
            (Some(own), _) => tidy(object, own),
            (None, _) => {}
        }
    }

    /// What the version does not know falls away.
    pub(crate) fn convert(&self, object: &mut Object) {
        if let Some(schema) = &self.schema {
            tidy(object, schema);
        }
    }

    /// The object as it is stored, where the version it was written in is another one: what that one does
    /// not know is not kept (R121a).
    pub(crate) fn to_stored<'o>(&self, object: &'o Object, api_version: &str) -> Cow<'o, Object> {
        match self.schema_of(&self.storage_version) {
            Some(schema) if api_version != self.storage_version => {
                let mut object = object.clone();
                tidy(&mut object, schema);
                Cow::Owned(object)
            }
            _ => Cow::Borrowed(object),
        }
    }

    /// The schema of a version, served or not.
    pub(crate) fn schema_of(&self, api_version: &str) -> Option<&Arc<Schema>> {
        let mut all = self.schemas.iter();
        all.find(|(version, _)| version == api_version).map(|(_, schema)| schema)
    }
}

/// Drops what a schema does not know, and metadata that is none.
fn tidy(object: &mut Object, schema: &Schema) {
    // Dropping cannot fail.
    let _ = coerce(object, schema, Wrong::Drop);
    prune::prune(object, schema);
}

/// What a webhook made of an object, by the schema of its version: what that does not know falls away, and
/// metadata that is none is refused.
pub(crate) fn finish(object: &mut Object, schema: Option<&Schema>) -> Result<(), String> {
    let Some(schema) = schema else { return Ok(()) };
    coerce(object, schema, Wrong::Refuse).map_err(|wrong| wrong.to_string())?;
    prune::prune(object, schema);
    Ok(())
}

/// The members of a stored object.
pub(crate) fn parse(bytes: &[u8]) -> Result<Object, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|error| Failure::internal(format!("a stored object cannot be read: {error}")))
}

/// The rows that a definition makes.
pub(crate) fn served(
    record: &Record,
    definition: &Object,
    engine: Option<&dyn RuleEngine>,
) -> Vec<Arc<ServedKind>> {
    let versions = crd::versions(definition);
    let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
    let storage = versions.iter().find(|version| version.storage).map(|v| v.name.clone());
    let storage_version = format!("{group}/{}", storage.unwrap_or_default());
    let spec = definition.get("spec").cloned().unwrap_or_default();
    let identity = Arc::new((record.uid().to_owned(), spec));
    let raw_of =
        |schema: &Option<Value>| schema.clone().unwrap_or_else(|| json!({ "type": "object" }));
    let schemas: Arc<[(String, Arc<Schema>)]> = versions
        .iter()
        .filter_map(|version| {
            let schema = Schema::parse(&raw_of(&version.schema)).ok()?;
            Some((format!("{group}/{}", version.name), Arc::new(schema)))
        })
        .collect();
    let replicas: Arc<[_]> = versions
        .iter()
        .map(|version| {
            let path = version.scale.as_ref().map(|paths| paths.spec_replicas.clone());
            (format!("{group}/{}", version.name), path)
        })
        .collect();
    let conversion = ConversionWebhook::of(definition);
    let row = |kind: Kind, storage_version: &str, as_stored: Arc<[Arc<ServedKind>]>| {
        let version = versions.iter().find(|version| version.name == kind.version)?;
        let api_version = kind.api_version();
        let schema = schemas.iter().find(|(name, _)| *name == api_version);
        let custom = Custom {
            definition: definition.name().to_owned(),
            identity: Arc::clone(&identity),
            revision: record.revision(),
            storage_version: storage_version.to_owned(),
            schema: schema.map(|(_, schema)| Arc::clone(schema)),
            schemas: Arc::clone(&schemas),
            columns: CustomColumns::new(&version.columns),
            scale: version.scale.clone(),
            replicas: Arc::clone(&replicas),
            conversion: conversion.clone(),
            as_stored,
            terminating: crd::is_terminating(definition),
            raw: raw_of(&version.schema),
        };
        Some(Arc::new(ServedKind {
            prefix: format!("/registry/{}/", kind.storage),
            type_id: None,
            api_version,
            view: None,
            custom: Some(Arc::new(custom)),
            around: std::sync::Weak::new(),
            kind,
        }))
    };
    // Whoever works on what is stored writes it back in the version that it is in.
    let as_stored: Arc<[_]> = match conversion {
        None => Arc::default(),
        Some(_) => {
            let all = crd::stored_kinds(definition, engine).into_iter();
            all.filter_map(|kind| {
                let own = kind.api_version();
                row(kind, &own, Arc::default())
            })
            .collect()
        }
    };
    let rows = crd::kinds(definition, engine).into_iter();
    rows.filter_map(|kind| row(kind, &storage_version, Arc::clone(&as_stored))).collect()
}

/// Every definition in a state.
pub(crate) fn definitions(state: &World) -> Vec<(Arc<Record>, Object)> {
    state
        .range(DEFINITIONS, None)
        .filter_map(|record| {
            Some((Arc::clone(record), serde_json::from_slice(record.bytes()).ok()?))
        })
        .collect()
}

/// Settles names and conditions of a definition against all others, in its own transaction (R130).
///
/// A built-in kind holds its names as well: it would be served in place of what the definition says.
pub(crate) fn settle(state: &World, registry: &Registry, definition: &mut Object, now: &str) {
    let others = definitions(state);
    let group = definition.str_at(&["spec", "group"]).unwrap_or_default().to_owned();
    let mut held =
        ReservedNames::held(others.iter().map(|(_, other)| other), &group, definition.name());
    let builtin = registry.kinds().iter().filter(|served| served.custom.is_none());
    for served in builtin.filter(|served| served.kind.group == group) {
        held.hold_builtin(&served.kind);
    }
    crd::settle(definition, &held, now);
}

/// 403 for a new object of a kind that is going (R132).
pub(crate) fn must_not_be_going(served: &ServedKind, name: &str) -> Result<(), Failure> {
    match &served.custom {
        Some(custom) if custom.terminating => Err(Failure::forbidden(
            &served.kind.group,
            &served.kind.plural,
            name,
            "create not allowed while custom resource definition is terminating",
        )),
        _ => Ok(()),
    }
}

/// The index that must be handed to the world.
pub(crate) struct CustomKindUpdater {
    pub(crate) kinds: Arc<ServedKinds>,
}

impl LockStep for CustomKindUpdater {
    fn start(&mut self, world: &World) {
        self.kinds.define(world);
        self.kinds.register(world);
    }

    fn apply(&mut self, world: &World, changes: &[Arc<Change>]) {
        let changed = |prefix| changes.iter().any(|change| change.key.starts_with(prefix));
        if changed(DEFINITIONS) {
            self.kinds.define(world);
        }
        if changes.iter().any(|change| aggregate::concerns(change)) {
            self.kinds.register(world);
        }
    }
}
