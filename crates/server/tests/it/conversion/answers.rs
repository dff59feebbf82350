//! What a webhook may answer, and what happens when it answers something else.

use std::time::Duration;

use super::*;

/// What is done to converted objects.
type Change = fn(&mut Vec<Value>);

/// A server with a route that is stored as version 1.
async fn one_route() -> (House, Converter) {
    let (house, converter) = routes("v1").await;
    let mut route = first("a", "here:80");
    route["metadata"]["labels"] = json!({ "kept": "yes" });
    route["metadata"]["finalizers"] = json!(["example.com/hold"]);
    house.made(V1, route).await;
    (house, converter)
}

#[tokio::test]
async fn r129_of_metadata_only_labels_and_annotations_are_taken() {
    let (house, converter) = one_route().await;
    let plain = house.get(&format!("{V1}/a")).await.with(200);
    converter.changes(|all| {
        let metadata = &mut all[0]["metadata"];
        metadata["labels"] = json!({ "kept": "no", "more": "yes" });
        metadata["annotations"] = json!({ "note": "converted" });
        metadata["finalizers"] = json!([]);
        metadata["generation"] = 99.into();
        metadata["resourceVersion"] = "1".into();
        metadata["ownerReferences"] = json!([{ "uid": "u" }]);
        metadata["deletionTimestamp"] = "2020-01-01T00:00:00Z".into();
        metadata["managedFields"] = json!([]);
    });
    let mut read = house.get(&format!("{V2}/a")).await.with(200);
    assert_eq!(read["metadata"]["labels"], json!({ "kept": "no", "more": "yes" }));
    assert_eq!(read["metadata"]["annotations"], json!({ "note": "converted" }));
    read["metadata"]["labels"] = plain["metadata"]["labels"].clone();
    read["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(read["metadata"], plain["metadata"]);
    converter.changes(|all| drop(all[0]["metadata"].as_object_mut().unwrap().remove("labels")));
    let read = house.get(&format!("{V2}/a")).await.with(200);
    assert!(read["metadata"].get("labels").is_none());
}

#[tokio::test]
async fn r129_an_answer_has_every_object_as_the_one_that_it_was() {
    let (house, converter) = one_route().await;
    let table: [(&str, Change); 14] = [
        ("returned 0 objects, expected 1", |all| all.clear()),
        ("returned 2 objects, expected 1", |all| all.push(all[0].clone())),
        ("must have the same name: a != b", |all| all[0]["metadata"]["name"] = "b".into()),
        ("must have the same namespace: default != kube-system", |all| {
            all[0]["metadata"]["namespace"] = "kube-system".into();
        }),
        ("must have the same UID", |all| all[0]["metadata"]["uid"] = "u".into()),
        ("must have the same UID", |all| {
            all[0]["metadata"].as_object_mut().unwrap().remove("uid");
        }),
        ("invalid kind (expected Route, received Pod)", |all| all[0]["kind"] = "Pod".into()),
        ("Object 'Kind' is missing", |all| drop(all[0].as_object_mut().unwrap().remove("kind"))),
        ("expected example.com/v2, received example.com/v1", |all| {
            all[0]["apiVersion"] = "example.com/v1".into();
        }),
        ("must be an object, not null", |all| all[0] = Value::Null),
        ("invalid metadata.labels of type string", |all| {
            all[0]["metadata"]["labels"] = "x".into();
        }),
        ("metadata.labels[a] must be a string, but is number", |all| {
            all[0]["metadata"]["labels"] = json!({ "a": 1 });
        }),
        ("metadata.labels: ", |all| all[0]["metadata"]["labels"] = json!({ "a b": "c" })),
        ("metadata.annotations: ", |all| {
            all[0]["metadata"]["annotations"] = json!({ "a b": "c" });
        }),
    ];
    for (why, change) in table {
        converter.changes(change);
        fails(house.get(&format!("{V2}/a")).await, why);
        fails(house.get(V2).await, why);
    }
    converter.changes(|all| drop(all[0].as_object_mut().unwrap().remove("metadata")));
    let answer = house.get(&format!("{V2}/a")).await;
    fails(answer, "must have the same name");
    converter.works();
    house.get(&format!("{V2}/a")).await.with(200);
}

#[tokio::test]
async fn r129_an_answer_belongs_to_its_question() {
    let (house, converter) = one_route().await;
    let ask = async |why: &str| fails(house.get(&format!("{V2}/a")).await, why);
    converter.answers(|review| answer(review, json!({ "uid": "another" })));
    ask("expected response.uid=").await;
    converter.answers(|review| {
        answer(review, json!({ "result": { "status": "Failure", "message": "no such route" } }))
    });
    ask("failed: no such route").await;
    converter.answers(|review| answer(review, json!({ "result": { "status": "Maybe" } })));
    ask("failed: response.result.status was 'Maybe', not 'Success'").await;
    converter.answers(|_| Response::new("{\"kind\":\"ConversionReview\"}".into()));
    ask("expected webhook response of apiextensions.k8s.io/v1").await;
    converter.answers(|review| {
        let review = json!({ "kind": "ConversionReview", "apiVersion": review["apiVersion"] });
        Response::new(review.to_string().into())
    });
    ask("failed: no response provided").await;
    converter.answers(|_| Response::new("<html>".into()));
    ask("failed: the answer is not JSON").await;
    converter.answers(|_| Response::new(vec![b'['; 100_000].into()));
    ask("failed: the answer is not JSON").await;
    converter.answers(|_| Response::new(vec![b' '; 40 << 20].into()));
    ask("the answer is longer than").await;
    converter.answers(|_| {
        let mut elsewhere = status(StatusCode::TEMPORARY_REDIRECT, "");
        elsewhere.headers_mut().insert("location", "https://127.0.0.1:1/".parse().unwrap());
        elsewhere
    });
    ask("307").await;
    converter.answers(|_| status(StatusCode::NOT_FOUND, "404 page not found"));
    ask("the server could not find the requested resource").await;
}

#[tokio::test]
async fn r129_one_object_that_fails_fails_its_list() {
    let (house, converter) = routes("v1").await;
    for name in ["a", "b", "c"] {
        house.made(V1, first(name, "here:80")).await;
    }
    converter.changes(|all| {
        for object in all.iter_mut().filter(|object| name(object) == "b") {
            object["metadata"]["uid"] = "another".into();
        }
    });
    fails(
        house.get(V2).await,
        "returned invalid converted object at index 1: must have the same UID",
    );
    house.get(&format!("{V2}/a")).await.with(200);
    assert_eq!(names(&house.get(V1).await.with(200)), ["a", "b", "c"]);
}

#[tokio::test]
async fn r129_the_first_known_version_of_reviews_is_spoken() {
    let (house, converter) = one_route().await;
    let change = json!({ "spec": { "conversion": { "webhook": {
        "conversionReviewVersions": ["v7", "v1beta1", "v1"] } } } });
    house.merge(DEFINITION, change).await.with(200);
    // Answers of the old version were never compared with their question.
    converter.answers(|review| {
        assert_eq!(review["apiVersion"], "apiextensions.k8s.io/v1beta1");
        let members = json!({ "uid": "", "result": { "status": "Success" }, "convertedObjects": each(review) });
        answer(review, members)
    });
    assert_eq!(house.get(&format!("{V2}/a")).await.with(200)["spec"]["host"], "here");
}

#[tokio::test]
async fn r129_the_server_must_prove_who_it_is() {
    let (house, converter) = one_route().await;
    let other = Converter::start().await;
    let bundle = STANDARD.encode(&other.reviews.server.authority);
    let change = json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "caBundle": bundle } } } } });
    house.merge(DEFINITION, change).await.with(200);
    fails(house.get(&format!("{V2}/a")).await, "failed: Post \"https://127.0.0.1:");
    assert_eq!(converter.calls(), 0);
}

#[tokio::test]
async fn r129_a_service_is_called_by_its_name() {
    let (house, _converter) = one_route().await;
    let names = vec!["far.default.svc".to_owned()];
    let settings = HttpsSettings { names, ..HttpsSettings::default() };
    let server = HttpsServer::start(settings, |request| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(request.uri().path(), "/convert");
        assert_eq!(request.uri().query(), Some("timeout=30s"));
        async move { done(&review, each(&review)) }
    })
    .await;
    let config = json!({
        "url": null, "caBundle": STANDARD.encode(&server.authority),
        "service": { "namespace": "default", "name": "routes", "path": "/convert" },
    });
    let change = json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } });
    house.merge(DEFINITION, change).await.with(200);
    fails(house.get(&format!("{V2}/a")).await, "\"routes\" not found");
    let spec = json!({ "ports": [{ "port": 443, "targetPort": server.address.port() }] });
    house.made(SERVICES, json!({ "metadata": { "name": "routes" }, "spec": spec })).await;
    fails(house.get(&format!("{V2}/a")).await, "no endpoints available for service \"routes\"");
    // One that is elsewhere is reached under its name, and proves that of the Service.
    let elsewhere = json!({ "type": "ExternalName", "externalName": "localhost" });
    house.made(SERVICES, json!({ "metadata": { "name": "far" }, "spec": elsewhere })).await;
    let service = json!({ "name": "far", "port": server.address.port() });
    let config = json!({ "service": service });
    let change = json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } });
    house.merge(DEFINITION, change).await.with(200);
    assert_eq!(house.get(&format!("{V2}/a")).await.with(200)["spec"]["host"], "here");
}

#[tokio::test(flavor = "multi_thread")]
async fn r129_a_webhook_that_hangs_holds_up_nobody_else() {
    let (house, converter) = one_route().await;
    let hanging = HttpsServer::start(HttpsSettings::default(), |_| async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        status(StatusCode::OK, "")
    })
    .await;
    let config =
        json!({ "url": hanging.url("/"), "caBundle": STANDARD.encode(&hanging.authority) });
    let change = json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } });
    house.merge(DEFINITION, change).await.with(200);
    let path = format!("{V2}/a");
    // More than may call at a time, and more than there are seats.
    let waiting = futures::future::join_all((0..100).map(|_| house.get(&path)));
    let others = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let begun = std::time::Instant::now();
        for _ in 0..20 {
            house.get(&format!("{V1}/a")).await.with(200);
            house.config_map(&format!("m-{}", begun.elapsed().as_nanos())).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        // A definition that is put right ends the wait of those who come later.
        let change = json!({ "spec": { "conversion": converter.stanza() } });
        house.merge(DEFINITION, change).await.with(200);
        house.get(&path).await.with(200);
    };
    tokio::select! {
        _ = waiting => panic!("they hang"),
        () = others => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r129_a_webhook_may_read_what_it_converts() {
    let (house, converter) = one_route().await;
    let house = Arc::new(house);
    let inner = Arc::clone(&house);
    let runtime = tokio::runtime::Handle::current();
    converter.answers(move |review| {
        let (inner, version) = (Arc::clone(&inner), V1);
        let asked = async move { inner.get(&format!("{version}/a")).await.with(200) };
        let read = tokio::task::block_in_place(|| runtime.block_on(asked));
        let mut converted = each(review);
        converted[0]["metadata"]["annotations"] = json!({ "read": read["spec"]["address"] });
        done(review, converted)
    });
    let read = house.get(&format!("{V2}/a")).await.with(200);
    assert_eq!(read["metadata"]["annotations"], json!({ "read": "here:80" }));
    converter.works();
}

#[tokio::test]
async fn r129_calls_are_counted() {
    let (house, converter) = one_route().await;
    house.get(&format!("{V2}/a")).await.with(200);
    converter.breaks();
    fails(house.get(&format!("{V2}/a")).await, "");
    converter.changes(Vec::clear);
    fails(house.get(&format!("{V2}/a")).await, "");
    let metrics = house.get("/metrics").await;
    for line in [
        "apiserver_conversion_webhook_request_total{result=\"success\",failure_type=\"\"} 1",
        "result=\"failure\",failure_type=\"conversion_webhook_call_failure\"} 1",
        "result=\"failure\",failure_type=\"conversion_webhook_partial_response_failure\"} 1",
        "apiserver_crd_conversion_webhook_duration_seconds_count{crd_name=\"routes.example.com\",\
         from_version=\"v1\",to_version=\"v2\",succeeded=\"true\"} 1",
    ] {
        assert!(metrics.text().contains(line), "{line}");
    }
}
