//! Folders and files of the node, where they are allowed.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

/// Checks what is at a path against what the pod says is there, and makes it where the pod says so.
pub(super) fn check(path: &Path, kind: &str) -> Result<PathBuf, String> {
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(format!("hostPath must be absolute and without '..': {}", path.display()));
    }
    let failed = |what: &str| format!("hostPath type check failed: {} {what}", path.display());
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
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
    std::fs::canonicalize(path).map_err(told)
}
