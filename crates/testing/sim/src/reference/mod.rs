//! Referential authorization: random changes to a small world, and the index beside the obvious answer.
//!
//! ```text
//!   change ──► Truth (sets of objects) ──► allowed by sections 2 to 5, by looking at everything
//!          └─► Index ──► needs ──► fed again from the truth ──► decide on the published view
//! ```

mod select;
mod truth;

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_reference::{
    Attributes, CapabilityView, Detached, Index, IndexEvent, Need, NoExpressions, Obj, Origin,
    OriginName, Outputs, RefQuery, ReferenceApiKind, Resource, Selectors, Subject, Synced, Verdict,
    check_detached,
};

use crate::random::Random;
pub use select::{Body, LOOKED_AT};
pub use truth::{
    AllowedReference, ExpectedAccess, GROUPS, ORIGINS, ReferenceModel, SimulatedChange, TARGETS,
    USERS,
};

/// A seed whose run went wrong, and where.
#[derive(Clone, Debug)]
pub struct ReferenceFailure {
    /// The seed.
    pub seed: u64,
    /// What was wrong.
    pub what: String,
    /// The changes that lead to it.
    pub trace: Vec<SimulatedChange>,
}

/// The truth and the index that should say the same.
pub struct ReferenceSimulation {
    /// What is stored.
    pub truth: ReferenceModel,
    /// What is asked.
    pub index: Index,
    /// The view readers have.
    pub view: Arc<CapabilityView>,
    /// Everything the index told, if somebody follows references.
    followed: BTreeSet<AllowedReference>,
}

impl Default for ReferenceSimulation {
    fn default() -> ReferenceSimulation {
        ReferenceSimulation::new(7)
    }
}

impl ReferenceSimulation {
    /// An empty world, seen to the end.
    #[must_use]
    pub fn new(seed: u64) -> ReferenceSimulation {
        let mut index = Index::new(seed).with_selectors(Selectors::ALL);
        index.follow_references();
        let view = index.publish();
        let mut run = ReferenceSimulation {
            truth: ReferenceModel::default(),
            index,
            view,
            followed: BTreeSet::new(),
        };
        for kind in
            [ReferenceApiKind::Consumer, ReferenceApiKind::Strategy, ReferenceApiKind::Grant]
        {
            run.tell(IndexEvent::Synced(Synced::Kind(kind)));
        }
        run.tell(IndexEvent::Served(run.truth.served()));
        run.publish();
        run
    }

    /// Makes a change in both, and hands readers the result.
    pub fn apply(&mut self, change: &SimulatedChange) {
        self.truth.apply(change);
        self.change(change);
        self.publish();
    }

    /// Makes a change in the index; the truth must have made it.
    pub fn change(&mut self, change: &SimulatedChange) {
        match change {
            SimulatedChange::PutConsumer(consumer) => {
                self.tell(IndexEvent::PutConsumer(consumer.clone()))
            }
            SimulatedChange::DropConsumer(name) => self.tell(IndexEvent::DropConsumer(name)),
            SimulatedChange::PutStrategy(plan) => {
                self.tell(IndexEvent::PutStrategy(plan.strategy()))
            }
            SimulatedChange::DropStrategy(name) => self.tell(IndexEvent::DropStrategy(name)),
            SimulatedChange::PutGrant(grant) => self.tell(IndexEvent::PutGrant(grant.clone())),
            SimulatedChange::DropGrant(namespace, name) => {
                self.tell(IndexEvent::DropGrant(namespace, name))
            }
            SimulatedChange::PutOrigin(kind, namespace, name, _) => {
                self.feed_one(*kind, namespace, name, "v1");
                self.feed_one(*kind, namespace, name, "v1beta1");
            }
            SimulatedChange::DropOrigin(kind, namespace, name) => {
                let (group, resource) = ORIGINS[*kind];
                self.tell(IndexEvent::DropOrigin(OriginName { group, resource, namespace, name }));
            }
            SimulatedChange::PutLookedAt(kind, name, body) => {
                for version in ["v1", "v1beta1"] {
                    self.feed_looked_at(*kind, name, body, version);
                }
            }
            SimulatedChange::DropLookedAt(kind, name) => {
                let (group, resource) = LOOKED_AT[*kind];
                self.tell(IndexEvent::DropOrigin(OriginName {
                    group,
                    resource,
                    namespace: "",
                    name,
                }));
            }
            SimulatedChange::Serve(_) => self.tell(IndexEvent::Served(self.truth.served())),
        }
    }

    fn publish(&mut self) {
        self.view = self.index.publish();
    }

    /// Tells an event, and gives what is needed because of it.
    fn tell(&mut self, event: IndexEvent<'_>) {
        let mut out = Outputs::default();
        self.index.apply(event, &mut out);
        self.follow(&out);
        for need in out.needs {
            let Need::Feed(resource, version) = need else { continue };
            let looked_at =
                LOOKED_AT.iter().position(|row| Resource::new(row.0, row.1) == resource);
            if let Some(kind) = looked_at {
                for (name, body) in self.truth.looked_at(kind, Some(&version)) {
                    self.feed_looked_at(kind, name, &body, &version);
                }
            }
            let kind = ORIGINS.iter().position(|row| Resource::new(row.0, row.1) == resource);
            let Some(kind) = kind else { continue };
            let all: Vec<(String, String)> = self.truth.names_of(kind);
            for (namespace, name) in all {
                self.feed_one(kind, &namespace, &name, &version);
            }
            let (group, resource) = ORIGINS[kind];
            let synced = Synced::Origins { group, resource, version: &version };
            let mut out = Outputs::default();
            self.index.apply(IndexEvent::Synced(synced), &mut out);
            // The first time there is nothing to move from: what is allowed is read, not told.
            self.follow(&out);
            self.followed = self.truth.allowed_references();
        }
    }

    fn feed_one(&mut self, kind: usize, namespace: &str, name: &str, version: &str) {
        let Some(object) = self.truth.object(kind, namespace, name, version) else { return };
        let (group, resource) = ORIGINS[kind];
        let name = OriginName { group, resource, namespace, name };
        let mut out = Outputs::default();
        self.index
            .apply(IndexEvent::PutOrigin(Origin { name, version, object: &object }), &mut out);
        self.follow(&out);
    }

    fn feed_looked_at(&mut self, kind: usize, name: &str, object: &Body, version: &str) {
        let (group, resource) = LOOKED_AT[kind];
        let name = OriginName { group, resource, namespace: "", name };
        let mut out = Outputs::default();
        self.index.apply(IndexEvent::PutOrigin(Origin { name, version, object }), &mut out);
        self.follow(&out);
    }

    fn follow(&mut self, out: &Outputs) {
        for moved in &out.moved {
            let pair = AllowedReference {
                origin: moved.origin.clone(),
                origin_namespace: moved.origin_namespace.clone(),
                origin_name: moved.origin_name.clone(),
                target: moved.target.clone(),
                target_namespace: moved.target_namespace.clone(),
                target_name: moved.target_name.clone(),
                purpose: moved.purpose.clone(),
            };
            if moved.allowed {
                self.followed.insert(pair);
            } else {
                self.followed.remove(&pair);
            }
        }
    }

    /// What the published view allows, of everything that can be asked.
    #[must_use]
    pub fn allowed(&self) -> BTreeSet<ExpectedAccess> {
        allowed_by(&self.view)
    }

    /// Compares the index with the truth.
    ///
    /// # Errors
    /// What differs.
    pub fn compare(&self) -> Result<(), String> {
        let (is, should) = (self.allowed(), self.truth.allowed());
        if is != should {
            let wrong: Vec<_> = is.symmetric_difference(&should).take(3).collect();
            return Err(format!("decisions differ, among them {wrong:?}"));
        }
        let should = self.truth.allowed_references();
        if self.followed != should {
            let wrong: Vec<_> = self.followed.symmetric_difference(&should).take(3).collect();
            return Err(format!("references followed differ, among them {wrong:?}"));
        }
        Ok(())
    }

    /// Compares one question about one reference: indexed, detached and the truth.
    ///
    /// # Errors
    /// What differs.
    pub fn compare_check(&self, random: &mut Random) -> Result<(), String> {
        let all = self.truth.origins();
        let Some((kind, namespace, name)) = all.get(random.below(all.len())) else { return Ok(()) };
        let (group, resource) = ORIGINS[*kind];
        let (target_group, target_resource, namespaced) = TARGETS[random.below(TARGETS.len())];
        let target_namespace = if namespaced { truth::namespace(random) } else { "" };
        let (purpose, target_name) = (truth::purpose(random), truth::name(random));
        let subject = Subject::User(USERS[random.below(USERS.len())].into());
        let query = RefQuery {
            origin: Obj { group, resource, namespace, name },
            target: Obj {
                group: target_group,
                resource: target_resource,
                namespace: target_namespace,
                name: target_name,
            },
            purpose,
            class: None,
            subject: random.once_in(2).then_some(&subject),
        };
        let served = self.truth.served();
        let (strategies, mut consumers) = (self.truth.strategies(), self.truth.consumers());
        let mut grants = self.truth.grants();
        let [namespaces, classes] = [0, 1].map(|kind| {
            let all = self.truth.looked_at(kind, None).into_iter();
            all.map(|(_, body)| body).collect::<Vec<Body>>()
        });
        grants.iter_mut().for_each(|grant| grant.select(&namespaces));
        consumers.iter_mut().for_each(|consumer| consumer.select(&classes));
        let facts = Detached {
            served: &served,
            strategies: &strategies,
            consumers: &consumers,
            grants: &grants,
            expressions: &NoExpressions,
        };
        let version = self.truth.version_of(*kind);
        let object = version.and_then(|v| self.truth.object(*kind, namespace, name, v));
        let Some(object) = object else { return Ok(()) };
        let indexed = self.index.check(&query);
        let detached = check_detached(&facts, &object, &query);
        // A type that no strategy reads is not known to the index.
        let unread = indexed == Verdict::UnknownOrigin && detached == Verdict::NotAReference;
        if indexed != detached && !unread {
            return Err(format!("{query:?}: indexed {indexed:?}, detached {detached:?}"));
        }
        Ok(())
    }
}

/// Everything a view allows, by asking everything.
#[must_use]
pub fn allowed_by(view: &CapabilityView) -> BTreeSet<ExpectedAccess> {
    let mut allowed = BTreeSet::new();
    let groups: Vec<[String; 1]> = GROUPS.iter().map(|group| [String::from(*group)]).collect();
    let nobody: &[String] = &[];
    let users = USERS.iter().map(|user| (false, *user, *user, nobody));
    let groups = GROUPS.iter().zip(&groups).map(|(name, list)| (true, *name, "", list.as_slice()));
    for (is_group, subject, user, groups) in users.chain(groups) {
        for (target, namespace, name) in truth::every_target() {
            let (group, resource, _) = TARGETS[target];
            let asked = Attributes {
                user,
                groups,
                verb: "get",
                group,
                resource,
                subresource: "",
                namespace,
                name,
            };
            if view.decide(&asked).is_allowed() {
                allowed.insert((is_group, subject, target, namespace, name));
            }
        }
    }
    allowed
}

/// Makes random changes from a seed and compares after each.
///
/// # Errors
/// The first difference.
pub fn try_seed(seed: u64, steps: usize) -> Result<(), Box<ReferenceFailure>> {
    let mut random = Random::new(seed);
    let mut run = ReferenceSimulation::new(seed);
    let mut trace = Vec::new();
    let mut held: Option<(Arc<CapabilityView>, BTreeSet<ExpectedAccess>)> = None;
    for step in 0..steps {
        let change = SimulatedChange::random(&mut random, &run.truth);
        trace.push(change.clone());
        run.apply(&change);
        let mut outcome = run.compare();
        if outcome.is_ok() {
            outcome = run.compare_check(&mut random);
        }
        // A reader that stays a while sees what it saw.
        if outcome.is_ok()
            && let Some((view, seen)) = held.take_if(|_| step % 5 == 4)
            && allowed_by(&view) != seen
        {
            outcome = Err("a view changed while it was held".into());
        }
        if step % 7 == 0 {
            held = Some((Arc::clone(&run.view), run.allowed()));
        }
        if let Err(what) = outcome {
            return Err(Box::new(ReferenceFailure { seed, what, trace }));
        }
    }
    rebuilt(&run, &mut random)
        .and_then(|()| emptied(&mut run))
        .map_err(|what| Box::new(ReferenceFailure { seed, what, trace }))
}

/// An index made from what is stored, in any order, allows the same (R61, R62).
fn rebuilt(run: &ReferenceSimulation, random: &mut Random) -> Result<(), String> {
    let mut changes = run.truth.changes();
    for at in (1..changes.len()).rev() {
        changes.swap(at, random.below(at + 1));
    }
    let mut fresh = ReferenceSimulation::new(random.next());
    fresh.truth = run.truth.clone();
    fresh.tell(IndexEvent::Served(run.truth.served()));
    changes.iter().for_each(|change| fresh.change(change));
    fresh.publish();
    if fresh.allowed() != run.allowed() {
        return Err("a rebuilt index allows something else".into());
    }
    Ok(())
}

/// When everything is gone, nothing is left.
fn emptied(run: &mut ReferenceSimulation) -> Result<(), String> {
    for change in run.truth.removals() {
        run.apply(&change);
    }
    let stats = run.index.stats();
    if (stats.targets, stats.edges, stats.origins) != (0, 0, 0) || !run.allowed().is_empty() {
        return Err(format!("something is left: {stats:?}"));
    }
    Ok(())
}
