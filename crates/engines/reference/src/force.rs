//! Whether what a source finds counts: made ready before its strategy is stored, in force, replaced, or gone.
//!
//! ```text
//!   prepare ──► Prepared ──► Told ──stored──► Effective ──another version──► Retired
//!                  │ given up  │                 │ edited, deleted            │ that one was seen
//!                  └───────────┴───────────────► Gone ◄───────────────────────┘
//! ```
//!
//! Rights speak of sources, so a source comes into force, or is in force no longer, with a change of rights: at
//! once, however many origins it reads (R174). What it has found is brought in before and cleared away
//! afterwards (`clear.rs`), a few origins at a time.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::event::{Need, Outputs};
use crate::index::Index;
use crate::model::Strategy;
use crate::source::PathSource;

/// Where a source is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    /// Its strategy is not stored yet; what it finds counts for nothing.
    Prepared,
    /// The same, and every origin was told.
    Announced,
    /// What it finds counts.
    Effective,
    /// Another version takes its place; what it has found counts until each origin was seen at that one (R59).
    Retired,
    /// What it has found counts for nothing and is cleared away.
    Gone,
}

impl PathSource {
    /// Whether what it has found counts.
    pub(crate) fn is_in_force(&self) -> bool {
        matches!(self.force, Force::Effective | Force::Retired)
    }

    /// Whether it looks into origins that are told.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.force, Force::Prepared | Force::Announced | Force::Effective)
    }

    /// Whether it waits for its strategy to be stored.
    fn waits(&self) -> bool {
        matches!(self.force, Force::Prepared | Force::Announced)
    }
}

impl Index {
    /// Begins to find what a strategy would find, without any effect: for a host that stores it when all origins
    /// were told. What is asked for is told as for a strategy that is stored; in between it changes as ever.
    pub fn prepare(&mut self, strategy: &Strategy, out: &mut Outputs) {
        let mut added = BTreeSet::new();
        for spec in self.wanted_of(strategy) {
            let mut known = self.sources.iter().flatten();
            if !known.any(|source| source.reads() && *source.spec == spec) {
                added.insert((spec.origin.clone(), spec.version.clone()));
                self.add_source(spec, Force::Prepared);
            }
        }
        let needs = added.into_iter().map(|(resource, version)| Need::Feed(resource, version));
        out.needs.extend(needs);
    }

    /// Everything that was asked for since [`Index::prepare`] has been told: the strategy takes effect with the
    /// event that says it is stored.
    pub fn prepared(&mut self) {
        let waiting = self.sources.iter_mut().flatten();
        for source in waiting.filter(|source| source.force == Force::Prepared) {
            source.force = Force::Announced;
        }
    }

    /// Whatever was prepared and is not stored is not wanted any more.
    pub fn abandon(&mut self, out: &mut Outputs) {
        let numbered = (0_u32..).zip(&self.sources);
        let waiting = numbered.filter(|(_, source)| source.as_ref().is_some_and(PathSource::waits));
        let waiting: Vec<u32> = waiting.map(|(id, _)| id).collect();
        if waiting.is_empty() {
            return;
        }
        let before = self.feeds();
        self.drop_sources(&waiting, out);
        self.stop_feeds(&before, out);
        self.forget_idle_types(out);
    }

    /// Whether what a source has found counts.
    pub(crate) fn is_in_force(&self, source: u32) -> bool {
        self.source(source).is_some_and(PathSource::is_in_force)
    }

    /// Whether what a source has found may be live: it is in force, and everything that it depends on was seen
    /// once (R125).
    pub(crate) fn is_source_open(&self, id: u32) -> bool {
        let source = self.source(id).filter(|source| source.is_in_force());
        let of_type = source.and_then(|source| self.types.get(&source.origin));
        self.has_kinds() && of_type.is_some_and(|of_type| of_type.seen)
    }

    /// The sources of a triple whose edges may be live.
    pub(crate) fn open_sources(&self, triple: u32) -> impl Iterator<Item = u32> {
        let sources = self.by_triple.get(&triple).into_iter().flatten().copied();
        sources.filter(|id| self.is_source_open(*id))
    }

    /// Whether all origins that somebody counts on were seen once (R125).
    pub(crate) fn has_origins(&self) -> bool {
        self.types.values().all(|of_type| {
            of_type.seen || !of_type.sources.iter().any(|source| self.is_in_force(*source))
        })
    }

    /// These sources were told everything before they came into force: a type that nobody else reads was seen.
    pub(crate) fn see_types_of(&mut self, reported: &[u32]) {
        for id in reported {
            let Some(origin) = self.source(*id).map(|source| source.origin) else { continue };
            let Some(of_type) = self.types.get(&origin) else { continue };
            let others = of_type.sources.iter().filter(|source| !reported.contains(source));
            let alone = !others.into_iter().any(|source| self.is_in_force(*source));
            if let Some(of_type) = self.types.get_mut(&origin).filter(|_| alone) {
                of_type.seen = true;
            }
        }
    }
}
