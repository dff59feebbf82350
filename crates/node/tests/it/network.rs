//! Rules of spec/laptop.md: pods of the runtime `process` have a network of their own.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tenure_node::runtime::process::{PodNetworkChoice, ProcessRuntime};
use tenure_node::runtime::{ContainerConfig, ContainerRuntime as _};
use tokio::io::AsyncReadExt as _;

use crate::process::{House, RANGE, lines, settings, shell};

fn perl(script: &str) -> ContainerConfig {
    ContainerConfig {
        command: ["/usr/bin/perl", "-e", script].map(str::to_owned).to_vec(),
        ..shell("")
    }
}

/// Listens and answers every client with its address, then a word.
fn server(address: &str, port: u16, word: &str) -> ContainerConfig {
    perl(&format!(
        "use IO::Socket::INET; $| = 1; \
         my $s = IO::Socket::INET->new(Listen => 50, LocalAddr => '{address}', LocalPort => {port}, \
           ReuseAddr => 1) or die $!; \
         print \"up\\n\"; \
         while (my $c = $s->accept) {{ print $c $c->peerhost, ' {word}'; close $c }}"
    ))
}

/// What a client is answered, or why it is not.
fn asks(address: &str, port: u16) -> ContainerConfig {
    perl(&format!(
        "use IO::Socket::INET; \
         my $s = IO::Socket::INET->new(PeerAddr => '{address}', PeerPort => {port}, Timeout => 5); \
         print $s ? scalar <$s> : \"not: $!\";"
    ))
}

async fn start(house: &House, pod: &str, config: &ContainerConfig) -> (String, IpAddr) {
    let sandbox = house.runtime.run_sandbox(&house.sandbox_config(pod)).await.unwrap();
    let id = house.runtime.create(&sandbox.id, config).await.unwrap();
    house.runtime.start(&id).await.unwrap();
    house.wait_for(pod, "up").await;
    (sandbox.id, sandbox.addresses[0])
}

async fn said(house: &House, pod: &str, config: ContainerConfig) -> String {
    let sandbox = house.sandbox(pod).await;
    let id = house.runtime.create(&sandbox, &config).await.unwrap();
    house.runtime.start(&id).await.unwrap();
    house.ended(&id).await;
    lines(&house.log(pod))
}

async fn read(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

fn holder(house: &House) -> rustix::process::Pid {
    let record = house.folder.path().join("state/.network/holder.json");
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let pid = record["process"]["pid"].as_i64().unwrap();
    rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// Devices, addresses, routes, rules and settings of the machine.
fn machine() -> Vec<String> {
    let mut all: Vec<String> = ["route", "fib_trie", "if_inet6", "ipv6_route"]
        .iter()
        .map(|file| std::fs::read_to_string(format!("/proc/net/{file}")).unwrap_or_default())
        .collect();
    let devices = std::fs::read_to_string("/proc/net/dev").unwrap();
    let names = devices.lines().filter_map(|line| line.split_once(':'));
    all.extend(names.map(|(name, _)| name.trim().to_owned()));
    for setting in [
        "ip_forward",
        "conf/all/rp_filter",
        "conf/default/rp_filter",
        "ip_local_port_range",
        "ip_unprivileged_port_start",
        "ping_group_range",
    ] {
        let value = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{setting}")).unwrap();
        all.push(format!("{setting} {value}"));
    }
    all
}

#[tokio::test]
async fn n2_n9_the_machine_is_as_it_was_before_during_and_after() {
    let before = machine();
    let house = House::new().await;
    let (sandbox, _) = start(&house, "web", &server("0.0.0.0", 80, "web")).await;
    assert_eq!(machine(), before, "during");
    house.runtime.stop_sandbox(&sandbox).await.unwrap();
    house.runtime.remove_sandbox(&sandbox).await.unwrap();
    let pid = holder(&house);
    house.runtime.close().await;
    let begin = Instant::now();
    while rustix::process::test_kill_process(pid).is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(2), "the holder is there still");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(machine(), before, "after");
}

#[tokio::test]
async fn n3_n4_n6_a_pod_sees_its_own_device_address_and_routes() {
    let house = House::new().await;
    let script = "ls /sys/class/net; grep -c . /proc/net/route; cat /proc/net/if_inet6; \
        cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/ping_group_range; \
        awk 'NR > 1 { print $1, $2, $3 }' /proc/net/route; cat /proc/net/fib_trie";
    let said = house.said("own", script).await;
    let mut devices: Vec<&str> =
        said.lines().take_while(|line| line.parse::<u8>().is_err()).collect();
    devices.sort_unstable();
    assert_eq!(devices, ["eth0", "lo"], "{said}");
    let addresses = house.runtime.list().await.unwrap()[0].addresses.clone();
    let words: Vec<&str> = said.split_whitespace().collect();
    let own = addresses[0].to_string();
    assert!(words.windows(5).any(|five| five == ["|--", &own, "/32", "host", "LOCAL"]), "{said}");
    // The default route goes by the node, which alone is a neighbour.
    assert!(said.contains("eth0 00000000 0107F40A"), "{said}");
    assert!(said.contains("eth0 0107F40A 00000000"), "{said}");
    // Of IPv6 only the loopback.
    assert!(said.contains("00000000000000000000000000000001"), "{said}");
    assert!(!said.contains("fe80"), "{said}");
    assert!(said.lines().any(|line| line == "0"), "every port is everybody's: {said}");
}

#[tokio::test]
async fn n3_pods_with_the_same_port_do_not_collide_and_reach_each_other() {
    let house = House::new().await;
    let (one, first) = start(&house, "one", &server("0.0.0.0", 80, "one")).await;
    let (two, second) = start(&house, "two", &server("0.0.0.0", 80, "two")).await;
    assert_ne!(first, second);
    for (address, word) in [(first, "one"), (second, "two")] {
        let pod = format!("asks-{word}");
        let answered = said(&house, &pod, asks(&address.to_string(), 80)).await;
        let list = house.runtime.list().await.unwrap();
        let own = list.iter().find(|found| found.pod.name == pod).unwrap().addresses[0];
        assert_eq!(answered, format!("{own} {word}"), "a pod is known by its own address");
    }
    for (sandbox, word) in [(&one, "one"), (&two, "two")] {
        let stream = house.runtime.connect(sandbox, 80).await.unwrap();
        assert_eq!(read(stream).await, format!("127.0.0.1 {word}"));
    }
    // As a probe asks.
    let stream = house.runtime.dial(&second.to_string(), 80).await.unwrap();
    assert_eq!(read(stream).await, "10.244.7.1 two");
}

#[tokio::test]
async fn n6_a_pod_cannot_change_its_network() {
    let house = House::new().await;
    // Switches eth0 off, adds an address, opens a raw socket: all need power over the network.
    let script = "use Socket; socket(my $s, AF_INET, SOCK_DGRAM, 0) or die; \
        my $down = pack('Z16 s x14', 'eth0', 0); \
        print 'flags ', (ioctl($s, 0x8914, $down) ? 'changed' : $!{EPERM} ? 'kept' : $!), \"\\n\"; \
        my $address = pack('Z16', 'eth0') . pack_sockaddr_in(0, inet_aton('10.244.7.77')) . ' ' x 8; \
        print 'address ', (ioctl($s, 0x8916, $address) ? 'changed' : $!{EPERM} ? 'kept' : $!), \"\\n\"; \
        print 'raw ', (socket(my $r, AF_INET, SOCK_RAW, 1) ? 'open' : $!{EPERM} ? 'refused' : $!), \"\\n\";";
    let answered = said(&house, "attacker", perl(script)).await;
    assert_eq!(answered, "flags kept\naddress kept\nraw refused");
}

#[tokio::test]
async fn n8_the_network_of_the_host_is_that_of_the_node() {
    let house = House::new().await;
    let machine = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = machine.local_addr().unwrap().port();
    let mut config = house.sandbox_config("host");
    config.host_network = true;
    let sandbox = house.runtime.run_sandbox(&config).await.unwrap();
    assert_eq!(sandbox.addresses, ["10.244.7.1".parse::<IpAddr>().unwrap()]);
    // The very port that somebody has on the machine is free there.
    let config = server("0.0.0.0", taken, "node");
    let id = house.runtime.create(&sandbox.id, &config).await.unwrap();
    house.runtime.start(&id).await.unwrap();
    house.wait_for("host", "up").await;
    let answered = said(&house, "asks", asks("10.244.7.1", taken)).await;
    assert!(answered.ends_with(" node"), "{answered}");
    let stream = house.runtime.connect(&sandbox.id, taken).await.unwrap();
    assert!(read(stream).await.ends_with(" node"));
    // Another pod there has other ports.
    let mut other = house.sandbox_config("other");
    other.host_network = true;
    let other = house.runtime.run_sandbox(&other).await.unwrap();
    let error = house.runtime.connect(&other.id, taken).await.err().unwrap().to_string();
    assert!(error.contains("no process of the pod listens on it"), "{error}");
    machine.set_nonblocking(true).unwrap();
    assert!(machine.accept().is_err(), "somebody reached the machine");
}

#[tokio::test]
async fn n25_nobody_reaches_what_listens_on_the_machines_loopback() {
    let house = House::new().await;
    let (sandbox, _) = start(&house, "web", &server("0.0.0.0", 80, "web")).await;
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let listener = std::net::TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        for (index, meant) in ["127.0.0.1", "10.244.7.1"].into_iter().enumerate() {
            let pod = format!("asks-{index}-{port}");
            let answered = said(&house, &pod, asks(meant, port)).await;
            assert!(answered.starts_with("not: "), "{answered}");
        }
        assert!(house.runtime.connect(&sandbox, port).await.is_err());
        assert!(house.runtime.dial("127.0.0.1", port).await.is_err());
        assert!(house.runtime.dial("localhost", port).await.is_err());
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "somebody connected to {address}");
    }
}

#[tokio::test]
async fn n5_n9_addresses_and_networks_outlive_an_agent_and_then_rest() {
    let house = House::new().await;
    let (sandbox, address) = start(&house, "web", &server("0.0.0.0", 80, "web")).await;
    let pid = holder(&house);
    let House { folder, runtime } = house;
    drop(runtime);
    let runtime = ProcessRuntime::open(settings(folder.path())).await.unwrap();
    let house = House { folder, runtime };
    assert_eq!(holder(&house), pid, "the holder is the same");
    let list = house.runtime.list().await.unwrap();
    assert!(list[0].ready && list[0].addresses == [address], "{list:?}");
    let answered = said(&house, "asks", asks(&address.to_string(), 80)).await;
    assert!(answered.ends_with(" web"), "{answered}");
    // Given up, it is nobody else's for a while, and the same pod's at once.
    house.runtime.remove_sandbox(&sandbox).await.unwrap();
    let mut others = BTreeSet::new();
    for number in 0..40 {
        let config = house.sandbox_config(&format!("other-{number}"));
        others.insert(house.runtime.run_sandbox(&config).await.unwrap().addresses[0]);
    }
    assert!(others.len() == 40 && !others.contains(&address));
    let again = house.runtime.run_sandbox(&house.sandbox_config("web")).await.unwrap();
    assert_eq!(again.addresses, [address]);
}

#[tokio::test]
async fn n10_without_a_network_of_their_own_pods_have_the_machines_and_that_is_said() {
    let house = House::with(|settings| settings.pod_network = PodNetworkChoice::Machine).await;
    let about = house.runtime.about().await.unwrap();
    let (_, network) = about.isolation.iter().find(|(aspect, _)| aspect == "network").unwrap();
    let why = network.clone().unwrap_err();
    assert!(why.starts_with("switched off with --pod-network=host; pods use"), "{why}");
    assert!(!about.pod_network);
    let sandbox = house.sandbox("machine").await;
    let list = house.runtime.list().await.unwrap();
    assert!(list[0].id == sandbox && list[0].addresses[0].is_loopback());
    let devices = house.said("devices", "tail -n +3 /proc/net/dev | cut -d: -f1").await;
    let own = std::fs::read_to_string("/proc/net/dev").unwrap();
    let mut own: Vec<&str> =
        own.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
    own.sort_unstable();
    let mut devices: Vec<&str> = devices.lines().map(str::trim).collect();
    devices.sort_unstable();
    assert_eq!(devices, own);
}

#[tokio::test]
async fn n40_a_holder_that_was_killed_is_replaced_and_pods_are_made_anew() {
    let house = House::new().await;
    let (sandbox, address) = start(&house, "web", &server("0.0.0.0", 80, "web")).await;
    let before = holder(&house);
    let mut changes = house.runtime.changes();
    rustix::process::kill_process(before, rustix::process::Signal::KILL).unwrap();
    let begin = Instant::now();
    loop {
        let list = house.runtime.list().await.unwrap();
        if !list[0].ready {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(1), "it is not noticed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let told = tokio::time::timeout(Duration::from_secs(5), changes.recv()).await;
    assert_eq!(told.unwrap().unwrap(), sandbox);
    house.runtime.remove_sandbox(&sandbox).await.unwrap();
    let (_, again) = start(&house, "web-2", &server("0.0.0.0", 80, "again")).await;
    assert_ne!(holder(&house), before);
    let answered = said(&house, "asks", asks(&again.to_string(), 80)).await;
    assert!(answered.ends_with(" again"), "{answered} {address}");
}

#[tokio::test]
async fn n42_a_range_without_a_free_address_is_said() {
    let house = House::new().await;
    house.runtime.use_pod_range(&["10.244.9.0/30".to_owned()]).await.unwrap();
    let only = house.runtime.run_sandbox(&house.sandbox_config("only")).await.unwrap();
    assert_eq!(only.addresses[0].to_string(), "10.244.9.2");
    let error = house.runtime.run_sandbox(&house.sandbox_config("more")).await.unwrap_err();
    assert!(error.to_string().contains("no address is free in 10.244.9.0/30"), "{error}");
    let error = house.runtime.use_pod_range(&["fd00::/64".to_owned()]).await.unwrap_err();
    assert!(error.to_string().contains("[fd00::/64]"), "{error}");
}

#[tokio::test]
async fn n11_n12_services_are_listened_on_in_the_nodes_network() {
    let house = House::new().await;
    let network = house.runtime.node_network().unwrap();
    assert_eq!(network.address(), Some("10.244.7.1".parse().unwrap()));
    let at = "10.96.0.7:80".parse().unwrap();
    network.take("10.96.0.0".parse().unwrap(), 12).await.unwrap();
    let listener = network.listen(at).await.unwrap();
    let (pod, accepted) = tokio::join!(said(&house, "asks", asks("10.96.0.7", 80)), async {
        let (stream, from) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut { stream }, b"served").await.unwrap();
        from.ip()
    });
    assert_eq!(pod, "served");
    assert!(network.has(accepted) && accepted.to_string() != "10.244.7.1", "{accepted}");
    // Without a listener the kernel refuses at once.
    drop(listener);
    let begin = Instant::now();
    let refused = said(&house, "refused", asks("10.96.0.7", 80)).await;
    assert_eq!(refused, "not: Connection refused");
    assert!(begin.elapsed() < Duration::from_secs(3));
    // Datagrams, both ways.
    let socket = network.bind("10.96.0.7:53".parse().unwrap()).await.unwrap();
    let script = "use IO::Socket::INET; my $s = IO::Socket::INET->new(Proto => 'udp', \
        PeerAddr => '10.96.0.7', PeerPort => 53); $s->send('question'); \
        $s->recv(my $answer, 99); print $answer;";
    let (answer, ()) = tokio::join!(said(&house, "datagrams", perl(script)), async {
        let mut bytes = [0; 99];
        let (length, from) = socket.recv_from(&mut bytes).await.unwrap();
        assert_eq!(&bytes[..length], b"question");
        socket.send_to(b"answer", from).await.unwrap();
    });
    assert_eq!(answer, "answer");
    assert!(network.reaches("192.0.2.1".parse().unwrap()), "what is outside");
    assert!(!network.reaches("10.244.8.2".parse().unwrap()), "a pod of another node");
    assert!(RANGE.starts_with("10.244.7."));
}

#[tokio::test]
async fn n19_n24_what_leaves_the_node_comes_to_one_listener() {
    let house = House::new().await;
    let network = house.runtime.node_network().unwrap();
    network.take("10.96.0.0".parse().unwrap(), 12).await.unwrap();
    let way = network.way_out().await.unwrap();
    for (pod, meant) in [("asks", "192.0.2.1"), ("again", "203.0.113.9")] {
        let (answered, to) = tokio::join!(said(&house, pod, asks(meant, 8080)), async {
            let (stream, _) = way.accept().await.unwrap();
            let to = stream.local_addr().unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut { stream }, b"outside").await.unwrap();
            to
        });
        assert_eq!((answered.as_str(), to.to_string()), ("outside", format!("{meant}:8080")));
    }
    // Pods and Services go their own ways.
    let (_, address) = start(&house, "web", &server("0.0.0.0", 80, "web")).await;
    let answered = said(&house, "inside", asks(&address.to_string(), 80)).await;
    assert!(answered.ends_with(" web"), "{answered}");
    let refused = said(&house, "refused", asks("10.96.0.9", 80)).await;
    assert_eq!(refused, "not: Connection refused");
}
