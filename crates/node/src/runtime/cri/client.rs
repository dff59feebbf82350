//! Calls to a runtime over its socket: one channel that connects when it is needed and again after the
//! runtime was away. What the calls mean is said elsewhere.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use http::uri::PathAndQuery;
use tonic::client::Grpc;

use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use crate::runtime::RuntimeError;

/// How long an ordinary call may take.
pub(super) const USUAL: Duration = Duration::from_secs(120);
/// Lists of many containers are longer than what is usually allowed.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A way to the runtime.
#[derive(Clone)]
pub(super) struct CriClient {
    channel: Channel,
}

impl CriClient {
    /// A way to the socket; nobody need be there yet.
    pub(super) fn new(socket: &Path) -> Result<CriClient, RuntimeError> {
        let address = format!("unix://{}", socket.display());
        let endpoint = Endpoint::from_shared(address)
            .map_err(|error| RuntimeError::Refused(format!("`{}`: {error}", socket.display())))?;
        let endpoint = endpoint.connect_timeout(Duration::from_secs(5));
        Ok(CriClient { channel: endpoint.connect_lazy() })
    }

    /// One question, one answer.
    pub(super) async fn call<Q, A>(
        &self,
        path: &'static str,
        question: Q,
        limit: Duration,
    ) -> Result<A, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let asked = async {
            let mut grpc = self.ready().await?;
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            let answer = grpc.unary(tonic::Request::new(question), path, codec).await?;
            Ok(answer.into_inner())
        };
        match tokio::time::timeout(limit, asked).await {
            Ok(answer) => answer,
            Err(_) => Err(Status::deadline_exceeded(format!(
                "no answer from the runtime in {} s",
                limit.as_secs()
            ))),
        }
    }

    /// One question, many answers.
    pub(super) async fn stream<Q, A>(
        &self,
        path: &'static str,
        question: Q,
    ) -> Result<tonic::Streaming<A>, Status>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let answer = grpc.server_streaming(tonic::Request::new(question), path, codec).await?;
        Ok(answer.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
        grpc.ready().await.map_err(|error| Status::from_error(Box::new(error)))?;
        Ok(grpc)
    }
}

/// What a failed call means to the agent.
pub(super) fn failed(status: Status) -> RuntimeError {
    // A runtime that answers sends words; only our own side has an error below.
    if status.source().is_some() || status.code() == Code::Unavailable || is_starting(&status) {
        return RuntimeError::Away(reason(&status));
    }
    match status.code() {
        Code::NotFound => RuntimeError::NotFound(status.message().to_owned()),
        _ => RuntimeError::Failed(status.message().to_owned()),
    }
}

/// Whether a runtime answers that it has only begun: containerd listens before the part that speaks CRI is
/// ready, and says so in words alone.
fn is_starting(status: &Status) -> bool {
    status.code() == Code::Unknown && status.message().ends_with("server is not initialized yet")
}

/// The innermost cause: the outer ones only say that something is wrong with the transport.
fn reason(status: &Status) -> String {
    let mut cause = status.source();
    let mut text = status.message().to_owned();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r150_a_runtime_that_is_just_starting_is_away() {
        let starting = failed(Status::unknown("server is not initialized yet"));
        assert!(
            matches!(&starting, RuntimeError::Away(why) if why == "server is not initialized yet"),
            "{starting:?}"
        );
        let away = failed(Status::unavailable("going down"));
        assert!(matches!(away, RuntimeError::Away(_)), "{away:?}");
        for status in [
            Status::unknown("failed to create the task: server is not initialized yet, or so"),
            Status::internal("server is not initialized yet"),
            Status::unknown("anything else"),
        ] {
            let other = failed(status);
            assert!(matches!(other, RuntimeError::Failed(_)), "{other:?}");
        }
    }
}
