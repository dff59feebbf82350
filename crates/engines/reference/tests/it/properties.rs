//! Rules of spec/referential-authorization.md, R61 and R62: the index against the obvious model.
//! Many more steps: `cargo xtask sim reference`.

use tenure_reference::Attributes;
use tenure_sim::random::Random;
use tenure_sim::reference::{
    ExpectedAccess, GROUPS, ReferenceSimulation, SimulatedChange, TARGETS, USERS, try_seed,
};

/// The index equals the model after every random change; a rebuild in any order and an emptied index too.
fn seeds(seeds: std::ops::Range<u64>, steps: usize) {
    for seed in seeds {
        if let Err(failure) = try_seed(seed, steps) {
            for change in &failure.trace {
                eprintln!("  {change:?}");
            }
            unreachable!("seed {seed}: {}", failure.what);
        }
    }
}

#[test]
fn r61_any_permutation_of_events_gives_the_same_index() {
    seeds(0..40, 40);
}

#[test]
fn r62_incremental_equals_rebuild() {
    seeds(1_000..1_008, 200);
}

#[test]
fn r111_detached_equals_indexed() {
    seeds(2_000..2_008, 150);
}

#[test]
fn any_permutation_of_events_gives_the_same_index() {
    seeds(3_000..3_020, 40);
}

#[test]
fn incremental_equals_rebuild() {
    seeds(4_000..4_004, 200);
}

#[test]
fn detached_equals_indexed() {
    seeds(5_000..5_004, 150);
}

/// One of them.
fn pick<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len())]
}

/// Whom the truth must name for this request to be allowed: its user, then its groups.
fn rights(asked: &Attributes<'_>, target: usize) -> Vec<ExpectedAccess> {
    let known = |list: &[&'static str], name: &str| list.iter().copied().find(|of| *of == name);
    let place = known(&["", "a", "b", "c"], asked.namespace);
    let name = known(&["s0", "s1", "s2"], asked.name);
    let (Some(place), Some(name)) = (place, name) else { return Vec::new() };
    let user = known(&USERS, asked.user).map(|user| (false, user, target, place, name));
    let groups = asked.groups.iter().filter_map(|group| known(&GROUPS, group));
    user.into_iter().chain(groups.map(|group| (true, group, target, place, name))).collect()
}

#[test]
fn no_sequence_of_changes_lets_anybody_read_what_no_rule_grants() {
    let users = [USERS[0], USERS[1], USERS[2], "stranger", "system:serviceaccount:b:sa", "sa", ""];
    let verbs = ["get", "list", "watch", "delete", "update", "create", "deletecollection", "*", ""];
    let groups = [vec![], vec!["g0".to_owned()], vec!["g1".to_owned(), "g0".to_owned()]];
    let (mut allowed, mut refused) = (0, 0);
    for seed in 6_000..6_040 {
        let (mut random, mut run) = (Random::new(seed), ReferenceSimulation::new(seed));
        for _ in 0..100 {
            let change = SimulatedChange::random(&mut random, &run.truth);
            run.apply(&change);
            let granted: Vec<ExpectedAccess> = run.truth.allowed().into_iter().collect();
            for _ in 0..50 {
                // Something that is granted or could be, and then a word or two of it replaced.
                let target = random.below(TARGETS.len());
                let made_up = (random.once_in(2), "u0", target, "a", "s0");
                let real = granted.get(random.below(granted.len().max(1))).copied();
                let (is_group, subject, target, namespace, name) = real.unwrap_or(made_up);
                let (group, resource, _) = TARGETS[target];
                let mut asked = Attributes {
                    user: if is_group { "" } else { subject },
                    groups: &groups[usize::from(is_group)],
                    verb: pick(&mut random, &["get", "list", "watch"]),
                    group,
                    resource,
                    subresource: "",
                    namespace,
                    name,
                };
                for _ in 0..random.below(3) {
                    match random.below(6) {
                        0 => asked.user = pick(&mut random, &users),
                        1 => asked.groups = &groups[random.below(groups.len())],
                        2 => asked.verb = pick(&mut random, &verbs),
                        3 => asked.subresource = "status",
                        4 => asked.namespace = pick(&mut random, &["a", "b", "c", "", "*", "d"]),
                        _ => asked.name = pick(&mut random, &["s0", "s1", "s2", "", "*", ".."]),
                    }
                }
                let reads = matches!(asked.verb, "get" | "list" | "watch");
                let may = reads
                    && asked.subresource.is_empty()
                    && rights(&asked, target).iter().any(|right| granted.contains(right));
                assert_eq!(run.view.decide(&asked).is_allowed(), may, "seed {seed}: {asked:?}");
                *(if may { &mut allowed } else { &mut refused }) += 1;
            }
        }
    }
    let enough = allowed > 10_000 && refused > 10_000;
    assert!(enough, "{allowed} allowed, {refused} refused: the questions are the wrong ones");
}
