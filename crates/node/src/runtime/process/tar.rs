//! Reads tar, as layers of images are packed, into a folder and never beyond it: every path is
//! resolved as if that folder were the root. Devices and owners are not made.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

const BLOCK: usize = 512;

/// The largest name or extended header.
const HEADER_MAX: u64 = 1 << 20;

/// One entry's head.
#[derive(Debug, Default)]
struct TarHeader {
    path: String,
    link: String,
    kind: u8,
    mode: u32,
    size: u64,
}

/// Unpacks a layer over what earlier layers left.
pub(super) fn unpack(mut packed: impl Read, folder: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(folder, flags, Mode::empty())?;
    let mut extra: BTreeMap<String, String> = BTreeMap::new();
    while let Some(mut head) = next_head(&mut packed)? {
        match head.kind {
            b'L' | b'K' => {
                let text = read_text(&mut packed, head.size)?;
                let name = if head.kind == b'L' { "path" } else { "linkpath" };
                extra.insert(name.to_owned(), text.trim_end_matches('\0').to_owned());
                continue;
            }
            b'x' | b'g' => {
                let text = read_text(&mut packed, head.size)?;
                if head.kind == b'x' {
                    extra.extend(pairs(&text));
                }
                continue;
            }
            _ => {}
        }
        let mut taken = std::mem::take(&mut extra);
        head.path = taken.remove("path").unwrap_or(head.path);
        head.link = taken.remove("linkpath").unwrap_or(head.link);
        if let Some(size) = taken.get("size").and_then(|size| size.parse().ok()) {
            head.size = size;
        }
        let mut body = (&mut packed).take(head.size);
        place(&root, &head, &mut body)?;
        io::copy(&mut body, &mut io::sink())?;
        if body.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        skip_padding(&mut packed, head.size)?;
    }
    Ok(())
}

fn next_head(packed: &mut impl Read) -> io::Result<Option<TarHeader>> {
    let mut block = Vec::with_capacity(BLOCK);
    loop {
        block.clear();
        match packed.by_ref().take(BLOCK as u64).read_to_end(&mut block)? {
            0 => return Ok(None),
            BLOCK => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        if block.iter().any(|byte| *byte != 0) {
            break;
        }
    }
    let text = |from: usize, length: usize| {
        let field = block.get(from..from + length).unwrap_or_default();
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(field.get(..end).unwrap_or_default()).into_owned()
    };
    let prefix = if text(257, 5) == "ustar" { text(345, 155) } else { String::new() };
    let name = text(0, 100);
    let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
    let mode = u32::from_str_radix(text(100, 8).trim(), 8).unwrap_or(0o644);
    let size = number(block.get(124..136).unwrap_or_default())?;
    let kind = block.get(156).copied().unwrap_or_default();
    Ok(Some(TarHeader { path, link: text(157, 100), kind, mode, size }))
}

/// Octal digits, or for large numbers the bytes themselves.
fn number(field: &[u8]) -> io::Result<u64> {
    if field.first().is_some_and(|byte| byte & 0x80 != 0) {
        let low = field.get(field.len().saturating_sub(8)..).unwrap_or_default();
        return Ok(low.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)));
    }
    let text = String::from_utf8_lossy(field);
    let digits = text.trim_matches(|c: char| c == '\0' || c == ' ');
    if digits.is_empty() {
        return Ok(0);
    }
    u64::from_str_radix(digits, 8).map_err(io::Error::other)
}

fn read_text(packed: &mut impl Read, size: u64) -> io::Result<String> {
    if size > HEADER_MAX {
        return Err(io::Error::other("a header of a layer is too long"));
    }
    let mut bytes = Vec::new();
    packed.take(size).read_to_end(&mut bytes)?;
    skip_padding(packed, size)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn skip_padding(packed: &mut impl Read, size: u64) -> io::Result<()> {
    let over = size % BLOCK as u64;
    if over > 0 {
        io::copy(&mut packed.take(BLOCK as u64 - over), &mut io::sink())?;
    }
    Ok(())
}

/// `length key=value\n`, again and again.
fn pairs(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| line.split_once(' ')?.1.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn place(root: &OwnedFd, head: &TarHeader, body: &mut impl Read) -> io::Result<()> {
    let path = inside(&head.path)?;
    let Some(name) = path.file_name().map(std::ffi::OsStr::to_owned) else { return Ok(()) };
    let parent = make_folders(root, path.parent().unwrap_or(Path::new("")))?;
    let plain = name.to_string_lossy();
    if plain == ".wh..wh..opq" {
        return clear(&parent);
    }
    if let Some(hidden) = plain.strip_prefix(".wh.") {
        if matches!(hidden, "" | "." | "..") {
            return Err(io::Error::other(format!("{plain:?} hides nothing")));
        }
        return crate::volume::remove_tree_at(&parent, hidden);
    }
    let mode = Mode::from_raw_mode(head.mode & 0o7777);
    match head.kind {
        b'5' => {
            let held = make_folders(root, &path)?;
            set_mode(&held, mode)
        }
        b'2' => {
            remove_file(&parent, &name)?;
            Ok(rustix::fs::symlinkat(head.link.as_str(), &parent, &name)?)
        }
        b'1' => {
            let target = inside(&head.link)?;
            let target = open(root, &target, OFlags::PATH)?;
            remove_file(&parent, &name)?;
            let from = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&target));
            let flags = AtFlags::SYMLINK_FOLLOW;
            Ok(rustix::fs::linkat(rustix::fs::CWD, from, &parent, &name, flags)?)
        }
        b'0' | 0 | b'7' => {
            remove_file(&parent, &name)?;
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&parent, &name, flags | OFlags::NOFOLLOW, mode)?;
            let mut file = std::fs::File::from(file);
            io::copy(body, &mut file)?;
            Ok(rustix::fs::fchmod(&file, mode)?)
        }
        // Devices and pipes come from the runtime, not from an image.
        _ => Ok(()),
    }
}

fn set_mode(held: &OwnedFd, mode: Mode) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(held));
    Ok(rustix::fs::chmodat(rustix::fs::CWD, path, mode, AtFlags::empty())?)
}

/// A path without climbing.
fn inside(path: &str) -> io::Result<PathBuf> {
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                return Err(io::Error::other(format!("{path:?} leads out of the image")));
            }
            _ => {}
        }
    }
    Ok(clean)
}

fn open(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)?)
}

/// The folder at a path, through links that lead to folders inside, made where it is missing. A link
/// that leads nowhere inside makes way.
fn make_folders(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut walked = PathBuf::new();
    let mut held = open(root, &walked, OFlags::PATH | OFlags::DIRECTORY)?;
    for name in path.components() {
        walked.push(name);
        held = match open(root, &walked, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(next) => next,
            Err(_) => {
                remove_file(&held, name.as_os_str())?;
                match rustix::fs::mkdirat(&held, name.as_os_str(), Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                open(root, &walked, OFlags::PATH | OFlags::DIRECTORY)?
            }
        };
    }
    Ok(held)
}

/// Removes a file or link; a folder in its place goes with all below it.
fn remove_file(parent: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<()> {
    crate::volume::remove_tree_at(parent, &name.to_string_lossy())
}

/// Removes what earlier layers put in a folder.
fn clear(folder: &OwnedFd) -> io::Result<()> {
    let readable = rustix::fs::openat(
        folder,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&readable)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.into_iter().try_for_each(|name| crate::volume::remove_tree_at(&readable, &name))
}
