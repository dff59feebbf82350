//! What a pod reads about itself: field paths resolved, environments built, files planned.
//!
//! ```text
//!   pod, node, addresses ──┐
//!   ConfigMaps, Secrets ───┼──► build_env        one container's variables, at each start
//!   Services, tokens ──────┤
//!   trust bundles, ────────┤
//!   pod certificates       │
//!                          └──► collect_payload  one volume's files ──► writer: file operations
//!   volume ──► volume_inputs ──► what a change must touch before the files are made again
//! ```
//!
//! Objects come as JSON and are only read. No IO, clock or randomness; nothing here knows where a
//! file lies or how a container is started. Law: `spec/downward-api.md`.
#![no_std]

extern crate alloc;

mod certificate;
mod env;
mod env_file;
mod expand;
pub mod field;
mod inputs;
mod owners;
mod path;
mod payload;
mod pem;
pub mod policy;
mod printable;
mod quote;
mod resource;
mod services;
mod trust_bundle;
mod view;
pub mod writer;

pub use certificate::{
    CertificateNews, CredentialBundle, ProjectedCertificate, certificates_wanted,
};
pub use env::{EnvError, Environment, build_env};
pub use expand::{MissingValues, expand, expand_strict};
pub use field::{ResolveError, resolve_field, resolve_field_ref};
pub use inputs::{ValueInput, env_inputs, pod_changed, pod_inputs, volume_inputs};
pub use owners::owner_envelope;
pub use path::{FilePathError, clean_path};
pub use payload::{Payload, PayloadError, PayloadFile, collect_payload, set_up_failed};
pub use pem::write_block;
pub use quote::{format_map, go_quote};
pub use resource::resolve_resource;
pub use services::service_env;
pub use trust_bundle::trust_anchors;
pub use view::{
    DownwardApiOptions, RuntimeView, Sources, TokenWanted, ValueDestination, host_ips,
    tokens_wanted,
};
pub use writer::{
    DirState, FsOp, Manner, VolumeEntry, VolumeWriteError, WritePlan, plan_recovery, plan_write,
};

#[cfg(test)]
mod tests;
