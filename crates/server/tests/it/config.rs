//! Rules of spec/api-server.md: ConfigMaps and Secrets, R136.

use serde_json::json;

use crate::house::*;

#[tokio::test]
async fn r136_an_empty_key_is_refused() {
    let house = House::new().await;
    for path in [CONFIG_MAPS, SECRETS] {
        let body = json!({ "metadata": { "name": "a" }, "data": { "": "dmFsdWU=" } });
        let status = house.post(path, body).await.fails(422, "Invalid");
        assert!(fields(&status).contains(&"data[]"), "{path}: {status}");
        house.get(&format!("{path}/a")).await.fails(404, "NotFound");
    }
}

#[tokio::test]
async fn r136_what_is_immutable_stays_but_for_its_labels() {
    let house = House::new().await;
    for path in [CONFIG_MAPS, SECRETS] {
        house.made(path, json!({ "metadata": { "name": "a" }, "data": { "k": "dg==" } })).await;
        let path = format!("{path}/a");
        house.merge(&path, json!({ "data": { "k": "dw==" } })).await.with(200);
        house.merge(&path, json!({ "immutable": true })).await.with(200);
        for change in [
            json!({ "data": { "k": "dg==" } }),
            json!({ "data": { "l": "dg==" } }),
            json!({ "data": { "k": null } }),
            json!({ "immutable": false }),
            json!({ "immutable": null }),
        ] {
            house.merge(&path, change.clone()).await.fails(422, "Invalid");
            let mut whole = house.get(&path).await.with(200);
            for (member, value) in change.as_object().unwrap() {
                whole[member] = value.clone();
            }
            house.put(&path, whole).await.fails(422, "Invalid");
        }
        let labelled = json!({ "metadata": { "labels": { "a": "b" } } });
        house.merge(&path, labelled).await.with(200);
        let kept = house.get(&path).await.with(200);
        assert_eq!((&kept["data"], &kept["immutable"]), (&json!({ "k": "dw==" }), &json!(true)));
        house.delete(&path).await.with(200);
    }
}
