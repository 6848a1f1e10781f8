//! A copy of the holds beside the database, in `holds.json`: what people hold stays held when the database is lost.
//!
//! What comes in: the holds that the database has. What goes out: the file, written again where it differs; and the holds that it has, for an
//! enrolment after a lost database. It decides nothing, and the database counts wherever there is one.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{AssignmentHold, Hold, of_assignments};
use crate::durable;
use crate::state::{self, StateError, key};
use crate::state_folder::StateFolder;

const FORMAT: &str = "outhaul.dev/holds/v1";
/// Thousands of assignments fit.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// What people hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holds {
    format: String,
    /// The hold of the whole site.
    pub site: Option<Hold>,
    /// Held assignments, by name.
    pub assignments: BTreeMap<String, AssignmentHold>,
}

impl Holds {
    /// What the database has.
    ///
    /// # Errors
    /// [`StateError`]
    pub(crate) fn of(db: &Connection) -> Result<Self, StateError> {
        Ok(Self {
            format: FORMAT.to_owned(),
            site: state::meta(db, key::HOLD)?,
            assignments: of_assignments(db)?,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        usize::from(self.site.is_some()) + self.assignments.len()
    }
}

/// Writes the copy again where it is not what the database has.
///
/// # Errors
/// [`StateError`]
pub fn keep(state_folder: &StateFolder, db: &Connection) -> Result<(), StateError> {
    let now = Holds::of(db)?;
    if read(state_folder).as_ref() == Some(&now) {
        return Ok(());
    }
    let mut text = state::to_json(&now);
    text.push('\n');
    Ok(durable::write(
        &state_folder.holds(),
        text.as_bytes(),
        0o600,
    )?)
}

/// What the copy has; `None` where it is not there or cannot be read: what was held is unknown then.
pub fn read(state_folder: &StateFolder) -> Option<Holds> {
    let bytes = durable::read_if_present(&state_folder.holds(), MAX_BYTES).ok()??;
    let found: Holds = serde_json::from_slice(&bytes).ok()?;
    (found.format == FORMAT).then_some(found)
}
