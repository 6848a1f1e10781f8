//! The highest versions ever accepted, kept twice: in the database and in `floors.json` beside it.
//!
//! What comes in: the versions of metadata that was just accepted. What goes out: the floors below which
//! nothing is accepted again. The sidecar is written first, with the floors before and after, so that a
//! cut between the two writes is distinguished from an old copy put back. Both damaged, or the two
//! contradicting each other: fail closed.

use std::collections::BTreeMap;
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_signer::TrustedMetadata;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::{StateError, doing, signed, unsigned};
use crate::durable;
use crate::state_folder::StateFolder;

/// Highest versions by metadata name.
pub type Floors = BTreeMap<String, u64>;

const FORMAT: &str = "outhaul.dev/floors/v1";
/// Thousands of roles fit.
const MAX_SIDECAR_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sidecar {
    format: String,
    before: Floors,
    floors: Floors,
    /// Digest over the two maps: a torn or edited file shows.
    check: String,
}

fn checksum(before: &Floors, floors: &Floors) -> String {
    Digest::of(super::to_json(&(FORMAT, before, floors)).as_bytes()).to_string()
}

/// Writes the floors of metadata that was just accepted into the sidecar, durably, beside those that
/// the database still holds. The database follows. What `after` holds is the verifier's word: a floor
/// falls only when the fleet's newer root took a key away, which is how a stolen key is survived.
///
/// # Errors
/// [`StateError`]
pub fn write_sidecar(db: &Connection, path: &Path, after: &Floors) -> Result<(), StateError> {
    let before = in_database(db)?;
    let check = checksum(&before, after);
    let sidecar = Sidecar {
        format: FORMAT.into(),
        before,
        floors: after.clone(),
        check,
    };
    let mut text = super::to_json(&sidecar);
    text.push('\n');
    Ok(durable::write(path, text.as_bytes(), 0o600)?)
}

/// Writes the floors of metadata that was just accepted beside the database, before they go into it.
///
/// # Errors
/// [`StateError`]
pub fn raise(
    state_folder: &StateFolder,
    db: &Connection,
    after: &Floors,
) -> Result<(), StateError> {
    if state_folder.keeps_floors_in_copy() {
        return Ok(());
    }
    write_sidecar(db, &state_folder.floors(), after)
}

/// Raises each of `floors` to that of `others` where that is higher.
pub fn raise_each(floors: &mut Floors, others: &Floors) {
    for (name, version) in others {
        let floor = floors.entry(name.clone()).or_insert(*version);
        *floor = (*floor).max(*version);
    }
}

/// The oldest bundle of the stream `role` that `floors` let in; 0 where they have none of it.
pub fn takes_from(floors: &Floors, role: &str) -> u64 {
    floors.get(role).copied().unwrap_or(0)
}

/// What differs between two sets of floors, for people.
pub fn raised(before: &Floors, after: &Floors) -> Vec<String> {
    let changed = after.iter().filter_map(|(name, version)| {
        let known = before.get(name).copied();
        (known != Some(*version)).then(|| match known {
            Some(known) => format!("{name} {version} (was {known})"),
            None => format!("{name} {version}"),
        })
    });
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    changed
        .chain(gone.map(|name| format!("{name} is gone")))
        .collect()
}

enum StoredFloors {
    Missing,
    Damaged,
    Whole(Sidecar),
}

fn read_sidecar(path: &Path) -> Result<StoredFloors, StateError> {
    let Some(bytes) = durable::read_if_present(path, MAX_SIDECAR_BYTES)? else {
        return Ok(StoredFloors::Missing);
    };
    Ok(match serde_json::from_slice::<Sidecar>(&bytes) {
        Ok(sidecar)
            if sidecar.format == FORMAT
                && sidecar.check == checksum(&sidecar.before, &sidecar.floors) =>
        {
            StoredFloors::Whole(sidecar)
        }
        _ => StoredFloors::Damaged,
    })
}

/// The floors of a file of them; `None` where it is not there, damaged, or not readable.
pub(crate) fn in_sidecar(path: &Path) -> Option<Floors> {
    match read_sidecar(path) {
        Ok(StoredFloors::Whole(sidecar)) => Some(sidecar.floors),
        _ => None,
    }
}

/// The floors that hold, from both places.
///
/// # Errors
/// [`StateError::Floors`] when they cannot be known.
pub fn floors(db: &Connection, path: &Path) -> Result<Floors, StateError> {
    let stored = in_database(db)?;
    let sidecar = match (read_sidecar(path)?, stored.is_empty()) {
        (StoredFloors::Whole(sidecar), _) => sidecar,
        // The database alone is enough; the next acceptance writes the sidecar again.
        (StoredFloors::Missing | StoredFloors::Damaged, false) => return Ok(stored),
        (StoredFloors::Missing, true) => return Ok(Floors::new()),
        (StoredFloors::Damaged, true) => {
            let problem = format!(
                "`{}` is damaged and the database holds no floors",
                path.display()
            );
            return Err(StateError::Floors { problem });
        }
    };
    // A new database beside an old sidecar: the store was made again, the floors go on.
    if stored.is_empty() || stored == sidecar.floors || stored == sidecar.before {
        return Ok(sidecar.floors);
    }
    let older = |a: &Floors, b: &Floors| {
        b.iter()
            .find(|(name, version)| a.get(*name).is_none_or(|have| have < *version))
            .map(|(name, _)| name.clone())
    };
    let problem = if let Some(name) = older(&stored, &sidecar.floors) {
        format!(
            "the database is older than `{}`: its floor for `{name}` is lower",
            path.display()
        )
    } else if let Some(name) = older(&sidecar.floors, &stored) {
        format!(
            "`{}` is older than the database: its floor for `{name}` is lower",
            path.display()
        )
    } else {
        format!("the database and `{}` name different roles", path.display())
    };
    Err(StateError::Floors { problem })
}

/// Whether the sidecar is missing or damaged, and the database has floors.
///
/// # Errors
/// [`StateError`]
pub fn sidecar_is_missing(db: &Connection, path: &Path) -> Result<bool, StateError> {
    let is_whole = matches!(read_sidecar(path)?, StoredFloors::Whole(_));
    Ok(!is_whole && !in_database(db)?.is_empty())
}

/// Writes the sidecar again from the database, where it is missing or damaged; whether it was.
///
/// # Errors
/// [`StateError`]
pub fn restore_sidecar(db: &Connection, path: &Path) -> Result<bool, StateError> {
    let is_missing = sidecar_is_missing(db, path)?;
    if is_missing {
        write_sidecar(db, path, &in_database(db)?)?;
    }
    Ok(is_missing)
}

/// The highest floors that either place still has, when [`floors()`] cannot say which hold: what only
/// newer signed metadata gets past.
///
/// # Errors
/// [`StateError`] when the database or the file cannot be read at all.
pub fn highest(db: &Connection, path: &Path) -> Result<Floors, StateError> {
    let mut highest = in_database(db)?;
    if let StoredFloors::Whole(sidecar) = read_sidecar(path)? {
        raise_each(&mut highest, &sidecar.floors);
    }
    Ok(highest)
}

/// The floors that the database has.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub(crate) fn in_database(db: &Connection) -> Result<Floors, StateError> {
    let mut query = db
        .prepare("SELECT name, version FROM floor")
        .map_err(doing("read floors"))?;
    let rows = query
        .query_map([], |row| {
            Ok((row.get::<_, String>(0)?, unsigned(row.get(1)?)))
        })
        .map_err(doing("read floors"))?;
    rows.collect::<Result<_, _>>().map_err(doing("read floors"))
}

/// Replaces the floors by those of metadata that was just accepted.
///
/// # Errors
/// [`StateError`]
pub fn store(db: &Connection, floors: &Floors) -> Result<(), StateError> {
    db.execute("DELETE FROM floor", [])
        .map_err(doing("store floors"))?;
    for (name, version) in floors {
        db.execute(
            "INSERT INTO floor (name, version) VALUES (?1, ?2)",
            params![name, signed(*version)],
        )
        .map_err(doing("store a floor"))?;
    }
    Ok(())
}

/// The metadata that was last accepted.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn trusted(db: &Connection) -> Result<TrustedMetadata, StateError> {
    let mut query = db
        .prepare("SELECT name, bytes FROM trusted")
        .map_err(doing("read metadata"))?;
    let rows = query
        .query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?))
        })
        .map_err(doing("read metadata"))?;
    let files: BTreeMap<_, _> = rows
        .collect::<Result<_, _>>()
        .map_err(doing("read metadata"))?;
    Ok(TrustedMetadata(files))
}

/// Replaces the metadata that was last accepted.
///
/// # Errors
/// [`StateError`] when the database does not answer, or holds what does not fit.
pub fn store_trusted(db: &Connection, trusted: &TrustedMetadata) -> Result<(), StateError> {
    db.execute("DELETE FROM trusted", [])
        .map_err(doing("store metadata"))?;
    for (name, bytes) in &trusted.0 {
        db.execute(
            "INSERT INTO trusted (name, bytes) VALUES (?1, ?2)",
            params![name, bytes],
        )
        .map_err(doing("store metadata"))?;
    }
    Ok(())
}
