//! Clients that are slow, silent, many, or gone halfway.

use std::time::{Duration, Instant};

use tenure_client_tests::Access;

use super::{MEGABYTE, OBJECTS, with_server};

async fn create(access: &Access, name: &str, bytes: usize) {
    let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}});
    let answer = access.once("POST", OBJECTS, Some(body.to_string().as_bytes())).await.unwrap();
    assert_eq!(answer.code, 201, "{name}");
}

#[test]
fn slow_clients_hold_up_nobody() {
    with_server(|access| async move {
        let mut slow = Vec::new();
        for _ in 0..100 {
            // Half a head, then half a body, then nothing.
            let mut connection = access.connect().await.unwrap();
            connection.write(b"GET /api HTTP/1.1\r\nhost").await.unwrap();
            slow.push(connection);
            let mut connection = access.connect().await.unwrap();
            let head = format!(
                "POST {OBJECTS} HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{{"
            );
            connection.write(head.as_bytes()).await.unwrap();
            slow.push(connection);
        }
        let begin = Instant::now();
        create(&access, "quick", 10).await;
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        drop(slow);
    });
}

#[test]
fn half_closed_watches_end() {
    with_server(|access| async move {
        for _ in 0..50 {
            let mut connection = access.connect().await.unwrap();
            let request = format!("GET {OBJECTS}?watch=true HTTP/1.1\r\nhost: t\r\n\r\n");
            connection.write(request.as_bytes()).await.unwrap();
            let (code, _) = connection.head().await.unwrap();
            assert_eq!(code, 200);
            connection.close_writing().await.unwrap();
            // Some go on reading for a moment, some are dropped here with events on the way.
        }
        create(&access, "after", 10).await;
    });
}

#[test]
fn thousand_watchers_all_see_the_event() {
    let server = with_server(|access| async move {
        let mut watchers = Vec::new();
        let since = access.once("GET", OBJECTS, None).await.unwrap().json().unwrap();
        let since = since["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let path = format!("{OBJECTS}?watch=true&resourceVersion={since}");
        for _ in 0..1000 {
            let connection = access.connect().await.unwrap();
            watchers.push(connection.watch(&path).await.unwrap());
        }
        create(&access, "seen", 1000).await;
        let begin = Instant::now();
        for (number, events) in watchers.iter_mut().enumerate() {
            let event = events.event().await.unwrap().unwrap();
            assert_eq!(event["type"], "ADDED", "watcher {number}");
            assert_eq!(event["object"]["metadata"]["name"], "seen", "watcher {number}");
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    });
    let peak = server.peak_bytes().unwrap();
    assert!(peak < 400 * MEGABYTE, "{peak} bytes for 1,000 watchers");
}

#[test]
fn a_client_that_stops_reading_costs_little() {
    let server = with_server(|access| async move {
        let mut stuck = Vec::new();
        for _ in 0..20 {
            let connection = access.connect().await.unwrap();
            let path = format!("{OBJECTS}?watch=true");
            stuck.push(connection.watch(&path).await.unwrap());
        }
        // 20 watchers times 40 MB would be 800 MB if each had a copy of what it does not read.
        let mut connection = access.connect().await.unwrap();
        let text = "x".repeat(200_000);
        let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "big"}, "data": {"k": text}});
        let answer =
            connection.send("POST", OBJECTS, Some(body.to_string().as_bytes())).await.unwrap();
        assert_eq!(answer.code, 201);
        for number in 0..200 {
            let patch = serde_json::json!({"data": {"n": number.to_string()}}).to_string();
            let answer = connection
                .send_as(
                    "PATCH",
                    &format!("{OBJECTS}/big"),
                    "application/merge-patch+json",
                    Some(patch.as_bytes()),
                )
                .await
                .unwrap();
            assert_eq!(answer.code, 200);
        }
        // An honest watcher beside them is served at once.
        let current = connection.send("GET", OBJECTS, None).await.unwrap().json().unwrap();
        let since = current["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!("{OBJECTS}?watch=true&resourceVersion={since}");
        let mut honest = access.connect().await.unwrap().watch(&path).await.unwrap();
        create(&access, "beside", 10).await;
        let event = honest.event().await.unwrap().unwrap();
        assert_eq!(event["object"]["metadata"]["name"], "beside");
        drop(stuck);
    });
    let peak = server.peak_bytes().unwrap();
    assert!(peak < 400 * MEGABYTE, "{peak} bytes");
}
