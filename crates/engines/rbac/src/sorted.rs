//! The rules of a role, sorted by the resource they speak of.
//!
//! Roles such as `edit` have dozens of rules of which few concern a question.
//! What is found here may apply; whether it does, the rule itself says.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::rule::{Asked, Rule};

/// A role's rules, with the places of those that speak of a resource or of paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted {
    // INVARIANT: every rule stands under each of its resources, and in `paths` if it has any.
    resources: BTreeMap<String, Vec<usize>>,
    paths: Vec<usize>,
}

impl Sorted {
    pub(crate) fn new(rules: &[Rule]) -> Sorted {
        let mut sorted = Sorted::default();
        for (place, rule) in rules.iter().enumerate() {
            for resource in &rule.resources {
                let places = sorted.resources.entry(stem(resource).to_owned()).or_default();
                // Places come in order, so a repetition is the last one.
                if places.last() != Some(&place) {
                    places.push(place);
                }
            }
            if !rule.non_resource_urls.is_empty() {
                sorted.paths.push(place);
            }
        }
        sorted
    }

    /// Whether one of the rules, which must be those given at the start, allows what is asked.
    pub(crate) fn allows(&self, rules: &[Rule], asked: &Asked<'_>) -> bool {
        let any = |places: &[usize]| {
            places.iter().filter_map(|place| rules.get(*place)).any(|rule| rule.allows(asked))
        };
        match asked {
            Asked::Resource { resource, .. } => [stem(resource), "*"]
                .into_iter()
                .any(|stem| self.resources.get(stem).is_some_and(|places| any(places))),
            Asked::Path { .. } => any(&self.paths),
        }
    }
}

/// A resource without its subresource.
fn stem(resource: &str) -> &str {
    resource.split_once('/').map_or(resource, |(stem, _)| stem)
}
