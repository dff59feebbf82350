//! One question to a process in a pod, for probes and hooks: over HTTP, over gRPC, or whether it
//! listens at all. Commands are run by the runtime, not here.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, LOCATION, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::runtime::{ContainerRuntime, Duplex};

/// What is read of an answer.
const BODY_MAX: usize = 10 * 1024;
/// How many redirects to the same host are followed.
const REDIRECTS_MAX: usize = 10;
const PROBE_AGENT: &str = "kube-probe/1.38";

/// Where questions come from: the network that a runtime has for its node, or that of the machine.
#[derive(Clone, Default)]
pub(crate) struct Dialer(Option<Arc<dyn ContainerRuntime>>);

impl Dialer {
    /// Asks from the node's network.
    pub(crate) fn of(runtime: &Arc<dyn ContainerRuntime>) -> Dialer {
        Dialer(Some(Arc::clone(runtime)))
    }

    async fn dial(&self, host: &str, port: u16) -> std::io::Result<TcpStream> {
        match &self.0 {
            Some(runtime) => runtime.dial(host, port).await,
            None => TcpStream::connect((host, port)).await,
        }
    }
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HandlerOutcome {
    /// As it should be.
    Well,
    /// As it should be, with a word of warning.
    Warning(String),
    /// Not as it should be, and why.
    Badly(String),
}

/// A port by number or by the name a container gives it.
pub(crate) fn port(value: Option<&Value>, container: &Object) -> Result<u16, String> {
    let number = match value {
        Some(Value::Number(number)) => number.as_u64(),
        Some(Value::String(name)) => {
            let ports = container.list_at(&["ports"]).iter().filter_map(Value::as_object);
            let mut named = ports.filter(|port| port.str_at(&["name"]) == Some(name));
            match named.next() {
                Some(port) => port.int_at(&["containerPort"]).and_then(|port| port.try_into().ok()),
                None => name.parse().ok(),
            }
        }
        _ => None,
    };
    let number = number.and_then(|number| u16::try_from(number).ok()).filter(|port| *port > 0);
    number.ok_or_else(|| format!("couldn't find port: {}", value.unwrap_or(&Value::Null)))
}

/// Whether somebody listens.
pub(crate) async fn listens(from: &Dialer, address: IpAddr, port: u16) -> HandlerOutcome {
    match from.dial(&address.to_string(), port).await {
        Ok(_) => HandlerOutcome::Well,
        Err(error) => HandlerOutcome::Badly(dialled(&shown(address, port), &error)),
    }
}

/// Why nobody was reached, as upstream says it.
fn dialled(to: &str, error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    let why = match error.kind() {
        ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        ErrorKind::TimedOut => "i/o timeout".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {to}: {why}")
}

fn shown(address: IpAddr, port: u16) -> String {
    std::net::SocketAddr::new(address, port).to_string()
}

/// Asks with `GET`, as `httpGet` of a probe or hook says. Whatever goes wrong on the way is told with what
/// was asked for, path included.
pub(crate) async fn get(
    from: &Dialer,
    action: &Object,
    container: &Object,
    pod: IpAddr,
    limit: Duration,
) -> HandlerOutcome {
    let mut place = match HttpTarget::read(action, container, pod) {
        Ok(place) => place,
        Err(why) => return HandlerOutcome::Badly(why),
    };
    let asked = tokio::time::timeout(limit, Box::pin(try_get(from, action, &mut place))).await;
    let late = || {
        Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned())
    };
    match asked.unwrap_or_else(|_| late()) {
        Ok(verdict) => verdict,
        Err(why) => HandlerOutcome::Badly(format!("Get \"{place}\": {why}")),
    }
}

/// What is asked for.
struct HttpTarget {
    secure: bool,
    host: String,
    port: u16,
    path: String,
}

impl HttpTarget {
    fn read(action: &Object, container: &Object, pod: IpAddr) -> Result<HttpTarget, String> {
        let host = action.str_at(&["host"]).filter(|host| !host.is_empty());
        Ok(HttpTarget {
            port: port(action.get("port"), container)?,
            secure: action.str_at(&["scheme"]) == Some("HTTPS"),
            host: host.map_or_else(|| pod.to_string(), str::to_owned),
            path: match action.str_at(&["path"]).unwrap_or_default() {
                path if path.starts_with('/') => path.to_owned(),
                path => format!("/{path}"),
            },
        })
    }

    /// Host and port, as they stand in an address.
    fn authority(&self) -> String {
        let HttpTarget { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl std::fmt::Display for HttpTarget {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(out, "{scheme}://{}{}", self.authority(), self.path)
    }
}

async fn try_get(
    from: &Dialer,
    action: &Object,
    place: &mut HttpTarget,
) -> Result<HandlerOutcome, String> {
    for _ in 0..=REDIRECTS_MAX {
        let (code, location, body) = once(from, action, place).await?;
        if !(300..400).contains(&code) || location.is_empty() {
            return Ok(match code {
                200..400 => HandlerOutcome::Well,
                _ => {
                    let _ = body;
                    HandlerOutcome::Badly(format!("HTTP probe failed with statuscode: {code}"))
                }
            });
        }
        let target: Uri = location.parse().map_err(|_| format!("bad redirect to {location:?}"))?;
        if target.host().is_some_and(|target| target.trim_matches(['[', ']']) != place.host) {
            return Ok(HandlerOutcome::Warning(format!(
                "Probe terminated redirects, Response body: {body}"
            )));
        }
        place.path = target.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string);
    }
    Err(format!("stopped after {REDIRECTS_MAX} redirects"))
}

/// One request: its status, where it points to, and the beginning of its body.
async fn once(
    from: &Dialer,
    action: &Object,
    place: &HttpTarget,
) -> Result<(u16, String, String), String> {
    let io = open(from, place).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(said)?;
    let driving = tokio::spawn(connection);
    let mut request = Request::builder().uri(&place.path);
    let (mut host_given, mut agent_given) = (false, false);
    for header in action.list_at(&["httpHeaders"]).iter().filter_map(Value::as_object) {
        let name = header.str_at(&["name"]).unwrap_or_default();
        host_given |= name.eq_ignore_ascii_case("host");
        agent_given |= name.eq_ignore_ascii_case("user-agent");
        request = request.header(name, header.str_at(&["value"]).unwrap_or_default());
    }
    if !host_given {
        request = request.header(HOST, place.authority());
    }
    if !agent_given {
        request = request.header(USER_AGENT, PROBE_AGENT);
    }
    let request = request.header("accept", "*/*").body(Empty::<Bytes>::new()).map_err(said)?;
    let response = sender.send_request(request).await.map_err(said)?;
    let code = response.status().as_u16();
    let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let location = location.unwrap_or_default().to_owned();
    let body = Limited::new(response.into_body(), BODY_MAX).collect().await;
    let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
    driving.abort();
    Ok((code, location, body.unwrap_or_default()))
}

async fn open(from: &Dialer, place: &HttpTarget) -> Result<Box<dyn Duplex>, String> {
    let HttpTarget { host, port, .. } = place;
    let dialling = from.dial(host, *port).await;
    let stream = dialling.map_err(|error| dialled(&place.authority(), &error))?;
    if !place.secure {
        return Ok(Box::new(stream));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(said)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(host.clone()).map_err(said)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(said)?;
    Ok(Box::new(stream))
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A probe asks whether somebody answers, not who: any certificate will do, as upstream.
#[derive(Debug)]
struct Anybody(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Anybody {
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
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Asks a service of the gRPC health protocol.
pub(crate) async fn grpc(
    from: &Dialer,
    address: IpAddr,
    port: u16,
    service: &str,
) -> HandlerOutcome {
    match Box::pin(try_grpc(from, address, port, service)).await {
        Ok(1) => HandlerOutcome::Well,
        Ok(state) => {
            let state = match state {
                0 => "UNKNOWN",
                2 => "NOT_SERVING",
                _ => "SERVICE_UNKNOWN",
            };
            HandlerOutcome::Badly(format!("service unhealthy (responded with \"{state}\")"))
        }
        Err(why) => HandlerOutcome::Badly(why),
    }
}

/// The state that `grpc.health.v1.Health/Check` answers.
async fn try_grpc(from: &Dialer, address: IpAddr, port: u16, service: &str) -> Result<u64, String> {
    let stream = from.dial(&address.to_string(), port).await.map_err(|error| {
        format!("failed to connect service \"{}\": {error}", shown(address, port))
    })?;
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(said)?;
    let driving = tokio::spawn(connection);
    // HealthCheckRequest { service = 1 }, inside the frame of a call.
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.push(length as u8);
        message.extend(service.as_bytes());
    }
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap_or_default().to_be_bytes());
    frame.extend(message);
    let request =
        Request::post(format!("http://{}/grpc.health.v1.Health/Check", shown(address, port)))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header(USER_AGENT, PROBE_AGENT)
            .body(Full::new(Bytes::from(frame)))
            .map_err(said)?;
    let response = sender.send_request(request).await.map_err(said)?;
    let status = |headers: &http::HeaderMap| {
        let code = headers.get("grpc-status").and_then(|code| code.to_str().ok());
        code.and_then(|code| code.parse::<u64>().ok())
    };
    let early = status(response.headers());
    let body = Limited::new(response.into_body(), BODY_MAX).collect().await.map_err(said)?;
    driving.abort();
    let code = early.or_else(|| status(body.trailers()?)).unwrap_or_default();
    match code {
        0 => {}
        12 => return Err("server does not implement the grpc health protocol".to_owned()),
        code => return Err(format!("rpc error: code = {code}")),
    }
    // HealthCheckResponse { status = 1 }; zero is not written at all.
    let bytes = body.to_bytes();
    Ok(match bytes.get(5..) {
        Some([0x08, state, ..]) => u64::from(*state),
        _ => 0,
    })
}

/// Puts a bound on a question; `late` says what is told if it is not answered in time.
pub(crate) async fn within(
    limit: Duration,
    ask: impl Future<Output = HandlerOutcome>,
    late: impl FnOnce() -> String,
) -> HandlerOutcome {
    match tokio::time::timeout(limit, ask).await {
        Ok(verdict) => verdict,
        Err(_) => HandlerOutcome::Badly(late()),
    }
}

/// What is told of a port that does not answer in time.
pub(crate) fn late_listening(address: IpAddr, port: u16) -> String {
    format!("dial tcp {}: i/o timeout", shown(address, port))
}

/// What is told of a gRPC service that does not answer in time.
pub(crate) fn late_grpc(address: IpAddr, port: u16, limit: Duration) -> String {
    format!(
        "timeout: failed to connect service \"{}\" within {}s: context deadline exceeded",
        shown(address, port),
        limit.as_secs()
    )
}
