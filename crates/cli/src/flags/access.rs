//! Flags about references: who may read what because something points at it. What they mean is decided
//! elsewhere.

mod review;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Where;
use super::path::path;

pub(crate) use review::{
    AccessArguments, AccessDiff, AccessDoctor, AccessMap, AccessNarrow, AccessUnused, Can, Explain,
    MapForm, NarrowForm, WhoCan,
};

pub(super) const ACCESS_EXAMPLES: &str = "\
Examples:
  tenure access can get secret/web-tls -n shop --as system:serviceaccount:edge:edge
  tenure access explain get secret/web-tls -n shop --as system:serviceaccount:edge:edge
  tenure access who-can get secret/web-tls -n shop
  tenure access map                          who reaches what, as a tree
  tenure access map --as alice -o svg        what one subject reaches, as a picture
  tenure access diff -f change.yaml          who gains and who loses access by a change
  tenure access doctor                       what is wrong, and what each strategy leaves to others
  tenure access unused                       grants that cover no reference
  tenure access narrow --subject system:serviceaccount:edge:edge
                                             what would break without broad access to Secrets
  tenure access strategies install --for gateway-api,ingress
  tenure access conformance                  does this cluster follow references as it should

A controller may read an object while something it serves points at it. Three kinds say so:
  ReferenceStrategy           where in objects of a type the names of others are
  ClusterReferenceConsumer    who serves such references, and for which classes
  ReferenceGrant              who may point at these objects from another namespace

All but `strategies install` and `conformance` only read. They need the right to list the three kinds, the
origins that strategies look into, and roles and bindings; what cannot be read is named.";

const STRATEGIES_EXAMPLES: &str = "\
Examples:
  tenure access strategies list
  tenure access strategies print --for ingress > ingress.yaml
  tenure access strategies install --for gateway-api,cert-manager

A strategy says where in objects of an API the names of others are. None is in force until it is
installed; one is installed only when its API is served. Read what is printed: it says what a consumer
of these references gets to see.";

const CONFORMANCE_EXAMPLES: &str = "\
Examples:
  tenure access conformance --kubeconfig ./kubeconfig
  tenure access conformance --consumer edge-system/edge
  tenure access conformance --only grant_deleted_revokes
  tenure access conformance --gates GrantNamespaceSelector,ConsumerClassSelector

Makes two sample kinds in group conformance.tenure.dev and the namespaces conformance-origin,
conformance-target and conformance-other, applies the objects of each case, asks with
SubjectAccessReviews what the consumer may read, and removes everything again. The consumer is a service
account, which need not exist and must have no right on Secrets and ConfigMaps.

Exit code:
  0  every case passes
  1  a case fails
  2  the cluster could not be asked";

const MIGRATE_EXAMPLES: &str = "\
Examples:
  tenure migrate reference-grants -f grants.yaml           print what they become
  tenure migrate reference-grants --cluster                the same for all there are
  tenure migrate reference-grants --cluster --verify       and compare old and new verdicts
  tenure migrate reference-grants --cluster --write        and create them
  tenure migrate reference-grants --cluster --write --follow
                                                           and keep them in step, until interrupted

Reads ReferenceGrants of gateway.networking.k8s.io. They are never changed or removed: a controller that
honours either kind goes on working. What cannot be converted is said on stderr. Grants are created with
your rights: you must be able to read what they grant.

An entry without a name means every object, which this API cannot say: it becomes the names in use. With
--follow these come and go with the references of living origins, and a grant goes with the old one that it
was made from. Only grants with the annotation reference.tenure.dev/migrated-from are changed or deleted,
which --write puts on those it creates; one of another origin that has the same name is left alone.

Exit code:
  0  everything was converted
  1  --verify found a reference that is lost or won, or a grant could not be created
  2  the cluster or a file could not be read
  3  something could not be converted";

#[derive(Debug, Subcommand)]
pub(crate) enum AccessCommand {
    /// Ask whether somebody may do something, by roles or by reference
    #[command(after_help = review::CAN_EXAMPLES)]
    Can(Can),
    /// Name everybody who may do something, and why
    #[command(after_help = review::WHO_CAN_EXAMPLES)]
    WhoCan(WhoCan),
    /// Show all eight conditions of a reference, the nearest miss, and what would help
    #[command(after_help = review::EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Draw who reaches what
    #[command(after_help = review::MAP_EXAMPLES)]
    Map(AccessMap),
    /// Tell who gains and who loses access by a change, before it is made
    #[command(after_help = review::DIFF_EXAMPLES)]
    Diff(AccessDiff),
    /// Find what is wrong, and what each strategy leaves to the writers of origins
    #[command(after_help = review::DOCTOR_EXAMPLES)]
    Doctor(AccessDoctor),
    /// Name grants that cover no reference
    #[command(after_help = review::UNUSED_EXAMPLES)]
    Unused(AccessUnused),
    /// Find out what would break if broad access went, and which objects would replace it
    #[command(after_help = review::NARROW_EXAMPLES)]
    Narrow(AccessNarrow),
    /// Ready strategies for common APIs
    #[command(subcommand, after_help = STRATEGIES_EXAMPLES)]
    Strategies(Strategies),
    /// Find out whether a cluster follows references as it should
    #[command(after_help = CONFORMANCE_EXAMPLES)]
    Conformance(Conformance),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Strategies {
    /// Name all there are
    #[command(after_help = STRATEGIES_EXAMPLES)]
    List,
    /// Print them as YAML, with what there is to know
    #[command(after_help = STRATEGIES_EXAMPLES)]
    Print(StrategiesPrint),
    /// Apply those whose API is served
    #[command(after_help = STRATEGIES_EXAMPLES)]
    Install(StrategiesInstall),
}

#[derive(Debug, Args)]
pub(crate) struct StrategiesPrint {
    /// Only these bundles, such as `gateway-api,cert-manager` [default: all]
    #[arg(long = "for", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) bundles: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StrategiesInstall {
    /// Only these bundles, such as `gateway-api,cert-manager` [default: all]
    #[arg(long = "for", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) bundles: Vec<String>,

    /// Also those whose consumers read Secrets of every class
    #[arg(long)]
    pub(crate) allow_unpartitioned: bool,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// The service account to ask about
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "conformance-system/consumer")]
    #[arg(value_parser = account)]
    pub(crate) consumer: (String, String),

    /// Only these cases
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// What the cluster has switched on beyond the rest: cases of GrantNamespaceSelector and
    /// ConsumerClassSelector are left out unless they are named here
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) gates: Vec<String>,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Make grants of this API from those of the Gateway API
    #[command(after_help = MIGRATE_EXAMPLES)]
    ReferenceGrants(MigrateGrants),
}

#[derive(Debug, Args)]
pub(crate) struct MigrateGrants {
    /// A file with ReferenceGrants, and perhaps strategies; `-` is stdin; may be repeated
    #[arg(short, long, value_name = "FILE", value_parser = path())]
    pub(crate) file: Vec<PathBuf>,

    /// Take those of the cluster
    #[arg(long = "cluster", conflicts_with = "file")]
    pub(crate) from_cluster: bool,

    /// Create the grants in the cluster instead of printing them
    #[arg(long)]
    pub(crate) write: bool,

    /// Go on until interrupted, and keep the grants in step with the old ones and with what is referenced
    #[arg(long, conflicts_with = "verify")]
    pub(crate) follow: bool,

    /// Compare old and new verdict of every reference into another namespace
    #[arg(long)]
    pub(crate) verify: bool,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

/// Reads `NAMESPACE/NAME`.
fn account(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('/').filter(|(namespace, name)| {
        !namespace.is_empty() && !name.is_empty() && !name.contains('/')
    });
    let parts = parts.ok_or("write NAMESPACE/NAME, such as `edge-system/edge`")?;
    Ok((parts.0.to_owned(), parts.1.to_owned()))
}
