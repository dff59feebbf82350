//! A real containerd behind a node: images, ids, what happens when it goes away. Rules of
//! spec/downward-api.md; what every runtime does is in the other files.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::house::{House, On};

fn pod(house: &House, name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "c", "image": house.image(), "command": ["sh", "-c", script]}],
        },
    })
}

#[test]
fn r97_a_container_has_the_id_and_the_image_of_the_runtime() {
    let Some(house) = House::open(On::Cri, &[]) else { return };
    house.create(&pod(&house, "p", "echo hello; sleep 1000"));
    house.phase("p", "Running");
    let status = &house.get("pod/p")["status"]["containerStatuses"][0];
    let text = |key: &str| status[key].as_str().unwrap().to_owned();
    assert!(text("containerID").starts_with("containerd://"), "{status}");
    assert_eq!(text("image"), "localhost/busybox:1");
    assert!(text("imageID").contains("sha256:"), "{status}");
    assert_eq!(house.log_with("p", "hello"), "hello\n");
    let version = house.kubectl.ok(&[
        "get",
        "nodes",
        "--output",
        "jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}",
    ]);
    assert!(version.starts_with("containerd://1."), "{version}");
}

#[test]
fn r97_an_image_that_does_not_exist_is_waited_for() {
    let Some(house) = House::open(On::Cri, &[]) else { return };
    let waiting = |name: &str, image: &str, policy: &str, reasons: &[&str]| {
        let mut pod = pod(&house, name, "true");
        pod["spec"]["containers"][0]["image"] = json!(image);
        pod["spec"]["containers"][0]["imagePullPolicy"] = json!(policy);
        house.create(&pod);
        let path = ".status.containerStatuses[0].state.waiting.reason";
        let look = || house.kubectl.value(&format!("pod/{name}"), path);
        house.until(name, look, |reason| reasons.contains(&reason.as_str()));
        house.phase(name, "Pending");
    };
    waiting("never", "localhost/none:1", "Never", &["ErrImageNeverPull"]);
    waiting("pull", "localhost/none:1", "IfNotPresent", &["ErrImagePull", "ImagePullBackOff"]);
    waiting("name", "localhost/Not-A-Name:1", "Never", &["InvalidImageName"]);
}

#[test]
fn r106_a_container_that_ignores_term_is_gone_after_its_grace() {
    let Some(house) = House::open(On::Cri, &[]) else { return };
    house.create(&pod(&house, "p", "trap '' TERM; echo ready; while :; do sleep 1; done"));
    house.log_with("p", "ready");
    let begin = Instant::now();
    house.kubectl.ok(&["delete", "pod", "p"]);
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(2) && took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn r150_a_runtime_that_goes_away_and_comes_back_loses_no_pod() {
    let Some(mut house) = House::open(On::Cri, &[]) else { return };
    house.create(&pod(&house, "stays", "while :; do sleep 1; done"));
    let mut ends = pod(&house, "ends", "sleep 4; exit 3");
    ends["spec"]["restartPolicy"] = json!("Never");
    house.create(&ends);
    house.phase("stays", "Running");
    house.phase("ends", "Running");
    let id = house.kubectl.value("pod/stays", ".status.containerStatuses[0].containerID");

    house.containerd().kill();
    std::thread::sleep(Duration::from_secs(6));
    // Nobody says that a pod has ended only because nobody can be asked.
    assert_eq!(house.kubectl.value("pod/stays", ".status.phase"), "Running");
    house.create(&pod(&house, "later", "while :; do sleep 1; done"));
    house.containerd().resume().unwrap();

    house.phase("ends", "Failed");
    let code = ".status.containerStatuses[0].state.terminated.exitCode";
    assert_eq!(house.kubectl.value("pod/ends", code), "3");
    house.phase("later", "Running");
    let status = &house.get("pod/stays")["status"]["containerStatuses"][0];
    assert_eq!(status["containerID"].as_str(), Some(&*id));
    assert_eq!(status["restartCount"], json!(0));
    assert_eq!(house.exec("stays", &["echo", "here"]), "here\n");
}
