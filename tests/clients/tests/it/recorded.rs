//! Short histories over HTTP, one per place where recordings of upstream that nobody had seen differed. What is
//! asked for was read in upstream's source; rule numbers are those of spec/api-server.md.

mod pods;
mod subresources;

use std::time::Duration;

use serde_json::{Value, json};
use tenure_client_tests::{Access, Server};

const NS: &str = "/api/v1/namespaces/default";
const APPS: &str = "/apis/apps/v1/namespaces/default";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A server, and somebody who may ask everything.
struct Asked {
    _server: Server,
    access: Access,
}

impl Asked {
    fn new() -> Asked {
        let server = Server::start(&["--ephemeral", "--nodes", "0"]).unwrap();
        let access = server.access().unwrap();
        Asked { _server: server, access }
    }

    async fn text(&self, method: &str, path: &str, kind: &str, body: &str) -> (u16, Value) {
        self.with(method, path, &format!("content-type: {kind}\r\n"), body).await
    }

    /// Asks with these header lines.
    async fn with(&self, method: &str, path: &str, lines: &str, body: &str) -> (u16, Value) {
        let mut connection = self.access.connect().await.unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: server\r\n{lines}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write(head.as_bytes()).await.unwrap();
        let answer = connection.answer().await.unwrap();
        (answer.code, answer.json().unwrap_or(Value::Null))
    }

    async fn ask(&self, method: &str, path: &str, kind: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.text(method, path, kind, &body).await
    }

    async fn get(&self, path: &str) -> Value {
        let (code, json) = self.ask("GET", path, JSON, Value::Null).await;
        assert_eq!(code, 200, "{path}: {json}");
        json
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (code, json) = self.ask("POST", path, JSON, body).await;
        assert_eq!(code, 201, "{path}: {json}");
        json
    }

    /// The causes of a refusal with 422, as `field reason`.
    async fn causes(&self, method: &str, path: &str, kind: &str, body: Value) -> Vec<String> {
        let (code, json) = self.ask(method, path, kind, body).await;
        assert_eq!(code, 422, "{path}: {json}");
        let causes = json["details"]["causes"].as_array().unwrap();
        let shown = |c: &Value| {
            format!("{} {}", c["field"].as_str().unwrap(), c["reason"].as_str().unwrap())
        };
        causes.iter().map(shown).collect()
    }

    /// Makes a definition of widgets and waits until they are served.
    async fn widgets(&self, versions: Value) {
        let definition = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions,
                "names": {"kind": "Widget", "plural": "widgets"}},
        });
        self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        for _ in 0..200 {
            let path = "/apis/example.com/v1/namespaces/default/widgets";
            if self.ask("GET", path, JSON, Value::Null).await.0 == 200 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("widgets are not served");
    }
}

#[tokio::test]
async fn r65_a_put_keeps_what_only_the_server_knows() {
    let asked = Asked::new();
    let made = asked.post(&format!("{NS}/configmaps"), json!({"metadata": {"name": "a"}})).await;
    let path = format!("{NS}/configmaps/a");
    let body = json!({"metadata": {"name": "a", "creationTimestamp": "2001-01-01T00:00:00Z"}, "data": {"k": "v"}});
    let (code, put) = asked.ask("PUT", &path, JSON, body).await;
    assert_eq!(code, 200, "{put}");
    for member in ["creationTimestamp", "uid"] {
        assert_eq!(put["metadata"][member], made["metadata"][member]);
    }
    // System fields in a merge patch: some are the server's, others frozen.
    let patch = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9,
        "selfLink": "/x", "resourceVersion": null, "uid": null, "managedFields": null}});
    let (code, patched) = asked.ask("PATCH", &path, MERGE, patch).await;
    assert_eq!((code, &patched["metadata"]), (200, &put["metadata"]));
    let patch = json!({"metadata": {"uid": "other", "deletionGracePeriodSeconds": 5, "labels": {"b d": "x"}}});
    assert_eq!(
        asked.causes("PATCH", &path, MERGE, patch).await,
        [
            "metadata.labels FieldValueInvalid",
            "metadata.uid FieldValueInvalid",
            "metadata.deletionGracePeriodSeconds FieldValueInvalid",
        ]
    );
    // A PUT that makes the object: a version means nothing, a uid an object that is not there.
    let path = format!("{RBAC}/namespaces/default/roles/r");
    let body = json!({"metadata": {"name": "r", "uid": "x"}, "rules": []});
    assert_eq!(asked.ask("PUT", &path, JSON, body).await.0, 409);
    let body = json!({"metadata": {"name": "r", "resourceVersion": "5"}, "rules": []});
    assert_eq!(asked.ask("PUT", &path, JSON, body).await.0, 201);
}

#[tokio::test]
async fn r60_names_and_r13_selectors_by_kind() {
    let asked = Asked::new();
    let set = json!({"metadata": {"name": "a.b"}, "spec": {"serviceName": "s",
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let path = format!("{APPS}/statefulsets");
    assert_eq!(asked.causes("POST", &path, JSON, set).await, ["metadata.name FieldValueInvalid"]);
    let budget = json!({"metadata": {"name": "A_b"}, "spec": {}});
    asked.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await;
    for (path, code) in [
        (format!("{RBAC}/clusterroles?fieldSelector=metadata.namespace%3Dx"), 200),
        ("/api/v1/nodes?fieldSelector=metadata.namespace%3Dx".to_owned(), 400),
        (format!("{APPS}/replicasets?fieldSelector=status.replicas%3D0"), 400),
    ] {
        assert_eq!(asked.ask("GET", &path, JSON, Value::Null).await.0, code, "{path}");
    }
}

#[tokio::test]
async fn r136g_causes_of_a_webhook_come_in_order() {
    let asked = Asked::new();
    let hook = json!({"name": "short", "rules": [{"operations": ["*", "CREATE"], "apiGroups": ["*"],
        "apiVersions": ["*"], "resources": ["*/*", "pods"]}], "clientConfig": {"url": "http://h?q"}});
    let body = json!({"metadata": {"name": "w"}, "webhooks": [hook]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let causes = asked.causes("POST", path, JSON, body).await;
    let fields: Vec<&str> = causes.iter().map(|cause| cause.split(' ').next().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "webhooks[0].name",
            "webhooks[0].rules[0].operations",
            "webhooks[0].rules[0].resources",
            "webhooks[0].sideEffects",
            "webhooks[0].clientConfig.url",
            "webhooks[0].clientConfig.url",
            "webhooks[0].admissionReviewVersions",
        ]
    );
}

#[tokio::test]
async fn r136h_events_in_both_groups() {
    let asked = Asked::new();
    let event = json!({"metadata": {"name": "A_b:1"}, "involvedObject": {"namespace": "default"},
        "reportingComponent": "example.com/c", "firstTimestamp": "2024-01-02T03:04:05Z", "type": "Normal"});
    asked.post(&format!("{NS}/events"), event).await;
    let list = asked.get(&format!("{NS}/events?fieldSelector=source%3Dexample.com/c")).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    // An old event is changed through the new group, but for what is frozen.
    let path = "/apis/events.k8s.io/v1/namespaces/default/events/A_b:1";
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(asked.ask("PATCH", path, MERGE, patch).await.0, 200);
    let patch = json!({"deprecatedCount": 3});
    assert_eq!(asked.causes("PATCH", path, MERGE, patch).await, ["count FieldValueInvalid"]);
}

#[tokio::test]
async fn r157a_a_gathering_role_is_answered_as_sent() {
    let asked = Asked::new();
    let rules =
        |resource: &str| json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
    let part = json!({"metadata": {"name": "part", "labels": {"p": "q"}}, "rules": rules("pods")});
    asked.post(&format!("{RBAC}/clusterroles"), part).await;
    let sum = json!({"metadata": {"name": "sum"}, "rules": rules("secrets"),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"p": "q"}}]}});
    let made = asked.post(&format!("{RBAC}/clusterroles"), sum).await;
    assert_eq!(made["rules"], rules("secrets"));
    for _ in 0..200 {
        if asked.get(&format!("{RBAC}/clusterroles/sum")).await["rules"] == rules("pods") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nothing was gathered");
}

#[tokio::test]
async fn r82a_a_scale_is_applied() {
    let asked = Asked::new();
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 0,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    asked.post(&format!("{APPS}/deployments?fieldManager=maker"), deployment).await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"},
        "spec": {"replicas": 2}});
    let path = format!("{APPS}/deployments/d/scale?fieldManager=scaler");
    let (code, refused) = asked.ask("PATCH", &path, APPLY, scale.clone()).await;
    assert_eq!(code, 409, "{refused}");
    assert_eq!(refused["details"]["causes"][0]["field"], ".spec.replicas");
    let (code, applied) = asked.ask("PATCH", &format!("{path}&force=true"), APPLY, scale).await;
    assert_eq!((code, &applied["spec"]), (200, &json!({"replicas": 2})), "{applied}");
    let managers =
        asked.get(&format!("{APPS}/deployments/d")).await["metadata"]["managedFields"].clone();
    let own =
        managers.as_array().unwrap().iter().find(|entry| entry["manager"] == "scaler").unwrap();
    assert_eq!((&own["operation"], &own["subresource"]), (&json!("Apply"), &json!("scale")));
    assert_eq!(own["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    assert!(own.get("time").is_none());
}

#[tokio::test]
async fn r82a_a_custom_object_without_replicas_is_scaled() {
    let asked = Asked::new();
    let any = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    asked
        .widgets(json!([{"name": "v1", "served": true, "storage": true, "schema": any,
            "subresources": {"scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}}}]))
        .await;
    let list = "/apis/example.com/v1/namespaces/default/widgets";
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    asked.post(list, widget).await;
    let path = format!("{list}/w/scale");
    assert_eq!(asked.ask("GET", &path, JSON, Value::Null).await.0, 500);
    assert_eq!(asked.ask("PATCH", &path, MERGE, json!({"metadata": {}})).await.0, 400);
    let (code, scale) = asked.ask("PATCH", &path, MERGE, json!({"spec": {"replicas": 3}})).await;
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(3)), "{scale}");
    let causes = asked.causes("PATCH", &path, MERGE, json!({"spec": {"replicas": -1}})).await;
    assert_eq!(causes, [".spec.replicas FieldValueInvalid"]);
}

#[tokio::test]
async fn r121a_what_the_storage_version_does_not_know_is_not_kept() {
    let asked = Asked::new();
    let schema = |members: Value| {
        json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": members}}}})
    };
    let text = json!({"type": "string"});
    asked
        .widgets(json!([
            {"name": "v1", "served": true, "storage": true,
                "schema": schema(json!({"a": text, "d": {"type": "string", "default": "one"}}))},
            {"name": "v2", "served": true, "storage": false,
                "schema": schema(json!({"a": text, "b": text, "d": {"type": "string", "default": "two"}}))},
        ]))
        .await;
    let list = "/apis/example.com/v2/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"a": "x", "b": "y"}});
    let made = asked.post(list, widget).await;
    assert_eq!(made["spec"], json!({"a": "x", "d": "two"}));
    let mut bare =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}});
    bare["spec"] = json!({"a": "x"});
    asked.post("/apis/example.com/v1/namespaces/default/widgets", bare).await;
    assert_eq!(asked.get(&format!("{list}/x")).await["spec"], json!({"a": "x", "d": "one"}));
    // Any version of a kind that must be told from which version it is changed.
    let patch = json!({"metadata": {"resourceVersion": null}});
    let causes = asked.causes("PATCH", &format!("{list}/x"), MERGE, patch).await;
    assert_eq!(causes, ["metadata.resourceVersion FieldValueInvalid"]);
}

#[tokio::test]
async fn r32_what_a_strict_reader_finds() {
    let asked = Asked::new();
    let body = r#"{"metadata":{"name":"d"},"spec":{"unknownField":"x","replicas":2,"replicas":3}}"#;
    let path = format!("{APPS}/deployments?fieldValidation=Strict");
    let (code, refused) = asked.text("POST", &path, JSON, body).await;
    let message = refused["message"].as_str().unwrap();
    let wanted = r#"strict decoding error: unknown field "spec.unknownField", duplicate field "spec.replicas""#;
    assert!(code == 400 && message.contains(wanted), "{message}");
    let path = format!("{NS}/configmaps/c?fieldManager=m&fieldValidation=Strict");
    let yaml =
        "\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  foo: a\n  foo: b\n";
    let (code, refused) = asked.text("PATCH", &path, APPLY, yaml).await;
    let message = refused["message"].as_str().unwrap();
    assert!(code == 400 && message.contains("line 8: key \"foo\" already set in map"), "{message}");
    let any =
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}});
    asked.widgets(json!([{"name": "v1", "served": true, "storage": true, "schema": any}])).await;
    let path = "/apis/example.com/v1/namespaces/default/widgets/w?fieldManager=m";
    let config = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "more": 1});
    let (_, refused) = asked.ask("PATCH", path, APPLY, config).await;
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains(".more: field not declared in schema"), "{message}");
}

#[tokio::test]
async fn r139a_a_new_pods_own_labels_are_merged_into_its_selectors() {
    let asked = Asked::new();
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {}, "matchLabelKeys": ["app", "none"]}]}});
    let made = asked.post(&format!("{NS}/pods"), pod.clone()).await;
    let constraint = &made["spec"]["topologySpreadConstraints"][0];
    let merged = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]});
    assert_eq!(constraint["labelSelector"], merged);
    let mut twice = pod;
    twice["metadata"]["name"] = json!("q");
    twice["spec"]["topologySpreadConstraints"][0]["labelSelector"] =
        json!({"matchLabels": {"app": "x"}});
    let causes = asked.causes("POST", &format!("{NS}/pods"), JSON, twice).await;
    assert_eq!(causes, ["spec.topologySpreadConstraints[0][0] FieldValueInvalid"]);
}

#[tokio::test]
async fn r136_addresses_of_a_service_stay() {
    let asked = Asked::new();
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = asked.post(&format!("{NS}/services"), service).await;
    let path = format!("{NS}/services/s");
    for (spec, cause) in [
        (json!({"clusterIP": "10.96.0.77"}), "spec.clusterIPs[0] FieldValueInvalid"),
        (json!({"clusterIPs": ["10.96.0.77"]}), "spec.clusterIPs FieldValueInvalid"),
    ] {
        assert_eq!(asked.causes("PATCH", &path, MERGE, json!({"spec": spec})).await, [cause]);
    }
    let patch = json!({"spec": {"clusterIP": null, "clusterIPs": null}});
    let (code, kept) = asked.ask("PATCH", &path, MERGE, patch).await;
    assert_eq!((code, &kept["spec"]["clusterIPs"]), (200, &made["spec"]["clusterIPs"]));
}

#[tokio::test]
async fn r65_an_update_names_the_change_before_the_object() {
    let asked = Asked::new();
    asked.post(&format!("{NS}/secrets"), json!({"metadata": {"name": "s"}})).await;
    let path = format!("{NS}/secrets/s");
    let patch = json!({"type": "kubernetes.io/tls"});
    assert_eq!(
        asked.causes("PATCH", &path, MERGE, patch).await,
        [
            "type FieldValueInvalid",
            "data[tls.crt] FieldValueRequired",
            "data[tls.key] FieldValueRequired",
        ]
    );
    asked
        .post(
            &format!("{NS}/services"),
            json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
        )
        .await;
    let path = format!("{NS}/services/s");
    let none = json!({"spec": {"clusterIP": "foo", "clusterIPs": ["foo"]}});
    assert_eq!(
        asked.causes("PATCH", &path, MERGE, none).await,
        ["spec.clusterIPs[0] FieldValueInvalid"]
    );
}

#[tokio::test]
async fn r136h_limit_ranges_as_upstream_counts_them() {
    let asked = Asked::new();
    let path = format!("{NS}/limitranges");
    let of = |limit: Value| json!({"spec": {"limits": [limit]}});
    let fits = json!({"type": "Container", "max": {"cpu": "1"}});
    let (code, made) = asked.ask("POST", &path, JSON, of(fits)).await;
    assert_eq!((code, made["metadata"]["name"].as_str().unwrap().len()), (201, 36));
    let at = |list: &str| format!("spec.limits[0].{list} FieldValueInvalid");
    let upside_down = json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}});
    assert_eq!(
        asked.causes("POST", &path, JSON, of(upside_down)).await,
        ["min[cpu]", "defaultRequest[cpu]", "default[cpu]"].map(at)
    );
    let untyped = json!({"max": {"cpu": "1"}});
    assert_eq!(asked.causes("POST", &path, JSON, of(untyped)).await, ["type", "type"].map(at));
}

#[tokio::test]
async fn r158_a_missing_role_is_named_as_what_was_asked_for() {
    let asked = Asked::new();
    let path = format!("{RBAC}/namespaces/default");
    let rule = json!({"verbs": ["create"], "resources": ["rolebindings"],
        "apiGroups": ["rbac.authorization.k8s.io"]});
    asked.post(&format!("{path}/roles"), json!({"metadata": {"name": "r"}, "rules": [rule]})).await;
    let group = "rbac.authorization.k8s.io";
    let binding = |role: &str| {
        json!({"metadata": {"generateName": "b-"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "u"}]})
    };
    asked.post(&format!("{path}/rolebindings"), binding("r")).await;
    let of_u = |role: &str| {
        let body = binding(role).to_string();
        let asked = &asked;
        let path = format!("{path}/rolebindings");
        async move {
            asked
                .with(
                    "POST",
                    &path,
                    "content-type: application/json\r\nimpersonate-user: u\r\n",
                    &body,
                )
                .await
        }
    };
    let (code, status) = of_u("none").await;
    let details = &status["details"];
    assert_eq!(
        (code, &details["name"], &details["kind"]),
        (404, &json!("none"), &json!("rolebindings"))
    );
    let (code, status) = of_u("").await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test]
async fn r142_what_an_eviction_asks_of_the_deletion() {
    let asked = Asked::new();
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    asked.post(&format!("{NS}/pods"), pod).await;
    let path = format!("{NS}/pods/p/eviction");
    let eviction = |options: Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": options});
    let unread = json!({"ignoreStoreReadErrorWithClusterBreakingPotential": true});
    let (code, status) = asked.ask("POST", &path, JSON, eviction(unread)).await;
    assert_eq!((code, &status["details"]["kind"]), (422, &json!("Eviction")), "{status}");
    let named = json!({"kind": "Other", "apiVersion": "v9"});
    assert_eq!(asked.ask("POST", &path, JSON, eviction(named)).await.0, 201);
}

#[tokio::test]
async fn r95_live_duplicates_make_room_for_what_is_applied() {
    let asked = Asked::new();
    let env = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"name": name, "value": "1"})).collect()
    };
    let deployment = |names: &[&str]| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "env": env(names)}]}}}})
    };
    asked.post(&format!("{APPS}/deployments"), deployment(&["A", "A", "B"])).await;
    let path = format!("{APPS}/deployments/d?fieldManager=m&force=true");
    let (code, applied) = asked.ask("PATCH", &path, APPLY, deployment(&["A", "C"])).await;
    assert_eq!(code, 200, "{applied}");
    let all = applied["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let names: Vec<&str> = all.iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["A", "C", "B"]);
}

#[tokio::test]
async fn r130_a_definition_with_the_name_of_a_built_in_kind_is_not_accepted() {
    let asked = Asked::new();
    let definition = json!({
        "metadata": {"name": "ingresses.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {"group": "networking.k8s.io", "scope": "Namespaced",
            "names": {"kind": "Ingress", "plural": "ingresses"},
            "versions": [{"name": "v9", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    asked.post(path, definition).await;
    let made = asked.get(&format!("{path}/ingresses.networking.k8s.io")).await;
    let conditions = made["status"]["conditions"].as_array().unwrap();
    let accepted = conditions.iter().find(|one| one["type"] == "NamesAccepted").unwrap();
    assert_eq!(accepted["status"], "False");
    let path = "/apis/networking.k8s.io/v9/namespaces/default/ingresses";
    assert_eq!(asked.ask("GET", path, JSON, Value::Null).await.0, 404);
}

#[tokio::test]
async fn r79_the_addresses_of_services_have_a_range() {
    let range = Asked::new().get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await;
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/12"]));
    let ready = &range["status"]["conditions"][0];
    assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")));
}

/// Also a rule of spec/workload-controllers.md: es5.
#[tokio::test]
async fn r60_names_that_are_empty_and_endpoints_that_are_mirrored() {
    let asked = Asked::new();
    let labelled = json!({"metadata": {"name": "x", "labels": {"": "v"}}});
    assert_eq!(
        asked.causes("POST", &format!("{NS}/configmaps"), JSON, labelled).await,
        ["metadata.labels FieldValueInvalid"; 2]
    );
    asked
        .post(
            &format!("{NS}/services"),
            json!({"metadata": {"name": "m"}, "spec": {"ports": [{"port": 80}]}}),
        )
        .await;
    let endpoints = json!({"metadata": {"name": "m"}, "subsets": [
        {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]});
    asked.post(&format!("{NS}/endpoints"), endpoints).await;
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices\
        ?labelSelector=kubernetes.io/service-name%3Dm";
    for _ in 0..200 {
        let slices = asked.get(path).await;
        if let Some(slice) = slices["items"].get(0) {
            assert_eq!(slice["metadata"]["ownerReferences"][0]["kind"], "Endpoints");
            assert_eq!(
                slice["endpoints"],
                json!([{"addresses": ["10.1.2.3"], "conditions": {"ready": true}}])
            );
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the Endpoints are not mirrored");
}

#[tokio::test]
async fn r136_families_of_a_service_are_told_alone() {
    let asked = Asked::new();
    let services = format!("{NS}/services");
    let made =
        |spec: Value| json!({"metadata": {"name": "f", "labels": {"b d": "v"}}, "spec": spec});
    for (spec, expected) in [
        (json!({"ipFamilies": ["IPv6"]}), vec!["spec.ipFamilies[0] FieldValueInvalid"]),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            vec!["spec.ipFamilyPolicy FieldValueInvalid"],
        ),
        (
            json!({"clusterIP": "10.96.3.3", "clusterIPs": ["10.96.3.3", "fd00::1"]}),
            vec!["spec.ipFamilyPolicy FieldValueInvalid", "spec.clusterIPs[1] FieldValueInvalid"],
        ),
    ] {
        assert_eq!(asked.causes("POST", &services, JSON, made(spec)).await, expected);
    }
    let service = json!({"metadata": {"name": "f"}, "spec": {"ports": [{"port": 80}]}});
    asked.post(&services, service).await;
    let path = format!("{services}/f");
    let patch = json!({"metadata": {"labels": {"b d": "v"}}, "spec": {"ipFamilies": ["IPv6"]}});
    assert_eq!(
        asked.causes("PATCH", &path, MERGE, patch).await,
        ["spec.clusterIPs[0] FieldValueInvalid"]
    );
    // Without address and selector a service may name both families, and give the second back.
    let open = json!({"metadata": {"name": "open"}, "spec": {"clusterIP": "None"}});
    let open = asked.post(&services, open).await;
    assert_eq!(open["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let patch = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let (code, single) = asked.ask("PATCH", &format!("{services}/open"), MERGE, patch).await;
    assert_eq!((code, &single["spec"]["ipFamilies"]), (200, &json!(["IPv4"])));
    let patch = json!({"spec": {"selector": {"a": "b"}, "ipFamilyPolicy": "RequireDualStack"}});
    assert_eq!(
        asked.causes("PATCH", &format!("{services}/open"), MERGE, patch).await,
        ["spec.ipFamilyPolicy FieldValueInvalid"]
    );
}

#[tokio::test]
async fn r60_a_cause_is_told_once_and_every_fault_is_one() {
    let asked = Asked::new();
    let maps = format!("{NS}/configmaps");
    let twice = json!({"metadata": {"name": "a", "labels": {"a": "b d", "b": "b d"}}});
    let labels = ["metadata.labels FieldValueInvalid"];
    assert_eq!(asked.causes("POST", &maps, JSON, twice.clone()).await, labels);
    asked.post(&maps, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(asked.causes("PATCH", &format!("{maps}/a"), MERGE, twice).await, labels);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"scopes": ["BestEffort"],
        "hard": {"services": "1", "secrets": "1", "configmaps": "1"}}});
    assert_eq!(
        asked.causes("POST", &format!("{NS}/resourcequotas"), JSON, quota).await,
        ["spec.scopes FieldValueInvalid"]
    );
    let long = "X".repeat(254);
    let shouted = json!({"metadata": {"name": long}, "data": {" ".repeat(254): "v", "../x": "v"}});
    let causes = asked.causes("POST", &maps, JSON, shouted).await;
    assert_eq!(causes.len(), 6, "{causes:?}");
    assert_eq!(causes[..2], ["metadata.name FieldValueInvalid"; 2]);
    let roles = format!("{RBAC}/clusterroles");
    let role = json!({"metadata": {"name": "a/b%c"}, "rules": []});
    assert_eq!(
        asked.causes("POST", &roles, JSON, role).await,
        ["metadata.name FieldValueInvalid"; 2]
    );
    let list = "aggregationRule.clusterRoleSelectors[0]";
    let role = json!({"metadata": {"name": "r"}, "aggregationRule": {"clusterRoleSelectors": [
        {"matchLabels": {"a": "b d"}}]}});
    assert_eq!(
        asked.causes("POST", &roles, JSON, role).await,
        [format!("{list}.matchLabels FieldValueInvalid"), format!("{list} FieldValueInvalid")]
    );
}

#[tokio::test]
async fn r136_a_secret_of_a_type_has_what_its_type_asks_for() {
    let asked = Asked::new();
    let path = format!("{NS}/secrets");
    let of = |kind: &str, data: Value| json!({"metadata": {"name": "s"}, "type": kind, "stringData": data});
    let required = |key: &str| format!("data[{key}] FieldValueRequired");
    for (kind, data, causes) in [
        ("kubernetes.io/tls", json!({"tls.crt": ""}), vec![required("tls.key")]),
        ("kubernetes.io/dockercfg", json!({}), vec![required(".dockercfg")]),
        ("kubernetes.io/basic-auth", json!({}), vec![required("username"), required("password")]),
        ("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""}), vec![required("ssh-privatekey")]),
        (
            "kubernetes.io/service-account-token",
            json!({}),
            vec![
                "metadata.annotations[kubernetes.io/service-account.name] FieldValueRequired"
                    .into(),
            ],
        ),
    ] {
        assert_eq!(asked.causes("POST", &path, JSON, of(kind, data)).await, causes, "{kind}");
    }
    // What the content of a key is, is never told.
    let hidden = of("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": "\"abc\""}));
    let (code, status) = asked.ask("POST", &path, JSON, hidden).await;
    assert_eq!(code, 422);
    let message = status["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(message.contains("(hidden)") && !message.contains("abc"), "{message}");
    let good = of("kubernetes.io/basic-auth", json!({"password": "x"}));
    assert_eq!(asked.post(&path, good).await["type"], "kubernetes.io/basic-auth");
    let other = json!({"type": "Opaque"});
    let causes = asked.causes("PATCH", &format!("{path}/s"), MERGE, other).await;
    assert_eq!(causes, ["type FieldValueInvalid"]);
}

#[tokio::test]
async fn r27_a_streaming_list_of_tables_ends_with_a_bookmark_that_is_one() {
    let asked = Asked::new();
    for name in ["a", "b"] {
        asked.post(&format!("{NS}/secrets"), json!({"metadata": {"name": name}})).await;
    }
    let path = format!(
        "{NS}/secrets?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"
    );
    let mut connection = asked.access.connect().await.unwrap();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let head = format!("GET {path} HTTP/1.1\r\nhost: server\r\naccept: {accept}\r\n\r\n");
    connection.write(head.as_bytes()).await.unwrap();
    let answer = connection.answer().await.unwrap();
    let events: Vec<Value> = answer
        .body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let shown: Vec<(&str, &Value)> = events
        .iter()
        .map(|event| (event["type"].as_str().unwrap(), &event["object"]["rows"][0]["cells"][0]))
        .collect();
    let (a, b, none) = (json!("a"), json!("b"), json!(""));
    assert_eq!(shown[..3], [("ADDED", &a), ("ADDED", &b), ("BOOKMARK", &none)]);
    let end = &events[2]["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(end["annotations"]["k8s.io/initial-events-end"], "true");
    let has_columns = |event: &Value| event["object"]["columnDefinitions"].is_array();
    assert!(has_columns(&events[0]) && !has_columns(&events[1]), "columns stand in the first");
}
