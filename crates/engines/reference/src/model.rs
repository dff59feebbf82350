//! The three kinds as the engine needs them, and the words it shares with its hosts.
//! Reading them from JSON is `json.rs`; telling their authors what is wrong is the server's.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::path::JsonPath;
use crate::selector::{ClassSelector, NamespaceSelector};

/// A group and a resource in it, the way a request names them (R54: compared byte by byte).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural name.
    pub resource: String,
}

impl Resource {
    /// The resource of a group.
    #[must_use]
    pub fn new(group: &str, resource: &str) -> Resource {
        Resource { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => out.write_str(&self.resource),
            group => write!(out, "{}.{group}", self.resource),
        }
    }
}

/// Who is given access (R80).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The user of exactly this name.
    User(String),
    /// Every member of the group.
    Group(String),
    /// A service account, which is the user `system:serviceaccount:<namespace>:<name>`.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Subject {
    /// The user or group name requests carry.
    #[must_use]
    pub fn request_name(&self) -> String {
        match self {
            Subject::User(name) | Subject::Group(name) => name.clone(),
            Subject::ServiceAccount { namespace, name } => {
                format!("system:serviceaccount:{namespace}:{name}")
            }
        }
    }

    /// Whether it is matched by groups.
    #[must_use]
    pub fn is_group(&self) -> bool {
        matches!(self, Subject::Group(_))
    }

    /// Whether two subjects stand for the same requests: a service account is also a user.
    #[must_use]
    pub fn is_same(&self, other: &Subject) -> bool {
        match (self, other) {
            (Subject::Group(one), Subject::Group(two)) => one == two,
            (Subject::Group(_), _) | (_, Subject::Group(_)) => false,
            (Subject::User(name), subject) | (subject, Subject::User(name)) => {
                subject.matches(name, &[])
            }
            (one, two) => one == two,
        }
    }

    /// Whether a request by this user with these groups is the subject's; no group is implied (R81).
    #[must_use]
    pub fn matches(&self, user: &str, groups: &[String]) -> bool {
        match self {
            Subject::User(name) => name == user,
            Subject::Group(name) => groups.contains(name),
            Subject::ServiceAccount { namespace, name } => {
                let rest = user.strip_prefix("system:serviceaccount:");
                rest.and_then(|rest| rest.strip_prefix(namespace.as_str()))
                    .and_then(|rest| rest.strip_prefix(':'))
                    .is_some_and(|rest| rest == name)
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::User(name) => write!(out, "user {name}"),
            Subject::Group(name) => write!(out, "group {name}"),
            Subject::ServiceAccount { namespace, name } => {
                write!(out, "service account {namespace}/{name}")
            }
        }
    }
}

/// What a reference leads from, to, and for what: the triple of the spec.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Triple {
    /// What points.
    pub origin: Resource,
    /// What is pointed at.
    pub target: Resource,
    /// Why.
    pub purpose: String,
}

/// A ClusterReferenceConsumer: a subject serves references of these triples, for these classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    /// Its name.
    pub name: String,
    /// Who reads.
    pub subject: Subject,
    /// `*` is any class, the empty text an object without one; none at all is closed (R55).
    pub class_names: Vec<String>,
    /// Classes by their controller, beside those that are listed (D13).
    pub class_selector: Option<Box<ClassSelector>>,
    /// The references it serves.
    pub references: Vec<Triple>,
}

impl Consumer {
    /// Whether it serves origins of a class (R55).
    #[must_use]
    pub fn accepts(&self, class: Class<'_>) -> bool {
        let names = |wanted: &str| self.class_names.iter().any(|name| name == wanted);
        match class {
            Class::Unpartitioned => true,
            Class::Unset => names(""),
            Class::Named(class) => names("*") || names(class) || self.selects(class),
        }
    }

    fn selects(&self, class: &str) -> bool {
        self.class_selector.as_ref().is_some_and(|selector| selector.selected.contains(class))
    }
}

/// The class of an origin under a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class<'a> {
    /// The strategy has no `classPath`.
    Unpartitioned,
    /// It has one, and nothing usable is there (D12).
    Unset,
    /// It has one, and this is there.
    Named(&'a str),
}

/// A ReferenceStrategy: where in origins of a type the names of targets are.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// Its name.
    pub name: String,
    /// The type of origins.
    pub origin: Resource,
    /// The paths of each version of that type.
    pub versions: Vec<VersionPaths>,
}

/// The paths for one version of an origin type.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionPaths {
    /// The version.
    pub version: String,
    /// Where the class of an object is.
    pub class_path: Option<JsonPath>,
    /// Where references are.
    pub references: Vec<ReferencePath>,
}

/// Where references of one kind are.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferencePath {
    /// How they are found.
    pub finder: Finder,
    /// What they lead to.
    pub target: Resource,
    /// What for.
    pub purpose: String,
    /// Where the namespace is, when it is not beside the name (R78).
    pub namespace_path: Option<JsonPath>,
    /// Whether a target without a namespace may be followed (R52).
    pub allow_cluster_scoped: bool,
}

/// How references are found.
#[derive(Clone, Debug, PartialEq)]
pub enum Finder {
    /// By a path of section 3.
    Path(JsonPath),
    /// By an expression over `self`, which the host evaluates (R79).
    Expression(String),
}

impl fmt::Display for Finder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finder::Path(path) => out.write_str(path.text()),
            Finder::Expression(text) => out.write_str(text),
        }
    }
}

/// A ReferenceGrant: origins of a type in a namespace may point at these objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The namespace of the grant and of its targets.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The type of origins.
    pub origin: Resource,
    /// The namespace of origins; empty for origins without one (R53).
    pub origin_namespace: String,
    /// The namespaces of origins by labels, instead of the one (D9).
    pub namespace_selector: Option<Box<NamespaceSelector>>,
    /// The type of targets.
    pub target: Resource,
    /// The names of targets; none grants nothing.
    pub names: Vec<String>,
    /// What for.
    pub purpose: String,
}

/// A type the API serves (R58).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedType {
    /// Its group and plural name.
    pub resource: Resource,
    /// Its kind, by which references that name a kind are recognised (R74).
    pub kind: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
    /// The versions it is served in, the preferred one first; see [`preference_order`].
    pub versions: Vec<String>,
}

/// One object, by names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Obj<'a> {
    /// The API group.
    pub group: &'a str,
    /// The plural name of its resource.
    pub resource: &'a str,
    /// The namespace; empty when it has none.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

impl fmt::Display for Obj<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.resource)?;
        if !self.group.is_empty() {
            write!(out, ".{}", self.group)?;
        }
        match self.namespace {
            "" => write!(out, " {}", self.name),
            namespace => write!(out, " {namespace}/{}", self.name),
        }
    }
}

/// The name of a target, which is not kept as one text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetName<'a> {
    /// The API group.
    pub group: &'a str,
    /// The plural name of its resource.
    pub resource: &'a str,
    /// The namespace; empty when it has none.
    pub namespace: &'a str,
    /// The name.
    pub name: String,
}

impl TargetName<'_> {
    /// The same, by names only.
    #[must_use]
    pub fn object(&self) -> Obj<'_> {
        let TargetName { group, resource, namespace, name } = self;
        Obj { group, resource, namespace, name }
    }
}

impl fmt::Display for TargetName<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object().fmt(out)
    }
}

/// Sorts versions the way the API server prefers them: the preferred one, then stable before beta before
/// alpha, higher numbers first (R58).
pub fn preference_order(preferred: &str, versions: &mut [String]) {
    versions.sort_by_cached_key(|version| {
        let rank = rank(version);
        (version != preferred, core::cmp::Reverse(rank), version.clone())
    });
}

/// Stability, major and minor number; versions of no such form come last.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at_checked(end)?;
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (1, minor),
        (_, Some(minor)) => (0, minor),
        _ => return None,
    };
    Some((stability, major, minor.parse().ok()?))
}
