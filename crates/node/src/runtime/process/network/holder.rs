//! The holder of a node's network: one process with one thread that owns the network namespace of the node
//! and those of its pods, makes devices and routes in them, and hands out sockets. It decides nothing.
//!
//! ```text
//!   user namespace, unless this is root
//!   └─ node network   lo = address of the node, range of Services
//!        └─ pod42 ══════ eth0   network of a pod
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::filter::{self, WayOut};
use super::links::{self, LOOPBACK, Lane, OF_POD};
use super::messages::{
    HolderOrder, HolderRecord, HolderRequest, HolderResponse, Place, PodPlace, SocketWanted,
};
use super::netlink::NetlinkSocket;
use super::{RECORD, sysctls};
use crate::runtime::process::raw::{self, Alone};
use crate::runtime::process::wire::{self, Inbox, Process};
use crate::runtime::process::{socket_name, state};

/// How often it looks whether its folder is still there.
const LOOK: Duration = Duration::from_secs(2);
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;
/// The number of the first device of the node; those of pods have small ones.
const FIRST_DEVICE: i32 = 100;

/// What went wrong, and at which step.
type Done<T> = Result<T, Refusal>;

/// Why something could not be done.
struct Refusal {
    message: String,
    code: Option<i32>,
}

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Refusal { message, code: None }
    }
}

fn at<T>(step: &str, done: Result<T, impl Into<io::Error>>) -> Done<T> {
    done.map_err(|error| {
        let error = error.into();
        Refusal { message: format!("{step}: {error}"), code: error.raw_os_error() }
    })
}

/// The whole life of a holder; `agent` began it.
pub(in super::super) fn live(_: Alone, agent: UnixStream, inbox: Inbox, order: HolderOrder) {
    match NetworkHolder::make(order) {
        Ok(mut holder) => {
            holder.connections.push((agent, inbox));
            holder.greet();
            holder.serve();
        }
        Err(Refusal { message, code }) => {
            let _ = wire::send(&agent, &HolderResponse::Failed { message, code }, &[]);
        }
    }
}

struct NetworkHolder {
    order: HolderOrder,
    record: HolderRecord,
    folder: std::fs::File,
    listener: UnixListener,
    connections: Vec<(UnixStream, Inbox)>,
    users: Option<OwnedFd>,
    home: OwnedFd,
    devices: NetlinkSocket,
    /// The packet filter, once it is there.
    filter: Option<NetlinkSocket>,
    /// Networks and addresses that are the node's own.
    ranges: Vec<(Ipv4Addr, u8)>,
    pods: BTreeMap<String, HeldPod>,
    next_device: i32,
    ended: bool,
}

struct HeldPod {
    namespace: OwnedFd,
    device: i32,
}

impl NetworkHolder {
    fn make(order: HolderOrder) -> Done<NetworkHolder> {
        raise_descriptors();
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if order.own_users {
            at("make a user namespace", raw::unshare(UnshareFlags::NEWUSER))?;
            let write = |file: &str, text: String| {
                at("give the namespace its user", std::fs::write(file, text))
            };
            write("/proc/self/setgroups", "deny".to_owned())?;
            write("/proc/self/uid_map", format!("0 {} 1", uid.as_raw()))?;
            write("/proc/self/gid_map", format!("0 {} 1", gid.as_raw()))?;
        }
        let users = order.own_users.then(|| open("/proc/self/ns/user"));
        let users = at("hold the user namespace", users.transpose())?;
        at("make the network of the node", raw::unshare(UnshareFlags::NEWNET))?;
        let home = at("hold the network of the node", open("/proc/self/ns/net"))?;
        let mut devices = at("ask for devices", NetlinkSocket::open(None))?;
        sysctls::of_node(order.own_users)?;
        devices.carry_out(&[("switch on lo of the node", links::switch_on(LOOPBACK))])?;
        let folder = at("open the folder", std::fs::File::open(&order.folder))?;
        let listener = at("listen", listen(&folder))?;
        let process = Process::of(rustix::process::getpid().as_raw_nonzero().get());
        let process = at("look at this process", process)?;
        let record = HolderRecord { instance: order.instance.clone(), process };
        at("write the record", state::save(&order.folder.join(RECORD), &record))?;
        Ok(NetworkHolder {
            order,
            record,
            folder,
            listener,
            connections: Vec::new(),
            users,
            home,
            devices,
            filter: None,
            ranges: Vec::new(),
            pods: BTreeMap::new(),
            next_device: FIRST_DEVICE,
            ended: false,
        })
    }

    /// Tells whoever began it that it is there.
    fn greet(&mut self) {
        if let Some((socket, _)) = self.connections.first() {
            let _ = wire::send(socket, &HolderResponse::Done(0), &[]);
        }
    }

    fn serve(&mut self) {
        while !self.ended {
            let mut polled = vec![PollFd::new(&self.listener, PollFlags::IN)];
            let sockets = self.connections.iter();
            polled.extend(sockets.map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
            if rustix::event::poll(&mut polled, LOOK.try_into().ok().as_ref()).is_err() {
                continue;
            }
            let ready: Vec<bool> =
                polled.iter().map(|polled| !polled.revents().is_empty()).collect();
            drop(polled);
            for index in (0..self.connections.len()).rev() {
                if ready.get(index + 1) == Some(&true) && !self.hear(index) {
                    self.connections.remove(index);
                }
            }
            if ready.first() == Some(&true)
                && let Ok((socket, _)) = self.listener.accept()
            {
                self.connections.push((socket, Inbox::default()));
            }
            let alone = self.order.ends_with_agent && self.connections.is_empty();
            // Without its folder nobody will ever find it again.
            let gone = rustix::fs::fstat(&self.folder).is_ok_and(|seen| seen.st_nlink == 0);
            self.ended |= alone || gone;
        }
        let _ = std::fs::remove_file(self.order.folder.join(RECORD));
    }

    /// Hears what a connection asks; `false` when it is gone.
    fn hear(&mut self, index: usize) -> bool {
        let Some((socket, inbox)) = self.connections.get_mut(index) else { return false };
        if !matches!(inbox.fill(&*socket), Ok(true)) {
            return false;
        }
        loop {
            let Some((_, inbox)) = self.connections.get_mut(index) else { return false };
            let request = match inbox.next::<HolderRequest>() {
                Ok(Some(request)) => request,
                Ok(None) => return true,
                Err(_) => return false,
            };
            let (response, given) = match self.answer(request) {
                Ok(answered) => answered,
                Err(Refusal { message, code }) => {
                    (HolderResponse::Failed { message, code }, Vec::new())
                }
            };
            let descriptors: Vec<BorrowedFd<'_>> = given.iter().map(|one| one.as_fd()).collect();
            let Some((socket, _)) = self.connections.get(index) else { return false };
            if wire::send(socket, &response, &descriptors).is_err() {
                return false;
            }
        }
    }

    fn answer(&mut self, request: HolderRequest) -> Done<(HolderResponse, Vec<OwnedFd>)> {
        let given = match request {
            HolderRequest::Hello => return self.hello(),
            HolderRequest::Address(address) => {
                let step = links::address(LOOPBACK, address);
                self.devices.carry_out(&[("give the node its address", step)])?;
                if let Some(filter) = &mut self.filter {
                    filter::leave_alone(filter, (address, 32))?;
                }
                self.ranges.push((address, 32));
                None
            }
            HolderRequest::Range(network, bits) => {
                let step = links::route((network, bits), LOOPBACK, Lane::Here, None);
                self.devices.carry_out(&[("take packets for Services", step)])?;
                if let Some(filter) = &mut self.filter {
                    filter::leave_alone(filter, (network, bits))?;
                }
                self.ranges.push((network, bits));
                None
            }
            HolderRequest::WayOut(tcp, udp) => {
                self.way_out(WayOut { tcp, udp })?;
                None
            }
            HolderRequest::Add(place) => Some(self.add(&place)?),
            HolderRequest::Find(id) => match self.pods.get(&id) {
                Some(pod) => Some(at("hold the pod's network", copy(&pod.namespace))?),
                None => return Err(format!("find the pod's network: none is {id:.12}").into()),
            },
            HolderRequest::Remove(id) => {
                if let Some(pod) = self.pods.remove(&id) {
                    // Gone already if the pod's namespace is.
                    let step = ("take the devices away", links::remove(pod.device));
                    let _ = self.devices.carry_out(&[step]);
                }
                None
            }
            HolderRequest::Socket(wanted) => Some(self.socket(&wanted)?),
            HolderRequest::End => {
                self.ended = true;
                None
            }
        };
        Ok((HolderResponse::Done(usize::from(given.is_some())), given.into_iter().collect()))
    }

    /// Brings what leaves the node to its listeners: every address that is nobody's becomes the node's own, and
    /// the filter hands over what comes for it.
    fn way_out(&mut self, way: WayOut) -> Done<()> {
        let mut own = vec![(Ipv4Addr::LOCALHOST, 8), super::OF_PODS];
        own.extend(&self.ranges);
        let socket = NetlinkSocket::open(Some(rustix::net::netlink::NETFILTER));
        let mut filter = at("ask for a packet filter", socket)?;
        // A filter of an earlier agent sends to listeners that are gone.
        filter::clear(&mut filter);
        self.filter = None;
        filter::write(&mut filter, &own, way)?;
        self.filter = Some(filter);
        let anywhere = (Ipv4Addr::UNSPECIFIED, 0);
        let step = links::route(anywhere, LOOPBACK, Lane::Out, None);
        self.devices.carry_out(&[("take packets that leave", step)])?;
        Ok(())
    }

    fn hello(&self) -> Done<(HolderResponse, Vec<OwnedFd>)> {
        let held = self.users.iter().chain([&self.home]).map(copy).collect::<io::Result<Vec<_>>>();
        let response = HolderResponse::Here {
            record: self.record.clone(),
            users: self.users.is_some(),
            pods: self.pods.keys().cloned().collect(),
        };
        Ok((response, at("hold the namespaces", held)?))
    }

    /// Makes the network of a pod; nothing of it stays if a step fails (N48).
    fn add(&mut self, place: &PodPlace) -> Done<OwnedFd> {
        if let Some(pod) = self.pods.get(&place.id) {
            return at("hold the pod's network", copy(&pod.namespace));
        }
        let (namespace, inside) = self.namespace()?;
        let device = self.next_device;
        self.next_device = device.checked_add(1).unwrap_or(FIRST_DEVICE);
        let pair = links::pair(&format!("pod{device}"), device, "eth0", namespace.as_fd());
        self.devices.carry_out(&[("make the pod's devices", pair)])?;
        let given = at("hold the pod's network", copy(&namespace));
        let given = given.and_then(|given| {
            self.connect(place, device, inside)?;
            Ok(given)
        });
        match given {
            Ok(given) => {
                self.pods.insert(place.id.clone(), HeldPod { namespace, device });
                Ok(given)
            }
            Err(refusal) => {
                let step = ("take the devices away", links::remove(device));
                let _ = self.devices.carry_out(&[step]);
                Err(refusal)
            }
        }
    }

    fn connect(&mut self, place: &PodPlace, device: i32, mut inside: NetlinkSocket) -> Done<()> {
        let PodPlace { address, gateway, .. } = *place;
        let anywhere = (Ipv4Addr::UNSPECIFIED, 0);
        let up = links::switch_on;
        inside.carry_out(&[
            ("switch on the pod's lo", up(LOOPBACK)),
            ("give the pod its address", links::address(OF_POD, address)),
            ("switch on the pod's device", up(OF_POD)),
            (
                "write the pod's route to the node",
                links::route((gateway, 32), OF_POD, Lane::Neighbour, None),
            ),
            (
                "write the pod's default route",
                links::route(anywhere, OF_POD, Lane::Gateway(gateway), Some(address)),
            ),
        ])?;
        // Of all its addresses the node speaks from the one that its pods know.
        let from = self.ranges.contains(&(gateway, 32)).then_some(gateway);
        let route = links::route((address, 32), device, Lane::Neighbour, from);
        self.devices.carry_out(&[
            ("switch on the node's device", up(device)),
            ("write the node's route to the pod", route),
        ])?;
        Ok(())
    }

    /// A new namespace with its settings, and a conversation about its devices.
    fn namespace(&self) -> Done<(OwnedFd, NetlinkSocket)> {
        at("make the pod's network", raw::unshare(UnshareFlags::NEWNET))?;
        let made = sysctls::of_pod(self.order.own_users).map_err(Refusal::from).and_then(|()| {
            let namespace = at("hold the pod's network", open("/proc/self/ns/net"))?;
            Ok((namespace, at("ask for the pod's devices", NetlinkSocket::open(None))?))
        });
        self.come_home();
        made
    }

    /// Back to the node's network. Whoever stayed in a pod's would mistake it for the node's from then on.
    fn come_home(&self) {
        let kind = Some(LinkNameSpaceType::Network);
        if rustix::thread::move_into_link_name_space(self.home.as_fd(), kind).is_err() {
            raw::exit(1);
        }
    }

    fn socket(&self, wanted: &SocketWanted) -> Done<OwnedFd> {
        let pod = match &wanted.place {
            Place::Node => return socket(wanted),
            Place::Pod(id) => self.pods.get(id),
        };
        let pod = pod.ok_or_else(|| "enter the pod's network: it is gone".to_owned())?;
        let kind = Some(LinkNameSpaceType::Network);
        let entered = rustix::thread::move_into_link_name_space(pod.namespace.as_fd(), kind);
        at("enter the pod's network", entered)?;
        let made = socket(wanted);
        self.come_home();
        made
    }
}

fn socket(wanted: &SocketWanted) -> Done<OwnedFd> {
    let family = if wanted.v6 { AddressFamily::INET6 } else { AddressFamily::INET };
    let kind = if wanted.datagrams { SocketType::DGRAM } else { SocketType::STREAM };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let made = at("make a socket", rustix::net::socket_with(family, kind, flags, None))?;
    if wanted.transparent {
        at("make the socket transparent", raw::set_transparent(&made))?;
    }
    let Some(address) = wanted.bound else { return Ok(made) };
    if !wanted.datagrams {
        at("share the address", rustix::net::sockopt::set_socket_reuseaddr(&made, true))?;
    }
    bind(&made, address)?;
    if !wanted.datagrams {
        at("listen", rustix::net::listen(&made, BACKLOG))?;
    }
    Ok(made)
}

fn bind(socket: &OwnedFd, address: SocketAddr) -> Done<()> {
    at(&format!("take {address}"), rustix::net::bind(socket, &address))
}

fn open(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn copy(held: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(held, 3)?)
}

fn listen(folder: &std::fs::File) -> io::Result<UnixListener> {
    let place = socket_name(folder);
    let _ = std::fs::remove_file(&place);
    let listener = UnixListener::bind(place)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Each pod holds one, each listener another (N41).
fn raise_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = rustix::process::setrlimit(Resource::Nofile, raised);
}
