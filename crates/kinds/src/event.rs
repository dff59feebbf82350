//! Event in its two views: core and events.k8s.io.
//!
//! Both views share one storage; mapping one to the other is the server's work.

use serde_json::Value;
use tenure_machinery::kind::MetadataTurn;
use tenure_machinery::validate::{same, text};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules, name};

use crate::stored::is_new;

/// Rules of core events.
pub(crate) struct EventRules;

/// Rules of events.k8s.io events.
pub(crate) struct NewEventRules;

const SHORT_MAX: usize = 128;
const NOTE_MAX: usize = 1024;

/// How a view spells the members that both have.
struct EventFieldNames {
    object: &'static str,
    reporter: &'static str,
    note: &'static str,
}

const CORE: EventFieldNames =
    EventFieldNames { object: "involvedObject", reporter: "reportingComponent", note: "message" };
const NEW: EventFieldNames =
    EventFieldNames { object: "regarding", reporter: "reportingController", note: "note" };

impl Rules for EventRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_shared(object, &CORE, errors);
    }

    fn metadata_turn(&self) -> MetadataTurn {
        MetadataTurn::Alone
    }
}

impl Rules for NewEventRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_shared(object, &NEW, errors);
    }

    fn metadata_turn(&self) -> MetadataTurn {
        MetadataTurn::Second
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        // Events of the past may be of the older form, and stay what they are.
        if is_new(object) {
            validate_new(object, errors);
        }
    }

    fn validate_update(&self, object: &Object, old: &Object, errors: &mut Errors) {
        if !same(object.get("series"), old.get("series")) {
            validate_series(object, errors);
        }
        for (member, shown) in [
            ("regarding", "involvedObject"),
            ("reason", "reason"),
            ("note", "message"),
            ("deprecatedSource", "source"),
            ("deprecatedFirstTimestamp", "firstTimestamp"),
            ("deprecatedLastTimestamp", "lastTimestamp"),
            ("deprecatedCount", "count"),
            ("type", "type"),
            ("eventTime", "eventTime"),
            ("action", "action"),
            ("related", "related"),
            ("reportingController", "reportingController"),
            ("reportingInstance", "reportingInstance"),
        ] {
            if !same(object.get(member), old.get(member)) {
                let value = object.get(member).unwrap_or(&Value::Null);
                errors.invalid(&Path::Root.field(shown), value, "field is immutable");
            }
        }
    }
}

/// What only a new event of this view must have, or may not.
fn validate_new(object: &Object, errors: &mut Errors) {
    validate_series(object, errors);
    if !is_set(object, "eventTime") {
        errors.required(&Path::Root.field("eventTime"), "");
    }
    let kind = text(object, "type");
    if !matches!(kind, "Normal" | "Warning") {
        let why = "must be Normal or Warning";
        errors.invalid(&Path::Root.field("type"), format_args!("{kind:?}"), why);
    }
    for (member, shown) in [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ] {
        if !same(object.get(member), None) {
            errors.invalid(&Path::Root.field(shown), "\"\"", "must not be set");
        }
    }
}

fn validate_shared(event: &Object, view: &EventFieldNames, errors: &mut Errors) {
    let namespace = event.namespace();
    let about = event.str_at(&[view.object, "namespace"]).unwrap_or_default();
    let timed = is_set(event, "eventTime");
    let fits = match (timed, about) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, about) => about == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        // Both views answer with the core path.
        let object = Path::Root.field("involvedObject");
        let why = "does not match the namespace of the event";
        errors.invalid(&object.field("namespace"), format_args!("{about:?}"), why);
    }
    if timed {
        validate_reporter(event, view, errors);
    }
}

fn validate_reporter(event: &Object, view: &EventFieldNames, errors: &mut Errors) {
    let reporter = text(event, view.reporter);
    let path = Path::Root.field(view.reporter);
    if reporter.is_empty() {
        errors.required(&path, "");
    }
    for why in name::qualified_name_faults(reporter) {
        errors.invalid(&path, format_args!("{reporter:?}"), why);
    }
    for member in ["reportingInstance", "action", "reason"] {
        let value = text(event, member);
        if value.is_empty() {
            errors.required(&Path::Root.field(member), "");
        }
        if value.len() > SHORT_MAX {
            let why = format!("must have at most {SHORT_MAX} characters");
            errors.invalid(&Path::Root.field(member), "\"\"", &why);
        }
    }
    if text(event, view.note).len() > NOTE_MAX {
        let why = format!("must have at most {NOTE_MAX} characters");
        errors.invalid(&Path::Root.field("message"), "\"\"", &why);
    }
}

fn validate_series(event: &Object, errors: &mut Errors) {
    let Some(series) = event.map_at(&["series"]) else { return };
    if series.int_at(&["count"]).unwrap_or_default() < 2 {
        errors.invalid(&Path::Root.field("series.count"), "\"\"", "must be at least 2");
    }
    if !is_set(series, "lastObservedTime") {
        errors.required(&Path::Root.field("series.lastObservedTime"), "");
    }
}

fn is_set(object: &Object, member: &str) -> bool {
    object.get(member).is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row, update_faults};

    #[test]
    fn r136h_core_events_may_have_any_name_that_a_path_can_carry() {
        let about = json!({"namespace": "n"});
        let named = |group: &str, name: &str, about: &serde_json::Value| {
            let member = if group.is_empty() { "involvedObject" } else { "regarding" };
            faults(&row(group, "Event"), json!({"metadata": {"name": name}, member: about}))
        };
        assert!(named("", "A_b:1", &about).is_empty());
        assert_eq!(named("", "a/b", &about), ["metadata.name FieldValueInvalid"]);
        // What is wrong with the event itself is said first, and alone.
        let wrong = json!({"namespace": "m"});
        assert_eq!(named("", "a/b", &wrong), ["involvedObject.namespace FieldValueInvalid"]);
        let new = named("events.k8s.io", "A_b:1", &about);
        assert!(new.contains(&"metadata.name FieldValueInvalid".to_owned()), "{new:?}");
    }

    #[test]
    fn r136h_an_old_event_keeps_its_form_and_most_of_its_members() {
        let kind = row("events.k8s.io", "Event");
        let old = json!({"metadata": {"namespace": "n", "resourceVersion": "1"},
            "regarding": {"namespace": "n"}, "type": "Normal", "reason": "Why",
            "deprecatedFirstTimestamp": "2024-01-02T03:04:05Z", "deprecatedCount": 1,
            "deprecatedSource": {"component": "me"}});
        let with = |pointer: &str, value: serde_json::Value| {
            let mut new = old.clone();
            new[pointer] = value;
            update_faults(&kind, old.clone(), new)
        };
        assert!(with("metadata", old["metadata"].clone()).is_empty());
        let cases = [
            ("deprecatedSource", json!({"component": "you"}), "source FieldValueInvalid"),
            ("deprecatedFirstTimestamp", json!(null), "firstTimestamp FieldValueInvalid"),
            (
                "deprecatedLastTimestamp",
                json!("2024-01-02T03:04:05Z"),
                "lastTimestamp FieldValueInvalid",
            ),
            ("deprecatedCount", json!(2), "count FieldValueInvalid"),
            ("note", json!("x"), "message FieldValueInvalid"),
            (
                "series",
                json!({"count": 1, "lastObservedTime": "2024-01-02T03:04:05.000000Z"}),
                "series.count FieldValueInvalid",
            ),
        ];
        for (member, value, wanted) in cases {
            assert_eq!(with(member, value), [wanted]);
        }
    }

    #[test]
    fn r136_core_events_stay_in_the_namespace_of_their_object() {
        let kind = row("", "Event");
        assert!(faults(&kind, json!({"involvedObject": {"namespace": "n"}})).is_empty());
        let wrong = ["involvedObject.namespace FieldValueInvalid"];
        assert_eq!(faults(&kind, json!({"involvedObject": {"namespace": "m"}})), wrong);
        assert_eq!(faults(&kind, json!({"involvedObject": {}})), wrong);
    }

    #[test]
    fn r136h_metadata_of_a_new_event_comes_after_what_both_groups_ask_for() {
        let wrong =
            json!({"metadata": {"name": "A_b"}, "regarding": {"namespace": "m"}, "type": "X"});
        assert_eq!(
            faults(&row("events.k8s.io", "Event"), wrong),
            [
                "involvedObject.namespace FieldValueInvalid",
                "metadata.name FieldValueInvalid",
                "eventTime FieldValueRequired",
                "type FieldValueInvalid",
            ]
        );
    }

    #[test]
    fn r136_new_events_name_reporter_action_and_reason() {
        let kind = row("events.k8s.io", "Event");
        let full = json!({"eventTime": "2024-01-02T03:04:05.000000Z", "type": "Normal",
            "regarding": {"namespace": "n"}, "reportingController": "example.com/c",
            "reportingInstance": "i", "action": "Act", "reason": "Why"});
        assert!(faults(&kind, full).is_empty());
        let bare =
            json!({"eventTime": "2024-01-02T03:04:05.000000Z", "regarding": {"namespace": "n"}});
        assert_eq!(
            faults(&kind, bare),
            [
                "reportingController FieldValueRequired",
                // Nothing is too short a name, and not of its form.
                "reportingController FieldValueInvalid",
                "reportingController FieldValueInvalid",
                "reportingInstance FieldValueRequired",
                "action FieldValueRequired",
                "reason FieldValueRequired",
                "type FieldValueInvalid",
            ]
        );
    }
}
