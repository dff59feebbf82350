//! Server-side apply: managers, conflicts, force, and what an applier gives up.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::response::StatusCause;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::boats::boat;
use super::{World, config_map, deployment, refusal, value};

fn map(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

fn ship(spec: Value) -> Value {
    json!({ "apiVersion": "harbour.example/v1", "kind": "Boat",
            "metadata": { "name": "anna" }, "spec": spec })
}

/// Applies as `manager`.
async fn apply<K>(api: &Api<K>, name: &str, manager: &str, object: Value) -> kube::Result<K>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::apply(manager), &Patch::Apply(object)).await
}

/// Who manages the object, and by which operation.
fn managers(object: &impl Resource) -> Vec<(String, String, Option<String>)> {
    let entries = object.meta().managed_fields.iter().flatten();
    let mut managers: Vec<_> = entries
        .map(|entry| {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            (text(&entry.manager), text(&entry.operation), entry.subresource.clone())
        })
        .collect();
    // Entries are ordered by age, which is not what is asked here.
    managers.sort();
    managers
}

fn fields<T>(result: kube::Result<T>) -> Vec<String> {
    let status = refusal(result);
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"), "{status:?}");
    let causes: Vec<StatusCause> = status.details.unwrap().causes;
    assert!(causes.iter().all(|cause| cause.reason == "FieldManagerConflict"), "{causes:?}");
    causes.into_iter().map(|cause| cause.field).collect()
}

#[tokio::test]
async fn an_applier_owns_what_it_applies() {
    let world = World::start().await;
    let api = world.config_maps();
    let made = apply(&api, "a", "one", map(json!({ "k": "1", "l": "1" }))).await.unwrap();
    assert_eq!(value(&made), "1");
    let apply_of = |name: &str| (name.to_owned(), "Apply".to_owned(), None);
    assert_eq!(managers(&made), [apply_of("one")]);
    let same = apply(&api, "a", "one", map(json!({ "k": "1", "l": "1" }))).await.unwrap();
    assert_eq!(same.resource_version(), made.resource_version());
    // Two who agree share a field; it goes when the last of them leaves it out.
    let shared = apply(&api, "a", "two", map(json!({ "k": "1" }))).await.unwrap();
    assert_eq!(managers(&shared), [apply_of("one"), apply_of("two")]);
    let left = apply(&api, "a", "one", map(json!({}))).await.unwrap();
    assert_eq!(left.data.unwrap(), [("k".to_owned(), "1".to_owned())].into());
    let gone = apply(&api, "a", "two", map(json!({}))).await.unwrap();
    assert_eq!(gone.data.unwrap_or_default(), [].into());
}

#[tokio::test]
async fn a_conflict_names_the_field_and_force_takes_it() {
    let world = World::start().await;
    let api = world.config_maps();
    apply(&api, "a", "one", map(json!({ "k": "1", "l": "1" }))).await.unwrap();
    let other = map(json!({ "k": "2", "l": "2", "m": "2" }));
    assert_eq!(fields(apply(&api, "a", "two", other.clone()).await), [".data.k", ".data.l"]);
    assert_eq!(value(&api.get("a").await.unwrap()), "1");
    let status = refusal(apply(&api, "a", "two", map(json!({ "k": "2" }))).await);
    let told = "Apply failed with 1 conflict: conflict with \"one\": .data.k";
    assert_eq!(status.message, told);
    let force = PatchParams::apply("two").force();
    let taken = api.patch("a", &force, &Patch::Apply(&other)).await.unwrap();
    assert_eq!(value(&taken), "2");
    assert_eq!(fields(apply(&api, "a", "one", map(json!({ "k": "1" }))).await), [".data.k"]);
    // Without the lost fields nothing is left of the first manager.
    let bare = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    let after = apply(&api, "a", "one", bare).await.unwrap();
    assert_eq!(managers(&after).len(), 1, "{after:?}");
    assert_eq!(value(&after), "2");
}

#[tokio::test]
async fn an_update_is_a_manager_too() {
    let world = World::start().await;
    let api = world.config_maps();
    let writer = PostParams { field_manager: Some("writer".into()), ..PostParams::default() };
    api.create(&writer, &config_map("a", "1")).await.unwrap();
    let status = refusal(apply(&api, "a", "one", map(json!({ "k": "2" }))).await);
    assert!(status.message.contains("conflict with \"writer\" using v1"), "{}", status.message);
    let force = PatchParams::apply("one").force();
    let object = map(json!({ "k": "2" }));
    api.patch("a", &force, &Patch::Apply(object)).await.unwrap();
    // An update never conflicts; it takes the field from the applier.
    let patch = Patch::Merge(json!({ "data": { "k": "3" } }));
    let merger = PatchParams { field_manager: Some("m".into()), ..PatchParams::default() };
    let owners = managers(&api.patch("a", &merger, &patch).await.unwrap());
    assert!(owners.contains(&("m".into(), "Update".into(), None)), "{owners:?}");
    assert!(!owners.contains(&("one".into(), "Apply".into(), None)), "{owners:?}");
    let nobody = PatchParams::default();
    let object = map(json!({ "k": "3" }));
    assert_eq!(refusal(api.patch("a", &nobody, &Patch::Apply(object)).await).code, 422);
}

#[tokio::test]
async fn elements_of_a_list_have_owners_of_their_own() {
    let world = World::start().await;
    let api = world.deployments();
    let mut web = serde_json::to_value(deployment("web")).unwrap();
    apply(&api, "web", "one", web.clone()).await.unwrap();
    web["spec"] = json!({ "template": { "spec": {
        "containers": [{ "name": "side", "image": "busybox" }] } } });
    let both = apply(&api, "web", "two", web.clone()).await.unwrap();
    let names = |object: &k8s_openapi::api::apps::v1::Deployment| {
        let template = object.spec.template.spec.clone().unwrap();
        template.containers.into_iter().map(|container| container.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&both), ["main", "side"]);
    // Scaling takes the replicas; the applier learns of it by a conflict.
    let scale = Patch::Merge(json!({ "spec": { "replicas": 7 } }));
    let scaler = PatchParams { field_manager: Some("scaler".into()), ..PatchParams::default() };
    api.patch_scale("web", &scaler, &scale).await.unwrap();
    let whole = serde_json::to_value(deployment("web")).unwrap();
    assert_eq!(fields(apply(&api, "web", "one", whole.clone()).await), [".spec.replicas"]);
    let mut quiet = whole;
    quiet["spec"].as_object_mut().unwrap().remove("replicas");
    let after = apply(&api, "web", "one", quiet).await.unwrap();
    assert_eq!((after.spec.replicas, names(&after)), (Some(7), vec!["main".into(), "side".into()]));
}

#[tokio::test]
async fn a_custom_kind_is_applied_with_its_status_apart() {
    let world = World::start().await;
    let api = world.boats().await;
    let made = apply(&api, "anna", "one", ship(json!({ "port": "kiel" }))).await.unwrap();
    assert_eq!((made.spec.port.as_str(), made.spec.berths), ("kiel", 8));
    let status = refusal(apply(&api, "anna", "two", ship(json!({ "port": "riga" }))).await);
    let causes = status.details.unwrap().causes;
    assert_eq!((status.code, causes[0].field.as_str()), (409, ".spec.port"));
    let force = PatchParams::apply("two").force();
    let typed = boat("anna", "riga");
    let taken = api.patch("anna", &force, &Patch::Apply(&typed)).await.unwrap();
    assert_eq!(taken.spec.port, "riga");
    let mut told = ship(json!({ "port": "oslo" }));
    told["status"] = json!({ "phase": "Afloat" });
    let mine = PatchParams::apply("captain");
    let got = api.patch_status("anna", &mine, &Patch::Apply(&told)).await.unwrap();
    assert_eq!(got.status.as_ref().unwrap().phase.as_deref(), Some("Afloat"));
    assert_eq!((got.spec.port.as_str(), got.metadata.generation), ("riga", Some(2)));
    let entry = ("captain".to_owned(), "Apply".to_owned(), Some("status".to_owned()));
    assert!(managers(&got).contains(&entry), "{:?}", managers(&got));
    told["status"] = json!({ "phase": "Aground" });
    let other = PatchParams::apply("pilot");
    let refused = api.patch_status("anna", &other, &Patch::Apply(&told)).await;
    assert_eq!(fields(refused), [".status.phase"]);
    // A rule of the schema holds for an apply.
    let crowded = ship(json!({ "port": "riga", "crew": 50 }));
    let status = refusal(api.patch("anna", &force, &Patch::Apply(&crowded)).await);
    assert!(status.code == 422 && status.message.contains("the crew must fit"), "{status:?}");
}

#[tokio::test]
async fn a_dry_apply_keeps_nothing() {
    let world = World::start().await;
    let api = world.config_maps();
    let dry = PatchParams::apply("one").dry_run();
    let shown: ConfigMap =
        api.patch("a", &dry, &Patch::Apply(map(json!({ "k": "1" })))).await.unwrap();
    assert_eq!(value(&shown), "1");
    assert_eq!(api.get_opt("a").await.unwrap(), None);
}
