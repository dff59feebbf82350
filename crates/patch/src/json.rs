//! JSON patch, RFC 6902, with the leniencies that Kubernetes clients rely on.
//!
//! A member of a map that `replace` names need not exist, a missing member reads as null in `test`
//! and `copy`, and a negative index counts from the end of a list.

use std::io;

use serde_json::Value;
use tenure_machinery::Object;

use crate::PatchError;

/// The most operations one patch may have.
pub const OPERATIONS_MAX: usize = 10_000;
/// The most bytes of JSON that the `copy` operations of one patch may duplicate.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The deepest place an operation may write to; what follows walks objects recursively.
const DEPTH_MAX: usize = 256;

/// Applies the operations in order and returns the result; one refusal refuses the whole patch.
pub fn apply(object: Object, patch: &Value) -> Result<Object, PatchError> {
    let operations = patch
        .as_array()
        .ok_or_else(|| PatchError::bad("a JSON patch must be a list of operations"))?;
    let operations =
        operations.iter().map(JsonPatchOperation::read).collect::<Result<Vec<_>, _>>()?;
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::too_large(format!(
            "the allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut document = TargetDocument { root: Value::Object(object), copied_bytes: 0 };
    for operation in &operations {
        document.run(operation)?;
    }
    match document.root {
        Value::Object(object) => Ok(object),
        _ => Err(PatchError::unprocessable("the patched document is not an object")),
    }
}

#[derive(Clone, Copy)]
struct JsonPatchOperation<'p> {
    op: &'p str,
    path: Option<&'p str>,
    from: Option<&'p str>,
    value: Option<&'p Value>,
}

impl<'p> JsonPatchOperation<'p> {
    fn read(json: &'p Value) -> Result<Self, PatchError> {
        let json = json
            .as_object()
            .ok_or_else(|| PatchError::bad("each JSON patch operation must be an object"))?;
        let text = |name: &str| match json.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => {
                Err(PatchError::bad(format!("`{name}` of a JSON patch operation must be text")))
            }
        };
        Ok(Self {
            op: text("op")?.unwrap_or_default(),
            path: text("path")?,
            from: text("from")?,
            value: json.get("value"),
        })
    }

    fn value(&self) -> Value {
        self.value.cloned().unwrap_or_default()
    }
}

struct TargetDocument {
    root: Value,
    copied_bytes: usize,
}

impl TargetDocument {
    fn run(&mut self, operation: &JsonPatchOperation<'_>) -> Result<(), PatchError> {
        let path = || {
            let text = operation.path.ok_or_else(|| missing_member(operation, "path"))?;
            pointer(text)
        };
        let from = || {
            let text = operation.from.ok_or_else(|| missing_member(operation, "from"))?;
            pointer(text)
        };
        match operation.op {
            "add" => self.add(&path()?, operation.value()),
            "remove" => self.remove(&path()?).map(drop),
            "replace" => self.replace(&path()?, operation.value()),
            "test" => self.test(&path()?, &operation.value()),
            "move" => {
                let (from, path) = (from()?, path()?);
                let value = self.remove(&from)?;
                self.add(&path, value)
            }
            "copy" => {
                let value = self.read(&from()?)?;
                self.copied_bytes = self.copied_bytes.saturating_add(bytes(&value));
                if self.copied_bytes > COPIED_BYTES_MAX {
                    return Err(PatchError::unprocessable(format!(
                        "the copy operations of the patch exceed {COPIED_BYTES_MAX} bytes"
                    )));
                }
                self.add(&path()?, value)
            }
            other => Err(PatchError::unprocessable(format!("unknown operation `{other}`"))),
        }
    }

    /// The container that holds the last segment of the pointer.
    fn holder(&mut self, pointer: &[String]) -> Result<(&mut Value, String), PatchError> {
        let (last, parents) = pointer.split_last().ok_or_else(|| missing(pointer))?;
        let mut holder = &mut self.root;
        for segment in parents {
            let next = match holder {
                Value::Object(map) => map.get_mut(segment),
                Value::Array(list) => index(segment, list.len()).and_then(|at| list.get_mut(at)),
                _ => None,
            };
            holder = next.ok_or_else(|| missing(pointer))?;
        }
        Ok((holder, last.clone()))
    }

    fn add(&mut self, pointer: &[String], value: Value) -> Result<(), PatchError> {
        check_depth(pointer, &value)?;
        match self.holder(pointer)? {
            (Value::Object(map), name) => {
                map.insert(name, value);
                Ok(())
            }
            (Value::Array(list), name) if name == "-" => {
                list.push(value);
                Ok(())
            }
            (Value::Array(list), name) => match index(&name, list.len() + 1) {
                Some(at) if at <= list.len() => {
                    list.insert(at, value);
                    Ok(())
                }
                _ => Err(missing(pointer)),
            },
            _ => Err(missing(pointer)),
        }
    }

    fn remove(&mut self, pointer: &[String]) -> Result<Value, PatchError> {
        match self.holder(pointer)? {
            (Value::Object(map), name) => map.remove(&name).ok_or_else(|| missing(pointer)),
            (Value::Array(list), name) => match index(&name, list.len()) {
                Some(at) if at < list.len() => Ok(list.remove(at)),
                _ => Err(missing(pointer)),
            },
            _ => Err(missing(pointer)),
        }
    }

    fn replace(&mut self, pointer: &[String], value: Value) -> Result<(), PatchError> {
        check_depth(pointer, &value)?;
        if pointer.is_empty() {
            self.root = value;
            return Ok(());
        }
        match self.holder(pointer)? {
            (Value::Object(map), name) => {
                map.insert(name, value);
                Ok(())
            }
            (Value::Array(list), name) => {
                let at = index(&name, list.len());
                let slot = at.and_then(|at| list.get_mut(at)).ok_or_else(|| missing(pointer))?;
                *slot = value;
                Ok(())
            }
            _ => Err(missing(pointer)),
        }
    }

    /// The value at the pointer; a missing member of a map reads as null.
    fn read(&mut self, pointer: &[String]) -> Result<Value, PatchError> {
        match self.holder(pointer)? {
            (Value::Object(map), name) => Ok(map.get(&name).cloned().unwrap_or_default()),
            (Value::Array(list), name) => {
                let at = index(&name, list.len());
                at.and_then(|at| list.get(at)).cloned().ok_or_else(|| missing(pointer))
            }
            _ => Err(missing(pointer)),
        }
    }

    fn test(&mut self, pointer: &[String], value: &Value) -> Result<(), PatchError> {
        let equal =
            if pointer.is_empty() { self.root == *value } else { self.read(pointer)? == *value };
        if equal {
            return Ok(());
        }
        Err(PatchError::test_failed(format!("testing value {} failed", shown(pointer))))
    }
}

/// Splits `/a/b~1c` into its segments, unescaped.
fn pointer(text: &str) -> Result<Vec<String>, PatchError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rest = text
        .strip_prefix('/')
        .ok_or_else(|| PatchError::unprocessable(format!("path `{text}` must start with `/`")))?;
    Ok(rest.split('/').map(|segment| segment.replace("~1", "/").replace("~0", "~")).collect())
}

/// A place in a list of `length`; negative places count from its end.
fn index(text: &str, length: usize) -> Option<usize> {
    let at = text.parse::<i64>().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at.checked_add(length)? } else { at };
    usize::try_from(at).ok()
}

fn check_depth(pointer: &[String], value: &Value) -> Result<(), PatchError> {
    if depth_within(value, DEPTH_MAX.saturating_sub(pointer.len())) && pointer.len() < DEPTH_MAX {
        return Ok(());
    }
    Err(PatchError::unprocessable(format!("the patch nests deeper than {DEPTH_MAX} levels")))
}

fn depth_within(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Object(map) => map.values().all(|member| depth_within(member, below)),
        Value::Array(list) => list.iter().all(|item| depth_within(item, below)),
        _ => true,
    }
}

/// The size of the value as JSON text.
fn bytes(value: &Value) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(part.len());
            Ok(part.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

fn shown(pointer: &[String]) -> String {
    pointer.iter().fold(String::new(), |text, segment| text + "/" + segment)
}

fn missing(pointer: &[String]) -> PatchError {
    PatchError::unprocessable(format!("the object is missing path `{}`", shown(pointer)))
}

fn missing_member(operation: &JsonPatchOperation<'_>, name: &str) -> PatchError {
    PatchError::unprocessable(format!("operation `{}` is missing `{name}`", operation.op))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use serde_json::json;

    use super::*;
    use crate::PatchErrorKind;

    fn run(object: Value, patch: Value) -> Result<Value, PatchErrorKind> {
        let Value::Object(object) = object else { panic!("an object") };
        apply(object, &patch).map(Value::Object).map_err(|error| error.kind)
    }

    const REFUSED: Result<Value, PatchErrorKind> = Err(PatchErrorKind::Unprocessable);

    #[test]
    fn r83_operations_act_in_order() {
        let patch = json!([
            {"op": "add", "path": "/data/c", "value": "3"},
            {"op": "replace", "path": "/data/a", "value": "9"},
            {"op": "remove", "path": "/data/b"},
            {"op": "copy", "from": "/data/a", "path": "/data/x"},
            {"op": "move", "from": "/data/c", "path": "/data/y"},
        ]);
        let result = run(json!({"data": {"a": "1", "b": "2"}}), patch);
        assert_eq!(result, Ok(json!({"data": {"a": "9", "x": "9", "y": "3"}})));
    }

    #[test]
    fn r83_failing_test_refuses_the_patch() {
        let object = json!({"data": {"b": "2"}});
        let test = |value: Value| json!([{"op": "test", "path": "/data/b", "value": value}]);
        assert_eq!(run(object.clone(), test(json!("x"))), Err(PatchErrorKind::TestFailed));
        assert_eq!(run(object.clone(), test(json!("2"))), Ok(object.clone()));
        let absent = json!([{"op": "test", "path": "/data/q", "value": null}]);
        assert_eq!(run(object.clone(), absent), Ok(object));
    }

    #[test]
    fn r83_missing_targets() {
        let object = json!({"data": {"a": "1"}, "list": [1]});
        let one = |op: &str, path: &str| json!([{"op": op, "path": path, "value": 7}]);
        assert_eq!(run(object.clone(), one("remove", "/data/zz")), REFUSED);
        assert_eq!(run(object.clone(), one("add", "/labels/x")), REFUSED);
        assert_eq!(run(object.clone(), one("replace", "/labels/x")), REFUSED);
        assert_eq!(run(object.clone(), one("replace", "/list/1")), REFUSED);
        assert_eq!(run(object.clone(), one("add", "/list/2")), REFUSED);
        assert_eq!(run(object.clone(), one("remove", "")), REFUSED);
        assert_eq!(run(object.clone(), one("frobnicate", "/data")), REFUSED);
        assert_eq!(
            run(object, one("replace", "/data/zz")),
            Ok(json!({"data": {"a": "1", "zz": 7}, "list": [1]}))
        );
    }

    #[test]
    fn r83_lists_and_escapes() {
        let patch = json!([
            {"op": "add", "path": "/args/-", "value": "d"},
            {"op": "add", "path": "/args/0", "value": "a"},
            {"op": "remove", "path": "/args/-1"},
            {"op": "replace", "path": "/e.io~1x", "value": "5"},
            {"op": "add", "path": "/m~0n", "value": 1},
        ]);
        let result = run(json!({"args": ["b", "c"], "e.io/x": "1"}), patch);
        assert_eq!(result, Ok(json!({"args": ["a", "b", "c"], "e.io/x": "5", "m~n": 1})));
    }

    #[test]
    fn r83_undecodable_is_a_bad_request() {
        for patch in [json!({"op": "add"}), json!("x"), json!([1]), json!([{"op": 1}])] {
            assert_eq!(run(json!({}), patch), Err(PatchErrorKind::BadRequest));
        }
    }

    #[test]
    fn r6_limits() {
        let many = vec![json!({"op": "test", "path": "/a", "value": null}); OPERATIONS_MAX + 1];
        assert_eq!(run(json!({}), Value::Array(many)), Err(PatchErrorKind::TooLarge));

        // Each round doubles what is copied.
        let round = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let doubling = Value::Array(vec![round; 40]);
        assert_eq!(run(json!({"a": ["some text"]}), doubling), REFUSED);

        let deep = "/a".repeat(DEPTH_MAX);
        let mut operations = Vec::new();
        for length in (2..=deep.len()).step_by(2) {
            operations.push(json!({"op": "add", "path": deep[..length], "value": {}}));
        }
        assert_eq!(run(json!({}), Value::Array(operations)), REFUSED);
    }
}
