//! A folder that a web server hands out.
//!
//! What comes in: the folder, which must be there, and objects. What goes out: files in it, each whole, synced and renamed to its
//! place. It may lie on a disk that someone else prepared: links in it are not followed.

use std::io::{self, Read as _};
use std::path::Path;

use outhaul_bundle::Digest;
use outhaul_bundle::digest::Hasher;
use outhaul_kit::durable::{FileError, PUBLIC_MODE};
use outhaul_kit::media::Media;

use crate::error::TargetError;
use crate::publication::Object;
use crate::target::Target;

/// The folder.
#[derive(Debug)]
pub struct WebFolder {
    media: Media,
}

impl WebFolder {
    /// The folder at `path`.
    ///
    /// # Errors
    /// [`FileError`] when it is not there.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self {
            media: Media::open(path)?,
        })
    }
}

impl Target for WebFolder {
    fn place(&self, path: &str) -> String {
        format!("`{}`", self.media.path().join(path).display())
    }

    fn size(&mut self, path: &str) -> Result<Option<u64>, TargetError> {
        let file = self.media.open_file(Path::new(path))?;
        let size = file.map(|file| file.metadata().map(|found| found.len()));
        size.transpose().map_err(|source| {
            let path = self.media.path().join(path);
            TargetError::Read { path, source }
        })
    }

    fn read(&mut self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, TargetError> {
        Ok(self.media.read(Path::new(path), max_bytes)?)
    }

    fn digest(&mut self, path: &str) -> Result<Option<Digest>, TargetError> {
        let Some(mut file) = self.media.open_uncached(Path::new(path))? else {
            return Ok(None);
        };
        let mut hasher = Hasher::new();
        io::copy(&mut file, &mut hasher).map_err(|source| {
            let path = self.media.path().join(path);
            TargetError::Read { path, source }
        })?;
        Ok(Some(hasher.finish().0))
    }

    fn put(&mut self, object: &Object, sent: &dyn Fn(u64)) -> Result<(), TargetError> {
        let content = object.content;
        self.media
            .write_with(Path::new(&object.path), PUBLIC_MODE, |file| {
                let mut reader = object.open(0, content.size)?;
                let mut hasher = Hasher::new();
                let mut buffer = vec![0; 256 * 1024];
                loop {
                    let count = reader.read(&mut buffer)?;
                    let bytes = buffer.get(..count).unwrap_or_default();
                    if bytes.is_empty() {
                        break;
                    }
                    hasher.update(bytes);
                    io::Write::write_all(file, bytes)?;
                    sent(count as u64);
                }
                if hasher.finish() == (content.digest, content.size) {
                    return Ok(());
                }
                Err(io::Error::other(format!(
                    "`{}` was changed since it was signed",
                    object.origin().display()
                )))
            })?;
        Ok(())
    }
}
