//! Rules of spec/downward-api.md: the printed policy, applied and taken back with kubectl (R59).

use std::process::Command;

use tenure_client_tests::server;

use super::Kubectl;

/// A pod that reads its owner references.
fn reader(name: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - name: c
    image: example.com/app:v1
    env:
    - name: OWNERS
      valueFrom: {{fieldRef: {{fieldPath: metadata.ownerReferences}}}}
"
    )
}

#[test]
fn r59_the_printed_policy_holds_where_it_is_bound_and_until_it_is_deleted() {
    let kubectl = Kubectl::start();
    let printed = Command::new(server::binary().unwrap())
        .args(["policy", "owner-references"])
        .output()
        .unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    // The label of the printed binding forbids it here without any policy, so it is another one.
    let own = printed.replace(
        "        downward.tenure.dev/owner-references: forbid",
        "        example.com/bound: 'yes'",
    );
    assert_ne!(own, printed);
    let made = kubectl.feed(&["apply", "--filename", "-"], &own);
    assert_eq!(made.lines().count(), 2, "{made}");
    for namespace in ["bound", "free"] {
        kubectl.ok(&["create", "namespace", namespace]);
    }
    kubectl.ok(&["label", "namespace", "bound", "example.com/bound=yes"]);
    let create = |namespace: &'static str| ["create", "--namespace", namespace, "--filename", "-"];
    let (_, said) = kubectl.feed_until(&create("bound"), &reader("a"), 1);
    let expected = "is forbidden: ValidatingAdmissionPolicy 'downward-owner-references.tenure.dev' \
                    with binding 'downward-owner-references.tenure.dev' denied request: pods may not \
                    read their owner references in this namespace";
    assert!(said.contains(expected), "{said}");
    assert_eq!(kubectl.feed(&create("free"), &reader("a")), "pod/a created\n");

    // A label that goes, or a policy that goes, is felt by the next request.
    kubectl.ok(&["label", "namespace", "bound", "example.com/bound-"]);
    assert_eq!(kubectl.feed(&create("bound"), &reader("a")), "pod/a created\n");
    kubectl.ok(&["label", "namespace", "bound", "example.com/bound=yes"]);
    kubectl.feed_until(&create("bound"), &reader("b"), 1);
    kubectl.feed(&["delete", "--filename", "-"], &own);
    assert_eq!(kubectl.feed(&create("bound"), &reader("b")), "pod/b created\n");
}
