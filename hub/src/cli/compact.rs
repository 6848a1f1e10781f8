//! `outhaul-hub compact`: the space of removed reports goes back to the file system.
//!
//! What comes in: a hub whose data is a SQLite file and that nobody serves. What goes out: the same database in a smaller file. SQLite
//! does that in one transaction: cut off at any moment, the file is as it was. It changes no row.

use outhaul_kit::durable;
use serde_json::json;

use super::{Common, Output, print};
use crate::error::HubError;
use crate::state::Hub;
use crate::store::StoreError;

/// Make the database's file smaller after reports were removed
///
/// Stop the server first: nobody can write meanwhile. It needs free space for the database twice, in the state folder and in the
/// folder for temporary files (`$SQLITE_TMPDIR`, else /var/tmp). On PostgreSQL there is nothing to do: autovacuum makes the space
/// of removed rows usable again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  outhaul-hub compact --state hub")]
pub(crate) struct Args {}

pub(super) fn run(common: &Common, _args: &Args) -> Result<u8, HubError> {
    let mut hub = print::open(common)?;
    if hub.store.is_on_server() {
        return Err(HubError::Refused {
            problem: "the hub's database is on a server, which has no file to make smaller".to_owned(),
            help: "autovacuum makes the space of removed reports usable again; `VACUUM FULL reports` of its administrator gives it \
                   back, and keeps everyone waiting meanwhile"
                .to_owned(),
        });
    }
    let _lock = hub.lock()?;
    let before = size(&mut hub)?;
    let free = durable::free_bytes(&common.state)?;
    if free < before {
        return Err(HubError::Refused {
            problem: format!("the database has {before} bytes, and {free} are free where it lies"),
            help: "make room and repeat the command; the hub works with the file as it is"
                .to_owned(),
        });
    }
    hub.store.compact()?;
    let after = size(&mut hub)?;
    match common.output {
        Output::Json => print::json(&json!({ "before_bytes": before, "after_bytes": after })),
        Output::Text => print::data(&format!(
            "the database had {before} bytes and has {after} now"
        )),
    }
    Ok(0)
}

fn size(hub: &mut Hub) -> Result<u64, StoreError> {
    hub.store.read(|session| session.size_bytes())
}
