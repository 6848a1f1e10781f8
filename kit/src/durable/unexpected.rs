//! Something else than a file or folder that must be there: what it is, and what to do.
//!
//! What comes in: the kind of what a file system has at a path. What goes out: words for it, and the way out. It looks at nothing but the
//! user whom the program runs as.

use std::fmt;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::FileType;

use crate::text;

/// Something other than what must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unexpected {
    /// What is there: `a symbolic link` …
    pub found: &'static str,
    /// What must be there: `a regular file` …
    pub expected: &'static str,
}

/// What must be in a folder of a program's own.
pub const OWN_ENTRY: &str = "the agent's own file or folder";
/// What must be there where a program has a file.
pub const OWN_FILE: &str = "the agent's own file";
/// What must be there where a program makes a file again that lacks, and one of another time does harm: a lock, what a database writes beside it.
pub const OWN_WORKING_FILE: &str = "the agent's own file, which it makes itself";
/// What must be there where a program makes a folder again that lacks.
pub const OWN_WORKING_FOLDER: &str = "the agent's own folder, which it makes itself";
/// What must be there where what another user put into a folder would become a program's own.
pub const OWN_USERS: &str = "this user's own";
/// What is read.
pub(super) const ENTRY: &str = "a regular file of this program's user";
/// The words of [`kind_of`] for a link.
pub const LINK: &str = "a symbolic link";

/// What a file system has at a path, in words: `a symbolic link`, `a FIFO` …
pub fn kind_of(kind: fs::FileType) -> &'static str {
    let known = [
        (kind.is_symlink(), FileType::Symlink),
        (kind.is_dir(), FileType::Directory),
        (kind.is_file(), FileType::RegularFile),
        (kind.is_fifo(), FileType::Fifo),
        (kind.is_socket(), FileType::Socket),
        (kind.is_block_device(), FileType::BlockDevice),
        (kind.is_char_device(), FileType::CharacterDevice),
    ];
    let of = known.into_iter().find(|(is_it, _)| *is_it);
    found(of.map_or(FileType::Unknown, |(_, kind)| kind))
}

/// What is there, in words.
pub(crate) fn found(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Directory => "a folder",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        FileType::RegularFile => "a regular file",
        FileType::Unknown => "of an unknown kind",
    }
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, expected } = self;
        write!(f, "it is {found}, not {expected}; it was not opened")
    }
}

impl std::error::Error for Unexpected {}

impl Unexpected {
    /// What to do, where `doing` to `path` found it.
    pub(super) fn help(&self, doing: &str, path: &Path) -> String {
        if self.expected == OWN_USERS {
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            return format!(
                "find out who put it there, and look at what is in it: where it is this site's own, such as reports that were saved by a service of that user, \
                 give it to the user who gives this command (`sudo chown -R {}:{} {}`); else move it out of the folder; then repeat the command",
                user.as_raw(),
                group.as_raw(),
                text::quoted(path)
            );
        }
        if [OWN_WORKING_FILE, OWN_WORKING_FOLDER].contains(&self.expected) {
            return "find out who put it there; then move it away, and repeat the command: put nothing in its place".into();
        }
        if self.expected == OWN_FILE && self.found == LINK {
            return "find out who put it there, and move it away; then put the file that it leads to in its place, where that is this site's own, else the whole folder from one backup, and repeat the command".into();
        }
        if self.expected == OWN_FILE {
            return "find out who put it there, and move it away; then put a file in its place, such as the one from a backup of the whole folder, and repeat the command".into();
        }
        if doing == "open" && self.found == "a folder" {
            return "name a file in that folder".into();
        }
        if self.expected == ENTRY {
            return "put a regular file in its place, such as one from a backup; a pipe is read as `/dev/stdin` or `/dev/fd/N` only, as shells hand it over".into();
        }
        if self.expected == OWN_ENTRY && self.found == "a regular file" {
            return "find out who put it there, and move it away; then put the folder that was there in its place, where it still is, and repeat the command".into();
        }
        if self.expected == OWN_ENTRY {
            return "put a file or folder in its place (a bind mount puts a folder on another disk), and repeat the command".into();
        }
        "remove or rename that entry, or use another stick; nothing outside was touched".into()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::at;
    use super::*;

    #[test]
    fn nothing_is_put_in_the_place_of_what_a_program_makes_anew() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        let found = kind_of(fs::symlink_metadata(&link).unwrap().file_type());
        let help = |found, expected| {
            let what = Unexpected { found, expected };
            at("open", &link)(io::Error::new(io::ErrorKind::InvalidInput, what)).help()
        };
        for found in [found, "a folder"] {
            let working = help(found, OWN_WORKING_FILE);
            assert!(working.contains("move it away, and repeat"), "{working}");
            assert!(!working.contains("backup"), "{working}");
        }
        let led = "put the file that it leads to in its place";
        assert!(help(found, OWN_FILE).contains(led));
        assert!(!help("a folder", OWN_FILE).contains(led));
    }
}
