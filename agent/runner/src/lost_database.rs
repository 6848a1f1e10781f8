//! What an enrolment after a lost database could not know again, kept for `status` until a bundle is active or a person acts.
//!
//! What comes in: what was known again, and the memory. What goes out: each thing that a person has to look after, in words, for `enrol`, `plan` and
//! `status`. Holds that a copy beside the database has, or one in `rescued`, are put back into it; it changes nothing else, and no file.

use outhaul_kit::text::quoted;
use outhaul_site::attention::{Attention, AttentionKind};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::kept_floors::KeptFloors;
use crate::rescued;
use crate::state::{self, StateError, generations, key};
use crate::state_folder::StateFolder;
use outhaul_site::stored;

/// What could not be known again; that approvals are lost goes without saying.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Lost {
    /// Values that were once set here.
    pub values: Vec<ValueBefore>,
    /// Which older bundles are refused, where the floors were lost, too.
    pub floors: Option<KeptFloors>,
    /// How many holds were given back; absent where nothing shows what was held.
    #[serde(default)]
    pub holds: Option<usize>,
    /// Whether they were in `rescued`, where the copy came along when the state folder was moved aside.
    #[serde(default)]
    pub from_rescued: bool,
}

/// A value that was set here before.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueBefore {
    /// The assignment.
    pub assignment: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Whether it is set again: what was applied with it shows that it was in use to the last.
    pub set: bool,
}

impl Lost {
    /// Gives the holds back, as far as their copy shows them. Returns what is lost, which the caller keeps.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn known_again(
        state_folder: &StateFolder,
        db: &Connection,
        values: Vec<ValueBefore>,
        floors: Option<KeptFloors>,
    ) -> Result<Self, StateError> {
        let mut held = stored::give_holds_back(state_folder, db)?;
        let from_rescued = held.is_none();
        if from_rescued {
            held = stored::give_holds_back(&rescued::copied(state_folder), db)?;
        }
        Ok(Self {
            values,
            floors,
            from_rescued: from_rescued && held.is_some(),
            holds: held.map(|held| held.count()),
        })
    }

    /// What a person has to look after, each with its way out.
    pub fn attention(&self) -> Vec<Attention> {
        let floors = self.floors.iter().filter_map(KeptFloors::warning);
        let values = self.values.iter().filter(|one| !one.set).map(once_set);
        let all = values.chain(floors).map(of_site);
        all.chain(self.unknown_holds()).collect()
    }

    /// That nothing shows what was held, while that is so.
    fn unknown_holds(&self) -> Option<Attention> {
        self.holds.is_none().then(lost_holds).map(of_site)
    }
}

/// Whether the database was lost, and no bundle is active since.
///
/// # Errors
/// [`StateError`]
pub fn is_unanswered(db: &Connection) -> Result<bool, StateError> {
    let is_lost = state::meta::<Lost>(db, key::LOST)?.is_some();
    Ok(is_lost && state::meta::<u64>(db, key::ACTIVE)?.is_none())
}

/// Whether no bundle ever came here, as far as the database knows; one after a lost database does not know that.
///
/// # Errors
/// [`StateError`]
pub fn is_without_bundles(db: &Connection) -> Result<bool, StateError> {
    Ok(generations::all(db)?.is_empty() && !is_unanswered(db)?)
}

/// What still has to be looked after: once a bundle is active, only that holds are unknown, until someone gives one, or says that there was none.
///
/// # Errors
/// [`StateError`]
pub fn present(db: &Connection) -> Result<Vec<Attention>, StateError> {
    let Some(lost) = state::meta::<Lost>(db, key::LOST)? else {
        return Ok(Vec::new());
    };
    let is_active = state::meta::<u64>(db, key::ACTIVE)?.is_some();
    Ok(match is_active {
        true => lost.unknown_holds().into_iter().collect(),
        false => lost.attention(),
    })
}

/// Whether nothing shows what was held, and nobody has said so since.
///
/// # Errors
/// [`StateError`]
pub fn holds_are_unknown(db: &Connection) -> Result<bool, StateError> {
    let lost = state::meta::<Lost>(db, key::LOST)?;
    Ok(lost.is_some_and(|lost| lost.holds.is_none()))
}

/// Notes, in the transaction of a hold that a person gives, that what is held is known; or that none was lost, as a person says.
///
/// # Errors
/// [`StateError`]
pub fn holds_are_known(db: &Connection) -> Result<(), StateError> {
    let Some(lost) = state::meta::<Lost>(db, key::LOST)? else {
        return Ok(());
    };
    let known = Lost {
        holds: Some(lost.holds.unwrap_or(0)),
        ..lost
    };
    state::set_meta(db, key::LOST, Some(&known))
}

fn of_site((message, help): (String, String)) -> Attention {
    Attention::of_site(AttentionKind::LostDatabase, message, help)
}

fn once_set(one: &ValueBefore) -> (String, String) {
    let ValueBefore {
        assignment,
        key,
        value,
        ..
    } = one;
    (
        format!(
            "`{key}` of `{assignment}` was once set to `{value}` on this site, and nothing shows whether it still was: the next bundle has the \
             centre's value"
        ),
        format!(
            "`outhaul-agent set {key}={typed} --workload {assignment}` sets it again, when that bundle is active",
            typed = quoted(value)
        ),
    )
}

fn lost_holds() -> (String, String) {
    (
        "holds of this site or of single assignments, and approvals, were in the database that is lost, and no readable `holds.json` shows \
         what was held: it is unknown"
            .to_owned(),
        "where something was held, give `outhaul-agent hold`, or for one assignment `outhaul-agent hold --assignment NAME`, before the next bundle \
         is imported; where nothing was, `outhaul-agent hold --release` says so"
            .to_owned(),
    )
}
