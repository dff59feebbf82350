//! Rules of spec/downward-api.md: exec, attach and port-forward as clients speak them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tenure_node::spdy::{SpdyConnection, SpdyRole, SpdyStream};
use tenure_streams::channel::Protocol;
use tenure_streams::spdy::{Decoder, Encoder, Headers, SpdyFrame};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol;

use crate::fake::{Node, until};

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Sends a request that wants to become something else.
async fn upgrade(
    node: &Node,
    path: &str,
    headers: &[(&str, &str)],
) -> http::Response<hyper::body::Incoming> {
    let wire = TokioIo::new(node.dial());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(wire).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let mut request = http::Request::get(path).header("host", "here");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap()
}

async fn websocket(node: &Node, path: &str, protocol: &str) -> Socket {
    let answer = upgrade(
        node,
        path,
        &[
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", protocol),
        ],
    )
    .await;
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_eq!(answer.headers()["sec-websocket-protocol"], protocol);
    let wire = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    WebSocketStream::from_raw_socket(wire, protocol::Role::Client, None).await
}

async fn spdy(node: &Node, path: &str, protocol: &str) -> SpdyConnection {
    let headers = [
        ("connection", "Upgrade"),
        ("upgrade", "SPDY/3.1"),
        ("x-stream-protocol-version", protocol),
    ];
    let answer = upgrade(node, path, &headers).await;
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["x-stream-protocol-version"], protocol);
    let wire = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    SpdyConnection::start(wire, SpdyRole::Client)
}

async fn open(connection: &SpdyConnection, kind: &str) -> SpdyStream {
    connection.open(Headers::new(&[("streamType", kind)])).await.unwrap()
}

async fn rest(stream: &mut SpdyStream) -> String {
    let mut out = Vec::new();
    while let Some(bytes) = stream.reader.read().await {
        out.extend_from_slice(&bytes);
    }
    String::from_utf8(out).unwrap()
}

/// What each channel said until the end, and the code of the close.
async fn hear(socket: &mut Socket, protocol: Protocol) -> ([String; 4], Option<u16>) {
    let mut said = [const { Vec::new() }; 4];
    let mut code = None;
    while let Some(Ok(message)) = socket.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            Message::Close(frame) => {
                code = frame.map(|frame| frame.code.into());
                continue;
            }
            _ => continue,
        };
        let tenure_streams::channel::ChannelMessage::Data(channel, bytes) = protocol.decode(bytes)
        else {
            panic!();
        };
        said[usize::from(channel)].extend_from_slice(&bytes);
    }
    (said.map(|bytes| String::from_utf8(bytes).unwrap()), code)
}

fn exec(command: &str, query: &str) -> String {
    let words: String = command.split(' ').map(|word| format!("&command={word}")).collect();
    format!("/exec/shop/web/main?{query}{words}")
}

fn exit_code(status: &str) -> Value {
    serde_json::from_str::<Value>(status).unwrap()["details"]["causes"].clone()
}

#[tokio::test]
async fn r126_r127_r128_every_websocket_protocol_carries_a_command() {
    let node = Node::new();
    for protocol in tenure_streams::channel::COMMAND {
        let path = exec("both", "output=1&error=1");
        let mut socket = websocket(&node, &path, protocol.name()).await;
        let ([_, out, err, status], code) = hear(&mut socket, protocol).await;
        assert_eq!((out.as_str(), err.as_str()), ("to stdout\n", "to stderr\n"), "{protocol:?}");
        assert_eq!(code, Some(1000));
        if protocol.outcome_is_status() {
            assert_eq!(exit_code(&status), json!([{"reason": "ExitCode", "message": "3"}]));
        } else {
            assert_eq!(status, "command terminated with non-zero exit code: exit status 3");
        }
    }
}

#[tokio::test]
async fn r128_success_is_a_status_too() {
    let node = Node::new();
    let mut socket = websocket(&node, &exec("echo a b", "output=1"), "v5.channel.k8s.io").await;
    let ([_, out, _, status], _) = hear(&mut socket, Protocol::V5).await;
    assert_eq!(out, "a b\n");
    assert_eq!(status, r#"{"metadata":{},"status":"Success"}"#);
}

#[tokio::test]
async fn r127_closing_the_input_channel_is_the_end_of_input() {
    let node = Node::new();
    let mut socket = websocket(&node, &exec("cat", "input=1&output=1"), "v5.channel.k8s.io").await;
    let big = "x".repeat(200_000);
    let (mut sink, stream) = socket.split();
    let sent = async {
        sink.send(Message::Binary(Protocol::V5.encode(0, big.as_bytes()))).await.unwrap();
        sink.send(Message::Binary(Protocol::V5.encode(0, b"end"))).await.unwrap();
        sink.send(Message::Binary(Protocol::V5.close(0).unwrap())).await.unwrap();
        sink
    };
    let heard = async {
        let mut stream = stream;
        let mut out = Vec::new();
        while let Some(Ok(message)) = stream.next().await {
            if let Message::Binary(bytes) = message
                && bytes[0] == 1
            {
                out.extend_from_slice(&bytes[1..]);
            }
        }
        out
    };
    let (_sink, heard) = tokio::join!(sent, heard);
    assert_eq!(heard.len(), 200_003);
    assert!(heard.ends_with(b"xend"));
    socket = websocket(&node, &exec("cat", "input=1&output=1"), "v5.channel.k8s.io").await;
    // A message that breaks the protocol ends the connection.
    socket.send(Message::Binary(Bytes::from_static(b"\xff"))).await.unwrap();
    hear(&mut socket, Protocol::V5).await;
    until("the command has ended", || node.runtime.playing.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn r127_sizes_reach_the_terminal() {
    let node = Node::new();
    let path = exec("size", "output=1&tty=1");
    let mut socket = websocket(&node, &path, "v4.channel.k8s.io").await;
    let size = Protocol::V4.encode(4, br#"{"Width":90,"Height":30}"#);
    socket.send(Message::Binary(size)).await.unwrap();
    assert_eq!(hear(&mut socket, Protocol::V4).await.0[1], "90x30");

    let connection = spdy(&node, &path, "v4.channel.k8s.io").await;
    let _error = open(&connection, "error").await;
    let mut out = open(&connection, "stdout").await;
    let resize = open(&connection, "resize").await;
    resize.writer.write("{\"Width\":7,\"Height\":8}\n".into()).await.unwrap();
    assert_eq!(rest(&mut out).await, "7x8");
}

#[tokio::test]
async fn r128_pings_are_answered_while_output_is_stuck() {
    let node = Node::new();
    let path = exec("never", "input=1&output=1");
    let mut socket = websocket(&node, &path, "v5.channel.k8s.io").await;
    socket.send(Message::Ping(Bytes::from_static(b"there?"))).await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(5), socket.next()).await.unwrap();
    assert_eq!(answer.unwrap().unwrap(), Message::Pong(Bytes::from_static(b"there?")));
}

#[tokio::test]
async fn r131_spdy_carries_a_command_in_every_version() {
    let node = Node::new();
    for protocol in
        ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"]
    {
        let connection = spdy(&node, &exec("both", "output=1&error=1"), protocol).await;
        let mut error = open(&connection, "error").await;
        let mut out = open(&connection, "stdout").await;
        let mut err = open(&connection, "stderr").await;
        assert_eq!(rest(&mut out).await, "to stdout\n");
        assert_eq!(rest(&mut err).await, "to stderr\n");
        let status = rest(&mut error).await;
        if protocol == "v4.channel.k8s.io" {
            assert_eq!(exit_code(&status), json!([{"reason": "ExitCode", "message": "3"}]));
        } else {
            assert_eq!(status, "command terminated with non-zero exit code: exit status 3");
        }
    }
}

#[tokio::test]
async fn r131_the_end_of_the_input_stream_is_the_end_of_input() {
    let node = Node::new();
    let path = exec("cat", "input=1&output=1");
    let connection = spdy(&node, &path, "v4.channel.k8s.io").await;
    let mut error = open(&connection, "error").await;
    let input = open(&connection, "stdin").await;
    let mut out = open(&connection, "stdout").await;
    let sent = async {
        for _ in 0..100 {
            input.writer.write("y".repeat(10_000).into()).await.unwrap();
        }
        input.writer.finish().await;
    };
    let (_, heard) = tokio::join!(sent, rest(&mut out));
    assert_eq!(heard.len(), 1_000_000);
    assert_eq!(rest(&mut error).await, r#"{"metadata":{},"status":"Success"}"#);
}

#[tokio::test]
async fn r125_attaching_joins_the_container_and_ends_in_success() {
    let node = Node::new();
    let path = "/attach/shop/web/main?input=1&output=1&error=1";
    let mut socket = websocket(&node, path, "v5.channel.k8s.io").await;
    socket.send(Message::Binary(Protocol::V5.encode(0, b"hello"))).await.unwrap();
    socket.send(Message::Binary(Protocol::V5.close(0).unwrap())).await.unwrap();
    let ([_, out, _, status], _) = hear(&mut socket, Protocol::V5).await;
    assert_eq!(out, "hello");
    assert_eq!(status, r#"{"metadata":{},"status":"Success"}"#);
}

#[tokio::test]
async fn r125_who_cannot_be_served_is_told_why() {
    let node = Node::new();
    let v5 = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", "v5.channel.k8s.io"),
    ];
    let spdy = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1")];
    let v9 = [spdy[0], spdy[1], ("x-stream-protocol-version", "v9")];
    for (path, headers, code, why) in [
        (
            "/exec/shop/web/main?command=x",
            &v5[..],
            400,
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        ("/exec/shop/web/slow?output=1&command=x", &v5, 500, "container not found (\"slow\")"),
        ("/exec/shop/none/main?output=1&command=x", &v5, 404, "pod does not exist"),
        ("/exec/shop/web/main?output=1&command=x", &[], 400, "Upgrade request required"),
        (
            "/exec/shop/web/main?output=1&command=x",
            &spdy,
            400,
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request",
        ),
        (
            "/portForward/shop/web",
            &v9,
            403,
            "unable to upgrade: unable to negotiate protocol: client supports [v9], server accepts [\"portforward.k8s.io\"]",
        ),
    ] {
        let answer = upgrade(&node, path, headers).await;
        assert_eq!(answer.status(), code, "{path}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(String::from_utf8_lossy(&body), why);
    }
    let mut socket = websocket(&node, &exec("missing", "output=1"), "v5.channel.k8s.io").await;
    let status: Value = serde_json::from_str(&hear(&mut socket, Protocol::V5).await.0[3]).unwrap();
    assert_eq!(status["reason"], "InternalError");
    assert_eq!(
        status["message"],
        "Internal error occurred: error executing command in container: no such file"
    );
}

#[tokio::test]
async fn a_command_that_leaves_others_behind_ends_all_the_same() {
    let node = Node::new();
    let mut socket = websocket(&node, &exec("leave", "output=1"), "v5.channel.k8s.io").await;
    let heard = tokio::time::timeout(Duration::from_secs(5), hear(&mut socket, Protocol::V5));
    let ([_, out, _, status], _) = heard.await.unwrap();
    assert_eq!(out, "left");
    assert_eq!(status, r#"{"metadata":{},"status":"Success"}"#);
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_command() {
    let node = Node::new();
    let playing = || node.runtime.playing.load(Ordering::SeqCst);
    let path = exec("never", "input=1&output=1");
    let socket = websocket(&node, &path, "v5.channel.k8s.io").await;
    until("the command runs", || playing() == 1).await;
    drop(socket);
    until("the command has ended", || playing() == 0).await;

    let connection = spdy(&node, &path, "v4.channel.k8s.io").await;
    let streams = [
        open(&connection, "error").await,
        open(&connection, "stdin").await,
        open(&connection, "stdout").await,
    ];
    until("the command runs", || playing() == 1).await;
    drop((streams, connection));
    until("the command has ended", || playing() == 0).await;
}

/// Ansible's `k8s_cp` writes an archive to `tar` and closes the socket at once.
#[tokio::test]
async fn r128_what_a_client_wrote_before_it_left_is_read() {
    let node = Node::new();
    let path = exec("take", "input=1&output=1");
    let mut socket = websocket(&node, &path, "v4.channel.k8s.io").await;
    for _ in 0..3 {
        socket.send(Message::Binary(Protocol::V4.encode(0, &[b'x'; 1000]))).await.unwrap();
    }
    socket.close(None).await.unwrap();
    drop(socket);
    until("all of it is read", || node.runtime.written.load(Ordering::SeqCst) == 3000).await;
    until("the command has ended", || node.runtime.playing.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_client_that_stops_reading_stops_the_command_not_the_node() {
    let node = Node::new();
    let path = exec("flood 100000000", "output=1");
    let stuck = websocket(&node, &path, "v5.channel.k8s.io").await;
    let connection = spdy(&node, &path, "v4.channel.k8s.io").await;
    let streams = (open(&connection, "error").await, open(&connection, "stdout").await);
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Of 200 MB, what fits into pipes and queues was written.
    let written = node.runtime.written.load(Ordering::SeqCst);
    assert!(written > 0 && written < 2_000_000, "{written} bytes were taken");
    // Others are served meanwhile.
    let mut socket = websocket(&node, &exec("echo hi", "output=1"), "v5.channel.k8s.io").await;
    assert_eq!(hear(&mut socket, Protocol::V5).await.0[1], "hi\n");
    drop((stuck, streams, connection));
    until("they have ended", || node.runtime.playing.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn r128_a_session_on_which_nothing_moves_ends_after_hours() {
    let node = Node::new();
    let playing = || node.runtime.playing.load(Ordering::SeqCst);
    let path = exec("cat", "input=1&output=1");
    let mut socket = websocket(&node, &path, "v5.channel.k8s.io").await;
    let begin = tokio::time::Instant::now();
    // A word after two hours counts.
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    socket.send(Message::Binary(Protocol::V5.encode(0, b"still here"))).await.unwrap();
    hear(&mut socket, Protocol::V5).await;
    let hours = begin.elapsed().as_secs() / 3600;
    assert!((6..8).contains(&hours), "it ended after {hours} hours");
    assert_eq!(playing(), 0);
}

/// Opens the two streams of a forwarded connection.
async fn pair(connection: &SpdyConnection, port: &str, request: &str) -> (SpdyStream, SpdyStream) {
    let headers =
        |kind| Headers::new(&[("streamType", kind), ("port", port), ("requestID", request)]);
    let error = connection.open(headers("error")).await.unwrap();
    (error, connection.open(headers("data")).await.unwrap())
}

async fn forward_by(connection: SpdyConnection) {
    for request in ["0", "1"] {
        let (mut error, mut data) = pair(&connection, "80", request).await;
        data.writer.write("hello".into()).await.unwrap();
        data.writer.clone().finish().await;
        assert_eq!(rest(&mut data).await, "port 80 heard hello");
        assert_eq!(rest(&mut error).await, "");
    }
    for (port, why) in [
        ("81", "error forwarding port 81 to pod web, uid u-1: connection refused"),
        ("70000", "\"70000\" is not a port"),
    ] {
        let (mut error, mut data) = pair(&connection, port, port).await;
        assert_eq!(rest(&mut error).await, why);
        assert_eq!(rest(&mut data).await, "");
    }
}

#[tokio::test]
async fn r131_ports_are_forwarded_over_spdy() {
    let node = Node::new();
    forward_by(spdy(&node, "/portForward/shop/web", "portforward.k8s.io").await).await;
}

#[tokio::test]
async fn r129_ports_are_forwarded_over_spdy_within_a_websocket() {
    let node = Node::new();
    let socket = websocket(&node, "/portForward/shop/web", "SPDY/3.1+portforward.k8s.io").await;
    // Messages carry any part of the bytes of a SPDY connection.
    let (near, far) = tokio::io::duplex(4096);
    let (mut sink, mut stream) = socket.split();
    let (mut read, mut write) = tokio::io::split(far);
    tokio::spawn(async move {
        use tokio::io::AsyncReadExt as _;
        let mut buffer = [0; 7];
        while let Ok(count @ 1..) = read.read(&mut buffer).await {
            sink.send(Message::Binary(Bytes::copy_from_slice(&buffer[..count]))).await.unwrap();
        }
    });
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        while let Some(Ok(Message::Binary(bytes))) = stream.next().await {
            write.write_all(&bytes).await.unwrap();
        }
    });
    forward_by(SpdyConnection::start(near, SpdyRole::Client)).await;
}

#[tokio::test]
async fn r131a_a_reset_lets_go_of_a_port_that_never_hangs_up() {
    let node = Node::new();
    let connection = spdy(&node, "/portForward/shop/web", "portforward.k8s.io").await;
    let (_error, mut data) = pair(&connection, "82", "0").await;
    data.writer.write("hello".into()).await.unwrap();
    data.writer.clone().finish().await;
    assert!(data.reader.read().await.is_some());
    assert_eq!(node.runtime.playing.load(Ordering::SeqCst), 1);
    data.writer.clone().reset().await;
    until("the port is let go", || node.runtime.playing.load(Ordering::SeqCst) == 0).await;
}

/// Opens streams, says something on each, and counts how many were refused.
async fn open_many(
    wire: &mut tokio::io::DuplexStream,
    coder: &mut (Encoder, Decoder),
    ids: std::ops::Range<u32>,
    then: impl Fn(u32) -> Option<SpdyFrame>,
    fin: bool,
) -> usize {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (mut read, mut write) = tokio::io::split(wire);
    let (encoder, decoder) = coder;
    let count = ids.len();
    let writing = async {
        for number in ids {
            let (stream, headers) = (2 * number + 1, Headers::new(&[("streamType", "data")]));
            let mut bytes = Vec::new();
            encoder.encode(
                &SpdyFrame::Open { stream, headers, fin, unidirectional: false },
                &mut bytes,
            );
            if let Some(frame) = then(stream) {
                encoder.encode(&frame, &mut bytes);
            }
            write.write_all(&bytes).await.unwrap();
        }
    };
    let reading = async {
        let (mut answers, mut refused, mut buffer) = (0, 0, [0; 4096]);
        while answers < count {
            let got = read.read(&mut buffer).await.unwrap();
            decoder.push(&buffer[..got]);
            while let Some(frame) = decoder.next_frame().unwrap() {
                answers +=
                    usize::from(matches!(frame, SpdyFrame::Reply { .. } | SpdyFrame::Reset { .. }));
                refused += usize::from(matches!(frame, SpdyFrame::Reset { .. }));
            }
        }
        refused
    };
    tokio::join!(writing, reading).1
}

#[tokio::test]
async fn r131a_streams_that_are_over_for_the_client_count_while_they_are_held() {
    type Then = fn(u32) -> Option<SpdyFrame>;
    let ways: [(&str, bool, Then); 4] = [
        ("left open", false, |_| None),
        ("finished at once", true, |_| None),
        ("finished", false, |stream| {
            Some(SpdyFrame::Data { stream, bytes: Bytes::new(), fin: true })
        }),
        ("reset", false, |stream| Some(SpdyFrame::Reset { stream, status: 5 })),
    ];
    for (way, fin, then) in ways {
        let (mut wire, far) = tokio::io::duplex(1 << 16);
        let mut server = SpdyConnection::start(far, SpdyRole::Server);
        let held = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = std::sync::Arc::clone(&held);
        tokio::spawn(async move {
            while let Some(stream) = server.accept().await {
                keep.lock().unwrap().push(stream);
            }
        });
        let mut coder = (Encoder::default(), Decoder::default());
        let refused = open_many(&mut wire, &mut coder, 0..600, then, fin).await;
        assert_eq!(refused, 600 - 512, "{way}");
        until("all are taken", || held.lock().unwrap().len() == 512).await;
        held.lock().unwrap().clear();
        let refused = open_many(&mut wire, &mut coder, 600..700, then, fin).await;
        assert_eq!(refused, 0, "{way}: there is room again");
    }
}

#[tokio::test]
async fn r130_ports_are_forwarded_over_plain_channels() {
    let node = Node::new();
    let path = "/portForward/shop/web?port=81,82";
    let mut socket = websocket(&node, path, "v4.channel.k8s.io").await;
    let mut said = [const { Vec::new() }; 4];
    while said[1].len() < 10 || said[2].len() < 2 {
        let Message::Binary(bytes) = socket.next().await.unwrap().unwrap() else { panic!() };
        said[usize::from(bytes[0])].extend_from_slice(&bytes[1..]);
    }
    assert_eq!(
        (&said[0][..], &said[2][..], &said[3][..]),
        (&[81, 0][..], &[82, 0][..], &[82, 0][..])
    );
    let why = "error forwarding port 81 to pod web, uid u-1: connection refused";
    assert_eq!(&said[1][..2], [81, 0]);
    assert_eq!(String::from_utf8_lossy(&said[1][2..]), why);
    for (query, why) in [
        ("", "query parameter \"port\" is required"),
        ("?port=0", "port \"0\" must be > 0"),
        ("?port=x", "unable to parse \"x\" as a port"),
    ] {
        let headers = [
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", "v4.channel.k8s.io"),
        ];
        let answer = upgrade(&node, &format!("/portForward/shop/web{query}"), &headers).await;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(String::from_utf8_lossy(&body), why);
    }
}

#[tokio::test]
async fn r133_a_node_tells_of_itself() {
    let node = Node::new();
    for (path, part) in [
        ("/healthz", "ok"),
        ("/pods", "\"uid\":\"u-1\""),
        ("/metrics", "kubelet_running_pods 1"),
        ("/stats/summary", "\"nodeName\":\"here\""),
        ("/nothing", "404 page not found"),
    ] {
        let answer = upgrade(&node, path, &[]).await;
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(part), "{path}: {body:?}");
    }
}

#[tokio::test]
async fn hostile_frames_end_their_connection_and_nothing_else() {
    use tokio::io::AsyncWriteExt as _;
    let node = Node::new();
    for bytes in [
        &[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1][..],
        &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff],
        &[0xff; 4096],
    ] {
        let headers = [
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "portforward.k8s.io"),
        ];
        let answer = upgrade(&node, "/portForward/shop/web", &headers).await;
        let mut wire = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
        wire.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        let ended = tokio::io::AsyncReadExt::read_to_end(&mut wire, &mut rest);
        tokio::time::timeout(Duration::from_secs(8), ended).await.expect("it ends").ok();
    }
    forward_by(spdy(&node, "/portForward/shop/web", "portforward.k8s.io").await).await;
}
