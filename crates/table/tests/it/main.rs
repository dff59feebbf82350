//! Rules of `spec/api-server.md`, on the table of built-in kinds.

use serde_json::{Map, json};
use tenure_kinds::builtin;
use tenure_machinery::kind::Verbs;
use tenure_table::{cells, columns, has_printer, list_cells};

#[test]
fn r29_every_builtin_kind_has_one_cell_per_column() {
    let now = "2024-01-01T00:00:00Z".parse().expect("a time");
    for kind in builtin() {
        let mut object = Map::new();
        object.insert("metadata".to_owned(), json!({"name": "x"}));
        let wanted = columns(&kind).len();
        assert_eq!(cells(&kind, &object, now).len(), wanted, "{}", kind.kind);
        assert_eq!(list_cells(&kind, &[&object], now).len(), 1, "{}", kind.kind);
    }
}

#[test]
fn r29_only_few_builtin_kinds_show_default_columns() {
    let plain: Vec<_> = builtin()
        .iter()
        .filter(|kind| kind.verbs != Verbs::CreateOnly && !has_printer(kind))
        .map(|kind| kind.kind.to_string())
        .collect();
    assert_eq!(plain, ["LimitRange", "ClusterRole", "Role", "CustomResourceDefinition"]);
}
