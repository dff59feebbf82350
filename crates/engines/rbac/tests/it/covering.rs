//! Rule R158 of `spec/api-server.md`: what is missing, against each rule compared with each, and how long it takes.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use tenure_rbac::{PolicyRule, missing};

use crate::fixture::{named, rule, urls};

/// As many single permissions are looked at.
const PARTS_MAX: usize = 1 << 16;

fn has_or_star(held: &[String], wanted: &str) -> bool {
    held.iter().any(|held| held == wanted || held == "*")
}

fn covers_resource(held: &[String], wanted: &str) -> bool {
    let below = wanted.split_once('/').map(|(_, below)| format!("*/{below}"));
    has_or_star(held, wanted) || below.is_some_and(|below| held.contains(&below))
}

fn reaches(held: &str, path: &str) -> bool {
    held == path || (held.ends_with('*') && path.starts_with(held.trim_end_matches('*')))
}

/// Whether a held rule covers another in every list; a list that the other lacks counts for nothing.
fn covers(held: &PolicyRule, wanted: &PolicyRule) -> bool {
    let verbs = wanted.verbs.iter().all(|verb| has_or_star(&held.verbs, verb));
    let names = held.resource_names.is_empty()
        || (!wanted.resource_names.is_empty()
            && wanted.resource_names.iter().all(|name| held.resource_names.contains(name)));
    let resources = names
        && wanted.api_groups.iter().all(|group| has_or_star(&held.api_groups, group))
        && wanted.resources.iter().all(|resource| covers_resource(&held.resources, resource));
    let reached = |path: &String| held.non_resource_urls.iter().any(|held| reaches(held, path));
    let paths = held.resource_names.is_empty() && wanted.non_resource_urls.iter().all(reached);
    verbs
        && (resources || wanted.resources.is_empty())
        && (paths || wanted.non_resource_urls.is_empty())
}

/// Every single permission as a rule.
fn parts(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |text: &String| vec![text.clone()];
    let names: Vec<Vec<String>> = match rule.resource_names.as_slice() {
        [] => vec![Vec::new()],
        names => names.iter().map(one).collect(),
    };
    let mut parts = Vec::new();
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                parts.extend(names.iter().map(|names| PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: names.clone(),
                    non_resource_urls: Vec::new(),
                }));
            }
        }
    }
    for path in &rule.non_resource_urls {
        parts.extend(rule.verbs.iter().map(|verb| PolicyRule {
            verbs: one(verb),
            non_resource_urls: one(path),
            ..PolicyRule::default()
        }));
    }
    parts
}

/// What [`missing`] says, by comparing each with each.
fn obvious(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let covered = |wanted: &PolicyRule| held.iter().any(|held| covers(held, wanted));
    let mut left = PARTS_MAX;
    let mut found = Vec::new();
    for rule in wanted.iter().filter(|rule| !covered(rule)) {
        let parts = parts(rule);
        match left.checked_sub(parts.len()) {
            Some(rest) => {
                left = rest;
                found.extend(parts.into_iter().filter(|part| !covered(part)));
            }
            None => found.push(rule.clone()),
        }
    }
    found
}

fn some(words: &'static str, most: usize) -> impl Strategy<Value = Vec<String>> {
    let words: Vec<String> = words.split(' ').map(|word| word.replace('_', "")).collect();
    prop::collection::vec(prop::sample::select(words), 0..=most)
}

fn any_rule() -> impl Strategy<Value = PolicyRule> {
    let resources = "pods pods/log pods/scale */scale */log */a/b x/a/b jobs/scale * */* pods/*";
    let lists = (
        some("get list create watch *", 4),
        some("_ apps batch *", 3),
        some(resources, 4),
        prop_oneof![3 => Just(Vec::new()), 2 => some("a b *", 2)],
        prop_oneof![2 => Just(Vec::new()), 2 => some("/x /x/* /x/y /x/y/* /y* /y** * /z _", 4)],
    );
    lists.prop_map(|(verbs, api_groups, resources, resource_names, non_resource_urls)| PolicyRule {
        verbs,
        api_groups,
        resources,
        resource_names,
        non_resource_urls,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn r158_what_is_missing_is_what_each_with_each_leaves_over(
        held in prop::collection::vec(any_rule(), 0..6),
        wanted in prop::collection::vec(any_rule(), 0..5),
    ) {
        prop_assert_eq!(missing(&held, &wanted), obvious(&held, &wanted));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    /// More held rules than are read together, and useless ones among them.
    #[test]
    fn r158_many_held_rules_leave_over_what_each_with_each_does(
        held in prop::collection::vec(any_rule(), 50..300),
        wanted in prop::collection::vec(any_rule(), 1..8),
        keep in 0..5_usize,
    ) {
        // Few of them are strong, or nothing would be missing.
        let strong = |(at, rule): &(usize, PolicyRule)| {
            at % 97 < keep || rule.verbs.len() < 2 && !rule.verbs.contains(&"*".to_owned())
        };
        let held: Vec<PolicyRule> =
            held.into_iter().enumerate().filter(strong).map(|(_, rule)| rule).collect();
        prop_assert_eq!(missing(&held, &wanted), obvious(&held, &wanted));
    }

    /// The bound on single permissions falls on the same rules.
    #[test]
    fn r158_large_rules_are_refused_whole_as_before(
        sizes in prop::collection::vec((1..60_usize, 1..60_usize, 1..60_usize), 1..6),
        held in prop::collection::vec(any_rule(), 0..4),
    ) {
        let many = |letter: &str, count: usize| {
            (0..count).map(|number| format!("{letter}{number}")).collect::<Vec<String>>().join(" ")
        };
        let wanted: Vec<PolicyRule> =
            sizes.iter().map(|(v, g, r)| rule(&many("v", *v), &many("g", *g), &many("r", *r))).collect();
        let mut held = held;
        held.push(rule(&many("v", 30), "*", &many("r", 30)));
        prop_assert_eq!(missing(&held, &wanted), obvious(&held, &wanted));
    }
}

fn list(letter: &str, count: usize) -> String {
    let words: Vec<String> = (0..count).map(|number| format!("{letter}{number}")).collect();
    words.join(" ")
}

/// Each with each would be 650 million comparisons of lists: minutes.
#[test]
fn r158_a_large_role_of_somebody_who_holds_much_is_judged_soon() {
    let begun = Instant::now();
    let verbs = list("v", 16);
    let held: Vec<PolicyRule> = (0..10_000)
        .map(|number| named(&verbs, "g", &format!("r{}", number % 4_000), "n"))
        .collect();
    let wanted = [rule(&verbs, "g", &list("r", 4_000))];
    assert_eq!(missing(&held, &wanted).len(), 64_000);
    let mut held: Vec<PolicyRule> =
        (0..10_000).map(|number| urls("get", &format!("/a/{number}/* /b/{number}"))).collect();
    held.push(urls("*", "/c/*"));
    let paths: Vec<String> = (0..20_000).map(|number| format!("/a/{number}/x")).collect();
    assert_eq!(missing(&held, &[urls("get", &paths.join(" "))]).len(), 10_000);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
