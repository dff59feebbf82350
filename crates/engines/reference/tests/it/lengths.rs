//! Rules of spec/referential-authorization.md, R173: what is asked for must be the very target, however long its parts are.
//!
//! Short texts are compared as words and long ones as bytes; here every part is of every kind of length.

use serde_json::json;
use tenure_reference::*;

const GROUPS: [&str; 3] = ["", "x.io", "gateway.networking.k8s.io"];
const RESOURCES: [&str; 5] =
    ["cms", "secrets", "persistents", "sixteen-letters0", "persistentvolumeclaims"];
const LENGTHS: [usize; 9] = [1, 3, 4, 7, 8, 9, 15, 16, 63];
const USERS: [&str; 4] =
    ["a", "fifteen-letters", "sixteen-letters0", "system:serviceaccount:one:two"];

fn text(length: usize) -> String {
    "abcdefghijklmnopqrstuvwxyz0123456789".chars().cycle().take(length).collect()
}

/// Texts that are nearly the same: another letter at the ends and in the middle, one letter more and less.
fn nearly(text: &str) -> Vec<String> {
    let mut others = vec![format!("{text}a"), text.get(1..).unwrap().to_owned()];
    for at in [0, text.len() / 2, text.len().saturating_sub(1)] {
        if let (Some(before), Some(after)) = (text.get(..at), text.get(at + 1..)) {
            others.push(format!("{before}_{after}"));
        }
    }
    others
}

fn resources() -> impl Iterator<Item = (&'static str, &'static str)> + Clone {
    GROUPS.into_iter().flat_map(|group| RESOURCES.map(|resource| (group, resource)))
}

/// An index where origins of one type point at one target of every type, in namespaces and with names of every
/// length.
fn index() -> Index {
    let (mut index, mut out) = (Index::new(7), Outputs::default());
    let row = |resource: Resource, kind: &str| ServedType {
        resource,
        kind: kind.into(),
        namespaced: true,
        versions: vec!["v1".into()],
    };
    let origin = Resource::new("o.io", "origins");
    let targets = resources().map(|(group, resource)| Resource::new(group, resource));
    let served = targets.clone().map(|target| row(target, "Target"));
    index.apply(
        IndexEvent::Served(served.chain([row(origin.clone(), "Origin")]).collect()),
        &mut out,
    );
    let references = targets.clone().map(|target| ReferencePath {
        finder: Finder::Path(path::JsonPath::parse("$.names[*]").unwrap()),
        target,
        purpose: "use".into(),
        namespace_path: None,
        allow_cluster_scoped: false,
    });
    let versions = vec![VersionPaths {
        version: "v1".into(),
        class_path: None,
        references: references.collect(),
    }];
    let strategy = Strategy { name: "all".into(), origin: origin.clone(), versions };
    index.apply(IndexEvent::PutStrategy(strategy), &mut out);
    for user in USERS {
        let references = targets.clone().map(|target| Triple {
            origin: origin.clone(),
            target,
            purpose: "use".into(),
        });
        let consumer = Consumer {
            name: user.into(),
            subject: Subject::User(user.into()),
            class_names: Vec::new(),
            class_selector: None,
            references: references.collect(),
        };
        index.apply(IndexEvent::PutConsumer(consumer), &mut out);
    }
    for kind in [ReferenceApiKind::Consumer, ReferenceApiKind::Strategy, ReferenceApiKind::Grant] {
        index.apply(IndexEvent::Synced(Synced::Kind(kind)), &mut out);
    }
    let names = LENGTHS.map(text);
    let object = json!({ "names": names });
    for namespace in &names {
        let name = OriginName { group: "o.io", resource: "origins", namespace, name: "one" };
        index.apply(
            IndexEvent::PutOrigin(Origin { name, version: "v1", object: &object }),
            &mut out,
        );
    }
    let synced = Synced::Origins { group: "o.io", resource: "origins", version: "v1" };
    index.apply(IndexEvent::Synced(synced), &mut out);
    index
}

fn asked<'a>(
    user: &'a str,
    (group, resource): (&'a str, &'a str),
    namespace: &'a str,
    name: &'a str,
) -> Attributes<'a> {
    Attributes { user, groups: &[], verb: "get", group, resource, subresource: "", namespace, name }
}

#[test]
fn r173_parts_of_every_length_are_told_apart() {
    let mut index = index();
    let view = index.publish();
    let may = |asked: Attributes<'_>| view.decide(&asked).is_allowed();
    let names = LENGTHS.map(text);
    let mut allowed = 0;
    for (of, namespace, name) in resources().flat_map(|of| {
        let names = &names;
        names.iter().flat_map(move |namespace| names.iter().map(move |name| (of, namespace, name)))
    }) {
        for user in USERS {
            assert!(may(asked(user, of, namespace, name)), "{user} {of:?} {namespace} {name}");
            allowed += 1;
        }
        let user = USERS[0];
        for other in nearly(name) {
            let known = names.contains(&other);
            assert_eq!(may(asked(user, of, namespace, &other)), known, "{of:?} {other}");
            assert_eq!(may(asked(user, of, &other, name)), names.contains(&other), "{other}");
        }
        for other in nearly(of.1) {
            assert!(!may(asked(user, (of.0, &other), namespace, name)), "{other}");
        }
        for other in nearly("x.io").into_iter().chain(nearly(GROUPS[2])) {
            assert!(!may(asked(user, (&other, of.1), namespace, name)), "{other}");
        }
    }
    assert_eq!(allowed, 15 * 9 * 9 * 4);
    for user in USERS.into_iter().flat_map(nearly) {
        let name = &names[0];
        let is_known = USERS.contains(&user.as_str());
        assert_eq!(may(asked(&user, ("", "secrets"), name, name)), is_known, "{user}");
    }
    assert_eq!(view.live_targets(USERS[0], &[]).count(), 15 * 9 * 9);
    assert_eq!(view.live_targets("nobody", &[]).count(), 0);
    let in_part = |part| view.live_part(part, USERS[0], &[]).count();
    assert_eq!((0..CapabilityView::PARTS).map(in_part).sum::<usize>(), 15 * 9 * 9);
    assert_eq!(in_part(CapabilityView::PARTS), 0);
}
