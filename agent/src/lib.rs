//! Outhaul's agent: the site's way of a bundle, from a stick or a link to what runs, and reports home.
//!
//! ```text
//! intake ─▶ verify ─▶ stage ─▶ approve ─▶ apply ─▶ soak ─▶ active ─▶ observe ─▶ report
//! ```
//!
//! [`machine`] says what follows what, `runner` does it, `state` remembers it, `intake` verifies what comes
//! in, `apply` chooses the reconciler, `report` sends what happened to the hub. What comes in: bundles and the decisions
//! of people on site. What goes out: applied assignments and signed reports. It never applies what was not
//! verified, never removes what it did not make, and after a power cut goes on where it was.
//! The way of a bundle through a cut is published in docs/internals/agent.md and tested at every instant.

mod calls;
pub mod cli;
mod daemon;
mod enrol;
mod intake;
mod orders;
mod report;
mod status;
mod update;

use outhaul_apply_helper as helper;
use outhaul_content::{blobs, generation};
use outhaul_host::{error, facilities, host, other_files};
use outhaul_kit::durable;
use outhaul_runner::{self as runner, acks, agent, following, intact, roots};
use outhaul_settings::{apply, config};
use outhaul_site::{
    advice, attention, cut, identity, incomplete, interrupted, keys, machine, offer, rehearsal,
    request, rescued, secrets, state, state_folder,
};

#[cfg(test)]
mod tests;
