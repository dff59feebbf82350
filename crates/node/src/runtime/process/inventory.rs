//! What files a folder had when it was whole, and how it becomes whole again from another copy. What the
//! files are for is known elsewhere.
//!
//! ```text
//!   inventory = { kind length blank path NUL }    kind: d folder, f file, x file that may be run, l link,
//!                                                       o anything else
//! ```

use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// One thing of an inventory.
#[derive(Debug, PartialEq, Eq)]
struct InventoryEntry {
    kind: u8,
    length: u64,
    path: PathBuf,
}

impl InventoryEntry {
    /// What is at a path now; a length counts for files and links only.
    fn at(root: &Path, path: PathBuf) -> io::Result<InventoryEntry> {
        let seen = std::fs::symlink_metadata(root.join(&path))?;
        let kind = seen.file_type();
        let (kind, length) = match (kind.is_dir(), kind.is_file(), kind.is_symlink()) {
            (true, ..) => (b'd', 0),
            (_, true, _) if seen.permissions().mode() & 0o111 != 0 => (b'x', seen.len()),
            (_, true, _) => (b'f', seen.len()),
            (.., true) => (b'l', seen.len()),
            _ => (b'o', 0),
        };
        Ok(InventoryEntry { kind, length, path })
    }
}

/// The inventory of a folder: each folder before what is in it.
pub(super) fn take(root: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    walk(root, Path::new(""), &mut text)?;
    Ok(text)
}

fn walk(root: &Path, within: &Path, text: &mut Vec<u8>) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(within))? {
        let item = InventoryEntry::at(root, within.join(entry?.file_name()))?;
        text.push(item.kind);
        text.extend(format!("{} ", item.length).bytes());
        text.extend(item.path.as_os_str().as_bytes());
        text.push(0);
        if item.kind == b'd' {
            walk(root, &item.path, text)?;
        }
    }
    Ok(())
}

fn read(text: &[u8]) -> impl Iterator<Item = InventoryEntry> {
    text.split(|byte| *byte == 0).filter_map(|line| {
        let (kind, rest) = line.split_first()?;
        let blank = rest.iter().position(|byte| *byte == b' ')?;
        let length = std::str::from_utf8(rest.get(..blank)?).ok()?.parse().ok()?;
        let path = std::ffi::OsString::from_vec(rest.get(blank + 1..)?.to_owned());
        Some(InventoryEntry { kind: *kind, length, path: path.into() })
    })
}

/// Whether everything is there. What is there beyond it does no harm.
pub(super) fn is_whole(root: &Path, inventory: &[u8]) -> bool {
    read(inventory).all(|item| is_there(root, &item))
}

fn is_there(root: &Path, item: &InventoryEntry) -> bool {
    InventoryEntry::at(root, item.path.clone()).is_ok_and(|now| {
        // Agents before this one did not tell who may be run.
        let former = item.kind == b'f' && now.kind == b'x' && now.length == item.length;
        now == *item || former
    })
}

/// Moves what is missing or another from a copy to its place. Whoever uses the folder meanwhile keeps
/// everything that was right.
pub(super) fn mend(root: &Path, inventory: &[u8], copy: &Path) -> io::Result<()> {
    for item in read(inventory) {
        // With a folder comes all that is in it, which is then found to be there.
        if is_there(root, &item) {
            continue;
        }
        let place = root.join(&item.path);
        match std::fs::symlink_metadata(&place) {
            Ok(now) if now.is_dir() => std::fs::remove_dir_all(&place)?,
            // A file makes way for a file of itself, and for nothing else.
            Ok(_) if item.kind == b'd' => std::fs::remove_file(&place)?,
            _ => {}
        }
        std::fs::rename(copy.join(&item.path), &place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use std::fs;

    use super::*;

    fn files() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("usr/bin")).unwrap();
        fs::create_dir_all(root.join("empty")).unwrap();
        fs::write(root.join("usr/bin/tool"), "one").unwrap();
        fs::set_permissions(root.join("usr/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("usr/bin/two words"), "two").unwrap();
        std::os::unix::fs::symlink("usr/bin", root.join("bin")).unwrap();
        folder
    }

    #[test]
    fn r140a_whatever_is_missing_or_another_is_noticed_and_mended() {
        let damages: [fn(&Path); 8] = [
            |root| {
                let plain = fs::Permissions::from_mode(0o644);
                fs::set_permissions(root.join("usr/bin/tool"), plain).unwrap();
            },
            |root| fs::remove_file(root.join("usr/bin/tool")).unwrap(),
            |root| fs::remove_dir_all(root.join("usr")).unwrap(),
            |root| fs::remove_dir(root.join("empty")).unwrap(),
            |root| fs::write(root.join("usr/bin/two words"), "").unwrap(),
            |root| fs::remove_file(root.join("bin")).unwrap(),
            |root| {
                fs::remove_file(root.join("bin")).unwrap();
                fs::create_dir(root.join("bin")).unwrap();
                fs::write(root.join("bin/x"), "x").unwrap();
            },
            |root| {
                fs::remove_dir(root.join("empty")).unwrap();
                fs::write(root.join("empty"), "x").unwrap();
            },
        ];
        for (number, damage) in damages.into_iter().enumerate() {
            let (folder, copy) = (files(), files());
            let inventory = take(folder.path()).unwrap();
            fs::write(folder.path().join("more"), "x").unwrap();
            assert!(is_whole(folder.path(), &inventory), "more than there was is no damage");
            damage(folder.path());
            assert!(!is_whole(folder.path(), &inventory), "{number}");
            mend(folder.path(), &inventory, copy.path()).unwrap();
            assert!(is_whole(folder.path(), &inventory), "{number}");
            assert_eq!(fs::read(folder.path().join("bin/tool")).unwrap(), b"one", "{number}");
        }
    }
}
