//! Flags of the commands that look after a server that runs: is it there, what does it say, end it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::offline::DATA_DIR_HELP;
use super::path::path;
use super::{OutputFormat, time};

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  tenure status                              the server of the usual data folder
  tenure status --data-dir ./data -o json    another one, for programs
  until tenure status; do sleep 1; done      wait until one is ready

Exit code:
  0  it runs and is ready
  1  it runs and is not ready
  3  it does not run";

pub(super) const LOGS_EXAMPLES: &str = "\
Examples:
  tenure logs                                what the server in the background said
  tenure logs -f                             and what it says from now on, until ctrl-c
  tenure logs --tail 20 --data-dir ./data    the last lines of another one

A server that was started without --detach says everything to its own terminal, and one that systemd
started to the journal: `journalctl --user -u tenure`. How much is said is chosen at the start, with
`tenure up --detach -v`. Logs of pods are elsewhere: `kubectl logs POD`.";

pub(super) const DOWN_EXAMPLES: &str = "\
Examples:
  tenure down                                end the server of the usual data folder
  tenure down --data-dir ./data              end another one

Pods are ended with their grace periods; objects and certificates stay for the next `tenure up`. Entries that
the server wrote into a kubeconfig outside of its data folder, as with `tenure up --kubeconfig
~/.kube/config`, are taken out again. A server that does not run is no failure.";

pub(super) const DELETE_EXAMPLES: &str = "\
Examples:
  tenure delete                              asks, then ends the server and removes all it kept
  tenure delete --data-dir ./data --yes      the same of another folder, without a question

Only what tenure made is removed: objects, certificates, files of pods, the kubeconfig and the log. A folder
that holds something else is left, with that in it.";

pub(super) const KUBECONFIG_EXAMPLES: &str = "\
Examples:
  export KUBECONFIG=$(tenure kubeconfig path)
  tenure kubeconfig print > for-a-colleague.yaml
  tenure kubeconfig remove                   take the entries out of ~/.kube/config
  tenure kubeconfig remove --kubeconfig FILE take them out of another file

`tenure up --kubeconfig ~/.kube/config` puts a cluster and a context named `tenure`, and a user named
`tenure-admin`, into a kubeconfig that you have, and makes the context the current one. Your own entries stay as they are, and
so does a namespace that you choose with `kubectl config set-context --current --namespace=NAME`.";

#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,

    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: OutputFormat,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,

    /// Go on with what is said from now on, until interrupted or until the server ends
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only so many lines of what was said before
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct Down {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,

    /// How long it may take before the server is ended by force
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = time)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) down: Down,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KubeconfigCommand {
    /// Print where the kubeconfig of a data folder is
    #[command(after_help = KUBECONFIG_EXAMPLES)]
    Path(KubeconfigFolder),
    /// Print the kubeconfig of a data folder, with the administrator's key
    #[command(after_help = KUBECONFIG_EXAMPLES)]
    Print(KubeconfigFolder),
    /// Take the entries that tenure wrote out of a kubeconfig
    #[command(after_help = KUBECONFIG_EXAMPLES)]
    Remove(KubeconfigRemove),
}

#[derive(Debug, Args)]
pub(crate) struct KubeconfigFolder {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct KubeconfigRemove {
    /// The kubeconfig to take them out of [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) kubeconfig: Option<PathBuf>,
}
