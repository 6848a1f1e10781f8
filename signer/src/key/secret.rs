//! The passphrase that opens keys, and the places that it may come from.
//!
//! What comes in: a file, an environment variable, a systemd credential, or, where someone sits at a terminal
//! and none of these is there, what that person types. What goes out: a [`Secret`] that is wiped when dropped
//! and prints as dots. What scrypt derives from it is kept with it, so that a run derives it once.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pkcs8::pkcs5::scrypt::{self, Params};

use zeroize::Zeroizing;

use super::{KeyError, prompt, read_secret_file, refuse_of_another};

/// Fewest characters of a passphrase that guards a new key: what NIST SP 800-63B-4 asks of a password that is
/// the only factor.
const MIN_CHARACTERS: usize = 15;
/// Fewest different characters in it.
const MIN_DIFFERENT: usize = 6;

/// A passphrase. Never empty; wiped when dropped. Clones share what was derived from it.
#[derive(Clone)]
pub struct Secret {
    text: Zeroizing<String>,
    derived: Arc<Mutex<Vec<Derived>>>,
}

/// What scrypt made of the passphrase.
struct Derived {
    salt: Vec<u8>,
    params: (u8, u32, u32),
    key: Zeroizing<[u8; 32]>,
}

impl Secret {
    /// The environment variable that programs look into.
    pub const VARIABLE: &str = "OUTHAUL_PASSPHRASE";
    /// The systemd credential that programs look for.
    pub const CREDENTIAL: &str = "outhaul-passphrase";

    /// A passphrase from text. An empty one opens nothing and makes no key: see [`Secret::is_empty`].
    pub fn new(text: String) -> Self {
        Self {
            text: Zeroizing::new(text),
            derived: Arc::default(),
        }
    }

    /// As [`Secret::from_sources`]; where no source has one and someone sits at a terminal, it is asked for
    /// there, without echo: twice, when it is to guard something `new`.
    ///
    /// # Errors
    /// As [`Secret::from_sources`]; [`KeyError::WeakPassphrase`] for a new one that is too weak.
    pub fn obtain(file: Option<&Path>, new: bool) -> Result<Self, KeyError> {
        let variables = [Self::VARIABLE];
        let found = match Self::from_sources(file, &variables, Self::CREDENTIAL) {
            Err(KeyError::NoPassphrase { tried })
                if !Self::is_given(file, &variables) && prompt::is_possible() =>
            {
                let no_answer = |problem: &str| KeyError::NoPassphrase {
                    tried: format!("{problem}; {tried}"),
                };
                let typed = prompt::ask(new).map_err(|problem| no_answer(&problem))?;
                Ok(Self::new(typed.as_str().to_owned()))
            }
            other => other,
        }?;
        if new {
            found.refuse_weak()?;
        }
        Ok(found)
    }

    /// A new passphrase, typed twice at the terminal, whatever other sources there are.
    ///
    /// # Errors
    /// [`KeyError`] when nobody is there, or it is too weak.
    pub fn asked() -> Result<Self, KeyError> {
        let nobody = |tried: String| KeyError::NoPassphrase { tried };
        if !prompt::is_possible() {
            let tried = "there is no terminal at which to type the new one\nhelp: `--new-passphrase-file FILE`";
            return Err(nobody(tried.to_owned()));
        }
        let typed = prompt::ask(true).map_err(nobody)?;
        let new = Self::new(typed.as_str().to_owned());
        new.refuse_weak()?;
        Ok(new)
    }

    /// Whether a source was named, even if nothing is in it: then nobody is asked.
    fn is_given(file: Option<&Path>, variables: &[&str]) -> bool {
        file.is_some() || variables.iter().any(|name| env::var_os(name).is_some())
    }

    /// Refuses a passphrase that a new key should not be guarded with. Old keys open with what they have.
    ///
    /// # Errors
    /// [`KeyError::WeakPassphrase`]
    pub fn refuse_weak(&self) -> Result<(), KeyError> {
        let characters: Vec<char> = self.text.chars().collect();
        let different: std::collections::BTreeSet<_> = characters.iter().collect();
        let steps = characters.windows(2).filter(|pair| {
            let (a, b) = (u32::from(pair[0]), u32::from(pair[1]));
            a.abs_diff(b) <= 1
        });
        let repeats = (1..=characters.len() / 2).any(|unit| {
            let pairs = characters.iter().zip(characters.iter().skip(unit));
            pairs.clone().count() > 0 && pairs.into_iter().all(|(a, b)| a == b)
        });
        let problem = if characters.len() < MIN_CHARACTERS {
            "has fewer than 15 characters"
        } else if different.len() < MIN_DIFFERENT {
            "has fewer than 6 different characters"
        } else if repeats {
            "is one short text over and over"
        } else if steps.count() * 2 > characters.len() {
            "is mostly a row of neighbouring characters"
        } else {
            return Ok(());
        };
        Err(KeyError::WeakPassphrase { problem })
    }

    /// The salt of a derivation with `params` that was made already.
    pub(super) fn salt_of(&self, params: &Params) -> Option<Vec<u8>> {
        let derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        let params = (params.log_n(), params.r(), params.p());
        let found = derived.iter().find(|one| one.params == params);
        found.map(|one| one.salt.clone())
    }

    /// The key that scrypt derives; once for each salt.
    pub(super) fn derived(&self, salt: &[u8], params: &Params) -> Option<Zeroizing<[u8; 32]>> {
        let mut derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = (params.log_n(), params.r(), params.p());
        if let Some(found) = derived
            .iter()
            .find(|one| one.params == wanted && one.salt == salt)
        {
            return Some(found.key.clone());
        }
        let mut key = Zeroizing::new([0u8; 32]);
        scrypt::scrypt(self.bytes(), salt, params, &mut *key).ok()?;
        derived.push(Derived {
            salt: salt.to_vec(),
            params: wanted,
            key: key.clone(),
        });
        Some(key)
    }

    /// How often scrypt ran.
    #[cfg(test)]
    pub(super) fn derivations(&self) -> usize {
        let derived = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        derived.len()
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
                tried: format!(
                    "{origin} is empty\nhelp: put the passphrase into it, on one line, or name another file with \
                     `--passphrase-file FILE`"
                ),
            });
        }
        Ok(secret)
    }

    /// Whether it has no character at all.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn from_file(path: &Path) -> Result<Secret, KeyError> {
    refuse_of_another(path, rustix::process::geteuid().as_raw())?;
    let text = read_secret_file(path)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    Ok(Secret::new(line.to_owned()))
}
