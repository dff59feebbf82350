//! What a run can cost, from the limits of the schema. Nothing runs here.
//!
//! The counting follows upstream closely, oddities included: a definition is refused here when it is
//! refused there. The meter stops whatever slips through.

use std::sync::Arc;

use crate::env::Env;
use crate::library::Function;
use crate::meter::{CHECK_COST, STRUCT_COST};
use crate::node::{Call, FoldNode, NodeKind, SelectMode, TypedNode};
use crate::shape::{DeclaredType, ShapeStep};
use crate::types::{Opaque, Type};
use crate::value::Value;

/// The least and the most something costs or measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The least.
    pub min: u64,
    /// The most; [`u64::MAX`] when nothing bounds it.
    pub max: u64,
}

impl Cost {
    const ZERO: Cost = Cost { min: 0, max: 0 };
    const UNKNOWN: Cost = Cost { min: 0, max: u64::MAX };

    fn fixed(value: u64) -> Cost {
        Cost { min: value, max: value }
    }

    fn plus(self, other: Cost) -> Cost {
        Cost { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Cost) -> Cost {
        Cost { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Cost {
        Cost { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    fn union(self, other: Cost) -> Cost {
        Cost { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Casts saturate, so what is too large stays at the most there is.
fn scaled(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).ceil() as u64
}

/// Estimates a checked expression.
pub(crate) fn estimate(node: &TypedNode, env: &Env) -> Cost {
    Estimator { env, locals: vec![] }.visit(node).cost
}

/// What is known of one node: its cost, where its data lies, how large it is.
#[derive(Clone)]
struct NodeEstimate {
    cost: Cost,
    path: VariablePath,
    size: Option<Cost>,
    entry: Option<EntrySize>,
}

/// A variable, then names of members, `@items`, `@keys` and `@values`.
type VariablePath = Vec<Arc<str>>;

/// The sizes of what a list or map holds.
#[derive(Clone, Copy)]
struct EntrySize {
    list: bool,
    key: Cost,
    value: Cost,
}

impl EntrySize {
    fn union(self, other: EntrySize) -> EntrySize {
        let (key, value) = (self.key.union(other.key), self.value.union(other.value));
        EntrySize { list: self.list, key, value }
    }
}

struct Local {
    name: Arc<str>,
    path: VariablePath,
    size: Option<Cost>,
    entry: Option<EntrySize>,
}

struct Estimator<'e> {
    env: &'e Env,
    locals: Vec<Local>,
}

impl NodeEstimate {
    fn of(cost: Cost) -> NodeEstimate {
        NodeEstimate { cost, path: vec![], size: None, entry: None }
    }

    fn size_or_unknown(&self) -> Cost {
        self.size.unwrap_or(Cost::UNKNOWN)
    }
}

impl Estimator<'_> {
    fn visit(&mut self, node: &TypedNode) -> NodeEstimate {
        let mut seen = self.visit_kind(node);
        if seen.size.is_none() {
            seen.size = self.size(node, &seen.path);
        }
        seen
    }

    fn visit_kind(&mut self, node: &TypedNode) -> NodeEstimate {
        match &node.kind {
            NodeKind::Constant(value) => {
                NodeEstimate { size: constant_size(value), ..NodeEstimate::of(Cost::ZERO) }
            }
            NodeKind::Variable { name, .. } => self.variable(name),
            NodeKind::Select { operand, field, mode } => self.select(operand, field, *mode),
            NodeKind::And(a, b) | NodeKind::Or(a, b) => {
                let (a, b) = (self.visit(a).cost, self.visit(b).cost);
                NodeEstimate::of(Cost { min: a.min, max: a.plus(b).max })
            }
            NodeKind::NotStrictlyFalse(inner) => {
                let inner = self.visit(inner).cost;
                NodeEstimate::of(inner.plus(Cost::fixed(1)))
            }
            NodeKind::Otherwise { first, second, call, overloads } => {
                let (first, second) = (self.visit(first), self.visit(second));
                self.call_of(call, overloads, vec![first, second], &[])
            }
            NodeKind::Choose(parts) => self.choose(parts),
            NodeKind::Call(call) => self.call(call),
            NodeKind::List(items) => self.list(items),
            NodeKind::Map(entries) => self.map(entries),
            NodeKind::Struct { fields, .. } => {
                let fields = fields.iter().map(|(.., value)| self.visit(value).cost);
                let cost = fields.fold(Cost::fixed(STRUCT_COST), Cost::plus);
                NodeEstimate { size: Some(Cost::fixed(1)), ..NodeEstimate::of(cost) }
            }
            NodeKind::Fold(fold) => self.fold(fold),
        }
    }

    /// The size of data at a path, of a scalar, or of a local variable.
    fn size(&self, node: &TypedNode, path: &VariablePath) -> Option<Cost> {
        if let Some(most) = self.size_at(path) {
            return Some(Cost { min: 0, max: most });
        }
        if node.ty.is_scalar() {
            return Some(Cost::fixed(1));
        }
        match &node.kind {
            NodeKind::Variable { name, .. } => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_at(&self, path: &VariablePath) -> Option<u64> {
        let (first, rest) = path.split_first()?;
        let named = self.env.variables.iter().rev().find(|v| v.name == *first);
        // A path that starts in nothing known is measured from `self`, as upstream does.
        let root = named.or_else(|| self.env.variables.first())?;
        let mut shape: &DeclaredType = root.shape.as_deref()?;
        for (at, name) in rest.iter().enumerate() {
            match shape.step(name)? {
                ShapeStep::Shape(next) => shape = next,
                ShapeStep::Key => return (at + 1 == rest.len()).then_some(0),
            }
        }
        Some(shape.elements_max())
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn variable(&self, name: &Arc<str>) -> NodeEstimate {
        let mut seen = NodeEstimate::of(Cost::fixed(1));
        match self.local(name) {
            Some(local) => {
                seen.path.clone_from(&local.path);
                seen.entry = local.entry;
            }
            None => seen.path = vec![name.clone()],
        }
        seen
    }

    fn select(&mut self, operand: &TypedNode, field: &Arc<str>, mode: SelectMode) -> NodeEstimate {
        let target = self.visit(operand);
        match mode {
            SelectMode::Test => NodeEstimate::of(target.cost),
            SelectMode::Optional => {
                let mut path = target.path;
                path.push(field.clone());
                NodeEstimate { path, ..NodeEstimate::of(target.cost.plus(Cost::fixed(1))) }
            }
            SelectMode::Value => {
                let counted =
                    matches!(operand.ty, Type::Map(..) | Type::Object(_) | Type::Param(_));
                let cost = if counted { target.cost.plus(Cost::fixed(1)) } else { target.cost };
                let mut path = target.path;
                path.push(field.clone());
                NodeEstimate { path, ..NodeEstimate::of(cost) }
            }
        }
    }

    fn choose(&mut self, parts: &[TypedNode; 3]) -> NodeEstimate {
        let [condition, yes, no] = parts;
        let (condition, yes, no) = (self.visit(condition), self.visit(yes), self.visit(no));
        let cost = condition.cost.plus(yes.cost.union(no.cost));
        let size = Some(yes.size_or_unknown().union(no.size_or_unknown()));
        let entry = match (yes.entry, no.entry) {
            (Some(a), Some(b)) => Some(a.union(b)),
            _ => None,
        };
        NodeEstimate { cost, path: vec![], size, entry }
    }

    fn list(&mut self, items: &[(bool, TypedNode)]) -> NodeEstimate {
        let mut cost = Cost::fixed(10);
        let mut value = Cost { min: if items.is_empty() { 0 } else { u64::MAX }, max: 0 };
        for (_, item) in items {
            let seen = self.visit(item);
            cost = cost.plus(seen.cost);
            value = value.union(seen.size_or_unknown());
        }
        let entry = Some(EntrySize { list: true, key: Cost::fixed(1), value });
        NodeEstimate { cost, path: vec![], size: Some(Cost::fixed(items.len() as u64)), entry }
    }

    fn map(&mut self, entries: &[(bool, TypedNode, TypedNode)]) -> NodeEstimate {
        let mut cost = Cost::fixed(30);
        let none = Cost { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
        let (mut keys, mut values) = (none, none);
        for (_, key, value) in entries {
            let (key, value) = (self.visit(key), self.visit(value));
            cost = cost.plus(key.cost).plus(value.cost);
            keys = keys.union(key.size_or_unknown());
            values = values.union(value.size_or_unknown());
        }
        let entry = Some(EntrySize { list: false, key: keys, value: values });
        NodeEstimate { cost, path: vec![], size: Some(Cost::fixed(entries.len() as u64)), entry }
    }

    fn fold(&mut self, fold: &FoldNode) -> NodeEstimate {
        let range = self.visit(&fold.range);
        let init = self.visit(&fold.init);
        let before = self.locals.len();
        self.locals.push(Local {
            name: fold.accumulator.clone(),
            path: init.path.clone(),
            size: init.size,
            entry: init.entry,
        });
        if fold.binds {
            let result = self.visit(&fold.result);
            self.locals.truncate(before);
            let cost = range.cost.plus(init.cost).plus(result.cost);
            return NodeEstimate { cost, path: vec![], size: result.size, entry: result.entry };
        }
        self.push_variables(fold, &range);
        let turn = self.visit(&fold.condition).cost;
        let step = self.visit(&fold.step);
        self.locals.truncate(before + 1);
        let result = self.visit(&fold.result);
        self.locals.truncate(before);
        let turns = range.size_or_unknown();
        let cost =
            range.cost.plus(init.cost).plus(result.cost).plus(turns.times(turn.plus(step.cost)));
        let gathers = matches!(fold.init.kind, NodeKind::List(_) | NodeKind::Map(_));
        let (size, entry) = if gathers { (Some(turns), step.entry) } else { (init.size, None) };
        NodeEstimate { cost, path: vec![], size, entry }
    }

    fn push_variables(&mut self, fold: &FoldNode, range: &NodeEstimate) {
        let list = match range.entry {
            Some(entry) => entry.list,
            None => matches!(fold.range.ty, Type::List(_)),
        };
        let mut push = |name: &Arc<str>, step: &str, size: Option<Cost>| {
            let mut path = range.path.clone();
            path.push(step.into());
            self.locals.push(Local { name: name.clone(), path, size, entry: None });
        };
        let (key, value) = (range.entry.map(|e| e.key), range.entry.map(|e| e.value));
        match &fold.second {
            Some(second) => {
                push(&fold.variable, if list { "@indices" } else { "@keys" }, key);
                push(second, if list { "@items" } else { "@values" }, value);
            }
            None if list => push(&fold.variable, "@items", value),
            None => push(&fold.variable, "@keys", key),
        }
    }

    fn call(&mut self, call: &Call) -> NodeEstimate {
        let args: Vec<NodeEstimate> = call.args.iter().map(|arg| self.visit(arg)).collect();
        if call.function.name == "dyn" {
            let Some(arg) = args.into_iter().next() else {
                return NodeEstimate::of(Cost::fixed(1));
            };
            let cost = arg.cost.plus(Cost::fixed(1));
            return NodeEstimate { cost, path: vec![], size: arg.size, entry: arg.entry };
        }
        self.call_of(call.function, &call.overloads, args, &call.args)
    }

    fn call_of(
        &self,
        function: &'static Function,
        overloads: &[usize],
        args: Vec<NodeEstimate>,
        nodes: &[TypedNode],
    ) -> NodeEstimate {
        let args_cost = args.iter().fold(Cost::ZERO, |sum, arg| sum.plus(arg.cost));
        let mut cost: Option<Cost> = None;
        let (mut size, mut path): (Option<Cost>, VariablePath) = (None, vec![]);
        for index in overloads {
            let Some(overload) = function.overloads.get(*index) else { continue };
            let view = OverloadContext { args: &args, nodes, env: self };
            let (own, result) = view.overload(function.name, &overload.id);
            cost = Some(cost.map_or(own, |known| known.union(own)));
            size = match (size, result) {
                (Some(known), Some(result)) => Some(known.union(result)),
                (known, result) => known.or(result),
            };
            let step = match overload.id.as_str() {
                "index_list" => "@items",
                "index_map" => "@values",
                _ => continue,
            };
            if let Some(first) = args.first() {
                size = first.entry.map(|entry| entry.value);
                path.clone_from(&first.path);
                path.push(step.into());
            }
        }
        let entry = match (function.name, args.as_slice()) {
            ("_+_", [a, b]) => a.entry.zip(b.entry).map(|(a, b)| a.union(b)),
            _ => None,
        };
        NodeEstimate { cost: args_cost.plus(cost.unwrap_or(Cost::ZERO)), path, size, entry }
    }
}

fn constant_size(value: &Value<'_>) -> Option<Cost> {
    match value {
        Value::String(text) => Some(Cost::fixed(text.chars().count() as u64)),
        Value::Bytes(octets) => Some(Cost::fixed(octets.len() as u64)),
        Value::Type(_) => None,
        _ => Some(Cost::fixed(1)),
    }
}

/// One overload of a call, with what is known of its arguments.
struct OverloadContext<'v, 'e> {
    args: &'v [NodeEstimate],
    nodes: &'v [TypedNode],
    env: &'v Estimator<'e>,
}

type Estimated = (Cost, Option<Cost>);

impl OverloadContext<'_, '_> {
    fn size(&self, which: usize) -> Cost {
        self.args.get(which).map_or(Cost::UNKNOWN, NodeEstimate::size_or_unknown)
    }

    /// A whole number that stands in the text.
    fn number(&self, which: usize) -> Option<u64> {
        match self.nodes.get(which).map(|node| &node.kind) {
            Some(NodeKind::Constant(Value::Int(value))) => Some(u64::try_from(*value).unwrap_or(0)),
            _ => None,
        }
    }

    /// The element type of the first argument, and the size of an element.
    fn element(&self) -> Option<(Type, Cost)> {
        let Some(TypedNode { ty: Type::List(element), .. }) = self.nodes.first() else {
            return None;
        };
        let mut path = self.args.first()?.path.clone();
        if !path.is_empty() {
            path.push("@items".into());
        }
        let size = self.env.size_at(&path).map(|max| Cost { min: 0, max });
        Some(((**element).clone(), size.unwrap_or(Cost::UNKNOWN)))
    }

    fn overload(&self, name: &str, id: &str) -> Estimated {
        let one = (Cost::fixed(1), None);
        match name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
                (self.search(), None)
            }
            "url" => (self.size(0).scaled(0.1), Some(self.size(0))),
            "lowerAscii" | "upperAscii" | "substring" | "trim" | "jsonpatch.escapeKey" => {
                (self.size(0).scaled(0.1), Some(self.size(0)))
            }
            "replace" => (self.size(0).scaled(0.2), Some(self.replaced())),
            "split" => {
                let most = self.number(2).filter(|_| self.args.len() > 2);
                let max = most.unwrap_or(self.size(0).max);
                (self.size(0).scaled(0.2), Some(Cost { min: 0, max }))
            }
            "join" => {
                let size = self.joined();
                (size.scaled(0.1), Some(size))
            }
            "find" | "findAll" => (self.regex(), Some(Cost { min: 0, max: self.size(0).max })),
            "matches" => (self.regex(), None),
            "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                (self.size(0).scaled(0.1), None)
            }
            "ip" if id == "cidr_ip" => one,
            "ip" => (self.size(0).scaled(0.1), None),
            "ip.isCanonical" => (self.size(0).scaled(0.2), None),
            "containsIP" | "containsCIDR" => (self.network(name, id), None),
            "validate" => (self.size(1).scaled(0.1).scaled(32.0), None),
            "slice"
            | "lists.range"
            | "reverse"
            | "flatten"
            | "distinct"
            | "sort"
            | "@sortByAssociatedKeys" => self.made_list(name),
            "sets.contains" | "sets.intersects" | "sets.equivalent" => {
                let factor = if name == "sets.equivalent" { 2.0 } else { 1.0 };
                let pairs = self.size(0).times(self.size(1));
                (pairs.scaled(factor).plus(Cost::fixed(1)), None)
            }
            _ => self.standard(name, id),
        }
    }

    fn standard(&self, name: &str, id: &str) -> Estimated {
        let one = (Cost::fixed(1), None);
        match id {
            "string_format" => (self.size(0).scaled(0.1), None),
            "string_to_bytes" => {
                let size = self.size(0);
                let result = Cost { min: size.min, max: size.max.saturating_mul(4) };
                (size.scaled(0.1), Some(result))
            }
            "bytes_to_string" => {
                let size = self.size(0);
                (size.scaled(0.1), Some(Cost { min: size.min / 4, max: size.max }))
            }
            "strings_quote" => {
                let size = self.size(0);
                let max = size.max.saturating_mul(2).saturating_add(2);
                (size.scaled(0.1), Some(Cost { min: size.min.saturating_add(2), max }))
            }
            "pathcheck_check" | "resourcecheck_check" => (Cost::fixed(CHECK_COST), None),
            "authorizer_fieldselector" | "authorizer_labelselector" => {
                (self.size(1).scaled(0.1), None)
            }
            "starts_with_string" | "ends_with_string" => (self.size(1).scaled(0.1), None),
            "in_list" => (self.size(1), None),
            "contains_string" => (self.size(0).scaled(0.1).times(self.size(1).scaled(0.1)), None),
            "add_list" => (Cost::fixed(1), Some(self.size(0).plus(self.size(1)))),
            "add_string" | "add_bytes" => {
                let size = self.size(0).plus(self.size(1));
                (size.scaled(0.1), Some(size))
            }
            "order_string" | "order_bytes" | "equals" | "not_equals" => (self.compared(name), None),
            _ => one,
        }
    }

    fn compared(&self, name: &str) -> Cost {
        if name == "_==_" {
            let types = [self.nodes.first(), self.nodes.get(1)].map(|n| n.map(|n| &n.ty));
            if let [Some(Type::Opaque(a)), Some(Type::Opaque(b))] = types
                && a == b
            {
                return match a {
                    Opaque::Format => Cost { min: 1, max: 64 }.scaled(0.1),
                    Opaque::Url => Cost { min: 1, max: self.size(1).max }.scaled(0.1),
                    _ => Cost::fixed(1),
                };
            }
        }
        let max = self.size(0).max.min(self.size(1).max);
        Cost { min: u64::from(max > 0), max }.scaled(0.1)
    }

    fn search(&self) -> Cost {
        let one = Cost::fixed(1);
        match self.element() {
            Some((ty, size)) => {
                let text = matches!(ty, Type::String | Type::Bytes);
                let each = if text { one.plus(size.scaled(0.1)) } else { one };
                self.size(0).times(each)
            }
            None => self.size(0).scaled(0.1),
        }
    }

    fn regex(&self) -> Cost {
        let text = self.size(0).plus(Cost::fixed(1)).scaled(0.1);
        text.times(self.size(1).scaled(0.25))
    }

    /// The longest text that `replace` can make.
    fn replaced(&self) -> Cost {
        let (text, old, new) = (self.size(0), self.size(1), self.size(2));
        let (count_max, kept_max) = match () {
            () if old.min == 0 => (text.max.saturating_add(1), text.max),
            () if new.max <= old.min => (0, text.max),
            () => (text.max.div_ceil(old.min), 0),
        };
        let (count_min, kept_min) = match () {
            () if old.max == 0 => (text.min.saturating_add(1), text.min),
            () if old.max <= new.min => (0, text.min),
            () => (text.min.div_ceil(old.max), 0),
        };
        Cost { min: count_min, max: count_max }
            .times(new)
            .plus(Cost { min: kept_min, max: kept_max })
    }

    fn joined(&self) -> Cost {
        let list = self.size(0);
        let texts = self.element().map_or(Cost::ZERO, |(_, size)| list.times(size));
        if self.args.len() < 2 {
            return texts;
        }
        let between = Cost { min: list.min.saturating_sub(1), max: list.max.saturating_sub(1) };
        texts.plus(self.size(1).times(between))
    }

    fn network(&self, name: &str, id: &str) -> Cost {
        let address = Cost { min: 4, max: 16 };
        let mut cost = address.plus(address).scaled(0.1);
        if name == "containsCIDR" {
            cost = cost.plus(address.scaled(0.1)).plus(Cost::fixed(1));
        }
        if id.ends_with("_string") {
            cost = cost.plus(self.size(1).scaled(0.1));
        }
        cost
    }

    /// Calls that make a list: their work, ten for the list, one for the call.
    fn made_list(&self, name: &str) -> Estimated {
        let size = self.size(0);
        let (factor, size) = match name {
            "slice" => {
                let (start, end) =
                    (self.number(1).unwrap_or(0), self.number(2).unwrap_or(size.max));
                (1.0, Cost::fixed(end.saturating_sub(start)))
            }
            "lists.range" => (1.0, Cost::fixed(self.number(0).unwrap_or(u64::MAX))),
            "flatten" => {
                let depth =
                    if self.args.len() > 1 { self.number(1).unwrap_or(u64::MAX) } else { 1 };
                (depth as f64, size)
            }
            "reverse" => (1.0, size),
            _ => {
                let keys = if name == "@sortByAssociatedKeys" { 1 } else { 0 };
                let size = self.size(keys);
                let text = matches!(
                    self.nodes.get(keys).map(|node| &node.ty),
                    Some(Type::List(element)) if matches!(**element, Type::String | Type::Bytes)
                );
                let factor = if text && name != "distinct" { 2.1 } else { 2.0 };
                (factor, size.times(size))
            }
        };
        (size.scaled(factor).plus(Cost::fixed(11)), Some(size))
    }
}
