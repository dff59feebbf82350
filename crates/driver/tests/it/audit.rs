//! Rules of spec/ownership.md: what the followers write is written down under their own names.

use serde_json::{Value, json};
use tenure_server::audit::AuditLevel;

use crate::estate::*;
use crate::house::*;
use crate::paper::Paper;

/// More than the tests write.
const HISTORY_BYTES: u64 = 1 << 20;

async fn audited(paper: &Paper) -> Estate {
    let audit = Some(paper.audit.clone());
    Estate::around(House::followed(audit, HISTORY_BYTES).await).await
}

/// The lines of one account, without what differs from run to run.
async fn lines_of(paper: &Paper, account: &str) -> Vec<Value> {
    let user = format!("system:serviceaccount:kube-system:{account}");
    let mut lines = paper.lines().await;
    lines.retain(|line| line["user"]["username"] == *user);
    for line in &mut lines {
        assert_eq!(line["stage"], "ResponseComplete", "{line:#}");
        assert_eq!(line["level"], "Metadata", "no body travelled");
        assert_eq!(line["auditID"].as_str().unwrap().len(), 36, "{line:#}");
        for time in ["requestReceivedTimestamp", "stageTimestamp"] {
            assert!(line[time].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        }
    }
    lines
}

#[tokio::test]
async fn r148_what_the_collector_does_stands_in_the_audit_log() {
    let paper = Paper::new(AuditLevel::RequestResponse);
    let estate = audited(&paper).await;
    let (owner, other) = (estate.map("o", &[]).await, estate.map("other", &[]).await);
    let dependent = estate.map("d", &[to(&owner)]).await;
    estate.map("shared", &[to(&owner), to(&other)]).await;
    estate.settle().await;
    assert_eq!(lines_of(&paper, "generic-garbage-collector").await, Vec::<Value>::new());
    estate.end("o", "Background").await;
    estate.settle().await;
    let mut lines = lines_of(&paper, "generic-garbage-collector").await;
    lines.sort_by_key(|line| line["verb"].to_string());
    let said: Vec<(&Value, &Value)> =
        lines.iter().map(|line| (&line["verb"], &line["requestURI"])).collect();
    let (d, shared) = (format!("{CONFIG_MAPS}/d"), format!("{CONFIG_MAPS}/shared"));
    assert_eq!(said, [(&json!("delete"), &json!(d)), (&json!("patch"), &json!(shared))]);
    let first = &lines[0];
    assert_eq!(
        first["user"]["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
            "system:authenticated",
        ])
    );
    assert_eq!(
        first["objectRef"],
        json!({ "resource": "configmaps", "namespace": "default", "name": "d", "apiVersion": "v1" })
    );
    assert_eq!(first["responseStatus"], json!({ "metadata": {}, "code": 200 }));
    assert_eq!(first["userAgent"], "kube-controller-manager");
    // Why, back to what a client did (section 19.2).
    let cause = first["annotations"]["tenure.dev/cause"].as_str().unwrap();
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
    let steps: Vec<&str> = cause.split(", ").collect();
    assert!(steps[0].starts_with(&format!("R92 {} ", uid(&dependent))), "{cause}");
    assert!(steps[1].starts_with(&format!("client {} ", uid(&owner))), "{cause}");
}

#[tokio::test]
async fn r148_a_refusal_of_the_collector_stands_there_too() {
    let paper = Paper::new(AuditLevel::Metadata);
    let estate = audited(&paper).await;
    let path = format!("{NAMESPACES}/kube-system");
    let system = estate.house.get(&path).await.with(200);
    // This namespace may not be deleted, whoever owns it.
    let owners = json!({ "metadata": { "ownerReferences": [nobody("Namespace")] } });
    estate.house.merge(&path, owners).await.with(200);
    let refused = async {
        loop {
            let lines = lines_of(&paper, "generic-garbage-collector").await;
            match lines.into_iter().next() {
                Some(line) => return line,
                None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    };
    let line = tokio::time::timeout(std::time::Duration::from_secs(20), refused).await.unwrap();
    assert_eq!((&line["verb"], &line["requestURI"]), (&json!("delete"), &json!(path)));
    assert_eq!(line["responseStatus"]["code"], 403);
    assert_eq!(line["responseStatus"]["reason"], "Forbidden");
    let left = estate.house.get(&path).await.with(200);
    assert_eq!(left["metadata"]["uid"], system["metadata"]["uid"]);
}

#[tokio::test]
async fn controllers_are_written_down_like_clients() {
    let paper = Paper::new(AuditLevel::Metadata);
    let estate = audited(&paper).await;
    paper.lines().await;
    let mut web = deployment("web");
    web["spec"]["replicas"] = json!(1);
    estate.house.made(DEPLOYMENTS, web).await;
    estate.settle().await;
    let lines = lines_of(&paper, "deployment-controller").await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let made = lines.iter().find(|line| line["requestURI"] == sets).unwrap();
    assert_eq!((&made["verb"], &made["responseStatus"]["code"]), (&json!("create"), &json!(201)));
    assert!(made["objectRef"]["name"].as_str().unwrap().starts_with("web-"), "{made:#}");
    let status = format!("{DEPLOYMENTS}/web/status");
    let told = lines.iter().find(|line| line["requestURI"] == *status).unwrap();
    assert_eq!((&told["verb"], &told["responseStatus"]["code"]), (&json!("update"), &json!(200)));
    assert_eq!(told["objectRef"]["subresource"], "status");
}
