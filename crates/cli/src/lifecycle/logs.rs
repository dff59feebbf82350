//! `tenure logs`: what a server in the background said, and goes on to say.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use tenure_host::server_record::{self, ServerState};

use crate::clock;
use crate::flags::Logs;
use crate::report::CommandError;
use crate::up::data_dir;

/// How often it is looked whether something was said.
const LOOK: Duration = Duration::from_millis(200);
/// How much is read at a time.
const PIECE: usize = 64 << 10;

pub(crate) fn logs(flags: &Logs) -> Result<(), CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let path = dir.join("log");
    let failed = |error: std::io::Error| {
        CommandError::new(format!("`{}` cannot be read", path.display())).cause(&error)
    };
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(absent(&dir)),
        Err(error) => return Err(failed(error)),
    };
    let begin = match flags.tail {
        Some(lines) => last_lines(&mut file, lines).map_err(failed)?,
        None => 0,
    };
    file.seek(SeekFrom::Start(begin)).map_err(failed)?;
    loop {
        // Looked at before reading, so that the last words are read too.
        let runs = !matches!(server_record::state(&dir), ServerState::Stopped);
        if !copy(&mut file).map_err(failed)? {
            return Ok(());
        }
        if is_another(&file, &path) {
            // It was too long and was put aside; what was written to it until then is printed.
            if !copy(&mut file).map_err(failed)? {
                return Ok(());
            }
            file = File::open(&path).map_err(failed)?;
            continue;
        }
        if !flags.follow || !runs {
            return Ok(());
        }
        clock::block_for(LOOK);
    }
}

/// Whether by now there is another file at the place of one.
fn is_another(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let now = path.metadata().map(|found| (found.dev(), found.ino()));
    let held = file.metadata().map(|found| (found.dev(), found.ino()));
    now.ok().zip(held.ok()).is_some_and(|(now, held)| now != held)
}

fn absent(dir: &Path) -> CommandError {
    let problem = CommandError::new(format!("there is no log in `{}`", dir.display()));
    match server_record::state(dir) {
        ServerState::Stopped => problem.hint("a server in the background has one: `tenure up --detach`"),
        _ => problem.hint(
            "the server runs in the foreground and says everything to its own terminal; one of systemd's \
             to the journal",
        ),
    }
}

/// Prints what is there; false if nobody reads it.
fn copy(file: &mut File) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece)?;
        let Some(read) = piece.get(..length).filter(|read| !read.is_empty()) else {
            return Ok(out.flush().is_ok());
        };
        if out.write_all(read).is_err() {
            return Ok(false);
        }
    }
}

/// Where the last lines of a file begin.
fn last_lines(file: &mut File, lines: usize) -> std::io::Result<u64> {
    let mut end = file.seek(SeekFrom::End(0))?;
    let whole = end;
    let mut breaks = 0;
    while end > 0 {
        let begin = end.saturating_sub(PIECE as u64);
        let length = usize::try_from(end - begin).unwrap_or(PIECE);
        let mut piece = vec![0; length];
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut piece)?;
        for (place, byte) in (begin..).zip(&piece).collect::<Vec<_>>().into_iter().rev() {
            // The break that ends the file ends its last line.
            if *byte == b'\n' && place + 1 < whole {
                breaks += 1;
                if breaks == lines {
                    return Ok(place + 1);
                }
            }
        }
        end = begin;
    }
    Ok(if lines == 0 { whole } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_begin_where_they_should() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\nthree\n").unwrap();
        for (lines, begin) in [(0, 14), (1, 8), (2, 4), (3, 0), (9, 0)] {
            assert_eq!(last_lines(&mut file, lines).unwrap(), begin, "{lines}");
        }
        file.write_all(&b"x".repeat(PIECE)).unwrap();
        file.write_all(b"\nlast").unwrap();
        assert_eq!(last_lines(&mut file, 1).unwrap(), 14 + PIECE as u64 + 1);
        assert_eq!(last_lines(&mut file, 2).unwrap(), 14);
    }
}
