//! Evictions, scales, warnings and mirrored Endpoints, as upstream's source has them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

impl Asked {
    /// A pod that runs and is ready, as far as its status says.
    async fn running_pod(&self, name: &str) {
        let pod = json!({"metadata": {"name": name, "labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        self.post(&format!("{NS}/pods"), pod).await;
        let status = json!({"status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let path = format!("{NS}/pods/{name}/status");
        assert_eq!(self.ask("PATCH", &path, MERGE, status).await.0, 200);
    }

    /// Posts an eviction; the code, the body and the header `Retry-After`.
    async fn evict(&self, pod: &str, options: Value) -> (u16, Value, Option<String>) {
        let mut connection = self.access.connect().await.unwrap();
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod},
            "deleteOptions": options});
        let path = format!("{NS}/pods/{pod}/eviction");
        let body = body.to_string();
        let answer = connection.send("POST", &path, Some(body.as_bytes())).await.unwrap();
        let after = answer.header("retry-after").map(str::to_owned);
        (answer.code, answer.json().unwrap(), after)
    }

    async fn budget(&self, name: &str, spec: Value) {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": "a"}});
        self.post(BUDGETS, json!({"metadata": {"name": name}, "spec": spec})).await;
    }

    /// Asks until something holds.
    async fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        for _ in 0..500 {
            seen = self.get(path).await;
            if holds(&seen) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path}: {seen}");
    }
}

#[tokio::test]
async fn r142_the_pod_and_its_budget_come_before_the_options() {
    let asked = Asked::new();
    let wrong = json!({"propagationPolicy": "Sideways"});
    assert_eq!(asked.evict("none", wrong.clone()).await.0, 404);
    asked.running_pod("p").await;
    let (code, status, _) = asked.evict("p", wrong.clone()).await;
    assert_eq!((code, &status["details"]["kind"]), (422, &json!("DeleteOptions")), "{status}");
    asked.budget("b", json!({"minAvailable": 1})).await;
    let path = format!("{BUDGETS}/b");
    asked.until(&path, |budget| budget["status"]["currentHealthy"] == 1).await;
    assert_eq!(asked.evict("p", wrong).await.0, 429);
    let pod = asked.get(&format!("{NS}/pods/p")).await;
    assert_eq!(pod["status"]["conditions"].as_array().unwrap().len(), 1, "nothing was written");
}

#[tokio::test]
async fn r142_a_budget_that_is_spent_says_so_and_one_that_is_behind_says_when_to_ask() {
    let server = Server::start(&["--ephemeral", "--nodes", "0", "--controllers=*,-disruption"]);
    let server = server.unwrap();
    let access = server.access().unwrap();
    let asked = Asked { _server: server, access };
    for pod in ["p", "q"] {
        asked.running_pod(pod).await;
    }
    asked.budget("b", json!({"minAvailable": 1})).await;
    let (code, status, after) = asked.evict("p", json!({})).await;
    assert_eq!((code, &status["details"]["retryAfterSeconds"]), (429, &json!(10)), "{status}");
    assert_eq!(after.as_deref(), Some("10"));

    let path = format!("{BUDGETS}/b/status");
    let allowed = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1,
        "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "conditions": [
            {"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods",
                "message": "", "observedGeneration": 1, "lastTransitionTime": "2024-01-02T03:04:05Z"}]}});
    assert_eq!(asked.ask("PATCH", &path, MERGE, allowed).await.0, 200);
    assert_eq!(asked.evict("p", json!({})).await.0, 201);
    let status = asked.get(&format!("{BUDGETS}/b")).await["status"].clone();
    assert_eq!(status["disruptionsAllowed"], 0);
    let condition = &status["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"], &condition["observedGeneration"]),
        (&json!("False"), &json!("InsufficientPods"), &json!(1))
    );
    assert_ne!(condition["lastTransitionTime"], "2024-01-02T03:04:05Z");

    // The numbers still say that there are enough: then the condition, if it has words, says why not.
    let (code, refused, after) = asked.evict("q", json!({})).await;
    assert_eq!((code, &refused["details"]["retryAfterSeconds"], after), (429, &Value::Null, None));
    let mut failing = status;
    failing["conditions"][0]["reason"] = json!("SyncFailed");
    failing["conditions"][0]["message"] = json!("no scale");
    assert_eq!(asked.ask("PATCH", &path, MERGE, json!({"status": failing})).await.0, 200);
    let (_, refused, _) = asked.evict("q", json!({})).await;
    let why = refused["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(why.contains("failed sync: no scale"), "{why}");
}

#[tokio::test]
async fn r142_two_budgets_for_one_pod_settle_nothing() {
    let asked = Asked::new();
    asked.running_pod("p").await;
    for name in ["b", "c"] {
        asked.budget(name, json!({"maxUnavailable": 1})).await;
    }
    let (code, status, _) = asked.evict("p", json!({})).await;
    assert_eq!(code, 201);
    let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": status["message"], "code": 500});
    assert_eq!(status, expected);
    assert!(status["message"].as_str().unwrap().contains("more than one PodDisruptionBudget"));
    let pod = asked.get(&format!("{NS}/pods/p")).await;
    assert!(pod["metadata"].get("deletionTimestamp").is_none(), "{pod}");
}

#[tokio::test]
async fn r82a_each_version_of_a_custom_kind_has_its_replicas_elsewhere() {
    let asked = Asked::new();
    let any = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, path: Option<&str>| {
        let mut version =
            json!({"name": name, "served": true, "storage": name == "v1", "schema": any});
        if let Some(path) = path {
            version["subresources"] = json!({"scale": {"specReplicasPath": path,
                "statusReplicasPath": ".status.replicas"}});
        }
        version
    };
    asked
        .widgets(json!([
            version("v1", Some(".spec.count")),
            version("v2", Some(".spec.replicas")),
            version("v3", None)
        ]))
        .await;
    let list = |version: &str| format!("/apis/example.com/{version}/namespaces/default/widgets");
    let widget = |version: &str, spec: Value| {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget",
            "metadata": {"name": "w"}, "spec": spec})
    };
    for (version, manager, spec) in [
        ("v1", "one", json!({"count": 1, "size": 1})),
        ("v2", "two", json!({"replicas": 1, "colour": "red"})),
        ("v3", "three", json!({"more": 1})),
    ] {
        let path = format!("{}/w?fieldManager={manager}", list(version));
        let (code, applied) = asked.ask("PATCH", &path, APPLY, widget(version, spec)).await;
        assert!(matches!(code, 200 | 201), "{applied}");
    }
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"},
        "spec": {"replicas": 4}});
    let path = format!("{}/w/scale?fieldManager=scaler&force=true", list("v2"));
    let (code, refused) =
        asked.ask("PATCH", &path.replace("&force=true", ""), APPLY, scale.clone()).await;
    assert_eq!(code, 409, "{refused}");
    // Whoever has the replicas in any version has them on the Scale.
    assert_eq!(refused["details"]["causes"].as_array().unwrap().len(), 2, "{refused}");
    let (code, applied) = asked.ask("PATCH", &path, APPLY, scale).await;
    assert_eq!(code, 200, "{applied}");
    let live = asked.get(&format!("{}/w", list("v2"))).await;
    assert_eq!((&live["spec"]["replicas"], &live["spec"]["count"]), (&json!(4), &json!(1)));
    let fields = |manager: &str| {
        let all = live["metadata"]["managedFields"].as_array().unwrap();
        let own = all.iter().find(|entry| entry["manager"] == manager);
        own.map(|entry| entry["fieldsV1"]["f:spec"].clone())
    };
    assert_eq!(fields("one"), Some(json!({".": {}, "f:size": {}})));
    assert_eq!(fields("two"), Some(json!({".": {}, "f:colour": {}})));
    assert_eq!(fields("three"), Some(json!({".": {}, "f:more": {}})));
    assert_eq!(fields("scaler"), Some(json!({"f:replicas": {}})));
}

#[tokio::test]
async fn r82a_managers_of_a_version_that_is_gone_are_forgotten_by_a_scale() {
    let asked = Asked::new();
    let managed = json!([
        {"manager": "old", "operation": "Update", "apiVersion": "extensions/v1beta1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:paused": {}}}},
        {"manager": "older", "operation": "Apply", "apiVersion": "apps/v1beta2",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:paused": {}, "f:replicas": {}}}}]);
    let deployment = json!({"metadata": {"name": "d", "managedFields": managed}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    asked.post(&format!("{APPS}/deployments"), deployment.clone()).await;
    let path = format!("{APPS}/deployments/d");
    let (code, put) = asked.ask("PUT", &path, JSON, deployment).await;
    assert_eq!(code, 200, "{put}");
    let managers = |object: &Value| -> Vec<String> {
        let all = object["metadata"]["managedFields"].as_array().unwrap().iter();
        all.filter(|entry| entry["subresource"] != "status")
            .map(|entry| {
                format!("{} {}", entry["manager"].as_str().unwrap(), entry["fieldsV1"]["f:spec"])
            })
            .collect()
    };
    let before = managers(&asked.get(&path).await);
    assert!(before.iter().any(|entry| entry.starts_with("old ")), "{before:?}");
    let scale = format!("{path}/scale?fieldManager=scaler");
    let (code, scaled) = asked.ask("PATCH", &scale, MERGE, json!({"spec": {"replicas": 2}})).await;
    assert_eq!(code, 200, "{scaled}");
    let after = managers(&asked.get(&path).await);
    assert!(!after.iter().any(|entry| entry.starts_with("old ")), "{after:?}");
    assert!(after.contains(&r#"older {"f:paused":{}}"#.to_owned()), "{after:?}");
    assert!(after.contains(&r#"scaler {"f:replicas":{}}"#.to_owned()), "{after:?}");
}

#[tokio::test]
async fn r31_a_key_that_is_not_the_one_of_its_certificate_is_warned_about() {
    let asked = Asked::new();
    let made = || {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let names = rcgen::CertificateParams::new(["example.com".to_owned()]).unwrap();
        (names.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let ((certificate, key), (_, other)) = (made(), made());
    let garbage = "-----BEGIN EC PRIVATE KEY-----\nZ2FyYmFnZQ==\n-----END EC PRIVATE KEY-----\n";
    for (name, key, warning) in [
        ("pair", &*key, None),
        ("other", &*other, Some("299 - \"tls: private key does not match public key\"")),
        ("garbage", garbage, Some("299 - \"tls: failed to parse private key\"")),
    ] {
        let data =
            json!({"tls.crt": STANDARD.encode(&certificate), "tls.key": STANDARD.encode(key)});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "type": "kubernetes.io/tls", "data": data});
        let secret = secret.to_string();
        for (method, path, code) in
            [("POST", format!("{NS}/secrets"), 201), ("PUT", format!("{NS}/secrets/{name}"), 200)]
        {
            let mut connection = asked.access.connect().await.unwrap();
            let answer = connection.send(method, &path, Some(secret.as_bytes())).await.unwrap();
            assert_eq!((answer.code, answer.header("warning")), (code, warning), "{method} {name}");
        }
    }
}

/// Also a rule of spec/workload-controllers.md: es5.
#[tokio::test]
async fn r65_a_mirrored_slice_that_is_written_over_is_a_fresh_one_under_its_name() {
    let asked = Asked::new();
    let service = json!({"metadata": {"name": "m"}, "spec": {"ports": [{"port": 80}]}});
    asked.post(&format!("{NS}/services"), service).await;
    let subsets = |ip: &str| json!([{"addresses": [{"ip": ip}], "ports": [{"port": 80}]}]);
    let endpoints = json!({"metadata": {"name": "m"}, "subsets": subsets("10.1.2.3")});
    asked.post(&format!("{NS}/endpoints"), endpoints).await;
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices\
        ?labelSelector=kubernetes.io/service-name%3Dm";
    let made = asked.until(path, |slices| slices["items"].get(0).is_some()).await;
    let made = &made["items"][0]["metadata"];
    assert_eq!(made["generateName"], "m-");
    let patch = json!({"subsets": subsets("10.1.2.4")});
    assert_eq!(asked.ask("PATCH", &format!("{NS}/endpoints/m"), MERGE, patch).await.0, 200);
    let other = json!(["10.1.2.4"]);
    let slices =
        asked.until(path, |slices| slices["items"][0]["endpoints"][0]["addresses"] == other).await;
    let written = &slices["items"][0]["metadata"];
    assert_eq!((&written["name"], &written["uid"]), (&made["name"], &made["uid"]));
    assert!(written.get("generateName").is_none(), "{written}");
}
