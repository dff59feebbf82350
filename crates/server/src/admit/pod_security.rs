//! Pods are refused, warned about or audited as their namespace wants it (R167).
//!
//! ```text
//!   pods, ephemeral containers   enforce, audit, warn
//!   what makes pods              audit, warn: its pods are refused when they are made
//!   namespaces                   existing pods that a new level would refuse are told, within bounds
//! ```
//!
//! What each level refuses is decided in `kinds::podspec`; a namespace without labels costs one look at its record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_kinds::podspec::pod_security::{
    LevelVersion, PodSecurityLevel, PodSecurityLevels, Violation, details, evaluate,
    is_significant_update, reasons,
};
use tenure_machinery::{Errors, Failure, Kind, Object, ObjectExt};
use tenure_world::{Record, World};

use crate::admit::{Operation, namespace};
use crate::api::ApiServer;
use crate::request::ResourceRequest;

/// How many pods of a namespace are judged when its level changes.
const PODS_MAX: usize = 3000;
/// Subresources of pods through which nothing changes that runs.
const HARMLESS: [&str; 8] =
    ["exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"];

/// Refuses a pod that the namespace does not allow; warns of and audits what it does not like.
pub(super) fn judge(
    api: &ApiServer,
    state: &World,
    request: &mut ResourceRequest,
    operation: Operation,
    old: Option<&Object>,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let is_pod = kind.group.is_empty() && kind.kind == "Pod";
    let Some(template) = template(kind) else { return Ok(()) };
    let ignored = if is_pod {
        HARMLESS.contains(&request.subresource.as_str())
    } else {
        !request.subresource.is_empty()
    };
    if ignored {
        return Ok(());
    }
    let Some(record) = state.get(&namespace::key(new.namespace())) else { return Ok(()) };
    let audits = api.audit.is_some();
    let (policy, wrong) = policy_of(record);
    if wrong.is_none() && (if is_pod { policy.is_silent() } else { policy.informs_nobody() }) {
        if is_pod && audits {
            annotate(request, "enforce-policy", policy.enforce.to_string());
        }
        return Ok(());
    }
    let significant = match (is_pod, operation, old) {
        (true, Operation::Update, Some(old)) => is_significant_update(new, old),
        _ => true,
    };
    let Some(pod) = template.iter().try_fold(new, |at, member| at.map_at(&[member])) else {
        return Ok(());
    };
    if !significant {
        return Ok(());
    }
    let mut judged = Judged { pod, known: Vec::new() };
    if let Some(wrong) = wrong.filter(|_| audits) {
        annotate(request, "error", format!("the labels of the namespace are wrong: {wrong}"));
    }
    let mut refused = None;
    if is_pod {
        if audits {
            annotate(request, "enforce-policy", policy.enforce.to_string());
        }
        let found = judged.by(policy.enforce);
        if !found.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(found));
            refused = Some(Failure::forbidden("", "pods", new.name(), &why));
        }
    }
    let would = |level: LevelVersion, found: &[Violation]| {
        format!("would violate PodSecurity \"{level}\": {}", details(found))
    };
    if audits {
        let found = judged.by(policy.audit);
        if !found.is_empty() {
            let text = would(policy.audit, found);
            annotate(request, "audit-violations", text);
        }
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    let found = judged.by(policy.warn);
    if !found.is_empty() {
        let text = would(policy.warn, found);
        request.warn(text);
    }
    Ok(())
}

/// A pod and what the levels say that were asked for: each once.
struct Judged<'a> {
    pod: &'a Object,
    known: Vec<(LevelVersion, Vec<Violation>)>,
}

impl Judged<'_> {
    fn by(&mut self, wanted: LevelVersion) -> &[Violation] {
        let place = self.known.iter().position(|(known, _)| *known == wanted);
        let place = place.unwrap_or_else(|| {
            self.known.push((wanted, evaluate(wanted, self.pod)));
            self.known.len() - 1
        });
        self.known.get(place).map_or(&[], |(_, found)| found)
    }
}

/// Where a kind has the pods that it is or makes.
fn template(kind: &Kind) -> Option<&'static [&'static str]> {
    match (kind.group.as_ref(), kind.kind.as_ref()) {
        ("", "Pod") => Some(&[]),
        ("", "PodTemplate") => Some(&["template"]),
        ("", "ReplicationController")
        | ("apps", "ReplicaSet" | "Deployment" | "StatefulSet" | "DaemonSet")
        | ("batch", "Job") => Some(&["spec", "template"]),
        ("batch", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template"]),
        _ => None,
    }
}

/// What the labels of a namespace ask for, and what is wrong with them.
fn policy_of(record: &Record) -> (PodSecurityLevels, Option<String>) {
    if !record.labels().any(|(name, _)| PodSecurityLevels::is_label(name)) {
        return (PodSecurityLevels::PRIVILEGED, None);
    }
    let mut errors = Errors::new();
    let policy = PodSecurityLevels::from_labels(record.labels(), &mut errors);
    if errors.is_empty() {
        return (policy, None);
    }
    let causes = errors.into_causes();
    let wrong: Vec<String> =
        causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
    (policy, Some(wrong.join(", ")))
}

/// Says something for the audit log, in place of what an earlier attempt said.
fn annotate(request: &mut ResourceRequest, name: &str, value: String) {
    let key = format!("pod-security.kubernetes.io/{name}");
    request.annotations.retain(|(known, _)| *known != key);
    request.annotations.push((key, value));
}

/// The level that existing pods have to be judged by, when an update of a namespace makes it stricter.
fn stricter(old: &Object, new: &Object) -> Option<LevelVersion> {
    let enforced = |namespace: &Object| {
        let labels = namespace.map_at(&["metadata", "labels"]).into_iter().flatten();
        let labels = labels.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
        PodSecurityLevels::from_labels(labels, &mut Errors::new()).enforce
    };
    let (before, now) = (enforced(old), enforced(new));
    let relaxed = now.version == before.version && now.level <= before.level;
    (now.level != PodSecurityLevel::Privileged && !relaxed).then_some(now)
}

/// Tells which pods a namespace has that its new level would refuse; they go on running.
pub(crate) async fn existing(
    api: &ApiServer,
    state: &Arc<World>,
    request: &mut ResourceRequest,
    old: &Object,
    new: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    if kind.kind != "Namespace" || !kind.group.is_empty() || !request.subresource.is_empty() {
        return Ok(());
    }
    let Some(level) = stricter(old, new) else { return Ok(()) };
    let (state, name) = (Arc::clone(state), new.name().to_owned());
    // Thousands of pods take their time.
    let reported = api.offload.run(&request.user, move || tell(&state, &name, level)).await?;
    for warning in reported {
        request.warn(warning);
    }
    Ok(())
}

fn tell(state: &World, name: &str, level: LevelVersion) -> Vec<String> {
    let prefix = format!("/registry/pods/{name}/");
    let (mut first, mut again) = (Vec::new(), Vec::new());
    let mut owners = BTreeSet::new();
    for record in state.range(&prefix, None) {
        // Pods of one controller are alike: one of each goes before all others.
        let owner =
            record.owners().find(|owner| owner.controller).map(|owner| owner.uid.to_owned());
        match owner.is_none_or(|uid| owners.insert(uid)) {
            true => first.push(record),
            false => again.push(record),
        }
    }
    let total = first.len() + again.len();
    let mut faults: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for record in first.into_iter().chain(again).take(PODS_MAX) {
        let Ok(pod) = serde_json::from_slice::<Object>(record.bytes()) else { continue };
        let found = evaluate(level, &pod);
        if found.is_empty() {
            continue;
        }
        let (named, count) = faults.entry(reasons(&found)).or_insert_with(|| (String::new(), 0));
        if *count == 0 || record.name() < named.as_str() {
            record.name().clone_into(named);
        }
        *count += 1;
    }
    let mut reported = Vec::new();
    if total > PODS_MAX {
        reported.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_MAX} of {total} existing pods"
        ));
    }
    if !faults.is_empty() {
        reported.push(format!(
            "existing pods in namespace \"{name}\" violate the new PodSecurity enforce level \"{level}\""
        ));
    }
    let mut lines: Vec<String> = faults
        .into_iter()
        .map(|(reason, (named, count))| match count {
            1 => format!("{named}: {reason}"),
            2 => format!("{named} (and 1 other pod): {reason}"),
            _ => format!("{named} (and {} other pods): {reason}", count - 1),
        })
        .collect();
    lines.sort();
    reported.extend(lines);
    reported
}
