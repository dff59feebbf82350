//! Flags of the commands that bring a feature to a cluster that is already there, and take it away. What they
//! mean is decided elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tenure_attach::ServerVersion;

use super::path::path;
use super::{LogFormat, Reply, Where};

pub(super) const INSTALL_EXAMPLES: &str = "\
Examples:
  tenure install downward | kubectl apply -f -
  tenure install downward --server-version 1.36 > downward.yaml

What is printed depends on the arguments and on the version of the server alone. Nothing is written; what
you apply carries the label app.kubernetes.io/managed-by=tenure, by which `tenure uninstall` finds it.";

const DOWNWARD_EXAMPLES: &str = "\
Examples:
  tenure install downward | kubectl apply -f -
  kubectl get mutatingadmissionpolicies -l tenure.dev/feature=downward
  tenure install downward --server-version 1.35 --ca-file ca.crt | kubectl apply -f -

Pods may then read `metadata.ownerReferences` in variables and files, on an unmodified cluster from 1.36
on: admission policies let them read an annotation instead, which follows the owners in the same write.
Nothing runs. Take it away with `tenure uninstall downward`.

Servers from 1.30 to 1.35 get a webhook instead. Its certificate is yours: for tenure-downward.tenure-system.svc,
in the Secret tenure-downward-tls of the namespace tenure-system, signed by whom --ca-file holds.";

const ACCESS_EXAMPLES: &str = "\
Examples:
  tenure install access --consumer edge | kubectl apply --server-side -f -
  tenure install access --consumer edge --for ingress,gateway-api > access.yaml
  tenure access strategies install --for ingress
  kubectl get roles -A -l tenure.dev/feature=access
  tenure install access --mode webhook | kubectl apply --server-side -f -
  tenure install access --mode webhook --authorization-config \\
      --user system:serviceaccount:edge-system:edge > authorization-config.yaml

Consumers then read what references lead to, one object by its name, on any cluster from 1.30 on: a process
writes Roles that name these objects and nothing else. It holds `escalate` and `bind` for the Roles of the
consumers that are named here, by name, and no right on any Secret. Take it away with
`tenure uninstall access`.";

const REPORT_EXAMPLES: &str = "\
Examples:
  tenure install ownership-report | kubectl apply --server-side -f -
  tenure install ownership-report --type certificates.cert-manager.io --type configmaps

What `tenure audit` finds is looked for once a minute. Metrics count it, as
tenure_ownership_findings{finding=\"dangling\"}, and an Event tells of each finding once. Nothing else is written.
Objects of types that may not be read are taken to be alive.";

pub(super) const ATTACH_EXAMPLES: &str = "\
Examples:
  tenure attach --features access            what the Deployment of `tenure install access` runs
  tenure attach --features access --kubeconfig ./kubeconfig --listen 127.0.0.1:8080
  tenure attach --features access --mode webhook --tls-cert-file tls.crt --tls-private-key-file tls.key \\
      --client-ca-file apiserver-ca.crt

Follows the cluster and writes to it until it is stopped; one of several writes, whoever holds the Lease
`tenure-access` in the namespace tenure-system. What it needs is printed by `tenure install`.

With --mode=webhook it writes nothing: it answers SubjectAccessReviews at https://ADDRESS:PORT/authorize, to
API servers with a certificate of --client-ca-file. Files are read again when they change.";

pub(super) const UNINSTALL_EXAMPLES: &str = "\
Examples:
  tenure uninstall downward --dry-run        what would go, and which templates still use it
  tenure uninstall downward

Objects are found by their labels and removed with your own rights, in an order that nothing waits for.
Who is stopped halfway does it again.";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  tenure doctor                              what works on the cluster of your kubeconfig, and why not
  tenure doctor --try downward               try its policies in a namespace of their own
  tenure doctor -o json                      for programs

Nothing is written but by --try, which makes the namespace `tenure-trial`, binds the policies to it alone, sends
dry runs of nine kinds there, and removes everything again.

Exit code:
  0  everything works, or may
  1  something does not work
  2  the cluster could not be asked";

const UNINSTALL_DOWNWARD_EXAMPLES: &str = "\
Examples:
  tenure uninstall downward --dry-run
  tenure uninstall downward --force

Templates that read owner references are named, and stop it: new pods of theirs would get an empty value.
Pods that run keep what they have.";

const UNINSTALL_REPORT_EXAMPLES: &str = "\
Examples:
  tenure uninstall ownership-report --dry-run
  tenure uninstall ownership-report";

const UNINSTALL_ACCESS_EXAMPLES: &str = "\
Examples:
  tenure uninstall access --dry-run
  tenure uninstall access
  tenure uninstall access --kinds            and every strategy, consumer and grant

Consumers lose at once what they could read by reference alone.";

#[derive(Debug, Subcommand)]
pub(crate) enum InstallCommand {
    /// Pods read their owner references, by admission policies
    #[command(after_help = DOWNWARD_EXAMPLES)]
    Downward(InstallDownward),
    /// Consumers read what references lead to, by Roles that are written
    #[command(after_help = ACCESS_EXAMPLES)]
    Access(InstallAccess),
    /// What is wrong with owners is counted and told, by a process that only reads
    #[command(after_help = REPORT_EXAMPLES)]
    OwnershipReport(InstallReport),
}

#[derive(Debug, Subcommand)]
pub(crate) enum UninstallCommand {
    /// Pods no longer read their owner references
    #[command(after_help = UNINSTALL_DOWNWARD_EXAMPLES)]
    Downward(UninstallFlags),
    /// No Roles follow references; those that were written go
    #[command(after_help = UNINSTALL_ACCESS_EXAMPLES)]
    Access(UninstallAccess),
    /// Nothing is reported about owners any more
    #[command(after_help = UNINSTALL_REPORT_EXAMPLES)]
    OwnershipReport(UninstallReport),
}

#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Try a feature before it is installed
    #[arg(long = "try", value_name = "FEATURE")]
    pub(crate) trial: Option<TrialFlag>,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

/// What can be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrialFlag {
    /// The policies by which pods read their owner references
    Downward,
}

#[derive(Debug, Args)]
pub(crate) struct InstallDownward {
    /// Who signed the certificate of the webhook, which servers before 1.36 need
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) ca_file: Option<PathBuf>,

    /// The image that runs, where a webhook is needed
    #[arg(long, value_name = "IMAGE", default_value = concat!("tenure:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,

    /// The version of Kubernetes to print for [default: ask the server]
    #[arg(long, value_name = "VERSION")]
    pub(crate) server_version: Option<ServerVersion>,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct InstallAccess {
    /// A ClusterReferenceConsumer that Roles may be written for; may be repeated
    #[arg(long = "consumer", value_name = "NAME")]
    pub(crate) consumers: Vec<String>,

    /// The bundles of strategies whose objects are read, such as `ingress,gateway-api` [default: all]
    #[arg(long = "for", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) bundles: Vec<String>,

    /// A type of objects that other strategies look into, such as `things.example.com`; may be repeated
    #[arg(long = "origin", value_name = "PLURAL.GROUP", value_parser = origin)]
    pub(crate) origins: Vec<(String, String)>,

    /// How rights come to consumers
    #[arg(long, value_name = "MODE", default_value = "synthesis")]
    pub(crate) mode: AccessModeFlag,

    /// Print the file for `--authorization-config` of the API server instead; with --mode=webhook
    #[arg(long, requires = "users_or_groups")]
    pub(crate) authorization_config: bool,

    /// A user whose requests reach the webhook, such as `system:serviceaccount:edge-system:edge`; may be repeated
    #[arg(long = "user", value_name = "NAME", group = "users_or_groups")]
    pub(crate) users: Vec<String>,

    /// A group whose requests reach the webhook; may be repeated
    #[arg(long = "group", value_name = "NAME", group = "users_or_groups")]
    pub(crate) groups: Vec<String>,

    /// What references lead to, by plural names
    #[arg(
        long,
        value_name = "PLURALS",
        value_delimiter = ',',
        default_value = "secrets,configmaps"
    )]
    pub(crate) targets: Vec<String>,

    /// The kubeconfig of the webhook, on the machine of the API server
    #[arg(
        long,
        value_name = "FILE",
        value_parser = path(),
        default_value = "/etc/kubernetes/tenure-authorizer.kubeconfig"
    )]
    pub(crate) authorizer_kubeconfig: PathBuf,

    /// The image that runs
    #[arg(long, value_name = "IMAGE", default_value = concat!("tenure:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,

    /// The version of Kubernetes to print for [default: ask the server]
    #[arg(long, value_name = "VERSION")]
    pub(crate) server_version: Option<ServerVersion>,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct InstallReport {
    /// A type to read beside the built-in ones, such as `certificates.cert-manager.io`; may be repeated
    #[arg(long = "type", value_name = "PLURAL.GROUP", value_parser = origin)]
    pub(crate) types: Vec<(String, String)>,

    /// The image that runs
    #[arg(long, value_name = "IMAGE", default_value = concat!("tenure:", env!("CARGO_PKG_VERSION")))]
    pub(crate) image: String,

    /// The version of Kubernetes to print for [default: ask the server]
    #[arg(long, value_name = "VERSION")]
    pub(crate) server_version: Option<ServerVersion>,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct UninstallReport {
    /// Say what would go, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct UninstallAccess {
    /// Say what would go, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Also the three kinds, and with them every strategy, consumer and grant that there is
    #[arg(long)]
    pub(crate) kinds: bool,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

/// How rights come to consumers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AccessModeFlag {
    /// Roles that name what is referenced, written by a process in the cluster
    Synthesis,
    /// An authorization webhook, where the flags of the API server are yours
    Webhook,
}

/// What runs beside a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttachFeatureFlag {
    /// What references give: Roles that follow them, or answers to an API server
    Access,
    /// Owner references in pods, for servers before 1.36
    Downward,
    /// What is wrong with owners, as metrics and Events
    OwnershipReport,
}

#[derive(Debug, Args)]
pub(crate) struct AttachFlags {
    /// What to do
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    pub(crate) features: Vec<AttachFeatureFlag>,

    /// How rights come to consumers
    #[arg(long, value_name = "MODE", default_value = "synthesis")]
    pub(crate) mode: AccessModeFlag,

    /// Where API servers ask a webhook
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6444")]
    pub(crate) webhook_listen: SocketAddr,

    /// The certificate that a webhook shows to API servers
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) tls_cert_file: Option<PathBuf>,

    /// Its key
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) tls_private_key_file: Option<PathBuf>,

    /// Who signs the certificates that API servers show; others get no answer. With --mode=webhook
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) client_ca_file: Option<PathBuf>,

    /// Where to answer /livez, /readyz and /metrics, without authentication [default: nowhere]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,

    /// What this replica is called among the others [default: $POD_NAME, else the name of the
    /// machine and the number of the process]
    #[arg(long, value_name = "NAME")]
    pub(crate) identity: Option<String>,

    /// The form of what is logged
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct UninstallFlags {
    /// Say what would go, and touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Go on although something still uses it
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

/// Reads `things.example.com`, or `services` of the core.
fn origin(text: &str) -> Result<(String, String), String> {
    let (plural, group) = text.split_once('.').unwrap_or((text, ""));
    let is_plain = |part: &str| {
        let inside =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        part.bytes().all(inside)
    };
    if plural.is_empty() || !is_plain(plural) || !is_plain(group) {
        return Err("write PLURAL.GROUP, such as `ingresses.networking.k8s.io`".to_owned());
    }
    Ok((group.to_owned(), plural.to_owned()))
}
