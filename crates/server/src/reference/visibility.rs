//! Whole collections for consumers: only what references lead to is seen (R155, gate `ReferenceFilteredLists`).
//!
//! ```text
//!   commit ──► feed ──► Moves: at which revision whose sight of what has changed
//!                         │
//!   list:  state ──► what Sight sees now
//!   watch: what was seen at its start ──► looks again at what moves: an object, or the sight of it
//! ```
//!
//! A watch that starts at a revision needs to know what its client saw there: what is seen now, with the moves since
//! undone. Where the moves are forgotten, or the rights of the client have changed, it is told to list again. What is
//! seen is decided by the engine; nothing is sent from here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::Revision;
use tenure_rbac::RequestAttributes;
use tenure_reference::{Attributes, CapabilityView, Index, Obj, Outputs, Transition};
use tenure_world::Record;
use tokio::sync::watch;

use crate::access::AuthorizerChain;
use crate::authenticate::User;

/// How many moves are kept; who is further behind lists again.
const KEPT_MAX: usize = 1 << 16;

/// Something that changes what somebody sees.
struct VisibilityEvent {
    /// Clients that know of this revision may know of it.
    revision: Revision,
    /// The commit that brought it, or the last one before it.
    state: Revision,
    what: VisibilityCause,
}

enum VisibilityCause {
    Target(ReferenceTarget, Transition),
    /// A user (false) or a group (true) whose rights changed.
    Subject(bool, String),
}

/// The name of an object that is pointed at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReferenceTarget {
    group: Box<str>,
    resource: Box<str>,
    /// Its namespace; empty if it has none.
    pub(crate) namespace: Box<str>,
    /// Its name.
    pub(crate) name: Box<str>,
}

impl ReferenceTarget {
    fn new(object: &Obj<'_>) -> ReferenceTarget {
        ReferenceTarget {
            group: object.group.into(),
            resource: object.resource.into(),
            namespace: object.namespace.into(),
            name: object.name.into(),
        }
    }
}

/// The latest moves. Only kept where collections are filtered.
pub(super) struct Moves {
    kept: Mutex<VisibilityHistory>,
    /// The number that the next move will have.
    end: watch::Sender<u64>,
}

#[derive(Default)]
struct VisibilityHistory {
    moves: VecDeque<Arc<VisibilityEvent>>,
    /// The number of the first.
    first: u64,
    /// Everything after this revision is there.
    since: Revision,
    /// The newest state that a move belongs to. Commits move before others see that state.
    state: Revision,
}

impl Default for Moves {
    fn default() -> Moves {
        Moves { kept: Mutex::default(), end: watch::Sender::new(0) }
    }
}

/// The moves that are kept no longer reach back far enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgotten {
    /// The oldest revision that can be started from.
    pub(crate) oldest: Revision,
}

impl Moves {
    fn lock(&self) -> MutexGuard<'_, VisibilityHistory> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything starts anew at a revision.
    pub(super) fn start(&self, at: Revision) {
        *self.lock() = VisibilityHistory { since: at, ..VisibilityHistory::default() };
    }

    /// Notes what came of a commit, or came between two; `publish` lets readers see it, and nobody reads the moves
    /// meanwhile. It counts as of a revision, and belongs to a state.
    pub(super) fn note(
        &self,
        (revision, state): (Revision, Revision),
        index: &mut Index,
        out: &Outputs,
        publish: impl FnOnce(&mut Index),
    ) {
        // Names of targets are good until the index is published.
        let targets = out.transitions.iter().filter_map(|transition| {
            let target = ReferenceTarget::new(&index.target(transition.target)?.object());
            Some(VisibilityCause::Target(target, *transition))
        });
        let subjects = out.subjects.iter();
        let subjects = subjects.map(|(group, name)| VisibilityCause::Subject(*group, name.clone()));
        let moves: Vec<Arc<VisibilityEvent>> = targets
            .chain(subjects)
            .map(|what| Arc::new(VisibilityEvent { revision, state, what }))
            .collect();
        let mut kept = self.lock();
        publish(index);
        if !moves.is_empty() {
            kept.state = state;
        }
        kept.add(moves);
        let end = kept.end();
        drop(kept);
        self.end.send_if_modified(|reported| std::mem::replace(reported, end) != end);
    }
}

impl VisibilityHistory {
    fn end(&self) -> u64 {
        self.first.saturating_add(self.moves.len() as u64)
    }

    fn add(&mut self, moves: Vec<Arc<VisibilityEvent>>) {
        self.moves.extend(moves);
        while self.moves.len() > KEPT_MAX
            && let Some(gone) = self.moves.pop_front()
        {
            self.first = self.first.saturating_add(1);
            self.since = gone.revision;
        }
    }

    fn after(
        &self,
        revision: Revision,
    ) -> Result<impl Iterator<Item = &VisibilityEvent>, Forgotten> {
        self.after_by(revision, |made| made.revision)
    }

    fn after_by(
        &self,
        revision: Revision,
        at: impl Fn(&VisibilityEvent) -> Revision,
    ) -> Result<impl Iterator<Item = &VisibilityEvent>, Forgotten> {
        if revision < self.since {
            return Err(Forgotten { oldest: self.since });
        }
        let from = self.moves.partition_point(|made| at(made) <= revision);
        Ok(self.moves.range(from..).map(|made| &**made))
    }
}

/// What one consumer sees of a collection, and of no other.
#[derive(Clone)]
pub(crate) struct Visibility {
    access: Arc<AuthorizerChain>,
    user: User,
    verb: &'static str,
    group: String,
    resource: String,
    namespace: String,
}

/// What has moved for somebody.
pub(crate) enum VisibilityChange {
    /// These may be seen now, or no longer.
    Some(Vec<ReferenceTarget>),
    /// Everything may.
    All,
}

/// What was seen at a revision, as far as that differs from now.
#[derive(Default)]
pub(crate) struct Then {
    /// Whether these were seen.
    pub(crate) seen: BTreeMap<ReferenceTarget, bool>,
    /// These were not, but since the revision, from the one that is named.
    pub(crate) between: Vec<(ReferenceTarget, Revision)>,
}

impl Visibility {
    /// The sight of whoever may not read a whole collection, but is a consumer of such objects.
    pub(crate) fn of(
        access: &Arc<AuthorizerChain>,
        user: &User,
        requested: &RequestAttributes<'_>,
    ) -> Option<Visibility> {
        let RequestAttributes::Resource { verb, group, resource, subresource, namespace, name } =
            *requested
        else {
            return None;
        };
        let verb = match verb {
            "list" => "list",
            "watch" => "watch",
            _ => return None,
        };
        let filters = access.asks_references() && access.reference_authorizer().filters();
        if !filters || !subresource.is_empty() || !name.is_empty() {
            return None;
        }
        let sight = Visibility {
            access: Arc::clone(access),
            user: user.clone(),
            verb,
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
        };
        (sight.holds() && !access.has_role(user, requested)).then_some(sight)
    }

    /// Whether the user is still a consumer of such objects.
    pub(crate) fn holds(&self) -> bool {
        self.access.reference_authorizer().consumes(&self.user, &self.group, &self.resource)
    }

    /// What the user asked for.
    pub(crate) fn request_attributes(&self) -> RequestAttributes<'_> {
        RequestAttributes::Resource {
            verb: self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: "",
            namespace: &self.namespace,
            name: "",
        }
    }

    /// Who looks.
    pub(crate) fn user(&self) -> &User {
        &self.user
    }

    /// Whether an object of the collection is seen at this moment.
    pub(crate) fn sees(&self, record: &Record) -> bool {
        self.access
            .reference_authorizer()
            .decide(&self.attributes(record.namespace(), record.name()))
    }

    fn attributes<'a>(&'a self, namespace: &'a str, name: &'a str) -> Attributes<'a> {
        Attributes {
            user: &self.user.name,
            groups: &self.user.groups,
            verb: self.verb,
            group: &self.group,
            resource: &self.resource,
            subresource: "",
            namespace,
            name,
        }
    }

    fn moves(&self) -> Option<&Moves> {
        self.access.reference_authorizer().moves()
    }

    /// Tells when something has moved for anybody.
    pub(crate) fn movements(&self) -> Option<watch::Receiver<u64>> {
        Some(self.moves()?.end.subscribe())
    }

    /// The number that the next move will have.
    pub(crate) fn end(&self) -> u64 {
        self.moves().map_or(0, |moves| moves.lock().end())
    }

    /// The number of the first move after a revision.
    pub(crate) fn number_after(&self, revision: Revision) -> Result<u64, Forgotten> {
        let Some(moves) = self.moves() else { return Ok(0) };
        let kept = moves.lock();
        let left = kept.after(revision)?.count() as u64;
        Ok(kept.end().saturating_sub(left))
    }

    /// What has moved from a number on, which becomes the number of the next, and a state that has all of it.
    pub(crate) fn moved(&self, from: &mut u64) -> Result<(VisibilityChange, Revision), Forgotten> {
        let Some(moves) = self.moves() else {
            return Ok((VisibilityChange::All, Revision::default()));
        };
        let (new, state): (Vec<Arc<VisibilityEvent>>, Revision) = {
            let kept = moves.lock();
            let Some(skip) = from.checked_sub(kept.first) else {
                return Err(Forgotten { oldest: kept.since });
            };
            *from = kept.end();
            let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(kept.moves.len());
            (kept.moves.range(skip..).cloned().collect(), kept.state)
        };
        if new.iter().any(|made| self.is_me(&made.what)) {
            return Ok((VisibilityChange::All, state));
        }
        let targets = new.iter().filter_map(|made| self.concerns(made)).map(|(target, _)| target);
        Ok((VisibilityChange::Some(targets.cloned().collect()), state))
    }

    /// Those of the records of a state that were seen in it, of those that are seen now (R180).
    pub(crate) fn was_seen(
        &self,
        records: &[Arc<Record>],
        state: Revision,
    ) -> Result<Vec<Arc<Record>>, Forgotten> {
        let then = self.then_by(state, |made| made.state)?;
        let unseen = then.seen.iter().filter(|(_, seen)| !**seen);
        let unseen: BTreeSet<(&str, &str)> =
            unseen.map(|(target, _)| (&*target.namespace, &*target.name)).collect();
        let seen = records.iter().filter(|of| !unseen.contains(&(of.namespace(), of.name())));
        Ok(seen.cloned().collect())
    }

    /// What was seen at a revision, beside what is seen now.
    pub(crate) fn then(&self, revision: Revision) -> Result<Then, Forgotten> {
        self.then_by(revision, |made| made.revision)
    }

    fn then_by(
        &self,
        revision: Revision,
        at: impl Fn(&VisibilityEvent) -> Revision,
    ) -> Result<Then, Forgotten> {
        let Some(moves) = self.moves() else { return Ok(Then::default()) };
        let kept = moves.lock();
        // Under the lock: the view is that of the moves.
        let view = self.access.reference_authorizer().view();
        let mut since: BTreeMap<&ReferenceTarget, Vec<(Revision, &Transition)>> = BTreeMap::new();
        for made in kept.after_by(revision, at)? {
            if self.is_me(&made.what) {
                return Err(Forgotten { oldest: made.revision });
            }
            if let Some((target, transition)) = self.concerns(made) {
                since.entry(target).or_default().push((made.revision, transition));
            }
        }
        Ok(self.undo(&view, &since))
    }

    fn undo(
        &self,
        view: &CapabilityView,
        since: &BTreeMap<&ReferenceTarget, Vec<(Revision, &Transition)>>,
    ) -> Then {
        let mut then = Then::default();
        for (target, transitions) in since {
            let requested = self.attributes(&target.namespace, &target.name);
            let seen = view.was_allowed(&requested, transitions.iter().map(|(_, made)| *made));
            then.seen.insert((*target).clone(), seen);
            let mut lit = transitions.iter().filter(|(_, made)| made.live);
            if let Some((at, _)) = lit.find(|(_, made)| !seen && view.accepts(&requested, made)) {
                then.between.push(((*target).clone(), *at));
            }
        }
        then
    }

    fn is_me(&self, what: &VisibilityCause) -> bool {
        match what {
            VisibilityCause::Subject(false, name) => *name == self.user.name,
            VisibilityCause::Subject(true, name) => self.user.groups.contains(name),
            VisibilityCause::Target(..) => false,
        }
    }

    fn concerns<'m>(
        &self,
        made: &'m VisibilityEvent,
    ) -> Option<(&'m ReferenceTarget, &'m Transition)> {
        let VisibilityCause::Target(target, transition) = &made.what else { return None };
        let here = *target.group == *self.group
            && *target.resource == *self.resource
            && (self.namespace.is_empty() || *target.namespace == *self.namespace);
        here.then_some((target, transition))
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/referential-authorization.md.

    use super::*;

    fn subject(revision: u64) -> Arc<VisibilityEvent> {
        let what = VisibilityCause::Subject(false, "contour".to_owned());
        Arc::new(VisibilityEvent { revision: Revision(revision), state: Revision(revision), what })
    }

    #[test]
    fn r155_moves_are_bounded_and_what_is_forgotten_is_told() {
        let mut kept = VisibilityHistory { since: Revision(5), ..VisibilityHistory::default() };
        assert!(kept.after(Revision(4)).is_err());
        assert_eq!(kept.after(Revision(5)).map(Iterator::count).ok(), Some(0));
        kept.add(vec![subject(6), subject(6), subject(7)]);
        assert_eq!(kept.after(Revision(6)).map(Iterator::count).ok(), Some(1));
        assert_eq!(kept.after(Revision(5)).map(Iterator::count).ok(), Some(3));
        kept.add((0..KEPT_MAX as u64).map(|at| subject(8 + at)).collect());
        assert_eq!((kept.first, kept.end()), (3, 3 + KEPT_MAX as u64));
        assert_eq!(kept.after(Revision(6)).err().map(|gone| gone.oldest), Some(Revision(7)));
        assert_eq!(kept.after(Revision(7)).map(Iterator::count).ok(), Some(KEPT_MAX));
    }
}
