//! The flags of kube-apiserver, as its options name them, and what becomes of each here (api-server R174). What the
//! acted ones mean is decided in [`super::api_server`].

use super::go_flags::FlagTable;

/// Flags that are acted on, or whose meaning holds here anyway: objects are in memory whatever etcd is named, and the
/// address that is advertised is the one that is served.
pub(super) const ACTED: &[&str] = &[
    "advertise-address",
    "anonymous-auth",
    "audit-log-path",
    "audit-policy-file",
    "authorization-config",
    "authorization-mode",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
    "authorization-webhook-config-file",
    "authorization-webhook-version",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "enable-garbage-collector",
    "etcd-servers",
    "event-ttl",
    "feature-gates",
    "help",
    "insecure-bind-address",
    "insecure-port",
    "logging-format",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "runtime-config",
    "secure-port",
    "service-account-issuer",
    "service-account-key-file",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "tls-cert-file",
    "tls-private-key-file",
    "token-auth-file",
    "v",
    "version",
];

/// Flags that say who may do what in a way that is not there: to pass over them would let others in.
pub(super) const REFUSED: &[(&str, &str)] = &[
    ("admission-control", "use `--enable-admission-plugins` and `--disable-admission-plugins`"),
    ("admission-control-config-file", "no plugin here reads a configuration"),
    (
        "authentication-config",
        "use `--client-ca-file`, `--token-auth-file` or service-account tokens",
    ),
    ("authorization-policy-file", "the mode ABAC is not there: use `--authorization-mode=RBAC`"),
];

const SWITCHES: &[&str] = &[
    "aggregator-reject-forwarding-redirect",
    "allow-privileged",
    "anonymous-auth",
    "audit-log-batch-throttle-enable",
    "audit-log-compress",
    "audit-log-truncate-enabled",
    "audit-webhook-batch-throttle-enable",
    "audit-webhook-truncate-enabled",
    "contention-profiling",
    "disable-http2-serving",
    "emulation-forward-compatible",
    "enable-aggregator-routing",
    "enable-bootstrap-token-auth",
    "enable-garbage-collector",
    "enable-logs-handler",
    "enable-priority-and-fairness",
    "encryption-provider-config-automatic-reload",
    "help",
    "log-json-split-stream",
    "log-text-split-stream",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "runtime-config-emulation-forward-compatible",
    "service-account-extend-token-expiration",
    "service-account-lookup",
    "shutdown-send-retry-after",
    "version",
    "watch-cache",
];

const VALUES: &[&str] = &[
    "admission-control",
    "admission-control-config-file",
    "advertise-address",
    "allow-metric-labels",
    "allow-metric-labels-manifest",
    "api-audiences",
    "apiserver-count",
    "audit-log-batch-buffer-size",
    "audit-log-batch-max-size",
    "audit-log-batch-max-wait",
    "audit-log-batch-throttle-burst",
    "audit-log-batch-throttle-qps",
    "audit-log-format",
    "audit-log-maxage",
    "audit-log-maxbackup",
    "audit-log-maxsize",
    "audit-log-mode",
    "audit-log-path",
    "audit-log-truncate-max-batch-size",
    "audit-log-truncate-max-event-size",
    "audit-log-version",
    "audit-policy-file",
    "audit-webhook-batch-buffer-size",
    "audit-webhook-batch-initial-backoff",
    "audit-webhook-batch-max-size",
    "audit-webhook-batch-max-wait",
    "audit-webhook-batch-throttle-burst",
    "audit-webhook-batch-throttle-qps",
    "audit-webhook-config-file",
    "audit-webhook-initial-backoff",
    "audit-webhook-mode",
    "audit-webhook-truncate-max-batch-size",
    "audit-webhook-truncate-max-event-size",
    "audit-webhook-version",
    "authentication-config",
    "authentication-token-webhook-cache-ttl",
    "authentication-token-webhook-config-file",
    "authentication-token-webhook-version",
    "authorization-config",
    "authorization-mode",
    "authorization-policy-file",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
    "authorization-webhook-config-file",
    "authorization-webhook-version",
    "bind-address",
    "cert-dir",
    "client-ca-file",
    "coordinated-leadership-lease-duration",
    "coordinated-leadership-renew-deadline",
    "coordinated-leadership-retry-period",
    "cors-allowed-origins",
    "debug-socket-path",
    "default-not-ready-toleration-seconds",
    "default-unreachable-toleration-seconds",
    "default-watch-cache-size",
    "delete-collection-workers",
    "disable-admission-plugins",
    "disabled-metrics",
    "egress-selector-config-file",
    "emulated-version",
    "enable-admission-plugins",
    "encryption-provider-config",
    "endpoint-reconciler-type",
    "etcd-cafile",
    "etcd-certfile",
    "etcd-compaction-interval",
    "etcd-count-metric-poll-period",
    "etcd-db-metric-poll-interval",
    "etcd-healthcheck-timeout",
    "etcd-keyfile",
    "etcd-prefix",
    "etcd-readycheck-timeout",
    "etcd-servers",
    "etcd-servers-overrides",
    "event-ttl",
    "external-hostname",
    "feature-gates",
    "goaway-chance",
    "http2-max-streams-per-connection",
    "insecure-bind-address",
    "insecure-port",
    "kubelet-certificate-authority",
    "kubelet-client-certificate",
    "kubelet-client-key",
    "kubelet-port",
    "kubelet-preferred-address-types",
    "kubelet-read-only-port",
    "kubelet-timeout",
    "kubernetes-service-node-port",
    "lease-reuse-duration-seconds",
    "livez-grace-period",
    "log-flush-frequency",
    "log-json-info-buffer-size",
    "log-text-info-buffer-size",
    "logging-format",
    "max-connection-bytes-per-sec",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "min-compatibility-version",
    "min-request-timeout",
    "oidc-ca-file",
    "oidc-client-id",
    "oidc-groups-claim",
    "oidc-groups-prefix",
    "oidc-issuer-url",
    "oidc-required-claim",
    "oidc-signing-algs",
    "oidc-username-claim",
    "oidc-username-prefix",
    "peer-advertise-ip",
    "peer-advertise-port",
    "peer-ca-file",
    "proxy-client-cert-file",
    "proxy-client-key-file",
    "request-timeout",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "requestheader-extra-headers-prefix",
    "requestheader-group-headers",
    "requestheader-uid-headers",
    "requestheader-username-headers",
    "runtime-config",
    "secure-port",
    "service-account-issuer",
    "service-account-jwks-uri",
    "service-account-key-file",
    "service-account-max-token-expiration",
    "service-account-signing-endpoint",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "service-node-port-range",
    "show-hidden-metrics-for-version",
    "shutdown-delay-duration",
    "shutdown-watch-termination-grace-period",
    "storage-backend",
    "storage-initialization-timeout",
    "storage-media-type",
    "strict-transport-security-directives",
    "tls-cert-file",
    "tls-cipher-suites",
    "tls-curve-preferences",
    "tls-min-version",
    "tls-private-key-file",
    "tls-sni-cert-key",
    "token-auth-file",
    "tracing-config-file",
    "v",
    "vmodule",
    "watch-cache-sizes",
];

pub(super) const TABLE: FlagTable = FlagTable {
    switches: SWITCHES,
    values: VALUES,
    short: &[("v", "v"), ("h", "help")],
    single_hyphens: false,
};

/// What `--help` prints. Test tools look for lines that begin with certain flags: those that are taken only because old
/// suites pass them may not be among them.
pub(super) fn help() -> String {
    let mut text = "This program stands in for kube-apiserver in tests: it is Tenure, keeps objects in memory, and collects \
                    garbage.\nAll flags of kube-apiserver are taken. Those with a star are acted on; the others change \
                    nothing, and a line in the log says so.\n\n"
        .to_owned();
    let hidden = |name: &&&str| !name.starts_with("insecure-");
    let mut names: Vec<&&str> = SWITCHES.iter().chain(VALUES).filter(hidden).collect();
    names.sort_unstable();
    for name in names {
        let star = if ACTED.contains(name) { " *" } else { "" };
        text += &format!("      --{name}{star}\n");
    }
    text + "\nEnvironment:\n  TENURE_CONTROLLERS   which controllers run: all (default), none, or names such as gc,namespace\n"
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r171_help_does_not_begin_a_line_with_the_flag_that_envtest_looks_for() {
        let help = help();
        assert!(help.lines().any(|line| line.trim_start().starts_with("--secure-port")), "{help}");
        assert!(!help.contains("--insecure-port"), "{help}");
    }

    #[test]
    fn r174_every_flag_that_is_acted_on_or_refused_is_known_once() {
        let mut all: Vec<&&str> = SWITCHES.iter().chain(VALUES).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a name stands twice");
        for name in ACTED.iter().chain(REFUSED.iter().map(|(name, _)| name)) {
            assert!(all.contains(&name), "{name}");
        }
    }
}
