//! Rules of spec/referential-authorization.md: the authorizer on, observing and off (D15, R135).

use serde_json::json;
use tenure_server::Peer;
use tenure_server::reference::{AuthorizerMode, ReferenceOptions};

use super::access::{LOCAL, TLS, town_in, watched};
use super::*;

async fn town(authorizer: AuthorizerMode) -> (House, Peer) {
    let settings =
        ReferenceOptions { authorizer, filtered_lists: true, ..ReferenceOptions::default() };
    town_in(House::referring(settings).await).await
}

#[tokio::test]
async fn d15_off_and_observe_allow_nothing_and_the_api_is_served() {
    for authorizer in [AuthorizerMode::Off, AuthorizerMode::Observe] {
        let (house, contour) = town(authorizer).await;
        for path in [
            format!("{LOCAL}/local"),
            format!("{TLS}/acme-tls"),
            format!("{LOCAL}?fieldSelector=metadata.name=local"),
            LOCAL.to_owned(),
        ] {
            let refused =
                house.ask_as(&contour, "GET", &path, &[], "").await.fails(403, "Forbidden");
            // Nobody is told of references that lead nowhere.
            assert!(!refused["message"].as_str().unwrap().contains("reference"), "{refused}");
        }
        let review = json!({ "spec": { "user": "contour", "resourceAttributes": {
            "verb": "get", "resource": "secrets", "namespace": "prod", "name": "local",
        } } });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        assert_eq!(house.made(path, review).await["status"]["allowed"], false);
        // Objects are staged, checked and shown as ever.
        assert_eq!(house.get(&format!("{GRANTS}/prod-gateways")).await.code, 200);
        let bad = with(grant("bad", &["*"]), "/purpose", json!("Bad"));
        assert_eq!(house.post(GRANTS, bad).await.code, 422);
    }
}

#[tokio::test]
async fn d15_on_is_the_default() {
    assert_eq!(ReferenceOptions::default().authorizer, AuthorizerMode::On);
    let (house, contour) = town(AuthorizerMode::On).await;
    let path = format!("{LOCAL}?watch=1&fieldSelector=metadata.name%3Dlocal");
    watched(&house, &contour, &path).await.expect(&["ADDED local"]).await;
}
