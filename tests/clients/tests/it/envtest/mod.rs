//! `tenure envtest DIR` and the programs it puts there, started as controller-runtime's envtest and fabric8's JUnit
//! extension start them (api-server section 9).

mod operator;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tenure_client_tests::envtest::{
    EnvironmentOptions, PemPair, TestEnvironment, free_port, healthz, install, kubeconfig, plain,
};
use tenure_client_tests::{Access, Server};

/// What is seen a moment after it was asked for.
const PATIENCE: Duration = Duration::from_secs(20);
/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// A folder with the programs, gone with the value.
fn assets() -> TempDir {
    let folder = TempDir::with_prefix("assets").unwrap();
    install(folder.path()).unwrap();
    folder
}

/// A client that reads a kubeconfig.
async fn client(path: &Path) -> Client {
    let file = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

fn run(program: &Path, words: &[&str]) -> Output {
    Command::new(program).args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

async fn eventually<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    let waiting = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[test]
fn r170_a_folder_is_filled_and_what_to_set_is_printed() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("bin/k8s");
    let printed = install(&folder).unwrap();
    assert_eq!(printed, format!("export KUBEBUILDER_ASSETS={}\n", folder.display()));
    // A copy is whole, wherever it lies, and is never written to.
    let copy = parent.path().join("copy");
    let status = Command::new("cp").arg("-r").args([&folder, &copy]).status().unwrap();
    assert!(status.success());
    fs::remove_dir_all(&folder).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o555)).unwrap();
    for name in ["kube-apiserver", "etcd"] {
        let begin = Instant::now();
        let help = run(&copy.join(name), &["--help"]);
        assert!(help.status.success() && help.stderr.is_empty(), "{name}");
        println!("{name} --help took {:?}", begin.elapsed());
    }
    let version = run(&copy.join("kube-apiserver"), &["--version"]);
    assert!(text(&version.stdout).starts_with("Kubernetes v1."), "{version:?}");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn r170_without_a_kubectl_its_place_says_so() {
    let folder = TempDir::new().unwrap();
    let binary = tenure_client_tests::server::binary().unwrap();
    let mut command = Command::new(binary);
    let output = command.arg("envtest").arg(folder.path()).env("PATH", "/none").output().unwrap();
    assert!(output.status.success());
    assert!(text(&output.stderr).starts_with("warning: no `kubectl` was found in PATH\n"));
    let kubectl = folder.path().join("kubectl");
    let called = Command::new(&kubectl).arg("version").env("PATH", "/none").output().unwrap();
    assert_eq!(called.status.code(), Some(1));
    assert!(text(&called.stderr).contains("cause: there is no `kubectl` in PATH"), "{called:?}");
    // One that comes later is found, and not this one once more.
    let later = TempDir::new().unwrap();
    let script = later.path().join("kubectl");
    fs::write(&script, "#!/bin/sh\necho \"the real one: $*\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}:/bin", folder.path().display(), later.path().display());
    let called = Command::new(&kubectl).args(["get", "pods"]).env("PATH", path).output().unwrap();
    assert_eq!(text(&called.stdout), "the real one: get pods\n", "{called:?}");
}

#[test]
fn r174_flags_that_nobody_knows_and_names_that_are_wrong_end_a_start() {
    let assets = assets();
    let server = assets.path().join("kube-apiserver");
    let told = |words: &[&str]| {
        let output = run(&server, words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        text(&output.stderr)
    };
    assert_eq!(told(&["--etcd-servers=http://127.0.0.1:1", "--x=1"]), "Error: unknown flag: --x\n");
    let wrong = told(&["--etcd-servers=http://127.0.0.1:1", "--enable-admission-plugins=Nobody"]);
    assert!(wrong.contains("there is no admission plugin `Nobody`"), "{wrong}");
    assert!(wrong.contains("there are: NamespaceLifecycle, "), "{wrong}");
    let etcd = run(&assets.path().join("etcd"), &["--nothing"]);
    assert_eq!(etcd.status.code(), Some(2));
    assert_eq!(text(&etcd.stderr), "flag provided but not defined: -nothing\n");
}

#[tokio::test]
async fn r175_it_is_ready_for_whoever_shows_nothing_and_ends_when_it_is_told() {
    let assets = assets();
    let environment = TestEnvironment::start(assets.path()).await.unwrap();
    println!("ready after {:?}, all after {:?}", environment.ready, environment.whole);
    assert_eq!(environment.said(), "", "what envtest passes is taken without a word");
    // A watch that is open does not keep it.
    let path = environment.kubeconfig("admin", &[MASTERS]).unwrap();
    let mut watching = Access::read(&path).unwrap().connect().await.unwrap();
    watching.write(b"GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let begin = Instant::now();
    let (server, etcd) = environment.stop().unwrap();
    println!("ended after {:?}", begin.elapsed());
    assert!(server.success(), "{server}");
    assert_eq!(etcd.signal(), Some(15), "as etcd ends");
}

#[tokio::test]
async fn r176_users_are_whoever_the_authority_signs() {
    let assets = assets();
    let environment = TestEnvironment::start(assets.path()).await.unwrap();
    let code = |path| async move {
        let access = Access::read(path).unwrap();
        access.once("GET", "/api/v1/secrets", None).await.unwrap().code
    };
    let admin = environment.kubeconfig("admin", &[MASTERS]).unwrap();
    assert_eq!(code(&admin).await, 200);
    let alice = environment.kubeconfig("alice", &["dev", "viewers"]).unwrap();
    assert_eq!(code(&alice).await, 403);
    let binding = br#"{"metadata":{"name":"b"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io",
        "kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"Group","name":"viewers",
        "apiGroup":"rbac.authorization.k8s.io"}]}"#;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let made = Access::read(&admin).unwrap().once("POST", path, Some(binding)).await.unwrap();
    assert_eq!(made.code, 201);
    assert_eq!(code(&alice).await, 200, "by the second of her groups");
    // Another authority's users are nobody here.
    let other = TestEnvironment::start(assets.path()).await.unwrap();
    let pair = other.users.user("admin", &[MASTERS]).unwrap();
    let text = fs::read_to_string(&admin).unwrap();
    let authority =
        text.lines().find_map(|line| line.trim().strip_prefix("certificate-authority-data: "));
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.decode(authority.unwrap()).unwrap();
    let authority = String::from_utf8(authority).unwrap();
    let stranger = admin.with_file_name("stranger");
    fs::write(&stranger, kubeconfig(environment.address, &authority, &pair)).unwrap();
    assert_eq!(code(&stranger).await, 401);
}

/// Starts something below a shell, and kills the shell; the process that is left is answered.
fn orphaned(program: &Path, words: &[String]) -> u32 {
    let mut shell = Command::new("sh")
        .args(["-c", "\"$0\" \"$@\" >/dev/null 2>&1 & echo $!; wait"])
        .arg(program)
        .args(words)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = shell.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    // Once it listens, it knows its parent.
    std::thread::sleep(Duration::from_millis(1500));
    shell.kill().unwrap();
    shell.wait().unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn r178_nothing_lingers_when_the_parent_is_gone() {
    let assets = assets();
    let folder = TempDir::new().unwrap();
    let (etcd, server) = (free_port().unwrap(), free_port().unwrap());
    let etcd_words = [format!("--listen-client-urls=http://127.0.0.1:{etcd}")];
    let server_words = [
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={server}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", folder.path().display()),
    ];
    for (name, words) in [("etcd", &etcd_words[..]), ("kube-apiserver", &server_words[..])] {
        let process = orphaned(&assets.path().join(name), words);
        let begin = Instant::now();
        let status = || fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let is_there = || {
            let status = status();
            !status.is_empty() && !status.contains("State:\tZ")
        };
        while is_there() {
            assert!(begin.elapsed() < PATIENCE, "{name} lingers");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A certificate that is its own authority and says nothing of its use, as fabric8's extension makes them.
fn self_signed(name: &str, group: &str, names: &[&str]) -> PemPair {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    let key = rcgen::KeyPair::generate().unwrap();
    PemPair { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

#[tokio::test]
async fn r173_it_starts_as_fabric8_starts_it() {
    let assets = assets();
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (etcd_port, peer, port) =
        (free_port().unwrap(), free_port().unwrap(), free_port().unwrap());
    let data = folder.path().display().to_string();
    let mut etcd = Command::new(assets.path().join("etcd"))
        .args(["-data-dir", &data, "-wal-dir", &data])
        .args(["--listen-client-urls", &format!("http://0.0.0.0:{etcd_port}")])
        .args(["--advertise-client-urls", &format!("http://0.0.0.0:{etcd_port}")])
        .args(["--initial-cluster", &format!("default=http://localhost:{peer}")])
        .args(["--initial-advertise-peer-urls", &format!("http://localhost:{peer}")])
        .args(["--listen-peer-urls", &format!("http://localhost:{peer}")])
        .spawn()
        .unwrap();
    let serving = self_signed("example.org", "x", &["127.0.0.1", "kubernetes"]);
    let user = self_signed("kubeapitest", MASTERS, &[]);
    let (certificate, key) =
        (file("apiserver.crt", &serving.certificate), file("apiserver.key", &serving.key));
    let mut server = Command::new(assets.path().join("kube-apiserver"))
        .args(["--cert-dir", &data, "--secure-port", &port.to_string()])
        .args(["--etcd-servers", &format!("http://0.0.0.0:{etcd_port}")])
        .args(["--authorization-mode", "RBAC", "--service-account-issuer", "https://localhost"])
        .args(["--service-account-signing-key-file", &key])
        .args(["--service-account-signing-key-file", &key, "--service-account-key-file", &key])
        .args(["--service-account-issuer", &certificate])
        .args(["--disable-admission-plugins", "ServiceAccount"])
        .args(["--client-ca-file", &file("client.crt", &user.certificate)])
        .args(["--service-cluster-ip-range", "10.0.0.0/24", "--allow-privileged"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let health = SocketAddr::from((Ipv4Addr::LOCALHOST, etcd_port));
    eventually("etcd", || async move { matches!(plain(health, "/health").await, Ok(200)) }).await;
    eventually("healthz", || async move { matches!(healthz(address).await, Ok(200)) }).await;
    let path = folder.path().join("kubeconfig");
    fs::write(&path, kubeconfig(address, &serving.certificate, &user)).unwrap();
    let kubectl = std::env::var_os("KUBECTL").unwrap_or("kubectl".into());
    let output = Command::new(kubectl)
        .args(["--kubeconfig"])
        .arg(&path)
        .args(["get", "namespace", "default", "--output=name"])
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "namespace/default\n", "{output:?}");
    for child in [&mut server, &mut etcd] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[tokio::test]
async fn r181_a_variable_switches_controllers_off() {
    let assets = assets();
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default";
    let environment = TestEnvironment::start(assets.path()).await.unwrap();
    let path = environment.kubeconfig("admin", &[MASTERS]).unwrap();
    let access = Access::read(&path).unwrap();
    let of = || async { access.once("GET", accounts, None).await.unwrap().code };
    eventually("the account of a namespace", || async { of().await == 200 }).await;
    let options =
        EnvironmentOptions { controllers: Some("none".into()), ..EnvironmentOptions::default() };
    let environment = TestEnvironment::with(assets.path(), options).await.unwrap();
    let path = environment.kubeconfig("admin", &[MASTERS]).unwrap();
    let access = Access::read(&path).unwrap();
    // Nobody makes the account of a namespace, and nobody empties one.
    let made = access.once("POST", "/api/v1/namespaces", Some(br#"{"metadata":{"name":"a"}}"#));
    assert_eq!(made.await.unwrap().code, 201);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(access.once("GET", accounts, None).await.unwrap().code, 404);
    let accounts = accounts.replace("/default/s", "/a/s");
    assert_eq!(access.once("GET", &accounts, None).await.unwrap().code, 404);
    let gone = access.once("DELETE", "/api/v1/namespaces/a", None).await.unwrap();
    assert_eq!(gone.code, 200);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let left = access.once("GET", "/api/v1/namespaces/a", None).await.unwrap();
    assert_eq!(left.json().unwrap()["status"]["phase"], "Terminating");
}

#[tokio::test]
async fn r161_an_unknown_plugin_ends_a_start_and_a_known_one_changes_pods() {
    let server = Server::start(&["--ephemeral", "--disable-admission-plugins", "ServiceAccount"]);
    let server = server.unwrap();
    let pod = br#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let path = "/api/v1/namespaces/default/pods";
    let made = server.access().unwrap().once("POST", path, Some(pod)).await.unwrap();
    assert_eq!(made.code, 201);
    assert!(made.json().unwrap()["spec"].get("serviceAccountName").is_none());
    let binary = tenure_client_tests::server::binary().unwrap();
    let words = ["up", "--ephemeral", "--enable-admission-plugins", "podsecurity"];
    let output = run(&binary, &words);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.starts_with("error: there is no admission plugin `podsecurity`\n"), "{told}");
    assert!(
        told.contains("hint: perhaps `PodSecurity`; there are: NamespaceLifecycle, "),
        "{told}"
    );
}
