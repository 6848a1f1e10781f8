//! Names and passwords for registries, as Docker and podman keep them.
//!
//! What comes in: files of the form of `~/.docker/config.json`. What goes out: what a registry is given. No
//! helper program is started: what only a helper knows is named, not guessed. Nothing of it stands in a message.

use outhaul_kit::image_name::registry_of;
use outhaul_kit::url::UrlParts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use zeroize::Zeroizing;

/// Largest file in bytes.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Option<String>,
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the credentials in `{}`: {problem}", path.display())]
pub struct CredentialsError {
    path: PathBuf,
    problem: String,
}

/// By host, `name:password` in Base64.
#[derive(Clone, Default)]
pub struct Credentials {
    basic: BTreeMap<String, Zeroizing<String>>,
    /// A program that would know more.
    helper: Option<String>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Never a password.
        f.debug_set().entries(self.basic.keys()).finish()
    }
}

impl Credentials {
    /// Those of `files`; the first that knows a host counts, and one that is not there knows none.
    ///
    /// # Errors
    /// [`CredentialsError`] for a file that is there and cannot be read.
    pub fn read(files: &[PathBuf]) -> Result<Self, CredentialsError> {
        let mut all = Self::default();
        for path in files {
            all.add(path)?;
        }
        Ok(all)
    }

    fn add(&mut self, path: &Path) -> Result<(), CredentialsError> {
        let wrong = |problem: String| CredentialsError {
            path: path.to_owned(),
            problem,
        };
        let bytes = outhaul_kit::durable::read_if_present(path, MAX_BYTES);
        let Some(bytes) = bytes.map_err(|error| wrong(error.to_string()))? else {
            return Ok(());
        };
        let bytes = Zeroizing::new(bytes);
        // What a parser says of such a file could hold a part of it.
        let file: File = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("line {} is not as expected", error.line())))?;
        for (host, entry) in file.auths {
            let given = entry
                .auth
                .map(Zeroizing::new)
                .filter(|auth| !auth.is_empty());
            if let Some(auth) = given.filter(|auth| STANDARD.decode(auth.as_bytes()).is_ok()) {
                self.basic.entry(host_of(&host)).or_insert(auth);
            }
        }
        let helper = file.store.or_else(|| file.helpers.into_values().next());
        self.helper = self.helper.take().or(helper);
        Ok(())
    }

    /// The value of `Authorization` for `host`.
    pub(crate) fn basic(&self, host: &str) -> Option<Zeroizing<String>> {
        let known = self.basic.get(&host_of(host));
        known.map(|auth| Zeroizing::new(format!("Basic {}", auth.as_str())))
    }

    /// A program that may know more; it is not started.
    pub(crate) fn helper(&self) -> Option<&str> {
        self.helper.as_deref()
    }
}

/// `https://index.docker.io/v1/` as `docker.io`.
fn host_of(text: &str) -> String {
    let host = match UrlParts::of(text) {
        Some(parts) => parts.authority,
        None => text.split('/').next().unwrap_or(text),
    };
    registry_of(&host.to_ascii_lowercase()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_docker_login_wrote_is_given_to_that_host_alone_and_to_nobody_in_a_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let text = r#"{"auths":{"https://index.docker.io/v1/":{"auth":"bWU6c2VjcmV0"},"ghcr.io":{}},"credsStore":"desktop"}"#;
        std::fs::write(&path, text).unwrap();
        let missing = folder.path().join("missing.json");
        let all = Credentials::read(&[missing, path.clone()]).unwrap();
        let basic = all.basic("registry-1.docker.io").unwrap();
        assert_eq!(basic.as_str(), "Basic bWU6c2VjcmV0");
        assert!(all.basic("ghcr.io").is_none());
        assert_eq!(all.helper(), Some("desktop"));
        assert!(!format!("{all:?}").contains("bWU6c2VjcmV0"));
        std::fs::write(&path, "{\"auths\": {\"a\": \"bWU6c2VjcmV0\"}}").unwrap();
        let error = Credentials::read(&[path]).unwrap_err().to_string();
        assert!(!error.contains("bWU6c2VjcmV0"), "{error}");
    }
}
