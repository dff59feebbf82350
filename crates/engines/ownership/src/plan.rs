//! What a deletion would do, before anything is touched: the engine's copy is driven against an
//! imitation of the server's rules of deletion (R50 to R54, R75, R76).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tenure_core::Revision;

use crate::OwnershipEngine;
use crate::graph::{NodeId, flag, mark};
use crate::intent::{OwnershipIntent, OwnershipWrite, WriteAction};
use crate::journal::CauseId;
use crate::object::{
    DeletionPropagation, Finalizer, Finalizers, Object, ObjectId, OwnerIdentity, OwnerView,
    WriteOutcome,
};
use crate::rule::OwnershipRule;

/// One thing that happens to one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionStep {
    /// The object.
    pub key: Arc<ObjectId>,
    /// What happens to it.
    pub done: Done,
    /// The rule behind it.
    pub rule: OwnershipRule,
}

/// What happens to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is deleted and stays for a while: finalizers or its grace period hold it.
    Terminating(DeletionPropagation),
    /// It is gone.
    Removed,
    /// It loses these references.
    DroppedReferences(Vec<OwnerIdentity>),
    /// These references of it no longer block.
    Unblocked(Vec<OwnerIdentity>),
    /// It loses this finalizer and stays.
    DroppedFinalizer(Finalizer),
}

/// An object whose finalizers of others are those of controllers that take them off in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release<'a> {
    /// The object.
    pub uid: &'a str,
    /// It keeps them until all of these are gone.
    pub users: &'a [String],
}

/// What a plan must know beyond ownership.
#[derive(Clone, Copy)]
pub struct Circumstances<'a> {
    /// Of the objects whose kind has a grace period, only those get one whose uid this holds for: a pod
    /// that runs nowhere goes at once (R52).
    pub graceful: &'a dyn Fn(&str) -> bool,
    /// The objects that controllers let go.
    pub releases: &'a [Release<'a>],
}

impl OwnershipEngine {
    /// What would happen, in order, if a client deleted an object with a policy and nobody else
    /// wrote anything. Finalizers of others stay; grace periods pass.
    #[must_use]
    pub fn plan(&self, uid: &str, policy: DeletionPropagation) -> Vec<DeletionStep> {
        self.plan_all(&[(uid, policy)])
    }

    /// What would happen, in order, if a client made these deletions, each when nothing of the one
    /// before is left to do. What the earlier ones take along is not deleted again.
    #[must_use]
    pub fn plan_all(&self, deletes: &[(&str, DeletionPropagation)]) -> Vec<DeletionStep> {
        self.plan_knowing(deletes, Circumstances { graceful: &|_| true, releases: &[] })
    }

    /// As [`OwnershipEngine::plan_all`], with what is known of grace periods and of controllers.
    #[must_use]
    pub fn plan_knowing(
        &self,
        deletes: &[(&str, DeletionPropagation)],
        circumstances: Circumstances<'_>,
    ) -> Vec<DeletionStep> {
        let mut planner = Planner::new(self, circumstances);
        for (uid, policy) in deletes {
            if let Some(image) = planner.image(uid) {
                planner.delete(image, *policy, OwnershipRule::Client);
                planner.run();
            }
        }
        planner.steps
    }
}

/// An object of the imitation.
#[derive(Clone)]
struct PlannedObject {
    key: Arc<ObjectId>,
    graceful: bool,
    /// Its grace period has begun and not ended.
    in_grace: bool,
    terminating: bool,
    finalizers: Finalizers,
    owners: Vec<(OwnerIdentity, bool, bool)>,
}

struct Planner<'a> {
    engine: OwnershipEngine,
    circumstances: Circumstances<'a>,
    images: BTreeMap<String, PlannedObject>,
    revision: Revision,
    out: Vec<OwnershipIntent>,
    queue: VecDeque<OwnershipWrite>,
    /// Objects whose grace period ends when nothing else happens.
    graces: VecDeque<String>,
    steps: Vec<DeletionStep>,
}

impl<'a> Planner<'a> {
    fn new(engine: &OwnershipEngine, circumstances: Circumstances<'a>) -> Planner<'a> {
        let mut engine = engine.clone();
        let mut out = Vec::new();
        // What is under way is done in the plan as well.
        let mut under_way: Vec<NodeId> = engine.pending.keys().copied().collect();
        under_way.sort_unstable();
        for id in under_way {
            engine.drop_pending(id);
            engine.dirty(id, CauseId::default());
        }
        engine.settle(&mut out);
        let revision = engine.revision;
        let (images, steps) = (BTreeMap::new(), Vec::new());
        let (queue, graces) = (VecDeque::new(), VecDeque::new());
        Planner { engine, circumstances, images, revision, out, queue, graces, steps }
    }

    /// The object with a uid as it now is.
    fn image(&self, uid: &str) -> Option<PlannedObject> {
        if let Some(image) = self.images.get(uid) {
            return Some(image.clone());
        }
        let id = self.engine.graph.find(uid)?;
        let node = self.engine.graph.node(id);
        if !node.seen() {
            return None;
        }
        let kind = self.engine.kinds.stored(node.resource);
        let graceful = kind.is_some_and(|kind| kind.graceful) && (self.circumstances.graceful)(uid);
        let references = self.engine.graph.references(id);
        let owners = references.map(|(_, edge)| {
            let (block, controller) = (edge.is(mark::BLOCK), edge.is(mark::CONTROLLER));
            (self.engine.reference(edge), block, controller)
        });
        Some(PlannedObject {
            key: self.engine.key(id),
            graceful,
            // Whether an older grace period has passed is not known here; it will.
            in_grace: false,
            terminating: node.is(flag::TERMINATING),
            finalizers: Finalizers {
                orphan: node.is(flag::ORPHAN),
                foreground: node.is(flag::FOREGROUND),
                other: node.is(flag::OTHER),
            },
            owners: owners.collect(),
        })
    }

    fn run(&mut self) {
        loop {
            self.collect();
            if let Some(write) = self.queue.pop_front() {
                self.apply(&write);
            } else if let Some(uid) = self.graces.pop_front() {
                if let Some(mut image) = self.image(&uid) {
                    image.in_grace = false;
                    self.store(image, None);
                }
            } else if let Some(mut image) = self.released() {
                image.finalizers.other = false;
                self.store(image, None);
            } else {
                return;
            }
        }
    }

    /// An object that its controllers now let go: its deletion has begun, and nobody uses it any more.
    fn released(&self) -> Option<PlannedObject> {
        let gone = |uid: &String| self.image(uid).is_none();
        let mut ready = self.circumstances.releases.iter().filter(|it| it.users.iter().all(gone));
        ready.find_map(|release| {
            let image = self.image(release.uid)?;
            (image.terminating && !image.in_grace && image.finalizers.other).then_some(image)
        })
    }

    fn collect(&mut self) {
        for intent in self.out.drain(..) {
            if let OwnershipIntent::Write(write) = intent {
                self.queue.push_back(write);
            }
        }
    }

    fn apply(&mut self, write: &OwnershipWrite) {
        if !self.engine.current(write.id) {
            return;
        }
        let Some(mut image) = self.image(&write.key.uid) else { return };
        match &write.action {
            WriteAction::Delete(policy) => self.delete(image, *policy, write.rule),
            WriteAction::DropReferences(drops) => {
                image.owners.retain(|(reference, _, _)| !drops.contains(reference));
                self.store(image, Some((Done::DroppedReferences(drops.clone()), write.rule)));
            }
            WriteAction::Unblock(open) => {
                for (reference, block, _) in &mut image.owners {
                    *block &= !open.contains(reference);
                }
                self.store(image, Some((Done::Unblocked(open.clone()), write.rule)));
            }
            WriteAction::DropFinalizer(finalizer) => {
                match finalizer {
                    Finalizer::Orphan => image.finalizers.orphan = false,
                    Finalizer::Foreground => image.finalizers.foreground = false,
                }
                self.store(image, Some((Done::DroppedFinalizer(*finalizer), write.rule)));
            }
        }
        let outcome = WriteOutcome::Applied(self.revision);
        self.engine.outcome(write.id, &outcome, &mut self.out);
    }

    fn delete(
        &mut self,
        mut image: PlannedObject,
        policy: DeletionPropagation,
        rule: OwnershipRule,
    ) {
        image.finalizers.orphan = policy == DeletionPropagation::Orphan;
        image.finalizers.foreground = policy == DeletionPropagation::Foreground;
        if image.graceful && !image.terminating {
            image.in_grace = true;
            self.graces.push_back(image.key.uid.as_ref().into());
        }
        image.terminating = true;
        self.store(image, Some((Done::Terminating(policy), rule)));
    }

    /// Writes an object, or removes it when nothing holds it any more, and tells the engine.
    fn store(&mut self, image: PlannedObject, step: Option<(Done, OwnershipRule)>) {
        self.revision = self.revision.next();
        let held = image.in_grace || image.finalizers != Finalizers::default();
        let key = Arc::clone(&image.key);
        let rule = step.as_ref().map_or(OwnershipRule::Client, |(_, rule)| *rule);
        if image.terminating && !held {
            self.images.remove(&*key.uid);
            self.engine.gone(&key.uid, self.revision, &mut self.out);
            self.steps.push(DeletionStep { key, done: Done::Removed, rule });
            return;
        }
        let owners: Vec<OwnerView<'_>> = image
            .owners
            .iter()
            .map(|(reference, block, controller)| OwnerView {
                api_version: &reference.api_version,
                kind: &reference.kind,
                name: &reference.name,
                uid: &reference.uid,
                controller: *controller,
                block: *block,
            })
            .collect();
        let object = Object {
            resource: key.resource,
            namespace: &key.namespace,
            name: &key.name,
            uid: &key.uid,
            revision: self.revision,
            terminating: image.terminating,
            finalizers: image.finalizers,
            owners: &owners,
        };
        self.engine.put(&object, &mut self.out);
        drop(owners);
        self.images.insert(key.uid.as_ref().into(), image);
        if let Some((done, rule)) = step {
            self.steps.push(DeletionStep { key, done, rule });
        }
    }
}
