//! Flags of the commands that look at owners and at what is retained. What they mean is decided elsewhere.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{Reply, Where, time};

pub(super) const TREE_EXAMPLES: &str = "\
Examples:
  tenure tree deployment/web                 what it owns, down to the last dependent
  tenure tree --up pod/web-1 -n shop         who owns it, up to the first owner
  tenure tree deploy/web svc/web             several objects
  tenure tree deployments -A                 all of a kind, in all namespaces
  tenure tree namespace/shop                 everything inside it
  tenure tree deploy/web --watch             the same, drawn again whenever it changes
  tenure tree deploy/web -o svg > web.svg    a picture, for light and dark
  tenure tree widgets.example.com/a -o json  for programs

The last column says what the reference to the owner is worth:
  solid         the owner lives
  waiting       the owner is being deleted in the foreground
  dangling      nobody has that uid, or the one who has it is no valid owner
  unresolvable  its kind is not served, or lives in a namespace and the dependent does not
`controller` marks the managing owner, `blocks` that the owner's foreground deletion waits.

Siblings that are alike are counted (`298 more`); --all shows each of them.";

pub(super) const WHY_EXAMPLES: &str = "\
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

Nothing is touched. The plan holds if nobody else writes meanwhile: built-in controllers take their
finalizers off as they do, those of others stay, and grace periods pass.";

pub(super) const AUDIT_EXAMPLES: &str = "\
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

pub(super) const UNUSED_EXAMPLES: &str = "\
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

/// Which object to look at.
#[derive(Debug, Args)]
pub(crate) struct ObjectFlags {
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
pub(crate) struct TreeFlags {
    /// The objects: `deployment/web`, `deployment web api`, or all of a kind: `deployments`
    ///
    /// The kind may be a plural, a singular, a short name or a kind, alone or with its group:
    /// `deployments`, `deploy`, `Deployment`, `deployments.apps`, `deployments.v1.apps`.
    #[arg(value_name = "KIND/NAME", required = true, num_args = 1..)]
    pub(crate) objects: Vec<String>,

    /// The namespace of the objects [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Objects of these kinds or names in every namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,

    /// Show every object, also where many are alike
    #[arg(long)]
    pub(crate) all: bool,

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
pub(crate) struct WhyFlags {
    #[command(flatten)]
    pub(crate) what: ObjectFlags,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Show what a deletion would take along, what would stay, and in which order
    #[command(after_help = PLAN_EXAMPLES)]
    Delete(PlanDelete),
}

#[derive(Debug, Args)]
pub(crate) struct PlanDelete {
    #[command(flatten)]
    pub(crate) what: ObjectFlags,

    /// How dependents are treated
    #[arg(long, value_name = "POLICY", default_value = "background")]
    pub(crate) cascade: CascadeFlag,

    /// Show every step, also where many are alike
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct AuditCommand {
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

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct UnusedFlags {
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
pub(crate) enum RetentionCommand {
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

    #[command(flatten)]
    pub(crate) reply: Reply,
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
pub(crate) enum CascadeFlag {
    /// The object goes first, its dependents after it
    Background,
    /// The object waits for dependents that block it
    Foreground,
    /// Dependents stay and lose their reference
    Orphan,
}
