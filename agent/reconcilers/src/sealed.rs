//! What is sealed for this site, opened: values in the clear, and where they may be.
//!
//! What comes in: files of an assignment, and who holds the keys ([`Keys`]). What goes out: texts with their
//! values, in memory that is wiped, and copies of folders that lie in memory ([`Scratch`]). A value in the clear
//! goes to the place where its reader expects it, never into the state folder, a report or a log
//! ([`struck_out`]). It knows no key and no format of what is sealed.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use outhaul_kit::durable::{self, FileError, at};
use outhaul_kit::working_folder;
use zeroize::Zeroizing;

/// Types of file systems that lie in memory, by `statfs`: tmpfs and ramfs.
const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];
/// Shortest value that is struck out of texts: shorter ones are in every text by chance.
const MIN_STRUCK_OUT: usize = 4;

/// What a sealed value must be bound to, so that nobody brings it elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// The fleet.
    pub fleet: &'a str,
    /// The environment.
    pub environment: &'a str,
    /// The workload.
    pub workload: &'a str,
}

/// A text with its values in the clear; prints none of them.
pub struct OpenedText {
    /// The text.
    pub text: Zeroizing<String>,
    /// What must be struck out of anything that is reported.
    pub values: Vec<Zeroizing<String>>,
}

impl fmt::Debug for OpenedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenedText({} values)", self.values.len())
    }
}

/// Who holds the keys of this site.
pub trait Keys {
    /// The file at `path`, named `shown`, with its values as they belong to `here`; `None` when it has none.
    ///
    /// # Errors
    /// [`SealedError`] when a value cannot be opened by this site, belongs elsewhere, or does not fit where it
    /// stands.
    fn open_file(
        &self,
        path: &Path,
        shown: &str,
        here: &Binding<'_>,
    ) -> Result<Option<OpenedText>, SealedError>;

    /// `text` with `instead` for everything sealed in it.
    fn without_sealed(&self, text: &str, instead: &str) -> String;
}

/// Why something sealed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SealedError {
    /// The keys, or a value that does not open or fit: where, and why.
    #[error("{0}")]
    Value(String),
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
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

impl SealedError {
    /// The file error behind it when this site's disk or memory is the reason, and not the bundle.
    ///
    /// # Errors
    /// Itself, when it is the bundle's.
    pub fn of_the_disk(self) -> Result<FileError, Self> {
        match self {
            Self::File(error) if error.is_of_the_disk() => Ok(error),
            other => Err(other),
        }
    }
}

fn io_error<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> SealedError + 'a {
    move |error| at(doing, path)(error).into()
}

/// A copy in memory of the files in `folder`, with their values; `None` when none of them has any.
///
/// # Errors
/// As [`Keys::open_file`] and [`Scratch::new`].
pub fn copy_opened(
    keys: &dyn Keys,
    folder: &Path,
    here: &Binding<'_>,
) -> Result<Option<OpenedFolder>, SealedError> {
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
                let shown = relative.to_string_lossy().into_owned();
                match keys.open_file(&entry.path(), &shown, here)? {
                    Some(unsealed) => opened.push((shown, unsealed)),
                    None => others.push((shown, entry.path())),
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
        let mut bytes = Vec::new();
        durable::open_file(&path)
            .and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(io_error("read", &path))?;
        scratch.put(&relative, &bytes)?;
    }
    Ok(Some(OpenedFolder { scratch, values }))
}

/// Files in memory with their values; prints nothing of them.
pub struct OpenedFolder {
    /// Where they are.
    pub scratch: Scratch,
    /// What must be struck out of anything that is reported.
    pub values: Vec<Zeroizing<String>>,
}

impl fmt::Debug for OpenedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenedFolder({} values)", self.values.len())
    }
}

/// A folder in memory, for programs that take their secrets as files. Gone when dropped; what a killed process left is gone with the
/// next one that is made, once no program that it started lives any more.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Programs that are started inherit it.
    _in_use: File,
}

impl Scratch {
    /// A new folder of mode 0700 in the first of `candidates` that lies in memory.
    ///
    /// # Errors
    /// [`SealedError::NoMemoryFolder`] when none does, [`SealedError::File`] when it cannot be made.
    pub fn new(candidates: &[PathBuf]) -> Result<Self, SealedError> {
        let Some(parent) = candidates.iter().find(|path| lies_in_memory(path)) else {
            let tried = candidates.iter().map(|path| path.display().to_string());
            return Err(SealedError::NoMemoryFolder {
                tried: tried.collect::<Vec<_>>().join(", "),
            });
        };
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| {
            io_error("name a folder in", parent)(io::Error::other(error.to_string()))
        })?;
        working_folder::remove_left(parent, NAME);
        let path = parent.join(format!("{NAME}{}", hex::encode(random)));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(io_error("create", &path))?;
        let in_use = working_folder::in_use(&path).map_err(io_error("lock", &path))?;
        // Programs that are started inherit it: what they still read is not taken away.
        rustix::io::fcntl_setfd(&in_use, rustix::io::FdFlags::empty())
            .map_err(|error| io_error("lock", &path)(error.into()))?;
        Ok(Self {
            path,
            _in_use: in_use,
        })
    }

    /// Where services have folders in memory: systemd's `RUNTIME_DIRECTORY`, `/run/outhaul-agent`, `/dev/shm`.
    pub fn usual() -> Vec<PathBuf> {
        let own = std::env::var_os("RUNTIME_DIRECTORY").map(PathBuf::from);
        let usual = ["/run/outhaul-agent", "/dev/shm"].map(PathBuf::from);
        own.into_iter().chain(usual).collect()
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file below the folder, for its owner only.
    ///
    /// # Errors
    /// [`SealedError::File`]
    pub fn put(&self, relative: &str, bytes: &[u8]) -> Result<(), SealedError> {
        let path = self.path.join(relative);
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
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// How the names of scratch folders begin.
const NAME: &str = "outhaul-";

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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn no_memory_folder() {
        outhaul_tests::skipped("there is no folder in memory here (/dev/shm)");
    }

    #[test]
    fn a_scratch_folder_lies_in_memory_and_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let none = Scratch::new(&[folder.path().join("none")]).unwrap_err();
        assert!(none.to_string().contains("nothing was applied"), "{none}");
        let Ok(scratch) = Scratch::new(&Scratch::usual()) else {
            return no_memory_folder();
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
    fn what_a_killed_process_left_goes_with_the_next_one_and_what_is_in_use_stays() {
        let Ok(first) = Scratch::new(&Scratch::usual()) else {
            return no_memory_folder();
        };
        let parent = first.path().parent().unwrap();
        let left = parent.join(format!("{NAME}left-{}", std::process::id()));
        std::fs::create_dir(&left).unwrap();
        // Not only closed: programs that other tests are starting have a copy of it.
        working_folder::in_use(&left).unwrap().unlock().unwrap();
        let second = Scratch::new(&Scratch::usual()).unwrap();
        assert!(first.path().is_dir() && second.path().is_dir());
        assert!(!left.exists());
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
