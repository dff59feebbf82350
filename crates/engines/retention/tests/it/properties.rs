//! Rules of spec/retention.md, section 11: the invariants I2, I3, I4 and I7 for any facts.

use proptest::prelude::*;
use tenure_retention::*;

use crate::words::*;

const NAMES: [&str; 3] = ["a", "b", "c"];
const UIDS: [&str; 6] = ["u0", "u1", "u2", "u3", "u4", "u5"];

/// One fact.
#[derive(Clone, Debug)]
enum Fact {
    User { uid: usize, mentions: u8, terminating: bool, controller: Option<usize> },
    Subject { name: usize, opted_in: bool, owners: Vec<(usize, bool)> },
}

fn kind(uid: usize) -> UserKind {
    let kinds = [
        UserKind::ReplicaSet,
        UserKind::ReplicationController,
        UserKind::ControllerRevision,
        UserKind::Deployment,
        UserKind::Pod,
        UserKind::Pod,
    ];
    kinds[uid]
}

fn fact() -> impl Strategy<Value = Fact> {
    let user = (0..6usize, 0..8u8, prop::bool::weighted(0.2), prop::option::of(0..3usize));
    let owners = prop::collection::btree_map(0..8usize, any::<bool>(), 0..5);
    let subject = (0..3usize, prop::bool::weighted(0.8), owners);
    prop_oneof![
        user.prop_map(|(uid, mentions, terminating, controller)| {
            Fact::User { uid, mentions, terminating, controller }
        }),
        subject.prop_map(|(name, opted_in, owners)| {
            Fact::Subject { name, opted_in, owners: owners.into_iter().collect() }
        }),
    ]
}

fn uid(number: usize) -> String {
    UIDS.get(number).map_or_else(|| format!("dead{number}"), |uid| (*uid).to_owned())
}

fn tell(desk: &mut Desk, fact: &Fact) {
    match fact {
        Fact::User { uid, mentions, terminating, controller } => {
            let refs: Vec<&str> =
                (0..3).filter(|bit| mentions & (1 << bit) != 0).map(|bit| NAMES[bit]).collect();
            let pod = kind(*uid) == UserKind::Pod;
            let controller = controller.filter(|_| pod).map(|uid| UIDS[uid]);
            let user = RetentionUser { terminating: *terminating, controller, ..plain() };
            desk.user_as(kind(*uid), UIDS[*uid], &refs, user);
        }
        Fact::Subject { name, opted_in: opted, owners } => {
            let uids: Vec<String> = owners
                .iter()
                .map(|(owner, managed)| match managed {
                    true => uid(*owner),
                    false => format!("!{}", uid(*owner)),
                })
                .collect();
            let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
            let own = format!("uid-{}", NAMES[*name]);
            desk.subject_as(
                NAMES[*name],
                &uids,
                RetentionSubject { uid: &own, opted_in: *opted, ..opted_in() },
            );
        }
    }
}

/// The last fact about each, which is all that counts.
fn last(facts: &[Fact]) -> Vec<Fact> {
    let same = |one: &Fact, two: &Fact| match (one, two) {
        (Fact::User { uid: one, .. }, Fact::User { uid: two, .. }) => one == two,
        (Fact::Subject { name: one, .. }, Fact::Subject { name: two, .. }) => one == two,
        _ => false,
    };
    let newest =
        |(at, fact): &(usize, &Fact)| !facts[at + 1..].iter().any(|later| same(fact, later));
    facts.iter().enumerate().filter(newest).map(|(_, fact)| fact.clone()).collect()
}

proptest! {
    #[test]
    fn r1_r29_r31_only_what_opted_in_is_written_and_only_what_was_added_goes(
        facts in prop::collection::vec(fact(), 0..16)
    ) {
        let mut desk = Desk::new();
        facts.iter().for_each(|fact| tell(&mut desk, fact));
        let subject = |at: &SubjectKey| last(&facts).into_iter().find_map(|fact| match fact {
            Fact::Subject { name, opted_in, owners } if NAMES[name] == &*at.name => {
                Some((opted_in, owners))
            }
            _ => None,
        });
        for intent in desk.intents() {
            match intent {
                RetentionIntent::Edit { key, add, remove, .. } => {
                    let (opted, owners) = subject(&key).unwrap();
                    prop_assert!(opted, "I2");
                    let managed: Vec<String> =
                        owners.iter().filter(|(_, managed)| *managed).map(|(o, _)| uid(*o)).collect();
                    prop_assert!(remove.iter().all(|uid| managed.iter().any(|m| **m == **uid)), "I3");
                    prop_assert!(owners.len() + add.len() > remove.len(), "I4");
                    let has = |named: &SubjectHolder| owners.iter().any(|(o, _)| uid(*o) == *named.uid);
                    prop_assert!(!add.iter().any(has), "added twice");
                    prop_assert!(add.iter().all(|named| named.kind.is_holder()));
                }
                RetentionIntent::Delete { key, .. } => {
                    prop_assert!(subject(&key).unwrap().0, "I2");
                    let bit = NAMES.iter().position(|name| *name == &*key.name).unwrap();
                    let needs = |fact: &Fact| matches!(fact,
                        Fact::User { uid, mentions, terminating, .. }
                            if mentions & (1 << bit) != 0
                                && (kind(*uid) == UserKind::Pod || !terminating));
                    prop_assert!(!last(&facts).iter().any(needs), "I1");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn r68_a_plan_depends_on_what_is_and_not_on_how_it_was_told(
        (facts, shuffled) in prop::collection::vec(fact(), 0..16).prop_flat_map(|facts| {
            let shuffled = Just(last(&facts)).prop_shuffle();
            (Just(facts), shuffled)
        })
    ) {
        let (mut one, mut two) = (Desk::new(), Desk::new());
        facts.iter().for_each(|fact| tell(&mut one, fact));
        shuffled.iter().for_each(|fact| tell(&mut two, fact));
        let writes = |desk: &mut Desk| -> Vec<String> {
            let said = desk.plan().into_iter();
            said.filter(|said| said.starts_with("edit") || said.starts_with("delete")).collect()
        };
        prop_assert_eq!(writes(&mut one), writes(&mut two), "I7");
        prop_assert_eq!(one.engine.states(), two.engine.states());
    }
}
