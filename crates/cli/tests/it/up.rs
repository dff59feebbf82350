//! `tenure up` from the first line to the last, and every way it can fail to start.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use rustix::process::Signal;

use crate::process::{Ended, Server, ended, run, tenure};

const ANY_PORT: &[&str] = &["--listen", "127.0.0.1:0"];

fn start(dir: &Path) -> Server {
    Server::start(&[ANY_PORT, &["--data-dir", dir.to_str().unwrap()]].concat())
}

/// The end must be quick; debug builds on busy machines get some room.
fn assert_clean(ended: &Ended, took: Duration) {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(took < Duration::from_secs(2), "took {took:?}");
}

fn field<'a>(kubeconfig: &'a str, name: &str) -> &'a str {
    let line = kubeconfig.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    line.split_once(": ").unwrap().1
}

#[test]
fn it_says_ready_once_and_ends_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("data"));
    TcpStream::connect(server.address()).unwrap();
    let words: Vec<&str> = server.ready.trim_end().split(' ').collect();
    let [ready, url, within, milliseconds, unit] = words[..] else { panic!("{}", server.ready) };
    assert_eq!((ready, within, unit), ("ready", "in", "ms"));
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    milliseconds.parse::<u32>().unwrap();
    let (ended, took) = server.end(Signal::TERM);
    assert_clean(&ended, took);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let kubeconfig = dir.path().join("data/kubeconfig");
    let expected = format!(
        "\n  export KUBECONFIG={}\n  kubectl get namespaces\n\nstop with ctrl-c\nstopping\n",
        kubeconfig.display()
    );
    assert_eq!(ended.stderr, expected);
}

#[test]
fn ctrl_c_ends_it_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let (ended, took) = start(dir.path()).end(Signal::INT);
    assert_clean(&ended, took);
}

#[test]
fn the_kubeconfig_is_private_and_names_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path());
    let path = dir.path().join("kubeconfig");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(field(&text, "server"), format!("https://{}", server.address()));
    let key = base64::engine::general_purpose::STANDARD.decode(field(&text, "client-key-data"));
    assert!(key.unwrap().starts_with(b"-----BEGIN PRIVATE KEY-----"));
}

#[test]
fn certificates_outlive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeconfig");
    start(dir.path()).end(Signal::TERM);
    let first = fs::read_to_string(&path).unwrap();
    start(dir.path()).end(Signal::TERM);
    let second = fs::read_to_string(&path).unwrap();
    for name in ["certificate-authority-data", "client-certificate-data", "client-key-data"] {
        assert_eq!(field(&first, name), field(&second, name));
    }
}

#[test]
fn ephemeral_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = tenure(&["up", "--ephemeral", "--listen", "127.0.0.1:0"]);
    command.env("TMPDIR", dir.path()).env("HOME", dir.path());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let folder = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("kubeconfig").exists());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(0));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_usual_folder_is_below_xdg_data_home_or_home() {
    let dir = tempfile::tempdir().unwrap();
    for (variable, place) in [("XDG_DATA_HOME", "tenure"), ("HOME", ".local/share/tenure")] {
        // The port is taken, so the start fails after the folder has been made.
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap().to_string();
        let mut command = tenure(&["up", "--listen", &address]);
        command.env(variable, dir.path());
        assert_eq!(ended(command.output().unwrap()).code, Some(1));
        assert!(dir.path().join(place).is_dir(), "{variable}");
    }
}

#[test]
fn a_taken_port_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = run(&["up", "--listen", &address, "--data-dir", dir.path().to_str().unwrap()]);
    assert_eq!(ended.code, Some(1));
    let expected = format!(
        "error: cannot listen on `{address}`: the port is taken\n  \
         hint: take any free port with `--listen 127.0.0.1:0`, or name another\n"
    );
    assert_eq!(ended.stderr, expected);
    assert_eq!(ended.stdout, "");
}

#[test]
fn a_folder_in_use_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let server = start(dir.path());
    let id = server.id();
    let said = format!("error: the data folder `{path}` is in use by process {id}\n");
    let up = run(&[&["up", "--data-dir", path], ANY_PORT].concat());
    assert_eq!(up.code, Some(1));
    let hint =
        format!("  hint: end it with `kill {id}`, or use another folder with `--data-dir DIR`\n");
    assert_eq!(up.stderr, format!("{said}{hint}"));
    let hint = format!("  hint: stop the server that uses `{path}` first\n");
    // A snapshot is saved all the same: the server that uses the folder is asked for it.
    let ended = run(&["storage", "compact", "--data-dir", path]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr, format!("{said}{hint}"));
}

#[test]
fn an_unusable_folder_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let path = file.join("data");
    let ended = run(&["up", "--data-dir", path.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1));
    let expected = format!(
        "error: the data folder `{}` cannot be used\n  cause: Not a directory (os error 20)\n  \
         hint: use another folder with `--data-dir DIR`, or none with `--ephemeral`\n",
        path.display()
    );
    assert_eq!(ended.stderr, expected);
}

#[test]
fn a_foreign_kubeconfig_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config");
    fs::write(&path, "apiVersion: v1\n").unwrap();
    let path_text = path.to_str().unwrap();
    let ended = run(&["up", "--ephemeral", "--listen", "127.0.0.1:0", "--kubeconfig", path_text]);
    assert_eq!(ended.code, Some(1));
    let said = format!(
        "error: `{path_text}` is no kubeconfig, so nothing was written there\n  \
         cause: it has neither clusters, users nor contexts\n  hint: "
    );
    assert!(ended.stderr.starts_with(&said), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
}

#[test]
fn a_damaged_authority_is_told() {
    let dir = tempfile::tempdir().unwrap();
    start(dir.path()).end(Signal::TERM);
    fs::write(dir.path().join("pki/ca.key"), "x").unwrap();
    let ended = run(&[&["up", "--data-dir", dir.path().to_str().unwrap()], ANY_PORT].concat());
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("the certificate authority in `"), "{}", ended.stderr);
    assert!(ended.stderr.contains("` is damaged\n  hint: "), "{}", ended.stderr);
}

#[test]
fn no_home_and_bad_filters_are_told() {
    let mut command = tenure(&["up"]);
    command.env_remove("HOME");
    let homeless = ended(command.output().unwrap());
    assert_eq!(homeless.code, Some(1));
    assert!(homeless.stderr.starts_with("error: there is no home folder"), "{}", homeless.stderr);
    let mut command = tenure(&["up", "--ephemeral"]);
    command.env("TENURE_LOG", "tenure=nonsense=x");
    let filter = ended(command.output().unwrap());
    assert_eq!(filter.code, Some(2));
    assert!(filter.stderr.starts_with("error: the variable TENURE_LOG"), "{}", filter.stderr);
}

#[test]
fn ephemeral_and_a_file_store_contradict_each_other() {
    let ended = run(&["up", "--ephemeral", "--store", "file"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("hint: leave out one of the two"), "{}", ended.stderr);
}

#[test]
fn log_lines_can_be_json() {
    let arguments = ["up", "--ephemeral", "--listen", "127.0.0.1:0", "--log-format", "json"];
    let mut command = tenure(&arguments);
    command.env("TENURE_LOG", "debug");
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    // A client that speaks no TLS leaves a line at level debug.
    let address = line.split(' ').nth(1).unwrap().strip_prefix("https://").unwrap();
    std::io::Write::write_all(&mut TcpStream::connect(address).unwrap(), b"hello\n\n").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    let ended = ended(child.wait_with_output().unwrap());
    let logged = ended.stderr.lines().find(|line| line.contains("TLS handshake failed")).unwrap();
    assert!(logged.starts_with('{') && logged.ends_with('}'), "{logged}");
}
