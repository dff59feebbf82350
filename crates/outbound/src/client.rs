//! A client with a pool of connections.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as PooledClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::connect::{Connect, TlsConnect};
use crate::error::{CallError, SettingsError};
use crate::tls::{self, TlsSettings};

/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(90);
/// How many connections to one host are kept while nobody uses them.
const IDLE_MOST: usize = 16;

/// What is sent.
pub type RequestBody = BoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A body that is there as a whole.
#[must_use]
pub fn full(bytes: impl Into<Bytes>) -> RequestBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// Calls servers that show a certificate as the settings want it.
#[derive(Clone)]
pub struct HttpsClient {
    pool: PooledClient<TlsConnect, RequestBody>,
}

impl HttpsClient {
    /// A client; nobody is called yet.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn new(
        settings: TlsSettings,
        connect: Arc<dyn Connect>,
    ) -> Result<HttpsClient, SettingsError> {
        HttpsClient::speaking(settings, connect, false)
    }

    /// A client whose connections can become something else than HTTP, which only HTTP/1.1 allows.
    ///
    /// # Errors
    /// The settings cannot be used.
    pub fn upgrading(
        settings: TlsSettings,
        connect: Arc<dyn Connect>,
    ) -> Result<HttpsClient, SettingsError> {
        HttpsClient::speaking(settings, connect, true)
    }

    fn speaking(
        settings: TlsSettings,
        connect: Arc<dyn Connect>,
        only_http1: bool,
    ) -> Result<HttpsClient, SettingsError> {
        if let Some(name) = &settings.server_name {
            tls::server_name(&settings, name)?;
        }
        let config = tls::config(&settings, only_http1)?;
        let connect = TlsConnect::new(connect, settings, config);
        let pool = PooledClient::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MOST)
            .build(connect);
        Ok(HttpsClient { pool })
    }

    /// Sends a request and answers when the head of the answer is there.
    ///
    /// # Errors
    /// The server cannot be reached, or ended the connection.
    pub async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, CallError> {
        self.pool.request(request).await.map_err(|error| CallError::broken(&error))
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// There is no whole answer within the time and the size.
    pub async fn call(
        &self,
        request: Request<RequestBody>,
        limit: Duration,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let answered = async {
            let response = self.send(request).await?;
            let status = response.status();
            match Limited::new(response.into_body(), bytes_max).collect().await {
                Ok(body) => Ok((status, body.to_bytes())),
                Err(error) if error.is::<LengthLimitError>() => {
                    Err(CallError::TooLarge { bytes_max })
                }
                Err(error) => Err(CallError::broken(&*error)),
            }
        };
        let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
        let late = |_| CallError::Timeout { seconds };
        tokio::time::timeout(limit, answered).await.map_err(late)?
    }
}
