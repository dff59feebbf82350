//! A second network for Services, from its beginning to its end, and addresses that people meddle with.
//! Rules of spec/workload-controllers.md.

use std::time::{Duration, Instant};

use super::Kubectl;

const NETWORK: &str = "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: more}\n\
                       spec: {cidrs: [203.0.113.0/24]}\n";

/// Waits until kubectl prints something that is good.
fn until(kubectl: &Kubectl, arguments: &[&str], good: impl Fn(&str) -> bool) -> String {
    let begin = Instant::now();
    loop {
        let output = kubectl.command(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if good(&said) {
            return said;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{arguments:?}, never: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn sv2_a_network_gives_addresses_and_goes_when_they_are_given_back() {
    let kubectl = Kubectl::start();
    let (_, warned) = kubectl.feed_until(&["create", "--filename", "-"], NETWORK, 0);
    assert_eq!(warned, "");
    kubectl.ok(&["wait", "servicecidr/more", "--for=condition=Ready", "--timeout=20s"]);
    kubectl.ok(&["create", "service", "clusterip", "web", "--tcp=80", "--clusterip=203.0.113.10"]);
    let parent = kubectl.value("ipaddress/203.0.113.10", ".spec.parentRef");
    assert!(parent.contains("\"name\":\"web\""), "{parent}");
    kubectl.ok(&["delete", "servicecidr", "more", "--wait=false"]);
    let reason = ["get", "servicecidr/more", "--output", "jsonpath={.status.conditions[0].reason}"];
    until(&kubectl, &reason, |said| said == "Terminating");
    // What is on its way out gives nothing any more.
    let said = kubectl.fails(&[
        "create",
        "service",
        "clusterip",
        "late",
        "--tcp=80",
        "--clusterip=203.0.113.11",
    ]);
    assert!(said.contains("the provided network does not match the current range"), "{said}");
    kubectl.ok(&["delete", "service", "web"]);
    let left = ["get", "servicecidrs", "--output", "name"];
    until(&kubectl, &left, |said| said.trim() == "servicecidr.networking.k8s.io/kubernetes");
}

#[test]
fn sv3_an_address_that_somebody_deletes_comes_back_to_its_service() {
    let kubectl = Kubectl::start();
    kubectl.ok(&["create", "service", "clusterip", "web", "--tcp=80"]);
    let address = kubectl.value("service/web", ".spec.clusterIP");
    let object = format!("ipaddress/{address}");
    let uid = kubectl.value(&object, ".metadata.uid");
    kubectl.ok(&["delete", &object]);
    let again = ["get", &object, "--output", "jsonpath={.metadata.uid} {.spec.parentRef.name}"];
    let said = until(&kubectl, &again, |said| said.ends_with(" web"));
    assert!(!said.starts_with(&uid), "{said}");
}
