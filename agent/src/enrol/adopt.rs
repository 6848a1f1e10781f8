//! What an earlier memory of this state folder applied is known again, when that memory is gone.
//!
//! What comes in: the state folder of a site that is enrolled with an empty database, and what its kept
//! generations would have applied. What goes out: inventory rows for the files that are in the target with
//! exactly that content. Without them every file would be somebody else's, and no newer bundle could ever be
//! applied over it. A file that was changed is not known again, and a generation that cannot be read says
//! nothing. It changes no file and removes none.

use outhaul_bundle::name::Name;
use outhaul_bundle::{Index, Limits};
use rusqlite::Connection;

use crate::apply::folder::Folder;
use crate::config::Config;
use crate::durable;
use crate::generation;
use crate::home::Home;
use crate::state::{StateError, inventory};

/// Most generations that are looked at; two are kept.
const MAX_GENERATIONS: usize = 16;

/// Puts what is known again into the inventory. Returns how many files.
pub(super) fn adopt(
    home: &Home,
    config: &Config,
    site: &Name,
    db: &Connection,
) -> Result<usize, StateError> {
    let mut numbers: Vec<u64> = durable::list(&home.generations())?
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .collect();
    // The newest last: what two of them wrote is the newer one's.
    numbers.sort_unstable();
    let target = config.folder.target.clone();
    let target = target.unwrap_or_else(|| home.default_target());
    let folder = Folder::new(target, home.identities());
    let mut count = 0;
    for number in numbers.into_iter().rev().take(MAX_GENERATIONS).rev() {
        let Some(index) = index(home, number) else {
            continue;
        };
        for desired in generation::desired(home, &index.for_site(site), site) {
            for item in folder.known_again(&desired) {
                inventory::put(db, &item)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// The index that a generation kept. Nothing vouches for it any more but the folder that it lies in, so that
/// it only says which files to look at.
fn index(home: &Home, number: u64) -> Option<Index> {
    let limits = Limits::default();
    let path = home.generation(number).join("index.json");
    let bytes = durable::read(&path, limits.max_index_bytes).ok()?;
    let index = Index::from_bytes(&bytes, &limits).ok()?;
    (index.number == number).then_some(index)
}
