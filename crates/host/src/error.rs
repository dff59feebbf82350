//! Why a control plane did not start, in words for its user: what happened, the cause, a hint that
//! can be run. Colour and layout belong to the command line.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tenure_driver::UnknownController;

use crate::authorization::AuthorizationError;
use crate::folder::LockHolder;
use crate::keys::KeysError;
use crate::kubeconfig;
use crate::pki::PkiError;
use crate::storage::StorageError;

/// Why a control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum HostStartError {
    /// Another process serves on the address.
    #[error("cannot listen on `{address}`: the port is taken")]
    PortTaken {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The system refused the address.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses the data folder.
    #[error("the data folder `{}` is in use{}", path.display(), by(holder.as_ref()))]
    FolderLocked {
        /// The data folder.
        path: PathBuf,
        /// The process that uses it, if known.
        holder: Option<LockHolder>,
    },
    /// The data folder cannot be made or written.
    #[error("the data folder `{}` cannot be used", path.display())]
    FolderUnusable {
        /// The data folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The data folder should exist and does not.
    #[error("there is no data folder `{}`", path.display())]
    FolderAbsent {
        /// The data folder.
        path: PathBuf,
    },
    /// A controller that does not exist was named.
    #[error("there is no controller `{}`", .0.0)]
    Controller(UnknownController),
    /// A file that a setting names cannot be read.
    #[error("`{}` cannot be read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No temporary folder could be made.
    #[error("no temporary folder could be made")]
    Temporary(#[source] io::Error),
    /// The stored objects cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The certificates cannot be had.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The certificates cannot be served.
    #[error("the certificates in use cannot be served")]
    Tls(#[source] Box<dyn Error + Send + Sync>),
    /// The keys of service-account tokens cannot be had.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The audit log cannot be written.
    #[error("the audit log `{}` cannot be written", path.display())]
    Audit {
        /// The file asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The audit policy cannot be used.
    #[error("the audit policy `{}` cannot be used: {why}", path.display())]
    AuditPolicy {
        /// The file asked for.
        path: PathBuf,
        /// What is wrong with it, field by field.
        why: String,
    },
    /// Nobody can decide who may do what as it was asked for.
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    /// The kubeconfig was not written.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::KubeconfigWriteError),
    /// The server's own objects could not be written.
    #[error("the first objects could not be written")]
    Bootstrap(#[source] Box<dyn Error + Send + Sync>),
}

// Not a source: it says the same again.
impl From<UnknownController> for HostStartError {
    fn from(error: UnknownController) -> HostStartError {
        HostStartError::Controller(error)
    }
}

fn by(holder: Option<&LockHolder>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

/// The names there are, the likely one first.
fn controllers(word: &str) -> String {
    let names = tenure_driver::controller_names();
    let is_like = |name: &&&str| !word.is_empty() && (name.contains(word) || word.contains(**name));
    let like = names.iter().find(is_like);
    let like = like.map(|name| format!("perhaps `{name}`; ")).unwrap_or_default();
    format!("{like}there are: {}; `*` is all, `-NAME` leaves one out", names.join(", "))
}

impl HostStartError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            HostStartError::PortTaken { .. } => {
                Some("take any free port with `--listen 127.0.0.1:0`, or name another".to_owned())
            }
            HostStartError::Listen { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => {
                    Some("ports below 1024 need privileges; take a higher one".to_owned())
                }
                io::ErrorKind::AddrNotAvailable => {
                    Some("the address must be one of this machine's own".to_owned())
                }
                _ => None,
            },
            HostStartError::FolderLocked { holder, .. } => Some(match holder {
                Some(LockHolder { process, chore: None }) => format!(
                    "end it with `kill {process}`, or use another folder with `--data-dir DIR`"
                ),
                Some(_) => "wait until it has ended".to_owned(),
                None => "use another folder with `--data-dir DIR`".to_owned(),
            }),
            HostStartError::FolderUnusable { .. } => Some(
                "use another folder with `--data-dir DIR`, or none with `--ephemeral`".to_owned(),
            ),
            HostStartError::FolderAbsent { .. } => {
                Some("name the folder that `tenure up` uses with `--data-dir DIR`".to_owned())
            }
            HostStartError::Storage(error) => error.hint(),
            HostStartError::Keys(error) => error.hint(),
            HostStartError::Pki(PkiError::Damaged { path }) => Some(format!(
                "to have new certificates made, remove it: `rm -r '{}'`; clients then need the new kubeconfig",
                path.display()
            )),
            HostStartError::Kubeconfig(kubeconfig::KubeconfigWriteError::Foreign { .. }) => Some(
                "name a kubeconfig, or a file that does not exist yet, with `--kubeconfig FILE`"
                    .to_owned(),
            ),
            HostStartError::Kubeconfig(kubeconfig::KubeconfigWriteError::Taken { .. }) => Some(
                "give yours another name, or have ours in a file of its own with `--kubeconfig FILE`"
                    .to_owned(),
            ),
            HostStartError::Controller(unknown) => Some(controllers(&unknown.0)),
            _ => None,
        }
    }

    /// What lies beneath, one line per level, without what was said already.
    #[must_use]
    pub fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        let mut next = self.source();
        while let Some(error) = next {
            let text = error.to_string();
            if causes.last().is_none_or(|said| !said.contains(&text)) {
                causes.push(text);
            }
            next = error.source();
        }
        causes
    }
}
