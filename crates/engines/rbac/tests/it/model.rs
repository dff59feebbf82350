//! The index against a slow and obvious model, on random worlds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenure_rbac::{
    BindingSubject, PolicyRule, Rbac, RbacDecision, RequestAttributes, Requester, Role,
    RoleBinding, RoleRef, missing,
};

/// Every object in two maps; every question reads all of them.
#[derive(Default)]
struct Model {
    roles: BTreeMap<(String, String), Role>,
    bindings: BTreeMap<(String, String), RoleBinding>,
}

impl Model {
    /// The bindings that apply, each with its role.
    fn applying<'a>(
        &'a self,
        who: &'a Requester<'a>,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a RoleBinding, &'a Role)> {
        self.bindings
            .values()
            .filter(move |binding| binding.namespace.is_empty() || binding.namespace == namespace)
            .filter(move |binding| {
                binding.subjects.iter().any(|it| is(it, who, &binding.namespace))
            })
            .filter_map(|binding| Some((binding, self.role_of(binding)?)))
    }

    fn role_of(&self, binding: &RoleBinding) -> Option<&Role> {
        let key = match &binding.role {
            RoleRef::ClusterRole(name) => (String::new(), name.clone()),
            RoleRef::Role(_) if binding.namespace.is_empty() => return None,
            RoleRef::Role(name) => (binding.namespace.clone(), name.clone()),
        };
        self.roles.get(&key)
    }

    fn allowing(
        &self,
        who: &Requester<'_>,
        asked: &RequestAttributes<'_>,
    ) -> Vec<(String, String)> {
        self.applying(who, asked.namespace())
            .filter(|(_, role)| role.rules.iter().any(|rule| allows(rule, asked)))
            .map(|(binding, _)| (binding.namespace.clone(), binding.name.clone()))
            .collect()
    }
}

fn is(subject: &BindingSubject, who: &Requester<'_>, home: &str) -> bool {
    match subject {
        BindingSubject::User(name) => who.user == name,
        BindingSubject::Group(name) => who.groups.contains(name),
        BindingSubject::ServiceAccount { namespace, name } => {
            let place = if namespace.is_empty() { home } else { namespace };
            !place.is_empty() && who.user == format!("system:serviceaccount:{place}:{name}")
        }
    }
}

fn allows(rule: &PolicyRule, asked: &RequestAttributes<'_>) -> bool {
    let has = |list: &[String], text: &str| list.iter().any(|it| it == text || it == "*");
    match asked {
        RequestAttributes::Resource { verb, group, resource, subresource, name, .. } => {
            let (full, any) = match *subresource {
                "" => ((*resource).to_owned(), "*".to_owned()),
                below => (format!("{resource}/{below}"), format!("*/{below}")),
            };
            let named = rule.resource_names.is_empty()
                || (!name.is_empty() && rule.resource_names.contains(&(*name).to_owned()));
            has(&rule.verbs, verb)
                && has(&rule.api_groups, group)
                && (has(&rule.resources, &full) || rule.resources.contains(&any))
                && named
        }
        RequestAttributes::Path { verb, path } => {
            let reaches = |url: &String| match url.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => url == path,
            };
            has(&rule.verbs, verb) && rule.non_resource_urls.iter().any(reaches)
        }
    }
}

/// One step of a world's history.
#[derive(Clone, Debug)]
enum Step {
    PutRole(Role),
    RemoveRole(String, String),
    PutBinding(RoleBinding),
    RemoveBinding(String, String),
}

fn pick(words: &'static str) -> impl Strategy<Value = String> {
    let words: Vec<String> = words.split(' ').map(|word| word.replace('_', "")).collect();
    prop::sample::select(words)
}

fn some(words: &'static str, most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(pick(words), 0..=most)
}

fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
    let rule = (
        some("get list create *", 3),
        some("_ apps *", 2),
        some("pods pods/log pods/scale */scale *", 3),
        prop_oneof![3 => Just(Vec::new()), 1 => some("a b", 2)],
        some("/x /x/* /y* *", 2),
    );
    // Objects with names and paths in one rule are turned away before they reach the engine.
    let rule = rule.prop_map(|(verbs, api_groups, resources, names, urls)| PolicyRule {
        verbs,
        api_groups,
        resources,
        resource_names: if urls.is_empty() { names } else { Vec::new() },
        non_resource_urls: urls,
    });
    prop::collection::vec(rule, 0..3)
}

fn role() -> impl Strategy<Value = Role> {
    (pick("_ m n"), pick("r s"), rules()).prop_map(|(namespace, name, rules)| Role {
        namespace,
        name,
        rules,
        ..Role::default()
    })
}

fn subject() -> impl Strategy<Value = BindingSubject> {
    prop_oneof![
        pick("u v system:serviceaccount:m:a").prop_map(BindingSubject::User),
        pick("g h").prop_map(BindingSubject::Group),
        (pick("_ m n"), pick("a b"))
            .prop_map(|(namespace, name)| BindingSubject::ServiceAccount { namespace, name }),
    ]
}

fn binding() -> impl Strategy<Value = RoleBinding> {
    let role = prop_oneof![
        pick("r s").prop_map(RoleRef::ClusterRole),
        pick("r s").prop_map(RoleRef::Role)
    ];
    let subjects = prop::collection::vec(subject(), 0..4);
    (pick("_ m n"), pick("b c d"), role, subjects).prop_map(|(namespace, name, role, subjects)| {
        RoleBinding { namespace, name, role, subjects }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => role().prop_map(Step::PutRole),
        1 => (pick("_ m n"), pick("r s")).prop_map(|(place, name)| Step::RemoveRole(place, name)),
        4 => binding().prop_map(Step::PutBinding),
        2 => (pick("_ m n"), pick("b c d"))
            .prop_map(|(place, name)| Step::RemoveBinding(place, name)),
    ]
}

fn change(rbac: &mut Rbac, step: &Step) {
    match step.clone() {
        Step::PutRole(role) => rbac.put_role(role),
        Step::RemoveRole(namespace, name) => rbac.remove_role(&namespace, &name),
        Step::PutBinding(binding) => rbac.put_binding(binding),
        Step::RemoveBinding(namespace, name) => rbac.remove_binding(&namespace, &name),
    }
}

fn play(steps: &[Step]) -> (Rbac, Model) {
    let (mut rbac, mut model) = (Rbac::new(), Model::default());
    for step in steps {
        change(&mut rbac, step);
        match step.clone() {
            Step::PutRole(role) => {
                model.roles.insert((role.namespace.clone(), role.name.clone()), role);
            }
            Step::RemoveRole(namespace, name) => {
                model.roles.remove(&(namespace, name));
            }
            Step::PutBinding(binding) => {
                let key = (binding.namespace.clone(), binding.name.clone());
                model.bindings.insert(key, binding);
            }
            Step::RemoveBinding(namespace, name) => {
                model.bindings.remove(&(namespace, name));
            }
        }
    }
    (rbac, model)
}

/// Every question that the small worlds can tell apart.
fn questions() -> Vec<RequestAttributes<'static>> {
    let mut all = Vec::new();
    for verb in ["get", "create", "other"] {
        for path in ["/x", "/x/1", "/y1", "/z"] {
            all.push(RequestAttributes::Path { verb, path });
        }
        for group in ["", "apps"] {
            for (resource, subresource) in [("pods", ""), ("pods", "log"), ("jobs", "scale")] {
                for namespace in ["", "m", "n", "unknown"] {
                    for name in ["", "a"] {
                        all.push(RequestAttributes::Resource {
                            verb,
                            group,
                            resource,
                            subresource,
                            namespace,
                            name,
                        });
                    }
                }
            }
        }
    }
    all
}

fn everybody() -> Vec<(&'static str, Vec<String>)> {
    let groups = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    vec![
        ("u", groups(&[])),
        ("v", groups(&["g"])),
        ("w", groups(&["h", "g"])),
        ("system:serviceaccount:m:a", groups(&["h"])),
        ("system:serviceaccount:n:b", groups(&[])),
    ]
}

proptest! {
    #[test]
    fn r155_the_index_decides_as_reading_everything_does(
        steps in prop::collection::vec(step(), 0..24),
    ) {
        let (rbac, model) = play(&steps);
        for (user, groups) in everybody() {
            let who = Requester { user, groups: &groups };
            for asked in questions() {
                let expected = model.allowing(&who, &asked);
                match rbac.allows(&who, &asked) {
                    RbacDecision::Allow(granted) => {
                        let by = (granted.namespace.to_owned(), granted.binding.to_owned());
                        prop_assert!(expected.contains(&by), "{user} {asked:?} by {by:?}");
                    }
                    RbacDecision::NoOpinion => {
                        prop_assert!(expected.is_empty(), "{user} {asked:?}: {expected:?}");
                    }
                }
            }
        }
    }

    /// Whoever decides by a copy is not disturbed by what changes after it was made.
    #[test]
    fn r155_older_copies_decide_as_they_did(
        steps in prop::collection::vec(step(), 1..24),
        then in prop::collection::vec(step(), 1..24),
    ) {
        let (before, _) = play(&steps);
        let decide = |rbac: &Rbac| {
            let mut all = Vec::new();
            for (user, groups) in everybody() {
                let who = Requester { user, groups: &groups };
                let by = |asked: &RequestAttributes<'_>| match rbac.allows(&who, asked) {
                    RbacDecision::Allow(granted) => granted.to_string(),
                    RbacDecision::NoOpinion => String::new(),
                };
                all.extend(questions().iter().map(by));
            }
            all
        };
        let decided = decide(&before);
        let mut after = before.clone();
        then.iter().for_each(|step| change(&mut after, step));
        prop_assert_eq!(decide(&before), decided);
        let whole: Vec<Step> = steps.iter().chain(&then).cloned().collect();
        prop_assert_eq!(decide(&after), decide(&play(&whole).0));
    }

    #[test]
    fn r159_the_listed_rules_are_those_of_every_applying_role(
        steps in prop::collection::vec(step(), 0..24),
    ) {
        let (rbac, model) = play(&steps);
        for (user, groups) in everybody() {
            let who = Requester { user, groups: &groups };
            for namespace in ["", "m", "n", "unknown"] {
                let mut roles: Vec<&Role> =
                    model.applying(&who, namespace).map(|(_, role)| role).collect();
                roles.sort_by_key(|role| (&role.namespace, &role.name));
                roles.dedup_by_key(|role| (&role.namespace, &role.name));
                let expected: Vec<&PolicyRule> = roles.iter().flat_map(|role| &role.rules).collect();
                prop_assert_eq!(rbac.rules_for(&who, namespace), expected);
            }
        }
    }

    #[test]
    fn forgetting_everything_leaves_nothing_behind(
        steps in prop::collection::vec(step(), 0..24),
    ) {
        let (mut rbac, model) = play(&steps);
        for (namespace, name) in model.roles.keys() {
            rbac.remove_role(namespace, name);
        }
        for (namespace, name) in model.bindings.keys() {
            rbac.remove_binding(namespace, name);
        }
        prop_assert!(rbac.is_empty());
    }

    /// Whoever holds rules that cover a wish may do all that the wish allows.
    #[test]
    fn r158_covered_rules_allow_nothing_new(held in rules(), wanted in rules()) {
        if missing(&held, &wanted).is_empty() {
            for asked in questions() {
                if wanted.iter().any(|rule| rule.allows(&asked)) {
                    prop_assert!(held.iter().any(|rule| rule.allows(&asked)), "{asked:?}");
                }
            }
        }
    }

    /// What is missing is exactly what must be added, and rules always cover themselves.
    #[test]
    fn r158_adding_what_is_missing_covers(held in rules(), wanted in rules()) {
        let mut more = held.clone();
        more.extend(missing(&held, &wanted));
        prop_assert_eq!(missing(&more, &wanted), Vec::new());
        prop_assert_eq!(missing(&wanted, &wanted), Vec::new());
    }
}
