//! Flags of the commands for a data folder: its snapshot, its storage, its keys.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::path::path;

pub(super) const DATA_DIR_HELP: &str = "\
Folder for objects, certificates and the kubeconfig \
[default: $XDG_DATA_HOME/tenure, else ~/.local/share/tenure]";

pub(super) const KEYS_EXAMPLES: &str = "\
Examples:
  tenure keys rotate                         sign with a new key from the next start on
  tenure keys list                           see which keys there are
  tenure keys remove ID                      refuse what that key signed

The server that uses the folder must be stopped to rotate or remove.";

pub(super) const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  tenure snapshot save before.snapshot                      while the server runs
  tenure snapshot save /backup/shop.snapshot --data-dir ./data
  tenure down && tenure snapshot restore before.snapshot    the objects of now are kept beside the store";

pub(super) const STORAGE_EXAMPLES: &str = "\
Examples:
  tenure down && tenure storage compact && tenure up --detach
  tenure storage compact --data-dir ./data";

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Copy all objects into FILE, of a stopped server or of one that runs
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    Save(SnapshotSave),
    /// Replace all objects of a stopped server with those in FILE; the old ones are kept beside
    #[command(after_help = SNAPSHOT_EXAMPLES)]
    Restore(SnapshotRestore),
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotSave {
    /// The snapshot, which must not exist yet
    #[arg(value_parser = path())]
    pub(crate) file: PathBuf,

    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,

    /// Save what the server of this kubeconfig has, over the API [default: the one in the data folder]
    #[arg(long, value_name = "FILE", conflicts_with = "data_dir", value_parser = path())]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotRestore {
    /// The snapshot
    #[arg(value_parser = path())]
    pub(crate) file: PathBuf,

    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Storage {
    /// Give back the disk space of old revisions of a stopped server
    #[command(after_help = STORAGE_EXAMPLES)]
    Compact(Compact),
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Have a stopped server sign with a new key; tokens of the old one still hold
    #[command(after_help = KEYS_EXAMPLES)]
    Rotate(KeysFolder),
    /// Print the ids of all keys and what each is for
    #[command(after_help = KEYS_EXAMPLES)]
    List(KeysFolder),
    /// Forget an old key of a stopped server; its tokens are refused from then on
    #[command(after_help = KEYS_EXAMPLES)]
    Remove(KeysRemove),
}

#[derive(Debug, Args)]
pub(crate) struct KeysFolder {
    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct KeysRemove {
    /// The id of the key, as `tenure keys list` prints it
    // Ids are base64 for URLs, and one in 64 begins with a hyphen.
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,

    #[arg(long, value_name = "DIR", help = DATA_DIR_HELP, value_parser = path())]
    pub(crate) data_dir: Option<PathBuf>,
}
