//! The type check: names, members and calls against what is declared. It runs when a rule is
//! registered, so that a rule that names what is not there is refused and not found out later.

use std::sync::Arc;

use crate::ast::{Element, Expr, ExprKind, Fold, Literal, MapEntry, StructField};
use crate::env::Env;
use crate::error::CompileError;
use crate::library::regexes::CompiledRegex;
use crate::library::{Function, find};
use crate::node::{Call, FoldNode, NodeKind, SelectMode, TypedNode};
use crate::shape::ShapeKind;
use crate::structs::{JSON_PATCH, OBJECT};
use crate::time;
use crate::types::Type;
use crate::unify::{Substitution, wider};
use crate::value::Value;

/// How many errors are told; the rest follow from these or can wait.
const ERRORS_MAX: usize = 10;

/// The one function that only patches know.
const ESCAPE_KEY: &str = "jsonpatch.escapeKey";

/// Names that stand for types.
const TYPE_NAMES: [&str; 19] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "optional_type",
    "kubernetes.NamedFormat",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.URL",
    "net.CIDR",
    "net.IP",
];

/// A checked tree and which variables it uses.
pub(crate) struct CheckedExpression {
    pub(crate) node: TypedNode,
    pub(crate) used: Vec<bool>,
}

/// Checks a tree.
pub(crate) fn check(text: &str, expr: &Expr, env: &Env) -> Result<CheckedExpression, CompileError> {
    let scope: Vec<_> = env.variables.iter().map(|v| (v.name.clone(), v.ty.clone())).collect();
    let used = vec![false; scope.len()];
    let mut checker = Checker {
        text,
        scope,
        used,
        known: Substitution::default(),
        errors: vec![],
        mixed_allowed: false,
        patches: env.patches,
        literals: vec![],
    };
    let mut node = checker.expr(expr);
    checker.resolve(&mut node);
    checker.check_literals();
    if checker.errors.is_empty() {
        return Ok(CheckedExpression { node, used: checker.used });
    }
    checker.errors.truncate(ERRORS_MAX);
    Err(CompileError::join(checker.errors))
}

struct Checker<'t> {
    text: &'t str,
    /// INVARIANT: the place of a variable here is its place in the frame of a run.
    scope: Vec<(Arc<str>, Type)>,
    used: Vec<bool>,
    known: Substitution,
    errors: Vec<CompileError>,
    /// Whether lists and maps may mix types here, as the arguments of `format` may.
    mixed_allowed: bool,
    /// Whether the expression makes patches.
    patches: bool,
    /// The types in each list or map written out, to be compared when all are known.
    literals: Vec<Vec<(usize, Type)>>,
}

impl Checker<'_> {
    fn error(&mut self, at: usize, message: &str) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(CompileError::at(self.text, at, message));
        }
    }

    fn failed(&mut self, at: usize, message: &str) -> TypedNode {
        self.error(at, message);
        TypedNode { ty: Type::Error, at, kind: NodeKind::Constant(Value::Null) }
    }

    fn undeclared(&mut self, at: usize, name: &str) -> TypedNode {
        self.failed(at, &format!("undeclared reference to '{name}' (in container '')"))
    }

    fn expr(&mut self, expr: &Expr) -> TypedNode {
        let mixed_allowed = self.mixed_allowed;
        if !matches!(expr.kind, ExprKind::List(_) | ExprKind::Map(_)) {
            self.mixed_allowed = false;
        }
        let node = self.any(expr);
        self.mixed_allowed = mixed_allowed;
        node
    }

    fn any(&mut self, expr: &Expr) -> TypedNode {
        let at = expr.at;
        match &expr.kind {
            ExprKind::Literal(literal) => constant(at, literal),
            ExprKind::Ident(name) => self.ident(at, name),
            ExprKind::Select { operand, field, test } => {
                if let Some(found) = self.dotted(at, operand, field, *test) {
                    return found;
                }
                let dotted = expr.dotted().filter(|_| !test);
                if let Some(name) = dotted.and_then(|d| TYPE_NAMES.into_iter().find(|t| *t == d)) {
                    return TypedNode {
                        ty: Type::Type,
                        at,
                        kind: NodeKind::Constant(Value::Type(name)),
                    };
                }
                let mode = if *test { SelectMode::Test } else { SelectMode::Value };
                self.select(at, operand, field, mode)
            }
            ExprKind::OptionalSelect { operand, field } => {
                self.select(at, operand, field, SelectMode::Optional)
            }
            ExprKind::Call { name, target, args } => self.call(at, name, target.as_deref(), args),
            ExprKind::List(elements) => self.list(at, elements),
            ExprKind::Map(entries) => self.map(at, entries),
            ExprKind::Struct { name, fields } => self.make(at, name, fields),
            ExprKind::Fold(fold) => self.fold(at, fold),
        }
    }

    fn ident(&mut self, at: usize, name: &Arc<str>) -> TypedNode {
        let found = self.scope.iter().rposition(|(known, _)| known == name);
        if let Some(place) = found {
            if let Some(used) = self.used.get_mut(place) {
                *used = true;
            }
            let ty = self.scope.get(place).map_or(Type::Error, |(_, ty)| ty.clone());
            return TypedNode { ty, at, kind: NodeKind::Variable { place, name: name.clone() } };
        }
        match TYPE_NAMES.into_iter().find(|known| *known == &**name) {
            Some(name) => {
                TypedNode { ty: Type::Type, at, kind: NodeKind::Constant(Value::Type(name)) }
            }
            None => self.undeclared(at, name),
        }
    }

    /// A variable whose name has a dot in it, such as `variables.a`, unless something nearer is called
    /// `variables`. Such a variable is always there.
    fn dotted(&mut self, at: usize, operand: &Expr, field: &str, test: bool) -> Option<TypedNode> {
        let ExprKind::Ident(head) = &operand.kind else { return None };
        let is_it = |name: &str| {
            name.strip_prefix(&**head).and_then(|rest| rest.strip_prefix('.')) == Some(field)
        };
        let place = self.scope.iter().rposition(|(known, _)| is_it(known))?;
        if self.scope.iter().rposition(|(known, _)| known == head) > Some(place) {
            return None;
        }
        if test {
            let kind = NodeKind::Constant(Value::Bool(true));
            return Some(TypedNode { ty: Type::Bool, at, kind });
        }
        let name = self.scope.get(place).map(|(name, _)| name.clone())?;
        Some(self.ident(at, &name))
    }

    fn select(
        &mut self,
        at: usize,
        operand: &Expr,
        field: &Arc<str>,
        mode: SelectMode,
    ) -> TypedNode {
        let operand = self.expr(operand);
        let ty = self.known.resolve(&operand.ty, false);
        let (target, optional) = match ty {
            Type::Optional(inner) => ((*inner).clone(), true),
            ty => (ty, false),
        };
        let found = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(shape) => match &shape.kind {
                ShapeKind::Object(fields) => match fields.find(field) {
                    Some((_, shape)) => shape.ty(),
                    None => {
                        self.error(at, &format!("undefined field '{field}'"));
                        Type::Error
                    }
                },
                _ => Type::Dyn,
            },
            Type::Struct(name) => self.field_type(at, name, field),
            Type::Param(_) => {
                self.known.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.error(at, &format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        let ty = match mode {
            SelectMode::Test => Type::Bool,
            SelectMode::Optional => Type::optional(found),
            SelectMode::Value if optional => Type::optional(found),
            SelectMode::Value => found,
        };
        let operand = Box::new(operand);
        TypedNode { ty, at, kind: NodeKind::Select { operand, field: field.clone(), mode } }
    }

    fn call(&mut self, at: usize, name: &str, target: Option<&Expr>, args: &[Expr]) -> TypedNode {
        let exempt = name == "format" && target.is_some();
        let mixed_allowed = std::mem::replace(&mut self.mixed_allowed, exempt);
        let mut nodes: Vec<TypedNode> = args.iter().map(|arg| self.expr(arg)).collect();
        self.mixed_allowed = mixed_allowed;
        let Some(target) = target else {
            if matches!(name, "_&&_" | "_||_" | "_?_:_" | "@not_strictly_false") {
                return self.special(at, name, nodes);
            }
            return match find(name) {
                Some(function) => self.resolve_call(at, function, false, nodes),
                None => self.undeclared(at, name),
            };
        };
        let dotted = target.dotted().map(|prefix| format!("{prefix}.{name}"));
        let known = |name: String| find(&name).filter(|_| self.patches || name != ESCAPE_KEY);
        if let Some(function) = dotted.and_then(known) {
            return self.resolve_call(at, function, false, nodes);
        }
        nodes.insert(0, self.expr(target));
        match find(name) {
            Some(function) => self.resolve_call(at, function, true, nodes),
            None => self.undeclared(at, name),
        }
    }

    /// The calls that do not look at all their arguments.
    fn special(&mut self, at: usize, name: &str, nodes: Vec<TypedNode>) -> TypedNode {
        let bools = if name == "_?_:_" { 1 } else { nodes.len() };
        for node in nodes.iter().take(bools) {
            if !self.known.assign(&node.ty, &Type::Bool) {
                let found = self.known.resolve(&node.ty, true);
                self.error(node.at, &format!("expected type 'bool' but found '{found}'"));
            }
        }
        let mut nodes = nodes.into_iter();
        match (name, nodes.next(), nodes.next(), nodes.next()) {
            ("_&&_", Some(a), Some(b), None) => {
                TypedNode { ty: Type::Bool, at, kind: NodeKind::And(Box::new(a), Box::new(b)) }
            }
            ("_||_", Some(a), Some(b), None) => {
                TypedNode { ty: Type::Bool, at, kind: NodeKind::Or(Box::new(a), Box::new(b)) }
            }
            ("@not_strictly_false", Some(a), None, None) => {
                TypedNode { ty: Type::Bool, at, kind: NodeKind::NotStrictlyFalse(Box::new(a)) }
            }
            ("_?_:_", Some(condition), Some(yes), Some(no)) => {
                let ty = self.known.fresh();
                let fits = self
                    .known
                    .assign_all(&[yes.ty.clone(), no.ty.clone()], &[ty.clone(), ty.clone()]);
                if !fits {
                    let types: Vec<Type> = [&condition, &yes, &no].map(|n| n.ty.clone()).to_vec();
                    self.no_overload(at, "_?_:_", false, &types);
                }
                let ty = self.known.resolve(&ty, false);
                TypedNode { ty, at, kind: NodeKind::Choose(Box::new([condition, yes, no])) }
            }
            _ => self.undeclared(at, name),
        }
    }

    fn no_overload(&mut self, at: usize, name: &str, member: bool, types: &[Type]) {
        let mut shown = types.iter().map(|ty| self.known.resolve(ty, true).to_string());
        let receiver = if member { shown.next() } else { None };
        let args = shown.collect::<Vec<_>>().join(", ");
        let call = match receiver {
            Some(receiver) => format!("{receiver}.({args})"),
            None => format!("({args})"),
        };
        self.error(at, &format!("found no matching overload for '{name}' applied to '{call}'"));
    }

    fn resolve_call(
        &mut self,
        at: usize,
        function: &'static Function,
        member: bool,
        args: Vec<TypedNode>,
    ) -> TypedNode {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.clone()).collect();
        let mut result: Option<Type> = None;
        let mut overloads = vec![];
        for (index, overload) in function.overloads.iter().enumerate() {
            if overload.member != member || overload.args.len() != types.len() {
                continue;
            }
            let params = [self.known.fresh(), self.known.fresh()];
            let wanted: Vec<Type> = overload.args.iter().map(|ty| renamed(ty, &params)).collect();
            if !self.known.assign_all(&types, &wanted) {
                continue;
            }
            overloads.push(index);
            let found = self.known.resolve(&renamed(&overload.result, &params), false);
            result = Some(match result {
                None => found,
                Some(first) if first == found || first == Type::Dyn => first,
                Some(_) => Type::Dyn,
            });
        }
        let Some(ty) = result else {
            self.no_overload(at, function.name, member, &types);
            return TypedNode { ty: Type::Error, at, kind: NodeKind::Constant(Value::Null) };
        };
        let pattern = self.check_constants(function, &args);
        if matches!(function.name, "or" | "orValue") {
            let mut args = args.into_iter();
            if let (Some(first), Some(second)) = (args.next(), args.next()) {
                let (first, second) = (Box::new(first), Box::new(second));
                let kind = NodeKind::Otherwise { first, second, call: function, overloads };
                return TypedNode { ty, at, kind };
            }
            return self.undeclared(at, function.name);
        }
        let call = Call { function, overloads, args, constant_list: false, pattern };
        TypedNode { ty, at, kind: NodeKind::Call(Box::new(call)) }
    }

    /// Looks at arguments that stand in the text: patterns, durations and times must be readable.
    fn check_constants(
        &mut self,
        function: &Function,
        args: &[TypedNode],
    ) -> Option<CompiledRegex> {
        let which = match function.name {
            "matches" | "find" | "findAll" => 1,
            "duration" | "timestamp" => 0,
            _ => return None,
        };
        let arg = args.get(which)?;
        let NodeKind::Constant(value) = &arg.kind else { return None };
        let at = arg.at;
        match (function.name, value) {
            ("matches" | "find" | "findAll", Value::String(text)) => {
                let pattern = CompiledRegex::written(text);
                if pattern.is_none() {
                    self.error(at, &format!("invalid {} argument", function.name));
                }
                return pattern;
            }
            ("duration", Value::String(text)) if time::go_duration(text).is_none() => {
                self.error(at, "invalid duration argument");
            }
            ("timestamp", Value::String(text)) if time::rfc3339(text).is_none() => {
                self.error(at, "invalid timestamp argument");
            }
            ("timestamp", Value::Int(seconds)) if !time::in_range(*seconds) => {
                self.error(at, "invalid timestamp argument");
            }
            _ => {}
        }
        None
    }

    fn join(&mut self, before: Option<Type>, next: &Type) -> Type {
        match before {
            None => next.clone(),
            Some(before) if self.known.assign(&before, next) => wider(&before, next).clone(),
            // Mixed types are told apart when the run looks at them, if they are allowed at all.
            Some(_) => Type::Dyn,
        }
    }

    /// The type inside an optional element.
    fn unwrapped(&mut self, node: &TypedNode, optional: bool) -> Type {
        match self.known.resolve(&node.ty, false) {
            Type::Optional(inner) if optional => (*inner).clone(),
            Type::Dyn | Type::Error if optional => Type::Dyn,
            ty if optional => {
                let message = format!("expected type 'optional_type({ty})' but found '{ty}'");
                self.error(node.at, &message);
                ty
            }
            ty => ty,
        }
    }

    fn list(&mut self, at: usize, elements: &[Element]) -> TypedNode {
        let (mut joined, mut items, mut types) = (None, vec![], vec![]);
        for element in elements {
            let node = self.expr(&element.value);
            let ty = self.unwrapped(&node, element.optional);
            joined = Some(self.join(joined, &ty));
            types.push((node.at, ty));
            items.push((element.optional, node));
        }
        if !self.mixed_allowed {
            self.literals.push(types);
        }
        let element = joined.unwrap_or_else(|| self.known.fresh());
        TypedNode { ty: Type::list(element), at, kind: NodeKind::List(items) }
    }

    fn map(&mut self, at: usize, entries: &[MapEntry]) -> TypedNode {
        let (mut key_type, mut value_type) = (None, None);
        let (mut keys, mut values, mut out) = (vec![], vec![], vec![]);
        for entry in entries {
            let key = self.expr(&entry.key);
            let ty = self.known.resolve(&key.ty, false);
            key_type = Some(self.join(key_type, &ty));
            keys.push((key.at, ty));
            let value = self.expr(&entry.value);
            let ty = self.unwrapped(&value, entry.optional);
            value_type = Some(self.join(value_type, &ty));
            values.push((value.at, ty));
            out.push((entry.optional, key, value));
        }
        if !self.mixed_allowed {
            self.literals.push(keys);
            self.literals.push(values);
        }
        let key_type = key_type.unwrap_or_else(|| self.known.fresh());
        let value_type = value_type.unwrap_or_else(|| self.known.fresh());
        TypedNode { ty: Type::map(key_type, value_type), at, kind: NodeKind::Map(out) }
    }

    /// `Name{…}`: an object of the patched kind or a part of one, whose fields are looked at when the patch is
    /// applied, or an operation of a JSON patch.
    fn make(&mut self, at: usize, name: &Arc<str>, fields: &[StructField]) -> TypedNode {
        if !self.patches || !is_struct(name) {
            return self.undeclared(at, name);
        }
        let mut made = vec![];
        for field in fields {
            let node = self.expr(&field.value);
            let found = self.unwrapped(&node, field.optional);
            let wanted = self.field_type(field.value.at, name, &field.name);
            if !self.known.assign(&found, &wanted) {
                let found = self.known.resolve(&found, true);
                let message = format!(
                    "expected type of field '{}' is '{wanted}' but provided type is '{found}'",
                    field.name
                );
                self.error(node.at, &message);
            }
            made.push((field.optional, Arc::clone(&field.name), node));
        }
        let kind = NodeKind::Struct { name: Arc::clone(name), fields: made };
        TypedNode { ty: Type::Struct(Arc::clone(name)), at, kind }
    }

    /// The type of a field of a struct.
    fn field_type(&mut self, at: usize, of: &str, field: &str) -> Type {
        match field {
            _ if of != JSON_PATCH => Type::Dyn,
            "op" | "path" | "from" => Type::String,
            "value" => Type::Dyn,
            _ => {
                self.error(at, &format!("undefined field '{field}'"));
                Type::Error
            }
        }
    }

    fn fold(&mut self, at: usize, fold: &Fold) -> TypedNode {
        let range = self.expr(&fold.range);
        let init = self.expr(&fold.init);
        let (first, second) = self.range_types(&range, fold.second.is_some());
        let place = self.scope.len();
        let accumulated = init.ty.clone();
        self.scope.push((fold.accumulator.clone(), accumulated.clone()));
        self.scope.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scope.push((name.clone(), second));
        }
        let condition = self.expr(&fold.condition);
        self.expect(&condition, &Type::Bool);
        let step = self.expr(&fold.step);
        self.expect(&step, &accumulated);
        self.scope.truncate(place + 1);
        let result = self.expr(&fold.result);
        self.scope.truncate(place);
        let ty = self.known.resolve(&result.ty, false);
        let binds = &*fold.accumulator != crate::macros::ACCUMULATOR;
        let mut node = FoldNode {
            range,
            place,
            accumulator: fold.accumulator.clone(),
            variable: fold.variable.clone(),
            second: fold.second.clone(),
            init,
            condition,
            step,
            result,
            quantifier: None,
            binds,
        };
        node.quantifier = node.find_quantifier();
        TypedNode { ty, at, kind: NodeKind::Fold(Box::new(node)) }
    }

    /// The types of the variables of a fold over this range.
    fn range_types(&mut self, range: &TypedNode, two: bool) -> (Type, Type) {
        match self.known.resolve(&range.ty, false) {
            Type::List(element) if two => (Type::Int, (*element).clone()),
            Type::List(element) => ((*element).clone(), Type::Error),
            Type::Map(key, value) => ((*key).clone(), (*value).clone()),
            ty @ (Type::Dyn | Type::Error | Type::Param(_)) => {
                self.known.assign(&Type::Dyn, &ty);
                (Type::Dyn, Type::Dyn)
            }
            ty => {
                let message = format!(
                    "expression of type '{ty}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(range.at, &message);
                (Type::Error, Type::Error)
            }
        }
    }

    fn expect(&mut self, node: &TypedNode, wanted: &Type) {
        if !self.known.assign(wanted, &node.ty) {
            let (wanted, found) =
                (self.known.resolve(wanted, true), self.known.resolve(&node.ty, true));
            self.error(node.at, &format!("expected type '{wanted}' but found '{found}'"));
        }
    }

    /// Fills in what is known of every type.
    fn resolve(&self, node: &mut TypedNode) {
        node.ty = self.known.resolve(&node.ty, true);
        for part in node.parts_mut() {
            self.resolve(part);
        }
    }

    /// Lists and maps that are written out hold one type.
    fn check_literals(&mut self) {
        for types in std::mem::take(&mut self.literals) {
            let mut types = types
                .into_iter()
                .map(|(at, ty)| (at, self.known.resolve(&ty, true)))
                .collect::<Vec<_>>()
                .into_iter();
            let Some((_, first)) = types.next() else { continue };
            let other =
                types.find(|(_, ty)| *ty != first && *ty != Type::Error && first != Type::Error);
            if let Some((at, ty)) = other {
                self.error(at, &format!("expected type '{first}' but found '{ty}'"));
            }
        }
    }
}

/// Whether patches are made of this.
fn is_struct(name: &str) -> bool {
    name == JSON_PATCH
        || name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A type of the table, its letters replaced by unknown types of this call.
fn renamed(ty: &Type, params: &[Type; 2]) -> Type {
    match ty {
        Type::Param(id) => params.get(*id).cloned().unwrap_or(Type::Dyn),
        Type::List(inner) => Type::list(renamed(inner, params)),
        Type::Optional(inner) => Type::optional(renamed(inner, params)),
        Type::Map(key, value) => Type::map(renamed(key, params), renamed(value, params)),
        ty => ty.clone(),
    }
}

fn constant(at: usize, literal: &Literal) -> TypedNode {
    let (ty, value) = match literal {
        Literal::Null => (Type::Null, Value::Null),
        Literal::Bool(value) => (Type::Bool, Value::Bool(*value)),
        Literal::Int(value) => (Type::Int, Value::Int(*value)),
        Literal::Uint(value) => (Type::Uint, Value::Uint(*value)),
        Literal::Double(value) => (Type::Double, Value::Double(*value)),
        Literal::String(text) => (Type::String, Value::text(text.clone())),
        Literal::Bytes(octets) => (Type::Bytes, Value::Bytes(octets.clone())),
    };
    TypedNode { ty, at, kind: NodeKind::Constant(value) }
}
