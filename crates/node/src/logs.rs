//! Logs of containers, read from their files: the last lines, the lines since a time, the lines still
//! to come. One reader serves every runtime (R115); nobody writes here.
//!
//! ```text
//!   <n>.log.<older> … <n>.log.<newer>  <n>.log     one line: <time> <stdout|stderr> <F|P> <bytes>\\n
//!   └─────────── in this order, one after the other, as if they were one file ───────────┘
//! ```
//!
//! A reader holds one block of a file and one line; whoever takes what it gives decides how fast it goes.

mod files;
mod line;
mod tail;
mod watch;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use jiff::Timestamp;

pub use line::{LogLine, LogStream, parse_line};
pub use watch::{FolderWatch, Watcher};

use files::LogFiles;

/// How much of a file is read at once.
const BLOCK_BYTES: usize = 64 * 1024;

/// A line is split by whoever writes it after 16 KiB; one that is longer than this is no line of a log.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Which lines are wanted, and how (R116).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReadOptions {
    /// Only lines of this time or later (R118).
    pub since: Option<Timestamp>,
    /// The time before every line (R119).
    pub timestamps: bool,
    /// Only the last lines, counted before anything else is left out (R117).
    pub tail: Option<u64>,
    /// No more bytes than this (R122).
    pub limit: Option<u64>,
    /// Only lines of one stream.
    pub source: Option<LogStream>,
}

/// What a reader has to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogChunk {
    /// Bytes for the client.
    Bytes(Bytes),
    /// Nothing more for now: the log may grow.
    End,
    /// Nothing more ever: the limit is reached.
    Limit,
}

/// Reads the log of one instance of a container.
pub struct LogReader {
    files: LogFiles,
    wanted: LogReadOptions,
    /// The file that is being read, once there is one.
    file: Option<File>,
    /// What was read of the file and is no whole line yet.
    pending: Vec<u8>,
    left: u64,
    /// Whether the last line of each stream was written without its end.
    within: [bool; 2],
}

impl LogReader {
    /// Opens a log where the reading begins. A log that is not there yet is an empty one.
    ///
    /// `log` lies below `root`, and nothing on the way may be a link (R215).
    pub fn open(root: &Path, log: &Path, wanted: LogReadOptions) -> io::Result<LogReader> {
        let files = LogFiles::new(root, log)?;
        let (path, offset) = match wanted.tail {
            Some(lines) => tail::begin(&files, lines)?,
            None => (files.oldest(wanted.since)?, 0),
        };
        let mut reader = LogReader {
            files,
            left: wanted.limit.unwrap_or(u64::MAX),
            wanted,
            file: None,
            pending: Vec::new(),
            within: [false; 2],
        };
        if let Some(path) = path {
            reader.file = reader.files.open(&path)?;
            if let Some(file) = &mut reader.file {
                file.seek(SeekFrom::Start(offset))?;
            }
        }
        Ok(reader)
    }

    /// The next bytes for the client: at most a block and a line.
    pub fn next_piece(&mut self) -> io::Result<LogChunk> {
        let mut out = Vec::new();
        let mut block = vec![0; BLOCK_BYTES];
        while out.is_empty() {
            if self.left == 0 {
                return Ok(LogChunk::Limit);
            }
            let count = match &mut self.file {
                Some(file) => file.read(&mut block)?,
                None => 0,
            };
            if count == 0 {
                if self.turn_to_next()? {
                    continue;
                }
                return Ok(LogChunk::End);
            }
            self.pending.extend_from_slice(block.get(..count).unwrap_or_default());
            self.take_lines(&mut out);
        }
        Ok(LogChunk::Bytes(out.into()))
    }

    /// Goes on with the file after the one that was read to its end.
    fn turn_to_next(&mut self) -> io::Result<bool> {
        let Some(next) = self.files.after(self.file.as_ref())? else { return Ok(false) };
        // Bytes may have been added between the last look and the renaming.
        if let Some(file) = &mut self.file {
            let mut rest = Vec::new();
            file.take(BLOCK_BYTES as u64).read_to_end(&mut rest)?;
            if !rest.is_empty() {
                file.seek_relative(-i64::try_from(rest.len()).unwrap_or(0))?;
                return Ok(true);
            }
        }
        self.file = Some(next);
        self.pending.clear();
        Ok(true)
    }

    /// Hands out every whole line.
    fn take_lines(&mut self, out: &mut Vec<u8>) {
        let mut used = 0;
        let pending = std::mem::take(&mut self.pending);
        while let Some(rest) = pending.get(used..)
            && let Some(length) = rest.iter().position(|byte| *byte == b'\n')
            && self.left > 0
        {
            let line = rest.get(..length).and_then(parse_line);
            used += length + 1;
            let Some(line) = line else { continue };
            let begins = !std::mem::replace(self.within_mut(line.source), line.partial);
            let unwanted = self.wanted.source.is_some_and(|source| source != line.source)
                || self.wanted.since.is_some_and(|since| line.time < since);
            if unwanted {
                continue;
            }
            let before = out.len();
            if self.wanted.timestamps && begins {
                line::put_time(line.time, out);
            }
            out.extend_from_slice(line.bytes);
            if !line.partial {
                out.push(b'\n');
            }
            let written = out.len() - before;
            let allowed = usize::try_from(self.left).unwrap_or(usize::MAX).min(written);
            out.truncate(before + allowed);
            self.left -= allowed as u64;
        }
        self.pending = pending;
        self.pending.drain(..used.min(self.pending.len()));
        if self.pending.len() > LINE_BYTES_MAX {
            self.pending.clear();
        }
    }

    fn within_mut(&mut self, source: LogStream) -> &mut bool {
        let [out, err] = &mut self.within;
        match source {
            LogStream::Stdout => out,
            LogStream::Stderr => err,
        }
    }

    /// The folder whose changes tell that there may be more.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.files.folder()
    }
}

/// The last lines of a log, at most so many bytes of them: what a termination message falls back to
/// (R99). A log that cannot be read has none.
#[must_use]
pub fn last_lines(log: &Path, lines: u64, bytes: usize) -> Vec<u8> {
    let root = log.parent().map(PathBuf::from).unwrap_or_default();
    let wanted = LogReadOptions { tail: Some(lines), ..LogReadOptions::default() };
    let Ok(mut reader) = LogReader::open(&root, log, wanted) else { return Vec::new() };
    let mut out = Vec::new();
    while let Ok(LogChunk::Bytes(piece)) = reader.next_piece() {
        out.extend_from_slice(&piece);
        if out.len() > bytes {
            out.drain(..out.len() - bytes);
        }
    }
    out
}
