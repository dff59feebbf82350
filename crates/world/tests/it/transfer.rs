//! All objects of one state as a stream: what was sent is what is received, or it is told that it is not.

use std::collections::BTreeMap;
use std::io;

use tenure_core::Revision;
use tenure_world::{Received, Transfer, WorldHandle};

use crate::support::*;

/// The stream, in chunks of about so many bytes.
fn sent(world: &WorldHandle, bytes: usize) -> Vec<u8> {
    let mut transfer = Transfer::new(world.current());
    std::iter::from_fn(|| transfer.next(bytes)).flatten().collect()
}

/// The revision and text of each key.
type Entries = BTreeMap<String, (u64, String)>;

fn received(bytes: &[u8]) -> io::Result<(Revision, Entries)> {
    let received = Received::new(bytes)?;
    let revision = received.revision;
    let entry = |entry: tenure_store::LogEntry| {
        (entry.key.to_string(), (entry.revision.0, data(&entry.value.unwrap())))
    };
    let entries: io::Result<_> = received.map(|next| next.map(entry)).collect();
    Ok((revision, entries?))
}

#[tokio::test]
async fn r198_a_state_is_received_as_it_was_sent_whatever_is_written_meanwhile() {
    let world = TestLog::default().open();
    assert_eq!(received(&sent(&world, 100)).unwrap(), (Revision::ZERO, BTreeMap::new()));
    for name in ["a", "b", "c", "d"] {
        write(&world, vec![put(name, &name.repeat(200))]).await;
    }
    write(&world, vec![delete("b"), put("c", "new")]).await;
    let mut transfer = Transfer::new(world.current());
    let mut bytes = Vec::new();
    while let Some(chunk) = transfer.next(1) {
        bytes.extend(chunk);
        write(&world, vec![put("z", "later"), put("a", "later")]).await;
    }
    let (revision, entries) = received(&bytes).unwrap();
    assert_eq!(revision, Revision(5));
    let expected = [("a", 1, "a".repeat(200)), ("c", 5, "new".into()), ("d", 4, "d".repeat(200))];
    let expected = expected.map(|(name, at, text)| (key(name).to_string(), (at, text)));
    assert_eq!(entries, BTreeMap::from(expected));
    assert_eq!(received(&sent(&world, 1 << 20)).unwrap().1.len(), 4);
}

#[tokio::test]
async fn r198_a_stream_that_is_cut_or_something_else_is_told() {
    let world = TestLog::default().open();
    write(&world, vec![put("a", "1"), put("b", "2")]).await;
    let whole = sent(&world, 100);
    assert_eq!(received(&whole).unwrap().1.len(), 2);
    for end in 0..whole.len() {
        let cut = received(&whole[..end]).unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "after {end} bytes");
    }
    for other in ["{\"kind\":\"Status\"}\n", "tenure-snapshot 2 1 1\n", "tenure-snapshot 1 x 1\n"] {
        let error = received(other.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{other}");
    }
    // Lengths are not believed.
    let mut huge = whole;
    let at = huge.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    huge[at + 12..at + 16].fill(0xff);
    assert_eq!(received(&huge).unwrap_err().kind(), io::ErrorKind::InvalidData);
}
