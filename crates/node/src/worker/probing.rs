//! Which probes of a pod run, and what follows from them (R110). How one is made is the probe's business.

use std::sync::Arc;

use tenure_lifecycle::{ContainerType, KillOrder};
use tenure_machinery::ObjectExt as _;
use tracing::Instrument as _;

use crate::probe::{self, ProbeTarget, Purpose};
use crate::worker::{Worker, WorkerMessage, list};

impl Worker {
    /// Begins the probes of containers that run.
    pub(super) fn probe(&mut self) {
        if self.seen.ending.is_some() {
            for (_, (_, probe)) in std::mem::take(&mut self.probes) {
                probe.abort();
            }
            return;
        }
        for spec in &self.spec.containers {
            if matches!(spec.role, ContainerType::Init | ContainerType::Ephemeral) {
                continue;
            }
            let Some(seen) = self.seen.containers.get(&spec.name) else { continue };
            let Some(kept) = self.kept.get(&spec.name) else { continue };
            let Some(held) = &kept.current else { continue };
            if !seen.runs() || seen.busy.is_some() {
                continue;
            }
            for purpose in Purpose::ALL {
                let waits = match purpose {
                    Purpose::Startup => seen.startup_passed,
                    Purpose::Liveness | Purpose::Readiness => spec.startup && !seen.startup_passed,
                };
                let key = (spec.name.clone(), purpose);
                let there = self.probes.get(&key).is_some_and(|(id, _)| *id == held.id);
                if waits || there || !spec.object.contains_key(purpose.field()) {
                    continue;
                }
                let asked = self.probe_target(spec, &held.id);
                let (out, name, id) = (self.out.clone(), spec.name.clone(), held.id.clone());
                let spread = kept.adopted.then(|| self.shared.spread());
                let probing = probe::run(asked, purpose, spread, move |well| {
                    let (container, id) = (name.clone(), id.clone());
                    let told = out.send(WorkerMessage::Probed { container, id, purpose, well });
                    // A startup probe has said all it can once it passed.
                    told.is_ok() && !(purpose == Purpose::Startup && well)
                });
                let task = tokio::spawn(probing.in_current_span());
                let held = (held.id.clone(), task.abort_handle());
                if let Some((_, old)) = self.probes.insert(key, held) {
                    old.abort();
                }
            }
        }
    }

    pub(super) fn probe_target(
        &self,
        spec: &tenure_lifecycle::ContainerSpec,
        id: &str,
    ) -> ProbeTarget {
        let address = self.seen.pod_addresses.first().and_then(|address| address.parse().ok());
        ProbeTarget {
            runtime: Arc::clone(&self.shared.runtime),
            events: self.shared.events.clone(),
            subject: self.subject.container(list(spec.role), &spec.name),
            id: id.to_owned(),
            container: Arc::new(spec.object.clone()),
            address,
        }
    }

    pub(super) fn unprobe(&mut self, name: &str) {
        for purpose in Purpose::ALL {
            if let Some((_, probe)) = self.probes.remove(&(name.to_owned(), purpose)) {
                probe.abort();
            }
        }
    }

    /// What follows from a probe (R110).
    pub(super) fn probed(&mut self, name: &str, id: &str, purpose: Purpose, well: bool) {
        let current = self.kept.get(name).and_then(|kept| kept.current.as_ref());
        if current.is_none_or(|held| held.id != id) {
            return;
        }
        let Some(seen) = self.seen.containers.get_mut(name) else { return };
        let spec = self.spec.container(name);
        match purpose {
            Purpose::Readiness => seen.ready = well,
            Purpose::Startup if well => seen.startup_passed = true,
            Purpose::Liveness if well => {}
            Purpose::Startup | Purpose::Liveness => {
                let word = if purpose == Purpose::Startup { "startup" } else { "liveness" };
                let grace_seconds = spec.and_then(|spec| {
                    spec.object.int_at(&[purpose.field(), "terminationGracePeriodSeconds"])
                });
                let message = format!("Container {name} failed {word} probe, will be restarted");
                seen.kill = Some(KillOrder { message, grace_seconds });
            }
        }
    }
}
