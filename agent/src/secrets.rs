//! What is sealed for this site: the keys that open it, and where opened values may be.
//!
//! What comes in: the folder with the site's secret keys, and files that the index vouches for. What
//! goes out: opened blobs for unpacking, and texts with their values, in memory that is wiped. A value
//! in the clear goes to the place where its reader expects it, or into a folder that lies in memory
//! ([`Scratch`]), never into the state folder, a report or a log ([`struck_out`]).

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use outhaul_bundle::index::Blob;
use outhaul_bundle::seal::{Sealed, Unseal, UnsealError};
use outhaul_signer::seal::marker::{self, MarkerError, Place, Syntax, Unsealed};
use outhaul_signer::seal::{self, Identities, SealError};
use zeroize::Zeroizing;

use crate::durable::FileError;

pub(crate) mod own;

/// Types of file systems that lie in memory, by `statfs`: tmpfs and ramfs.
const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];
/// Shortest value that is struck out of texts: shorter ones are in every text by chance.
const MIN_STRUCK_OUT: usize = 4;

/// Why something sealed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The keys.
    #[error("the keys of this site cannot be used: {0}")]
    Keys(#[from] SealError),
    /// A file whose values cannot be opened or do not fit where they stand.
    #[error("`{path}`, {problem}")]
    File {
        /// The file, as it is named in messages.
        path: String,
        /// What is wrong, with the line.
        problem: MarkerError,
    },
    /// A file that cannot be read or written.
    #[error("cannot {doing} `{}`: {error}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No folder in memory.
    #[error(
        "this assignment has sealed values, and there is no folder in memory for them; nothing was applied\n\
         help: give the service a RuntimeDirectory=, or mount a tmpfs on one of: {tried}"
    )]
    NoMemoryFolder {
        /// Where was looked.
        tried: String,
    },
}

impl SecretError {
    /// The file error behind it when this site's disk or memory is the reason, and not the bundle.
    pub fn of_the_disk(self) -> Result<FileError, Self> {
        let Self::Io {
            doing,
            path,
            error: source,
        } = self
        else {
            return Err(self);
        };
        let file = FileError {
            doing,
            path,
            source,
        };
        if file.is_of_the_disk() {
            return Ok(file);
        }
        let FileError { path, source, .. } = file;
        Err(Self::Io {
            doing,
            path,
            error: source,
        })
    }
}

fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SecretError {
    move |error| SecretError::Io {
        doing,
        path: path.to_owned(),
        error,
    }
}

/// The keys of this site.
#[derive(Debug, Default)]
pub struct Secrets(Identities);

impl Secrets {
    /// The keys in `folder` (`*.age`, mode 0600); none when the folder is not there.
    ///
    /// # Errors
    /// [`SecretError::Keys`]
    pub fn load(folder: &Path) -> Result<Self, SecretError> {
        Ok(Self(Identities::load_folder(folder)?))
    }

    /// The file at `path`, named `told`, with its values as they belong to `here`; `None` when it has none.
    ///
    /// # Errors
    /// [`SecretError`] when a value cannot be opened by this site, belongs elsewhere, or does not fit where it
    /// stands.
    pub fn open_file(
        &self,
        path: &Path,
        told: &str,
        here: &Place<'_>,
    ) -> Result<Option<Unsealed>, SecretError> {
        let Some(text) = text_with_markers(path)? else {
            return Ok(None);
        };
        let opened = marker::unseal_values(&text, &self.0, Syntax::of_file(told), here).map_err(
            |problem| SecretError::File {
                path: told.to_owned(),
                problem,
            },
        )?;
        Ok((!opened.values.is_empty()).then_some(opened))
    }

    /// A copy in memory of the files in `folder`, with their values; `None` when none of them has any.
    ///
    /// # Errors
    /// As [`Secrets::open_file`] and [`Scratch::new`].
    pub fn copy_opened(
        &self,
        folder: &Path,
        here: &Place<'_>,
    ) -> Result<Option<Opened>, SecretError> {
        let mut opened = Vec::new();
        let mut others = Vec::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(below) = folders.pop() {
            let at = folder.join(&below);
            for entry in std::fs::read_dir(&at).map_err(io_error("list", &at))? {
                let entry = entry.map_err(io_error("list", &at))?;
                let kind = entry
                    .file_type()
                    .map_err(io_error("look at", &entry.path()))?;
                let relative = below.join(entry.file_name());
                if kind.is_dir() {
                    folders.push(relative);
                } else if kind.is_file() {
                    let told = relative.to_string_lossy().into_owned();
                    match self.open_file(&entry.path(), &told, here)? {
                        Some(unsealed) => opened.push((told, unsealed)),
                        None => others.push((told, entry.path())),
                    }
                }
            }
        }
        if opened.is_empty() {
            return Ok(None);
        }
        let scratch = Scratch::new(&Scratch::usual())?;
        let mut values = Vec::new();
        for (relative, unsealed) in opened {
            scratch.put(&relative, unsealed.text.as_bytes())?;
            values.extend(unsealed.values);
        }
        for (relative, path) in others {
            let bytes = std::fs::read(&path).map_err(io_error("read", &path))?;
            scratch.put(&relative, &bytes)?;
        }
        Ok(Some(Opened { scratch, values }))
    }
}

/// The text of a file that may have sealed values; `None` when it has none.
fn text_with_markers(path: &Path) -> Result<Option<String>, SecretError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io_error("open", path))?;
    let max = marker::MAX_TEXT_BYTES as u64;
    file.take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(io_error("read", path))?;
    // A larger file is a payload, not a text that was composed.
    if bytes.len() as u64 > max || !marker::may_have_markers(&bytes) {
        return Ok(None);
    }
    Ok(String::from_utf8(bytes).ok())
}

impl Unseal for Secrets {
    fn unseal<'a>(
        &self,
        _: &Blob,
        sealed: &Sealed,
        carried: Box<dyn Read + 'a>,
    ) -> Result<Box<dyn Read + 'a>, UnsealError> {
        match seal::reader(carried, &self.0) {
            Ok(opened) => Ok(Box::new(opened)),
            Err(SealError::NotForUs { have }) => Err(UnsealError::NotForUs {
                readers: sealed.readers(),
                have,
            }),
            Err(error) => Err(UnsealError::Damaged {
                problem: error.to_string(),
            }),
        }
    }
}

/// Files in memory with their values; prints nothing of them.
pub struct Opened {
    /// Where they are.
    pub scratch: Scratch,
    /// What must be struck out of anything that is told.
    pub values: Vec<Zeroizing<String>>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opened({} values)", self.values.len())
    }
}

/// A folder in memory, for programs that take their secrets as files. Gone when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new folder of mode 0700 in the first of `candidates` that lies in memory.
    ///
    /// # Errors
    /// [`SecretError::NoMemoryFolder`] when none does, [`SecretError::Io`] when it cannot be made.
    pub fn new(candidates: &[PathBuf]) -> Result<Self, SecretError> {
        let Some(parent) = candidates.iter().find(|path| lies_in_memory(path)) else {
            let tried = candidates.iter().map(|path| path.display().to_string());
            return Err(SecretError::NoMemoryFolder {
                tried: tried.collect::<Vec<_>>().join(", "),
            });
        };
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| {
            io_error("name a folder in", parent)(io::Error::other(error.to_string()))
        })?;
        let path = parent.join(format!("outhaul-{}", hex::encode(random)));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(io_error("create", &path))?;
        Ok(Self(path))
    }

    /// Where services have folders in memory: systemd's `RUNTIME_DIRECTORY`, `/run/outhaul-agent`, `/dev/shm`.
    pub fn usual() -> Vec<PathBuf> {
        let own = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
        let usual = ["/run/outhaul-agent", "/dev/shm"].map(PathBuf::from);
        own.into_iter().chain(usual).collect()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file below the folder, for its owner only.
    ///
    /// # Errors
    /// [`SecretError::Io`]
    pub fn put(&self, relative: &str, bytes: &[u8]) -> Result<(), SecretError> {
        let path = self.0.join(relative);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        }
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(io_error("create", &path))?;
        file.write_all(bytes).map_err(io_error("write", &path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now goes with the machine's memory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lies_in_memory(path: &Path) -> bool {
    let Ok(found) = rustix::fs::statfs(path) else {
        return false;
    };
    // Its type differs between machines; where it is 32 bits wide, the second number is negative.
    let kind = i128::from(found.f_type);
    IN_MEMORY
        .iter()
        .any(|known| kind == *known || kind == *known - (1 << 32))
}

/// `text` without any of `values`, also where a program wrote them as JSON or as a YAML text.
pub fn struck_out(text: &str, values: &[Zeroizing<String>]) -> String {
    let mut struck = text.to_owned();
    // The longest first: a short value may be a part of a long one.
    let mut longest_first: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
    longest_first.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in longest_first
        .into_iter()
        .filter(|value| value.len() >= MIN_STRUCK_OUT)
    {
        let json = serde_json::to_string(value).unwrap_or_default();
        let inner = json
            .get(1..json.len().saturating_sub(1))
            .unwrap_or_default();
        for spelling in [value, inner, &value.replace('\'', "''")] {
            if !spelling.is_empty() {
                struck = struck.replace(spelling, "[sealed]");
            }
        }
        // Output is shown line by line.
        for line in value.lines().filter(|line| line.len() >= MIN_STRUCK_OUT) {
            struck = struck.replace(line, "[sealed]");
        }
    }
    struck
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const HERE: Place<'static> = Place {
        fleet: "f",
        environment: "dev",
        workload: "app",
    };

    fn site() -> (tempfile::TempDir, Secrets, String) {
        let folder = tempfile::tempdir().unwrap();
        let key = Secrets::own_public_key(folder.path()).unwrap();
        assert_eq!(
            Secrets::own_public_key(folder.path()).unwrap(),
            key,
            "made once"
        );
        let bound = "f/dev/app/PASSWORD".parse().unwrap();
        let marker = marker::seal_value("s3cret value", &[key.parse().unwrap()], &bound).unwrap();
        let secrets = Secrets::load(folder.path()).unwrap();
        (folder, secrets, marker)
    }

    #[test]
    fn only_files_with_values_are_opened() {
        let (folder, secrets, marker) = site();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, "a: b\n").unwrap();
        assert!(
            secrets
                .open_file(&path, "config.yaml", &HERE)
                .unwrap()
                .is_none()
        );
        std::fs::write(&path, format!("a: {marker}\n")).unwrap();
        let opened = secrets
            .open_file(&path, "config.yaml", &HERE)
            .unwrap()
            .unwrap();
        assert_eq!(opened.text.as_str(), "a: \"s3cret value\"\n");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(secrets.open_file(&path, "x", &HERE).unwrap().is_none());
    }

    #[test]
    fn a_value_for_another_site_names_file_and_line() {
        let (folder, _, marker) = site();
        let (_other, secrets, _) = site();
        let path = folder.path().join("x");
        std::fs::write(&path, format!("\n{marker}")).unwrap();
        let told = secrets
            .open_file(&path, "app/config.yaml", &HERE)
            .unwrap_err()
            .to_string();
        assert!(
            told.contains("app/config.yaml") && told.contains("line 2"),
            "{told}"
        );
        assert!(told.contains("sealed for others"), "{told}");
    }

    #[test]
    fn a_scratch_folder_lies_in_memory_and_goes_away() {
        let (folder, ..) = site();
        let none = Scratch::new(&[folder.path().join("none")]).unwrap_err();
        assert!(none.to_string().contains("nothing was applied"), "{none}");
        let Ok(scratch) = Scratch::new(&Scratch::usual()) else {
            return;
        };
        scratch.put("vars/config.yaml", b"secret").unwrap();
        let path = scratch.path().to_owned();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(&path), mode(&path.join("vars/config.yaml"))),
            (0o700, 0o600)
        );
        assert!(scratch.put("vars/config.yaml", b"again").is_err());
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn values_are_struck_out_however_they_are_spelled() {
        let values = [
            "hunter2",
            "hunter2-long",
            "a \"b\" c",
            "first line\nsecond line",
            "abc",
        ]
        .map(|value| Zeroizing::new(value.to_owned()));
        let text = "x hunter2-long y {\"p\": \"a \\\"b\\\" c\"} z: second line, abc";
        let struck = struck_out(text, &values);
        assert_eq!(
            struck,
            "x [sealed] y {\"p\": \"[sealed]\"} z: [sealed], abc"
        );
    }
}
