//! How many connections there may be, which one gives way when there is no room, and which one is cut
//! because its client takes nothing any more (api-server R243).
//!
//! ```text
//!   accept ──► room? ─ yes ─► held until it ends, or until what it became ends
//!                └── no ──► the one that has been idle for longest is closed; none is idle: refused
//!
//!   an answer ──► a piece is given to the socket ──► is it asked for the next one?
//!                                                     └── not for 30 s: the connection is cut
//! ```
//!
//! What keeps connections busy has bounds of its own: seats, queues, bytes and watches (`fair`).

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio::time::Sleep;

use crate::body::Body;
use crate::clock;
use crate::fair::Share;

/// How often the age of unread pieces is looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Pieces are counted by the look they were given after. Whoever has not taken one for three looks in full
/// is cut, so that nobody is who took something within 30 s, and everybody who took nothing for 40 s.
const AGES: usize = 5;

/// What a connection holds of an answer is a piece; the rest waits where it is counted (R241).
const PIECE_BYTES: usize = 64 * 1024;
/// The end of a longer answer is said apart, so that whoever does not take its last piece is seen.
const SAID_AT_ONCE_BYTES: usize = 4 * 1024;

/// All connections of one listener.
pub(super) struct Connections {
    most: usize,
    begin: Instant,
    /// How often was looked for clients that take nothing.
    looks: Arc<AtomicUsize>,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    // INVARIANT: holds a connection from its acceptance until its `ConnectionGuard` is dropped.
    by_number: BTreeMap<u64, Arc<Activity>>,
    next: u64,
}

/// What a connection is doing.
pub(super) struct Activity {
    begin: Instant,
    requests: AtomicU32,
    /// When it was last busy, in milliseconds.
    last_busy: AtomicU64,
    gives_way: Notify,
    stalled: Notify,
    looks: Arc<AtomicUsize>,
    /// How many answers wait for the client to take a piece, by the age of the piece.
    unread: [AtomicU32; AGES],
}

/// A place among the connections, until this is dropped.
pub(super) struct ConnectionGuard {
    connections: Arc<Connections>,
    number: u64,
    activity: Arc<Activity>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Arc<Connections> {
        Arc::new(Connections {
            most: most.max(1),
            begin: clock::instant(),
            looks: Arc::default(),
            open: Mutex::default(),
        })
    }

    /// A place for one more; none if all are taken by connections that are busy.
    pub(super) fn add(self: &Arc<Connections>) -> Option<Arc<ConnectionGuard>> {
        let mut open = self.lock();
        if open.by_number.len() >= self.most {
            let idle = open.by_number.iter().filter(|(_, activity)| activity.is_idle());
            let longest =
                idle.min_by_key(|(_, activity)| activity.last_busy.load(Ordering::Relaxed));
            let number = longest.map(|(number, _)| *number)?;
            // Its place is free at once, its socket a moment later.
            open.by_number.remove(&number)?.gives_way.notify_one();
        }
        let (number, activity) = (open.next, Arc::new(Activity::new(self)));
        open.next += 1;
        open.by_number.insert(number, Arc::clone(&activity));
        Some(Arc::new(ConnectionGuard { connections: Arc::clone(self), number, activity }))
    }

    /// Cuts the connections whose clients have taken nothing for long; call it at every look.
    pub(super) fn cut_stalled(&self) -> usize {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        let open = self.lock();
        // The place that the next look will count in holds the oldest.
        let is_stalled =
            |activity: &&Arc<Activity>| activity.unread(look + 1).load(Ordering::Relaxed) > 0;
        let stalled = open.by_number.values().filter(is_stalled);
        stalled.inspect(|activity| activity.stalled.notify_one()).count()
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        // Nothing panics while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionGuard {
    pub(super) fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }

    /// A request begins; it ends when this is dropped.
    pub(super) fn request(self: &Arc<ConnectionGuard>) -> BusyGuard {
        self.activity.requests.fetch_add(1, Ordering::Relaxed);
        BusyGuard(Arc::clone(self))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.lock().by_number.remove(&self.number);
    }
}

impl Activity {
    fn new(connections: &Connections) -> Activity {
        let activity = Activity {
            begin: connections.begin,
            requests: AtomicU32::new(0),
            last_busy: AtomicU64::new(0),
            gives_way: Notify::new(),
            stalled: Notify::new(),
            looks: Arc::clone(&connections.looks),
            unread: Default::default(),
        };
        activity.was_busy();
        activity
    }

    /// Resolves when another connection got its place.
    pub(super) async fn gives_way(&self) {
        self.gives_way.notified().await;
    }

    /// Resolves when its client has taken nothing for long.
    pub(super) async fn stalled(&self) {
        self.stalled.notified().await;
    }

    /// The count of pieces that were given after a look.
    fn unread(&self, look: usize) -> &AtomicU32 {
        let [first, ..] = &self.unread;
        self.unread.get(look % AGES).unwrap_or(first)
    }

    fn is_idle(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    fn was_busy(&self) {
        let now = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_busy.store(now, Ordering::Relaxed);
    }
}

/// A request that is being answered, or a stream that it became. Its connection keeps its place meanwhile.
pub(crate) struct BusyGuard(Arc<ConnectionGuard>);

impl Clone for BusyGuard {
    fn clone(&self) -> BusyGuard {
        self.0.request()
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        let activity = &self.0.activity;
        activity.was_busy();
        activity.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl BusyGuard {
    /// The answer, which keeps its connection busy until the last byte is sent.
    pub(super) fn until_sent(self, response: Response<Body>) -> Response<Body> {
        let share = response.extensions().get::<Share>().cloned();
        response.map(|body| {
            let (rest, waits) = (Bytes::new(), None);
            let mut sending =
                Sending { body, rest, given: 0, unread: None, share, waits, busy: self };
            // A client that leaves no room for the first byte takes nothing either.
            sending.give();
            BodyExt::boxed_unsync(sending)
        })
    }
}

/// A body on its way, a piece at a time.
///
/// HTTP/2 asks a body for more only while its client has room for it, HTTP/1.1 while the socket has. So an
/// answer that is not asked is one that is not read, and nothing else tells so.
struct Sending {
    body: Body,
    /// What the body gave and the socket did not get yet.
    rest: Bytes,
    given: usize,
    /// The look after which the client was given a piece to take; none while the answer waits for its maker.
    unread: Option<usize>,
    /// Its user's part in what is sent, and the moment before which nothing more is.
    share: Option<Share>,
    waits: Option<Pin<Box<Sleep>>>,
    busy: BusyGuard,
}

impl Sending {
    /// The client is to take something.
    fn give(&mut self) {
        let activity = &self.busy.0.activity;
        let look = activity.looks.load(Ordering::Relaxed);
        activity.unread(look).fetch_add(1, Ordering::Relaxed);
        self.unread = Some(look);
    }

    /// The client has taken what it was given.
    fn taken(&mut self) {
        if let Some(look) = self.unread.take() {
            self.busy.0.activity.unread(look).fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.taken();
    }
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.taken();
        if let Some(waits) = &mut self.waits {
            ready!(waits.as_mut().poll(cx));
            self.waits = None;
        }
        if self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                other => return other,
            }
        }
        let length = self.rest.len().min(PIECE_BYTES);
        let piece = self.rest.split_to(length);
        self.given = self.given.saturating_add(length);
        self.give();
        let share = self.share.as_ref().filter(|_| length > SAID_AT_ONCE_BYTES);
        let until = share.and_then(|share| share.given(length));
        self.waits = until.map(|until| Box::pin(tokio::time::sleep_until(until.into())));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.given <= SAID_AT_ONCE_BYTES && self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, mut hint) = (self.rest.len() as u64, self.body.size_hint());
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn r243_the_connection_that_is_idle_for_longest_gives_way() {
        let connections = Connections::new(2);
        let first = connections.add().unwrap();
        std::thread::sleep(Duration::from_millis(3));
        let second = connections.add().unwrap();
        std::thread::sleep(Duration::from_millis(3));
        // The first was busy since, so the second has been idle for longer.
        drop(first.request());
        let third = connections.add().unwrap();
        let open: Vec<u64> = connections.lock().by_number.keys().copied().collect();
        assert_eq!(open, [first.number, third.number]);
        drop(second);
        assert_eq!(connections.lock().by_number.len(), 2, "it left already");
    }

    #[test]
    fn r243_busy_connections_stay_and_one_more_is_refused() {
        let connections = Connections::new(1);
        let held = connections.add().unwrap();
        let busy = held.request();
        assert!(connections.add().is_none());
        let response = busy.until_sent(Response::new(crate::body::full("x")));
        assert!(connections.add().is_none(), "the answer is not sent yet");
        drop(response);
        assert!(connections.add().is_some());
    }

    /// Asks a body once, as a socket with room does.
    fn ask(response: &mut Response<Body>) -> Poll<Option<usize>> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let polled = http_body::Body::poll_frame(Pin::new(response.body_mut()), &mut cx);
        polled.map(|frame| frame.map(|frame| frame.unwrap().into_data().unwrap().len()))
    }

    fn looks(connections: &Connections) -> [usize; 3] {
        [(); 3].map(|()| connections.cut_stalled())
    }

    #[test]
    fn r243_a_connection_whose_client_takes_nothing_is_cut() {
        let connections = Connections::new(2);
        let held = connections.add().unwrap();
        let mut response = held.request().until_sent(Response::new(crate::body::full("x")));
        assert_eq!(looks(&connections), [0, 0, 0], "there is time");
        assert_eq!(ask(&mut response), Poll::Ready(Some(1)));
        assert_eq!(looks(&connections), [0, 0, 0], "the piece is younger than the answer");
        assert_eq!(connections.cut_stalled(), 1);
        drop(response);
        assert_eq!(connections.cut_stalled(), 0);
    }

    #[test]
    fn r243_a_watch_without_events_is_not_unread() {
        let connections = Connections::new(1);
        let held = connections.add().unwrap();
        let (_sender, body) = crate::body::StreamingBody::channel();
        let mut response = held.request().until_sent(Response::new(body));
        assert_eq!(ask(&mut response), Poll::Pending);
        for _ in 0..2 * AGES {
            assert_eq!(connections.cut_stalled(), 0);
        }
    }

    #[test]
    fn r243_a_long_answer_is_given_in_pieces_and_ends_apart() {
        let connections = Connections::new(1);
        let held = connections.add().unwrap();
        let long = PIECE_BYTES * 2 + 1;
        let mut response =
            held.request().until_sent(Response::new(crate::body::full(vec![b'x'; long])));
        let size = |response: &Response<Body>| {
            http_body::Body::size_hint(response.body()).exact().unwrap()
        };
        assert_eq!(size(&response), long as u64);
        assert_eq!(ask(&mut response), Poll::Ready(Some(PIECE_BYTES)));
        assert_eq!(size(&response), (PIECE_BYTES + 1) as u64);
        assert_eq!(ask(&mut response), Poll::Ready(Some(PIECE_BYTES)));
        assert_eq!(ask(&mut response), Poll::Ready(Some(1)));
        assert!(!http_body::Body::is_end_stream(response.body()), "nobody took it yet");
        assert!(connections.add().is_none());
        assert_eq!(ask(&mut response), Poll::Ready(None));
    }

    #[test]
    fn r243_what_a_connection_became_keeps_its_place() {
        let connections = Connections::new(1);
        let held = connections.add().unwrap();
        let stream = held.request().clone();
        drop(held);
        assert!(connections.add().is_none());
        drop(stream);
        assert!(connections.add().is_some());
    }
}
