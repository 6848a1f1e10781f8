//! Recomputes what a hub's gates decided.
//!
//! What comes in: the file of `outhaul-hub audit export`, and the fleet's first root metadata. What goes out: what is
//! wrong with signatures, chains and the file, and for each decision whether the same function comes to the same from
//! the same evidence. It trusts the root alone: what only the hub says (which keys sites have, when a report came, who
//! approved) it takes from the file and names as such. It shares the decision with the hub, and no store.

mod claims;
pub mod cli;
mod clock;
mod differences;
mod error;
mod lost;
mod outcome;
mod read;
mod recompute;
mod removed;
mod signed;
mod site;

pub use error::AuditError;
pub use outcome::{Audit, CheckedDecision, MissingReports, Problem, Recomputed};
use outhaul_signer::key::PublicKey;

/// Audits an export.
///
/// # Errors
/// [`AuditError`] when it cannot be read, or is not an export at all. What does not hold is not an error.
pub fn audit(
    lines: impl std::io::BufRead,
    root: &[u8],
    hub_key: Option<&PublicKey>,
    heads: &[String],
) -> Result<Audit, AuditError> {
    let mut export = read::read(lines, hub_key, heads)?;
    let mut problems = export.problems.clone();
    let bundles = signed::bundles(&export, root, &mut problems)?;
    let reports = signed::reports(&export, &mut problems);
    signed::conflicts(&mut export, &mut problems);
    recompute::editions(&export, &mut problems);
    removed::impossible(&export.removed, &reports, &mut problems);
    lost::lost_and_kept(&export, &mut problems);
    let missing = recompute::missing_reports(&export, &reports, &mut problems);
    let decisions = recompute::all(&export, &bundles, &reports);
    problems.sort();
    Ok(Audit {
        fleet: export.fleet.clone(),
        hub_key: export.hub_key.id(),
        head: export.head.clone(),
        acts_head: export.acts_head.clone(),
        missing,
        backwards: clock::backwards(&export),
        problems,
        decisions,
        taken_from_the_hub: export.taken_from_the_hub(),
    })
}
