//! The scheduler of a server that has no nodes of its own: it waits for the first node that joins.
//! Where pods go is decided as everywhere.

use tenure_machinery::{Object, ObjectExt};

use super::{NAME, Scheduler};
use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::resource::BuiltinResource;
use crate::view::ClusterView;

/// The scheduler, silent while no node has an agent.
///
/// A node that somebody wrote by hand runs nothing. Where there are only such nodes, or none, pods are
/// left alone until somebody binds them.
pub struct JoinedScheduler;

impl Controller for JoinedScheduler {
    fn name(&self) -> &'static str {
        Scheduler.name()
    }
    fn alias(&self) -> &'static str {
        Scheduler.alias()
    }
    fn component(&self) -> &'static str {
        NAME
    }
    fn comes_first(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        Scheduler.watches()
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let arrived = change.resource == BuiltinResource::Nodes
            && change.after.is_some_and(|node| has_agent(node))
            && !change.before.is_some_and(|node| has_agent(node));
        if arrived {
            wake(ReconcileKey::new("", ""));
        }
        Scheduler.wake(change, view, wake);
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        if pass.view.list(BuiltinResource::Nodes, None).iter().any(|node| has_agent(node)) {
            return Scheduler.reconcile(pass);
        }
        ReconcileResult::default()
    }
}

/// Whether something on the node has told its version, as every agent does.
fn has_agent(node: &Object) -> bool {
    let version = node.str_at(&["status", "nodeInfo", "kubeletVersion"]);
    version.is_some_and(|version| !version.is_empty())
}
