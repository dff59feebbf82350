//! Rules of spec/referential-authorization.md, R110, R171 and R173: an answer allocates nothing.
#![expect(unsafe_code, reason = "an allocator that counts is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::house::*;

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn allocations(run: impl FnOnce()) -> usize {
    let before = COUNT.with(Cell::get);
    run();
    COUNT.with(Cell::get) - before
}

#[test]
fn r171_a_decision_allocates_nothing() {
    let mut house = House::story();
    let view = house.index.publish();
    let groups = ["system:serviceaccounts".to_owned(), "system:authenticated".to_owned()];
    let mut asked = get(CONTOUR, "secrets", "prod-tls", "acme-tls");
    asked.groups = &groups;
    assert_eq!(allocations(|| assert!(view.decide(&asked).is_allowed())), 0);
    asked.name = "other";
    assert_eq!(allocations(|| assert!(!view.decide(&asked).is_allowed())), 0);
    asked.user = "stranger";
    assert_eq!(allocations(|| assert!(!view.decide(&asked).is_allowed())), 0);
    assert!(allocations(|| drop(vec![1, 2, 3])) > 0, "the count counts");
}

#[test]
fn r110_a_check_that_allows_allocates_nothing() {
    let house = House::story();
    let asked = query(("prod", "web"), ("prod-tls", "acme-tls"));
    let count = allocations(|| assert!(house.index.check(&asked).is_allowed()));
    assert_eq!(count, 0);
}

#[test]
fn r173_who_is_no_consumer_costs_nothing_however_many_groups_there_are() {
    // How often a map is probed cannot be seen from outside; that nothing is built on the way can.
    let mut house = House::story();
    let groups: Vec<String> = (0..1_000).map(|number| format!("group-{number}")).collect();
    let asked = |user| {
        let mut asked = get(user, "secrets", "prod-tls", "acme-tls");
        asked.groups = &groups;
        asked
    };
    let view = house.index.publish();
    assert_eq!(allocations(|| assert!(!view.decide(&asked("stranger")).is_allowed())), 0);
    // Groups are looked at once somebody consumes as one.
    house.put_consumer(serde_json::json!({
        "metadata": { "name": "group" }, "subject": { "kind": "Group", "name": "group-999" },
        "classNames": ["contour"],
        "references": [{
            "origin": { "group": GATEWAYS, "resource": "gateways" },
            "target": { "group": "", "resource": "secrets" }, "purpose": "tls-serving",
        }],
    }));
    let view = house.index.publish();
    assert_eq!(allocations(|| assert!(view.decide(&asked("stranger")).is_allowed())), 0);
}
