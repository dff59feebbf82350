//! Rows of the groups around workloads: apps, batch, policy, scheduling.

use tenure_machinery::kind::{Dependents, Kind, NameRule, StatusMeta};

use super::row::{KindBuilder, row};
use crate::disruption::PodDisruptionBudgetRules;
use crate::priority::PriorityClassRules;
use crate::workloads::{
    ControllerRevisionRules, CronJobRules, DaemonSetRules, DeploymentRules, JobRules,
    ReplicaSetRules, StatefulSetRules,
};

const APPS: (&str, &str) = ("apps", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const POLICY: (&str, &str) = ("policy", "v1");
const SCHEDULING: (&str, &str) = ("scheduling.k8s.io", "v1");

/// `apps`.
pub(super) fn apps() -> Vec<Kind> {
    let rows = [
        row(
            APPS,
            "ControllerRevision",
            "controllerrevisions",
            "api.apps.v1.ControllerRevision",
            ControllerRevisionRules,
        )
        .acted_on_by("StatefulSets and DaemonSets"),
        row(APPS, "DaemonSet", "daemonsets", "api.apps.v1.DaemonSet", DaemonSetRules)
            .acted_on_by("its controller")
            .short(&["ds"])
            .category("all")
            .counted()
            .status("DaemonSet", StatusMeta::Open),
        row(APPS, "Deployment", "deployments", "api.apps.v1.Deployment", DeploymentRules)
            .acted_on_by("its controller")
            .short(&["deploy"])
            .category("all")
            .counted()
            .scale()
            .status("Deployment", StatusMeta::KeepLabels),
        row(APPS, "ReplicaSet", "replicasets", "api.apps.v1.ReplicaSet", ReplicaSetRules)
            .acted_on_by("its controller")
            .short(&["rs"])
            .category("all")
            .counted()
            .scale()
            .status("ReplicaSet", StatusMeta::Open),
        row(APPS, "StatefulSet", "statefulsets", "api.apps.v1.StatefulSet", StatefulSetRules)
            .acted_on_by("its controller")
            .short(&["sts"])
            .category("all")
            .named(NameRule::Label)
            .counted()
            .scale()
            .status("StatefulSet", StatusMeta::Open),
    ];
    rows.into_iter().map(KindBuilder::done).collect()
}

/// `batch`.
pub(super) fn batch() -> Vec<Kind> {
    let rows = [
        row(BATCH, "CronJob", "cronjobs", "api.batch.v1.CronJob", CronJobRules)
            .acted_on_by("its controller")
            .short(&["cj"])
            .category("all")
            .counted()
            .status("CronJob", StatusMeta::Open),
        row(BATCH, "Job", "jobs", "api.batch.v1.Job", JobRules)
            .acted_on_by("its controller")
            .category("all")
            .counted()
            .dependents(Dependents::Orphan)
            .field_at("status.successful", "status.succeeded", "0")
            .status("Job", StatusMeta::Open),
    ];
    rows.into_iter().map(KindBuilder::done).collect()
}

/// `policy`.
pub(super) fn policy() -> Vec<Kind> {
    vec![
        row(
            POLICY,
            "PodDisruptionBudget",
            "poddisruptionbudgets",
            "api.policy.v1.PodDisruptionBudget",
            PodDisruptionBudgetRules,
        )
        .acted_on_by("the disruption controller and evictions")
        .short(&["pdb"])
        .named(NameRule::PathSegment)
        .counted()
        .needs_version()
        .status("PodDisruptionBudget", StatusMeta::Open)
        .done(),
    ]
}

/// `scheduling.k8s.io`. The generation of a priority class is set once and never moves, so the row
/// is not counted; its rules set it.
pub(super) fn scheduling() -> Vec<Kind> {
    vec![
        row(
            SCHEDULING,
            "PriorityClass",
            "priorityclasses",
            "api.scheduling.v1.PriorityClass",
            PriorityClassRules,
        )
        .acted_on_by("admission and the scheduler")
        .cluster()
        .short(&["pc"])
        .done(),
    ]
}
