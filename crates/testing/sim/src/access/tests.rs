//! The comparison holds on the real system, sees everything that is built in, and finds faults of each class that was
//! once found in it.

use tenure_machinery::query::Query;

use super::*;

/// So many worlds find a fault, or it is not found.
const WORLDS: u64 = 200;

/// The real system with one fault.
struct Faulty {
    real: Real,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// What is created by an update needs no right to create.
    CreateByUpdate,
    /// A field selector names what is written.
    SelectorNamesWrite,
    /// A role is free to write as long as its rules stay.
    SameRules,
    /// As before, for bindings and their subjects.
    SameSubjects,
    /// The old form of a watch takes its name from a selector.
    SelectorNamesOldWatch,
    /// A Namespace is asked about in the whole cluster.
    NamespaceOfNone,
    /// Empty segments of a path are left out.
    EmptySegments,
}

impl System for Faulty {
    fn put(&mut self, stored: &RbacObject) {
        self.real.put(stored);
    }

    fn remove(&mut self, stored: &RbacObject) {
        self.real.remove(stored);
    }

    fn attributes(&self, method: &str, target: &str) -> ModelAttributes {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if self.fault == Fault::EmptySegments && path != "/" && path != "//" {
            let whole: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            return self.real.attributes(method, &format!("/{}?{query}", whole.join("/")));
        }
        let mut read = self.real.attributes(method, target);
        let ModelAttributes::Resource { verb, namespace, name, resource, .. } = &mut read else {
            return read;
        };
        let writes = matches!(verb.as_str(), "create" | "deletecollection");
        let named = match self.fault {
            Fault::SelectorNamesWrite => writes,
            Fault::SelectorNamesOldWatch => verb == "watch",
            _ => false,
        };
        if named && name.is_empty() {
            let query = Query::parse(Some(query));
            let selector = query.text("fieldSelector");
            if let Some(selected) = selector.strip_prefix("metadata.name=") {
                selected.clone_into(name);
            }
        }
        if self.fault == Fault::NamespaceOfNone && resource == "namespaces" {
            namespace.clear();
        }
        read
    }

    fn allows(&self, person: &Person, requests: &ModelAttributes) -> bool {
        self.real.allows(person, requests)
    }

    fn to_create(&self, requests: &ModelAttributes) -> Option<ModelAttributes> {
        if self.fault == Fault::CreateByUpdate { None } else { self.real.to_create(requests) }
    }

    fn may_write(&self, person: &Person, change: &RbacWrite) -> bool {
        let same = match (self.fault, &change.old, &change.new) {
            (Fault::SameRules, Some(RbacObject::Role(old)), RbacObject::Role(new)) => {
                old.rules == new.rules && old.gathers == new.gathers
            }
            (Fault::SameSubjects, Some(RbacObject::Binding(old)), RbacObject::Binding(new)) => {
                old.subjects == new.subjects
            }
            _ => false,
        };
        same || self.real.may_write(person, change)
    }
}

fn find(fault: Fault) -> Option<Box<AccessFailure>> {
    (0..WORLDS).find_map(|seed| {
        let mut system = Faulty { real: Real::default(), fault };
        try_system(seed, DECISIONS_EACH, &mut system).err()
    })
}

#[test]
fn r158_r160_the_real_system_decides_as_the_model() {
    let mut seen = AccessCoverage::default();
    for seed in 0..40 {
        match try_seed(seed, DECISIONS_EACH) {
            Ok(more) => seen.merge(more),
            Err(failure) => panic!("{} (seed {seed})\n{}", failure.what, failure.world.join("\n")),
        }
    }
    assert_eq!(seen.missing(), Vec::<String>::new(), "after {} decisions", seen.decisions);
    // A comparison in which everything is refused, or allowed, compares nothing.
    assert!(seen.allowed > seen.decisions / 20, "{} of {}", seen.allowed, seen.decisions);
    assert!(seen.allowed < seen.decisions * 19 / 20, "{} of {}", seen.allowed, seen.decisions);
    assert!(seen.creations > 1_000 && seen.writes > 1_000, "{} {}", seen.creations, seen.writes);
}

#[test]
fn r160_creating_by_updating_is_found() {
    assert!(find(Fault::CreateByUpdate).is_some());
}

#[test]
fn r3_a_selector_that_names_a_write_is_found() {
    assert!(find(Fault::SelectorNamesWrite).is_some());
}

#[test]
fn r158_a_label_that_hands_rules_on_is_found() {
    assert!(find(Fault::SameRules).is_some());
}

#[test]
fn r2_r3_neighbours_of_these_faults_are_found() {
    for fault in [
        Fault::SameSubjects,
        Fault::SelectorNamesOldWatch,
        Fault::NamespaceOfNone,
        Fault::EmptySegments,
    ] {
        assert!(find(fault).is_some(), "{fault:?}");
    }
}

/// A model that made the same mistake would not see it: what is handed on is looked at as well.
#[test]
fn r158_what_a_label_hands_on_is_seen_without_asking_who_may_write() {
    let role = |name: &str, labels: &[(&str, &str)], gathers: Option<&str>, verb: &str| {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        ModelRole {
            name: name.to_owned(),
            labels: labels.iter().map(pair).collect(),
            gathers: gathers.map(|key| vec![(key.to_owned(), "true".to_owned())]),
            rules: vec![ModelRule {
                verbs: vec![verb.to_owned()],
                groups: vec![String::new()],
                resources: vec!["secrets".to_owned()],
                ..ModelRule::default()
            }],
            ..ModelRole::default()
        }
    };
    let mut model = Model::default();
    model.put(RbacObject::Role(role("view", &[], Some("to-view"), "get")));
    model.put(RbacObject::Role(role("strong", &[], None, "get")));
    model.put(RbacObject::Binding(ModelBinding {
        name: "b".to_owned(),
        role: ("ClusterRole".to_owned(), "view".to_owned()),
        subjects: vec![("User".to_owned(), String::new(), "u".to_owned())],
        ..ModelBinding::default()
    }));
    let u = Person { user: "u".to_owned(), groups: Vec::new() };
    let requests = line::attributes("GET", "/api/v1/secrets/a");
    assert!(!model.allows(&u, &requests));
    model.put(RbacObject::Role(role("strong", &[("to-view", "true")], None, "get")));
    assert!(model.allows(&u, &requests));
}
