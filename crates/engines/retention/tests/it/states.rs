//! Rules of spec/retention.md, section 6 (R26, R31, R50): the state table, cell by cell.

use tenure_retention::*;

use crate::words::*;

/// A subject in a state: `t` is a holder that lives, `d` one that is dead, `p` a pod that uses it.
fn desk(state: SubjectState) -> Desk {
    let mut desk = Desk::new();
    let owners: &[&str] = match state {
        SubjectState::S1 => &[],
        SubjectState::S2 => &["t"],
        SubjectState::S3 => &["t", "d"],
        SubjectState::S4 | SubjectState::S5 => &["d"],
        SubjectState::S6 => &["t"],
    };
    if matches!(state, SubjectState::S2 | SubjectState::S3 | SubjectState::S6) {
        desk.set("t", &["a"]);
    }
    if state == SubjectState::S5 {
        desk.pod("p", None, &["a"]);
    }
    let terminating = state == SubjectState::S6;
    desk.subject_as("a", owners, RetentionSubject { uid: "uid-a", terminating, ..opted_in() });
    desk.plan();
    assert_eq!(now(&desk), Some(state));
    desk
}

fn now(desk: &Desk) -> Option<SubjectState> {
    let all = [
        SubjectState::S1,
        SubjectState::S2,
        SubjectState::S3,
        SubjectState::S4,
        SubjectState::S5,
        SubjectState::S6,
    ];
    let at = desk.engine.states().iter().position(|count| *count == 1)?;
    Some(all[at])
}

const OWNED: [SubjectState; 5] =
    [SubjectState::S1, SubjectState::S2, SubjectState::S3, SubjectState::S4, SubjectState::S5];

#[test]
fn r30_a_holder_that_references_it_appears() {
    for state in OWNED {
        let mut desk = desk(state);
        desk.set("h", &["a"]);
        assert_eq!(desk.plan(), ["edit a +h"], "{state:?}");
        let (owners, then): (&[&str], SubjectState) = match state {
            SubjectState::S1 => (&["h"], SubjectState::S2),
            SubjectState::S2 => (&["t", "h"], SubjectState::S2),
            SubjectState::S3 => (&["t", "d", "h"], SubjectState::S3),
            _ => (&["d", "h"], SubjectState::S3),
        };
        desk.subject("a", owners);
        assert_eq!(desk.plan(), Vec::<String>::new(), "{state:?}");
        assert_eq!(now(&desk), Some(then), "{state:?}");
    }
}

#[test]
fn r33_a_holder_that_references_it_is_deleted() {
    for (state, pod, then) in [
        (SubjectState::S2, false, SubjectState::S4),
        (SubjectState::S2, true, SubjectState::S5),
        (SubjectState::S3, false, SubjectState::S4),
        (SubjectState::S3, true, SubjectState::S5),
    ] {
        let mut desk = desk(state);
        if pod {
            desk.pod("q", None, &["a"]);
        }
        desk.gone("t");
        assert_eq!(desk.plan(), Vec::<String>::new(), "{state:?}");
        assert_eq!(now(&desk), Some(then), "{state:?}");
    }
    let mut desk = desk(SubjectState::S2);
    desk.set("h", &["a"]);
    desk.subject("a", &["t", "h"]);
    desk.gone("t");
    desk.plan();
    assert_eq!(now(&desk), Some(SubjectState::S3), "not the last");
}

#[test]
fn r38_a_holder_is_deleted_and_leaves_it_behind() {
    let mut desk = desk(SubjectState::S2);
    desk.going("t", &["a"]);
    desk.subject("a", &[]);
    desk.gone("t");
    assert_eq!(desk.plan(), ["orphaned a"]);
    assert_eq!(now(&desk), Some(SubjectState::S1));
}

#[test]
fn r31_a_holder_drops_the_reference() {
    // Its pods still use it.
    for state in [SubjectState::S2, SubjectState::S3] {
        let mut desk = desk(state);
        desk.pod("q", Some("t"), &["a"]);
        desk.set("t", &[]);
        assert_eq!(desk.plan(), Vec::<String>::new(), "{state:?}");
        assert_eq!(now(&desk), Some(state));
        // They end.
        desk.gone("q");
        assert_eq!(desk.plan(), ["delete a"], "{state:?}");
    }
    // Others own it as well.
    let mut desk = desk(SubjectState::S2);
    desk.set("h", &["a"]);
    desk.subject("a", &["t", "h"]);
    desk.set("t", &[]);
    assert_eq!(desk.plan(), ["edit a -t"]);
}

#[test]
fn r50_the_collector_looks() {
    assert_eq!(desk(SubjectState::S4).ask("a"), CollectionVerdict::Clear);
    assert!(matches!(desk(SubjectState::S5).ask("a"), CollectionVerdict::Hold { count: 1, .. }));
    let mut waiting = desk(SubjectState::S5);
    waiting.ask("a");
    waiting.gone("p");
    assert_eq!(waiting.plan(), ["release uid-a"], "the last use ends");
    assert_eq!(now(&waiting), Some(SubjectState::S4));
}

#[test]
fn r40_a_client_deletes_it() {
    for state in OWNED {
        let mut desk = desk(state);
        desk.engine.gone_subject(NAMESPACE, SubjectKind::ConfigMap, "a", "uid-a");
        assert_eq!(desk.plan(), Vec::<String>::new());
        assert_eq!(now(&desk), None, "{state:?}");
    }
}

#[test]
fn r30_a_client_strips_all_owners() {
    for state in [SubjectState::S2, SubjectState::S3] {
        let mut desk = desk(state);
        desk.subject("a", &[]);
        assert_eq!(desk.plan(), ["edit a +t"], "{state:?}");
    }
    let mut desk = desk(SubjectState::S4);
    desk.subject("a", &[]);
    assert_eq!(desk.plan(), ["orphaned a"]);
    assert_eq!(now(&desk), Some(SubjectState::S1));
}

#[test]
fn r46_one_that_is_going_is_left_alone() {
    let mut desk = desk(SubjectState::S6);
    desk.set("h", &["a"]);
    desk.set("t", &[]);
    assert_eq!(desk.plan(), Vec::<String>::new());
}

#[test]
fn r1_one_that_did_not_opt_in_is_in_no_state() {
    let mut desk = Desk::new();
    desk.set("h", &["a"]);
    desk.subject_as("a", &["h"], RetentionSubject { uid: "uid-a", opted_in: false, ..opted_in() });
    desk.set("h", &[]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    assert_eq!(now(&desk), None);
    assert_eq!(desk.engine.states(), [0; 6]);
}
