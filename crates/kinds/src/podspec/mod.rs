//! Pod specifications: what is filled in, what is refused, what an update may change.
//!
//! ```text
//!   defaults ──► spec (volumes, containers, placement, security) ──► update (ordinary, ephemeral, resize)
//! ```
//!
//! Pure functions of JSON objects in normal form. What admission adds (accounts, tokens, priorities) and
//! what kinds around a template demand never live here.

mod annotations;
mod certificates;
mod container;
mod defaults;
mod downward;
mod env;
mod label_keys;
pub mod limit_range;
mod placement;
pub mod pod_security;
mod probe;
mod qos;
mod references;
mod resources;
mod security;
pub mod selector;
mod spec;
pub mod text;
mod update;
mod view;
mod volumes;
mod warnings;
mod windows;

pub use annotations::{apply_app_armor_annotations, validate_annotation_update};
pub use defaults::{default_claim_spec, default_pod_spec, default_pod_template};
pub use downward::{CARRIER, Withheld, downward_warnings, drop_file_users, owner_reference_uses};
pub use label_keys::merge_label_keys;
pub use placement::validate_tolerations;
pub use qos::qos_class;
pub use references::{PodReferences, ReferenceKind, references, template_references};
pub use resources::validate_resource_requirements;
pub use spec::{
    PodSpecOptions, validate_pod, validate_pod_create, validate_pod_spec, validate_template,
};
pub use update::{
    prepare_ephemeral_update, prepare_resize, validate_ephemeral_update, validate_pod_update,
    validate_resize,
};
pub use warnings::{
    WARNINGS_MAX, address_warning, claim_warnings, node_label_advice, node_selector_warnings,
    pod_warnings, template_warnings,
};

#[cfg(test)]
mod tests;
