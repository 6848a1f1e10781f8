//! What the agent remembers of its site: values by name, and whose site it is.
//!
//! What comes in: an open connection, and values to remember, always inside a transaction. What goes out: what was committed.
//! A report row is written in the transaction of the change that it reports, so that neither can exist
//! without the other. `store` opens, creates and commits.

use std::io;
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::Name;
use rusqlite::{Connection, OptionalExtension};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::durable::at;
use crate::state_folder::StateFolder;

pub mod clock;
pub mod delays;
mod error;
pub mod events;
pub mod floors;
pub(crate) mod folder_identity;
pub(crate) mod former;
pub mod generations;
mod help;
pub mod holds;
pub mod inventory;
mod migrate;
pub mod note;
pub mod outbox;
mod place;
pub mod refusal;
mod rescue;
pub mod returns;
pub mod saved;
pub mod soak;
mod store;

pub use error::StateError;
pub use former::Former;
pub use help::{BEGIN_ANEW, put_back};
pub use holds::Hold;
pub use migrate::{shape, shape_of};
pub use note::Note;
pub(crate) use rescue::{remove_leftovers, write_reports};
pub use store::Store;

/// Who this site is: fixed at enrolment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteIdentity {
    /// The fleet's id.
    pub fleet: Name,
    /// The site's name.
    pub name: Name,
    /// The stream that it takes bundles of.
    pub stream: Stream,
    /// The hub's URL, from the kit; empty when there is none.
    pub hub_url: String,
    /// The hub's public key, PEM; empty when there is none.
    pub hub_key: String,
    /// The life of this store: reports are numbered within it.
    pub epoch: Name,
    /// SHA-256 of the one-time token of the kit: what orders for this enrolment name. Absent on sites
    /// that were enrolled before there were orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment: Option<Digest>,
    /// The certificate authority of the hub, PEM, from the kit; empty for the system's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hub_ca: String,
}

/// Names of single values in the `meta` table.
pub mod key {
    /// [`super::SiteIdentity`]
    pub const SITE: &str = "site";
    /// `Bound` of the agent
    pub const CLOCK: &str = "clock";
    /// Number of the active generation.
    pub const ACTIVE: &str = "active";
    /// [`super::holds::Hold`]
    pub const HOLD: &str = "hold";
    /// [`super::outbox::Cursor`]
    pub const OUTBOX: &str = "outbox";
    /// Who ordered the rollback that is under way.
    pub const ROLLBACK: &str = "rollback";
    /// Number of the earlier generation that the rollback of the active one goes to.
    pub const ROLLBACK_TO: &str = "rollback-to";
    /// [`super::holds::AssignmentHold`], by the assignment's name.
    pub const HELD: &str = "held-assignments";
    /// Number of the generation that a person had applied again: what others changed in it is taken back.
    pub const TAKES_BACK: &str = "takes-back";
    /// Number of the active generation while what differs of it on the host is put back.
    pub const CORRECTING: &str = "correcting";
    /// Number of the active generation while going back to it or repairing it has failed.
    pub const BROKEN: &str = "broken";
    /// Number of the waiting generation that only a person lets through, after a rollback.
    pub const NEEDS_APPROVAL: &str = "needs-approval";
    /// Milliseconds since 1970 of the last look for drift.
    pub const OBSERVED: &str = "observed";
    /// The refusal that was last reported about the repository: asked again, it says the same again.
    pub const REFUSED: &str = "refused";
    /// The number of the last order that was carried out.
    pub const ORDERS: &str = "orders";
    /// [`orders::executed::ExecutedOrders`]: orders, with the keys that signed them.
    pub const CARRIED: &str = "carried-orders";
    /// Ids of this site's own earlier keys.
    pub const FORMER_KEYS: &str = "former-keys";
    /// `Renumbered` of the agent: why reports are renumbered.
    pub const RENUMBERED: &str = "renumbered";
    /// `Approved` of the agent: what the centre said of a key of this site.
    pub const APPROVED: &str = "approved";
    /// The number of the order by which this site was revoked.
    pub const REVOKED: &str = "revoked";
    /// Version of the fleet's root in the kit: the ones after it were passed here.
    pub const KIT_ROOT: &str = "kit-root";
    /// Id of the key in use.
    pub const KEY_ID: &str = "key-id";
    /// The public half of the key that opens what is sealed for this site, once an order changed it.
    pub const SEAL_KEY: &str = "seal-key";
    /// The request is brought home until the hub has acknowledged this report.
    pub const REQUEST_UNTIL: &str = "request-until";
    /// `PastRefusal` of the agent, the latest last, for `status`.
    pub const REFUSALS: &str = "refusals";
    /// `NotTaken` of the agent: what on this machine kept a bundle from being taken in.
    pub const NOT_TAKEN: &str = "not-taken";
    /// `Visit` of the agent: the sticks and folders that were read, the latest last.
    pub const MEDIA: &str = "media";
    /// [`inventory::Item`]s of an earlier memory whose files someone changed: whose they are, a person says.
    pub const DISPUTED: &str = "disputed";
    /// Which settings `agent.toml` had when it was read last, by name.
    pub const SETTINGS: &str = "settings";
    /// The folder that the folder reconciler wrote to, as `agent.toml` named it then.
    pub const TARGET: &str = "target";
    /// `Pins` of the runner: that images were pinned in containerd, and for which bundles.
    pub const PINNED_IMAGES: &str = "pinned-images";
    /// Whether the inventory came with a backup, and was not compared with the target of this machine yet.
    pub const FROM_BACKUP: &str = "from-backup";
    /// `FormerTarget`s of the runner: where it wrote before.
    pub const FORMER_TARGETS: &str = "former-targets";
    /// [`super::delays::Delays`]: what asks for a bundle that waits to be applied later.
    pub const DELAYS: &str = "delays";
    /// `GivenValues` of the crate `values`: what a person on site set for keys that the centre opens.
    pub const SITE_VALUES: &str = "site-values";
    /// The values as they were reported last, each with whether the active bundle takes it.
    pub const SITE_VALUES_REPORTED: &str = "site-values-told";
    /// The bundle that was taken in last, and when it was issued, milliseconds since 1970.
    pub const ISSUED: &str = "issued";
    /// Digests of the agents that bundles brought and that failed here, of which it was reported.
    pub const AGENTS_REPORTED: &str = "agents-told";
    /// Until when the bundle that was applied last is looked at.
    pub const SOAK: &str = "soak";
    /// Number of the generation of which it was reported that it is looked at.
    pub const WATCHED: &str = "watched";
    /// How often content was applied and left again: see [`super::returns`].
    pub const RETURNS: &str = "returns";
    /// `IncompleteBundle` of the agent: a bundle of which some parts are here.
    pub const INCOMPLETE: &str = "incomplete";
    /// What the cluster of a site shows that follows the platform repository directly: the event that was reported last.
    pub const CLUSTER: &str = "cluster";
    /// How far the hub's clock was ahead of this machine's when it answered last, milliseconds; absent when they agree.
    pub const HUB_CLOCK: &str = "hub-clock";
    /// `HubRefusal` of the agent: why the hub takes nothing of this site.
    pub const HUB_REFUSAL: &str = "hub-refusal";
    /// Why the hub refused reports of former numberings when they were sent last, by numbering.
    pub const FORMER_REFUSALS: &str = "former-refusals";
    /// `Lost` of the agent: what an enrolment after a lost database could not know again.
    pub const LOST: &str = "lost";
    /// [`crate::backup::restored::Restored`]: that this memory came from a backup.
    pub const RESTORED: &str = "restored";
    /// What a person has to know about holds after that, in sentences.
    pub const RESTORED_HOLDS: &str = "restored-holds";
    /// [`crate::backup::saved_floors::RestoredFloor`]: which files in `rescued` raised the floors of the backup.
    pub const RESTORED_FLOOR: &str = "restored-floor";
    /// That work was blocked last because `agent.toml` was lost.
    pub const BLOCKED_BY_SETTINGS: &str = "blocked-by-settings";
    /// The bundle, and which of its parts are missing, that was reported as incomplete last.
    pub const INCOMPLETE_REPORTED: &str = "incomplete-told";
    /// What was reported last of a generation: a look that finds the same is not reported each time.
    pub const REPORTED: &str = "reported";
    /// Latest result of each assignment, for `status`.
    pub const RESULTS: &str = "results";
}

/// Whether there is a site here. A folder that this user may not enter is distinguished from one that
/// holds nothing.
///
/// # Errors
/// [`StateError::NotEnrolled`], or [`StateError::File`] when it cannot be known.
pub fn check_enrolled(state_folder: &StateFolder) -> Result<(), StateError> {
    let path = state_folder.database();
    if let Some(found) = state_folder.instead_of_database() {
        return Err(StateError::Instead { path, found });
    }
    let how = match std::fs::symlink_metadata(&path) {
        Ok(about) if about.len() > 0 => return Ok(()),
        Ok(_) => "is empty (0 bytes)",
        Err(error) if error.kind() == io::ErrorKind::NotFound => "is gone",
        Err(error) => return Err(at("open", &path)(error).into()),
    };
    Err(match state_folder.shows_site() {
        Some(beside) => StateError::Gone { path, how, beside },
        None => StateError::NotEnrolled {
            folder: state_folder.root().to_owned(),
        },
    })
}

/// A new life of a store: reports are numbered within it.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn new_epoch() -> Result<Name, StateError> {
    let mut bytes = [0u8; 8];
    let problem = |problem: String| StateError::Key { problem };
    getrandom::fill(&mut bytes).map_err(|error| problem(error.to_string()))?;
    hex::encode(bytes)
        .parse()
        .map_err(|_| problem("no epoch".into()))
}

/// Attaches what was being done to an SQLite error.
pub fn doing(what: &'static str) -> impl FnOnce(rusqlite::Error) -> StateError {
    move |source| StateError::Database {
        doing: what,
        source,
    }
}

/// One value by its name.
///
/// # Errors
/// [`StateError`]
pub fn meta<T: DeserializeOwned>(db: &Connection, name: &str) -> Result<Option<T>, StateError> {
    let text: Option<String> = db
        .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| {
            row.get(0)
        })
        .optional()
        .map_err(doing("read a value"))?;
    text.map(|text| from_json(name, &text)).transpose()
}

/// Stores one value under its name; `None` removes it.
///
/// # Errors
/// [`StateError`]
pub fn set_meta<T: Serialize>(
    db: &Connection,
    name: &str,
    value: Option<&T>,
) -> Result<(), StateError> {
    match value {
        Some(value) => db.execute(
            "INSERT INTO meta (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            [name, &to_json(value)],
        ),
        None => db.execute("DELETE FROM meta WHERE name = ?1", [name]),
    }
    .map_err(doing("store a value"))?;
    Ok(())
}

/// The site's identity.
///
/// # Errors
/// [`StateError::NotEnrolled`] before enrolment.
pub fn site(db: &Connection) -> Result<SiteIdentity, StateError> {
    let database = Path::new(db.path().unwrap_or_default());
    meta(db, key::SITE)?.ok_or_else(|| StateError::NotEnrolled {
        folder: database.parent().unwrap_or(database).to_owned(),
    })
}

pub fn to_json<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).unwrap_or_default().to_string()
}

///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, StateError> {
    serde_json::from_str(text).map_err(|error| StateError::Value {
        what: what.to_owned(),
        problem: error.to_string(),
    })
}

///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn digest(text: &str) -> Result<Digest, StateError> {
    text.parse().map_err(
        |error: outhaul_bundle::digest::DigestError| StateError::Value {
            what: "digest".into(),
            problem: error.to_string(),
        },
    )
}

/// SQLite's integers are signed; the agent's numbers never reach the difference.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// See [`signed`].
pub fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests;
