//! Orders that were carried out, each with the keys that signed it, and those that no longer count.
//!
//! What comes in: an order as it is recorded, and the metadata and index of a newer bundle. What goes out:
//! the orders whose key the fleet took away since and that the newer bundle does not repeat. They are
//! undone as far as a site can be bound by them: it installs again, it follows its stream again, and the
//! numbers that they used up are free. Keys that a site made by order stay: the centre is asked for them.

use std::collections::BTreeSet;

use outhaul_bundle::index::{Index, Stream};
use outhaul_bundle::name::Name;
use outhaul_bundle::{Instruction, Order};
use outhaul_signer::TrustedMetadata;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{Approved, OrderEffect, order_report};
use crate::agent::Agent;
use crate::error::AgentError;
use crate::offer::Offer;
use crate::state::{self, StateError, key, outbox};

/// Most orders that are remembered one by one; older ones stand.
const MAX_REMEMBERED: usize = 200;

/// What is remembered of orders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExecutedOrders {
    /// Orders up to this number stand, whoever signed them.
    base: u64,
    orders: Vec<ExecutedOrder>,
    /// The last order to move, until a bundle of the new stream came.
    pub(crate) moved: Option<PendingMove>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ExecutedOrder {
    order: Order,
    /// The stream whose bundle brought it.
    role: Name,
    /// The keys that signed that stream's metadata.
    keys: BTreeSet<String>,
}

/// Where a site comes from that was asked to move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingMove {
    pub(crate) from: Stream,
    pub(crate) order: Order,
    keys: BTreeSet<String>,
}

impl ExecutedOrders {
    pub(crate) fn load(db: &Connection) -> Result<Self, StateError> {
        if let Some(carried) = state::meta(db, key::CARRIED)? {
            return Ok(carried);
        }
        let base = state::meta(db, key::ORDERS)?.unwrap_or(0);
        Ok(Self {
            base,
            ..Self::default()
        })
    }

    /// Adds an order that the stream `from` brought.
    pub(super) fn add(&mut self, order: &Order, from: &Stream, trusted: &TrustedMetadata) {
        let keys = trusted.stream_signers(from.role.as_str());
        if matches!(order.what, Instruction::Move { .. }) {
            self.moved = Some(PendingMove {
                from: from.clone(),
                order: order.clone(),
                keys: keys.clone(),
            });
        }
        self.orders.push(ExecutedOrder {
            order: order.clone(),
            role: from.role.clone(),
            keys,
        });
        while self.orders.len() > MAX_REMEMBERED {
            self.base = self.base.max(self.orders.remove(0).order.number);
        }
    }

    /// The number of the last order that counts.
    fn last(&self) -> u64 {
        let numbers = self.orders.iter().map(|one| one.order.number);
        numbers.max().unwrap_or(0).max(self.base)
    }

    /// Takes out the orders of a key that the stream has no more, except those that `index` repeats: these
    /// count by the keys that signed it.
    fn take_cancelled(&mut self, index: &Index, trusted: &TrustedMetadata) -> Vec<Order> {
        let role = &index.stream.role;
        let Some(now) = trusted.stream_keys(role.as_str()) else {
            return Vec::new();
        };
        let signers = trusted.stream_signers(role.as_str());
        let mut cancelled = Vec::new();
        self.orders.retain_mut(|one| {
            if one.role != *role || one.keys.is_subset(&now) {
                return true;
            }
            if index.orders.contains(&one.order) {
                one.keys.clone_from(&signers);
                return true;
            }
            cancelled.push(one.order.clone());
            false
        });
        cancelled
    }
}

impl PendingMove {
    /// Whether the order to move does not count by what `trusted` says: its key was taken away, or the
    /// stream that it names is none of the fleet's any more.
    fn is_void(&self, trusted: &TrustedMetadata) -> bool {
        let Instruction::Move { to, .. } = &self.order.what else {
            return false;
        };
        let now = trusted.stream_keys(self.from.role.as_str());
        let signed = now.is_some_and(|now| self.keys.is_subset(&now));
        !signed || trusted.stream_keys(to.role.as_str()).is_none()
    }
}

/// The stream that this site was asked to leave and from which no bundle of the new one has freed it.
pub(crate) fn moved(db: &Connection) -> Result<Option<PendingMove>, AgentError> {
    Ok(ExecutedOrders::load(db)?.moved)
}

/// Undoes orders whose key the fleet took away since, as far as this verified index does not repeat
/// them.
pub(crate) fn drop_void_orders(
    agent: &mut Agent,
    index: &Index,
    offer: &Offer,
) -> Result<(), AgentError> {
    let mut carried = ExecutedOrders::load(agent.store.read())?;
    let before = carried.clone();
    let cancelled = carried.take_cancelled(index, &offer.acceptance.trusted);
    if carried == before {
        return Ok(());
    }
    undo(agent, &carried, &cancelled, None)
}

/// Whether a bundle of the stream that this site was asked to leave may take it back, and then does: the
/// order to move does not count any more, and the bundle does not repeat it.
pub(crate) fn take_back_move(
    agent: &mut Agent,
    moved: &PendingMove,
    index: &Index,
    offer: &Offer,
) -> Result<bool, AgentError> {
    let trusted = &offer.acceptance.trusted;
    if index.orders.contains(&moved.order) || !moved.is_void(trusted) {
        return Ok(false);
    }
    let mut carried = ExecutedOrders::load(agent.store.read())?;
    let mut cancelled = carried.take_cancelled(index, trusted);
    if !cancelled.contains(&moved.order) {
        carried.orders.retain(|one| one.order != moved.order);
        cancelled.push(moved.order.clone());
    }
    carried.moved = None;
    undo(agent, &carried, &cancelled, Some(moved.from.clone()))?;
    Ok(true)
}

fn undo(
    agent: &mut Agent,
    carried: &ExecutedOrders,
    cancelled: &[Order],
    stream: Option<Stream>,
) -> Result<(), AgentError> {
    let mut site = agent.site.clone();
    if let Some(stream) = stream {
        site.stream = stream;
    }
    let own = agent.key.public().id();
    agent.commit(|db, author| {
        state::set_meta(db, key::CARRIED, Some(carried))?;
        state::set_meta(db, key::ORDERS, Some(&carried.last()))?;
        state::set_meta(db, key::SITE, Some(&site))?;
        let revoked: Option<u64> = state::meta(db, key::REVOKED)?;
        let approved: Option<Approved> = state::meta(db, key::APPROVED)?;
        for order in cancelled {
            match &order.what {
                Instruction::Revoke if revoked == Some(order.number) => {
                    state::set_meta::<u64>(db, key::REVOKED, None)?;
                }
                Instruction::Approve { key: other }
                    if other.hex() != own
                        && approved.as_ref().is_some_and(|a| a.key == other.hex()) =>
                {
                    state::set_meta::<Approved>(db, key::APPROVED, None)?;
                }
                _ => {}
            }
            let change = OrderEffect {
                refused: true,
                ..OrderEffect::with_message(
                    "it does not count any more: the fleet took away the key that signed it, and its \
                     newer bundle does not repeat it"
                        .to_owned(),
                )
            };
            outbox::queue(db, author, order_report(order, &change))?;
            tracing::warn!(
                number = order.number,
                "order `{}`: {}",
                order.what.as_str(),
                change.message
            );
        }
        Ok::<_, StateError>(())
    })
    .map_err(AgentError::from)?;
    agent.site = site;
    Ok(())
}

/// A bundle of the stream that this site was moved to came: the order has shown that it leads somewhere.
pub(crate) fn arrived(db: &Connection) -> Result<(), StateError> {
    let mut carried = ExecutedOrders::load(db)?;
    if carried.moved.take().is_some() {
        state::set_meta(db, key::CARRIED, Some(&carried))?;
    }
    Ok(())
}
