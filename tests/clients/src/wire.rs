//! A lean HTTP/1.1 client over TLS: cheap enough for load, plain enough to send broken requests.
//! It follows no redirects, knows no proxies and repeats nothing.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// No single read waits longer; a server that is silent for so long is stuck.
const SILENCE_SECONDS_MAX: u64 = 60;
const READ_BYTES: usize = 64 * 1024;

/// Where a server is and who we are to it.
#[derive(Clone)]
pub struct Access {
    address: SocketAddr,
    connector: TlsConnector,
    /// A line of the head that says who we are, if the certificate does not.
    bearer: Arc<str>,
}

impl Access {
    /// Reads a kubeconfig as tenure writes it: one cluster, one user, data inline.
    pub fn read(kubeconfig: &Path) -> Result<Access> {
        Access::new(kubeconfig, None)
    }

    /// The same server, as whoever holds a token.
    pub fn bearer(kubeconfig: &Path, token: &str) -> Result<Access> {
        Access::new(kubeconfig, Some(token))
    }

    fn new(kubeconfig: &Path, token: Option<&str>) -> Result<Access> {
        let text = std::fs::read_to_string(kubeconfig)?;
        let value = |key: &str| {
            let found =
                text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
            found.with_context(|| format!("the kubeconfig has no {key}"))
        };
        let pem = |key| -> Result<Vec<u8>> { Ok(STANDARD.decode(value(key)?)?) };
        let server = value("server")?;
        let address = server.strip_prefix("https://").context("the server is no https URL")?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem("certificate-authority-data")?)?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let (config, bearer) = match token {
            Some(token) => {
                (config.with_no_client_auth(), format!("authorization: Bearer {token}\r\n"))
            }
            None => {
                let chain = CertificateDer::pem_slice_iter(&pem("client-certificate-data")?)
                    .collect::<Result<Vec<_>, _>>()?;
                let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data")?)?;
                (config.with_client_auth_cert(chain, key)?, String::new())
            }
        };
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Access { address: address.parse()?, connector, bearer: bearer.into() })
    }

    /// Where the server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Result<Connection> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        let stream = self.connector.connect(name, socket).await?;
        let (buffer, bearer) = (Vec::with_capacity(READ_BYTES), Arc::clone(&self.bearer));
        Ok(Connection { stream, bearer, buffer, start: 0 })
    }

    /// Sends one request on a connection of its own.
    pub async fn once(&self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Answer> {
        self.connect().await?.send(method, path, body).await
    }
}

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The head as it came, lower case.
    pub head: String,
    /// The body, with chunks joined.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("{} {:?}", self.code, String::from_utf8_lossy(&self.body)))
    }

    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

/// A connection that stays open between requests.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    bearer: Arc<str>,
    buffer: Vec<u8>,
    /// Where the part of `buffer` begins that nobody has taken yet.
    start: usize,
}

impl Connection {
    /// Sends a request with a JSON body and reads the whole answer.
    pub async fn send(&mut self, method: &str, path: &str, body: Option<&[u8]>) -> Result<Answer> {
        self.send_as(method, path, "application/json", body).await
    }

    /// Sends a request with a body of any type and reads the whole answer.
    pub async fn send_as(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Option<&[u8]>,
    ) -> Result<Answer> {
        self.write(&with_head(method, path, content_type, body, &self.bearer)).await?;
        self.answer().await
    }

    /// The bytes of a request with a JSON body, for whoever sends them piece by piece.
    #[must_use]
    pub fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        with_head(method, path, "application/json", Some(body), &self.bearer)
    }

    /// Writes bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Closes our side only; the server may go on sending.
    pub async fn close_writing(&mut self) -> Result<()> {
        Ok(self.stream.shutdown().await?)
    }

    /// Reads the next answer to its end.
    pub async fn answer(&mut self) -> Result<Answer> {
        let (code, head) = self.head().await?;
        let length = header(&head, "content-length").map(str::parse::<usize>).transpose()?;
        let mut body = Vec::new();
        if let Some(length) = length {
            while self.waiting().len() < length {
                self.fill().await?;
            }
            body.extend_from_slice(self.waiting().get(..length).unwrap_or_default());
            self.take(length);
        } else if header(&head, "transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await? {
                body.extend_from_slice(&chunk);
            }
        }
        Ok(Answer { code, head, body })
    }

    /// Reads a head: the status code, and all of it in lower case.
    pub async fn head(&mut self) -> Result<(u16, String)> {
        let end = self.find(b"\r\n\r\n").await?;
        let head = std::str::from_utf8(self.waiting().get(..end).unwrap_or_default())?;
        let code = head.split(' ').nth(1).context("no status code")?.parse()?;
        let head = head.to_ascii_lowercase();
        self.take(end + 4);
        Ok((code, head))
    }

    /// Reads the next chunk of a chunked body; none after the last.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let end = self.find(b"\r\n").await?;
        let size = std::str::from_utf8(self.waiting().get(..end).unwrap_or_default())?;
        let size = usize::from_str_radix(size, 16)?;
        self.take(end + 2);
        while self.waiting().len() < size + 2 {
            self.fill().await?;
        }
        let chunk = self.waiting().get(..size).unwrap_or_default().to_vec();
        self.take(size + 2);
        Ok((size > 0).then_some(chunk))
    }

    /// Reads exactly that many bytes as they come.
    pub async fn exact(&mut self, count: usize) -> Result<Vec<u8>> {
        while self.waiting().len() < count {
            self.fill().await?;
        }
        let bytes = self.waiting().get(..count).unwrap_or_default().to_vec();
        self.take(count);
        Ok(bytes)
    }

    /// Asks for a watch and returns its lines.
    pub async fn watch(mut self, path: &str) -> Result<Events> {
        self.write(&with_head("GET", path, "application/json", None, &self.bearer)).await?;
        let (code, head) = self.head().await?;
        if code != 200 {
            let length = header(&head, "content-length").and_then(|n| n.parse().ok()).unwrap_or(0);
            while self.waiting().len() < length {
                self.fill().await?;
            }
            bail!("watch {path}: {code} {}", String::from_utf8_lossy(self.waiting()));
        }
        Ok(Events { connection: self, text: Vec::new() })
    }

    async fn find(&mut self, mark: &[u8]) -> Result<usize> {
        let mut from = 0;
        loop {
            let rest = self.waiting().get(from..).unwrap_or_default();
            if let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
                return Ok(from + at);
            }
            from = self.waiting().len().saturating_sub(mark.len());
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<()> {
        let read = self.stream.read_buf(&mut self.buffer);
        let read = tokio::time::timeout(Duration::from_secs(SILENCE_SECONDS_MAX), read).await;
        ensure!(read.context("the server is silent")?? > 0, "the server closed the connection");
        Ok(())
    }

    fn waiting(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn take(&mut self, count: usize) {
        self.start += count;
        if self.start >= self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        }
    }
}

/// The events of a watch.
pub struct Events {
    connection: Connection,
    text: Vec<u8>,
}

impl Events {
    /// The next event as text, or none when the server ended the watch.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let rest = self.text.split_off(end + 1);
                self.text.truncate(end);
                return Ok(Some(std::mem::replace(&mut self.text, rest)));
            }
            match self.connection.chunk().await? {
                Some(chunk) => self.text.extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// The next event as JSON.
    pub async fn event(&mut self) -> Result<Option<serde_json::Value>> {
        Ok(match self.line().await? {
            Some(line) => Some(serde_json::from_slice(&line)?),
            None => None,
        })
    }
}

/// The bytes of a request.
#[must_use]
pub fn request(method: &str, path: &str, content_type: &str, body: Option<&[u8]>) -> Vec<u8> {
    with_head(method, path, content_type, body, "")
}

/// As [`request`], with more lines of the head.
fn with_head(
    method: &str,
    path: &str,
    content_type: &str,
    body: Option<&[u8]>,
    more: &str,
) -> Vec<u8> {
    let mut bytes = format!("{method} {path} HTTP/1.1\r\nhost: tenure\r\n{more}").into_bytes();
    if let Some(body) = body {
        let head = format!("content-type: {content_type}\r\ncontent-length: {}\r\n", body.len());
        bytes.extend_from_slice(head.as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body.unwrap_or_default());
    bytes
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
