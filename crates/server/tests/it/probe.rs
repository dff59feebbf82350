//! x
use crate::house::*;
use serde_json::json;
use std::sync::Arc;

macro_rules! show {
    ($label:expr, $a:expr) => {{
        let a = $a;
        let t = String::from_utf8_lossy(&a.bytes).into_owned();
        println!("{:55} {} {}", $label, a.code, &t.chars().take(260).collect::<String>());
    }};
}

#[tokio::test]
async fn probe() {
    let h = House::new().await;
    // scale
    h.made(DEPLOYMENTS, deployment("d")).await;
    let scale = format!("{DEPLOYMENTS}/d/scale");
    show!("scale PUT {}", h.put(&scale, json!({})).await);
    show!(
        "scale PUT spec string",
        h.put(&scale, json!({"metadata":{"name":"d"},"spec":"x"})).await
    );
    show!(
        "scale PUT other name",
        h.put(&scale, json!({"metadata":{"name":"e"},"spec":{"replicas":3}})).await
    );
    show!("scale PUT kind", h.put(&scale, json!({"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"replicas":3}})).await);
    show!(
        "scale PUT huge",
        h.put(&scale, json!({"metadata":{"name":"d"},"spec":{"replicas":99999999999i64}})).await
    );
    show!(
        "scale PUT text",
        h.put(&scale, json!({"metadata":{"name":"d"},"spec":{"replicas":"3"}})).await
    );
    show!(
        "scale patch test fail",
        h.patch(&scale, JSON_PATCH, json!([{"op":"test","path":"/spec/replicas","value":77}]))
            .await
    );
    show!(
        "scale patch remove missing",
        h.patch(&scale, JSON_PATCH, json!([{"op":"remove","path":"/nope"}])).await
    );
    show!(
        "scale patch null rv",
        h.merge(&scale, json!({"metadata":{"resourceVersion":null},"spec":{"replicas":2}})).await
    );
    show!(
        "scale patch name",
        h.merge(&scale, json!({"metadata":{"name":"z"},"spec":{"replicas":2}})).await
    );
    show!("scale patch null", h.merge(&scale, json!(null)).await);
    show!("scale patch metadata string", h.merge(&scale, json!({"metadata":"x"})).await);
    show!("scale strategic", h.patch(&scale, STRATEGIC, json!({"spec":{"replicas":4}})).await);
    show!(
        "scale dryrun",
        h.put(
            &format!("{scale}?dryRun=All"),
            json!({"metadata":{"name":"d"},"spec":{"replicas":9}})
        )
        .await
    );
    show!("scale after", h.get(&scale).await);
    // patches
    h.config_map("a").await;
    let a = format!("{CONFIG_MAPS}/a");
    show!(
        "merge rv null",
        h.merge(&a, json!({"metadata":{"resourceVersion":null},"data":{"k":"1"}})).await
    );
    show!(
        "merge rv empty",
        h.merge(&a, json!({"metadata":{"resourceVersion":""},"data":{"k":"2"}})).await
    );
    show!(
        "merge rv 0",
        h.merge(&a, json!({"metadata":{"resourceVersion":"0"},"data":{"k":"2"}})).await
    );
    show!(
        "merge rv number",
        h.merge(&a, json!({"metadata":{"resourceVersion":7},"data":{"k":"2"}})).await
    );
    show!(
        "put rv 0",
        h.put(&a, json!({"metadata":{"name":"a","resourceVersion":"0"},"data":{"k":"3"}})).await
    );
    show!(
        "put rv abc",
        h.put(&a, json!({"metadata":{"name":"a","resourceVersion":"abc"},"data":{"k":"3"}})).await
    );
    show!("merge metadata null", h.merge(&a, json!({"metadata":null})).await);
    show!("merge metadata string", h.merge(&a, json!({"metadata":"x"})).await);
    show!("merge kind null", h.merge(&a, json!({"kind":null})).await);
    show!("json remove root", h.patch(&a, JSON_PATCH, json!([{"op":"remove","path":""}])).await);
    show!(
        "json replace root",
        h.patch(&a, JSON_PATCH, json!([{"op":"replace","path":"","value":[1]}])).await
    );
    show!("json bad ops", h.patch(&a, JSON_PATCH, json!([1,null,{"op":5}])).await);
    show!("json empty", h.patch(&a, JSON_PATCH, json!([])).await);
    show!("strategic unknown dir", h.patch(&a, STRATEGIC, json!({"$patch":"what"})).await);
    show!("strategic $patch delete root", h.patch(&a, STRATEGIC, json!({"$patch":"delete"})).await);
    show!(
        "strategic $patch replace root",
        h.patch(&a, STRATEGIC, json!({"$patch":"replace"})).await
    );
    show!("strategic null data", h.patch(&a, STRATEGIC, json!({"data":{"$patch":null}})).await);
    show!("strategic retain", h.patch(&a, STRATEGIC, json!({"data":{"$retainKeys":[1,{}]}})).await);
    show!(
        "strategic setorder",
        h.patch(
            &a,
            STRATEGIC,
            json!({"metadata":{"$setElementOrder/finalizers":{"a":1},"finalizers":[null,{}]}})
        )
        .await
    );
    show!(
        "strategic deleteprim",
        h.patch(&a, STRATEGIC, json!({"metadata":{"$deleteFromPrimitiveList/finalizers":5}})).await
    );
    show!("get a", h.get(&a).await);
    // delete options
    for options in [
        json!({"preconditions":{"uid":5}}),
        json!({"preconditions":{"resourceVersion":7}}),
        json!({"dryRun":[1]}),
        json!({"dryRun":["All", 1]}),
        json!({"dryRun":"All"}),
        json!(null),
        json!([]),
        json!({"gracePeriodSeconds":1.5}),
        json!({"gracePeriodSeconds":9223372036854775807i64}),
        json!({"propagationPolicy":""}),
        json!({"orphanDependents":"x"}),
        json!({"apiVersion":"apps/v9"}),
        json!({"kind":"Pod"}),
        json!({"kind":1}),
    ] {
        h.post(CONFIG_MAPS, named("x")).await;
        show!(
            format!("delete {options}"),
            h.delete_with(&format!("{CONFIG_MAPS}/x"), options.clone()).await
        );
    }
    // pods
    h.made(PODS, pod("p")).await;
    for body in [
        json!({"target":{"name":"n"},"metadata":{"annotations":{"a":1}}}),
        json!({"target":{"name":"n"},"metadata":{"annotations":{"a":{"b":[]}}}}),
        json!({"target":"n"}),
        json!({"target":{"name":5}}),
        json!({"target":{"name":"bad/../name"}}),
        json!({"kind":"Pod","target":{"name":"n"}}),
        json!({"target":{"kind":"Pod","name":"n"}}),
        json!(null),
        json!([]),
    ] {
        let n = format!("b{}", h.revision());
        h.made(PODS, pod(&n)).await;
        show!(format!("bind {body}"), h.post(&format!("{PODS}/{n}/binding"), body.clone()).await);
        show!("   then get", h.get(&format!("{PODS}/{n}?x")).await);
        show!(
            "   then merge",
            h.merge(&format!("{PODS}/{n}"), json!({"metadata":{"labels":{"z":"y"}}})).await
        );
        show!("   then delete", h.delete(&format!("{PODS}/{n}?gracePeriodSeconds=0")).await);
    }
    for (q, body) in [
        ("?dryRun=All", json!({})),
        ("", json!({"deleteOptions":"x"})),
        ("", json!({"deleteOptions":{"dryRun":["All"]}})),
        ("", json!({"kind":"Pod"})),
        ("", json!(null)),
    ] {
        let n = format!("e{}", h.revision());
        h.made(PODS, pod(&n)).await;
        show!(
            format!("evict {q} {body}"),
            h.post(&format!("{PODS}/{n}/eviction{q}"), body.clone()).await
        );
        show!("   then get", h.get(&format!("{PODS}/{n}")).await);
    }
    h.merge(&format!("{PODS}/p/status"), json!({"status":{"phase":"Running"}})).await;
    h.post(&format!("{PODS}/p/binding"), json!({"target":{"name":"n"}})).await;
    show!(
        "pod grace huge",
        h.delete_with(&format!("{PODS}/p"), json!({"gracePeriodSeconds":9223372036854775807i64}))
            .await
    );
    show!("pod get", h.get(&format!("{PODS}/p")).await);
    show!("pod delete again", h.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await);
    // status
    h.made(PODS, pod("s")).await;
    for body in [
        json!({"status":null}),
        json!({"status":[]}),
        json!({"status":{"conditions":null}}),
        json!({"status":{"conditions":[null]}}),
        json!({"status":{"conditions":[{"type":5}]}}),
        json!({"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z"}}),
        json!({"metadata":{"ownerReferences":null,"finalizers":["a/b"]}}),
        json!({"metadata":{"generation":99}}),
        json!({"metadata":{"labels":{"a":null}}}),
        json!({"metadata":{"managedFields":"x"}}),
        json!({"metadata":{"managedFields":[{"manager":1}]}}),
        json!({"metadata":{"managedFields":[{"manager":"a","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{"f:x":{"k:{bad":{}}}}]}}),
    ] {
        show!(format!("status {body}"), h.merge(&format!("{PODS}/s/status"), body.clone()).await);
        show!(format!("main {body}"), h.merge(&format!("{PODS}/s"), body.clone()).await);
    }
}

#[tokio::test]
async fn probe2() {
    let h = House::new().await;
    let nodeports = json!({"metadata":{"name":"n"},"spec":{"type":"NodePort","ports":[{"name":"a","port":53,"protocol":"TCP","nodePort":30053},{"name":"b","port":53,"protocol":"UDP","nodePort":30053}]}});
    show!("nodeport same", h.post(SERVICES, nodeports).await);
    show!(
        "nodeport to clusterip",
        h.merge(&format!("{SERVICES}/n"), json!({"spec":{"type":"ClusterIP"}})).await
    );
    show!(
        "nodeport back",
        h.merge(&format!("{SERVICES}/n"), json!({"spec":{"type":"NodePort"}})).await
    );
    show!("nodeport delete", h.delete(&format!("{SERVICES}/n")).await);
    let nodeports = json!({"metadata":{"name":"n"},"spec":{"type":"NodePort","ports":[{"name":"a","port":53,"protocol":"TCP","nodePort":30053},{"name":"b","port":53,"protocol":"UDP","nodePort":30053}]}});
    show!("nodeport same", h.post(SERVICES, nodeports).await);
    show!("nodeport delete", h.delete(&format!("{SERVICES}/n")).await);
    show!(
        "ext",
        h.post(SERVICES, json!({"metadata":{"name":"e"},"spec":{"ports":[{"port":1}]}})).await
    );
    show!(
        "to ext",
        h.merge(
            &format!("{SERVICES}/e"),
            json!({"spec":{"type":"ExternalName","externalName":"x.example.com"}})
        )
        .await
    );
    show!(
        "back",
        h.merge(&format!("{SERVICES}/e"), json!({"spec":{"type":"ClusterIP","externalName":null}}))
            .await
    );
    show!("ips", h.get("/apis/networking.k8s.io/v1/ipaddresses").await);
    for (l, q) in [
        ("huge timeoutSeconds", "timeoutSeconds=9223372036854775807"),
        ("neg", "timeoutSeconds=-5"),
    ] {
        let p = format!("{CONFIG_MAPS}?watch=1&{q}&resourceVersion={}", h.revision());
        let api = Arc::clone(&h.api);
        let r = tokio::spawn(async move {
            let req = http::Request::builder()
                .uri(p)
                .body(http_body_util::Full::new(bytes::Bytes::new()))
                .unwrap();
            api.call(req, admin()).await.status()
        })
        .await;
        println!("{l}: {r:?}");
    }
    for p in [
        "/api/v1/namespaces/default/configmaps/a%2Fb",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/def%2Fault/configmaps",
        "/api/v1/namespaces//configmaps",
        "//api/v1/configmaps",
        "/api/v1/configmaps/",
        "/api/v1/namespaces/default/configmaps/a/b/c/d",
        "/api/v1/watch",
        "/api/v1/watch/",
        "/apis//v1",
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/namespaces",
        "/api/v1/namespaces/default/namespaces/default",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/x",
        "/api/v1/namespaces/%2e%2e/configmaps",
        "/healthz/ping",
        "/healthz/nope",
        "/readyz/shutdown",
        "/healthz/",
        "/version/",
        "/openapi/v3/api/v1?hash=abc",
        "/openapi/v3/",
        "/metrics",
    ] {
        show!(p, h.get(p).await);
    }
    for (m, p) in [
        ("OPTIONS", CONFIG_MAPS),
        ("OPTIONS", "/api/v1/namespaces/default/pods/x/status"),
        ("TRACE", CONFIG_MAPS),
        ("BREW", CONFIG_MAPS),
        ("POST", "/api/v1/watch/namespaces/default/configmaps"),
        ("DELETE", "/api/v1/watch/namespaces/default/configmaps/x"),
        ("HEAD", CONFIG_MAPS),
        ("POST", "/healthz"),
        ("POST", "/api"),
        ("DELETE", "/api/v1"),
        ("CONNECT", "/api/v1"),
        ("DELETE", "/api/v1/configmaps"),
    ] {
        show!(
            format!("{m} {p}"),
            h.ask(m, p, &[("content-type", JSON)], r#"{"metadata":{"name":"w"}}"#).await
        );
    }
    for body in [
        "",
        "null",
        "true",
        "1",
        "\"x\"",
        "[]",
        "[{}]",
        "{\"metadata\":null}",
        "{\"metadata\":[]}",
        "{\"metadata\":{\"name\":5}}",
        "{\"metadata\":{\"name\":\"\\u0000\"}}",
        "{\"metadata\":{\"name\":\"ü\"}}",
        "{\"metadata\":{\"name\":\"a/b\"}}",
        "{\"metadata\":{\"name\":\"a%b\"}}",
        "{\"metadata\":{\"name\":\"..\"}}",
        "{\"metadata\":{\"name\":\"A\"}}",
        "{\"metadata\":{\"generateName\":\"ü-\"}}",
        "{\"metadata\":{\"generateName\":5}}",
        "{\"metadata\":{\"name\":\"q\",\"labels\":[]}}",
        "{\"metadata\":{\"name\":\"q\",\"labels\":{\"a\":1}}}",
        "{\"metadata\":{\"name\":\"q\",\"labels\":{\"a\":null}}}",
        "{\"metadata\":{\"name\":\"q1\",\"annotations\":null,\"finalizers\":null,\"ownerReferences\":null}}",
        "{\"metadata\":{\"name\":\"q2\",\"finalizers\":[null]}}",
        "{\"metadata\":{\"name\":\"q2\",\"ownerReferences\":[null]}}",
        "{\"metadata\":{\"name\":\"q2\",\"ownerReferences\":[{}]}}",
        "{\"metadata\":{\"name\":\"q3\",\"creationTimestamp\":\"yesterday\"}}",
        "{\"metadata\":{\"name\":\"q3\",\"creationTimestamp\":null,\"deletionTimestamp\":\"2020-01-01T00:00:00Z\"}}",
        "{\"metadata\":{\"name\":\"q4\",\"generation\":1e400}}",
        "{\"metadata\":{\"name\":\"q4\",\"generation\":99999999999999999999999}}",
        "{\"metadata\":{\"name\":\"q4\",\"generation\":1.5}}",
        "{\"metadata\":{\"name\":\"q5\"},\"data\":{\"a\":null}}",
        "{\"kind\":5,\"metadata\":{\"name\":\"q6\"}}",
        "{\"kind\":null,\"apiVersion\":null,\"metadata\":{\"name\":\"q7\"}}",
        "{\"apiVersion\":[],\"metadata\":{\"name\":\"q8\"}}",
        "\u{feff}{\"metadata\":{\"name\":\"q9\"}}",
        "{\"metadata\":{\"name\":\"q10\",\"managedFields\":[{\"fieldsV1\":5}]}}",
        "{\"immutable\":\"yes\",\"metadata\":{\"name\":\"q11\"}}",
        "{\"KIND\":\"ConfigMap\",\"Metadata\":{\"name\":\"q12\"}}",
        "{\"metadata\":{\"name\":\"q13\"}}garbage",
        "{\"metadata\":{\"name\":\"q14\",\"namespace\":5}}",
    ] {
        show!(
            format!("POST {body}"),
            h.ask("POST", CONFIG_MAPS, &[("content-type", JSON)], body).await
        );
    }
    show!(
        "not utf8",
        h.ask(
            "POST",
            CONFIG_MAPS,
            &[("content-type", JSON)],
            &b"{\"metadata\":{\"name\":\"a\xff\"}}"[..]
        )
        .await
    );
    let deep = format!("{}{}", "{\"a\":".repeat(5000), "1".to_string() + &"}".repeat(5000));
    show!("deep", h.ask("POST", CONFIG_MAPS, &[("content-type", JSON)], deep.clone()).await);
    show!(
        "deep patch",
        h.ask("PATCH", &format!("{CONFIG_MAPS}/q1"), &[("content-type", MERGE)], deep).await
    );
    let deepy = "a: ".to_string() + &"[".repeat(5000) + &"]".repeat(5000);
    show!(
        "deep yaml",
        h.ask("POST", CONFIG_MAPS, &[("content-type", "application/yaml")], deepy).await
    );
    show!("yaml bomb", h.ask("POST", CONFIG_MAPS, &[("content-type", "application/yaml")], "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n").await);
    show!("warning unicode", {
        let a = h.post(CONFIG_MAPS, json!({"metadata":{"name":"wu"},"fü":1})).await;
        println!("{:?}", a.warnings());
        a
    });
    show!(
        "future watch 400?",
        h.get(&format!("{CONFIG_MAPS}?resourceVersion=99999999&resourceVersionMatch=Exact")).await
    );
    for q in [
        "limit=1e3",
        "limit=99999999999999999999",
        "resourceVersion=-1",
        "resourceVersion=99999999999999999999999",
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=%C3%BC%3Da",
        "labelSelector=a+in+(",
        "labelSelector=,",
        "fieldSelector=,",
        "fieldSelector=metadata.name",
        "fieldSelector=metadata.name%3E5",
        "fieldSelector=metadata.name%3D%5C",
        "continue=e30",
        "limit=1&limit=2",
        "labelSelector=a%3Ex",
        "labelSelector=!",
        "labelSelector=a%20notin%20()",
    ] {
        show!(q, h.get(&format!("{CONFIG_MAPS}?{q}")).await);
    }
}
