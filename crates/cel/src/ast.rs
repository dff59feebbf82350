//! The syntax tree: what was written, with macros already unfolded. Types and values never live here.
//!
//! ```text
//!   text ── lex ──► tokens ── parse, macros ──► Expr ── check ──► Node (typed, ready to run)
//! ```

use std::sync::Arc;

/// How deep a tree may be. Chains such as `1 + 1 + …` count, so every later walk may recurse.
pub(crate) const DEPTH_MAX: u16 = 250;

/// One node, and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// The place in the text, in characters.
    pub(crate) at: usize,
    /// INVARIANT: one more than the deepest part, and at most [`DEPTH_MAX`].
    pub(crate) depth: u16,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(Arc<str>),
    /// `operand.field`, and `has(operand.field)` when `test`.
    Select {
        operand: Box<Expr>,
        field: Arc<str>,
        test: bool,
    },
    /// `operand.?field`.
    OptionalSelect {
        operand: Box<Expr>,
        field: Arc<str>,
    },
    Call {
        name: Arc<str>,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Element>),
    Map(Vec<MapEntry>),
    /// `Name{…}`, which only mutations may use.
    Struct {
        name: Arc<str>,
        fields: Vec<StructField>,
    },
    Fold(Box<Fold>),
}

#[derive(Clone, Debug)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) optional: bool,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct StructField {
    pub(crate) optional: bool,
    pub(crate) name: Arc<str>,
    pub(crate) value: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) optional: bool,
    pub(crate) key: Expr,
    pub(crate) value: Expr,
}

/// What every macro over a list or map unfolds to.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: Arc<str>,
    pub(crate) second: Option<Arc<str>>,
    pub(crate) accumulator: Arc<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// A node over its parts; `None` when the tree becomes too deep.
    pub(crate) fn new(at: usize, kind: ExprKind) -> Option<Expr> {
        let deepest = kind.parts().map(|part| part.depth).max().unwrap_or(0);
        let depth = deepest.saturating_add(1);
        (depth <= DEPTH_MAX).then_some(Expr { at, depth, kind })
    }

    /// The dotted name this spells, such as `google.protobuf.Duration`.
    pub(crate) fn dotted(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Ident(name) => Some(name.to_string()),
            ExprKind::Select { operand, field, test: false } => {
                Some(format!("{}.{field}", operand.dotted()?))
            }
            _ => None,
        }
    }
}

impl ExprKind {
    fn parts(&self) -> Box<dyn Iterator<Item = &Expr> + '_> {
        match self {
            ExprKind::Literal(_) | ExprKind::Ident(_) => Box::new(std::iter::empty()),
            ExprKind::Select { operand, .. } | ExprKind::OptionalSelect { operand, .. } => {
                Box::new(std::iter::once(&**operand))
            }
            ExprKind::Call { target, args, .. } => {
                Box::new(target.iter().map(|t| &**t).chain(args))
            }
            ExprKind::List(elements) => Box::new(elements.iter().map(|e| &e.value)),
            ExprKind::Map(entries) => Box::new(entries.iter().flat_map(|e| [&e.key, &e.value])),
            ExprKind::Struct { fields, .. } => Box::new(fields.iter().map(|field| &field.value)),
            ExprKind::Fold(f) => {
                Box::new([&f.range, &f.init, &f.condition, &f.step, &f.result].into_iter())
            }
        }
    }
}
