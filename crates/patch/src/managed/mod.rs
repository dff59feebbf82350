//! Who owns which field of an object, and how a write changes that.
//!
//! ```text
//!   element   one step of a path, as FieldsV1 writes it
//!   set       a set of fields; FieldsV1 in and out
//!   typed     fields of a value; fields that differ between two values
//!   entry     the list under metadata.managedFields
//!   update    create, update and patches: changed fields go to the writer
//!   apply     server-side apply: conflicts, and what an applier gives up
//!   scale     who owns the replicas, on a Scale and on its parent
//!   combine   the merge and the removal that apply is made of
//!   overlay   the merge alone, for those who own no fields
//! ```
//!
//! Nothing here fails a write because of what stands in `managedFields`.

pub mod apply;
mod combine;
pub mod element;
pub mod entry;
mod overlay;
pub mod scale;
pub mod set;
pub mod typed;
pub mod update;

pub use apply::{Application, ApplyError, Conflict, apply};
pub use entry::{ManagedFieldsEntry, ManagedFieldsOperation, is_readable};
pub use overlay::{OverlayError, overlay};
pub use set::FieldSet;
pub use update::{FieldManager, keep_times, update};
