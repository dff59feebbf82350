//! The functions: what they are called with, what they cost, what they do.
//!
//! A function that is not in this table is refused when an expression is compiled.

pub(crate) mod authorizer;
pub(crate) mod convert;
pub(crate) mod lists;
pub(crate) mod math;
pub(crate) mod named;
pub(crate) mod net;
pub(crate) mod operators;
pub(crate) mod optional;
pub(crate) mod printf;
pub(crate) mod quantity;
pub(crate) mod regexes;
pub(crate) mod semver;
pub(crate) mod strings;
pub(crate) mod table;
pub(crate) mod times;
pub(crate) mod url;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::types::{Opaque, Type};
use crate::value::Value;

/// What computes a call.
pub(crate) type FunctionImplementation =
    for<'a> fn(&mut Meter, &[Value<'a>]) -> Result<Value<'a>, EvalError>;

/// How a call is charged when it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CostModel {
    /// One unit.
    One,
    /// The function charges itself.
    Own,
    /// A tenth of the first argument's size, times a factor.
    Scan(f64),
    /// A tenth of the second argument's size.
    ScanSecond,
    /// String size by pattern size.
    Regex,
    /// `contains`.
    Contains,
    /// `==` and its like: a tenth of the smaller size.
    Smaller,
    /// `<` and its like: as `==` for text, otherwise one.
    Order,
    /// `+`.
    Add,
    /// `in`.
    In,
    /// Everything inside the first argument.
    Traverse,
    /// The product of both sizes, times a factor.
    Sets(f64),
}

/// A function and all its overloads.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) charge: CostModel,
    pub(crate) run: FunctionImplementation,
    pub(crate) overloads: Vec<Overload>,
}

/// One way to call a function.
pub(crate) struct Overload {
    pub(crate) id: String,
    /// Whether the first argument is written before the dot.
    pub(crate) member: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
}

/// A row of the table: `id: recv.(args) -> result`, or `id: (args) -> result`.
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    pub(crate) charge: CostModel,
    pub(crate) run: FunctionImplementation,
    pub(crate) overloads: &'static [&'static str],
}

static FUNCTIONS: LazyLock<BTreeMap<&'static str, Function>> = LazyLock::new(|| {
    let rows = table::TABLE.iter().map(|declared| {
        let overloads = declared.overloads.iter().flat_map(|text| expand(text)).collect();
        let Declared { name, charge, run, .. } = *declared;
        (name, Function { name, charge, run, overloads })
    });
    rows.collect()
});

/// The function of this name.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

const COMPARABLE: [&str; 8] =
    ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"];
const SUMMABLE: [&str; 4] = ["int", "uint", "double", "duration"];

/// One signature, or one for each type that `{c}` or `{s}` stands for.
fn expand(text: &str) -> Vec<Overload> {
    let each = |mark: &str, types: &[&str]| {
        types.iter().filter_map(|ty| signature(&text.replace(mark, ty))).collect()
    };
    if text.contains("{c}") {
        each("{c}", &COMPARABLE)
    } else if text.contains("{s}") {
        each("{s}", &SUMMABLE)
    } else {
        signature(text).into_iter().collect()
    }
}

fn signature(text: &str) -> Option<Overload> {
    let (id, rest) = text.split_once(": ")?;
    let (call, result) = rest.split_once(" -> ")?;
    let (receiver, args) = call.split_once(".(").or_else(|| Some(("", call.strip_prefix('(')?)))?;
    let mut types = vec![];
    let member = !receiver.is_empty();
    if member {
        types.push(read_type(receiver)?);
    }
    for arg in split_top(args.strip_suffix(')')?) {
        types.push(read_type(arg)?);
    }
    Some(Overload { id: id.to_owned(), member, args: types, result: read_type(result)? })
}

/// The parts between commas that stand in no bracket.
fn split_top(text: &str) -> Vec<&str> {
    let mut parts = vec![];
    let (mut depth, mut start) = (0usize, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..).filter(|t| !t.trim().is_empty()));
    parts
}

fn read_type(text: &str) -> Option<Type> {
    let text = text.trim();
    if let Some((outer, rest)) = text.split_once('(') {
        let inner = split_top(rest.strip_suffix(')')?);
        return match (outer, inner.as_slice()) {
            ("list", [element]) => Some(Type::list(read_type(element)?)),
            ("optional", [inner]) => Some(Type::optional(read_type(inner)?)),
            ("map", [key, value]) => Some(Type::map(read_type(key)?, read_type(value)?)),
            _ => None,
        };
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Type,
        "url" => Type::Opaque(Opaque::Url),
        "quantity" => Type::Opaque(Opaque::Quantity),
        "ip" => Type::Opaque(Opaque::Ip),
        "cidr" => Type::Opaque(Opaque::Cidr),
        "semver" => Type::Opaque(Opaque::Semver),
        "format" => Type::Opaque(Opaque::Format),
        "authorizer" => Type::Opaque(Opaque::Authorizer),
        "pathCheck" => Type::Opaque(Opaque::PathCheck),
        "groupCheck" => Type::Opaque(Opaque::GroupCheck),
        "resourceCheck" => Type::Opaque(Opaque::ResourceCheck),
        "decision" => Type::Opaque(Opaque::Decision),
        "A" | "K" => Type::Param(0),
        "B" | "V" => Type::Param(1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{COMPARABLE, SUMMABLE, find, table::TABLE};

    #[test]
    fn every_signature_of_the_table_is_read() {
        for declared in TABLE {
            let wanted: usize = declared
                .overloads
                .iter()
                .map(|text| match () {
                    () if text.contains("{c}") => COMPARABLE.len(),
                    () if text.contains("{s}") => SUMMABLE.len(),
                    () => 1,
                })
                .sum();
            let found = find(declared.name).expect("a function of the table");
            assert_eq!(found.overloads.len(), wanted, "{}", declared.name);
        }
        let names: std::collections::BTreeSet<_> = TABLE.iter().map(|d| d.name).collect();
        assert_eq!(names.len(), TABLE.len(), "a name stands in the table twice");
    }
}
