//! Rules of spec/api-server.md.

use std::sync::{Mutex, MutexGuard, mpsc as blocking};

use serde_json::Value;

use super::entry::{agent, uri};
use super::*;

/// A file in memory that can be read while it is written.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.bytes()
            .split_inclusive(|b| *b == b'\n')
            .map(|l| serde_json::from_slice(l).unwrap())
            .collect()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that takes nothing before it is told to.
struct Stuck(blocking::Receiver<()>, Paper);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn entry(id: usize, body: &'static [u8]) -> Box<AuditEvent> {
    Box::new(AuditEvent { id: id.to_string(), body: body.into(), ..AuditEvent::default() })
}

#[tokio::test]
async fn r168_a_flush_waits_for_every_line() {
    let paper = Paper::default();
    let audit = AuditSink::start(AuditLevel::Metadata, Box::new(paper.clone())).unwrap();
    for id in 0..100 {
        audit.say(entry(id, b""));
    }
    audit.flush().await;
    let ids: Vec<String> =
        paper.lines().iter().map(|line| line["auditID"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..100).map(|id: usize| id.to_string()).collect::<Vec<_>>());
    let (written, lost) = audit.counters();
    assert_eq!((written.get(), lost.get()), (100, 0));
    assert_eq!(audit.bytes_waiting.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn r168_a_file_that_takes_nothing_costs_lines_and_never_time() {
    for (lines_max, bytes_max) in [(4, 1 << 20), (1 << 10, 40)] {
        let (go, gate) = blocking::channel();
        let paper = Paper::default();
        // A few lines fit into the buffer before the thread is stuck.
        let out = Box::new(Stuck(gate, paper.clone()));
        let policy = AuditPolicy::of_level(AuditLevel::Request);
        let audit = AuditSink::with_room(policy, out, lines_max, bytes_max).unwrap();
        for id in 0..50 {
            audit.say(entry(id, b"0123456789"));
        }
        let lost = audit.lost.get();
        assert!((20..50).contains(&lost), "{lost} of 50 with room for {lines_max}, {bytes_max}");
        assert!(audit.logged.load(Ordering::Relaxed));
        drop(go);
        audit.flush().await;
        assert_eq!(audit.written.get() + lost, 50);
        assert_eq!(paper.lines().len() as u64, audit.written.get());
        assert_eq!(audit.bytes_waiting.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn r168_credentials_in_a_query_are_not_written() {
    for (given, wanted) in [
        ("/api?a=1&access_token=abc&b=2", "/api?a=1&access_token=REDACTED&b=2"),
        ("/api?Access%5FToken=abc", "/api?Access%5FToken=REDACTED"),
        ("/api?token=abc&token=def", "/api?token=REDACTED&token=REDACTED"),
        ("/api?tokens=abc&x", "/api?tokens=abc&x"),
        ("/api", "/api"),
    ] {
        assert_eq!(uri(&given.parse().unwrap()), wanted);
    }
}

#[test]
fn r168_sources_end_with_the_other_side_of_the_connection() {
    let address: std::net::IpAddr = [10, 0, 0, 1].into();
    let texts = |pairs: &[(&'static str, &'static str)]| {
        let mut headers = http::HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, http::HeaderValue::from_static(value));
        }
        let found = sources(&headers, Some(address));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(texts(&[]), ["10.0.0.1"]);
    assert_eq!(
        texts(&[("x-forwarded-for", "1.2.3.4, nonsense,::1")]),
        ["1.2.3.4", "::1", "10.0.0.1"]
    );
    assert_eq!(texts(&[("x-forwarded-for", "10.0.0.1"), ("x-real-ip", "10.0.0.1")]), ["10.0.0.1"]);
    assert_eq!(texts(&[("x-real-ip", "5.6.7.8")]), ["5.6.7.8", "10.0.0.1"]);
}

#[test]
fn r168_agents_are_cut_at_a_letter() {
    assert_eq!(agent("kubectl/v1"), "kubectl/v1");
    assert_eq!(agent(""), "");
    assert_eq!(agent(&"é".repeat(600)).len(), 1024);
}
