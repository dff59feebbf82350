//! Rules of spec/retention.md: `tenure unused`, `tenure retention drain` and what `tenure why` knows of retention,
//! as a person types them, against a running server.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::Server;

use crate::typed::{run, send};

/// The longest a test waits for an engine.
const PATIENCE: Duration = Duration::from_secs(20);

const CORE: &str = "/api/v1/namespaces/default";
const SETTINGS: &str = "/api/v1/namespaces/default/configmaps/settings";

/// A Deployment that mentions the opted-in ConfigMap `settings`; and a ConfigMap and a Secret that nothing mentions.
fn fill(server: &Server) {
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let mut settings = named("settings");
    settings["controllersAsOwners"] = json!(true);
    send(server, "POST", &format!("{CORE}/configmaps"), Some(&settings));
    send(server, "POST", &format!("{CORE}/configmaps"), Some(&named("leftover")));
    send(server, "POST", &format!("{CORE}/secrets"), Some(&named("leftover")));
    let deployment = json!({
        "metadata": { "name": "web" },
        "spec": {
            "selector": { "matchLabels": { "a": "b" } },
            "template": {
                "metadata": { "labels": { "a": "b" } },
                "spec": {
                    "containers": [{ "name": "c", "image": "example.com/i" }],
                    "volumes": [{ "name": "v", "configMap": { "name": "settings" } }],
                },
            },
        },
    });
    send(server, "POST", "/apis/apps/v1/namespaces/default/deployments", Some(&deployment));
}

/// Waits until `settings` has so many owners.
fn until_owners(server: &Server, number: usize) {
    let end = Instant::now() + PATIENCE;
    loop {
        let settings = send(server, "GET", SETTINGS, None);
        let owners = settings["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
        if owners == number {
            return;
        }
        assert!(Instant::now() < end, "{owners} owners: {settings}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_nothing_mentions_is_found_and_what_holds_the_others() {
    let server = Server::ephemeral().unwrap();
    let nothing = run(&server, "unused");
    assert_eq!(nothing.code, Some(0), "{nothing:?}");
    fill(&server);
    until_owners(&server, 1);
    let said = run(&server, "unused");
    assert_eq!(said.code, Some(3), "{said:?}");
    let lines: Vec<Vec<&str>> =
        said.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAMESPACE", "OBJECT", "VERDICT", "ENTRIES", "AGE", "HELD", "BY"]);
    assert_eq!(lines[1][..3], ["default", "configmap/leftover", "unused"]);
    assert_eq!(lines[2][..3], ["default", "secret/leftover", "unused"]);
    let settings = lines.iter().find(|line| line[1] == "configmap/settings").unwrap();
    assert_eq!(settings[2], "used");
    assert!(settings[5].starts_with("deployment/web"), "{settings:?}");
    assert!(said.out.contains("2 unused, 0 unknown, 2 used"), "{}", said.out);
    assert!(!said.out.contains("safe"), "{}", said.out);

    let json = run(&server, "unused -A -o json");
    assert_eq!(json.code, Some(3));
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["unused"], 2);
    let of = |name: &str| {
        let all = report["subjects"].as_array().unwrap();
        all.iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(of("leftover")["verdict"], "unused");
    let settings = of("settings");
    assert_eq!(settings["verdict"], "used");
    assert_eq!(settings["controllersAsOwners"], true);
    assert_eq!(settings["owners"][0]["kind"], "ReplicaSet");
    assert_eq!(report["unread"], json!([]));
    let other = run(&server, "unused -n kube-system");
    assert_eq!(other.code, Some(0), "{other:?}");
}

#[test]
fn why_tells_who_retains_a_config_map_and_until_when() {
    let server = Server::ephemeral().unwrap();
    fill(&server);
    until_owners(&server, 1);
    let said = run(&server, "why configmap/settings");
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("revision 1 of Deployment `web`, 1 replica"), "{}", said.out);
    assert!(said.out.contains("goes after 11 more rollouts"), "{}", said.out);
    assert!(said.out.contains("rule: R33: a revision that leaves the history"), "{}", said.out);
    let json = run(&server, "why cm/settings -o json");
    let why: Value = serde_json::from_str(&json.out).unwrap();
    let codes: Vec<&str> =
        why["reasons"].as_array().unwrap().iter().map(|r| r["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["kept", "retained"]);
}

#[test]
fn r70_drain_strips_managed_owners_and_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::durable(folder.path()).unwrap();
    fill(&server);
    until_owners(&server, 1);
    let dry = run(&server, "retention drain --dry-run");
    assert_eq!(dry.code, Some(0), "{dry:?}");
    assert!(dry.out.ends_with("would take 1 owner from 1 object\n"), "{dry:?}");
    until_owners(&server, 1);
    // While the engine runs, it writes them again.
    let refused = run(&server, "retention drain");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("--feature-gates ControllersAsOwners=false"), "{refused:?}");
    until_owners(&server, 1);
    server.stop().unwrap();

    // Nobody writes owners here, so that the command alone takes them back.
    let data = folder.path().to_str().unwrap();
    let quiet = ["--data-dir", data, "--controllers", "*,-retention,-garbagecollector"];
    let server = Server::start(&quiet).unwrap();
    let mut settings = send(&server, "GET", SETTINGS, None);
    let by_hand =
        json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "by-hand" });
    settings["metadata"]["ownerReferences"].as_array_mut().unwrap().push(by_hand.clone());
    send(&server, "PUT", SETTINGS, Some(&settings));
    let other = run(&server, "retention drain -n kube-system");
    assert_eq!(other.out, "took 0 owners from 0 objects; all objects stay\n", "{other:?}");
    let done = run(&server, "retention drain");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.ends_with("took 1 owner from 1 object; all objects stay\n"), "{done:?}");
    let mut settings = send(&server, "GET", SETTINGS, None);
    assert_eq!(settings["metadata"]["ownerReferences"], json!([by_hand]));
    settings["metadata"]["ownerReferences"] = json!([]);
    send(&server, "PUT", SETTINGS, Some(&settings));
    server.stop().unwrap();

    // With the feature off the engine takes back what it wrote.
    let server = Server::durable(folder.path()).unwrap();
    until_owners(&server, 1);
    server.stop().unwrap();
    let off = ["--data-dir", data, "--feature-gates", "ControllersAsOwners=false"];
    let server = Server::start(&off).unwrap();
    until_owners(&server, 0);
    let settings = send(&server, "GET", SETTINGS, None);
    assert_eq!(settings["controllersAsOwners"], true);
    let done = run(&server, "retention drain");
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "took 0 owners from 0 objects; all objects stay\n")
    );
    server.stop().unwrap();

    // On again, the lists are as before.
    let server = Server::durable(folder.path()).unwrap();
    until_owners(&server, 1);
}
