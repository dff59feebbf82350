//! Rules of spec/downward-api.md: logs, from files to answers.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tenure_node::logs::{LogChunk, LogReadOptions, LogReader, LogStream, last_lines, parse_line};

use crate::fake::Node;

fn line(second: u32, source: &str, tag: &str, text: &str) -> String {
    format!("2026-01-02T03:04:{second:02}.5Z {source} {tag} {text}\n")
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn append(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn read(log: &Path, wanted: LogReadOptions) -> String {
    let mut reader = LogReader::open(log.parent().unwrap(), log, wanted).unwrap();
    let mut out = Vec::new();
    while let LogChunk::Bytes(bytes) = reader.next_piece().unwrap() {
        out.extend_from_slice(&bytes);
    }
    String::from_utf8(out).unwrap()
}

/// A node's answer to a request for a log: the code, and the body as it comes.
async fn ask(node: &Node, container: &str, query: &str) -> http::Response<hyper::body::Incoming> {
    let wire = TokioIo::new(node.dial());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(wire).await.unwrap();
    tokio::spawn(connection);
    let path = format!("/containerLogs/shop/web/{container}?{query}");
    let request = http::Request::get(path).header("host", "here").body(Empty::<Bytes>::new());
    sender.send_request(request.unwrap()).await.unwrap()
}

async fn text(node: &Node, container: &str, query: &str) -> (u16, String) {
    let answer = ask(node, container, query).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn r115_a_line_has_a_time_a_stream_a_tag_and_bytes() {
    let read = parse_line(b"2026-01-02T03:04:05.000000007Z stderr P a  b ").unwrap();
    assert_eq!((read.source, read.partial, read.bytes), (LogStream::Stderr, true, &b"a  b "[..]));
    assert_eq!(read.time.to_string(), "2026-01-02T03:04:05.000000007Z");
    assert_eq!(parse_line(b"2026-01-02T03:04:05+02:00 stdout F ").unwrap().bytes, b"");
    assert_eq!(parse_line(b"2026-01-02T03:04:05Z stdout F").unwrap().bytes, b"");
    assert!(parse_line(b"2026-01-02T03:04:05Z stdout P:x y").unwrap().partial);
    for broken in
        ["", "now stdout F x", "2026-01-02T03:04:05Z std F x", "2026-01-02T03:04:05Z stdout X x"]
    {
        assert_eq!(parse_line(broken.as_bytes()), None, "{broken}");
    }
}

#[test]
fn r115_partial_lines_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    let text = line(1, "stdout", "P", "one, ")
        + &line(2, "stderr", "F", "aside")
        + &line(3, "stdout", "F", "two");
    write(&log, &text);
    assert_eq!(read(&log, LogReadOptions::default()), "one, aside\ntwo\n");
    let only = LogReadOptions {
        source: Some(LogStream::Stdout),
        timestamps: true,
        ..LogReadOptions::default()
    };
    assert_eq!(read(&log, only), "2026-01-02T03:04:01.500000000Z one, two\n");
}

#[test]
fn r117_the_last_lines_are_found_across_rotated_files() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    write(
        &folder.path().join("0.log.20260102-030400.000000001"),
        &(line(1, "stdout", "F", "1") + &line(2, "stdout", "F", "2")),
    );
    write(
        &folder.path().join("0.log.20260102-030401.000000002"),
        &(line(3, "stdout", "P", "3") + &line(4, "stdout", "F", "4")),
    );
    write(&log, &(line(5, "stdout", "F", "5") + "2026-01-02T03:04:06Z stdout F cut off"));
    // Files of others are not the log's.
    write(&folder.path().join("0.log.20260102.gz"), "x");
    write(&folder.path().join("1.log"), &line(9, "stdout", "F", "9"));
    for (lines, expected) in [
        (0, ""),
        (1, "5\n"),
        (2, "34\n5\n"),
        (3, "2\n34\n5\n"),
        (4, "1\n2\n34\n5\n"),
        (9, "1\n2\n34\n5\n"),
    ] {
        let wanted = LogReadOptions { tail: Some(lines), ..LogReadOptions::default() };
        assert_eq!(read(&log, wanted), expected, "{lines}");
    }
    assert_eq!(read(&log, LogReadOptions::default()), "1\n2\n34\n5\n");
    // The last words of each stream had no end.
    write(
        &log,
        &(line(6, "stdout", "P", "6")
            + &line(7, "stderr", "F", "7")
            + &line(8, "stdout", "P", "8")),
    );
    for (lines, expected) in [(0, ""), (1, "8"), (2, "67\n8"), (3, "34\n67\n8")] {
        let wanted = LogReadOptions { tail: Some(lines), ..LogReadOptions::default() };
        assert_eq!(read(&log, wanted), expected, "{lines}");
    }
}

#[test]
fn r118_lines_before_the_bound_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    write(&log, &(1..6).map(|n| line(n, "stdout", "F", &n.to_string())).collect::<String>());
    let since = Some("2026-01-02T03:04:03.5Z".parse().unwrap());
    assert_eq!(read(&log, LogReadOptions { since, ..LogReadOptions::default() }), "3\n4\n5\n");
    // The last lines are counted first.
    assert_eq!(
        read(&log, LogReadOptions { since, tail: Some(2), ..LogReadOptions::default() }),
        "4\n5\n"
    );
}

#[test]
fn r119_times_have_nine_digits() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    write(&log, "2026-01-02T03:04:05Z stdout F a\n2026-01-02T05:04:05.12+02:00 stdout F b\n");
    let wanted = LogReadOptions { timestamps: true, ..LogReadOptions::default() };
    let expected = "2026-01-02T03:04:05.000000000Z a\n2026-01-02T03:04:05.120000000Z b\n";
    assert_eq!(read(&log, wanted), expected);
}

#[test]
fn r122_the_limit_cuts_within_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    write(&log, &(line(1, "stdout", "F", "first") + &line(2, "stdout", "F", "second")));
    for (limit, expected) in [(1, "f"), (6, "first\n"), (9, "first\nsec"), (99, "first\nsecond\n")]
    {
        assert_eq!(
            read(&log, LogReadOptions { limit: Some(limit), ..LogReadOptions::default() }),
            expected
        );
    }
}

#[test]
fn r215_a_log_elsewhere_or_behind_a_link_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    write(&secret, &line(1, "stdout", "F", "secret"));
    let root = folder.path().join("logs");
    fs::create_dir_all(root.join("pod")).unwrap();
    let opened = |log: &Path| {
        LogReader::open(&root, log, LogReadOptions::default()).map(|mut log| log.next_piece())
    };
    assert!(opened(&secret).is_err());
    assert!(opened(&root.join("pod/../../secret")).is_err());
    std::os::unix::fs::symlink(&secret, root.join("pod/0.log")).unwrap();
    assert!(opened(&root.join("pod/0.log")).is_err());
    std::os::unix::fs::symlink(folder.path(), root.join("out")).unwrap();
    assert!(opened(&root.join("out/secret")).is_err());
}

#[test]
fn r99_the_last_lines_are_at_most_so_many_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    write(&log, &(0..50).map(|n| line(1, "stdout", "F", &format!("line {n}"))).collect::<String>());
    assert_eq!(last_lines(&log, 2, 2048), b"line 48\nline 49\n");
    assert_eq!(last_lines(&log, 80, 10), b"8\nline 49\n");
    assert_eq!(last_lines(&folder.path().join("none.log"), 80, 10), b"");
}

#[tokio::test]
async fn r116_r123_who_cannot_be_answered_is_told_why() {
    let node = Node::new();
    for (container, query, code, why) in [
        (
            "main",
            "sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z",
            422,
            "{\"message\": \"Invalid request.\"}",
        ),
        ("main", "tailLines=-1", 422, "{\"message\": \"Invalid request.\"}"),
        ("main", "limitBytes=0", 422, "{\"message\": \"Invalid request.\"}"),
        ("main", "sinceSeconds=0", 422, "{\"message\": \"Invalid request.\"}"),
        ("main", "stream=Stdout&tailLines=1", 422, "{\"message\": \"Invalid request.\"}"),
        ("main", "tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"),
        ("none", "", 404, "container \"none\" not found in pod \"web\""),
        (
            "slow",
            "",
            400,
            "container \"slow\" in pod \"web\" is waiting to start: ContainerCreating",
        ),
        (
            "bad",
            "",
            400,
            "container \"bad\" in pod \"web\" is waiting to start: image can't be pulled",
        ),
        (
            "worse",
            "",
            400,
            "container \"worse\" in pod \"web\" is waiting to start: trying and failing to pull image",
        ),
        ("odd", "", 400, "container \"odd\" in pod \"web\" is waiting to start - no logs yet"),
        (
            "slow",
            "previous=true",
            400,
            "previous terminated container \"slow\" in pod \"web\" not found",
        ),
    ] {
        assert_eq!(
            text(&node, container, query).await,
            (code, why.to_owned()),
            "{container} {query}"
        );
    }
}

#[tokio::test]
async fn r120_the_instance_before_has_its_own_log() {
    let node = Node::new();
    write(&node.log(0), &line(1, "stdout", "F", "before"));
    write(&node.log(1), &line(2, "stdout", "F", "now"));
    assert_eq!(text(&node, "main", "").await, (200, "now\n".into()));
    assert_eq!(text(&node, "main", "previous=true").await, (200, "before\n".into()));
    assert_eq!(text(&node, "main", "timestamps=true&limitBytes=33").await.1.len(), 33);
}

#[tokio::test]
async fn r121_following_goes_on_through_a_rotation_and_ends_with_the_container() {
    let node = Node::new();
    let log = node.log(1);
    write(&log, &line(1, "stdout", "F", "1"));
    let mut body = ask(&node, "main", "follow=true").await.into_body();
    let mut next = async || {
        let frame = tokio::time::timeout(Duration::from_secs(5), body.frame()).await.unwrap();
        frame.map(|frame| String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap())
    };
    assert_eq!(next().await.unwrap(), "1\n");
    append(&log, &line(2, "stdout", "F", "2"));
    assert_eq!(next().await.unwrap(), "2\n");
    fs::rename(&log, log.with_file_name("1.log.20260102-030405.000000001")).unwrap();
    append(&log.with_file_name("1.log.20260102-030405.000000001"), &line(3, "stdout", "F", "3"));
    assert_eq!(next().await.unwrap(), "3\n");
    append(&log, &line(4, "stdout", "F", "4"));
    assert_eq!(next().await.unwrap(), "4\n");
    // Two rotations at once: nothing is passed over.
    for n in [5, 6] {
        fs::rename(&log, log.with_file_name(format!("1.log.20260102-03040{n}.000000001"))).unwrap();
        append(&log, &line(n, "stdout", "F", &n.to_string()));
    }
    let mut seen = String::new();
    while seen.len() < 4 {
        seen += &next().await.unwrap();
    }
    assert_eq!(seen, "5\n6\n");
    append(&log, &line(7, "stdout", "F", "7"));
    node.end();
    assert_eq!(next().await.unwrap(), "7\n");
    assert_eq!(next().await, None);
}

#[test]
fn r121_a_reader_at_the_end_passes_nothing_over_when_a_log_is_rotated_twice() {
    const LINES: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("0.log");
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let count = |said: &str| said.lines().count();
    let mut reader = LogReader::open(folder.path(), &log, LogReadOptions::default()).unwrap();
    let mut said = String::new();
    let until = Instant::now() + Duration::from_secs(30);
    let lost = || Instant::now() > until;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            append(&log, &line(0, "stdout", "F", "0"));
            for n in 1..LINES {
                // Two lines in two files whenever everything was read.
                while n % 2 == 1 && seen.load(Ordering::Acquire) < n && !lost() {
                    std::hint::spin_loop();
                }
                let old = format!("0.log.20260102-030405.{n:09}");
                fs::rename(&log, log.with_file_name(old)).unwrap();
                append(&log, &line(1, "stdout", "F", &n.to_string()));
            }
        });
        while count(&said) < LINES && !lost() {
            if let LogChunk::Bytes(bytes) = reader.next_piece().unwrap() {
                said.push_str(std::str::from_utf8(&bytes).unwrap());
                seen.store(count(&said), Ordering::Release);
            }
        }
    });
    let wrong = said.lines().enumerate().find(|(n, line)| *line != n.to_string());
    assert_eq!((wrong, count(&said)), (None, LINES));
}

#[tokio::test]
async fn r121_following_ends_when_the_client_leaves() {
    let node = Node::new();
    write(&node.log(1), &line(1, "stdout", "F", "1"));
    let before = open_files();
    let answer = ask(&node, "main", "follow=true").await;
    crate::fake::until("the log is open", || open_files() > before).await;
    drop(answer);
    crate::fake::until("the log is closed", || open_files() <= before).await;
}

/// How many log files of tests this process has open.
fn open_files() -> usize {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let open = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    open.filter(|path| path.to_string_lossy().ends_with("shop_web_u-1/main/1.log")).count()
}

#[tokio::test]
async fn r124_a_line_is_seen_at_once() {
    let node = Node::new();
    let log = node.log(1);
    write(&log, &line(1, "stdout", "F", "1"));
    let mut body = ask(&node, "main", "follow=true").await.into_body();
    body.frame().await.unwrap().unwrap();
    let mut delays = Vec::new();
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let begin = Instant::now();
        append(&log, &line(2, "stdout", "F", "2"));
        body.frame().await.unwrap().unwrap();
        delays.push(begin.elapsed());
    }
    delays.sort();
    // The target is 5 ms for 99 in 100; a busy machine is given more.
    assert!(delays[25] < Duration::from_millis(20), "{:?}", delays[25]);
}

#[tokio::test]
async fn a_client_that_stops_reading_holds_little() {
    let node = Node::new();
    let log = node.log(1);
    let long = line(1, "stdout", "F", &"x".repeat(1000)).repeat(20_000);
    write(&log, &long);
    let mut body = ask(&node, "main", "follow=true").await.into_body();
    body.frame().await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    // 20 MB wait in the file; what the agent has read of it is a few pieces.
    let read: u64 = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let of = fs::read_link(entry.path()).ok()?;
            let number = entry.file_name().into_string().ok()?;
            (of == log).then_some(number)
        })
        .filter_map(|number| fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok())
        .filter_map(|about| about.lines().next()?.strip_prefix("pos:")?.trim().parse::<u64>().ok())
        .sum();
    assert!(read > 0 && read < 2_000_000, "{read} bytes were read ahead");
}

proptest! {
    /// The last lines are the same whether they are found from the end or from the beginning.
    #[test]
    fn the_last_lines_are_the_last_lines(
        lines in proptest::collection::vec((0_usize..40_000, any::<bool>()), 0..30), tail in 0_u64..12,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        let text: String = lines
            .iter()
            .enumerate()
            .map(|(n, (size, partial))| {
                line(1, "stdout", if *partial { "P" } else { "F" }, &format!("{n}{}", "x".repeat(*size)))
            })
            .collect();
        write(&log, &text);
        let all = read(&log, LogReadOptions::default());
        let mut ends: Vec<usize> = all.match_indices('\n').map(|(at, _)| at + 1).collect();
        if !all.is_empty() && !all.ends_with('\n') {
            // The last line was written without an end.
            ends.push(all.len());
        }
        let begin = ends.len().checked_sub(usize::try_from(tail).unwrap() + 1);
        let begin = begin.map_or(0, |at| ends[at]);
        prop_assert_eq!(read(&log, LogReadOptions { tail: Some(tail), ..LogReadOptions::default() }), &all[begin..]);
    }

    #[test]
    fn a_log_of_any_bytes_is_read_to_its_end(bytes: Vec<u8>, tail in proptest::option::of(0_u64..5)) {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("0.log");
        fs::write(&log, &bytes).unwrap();
        let mut reader = LogReader::open(folder.path(), &log, LogReadOptions { tail, ..LogReadOptions::default() }).unwrap();
        while let LogChunk::Bytes(_) = reader.next_piece().unwrap() {}
    }
}
