//! Bundled strategies and the migration of grants, without a cluster. Rules of
//! spec/referential-authorization.md.

use std::fs;

use crate::process::run;

#[test]
fn r160_strategies_are_listed_and_printed_with_their_notes() {
    let list = run(&["access", "strategies", "list"]);
    assert_eq!((list.code, list.stderr.as_str()), (Some(0), ""));
    let first = "\
gateway-api: Gateways, ListenerSets, routes and BackendTLSPolicies
  gateways.gateway.networking.k8s.io: configmaps for parameters, configmaps for tls-client-validation, \
secrets for tls-client-certificate, secrets for tls-client-validation, secrets for tls-serving
  listenersets.gateway.networking.k8s.io (with --allow-unpartitioned): secrets for tls-serving
";
    assert!(list.stdout.starts_with(first), "{}", list.stdout);
    let print = run(&["access", "strategies", "print", "--for", "ingress,flux"]);
    assert_eq!(print.code, Some(0));
    assert!(print.stdout.starts_with("# References of Ingresses.\n"), "{}", print.stdout);
    assert!(print.stdout.contains("kind: ReferenceStrategy\n"));
    assert!(print.stdout.contains("---\n# References of Flux.\n"));
    let unknown = run(&["access", "strategies", "print", "--for", "nonsense"]);
    assert_eq!(unknown.code, Some(1));
    let said = "error: there is no bundle `nonsense`\n  hint: there are: gateway-api, ingress, \
                ingress-nginx-annotations, volumes, cert-manager, flux\n";
    assert_eq!(unknown.stderr, said);
}

/// The two grants that KEP-3766 shows as existing usage, word for word.
const GRANTS: &str = "\
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata:
  name: allow-prod-pvc
  namespace: prod
spec:
  origin:
  - kind: PersistentVolumeClaim
    namespace: dev
  target:
  - group: snapshot.storage.k8s.io
    kind: VolumeSnapshot
    name: new-snapshot-demo
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata:
  name: allow-baz-httproutes
  namespace: quux
spec:
  origin:
  - group: gateway.networking.k8s.io
    kind: HTTPRoute
    namespace: baz
  target:
  - group: \"\"
    kind: Service
";

#[test]
fn m1_m4_grants_in_a_file_are_converted_and_the_rest_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grants.yaml");
    fs::write(&file, GRANTS).unwrap();
    let ended = run(&["migrate", "reference-grants", "-f", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    for line in [
        "  name: allow-prod-pvc-persistentvolumeclaims-volumesnapshots\n",
        "  namespace: prod\n",
        "  - new-snapshot-demo\n",
        "purpose: data-source\n",
    ] {
        assert!(ended.stdout.contains(line), "no {line} in {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("httproutes"), "{}", ended.stdout);
    for line in [
        "prod/allow-prod-pvc: warning: spec.target[0]: no strategy in force",
        "quux/allow-baz-httproutes: error: spec.target[0]: it means every name",
        "quux/allow-baz-httproutes: note: spec.target[0]: a grant to a Service",
    ] {
        assert!(ended.stderr.contains(line), "no {line} in {}", ended.stderr);
    }
}

#[test]
fn m1_a_source_must_be_named_and_readable() {
    let ended = run(&["migrate", "reference-grants"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("with `--file`") && ended.stderr.contains("with `--cluster`"));
    for words in ["--follow", "--follow --cluster", "--follow --write", "--follow --write -f x"] {
        let words = ["migrate", "reference-grants"].into_iter().chain(words.split(' '));
        let ended = run(&words.collect::<Vec<_>>());
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains("needs `--cluster` and `--write`"), "{}", ended.stderr);
    }
    let ended = run(&["migrate", "reference-grants", "-f", "/nonexistent"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.starts_with("error: `/nonexistent` cannot be read\n  cause: "));
}
