//! Rules of spec/attach.md: synthesis against a server that is slow, forgets, refuses, and has others on it.

#![allow(clippy::disallowed_methods, reason = "a test may read the clock")]

use std::collections::BTreeMap;

use serde_json::json;
use tenure_references::{Resource, Subject};

use super::*;

type Stored = BTreeMap<(ShardKey, RoleKind), Value>;

/// A server with one namespace for each letter, and the events that were not heard of yet.
struct Server {
    stored: Stored,
    events: VecDeque<(RoleKind, Value, bool)>,
    version: u64,
    guarded: bool,
    refuses: bool,
}

struct Bench {
    synthesis: Synthesis,
    server: Server,
    now: Instant,
    writes: Vec<String>,
}

fn secret(namespace: &str, name: &str) -> ObjectName {
    ObjectName::new(&Resource::new("", "secrets"), namespace, name)
}

fn owner(uid: &str) -> Option<RoleOwner> {
    let (namespace, name) = ("edge".to_owned(), "edge".to_owned());
    Some(RoleOwner { uid: uid.into(), subject: Subject::ServiceAccount { namespace, name } })
}

fn key(shard: usize) -> ShardKey {
    ShardKey { consumer: "edge".into(), namespace: "shop".into(), shard }
}

impl Server {
    fn put(&mut self, key: &ShardKey, kind: RoleKind, mut object: Value) -> Value {
        self.version += 1;
        let before = self.stored.get(&(key.clone(), kind));
        let uid = before
            .map_or_else(|| self.version.to_string().into(), |one| one["metadata"]["uid"].clone());
        object["metadata"]["uid"] = uid;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.stored.insert((key.clone(), kind), object.clone());
        self.events.push_back((kind, object.clone(), true));
        object
    }

    fn remove(&mut self, key: &ShardKey, kind: RoleKind) {
        if let Some(object) = self.stored.remove(&(key.clone(), kind)) {
            self.version += 1;
            self.events.push_back((kind, object, false));
        }
    }

    fn answer(&mut self, work: &RoleWork) -> RoleOutcome {
        if self.refuses {
            return RoleOutcome::Failed("not now".into());
        }
        match work {
            RoleWork::Get(key, kind) => match self.stored.get(&(key.clone(), *kind)) {
                Some(object) => RoleOutcome::Found(object.clone()),
                None => RoleOutcome::Gone,
            },
            RoleWork::Apply(key, kind, object) => {
                assert!(self.guarded, "nothing is written without the policy");
                RoleOutcome::Found(self.put(key, *kind, object.clone()))
            }
            RoleWork::Delete(key, kind, uid) => {
                let there = self.stored.get(&(key.clone(), *kind));
                if there.is_some_and(|object| object["metadata"]["uid"] == **uid) {
                    self.remove(key, *kind);
                }
                RoleOutcome::Gone
            }
            RoleWork::Guard(_) => unreachable!("asked elsewhere"),
        }
    }
}

impl Bench {
    fn new() -> Bench {
        let server = Server {
            stored: Stored::new(),
            events: VecDeque::new(),
            version: 0,
            guarded: true,
            refuses: false,
        };
        let mut synthesis = Synthesis::new();
        let now = Instant::now();
        synthesis.put_consumer("edge", owner("c1"), now);
        synthesis.adopt();
        synthesis.index_ready(now);
        Bench { synthesis, server, now, writes: Vec::new() }
    }

    /// One thing that is to be done now; whether there was one.
    fn step(&mut self) -> bool {
        let Some(work) = self.synthesis.next(self.now) else { return false };
        if let RoleWork::Guard(key) = &work {
            let outcome = match self.server.guarded {
                true => GuardOutcome::Refused,
                false => GuardOutcome::Accepted,
            };
            self.synthesis.guard_ended(key, outcome, self.now);
            return true;
        }
        let outcome = self.server.answer(&work);
        match &work {
            RoleWork::Apply(key, kind, _) => {
                self.writes.push(format!("apply {kind:?} {}", key.shard))
            }
            RoleWork::Delete(key, kind, _) => {
                self.writes.push(format!("delete {kind:?} {}", key.shard))
            }
            RoleWork::Get(..) | RoleWork::Guard(_) => {}
        }
        self.synthesis.ended(&work, outcome, self.now);
        true
    }

    /// An event is heard of; whether there was one. Who watches by label hears of one that lost it as of one that
    /// is gone.
    fn hear(&mut self) -> bool {
        let Some((kind, object, is_there)) = self.server.events.pop_front() else { return false };
        let (manager, tenure) = crate::MANAGED_BY;
        if is_there && object["metadata"]["labels"][manager] == tenure {
            self.synthesis.seen(kind, object, true, self.now);
        } else {
            self.synthesis.lost(kind, &object, true, self.now);
        }
        true
    }

    /// Lets time pass until nothing happens any more.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if self.hear() || self.step() {
                continue;
            }
            let Some(due) = self.synthesis.due() else { return };
            // What is looked at again and again is settled.
            if due > self.now + Duration::from_secs(60) {
                return;
            }
            self.now = self.now.max(due);
        }
    }

    fn opened(&mut self, name: &str) {
        self.synthesis.target_opened("edge", &secret("shop", name), self.now);
    }

    fn closed(&mut self, name: &str) {
        self.synthesis.target_closed("edge", &secret("shop", name), self.now);
    }

    /// What the subject may read, by Roles that are bound.
    fn readable(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for ((key, kind), object) in &self.server.stored {
            let bound = self.server.stored.get(&(key.clone(), RoleKind::Binding));
            let counts = bound.is_some_and(|bound| bound["roleRef"]["name"] == key.name());
            if *kind == RoleKind::Role && counts {
                all.extend(roles::targets(object).into_iter().map(|target| target.name));
            }
        }
        all
    }
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a20_a_role_comes_before_its_binding_and_goes_after_it() {
    let mut bench = Bench::new();
    bench.opened("a");
    bench.settle();
    assert_eq!(bench.writes, ["apply Role 0", "apply Binding 0"]);
    assert_eq!(bench.readable(), names(&["a"]));
    bench.closed("a");
    bench.settle();
    assert_eq!(bench.writes[2..], ["delete Binding 0", "delete Role 0"]);
    assert!(bench.server.stored.is_empty());
    assert_eq!(bench.synthesis.behind(), 0);
}

#[test]
fn a24_removals_are_due_at_once_and_additions_together() {
    let mut bench = Bench::new();
    bench.opened("a");
    bench.opened("b");
    bench.settle();
    assert_eq!(bench.writes.len(), 2, "one Role for both: {:?}", bench.writes);
    bench.opened("c");
    assert_eq!(bench.synthesis.due(), Some(bench.now + GATHERED));
    bench.closed("a");
    assert_eq!(bench.synthesis.due(), Some(bench.now));
    bench.settle();
    assert_eq!(bench.writes[2..], ["apply Role 0"]);
    assert_eq!(bench.readable(), names(&["b", "c"]));
}

#[test]
fn a23_nothing_is_written_while_the_policy_is_missing() {
    let mut bench = Bench::new();
    bench.server.guarded = false;
    bench.opened("a");
    for _ in 0..50 {
        bench.step();
        bench.now += Duration::from_secs(1);
    }
    assert!(bench.server.stored.is_empty() && bench.synthesis.lacks_guard());
    bench.server.guarded = true;
    bench.settle();
    assert_eq!(bench.readable(), names(&["a"]));
    assert!(!bench.synthesis.lacks_guard());
    // It is looked for again, and what is to go goes without it.
    bench.server.guarded = false;
    bench.now += GUARD_GOOD;
    bench.closed("a");
    bench.settle();
    assert!(bench.server.stored.is_empty());
    bench.opened("b");
    bench.now += GATHERED;
    while bench.step() {}
    assert!(bench.synthesis.lacks_guard());
}

#[test]
fn a24_what_others_change_is_undone_and_counted() {
    let mut bench = Bench::new();
    bench.opened("a");
    bench.settle();
    let role = (key(0), RoleKind::Role);
    let mut opened = bench.server.stored[&role].clone();
    opened["rules"][0]["resourceNames"] = json!([]);
    bench.server.put(&key(0), RoleKind::Role, opened);
    bench.settle();
    assert_eq!(bench.readable(), names(&["a"]));
    bench.server.remove(&key(0), RoleKind::Binding);
    bench.settle();
    assert_eq!(bench.readable(), names(&["a"]));
    // Without its label it is still ours: its owner says so.
    let mut bare = bench.server.stored[&role].clone();
    bare["metadata"]["labels"] = json!({});
    bare["rules"][0]["verbs"] = json!(["*"]);
    bench.server.put(&key(0), RoleKind::Role, bare);
    bench.settle();
    assert!(roles::holds(&bench.server.stored[&role], &bench.server.stored[&role]));
    assert_eq!(bench.server.stored[&role]["rules"][0]["verbs"], json!(["get", "list", "watch"]));
    assert_eq!(bench.synthesis.counts.repairs, 3);
    // A binding to something else cannot be changed, so it is made again.
    let mut other = bench.server.stored[&(key(0), RoleKind::Binding)].clone();
    other["roleRef"]["name"] = "cluster-admin".into();
    bench.server.put(&key(0), RoleKind::Binding, other);
    bench.settle();
    assert_eq!(bench.readable(), names(&["a"]));
}

#[test]
fn a24_somebody_who_changes_a_role_again_and_again_is_answered_once_a_second() {
    let mut bench = Bench::new();
    bench.opened("a");
    bench.settle();
    let before = bench.writes.len();
    let end = bench.now + Duration::from_secs(5);
    while bench.now < end {
        let mut theirs = bench.server.stored[&(key(0), RoleKind::Role)].clone();
        theirs["rules"][0]["verbs"] = json!(["*"]);
        bench.server.put(&key(0), RoleKind::Role, theirs);
        while bench.hear() || bench.step() {}
        bench.now += Duration::from_millis(50);
    }
    assert!((4..=6).contains(&(bench.writes.len() - before)), "{}", bench.writes.len() - before);
}

#[test]
fn a24_a_role_of_somebody_else_is_left_alone_and_the_next_is_used() {
    let mut bench = Bench::new();
    let theirs = json!({
        "kind": "Role", "metadata": { "name": key(0).name(), "namespace": "shop" }, "rules": [],
    });
    bench.server.put(&key(0), RoleKind::Role, theirs);
    bench.opened("a");
    for _ in 0..40 {
        while bench.hear() || bench.step() {}
        bench.now += Duration::from_millis(500);
    }
    assert_eq!(bench.server.stored[&(key(0), RoleKind::Role)]["rules"], json!([]));
    assert_eq!(bench.readable(), names(&["a"]));
    assert_eq!(bench.writes, ["apply Role 1", "apply Binding 1"]);
    assert_eq!(bench.synthesis.problems().count(), 1);
    // Gone, its name is free again.
    bench.server.remove(&key(0), RoleKind::Role);
    bench.server.events.clear();
    bench.now += LOOK_AGAIN;
    bench.settle();
    bench.opened("b");
    bench.settle();
    assert_eq!(bench.writes[2..], ["apply Role 0", "apply Binding 0"]);
    assert_eq!(bench.readable(), names(&["a", "b"]));
}

#[test]
fn a20_roles_go_with_their_consumer_and_follow_its_subject() {
    let mut bench = Bench::new();
    bench.opened("a");
    bench.settle();
    let everybody =
        RoleOwner { uid: "c1".into(), subject: Subject::Group("system:authenticated".into()) };
    bench.synthesis.put_consumer("edge", Some(everybody), bench.now);
    bench.settle();
    assert!(bench.server.stored.is_empty(), "nothing is bound to everybody");
    let group = RoleOwner { uid: "c1".into(), subject: Subject::Group("readers".into()) };
    bench.synthesis.put_consumer("edge", Some(group), bench.now);
    bench.settle();
    let bound = &bench.server.stored[&(key(0), RoleKind::Binding)];
    assert_eq!(bound["subjects"][0]["name"], "readers");
    bench.synthesis.drop_consumer("edge", bench.now);
    bench.settle();
    assert!(bench.server.stored.is_empty());
}

#[test]
fn a86_after_a_restart_what_was_written_stands_until_it_is_known_to_be_wrong() {
    let mut bench = Bench::new();
    for name in ["a", "b"] {
        bench.opened(name);
    }
    bench.settle();
    let (server, now) = (bench.server, bench.now);
    let mut synthesis = Synthesis::new();
    synthesis.put_consumer("edge", owner("c1"), now);
    for ((_, kind), object) in &server.stored {
        synthesis.seen(*kind, object.clone(), false, now);
    }
    synthesis.adopt();
    let mut bench = Bench { synthesis, server, now, writes: Vec::new() };
    bench.opened("b");
    bench.settle();
    assert_eq!(
        (bench.writes.len(), bench.readable()),
        (0, names(&["a", "b"])),
        "{:?}",
        bench.writes
    );
    bench.synthesis.index_ready(bench.now);
    bench.settle();
    assert_eq!(
        (bench.writes.as_slice(), bench.readable()),
        (&["apply Role 0".to_owned()][..], names(&["b"]))
    );
}

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[test]
fn a92_whatever_happens_roles_say_what_references_give_in_the_end() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let mut bench = Bench::new();
        let mut live = BTreeSet::new();
        for _ in 0..200 {
            let name = format!("n{}", dice.roll(6));
            match dice.roll(12) {
                0..=2 => {
                    bench.opened(&name);
                    live.insert(name);
                }
                3 | 4 => {
                    bench.closed(&name);
                    live.remove(&name);
                }
                5 => bench.server.refuses = dice.roll(2) == 0,
                6 => bench.server.remove(&key(0), RoleKind::Role),
                7 => bench.server.remove(&key(0), RoleKind::Binding),
                8 => {
                    if let Some(mut theirs) =
                        bench.server.stored.get(&(key(0), RoleKind::Role)).cloned()
                    {
                        theirs["rules"] = json!([]);
                        theirs["metadata"]["labels"] = json!({});
                        bench.server.put(&key(0), RoleKind::Role, theirs);
                    }
                }
                9 => bench.now += Duration::from_millis(dice.roll(3_000)),
                10 => drop(bench.hear()),
                _ => drop(bench.step()),
            }
        }
        bench.server.refuses = false;
        bench.settle();
        assert_eq!(bench.readable(), live, "seed {seed}");
        let roles = bench.server.stored.keys().filter(|(_, kind)| *kind == RoleKind::Role).count();
        assert_eq!(roles, usize::from(!live.is_empty()), "seed {seed}");
    }
}
