//! One rule of a role, what is asked of it, and whether it allows that.
//!
//! Nothing here knows who asks.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What is asked, in the words of access rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAttributes<'a> {
    /// Something in the API.
    Resource {
        /// Such as `get`.
        verb: &'a str,
        /// API group; empty for the core group.
        group: &'a str,
        /// Plural resource.
        resource: &'a str,
        /// Such as `status`; may be empty.
        subresource: &'a str,
        /// Empty when the question is about the whole cluster.
        namespace: &'a str,
        /// Empty when the question names no object, as when creating or listing.
        name: &'a str,
    },
    /// A path outside the API.
    Path {
        /// The HTTP method in lower case.
        verb: &'a str,
        /// The path, starting with a slash.
        path: &'a str,
    },
}

impl<'a> RequestAttributes<'a> {
    /// The namespace asked about; empty for the whole cluster and for paths.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path { .. } => "",
        }
    }

    /// The namespace of the object itself: a Namespace is asked about in itself, but is in none.
    #[must_use]
    pub fn object_namespace(&self) -> &'a str {
        match *self {
            Self::Resource { resource: "namespaces", namespace, name, .. } if namespace == name => {
                ""
            }
            _ => self.namespace(),
        }
    }

    /// What is to be done.
    #[must_use]
    pub fn verb(&self) -> &'a str {
        match self {
            Self::Resource { verb, .. } | Self::Path { verb, .. } => verb,
        }
    }

    /// The same question about another verb.
    #[must_use]
    pub fn with_verb<'b>(&self, verb: &'b str) -> RequestAttributes<'b>
    where
        'a: 'b,
    {
        match *self {
            Self::Resource { group, resource, subresource, namespace, name, .. } => {
                RequestAttributes::Resource { verb, group, resource, subresource, namespace, name }
            }
            Self::Path { path, .. } => RequestAttributes::Path { verb, path },
        }
    }

    /// What must be allowed as well when a request that was allowed this turns out to create the object: a PUT or
    /// an applied configuration of one that is not there (R160). `None` for a request that says it creates.
    #[must_use]
    pub fn to_create(&self) -> Option<RequestAttributes<'a>> {
        (self.verb() != "create").then(|| self.with_verb("create"))
    }
}

/// What a role allows: verbs on resources, or verbs on paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyRule {
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// API groups, or `*`; the core group is the empty text.
    pub api_groups: Vec<String>,
    /// Such as `pods`, `pods/log`, `*/scale` or `*`.
    pub resources: Vec<String>,
    /// The only objects meant; none listed means all.
    pub resource_names: Vec<String>,
    /// Paths, each exact or ending in `*`.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Whether the rule allows what is asked, in a place where it applies.
    #[must_use]
    pub fn allows(&self, requested: &RequestAttributes<'_>) -> bool {
        match *requested {
            RequestAttributes::Resource { .. } => {
                self.resources.iter().any(|held| self.allows_of(held, requested))
            }
            RequestAttributes::Path { verb, path } => {
                has_or_star(&self.verbs, verb)
                    && self.non_resource_urls.iter().any(|held| reaches(held, path))
            }
        }
    }

    /// Whether the rule allows what is asked by this one of its resources.
    pub(crate) fn allows_of(&self, held: &str, requested: &RequestAttributes<'_>) -> bool {
        let RequestAttributes::Resource { verb, group, resource, subresource, name, .. } =
            *requested
        else {
            return false;
        };
        names(held, resource, subresource)
            && has_or_star(&self.verbs, verb)
            && has_or_star(&self.api_groups, group)
            && self.means(name)
    }

    /// A question without a name is about more than the listed objects, so a list never answers it.
    fn means(&self, name: &str) -> bool {
        self.resource_names.is_empty()
            || (!name.is_empty() && self.resource_names.iter().any(|held| held == name))
    }
}

pub(crate) fn has_or_star(held: &[String], wanted: &str) -> bool {
    held.iter().any(|held| held == wanted || held == "*")
}

/// Whether a resource of a rule names this resource and subresource.
fn names(held: &str, resource: &str, subresource: &str) -> bool {
    if held == "*" {
        return true;
    }
    if subresource.is_empty() {
        return held == resource;
    }
    let below = |start: &str| held.strip_prefix(start).and_then(|rest| rest.strip_prefix('/'));
    below(resource) == Some(subresource) || below("*") == Some(subresource)
}

/// Whether a path of a rule is this path or, ending in `*`, starts it.
pub(crate) fn reaches(held: &str, path: &str) -> bool {
    held == path || (held.ends_with('*') && path.starts_with(held.trim_end_matches('*')))
}

/// The short form in which a refusal lists the rules that are not held.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        for (index, (name, list)) in
            fields.into_iter().filter(|(_, list)| !list.is_empty()).enumerate()
        {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name}:{}", Quoted(list))?;
        }
        f.write_str("}")
    }
}

/// A list as `["a" "b"]`.
pub(crate) struct Quoted<'a>(pub(crate) &'a [String]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            write!(f, "{space}{item:?}")?;
        }
        f.write_str("]")
    }
}
