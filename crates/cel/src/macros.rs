//! Macros: calls that unfold into other trees before types are looked at.
//!
//! ```text
//!   list.all(x, p)   ──►  fold over list: accumulator && p, from true
//!   list.map(x, t)   ──►  fold over list: accumulator + [t], from []
//!   cel.bind(x, v, e) ──► fold over nothing: accumulator x from v, result e
//! ```
//!
//! No macro copies a part of the tree, so unfolding never multiplies the text.

use std::sync::Arc;

use crate::ast::{Element, Expr, ExprKind, Fold, Literal};
use crate::error::CompileError;
use crate::parse::ExpressionParser;

/// The name of the accumulator; no identifier can be spelled like this.
pub(crate) const ACCUMULATOR: &str = "@result";
const UNUSED: &str = "#unused";

type Parsed = Result<Expr, CompileError>;

/// A call `name(args)`, unfolded when it is a macro.
pub(crate) fn global(
    p: &ExpressionParser<'_>,
    at: usize,
    name: Arc<str>,
    mut args: Vec<Expr>,
) -> Parsed {
    if &*name == "has" && args.len() == 1 {
        let argument = args.pop().map(|e| (e.at, e.kind));
        return match argument {
            Some((at, ExprKind::Select { operand, field, test: false })) => {
                p.node(at, ExprKind::Select { operand, field, test: true })
            }
            _ => Err(p.error(at, "invalid argument to has() macro")),
        };
    }
    p.node(at, ExprKind::Call { name, target: None, args })
}

/// A call `target.name(args)`, unfolded when it is a macro.
pub(crate) fn member(
    p: &ExpressionParser<'_>,
    at: usize,
    target: Expr,
    name: Arc<str>,
    args: Vec<Expr>,
) -> Parsed {
    let builder = ExpressionBuilder { p, at };
    let count = args.len();
    match (&*name, count) {
        ("all" | "exists" | "exists_one" | "existsOne" | "filter" | "map", 2) | ("map", 3) => {
            builder.one_variable(&name, target, args)
        }
        ("all" | "exists" | "exists_one" | "existsOne", 3)
        | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            builder.two_variables(&name, target, args)
        }
        ("sortBy", 2) => builder.sort_by(target, args),
        ("optMap" | "optFlatMap", 2) => builder.optional(&name, target, args),
        ("bind", 3) if matches!(&target.kind, ExprKind::Ident(n) if &**n == "cel") => {
            let mut args = args.into_iter();
            match (args.next(), args.next(), args.next()) {
                (Some(variable), Some(value), Some(body)) => {
                    let variable = builder.variable(&variable)?;
                    builder.bind(variable, value, body)
                }
                _ => Err(p.error(at, "cel.bind() needs a name, a value and an expression")),
            }
        }
        _ => p.node(at, ExprKind::Call { name, target: Some(Box::new(target)), args }),
    }
}

struct ExpressionBuilder<'a, 't> {
    p: &'a ExpressionParser<'t>,
    at: usize,
}

/// What a fold does beside its range and variables.
struct Body {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

impl ExpressionBuilder<'_, '_> {
    fn literal(&self, literal: Literal) -> Parsed {
        self.p.node(self.at, ExprKind::Literal(literal))
    }

    fn ident(&self, name: &str) -> Parsed {
        self.p.node(self.at, ExprKind::Ident(name.into()))
    }

    fn accumulator(&self) -> Parsed {
        self.ident(ACCUMULATOR)
    }

    fn call(&self, name: &str, args: Vec<Expr>) -> Parsed {
        self.p.call(self.at, name, args)
    }

    fn method(&self, target: Expr, name: &str) -> Parsed {
        let target = Some(Box::new(target));
        self.p.node(self.at, ExprKind::Call { name: name.into(), target, args: vec![] })
    }

    fn one(&self, value: Expr) -> Parsed {
        self.p.node(self.at, ExprKind::List(vec![Element { optional: false, value }]))
    }

    /// The name that a macro's variable position holds.
    fn variable(&self, expr: &Expr) -> Result<Arc<str>, CompileError> {
        match &expr.kind {
            ExprKind::Ident(name) => Ok(name.clone()),
            _ => Err(self.p.error(expr.at, "argument must be a simple name")),
        }
    }

    fn fold(
        &self,
        range: Expr,
        variable: Arc<str>,
        second: Option<Arc<str>>,
        body: Body,
    ) -> Parsed {
        let Body { init, condition, step, result } = body;
        let accumulator = ACCUMULATOR.into();
        let fold = Fold { range, variable, second, accumulator, init, condition, step, result };
        self.p.node(self.at, ExprKind::Fold(Box::new(fold)))
    }

    fn bind(&self, variable: Arc<str>, value: Expr, body: Expr) -> Parsed {
        let fold = Fold {
            range: self.p.node(self.at, ExprKind::List(vec![]))?,
            variable: UNUSED.into(),
            second: None,
            accumulator: variable.clone(),
            init: value,
            condition: self.literal(Literal::Bool(false))?,
            step: self.ident(&variable)?,
            result: body,
        };
        self.p.node(self.at, ExprKind::Fold(Box::new(fold)))
    }

    fn all(&self, predicate: Expr) -> Result<Body, CompileError> {
        Ok(Body {
            init: self.literal(Literal::Bool(true))?,
            condition: self.call("@not_strictly_false", vec![self.accumulator()?])?,
            step: self.call("_&&_", vec![self.accumulator()?, predicate])?,
            result: self.accumulator()?,
        })
    }

    fn exists(&self, predicate: Expr) -> Result<Body, CompileError> {
        let not = self.call("!_", vec![self.accumulator()?])?;
        Ok(Body {
            init: self.literal(Literal::Bool(false))?,
            condition: self.call("@not_strictly_false", vec![not])?,
            step: self.call("_||_", vec![self.accumulator()?, predicate])?,
            result: self.accumulator()?,
        })
    }

    fn exists_one(&self, predicate: Expr) -> Result<Body, CompileError> {
        let one = self.literal(Literal::Int(1))?;
        let more = self.call("_+_", vec![self.accumulator()?, one.clone()])?;
        Ok(Body {
            init: self.literal(Literal::Int(0))?,
            condition: self.literal(Literal::Bool(true))?,
            step: self.call("_?_:_", vec![predicate, more, self.accumulator()?])?,
            result: self.call("_==_", vec![self.accumulator()?, one])?,
        })
    }

    fn append(&self, filter: Option<Expr>, value: Expr) -> Result<Body, CompileError> {
        let step = self.call("_+_", vec![self.accumulator()?, self.one(value)?])?;
        let init = self.p.node(self.at, ExprKind::List(vec![]))?;
        self.gather(init, filter, step)
    }

    fn insert(&self, filter: Option<Expr>, rest: Vec<Expr>) -> Result<Body, CompileError> {
        let mut args = vec![self.accumulator()?];
        args.extend(rest);
        let step = self.call("cel.@mapInsert", args)?;
        let init = self.p.node(self.at, ExprKind::Map(vec![]))?;
        self.gather(init, filter, step)
    }

    fn gather(&self, init: Expr, filter: Option<Expr>, step: Expr) -> Result<Body, CompileError> {
        let step = match filter {
            Some(filter) => self.call("_?_:_", vec![filter, step, self.accumulator()?])?,
            None => step,
        };
        let condition = self.literal(Literal::Bool(true))?;
        Ok(Body { init, condition, step, result: self.accumulator()? })
    }

    fn one_variable(&self, name: &str, target: Expr, args: Vec<Expr>) -> Parsed {
        let mut args = args.into_iter();
        let (Some(first), Some(second)) = (args.next(), args.next()) else {
            return Err(self.p.error(self.at, "a macro needs a name and an expression"));
        };
        let variable = self.variable(&first)?;
        let body = match (name, args.next()) {
            ("all", _) => self.all(second)?,
            ("exists", _) => self.exists(second)?,
            ("filter", _) => {
                let value = self.ident(&variable)?;
                self.append(Some(second), value)?
            }
            ("map", Some(transform)) => self.append(Some(second), transform)?,
            ("map", None) => self.append(None, second)?,
            _ => self.exists_one(second)?,
        };
        self.fold(target, variable, None, body)
    }

    fn two_variables(&self, name: &str, target: Expr, args: Vec<Expr>) -> Parsed {
        let mut args = args.into_iter();
        let (Some(one), Some(two), Some(third)) = (args.next(), args.next(), args.next()) else {
            return Err(self.p.error(self.at, "a macro needs two names and an expression"));
        };
        let (variable, second) = (self.variable(&one)?, self.variable(&two)?);
        if variable == second {
            return Err(self.p.error(two.at, &format!("duplicate variable name: {variable}")));
        }
        let (filter, value) = match args.next() {
            Some(transform) => (Some(third), transform),
            None => (None, third),
        };
        let body = match name {
            "all" => self.all(value)?,
            "exists" => self.exists(value)?,
            "transformList" => self.append(filter, value)?,
            "transformMap" => {
                let key = self.ident(&variable)?;
                self.insert(filter, vec![key, value])?
            }
            "transformMapEntry" => self.insert(filter, vec![value])?,
            _ => self.exists_one(value)?,
        };
        self.fold(target, variable, Some(second), body)
    }

    fn sort_by(&self, target: Expr, args: Vec<Expr>) -> Parsed {
        const INPUT: &str = "@sortBy";
        let keys = self.one_variable("map", self.ident(INPUT)?, args)?;
        let kind = ExprKind::Call {
            name: "@sortByAssociatedKeys".into(),
            target: Some(Box::new(self.ident(INPUT)?)),
            args: vec![keys],
        };
        let body = self.p.node(self.at, kind)?;
        self.bind(INPUT.into(), target, body)
    }

    /// The target is bound first, so that a chain of these is read once each and not twice.
    fn optional(&self, name: &str, target: Expr, args: Vec<Expr>) -> Parsed {
        const INPUT: &str = "@optional";
        let mut args = args.into_iter();
        let (Some(first), Some(body)) = (args.next(), args.next()) else {
            return Err(self.p.error(self.at, "a macro needs a name and an expression"));
        };
        let variable = self.variable(&first)?;
        let value = self.method(self.ident(INPUT)?, "value")?;
        let inner = self.bind(variable, value, body)?;
        let some = if name == "optMap" { self.call("optional.of", vec![inner])? } else { inner };
        let none = self.call("optional.none", vec![])?;
        let has = self.method(self.ident(INPUT)?, "hasValue")?;
        let choice = self.call("_?_:_", vec![has, some, none])?;
        self.bind(INPUT.into(), target, choice)
    }
}
