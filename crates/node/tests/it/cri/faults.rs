//! Rules of spec/downward-api.md: a runtime that goes away and comes back, an agent that begins anew,
//! and containers that do not want to end.

use std::time::{Duration, Instant};

use tenure_containerd::Containerd;
use tenure_node::runtime::{ContainerRuntime as _, ContainerState, RuntimeError};

use super::house::{House, agent, ended, shell, words};

const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn r106_a_container_that_ignores_term_is_killed_after_its_grace() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let deaf = shell("deaf", "trap '' TERM; echo ready; while :; do sleep 1; done");
    let good =
        shell("good", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done");
    let mut took = Vec::new();
    for config in [deaf, good] {
        let id = house.start(&sandbox.id, &config).await;
        let begin = Instant::now();
        while !house.log("p", &config.name).contains("ready") {
            assert!(begin.elapsed() < LIMIT);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let begin = Instant::now();
        // A grace is rounded up, never down.
        house.cri.stop(&id, None, Duration::from_millis(1500)).await.unwrap();
        took.push((begin.elapsed(), ended(&house.cri, &id).await.0));
    }
    assert!(took[0].0 >= Duration::from_millis(1500) && took[0].0 < LIMIT, "{took:?}");
    assert!(took[1].0 < Duration::from_millis(1500), "{took:?}");
    assert_eq!((took[0].1, took[1].1), (137, 0));
    assert!(house.log("p", "good").contains("bye"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r109_no_process_is_left_when_a_sandbox_is_gone() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let script = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); sleep 1000";
    house.start(&sandbox.id, &shell("c", script)).await;
    let begin = Instant::now();
    while house.containerd.processes().len() < 4 {
        assert!(begin.elapsed() < LIMIT, "{:?}", house.containerd.processes());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    house.cri.stop_sandbox(&sandbox.id).await.unwrap();
    house.cri.remove_sandbox(&sandbox.id).await.unwrap();
    let begin = Instant::now();
    while !house.containerd.processes().is_empty() {
        assert!(begin.elapsed() < LIMIT, "{:?}", house.containerd.processes());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r150_a_runtime_that_disappears_is_away_until_it_comes_back() {
    let Some(mut house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let stays = house.start(&sandbox.id, &shell("stays", "sleep 1000")).await;
    let goes = house.start(&sandbox.id, &shell("goes", "sleep 2; exit 9")).await;
    let mut changes = house.cri.changes();

    house.containerd.kill();
    for _ in 0..2 {
        let away = house.cri.list().await;
        assert!(matches!(&away, Err(RuntimeError::Away(_))), "{away:?}");
    }
    let away = house.cri.start(&stays).await;
    assert!(matches!(&away, Err(RuntimeError::Away(_))), "{away:?}");
    tokio::time::sleep(Duration::from_secs(3)).await;
    while changes.try_recv().is_ok() {}
    house.containerd.resume().unwrap();

    // What happened meanwhile is noticed by itself.
    let changed = tokio::time::timeout(LIMIT, changes.recv()).await.unwrap().unwrap();
    assert_eq!(changed, sandbox.id);
    let listed = house.cri.list().await.unwrap();
    assert_eq!((listed.len(), listed[0].containers.len()), (1, 2));
    let running = house.cri.status(&stays).await.unwrap().state;
    assert!(matches!(running, ContainerState::Running { .. }), "{running:?}");
    assert_eq!(ended(&house.cri, &goes).await.0, 9);
    let ran = house.cri.run(&stays, &words(&["echo", "back"]), LIMIT).await.unwrap();
    assert_eq!(ran.output, b"back\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn r150_a_runtime_that_is_not_there_yet_is_waited_for() {
    let Some(mut containerd) = Containerd::start().unwrap() else { return };
    containerd.kill();
    std::fs::remove_file(containerd.socket()).unwrap();
    let cri = agent(&containerd, "node-1");
    let away = cri.about().await;
    assert!(
        matches!(&away, Err(RuntimeError::Away(why)) if why.contains("No such file")),
        "{away:?}"
    );
    containerd.resume().unwrap();
    // The part that speaks CRI may begin a little after the daemon says that it has booted.
    let begin = Instant::now();
    let about = loop {
        match cri.about().await {
            Err(RuntimeError::Away(why)) => assert!(begin.elapsed() < LIMIT, "still away: {why}"),
            other => break other,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(about.unwrap().name, "containerd");
}

#[tokio::test(flavor = "multi_thread")]
async fn r154_an_agent_that_begins_anew_finds_its_pods_and_no_others() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let id = house.start(&sandbox.id, &shell("c", "sleep 1000")).await;
    let other = agent(&house.containerd, "node-2");
    assert!(other.list().await.unwrap().is_empty());
    other.run_sandbox(&house.config("other")).await.unwrap();

    let anew = agent(&house.containerd, "node-1");
    let listed = anew.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].pod, &*listed[0].id), (&house.config("p").pod, &*sandbox.id));
    assert_eq!((listed[0].ready, listed[0].addresses.len()), (true, 1));
    let container = &listed[0].containers[0];
    assert_eq!((&*container.id, &*container.name), (&*id, "c"));
    assert_eq!(container.image, "localhost/busybox:1");
    // It goes on where the other stopped: the sandbox is whole to it.
    let second = anew.create(&sandbox.id, &shell("second", "echo here")).await.unwrap();
    anew.start(&second).await.unwrap();
    assert_eq!(ended(&anew, &second).await.0, 0);
    assert_eq!(house.log("p", "second"), "here\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_containerd_of_a_test_leaves_nothing_behind() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    house.start(&sandbox.id, &shell("c", "sleep 1000")).await;
    let folder = house.folder().to_owned();
    let processes = house.containerd.processes();
    assert!(processes.len() >= 3, "{processes:?}");
    let mounted = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(mounted().contains(&*folder.to_string_lossy()));
    drop(house);
    assert!(!mounted().contains(&*folder.to_string_lossy()));
    assert!(!folder.exists());
    for process in processes {
        // A process that is dead and not yet collected by its parent runs nothing any more.
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        assert!(status.is_empty() || status.contains("State:\tZ"), "{status}");
    }
}
