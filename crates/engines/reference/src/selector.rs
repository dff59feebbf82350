//! Selectors in grants and consumers: which namespaces have certain labels (D9), which classes are served by a
//! certain controller (D13).
//!
//! A selector says nothing by itself. It holds what it selects among the objects that somebody looked at: the
//! index, which keeps that in step, or a caller that has plain values. What nobody looked at is not selected.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use core::fmt;

use serde_json::{Map, Value};
use tenure_core::selector::LabelSelector;

use crate::json::Unusable;
use crate::model::{Consumer, Grant, Resource};
use crate::path::JsonPath;

/// Which selectors mean anything; none of them unless the host says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// Grants may select namespaces by labels (D9).
    pub namespaces: bool,
    /// Consumers may select classes by their controller (D13).
    pub classes: bool,
}

impl Selectors {
    /// All of them.
    pub const ALL: Selectors = Selectors { namespaces: true, classes: true };
}

/// The labels of a namespace.
pub(crate) type Labels = BTreeMap<String, String>;

/// The namespaces of origins, by labels (D9). The empty selector means all there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSelector {
    /// What the labels must be.
    pub labels: LabelSelector,
    /// The namespaces whose labels are so, among those that were looked at.
    pub selected: BTreeSet<String>,
}

impl NamespaceSelector {
    pub(crate) fn matches(&self, labels: &Labels) -> bool {
        self.labels.matches(|key| labels.get(key).map(String::as_str))
    }

    pub(crate) fn from_object(selector: &Value) -> Result<NamespaceSelector, Unusable> {
        let labels = selector.as_object().and_then(LabelSelector::from_object);
        let labels = labels.ok_or(Unusable::Field("origin.namespaceSelector"))?;
        Ok(NamespaceSelector { labels, selected: BTreeSet::new() })
    }
}

impl fmt::Display for NamespaceSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.labels.is_everything() {
            return out.write_str("all namespaces");
        }
        write!(out, "{}", self.labels)
    }
}

/// The classes of one controller, as the objects that describe classes name it (D13).
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSelector {
    /// The type of those objects, which have no namespace. Their names are the classes.
    pub resource: Resource,
    /// Where they name their controller.
    pub controller_path: JsonPath,
    /// The controller.
    pub controller_name: String,
    /// The classes of the controller, among those that were looked at.
    pub selected: BTreeSet<String>,
}

impl ClassSelector {
    pub(crate) fn from_object(selector: &Value) -> Result<ClassSelector, Unusable> {
        const FIELD: Unusable = Unusable::Field("classSelector");
        let part = |name: &str| selector.get(name).and_then(Value::as_str).ok_or(FIELD);
        let path = JsonPath::parse(part("controllerPath")?).map_err(Unusable::Path)?;
        let (resource, controller) = (part("resource")?, part("controllerName")?);
        if resource.is_empty() || controller.is_empty() || !path.is_singular() {
            return Err(FIELD);
        }
        Ok(ClassSelector {
            resource: Resource::new(part("group")?, resource),
            controller_path: path,
            controller_name: controller.into(),
            selected: BTreeSet::new(),
        })
    }

    /// The type, and the path as it is written: what tells which objects say what.
    pub(crate) fn key(&self) -> (Resource, String) {
        (self.resource.clone(), self.controller_path.text().into())
    }
}

/// The controller that an object names, if it names one.
pub(crate) fn controller<'o>(path: &JsonPath, object: &'o Value) -> Option<&'o str> {
    path.single(object, object).and_then(Value::as_str).filter(|name| !name.is_empty())
}

impl fmt::Display for ClassSelector {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClassSelector { resource, controller_path, controller_name, .. } = self;
        write!(out, "{resource} with {} `{controller_name}`", controller_path.text())
    }
}

impl Grant {
    /// Whether it is for origins of a namespace; the empty one is that of origins without one (R53).
    #[must_use]
    pub fn is_from(&self, namespace: &str) -> bool {
        match &self.namespace_selector {
            None => self.origin_namespace == namespace,
            Some(selector) => selector.selected.contains(namespace),
        }
    }

    /// Looks at namespaces, all there are: for callers without an index. Without a selector nothing happens.
    pub fn select<'n>(&mut self, namespaces: impl IntoIterator<Item = &'n Value>) {
        let Some(selector) = &mut self.namespace_selector else { return };
        let matching = namespaces.into_iter().filter(|namespace| {
            labels_of(namespace).is_some_and(|labels| selector.matches(&labels))
        });
        let selected = matching.filter_map(name_of).map(Into::into).collect();
        selector.selected = selected;
    }
}

impl Consumer {
    /// Looks at the objects of its class selector's type, all there are: for callers without an index.
    pub fn select<'o>(&mut self, objects: impl IntoIterator<Item = &'o Value>) {
        let Some(selector) = &mut self.class_selector else { return };
        let ClassSelector { controller_path, controller_name, .. } = &**selector;
        let is_its = |object: &&Value| controller(controller_path, object) == Some(controller_name);
        let its = objects.into_iter().filter(is_its);
        selector.selected = its.filter_map(name_of).map(Into::into).collect();
    }
}

fn name_of(object: &Value) -> Option<&str> {
    object.get("metadata")?.get("name")?.as_str().filter(|name| !name.is_empty())
}

/// The labels of an object; `None` where they are no labels, so that nothing is selected by them.
pub(crate) fn labels_of(object: &Value) -> Option<Labels> {
    let metadata = object.get("metadata")?;
    match metadata.get("labels") {
        None | Some(Value::Null) => Some(Labels::new()),
        Some(labels) => texts(labels.as_object()?),
    }
}

fn texts(members: &Map<String, Value>) -> Option<Labels> {
    members.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.into()))).collect()
}
