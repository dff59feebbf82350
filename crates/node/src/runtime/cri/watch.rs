//! Which sandboxes changed: the runtime's own events where it has them, else a look at all of them once
//! a second. What a change means is for the agent to find out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::broadcast;
use tonic::{Code, Status, Streaming};

use super::client::{CriClient, USUAL, failed};
use super::messages as cri;
use crate::clock;
use crate::runtime::RuntimeError;

/// How often everything is looked at while nothing is told.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked at although events come.
const LOOK_DESPITE_EVENTS: Duration = Duration::from_secs(30);

/// Sandboxes and containers with these labels.
pub(super) async fn list(
    client: &CriClient,
    labels: &cri::StringMap,
) -> Result<(Vec<cri::ListedSandbox>, Vec<cri::ListedContainer>), RuntimeError> {
    let question =
        cri::ListSandboxesRequest { filter: Some(cri::SandboxFilter { labels: labels.clone() }) };
    let path = "/runtime.v1.RuntimeService/ListPodSandbox";
    let sandboxes: cri::ListSandboxesResponse =
        client.call(path, question, USUAL).await.map_err(failed)?;
    let question = cri::ListContainersRequest {
        filter: Some(cri::ContainerFilter { labels: labels.clone() }),
    };
    let path = "/runtime.v1.RuntimeService/ListContainers";
    let containers: cri::ListContainersResponse =
        client.call(path, question, USUAL).await.map_err(failed)?;
    Ok((sandboxes.items, containers.items))
}

/// Tells which sandboxes changed, for as long as anybody lets it run.
pub(super) async fn watch(
    client: CriClient,
    labels: cri::StringMap,
    changes: broadcast::Sender<String>,
) {
    let mut seen = SandboxStates::default();
    let mut has_events = true;
    loop {
        if has_events {
            match subscribe(&client).await {
                Ok(events) => follow(events, &client, &labels, &mut seen, &changes).await,
                Err(status) => has_events = status.code() != Code::Unimplemented,
            }
        }
        let there = look(&client, &labels, &mut seen, &changes).await;
        // One that was away may come back as a newer one, which has events.
        has_events |= !there;
        tokio::time::sleep(LOOK).await;
    }
}

async fn subscribe(client: &CriClient) -> Result<Streaming<cri::ContainerEvent>, Status> {
    client.stream("/runtime.v1.RuntimeService/GetContainerEvents", cri::Nothing {}).await
}

/// Passes events on until they end.
async fn follow(
    mut events: Streaming<cri::ContainerEvent>,
    client: &CriClient,
    labels: &cri::StringMap,
    seen: &mut SandboxStates,
    changes: &broadcast::Sender<String>,
) {
    loop {
        look(client, labels, seen, changes).await;
        let until = clock::timer_instant() + LOOK_DESPITE_EVENTS;
        while let Ok(event) = tokio::time::timeout_at(until, events.message()).await {
            let Ok(Some(event)) = event else { return };
            // Events of sandboxes of others come too; nobody knows them.
            if let Some(sandbox) = event.sandbox {
                let _ = changes.send(sandbox.id);
            }
        }
    }
}

/// Compares with what was there before, and says whether the runtime is there: one that is away changes
/// nothing.
async fn look(
    client: &CriClient,
    labels: &cri::StringMap,
    seen: &mut SandboxStates,
    changes: &broadcast::Sender<String>,
) -> bool {
    let (sandboxes, containers) = match list(client, labels).await {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "the runtime cannot be looked at");
            return false;
        }
    };
    for sandbox in seen.replace(&sandboxes, &containers) {
        // Nobody listens: nothing is lost, who comes looks at all.
        let _ = changes.send(sandbox);
    }
    true
}

/// Sandbox and state of everything, by id.
#[derive(Default)]
struct SandboxStates(BTreeMap<String, (String, i32)>);

impl SandboxStates {
    /// Takes a new look and says which sandboxes changed.
    fn replace(
        &mut self,
        sandboxes: &[cri::ListedSandbox],
        containers: &[cri::ListedContainer],
    ) -> BTreeSet<String> {
        let sandboxes = sandboxes.iter().map(|it| (it.id.clone(), (it.id.clone(), it.state)));
        let containers =
            containers.iter().map(|it| (it.id.clone(), (it.sandbox.clone(), it.state)));
        let now: BTreeMap<_, _> = sandboxes.chain(containers).collect();
        let before = std::mem::take(&mut self.0);
        let came = now.iter().filter(|(id, state)| before.get(*id) != Some(state));
        let went = before.iter().filter(|(id, _)| !now.contains_key(*id));
        let changed = came.chain(went).map(|(_, (sandbox, _))| sandbox.clone()).collect();
        self.0 = now;
        changed
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r150_a_look_tells_what_came_what_changed_and_what_went() {
        let sandbox =
            |id: &str, state| cri::ListedSandbox { id: id.into(), state, ..Default::default() };
        let container = |id: &str, sandbox: &str, state| cri::ListedContainer {
            id: id.into(),
            sandbox: sandbox.into(),
            state,
        };
        let told = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" ");
        let mut seen = SandboxStates::default();
        let both = [sandbox("a", 0), sandbox("b", 0)];
        assert_eq!(told(seen.replace(&both, &[container("x", "a", 1)])), "a b");
        assert_eq!(told(seen.replace(&both, &[container("x", "a", 1)])), "");
        assert_eq!(told(seen.replace(&both, &[container("x", "a", 2)])), "a");
        assert_eq!(told(seen.replace(&both, &[])), "a");
        assert_eq!(told(seen.replace(&both[..1], &[])), "b");
    }
}
