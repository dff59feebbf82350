//! Rules of spec/attach.md: what is said of clusters of several sorts.

use std::collections::BTreeSet;

use super::*;

fn modern() -> ClusterFacts {
    let served =
        ["mutatingadmissionpolicies", "validatingadmissionpolicies", "customresourcedefinitions"];
    ClusterFacts {
        says: "v1.36.2".into(),
        version: "v1.36.2".parse().ok(),
        served: served.into_iter().map(str::to_owned).collect(),
        native_path: Some(false),
        ..ClusterFacts::default()
    }
}

#[test]
fn a82_a_cluster_of_today() {
    let report = judge(&modern());
    assert!(report.is_well());
    assert_eq!(
        report.to_string(),
        "\
server: v1.36.2
downward: works
  next: tenure doctor --try downward && tenure install downward | kubectl apply -f -
access: works
  - revocation: within 2 s; watches that are open stay open
  next: tenure install access --consumer NAME | kubectl apply --server-side -f -
access --mode webhook: perhaps
  - you need the flags of the server, which cannot be seen from here
  - revocation: within 1 s; watches that are open stay open
  next: tenure install access --mode webhook --authorization-config --user NAME
"
    );
}

#[test]
fn a82_an_older_cluster() {
    let facts = ClusterFacts {
        says: "v1.29.4-eks".into(),
        version: "v1.29.4-eks".parse().ok(),
        served: BTreeSet::from(["customresourcedefinitions".to_owned()]),
        ..modern()
    };
    let report = judge(&facts);
    assert!(!report.is_well());
    assert_eq!(
        report.to_string(),
        "\
server: v1.29.4-eks
downward: does not work
  - the server is of 1.29; MutatingAdmissionPolicy needs 1.36
  - the server does not serve mutatingadmissionpolicies
  - the server does not serve validatingadmissionpolicies
access: does not work
  - the server is of 1.29; ValidatingAdmissionPolicy needs 1.30
  - the server does not serve validatingadmissionpolicies
  - revocation: within 2 s; watches that are open stay open
access --mode webhook: does not work
  - the server is of 1.29; match conditions of authorization webhooks needs 1.32
  - you need the flags of the server, which cannot be seen from here
  - revocation: within 5 s, what the server remembers; watches that are open stay open
"
    );
}

#[test]
fn a82_a_cluster_without_such_policies_though_it_is_new() {
    let mut facts = modern();
    facts.served.remove("mutatingadmissionpolicies");
    let report = judge(&facts);
    let downward = &report.findings[0];
    assert_eq!(downward.verdict, DoctorVerdict::No);
    assert_eq!(downward.reasons, ["the server does not serve mutatingadmissionpolicies"]);
    assert_eq!(report.findings[1].verdict, DoctorVerdict::Works);
}

#[test]
fn a82_a_cluster_where_one_may_do_little() {
    let denied = vec![
        ("downward".to_owned(), "create mutatingadmissionpolicies".to_owned()),
        ("access".to_owned(), "escalate clusterroles".to_owned()),
    ];
    let facts =
        ClusterFacts { denied, native_path: None, authorization_config: Some(false), ..modern() };
    assert_eq!(
        judge(&facts).to_string(),
        "\
server: v1.36.2
downward: perhaps
  - you may not create mutatingadmissionpolicies
  next: tenure doctor --try downward && tenure install downward | kubectl apply -f -
access: perhaps
  - you may not escalate clusterroles
  - revocation: within 2 s; watches that are open stay open
  next: tenure install access --consumer NAME | kubectl apply --server-side -f -
access --mode webhook: perhaps
  - the server follows no --authorization-config: you need its flags
  - revocation: within 1 s; watches that are open stay open
  next: tenure install access --mode webhook --authorization-config --user NAME
"
    );
}

#[test]
fn a58_a_server_that_knows_the_path_needs_nothing_and_what_is_installed_can_go() {
    let installed = vec![InstalledFeature { feature: "downward".into(), version: "0.1.0".into() }];
    let facts = ClusterFacts { native_path: Some(true), native_kinds: true, installed, ..modern() };
    let report = judge(&facts);
    let ours = env!("CARGO_PKG_VERSION");
    let [downward, access, _] = report.findings.as_slice() else { panic!("{report}") };
    assert_eq!(
        (downward.verdict, access.verdict),
        (DoctorVerdict::BuiltIn, DoctorVerdict::BuiltIn)
    );
    assert_eq!(downward.next.as_deref(), Some("tenure uninstall downward"));
    let stale = format!("installed by 0.1.0; this is {ours}: install it again to change it");
    assert_eq!(
        downward.reasons,
        ["the server takes `metadata.ownerReferences` itself".to_owned(), stale]
    );
}
