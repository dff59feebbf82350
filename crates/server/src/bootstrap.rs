//! The objects every cluster starts with (R79).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, ObjectExt, desired_state};
use tenure_rbac::Reconciled;
use tenure_rbac::bootstrap::DefaultRbacObject;

use crate::admit::SERVICE_RANGE_NAME;
use crate::aggregate::API_SERVICES;
use crate::api::ApiServer;
use crate::clock::now;
use crate::internal::find;
use crate::internal_writer::{Actor, InternalWriter, RequestedPropagation};
use crate::system_objects;
use crate::write::decode;
use crate::write::ensure::{DesiredObject, ensure_all};

const AGENT: &str = "kube-apiserver";
const ACTOR: Actor = Actor { account: "system:apiserver", manager: AGENT };
/// Whose the rules are that roles gather (R157a).
const GATHERER: Actor = Actor {
    account: "clusterrole-aggregation-controller",
    manager: "clusterrole-aggregation-controller",
};

/// What the first namespaces hold from the start. Controllers give every namespace the same; where one is turned off,
/// nobody has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstContents {
    /// The account `default`.
    pub account: bool,
    /// The ConfigMap `kube-root-ca.crt`.
    pub authority: bool,
}

impl FirstContents {
    /// What a cluster has whose controllers run.
    pub const ALL: FirstContents = FirstContents { account: true, authority: true };
}

/// Creates what is missing. When this returns, a pod can be created in `default` at the first try.
///
/// Two transactions: namespaces and objects of the cluster, then what is in namespaces.
pub async fn bootstrap(api: &Arc<ApiServer>, contents: FirstContents) -> Result<(), Failure> {
    let mut first: Vec<DesiredObject> =
        system_objects::NAMESPACES.map(system_objects::namespace).into();
    first.push(critical("system-cluster-critical", 2_000_000_000));
    first.push(critical("system-node-critical", 2_000_001_000));
    first.push(system_objects::service_addresses(api));
    first.extend(system_objects::api_services(&api.kinds.current()));
    let (cluster, namespaced): (Vec<_>, Vec<_>) =
        tenure_rbac::bootstrap::objects().into_iter().partition(|role| role.namespace.is_empty());
    first.extend(cluster.iter().map(access));
    let before = api.world.current().revision();
    ensure_all(api, first, AGENT).await?;
    let writer = InternalWriter::at_start(Arc::clone(api));
    // Before it the Service of the server could have no address.
    settle_service_addresses(&writer).await?;

    let mut second: Vec<DesiredObject> =
        system_objects::NAMESPACES.iter().flat_map(|name| filling(api, contents, name)).collect();
    second.extend(namespaced.iter().map(access));
    second.extend(system_objects::namespaced(api).map(|(wanted, _)| wanted));
    ensure_all(api, second, AGENT).await?;
    // At a start the server may have another address than before, which the Service names too.
    for (wanted, _) in system_objects::namespaced(api) {
        correct(&writer, wanted).await?;
    }
    settle_api_services(api, &writer, before).await?;
    for expected in cluster.iter().chain(&namespaced) {
        reconcile(api, &writer, expected, before).await?;
    }
    // Roles that were made together could not gather from each other yet (R157).
    gather(&writer).await
}

/// Has the Service and the endpoints of the server say where it is.
async fn correct(writer: &InternalWriter, wanted: DesiredObject) -> Result<(), Failure> {
    let Value::Object(object) = wanted.object else { return Ok(()) };
    if !["kubernetes", system_objects::AUTHENTICATION].contains(&object.name()) {
        return Ok(());
    }
    let key = writer.key((wanted.group, wanted.resource), &wanted.namespace, object.name())?;
    let record = writer.world().current().get(&key).cloned();
    let Some(record) = record.filter(|record| !record.deleting()) else { return Ok(()) };
    let mut new = writer.read(&record)?;
    if desired_state::put_right(&mut new, &object) {
        writer.update(ACTOR, &record, "", new, Vec::new()).await?;
    }
    Ok(())
}

/// Has APIServices that are managed say what this server serves by itself; those of what it serves no more go
/// (R131g).
///
/// What came after `before` was made by this start.
async fn settle_api_services(
    api: &Arc<ApiServer>,
    writer: &InternalWriter,
    before: Revision,
) -> Result<(), Failure> {
    let wanted = system_objects::api_services(&api.kinds.current());
    let wanted: BTreeMap<String, Object> = wanted
        .into_iter()
        .filter_map(|one| one.object.as_object().cloned())
        .map(|object| (object.name().to_owned(), object))
        .collect();
    let state = api.world.current();
    for record in state.range(API_SERVICES, None).filter(|record| record.revision() <= before) {
        let label = record.label(system_objects::MANAGED);
        let wanted = wanted.get(record.name());
        // Those of definitions are looked after while the server runs.
        let managed =
            label == Some(system_objects::AT_START) || (label.is_some() && wanted.is_some());
        if !managed || record.deleting() {
            continue;
        }
        let Some(wanted) = wanted else {
            writer
                .delete(ACTOR, record, Some(RequestedPropagation::Background), None, Vec::new())
                .await?;
            continue;
        };
        let mut object = writer.read(record)?;
        if object.get("spec") != wanted.get("spec") {
            object.insert("spec".to_owned(), wanted.get("spec").cloned().unwrap_or_default());
            writer.update(ACTOR, record, "", object, Vec::new()).await?;
        }
    }
    Ok(())
}

/// Applies the rules that roles gather and do not hold yet.
async fn gather(writer: &InternalWriter) -> Result<(), Failure> {
    for (name, rules) in writer.gathered_rules() {
        let config = json!({
            "apiVersion": format!("{}/v1", tenure_rbac::GROUP), "kind": "ClusterRole",
            "metadata": { "name": name },
        });
        let mut config = config.as_object().cloned().unwrap_or_default();
        if !rules.is_empty() {
            config.insert("rules".to_owned(), rules.into());
        }
        writer.apply(GATHERER, (tenure_rbac::GROUP, "clusterroles"), config).await?;
    }
    Ok(())
}

/// What every namespace has, for those that are there before any controller.
fn filling(
    api: &ApiServer,
    contents: FirstContents,
    name: &str,
) -> impl Iterator<Item = DesiredObject> {
    let account = json!({ "metadata": { "name": "default" } });
    let authority = json!({
        "metadata": {
            "name": "kube-root-ca.crt",
            "annotations": { "kubernetes.io/description":
                "The authority that signs this server's certificate, for clients that verify it." },
        },
        "data": { "ca.crt": api.authority_pem },
    });
    let account = contents.account.then_some(("serviceaccounts", account));
    let authority = contents.authority.then_some(("configmaps", authority));
    let namespace = name.to_owned();
    account.into_iter().chain(authority).map(move |(resource, object)| DesiredObject {
        group: "",
        resource,
        namespace: namespace.clone(),
        object,
    })
}

fn access(expected: &DefaultRbacObject) -> DesiredObject {
    DesiredObject {
        group: tenure_rbac::GROUP,
        resource: expected.resource,
        namespace: expected.namespace.clone(),
        object: Value::Object(expected.object.clone()),
    }
}

/// Adds what an older release, or somebody, left out of a role or binding that must be there (R156).
///
/// What came after `before` was made by this start and lacks nothing.
async fn reconcile(
    api: &ApiServer,
    writer: &InternalWriter,
    expected: &DefaultRbacObject,
    before: Revision,
) -> Result<(), Failure> {
    let served = find(api, tenure_rbac::GROUP, expected.resource)?;
    let key = served.key(&expected.namespace, &expected.name);
    let current = api.world.current().get(&key).cloned();
    let Some(record) = current.filter(|record| record.revision() <= before) else { return Ok(()) };
    let mut wanted = expected.object.clone();
    decode::check_schema(&served, &mut wanted).map_err(Failure::internal)?;
    decode::settle_empty(&served, &mut wanted);
    match tenure_rbac::reconcile(&served.read(&record)?, &wanted) {
        Reconciled::Same => {}
        Reconciled::Update(object) => {
            writer.update(ACTOR, &record, "", object, Vec::new()).await?;
        }
        Reconciled::Recreate => {
            writer
                .delete(ACTOR, &record, Some(RequestedPropagation::Background), None, Vec::new())
                .await?;
            ensure_all(api, vec![access(expected)], AGENT).await?;
        }
    }
    Ok(())
}

/// Says that Services get their addresses from the first range; a status cannot be created.
async fn settle_service_addresses(writer: &InternalWriter) -> Result<(), Failure> {
    let key = writer.key((system_objects::NETWORKING, "servicecidrs"), "", SERVICE_RANGE_NAME)?;
    let Some(record) = writer.world().current().get(&key).cloned() else { return Ok(()) };
    let mut object = writer.read(&record)?;
    if record.deleting() || !object.list_at(&["status", "conditions"]).is_empty() {
        return Ok(());
    }
    let ready = json!([{
        "type": "Ready", "status": "True", "reason": "", "lastTransitionTime": now(),
        "message": "Kubernetes Service CIDR is ready",
    }]);
    object.map_mut("status").insert("conditions".to_owned(), ready);
    writer.update(ACTOR, &record, "status", object, Vec::new()).await.map(drop)
}

fn critical(name: &str, value: i64) -> DesiredObject {
    let class = json!({
        "metadata": { "name": name },
        "value": value,
        "description": "For pods without which the cluster or a node does not work.",
    });
    DesiredObject {
        group: "scheduling.k8s.io",
        resource: "priorityclasses",
        namespace: String::new(),
        object: class,
    }
}
