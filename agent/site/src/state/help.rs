//! What to do when the state of a site cannot be used.
//!
//! What comes in: why it cannot. What goes out: the ways out, as someone at the machine types them. It looks at which files are there, and whether the
//! copy of the holds can be read; it changes nothing.

use std::io;
use std::path::Path;

use outhaul_kit::text;
use rusqlite::ErrorCode;

use super::StateError;
use super::former::Former;
use super::holds::beside;
use super::saved::{self, put_back_command};
use crate::aside;
use crate::state_folder::{AtWork, Holder, LockError, REPORTS, RESCUED, StateFolder, why_closed};

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
            Self::Damaged { path, .. } => damaged_help(path),
            Self::OtherSite { path, found, .. } => format!(
                "stop the service first, where it runs (`systemctl stop outhaul-agent`); move that database out of the folder (`{moves}`), and put this site's own back with its own ones; where that is lost, and this site has a \
                 backup (`outhaul-agent backup` writes it), {restore}; without one, {again}; where this machine \
                 is to be {found} from now on, move the whole folder aside first and restore that site",
                moves = aside::database_command(path),
                restore = restore(path),
                again = enrol_anew(path)
            ),
            Self::OlderCopy { path, newer, .. } => older_help(path, newer.as_deref()),
            Self::Gone { path, .. } if is_being_restored(path.parent().unwrap_or(path)) => AT_RESTORE.into(),
            Self::Gone { path, .. } if StateFolder::new(path.parent().unwrap_or(path)).restore_is_begun() => BEGIN_ANEW.into(),
            Self::Gone { path, .. } => match (still_open(path), saved::beside(path)) {
                (Some(who), _) => still_open_help(path, &who),
                (None, Some(saved)) => rescued_help(path, &saved),
                (None, None) => format!("{}{}", moved_back(path), from_backup_or_kit(path)),
            },
            Self::Exchanged { path, former, .. } => exchanged_help(path, former),
            Self::Shortened { path, former, .. } => match former {
                Former::Rescued(saved) => format!(
                    "stop the service first, where it runs (`systemctl stop outhaul-agent`); move what is left of it out of the folder (`{moves}`), then {back}",
                    moves = aside::database_command(path),
                    back = put_back(path, saved)
                ),
                Former::ReportsSaved { folder, .. } => format!(
                    "copy `{}` onto a stick for the hub; {}; without one, {}",
                    text::path(folder),
                    from_backup(path),
                    without_backup(path)
                ),
                _ => format!("{}; without one, {}", from_backup(path), without_backup(path)),
            },
            Self::LockLost { .. } => "leave the file `lock` to the programs, which make it again: systemd starts the service again by itself, and \
                                      it goes on; a command is repeated"
                .into(),
            Self::Instead { path, .. } => format!(
                "find out who put it there, and move it out of the folder (`{moves}`); where it is a link to this site's own database, put that \
                 file, and those beside it whose names begin with its name, in its place, named `agent.db`, `agent.db-wal` and so on; else {again}",
                moves = aside::command(path),
                again = from_backup_or_kit(path)
            ),
            Self::Newer { .. } => "install the newer agent again".into(),
            Self::NotEnrolled { folder } if is_being_restored(folder) => AT_RESTORE.into(),
            Self::NotEnrolled { folder } if StateFolder::new(folder).restore_is_begun() => BEGIN_ANEW.into(),
            Self::NotEnrolled { .. } => {
                "run `outhaul-agent --state DIR enrol SITE.kit` first; if this machine was enrolled, name its \
                 state folder with `--state`"
                    .into()
            }
            Self::Floors { .. } => {
                "import a freshness slip that is newer than both (`outhaul slip` at the centre writes \
                 one), or restore the whole state folder from one backup; report it: someone may have \
                 put old files back"
                    .into()
            }
            Self::Value { .. } => "this is a defect, or the file was edited; report it".into(),
            Self::Key { .. } => format!(
                "the running bundle is not affected; stop the service first, where it runs (`systemctl stop outhaul-agent`); restore `site.key` where a \
                 copy of it is; where it is lost, {NEW_KEY}"
            ),
            Self::OtherPiece { path, .. } => format!(
                "stop the service first, where it runs (`systemctl stop outhaul-agent`); move that file out of the folder (`{moves}`), leave \
                 all else in it, and repeat the command; the service, or `outhaul-agent run --once`, writes `site.json` again, and \
                 `outhaul-agent enrol SITE.kit` with this site's kit its own request",
                moves = aside::command(path),
            ),
        }
    }
}

/// The way on where this site's own key is lost.
const NEW_KEY: &str = "move what is in its place out of the folder, if anything is, and enrol this site with a new kit (`outhaul site enrol SITE --again` at \
                       the centre writes one, `outhaul-agent enrol SITE.kit` enrols with it): that makes a new key, and keeps the database with the reports that \
                       wait";
/// After a restore that was interrupted before its end.
pub const BEGIN_ANEW: &str = "a restore into this folder was interrupted, and nothing of it counts yet: give it again (`outhaul-agent restore FILE`), which removes \
                          what the first one left and starts it over";
/// While one is at work.
const AT_RESTORE: &str =
    "a restore into this folder is at work: wait until that command has ended, and repeat this one";
/// The restore of this site from a backup, beside `database`.
fn restore(database: &Path) -> String {
    let folder = database.parent().unwrap_or(database);
    let of = StateFolder::new(folder);
    let holds_nothing = beside::read(&of).is_some_and(|holds| holds.count() == 0);
    let holds = (!holds_nothing).then(|| of.holds());
    let mut kept: Vec<_> = holds.into_iter().chain([of.floors()]).collect();
    kept.retain(|path| path.exists());
    if !kept.is_empty() && of.identity().exists() {
        kept.push(of.identity());
    }
    format!(
        "move the whole folder aside (`{moves}`) and give `outhaul-agent restore FILE`",
        moves = aside::folder_command(folder, &kept)
    )
}

/// The way back that keeps what the site knew.
fn from_backup(database: &Path) -> String {
    format!(
        "stop the service first, where it runs (`systemctl stop outhaul-agent`); then, where this site has a backup (`outhaul-agent backup` writes \
         it), {}",
        restore(database)
    )
}

/// The ways back to a database.
fn from_backup_or_kit(database: &Path) -> String {
    format!(
        "{}; without one, enrol this site with a new kit (`outhaul site enrol` at the centre), and leave all else in the folder: {}{}",
        from_backup(database),
        known_again(database),
        damaged_saved(database)
    )
}

fn is_being_restored(folder: &Path) -> bool {
    StateFolder::new(folder).restore_is_at_work()
}

/// The way back where the database is an older copy, and `newer` was saved beside it.
fn older_help(path: &Path, newer: Option<&Path>) -> String {
    match newer {
        Some(newer) => format!(
            "the newer one was removed while a process worked with it, and is saved in `{saved}`: stop the service first, where it runs (`systemctl stop \
             outhaul-agent`); move the older one out of the folder (`{moves}`), then {back}",
            saved = text::path(newer),
            moves = aside::database_command(path),
            back = put_back(path, newer)
        ),
        None => format!(
            "stop the service first, where it runs (`systemctl stop outhaul-agent`), and put the newer one back, where it still is; else, where this \
             site has a backup (`outhaul-agent backup` writes it), {}, which renumbers the reports; without one, {}",
            restore(path),
            without_backup(path)
        ),
    }
}

/// The way back where the database is damaged.
fn damaged_help(path: &Path) -> String {
    match saved::beside(path) {
        // It may have reports that were made since: it is moved, and nothing of it is removed.
        Some(saved) => format!(
            "what it held when it was saved last is in `{saved}`: stop the service first, where it runs (`systemctl stop outhaul-agent`); move the damaged \
             one out of the folder, which keeps it for analysis (`{moves}`), then {back}; where this site has a backup that is newer (`outhaul-agent \
             backup` writes it), {instead}",
            instead = restore(path),
            saved = text::path(&saved),
            moves = aside::database_command(path),
            back = put_back(path, &saved)
        ),
        None => format!(
            "{}; without one, copy the folder away for analysis, {}{}",
            from_backup(path),
            without_backup(path),
            damaged_saved(path)
        ),
    }
}

/// What to do where the database was exchanged while a process worked with it: nothing where another one is right, else what one does
/// after a loss.
fn exchanged_help(path: &Path, former: &Former) -> String {
    match (path.exists(), former) {
        (true, Former::Rescued(saved)) => format!(
            "where this site was restored or enrolled again, this is right: systemd starts the service again by itself, which then works with the \
             new one; a command is repeated; reports that only the former one had are in `{reports}`, where there were any: copy that folder onto \
             a stick for the hub; where nobody meant to replace the file, stop the service first (`systemctl stop outhaul-agent`), move what is \
             there now away (`{moves}`), {back}",
            moves = aside::database_command(path),
            reports = text::path(&saved.with_file_name(REPORTS)),
            back = put_back(path, saved)
        ),
        (true, Former::ReportsSaved { folder, .. }) => format!(
            "where this site was restored or enrolled again, this is right: systemd starts the service again by itself, which then works with the \
             new one; a command is repeated; copy `{}` onto a stick for the hub",
            text::path(folder)
        ),
        (true, _) => "where this site was restored or enrolled again, this is right: systemd starts the service again by itself, which then works \
                 with the new one (a single file that was put in its place goes with no `-wal` and `-shm` of the other one: stop the service and move \
                 those away first); a command is repeated; where nobody meant to replace the file, stop the service first \
                 (`systemctl stop outhaul-agent`), put the former one back, with those beside it whose names begin with its name, and start the service"
            .to_owned(),
        (false, Former::Rescued(saved)) => rescued_help(path, saved),
        (false, Former::ReportsSaved { folder, .. }) => format!(
            "copy `{}` onto a stick for the hub first; then {}",
            text::path(folder),
            from_backup_or_kit(path)
        ),
        (false, Former::NotSaved(_) | Former::Lost(_)) => {
            let reports = path.with_file_name(RESCUED).join(REPORTS);
            let first = match reports.exists() {
                true => format!("copy `{}` onto a stick for the hub first; then ", text::path(&reports)),
                false => String::new(),
            };
            format!("{first}{}", from_backup_or_kit(path))
        }
        (false, _) => format!(
            "where the file or its folder was moved, stop the service first (`systemctl stop outhaul-agent`), move it back, with the files \
             beside it whose names begin with its name, and start the service; where it is lost, {}",
            from_backup_or_kit(path)
        ),
    }
}

/// The way back that loses nothing, where a database is not at its path: someone may only have moved it.
fn moved_back(path: &Path) -> String {
    if path.exists() {
        return String::new();
    }
    let beside = aside::BESIDE_DATABASE.map(|end| aside::ending(path, end));
    let left = beside.iter().filter(|path| path.exists());
    let left: Vec<_> = left
        .filter_map(|path| Some(format!("`{}`", text::path(path.file_name()?.as_ref()))))
        .collect();
    let leave = match left.as_slice() {
        [] => String::new(),
        left => format!(
            "; {} beside it belong to it: leave them there until then",
            left.join(" and ")
        ),
    };
    format!(
        "where it was moved, stop the service (`systemctl stop outhaul-agent`), move it back to `{}`, with the files that were moved with it and whose \
         names begin with its name, and start the service, which goes on with all that it knew then{leave}; where it is lost, ",
        text::path(path)
    )
}

/// Who may still have the database open that is not at `path`: what is in it can be saved as long as that process is there.
fn still_open(path: &Path) -> Option<AtWork> {
    match StateFolder::new(path.parent()?).at_work() {
        found @ (AtWork::Service | AtWork::Command(Holder::Process(_))) => Some(found),
        AtWork::Command(Holder::Unknown(_) | Holder::Folder(_)) | AtWork::Nobody => None,
    }
}

/// What to do while a process may still have the database open.
fn still_open_help(path: &Path, who: &AtWork) -> String {
    let unsaved = StateFolder::new(path.parent().unwrap_or(path)).unsaved();
    if let Some(problem) = unsaved {
        return format!(
            "the service runs, still has the database open and could not save it yet: {problem}. Leave the service running (no `systemctl stop \
             outhaul-agent`, no restart of this machine): what is in the database is lost with it. Free some space on that file system (`df -h {typed}` shows it), or \
             let the service's user into the folder again: it tries to save it every few seconds, and ends by itself then; repeat this command, which then \
             prints the command that puts the saved one back",
            typed = text::quoted(path.parent().unwrap_or(path))
        );
    }
    let (who, end) = match who {
        AtWork::Command(holder) => (
            format!("{holder} works on this state folder and may still have the database open: where the file was removed, it saves"),
            "wait until that command has ended",
        ),
        AtWork::Service | AtWork::Nobody => (
            "the service runs and still has the database open: where the file was removed, it saves".to_owned(),
            "stop the service (`systemctl stop outhaul-agent`)",
        ),
    };
    format!(
        "{who} all that is in it in `rescued` before it ends; {end} and repeat this command, which then prints the command that puts the saved one \
         back; where the file was moved, {end} as well, and move the file back, with the files beside it whose names begin with its name"
    )
}

/// The way back to a database that was removed and saved.
fn rescued_help(path: &Path, saved: &Path) -> String {
    format!(
        "stop the service first, where it runs (`systemctl stop outhaul-agent`); then {}",
        put_back(path, saved)
    )
}

/// How a saved database becomes the one of this site again.
pub fn put_back(path: &Path, saved: &Path) -> String {
    let key = match path.with_file_name("site.key").exists() {
        true => "and start the service".to_owned(),
        false => format!(
            "and restore `site.key`, which is not there either, where a copy of it is; where that is lost, {NEW_KEY}; then start the service"
        ),
    };
    let command = put_back_command(path, saved);
    format!("put the saved one in its place (`{command}`), {key}")
}

/// That saved databases are damaged, where some are: they are no way back.
fn damaged_saved(path: &Path) -> String {
    let damaged = saved::damaged_beside(path);
    let named: Vec<_> = damaged
        .iter()
        .map(|path| format!("`{}`", text::path(path)))
        .collect();
    match named.is_empty() {
        true => String::new(),
        false => format!(
            "; what is saved in {} is damaged, and no way back",
            named.join(" and ")
        ),
    }
}

/// The way on without a backup.
fn without_backup(path: &Path) -> String {
    format!(
        "move `{}` aside, with what is beside it (`{}`), and {}",
        text::path(path),
        aside::database_command(path),
        enrol_anew(path)
    )
}

/// The same, where the database is out of the folder already.
fn enrol_anew(path: &Path) -> String {
    format!(
        "enrol this site with a new kit (`outhaul site enrol` at the centre); leave all else in the folder: {}",
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
    let folder = StateFolder::new(database.parent().unwrap_or(database));
    let again = "where something was, give `outhaul-agent hold`, or for one assignment `outhaul-agent hold --assignment NAME`, again before the \
                 next bundle is imported";
    let holds = match (beside::read(&folder).is_some(), folder.holds().exists()) {
        (true, _) => "and what people hold, from `holds.json`".to_owned(),
        (false, true) => match why_closed(&folder.holds()) {
            Some(error) => format!(
                "what people held is not, unless this user may read `holds.json` ({error}): let that user read it first; else {again}"
            ),
            None => format!("what people held is not, because `holds.json` is damaged: {again}"),
        },
        (false, false) => format!("what people held is not: {again}"),
    };
    format!(
        "{floors}; what the kept bundles applied is known again, with values that were set here where their files show them; {holds}"
    )
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

/// Space, permission, damage and someone else at work: each has its own way out.
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
             where this site has a backup (`outhaul-agent backup` writes it), move the whole folder aside, put its folder `rescued`, where it has one, into a new one of the same name, and give \
             `outhaul-agent restore FILE`; without one, copy the folder away for analysis, move `agent.db` in it aside, with those files beside it whose names begin with its name, and enrol this site with a new kit (`outhaul site enrol` at the centre); leave all else in \
             the folder"
        }
        _ => "look at the disk, then repeat the command",
    }
}
