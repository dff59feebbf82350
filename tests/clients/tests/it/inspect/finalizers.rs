//! Rules of spec/ownership.md: finalizers of built-in controllers: a plan says what then really happens.

use serde_json::{Value, json};

use super::House;

fn claim(house: &House, name: &str) {
    let claim = json!({
        "metadata": { "name": name },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    });
    house.send("POST", "/api/v1/namespaces/default/persistentvolumeclaims", &claim);
    house.settle();
}

/// What a plan says is gone, and what stays.
fn plan(house: &House, words: &str) -> (Vec<String>, Vec<String>) {
    let plan: Value = serde_json::from_str(&house.ok(&format!("{words} -o json"))).unwrap();
    let names = |list: &str| -> Vec<String> {
        let all = plan[list].as_array().unwrap().iter();
        let mut names: Vec<String> = all
            .map(|it| format!("{}/{}", it["kind"].as_str().unwrap(), it["name"].as_str().unwrap()))
            .collect();
        names.sort();
        names
    };
    (names("gone"), names("stays"))
}

fn exists(house: &House, path: &str) -> bool {
    let (collection, name) = path.rsplit_once('/').unwrap();
    let list = super::typed::send(&house.server, "GET", collection, None);
    list["items"].as_array().unwrap().iter().any(|it| it["metadata"]["name"] == name)
}

#[test]
fn r165_r171e_a_claim_that_no_pod_uses_goes_and_one_in_use_stays() {
    let house = House::new();
    claim(&house, "free");
    claim(&house, "used");
    let pod = json!({
        "metadata": { "name": "user" },
        "spec": {
            "nodeName": "elsewhere",
            "containers": [{ "name": "c", "image": "example.com/c" }],
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "used" } }],
        },
    });
    house.send("POST", "/api/v1/namespaces/default/pods", &pod);
    house.settle();

    let (gone, stays) = plan(&house, "plan delete pvc/free");
    assert_eq!((gone, stays), (vec!["PersistentVolumeClaim/free".to_owned()], vec![]));
    let text = house.ok("plan delete pvc/free");
    assert!(text.contains("its protection ends: no pod uses the claim"), "{text}");
    let (gone, stays) = plan(&house, "plan delete pvc/used");
    assert_eq!((gone, stays), (vec![], vec!["PersistentVolumeClaim/used".to_owned()]));
    let text = house.ok("plan delete pvc/used");
    assert!(
        text.contains(
            "`kubernetes.io/pvc-protection` holds it while it is used by Pod `default/user`"
        ),
        "{text}"
    );

    for name in ["free", "used"] {
        let path = format!("/api/v1/namespaces/default/persistentvolumeclaims/{name}");
        house.send("DELETE", &path, &json!({}));
        house.settle();
        assert_eq!(exists(&house, &path), name == "used", "{name}");
    }
    // The claim that waits goes with its pod, and the plan for the pod's namespace knows.
    let why = house.ok("why pvc/used");
    assert!(why.contains("cause: it is removed when no pod uses the claim"), "{why}");
}

#[test]
fn r171e_pods_of_a_job_go_with_it() {
    let house = House::new();
    let job = json!({
        "metadata": { "name": "work" },
        "spec": { "template": { "spec": {
            "restartPolicy": "Never", "schedulerName": "nobody",
            "containers": [{ "name": "c", "image": "example.com/c" }],
        } } },
    });
    house.send("POST", "/apis/batch/v1/namespaces/default/jobs", &job);
    house.settle();
    let (gone, stays) = plan(&house, "plan delete job/work");
    assert_eq!((gone.len(), stays.len()), (2, 0), "{gone:?} {stays:?}");
    house.send(
        "DELETE",
        "/apis/batch/v1/namespaces/default/jobs/work",
        &json!({
        "propagationPolicy": "Background" }),
    );
    house.settle();
    let pods = super::typed::send(&house.server, "GET", "/api/v1/namespaces/default/pods", None);
    assert_eq!(pods["items"], json!([]), "{pods}");
}
