//! `'%d of %s'.format([1, 'two'])`.

use crate::compare::key_text;
use crate::error::EvalError;
use crate::library::convert;
use crate::library::strings::{pay_text, quoted};
use crate::meter::{Meter, VISIT};
use crate::value::{MapKey, Value};

type Made<'a> = Result<Value<'a>, EvalError>;

/// The most digits after the point.
const PRECISION_MAX: usize = 1000;

pub(crate) fn format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Made<'a> {
    let [Value::String(pattern), Value::List(list)] = args else {
        return Err(EvalError::no_such_overload());
    };
    let mut out = String::new();
    let mut rest: &str = pattern;
    let mut next = 0usize;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let clause = FormatSpecifier::read(after).ok_or_else(|| {
            EvalError::failed("could not parse formatting clause: unrecognized formatting clause")
        })?;
        rest = after.get(clause.length..).unwrap_or_default();
        if clause.verb == '%' {
            out.push('%');
            continue;
        }
        let value = list
            .get(next)
            .ok_or_else(|| EvalError::failed(format!("index {next} out of range")))??;
        next += 1;
        let text = clause.apply(meter, &value)?;
        pay_text(meter, text.len() as u64)?;
        out.push_str(&text);
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

/// What stands after a percent sign.
struct FormatSpecifier {
    precision: usize,
    verb: char,
    length: usize,
}

impl FormatSpecifier {
    fn read(text: &str) -> Option<FormatSpecifier> {
        let (precision, skipped) = match text.strip_prefix('.') {
            None => (6, 0),
            Some(rest) => {
                let digits = rest.find(|c: char| !c.is_ascii_digit())?;
                let precision = rest.get(..digits)?.parse().ok()?;
                (precision, digits + 1)
            }
        };
        let verb = text.get(skipped..)?.chars().next()?;
        let known = matches!(verb, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o' | '%');
        (known && precision <= PRECISION_MAX).then_some(FormatSpecifier {
            precision,
            verb,
            length: skipped + verb.len_utf8(),
        })
    }

    fn apply(&self, meter: &mut Meter, value: &Value<'_>) -> Result<String, EvalError> {
        let made = match (self.verb, value) {
            ('s', value) => return display(meter, value),
            ('d', Value::Int(value)) => value.to_string(),
            ('d', Value::Uint(value)) => value.to_string(),
            ('f', value) => self.fixed(double(value).ok_or_else(|| self.misfit())?),
            ('e', value) => self.scientific(double(value).ok_or_else(|| self.misfit())?),
            ('b', Value::Bool(value)) => u8::from(*value).to_string(),
            ('b', Value::Uint(value)) => format!("{value:b}"),
            ('b', Value::Int(value)) => signed(*value, |v| format!("{v:b}")),
            ('o', Value::Uint(value)) => format!("{value:o}"),
            ('o', Value::Int(value)) => signed(*value, |v| format!("{v:o}")),
            ('x' | 'X', Value::Uint(value)) => format!("{value:x}"),
            ('x' | 'X', Value::Int(value)) => signed(*value, |v| format!("{v:x}")),
            ('x' | 'X', Value::String(text)) => hex(meter, text.as_bytes())?,
            ('x' | 'X', Value::Bytes(octets)) => hex(meter, octets)?,
            _ => return Err(self.misfit()),
        };
        Ok(if self.verb == 'X' { made.to_ascii_uppercase() } else { made })
    }

    fn misfit(&self) -> EvalError {
        EvalError::failed(format!("error during formatting: %{} cannot show this type", self.verb))
    }

    fn fixed(&self, value: f64) -> String {
        if value.is_finite() { format!("{value:.*}", self.precision) } else { special(value) }
    }

    fn scientific(&self, value: f64) -> String {
        if !value.is_finite() {
            return special(value);
        }
        let text = format!("{value:.*e}", self.precision);
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ("⁻", exponent),
            None => ("", exponent),
        };
        let raised = format!("{exponent:0>2}").chars().map(superscript).collect::<String>();
        format!("{digits}×10{sign}{raised}")
    }
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        _ => '⁰',
    }
}

fn special(value: f64) -> String {
    match () {
        () if value.is_nan() => "NaN",
        () if value > 0.0 => "∞",
        () => "-∞",
    }
    .to_owned()
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn signed(value: i64, write: fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", write(value.unsigned_abs()))
}

fn hex(meter: &mut Meter, octets: &[u8]) -> Result<String, EvalError> {
    pay_text(meter, (octets.len() as u64).saturating_mul(2))?;
    Ok(octets.iter().map(|b| format!("{b:02x}")).collect())
}

/// Any value as `%s` shows it; text inside lists and maps is quoted.
fn display(meter: &mut Meter, value: &Value<'_>) -> Result<String, EvalError> {
    meter.work(VISIT)?;
    let inner = |meter: &mut Meter, value: &Value<'_>| {
        let text = display(meter, value)?;
        Ok::<_, EvalError>(match value {
            Value::String(_) => quoted(&text),
            Value::Bytes(_) => format!("b{}", quoted(&text)),
            Value::Double(d) if !d.is_finite() => quoted(&text),
            _ => text,
        })
    };
    let text = match value {
        Value::Null => "null".to_owned(),
        Value::List(list) => {
            let mut parts = vec![];
            for item in list.iter() {
                parts.push(inner(meter, &item?)?);
            }
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let mut parts = vec![];
            for key in map.keys() {
                let Some(value) = map.get(&key)? else { continue };
                let shown = match &key {
                    MapKey::String(text) => quoted(text),
                    key => key_text(key),
                };
                parts.push(format!("{shown}:{}", inner(meter, &value)?));
            }
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Bytes(octets) => core::str::from_utf8(octets)
            .map(str::to_owned)
            .map_err(|_| EvalError::failed("invalid UTF-8 in bytes"))?,
        value => convert::text(value).ok_or_else(|| {
            EvalError::failed(format!(
                "error during formatting: string clause cannot show {}",
                value.type_name()
            ))
        })?,
    };
    pay_text(meter, text.len() as u64)?;
    Ok(text)
}
