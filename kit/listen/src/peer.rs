//! Who is at the other end of a connection, and how many connections it has open.
//!
//! What comes in: addresses. What goes out: a [`Share`] for each connection, or none for a peer that has enough. This
//! machine itself, where a proxy may be, is not counted.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

impl Peer {
    /// The network that counts as one peer: an address, or for IPv6 the 64 bits that a host is given.
    pub fn network(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(_) => self.0,
            IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
                Some(v4) => IpAddr::V4(v4),
                None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            },
        }
    }
}

/// How many connections each peer has open.
pub(crate) type Peers = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// One connection in the count of its peer.
#[derive(Debug)]
pub(crate) struct Share {
    peers: Peers,
    of: IpAddr,
}

impl Share {
    pub(crate) fn take(peers: &Peers, peer: Peer, max: usize) -> Option<Self> {
        let of = peer.network();
        let mut open = peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(of).or_default();
        if *count >= max && !of.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Self {
            peers: Arc::clone(peers),
            of,
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut open = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.of);
            }
        }
    }
}
