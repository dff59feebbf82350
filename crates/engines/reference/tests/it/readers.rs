//! Rules of spec/referential-authorization.md, R175: readers beside the writer, in threads.
//!
//! Both views read one table that the writer changes meanwhile (`slots.rs`): whatever a reader holds must
//! answer what was published with it, for as long as it is held.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;

use tenure_reference::CapabilityView;

use crate::house::*;

const GATEWAYS_MANY: usize = 8;
const NAMES: usize = 240;
const READERS: usize = 2;
/// Each reader looks at so many views at least.
const LOOKS: usize = 60;
const CHANGES: usize = 1_000;

/// A name; those of one number differ from the next in every part, and half are too long for a slot.
fn name(number: usize) -> String {
    match number % 2 {
        0 => format!("{number}-tls-{number}"),
        _ => format!("{number}-a-certificate-with-a-long-name-{number}"),
    }
}

/// What was published: the view, and every name that it allows.
type Published = Mutex<(Arc<CapabilityView>, Arc<BTreeSet<usize>>)>;

fn read(published: &Published, reader: usize, looks: &AtomicUsize, is_over: &AtomicBool) {
    let names: Vec<String> = (0..NAMES).map(name).collect();
    while !is_over.load(Ordering::Relaxed) {
        let (view, allowed) = published.lock().unwrap().clone();
        // Some keep a view for long, and the writer makes another one.
        for _ in 0..=reader * 3 {
            for (number, name) in names.iter().enumerate() {
                let asked = get(CONTOUR, "secrets", "prod", name);
                let expected = allowed.contains(&number);
                assert_eq!(view.decide(&asked).is_allowed(), expected, "{name}");
            }
        }
        let live: BTreeSet<String> = view.live_targets(CONTOUR, &[]).map(|it| it.name).collect();
        assert_eq!(live, allowed.iter().map(|number| name(*number)).collect());
        drop(view);
        looks.fetch_add(1, Ordering::Relaxed);
    }
}

/// Changes gateways until there were enough changes and every reader has looked often enough, or failed.
fn write(house: &mut House, published: &Published, is_enough: impl Fn() -> bool) {
    let mut gateways: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); GATEWAYS_MANY];
    let mut mixed = 7_u64;
    let mut random = |below: usize| {
        mixed = mixed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(mixed >> 33).unwrap() % below
    };
    let mut change = 0;
    while change < CHANGES || !is_enough() {
        // Several events are one change.
        for _ in 0..=random(3) {
            let gateway = random(GATEWAYS_MANY);
            let names: BTreeSet<usize> = (0..random(30)).map(|_| random(NAMES)).collect();
            let texts: Vec<String> = names.iter().copied().map(name).collect();
            let references: Vec<(&str, &str)> =
                texts.iter().map(|name| (name.as_str(), "")).collect();
            house.gateway("prod", &format!("web-{gateway}"), "contour", &references);
            house.out.transitions.clear();
            gateways[gateway] = names;
        }
        let allowed = Arc::new(gateways.iter().flatten().copied().collect());
        *published.lock().unwrap() = (house.index.publish(), allowed);
        change += 1;
        // Half the time the other view is waited for, as a host does.
        for _ in 0..random(2) * 10_000 {
            if house.index.is_free() {
                break;
            }
            std::hint::spin_loop();
        }
    }
}

#[test]
fn r175_a_view_answers_what_was_published_while_the_writer_goes_on() {
    let mut house = House::new();
    house.strategy("gateways", "gateways", Some(".spec.gatewayClassName"), SEED_PATH);
    house.consumer("contour-gateway", CONTOUR, &["contour"], "gateways");
    let published = Mutex::new((house.index.publish(), Arc::new(BTreeSet::new())));
    let looks: Vec<AtomicUsize> = (0..READERS).map(|_| AtomicUsize::new(0)).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = looks
            .iter()
            .enumerate()
            .map(|(number, looks)| {
                let (published, is_over) = (&published, &is_over);
                scope.spawn(move || read(published, number, looks, is_over))
            })
            .collect();
        let is_enough = || {
            looks.iter().all(|looks| looks.load(Ordering::Relaxed) >= LOOKS)
                || readers.iter().any(ScopedJoinHandle::is_finished)
        };
        write(&mut house, &published, is_enough);
        is_over.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn r175_both_views_follow_while_the_table_grows_and_empties() {
    let mut house = House::new();
    house.strategy("gateways", "gateways", Some(".spec.gatewayClassName"), SEED_PATH);
    house.consumer("contour-gateway", CONTOUR, &["contour"], "gateways");
    let mut expected: BTreeSet<String> = BTreeSet::new();
    house.index.publish();
    // Each gateway has twenty names of its own; they come, and most of them go again.
    for step in 0..140 {
        for gateway in step * 3 % 300..step * 3 % 300 + 3 {
            let own = (0..20).map(|number| name(gateway * 20 + number));
            let stay = (0..20).map(|number| step < 100 || number == gateway % 20);
            let mut names: Vec<String> = Vec::new();
            for (name, stays) in own.zip(stay) {
                match stays {
                    true => names.push(name),
                    false => drop(expected.remove(&name)),
                }
            }
            let references: Vec<(&str, &str)> =
                names.iter().map(|name| (name.as_str(), "")).collect();
            house.gateway("prod", &format!("web-{gateway}"), "contour", &references);
            expected.extend(names);
        }
        let view = house.index.publish();
        let live: BTreeSet<String> = view.live_targets(CONTOUR, &[]).map(|it| it.name).collect();
        assert_eq!(live, expected, "step {step}");
        let asked = |name| get(CONTOUR, "secrets", "prod", name);
        assert!(expected.iter().all(|name| view.decide(&asked(name)).is_allowed()));
        drop(view);
    }
    assert_eq!(house.index.stats().targets, expected.len());
}
