//! Rules of spec/downward-api.md, section 16: what a container is kept from.
#![cfg(target_os = "linux")]

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use tenure_node::runtime::process::ProcessRuntime;
use tenure_node::runtime::{ContainerConfig, ContainerRuntime as _, RuntimeError};
use tokio::io::AsyncReadExt as _;

use crate::process::{Folder, House, is_root, lines, settings, shell};

/// Calls with arguments that some kernel would take, and the error that a container gets; 0: it may.
fn calls() -> Vec<(&'static str, i64, &'static str, i32)> {
    const NOT_PERMITTED: i32 = libc::EPERM;
    let mut all = vec![
        ("unshare", libc::SYS_unshare, "0x10000000", NOT_PERMITTED),
        ("setns", libc::SYS_setns, "0, 0", NOT_PERMITTED),
        ("clone of a user namespace", libc::SYS_clone, "0x10000011, 0, 0, 0, 0", NOT_PERMITTED),
        ("clone3", libc::SYS_clone3, "0, 0", libc::ENOSYS),
        ("mount", libc::SYS_mount, "0, 0, 0, 0, 0", NOT_PERMITTED),
        ("umount2", libc::SYS_umount2, "0, 0", NOT_PERMITTED),
        ("fsopen", libc::SYS_fsopen, "0, 0", NOT_PERMITTED),
        ("mount_setattr", libc::SYS_mount_setattr, "0, 0, 0, 0, 0", NOT_PERMITTED),
        ("pivot_root", libc::SYS_pivot_root, "0, 0", NOT_PERMITTED),
        ("keyctl", libc::SYS_keyctl, "0, -3, 1", NOT_PERMITTED),
        ("add_key", libc::SYS_add_key, "0, 0, 0, 0, 0", NOT_PERMITTED),
        ("bpf", libc::SYS_bpf, "0, 0, 0", NOT_PERMITTED),
        ("io_uring_setup", libc::SYS_io_uring_setup, "1, 0", NOT_PERMITTED),
        ("userfaultfd", libc::SYS_userfaultfd, "1", NOT_PERMITTED),
        ("perf_event_open", libc::SYS_perf_event_open, "0, 0, 0, 0, 0", NOT_PERMITTED),
        ("init_module", libc::SYS_init_module, "0, 0, 0", NOT_PERMITTED),
        ("kexec_load", libc::SYS_kexec_load, "0, 0, 0, 0", NOT_PERMITTED),
        ("reboot", libc::SYS_reboot, "0, 0, 0", NOT_PERMITTED),
        ("clock_settime", libc::SYS_clock_settime, "0, 0", NOT_PERMITTED),
        ("syslog", libc::SYS_syslog, "10, 0, 0", NOT_PERMITTED),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, "0, 0, 0", NOT_PERMITTED),
        ("a call newer than the list", 470, "0, 0, 0, 0", libc::ENOSYS),
        ("personality with a strange one", libc::SYS_personality, "0x0100000", NOT_PERMITTED),
        ("personality as a question", libc::SYS_personality, "0xffffffff", 0),
        ("a socket to the host of a virtual machine", libc::SYS_socket, "40, 1, 0", NOT_PERMITTED),
        ("a socket of a file", libc::SYS_socket, "1, 1, 0", 0),
        ("a socket of the internet", libc::SYS_socket, "2, 1, 0", 0),
        ("words for a terminal", libc::SYS_ioctl, "0, 0x5412, 0", NOT_PERMITTED),
        ("to be traced by the parent", libc::SYS_ptrace, "0, 0, 0, 0", 0),
    ];
    if cfg!(target_arch = "x86_64") {
        all.push(("iopl", 172, "0", NOT_PERMITTED));
        all.push(("an x32 call", 0x4000_0000 + 39, "0", libc::ENOSYS));
    }
    all
}

/// A script that makes the calls and says how each ended.
fn script() -> String {
    let mut script = String::from("$| = 1;\n");
    for (name, number, arguments, _) in calls() {
        script += &format!(
            "$! = 0; $done = syscall({number}, {arguments}); \
             print '{name}: ', ($done < 0 ? $! + 0 : 0), \"\\n\";\n"
        );
    }
    script
}

fn expected() -> String {
    let lines: Vec<String> =
        calls().iter().map(|(name, .., error)| format!("{name}: {error}")).collect();
    lines.join("\n")
}

fn perl(script: &str) -> ContainerConfig {
    ContainerConfig {
        command: ["/usr/bin/perl", "-e", script].map(str::to_owned).to_vec(),
        ..shell("")
    }
}

/// What a container said in a pod of its own.
async fn said(house: &House, pod: &str, config: &ContainerConfig) -> String {
    let sandbox = house.sandbox(pod).await;
    let id = house.runtime.create(&sandbox, config).await.unwrap();
    house.runtime.start(&id).await.unwrap();
    let ended = house.ended(&id).await;
    let said = lines(&house.log(pod));
    assert_eq!(ended.0, 0, "{ended:?} {said}");
    said
}

#[tokio::test]
async fn r141_a_command_is_kept_from_what_containers_never_call() {
    let house = House::new().await;
    assert_eq!(said(&house, "calls", &perl(&script())).await, expected());
    let mut config = perl(&script());
    config.security.allow_escalation = true;
    assert_eq!(said(&house, "escalating", &config).await, expected());

    // A command that comes later, as a probe does.
    let (_, id) = house.script("later", "exec sleep 1000").await;
    let command = ["/usr/bin/perl".to_owned(), "-e".to_owned(), script()];
    let ran = house.runtime.run(&id, &command, Duration::from_secs(20)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.output).trim(), expected());
}

#[tokio::test]
async fn r141_privileges_end_with_the_start_unless_the_pod_asks() {
    const STATUS: &str = "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status";
    let house = House::new().await;
    let usual = said(&house, "usual", &shell(STATUS)).await;
    assert_eq!(usual, "NoNewPrivs:\t1\nSeccomp:\t2");
    let mut config = shell(STATUS);
    config.security.allow_escalation = true;
    assert_eq!(said(&house, "asking", &config).await, "NoNewPrivs:\t0\nSeccomp:\t2");
}

#[tokio::test]
async fn r141_a_profile_of_calls_is_the_default_or_refused() {
    let house = House::new().await;
    let sandbox = house.sandbox("profiles").await;
    let mut config = shell("grep Seccomp: /proc/self/status");
    let mut with = |kind: &str| {
        config.security.seccomp = Some((kind.to_owned(), "mine.json".to_owned()));
        config.clone()
    };
    for kind in ["Localhost", "Unconfined"] {
        let error = house.runtime.create(&sandbox, &with(kind)).await.unwrap_err();
        assert!(matches!(error, RuntimeError::Refused(_)), "{error}");
        assert!(error.to_string().contains(&format!("seccompProfile.type {kind}")), "{error}");
    }
    assert_eq!(said(&house, "default", &with("RuntimeDefault")).await, "Seccomp:\t2");
    let open = House::with(|settings| settings.allow_privileged = true).await;
    assert_eq!(said(&open, "unconfined", &with("Unconfined")).await, "Seccomp:\t0");
}

#[tokio::test]
async fn r141_abstract_sockets_of_the_node_are_out_of_reach() {
    let house = House::new().await;
    let about = house.runtime.about().await.unwrap();
    let held = about.isolation.iter().find(|(aspect, _)| aspect == "landlock").unwrap();
    if let Err(why) = &held.1 {
        println!("the kernel has no Landlock for this, and the node says so: {why}");
        return;
    }
    let name = format!("tenure-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let reach = |name: &str| {
        format!(
            "use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0); \
             print connect($s, pack('S a*', AF_UNIX, \"\\0{name}\")) ? 'reached' : $! + 0;"
        )
    };
    let denied = libc::EPERM.to_string();
    // Another network has names of its own.
    let elsewhere = libc::ECONNREFUSED.to_string();
    let other = if about.pod_network { &elsewhere } else { &denied };
    assert_eq!(said(&house, "outside", &perl(&reach(&name))).await, *other);
    drop(listener);

    // Its own are its own, whichever command made them.
    let own = format!("{name}-own");
    let listen = format!(
        "use Socket; $| = 1; socket(my $s, AF_UNIX, SOCK_STREAM, 0); \
         bind($s, pack('S a*', AF_UNIX, \"\\0{own}\")) && listen($s, 5) or die $!; \
         print \"up\\n\"; sleep 1000;"
    );
    let sandbox = house.sandbox("inside").await;
    let id = house.runtime.create(&sandbox, &perl(&listen)).await.unwrap();
    house.runtime.start(&id).await.unwrap();
    house.wait_for("inside", "up").await;
    let command = ["/usr/bin/perl".to_owned(), "-e".to_owned(), reach(&own)];
    let ran = house.runtime.run(&id, &command, Duration::from_secs(20)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.output), "reached");
    assert_eq!(said(&house, "beside", &perl(&reach(&own))).await, *other, "another pod's");

    // Another container of the pod shares its network, and is kept from it all the same.
    let mut second = perl(&reach(&own));
    (second.name, second.log) = ("second".to_owned(), "second/0.log".into());
    let second = house.runtime.create(&sandbox, &second).await.unwrap();
    house.runtime.start(&second).await.unwrap();
    house.ended(&second).await;
    let log = house.folder.path().join("logs/inside/second/0.log");
    assert_eq!(lines(&std::fs::read_to_string(log).unwrap()), denied);
}

#[tokio::test]
async fn r141_no_more_processes_than_allowed() {
    const BOMB: &str = "$| = 1; my $made = 0; \
        while (1) { my $pid = fork; last if !defined $pid; if (!$pid) { sleep 1000; exit } $made++ } \
        print \"$made\\n\";";
    let house = House::with(|settings| settings.processes_max = 50).await;
    let about = house.runtime.about().await.unwrap();
    assert!(about.isolation.iter().any(|(aspect, held)| aspect == "pids" && held.is_ok()));
    let made: u32 = said(&house, "bomb", &perl(BOMB)).await.parse().unwrap();
    assert!((20..=50).contains(&made), "{made} processes");
    let limits = said(&house, "limits", &shell("cat /proc/self/limits")).await;
    let limit = limits.lines().find(|line| line.starts_with("Max processes")).unwrap();
    assert_eq!(limit.split_whitespace().nth(3), Some("50"), "{limit}");
    // One container's processes are not another's.
    let (_, id) = house.script("full", "for i in $(seq 40); do sleep 1000 & done; wait").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(said(&house, "free", &shell("sleep 0; echo free")).await, "free");
    house.runtime.stop(&id, None, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn r141_the_control_group_limits_processes_too() {
    let house = House::with(|settings| settings.processes_max = 4711).await;
    if !is_root() || !std::path::Path::new("/sys/fs/cgroup").exists() {
        println!("no control groups here");
        return;
    }
    let (_, id) = house.script("grouped", "exec sleep 1000").await;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let mut found = Vec::new();
    for tree in ["/sys/fs/cgroup", "/sys/fs/cgroup/pids"] {
        let below = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        for place in below.chain(["/"]) {
            let place = place.trim_matches('/');
            let folder = std::path::Path::new(tree).join(place).join("tenure").join(&id);
            found.extend(std::fs::read_to_string(folder.join("pids.max")));
        }
    }
    let about = house.runtime.about().await.unwrap();
    if found.is_empty() {
        let why = format!("{:?}", about.isolation);
        assert!(why.contains("control groups") || why.contains("cgroup"), "{why}");
        println!("no control group for processes here: {why}");
        return;
    }
    assert!(found.iter().all(|limit| limit.trim() == "4711"), "{found:?}");
}

/// Listens on any port of an address and answers with a word; says the port.
fn server(address: &str) -> ContainerConfig {
    perl(&format!(
        "use IO::Socket::INET; $| = 1; \
         my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => '{address}', LocalPort => 0) or die $!; \
         print 'port ', $s->sockport, \"\\n\"; \
         while (my $c = $s->accept) {{ print $c 'hello'; close $c }}"
    ))
}

#[tokio::test]
async fn r148_a_port_is_reached_only_if_the_pod_listens_on_it() {
    let house = House::new().await;
    let mut pods = Vec::new();
    for (pod, address) in [("all", "0.0.0.0"), ("loopback", "127.0.0.1")] {
        let sandbox = house.sandbox(pod).await;
        let id = house.runtime.create(&sandbox, &server(address)).await.unwrap();
        house.runtime.start(&id).await.unwrap();
        house.wait_for(pod, "port ").await;
        let said = lines(&house.log(pod));
        let port: u16 = said.trim().strip_prefix("port ").unwrap().parse().unwrap();
        pods.push((sandbox, id, port));
    }
    for (sandbox, _, port) in &pods {
        let mut stream = house.runtime.connect(sandbox, *port).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
    }
    let refused = async |sandbox: &str, port: u16| {
        let error = house.runtime.connect(sandbox, port).await.err().unwrap().to_string();
        assert!(error.contains("no process of the pod listens on it"), "{error}");
        assert!(error.contains(&port.to_string()), "{error}");
    };
    // Ports of the machine, on every address a pod could mean.
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
        refused(&pods[0].0, listener.local_addr().unwrap().port()).await;
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "somebody connected to {address}");
    }
    // The other pod's.
    refused(&pods[0].0, pods[1].2).await;
    refused(&pods[1].0, pods[0].2).await;
    // The pod's own when it listens no more.
    house.runtime.stop(&pods[0].1, None, Duration::ZERO).await.unwrap();
    refused(&pods[0].0, pods[0].2).await;
}

#[tokio::test]
async fn r142_where_a_wall_cannot_be_built_no_pod_is_run() {
    let folder = Folder::new();
    let mut settings = settings(folder.path());
    settings.program = Some("/bin/false".into());
    let runtime = ProcessRuntime::open(settings).await.unwrap();
    let house = House { folder, runtime };
    let why = house.runtime.missing_wall().unwrap();
    let error = house.runtime.run_sandbox(&house.sandbox_config("none")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("this node cannot isolate pods: {why}"));
    // Whoever asks has the walls tried again; a program that ends at once may be heard or not.
    let about = house.runtime.about().await.unwrap();
    let why = about.unable.unwrap();
    for (aspect, held) in about.isolation {
        if ["mount", "pid", "user", "seccomp", "capabilities"].contains(&aspect.as_str()) {
            assert_eq!(held, Err(why.clone()), "{aspect}");
        }
    }
    assert!(about.danger.is_none(), "nothing runs, so nothing is in danger");
}

#[tokio::test]
async fn r143_a_volume_gives_neither_users_nor_devices() {
    let house = House::new().await;
    let volume = house.folder.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    if let Some(first) = house.runtime.first_id("uid-volume") {
        std::os::unix::fs::chown(&volume, Some(first), Some(first)).unwrap();
    }
    let sandbox = house.sandbox("volume").await;
    let mount = tenure_node::runtime::Mount {
        at: "/vol".to_owned(),
        from: volume.clone(),
        ..Default::default()
    };
    let mut config = shell("cp /usr/bin/id /vol/id && chmod 6755 /vol/id; mknod /vol/null c 1 3");
    config.mounts.push(mount.clone());
    let id = house.runtime.create(&sandbox, &config).await.unwrap();
    house.runtime.start(&id).await.unwrap();
    assert_ne!(house.ended(&id).await.0, 0, "a device was made");
    assert!(volume.join("id").exists() && !volume.join("null").exists());

    // Without the promise of no new privileges, so that it is the volume that gives none.
    let mut config = shell("/vol/id -u; /vol/id -g");
    config.mounts.push(mount);
    config.attempt = 1;
    (config.security.uid, config.security.gid) = (Some(1000), Some(2000));
    config.security.allow_escalation = true;
    let id = house.runtime.create(&sandbox, &config).await.unwrap();
    house.runtime.start(&id).await.unwrap();
    assert_eq!(house.ended(&id).await.0, 0);
    let said = lines(&house.log("volume"));
    assert!(said.ends_with("1000\n2000"), "{said}");
}
