//! Rules of spec/downward-api.md: conditions, container statuses and messages, R96 to R99, R105, R111.

use serde_json::{Value, json};
use tenure_lifecycle::{
    NodeCapacity, PendingResize, PodRejection, PodRequests, PodResize, clip_message, clip_messages,
    fallback_message, fits, pod_requests, pod_status,
};
use tenure_machinery::Object;

use crate::house::{at, condition, observed, pod, spec, verdict, zero};

fn said(status: (&str, &str, &str)) -> (String, String, String) {
    (status.0.into(), status.1.into(), status.2.into())
}

#[test]
fn r96_conditions_follow_the_containers() {
    let spec = spec(&pod("Always", &[("i", "init"), ("a", "main"), ("b", "main")]));
    let none = Object::new();
    let early = pod_status(&spec, &observed(&[("i", "run")]), &none, at(2));
    let unready = "containers with unready status: [a b]";
    let incomplete = "containers with incomplete status: [i]";
    assert_eq!(
        verdict(&early, "Initialized"),
        said(("False", "ContainersNotInitialized", incomplete))
    );
    assert_eq!(verdict(&early, "Ready"), said(("False", "ContainersNotReady", unready)));
    assert_eq!(verdict(&early, "PodReadyToStartContainers"), said(("True", "", "")));
    assert_eq!(verdict(&early, "PodScheduled"), said(("True", "", "")));
    assert_eq!(condition(&early, "Ready")["observedGeneration"], 3);
    assert_eq!(early["observedGeneration"], 3);

    let seen = observed(&[("i", "0"), ("a", "run"), ("b", "run")]);
    let ready = pod_status(&spec, &seen, &early, at(5));
    for kind in ["Initialized", "Ready", "ContainersReady"] {
        assert_eq!(verdict(&ready, kind), said(("True", "", "")), "{kind}");
        assert_eq!(condition(&ready, kind)["lastTransitionTime"], "2026-11-15T02:30:05Z");
    }
    let scheduled = condition(&ready, "PodScheduled");
    assert_eq!(scheduled["lastTransitionTime"], "2026-11-15T02:30:02Z", "its truth did not change");
}

#[test]
fn r96_gates_and_ends_have_their_reasons() {
    let mut gated = pod("Never", &[("a", "main")]);
    gated["spec"]["readinessGates"] = json!([{"conditionType": "x/up"}, {"conditionType": "x/b"}]);
    let gated = spec(&gated);
    let before = json!({"conditions": [{"type": "x/b", "status": "False"}]});
    let before = before.as_object().unwrap();
    let status = pod_status(&gated, &observed(&[("a", "run")]), before, at(1));
    let (truth, reason, message) = verdict(&status, "Ready");
    assert_eq!((truth.as_str(), reason.as_str()), ("False", "ReadinessGatesNotReady"));
    assert!(
        message.contains("\"x/up\" does not exist") && message.contains("not \"True\", but False")
    );
    assert_eq!(verdict(&status, "ContainersReady").0, "True");
    assert_eq!(condition(&status, "x/b")["status"], "False", "others' conditions stay");

    for (code, phase, reason) in [("0", "Succeeded", "PodCompleted"), ("3", "Failed", "PodFailed")]
    {
        let status = pod_status(&gated, &observed(&[("a", code)]), &Object::new(), at(1));
        assert_eq!(status["phase"], phase);
        assert_eq!(verdict(&status, "Ready").1, reason);
    }
}

fn one(restart: &str, word: &str) -> Value {
    let spec = spec(&pod(restart, &[("a", "main")]));
    let status = pod_status(&spec, &observed(&[("a", word)]), &Object::new(), at(2));
    status["containerStatuses"][0].clone()
}

#[test]
fn r97_a_container_says_what_it_does() {
    let running = one("Always", "run");
    assert_eq!(running["state"], json!({"running": {"startedAt": "2026-11-15T02:30:00Z"}}));
    assert_eq!(running["lastState"], json!({}));
    assert_eq!(
        (&running["ready"], &running["started"], &running["containerID"], &running["imageID"]),
        (&json!(true), &json!(true), &json!("process://c"), &json!("host"))
    );
    let ended = one("Never", "3");
    let terminated = json!({"terminated": {
        "exitCode": 3, "reason": "Error", "containerID": "process://c",
        "startedAt": "2026-11-15T02:30:00Z", "finishedAt": "2026-11-15T02:30:01Z",
    }});
    assert_eq!(ended["state"], terminated);
    assert_eq!((&ended["ready"], &ended["started"]), (&json!(false), &json!(false)));
    assert_eq!(one("Always", "-")["state"], json!({"waiting": {"reason": "ContainerCreating"}}));
    let again = one("Always", "1>run");
    assert_eq!(again["lastState"]["terminated"]["exitCode"], 1);
    let lost = one("Never", "lost");
    assert_eq!(lost["state"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(lost["state"]["terminated"]["exitCode"], 137);
}

#[test]
fn r97_waiting_reasons_are_told() {
    let with_init = spec(&pod("Always", &[("i", "init"), ("a", "main")]));
    let status = pod_status(&with_init, &observed(&[]), &Object::new(), at(1));
    let waiting = json!({"waiting": {"reason": "PodInitializing"}});
    assert_eq!(status["containerStatuses"][0]["state"], waiting);
    assert_eq!(status["initContainerStatuses"][0]["state"], waiting);

    let mut seen = observed(&[("a", "wait")]);
    seen.containers.get_mut("a").unwrap().waiting = Some(tenure_lifecycle::WaitingState {
        reason: "ErrImagePull".into(),
        message: "no such image".into(),
    });
    let spec = spec(&pod("Always", &[("a", "main")]));
    let status = pod_status(&spec, &seen, &Object::new(), at(1));
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}});
    assert_eq!(status["containerStatuses"][0]["state"], waiting);
}

#[test]
fn r97_probes_decide_started_and_ready() {
    let mut probed = pod("Always", &[("a", "main")]);
    probed["spec"]["containers"][0]["startupProbe"] = json!({});
    probed["spec"]["containers"][0]["readinessProbe"] = json!({});
    let probed = spec(&probed);
    for (startup, ready, expected) in
        [(false, false, (false, false)), (true, false, (true, false)), (true, true, (true, true))]
    {
        let mut seen = observed(&[("a", "run")]);
        let container = seen.containers.get_mut("a").unwrap();
        (container.startup_passed, container.ready) = (startup, ready);
        let status = pod_status(&probed, &seen, &Object::new(), at(1));
        let found = &status["containerStatuses"][0];
        assert_eq!((found["started"] == true, found["ready"] == true), expected);
    }
}

#[test]
fn r98_addresses_and_times_are_told_and_the_class_stays() {
    let spec = spec(&pod("Always", &[("a", "main")]));
    let before = json!({"qosClass": "BestEffort", "resize": "x"});
    let status = pod_status(&spec, &observed(&[("a", "run")]), before.as_object().unwrap(), at(4));
    assert_eq!(status["podIP"], "10.0.0.7");
    assert_eq!(status["podIPs"], json!([{"ip": "10.0.0.7"}]));
    assert_eq!(status["hostIP"], "192.0.2.1");
    assert_eq!(status["hostIPs"], json!([{"ip": "192.0.2.1"}]));
    assert_eq!(status["startTime"], "2026-11-15T02:30:00Z");
    assert_eq!(status["qosClass"], "BestEffort");
    let again = pod_status(&spec, &observed(&[("a", "run")]), &status, at(400));
    assert_eq!(again, status, "nothing changed, so nothing is written");
}

#[test]
fn r99_last_words_are_cut() {
    assert_eq!(clip_message(b"short", 4096), "short");
    assert_eq!(clip_message("aé".as_bytes(), 2), "a", "no half letters");
    assert_eq!(clip_message(&[b'a', 0xff, b'b'], 9), "a\u{fffd}b");
    let lines: String = (0..200).map(|line| format!("{line}\n")).collect();
    let kept = fallback_message(&lines);
    assert_eq!((kept.lines().count(), kept.lines().next()), (80, Some("120")));
    assert_eq!(fallback_message(&"x".repeat(5000)).len(), 2048);
    let mut words: Vec<String> = (0..4).map(|_| "w".repeat(4096)).collect();
    let mut views: Vec<&mut String> = words.iter_mut().collect();
    clip_messages(&mut views);
    assert_eq!(words.iter().map(String::len).sum::<usize>(), 12 * 1024);
    let mut fits = vec!["w".repeat(4096); 3];
    clip_messages(&mut fits.iter_mut().collect::<Vec<_>>());
    assert_eq!(fits.iter().map(String::len).sum::<usize>(), 12 * 1024);
}

#[test]
fn r105_a_pod_past_its_deadline_fails_once_nothing_runs() {
    let mut pod = pod("Always", &[("a", "main")]);
    pod["spec"]["activeDeadlineSeconds"] = json!(5);
    let spec = spec(&pod);
    let before = pod_status(&spec, &observed(&[("a", "run")]), &Object::new(), at(4));
    assert_eq!(before["phase"], "Running");
    let during = pod_status(&spec, &observed(&[("a", "run")]), &before, at(5));
    assert_eq!(during["phase"], "Running", "it is still there");
    let after = pod_status(&spec, &observed(&[("a", "143")]), &during, at(6));
    assert_eq!((&after["phase"], &after["reason"]), (&json!("Failed"), &json!("DeadlineExceeded")));
}

#[test]
fn r112_an_evicted_pod_says_so() {
    let spec = spec(&pod("Always", &[("a", "main")]));
    let mut seen = observed(&[("a", "137")]);
    seen.evicted =
        Some(PodRejection { reason: "Evicted".into(), message: "no memory left".into() });
    let status = pod_status(&spec, &seen, &Object::new(), at(3));
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
    let (truth, reason, _) = verdict(&status, "DisruptionTarget");
    assert_eq!((truth.as_str(), reason.as_str()), ("True", "TerminationByKubelet"));
}

#[test]
fn r111_a_pod_that_does_not_fit_is_refused() {
    let node = json!({"metadata": {"labels": {"kubernetes.io/os": "linux", "disk": "ssd"}}});
    let node = node.as_object().unwrap();
    let room =
        NodeCapacity { cpu_millis: 2000, memory_bytes: 1 << 30, storage_bytes: 1 << 30, pods: 2 };
    let other = PodRequests {
        cpu_millis: 1500,
        ports: vec![("0.0.0.0".into(), "TCP".into(), 80)],
        ..PodRequests::default()
    };
    let judge = |spec: Value, others: &[PodRequests]| {
        let pod = json!({"spec": spec});
        let pod = pod.as_object().unwrap();
        fits(pod, &pod_requests(pod), node, &room, others).map_err(|refusal| refusal.reason)
    };
    let cpu = |cpu: &str| json!({"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}]});
    let others = [other.clone()];
    assert_eq!(judge(cpu("500m"), &others), Ok(()));
    assert_eq!(judge(cpu("501m"), &others), Err("OutOfcpu".into()));
    assert_eq!(judge(cpu("1m"), &[other.clone(), other.clone()]), Err("OutOfpods".into()));
    let memory = json!({"initContainers": [{"resources": {"requests": {"memory": "2Gi"}}}]});
    assert_eq!(judge(memory, &[]), Err("OutOfmemory".into()));
    let port = json!({"containers": [{"ports": [{"hostPort": 80}]}]});
    assert_eq!(judge(port, &others), Err("NodePorts".into()));
    assert_eq!(judge(json!({"nodeSelector": {"disk": "ssd"}}), &others), Ok(()));
    assert_eq!(judge(json!({"nodeSelector": {"disk": "hdd"}}), &[]), Err("NodeAffinity".into()));
    assert_eq!(judge(json!({"os": {"name": "windows"}}), &[]), Err("PodOSNotSupported".into()));
    let affinity = |operator: &str| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [
                {"key": "disk", "operator": operator, "values": ["ssd"]},
            ]}],
        }}}})
    };
    assert_eq!(judge(affinity("In"), &[]), Ok(()));
    assert_eq!(judge(affinity("NotIn"), &[]), Err("NodeAffinity".into()));

    let spec = spec(&pod("Always", &[("a", "main")]));
    let mut seen = observed(&[]);
    seen.refused = Some(PodRejection { reason: "OutOfcpu".into(), message: "no room".into() });
    let status = pod_status(&spec, &seen, &Object::new(), zero());
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
}

#[test]
fn r111b_what_is_wanted_given_and_had_of_resources_is_told_apart() {
    let mut pod = pod("Always", &[("a", "main")]);
    let amounts = |cpu: &str| json!({"requests": {"cpu": cpu}});
    pod["spec"]["containers"][0]["resources"] = amounts("2");
    let spec = spec(&pod);
    let mut seen = observed(&[("a", "run")]);
    seen.containers.get_mut("a").unwrap().resources = amounts("1").as_object().cloned();
    seen.resize.in_progress = Some(2);
    let infeasible = PendingResize { infeasible: true, message: "no".into(), generation: 3 };
    seen.resize.pending = Some(infeasible);
    let status = pod_status(&spec, &seen, &Object::new(), at(2));
    let container = &status["containerStatuses"][0];
    assert_eq!(container["allocatedResources"], json!({"cpu": "2"}), "it was given this");
    assert_eq!(container["resources"], amounts("1"), "it has this");
    let told = |kind| verdict(&status, kind);
    let told_apart = ("True".to_owned(), "Infeasible".to_owned(), "no".to_owned());
    assert_eq!(told("PodResizePending"), told_apart);
    assert_eq!(told("PodResizeInProgress"), ("True".into(), String::new(), String::new()));
    assert_eq!(condition(&status, "PodResizePending")["observedGeneration"], 3);
    assert_eq!(condition(&status, "PodResizeInProgress")["observedGeneration"], 2);
    seen.resize = PodResize::default();
    let status = pod_status(&spec, &seen, &status, at(3));
    let conditions = status["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|one| !one["type"].as_str().unwrap().contains("Resize")));
}
