//! Lanes: room for the bodies of requests, so that slow or greedy peers keep nobody out.
//!
//! What comes in: a peer that begins to send a body, and each piece of it. What goes out: room at once, for
//! anybody. When a lane is full, a body gives way: of the peer that holds most of the lane, the one that
//! has been idle for longest. A body that flows is therefore never kept waiting by bodies that do not, nor
//! one peer by another that opens many. Each kind of request has a separate lane.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Peer;
use tokio::sync::Notify;

/// Room for the bodies of one kind of request.
#[derive(Debug)]
pub struct Lane {
    max_bodies: usize,
    max_bytes: usize,
    held: Mutex<HeldBodies>,
}

/// How full a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneLoad {
    /// Bodies that have room.
    pub bodies: usize,
    /// Their bytes so far.
    pub bytes: usize,
    /// Most bodies.
    pub max_bodies: usize,
    /// Most bytes of all bodies together.
    pub max_bytes: usize,
}

#[derive(Debug, Default)]
struct HeldBodies {
    next: u64,
    /// Counts pieces that came: the larger, the later.
    tick: u64,
    bodies: BTreeMap<u64, Body>,
}

#[derive(Debug)]
struct Body {
    peer: IpAddr,
    bytes: usize,
    last: u64,
    gone: Arc<Notify>,
}

/// The room of one body; given back when dropped.
#[derive(Debug)]
pub struct LanePlace {
    lane: Arc<Lane>,
    id: u64,
    gone: Arc<Notify>,
}

impl Lane {
    /// A lane for so many bodies, of so many bytes together.
    pub fn new(max_bodies: usize, max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_bodies,
            max_bytes,
            held: Mutex::default(),
        })
    }

    /// How full it is.
    pub fn load(&self) -> LaneLoad {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        LaneLoad {
            bodies: held.bodies.len(),
            bytes: held.bodies.values().map(|body| body.bytes).sum(),
            max_bodies: self.max_bodies,
            max_bytes: self.max_bytes,
        }
    }

    /// Room for a body of `peer`, at once.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> LanePlace {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.bodies.len() >= self.max_bodies {
            held.give_way(|_| 1, None);
        }
        held.next += 1;
        held.tick += 1;
        let (id, last) = (held.next, held.tick);
        let gone = Arc::new(Notify::new());
        let body = Body {
            peer: Peer(peer).network(),
            bytes: 0,
            last,
            gone: Arc::clone(&gone),
        };
        held.bodies.insert(id, body);
        LanePlace {
            lane: Arc::clone(self),
            id,
            gone,
        }
    }
}

impl LanePlace {
    /// Counts a piece of `bytes` that came. `false` when this body had to give way.
    pub fn grow(&self, bytes: usize) -> bool {
        let lane = &self.lane;
        let mut held = lane.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.tick += 1;
        let last = held.tick;
        let Some(body) = held.bodies.get_mut(&self.id) else {
            return false;
        };
        body.bytes += bytes;
        body.last = last;
        while held.bodies.values().map(|body| body.bytes).sum::<usize>() > lane.max_bytes {
            held.give_way(|body| body.bytes, Some(self.id));
        }
        held.bodies.contains_key(&self.id)
    }

    /// Returns when this body has to give way.
    pub async fn gone(&self) {
        self.gone.notified().await;
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        let mut held = self
            .lane
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        held.bodies.remove(&self.id);
    }
}

impl HeldBodies {
    /// Takes the room of one body of the peer that holds most by `share`: the idlest, and the one that
    /// asks only when it is the last that holds anything.
    fn give_way(&mut self, share: impl Fn(&Body) -> usize, asks: Option<u64>) {
        let mut shares: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for body in self.bodies.values() {
            *shares.entry(body.peer).or_default() += share(body);
        }
        let Some((&peer, _)) = shares.iter().max_by_key(|(_, share)| **share) else {
            return;
        };
        let of_peer = self
            .bodies
            .iter()
            .filter(|(_, body)| body.peer == peer && share(body) > 0);
        let idlest = of_peer.min_by_key(|(id, body)| (asks == Some(**id), body.last));
        let Some(id) = idlest.map(|(id, _)| *id) else {
            return;
        };
        if let Some(body) = self.bodies.remove(&id) {
            // One permit is stored, so that it does not matter who comes first.
            body.gone.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn the_idlest_body_of_the_greediest_peer_gives_way() {
        let lane = Lane::new(3, 1000);
        let (first, second, other) = (
            lane.enter(peer(1)),
            lane.enter(peer(1)),
            lane.enter(peer(2)),
        );
        assert!(first.grow(10), "now the second is the idlest");
        let late = lane.enter(peer(3));
        assert!(!second.grow(1), "it gave way");
        assert!(first.grow(1) && other.grow(1) && late.grow(1));
    }

    #[test]
    fn a_peer_alone_gives_way_to_itself() {
        let lane = Lane::new(2, 1000);
        let stuck: Vec<_> = (0..2).map(|_| lane.enter(peer(1))).collect();
        let flows = lane.enter(peer(1));
        assert!(flows.grow(10));
        assert!(!stuck[0].grow(1) && stuck[1].grow(1));
    }

    #[test]
    fn bytes_are_bounded_over_all_bodies() {
        let lane = Lane::new(10, 100);
        let (greedy, honest) = (lane.enter(peer(1)), lane.enter(peer(2)));
        assert!(greedy.grow(60) && honest.grow(30));
        assert!(honest.grow(20), "the greedier one gives way");
        assert!(!greedy.grow(1));
        assert!(!honest.grow(60), "nobody else is left");
    }

    #[test]
    fn room_comes_back_and_hosts_of_one_network_are_one_peer() {
        let lane = Lane::new(1, 100);
        drop(lane.enter(peer(1)));
        assert!(lane.held.lock().unwrap().bodies.is_empty());
        let (one, other): (IpAddr, IpAddr) = (
            "2001:db8::1".parse().unwrap(),
            "2001:db8::2:3".parse().unwrap(),
        );
        assert_eq!(Peer(one).network(), Peer(other).network());
        assert_eq!(Peer("::ffff:10.0.0.1".parse().unwrap()).network(), peer(1));
    }
}
