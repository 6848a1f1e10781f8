//! Signed orders: the centre's orders to this very site, read from the index of a verified bundle.
//!
//! What comes in: an index that the metadata lists. What goes out: a new key, another stream, a site
//! that installs nothing new, or that its key is approved; each once, with a report in the
//! transaction of the change. Orders for other sites and for earlier enrolments are not looked at. No
//! order stops what runs. A revocation acts as soon as metadata and index hold; every other order only
//! when the whole bundle was verified. docs/internals/agent.md has the table.

use outhaul_bundle::index::{Index, Stream};
use outhaul_bundle::order::{Instruction, Order};
use outhaul_bundle::report;
use outhaul_bundle::report::ReportEvent;
use serde::{Deserialize, Serialize};

use rusqlite::Connection;

use crate::agent::Agent;
use crate::cut;
use crate::error::AgentError;
use crate::keys::{self, NextKeys};
use crate::machine::State;
use crate::offer::{ImportOutcome, Offer, accept_metadata};
use crate::rehearsal::PlannedOrder;
use crate::request::{Asking, write_request};
use crate::roots;
use crate::runner::approval;
use crate::state::generations::is_taken_back;
use crate::state::{self, StateError, floors, generations, key, outbox};

pub(crate) mod executed;

use executed::ExecutedOrders;

/// What the centre said of a key of this site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// The id of the approved key.
    pub key: String,
}

/// Where this site's enrolment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnrolmentStatus {
    /// The centre or the hub knows this site's key.
    Approved,
    /// Another key was approved under this site's name.
    OtherKeyApproved,
    /// The request has not been answered yet.
    Requested,
    /// The centre revoked this site.
    Revoked,
}

/// What an order changed, for the transaction that records it.
struct OrderEffect {
    message: String,
    stream: Option<Stream>,
    next: Option<NextKeys>,
    refused: bool,
}

impl OrderEffect {
    fn with_message(message: String) -> Self {
        Self {
            message,
            stream: None,
            next: None,
            refused: false,
        }
    }
}

/// Revokes this site when the index says so: the one order for which the rest of the bundle need not be
/// whole. Floors and metadata stay as they were.
///
/// # Errors
/// [`AgentError`] of the store; an order that was not recorded is done again.
pub fn execute_revocation(
    agent: &mut Agent,
    index: &Index,
    offer: &Offer,
) -> Result<Option<ImportOutcome>, AgentError> {
    let orders = orders_of(agent, index)?;
    let revocation = orders
        .into_iter()
        .find(|order| order.what == Instruction::Revoke);
    let Some(order) = revocation else {
        return Ok(None);
    };
    let change = carry_out(agent, order, offer)?;
    let note = change.message.clone();
    record(agent, order, change, offer)?;
    let number = index.number;
    Ok(Some(ImportOutcome::Ordered { number, note }))
}

/// Carries out what the index of a bundle that was verified whole orders this site. `Some` when nothing
/// else of the bundle is for this site any more.
///
/// # Errors
/// [`AgentError`] of the store or the state folder; orders that were not recorded are done again.
pub fn execute(
    agent: &mut Agent,
    index: &Index,
    offer: &Offer,
) -> Result<Option<ImportOutcome>, AgentError> {
    for order in orders_of(agent, index)? {
        let change = carry_out(agent, order, offer)?;
        let ends = change.stream.is_some();
        let note = change.message.clone();
        record(agent, order, change, offer)?;
        if ends {
            let number = index.number;
            return Ok(Some(ImportOutcome::Ordered { number, note }));
        }
    }
    Ok(None)
}

/// Orders for this very enrolment that were not carried out yet, in their order.
pub(crate) fn orders_of<'a>(agent: &Agent, index: &'a Index) -> Result<Vec<&'a Order>, AgentError> {
    let done: u64 = state::meta(agent.store.read(), key::ORDERS)?.unwrap_or(0);
    let is_mine = |order: &&Order| {
        order.site == agent.site.name
            && Some(order.enrolment) == agent.site.enrolment
            && order.number > done
    };
    let mut mine: Vec<&Order> = index.orders.iter().filter(is_mine).collect();
    mine.sort_unstable_by_key(|order| order.number);
    Ok(mine)
}

/// What a revoked site says to whatever comes.
pub(crate) fn refuse_if_revoked(db: &Connection, name: &str) -> Result<(), AgentError> {
    match state::meta::<u64>(db, key::REVOKED)? {
        None => Ok(()),
        Some(number) => {
            let message = format!(
                "this site was revoked by order {number} and installs nothing new; the running bundle is not affected"
            );
            Err(AgentError::refused(name, "revoked", message))
        }
    }
}

/// Where this site's enrolment stands.
///
/// # Errors
/// [`AgentError`] of the store.
pub fn enrolment(agent: &Agent) -> Result<EnrolmentStatus, AgentError> {
    let db = agent.store.read();
    if state::meta::<u64>(db, key::REVOKED)?.is_some() {
        return Ok(EnrolmentStatus::Revoked);
    }
    let approved: Option<Approved> = state::meta(db, key::APPROVED)?;
    let former: Vec<String> = state::meta(db, key::FORMER_KEYS)?.unwrap_or_default();
    let own = agent.key.public().id();
    Ok(match approved {
        Some(approved) if approved.key == own => EnrolmentStatus::Approved,
        Some(approved) if former.contains(&approved.key) => {
            if request_waits(agent.store.read())? {
                EnrolmentStatus::Requested
            } else {
                EnrolmentStatus::Approved
            }
        }
        Some(_) => EnrolmentStatus::OtherKeyApproved,
        // A hub acknowledges only what a key that it knows has signed.
        None if !request_waits(agent.store.read())? => EnrolmentStatus::Approved,
        None => EnrolmentStatus::Requested,
    })
}

/// Whether sticks bring the request home: until the hub knows this site's key, and until the centre, too,
/// does. The centre seals for it, and accepts no report of a key that it does not know.
pub(crate) fn request_travels(agent: &Agent) -> Result<bool, AgentError> {
    let db = agent.store.read();
    let approved: Option<Approved> = state::meta(db, key::APPROVED)?;
    let approved = approved.is_some_and(|approved| approved.key == agent.key.public().id());
    Ok(request_waits(agent.store.read())? || !approved)
}

/// Whether the hub has not shown yet that it knows this site's key.
pub(crate) fn request_waits(db: &Connection) -> Result<bool, AgentError> {
    let until: u64 = state::meta(db, key::REQUEST_UNTIL)?.unwrap_or(1);
    Ok(outbox::cursor(db)?.acknowledged < until)
}

/// What carrying an order out would come to, on a copied memory.
pub(crate) fn rehearse(
    agent: &mut Agent,
    order: &Order,
    offer: &Offer,
) -> Result<PlannedOrder, AgentError> {
    let change = match order.what {
        Instruction::Rekey => OrderEffect::with_message(
            "it makes itself new keys, one to sign with and one for what is sealed for it; the request for both is sent with the next reports"
                .to_owned(),
        ),
        _ => carry_out(agent, order, offer)?,
    };
    Ok(PlannedOrder {
        number: order.number,
        what: order.what.as_str(),
        message: change.message,
        refused: change.refused,
        ends: change.stream.is_some() || order.what == Instruction::Revoke,
    })
}

/// Everything of an order that comes before its transaction.
fn carry_out(agent: &mut Agent, order: &Order, offer: &Offer) -> Result<OrderEffect, AgentError> {
    let own = agent.key.public().id();
    let former: Vec<String> =
        state::meta(agent.store.read(), key::FORMER_KEYS)?.unwrap_or_default();
    Ok(match &order.what {
        Instruction::Approve { key } if key.hex() == own => {
            OrderEffect::with_message("the centre approved this site".to_owned())
        }
        // It was asked for before this site made the key that it has now.
        Instruction::Approve { key } if former.contains(&key.hex()) => {
            OrderEffect::with_message(format!(
                "this site's earlier key {:.12} is approved; its present key {own:.12} is asked for",
                key.hex()
            ))
        }
        Instruction::Approve { key } => OrderEffect {
            refused: true,
            ..OrderEffect::with_message(format!(
                "the key {:.12} was approved under this site's name, this site's key is {own:.12}: \
                 tell the centre, someone may have enrolled in its place",
                key.hex()
            ))
        },
        Instruction::Move { to, first } => {
            let known = generations::all(agent.store.read())?;
            // The bundle that brings the order is of the stream that is left, and nothing of it stays.
            let seen = known
                .iter()
                .filter(|row| row.index != offer.index && row.state != State::Rejected)
                .filter(|row| !is_taken_back(row, &offer.acceptance.trusted));
            let highest = seen.map(|row| row.number).max().unwrap_or(0);
            if *first <= highest {
                return Ok(OrderEffect {
                    refused: true,
                    ..OrderEffect::with_message(format!(
                        "the order to move begins at bundle {first}, this site has seen {highest}"
                    ))
                });
            }
            let trusted = &offer.acceptance.trusted;
            if trusted.stream_keys(to.role.as_str()).is_none() {
                return Ok(OrderEffect {
                    refused: true,
                    ..OrderEffect::with_message(format!(
                        "the order to move leads to {}/{} (`{}`), and the fleet's metadata delegates \
                         no such stream: no bundle would ever reach this site there",
                        to.environment, to.cluster_type, to.role
                    ))
                });
            }
            let message = format!(
                "it follows {}/{} from bundle {first} on; the running bundle stays until then",
                to.environment, to.cluster_type
            );
            approval::withdraw_waiting(agent, "this site was moved to another stream")?;
            OrderEffect {
                stream: Some(to.clone()),
                ..OrderEffect::with_message(message)
            }
        }
        Instruction::Rekey => {
            let next = NextKeys::make(&agent.state_folder)?;
            let asking = Asking::rekey(order.number, &agent.key, &next.seal);
            write_request(&agent.state_folder, &agent.site, &asking, &next.signing)?;
            cut::here("order-key-made");
            let message = format!(
                "it signs with the new key {:.12} and has a new one for what is sealed for it; the \
                 request for both is sent with the next reports",
                next.signing.public().id()
            );
            OrderEffect {
                next: Some(next),
                ..OrderEffect::with_message(message)
            }
        }
        Instruction::Revoke => {
            approval::withdraw_waiting(agent, "this site was revoked")?;
            OrderEffect::with_message(
                "it installs nothing new any more; the running bundle is not affected".to_owned(),
            )
        }
        _ => OrderEffect {
            refused: true,
            ..OrderEffect::with_message("this agent does not know this order; update it".to_owned())
        },
    })
}

/// The order's result, the trust by which it was verified and the report, in one transaction.
fn record(
    agent: &mut Agent,
    order: &Order,
    change: OrderEffect,
    offer: &Offer,
) -> Result<(), AgentError> {
    let number = order.number;
    let event = order_report(order, &change);
    let mut carried = ExecutedOrders::load(agent.store.read())?;
    carried.add(order, &agent.site.stream, &offer.acceptance.trusted);
    let mut offer = Offer {
        acceptance: offer.acceptance.clone(),
        index: offer.index,
        roots: offer.roots.clone(),
    };
    let mut site = agent.site.clone();
    if let Some(to) = &change.stream {
        // The old stream's own metadata says nothing to this site any more. Its floor stays, for the
        // case that the order turns out not to count.
        let old = format!("{}.json", site.stream.role);
        offer.acceptance.trusted.0.remove(&old);
        site.stream = to.clone();
    }
    // A revocation does not wait for the rest of the bundle, so that the rest changes nothing by it.
    let accepted = (order.what != Instruction::Revoke).then_some(&offer);
    if let Some(offer) = accepted {
        roots::keep(agent, offer)?;
        let versions = &offer.acceptance.versions;
        floors::raise(&agent.state_folder, agent.store.read(), versions)?;
    }
    cut::here("order-floors-raised");
    agent
        .commit(|db, author| {
            if let Some(offer) = accepted {
                accept_metadata(db, author.reading, offer)?;
            }
            state::set_meta(db, key::ORDERS, Some(&number))?;
            state::set_meta(db, key::CARRIED, Some(&carried))?;
            let report = outbox::queue(db, author, event)?;
            match &order.what {
                Instruction::Approve { key: approved } => {
                    let approved = Approved {
                        key: approved.hex(),
                    };
                    state::set_meta(db, key::APPROVED, Some(&approved))?;
                }
                Instruction::Revoke => state::set_meta(db, key::REVOKED, Some(&number))?,
                _ => {}
            }
            if change.stream.is_some() {
                state::set_meta(db, key::SITE, Some(&site))?;
            }
            if let Some(next) = &change.next {
                next.put_in_use(db, Some(author.key.public().id()))?;
                state::set_meta(db, key::REQUEST_UNTIL, Some(&(report + 1)))?;
                state::set_meta::<Approved>(db, key::APPROVED, None)?;
            }
            Ok::<_, StateError>(())
        })
        .map_err(AgentError::from)?;
    cut::here("order-committed");
    tracing::warn!(
        number,
        "order `{}`: {}",
        order.what.as_str(),
        change.message
    );
    agent.site = site;
    if change.next.is_some() {
        agent.key = keys::key_in_use(&agent.state_folder, agent.store.read())?;
    }
    Ok(())
}

/// What is reported home of an order.
fn order_report(order: &Order, change: &OrderEffect) -> report::ReportEvent {
    let Order {
        number, enrolment, ..
    } = *order;
    let what = order.what.as_str().to_owned();
    let message = change.message.clone();
    if change.refused {
        return ReportEvent::OrderRefused {
            number,
            what,
            message,
            enrolment,
        };
    }
    ReportEvent::OrderDone {
        number,
        what,
        message,
        enrolment: Some(enrolment),
    }
}
