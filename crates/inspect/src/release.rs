//! Finalizers of controllers that every cluster runs: what each waits for, and whom a deletion would have to
//! take along before they let go (ownership R164 to R166). Only reads.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::facts::ObservedObject;
use crate::ownership_analysis::OwnershipAnalysis;
use crate::reader::ClusterReader;
use crate::wire::or_default;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";
const CLASS: &str = "kubernetes.io/vac-protection";
const JOB: &str = "batch.kubernetes.io/job-tracking";
const DEFINITION: &str = "customresourcecleanup.apiextensions.k8s.io";

const JSON: &str = "application/json";

/// What a well-known finalizer waits for.
pub(crate) fn waits_for(finalizer: &str) -> Option<&'static str> {
    Some(match finalizer {
        CLAIM => "it is removed when no pod uses the claim",
        VOLUME => "it is removed when the volume is bound to no claim",
        CLASS => "it is removed when no volume uses the class",
        JOB => "it is removed when the Job has counted the pod",
        DEFINITION => "it is removed when all objects of the kind are gone",
        "service.kubernetes.io/load-balancer-cleanup" => {
            "it is removed when the load balancer is gone"
        }
        _ => return None,
    })
}

/// Why an object goes although a finalizer was on it.
pub(crate) fn lets_go(finalizer: &str) -> Option<&'static str> {
    Some(match finalizer {
        CLAIM => "its protection ends: no pod uses the claim",
        VOLUME => "its protection ends: the volume is bound to no claim",
        CLASS => "its protection ends: no volume uses the class",
        JOB => "the Job controller lets it go",
        DEFINITION => "all objects of the kind are gone",
        _ => return None,
    })
}

/// The finalizers of an object that are not the collector's own.
pub(crate) fn of_others(found: &ObservedObject) -> impl Iterator<Item = &str> {
    let all = found.meta.finalizers.iter().map(String::as_str);
    all.filter(|finalizer| !matches!(*finalizer, "foregroundDeletion" | "orphan"))
}

#[derive(Deserialize)]
struct UntypedList {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Value>,
}

impl ClusterReader {
    /// Learns which objects that a deletion may take along are let go by their controllers, and after whom.
    /// Where that cannot be read, they stay in the plan.
    pub async fn releases(&self, look: &mut OwnershipAnalysis, target: &ObservedObject) {
        let mut releases: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut pods: BTreeMap<String, Option<Vec<Value>>> = BTreeMap::new();
        for found in look.concerned(target) {
            let mut users = BTreeSet::new();
            let mut known = true;
            for finalizer in of_others(found) {
                let namespace = found.meta.namespace.clone();
                let here = match finalizer {
                    JOB if found.served.kind == "Pod" => Some(Vec::new()),
                    CLAIM => {
                        if !pods.contains_key(&namespace) {
                            let list = self.whole(look, "v1", "Pod", &namespace).await;
                            pods.insert(namespace.clone(), list);
                        }
                        let pods = pods.get(&namespace).and_then(Option::as_ref);
                        pods.map(|pods| pods_with(pods, found))
                    }
                    VOLUME => self.claim_of(found).await,
                    CLASS => self.users_of_class(look, found).await,
                    DEFINITION => {
                        let content = look.content(found);
                        Some(content.iter().map(|inside| inside.meta.uid.clone()).collect())
                    }
                    _ => None,
                };
                known &= here.is_some();
                users.extend(here.into_iter().flatten());
            }
            if known && of_others(found).next().is_some() {
                releases.insert(found.meta.uid.clone(), users.into_iter().collect());
            }
        }
        look.set_releases(releases);
    }

    /// All objects of a kind with their content.
    async fn whole(
        &self,
        look: &OwnershipAnalysis,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Option<Vec<Value>> {
        let served = look.facts().kinds.find(api_version, kind)?;
        let list = self.get::<UntypedList>(&served.path(namespace, ""), JSON).await.ok()?;
        Some(list.items)
    }

    /// The claim that a volume is bound to.
    async fn claim_of(&self, volume: &ObservedObject) -> Option<Vec<String>> {
        let path = volume.served.path("", &volume.meta.name);
        let object = self.get::<Value>(&path, JSON).await.ok()?;
        if text(&object, "/status/phase") != "Bound" {
            return Some(Vec::new());
        }
        let claim = text(&object, "/spec/claimRef/uid");
        (!claim.is_empty()).then(|| vec![claim.to_owned()])
    }

    /// The volumes and claims that name a class.
    async fn users_of_class(
        &self,
        look: &OwnershipAnalysis,
        class: &ObservedObject,
    ) -> Option<Vec<String>> {
        let mut users = Vec::new();
        for kind in ["PersistentVolume", "PersistentVolumeClaim"] {
            let objects = self.whole(look, "v1", kind, "").await?;
            let names = |object: &&Value| {
                ["/spec/volumeAttributesClassName", "/status/currentVolumeAttributesClassName"]
                    .iter()
                    .any(|member| text(object, member) == class.meta.name)
            };
            users.extend(
                objects.iter().filter(names).map(|it| text(it, "/metadata/uid").to_owned()),
            );
        }
        Some(users)
    }
}

/// The pods on a node that use a claim, by its name or through an ephemeral volume whose claim is their own.
fn pods_with(pods: &[Value], claim: &ObservedObject) -> Vec<String> {
    let name = claim.meta.name.as_str();
    let uses = |pod: &&Value| {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        let uid = text(pod, "/metadata/uid");
        // One whose grace is over has let go of its volumes, even if a finalizer holds it.
        let shut_down = pod.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
            && pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64)
                == Some(0);
        let own = !shut_down && claim.meta.owner_references.iter().any(|owner| owner.uid == uid);
        !text(pod, "/spec/nodeName").is_empty()
            && volumes.into_iter().flatten().any(|volume| {
                let made = format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"));
                text(volume, "/persistentVolumeClaim/claimName") == name
                    || (own && volume.get("ephemeral").is_some() && made == name)
            })
    };
    pods.iter().filter(uses).map(|pod| text(pod, "/metadata/uid").to_owned()).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
