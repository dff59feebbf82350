//! Conformance: vectors as JSON, for implementations of this API in any language (R117).
//!
//! ```text
//!   conformance/base.json ──┐  what every vector starts from, and the sample kinds
//!   conformance/NAME.json ──┴─► steps: apply, delete, serve, expect
//!                                        ├─► run: the library of this crate
//!                                        └─► cluster::run: any cluster, through SubjectAccessReviews
//! ```
//!
//! `expect` holds two sorts of question. `read` asks the authorizer: may the consumer send this request?
//! `check` asks the library: may this origin use this target? A cluster is asked the former only.

#[cfg(feature = "kube")]
pub mod cluster;
mod library;

use serde::Deserialize;
use serde_json::Value;
use tenure_reference::Selectors;

use crate::names::ObjectName;

pub use library::run;

macro_rules! vectors {
    ($(#[$about:meta])* $all:ident: $($name:literal,)*) => {
        $(#[$about])*
        pub const $all: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../conformance/", $name, ".json"))),)*
        ];
    };
}

vectors! {
    /// Every vector: its name, and the text of its file.
    VECTORS:
    "ref_to_missing_namespace",
    "ref_to_missing_object",
    "ref_without_grant",
    "grant_multiple_entries",
    "grant_for_unserved_kinds",
    "grants_partially_overlap",
    "revoke_one_of_overlapping",
    "grant_without_names",
    "grants_overlap_with_and_without_names",
    "ref_not_allowed_by_any_grant",
    "grant_wrong_origin_namespace",
    "grant_wrong_origin_group",
    "grant_wrong_origin_resource",
    "grant_wrong_target_group",
    "grant_wrong_target_resource",
    "grant_wrong_target_name",
    "grant_in_wrong_namespace",
    "missing_grant",
    "grant_names_other_object",
    "grant_specific_name",
    "grant_without_names_grants_nothing",
    "grant_deleted_revokes",
    "grant_wrong_namespace_or_kind",
    "one_of_two_backends_permitted",
    "cross_namespace_without_grant",
    "listenerset_inherits_nothing",
    "grant_wrong_purpose",
    "consumer_wrong_purpose",
    "class_closed_when_no_classnames",
    "class_star_is_explicit",
    "class_unset_needs_empty_string",
    "namespace_list_never_granted",
    "cluster_list_never_granted",
    "subresource_never_granted",
    "single_name_list_and_watch_granted",
    "write_verbs_never_granted",
    "group_subject",
    "user_subject",
    "serviceaccount_wrong_namespace",
    "origin_edit_moves_access",
    "origin_delete_revokes",
    "shared_target_two_origins_refcount",
    "two_gateways_one_granted",
    "active_version_preferred",
    "strategy_delete_revokes_all",
    "consumer_delete_revokes_all",
    "two_purposes_one_object_each_revoked_alone",
}

vectors! {
    /// Vectors of what an implementation may leave out; each says by which gates it is switched on.
    GATED_VECTORS:
    "grant_selects_namespaces_by_labels",
    "grant_empty_selector_means_all",
    "grant_selects_by_expressions",
    "consumer_selects_classes_by_controller",
}

/// What every vector starts from.
pub const BASE: &str = include_str!("../conformance/base.json");

/// The namespace and name of the service account that stands for the consumer under test.
pub const CONSUMER: (&str, &str) = ("conformance-system", "consumer");

/// What every vector starts from.
#[derive(Clone, Debug, Deserialize)]
pub struct Base {
    /// Namespaces that exist.
    pub namespaces: Vec<String>,
    /// Types that are served.
    pub served: Vec<ConformanceType>,
    /// The sample kinds, as CustomResourceDefinitions.
    pub definitions: Vec<Value>,
    /// The strategy and the consumer.
    pub objects: Vec<Value>,
}

impl Base {
    /// The base of the vectors in this crate.
    ///
    /// # Errors
    /// The file is no such thing, which a test rules out.
    pub fn read() -> serde_json::Result<Base> {
        serde_json::from_str(BASE)
    }
}

/// A type that is served.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConformanceType {
    /// Its API group.
    pub group: String,
    /// Its plural name.
    pub resource: String,
    /// Its kind.
    pub kind: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// Its versions, the preferred one first.
    pub versions: Vec<String>,
}

/// One vector.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Its name.
    pub name: String,
    /// What it says.
    pub about: String,
    /// Whose case it is: `kep-3766`, `gateway-api` or `tenure`.
    pub from: String,
    /// The gates without which it is not to hold (D9, D13).
    #[serde(default)]
    pub gates: Vec<String>,
    /// Tests of the Gateway API with the same shape.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

impl Vector {
    /// Reads a vector.
    ///
    /// # Errors
    /// The text is no vector.
    pub fn read(text: &str) -> serde_json::Result<Vector> {
        serde_json::from_str(text)
    }

    fn selectors(&self) -> Selectors {
        let has = |gate: &str| self.gates.iter().any(|name| name == gate);
        Selectors {
            namespaces: has("GrantNamespaceSelector"),
            classes: has("ConsumerClassSelector"),
        }
    }
}

/// One step of a vector.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// These objects are written, whole.
    Apply(Vec<Value>),
    /// These objects are removed; only their names are said.
    Delete(Vec<Value>),
    /// From now on a type is served in these versions, which may be none.
    Serve {
        /// The API group.
        group: String,
        /// The plural name.
        resource: String,
        /// The versions.
        versions: Vec<String>,
    },
    /// All of this holds now.
    Expect(Vec<Expect>),
}

/// What must hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Expect {
    /// A request, and whether it is allowed.
    Read {
        /// The request.
        read: ReadRequest,
        /// Whether it is allowed.
        allowed: bool,
    },
    /// A question to the library, and its answer.
    Check {
        /// The question.
        check: Box<ReferenceCheck>,
        /// `Local`, `Granted`, `NotPermitted`, `NotAReference` or `UnknownOrigin`.
        verdict: String,
        /// Of `NotPermitted`: the condition that is not met.
        code: Option<String>,
        /// Of `NotPermitted`: the one field in which a grant differs.
        nearest: Option<String>,
        /// Of `Granted`: the grants, as `namespace/name`.
        grants: Option<Vec<String>>,
    },
}

/// A request of the consumer, or of somebody else.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadRequest {
    /// The verb.
    pub verb: String,
    /// The API group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The subresource.
    #[serde(default)]
    pub subresource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The name; empty for none.
    pub name: String,
    /// Who asks, if not the consumer.
    pub user: Option<String>,
    /// With which groups.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// A question to the library.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceCheck {
    /// What points.
    pub origin: ObjectName,
    /// What is pointed at.
    pub target: ObjectName,
    /// What for.
    pub purpose: String,
    /// The class as the caller read it.
    pub class: Option<String>,
}
