//! Rules of spec/downward-api.md: the runtime `cri` on a real containerd. Each test has a containerd of
//! its own; see crates/testing/containerd for when it is skipped.

mod fake;
mod faults;
mod house;
mod streams;

use std::time::{Duration, Instant};

use tenure_node::runtime::cri::LogLimits;
use tenure_node::runtime::{
    ContainerConfig, ContainerLimits, ContainerRuntime as _, ContainerState, ImageWanted, Mount,
    RedactedValue, RuntimeError, SandboxConfig, Security,
};

use self::house::{House, ended, shell, words};

#[tokio::test(flavor = "multi_thread")]
async fn r150_r155_a_container_lives_through_the_calls_of_cri() {
    let Some(house) = House::open().await else { return };
    let about = house.cri.about().await.unwrap();
    assert_eq!((&*about.name, &*about.scheme), ("containerd", "containerd"));
    let aspects: Vec<&str> = about.isolation.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(aspects, ["RuntimeReady", "NetworkReady"]);
    assert!(about.isolation[0].1.is_ok() && about.isolation[1].1.is_err());

    let mut changes = house.cri.changes();
    let sandbox = house.sandbox("p").await;
    assert!(sandbox.ready);
    assert_eq!(sandbox.addresses, [house::ADDRESS]);
    let config = shell("c", "sleep 2; exit 3");
    let id = house.cri.create(&sandbox.id, &config).await.unwrap();
    let made = house.cri.status(&id).await.unwrap();
    assert_eq!(made.state, ContainerState::Created);
    assert_eq!((&*made.name, made.attempt, &*made.image), ("c", 0, "localhost/busybox:1"));
    assert!(made.image_id.contains("sha256:"), "{}", made.image_id);
    house.cri.start(&id).await.unwrap();
    let running = house.cri.status(&id).await.unwrap();
    assert!(matches!(running.state, ContainerState::Running { .. }), "{running:?}");

    // Nobody asked: the runtime is looked at, as it has no events.
    let begin = Instant::now();
    loop {
        let changed = tokio::time::timeout(Duration::from_secs(10), changes.recv()).await;
        assert_eq!(changed.unwrap().unwrap(), sandbox.id);
        let state = house.cri.status(&id).await.unwrap().state;
        if let ContainerState::Exited { code, reason, started, finished, .. } = state {
            assert_eq!((code, &*reason), (3, "Error"));
            assert!(finished > started);
            break;
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());

    let listed = house.cri.list().await.unwrap();
    assert_eq!((listed.len(), &*listed[0].pod.name), (1, "p"));
    assert_eq!((listed[0].ready, listed[0].containers.len()), (true, 1));
    house.cri.stop_sandbox(&sandbox.id).await.unwrap();
    assert!(!house.cri.list().await.unwrap()[0].ready);
    house.cri.remove(&id).await.unwrap();
    house.cri.remove_sandbox(&sandbox.id).await.unwrap();
    // What is gone is stopped and removed.
    house.cri.stop(&id, None, Duration::ZERO).await.unwrap();
    house.cri.remove(&id).await.unwrap();
    house.cri.stop_sandbox(&sandbox.id).await.unwrap();
    house.cri.remove_sandbox(&sandbox.id).await.unwrap();
    assert!(house.cri.list().await.unwrap().is_empty());
    assert!(matches!(house.cri.status(&id).await, Err(RuntimeError::NotFound(_))));
    assert!(house.containerd.processes().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn r115_logs_are_in_the_format_of_cri_where_the_agent_wants_them() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let config = ContainerConfig {
        attempt: 4,
        log: "c/4.log".into(),
        ..shell("c", "echo out; echo err >&2")
    };
    let id = house.start(&sandbox.id, &config).await;
    assert_eq!(ended(&house.cri, &id).await, (0, "Completed".into()));
    house.cri.remove(&id).await.unwrap();
    // The log outlives its container.
    let log = house.logs("p").join("c/4.log");
    let text = std::fs::read_to_string(&log).unwrap();
    let mut lines: Vec<(&str, &str)> =
        text.lines().filter_map(|line| line.split_once(' ')).collect();
    lines.sort_by_key(|(_, rest)| *rest);
    let rest: Vec<&str> = lines.iter().map(|(_, rest)| *rest).collect();
    assert_eq!(rest, ["stderr F err", "stdout F out"]);
    for (time, _) in lines {
        time.parse::<jiff::Timestamp>().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r152_a_container_has_its_environment_its_folder_and_its_user() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let message = house.folder().join("message");
    std::fs::write(&message, "").unwrap();
    let script = "echo $PLAIN; echo \"$LINES\"; pwd; id -u; id -g; id -G; echo $0 $1; \
        printf %s \"$BYTES\" | od -An -tx1; echo done > /dev/termination-log; \
        touch /x 2>/dev/null || echo read-only; grep Seccomp: /proc/self/status";
    let config = ContainerConfig {
        args: words(&["-c", script, "zero", "one"]),
        command: words(&["sh"]),
        directory: "/tmp".into(),
        env: vec![
            ("PLAIN".into(), RedactedValue(b"plain".to_vec())),
            ("LINES".into(), RedactedValue(b"two\nlines".to_vec())),
            ("BYTES".into(), RedactedValue("h\u{e9}".into())),
        ],
        termination: Some(("/dev/termination-log".into(), message.clone())),
        security: Security {
            // The image says who runs it: root.
            gid: Some(7),
            groups: vec![1234],
            read_only_root: true,
            no_new_privileges: true,
            seccomp: Some(("RuntimeDefault".into(), String::new())),
            ..Security::default()
        },
        limits: ContainerLimits {
            memory: Some(64 << 20),
            cpu_quota: Some(50_000),
            ..ContainerLimits::default()
        },
        ..shell("c", "")
    };
    let id = house.start(&sandbox.id, &config).await;
    assert_eq!(ended(&house.cri, &id).await.0, 0);
    let expected =
        "plain\ntwo\nlines\n/tmp\n0\n7\n7 1234\nzero one\n 68 c3 a9\nread-only\nSeccomp:\t2\n";
    assert_eq!(house.log("p", "c"), expected);
    assert_eq!(std::fs::read_to_string(message).unwrap(), "done\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn r152_files_of_the_node_change_under_a_running_container() {
    let Some(house) = House::open().await else { return };
    let volume = house.folder().join("volume");
    let generation = |name: &str, text: &str| {
        let folder = volume.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("labels"), text).unwrap();
        std::os::unix::fs::symlink(name, volume.join("..data_tmp")).unwrap();
        std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    };
    generation("..1", "one");
    std::os::unix::fs::symlink("..data/labels", volume.join("labels")).unwrap();
    let sandbox = house.sandbox("p").await;
    let mount = Mount {
        at: "/etc/podinfo".into(),
        from: volume.clone(),
        read_only: true,
        propagation: None,
    };
    let config = ContainerConfig { mounts: vec![mount], ..shell("c", "sleep 1000") };
    let id = house.start(&sandbox.id, &config).await;
    let cat = words(&["cat", "/etc/podinfo/labels"]);
    let limit = Duration::from_secs(10);
    assert_eq!(house.cri.run(&id, &cat, limit).await.unwrap().output, b"one");
    generation("..2", "two");
    assert_eq!(house.cri.run(&id, &cat, limit).await.unwrap().output, b"two");
    let write = words(&["touch", "/etc/podinfo/x"]);
    let refused = house.cri.run(&id, &write, limit).await.unwrap();
    assert_ne!(refused.code, 0);
    assert!(String::from_utf8_lossy(&refused.output).contains("Read-only file system"));
}

#[tokio::test(flavor = "multi_thread")]
async fn r150_a_command_is_run_to_its_end_and_no_longer_than_it_may() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let id = house.start(&sandbox.id, &shell("c", "sleep 1000")).await;
    let limit = Duration::from_secs(10);
    let command = words(&["sh", "-c", "echo out; echo err >&2; exit 5"]);
    let ran = house.cri.run(&id, &command, limit).await.unwrap();
    assert_eq!((ran.code, ran.timed_out, &*ran.output), (5, false, &b"out\nerr\n"[..]));
    let ran =
        house.cri.run(&id, &words(&["sh", "-c", "yes | head -c 100000"]), limit).await.unwrap();
    assert_eq!(ran.output.len(), 16 * 1024);
    let begin = Instant::now();
    let ran = house.cri.run(&id, &words(&["sleep", "60"]), Duration::from_secs(1)).await.unwrap();
    assert!(ran.timed_out && begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    let missing = house.cri.run(&id, &words(&["no-such-command"]), limit).await;
    assert!(
        matches!(&missing, Err(RuntimeError::CannotRun(why)) if why.contains("no-such-command"))
    );
    let nowhere = house.cri.run("nowhere", &words(&["true"]), limit).await;
    assert!(matches!(nowhere, Err(RuntimeError::NotFound(_))), "{nowhere:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn r144_a_command_that_cannot_be_run_ends_with_128() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let config = ContainerConfig { command: words(&["/no/such/file"]), ..shell("c", "") };
    let id = house.cri.create(&sandbox.id, &config).await.unwrap();
    let failed = house.cri.start(&id).await;
    assert!(matches!(&failed, Err(RuntimeError::CannotRun(why)) if why.contains("/no/such/file")));
    assert_eq!(ended(&house.cri, &id).await, (128, "StartError".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn r97_an_image_that_is_not_there_says_so_with_the_reason_of_its_policy() {
    let Some(house) = House::open().await else { return };
    let image = async |name: &str, policy: &str| {
        let wanted = ImageWanted::new(name, policy);
        match house.cri.image(&wanted).await {
            Ok(image) => format!("{} {}", image.id, image.pulled),
            Err(RuntimeError::Image { reason, message }) => {
                assert!(message.contains(name), "{message}");
                reason.to_owned()
            }
            Err(other) => panic!("{other:?}"),
        }
    };
    let there = image("localhost/busybox:1", "Never").await;
    assert!(there.contains("sha256:") && there.ends_with(" false"), "{there}");
    assert_eq!(image("localhost/busybox:1", "IfNotPresent").await, there);
    assert_eq!(image("localhost/none:1", "Never").await, "ErrImageNeverPull");
    assert_eq!(image("localhost/none:1", "IfNotPresent").await, "ErrImagePull");
    assert_eq!(image("localhost/busybox:1", "Always").await, "ErrImagePull");
    assert_eq!(image("Not An Image", "Never").await, "InvalidImageName");
}

#[tokio::test(flavor = "multi_thread")]
async fn r151_a_pod_shares_its_processes_only_if_it_wants_to() {
    let Some(house) = House::open().await else { return };
    for (pod, share_processes) in [("apart", false), ("together", true)] {
        let config = SandboxConfig { share_processes, ..house.config(pod) };
        let sandbox = house.cri.run_sandbox(&config).await.unwrap();
        let id = house.start(&sandbox.id, &shell("c", "sleep 1000")).await;
        let ps = words(&["cat", "/proc/1/comm"]);
        let ran = house.cri.run(&id, &ps, Duration::from_secs(10)).await.unwrap();
        let first = if share_processes { "pause\n" } else { "sleep\n" };
        assert_eq!(String::from_utf8_lossy(&ran.output), first);
    }
    let config = SandboxConfig { host_users: false, ..house.config("users") };
    let refused = house.cri.run_sandbox(&config).await;
    assert!(matches!(&refused, Err(RuntimeError::Refused(why)) if why.contains("hostUsers")));
}

#[tokio::test(flavor = "multi_thread")]
async fn r115_a_full_log_is_put_aside_and_only_a_few_are_kept() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let script =
        "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i; sleep 0.05; done; sleep 1000";
    let limits = LogLimits { bytes_max: 300, files_max: 3, every: Duration::from_millis(200) };
    let agent = house::agent_with(&house.containerd, "node-1", limits);
    house.start(&sandbox.id, &shell("c", script)).await;
    let folder = house.logs("p").join("c");
    let begin = Instant::now();
    let mut most = 0;
    // A file may be renamed while it is looked for.
    let written = || {
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let texts = files.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default());
        let texts: Vec<String> = texts.collect();
        (texts.len(), texts.iter().any(|text| text.contains("line 100\n")))
    };
    while !written().1 {
        assert!(begin.elapsed() < Duration::from_secs(60));
        most = most.max(written().0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // What is being put aside is put aside before the agent goes.
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(agent);
    let files = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    // One more for a moment, before the oldest goes.
    assert!(files.len() == 3 && most <= 4, "{most} {files:?}");
    // No line is lost at a seam; the current file, whose name is shortest, is the newest.
    files.rotate_left(1);
    let all: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let numbers = all.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse().ok());
    let numbers: Vec<u32> = numbers.collect();
    let first = numbers[0];
    assert!(first > 1 && numbers.len() > 10, "{numbers:?}");
    assert_eq!(numbers, (first..=100).collect::<Vec<_>>());
}
