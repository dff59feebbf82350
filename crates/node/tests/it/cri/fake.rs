//! Rules of spec/downward-api.md: a runtime that has events of its own, and runtimes that talk nonsense.
//! They are played here by a few lines over HTTP/2, byte by byte; no containerd is needed.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tenure_node::runtime::cri::{Cri, CriSettings};
use tenure_node::runtime::{ContainerRuntime as _, RuntimeError};

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// What the runtime does when it is called.
#[derive(Clone, Copy)]
enum Play {
    /// Sends this, one message after the other, and no end.
    Messages(&'static [&'static [u8]]),
    /// Sends these bytes, which are no message.
    Bytes(&'static [u8]),
    /// Says that it cannot.
    Status(&'static str),
    /// Says nothing at all.
    Silence,
}

/// Serves calls on a socket in a folder.
async fn runtime(play: fn(&str) -> Play) -> (TempDir, Cri) {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = move |request: Request<Incoming>| async move {
                let call = request.uri().path().rsplit('/').next().unwrap().to_owned();
                answer(play(&call)).await
            };
            let service = hyper::service::service_fn(answer);
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    let settings = CriSettings { socket, node: "n".into(), ..CriSettings::default() };
    (folder, Cri::new(settings).unwrap())
}

async fn answer(play: Play) -> Result<Response<Body>, Infallible> {
    let response = Response::builder().header("content-type", "application/grpc");
    let (response, pieces, ends) = match play {
        Play::Messages(messages) => {
            let framed = messages.iter().map(|message| {
                let length = u32::try_from(message.len()).unwrap().to_be_bytes();
                [&[0], &length[..], message].concat()
            });
            (response, framed.collect(), false)
        }
        Play::Bytes(bytes) => (response.header("grpc-status", "0"), vec![bytes.to_vec()], true),
        Play::Status(code) => {
            (response.header("grpc-status", code).header("grpc-message", "no"), Vec::new(), true)
        }
        Play::Silence => std::future::pending().await,
    };
    let pieces = pieces.into_iter().map(|piece| Ok(Frame::data(Bytes::from(piece))));
    let pieces = futures::stream::iter(pieces);
    let body = match ends {
        true => StreamBody::new(pieces).boxed_unsync(),
        false => StreamBody::new(pieces.chain(futures::stream::pending())).boxed_unsync(),
    };
    Ok(response.body(body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn r150_events_of_a_runtime_that_has_them_are_passed_on() {
    // Container `c` of sandbox `s1`, then of `s2`.
    const EVENTS: &[&[u8]] =
        &[b"\x0a\x01c\x10\x02\x22\x04\x0a\x02s1", b"\x0a\x01c\x22\x04\x0a\x02s2"];
    let play = |call: &str| match call {
        // The agent listens before it is told.
        "GetContainerEvents" => {
            std::thread::sleep(Duration::from_millis(300));
            Play::Messages(EVENTS)
        }
        _ => Play::Status("12"),
    };
    let (_folder, cri) = runtime(play).await;
    let mut changes = cri.changes();
    for expected in ["s1", "s2"] {
        let change = tokio::time::timeout(Duration::from_secs(10), changes.recv()).await;
        assert_eq!(change.unwrap().unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r150_nonsense_of_a_runtime_is_an_error_and_no_more() {
    let plays: [fn(&str) -> Play; 6] = [
        |_| Play::Bytes(b"\x00\x00\x00\x00\x03\xff\xff\xff"),
        |_| Play::Bytes(b"\x00\xff\xff\xff\xff\x0a"),
        |_| Play::Bytes(b"\x01\x00\x00\x00\x01\x0a"),
        |_| Play::Bytes(b"not grpc at all"),
        |_| Play::Status("2"),
        |_| Play::Status("none"),
    ];
    for play in plays {
        let (_folder, cri) = runtime(play).await;
        let listed = cri.list().await;
        assert!(
            matches!(listed, Err(RuntimeError::Failed(_) | RuntimeError::Away(_))),
            "{listed:?}"
        );
        let exec = cri.run("c", &["true".to_owned()], Duration::from_secs(1)).await;
        assert!(exec.is_err(), "{exec:?}");
    }
    let (_folder, cri) = runtime(|_| Play::Status("5")).await;
    let missing = cri.status("c").await;
    assert!(matches!(missing, Err(RuntimeError::NotFound(_))), "{missing:?}");
    // A command is not waited for much longer than it may take.
    let (_folder, cri) = runtime(|_| Play::Silence).await;
    let ran = cri.run("c", &["true".to_owned()], Duration::from_millis(10)).await;
    assert!(ran.unwrap().timed_out);
}
