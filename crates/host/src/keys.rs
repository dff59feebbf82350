//! The keys of service-account tokens: one that signs, and older ones whose tokens are still believed.
//!
//! ```text
//!   pki/service-account.key           signs; private
//!   pki/service-account/ID.pub        verifies; of a key that signed before, its public half only
//! ```
//!
//! A rotation keeps nothing of the old private key, so nobody can sign with it again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;
use tenure_token::{KeyError, KeySet};

use crate::error::HostStartError;
use crate::folder::{self, LockedDataFolder};

const SIGNING: &str = "service-account.key";
const OLDER: &str = "service-account";

/// Why keys could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(Box<HostStartError>),
    /// No server has made a key yet.
    #[error("there is no key in `{}`", path.display())]
    None {
        /// Where it would be.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("`{}` cannot be read or written", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold a key.
    #[error("`{}` holds no usable key", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: KeyError,
    },
    /// A new key could not be made.
    #[error("a key could not be made")]
    Make(#[source] rcgen::Error),
    /// The key that signs cannot be taken away.
    #[error("the key `{id}` signs tokens")]
    Signs {
        /// Its id.
        id: String,
    },
    /// There is no such key.
    #[error("there is no key `{id}`")]
    Absent {
        /// The id asked for.
        id: String,
    },
}

impl KeysError {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            KeysError::Folder(error) => error.hint(),
            KeysError::None { .. } => {
                Some("the first `tenure up` with this folder makes one".to_owned())
            }
            KeysError::Signs { .. } => {
                Some("make another one sign first with `tenure keys rotate`".to_owned())
            }
            KeysError::Absent { .. } => Some("see them all with `tenure keys list`".to_owned()),
            _ => None,
        }
    }
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeyInfo {
    /// The id that tokens name it by.
    pub id: String,
    /// Whether new tokens are signed with it.
    pub signs: bool,
}

/// The keys of a data folder, the one that signs first.
pub fn list(data_dir: &Path) -> Result<Vec<TokenKeyInfo>, KeysError> {
    let pki = data_dir.join("pki");
    if !data_dir.is_dir() {
        let absent = HostStartError::FolderAbsent { path: data_dir.to_owned() };
        return Err(KeysError::Folder(Box::new(absent)));
    }
    let mut keys = vec![TokenKeyInfo { id: id_of(&pki, &signing(&pki)?)?, signs: true }];
    let older = older(&pki)?.into_iter().map(|(id, _)| TokenKeyInfo { id, signs: false });
    keys.extend(
        older.filter(|key| keys.iter().all(|known| known.id != key.id)).collect::<Vec<_>>(),
    );
    Ok(keys)
}

/// Makes a new key sign in a stopped server's folder; answers its id and that of the one before.
pub fn rotate(data_dir: &Path) -> Result<(String, String), KeysError> {
    let folder = open(data_dir)?;
    let pki = folder.pki();
    let old = signing(&pki)?;
    let old_id = id_of(&pki, &old)?;
    let public = KeyPair::from_pem(&old).map_err(KeysError::Make)?.public_key_pem();
    let new = KeyPair::generate().map_err(KeysError::Make)?.serialize_pem();
    let new_id = id_of(&pki, &new)?;
    let place = pki.join(OLDER);
    folder::make(&place).map_err(|source| failed(&place, source))?;
    // In this order a rotation that is cut short leaves the old key in both places, and it holds.
    write(&place, &file_of(&old_id), &public)?;
    write(&pki, SIGNING, &new)?;
    Ok((new_id, old_id))
}

/// Forgets an older key of a stopped server; its tokens are refused from then on.
pub fn remove(data_dir: &Path, id: &str) -> Result<(), KeysError> {
    let folder = open(data_dir)?;
    let pki = folder.pki();
    if id_of(&pki, &signing(&pki)?)? == id {
        return Err(KeysError::Signs { id: id.to_owned() });
    }
    // Looked up rather than put into a path, so that no name leads elsewhere.
    let found = older(&pki)?.into_iter().find(|(known, _)| known == id);
    let (id, _) = found.ok_or_else(|| KeysError::Absent { id: id.to_owned() })?;
    let path = pki.join(OLDER).join(file_of(&id));
    fs::remove_file(&path).map_err(|source| failed(&path, source))?;
    sync(&pki.join(OLDER))
}

/// The public halves of the keys that signed before, as PEM, each with its id.
pub(crate) fn older(pki: &Path) -> Result<Vec<(String, String)>, KeysError> {
    let place = pki.join(OLDER);
    let entries = match fs::read_dir(&place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&place, error)),
    };
    let mut keys = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| failed(&place, source))?.path();
        let Some(id) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".pub")) else {
            continue;
        };
        let text = fs::read_to_string(&path).map_err(|source| failed(&path, source))?;
        keys.push((id.to_owned(), text));
    }
    keys.sort();
    Ok(keys)
}

fn open(data_dir: &Path) -> Result<LockedDataFolder, KeysError> {
    LockedDataFolder::open_existing(data_dir, "keys")
        .map_err(|error| KeysError::Folder(Box::new(error)))
}

fn signing(pki: &Path) -> Result<String, KeysError> {
    let path = pki.join(SIGNING);
    match fs::read_to_string(&path) {
        Ok(text) if !text.is_empty() => Ok(text),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&path, error)),
        _ => Err(KeysError::None { path }),
    }
}

fn id_of(pki: &Path, text: &str) -> Result<String, KeysError> {
    let keys = KeySet::from_pem(text, &[])
        .map_err(|source| KeysError::Unusable { path: pki.join(SIGNING), source })?;
    Ok(keys.signing_id().to_owned())
}

fn file_of(id: &str) -> String {
    format!("{id}.pub")
}

fn failed(path: &Path, source: io::Error) -> KeysError {
    KeysError::Io { path: path.to_owned(), source }
}

/// Writes a file that no power cut may lose: tokens hang on it.
fn write(place: &Path, name: &str, text: &str) -> Result<(), KeysError> {
    let path = place.join(name);
    tenure_files::replace(&path, text.as_bytes()).map_err(|source| failed(&path, source))?;
    sync(&path)?;
    sync(place)
}

fn sync(path: &Path) -> Result<(), KeysError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|source| failed(path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let pki = dir.path().join("pki");
        folder::make(&pki).unwrap();
        (dir, pki)
    }

    #[test]
    fn a_rotation_keeps_the_public_half_of_the_old_key_only() {
        let (dir, pki) = folder();
        let first = KeyPair::generate().unwrap();
        fs::write(pki.join(SIGNING), first.serialize_pem()).unwrap();
        let before = list(dir.path()).unwrap();
        let (new, old) = rotate(dir.path()).unwrap();
        assert_eq!(before, [TokenKeyInfo { id: old.clone(), signs: true }]);
        let (newest, _) = rotate(dir.path()).unwrap();
        let ids: Vec<(String, bool)> =
            list(dir.path()).unwrap().into_iter().map(|key| (key.id, key.signs)).collect();
        let mut olds = [(new.clone(), false), (old.clone(), false)];
        olds.sort();
        assert_eq!(ids, [vec![(newest.clone(), true)], olds.into()].concat());
        let kept = fs::read_to_string(pki.join(OLDER).join(file_of(&old))).unwrap();
        assert!(kept.starts_with("-----BEGIN PUBLIC KEY-----"), "{kept}");
        // All of them verify, each under the id that its tokens name.
        let others: Vec<String> = older(&pki).unwrap().into_iter().map(|(_, text)| text).collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        let keys =
            KeySet::from_pem(&fs::read_to_string(pki.join(SIGNING)).unwrap(), &others).unwrap();
        let mut verifying: Vec<&str> = keys.ids().collect();
        assert_eq!(verifying.remove(0), newest);
        verifying.sort_unstable();
        let mut wanted = [new.as_str(), old.as_str()];
        wanted.sort_unstable();
        assert_eq!(verifying, wanted);
    }

    #[test]
    fn only_an_older_key_can_be_removed() {
        let (dir, pki) = folder();
        assert!(matches!(rotate(dir.path()), Err(KeysError::None { .. })));
        fs::write(pki.join(SIGNING), KeyPair::generate().unwrap().serialize_pem()).unwrap();
        let (new, old) = rotate(dir.path()).unwrap();
        assert!(matches!(remove(dir.path(), &new), Err(KeysError::Signs { .. })));
        for wrong in ["", "x", "../../service-account", &format!("{old}.pub")] {
            assert!(matches!(remove(dir.path(), wrong), Err(KeysError::Absent { .. })), "{wrong}");
        }
        remove(dir.path(), &old).unwrap();
        assert_eq!(list(dir.path()).unwrap(), [TokenKeyInfo { id: new, signs: true }]);
        let gone = dir.path().join("none");
        assert!(matches!(list(&gone), Err(KeysError::Folder(_))));
    }

    #[test]
    fn a_folder_in_use_is_left_alone() {
        let (dir, pki) = folder();
        fs::write(pki.join(SIGNING), KeyPair::generate().unwrap().serialize_pem()).unwrap();
        let held = LockedDataFolder::open(dir.path()).unwrap();
        assert!(matches!(rotate(dir.path()), Err(KeysError::Folder(_))));
        assert_eq!(list(dir.path()).unwrap().len(), 1, "looking is always allowed");
        drop(held);
    }
}
