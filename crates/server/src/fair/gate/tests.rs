//! Rules of spec/api-server.md.

use tokio::task::JoinSet;

use super::*;
use crate::fair::metrics::{FairnessMetrics, Which};

fn gate(seats: u32) -> Arc<ConcurrencyLimiter> {
    let which = Which { priority_level: "workload", request_kind: "readOnly" };
    ConcurrencyLimiter::new(seats, FairnessMetrics::default().counts(which))
}

const LONG: Duration = Duration::from_secs(15);

async fn enter(gate: &Arc<ConcurrencyLimiter>, user: &str) -> Result<Seat, NoSeat> {
    gate.enter(Flow::named(user), 1, LONG).await
}

/// Asks for a seat in a task of its own, and is in line when this returns.
async fn waits(
    gate: &Arc<ConcurrencyLimiter>,
    user: &'static str,
) -> tokio::task::JoinHandle<Result<Seat, NoSeat>> {
    let gate = Arc::clone(gate);
    let task = tokio::spawn(async move { enter(&gate, user).await });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    task
}

#[tokio::test]
async fn r169_seats_are_bounded_and_given_in_turn() {
    let gate = gate(2);
    let (first, second) = (enter(&gate, "m").await.ok(), enter(&gate, "m").await.ok());
    let mut line = Vec::new();
    for user in ["m", "m", "m", "alice"] {
        line.push(waits(&gate, user).await);
    }
    assert_eq!(gate.load(), (2, 4));
    drop(first);
    let held = line.remove(0).await.unwrap().ok();
    drop(second);
    // The second of `m` was there before, but it is the turn of `alice`.
    let alice = line.remove(2).await.unwrap().ok();
    assert!(held.is_some() && alice.is_some());
    assert_eq!(gate.load(), (2, 2));
    drop((held, alice));
    for task in line {
        drop(task.await.unwrap().ok().unwrap());
    }
    assert_eq!(gate.load(), (0, 0));
}

#[tokio::test]
async fn r169_a_full_line_is_refused_and_others_are_not() {
    let gate = gate(1);
    let held = enter(&gate, "m").await.ok();
    let mut line = Vec::new();
    for _ in 0..ROOM.user {
        line.push(waits(&gate, "m").await);
    }
    assert_eq!(enter(&gate, "m").await.err(), Some(NoSeat::Full));
    assert_eq!(gate.counts.full.get(), 1);
    let alice = waits(&gate, "alice").await;
    // Whoever goes away leaves a place.
    line.pop().unwrap().abort();
    tokio::task::yield_now().await;
    let last = waits(&gate, "m").await;
    assert!(!last.is_finished());
    drop(held);
    // Each seat goes on as soon as it is there, in whatever order that is.
    let mut served = JoinSet::new();
    for task in line.into_iter().chain([alice, last]) {
        served.spawn(async move { task.await.unwrap().map(drop) });
    }
    assert!(served.join_all().await.into_iter().all(|seat| seat.is_ok()));
    assert_eq!(gate.load(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn r169_whoever_waits_too_long_is_refused() {
    let gate = gate(1);
    let held = enter(&gate, "m").await.ok();
    assert_eq!(enter(&gate, "alice").await.err(), Some(NoSeat::Late));
    assert_eq!(gate.counts.late.get(), 1);
    drop(held);
    assert_eq!(gate.load(), (0, 0), "the place of the one who left holds no seat");
    assert!(enter(&gate, "alice").await.is_ok());
}

#[tokio::test]
async fn r169_wide_requests_take_more_seats_and_never_more_than_there_are() {
    let gate = gate(4);
    let wide = gate.enter(Flow::named("m"), 100, LONG).await.ok();
    assert_eq!(gate.load().0, 4);
    let waiting = waits(&gate, "m").await;
    drop(wide);
    let one = waiting.await.unwrap().ok();
    assert_eq!(gate.load(), (1, 0));
    drop(one);
    assert_eq!(gate.load(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r169_no_seat_is_lost_or_made_by_many_at_once() {
    let gate = gate(3);
    let users = ["a", "b", "system:serviceaccount:n:c", "system:serviceaccount:n:d"];
    let tasks: Vec<_> = (0..64)
        .map(|number: usize| {
            let (gate, user) = (Arc::clone(&gate), users[number % users.len()]);
            tokio::spawn(async move {
                for round in 0..200_u32 {
                    let width = round % 3 + 1;
                    // Some give up while they wait, some while they are given a seat.
                    let most = Duration::from_micros(u64::from(round % 5) * 50);
                    if let Ok(seat) = gate.enter(Flow::named(user), width, most).await {
                        assert!(gate.load().0 <= 3);
                        tokio::task::yield_now().await;
                        drop(seat);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // What is left in line has been given up; the next to come and go clears it away.
    drop(gate.enter(Flow::named("a"), 1, LONG).await.ok());
    assert_eq!(gate.load(), (0, 0));
}
