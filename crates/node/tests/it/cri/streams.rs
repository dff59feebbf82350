//! Rules of spec/downward-api.md: exec, attach and port-forward through the runtime's own streams.

use std::time::{Duration, Instant};

use tenure_node::runtime::{
    ContainerConfig, ContainerRuntime as _, RuntimeError, Session, Streams,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::house::{House, shell, words};

const ALL: Streams = Streams { stdin: true, stdout: true, stderr: true, tty: false };
const LIMIT: Duration = Duration::from_secs(20);

/// Reads both outputs to their end, and the exit code.
async fn finish(session: Session) -> (String, String, Result<i32, RuntimeError>) {
    let Session { stdout, stderr, exit, .. } = session;
    let read = async |stream: Option<tenure_node::runtime::OutputReader>| {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            stream.read_to_end(&mut bytes).await.unwrap();
        }
        String::from_utf8(bytes).unwrap()
    };
    let all = async { tokio::join!(read(stdout), read(stderr), exit) };
    tokio::time::timeout(LIMIT, all).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn r153_a_command_has_its_streams_and_sees_the_end_of_its_input() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let id = house.start(&sandbox.id, &shell("c", "sleep 1000")).await;
    let command = words(&["sh", "-c", "cat; echo err >&2; exit 7"]);
    let mut session = house.cri.exec(&id, &command, ALL).await.unwrap();
    // More than any pipe on the way holds.
    let text = "0123456789abcde\n".repeat(40_000);
    let mut stdin = session.stdin.take().unwrap();
    let written = text.clone();
    let writing = tokio::spawn(async move { stdin.write_all(written.as_bytes()).await });
    let (stdout, stderr, exit) = finish(session).await;
    writing.await.unwrap().unwrap();
    assert_eq!(stdout.len(), text.len());
    assert_eq!((stdout == text, &*stderr, exit.unwrap()), (true, "err\n", 7));

    let only = Streams { stdout: true, ..Streams::default() };
    let session = house.cri.exec(&id, &words(&["echo", "hello"]), only).await.unwrap();
    assert!(session.stdin.is_none() && session.stderr.is_none());
    let (stdout, _, exit) = finish(session).await;
    assert_eq!((&*stdout, exit.unwrap()), ("hello\n", 0));

    let session = house.cri.exec(&id, &words(&["no-such-command"]), only).await.unwrap();
    let (_, _, exit) = finish(session).await;
    assert!(exit.unwrap_err().to_string().contains("no-such-command"));
    let nowhere = house.cri.exec("nowhere", &words(&["true"]), only).await;
    assert!(matches!(nowhere, Err(RuntimeError::NotFound(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn r153_a_terminal_has_the_size_it_is_given() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let id = house.start(&sandbox.id, &shell("c", "sleep 1000")).await;
    let streams = Streams { stdin: true, stdout: true, stderr: false, tty: true };
    // The size comes while the command runs; it waits for a key.
    let command = words(&["sh", "-c", "read line; stty size; test -t 1 && echo terminal"]);
    let mut session = house.cri.exec(&id, &command, streams).await.unwrap();
    session.resize.send((101, 33)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut stdin = session.stdin.take().unwrap();
    stdin.write_all(b"go\n").await.unwrap();
    let (stdout, _, exit) = finish(session).await;
    assert!(stdout.contains("33 101") && stdout.contains("terminal"), "{stdout}");
    assert_eq!(exit.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn r153_an_attachment_reaches_the_first_process_of_a_container() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let config = ContainerConfig {
        stdin: true,
        stdin_once: true,
        ..shell("c", "read line; echo got $line; echo bad >&2; cat; exit 3")
    };
    let id = house.start(&sandbox.id, &config).await;
    let mut session = house.cri.attach(&id, ALL).await.unwrap();
    let mut stdin = session.stdin.take().unwrap();
    stdin.write_all(b"this\nand that\n").await.unwrap();
    drop(stdin);
    let (stdout, stderr, exit) = finish(session).await;
    assert_eq!((&*stdout, &*stderr), ("got this\nand that\n", "bad\n"));
    // How the container ended is told by its status; the attachment itself went well.
    assert_eq!(exit.unwrap(), 0);
    assert_eq!(super::ended(&house.cri, &id).await.0, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn r153_dropping_a_session_does_not_end_the_container() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let config =
        ContainerConfig { stdin: true, ..shell("c", "while :; do echo tick; sleep 1; done") };
    let id = house.start(&sandbox.id, &config).await;
    for _ in 0..3 {
        let mut session = house.cri.attach(&id, ALL).await.unwrap();
        let mut piece = [0; 5];
        let read = session.stdout.as_mut().unwrap().read_exact(&mut piece);
        tokio::time::timeout(LIMIT, read).await.unwrap().unwrap();
        assert_eq!(&piece, b"tick\n");
    }
    let ran = house.cri.run(&id, &words(&["true"]), LIMIT).await.unwrap();
    assert_eq!(ran.code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn r150_a_port_of_a_pod_is_reached_through_the_runtime() {
    let Some(house) = House::open().await else { return };
    let sandbox = house.sandbox("p").await;
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let script = format!("nc -ll -p {port} -e sh -c 'read line; echo got $line'");
    house.start(&sandbox.id, &shell("c", &script)).await;
    let begin = Instant::now();
    let answer = loop {
        assert!(begin.elapsed() < LIMIT, "nobody listens");
        let mut connection = house.cri.connect(&sandbox.id, port).await.unwrap();
        connection.write_all(b"this\n").await.unwrap();
        let mut answer = String::new();
        // Until somebody listens, reading says why not.
        match tokio::time::timeout(LIMIT, connection.read_to_string(&mut answer)).await.unwrap() {
            Ok(_) => break answer,
            Err(error) => assert!(error.to_string().contains("refused"), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(answer, "got this\n");
}
