//! One control plane with its threads: started, asked where it is, ended. Clients of particular
//! libraries are made elsewhere.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tenure_host::pki::CertificateKeyPair;
use tenure_host::{Config, ControlPlane};
use tokio::runtime::{Handle, Runtime};

use crate::builder::Builder;

/// Handlers never block, so few threads are enough; more would only cost time at the start.
const WORKER_THREADS: usize = 2;
/// The end takes about a millisecond; a test must not hang if it takes much more.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The control plane refused.
    #[error(transparent)]
    ControlPlane(#[from] tenure_host::HostStartError),
    /// The system has no thread left.
    #[error("no threads could be started")]
    Threads(#[source] io::Error),
    /// The start was cut short, by a panic or because the process ends.
    #[error("the start did not come to its end")]
    Interrupted(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A control plane that lives as long as this value and shares nothing with any other.
///
/// Dropping it cuts every connection, ends its threads and removes its temporary files. Objects in
/// a folder given to [`Builder::data_dir`] stay, and the folder can be used again at once.
pub struct Cluster {
    plane: ControlPlane,
    threads: Threads,
}

/// The runtime of one cluster; never waits when it is dropped, so that async tests may drop it.
struct Threads {
    handle: Handle,
    // INVARIANT: present until the drop.
    runtime: Option<Runtime>,
}

impl Threads {
    fn new() -> Result<Threads, StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .thread_name("tenure-cluster")
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        Ok(Threads { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Runs to the end from any thread, also from one that drives another runtime, where waiting
    /// for a future in place is forbidden.
    fn run<T: Send>(&self, work: impl Future<Output = T> + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("tenure-cluster".into());
            let thread = thread.spawn_scoped(scope, || self.handle.block_on(work))?;
            thread.join().map_err(|_| io::Error::other("a thread panicked"))
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Cluster {
    /// Starts a cluster in memory; when this returns, the server is ready.
    ///
    /// # Errors
    /// The system lacks threads, sockets or a folder for temporary files.
    pub async fn start() -> Result<Cluster, StartError> {
        Cluster::builder().start().await
    }

    /// As [`Cluster::start`], for tests that are not async.
    ///
    /// # Errors
    /// As for [`Cluster::start`].
    pub fn start_blocking() -> Result<Cluster, StartError> {
        Cluster::builder().start_blocking()
    }

    /// A cluster with settings of its own.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) async fn with(config: Config) -> Result<Cluster, StartError> {
        let threads = Threads::new()?;
        // Spawned, so that the server never runs on the threads of the test.
        let starting = threads.handle.spawn(Box::pin(ControlPlane::start(config)));
        let plane = starting.await.map_err(|error| StartError::Interrupted(Box::new(error)))??;
        Ok(Cluster { plane, threads })
    }

    pub(crate) fn with_blocking(config: Config) -> Result<Cluster, StartError> {
        let threads = Threads::new()?;
        let plane = threads
            .run(Box::pin(ControlPlane::start(config)))
            .map_err(|error| StartError::Interrupted(Box::new(error)))??;
        Ok(Cluster { plane, threads })
    }

    /// Runs a future to its end on the threads of this cluster, for tests that are not async.
    ///
    /// # Panics
    /// When called from async code, which can await the future itself.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.threads.handle.block_on(future)
    }

    /// Where the server listens, as a URL.
    #[must_use]
    pub fn url(&self) -> &str {
        self.plane.url()
    }

    /// Where the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.plane.address()
    }

    /// The certificate that clients must trust, in PEM form.
    #[must_use]
    pub fn authority_pem(&self) -> &str {
        self.plane.authority_pem()
    }

    /// How long the start took.
    #[must_use]
    pub fn ready_after(&self) -> Duration {
        self.plane.ready_after()
    }

    /// The text of a kubeconfig for the administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        self.plane.kubeconfig_for(self.plane.admin())
    }

    /// The text of a kubeconfig for any user, who need not be known to the cluster before.
    ///
    /// # Panics
    /// When the system cannot make a key.
    #[must_use]
    #[track_caller]
    pub fn kubeconfig_as(&self, user: &str, groups: &[&str]) -> String {
        self.plane.kubeconfig_for(&self.identity(user, groups))
    }

    /// A kubeconfig for the administrator in a file, as kubectl and other programs want it in the
    /// variable `KUBECONFIG`; gone with the cluster unless it was asked for elsewhere.
    #[must_use]
    pub fn kubeconfig_file(&self) -> &Path {
        self.plane.kubeconfig()
    }

    #[cfg(feature = "kube")]
    pub(crate) fn administrator(&self) -> &CertificateKeyPair {
        self.plane.admin()
    }

    /// Enters the cluster's runtime where there is none, as in a plain `#[test]`.
    #[cfg(feature = "kube")]
    pub(crate) fn runtime(&self) -> Option<tokio::runtime::EnterGuard<'_>> {
        Handle::try_current().is_err().then(|| self.threads.handle.enter())
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "a test cannot go on, and its author should not handle this")]
    pub(crate) fn identity(&self, user: &str, groups: &[&str]) -> CertificateKeyPair {
        match self.plane.user(user, groups) {
            Ok(pair) => pair,
            Err(error) => panic!("no certificate for `{user}`: {error}"),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let Cluster { plane, threads } = self;
        // Waited for, so that folder and port are free for the next cluster of the same test.
        let _ = threads.run(async { tokio::time::timeout(END_LIMIT, plane.cut()).await });
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Cluster").field("url", &self.url()).finish_non_exhaustive()
    }
}
