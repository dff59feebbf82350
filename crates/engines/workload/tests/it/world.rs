//! A small server in memory that runs controllers until nothing more is wanted.
//!
//! It imitates what controllers rely on: names, uids, generations, optimistic concurrency, status
//! doors, finalizers, graceful deletion, collection of dependents. It validates and defaults nothing.
//! Every object lives in the namespace `default` unless it says otherwise.

mod intents;
mod objects;
mod server;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};
use tenure_workload::{
    API_SERVER, ApiAnswers, ApiRefusal, BuiltinResource, CONTROLLERS, ClusterView, Controller,
    ControllerIntent, FailedIntent, IntentPropagation, Pass, ReconcileKey, ReconcileMemory,
    ReconcileResult, UpdateEndpoint, VersionedObject, owner, pod,
};

pub(crate) use objects::Objects;

/// How many passes a scenario may take before it counts as a hot loop.
const PASSES_MAX: usize = 5_000;

/// A definition whose objects are Leases.
pub(crate) const LEASES: &str = "leases.coordination.k8s.io";

type Place = (BuiltinResource, String, String);
type Job = (usize, ReconcileKey);

/// What a scenario may say against an intent.
type Objection = Box<dyn Fn(&ControllerIntent) -> Option<(u16, &'static str, &'static str)>>;

/// The server, its clock, and the queues of all controllers.
pub(crate) struct World {
    pub(crate) objects: Objects,
    pub(crate) now: Timestamp,
    /// Pods are bound, start, become ready and end by themselves.
    pub(crate) pods_run: bool,
    /// Everything that was told, as `Warning FailedCreate Error creating: …`.
    pub(crate) events: Vec<String>,
    /// Every write, as `create replicasets/web-5b`.
    pub(crate) writes: Vec<String>,
    /// What the API answers, by path; anything else is not found.
    pub(crate) api: BTreeMap<String, Value>,
    /// Looks at the world after every write.
    pub(crate) check: Option<fn(&World)>,
    controllers: Vec<&'static dyn Controller>,
    revision: u64,
    numbers: u64,
    queue: BTreeSet<Job>,
    timers: BTreeMap<Job, Timestamp>,
    memory: BTreeMap<Job, ReconcileMemory>,
    refused: BTreeMap<Job, Vec<FailedIntent>>,
    objection: Option<Objection>,
    chance: Option<u64>,
    /// The uids of all objects.
    pub(crate) living: BTreeSet<String>,
    /// Whether an owner went, or an object came whose owner is absent, since the last collection.
    untidy: bool,
}

impl World {
    /// An empty world with all controllers.
    pub(crate) fn new() -> World {
        World {
            objects: Objects::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            pods_run: false,
            events: Vec::new(),
            writes: Vec::new(),
            api: BTreeMap::new(),
            check: None,
            controllers: workloads(),
            revision: 0,
            numbers: 0,
            queue: BTreeSet::new(),
            timers: BTreeMap::new(),
            memory: BTreeMap::new(),
            refused: BTreeMap::new(),
            objection: None,
            chance: None,
            living: BTreeSet::new(),
            untidy: false,
        }
    }

    /// An empty world with these controllers only, by their older names; any may be named.
    pub(crate) fn of(aliases: &[&str]) -> World {
        let all = CONTROLLERS.iter().chain(API_SERVER).copied();
        let controllers = all.filter(|controller| aliases.contains(&controller.alias())).collect();
        World { controllers, ..World::new() }
    }

    /// An empty world with one controller, which need not be in the table.
    pub(crate) fn run_by(controller: &'static dyn Controller) -> World {
        World { controllers: [controller].to_vec(), ..World::new() }
    }

    /// A world where pods come to life, the order of work is drawn from a seed, and hosts crash.
    pub(crate) fn chaotic(seed: u64) -> World {
        World { pods_run: true, chance: Some(seed | 1), ..World::new() }
    }

    /// Runs only some controllers, by their older names.
    pub(crate) fn only(mut self, aliases: &[&str]) -> World {
        self.controllers.retain(|controller| aliases.contains(&controller.alias()));
        self
    }

    // ---- what users do -------------------------------------------------------------------------

    /// Creates an object as a user would; its resource follows from its kind.
    pub(crate) fn create(&mut self, object: Value) -> VersionedObject {
        let object = object.as_object().unwrap().clone();
        let resource = resource_of(&object);
        self.put_new(resource, object).unwrap()
    }

    /// Changes an object as a user would, through the main door; a status written here is ignored.
    pub(crate) fn edit(
        &mut self,
        resource: BuiltinResource,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        let seen = self.get(resource, name);
        let mut value = Value::Object(Object::clone(&seen.object));
        edit(&mut value);
        let object = value.as_object().unwrap().clone();
        self.put(resource, object, UpdateEndpoint::Main, seen.revision).unwrap();
    }

    /// Changes the status of an object.
    pub(crate) fn edit_status(
        &mut self,
        resource: BuiltinResource,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        let seen = self.get(resource, name);
        let mut value = Value::Object(Object::clone(&seen.object));
        edit(&mut value["status"]);
        let object = value.as_object().unwrap().clone();
        self.put(resource, object, UpdateEndpoint::Status, seen.revision).unwrap();
    }

    /// Deletes an object as a user would.
    pub(crate) fn delete(
        &mut self,
        resource: BuiltinResource,
        name: &str,
        how: Option<IntentPropagation>,
    ) {
        let seen = self.get(resource, name);
        self.remove(resource, &seen, how);
        self.collect();
    }

    /// Binds, starts and readies a pod.
    pub(crate) fn ready(&mut self, name: &str) {
        self.edit(BuiltinResource::Pods, name, |pod| {
            if pod["spec"]["nodeName"].is_null() {
                // A pod of a DaemonSet says where it wants to be.
                let term = "/spec/affinity/nodeAffinity\
                    /requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
                let aimed = pod.pointer(&format!("{term}/matchFields/0/values/0")).cloned();
                pod["spec"]["nodeName"] = aimed.unwrap_or_else(|| "node-1".into());
            }
        });
        self.set_ready(name, true);
    }

    /// Starts a pod, ready or not.
    pub(crate) fn set_ready(&mut self, name: &str, ready: bool) {
        let (now, status) = (self.now.to_string(), if ready { "True" } else { "False" });
        self.edit_status(BuiltinResource::Pods, name, |old| {
            *old = json!({"phase": "Running", "conditions": [
                {"type": "Ready", "status": status, "lastTransitionTime": now}]});
        });
    }

    /// Ends a pod in a phase.
    pub(crate) fn end(&mut self, name: &str, phase: &str) {
        self.edit_status(BuiltinResource::Pods, name, |status| *status = json!({"phase": phase}));
    }

    /// Ends the deletion of a pod that a node has let go of.
    pub(crate) fn let_go(&mut self, name: &str) {
        let seen = self.get(BuiltinResource::Pods, name);
        assert!(owner::deleting(&seen), "{name} is not being deleted");
        self.end_deletion(&seen);
    }

    /// A node stops a pod: it goes, or has failed where a finalizer holds it. Says whether it moved.
    fn end_deletion(&mut self, pod: &VersionedObject) -> bool {
        if pod.list_at(&["metadata", "finalizers"]).is_empty() {
            self.take(BuiltinResource::Pods, pod);
            return true;
        }
        let runs = !pod::terminal(pod);
        if runs {
            self.end(pod.name(), "Failed");
        }
        runs
    }

    /// Refuses intents from now on with a code, a reason and a message.
    pub(crate) fn refuse(
        &mut self,
        objection: impl Fn(&ControllerIntent) -> Option<(u16, &'static str, &'static str)> + 'static,
    ) {
        self.objection = Some(Box::new(objection));
    }

    /// Refuses nothing any more.
    pub(crate) fn allow(&mut self) {
        self.objection = None;
    }

    // ---- what there is -------------------------------------------------------------------------

    /// An object in the namespace `default`, or without one.
    pub(crate) fn get(&self, resource: BuiltinResource, name: &str) -> VersionedObject {
        let namespace = if resource.namespaced() { "default" } else { "" };
        let found = self.objects.get(resource, namespace, name);
        found.unwrap_or_else(|| panic!("no {} {name}", resource.plural()))
    }

    /// An object as JSON.
    pub(crate) fn json(&self, resource: BuiltinResource, name: &str) -> Value {
        Value::Object(Object::clone(&self.get(resource, name).object))
    }

    /// All objects of a resource.
    pub(crate) fn list(&self, resource: BuiltinResource) -> Vec<VersionedObject> {
        self.objects.list(resource, None)
    }

    /// The names of all objects of a resource.
    pub(crate) fn names(&self, resource: BuiltinResource) -> Vec<String> {
        self.list(resource).iter().map(|object| object.name().to_owned()).collect()
    }

    /// The names of the objects that an owner controls.
    pub(crate) fn owned(&self, owner_uid: &str, resource: BuiltinResource) -> Vec<String> {
        let mut owned = self.objects.owned_by(owner_uid, resource);
        owned.retain(|object| owner::controlled_by(object, owner_uid));
        owned.iter().map(|object| object.name().to_owned()).collect()
    }

    // ---- running -------------------------------------------------------------------------------

    /// Runs until nothing more happens without time, then checks that nothing more is wanted (PU4).
    pub(crate) fn settle(&mut self) {
        for _ in 0..PASSES_MAX {
            if let Some(job) = self.next_job() {
                self.run(&job);
            } else if !self.pods_run || !self.run_pods() {
                self.assert_settled();
                return;
            }
        }
        panic!("a hot loop: {:?}", self.writes.iter().rev().take(20).collect::<Vec<_>>());
    }

    /// Lets time pass, second by second, and settles whenever a timer fires.
    pub(crate) fn advance(&mut self, seconds: i64) {
        let end = self.now + SignedDuration::from_secs(seconds);
        while let Some(next) = self.timers.values().min().copied().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            let due: Vec<Job> = self.timers_until(next);
            for job in due {
                self.timers.remove(&job);
                self.queue.insert(job);
            }
            self.settle();
        }
        self.now = end;
    }

    fn timers_until(&self, time: Timestamp) -> Vec<Job> {
        self.timers.iter().filter(|(_, at)| **at <= time).map(|(job, _)| job.clone()).collect()
    }

    /// Forgets all that a host keeps in memory and starts with what is stored.
    pub(crate) fn restart(&mut self) {
        self.queue.clear();
        self.timers.clear();
        self.memory.clear();
        self.refused.clear();
        let all: Vec<(BuiltinResource, VersionedObject)> =
            self.objects.0.iter().map(|((r, _, _), seen)| (*r, seen.clone())).collect();
        for (resource, seen) in all {
            self.wake(resource, None, Some(&seen));
        }
    }

    fn next_job(&mut self) -> Option<Job> {
        let count = self.queue.len();
        let place = if self.chance.is_some() && count > 0 { self.draw(count) } else { 0 };
        let job = self.queue.iter().nth(place)?.clone();
        self.queue.remove(&job);
        Some(job)
    }

    fn draw(&mut self, below: usize) -> usize {
        let Some(state) = &mut self.chance else { return 0 };
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        usize::try_from(*state >> 33).unwrap() % below.max(1)
    }

    fn reconcile(&self, job: &Job) -> ReconcileResult {
        let nothing = ReconcileMemory::default();
        let mut answers = ApiAnswers::new();
        loop {
            let result = self.controllers[job.0].reconcile(&Pass {
                key: &job.1,
                view: &self.objects,
                now: self.now,
                memory: self.memory.get(job).unwrap_or(&nothing),
                refused: self.refused.get(job).map_or(&[], Vec::as_slice),
                answers: &answers,
            });
            if result.questions.is_empty() {
                return result;
            }
            for path in result.questions {
                let missing = || ApiRefusal {
                    code: 404,
                    message: "the server could not find the requested resource".to_owned(),
                };
                let answer = self.api.get(&path).cloned().ok_or_else(missing);
                assert!(answers.insert(path, answer).is_none(), "nothing is asked twice");
            }
        }
    }

    fn run(&mut self, job: &Job) {
        let outcome = self.reconcile(job);
        assert_eq!(outcome, self.reconcile(job), "PU1: the same input gives the same output");
        self.memory.insert(job.clone(), outcome.memory);
        self.timers.remove(job);
        let at_once = outcome.requeue_after.is_some_and(|wait| wait.is_zero());
        if let Some(wait) = outcome.requeue_after.filter(|wait| !wait.is_zero()) {
            self.timers.insert(job.clone(), self.now + SignedDuration::try_from(wait).unwrap());
        }
        if self.chance.is_some() && self.draw(16) == 0 {
            // The host dies somewhere in the middle of the intents.
            let survived = self.draw(outcome.intents.len() + 1);
            for intent in outcome.intents.iter().take(survived) {
                let _ = self.carry_out(intent);
            }
            self.restart();
            return;
        }
        let refused = self.carry_out_all(&outcome.intents);
        if !refused.is_empty() {
            // A real host waits a little longer after every refusal; here half a second will do.
            let again = self.now + SignedDuration::from_millis(500);
            let timer = self.timers.entry(job.clone()).or_insert(again);
            *timer = again.min(*timer);
        } else if at_once {
            self.queue.insert(job.clone());
        }
        self.refused.insert(job.clone(), refused);
    }

    /// Moves every pod one step: bind and ready it, or end its deletion. Says whether any moved.
    fn run_pods(&mut self) -> bool {
        let mut moved = false;
        for seen in self.list(BuiltinResource::Pods) {
            if owner::deleting(&seen) {
                moved |= self.end_deletion(&seen);
            } else if pod::phase(&seen) == "Pending" {
                self.ready(seen.name());
                moved = true;
            } else if pod::phase(&seen) == "Running"
                && seen.str_at(&["spec", "restartPolicy"]) == Some("Never")
            {
                let phase = if self.draw(3) == 0 { "Failed" } else { "Succeeded" };
                self.end(seen.name(), phase);
                moved = true;
            }
        }
        moved
    }

    fn assert_settled(&self) {
        let mut jobs: BTreeSet<Job> = BTreeSet::new();
        for ((resource, _, _), seen) in &self.objects.0 {
            jobs.extend(self.woken(*resource, None, Some(seen)));
        }
        for job in jobs {
            // What is refused again and again never settles, and says so in a timer.
            if self.refused.get(&job).is_some_and(|refused| !refused.is_empty()) {
                continue;
            }
            let intents = self.reconcile(&job).intents;
            let who = self.controllers[job.0].name();
            assert!(intents.is_empty(), "PU4: {who} wants more for {:?}: {intents:#?}", job.1);
        }
    }
}

/// All controllers but those that look after pods, nodes and the promises of the API itself: here the world
/// does that, or does without.
fn workloads() -> Vec<&'static dyn Controller> {
    let helpers = ["podgc", "nodelifecycle", "taint-eviction", "persistentvolume-binder"];
    let all = CONTROLLERS.iter().copied();
    all.filter(|c| c.on_by_default() && !c.is_essential() && !helpers.contains(&c.alias()))
        .collect()
}

fn resource_of(object: &Object) -> BuiltinResource {
    let kind = object.str_at(&["kind"]).unwrap();
    *BuiltinResource::ALL.iter().find(|resource| resource.kind() == kind).unwrap()
}
