//! Role-based access as one would explain it: every rule of every binding is looked at for every question.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Person, RbacWrite, SimulatedRequest, line};

/// The kinds of which a PUT makes what is not there (R67).
const MADE_BY_PUT: [(&str, &str); 11] = [
    ("", "endpoints"),
    ("", "events"),
    ("", "limitranges"),
    ("", "services"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("node.k8s.io", "runtimeclasses"),
    (ROLES, "clusterrolebindings"),
    (ROLES, "clusterroles"),
    (ROLES, "rolebindings"),
    (ROLES, "roles"),
];
const ROLES: &str = "rbac.authorization.k8s.io";

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of access rules")]
pub enum ModelAttributes {
    /// Nobody can say.
    Malformed,
    /// A path outside the API.
    Path { verb: String, path: String },
    /// Something in the API.
    Resource {
        verb: String,
        group: String,
        resource: String,
        subresource: String,
        namespace: String,
        name: String,
    },
}

impl ModelAttributes {
    /// Whether such a request makes what it names where that is not there.
    #[must_use]
    pub fn creates_where_absent(&self, applies: bool) -> bool {
        let ModelAttributes::Resource { verb, group, resource, subresource, name, .. } = self
        else {
            return false;
        };
        let whole = subresource.is_empty() && !name.is_empty();
        let puts = MADE_BY_PUT.contains(&(group.as_str(), resource.as_str()));
        whole && ((verb == "update" && puts) || (verb == "patch" && applies))
    }
}

/// A rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of the API")]
pub struct ModelRule {
    pub verbs: Vec<String>,
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub names: Vec<String>,
    pub urls: Vec<String>,
}

/// A Role, or a ClusterRole without a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of the API")]
pub struct ModelRole {
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub upkeep: usize,
    pub rules: Vec<ModelRule>,
    /// A label and its value for each role that is gathered; `None` for a role with rules of its own.
    pub gathers: Option<Vec<(String, String)>>,
}

/// A RoleBinding, or a ClusterRoleBinding without a namespace. Subjects are a kind, a namespace and a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of the API")]
pub struct ModelBinding {
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub upkeep: usize,
    pub role: (String, String),
    pub subjects: Vec<(String, String, String)>,
}

/// What is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RbacObject {
    /// A role.
    Role(ModelRole),
    /// A binding.
    Binding(ModelBinding),
}

impl RbacObject {
    /// Namespace and name.
    #[must_use]
    pub fn place(&self) -> (&str, &str) {
        match self {
            RbacObject::Role(role) => (&role.namespace, &role.name),
            RbacObject::Binding(binding) => (&binding.namespace, &binding.name),
        }
    }

    /// As an object of the API.
    #[must_use]
    pub fn to_object(&self) -> Map<String, Value> {
        let (namespace, name) = self.place();
        let (kind, labels, upkeep) = match self {
            RbacObject::Role(role) => ("Role", &role.labels, role.upkeep),
            RbacObject::Binding(binding) => ("RoleBinding", &binding.labels, binding.upkeep),
        };
        let kind = if namespace.is_empty() { format!("Cluster{kind}") } else { kind.to_owned() };
        let mut object = json!({
            "kind": kind,
            "metadata": { "name": name, "namespace": namespace, "labels": labels },
        });
        if upkeep > 0 {
            object["metadata"]["finalizers"] = json!([format!("sim/{upkeep}")]);
        }
        match self {
            RbacObject::Role(role) => {
                object["rules"] = role.rules.iter().map(ModelRule::to_value).collect();
                if let Some(gathers) = &role.gathers {
                    let selector =
                        |(key, value): &(String, String)| json!({ "matchLabels": { key: value } });
                    let selectors: Vec<Value> = gathers.iter().map(selector).collect();
                    object["aggregationRule"] = json!({ "clusterRoleSelectors": selectors });
                }
            }
            RbacObject::Binding(binding) => {
                let (kind, name) = &binding.role;
                object["roleRef"] = json!({ "apiGroup": ROLES, "kind": kind, "name": name });
                let subject = |(kind, namespace, name): &(String, String, String)| json!({ "kind": kind, "namespace": namespace, "name": name });
                object["subjects"] = binding.subjects.iter().map(subject).collect();
            }
        }
        object.as_object().cloned().unwrap_or_default()
    }

    /// Whether it says the same as another, apart from what collectors change.
    fn says_the_same(&self, other: &RbacObject) -> bool {
        let plain = |stored: &RbacObject| match stored.clone() {
            RbacObject::Role(role) => RbacObject::Role(ModelRole { upkeep: 0, ..role }),
            RbacObject::Binding(binding) => {
                RbacObject::Binding(ModelBinding { upkeep: 0, ..binding })
            }
        };
        plain(self) == plain(other)
    }
}

impl ModelRule {
    fn to_value(&self) -> Value {
        let mut value = json!({ "verbs": self.verbs });
        for (key, list) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ] {
            if !list.is_empty() {
                value[key] = json!(list);
            }
        }
        value
    }

    fn allows(&self, requests: &ModelAttributes) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|it| it == "*" || it == wanted);
        match requests {
            ModelAttributes::Malformed => false,
            ModelAttributes::Path { verb, path } => {
                has(&self.verbs, verb)
                    && self.urls.iter().any(|url| match url.strip_suffix('*') {
                        Some(start) => path.starts_with(start),
                        None => url == path,
                    })
            }
            ModelAttributes::Resource { verb, group, resource, subresource, name, .. } => {
                let means = |held: &String| match held.split_once('/') {
                    None if held == "*" => true,
                    None => subresource.is_empty() && held == resource,
                    Some((of, below)) => {
                        (of == "*" || of == resource) && below == subresource && !below.is_empty()
                    }
                };
                has(&self.verbs, verb)
                    && has(&self.groups, group)
                    && self.resources.iter().any(means)
                    && (self.names.is_empty() || self.names.contains(name))
            }
        }
    }

    /// The rule, taken apart into rules of one verb on one thing.
    fn parts(&self) -> Vec<ModelRule> {
        let one = |text: &String| vec![text.clone()];
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for url in &self.urls {
                parts.push(ModelRule { verbs: one(verb), urls: one(url), ..ModelRule::default() });
            }
            for group in &self.groups {
                for resource in &self.resources {
                    let whole = ModelRule {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..ModelRule::default()
                    };
                    if self.names.is_empty() {
                        parts.push(whole.clone());
                    }
                    for name in &self.names {
                        parts.push(ModelRule { names: one(name), ..whole.clone() });
                    }
                }
            }
        }
        parts
    }

    /// Whether holding this is holding that part: only `*` stands for `*`.
    fn covers(&self, part: &ModelRule) -> bool {
        let has = |held: &[String], wanted: &[String]| {
            wanted.iter().all(|wanted| held.iter().any(|held| held == "*" || held == wanted))
        };
        if !has(&self.verbs, &part.verbs) {
            return false;
        }
        if let [url] = part.urls.as_slice() {
            return self.names.is_empty()
                && self.urls.iter().any(|held| match held.strip_suffix('*') {
                    Some(start) => held == url || url.starts_with(start),
                    None => held == url,
                });
        }
        let resource = |wanted: &String| {
            self.resources.iter().any(|held| {
                let below = wanted.split_once('/').map(|(_, below)| format!("*/{below}"));
                held == "*" || held == wanted || Some(held) == below.as_ref()
            })
        };
        has(&self.groups, &part.groups)
            && part.resources.iter().all(resource)
            && (self.names.is_empty()
                || (!part.names.is_empty()
                    && part.names.iter().all(|name| self.names.contains(name))))
    }
}

/// Every role and binding.
#[derive(Clone, Debug, Default)]
pub struct Model {
    roles: BTreeMap<(String, String), ModelRole>,
    bindings: BTreeMap<(String, String), ModelBinding>,
}

impl Model {
    /// Stores something in place of what stands.
    pub fn put(&mut self, stored: RbacObject) {
        let (namespace, name) = stored.place();
        let place = (namespace.to_owned(), name.to_owned());
        match stored {
            RbacObject::Role(role) => drop(self.roles.insert(place, role)),
            RbacObject::Binding(binding) => drop(self.bindings.insert(place, binding)),
        }
    }

    /// Removes something.
    pub fn remove(&mut self, stored: &RbacObject) {
        let (namespace, name) = stored.place();
        let place = (namespace.to_owned(), name.to_owned());
        match stored {
            RbacObject::Role(_) => drop(self.roles.remove(&place)),
            RbacObject::Binding(_) => drop(self.bindings.remove(&place)),
        }
    }

    /// Everything that is stored.
    #[must_use]
    pub fn all(&self) -> Vec<RbacObject> {
        let roles = self.roles.values().cloned().map(RbacObject::Role);
        roles.chain(self.bindings.values().cloned().map(RbacObject::Binding)).collect()
    }

    /// Everything that is stored, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.all().iter().map(|stored| Value::Object(stored.to_object()).to_string()).collect()
    }

    /// What stands at a place.
    #[must_use]
    pub fn existing(&self, like: &RbacObject) -> Option<RbacObject> {
        let (namespace, name) = like.place();
        let place = (namespace.to_owned(), name.to_owned());
        match like {
            RbacObject::Role(_) => self.roles.get(&place).cloned().map(RbacObject::Role),
            RbacObject::Binding(_) => self.bindings.get(&place).cloned().map(RbacObject::Binding),
        }
    }

    /// The rules of a role: its own, or those of every plain role that it leads to.
    fn rules<'a>(&'a self, role: &'a ModelRole) -> Vec<&'a ModelRule> {
        let mut found = Vec::new();
        let mut met: BTreeSet<&str> = BTreeSet::new();
        let mut ahead = vec![role];
        while let Some(role) = ahead.pop() {
            if !met.insert(&role.name) {
                continue;
            }
            let Some(gathers) = &role.gathers else {
                found.extend(&role.rules);
                continue;
            };
            ahead.extend(self.roles.values().filter(|other| {
                other.namespace.is_empty()
                    && gathers.iter().any(|(key, value)| other.labels.get(key) == Some(value))
            }));
        }
        found
    }

    /// Every rule that somebody holds in a namespace; in the whole cluster if it is empty.
    fn held(&self, person: &Person, namespace: &str) -> Vec<&ModelRule> {
        let mut held = Vec::new();
        for binding in self.bindings.values() {
            let here = binding.namespace.is_empty() || binding.namespace == namespace;
            let means = |(kind, namespace, name): &(String, String, String)| match kind.as_str() {
                "User" => person.user == *name,
                "Group" => person.groups.contains(name),
                _ => {
                    let home = if namespace.is_empty() { &binding.namespace } else { namespace };
                    !home.is_empty()
                        && person.user == format!("system:serviceaccount:{home}:{name}")
                }
            };
            if here && binding.subjects.iter().any(means) {
                held.extend(self.bound(binding).into_iter().flat_map(|role| self.rules(role)));
            }
        }
        held
    }

    fn bound(&self, binding: &ModelBinding) -> Option<&ModelRole> {
        let (kind, name) = &binding.role;
        let home = match kind.as_str() {
            "ClusterRole" => "",
            _ if binding.namespace.is_empty() => return None,
            _ => &binding.namespace,
        };
        self.roles.get(&(home.to_owned(), name.clone()))
    }

    /// Whether somebody may do it.
    #[must_use]
    pub fn allows(&self, person: &Person, requests: &ModelAttributes) -> bool {
        let namespace = match requests {
            ModelAttributes::Malformed => return false,
            ModelAttributes::Path { .. } => "",
            ModelAttributes::Resource { namespace, .. } => namespace,
        };
        is_master(person) || self.held(person, namespace).iter().any(|rule| rule.allows(requests))
    }

    /// Whether a request is let through, and whether it would create by updating.
    #[must_use]
    pub fn decide(&self, person: &Person, request: &SimulatedRequest) -> (bool, bool) {
        let requests = line::attributes(&request.method, &request.target);
        let creates = !request.exists && requests.creates_where_absent(request.applies);
        let mut allowed = self.allows(person, &requests);
        let mut creation = requests;
        if let (true, ModelAttributes::Resource { verb, .. }) = (creates, &mut creation) {
            "create".clone_into(verb);
            allowed = allowed && self.allows(person, &creation);
        }
        (allowed, creates)
    }

    fn covers(&self, person: &Person, namespace: &str, rules: &[&ModelRule]) -> bool {
        let held = self.held(person, namespace);
        let mut parts = rules.iter().flat_map(|rule| rule.parts());
        parts.all(|part| held.iter().any(|held| held.covers(&part)))
    }

    /// Whether somebody may write it: only who holds what it hands out, or a verb for just this.
    #[must_use]
    pub fn may_write(&self, person: &Person, change: &RbacWrite) -> bool {
        if change.old.as_ref().is_some_and(|old| old.says_the_same(&change.new)) {
            return true;
        }
        if is_master(person) || self.is_licensed(person, change) {
            return true;
        }
        match &change.new {
            RbacObject::Role(role) => {
                let aggregated =
                    |role: &ModelRole| role.gathers.as_ref().is_some_and(|g| !g.is_empty());
                let was = match &change.old {
                    Some(RbacObject::Role(old)) => aggregated(old),
                    _ => false,
                };
                if aggregated(role) || was {
                    let [resources, paths] = everything();
                    return self.covers(person, &role.namespace, &[&resources, &paths]);
                }
                let rules: Vec<&ModelRule> = role.rules.iter().collect();
                self.covers(person, &role.namespace, &rules)
            }
            RbacObject::Binding(binding) => self
                .bound(binding)
                .is_some_and(|role| self.covers(person, &binding.namespace, &self.rules(role))),
        }
    }

    /// Whether somebody holds `escalate` for the role, or `bind` for the role of the binding.
    #[must_use]
    pub fn is_licensed(&self, person: &Person, change: &RbacWrite) -> bool {
        let (verb, resource, namespace, name) = match &change.new {
            RbacObject::Role(role) => {
                let resource = if role.namespace.is_empty() { "clusterroles" } else { "roles" };
                let name = if change.old.is_some() { role.name.as_str() } else { "" };
                ("escalate", resource, &role.namespace, name)
            }
            RbacObject::Binding(binding) => {
                let cluster = binding.role.0 == "ClusterRole";
                let resource = if cluster { "clusterroles" } else { "roles" };
                ("bind", resource, &binding.namespace, binding.role.1.as_str())
            }
        };
        let requests = ModelAttributes::Resource {
            verb: verb.to_owned(),
            group: ROLES.to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: namespace.clone(),
            name: name.to_owned(),
        };
        self.allows(person, &requests)
    }
}

fn is_master(person: &Person) -> bool {
    person.groups.iter().any(|group| group == "system:masters")
}

fn everything() -> [ModelRule; 2] {
    let star = || vec!["*".to_owned()];
    [
        ModelRule { verbs: star(), groups: star(), resources: star(), ..ModelRule::default() },
        ModelRule { verbs: star(), urls: star(), ..ModelRule::default() },
    ]
}
