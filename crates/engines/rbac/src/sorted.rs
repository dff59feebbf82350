//! The rules of a role, sorted by the resource they speak of.
//!
//! Roles such as `edit` have dozens of rules of which few concern a question.
//! What is found here may apply; whether it does, the rule itself says.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::rule::{PolicyRule, RequestAttributes};

/// Where the rules of a role speak of a resource, or of paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleIndex {
    // INVARIANT: every resource of every rule stands under its stem, or in `star` if that is `*`.
    resources: BTreeMap<String, Vec<RulePosition>>,
    star: Vec<RulePosition>,
    // INVARIANT: every rule that has paths.
    paths: Vec<usize>,
}

/// A resource of a rule, both by their number.
#[derive(Clone, Copy, Debug)]
struct RulePosition {
    rule: usize,
    resource: usize,
}

impl RuleIndex {
    pub(crate) fn new(rules: &[PolicyRule]) -> RuleIndex {
        let mut sorted = RuleIndex::default();
        for (number, rule) in rules.iter().enumerate() {
            for (resource, name) in rule.resources.iter().enumerate() {
                let places = match stem(name) {
                    "*" => &mut sorted.star,
                    stem => sorted.resources.entry(stem.to_owned()).or_default(),
                };
                places.push(RulePosition { rule: number, resource });
            }
            if !rule.non_resource_urls.is_empty() {
                sorted.paths.push(number);
            }
        }
        sorted
    }

    /// What the rules speak of, in a few bits: whatever they allow has its bit among them.
    pub(crate) fn mentions(&self) -> u64 {
        let paths = if self.paths.is_empty() { 0 } else { PATHS };
        let any = if self.star.is_empty() { 0 } else { !PATHS };
        self.resources.keys().fold(paths | any, |bits, stem| bits | bit(stem))
    }

    /// Whether one of the rules, which must be those given at the start, allows what is asked.
    pub(crate) fn allows(&self, rules: &[PolicyRule], requested: &RequestAttributes<'_>) -> bool {
        let any = |places: &[RulePosition]| {
            places.iter().any(|place| {
                let Some(rule) = rules.get(place.rule) else { return false };
                let resource = rule.resources.get(place.resource);
                resource.is_some_and(|resource| rule.allows_of(resource, requested))
            })
        };
        match requested {
            RequestAttributes::Resource { resource, .. } => {
                any(&self.star)
                    || self.resources.get(stem(resource)).is_some_and(|places| any(places))
            }
            RequestAttributes::Path { .. } => {
                let mut rules = self.paths.iter().filter_map(|number| rules.get(*number));
                rules.any(|rule| rule.allows(requested))
            }
        }
    }
}

/// The bit of rules that speak of paths.
const PATHS: u64 = 1 << 63;

/// The bit that a role must have among those of [`RuleIndex::mentions`] to allow what is asked.
pub(crate) fn bit_of(requested: &RequestAttributes<'_>) -> u64 {
    match requested {
        RequestAttributes::Resource { resource, .. } => bit(stem(resource)),
        RequestAttributes::Path { .. } => PATHS,
    }
}

/// One of the other bits for a resource. Names of resources differ enough in length and ends.
fn bit(stem: &str) -> u64 {
    let bytes = stem.as_bytes();
    let end = |byte: Option<&u8>| byte.map_or(0, |byte| usize::from(*byte));
    let sum = 5 * bytes.len() + 3 * end(bytes.first()) + 7 * end(bytes.last());
    1 << (sum % 63)
}

/// A resource without its subresource.
fn stem(resource: &str) -> &str {
    resource.split_once('/').map_or(resource, |(stem, _)| stem)
}
