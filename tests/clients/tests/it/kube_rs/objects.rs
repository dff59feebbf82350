//! Single objects and collections through the typed, the dynamic and the metadata-only client.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{ResourceExt, client};
use serde_json::json;

use super::{World, code, config_map, deployment, value};

#[tokio::test]
async fn create_get_replace_delete() {
    let world = World::start().await;
    let api = world.config_maps();
    let made = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    assert_eq!(api.get("a").await.unwrap(), made);
    assert_eq!(code(api.create(&PostParams::default(), &config_map("a", "1")).await), 409);

    let mut changed = made.clone();
    changed.data = config_map("a", "2").data;
    let new = api.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(value(&new), "2");
    assert_eq!(code(api.replace("a", &PostParams::default(), &changed).await), 409);
    let same = api.replace("a", &PostParams::default(), &new).await.unwrap();
    assert_eq!(same.resource_version(), new.resource_version());

    let gone = api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(gone.is_right(), "{gone:?}");
    assert_eq!(api.get_opt("a").await.unwrap(), None);
    assert_eq!(code(api.get("a").await), 404);
    assert_eq!(code(api.delete("a", &DeleteParams::default()).await), 404);
}

#[tokio::test]
async fn delete_keeps_its_preconditions() {
    let world = World::start().await;
    let api = world.config_maps();
    let made = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let with = |uid: Option<String>, resource_version: Option<String>| {
        DeleteParams::default().preconditions(Preconditions { uid, resource_version })
    };
    assert_eq!(code(api.delete("a", &with(Some("0".into()), None)).await), 409);
    assert_eq!(code(api.delete("a", &with(None, Some("1".into()))).await), 409);
    api.delete("a", &with(made.uid(), made.resource_version())).await.unwrap();
    assert_eq!(api.get_opt("a").await.unwrap(), None);
}

#[tokio::test]
async fn lists_page_and_select() {
    let world = World::start().await;
    let api = world.config_maps();
    for number in 0..9 {
        let mut object = config_map(&format!("m-{number}"), "x");
        object.labels_mut().insert("third".into(), (number % 3).to_string());
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let names = |list: &kube::api::ObjectList<ConfigMap>| {
        list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    let third = api.list(&ListParams::default().labels("third=1")).await.unwrap();
    assert_eq!(names(&third), ["m-1", "m-4", "m-7"]);
    let one = api.list(&ListParams::default().fields("metadata.name=m-5")).await.unwrap();
    assert_eq!(names(&one), ["m-5"]);

    let first = api.list(&ListParams::default().labels("third").limit(4)).await.unwrap();
    assert_eq!(names(&first).len(), 4);
    // Pages are of one moment: what is deleted meanwhile is still on the second.
    api.delete("m-8", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let rest = ListParams::default().labels("third").limit(9).continue_token(&token);
    let second = api.list(&rest).await.unwrap();
    assert_eq!(names(&second), ["m-4", "m-5", "m-6", "m-7", "m-8"]);
    assert_eq!(first.metadata.resource_version, second.metadata.resource_version);

    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("third=0"))
        .await
        .unwrap();
    let left = api.list(&ListParams::default().labels("third")).await.unwrap();
    assert_eq!(names(&left), ["m-1", "m-2", "m-4", "m-5", "m-7"]);
}

#[tokio::test]
async fn patches_of_three_types() {
    let world = World::start().await;
    let api = world.deployments();
    api.create(&PostParams::default(), &deployment("web")).await.unwrap();
    let parameters = PatchParams::default();
    let side = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "side", "image": "busybox"}]}}}});
    let count = |object: k8s_openapi::api::apps::v1::Deployment| {
        object.spec.template.spec.unwrap().containers.len()
    };
    assert_eq!(count(api.patch("web", &parameters, &Patch::Strategic(&side)).await.unwrap()), 2);
    assert_eq!(count(api.patch("web", &parameters, &Patch::Merge(&side)).await.unwrap()), 1);
    // The operations as plain data: the typed form would need one more crate.
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    let request = |operations: serde_json::Value| {
        let request = http_request(path, operations.to_string());
        world.client.request::<serde_json::Value>(request)
    };
    let replaced = request(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])).await;
    assert_eq!(replaced.unwrap()["spec"]["replicas"], 7);
    assert_eq!(
        code(request(json!([{"op": "test", "path": "/spec/replicas", "value": 1}])).await),
        422
    );
}

fn http_request(path: &str, body: String) -> http::Request<Vec<u8>> {
    http::Request::patch(path)
        .header("content-type", "application/json-patch+json")
        .body(body.into_bytes())
        .unwrap()
}

#[tokio::test]
async fn status_and_scale_are_doors_of_their_own() {
    let world = World::start().await;
    let api = world.deployments();
    api.create(&PostParams::default(), &deployment("web")).await.unwrap();
    let both = json!({"spec": {"replicas": 9}, "status": {"replicas": 2, "observedGeneration": 1}});
    let parameters = PatchParams::default();
    let got = api.patch_status("web", &parameters, &Patch::Merge(&both)).await.unwrap();
    assert_eq!(got.spec.replicas, Some(2));
    assert_eq!(got.status.as_ref().unwrap().replicas, Some(2));
    assert_eq!(got.metadata.generation, Some(1));

    let mut scale = api.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.as_ref().unwrap().replicas, Some(2));
    // A controller may write the status at any time, so the scale is not held to a revision.
    scale.metadata.resource_version = None;
    scale.spec.as_mut().unwrap().replicas = Some(5);
    api.replace_scale("web", &PostParams::default(), &scale).await.unwrap();
    let patch = json!({"spec": {"replicas": 6}});
    api.patch_scale("web", &parameters, &Patch::Merge(&patch)).await.unwrap();
    let got = api.get("web").await.unwrap();
    assert_eq!(got.spec.replicas, Some(6));
    assert_eq!(got.metadata.generation, Some(3));
    assert_eq!(api.get_status("web").await.unwrap().metadata.uid, got.metadata.uid);
}

#[tokio::test]
async fn dry_runs_and_strictness() {
    let world = World::start().await;
    let api = world.config_maps();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    api.create(&dry, &config_map("a", "1")).await.unwrap();
    assert_eq!(api.get_opt("a").await.unwrap(), None);
    api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let wrong = json!({"dta": {"k": "2"}});
    let strict = PatchParams::default().validation_strict();
    assert_eq!(code(api.patch("a", &strict, &Patch::Merge(&wrong)).await), 422);
    let loose = PatchParams::default().validation_ignore();
    assert_eq!(value(&api.patch("a", &loose, &Patch::Merge(&wrong)).await.unwrap()), "1");
}

#[tokio::test]
async fn dynamic_objects_keep_every_field() {
    let world = World::start().await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("batch", "v1", "Job"));
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "shop", &resource);
    let spec = json!({"spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}}});
    let job = DynamicObject::new("once", &resource).data(spec);
    let made = api.create(&PostParams::default(), &job).await.unwrap();
    assert_eq!(made.data["spec"]["backoffLimit"], 6);
    assert_eq!(made.types.as_ref().unwrap().kind, "Job");
    let all = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 1);
    api.delete("once", &DeleteParams::background()).await.unwrap();
    assert!(api.get_opt("once").await.unwrap().is_none());
}

#[tokio::test]
async fn metadata_alone() {
    let world = World::start().await;
    let api = world.config_maps();
    let made = api.create(&PostParams::default(), &config_map("a", "1")).await.unwrap();
    let got = api.get_metadata("a").await.unwrap();
    assert_eq!(got.metadata.uid, made.metadata.uid);
    assert_eq!(got.types.as_ref().unwrap().kind, "PartialObjectMetadata");
    let all = api.list_metadata(&ListParams::default().fields("metadata.name=a")).await.unwrap();
    assert_eq!(all.items.len(), 1);
    let labels = json!({"metadata": {"labels": {"tier": "front"}}});
    let patched = api.patch_metadata("a", &PatchParams::default(), &Patch::Merge(&labels)).await;
    assert_eq!(patched.unwrap().labels()["tier"], "front");
    assert!(api.get_metadata_opt("b").await.unwrap().is_none());
}

#[tokio::test]
async fn entries_and_unauthenticated_clients() {
    let world = World::start().await;
    let api = world.config_maps();
    let entry = api.entry("a").await.unwrap().or_insert(|| config_map("a", "1"));
    let mut entry = entry;
    entry.commit(&PostParams::default()).await.unwrap();
    assert_eq!(value(&api.get("a").await.unwrap()), "1");
    // A client without a certificate may look at the version and at nothing else.
    let mut config = kube::Config::new(world._server.url().parse().unwrap());
    config.accept_invalid_certs = true;
    let stranger = client::Client::try_from(config).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(stranger, "shop");
    assert!([401, 403].contains(&code(api.get("a").await)));
}
