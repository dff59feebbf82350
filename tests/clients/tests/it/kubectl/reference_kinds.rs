//! Rules of spec/referential-authorization.md: the three kinds as kubectl shows and writes them, and what a service
//! account reads by them.

use super::runner::rows;
use super::{Documented, Kubectl};

/// The documents of the group as the seed prints them.
const SEED: &str = include_str!("../../../../../crates/server/tests/it/reference/seed.yaml");

const GATEWAYS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: gateways.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: unapproved}
spec:
  group: gateway.networking.k8s.io
  scope: Namespaced
  names: {kind: Gateway, plural: gateways, singular: gateway, shortNames: [gtw]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              gatewayClassName: {type: string}
              listeners:
                type: array
                items:
                  type: object
                  properties:
                    name: {type: string}
                    tls:
                      type: object
                      properties:
                        certificateRefs:
                          type: array
                          items:
                            type: object
                            properties:
                              group: {type: string, default: ''}
                              kind: {type: string, default: Secret}
                              name: {type: string}
                              namespace: {type: string}
";

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: prod}
spec:
  gatewayClassName: contour
  listeners:
  - name: https
    tls: {certificateRefs: [{name: local}, {name: acme-tls, namespace: prod-tls}]}
";

const CONTOUR: &str = "--as=system:serviceaccount:contour-system:contour";

fn town() -> Kubectl {
    let kubectl = Kubectl::start();
    for namespace in ["prod", "prod-tls", "contour-system"] {
        kubectl.ok(&["create", "namespace", namespace]);
    }
    kubectl
}

impl Kubectl {
    fn contour_may(&self, verb: &str, what: &str, namespace: &str) -> bool {
        let arguments = ["auth", "can-i", verb, what, CONTOUR, "--namespace", namespace];
        let output = self.command(&arguments).spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let last = said.lines().last().unwrap_or_default();
        assert!(last == "yes" || last.starts_with("no"), "{arguments:?}: {said}");
        last == "yes"
    }
}

#[test]
fn r5_seed_yaml_verbatim_is_accepted() {
    let kubectl = town();
    let (said, warned) = kubectl.feed_until(&["apply", "--namespace=", "--filename", "-"], SEED, 0);
    assert_eq!(
        said,
        "referencestrategy.reference.authorization.k8s.io/gateways created\n\
         clusterreferenceconsumer.reference.authorization.k8s.io/contour-gateway created\n\
         referencegrant.reference.authorization.k8s.io/prod-gateways created\n\
         referencegrant.reference.authorization.k8s.io/prod-gateways configured\n"
    );
    assert!(warned.contains("the path has an extra `[`"), "{warned}");
    assert!(warned.contains("is not served by this cluster"), "{warned}");
    // The second grant of the seed has the name of the first, and takes back what that gave (R6).
    assert!(warned.contains("this update revokes secrets \"acme-tls\""), "{warned}");
}

#[test]
fn r1_kinds_are_shown_by_their_short_names() {
    let kubectl = town();
    kubectl.feed(&["apply", "--namespace=", "--filename", "-"], SEED);
    let said = kubectl.ok(&["get", "refstrat"]);
    let shown = rows(&said);
    assert_eq!(shown[0], ["NAME", "ORIGIN", "VERSIONS", "REFS", "AGE"]);
    assert_eq!(
        shown[1][..4],
        ["gateways", "gateways.gateway.networking.k8s.io", "v1,v1beta1", "4"]
    );
    let said = kubectl.ok(&["get", "crc"]);
    let shown = rows(&said);
    assert_eq!(shown[0], ["NAME", "SUBJECT", "CLASSES", "REFS", "AGE"]);
    assert_eq!(
        shown[1][..4],
        ["contour-gateway", "ServiceAccount/contour-system/contour", "contour", "3"]
    );
    let said = kubectl.ok(&["get", "rg", "--namespace", "prod-tls"]);
    let shown = rows(&said);
    assert_eq!(shown[0], ["NAME", "ORIGIN", "FROM-NAMESPACE", "TARGET", "NAMES", "PURPOSE", "AGE"]);
    assert_eq!(
        shown[1][2..6],
        ["prod", "configmaps", "aperture-science-ca-cert", "tls-client-validation"]
    );
    kubectl.feed(&["apply", "--namespace=", "--filename", "-"], GATEWAYS);
    let said = kubectl.ok(&["get", "refstrat"]);
    let shown = rows(&said);
    assert_eq!(shown[1][2], "v1*,v1beta1", "the version that is read is marked");
}

#[test]
fn r1_explain_knows_the_fields() {
    let kubectl = Kubectl::start();
    let place = Documented {
        kind: "ReferenceGrant",
        group: "reference.authorization.k8s.io",
        version: "v1alpha1",
    };
    let said = kubectl.explained("referencegrants.target", &place);
    for part in ["names\t<[]string>", "resource\t<string> -required-"] {
        assert!(said.contains(part), "{said}");
    }
    let said = kubectl.ok(&["explain", "refstrat.versions.references", "--recursive"]);
    for part in ["path", "expression", "namespacePath", "allowClusterScopedTarget", "purpose"] {
        assert!(said.contains(part), "{said}");
    }
    let said = kubectl.ok(&["explain", "crc.subject"]);
    assert!(said.contains("namespace\t<string>"), "{said}");
}

#[test]
fn r96_a_service_account_reads_what_its_gateways_refer_to() {
    let kubectl = town();
    kubectl.ok(&["create", "serviceaccount", "contour", "--namespace", "contour-system"]);
    for (namespace, name) in [("prod", "local"), ("prod-tls", "acme-tls"), ("prod-tls", "other")] {
        kubectl.ok(&["create", "secret", "generic", name, "--namespace", namespace]);
    }
    kubectl.feed(&["apply", "--namespace=", "--filename", "-"], GATEWAYS);
    kubectl.ok(&["wait", "--for=condition=Established", "crd/gateways.gateway.networking.k8s.io"]);
    let documents: Vec<&str> = SEED.split("---\n").collect();
    let apply =
        |document: &str| kubectl.feed(&["apply", "--namespace=", "--filename", "-"], document);
    apply(documents[0]);
    apply(documents[1]);
    assert!(!kubectl.contour_may("get", "secrets/local", "prod"), "nothing refers to it");
    apply(GATEWAY);
    assert!(kubectl.contour_may("get", "secrets/local", "prod"));
    assert!(kubectl.contour_may("watch", "secrets/local", "prod"));
    assert!(!kubectl.contour_may("list", "secrets", "prod"));
    assert!(!kubectl.contour_may("delete", "secrets/local", "prod"));
    assert!(!kubectl.contour_may("get", "secrets/acme-tls", "prod-tls"), "there is no grant");
    apply(documents[2]);
    assert!(kubectl.contour_may("get", "secrets/acme-tls", "prod-tls"));
    assert!(!kubectl.contour_may("get", "secrets/other", "prod-tls"));
    let read =
        ["get", "secret", "acme-tls", "--namespace", "prod-tls", CONTOUR, "--output", "name"];
    assert_eq!(kubectl.ok(&read), "secret/acme-tls\n");
    let by_selector = [
        "get",
        "secrets",
        "--field-selector",
        "metadata.name=acme-tls",
        "--namespace",
        "prod-tls",
        CONTOUR,
        "--output",
        "name",
    ];
    assert_eq!(kubectl.ok(&by_selector), "secret/acme-tls\n");
    let listed = kubectl.ok(&["auth", "can-i", "--list", CONTOUR, "--namespace", "prod-tls"]);
    assert!(listed.contains("[acme-tls]"), "{listed}");
    kubectl.ok(&["delete", "rg", "prod-gateways", "--namespace", "prod-tls"]);
    assert!(!kubectl.contour_may("get", "secrets/acme-tls", "prod-tls"), "the grant is gone");
    let refused = kubectl.fails(&read);
    assert!(refused.contains("no live reference for you leads there"), "{refused}");
}
