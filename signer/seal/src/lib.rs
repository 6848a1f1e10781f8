//! Sealing: encryption for the sites that are to read something, with the `age` format and X25519 keys.
//!
//! What comes in: bytes and the public halves ([`Recipient`]) of those who may read them, or sealed
//! bytes and the private halves ([`Identity`]) that are here. What goes out: an age file that the `age`
//! tool opens too, or its content, as a stream in bounded memory. Secret halves rest as plain files of
//! mode 0600 in a folder that only the agent reads; in memory they are wiped, and never printed.
//! Sealing hides; it does not prove who sealed: anyone may seal for a site. Verify first, then open.

#![warn(missing_docs)]

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::str::FromStr;

use age::secrecy::ExposeSecret as _;
use age::{DecryptError, Decryptor, Encryptor, x25519};
use outhaul_kit::bounds::MAX_KEY_BYTES;
use outhaul_kit::durable::{self, FileError, SECRET_MODE};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

pub mod marker;

/// Most recipients of one seal. How many a bundle may have is a bound of its format.
pub const MAX_SEAL_RECIPIENTS: usize = 256;
/// Largest head of a sealed file in bytes: twice what [`MAX_SEAL_RECIPIENTS`] take, some 110 bytes each.
const MAX_HEAD_BYTES: u64 = MAX_SEAL_RECIPIENTS as u64 * 256;
/// Most keys that one folder may hold: each is tried on each seal.
const MAX_IDENTITIES: usize = 64;
/// Ending of key files in a folder of keys.
const ENDING: &str = "age";
/// Bytes copied at once.
const BUFFER_BYTES: usize = 64 * 1024;

/// Why something cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The sealed bytes were changed, or damaged on the way.
    #[error("decryption failed: the bytes were changed or damaged")]
    Damaged,
    /// A key file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The bytes to seal could not be read, or the result not be written.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Not a key of the expected form.
    #[error("{what} is not {expected}")]
    NotAKey {
        /// The text or the file; never a secret.
        what: String,
        /// What was expected.
        expected: &'static str,
    },
    /// None of the keys that are here opens it.
    #[error("it is sealed for others; {have}")]
    NotForUs {
        /// Ids of the keys that were tried.
        have: String,
    },
    /// Not sealed at all, or by something newer.
    #[error("not sealed bytes that this program can open: {problem}")]
    NotSealed {
        /// What is wrong with the head.
        problem: &'static str,
    },
    /// More came out than may.
    #[error("more than the {max_bytes} bytes that it may hold came out; opening was stopped there")]
    TooLarge {
        /// The bound.
        max_bytes: u64,
    },
    /// Recipients that one seal cannot have.
    #[error("{count} recipients, 1 to {MAX_SEAL_RECIPIENTS} allowed")]
    Recipients {
        /// How many were given.
        count: usize,
    },
    /// The sealed bytes end too early.
    #[error("the sealed bytes end too early; copy them again")]
    Truncated,
}

impl SealError {
    /// The keys that were tried, when it is sealed for others.
    pub fn keys_tried(&self) -> Option<String> {
        match self {
            Self::NotForUs { have } => Some(have.clone()),
            _ => None,
        }
    }
}

impl SealError {
    fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, source }
    }

    /// A reader of opened bytes failed: what that means.
    fn of_read(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Truncated,
            io::ErrorKind::InvalidData => Self::Damaged,
            _ => Self::Io {
                doing: "read the sealed bytes",
                source: error,
            },
        }
    }
}

/// The public half: what one seals for. Its text starts with `age1`.
#[derive(Clone, PartialEq, Eq)]
pub struct Recipient(x25519::Recipient);

impl Recipient {
    /// The key's id, for lists and messages: the first 16 hexadecimal digits of its text's digest.
    pub fn id(&self) -> String {
        hex::encode(&Sha256::digest(self.to_string())[..8])
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({self})")
    }
}

impl FromStr for Recipient {
    type Err = SealError;

    fn from_str(text: &str) -> Result<Self, SealError> {
        text.parse().map(Self).map_err(|_| SealError::NotAKey {
            // Someone may have pasted the secret half.
            what: if text.to_ascii_uppercase().starts_with("AGE-SECRET") {
                "a secret key".to_owned()
            } else {
                format!("`{}`", text.chars().take(80).collect::<String>())
            },
            expected: "the public key of a site (`age1` and 58 letters and digits)",
        })
    }
}

/// The private half: what opens. Wiped when dropped, never printed.
#[derive(Clone)]
pub struct Identity(x25519::Identity);

impl Identity {
    /// A new key from the system's randomness.
    pub fn generate() -> Self {
        Self(x25519::Identity::generate())
    }

    /// The key in the file `path`: one line that starts with `AGE-SECRET-KEY-1`, as the `age-keygen`
    /// tool writes it; lines that start with `#` are remarks.
    ///
    /// # Errors
    /// [`SealError`] when the file is missing, can be read by others, or holds no key.
    pub fn load(path: &Path) -> Result<Self, SealError> {
        let bytes = Zeroizing::new(durable::read_private_key(path, MAX_KEY_BYTES)?);
        let text = str::from_utf8(&bytes).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
        let key = line.and_then(|line| line.parse().ok().map(Self));
        key.ok_or_else(|| SealError::NotAKey {
            what: format!("`{}`", path.display()),
            expected: "a secret key in the age format (`AGE-SECRET-KEY-1…`)",
        })
    }

    /// Writes the key to `path`, for its owner only, durably.
    ///
    /// # Errors
    /// [`SealError::File`] when it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), SealError> {
        let secret = self.0.to_string();
        let text = Zeroizing::new(format!(
            "# public key: {}\n{}\n",
            self.recipient(),
            secret.expose_secret()
        ));
        Ok(durable::write(path, text.as_bytes(), SECRET_MODE)?)
    }

    /// The public half.
    pub fn recipient(&self) -> Recipient {
        Recipient(self.0.to_public())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.recipient().id())
    }
}

/// The private halves that are here: a site's own, and those of streams that it was given.
#[derive(Debug, Clone, Default)]
pub struct Identities(Vec<Identity>);

impl Identities {
    /// These keys.
    pub fn new(identities: Vec<Identity>) -> Self {
        Self(identities)
    }

    /// Every key file (`*.age`) in `folder`, by name; none when the folder is not there.
    ///
    /// # Errors
    /// [`SealError`] when the folder cannot be read, holds more than 64 keys, or one file is not a key.
    pub fn load_folder(folder: &Path) -> Result<Self, SealError> {
        let failed = |source| FileError {
            doing: "list",
            path: folder.to_owned(),
            source,
        };
        let entries = match std::fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(failed)?,
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                paths.push(path);
            }
        }
        paths.sort_unstable();
        if paths.len() > MAX_IDENTITIES {
            return Err(SealError::NotAKey {
                what: format!("`{}` with {} keys", folder.display(), paths.len()),
                expected: "a folder of at most 64 keys",
            });
        }
        let keys: Result<Vec<_>, _> = paths.iter().map(|path| Identity::load(path)).collect();
        Ok(Self(keys?))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ids of the public halves, for messages.
    pub fn describe(&self) -> String {
        let ids: Vec<_> = self.0.iter().map(|key| key.recipient().id()).collect();
        match ids.as_slice() {
            [] => "no key is here".to_owned(),
            [one] => format!("the key here is {one}"),
            many => format!("the keys here are {}", many.join(", ")),
        }
    }
}

/// Seals what `from` yields for `recipients`. Returns the bytes read. Memory does not grow with them.
///
/// # Errors
/// [`SealError`]; what `to` got must then be thrown away.
pub fn seal(
    mut from: impl Read,
    to: impl Write,
    recipients: &[Recipient],
) -> Result<u64, SealError> {
    let wrong = || SealError::Recipients {
        count: recipients.len(),
    };
    if recipients.len() > MAX_SEAL_RECIPIENTS {
        return Err(wrong());
    }
    let keys = recipients.iter().map(|one| &one.0 as &dyn age::Recipient);
    let encryptor = Encryptor::with_recipients(keys).map_err(|_| wrong())?;
    let write = "write the sealed bytes";
    let mut sealed = encryptor.wrap_output(to).map_err(SealError::io(write))?;
    let mut buffer = Zeroizing::new(vec![0; BUFFER_BYTES]);
    let mut bytes = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(SealError::io("read what is to be sealed")(error)),
        };
        sealed
            .write_all(&buffer[..count])
            .map_err(SealError::io(write))?;
        bytes += count as u64;
    }
    let mut to = sealed.finish().map_err(SealError::io(write))?;
    to.flush().map_err(SealError::io(write))?;
    Ok(bytes)
}

/// Opens what `from` yields with one of `keys` and writes at most `max_bytes` to `to`; returns how many.
///
/// # Errors
/// [`SealError`]; what `to` got must then be thrown away.
pub fn open(
    from: impl Read,
    keys: &Identities,
    mut to: impl Write,
    max_bytes: u64,
) -> Result<u64, SealError> {
    let mut opened = reader(from, keys)?;
    let mut buffer = Zeroizing::new(vec![0; BUFFER_BYTES]);
    let mut bytes = 0;
    loop {
        let count = match opened.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(SealError::of_read(error)),
        };
        bytes += count as u64;
        if bytes > max_bytes {
            return Err(SealError::TooLarge { max_bytes });
        }
        to.write_all(&buffer[..count])
            .map_err(SealError::io("write what was opened"))?;
    }
    to.flush().map_err(SealError::io("write what was opened"))?;
    Ok(bytes)
}

/// A reader of what `from` yields, opened with one of `keys`. Each piece is authentic when it is read;
/// that the end is the true end shows only there. It fails with `InvalidData` or `UnexpectedEof` when
/// the seal does not hold.
///
/// # Errors
/// [`SealError`] when the head is damaged or for others.
pub fn reader<R: Read>(from: R, keys: &Identities) -> Result<impl Read + use<R>, SealError> {
    let mut from = BufReader::with_capacity(BUFFER_BYTES, from);
    let head = head(&mut from)?;
    // age bounds no head itself: it gets one that was cut out and bounded before.
    let whole = io::Cursor::new(head).chain(from);
    let decryptor = Decryptor::new_buffered(whole).map_err(|error| of_decrypt(error, keys))?;
    let identities = keys.0.iter().map(|key| &key.0 as &dyn age::Identity);
    decryptor
        .decrypt(identities)
        .map_err(|error| of_decrypt(error, keys))
}

/// The lines up to and including the one that starts with `---`.
fn head(from: &mut impl BufRead) -> Result<Vec<u8>, SealError> {
    let mut head = Vec::new();
    loop {
        let left = MAX_HEAD_BYTES - head.len() as u64;
        let start = head.len();
        let read = from
            .by_ref()
            .take(left)
            .read_until(b'\n', &mut head)
            .map_err(SealError::io("read the sealed bytes"))?;
        let line = &head[start..];
        if start == 0 && !line.starts_with(b"age-encryption.org/v1\n") {
            let problem = if b"age-encryption.org/v1\n".starts_with(line) {
                return Err(SealError::Truncated);
            } else {
                "they do not begin as an age file"
            };
            return Err(SealError::NotSealed { problem });
        }
        match line {
            line if line.starts_with(b"---") && line.ends_with(b"\n") => return Ok(head),
            line if line.ends_with(b"\n") => {}
            _ if read as u64 == left => {
                let problem = "the head is too long";
                return Err(SealError::NotSealed { problem });
            }
            _ => return Err(SealError::Truncated),
        }
        if head.len() as u64 >= MAX_HEAD_BYTES {
            let problem = "the head is too long";
            return Err(SealError::NotSealed { problem });
        }
    }
}

fn of_decrypt(error: DecryptError, keys: &Identities) -> SealError {
    match error {
        DecryptError::NoMatchingKeys => SealError::NotForUs {
            have: keys.describe(),
        },
        DecryptError::Io(error) => SealError::of_read(error),
        DecryptError::UnknownFormat => SealError::NotSealed {
            problem: "another version of the age format",
        },
        DecryptError::InvalidHeader => SealError::NotSealed {
            problem: "the head is malformed",
        },
        _ => SealError::Damaged,
    }
}

#[cfg(test)]
mod tests;
