//! Puts simulated nodes into the world, once, at the start; what they do is decided elsewhere.

use futures::StreamExt as _;
use tenure_machinery::{Failure, Object, ObjectExt as _};
use tenure_server::internal_writer::{Actor, InternalWriter};
use tenure_workload::{simulated, volumes};

use crate::clock;

const ACTOR: Actor = Actor { account: "node-controller", manager: "kubelet" };

/// How many nodes are registered at once: together they are one write to the disk.
const AT_ONCE: usize = 256;

/// Makes sure that there are this many nodes, and a class of storage for their pods.
pub(crate) async fn register(writer: InternalWriter, count: u16) {
    if count == 0 {
        return;
    }
    ensure(&writer, ("storage.k8s.io", "storageclasses"), volumes::default_class()).await;
    let nodes = (1..=count).map(|number| {
        let node = simulated::node(number, clock::timestamp());
        ensure(&writer, ("", "nodes"), node)
    });
    futures::stream::iter(nodes).buffered(AT_ONCE).for_each(|()| async {}).await;
}

/// Creates an object unless there is one of its name.
async fn ensure(writer: &InternalWriter, at: (&str, &str), object: Object) {
    let name = object.name().to_owned();
    let known =
        writer.key(at, "", &name).is_ok_and(|key| writer.world().current().get(&key).is_some());
    if known {
        return;
    }
    if let Err(failure) = writer.create(ACTOR, at, "", object, Vec::new()).await {
        warn_unregistered(&name, &failure);
    }
}

fn warn_unregistered(name: &str, failure: &Failure) {
    tracing::warn!(name, error = failure.message, "a simulated node could not be registered");
}
