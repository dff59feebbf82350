//! The run: a walk over the checked tree that pays for every step. No clock, no thread, no IO.

use std::ops::Bound;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{EvalError, EvalErrorKind};
use crate::library::regexes::run_written;
use crate::library::{CostModel, operators};
use crate::meter::{Meter, STRUCT_COST, VISIT, scaled};
use crate::node::{Call, FoldNode, NodeKind, Quantifier, SelectMode, TypedNode};
use crate::types::Type;
use crate::value::{ListValue, MapKey, MapValue, StructValue, Value};

type Made<'a> = Result<Value<'a>, EvalError>;

/// A run in progress.
pub(crate) struct Evaluator<'a, 'm> {
    /// The variables, those of folds on top; an error there is told when it is looked at.
    pub(crate) frame: Vec<Made<'a>>,
    pub(crate) meter: &'m mut Meter,
}

fn fatal(error: &EvalError) -> bool {
    error.kind == EvalErrorKind::Overspent
}

impl<'a> Evaluator<'a, '_> {
    pub(crate) fn eval(&mut self, node: &TypedNode) -> Made<'a> {
        match &node.kind {
            NodeKind::Constant(value) => Ok(value.clone()),
            NodeKind::Variable { place, .. } => {
                self.meter.charge(1)?;
                match self.frame.get(*place) {
                    Some(value) => value.clone(),
                    None => Err(EvalError::failed("no such variable")),
                }
            }
            NodeKind::Select { operand, field, mode } => self.select(operand, field, *mode),
            NodeKind::And(a, b) => self.logical(a, b, false),
            NodeKind::Or(a, b) => self.logical(a, b, true),
            NodeKind::Choose(parts) => {
                let [condition, yes, no] = &**parts;
                if self.truth(condition)? { self.eval(yes) } else { self.eval(no) }
            }
            NodeKind::NotStrictlyFalse(inner) => {
                let value = self.eval(inner);
                self.meter.charge(1)?;
                match value {
                    Ok(value) => Ok(Value::Bool(value.as_bool() != Some(false))),
                    Err(error) if fatal(&error) => Err(error),
                    Err(_) => Ok(Value::Bool(true)),
                }
            }
            NodeKind::Otherwise { first, second, call, .. } => {
                let first = self.eval(first)?;
                self.meter.charge(1)?;
                match &first {
                    Value::Optional(None) => self.eval(second),
                    _ => (call.run)(self.meter, &[first, Value::Null]),
                }
            }
            NodeKind::Call(call) => self.call(call, &node.ty),
            NodeKind::List(items) => self.list(items),
            NodeKind::Map(entries) => self.map(entries),
            NodeKind::Struct { name, fields } => self.make(name, fields),
            NodeKind::Fold(fold) => self.fold(fold),
        }
    }

    fn truth(&mut self, node: &TypedNode) -> Result<bool, EvalError> {
        self.eval(node)?.as_bool().ok_or_else(EvalError::no_such_overload)
    }

    /// `&&` and `||`: either side decides alone, even when the other fails.
    fn logical(&mut self, a: &TypedNode, b: &TypedNode, decides: bool) -> Made<'a> {
        let first = self.truth(a);
        match first {
            Ok(value) if value == decides => return Ok(Value::Bool(decides)),
            Err(error) if fatal(&error) => return Err(error),
            _ => {}
        }
        match (first, self.truth(b)) {
            (_, Ok(value)) if value == decides => Ok(Value::Bool(decides)),
            (_, Err(error)) if fatal(&error) => Err(error),
            (Err(error), _) | (_, Err(error)) => Err(error),
            (Ok(_), Ok(value)) => Ok(Value::Bool(value)),
        }
    }

    fn select(&mut self, operand: &TypedNode, field: &Arc<str>, mode: SelectMode) -> Made<'a> {
        let operand = self.eval(operand)?;
        if mode != SelectMode::Test {
            self.meter.charge(1)?;
        }
        let (container, optional) = match &operand {
            Value::Optional(None) if mode == SelectMode::Test => return Ok(Value::Bool(false)),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (&**inner, true),
            other => (other, false),
        };
        self.meter.work_len(field.len())?;
        let found = container.member(field)?;
        self.touch(found.as_ref())?;
        match (mode, found) {
            (SelectMode::Test, found) => Ok(Value::Bool(found.is_some())),
            (SelectMode::Optional, found) => Ok(Value::Optional(found.map(Arc::new))),
            (SelectMode::Value, Some(found)) if optional => Ok(Value::some(found)),
            (SelectMode::Value, None) if optional => Ok(Value::Optional(None)),
            (SelectMode::Value, Some(found)) => Ok(found),
            (SelectMode::Value, None) => Err(EvalError::no_such_key(field)),
        }
    }

    /// Pays for data that had to be decoded to be seen.
    fn touch(&mut self, value: Option<&Value<'a>>) -> Result<(), EvalError> {
        match value {
            Some(Value::Bytes(octets)) => self.meter.work_len(octets.len().saturating_mul(32)),
            _ => Ok(()),
        }
    }

    fn call(&mut self, call: &Call, ty: &Type) -> Made<'a> {
        let mut args: SmallVec<[Value<'a>; 3]> = SmallVec::new();
        for arg in &call.args {
            args.push(self.eval(arg)?);
        }
        if !call.constant_list {
            self.charge(call.function.charge, &args)?;
        }
        let made = match &call.pattern {
            Some(pattern) => run_written(self.meter, call.function.name, pattern, &args),
            None => (call.function.run)(self.meter, &args),
        };
        match (&made, ty) {
            (Ok(value @ Value::Bytes(_)), _) => self.touch(Some(value))?,
            // The sum of nothing is a zero of the type that was checked.
            (Ok(Value::Int(0)), Type::Duration) => return Ok(Value::Duration(0)),
            (Ok(Value::Int(0)), Type::Double) => return Ok(Value::Double(0.0)),
            (Ok(Value::Int(0)), Type::Uint) => return Ok(Value::Uint(0)),
            _ => {}
        }
        made
    }

    fn charge(&mut self, charge: CostModel, args: &[Value<'a>]) -> Result<(), EvalError> {
        let size = |which: usize| args.get(which).map_or(1, Value::size);
        let is_text =
            |which: usize| matches!(args.get(which), Some(Value::String(_) | Value::Bytes(_)));
        let cost = match charge {
            CostModel::One => 1,
            CostModel::Own => 0,
            CostModel::Scan(factor) => scaled(size(0), 0.1 * factor),
            CostModel::ScanSecond => scaled(size(1), 0.1),
            CostModel::Regex => {
                scaled(size(0).saturating_add(1), 0.1).saturating_mul(scaled(size(1), 0.25))
            }
            CostModel::Contains => {
                // A search is linear here; the product is upstream's.
                scaled(size(0), 0.1).saturating_mul(scaled(size(1), 0.1)).max(scaled(size(0), 0.01))
            }
            CostModel::Smaller => scaled(size(0).min(size(1)), 0.1),
            CostModel::Order if is_text(0) => scaled(size(0).min(size(1)), 0.1),
            CostModel::Order => 1,
            CostModel::Add if is_text(0) => scaled(size(0).saturating_add(size(1)), 0.1),
            CostModel::Add => 1,
            CostModel::In if matches!(args.get(1), Some(Value::List(_))) => size(1),
            CostModel::In => 1,
            CostModel::Traverse => match args.first() {
                Some(value) => self.traversal(value)?,
                None => 0,
            },
            CostModel::Sets(factor) => {
                scaled(size(0).saturating_mul(size(1)), factor).saturating_add(1)
            }
        };
        self.meter.charge(cost)
    }

    /// What looking at everything inside a value costs.
    fn traversal(&mut self, value: &Value<'a>) -> Result<u64, EvalError> {
        self.meter.work(VISIT)?;
        Ok(match value {
            Value::String(_) | Value::Bytes(_) => value.size() / 10,
            Value::List(list) => {
                let mut total = 0u64;
                for item in list.iter() {
                    total = total.saturating_add(self.traversal(&item?)?);
                }
                total
            }
            Value::Map(_) | Value::Object(..) => value.size(),
            _ => 1,
        })
    }

    fn list(&mut self, items: &[(bool, TypedNode)]) -> Made<'a> {
        let mut out = Vec::with_capacity(items.len());
        for (optional, item) in items {
            match self.eval(item)? {
                Value::Optional(inner) if *optional => out.extend(inner.map(|v| (*v).clone())),
                value => out.push(value),
            }
        }
        self.meter.charge(10)?;
        Ok(Value::list(out))
    }

    fn map(&mut self, entries: &[(bool, TypedNode, TypedNode)]) -> Made<'a> {
        let mut out = std::collections::BTreeMap::new();
        for (optional, key, value) in entries {
            let key = self.eval(key)?.key();
            let key = key.ok_or_else(|| EvalError::failed("unsupported key type"))?;
            let value = match self.eval(value)? {
                Value::Optional(None) if *optional => continue,
                Value::Optional(Some(inner)) if *optional => (*inner).clone(),
                value => value,
            };
            if out.insert(key, value).is_some() {
                return Err(EvalError::failed("Failed with repeated key"));
            }
        }
        self.meter.charge(30)?;
        Ok(Value::map(out))
    }

    fn make(&mut self, name: &Arc<str>, fields: &[(bool, Arc<str>, TypedNode)]) -> Made<'a> {
        let mut made = std::collections::BTreeMap::new();
        for (optional, field, value) in fields {
            let value = match self.eval(value)? {
                Value::Optional(None) if *optional => continue,
                Value::Optional(Some(inner)) if *optional => (*inner).clone(),
                value => value,
            };
            made.insert(Arc::clone(field), value);
        }
        self.meter.charge(STRUCT_COST)?;
        Ok(Value::Struct(Arc::new(StructValue { name: Arc::clone(name), fields: made })))
    }

    fn fold(&mut self, fold: &FoldNode) -> Made<'a> {
        // INVARIANT: the frame is as long as the check assumed, so places mean what they meant.
        self.frame.truncate(fold.place);
        let range = self.eval(&fold.range)?;
        let init = self.eval(&fold.init);
        if let Err(error) = &init
            && (fatal(error) || !fold.binds)
        {
            return init;
        }
        self.frame.push(init);
        if !fold.binds {
            self.iterate(fold, range)?;
        }
        self.frame.truncate(fold.place + 1);
        let result = self.eval(&fold.result);
        self.frame.truncate(fold.place);
        result
    }

    fn iterate(&mut self, fold: &FoldNode, range: Value<'a>) -> Result<(), EvalError> {
        let two = fold.second.is_some();
        match range {
            Value::List(list) => {
                for (index, item) in (0i64..).zip(list.iter()) {
                    if let Ok(item) = &item {
                        self.touch(Some(item))?;
                    }
                    let (first, second) =
                        if two { (Ok(Value::Int(index)), Some(item)) } else { (item, None) };
                    if !self.turn(fold, first, second)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(MapValue::Json(map, shape)) => {
                for (name, json) in map {
                    let second = two.then(|| Value::from_json(json, shape));
                    if !self.turn(fold, Ok(Value::borrowed(name)), second)? {
                        break;
                    }
                }
                Ok(())
            }
            Value::Map(MapValue::Made(map)) => {
                let mut last: Option<MapKey<'a>> = None;
                loop {
                    let from = last.take().map_or(Bound::Unbounded, Bound::Excluded);
                    let Some((key, value)) = map.range((from, Bound::Unbounded)).next() else {
                        return Ok(());
                    };
                    let second = two.then(|| Ok(value.clone()));
                    let first = Ok(Value::from_key(key));
                    last = Some(key.clone());
                    if !self.turn(fold, first, second)? {
                        return Ok(());
                    }
                }
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// One turn of a fold; `false` when no more is wanted.
    fn turn(
        &mut self,
        fold: &FoldNode,
        first: Made<'a>,
        second: Option<Made<'a>>,
    ) -> Result<bool, EvalError> {
        // Even an empty body takes time.
        self.meter.work(VISIT)?;
        self.frame.truncate(fold.place + 1);
        self.frame.push(first);
        self.frame.extend(second);
        if let Some(quantifier) = &fold.quantifier {
            return self.quantify(fold, quantifier);
        }
        let constant = matches!(fold.condition.kind, NodeKind::Constant(Value::Bool(true)));
        if !constant && !self.truth(&fold.condition)? {
            return Ok(false);
        }
        self.step(fold, &fold.step)?;
        Ok(true)
    }

    /// One turn of `all` or `exists`, at the cost of the fold it stands for.
    ///
    /// The accumulator is the wanted truth, or an error that a later element may still overrule.
    fn quantify(&mut self, fold: &FoldNode, quantifier: &Quantifier) -> Result<bool, EvalError> {
        // Looking at the accumulator, for `exists` through a negation, and the test for false.
        self.meter.charge(if quantifier.decides { 3 } else { 2 })?;
        if let Some(Ok(Value::Bool(value))) = self.frame.get(fold.place)
            && *value == quantifier.decides
        {
            return Ok(false);
        }
        self.meter.charge(1)?;
        let (NodeKind::And(_, predicate) | NodeKind::Or(_, predicate)) = &fold.step.kind else {
            return Err(EvalError::no_such_overload());
        };
        match self.truth(predicate) {
            Ok(value) if value == quantifier.decides => {
                self.put(fold, Ok(Value::Bool(value)))?;
            }
            Ok(_) => {}
            Err(error) if fatal(&error) => return Err(error),
            Err(error) => {
                if matches!(self.frame.get(fold.place), Some(Ok(_))) {
                    self.put(fold, Err(error))?;
                }
            }
        }
        Ok(true)
    }

    /// Moves the accumulator on. Lists and maps grow in place, so that a fold stays linear.
    fn step(&mut self, fold: &FoldNode, node: &TypedNode) -> Result<(), EvalError> {
        match &node.kind {
            NodeKind::Choose(parts) => {
                let [condition, yes, no] = &**parts;
                let branch = if self.truth(condition)? { yes } else { no };
                self.step(fold, branch)
            }
            NodeKind::Variable { place, .. } if *place == fold.place => self.meter.charge(1),
            NodeKind::Call(call) => match self.growth(fold, call)? {
                true => Ok(()),
                false => self.replace(fold, node),
            },
            // What `all` and `exists` gather may be an error until something decides.
            NodeKind::And(..) | NodeKind::Or(..) => {
                let made = self.eval(node);
                match made {
                    Err(error) if fatal(&error) => Err(error),
                    made => self.put(fold, made),
                }
            }
            _ => self.replace(fold, node),
        }
    }

    fn replace(&mut self, fold: &FoldNode, node: &TypedNode) -> Result<(), EvalError> {
        let made = self.eval(node)?;
        self.put(fold, Ok(made))
    }

    fn put(&mut self, fold: &FoldNode, made: Made<'a>) -> Result<(), EvalError> {
        if let Some(place) = self.frame.get_mut(fold.place) {
            *place = made;
        }
        Ok(())
    }

    /// `accumulator + [x]` and `cel.@mapInsert(accumulator, …)`; `false` for any other call.
    fn growth(&mut self, fold: &FoldNode, call: &Call) -> Result<bool, EvalError> {
        let Some((first, rest)) = call.args.split_first() else { return Ok(false) };
        if !matches!(&first.kind, NodeKind::Variable { place, .. } if *place == fold.place) {
            return Ok(false);
        }
        let mut values: SmallVec<[Value<'a>; 2]> = SmallVec::new();
        match (call.function.name, rest) {
            ("_+_", [TypedNode { kind: NodeKind::List(items), .. }]) => {
                let [(false, item)] = items.as_slice() else { return Ok(false) };
                // One for the accumulator, ten for the list, one for the sum.
                self.meter.charge(12)?;
                values.push(self.eval(item)?);
            }
            ("cel.@mapInsert", rest) => {
                self.meter.charge(1)?;
                for node in rest {
                    values.push(self.eval(node)?);
                }
            }
            _ => return Ok(false),
        }
        let Some(place) = self.frame.get_mut(fold.place) else { return Ok(false) };
        let mut held = std::mem::replace(place, Ok(Value::Null))?;
        match &mut held {
            Value::List(ListValue::Made(list)) => Arc::make_mut(list).extend(values),
            Value::Map(MapValue::Made(map)) => {
                operators::insert_into(self.meter, Arc::make_mut(map), &values)?;
            }
            _ => return Err(EvalError::no_such_overload()),
        }
        self.put(fold, Ok(held))?;
        Ok(true)
    }
}
