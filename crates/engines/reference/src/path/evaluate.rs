//! Follows a path through an object, within a budget.

use alloc::string::String;

use serde_json::{Map, Number, Value};

use crate::key::same;

use super::{
    Comparable, FilterQuery, JsonPath, Operator, PathStep, Selector, Start, Test, VISITED_MAX,
};

/// A node a path leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathMatch<'v> {
    /// The value there.
    pub value: &'v Value,
    /// What it is a member or element of; the object itself has none.
    pub parent: Option<&'v Value>,
    /// Whether the last step of the path was the member `name`, which may have a namespace beside it.
    pub is_name: bool,
}

/// The object is too large for the path: it contributes nothing (R72).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// More than [`VISITED_MAX`] nodes would have to be looked at.
    Visited,
    /// More than [`RESULTS_MAX`](super::RESULTS_MAX) results.
    Results,
}

/// What evaluating may still cost.
#[derive(Clone, Debug)]
pub(crate) struct VisitBudget {
    visits: usize,
}

impl VisitBudget {
    pub(crate) fn new() -> VisitBudget {
        VisitBudget { visits: VISITED_MAX }
    }

    fn visit(&mut self) -> Result<(), Overflow> {
        self.visits = self.visits.checked_sub(1).ok_or(Overflow::Visited)?;
        Ok(())
    }
}

/// What is done with a node; an error ends the walk.
type Sink<'s, 'v> = dyn FnMut(PathMatch<'v>) -> Result<(), Overflow> + 's;

impl JsonPath {
    /// Hands every node the path leads to to the sink.
    ///
    /// `current` is where a path that starts with `@` starts.
    pub(crate) fn visit<'v>(
        &self,
        root: &'v Value,
        current: &'v Value,
        budget: &mut VisitBudget,
        sink: &mut Sink<'_, 'v>,
    ) -> Result<(), Overflow> {
        let value = if self.start == Start::Root { root } else { current };
        let node = PathMatch { value, parent: None, is_name: false };
        walk(node, &self.segments, root, budget, sink)
    }

    /// The one value of a singular path.
    pub(crate) fn single<'v>(&self, root: &'v Value, current: &'v Value) -> Option<&'v Value> {
        let start = if self.start == Start::Root { root } else { current };
        follow(start, &self.segments, &mut VisitBudget::new()).ok().flatten()
    }
}

/// Depth first, which is the order of the object; as deep as the path has segments.
fn walk<'v>(
    node: PathMatch<'v>,
    segments: &[PathStep],
    root: &'v Value,
    budget: &mut VisitBudget,
    sink: &mut Sink<'_, 'v>,
) -> Result<(), Overflow> {
    let (mut node, mut segments) = (node, segments);
    loop {
        let Some((segment, rest)) = segments.split_first() else { return sink(node) };
        // Most segments are one member, for which there is no need to go deeper.
        let [Selector::Member(name)] = segment.selectors.as_slice() else {
            let mut selectors = segment.selectors.iter();
            return selectors
                .try_for_each(|selector| step(node.value, selector, rest, root, budget, sink));
        };
        budget.visit()?;
        let Value::Object(members) = node.value else { return Ok(()) };
        let Some(value) = member(members, name) else { return Ok(()) };
        node = PathMatch { value, parent: Some(node.value), is_name: **name == *"name" };
        segments = rest;
    }
}

/// Walks on from the children a selector chooses.
fn step<'v>(
    value: &'v Value,
    selector: &Selector,
    rest: &[PathStep],
    root: &'v Value,
    budget: &mut VisitBudget,
    sink: &mut Sink<'_, 'v>,
) -> Result<(), Overflow> {
    budget.visit()?;
    let child = |child: &'v Value| PathMatch { value: child, parent: Some(value), is_name: false };
    let mut next = |found, budget: &mut VisitBudget| walk(found, rest, root, budget, sink);
    match (selector, value) {
        (Selector::Member(name), Value::Object(members)) => match member(members, name) {
            Some(member) => next(PathMatch { is_name: **name == *"name", ..child(member) }, budget),
            None => Ok(()),
        },
        (Selector::Index(index), Value::Array(elements)) => {
            let at = place(*index, elements.len());
            match at.and_then(|at| elements.get(at)) {
                Some(element) => next(child(element), budget),
                None => Ok(()),
            }
        }
        (Selector::Slice { from, to, step }, Value::Array(elements)) => {
            for at in slice(*from, *to, *step, elements.len()) {
                budget.visit()?;
                if let Some(element) = elements.get(at) {
                    next(child(element), budget)?;
                }
            }
            Ok(())
        }
        (Selector::Wildcard, Value::Array(elements)) => elements.iter().try_for_each(|element| {
            budget.visit()?;
            next(child(element), budget)
        }),
        (Selector::Wildcard, Value::Object(members)) => members.values().try_for_each(|member| {
            budget.visit()?;
            next(child(member), budget)
        }),
        (Selector::Filter(test), Value::Array(elements)) => {
            elements.iter().try_for_each(|element| {
                budget.visit()?;
                if holds(test, element, root, budget)? {
                    next(child(element), budget)
                } else {
                    Ok(())
                }
            })
        }
        (Selector::Filter(test), Value::Object(members)) => {
            members.values().try_for_each(|member| {
                budget.visit()?;
                if holds(test, member, root, budget)? {
                    next(child(member), budget)
                } else {
                    Ok(())
                }
            })
        }
        _ => Ok(()),
    }
}

/// The one value a singular path leads to, without a walk; it costs what a walk costs.
fn follow<'v>(
    start: &'v Value,
    segments: &[PathStep],
    budget: &mut VisitBudget,
) -> Result<Option<&'v Value>, Overflow> {
    let mut value = start;
    for segment in segments {
        budget.visit()?;
        let child = match (segment.selectors.as_slice(), value) {
            ([Selector::Member(name)], Value::Object(members)) => member(members, name),
            ([Selector::Index(index)], Value::Array(elements)) => {
                place(*index, elements.len()).and_then(|at| elements.get(at))
            }
            _ => None,
        };
        let Some(child) = child else { return Ok(None) };
        value = child;
    }
    Ok(Some(value))
}

/// As many members are looked through faster than they are searched.
const FEW: usize = 8;

/// A member of an object. Most objects have few members, most of whose names have another length.
pub(crate) fn member<'v>(members: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    if members.len() > FEW {
        return members.get(name);
    }
    let found = members.iter().find(|(known, _)| same(known.as_bytes(), name.as_bytes()));
    found.map(|(_, value)| value)
}

/// Where an index points; a negative one counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { length + index } else { index }).ok()
}

/// The places of a slice, as RFC 9535 section 2.3.4.2.2 counts them.
fn slice(
    from: Option<i64>,
    to: Option<i64>,
    step: i64,
    length: usize,
) -> impl Iterator<Item = usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let normal = |at: i64| if at < 0 { length + at } else { at };
    let (mut at, end) = if step >= 0 {
        let (from, to) = (normal(from.unwrap_or(0)), normal(to.unwrap_or(length)));
        (from.clamp(0, length), to.clamp(0, length))
    } else {
        let from = from.map_or(length - 1, normal);
        let to = to.map_or(-1, normal);
        (from.clamp(-1, length - 1), to.clamp(-1, length - 1))
    };
    core::iter::from_fn(move || {
        let inside = (step > 0 && at < end) || (step < 0 && at > end);
        let this = inside.then(|| usize::try_from(at).ok()).flatten()?;
        at = at.saturating_add(step);
        Some(this)
    })
}

fn holds(
    test: &Test,
    current: &Value,
    root: &Value,
    budget: &mut VisitBudget,
) -> Result<bool, Overflow> {
    match test {
        Test::Any(tests) => {
            for test in tests {
                if holds(test, current, root, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Test::All(tests) => {
            for test in tests {
                if !holds(test, current, root, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Test::Not(test) => Ok(!holds(test, current, root, budget)?),
        Test::Exists(query) => Ok(first(query, current, root, budget)?.is_some()),
        // What nearly all filters are made of: `@.member == 'text'`.
        Test::Compare(Comparable::Query(query), Operator::Equal, Comparable::Text(text))
            if let Some(name) = query.own_member() =>
        {
            budget.visit()?;
            let Value::Object(members) = current else { return Ok(false) };
            let value = member(members, name).and_then(Value::as_str);
            Ok(value.is_some_and(|value| same(value.as_bytes(), text.as_bytes())))
        }
        Test::Compare(left, operator, right) => {
            let left = side(left, current, root, budget)?;
            let right = side(right, current, root, budget)?;
            compare(left, *operator, right, budget)
        }
    }
}

/// The first value of a query. The rest is not looked for.
fn first<'v>(
    query: &FilterQuery,
    current: &'v Value,
    root: &'v Value,
    budget: &mut VisitBudget,
) -> Result<Option<&'v Value>, Overflow> {
    let start = if query.start == Start::Root { root } else { current };
    if query.is_singular() {
        return follow(start, &query.segments, budget);
    }
    let node = PathMatch { value: start, parent: None, is_name: false };
    let mut only = None;
    let walked = walk(node, &query.segments, root, budget, &mut |found| {
        only = Some(found.value);
        // Ends the walk: one is enough.
        Err(Overflow::Results)
    });
    match walked {
        Err(Overflow::Visited) => Err(Overflow::Visited),
        _ => Ok(only),
    }
}

/// One side of a comparison.
#[derive(Clone, Copy)]
enum ComparisonOperand<'v> {
    Nothing,
    Null,
    Bool(bool),
    Number(&'v Number),
    Text(&'v str),
    Whole(&'v Value),
}

fn side<'v>(
    comparable: &'v Comparable,
    current: &'v Value,
    root: &'v Value,
    budget: &mut VisitBudget,
) -> Result<ComparisonOperand<'v>, Overflow> {
    Ok(match comparable {
        Comparable::Null => ComparisonOperand::Null,
        Comparable::Bool(value) => ComparisonOperand::Bool(*value),
        Comparable::Number(value) => ComparisonOperand::Number(value),
        Comparable::Text(value) => ComparisonOperand::Text(value),
        Comparable::Query(query) => match first(query, current, root, budget)? {
            None => ComparisonOperand::Nothing,
            Some(Value::Null) => ComparisonOperand::Null,
            Some(Value::Bool(value)) => ComparisonOperand::Bool(*value),
            Some(Value::Number(value)) => ComparisonOperand::Number(value),
            Some(Value::String(value)) => ComparisonOperand::Text(value),
            Some(value) => ComparisonOperand::Whole(value),
        },
    })
}

fn compare(
    left: ComparisonOperand<'_>,
    operator: Operator,
    right: ComparisonOperand<'_>,
    budget: &mut VisitBudget,
) -> Result<bool, Overflow> {
    Ok(match operator {
        Operator::Equal => equal(left, right, budget)?,
        Operator::Unequal => !equal(left, right, budget)?,
        Operator::Less => less(left, right),
        Operator::Greater => less(right, left),
        Operator::LessOrEqual => less(left, right) || equal(left, right, budget)?,
        Operator::GreaterOrEqual => less(right, left) || equal(left, right, budget)?,
    })
}

fn equal(
    left: ComparisonOperand<'_>,
    right: ComparisonOperand<'_>,
    budget: &mut VisitBudget,
) -> Result<bool, Overflow> {
    Ok(match (left, right) {
        (ComparisonOperand::Nothing, ComparisonOperand::Nothing)
        | (ComparisonOperand::Null, ComparisonOperand::Null) => true,
        (ComparisonOperand::Bool(left), ComparisonOperand::Bool(right)) => left == right,
        (ComparisonOperand::Number(left), ComparisonOperand::Number(right)) => {
            order(left, right) == Some(0)
        }
        (ComparisonOperand::Text(left), ComparisonOperand::Text(right)) => {
            same(left.as_bytes(), right.as_bytes())
        }
        (ComparisonOperand::Whole(left), ComparisonOperand::Whole(right)) => {
            whole_equal(left, right, DEPTH_MAX, budget)?
        }
        _ => false,
    })
}

/// Deeper values cannot be sent to an API server; the stack is not risked for them.
const DEPTH_MAX: usize = 128;

/// Whether two values are the same; each node costs, as looking at it does.
fn whole_equal(
    left: &Value,
    right: &Value,
    depth: usize,
    budget: &mut VisitBudget,
) -> Result<bool, Overflow> {
    budget.visit()?;
    let depth = depth.checked_sub(1).ok_or(Overflow::Visited)?;
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (left, right) in left.iter().zip(right) {
                if !whole_equal(left, right, depth, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(left), Value::Object(right)) => {
            if left.len() != right.len() {
                return Ok(false);
            }
            for (name, left) in left {
                let Some(right) = right.get(name) else { return Ok(false) };
                if !whole_equal(left, right, depth, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Number(left), Value::Number(right)) => Ok(order(left, right) == Some(0)),
        _ => Ok(left == right),
    }
}

fn less(left: ComparisonOperand<'_>, right: ComparisonOperand<'_>) -> bool {
    match (left, right) {
        (ComparisonOperand::Number(left), ComparisonOperand::Number(right)) => {
            order(left, right) == Some(-1)
        }
        (ComparisonOperand::Text(left), ComparisonOperand::Text(right)) => left < right,
        _ => false,
    }
}

/// Numbers are compared by value: exactly where both are whole, as floats otherwise.
fn order(left: &Number, right: &Number) -> Option<i8> {
    let whole = |number: &Number| {
        number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
    };
    let ordering = match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    };
    ordering.map(|ordering| ordering as i8)
}
