//! What a control plane needs to know before it starts. No defaults that depend on the machine
//! live here: the command line looks those up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Where objects are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// In a file inside the data folder.
    #[default]
    File,
    /// In memory: gone when the process ends.
    Memory,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// After it is on disk.
    #[default]
    Strict,
    /// At once; a power cut may lose the last moments, never the order.
    Relaxed,
}

/// The settings of one control plane.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where certificates and objects live; `None` keeps everything in memory.
    pub data_dir: Option<PathBuf>,
    /// The address to serve on; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Where to write the kubeconfig; `None` means inside the data folder, or inside a new
    /// temporary folder when there is none.
    pub kubeconfig: Option<PathBuf>,
    /// Where objects are kept; without a data folder always in memory.
    pub store: Store,
    /// When a write is acknowledged.
    pub durability: Durability,
}

impl Config {
    /// Serves from `data_dir` on the usual port.
    #[must_use]
    pub fn new(data_dir: PathBuf) -> Config {
        Config {
            data_dir: Some(data_dir),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 6443)),
            kubeconfig: None,
            store: Store::File,
            durability: Durability::Strict,
        }
    }

    /// Serves from memory on any free port and leaves nothing behind.
    #[must_use]
    pub fn ephemeral() -> Config {
        Config {
            data_dir: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            store: Store::Memory,
            ..Config::new(PathBuf::new())
        }
    }
}
