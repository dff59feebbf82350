//! Rules of spec/retention.md, section 6 (R26, R31, R50): the state table, cell by cell.

use tenure_retention::*;

use crate::words::*;

/// A subject in a state: `t` is a holder that lives, `d` one that is dead, `p` a pod that uses it.
fn desk(state: State) -> Desk {
    let mut desk = Desk::new();
    let owners: &[&str] = match state {
        State::S1 => &[],
        State::S2 => &["t"],
        State::S3 => &["t", "d"],
        State::S4 | State::S5 => &["d"],
        State::S6 => &["t"],
    };
    if matches!(state, State::S2 | State::S3 | State::S6) {
        desk.set("t", &["a"]);
    }
    if state == State::S5 {
        desk.pod("p", None, &["a"]);
    }
    let terminating = state == State::S6;
    desk.subject_as("a", owners, Subject { uid: "uid-a", terminating, ..opted_in() });
    desk.plan();
    assert_eq!(now(&desk), Some(state));
    desk
}

fn now(desk: &Desk) -> Option<State> {
    let all = [State::S1, State::S2, State::S3, State::S4, State::S5, State::S6];
    let at = desk.engine.states().iter().position(|count| *count == 1)?;
    Some(all[at])
}

const OWNED: [State; 5] = [State::S1, State::S2, State::S3, State::S4, State::S5];

#[test]
fn r30_a_holder_that_references_it_appears() {
    for state in OWNED {
        let mut desk = desk(state);
        desk.set("h", &["a"]);
        assert_eq!(desk.plan(), ["edit a +h"], "{state:?}");
        let (owners, then): (&[&str], State) = match state {
            State::S1 => (&["h"], State::S2),
            State::S2 => (&["t", "h"], State::S2),
            State::S3 => (&["t", "d", "h"], State::S3),
            _ => (&["d", "h"], State::S3),
        };
        desk.subject("a", owners);
        assert_eq!(desk.plan(), Vec::<String>::new(), "{state:?}");
        assert_eq!(now(&desk), Some(then), "{state:?}");
    }
}

#[test]
fn r33_a_holder_that_references_it_is_deleted() {
    for (state, pod, then) in [
        (State::S2, false, State::S4),
        (State::S2, true, State::S5),
        (State::S3, false, State::S4),
        (State::S3, true, State::S5),
    ] {
        let mut desk = desk(state);
        if pod {
            desk.pod("q", None, &["a"]);
        }
        desk.gone("t");
        assert_eq!(desk.plan(), Vec::<String>::new(), "{state:?}");
        assert_eq!(now(&desk), Some(then), "{state:?}");
    }
    let mut desk = desk(State::S2);
    desk.set("h", &["a"]);
    desk.subject("a", &["t", "h"]);
    desk.gone("t");
    desk.plan();
    assert_eq!(now(&desk), Some(State::S3), "not the last");
}

#[test]
fn r38_a_holder_is_deleted_and_leaves_it_behind() {
    let mut desk = desk(State::S2);
    desk.going("t", &["a"]);
    desk.subject("a", &[]);
    desk.gone("t");
    assert_eq!(desk.plan(), ["orphaned a"]);
    assert_eq!(now(&desk), Some(State::S1));
}

#[test]
fn r31_a_holder_drops_the_reference() {
    // Its pods still use it.
    for state in [State::S2, State::S3] {
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
    let mut desk = desk(State::S2);
    desk.set("h", &["a"]);
    desk.subject("a", &["t", "h"]);
    desk.set("t", &[]);
    assert_eq!(desk.plan(), ["edit a -t"]);
}

#[test]
fn r50_the_collector_looks() {
    assert_eq!(desk(State::S4).ask("a"), Verdict::Clear);
    assert!(matches!(desk(State::S5).ask("a"), Verdict::Hold { count: 1, .. }));
    let mut waiting = desk(State::S5);
    waiting.ask("a");
    waiting.gone("p");
    assert_eq!(waiting.plan(), ["release uid-a"], "the last use ends");
    assert_eq!(now(&waiting), Some(State::S4));
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
    for state in [State::S2, State::S3] {
        let mut desk = desk(state);
        desk.subject("a", &[]);
        assert_eq!(desk.plan(), ["edit a +t"], "{state:?}");
    }
    let mut desk = desk(State::S4);
    desk.subject("a", &[]);
    assert_eq!(desk.plan(), ["orphaned a"]);
    assert_eq!(now(&desk), Some(State::S1));
}

#[test]
fn r46_one_that_is_going_is_left_alone() {
    let mut desk = desk(State::S6);
    desk.set("h", &["a"]);
    desk.set("t", &[]);
    assert_eq!(desk.plan(), Vec::<String>::new());
}

#[test]
fn r1_one_that_did_not_opt_in_is_in_no_state() {
    let mut desk = Desk::new();
    desk.set("h", &["a"]);
    desk.subject_as("a", &["h"], Subject { uid: "uid-a", opted_in: false, ..opted_in() });
    desk.set("h", &[]);
    assert_eq!(desk.plan(), Vec::<String>::new());
    assert_eq!(now(&desk), None);
    assert_eq!(desk.engine.states(), [0; 6]);
}
