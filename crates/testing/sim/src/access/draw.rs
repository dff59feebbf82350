//! Random people, roles, bindings and request lines: small enough a world that they meet, odd enough that every turn
//! of the reading is taken.

use std::collections::BTreeMap;

use super::model::{Model, ModelAttributes, ModelBinding, ModelRole, ModelRule, RbacObject};
use super::{OFFERED, Person, RbacWrite, ResourceVerb, SimulatedRequest};
use crate::random::Random;

/// Label selectors that can be read, and those that cannot.
pub(super) const GOOD_LABELS: [&str; 4] = ["", "a=b", "a in (b,c),d", "!a"];
/// See [`GOOD_LABELS`].
pub(super) const BAD_LABELS: [&str; 3] = [",", "a in", "=b"];

const NAMESPACES: [&str; 3] = ["m", "n", "status"];
const NAMES: [&str; 5] = ["a", "b", "c", "r0", "m"];
const ROLE_NAMES: [&str; 4] = ["r0", "r1", "r2", "view"];
const LABELS: [(&str, &str); 3] = [("to-view", "true"), ("to-r0", "true"), ("to-r1", "true")];
const VERBS: [&str; 14] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "bind",
    "escalate",
    "impersonate",
    "proxy",
    "head",
    "*",
];
const GROUPS: [&str; 5] = ["", "apps", "rbac.authorization.k8s.io", "coordination.k8s.io", "*"];
const RESOURCES: [&str; 16] = [
    "pods",
    "configmaps",
    "secrets",
    "namespaces",
    "namespaces/finalize",
    "services",
    "deployments",
    "deployments/scale",
    "*/scale",
    "pods/*",
    "pods/exec",
    "leases",
    "roles",
    "rolebindings",
    "clusterroles",
    "*",
];
const URLS: [&str; 8] =
    ["/healthz", "/healthz/*", "/api*", "/metrics", "/x*", "*", "/api/v1", "/version"];
/// What requests ask for most, beside everything that is built in.
const HOT: [(&str, &str, &str); 10] = [
    ("", "pods", ""),
    ("", "configmaps", ""),
    ("", "namespaces", ""),
    ("", "namespaces", "finalize"),
    ("", "services", ""),
    ("apps", "deployments", "scale"),
    ("coordination.k8s.io", "leases", ""),
    ("rbac.authorization.k8s.io", "roles", ""),
    ("rbac.authorization.k8s.io", "rolebindings", ""),
    ("rbac.authorization.k8s.io", "clusterroles", ""),
];
const FIELDS: [&str; 14] = [
    "metadata.name=a",
    "metadata.name==b",
    "metadata.name!=a",
    "metadata.name=a,metadata.name=b",
    "spec.x=y,metadata.name=a",
    "metadata.name=a,metadata.namespace=m",
    "metadata.name=a,foo",
    "metadata.name=",
    "metadata.name=..",
    "metadata.name=a/b",
    "metadata.name=a\\,b",
    "metadata.name=a\\x",
    "metadata.name=a=b",
    "",
];
const METHODS: [&str; 10] =
    ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "get", "FOO"];
const PATHS: [&str; 14] = [
    "/",
    "//",
    "/healthz",
    "/healthz/",
    "/%68ealthz",
    "/metrics",
    "/version",
    "/api",
    "/api/v1",
    "/apis/apps/v1",
    "/api/",
    "/x/y/z",
    "//healthz",
    "/api/%zz",
];

/// A source of everything random.
pub struct Draw {
    random: Random,
}

impl Draw {
    /// All that follows from a stream of numbers.
    #[must_use]
    pub fn new(random: Random) -> Draw {
        Draw { random }
    }

    /// A number from `low` to below `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.random.below(high - low)
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: usize) -> bool {
        self.random.once_in(of)
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.random.below(from.len())]
    }

    fn some(&mut self, from: &[&str], most: usize) -> Vec<String> {
        let count = self.between(1, most + 1);
        (0..count).map(|_| self.pick(from).to_owned()).collect()
    }

    /// Somebody.
    pub fn person(&mut self) -> Person {
        let users = ["u", "v", "w", "system:serviceaccount:m:a", "system:serviceaccount:n:b"];
        let user = self.pick(&users).to_owned();
        let mut groups = vec!["system:authenticated".to_owned()];
        for group in ["g", "h"] {
            if self.once_in(3) {
                groups.push(group.to_owned());
            }
        }
        if self.once_in(200) {
            groups.push("system:masters".to_owned());
        }
        Person { user, groups }
    }

    fn namespace(&mut self) -> String {
        if self.once_in(3) { String::new() } else { self.pick(&["m", "n"]).to_owned() }
    }

    fn labels(&mut self) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        for (key, value) in LABELS {
            if self.once_in(4) {
                labels.insert(key.to_owned(), value.to_owned());
            }
        }
        labels
    }

    fn rule(&mut self, clusterwide: bool) -> ModelRule {
        if clusterwide && self.once_in(5) {
            let verbs = self.some(&["get", "post", "head", "*"], 2);
            return ModelRule { verbs, urls: self.some(&URLS, 2), ..ModelRule::default() };
        }
        let names = if self.once_in(4) { self.some(&NAMES, 2) } else { Vec::new() };
        ModelRule {
            verbs: self.some(&VERBS, 6),
            groups: if self.once_in(2) { vec!["*".to_owned()] } else { self.some(&GROUPS, 3) },
            resources: self.some(&RESOURCES, 6),
            names,
            urls: Vec::new(),
        }
    }

    fn rules(&mut self, clusterwide: bool) -> Vec<ModelRule> {
        (0..self.between(0, 4)).map(|_| self.rule(clusterwide)).collect()
    }

    /// A role or a binding.
    pub fn stored(&mut self, model: &Model) -> RbacObject {
        let namespace = self.namespace();
        let labels = self.labels();
        if self.once_in(2) {
            let name = self.pick(&ROLE_NAMES).to_owned();
            let cluster = namespace.is_empty();
            let aggregated = cluster && (name == "view" || self.once_in(5));
            let gathers = aggregated.then(|| {
                let all = (0..self.between(0, 3)).map(|_| LABELS[self.random.below(LABELS.len())]);
                all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
            });
            let rules = self.rules(cluster);
            return RbacObject::Role(ModelRole {
                namespace,
                name,
                labels,
                upkeep: 0,
                rules,
                gathers,
            });
        }
        let name = self.pick(&NAMES).to_owned();
        let kind = self.pick(&["ClusterRole", "Role"]).to_owned();
        let role = (kind, self.pick(&ROLE_NAMES).to_owned());
        let subjects = self.subjects();
        let binding = ModelBinding { namespace, name, labels, upkeep: 0, role, subjects };
        // The role of a binding never changes.
        match model.existing(&RbacObject::Binding(binding.clone())) {
            Some(RbacObject::Binding(old)) => {
                RbacObject::Binding(ModelBinding { role: old.role, ..binding })
            }
            _ => RbacObject::Binding(binding),
        }
    }

    fn subjects(&mut self) -> Vec<(String, String, String)> {
        let subjects = [
            ("User", "", "u"),
            ("User", "", "v"),
            ("User", "", "w"),
            ("Group", "", "g"),
            ("Group", "", "h"),
            ("ServiceAccount", "m", "a"),
            ("ServiceAccount", "n", "b"),
            ("ServiceAccount", "", "a"),
        ];
        (0..self.between(0, 5))
            .map(|_| subjects[self.random.below(subjects.len())])
            .map(|(kind, namespace, name)| (kind.into(), namespace.into(), name.into()))
            .collect()
    }

    /// Something that stands.
    pub fn one_of(&mut self, model: &Model) -> Option<RbacObject> {
        let mut all = model.all();
        let at = self.random.below(all.len());
        (!all.is_empty()).then(|| all.swap_remove(at))
    }

    /// A write: something new, or something that stands, changed in one way.
    pub fn change(&mut self, model: &Model) -> RbacWrite {
        let standing = if self.once_in(3) { None } else { self.one_of(model) };
        let Some(old) = standing else {
            let new = self.stored(model);
            return RbacWrite { old: model.existing(&new), new };
        };
        let mut new = old.clone();
        let label = LABELS[self.random.below(LABELS.len())];
        let toggle = |labels: &mut BTreeMap<String, String>| {
            if labels.remove(label.0).is_none() {
                labels.insert(label.0.to_owned(), label.1.to_owned());
            }
        };
        let way = self.random.below(5);
        match (&mut new, way) {
            (_, 0) => {}
            (RbacObject::Role(role), 1) => role.upkeep += 1,
            (RbacObject::Binding(binding), 1) => binding.upkeep += 1,
            (RbacObject::Role(role), 2 | 3) => toggle(&mut role.labels),
            (RbacObject::Binding(binding), 2) => toggle(&mut binding.labels),
            (RbacObject::Role(role), _) if role.namespace.is_empty() && self.once_in(3) => {
                let (key, value) = label;
                role.gathers = match role.gathers {
                    Some(_) => None,
                    None => Some(vec![(key.to_owned(), value.to_owned())]),
                };
            }
            (RbacObject::Role(role), _) => role.rules = self.rules(role.namespace.is_empty()),
            (RbacObject::Binding(binding), _) => binding.subjects = self.subjects(),
        }
        RbacWrite { old: Some(old), new }
    }

    /// Something that a role may allow.
    pub fn probe(&mut self, model: &Model) -> ModelAttributes {
        let mut rules: Vec<ModelRule> = Vec::new();
        for stored in model.all() {
            if let RbacObject::Role(role) = stored {
                rules.extend(role.rules);
            }
        }
        let at = self.random.below(rules.len());
        let Some(rule) = rules.get(at).cloned() else {
            return ModelAttributes::Path { verb: "get".into(), path: "/healthz".into() };
        };
        let mut word = |list: &[String], star: &str| {
            let list: Vec<&str> = list.iter().map(String::as_str).collect();
            let word = if list.is_empty() { "" } else { self.pick(&list) };
            word.replace('*', star)
        };
        if !rule.urls.is_empty() {
            return ModelAttributes::Path {
                verb: word(&rule.verbs, "get"),
                path: word(&rule.urls, "/x"),
            };
        }
        let resource = word(&rule.resources, "pods");
        let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
        ModelAttributes::Resource {
            verb: word(&rule.verbs, "get"),
            group: word(&rule.groups, ""),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: word(&rule.names, "a"),
            namespace: self.namespace(),
        }
    }

    /// A request: mostly one that the API offers, now and then with something odd about it.
    pub fn request(&mut self) -> SimulatedRequest {
        let (applies, exists) = (self.once_in(2), self.once_in(2));
        if self.once_in(12) {
            let method = self.pick(&METHODS).to_owned();
            let target = self.pick(&PATHS).to_owned();
            return SimulatedRequest { method, target, applies, exists };
        }
        let row = if self.once_in(3) {
            OFFERED[self.random.below(OFFERED.len())].clone()
        } else {
            let (group, resource, below) = HOT[self.random.below(HOT.len())];
            let verb = VERBS[self.random.below(8)];
            (group.into(), resource.into(), below.into(), verb.into())
        };
        let (method, mut path, mut query) = self.line(&row);
        if self.once_in(4) {
            path = self.oddly(&path);
        }
        let method = if self.once_in(30) { self.pick(&METHODS).to_owned() } else { method };
        for _ in 0..self.random.below(3) {
            let parameter = self.parameter();
            query.push(parameter);
        }
        let target = match query.is_empty() {
            true => path,
            false => format!("{path}?{}", query.join("&")),
        };
        SimulatedRequest { method, target, applies, exists }
    }

    /// Method, path and query of an offered verb.
    fn line(&mut self, row: &ResourceVerb) -> (String, String, Vec<String>) {
        let (group, resource, below, verb) = row;
        let mut path = match group.as_str() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        let mut query = Vec::new();
        let old_form = verb == "watch" && self.once_in(2);
        if old_form {
            path.push_str("/watch");
        } else if verb == "watch" {
            query.push("watch=1".to_owned());
        }
        let of_namespace = resource == "namespaces";
        if !of_namespace && !self.once_in(4) {
            path.push_str("/namespaces/");
            path.push_str(self.pick(&NAMESPACES));
        }
        path.push('/');
        path.push_str(resource);
        let names = matches!(verb.as_str(), "get" | "update" | "patch" | "delete");
        if names || !below.is_empty() || (old_form && self.once_in(2)) {
            path.push('/');
            let name = if of_namespace { self.pick(&["m", "n"]) } else { self.pick(&NAMES) };
            path.push_str(name);
        }
        if !below.is_empty() {
            path.push('/');
            path.push_str(below);
            if below == "proxy" && self.once_in(2) {
                path.push_str("/deep/path");
            }
        }
        let method = match verb.as_str() {
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => "GET",
        };
        (method.to_owned(), path, query)
    }

    /// The same path with one thing about it that readers might take differently.
    fn oddly(&mut self, path: &str) -> String {
        let at = self.random.below(path.len());
        let (before, after) = path.split_at(at);
        match self.random.below(9) {
            0 => format!("{before}/{after}"),
            1 => format!("{path}/"),
            2 => format!("/{path}"),
            3 => path.replacen("/namespaces/m", "/namespaces/m%2f", 1).replacen("%2f/", "%2f", 1),
            4 => {
                let letter = after.bytes().next().unwrap_or(b'x');
                format!("{before}%{letter:02X}{}", after.get(1..).unwrap_or(""))
            }
            5 => format!("{path}/.."),
            6 => path.replacen("/v1/", "/v1/proxy/", 1),
            7 => format!("{path}%{}", self.pick(&["", "2", "zz", "25", "ff", "00"])),
            _ => path.replacen("/namespaces/", "//", 1),
        }
    }

    fn parameter(&mut self) -> String {
        let escape = |text: &str| text.replace('%', "%25").replace('&', "%26").replace('+', "%2B");
        match self.random.below(9) {
            0..=3 => format!("fieldSelector={}", escape(self.pick(&FIELDS))),
            4 => {
                let all: Vec<&str> = GOOD_LABELS.into_iter().chain(BAD_LABELS).collect();
                format!("labelSelector={}", escape(self.pick(&all)).replace(' ', "+"))
            }
            5 => {
                let value = self.pick(&["1", "0", "true", "False", "FALSE", "no", ""]);
                format!("watch={value}")
            }
            6 => {
                format!("limit={}", self.pick(&["1", "", "x", "-1", "1.5", "99999999999999999999"]))
            }
            7 => format!("timeoutSeconds={}", self.pick(&["1", "", "x"])),
            _ => self
                .pick(&[
                    "watch=1;limit=1",
                    "fieldSelector=%zz",
                    "watch",
                    "&&",
                    "dryRun=All",
                    "%77atch=1",
                ])
                .to_owned(),
        }
    }
}
