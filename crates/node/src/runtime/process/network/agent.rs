//! How the agent comes by its node's network: a holder is found or begun, sandboxes get their place in it, and
//! when it is gone they are made anew. Devices and routes are the holder's.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::client::{HolderClient, HolderRefusal};
use super::messages::{HolderOrder, HolderRecord, HolderRequest, PodPlace};
use super::{FOLDER, PodNetwork, PodNetworkChoice, PodRange, RANGE, RECORD};
use crate::runtime::process::registry::Keep;
use crate::runtime::process::state::{self, SandboxRecord};
use crate::runtime::process::wire::{self, ShimRequest};
use crate::runtime::process::{ProcessRuntime, raw};
use crate::runtime::{RuntimeError, SandboxConfig};

/// The pod that shows whether there can be any.
const TRIAL: &str = "trial";

/// Where a sandbox is.
pub(in super::super) struct SandboxPlace {
    /// Its address.
    pub(in super::super) address: IpAddr,
    /// The holder of the network that it is in; none: it is in the machine's.
    pub(in super::super) holder: Option<String>,
}

impl ProcessRuntime {
    /// Decides whose network pods have, once for as long as this runtime lives (N10).
    pub(in super::super) async fn open_network(&self) {
        let settings = &self.settings;
        let network = if settings.plain {
            PodNetwork::Machine("switched off with --isolation none".to_owned())
        } else if settings.pod_network == PodNetworkChoice::Machine {
            PodNetwork::Machine("switched off with --pod-network=host".to_owned())
        } else {
            match self.hold_network().await {
                Ok(holder) => PodNetwork::Own(holder),
                Err(why) => PodNetwork::Machine(why.to_string()),
            }
        };
        self.network.set(network);
    }

    /// Pods are in the machine's network after all: a container cannot be made in its own.
    pub(in super::super) async fn do_without_network(&self, why: String) {
        let before = self.network.holder();
        self.network.set(PodNetwork::Machine(why));
        if let Some(holder) = before {
            // It may be gone already, which is what is wanted.
            let _ = holder.ask(HolderRequest::End).await;
        }
    }

    fn network_folder(&self) -> PathBuf {
        self.settings.state.join(FOLDER)
    }

    /// The holder of an earlier life of this agent, if it lives; else a new one.
    async fn hold_network(&self) -> Result<Arc<HolderClient>, HolderRefusal> {
        let folder = self.network_folder();
        tenure_files::make_folder(&folder)?;
        let record: Option<HolderRecord> = state::load(&folder.join(RECORD));
        if record.is_some_and(|record| record.process.lives()) {
            let place = folder.clone();
            let finding = tokio::task::spawn_blocking(move || HolderClient::find(&place));
            if let Ok(Ok(found)) = finding.await {
                return Ok(Arc::new(found));
            }
        }
        let order = HolderOrder {
            folder,
            instance: state::fresh_id()?,
            own_users: self.abilities.single,
            ends_with_agent: self.settings.ends_with_agent,
        };
        match self.begin_holder(&order).await {
            Ok(holder) => Ok(holder),
            // Whoever makes processes may have been killed since the last time.
            Err(_) => {
                *self.nurse.lock().await = None;
                self.begin_holder(&order).await
            }
        }
    }

    async fn begin_holder(&self, order: &HolderOrder) -> Result<Arc<HolderClient>, HolderRefusal> {
        let socket = self.begin("network").await?;
        wire::send(&socket, &ShimRequest::HoldNetwork(order.clone()), &[])?;
        let beginning = tokio::task::spawn_blocking(move || HolderClient::begun(socket));
        Ok(Arc::new(beginning.await.map_err(std::io::Error::other)??))
    }

    /// A network for a container that is made to see whether it can be; none where pods have the machine's.
    pub(in super::super) async fn trial_network(&self) -> Result<Option<Vec<OwnedFd>>, String> {
        let Some(holder) = self.network.holder() else { return Ok(None) };
        // Nobody sends anything there.
        let place = PodPlace {
            id: TRIAL.to_owned(),
            address: std::net::Ipv4Addr::new(169, 254, 0, 2),
            gateway: std::net::Ipv4Addr::new(169, 254, 0, 1),
        };
        let made = holder.ask_for_one(HolderRequest::Add(place)).await;
        let made = made.map_err(|refusal| refusal.to_string())?;
        let users = holder.users().map(OwnedFd::try_clone).transpose();
        let users = users.map_err(|error| error.to_string())?;
        Ok(Some(users.into_iter().chain([made]).collect()))
    }

    /// The trial is over.
    pub(in super::super) async fn end_trial(&self) {
        if let Some(holder) = self.network.holder() {
            let _ = holder.ask(HolderRequest::Remove(TRIAL.to_owned())).await;
        }
    }

    /// Takes up what is there: sandboxes whose holder is gone are made anew, networks without a sandbox go.
    pub(in super::super) async fn adopt_network(&self) {
        let holder = self.network.holder();
        let current = holder.as_ref().map(|holder| holder.instance().to_owned());
        for record in self.keep.sandbox_records() {
            if record.holder.is_some() && record.holder != current && !record.stopped {
                lose(&self.keep, &record.id);
            }
        }
        let Some(holder) = holder else { return };
        let records = self.keep.sandbox_records().into_iter();
        let there: BTreeSet<String> =
            records.filter(|record| !record.stopped).map(|record| record.id).collect();
        for pod in holder.pods().iter().filter(|pod| !there.contains(*pod)) {
            let _ = holder.ask(HolderRequest::Remove(pod.clone())).await;
        }
        if let Some(range) = state::load::<PodRange>(&self.network_folder().join(RANGE)) {
            self.take_range(&holder, range).await;
        }
        self.watch_holder(&holder);
    }

    async fn take_range(&self, holder: &HolderClient, range: PodRange) {
        match self.give_addresses(holder, range).await {
            Ok(()) => self.network.set_range(range),
            Err(why) => tracing::warn!(%why, %range, "the node cannot have its address"),
        }
    }

    /// The node's network has the first address of the range, which pods send everything to, and the one that the
    /// node tells others, unless that is loopback.
    async fn give_addresses(
        &self,
        holder: &HolderClient,
        range: PodRange,
    ) -> Result<(), HolderRefusal> {
        holder.ask(HolderRequest::Address(range.node())).await?;
        if let IpAddr::V4(told) = self.settings.node_address
            && !told.is_loopback()
        {
            holder.ask(HolderRequest::Address(told)).await?;
        }
        Ok(())
    }

    /// The address of pods on the node's network.
    fn node_address(&self, range: PodRange) -> IpAddr {
        let told = self.settings.node_address;
        if told.is_loopback() { range.node().into() } else { told }
    }

    /// Notices when the holder ends (N40).
    fn watch_holder(&self, holder: &Arc<HolderClient>) {
        let held = holder.process().hold().and_then(raw::awaitable);
        let (keep, network) = (Arc::clone(&self.keep), Arc::clone(&self.network));
        let instance = holder.instance().to_owned();
        tokio::spawn(async move {
            if let Ok(held) = held {
                // An error means the same: nobody knows any more whether it lives.
                let _ = held.readable().await.map(|_| ());
            }
            let current = network.holder();
            if !current.is_some_and(|current| current.instance() == instance) {
                return;
            }
            tracing::error!("the holder of the pods' network is gone; pods are made anew");
            network.set(PodNetwork::Lost);
            for record in keep.sandbox_records() {
                if record.holder.as_ref() == Some(&instance) && !record.stopped {
                    lose(&keep, &record.id);
                }
            }
        });
    }

    /// The holder; begun anew if it was lost. None where pods have the machine's network.
    async fn living_holder(&self) -> Result<Option<Arc<HolderClient>>, RuntimeError> {
        let _turn = self.network.turn.lock().await;
        match self.network.get() {
            PodNetwork::Machine(_) => Ok(None),
            PodNetwork::Own(holder) => Ok(Some(holder)),
            PodNetwork::Lost => {
                let begun = self.hold_network().await;
                let holder = begun.map_err(|why| RuntimeError::Failed(why.to_string()))?;
                if let Some(range) = self.network.range() {
                    self.take_range(&holder, range).await;
                }
                self.network.set(PodNetwork::Own(Arc::clone(&holder)));
                self.watch_holder(&holder);
                Ok(Some(holder))
            }
        }
    }

    /// From now on pods have addresses of these networks; the node's own address there.
    pub(in super::super) async fn use_range(
        &self,
        ranges: &[String],
    ) -> Result<Option<IpAddr>, RuntimeError> {
        let Some(holder) = self.living_holder().await? else { return Ok(None) };
        let Some(range) = ranges.iter().find_map(|text| PodRange::parse(text)) else {
            let said = ranges.join(", ");
            return Err(RuntimeError::Failed(format!(
                "spec.podCIDRs of the node has no IPv4 network with room for pods: [{said}]"
            )));
        };
        if self.network.range() != Some(range) {
            self.give_addresses(&holder, range)
                .await
                .map_err(|why| RuntimeError::Failed(why.to_string()))?;
            state::save(&self.network_folder().join(RANGE), &range)
                .map_err(|error| RuntimeError::Failed(format!("{RANGE}: {error}")))?;
            self.network.set_range(range);
        }
        Ok(Some(range.node().into()))
    }

    /// Finds a place for a sandbox: an address, and where pods have networks, its own.
    pub(in super::super) async fn place_sandbox(
        &self,
        id: &str,
        config: &SandboxConfig,
    ) -> Result<SandboxPlace, RuntimeError> {
        let Some(holder) = self.living_holder().await? else {
            let address = match config.host_network {
                true => self.settings.node_address,
                false => self.keep.free_address(&config.pod.uid),
            };
            return Ok(SandboxPlace { address, holder: None });
        };
        let Some(range) = self.network.range() else {
            return Err(RuntimeError::Failed(
                "the server has given this node no addresses for pods yet (spec.podCIDRs)"
                    .to_owned(),
            ));
        };
        let instance = Some(holder.instance().to_owned());
        if config.host_network {
            return Ok(SandboxPlace { address: self.node_address(range), holder: instance });
        }
        let Some(address) = self.keep.reserve_address(&config.pod.uid, range) else {
            return Err(RuntimeError::Failed(format!(
                "no address is free in {range}, which spec.podCIDRs of the node is"
            )));
        };
        let place = PodPlace { id: id.to_owned(), address, gateway: range.node() };
        match holder.ask(HolderRequest::Add(place)).await {
            Ok(_) => Ok(SandboxPlace { address: address.into(), holder: instance }),
            Err(why) => {
                self.keep.release_address(address.into());
                Err(RuntimeError::Failed(format!("network of the pod: {why}")))
            }
        }
    }

    /// Takes away the network of a sandbox in which nothing runs any more.
    pub(in super::super) async fn leave_network(&self, sandbox: &str) {
        let Ok(record) = self.keep.sandbox_record(sandbox) else { return };
        if let Some(holder) = self.network.holder()
            && record.holder.as_deref() == Some(holder.instance())
            && !record.host_network
            && let Err(why) = holder.ask(HolderRequest::Remove(record.id)).await
        {
            tracing::debug!(%why, "the network of a pod was not taken away");
        }
    }

    /// The namespaces that the containers of a sandbox enter: of users, if there is one, and of the network.
    pub(in super::super) async fn namespaces_of(
        &self,
        record: &SandboxRecord,
    ) -> Result<Vec<OwnedFd>, RuntimeError> {
        let Some(wanted) = &record.holder else { return Ok(Vec::new()) };
        let gone = || RuntimeError::Failed("the network of the pod is gone".to_owned());
        let holder = self.network.holder().filter(|holder| holder.instance() == wanted);
        let holder = holder.ok_or_else(gone)?;
        let failed = |error: std::io::Error| RuntimeError::Failed(error.to_string());
        let network = if record.host_network {
            holder.node().try_clone().map_err(failed)?
        } else {
            let found = holder.ask_for_one(HolderRequest::Find(record.id.clone())).await;
            found.map_err(|why| RuntimeError::Failed(why.to_string()))?
        };
        let users = holder.users().map(OwnedFd::try_clone).transpose().map_err(failed)?;
        Ok(users.into_iter().chain([network]).collect())
    }

    /// Ends the network of the node; nothing is in it any more (N9).
    pub(in super::super) async fn end_network(&self) {
        if let Some(holder) = self.network.holder() {
            // So that its end is no loss.
            self.network.set(PodNetwork::Lost);
            let _ = holder.ask(HolderRequest::End).await;
        }
    }
}

/// A sandbox without its network is of no use: it ends, and the pod gets another.
fn lose(keep: &Keep, sandbox: &str) {
    keep.stop_sandbox(sandbox);
    for container in keep.containers_of(sandbox) {
        keep.kill(&container);
    }
    keep.tell(sandbox);
}
