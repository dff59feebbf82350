//! Logs, commands, attachments, copies and forwarded ports, by kubectl 1.32 over WebSockets and over
//! SPDY, and by kube-rs. Rules of spec/downward-api.md.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::house::{House, On};

/// With WebSockets and without.
const SOCKETS: [&str; 2] = ["true", "false"];

/// A pod with one container that runs a script.
fn pod(house: &House, name: &str, script: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            "containers": [{
                "name": "main", "image": house.image(), "imagePullPolicy": "IfNotPresent",
                "command": ["sh", "-c", script],
            }],
        },
    })
}

/// kubectl, told whether to use WebSockets.
fn kubectl(house: &House, sockets: &str, arguments: &[&str]) -> Command {
    let mut command = house.kubectl.command(arguments);
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", sockets);
    command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", sockets);
    command
}

/// Runs it with this on standard input.
fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exit code and both outputs.
fn told(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn logs(house: &House, arguments: &[&str]) -> String {
    house.kubectl.ok(&[&["logs"], arguments].concat())
}

#[test]
fn r116_r117_r118_r119_r122_logs_with_every_flag() {
    let house = House::open(On::Process, &[]).unwrap();
    let script = "echo first; sleep 0.1; echo second >&2; sleep 0.1; echo third; exec sleep 600";
    house.create(&pod(&house, "talk", script));
    house.log_with("talk", "third");
    assert_eq!(logs(&house, &["talk"]), "first\nsecond\nthird\n");
    assert_eq!(logs(&house, &["pod/talk", "-c", "main"]), "first\nsecond\nthird\n");
    assert_eq!(logs(&house, &["talk", "--tail=1"]), "third\n");
    assert_eq!(logs(&house, &["talk", "--tail=2"]), "second\nthird\n");
    assert_eq!(logs(&house, &["talk", "--tail=0"]), "");
    assert_eq!(logs(&house, &["talk", "--limit-bytes=8"]), "first\nse");
    assert_eq!(logs(&house, &["talk", "--since=1h"]), "first\nsecond\nthird\n");
    assert_eq!(logs(&house, &["talk", "--prefix", "--tail=1"]), "[pod/talk/main] third\n");
    assert_eq!(logs(&house, &["talk", "--all-containers"]), "first\nsecond\nthird\n");
    let stamped = logs(&house, &["talk", "--timestamps"]);
    for (line, word) in stamped.lines().zip(["first", "second", "third"]) {
        let (time, rest) = line.split_once(' ').unwrap();
        assert_eq!((time.len(), rest), ("2026-01-02T03:04:05.000000000Z".len(), word), "{line}");
        assert!(time.ends_with('Z'));
    }
    let second = stamped.lines().nth(1).unwrap().split(' ').next().unwrap();
    // kubectl hands on whole seconds, so everything of the same second comes along.
    let since = logs(&house, &["talk", &format!("--since-time={second}")]);
    assert!(since.ends_with("second\nthird\n"), "{since}");
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(logs(&house, &["talk", "--since=1s"]), "");
    let said = house.kubectl.fails(&["logs", "talk", "-c", "other"]);
    assert_eq!(said, "error: container other is not valid for pod talk\n");
    let said = house.kubectl.fails(&["logs", "talk", "--previous"]);
    let why = "previous terminated container \"main\" in pod \"talk\" not found";
    assert_eq!(said, format!("Error from server (BadRequest): {why}\n"));
    let said = house.kubectl.fails(&["logs", "nobody"]);
    assert_eq!(
        said,
        "error: error from server (NotFound): pods \"nobody\" not found in namespace \"shop\"\n"
    );
}

#[test]
fn r120_the_log_of_the_instance_before() {
    let house = House::open(On::Process, &[]).unwrap();
    let script = "if [ -e /shared/seen ]; then echo again; exec sleep 600; fi; touch /shared/seen; echo once; exit 3";
    let mut again = pod(&house, "again", script);
    again["spec"]["restartPolicy"] = "Always".into();
    again["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    again["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "shared", "mountPath": "/shared"}]);
    house.create(&again);
    house.log_with("again", "again");
    assert_eq!(logs(&house, &["again", "--previous"]), "once\n");
    assert_eq!(logs(&house, &["again"]), "again\n");
}

#[test]
fn r121_following_shows_lines_as_they_come_and_ends_with_the_container() {
    let house = House::open(On::Process, &[]).unwrap();
    let script = "echo 1; while [ ! -e /shared/go ]; do sleep 0.05; done; sleep 1; echo 2";
    let mut talk = pod(&house, "talk", script);
    talk["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    talk["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "shared", "mountPath": "/shared"}]);
    house.create(&talk);
    house.log_with("talk", "1");
    let mut follow = house.kubectl.command(&["logs", "-f", "talk"]).spawn().unwrap();
    let mut out = follow.stdout.take().unwrap();
    let mut first = [0; 2];
    out.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"1\n");
    house.exec("talk", &["touch", "/shared/go"]);
    let begin = Instant::now();
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "2\n");
    assert!(follow.wait().unwrap().success());
    assert!(begin.elapsed() < Duration::from_secs(20));
}

/// A container may end in the middle of a line, which is shown all the same. Whether the line is ended
/// for it is the runtime's choice.
fn last_words(house: &House) {
    // Whoever asks for the end has left by then: a container takes along what runs in it.
    let script = "echo first; while [ ! -e /shared/go ]; do sleep 0.05; done; sleep 1; printf last";
    let mut talk = pod(house, "talk", script);
    talk["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    talk["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "shared", "mountPath": "/shared"}]);
    house.create(&talk);
    house.log_with("talk", "first");
    let mut follow = house.kubectl.command(&["logs", "-f", "talk"]).spawn().unwrap();
    let mut out = follow.stdout.take().unwrap();
    let mut first = [0; 6];
    out.read_exact(&mut first).unwrap();
    house.exec("talk", &["touch", "/shared/go"]);
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest.trim_end(), "last");
    assert!(follow.wait().unwrap().success());
    // Whoever is told that the container has ended finds all it said.
    house.phase("talk", "Succeeded");
    assert_eq!(house.log("talk").trim_end(), "first\nlast");
}

#[test]
fn r121_the_last_line_needs_no_end() {
    last_words(&House::open(On::Process, &[]).unwrap());
}

#[test]
fn r121_the_last_line_needs_no_end_on_cri() {
    if let Some(house) = House::open(On::Cri, &[]) {
        last_words(&house);
    }
}

#[test]
fn r123_a_pod_with_several_containers_wants_a_name() {
    let house = House::open(On::Process, &[]).unwrap();
    let mut two = pod(&house, "two", "echo hi; exec sleep 600");
    let mut other = two["spec"]["containers"][0].clone();
    other["name"] = "other".into();
    other["image"] = "nowhere.invalid/none:1".into();
    two["spec"]["containers"].as_array_mut().unwrap().push(other);
    house.create(&two);
    house.until(
        "it talks",
        || text(&house.kubectl.command(&["logs", "two", "-c", "main"]).output().unwrap().stdout),
        |log| log == "hi\n",
    );
    let raw = |query: &str| {
        let path = format!("/api/v1/namespaces/shop/pods/two/log{query}");
        house.kubectl.fails(&["get", "--raw", &path])
    };
    let why = "a container name must be specified for pod two, choose one of: [main other]";
    assert_eq!(raw(""), format!("Error from server (BadRequest): {why}\n"));
    let said = raw("?container=other");
    let begins =
        "Error from server (BadRequest): container \"other\" in pod \"two\" is waiting to start: ";
    assert!(said.starts_with(begins), "{said}");
    let said = raw("?container=main&tailLines=-1");
    assert!(
        said.contains("tailLines: Invalid value: -1: must be greater than or equal to 0"),
        "{said}"
    );
}

#[test]
fn r125_r128_commands_have_their_streams_and_their_exit_codes() {
    let house = House::open(On::Process, &[]).unwrap();
    commands(&house);
}

#[test]
fn r125_r128_commands_have_their_streams_and_their_exit_codes_on_cri() {
    if let Some(house) = House::open(On::Cri, &[]) {
        commands(&house);
    }
}

fn commands(house: &House) {
    house.create(&pod(house, "shell", "exec sleep 600"));
    house.phase("shell", "Running");
    for sockets in SOCKETS {
        let exec = |flags: &[&str], command: &[&str]| {
            kubectl(house, sockets, &[&["exec", "shell"], flags, &["--"], command].concat())
        };
        let output = run(exec(&[], &["sh", "-c", "echo out; echo err >&2; exit 7"]), b"");
        let said = "err\ncommand terminated with exit code 7\n";
        assert_eq!(told(&output), (Some(7), "out\n".into(), said.into()), "{sockets}");
        let output = run(exec(&["-c", "main"], &["true"]), b"");
        assert_eq!(told(&output), (Some(0), String::new(), String::new()));

        // What is piped in ends, and what comes out is the same, however much it is.
        let big: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let output = run(exec(&["-i"], &["cat"]), &big);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(output.stdout == big, "{sockets}: {} of {} bytes", output.stdout.len(), big.len());
        let output = run(exec(&["-i"], &["wc", "-c"]), &big);
        assert_eq!(text(&output.stdout).trim(), "3000000");

        let output = run(exec(&[], &["no-such-command"]), b"");
        assert_ne!(output.status.code(), Some(0));
        assert!(text(&output.stderr).contains("no-such-command"), "{}", text(&output.stderr));
        let output = run(exec(&["-c", "other"], &["true"]), b"");
        let why = "Error from server (BadRequest): container other is not valid for pod shell\n";
        assert_eq!(told(&output), (Some(1), String::new(), why.into()));
    }
}

#[test]
fn r125_r127_a_terminal_is_a_terminal() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&pod(&house, "shell", "exec sleep 600"));
    house.phase("shell", "Running");
    for sockets in SOCKETS {
        // `script` gives kubectl a terminal of its own.
        let plain = kubectl(&house, sockets, &["exec", "-it", "shell", "--", "sh"]);
        let line: Vec<String> = std::iter::once(plain.get_program())
            .chain(plain.get_args())
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        let mut command = Command::new("script");
        command.args(["-qec", &format!("stty rows 31 cols 97; {}", line.join(" ")), "/dev/null"]);
        command.env_clear();
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap());
        }
        command.env("TERM", "dumb").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // One line after the other, as a person types: the terminal must be there first.
        for line in ["tty -s && echo te''rminal\n", "sleep 0.5; stty size\n", "exit 5\n"] {
            std::thread::sleep(Duration::from_millis(700));
            stdin.write_all(line.as_bytes()).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stdout);
        assert!(said.contains("terminal"), "{sockets}: {said}");
        assert!(said.contains("31 97"), "{sockets}: {said}");
        assert_eq!(output.status.code(), Some(5), "{sockets}: {said}");
    }
}

#[test]
fn r125_an_attachment_reaches_the_container_itself() {
    let house = House::open(On::Process, &[]).unwrap();
    for sockets in SOCKETS {
        let name = format!("listens-{sockets}");
        let mut listens =
            pod(&house, &name, "while read line; do echo heard $line; done; echo end");
        listens["spec"]["containers"][0]["stdin"] = true.into();
        listens["spec"]["containers"][0]["stdinOnce"] = true.into();
        house.create(&listens);
        house.phase(&name, "Running");
        let attach = kubectl(&house, sockets, &["attach", "-i", &name]);
        let output = run(attach, b"one\ntwo\n");
        let (code, out, err) = told(&output);
        assert_eq!(code, Some(0), "{sockets}: {out}{err}");
        assert!(out.contains("heard one\nheard two\nend\n"), "{sockets}: {out}{err}");
        house.phase(&name, "Succeeded");
        assert_eq!(house.log(&name), "heard one\nheard two\nend\n");
        // Attaching without input shows what is said from now on.
        let quiet = format!("talks-{sockets}");
        house.create(&pod(&house, &quiet, "sleep 3; echo late; sleep 0.2"));
        house.phase(&quiet, "Running");
        let output = run(kubectl(&house, sockets, &["attach", &quiet]), b"");
        assert!(text(&output.stdout).contains("late\n"), "{sockets}: {:?}", told(&output));
    }
}

#[test]
fn r127_files_are_copied_both_ways() {
    let house = House::open(On::Process, &[]).unwrap();
    copies(&house);
}

#[test]
fn r127_files_are_copied_both_ways_on_cri() {
    if let Some(house) = House::open(On::Cri, &[]) {
        copies(&house);
    }
}

fn copies(house: &House) {
    let mut store = pod(house, "store", "exec sleep 600");
    store["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    store["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "data", "mountPath": "/data"}]);
    house.create(&store);
    house.phase("store", "Running");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|n| (n * 7 % 253) as u8).collect();
    std::fs::create_dir(at("in")).unwrap();
    std::fs::write(at("in/big"), &bytes).unwrap();
    std::fs::write(at("in/small"), "small").unwrap();
    for sockets in SOCKETS {
        let there = format!("store:/data/{sockets}");
        let back = at(&format!("back-{sockets}"));
        let output = run(kubectl(house, sockets, &["cp", &at("in"), &there]), b"");
        assert_eq!(output.status.code(), Some(0), "{sockets}: {:?}", told(&output));
        let output = run(kubectl(house, sockets, &["cp", &there, &back]), b"");
        assert_eq!(output.status.code(), Some(0), "{sockets}: {:?}", told(&output));
        assert!(std::fs::read(format!("{back}/big")).unwrap() == bytes, "{sockets}");
        assert_eq!(std::fs::read_to_string(format!("{back}/small")).unwrap(), "small");
    }
}

/// kubectl while it forwards; ends with the test.
struct Forward {
    child: Child,
    port: u16,
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(house: &House, sockets: &str, pod: &str, port: u16) -> Forward {
    let ports = format!(":{port}");
    let mut command =
        kubectl(house, sockets, &["port-forward", pod, &ports, "--address", "127.0.0.1"]);
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    let mut byte = [0];
    let out = child.stdout.as_mut().unwrap();
    while !said.ends_with('\n') && out.read(&mut byte).unwrap() == 1 {
        said.push(char::from(byte[0]));
    }
    // Such as `Forwarding from 127.0.0.1:40001 -> 8080`.
    let port = said.split(" -> ").next().and_then(|rest| rest.rsplit(':').next());
    Forward { port: port.unwrap().parse().unwrap_or_else(|_| panic!("{said}")), child }
}

/// Asks over HTTP/1.0 and gives the whole answer.
fn fetch(port: u16, path: &str) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    socket.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    Ok(text(&answer))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn r129_r131_a_forwarded_port_carries_http() {
    let house = House::open(On::Process, &[]).unwrap();
    forwards(&house);
}

#[test]
fn r129_r131_a_forwarded_port_carries_http_on_cri() {
    if let Some(house) = House::open(On::Cri, &[]) {
        forwards(&house);
    }
}

fn forwards(house: &House) {
    let port = free_port();
    let serve = match house.on {
        On::Process => format!("exec /usr/bin/python3 -m http.server {port}"),
        On::Cri => format!("exec httpd -f -p {port} -h /data"),
    };
    let script =
        format!("cd /data; echo hello > page; yes 0123456789 | head -c 3000000 > big; {serve}");
    let mut web = pod(house, "web", &script);
    web["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    web["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    house.create(&web);
    house.phase("web", "Running");
    // Before anybody listens, kubectl ends with the first connection that is refused.
    let look = || {
        let early = forward(house, SOCKETS[0], "pod/web", port);
        fetch(early.port, "/page").unwrap_or_default()
    };
    house.until("the page is served", look, |answer| answer.ends_with("hello\n"));
    for sockets in SOCKETS {
        let open = forward(house, sockets, "pod/web", port);
        assert!(fetch(open.port, "/page").unwrap().ends_with("hello\n"), "{sockets}");
        // Several at once, each with its own streams.
        let fetches: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn({
                    let port = open.port;
                    move || fetch(port, "/big")
                })
            })
            .collect();
        for one in fetches {
            let answer = one.join().unwrap().unwrap();
            let (_, body) = answer.split_once("\r\n\r\n").unwrap();
            assert_eq!(body.len(), 3_000_000, "{sockets}");
        }
    }
    proxies(house, port);
    // A port nobody listens on: kubectl says why.
    let closed = free_port();
    for sockets in SOCKETS {
        let mut open = forward(house, sockets, "web", closed);
        let _ = fetch(open.port, "/");
        let _ = open.child.kill();
        let mut said = String::new();
        open.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(
            said.contains(&format!("error forwarding port {closed} to pod web")),
            "{sockets}: {said}"
        );
    }
}

/// The same page through the server. A service is not asked here: pods of these nodes have loopback
/// addresses, which no EndpointSlice may have.
fn proxies(house: &House, port: u16) {
    let raw = |path: &str| {
        let path = format!("/api/v1/namespaces/shop/pods/web:{path}");
        told(&house.kubectl.command(&["get", "--raw", &path]).output().unwrap())
    };
    let page = (Some(0), "hello\n".to_owned(), String::new());
    assert_eq!(raw(&format!("{port}/proxy/page")), page);
    let (code, _, said) = raw(&format!("{}/proxy/", free_port()));
    assert_eq!(code, Some(1));
    assert!(said.contains("error trying to reach service: "), "{said}");
}

#[test]
fn a_client_that_leaves_ends_its_command() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&pod(&house, "shell", "exec sleep 600"));
    house.phase("shell", "Running");
    for (sockets, seconds) in [("true", "7771"), ("false", "7772")] {
        let mut command =
            kubectl(&house, sockets, &["exec", "-i", "shell", "--", "sleep", seconds]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let look = || {
            let script = format!(
                "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sl[e]ep {seconds} '; true"
            );
            house.exec("shell", &["sh", "-c", &script]).trim() != "0"
        };
        house.until("the command runs", look, |runs| *runs);
        child.kill().unwrap();
        child.wait().unwrap();
        house.until("the command has ended", look, |runs| !*runs);
    }
}

#[test]
fn describe_and_top_say_what_there_is() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&pod(&house, "shell", "exec sleep 600"));
    house.phase("shell", "Running");
    let said = house.kubectl.ok(&["describe", "pod", "shell"]);
    for part in
        ["Status:           Running", "State:          Running", "Ready:          True", "Started"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    for what in ["pods", "nodes"] {
        assert_eq!(house.kubectl.fails(&["top", what]), "error: Metrics API not available\n");
    }
}

#[test]
fn r126_r130_kube_rs_runs_commands_and_forwards_ports() {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, AttachParams};
    use kube::config::{KubeConfigOptions, Kubeconfig};
    use kube::{Client, Config};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let house = House::open(On::Process, &[]).unwrap();
    let port = free_port();
    let script =
        format!("echo hello > /data/page; cd /data; exec /usr/bin/python3 -m http.server {port}");
    let mut web = pod(&house, "web", &script);
    web["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    web["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    house.create(&web);
    house.phase("web", "Running");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let file = Kubeconfig::read_from(house.kubectl.kubeconfig()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let pods: Api<Pod> = Api::namespaced(client, "shop");
        let wanted = AttachParams::default().stdin(true).stderr(false);
        let mut running = pods.exec("web", ["cat"], &wanted).await.unwrap();
        let mut stdin = running.stdin().unwrap();
        stdin.write_all(b"through kube-rs").await.unwrap();
        stdin.shutdown().await.unwrap();
        drop(stdin);
        let mut heard = String::new();
        running.stdout().unwrap().read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, "through kube-rs");
        let failing = pods.exec("web", ["sh", "-c", "exit 9"], &AttachParams::default()).await;
        let mut failing = failing.unwrap();
        let status = failing.take_status().unwrap().await.unwrap();
        assert_eq!(status.reason.as_deref(), Some("NonZeroExitCode"));
        for _ in 0..50 {
            let mut forwarded = pods.portforward("web", &[port]).await.unwrap();
            let mut stream = forwarded.take_stream(port).unwrap();
            stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            if answer.ends_with("hello\n") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the page never came");
    });
}

#[test]
fn r126_r130_the_official_python_client_runs_commands_and_forwards_ports() {
    let house = House::open(On::Process, &[]).unwrap();
    let port = free_port();
    let script =
        format!("cd /data; echo hello > page; exec /usr/bin/python3 -m http.server {port}");
    let mut web = pod(&house, "web", &script);
    web["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    web["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    house.create(&web);
    house.phase("web", "Running");
    let root = tenure_client_tests::server::root().unwrap();
    let mut command = Command::new("python3");
    command.arg(root.join("tests/clients/python/streams.py")).arg(port.to_string());
    command.env("PYTHONPATH", root.join("target/tools/python")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("KUBECONFIG", house.kubectl.kubeconfig());
    let output = command.output().unwrap();
    assert_eq!(told(&output), (Some(0), "all well\n".into(), String::new()));
}

/// A node in a process of its own; ends with the test.
struct Elsewhere(Child);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn r133_a_node_elsewhere_is_reached_over_tls() {
    let house = House::open(On::Process, &["--nodes", "0"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(tenure_client_tests::server::binary().unwrap());
    command.args(["node", "--node-name", "far", "--listen", "127.0.0.1:0"]);
    // It tells the server the address that it listens on.
    command.arg("--data-dir").arg(folder.path().join("node"));
    command.arg("--kubeconfig").arg(house.kubectl.kubeconfig()).env("HOME", folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut elsewhere = Elsewhere(command.spawn().unwrap());
    let nodes = || house.kubectl.ok(&["get", "nodes", "--no-headers"]);
    house.until("the node is ready", nodes, |nodes| nodes.contains(" Ready "));
    let mut shell = pod(&house, "shell", "echo far away; exec sleep 600");
    shell["spec"]["nodeName"] = "far".into();
    house.create(&shell);
    assert_eq!(house.log_with("shell", "away"), "far away\n");
    for sockets in SOCKETS {
        let exec = kubectl(&house, sockets, &["exec", "-i", "shell", "--", "sh"]);
        let output = run(exec, b"echo hello; exit 6");
        let said = "command terminated with exit code 6\n";
        assert_eq!(told(&output), (Some(6), "hello\n".into(), said.into()));
    }
    let raw =
        |path: &str| ["get".to_owned(), "--raw".to_owned(), format!("/api/v1/nodes/far{path}")];
    let healthy = raw("/proxy/healthz");
    let healthy: Vec<&str> = healthy.iter().map(String::as_str).collect();
    assert_eq!(house.kubectl.ok(&healthy), "ok");
    house.delete_pod("shell");
    let _ = elsewhere.0.kill();
    let _ = elsewhere.0.wait();
    let said = house.kubectl.fails(&healthy);
    let whole = "Error from server (InternalError): Internal error occurred: error dialing backend: node \"far\" cannot be reached";
    assert_eq!(said.trim_end(), whole);
}
