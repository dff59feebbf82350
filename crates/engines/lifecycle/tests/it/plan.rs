//! Rules of spec/downward-api.md: start order, restarts and ends, R100 to R107.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_lifecycle::{
    ContainerTransition, Kill, KillOrder, Leaving, LifecycleSpec, Observed, PodAction,
    RestartBackoff, next_actions, pod_status,
};
use tenure_machinery::Object;

use crate::house::{at, ended, observed, pod, spec, zero};

/// Actions as words: `+a` a start, `++a` another start, `-a` a stop, `end`, `gone`.
fn words(spec: &LifecycleSpec, observed: &Observed, now: Timestamp) -> Vec<String> {
    let actions = next_actions(spec, observed, now).actions.into_iter();
    actions
        .map(|action| match action {
            PodAction::MakeSandbox => "sandbox".to_owned(),
            PodAction::Start { container, again: false } => format!("+{container}"),
            PodAction::Start { container, again: true } => format!("++{container}"),
            PodAction::Stop(kill) => format!("-{}", kill.container),
            PodAction::Finish { remove: false } => "end".to_owned(),
            PodAction::Finish { remove: true } => "gone".to_owned(),
        })
        .collect()
}

fn deleted(mut pod: Value, grace: i64) -> Value {
    pod["metadata"]["deletionTimestamp"] = json!(at(grace).to_string());
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    pod
}

#[test]
fn r100_init_containers_run_one_by_one_and_sidecars_must_have_started() {
    let mut pod = pod(
        "Always",
        &[("i", "init"), ("s", "sidecar"), ("j", "init"), ("a", "main"), ("b", "main")],
    );
    pod["spec"]["initContainers"][1]["startupProbe"] = json!({});
    let spec = spec(&pod);
    let steps: [(&[(&str, &str)], bool, &[&str]); 7] = [
        (&[], false, &["+i"]),
        (&[("i", "run")], false, &[]),
        (&[("i", "0")], false, &["+s"]),
        (&[("i", "0"), ("s", "run")], false, &[]),
        (&[("i", "0"), ("s", "run")], true, &["+j"]),
        (&[("i", "0"), ("s", "run"), ("j", "0")], true, &["+a", "+b"]),
        (&[("i", "0"), ("s", "run"), ("j", "0"), ("a", "run")], true, &["+b"]),
    ];
    for (seen, passed, expected) in steps {
        let mut seen = observed(seen);
        if let Some(sidecar) = seen.containers.get_mut("s") {
            sidecar.startup_passed = passed;
        }
        assert_eq!(words(&spec, &seen, at(2)), expected, "{seen:?}");
    }
    let busy = |seen: &mut Observed| {
        seen.containers.get_mut("i").unwrap().busy = Some(ContainerTransition::Starting);
    };
    let mut seen = observed(&[("i", "wait")]);
    busy(&mut seen);
    assert!(words(&spec, &seen, at(2)).is_empty(), "one start at a time");
}

#[test]
fn r100_volumes_and_sandbox_come_first() {
    let spec = spec(&pod("Always", &[("a", "main")]));
    let mut seen = observed(&[]);
    (seen.volumes, seen.sandbox) = (false, false);
    assert!(words(&spec, &seen, zero()).is_empty());
    seen.volumes = true;
    assert_eq!(words(&spec, &seen, zero()), ["sandbox"]);
    seen.sandbox_after = Some(at(5));
    assert!(words(&spec, &seen, zero()).is_empty());
    assert_eq!(next_actions(&spec, &seen, zero()).wake, Some(at(5)));
    seen.sandbox = true;
    assert_eq!(words(&spec, &seen, zero()), ["+a"]);
}

#[test]
fn r101_a_restart_waits_longer_each_time() {
    let mut backoff = RestartBackoff::default();
    let mut waits = Vec::new();
    for _ in 0..8 {
        waits.push(backoff.wait.as_secs());
        backoff.started_again();
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    let mut long = ended(1);
    long.finished = Some(at(600));
    backoff.ended(&ended(1));
    assert_eq!(backoff.wait, Duration::from_secs(300), "a short run forgets nothing");
    backoff.ended(&long);
    assert_eq!(backoff.wait, Duration::ZERO);
    let mut quick = RestartBackoff::curve(Duration::from_millis(100), Duration::from_secs(1));
    for _ in 0..9 {
        quick.started_again();
    }
    assert_eq!(quick.wait, Duration::from_secs(1));
}

#[test]
fn r101_a_container_that_waits_says_how_long() {
    let spec = spec(&pod("Always", &[("a", "main")]));
    let mut seen = observed(&[("a", "1")]);
    assert_eq!(words(&spec, &seen, at(1)), ["++a"], "the first restart is at once");
    let container = seen.containers.get_mut("a").unwrap();
    container.backoff.started_again();
    container.backoff.started_again();
    container.backoff.started_again();
    container.backoff.started_again();
    assert!(words(&spec, &seen, at(2)).is_empty());
    assert_eq!(next_actions(&spec, &seen, at(2)).wake, Some(at(81)));
    assert_eq!(words(&spec, &seen, at(81)), ["++a"]);
    let status = pod_status(&spec, &seen, &Object::new(), at(2));
    let state = &status["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(state["reason"], "CrashLoopBackOff");
    assert_eq!(state["message"], "back-off 1m20s restarting failed container=a pod=p_n(u)");
    assert_eq!(status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
    assert_eq!(status["phase"], "Running");
}

#[test]
fn r102_the_policy_decides_about_restarts() {
    for (restart, code, expected) in [
        ("Always", "0", "++a"),
        ("Always", "1", "++a"),
        ("OnFailure", "0", "end"),
        ("OnFailure", "1", "++a"),
        ("Never", "0", "end"),
        ("Never", "1", "end"),
    ] {
        let spec = spec(&pod(restart, &[("a", "main")]));
        assert_eq!(words(&spec, &observed(&[("a", code)]), at(2)), [expected], "{restart} {code}");
    }
    let sidecar = spec(&pod("Never", &[("s", "sidecar"), ("a", "main")]));
    assert_eq!(words(&sidecar, &observed(&[("s", "0"), ("a", "run")]), at(2)), ["++s"]);
    let init = [("i", "init"), ("a", "main")];
    let failed = observed(&[("i", "1")]);
    assert_eq!(words(&spec(&pod("Never", &init)), &failed, at(2)), ["end"]);
    assert_eq!(words(&spec(&pod("Always", &init)), &failed, at(2)), ["++i"]);
}

#[test]
fn r103_a_changed_image_restarts_only_that_container() {
    let mut pod = pod("Always", &[("a", "main"), ("b", "main")]);
    pod["spec"]["containers"][1]["image"] = json!("other");
    let spec = spec(&pod);
    let seen = observed(&[("a", "run"), ("b", "run")]);
    assert_eq!(words(&spec, &seen, at(2)), ["-b"]);
    let after = observed(&[("a", "run"), ("b", "143")]);
    assert_eq!(words(&spec, &after, at(2)), ["++b"]);
}

#[test]
fn r104_ephemeral_containers_start_once() {
    let spec = spec(&pod("Always", &[("i", "init"), ("a", "main"), ("e", "look")]));
    assert_eq!(words(&spec, &observed(&[("i", "run")]), at(2)), ["+e"], "even before the others");
    for word in ["run", "0", "1", "lost"] {
        let seen = observed(&[("i", "0"), ("a", "run"), ("e", word)]);
        assert!(words(&spec, &seen, at(2)).is_empty(), "{word}");
    }
}

#[test]
fn r105_a_deadline_ends_the_pod() {
    let mut pod = pod("Always", &[("a", "main")]);
    pod["spec"]["activeDeadlineSeconds"] = json!(5);
    let spec = spec(&pod);
    let seen = observed(&[("a", "run")]);
    assert!(words(&spec, &seen, at(4)).is_empty());
    assert_eq!(next_actions(&spec, &seen, at(4)).wake, Some(at(5)));
    assert_eq!(words(&spec, &seen, at(5)), ["-a"]);
    assert_eq!(words(&spec, &observed(&[("a", "143")]), at(6)), ["end"]);
}

fn kills(spec: &LifecycleSpec, observed: &Observed, now: Timestamp) -> Vec<Kill> {
    let actions = next_actions(spec, observed, now).actions.into_iter();
    actions
        .filter_map(|action| match action {
            PodAction::Stop(kill) => Some(kill),
            _ => None,
        })
        .collect()
}

#[test]
fn r106_a_deleted_pod_ends_within_its_grace() {
    let pod = pod("Always", &[("a", "main")]);
    let spec = spec(&deleted(pod.clone(), 7));
    let mut seen = observed(&[("a", "run")]);
    seen.ending = Some(at(3));
    let [kill] = kills(&spec, &seen, at(3)).try_into().unwrap();
    assert_eq!((kill.hook, kill.until), (true, at(10)));
    seen.containers.get_mut("a").unwrap().busy =
        Some(ContainerTransition::Stopping { until: at(10) });
    assert!(kills(&spec, &seen, at(4)).is_empty(), "it is being stopped");

    let shorter = crate::house::spec(&deleted(pod.clone(), 1));
    let [kill] = kills(&shorter, &seen, at(4)).try_into().unwrap();
    assert_eq!(kill.until, at(4), "a shorter grace counts from the same beginning");

    let forced = crate::house::spec(&deleted(pod, 0));
    seen.containers.get_mut("a").unwrap().busy = None;
    let [kill] = kills(&forced, &seen, at(4)).try_into().unwrap();
    assert!(!kill.hook, "grace 0 skips the hook");
    assert_eq!(words(&forced, &observed(&[("a", "137")]), at(5)), ["gone"]);
}

#[test]
fn r106_a_probe_may_bring_its_own_grace() {
    let spec = spec(&pod("Always", &[("a", "main")]));
    let mut seen = observed(&[("a", "run")]);
    let order = KillOrder { message: "liveness".into(), grace_seconds: Some(4) };
    seen.containers.get_mut("a").unwrap().kill = Some(order);
    let [kill] = kills(&spec, &seen, at(1)).try_into().unwrap();
    assert_eq!((kill.until, kill.message.as_str()), (at(5), "liveness"));
    let order = KillOrder { message: "liveness".into(), grace_seconds: None };
    seen.containers.get_mut("a").unwrap().kill = Some(order);
    let [kill] = kills(&spec, &seen, at(1)).try_into().unwrap();
    assert_eq!(kill.until, at(31), "else the pod's");
}

#[test]
fn r107_sidecars_end_last_in_reverse_within_the_same_grace() {
    let roles = [("s", "sidecar"), ("t", "sidecar"), ("a", "main")];
    let spec = spec(&deleted(pod("Always", &roles), 10));
    let steps: [(&[(&str, &str)], &[&str]); 4] = [
        (&[("s", "run"), ("t", "run"), ("a", "run")], &["-a"]),
        (&[("s", "run"), ("t", "run"), ("a", "0")], &["-t"]),
        (&[("s", "run"), ("t", "0"), ("a", "0")], &["-s"]),
        (&[("s", "0"), ("t", "0"), ("a", "0")], &["gone"]),
    ];
    for (seen, expected) in steps {
        let mut seen = observed(seen);
        seen.ending = Some(zero());
        assert_eq!(words(&spec, &seen, at(2)), expected);
    }
    let mut stuck = observed(&[("s", "run"), ("t", "run"), ("a", "run")]);
    stuck.ending = Some(zero());
    stuck.containers.get_mut("a").unwrap().busy =
        Some(ContainerTransition::Stopping { until: at(10) });
    assert_eq!(next_actions(&spec, &stuck, at(2)).wake, Some(at(10)));
    let late: Vec<Kill> = kills(&spec, &stuck, at(10));
    assert_eq!(late.len(), 2, "the budget is shared");
    assert!(late.iter().all(|kill| kill.until == at(10)));
}

#[test]
fn r107_sidecars_of_a_pod_that_completed_end_too() {
    let spec = spec(&pod("Never", &[("s", "sidecar"), ("a", "main")]));
    assert_eq!(words(&spec, &observed(&[("s", "run"), ("a", "0")]), at(2)), ["-s"]);
    assert_eq!(words(&spec, &observed(&[("s", "137"), ("a", "0")]), at(2)), ["end"]);
    let mut done = observed(&[("s", "137"), ("a", "0")]);
    done.cleaned = true;
    assert!(words(&spec, &done, at(3)).is_empty());
    let status = pod_status(&spec, &done, &Object::new(), at(3));
    assert_eq!(status["phase"], "Succeeded");
}

#[test]
fn r146b_a_node_that_ends_stops_containers_as_a_deletion_would_and_keeps_the_pod() {
    let roles = [("s", "sidecar"), ("a", "main")];
    let spec = spec(&pod("Always", &roles));
    let leaving = Some(Leaving { since: at(3), grace_seconds_max: 10 });
    let steps: [(&[(&str, &str)], &[&str]); 4] = [
        (&[("s", "run"), ("a", "run")], &["-a"]),
        (&[("s", "run"), ("a", "143")], &["-s"]),
        // Nothing is started again, and nothing of the pod is let go.
        (&[("s", "0"), ("a", "143")], &[]),
        (&[("s", "-"), ("a", "-")], &[]),
    ];
    for (seen, expected) in steps {
        let seen = Observed { leaving, ..observed(seen) };
        assert_eq!(words(&spec, &seen, at(4)), expected);
    }
    let seen = Observed { leaving, ..observed(&[("s", "run"), ("a", "run")]) };
    assert!(seen.lives());
    let [kill] = kills(&spec, &seen, at(4)).try_into().unwrap();
    assert_eq!((kill.hook, kill.until), (true, at(13)), "no longer than the node waits");
    assert!(!Observed { leaving, ..observed(&[("s", "0"), ("a", "1")]) }.lives());
}

#[test]
fn r146b_a_pod_that_ends_anyway_gets_no_more_time_than_the_node_has() {
    let spec = spec(&deleted(pod("Always", &[("a", "main")]), 600));
    let mut seen = observed(&[("a", "run")]);
    seen.ending = Some(zero());
    seen.containers.get_mut("a").unwrap().busy =
        Some(ContainerTransition::Stopping { until: at(600) });
    assert!(kills(&spec, &seen, at(4)).is_empty());
    seen.leaving = Some(Leaving { since: at(4), grace_seconds_max: 30 });
    let [kill] = kills(&spec, &seen, at(4)).try_into().unwrap();
    assert_eq!(kill.until, at(34));
    assert_eq!(
        words(&spec, &Observed { leaving: seen.leaving, ..observed(&[("a", "143")]) }, at(5)),
        ["gone"]
    );
}

#[test]
fn r111b_a_container_that_ends_for_its_resources_starts_at_once_whatever_its_code() {
    let spec = spec(&pod("OnFailure", &[("a", "main")]));
    for code in ["0", "143"] {
        let mut seen = observed(&[("a", code)]);
        let container = seen.containers.get_mut("a").unwrap();
        container.resizing = true;
        container.backoff.wait = Duration::from_secs(60);
        assert_eq!(words(&spec, &seen, at(2)), ["++a"]);
        let status = pod_status(&spec, &seen, &Object::new(), at(2));
        assert_eq!(status["phase"], "Running");
        assert!(status["containerStatuses"][0]["state"]["terminated"].is_object());
    }
}
