//! Which endpoint a connection goes to: any of them, or the one that the client was given before (N13, N15).

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use super::table::{Listener, Target};
use crate::{clock, random};

/// How many endpoints are tried before a client is turned away.
pub(super) const TRIES: usize = 3;
/// How many clients are remembered; beyond that, those whose time is over are forgotten, then all.
const CLIENTS_MAX: usize = 65_536;

/// Who was given to whom.
#[derive(Debug, Default)]
pub(super) struct Affinities {
    clients: Mutex<HashMap<(Listener, IpAddr), (SocketAddr, Instant)>>,
}

impl Affinities {
    /// Endpoints in the order in which they are tried.
    pub(super) fn order(
        &self,
        listener: Listener,
        target: &Target,
        endpoints: &[SocketAddr],
        client: IpAddr,
    ) -> Vec<SocketAddr> {
        let mut order = shuffled(endpoints);
        if let Some(time) = target.affinity {
            let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            let known = clients.get(&(listener, client));
            let lasting =
                known.filter(|(_, since)| since.elapsed() < time).map(|(known, _)| *known);
            if let Some(place) =
                lasting.and_then(|known| order.iter().position(|one| *one == known))
            {
                order.swap(0, place);
            }
        }
        order.truncate(TRIES);
        order
    }

    /// The client was given this endpoint, and keeps it.
    pub(super) fn given(
        &self,
        listener: Listener,
        target: &Target,
        client: IpAddr,
        to: SocketAddr,
    ) {
        let Some(time) = target.affinity else { return };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS_MAX {
            clients.retain(|_, (_, since)| since.elapsed() < time);
        }
        if clients.len() >= CLIENTS_MAX {
            clients.clear();
        }
        clients.insert((listener, client), (to, clock::instant()));
    }
}

/// All of them, in an order that nobody can foresee.
fn shuffled(endpoints: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut order = endpoints.to_vec();
    for last in (1..order.len()).rev() {
        let place = below(last + 1);
        order.swap(last, place);
    }
    order
}

/// A number below another, which is not zero.
fn below(limit: usize) -> usize {
    static KEYS: LazyLock<std::hash::RandomState> = LazyLock::new(random::hasher);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mixed = KEYS.hash_one(COUNT.fetch_add(1, Ordering::Relaxed));
    usize::try_from(mixed % u64::try_from(limit.max(1)).unwrap_or(1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/laptop.md.
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::super::table::{Backends, Transport};
    use super::*;

    const AT: Listener = Listener::Service(Ipv4Addr::new(10, 96, 0, 7), 80, Transport::Tcp);

    fn target(affinity: Option<Duration>) -> Target {
        let service = ("shop".to_owned(), "web".to_owned());
        Target { service, uid: String::new(), backends: Backends::Server, affinity }
    }

    fn endpoints(count: u8) -> Vec<SocketAddr> {
        (0..count).map(|last| SocketAddr::from(([10, 244, 0, last], 80))).collect()
    }

    #[test]
    fn n13_every_endpoint_has_its_share_and_three_are_tried() {
        let (all, none) = (endpoints(5), Affinities::default());
        let client = IpAddr::from([10, 244, 0, 99]);
        let mut firsts: BTreeMap<SocketAddr, usize> = BTreeMap::new();
        for _ in 0..5000 {
            let order = none.order(AT, &target(None), &all, client);
            assert_eq!(order.len(), TRIES);
            assert!(order[0] != order[1] && order[1] != order[2] && order[0] != order[2]);
            *firsts.entry(order[0]).or_default() += 1;
        }
        assert!(
            firsts.len() == 5 && firsts.values().all(|count| (800..1200).contains(count)),
            "{firsts:?}"
        );
        assert_eq!(none.order(AT, &target(None), &all[..1], client), all[..1]);
    }

    #[test]
    fn n15_a_client_stays_with_its_endpoint_until_that_is_gone_or_the_time_is_over() {
        let (all, known) = (endpoints(9), Affinities::default());
        let client = IpAddr::from([10, 244, 0, 99]);
        let lasting = target(Some(Duration::from_secs(60)));
        known.given(AT, &lasting, client, all[4]);
        for _ in 0..50 {
            assert_eq!(known.order(AT, &lasting, &all, client)[0], all[4]);
        }
        assert!(!known.order(AT, &lasting, &all[..4], client).contains(&all[4]));
        let over = target(Some(Duration::ZERO));
        let strays = (0..200).any(|_| known.order(AT, &over, &all, client)[0] != all[4]);
        assert!(strays, "its time is over");
        let other =
            (0..200).any(|_| known.order(AT, &lasting, &all, [10, 244, 0, 98].into())[0] != all[4]);
        assert!(other, "another client");
    }
}
