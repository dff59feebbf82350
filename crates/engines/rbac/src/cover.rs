//! Which of the wanted rules, and of their single permissions, the held rules cover (R158).
//!
//! Whoever writes a role chooses how long its lists are, and whoever was given many roles holds many rules. To
//! compare each with each would take their product. Instead held rules are read 64 at a time: every word of the
//! wanted rules gets a bit for each held rule that covers it, and a permission is covered when its words have a bit
//! in common.
//!
//! ```text
//!               held rules   1 2 3 …
//!   verb      get            1 1 0
//!   group     apps           0 1 1
//!   resource  deployments    0 1 0
//!                            0 1 0    covered, by the second
//! ```
//!
//! Words are only compared, never resolved: `*` is covered by `*` alone.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::cmp::Reverse;

use crate::rule::PolicyRule;

/// Of wanted rules, at most this many single permissions are looked at; the rest counts as missing.
///
/// Lists multiply, so a small body could otherwise keep the server busy for hours.
const PARTS_MAX: usize = 1 << 16;

/// A bit for each of the held rules that are looked at together.
type Bits = u64;

/// The single permissions of the wanted rules that no held rule covers.
///
/// Rules are only compared, never resolved: `*` is covered by `*` alone, and `pods` named one by
/// one do not add up to all pods.
pub fn missing<H: Borrow<PolicyRule>>(held: &[H], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    cover(held, wanted).missing
}

/// How far held rules cover wanted ones.
pub(crate) struct Cover {
    /// See [`missing`].
    pub(crate) missing: Vec<PolicyRule>,
    /// The held rules, by number, that together cover the rest; one of those that cover the same.
    pub(crate) used: BTreeSet<usize>,
}

/// As [`missing`], and by which of the held rules the rest is covered.
pub(crate) fn cover<H: Borrow<PolicyRule>>(held: &[H], wanted: &[PolicyRule]) -> Cover {
    let mut words = CoverageIndex::of(wanted);
    let mut used = BTreeSet::new();
    let requested: Vec<IndexedRule<'_>> = wanted.iter().map(|rule| words.wanted(rule)).collect();
    // One held rule often covers the whole; this also spares taking large rules apart.
    let mut open: Vec<&IndexedRule<'_>> = requested.iter().collect();
    words.read(held, |words| {
        open.retain(|wanted| match words.first(words.covering_whole(wanted)) {
            Some(rule) => {
                used.insert(rule);
                false
            }
            None => true,
        });
        !open.is_empty()
    });
    let mut parts_left = PARTS_MAX;
    let mut parted: Vec<Parted<'_>> = Vec::new();
    for wanted in open {
        let count = parts_count(wanted.rule);
        let within = parts_left.checked_sub(count);
        parts_left = within.unwrap_or(parts_left);
        parted.push(Parted { wanted, covered: within.map(|_| vec![false; count]) });
    }
    if parted.is_empty() {
        return Cover { missing: Vec::new(), used };
    }
    words.read(held, |words| {
        for Parted { wanted, covered } in &mut parted {
            if let Some(covered) = covered {
                words.mark_covered(wanted, covered, &mut used);
            }
        }
        true
    });
    Cover { missing: parted.iter().flat_map(Parted::missing).collect(), used }
}

/// A wanted rule by the numbers of its words.
struct IndexedRule<'a> {
    rule: &'a PolicyRule,
    verbs: Vec<usize>,
    groups: Vec<usize>,
    /// Each with the one that has a star in the place of the resource, `*/log` beside `pods/log`.
    resources: Vec<(usize, Option<usize>)>,
    names: Vec<usize>,
    paths: Vec<usize>,
}

/// A wanted rule and which of its single permissions are covered; `None` if there are too many of them.
struct Parted<'a> {
    wanted: &'a IndexedRule<'a>,
    covered: Option<Vec<bool>>,
}

impl Parted<'_> {
    fn missing(&self) -> Vec<PolicyRule> {
        let rule = self.wanted.rule;
        let Some(covered) = &self.covered else { return vec![rule.clone()] };
        let mut missing = Vec::new();
        let mut covered = covered.iter();
        for_each_part(rule, |part| {
            if covered.next() == Some(&false) {
                missing.push(part);
            }
        });
        missing
    }
}

/// The words of all wanted rules, and which of the held rules that were read cover them.
struct CoverageIndex<'a> {
    verbs: WordCoverage<'a>,
    groups: WordCoverage<'a>,
    resources: WordCoverage<'a>,
    names: WordCoverage<'a>,
    /// Held rules that are not about objects by name.
    unnamed: Bits,
    paths: Paths<'a>,
    /// What stands below a star in resources such as `*/log`, and the number of that resource.
    stars: BTreeMap<&'a str, usize>,
    /// The number of the held rule of each bit.
    read: Vec<usize>,
}

impl<'a> CoverageIndex<'a> {
    fn of(wanted: &'a [PolicyRule]) -> CoverageIndex<'a> {
        let column =
            |list: fn(&PolicyRule) -> &Vec<String>| WordCoverage::of(wanted.iter().flat_map(list));
        let mut words = CoverageIndex {
            verbs: column(|rule| &rule.verbs),
            groups: column(|rule| &rule.api_groups),
            resources: column(|rule| &rule.resources),
            names: column(|rule| &rule.resource_names),
            unnamed: 0,
            paths: Paths::of(wanted.iter().flat_map(|rule| &rule.non_resource_urls)),
            stars: BTreeMap::new(),
            read: Vec::new(),
        };
        for resource in wanted.iter().flat_map(|rule| &rule.resources) {
            if let Some((_, below)) = resource.split_once('/')
                && !words.stars.contains_key(below)
            {
                let number = words.resources.bits.len();
                words.resources.bits.push(0);
                words.stars.insert(below, number);
            }
        }
        words
    }

    fn wanted(&self, rule: &'a PolicyRule) -> IndexedRule<'a> {
        let numbers = |column: &WordCoverage<'_>, list: &[String]| {
            list.iter().filter_map(|word| column.number(word)).collect::<Vec<usize>>()
        };
        let resources = rule.resources.iter().filter_map(|resource| {
            let below = resource.split_once('/').map(|(_, below)| below);
            let star = below.and_then(|below| self.stars.get(below)).copied();
            Some((self.resources.number(resource)?, star))
        });
        let paths = rule.non_resource_urls.iter().filter_map(|path| self.paths.number(path));
        IndexedRule {
            rule,
            verbs: numbers(&self.verbs, &rule.verbs),
            groups: numbers(&self.groups, &rule.api_groups),
            resources: resources.collect(),
            names: numbers(&self.names, &rule.resource_names),
            paths: paths.collect(),
        }
    }

    /// Reads the held rules that can cover something, 64 at a time, until `look` has seen enough.
    fn read<H: Borrow<PolicyRule>>(
        &mut self,
        held: &[H],
        mut look: impl FnMut(&CoverageIndex<'a>) -> bool,
    ) {
        let mut next: Bits = 1;
        for (number, rule) in held.iter().enumerate() {
            if !self.take(rule.borrow(), next) {
                continue;
            }
            self.read.push(number);
            next <<= 1;
            if next == 0 {
                self.paths.settle();
                let goes_on = look(self);
                self.forget();
                if !goes_on {
                    return;
                }
                next = 1;
            }
        }
        if next != 1 {
            self.paths.settle();
            look(self);
            self.forget();
        }
    }

    /// Marks what a held rule covers; whether it covers anything.
    fn take(&mut self, held: &PolicyRule, bit: Bits) -> bool {
        let resources = self.meets_resource(held);
        let paths = held.resource_names.is_empty() && self.paths.meets(&held.non_resource_urls);
        if !self.verbs.meets(&held.verbs) || !(resources || paths) {
            return false;
        }
        self.verbs.mark(&held.verbs, bit);
        self.groups.mark(&held.api_groups, bit);
        self.resources.mark(&held.resources, bit);
        for held in &held.resources {
            let star = held.strip_prefix("*/").and_then(|below| self.stars.get(below));
            if let Some(star) = star {
                self.resources.mark_number(*star, bit);
            }
        }
        if held.resource_names.is_empty() {
            self.unnamed |= bit;
        } else {
            self.names.mark_exactly(&held.resource_names, bit);
        }
        self.paths.mark(&held.non_resource_urls, bit);
        true
    }

    fn meets_resource(&self, held: &PolicyRule) -> bool {
        let star = |held: &String| {
            held.strip_prefix("*/").is_some_and(|below| self.stars.contains_key(below))
        };
        self.groups.meets(&held.api_groups)
            && (self.resources.meets(&held.resources) || held.resources.iter().any(star))
            && (held.resource_names.is_empty() || self.names.meets_exactly(&held.resource_names))
    }

    /// Forgets the held rules that were read.
    fn forget(&mut self) {
        for column in [&mut self.verbs, &mut self.groups, &mut self.resources, &mut self.names] {
            column.forget();
        }
        self.paths.forget();
        self.unnamed = 0;
        self.read.clear();
    }

    /// The first of some held rules.
    fn first(&self, bits: Bits) -> Option<usize> {
        let place = usize::try_from(bits.trailing_zeros()).ok()?;
        self.read.get(place).copied().filter(|_| bits != 0)
    }

    fn resource(&self, (number, star): (usize, Option<usize>)) -> Bits {
        self.resources.bits(number) | star.map_or(0, |star| self.resources.bits(star))
    }

    fn name(&self, number: usize) -> Bits {
        self.unnamed | self.names.bits(number)
    }

    /// The held rules that each cover every part of a wanted rule.
    fn covering_whole(&self, wanted: &IndexedRule<'_>) -> Bits {
        let verbs = common(wanted.verbs.iter().map(|verb| self.verbs.bits(*verb)));
        let names = match wanted.names.as_slice() {
            [] => self.unnamed,
            names => common(names.iter().map(|name| self.name(*name))),
        };
        let resources = || {
            verbs
                & names
                & common(wanted.groups.iter().map(|group| self.groups.bits(*group)))
                & common(wanted.resources.iter().map(|resource| self.resource(*resource)))
        };
        let paths = || {
            verbs & self.unnamed & common(wanted.paths.iter().map(|path| self.paths.bits(*path)))
        };
        let resources = if wanted.resources.is_empty() { verbs } else { resources() };
        let paths = if wanted.paths.is_empty() { verbs } else { paths() };
        resources & paths
    }

    /// Marks the single permissions of a wanted rule that a held rule covers, in the order of [`for_each_part`].
    fn mark_covered(
        &self,
        wanted: &IndexedRule<'_>,
        covered: &mut [bool],
        used: &mut BTreeSet<usize>,
    ) {
        let mut parts = covered.iter_mut();
        let mut mark = |by: Bits| {
            if let Some(covered) = parts.next()
                && !*covered
                && let Some(rule) = self.first(by)
            {
                *covered = true;
                used.insert(rule);
            }
        };
        for group in &wanted.groups {
            let group = self.groups.bits(*group);
            for resource in &wanted.resources {
                let both = group & self.resource(*resource);
                for verb in &wanted.verbs {
                    let all = both & self.verbs.bits(*verb);
                    if wanted.names.is_empty() {
                        mark(all & self.unnamed);
                    }
                    for name in &wanted.names {
                        mark(all & self.name(*name));
                    }
                }
            }
        }
        for path in &wanted.paths {
            let path = self.unnamed & self.paths.bits(*path);
            for verb in &wanted.verbs {
                mark(path & self.verbs.bits(*verb));
            }
        }
    }
}

/// The held rules that all words have in common; all of them if there is no word.
fn common(mut bits: impl Iterator<Item = Bits>) -> Bits {
    let meet = bits.try_fold(Bits::MAX, |common, bits| Some(common & bits).filter(|it| *it != 0));
    meet.unwrap_or_default()
}

/// Words of one sort, each with the held rules that cover it.
struct WordCoverage<'a> {
    numbers: BTreeMap<&'a str, usize>,
    bits: Vec<Bits>,
    /// Held rules with a star, which covers every word.
    star: Bits,
    /// The words that have bits.
    marked: Vec<usize>,
}

impl<'a> WordCoverage<'a> {
    fn of(words: impl Iterator<Item = &'a String>) -> WordCoverage<'a> {
        let mut numbers = BTreeMap::new();
        for word in words {
            let next = numbers.len();
            numbers.entry(word.as_str()).or_insert(next);
        }
        let bits = vec![0; numbers.len()];
        WordCoverage { numbers, bits, star: 0, marked: Vec::new() }
    }

    fn number(&self, word: &str) -> Option<usize> {
        self.numbers.get(word).copied()
    }

    /// The held rules that cover a word.
    fn bits(&self, number: usize) -> Bits {
        self.star | self.bits.get(number).copied().unwrap_or_default()
    }

    fn meets(&self, held: &[String]) -> bool {
        held.iter().any(|word| word == "*" || self.numbers.contains_key(word.as_str()))
    }

    /// As [`WordCoverage::meets`], where a star is a word as others.
    fn meets_exactly(&self, held: &[String]) -> bool {
        held.iter().any(|word| self.numbers.contains_key(word.as_str()))
    }

    fn mark_exactly(&mut self, held: &[String], bit: Bits) {
        for word in held {
            if let Some(number) = self.number(word) {
                self.mark_number(number, bit);
            }
        }
    }

    fn mark(&mut self, held: &[String], bit: Bits) {
        for word in held {
            if word == "*" {
                self.star |= bit;
            } else if let Some(number) = self.number(word) {
                self.mark_number(number, bit);
            }
        }
    }

    fn mark_number(&mut self, number: usize, bit: Bits) {
        let Some(bits) = self.bits.get_mut(number) else { return };
        if *bits == 0 {
            self.marked.push(number);
        }
        *bits |= bit;
    }

    fn forget(&mut self) {
        for number in self.marked.drain(..) {
            if let Some(bits) = self.bits.get_mut(number) {
                *bits = 0;
            }
        }
        self.star = 0;
    }
}

/// Paths, each with the held rules that reach it.
///
/// In byte order all that start alike stand together. So a held path with a star is marked where those that it
/// reaches begin and where they end, and what holds at each is summed up in the end.
struct Paths<'a> {
    // INVARIANT: in byte order, each once.
    sorted: Vec<&'a str>,
    bits: Vec<Bits>,
    marked: bool,
}

impl<'a> Paths<'a> {
    fn of(paths: impl Iterator<Item = &'a String>) -> Paths<'a> {
        let mut sorted: Vec<&str> = paths.map(String::as_str).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let bits = vec![0; sorted.len() + 1];
        Paths { sorted, bits, marked: false }
    }

    fn number(&self, path: &str) -> Option<usize> {
        self.sorted.binary_search(&path).ok()
    }

    fn bits(&self, number: usize) -> Bits {
        self.bits.get(number).copied().unwrap_or_default()
    }

    /// From where to where the paths stand that a held one reaches.
    fn reached(&self, held: &str) -> Option<(usize, usize)> {
        let (from, to) = if held.ends_with('*') {
            let start = held.trim_end_matches('*');
            let from = self.sorted.partition_point(|path| *path < start);
            let to = self.sorted.partition_point(|path| *path < start || path.starts_with(start));
            (from, to)
        } else {
            let place = self.number(held)?;
            (place, place + 1)
        };
        (from < to).then_some((from, to))
    }

    fn meets(&self, held: &[String]) -> bool {
        held.iter().any(|path| self.reached(path).is_some())
    }

    fn mark(&mut self, held: &[String], bit: Bits) {
        let mut reached: Vec<(usize, usize)> =
            held.iter().filter_map(|path| self.reached(path)).collect();
        // What one path reaches is apart from what another reaches, or within it; the wider comes first.
        reached.sort_unstable_by_key(|(from, to)| (*from, Reverse(*to)));
        let mut end = 0;
        for (from, to) in reached {
            if from < end {
                continue;
            }
            for place in [from, to] {
                if let Some(bits) = self.bits.get_mut(place) {
                    *bits ^= bit;
                }
            }
            end = to;
            self.marked = true;
        }
    }

    /// Turns the marks at beginnings and ends into what holds at each path.
    fn settle(&mut self) {
        if !self.marked {
            return;
        }
        let mut open = 0;
        for bits in &mut self.bits {
            open ^= *bits;
            *bits = open;
        }
    }

    fn forget(&mut self) {
        if self.marked {
            self.bits.fill(0);
            self.marked = false;
        }
    }
}

fn parts_count(rule: &PolicyRule) -> usize {
    let resources = rule
        .api_groups
        .len()
        .saturating_mul(rule.resources.len())
        .saturating_mul(rule.resource_names.len().max(1));
    resources.saturating_add(rule.non_resource_urls.len()).saturating_mul(rule.verbs.len())
}

/// One verb on one resource or path, each as a rule of its own.
fn for_each_part(rule: &PolicyRule, mut visit: impl FnMut(PolicyRule)) {
    let one = |text: &str| vec![text.to_owned()];
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let part = |names: Vec<String>| PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: names,
                    non_resource_urls: Vec::new(),
                };
                if rule.resource_names.is_empty() {
                    visit(part(Vec::new()));
                }
                for name in &rule.resource_names {
                    visit(part(one(name)));
                }
            }
        }
    }
    for path in &rule.non_resource_urls {
        for verb in &rule.verbs {
            visit(PolicyRule {
                verbs: one(verb),
                non_resource_urls: one(path),
                ..PolicyRule::default()
            });
        }
    }
}
