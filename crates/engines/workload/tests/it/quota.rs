//! Rules of spec/workload-controllers.md: the status of ResourceQuotas.

use serde_json::json;
use tenure_workload::BuiltinResource;

use crate::world::World;

#[test]
fn qu1_what_is_used_stands_in_the_status() {
    let mut world = World::of(&["resourcequota"]);
    world.create(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "5", "requests.cpu": "2", "configmaps": "9",
                          "count/deployments.apps": "3", "example.test/odd": "1"}}}));
    world.settle();
    let used =
        |world: &World| world.json(BuiltinResource::ResourceQuotas, "q")["status"]["used"].clone();
    assert_eq!(
        used(&world),
        json!({"pods": "0", "requests.cpu": "0", "configmaps": "0", "count/deployments.apps": "0"})
    );
    for name in ["a", "b"] {
        world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c",
                "resources": {"requests": {"cpu": "250m"}}}]}}));
    }
    world.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}));
    world.settle();
    assert_eq!(used(&world)["pods"], "2");
    assert_eq!(used(&world)["requests.cpu"], "500m");
    assert_eq!(used(&world)["configmaps"], "1");
    world.end("a", "Succeeded");
    world.settle();
    assert_eq!(used(&world)["pods"], "1");
    assert_eq!(used(&world)["requests.cpu"], "250m");
}
