//! Rules of spec/downward-api.md: phases, R90 to R95a.

use tenure_lifecycle::{Phase, pod_phase, pod_status};

use crate::house::{at, observed, pod, spec};

fn phase(restart: &str, containers: &[(&str, &str, &str)], terminal: bool) -> Phase {
    let roles: Vec<(&str, &str)> =
        containers.iter().map(|(name, role, _)| (*name, *role)).collect();
    let words: Vec<(&str, &str)> =
        containers.iter().map(|(name, _, word)| (*name, *word)).collect();
    pod_phase(&spec(&pod(restart, &roles)), &observed(&words), terminal)
}

#[test]
fn r90_an_init_container_that_failed_for_good_fails_the_pod() {
    let pod = [("i", "init", "1"), ("a", "main", "-")];
    assert_eq!(phase("Never", &pod, false), Phase::Failed);
    assert_eq!(phase("OnFailure", &pod, false), Phase::Pending);
    assert_eq!(phase("Always", &pod, false), Phase::Pending);
}

#[test]
fn r91_a_pod_that_is_not_initialised_is_pending() {
    for (word, sidecar) in [("-", "-"), ("run", "-"), ("1>wait", "-"), ("0", "-"), ("0", "wait")] {
        let pod = [("i", "init", word), ("s", "sidecar", sidecar), ("a", "main", "-")];
        assert_eq!(phase("Always", &pod, false), Phase::Pending, "{word} {sidecar}");
    }
    let one_waits = [("a", "main", "run"), ("b", "main", "wait")];
    assert_eq!(phase("Always", &one_waits, false), Phase::Pending);
}

#[test]
fn r92_one_that_runs_makes_the_pod_running() {
    let pod = [("i", "init", "0"), ("a", "main", "run"), ("b", "main", "1")];
    assert_eq!(phase("Never", &pod, false), Phase::Running);
    let sidecar = [("s", "sidecar", "run"), ("a", "main", "0")];
    assert_eq!(phase("Never", &sidecar, false), Phase::Running);
    let restarted = [("s", "sidecar", "1>wait"), ("a", "main", "run")];
    assert_eq!(phase("Never", &restarted, false), Phase::Running, "it was initialised before");
}

#[test]
fn r93_a_terminal_pod_is_judged_by_its_codes() {
    for restart in ["Always", "OnFailure", "Never"] {
        let well = [("a", "main", "0"), ("b", "main", "0")];
        assert_eq!(phase(restart, &well, true), Phase::Succeeded);
        let badly = [("a", "main", "0"), ("b", "main", "143")];
        assert_eq!(phase(restart, &badly, true), Phase::Failed);
    }
}

#[test]
fn r94_what_will_be_restarted_counts_as_running() {
    assert_eq!(phase("Always", &[("a", "main", "0")], false), Phase::Running);
    assert_eq!(phase("Always", &[("a", "main", "1>wait")], false), Phase::Running);
    let failed = [("a", "main", "0"), ("b", "main", "1")];
    assert_eq!(phase("OnFailure", &failed, false), Phase::Running);
    let mut ruled = pod("Never", &[("a", "main")]);
    ruled["spec"]["containers"][0]["restartPolicyRules"] = serde_json::json!([
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
    ]);
    let ruled = spec(&ruled);
    assert_eq!(pod_phase(&ruled, &observed(&[("a", "42")]), false), Phase::Running);
    assert_eq!(pod_phase(&ruled, &observed(&[("a", "41")]), false), Phase::Failed);
}

#[test]
fn r95_what_will_not_be_restarted_is_over() {
    assert_eq!(phase("Never", &[("a", "main", "0")], false), Phase::Succeeded);
    assert_eq!(phase("OnFailure", &[("a", "main", "0")], false), Phase::Succeeded);
    assert_eq!(phase("Never", &[("a", "main", "0"), ("b", "main", "1")], false), Phase::Failed);
    let sidecar = [("s", "sidecar", "137"), ("a", "main", "0")];
    assert_eq!(phase("Never", &sidecar, false), Phase::Succeeded, "sidecars do not count");
}

#[test]
fn r95_final_phases_are_never_left() {
    let spec = spec(&pod("Never", &[("a", "main")]));
    for word in ["Succeeded", "Failed"] {
        let before = serde_json::json!({"phase": word});
        let status =
            pod_status(&spec, &observed(&[("a", "run")]), before.as_object().unwrap(), at(9));
        assert_eq!(status.get("phase").unwrap(), word);
    }
}

#[test]
fn r95a_anything_else_is_pending() {
    assert_eq!(phase("Always", &[("a", "main", "lost")], false), Phase::Pending);
    assert_eq!(phase("Never", &[("a", "main", "lost"), ("b", "main", "0")], false), Phase::Pending);
}
