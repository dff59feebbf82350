//! Every flag that takes a path, written in every way: pods run and their logs are where they should be.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tenure_client_tests::{Operator, Server};

use super::{Home, until};

/// Ways to write the same folder, in a folder that has `sub` and a link `link` to `real`.
const SPELLED: [(&str, &str); 5] = [
    ("data", "data"),
    ("./data", "data"),
    ("da ta", "da ta"),
    ("sub/../data", "data"),
    ("link/data", "real/data"),
];

fn names(folder: &str) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn kubectl(server: &Server, words: &[&str]) -> (bool, String) {
    let kubectl = std::env::var("KUBECTL").unwrap_or("kubectl".to_owned());
    let output = Command::new(kubectl)
        .args(words)
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.folder())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), said + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn r179b_logs_of_pods_are_in_the_data_folder_however_it_is_written() {
    let before = ["sh", "-c", "mkdir sub real; ln -s real link; exec \"$@\"", "sh"];
    for &operator in Operator::all() {
        for (spelled, place) in SPELLED {
            let root = names("/");
            let flags = ["--data-dir", spelled, "--nodes", "1"];
            let server =
                Server::start_within(operator, &std::env::temp_dir(), &before, &flags).unwrap();
            let what = format!("{operator:?} {spelled}");
            let run = ["run", "hi", "--image=host", "--restart=Never", "--", "sh", "-c"];
            let (made, said) = kubectl(&server, &[&run[..], &["echo hi from a pod"]].concat());
            assert!(made, "{what}: {said}");
            let wait =
                ["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/hi", "--timeout=60s"];
            let (done, said) = kubectl(&server, &wait);
            let described = || kubectl(&server, &["describe", "pod/hi"]).1;
            assert!(done, "{what}: {said}{}{}", described(), server.said());
            let (_, logs) = kubectl(&server, &["logs", "hi"]);
            assert_eq!(logs, "hi from a pod\n", "{what}");
            let data = server.folder().join(place);
            let holds = |path: &PathBuf| {
                path.extension().is_some_and(|it| it == "log")
                    && fs::read_to_string(path).is_ok_and(|text| text.contains("hi from a pod"))
            };
            assert!(files(&data).iter().any(holds), "{what}: no log below {}", data.display());
            assert_eq!(names("/"), root, "{what}");
            server.stop().unwrap();
        }
    }
}

#[test]
fn r179b_a_relative_image_folder_is_found_from_anywhere() {
    for &operator in Operator::all() {
        // An image of one file, with a folder whose name has a space.
        let before = [
            "sh",
            "-c",
            "mkdir -p 'my images/tool/bin' && cp \"$(command -v true)\" 'my images/tool/bin/tool'; exec \"$@\"",
            "sh",
        ];
        let flags = [
            "--data-dir",
            "data",
            "--nodes",
            "1",
            "--image-dir",
            "my images",
            "--audit-log",
            "./audit log",
        ];
        let server =
            Server::start_within(operator, &std::env::temp_dir(), &before, &flags).unwrap();
        let (found, said) = kubectl(
            &server,
            &["run", "tool", "--image=tool", "--restart=Never", "--command", "--", "/bin/tool"],
        );
        assert!(found, "{said}");
        // Whether that program runs without its libraries is the machine's matter; the image is found.
        until("the image is found", || {
            let (_, events) =
                kubectl(&server, &["get", "events", "--output", "custom-columns=R:.reason"]);
            let (_, pod) = kubectl(&server, &["get", "pod", "tool", "--output", "yaml"]);
            assert!(!pod.contains("ErrImagePull") && !pod.contains("ImagePullBackOff"), "{pod}");
            events.contains("Pulled") || events.contains("Created")
        });
        assert!(server.folder().join("audit log").exists(), "{operator:?}");
        server.stop().unwrap();
    }
}

#[test]
fn r179b_the_other_flags_take_relative_paths_too() {
    let home = Home::new();
    fs::create_dir_all(home.path("x y")).unwrap();
    std::os::unix::fs::symlink("x y", home.path("link")).unwrap();
    home.up(&["--data-dir", "./data", "--kubeconfig", "link/config"]);
    assert!(home.read("x y/config").contains("name: tenure"));
    let unused = home.tenure(&["unused", "--kubeconfig", "./x y/config", "-n", "default"]);
    assert_eq!(unused.code, Some(0), "{unused:?}");
    // The server works in another folder than the one it was started in.
    home.ok(&["status", "--data-dir", "link/../data"]);
    home.ok(&["down", "--data-dir", "data"]);
    home.ok(&["snapshot", "save", "link/a.snapshot", "--data-dir", "data"]);
    assert!(home.path("x y/a.snapshot").exists());
    home.ok(&["keys", "list", "--data-dir", "data"]);
    home.ok(&["snapshot", "restore", "x y/a.snapshot", "--data-dir", "./data"]);
}
