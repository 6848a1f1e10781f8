//! `outhaul-hub move`: a hub's database goes from its file to a PostgreSQL server.

use outhaul_kit::text;

use super::database::Database;
use super::{Common, Output, print};
use crate::error::HubError;
use crate::store::MOVED;

/// Move the hub's database from its file to a PostgreSQL server, without loss
///
/// Every row is copied in one transaction and compared, number and digest of each table, before the hub uses the server. Nothing
/// may serve meanwhile. The server's database must have no rows of another hub; what was interrupted is completed by the same
/// command. The file stays, as `hub.db.moved`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  outhaul-hub move --to postgres://outhaul@db.example/outhaul --state hub"
)]
pub(crate) struct Args {
    /// The database, without a password: see `outhaul-hub init --help`
    #[arg(long, value_name = "ADDRESS")]
    to: Database,
}

pub(super) fn run(common: &Common, args: &Args) -> Result<u8, HubError> {
    let to = args.to.address()?;
    let hub = print::open(common)?;
    let _lock = hub.lock()?;
    if hub.store.is_on_server() {
        return Err(HubError::Refused {
            problem: format!(
                "the hub's database is on a server already: `{}`",
                hub.store.path().display()
            ),
            help: "PostgreSQL's own programs move it to another server (docs/hub-postgresql.md)"
                .to_owned(),
        });
    }
    let moved = hub.move_to(&to)?;
    match common.output {
        Output::Json => print::json(&moved),
        Output::Text => print::data(&format!(
            "{} rows of {} tables are in `{}`, each table compared{}",
            moved.rows,
            moved.tables,
            moved.to,
            match moved.were_there {
                true => "; they were there already, of a command that was interrupted",
                false => "",
            }
        )),
    }
    print::talk(&format!(
        "the hub in `{}` uses the server from now on; the file is `{MOVED}` there: remove it when there is a backup of the server's \
         database",
        text::path(&common.state)
    ));
    Ok(0)
}
