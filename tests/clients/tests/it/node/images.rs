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

/// Puts bytes into a layout, and answers how a manifest names them.
fn blob(layout: &Path, bytes: &[u8], media: &str) -> Value {
    let fresh = layout.join("fresh");
    std::fs::write(&fresh, bytes).unwrap();
    let summed = Command::new("sha256sum").arg(&fresh).output().unwrap();
    let digest = String::from_utf8(summed.stdout).unwrap()[..64].to_owned();
    std::fs::rename(fresh, layout.join("blobs/sha256").join(&digest)).unwrap();
    json!({"mediaType": media, "digest": format!("sha256:{digest}"), "size": bytes.len()})
}

/// Gives the image of a layout a layer of many files below its own, so that unpacking takes a while and the programs
/// come last.
fn weigh(layout: &Path) {
    let files = TempDir::new().unwrap();
    for number in 0..5_000 {
        std::fs::write(files.path().join(format!("file-{number}")), [b'x'; 2_000]).unwrap();
    }
    let packed = Command::new("tar").arg("-cC").arg(files.path()).arg(".").output().unwrap();
    let read =
        |path: PathBuf| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let of = |entry: &Value| {
        let digest = entry["digest"].as_str().unwrap();
        layout.join("blobs").join(digest.replace(':', "/"))
    };
    let mut index = read(layout.join("index.json"));
    let mut manifest = read(of(&index["manifests"][0]));
    while manifest["layers"].is_null() {
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let all = manifest["manifests"].as_array().unwrap();
        let ours = all.iter().find(|entry| entry["platform"]["architecture"] == machine).unwrap();
        manifest = read(of(ours));
    }
    let layer = blob(layout, &packed.stdout, "application/vnd.oci.image.layer.v1.tar");
    let mut config = read(of(&manifest["config"]));
    if let Some(sums) = config["rootfs"]["diff_ids"].as_array_mut() {
        sums.insert(0, layer["digest"].clone());
    }
    let media = manifest["config"]["mediaType"].as_str().unwrap().to_owned();
    manifest["config"] = blob(layout, config.to_string().as_bytes(), &media);
    manifest["layers"].as_array_mut().unwrap().insert(0, layer);
    let media = "application/vnd.oci.image.manifest.v1+json";
    index["manifests"] = json!([blob(layout, manifest.to_string().as_bytes(), media)]);
    std::fs::write(layout.join("index.json"), index.to_string()).unwrap();
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
    weigh(layout.path());
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
    // Nobody found what somebody else was about to unpack or to remove.
    let failed = house.kubectl.ok(&["get", "events", "--field-selector", "reason=Failed"]);
    assert!(failed.trim().is_empty(), "{failed}");
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
