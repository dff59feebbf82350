//! CEL for validation rules: compiled, type checked, and stopped when its cost is spent.
//!
//! ```text
//!   schema ──► Shape ──┐
//!   text ──► parse ──► check ──► Program ──► estimate   (at registration)
//!                                   │
//!   JSON + Shape ──► Value ─────► eval ◄── Budget       (at every write)
//! ```
//!
//! Nothing here reads a file, a clock or a socket, and no expression can keep a thread for longer than
//! its budget lasts. Which rules run when, and how a refusal is told, never lives here.

mod ast;
mod check;
mod compare;
mod env;
mod error;
mod escape;
mod estimate;
mod eval;
mod fold;
mod lex;
mod library;
mod macros;
mod meter;
mod node;
mod parse;
mod program;
mod shape;
mod structs;
mod time;
mod types;
mod unify;
mod value;

pub use env::{Env, OldSelf};
pub use error::{CompileError, EvalError, EvalErrorKind};
pub use escape::{escape, unescape};
pub use estimate::Cost;
pub use library::authorizer::{AccessCheck, AccessCheckBuilder, AccessDecision, Authorize};
pub use library::named::NamedFormat;
pub use library::semver::SemanticVersion;
pub use library::url::Url;
pub use meter::{
    CALL_COST_MAX, CostBudget, DEFINITION_ESTIMATE_MAX, EXPRESSION_ESTIMATE_MAX, MATCH_COST_MAX,
    OBJECT_COST_MAX,
};
pub use program::{Bindings, Program, compile, compile_message, compile_rule};
pub use shape::{DeclaredType, REQUEST_BYTES_MAX};
pub use structs::{JSON_PATCH, OBJECT};
pub use time::Stamp;
pub use types::{Opaque, Type};
pub use value::{ListValue, MapKey, MapValue, StructValue, Text, Value};
