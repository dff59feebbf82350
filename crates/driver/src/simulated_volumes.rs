//! The volumes of pods on simulated nodes: what an agent would have written, computed when somebody asks
//! (spec/downward-api.md R162). Nothing reaches a disk.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_downward::{DownwardApiOptions, RuntimeView, Sources, TokenWanted, collect_payload};
use tenure_machinery::{Object, ObjectExt as _};
use tenure_workload::simulated;
use tenure_world::World;

/// The volumes of a pod with their files, if the pod is on a simulated node.
///
/// What comes from Secrets, or stands for them, is told by its size alone.
pub(crate) fn volumes(world: &World, namespace: &str, name: &str) -> Option<Value> {
    let pod = read(world, &format!("/registry/pods/{namespace}/{name}"))?;
    let node = pod.str_at(&["spec", "nodeName"]).filter(|node| !node.is_empty())?;
    let node = read(world, &format!("/registry/minions/{node}"))?;
    if node.str_at(&["metadata", "labels", simulated::LABEL]) != Some(simulated::NONE) {
        return None;
    }
    let addresses: Vec<_> = pod
        .list_at(&["status", "podIPs"])
        .iter()
        .filter_map(|address| address.get("ip")?.as_str()?.parse().ok())
        .collect();
    let view = RuntimeView {
        node: Some(&node),
        pod_ips: &addresses,
        settings: DownwardApiOptions::default(),
    };
    let around = SimulatedSources { world, namespace };
    let volumes = pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object);
    let volumes = volumes.map(|volume| {
        let reported = match collect_payload(volume, &pod, &view, &around) {
            Err(error) => json!({"error": error.to_string()}),
            Ok(files) => {
                let open = !is_secret(volume);
                let files = files.iter().map(|(path, file)| {
                    let mut reported = Object::new();
                    reported.insert("mode".to_owned(), file.mode.into());
                    reported.insert("bytes".to_owned(), file.bytes.len().into());
                    if open {
                        let text = String::from_utf8_lossy(&file.bytes).into_owned();
                        reported.insert("text".to_owned(), text.into());
                    }
                    (path.clone(), Value::Object(reported))
                });
                json!({"files": files.collect::<Object>()})
            }
        };
        (volume.str_at(&["name"]).unwrap_or_default().to_owned(), reported)
    });
    let volumes: Object = volumes.collect();
    let revision = pod.str_at(&["metadata", "resourceVersion"]);
    Some(json!({
        "namespace": namespace, "pod": name, "resourceVersion": revision, "volumes": volumes,
    }))
}

fn is_secret(volume: &Object) -> bool {
    let sources = volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object);
    let hidden = ["secret", "serviceAccountToken", "podCertificate"];
    let holds = |source: &Object| hidden.iter().any(|kind| source.contains_key(*kind));
    holds(volume) || sources.into_iter().any(holds)
}

fn read(world: &World, key: &str) -> Option<Object> {
    serde_json::from_slice(world.get(key)?.bytes()).ok()
}

/// What is around a pod, read from the state of the server.
struct SimulatedSources<'a> {
    world: &'a World,
    namespace: &'a str,
}

impl SimulatedSources<'_> {
    fn object(&self, kind: &str, name: &str) -> Option<Arc<Object>> {
        read(self.world, &format!("/registry/{kind}/{}/{name}", self.namespace)).map(Arc::new)
    }
}

impl Sources for SimulatedSources<'_> {
    fn services(&self) -> Result<&[Arc<Object>], String> {
        Ok(&[])
    }

    fn config_map(&self, name: &str) -> Result<Option<Arc<Object>>, String> {
        Ok(self.object("configmaps", name))
    }

    fn secret(&self, name: &str) -> Result<Option<Arc<Object>>, String> {
        Ok(self.object("secrets", name))
    }

    fn file(&self, _volume: &str, _path: &str) -> Result<Vec<u8>, String> {
        Err("a simulated node has no files".to_owned())
    }

    fn trust_bundle(&self, source: &Object) -> Result<Vec<u8>, String> {
        let bundles = self.world.range("/registry/clustertrustbundles/", None);
        let bundles: Vec<Object> =
            bundles.filter_map(|record| serde_json::from_slice(record.bytes()).ok()).collect();
        tenure_downward::trust_anchors(source, &bundles, 0)
    }

    /// Nobody could use a token that no process reads.
    fn token(&self, _wanted: &TokenWanted) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }
}
