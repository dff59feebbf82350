//! Logs over a WebSocket, frame by frame, as upstream's own test reads them (spec/downward-api.md R123a).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tenure_client_tests::wire::{Access, Connection};

use super::house::{House, On};

/// Of messages that a server sends; the last part of each says what it is.
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// Asks for a WebSocket, and gives the connection with the head of the answer.
async fn opened(access: &Access, path: &str, protocol: &str) -> (Connection, u16, String) {
    let mut connection = access.connect().await.unwrap();
    let protocol = match protocol {
        "" => String::new(),
        name => format!("sec-websocket-protocol: {name}\r\n"),
    };
    // The key and its answer are the example of RFC 6455.
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: tenure\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{protocol}\r\n"
    );
    connection.write(head.as_bytes()).await.unwrap();
    let (code, head) = connection.head().await.unwrap();
    (connection, code, head)
}

/// The next message: what it is, and its bytes.
async fn message(connection: &mut Connection) -> (u8, Vec<u8>) {
    let head = connection.exact(2).await.unwrap();
    assert_eq!(head[0] & 0x80, 0x80, "whole messages");
    assert_eq!(head[1] & 0x80, 0, "a server masks nothing");
    let length = match head[1] {
        126 => {
            let bytes = connection.exact(2).await.unwrap();
            usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))
        }
        127 => panic!("nothing here is that long"),
        short => usize::from(short),
    };
    (head[0] & 0x0f, connection.exact(length).await.unwrap())
}

/// All bytes of a log, and the kind of message they came in.
async fn whole(connection: &mut Connection) -> (u8, Vec<Vec<u8>>) {
    let (kind, first) = message(connection).await;
    assert!(first.is_empty(), "the first message only says that the server is there");
    let mut parts = Vec::new();
    loop {
        match message(connection).await {
            (CLOSE, reason) => {
                assert_eq!(reason, 1000_u16.to_be_bytes());
                return (kind, parts);
            }
            (again, bytes) => {
                assert_eq!(again, kind);
                parts.push(bytes);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r123a_a_log_comes_over_a_websocket_too() {
    let house = tokio::task::spawn_blocking(|| {
        let house = House::open(On::Process, &[]).unwrap();
        house.create(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "talk"},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "main", "image": house.image(),
                    "command": ["sh", "-c", "echo container is alive; exec sleep 600"],
                }],
            },
        }));
        house.log_with("talk", "alive");
        house
    });
    let house = house.await.unwrap();
    let access = Access::read(house.kubectl.kubeconfig()).unwrap();
    let path = "/api/v1/namespaces/shop/pods/talk/log?container=main";
    for (protocol, kind) in
        [("binary.k8s.io", BINARY), ("", BINARY), ("base64.binary.k8s.io", TEXT)]
    {
        let (mut connection, code, head) = opened(&access, path, protocol).await;
        assert_eq!(code, 101, "{protocol}: {head}");
        assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        let named = head.contains(&format!("sec-websocket-protocol: {protocol}\r\n"))
            || head.ends_with(&format!("sec-websocket-protocol: {protocol}"));
        assert_eq!(named, !protocol.is_empty(), "{head}");
        let (came, parts) = whole(&mut connection).await;
        assert_eq!(came, kind, "{protocol}");
        let text = match kind {
            TEXT => parts.into_iter().flat_map(|part| STANDARD.decode(part).unwrap()).collect(),
            _ => parts.concat(),
        };
        assert_eq!(String::from_utf8(text).unwrap(), "container is alive\n");
    }
    // A log that is followed comes as it is written, and whoever leaves ends it.
    let (mut connection, code, _) =
        opened(&access, &format!("{path}&follow=true"), "binary.k8s.io").await;
    assert_eq!(code, 101);
    assert_eq!(message(&mut connection).await, (BINARY, Vec::new()));
    assert_eq!(message(&mut connection).await, (BINARY, b"container is alive\n".to_vec()));
    drop(connection);
    // What is wrong is said as ever, before anything becomes a socket.
    let (_, code, head) = opened(&access, path, "v4.channel.k8s.io").await;
    assert_eq!(code, 403, "{head}");
    let (_, code, _) = opened(&access, &path.replace("talk", "nobody"), "binary.k8s.io").await;
    assert_eq!(code, 404);
    let plain = access.once("GET", path, None).await.unwrap();
    assert_eq!(plain.body, b"container is alive\n");
    tokio::task::spawn_blocking(move || drop(house)).await.unwrap();
}
