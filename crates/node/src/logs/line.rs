//! One line of a log file as runtimes write it (R115).

use jiff::Timestamp;

/// Which stream of a container a line was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// When it was written.
    pub time: Timestamp,
    /// Where it was written.
    pub source: LogStream,
    /// Whether the next line of the same stream goes on where this one ends.
    pub partial: bool,
    /// What was written.
    pub bytes: &'a [u8],
}

/// Reads a line without its end; `None` if it is none.
#[must_use]
pub fn parse_line(line: &[u8]) -> Option<LogLine<'_>> {
    let (time, rest) = word(line)?;
    let (source, rest) = word(rest)?;
    // The tag is `F` or `P`, and may be followed by more tags after a colon.
    let (tag, bytes) = word(rest).unwrap_or((rest, &[]));
    let time = std::str::from_utf8(time).ok()?.parse().ok()?;
    let source = match source {
        b"stdout" => LogStream::Stdout,
        b"stderr" => LogStream::Stderr,
        _ => return None,
    };
    let partial = match tag.split(|byte| *byte == b':').next()? {
        b"P" => true,
        b"F" => false,
        _ => return None,
    };
    Some(LogLine { time, source, partial, bytes })
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b' ')?;
    let (word, rest) = text.split_at(at);
    Some((word, rest.get(1..).unwrap_or_default()))
}

/// Writes a time with nine digits, always as wide, and a space (R119).
pub(super) fn put_time(time: Timestamp, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{time:.9} ").as_bytes());
}
