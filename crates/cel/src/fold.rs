//! Constants are computed once, when a rule is compiled, and cost nothing when it runs.

use std::collections::BTreeMap;

use crate::meter::CostBudget;
use crate::node::{NodeKind, TypedNode};
use crate::value::{ListValue, Value};

/// Conversions that give the same for the same argument.
const CONVERSIONS: [&str; 8] =
    ["bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"];

/// Replaces what is constant by its value, from the inside out.
pub(crate) fn fold(node: &mut TypedNode) {
    for part in node.parts_mut() {
        fold(part);
    }
    let constant = match &mut node.kind {
        NodeKind::List(items) => list(items),
        NodeKind::Map(entries) => map(entries),
        NodeKind::Call(call) => {
            call.constant_list = call.function.name == "@in"
                && matches!(
                    call.args.get(1).map(|arg| &arg.kind),
                    Some(NodeKind::Constant(Value::List(ListValue::Made(_))))
                );
            let converts = CONVERSIONS.contains(&call.function.name);
            match call.args.as_slice() {
                [TypedNode { kind: NodeKind::Constant(value), .. }] if converts => {
                    let mut meter = CostBudget::for_object().meter();
                    (call.function.run)(&mut meter, std::slice::from_ref(value)).ok()
                }
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(value) = constant {
        node.kind = NodeKind::Constant(value);
    }
}

fn list(items: &[(bool, TypedNode)]) -> Option<Value<'static>> {
    let values = items.iter().map(|(optional, item)| match &item.kind {
        NodeKind::Constant(value) if !optional => Some(value.clone()),
        _ => None,
    });
    let values: Vec<_> = values.collect::<Option<_>>()?;
    Some(Value::list(values))
}

fn map(entries: &[(bool, TypedNode, TypedNode)]) -> Option<Value<'static>> {
    let mut made = BTreeMap::new();
    for (optional, key, value) in entries {
        let (NodeKind::Constant(key), NodeKind::Constant(value)) = (&key.kind, &value.kind) else {
            return None;
        };
        if *optional || made.insert(key.key()?, value.clone()).is_some() {
            return None;
        }
    }
    Some(Value::map(made))
}
