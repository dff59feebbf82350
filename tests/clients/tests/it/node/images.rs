//! Images in OCI layouts, as several pods want them at the same moment and as somebody damages them.
//! Rules of spec/downward-api.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::house::{House, On};

/// A layout with busybox in it, if this machine has one.
fn layout() -> Option<TempDir> {
    let archives = tenure_containerd::images().unwrap()?;
    let folder = TempDir::new().unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(archives.join("busybox.tar")).arg("-C").arg(folder.path());
    assert!(tar.status().unwrap().success());
    Some(folder)
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 1, "nodeName": node,
            "containers": [{
                "name": "main", "image": "busybox", "imagePullPolicy": "IfNotPresent",
                "command": ["busybox", "echo", "hello"],
            }],
        },
    })
}

/// The folders into which a node unpacked images.
fn roots(cache: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|entry| entry.join("root")).collect()
}

/// Every file of a name below a folder; links are not followed.
fn find(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            find(&entry.path(), name, found);
        } else if entry.file_name() == name {
            found.push(entry.path());
        }
    }
}

#[test]
fn r140a_pods_that_want_an_image_at_once_all_run_and_a_damaged_one_mends_itself() {
    let Some(layout) = layout() else { return };
    let data = TempDir::new().unwrap();
    let folder = format!("busybox={}", layout.path().display());
    let flags = ["--nodes", "2", "--image-dir", &folder, "--restart-backoff", "100ms..1s"];
    let flags = [&flags[..], &["--data-dir", data.path().to_str().unwrap(), "-v"]].concat();
    let house = House::keeping(On::Process, &flags).unwrap();
    let nodes = ["node-1", "node-2"];
    let look = || house.kubectl.ok(&["get", "nodes", "--output", "name"]).lines().count();
    house.until("both nodes are there", look, |count| *count == 2);
    let all: Vec<Value> = (0..12).map(|n| pod(&format!("p{n}"), nodes[n % 2])).collect();
    house.create(&json!({"apiVersion": "v1", "kind": "List", "items": all}));
    for number in 0..12 {
        let name = format!("p{number}");
        house.phase(&name, "Succeeded");
        let restarts = house
            .kubectl
            .value(&format!("pod/{name}"), ".status.containerStatuses[0].restartCount");
        assert_eq!((house.log(&name).as_str(), restarts.as_str()), ("hello\n", "0"), "{name}");
    }
    // Once on each node, with sizes.
    let log = house.kubectl.server_said();
    for words in ["unpacking an image", "unpacked an image"] {
        let told: Vec<&str> = log.lines().filter(|line| line.contains(words)).collect();
        assert!(
            told.len() == 2 && told.iter().all(|line| line.contains("packed_bytes=")),
            "{told:?}"
        );
    }
    let cache = |node: &str| data.path().join(format!("nodes/{node}/process/.images"));
    for node in nodes {
        assert_eq!(roots(&cache(node)).len(), 1, "{node}: one image, and nothing half done");
    }

    // Somebody removes what every command needs, although the image was complete.
    let root = roots(&cache("node-1")).remove(0);
    let mut programs = Vec::new();
    find(&root, "busybox", &mut programs);
    assert!(!programs.is_empty(), "{}", root.display());
    for program in &programs {
        std::fs::remove_file(program).unwrap();
    }
    house.create(&pod("after", "node-1"));
    house.phase("after", "Succeeded");
    assert_eq!(house.log("after"), "hello\n");
    assert!(programs.iter().all(|program| program.exists()));

    // The same of one that was never unpacked to its end, as an agent that was killed leaves it.
    std::fs::remove_file(root.with_file_name("complete")).unwrap();
    for program in &programs {
        std::fs::remove_file(program).unwrap();
    }
    house.create(&pod("again", "node-1"));
    house.phase("again", "Succeeded");
    assert_eq!(house.log("again"), "hello\n");
}
