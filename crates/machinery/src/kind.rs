//! What the server must know of a kind: one row of a table, and its rules.

use std::borrow::Cow;

use crate::field::Errors;
use crate::meta::validate_meta;
use crate::object::Object;

/// Text that a built-in row borrows and a custom row owns.
pub type Text = Cow<'static, str>;

/// One served kind in one version.
pub struct Kind {
    /// API group; empty for core.
    pub group: Text,
    /// API version.
    pub version: Text,
    /// Such as `ConfigMap`.
    pub kind: Text,
    /// Plural resource, such as `configmaps`.
    pub plural: Text,
    /// Singular, such as `configmap`.
    pub singular: Text,
    /// Such as `cm`.
    pub short_names: Vec<Text>,
    /// Such as `all`.
    pub categories: Vec<Text>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The verbs that discovery shows and the router admits.
    pub verbs: Verbs,
    /// The type in the facts table, such as `api.core.v1.ConfigMap`; empty for custom kinds.
    pub type_name: Text,
    /// Key prefix below `/registry/`, such as `configmaps` or `services/specs`.
    pub storage: Text,
    /// Subresources in discovery order.
    pub subresources: Vec<Subresource>,
    /// Which names are legal.
    pub name_rule: NameRule,
    /// Whether `metadata.generation` counts changes outside metadata and status.
    pub generation: bool,
    /// How a write to `/status` treats metadata; `None` when there is no status subresource.
    pub status: Option<StatusMeta>,
    /// Whether a PUT may leave out `resourceVersion`.
    pub unconditional_update: bool,
    /// Whether a PUT of a missing object creates it.
    pub create_on_update: bool,
    /// Whether DELETE answers with the removed object instead of a Status.
    pub returns_deleted: bool,
    /// What becomes of dependents when DELETE does not say.
    pub dependents: Dependents,
    /// Field selectors beyond `metadata.name` and `metadata.namespace`: label → where its value is.
    pub fields: Vec<SelectableField>,
    /// Who acts on its objects; what nobody acts on says so with every write.
    pub acted_on: ActedOn,
    /// Warning sent with every request to this kind, if it is deprecated.
    pub deprecated: Option<Text>,
    /// Defaults, preparation and validation.
    pub rules: Box<dyn Rules>,
}

/// Who acts on the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActedOn {
    /// This part of the cluster, or whoever reads such objects for themselves.
    By(&'static str),
    /// Nobody, for this reason.
    Nobody(&'static str),
}

/// Which requests a kind offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    /// create, delete, deletecollection, get, list, patch, update, watch.
    All,
    /// All but deletecollection (namespaces).
    NoDeleteCollection,
    /// Create only (reviews, bindings).
    CreateOnly,
}

/// A subresource as discovery shows it.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Such as `status`.
    pub name: &'static str,
    /// The kind its bodies have; for `status` the parent's.
    pub kind: &'static str,
    /// Group and version of that kind where they differ from the parent's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// The verbs it offers.
    pub verbs: &'static [&'static str],
}

/// Which names a kind allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS subdomain, at most 253 characters.
    Subdomain,
    /// DNS label, at most 63 characters, may start with a digit.
    Label,
    /// Anything that is one safe path segment.
    PathSegment,
}

/// What of the metadata a write to `/status` takes from the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeta {
    /// Nothing but managedFields.
    Frozen,
    /// All but labels.
    KeepLabels,
    /// All but owner references (pods).
    KeepOwners,
    /// All of it.
    Open,
}

/// What DELETE without options does to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// They go in the background.
    Delete,
    /// They stay, without the reference.
    Orphan,
    /// The kind takes part in no collection (events).
    Unsupported,
}

/// A field that selectors may name.
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// As it stands in the selector, such as `spec.nodeName`.
    pub label: Text,
    /// Where the value is, one segment per member.
    pub path: Vec<Text>,
    /// What an absent value equals, such as `""`, `false` or `0`.
    pub absent: &'static str,
    /// The selectable field whose value counts where this one is empty.
    pub instead: Option<&'static str>,
}

/// What hosts hand to rules: the time and random choices, drawn outside.
#[derive(Clone, Debug)]
pub struct Cx {
    /// Now, in seconds, as `metav1.Time` writes it.
    pub now: String,
    /// The uid of the object being created; its own on update.
    pub uid: String,
    /// Whether the write goes through this subresource.
    pub subresource: Option<&'static str>,
    /// Whether the client of a create gave no labels.
    pub unlabelled: bool,
}

/// The hand-written half of a kind: what the schema cannot say.
///
/// Every function is pure. Objects have passed the schema: members have the right types, unknown ones
/// are gone. Default implementations do nothing.
pub trait Rules: Send + Sync {
    /// Fills what clients may leave out; also runs on nested templates.
    fn default(&self, _object: &mut Object) {}
    /// On create: drops what clients may not set (status), adds what the server sets.
    fn prepare_create(&self, _object: &mut Object, _cx: &Cx) {}
    /// On update of the main resource: restores what this endpoint may not change (status).
    fn prepare_update(&self, _object: &mut Object, _old: &Object, _cx: &Cx) {}
    /// On update of `/status`; metadata and everything outside status are restored already.
    fn prepare_status(&self, _object: &mut Object, _old: &Object, _cx: &Cx) {}
    /// Whether a change of metadata moves the generation as well.
    fn counts(&self, _object: &Object, _old: &Object) -> bool {
        false
    }
    /// What is looked at before anything else: whatever is found is the whole answer.
    fn validate_alone(&self, _object: &Object, _old: Option<&Object>, _errors: &mut Errors) {}
    /// What is wrong with the object as such.
    fn validate(&self, _object: &Object, _errors: &mut Errors) {}
    /// When the metadata of a new object is looked at.
    fn metadata_turn(&self) -> MetadataTurn {
        MetadataTurn::First
    }
    /// What is wrong with the change.
    fn validate_update(&self, _object: &Object, _old: &Object, _errors: &mut Errors) {}
    /// What of a changed object is looked at, and in which order.
    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::Last
    }
    /// What is wrong with the object as such and told after everything else, also after the change: upstream's
    /// types say it, its code does not.
    fn validate_last(&self, _object: &Object, _errors: &mut Errors) {}
    /// The same of a changed object.
    fn validate_update_last(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        self.validate_last(object, errors);
    }
    /// What is wrong with a status write.
    fn validate_status(&self, _object: &Object, _old: &Object, _errors: &mut Errors) {}
    /// Worth telling the client although the write goes through.
    fn warnings(&self, _object: &Object, _old: Option<&Object>) -> Vec<String> {
        Vec::new()
    }
}

/// When the metadata of a new object is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataTurn {
    /// Before the rest.
    First,
    /// Between what `validate` says and what `validate_last` says.
    Second,
    /// When nothing else is wrong.
    Alone,
}

/// What of a changed object is looked at, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateTurn {
    /// The object as such, then the change.
    Last,
    /// The change, then the object as such.
    First,
    /// The change alone.
    Only,
}

/// A kind without rules of its own.
pub struct NoRules;
impl Rules for NoRules {}

impl Kind {
    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Whether nothing that is wrong with its objects is told twice. Upstream gathers its findings before it answers
    /// for all kinds but custom ones and those of its two extension servers.
    #[must_use]
    pub fn tells_once(&self) -> bool {
        const EXTENSIONS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
        !self.type_name.is_empty() && !EXTENSIONS.contains(&self.group.as_ref())
    }

    /// What is wrong with a new object: its metadata, and what the kind says of the rest.
    pub fn validate_new(&self, object: &Object, errors: &mut Errors) {
        let turn = self.rules.metadata_turn();
        if turn == MetadataTurn::First {
            validate_meta(object, self, errors);
        }
        self.rules.validate(object, errors);
        if turn == MetadataTurn::Second || (turn == MetadataTurn::Alone && errors.is_empty()) {
            validate_meta(object, self, errors);
        }
        self.rules.validate_last(object, errors);
    }

    /// What is wrong with a changed object but for its metadata.
    pub fn validate_change(&self, object: &Object, old: &Object, errors: &mut Errors) {
        let turn = self.rules.update_turn();
        if turn == UpdateTurn::Last {
            self.rules.validate(object, errors);
        }
        self.rules.validate_update(object, old, errors);
        if turn == UpdateTurn::First {
            self.rules.validate(object, errors);
        }
        self.rules.validate_update_last(object, old, errors);
    }

    /// The subresource of that name.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}
