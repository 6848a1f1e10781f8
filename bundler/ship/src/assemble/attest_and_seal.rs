//! What may still be done to an assembled bundle before it is signed: attest it, and seal it.
//!
//! What comes in: an [`UnsignedBundle`]. What goes out: the same one with attestations beside its
//! content, or with every blob encrypted for those who are to read it. Attested first, sealed last:
//! the attestations are sealed, too. Attesting keeps the promise that the same input gives the same
//! bytes; sealing cannot, because every seal has a separate key.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read as _};

use outhaul_bundle::Index;
use outhaul_bundle::digest::HashingWriter;
use outhaul_bundle::encode::ContentToEncode;
use outhaul_bundle::index::{Blob, File as IndexFile, IndexError};
use outhaul_bundle::limits::Limits;
use outhaul_bundle::name::{Name, NameError};
use outhaul_bundle::seal::{MAX_RECIPIENTS, Sealed};
use outhaul_kit::console::progress::{Meter, Unit};
use outhaul_seal::{Recipient, SealError};
use outhaul_signer::fleet::StatementSigner;
use outhaul_sites::readers::NamedRecipient;

use super::spool::CountedContents;
use super::{AssembleError, SpoolError, UnsignedBundle, encode_all};
use outhaul_attest::images::{CarriedImage, is_of_image};
use outhaul_attest::verified::VerifiedImage;
use outhaul_attest::{self as attest, AttestError};

/// What the format allows can be sealed.
const _: () = assert!(MAX_RECIPIENTS <= outhaul_seal::MAX_SEAL_RECIPIENTS);

/// Why a bundle could not be attested or sealed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttestSealError {
    /// An attestation could not be made.
    #[error("cannot attest the bundle")]
    Attest(#[from] AttestError),
    /// A content could not be packed.
    #[error("cannot pack the attestations")]
    Assemble(#[from] AssembleError),
    /// The result would not be readable on site.
    #[error("the bundle would contradict itself")]
    Inconsistent(#[from] IndexError),
    /// A key's id is not a name.
    #[error("the id of a key")]
    Name(#[from] NameError),
    /// A blob could not be sealed.
    #[error("cannot seal a blob")]
    Seal(#[from] SealError),
    /// The temporary folder failed.
    #[error("cannot keep contents in the temporary folder")]
    Spool(#[from] SpoolError),
}

impl UnsignedBundle {
    /// Adds what the fleet says of the bundle's content: see [`attest`]. It lies before all content, so that whoever wants only
    /// that need not read the rest; an image's bill of materials is a blob that stays the same as long as the image.
    ///
    /// # Errors
    /// [`AttestSealError`]
    pub fn attest(
        mut self,
        images: &[CarriedImage],
        vex: &BTreeMap<String, String>,
        verified: &[VerifiedImage],
        signer: &StatementSigner,
    ) -> Result<Self, AttestSealError> {
        let meter = Meter::new("listing the contents", Unit::Bytes, None);
        let mut source = CountedContents(self.spool.contents(), &meter);
        let made = attest::attest(&self.index, &mut source, (images, vex, verified), signer)?;
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for (name, bytes) in made {
            let (content, size) = self.spool.add(&bytes)?;
            let path = name.parse()?;
            self.index.attestations.push(IndexFile {
                path,
                content,
                size,
                executable: false,
            });
            let candidate = ContentToEncode {
                digest: content,
                size,
                path: format!("attestations/{name}"),
            };
            match is_of_image(&name) {
                true => alone.push(vec![candidate]),
                false => together.push(candidate),
            }
        }
        self.index.attestations.sort_by(|a, b| a.path.cmp(&b.path));
        let mut first = Vec::new();
        for candidates in std::iter::once(together).chain(alone) {
            first.extend(encode_all(&candidates, &mut self.spool)?);
        }
        self.index.blobs.splice(0..0, first);
        self.with_index_bytes()
    }

    /// An attestation of a bundle that is not sealed yet; empty when it has none of that name.
    ///
    /// # Errors
    /// [`SpoolError`] when it cannot be read again.
    pub fn attestation(&self, name: &str) -> Result<Vec<u8>, SpoolError> {
        let mut attestations = self.index.attestations.iter();
        let Some(found) = attestations.find(|file| file.path.as_str() == name) else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::new();
        let file = self.spool.open(&found.content)?;
        let read = file.take(found.size).read_to_end(&mut bytes);
        read.map_err(|source| SpoolError::at(self.spool.folder(), source))?;
        Ok(bytes)
    }

    /// Encrypts every blob, so that only `readers` can open it. Names, sizes and digests of the contents
    /// stay readable in the index: whoever has a guess at a content can check it.
    ///
    /// # Errors
    /// [`AttestSealError`]
    pub fn seal(mut self, readers: &[NamedRecipient]) -> Result<Self, AttestSealError> {
        let mut recipients = BTreeMap::new();
        let mut keys: Vec<Recipient> = Vec::new();
        for reader in readers {
            let id: Name = reader.key.id().parse()?;
            if recipients.insert(id, reader.name.clone()).is_none() {
                keys.push(reader.key.clone());
            }
        }
        if keys.is_empty() || keys.len() > MAX_RECIPIENTS {
            return Err(SealError::Recipients { count: keys.len() }.into());
        }
        let blobs = std::mem::take(&mut self.index.blobs);
        for blob in blobs {
            let sealed = self.seal_blob(blob, &keys, &recipients)?;
            self.index.blobs.push(sealed);
        }
        self.with_index_bytes()
    }

    fn seal_blob(
        &mut self,
        blob: Blob,
        keys: &[Recipient],
        recipients: &BTreeMap<Name, Name>,
    ) -> Result<Blob, AttestSealError> {
        let folder = self.spool.folder();
        let path = folder.join("blob-being-sealed");
        let from = self.spool.open_blob(&blob)?;
        let out = File::create(&path).map_err(|source| SpoolError::at(&path, source))?;
        let mut out = HashingWriter::new(BufWriter::new(out));
        outhaul_seal::seal(from, &mut out, keys)?;
        let (_, digest, size) = out.finish();
        let sealed = Sealed {
            recipients: recipients.clone(),
            size: blob.size,
        };
        let plain = folder.join(format!("blob-{}", blob.digest.hex()));
        let blob = Blob {
            digest,
            size,
            sealed: Some(sealed),
            ..blob
        };
        let kept = folder.join(format!("blob-{}", blob.digest.hex()));
        std::fs::rename(&path, &kept).map_err(|source| SpoolError::at(&kept, source))?;
        // One that lies elsewhere stays.
        let _ = std::fs::remove_file(plain);
        self.spool.keep_blob(blob.clone(), kept);
        Ok(blob)
    }

    /// With the bytes of its changed index.
    fn with_index_bytes(mut self) -> Result<Self, AttestSealError> {
        self.index_bytes = self.index.to_bytes();
        Index::from_bytes(&self.index_bytes, &Limits::default())?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
