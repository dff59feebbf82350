//! Rules of spec/retention.md, section 7: what may not be collected, and for how long.

use serde_json::json;

use super::*;

const MAPS_ONLY: [bool; 1] = [false];

impl Place<'_> {
    /// A pod of its own that mentions these.
    async fn pod(&self, name: &str, refs: &[&str]) {
        let mut pod = self.template(name, refs, "v1");
        pod["metadata"]["name"] = json!(name);
        self.house.made(&self.path("/api/v1/namespaces/NS/pods"), pod).await;
    }

    async fn end_pod(&self, name: &str) {
        let path = self.path("/api/v1/namespaces/NS/pods");
        self.house.delete(&format!("{path}/{name}?gracePeriodSeconds=0")).await.with(200);
    }
}

#[tokio::test]
async fn r50_r52_r57_a_pod_of_its_own_holds_until_it_ends() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
        place.pod("other", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        place.end("web", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap().len(), 1, "{}", place.about("a"));
        place.told("a", "RetentionHeld").await;
        // A pod that has ended holds no longer, though it is still there.
        let path = place.path("/api/v1/namespaces/NS/pods/other/status");
        let ended = json!({ "status": { "phase": "Succeeded" } });
        village.estate.house.merge(&path, ended).await.with(200);
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
    }
}

#[tokio::test]
async fn r52_r53_running_job_pod_holds_and_its_template_does_not() {
    let village = Village::with(&[Kind::Deployment], &[false, true]).await;
    let jobs = "/apis/batch/v1/namespaces/NS/jobs";
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
        let mut template = place.template("job", &["a"], "v1");
        template["metadata"]["annotations"] = json!({ "tenure.dev/outcome": "run" });
        template["spec"]["restartPolicy"] = json!("Never");
        let job = json!({
            "metadata": { "name": "job" }, "spec": { "template": template, "backoffLimit": 0 },
        });
        village.estate.house.made(&place.path(jobs), job).await;
    }
    village.settle().await;
    for place in village.places() {
        place.end("web", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert!(place.find("a").await.is_some(), "{}: the job runs", place.about("a"));
        let path = format!("{}/job", place.path(jobs));
        village.estate.house.merge(&path, json!({ "spec": { "suspend": true } })).await.with(200);
    }
    village.settle().await;
    for place in village.places() {
        assert!(place.pods().await.is_empty(), "{}", place.about("pods"));
        assert_eq!(place.owners("a").await, None, "{}: only a template is left", place.about("a"));
    }
}

#[tokio::test]
async fn r25_r53_cronjob_between_runs_default() {
    let village = Village::with(&[Kind::Deployment], &MAPS_ONLY).await;
    for place in village.places() {
        place.subject("a").await;
        let mut template = place.template("job", &["a"], "v1");
        template["spec"]["restartPolicy"] = json!("Never");
        let cron = json!({
            "metadata": { "name": "cron" },
            "spec": {
                "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template } },
            },
        });
        let path = place.path("/apis/batch/v1/namespaces/NS/cronjobs");
        village.estate.house.made(&path, cron).await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await.unwrap(), place.holders("web").await);
        place.end("web", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None);
    }
}

#[tokio::test]
async fn r48_r51_the_template_of_a_root_holds_without_a_holder() {
    let village = Village::new(&[Kind::Deployment]).await;
    for place in village.places() {
        place.subject("a").await;
        place.subject("b").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        // Paused: the template has no ReplicaSet, and the one there is goes (R48).
        place.change("web", json!({ "paused": true })).await;
        place.update_paused("web", &["a", "b"]).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("b").await.unwrap(), Vec::new(), "no holder yet");
        for holder in place.holder_objects("web").await {
            let path = format!("{}/{}", place.path(place.kind.holders()), name(&holder));
            village.estate.house.delete(&path).await.with(200);
        }
    }
    village.settle().await;
    for place in village.places() {
        assert!(place.find("a").await.is_some(), "{}: the root needs it", place.about("a"));
        assert!(place.find("b").await.is_some(), "{}", place.about("b"));
        place.end("web", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None, "{}", place.about("a"));
        assert!(place.find("b").await.is_some(), "it was never owned");
    }
}

impl Place<'_> {
    async fn update_paused(&self, name: &str, refs: &[&str]) {
        self.update(name, refs, "v2").await;
    }
}

#[tokio::test]
async fn r16_a_pull_secret_of_the_account_holds_and_owns_nothing() {
    let village = Village::with(&[Kind::Deployment], &[true]).await;
    for place in village.places() {
        place.subject("pull").await;
        let account = place.path("/api/v1/namespaces/NS/serviceaccounts/default");
        let secrets = json!({ "imagePullSecrets": [{ "name": "pull" }] });
        village.estate.house.merge(&account, secrets).await.with(200);
        place.root("web", &[]).await;
        place.root("named", &["pull"]).await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("pull").await.unwrap(), place.holders("named").await);
        place.end("named", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert!(place.find("pull").await.is_some(), "a pod of web pulls with it");
        place.end("web", "Background").await;
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("pull").await, None);
    }
}

#[tokio::test]
async fn r40_guard_user_delete_passes() {
    let village = Village::new(&ALL).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        village.estate.house.delete(&place.subject_path("a")).await.with(200);
        assert_eq!(place.owners("a").await, None);
    }
    village.settle().await;
    for place in village.places() {
        assert_eq!(place.owners("a").await, None);
    }
}

#[tokio::test]
async fn r50_namespace_delete_passes() {
    let village = Village::new(&[Kind::Deployment]).await;
    for place in village.places() {
        place.subject("a").await;
        place.root("web", &["a"]).await;
        // It would hold for ever.
        place.pod("other", &["a"]).await;
    }
    village.settle().await;
    for place in village.places() {
        village.estate.house.delete(&format!("{NAMESPACES}/{}", place.namespace)).await.with(200);
    }
    for place in village.places() {
        village.estate.house.until(&format!("{NAMESPACES}/{}", place.namespace), 404).await;
    }
}

#[tokio::test]
async fn r56_guard_fail_closed() {
    // Without the controller nobody knows who needs a subject: nothing that opted in is collected.
    let controllers = ["-retention-controller", "*"].map(str::to_owned);
    let controllers = Controllers::named(&controllers).unwrap();
    let estate = Estate::run_by(House::collecting().await, controllers).await;
    let owner = estate.map("owner", &[]).await;
    let mut body = owned("kept", &[to(&owner)]);
    body["controllersAsOwners"] = json!(true);
    estate.house.made(CONFIG_MAPS, body).await;
    estate.map("plain", &[to(&owner)]).await;
    estate.end("owner", "Background").await;
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["kept"]);
    estate.house.delete(&format!("{CONFIG_MAPS}/kept")).await.with(200);
}

#[tokio::test]
async fn r50_a_subject_with_other_owners_is_guarded_too() {
    let village = Village::with(&[Kind::Deployment], &MAPS_ONLY).await;
    let place = village.places().next().unwrap();
    let house = &village.estate.house;
    let owner = house.made(&place.subjects(), named("owner")).await;
    let mut body = owned("a", &[to(&owner)]);
    body["controllersAsOwners"] = json!(true);
    house.made(&place.subjects(), body).await;
    place.pod("user", &["a"]).await;
    village.settle().await;
    house.delete(&place.subject_path("owner")).await.with(200);
    village.settle().await;
    assert!(place.find("a").await.is_some(), "a pod uses it");
    place.end_pod("user").await;
    village.settle().await;
    assert_eq!(place.find("a").await, None);
}
