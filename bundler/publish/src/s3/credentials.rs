//! Who asks S3-compatible storage.
//!
//! What comes in: a file as AWS's tools keep it, or the environment variables that they read. What goes out: one pair of keys. A
//! file that others may read is refused. Nothing of it stands in a message.

use std::fmt;
use std::path::{Path, PathBuf};

use outhaul_kit::durable::{self, FileError};
use outhaul_kit::failure::{Classified, FailureClass};
use zeroize::Zeroizing;

/// Largest file in bytes.
const MAX_BYTES: u64 = 64 * 1024;
const ID: &str = "AWS_ACCESS_KEY_ID";
const SECRET: &str = "AWS_SECRET_ACCESS_KEY";
const TOKEN: &str = "AWS_SESSION_TOKEN";

/// Why there are none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Others may read it.
    #[error("`{}` can be read by others than its owner", path.display())]
    Readable {
        /// The file.
        path: PathBuf,
    },
    /// Nothing is given, or not all.
    #[error("no credentials for the bucket: {problem}")]
    None {
        /// What is missing.
        problem: String,
    },
}

impl Classified for CredentialsError {
    fn class(&self) -> FailureClass {
        match self {
            Self::File(_) => FailureClass::Environment,
            Self::Readable { .. } | Self::None { .. } => FailureClass::Usage,
        }
    }

    fn help(&self) -> Option<String> {
        Some(match self {
            Self::File(error) => error.help(),
            Self::Readable { path } => format!("run `chmod 600 {}`", path.display()),
            Self::None { .. } => format!(
                "set {ID} and {SECRET}, or give `--credentials-file` a file with `aws_access_key_id = …` and \
                 `aws_secret_access_key = …` below `[default]`"
            ),
        })
    }
}

/// A pair of keys.
#[derive(Clone)]
pub struct Credentials {
    id: String,
    secret: Zeroizing<String>,
    token: Option<Zeroizing<String>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, …)", self.id)
    }
}

impl Credentials {
    /// From an access key's id, its secret, and a session's token.
    pub fn new(id: &str, secret: &str, token: Option<&str>) -> Self {
        Self {
            id: id.to_owned(),
            secret: Zeroizing::new(secret.to_owned()),
            token: token.map(|token| Zeroizing::new(token.to_owned())),
        }
    }

    /// Those of `file`, or else of the environment's variables as `variable` gives them.
    ///
    /// # Errors
    /// [`CredentialsError`]
    #[expect(clippy::items_after_statements, reason = "named where it is used")]
    pub fn find(
        file: Option<&Path>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, CredentialsError> {
        let Some(path) = file else {
            let given = |name| variable(name).filter(|value| !value.is_empty());
            return Self::of(given(ID), given(SECRET), given(TOKEN), "the environment");
        };
        use std::os::unix::fs::PermissionsExt;
        let meta = std::fs::metadata(path).map_err(durable::at("look at", path))?;
        if meta.permissions().mode() & 0o077 != 0 {
            let path = path.to_owned();
            return Err(CredentialsError::Readable { path });
        }
        let bytes = Zeroizing::new(durable::read(path, MAX_BYTES)?);
        let text = Zeroizing::new(String::from_utf8_lossy(&bytes).into_owned());
        let value = |name: &str| default_profile(&text, name);
        let name = format!("`{}`", path.display());
        Self::of(
            value("aws_access_key_id"),
            value("aws_secret_access_key"),
            value("aws_session_token"),
            &name,
        )
    }

    fn of(
        id: Option<String>,
        secret: Option<String>,
        token: Option<String>,
        origin: &str,
    ) -> Result<Self, CredentialsError> {
        let secret = secret.map(Zeroizing::new);
        let token = token.map(Zeroizing::new);
        match (id, secret) {
            (Some(id), Some(secret)) => Ok(Self { id, secret, token }),
            (id, secret) => {
                let what = match (id.is_some(), secret.is_some()) {
                    (true, _) => "secret key",
                    (_, true) => "id of an access key",
                    _ => "access key",
                };
                let problem = format!("{origin} has no {what}");
                Err(CredentialsError::None { problem })
            }
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.as_str())
    }
}

/// The value of `name` below `[default]`, or above every section.
fn default_profile(text: &str, name: &str) -> Option<String> {
    let mut is_default = true;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_default = section.trim_end_matches(']').trim() == "default";
        } else if is_default
            && let Some((found, value)) = line.split_once('=')
            && found.trim() == name
        {
            return Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_counts_before_the_environment_and_must_be_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let text = "[other]\naws_access_key_id = b\n[default]\naws_access_key_id = a\naws_secret_access_key = s=\n";
        std::fs::write(&path, text).unwrap();
        let none = |_: &str| None;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let error = Credentials::find(Some(&path), &none).unwrap_err();
        assert!(
            matches!(error, CredentialsError::Readable { .. }),
            "{error}"
        );
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        let found = Credentials::find(Some(&path), &none).unwrap();
        assert_eq!(
            (found.id(), found.secret(), found.token()),
            ("a", "s=", None)
        );
        assert!(!format!("{found:?}").contains("s="));
        let error = Credentials::find(None, &|name| (name == ID).then(|| "x".to_owned()));
        let error = error.unwrap_err().to_string();
        assert!(
            error.ends_with("the environment has no secret key"),
            "{error}"
        );
    }
}
