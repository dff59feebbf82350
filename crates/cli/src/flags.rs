//! Every command and flag, with the words that `--help` shows. Completions come from here as well.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tenure_machinery::quantity::Quantity;

mod access;
mod attach;
mod authorization;
mod envtest;
mod inspect;
mod lifecycle;
mod node;
mod offline;
pub(crate) mod path;
mod up;

pub(crate) use access::{
    AccessArguments, AccessCommand, AccessDiff, AccessDoctor, AccessMap, AccessNarrow,
    AccessUnused, Can, Conformance, Explain, MapForm, Migrate, MigrateGrants, NarrowForm,
    Strategies, StrategiesInstall, WhoCan,
};
pub(crate) use attach::{
    AccessModeFlag, AttachFeatureFlag, AttachFlags, DoctorFlags, InstallAccess, InstallCommand,
    InstallDownward, TrialFlag, UninstallAccess, UninstallCommand, UninstallFlags, UninstallReport,
};
pub(crate) use authorization::{AuthorizationFlags, ReviewVersionFlag};
pub(crate) use envtest::EnvtestFlags;
pub(crate) use inspect::{
    AuditCommand, CascadeFlag, Drain, ObjectFlags, PlanCommand, PlanDelete, RetentionCommand,
    TableForm, TreeFlags, TreeForm, UnusedFlags, WhyFlags,
};
pub(crate) use lifecycle::{
    Delete, Down, KubeconfigCommand, KubeconfigFolder, Logs, StatusOptions,
};
pub(crate) use node::{
    EgressFlag, Isolation, NodeCommand, NodeFlags, NodeInfo, NodeSubcommand, PodNetworkFlag,
    RuntimeFlag,
};
pub(crate) use offline::{
    Compact, KeysCommand, KeysFolder, KeysRemove, SnapshotCommand, SnapshotRestore, SnapshotSave,
    Storage,
};
pub(crate) use up::{
    AuditFlag, AuthorizerFlag, DurabilityFlag, LogFormat, StoreFlag, Switch, UpFlags,
};

const EXAMPLES: &str = "\
Examples:
  tenure up                                  serve on 127.0.0.1:6443, keep objects on disk
  tenure up --detach                         the same in the background
  tenure status                              is it there, and where
  tenure down                                end it; the objects stay
  tenure up --ephemeral --listen 127.0.0.1:0 serve from memory on any free port
  tenure tree deployment/web                 what it owns, in the cluster of your kubeconfig
  tenure why pod/web-1 -n shop               why it is still there, or will not stay
  tenure plan delete deployment/web          what would go, before anything is touched
  tenure audit                               everything wrong with ownership, for people and CI
  tenure unused -A                           ConfigMaps and Secrets that nothing mentions
  tenure access map                          who reaches what by reference
  tenure snapshot save before.snapshot       copy all objects into one file, also of a running server
  tenure completions bash > tenure.bash      write completions for a shell

Exit code, of every command:
  0  done; yes; nothing was found
  1  no; something is wrong, or what was asked for could not be done
  2  nothing can be said: wrong flags or settings, or the cluster, or a part of it, could not be read
  3  something is unused, would change or was left out; the server does not run

Environment:
  TENURE_LOG   what to log, for example `info` or `tenure_server=debug` (default: warn); wins over -v
  NO_COLOR     set to anything to have no colors";

const MAN_EXAMPLES: &str = "\
Examples:
  tenure man ~/.local/share/man/man1         then `man tenure`, `man tenure-up`
  tenure man | man -l -                      read the first one at once";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > \"${fpath[1]}/_tenure\"
  tenure completions fish > ~/.config/fish/completions/tenure.fish";

const POLICY_EXAMPLES: &str = "\
Examples:
  tenure policy owner-references | kubectl apply -f -
  kubectl label namespace shop downward.tenure.dev/owner-references=forbid

In namespaces with that label, pods may not read their owner references. The policy works in every
cluster with ValidatingAdmissionPolicies. A server of `tenure up` needs none: the label is enough.";

/// Ten years: what is longer is a mistake.
const TIME_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A Kubernetes control plane in one process.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Flags {
    /// Say more on stderr: what is done (-v), how (-vv), everything (-vvv)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a control plane and serve until stopped
    #[command(after_help = up::UP_EXAMPLES)]
    Up(Box<UpFlags>),
    /// Say whether a server runs, where, and whether it is ready
    #[command(after_help = lifecycle::STATUS_EXAMPLES)]
    Status(StatusOptions),
    /// Print what a server in the background says
    #[command(after_help = lifecycle::LOGS_EXAMPLES)]
    Logs(Logs),
    /// End a server; what it keeps stays
    #[command(after_help = lifecycle::DOWN_EXAMPLES)]
    Down(Down),
    /// End a server and remove everything that it keeps
    #[command(after_help = lifecycle::DELETE_EXAMPLES)]
    Delete(Delete),
    /// Show a server's kubeconfig, or take its entries out of yours
    #[command(subcommand, after_help = lifecycle::KUBECONFIG_EXAMPLES)]
    Kubeconfig(KubeconfigCommand),
    /// Join a node to a server and run pods on it until stopped
    #[command(after_help = node::NODE_EXAMPLES)]
    Node(Box<NodeCommand>),
    /// Put programs into a folder that test tools start in place of kube-apiserver and etcd
    #[command(after_help = envtest::ENVTEST_EXAMPLES)]
    Envtest(EnvtestFlags),
    /// Show what an object owns, or who owns it, in any cluster
    #[command(after_help = inspect::TREE_EXAMPLES)]
    Tree(TreeFlags),
    /// Explain why an object is still there, or will not stay
    #[command(after_help = inspect::WHY_EXAMPLES)]
    Why(WhyFlags),
    /// Show what a command would do, before anything is touched
    #[command(subcommand)]
    Plan(PlanCommand),
    /// Find everything that is wrong with the ownership of objects
    #[command(after_help = inspect::AUDIT_EXAMPLES)]
    Audit(AuditCommand),
    /// Find ConfigMaps and Secrets that nothing mentions, and what holds the others
    #[command(after_help = inspect::UNUSED_EXAMPLES)]
    Unused(UnusedFlags),
    /// Look after the owners that revisions of workloads become
    #[command(subcommand)]
    Retention(RetentionCommand),
    /// Copy all objects into one file, or back
    #[command(subcommand, after_help = offline::SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotCommand),
    /// Look after the stored objects
    #[command(subcommand, after_help = offline::STORAGE_EXAMPLES)]
    Storage(Storage),
    /// Look after the keys that sign service-account tokens
    #[command(subcommand, after_help = offline::KEYS_EXAMPLES)]
    Keys(KeysCommand),
    /// See who may read what because something points at it
    #[command(subcommand, after_help = access::ACCESS_EXAMPLES)]
    Access(AccessCommand),
    /// Make objects of this API from those of another
    #[command(subcommand)]
    Migrate(Migrate),
    /// Say what of Tenure works on a cluster that is already there, and why
    #[command(after_help = attach::DOCTOR_EXAMPLES)]
    Doctor(DoctorFlags),
    /// Do something for a cluster that is already there, until stopped
    #[command(after_help = attach::ATTACH_EXAMPLES)]
    Attach(AttachFlags),
    /// Print what brings a feature to a cluster that is already there
    #[command(subcommand, after_help = attach::INSTALL_EXAMPLES)]
    Install(InstallCommand),
    /// Remove from a cluster what `install` printed
    #[command(subcommand, after_help = attach::UNINSTALL_EXAMPLES)]
    Uninstall(UninstallCommand),
    /// Print admission policies to apply to a cluster
    #[command(subcommand, after_help = POLICY_EXAMPLES)]
    Policy(PolicyCommand),
    /// Write manual pages
    #[command(after_help = MAN_EXAMPLES)]
    Man {
        /// The folder to write them to [default: print the first one]
        #[arg(value_name = "DIR", value_parser = path::path())]
        folder: Option<PathBuf>,
    },
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the version
    #[command(
        after_help = "Examples:\n  tenure version                             this program's; `kubectl version` asks the server"
    )]
    Version,
}

/// Which cluster to look at.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// The kubeconfig to use [default: $KUBECONFIG, else ~/.kube/config, else that of the server
    /// that `tenure up` started here]
    #[arg(long, value_name = "FILE", value_parser = path::path())]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The context in the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// When to use colors
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorFlag,
}

/// The form of an answer, and which cluster it is about.
#[derive(Debug, Args)]
pub(crate) struct Reply {
    /// The form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub(crate) output: OutputFormat,

    #[command(flatten)]
    pub(crate) cluster: Where,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Text,
    /// For programs
    Json,
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

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
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

/// A number of bytes as Kubernetes writes it: `1500000`, `512Mi`, `2G`.
fn bytes(text: &str) -> Result<u64, String> {
    const WRONG: &str = "write a number of bytes, such as `512Mi`, `2Gi` or `2G`";
    let quantity = Quantity::parse(text).ok_or(WRONG)?;
    u64::try_from(quantity.value()).map_err(|_| WRONG.to_owned())
}

/// Reads a time as Go programs write it: `90s`, `1h30m`, `0`.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
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

#[cfg(test)]
mod tests {
    mod pages;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn no_two_flags_of_a_command_have_one_name() {
        Flags::command().debug_assert();
    }

    /// The commands that do something, each with the words that call it.
    fn leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, String)>) {
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if !command.has_subcommands() || words.ends_with(" node") {
            found.push((words.to_owned(), after));
        }
        for child in command.get_subcommands() {
            leaves(child, &format!("{words} {}", child.get_name()), found);
        }
    }

    #[test]
    fn every_command_teaches_by_an_example() {
        let mut found = Vec::new();
        leaves(&Flags::command(), "tenure", &mut found);
        assert!(found.len() > 30, "{found:?}");
        for (words, after) in found {
            assert!(after.contains("Examples:\n  "), "`{words} --help` has no example");
        }
    }

    /// Reads a value of an argument as the command line does.
    fn read(argument: &clap::Arg, text: &str) -> Option<PathBuf> {
        let parser = argument.get_value_parser().clone();
        let value = clap::Arg::new("value").long("value").value_parser(parser);
        let command = clap::Command::new("x").arg(value);
        let found = command.try_get_matches_from(["x", "--value", text]).ok()?;
        let path = found.try_get_one::<PathBuf>("value").ok().flatten().cloned();
        let image = || found.try_get_one::<(Option<String>, PathBuf)>("value").ok().flatten();
        path.or_else(|| image().map(|(_, folder)| folder.clone()))
    }

    fn paths(command: &clap::Command, found: &mut Vec<String>) {
        for argument in command.get_arguments() {
            let named = argument.get_value_names().unwrap_or_default();
            let is_path = |name: &&str| ["FILE", "DIR", "FOLDER"].contains(name);
            if named.iter().map(|name| name.as_str()).any(|name| is_path(&name)) {
                let what = format!("{} {}", command.get_name(), argument.get_id());
                let path = read(argument, "some/where").unwrap_or_else(|| panic!("{what}"));
                assert!(path.is_absolute(), "{what}: {}", path.display());
                found.push(what);
            }
        }
        command.get_subcommands().for_each(|child| paths(child, found));
    }

    #[test]
    fn r179b_every_flag_that_takes_a_path_makes_it_absolute() {
        let mut found = Vec::new();
        paths(&Flags::command(), &mut found);
        assert!(found.len() > 30, "{found:?}");
        assert!(found.contains(&"save file".to_owned()), "{found:?}");
        let mut runtime = Flags::command();
        let runtime = runtime.find_subcommand_mut("node").unwrap();
        let matches = |words: &[&str]| runtime.clone().try_get_matches_from(words).unwrap();
        let asked = matches(&["node", "--runtime", "cri=some/where"]);
        let runtime = asked.get_one::<RuntimeFlag>("runtime").unwrap();
        let RuntimeFlag::Cri(socket) = runtime else { panic!("{runtime:?}") };
        assert!(socket.is_absolute(), "{}", socket.display());
    }

    #[test]
    fn bytes_are_read_as_kubernetes_writes_them() {
        for (text, wanted) in
            [("0", 0), ("1500000", 1_500_000), ("512Mi", 512 << 20), ("2G", 2_000_000_000)]
        {
            assert_eq!(bytes(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "-1", "2 Gi", "much", "2GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

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
