//! Rules of spec/ownership.md: who may set owner references (section 3), and warnings about them (B1).

use serde_json::{Value, json};
use tenure_server::Peer;
use tenure_server::admit::OwnerChecks;

use crate::house::*;

const APPLY: &str = "application/apply-patch+yaml";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
/// Everything but to delete.
const WRITE: [&str; 4] = ["get", "create", "update", "patch"];
const ALL: [&str; 5] = ["get", "create", "update", "patch", "delete"];

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({ "verbs": verbs, "apiGroups": groups, "resources": resources })
}

/// A user with these rights everywhere.
async fn user(house: &House, name: &str, rules: &[Value]) -> Peer {
    let role = json!({ "metadata": { "name": name }, "rules": rules });
    house.made(&format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name }],
    });
    house.made(&format!("{RBAC}/clusterrolebindings"), binding).await;
    peer(name, &[])
}

/// A reference that says nothing about blocking.
fn to(api_version: &str, kind: &str, name: &str) -> Value {
    let uid = format!("uid-of-{name}");
    json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": uid })
}

/// A reference that blocks, or says that it does not.
fn blocks(mut reference: Value, blocking: bool) -> Value {
    reference["blockOwnerDeletion"] = json!(blocking);
    reference
}

fn with(mut object: Value, owners: &Value) -> Value {
    object["metadata"]["ownerReferences"] = owners.clone();
    object
}

/// One row: who creates, or updates from one list of references to another, and whether it is refused.
type Row<'a> = (&'a Peer, &'a str, Option<Value>, Value, Option<&'a str>);

/// Carries out a row; `Some` names words of the refusal.
async fn check(house: &House, at: usize, (who, collection, before, after, refused): Row<'_>) {
    let name = format!("row-{at}");
    let object = if collection == PODS { pod(&name) } else { named(&name) };
    let json = [("content-type", JSON)];
    let (done, answer) = match &before {
        None => {
            let body = with(object, &after).to_string();
            (201, house.ask_as(who, "POST", collection, &json, body).await)
        }
        Some(before) => {
            let made = house.made(collection, with(object, before)).await;
            let path = format!("{collection}/{name}");
            let body = with(made, &after).to_string();
            (200, house.ask_as(who, "PUT", &path, &json, body).await)
        }
    };
    let Some(words) = refused else {
        assert_eq!(answer.with(done)["metadata"]["name"], name.as_str(), "row {at}");
        return;
    };
    let status = answer.fails(403, "Forbidden");
    let resource = collection.rsplit('/').next().unwrap();
    assert_eq!(status["details"], json!({ "name": name, "kind": resource }), "row {at}");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(words), "row {at}: {message}");
    let live = house.get(&format!("{collection}/{name}")).await;
    match before {
        None => assert_eq!(live.code, 404, "row {at}"),
        Some(before) => assert_eq!(live.json["metadata"]["ownerReferences"], before, "row {at}"),
    }
}

#[tokio::test]
async fn r25_r26_only_who_may_delete_a_dependent_changes_its_owners() {
    let house = House::new().await;
    let kinds = ["pods", "pods/status", "configmaps"];
    let everything = user(&house, "everything", &[rule(&["*"], &["*"], &["*"])]).await;
    let keeper = user(&house, "keeper", &[rule(&WRITE, &[""], &kinds)]).await;
    let pod_keeper = [rule(&WRITE, &[""], &kinds), rule(&ALL, &[""], &["configmaps"])];
    let pod_keeper = user(&house, "pod-keeper", &pod_keeper).await;
    let none = json!([]);
    let first = json!([to("v1", "ConfigMap", "first")]);
    let both = json!([to("v1", "ConfigMap", "first"), to("v1", "ConfigMap", "second")]);
    let swapped = json!([both[1], both[0]]);
    let why = Some("cannot set an ownerRef on a resource you can't delete");
    let rows: Vec<Row<'_>> = vec![
        (&everything, PODS, None, none.clone(), None),
        (&everything, PODS, None, first.clone(), None),
        (&keeper, PODS, None, none.clone(), None),
        (&keeper, PODS, None, first.clone(), None),
        (&pod_keeper, PODS, None, none.clone(), None),
        (&pod_keeper, PODS, None, first.clone(), None),
        (&pod_keeper, CONFIG_MAPS, None, first.clone(), None),
        (&everything, PODS, Some(none.clone()), none.clone(), None),
        (&everything, PODS, Some(first.clone()), first.clone(), None),
        (&everything, PODS, Some(none.clone()), first.clone(), None),
        (&keeper, PODS, Some(none.clone()), none.clone(), None),
        (&keeper, PODS, Some(first.clone()), first.clone(), None),
        (&keeper, PODS, Some(json!(null)), first.clone(), why),
        (&keeper, PODS, Some(first.clone()), both.clone(), why),
        (&pod_keeper, PODS, Some(none.clone()), none.clone(), None),
        (&pod_keeper, PODS, Some(json!(null)), first.clone(), why),
        (&pod_keeper, CONFIG_MAPS, Some(none.clone()), first.clone(), None),
        // Beyond upstream's table: order counts, and so does taking a reference away.
        (&keeper, PODS, Some(both.clone()), swapped, why),
        (&keeper, PODS, Some(both), first.clone(), why),
        (&keeper, PODS, Some(first), none, why),
    ];
    for (at, row) in rows.into_iter().enumerate() {
        check(&house, at, row).await;
    }
}

#[tokio::test]
async fn r24_the_status_of_pods_is_exempt() {
    let house = House::new().await;
    let rules = [rule(&WRITE, &[""], &["pods", "pods/status"])];
    let keeper = user(&house, "keeper", &rules).await;
    let first = json!([to("v1", "ConfigMap", "first")]);
    house.made(PODS, with(pod("p"), &first)).await;
    let patch = json!({ "metadata": { "ownerReferences": [] }, "status": { "reason": "x" } });
    let path = format!("{PODS}/p/status");
    let merge = [("content-type", MERGE)];
    let live = house.ask_as(&keeper, "PATCH", &path, &merge, patch.to_string()).await.with(200);
    assert_eq!(live["metadata"]["ownerReferences"], first, "the endpoint restores them");
    assert_eq!(live["status"]["reason"], "x");
}

#[tokio::test]
async fn r26_the_right_to_delete_is_asked_for_the_subresource_of_the_request() {
    let house = House::new().await;
    let kinds = ["services", "services/status"];
    let keeper = user(&house, "keeper", &[rule(&WRITE, &[""], &kinds)]).await;
    let parent = [rule(&WRITE, &[""], &kinds), rule(&["delete"], &[""], &["services"])];
    let parent = user(&house, "parent", &parent).await;
    let part = [rule(&WRITE, &[""], &kinds), rule(&["delete"], &[""], &["services/status"])];
    let part = user(&house, "part", &part).await;
    let service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    house.made(SERVICES, service).await;
    let merge = [("content-type", MERGE)];
    for (at, (who, path, code)) in [
        (&keeper, "s/status", 403),
        (&parent, "s/status", 403),
        (&part, "s/status", 200),
        (&keeper, "s", 403),
        (&part, "s", 403),
        (&parent, "s", 200),
    ]
    .into_iter()
    .enumerate()
    {
        let owner = to("v1", "ConfigMap", &format!("o{at}"));
        let patch = json!({ "metadata": { "ownerReferences": [owner] } }).to_string();
        let path = format!("{SERVICES}/{path}");
        let answer = house.ask_as(who, "PATCH", &path, &merge, patch).await;
        assert_eq!(answer.code, code, "{at}: {}", answer.text());
    }
}

#[tokio::test]
async fn r27_r29_only_who_may_finalize_an_owner_holds_it_back() {
    let house = House::new().await;
    let all = rule(&ALL, &[""], &["pods"]);
    let finalize = |groups: &str, resource: &str| {
        rule(&["update"], &[groups], &[&format!("{resource}/finalizers")])
    };
    let everything = user(&house, "everything", &[rule(&["*"], &["*"], &["*"])]).await;
    let no_rc = [all.clone(), finalize("apps", "daemonsets"), finalize("", "nodes")];
    let no_rc = user(&house, "no-rc", &no_rc).await;
    let no_node = [all, finalize("apps", "daemonsets"), finalize("", "replicationcontrollers")];
    let no_node = user(&house, "no-node", &no_node).await;

    let rc = |name: &str| to("v1", "ReplicationController", name);
    let (ds, node) = (to("apps/v1", "DaemonSet", "ds"), to("v1", "Node", "node"));
    let (on, off) = (|r: Value| blocks(r, true), |r: Value| blocks(r, false));
    let none = || json!([]);
    let why = Some("a resource you can't set finalizers on");
    let rows: Vec<Row<'_>> = vec![
        (&everything, PODS, None, none(), None),
        (&everything, PODS, None, json!([off(rc("a")), off(rc("b"))]), None),
        (&everything, PODS, None, json!([on(rc("a")), on(rc("b")), on(node.clone())]), None),
        (&no_rc, PODS, None, none(), None),
        (&no_rc, PODS, None, json!([off(rc("a")), rc("b")]), None),
        (&no_node, PODS, None, json!([off(node.clone())]), None),
        (&no_rc, PODS, None, json!([on(rc("a")), off(rc("b"))]), why),
        (&no_rc, PODS, None, json!([on(ds.clone())]), None),
        (&no_node, PODS, None, json!([on(node.clone())]), why),
        (
            &everything,
            PODS,
            Some(json!([rc("a"), node.clone()])),
            json!([off(rc("a")), off(node.clone())]),
            None,
        ),
        (
            &everything,
            PODS,
            Some(json!([off(rc("a")), off(node.clone())])),
            json!([on(rc("a")), on(node.clone())]),
            None,
        ),
        (&everything, PODS, Some(none()), json!([on(rc("a")), on(node.clone())]), None),
        (&no_rc, PODS, Some(json!([rc("a")])), json!([off(rc("a"))]), None),
        (&no_rc, PODS, Some(json!([off(rc("a"))])), json!([on(rc("a"))]), why),
        (&no_rc, PODS, Some(json!([rc("a")])), json!([on(rc("a"))]), why),
        (&no_node, PODS, Some(json!([node.clone()])), json!([on(node.clone())]), why),
        (&no_rc, PODS, Some(json!([on(rc("a"))])), json!([off(rc("a"))]), None),
        (&no_node, PODS, Some(json!([on(node.clone())])), json!([off(node.clone())]), None),
        (&no_rc, PODS, Some(json!([off(ds.clone())])), json!([on(ds.clone())]), None),
        (&no_rc, PODS, Some(none()), json!([off(rc("a")), rc("b")]), None),
        (&no_rc, PODS, Some(json!(null)), json!([on(rc("a"))]), why),
        (&no_rc, PODS, Some(none()), json!([on(ds)]), None),
        (&no_node, PODS, Some(json!(null)), json!([on(node.clone())]), why),
        // Beyond upstream's table: what blocked before goes on blocking, whatever else changes.
        (&no_rc, PODS, Some(json!([on(rc("a"))])), json!([on(rc("a")), rc("b")]), None),
        (&no_node, PODS, Some(json!([on(node.clone()), rc("a")])), json!([on(node)]), None),
    ];
    for (at, row) in rows.into_iter().enumerate() {
        check(&house, at, row).await;
    }
}

#[tokio::test]
async fn r28_who_may_finalize_everything_needs_no_known_kind() {
    let house = House::new().await;
    let maps = rule(&ALL, &[""], &["configmaps"]);
    let any = rule(&["update"], &["*"], &["*/finalizers"]);
    let finalizer = user(&house, "finalizer", &[maps.clone(), any]).await;
    // One group is not everything, and names narrow a right.
    let core = rule(&["update"], &[""], &["*/finalizers"]);
    let mut one = rule(&["update"], &["*"], &["*/finalizers"]);
    one["resourceNames"] = json!(["o"]);
    let narrow = user(&house, "narrow", &[maps, core, one]).await;
    let unknown = json!([blocks(to("example.com/v1", "Unknown", "o"), true)]);
    let known = json!([blocks(to("v1", "ConfigMap", "o"), true)]);
    let why = Some("cannot find RESTMapping");
    for (at, row) in [
        (&finalizer, CONFIG_MAPS, None, unknown.clone(), None),
        (&narrow, CONFIG_MAPS, None, unknown, why),
        (&narrow, CONFIG_MAPS, None, known, None),
    ]
    .into_iter()
    .enumerate()
    {
        check(&house, at, row).await;
    }
}

#[tokio::test]
async fn r29_the_right_is_asked_by_the_name_of_the_owner_where_the_dependent_is() {
    let house = House::new().await;
    house.made(NAMESPACES, named("n")).await;
    let maps = rule(&ALL, &[""], &["configmaps"]);
    let writer = user(&house, "writer", &[maps]).await;
    // In `n` alone, and for one name only.
    let mut right = rule(&["update"], &[""], &["configmaps/finalizers"]);
    right["resourceNames"] = json!(["mine"]);
    let role = json!({ "metadata": { "name": "r" }, "rules": [right] });
    house.made(&format!("{RBAC}/namespaces/n/roles"), role).await;
    let binding = json!({
        "metadata": { "name": "r" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "writer" }],
    });
    house.made(&format!("{RBAC}/namespaces/n/rolebindings"), binding).await;
    for (namespace, owner, code) in
        [("n", "mine", 201), ("n", "other", 403), ("default", "mine", 403)]
    {
        let owners = json!([blocks(to("v1", "ConfigMap", owner), true)]);
        let body = with(json!({ "metadata": { "generateName": "d-" } }), &owners).to_string();
        let path = format!("{NAMESPACES}/{namespace}/configmaps");
        let json = [("content-type", JSON)];
        let answer = house.ask_as(&writer, "POST", &path, &json, body).await;
        assert_eq!(answer.code, code, "{namespace}/{owner}: {}", answer.text());
    }
}

#[tokio::test]
async fn r30_a_kind_that_nobody_serves_cannot_be_held_back() {
    let house = House::new().await;
    let rules =
        [rule(&ALL, &[""], &["configmaps"]), rule(&["update"], &["", "apps"], &["*/finalizers"])];
    let writer = user(&house, "writer", &rules).await;
    let why = Some("cannot find RESTMapping for APIVersion");
    let rows: Vec<Row<'_>> = [
        (to("example.com/v1", "Unknown", "o"), why),
        (to("v2", "ConfigMap", "o"), why),
        (to("apps/v1", "ConfigMap", "o"), why),
        (to("v1", "configmaps", "o"), why),
        (to("apps/v1", "Deployment", "o"), None),
    ]
    .into_iter()
    .map(|(owner, refused)| {
        (&writer, CONFIG_MAPS, None, json!([blocks(owner, true)]), refused) as Row<'_>
    })
    .collect();
    for (at, row) in rows.into_iter().enumerate() {
        check(&house, at, row).await;
    }
    let loose = json!([to("example.com/v1", "Unknown", "o")]);
    check(&house, 9, (&writer, CONFIG_MAPS, None, loose, None)).await;
}

#[tokio::test]
async fn r25_patches_and_custom_kinds_are_checked_alike() {
    let house = House::new().await;
    let definition = json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    house.made(DEFINITIONS, definition).await;
    let rules = [rule(&WRITE, &["", "example.com"], &["configmaps", "things"])];
    let keeper = user(&house, "keeper", &rules).await;
    let thing =
        json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": "a" } });
    house.made(THINGS, thing.clone()).await;
    house.config_map("a").await;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let owners = json!([to("v1", "ConfigMap", "o")]);
    let add = json!([{ "op": "add", "path": "/metadata/ownerReferences", "value": owners }]);
    for (collection, whole) in [(CONFIG_MAPS, map), (THINGS, thing)] {
        let path = format!("{collection}/a");
        let merge = json!({ "metadata": { "ownerReferences": owners } }).to_string();
        let apply = with(whole, &owners).to_string();
        let mut ways = vec![(MERGE, merge.clone()), (JSON_PATCH, add.to_string()), (APPLY, apply)];
        if collection == CONFIG_MAPS {
            ways.push((STRATEGIC, merge));
        }
        for (kind, body) in ways {
            let at = format!("{path}?fieldManager=m");
            let types = [("content-type", kind)];
            let answer = house.ask_as(&keeper, "PATCH", &at, &types, body.clone()).await;
            answer.fails(403, "Forbidden");
            // A dry run is told the same, and the administrator may.
            let dry = format!("{at}&dryRun=All");
            house
                .ask_as(&keeper, "PATCH", &dry, &types, body.clone())
                .await
                .fails(403, "Forbidden");
            house.ask("PATCH", &dry, &types, body).await.with(200);
        }
        // What an apply creates is a create; a blocking owner still needs its right.
        let new = house.get(&path).await.with(200);
        let mut config = json!({ "apiVersion": new["apiVersion"], "kind": new["kind"],
            "metadata": { "name": "b" } });
        config["metadata"]["ownerReferences"] = json!([blocks(owners[0].clone(), true)]);
        let at = format!("{collection}/b?fieldManager=m");
        let types = [("content-type", APPLY)];
        let refused = house.ask_as(&keeper, "PATCH", &at, &types, config.to_string()).await;
        refused.fails(403, "Forbidden");
        config["metadata"]["ownerReferences"] = owners.clone();
        house.ask_as(&keeper, "PATCH", &at, &types, config.to_string()).await.with(201);
    }
}

#[tokio::test]
async fn r29_g2_the_right_to_delete_the_owner_is_neither_needed_nor_enough() {
    let house = House::new().await;
    let maps = rule(&WRITE, &[""], &["configmaps"]);
    let deleter = [maps.clone(), rule(&["delete"], &[""], &["configmaps", "secrets"])];
    let deleter = user(&house, "deleter", &deleter).await;
    let finalizer = [maps, rule(&["update"], &[""], &["secrets/finalizers"])];
    let finalizer = user(&house, "finalizer", &finalizer).await;
    let owners = json!([blocks(to("v1", "Secret", "o"), true)]);
    let why = Some("a resource you can't set finalizers on");
    check(&house, 0, (&deleter, CONFIG_MAPS, None, owners.clone(), why)).await;
    check(&house, 1, (&finalizer, CONFIG_MAPS, None, owners, None)).await;
}

#[tokio::test]
async fn references_that_may_not_be_set_pass_where_nothing_is_enforced() {
    let house = House::checking(OwnerChecks { enforced: false, ..OwnerChecks::default() }).await;
    let keeper = user(&house, "keeper", &[rule(&WRITE, &[""], &["configmaps"])]).await;
    let owners = json!([blocks(to("example.com/v1", "Unknown", "o"), true)]);
    check(&house, 0, (&keeper, CONFIG_MAPS, None, owners.clone(), None)).await;
    check(&house, 1, (&keeper, CONFIG_MAPS, Some(json!([])), owners, None)).await;
}

#[tokio::test]
async fn b1_references_to_absent_owners_are_told_where_that_is_wanted() {
    let wanted = OwnerChecks { warns_of_absent: true, ..OwnerChecks::default() };
    let house = House::checking(wanted).await;
    let owner = house.config_map("o").await;
    house.made(NAMESPACES, named("elsewhere")).await;
    let uid = owner["metadata"]["uid"].as_str().unwrap();
    let reference = |kind: &str, name: &str, uid: &str| json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid });
    let create = async |namespace: &str, owners: Value| {
        let body = with(json!({ "metadata": { "generateName": "d-" } }), &owners);
        let answer = house.post(&format!("{NAMESPACES}/{namespace}/configmaps"), body).await;
        assert_eq!(answer.code, 201, "never a refusal");
        answer.warnings()
    };
    let quiet = [
        json!([]),
        json!([reference("ConfigMap", "o", uid)]),
        json!([reference("Unknown", "o", uid)]),
    ];
    for owners in quiet {
        assert_eq!(create("default", owners.clone()).await, Vec::<String>::new(), "{owners}");
    }
    for (namespace, reference) in [
        ("default", reference("ConfigMap", "o", "another")),
        ("default", reference("ConfigMap", "other", uid)),
        ("default", reference("Secret", "o", uid)),
        ("default", reference("Node", "o", uid)),
        ("elsewhere", reference("ConfigMap", "o", uid)),
    ] {
        let warnings = create(namespace, json!([reference])).await;
        let [warning] = warnings.as_slice() else { panic!("{reference}: {warnings:?}") };
        assert!(warning.contains("metadata.ownerReferences[0]"), "{warning}");
        assert!(warning.contains("will be collected"), "{warning}");
    }
    // Told once, by the write that brings the reference.
    let gone = json!({ "metadata": { "ownerReferences": [reference("ConfigMap", "x", "y")] } });
    let path = format!("{CONFIG_MAPS}/o");
    assert_eq!(house.merge(&path, gone).await.warnings().len(), 1);
    let other = house.merge(&path, json!({ "data": { "k": "v" } })).await;
    assert_eq!(other.warnings(), Vec::<String>::new());
    let plain = House::new().await;
    let body = with(named("d"), &json!([reference("ConfigMap", "x", "y")]));
    assert_eq!(plain.post(CONFIG_MAPS, body).await.warnings(), Vec::<String>::new());
}
