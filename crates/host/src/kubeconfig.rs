//! The file that tells clients where the server is and who they are. It is written, never merged:
//! a file that somebody else wrote is left alone.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::folder;

/// The first line of every file written here; what bears it may be replaced.
const MARK: &str = "# Written by tenure at every start; changes made here are lost.";

/// What a client needs to know.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// What the file calls the user: a plain word, since it is not quoted.
    pub user: &'a str,
    /// The address of the server, as a URL.
    pub server: &'a str,
    /// The certificate that signed the server's, in PEM form.
    pub authority_pem: &'a str,
    /// The client's certificate, in PEM form.
    pub certificate_pem: &'a str,
    /// The client's private key, in PEM form.
    pub key_pem: &'a str,
}

/// Why a kubeconfig was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file exists and bears no mark of ours.
    #[error("`{}` exists and was not written by tenure", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be read or written.
    #[error("the kubeconfig `{}` cannot be written", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The text of a kubeconfig with one cluster, one user and one context.
#[must_use]
pub fn render(access: Access<'_>) -> String {
    // Every value is a URL or base64, so none needs quoting.
    let mut text = String::new();
    let _ = write!(
        text,
        "{MARK}\n\
         apiVersion: v1\n\
         kind: Config\n\
         clusters:\n\
         - name: tenure\n\
         \x20 cluster:\n\
         \x20   server: {server}\n\
         \x20   certificate-authority-data: {authority}\n\
         users:\n\
         - name: {user}\n\
         \x20 user:\n\
         \x20   client-certificate-data: {certificate}\n\
         \x20   client-key-data: {key}\n\
         contexts:\n\
         - name: tenure\n\
         \x20 context:\n\
         \x20   cluster: tenure\n\
         \x20   user: {user}\n\
         current-context: tenure\n",
        user = access.user,
        server = access.server,
        authority = STANDARD.encode(access.authority_pem),
        certificate = STANDARD.encode(access.certificate_pem),
        key = STANDARD.encode(access.key_pem),
    );
    text
}

/// Writes `text` to `path` if that destroys nothing of somebody else's.
pub fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    check(path)?;
    let failed = |source| WriteError::Io { path: path.to_owned(), source };
    // A link stays a link: what it points to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(parent) = target.parent() {
        folder::make(parent).map_err(failed)?;
    }
    tenure_files::replace(&target, text.as_bytes()).map_err(failed)
}

/// Fails if `path` holds something that must not be replaced; cheap, so that a start can ask first.
pub fn check(path: &Path) -> Result<(), WriteError> {
    let unusable = |source| WriteError::Io { path: path.to_owned(), source };
    // A link is followed, so it must be ours; a pipe would be waited for.
    tenure_files::refuse_foreign_link(path).map_err(unusable)?;
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(WriteError::Foreign { path: path.to_owned() });
    }
    match fs::read(path) {
        Ok(bytes) if bytes.trim_ascii().is_empty() || bytes.starts_with(MARK.as_bytes()) => Ok(()),
        Ok(_) => Err(WriteError::Foreign { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(unusable(source)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn text(server: &str) -> String {
        render(Access {
            user: "tenure-admin",
            server,
            authority_pem: "CA",
            certificate_pem: "CRT",
            key_pem: "KEY",
        })
    }

    #[test]
    fn the_text_is_this() {
        let expected = "\
# Written by tenure at every start; changes made here are lost.
apiVersion: v1
kind: Config
clusters:
- name: tenure
  cluster:
    server: https://127.0.0.1:6443
    certificate-authority-data: Q0E=
users:
- name: tenure-admin
  user:
    client-certificate-data: Q1JU
    client-key-data: S0VZ
contexts:
- name: tenure
  context:
    cluster: tenure
    user: tenure-admin
current-context: tenure
";
        assert_eq!(text("https://127.0.0.1:6443"), expected);
    }

    #[test]
    fn absent_empty_and_own_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/kubeconfig");
        write(&path, &text("https://a")).unwrap();
        write(&path, &text("https://b")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text("https://b"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "\n").unwrap();
        write(&path, &text("https://c")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text("https://c"));
    }

    #[test]
    fn a_foreign_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        fs::write(&path, "apiVersion: v1\n").unwrap();
        let error = write(&path, &text("https://a")).unwrap_err();
        assert!(matches!(error, WriteError::Foreign { .. }), "{error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
    }

    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&link, &text("https://a")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), text("https://a"));
    }
}
