//! What kind of trouble an error of the store is for a program, and the way out of it.
//!
//! What comes in: an error. What goes out: the class that gives the exit code, and what to do next. It tries nothing.

use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text;

use super::db::{AddressError, DbErrorKind, ServerError};
use super::error::{CORRUPT_HELP, StoreError};

/// What to do about a damaged database.
const DAMAGE_HELP: &str = "the database is damaged: move it away, and bring the hub back from a backup (`outhaul-hub restore FILE`); its next \
                           acknowledgements make the sites report again what runs";

impl Classified for StoreError {
    fn class(&self) -> FailureClass {
        store_class(self)
    }

    fn help(&self) -> Option<String> {
        Some(store_help(self))
    }
}

fn store_class(error: &StoreError) -> FailureClass {
    match error {
        StoreError::Exists { .. }
        | StoreError::Missing { .. }
        | StoreError::Newer { .. }
        | StoreError::NotEmpty { .. } => FailureClass::Usage,
        StoreError::Server { source, .. } => server_class(source),
        _ if error.trouble() == Some(DbErrorKind::Denied) => FailureClass::Usage,
        StoreError::Unsound { .. } => FailureClass::Trust,
        StoreError::Corrupt { .. } => FailureClass::Internal,
        // Of a full disk, a server that went away, and whatever else a newer store may say.
        _ => FailureClass::Environment,
    }
}

/// An address or a password is configuration; the rest is what is around.
fn server_class(error: &ServerError) -> FailureClass {
    match error {
        ServerError::Address(_) => FailureClass::Usage,
        ServerError::Failed(error) if error.trouble() == DbErrorKind::Denied => FailureClass::Usage,
        _ => FailureClass::Environment,
    }
}

fn store_help(error: &StoreError) -> String {
    let text = match error {
        StoreError::Exists { .. } => "nothing was changed; use it as it is, or name another folder",
        StoreError::Missing { near, .. } => {
            let near: Vec<_> = near
                .iter()
                .map(|folder| format!("`--state {}`", text::path(folder)))
                .collect();
            let beside = match &*near.join(", ") {
                "" => "`--state DIR` (or `$OUTHAUL_HUB_STATE`) names the folder of a hub that is there".to_owned(),
                near => format!("near it there is a hub: {near}"),
            };
            return format!(
                "{beside}. A new hub is made with `outhaul-hub init --state DIR --root 1.root.json`"
            );
        }
        StoreError::NoEnvelope {
            site,
            epoch,
            number,
        } => {
            return format!(
                "a copy without it would lose the report: `outhaul-hub import FILE` puts it back from a file of reports, a stick or a \
                 copy of one, that has this very report, and the rows of the table `report_envelopes` may be in the last backup of a server; then \
                 repeat the command. Where nothing has it, a person puts that on record: `outhaul-hub lost \
                 --site {} --epoch {} --number {number} --by WHO --reason TEXT`",
                text::quoted(site),
                text::quoted(epoch)
            );
        }
        StoreError::Newer { .. } => {
            "use the newer `outhaul-hub` that wrote it; a process of this version that still runs is stopped"
        }
        StoreError::Damaged { .. } => DAMAGE_HELP,
        StoreError::Open { .. } | StoreError::Sql { .. } if error.is_damage() => DAMAGE_HELP,

        StoreError::Open { .. } | StoreError::Sql { .. } if error.is_busy() => {
            "another program works on the hub's database: wait for it, or end it, and repeat the command"
        }
        StoreError::Open { .. } | StoreError::Sql { .. } => {
            "nothing of this command is half-written; check free space and permissions, then repeat it"
        }
        StoreError::Server { source, .. } => return server_help(source).to_owned(),
        _ if error.trouble() == Some(DbErrorKind::Denied) => {
            "the hub's user has to own the database: `ALTER DATABASE NAME OWNER TO USER`"
        }
        StoreError::NotEmpty { .. } => {
            "name an empty database; neither it nor this hub was changed"
        }
        StoreError::Differs { .. } => {
            "nothing was kept of what was written there, and this hub is as it was: see the server's log, and repeat the command"
        }
        StoreError::File(error) => {
            return format!("what is on record is safe; {}", error.help());
        }
        StoreError::Replaced { .. } => {
            "the hub's database was moved or replaced while this command ran: repeat it; nothing of it is half-written"
        }
        StoreError::Private { .. } => {
            "run the command as the user who owns the hub's state folder; nothing was changed"
        }
        StoreError::Unsound { .. } => "take another backup; nothing of this one is used",
        StoreError::Corrupt { .. } => CORRUPT_HELP,
    };
    text.to_owned()
}

/// What to do about a server that cannot be used.
fn server_help(error: &ServerError) -> &'static str {
    match error {
        ServerError::Address(AddressError::Password) => {
            "leave it out: the password comes from `$PGPASSWORD`, from a file (`?passfile=FILE`, `$PGPASSFILE`, `~/.pgpass`) or \
             from the systemd credential `outhaul-hub.database-password`"
        }
        ServerError::Address(AddressError::Secret(_)) => {
            "the file has lines of `host:port:database:user:password` and the mode 0600"
        }
        ServerError::Address(AddressError::Authorities { .. }) => {
            "`sslrootcert=FILE` in the address names a PEM file with the authority of the server's certificate"
        }
        ServerError::Address(_) => {
            "such as `postgres://outhaul@db.example/outhaul`, or `postgres:///outhaul?host=/run/postgresql`"
        }
        ServerError::Old { .. } => "upgrade the server",
        ServerError::Replica => {
            "name the server that it follows, or all of them: \
             `postgres://outhaul@ONE,OTHER/outhaul?target_session_attrs=read-write`"
        }
        ServerError::Encoding { .. } => {
            "make the database with `CREATE DATABASE … ENCODING 'UTF8'`"
        }
        ServerError::Failed(error) => match error.trouble() {
            DbErrorKind::Denied => {
                "see the user in the address and the password in `$PGPASSWORD`, `?passfile=FILE`, `~/.pgpass` or the systemd \
                 credential `outhaul-hub.database-password`"
            }
            _ => {
                "see whether the server runs and answers at that address; sites keep \
                 what was not acknowledged"
            }
        },
    }
}
