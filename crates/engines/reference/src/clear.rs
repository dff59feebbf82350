//! Clearing away what sources have found that are in force no longer, a few origins at a time.
//!
//! ```text
//!   gone ──► later ──► now: one walk over all origins ──► their edges go ──► numbers may be used again
//! ```
//!
//! Nothing that counts changes here: no reader can tell how far the walk is. A host that does not ask for it
//! gets everything cleared away within the event.

use alloc::string::String;
use alloc::vec::Vec;

use crate::event::{Need, Outputs};
use crate::force::Force;
use crate::index::Index;
use crate::model::Resource;
use crate::origin::Edges;

/// So many origins are looked at for each one that may be changed.
const LOOKED_AT: usize = 16;

/// What is to be cleared away.
#[derive(Debug, Default)]
pub(crate) struct Clearing {
    /// Whether the host clears away, beside events.
    pub(crate) in_background: bool,
    /// The origin that the walk comes to next.
    next: usize,
    /// What the walk clears away.
    now: ClearBatch,
    /// What has gone since it began.
    later: ClearBatch,
}

#[derive(Debug, Default)]
struct ClearBatch {
    sources: Vec<u32>,
    /// Types that nobody needs to be told of once their origins are forgotten.
    stops: Vec<(Resource, String)>,
}

impl Index {
    /// From now on the host calls [`Index::clear_away`], beside events.
    #[must_use]
    pub fn with_background_clearing(mut self) -> Index {
        self.clearing.in_background = true;
        self
    }

    /// Whether there is something to clear away.
    #[must_use]
    pub fn has_to_clear(&self) -> bool {
        !self.clearing.now.sources.is_empty() || !self.clearing.later.sources.is_empty()
    }

    /// Clears away what up to so many origins hold of sources that are gone; whether there is more.
    pub fn clear_away(&mut self, most: usize, out: &mut Outputs) -> bool {
        if self.clearing.now.sources.is_empty() {
            self.clearing.now = core::mem::take(&mut self.clearing.later);
            self.clearing.next = 0;
        }
        let mut changed = 0;
        let end = self.clearing.next.saturating_add(most.saturating_mul(LOOKED_AT));
        let end = end.min(self.origins.len());
        while self.clearing.next < end && changed < most {
            let at = u32::try_from(self.clearing.next).unwrap_or(u32::MAX);
            self.clearing.next += 1;
            changed += usize::from(self.clear_origin(at, out));
        }
        if self.clearing.next >= self.origins.len() {
            self.end_walk(out);
        }
        self.has_to_clear()
    }

    /// Takes the edges of gone sources from an origin, and forgets it if nobody reads its type; whether it changed.
    fn clear_origin(&mut self, id: u32, out: &mut Outputs) -> bool {
        let Some(Some(kept)) = self.origins.get(id as usize) else { return false };
        let Some((resource, _)) = self.words.place_of(kept.place) else { return false };
        if !self.types.contains_key(&resource) {
            self.forget_origin(id, out);
            return true;
        }
        if !kept.edges.iter().any(|edge| self.is_gone(edge.source)) {
            return false;
        }
        let stays = kept.edges.iter().filter(|edge| !self.is_gone(edge.source));
        let stays: Edges = stays.copied().collect();
        self.replace_edges(id, &stays, out);
        true
    }

    /// No origin holds anything of these sources any more.
    fn end_walk(&mut self, out: &mut Outputs) {
        let ClearBatch { sources, stops } = core::mem::take(&mut self.clearing.now);
        sources.into_iter().for_each(|id| self.free_source(id));
        let feeds = self.feeds();
        let stops = stops.into_iter().filter(|stopped| !feeds.contains(stopped));
        out.needs.extend(stops.map(|(resource, version)| Need::Stop(resource, version)));
        self.clearing.next = 0;
    }

    pub(crate) fn is_gone(&self, source: u32) -> bool {
        self.source(source).is_none_or(|source| source.force == Force::Gone)
    }

    /// Sources are out of force; their edges are cleared away later.
    pub(crate) fn clear_later(&mut self, sources: &[u32]) {
        for id in sources {
            if let Some(Some(source)) = self.sources.get_mut(*id as usize) {
                source.force = Force::Gone;
            }
        }
        self.clearing.later.sources.extend_from_slice(sources);
    }

    /// Nobody reads a type any more, whose origins are to be cleared away: until then the host tells which of
    /// them are deleted.
    pub(crate) fn stop_later(&mut self, resource: Resource, version: String) {
        self.clearing.later.stops.push((resource, version));
    }
}
