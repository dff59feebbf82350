//! A custom resource definition: the members that are a schema or something else.

use k8s_pb::apiextensions_apiserver::pkg::apis::apiextensions::v1 as extensions;

use super::*;

fn schema(of: &str) -> extensions::JsonSchemaProps {
    extensions::JsonSchemaProps {
        id: text(""),
        r#type: text(of),
        title: text(""),
        exclusive_maximum: Some(false),
        nullable: Some(false),
        ..Default::default()
    }
}

fn raw(text: &str) -> extensions::Json {
    extensions::Json { raw: Some(text.as_bytes().to_vec()) }
}

fn or_bool(
    allows: bool,
    schema: Option<extensions::JsonSchemaProps>,
) -> Option<Box<extensions::JsonSchemaPropsOrBool>> {
    let schema = schema.map(Box::new);
    Some(Box::new(extensions::JsonSchemaPropsOrBool { allows: Some(allows), schema }))
}

fn spec_schema() -> extensions::JsonSchemaProps {
    let list = extensions::JsonSchemaProps {
        items: Some(Box::new(extensions::JsonSchemaPropsOrArray {
            schema: Some(Box::new(schema("string"))),
            j_son_schemas: Vec::new(),
        })),
        max_items: Some(0),
        x_kubernetes_list_type: text("set"),
        ..schema("array")
    };
    let tuple = extensions::JsonSchemaProps {
        items: Some(Box::new(extensions::JsonSchemaPropsOrArray {
            schema: None,
            j_son_schemas: vec![schema("string"), schema("integer")],
        })),
        additional_items: or_bool(false, None),
        ..schema("array")
    };
    let number = extensions::JsonSchemaProps {
        minimum: Some(0.0),
        maximum: Some(5.0),
        multiple_of: Some(0.5),
        default: Some(raw("1")),
        r#enum: vec![raw("1"), raw("2.5"), raw("null")],
        example: Some(raw(r#"{"a":[1]}"#)),
        ..schema("number")
    };
    let map = extensions::JsonSchemaProps {
        additional_properties: or_bool(true, Some(schema("string"))),
        ..schema("object")
    };
    let open = extensions::JsonSchemaProps {
        additional_properties: or_bool(true, None),
        ..schema("object")
    };
    let properties =
        [("list", list), ("tuple", tuple), ("number", number), ("map", map), ("open", open)];
    extensions::JsonSchemaProps {
        properties: properties.into_iter().map(|(key, each)| (key.to_owned(), each)).collect(),
        required: texts(&["list"]),
        dependencies: BTreeMap::from([
            (
                "a".to_owned(),
                extensions::JsonSchemaPropsOrStringArray {
                    schema: None,
                    property: texts(&["list", "map"]),
                },
            ),
            (
                "b".to_owned(),
                extensions::JsonSchemaPropsOrStringArray {
                    schema: Some(schema("object")),
                    property: Vec::new(),
                },
            ),
        ]),
        x_kubernetes_preserve_unknown_fields: Some(true),
        x_kubernetes_validations: vec![extensions::ValidationRule {
            rule: text("self.number > 1"),
            message: text("too small"),
            ..Default::default()
        }],
        ..schema("object")
    }
}

fn spec_schema_twin() -> Value {
    json!({
        "type": "object",
        "properties": {
            "list": {
                "type": "array", "items": {"type": "string"}, "maxItems": 0,
                "x-kubernetes-list-type": "set"
            },
            "tuple": {
                "type": "array", "items": [{"type": "string"}, {"type": "integer"}],
                "additionalItems": false
            },
            "number": {
                "type": "number", "minimum": 0, "maximum": 5, "multipleOf": 0.5, "default": 1,
                "enum": [1, 2.5, null], "example": {"a": [1]}
            },
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "open": {"type": "object", "additionalProperties": true}
        },
        "required": ["list"],
        "dependencies": {"a": ["list", "map"], "b": {"type": "object"}},
        "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{"rule": "self.number > 1", "message": "too small"}]
    })
}

#[test]
fn r22_custom_resource_definition() {
    let message = extensions::CustomResourceDefinition {
        metadata: metadata("it"),
        spec: Some(extensions::CustomResourceDefinitionSpec {
            group: text("example.com"),
            names: Some(extensions::CustomResourceDefinitionNames {
                plural: text("widgets"),
                kind: text("Widget"),
                ..Default::default()
            }),
            scope: text("Namespaced"),
            versions: vec![extensions::CustomResourceDefinitionVersion {
                name: text("v1"),
                served: Some(true),
                storage: Some(true),
                schema: Some(extensions::CustomResourceValidation {
                    open_apiv3_schema: Some(spec_schema()),
                }),
                subresources: Some(extensions::CustomResourceSubresources {
                    status: Some(extensions::CustomResourceSubresourceStatus {}),
                    ..Default::default()
                }),
                ..Default::default()
            }],
            preserve_unknown_fields: Some(false),
            ..Default::default()
        }),
        ..Default::default()
    };
    let twin = json!({
        "metadata": {"name": "it", "namespace": "default", "creationTimestamp": null},
        "spec": {
            "group": "example.com", "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": spec_schema_twin()},
                "subresources": {"status": {}}
            }]
        }
    });
    same("apiextensions_apiserver.apiextensions.v1.CustomResourceDefinition", &message, twin);
}

#[test]
fn r22_numbers_keep_every_digit_through_json_text() {
    // The first took on another last digit before text was read back exactly.
    for number in [6.087929866821358e223, 0.1 + 0.2, f64::MIN_POSITIVE, f64::MAX] {
        let message = extensions::JsonSchemaProps { maximum: Some(number), ..Default::default() };
        let of = id("apiextensions_apiserver.apiextensions.v1.JSONSchemaProps");
        let read = Value::Object(protobuf::decode(of, &message.encode_to_vec()).unwrap());
        assert_eq!(read["maximum"].as_f64(), Some(number));
        assert_eq!(serde_json::from_str::<Value>(&read.to_string()).unwrap(), read);
    }
}
