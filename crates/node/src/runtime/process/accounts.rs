//! The user that an image names, found in the image's own lists (R143a). Nothing outside of the image is
//! ever read: its files may be links to anywhere.

use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// The longest list that is read.
const BYTES_MAX: u64 = 1 << 20;

/// The user and the group of `USER` in an image: numbers, or names of the image's lists. A name that
/// nobody has is an error: to be root instead is never what was meant.
pub(super) fn resolve(root: &Path, user: &str) -> io::Result<(u32, Option<u32>)> {
    let (user, group) = user.split_once(':').unwrap_or((user, ""));
    let mut own_group = None;
    let uid = match user.parse::<u32>() {
        Ok(uid) => uid,
        Err(_) if user.is_empty() => 0,
        Err(_) => {
            let list = read(root, "etc/passwd")?;
            let found = entry(&list, user).and_then(|fields| {
                own_group = fields.get(3)?.parse().ok();
                fields.get(2)?.parse().ok()
            });
            found.ok_or_else(|| missing("user", user, "passwd"))?
        }
    };
    let gid = match group.parse::<u32>() {
        Ok(gid) => Some(gid),
        Err(_) if group.is_empty() => own_group,
        Err(_) => {
            let list = read(root, "etc/group")?;
            let found = entry(&list, group).and_then(|fields| fields.get(2)?.parse().ok());
            Some(found.ok_or_else(|| missing("group", group, "group"))?)
        }
    };
    Ok((uid, gid))
}

fn missing(what: &str, name: &str, list: &str) -> io::Error {
    io::Error::other(format!("unable to find {what} {name}: no matching entries in {list} file"))
}

/// A list of the image; empty if it has none. Links lead where they would in the container.
fn read(root: &Path, name: &str) -> io::Result<String> {
    let folder = rustix::fs::open(root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let Ok(held) = rustix::fs::openat2(&folder, name, flags, Mode::empty(), resolve) else {
        return Ok(String::new());
    };
    let file = std::fs::File::from(held);
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn entry<'a>(list: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = list.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields.first() == Some(&name))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r143a_a_named_user_is_the_images_own() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        let passwd = "root:x:0:0::/:\napp:x:1234:77::/app:\nbroken:x:minus:0::/:\n";
        std::fs::write(root.path().join("etc/passwd"), passwd).unwrap();
        std::fs::write(root.path().join("etc/group"), "root:x:0:\nstaff:x:50:\n").unwrap();
        let of = |user: &str| resolve(root.path(), user).ok();
        assert_eq!(of(""), Some((0, None)));
        assert_eq!(of("7"), Some((7, None)));
        assert_eq!(of("7:8"), Some((7, Some(8))));
        assert_eq!(of("app"), Some((1234, Some(77))));
        assert_eq!(of("app:staff"), Some((1234, Some(50))));
        assert_eq!(of("7:staff"), Some((7, Some(50))));
        for unknown in ["nobody", "app:nobody", "broken", "-1", "4294967296", "app ", "x:"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
        let problem = resolve(root.path(), "nobody").unwrap_err().to_string();
        assert_eq!(problem, "unable to find user nobody: no matching entries in passwd file");
    }

    #[test]
    fn r143a_a_list_is_never_one_of_the_nodes() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("passwd"), "eve:x:0:0::/:\n").unwrap();
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        std::fs::create_dir(&etc).unwrap();
        let out = outside.path().join("passwd");
        std::os::unix::fs::symlink(&out, etc.join("passwd")).unwrap();
        assert!(resolve(root.path(), "eve").is_err());
        std::fs::remove_file(etc.join("passwd")).unwrap();
        std::os::unix::fs::symlink("../../../../../../etc/passwd", etc.join("passwd")).unwrap();
        assert!(resolve(root.path(), "root").is_err(), "it is a link to itself in there");
        std::fs::remove_file(etc.join("passwd")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            etc.join("passwd"),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        assert!(resolve(root.path(), "eve").is_err(), "nobody waits for a pipe");
    }
}
