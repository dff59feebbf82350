//! What clients, hosts and misfortune do, as data: a history is a list of these and can be shrunk.

use tenure_ownership::DeletionPropagation;

use crate::random::Random;
use crate::store::{ROWS, Ref, SimulatedObject, SimulatedStore};

/// A reference to be made: to whom, how well, and whether it blocks.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Chooses among everybody who ever was.
    pub who: usize,
    /// Below eight: right coordinates; above: wrong in one way.
    pub flavour: usize,
    /// `blockOwnerDeletion`.
    pub block: bool,
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum OwnershipOperation {
    /// A client creates an object.
    Create(usize, usize, Vec<Pick>, usize),
    /// A client deletes an object.
    Delete(usize, DeletionPropagation),
    /// A client writes other references.
    Edit(usize, Vec<Pick>),
    /// A client turns blocking on or off.
    Block(usize, bool),
    /// A client adds or removes a finalizer of its own.
    Hold(usize, bool),
    /// A client writes something else.
    Touch(usize),
    /// A grace period ends.
    Grace(usize),
    /// A kind is served, or no longer.
    Serve(usize, bool),
    /// The host feeds some changes (of one resource, where there is no total order).
    Feed(usize, usize),
    /// The host carries out a write, well or badly.
    Act(usize, usize),
    /// The host tells of an outcome that it kept back, or tries again what failed.
    Tell(usize),
    /// The host answers a question.
    Answer(usize, usize),
    /// The host dies and starts again.
    Crash(u64),
    /// Watch events of one resource come twice.
    Replay(usize, usize),
    /// Watch events of one resource are lost, and it is listed anew sooner or later.
    Lose(usize, usize),
    /// A resource is listed anew.
    List(usize),
}

fn picks(random: &mut Random) -> Vec<Pick> {
    let count = match random.below(10) {
        0..=2 => 0,
        3..=7 => 1,
        8 => 2,
        _ => 3,
    };
    let pick = |_| Pick {
        who: random.below(1 << 20),
        flavour: random.below(14),
        block: !random.once_in(3),
    };
    (0..count).map(pick).collect()
}

fn policy(random: &mut Random) -> DeletionPropagation {
    match random.below(5) {
        0 | 1 => DeletionPropagation::Background,
        2 | 3 => DeletionPropagation::Foreground,
        _ => DeletionPropagation::Orphan,
    }
}

/// What a client does next.
pub fn client(random: &mut Random) -> OwnershipOperation {
    let who = random.below(1 << 20);
    match random.below(32) {
        0..=10 => {
            let row = if random.once_in(3) { random.below(ROWS.len()) } else { random.below(4) };
            OwnershipOperation::Create(row, random.below(16), picks(random), random.below(12))
        }
        11..=17 => OwnershipOperation::Delete(who, policy(random)),
        18..=21 => OwnershipOperation::Edit(who, picks(random)),
        22 => OwnershipOperation::Block(who, random.once_in(2)),
        23..=25 => OwnershipOperation::Hold(who, random.once_in(3)),
        26 => OwnershipOperation::Touch(who),
        27..=29 => OwnershipOperation::Grace(who),
        _ => OwnershipOperation::Serve(random.below(ROWS.len()), !random.once_in(3)),
    }
}

/// What a host does next, with or without misfortune.
pub fn host(random: &mut Random, faults: bool) -> OwnershipOperation {
    let (who, some) = (random.below(1 << 20), random.below(6));
    match random.below(if faults { 24 } else { 18 }) {
        0..=6 => OwnershipOperation::Feed(who, some + 1),
        7..=12 => OwnershipOperation::Act(who, random.below(16)),
        13 | 14 => OwnershipOperation::Tell(who),
        15..=17 => OwnershipOperation::Answer(who, random.below(6)),
        18 => OwnershipOperation::Crash(random.next()),
        19 | 20 => OwnershipOperation::Replay(who, some),
        21 => OwnershipOperation::Lose(who, some),
        22 => OwnershipOperation::List(who),
        _ => OwnershipOperation::Act(who, 14),
    }
}

/// The truth, and everybody who ever was.
#[derive(Clone, Debug, Default)]
pub struct SimulatedWorld {
    /// The truth.
    pub store: SimulatedStore,
    ever: Vec<SimulatedObject>,
}

impl SimulatedWorld {
    /// Somebody who is there.
    #[must_use]
    pub fn somebody(&self, pick: usize) -> Option<SimulatedObject> {
        let count = self.store.things.len();
        let at = pick.checked_rem(count)?;
        self.store.things.values().nth(at).cloned()
    }

    fn reference(&self, pick: &Pick, own: &SimulatedObject) -> Ref {
        let living = self.somebody(pick.who);
        let ever = self.ever.get(pick.who.checked_rem(self.ever.len()).unwrap_or(0)).cloned();
        let target = if pick.flavour % 4 == 3 { ever } else { living };
        let target = target.unwrap_or_else(|| own.clone());
        let row = ROWS.get(target.row).copied().unwrap_or(ROWS[0]);
        let mut reference = Ref {
            api_version: row.api_version.into(),
            kind: row.kind.into(),
            name: target.name,
            uid: target.uid,
            block: pick.block,
        };
        match pick.flavour {
            8 => reference.name = "other".into(),
            9 => reference.kind = "ReplicaSet".into(),
            10 => reference.api_version = "nobody.com/v1".into(),
            11 => reference.uid = format!("{:08x}-0000-4000-8000-00000000dead", pick.who),
            12 if row.plural == "foos" => reference.api_version = "example.com/v2".into(),
            12 if row.plural == "deployments" => reference.api_version = "apps/v1beta1".into(),
            13 => (reference.uid, reference.name) = (own.uid.clone(), own.name.clone()),
            _ => {}
        }
        reference
    }

    /// Does what a client does.
    pub fn client(&mut self, op: &OwnershipOperation) {
        match op {
            OwnershipOperation::Create(row, place, picks, finalizer) => {
                self.create(*row, *place, picks, *finalizer)
            }
            OwnershipOperation::Delete(who, policy) => {
                if let Some(thing) = self.somebody(*who) {
                    self.store.delete(&thing.uid, *policy);
                }
            }
            OwnershipOperation::Edit(who, picks) => self.change(*who, |world, thing| {
                thing.owners = picks.iter().map(|pick| world.reference(pick, thing)).collect();
            }),
            OwnershipOperation::Block(who, on) => self.change(*who, |_, thing| {
                thing.owners.iter_mut().for_each(|owner| owner.block = *on);
            }),
            OwnershipOperation::Hold(who, on) => self.change(*who, |_, thing| {
                thing.finalizers.retain(|name| name != "x/hold");
                if *on && !thing.terminating {
                    thing.finalizers.push("x/hold".into());
                }
            }),
            OwnershipOperation::Touch(who) => self.change(*who, |_, _| {}),
            OwnershipOperation::Grace(who) => {
                let ending = self.store.things.values().filter(|thing| thing.in_grace).count();
                let at = who.checked_rem(ending).unwrap_or(0);
                let found = self.store.things.values().filter(|thing| thing.in_grace).nth(at);
                if let Some(mut thing) = found.cloned() {
                    thing.in_grace = false;
                    self.store.write(thing);
                }
            }
            OwnershipOperation::Serve(row, on) if ROWS.get(*row).is_some_and(|row| row.custom) => {
                self.store.serve(*row, *on);
            }
            _ => {}
        }
    }

    fn create(&mut self, row: usize, place: usize, picks: &[Pick], finalizer: usize) {
        let Some(kind) = ROWS.get(row) else { return };
        let namespace = match (kind.namespaced, place % 2) {
            (false, _) => "",
            (true, 0) => "a",
            (true, _) => "b",
        };
        let name = format!("n{}", place / 2);
        let served = self.store.served.iter().any(|s| crate::store::same_resource(*s, row));
        if !served || self.store.named(row, namespace, &name).is_some() {
            return;
        }
        self.store.last_uid += 1;
        let number = self.store.last_uid;
        // Mixed so that the order of uids is not the order of creation; some are no UUIDs.
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let uid = match number % 5 {
            0 => format!("u{mixed:08x}"),
            _ => format!("{mixed:08x}-0000-4000-8000-{number:012x}"),
        };
        let mut thing = SimulatedObject {
            row,
            namespace: namespace.into(),
            name,
            uid,
            revision: 0,
            terminating: false,
            in_grace: false,
            finalizers: Vec::new(),
            owners: Vec::new(),
        };
        match finalizer {
            0 => thing.finalizers.push("orphan".into()),
            1 => thing.finalizers.push("foregroundDeletion".into()),
            2 | 3 => thing.finalizers.push("x/hold".into()),
            _ => {}
        }
        thing.owners = picks.iter().map(|pick| self.reference(pick, &thing)).collect();
        self.ever.push(thing.clone());
        self.store.write(thing);
    }

    fn change(&mut self, who: usize, change: impl FnOnce(&SimulatedWorld, &mut SimulatedObject)) {
        if let Some(mut thing) = self.somebody(who) {
            change(self, &mut thing);
            self.store.write(thing);
        }
    }

    /// Ends all grace periods and takes all finalizers of clients away; tells whether any were there.
    pub fn release(&mut self) -> bool {
        let held = |thing: &&SimulatedObject| thing.in_grace || thing.has("x/hold");
        let found: Vec<SimulatedObject> =
            self.store.things.values().filter(held).cloned().collect();
        let any = !found.is_empty();
        for mut thing in found {
            thing.in_grace = false;
            thing.finalizers.retain(|name| name != "x/hold");
            self.store.write(thing);
        }
        any
    }
}
