//! What roles give: who holds a right, and by which bindings. One question walks over all of them, which is
//! fine for people.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;
use tenure_rbac::{BindingSubject, PolicyRule, RequestAttributes, Role, RoleBinding, RoleRef};
use tenure_references::Identity;

use super::AccessSubject;

/// The API group of roles.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
/// Its resources.
pub(super) const RESOURCES: [&str; 4] =
    ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
/// The verbs that read.
pub(super) const READS: [&str; 3] = ["get", "list", "watch"];

/// Every role and binding.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    roles: BTreeMap<(String, String), Role>,
    bindings: Vec<RoleBinding>,
}

/// A binding, by names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct BindingName {
    /// `ClusterRoleBinding` or `RoleBinding`.
    pub kind: &'static str,
    /// The namespace of a RoleBinding.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for BindingName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        write!(out, "{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}

/// Somebody who holds a right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RightsHolder {
    /// Who.
    pub subject: AccessSubject,
    /// By which binding.
    pub binding: BindingName,
    /// Of which role, with its kind.
    pub role: String,
}

/// A binding that gives somebody a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given<'a> {
    /// The binding.
    pub binding: BindingName,
    /// The role, with its kind.
    pub role: String,
    /// Everybody it names.
    pub subjects: Vec<AccessSubject>,
    rules: &'a [PolicyRule],
}

impl Given<'_> {
    /// Whether the role gives more than to read objects of a type.
    pub(super) fn gives_more(&self, group: &str, resource: &str) -> bool {
        let only =
            |held: &[String], wanted: &[&str]| held.iter().all(|it| wanted.contains(&it.as_str()));
        !self.rules.iter().all(|rule| {
            only(&rule.verbs, &READS)
                && only(&rule.api_groups, &[group])
                && only(&rule.resources, &[resource])
                && rule.non_resource_urls.is_empty()
        })
    }
}

impl Roles {
    /// From objects of the four kinds; others are passed over.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Roles {
        let mut all = Roles::default();
        for object in objects.into_iter().filter_map(Value::as_object) {
            match object.get("kind").and_then(Value::as_str) {
                Some("Role" | "ClusterRole") => {
                    let role = Role::from_object(object);
                    all.roles.insert((role.namespace.clone(), role.name.clone()), role);
                }
                Some("RoleBinding" | "ClusterRoleBinding") => {
                    all.bindings.extend(RoleBinding::from_object(object));
                }
                _ => {}
            }
        }
        all
    }

    /// Whether nothing is known: a cluster has its own roles, so that none could be read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// The same without some bindings.
    #[must_use]
    pub fn without(&self, gone: &[&BindingName]) -> Roles {
        let kept = self.bindings.iter().filter(|binding| !gone.contains(&&name_of(binding)));
        Roles { roles: self.roles.clone(), bindings: kept.cloned().collect() }
    }

    /// Everybody whom a role gives what is asked.
    #[must_use]
    pub fn holders(&self, requested: &RequestAttributes<'_>) -> Vec<RightsHolder> {
        let mut all = Vec::new();
        for binding in self.reaching(requested.namespace()) {
            let Some(role) = self.role_of(binding) else { continue };
            if role.rules.iter().any(|rule| rule.allows(requested)) {
                all.extend(binding.subjects.iter().map(|subject| RightsHolder {
                    subject: who(subject, binding),
                    binding: name_of(binding),
                    role: called(&binding.role),
                }));
            }
        }
        all.sort();
        all.dedup();
        all
    }

    /// The bindings that give somebody what is asked.
    #[must_use]
    pub fn giving(&self, who: &Identity, requested: &RequestAttributes<'_>) -> Vec<Given<'_>> {
        let reaching = self.reaching(requested.namespace());
        let given = self.given(who, reaching);
        given.filter(|given| given.rules.iter().any(|rule| rule.allows(requested))).collect()
    }

    /// The bindings that let somebody read every object of a type, in a namespace or everywhere, with the
    /// verbs; a rule with names is not broad.
    #[must_use]
    pub fn broad(
        &self,
        who: &Identity,
        group: &str,
        resource: &str,
    ) -> Vec<(Given<'_>, Vec<&'static str>)> {
        let given = self.given(who, self.bindings.iter());
        let with_verbs = given.map(|given| {
            let allows = |verb: &&&str| {
                let requested = request_attributes(verb, group, resource, &given.binding.namespace);
                given.rules.iter().any(|rule| rule.allows(&requested))
            };
            let verbs: Vec<&'static str> = READS.iter().filter(allows).copied().collect();
            (given, verbs)
        });
        with_verbs.filter(|(_, verbs)| !verbs.is_empty()).collect()
    }

    /// Whether a binding, wherever it is, gives somebody one of the verbs on some objects of a type.
    #[must_use]
    pub fn may_somewhere(
        &self,
        who: &Identity,
        verbs: &[&str],
        group: &str,
        resource: &str,
    ) -> bool {
        self.given(who, self.bindings.iter()).any(|given| {
            given.rules.iter().any(|rule| {
                let open = PolicyRule { resource_names: Vec::new(), ..rule.clone() };
                verbs.iter().any(|verb| open.allows(&request_attributes(verb, group, resource, "")))
            })
        })
    }

    /// Whether a binding names a user, or a group that not every user or service account is in.
    #[must_use]
    pub fn names(&self, who: &Identity) -> bool {
        let is_broad = |group: &str| {
            group == "system:authenticated" || group.starts_with("system:serviceaccounts")
        };
        let is_own = |subject: &&BindingSubject| match subject {
            BindingSubject::Group(name) => !is_broad(name),
            BindingSubject::User(_) | BindingSubject::ServiceAccount { .. } => true,
        };
        self.bindings.iter().any(|binding| {
            let mut subjects = binding.subjects.iter().filter(is_own);
            subjects.any(|subject| names(subject, binding, who))
        })
    }

    fn reaching(&self, namespace: &str) -> impl Iterator<Item = &RoleBinding> {
        self.bindings
            .iter()
            .filter(move |binding| binding.namespace.is_empty() || binding.namespace == namespace)
    }

    fn given<'a>(
        &'a self,
        who: &Identity,
        bindings: impl Iterator<Item = &'a RoleBinding>,
    ) -> impl Iterator<Item = Given<'a>> {
        bindings.filter_map(|binding| {
            if !binding.subjects.iter().any(|subject| names(subject, binding, who)) {
                return None;
            }
            let role = self.role_of(binding)?;
            Some(Given {
                binding: name_of(binding),
                role: called(&binding.role),
                subjects: binding
                    .subjects
                    .iter()
                    .map(|subject| self::who(subject, binding))
                    .collect(),
                rules: &role.rules,
            })
        })
    }

    fn role_of(&self, binding: &RoleBinding) -> Option<&Role> {
        let place = match &binding.role {
            RoleRef::ClusterRole(_) => "",
            RoleRef::Role(_) => &binding.namespace,
        };
        self.roles.get(&(place.to_owned(), binding.role.name().to_owned()))
    }
}

fn request_attributes<'a>(
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
) -> RequestAttributes<'a> {
    RequestAttributes::Resource { verb, group, resource, subresource: "", namespace, name: "" }
}

fn called(role: &RoleRef) -> String {
    format!("{} {}", role.kind(), role.name())
}

fn name_of(binding: &RoleBinding) -> BindingName {
    let kind = if binding.namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    BindingName { kind, namespace: binding.namespace.clone(), name: binding.name.clone() }
}

/// The namespace of an account; a binding may leave it out.
fn home<'a>(namespace: &'a str, binding: &'a RoleBinding) -> &'a str {
    if namespace.is_empty() { &binding.namespace } else { namespace }
}

fn who(subject: &BindingSubject, binding: &RoleBinding) -> AccessSubject {
    let (kind, namespace, name) = match subject {
        BindingSubject::User(name) => ("User", "", name),
        BindingSubject::Group(name) => ("Group", "", name),
        BindingSubject::ServiceAccount { namespace, name } => {
            ("ServiceAccount", home(namespace, binding), name)
        }
    };
    AccessSubject { kind, namespace: namespace.to_owned(), name: name.clone() }
}

fn names(subject: &BindingSubject, binding: &RoleBinding, who: &Identity) -> bool {
    match subject {
        BindingSubject::User(name) => *name == who.user,
        BindingSubject::Group(name) => who.groups.contains(name),
        BindingSubject::ServiceAccount { namespace, name } => {
            let home = home(namespace, binding);
            !home.is_empty() && who.user == format!("system:serviceaccount:{home}:{name}")
        }
    }
}
