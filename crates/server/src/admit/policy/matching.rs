//! Which requests a policy or a binding is about: rules over resources, and selectors over labels.

use serde_json::Value;
use tenure_core::selector::{LabelRequirement, LabelRule, LabelSelector};
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Object, ObjectExt};

/// What a policy or a binding is about; without anything said, everything.
#[derive(Default)]
pub(in crate::admit) struct Matching {
    rules: Vec<MatchRule>,
    /// Whether no rules mean every request, as for policies and bindings, or none, as for webhooks.
    rules_required: bool,
    excluded: Vec<MatchRule>,
    namespaces: LabelSelector,
    objects: LabelSelector,
    /// Whether the same resource under another group or version counts, too.
    equivalent: bool,
}

struct MatchRule {
    names: Vec<String>,
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: RuleScope,
}

#[derive(PartialEq, Eq)]
enum RuleScope {
    All,
    Cluster,
    Namespaced,
}

/// A resource under one group and version.
#[derive(Clone, Copy)]
pub(in crate::admit) struct GroupVersionResource<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
}

/// Looks up a label by its key.
pub(in crate::admit) type Labels<'a, 'l> = &'a dyn Fn(&str) -> Option<&'l str>;

/// What rules and selectors look at.
pub(in crate::admit) struct MatchContext<'a> {
    pub(super) operation: &'a str,
    /// The resource as it was asked for, and the others it is served as.
    pub(super) places: &'a [GroupVersionResource<'a>],
    pub(super) subresource: &'a str,
    pub(super) name: &'a str,
    pub(super) namespaced: bool,
    pub(super) new: Option<&'a Object>,
    pub(super) old: Option<&'a Object>,
}

impl Matching {
    pub(in crate::admit) fn new(said: Option<&Object>) -> Matching {
        let Some(said) = said else { return Matching::default() };
        let rules =
            |list: &str| objects(said, list).map(|(_, rule)| MatchRule::new(rule)).collect();
        Matching {
            rules: rules("resourceRules"),
            rules_required: false,
            excluded: rules("excludeResourceRules"),
            namespaces: selector(said.map_at(&["namespaceSelector"])),
            objects: selector(said.map_at(&["objectSelector"])),
            equivalent: text(said, "matchPolicy") != "Exact",
        }
    }

    /// What a webhook is about.
    pub(in crate::admit) fn of_webhook(webhook: &Object) -> Matching {
        Matching {
            rules: objects(webhook, "rules").map(|(_, rule)| MatchRule::new(rule)).collect(),
            rules_required: true,
            excluded: Vec::new(),
            ..Matching::new(Some(webhook))
        }
    }

    /// Whether some rule names the operation and the resource, whatever its group and version: a quick
    /// look before the request is taken apart.
    pub(in crate::admit) fn may_concern(
        &self,
        operation: &str,
        resource: &str,
        subresource: &str,
    ) -> bool {
        (self.rules.is_empty() && !self.rules_required)
            || self.rules.iter().any(|rule| {
                lists(&rule.operations, operation)
                    && rule.resources.iter().any(|one| is_resource(one, resource, subresource))
            })
    }

    /// Which of the places of a request this is about. `label` looks up labels of the namespace; there
    /// are none for what lives in none.
    pub(in crate::admit) fn place<'l>(
        &self,
        requested: &MatchContext<'_>,
        label: Option<Labels<'_, 'l>>,
    ) -> Option<usize> {
        let here = label.is_none_or(|label| self.namespaces.matches(label));
        if !here || !self.fits(requested) || self.first(&self.excluded, requested).is_some() {
            return None;
        }
        match self.rules.is_empty() {
            true => (!self.rules_required).then_some(0),
            false => self.first(&self.rules, requested),
        }
    }

    /// Whether the labels of the object fit, as they are or as they were.
    fn fits(&self, requested: &MatchContext<'_>) -> bool {
        let one = |object: &Object| {
            self.objects.matches(|key| object.str_at(&["metadata", "labels", key]))
        };
        self.objects.is_everything()
            || requested.new.is_some_and(one)
            || requested.old.is_some_and(one)
    }

    fn first(&self, rules: &[MatchRule], requested: &MatchContext<'_>) -> Option<usize> {
        let count = if self.equivalent { requested.places.len() } else { 1 };
        let mut places = requested.places.iter().take(count).enumerate();
        places
            .find(|(_, place)| rules.iter().any(|rule| rule.matches(requested, **place)))
            .map(|(at, _)| at)
    }
}

impl MatchRule {
    fn new(rule: &Object) -> MatchRule {
        let texts = |list: &str| {
            let values = rule.list_at(&[list]).iter();
            values.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        MatchRule {
            names: texts("resourceNames"),
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources"),
            scope: match text(rule, "scope") {
                "Cluster" => RuleScope::Cluster,
                "Namespaced" => RuleScope::Namespaced,
                _ => RuleScope::All,
            },
        }
    }

    fn matches(&self, requested: &MatchContext<'_>, place: GroupVersionResource<'_>) -> bool {
        let scope = if requested.namespaced { RuleScope::Namespaced } else { RuleScope::Cluster };
        (self.scope == RuleScope::All || self.scope == scope)
            && lists(&self.operations, requested.operation)
            && lists(&self.groups, place.group)
            && lists(&self.versions, place.version)
            && self
                .resources
                .iter()
                .any(|one| is_resource(one, place.resource, requested.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == requested.name))
    }
}

/// Whether a list names a word, or all of them.
fn lists(list: &[String], word: &str) -> bool {
    list.iter().any(|one| one == "*" || one == word)
}

/// Whether `pods`, `pods/status`, `*` or `*/scale` names a resource.
fn is_resource(written: &str, resource: &str, subresource: &str) -> bool {
    let (first, second) = written.split_once('/').unwrap_or((written, ""));
    (first == "*" || first == resource) && (second == "*" || second == subresource)
}

/// A selector as it stands in an object; none selects everything.
pub(in crate::admit) fn selector(said: Option<&Object>) -> LabelSelector {
    let Some(said) = said else { return LabelSelector::default() };
    let labels = said.map_at(&["matchLabels"]).into_iter().flatten();
    let equal = labels.map(|(key, value)| LabelRequirement {
        key: key.clone(),
        rule: LabelRule::Equals(value.as_str().unwrap_or_default().to_owned()),
    });
    let expressions = objects(said, "matchExpressions").map(|(_, expression)| {
        let values = expression.list_at(&["values"]).iter().filter_map(Value::as_str);
        let mut values: Vec<String> = values.map(str::to_owned).collect();
        values.sort_unstable();
        let rule = match text(expression, "operator") {
            "In" => LabelRule::In(values),
            "NotIn" => LabelRule::NotIn(values),
            "Exists" => LabelRule::Exists,
            _ => LabelRule::Missing,
        };
        LabelRequirement { key: text(expression, "key").to_owned(), rule }
    });
    LabelSelector::new(equal.chain(expressions).collect())
}
