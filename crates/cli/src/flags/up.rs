//! Flags of `tenure up`. What they mean is decided elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tenure_host::{FEATURES, ServerLimits, admission_plugin_names};

use super::offline::DATA_DIR_HELP;
use super::path::path;
use super::{AuthorizationFlags, NodeFlags, RuntimeFlag, bytes, node, time};

pub(super) const UP_EXAMPLES: &str = "\
Examples:
  tenure up
  tenure up --listen 127.0.0.1:0 --kubeconfig ./kubeconfig
  tenure up --ephemeral
  tenure up --detach                         in the background: `tenure status`, `logs`, `down`
  tenure up --kubeconfig ~/.kube/config      as a context `tenure` beside those that you have
  tenure up --config up.yaml                 with flags from a file, such as `nodes: 3`
  tenure up --print-config > up.yaml         such a file, with everything in it
  tenure up --nodes 0                        no node: pods wait until one joins
  tenure up --nodes 3 --runtime none         pods become Ready without containers

When ready, one line goes to stdout:
  ready https://127.0.0.1:6443 in 23 ms
Then, in another terminal:
  export KUBECONFIG=~/.local/share/tenure/kubeconfig
  kubectl get namespaces
With `--audit-log -` it goes to stderr, so that stdout is the audit log alone. systemd is told too, where it
started the server (`Type=notify`).
Ctrl-c or SIGTERM ends it; objects and certificates are there at the next start.";

/// Where pods can be run for real, there is a node to run them.
const NODES: u16 = if cfg!(target_os = "linux") { 1 } else { 0 };
const RUNTIME: &str = if cfg!(target_os = "linux") { "process" } else { "none" };
/// More nodes than this have no addresses for their pods.
const NODES_MAX: i64 = 5000;

#[derive(Debug, Args)]
pub(crate) struct UpFlags {
    /// A file with flags: their names without hyphens before, and values, in YAML
    ///
    /// Flags win over the file. Paths in it are below its folder. `--print-config` shows all names.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) config: Option<PathBuf>,

    /// Print what the flags and the file come to, and start nothing
    #[arg(long)]
    pub(crate) print_config: bool,

    /// Return when the server is ready, and leave it in the background
    ///
    /// Its log is in the data folder: `tenure logs`. `tenure down` ends it.
    #[arg(long, conflicts_with = "ephemeral")]
    pub(crate) detach: bool,

    /// The log of a server that was started by `--detach`
    #[arg(long, value_name = "FILE", value_parser = path(), hide = true)]
    pub(crate) background: Option<PathBuf>,

    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,

    /// Address and port to serve on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,

    /// The kubeconfig to put the server into, as a context `tenure` [default: one in the data folder]
    ///
    /// A cluster and a context named `tenure` and a user `tenure-admin` are put in and kept up to date; the context becomes the
    /// current one when it is new. What others wrote there stays, and so does a namespace that you
    /// choose. `tenure down` and `tenure kubeconfig remove` take the three out again.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Keep nothing on disk: objects and certificates live in memory
    #[arg(long, conflicts_with = "data_dir")]
    pub(crate) ephemeral: bool,

    /// Where objects are kept [default: file, or memory with --ephemeral]
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<StoreFlag>,

    /// When a write is acknowledged
    #[arg(long, value_name = "DURABILITY", default_value = "strict")]
    pub(crate) durability: DurabilityFlag,

    /// How many bytes all objects may have together, such as `2Gi`; 0 sets no bound [default: half of the
    /// memory, at most 8Gi]
    ///
    /// Beyond it, writes that add something are refused; reads and deletes are served.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) store_quota: Option<u64>,

    /// How many requests that read run at a time, of everybody but administrators; others wait their turn
    #[arg(long, value_name = "N", default_value_t = ServerLimits::default().reads)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_requests_inflight: u32,

    /// As --max-requests-inflight, for requests that write
    #[arg(long, value_name = "N", default_value_t = ServerLimits::default().writes)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_mutating_requests_inflight: u32,

    /// Whether owner references need rights: to delete the dependent, to finalize a blocked owner
    ///
    /// With `off` everything is accepted, and TENURE_LOG=info shows what would have been refused.
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    pub(crate) owner_permissions: Switch,

    /// Warn clients that write an owner reference to an object that does not exist
    #[arg(long)]
    pub(crate) warn_dangling_owners: bool,

    /// Which controllers run: `*` is all, `-name` leaves one out, such as `*,-job`; those of the API itself,
    /// such as `namespace`, run unless they are left out by name
    #[arg(long, value_name = "NAMES", default_value = "*", value_delimiter = ',')]
    #[arg(allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,

    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = plugins_help(false))]
    pub(crate) enable_admission_plugins: Vec<String>,

    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = plugins_help(true))]
    pub(crate) disable_admission_plugins: Vec<String>,

    #[arg(long, value_name = "NAME=BOOL", value_delimiter = ',', help = features_help())]
    pub(crate) feature_gates: Vec<String>,

    /// System namespaces whose ConfigMaps and Secrets may opt in to retention, such as `kube-system`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) retention_allow_namespaces: Vec<String>,

    /// Warn clients that opt in a ConfigMap or Secret whose content can change under its name
    #[arg(long)]
    pub(crate) warn_mutable_retention: bool,

    /// Let anybody who may write a ClusterReferenceConsumer or ReferenceStrategy expose any target
    ///
    /// Otherwise they must be able to read every object of the target resources, or `escalate`.
    #[arg(long)]
    pub(crate) ref_allow_unchecked_consumers: bool,

    /// What references let consumers do: `on` lets them read what is referenced, `observe` only counts and
    /// records what that would be, `off` decides nothing
    #[arg(long, value_name = "MODE", default_value = "on")]
    pub(crate) ref_authorizer: AuthorizerFlag,

    #[command(flatten)]
    pub(crate) authorization: AuthorizationFlags,

    /// Record who reads Secrets, ConfigMaps and what references point at, for `tenure access narrow`
    ///
    /// Also on with `--ref-authorizer=observe`. Names only, in memory, no contents.
    #[arg(long)]
    pub(crate) record_access: bool,

    /// How many nodes there are; 0 leaves pods waiting until one joins or somebody binds them
    #[arg(long, value_name = "N", default_value_t = NODES)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=NODES_MAX))]
    pub(crate) nodes: u16,

    /// What runs the pods: `process` for processes of this machine, `cri=SOCKET` for a container
    /// runtime, `none` for pods that are only imagined
    #[arg(long, value_name = "RUNTIME", default_value = RUNTIME, value_parser = node::runtime)]
    pub(crate) runtime: RuntimeFlag,

    #[command(flatten)]
    pub(crate) node: NodeFlags,

    /// Write one JSON line about every request to FILE; `-` is stdout
    ///
    /// The lines are `audit.k8s.io/v1` events. Bodies of Secrets, ConfigMaps and token requests are
    /// never written.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) audit_log: Option<PathBuf>,

    /// How much of a request is written to the audit log [default: metadata]
    #[arg(long, value_name = "LEVEL", requires = "audit_log")]
    pub(crate) audit_level: Option<AuditFlag>,

    /// A file that says how much of which request is written to the audit log: an audit policy, as Kubernetes has it
    #[arg(long, value_name = "FILE", value_parser = path())]
    #[arg(requires = "audit_log", conflicts_with = "audit_level")]
    pub(crate) audit_policy_file: Option<PathBuf>,

    /// How long an event is kept after its last write, such as `90m`; 0 keeps it
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) event_ttl: Duration,

    /// A file with more keys whose service-account tokens are believed; may be repeated
    ///
    /// Public keys, private keys or certificates in PEM form. Keys that signed before a
    /// `tenure keys rotate` are believed without this.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) service_account_key_file: Vec<PathBuf>,

    /// The form of log lines on stderr
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

/// The features there are, for `--help`.
fn features_help() -> String {
    let mut help = "Features to switch on or off; may be repeated:".to_owned();
    for feature in FEATURES {
        help += &format!("\n  {}={} (default): {}", feature.name, feature.usual, feature.about);
    }
    help
}

/// The admission plugins that can be switched off, or on, for `--help`.
fn plugins_help(on: bool) -> String {
    let switch = if on { "off, of those that are on" } else { "on, of those that are off" };
    let names = admission_plugin_names(on).join(", ");
    format!("Admission plugins to switch {switch} by default; may be repeated: {names}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreFlag {
    /// In the data folder
    File,
    /// In memory, gone at the end
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityFlag {
    /// After it is on disk
    Strict,
    /// At once; a power cut may lose the last moments
    Relaxed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// As it should be
    On,
    /// Not at all
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthorizerFlag {
    /// What is referenced may be read
    On,
    /// Decisions are counted and recorded, and allow nothing
    Observe,
    /// Nothing is decided
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditFlag {
    /// Nothing
    None,
    /// Who asked what, and what came of it
    Metadata,
    /// And the body of the request
    Request,
    /// And the body of the answer
    RequestResponse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text each
    Text,
    /// One JSON object each
    Json,
}
