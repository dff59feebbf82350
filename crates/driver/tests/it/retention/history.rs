//! Rules of spec/retention.md, section 5: rollouts, rollbacks, pruned histories and deleted roots.

use serde_json::json;

use super::*;

/// A root with a history of this length.
async fn with_limit(place: &Place<'_>, limit: u32, refs: &[&str]) {
    place.root_with("web", refs, json!({ "revisionHistoryLimit": limit })).await;
}

#[tokio::test]
async fn r34_rollback_reuses_owner() {
    let village = Village::new(&ROOTS).await;
    for place in village.places() {
        for name in ["a", "b", "c"] {
            place.subject(name).await;
        }
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for next in ["b", "c"] {
        for place in village.places() {
            place.update("web", &[next], "v1").await;
        }
        village.settle().await;
    }
    let mut before = Vec::new();
    for place in village.places() {
        before.push(place.find("a").await.unwrap());
        place.update("web", &["a"], "v1").await;
    }
    village.settle().await;
    for (place, before) in village.places().zip(before) {
        assert_eq!(place.find("a").await.unwrap(), before, "{}", place.about("a"));
        assert_eq!(place.holders("web").await.len(), 3, "{}", place.about("holders"));
        for name in ["b", "c"] {
            assert_eq!(place.owners(name).await.unwrap().len(), 1, "{}", place.about(name));
        }
        let pods = place.pods().await;
        let of = |pod: &Value| pod["spec"]["volumes"][0]["name"] == json!("a");
        assert!(!pods.is_empty() && pods.iter().all(of), "{}", place.about("pods"));
    }
}

#[tokio::test]
async fn r33_history_limit_prunes_subject() {
    let village = Village::new(&ROOTS).await;
    for place in village.places() {
        for name in ["a", "b", "c", "d"] {
            place.subject(name).await;
        }
        with_limit(&place, 1, &["a"]).await;
    }
    village.settle().await;
    // The subject goes exactly when its last holder does: with a limit of one, two revisions later.
    for (number, next) in ["b", "c", "d"].into_iter().enumerate() {
        for place in village.places() {
            place.update("web", &[next], "v1").await;
        }
        village.settle().await;
        for place in village.places() {
            let left = [place.find("a").await, place.find("b").await, place.find("c").await];
            let left: Vec<bool> = left.iter().map(Option::is_some).collect();
            let want = [[true, true, true], [false, true, true], [false, false, true]][number];
            assert_eq!(left, want, "{} after {next}", place.about("what is left"));
        }
    }
    for place in village.places() {
        assert_eq!(place.owners("d").await.unwrap().len(), 1);
        place.told("a", "RetentionCollected").await;
    }
}

#[tokio::test]
async fn r33_history_limit_zero() {
    let village = Village::new(&ROOTS).await;
    for place in village.places() {
        place.subject("a").await;
        place.subject("b").await;
        with_limit(&place, 0, &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        place.update("web", &["b"], "v1").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
        assert_eq!(place.owners("b").await.unwrap(), place.holders("web").await);
    }
}

#[tokio::test]
async fn r49_scale_to_zero_keeps_subject() {
    let kinds = [Kind::Deployment, Kind::StatefulSet, Kind::ReplicaSet, Kind::Controller];
    let village = Village::new(&kinds).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    let mut before = Vec::new();
    for place in village.places() {
        before.push(place.find("a").await);
        place.change("web", json!({ "replicas": 0 })).await;
    }
    village.settle().await;
    for (place, before) in village.places().zip(before) {
        assert!(place.pods().await.is_empty());
        assert_eq!(place.find("a").await, before, "{}", place.about("a"));
    }
}

#[tokio::test]
async fn r35_delete_background_collects() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.subject("b").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        place.end("web", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
        assert!(place.find("b").await.is_some(), "never used, never owned, never collected");
        place.told("a", "RetentionCollected").await;
    }
}

#[tokio::test]
async fn r36_delete_foreground_not_blocked() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
        // It uses the subject for longer than the root is there.
        let mut pod = place.template("other", &["a"], "v1");
        pod["metadata"]["name"] = json!("other");
        village.estate.house.made(&place.path("/api/v1/namespaces/NS/pods"), pod).await;
    }
    village.settle().await;
    for place in village.places() {
        place.end("web", "Foreground").await;
    }
    village.settle().await;
    for place in village.places() {
        let gone = village.estate.house.get(&place.root_path("web")).await;
        assert_eq!(gone.code, 404, "{}", place.about("web"));
        assert!(place.find("a").await.is_some(), "{}", place.about("a"));
        place.end_pods().await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
    }
}

#[tokio::test]
async fn r24_r37_r45_delete_orphan_then_readopt() {
    let village = Village::new(&ROOTS).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    let mut before = Vec::new();
    for place in village.places() {
        before.push(place.find("a").await);
        place.end("web", "Orphan").await;
    }
    village.settle().await;
    for (place, before) in village.places().zip(&before) {
        assert_eq!(place.find("a").await, *before, "{}", place.about("a"));
        assert_eq!(place.holders("web").await.len(), 1);
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for (place, before) in village.places().zip(&before) {
        assert_eq!(place.find("a").await, *before, "{}", place.about("a"));
        let holders = place.holder_objects("web").await;
        let adopted = |holder: &Value| !entries(holder).is_empty();
        assert!(holders.len() == 1 && holders.iter().all(adopted), "{}", place.about("web"));
    }
}

#[tokio::test]
async fn r38_delete_orphan_then_readopt_of_a_holder() {
    let village = Village::new(&PLAIN).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        place.end("web", "Orphan").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), Vec::new(), "{}", place.about("a"));
        place.told("a", "RetentionOrphaned").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), place.holders("web").await);
    }
}

#[tokio::test]
async fn r38_default_deletion_of_rc_orphans() {
    let village = Village::new(&[Kind::Controller]).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        village.estate.house.delete(&place.root_path("web")).await.with(200);
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), Vec::new(), "{}", place.about("a"));
        assert_eq!(place.pods().await.len(), 1);
        place.told("a", "RetentionOrphaned").await;
    }
}

#[tokio::test]
async fn r26_partition_rollout_both_revisions_own() {
    let village = Village::new(&[Kind::StatefulSet]).await;
    for place in village.places() {
        place.subject("a").await;
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } });
        place.root_with("web", &["a"], json!({ "replicas": 2, "updateStrategy": strategy })).await;
    }
    village.settle().await;
    for place in village.places() {
        place.update("web", &["a"], "v2").await;
    }
    village.settle().await;
    for place in village.places() {
        let image = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
        let mut images: Vec<Value> = place.pods().await.iter().map(image).collect();
        images.sort_by_key(Value::to_string);
        assert_eq!(images, ["example.com/app:v1", "example.com/app:v2"], "{}", place.about("pods"));
        let holders = place.holders("web").await;
        assert_eq!(holders.len(), 2);
        assert_eq!(place.owners("a").await.unwrap(), holders, "{}", place.about("a"));
    }
}

#[tokio::test]
async fn r33_r52_ondelete_strategy_old_revision_held_by_pods() {
    let village = Village::new(&[Kind::StatefulSet, Kind::DaemonSet]).await;
    for place in village.places() {
        place.subject("a").await;
        place.subject("b").await;
        let extra = json!({ "revisionHistoryLimit": 0, "updateStrategy": { "type": "OnDelete" } });
        place.root_with("web", &["a"], extra).await;
    }
    village.settle().await;
    for place in village.places() {
        place.update("web", &["b"], "v1").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap().len(), 1, "{}: its pod runs", place.about("a"));
        assert_eq!(place.owners("b").await.unwrap().len(), 1, "{}", place.about("b"));
        place.end_pods().await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
        assert_eq!(place.owners("b").await.unwrap(), place.holders("web").await);
    }
}

#[tokio::test]
async fn r30_hash_collision_new_name_still_owned() {
    let village = Village::new(&ROOTS).await;
    for place in village.places() {
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    let mut taken = Vec::new();
    for place in village.places() {
        taken.push(place.holder_objects("web").await.remove(0));
        place.end("web", "Background").await;
    }
    village.settle().await;
    // Somebody else has the name that the revision would get.
    for (place, holder) in village.places().zip(&taken) {
        let mut other = holder.clone();
        other["metadata"] = json!({ "name": name(holder) });
        if place.kind == Kind::Deployment {
            other["spec"]["selector"] = json!({ "matchLabels": { "app": "else" } });
            other["spec"]["template"] = place.template("else", &[], "v1");
            other["spec"]["replicas"] = json!(0);
        } else {
            other["data"] = json!({ "spec": { "template": place.template("else", &[], "v1") } });
        }
        village.estate.house.made(&place.path(place.kind.holders()), other).await;
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for (place, holder) in village.places().zip(&taken) {
        let owners = place.owners("a").await.unwrap();
        assert_eq!(owners.len(), 1, "{}", place.about("a"));
        assert_ne!(owners[0].1, name(holder), "{}", place.about("a"));
        assert!(place.holders("web").await.contains(&owners[0]));
    }
}

#[tokio::test]
async fn r32_r33_r34_three_updates_a_rollback_and_what_the_limit_prunes() {
    let village = Village::new(&ROOTS).await;
    for place in village.places() {
        for name in ["a", "b", "c", "d", "e"] {
            place.subject(name).await;
        }
        with_limit(&place, 2, &["a"]).await;
    }
    village.settle().await;
    // Left of a, b, c, d after each step; a rollback makes the first revision the newest.
    let steps = [
        ("b", [true, true, true, true]),
        ("c", [true, true, true, true]),
        ("a", [true, true, true, true]),
        ("d", [true, false, true, true]),
        ("e", [true, false, false, true]),
    ];
    for (next, want) in steps {
        for place in village.places() {
            place.update("web", &[next], "v1").await;
        }
        village.settle().await;
        for place in village.places() {
            let mut left = Vec::new();
            for name in ["a", "b", "c", "d"] {
                left.push(place.find(name).await.is_some());
            }
            assert_eq!(left, want, "{} after {next}", place.about("what is left"));
            for holder in place.holder_objects("web").await {
                let template = match place.kind {
                    Kind::Deployment => &holder["spec"]["template"],
                    _ => &holder["data"]["spec"]["template"],
                };
                let needs = template["spec"]["volumes"][0]["name"].as_str().unwrap();
                let owners = place.owners(needs).await.unwrap();
                assert!(owners.iter().any(|owner| owner.1 == name(&holder)), "{needs}: {owners:?}");
            }
        }
    }
}
