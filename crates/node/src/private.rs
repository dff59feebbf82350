//! Paths of this machine that no pod is ever given: the server's data folder, its keys, its
//! kubeconfig, the node's own folder. What a pod is given instead is decided elsewhere.

use std::io;
use std::path::{Path, PathBuf};

/// Private paths, absolute and without links.
#[derive(Debug, Clone, Default)]
pub struct PrivatePaths(Vec<PathBuf>);

impl PrivatePaths {
    /// Resolves paths, relative ones and links included. One that leads nowhere is an error: what
    /// cannot be named cannot be kept from anybody.
    pub fn resolve(paths: &[PathBuf]) -> io::Result<PrivatePaths> {
        let resolved = paths.iter().map(|path| {
            resolve(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })
        });
        Ok(PrivatePaths(resolved.collect::<io::Result<_>>()?))
    }

    /// The private path that this one is, lies in, or holds. `path` is absolute and without links.
    #[must_use]
    pub fn shown_by(&self, path: &Path) -> Option<&Path> {
        let mut all = self.0.iter().map(PathBuf::as_path);
        all.find(|private| private.starts_with(path) || path.starts_with(private))
    }

    /// The private path that this folder is or holds. `folder` is absolute and without links.
    #[must_use]
    pub fn held_by(&self, folder: &Path) -> Option<&Path> {
        self.0.iter().map(PathBuf::as_path).find(|private| private.starts_with(folder))
    }
}

/// The path without links; a last name that is not there yet is taken as it is.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A link that leads nowhere could lead anywhere tomorrow.
            if path.is_symlink() {
                return Err(error);
            }
            let absolute = std::path::absolute(path)?;
            let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(error);
            };
            Ok(std::fs::canonicalize(folder)?.join(name))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_path_is_known_by_links_relative_names_and_spaces() {
        let folder = tempfile::tempdir().unwrap();
        let base = std::fs::canonicalize(folder.path()).unwrap();
        let data = base.join("the data");
        std::fs::create_dir_all(data.join("pki")).unwrap();
        std::os::unix::fs::symlink(&data, base.join("link")).unwrap();
        let given = [base.join("link/../link/pki"), base.join("the data/new")];
        let private = PrivatePaths::resolve(&given).unwrap();
        for shown in [&data, &base, &data.join("pki/ca.key"), Path::new("/"), &data.join("new")] {
            assert!(private.shown_by(shown).is_some(), "{}", shown.display());
        }
        for other in [base.join("the"), data.join("pki2"), data.join("newer")] {
            assert_eq!(private.shown_by(&other), None);
        }
        assert!(private.held_by(&data).is_some());
        assert_eq!(private.held_by(&data.join("pki/deeper")), None);
    }

    #[test]
    fn a_private_path_that_leads_nowhere_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
        for path in ["link", "no/folder"] {
            let path = folder.path().join(path);
            let error = PrivatePaths::resolve(std::slice::from_ref(&path)).unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
}
