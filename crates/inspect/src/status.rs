//! How an object fares, in one short word: read from the columns that its kind shows to people.

use serde::Deserialize;
use serde_json::Value;

use crate::wire::or_default;

/// A table as servers make them for kubectl.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Table {
    #[serde(default, deserialize_with = "or_default")]
    column_definitions: Vec<ColumnDefinition>,
    #[serde(default, deserialize_with = "or_default")]
    rows: Vec<StatusRow>,
}

#[derive(Debug, Deserialize)]
struct ColumnDefinition {
    name: String,
}

#[derive(Debug, Deserialize)]
struct StatusRow {
    #[serde(default, deserialize_with = "or_default")]
    cells: Vec<Value>,
    #[serde(default, deserialize_with = "or_default")]
    object: Value,
}

impl Table {
    /// The uid and the status of every row that has both.
    pub(crate) fn statuses(self) -> Vec<(String, String)> {
        let names: Vec<String> =
            self.column_definitions.iter().map(|column| column.name.to_lowercase()).collect();
        let lines = self.rows.iter();
        lines
            .filter_map(|line| {
                let uid = line.object.pointer("/metadata/uid").and_then(Value::as_str)?;
                Some((uid.to_owned(), status(&names, &line.cells)?))
            })
            .collect()
    }
}

fn status(names: &[String], cells: &[Value]) -> Option<String> {
    let cell = |name: &str| {
        let at = names.iter().position(|known| known == name)?;
        let text = match cells.get(at)? {
            Value::String(text) => text.clone(),
            Value::Null => return None,
            other => other.to_string(),
        };
        (!text.is_empty()).then_some(text)
    };
    let ready = match (cell("ready"), cell("desired")) {
        (Some(ready), Some(desired)) => Some(format!("{ready}/{desired}")),
        (ready, _) => ready,
    };
    let word = cell("status").or_else(|| cell("phase")).or_else(|| cell("state"));
    match (word, ready) {
        (Some(word), Some(ready)) if ready.contains('/') => Some(format!("{word} {ready}")),
        (Some(word), _) => Some(word),
        (None, Some(ready)) if ready.contains('/') => Some(format!("{ready} ready")),
        (None, Some(ready)) => Some(format!("ready: {ready}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(columns: &[(&str, &str)]) -> Option<String> {
        let names: Vec<String> = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let cells: Vec<Value> = columns.iter().map(|(_, cell)| (*cell).into()).collect();
        status(&names, &cells)
    }

    #[test]
    fn statuses_come_from_the_columns_of_a_kind() {
        let pod = one(&[("name", "a"), ("ready", "1/1"), ("status", "Running")]);
        assert_eq!(pod.as_deref(), Some("Running 1/1"));
        let deployment = one(&[("name", "a"), ("ready", "2/3"), ("age", "1d")]);
        assert_eq!(deployment.as_deref(), Some("2/3 ready"));
        let set = one(&[("desired", "3"), ("current", "3"), ("ready", "2")]);
        assert_eq!(set.as_deref(), Some("2/3 ready"));
        assert_eq!(one(&[("phase", "Bound")]).as_deref(), Some("Bound"));
        assert_eq!(one(&[("ready", "True")]).as_deref(), Some("ready: True"));
        assert_eq!(one(&[("name", "a"), ("data", "1")]), None);
        assert_eq!(one(&[("status", "")]), None);
    }
}
