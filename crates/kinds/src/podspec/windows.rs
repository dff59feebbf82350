//! Windows pods: what they may not set, their options, and containers that are processes of the host.

use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::podspec::text;
use crate::podspec::view::{any, each_container, flag, has, map, text as text_of};

/// The longest text of a credential specification, in bytes.
const CREDENTIAL_MAX: usize = 64 * 1024;
/// The longest name of a user, and the length that the name of a domain stays below.
const USER_MAX: usize = 104;
const DOMAIN_END: usize = 256;

/// What a pod context may not have; lists count when they are there, `sysctls` when it has items.
const POD_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const CONTAINER_CONTEXT: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// What a pod that says it runs on Windows may not set.
pub(crate) fn validate_windows_pod(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let why = "cannot be set for a windows pod";
    if let Some(context) = map(spec, "securityContext") {
        let at = path.field("securityContext");
        for name in POD_CONTEXT {
            let set = if *name == "sysctls" { any(context, name) } else { has(context, name) };
            if set {
                errors.forbidden(&at.field(name), why);
            }
        }
    }
    let set = [
        ("hostUsers", has(spec, "hostUsers")),
        ("hostPID", flag(spec, "hostPID")),
        ("hostIPC", flag(spec, "hostIPC")),
        ("shareProcessNamespace", has(spec, "shareProcessNamespace")),
    ];
    for (name, _) in set.iter().filter(|(_, set)| *set) {
        errors.forbidden(&path.field(name), why);
    }
    each_container(spec, path, &mut |container, at| {
        let Some(context) = map(container, "securityContext") else { return };
        let at = at.field("securityContext");
        for name in CONTAINER_CONTEXT.iter().filter(|name| has(context, name)) {
            errors.forbidden(&at.field(name), why);
        }
    });
}

/// Either all containers are processes of the host, and use its network, or none is.
pub(crate) fn validate_host_process(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let asked =
        |object: &Object| object.bool_at(&["securityContext", "windowsOptions", "hostProcess"]);
    let of_pod = asked(spec);
    let (mut all, mut host) = (0_usize, 0_usize);
    each_container(spec, path, &mut |container, at| {
        let own = asked(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let at = at.field("securityContext");
            let at = at.field("windowsOptions");
            let why =
                format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid(&at.field("hostProcess"), own, &why);
        }
        all = all.saturating_add(1);
        if own.or(of_pod) == Some(true) {
            host = host.saturating_add(1);
        }
    });
    if host == 0 {
        return;
    }
    if host != all {
        let why = "If pod contains any hostProcess containers then all containers must be \
                   HostProcess containers";
        errors.invalid(path, "\"\"", why);
    }
    if !flag(spec, "hostNetwork") {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.field("hostNetwork"), false, why);
    }
}

/// The `windowsOptions` of a security context at `path`.
pub(crate) fn validate_windows_options(context: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(options) = map(context, "windowsOptions") else { return };
    let at = path.field("windowsOptions");
    if has(options, "gmsaCredentialSpecName") {
        let name = text_of(options, "gmsaCredentialSpecName");
        text::dns_subdomain(name, &at.field("gmsaCredentialSpecName"), errors);
    }
    if has(options, "gmsaCredentialSpec") {
        let fault = match text_of(options, "gmsaCredentialSpec").len() {
            0 => Some("gmsaCredentialSpec cannot be an empty string"),
            length if length > CREDENTIAL_MAX => {
                Some("gmsaCredentialSpec size must be under 64 KiB")
            }
            _ => None,
        };
        if let Some(why) = fault {
            errors.invalid(&at.field("gmsaCredentialSpec"), "\"\"", why);
        }
    }
    if has(options, "runAsUserName") {
        let name = text_of(options, "runAsUserName");
        for why in user_name_faults(name) {
            errors.invalid(&at.field("runAsUserName"), format_args!("{name:?}"), why);
        }
    }
}

/// What is wrong with `USER` or `DOMAIN\USER`.
fn user_name_faults(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string"];
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters"];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash"];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let blank = !user.is_empty() && user.bytes().all(|b| matches!(b, b'.' | b' '));
    [
        (
            domain.is_some_and(|domain| domain.len() >= DOMAIN_END),
            "runAsUserName's Domain length must be under 256 characters",
        ),
        (
            domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)),
            "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
        ),
        (user.is_empty(), "runAsUserName's User cannot be empty"),
        (
            user.len() > USER_MAX,
            "runAsUserName's User length must not be longer than 104 characters",
        ),
        (blank, "runAsUserName's User cannot contain only periods or spaces"),
        (
            user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@'])
                || user.contains(['[', ']']),
            "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
        ),
    ]
    .into_iter()
    .filter_map(|(wrong, why)| wrong.then_some(why))
    .collect()
}

/// One to fifteen characters, none of them special, the first no dot.
fn is_net_bios(domain: &str) -> bool {
    let special = ['\\', '/', ':', '*', '?', '"', '<', '>', '|'];
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(special)
}

/// Labels of letters, digits and inner hyphens, in either case.
fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    })
}
