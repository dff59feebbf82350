//! Numbers: bounds, multiples, and what counts as an integer.
//!
//! Integers up to 64 bits are compared exactly; everything else as floating point.

use serde_json::Value;
use tenure_machinery::Path;

use super::{SchemaValidator, ValidationOutcome};
use crate::format::Format;
use crate::schema::{JsonType, Schema, ValueConstraints};

/// The largest integer that floating point tells from its neighbours.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// Whether a value is an integer: written as one, or a float without fraction.
pub(super) fn is_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_some() || number.as_f64().is_some_and(is_whole),
        _ => false,
    }
}

fn is_whole(float: f64) -> bool {
    if !float.is_finite() || float.abs() > EXACT_MAX {
        return false;
    }
    let whole = float.trunc();
    float == whole || (float - whole).abs() / (float.abs() + whole.abs()) < 1e-9
}

/// Whether two values are the same to an enumeration, where 1 and 1.0 are.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        // Null matches no entry, even one that is null.
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Number(x), Value::Number(y)) if x.as_i64().is_none() || y.as_i64().is_none() => {
            x.as_f64() == y.as_f64()
        }
        _ => a == b,
    }
}

impl SchemaValidator<'_> {
    pub(super) fn number(
        &self,
        value: &Value,
        schema: &Schema,
        limits: &ValueConstraints,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let kind = schema.kind.filter(|_| !schema.int_or_string);
        self.range(value, kind, limits.format, path, out);
        if let Some(factor) = limits.multiple_of.filter(|factor| !is_multiple(value, *factor)) {
            self.invalid(path, value, &format!("must be a multiple of {factor}"), out);
        }
        if let Some(least) = limits.minimum {
            let order = compare(value, least);
            if order.is_lt() || (limits.exclusive_minimum && order.is_eq()) {
                let words = bound_words(limits.exclusive_minimum, "more than", "at least");
                self.invalid(path, value, &format!("must be {words} {least}"), out);
            }
        }
        if let Some(most) = limits.maximum {
            let order = compare(value, most);
            if order.is_gt() || (limits.exclusive_maximum && order.is_eq()) {
                let words = bound_words(limits.exclusive_maximum, "less than", "at most");
                self.invalid(path, value, &format!("must be {words} {most}"), out);
            }
        }
        out.matches += 2;
    }

    /// Whether the value fits into the numbers that type and format name.
    fn range(
        &self,
        value: &Value,
        kind: Option<JsonType>,
        format: Option<Format>,
        path: &Path<'_>,
        out: &mut ValidationOutcome,
    ) {
        let float = value.as_f64().unwrap_or_default();
        let fits = match (kind, format) {
            (Some(JsonType::Integer), Some(Format::Int32)) => match value.as_i64() {
                Some(integer) => i32::try_from(integer).is_ok(),
                None => is_exact_integer(float) && float.abs() <= f64::from(i32::MAX),
            },
            (Some(JsonType::Integer), _) => value.as_i64().is_some() || is_exact_integer(float),
            (_, Some(Format::Float)) => float.abs() <= f64::from(f32::MAX),
            _ => true,
        };
        if !fits {
            let name = format.map_or("integer", Format::as_str);
            self.whole(format!("{path} is outside the range of {name}"), out);
        }
    }
}

fn is_exact_integer(float: f64) -> bool {
    float.is_finite() && float.fract() == 0.0 && float.abs() < 9.223_372_036_854_776e18
}

fn bound_words<'a>(exclusive: bool, yes: &'a str, no: &'a str) -> &'a str {
    if exclusive { yes } else { no }
}

fn compare(value: &Value, bound: f64) -> std::cmp::Ordering {
    if let (Some(integer), true) = (value.as_i64(), is_exact_integer(bound)) {
        #[expect(clippy::cast_possible_truncation, reason = "the bound is an integer in range")]
        return integer.cmp(&(bound as i64));
    }
    let float = value.as_f64().unwrap_or_default();
    float.partial_cmp(&bound).unwrap_or(std::cmp::Ordering::Equal)
}

fn is_multiple(value: &Value, factor: f64) -> bool {
    if factor <= 0.0 {
        return false;
    }
    if let (Some(integer), true) = (value.as_i64(), is_exact_integer(factor)) {
        #[expect(clippy::cast_possible_truncation, reason = "the factor is an integer in range")]
        return integer.checked_rem(factor as i64) == Some(0);
    }
    let float = value.as_f64().unwrap_or_default();
    is_whole(if factor < 1.0 { 1.0 / factor * float } else { float / factor })
}
