//! How a server with pods ends, and what it leaves behind: nothing that runs, nothing that is mounted.
//! Rules of spec/downward-api.md, as root and as an ordinary user.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_client_tests::{Operator, Server};

/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The operator that is not root.
const NOBODY: u32 = 65534;

fn kubectl(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("KUBECTL").unwrap_or("kubectl".into()));
    command.args(["--request-timeout", "60s"]).args(arguments);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("KUBECONFIG", server.kubeconfig()).env("HOME", server.folder());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn create(server: &Server, object: &Value) {
    let mut child = kubectl(server, &["create", "--filename", "-"]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn logs(server: &Server, pod: &str) -> String {
    let output = kubectl(server, &["logs", pod]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A pod that runs a script, with a folder of its own in memory.
fn pod(name: &str, grace: u64, script: &str, container: Value) -> Value {
    let mut main = json!({
        "name": "main", "image": "host", "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "disk", "mountPath": "/disk"}, {"name": "memory", "mountPath": "/memory"}],
    });
    main.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": grace,
            "containers": [main],
            "volumes": [
                {"name": "disk", "emptyDir": {}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
            ],
        },
    })
}

fn until(what: &str, holds: impl Fn() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    begin.elapsed()
}

fn send(server: &Server, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap(), signal).unwrap();
}

/// Waits until the process has ended; what it said is still there.
fn ended(server: &mut Server) -> Duration {
    let begin = Instant::now();
    while server.alive().is_ok() {
        assert!(begin.elapsed() < LIMIT, "the server does not end: {}", server.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    begin.elapsed()
}

/// The processes of this machine whose command has a word in it.
fn running(word: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let commands = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let commands = commands.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    commands.filter(|command| command.contains(word)).collect()
}

/// What is mounted below a folder.
fn mounted(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(str::to_owned);
    places.filter(|place| place.starts_with(&folder)).collect()
}

/// Every file below a folder with this name.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path, name));
        } else if path.file_name().is_some_and(|found| found == name) {
            found.push(path);
        }
    }
    found
}

fn read(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn r146b_a_server_that_is_asked_to_end_gives_containers_their_signal_and_leaves_nothing_mounted() {
    for &operator in Operator::all() {
        let word = format!("polite-{operator:?}-{}", std::process::id());
        let kept = ["--nodes", "1", "--restart-backoff", "100ms..1s", "--data-dir"];
        let mut server = Server::start_as(operator, &[&kept[..], &["data"]].concat()).unwrap();
        let data = server.folder().join("data");
        let script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done";
        create(&server, &pod("trap", 20, &format!("{script}; : {word}"), json!({})));
        let hook = json!({"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "echo hook > /disk/hook"]}}}});
        create(&server, &pod("hook", 20, &format!("echo up; sleep 600; : {word}"), hook));
        for name in ["trap", "hook"] {
            until(name, || logs(&server, name) == "up\n");
        }
        // As root, Secrets and volumes in memory are mounted, else there would be nothing to see.
        assert_eq!(mounted(&data).is_empty(), operator == Operator::Ordinary, "{operator:?}");

        send(&server, Signal::TERM);
        let took = ended(&mut server);
        assert!(took < Duration::from_secs(15), "{took:?}");
        assert!(server.said().contains("stopping: 2 pods have up to 30 s"), "{}", server.said());
        let told = read(&files(&data.join("nodes/node-1/logs"), "0.log"));
        assert!(told.contains(" bye\n"), "{operator:?}: no trap ran: {told}");
        let codes = read(&files(&data.join("nodes/node-1/process"), "exited.json"));
        assert!(codes.contains("\"code\":3,"), "{operator:?}: {codes}");
        assert_eq!(read(&files(&data.join("nodes/node-1/volumes"), "hook")), "hook\n");
        assert_eq!(running(&word), Vec::<String>::new(), "{operator:?}");
        assert_eq!(mounted(&data), Vec::<String>::new(), "{operator:?}");

        // The pods are still there, and so is what they had on disk.
        let path = data.to_str().unwrap();
        let mut again = Server::start_as(operator, &[&kept[..], &[path]].concat()).unwrap();
        until("they run again", || {
            logs(&again, "trap") == "up\n" && logs(&again, "hook") == "up\n"
        });
        let exec = kubectl(&again, &["exec", "hook", "--", "cat", "/disk/hook"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&exec.stdout), "hook\n", "{exec:?}");
        // What was in memory is lost, and there is memory again, for any user of the pod.
        let script = "ls /memory; echo x > /memory/x && stat -c %a /memory && df /memory | tail -1";
        let exec = kubectl(&again, &["exec", "hook", "--", "sh", "-c", script]).output().unwrap();
        let said = String::from_utf8_lossy(&exec.stdout);
        assert!(exec.status.success() && said.starts_with("777\n"), "{operator:?}: {exec:?}");
        assert_eq!(said.contains("tmpfs"), operator == Operator::Caller, "{operator:?}: {exec:?}");
        send(&again, Signal::INT);
        ended(&mut again);
        assert_eq!(running(&word), Vec::<String>::new(), "{operator:?}");
        fs::remove_dir_all(&data).unwrap();
    }
}

#[test]
fn r146b_a_second_signal_does_not_wait_and_leaves_nothing_running() {
    for &operator in Operator::all() {
        let word = format!("stubborn-{operator:?}-{}", std::process::id());
        let flags = ["--nodes", "1", "--data-dir", "data"];
        let mut server = Server::start_as(operator, &flags).unwrap();
        let script = "trap '' TERM; echo up; while :; do sleep 0.1; done";
        create(&server, &pod("stubborn", 600, &format!("{script}; : {word}"), json!({})));
        until("it runs", || logs(&server, "stubborn") == "up\n");
        send(&server, Signal::INT);
        until("it is said", || server.said().contains("stopping: 1 pod has up to 30 s"));
        std::thread::sleep(Duration::from_secs(1));
        server.alive().unwrap();
        assert!(!running(&word).is_empty(), "{operator:?}: it has time");
        send(&server, Signal::INT);
        let took = ended(&mut server);
        assert!(took < Duration::from_secs(8), "{operator:?}: {took:?}");
        assert!(server.said().contains("second signal"), "{}", server.said());
        assert_eq!(running(&word), Vec::<String>::new(), "{operator:?}");
        assert_eq!(mounted(&server.folder().join("data")), Vec::<String>::new(), "{operator:?}");
    }
}

#[test]
fn r146c_a_killed_server_that_keeps_nothing_leaves_nothing_to_the_next() {
    for &operator in Operator::all() {
        let word = format!("orphan-{operator:?}-{}", std::process::id());
        let temporary = TempDir::new().unwrap();
        if operator == Operator::Ordinary {
            chown(temporary.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let place = fs::canonicalize(temporary.path()).unwrap();
        let variable = format!("TMPDIR={}", place.display());
        let start = || {
            let before = ["env", variable.as_str()];
            let flags = ["--ephemeral", "--nodes", "1"];
            Server::start_within(operator, &std::env::temp_dir(), &before, &flags).unwrap()
        };
        let folders = || {
            let names = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name());
            let names = names.filter(|name| name.as_encoded_bytes().starts_with(b"tenure."));
            names.map(|name| place.join(name)).collect::<Vec<_>>()
        };
        let script = "trap 'sleep 30' TERM; echo up; while :; do sleep 0.1; done";
        let neighbour = start();
        create(&neighbour, &pod("neighbour", 1, &format!("{script}; : not {word}"), json!({})));
        until("the neighbour runs", || logs(&neighbour, "neighbour") == "up\n");
        let neighbours = folders();

        let killed = start();
        for name in ["one", "two"] {
            create(&killed, &pod(name, 600, &format!("{script}; : {word}"), json!({})));
            until(name, || logs(&killed, name) == "up\n");
        }
        let left: Vec<_> = folders().into_iter().filter(|one| !neighbours.contains(one)).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        killed.kill().unwrap();
        let own = |word: &str| running(word).iter().filter(|one| !one.contains("not ")).count();
        let took = until("its containers are gone", || own(&word) == 0);
        assert!(took < Duration::from_secs(10), "{operator:?}: {took:?}");

        let mut next = start();
        until("what it left is removed", || !left[0].exists());
        assert_eq!(mounted(&left[0]), Vec::<String>::new(), "{operator:?}");
        // Whoever lives is left alone.
        assert_eq!(logs(&neighbour, "neighbour"), "up\n", "{operator:?}");
        assert!(neighbours[0].join("nodes").is_dir());
        send(&next, Signal::TERM);
        ended(&mut next);
        assert_eq!(folders(), neighbours, "{operator:?}");
        neighbour.stop().unwrap();
        assert_eq!((folders(), mounted(&place)), (Vec::new(), Vec::new()), "{operator:?}");
    }
}
