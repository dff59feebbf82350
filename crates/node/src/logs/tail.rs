//! Where the last lines of a log begin, found from its end (R117).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::files::LogFiles;
use super::{BLOCK_BYTES, LINE_BYTES_MAX, LogStream, parse_line};

/// The file and the place in it where the last `lines` lines begin.
pub(super) fn begin(files: &LogFiles, lines: u64) -> io::Result<(Option<PathBuf>, u64)> {
    let mut count = LineCounter { left: lines, followed: [false; 2] };
    let mut oldest = None;
    for path in files.all()?.into_iter().rev() {
        let Some(file) = files.open(&path)? else { continue };
        if let Some(offset) = before_last(&file, &mut count)? {
            return Ok((Some(path), offset));
        }
        oldest = Some(path);
    }
    Ok((oldest, 0))
}

/// Counts lines from the last one backwards.
struct LineCounter {
    /// How many are still wanted.
    left: u64,
    /// Whether something of a stream was seen, which comes after whatever is met next.
    followed: [bool; 2],
}

impl LineCounter {
    /// Takes in what stands before all that was taken in so far; whether that is one line too many.
    ///
    /// A line ends where one is marked `F`; those marked `P` before it are its beginning. One marked `P`
    /// that nothing follows is the last of its stream, which was written without an end.
    fn is_full(&mut self, line: &[u8]) -> bool {
        let Some(line) = parse_line(line) else { return false };
        let [out, err] = &mut self.followed;
        let followed = match line.source {
            LogStream::Stdout => out,
            LogStream::Stderr => err,
        };
        if std::mem::replace(followed, true) && line.partial {
            return false;
        }
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return true,
        }
        false
    }
}

/// The place after the line that comes before the last wanted lines; `None` if all belong to them.
fn before_last(file: &File, count: &mut LineCounter) -> io::Result<Option<u64>> {
    let mut end = file.metadata()?.len();
    let mut start = end;
    // What lies between `start` and `end`: lines, the first of them perhaps without its beginning.
    let mut held: Vec<u8> = Vec::new();
    loop {
        while let Some(at) = last_line(&held) {
            let line = held.get(at..).unwrap_or_default();
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            if count.is_full(line) {
                return Ok(Some(end));
            }
            held.truncate(at);
            end = start + at as u64;
        }
        if start == 0 {
            // The first line of the file has no line end before it.
            let line = held.strip_suffix(b"\n").unwrap_or(&held);
            return Ok(count.is_full(line).then_some(end));
        }
        let part = start.min(BLOCK_BYTES as u64);
        let mut block = vec![0; usize::try_from(part).unwrap_or(BLOCK_BYTES)];
        start -= part;
        file.read_exact_at(&mut block, start)?;
        if held.is_empty() && end == start + part {
            // The end of the file: what follows the last line end is not written to its end yet.
            let whole = block.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            block.truncate(whole);
            end = start + whole as u64;
        }
        if held.len() > LINE_BYTES_MAX {
            held.clear();
        }
        block.extend_from_slice(&held);
        held = block;
    }
}

/// Where the last line begins, if its beginning is there.
fn last_line(held: &[u8]) -> Option<usize> {
    let inner = held.strip_suffix(b"\n").unwrap_or(held);
    if inner.is_empty() && held.is_empty() {
        return None;
    }
    inner.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1)
}
