//! Fair shares: how much runs at a time, who is next, and what one user may hold (R169, R241).
//!
//! ```text
//!   request ──► level ─┬─ exempt    administrators, health checks: never waits
//!                      ├─ system    nodes, accounts of kube-system: seats of their own
//!                      └─ workload  everybody else
//!                             │
//!                 reads ──► gate ──┐
//!                writes ──► gate ──┴──► seat ──► the work ──► the answer, within a budget of bytes
//! ```
//!
//! A seat is for work that takes a processor: whoever waits for something else gives it back ([`rest`]).
//! Work that takes long has its own threads (see `offload`).

mod budget;
mod fair_queue;
mod gate;
mod metrics;
mod rate;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http_body::Body as _;
use tenure_machinery::Failure;
use tenure_machinery::status::Details;

use prometheus_client::registry::Registry;

use crate::authenticate::User;
use crate::body::Body;

use budget::{Bounds, Budget};
use gate::{ConcurrencyLimiter, NoSeat};
use metrics::{FairnessMetrics, Which};
use rate::Rate;

pub(crate) use budget::BudgetGuard;
pub(crate) use fair_queue::{FairQueue, Flow, QueueLimits};
pub(crate) use gate::Seat;
pub(crate) use rate::Share;

/// How long a request waits for a seat.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// The most seats that one request takes.
const WIDTH_MAX: u32 = 10;
/// So many objects of a collection, or bytes of a body, are worth a seat.
const OBJECTS_PER_SEAT: usize = 100;
const BYTES_PER_SEAT: usize = 128 * 1024;

/// Bodies up to this size are not counted.
const SMALL_BYTES: u64 = 16 * 1024;

/// Bytes of requests and answers that are on their way.
const BYTES: Bounds = Bounds { user: 64 << 20, owner: 128 << 20, all: 256 << 20, always: 8 << 20 };
/// What an answer counts that is made while it is sent: some parts of it, and what it is made from.
const STREAM_BYTES: u64 = 4 << 20;
/// Watches that are open.
const WATCHES: Bounds = Bounds { user: 10_000, owner: 20_000, all: 40_000, always: 100 };

/// Requests and streams that are passed on to nodes. Each takes a connection more than a watch does, and
/// something on the node.
const NODE_CONNECTIONS: Bounds = Bounds { user: 1_000, owner: 2_000, all: 4_000, always: 20 };

/// How much of the server is handed out at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Requests that read.
    pub reads: u32,
    /// Requests that write.
    pub writes: u32,
    /// Connections.
    pub connections: usize,
}

impl Default for ServerLimits {
    /// Seats enough to keep two request threads and a disk busy; more would only wait in worse order.
    fn default() -> ServerLimits {
        ServerLimits { reads: 64, writes: 32, connections: 65_536 }
    }
}

/// Which seats a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PriorityLevel {
    Exempt,
    System,
    Workload,
}

impl PriorityLevel {
    fn of(user: &User) -> PriorityLevel {
        let member = |group: &str| user.groups.iter().any(|member| member == group);
        if member("system:masters") {
            return PriorityLevel::Exempt;
        }
        let serves_cluster = user.name.starts_with("system:serviceaccount:kube-system:")
            || user.name.starts_with("system:kube-");
        if serves_cluster || member("system:nodes") {
            PriorityLevel::System
        } else {
            PriorityLevel::Workload
        }
    }
}

/// The gates of one level.
struct Gates {
    level: &'static str,
    reads: Arc<ConcurrencyLimiter>,
    writes: Arc<ConcurrencyLimiter>,
}

impl Gates {
    fn new(level: &'static str, limits: ServerLimits, shown: &FairnessMetrics) -> Gates {
        let counts = |kind| shown.counts(Which { priority_level: level, request_kind: kind });
        let reads = ConcurrencyLimiter::new(limits.reads, counts(READS));
        Gates { level, reads, writes: ConcurrencyLimiter::new(limits.writes, counts(WRITES)) }
    }
}

/// Upstream's words for what reads and what writes.
const READS: &str = "readOnly";
const WRITES: &str = "mutating";

/// Of what takes connections, only so many hundredths of all there may be for a user, for the accounts of a
/// namespace and for all, so that some are left for everything else (R243).
fn within(connections: usize, bounds: Bounds, [user, owner, all]: [u64; 3]) -> Bounds {
    let part = |hundredths: u64| connections as u64 * hundredths / 100;
    Bounds {
        user: bounds.user.min(part(user)),
        owner: bounds.owner.min(part(owner)),
        all: bounds.all.min(part(all)),
        always: bounds.always,
    }
}

/// The shares of one server.
pub(crate) struct Shares {
    system: Gates,
    workload: Gates,
    bytes: Arc<Budget>,
    watches: Arc<Budget>,
    node_connections: Arc<Budget>,
    rate: Arc<Rate>,
    shown: FairnessMetrics,
}

tokio::task_local! {
    /// The seat of the request that is being answered.
    static SEAT: RefCell<Option<Seat>>;
}

/// Gives the seat of this request back, because it will wait for something that takes no processor.
pub(crate) fn rest() {
    // Outside of requests there is no seat.
    let seat = SEAT.try_with(|seat| seat.try_borrow_mut().ok().and_then(|mut seat| seat.take()));
    drop(seat);
}

/// Does work on a seat, or what is left of it after a [`rest`].
pub(crate) async fn on<T>(seat: Option<Seat>, work: impl Future<Output = T>) -> T {
    match seat {
        Some(seat) => SEAT.scope(RefCell::new(Some(seat)), work).await,
        None => work.await,
    }
}

impl Shares {
    pub(crate) fn new(limits: ServerLimits) -> Shares {
        let shown = FairnessMetrics::default();
        Shares {
            system: Gates::new("system", limits, &shown),
            workload: Gates::new("workload", limits, &shown),
            bytes: Budget::new(BYTES),
            watches: Budget::new(within(limits.connections, WATCHES, [60, 70, 80])),
            node_connections: Budget::new(within(limits.connections, NODE_CONNECTIONS, [5, 7, 10])),
            rate: Rate::new(),
            shown,
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        self.shown.register(registry);
    }

    /// Looks up what is shown; call it just before that is rendered.
    pub(crate) fn measure(&self) {
        self.shown.begin();
        for Gates { level, reads, writes } in [&self.system, &self.workload] {
            for (kind, gate) in [(READS, reads), (WRITES, writes)] {
                let which = Which { priority_level: level, request_kind: kind };
                self.shown.gate(which, gate.seats(), gate.load());
            }
        }
        self.shown.budget("bytes", self.bytes.load());
        self.shown.budget("watches", self.watches.load());
        self.shown.budget("node_connections", self.node_connections.load());
    }

    /// A seat for the work of a user, once it is the user's turn; none for those who need none.
    pub(crate) async fn enter(
        &self,
        user: &User,
        writes: bool,
        width: impl FnOnce() -> u32,
    ) -> Result<Option<Seat>, Failure> {
        let gates = match PriorityLevel::of(user) {
            PriorityLevel::Exempt => return Ok(None),
            PriorityLevel::System => &self.system,
            PriorityLevel::Workload => &self.workload,
        };
        let gate = if writes { &gates.writes } else { &gates.reads };
        let entered = gate.enter(Flow::of(user), width(), WAIT_MAX).await;
        entered.map(Some).map_err(|why| match why {
            NoSeat::Full => too_many("too many of your requests are waiting"),
            NoSeat::Late => too_many("the server has been busy for too long"),
        })
    }

    /// Counts a body of so many bytes while it is on its way; small ones are not counted.
    pub(crate) fn bytes(&self, user: &User, bytes: u64) -> Result<Option<BudgetGuard>, Failure> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let many = || too_many("too many bytes of your requests and answers are on their way");
        take(&self.bytes, user, bytes).ok_or_else(many)
    }

    /// Has a long answer leave no faster than its user's part allows.
    pub(crate) fn pace(&self, user: &User, mut response: Response<Body>) -> Response<Body> {
        let upper = response.body().size_hint().upper();
        let is_long = upper.is_none_or(|bytes| bytes > SMALL_BYTES);
        if is_long && PriorityLevel::of(user) != PriorityLevel::Exempt {
            response.extensions_mut().insert(self.rate.share(Flow::of(user)));
        }
        response
    }

    /// Counts an answer that is made while it is sent.
    pub(crate) fn stream(&self, user: &User) -> Result<Option<BudgetGuard>, Failure> {
        self.bytes(user, STREAM_BYTES)
    }

    /// Counts a watch while it is open.
    pub(crate) fn watch(&self, user: &User) -> Result<Option<BudgetGuard>, Failure> {
        take(&self.watches, user, 1).ok_or_else(|| too_many("too many of your watches are open"))
    }

    /// Counts a request or a stream that is passed on to a node, until it ends.
    pub(crate) fn node_connection(&self, user: &User) -> Result<Option<BudgetGuard>, Failure> {
        let many = || too_many("too many of your requests that are passed on are open");
        take(&self.node_connections, user, 1).ok_or_else(many)
    }
}

/// Some of a budget for a user; nothing is counted for those who are exempt.
fn take(budget: &Arc<Budget>, user: &User, amount: u64) -> Option<Option<BudgetGuard>> {
    if PriorityLevel::of(user) == PriorityLevel::Exempt {
        return Some(None);
    }
    budget.take(Flow::of(user), amount).map(Some)
}

/// How many seats a request takes that is about so many objects.
pub(crate) fn width_of_objects(count: usize) -> u32 {
    width(count / OBJECTS_PER_SEAT)
}

/// So many objects make no difference any more.
pub(crate) const OBJECTS_COUNTED_MAX: usize = OBJECTS_PER_SEAT * WIDTH_MAX as usize;

/// How many seats a request takes with a body of so many bytes.
pub(crate) fn width_of_bytes(count: usize) -> u32 {
    width(count / BYTES_PER_SEAT)
}

fn width(more: usize) -> u32 {
    u32::try_from(more).unwrap_or(u32::MAX).saturating_add(1).min(WIDTH_MAX)
}

/// 429, and when to come again.
pub(crate) fn too_many(why: &str) -> Failure {
    let why = format!("{why}, please try again later");
    let details = Details { retry_after_seconds: 1, ..Details::default() };
    Failure::new(429, "TooManyRequests", why).with(details)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    #[test]
    fn r169_nodes_and_the_cluster_have_seats_of_their_own() {
        for (name, groups, level) in [
            ("admin", &["system:masters"] as &[&str], PriorityLevel::Exempt),
            ("system:node:a", &["system:nodes"], PriorityLevel::System),
            ("system:serviceaccount:kube-system:x", &[], PriorityLevel::System),
            ("system:kube-scheduler", &[], PriorityLevel::System),
            ("system:serviceaccount:kube-systems:x", &[], PriorityLevel::Workload),
            ("alice", &["system:authenticated"], PriorityLevel::Workload),
            ("system:anonymous", &["system:unauthenticated"], PriorityLevel::Workload),
        ] {
            assert_eq!(PriorityLevel::of(&user(name, groups)), level, "{name}");
        }
    }

    #[test]
    fn r169_long_lists_and_large_bodies_take_more_seats() {
        assert_eq!([0, 99, 100, 450, 100_000].map(width_of_objects), [1, 1, 2, 5, 10]);
        assert_eq!([0, 1000, 3 << 20].map(width_of_bytes), [1, 1, 10]);
    }

    #[tokio::test]
    async fn r169_whoever_waits_for_something_else_holds_no_seat() {
        let shares = Shares::new(ServerLimits { reads: 1, writes: 1, ..ServerLimits::default() });
        let alice = user("alice", &[]);
        let inner = async {
            assert_eq!(shares.workload.reads.load().0, 1);
            rest();
            assert_eq!(shares.workload.reads.load().0, 0);
        };
        let seat = shares.enter(&alice, false, || 1).await.unwrap();
        on(seat, inner).await;
        assert_eq!(shares.workload.reads.load(), (0, 0));
        rest();
    }

    #[tokio::test]
    async fn r169_administrators_take_no_seat() {
        let shares = Shares::new(ServerLimits { reads: 0, writes: 0, ..ServerLimits::default() });
        let admin = user("admin", &["system:masters"]);
        assert!(shares.enter(&admin, true, || 1).await.unwrap().is_none());
        assert!(shares.bytes(&admin, u64::MAX).unwrap().is_none());
    }
}
