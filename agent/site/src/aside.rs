//! Names for what is moved out of a state folder: beside it, where it keeps nobody from anything, and never over what an earlier move left there.
//!
//! What comes in: paths in the state folder. What goes out: free names, and the commands that somebody types. It looks at which names are taken,
//! and moves nothing.

use std::path::{Path, PathBuf};

use outhaul_kit::text;

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
    typed(folder, &folder_name(folder))
}

/// The same for another folder of the same site. Saved reports are on their way to the hub, and saved databases the way back to what is lost: both come
/// along.
pub fn folder_command(folder: &Path) -> String {
    let to = folder_name(folder);
    let moved = typed(folder, &to);
    let rescued = durable::list(&folder.join(RESCUED)).unwrap_or_default();
    if rescued.is_empty() {
        return moved;
    }
    let made = text::quoted(folder);
    format!(
        "{moved} && mkdir -m 700 {made} && chown --reference={aside} {made} && mv {rescued} {made}",
        aside = text::quoted(&to),
        rescued = text::quoted(to.join(RESCUED))
    )
}

/// The command that moves a database out of the state folder, with what is beside it: SQLite would discard what is committed there only.
pub fn database_command(path: &Path) -> String {
    let to = free_name(path);
    let beside = BESIDE_DATABASE.iter().map(|end| (ending(path, end), end));
    let beside = beside.filter(|(from, _)| is_taken(from));
    let beside = beside.map(|(from, end)| typed(&from, &ending(&to, end)));
    let database = is_taken(path).then(|| typed(path, &to));
    let all: Vec<_> = database.into_iter().chain(beside).collect();
    match all.is_empty() {
        true => typed(path, &to),
        false => all.join(" && "),
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
        // What an earlier command moved alone keeps its name from the next database.
        fs::write(folder.path().join("agent.db.aside-3-wal"), "").unwrap();
        assert!(free_name(&path).ends_with("agent.db.aside-4"));
    }
}
