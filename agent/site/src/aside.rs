//! Names for what is moved out of a state folder: beside it, where it keeps nobody from anything, and never over what an earlier move left there.
//!
//! What comes in: paths in the state folder. What goes out: free names, and the commands that someone types. It looks at which names are taken,
//! and moves nothing.

use std::path::{Path, PathBuf};

use outhaul_kit::text;
use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};

use crate::durable;
use crate::state_folder::RESCUED;

/// How the names end of what SQLite writes beside a database.
pub const BESIDE_DATABASE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// `path` with `end` after its name.
pub fn ending(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Whether something has this name, a link that leads nowhere, too.
pub fn is_taken(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// The first free name for what is at `path`, beside the state folder that it lies in; free as well with the ends of what SQLite writes.
pub fn free_name(path: &Path) -> PathBuf {
    free_beside(path.parent().unwrap_or(path), path)
}

/// The first free name for what is at `path`, beside the state folder `folder`.
fn free_beside(folder: &Path, path: &Path) -> PathBuf {
    let beside = folder.parent().unwrap_or(folder);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let first = beside.join(format!("{name}.aside"));
    let is_free = |to: &PathBuf| {
        let ends = BESIDE_DATABASE.iter().map(|end| ending(to, end));
        !ends.chain([to.clone()]).any(|to| is_taken(&to))
    };
    first_free(&first, is_free)
}

/// The first name that is free of `first`, `first-2`, `first-3` and so on.
pub(crate) fn first_free(first: &Path, is_free: impl Fn(&PathBuf) -> bool) -> PathBuf {
    let more = (2_u32..).map(|count| ending(first, &format!("-{count}")));
    let mut all = std::iter::once(first.to_owned()).chain(more);
    all.find(is_free).unwrap_or_else(|| first.to_owned())
}

/// The command that moves what is at `path` out of the state folder.
pub fn command(path: &Path) -> String {
    typed(path, &free_name(path))
}

/// The same for what lies deeper in the state folder `folder`.
pub fn command_beside(folder: &Path, path: &Path) -> String {
    typed(path, &free_beside(folder, path))
}

/// Where the whole state folder goes.
fn folder_name(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    first_free(&folder.with_file_name(format!("{name}.aside")), |to| {
        !is_taken(to)
    })
}

/// The command that moves the whole state folder aside for that of another site.
pub fn whole_folder_command(folder: &Path) -> String {
    let to = folder_name(folder);
    match is_mount_point(folder) {
        true => content_command(folder, &to, &[]),
        false => typed(folder, &to),
    }
}

/// The same for another folder of the same site. Saved reports are on their way to the hub, and saved databases the way back to what is lost: both come
/// along, and `kept`, the files that show what people hold and which versions were accepted: a backup may be older than that.
pub fn folder_command(folder: &Path, kept: &[PathBuf]) -> String {
    let to = folder_name(folder);
    let kept = kept_command(folder, &to, kept);
    if is_mount_point(folder) {
        return content_command(folder, &to, &[RESCUED]) + &kept;
    }
    let moved = typed(folder, &to);
    let rescued = durable::list(&folder.join(RESCUED)).unwrap_or_default();
    let rescued = match rescued.is_empty() {
        true => String::new(),
        false => format!(
            " && mv {} {}",
            text::quoted(to.join(RESCUED)),
            text::quoted(folder)
        ),
    };
    if rescued.is_empty() && kept.is_empty() {
        return moved;
    }
    let made = text::quoted(folder);
    format!(
        "{moved} && mkdir -m 700 {made} && chown --reference={aside} {made}{rescued}{kept}",
        aside = text::quoted(&to),
    )
}

/// How `kept`, files of the state folder, come along into `rescued` of a new one.
fn kept_command(folder: &Path, to: &Path, kept: &[PathBuf]) -> String {
    if kept.is_empty() {
        return String::new();
    }
    let files: Vec<_> = kept
        .iter()
        .map(|path| text::quoted(to.join(path.file_name().unwrap_or_default())))
        .collect();
    let made = text::quoted(folder.join(RESCUED));
    format!(
        " && mkdir -p -m 700 {made} && chown --reference={to} {made} && cp -p {files} {made}",
        to = text::quoted(to),
        files = files.join(" ")
    )
}

/// Whether something is mounted at `folder`, which keeps the system from renaming it.
fn is_mount_point(folder: &Path) -> bool {
    let found = rustix::fs::statx(
        rustix::fs::CWD,
        folder,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS,
    );
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// The command that moves what is in `folder` to a new folder `to`, except what a file system has in its root, and `stays`.
fn content_command(folder: &Path, to: &Path, stays: &[&str]) -> String {
    let (folder, to) = (text::quoted(folder), text::quoted(to));
    let stays = ["lost+found"].iter().chain(stays);
    let stays: Vec<_> = stays.map(|name| format!("! -name {name}")).collect();
    let stays = stays.join(" ");
    format!(
        "mkdir -m 700 {to} && chown --reference={folder} {to} && find {folder} -mindepth 1 -maxdepth 1 {stays} -exec mv -t {to} {{}} +"
    )
}

/// The command that moves a database out of the state folder, with what is beside it: SQLite would discard what is committed there only. What is beside it
/// may be gone when the command is typed, because a process that ends removes it.
pub fn database_command(path: &Path) -> String {
    let to = free_name(path);
    let moved = typed(path, &to);
    let is_alone = !BESIDE_DATABASE
        .iter()
        .any(|end| is_taken(&ending(path, end)));
    if is_alone {
        return moved;
    }
    let ends = BESIDE_DATABASE.map(|end| end.trim_start_matches('-'));
    let beside = format!(
        "(for end in {ends}; do test ! -e {path}-$end || mv {path}-$end {to}-$end || exit; done)",
        ends = ends.join(" "),
        path = text::quoted(path),
        to = text::quoted(&to)
    );
    match is_taken(path) {
        true => format!("{moved} && {beside}"),
        false => beside,
    }
}

fn typed(from: &Path, to: &Path) -> String {
    format!("mv {} {}", text::quoted(from), text::quoted(to))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_in_a_folder_that_cannot_be_renamed_moves_without_what_is_saved() {
        assert!(is_mount_point(Path::new("/proc")));
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("the state");
        assert!(!is_mount_point(&state));
        for name in ["rescued/reports", "lost+found", "generations/1"] {
            fs::create_dir_all(state.join(name)).unwrap();
        }
        assert!(!is_mount_point(&state));
        fs::write(state.join("agent.db"), "rows").unwrap();
        let to = folder_name(&state);
        let moved = std::process::Command::new("sh")
            .args(["-c", &content_command(&state, &to, &[RESCUED])])
            .status();
        assert!(moved.unwrap().success());
        let names = |folder: &Path| {
            let all = durable::list(folder).unwrap().into_iter();
            let names = all.map(|path| path.strip_prefix(folder).unwrap().to_owned());
            let mut names: Vec<_> = names.collect();
            names.sort();
            names
        };
        assert_eq!(names(&state), ["lost+found", "rescued"].map(PathBuf::from));
        assert_eq!(names(&to), ["agent.db", "generations"].map(PathBuf::from));
        // Nothing is left to move, and nothing is moved over.
        let again = folder_name(&state);
        assert!(again.ends_with("the state.aside-2"), "{again:?}");
    }

    #[test]
    fn a_database_moves_with_what_is_beside_it_and_over_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/agent.db");
        fs::create_dir(folder.path().join("state")).unwrap();
        for (count, name) in ["agent.db.aside", "agent.db.aside-2"].iter().enumerate() {
            fs::write(&path, format!("rows {count}")).unwrap();
            fs::write(ending(&path, "-wal"), format!("frames {count}")).unwrap();
            let command = database_command(&path);
            assert!(!command.contains("-shm"), "{command}");
            let moved = std::process::Command::new("sh")
                .args(["-c", &command])
                .status();
            assert!(moved.unwrap().success());
            let to = folder.path().join(name);
            let read = |path: &Path| fs::read_to_string(path).unwrap();
            assert_eq!(read(&to), format!("rows {count}"));
            assert_eq!(read(&ending(&to, "-wal")), format!("frames {count}"));
            assert!(!is_taken(&path) && !is_taken(&ending(&path, "-wal")));
        }
        // What was beside it when the command was printed is gone when it is typed.
        fs::write(&path, "rows").unwrap();
        fs::write(ending(&path, "-shm"), "index").unwrap();
        let command = database_command(&path);
        fs::remove_file(ending(&path, "-shm")).unwrap();
        let run = |command: &str| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", command]).status().unwrap().success()
        };
        assert!(run(&command) && !is_taken(&path), "{command}");
        assert!(!run(&command), "there is nothing to move any more");
        fs::remove_file(folder.path().join("agent.db.aside-3")).unwrap();
        // What an earlier command moved alone keeps its name from the next database.
        fs::write(folder.path().join("agent.db.aside-3-wal"), "").unwrap();
        assert!(free_name(&path).ends_with("agent.db.aside-4"));
    }
}
