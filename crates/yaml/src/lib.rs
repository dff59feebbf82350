//! YAML bodies as Kubernetes reads them, and JSON values written as YAML.
//!
//! Only this crate knows the YAML library; everything else sees JSON values.
//! No kinds, no schemas and no files are known here.

mod error;
mod read;
mod write;

pub use error::YamlError;
pub use read::{Repeated, YamlLimits, to_json, to_json_lenient};
pub use write::from_json;
