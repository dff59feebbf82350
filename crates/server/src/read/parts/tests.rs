//! Rules of spec/api-server.md: text that is written in parts is the text that is written whole.

use tenure_core::Revision;
use tenure_world::PlainLayout;

use super::*;
use crate::registry::ServedKinds;

fn record(number: usize, object: &Value) -> Arc<Record> {
    let key = format!("/registry/configmaps/default/m-{number}").into();
    // As it is stored: what it is comes first, then its metadata.
    let (metadata, data) = (&object["metadata"], &object["data"]);
    let text =
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{data}}}"#);
    let bytes = Bytes::from(text);
    Arc::new(Record::read(key, Revision(7), bytes, &PlainLayout).unwrap())
}

/// Objects with everything that is hard to lay out.
fn objects(count: usize, bytes: usize) -> Vec<Value> {
    let hard = [
        "items: []\nrows: []",
        "\"items\": []",
        "\n\n- a\n",
        "",
        "x: y # z",
        "no",
        "0x1F",
        "\u{1F600}\t'\"",
    ];
    (0..count)
        .map(|number| {
            let text = hard[number % hard.len()];
            json!({
                "kind": "ConfigMap", "apiVersion": "v1",
                "metadata": { "name": format!("m-{number}"), "namespace": "default", "resourceVersion": "7",
                    "annotations": { "a": text, "items": "[]" } },
                "data": { "k": "x".repeat(bytes), "text": text, "empty": "" },
            })
        })
        .collect()
}

fn typeless(mut object: Value) -> Value {
    object.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
    object
}

fn parts(objects: &[Value], layout: TextLayout) -> (ListEncoder, Value) {
    let registry = ServedKinds::new(None).current();
    let served = Arc::clone(registry.find("", "v1", "configmaps").unwrap());
    let records = objects.iter().enumerate().map(|(at, object)| record(at, object)).collect();
    let mut shell = json!({
        "kind": "ConfigMapList", "apiVersion": "v1", "metadata": { "resourceVersion": "7" }, "items": [],
    });
    let parts =
        ListEncoder::new((served, records), ItemRepresentation::Plain, layout, (&shell, "items"));
    shell["items"] = objects.iter().cloned().map(typeless).collect();
    (parts, shell)
}

fn joined(mut parts: ListEncoder) -> (String, usize) {
    let (mut text, mut count) = (Vec::new(), 0);
    while let Some(part) = parts.next_part() {
        text.extend_from_slice(&part);
        count += 1;
    }
    (String::from_utf8(text).unwrap(), count)
}

#[test]
fn r242_a_list_in_parts_reads_as_the_list_in_one() {
    for count in [0, 1, 2, 9] {
        let objects = objects(count, 5);
        let (compact, whole) = parts(&objects, TextLayout::Compact);
        let (size, exact) = compact.size();
        let (text, _) = joined(compact);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), whole, "{text}");
        assert!(exact && size == text.len() as u64, "{size} {text}");
        let (pretty, _) = joined(parts(&objects, TextLayout::Pretty).0);
        assert_eq!(pretty, serde_json::to_string_pretty(&whole).unwrap() + "\n");
        let (yaml, _) = joined(parts(&objects, TextLayout::Yaml).0);
        assert_eq!(yaml, tenure_yaml::from_json(&whole));
    }
}

#[test]
fn r242_a_part_has_a_bound() {
    let objects = objects(40, 20_000);
    for layout in [TextLayout::Compact, TextLayout::Pretty, TextLayout::Yaml] {
        let (mut list, _) = parts(&objects, layout);
        while let Some(part) = list.next_part() {
            assert!(part.len() < PART_BYTES + 25_000, "{}", part.len());
        }
        let (text, count) = joined(parts(&objects, layout).0);
        assert_eq!(count, text.len().div_ceil(PART_BYTES + 20_000));
        assert_eq!(text.as_bytes(), parts(&objects, layout).0.whole());
    }
}
