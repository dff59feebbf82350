//! The objects every cluster starts with (R79).

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::Failure;
use tenure_rbac::Reconciled;
use tenure_rbac::bootstrap::Expected;
use tenure_world::{Guard, Write};

use crate::aggregate;
use crate::api::Api;
use crate::follow;
use crate::internal::{Wanted, ensure_all, find};
use crate::own;
use crate::write::commit::{Extras, draft, propose};
use crate::write::decode;

const AGENT: &str = "kube-apiserver";

/// Creates what is missing. When this returns, a pod can be created in `default` at the first try.
///
/// Two transactions: namespaces and objects of the cluster, then what is in namespaces.
pub async fn bootstrap(api: &Api) -> Result<(), Failure> {
    let mut first: Vec<Wanted> = follow::SYSTEM_NAMESPACES.map(follow::namespace).into();
    first.push(critical("system-cluster-critical", 2_000_000_000));
    first.push(critical("system-node-critical", 2_000_001_000));
    let (cluster, namespaced): (Vec<_>, Vec<_>) =
        tenure_rbac::bootstrap::objects().into_iter().partition(|role| role.namespace.is_empty());
    first.extend(cluster.iter().map(access));
    let before = api.world.current().revision();
    ensure_all(api, first, AGENT).await?;

    let mut second: Vec<Wanted> =
        follow::SYSTEM_NAMESPACES.iter().flat_map(|name| follow::filling(api, name)).collect();
    second.extend(namespaced.iter().map(access));
    second.extend(own::all(api));
    ensure_all(api, second, AGENT).await?;
    own::settle_at_start(api).await?;
    for expected in cluster.iter().chain(&namespaced) {
        reconcile(api, expected, before).await?;
    }
    // Roles that were made together could not gather from each other yet (R157).
    aggregate::settle(api).await
}

fn access(expected: &Expected) -> Wanted {
    Wanted {
        group: tenure_rbac::GROUP,
        resource: expected.resource,
        namespace: expected.namespace.clone(),
        object: Value::Object(expected.object.clone()),
    }
}

/// Adds what an older release, or somebody, left out of a role or binding that must be there (R156).
///
/// What came after `before` was made by this start and lacks nothing.
async fn reconcile(api: &Api, expected: &Expected, before: Revision) -> Result<(), Failure> {
    let served = find(api, tenure_rbac::GROUP, expected.resource)?;
    let key = served.key(&expected.namespace, &expected.name);
    let current = api.world.current().get(&key).cloned();
    let Some(record) = current.filter(|record| record.revision() <= before) else { return Ok(()) };
    let mut wanted = expected.object.clone();
    decode::check_schema(&served, &mut wanted).map_err(Failure::internal)?;
    decode::settle_empty(&served, &mut wanted);
    let own = Guard::At { key: Arc::clone(record.key()), revision: Some(record.revision()) };
    let key = Arc::clone(record.key());
    match tenure_rbac::reconcile(&served.read(&record)?, &wanted) {
        Reconciled::Same => return Ok(()),
        Reconciled::Update(object) => {
            let write = Write::Put { key, draft: draft(&served, &object)? };
            propose(&api.world, own, write, Extras::default()).await?;
        }
        Reconciled::Recreate => {
            propose(&api.world, own, Write::Delete { key }, Extras::default()).await?;
            ensure_all(api, vec![access(expected)], AGENT).await?;
        }
    }
    Ok(())
}

fn critical(name: &str, value: i64) -> Wanted {
    let class = json!({
        "metadata": { "name": name },
        "value": value,
        "description": "For pods without which the cluster or a node does not work.",
    });
    Wanted {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        namespace: String::new(),
        object: class,
    }
}
