//! `tenure envtest DIR`: puts this program into a folder under the names that test tools look for (api-server R170).

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::flags::EnvtestFlags;
use crate::report::CommandError;
use crate::up::quoted;

use super::{api_server, etcd, kubectl};

/// What says that the programs in a folder are this one, so that they may be replaced.
pub(super) const MARKER: &str = ".tenure-envtest";

/// Fills the folder and says what to set.
pub(crate) fn install(flags: &EnvtestFlags) -> Result<(), CommandError> {
    let folder = &flags.folder;
    let failed = |error: io::Error| {
        CommandError::new(format!("`{}` cannot be filled", folder.display())).cause(&error)
    };
    fs::create_dir_all(folder).map_err(failed)?;
    if !flags.force {
        refuse_foreign(folder)?;
    }
    let program = std::env::current_exe().map_err(failed)?;
    let kubectl = match &flags.kubectl {
        Some(given) if given.is_file() => Some(given.clone()),
        Some(given) => {
            let what = format!("there is no program `{}`", given.display());
            return Err(CommandError::new(what).usage());
        }
        None => kubectl::find(Some(&program)),
    };
    // Before the programs, so that a call that was cut short can be repeated.
    fs::write(folder.join(MARKER), concat!("tenure ", env!("CARGO_PKG_VERSION"), "\n"))
        .map_err(failed)?;
    let server = folder.join(api_server::NAME);
    put(&server, |new| link_or_copy(&program, new)).map_err(failed)?;
    // Of the first, so that there is one copy where this program lies on another disk.
    put(&folder.join(etcd::NAME), |new| link_or_copy(&server, new)).map_err(failed)?;
    let place = folder.join(kubectl::NAME);
    match &kubectl {
        Some(kubectl) => put(&place, |new| symlink(kubectl, new)).map_err(failed)?,
        None => put(&place, |new| link_or_copy(&server, new)).map_err(failed)?,
    }
    let words = format!("export KUBEBUILDER_ASSETS={}\n", quoted(&folder.display().to_string()));
    crate::say(words.as_bytes());
    if kubectl.is_none() {
        let text = "warning: no `kubectl` was found in PATH\n  \
                    cause: envtest does not need one; suites that run it, and fabric8's JUnit extension, do\n  \
                    hint: install kubectl and repeat this, or name it with `--kubectl FILE`\n";
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
    Ok(())
}

/// Refuses to replace programs that somebody else put there, such as the real ones.
fn refuse_foreign(folder: &Path) -> Result<(), CommandError> {
    if folder.join(MARKER).exists() {
        return Ok(());
    }
    let names = [api_server::NAME, etcd::NAME, kubectl::NAME];
    match names.iter().map(|name| folder.join(name)).find(|path| path.symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(found) => {
            Err(CommandError::new(format!("`{}` is there and not ours", found.display()))
                .hint("take another folder, or replace it with `--force`"))
        }
    }
}

/// Puts a file in its place as a whole: a test that starts at this moment finds the old one or the new one.
fn put(place: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut new = place.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    let _ = fs::remove_file(&new);
    make(&new)?;
    fs::rename(&new, place).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })?;
    // Renaming one link of a file over another one does nothing.
    let _ = fs::remove_file(&new);
    Ok(())
}

/// The same file under another name; a copy, where the file system has no such thing or does not allow it.
fn link_or_copy(program: &Path, new: &Path) -> io::Result<()> {
    fs::hard_link(program, new).or_else(|_| fs::copy(program, new).map(drop))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn flags(folder: &Path) -> EnvtestFlags {
        EnvtestFlags { folder: folder.to_owned(), kubectl: Some("/bin/sh".into()), force: false }
    }

    #[test]
    fn r170_a_folder_has_the_three_names_and_may_be_filled_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        for _ in 0..2 {
            install(&flags(&folder)).unwrap();
            let mut names: Vec<String> = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, [MARKER, "etcd", "kube-apiserver", "kubectl"]);
        }
        let inode = |name: &str| fs::metadata(folder.join(name)).unwrap().ino();
        assert_eq!(inode("etcd"), inode("kube-apiserver"), "one file on the disk");
        assert_eq!(fs::read_link(folder.join("kubectl")).unwrap(), Path::new("/bin/sh"));
    }

    #[test]
    fn r170_programs_of_others_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("etcd"), "the real one").unwrap();
        let refused = install(&flags(dir.path())).unwrap_err().to_string();
        assert!(refused.contains("etcd` is there and not ours"), "{refused}");
        assert_eq!(fs::read_to_string(dir.path().join("etcd")).unwrap(), "the real one");
        install(&EnvtestFlags { force: true, ..flags(dir.path()) }).unwrap();
        assert_ne!(fs::metadata(dir.path().join("etcd")).unwrap().len(), 12);
        let absent = EnvtestFlags { kubectl: Some("/none".into()), ..flags(dir.path()) };
        assert!(install(&absent).unwrap_err().to_string().contains("no program `/none`"));
    }
}
