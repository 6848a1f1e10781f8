//! Where the password of a PostgreSQL server comes from: never from an argument.
//!
//! What comes in: the environment, and files as PostgreSQL's own clients have them. What goes out: the password, or none. In this
//! order: `$PGPASSWORD`, the address's `passfile`, `$PGPASSFILE`, `~/.pgpass`, the systemd credential. A file that others may read is
//! refused. It prints nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The systemd credential with the password alone.
pub const CREDENTIAL: &str = "outhaul-hub.database-password";
/// Largest file, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// Why a file with passwords cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordError {
    /// It cannot be read, or is too large.
    #[error("the file of passwords `{}` cannot be read: {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// Others may read it.
    #[error("the file of passwords `{}` can be read by others than its owner", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
}

/// The password for a server's host, port, database and user; `None` where none is anywhere.
pub(super) fn find(
    passfile: Option<&Path>,
    key: &[String; 4],
) -> Result<Option<String>, PasswordError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    if let Some(password) = variable("PGPASSWORD") {
        return Ok(Some(password));
    }
    let named = passfile
        .map(Path::to_owned)
        .or_else(|| variable("PGPASSFILE").map(PathBuf::from));
    let home = || variable("HOME").map(|home| Path::new(&home).join(".pgpass"));
    let file = match named {
        Some(path) => Some(path),
        None => home().filter(|path| path.exists()),
    };
    if let Some(path) = file
        && let Some(found) = in_text(&read(&path)?, key)
    {
        return Ok(Some(found));
    }
    let credential = variable("CREDENTIALS_DIRECTORY").map(|at| Path::new(&at).join(CREDENTIAL));
    match credential.filter(|path| path.exists()) {
        Some(path) => Ok(Some(read(&path)?.trim_end_matches(['\r', '\n']).to_owned())),
        None => Ok(None),
    }
}

fn read(path: &Path) -> Result<String, PasswordError> {
    let unreadable = |problem: String| PasswordError::Unreadable {
        path: path.to_owned(),
        problem,
    };
    let found = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if found.permissions().mode() & 0o077 != 0 {
        let path = path.to_owned();
        return Err(PasswordError::Open { path });
    }
    if found.len() > MAX_BYTES {
        return Err(unreadable(format!("it has more than {MAX_BYTES} bytes")));
    }
    fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))
}

/// The password of the first line that fits: `host:port:database:user:password`, of which `*` fits all.
fn in_text(text: &str, key: &[String; 4]) -> Option<String> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .find_map(|line| {
            let mut fields = fields(line).into_iter();
            let fits = key.iter().all(|one| {
                fields
                    .next()
                    .is_some_and(|field| field == "*" || field == *one)
            });
            fields.next().filter(|_| fits)
        })
}

/// The fields of a line: `\` before what stands for itself.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => fields
                .last_mut()
                .into_iter()
                .for_each(|field| field.extend(letters.next())),
            ':' if fields.len() < 5 => fields.push(String::new()),
            letter => fields
                .last_mut()
                .into_iter()
                .for_each(|field| field.push(letter)),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let key = ["db.example", "5432", "outhaul", "hub"].map(str::to_owned);
        let text = "# a comment\ndb.example:5432:other:hub:one\n*:*:outhaul:hub:t\\:w\\\\o:x\n*:*:*:*:three";
        assert_eq!(in_text(text, &key).as_deref(), Some("t:w\\o:x"));
        assert_eq!(in_text("db.example:5432", &key), None);
        assert_eq!(in_text("*:1:*:*:one", &key), None);
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        fs::write(&path, "*:*:*:*:secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(read(&path), Err(PasswordError::Open { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path).unwrap(), "*:*:*:*:secret");
        assert!(matches!(
            read(&folder.path().join("none")),
            Err(PasswordError::Unreadable { .. })
        ));
    }
}
