//! Bindings and evictions (R141, R142).

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use tenure_machinery::status::{Details, StatusCause};
use tenure_machinery::validate::validate_labels;
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path, meta, name};
use tenure_world::{Record, World, WriteOperation};

use crate::admit::policy::AdmissionAttributes;
use crate::admit::{self, AdmissionPlugin, Operation};
use crate::api::ApiServer;
use crate::body::Body;
use crate::clock::now;
use crate::dispatch::created_status;
use crate::internal;
use crate::negotiate::Offer;
use crate::node;
use crate::query::{WriteOptions, write_options};
use crate::read::get::missing;
use crate::registry::ServedKind;
use crate::request::ResourceRequest;
use crate::response;
use crate::write::commit::{
    CommitOutcome, Extras, ResultingObject, draft, operation, propose, unmoved,
};
use crate::write::decide::{DeletionDecision, decide};
use crate::write::decode::{self, Unstored};
use crate::write::delete::{self, DeleteOptions};

const RACES_MAX: usize = 256;
/// Evictions whose pods still stand; a budget with more of them grants no other.
const UNCONFIRMED_MAX: usize = 2000;
/// When to ask again where the budget is still being looked at.
const BUDGET_SECONDS: u32 = 10;
/// What the pods of a node's own files carry; nobody else gives it to a pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Binds a pod to a node, once.
pub(crate) async fn bind(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::PlainOnly)?;
    let options = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut binding = decode::unstored(request, options.validation, Unstored::BINDING)?;
    let name =
        if request.name.is_empty() { binding.name().to_owned() } else { request.name.clone() };
    let state = api.world.current();
    admit::namespace_must_take(api, &state, &request.served.kind, &request.namespace, &name)?;
    if api.plugins.on(AdmissionPlugin::NodeRestriction) {
        node::restrict_posted(request)?;
    }
    if name.is_empty() {
        return Err(Failure::bad_request("metadata.name: a binding names its pod"));
    }
    if binding.name() != name {
        return Err(Failure::bad_request(
            "metadata.name: name in URL does not match name in Binding object",
        ));
    }
    check_target(&binding)?;
    if request.subresource == "binding" {
        label_topology(api, &state, &mut binding);
    }
    drop(state);
    enforce(api, request, &mut binding, ("", "v1", "Binding"), options.dry_run).await?;
    let pods = api
        .kinds
        .current()
        .find("", "v1", "pods")
        .cloned()
        .ok_or_else(crate::api::no_such_resource)?;
    let key = pods.key(&request.namespace, &name);
    for _ in 0..RACES_MAX {
        request.permit.check(&api.world)?;
        let Some(record) = api.world.current().get(&key).cloned() else {
            return Err(missing(&pods, &name));
        };
        let own = Extras::default();
        if take(api, &pods, &record, &binding, own, options.dry_run).await?.is_some() {
            return response::json_value(
                StatusCode::CREATED,
                &created_status(),
                wanted.format,
                request.style()?,
            );
        }
    }
    Err(Failure::conflict("", "pods/binding", &name, "the pod keeps changing"))
}

/// A binding names a node, and a pod bound to a name that no node can have could never be changed again.
fn check_target(binding: &Object) -> Result<(), Failure> {
    let target = |member| binding.str_at(&["target", member]).unwrap_or_default();
    if !matches!(target("kind"), "" | "Node") {
        let why = format!("target.kind: a pod is bound to a Node, not to a {:?}", target("kind"));
        return Err(Failure::bad_request(why));
    }
    match name::dns_subdomain(target("name")) {
        Some(_) => Err(Failure::bad_request("target.name: a binding names a node")),
        None => Ok(()),
    }
}

/// Gives a pod the annotations and labels of its binding, as far as an update of the pod could have.
fn take_metadata(pod: &mut Object, binding: &Object) -> Result<(), Failure> {
    let mirror = |pod: &Object| pod.at(&["metadata", "annotations", MIRROR]).cloned();
    let before = mirror(pod);
    for member in ["annotations", "labels"] {
        if let Some(said) = binding.map_at(&["metadata", member]).filter(|said| !said.is_empty()) {
            let own = pod.map_mut("metadata").map_mut(member);
            own.extend(said.iter().map(|(key, value)| (key.clone(), value.clone())));
            let mut errors = Errors::new();
            let path = Path::Root.field("metadata");
            match member {
                "labels" => validate_labels(own, &path.field(member), &mut errors),
                _ => meta::validate_annotations(own, &path.field(member), &mut errors),
            }
            if let Some(cause) = errors.causes().first() {
                return Err(Failure::bad_request(format!("{}: {}", cause.field, cause.message)));
            }
        }
    }
    if mirror(pod) != before {
        let why = format!("metadata.annotations: a binding may not make a mirror pod ({MIRROR})");
        return Err(Failure::bad_request(why));
    }
    Ok(())
}

/// Asks policies and webhooks about what is posted to a pod.
async fn enforce(
    api: &ApiServer,
    request: &mut ResourceRequest,
    posted: &mut Object,
    kind: (&'static str, &'static str, &'static str),
    dry_run: bool,
) -> Result<(), Failure> {
    let options = write_options(&request.query, "CreateOptions", dry_run);
    let subject = AdmissionAttributes {
        operation: Operation::Create,
        old: None,
        new: None,
        dry_run,
        kind: Some(kind),
        options: Some(&options),
    };
    admit::review(api, request, subject, Some(posted)).await?;
    // Expressions may take long.
    request.permit.check(&api.world)
}

/// Gives a Binding the place of the node it names, for the pod to take (R254).
fn label_topology(api: &ApiServer, state: &World, binding: &mut Object) {
    if api.plugins.on(AdmissionPlugin::PodTopologyLabels)
        && binding.str_at(&["target", "kind"]) == Some("Node")
        && let Some(node) = binding.str_at(&["target", "name"]).map(str::to_owned)
    {
        admit::label_topology(state, &node, binding);
    }
}

/// Binds the pod that a record holds as a follower's Binding says; `None` when the pod has moved.
pub(crate) async fn assign(
    api: &ApiServer,
    pods: &ServedKind,
    record: &Arc<Record>,
    binding: &Object,
    extras: Extras,
    dry_run: bool,
) -> Result<Option<Arc<Record>>, Failure> {
    let mut binding = binding.clone();
    label_topology(api, &api.world.current(), &mut binding);
    take(api, pods, record, &binding, extras, dry_run).await
}

/// Writes into a pod what its Binding says; `None` when the pod has moved.
async fn take(
    api: &ApiServer,
    pods: &ServedKind,
    record: &Arc<Record>,
    binding: &Object,
    extras: Extras,
    dry_run: bool,
) -> Result<Option<Arc<Record>>, Failure> {
    let node = binding.str_at(&["target", "name"]).unwrap_or_default();
    let mut pod = pods.read(record)?;
    let version = record.revision().to_string();
    for (member, own) in [("uid", record.uid()), ("resourceVersion", version.as_str())] {
        let wanted = binding.str_at(&["metadata", member]).unwrap_or(own);
        if !wanted.is_empty() && wanted != own {
            let why = format!("the binding is for the pod with {member} {wanted}, not {own}");
            return Err(Failure::conflict("", "pods/binding", record.name(), &why));
        }
    }
    check_bindable(&pod, record.name(), node)?;
    pod.map_mut("spec").insert("nodeName".into(), node.into());
    take_metadata(&mut pod, binding)?;
    set_condition(
        &mut pod,
        json!({
            "type": "PodScheduled", "status": "True",
            "lastProbeTime": null, "lastTransitionTime": now(),
        }),
    );
    if dry_run {
        return Ok(Some(Arc::clone(record)));
    }
    let write = WriteOperation::Put { key: Arc::clone(record.key()), draft: draft(pods, &pod)? };
    Ok(match propose(&api.world, unmoved(record), write, extras).await? {
        CommitOutcome::Committed(committed) => {
            Some(committed.record().map_or_else(|| Arc::clone(record), Arc::clone))
        }
        CommitOutcome::Moved(_) | CommitOutcome::Retry(_) => None,
    })
}

fn check_bindable(pod: &Object, name: &str, node: &str) -> Result<(), Failure> {
    let why = if pod.str_at(&["metadata", "deletionTimestamp"]).is_some() {
        format!("pod {name} is being deleted, cannot be assigned to a host")
    } else if let Some(taken) = pod.str_at(&["spec", "nodeName"]).filter(|n| !n.is_empty()) {
        format!("pod {name} is already assigned to node \"{taken}\", not to \"{node}\"")
    } else if !pod.list_at(&["spec", "schedulingGates"]).is_empty() {
        format!("pod {name} has non-empty .spec.schedulingGates")
    } else {
        return Ok(());
    };
    Err(Failure::conflict("", "pods/binding", name, &why))
}

/// Sets a condition; the time of one that said the same already stays.
fn set_condition(object: &mut Object, mut condition: Value) {
    let conditions =
        object.map_mut("status").entry("conditions").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = conditions else { return };
    let Some(known) = list.iter_mut().find(|other| other.get("type") == condition.get("type"))
    else {
        list.push(condition);
        return;
    };
    if known.get("status") == condition.get("status")
        && let (Some(since), Some(new)) =
            (known.get("lastTransitionTime").cloned(), condition.as_object_mut())
    {
        new.insert("lastTransitionTime".into(), since);
    }
    *known = condition;
}

/// A pod that is evicted has been read: the leave to delete what cannot be read is refused (R142).
fn refuse_unread(options: &Object, name: &str) -> Result<(), Failure> {
    const UNREAD: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if options.bool_at(&[UNREAD]) != Some(true) {
        return Ok(());
    }
    let mut errors = Errors::new();
    let path = Path::Root.field("deleteOptions");
    errors.invalid(&path.field(UNREAD), true, "cannot be set when a pod is evicted");
    Err(Failure::invalid("policy", "Eviction", name, errors))
}

/// Deletes a pod unless a budget forbids it.
pub(crate) async fn evict(
    api: &ApiServer,
    request: &mut ResourceRequest,
) -> Result<Response<Body>, Failure> {
    let wanted = request.wanted(Offer::PlainOnly)?;
    let style = request.style()?;
    let given = WriteOptions::read(&request.query, "CreateOptions", false)?;
    let mut eviction = decode::unstored(request, given.validation, Unstored::EVICTION)?;
    let (kind, state) = (&request.served.kind, api.world.current());
    admit::namespace_must_take(api, &state, kind, &request.namespace, &request.name)?;
    drop(state);
    if api.plugins.on(AdmissionPlugin::NodeRestriction) {
        node::restrict_eviction(api, request)?;
    }
    if eviction.name() != request.name {
        return Err(Failure::bad_request(
            "metadata.name: name in URL does not match name in Eviction object",
        ));
    }
    let (mut options, fault) = match eviction.get("deleteOptions") {
        Some(Value::Object(object)) => {
            refuse_unread(object, &request.name)?;
            // Of an object within another nobody asks what it calls itself.
            let mut object = object.clone();
            object.retain(|member, _| !matches!(member.as_str(), "kind" | "apiVersion"));
            DeleteOptions::unjudged(&object)?
        }
        None | Some(Value::Null) => (DeleteOptions::default(), None),
        Some(_) => return Err(Failure::bad_request("deleteOptions: must be an object")),
    };
    options.dry_run |= given.dry_run;
    enforce(api, request, &mut eviction, ("policy", "v1", "Eviction"), options.dry_run).await?;
    let status = match remove_evicted(api, request, &options, fault).await? {
        BudgetDecision::Granted => created_status(),
        // Nothing was done, and yet upstream answers as if something had been made.
        BudgetDecision::Contested => json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 500,
            "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        }),
    };
    response::json_value(StatusCode::CREATED, &status, wanted.format, style)
}

/// What the budgets that cover a pod say about its eviction, where they do not refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BudgetDecision {
    /// It may go.
    Granted,
    /// There are several, and none of them decides.
    Contested,
}

/// Marks, charges and deletes a pod that is evicted. Whatever may refuse is asked before anything is
/// written, and what is written first is one transaction (R142a). What is wrong about the options is told
/// last: first of all the pod and its budget are looked at.
async fn remove_evicted(
    api: &ApiServer,
    request: &mut ResourceRequest,
    options: &DeleteOptions,
    fault: Option<Failure>,
) -> Result<BudgetDecision, Failure> {
    let served = &Arc::clone(&request.served);
    let key = served.key(&request.namespace, &request.name);
    for _ in 0..RACES_MAX {
        request.permit.check(&api.world)?;
        let state = api.world.current();
        let Some(record) = state.get(&key) else { return Err(missing(served, &request.name)) };
        let old = served.read(record)?;
        admit::validate(api, &state, request, Operation::Delete, Some(&old), None)?;
        let mut extras = Extras::default();
        if !needs_no_budget(&old)
            && spend_budget(api, &state, &old, &mut extras)? == BudgetDecision::Contested
        {
            return Ok(BudgetDecision::Contested);
        }
        delete::check_preconditions(request, options, record)?;
        if let Some(fault) = fault {
            return Err(fault);
        }
        let mut pod = old.clone();
        set_condition(
            &mut pod,
            json!({
                "type": "DisruptionTarget", "status": "True",
                "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
                "lastProbeTime": null, "lastTransitionTime": now(),
            }),
        );
        if options.dry_run {
            return Ok(BudgetDecision::Granted);
        }
        let step = decide(&served.kind, api.collects_garbage, options, &pod);
        let removes = matches!(step, DeletionDecision::Remove(_));
        let new = match step {
            DeletionDecision::Mark(marked) => marked,
            // Whoever watches sees why the pod goes before it is gone.
            DeletionDecision::Keep | DeletionDecision::Remove(_) => pod,
        };
        if new == old && !removes {
            return Ok(BudgetDecision::Granted);
        }
        let result = ResultingObject::Object(&new);
        let write = operation(api, &state, request, record.key(), result, &mut extras)?;
        match propose(&api.world, unmoved(record), write, extras).await? {
            CommitOutcome::Committed(_) => {
                if removes {
                    delete::finish(api, request, options, &key, record.uid()).await?;
                }
                return Ok(BudgetDecision::Granted);
            }
            CommitOutcome::Moved(_) | CommitOutcome::Retry(_) => {}
        }
    }
    Err(Failure::internal("the pod and its budget keep changing"))
}

/// A pod that has ended, never began or goes already disrupts nothing.
fn needs_no_budget(pod: &Object) -> bool {
    matches!(pod.str_at(&["status", "phase"]), Some("Pending" | "Succeeded" | "Failed"))
        || pod.str_at(&["metadata", "deletionTimestamp"]).is_some()
}

/// Takes one disruption from the budget that covers the pod, if there is one, to be committed with what
/// becomes of the pod.
fn spend_budget(
    api: &ApiServer,
    state: &World,
    pod: &Object,
    extras: &mut Extras,
) -> Result<BudgetDecision, Failure> {
    let served = internal::find(api, "policy", "poddisruptionbudgets")?;
    let budgets = served.collection(pod.namespace());
    let mut covering = state
        .range(&budgets, None)
        .filter_map(|record| Some((record, served.read(record).ok()?)))
        .filter(|(_, budget)| selects(budget, pod));
    let Some((record, mut budget)) = covering.next() else { return Ok(BudgetDecision::Granted) };
    if covering.next().is_some() {
        return Ok(BudgetDecision::Contested);
    }
    if !ready(pod) && may_go_unready(&budget) {
        return Ok(BudgetDecision::Granted);
    }
    let allowed = allowance(&budget)?;
    spend(&mut budget, allowed, pod.name());
    extras.guards.push(unmoved(record));
    let draft = draft(&served, &budget)?;
    extras.writes.push(WriteOperation::Put { key: Arc::clone(record.key()), draft });
    Ok(BudgetDecision::Granted)
}

/// How many disruptions a budget allows: at least one, or why there is none.
fn allowance(budget: &Object) -> Result<i64, Failure> {
    let number = |path: &[&str]| budget.int_at(path).unwrap_or(0);
    if number(&["status", "observedGeneration"]) < number(&["metadata", "generation"]) {
        return Err(exhausted(budget, "is still being processed by the server.", BUDGET_SECONDS));
    }
    let going = budget.map_at(&["status", "disruptedPods"]).map_or(0, Object::len);
    if going > UNCONFIRMED_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        let cause = budget_cause(
            budget,
            "does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller",
        );
        let mut failure = Failure::forbidden("policy", "poddisruptionbudget", budget.name(), why);
        if let Some(details) = &mut failure.details {
            details.causes.push(cause);
        }
        return Err(failure);
    }
    let allowed = number(&["status", "disruptionsAllowed"]);
    if allowed > 0 { Ok(allowed) } else { Err(exhausted(budget, &shortage(budget), 0)) }
}

/// Why a budget that is up to date allows no disruption.
fn shortage(budget: &Object) -> String {
    let conditions = budget.list_at(&["status", "conditions"]);
    let refusing = conditions.iter().filter_map(Value::as_object).find(|condition| {
        condition.str_at(&["type"]) == Some("DisruptionAllowed")
            && condition.str_at(&["status"]) == Some("False")
            && condition.str_at(&["message"]).is_some_and(|message| !message.is_empty())
    });
    let said = refusing.map(|condition| {
        let text = |member| condition.str_at(&[member]).unwrap_or_default();
        (text("reason"), text("message"))
    });
    let number = |name: &str| budget.int_at(&["status", name]).unwrap_or(0);
    let (wanted, healthy) = (number("desiredHealthy"), number("currentHealthy"));
    match said {
        // What could not be counted says nothing by its numbers.
        Some(("SyncFailed", why)) => {
            format!("does not allow evicting pods currently because it failed sync: {why}")
        }
        _ if healthy <= wanted => {
            format!("needs {wanted} healthy pods and has {healthy} currently")
        }
        Some((reason, why)) => {
            format!("does not allow evicting pods currently ({reason}): {why}")
        }
        None => "does not allow evicting pods currently".to_owned(),
    }
}

/// Takes one of the disruptions that a budget allows for a pod.
fn spend(budget: &mut Object, allowed: i64, pod: &str) {
    let status = budget.map_mut("status");
    status.insert("disruptionsAllowed".into(), (allowed - 1).into());
    status.map_mut("disruptedPods").insert(pod.to_owned(), now().into());
    if allowed == 1 {
        let observed = status.get("observedGeneration").cloned().unwrap_or_default();
        set_condition(
            budget,
            json!({
                "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                "message": "", "observedGeneration": observed, "lastTransitionTime": now(),
            }),
        );
    }
}

fn ready(pod: &Object) -> bool {
    let mut conditions = pod.list_at(&["status", "conditions"]).iter().filter_map(Value::as_object);
    conditions.any(|condition| {
        condition.str_at(&["type"]) == Some("Ready")
            && condition.str_at(&["status"]) == Some("True")
    })
}

/// Whether a pod that is not ready may go without spending anything: always where the budget says so,
/// otherwise while enough others are healthy.
fn may_go_unready(budget: &Object) -> bool {
    let number = |name: &str| budget.int_at(&["status", name]).unwrap_or(0);
    budget.str_at(&["spec", "unhealthyPodEvictionPolicy"]) == Some("AlwaysAllow")
        || (number("desiredHealthy") > 0 && number("currentHealthy") >= number("desiredHealthy"))
}

fn budget_cause(budget: &Object, why: &str) -> StatusCause {
    StatusCause {
        reason: "DisruptionBudget".to_owned(),
        message: format!("The disruption budget {} {why}", budget.name()),
        field: String::new(),
    }
}

fn exhausted(budget: &Object, why: &str, retry_after_seconds: u32) -> Failure {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let causes = vec![budget_cause(budget, why)];
    Failure::new(429, "TooManyRequests", message).with(Details {
        causes,
        retry_after_seconds,
        ..Details::default()
    })
}

/// Whether a budget's selector picks the pod; an empty selector picks all, a missing one none.
fn selects(budget: &Object, pod: &Object) -> bool {
    let Some(selector) = budget.map_at(&["spec", "selector"]) else { return false };
    let label = |key: &str| pod.str_at(&["metadata", "labels", key]);
    let labels = selector.map_at(&["matchLabels"]).into_iter().flatten();
    let mut labels = labels.map(|(key, value)| label(key) == value.as_str());
    let mut expressions =
        selector.list_at(&["matchExpressions"]).iter().filter_map(Value::as_object).map(
            |expression| {
                let actual = label(expression.str_at(&["key"]).unwrap_or_default());
                let listed = || {
                    let values = expression.list_at(&["values"]);
                    actual.is_some_and(|actual| values.iter().any(|v| v.as_str() == Some(actual)))
                };
                match expression.str_at(&["operator"]).unwrap_or_default() {
                    "In" => listed(),
                    "NotIn" => !listed(),
                    "Exists" => actual.is_some(),
                    _ => actual.is_none(),
                }
            },
        );
    labels.all(|ok| ok) && expressions.all(|ok| ok)
}
