//! The place of `kubectl` where none was found: the one of this machine is looked for once more, and if there is none,
//! that is said. No command of kubectl lives here.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::environment;

/// What the program is called in this place.
pub(super) const NAME: &str = "kubectl";

/// Runs the kubectl of this machine in place of this process.
pub(super) fn run(words: &[OsString]) -> ExitCode {
    let own = std::env::current_exe().ok();
    let why = match find(own.as_deref()) {
        Some(kubectl) => Command::new(kubectl).args(words).exec().to_string(),
        None => "there is no `kubectl` in PATH".to_owned(),
    };
    let hint = "put the real one in this place: `tenure envtest DIR --kubectl FILE`";
    let text = format!("error: kubectl cannot be run\n  cause: {why}\n  hint: {hint}\n");
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    ExitCode::from(crate::report::NO)
}

/// The first `kubectl` in PATH that can be run and is none of `not`, by whatever name that goes.
pub(super) fn find(not: Option<&Path>) -> Option<PathBuf> {
    let path = environment::variable("PATH")?;
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let other = not.and_then(identity);
    let fits = |file: &PathBuf| {
        let Ok(found) = file.metadata() else { return false };
        let runs = found.is_file() && found.permissions().mode() & 0o111 != 0;
        runs && identity(file) != other && !is_ours(file)
    };
    let files = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    files.map(|folder| folder.join(NAME)).find(fits)
}

/// Whether a file lies in a folder that `tenure envtest` filled, and is not a link out of it.
fn is_ours(file: &Path) -> bool {
    let marked = file.parent().is_some_and(|folder| folder.join(super::install::MARKER).exists());
    marked && !file.is_symlink()
}
