//! Rules of spec/referential-authorization.md: what was allowed before the latest transitions (R155).

use tenure_reference::*;

use crate::house::*;

fn asked(name: &str) -> Attributes<'_> {
    get(CONTOUR, "secrets", "prod", name)
}

fn was(house: &House, name: &str) -> bool {
    let of =
        house.out.transitions.iter().filter(|moved| {
            house.index.target(moved.target).is_some_and(|object| object.name == name)
        });
    house.index.view().was_allowed(&asked(name), of)
}

#[test]
fn r155_transitions_are_undone_one_by_one() {
    let mut house = House::story();
    house.gateway("prod", "web", "contour", &[("a", ""), ("b", "")]);
    house.gateway("prod", "envoy", "envoy", &[("a", ""), ("c", "")]);
    house.out.transitions.clear();
    // `a` goes, `c` comes, `d` comes and goes, `b` goes and comes, and the other class does not matter.
    house.gateway("prod", "web", "contour", &[("c", ""), ("d", "")]);
    house.gateway("prod", "web", "contour", &[("c", ""), ("b", "")]);
    house.gateway("prod", "envoy", "envoy", &[]);
    for (name, before, now) in
        [("a", true, false), ("b", true, true), ("c", false, true), ("d", false, false)]
    {
        assert_eq!(was(&house, name), before, "{name}");
        assert_eq!(house.may("prod", name), now, "{name}");
    }
    let accepted =
        house.out.transitions.iter().filter(|moved| house.index.view().accepts(&asked("a"), moved));
    // Six of the consumer's class; two of the other one are not its own.
    assert_eq!((accepted.count(), house.out.transitions.len()), (6, 8));
    assert!(!house.index.view().was_allowed(&asked("never"), [].into_iter()));
}
