//! Label selectors as objects: are they well formed, do they match.

use serde_json::Value;
use tenure_machinery::{Errors, Object, Path};

use crate::podspec::text;
use crate::podspec::view::{has, items, map, text as text_of, texts};

/// Checks `matchLabels` and `matchExpressions` of a selector that is present.
pub fn validate_label_selector(selector: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(labels) = map(selector, "matchLabels") {
        validate_labels(labels, &path.field("matchLabels"), errors);
    }
    let list = path.field("matchExpressions");
    for (index, expression) in items(selector, "matchExpressions").enumerate() {
        let at = list.index(index);
        let count = texts(expression, "values").count();
        match text_of(expression, "operator") {
            "In" | "NotIn" if count == 0 => {
                errors.required(
                    &at.field("values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                );
            }
            "Exists" | "DoesNotExist" if count > 0 => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(&at.field("values"), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                errors.invalid(&at.field("operator"), format_args!("{other:?}"), why);
            }
        }
        text::qualified_name(text_of(expression, "key"), &at.field("key"), errors);
        let values = at.field("values");
        for (position, value) in texts(expression, "values").enumerate() {
            text::label_value(value, &values.index(position), errors);
        }
    }
}

/// Checks the keys and values of a map of labels; every cause names the map.
pub fn validate_labels(labels: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (key, value) in labels {
        text::qualified_name(key, path, errors);
        text::label_value(value.as_str().unwrap_or_default(), path, errors);
    }
}

/// Checks the keys of annotations and their total size.
pub fn validate_annotations(annotations: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut size = 0_usize;
    for (key, value) in annotations {
        text::qualified_name(&key.to_lowercase(), path, errors);
        size = size.saturating_add(key.len() + value.as_str().map_or(0, str::len));
    }
    if size > 256 * 1024 {
        errors.too_long(path, 256 * 1024);
    }
}

/// Whether nothing is selected by: no labels and no expressions.
#[must_use]
pub fn is_empty(selector: &Object) -> bool {
    map(selector, "matchLabels").is_none_or(Object::is_empty)
        && items(selector, "matchExpressions").next().is_none()
}

/// Whether the selector can be used for matching at all.
#[must_use]
pub fn is_usable(selector: &Object) -> bool {
    let mut errors = Errors::new();
    validate_label_selector(selector, &Path::Root, &mut errors);
    errors.is_empty()
}

/// Whether the labels satisfy the selector; an absent selector matches nothing, an empty one all.
#[must_use]
pub fn matches(selector: Option<&Object>, labels: Option<&Object>) -> bool {
    let Some(selector) = selector else { return false };
    let value_of = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let by_labels = map(selector, "matchLabels").is_none_or(|wanted| {
        wanted.iter().all(|(key, value)| value_of(key).is_some_and(|is| value.as_str() == Some(is)))
    });
    let by_expressions = items(selector, "matchExpressions").all(|expression| {
        let value = value_of(text_of(expression, "key"));
        let listed = |value: &str| texts(expression, "values").any(|item| item == value);
        match text_of(expression, "operator") {
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    by_labels && by_expressions
}

/// The labels of a template's metadata.
#[must_use]
pub fn template_labels(template: &Object) -> Option<&Object> {
    map(template, "metadata")
        .filter(|meta| has(meta, "labels"))
        .and_then(|meta| map(meta, "labels"))
}
