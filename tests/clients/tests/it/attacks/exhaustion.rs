//! What one client asks for has a bound, and ends with the right to it.
//!
//! Bounds of time and memory are generous here: machines that test are busy. `cargo xtask bench` measures.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::{Access, Server};
use tokio::task::JoinSet;

use super::caller::{Answered, Caller};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const MIB: u64 = 1 << 20;
/// A small request of somebody else is answered by then, whatever others do.
const PATIENCE: Duration = Duration::from_secs(20);

fn config_map(name: &str, bytes: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}})
}

/// Rights on all ConfigMaps.
fn all_maps() -> Value {
    json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}])
}

/// Asks something small within [`PATIENCE`].
async fn promptly(caller: &Caller, path: &str) -> Answered {
    let answer = tokio::time::timeout(PATIENCE, caller.get(path)).await;
    answer.unwrap_or_else(|_| panic!("{path} is not answered"))
}

/// Creates that many ConfigMaps of a size, several at a time.
async fn fill(admin: &Caller, count: usize, bytes: usize) {
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let admin = admin.clone();
        writers.spawn(async move {
            for number in (writer..count).step_by(4) {
                let name = format!("m-{number}");
                admin.create(CONFIG_MAPS, config_map(&name, bytes)).await;
            }
        });
    }
    writers.join_all().await;
}

#[tokio::test]
async fn names_that_a_client_invents_are_not_kept() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    let somebody = admin.acting_as("somebody", &[]);
    somebody.get("/openapi/v3/apis/apps/v1").await.expect(200, "the document itself");
    let ask = async |round: usize| {
        for number in 0..200 {
            let word = format!("{round}-{number}");
            for path in [
                format!("/openapi/v3/apis/apps/v1/{word}"),
                format!("/openapi/v3/apis/batch/v1/{word}/deeper"),
                format!("/openapi/v3/api/v1/{word}"),
            ] {
                assert_eq!(somebody.get(&path).await.code, 404, "{path}");
            }
        }
    };
    // The first round pays for what is made once.
    ask(0).await;
    let before = server.resident_bytes().unwrap();
    ask(1).await;
    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    assert!(grown < 16 * MIB, "600 requests left {grown} bytes behind");
}

#[tokio::test]
async fn a_flood_of_one_user_leaves_the_others_their_turn() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    fill(&admin, 600, 2_000).await;
    let flooder = admin.user_with("flooder", all_maps()).await;
    let other = admin.user_with("other", all_maps()).await;
    let end = Instant::now() + Duration::from_secs(6);
    let mut flood = JoinSet::new();
    for _ in 0..300 {
        let flooder = flooder.clone();
        flood.spawn(async move {
            let (mut answered, mut refused) = (0, 0);
            while Instant::now() < end {
                let answer = flooder.get(CONFIG_MAPS).await;
                match answer.code {
                    200 => answered += 1,
                    429 => {
                        assert!(answer.head.contains("retry-after: 1"), "{}", answer.head);
                        assert_eq!(answer.json["reason"], "TooManyRequests");
                        refused += 1;
                    }
                    code => panic!("{code} {}", answer.json),
                }
            }
            (answered, refused)
        });
    }
    let mut asked = 0;
    while Instant::now() < end {
        promptly(&other, &format!("{CONFIG_MAPS}/m-1")).await.expect(200, "another's small get");
        admin.get("/readyz").await.expect(200, "readyz");
        asked += 1;
    }
    let (answered, refused) =
        flood.join_all().await.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(asked > 0 && answered > 0, "{asked} {answered}");
    assert!(refused > 0, "nobody was refused, {answered} were answered");
    promptly(&flooder, &format!("{CONFIG_MAPS}/m-1")).await.expect(200, "after the flood");
}

#[tokio::test]
async fn more_accounts_give_nobody_more_turns() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    fill(&admin, 600, 1_000).await;
    let accounts = json!({"kind": "Group", "name": "system:serviceaccounts:default",
               "apiGroup": "rbac.authorization.k8s.io"});
    admin.bind("accounts", all_maps(), accounts).await;
    let other = admin.user_with("other", all_maps()).await;
    let mut flood = JoinSet::new();
    let end = Instant::now() + Duration::from_secs(5);
    for number in 0..400 {
        let name = format!("system:serviceaccount:default:a-{}", number % 100);
        let account = admin.acting_as(&name, &[]);
        flood.spawn(async move {
            let mut refused = 0;
            while Instant::now() < end {
                refused += usize::from(account.get(CONFIG_MAPS).await.code == 429);
            }
            refused
        });
    }
    while Instant::now() < end {
        promptly(&other, &format!("{CONFIG_MAPS}/m-1")).await.expect(200, "another's small get");
    }
    let refused: usize = flood.join_all().await.into_iter().sum();
    assert!(refused > 0, "accounts of a namespace share one line");
}

#[tokio::test]
async fn a_full_store_refuses_clearly_and_serves_reads_and_deletes() {
    let quota = 4 * MIB;
    let flags = ["--ephemeral", "--store-quota", &quota.to_string()];
    let server = Server::start(&flags).unwrap();
    let admin = Caller::new(server.access().unwrap());
    let greedy = admin.user_with("greedy", all_maps()).await;
    let mut made = 0;
    let refused = loop {
        let answer = greedy.post(CONFIG_MAPS, &config_map(&format!("m-{made}"), 100_000)).await;
        if answer.code != 201 {
            break answer;
        }
        made += 1;
        assert!(made < 60, "more than the quota was stored");
    };
    assert!(made > 10, "{made}");
    let status = refused.expect(500, "a full store");
    assert_eq!(status["details"]["causes"][0]["reason"], "StoreQuotaExceeded");
    let message = status["message"].as_str().unwrap();
    assert!(message.contains(&format!("of {quota} bytes")), "{message}");
    let first = format!("{CONFIG_MAPS}/m-0");
    // No other way of writing passes it, and nothing that is served stops.
    let grown = json!({"data": {"more": "y".repeat(200_000)}});
    greedy.merge(&first, &grown).await.expect(500, "a patch that grows");
    let new = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"},
        "data": {"k": "x".repeat(200_000)},
    });
    let applied = format!("{CONFIG_MAPS}/applied?fieldManager=m");
    greedy.apply(&applied, &new).await.expect(500, "an apply that creates");
    greedy.get(&first).await.expect(200, "get");
    let list = greedy.get(CONFIG_MAPS).await.expect(200, "list");
    assert!(list["items"].as_array().unwrap().len() >= made);
    admin.get("/readyz").await.expect(200, "readyz");
    for number in 0..4 {
        let path = format!("{CONFIG_MAPS}/m-{number}");
        greedy.delete(&path).await.expect(200, "delete");
    }
    greedy.post(CONFIG_MAPS, &config_map("again", 100_000)).await.expect(201, "after deletes");
}

#[tokio::test]
async fn idle_connections_and_watches_leave_the_server_serving() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    admin.create(CONFIG_MAPS, config_map("m", 10)).await;
    let other = admin.user_with("other", all_maps()).await;
    let idle = account(&server, &admin).await;
    let before = server.resident_bytes().unwrap();
    let mut held = Vec::new();
    for number in 0..2_000 {
        let Ok(mut connection) = idle.connect().await else { continue };
        // Every second one says nothing at all.
        if number % 2 == 0 {
            let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=99999999");
            let watch = connection.request("GET", &path, b"");
            if connection.write(&watch).await.is_err() {
                continue;
            }
        }
        held.push(connection);
    }
    assert!(held.len() >= 1_000, "{}", held.len());
    for path in [&format!("{CONFIG_MAPS}/m"), CONFIG_MAPS] {
        promptly(&other, path).await.expect(200, path);
    }
    let made = other.post(CONFIG_MAPS, &config_map("n", 10)).await;
    made.expect(201, "a write that a thousand watches see");
    let grown = server.resident_bytes().unwrap().saturating_sub(before);
    // Each holds a TLS session; a hundred and fifty kilobytes would be far too much.
    assert!(grown < 300 * MIB, "{} connections hold {grown} bytes", held.len());
}

/// A service account that may do everything with ConfigMaps, on connections of its own.
async fn account(server: &Server, admin: &Caller) -> Access {
    admin.create(ACCOUNTS, json!({"metadata": {"name": "idle"}})).await;
    let subject = json!({"kind": "ServiceAccount", "name": "idle", "namespace": "default"});
    admin.bind("idle", all_maps(), subject).await;
    let granted = admin.create(&format!("{ACCOUNTS}/idle/token"), json!({"spec": {}})).await;
    Access::bearer(server.kubeconfig(), granted["status"]["token"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn who_does_not_read_long_answers_holds_little_and_is_cut_off() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    fill(&admin, 200, 500_000).await;
    let other = admin.user_with("other", all_maps()).await;
    let slow = account(&server, &admin).await;
    let before = server.resident_bytes().unwrap();
    let begin = Instant::now();
    let mut held = Vec::new();
    // 100 MB each, of which nothing is read.
    for _ in 0..24 {
        let mut connection = slow.connect().await.unwrap();
        let ask = connection.request("GET", CONFIG_MAPS, b"");
        connection.write(&ask).await.unwrap();
        held.push(connection);
    }
    let mut most = 0;
    while begin.elapsed() < Duration::from_secs(5) {
        promptly(&other, &format!("{CONFIG_MAPS}/m-1")).await.expect(200, "another's small get");
        most = most.max(server.resident_bytes().unwrap().saturating_sub(before));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(most < 400 * MIB, "24 answers that nobody reads hold {most} bytes");
    // Thirty seconds are promised; a busy machine gets more. Whoever then reads does not get it all.
    tokio::time::sleep(Duration::from_secs(40)).await;
    for mut connection in held {
        let whole = tokio::time::timeout(PATIENCE, connection.answer()).await.expect("an end");
        let code = whole.as_ref().map(|answer| answer.code).unwrap_or_default();
        assert!(whole.is_err() || code == 429, "an answer of {code} was kept for {:?}", PATIENCE);
    }
}

#[tokio::test]
async fn a_strategy_that_costs_much_holds_up_nobody_elses_writes() {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    let group = "/apis/reference.authorization.k8s.io/v1alpha1";
    // All members of a list with all others, and again: more work than anybody could wait for.
    let costly = |number: usize| {
        let expression = format!(
            "self.spec.tls.filter(a, self.spec.tls.all(b, self.spec.tls.all(c, a.secretName \
             + b.secretName + c.secretName != '{number}'))).map(t, t.secretName)"
        );
        let target = json!({"group": "", "resource": "secrets"});
        json!({"expression": expression, "purpose": "tls-serving", "target": target})
    };
    let strategy = json!({
        "metadata": {"name": "costly"},
        "origin": {"group": "networking.k8s.io", "resource": "ingresses"},
        "versions": [{"version": "v1", "references": (0..8).map(costly).collect::<Vec<_>>()}],
    });
    admin.create(&format!("{group}/referencestrategies"), strategy).await;
    let tls: Vec<Value> = (0..400).map(|n| json!({"secretName": format!("s-{n}")})).collect();
    let spec = json!({
        "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}, "tls": tls,
    });
    let begin = Instant::now();
    let other = admin.user_with("other", all_maps()).await;
    let mut writers = JoinSet::new();
    for number in 0..60 {
        let (admin, spec) = (admin.clone(), spec.clone());
        writers.spawn(async move {
            let ingress = json!({"metadata": {"name": format!("i-{number}")}, "spec": spec});
            let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
            admin.post(path, &ingress).await.code
        });
    }
    for number in 0..20 {
        let map = config_map(&format!("m-{number}"), 10);
        let left = PATIENCE.saturating_sub(begin.elapsed());
        let made = tokio::time::timeout(left, other.post(CONFIG_MAPS, &map)).await;
        made.expect("another's writes wait").expect(201, "another's write");
    }
    for code in writers.join_all().await {
        assert_eq!(code, 201, "what a strategy cannot read is stored all the same");
    }
}
