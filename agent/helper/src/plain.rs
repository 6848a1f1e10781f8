//! Blobs that the agent made of patches: their contents, end to end, into the helper's own folder.
//!
//! What comes in: a file of the agent's folder, which another user writes to. What goes out: the same bytes in the helper's
//! store, once each content has the digest that the signed index states, or a refusal. How the agent made them is
//! no matter here: no patch is read.

use std::io::{self, Read as _};
use std::path::Path;

use outhaul_bundle::decode;
use outhaul_bundle::index::Blob;

use super::accept::of_the_agent;
use super::{Helper, RequestFailure, refused};
use crate::blobs::Blobs;
use crate::durable::{self, at};

impl Helper {
    /// Copies a blob that the agent has as its contents; whether it has it so.
    pub(super) fn copy_plain(
        &self,
        blobs: &mut Blobs,
        blob: &Blob,
    ) -> Result<bool, RequestFailure> {
        let path = blobs.plain_path(&blob.digest);
        let name = path.file_name().unwrap_or_default();
        let path = Path::new("blobs/sha256").join(name);
        if blobs.has(blob) {
            return Ok(false);
        }
        let Some(file) = self.agent.open_file(&path).map_err(of_the_agent)? else {
            return Ok(false);
        };
        let to = blobs.partial_plain_path(&blob.digest);
        let mut copy = durable::create(&to, 0o600)?;
        let mut from = file.take(blob.plain_bytes().saturating_add(1));
        io::copy(&mut from, &mut copy).map_err(at("copy", &path))?;
        drop(copy);
        let made = durable::open_file(&to).map_err(at("open", &to))?;
        match decode::decode_plain(blob, made, &mut |_| Ok(None)) {
            Ok(()) => {}
            Err(error) if error.is_environment() => {
                return Err(at("read", &to)(io::Error::other(error.to_string())).into());
            }
            Err(error) => {
                durable::remove_file(&to)?;
                let message = format!(
                    "`{}` is not what the signed index names: {error}",
                    path.display()
                );
                return Err(refused("content", message));
            }
        }
        blobs.keep_plain(&blob.digest)?;
        Ok(true)
    }
}
