//! A small server in memory that runs controllers until nothing more is wanted.
//!
//! It imitates what controllers rely on: names, uids, generations, optimistic concurrency, status
//! doors, finalizers, graceful deletion, collection of dependents. It validates and defaults nothing.
//! Every object lives in the namespace `default` unless it says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_workload::intent::UNSIGNED;
use tenure_workload::system_objects::SystemObject;
use tenure_workload::{
    API_SERVER, Act, ApiAnswers, ApiRefusal, BuiltinResource, CONTROLLERS, ClusterView, Controller,
    ControllerIntent, CustomKind, Departure, EventReport, FailedIntent, IntentPropagation,
    ObjectChange, ObjectHeader, Pass, ReconcileKey, ReconcileMemory, ReconcileResult, Reliance,
    UpdateEndpoint, Verb, VersionedObject, owner, pod,
};

/// How many passes a scenario may take before it counts as a hot loop.
const PASSES_MAX: usize = 5_000;

/// A definition whose objects are Leases.
pub(crate) const LEASES: &str = "leases.coordination.k8s.io";

type Place = (BuiltinResource, String, String);
type Job = (usize, ReconcileKey);

/// Objects at one moment.
#[derive(Clone, Default)]
pub(crate) struct Objects(BTreeMap<Place, VersionedObject>);

impl ClusterView for Objects {
    fn get(
        &self,
        resource: BuiltinResource,
        namespace: &str,
        name: &str,
    ) -> Option<VersionedObject> {
        self.0.get(&(resource, namespace.to_owned(), name.to_owned())).cloned()
    }
    fn list(&self, resource: BuiltinResource, namespace: Option<&str>) -> Vec<VersionedObject> {
        let from = (resource, namespace.unwrap_or_default().to_owned(), String::new());
        self.0
            .range(from..)
            .take_while(|((r, ns, _), _)| *r == resource && namespace.is_none_or(|n| n == ns))
            .map(|(_, seen)| seen.clone())
            .collect()
    }
    /// Leases stand for a custom kind.
    fn custom_kind(&self, definition: &str) -> Option<CustomKind> {
        (definition == LEASES).then_some(CustomKind { overlaps_builtin: false })
    }
    fn each_instance(&self, definition: &str, visit: &mut dyn FnMut(ObjectHeader<'_>)) {
        for lease in
            self.list(BuiltinResource::Leases, None).iter().filter(|_| definition == LEASES)
        {
            visit(ObjectHeader::of(BuiltinResource::Leases, lease, &[]));
        }
    }
    fn revision(&self) -> Revision {
        self.0.values().map(|seen| seen.revision).max().unwrap_or_default()
    }
    fn collected(&self) -> Revision {
        match self.get(BuiltinResource::ConfigMaps, "default", "collected") {
            Some(map) => Revision(map.int_at(&["revision"]).unwrap().try_into().unwrap()),
            None => Revision(u64::MAX),
        }
    }
    fn system_objects(&self) -> &[SystemObject] {
        static OBJECTS: OnceLock<Vec<SystemObject>> = OnceLock::new();
        OBJECTS.get_or_init(|| {
            let system = |resource: BuiltinResource, kept: bool, object: Value| SystemObject {
                resource,
                namespace: if resource.namespaced() { "default".into() } else { String::new() },
                object: object.as_object().unwrap().clone(),
                kept,
            };
            let metadata = json!({"name": "kubernetes"});
            let service = json!({"metadata": metadata, "spec": {"type": "ClusterIP"}});
            let endpoints = json!({"metadata": metadata, "subsets": [{"addresses": []}]});
            vec![
                system(
                    BuiltinResource::Namespaces,
                    false,
                    json!({"metadata": {"name": "default"}}),
                ),
                system(BuiltinResource::Services, false, service),
                system(BuiltinResource::Endpoints, true, endpoints),
            ]
        })
    }
    fn authority(&self) -> &str {
        "the authority"
    }
    fn owned_by(&self, uid: &str, resource: BuiltinResource) -> Vec<VersionedObject> {
        let mut all = self.list(resource, None);
        all.retain(|object| owners(object).any(|owner| owner == uid));
        all
    }
}

fn owners(object: &Object) -> impl Iterator<Item = &str> {
    object
        .list_at(&["metadata", "ownerReferences"])
        .iter()
        .filter_map(|entry| entry.get("uid").and_then(Value::as_str))
}

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

    fn carry_out_all(&mut self, intents: &[ControllerIntent]) -> Vec<FailedIntent> {
        let (mut refused, mut failed) = (Vec::new(), false);
        for intent in intents {
            // A run of intents that go out together ends before a failure is looked at.
            if failed && !intent.together {
                break;
            }
            if let Err(why) = self.carry_out(intent) {
                failed |= !intent.independent;
                refused.push(why);
            }
        }
        refused
    }

    fn carry_out(&mut self, intent: &ControllerIntent) -> Result<(), FailedIntent> {
        let done = self.act(intent);
        if done.as_ref().is_err_and(|why| intent.forgiven.contains(&why.why)) {
            return Ok(());
        }
        match (&done, &intent.done, &intent.refused) {
            (Ok(name), Some(note), _) => self.tell(note, name, ""),
            (Err(why), _, Some(note)) if !why.namespace_terminating => {
                self.tell(note, "", &why.message.clone());
            }
            _ => {}
        }
        self.collect();
        if let Some(check) = self.check {
            check(self);
        }
        done.map(|_| ())
    }

    fn tell(&mut self, note: &EventReport, name: &str, error: &str) {
        let kind = if note.warning { "Warning" } else { "Normal" };
        self.events.push(format!("{kind} {} {}", note.reason, note.words(name, error)));
    }

    fn act(&mut self, intent: &ControllerIntent) -> Result<String, FailedIntent> {
        if let Some((code, reason, message)) = self.objection.as_ref().and_then(|o| o(intent)) {
            return Err(refusal(&intent.act, code, reason, message));
        }
        for reliance in &intent.relies_on {
            if !self.holds(reliance) {
                return Err(refusal(&intent.act, 409, "Conflict", "what it relies on changed"));
            }
        }
        let stale = |code, reason| refusal(&intent.act, code, reason, reason);
        match &intent.act {
            Act::Create { resource, object } => self
                .put_new(*resource, Object::clone(object))
                .map(|seen| seen.name().to_owned())
                .map_err(|reason| stale(409, reason)),
            Act::Update { resource, object, endpoint, revision } => self
                .put(*resource, Object::clone(object), *endpoint, *revision)
                .map(|()| object.name().to_owned())
                .map_err(|reason| stale(409, reason)),
            Act::Delete {
                resource,
                namespace,
                name,
                uid,
                revision,
                propagation,
                grace_seconds,
            } => {
                let found = self.objects.get(*resource, namespace, name);
                let found = found.filter(|found| owner::uid(found) == uid);
                let Some(found) = found else { return Err(stale(404, "NotFound")) };
                if revision.is_some_and(|revision| revision != found.revision) {
                    return Err(stale(409, "Conflict"));
                }
                self.remove(*resource, &found, *propagation);
                if *grace_seconds == Some(0) {
                    self.end_grace(*resource, namespace, name);
                }
                Ok(name.clone())
            }
            Act::IssueToken { object, revision, account, .. } => {
                let mut object = Object::clone(object);
                object.map_mut("data").insert("token".into(), format!("for {account}").into());
                self.put(BuiltinResource::Secrets, object.clone(), UpdateEndpoint::Main, *revision)
                    .map(|()| object.name().to_owned())
                    .map_err(|reason| stale(409, reason))
            }
            Act::Apply { .. } => panic!("nothing that is tested here applies"),
            Act::Remove { object, .. } => {
                let at = BuiltinResource::find(&object.group, &object.resource).unwrap();
                let found = self.objects.get(at, &object.namespace, &object.name);
                let found = found.filter(|found| owner::uid(found) == object.uid);
                if let Some(found) = found {
                    self.remove(at, &found, None);
                }
                Ok(object.name.clone())
            }
            Act::SignCertificate { request, .. } if request == "bad" => {
                Err(refusal(&intent.act, 422, UNSIGNED, "no request"))
            }
            Act::SignCertificate { approved, revision, node, request } => {
                let at = BuiltinResource::CertificateSigningRequests;
                let mut object = Object::clone(approved);
                let certificate = format!("{request} for {node}");
                object.map_mut("status").insert("certificate".into(), certificate.into());
                self.put(at, object, UpdateEndpoint::Status, *revision)
                    .map(|()| approved.name().to_owned())
                    .map_err(|reason| stale(409, reason))
            }
            Act::CheckTypes { policy, revision } => {
                let mut object = Object::clone(policy);
                let generation = policy.int_at(&["metadata", "generation"]);
                let seen = policy
                    .list_at(&["spec", "validations"])
                    .iter()
                    .map(|validation| json!({"fieldRef": "", "warning": validation["expression"]}));
                let warnings = json!({"expressionWarnings": seen.collect::<Vec<_>>()});
                let status = object.map_mut("status");
                status.insert("observedGeneration".into(), generation.into());
                status.insert("typeChecking".into(), warnings);
                self.put(
                    BuiltinResource::ValidatingAdmissionPolicies,
                    object,
                    UpdateEndpoint::Status,
                    *revision,
                )
                .map(|()| policy.name().to_owned())
                .map_err(|reason| stale(409, reason))
            }
            Act::PutScale { path, scale } => {
                let replicas = scale.int_at(&["spec", "replicas"]).unwrap();
                self.writes.push(format!("scale {} {replicas}", scale.name()));
                self.api.get_mut(path).unwrap()["spec"]["replicas"] = replicas.into();
                Ok(scale.name().to_owned())
            }
            Act::Touch { path, name } => {
                self.writes.push(format!("touch {path}"));
                Ok(name.clone())
            }
            Act::RemoveElsewhere { path, name, uid } => {
                self.writes.push(format!("delete {path} {uid}"));
                let lists = self.api.values_mut().filter_map(|list| list.get_mut("items"));
                for list in lists.filter_map(Value::as_array_mut) {
                    list.retain_mut(|item| {
                        let meant = item["metadata"]["uid"] == **uid;
                        let held = item["metadata"].get("finalizers").is_some();
                        if meant && held {
                            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                        }
                        !meant || held
                    });
                }
                Ok(name.clone())
            }
            Act::Tell(note) => {
                self.tell(note, "", "");
                Ok(String::new())
            }
        }
    }

    fn holds(&self, reliance: &Reliance) -> bool {
        match reliance {
            Reliance::NoInstances { definition } => {
                let mut none = true;
                self.objects.each_instance(definition, &mut |_| none = false);
                none
            }
            Reliance::NamespaceEmpty { namespace } => {
                let mut empty = true;
                self.objects.each_in_namespace(namespace, &mut |_| empty = false);
                empty
            }
            Reliance::Living { resource, namespace, name, uid } => self
                .objects
                .get(*resource, namespace, name)
                .is_some_and(|found| owner::uid(&found) == uid && !owner::deleting(&found)),
            Reliance::At { resource, namespace, name, revision } => {
                self.objects.get(*resource, namespace, name).map(|found| found.revision)
                    == *revision
            }
        }
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

    // ---- the server ----------------------------------------------------------------------------

    fn woken(
        &self,
        resource: BuiltinResource,
        before: Option<&VersionedObject>,
        after: Option<&VersionedObject>,
    ) -> Vec<Job> {
        let mut jobs = Vec::new();
        let change = ObjectChange { resource, before, after };
        for (place, controller) in self.controllers.iter().enumerate() {
            if controller.watches().contains(&resource) {
                controller.wake(&change, &self.objects, &mut |key| jobs.push((place, key)));
            }
            if let (Some(gone), None) = (before, after) {
                let departure = Departure {
                    group: resource.group(),
                    resource: resource.plural(),
                    namespace: gone.namespace(),
                };
                let wake = &mut |key| jobs.push((place, key));
                controller.wake_by_departure(&departure, &self.objects, wake);
            }
        }
        jobs
    }

    fn wake(
        &mut self,
        resource: BuiltinResource,
        before: Option<&VersionedObject>,
        after: Option<&VersionedObject>,
    ) {
        let jobs = self.woken(resource, before, after);
        self.queue.extend(jobs);
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn put_new(
        &mut self,
        resource: BuiltinResource,
        mut object: Object,
    ) -> Result<VersionedObject, &'static str> {
        let number = self.number();
        let now = self.now.to_string();
        let metadata = object.map_mut("metadata");
        if let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
            && !metadata.contains_key("name")
        {
            let name = format!("{prefix}{number:05}");
            metadata.insert("name".to_owned(), name.into());
        }
        if resource.namespaced() {
            metadata.entry("namespace").or_insert_with(|| "default".into());
        }
        metadata.insert("uid".to_owned(), format!("uid-{number:05}").into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        metadata.insert("generation".to_owned(), 1.into());
        if resource != BuiltinResource::Nodes {
            object.remove("status");
        }
        match resource {
            BuiltinResource::Pods => {
                object.insert("status".to_owned(), json!({"phase": "Pending"}))
            }
            BuiltinResource::ReplicaSets | BuiltinResource::ReplicationControllers => {
                object.insert("status".to_owned(), json!({"replicas": 0}))
            }
            _ => None,
        };
        if self.objects.get(resource, object.namespace(), object.name()).is_some() {
            return Err("AlreadyExists");
        }
        self.writes.push(format!("create {}/{}", resource.plural(), object.name()));
        Ok(self.store(resource, object))
    }

    fn put(
        &mut self,
        resource: BuiltinResource,
        mut object: Object,
        endpoint: UpdateEndpoint,
        revision: Revision,
    ) -> Result<(), &'static str> {
        let stored = self.objects.get(resource, object.namespace(), object.name());
        let Some(stored) = stored else { return Err("NotFound") };
        if stored.revision != revision {
            return Err("Conflict");
        }
        if endpoint == UpdateEndpoint::Binding {
            if !pod::node(&stored).is_empty() {
                return Err("Conflict");
            }
            let node = object.at(&["target", "name"]).cloned().unwrap();
            object = Object::clone(&stored.object);
            object.map_mut("spec").insert("nodeName".to_owned(), node);
        }
        match endpoint {
            UpdateEndpoint::Status | UpdateEndpoint::Approval => {
                let mut whole = Object::clone(&stored.object);
                whole.insert("status".to_owned(), object.remove("status").unwrap_or(json!({})));
                if resource == BuiltinResource::Deployments
                    && let Some(annotations) = object.at(&["metadata", "annotations"])
                {
                    whole.map_mut("metadata").insert("annotations".into(), annotations.clone());
                }
                if resource == BuiltinResource::CustomResourceDefinitions
                    && let Some(finalizers) = object.at(&["metadata", "finalizers"])
                {
                    whole.map_mut("metadata").insert("finalizers".into(), finalizers.clone());
                } else if resource == BuiltinResource::CustomResourceDefinitions {
                    whole.map_mut("metadata").remove("finalizers");
                }
                object = whole;
            }
            UpdateEndpoint::Finalize => {
                let mut whole = Object::clone(&stored.object);
                whole.insert("spec".to_owned(), object.remove("spec").unwrap_or(json!({})));
                object = whole;
            }
            _ => {
                match stored.get("status") {
                    Some(status) => object.insert("status".to_owned(), status.clone()),
                    None => object.remove("status"),
                };
                let annotated = resource == BuiltinResource::Deployments
                    && object.at(&["metadata", "annotations"])
                        != stored.at(&["metadata", "annotations"]);
                if object.get("spec") != stored.get("spec") || annotated {
                    let next = owner::generation(&stored) + 1;
                    object.map_mut("metadata").insert("generation".to_owned(), next.into());
                }
            }
        }
        if object == *stored.object {
            return Ok(());
        }
        let how = endpoint.subresource();
        self.writes.push(format!("update {}/{} {how}", resource.plural(), object.name()));
        let free = |object: &Object| {
            object.list_at(&["metadata", "finalizers"]).is_empty()
                && object.list_at(&["spec", "finalizers"]).is_empty()
        };
        // A pod on a node stays until the node lets go of it.
        let stopped = resource != BuiltinResource::Pods
            || (!free(&stored) && (pod::node(&object).is_empty() || pod::terminal(&object)));
        if owner::deleting(&object) && free(&object) && stopped {
            self.take(resource, &stored);
        } else {
            self.store(resource, object);
        }
        Ok(())
    }

    fn store(&mut self, resource: BuiltinResource, mut object: Object) -> VersionedObject {
        self.revision += 1;
        let revision = Revision(self.revision);
        object.map_mut("metadata").insert("resourceVersion".into(), revision.to_string().into());
        let place = (resource, object.namespace().to_owned(), object.name().to_owned());
        let seen = VersionedObject { object: Arc::new(object), revision };
        self.living.insert(owner::uid(&seen).to_owned());
        self.untidy |= owners(&seen).any(|owner| !self.living.contains(owner));
        let before = self.objects.0.insert(place, seen.clone());
        self.wake(resource, before.as_ref(), Some(&seen));
        seen
    }

    /// Begins a deletion, or ends it where nothing has to be waited for.
    fn remove(
        &mut self,
        resource: BuiltinResource,
        seen: &VersionedObject,
        how: Option<IntentPropagation>,
    ) {
        self.writes.push(format!("delete {}/{}", resource.plural(), seen.name()));
        if how == Some(IntentPropagation::Orphan) {
            for kind in BuiltinResource::ALL {
                for dependent in self.objects.owned_by(owner::uid(seen), *kind) {
                    let free = owner::released(&dependent, owner::uid(seen));
                    self.store(*kind, free);
                }
            }
        }
        let held = [["metadata", "finalizers"], ["spec", "finalizers"]]
            .iter()
            .any(|path| !seen.list_at(path).is_empty());
        let on_node = resource == BuiltinResource::Pods && !pod::node(seen).is_empty();
        let waits = held || (on_node && !pod::terminal(seen));
        if !waits {
            self.take(resource, seen);
        } else if !owner::deleting(seen) {
            let mut object = Object::clone(&seen.object);
            let now = self.now.to_string();
            object.map_mut("metadata").insert("deletionTimestamp".to_owned(), now.into());
            self.store(resource, object);
        }
    }

    /// Lets an object that is being deleted wait for nothing but its finalizers.
    fn end_grace(&mut self, resource: BuiltinResource, namespace: &str, name: &str) {
        let Some(seen) = self.objects.get(resource, namespace, name) else { return };
        if seen.list_at(&["metadata", "finalizers"]).is_empty() {
            self.take(resource, &seen);
        } else {
            let mut object = Object::clone(&seen.object);
            object.map_mut("metadata").insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            self.store(resource, object);
        }
    }

    /// Takes an object away for good.
    fn take(&mut self, resource: BuiltinResource, seen: &VersionedObject) {
        let place = (resource, seen.namespace().to_owned(), seen.name().to_owned());
        if let Some(before) = self.objects.0.remove(&place) {
            self.revision += 1;
            self.living.remove(owner::uid(&before));
            self.untidy = true;
            self.wake(resource, Some(&before), None);
        }
    }

    /// Deletes what has owners, none of which is left.
    fn collect(&mut self) {
        while std::mem::take(&mut self.untidy) {
            let lost = self.objects.0.iter().find(|(_, seen)| {
                let mut owners = owners(seen).peekable();
                owners.peek().is_some()
                    && owners.all(|owner| !self.living.contains(owner))
                    && !owner::deleting(seen)
            });
            let Some((resource, seen)) = lost.map(|((r, _, _), seen)| (*r, seen.clone())) else {
                return;
            };
            self.remove(resource, &seen, None);
            self.untidy = true;
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

fn refusal(act: &Act, code: u16, reason: &str, message: &str) -> FailedIntent {
    let (verb, resource, name) = match act {
        Act::Create { resource, object } => {
            let prefix = object.str_at(&["metadata", "generateName"]).unwrap_or_default();
            let name = if object.name().is_empty() { prefix } else { object.name() };
            (Verb::Create, Some(*resource), name.to_owned())
        }
        Act::Update { resource, object, .. } => {
            (Verb::Update, Some(*resource), object.name().to_owned())
        }
        Act::Apply { resource, config } => {
            (Verb::Update, Some(*resource), config.name().to_owned())
        }
        Act::IssueToken { object, .. } => {
            (Verb::Update, Some(BuiltinResource::Secrets), object.name().to_owned())
        }
        Act::SignCertificate { approved, .. } => {
            let resource = BuiltinResource::CertificateSigningRequests;
            (Verb::Update, Some(resource), approved.name().to_owned())
        }
        Act::CheckTypes { policy, .. } => {
            let resource = BuiltinResource::ValidatingAdmissionPolicies;
            (Verb::Update, Some(resource), policy.name().to_owned())
        }
        Act::Delete { resource, name, .. } => (Verb::Delete, Some(*resource), name.clone()),
        Act::Remove { object, .. } => {
            let resource = BuiltinResource::find(&object.group, &object.resource);
            (Verb::Delete, resource, object.name.clone())
        }
        Act::PutScale { scale, .. } => (Verb::Update, None, scale.name().to_owned()),
        Act::Touch { name, .. } => (Verb::Update, None, name.clone()),
        Act::RemoveElsewhere { name, .. } => (Verb::Delete, None, name.clone()),
        Act::Tell(note) => (Verb::Create, Some(note.about.resource), note.about.name.clone()),
    };
    FailedIntent {
        verb,
        resource,
        name,
        why: Failure::new(code, "", "").refusal(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        namespace_terminating: reason == "NamespaceTerminating",
    }
}
