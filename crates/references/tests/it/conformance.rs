//! Every vector of R117, against the library; the names are those of the KEP's test plan and of section 10 of
//! spec/referential-authorization.md.

use std::collections::BTreeSet;

use tenure_references::conformance::{Base, GATED_VECTORS, VECTORS, Vector, run};

fn holds(name: &str) {
    let mut all = VECTORS.iter().chain(GATED_VECTORS);
    let (_, text) = all.find(|(known, _)| *known == name).expect("a vector");
    let vector = Vector::read(text).unwrap();
    assert_eq!(vector.name, name);
    let failures = run(&Base::read().unwrap(), &vector);
    assert!(failures.is_empty(), "{name}: {}\n  {}", vector.about, failures.join("\n  "));
}

macro_rules! vectors {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                holds(stringify!($name));
            }
        )*
        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

vectors! {
    ref_to_missing_namespace
    ref_to_missing_object
    ref_without_grant
    grant_multiple_entries
    grant_for_unserved_kinds
    grants_partially_overlap
    revoke_one_of_overlapping
    grant_without_names
    grants_overlap_with_and_without_names
    ref_not_allowed_by_any_grant
    grant_wrong_origin_namespace
    grant_wrong_origin_group
    grant_wrong_origin_resource
    grant_wrong_target_group
    grant_wrong_target_resource
    grant_wrong_target_name
    grant_in_wrong_namespace
    missing_grant
    grant_names_other_object
    grant_specific_name
    grant_without_names_grants_nothing
    grant_deleted_revokes
    grant_wrong_namespace_or_kind
    one_of_two_backends_permitted
    cross_namespace_without_grant
    listenerset_inherits_nothing
    grant_wrong_purpose
    consumer_wrong_purpose
    class_closed_when_no_classnames
    class_star_is_explicit
    class_unset_needs_empty_string
    namespace_list_never_granted
    cluster_list_never_granted
    subresource_never_granted
    single_name_list_and_watch_granted
    write_verbs_never_granted
    group_subject
    user_subject
    serviceaccount_wrong_namespace
    origin_edit_moves_access
    origin_delete_revokes
    shared_target_two_origins_refcount
    two_gateways_one_granted
    active_version_preferred
    strategy_delete_revokes_all
    consumer_delete_revokes_all
    two_purposes_one_object_each_revoked_alone
    grant_selects_namespaces_by_labels
    grant_empty_selector_means_all
    grant_selects_by_expressions
    consumer_selects_classes_by_controller
}

#[test]
fn r117_every_vector_is_run_and_every_file_is_a_vector() {
    let tested: BTreeSet<&str> = TESTED.iter().copied().collect();
    let all = VECTORS.iter().chain(GATED_VECTORS);
    let known: BTreeSet<&str> = all.map(|(name, _)| *name).collect();
    assert_eq!(tested, known);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/conformance");
    let files = std::fs::read_dir(folder).unwrap();
    let files: BTreeSet<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .filter(|name| name != "base")
        .collect();
    assert_eq!(files, known.iter().map(|name| (*name).to_owned()).collect());
}

#[test]
fn r117_a_vector_that_says_the_opposite_fails() {
    let (_, text) = VECTORS.iter().find(|(name, _)| *name == "grant_specific_name").unwrap();
    for (from, to) in [("\"allowed\": true", "\"allowed\": false"), ("\"Granted\"", "\"Local\"")] {
        let vector = Vector::read(&text.replace(from, to)).unwrap();
        assert!(!run(&Base::read().unwrap(), &vector).is_empty(), "{from}");
    }
}

#[test]
fn d9_d13_a_gated_vector_does_not_hold_without_its_gate() {
    for (name, text) in GATED_VECTORS {
        let mut vector = Vector::read(text).unwrap();
        assert_eq!(vector.gates.len(), 1, "{name}");
        vector.gates.clear();
        assert!(!run(&Base::read().unwrap(), &vector).is_empty(), "{name}");
    }
    assert!(VECTORS.iter().all(|(_, text)| Vector::read(text).unwrap().gates.is_empty()));
}
