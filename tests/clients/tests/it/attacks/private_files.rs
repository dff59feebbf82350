//! Keys and kubeconfigs are written where nobody can put a file first.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_client_tests::{Operator, Server};

/// Somebody else on the machine.
const STRANGER: u32 = 12345;
/// The operator that is not root.
const NOBODY: u32 = 65534;
const LIMIT: Duration = Duration::from_secs(60);

/// All that is below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path));
        }
        found.push(path);
    }
    found
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Runs a server whose umask keeps nothing from anybody.
fn start_open(operator: Operator, parent: &Path, flags: &[&str]) -> Server {
    let before = ["sh", "-c", "umask 000; exec \"$@\"", "sh"];
    Server::start_within(operator, parent, &before, flags).unwrap()
}

#[test]
fn nothing_in_the_data_folder_is_for_others_whatever_the_umask() {
    for &operator in Operator::all() {
        let flags = ["--data-dir", "data", "--audit-log", "audit.log", "--nodes", "1"];
        let server = start_open(operator, &std::env::temp_dir(), &flags);
        let data = server.folder().join("data");
        for wanted in ["pki/ca.key", "pki/admin.key", "pki/service-account.key", "lock", "store"] {
            assert!(data.join(wanted).exists(), "{operator:?}: no {wanted}");
        }
        let kubeconfig = server.kubeconfig().to_owned();
        for file in [kubeconfig, server.folder().join("audit.log")] {
            assert_eq!(mode(&file), 0o600, "{operator:?} {}", file.display());
        }
        assert_eq!(mode(&data), 0o700, "{operator:?}");
        for folder in ["pki", "store"] {
            assert_eq!(mode(&data.join(folder)), 0o700, "{operator:?} {folder}");
            for path in below(&data.join(folder)) {
                let open = mode(&path) & 0o077;
                assert_eq!(open, 0, "{operator:?} {}: {:o}", path.display(), mode(&path));
            }
        }
    }
}

#[test]
fn a_copy_of_the_store_is_as_private_as_the_store() {
    for &operator in Operator::all() {
        let (home, shared) = (TempDir::new().unwrap(), Shared::new());
        drop(operator.command(home.path()).unwrap());
        let data = home.path().join("data");
        let data = data.to_str().unwrap();
        start_open(operator, &std::env::temp_dir(), &["--data-dir", data]).stop().unwrap();
        let saved = shared.folder.path().join("saved");
        let program = operator.command(home.path()).unwrap();
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "umask 000; exec \"$@\"", "sh"]).arg(program.get_program());
        command.args(["snapshot", "save", "--data-dir", data]).arg(&saved);
        operator_of(operator, &mut command);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(mode(&saved), 0o600, "{operator:?}");
        assert_eq!(below(shared.folder.path()), [saved], "{operator:?}");
    }
}

/// Lets a command run as the operator.
fn operator_of(operator: Operator, command: &mut std::process::Command) {
    if operator == Operator::Ordinary {
        command.uid(NOBODY).gid(NOBODY);
    }
}

/// Where a server's private files go in a folder in which a stranger may write.
struct Shared {
    folder: TempDir,
}

impl Shared {
    fn new() -> Shared {
        let folder = TempDir::with_prefix("tenure-shared-").unwrap();
        // As the folder of temporary files, but in it the system follows links.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        Shared { folder }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Starts `tenure up` with its kubeconfig here, stopped until the names are known that it will have.
    fn start(&self, operator: Operator, home: &Path) -> Child {
        let program = operator.command(home).unwrap();
        let mut command = std::process::Command::new("sh");
        // The process keeps its id when it becomes the server.
        command.args(["-c", "kill -STOP $$; umask 000; exec \"$@\"", "sh"]);
        command.arg(program.get_program()).args(["up", "--ephemeral", "--nodes", "0"]);
        command.args(["--listen", "127.0.0.1:0", "--kubeconfig"]).arg(self.kubeconfig());
        operator_of(operator, &mut command);
        command.env("TMPDIR", home).env("HOME", home).current_dir(home);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        until("the process stops itself", || {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            status.contains("State:\tT")
        });
        child
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn resume(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
}

/// Names that somebody can guess who knows the place and the number of the process.
fn guesses(place: &Path, pid: u32) -> Vec<PathBuf> {
    let name = place.file_name().unwrap().to_str().unwrap();
    let guesses = [
        format!("{name}.{pid}.part"),
        format!("{name}.part"),
        format!("{name}.partial"),
        format!("{name}.tmp"),
        format!("{name}.new"),
        format!("{name}~"),
        format!(".{name}.{pid}"),
        format!(".{name}.tmp"),
    ];
    guesses.map(|guess| place.with_file_name(guess)).to_vec()
}

/// Gives what was planted to the stranger, where the test may.
fn give(path: &Path) {
    if rustix::process::geteuid().is_root() {
        lchown(path, Some(STRANGER), Some(STRANGER)).unwrap();
    }
}

#[test]
fn a_file_that_lies_in_wait_gets_no_key() {
    for &operator in Operator::all() {
        let (shared, home) = (Shared::new(), TempDir::new().unwrap());
        let mut child = shared.start(operator, home.path());
        let planted = guesses(&shared.kubeconfig(), child.id());
        for path in &planted {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
            give(path);
        }
        // The stranger keeps the files open, so that a rename does not take them away.
        let mut held: Vec<_> = planted.iter().map(|path| fs::File::open(path).unwrap()).collect();
        resume(&child);
        until("a kubeconfig", || written(&shared.kubeconfig()));
        for (path, file) in planted.iter().zip(&mut held) {
            let mut text = String::new();
            std::io::Read::read_to_string(file, &mut text).unwrap();
            assert_eq!(text, "", "{operator:?} wrote to {}", path.display());
        }
        let is = fs::symlink_metadata(shared.kubeconfig()).unwrap();
        assert_eq!(is.mode() & 0o777, 0o600, "{operator:?}");
        assert_ne!(is.uid(), STRANGER, "{operator:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Whether a whole kubeconfig is there.
fn written(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains("client-key-data"))
}

#[test]
fn a_link_that_lies_in_wait_is_not_followed() {
    for &operator in Operator::all() {
        let (shared, home) = (Shared::new(), TempDir::new().unwrap());
        let mut child = shared.start(operator, home.path());
        let victim = home.path().join("victim");
        fs::write(&victim, "of value").unwrap();
        if operator == Operator::Ordinary {
            chown(&victim, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        for path in guesses(&shared.kubeconfig(), child.id()) {
            symlink(&victim, &path).unwrap();
            give(&path);
        }
        resume(&child);
        until("a kubeconfig", || written(&shared.kubeconfig()));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "of value", "{operator:?}");
        assert!(!shared.kubeconfig().is_symlink(), "{operator:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_strangers_link_at_the_place_itself_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Nobody but root makes links of another user.
        return;
    }
    for &operator in Operator::all() {
        let (shared, home) = (Shared::new(), TempDir::new().unwrap());
        let mut child = shared.start(operator, home.path());
        // An empty file, as a kubeconfig may replace.
        let victim = home.path().join("victim");
        fs::write(&victim, "").unwrap();
        if operator == Operator::Ordinary {
            chown(&victim, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        symlink(&victim, shared.kubeconfig()).unwrap();
        give(&shared.kubeconfig());
        resume(&child);
        let begin = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            let text = fs::read_to_string(&victim).unwrap();
            assert_eq!(text, "", "{operator:?} followed the link");
            assert!(begin.elapsed() < LIMIT, "{operator:?}: neither refused nor followed");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(!ended.success());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "");
    }
}

#[test]
fn a_data_folder_where_others_write_is_refused() {
    for &operator in Operator::all() {
        let parent = TempDir::new().unwrap();
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = parent.path().join("data");
        fs::create_dir(&data).unwrap();
        // A stranger made it ready: with a folder for the keys.
        fs::create_dir(data.join("pki")).unwrap();
        for path in [&data, &data.join("pki")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
            give(path);
        }
        let flags = ["--data-dir", data.to_str().unwrap()];
        let told = Server::start_as(operator, &flags).unwrap_err().to_string();
        assert!(told.contains("belongs to another user") || told.contains("chmod go-w"), "{told}");
        assert!(!data.join("pki/ca.key").exists(), "{operator:?}");
    }
}

#[test]
fn no_name_beside_a_key_is_ever_seen_by_others() {
    for &operator in Operator::all() {
        let shared = Shared::new();
        let kubeconfig = shared.kubeconfig();
        // Somebody who lists the folder as fast as they can, and looks at every mode.
        let (folder, ended) = (shared.folder.path().to_owned(), Arc::new(AtomicBool::new(false)));
        let stop = Arc::clone(&ended);
        let watcher = std::thread::spawn(move || {
            let mut open = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&folder).unwrap().flatten() {
                    let Ok(is) = entry.metadata() else { continue };
                    if is.mode() & 0o077 != 0 {
                        open.push(entry.path());
                    }
                }
            }
            open
        });
        let home = TempDir::new().unwrap();
        let mut child = shared.start(operator, home.path());
        resume(&child);
        until("a kubeconfig", || written(&kubeconfig));
        child.kill().unwrap();
        child.wait().unwrap();
        ended.store(true, Ordering::Relaxed);
        assert_eq!(watcher.join().unwrap(), Vec::<PathBuf>::new(), "{operator:?}");
    }
}
