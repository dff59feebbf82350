//! Who may act as somebody else, and what that somebody is then (R152).
//!
//! ```text
//!   caller ──► impersonate users, groups, uids, userextras, serviceaccounts      everything, on every request
//!          └─► impersonate-on:{mode}:{verb} on what is asked for
//!              and impersonate:{mode} on the identity                            only so much, only so long
//! ```
//!
//! Whoever holds the old, unlimited right uses it; the limited ones are tried after it, so nobody who has both
//! gets less than before. Which headers say who is wanted is the server's business.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::MASTERS;
use crate::rule::RequestAttributes;

const AUTHENTICATION: &str = "authentication.k8s.io";
const ACCOUNTS: &str = "system:serviceaccounts";
const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";
/// From so many groups or extras on, the right to all of them is looked for before each is.
const MANY: usize = 4;

/// Somebody whom a caller wants to be, as the caller says it.
#[derive(Clone, Copy, Debug)]
pub struct ImpersonationRequest<'a> {
    /// The user name; never empty.
    pub user: &'a str,
    /// Empty when none is claimed.
    pub uid: &'a str,
    /// The groups that are claimed.
    pub groups: &'a [String],
    /// Keys and values beside them, a key as often as it has values.
    pub extra: &'a [(String, String)],
}

/// What somebody is who may be impersonated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonated {
    /// All groups, those that follow from the name included.
    pub groups: Vec<String>,
    /// The verb that limits it, such as `impersonate:user-info`; `None` for the old right.
    pub constraint: Option<&'static str>,
}

/// The limited ways to be somebody else, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImpersonationMode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
}

impl ImpersonationMode {
    const ALL: [ImpersonationMode; 4] = [
        ImpersonationMode::AssociatedNode,
        ImpersonationMode::ArbitraryNode,
        ImpersonationMode::ServiceAccount,
        ImpersonationMode::UserInfo,
    ];

    fn verb(self) -> &'static str {
        match self {
            ImpersonationMode::AssociatedNode => "impersonate:associated-node",
            ImpersonationMode::ArbitraryNode => "impersonate:arbitrary-node",
            ImpersonationMode::ServiceAccount => "impersonate:serviceaccount",
            ImpersonationMode::UserInfo => "impersonate:user-info",
        }
    }

    fn name(self) -> &'static str {
        self.verb().strip_prefix("impersonate:").unwrap_or_default()
    }

    /// Whether the way leads to such an identity. `own_node` is the node that the caller, a service account,
    /// runs on.
    fn fits(self, wanted: &ImpersonationRequest<'_>, own_node: Option<&str>) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(wanted.user);
        let account = service_account(wanted.user);
        match self {
            ImpersonationMode::AssociatedNode => only_name && node.is_some() && node == own_node,
            ImpersonationMode::ArbitraryNode => only_name && node.is_some(),
            ImpersonationMode::ServiceAccount => only_name && account.is_some(),
            ImpersonationMode::UserInfo => node.is_none() && account.is_none(),
        }
    }
}

/// Whether a caller may make a request as somebody else, and what that somebody is; else what of the old right is
/// missing.
///
/// `asked` is the request, `own_node` the node of a caller that is a service account bound to one, and `may` asks
/// the whole chain of authorizers on behalf of the caller.
pub fn impersonate<'a>(
    wanted: &ImpersonationRequest<'a>,
    requested: &RequestAttributes<'_>,
    own_node: Option<&str>,
    may: impl Fn(&RequestAttributes<'_>) -> bool,
) -> Result<Impersonated, RequestAttributes<'a>> {
    let Err(refused) = check_each(wanted, "impersonate", "", &may) else {
        return Ok(Impersonated { groups: groups_of(wanted), constraint: None });
    };
    for mode in ImpersonationMode::ALL.into_iter().filter(|mode| mode.fits(wanted, own_node)) {
        let verb = format!("impersonate-on:{}:{}", mode.name(), requested.verb());
        if may(&requested.with_verb(&verb)) && holds(mode, wanted, &may) {
            return Ok(Impersonated {
                groups: groups_in(mode, wanted),
                constraint: Some(mode.verb()),
            });
        }
    }
    Err(refused)
}

/// Whether the identity is within a limited right.
fn holds(
    mode: ImpersonationMode,
    wanted: &ImpersonationRequest<'_>,
    may: &impl Fn(&RequestAttributes<'_>) -> bool,
) -> bool {
    let all = |group, resource, subresource| {
        may(&question(mode.verb(), group, resource, subresource, "", "*"))
    };
    match mode {
        // The right is to the node one runs on, whichever that is.
        ImpersonationMode::AssociatedNode => all(AUTHENTICATION, "nodes", ""),
        ImpersonationMode::ArbitraryNode => node_name(wanted.user)
            .is_some_and(|node| may(&question(mode.verb(), AUTHENTICATION, "nodes", "", "", node))),
        ImpersonationMode::ServiceAccount => {
            check_each(wanted, mode.verb(), AUTHENTICATION, may).is_ok()
        }
        ImpersonationMode::UserInfo => {
            let groups = wanted.groups;
            let sane = groups.iter().all(|group| !group.is_empty() && group != MASTERS)
                && wanted.extra.iter().all(|(key, value)| is_sane_key(key) && !value.is_empty());
            let mut rest = *wanted;
            if groups.len() >= MANY && all(AUTHENTICATION, "groups", "") {
                rest.groups = &[];
            }
            if rest.extra.len() >= MANY && all(AUTHENTICATION, "userextras", "*") {
                rest.extra = &[];
            }
            sane && check_each(&rest, mode.verb(), AUTHENTICATION, may).is_ok()
        }
    }
}

/// Asks for each part of an identity; the first that is refused. Names and groups are in an API group.
fn check_each<'a>(
    wanted: &ImpersonationRequest<'a>,
    verb: &'a str,
    group: &'a str,
    may: &impl Fn(&RequestAttributes<'_>) -> bool,
) -> Result<(), RequestAttributes<'a>> {
    let check =
        |question: RequestAttributes<'a>| if may(&question) { Ok(()) } else { Err(question) };
    check(match service_account(wanted.user) {
        Some((namespace, name)) => question(verb, group, "serviceaccounts", "", namespace, name),
        None => question(verb, group, "users", "", "", wanted.user),
    })?;
    for one in wanted.groups {
        check(question(verb, group, "groups", "", "", one))?;
    }
    if !wanted.uid.is_empty() {
        check(question(verb, AUTHENTICATION, "uids", "", "", wanted.uid))?;
    }
    for (key, value) in wanted.extra {
        check(question(verb, AUTHENTICATION, "userextras", key, "", value))?;
    }
    Ok(())
}

fn question<'a>(
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
) -> RequestAttributes<'a> {
    RequestAttributes::Resource { verb, group, resource, subresource, namespace, name }
}

fn groups_in(mode: ImpersonationMode, wanted: &ImpersonationRequest<'_>) -> Vec<String> {
    match mode {
        ImpersonationMode::AssociatedNode | ImpersonationMode::ArbitraryNode => {
            Vec::from([NODES.to_owned(), AUTHENTICATED.to_owned()])
        }
        ImpersonationMode::ServiceAccount | ImpersonationMode::UserInfo => groups_of(wanted),
    }
}

/// What is claimed, else what a service account is in; and everybody's group.
fn groups_of(wanted: &ImpersonationRequest<'_>) -> Vec<String> {
    let mut groups = wanted.groups.to_vec();
    if groups.is_empty()
        && let Some((namespace, _)) = service_account(wanted.user)
    {
        groups.push(ACCOUNTS.to_owned());
        groups.push(format!("{ACCOUNTS}:{namespace}"));
    }
    let everybody = if wanted.user == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED };
    if !groups.iter().any(|group| group == everybody || group == UNAUTHENTICATED) {
        groups.push(everybody.to_owned());
    }
    groups
}

/// The namespace and name of a service account from its user name.
///
/// Whatever could not be a service account is a user of that name, in no groups of accounts.
#[must_use]
pub fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let known = is_label(namespace) && namespace.len() <= 63 && is_subdomain(name);
    known.then_some((namespace, name))
}

fn node_name(user: &str) -> Option<&str> {
    user.strip_prefix(NODE).filter(|name| is_subdomain(name))
}

fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| plain(byte) || byte == b'-')
        && text.bytes().next().is_some_and(plain)
        && text.bytes().last().is_some_and(plain)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}

/// A key such as `acme.com/team`: a domain and a path, in lower case.
fn is_sane_key(key: &str) -> bool {
    let Some((domain, path)) = key.split_once('/') else { return false };
    let fits = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"/-._~%!$&'()*+,;=:".contains(&byte)
    };
    is_subdomain(domain) && !path.is_empty() && path.bytes().all(fits)
}
