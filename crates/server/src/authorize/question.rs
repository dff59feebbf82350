//! What is asked, as webhooks are told: a SubjectAccessReview (R154b).

use serde_json::{Value, json};
use tenure_core::selector::{FieldSelector, LabelRule, LabelSelector};
use tenure_machinery::{Object, ObjectExt};
use tenure_rbac::RequestAttributes;
use tenure_world::World;

use crate::authenticate::User;
use crate::request_line::RequestLine;

/// The version of whoever asks about no version in particular.
const ANY_VERSION: &str = "*";

/// Something that somebody wants to do.
#[derive(Clone)]
pub(crate) struct AccessQuestion<'a> {
    /// What roles look at.
    pub(crate) attributes: RequestAttributes<'a>,
    /// The state in which nodes are judged, and the node that is selected; without it they are not.
    pub(crate) node: Option<(&'a World, Option<String>)>,
    /// Whether what is allowed only because something refers to it counts.
    pub(crate) references: bool,
    pub(crate) version: &'a str,
    pub(crate) fields: Vec<Value>,
    pub(crate) labels: Vec<Value>,
}

impl<'a> AccessQuestion<'a> {
    /// A question that says no more than roles look at.
    pub(crate) fn plain(attributes: RequestAttributes<'a>) -> AccessQuestion<'a> {
        AccessQuestion {
            attributes,
            node: None,
            references: true,
            version: ANY_VERSION,
            fields: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// The question of a request. Selectors are read where somebody wants to know them.
    pub(crate) fn of_line(line: &'a RequestLine, selectors: bool) -> AccessQuestion<'a> {
        let mut question = AccessQuestion::plain(line.attributes());
        let Some(path) = line.resource() else { return question };
        question.version = &path.version;
        // Selectors narrow what is read or deleted as a collection, and not by the old form of a watch (R3).
        let narrows = matches!(line.verb(), "list" | "watch" | "deletecollection");
        if selectors && narrows && path.prefix.is_none() {
            question.fields = field_requirements(line.query().text("fieldSelector"));
            question.labels = label_requirements(line.query().text("labelSelector"));
        }
        question
    }

    /// The question that a review of access asks, beside what roles look at. Requirements that nobody understands are
    /// left out: they narrow.
    pub(crate) fn of_review(
        attributes: RequestAttributes<'a>,
        about: &'a Object,
    ) -> AccessQuestion<'a> {
        let mut question = AccessQuestion::plain(attributes);
        question.version = about.str_at(&["version"]).unwrap_or_default();
        question.fields = given(about, "fieldSelector", field_requirements, &["In", "NotIn"]);
        question.labels = given(
            about,
            "labelSelector",
            label_requirements,
            &["In", "NotIn", "Exists", "DoesNotExist"],
        );
        question
    }

    /// The spec of a review in version v1.
    pub(crate) fn spec(&self, user: &User) -> Object {
        let mut spec = Object::new();
        match &self.attributes {
            RequestAttributes::Path { verb, path } => {
                let about = said(&[("path", *path), ("verb", *verb)]);
                spec.insert("nonResourceAttributes".into(), Value::Object(about));
            }
            RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
                let mut about = said(&[
                    ("namespace", *namespace),
                    ("verb", *verb),
                    ("group", *group),
                    ("version", self.version),
                    ("resource", *resource),
                    ("subresource", *subresource),
                    ("name", *name),
                ]);
                for (member, all) in
                    [("fieldSelector", &self.fields), ("labelSelector", &self.labels)]
                {
                    if !all.is_empty() {
                        about.insert(member.into(), json!({ "requirements": all }));
                    }
                }
                spec.insert("resourceAttributes".into(), Value::Object(about));
            }
        }
        spec.extend(said(&[("user", &user.name), ("uid", &user.uid)]));
        if !user.groups.is_empty() {
            spec.insert("groups".into(), json!(user.groups));
        }
        if !user.extra.is_empty() {
            spec.insert("extra".into(), json!(user.extra));
        }
        spec
    }

    /// How many bytes of it whoever asks can choose.
    pub(crate) fn chosen_bytes(&self) -> usize {
        match &self.attributes {
            RequestAttributes::Path { verb, path } => verb.len() + path.len(),
            RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } => {
                let all = [*verb, *group, self.version, *resource, *subresource, *namespace, *name];
                all.iter().map(|text| text.len()).sum()
            }
        }
    }
}

/// Members that are not empty.
fn said(members: &[(&str, &str)]) -> Object {
    let said = members.iter().filter(|(_, text)| !text.is_empty());
    said.map(|(member, text)| ((*member).to_owned(), Value::from(*text))).collect()
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    let mut one = json!({ "key": key, "operator": operator });
    if let (Some(one), false) = (one.as_object_mut(), values.is_empty()) {
        one.insert("values".into(), json!(values));
    }
    one
}

/// The requirements of a selector that can be read; none of one that cannot.
fn field_requirements(text: &str) -> Vec<Value> {
    let parsed = FieldSelector::parse(text).unwrap_or_default();
    let all = parsed.requirements().iter();
    all.map(|one| requirement(&one.field, if one.equal { "In" } else { "NotIn" }, &[&one.value]))
        .collect()
}

fn label_requirements(text: &str) -> Vec<Value> {
    let parsed = LabelSelector::parse(text).unwrap_or_default();
    let all = parsed.requirements().iter();
    all.filter_map(|one| {
        let key = &one.key;
        Some(match &one.rule {
            LabelRule::Equals(value) => requirement(key, "In", &[value]),
            LabelRule::NotEquals(value) => requirement(key, "NotIn", &[value]),
            LabelRule::In(values) => requirement(key, "In", &borrowed(values)),
            LabelRule::NotIn(values) => requirement(key, "NotIn", &borrowed(values)),
            LabelRule::Exists => requirement(key, "Exists", &[]),
            LabelRule::Missing => requirement(key, "DoesNotExist", &[]),
            // Reviews have no word for these; leaving them out asks about more than is wanted.
            LabelRule::Greater(_) | LabelRule::Less(_) => return None,
        })
    })
    .collect()
}

fn borrowed(values: &[String]) -> Vec<&str> {
    values.iter().map(String::as_str).collect()
}

/// The requirements of a selector in a review, raw or one by one.
fn given(
    about: &Object,
    member: &str,
    read: fn(&str) -> Vec<Value>,
    operators: &[&str],
) -> Vec<Value> {
    let Some(selector) = about.map_at(&[member]) else { return Vec::new() };
    let requirements = selector.list_at(&["requirements"]);
    if requirements.is_empty() {
        return read(selector.str_at(&["rawSelector"]).unwrap_or_default());
    }
    let known = |one: &&Value| {
        let operator = one.get("operator").and_then(Value::as_str).unwrap_or_default();
        operators.contains(&operator)
    };
    requirements.iter().filter(known).cloned().collect()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r154b_selectors_become_requirements() {
        assert_eq!(
            field_requirements("spec.nodeName=n,status.phase!=Running"),
            [
                json!({"key": "spec.nodeName", "operator": "In", "values": ["n"]}),
                json!({"key": "status.phase", "operator": "NotIn", "values": ["Running"]}),
            ]
        );
        assert_eq!(
            label_requirements("a=1,b in (x,y),c,!d,e>5"),
            [
                json!({"key": "a", "operator": "In", "values": ["1"]}),
                json!({"key": "b", "operator": "In", "values": ["x", "y"]}),
                json!({"key": "c", "operator": "Exists"}),
                json!({"key": "d", "operator": "DoesNotExist"}),
            ]
        );
        assert_eq!(label_requirements("a in ("), Vec::<Value>::new());
    }

    #[test]
    fn r154b_a_review_says_only_what_there_is() {
        let user = User { name: "jane".into(), ..User::default() };
        let path = AccessQuestion::plain(RequestAttributes::Path { verb: "get", path: "/x" });
        assert_eq!(
            Value::Object(path.spec(&user)),
            json!({"user": "jane", "nonResourceAttributes": {"verb": "get", "path": "/x"}})
        );
        assert_eq!(path.chosen_bytes(), 5);
    }
}
