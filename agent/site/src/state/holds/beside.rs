//! A copy of the holds beside the database, in `holds.json`: what people hold stays held when the database is lost.
//!
//! What comes in: the holds that the database has. What goes out: the file, written again where it differs; and the holds that it has, for an
//! enrolment after a lost database. It decides nothing, and the database counts wherever there is one.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{AssignmentHold, Hold, of_assignments, store};
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

/// Puts the holds of the copy into a database that has none, and returns them.
///
/// # Errors
/// [`StateError`]
pub fn give_back(state_folder: &StateFolder, db: &Connection) -> Result<Option<Holds>, StateError> {
    let Some(found) = read(state_folder) else {
        return Ok(None);
    };
    state::set_meta(db, key::HOLD, found.site.as_ref())?;
    store(db, &found.assignments)?;
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Store;

    #[test]
    fn the_copy_gives_back_what_was_held_and_a_damaged_one_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let state_folder = StateFolder::new(folder.path());
        let mut store_of = Store::open(&folder.path().join("one.db")).unwrap();
        let hold = Hold {
            who: "ann".to_owned(),
            why: "harvest".to_owned(),
            until: None,
        };
        let one = AssignmentHold {
            who: "bob".to_owned(),
            why: "repair".to_owned(),
            generation: Some(2),
            approves: None,
        };
        let held = BTreeMap::from([("hello".to_owned(), one)]);
        let set = store_of.commit(|db| {
            state::set_meta(db, key::HOLD, Some(&hold))?;
            store(db, &held)
        });
        let _: () = set.unwrap();
        assert_eq!(read(&state_folder), None);
        keep(&state_folder, store_of.read()).unwrap();

        let mut other = Store::open(&folder.path().join("two.db")).unwrap();
        let found = other.commit(|db| give_back(&state_folder, db)).unwrap();
        assert_eq!(found.map(|found| found.count()), Some(2));
        assert_eq!(of_assignments(other.read()).unwrap(), held);
        let site: Option<Hold> = state::meta(other.read(), key::HOLD).unwrap();
        assert_eq!(site, Some(hold));

        let text = std::fs::read_to_string(state_folder.holds()).unwrap();
        for damaged in [
            "",
            "{}",
            &text[..text.len() / 2],
            &text.replace("/v1", "/v9"),
        ] {
            durable::write(&state_folder.holds(), damaged.as_bytes(), 0o600).unwrap();
            assert_eq!(read(&state_folder), None, "{damaged}");
        }
    }
}
