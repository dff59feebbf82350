//! The three kinds, read from JSON as it is stored. What cannot be understood grants nothing (R83).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde_json::{Map, Value};

use crate::model::{
    Consumer, Finder, Grant, ReferencePath, Resource, Strategy, Subject, Triple, VersionPaths,
};
use crate::path::{JsonPath, JsonPathError};
use crate::selector::{ClassSelector, NamespaceSelector};

type Object = Map<String, Value>;

/// Why a stored object is of no use; possible only where validation was passed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// A field is missing or of another type.
    Field(&'static str),
    /// The kind of a subject is not known.
    SubjectKind(String),
    /// A path does not parse.
    Path(JsonPathError),
}

impl fmt::Display for Unusable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Field(field) => write!(out, "`{field}` is missing or of a wrong type"),
            Unusable::SubjectKind(kind) => write!(out, "subjects of kind `{kind}` are not known"),
            Unusable::Path(error) => write!(out, "a path does not parse: {error}"),
        }
    }
}

impl core::error::Error for Unusable {}

impl Consumer {
    /// Reads a ClusterReferenceConsumer.
    ///
    /// # Errors
    /// What makes it unusable.
    pub fn from_object(object: &Object) -> Result<Consumer, Unusable> {
        let subject = object.get("subject").ok_or(Unusable::Field("subject"))?;
        let references = list(object.get("references")).map(|entry| {
            Ok(Triple {
                origin: resource(entry.get("origin"), "origin")?,
                target: resource(entry.get("target"), "target")?,
                purpose: text(entry.get("purpose"), "purpose")?,
            })
        });
        Ok(Consumer {
            name: name(object)?,
            subject: subject_of(subject)?,
            class_names: texts(object.get("classNames")),
            class_selector: present(object.get("classSelector"))
                .map(|selector| ClassSelector::from_object(selector).map(Box::new))
                .transpose()?,
            references: references.collect::<Result<_, Unusable>>()?,
        })
    }
}

impl Strategy {
    /// Reads a ReferenceStrategy.
    ///
    /// # Errors
    /// What makes it unusable; one path that does not parse makes the whole of it so.
    pub fn from_object(object: &Object) -> Result<Strategy, Unusable> {
        let versions = list(object.get("versions")).map(|entry| {
            let references = list(entry.get("references")).map(reference_path);
            Ok(VersionPaths {
                version: text(entry.get("version"), "version")?,
                class_path: path(entry.get("classPath"), JsonPath::parse)?,
                references: references.collect::<Result<_, Unusable>>()?,
            })
        });
        Ok(Strategy {
            name: name(object)?,
            origin: resource(object.get("origin"), "origin")?,
            versions: versions.collect::<Result<_, Unusable>>()?,
        })
    }
}

fn reference_path(entry: &Value) -> Result<ReferencePath, Unusable> {
    let expression = entry.get("expression").and_then(Value::as_str);
    let finder = match (path(entry.get("path"), JsonPath::parse)?, expression) {
        (Some(path), None) => Finder::Path(path),
        (None, Some(expression)) => Finder::Expression(expression.into()),
        _ => return Err(Unusable::Field("path")),
    };
    let allowed = entry.get("allowClusterScopedTarget").and_then(Value::as_bool);
    Ok(ReferencePath {
        finder,
        target: resource(entry.get("target"), "target")?,
        purpose: text(entry.get("purpose"), "purpose")?,
        namespace_path: path(entry.get("namespacePath"), JsonPath::parse_relative)?,
        allow_cluster_scoped: allowed.unwrap_or(false),
    })
}

impl Grant {
    /// Reads a ReferenceGrant.
    ///
    /// # Errors
    /// What makes it unusable.
    pub fn from_object(object: &Object) -> Result<Grant, Unusable> {
        let origin = object.get("origin");
        let target = object.get("target");
        let metadata = object.get("metadata");
        let namespace = metadata.and_then(|metadata| metadata.get("namespace"));
        let from = |member| origin.and_then(|origin| origin.get(member));
        let origin_namespace = from("namespace").and_then(Value::as_str).unwrap_or_default();
        let selector = present(from("namespaceSelector")).map(NamespaceSelector::from_object);
        let namespace_selector = selector.transpose()?.map(Box::new);
        if namespace_selector.is_some() && !origin_namespace.is_empty() {
            return Err(Unusable::Field("origin.namespace"));
        }
        Ok(Grant {
            namespace: text(namespace, "metadata.namespace")?,
            name: name(object)?,
            origin: resource(origin, "origin")?,
            origin_namespace: origin_namespace.into(),
            namespace_selector,
            target: resource(target, "target")?,
            names: texts(target.and_then(|target| target.get("names"))),
            purpose: text(object.get("purpose"), "purpose")?,
        })
    }
}

fn subject_of(subject: &Value) -> Result<Subject, Unusable> {
    let name = text(subject.get("name"), "subject.name")?;
    match subject.get("kind").and_then(Value::as_str).unwrap_or_default() {
        "User" => Ok(Subject::User(name)),
        "Group" => Ok(Subject::Group(name)),
        "ServiceAccount" => {
            let namespace = text(subject.get("namespace"), "subject.namespace")?;
            Ok(Subject::ServiceAccount { namespace, name })
        }
        kind => Err(Unusable::SubjectKind(kind.into())),
    }
}

fn name(object: &Object) -> Result<String, Unusable> {
    let metadata = object.get("metadata");
    text(metadata.and_then(|metadata| metadata.get("name")), "metadata.name")
}

fn resource(value: Option<&Value>, field: &'static str) -> Result<Resource, Unusable> {
    let part = |name: &str| value.and_then(|value| value.get(name)).and_then(Value::as_str);
    match (part("group"), part("resource")) {
        (Some(group), Some(resource)) => Ok(Resource::new(group, resource)),
        _ => Err(Unusable::Field(field)),
    }
}

fn path(
    value: Option<&Value>,
    parse: fn(&str) -> Result<JsonPath, JsonPathError>,
) -> Result<Option<JsonPath>, Unusable> {
    let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(parse).transpose().map_err(Unusable::Path)
}

fn text(value: Option<&Value>, field: &'static str) -> Result<String, Unusable> {
    let text = value.and_then(Value::as_str).filter(|text| !text.is_empty());
    text.map(Into::into).ok_or(Unusable::Field(field))
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn texts(value: Option<&Value>) -> Vec<String> {
    list(value).filter_map(Value::as_str).map(Into::into).collect()
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
