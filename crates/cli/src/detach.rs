//! `tenure up --detach`: the same command again, in a session of its own, waited for until it is ready.
//!
//! ```text
//!   this process ──starts──► the server ──READY=1──► this process says what it would have said, and ends
//!                            stdout, stderr: DIR/log
//! ```

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use tenure_host::folder::{LockedDataFolder, TemporaryFolder};
use tenure_host::server_record::{self, ServerRecord};

use crate::clock;
use crate::report::CommandError;
use crate::{notify, say, up};

/// How often it is looked whether the server has ended.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is looked whether the log is too long.
const LOG_LOOK: Duration = Duration::from_secs(30);
/// The flag that the server gets and nobody else uses.
pub(crate) const BACKGROUND: &str = "--background";

/// Starts the server in the background and waits until it is ready.
pub(crate) fn start(dir: &Path) -> Result<ExitCode, CommandError> {
    // Says at once what the server would say, such as that the folder is in use.
    let folder = LockedDataFolder::open(dir)?.path().to_owned();
    let failed = |error: std::io::Error| {
        CommandError::new("the server cannot be started in the background").cause(&error)
    };
    let (log, file) = server_record::open_log(&folder).map_err(failed)?;
    let begin = file.metadata().map_err(failed)?.len();
    let waiting = TemporaryFolder::new().map_err(failed)?;
    let socket = UnixDatagram::bind(waiting.path().join("notify")).map_err(failed)?;
    socket.set_read_timeout(Some(LOOK)).map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut child = Command::new(program)
        .args(arguments(std::env::args_os().skip(1)))
        .arg(BACKGROUND)
        .arg(&log)
        .env(notify::VARIABLE, waiting.path().join("notify"))
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(failed)?)
        .stderr(file)
        .spawn()
        .map_err(failed)?;
    let Some(line) = ready(&mut child, &socket).map_err(failed)? else {
        let status = child.wait().map_err(failed)?;
        let _ = std::io::stderr().lock().write_all(&failure_in(said_since(&log, begin)));
        let code = status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code > 0);
        return Ok(ExitCode::from(code.unwrap_or(1)));
    };
    say(format!("{line}\n").as_bytes());
    let kubeconfig = ServerRecord::read(&folder).map(|record| record.kubeconfig);
    let kubeconfig = kubeconfig.unwrap_or_else(|| folder.join("kubeconfig"));
    let place = if up::data_dir(None).is_ok_and(|usual| is_same(&usual, &folder)) {
        String::new()
    } else {
        format!(" --data-dir {}", up::quoted(&folder.display().to_string()))
    };
    let words = format!(
        "{}see it with `tenure status{place}`, stop it with `tenure down{place}`\n",
        up::exports(&kubeconfig)
    );
    let _ = std::io::stderr().lock().write_all(words.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn is_same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| one == other)
}

/// The words of this command without the one that brought it here.
fn arguments(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    words.filter(|word| word != "--detach").collect()
}

/// The line of a server that is ready; nothing if it ends before.
fn ready(child: &mut Child, socket: &UnixDatagram) -> std::io::Result<Option<String>> {
    let mut bytes = [0; 1024];
    loop {
        let length = match socket.recv(&mut bytes) {
            Ok(length) => length,
            Err(_) if child.try_wait()?.is_some() => return Ok(None),
            Err(_) => continue,
        };
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
        if text.lines().any(|line| line == "READY=1") {
            let status = text.lines().find_map(|line| line.strip_prefix("STATUS="));
            return Ok(Some(status.unwrap_or("ready").to_owned()));
        }
    }
}

/// What was written to the log after it had so many bytes.
fn said_since(log: &Path, begin: u64) -> Vec<u8> {
    let mut said = Vec::new();
    if let Ok(mut file) = fs::File::open(log) {
        let _ = file.seek(SeekFrom::Start(begin)).and_then(|_| file.read_to_end(&mut said));
    }
    said
}

/// What a server that ended said of it: the error, or all of it if there is none. The steps before it stay in the log.
fn failure_in(mut said: Vec<u8>) -> Vec<u8> {
    const ERROR: &[u8] = b"error: ";
    let begins = |at: usize| at == 0 || said.get(at - 1) == Some(&b'\n');
    let found = said.windows(ERROR.len()).enumerate();
    let error = found.into_iter().find(|(at, words)| *words == ERROR && begins(*at));
    let from = error.map_or(0, |(at, _)| at);
    said.split_off(from)
}

/// Makes this process a server in the background: no terminal ends it, and it keeps no folder busy.
pub(crate) fn leave_terminal(log: &Path) {
    // Whoever leads a session already has left.
    let _ = rustix::process::setsid();
    notify::only_until_ready();
    // Every path is absolute by now.
    let _ = std::env::set_current_dir("/");
    keep_short(log.to_owned());
}

/// Keeps the log of a server in the background from growing for ever.
fn keep_short(log: PathBuf) {
    let keeping = std::thread::Builder::new().name("log".to_owned());
    // Where no thread can be had, the next start puts it aside.
    let _ = keeping.spawn(move || {
        loop {
            clock::block_for(LOG_LOOK);
            let next = server_record::next_log(&log);
            if let Ok(Some(next)) = &next {
                let moved = rustix::stdio::dup2_stdout(next);
                let _ = moved.and_then(|()| rustix::stdio::dup2_stderr(next));
            }
        }
    });
}
