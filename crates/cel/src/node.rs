//! The checked tree: typed, with names resolved to places and functions. It is run and it is estimated.

use std::sync::Arc;

use crate::library::Function;
use crate::library::regexes::CompiledRegex;
use crate::types::Type;
use crate::value::Value;

/// One checked node.
pub(crate) struct TypedNode {
    pub(crate) ty: Type,
    /// The place in the text, in characters.
    pub(crate) at: usize,
    pub(crate) kind: NodeKind,
}

pub(crate) enum NodeKind {
    Constant(Value<'static>),
    /// A variable: its place in the frame, and its name for estimates.
    Variable {
        place: usize,
        name: Arc<str>,
    },
    Select {
        operand: Box<TypedNode>,
        field: Arc<str>,
        mode: SelectMode,
    },
    And(Box<TypedNode>, Box<TypedNode>),
    Or(Box<TypedNode>, Box<TypedNode>),
    Choose(Box<[TypedNode; 3]>),
    NotStrictlyFalse(Box<TypedNode>),
    /// `a.or(b)` and `a.orValue(b)`: the second is looked at only when the first is absent.
    Otherwise {
        first: Box<TypedNode>,
        second: Box<TypedNode>,
        call: &'static Function,
        overloads: Vec<usize>,
    },
    Call(Box<Call>),
    List(Vec<(bool, TypedNode)>),
    Map(Vec<(bool, TypedNode, TypedNode)>),
    /// `Name{…}`: its fields, those that may be absent marked.
    Struct {
        name: Arc<str>,
        fields: Vec<(bool, Arc<str>, TypedNode)>,
    },
    Fold(Box<FoldNode>),
}

/// How a member is selected.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum SelectMode {
    /// `a.b`.
    Value,
    /// `has(a.b)`.
    Test,
    /// `a.?b`.
    Optional,
}

/// A call; the receiver, if any, is the first argument.
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    /// Which overloads fit the types.
    pub(crate) overloads: Vec<usize>,
    pub(crate) args: Vec<TypedNode>,
    /// Whether this looks for something in a list that stands in the text, which is cheap.
    pub(crate) constant_list: bool,
    /// The pattern, when it stands in the text.
    pub(crate) pattern: Option<CompiledRegex>,
}

/// A fold: the accumulator stands at `place` of the frame, the variables after it.
pub(crate) struct FoldNode {
    pub(crate) range: TypedNode,
    pub(crate) place: usize,
    pub(crate) accumulator: Arc<str>,
    pub(crate) variable: Arc<str>,
    pub(crate) second: Option<Arc<str>>,
    pub(crate) init: TypedNode,
    pub(crate) condition: TypedNode,
    pub(crate) step: TypedNode,
    pub(crate) result: TypedNode,
    /// What decides the fold early, when it is `all` or `exists`.
    pub(crate) quantifier: Option<Quantifier>,
    /// Whether this only binds a name to a value.
    pub(crate) binds: bool,
}

/// `all` is decided by the first false, `exists` by the first true.
#[derive(Clone, Copy)]
pub(crate) struct Quantifier {
    pub(crate) decides: bool,
}

impl FoldNode {
    /// Recognises the folds of `all` and `exists`.
    pub(crate) fn find_quantifier(&self) -> Option<Quantifier> {
        let NodeKind::NotStrictlyFalse(inner) = &self.condition.kind else { return None };
        let accumulator = |node: &TypedNode| matches!(&node.kind, NodeKind::Variable { place, .. } if *place == self.place);
        match (&inner.kind, &self.step.kind) {
            (NodeKind::Variable { .. }, NodeKind::And(first, _)) => {
                (accumulator(inner) && accumulator(first)).then_some(Quantifier { decides: false })
            }
            (NodeKind::Call(call), NodeKind::Or(first, _)) => {
                let negated =
                    call.function.name == "!_" && call.args.first().is_some_and(accumulator);
                (negated && accumulator(first)).then_some(Quantifier { decides: true })
            }
            _ => None,
        }
    }
}

impl TypedNode {
    /// The parts, so that a pass can visit them all.
    pub(crate) fn parts_mut(&mut self) -> Vec<&mut TypedNode> {
        match &mut self.kind {
            NodeKind::Constant(_) | NodeKind::Variable { .. } => vec![],
            NodeKind::Select { operand, .. } | NodeKind::NotStrictlyFalse(operand) => vec![operand],
            NodeKind::And(a, b) | NodeKind::Or(a, b) => vec![a, b],
            NodeKind::Otherwise { first, second, .. } => vec![first, second],
            NodeKind::Choose(parts) => parts.iter_mut().collect(),
            NodeKind::Call(call) => call.args.iter_mut().collect(),
            NodeKind::List(items) => items.iter_mut().map(|(_, item)| item).collect(),
            NodeKind::Map(entries) => entries.iter_mut().flat_map(|(_, k, v)| [k, v]).collect(),
            NodeKind::Struct { fields, .. } => fields.iter_mut().map(|(.., value)| value).collect(),
            NodeKind::Fold(fold) => {
                let FoldNode { range, init, condition, step, result, .. } = &mut **fold;
                vec![range, init, condition, step, result]
            }
        }
    }
}
