//! Flags about nodes: how many, what runs their pods, what they have. What they mean is decided
//! elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::LogFormat;
use super::path::{here, path, right_of_equals};

pub(super) const NODE_EXAMPLES: &str = "\
Examples:
  tenure node --kubeconfig ./kubeconfig --node-name second
  tenure node --kubeconfig ./kubeconfig --runtime cri=/run/containerd/containerd.sock
  tenure node info                           what this machine can isolate

The kubeconfig may be a node's own (user system:node:NAME, group system:nodes) or one of somebody who
may act as others, such as an administrator; the node then acts as itself with a node's rights only.
Containers run on when the command ends; the next start finds them again.";

/// What runs pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeFlag {
    /// Processes of this machine.
    Process,
    /// A container runtime behind a socket.
    Cri(PathBuf),
    /// Nothing at all.
    None,
}

/// What keeps pods from the machine they run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolation {
    /// Namespaces, users and filters; no pod runs where they cannot be had
    Full,
    /// Nothing: pods are processes of this user and can do what this user can
    None,
}

/// Whose network pods have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PodNetworkFlag {
    /// Each its own, with an address; that of this machine where it cannot be had
    Own,
    /// That of this machine, whose ports they share
    Host,
}

/// How pods with a network of their own reach what is outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EgressFlag {
    /// As this machine does, but never its loopback
    Host,
    /// Not at all
    None,
}

/// Reads `process`, `none` or `cri=SOCKET`.
pub(crate) fn runtime(text: &str) -> Result<RuntimeFlag, String> {
    match text {
        "process" => Ok(RuntimeFlag::Process),
        "none" => Ok(RuntimeFlag::None),
        other => match other.strip_prefix("cri=").filter(|socket| !socket.is_empty()) {
            Some(socket) => here(Path::new(socket)).map(RuntimeFlag::Cri),
            None => Err("use `process`, `cri=SOCKET` or `none`".to_owned()),
        },
    }
}

/// Reads `FOLDER` or `IMAGE=FOLDER`.
pub(crate) fn image_folder(text: &str) -> Result<(Option<String>, PathBuf), String> {
    let (image, folder) = right_of_equals(text);
    if folder.is_empty() {
        return Err("name a folder, or an image and its folder as IMAGE=FOLDER".to_owned());
    }
    Ok((image.map(str::to_owned), here(Path::new(folder))?))
}

/// Reads `FIRST..MAX`, such as `100ms..1s`.
pub(crate) fn curve(text: &str) -> Result<(Duration, Duration), String> {
    let (first, max) = text.split_once("..").ok_or("use FIRST..MAX, such as `100ms..1s`")?;
    Ok((super::time(first)?, super::time(max)?))
}

/// Reads `cpu=4,memory=8Gi`.
pub(crate) fn capacity(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("use NAME=QUANTITY, such as `memory=8Gi`")?;
    match name {
        "cpu" | "memory" | "ephemeral-storage" | "pods" => Ok((name.to_owned(), value.to_owned())),
        _ => Err("only cpu, memory, ephemeral-storage and pods can be set".to_owned()),
    }
}

/// What nodes that run pods for real are told.
#[derive(Debug, Args)]
pub(crate) struct NodeFlags {
    /// What a node has, as NAME=QUANTITY: cpu, memory, ephemeral-storage, pods [default: what the
    /// machine has, and 110 pods]
    #[arg(long, value_name = "NAME=QUANTITY", value_delimiter = ',', value_parser = capacity)]
    pub(crate) node_capacity: Vec<(String, String)>,

    /// How long a container waits before it is started again, as FIRST..MAX
    #[arg(long, value_name = "FIRST..MAX", default_value = "10s..300s", value_parser = curve)]
    pub(crate) restart_backoff: (Duration, Duration),

    /// An image that runs on this machine's files, with `process`: IMAGE or IMAGE=COMMAND
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image_map: Vec<String>,

    /// A folder with images, or IMAGE=FOLDER for one, with `process`
    #[arg(long, value_name = "FOLDER", value_parser = image_folder)]
    pub(crate) image_dir: Vec<(Option<String>, PathBuf)>,

    /// Let pods ask for privileges and files of this machine, with `process`
    #[arg(long)]
    pub(crate) allow_privileged_process: bool,

    /// What keeps pods from this machine and from each other, with `process`
    #[arg(long, value_name = "KIND", default_value = "full")]
    pub(crate) isolation: Isolation,

    /// Whose network pods have, with `process`
    #[arg(long, value_name = "NETWORK", default_value = "own")]
    pub(crate) pod_network: PodNetworkFlag,

    /// Whether pods with a network of their own reach what is outside of it
    #[arg(long, value_name = "WAY", default_value = "host")]
    pub(crate) egress: EgressFlag,

    /// Put every pod into the network of this machine, with `cri`
    #[arg(long)]
    pub(crate) cri_host_network: bool,

    /// Put pods out when this machine runs short of memory or disk
    #[arg(long)]
    pub(crate) eviction: bool,
}

/// A node that joins a server.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NodeCommand {
    #[command(subcommand)]
    pub(crate) command: Option<NodeSubcommand>,

    /// The kubeconfig of the server to join
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context in the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// The name of the node [default: the name of this machine]
    #[arg(long, value_name = "NAME")]
    pub(crate) node_name: Option<String>,

    /// The address others reach the node at [default: the one this machine uses]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) node_ip: Option<IpAddr>,

    /// Where logs and commands are served; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:10250")]
    pub(crate) listen: SocketAddr,

    /// Folder for volumes, logs and containers
    /// [default: $XDG_DATA_HOME/tenure/node/NAME, else ~/.local/share/tenure/node/NAME]
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,

    /// What runs pods: `process` or `cri=SOCKET`
    #[arg(long, value_name = "RUNTIME", default_value = "process", value_parser = runtime)]
    pub(crate) runtime: RuntimeFlag,

    #[command(flatten)]
    pub(crate) node: NodeFlags,

    /// The form of log lines on stderr
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeSubcommand {
    /// Show what this machine can isolate and what it cannot, with the reason
    #[command(after_help = NODE_EXAMPLES)]
    Info(NodeInfo),
}

#[derive(Debug, Args)]
pub(crate) struct NodeInfo {
    /// What runs pods: `process` or `cri=SOCKET`
    #[arg(long, value_name = "RUNTIME", default_value = "process", value_parser = runtime)]
    pub(crate) runtime: RuntimeFlag,

    /// What keeps pods from this machine and from each other, with `process`
    #[arg(long, value_name = "KIND", default_value = "full")]
    pub(crate) isolation: Isolation,

    /// Whose network pods have, with `process`
    #[arg(long, value_name = "NETWORK", default_value = "own")]
    pub(crate) pod_network: PodNetworkFlag,
}
