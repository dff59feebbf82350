//! Rules of spec/api-server.md: who binds claims of devices and speaks for drivers, R136c and R136d.

use serde_json::{Value, json};

use crate::house::*;

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const TEMPLATES: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Lets somebody do this in the whole cluster, or in `default` alone.
async fn grant(house: &House, role: &str, everywhere: bool, user: &str, rules: Value) {
    let role_body = json!({"metadata": {"name": role}, "rules": rules});
    house.made(&format!("{RBAC}/clusterroles"), role_body).await;
    let of = |kind: &str, name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
    let bound = json!({"metadata": {"name": role},
        "roleRef": of("ClusterRole", role), "subjects": [of("User", user)]});
    let path = if everywhere { "clusterrolebindings" } else { "namespaces/default/rolebindings" };
    house.made(&format!("{RBAC}/{path}"), bound).await;
}

fn rule(verb: &str, resource: &str, names: &[&str]) -> Value {
    json!([{"verbs": [verb], "apiGroups": ["resource.k8s.io"], "resources": [resource],
        "resourceNames": names}])
}

/// Writes a status as somebody, who may say on which node they run; the code, and where it is wrong.
async fn write(house: &House, name: &str, user: &str, node: &str, status: &Value) -> (u16, String) {
    let path = format!("{CLAIMS}/{name}/status");
    let mut headers = vec![("content-type", MERGE), ("impersonate-user", user)];
    if !node.is_empty() {
        headers.push(("impersonate-extra-authentication.kubernetes.io%2fnode-name", node));
    }
    let body = json!({"status": status}).to_string();
    let answer = house.ask("PATCH", &path, &headers, body).await;
    let causes = answer.json["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value| {
        format!("{} {}", cause["field"].as_str().unwrap(), cause["reason"].as_str().unwrap())
    };
    (answer.code, causes.iter().map(text).collect::<Vec<_>>().join(", "))
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [
        {"name": "r", "exactly": {"deviceClassName": "c"}}]}}})
}

fn device() -> Value {
    json!({"driver": "d.example.com", "pool": "p", "device": "x"})
}

fn allocation() -> Value {
    let mut result = device();
    result["request"] = "r".into();
    json!({
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
    })
}

#[tokio::test]
async fn r136c_a_claim_is_what_it_was_made_as() {
    let house = House::new().await;
    let mut body = claim("a");
    body["status"] = json!({"allocation": allocation()});
    assert_eq!(house.made(CLAIMS, body).await["status"], json!({}));
    let path = format!("{CLAIMS}/a");
    let other = json!({"spec": {"devices": {"requests": [
        {"name": "other", "exactly": {"deviceClassName": "c"}}]}}});
    house.merge(&path, other.clone()).await.fails(422, "Invalid");
    // Each way in writes its own half.
    let given = json!({"status": {"allocation": allocation()}, "metadata": {"labels": {"x": "y"}}});
    let plain = house.merge(&path, given.clone()).await.with(200);
    assert_eq!((&plain["status"], &plain["metadata"]["labels"]["x"]), (&json!({}), &json!("y")));
    let mut both = given;
    both["spec"] = other["spec"].clone();
    both["metadata"]["labels"]["x"] = "z".into();
    let written = house.merge(&format!("{path}/status"), both).await.with(200);
    assert_eq!(written["status"]["allocation"], allocation());
    assert_eq!(written["spec"], plain["spec"]);
    assert_eq!(written["metadata"]["labels"]["x"], "y");
    let said = json!({"status": {"devices": [device()]}});
    house.merge(&format!("{path}/status"), said).await.with(200);
    let freed = json!({"status": {"allocation": null}});
    let freed = house.merge(&format!("{path}/status"), freed).await.with(200);
    assert_eq!(freed["status"], json!({}));
}

#[tokio::test]
async fn r136d_binding_a_claim_needs_the_right_to_bind_everywhere() {
    let house = House::new().await;
    let all = |resource: &str| rule("patch", resource, &[]);
    for user in ["nobody", "local", "wrong", "binder"] {
        grant(&house, user, false, user, all("resourceclaims/status")).await;
    }
    grant(&house, "locally", false, "local", all("resourceclaims/binding")).await;
    grant(&house, "otherwise", true, "wrong", rule("update", "resourceclaims/binding", &[])).await;
    grant(&house, "bind", true, "binder", all("resourceclaims/binding")).await;
    let consumer = json!({"resource": "pods", "name": "p", "uid": "u"});
    let allocated = json!({"allocation": allocation()});
    let reserved = json!({"reservedFor": [consumer]});
    for status in [&allocated, &reserved] {
        for (user, good) in
            [("nobody", false), ("local", false), ("wrong", false), ("binder", true)]
        {
            let name = format!("{user}-{}", status.to_string().len());
            house.made(CLAIMS, claim(&name)).await;
            if *status == reserved {
                let path = format!("{CLAIMS}/{name}/status");
                house.merge(&path, json!({"status": allocated})).await.with(200);
            }
            let (code, causes) = write(&house, &name, user, "", status).await;
            let refused = "status.allocation FieldValueForbidden";
            let wanted = if good { (200, "") } else { (422, refused) };
            assert_eq!((code, causes.as_str()), wanted, "{user} {status}");
        }
    }
    // Who changes neither needs no right.
    house.made(CLAIMS, claim("same")).await;
    assert_eq!(write(&house, "same", "nobody", "", &json!({"devices": []})).await.0, 200);
}

#[tokio::test]
async fn r136d_a_driver_speaks_for_itself_on_its_node() {
    let house = House::new().await;
    let account = |name: &str| format!("system:serviceaccount:default:{name}");
    let (near, far, other, plain) = (account("near"), account("far"), account("other"), "plain");
    for user in [&near, &far, &other, plain] {
        let role = user.replace(':', "-");
        grant(&house, &role, false, user, rule("patch", "resourceclaims/status", &[])).await;
    }
    let drivers =
        |verb: &str, name: &str| rule(&format!("{verb}:patch"), "resourceclaims/driver", &[name]);
    let own = "d.example.com";
    grant(&house, "near", false, &near, drivers("associated-node", own)).await;
    grant(&house, "far", false, &far, drivers("arbitrary-node", own)).await;
    grant(&house, "other", false, &other, drivers("arbitrary-node", "e.example.com")).await;
    grant(&house, "plainly", false, plain, drivers("associated-node", own)).await;
    for (number, (user, node, good)) in [
        (near.as_str(), "n", true),
        (&near, "m", false),
        (&near, "", false),
        (&far, "", true),
        (&far, "m", true),
        (&other, "n", false),
        (plain, "n", false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("c{number}");
        house.made(CLAIMS, claim(&name)).await;
        let path = format!("{CLAIMS}/{name}/status");
        house.merge(&path, json!({"status": {"allocation": allocation()}})).await.with(200);
        let (code, causes) =
            write(&house, &name, user, node, &json!({"devices": [device()]})).await;
        let wanted = if good { (200, "") } else { (422, "status.devices FieldValueForbidden") };
        assert_eq!((code, causes.as_str()), wanted, "{user} on {node:?}");
    }
}

#[tokio::test]
async fn r136d_devices_that_others_use_are_for_labelled_namespaces() {
    let house = House::new().await;
    let wanting = |name: &str| {
        let mut claim = claim(name);
        claim["spec"]["devices"]["requests"][0]["exactly"]["adminAccess"] = true.into();
        claim
    };
    let template =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"spec": wanting("x")["spec"]}});
    let given = || {
        let mut allocation = allocation();
        allocation["devices"]["results"][0]["adminAccess"] = true.into();
        json!({"status": {"allocation": allocation}})
    };
    let field = |answer: Answer| {
        assert_eq!(answer.json["details"]["causes"][0]["reason"], "FieldValueForbidden");
        answer.with(422)["details"]["causes"][0]["field"].as_str().unwrap().to_owned()
    };
    let asked = "spec.devices.requests[0].adminAccess";
    let granted = "status.allocation.devices.results[0].adminAccess";
    house.made(CLAIMS, claim("plain")).await;
    let status = format!("{CLAIMS}/plain/status");
    for label in ["", "yes"] {
        let labels =
            json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": label}}});
        house.merge(&format!("{NAMESPACES}/default"), labels).await.with(200);
        assert_eq!(field(house.post(CLAIMS, wanting("a")).await), asked);
        assert_eq!(field(house.post(TEMPLATES, template("a")).await), asked);
        assert_eq!(field(house.merge(&status, given()).await), granted);
    }
    let labels = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    house.merge(&format!("{NAMESPACES}/default"), labels).await.with(200);
    house.made(CLAIMS, wanting("a")).await;
    house.made(TEMPLATES, template("a")).await;
    house.merge(&status, given()).await.with(200);
    // What a claim has it keeps.
    let labels = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": null}}});
    house.merge(&format!("{NAMESPACES}/default"), labels).await.with(200);
    house.merge(&status, json!({"status": {"devices": [device()]}})).await.with(200);
}
