//! What a control plane needs to know before it starts. No defaults that depend on the machine
//! live here: the command line looks those up.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use tenure_server::ServerLimits;
use tenure_server::admit::{AdmissionPlugins, OwnerChecks, RetentionOptions, ServiceRange};
pub use tenure_server::audit::AuditLevel;
use tenure_server::authenticate::fixed::AuthenticationOptions;
use tenure_server::reference::ReferenceOptions;

use crate::authorization::AuthorizationSource;
use crate::features::Features;
use crate::given::CertificateFiles;
use crate::nodes::{NodeOptions, NodeRuntime};

/// Where objects are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageMedium {
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

/// How long an event lives after it was last written, unless told otherwise.
pub const EVENT_LIFE: Duration = Duration::from_secs(60 * 60);

/// How many bytes objects may have where nobody says otherwise; a machine with little memory takes less.
pub const STORE_QUOTA_MAX: u64 = 8 << 30;

/// Where requests are written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLog {
    /// The file, which grows at its end; `None` is stdout.
    pub file: Option<PathBuf>,
    /// How much of a request is written.
    pub level: AuditLevel,
    /// A file with a policy that says how much of which request is written, in place of the level.
    pub policy: Option<PathBuf>,
}

/// Is told how many stored entries a start has read, and of how many.
#[derive(Clone)]
pub struct LoadProgress(pub Arc<dyn Fn(u64, u64) + Send + Sync>);

impl fmt::Debug for LoadProgress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Reading")
    }
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
    /// Whether there is a kubeconfig at all; without one, and without a data folder and nodes, nothing is written to
    /// any disk, so that nothing is left even of a server that is killed.
    pub has_kubeconfig: bool,
    /// Where objects are kept; without a data folder always in memory.
    pub store: StorageMedium,
    /// When a write is acknowledged.
    pub durability: Durability,
    /// How many bytes the objects may have, what is kept beside them included; `None` for no bound.
    pub store_quota: Option<u64>,
    /// How many requests run at a time, of nodes and the cluster, and of everybody else.
    pub limits: ServerLimits,
    /// Where requests are written down; `None` for nowhere.
    pub audit: Option<AuditLog>,
    /// How long an event lives after it was last written; zero means for ever.
    pub event_life: Duration,
    /// Files with more keys whose service-account tokens are believed.
    pub service_account_keys: Vec<PathBuf>,
    /// Certificates and keys that the server does not make itself.
    pub certificates: CertificateFiles,
    /// How requests are authenticated beyond certificates and the tokens of accounts.
    pub authentication: AuthenticationOptions,
    /// Where the addresses of Services come from.
    pub service_range: ServiceRange,
    /// Which admission plugins are on; that of owner references must be wanted in `owners` as well.
    pub admission_plugins: AdmissionPlugins,
    /// How owner references are treated when they are written.
    pub owners: OwnerChecks,
    /// Which controllers run: `*`, `name`, `-name`; the first that names one decides.
    pub controllers: Vec<String>,
    /// How many nodes there are; without any, pods wait until somebody binds them.
    pub nodes: u16,
    /// What runs their pods.
    pub runtime: NodeRuntime,
    /// What is said of nodes that run pods for real.
    pub node: NodeOptions,
    /// Which features are on.
    pub features: Features,
    /// How the opt-in to retention is treated; it is off when its feature is.
    pub retention: RetentionOptions,
    /// How references between objects are treated that let others read.
    pub references: ReferenceOptions,
    /// Whether the kinds of references are built in; otherwise nothing is decided by them, and definitions may take
    /// their names.
    pub reference_kinds: bool,
    /// Who decides who may do what.
    pub authorization: AuthorizationSource,
    /// Who is told how far the start is, if anybody is.
    pub reading: Option<LoadProgress>,
}

impl Config {
    /// Serves from `data_dir` on the usual port.
    #[must_use]
    pub fn new(data_dir: PathBuf) -> Config {
        Config {
            data_dir: Some(data_dir),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 6443)),
            kubeconfig: None,
            has_kubeconfig: true,
            store: StorageMedium::File,
            durability: Durability::Strict,
            store_quota: Some(STORE_QUOTA_MAX),
            limits: ServerLimits::default(),
            audit: None,
            event_life: EVENT_LIFE,
            service_account_keys: Vec::new(),
            certificates: CertificateFiles::default(),
            authentication: AuthenticationOptions::default(),
            service_range: ServiceRange::default(),
            admission_plugins: AdmissionPlugins::default(),
            owners: OwnerChecks::default(),
            controllers: vec!["*".to_owned()],
            nodes: 0,
            runtime: NodeRuntime::None,
            node: NodeOptions::default(),
            features: Features::default(),
            retention: RetentionOptions::default(),
            references: ReferenceOptions::default(),
            reference_kinds: true,
            authorization: AuthorizationSource::Usual,
            reading: None,
        }
    }

    /// Serves from memory on any free port and leaves nothing behind.
    #[must_use]
    pub fn ephemeral() -> Config {
        Config {
            data_dir: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            store: StorageMedium::Memory,
            // What is tried out and thrown away is development (referential authorization R84).
            references: ReferenceOptions { lets_everybody: true, ..ReferenceOptions::default() },
            ..Config::new(PathBuf::new())
        }
    }
}
