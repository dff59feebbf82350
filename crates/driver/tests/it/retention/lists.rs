//! Rules of spec/retention.md, sections 4 and 5: who owns whom after each step.

use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn r19_r20_r21_r22_r23_r27_r30_create_sets_owner() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        let holders = place.holders("web").await;
        assert_eq!(holders.len(), 1, "{}", place.about("holders"));
        assert_eq!(place.owners("a").await.unwrap(), holders, "{}", place.about("a"));
        let subject = place.find("a").await.unwrap();
        let [entry] = &entries(&subject)[..] else { panic!("{subject}") };
        let group = if place.kind == Kind::Controller { "v1" } else { "apps/v1" };
        assert_eq!(entry["apiVersion"], json!(group));
        assert_eq!(
            (&entry["controller"], &entry["blockOwnerDeletion"]),
            (&Value::Null, &Value::Null)
        );
        let managers = subject["metadata"]["managedFields"].as_array().unwrap();
        let ours = managers.iter().find(|m| m["manager"] == json!("tenure-retention")).unwrap();
        assert_ne!(ours["fieldsV1"]["f:metadata"]["f:ownerReferences"], Value::Null);
        place.told("a", "RetentionOwned").await;
    }
}

#[tokio::test]
async fn r39_r64_create_root_before_subject() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.events("a").await, Vec::<String>::new(), "a missing one is nobody's news");
        place.subject("a").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), place.holders("web").await);
    }
}

#[tokio::test]
async fn r1_r14_create_without_optin_sets_nothing() {
    let village = Village::new(&ALL).await;
    let mut before = Vec::new();
    for place in village.places() {
        place.plain_subject("a").await;
        before.push(place.find("a").await);
        place.subject("elsewhere").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for (place, before) in village.places().zip(before) {
        let none: Vec<Entry> = Vec::new();
        assert_eq!(place.owners("a").await.unwrap(), none);
        assert_eq!(place.owners("elsewhere").await.unwrap(), none);
        assert_eq!(place.find("a").await, before, "untouched");
    }
}

#[tokio::test]
async fn r26_r32_template_update_same_refs() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        place.update("web", &["a"], "v2").await;
    }
    village.settle().await;
    for place in village.places() {
        let holders = place.holders("web").await;
        let count = if PLAIN.contains(&place.kind) { 1 } else { 2 };
        assert_eq!(holders.len(), count, "{}", place.about("holders"));
        assert_eq!(place.owners("a").await.unwrap(), holders, "{}", place.about("a"));
    }
}

#[tokio::test]
async fn r32_template_update_new_ref_keeps_old() {
    let village = Village::new(&ROOTS).await;
    for place in village.places() {
        place.subject("a").await;
        place.subject("b").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    let mut first = Vec::new();
    for place in village.places() {
        first.push(place.owners("a").await.unwrap());
        place.update("web", &["b"], "v1").await;
    }
    village.settle().await;
    for (place, first) in village.places().zip(first) {
        assert_eq!(place.owners("a").await.unwrap(), first, "{}", place.about("a"));
        let holders = place.holders("web").await;
        let second: Vec<Entry> = holders.into_iter().filter(|h| !first.contains(h)).collect();
        assert_eq!(place.owners("b").await.unwrap(), second, "{}", place.about("b"));
    }
}

#[tokio::test]
async fn r31_template_update_removes_after_pods_gone() {
    let village = Village::new(&PLAIN).await;
    for place in village.places() {
        place.subject("a").await;
        place.subject("b").await;
        place.root("web", &["a"]).await;
        place.root("other", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        place.update("web", &["b"], "v1").await;
    }
    village.settle().await;
    let names = |entries: Vec<Entry>| -> Vec<String> { entries.into_iter().map(|e| e.1).collect() };
    for place in village.places() {
        let owners = names(place.owners("a").await.unwrap());
        assert_eq!(owners, ["other", "web"], "the pods of web go on with a");
        assert_eq!(names(place.owners("b").await.unwrap()), ["web"]);
        place.end_pods().await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(names(place.owners("a").await.unwrap()), ["other"]);
        assert_eq!(names(place.owners("b").await.unwrap()), ["web"]);
    }
}

#[tokio::test]
async fn r31_template_update_last_owner_collects() {
    let village = Village::new(&PLAIN).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        place.update("web", &[], "v1").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap().len(), 1, "its pod uses it");
        place.end_pods().await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
        place.told("a", "RetentionCollected").await;
    }
}

#[tokio::test]
async fn r44_two_roots_share_subject() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("one", &["a"]).await;
        place.root("two", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap().len(), 2, "{}", place.about("a"));
        place.end("one", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), place.holders("two").await);
        place.end("two", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
    }
}

#[tokio::test]
async fn r41_r42_subject_recreated_new_uid() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.subject("b").await;
        place.root("web", &["a", "b"]).await;
    }
    village.settle().await;
    for place in village.places() {
        for name in ["a", "b"] {
            village.estate.house.delete(&place.subject_path(name)).await.with(200);
        }
        place.subject("a").await;
        place.plain_subject("b").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), place.holders("web").await);
        assert_eq!(place.owners("b").await.unwrap(), Vec::new(), "{}", place.about("b"));
    }
}

#[tokio::test]
async fn r43_a_holder_made_again_owns_again() {
    let village = Village::new(&PLAIN).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
        // Somebody else's pod needs the subject while the holder is away; its own pods go with it.
        let mut pod = place.template("other", &["a"], "v1");
        pod["metadata"]["name"] = json!("other");
        village.estate.house.made(&place.path("/api/v1/namespaces/NS/pods"), pod).await;
    }
    village.settle().await;
    for place in village.places() {
        place.end("web", "Background").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        let subject = place.find("a").await.unwrap();
        let [entry] = &entries(&subject)[..] else { panic!("{subject}") };
        let root = village.estate.house.get(&place.root_path("web")).await.with(200);
        assert_eq!(entry["uid"], root["metadata"]["uid"], "{}", place.about("a"));
    }
}

#[tokio::test]
async fn r29_foreign_owner_survives() {
    let village = Village::new(&PLAIN).await;
    for place in village.places() {
        let root = place.root("web", &["b"]).await;
        let group = if place.kind == Kind::Controller { "v1" } else { "apps/v1" };
        let by_hand = reference(&root, group, place.kind.holder_kind());
        let body = json!({
            "metadata": { "name": "a", "ownerReferences": [by_hand] }, "controllersAsOwners": true,
        });
        village.estate.house.made(&place.subjects(), body).await;
        place.root("other", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap().len(), 2);
        place.update("web", &["c"], "v2").await;
        place.update("other", &[], "v2").await;
        place.end_pods().await;
    }
    village.settle().await;
    for place in village.places() {
        let names: Vec<_> = place.owners("a").await.unwrap().into_iter().map(|e| e.1).collect();
        assert_eq!(names, ["web"], "what a person wrote stays");
    }
}

#[tokio::test]
async fn r27_r29_existing_controller_owner_survives() {
    let village = Village::new(&ALL).await;
    let mut before = Vec::new();
    for place in village.places() {
        let boss_path = place.path("/api/v1/namespaces/NS/services");
        let boss = json!({ "metadata": { "name": "boss" }, "spec": { "ports": [{ "port": 80 }] } });
        let boss = village.estate.house.made(&boss_path, boss).await;
        let mut controller = reference(&boss, "v1", "Service");
        controller["controller"] = json!(true);
        controller["blockOwnerDeletion"] = json!(true);
        let body = json!({
            "metadata": { "name": "a", "ownerReferences": [controller] }, "controllersAsOwners": true,
        });
        village.estate.house.made(&place.subjects(), body).await;
        before.push(controller);
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for (place, controller) in village.places().zip(&before) {
        let subject = place.find("a").await.unwrap();
        assert_eq!(entries(&subject).len(), 2, "{}", place.about("a"));
        assert_eq!(entries(&subject)[0], *controller);
        place.end("web", "Background").await;
    }
    village.settle().await;
    for (place, controller) in village.places().zip(&before) {
        let subject = place.find("a").await.unwrap();
        assert_eq!(
            entries(&subject)[..],
            *std::slice::from_ref(controller),
            "{}",
            place.about("a")
        );
    }
}

#[tokio::test]
async fn r10_r13_immutable_and_optional_subjects_are_owned() {
    let village = Village::with(&[Kind::Deployment], &[false, true]).await;
    for place in village.places() {
        let body = json!({
            "metadata": { "name": "a" }, "controllersAsOwners": true, "immutable": true,
            "data": { "k": "dg==" },
        });
        village.estate.house.made(&place.subjects(), body).await;
        let mut template = place.template("web", &["a"], "v1");
        let source = if place.secret { "secret" } else { "configMap" };
        template["spec"]["volumes"][0][source]["optional"] = json!(true);
        place.root_with("web", &[], json!({ "template": template })).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), place.holders("web").await);
        assert_eq!(place.find("a").await.unwrap()["data"]["k"], json!("dg=="));
    }
}
