//! Flags of the commands for a stopped server: its snapshot, its storage, its keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

pub(super) const DATA_DIR_HELP: &str = "\
Folder for objects, certificates and the kubeconfig \
[default: $XDG_DATA_HOME/tenure, else ~/.local/share/tenure]";

pub(super) const KEYS_EXAMPLES: &str = "\
Examples:
  tenure keys rotate                         sign with a new key from the next start on
  tenure keys list                           see which keys there are
  tenure keys remove ID                      refuse what that key signed

The server that uses the folder must be stopped to rotate or remove.";

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
