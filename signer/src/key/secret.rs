//! The passphrase that opens keys, and the places that it may come from.
//!
//! What comes in: a file, an environment variable, or a systemd credential. What goes out: a [`Secret`]
//! that is wiped when dropped and prints as dots. It never asks a terminal: ceremonies are scripts too.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::{KeyError, read_secret_file};

/// A passphrase. Never empty; wiped when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The environment variable that programs look into.
    pub const VARIABLE: &str = "OUTHAUL_PASSPHRASE";
    /// The systemd credential that programs look for.
    pub const CREDENTIAL: &str = "outhaul-passphrase";

    /// A passphrase from text. An empty one opens nothing and makes no key: see [`Secret::is_empty`].
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The first passphrase found: in `file`, then in the first of `variables` that is set, then in the
    /// systemd credential `credential` (a file in `$CREDENTIALS_DIRECTORY`). One line end at the end of
    /// a file is not part of it.
    ///
    /// # Errors
    /// [`KeyError::NoPassphrase`] when there is none or it is empty; another [`KeyError`] when a file
    /// cannot be read or others can read it.
    pub fn from_sources(
        file: Option<&Path>,
        variables: &[&str],
        credential: &str,
    ) -> Result<Self, KeyError> {
        let set = |name: &&str| env::var(name).ok().map(|text| (format!("${name}"), text));
        let folder = env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let credential_file = folder
            .map(|f| f.join(credential))
            .filter(|path| path.is_file());
        let (origin, secret) = if let Some(path) = file {
            (format!("`{}`", path.display()), from_file(path)?)
        } else if let Some((origin, text)) = variables.iter().find_map(set) {
            (origin, Self::new(text))
        } else if let Some(path) = credential_file {
            (format!("`{}`", path.display()), from_file(&path)?)
        } else {
            let names: Vec<_> = variables.iter().map(|name| format!("${name}")).collect();
            return Err(KeyError::NoPassphrase {
                tried: format!(
                    "no file given, {} not set, no systemd credential `{credential}`\n\
                     help: pass `--passphrase-file FILE` (mode 0600)",
                    names.join(", ")
                ),
            });
        };
        if secret.is_empty() {
            return Err(KeyError::NoPassphrase {
                tried: format!("{origin} is empty"),
            });
        }
        Ok(secret)
    }

    /// Whether it has no character at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn from_file(path: &Path) -> Result<Secret, KeyError> {
    let text = read_secret_file(path)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    Ok(Secret::new(line.to_owned()))
}
