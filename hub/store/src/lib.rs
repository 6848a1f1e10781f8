//! The hub's state: one SQLite file, or a PostgreSQL database, append-only where it records what happened.
//!
//! What comes in: facts that `ingest`, `desired` and the command line have checked. What goes out: rows,
//! and the current state, which follows from the reports and is kept beside them (`current`, `kept`). Every statement is one text for
//! both databases: `$n` parameters in the order of first use, `BIGINT` milliseconds, `ON
//! CONFLICT`, no `rowid`. It checks no signature and reads no clock, and never changes a report. Old reports are removed by
//! `retention` only, which puts on record which.

mod access_log;
mod acked;
mod acts;
mod added;
mod advisories;
mod alerts;
mod assignment_history;
mod audit;
mod backup_error;
mod bundle_rows;
mod conflicts;
mod copies;
mod current;
mod db;
mod decisions;
mod desired;
mod envelopes;
mod error;
mod explanations;
mod help;
mod history;
mod kalypso;
mod kept;
mod lost_text;
mod many;
mod materials;
mod migrate;
mod moving;
mod open;
mod orders;
mod outcomes;
mod people;
mod place;
mod refusals;
mod refused;
mod removed;
mod renumbered;
mod reports;
mod requests;
mod retention;
mod same;
mod sets;
mod site_rows;
mod sites;
mod soak;
mod soundness;
mod standings;
mod stream_sites;
mod timeline;
mod tokens;
mod transfer;
mod webhooks;

use db::{Connection, OptionalExtension as _, params};

pub use access_log::AccessEntry;
pub use acked::Acknowledged;
pub use added::NewReport;
pub use advisories::Imported;
pub use alerts::{AlertDelivery, StoredAlert};
pub use assignment_history::AssignmentLook;
pub use audit::{ChainedDecision, MAX_INDEX_BYTES};
pub use backup_error::BackupError;
pub use bundle_rows::{BundleOnRecord, KeptIndex, StreamOnRecord};
pub use conflicts::{LaterEpoch, NamedReport, NewConflict, OlderReport};
pub use copies::Expected;
pub use current::{SiteFilter, SitePage};
pub use db::{
    Address, AddressError, CREDENTIAL as PASSWORD_CREDENTIAL, DbError, DbErrorKind, PasswordError,
    ServerError,
};
pub use decisions::{PastDecision, StepRules};
pub use envelopes::{DroppedParts, PART_MS};
pub use error::{CORRUPT_HELP, StoreError};
pub use explanations::{
    KEPT_OF_SNAPSHOT, MAX_EXPLAINED_ENVIRONMENTS, MAX_EXPLANATIONS_BYTES, NewExplanation,
    PackedExplanation, PutExplanation, Sender, StoredExplanation,
};
pub use kalypso::DeploymentState;
pub use lost_text::LostText;
pub use many::{KnownEpoch, SiteEpoch};
pub use materials::{BillSummary, RunningBundle, SiteBundle};
pub use moving::{MOVED, Moved};
pub use open::Store;
pub use orders::Carrier;
pub use outcomes::{AcceptedSlip, SiteOrder};
pub use outhaul_gate::facts::{
    Act, ActKind, Attempt, DesiredAssignment, DesiredBundle, Newest, ObservedAssignment,
    ObservedAssignments, Restored, Running, Signed, SiteState,
};
pub use people::{KnownPerson, PersonLogin, PersonSession};
pub use place::{Located, SERVER_FILE};
pub use refusals::{IngestRefusal, NETWORK};
pub use refused::SiteRefusal;
pub use removed::{Removal, RemovedInAll, RemovedRange};
pub use reports::{ReportPosition, StoredReport};
pub use requests::{PendingRequest, RequestOrigin};
pub use retention::{GateMoment, KeptBecause, OldReports, Removable, RemovableEpoch};
pub use sites::{Registration, SiteKey};
pub use standings::SiteGroup;
pub use stream_sites::{BundleOfStream, BundlePlace, PlacedSite, StreamSites};
pub use timeline::{EpochOfSite, ReceivedReport, TimelinePlace};
pub use tokens::Token;
pub use webhooks::WebhookSite;

/// The database's name in the state folder.
pub const FILE_NAME: &str = "hub.db";

/// What can be asked of an open store; inside [`Store::write`], all of it in one transaction.
#[derive(Debug)]
pub struct Session<'a> {
    db: &'a Connection,
}

impl Session<'_> {
    /// A setting by its name, such as `fleet`.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let mut query = self
            .db
            .prepare_cached("SELECT value FROM settings WHERE name = $1")?;
        Ok(query
            .query_row(params![name], |row| row.get(0))
            .optional()?)
    }

    /// Sets a setting.
    ///
    /// # Errors
    /// [`StoreError`] when the store fails.
    pub fn set_setting(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let text = "INSERT INTO settings (name, value) VALUES ($1, $2)
                    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.db
            .prepare_cached(text)?
            .execute(params![name, value])?;
        Ok(())
    }

    /// The next number of a table that counts its rows; safe because writers come one at a time.
    fn next_id(&self, table: &str) -> Result<i64, StoreError> {
        let text = format!("SELECT COALESCE(MAX(id), 0) + 1 FROM {table}");
        Ok(self.db.query_row(&text, [], |row| row.get(0))?)
    }
}

/// Numbers in the store are signed 64-bit; readers refuse larger ones before they come here.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn json<T: serde::Serialize>(value: &T, what: &str) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|_| StoreError::Corrupt {
        what: what.to_owned(),
    })
}

fn parse<T: serde::de::DeserializeOwned>(text: &str, what: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Corrupt {
        what: what.to_owned(),
    })
}
