//! Whose the state folder is, and whether the user who gives a command can work with it.
//!
//! What comes in: the state folder, and whether it may be no site's yet; or the error of a file that a person named, and the command that takes it. What
//! goes out: nothing, or an error that names the file, its owner and mode, and the commands that put it right: one file that another user made keeps the
//! agent from its work, and neither that user's command nor this one's helps. It changes nothing.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use outhaul_kit::text;
use rustix::fs::Access;

use outhaul_kit::durable::{self, FileError};
use outhaul_site::rescued;
use outhaul_site::state_folder::{DATABASE_FILES, FOLDERS, LOCK, REPLACED_FILES, StateFolder};

use crate::error::AgentError;

/// How many are named.
const MAX_NAMED: usize = 3;

/// Refuses a state folder with files that this user cannot use; `is_new` where it may be no site's yet.
///
/// # Errors
/// [`AgentError::Owner`]
pub fn check(state: &Path, is_new: bool) -> Result<(), AgentError> {
    let folder = StateFolder::new(state);
    let Some(found) = fs::metadata(folder.root()).ok().filter(Metadata::is_dir) else {
        return Ok(());
    };
    match rustix::process::geteuid().as_raw() {
        // What someone put into a folder before it is a site's is refused as such, and given to nobody.
        0 if is_new => Ok(()),
        0 => check_as_root(&folder, &found),
        own if found.uid() != own => Err(of_another(&folder, &found, own)),
        _ if is_new => Ok(()),
        own => check_files(&folder, own),
    }
}

/// A folder of root with the database of another user in it: whatever root writes there, that user can neither read nor replace, and that
/// user cannot enter it.
fn check_as_root(folder: &StateFolder, found: &Metadata) -> Result<(), AgentError> {
    let database = fs::symlink_metadata(folder.database());
    let Some(database) = database
        .ok()
        .filter(|database| database.uid() != 0 && found.uid() == 0)
    else {
        return Ok(());
    };
    let (uid, gid) = (database.uid(), database.gid());
    let (shown, typed) = (text::path(folder.root()), text::quoted(folder.root()));
    Err(AgentError::Owner {
        message: format!(
            "`{shown}` belongs to user 0 (root), and `agent.db` in it to user {uid}: neither of them can work with both; nothing was changed"
        ),
        help: format!(
            "where this site's agent runs as user {uid}, give that user all of it (`chown -R {uid}:{gid} {typed}`); where it runs as root, give root all of it \
             (`chown -R 0:0 {typed}`); then repeat the command as that user"
        ),
    })
}

/// The whole folder is another user's.
fn of_another(folder: &StateFolder, found: &Metadata, own: u32) -> AgentError {
    let gid = rustix::process::getegid().as_raw();
    let (shown, typed) = (text::path(folder.root()), text::quoted(folder.root()));
    let owner = found.uid();
    let (who, how) = match owner {
        0 => ("root".to_owned(), "put `sudo` in front of it".to_owned()),
        _ => (
            format!("user {owner}"),
            format!("put `sudo -u '#{owner}'` in front of it"),
        ),
    };
    AgentError::Owner {
        message: format!(
            "`{shown}` {}, and this command runs as user {own}, who does not own the state folder; nothing was changed",
            belongs(found)
        ),
        help: format!(
            "where this site's agent runs as {who}, repeat the command as {who}: {how}; where it runs as user {own}, such as by `User=` in its unit, \
             give that user the folder first (`sudo chown -R {own}:{gid} {typed}`)"
        ),
    }
}

/// Where a file lies that another user than the agent's brought, or takes away.
const BETWEEN: &str = "/var/tmp";

/// The error for a file that a person named, such as a kit in that person's own folder, and that the user whose the state folder is may not read: the
/// person may not use the state folder in turn. `command` takes it, with the options that were given: what is printed does the same in the same `state`
/// folder.
pub fn not_readable(error: FileError, file: &Path, (state, command): (&Path, &str)) -> AgentError {
    let Some((uid, gid)) = refused_user(&error) else {
        return error.into();
    };
    let copy = Path::new(BETWEEN).join(file.file_name().unwrap_or_default());
    let (file, copy) = (text::quoted(file), text::quoted(copy));
    AgentError::Owner {
        message: format!("{error}, and this command runs as user {uid}; nothing was changed"),
        help: format!(
            "let that user have a copy (`sudo install -m 600 -o {uid} -g {gid} {file} {copy}`), then give `{again} {copy}`, and remove the copy \
             (`sudo rm {copy}`)",
            again = as_user(uid, state, command)
        ),
    }
}

/// The same for a file that is to be written to a folder which that user may not write to.
pub fn not_writable(error: FileError, file: &Path, (state, command): (&Path, &str)) -> AgentError {
    let Some((uid, gid)) = refused_user(&error) else {
        return error.into();
    };
    let folder = Path::new(BETWEEN).join(format!("outhaul-of-{uid}"));
    let to = folder.join(file.file_name().unwrap_or_default());
    let (file, folder, to) = (text::quoted(file), text::quoted(folder), text::quoted(to));
    AgentError::Owner {
        message: format!("{error}, and this command runs as user {uid}; nothing was written"),
        help: format!(
            "make a folder of that user (`sudo install -d -m 700 -o {uid} -g {gid} {folder}`), give `{again} {to}`, and move the file from there \
             (`sudo mv {to} {file}`)",
            again = as_user(uid, state, command)
        ),
    }
}

/// Who runs, where the file is closed to that user; `None` where another error is in the way, or root runs.
fn refused_user(error: &FileError) -> Option<(u32, u32)> {
    let own = rustix::process::geteuid();
    let is_refused = !own.is_root() && error.source.kind() == io::ErrorKind::PermissionDenied;
    is_refused.then(|| (own.as_raw(), rustix::process::getegid().as_raw()))
}

/// A command of this program as it is given for another user. The state folder is always named: `sudo` passes no variable on that names it.
fn as_user(uid: u32, state: &Path, command: &str) -> String {
    let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
    format!(
        "sudo -u '#{uid}' outhaul-agent --state {} {command}",
        text::quoted(state)
    )
}

/// A text with commands as root gives them for the user whose the state folder is: what root wrote there, that user could neither read nor replace.
pub fn as_owner(text: &str, state: &Path) -> String {
    let owner = fs::metadata(state).map_or(0, |found| found.uid());
    match rustix::process::geteuid().is_root() && owner != 0 {
        true => text.replace(
            "`outhaul-agent ",
            &format!("`{}", as_user(owner, state, "")),
        ),
        false => text.to_owned(),
    }
}

/// Single files in this user's folder are another's, or closed to it.
fn check_files(folder: &StateFolder, own: u32) -> Result<(), AgentError> {
    let gid = rustix::process::getegid().as_raw();
    let typed = text::quoted(folder.root());
    let unusable = unusable(folder, own);
    let Some((_, first)) = unusable.first() else {
        return Ok(());
    };
    let named: Vec<String> = unusable
        .iter()
        .map(|(path, found)| format!("`{}` {}", text::path(path), belongs(found)))
        .collect();
    let named = text::named(&named, MAX_NAMED);
    let help = match (
        unusable.iter().all(|(_, found)| found.uid() == own),
        first.uid(),
    ) {
        (true, _) => format!(
            "`chmod -R u+rwX {typed}` lets their owner read and write them; then repeat the command"
        ),
        (false, _) => format!(
            "`sudo chown -R {own}:{gid} {typed}` gives that user all of it; then repeat the command"
        ),
    };
    Err(AgentError::Owner {
        message: format!(
            "{named}, and the state folder belongs to user {own}, who cannot work with that; nothing was changed"
        ),
        help,
    })
}

/// Whose it is, and its mode.
fn belongs(found: &Metadata) -> String {
    let root = if found.uid() == 0 { " (root)" } else { "" };
    let mode = found.mode() & 0o7777;
    format!("belongs to user {}{root}, mode {mode:o}", found.uid())
}

/// What is in a folder; nothing where it cannot be listed, which its own entry shows.
fn list(path: &Path) -> Vec<PathBuf> {
    durable::list(path).unwrap_or_default()
}

/// What in the folder the user `own`, whose it is, cannot use.
fn unusable(folder: &StateFolder, own: u32) -> Vec<(PathBuf, Metadata)> {
    let at = |name: &&str| folder.root().join(name);
    let nested = list(&folder.generations());
    let reports = rescued::folder(folder);
    let saved = [
        reports.parent().map(list).unwrap_or_default(),
        list(&reports),
    ]
    .concat();
    let (saved_folders, saved): (Vec<_>, Vec<_>) =
        saved.into_iter().partition(|path| path.is_dir());
    let saved = saved.into_iter().map(|path| (path, Access::READ_OK, false));
    // Opened for writing, or their mode is set: their owner has to be the agent's user.
    let written = [LOCK].iter().chain(&DATABASE_FILES).map(at);
    let written = written.map(|path| (path, Access::READ_OK | Access::WRITE_OK, true));
    let read = REPLACED_FILES
        .iter()
        .map(at)
        .map(|path| (path, Access::READ_OK, false));
    let folders = FOLDERS.iter().map(at).chain(nested).chain(saved_folders);
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let folders = folders.map(|path| (path, all, false));
    let settings = (folder.config(), Access::READ_OK, false);
    let whole = [(folder.root().to_owned(), all, false)].into_iter();
    whole
        .chain(written)
        .chain(read)
        .chain(folders)
        .chain(saved)
        .chain([settings])
        .filter_map(|(path, access, owned)| {
            // What is not there, or leads elsewhere, others look at.
            let found = fs::symlink_metadata(&path)
                .ok()
                .filter(|found| !found.is_symlink())?;
            let may = rustix::fs::access(&path, access);
            let refused = may.is_err_and(|error| error == rustix::io::Errno::ACCESS);
            (refused || (owned && found.uid() != own)).then_some((path, found))
        })
        .collect()
}
