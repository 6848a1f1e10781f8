//! Outhaul's hub: signed reports in, desired and actual state and the promotion gate out.
//!
//! ```text
//! bundles ─▶ desired ─┐
//! requests ─▶ enrol ──┼─▶ store ─▶ state ─▶ view ─▶ pages, API
//! reports ─▶ ingest ──┘              └───▶ gate ─▶ open | closed, with evidence
//! ```
//!
//! What comes in: bundles, enrolment requests and reports, each verified before a row is written. What
//! goes out: acknowledgements signed by the hub's key, a page, JSON, and gate decisions. Observations
//! are only ever added, and old ones removed where someone asks for it (`retention`); the current state follows from them. The gate is a pure function and is
//! closed unless the sites that should have reported did, and recently, and well.
//! It never trusts the transport by which a byte came, and never changes what a site reported.
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Session<'a>` named by its path is not general enough over 'a"
)]

mod acting;
mod alerting;
mod audit;
mod backup;
pub mod cli;
mod error;
mod gate;
mod import;
pub mod ingest;
#[cfg(test)]
mod orders;
mod pages;
pub mod retention;
mod server;
#[cfg(test)]
mod shown;
#[cfg(test)]
mod stored;
mod time;

pub use error::HubError;
pub use gate::{Decision, GateQuestion, GateVerdict};
use outhaul_desired as desired;
use outhaul_desired::materials;
pub use outhaul_enrol as enrol;
use outhaul_hub_state as state;
pub use outhaul_store as store;
pub use outhaul_view as view;
use outhaul_view::explained::kept as explanations;
pub use outhaul_view::record;
use outhaul_view::{advisories, clock};
pub use state::Hub;
pub use store::Store;
