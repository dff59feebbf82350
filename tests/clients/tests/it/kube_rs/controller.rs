//! A controller as kube-rs writes them: finalizers, owned objects, events.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event as StoredEvent;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::finalizer::{self, Event as Finalize};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::World;
use super::boats::{Boat, BoatStatus, boat};

const PATIENCE: Duration = Duration::from_secs(20);
const FINALIZER: &str = "harbour.example/moored";

/// What the reconciler needs and what it did.
struct Harbour {
    client: Client,
    recorder: Recorder,
    log: Mutex<Vec<String>>,
}

impl Harbour {
    fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }

    fn noted(&self, line: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|found| *found == line).count()
    }
}

type Failed = finalizer::Error<kube::Error>;

async fn reconcile(boat: Arc<Boat>, harbour: Arc<Harbour>) -> Result<Action, Failed> {
    let api: Api<Boat> = Api::namespaced(harbour.client.clone(), "shop");
    finalizer::finalizer(&api, FINALIZER, boat, |event| async {
        match event {
            Finalize::Apply(boat) => moor(&boat, &harbour).await,
            Finalize::Cleanup(boat) => {
                harbour.note(format!("cleanup {}", boat.name_any()));
                Ok(Action::await_change())
            }
        }
    })
    .await
}

/// Writes the papers of a boat, tells its status, and publishes an event.
async fn moor(boat: &Boat, harbour: &Harbour) -> kube::Result<Action> {
    let name = boat.name_any();
    let papers = ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("{name}-papers")),
            owner_references: Some(vec![boat.controller_owner_ref(&()).unwrap()]),
            ..ObjectMeta::default()
        },
        data: Some([("port".to_owned(), boat.spec.port.clone())].into()),
        ..ConfigMap::default()
    };
    let mine = PatchParams::apply("harbour").force();
    let maps: Api<ConfigMap> = Api::namespaced(harbour.client.clone(), "shop");
    maps.patch(&format!("{name}-papers"), &mine, &Patch::Apply(papers)).await?;
    let status = BoatStatus { phase: Some(format!("In {}", boat.spec.port)), aboard: None };
    let told = json!({ "apiVersion": "harbour.example/v1", "kind": "Boat", "status": status });
    let api: Api<Boat> = Api::namespaced(harbour.client.clone(), "shop");
    api.patch_status(&name, &mine, &Patch::Apply(told)).await?;
    let event = Event {
        type_: EventType::Normal,
        reason: "Moored".into(),
        note: Some(format!("moored in {}", boat.spec.port)),
        action: "Mooring".into(),
        secondary: None,
    };
    harbour.recorder.publish(&event, &boat.object_ref(&())).await?;
    harbour.note(format!("moored {name}"));
    Ok(Action::await_change())
}

/// Waits until a boat looks right.
async fn until(api: &Api<Boat>, right: impl Fn(&Boat) -> bool + Send + Sync) -> Boat {
    let condition = |boat: Option<&Boat>| boat.is_some_and(&right);
    let waiting = await_condition(api.clone(), "anna", condition);
    tokio::time::timeout(PATIENCE, waiting).await.expect("in time").unwrap().unwrap()
}

async fn eventually<F: Future<Output = bool>>(what: &str, check: impl Fn() -> F) {
    let waiting = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test]
async fn a_controller_keeps_its_objects() {
    let world = World::start().await;
    let boats = world.boats().await;
    let maps = world.config_maps();
    let recorder = Recorder::new(world.client.clone(), "harbour".into());
    let log = Mutex::default();
    let harbour = Arc::new(Harbour { client: world.client.clone(), recorder, log });
    let running = Controller::new(boats.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), harbour.clone())
        .for_each(|_| async {});
    let running = tokio::spawn(running);

    boats.create(&PostParams::default(), &boat("anna", "kiel")).await.unwrap();
    let phase = |boat: &Boat| boat.status.clone().and_then(|status| status.phase);
    let moored = until(&boats, |boat| phase(boat).as_deref() == Some("In kiel")).await;
    assert_eq!(moored.finalizers(), [FINALIZER]);
    let papers = maps.get("anna-papers").await.unwrap();
    let owner = &papers.owner_references()[0];
    assert_eq!(
        (owner.uid.as_str(), owner.controller),
        (moored.uid().unwrap().as_str(), Some(true))
    );

    // The spec changes: the owned object follows.
    let riga = Patch::Merge(json!({ "spec": { "port": "riga" } }));
    boats.patch("anna", &PatchParams::default(), &riga).await.unwrap();
    until(&boats, |boat| phase(boat).as_deref() == Some("In riga")).await;
    assert_eq!(maps.get("anna-papers").await.unwrap().data.unwrap()["port"], "riga");
    // The owned object goes: it comes back, since the controller watches it.
    maps.delete("anna-papers", &DeleteParams::default()).await.unwrap();
    eventually("new papers", || async {
        maps.get_opt("anna-papers").await.unwrap().is_some_and(|new| new.uid() != papers.uid())
    })
    .await;

    // The finalizer holds the boat until it is cleaned up.
    let gone = await_condition(boats.clone(), "anna", conditions::is_deleted(owner.uid.as_str()));
    boats.delete("anna", &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(PATIENCE, gone).await.expect("in time").unwrap();
    assert_eq!(harbour.noted("cleanup anna"), 1);
    assert!(harbour.noted("moored anna") >= 3);
    running.abort();
}

#[tokio::test]
async fn events_of_a_series_are_counted() {
    let world = World::start().await;
    let boats = world.boats().await;
    let anna = boats.create(&PostParams::default(), &boat("anna", "kiel")).await.unwrap();
    let recorder = Recorder::new(world.client.clone(), "harbour".into());
    let event = Event {
        type_: EventType::Warning,
        reason: "Leaking".into(),
        note: Some("water in the hull".into()),
        action: "Looking".into(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder.publish(&event, &anna.object_ref(&())).await.unwrap();
    }
    let events: Api<StoredEvent> = Api::namespaced(world.client.clone(), "shop");
    let all = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 1, "{all:?}");
    let regarding = all[0].regarding.clone().unwrap();
    assert_eq!((regarding.kind.as_deref(), regarding.uid), (Some("Boat"), anna.uid()));
    assert_eq!(all[0].series.as_ref().unwrap().count, 3);
    assert_eq!(all[0].note.as_deref(), Some("water in the hull"));
    // The same event through the older group, by the selector that `kubectl describe` uses.
    let core: Api<k8s_openapi::api::core::v1::Event> =
        Api::namespaced(world.client.clone(), "shop");
    let about = "involvedObject.name=anna,involvedObject.kind=Boat,reason=Leaking,type=Warning";
    let found = core.list(&ListParams::default().fields(about)).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message.as_deref(), Some("water in the hull"));
    let none = core.list(&ListParams::default().fields("involvedObject.name=berta")).await;
    assert_eq!(none.unwrap().items, []);
}

#[tokio::test]
async fn a_finalizer_holds_and_lets_go() {
    let world = World::start().await;
    let api = world.boats().await;
    let take = |finish: Finalize<Boat>| async move {
        match finish {
            Finalize::Apply(_) => Ok(Action::requeue(Duration::from_secs(1))),
            Finalize::Cleanup(boat) if boat.spec.crew > 0 => {
                Err(kube::Error::LinesCodecMaxLineLengthExceeded)
            }
            Finalize::Cleanup(_) => Ok(Action::await_change()),
        }
    };
    let run = async || {
        let now = Arc::new(api.get("anna").await.unwrap());
        finalizer::finalizer(&api, FINALIZER, now, take).await
    };
    let made = api.create(&PostParams::default(), &boat("anna", "kiel")).await.unwrap();
    // The first turn adds the finalizer, the second does the work.
    assert_eq!(run().await.unwrap(), Action::await_change());
    let held = api.get("anna").await.unwrap();
    assert_eq!(
        (held.finalizers(), held.metadata.generation),
        (&[FINALIZER.to_owned()][..], Some(1))
    );
    assert_eq!(run().await.unwrap(), Action::requeue(Duration::from_secs(1)));
    let answer = api.delete("anna", &DeleteParams::default()).await.unwrap();
    let marked = answer.left().expect("the object, still there");
    assert!(marked.metadata.deletion_timestamp.is_some());
    // Cleaning up fails: the boat stays. Without a crew it goes.
    assert!(matches!(run().await, Err(finalizer::Error::CleanupFailed(_))));
    let empty = Patch::Merge(json!({ "spec": { "crew": 0 } }));
    api.patch("anna", &PatchParams::default(), &empty).await.unwrap();
    run().await.unwrap();
    assert!(api.get_opt("anna").await.unwrap().is_none());
    // What the reference of a controller's store says of it.
    let reference: ObjectRef<Boat> = reflector::Lookup::to_object_ref(&made, ());
    assert_eq!(reference, ObjectRef::new("anna").within("shop"));
}
