//! The opt-in of ConfigMaps and Secrets to retention (spec/retention.md, sections 2 and 8): who may, when, and what is
//! worth telling. Who becomes owner, and what is collected when, is decided elsewhere.

use serde_json::Value;
use tenure_machinery::{Errors, Kind, Object, ObjectExt, Path};

pub use crate::podspec::ReferenceKind;
use crate::podspec::template_references;

/// The member that opts in.
pub const FIELD: &str = "controllersAsOwners";

/// The annotation that opts in on clusters without the member.
pub const ANNOTATION: &str = "tenure.dev/controllers-as-owners";

const WHY_IMMUTABLE: &str = "field is immutable: it may be set only at creation";

/// Namespaces of the cluster itself, whose objects nobody may opt in by accident.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Secrets that belong to the cluster, wherever they are.
const SYSTEM_TYPES: [&str; 2] =
    ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"];

/// How the opt-in is treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionOptions {
    /// Whether anybody may opt in; what is stored already stays as it is.
    pub enabled: bool,
    /// System namespaces whose objects may opt in all the same.
    pub namespaces: Vec<String>,
    /// Whether a subject that can change in place is answered with a warning.
    pub hints: bool,
}

impl Default for RetentionOptions {
    fn default() -> RetentionOptions {
        RetentionOptions { enabled: true, namespaces: Vec::new(), hints: false }
    }
}

/// Whether objects of a kind can opt in.
#[must_use]
pub fn is_subject(kind: &Kind) -> bool {
    matches!(kind.type_name.as_ref(), "api.core.v1.ConfigMap" | "api.core.v1.Secret")
}

/// How the stored text of an object that opted in says so. Nothing else in a ConfigMap or Secret can:
/// there is no other boolean of that name, and inside of strings quotes are escaped.
pub const OPTED_IN_TEXT: &str = "\"controllersAsOwners\":true";

/// Whether an object is opted in.
#[must_use]
pub fn opted_in(object: &Object) -> bool {
    object.bool_at(&[FIELD]) == Some(true)
}

/// What to tell a client whose patch takes the member away: it stays (R4).
#[must_use]
pub fn kept(old: &Object, new: &Object) -> Option<String> {
    let gone = new.get(FIELD).is_none_or(Value::is_null);
    (opted_in(old) && gone).then(|| format!("{FIELD}: {WHY_IMMUTABLE}; it stays true"))
}

impl RetentionOptions {
    /// Brings a written object into its stored form: member and annotation are one setting (R8), absent means
    /// unchanged (R4), and while nobody may opt in the member is dropped unless it is stored.
    pub fn settle(&self, object: &mut Object, old: Option<&Object>) {
        let absent = object.get(FIELD).is_none_or(Value::is_null);
        match old {
            None if !self.enabled => {
                object.remove(FIELD);
            }
            None if absent && annotation(object) == Some("true") => {
                object.insert(FIELD.to_owned(), true.into());
            }
            None => {}
            Some(old) => match old.get(FIELD) {
                Some(stored) if absent => {
                    object.insert(FIELD.to_owned(), stored.clone());
                }
                None if !self.enabled => {
                    object.remove(FIELD);
                }
                _ => {}
            },
        }
    }

    /// What is wrong with the opt-in of a settled object.
    pub fn validate(&self, object: &Object, old: Option<&Object>, errors: &mut Errors) {
        let now = opted_in(object);
        match old {
            Some(old) if opted_in(old) != now => {
                errors.invalid(&Path::Root.field(FIELD), now, WHY_IMMUTABLE);
            }
            None if now => self.validate_who(object, errors),
            _ => {}
        }
        if self.enabled {
            validate_annotation(object, old, errors);
        }
    }

    /// What belongs to the cluster cannot opt in (R11).
    fn validate_who(&self, object: &Object, errors: &mut Errors) {
        let namespace = object.namespace();
        let path = Path::Root.field(FIELD);
        let secret = object.str_at(&["type"]).unwrap_or_default();
        if SYSTEM_TYPES.contains(&secret) {
            let why = format!("a Secret of type {secret} cannot opt in (retention R11)");
            errors.forbidden(&path, &why);
        }
        if object.str_at(&["kind"]) == Some("ConfigMap") && object.name() == "kube-root-ca.crt" {
            let why = "the ConfigMap kube-root-ca.crt cannot opt in (retention R11)";
            errors.forbidden(&path, why);
        }
        let allowed = self.namespaces.iter().any(|other| other == namespace);
        if SYSTEM_NAMESPACES.contains(&namespace) && !allowed {
            let why = format!("objects in namespace {namespace} cannot opt in (retention R11)");
            errors.forbidden(&path, &why);
        }
    }

    /// What to tell about a new object that changes in place (R61).
    #[must_use]
    pub fn hint(&self, object: &Object) -> Option<String> {
        let fixed = object.bool_at(&["immutable"]) == Some(true);
        if !self.hints || !opted_in(object) || fixed || has_content_suffix(object.name()) {
            return None;
        }
        Some(format!(
            "{:?} is opted in to retention and can change in place: a rollback brings back its name, \
             not its content. Set immutable: true and give every content a name of its own, such as {}-<hash>",
            object.name(),
            object.name(),
        ))
    }
}

/// The annotation says what the member says, before and after (R7, R8). What was stored before the rule is left alone.
fn validate_annotation(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let given = annotation(object);
    if old.is_some_and(|old| annotation(old) == given) {
        return;
    }
    let metadata = Path::Root.field("metadata");
    let path = metadata.field("annotations");
    let path = path.key(ANNOTATION);
    let agrees = match given {
        None => true,
        Some("true") => opted_in(object),
        Some("false") => !opted_in(object),
        Some(other) => {
            errors.not_supported(&path, other, &["true", "false"]);
            return;
        }
    };
    if !agrees {
        let differs = format!("differs from {FIELD}");
        let why = if old.is_some() { WHY_IMMUTABLE } else { &differs };
        errors.invalid(&path, format_args!("{:?}", given.unwrap_or_default()), why);
    }
}

fn annotation(object: &Object) -> Option<&str> {
    object.str_at(&["metadata", "annotations", ANNOTATION])
}

/// Whether a name ends as tools end names that stand for one content: a hash or a number.
fn has_content_suffix(name: &str) -> bool {
    let Some((_, last)) = name.rsplit_once('-') else { return false };
    let digits = last.bytes().filter(u8::is_ascii_digit).count();
    let number = last.trim_start_matches('v');
    let counts = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let hashed = last.len() >= 5 && last.bytes().all(|byte| byte.is_ascii_alphanumeric());
    // Words have no digits; the alphabet of generated names has no vowels.
    counts || (hashed && (digits > 0 || !last.contains(['a', 'e', 'i', 'o', 'u', 'y'])))
}

/// What an object mentions whose kind does not retain it (R25, R60): a Job, a CronJob, a PodTemplate, or a pod that
/// nobody controls.
#[must_use]
pub fn unretained<'a>(kind: &Kind, object: &'a Object) -> Vec<(ReferenceKind, &'a str)> {
    let template = match kind.type_name.as_ref() {
        "api.batch.v1.Job" => object.map_at(&["spec", "template"]),
        "api.batch.v1.CronJob" => object.map_at(&["spec", "jobTemplate", "spec", "template"]),
        "api.core.v1.PodTemplate" => object.map_at(&["template"]),
        "api.core.v1.Pod" => Some(object).filter(|pod| !is_controlled(pod)),
        _ => None,
    };
    let found = template.map(template_references).unwrap_or_default();
    found.names.into_iter().collect()
}

fn is_controlled(object: &Object) -> bool {
    let owners = object.list_at(&["metadata", "ownerReferences"]).iter();
    owners.filter_map(|owner| owner.get("controller")).any(|value| value == &Value::Bool(true))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/retention.md.

    use serde_json::json;

    use super::*;
    use crate::check::row;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    fn annotated(text: &str) -> Value {
        json!({ "metadata": { "annotations": { ANNOTATION: text } } })
    }

    /// The causes after an object was settled, and whether it is opted in.
    fn written(rules: &RetentionOptions, new: Value, old: Option<Value>) -> (bool, Vec<String>) {
        let (mut new, old) = (object(new), old.map(object));
        rules.settle(&mut new, old.as_ref());
        let mut errors = Errors::new();
        rules.validate(&new, old.as_ref(), &mut errors);
        let causes = errors.causes().iter().map(|c| format!("{} {}", c.field, c.reason.as_str()));
        (opted_in(&new), causes.collect())
    }

    #[test]
    fn r2_r3_r4_a_change_is_refused_and_absent_is_none() {
        let rules = RetentionOptions::default();
        let (yes, no, absent) = (json!({FIELD: true}), json!({FIELD: false}), json!({}));
        let refused = vec!["controllersAsOwners FieldValueInvalid".to_owned()];
        for (old, new, opted, causes) in [
            (&yes, &no, false, refused.clone()),
            (&no, &yes, true, refused.clone()),
            (&absent, &yes, true, refused),
            (&absent, &no, false, vec![]),
            (&no, &absent, false, vec![]),
            (&yes, &absent, true, vec![]),
            (&yes, &json!({FIELD: null}), true, vec![]),
            (&yes, &yes, true, vec![]),
        ] {
            let said = written(&rules, new.clone(), Some(old.clone()));
            assert_eq!(said, (opted, causes), "{old} to {new}");
        }
    }

    #[test]
    fn r6_r8_annotation_and_member_are_one_setting() {
        let rules = RetentionOptions::default();
        let at = "metadata.annotations[tenure.dev/controllers-as-owners]";
        assert_eq!(written(&rules, annotated("true"), None), (true, vec![]));
        assert_eq!(written(&rules, annotated("false"), None), (false, vec![]));
        for text in ["True", "1", "", "include-jobs"] {
            let expected = vec![format!("{at} FieldValueNotSupported")];
            assert_eq!(written(&rules, annotated(text), None), (false, expected), "{text:?}");
        }
        for (text, member) in [("true", false), ("false", true)] {
            let mut both = annotated(text);
            both[FIELD] = json!(member);
            let expected = vec![format!("{at} FieldValueInvalid")];
            assert_eq!(written(&rules, both, None), (member, expected));
        }
        // On update the member that is stored decides.
        let stored = Some(json!({FIELD: true}));
        assert_eq!(written(&rules, annotated("true"), stored.clone()), (true, vec![]));
        let expected = vec![format!("{at} FieldValueInvalid")];
        assert_eq!(written(&rules, annotated("false"), stored), (true, expected.clone()));
        assert_eq!(written(&rules, annotated("true"), Some(json!({}))), (false, expected));
        // What was stored while nobody looked stays as it is.
        assert_eq!(written(&rules, annotated("1"), Some(annotated("1"))), (false, vec![]));
    }

    #[test]
    fn r11_what_belongs_to_the_cluster_cannot_opt_in() {
        let rules = RetentionOptions::default();
        let place = |namespace: &str, name: &str| json!({ "namespace": namespace, "name": name });
        let table = [
            (json!({"kind": "ConfigMap", "metadata": place("kube-system", "a")}), 1),
            (json!({"kind": "ConfigMap", "metadata": place("kube-public", "a")}), 1),
            (json!({"kind": "Secret", "metadata": place("kube-node-lease", "a")}), 1),
            (json!({"kind": "ConfigMap", "metadata": place("shop", "kube-root-ca.crt")}), 1),
            (json!({"kind": "Secret", "metadata": place("shop", "kube-root-ca.crt")}), 0),
            (json!({"kind": "Secret", "type": SYSTEM_TYPES[0], "metadata": place("shop", "a")}), 1),
            (json!({"kind": "Secret", "type": SYSTEM_TYPES[1], "metadata": place("shop", "a")}), 1),
            (json!({"kind": "Secret", "type": "Opaque", "metadata": place("shop", "a")}), 0),
        ];
        for (mut body, faults) in table {
            body[FIELD] = json!(true);
            assert_eq!(written(&rules, body.clone(), None).1.len(), faults, "{body}");
            body[FIELD] = json!(false);
            assert_eq!(written(&rules, body.clone(), None).1.len(), 0, "{body}");
        }
        let open = RetentionOptions { namespaces: vec!["kube-system".to_owned()], ..rules };
        let body = json!({"kind": "ConfigMap", FIELD: true, "metadata": place("kube-system", "a")});
        assert_eq!(written(&open, body, None), (true, vec![]));
    }

    #[test]
    fn r70_while_nobody_may_opt_in_only_what_is_stored_stays() {
        let rules = RetentionOptions { enabled: false, ..RetentionOptions::default() };
        assert_eq!(written(&rules, json!({FIELD: true}), None), (false, vec![]));
        assert_eq!(written(&rules, annotated("1"), None), (false, vec![]));
        assert_eq!(written(&rules, json!({FIELD: true}), Some(json!({}))), (false, vec![]));
        let stored = Some(json!({FIELD: true}));
        assert_eq!(written(&rules, json!({}), stored.clone()), (true, vec![]));
        assert_eq!(written(&rules, json!({FIELD: false}), stored).1.len(), 1);
    }

    #[test]
    fn r61_only_subjects_that_change_in_place_are_told() {
        let rules = RetentionOptions { hints: true, ..RetentionOptions::default() };
        let told = |body: Value| rules.hint(&object(body)).is_some();
        let named = |name: &str| json!({FIELD: true, "metadata": {"name": name}});
        for name in ["settings", "app-settings", "web-config", "kube-root-ca.crt"] {
            assert!(told(named(name)), "{name}");
        }
        for name in ["app-7f9c", "app-bkg47t2m8h", "app-3", "app-v12", "app-ver-4", "a-5d9c8b7f6"] {
            assert_eq!(told(named(name)), name == "app-7f9c", "{name}");
        }
        assert!(!told(json!({FIELD: true, "immutable": true, "metadata": {"name": "settings"}})));
        assert!(!told(json!({"metadata": {"name": "settings"}})));
        assert!(RetentionOptions::default().hint(&object(named("settings"))).is_none());
    }

    #[test]
    fn r60_kinds_that_do_not_retain() {
        let spec = json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]});
        let template = json!({ "spec": spec });
        let of = |group: &str, kind: &str, body: &Value| {
            let object = object(body.clone());
            let found = unretained(&row(group, kind), &object);
            found.iter().map(|(kind, name)| (*kind, (*name).to_owned())).collect::<Vec<_>>()
        };
        let one = [(ReferenceKind::ConfigMap, "c".to_owned())];
        assert_eq!(of("batch", "Job", &json!({"spec": {"template": template}})), one);
        let cron = json!({"spec": {"jobTemplate": {"spec": {"template": template}}}});
        assert_eq!(of("batch", "CronJob", &cron), one);
        assert_eq!(of("", "PodTemplate", &json!({ "template": template })), one);
        assert_eq!(of("", "Pod", &json!({ "spec": spec })), one);
        let owned = json!({"spec": spec, "metadata": {"ownerReferences": [{"controller": true}]}});
        assert_eq!(of("", "Pod", &owned), []);
        assert_eq!(of("apps", "Deployment", &json!({"spec": {"template": template}})), []);
    }
}
