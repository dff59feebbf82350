//! Promises that the table keeps as a whole (spec/dependencies.md R13).

use tenure_schema::{ListMerge, ValueType, facts};

use crate::id;

/// The shape without lists and maps around it.
fn core(shape: &ValueType) -> &ValueType {
    match shape {
        ValueType::List(inner) | ValueType::Map(inner) => core(inner),
        other => other,
    }
}

#[test]
fn r13_list_keys_and_merge_keys_are_members_of_the_items() {
    for of in facts().types() {
        for field in &of.fields {
            let mut keys = match &field.list {
                ListMerge::Map(keys) => keys.clone(),
                _ => Vec::new(),
            };
            keys.extend(field.merge_key.filter(|key| !key.is_empty()));
            for key in keys {
                let ValueType::Struct(item) = core(&field.shape) else {
                    panic!("{}.{} has keys but no items", of.name, field.json);
                };
                let item = facts().get(*item).unwrap();
                assert!(item.field(key).is_some(), "{}.{}: {key}", of.name, field.json);
            }
        }
    }
}

#[test]
fn r13_a_member_is_left_out_or_always_written_never_both() {
    for of in facts().types() {
        for field in &of.fields {
            assert!(!(field.omit_zero && field.always), "{}.{}", of.name, field.json);
            assert!(field.always || !field.null, "{}.{}", of.name, field.json);
        }
    }
}

#[test]
fn r13_every_member_is_found_by_its_name_and_no_other_is() {
    let mut names: Vec<&str> =
        facts().types().iter().flat_map(|of| &of.fields).map(|field| field.json).collect();
    names.extend(["", "x", "Name", "namespaces", "é", "metadata.name"]);
    names.sort_unstable();
    names.dedup();
    for of in facts().types() {
        for name in &names {
            let there = of.fields.iter().find(|field| field.json == *name);
            let found = of.field(name);
            assert!(
                match (there, found) {
                    (Some(there), Some(found)) => std::ptr::eq(there, found),
                    (None, None) => true,
                    _ => false,
                },
                "{}.{name}",
                of.name
            );
        }
    }
}

#[test]
fn r13_tags_are_unique_in_their_message() {
    for of in facts().types() {
        let mut tags: Vec<u32> = of.fields.iter().map(|f| f.tag).filter(|&tag| tag != 0).collect();
        tags.extend(of.inlines.iter().map(|(tag, _)| tag));
        let count = tags.len();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), count, "{}", of.name);
    }
}

#[test]
fn r13_members_of_an_inlined_message_lie_open_in_the_parent() {
    for of in facts().types() {
        for (_, inner) in &of.inlines {
            let inner = facts().get(*inner).unwrap();
            for field in &inner.fields {
                let open = of.field(field.json).unwrap();
                assert_eq!(open.shape, field.shape, "{}.{}", of.name, field.json);
            }
        }
    }
}

#[test]
fn r13_defaults_are_json() {
    for field in facts().types().iter().flat_map(|of| &of.fields) {
        if let Some(text) = field.default {
            assert!(serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        }
    }
}

#[test]
fn r13_kinds_that_the_server_serves_are_there() {
    let kinds = [
        "api.apps.v1.DaemonSet",
        "api.apps.v1.StatefulSet",
        "api.authentication.v1.TokenRequest",
        "api.authorization.v1.SubjectAccessReview",
        "api.autoscaling.v1.Scale",
        "api.batch.v1.CronJob",
        "api.core.v1.Binding",
        "api.core.v1.Pod",
        "api.policy.v1.Eviction",
        "apiextensions_apiserver.apiextensions.v1.CustomResourceDefinition",
        "kube_aggregator.apiregistration.v1.APIService",
    ];
    for name in kinds {
        let kind = facts().get(id(name)).unwrap().kind.unwrap();
        assert!(name.ends_with(kind.kind), "{name}");
    }
    for name in ["DeleteOptions", "ListMeta", "Status"] {
        id(&format!("apimachinery.meta.v1.{name}"));
    }
}
