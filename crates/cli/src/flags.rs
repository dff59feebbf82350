//! Every command and flag, with the words that `--help` shows. Completions come from here as well.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tenure_host::FEATURES;

mod access;
mod node;

pub(crate) use access::{
    Access, AccessDiff, AccessDoctor, AccessMap, AccessNarrow, AccessUnused, Ask, Can, Conformance,
    Explain, MapForm, Migrate, MigrateGrants, NarrowForm, Strategies, StrategiesInstall, WhoCan,
};
pub(crate) use node::{NodeCommand, NodeFlags, NodeSubcommand, RuntimeFlag};

const EXAMPLES: &str = "\
Examples:
  tenure up                                  serve on 127.0.0.1:6443, keep objects on disk
  tenure up --ephemeral --listen 127.0.0.1:0 serve from memory on any free port
  tenure tree deployment/web                 what it owns, in the cluster of your kubeconfig
  tenure why pod/web-1 -n shop               why it is still there, or will not stay
  tenure plan delete deployment/web          what would go, before anything is touched
  tenure audit                               everything wrong with ownership, for people and CI
  tenure unused -A                           ConfigMaps and Secrets that nothing mentions
  tenure access map                          who reaches what by reference
  tenure snapshot save before.snapshot       copy all objects of a stopped server into one file
  tenure completions bash > tenure.bash      write completions for a shell

Environment:
  TENURE_LOG   what to log, for example `info` or `tenure_server=debug` (default: warn)
  NO_COLOR     set to anything to have no colors";

const UP_EXAMPLES: &str = "\
Examples:
  tenure up
  tenure up --listen 127.0.0.1:0 --kubeconfig ./kubeconfig
  tenure up --ephemeral
  tenure up --nodes 0                        no node: pods wait until one joins
  tenure up --nodes 3 --runtime none         pods become Ready without containers

When ready, one line goes to stdout:
  ready https://127.0.0.1:6443 in 23 ms
Then, in another terminal:
  export KUBECONFIG=~/.local/share/tenure/kubeconfig
  kubectl get namespaces
Ctrl-c or SIGTERM ends it; objects and certificates are there at the next start.";

const TREE_EXAMPLES: &str = "\
Examples:
  tenure tree deployment/web                 what it owns, down to the last dependent
  tenure tree --up pod/web-1 -n shop         who owns it, up to the first owner
  tenure tree deploy/web --watch             the same, drawn again whenever it changes
  tenure tree deploy/web -o svg > web.svg    a picture, for light and dark
  tenure tree widgets.example.com/a -o json  for programs

The last column says what the reference to the owner is worth:
  solid         the owner lives
  waiting       the owner is being deleted in the foreground
  dangling      nobody has that uid, or the one who has it is no valid owner
  unresolvable  its kind is not served, or lives in a namespace and the dependent does not
`controller` marks the managing owner, `blocks` that the owner's foreground deletion waits.";

const WHY_EXAMPLES: &str = "\
Examples:
  tenure why pod/web-1                       will it be collected, and by which rule
  tenure why namespace/shop                  what a namespace that does not go waits for
  tenure why deployment/web -o json          for programs

For an object that is Terminating: who blocks it, which finalizer waits for whom and who wrote it
last, rings, and how much is left of its grace period.";

const PLAN_EXAMPLES: &str = "\
Examples:
  tenure plan delete deployment/web                       as `kubectl delete` does it
  tenure plan delete deployment/web --cascade=foreground  dependents first
  tenure plan delete deployment/web --cascade=orphan      dependents stay
  tenure plan delete namespace/shop -o json               for programs

Nothing is touched. The plan holds if nobody else writes meanwhile; finalizers of others stay, and
grace periods pass.";

const AUDIT_EXAMPLES: &str = "\
Examples:
  tenure audit                               the whole cluster
  tenure audit -n shop                       one namespace
  tenure audit --stuck-after 1h -o json      for programs

Finds owner references that dangle, cross namespaces or cannot be resolved, objects that own one
another, and deletions that do not end.

Exit code:
  0  nothing found
  1  something found
  2  the cluster, or part of it, could not be read; --partial accepts a part";

const UNUSED_EXAMPLES: &str = "\
Examples:
  tenure unused                              the namespace of your context
  tenure unused -A -o json                   the whole cluster, for programs

Nothing is touched. Every ConfigMap and Secret gets one of three verdicts:
  unused   no object that was read mentions it
  unknown  something may use it: an argument, a custom kind, a label that programs look for,
           an owner; or not everything could be read
  used     a pod, a workload or a revision of one, a ServiceAccount, an Ingress, a volume names it
A program may read by its name what no object mentions. The label `tenure.dev/dynamic` makes an
object `unknown` for good.

Exit code:
  0  nothing is unused
  2  the cluster, or part of it, could not be read; --partial accepts a part
  3  something is unused";

const DRAIN_EXAMPLES: &str = "\
Examples:
  tenure retention drain --dry-run           what would be taken back
  tenure retention drain -n shop             one namespace

Takes back every owner that the retention engine gave to a ConfigMap or Secret. Owners that others
wrote stay, and so does every object: what has no owner is never collected. A server that runs with
the feature on writes them again; one that is started with
`--feature-gates ControllersAsOwners=false` takes them back by itself.";

const POLICY_EXAMPLES: &str = "\
Examples:
  tenure policy owner-references | kubectl apply -f -
  kubectl label namespace shop downward.tenure.dev/owner-references=forbid

In namespaces with that label, pods may not read their owner references. The policy works in every
cluster with ValidatingAdmissionPolicies. A server of `tenure up` needs none: the label is enough.";

const DATA_DIR_HELP: &str = "\
Folder for objects, certificates and the kubeconfig \
[default: $XDG_DATA_HOME/tenure, else ~/.local/share/tenure]";

const KEYS_EXAMPLES: &str = "\
Examples:
  tenure keys rotate                         sign with a new key from the next start on
  tenure keys list                           see which keys there are
  tenure keys remove ID                      refuse what that key signed

The server that uses the folder must be stopped to rotate or remove.";

/// Ten years: what is longer is a mistake.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Where pods can be run for real, there is a node to run them.
const NODES: u16 = if cfg!(target_os = "linux") { 1 } else { 0 };
const RUNTIME: &str = if cfg!(target_os = "linux") { "process" } else { "none" };
/// More nodes than this have no addresses for their pods.
const NODES_MAX: i64 = 5000;

/// A Kubernetes control plane in one process.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Flags {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a control plane and serve until stopped
    #[command(after_help = UP_EXAMPLES)]
    Up(Box<Up>),
    /// Join a node to a server and run pods on it until stopped
    #[command(after_help = node::NODE_EXAMPLES)]
    Node(Box<NodeCommand>),
    /// Show what an object owns, or who owns it, in any cluster
    #[command(after_help = TREE_EXAMPLES)]
    Tree(Tree),
    /// Explain why an object is still there, or will not stay
    #[command(after_help = WHY_EXAMPLES)]
    Why(Why),
    /// Show what a command would do, before anything is touched
    #[command(subcommand)]
    Plan(Plan),
    /// Find everything that is wrong with the ownership of objects
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit(Audit),
    /// Find ConfigMaps and Secrets that nothing mentions, and what holds the others
    #[command(after_help = UNUSED_EXAMPLES)]
    Unused(Unused),
    /// Look after the owners that revisions of workloads become
    #[command(subcommand)]
    Retention(Retention),
    /// Copy all objects into one file, or back
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Look after the stored objects
    #[command(subcommand)]
    Storage(Storage),
    /// Look after the keys that sign service-account tokens
    #[command(subcommand, after_help = KEYS_EXAMPLES)]
    Keys(Keys),
    /// See who may read what because something points at it
    #[command(subcommand, after_help = access::ACCESS_EXAMPLES)]
    Access(Access),
    /// Make objects of this API from those of another
    #[command(subcommand)]
    Migrate(Migrate),
    /// Print admission policies to apply to a cluster
    #[command(subcommand, after_help = POLICY_EXAMPLES)]
    Policy(Policy),
    /// Print completions for a shell
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Address and port to serve on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443")]
    pub(crate) listen: SocketAddr,

    /// Where to write the kubeconfig [default: inside the data folder]
    ///
    /// A file that exists and was not written by tenure is left alone.
    #[arg(long, value_name = "FILE")]
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

    /// Whether owner references need rights: to delete the dependent, to finalize a blocked owner
    ///
    /// With `off` everything is accepted, and TENURE_LOG=info shows what would have been refused.
    #[arg(long, value_name = "SWITCH", default_value = "on")]
    pub(crate) owner_permissions: Switch,

    /// Warn clients that write an owner reference to an object that does not exist
    #[arg(long)]
    pub(crate) warn_dangling_owners: bool,

    /// Which controllers run: `*` is all, `-name` leaves one out, such as `*,-job`
    #[arg(long, value_name = "NAMES", default_value = "*", value_delimiter = ',')]
    #[arg(allow_hyphen_values = true)]
    pub(crate) controllers: Vec<String>,

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
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,

    /// How much of a request is written to the audit log [default: metadata]
    #[arg(long, value_name = "LEVEL", requires = "audit_log")]
    pub(crate) audit_level: Option<AuditFlag>,

    /// How long an event is kept after its last write, such as `90m`; 0 keeps it
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time)]
    pub(crate) event_ttl: Duration,

    /// A file with more keys whose service-account tokens are believed; may be repeated
    ///
    /// Public keys, private keys or certificates in PEM form. Keys that signed before a
    /// `tenure keys rotate` are believed without this.
    #[arg(long, value_name = "FILE")]
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

/// Which cluster to look at.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// The kubeconfig to use [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context in the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// When to use colors
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorFlag,
}

/// Which object to look at.
#[derive(Debug, Args)]
pub(crate) struct What {
    /// The object: `deployment/web`, or `deployment web`
    ///
    /// The kind may be a plural, a singular, a short name or a kind, alone or with its group:
    /// `deployments`, `deploy`, `Deployment`, `deployments.apps`, `deployments.v1.apps`.
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..=2)]
    pub(crate) object: Vec<String>,

    /// The namespace of the object [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Tree {
    #[command(flatten)]
    pub(crate) what: What,

    /// Show owners instead of dependents
    #[arg(long)]
    pub(crate) up: bool,

    /// Show it again whenever it changes, until interrupted
    #[arg(short, long)]
    pub(crate) watch: bool,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: TreeForm,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    #[command(flatten)]
    pub(crate) what: What,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    /// Show what a deletion would take along, what would stay, and in which order
    #[command(after_help = PLAN_EXAMPLES)]
    Delete(PlanDelete),
}

#[derive(Debug, Args)]
pub(crate) struct PlanDelete {
    #[command(flatten)]
    pub(crate) what: What,

    /// How dependents are treated
    #[arg(long, value_name = "POLICY", default_value = "background")]
    pub(crate) cascade: CascadeFlag,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only this namespace [default: the whole cluster]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// The whole cluster, which is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    /// How old a deletion must be to be called stuck, such as `90m`
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(crate) stuck_after: Duration,

    /// Accept that some kinds cannot be read
    #[arg(long)]
    pub(crate) partial: bool,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct Unused {
    /// Only this namespace [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// The whole cluster
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    /// Accept that some kinds cannot be read: they are taken to mention nothing
    #[arg(long)]
    pub(crate) partial: bool,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub(crate) output: TableForm,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Forbid that pods read their owner references, by a label of their namespace
    #[command(after_help = POLICY_EXAMPLES)]
    OwnerReferences(OwnerReferencesPolicy),
}

#[derive(Debug, Args)]
pub(crate) struct OwnerReferencesPolicy {
    /// Also refuse files that show every annotation: one of them may carry the references
    #[arg(long)]
    pub(crate) strict: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Retention {
    /// Take back every owner that the retention engine wrote; no object is removed
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(Drain),
}

#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// Only this namespace [default: the whole cluster]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: Form,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableForm {
    /// For people
    Table,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeForm {
    /// For people
    Text,
    /// For programs
    Json,
    /// For Graphviz
    Dot,
    /// For Markdown
    Mermaid,
    /// A picture
    Svg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// For people
    Text,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CascadeFlag {
    /// The object goes first, its dependents after it
    Background,
    /// The object waits for dependents that block it
    Foreground,
    /// Dependents stay and lose their reference
    Orphan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorFlag {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also into files
    Always,
    /// Not at all
    Never,
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

#[derive(Debug, Subcommand)]
pub(crate) enum Snapshot {
    /// Copy all objects of a stopped server into FILE
    Save(SnapshotFile),
    /// Replace all objects of a stopped server with those in FILE; the old ones are kept beside
    Restore(SnapshotFile),
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotFile {
    /// The snapshot
    pub(crate) file: PathBuf,

    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP)]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Storage {
    /// Give back the disk space of old revisions of a stopped server
    Compact(Compact),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Have a stopped server sign with a new key; tokens of the old one still hold
    Rotate(KeysFolder),
    /// Print the ids of all keys and what each is for
    List(KeysFolder),
    /// Forget an old key of a stopped server; its tokens are refused from then on
    Remove(KeysRemove),
}

#[derive(Debug, Args)]
pub(crate) struct KeysFolder {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP)]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct KeysRemove {
    /// The id of the key, as `tenure keys list` prints it
    // Ids are base64 for URLs, and one in 64 begins with a hyphen.
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,

    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP)]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Reads a time as Go programs write it: `90s`, `1h30m`, `0`.
fn time(text: &str) -> Result<Duration, String> {
    const WRONG: &str = "write a number with h, m, s or ms, such as `90m` or `1h30m`";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        let milliseconds = match unit {
            "h" => 3_600_000,
            "m" => 60_000,
            "s" => 1_000,
            "ms" => 1,
            _ => return Err(WRONG.to_owned()),
        };
        let number: u64 = number.parse().map_err(|_| WRONG.to_owned())?;
        let part = number.checked_mul(milliseconds).map(Duration::from_millis);
        total = part.and_then(|part| total.checked_add(part)).ok_or("the time is too long")?;
        rest = after;
    }
    if text.is_empty() || total > TIME_MAX {
        return Err(if text.is_empty() { WRONG } else { "the time is too long" }.to_owned());
    }
    Ok(total)
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP)]
    pub(crate) data_dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, seconds) in
            [("1h", 3600), ("90m", 5400), ("1h30m", 5400), ("0", 0), ("0s", 0), ("1h0m5s", 3605)]
        {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(time("1500ms"), Ok(Duration::from_millis(1500)));
        for wrong in [
            "",
            "h",
            "1",
            "-1h",
            "1 h",
            "1d",
            "1.5h",
            "1h2",
            "99999999999999999999h",
            "9999999h",
            "1é",
        ] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
