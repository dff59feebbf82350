//! What to do about the pods of a set: make the missing, end the surplus, replace the outdated.
//!
//! ```text
//!   ordered:   number by number, and only while everything before is available (SS4, SS6)
//!   parallel:  all of a kind at once, as far as nothing stands in the way
//! ```

use alloc::format;
use alloc::vec::Vec;

use tenure_machinery::{Object, ObjectExt};

use super::revisions::Revisions;
use super::status::running;
use super::{Members, StatefulSetContext, claims, identity};
use crate::controller::{Pass, ReconcileResult};
use crate::intent::{ControllerIntent, EventReport, MessageSuffix, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::share::{self, Round};
use crate::view::VersionedObject;
use crate::{owner, pod};

/// How many pods one pass creates or deletes at most (PT4).
const BURST: usize = 500;

/// Whether the pass goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RolloutFlow {
    /// Nothing stands in the way.
    On,
    /// Whoever goes in order waits here.
    Wait,
    /// Everybody waits here.
    Stop,
}

/// Adds what is to be done about pods and claims to a pass.
pub(super) fn plan(
    set: &StatefulSetContext<'_>,
    members: &Members,
    revisions: &Revisions,
    pass: &Pass<'_>,
    out: &mut ReconcileResult,
    troubles: &mut Vec<EventReport>,
) {
    let mut work = RolloutContext { set, pass, revisions, out, troubles, claims: 0, pods: 0 };
    if work.replicas(members) != RolloutFlow::On {
        return;
    }
    if work.condemned(members) != RolloutFlow::On {
        return;
    }
    if set.strategy() != "OnDelete" {
        work.outdated(members);
    }
}

struct RolloutContext<'a, 'b> {
    set: &'a StatefulSetContext<'b>,
    pass: &'a Pass<'b>,
    revisions: &'a Revisions,
    out: &'a mut ReconcileResult,
    troubles: &'a mut Vec<EventReport>,
    /// How many claims and pods are to be made so far.
    claims: usize,
    pods: usize,
}

impl RolloutContext<'_, '_> {
    /// Goes through the numbers that the set should have (SS4, SS5).
    fn replicas(&mut self, members: &Members) -> RolloutFlow {
        if self.set.ordered {
            let end = self.set.start.saturating_add(self.set.replicas);
            for ordinal in self.set.start..end {
                let step = match members.replicas.get(&ordinal) {
                    Some(pod) => self.living(pod, ordinal),
                    None => self.missing(ordinal).max_wait(),
                };
                if step != RolloutFlow::On {
                    return step;
                }
            }
            return RolloutFlow::On;
        }
        let mut stopped = false;
        for (ordinal, pod) in &members.replicas {
            stopped |= self.living(pod, *ordinal) == RolloutFlow::Stop;
        }
        stopped |= self.all_missing(members) == RolloutFlow::Stop;
        if stopped { RolloutFlow::Stop } else { RolloutFlow::On }
    }

    /// Makes pods for all numbers that have none; claims go before pods.
    fn all_missing(&mut self, members: &Members) -> RolloutFlow {
        let end = self.set.start.saturating_add(self.set.replicas);
        let absent = (self.set.start..end).filter(|n| !members.replicas.contains_key(n));
        let (mut pods, mut step) = (Vec::new(), RolloutFlow::On);
        if pod::namespace_closed(self.pass) {
            return RolloutFlow::Stop;
        }
        let most = pod::room_to_wait(members.replicas.values()).min(BURST);
        // The number of tries is bounded too: any number may be asked for, and none may succeed.
        for ordinal in absent.take(2 * BURST) {
            if pods.len() >= most {
                break;
            }
            match self.new_pod(ordinal) {
                Ok(pod) => pods.extend(pod.map(|pod| (ordinal, pod))),
                Err(stop) => step = stop,
            }
        }
        for (ordinal, pod) in pods {
            self.create(ordinal, pod);
        }
        step
    }

    /// Makes the pod of a number that has none.
    fn missing(&mut self, ordinal: i64) -> RolloutFlow {
        match self.new_pod(ordinal) {
            Ok(Some(pod)) => {
                self.create(ordinal, pod);
                RolloutFlow::On
            }
            Ok(None) => RolloutFlow::Wait,
            Err(step) => step,
        }
    }

    /// Makes the claims of a new pod and gives the pod, unless something stands in the way.
    fn new_pod(&mut self, ordinal: i64) -> Result<Option<Object>, RolloutFlow> {
        let view = self.pass.view;
        let name = identity::name(self.set, ordinal);
        if claims::stale(self.set, ordinal, view) {
            return Ok(None);
        }
        if view.get(BuiltinResource::Pods, self.set.object.namespace(), &name).is_some() {
            let why = format!("pods \"{name}\" already exists");
            self.trouble(ordinal, &why);
            return Err(RolloutFlow::Stop);
        }
        if pod::namespace_closed(self.pass) {
            return Err(RolloutFlow::Stop);
        }
        let missing = claims::missing(self.set, ordinal, view);
        self.make_claims(missing.intents);
        if let Some(claim) = missing.waits_for {
            self.trouble(ordinal, &format!("pvc {claim} is being deleted"));
            return Err(RolloutFlow::Stop);
        }
        let revision = self.revisions.of_new_pod(self.set, ordinal);
        Ok(identity::pod(self.set, ordinal, &revision.template, &revision.name))
    }

    fn make_claims(&mut self, intents: Vec<ControllerIntent>) {
        for intent in intents {
            // Batches of 1, 2, 4 …: what fails once will probably fail again.
            let together = !(self.claims + 1).is_power_of_two();
            self.claims += 1;
            self.out.push(intent.together(together));
        }
    }

    fn create(&mut self, ordinal: i64, pod: Object) {
        let (done, refused) = self.notes("Create", ordinal);
        let together = !(self.pods + 1).is_power_of_two();
        self.pods += 1;
        let intent = ControllerIntent::create(BuiltinResource::Pods, pod)
            .relying_on(self.set.about.living())
            .when_done(done)
            .when_refused(refused)
            .together(together);
        self.out.push(intent);
    }

    /// Looks after a pod whose number is wanted.
    fn living(&mut self, pod: &VersionedObject, ordinal: i64) -> RolloutFlow {
        let ordered = self.set.ordered;
        if pod::terminal(pod) {
            if !owner::deleting(pod) {
                self.delete(pod, ordinal);
            }
            return RolloutFlow::Wait;
        }
        let pending = matches!(pod::phase(pod), "Pending" | "");
        if pending {
            let missing = claims::missing(self.set, ordinal, self.pass.view);
            if !pod::namespace_closed(self.pass) {
                self.make_claims(missing.intents);
            }
            if missing.waits_for.is_some() {
                return RolloutFlow::Stop;
            }
            self.own_claims(pod, ordinal);
        }
        if ordered && (owner::deleting(pod) || !running(pod) || !self.set.available(pod)) {
            return RolloutFlow::Wait;
        }
        if !pending {
            self.own_claims(pod, ordinal);
        }
        if identity::identified(pod) && identity::mounted(self.set, pod, ordinal) {
            return RolloutFlow::On;
        }
        self.correct(pod, ordinal);
        // The pod is written; whether it has to go as well is for the next pass.
        RolloutFlow::Stop
    }

    fn own_claims(&mut self, pod: &VersionedObject, ordinal: i64) {
        let view = self.pass.view;
        let intents = claims::own(self.set, pod, ordinal, view, self.troubles);
        self.out.intents.extend(intents);
    }

    fn correct(&mut self, pod: &VersionedObject, ordinal: i64) {
        let pending = matches!(pod::phase(pod), "Pending" | "");
        if !pending && !identity::mounted(self.set, pod, ordinal) {
            let missing = claims::missing(self.set, ordinal, self.pass.view);
            self.make_claims(missing.intents);
        }
        let object = identity::corrected(self.set, pod, ordinal);
        let (done, refused) = self.notes("Update", ordinal);
        let intent = ControllerIntent::update(
            BuiltinResource::Pods,
            object,
            UpdateEndpoint::Main,
            pod.revision,
        )
        .when_done(done)
        .when_refused(refused);
        self.out.push(intent);
    }

    /// Ends pods whose numbers are no longer wanted, highest first (SS6).
    fn condemned(&mut self, members: &Members) -> RolloutFlow {
        for pod in &members.condemned {
            self.own_claims(pod, identity::ordinal(pod.name()).unwrap_or_default());
        }
        let sick = self.first_sick(members);
        for pod in members.condemned.iter().take(BURST) {
            let ordinal = identity::ordinal(pod.name()).unwrap_or_default();
            if !self.set.ordered {
                if !owner::deleting(pod) {
                    self.delete(pod, ordinal);
                }
                continue;
            }
            // What has ended will never be healthy again, so nothing is won by waiting (SS5).
            let healthy = pod::terminal(pod) || (running(pod) && self.set.available(pod));
            let first = sick.is_some_and(|sick| sick.name() == pod.name());
            if !owner::deleting(pod) && (healthy || first) {
                self.delete(pod, ordinal);
            }
            return RolloutFlow::Wait;
        }
        RolloutFlow::On
    }

    /// The lowest pod that is not healthy, if it is one of those that have to go anyway.
    fn first_sick<'m>(&self, members: &'m Members) -> Option<&'m VersionedObject> {
        let sick = |pod: &VersionedObject| owner::deleting(pod) || !self.set.available(pod);
        let complete = i64::try_from(members.replicas.len()) == Ok(self.set.replicas);
        if !complete || members.replicas.values().any(sick) {
            return None;
        }
        members.condemned.iter().rev().find(|pod| sick(pod) && !pod::terminal(pod))
    }

    /// Ends pods of an older revision, highest number first (SS7).
    fn outdated(&mut self, members: &Members) {
        let from = self.set.start.saturating_add(self.set.partition().unwrap_or_default());
        let outdated = |pod: &VersionedObject| {
            identity::revision(pod) != self.revisions.update.name
                && !owner::deleting(pod)
                && !pod::terminal(pod)
        };
        let old: Vec<(i64, &VersionedObject)> = members
            .replicas
            .range(from..)
            .rev()
            .filter(|(_, pod)| outdated(pod))
            .map(|(ordinal, pod)| (*ordinal, pod))
            .collect();
        let sound = |pod: &VersionedObject| !owner::deleting(pod) && self.set.available(pod);
        let available = members.replicas.values().filter(|pod| sound(pod)).count();
        let unavailable = self.set.replicas.saturating_sub(i64::try_from(available).unwrap_or(0));
        let budget = self.max_unavailable().saturating_sub(unavailable).max(0);
        let mut budget = usize::try_from(budget).unwrap_or_default().min(BURST);
        for (ordinal, pod) in old {
            // Where order does not matter, a pod that serves nobody costs nothing.
            let free = !self.set.ordered && !self.set.available(pod);
            if free {
                self.delete(pod, ordinal);
            } else if budget > 0 {
                budget -= 1;
                self.delete(pod, ordinal);
            }
        }
    }

    /// How many pods may be unavailable during an update: one at least.
    fn max_unavailable(&self) -> i64 {
        let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
        let said = self.set.object.at(&path);
        said.and_then(|said| share::of(said, self.set.replicas, Round::Down)).unwrap_or(1).max(1)
    }

    fn delete(&mut self, pod: &VersionedObject, ordinal: i64) {
        let (done, refused) = self.notes("Delete", ordinal);
        let intent = ControllerIntent::delete(BuiltinResource::Pods, pod);
        self.out.push(intent.when_done(done).when_refused(refused));
    }

    /// What is told about a pod when something was done or refused (SS11).
    fn notes(&self, verb: &str, ordinal: i64) -> (EventReport, EventReport) {
        let (pod, set) = (identity::name(self.set, ordinal), self.set.object.name());
        let about = &self.set.about;
        let done = format!("{verb} Pod {pod} in StatefulSet {set} successful");
        let refused = format!("{verb} Pod {pod} in StatefulSet {set} failed error: ");
        (
            about.normal(&format!("Successful{verb}"), done),
            about.warning(&format!("Failed{verb}"), refused).ending(MessageSuffix::Error),
        )
    }

    /// Something that stands in the way of a new pod and that waiting alone may not end.
    fn trouble(&mut self, ordinal: i64, why: &str) {
        let (_, mut note) = self.notes("Create", ordinal);
        note.message.push_str(why);
        self.troubles.push(note.ending(MessageSuffix::Nothing));
    }
}

impl RolloutFlow {
    /// A pod that was only now made has to become available first.
    fn max_wait(self) -> RolloutFlow {
        if self == RolloutFlow::On { RolloutFlow::Wait } else { self }
    }
}
