//! What is sealed for this site: the keys that open it.
//!
//! What comes in: the folder with the site's secret keys, and files that the index lists. What
//! goes out: opened blobs for unpacking, and texts with their values for the reconcilers, in memory that is
//! wiped. Where opened values may be is the reconcilers' rule; none is written here.

use std::io::Read;
use std::path::Path;

use outhaul_bundle::index::Blob;
use outhaul_bundle::seal::{Sealed, Unseal, UnsealError};
use outhaul_reconcilers::sealed::{Binding, Keys, OpenedText, SealedError};
use outhaul_seal::marker::{self, MarkerContext, Syntax};
use outhaul_seal::{Identities, SealError};

use crate::durable::{self, FileError, at};

pub mod own;

/// Largest file, in bytes, that may be a text with sealed values.
pub const MAX_TEXT_BYTES: u64 = marker::MAX_TEXT_BYTES as u64;

/// Why something sealed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The keys.
    #[error("the keys of this site cannot be used: {0}")]
    Keys(#[from] SealError),
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl From<SecretError> for SealedError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::File(error) => Self::File(error),
            keys @ SecretError::Keys(_) => Self::Value(keys.to_string()),
        }
    }
}

/// By what a value is known to belong here.
pub fn place<'a>(binding: &Binding<'a>) -> MarkerContext<'a> {
    MarkerContext {
        fleet: binding.fleet,
        environment: binding.environment,
        workload: binding.workload,
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

    /// Why values in the bytes of the file `shown` cannot be opened here; `None` when they can, or there are none.
    pub fn unopened(&self, bytes: &[u8], shown: &str, here: &Binding<'_>) -> Option<String> {
        if !marker::may_have_markers(bytes) {
            return None;
        }
        let text = std::str::from_utf8(bytes).ok()?;
        let opened = marker::unseal_values(text, &self.0, Syntax::of_file(shown), &place(here));
        opened.err().map(|problem| format!("`{shown}`, {problem}"))
    }
}

impl Keys for Secrets {
    fn open_file(
        &self,
        path: &Path,
        shown: &str,
        here: &Binding<'_>,
    ) -> Result<Option<OpenedText>, SealedError> {
        let Some(text) = text_with_markers(path)? else {
            return Ok(None);
        };
        let opened = marker::unseal_values(&text, &self.0, Syntax::of_file(shown), &place(here))
            .map_err(|problem| SealedError::Value(format!("`{shown}`, {problem}")))?;
        Ok((!opened.values.is_empty()).then_some(OpenedText {
            text: opened.text,
            values: opened.values,
        }))
    }

    fn without_sealed(&self, text: &str, instead: &str) -> String {
        marker::replace_markers(text, instead)
    }
}

/// The text of a file that may have sealed values; `None` when it has none.
///
/// # Errors
/// [`FileError`] when it cannot be read.
pub fn text_with_markers(path: &Path) -> Result<Option<String>, FileError> {
    let mut bytes = Vec::new();
    let file = durable::open(path)?;
    let max = marker::MAX_TEXT_BYTES as u64;
    file.take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(at("read", path))?;
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
        match outhaul_seal::reader(carried, &self.0) {
            Ok(opened) => Ok(Box::new(opened)),
            Err(error) => Err(UnsealError::new(sealed, error.keys_tried(), &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Binding<'static> = Binding {
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
        let shown = secrets
            .open_file(&path, "app/config.yaml", &HERE)
            .unwrap_err()
            .to_string();
        assert!(
            shown.contains("app/config.yaml") && shown.contains("line 2"),
            "{shown}"
        );
        assert!(shown.contains("sealed for others"), "{shown}");
    }
}
