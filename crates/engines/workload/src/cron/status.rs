//! The status of a CronJob: what runs, what was started last, what succeeded last (CJ5).

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::intent::{ControllerIntent, EventReport, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{job, owner, time};

/// The status as it should be, and what to tell once it is written.
pub(super) struct CronJobStatus {
    known: Object,
    pub(super) active: Vec<Value>,
    pub(super) last_start: Option<Timestamp>,
    last_success: Option<Timestamp>,
    pub(super) notes: Vec<EventReport>,
}

impl CronJobStatus {
    /// What the status says.
    pub(super) fn of(cron: &Object) -> CronJobStatus {
        CronJobStatus {
            known: cron.map_at(&["status"]).cloned().unwrap_or_default(),
            active: cron.list_at(&["status", "active"]).to_vec(),
            last_start: time::at(cron, &["status", "lastScheduleTime"]),
            last_success: time::at(cron, &["status", "lastSuccessfulTime"]),
            notes: Vec::new(),
        }
    }

    /// Whether a Job is among those that run.
    pub(super) fn runs(&self, job: &Object) -> bool {
        self.active.iter().any(|entry| same(entry, owner::uid(job)))
    }

    /// Adds a Job to those that run.
    pub(super) fn start(&mut self, job: &VersionedObject) {
        self.active.push(json!({
            "kind": BuiltinResource::Jobs.kind(),
            "apiVersion": BuiltinResource::Jobs.api_version(),
            "name": job.name(),
            "namespace": job.namespace(),
            "uid": owner::uid(job),
            "resourceVersion": job.revision.to_string(),
        }));
    }

    /// Takes a Job from those that run.
    pub(super) fn drop(&mut self, uid: &str) {
        self.active.retain(|entry| !same(entry, uid));
    }

    /// Takes note of a Job that has ended.
    pub(super) fn end(&mut self, job: &Object, about: &InvolvedObject) {
        let Some(condition) = job::finished(job) else { return };
        let how = condition.str_at(&["type"]).unwrap_or_default();
        if self.runs(job) {
            self.drop(owner::uid(job));
            let message = format!("Saw completed job: {}, condition: {how}", job.name());
            self.notes.push(about.normal("SawCompletedJob", message));
        }
        if how == "Complete" {
            self.last_success = self.last_success.max(time::at(job, &["status", "completionTime"]));
        }
    }

    /// Takes those that run and are no longer there from the list.
    pub(super) fn miss(&mut self, view: &dyn ClusterView, about: &InvolvedObject) {
        let mut notes = Vec::new();
        self.active.retain(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let found = view.get(BuiltinResource::Jobs, text("namespace"), text("name"));
            let there = found.is_some_and(|job| owner::uid(&job) == text("uid"));
            if !there {
                let message = format!("Active job went missing: {}", text("name"));
                notes.push(about.normal("MissingJob", message));
            }
            there
        });
        self.notes.append(&mut notes);
    }

    /// Writes the status if it differs, then tells.
    pub(super) fn write(self, cron: &VersionedObject) -> Vec<ControllerIntent> {
        let mut status = self.known.clone();
        if self.active.is_empty() {
            status.remove("active");
        } else {
            status.insert("active".to_string(), Value::Array(self.active));
        }
        for (name, time) in
            [("lastScheduleTime", self.last_start), ("lastSuccessfulTime", self.last_success)]
        {
            if let Some(time) = time {
                status.insert(name.to_string(), time::written(time).into());
            }
        }
        if status == self.known {
            return Vec::new();
        }
        let mut object = Object::clone(&cron.object);
        object.insert("status".to_string(), Value::Object(status));
        let write = ControllerIntent::update(
            BuiltinResource::CronJobs,
            object,
            UpdateEndpoint::Status,
            cron.revision,
        );
        [write].into_iter().chain(self.notes.into_iter().map(ControllerIntent::tell)).collect()
    }
}

fn same(entry: &Value, uid: &str) -> bool {
    entry.get("uid").and_then(Value::as_str) == Some(uid)
}
