//! Rows that the machine's site is read from, written without a step: what was known before this database, and time that is counted on.
//!
//! What comes in: an open transaction, and holds or bundles that a copy beside the database, a backup or signed metadata on disk shows. What goes out:
//! their rows, from which the next step reads the site. It never writes what is active, waits or is worked on, and never a row of a bundle that has one.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::state::generations::{self, Generation};
use crate::state::holds::{AssignmentHold, beside};
use crate::state::{self, Hold, StateError, key};
use crate::state_folder::StateFolder;
use crate::stored::State;

/// Writes the holds that are known from elsewhere: every held assignment, and the hold of the site where one is given; without one, that stays.
///
/// # Errors
/// [`StateError`]
pub fn put_holds(
    db: &Connection,
    site: Option<&Hold>,
    assignments: &BTreeMap<String, AssignmentHold>,
) -> Result<(), StateError> {
    if let Some(site) = site {
        state::set_meta(db, key::HOLD, Some(site))?;
    }
    let some = Some(assignments).filter(|assignments| !assignments.is_empty());
    state::set_meta(db, key::HELD, some)
}

/// Puts the holds of the copy beside a database into one that has none, and returns them; `None` where there is no copy that can be read.
///
/// # Errors
/// [`StateError`]
pub fn give_holds_back(
    state_folder: &StateFolder,
    db: &Connection,
) -> Result<Option<beside::Holds>, StateError> {
    let Some(found) = beside::read(state_folder) else {
        return Ok(None);
    };
    put_holds(db, found.site.as_ref(), &found.assignments)?;
    Ok(Some(found))
}

/// Stores how long the machine has run for the deadline of the hold that stands. A hold that was released or replaced since is not written again.
///
/// # Errors
/// [`StateError`]
pub fn count_hold_on(db: &Connection, counted: &Hold) -> Result<(), StateError> {
    let Some(hold) = state::meta::<Hold>(db, key::HOLD)? else {
        return Ok(());
    };
    let ends = |hold: &Hold| hold.until.as_ref().map(|until| until.at);
    let is_same =
        (&hold.who, &hold.why, ends(&hold)) == (&counted.who, &counted.why, ends(counted));
    match is_same {
        true => state::set_meta(db, key::HOLD, Some(counted)),
        false => Ok(()),
    }
}

/// Adds the row of a bundle that its own metadata on disk shows, as one that another took the place of: what it says of being at work is not
/// known here. Where it has a row, that stays.
///
/// # Errors
/// [`StateError`]
pub fn add_known(db: &Connection, row: &Generation) -> Result<(), StateError> {
    match generations::one(db, row.number)? {
        Some(_) => Ok(()),
        None => {
            let row = Generation {
                state: State::Superseded,
                ..row.clone()
            };
            generations::put(db, &row)
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use outhaul_signer::LowerBound;
    use outhaul_signer::clock::BootReading;

    use super::*;
    use crate::durable;
    use crate::state::Store;
    use crate::state::clock::ClockReading;
    use crate::state::holds::{Deadline, of_assignments};

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
        let set = store_of.commit(|db| put_holds(db, Some(&hold), &held));
        let _: () = set.unwrap();
        assert_eq!(beside::read(&state_folder), None);
        beside::keep(&state_folder, store_of.read()).unwrap();

        let mut other = Store::open(&folder.path().join("two.db")).unwrap();
        let found = other
            .commit(|db| give_holds_back(&state_folder, db))
            .unwrap();
        assert_eq!(found.map(|found| found.count()), Some(2));
        assert_eq!(of_assignments(other.read()).unwrap(), held);
        let site: Option<Hold> = state::meta(other.read(), key::HOLD).unwrap();
        assert_eq!(site.as_ref(), Some(&hold));

        // A backup without a hold of the site: that of the database stays, and assignments are replaced.
        let none = other.commit(|db| put_holds(db, None, &BTreeMap::new()));
        let _: () = none.unwrap();
        assert_eq!(of_assignments(other.read()).unwrap(), BTreeMap::new());
        assert_eq!(state::meta(other.read(), key::HOLD).unwrap(), Some(hold));

        let text = std::fs::read_to_string(state_folder.holds()).unwrap();
        for damaged in [
            "",
            "{}",
            &text[..text.len() / 2],
            &text.replace("/v1", "/v9"),
        ] {
            durable::write(&state_folder.holds(), damaged.as_bytes(), 0o600).unwrap();
            assert_eq!(beside::read(&state_folder), None, "{damaged}");
        }
    }

    /// Time is counted outside of the transaction: what a person decided meanwhile counts.
    #[test]
    fn time_is_counted_on_for_the_hold_that_stands_and_for_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("one.db")).unwrap();
        let reading = |ran_s: u64| ClockReading {
            bound: LowerBound::new(Timestamp::UNIX_EPOCH),
            wall: Timestamp::UNIX_EPOCH,
            wall_trusted: false,
            boot: Some(BootReading {
                boot_id: "b".to_owned(),
                since_boot_ms: ran_s * 1000,
            }),
        };
        let hold = |who: &str| Hold {
            who: who.to_owned(),
            why: "harvest".to_owned(),
            until: Deadline::new(&reading(0), SignedDuration::from_hours(1)),
        };
        let mut counted = hold("ann");
        let passed = counted.until.as_mut().unwrap().has_passed(&reading(600));
        assert!(!passed && counted != hold("ann"));
        for (stands, after) in [
            (Some(hold("ann")), Some(counted.clone())),
            (Some(hold("bob")), Some(hold("bob"))),
            (None, None),
        ] {
            let stored = store.commit(|db| {
                state::set_meta(db, key::HOLD, stands.as_ref())?;
                count_hold_on(db, &counted)
            });
            let _: () = stored.unwrap();
            assert_eq!(state::meta(store.read(), key::HOLD).unwrap(), after);
        }
    }
}
