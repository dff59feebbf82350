//! Services on a node whose pods have a network of their own: every port that somebody is behind is listened
//! on in the node's network, and what comes is carried to a pod (spec/laptop.md, N11 to N20).
//!
//! ```text
//!   Services, EndpointSlices ──► table ──► listeners in the node's network
//!   client ──► listener ──► pick ──► endpoint, or the API server
//! ```
//!
//! Which endpoints there are is the server's business; networks and sockets are the runtime's.

mod carry;
mod datagrams;
mod egress;
mod names;
mod pick;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

use self::pick::Affinities;
use self::table::{Here, Known, Listener, Target, Transport};
use crate::client::Client;
use crate::events::{EventSubject, Events, Grade};
use crate::follow::{CollectionEvent, follow};
use crate::runtime::NodeNetwork;

pub(crate) use self::names::zone::DOMAIN;

/// How long changes are gathered before listeners are changed.
const GATHER: Duration = Duration::from_millis(2);
/// When a port that could not be had is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The range of Services where the server tells none.
const USUAL_RANGE: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 96, 0, 0), 12);

/// Where pods ask for names of the cluster.
pub(crate) const NAMES: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);

/// What the proxy needs to know of its node.
pub(crate) struct ServiceProxy {
    pub(crate) client: Client,
    pub(crate) events: Events,
    pub(crate) node: String,
    pub(crate) network: Arc<dyn NodeNetwork>,
    /// Host and port of the API server, as the node reaches it.
    pub(crate) server: (String, u16),
    /// Whether pods reach what is outside.
    pub(crate) egress: bool,
}

/// What all listeners share.
pub(crate) struct Shared {
    network: Arc<dyn NodeNetwork>,
    server: (String, u16),
    affinities: Affinities,
    sessions: datagrams::Sessions,
}

/// A listener that is open, and what it leads to.
struct Open {
    target: watch::Sender<Arc<Target>>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// What is known so far, and who is told when it changes.
#[derive(Default)]
struct Seen {
    known: Mutex<Known>,
    ranges: Mutex<BTreeSet<(Ipv4Addr, u8)>>,
    changed: Notify,
}

impl ServiceProxy {
    /// Serves Services for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        let seen = Arc::new(Seen::default());
        let mut following = JoinSet::new();
        for (path, kind) in [
            ("/api/v1/services", Collection::Services),
            ("/apis/discovery.k8s.io/v1/endpointslices", Collection::Slices),
            ("/apis/networking.k8s.io/v1/servicecidrs", Collection::Ranges),
        ] {
            let seen = Arc::clone(&seen);
            let tell = move |event| seen.take(kind, event);
            following.spawn(follow(self.client.clone(), path.to_owned(), tell));
        }
        let shared = Arc::new(Shared {
            network: Arc::clone(&self.network),
            server: self.server.clone(),
            affinities: Affinities::default(),
            sessions: datagrams::Sessions::default(),
        });
        let mut lives = self.network.lives();
        let mut open: BTreeMap<Listener, Open> = BTreeMap::new();
        let mut taken: BTreeSet<(Ipv4Addr, u8)> = BTreeSet::new();
        let mut told: BTreeSet<Listener> = BTreeSet::new();
        let mut out: Option<AbortHandle> = self.way_out(&shared).await;
        let names = Arc::new(names::Names::new());
        let mut named: BTreeMap<IpAddr, Vec<AbortHandle>> = BTreeMap::new();
        loop {
            if lives.has_changed().unwrap_or(false) {
                // Sockets of the old network lead nowhere.
                lives.mark_unchanged();
                open.clear();
                taken.clear();
                named.values().flatten().for_each(AbortHandle::abort);
                named.clear();
                out.iter().for_each(AbortHandle::abort);
                out = self.way_out(&shared).await;
            }
            let mut complete = self.take_ranges(&seen, &mut taken).await;
            complete &= self.serve_names(&names, &taken, &mut named).await;
            let wanted = {
                let known = seen.known.lock().unwrap_or_else(PoisonError::into_inner);
                names.learn(&known);
                let reaches = |address| self.network.reaches(address);
                table::table(&known, &Here { node: &self.node, reaches: &reaches })
            };
            open.retain(|listener, _| wanted.contains_key(listener));
            told.retain(|listener| wanted.contains_key(listener));
            for (listener, target) in wanted {
                if let Some(open) = open.get(&listener) {
                    open.target.send_if_modified(|known| {
                        let changes = **known != target;
                        if changes {
                            *known = Arc::new(target);
                        }
                        changes
                    });
                    continue;
                }
                match listen(&shared, listener, target.clone()).await {
                    Ok(opened) => {
                        open.insert(listener, opened);
                        told.remove(&listener);
                    }
                    Err(why) => {
                        complete = false;
                        self.tell(&mut told, listener, &target, &why);
                    }
                }
            }
            let wait = if complete { Duration::MAX } else { RETRY };
            tokio::select! {
                () = seen.changed.notified() => tokio::time::sleep(GATHER).await,
                _ = lives.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Opens the way out, unless there is to be none. Where it cannot be had, pods reach each other and Services
    /// only (N19).
    async fn way_out(&self, shared: &Arc<Shared>) -> Option<AbortHandle> {
        if !self.egress {
            return None;
        }
        match self.network.way_out().await {
            Ok(socket) => Some(egress::serve(Arc::clone(shared), socket)),
            Err(error) => {
                tracing::warn!(%error, "pods of this node reach nothing outside of it");
                None
            }
        }
    }

    /// Has packets for Services come here; whether all do.
    async fn take_ranges(&self, seen: &Seen, taken: &mut BTreeSet<(Ipv4Addr, u8)>) -> bool {
        let mut wanted = seen.ranges.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if wanted.is_empty() {
            wanted.insert(USUAL_RANGE);
        }
        let mut complete = true;
        for range in wanted {
            if taken.contains(&range) {
                continue;
            }
            match self.network.take(range.0, range.1).await {
                Ok(()) => {
                    taken.insert(range);
                }
                Err(error) => {
                    tracing::warn!(%error, "addresses of Services cannot be taken");
                    complete = false;
                }
            }
        }
        complete
    }

    /// Opens the server of names: for the cluster at an address of Services, and at the node's for those who want
    /// the machine's names only. Whether both are open.
    async fn serve_names(
        &self,
        names: &Arc<names::Names>,
        taken: &BTreeSet<(Ipv4Addr, u8)>,
        open: &mut BTreeMap<IpAddr, Vec<AbortHandle>>,
    ) -> bool {
        let mut places = vec![];
        if !taken.is_empty() {
            places.push((IpAddr::V4(NAMES), false));
        }
        places.extend(self.network.address().map(|own| (own, true)));
        let mut complete = true;
        for (address, only_elsewhere) in places {
            if open.contains_key(&address) {
                continue;
            }
            let at = SocketAddr::from((address, 53));
            match (self.network.bind(at).await, self.network.listen(at).await) {
                (Ok(socket), Ok(listener)) => {
                    let tasks = vec![
                        names::serve_datagrams(Arc::clone(names), socket, only_elsewhere),
                        names::serve_streams(Arc::clone(names), listener, only_elsewhere),
                    ];
                    open.insert(address, tasks);
                }
                (Err(error), _) | (_, Err(error)) => {
                    tracing::warn!(%error, %at, "names cannot be served");
                    complete = false;
                }
            }
        }
        complete
    }

    /// Says once that a port cannot be had; the others work (N18).
    fn tell(
        &self,
        told: &mut BTreeSet<Listener>,
        listener: Listener,
        target: &Target,
        why: &std::io::Error,
    ) {
        if !told.insert(listener) {
            return;
        }
        let what = match listener {
            Listener::Service(address, port, _) => format!("{address}:{port}"),
            Listener::Node(port, _) => format!("node port {port}"),
        };
        tracing::warn!(service = ?target.service, what, %why, "a port cannot be had");
        let subject = EventSubject::service(&target.service, &target.uid);
        let message = format!("{what} is not served on node {}: {why}", self.node);
        self.events.tell(&subject, Grade::Warning, "PortNotServed", message);
    }
}

#[derive(Debug, Clone, Copy)]
enum Collection {
    Services,
    Slices,
    Ranges,
}

impl Seen {
    fn take(&self, kind: Collection, event: CollectionEvent) -> bool {
        let key = |object: &Object| (object.namespace().to_owned(), object.name().to_owned());
        if let CollectionEvent::Unread(why) = &event {
            tracing::debug!(why, ?kind, "what Services are cannot be read");
            return true;
        }
        if matches!(kind, Collection::Ranges) {
            self.take_range(event);
        } else {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let all = match kind {
                Collection::Services => &mut known.services,
                Collection::Slices | Collection::Ranges => &mut known.slices,
            };
            match event {
                CollectionEvent::All(found) => {
                    *all = found.into_iter().map(|object| (key(&object), object)).collect();
                }
                CollectionEvent::Put(object) => {
                    all.insert(key(&object), object);
                }
                CollectionEvent::Gone(object) => {
                    all.remove(&key(&object));
                }
                CollectionEvent::Unread(_) => {}
            }
        }
        self.changed.notify_one();
        true
    }

    /// A range that is gone stays taken: nobody else has its addresses.
    fn take_range(&self, event: CollectionEvent) {
        let objects = match event {
            CollectionEvent::All(all) => all,
            CollectionEvent::Put(object) => vec![object],
            CollectionEvent::Gone(_) | CollectionEvent::Unread(_) => Vec::new(),
        };
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        for object in objects {
            let texts = object.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
            ranges.extend(texts.filter_map(|text| {
                let (address, bits) = text.split_once('/')?;
                Some((address.parse().ok()?, bits.parse().ok().filter(|bits| *bits <= 32)?))
            }));
        }
    }
}

/// Opens what a listener needs.
async fn listen(
    shared: &Arc<Shared>,
    listener: Listener,
    target: Target,
) -> Result<Open, std::io::Error> {
    let (target, seen) = watch::channel(Arc::new(target));
    let network = &shared.network;
    let mut tasks = Vec::new();
    match listener {
        Listener::Service(address, port, Transport::Tcp) => {
            let socket = network.listen((address, port).into()).await?;
            tasks.push(carry::serve(Arc::clone(shared), listener, socket, seen));
        }
        Listener::Service(address, port, Transport::Udp) => {
            let socket = network.bind((address, port).into()).await?;
            tasks.push(datagrams::serve(Arc::clone(shared), listener, socket, seen));
        }
        Listener::Node(port, transport) => {
            let here = network.address().ok_or(std::io::ErrorKind::AddrNotAvailable)?;
            let machine = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            // The machine's first: somebody else may have it, and then neither is served.
            match transport {
                Transport::Tcp => {
                    let outside = tokio::net::TcpListener::bind(machine).await?;
                    let inside = network.listen((here, port).into()).await?;
                    for socket in [outside, inside] {
                        let seen = seen.clone();
                        tasks.push(carry::serve(Arc::clone(shared), listener, socket, seen));
                    }
                }
                Transport::Udp => {
                    let outside = tokio::net::UdpSocket::bind(machine).await?;
                    let inside = network.bind((here, port).into()).await?;
                    for socket in [outside, inside] {
                        let seen = seen.clone();
                        tasks.push(datagrams::serve(Arc::clone(shared), listener, socket, seen));
                    }
                }
            }
        }
    }
    Ok(Open { target, tasks })
}

/// The host and the port of a URL such as `https://127.0.0.1:6443`.
pub(crate) fn host_and_port(url: &str) -> Option<(String, u16)> {
    let uri: http::Uri = url.parse().ok()?;
    let host = uri.host()?.trim_matches(['[', ']']).to_owned();
    Some((host, uri.port_u16().unwrap_or(443)))
}

/// Whether nobody outside of a node may be dialled at an address on behalf of a pod (N24).
pub(crate) fn is_refused(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_unspecified()
                || v4.is_multicast()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.octets()[0] == 0
        }
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_refused(v4.into()),
            None => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || v6.is_unicast_link_local()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use super::*;

    #[test]
    fn n20_the_server_is_where_its_url_says() {
        let of = |url: &str| host_and_port(url).map(|(host, port)| format!("{host} {port}"));
        assert_eq!(of("https://127.0.0.1:6443"), Some("127.0.0.1 6443".to_owned()));
        assert_eq!(of("https://[::1]:6443/"), Some("::1 6443".to_owned()));
        assert_eq!(of("https://kube.example"), Some("kube.example 443".to_owned()));
        assert_eq!(of("/relative"), None);
    }

    #[test]
    fn n24_loopback_and_metadata_services_are_never_dialled_for_a_pod() {
        for refused in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
        ] {
            assert!(is_refused(refused.parse().unwrap()), "{refused}");
        }
        for open in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!is_refused(open.parse().unwrap()), "{open}");
        }
    }
}
