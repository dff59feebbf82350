//! What controller-runtime's envtest does to have a control plane, step by step (api-server section 9): the programs of
//! a folder are asked for help, started with its flags and its certificates, and polled as often. What is asked of the
//! server never lives here.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustix::process::{Pid, Signal, kill_process_group};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::server::binary;

/// How often it is asked whether a program is ready, and for how long.
const POLL_EVERY: Duration = Duration::from_millis(100);
const START_MAX: Duration = Duration::from_secs(20);
/// How long a program may take to end.
const STOP_MAX: Duration = Duration::from_secs(20);

/// An authority as envtest makes them.
pub struct TinyAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// Its certificate, as PEM.
    pub certificate: String,
    key: String,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct PemPair {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

fn subject(params: &mut CertificateParams, name: &str, groups: &[&str]) {
    params.distinguished_name.push(DnType::CommonName, name);
    // A name holds one value of each type, so a second group comes under the type's number.
    let kinds = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (kind, group) in kinds.into_iter().zip(groups) {
        params.distinguished_name.push(kind, *group);
    }
}

impl TinyAuthority {
    /// A new one.
    pub fn new() -> Result<TinyAuthority> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec!["envtest-environment".to_owned()])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        subject(&mut params, "envtest-environment", &["envtest"]);
        let certificate = params.self_signed(&key)?.pem();
        let text = key.serialize_pem();
        Ok(TinyAuthority { issuer: Issuer::new(params, key), certificate, key: text })
    }

    /// A pair for a server on this machine.
    pub fn serving(&self) -> Result<PemPair> {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names)?;
        subject(&mut params, "localhost", &["envtest"]);
        self.sign(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A pair for a user, in at most two groups.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<PemPair> {
        let mut params = CertificateParams::default();
        subject(&mut params, name, groups);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<PemPair> {
        params.key_usages =
            vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(PemPair { certificate, key: key.serialize_pem() })
    }
}

/// Fills a folder with the programs, as `tenure envtest DIR` does, and answers what it printed.
pub fn install(folder: &Path) -> Result<String> {
    let output = Command::new(binary()?).arg("envtest").arg(folder).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tenure envtest: {said}");
    Ok(String::from_utf8(output.stdout)?)
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// What differs from what envtest does by itself.
#[derive(Clone, Debug, Default)]
pub struct EnvironmentOptions {
    /// Flags of the API server behind its own.
    pub flags: Vec<String>,
    /// What `TENURE_CONTROLLERS` says.
    pub controllers: Option<String>,
    /// How often it is asked whether a program is ready, where envtest's 100 ms would hide how long it takes.
    pub poll_every: Option<Duration>,
}

/// A control plane as envtest has it; dropping it kills it.
pub struct TestEnvironment {
    /// Where the API server listens.
    pub address: SocketAddr,
    /// From the start of the API server to its first good answer.
    pub ready: Duration,
    /// From the first step to the end of the last.
    pub whole: Duration,
    /// Who signs users.
    pub users: TinyAuthority,
    serving: TinyAuthority,
    etcd: Child,
    server: Child,
    folder: TempDir,
}

impl TestEnvironment {
    /// Starts the programs of a folder, and waits until they are ready.
    pub async fn start(assets: &Path) -> Result<TestEnvironment> {
        TestEnvironment::with(assets, EnvironmentOptions::default()).await
    }

    /// The same with more flags and variables.
    pub async fn with(assets: &Path, options: EnvironmentOptions) -> Result<TestEnvironment> {
        let begin = Instant::now();
        let folder = TempDir::with_prefix("k8s_test_framework_")?;
        let (etcd_port, port) = (free_port()?, free_port()?);
        let poll_every = options.poll_every.unwrap_or(POLL_EVERY);
        let mut etcd = start_etcd(assets, folder.path(), etcd_port, poll_every).await?;
        let (users, serving) = (TinyAuthority::new()?, TinyAuthority::new()?);
        let started =
            start_server(assets, &folder, (etcd_port, port), (&users, &serving), &options);
        let (server, ready) = match started.await {
            Ok(started) => started,
            Err(error) => {
                let _ = etcd.kill();
                return Err(error);
            }
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let whole = begin.elapsed();
        Ok(TestEnvironment { address, ready, whole, users, serving, etcd, server, folder })
    }

    /// A kubeconfig of a user in at most two groups, in the folder of the environment.
    pub fn kubeconfig(&self, name: &str, groups: &[&str]) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{name}.kubecfg"));
        let pair = self.users.user(name, groups)?;
        fs::write(&path, kubeconfig(self.address, &self.serving.certificate, &pair))?;
        Ok(path)
    }

    /// What the API server has said.
    #[must_use]
    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }

    /// The memory that both programs hold now, in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        let of = |child: &Child| crate::Server::resident_bytes_of(child.id());
        Ok(of(&self.etcd)? + of(&self.server)?)
    }

    /// Ends both with SIGTERM, the API server first; answers how they ended.
    pub fn stop(mut self) -> Result<(ExitStatus, ExitStatus)> {
        Ok((end(&mut self.server)?, end(&mut self.etcd)?))
    }
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.etcd] {
            // They may have ended already, which is what is wanted here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ends a program as envtest does: with a signal to its group.
pub fn end(child: &mut Child) -> Result<ExitStatus> {
    kill_process_group(Pid::from_child(child), Signal::TERM)?;
    let begin = Instant::now();
    while begin.elapsed() < STOP_MAX {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    bail!("timeout waiting for a program to stop")
}

/// A kubeconfig of one user.
#[must_use]
pub fn kubeconfig(address: SocketAddr, authority: &str, user: &PemPair) -> String {
    let data = |pem: &str| STANDARD.encode(pem);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: envtest\n\
         contexts:\n- name: envtest\n  context:\n    cluster: envtest\n    user: envtest\n\
         clusters:\n- name: envtest\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {}\n\
         users:\n- name: envtest\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n",
        data(authority),
        data(&user.certificate),
        data(&user.key)
    )
}

/// Whether a program's help has a line that begins with a flag.
fn has_flag(program: &Path, flag: &str) -> Result<bool> {
    let output = Command::new(program).arg("--help").output()?;
    ensure!(output.status.success(), "{} --help ends with {}", program.display(), output.status);
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text)?;
    let begins = |line: &str| {
        let rest = line.trim_start().strip_prefix(flag);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    };
    Ok(text.lines().any(begins))
}

async fn start_etcd(
    assets: &Path,
    folder: &Path,
    port: u16,
    poll_every: Duration,
) -> Result<Child> {
    let program = assets.join("etcd");
    let data = folder.join("etcd");
    fs::create_dir(&data)?;
    let peer = free_port()?;
    let mut flags = vec![
        format!("--advertise-client-urls=http://127.0.0.1:{port}"),
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
    ];
    if has_flag(&program, "--unsafe-no-fsync")? {
        flags.push("--unsafe-no-fsync=true".to_owned());
    }
    let mut child =
        Command::new(&program).args(flags).stdin(Stdio::null()).process_group(0).spawn()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    until_ok(&mut child, poll_every, || plain(address, "/health")).await?;
    Ok(child)
}

async fn start_server(
    assets: &Path,
    folder: &TempDir,
    (etcd, port): (u16, u16),
    (users, serving): (&TinyAuthority, &TinyAuthority),
    options: &EnvironmentOptions,
) -> Result<(Child, Duration)> {
    let program = assets.join("kube-apiserver");
    let certificates = folder.path().join("certificates");
    fs::create_dir(&certificates)?;
    let file = |name: &str| certificates.join(name);
    let pair = serving.serving()?;
    let signer = TinyAuthority::new()?;
    fs::write(file("apiserver.crt"), &pair.certificate)?;
    fs::write(file("apiserver.key"), &pair.key)?;
    fs::write(file("sa-signer.crt"), &signer.certificate)?;
    fs::write(file("sa-signer.key"), &signer.key)?;
    fs::write(file("client-cert-auth-ca.crt"), &users.certificate)?;
    let path = |name: &str| file(name).display().to_string();
    ensure!(!has_flag(&program, "--insecure-port")?, "envtest would pass --insecure-port=0");
    let flags = [
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--cert-dir={}", certificates.display()),
        format!("--client-ca-file={}", path("client-cert-auth-ca.crt")),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--secure-port={port}"),
        format!("--service-account-issuer=https://127.0.0.1:{port}/"),
        format!("--service-account-key-file={}", path("sa-signer.crt")),
        format!("--service-account-signing-key-file={}", path("sa-signer.key")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
    ];
    let mut command = Command::new(&program);
    command.args(flags).args(&options.flags).stdin(Stdio::null()).process_group(0);
    command.stderr(File::create(folder.path().join("stderr"))?);
    match &options.controllers {
        Some(words) => command.env("TENURE_CONTROLLERS", words),
        None => command.env_remove("TENURE_CONTROLLERS"),
    };
    let mut child = command.spawn().context("kube-apiserver does not start")?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let poll_every = options.poll_every.unwrap_or(POLL_EVERY);
    let ready = until_ok(&mut child, poll_every, || healthz(address))
        .await
        .with_context(|| fs::read_to_string(folder.path().join("stderr")).unwrap_or_default())?;
    Ok((child, ready))
}

/// Polls until the answer is 200, and says how long that took.
async fn until_ok<F, A>(child: &mut Child, poll_every: Duration, ask: F) -> Result<Duration>
where
    F: Fn() -> A,
    A: Future<Output = Result<u16>>,
{
    let begin = Instant::now();
    while begin.elapsed() < START_MAX {
        if matches!(ask().await, Ok(200)) {
            return Ok(begin.elapsed());
        }
        if let Some(status) = child.try_wait()? {
            bail!("it ended with {status} before it was ready");
        }
        tokio::time::sleep(poll_every).await;
    }
    let _ = child.kill();
    bail!("timeout waiting for a program to start")
}

/// The status of a GET over plain HTTP.
pub async fn plain(address: SocketAddr, path: &str) -> Result<u16> {
    let socket = TcpStream::connect(address).await?;
    status(socket, path).await
}

/// The status of `/healthz` to somebody who shows nothing and checks nothing.
pub async fn healthz(address: SocketAddr) -> Result<u16> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let socket = TcpStream::connect(address).await?;
    let name = ServerName::from(address.ip());
    let stream = TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
    status(stream, "/healthz").await
}

async fn status<S>(mut stream: S, path: &str) -> Result<u16>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    // Whoever closes without a last word has said enough.
    let _ = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer);
    let code = text.split(' ').nth(1).context("no status line")?;
    Ok(code.parse()?)
}

#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}
