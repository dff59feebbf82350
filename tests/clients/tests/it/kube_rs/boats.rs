//! A kind of the tests' own, derived as the examples of kube-rs do, and its definition on the
//! server: schema, rules, columns, discovery, deletion.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::core::crd::merge_crds;
use kube::discovery::{self, Discovery, Scope, verbs};
use kube::runtime::wait::{await_condition, conditions};
use kube::{CustomResource, CustomResourceExt as _, KubeSchema, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{World, code, refusal};

/// What a boat should be.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "harbour.example",
    version = "v1",
    kind = "Boat",
    namespaced,
    status = "BoatStatus",
    derive = "PartialEq",
    shortname = "bt",
    category = "fleet",
    doc = "A thing that floats",
    selectable = ".spec.port",
    scale(spec_replicas_path = ".spec.crew", status_replicas_path = ".status.aboard"),
    printcolumn(name = "Port", type_ = "string", json_path = ".spec.port"),
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase","priority":1}"#
)]
#[x_kube(validation = Rule::new("self.crew <= self.berths").message("the crew must fit"))]
pub(crate) struct BoatSpec {
    #[schemars(length(min = 2, max = 40))]
    #[x_kube(validation = Rule::new("self != 'atlantis'").message("no such port"))]
    pub(crate) port: String,
    #[serde(default)]
    pub(crate) crew: i32,
    #[serde(default = "berths")]
    #[schemars(range(min = 0, max = 100))]
    pub(crate) berths: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flag: Option<String>,
}

/// What a boat is.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub(crate) struct BoatStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) aboard: Option<i32>,
}

fn berths() -> i32 {
    8
}

pub(crate) fn boat(name: &str, port: &str) -> Boat {
    Boat::new(name, BoatSpec { port: port.into(), crew: 2, berths: 8, flag: None })
}

const PATIENCE: Duration = Duration::from_secs(20);

impl World {
    /// Defines the kind, waits until it is served, and gives the way to its objects.
    pub(crate) async fn boats(&self) -> Api<Boat> {
        self.define(Boat::crd()).await;
        Api::namespaced(self.client.clone(), "shop")
    }

    async fn define(&self, definition: CustomResourceDefinition) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let name = definition.name_any();
        let mine = PatchParams::apply("tests");
        definitions.patch(&name, &mine, &Patch::Apply(definition)).await.unwrap();
        let established = conditions::is_crd_established();
        let waiting = await_condition(definitions, &name, established);
        tokio::time::timeout(PATIENCE, waiting).await.expect("in time").unwrap();
    }
}

#[tokio::test]
async fn a_derived_kind_is_stored_as_it_is_written() {
    let world = World::start().await;
    let api = world.boats().await;
    let made = api.create(&PostParams::default(), &boat("anna", "kiel")).await.unwrap();
    assert_eq!(made.spec, boat("anna", "kiel").spec);
    assert_eq!((made.metadata.generation, made.status.clone()), (Some(1), None));
    assert_eq!(api.get("anna").await.unwrap(), made);
    let mut changed = made.clone();
    changed.spec.port = "riga".into();
    let new = api.replace("anna", &PostParams::default(), &changed).await.unwrap();
    assert_eq!((new.spec.port.as_str(), new.metadata.generation), ("riga", Some(2)));
    assert_eq!(code(api.replace("anna", &PostParams::default(), &changed).await), 409);
    for (name, port) in [("berta", "kiel"), ("clara", "riga")] {
        api.create(&PostParams::default(), &boat(name, port)).await.unwrap();
    }
    let there = api.list(&ListParams::default().fields("spec.port=riga")).await.unwrap();
    let names: Vec<String> = there.items.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["anna", "clara"]);
    api.delete("anna", &DeleteParams::default()).await.unwrap();
    assert_eq!(code(api.get("anna").await), 404);
}

#[tokio::test]
async fn defaults_bounds_and_rules_hold() {
    let world = World::start().await;
    world.boats().await;
    let resource = Boat::api_resource();
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "shop", &resource);
    let make = |name: &str, spec: Value| {
        let object = DynamicObject::new(name, &resource).data(json!({ "spec": spec }));
        let api = api.clone();
        async move { api.create(&PostParams::default(), &object).await }
    };
    let made = make("anna", json!({ "port": "kiel" })).await.unwrap();
    assert_eq!(made.data["spec"], json!({ "port": "kiel", "crew": 0, "berths": 8 }));
    for (spec, field, told) in [
        (json!({ "port": "kiel", "crew": 9 }), "spec", "the crew must fit"),
        (json!({ "port": "atlantis" }), "spec.port", "no such port"),
        (json!({ "port": "k" }), "spec.port", "2"),
        (json!({ "port": "kiel", "berths": 101 }), "spec.berths", "100"),
        (json!({ "port": 7 }), "spec.port", "string"),
        (json!({}), "spec.port", "Required"),
    ] {
        let status = refusal(make("wrong", spec.clone()).await);
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{status:?}");
        let causes = status.details.unwrap().causes;
        let cause = causes.iter().find(|cause| cause.field == field);
        let cause = cause.unwrap_or_else(|| panic!("{spec}: {causes:?}"));
        assert!(cause.message.contains(told), "{cause:?}");
    }
    // What the schema does not name is pruned, or refused when asked to be strict.
    let loose = make("berta", json!({ "port": "kiel", "mast": 2 })).await.unwrap();
    assert_eq!(loose.data["spec"].get("mast"), None);
    let strict = PatchParams::default().validation_strict();
    let patch = Patch::Merge(json!({ "spec": { "mast": 2 } }));
    assert_eq!(code(api.patch("berta", &strict, &patch).await), 422);
}

#[tokio::test]
async fn status_and_scale_are_apart() {
    let world = World::start().await;
    let api = world.boats().await;
    let mut first = boat("anna", "kiel");
    first.status = Some(BoatStatus { phase: Some("Dreamt".into()), aboard: None });
    let made = api.create(&PostParams::default(), &first).await.unwrap();
    assert_eq!(made.status, None);
    let patch = json!({ "spec": { "port": "riga" }, "status": { "phase": "Afloat", "aboard": 1 } });
    let told = api.patch_status("anna", &PatchParams::default(), &Patch::Merge(&patch)).await;
    let told = told.unwrap();
    assert_eq!(told.status.as_ref().unwrap().phase.as_deref(), Some("Afloat"));
    assert_eq!((told.spec.port.as_str(), told.metadata.generation), ("kiel", Some(1)));
    let mut whole = told.clone();
    whole.status = Some(BoatStatus { phase: Some("Aground".into()), aboard: Some(1) });
    let replaced = api.replace_status("anna", &PostParams::default(), &whole).await.unwrap();
    assert_eq!(replaced.status.unwrap().phase.as_deref(), Some("Aground"));

    let scale = api.get_scale("anna").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(2));
    assert_eq!(scale.status.unwrap().replicas, 1);
    let more = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    api.patch_scale("anna", &PatchParams::default(), &more).await.unwrap();
    let got = api.get("anna").await.unwrap();
    assert_eq!((got.spec.crew, got.metadata.generation), (5, Some(2)));
    // A rule of the schema holds for the scale as well.
    let many = Patch::Merge(json!({ "spec": { "replicas": 9 } }));
    assert_eq!(code(api.patch_scale("anna", &PatchParams::default(), &many).await), 422);
}

#[tokio::test]
async fn the_kind_is_discovered_and_removed_with_its_objects() {
    let world = World::start().await;
    let api = world.boats().await;
    let kind = GroupVersionKind::gvk("harbour.example", "v1", "Boat");
    let (resource, capabilities) = discovery::pinned_kind(&world.client, &kind).await.unwrap();
    assert_eq!((resource.plural.as_str(), &capabilities.scope), ("boats", &Scope::Namespaced));
    let mut parts: Vec<&str> =
        capabilities.subresources.iter().map(|(part, _)| part.plural.as_str()).collect();
    parts.sort_unstable();
    assert_eq!(parts, ["scale", "status"]);
    let groups = Discovery::new(world.client.clone()).filter(&["harbour.example"]);
    for found in [groups.run().await, Discovery::new(world.client.clone()).run_aggregated().await] {
        let (resource, capabilities) = found.as_ref().unwrap().resolve_gvk(&kind).unwrap();
        assert_eq!(resource.api_version, "harbour.example/v1");
        assert!(capabilities.supports_operation(verbs::DELETE_COLLECTION));
        let dynamic: Api<DynamicObject> =
            Api::namespaced_with(world.client.clone(), "shop", &resource);
        assert_eq!(dynamic.list(&ListParams::default()).await.unwrap().items.len(), 0);
    }
    api.create(&PostParams::default(), &boat("anna", "kiel")).await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let uid = definitions.get(Boat::crd_name()).await.unwrap().uid().unwrap();
    definitions.delete(Boat::crd_name(), &DeleteParams::default()).await.unwrap();
    let gone = await_condition(definitions, Boat::crd_name(), conditions::is_deleted(&uid));
    tokio::time::timeout(PATIENCE, gone).await.expect("in time").unwrap();
    assert_eq!(code(api.get("anna").await), 404);
    assert!(discovery::pinned_kind(&world.client, &kind).await.is_err());
    // The kind comes back; its objects do not.
    let api = world.boats().await;
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items, []);
}

/// The same kind in an older version, which knows one field only.
mod old {
    use super::*;

    #[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug)]
    #[kube(group = "harbour.example", version = "v1alpha1", kind = "Boat", namespaced)]
    #[kube(status = "BoatStatus", shortname = "bt", category = "fleet")]
    #[kube(scale(spec_replicas_path = ".spec.crew", status_replicas_path = ".status.aboard"))]
    pub(super) struct BoatSpec {
        pub(super) port: String,
        pub(super) crew: Option<i32>,
    }
}

#[tokio::test]
async fn two_versions_show_one_object() {
    let world = World::start().await;
    let both = merge_crds(vec![old::Boat::crd(), Boat::crd()], "v1").unwrap();
    world.define(both).await;
    let new: Api<Boat> = Api::namespaced(world.client.clone(), "shop");
    let old: Api<old::Boat> = Api::namespaced(world.client.clone(), "shop");
    let made = new.create(&PostParams::default(), &boat("anna", "kiel")).await.unwrap();
    let seen = old.get("anna").await.unwrap();
    assert_eq!((seen.uid(), seen.spec.port.as_str()), (made.uid(), "kiel"));
    let patch = Patch::Merge(json!({ "spec": { "port": "riga" } }));
    old.patch("anna", &PatchParams::default(), &patch).await.unwrap();
    let got = new.get("anna").await.unwrap();
    assert_eq!((got.spec.port.as_str(), got.metadata.generation), ("riga", Some(2)));
    let group = discovery::group(&world.client, "harbour.example").await.unwrap();
    assert_eq!(group.versions().collect::<Vec<_>>(), ["v1", "v1alpha1"]);
    assert_eq!(group.preferred_version_or_latest(), "v1");
}

#[tokio::test]
async fn a_wrong_definition_is_refused_by_field() {
    let world = World::start().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    let mut wrong = Boat::crd();
    wrong.metadata = ObjectMeta { name: Some("ships.harbour.example".into()), ..wrong.metadata };
    let status = refusal(definitions.create(&PostParams::default(), &wrong).await);
    assert_eq!(status.code, 422);
    assert_eq!(status.details.unwrap().causes[0].field, "metadata.name");
    let mut wrong = serde_json::to_value(Boat::crd()).unwrap();
    let rules = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-validations";
    wrong.pointer_mut(rules).unwrap()[0]["rule"] = json!("self.nothing <= 1");
    let wrong: CustomResourceDefinition = serde_json::from_value(wrong).unwrap();
    let status = refusal(definitions.create(&PostParams::default(), &wrong).await);
    let causes = status.details.unwrap().causes;
    assert!(causes[0].field.ends_with("x-kubernetes-validations[0].rule"), "{causes:?}");
}
