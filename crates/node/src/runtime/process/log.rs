//! Writes the log of a container in the format every kubelet reads, and puts full files aside.
//! Reading them is elsewhere.
//!
//! ```text
//!   <time with nine digits>Z <stdout|stderr> <F|P> <bytes>\n
//!   0.log                                  the current file
//!   0.log.20261115-143000.123456789        put aside; names sort by age
//! ```

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};

/// A line longer than this is split into parts.
const LINE_MAX: usize = 16 << 10;

/// Which stream a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputStream {
    /// Standard output, or the terminal.
    Out,
    /// Standard error.
    Err,
}

/// The log of one container. It holds the folder, so a change of mounts does not lead it astray.
#[derive(Debug)]
pub(super) struct ContainerLog {
    folder: OwnedFd,
    name: OsString,
    file: OwnedFd,
    size: u64,
    size_max: u64,
    files_max: usize,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl ContainerLog {
    /// Opens the log, made if it is not there.
    pub(super) fn open(path: &Path, size_max: u64, files_max: usize) -> io::Result<ContainerLog> {
        let parent = path.parent().ok_or_else(|| io::Error::other("a log needs a folder"))?;
        let name = path.file_name().ok_or_else(|| io::Error::other("a log needs a name"))?;
        std::fs::create_dir_all(parent)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(parent, flags, Mode::empty())?;
        let (file, size) = open_file(&folder, name)?;
        let (out, err) = (Vec::new(), Vec::new());
        Ok(ContainerLog {
            folder,
            name: name.to_owned(),
            file,
            size,
            size_max,
            files_max,
            out,
            err,
        })
    }

    /// Writes what a stream said at this time; a line that is not whole waits for its end.
    pub(super) fn write(&mut self, stream: OutputStream, bytes: &[u8], now: jiff::Timestamp) {
        let held = match stream {
            OutputStream::Out => &mut self.out,
            OutputStream::Err => &mut self.err,
        };
        let mut text = Vec::with_capacity(bytes.len() + 64);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            held.extend_from_slice(line);
            take_lines(held, stream, now, &mut text);
        }
        self.append(&text, now);
    }

    /// Writes what is left of a stream that ended. Its last line had no end, so it gets none here either.
    pub(super) fn finish(&mut self, stream: OutputStream, now: jiff::Timestamp) {
        let held = match stream {
            OutputStream::Out => std::mem::take(&mut self.out),
            OutputStream::Err => std::mem::take(&mut self.err),
        };
        if !held.is_empty() {
            let mut text = Vec::with_capacity(held.len() + 64);
            put_line(&mut text, stream, b'P', &held, now);
            self.append(&text, now);
        }
    }

    /// A log that cannot be written must not stop the container: what does not fit is lost.
    fn append(&mut self, text: &[u8], now: jiff::Timestamp) {
        if self.size > 0 && self.size.saturating_add(text.len() as u64) > self.size_max {
            let _ = self.rotate(now);
        }
        let mut rest = text;
        while !rest.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(&self.file, rest)) {
                Ok(written) if written > 0 => {
                    self.size = self.size.saturating_add(written as u64);
                    rest = rest.get(written..).unwrap_or_default();
                }
                _ => return,
            }
        }
    }

    fn rotate(&mut self, now: jiff::Timestamp) -> io::Result<()> {
        let mut aside = self.name.clone();
        aside.push(now.strftime(".%Y%m%d-%H%M%S.%9f").to_string());
        rustix::fs::renameat(&self.folder, &self.name, &self.folder, &aside)?;
        (self.file, self.size) = open_file(&self.folder, &self.name)?;
        let mut old = self.rotated_files()?;
        let keep = self.files_max.saturating_sub(1);
        let surplus = old.len().saturating_sub(keep);
        for name in old.drain(..surplus) {
            rustix::fs::unlinkat(&self.folder, &name, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Files put aside, oldest first.
    fn rotated_files(&self) -> io::Result<Vec<OsString>> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut prefix = self.name.clone();
        prefix.push(".");
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name.starts_with(prefix.as_bytes()) {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

fn open_file(folder: &OwnedFd, name: &OsStr) -> io::Result<(OwnedFd, u64)> {
    let flags = OFlags::CREATE | OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o640);
    let file = rustix::fs::openat(folder, name, flags | OFlags::NOFOLLOW, mode)?;
    let size = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or_default();
    Ok((file, size))
}

/// Moves whole lines, and the parts of a line that is too long, from `held` to `text`.
fn take_lines(held: &mut Vec<u8>, stream: OutputStream, now: jiff::Timestamp, text: &mut Vec<u8>) {
    let whole = held.last() == Some(&b'\n');
    if whole {
        held.pop();
    }
    let mut rest: &[u8] = held;
    while rest.len() > LINE_MAX {
        let (part, more) = rest.split_at(LINE_MAX);
        put_line(text, stream, b'P', part, now);
        rest = more;
    }
    if whole {
        put_line(text, stream, b'F', rest, now);
        held.clear();
    } else {
        let gone = held.len() - rest.len();
        held.drain(..gone);
    }
}

fn put_line(text: &mut Vec<u8>, stream: OutputStream, tag: u8, line: &[u8], now: jiff::Timestamp) {
    let name: &[u8] = match stream {
        OutputStream::Out => b"stdout",
        OutputStream::Err => b"stderr",
    };
    text.extend_from_slice(format!("{now:.9}").as_bytes());
    text.push(b' ');
    text.extend_from_slice(name);
    text.extend_from_slice(&[b' ', tag, b' ']);
    text.extend_from_slice(line);
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    fn now() -> jiff::Timestamp {
        "2026-11-15T14:30:00.5Z".parse().unwrap()
    }

    fn files(folder: &Path) -> Vec<(String, String)> {
        let mut all: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, std::fs::read_to_string(path).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn r115_a_line_has_time_stream_tag_and_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = ContainerLog::open(&folder.path().join("0.log"), 1 << 20, 5).unwrap();
        log.write(OutputStream::Out, b"one\ntw", now());
        log.write(OutputStream::Err, b"bad\n", now());
        log.write(OutputStream::Out, b"o\n\nlast", now());
        log.finish(OutputStream::Out, now());
        log.finish(OutputStream::Err, now());
        let text = &files(folder.path())[0].1;
        let at = "2026-11-15T14:30:00.500000000Z";
        assert_eq!(
            *text,
            format!(
                "{at} stdout F one\n{at} stderr F bad\n{at} stdout F two\n{at} stdout F \n{at} stdout P last\n"
            )
        );
    }

    #[test]
    fn r115_a_long_line_is_split_and_marked_partial() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = ContainerLog::open(&folder.path().join("0.log"), 1 << 20, 5).unwrap();
        let long = "x".repeat(LINE_MAX * 2 + 5);
        for piece in long.as_bytes().chunks(1000) {
            log.write(OutputStream::Out, piece, now());
        }
        log.write(OutputStream::Out, b"\n", now());
        let text = &files(folder.path())[0].1;
        let tags: Vec<(&str, usize)> = text
            .lines()
            .map(|line| {
                let mut parts = line.splitn(4, ' ').skip(2);
                (parts.next().unwrap(), parts.next().unwrap().len())
            })
            .collect();
        assert_eq!(tags, [("P", LINE_MAX), ("P", LINE_MAX), ("F", 5)]);
    }

    #[test]
    fn r115_full_files_are_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = ContainerLog::open(&folder.path().join("0.log"), 100, 3).unwrap();
        for number in 0..10_i64 {
            let later = now().checked_add(jiff::SignedDuration::from_millis(number)).unwrap();
            log.write(
                OutputStream::Out,
                format!("line {number} {}\n", "y".repeat(30)).as_bytes(),
                later,
            );
        }
        let all = files(folder.path());
        let lines: String = all.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(all[0].0, "0.log");
        assert!(all[1].0.starts_with("0.log.20261115-143000.5"));
        assert!(lines.contains("line 9 ") && !lines.contains("line 0 "));
        assert!(all.iter().all(|(_, text)| text.len() <= 100 && text.ends_with('\n')));
    }
}
