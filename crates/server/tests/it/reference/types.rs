//! Rules of spec/referential-authorization.md: the group and its kinds, as clients find them (R1–R6).

use serde_json::{Value, json};

use super::*;

const YAML: &str = "application/yaml";
const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test]
async fn r1_the_group_has_three_kinds_with_short_names() {
    let house = House::new().await;
    let list = house.get(GROUP).await.with(200);
    let found: Vec<Value> = list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| json!([r["name"], r["kind"], r["namespaced"], r["shortNames"]]))
        .collect();
    assert_eq!(
        found,
        [
            json!(["clusterreferenceconsumers", "ClusterReferenceConsumer", false, ["crc"]]),
            json!(["referencegrants", "ReferenceGrant", true, ["rg"]]),
            json!(["referencestrategies", "ReferenceStrategy", false, ["refstrat"]]),
        ]
    );
    let groups = house.get("/apis").await.with(200);
    let own = groups["groups"].as_array().unwrap().iter();
    let own: Vec<&Value> =
        own.filter(|group| group["name"] == "reference.authorization.k8s.io").collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["preferredVersion"]["version"], "v1alpha1");
}

#[tokio::test]
async fn r1_tables_have_the_columns_of_the_rule() {
    let house = house().await;
    house.made(STRATEGIES, strategy("s")).await;
    house.made(CONSUMERS, with(consumer("c"), "/classNames", json!(["contour", ""]))).await;
    house.made(GRANTS, grant("g", &["a", "b"])).await;
    let table = async |path: &str| -> (Vec<String>, Vec<Value>) {
        let table = house.get_as(path, TABLE).await.with(200);
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let columns = columns.map(|column| column["name"].as_str().unwrap().to_owned()).collect();
        let mut cells = table["rows"][0]["cells"].as_array().unwrap().clone();
        cells.pop();
        (columns, cells)
    };
    let (columns, cells) = table(STRATEGIES).await;
    assert_eq!(columns, ["Name", "Origin", "Versions", "Refs", "Age"]);
    assert_eq!(
        cells,
        [json!("s"), json!("gateways.gateway.networking.k8s.io"), json!("v1"), json!(1)]
    );
    let (columns, cells) = table(CONSUMERS).await;
    assert_eq!(columns, ["Name", "Subject", "Classes", "Refs", "Age"]);
    let subject = json!("ServiceAccount/contour-system/contour");
    assert_eq!(cells, [json!("c"), subject, json!("contour,\"\""), json!(1)]);
    let (columns, cells) = table(GRANTS).await;
    assert_eq!(columns, ["Name", "Origin", "From-Namespace", "Target", "Names", "Purpose", "Age"]);
    assert_eq!(cells[2..], [json!("prod"), json!("secrets"), json!("a,b"), json!("tls-serving")]);

    // The version that is read is marked once its origin is served.
    let mut older = strategy("s")["versions"][0].clone();
    older["version"] = json!("v1beta1");
    let both = with(strategy("two"), "/versions", json!([older, strategy("s")["versions"][0]]));
    house.made(STRATEGIES, both).await;
    serve_gateways(&house, &["v1beta1", "v1"]).await;
    let rows = house.get_as(STRATEGIES, TABLE).await.with(200)["rows"].clone();
    assert_eq!(rows[0]["cells"][2], "v1*");
    assert_eq!(rows[1]["cells"][2], "v1beta1,v1*");
}

#[tokio::test]
async fn r2_there_is_no_spec_and_no_status() {
    let house = house().await;
    let sent = with(grant("g", &["a"]), "/status", json!({ "ready": true }));
    let answer = house.post(&format!("{GRANTS}?fieldValidation=Warn"), sent.clone()).await;
    assert!(texts(&answer).contains(&"unknown field \"status\"".to_owned()));
    let made = answer.with(201);
    assert!(made.get("status").is_none() && made.get("spec").is_none());
    house.post(&format!("{GRANTS}?fieldValidation=Strict"), sent).await.fails(400, "BadRequest");
    house.get(&format!("{GRANTS}/g/status")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r3_the_kinds_are_built_in_and_have_a_schema() {
    let house = House::new().await;
    let definitions = house.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await;
    assert_eq!(definitions.with(200)["items"], json!([]));
    let document =
        house.get("/openapi/v3/apis/reference.authorization.k8s.io/v1alpha1").await.with(200);
    let schema = |name: &str| {
        document["components"]["schemas"][format!("dev.tenure.api.reference.v1alpha1.{name}")]
            .clone()
    };
    let grant = schema("ReferenceGrant");
    assert_eq!(grant["x-kubernetes-group-version-kind"][0]["kind"], "ReferenceGrant");
    for member in ["origin", "target", "purpose", "metadata"] {
        assert!(grant["properties"][member].is_object(), "{member}");
    }
    assert!(schema("GrantOrigin")["properties"]["namespace"].is_object());
    let entry = schema("ReferencePath");
    for member in
        ["path", "target", "purpose", "namespacePath", "expression", "allowClusterScopedTarget"]
    {
        assert!(entry["properties"][member].is_object(), "{member}");
    }
}

#[tokio::test]
async fn r4_lists_merge_as_declared_under_apply() {
    let house = house().await;
    let apply = async |path: &str, kind: &str, manager: &str, mut body: Value| {
        body["apiVersion"] = json!("reference.authorization.k8s.io/v1alpha1");
        body["kind"] = json!(kind);
        let path = format!("{path}?fieldManager={manager}");
        house.patch(&path, APPLY, body).await
    };
    // A set: each manager has its own names.
    let path = format!("{GRANTS}/g");
    apply(&path, "ReferenceGrant", "a", grant("g", &["x"])).await.with(201);
    let both = apply(&path, "ReferenceGrant", "b", grant("g", &["y"])).await.with(200);
    assert_eq!(both["target"]["names"], json!(["x", "y"]));
    let rest = apply(&path, "ReferenceGrant", "a", grant("g", &[])).await.with(200);
    assert_eq!(rest["target"]["names"], json!(["y"]));
    // A set as well.
    let path = format!("{CONSUMERS}/c");
    apply(&path, "ClusterReferenceConsumer", "a", consumer("c")).await.with(201);
    let other = with(consumer("c"), "/classNames", json!(["envoy"]));
    let both = apply(&path, "ClusterReferenceConsumer", "b", other).await.with(200);
    assert_eq!(both["classNames"], json!(["contour", "envoy"]));
    // One owner for all references.
    let other = with(consumer("c"), "/references/0/purpose", json!("backend"));
    apply(&path, "ClusterReferenceConsumer", "b", other).await.fails(409, "Conflict");
    // One owner per version.
    let path = format!("{STRATEGIES}/s");
    apply(&path, "ReferenceStrategy", "a", strategy("s")).await.with(201);
    let other = with(strategy("s"), "/versions/0/version", json!("v1beta1"));
    let both = apply(&path, "ReferenceStrategy", "b", other).await.with(200);
    let versions: Vec<&Value> =
        both["versions"].as_array().unwrap().iter().map(|v| &v["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    let other = with(strategy("s"), "/versions/0/references/0/path", json!(".spec.other.name"));
    apply(&path, "ReferenceStrategy", "b", other).await.fails(409, "Conflict");
}

#[tokio::test]
async fn r4_crud_watch_patch_and_dry_run_work() {
    let house = house().await;
    let made = house.made(GRANTS, grant("g", &["a"])).await;
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["target"]["group"], "", "the core group is kept as it was written");
    let from = version(&made);
    let mut watch = house.watch(&format!("{GRANTS}?watch=1&resourceVersion={from}")).await;
    let path = format!("{GRANTS}/g");
    house.post(&format!("{GRANTS}?dryRun=All"), grant("dry", &["a"])).await.with(201);
    house.get(&format!("{GRANTS}/dry")).await.fails(404, "NotFound");
    let changed = house.merge(&path, json!({ "target": { "names": ["a", "b"] } })).await.with(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    let replaced =
        house.patch(&path, STRATEGIC, json!({ "target": { "names": ["c"] } })).await.with(200);
    assert_eq!(replaced["target"]["names"], json!(["c"]), "no patch but apply merges names");
    house.put(&path, with(replaced, "/purpose", json!("backend"))).await.with(200);
    house.delete(&path).await.with(200);
    watch.expect(&["MODIFIED g", "MODIFIED g", "MODIFIED g", "DELETED g"]).await;
}

#[tokio::test]
async fn seed_yaml_verbatim_is_accepted() {
    let house = house().await;
    let documents: Vec<&str> = SEED.split("---\n").collect();
    assert_eq!(documents.len(), 4);
    let post = async |path: &str, document: &str| {
        let answer = house.ask("POST", path, &[("content-type", YAML)], document.to_owned()).await;
        let told = texts(&answer);
        (answer.with(201), told)
    };
    let (stored, told) = post(STRATEGIES, documents[0]).await;
    // The author's text is kept, extra bracket and all (R71).
    let path = stored["versions"][0]["references"][0]["path"].as_str().unwrap();
    assert!(path.contains("certificateRefs[[?("), "{path}");
    let extra = told.iter().filter(|text| text.contains("extra `[`")).count();
    assert_eq!(extra, 4, "{told:?}");
    assert!(told.iter().any(|text| text.starts_with("origin: gateways.gateway.networking.k8s.io")));
    let (_, told) = post(CONSUMERS, documents[1]).await;
    assert_eq!(told.len(), 3, "nothing but that gateways are not served: {told:?}");
    post(GRANTS, documents[2]).await;
}

#[tokio::test]
async fn r5_r6_the_second_grant_of_the_seed_replaces_the_first_and_says_so() {
    let house = house().await;
    let documents: Vec<&str> = SEED.split("---\n").collect();
    let path = format!("{GRANTS}/prod-gateways?fieldManager=kubectl");
    let apply = async |document: &str| {
        house.ask("PATCH", &path, &[("content-type", APPLY)], document.to_owned()).await
    };
    apply(documents[2]).await.with(201);
    let second = apply(documents[3]).await;
    let told = texts(&second);
    let revoked = "target: this update revokes secrets \"acme-tls\" for tls-serving from \
                   gateways.gateway.networking.k8s.io in namespace \"prod\"";
    assert!(told.contains(&revoked.to_owned()), "{told:?}");
    let stored = second.with(200);
    assert_eq!(stored["target"]["names"], json!(["aperture-science-ca-cert"]));
}
