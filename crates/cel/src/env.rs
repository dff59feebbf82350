//! What an expression may name.

use std::sync::Arc;

use crate::shape::DeclaredType;
use crate::types::Type;

/// The variables of an expression.
#[derive(Clone, Debug, Default)]
pub struct Env {
    pub(crate) variables: Vec<Variable>,
    /// Whether expressions make patches.
    pub(crate) patches: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: Arc<str>,
    pub(crate) ty: Type,
    /// What is known of sizes.
    pub(crate) shape: Option<Arc<DeclaredType>>,
}

/// How a rule sees the value that is being replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldSelf {
    /// Not at all.
    Absent,
    /// As a value of the same type; the rule runs only when there is one.
    Present,
    /// As an optional value; the rule always runs.
    Optional,
}

impl Env {
    /// Nothing but functions.
    #[must_use]
    pub fn new() -> Env {
        Env::default()
    }

    /// `self`, and `oldSelf` as the rule asks for it.
    #[must_use]
    pub fn for_rule(shape: &Arc<DeclaredType>, old: OldSelf) -> Env {
        let env = Env::new().with_shape("self", shape);
        match old {
            OldSelf::Absent => env,
            OldSelf::Present => env.with_shape("oldSelf", shape),
            OldSelf::Optional => {
                let mut env = env.with_type("oldSelf", Type::optional(shape.ty()));
                if let Some(variable) = env.variables.last_mut() {
                    variable.shape = Some(shape.clone());
                }
                env
            }
        }
    }

    /// Expressions may make `Object{…}`, `Object.spec{…}` and the like, and `JSONPatch{…}`.
    #[must_use]
    pub fn with_patches(self) -> Env {
        Env { patches: true, ..self }
    }

    /// One more variable, with data of this shape.
    #[must_use]
    pub fn with_shape(mut self, name: &str, shape: &Arc<DeclaredType>) -> Env {
        let shape = shape.clone();
        self.variables.push(Variable { name: name.into(), ty: shape.ty(), shape: Some(shape) });
        self
    }

    /// One more variable of this type.
    #[must_use]
    pub fn with_type(mut self, name: &str, ty: Type) -> Env {
        self.variables.push(Variable { name: name.into(), ty, shape: None });
        self
    }
}
