//! What became of a batch of reports, and how far each chain is complete.
//!
//! What comes in: counts, refusals, and what is on record. What goes out: values for answers and the command line. It decides
//! nothing.

use outhaul_bundle::hub_api::{RefusedGroup, RefusedLine};
use serde::Serialize;

use outhaul_store::{Acknowledged, ReportPosition, Session, StoreError};

/// What became of a batch.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Ingested {
    /// Reports that are new.
    pub accepted: u64,
    /// Reports that were on record already.
    pub duplicates: u64,
    /// How many of these are no longer kept: their numbers are known, and they are not counted again.
    #[serde(skip_serializing_if = "is_zero")]
    pub no_longer_kept: u64,
    /// How many of them put back a signed text that was lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub restored: u64,
    /// Lines refused.
    pub refused_lines: u64,
    /// The first 200 of them, with the reason.
    pub refused: Vec<RefusedLine>,
    /// All of them, one entry per site and rule.
    pub refused_groups: Vec<RefusedGroup>,
    /// How far each chain that the batch touched is complete now.
    pub complete: Vec<Complete>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Everything of a chain up to a number is on record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Complete {
    /// The site.
    pub site: String,
    /// The epoch.
    pub epoch: String,
    /// The number; 0 when the first is missing.
    pub number: u64,
    /// Digest of that report as it is on record; none where the site declared it lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl From<Acknowledged> for Complete {
    fn from(acked: Acknowledged) -> Self {
        let (site, epoch) = acked.chain;
        Self {
            site,
            epoch,
            number: acked.number,
            digest: acked.digest,
        }
    }
}

impl Complete {
    /// What is on record at the end of a chain that is complete up to `number`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn at(
        session: &Session<'_>,
        site: String,
        epoch: String,
        number: u64,
    ) -> Result<Self, StoreError> {
        let place = ReportPosition {
            site,
            epoch,
            number,
        };
        let digest = session.stored_report(&place)?.map(|stored| stored.digest);
        let ReportPosition { site, epoch, .. } = place;
        Ok(Self {
            site,
            epoch,
            number,
            digest,
        })
    }
}
