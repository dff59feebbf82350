//! What a definition defines: its versions, and the rows of the kind table they make.
//!
//! Rows are built from the names that were accepted, so a definition in conflict defines nothing.

use std::sync::Arc;

use serde_json::Value;
use tenure_machinery::kind::{
    ActedOn, Dependents, Kind, NameRule, SelectableField, StatusMeta, Subresource, Text, Verbs,
};
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use super::status::is_served;
use crate::custom::{CustomResourceRules, RuleEngine};
use crate::path;
use crate::schema::Schema;

/// The verbs of status and scale.
const PART_VERBS: &[&str] = &["get", "patch", "update"];

/// One version of a custom kind.
#[derive(Clone, Debug)]
pub struct CustomVersion {
    /// Such as `v1`.
    pub name: String,
    /// Whether requests may use it.
    pub served: bool,
    /// Whether objects are stored in it.
    pub storage: bool,
    /// Whether its use is warned of.
    pub deprecated: bool,
    /// The warning, if it is deprecated.
    pub deprecation_warning: Option<String>,
    /// `openAPIV3Schema`.
    pub schema: Option<Value>,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Where replicas are counted, if it has a scale subresource.
    pub scale: Option<ScalePaths>,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Value>,
    /// The paths of fields that selectors may name.
    pub selectable_fields: Vec<Vec<String>>,
}

/// Where a custom kind counts its replicas, one segment per member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// How many are wanted.
    pub spec_replicas: Vec<String>,
    /// How many there are.
    pub status_replicas: Vec<String>,
    /// Which pods they are, as the text of a selector.
    pub label_selector: Option<Vec<String>>,
}

impl ScalePaths {
    fn read(scale: &Object) -> ScalePaths {
        ScalePaths {
            spec_replicas: path::members(text(scale, "specReplicasPath")),
            status_replicas: path::members(text(scale, "statusReplicasPath")),
            label_selector: Some(text(scale, "labelSelectorPath"))
                .filter(|path| !path.is_empty())
                .map(path::members),
        }
    }

    /// What is wrong with the wanted replicas of an object.
    pub fn validate_spec(&self, object: &Object, errors: &mut Errors) {
        validate_count(object, &self.spec_replicas, errors);
    }

    /// What is wrong with the replicas and the selector that an object reports.
    pub fn validate_status(&self, object: &Object, errors: &mut Errors) {
        validate_count(object, &self.status_replicas, errors);
        let Some(selector) = &self.label_selector else { return };
        if let Some(value) = find(object, selector).filter(|value| !value.is_string()) {
            let field = format!(".{}", selector.join("."));
            errors.invalid(&Path::Root.field(&field), value, "must be a string");
        }
    }
}

fn find<'a>(object: &'a Object, path: &[String]) -> Option<&'a Value> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    object.at(&path)
}

fn validate_count(object: &Object, path: &[String], errors: &mut Errors) {
    let Some(value) = find(object, path) else { return };
    let fault = match value.as_i64() {
        None => "must be an integer",
        Some(count) if count < 0 => "must not be negative",
        Some(count) if count > i64::from(i32::MAX) => "must be at most 2147483647",
        Some(_) => return,
    };
    let field = format!(".{}", path.join("."));
    errors.invalid(&Path::Root.field(&field), value, fault);
}

/// Every version of a definition, served or not, in the order of the spec.
#[must_use]
pub fn versions(crd: &Object) -> Vec<CustomVersion> {
    let group = crd.str_at(&["spec", "group"]).unwrap_or_default();
    let kind = crd.str_at(&["spec", "names", "kind"]).unwrap_or_default();
    let Some(spec) = crd.map_at(&["spec"]) else { return Vec::new() };
    objects(spec, "versions").map(|(_, version)| read_version(version, group, kind)).collect()
}

fn read_version(version: &Object, group: &str, kind: &str) -> CustomVersion {
    let name = text(version, "name").to_owned();
    let flag = |member| version.bool_at(&[member]) == Some(true);
    let set = |path: &[&str]| version.at(path).filter(|value| !value.is_null());
    let deprecated = flag("deprecated");
    let warning = || match version.str_at(&["deprecationWarning"]) {
        Some(warning) => warning.to_owned(),
        None => format!("{group}/{name} {kind} is deprecated"),
    };
    CustomVersion {
        served: flag("served"),
        storage: flag("storage"),
        deprecated,
        deprecation_warning: deprecated.then(warning),
        schema: set(&["schema", "openAPIV3Schema"]).cloned(),
        status: set(&["subresources", "status"]).is_some(),
        scale: version.map_at(&["subresources", "scale"]).map(ScalePaths::read),
        columns: version.list_at(&["additionalPrinterColumns"]).to_vec(),
        selectable_fields: objects(version, "selectableFields")
            .map(|(_, field)| path::members(text(field, "jsonPath")))
            .collect(),
        name,
    }
}

/// The rows of the served versions; none while the definition is in conflict.
///
/// Rules of schemas run if there is an engine for them.
#[must_use]
pub fn kinds(crd: &Object, engine: Option<&dyn RuleEngine>) -> Vec<Kind> {
    if !is_served(crd) {
        return Vec::new();
    }
    versions(crd)
        .into_iter()
        .filter(|version| version.served)
        .map(|version| row(crd, version, engine))
        .collect()
}

/// The rows of all versions, also of those that are not served: objects may be stored in them.
#[must_use]
pub fn stored_kinds(crd: &Object, engine: Option<&dyn RuleEngine>) -> Vec<Kind> {
    if !is_served(crd) {
        return Vec::new();
    }
    versions(crd).into_iter().map(|version| row(crd, version, engine)).collect()
}

fn row(crd: &Object, version: CustomVersion, engine: Option<&dyn RuleEngine>) -> Kind {
    let own = |text: &str| Text::Owned(text.to_owned());
    let name =
        |member: &str| own(crd.str_at(&["status", "acceptedNames", member]).unwrap_or_default());
    let list = |member: &str| -> Vec<Text> {
        let list = crd.list_at(&["status", "acceptedNames", member]);
        list.iter().filter_map(Value::as_str).map(own).collect()
    };
    let group = crd.str_at(&["spec", "group"]).unwrap_or_default();
    let plural = name("plural");
    let schema =
        version.schema.as_ref().and_then(|schema| Schema::parse(schema).ok()).map(Arc::new);
    let rules = engine
        .zip(version.schema.as_ref().zip(schema.as_deref()))
        .and_then(|(engine, (raw, schema))| engine.compile(raw, schema));
    Kind {
        group: own(group),
        version: own(&version.name),
        kind: name("kind"),
        singular: name("singular"),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: crd.str_at(&["spec", "scope"]) == Some("Namespaced"),
        verbs: Verbs::All,
        type_name: Text::Borrowed(""),
        storage: Text::Owned(format!("{group}/{plural}")),
        plural,
        subresources: subresources(&version),
        name_rule: NameRule::Subdomain,
        generation: true,
        status: version.status.then_some(StatusMeta::Frozen),
        unconditional_update: false,
        create_on_update: false,
        returns_deleted: false,
        dependents: Dependents::Delete,
        fields: version.selectable_fields.iter().map(|path| selectable(path)).collect(),
        acted_on: ActedOn::By("whoever defined it"),
        deprecated: version.deprecation_warning.map(Text::Owned),
        rules: Box::new(CustomResourceRules {
            api_version: format!("{group}/{}", version.name),
            kind: name("kind").into_owned(),
            schema,
            status: version.status,
            scale: version.scale,
            rules,
        }),
    }
}

/// An empty kind means the kind of the row itself.
fn subresources(version: &CustomVersion) -> Vec<Subresource> {
    let status = version.status.then_some(Subresource {
        name: "status",
        kind: "",
        group_version: None,
        verbs: PART_VERBS,
    });
    let scale = version.scale.as_ref().map(|_| Subresource {
        name: "scale",
        kind: "Scale",
        group_version: Some(("autoscaling", "v1")),
        verbs: PART_VERBS,
    });
    status.into_iter().chain(scale).collect()
}

fn selectable(path: &[String]) -> SelectableField {
    SelectableField {
        label: Text::Owned(path.join(".")),
        path: path.iter().map(|segment| Text::Owned(segment.clone())).collect(),
        absent: "",
        instead: None,
    }
}
