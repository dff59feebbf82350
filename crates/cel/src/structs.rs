//! What patches are made of: `Object{…}` and `JSONPatch{…}`, and how such a value becomes JSON.
//!
//! ```text
//!   Object{spec: Object.spec{replicas: 3}}            ──►  {"spec": {"replicas": 3}}
//!   [JSONPatch{op: "remove", path: "/spec/paused"}]   ──►  [{"op": "remove", "path": "/spec/paused"}]
//! ```
//!
//! What a patch does to an object never lives here.

use serde_json::{Map as JsonMap, Value as Json};

use crate::error::EvalError;
use crate::library::convert;
use crate::meter::{CostBudget, Meter, VISIT};
use crate::shape::{DeclaredType, REQUEST_BYTES_MAX, ShapeKind};
use crate::value::{ListValue, MapKey, MapValue, StructValue, Value};

/// The type of a part of an object: this alone for the whole, or followed by the names of members.
pub const OBJECT: &str = "Object";
/// The type of one operation of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";

/// How deep JSON may become.
const DEPTH_MAX: usize = 256;

impl Value<'_> {
    /// The value as JSON, at the cost of what is looked at.
    ///
    /// Structs inside structs must be of the type that their place has: `Object.spec` under `spec`.
    ///
    /// # Errors
    ///
    /// When JSON has nothing like it, when a struct is of another type than its place, when it is too large or
    /// too deep, and when the cost is spent.
    pub fn to_json(&self, budget: &mut CostBudget) -> Result<Json, EvalError> {
        let mut meter = budget.meter();
        let made = JsonConversion { meter: &mut meter, bytes_left: REQUEST_BYTES_MAX }
            .value(self, None, 0);
        budget.settle(&meter);
        made
    }
}

/// Where a struct must be of a certain type: the names of the members that lead there.
struct Place<'p> {
    above: Option<&'p Place<'p>>,
    name: &'p str,
}

impl Place<'_> {
    fn text(&self) -> String {
        match self.above {
            Some(above) => format!("{}.{}", above.text(), self.name),
            None => self.name.to_owned(),
        }
    }

    fn is(&self, name: &str) -> bool {
        let rest = name.strip_suffix(self.name);
        match (self.above, rest) {
            (None, rest) => rest == Some(""),
            (Some(above), Some(rest)) => rest.strip_suffix('.').is_some_and(|rest| above.is(rest)),
            (Some(_), None) => false,
        }
    }
}

struct JsonConversion<'m> {
    meter: &'m mut Meter,
    bytes_left: u64,
}

type Written = Result<Json, EvalError>;

impl JsonConversion<'_> {
    /// Pays for one value of so many bytes.
    fn pay(&mut self, bytes: usize) -> Result<(), EvalError> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.meter.work(bytes.saturating_add(VISIT))?;
        let left = self.bytes_left.checked_sub(bytes.saturating_add(2));
        self.bytes_left = left.ok_or_else(|| {
            EvalError::failed(format!("the value is larger than {REQUEST_BYTES_MAX} bytes"))
        })?;
        Ok(())
    }

    fn value(&mut self, value: &Value<'_>, place: Option<&Place<'_>>, depth: usize) -> Written {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.pay(0)?;
        Ok(match value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Uint(value) => Json::from(*value),
            Value::Double(value) => serde_json::Number::from_f64(*value)
                .map(Json::Number)
                .ok_or_else(|| EvalError::failed(format!("{value} has no form in JSON")))?,
            Value::String(text) => self.text(text)?,
            Value::Duration(_) | Value::Timestamp(_) => {
                self.text(&convert::text(value).unwrap_or_default())?
            }
            Value::Bytes(octets) => {
                use base64::Engine;
                self.text(&base64::engine::general_purpose::STANDARD.encode(octets))?
            }
            Value::List(ListValue::Json(items, DeclaredType { kind: ShapeKind::Any, .. })) => {
                let items = items.iter().map(|item| self.copied(item, depth + 1));
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            Value::List(list) => {
                let items = list.iter().map(|item| self.value(&item?, place, depth + 1));
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Map(map) => Json::Object(self.map(map, place, depth)?),
            Value::Object(members, shape) => Json::Object(self.object(members, shape, depth)?),
            Value::Struct(made) => Json::Object(self.made(made, place, depth)?),
            Value::Optional(Some(inner)) => self.value(inner, place, depth + 1)?,
            Value::Raw(json) => self.copied(json, depth)?,
            other => {
                let why = format!("a value of type {} has no form in JSON", other.type_name());
                return Err(EvalError::failed(why));
            }
        })
    }

    fn text(&mut self, text: &str) -> Written {
        self.pay(text.len())?;
        Ok(Json::String(text.to_owned()))
    }

    fn map(
        &mut self,
        map: &MapValue<'_>,
        place: Option<&Place<'_>>,
        depth: usize,
    ) -> Result<JsonMap<String, Json>, EvalError> {
        let mut made = JsonMap::new();
        match map {
            MapValue::Json(members, DeclaredType { kind: ShapeKind::Any, .. }) => {
                for (name, value) in *members {
                    self.pay(name.len())?;
                    made.insert(name.clone(), self.copied(value, depth + 1)?);
                }
            }
            MapValue::Json(members, shape) => {
                for (name, value) in *members {
                    self.pay(name.len())?;
                    let value = Value::from_json(value, shape)?;
                    made.insert(name.clone(), self.value(&value, place, depth + 1)?);
                }
            }
            MapValue::Made(members) => {
                for (key, value) in members.iter() {
                    let MapKey::String(name) = key else {
                        return Err(EvalError::failed(
                            "a map whose keys are no strings has no form in JSON",
                        ));
                    };
                    self.pay(name.len())?;
                    made.insert(name.to_string(), self.value(value, place, depth + 1)?);
                }
            }
        }
        Ok(made)
    }

    /// The members that expressions see of an object.
    fn object(
        &mut self,
        members: &JsonMap<String, Json>,
        shape: &DeclaredType,
        depth: usize,
    ) -> Result<JsonMap<String, Json>, EvalError> {
        let ShapeKind::Object(fields) = &shape.kind else { return Ok(JsonMap::new()) };
        let mut made = JsonMap::new();
        for (name, json) in members {
            let Some(shape) = fields.named(name).filter(|_| !json.is_null()) else { continue };
            self.pay(name.len())?;
            let value = Value::from_json(json, shape)?;
            made.insert(name.clone(), self.value(&value, None, depth + 1)?);
        }
        Ok(made)
    }

    fn made(
        &mut self,
        value: &StructValue<'_>,
        place: Option<&Place<'_>>,
        depth: usize,
    ) -> Result<JsonMap<String, Json>, EvalError> {
        if let Some(place) = place.filter(|place| !place.is(&value.name)) {
            return Err(EvalError::failed(format!(
                "type mismatch: unexpected type name {:?}, expected {:?}, which matches field name path \
                 from root Object type",
                value.name,
                place.text()
            )));
        }
        let own = Place { above: None, name: &value.name };
        let above = place.unwrap_or(&own);
        let mut made = JsonMap::new();
        for (name, value_of) in &value.fields {
            self.pay(name.len())?;
            let below = Place { above: Some(above), name };
            // What a JSON patch carries stands anywhere.
            let below = (*value.name != *JSON_PATCH).then_some(&below);
            made.insert(name.to_string(), self.value(value_of, below, depth + 1)?);
        }
        Ok(made)
    }

    /// Data as it is.
    fn copied(&mut self, json: &Json, depth: usize) -> Written {
        self.measure(json, depth)?;
        Ok(json.clone())
    }

    fn measure(&mut self, json: &Json, depth: usize) -> Result<(), EvalError> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        match json {
            Json::String(text) => self.pay(text.len()),
            Json::Array(items) => {
                self.pay(0)?;
                items.iter().try_for_each(|item| self.measure(item, depth + 1))
            }
            Json::Object(members) => {
                self.pay(0)?;
                members.iter().try_for_each(|(name, value)| {
                    self.pay(name.len())?;
                    self.measure(value, depth + 1)
                })
            }
            _ => self.pay(0),
        }
    }
}

fn too_deep() -> EvalError {
    EvalError::failed(format!("the value nests deeper than {DEPTH_MAX} levels"))
}

/// A name as a segment of the path of a JSON patch.
pub(crate) fn escape_key<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::String(text)] => Ok(Value::text(text.replace('~', "~0").replace('/', "~1"))),
        _ => Err(EvalError::no_such_overload()),
    }
}
