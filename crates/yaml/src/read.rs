//! YAML text to JSON values.
//!
//! The library resolves scalars; this file builds the value, names the keys as Kubernetes does
//! and keeps the result within bounds whatever aliases ask for.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy, Options};

use crate::YamlError;
use crate::error::innermost;

/// What one node costs against `expanded_bytes_max`, besides its text.
const NODE_BYTES: usize = 16;
/// The nesting that is read on the caller's stack; nearly every object is flatter.
const SHALLOW_DEPTH: usize = 24;
/// The stack that one level of nesting needs, measured without optimisation and doubled.
const STACK_BYTES_PER_LEVEL: usize = 64 * 1024;

/// Bounds on a body; passing one of them is an error, never a panic or a large allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YamlLimits {
    /// The longest body.
    pub bytes_max: usize,
    /// The deepest nesting of mappings and sequences.
    pub depth_max: usize,
    /// The largest value after aliases are expanded, in bytes of text and 16 for every node.
    pub expanded_bytes_max: usize,
}

impl Default for YamlLimits {
    fn default() -> Self {
        YamlLimits {
            // The size of the largest request upstream accepts.
            bytes_max: 3 * 1024 * 1024,
            depth_max: 100,
            expanded_bytes_max: 32 * 1024 * 1024,
        }
    }
}

/// Reads one document; a repeated key is an error.
pub fn to_json(text: &[u8], limits: YamlLimits) -> Result<Value, YamlError> {
    let text = checked(text, limits)?;
    let (value, repeated) = read(text, limits, DuplicateKeyPolicy::Error)?;
    match repeated.into_iter().next() {
        // Two spellings of one key, such as `y` and `yes`, differ for the library only.
        Some(Repeated { path, .. }) => {
            Err(YamlError::Duplicate { detail: format!("`{path}`"), line: None })
        }
        None => Ok(value),
    }
}

/// A key that stands twice in its mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Where, such as `spec.containers[0].name`.
    pub path: String,
    /// The key alone.
    pub key: String,
    /// The line on which it stands again. The library tells that of the first one only.
    pub line: Option<u64>,
}

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "key {:?} already set in map", self.key)
    }
}

/// Reads one document; of a repeated key the last value wins, and where it stands is reported.
pub fn to_json_lenient(
    text: &[u8],
    limits: YamlLimits,
) -> Result<(Value, Vec<Repeated>), YamlError> {
    let text = checked(text, limits)?;
    match read(text, limits, DuplicateKeyPolicy::Error) {
        Err(YamlError::Duplicate { detail, line }) => {
            let (value, mut repeated) = read(text, limits, DuplicateKeyPolicy::LastWins)?;
            match repeated.first_mut() {
                Some(first) => first.line = line,
                // The library folds repeated integer keys before they can be seen here.
                None => repeated.push(Repeated { path: detail.clone(), key: detail, line }),
            }
            Ok((value, repeated))
        }
        other => other,
    }
}

fn checked(text: &[u8], limits: YamlLimits) -> Result<&str, YamlError> {
    if text.len() > limits.bytes_max {
        return Err(YamlError::TooLarge { bytes: text.len(), bytes_max: limits.bytes_max });
    }
    std::str::from_utf8(text).map_err(|error| YamlError::Encoding { offset: error.valid_up_to() })
}

fn read(
    text: &str,
    limits: YamlLimits,
    policy: DuplicateKeyPolicy,
) -> Result<(Value, Vec<Repeated>), YamlError> {
    let shallow = YamlLimits { depth_max: limits.depth_max.min(SHALLOW_DEPTH), ..limits };
    match read_here(text, shallow, policy) {
        Err(YamlReadError::Depth(_)) if limits.depth_max > SHALLOW_DEPTH => {
            read_with_room(text, limits, policy)
        }
        other => other,
    }
    .map_err(|refusal| match refusal {
        YamlReadError::Depth(error) | YamlReadError::Other(error) => error,
    })
}

/// Reads on a thread of its own, because the library recurses and this thread's stack is unknown.
fn read_with_room(
    text: &str,
    limits: YamlLimits,
    policy: DuplicateKeyPolicy,
) -> Result<(Value, Vec<Repeated>), YamlReadError> {
    let stack_bytes = STACK_BYTES_PER_LEVEL.saturating_mul(limits.depth_max.saturating_add(32));
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(stack_bytes)
            .spawn_scoped(scope, || read_here(text, limits, policy))
            .ok()
            .and_then(|thread| thread.join().ok())
            .unwrap_or_else(|| {
                let detail = "no memory is left for its nesting".to_owned();
                Err(YamlReadError::Other(YamlError::TooComplex { detail }))
            })
    })
}

enum YamlReadError {
    /// The nesting passed the limit; a larger one might do.
    Depth(YamlError),
    Other(YamlError),
}

fn read_here(
    text: &str,
    limits: YamlLimits,
    policy: DuplicateKeyPolicy,
) -> Result<(Value, Vec<Repeated>), YamlReadError> {
    let state = DocumentState {
        left: Cell::new(limits.expanded_bytes_max),
        overflown: Cell::new(false),
        path: RefCell::new(String::new()),
        repeated: RefCell::new(Vec::new()),
    };
    let result = serde_saphyr::with_deserializer_from_str_with_options(
        text,
        options(limits, policy),
        |deserializer| YamlSeed(&state).deserialize(deserializer),
    );
    match result {
        Ok(value) => Ok((value, state.repeated.into_inner())),
        Err(_) if state.overflown.get() => Err(YamlReadError::Other(YamlError::TooComplex {
            detail: format!("expanded, it exceeds {} bytes", limits.expanded_bytes_max),
        })),
        Err(error) => {
            let deep = matches!(
                innermost(&error),
                Error::Budget { breach: BudgetBreach::Depth { .. }, .. }
            );
            let error = YamlError::from_library(&error);
            Err(if deep { YamlReadError::Depth(error) } else { YamlReadError::Other(error) })
        }
    }
}

fn options(limits: YamlLimits, policy: DuplicateKeyPolicy) -> Options {
    let nodes_max = limits.expanded_bytes_max / NODE_BYTES;
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: limits.depth_max,
            // The parser may look ahead, so the bound on depth has to be met first.
            flow_nesting_limit: limits.depth_max.saturating_mul(2).saturating_add(64),
            max_nodes: nodes_max,
            max_events: nodes_max.saturating_mul(2),
            max_recorded_anchor_events: nodes_max,
            max_recorded_anchor_bytes: limits.expanded_bytes_max,
            // Kubernetes bounds what aliases produce, not how many there are.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: nodes_max,
        },
        emit_comments: false,
        duplicate_keys: policy,
        merge_keys: MergeKeyPolicy::Merge,
        legacy_octal_numbers: true,
        strict_booleans: false,
        ignore_binary_tag_for_string: true,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
    }
}

/// What all nodes of one document share.
struct DocumentState {
    left: Cell<usize>,
    overflown: Cell<bool>,
    path: RefCell<String>,
    repeated: RefCell<Vec<Repeated>>,
}

impl DocumentState {
    /// Takes the cost of one node from the budget.
    fn charge<E: serde::de::Error>(&self, text_bytes: usize) -> Result<(), E> {
        match self.left.get().checked_sub(text_bytes.saturating_add(NODE_BYTES)) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.overflown.set(true);
                Err(E::custom("too much"))
            }
        }
    }

    /// Runs `inside` with a longer path, and restores the path when it succeeds.
    fn within<T, E>(&self, step: &str, inside: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let outer_bytes = self.path.borrow().len();
        self.path.borrow_mut().push_str(step);
        let result = inside()?;
        self.path.borrow_mut().truncate(outer_bytes);
        Ok(result)
    }

    fn report_repeated(&self, key: &str) {
        let above = self.path.borrow();
        let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        self.repeated.borrow_mut().push(Repeated { path, key: key.to_owned(), line: None });
    }
}

#[derive(Clone, Copy)]
struct YamlSeed<'a>(&'a DocumentState);

impl<'de> DeserializeSeed<'de> for YamlSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for YamlSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::from(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.0.charge(0)?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        self.0.charge(0)?;
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.0.charge(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.0.charge(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        self.0.charge(0)?;
        let mut items = Vec::new();
        loop {
            let step = format!("[{}]", items.len());
            match self.0.within(&step, || sequence.next_element_seed(self))? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Value, A::Error> {
        self.0.charge(0)?;
        let mut fields = Map::new();
        while let Some(key) = mapping.next_key_seed(MappingKeySeed)? {
            self.0.charge(key.len())?;
            if fields.contains_key(&key) {
                self.0.report_repeated(&key);
            }
            let dot = if self.0.path.borrow().is_empty() { "" } else { "." };
            let step = format!("{dot}{key}");
            let value = self.0.within(&step, || mapping.next_value_seed(self))?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

/// A key, resolved like a value and then printed, so that `yes: 1` has the key `true`.
struct MappingKeySeed;

impl<'de> DeserializeSeed<'de> for MappingKeySeed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for MappingKeySeed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number or boolean as key")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<String, E> {
        Ok(value)
    }
}
