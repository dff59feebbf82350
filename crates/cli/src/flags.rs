//! Every command and flag, with the words that `--help` shows. Completions come from here as well.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  tenure up                                  serve on 127.0.0.1:6443, keep objects on disk
  tenure up --ephemeral --listen 127.0.0.1:0 serve from memory on any free port
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

When ready, one line goes to stdout:
  ready https://127.0.0.1:6443 in 23 ms
Then, in another terminal:
  export KUBECONFIG=~/.local/share/tenure/kubeconfig
  kubectl get namespaces
Ctrl-c or SIGTERM ends it; objects and certificates are there at the next start.";

const DATA_DIR_HELP: &str = "\
Folder for objects, certificates and the kubeconfig \
[default: $XDG_DATA_HOME/tenure, else ~/.local/share/tenure]";

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
    Up(Up),
    /// Copy all objects into one file, or back
    #[command(subcommand)]
    Snapshot(Snapshot),
    /// Look after the stored objects
    #[command(subcommand)]
    Storage(Storage),
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

    /// The form of log lines on stderr
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,
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

#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP)]
    pub(crate) data_dir: Option<PathBuf>,
}
