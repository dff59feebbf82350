//! Rules of spec/referential-authorization.md: strategies that are prepared before they are stored, and cleared away
//! after they are gone (R174).

use serde_json::json;
use tenure_reference::{Index, IndexEvent, Need, Obj, Origin, OriginName, Outputs, Strategy};
use tenure_sim::random::Random;
use tenure_sim::reference::{ORIGINS, ReferenceSimulation, SimulatedChange};

use crate::house::*;

/// The story, with a strategy over three Gateways, and a host that clears away beside events.
fn story() -> House {
    let mut house = House::new();
    house.index = std::mem::replace(&mut house.index, Index::new(0)).with_background_clearing();
    house.strategy("gateways", "gateways", Some(".spec.gatewayClassName"), SEED_PATH);
    house.consumer("contour-gateway", CONTOUR, &["contour"], "gateways");
    for name in ["a", "b", "c"] {
        house.gateway("prod", name, "contour", &[(name, ""), ("shared", "")]);
    }
    house
}

fn edited(path: &str) -> Strategy {
    let object = json!({
        "metadata": { "name": "gateways" },
        "origin": { "group": GATEWAYS, "resource": "gateways" },
        "versions": [{
            "version": "v1", "classPath": ".spec.gatewayClassName",
            "references": [secret_path(path)],
        }],
    });
    Strategy::from_object(object.as_object().unwrap()).unwrap()
}

/// Tells every Gateway at the version that is asked for.
fn feed(house: &mut House, needs: &[Need]) {
    let mut out = Outputs::default();
    for need in needs {
        let Need::Feed(resource, version) = need else { continue };
        for (kind, at, namespace, name, object) in &house.origins {
            if *kind == resource.resource && *at == version {
                let name = OriginName { group: &resource.group, resource: kind, namespace, name };
                let origin = Origin { name, version, object };
                house.index.apply(IndexEvent::PutOrigin(origin), &mut out);
            }
        }
    }
    assert!(out.transitions.is_empty(), "it has no effect yet");
}

#[test]
fn r174_r122_a_strategy_that_goes_is_out_of_force_before_anything_is_cleared_away() {
    let mut house = story();
    assert!(house.may("prod", "a") && house.may("prod", "shared"));
    let before = house.index.stats();
    house.out = Outputs::default();
    house.tell(IndexEvent::DropStrategy("gateways"));
    let after = house.index.stats();
    assert_eq!((before.origins, before.edges), (after.origins, after.edges));
    assert!(!house.may("prod", "a") && !house.may("prod", "shared"));
    // Whoever follows is told of the subject, and what stands there still is no reference to anybody.
    assert_eq!(house.out.subjects, [(false, CONTOUR.into())]);
    let secret = Obj { group: "", resource: "secrets", namespace: "prod", name: "a" };
    assert!(house.index.who_can(&secret).is_empty());
    assert!(!house.check(("prod", "a"), ("prod", "a")).is_allowed());
    assert!(house.index.edge_states().values().all(|state| state.live == 0));
    // Deletions are told until nothing is left.
    assert!(house.out.needs.is_empty());
    let mut out = Outputs::default();
    assert!(house.index.has_to_clear() && house.index.clear_away(1, &mut out));
    assert_eq!(house.index.stats().origins, 2);
    house.drop_origin("gateways", "prod", "c");
    while house.index.clear_away(1, &mut out) {}
    house.index.publish();
    let stats = house.index.stats();
    assert_eq!((stats.origins, stats.edges, stats.targets), (0, 0, 0));
    assert!(out.needs.iter().all(|need| matches!(need, Need::Stop(..))) && !out.needs.is_empty());
    assert!(!house.index.has_to_clear() && out.transitions.is_empty());
}

#[test]
fn r174_what_is_prepared_has_no_effect_until_it_is_stored_and_then_at_once() {
    let mut house = story();
    let strategy = edited(".spec.listeners[0].tls.certificateRefs[*].name");
    let mut out = Outputs::default();
    house.index.prepare(&strategy, &mut out);
    feed(&mut house, &out.needs.clone());
    house.gateway("prod", "d", "contour", &[("d", ""), ("second", "")]);
    assert!(house.may("prod", "d") && house.may("prod", "second") && house.may("prod", "shared"));
    house.index.prepared();
    assert!(house.may("prod", "shared"));
    // What both forms find stays, and what only the old one found is gone, with one event.
    house.out = Outputs::default();
    house.tell(IndexEvent::PutStrategy(strategy.clone()));
    assert!(house.out.needs.iter().all(|need| matches!(need, Need::Stop(..))));
    for name in ["a", "b", "c", "d"] {
        assert!(house.may("prod", name), "{name}");
    }
    assert!(!house.may("prod", "shared") && !house.may("prod", "second"));
    while house.index.clear_away(1, &mut out) {}
    assert!(house.may("prod", "a") && !house.may("prod", "shared"));
    assert_eq!(house.index.stats().edges, 4);
    // The same again has nothing to prepare.
    let mut out = Outputs::default();
    house.index.prepare(&strategy, &mut out);
    assert!(out.needs.is_empty());
}

#[test]
fn r174_what_is_given_up_leaves_nothing() {
    let mut house = story();
    let before = house.index.stats();
    let mut out = Outputs::default();
    house.index.prepare(&edited("$.spec.other"), &mut out);
    house.index.prepare(&edited(".spec.listeners[0].tls.certificateRefs[*].name"), &mut out);
    feed(&mut house, &out.needs.clone());
    house.index.abandon(&mut out);
    assert!(house.may("prod", "a") && house.may("prod", "shared"));
    while house.index.clear_away(1, &mut out) {}
    house.index.publish();
    let after = house.index.stats();
    assert_eq!(
        (before.origins, before.edges, before.targets),
        (after.origins, after.edges, after.targets)
    );
    // Before it was told to the end, it is told when it is stored.
    let strategy = edited("$.spec.other");
    let mut out = Outputs::default();
    house.index.prepare(&strategy, &mut out);
    out.needs.clear();
    house.index.apply(IndexEvent::PutStrategy(strategy), &mut out);
    assert!(out.needs.iter().any(|need| matches!(need, Need::Feed(..))));
}

/// A strategy that waits to be stored, and what it was not told yet.
struct Waiting {
    change: SimulatedChange,
    left: Vec<(usize, String, String, String)>,
}

fn prepare(run: &mut ReferenceSimulation, change: SimulatedChange) -> Option<Waiting> {
    let SimulatedChange::PutStrategy(plan) = &change else { return None };
    let mut out = Outputs::default();
    run.index.prepare(&plan.strategy(), &mut out);
    let mut left = Vec::new();
    for need in out.needs {
        let Need::Feed(resource, version) = need else { continue };
        let kind = ORIGINS.iter().position(|row| *row.1 == *resource.resource)?;
        let all = run.truth.names_of(kind).into_iter();
        left.extend(all.map(|(namespace, name)| (kind, namespace, name, version.clone())));
    }
    Some(Waiting { change, left })
}

fn feed_one(
    run: &mut ReferenceSimulation,
    (kind, namespace, name, version): &(usize, String, String, String),
) {
    let Some(object) = run.truth.object(*kind, namespace, name, version) else { return };
    let (group, resource) = ORIGINS[*kind];
    let name = OriginName { group, resource, namespace, name };
    let origin = Origin { name, version, object: &object };
    run.index.apply(IndexEvent::PutOrigin(origin), &mut Outputs::default());
}

/// How many strategies were prepared to the end.
fn try_beside(seed: u64, steps: usize) -> usize {
    let (mut random, mut run) = (Random::new(seed), ReferenceSimulation::new(seed));
    run.index = std::mem::replace(&mut run.index, Index::new(0)).with_background_clearing();
    let (mut waiting, mut stored): (Option<Waiting>, usize) = (None, 0);
    for step in 0..steps {
        let out = &mut Outputs::default();
        let change = SimulatedChange::random(&mut random, &run.truth);
        let is_strategy = matches!(change, SimulatedChange::PutStrategy(_));
        if is_strategy && waiting.is_none() && random.once_in(2) {
            waiting = prepare(&mut run, change);
        } else {
            run.apply(&change);
        }
        if let Some(mut held) = waiting.take() {
            for _ in 0..random.below(4) {
                held.left.pop().iter().for_each(|one| feed_one(&mut run, one));
            }
            if held.left.is_empty() {
                run.index.prepared();
                run.apply(&held.change);
                run.index.abandon(out);
                stored += 1;
            } else if random.once_in(12) {
                run.index.abandon(out);
            } else {
                waiting = Some(held);
            }
        }
        if random.once_in(2) {
            run.index.clear_away(1 + random.below(3), out);
        }
        run.view = run.index.publish();
        assert_eq!(run.allowed(), run.truth.allowed(), "seed {seed}, step {step}");
    }
    let out = &mut Outputs::default();
    run.index.abandon(out);
    for change in run.truth.removals() {
        run.apply(&change);
    }
    while run.index.clear_away(3, out) {}
    run.index.publish();
    let stats = run.index.stats();
    assert_eq!((stats.targets, stats.edges, stats.origins), (0, 0, 0), "seed {seed}");
    stored
}

#[test]
fn r62_r174_prepared_stored_and_cleared_equals_the_model_at_every_step() {
    let stored: usize = (7_000..7_024).map(|seed| try_beside(seed, 100)).sum();
    assert!(stored > 50, "{stored}");
}
