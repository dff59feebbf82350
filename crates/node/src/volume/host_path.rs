//! Folders and files of the node, where they are allowed.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use crate::private::PrivatePaths;

/// Checks what is at a path against what the pod says is there, and makes it where the pod says so.
/// What is private is neither given nor written to, by whatever name.
pub(super) fn check(path: &Path, kind: &str, private: &PrivatePaths) -> Result<PathBuf, String> {
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(format!("hostPath must be absolute and without '..': {}", path.display()));
    }
    let failed = |what: &str| format!("hostPath type check failed: {} {what}", path.display());
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let allowed = |path: PathBuf| match private.shown_by(&path) {
        Some(kept) => Err(format!(
            "hostPath {} shows {}, which no pod may see: it holds keys or data of this cluster",
            path.display(),
            kept.display()
        )),
        None => Ok(path),
    };
    // Before anything is made there.
    let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    let rest = path.strip_prefix(there).unwrap_or(Path::new(""));
    allowed(std::fs::canonicalize(there).map_err(told)?.join(rest))?;
    match kind {
        "DirectoryOrCreate" if !path.exists() => std::fs::create_dir_all(path).map_err(told)?,
        "FileOrCreate" if !path.exists() => {
            std::fs::File::create_new(path).map(drop).map_err(told)?;
        }
        _ => {}
    }
    let seen = std::fs::metadata(path).map_err(told)?.file_type();
    let fits = match kind {
        "" => true,
        "Directory" | "DirectoryOrCreate" => seen.is_dir(),
        "File" | "FileOrCreate" => seen.is_file(),
        "Socket" => seen.is_socket(),
        "CharDevice" => seen.is_char_device(),
        "BlockDevice" => seen.is_block_device(),
        other => return Err(failed(&format!("is of no kind called {other}"))),
    };
    if !fits {
        return Err(failed(match kind {
            "Directory" | "DirectoryOrCreate" => "is not a directory",
            "File" | "FileOrCreate" => "is not a file",
            "Socket" => "is not a socket file",
            "CharDevice" => "is not a character device",
            _ => "is not a block device",
        }));
    }
    allowed(std::fs::canonicalize(path).map_err(told)?)
}
