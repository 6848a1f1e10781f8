//! Why the state of a site cannot be used, and what to do then.
//!
//! What comes in: what SQLite, the disk or another agent said. What goes out: a sentence, a way out, an exit code. It looks
//! at nothing but which files are there, and changes nothing.

use std::io;
use std::path::{Path, PathBuf};

use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_kit::text;
use outhaul_signer::KeyError;
use rusqlite::ErrorCode;

use super::former::{Former, saved_beside};
use crate::durable::{self, FileError};
use crate::state_folder::LockError;

/// Why the memory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file beside the database.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another agent.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// SQLite failed.
    #[error("the database failed to {doing}: {source}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: rusqlite::Error,
    },
    /// The database file is not a database any more.
    #[error(
        "the database `{}` is damaged ({problem}); what runs on this site was not touched",
        text::path(path)
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        problem: String,
    },
    /// Written by a newer agent.
    #[error("the database is of version {found}; this agent knows versions up to {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// The newest known.
        known: i64,
    },
    /// The file system of the state folder is full.
    #[error(
        "no space is left on the file system of `{}`: the database failed to {doing}",
        text::path(folder)
    )]
    NoSpace {
        /// The state folder.
        folder: PathBuf,
        /// What was being done.
        doing: &'static str,
    },
    /// A stored value that this agent did not write.
    #[error("the stored {what} cannot be read: {problem}")]
    Value {
        /// Which value.
        what: String,
        /// What is wrong.
        problem: String,
    },
    /// The file system of the state folder is mounted read-only.
    #[error(
        "the file system of `{}` is read-only: the database failed to {doing}; nothing was changed, and what runs on this site goes on",
        folder.display()
    )]
    ReadOnly {
        /// The state folder.
        folder: PathBuf,
        /// What was being done.
        doing: &'static str,
    },
    /// Something else lies in the place of the database.
    #[error(
        "in the place of the database `{}` is {found}: it was not opened, and what runs on this site was not touched",
        path.display()
    )]
    Instead {
        /// The place.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The site has no identity yet.
    #[error(
        "there is no site in `{}`: {}",
        outhaul_kit::text::path(folder),
        what_lacks(folder)
    )]
    NotEnrolled {
        /// The state folder.
        folder: PathBuf,
    },
    /// The database of a machine that was a site is not there.
    #[error(
        "the database `{}` {how}, though `{beside}` beside it shows that this machine was a site; what runs on it \
         was not touched", path.display()
    )]
    Gone {
        /// The file.
        path: PathBuf,
        /// That it is gone, or empty.
        how: &'static str,
        /// What shows it.
        beside: String,
    },
    /// The database that was opened is not at its path any more.
    #[error(
        "the database `{}` {how}, while this process worked with the one that was there before: it ends now, and what runs on this \
         site goes on; {}",
        text::path(path),
        of_former(former)
    )]
    Exchanged {
        /// The file.
        path: PathBuf,
        /// That it is gone, or another one.
        how: &'static str,
        /// What became of the one that was opened.
        former: Former,
    },
    /// The database is of another site than the folder.
    #[error(
        "the database `{}` is of {found}, and this is the state folder of {own}, as `{shown}` in it shows: it was not used, and what runs on \
         this site was not touched",
        text::path(path)
    )]
    OtherSite {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose the folder is.
        own: String,
        /// What shows it.
        shown: String,
    },
    /// The database is a copy from before the one that reported last.
    #[error(
        "the database `{}` is an older copy than the one that this site worked with last ({problem}): with it, numbers of reports would be given \
         twice, and the hub would count none of the two; what runs on this site was not touched",
        text::path(path)
    )]
    OlderCopy {
        /// The file.
        path: PathBuf,
        /// What shows it.
        problem: String,
    },
    /// The lock that this process holds is not at its path any more.
    #[error(
        "the lock `{}` {how}, while this process worked under it: other programs do not see any more that the state folder is in use, so that \
         this one ends now, between two steps; the next start goes on from there, and what runs on this site goes on",
        text::path(path)
    )]
    LockLost {
        /// The file.
        path: PathBuf,
        /// That it is gone, or another one.
        how: &'static str,
    },
    /// The record of the highest versions was tampered with or lost.
    #[error("{problem}; no bundle is accepted until that is fixed, what runs continues")]
    Floors {
        /// What contradicts what.
        problem: String,
    },
    /// A report could not be signed.
    #[error("the site's key cannot be used: {problem}")]
    Key {
        /// What is wrong.
        problem: String,
    },
}

impl Classified for StateError {
    fn class(&self) -> FailureClass {
        match self {
            Self::NotEnrolled { .. } => FailureClass::Usage,
            Self::Floors { .. } => FailureClass::Trust,
            Self::Value { .. } => FailureClass::Internal,
            _ => FailureClass::Environment,
        }
    }
}

impl StateError {
    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::File(error) | Self::Lock(LockError::File(error))
                if error.source.kind() == io::ErrorKind::ReadOnlyFilesystem =>
            {
                read_only_help(&error.path)
            }
            Self::File(error) | Self::Lock(LockError::File(error)) => error.help(),
            Self::ReadOnly { folder, .. } => read_only_help(folder),
            Self::Lock(LockError::Busy { .. }) => {
                "if that is the service, stop it first (`systemctl stop outhaul-agent`), repeat the command, and start it again \
                 (`systemctl start outhaul-agent`); else wait until that command has ended"
                    .into()
            }
            Self::Database { source, .. } => database_help(source.sqlite_error_code()).into(),
            Self::NoSpace { folder, .. } => format!(
                "free some space there (`df -h {}` shows it) and repeat the command; the service, where it runs, goes on by \
                 itself then; {}",
                text::quoted(folder),
                removable_help(folder)
            ),
            Self::Damaged { path, .. } => format!(
                "{FROM_BACKUP}; without one, copy the folder away for analysis, {}",
                anew(path)
            ),
            Self::OtherSite { path, found, .. } => format!(
                "stop the service first, where it runs (`systemctl stop outhaul-agent`); move that database out of the folder (`mv {typed} {aside}`), with those \
                 files beside it whose names begin with its name, and put this site's own back with its own ones; where that is lost, and this site has a \
                 backup (`outhaul-agent backup` writes it), move the whole folder aside and give `outhaul-agent restore FILE`; without one, {anew}; where this machine \
                 is to be {found} from now on, move the whole folder aside first and restore that site",
                typed = text::quoted(path),
                aside = text::quoted(aside(path)),
                anew = anew(path)
            ),
            Self::OlderCopy { path, .. } => format!(
                "stop the service first, where it runs (`systemctl stop outhaul-agent`), and put the newer one back, where it still is; else, where this \
                 site has a backup (`outhaul-agent backup` writes it), move the whole folder aside and give `outhaul-agent restore FILE`, which numbers \
                 reports anew; without one, {}",
                anew(path)
            ),
            Self::Gone { path, .. } => match saved_beside(path) {
                Some(saved) => rescued_help(path, &saved),
                None => format!("{FROM_BACKUP_OR_KIT}: {}", known_again(path)),
            },
            Self::Exchanged { path, former, .. } => exchanged_help(path, former),
            Self::LockLost { .. } => "leave the file `lock` to the programs, which make it anew: systemd starts the service again by itself, and \
                                      it goes on; a command is repeated"
                .into(),
            Self::Instead { path, .. } => format!(
                "find out who put it there, and move it out of the folder (`mv {path} {aside}`); where it is a link to this site's own database, put that \
                 file, and those beside it whose names begin with its name, in its place, named `agent.db`, `agent.db-wal` and so on; else {FROM_BACKUP_OR_KIT}: {again}",
                path = text::quoted(path),
                aside = text::quoted(aside(path)),
                again = known_again(path)
            ),
            Self::Newer { .. } => "install the newer agent again".into(),
            Self::NotEnrolled { .. } => {
                "run `outhaul-agent --state DIR enrol SITE.kit` first; if this machine was enrolled, name its \
                 state folder with `--state`"
                    .into()
            }
            Self::Floors { .. } => {
                "import a freshness slip that is newer than both (`outhaul slip` at the centre writes \
                 one), or restore the whole state folder from one backup; report it: somebody may have \
                 put old files back"
                    .into()
            }
            Self::Value { .. } => "this is a defect, or the file was edited; report it".into(),
            Self::Key { .. } => {
                "the running bundle is not affected; restore `site.key` from a backup of the state folder, or ask the centre \
                 for a new kit (`outhaul site enrol`)"
                    .into()
            }
        }
    }
}

/// The way back that keeps what the site knew.
const FROM_BACKUP: &str = "stop the service first, where it runs (`systemctl stop outhaul-agent`); then, where this site has a backup \
                           (`outhaul-agent backup` writes it), move the whole folder aside and give `outhaul-agent restore FILE`";
/// The ways back to a database.
const FROM_BACKUP_OR_KIT: &str = "stop the service first, where it runs (`systemctl stop outhaul-agent`); then, where this site has a backup \
                                  (`outhaul-agent backup` writes it), move the whole folder aside and give `outhaul-agent restore FILE`; \
                                  without one, enrol this site with a new kit (`outhaul site enrol` at the \
                                  centre), and leave all else in the folder";

/// What became of the database that a process worked with.
fn of_former(former: &Former) -> String {
    match former {
        Former::Elsewhere => "reports that had not reached the hub are in that one only".to_owned(),
        Former::Rescued(saved) => format!(
            "that one was removed, and all that it held is saved in `{}`, with the reports that had not reached the hub",
            text::path(saved)
        ),
        Former::Lost(problem) => format!(
            "that one was removed and could not be saved ({problem}): reports in it that had not reached the hub are lost"
        ),
    }
}

/// What to do where the database was exchanged while a process worked with it: nothing where another one is right, else what one does
/// after a loss.
fn exchanged_help(path: &Path, former: &Former) -> String {
    match (path.exists(), former) {
        (true, Former::Rescued(saved)) => format!(
            "where this site was restored or enrolled anew, this is right: systemd starts the service again by itself, which then works with the \
             new one; a command is repeated; reports that only the former one had are in `{reports}`, where there were any: copy that folder onto \
             a stick for the hub; where nobody meant to replace the file, stop the service first (`systemctl stop outhaul-agent`), move what is \
             there now away, {back}",
            reports = text::path(&saved.with_file_name("reports")),
            back = put_back(path, saved)
        ),
        (true, _) => "where this site was restored or enrolled anew, this is right: systemd starts the service again by itself, which then works \
                 with the new one (a single file that was put in its place goes with no `-wal` and `-shm` of the other one: stop the service and move \
                 those away first); a command is repeated; where nobody meant to replace the file, stop the service first \
                 (`systemctl stop outhaul-agent`), put the former one back, with those beside it whose names begin with its name, and start the service"
            .to_owned(),
        (false, Former::Rescued(saved)) => rescued_help(path, saved),
        (false, _) => format!(
            "where the file or its folder was moved, stop the service first (`systemctl stop outhaul-agent`), move it back, with the files \
             beside it whose names begin with its name, and start the service; where it is lost, {FROM_BACKUP_OR_KIT}: {}",
            known_again(path)
        ),
    }
}

/// The way back to a database that was removed and saved.
fn rescued_help(path: &Path, saved: &Path) -> String {
    format!(
        "stop the service first, where it runs (`systemctl stop outhaul-agent`); then {}",
        put_back(path, saved)
    )
}

/// How a saved database becomes the one of this site again. What SQLite wrote beside the removed one would be put into it.
fn put_back(path: &Path, saved: &Path) -> String {
    let beside = |end: &str| text::quoted(path.with_file_name(format!("agent.db{end}")));
    format!(
        "put the saved one in its place (`rm -f {wal} {shm} && mv {saved} {path}`), and start the service",
        wal = beside("-wal"),
        shm = beside("-shm"),
        saved = text::quoted(saved),
        path = text::quoted(path)
    )
}

/// The way on without a backup.
fn anew(path: &Path) -> String {
    format!(
        "move `{}` aside, and enrol this site with a new kit (`outhaul site enrol` at the centre); leave all else in the folder: {}",
        text::path(path),
        known_again(path)
    )
}

/// What an enrolment knows again, and what it does not, beside the lost `database`.
fn known_again(database: &Path) -> String {
    let floors = match database.with_file_name("floors.json").exists() {
        true => "`floors.json` keeps older bundles out",
        false => {
            "`floors.json` is gone, too, so that only the kept bundles show which older ones are refused (`enrol` lists them)"
        }
    };
    let holds = match database.with_file_name("holds.json").exists() {
        true => "and what people hold, from `holds.json`",
        false => {
            "what people held is not: where something was, give `outhaul-agent hold` again before the next bundle is imported"
        }
    };
    format!(
        "{floors}; what the kept bundles applied is known again, with values that were set here where their files show them; {holds}"
    )
}

/// Where what is in the place of the database can lie: beside the state folder, where it keeps nobody from anything.
fn aside(path: &Path) -> PathBuf {
    let beside = path.parent().and_then(Path::parent).unwrap_or(path);
    beside.join("agent.db.aside")
}

/// What lacks where there is no site: a folder, or what makes it a site's.
fn what_lacks(folder: &Path) -> String {
    match durable::first_missing(folder) {
        Some(missing) => format!("`{}` does not exist", text::path(&missing)),
        None => "it holds no identity".to_owned(),
    }
}

/// What may be removed of a state folder whose file system is full, and what must stay.
pub fn removable_help(folder: &Path) -> String {
    let folder = text::path(folder);
    format!(
        "of what lies in `{folder}`, only what is in `{folder}/blobs/partial` and the folders in `{folder}/generations` of bundles with a lower \
         number than the active one may be removed (`rollback` to these is not possible then), and none of these folders unless it is known which bundle is \
         active and that nothing is held on this site (where the database can still be read, `outhaul-agent status` shows both): a held assignment runs from \
         the folder of the bundle that it is held at; and while a rollback is under way not the one that it goes back to; never `agent.db` and the files whose \
         names begin so, \
         `floors.json`, `site.key`, `identities`, or the folder of the active bundle"
    )
}

/// A file system is mounted so, or the kernel has made it so after errors of the disk.
fn read_only_help(path: &Path) -> String {
    let path = text::quoted(path);
    format!(
        "`findmnt -T {path}` shows how it is mounted, and `dmesg` whether the kernel made it read-only after errors of the disk: then check \
         the disk first; `mount -o remount,rw` and the mount point make it writable, and the command may be repeated; until then nothing \
         new is applied and no report is made"
    )
}

/// Space, permission, damage and somebody else at work: each has its own way out.
fn database_help(code: Option<ErrorCode>) -> &'static str {
    match code {
        Some(ErrorCode::DiskFull) => {
            "free some space on the state folder's file system (`df -h` shows it) and repeat the command"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "run the command as the user that owns the state folder (usually with `sudo`), and check that \
             its file system is mounted writable"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another command is at work on it: wait for it and repeat this one"
        }
        Some(ErrorCode::CannotOpen | ErrorCode::SystemIoFailure) => {
            "check the space (`df -h`) and the permissions of the state folder, then the disk (`dmesg`), \
             and repeat the command"
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            "the database is damaged, and repeating does not help: stop the service first, where it runs (`systemctl stop outhaul-agent`); then, \
             where this site has a backup (`outhaul-agent backup` writes it), move the whole folder aside and give `outhaul-agent restore FILE`; without one, copy the folder away for analysis, move `agent.db` \
             in it aside, and enrol this site with a new kit (`outhaul site enrol` at the centre); leave all else in \
             the folder"
        }
        _ => "look at the disk, then repeat the command",
    }
}

impl From<KeyError> for StateError {
    /// A key file that cannot be read or written is the disk's matter; one that is gone or damaged the
    /// key's.
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::File(error) if !error.is_missing() => Self::File(error),
            other => Self::Key {
                problem: text::chain(&other),
            },
        }
    }
}
