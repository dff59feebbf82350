//! A server in the background: started, looked at, listened to, ended, removed.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tenure_client_tests::Operator;

use super::{Home, until};

fn status(home: &Home, folder: &str) -> (Option<i32>, Value) {
    let ended = home.tenure(&["status", "--data-dir", folder, "-o", "json"]);
    (ended.code, serde_json::from_str(&ended.stdout).unwrap())
}

fn process(status: &Value) -> Pid {
    Pid::from_raw(i32::try_from(status["process"].as_u64().unwrap()).unwrap()).unwrap()
}

#[test]
fn r179c_a_server_lives_in_the_background_until_it_is_ended() {
    for &operator in Operator::all() {
        let home = Home::of(operator);
        assert_eq!(home.tenure(&["status"]).code, Some(3));
        let url = home.up(&["-v"]);
        let said = home.ok(&["status"]);
        for part in ["running\n", "ready       yes\n", &url, "namespaces  "] {
            assert!(said.contains(part), "no {part} in {said}");
        }
        let (code, seen) = status(&home, ".local/share/tenure");
        assert_eq!(
            (code, &seen["state"], &seen["ready"]),
            (Some(0), &"running".into(), &true.into())
        );
        assert_eq!(seen["url"], url.as_str());
        // In a session of its own, so that no terminal takes it along.
        let id = process(&seen);
        assert_eq!(rustix::process::getsid(Some(id)).unwrap(), id);
        let again = home.tenure(&["up", "--detach", "--listen", "127.0.0.1:0"]);
        assert_eq!(again.code, Some(1));
        assert!(again.stderr.contains("is in use by process"), "{again:?}");
        let logs = home.ok(&["logs"]);
        assert!(logs.contains("ready https://") && logs.contains("the store"), "{logs}");
        assert_eq!(home.ok(&["logs", "--tail", "1"]).lines().count(), 1);
        let said = home.ok(&["down"]);
        assert!(said.starts_with("stopped process "), "{said}");
        // Whoever waited for the start has gone by now, and is told nothing.
        let logs = home.ok(&["logs"]);
        assert!(!logs.contains("nobody listens at"), "{logs}");
        assert_eq!(home.tenure(&["status"]).code, Some(3));
        assert!(home.ok(&["down"]).starts_with("no server uses "));
        assert!(home.path(".local/share/tenure/store").exists());
        // What it kept is there again, and goes when it is told to.
        home.up(&[]);
        let asked = home.tenure(&["delete"]);
        assert_eq!(asked.code, Some(2), "{asked:?}");
        home.ok(&["delete", "--yes"]);
        assert!(!home.path(".local/share/tenure").exists());
        assert_eq!(home.tenure(&["status"]).code, Some(3));
    }
}

#[test]
fn r179c_a_start_that_fails_says_why() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = home.tenure(&["up", "--detach", "--data-dir", "data", "--listen", &address]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let said = format!("error: cannot listen on `{address}`: the port is taken\n");
    assert!(ended.stderr.starts_with(&said), "{ended:?}");
    assert_eq!(ended.stdout, "");
}

#[test]
fn r179c_a_server_that_was_killed_is_not_running() {
    let home = Home::new();
    home.up(&["--data-dir", "data"]);
    let (_, seen) = status(&home, "data");
    kill_process(process(&seen), Signal::KILL).unwrap();
    until("the server is gone", || status(&home, "data").0 == Some(3));
    // And neither is a stranger who got its number.
    home.up(&["--data-dir", "data"]);
    assert_eq!(status(&home, "data").0, Some(0));
    std::fs::write(home.path("data/mine"), "x").unwrap();
    let said = home.ok(&["delete", "--data-dir", "data", "-y"]);
    assert!(said.contains("left: mine\n"), "{said}");
    assert_eq!(std::fs::read_dir(home.path("data")).unwrap().count(), 1);
    let refused = home.tenure(&["delete", "--data-dir", "data", "-y"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

#[test]
fn r179c_whoever_waits_is_told() {
    let home = Home::new();
    let path = home.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let words = ["up", "--ephemeral", "--nodes", "0", "--listen", "127.0.0.1:0"];
    let mut child =
        home.command(&home.program, &words).env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let heard = || {
        let mut bytes = [0; 512];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let ready = heard();
    assert!(ready.starts_with("READY=1\nSTATUS=ready https://127.0.0.1:"), "{ready}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(heard().starts_with("STOPPING=1\n"));
    assert!(child.wait().unwrap().success());
}

#[test]
fn r179e_stdout_is_the_audit_log_alone() {
    let home = Home::new();
    let words =
        ["up", "--data-dir", "data", "--nodes", "0", "--listen", "127.0.0.1:0", "--audit-log", "-"];
    let child = home.command(&home.program, &words).spawn().unwrap();
    until("it is ready", || home.tenure(&["status", "--data-dir", "data"]).code == Some(0));
    home.kubectl(&["--kubeconfig=data/kubeconfig", "get", "namespaces"]);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.lines().count() > 1, "{stdout}");
    for line in stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["kind"], "Event", "{line}");
    }
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("ready https://"));
}

#[test]
fn r179e_more_is_said_when_asked() {
    let home = Home::new();
    for (words, variable) in [(&["-v"][..], None), (&[], Some("info"))] {
        let all = ["up", "--data-dir", "data", "--nodes", "0", "--listen", "127.0.0.1:0"];
        let mut command = home.command(&home.program, &[&all[..], words].concat());
        if let Some(level) = variable {
            command.env("TENURE_LOG", level);
        }
        let child = command.spawn().unwrap();
        until("it is ready", || home.tenure(&["status", "--data-dir", "data"]).code == Some(0));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        for part in [
            "the data folder is ours path=",
            "listening",
            "the stored objects are read objects=",
            "the certificates are at hand",
            "the kubeconfig is up to date path=",
            "ready url=https://127",
            "the end is asked for",
            "the store is closed",
        ] {
            assert!(said.contains(part), "no {part} in {said}");
        }
    }
}

/// A kept server with a pod whose folder is in memory, killed.
fn killed_with_a_pod(operator: Operator, word: &str) -> Home {
    let home = Home::of(operator);
    home.up(&["--data-dir", "data", "--nodes", "1"]);
    let file = "--kubeconfig=data/kubeconfig";
    let overrides = format!(
        r#"{{"spec": {{"containers": [{{"name": "left", "image": "host", "command": ["sleep", "{word}"],
            "volumeMounts": [{{"name": "v", "mountPath": "/v"}}]}}],
            "volumes": [{{"name": "v", "emptyDir": {{"medium": "Memory"}}}}]}}}}"#
    );
    let overrides = format!("--overrides={overrides}");
    home.kubectl(&[file, "run", "left", "--image=host", "--restart=Never", &overrides]);
    home.kubectl(&[file, "wait", "--for=condition=Ready", "pod/left", "--timeout=60s"]);
    kill_process(process(&status(&home, "data").1), Signal::KILL).unwrap();
    until("the server is gone", || status(&home, "data").0 == Some(3));
    assert_eq!(sleeps(word), 1, "{operator:?}");
    home
}

/// How many processes of this machine sleep for so long.
fn sleeps(word: &str) -> usize {
    let wanted = format!("sleep\0{word}\0").into_bytes();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let words = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    words.filter(|words| *words == wanted).count()
}

fn mounted(folder: &std::path::Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.contains(&folder.display().to_string())
}

#[test]
fn r179c_what_a_killed_server_left_goes_with_its_folder() {
    for &operator in Operator::all() {
        let home = killed_with_a_pod(operator, "4242");
        home.ok(&["delete", "--data-dir", "data", "--yes"]);
        assert_eq!(sleeps("4242"), 0, "{operator:?}");
        assert!(!home.path("data").exists(), "{operator:?}");
        assert!(!mounted(&home.path("data")), "{operator:?}");
    }
}

#[test]
fn a_start_with_fewer_nodes_ends_what_the_others_left() {
    for &operator in Operator::all() {
        let home = killed_with_a_pod(operator, "4243");
        home.up(&["--data-dir", "data", "--nodes", "0"]);
        assert_eq!(sleeps("4243"), 0, "{operator:?}");
        home.ok(&["down", "--data-dir", "data"]);
        assert!(!mounted(&home.path("data")), "{operator:?}");
        std::fs::remove_dir_all(home.path("data")).unwrap();
    }
}

#[test]
fn r198_an_end_that_takes_longer_than_a_second_says_so() {
    let home = Home::new();
    home.up(&["--data-dir", "data", "--nodes", "1"]);
    let file = "--kubeconfig=data/kubeconfig";
    let script = "trap 'sleep 3; exit 0' TERM; while :; do sleep 0.1; done";
    let run = ["run", "slow", "--image=host", "--restart=Never", "--", "sh", "-c", script];
    home.kubectl(&[&[file], &run[..]].concat());
    home.kubectl(&[file, "wait", "--for=condition=Ready", "pod/slow", "--timeout=60s"]);
    let ended = home.tenure(&["down", "--data-dir", "data"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("waiting for pods and requests to end for "), "{ended:?}");
}

#[test]
fn r179c_files_of_pods_end_nobody_and_are_not_waited_for() {
    let home = Home::new();
    home.up(&["--data-dir", "data"]);
    home.ok(&["down", "--data-dir", "data"]);
    let mut child = std::process::Command::new("sleep").arg("4244").spawn().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let start: u64 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
    // As a pod writes it into its own folder.
    let pods = home.path("data/nodes/node-1/volumes/pods/a/volumes/v");
    std::fs::create_dir_all(pods.join("pipe")).unwrap();
    let record = serde_json::json!({ "init": { "pid": child.id(), "start": start } });
    std::fs::write(pods.join("running.json"), record.to_string()).unwrap();
    let pipe = pods.join("pipe/running.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    home.ok(&["delete", "--data-dir", "data", "--yes"]);
    assert!(child.try_wait().unwrap().is_none(), "a process of the machine was ended");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn r179c_a_folder_in_use_is_not_removed_and_a_command_is_not_ended() {
    let home = Home::new();
    home.up(&["--data-dir", "data"]);
    home.ok(&["down", "--data-dir", "data"]);
    let lock = std::fs::File::options().write(true).open(home.path("data/lock")).unwrap();
    lock.lock().unwrap();
    let delete = ["delete", "--data-dir", "data", "--yes"];
    let down = ["down", "--data-dir", "data"];
    // As a server in a container writes it, whose number is another's here.
    std::fs::write(home.path("data/lock"), "1\n").unwrap();
    let (code, seen) = status(&home, "data");
    assert_eq!((code, &seen["state"]), (Some(1), &"hidden".into()));
    for words in [&delete[..], &down[..]] {
        let ended = home.tenure(words);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains("a process that cannot be seen from here uses"), "{ended:?}");
    }
    // A command that serves nobody; if it were ended, so would this test be.
    let held = format!("{}\nstorage compact", std::process::id());
    std::fs::write(home.path("data/lock"), held).unwrap();
    let (code, seen) = status(&home, "data");
    assert_eq!((code, &seen["state"]), (Some(1), &"busy".into()));
    assert_eq!(seen["command"], "storage compact");
    for words in [&delete[..], &down[..]] {
        let ended = home.tenure(words);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let said = format!("error: `tenure storage compact`, process {}, uses", std::process::id());
        assert!(ended.stderr.starts_with(&said), "{ended:?}");
    }
    assert!(home.path("data/store").exists() && home.path("data/pki").exists());
    drop(lock);
    home.ok(&delete);
}
