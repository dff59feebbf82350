//! Flags of the questions about access: may it, who may, why, the map, and what a change would do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::flags::path::path;
use crate::flags::{Reply, Where, time};

pub(super) const CAN_EXAMPLES: &str = "\
Examples:
  tenure access can get secret/web-tls -n shop --as system:serviceaccount:edge:edge
  tenure access can list secrets -n shop --as alice --as-group dev
  tenure access can watch services -A

The server is asked, so the answer is the one a request would get. The two lines below it say what roles
and what references have to do with it. Without --as it is about you. A service account without --as-group
is in the groups of all service accounts.

Exit code:
  0  yes
  1  no
  2  the question could not be asked";

pub(super) const WHO_CAN_EXAMPLES: &str = "\
Examples:
  tenure access who-can get secret/web-tls -n shop
  tenure access who-can list secrets -A              roles only: no reference allows that
  tenure access who-can create ingresses -n shop     who decides what consumers of Ingresses read

`by reference` names the chain of objects: what points there, the strategy that found it, the grant where
it comes from another namespace, and the consumer. `by roles` names bindings.

Exit code:
  0  everybody is named
  2  the cluster, or a part of it that matters, could not be read";

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  tenure access explain get secret/web-tls -n shop --as system:serviceaccount:edge:edge
  tenure access explain get secret/web-tls -n shop --as system:serviceaccount:edge:edge -o json

Eight conditions, in this order; the first that is not met is told, on the consumer that comes furthest:
  1 VERB       get, list or watch of one name
  2 SUBJECT    a ClusterReferenceConsumer names the subject
  3 TARGET     it serves references to this type
  4 TRIPLE     a ReferenceStrategy finds such references
  5 VERSION    in a version that is served
  6 REFERENCE  an origin points at this name
  7 CLASS      the consumer serves the class of that origin
  8 GRANT      both are in one namespace, or a ReferenceGrant allows it

Exit code:
  0  a reference allows it
  1  none does
  2  the question could not be asked, or what would answer it could not be read";

pub(super) const MAP_EXAMPLES: &str = "\
Examples:
  tenure access map                          everybody, as a tree
  tenure access map --as system:serviceaccount:edge:edge
  tenure access map -n shop -o dot | dot -Tpng > shop.png
  tenure access map -o svg > map.svg         a picture, for light and dark

From left to right: subject, consumer, origin, grant, target. References that wait for a ReferenceGrant
are shown and marked. Access by roles is not on the map: ask `tenure access who-can`.

Exit code:
  0  the map is whole
  2  the cluster, or a part of it that matters, could not be read";

pub(super) const DIFF_EXAMPLES: &str = "\
Examples:
  tenure access diff -f grant.yaml           if it were applied
  tenure access diff -f gateway.yaml --delete
  kubectl kustomize . | tenure access diff -f -

Takes objects of the three kinds, and origins in the version that strategies read. They are joined with what
is there as `kubectl apply` does it: fields that others wrote stay. Nothing is written.
Changes of roles are not looked at.

Exit code:
  0  nobody gains or loses access by reference
  2  the cluster or the file could not be read
  3  somebody does";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  tenure access doctor
  tenure access doctor -o json

Warns of consumers that can give themselves access because they write their own origins, of subjects that
read everything by roles all the same, and of objects that cannot be understood. Notes what each strategy
leaves to the writers of origins, grants that cover nothing, and counterparts that are missing.

Exit code:
  0  nothing is wrong
  1  somebody should look
  2  the cluster could not be read";

pub(super) const UNUSED_EXAMPLES: &str = "\
Examples:
  tenure access unused
  tenure access unused -n prod-tls -o json

A grant is unused while no origin points at a name of it for its purpose. When it last covered one is not
known: no history is kept.

Exit code:
  0  every grant covers a reference
  2  the cluster could not be read
  3  one does not";

pub(super) const NARROW_EXAMPLES: &str = "\
Examples:
  tenure access narrow --subject system:serviceaccount:edge:edge
  tenure access narrow --subject system:serviceaccount:edge:edge --audit-log audit.log --window 24h
  tenure access narrow --subject system:serviceaccount:edge:edge --class nginx -o yaml > objects.yaml

Finds the bindings that let the subject read every Secret, what its origins point at, and what of its
recorded requests would be refused without those bindings. The origins of a subject are those that a
consumer of it serves, or that roles let it list or watch. The objects that are missing are printed, with
ready strategies where none is in force; read them, apply them, and ask again.

`tenure up --record-access` remembers who reads what, and is asked. `tenure up --audit-log FILE` writes it
down; logs of other API servers in the form audit.k8s.io/v1 do as well. Without either only references are
looked at, and nothing is called safe.

Exit code:
  0  safe: nothing that was asked for would be refused, and a restart of the subject was recorded
  1  something would break, or too little was recorded to say
  2  the cluster or the log could not be read";

/// Who, does what, with what.
#[derive(Debug, Args)]
pub(crate) struct AccessArguments {
    /// The verb, such as `get`
    pub(crate) verb: String,

    /// The object: `secret/web-tls`, `secret web-tls`, or `secrets` for all of them
    ///
    /// The kind may be a plural, a singular, a short name or a kind, alone or with its group.
    #[arg(value_name = "RESOURCE/NAME", required = true, num_args = 1..=2)]
    pub(crate) object: Vec<String>,

    /// A part of the object, such as `status`
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) subresource: String,

    /// The namespace of the object [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
}

/// Somebody to ask about.
#[derive(Debug, Args)]
pub(crate) struct As {
    /// Ask about this user [default: you]
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,

    /// A group of that user; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub(crate) groups: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Can {
    #[command(flatten)]
    pub(crate) ask: AccessArguments,

    #[command(flatten)]
    pub(crate) who: As,

    /// Say nothing; the exit code tells
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) ask: AccessArguments,

    #[command(flatten)]
    pub(crate) who: As,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct WhoCan {
    #[command(flatten)]
    pub(crate) ask: AccessArguments,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct AccessMap {
    /// Only what begins or ends in this namespace [default: the whole cluster]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Only what this user reaches [default: everybody]
    #[arg(long = "as", value_name = "USER")]
    pub(crate) user: Option<String>,

    /// A group of that user; may be repeated
    #[arg(long = "as-group", value_name = "GROUP", requires = "user")]
    pub(crate) groups: Vec<String>,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: MapForm,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Debug, Args)]
pub(crate) struct AccessDiff {
    /// A file with the change; `-` is stdin; may be repeated
    #[arg(short, long, value_name = "FILE", required = true, value_parser = path())]
    pub(crate) file: Vec<PathBuf>,

    /// The objects of the file are deleted instead of applied
    #[arg(long)]
    pub(crate) delete: bool,

    /// The namespace of objects that name none [default: the context's]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct AccessDoctor {
    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct AccessUnused {
    /// Only this namespace [default: the whole cluster]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) reply: Reply,
}

#[derive(Debug, Args)]
pub(crate) struct AccessNarrow {
    /// The user whose broad access is to go
    #[arg(long, alias = "as", value_name = "USER")]
    pub(crate) subject: String,

    /// A group of that user; may be repeated
    #[arg(long = "as-group", value_name = "GROUP")]
    pub(crate) groups: Vec<String>,

    /// The type that is read
    #[arg(long, value_name = "RESOURCE", default_value = "secrets")]
    pub(crate) resource: String,

    /// Only origins of these classes, such as `nginx`; an empty one means origins without [default: all]
    #[arg(long = "class", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) classes: Vec<String>,

    /// An audit log that says what was read; `-` is stdin [default: ask the server]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) audit_log: Option<PathBuf>,

    /// The server has the feature ReferenceFilteredLists on [default: ask the server]
    ///
    /// A consumer may then list and watch whole collections, and is shown what is referenced. A server that
    /// does not record reads cannot be asked.
    #[arg(long)]
    pub(crate) filtered_lists: bool,

    /// Only the last of what was recorded, such as `24h` [default: all of it]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) window: Option<Duration>,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: NarrowForm,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MapForm {
    /// For people
    Text,
    /// For programs
    Json,
    /// For Graphviz
    Dot,
    /// A picture
    Svg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NarrowForm {
    /// For people
    Text,
    /// For programs
    Json,
    /// Only the objects, to be applied
    Yaml,
}
