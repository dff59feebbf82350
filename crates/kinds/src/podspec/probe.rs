//! Probes and lifecycle hooks: one handler each, with sane numbers.

use serde_json::Value;
use tenure_machinery::{Errors, Object, Path};

use crate::podspec::text;
use crate::podspec::view::{any, has, int, items, map, text as text_of};

/// What handlers must know of their pod.
#[derive(Clone, Copy)]
pub(crate) struct ProbeContext<'a> {
    /// How long the pod may take to end.
    pub(crate) grace: Option<i64>,
    /// The operating system the pod names.
    pub(crate) os: Option<&'a str>,
}

/// The probes and hooks of a container that may have them.
pub(crate) fn validate_hooks(
    container: &Object,
    around: ProbeContext<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if let Some(lifecycle) = map(container, "lifecycle") {
        validate_lifecycle(lifecycle, around, &path.field("lifecycle"), errors);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = map(container, name) else { continue };
        let at = path.field(name);
        validate_probe(probe, around, &at, errors);
        if name == "readinessProbe" {
            if has(probe, "terminationGracePeriodSeconds") {
                let at = at.field("terminationGracePeriodSeconds");
                errors.invalid(&at, "", "must not be set for readinessProbes");
            }
        } else if int(probe, "successThreshold").unwrap_or(0) != 1 {
            let at = at.field("successThreshold");
            errors.invalid(&at, int(probe, "successThreshold").unwrap_or(0), "must be 1");
        }
    }
}

fn validate_probe(probe: &Object, around: ProbeContext<'_>, path: &Path<'_>, errors: &mut Errors) {
    const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
    validate_handler(probe, HANDLERS, around, path, errors);
    for name in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        text::non_negative(int(probe, name), &path.field(name), errors);
    }
    if let Some(seconds) = int(probe, "terminationGracePeriodSeconds").filter(|s| *s <= 0) {
        let at = path.field("terminationGracePeriodSeconds");
        errors.invalid(&at, seconds, "must be greater than 0");
    }
}

fn validate_lifecycle(
    lifecycle: &Object,
    around: ProbeContext<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    const HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];
    for name in ["postStart", "preStop"] {
        if let Some(hook) = map(lifecycle, name) {
            validate_handler(hook, HANDLERS, around, &path.field(name), errors);
        }
    }
    if has(lifecycle, "stopSignal") {
        let signal = text_of(lifecycle, "stopSignal");
        let at = path.field("stopSignal");
        match around.os {
            None => {
                errors.forbidden(&at, "may not be set for containers with empty `spec.os.name`")
            }
            Some("windows") => text::choice(signal, &["SIGKILL", "SIGTERM"], &at, errors),
            Some(_) if !is_linux_signal(signal) => {
                errors.not_supported(&at, signal, &["SIGTERM", "SIGKILL", "SIGINT"]);
            }
            Some(_) => {}
        }
    }
}

fn is_linux_signal(signal: &str) -> bool {
    const PLAIN: &[&str] = &[
        "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT",
        "KILL", "PIPE", "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM",
        "TRAP", "TSTP", "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ",
        "RTMIN", "RTMAX",
    ];
    let Some(name) = signal.strip_prefix("SIG") else { return false };
    let offset = |prefix: &str, most: u8| {
        name.strip_prefix(prefix)
            .filter(|digits| !digits.starts_with('0'))
            .and_then(|digits| digits.parse::<u8>().ok())
            .is_some_and(|number| (1..=most).contains(&number))
    };
    PLAIN.contains(&name) || offset("RTMIN+", 15) || offset("RTMAX-", 14)
}

fn validate_handler(
    handler: &Object,
    kinds: &[&str],
    around: ProbeContext<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let mut seen = false;
    for kind in kinds {
        let Some(action) = map(handler, kind) else { continue };
        let at = path.field(kind);
        if seen {
            errors.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        seen = true;
        match *kind {
            "exec" if !any(action, "command") => errors.required(&at.field("command"), ""),
            "httpGet" => validate_http_get(action, &at, errors),
            "tcpSocket" => validate_port(action.get("port"), &at.field("port"), errors),
            "grpc" => {
                validate_port(action.get("port"), &at.field("port"), errors);
                if has(action, "mode") {
                    let mode = text_of(action, "mode");
                    text::choice(mode, &["Plaintext", "TLS"], &at.field("mode"), errors);
                }
            }
            "sleep" => {
                let seconds = int(action, "seconds").unwrap_or(0);
                if around.grace.is_some_and(|grace| seconds < 0 || seconds > grace) {
                    let why = "must be non-negative and less than terminationGracePeriodSeconds";
                    errors.invalid(&at, seconds, why);
                }
            }
            _ => {}
        }
    }
    if !seen {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_http_get(action: &Object, path: &Path<'_>, errors: &mut Errors) {
    if text_of(action, "path").is_empty() {
        errors.required(&path.field("path"), "");
    }
    validate_port(action.get("port"), &path.field("port"), errors);
    text::choice(text_of(action, "scheme"), &["HTTP", "HTTPS"], &path.field("scheme"), errors);
    for header in items(action, "httpHeaders") {
        let name = text_of(header, "name");
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if name.is_empty() || !name.bytes().all(good) {
            let at = path.field("httpHeaders");
            errors.invalid(&at, format_args!("{name:?}"), "a valid HTTP header name is required");
        }
    }
}

/// A port by number or by name.
fn validate_port(port: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    match port {
        Some(Value::String(name)) => text::port_name(name, path, errors),
        other => text::port_number(other.and_then(Value::as_i64).unwrap_or(0), path, errors),
    }
}
