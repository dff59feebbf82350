//! How much of which request is written down, as an audit policy says it (R168).
//!
//! The first rule that a request fits decides. Fields and faults are upstream's (`audit.k8s.io/v1` Policy); which file
//! it comes from never lives here.

use serde_json::Value;
use tenure_machinery::{Errors, Object, Path, name};

use super::AuditLevel;
use super::entry::{AuditEvent, AuditStage};
use crate::authenticate::User;
use crate::fields::FieldReader;

const API_VERSION: &str = "audit.k8s.io/v1";
const KIND: &str = "Policy";
const LEVELS: [&str; 4] = ["None", "Metadata", "Request", "RequestResponse"];
const STAGES: [&str; 4] = ["RequestReceived", "ResponseStarted", "ResponseComplete", "Panic"];

/// Rules in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPolicy {
    rules: Vec<AuditRule>,
    /// What holds where no rule fits; nothing is written then but by a policy that has no rules.
    otherwise: AuditDecision,
}

/// What one rule is about, and what it says. Empty lists fit everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AuditRule {
    decision: AuditDecision,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    namespaces: Vec<String>,
    resources: Vec<AuditedResources>,
    urls: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AuditedResources {
    group: String,
    resources: Vec<String>,
    names: Vec<String>,
}

/// How much of a request is written down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditDecision {
    /// None for nothing.
    pub(crate) level: Option<AuditLevel>,
    /// Stages that have no line.
    omitted: Vec<&'static str>,
    /// Whether bodies are written without their managed fields.
    pub(crate) omits_managed_fields: bool,
}

impl AuditDecision {
    /// Whether a stage has a line.
    pub(crate) fn tells(&self, stage: AuditStage) -> bool {
        self.level.is_some() && !self.omitted.contains(&stage.name())
    }
}

impl AuditPolicy {
    /// The same for every request.
    #[must_use]
    pub fn of_level(level: AuditLevel) -> AuditPolicy {
        let otherwise = AuditDecision { level: Some(level), ..AuditDecision::default() };
        AuditPolicy { rules: Vec::new(), otherwise }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// All that is wrong with it, field by field.
    pub fn read(document: &Value) -> Result<AuditPolicy, Errors> {
        let mut errors = Errors::new();
        let mut policy = AuditPolicy::default();
        match document {
            Value::Object(document) => {
                let mut reader = FieldReader { errors: &mut errors };
                policy.rules = reader.audit_rules(document);
            }
            _ => errors.invalid(&Path::Root.field("kind"), "{}", "the document is no mapping"),
        }
        if errors.is_empty() { Ok(policy) } else { Err(errors) }
    }

    /// What holds for a request, by who makes it and not as whom.
    pub(super) fn decide(&self, entry: &AuditEvent, path: &str) -> &AuditDecision {
        let fits = |rule: &&AuditRule| rule.fits(entry, path);
        self.rules.iter().find(fits).map_or(&self.otherwise, |rule| &rule.decision)
    }
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|one| one == text)
}

impl AuditRule {
    fn fits(&self, entry: &AuditEvent, path: &str) -> bool {
        let user = entry.user.as_ref();
        let is_user = |user: &User| has(&self.users, &user.name);
        let is_member = |user: &User| user.groups.iter().any(|group| has(&self.groups, group));
        if !(self.users.is_empty() || user.is_some_and(is_user))
            || !(self.groups.is_empty() || user.is_some_and(is_member))
            || !(self.verbs.is_empty() || has(&self.verbs, &entry.verb))
        {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            let Some(object) = &entry.object else { return false };
            let about = (object.resource.as_str(), object.subresource.as_str());
            return (self.namespaces.is_empty() || has(&self.namespaces, &object.namespace))
                && (self.resources.is_empty()
                    || self.resources.iter().any(|of| of.fit(&object.group, about, &object.name)));
        }
        self.urls.is_empty()
            || (entry.object.is_none() && self.urls.iter().any(|url| leads(url, path)))
    }
}

impl AuditedResources {
    fn fit(&self, group: &str, (resource, subresource): (&str, &str), name: &str) -> bool {
        if self.group != group && self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let is = |said: &String| match said.split_once('/') {
            _ if said == "*" => true,
            None => said == resource && subresource.is_empty(),
            Some(("*", "*")) => true,
            Some(("*", sub)) => !subresource.is_empty() && sub == subresource,
            Some((of, "*")) => of == resource,
            Some((of, sub)) => of == resource && sub == subresource,
        };
        (self.names.is_empty() || has(&self.names, name)) && self.resources.iter().any(is)
    }
}

/// Whether a path is one of those that a rule names.
fn leads(url: &str, path: &str) -> bool {
    match url.strip_suffix('*') {
        Some(begin) => path.starts_with(begin),
        None => url == path,
    }
}

/// What the whole policy says, which rules add to.
struct PolicyDefaults {
    omitted: Vec<&'static str>,
    omits_managed_fields: bool,
}

impl FieldReader<'_> {
    fn audit_rules(&mut self, document: &Object) -> Vec<AuditRule> {
        let root = Path::Root;
        let members =
            ["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];
        self.known(document, &root, &members);
        self.document_is(document, &[API_VERSION], KIND);
        let usual = PolicyDefaults {
            omitted: self.audit_stages(document, &root),
            omits_managed_fields: self.flag(document, &root, "omitManagedFields").unwrap_or(false),
        };
        let path = root.field("rules");
        let list = self.list(document, &root, "rules");
        if list.is_empty() {
            self.errors.required(&path, "a policy has at least one rule");
        }
        let mut rules = Vec::new();
        for (index, one) in list.iter().enumerate() {
            let path = path.index(index);
            match one {
                Value::Object(one) => rules.push(self.audit_rule(one, &path, &usual)),
                other => self.no_mapping(&path, other),
            }
        }
        rules
    }

    fn audit_rule(&mut self, one: &Object, path: &Path<'_>, usual: &PolicyDefaults) -> AuditRule {
        let members = [
            "level",
            "users",
            "userGroups",
            "verbs",
            "resources",
            "namespaces",
            "nonResourceURLs",
            "omitStages",
            "omitManagedFields",
        ];
        self.known(one, path, &members);
        let level = match self.text(one, path, "level") {
            "" => {
                self.errors.required(&path.field("level"), "");
                None
            }
            "None" => None,
            "Metadata" => Some(AuditLevel::Metadata),
            "Request" => Some(AuditLevel::Request),
            "RequestResponse" => Some(AuditLevel::RequestResponse),
            other => {
                self.errors.not_supported(&path.field("level"), other, &LEVELS);
                None
            }
        };
        let mut omitted = self.audit_stages(one, path);
        omitted.extend(&usual.omitted);
        let omits = self.flag(one, path, "omitManagedFields");
        let omits_managed_fields = omits.unwrap_or(usual.omits_managed_fields);
        let urls = self.audit_urls(one, path);
        let resources = self.audited_resources(one, path);
        let namespaces = self.texts(one, path, "namespaces");
        let is_about_resources = !resources.is_empty() || !namespaces.is_empty();
        if is_about_resources && !urls.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            self.errors.invalid(&path.field("nonResourceURLs"), format_args!("{urls:?}"), why);
        }
        AuditRule {
            decision: AuditDecision { level, omitted, omits_managed_fields },
            users: self.texts(one, path, "users"),
            groups: self.texts(one, path, "userGroups"),
            verbs: self.texts(one, path, "verbs"),
            namespaces,
            resources,
            urls,
        }
    }

    fn audit_stages(&mut self, one: &Object, path: &Path<'_>) -> Vec<&'static str> {
        let said = self.texts(one, path, "omitStages");
        let path = path.field("omitStages");
        let mut found = Vec::new();
        for (index, stage) in said.iter().enumerate() {
            match STAGES.iter().find(|known| stage == **known) {
                Some(known) => found.push(*known),
                None => self.errors.not_supported(&path.index(index), stage, &STAGES),
            }
        }
        found
    }

    fn audit_urls(&mut self, one: &Object, path: &Path<'_>) -> Vec<String> {
        let urls = self.texts(one, path, "nonResourceURLs");
        let path = path.field("nonResourceURLs");
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let (at, shown) = (path.index(index), format!("{url:?}"));
            if !url.starts_with('/') {
                self.errors.invalid(&at, &shown, "must begin with a slash");
            }
            if url.strip_suffix('*').unwrap_or(url).contains('*') {
                self.errors.invalid(&at, &shown, "a wildcard must be the last character");
            }
        }
        urls
    }

    fn audited_resources(&mut self, one: &Object, path: &Path<'_>) -> Vec<AuditedResources> {
        let list = self.list(one, path, "resources");
        let path = path.field("resources");
        let mut found = Vec::new();
        for (index, one) in list.iter().enumerate() {
            let path = path.index(index);
            let Value::Object(one) = one else {
                self.no_mapping(&path, one);
                continue;
            };
            self.known(one, &path, &["group", "resources", "resourceNames"]);
            let group = self.text(one, &path, "group").to_owned();
            if !group.is_empty() && group != "*" {
                for why in name::dns_subdomain_faults(&group) {
                    self.errors.invalid(&path.field("group"), format_args!("{group:?}"), why);
                }
            }
            let resources = self.texts(one, &path, "resources");
            let names = self.texts(one, &path, "resourceNames");
            if !names.is_empty() && resources.is_empty() {
                let why = "using resourceNames requires at least one resource";
                self.errors.invalid(&path.field("resourceNames"), format_args!("{names:?}"), why);
            }
            found.push(AuditedResources { group, resources, names });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use serde_json::json;

    use super::super::entry::ObjectRef;
    use super::*;

    fn read(rules: Value) -> Result<AuditPolicy, String> {
        let policy = json!({ "apiVersion": API_VERSION, "kind": KIND, "rules": rules });
        AuditPolicy::read(&policy).map_err(|errors| {
            let causes = errors.into_causes().into_iter();
            let shown = causes.map(|cause| format!("{}: {}", cause.field, cause.message));
            shown.collect::<Vec<_>>().join("\n")
        })
    }

    fn event(user: &str, verb: &'static str, about: &str) -> AuditEvent {
        // group/resource/subresource/namespace/name, or nothing.
        let parts: Vec<&str> = about.split('/').collect();
        let object = match parts.as_slice() {
            [group, resource, subresource, namespace, name] => Some(ObjectRef {
                group: (*group).to_owned(),
                version: "v1".to_owned(),
                resource: (*resource).to_owned(),
                subresource: (*subresource).to_owned(),
                namespace: (*namespace).to_owned(),
                name: (*name).to_owned(),
            }),
            _ => None,
        };
        let groups = vec!["dev".to_owned()];
        let user = Some(User { name: user.to_owned(), groups, ..User::default() });
        AuditEvent { user, verb: verb.into(), object, ..AuditEvent::default() }
    }

    #[test]
    fn r168_the_first_rule_that_fits_decides() {
        let policy = read(json!([
            { "level": "None", "users": ["system:kube-proxy"], "verbs": ["watch"] },
            { "level": "Request", "resources": [{ "group": "", "resources": ["configmaps"], "resourceNames": ["a"] }] },
            { "level": "RequestResponse", "namespaces": ["prod"], "resources": [{ "group": "*", "resources": ["*/status", "pods"] }] },
            { "level": "Request", "resources": [{ "group": "apps" }] },
            { "level": "None", "nonResourceURLs": ["/healthz*", "/version"] },
            { "level": "Metadata", "userGroups": ["dev"] },
        ]))
        .unwrap();
        for (user, verb, about, path, wanted) in [
            ("system:kube-proxy", "watch", "/pods///", "", None),
            ("system:kube-proxy", "list", "/pods///", "", Some(AuditLevel::Metadata)),
            ("jane", "get", "/configmaps//x/a", "", Some(AuditLevel::Request)),
            ("jane", "get", "/configmaps//x/b", "", Some(AuditLevel::Metadata)),
            ("jane", "get", "/pods//prod/p", "", Some(AuditLevel::RequestResponse)),
            ("jane", "get", "/pods/log/prod/p", "", Some(AuditLevel::Metadata)),
            ("jane", "get", "batch/jobs/status/prod/p", "", Some(AuditLevel::RequestResponse)),
            ("jane", "get", "apps/deployments/scale/x/d", "", Some(AuditLevel::Request)),
            ("jane", "get", "", "/healthz/ping", None),
            ("jane", "get", "", "/version", None),
            ("jane", "get", "", "/versions", Some(AuditLevel::Metadata)),
        ] {
            let entry = event(user, verb, about);
            assert_eq!(policy.decide(&entry, path).level, wanted, "{user} {verb} {about} {path}");
        }
        let nobody = AuditEvent { user: None, ..event("", "get", "/pods//x/p") };
        assert_eq!(policy.decide(&nobody, "").level, None, "what no rule fits is not written");
    }

    #[test]
    fn r168_stages_and_managed_fields_are_left_out() {
        let document = json!({
            "apiVersion": API_VERSION, "kind": KIND, "omitStages": ["RequestReceived"],
            "omitManagedFields": true,
            "rules": [
                { "level": "Metadata", "verbs": ["watch"], "omitStages": ["ResponseStarted"] },
                { "level": "Metadata", "omitManagedFields": false },
            ],
        });
        let policy = AuditPolicy::read(&document).unwrap();
        let watch = policy.decide(&event("a", "watch", ""), "");
        assert!(watch.omits_managed_fields && !watch.tells(AuditStage::Started));
        assert!(watch.tells(AuditStage::Complete) && watch.tells(AuditStage::Panic));
        let other = policy.decide(&event("a", "get", ""), "");
        assert!(!other.omits_managed_fields && other.tells(AuditStage::Started));
    }

    #[test]
    fn r168_faults_name_their_field() {
        for (rules, said) in [
            (json!([]), "rules: Required value"),
            (json!({}), "rules: Invalid value: {}: must be a list"),
            (json!(["None"]), "rules[0]: Invalid value"),
            (json!([{}]), "rules[0].level: Required value"),
            (json!([{ "level": "metadata" }]), "rules[0].level: Unsupported value: \"metadata\""),
            (json!([{ "level": "None", "user": ["a"] }]), "rules[0].user: unknown field"),
            (
                json!([{ "level": "None", "users": "a" }]),
                "rules[0].users: Invalid value: \"a\": must be a list",
            ),
            (
                json!([{ "level": "None", "users": [1] }]),
                "rules[0].users[0]: Invalid value: 1: must be a string",
            ),
            (
                json!([{ "level": "None", "omitStages": ["End"] }]),
                "rules[0].omitStages[0]: Unsupported value",
            ),
            (
                json!([{ "level": "None", "nonResourceURLs": ["x"] }]),
                "rules[0].nonResourceURLs[0]: Invalid value",
            ),
            (
                json!([{ "level": "None", "nonResourceURLs": ["/a*b"] }]),
                "rules[0].nonResourceURLs[0]: Invalid value",
            ),
            (
                json!([{ "level": "None", "nonResourceURLs": ["/a"], "namespaces": ["b"] }]),
                "rules[0].nonResourceURLs: Invalid value",
            ),
            (
                json!([{ "level": "None", "resources": [{ "group": "apps/v1" }] }]),
                "rules[0].resources[0].group: Invalid value",
            ),
            (
                json!([{ "level": "None", "resources": [{ "resourceNames": ["a"] }] }]),
                "rules[0].resources[0].resourceNames: Invalid value",
            ),
        ] {
            let found = read(rules).unwrap_err();
            assert!(found.starts_with(said), "{found} instead of {said}");
        }
    }
}
