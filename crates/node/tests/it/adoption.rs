//! Rules of spec/downward-api.md, section 16: how containers end, and how an agent that comes later
//! finds them again or knows that they are gone.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::time::{Duration, Instant};

use tenure_node::runtime::process::ProcessRuntime;
use tenure_node::runtime::{ContainerRuntime as _, ContainerState, RuntimeError};

use crate::process::{Folder, House, RANGE, anybody, is_root, lines, settings, shell};

#[tokio::test]
async fn r109_a_container_that_ignores_the_signal_and_its_offspring_are_gone_after_the_grace() {
    let house = House::new().await;
    let mark = format!("7{}", std::process::id());
    let script = format!(
        "trap '' TERM; (trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep {mark}' &) & echo up; while :; do sleep 1; done"
    );
    let (sandbox, id) = house.script("stubborn", &script).await;
    house.wait_for("stubborn", "up").await;
    let begin = Instant::now();
    house.runtime.stop(&id, None, Duration::from_millis(300)).await.unwrap();
    let took = begin.elapsed();
    assert!(took >= Duration::from_millis(300) && took < Duration::from_millis(1300), "{took:?}");
    assert_eq!(house.ended(&id).await, (137, "Error".to_owned()));
    assert!(!anybody(&mark), "a process is left");
    house.runtime.remove_sandbox(&sandbox).await.unwrap();
    assert!(house.runtime.list().await.unwrap().is_empty());
    assert!(matches!(house.runtime.status(&id).await, Err(RuntimeError::NotFound(_))));
}

#[tokio::test]
async fn r106_the_stop_signal_reaches_the_command() {
    let house = House::new().await;
    let (_, id) = house
        .script("polite", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done")
        .await;
    house.wait_for("polite", "up").await;
    house.runtime.stop(&id, None, Duration::from_secs(10)).await.unwrap();
    assert_eq!(house.ended(&id).await.0, 7);
    assert!(house.log("polite").contains("F bye"));
    let (_, id) =
        house.script("other", "trap 'exit 8' USR1; echo up; while :; do sleep 0.01; done").await;
    house.wait_for("other", "up").await;
    house.runtime.stop(&id, Some("SIGUSR1"), Duration::from_secs(10)).await.unwrap();
    assert_eq!(house.ended(&id).await.0, 8);
    let (_, id) = house.script("plain", "exec sleep 1000").await;
    house.runtime.stop(&id, None, Duration::from_secs(10)).await.unwrap();
    assert_eq!(house.ended(&id).await.0, 143);
}

#[tokio::test]
async fn r146_containers_outlive_an_agent_and_are_found_again() {
    let house = House::new().await;
    let (sandbox, runs) =
        house.script("runs", "trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done").await;
    house.wait_for("runs", "up").await;
    let (_, ended) = house.script("ended", "exit 4").await;
    house.ended(&ended).await;
    let made = house.runtime.create(&sandbox, &shell("true")).await.unwrap();
    let address = house.runtime.list().await.unwrap()[0].addresses.clone();
    let House { folder, runtime } = house;
    drop(runtime);
    let runtime = ProcessRuntime::open(settings(folder.path())).await.unwrap();
    let house = House { folder, runtime };
    assert!(matches!(
        house.runtime.status(&runs).await.unwrap().state,
        ContainerState::Running { .. }
    ));
    assert_eq!(house.ended(&ended).await.0, 4);
    assert!(house.runtime.status(&made).await.is_err(), "it never ran");
    let mut found = house.runtime.list().await.unwrap();
    found.sort_by_key(|sandbox| sandbox.pod.name.clone());
    assert_eq!(
        found.iter().map(|one| one.pod.name.as_str()).collect::<Vec<_>>(),
        ["ended", "runs"]
    );
    assert!(found.iter().any(|sandbox| sandbox.addresses == address));
    let mut changes = house.runtime.changes();
    house.runtime.stop(&runs, None, Duration::from_secs(10)).await.unwrap();
    assert_eq!(house.ended(&runs).await.0, 5);
    assert_eq!(changes.recv().await.unwrap(), sandbox);
}

#[tokio::test]
async fn r146_an_end_that_nobody_saw_is_recorded_by_the_shim() {
    let house = House::new().await;
    let (_, id) = house.script("later", "sleep 0.2; echo late; exit 6").await;
    let House { folder, runtime } = house;
    drop(runtime);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let runtime = ProcessRuntime::open(settings(folder.path())).await.unwrap();
    let house = House { folder, runtime };
    assert_eq!(house.ended(&id).await, (6, "Error".to_owned()));
    assert!(house.log("later").contains("F late"));
}

#[tokio::test]
async fn r146_a_container_whose_shim_was_killed_is_unknown_and_gone() {
    let house = House::new().await;
    let mark = format!("8{}", std::process::id());
    let (sandbox, id) = house.script("lost", &format!("echo up; sleep {mark}")).await;
    house.wait_for("lost", "up").await;
    let record = house.folder.path().join("state").join(&sandbox).join(&id).join("running.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let shim = i32::try_from(record["shim"]["pid"].as_i64().unwrap()).unwrap();
    let shim = rustix::process::Pid::from_raw(shim).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    assert_eq!(house.ended(&id).await, (137, "ContainerStatusUnknown".to_owned()));
    let end = Instant::now() + Duration::from_secs(5);
    while anybody(&mark) {
        assert!(Instant::now() < end, "a process is left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The agent of the kill test: makes pods as fast as it can until it is killed.
#[tokio::test]
async fn helper_that_is_killed() {
    let Ok(root) = std::env::var("TENURE_TEST_KILL_ROOT") else { return };
    let mark = std::env::var("TENURE_TEST_KILL_MARK").unwrap();
    let folder = Folder::within(Path::new(&root));
    let runtime = ProcessRuntime::open(settings(Path::new(&root))).await.unwrap();
    runtime.use_pod_range(&[RANGE.to_owned()]).await.unwrap();
    let house = House { folder, runtime };
    println!("ready");
    for number in 0.. {
        let name = format!("pod-{number}");
        let sandbox = house.sandbox(&name).await;
        let config = shell(&format!("exec sleep {mark}"));
        let id = house.runtime.create(&sandbox, &config).await.unwrap();
        house.runtime.start(&id).await.unwrap();
        if number % 3 == 2 {
            house.runtime.stop(&id, None, Duration::from_secs(1)).await.unwrap();
            house.runtime.remove_sandbox(&sandbox).await.unwrap();
        }
    }
}

#[tokio::test]
async fn r146_an_agent_killed_at_any_moment_finds_every_container_again() {
    let folder = Folder::new();
    let mark = format!("5{}", std::process::id());
    let mut found = 0;
    for round in 0..100_u64 {
        let mut agent = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "adoption::helper_that_is_killed", "--nocapture"])
            .env("TENURE_TEST_KILL_ROOT", folder.path())
            .env("TENURE_TEST_KILL_MARK", &mark)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(agent.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0);
        }
        // Anywhere in the making of the first few containers, on a busy machine too.
        std::thread::sleep(Duration::from_micros(round * 5300 % 181_000));
        agent.kill().unwrap();
        agent.wait().unwrap();
        let runtime = ProcessRuntime::open(settings(folder.path())).await.unwrap();
        let list = runtime.list().await.unwrap();
        let running: usize = list
            .iter()
            .flat_map(|sandbox| &sandbox.containers)
            .filter(|container| matches!(container.state, ContainerState::Running { .. }))
            .count();
        found += running;
        let end = Instant::now() + Duration::from_secs(5);
        while how_many(&mark) != running {
            let there = how_many(&mark);
            assert!(Instant::now() < end, "round {round}: {there} run, {running} are known");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for sandbox in list {
            for container in &sandbox.containers {
                assert!(
                    !matches!(container.state, ContainerState::Unknown | ContainerState::Created),
                    "{container:?}"
                );
            }
            runtime.remove_sandbox(&sandbox.id).await.unwrap();
        }
        assert_eq!(how_many(&mark), 0, "round {round}");
    }
    assert!(found > 50, "only {found} containers were found again");
}

/// How many sleepers with this mark there are.
fn how_many(mark: &str) -> usize {
    let wanted = format!("sleep\0{mark}\0");
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    lines
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())
        })
        .count()
}

#[tokio::test]
async fn a_container_whose_folder_is_removed_ends() {
    let house = House::new().await;
    let mark = format!("4{}", std::process::id());
    house.script("orphan", &format!("exec sleep {mark}")).await;
    while how_many(&mark) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    std::fs::remove_dir_all(house.folder.path().join("state")).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    while how_many(&mark) > 0 {
        assert!(Instant::now() < end, "it runs on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn r146a_the_number_of_a_container_that_is_gone_leads_to_no_other_pod() {
    if !is_root() {
        println!("containers of an ordinary user join nobody's namespaces");
        return;
    }
    let house = House::new().await;
    let (victims, victim) = house.script("victim", "echo up; exec sleep 1000").await;
    house.wait_for("victim", "up").await;
    let (sandbox, id) = house.script("old", "exit 0").await;
    house.ended(&id).await;
    let House { folder, runtime } = house;
    drop(runtime);
    // While no agent looked, the kernel gave the number of the first process to the other pod.
    let record = |sandbox: &str, id: &str| {
        folder.path().join("state").join(sandbox).join(id).join("running.json")
    };
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let others = read(&record(&victims, &victim));
    let mut old = read(&record(&sandbox, &id));
    for process in ["init", "shim"] {
        old[process]["pid"] = others[process]["pid"].clone();
        // The start in the same tick is not the same process.
        let start = others[process]["start"].as_u64().unwrap() - 1;
        old[process]["start"] = start.into();
    }
    std::fs::write(record(&sandbox, &id), old.to_string()).unwrap();
    let runtime = ProcessRuntime::open(settings(folder.path())).await.unwrap();
    let house = House { folder, runtime };
    let mut config = shell("readlink /proc/self/ns/ipc /proc/self/ns/user");
    config.attempt = 1;
    config.log = "main/1.log".into();
    let next = house.runtime.create(&sandbox, &config).await.unwrap();
    house.runtime.start(&next).await.unwrap();
    assert_eq!(house.ended(&next).await.0, 0);
    let log = house.folder.path().join("logs/old/main/1.log");
    let own = lines(&std::fs::read_to_string(log).unwrap());
    let command = ["readlink", "/proc/self/ns/ipc", "/proc/self/ns/user"].map(str::to_owned);
    let ran = house.runtime.run(&victim, &command, Duration::from_secs(5)).await.unwrap();
    let others = String::from_utf8(ran.output).unwrap();
    assert!(own.lines().count() == 2 && others.lines().count() == 2, "{own} {others}");
    for (own, others) in own.lines().zip(others.lines()) {
        assert_ne!(own, others, "a namespace of the other pod");
    }
    house.runtime.remove_sandbox(&sandbox).await.unwrap();
    let state = house.runtime.status(&victim).await.unwrap().state;
    assert!(matches!(state, ContainerState::Running { .. }), "{state:?}");
}
