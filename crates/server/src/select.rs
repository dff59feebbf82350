//! Selectors against stored headers: nobody decodes an object to be listed.

use tenure_core::selector::{FieldSelector, LabelSelector};
use tenure_machinery::Failure;
use tenure_world::Record;

use crate::registry::ServedKind;

/// Labels and fields to select by, checked against a kind.
#[derive(Clone, Debug)]
pub(crate) struct SelectionPredicate {
    labels: LabelSelector,
    fields: Vec<FieldTest>,
}

#[derive(Clone, Debug)]
struct FieldTest {
    field: FieldAt,
    path: String,
    /// The path that counts where the first one is empty.
    instead: Option<&'static str>,
    value: String,
    equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum FieldAt {
    Name,
    Namespace,
    /// Of any owner.
    OwnerUid,
    Other(usize),
}

/// Selects what an owner owns, on every kind (ownership section 21).
const OWNER_UID: &str = "metadata.ownerReferences.uid";

impl SelectionPredicate {
    /// What a look at one object costs: one, and more for selectors with very many terms.
    pub(crate) fn cost(&self) -> usize {
        1 + (self.labels.requirements().len() + self.fields.len()) / 8
    }

    /// Checks that the kind knows every field (R13).
    pub(crate) fn new(
        served: &ServedKind,
        labels: &LabelSelector,
        fields: &FieldSelector,
    ) -> Result<SelectionPredicate, Failure> {
        let fields = fields
            .requirements()
            .iter()
            .map(|requirement| {
                let label = requirement.field.as_str();
                let field = match label {
                    "metadata.name" => FieldAt::Name,
                    "metadata.namespace" if selects_namespace(served) => FieldAt::Namespace,
                    OWNER_UID => FieldAt::OwnerUid,
                    _ => served
                        .kind
                        .fields
                        .iter()
                        .position(|field| field.label == label)
                        .map(FieldAt::Other)
                        .ok_or_else(|| {
                            Failure::bad_request(format!("field label not supported: {label}"))
                        })?,
                };
                let known = match field {
                    FieldAt::Other(at) => served.kind.fields.get(at),
                    _ => None,
                };
                let path = known.map(|field| {
                    let path = field.path.join(".");
                    served.view.map_or_else(|| path.clone(), |view| view.stored_path(&path))
                });
                Ok(FieldTest {
                    field,
                    path: path.unwrap_or_default(),
                    instead: known.and_then(|field| field.instead),
                    value: requirement.value.clone(),
                    equal: requirement.equal,
                })
            })
            .collect::<Result<_, Failure>>()?;
        Ok(SelectionPredicate { labels: labels.clone(), fields })
    }

    /// Whether everything is selected.
    #[must_use]
    pub(crate) fn is_everything(&self) -> bool {
        self.fields.is_empty() && self.labels.is_everything()
    }

    /// Whether all that is selected by is the same in every version of an object.
    #[must_use]
    pub(crate) fn is_by_identity(&self) -> bool {
        let other = |test: &FieldTest| matches!(test.field, FieldAt::Other(_));
        self.labels.is_everything() && !self.fields.iter().any(other)
    }

    /// As far as it is about what is the same in every version of an object.
    #[must_use]
    pub(crate) fn of_identity(&self) -> SelectionPredicate {
        let mut own = self.clone();
        own.labels = LabelSelector::default();
        own.fields.retain(|test| !matches!(test.field, FieldAt::Other(_)));
        own
    }

    /// The one name that can match, if the fields pin it.
    #[must_use]
    pub(crate) fn name(&self) -> Option<&str> {
        self.fields
            .iter()
            .find(|test| test.equal && matches!(test.field, FieldAt::Name))
            .map(|test| test.value.as_str())
    }

    /// The one owner whose dependents can match, if the fields pin it.
    #[must_use]
    pub(crate) fn owner(&self) -> Option<&str> {
        self.fields
            .iter()
            .find(|test| test.equal && matches!(test.field, FieldAt::OwnerUid))
            .map(|test| test.value.as_str())
            .filter(|uid| !uid.is_empty())
    }

    /// Whether the record is selected.
    #[must_use]
    pub(crate) fn matches(&self, record: &Record) -> bool {
        self.fields.iter().all(|test| {
            let actual = match test.field {
                FieldAt::OwnerUid => return owned(record, &test.value) == test.equal,
                FieldAt::Name => record.name(),
                FieldAt::Namespace => record.namespace(),
                FieldAt::Other(_) => match (record.field(&test.path), test.instead) {
                    (None | Some(""), Some(instead)) => record.field(instead).unwrap_or_default(),
                    (value, _) => value.unwrap_or_default(),
                },
            };
            (actual == test.value) == test.equal
        }) && self.labels.matches(|key| record.label(key))
    }
}

/// Whether objects are selected by namespace, of which those outside namespaces have none. Every built-in
/// kind is that has no fields of its own; of the others, those in namespaces but one (R13).
fn selects_namespace(served: &ServedKind) -> bool {
    let kind = &served.kind;
    match served.custom {
        None if kind.fields.is_empty() => true,
        None => kind.namespaced && kind.kind != "PodCertificateRequest",
        Some(_) => kind.namespaced,
    }
}

/// Whether an owner has this uid; nobody's uid is empty, so that selects what nobody owns.
fn owned(record: &Record, uid: &str) -> bool {
    let mut owners = record.owners();
    if uid.is_empty() { owners.len() == 0 } else { owners.any(|owner| owner.uid == uid) }
}
