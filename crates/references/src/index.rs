//! The index a controller asks: objects in, verdicts out, and a word whenever a verdict turns.
//!
//! One writer, `&mut self`; many may check, `&self`. Nothing here waits or knows a cluster: `live.rs` feeds
//! the index from watches, or the caller does so by hand.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use serde_json::{Map, Value};
use tenure_reference::{
    Attributes, Consumer, Expressions, Grant, Index, IndexEvent, Need, Obj, Origin, OriginName,
    Outputs, RefQuery, ReferenceApiKind, Resource, Selectors, ServedType, Strategy, Synced,
    Unusable, Verdict,
};

use crate::names::{Identity, ObjectName, Reference};

/// An object that says nothing the index could use; what it said before no longer holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotUnderstood {
    /// It is of none of the three kinds.
    #[error("`{0}` is none of ReferenceStrategy, ClusterReferenceConsumer and ReferenceGrant")]
    Kind(String),
    /// It is of one of them, and unusable.
    #[error("{0}")]
    Unusable(#[from] Unusable),
}

/// A verdict turned (R112).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VerdictUpdate {
    /// The reference may be followed from now on.
    BecameAllowed(Reference),
    /// The reference may no longer be followed: withdraw what was made of it.
    BecameDenied(Reference),
}

impl VerdictUpdate {
    /// Which reference.
    #[must_use]
    pub fn reference(&self) -> &Reference {
        match self {
            VerdictUpdate::BecameAllowed(reference) | VerdictUpdate::BecameDenied(reference) => {
                reference
            }
        }
    }
}

/// Changes as they happen, first of all what is allowed when the subscription starts. It is kept until it is
/// read: a subscriber that stops reading must be dropped.
pub type VerdictUpdates = UnboundedReceiver<VerdictUpdate>;

/// Targets that a requester may read, as they come and go, first of all those there are.
pub type Readable = UnboundedReceiver<TargetChange>;

/// A target came into reach, or went out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetChange {
    /// It may be read from now on.
    Opened(ObjectName),
    /// It may no longer be read: forget what was read of it.
    Closed(ObjectName),
}

/// Which references a subscriber wants to hear of; what is `None` does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The type of origins.
    pub origin: Option<Resource>,
    /// The namespace of origins.
    pub origin_namespace: Option<String>,
    /// The type of targets.
    pub target: Option<Resource>,
    /// The purpose.
    pub purpose: Option<String>,
}

impl Filter {
    fn accepts(&self, reference: &Reference) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        is(self.origin.as_ref(), &reference.origin.resource)
            && is(self.origin_namespace.as_ref(), &reference.origin.namespace)
            && is(self.target.as_ref(), &reference.target.resource)
            && is(self.purpose.as_ref(), &reference.purpose)
    }
}

/// Somebody who wants to know what may be read.
struct IndexSubscriber {
    who: Identity,
    open: BTreeSet<ObjectName>,
    sender: UnboundedSender<TargetChange>,
}

/// Knows strategies, grants, consumers and origins, and answers for each reference (R110).
///
/// Until [`RefIndex::mark_all_synced`], or the finer words for watches, nothing is allowed (R125).
pub struct RefIndex {
    index: Index,
    /// The origin types that strategies in force look at.
    feeds: BTreeSet<(Resource, String)>,
    needs: Vec<Need>,
    /// What subscribers were told to be allowed.
    allowed: BTreeSet<Reference>,
    subscribers: Vec<(Filter, UnboundedSender<VerdictUpdate>)>,
    readers: Vec<IndexSubscriber>,
}

impl Default for RefIndex {
    fn default() -> RefIndex {
        RefIndex::new()
    }
}

impl std::fmt::Debug for RefIndex {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RefIndex").field("feeds", &self.feeds).finish_non_exhaustive()
    }
}

/// Hashes of names are spread by a secret, so that nobody can choose names that collide.
#[expect(clippy::disallowed_methods, reason = "the one place of this crate that draws randomness")]
fn secret() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl RefIndex {
    /// An index that knows nothing and allows nothing.
    #[must_use]
    pub fn new() -> RefIndex {
        let mut index = Index::new(secret());
        index.follow_references();
        RefIndex {
            index,
            feeds: BTreeSet::new(),
            needs: Vec::new(),
            allowed: BTreeSet::new(),
            subscribers: Vec::new(),
            readers: Vec::new(),
        }
    }

    /// The same, with something that evaluates `expression` (R79); without, such references are not found.
    #[must_use]
    pub fn with_expressions(mut self, expressions: Arc<dyn Expressions + Send + Sync>) -> RefIndex {
        self.index = self.index.with_expressions(expressions);
        self
    }

    /// The same, where selectors mean something (D9, D13): those that the API server lets authors write.
    #[must_use]
    pub fn with_selectors(mut self, selectors: Selectors) -> RefIndex {
        self.index = self.index.with_selectors(selectors);
        self
    }

    /// The engine underneath, for questions of tools: explanations, who can, findings.
    #[must_use]
    pub fn engine(&self) -> &Index {
        &self.index
    }

    /// Is this reference allowed, and by what? Nothing is allocated where it is (R110).
    #[must_use]
    pub fn check<'i>(&'i self, query: &RefQuery<'_>) -> Verdict<'i> {
        self.index.check(query)
    }

    /// May this requester read a target, for whatever purpose? What an API server with this authorizer says.
    #[must_use]
    pub fn may_read(&self, who: &Identity, target: &Obj<'_>) -> bool {
        self.decides(&Attributes {
            user: &who.user,
            groups: &who.groups,
            verb: "get",
            group: target.group,
            resource: target.resource,
            subresource: "",
            namespace: target.namespace,
            name: target.name,
        })
    }

    /// As [`RefIndex::may_read`], for any request.
    #[must_use]
    pub fn decides(&self, asked: &Attributes<'_>) -> bool {
        self.index.decide(asked).is_allowed()
    }

    /// Whether everything that was asked for has been told; until then more may be refused than must be.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.index.view().is_ready()
    }

    /// The types of origins to tell of, each at its version, since this was last asked.
    ///
    /// [`Need::Feed`] wants every object of a type again, then [`RefIndex::mark_origins_synced`].
    pub fn needs(&mut self) -> Vec<Need> {
        std::mem::take(&mut self.needs)
    }

    /// Tells of changes of verdicts from now on; first of what is allowed already (R112).
    pub fn watch(&mut self, filter: Filter) -> VerdictUpdates {
        let (sender, receiver) = unbounded();
        for reference in self.allowed.iter().filter(|reference| filter.accepts(reference)) {
            // The receiver is right here.
            let _ = sender.unbounded_send(VerdictUpdate::BecameAllowed(reference.clone()));
        }
        self.subscribers.push((filter, sender));
        receiver
    }

    /// Tells what a requester may read, as it comes and goes (R114).
    pub fn readable(&mut self, who: Identity) -> Readable {
        let (sender, receiver) = unbounded();
        self.readers.push(IndexSubscriber { who, open: BTreeSet::new(), sender });
        self.look_again();
        receiver
    }

    /// What the API serves, all of it (R58). Types that are not named are not served.
    pub fn serve(&mut self, types: Vec<ServedType>) {
        self.apply(IndexEvent::Served(types));
    }

    /// An object of the three kinds, as it now is.
    ///
    /// # Errors
    /// It cannot be understood. It then counts as gone, and nothing else is touched (R83).
    pub fn put(&mut self, object: &Value) -> Result<(), NotUnderstood> {
        let empty = Map::new();
        let fields = object.as_object().unwrap_or(&empty);
        let (kind, namespace, name) = identify(object)?;
        let event = match kind {
            ReferenceApiKind::Strategy => {
                Strategy::from_object(fields).map(IndexEvent::PutStrategy)
            }
            ReferenceApiKind::Consumer => {
                Consumer::from_object(fields).map(IndexEvent::PutConsumer)
            }
            ReferenceApiKind::Grant => Grant::from_object(fields).map(IndexEvent::PutGrant),
        };
        match event {
            Ok(event) => {
                self.apply(event);
                Ok(())
            }
            Err(why) => {
                self.apply(IndexEvent::Unusable(kind, namespace, name));
                Err(NotUnderstood::Unusable(why))
            }
        }
    }

    /// An object of the three kinds is gone.
    ///
    /// # Errors
    /// It is of none of the three kinds.
    pub fn remove(&mut self, object: &Value) -> Result<(), NotUnderstood> {
        let (kind, namespace, name) = identify(object)?;
        self.apply(match kind {
            ReferenceApiKind::Strategy => IndexEvent::DropStrategy(name),
            ReferenceApiKind::Consumer => IndexEvent::DropConsumer(name),
            ReferenceApiKind::Grant => IndexEvent::DropGrant(namespace, name),
        });
        Ok(())
    }

    /// A strategy as it now is.
    pub fn put_strategy(&mut self, strategy: Strategy) {
        self.apply(IndexEvent::PutStrategy(strategy));
    }

    /// A strategy is gone.
    pub fn remove_strategy(&mut self, name: &str) {
        self.apply(IndexEvent::DropStrategy(name));
    }

    /// An origin, as the API serves it at the version that strategies look at.
    pub fn put_origin(&mut self, resource: &Resource, object: &Value) {
        let api_version = text(object, "/apiVersion");
        let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
        let name = OriginName {
            group: &resource.group,
            resource: &resource.resource,
            namespace: text(object, "/metadata/namespace"),
            name: text(object, "/metadata/name"),
        };
        self.apply(IndexEvent::PutOrigin(Origin { name, version, object }));
    }

    /// An origin is gone.
    pub fn remove_origin(&mut self, origin: &Obj<'_>) {
        let Obj { group, resource, namespace, name } = *origin;
        self.apply(IndexEvent::DropOrigin(OriginName { group, resource, namespace, name }));
    }

    /// Everything there is was told: what is allowed is so from now on. To be said again after a strategy
    /// that looks at another type.
    pub fn mark_all_synced(&mut self) {
        for kind in
            [ReferenceApiKind::Strategy, ReferenceApiKind::Consumer, ReferenceApiKind::Grant]
        {
            self.mark_kind_synced(kind);
        }
        for (resource, version) in self.feeds.clone() {
            self.mark_origins_synced(&resource, &version);
        }
    }

    /// All objects of one of the three kinds were told.
    pub fn mark_kind_synced(&mut self, kind: ReferenceApiKind) {
        self.apply(IndexEvent::Synced(Synced::Kind(kind)));
        self.look_again();
    }

    /// All origins of a type were told, at a version.
    pub fn mark_origins_synced(&mut self, resource: &Resource, version: &str) {
        let Resource { group, resource } = resource;
        self.apply(IndexEvent::Synced(Synced::Origins { group, resource, version }));
        self.look_again();
    }

    fn apply(&mut self, event: IndexEvent<'_>) {
        let mut out = Outputs::default();
        self.index.apply(event, &mut out);
        for need in out.needs {
            match &need {
                Need::Feed(resource, version) => {
                    self.feeds.insert((resource.clone(), version.clone()));
                }
                Need::Stop(resource, version) => {
                    self.feeds.remove(&(resource.clone(), version.clone()));
                }
            }
            self.needs.push(need);
        }
        for moved in out.moved {
            let allowed = moved.allowed;
            self.turn(moved.into(), allowed);
        }
        let mut readers = std::mem::take(&mut self.readers);
        for reader in &mut readers {
            let is_it = |(group, name): &(bool, String)| {
                if *group { reader.who.groups.contains(name) } else { reader.who.user == *name }
            };
            if out.subjects.iter().any(is_it) {
                self.look(reader);
                continue;
            }
            let targets = out.transitions.iter().filter_map(|told| self.index.target(told.target));
            for target in targets {
                let name = ObjectName::from(target.object());
                let readable = self.may_read(&reader.who, &target.object());
                reader.set(name, readable);
            }
        }
        readers.retain(|reader| !reader.sender.is_closed());
        self.readers = readers;
        // Names of targets that nothing speaks of any more are given back here.
        let _ = self.index.publish();
    }

    /// A reference turned; subscribers hear of it once.
    fn turn(&mut self, reference: Reference, allowed: bool) {
        let turned = match allowed {
            true => self.allowed.insert(reference.clone()),
            false => self.allowed.remove(&reference),
        };
        if !turned {
            return;
        }
        self.subscribers.retain(|(filter, sender)| {
            if !filter.accepts(&reference) {
                return !sender.is_closed();
            }
            let reference = reference.clone();
            sender
                .unbounded_send(match allowed {
                    true => VerdictUpdate::BecameAllowed(reference),
                    false => VerdictUpdate::BecameDenied(reference),
                })
                .is_ok()
        });
    }

    /// Compares everything with what was told. Needed where much turns at once: a type was seen to the end.
    fn look_again(&mut self) {
        let now: BTreeSet<Reference> =
            self.index.allowed_references().into_iter().map(Reference::from).collect();
        let gone: Vec<Reference> = self.allowed.difference(&now).cloned().collect();
        let come: Vec<Reference> = now.difference(&self.allowed).cloned().collect();
        come.into_iter().for_each(|reference| self.turn(reference, true));
        gone.into_iter().for_each(|reference| self.turn(reference, false));
        let mut readers = std::mem::take(&mut self.readers);
        readers.iter_mut().for_each(|reader| self.look(reader));
        self.readers = readers;
    }

    /// Compares what a reader may read with what it was told.
    fn look(&self, reader: &mut IndexSubscriber) {
        let Identity { user, groups } = &reader.who;
        let readable = self.index.view().live_targets(user, groups);
        let readable: BTreeSet<ObjectName> =
            readable.map(|target| ObjectName::from(target.object())).collect();
        let gone: Vec<ObjectName> = reader.open.difference(&readable).cloned().collect();
        readable.into_iter().for_each(|name| reader.set(name, true));
        gone.into_iter().for_each(|name| reader.set(name, false));
    }
}

impl IndexSubscriber {
    fn set(&mut self, name: ObjectName, readable: bool) {
        let turned = match readable {
            true => self.open.insert(name.clone()),
            false => self.open.remove(&name),
        };
        if turned {
            // A reader that went away is forgotten with the next change.
            let _ = self.sender.unbounded_send(match readable {
                true => TargetChange::Opened(name),
                false => TargetChange::Closed(name),
            });
        }
    }
}

/// The kind, namespace and name of an object.
fn identify(object: &Value) -> Result<(ReferenceApiKind, &str, &str), NotUnderstood> {
    let kind = match text(object, "/kind") {
        "ReferenceStrategy" => ReferenceApiKind::Strategy,
        "ClusterReferenceConsumer" => ReferenceApiKind::Consumer,
        "ReferenceGrant" => ReferenceApiKind::Grant,
        other => return Err(NotUnderstood::Kind(other.to_owned())),
    };
    Ok((kind, text(object, "/metadata/namespace"), text(object, "/metadata/name")))
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
