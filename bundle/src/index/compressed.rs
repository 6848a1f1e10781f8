//! A large index in compressed form: signed metadata lists its compressed bytes beside the index itself.
//!
//! What comes in: the canonical bytes of an index, or a bundle's metadata files and compressed bytes whose digest they list. What goes out:
//! the compressed bytes of a large index, what metadata files list of them, or the canonical bytes again, bounded by their signed size. It
//! verifies no signature: whoever gives the digest of an index has verified the metadata that lists it, and metadata files of one bundle
//! that differ about its compressed form are refused.

use std::collections::BTreeMap;
use std::io;

use serde::Deserialize;
use zstd::zstd_safe::CParameter;

use super::Content;
use crate::digest::Digest;

/// Size in bytes from which an index is compressed: below, it would save a block or two.
pub const MIN_COMPRESSED_BYTES: usize = 64 * 1024;
/// zstd's level. Most of an index are digests, which no level makes smaller: what counts is that the second place of each is found, however
/// far behind the first.
const LEVEL: i32 = 3;
/// Logarithm of the window: as large as the largest index.
const WINDOW_LOG: u32 = 26;
/// Shortest repetition in bytes that is looked for in the whole window: half of a digest's digits.
const MIN_FAR_MATCH: u32 = 32;
/// Logarithm of the positions that are remembered of the window.
const FAR_MATCH_LOG: u32 = 20;
/// Logarithm of how many positions one is remembered of: every digest has several.
const FAR_MATCH_RATE_LOG: u32 = 3;

/// The compressed form of `index_bytes`; `None` for a small index, or where nothing would be saved.
///
/// # Errors
/// The message of zstd, when it has no memory.
pub fn compressed(index_bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if index_bytes.len() < MIN_COMPRESSED_BYTES {
        return Ok(None);
    }
    let compress = || {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        for parameter in [
            CParameter::WindowLog(WINDOW_LOG),
            CParameter::EnableLongDistanceMatching(true),
            CParameter::LdmMinMatch(MIN_FAR_MATCH),
            CParameter::LdmHashLog(FAR_MATCH_LOG),
            CParameter::LdmHashRateLog(FAR_MATCH_RATE_LOG),
        ] {
            compressor.set_parameter(parameter)?;
        }
        compressor.compress(index_bytes)
    };
    let bytes = compress().map_err(|error: io::Error| error.to_string())?;
    Ok(Some(bytes).filter(|bytes| bytes.len() < index_bytes.len()))
}

/// The bytes of an index, and its compressed form where it travels in that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexBytes {
    /// What [`super::Index::to_bytes`] gives.
    pub canonical: Vec<u8>,
    /// The compressed form that metadata lists.
    pub compressed: Option<Vec<u8>>,
}

impl IndexBytes {
    /// An index as a bundle has it: its bytes, and its compressed form where it travels in that.
    pub fn new(canonical: Vec<u8>, compressed: Option<Vec<u8>>) -> Self {
        Self {
            canonical,
            compressed,
        }
    }

    /// What metadata lists of the index.
    pub fn content(&self) -> Content {
        Content {
            digest: Digest::of(&self.canonical),
            size: self.canonical.len() as u64,
        }
    }

    /// Those of a bundle with these metadata files: compressed where they list the form that this program makes.
    pub fn listed_in(canonical: &[u8], metadata: &[(String, Vec<u8>)]) -> Self {
        let mut forms = CompressedForms::default();
        for (_, file) in metadata {
            forms.add(file);
        }
        let listed = forms.of(&Digest::of(canonical));
        let compressed = listed.and_then(|listed| {
            let bytes = compressed(canonical).ok().flatten()?;
            // Another version of zstd may have made other bytes of it: then the index travels as it is.
            (Digest::of(&bytes) == listed.digest).then_some(bytes)
        });
        Self::new(canonical.to_vec(), compressed)
    }
}

/// What the metadata files of one bundle list of the compressed forms of indexes, by the digest of the index.
#[derive(Debug, Default)]
pub(crate) struct CompressedForms(BTreeMap<Digest, Form>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    Listed(Content),
    NotListed,
    /// Two files list one index with different compressed forms: one of them is not what was signed.
    Differing,
}

#[derive(Deserialize)]
struct MetadataFile {
    signed: Signed,
}

#[derive(Deserialize)]
struct Signed {
    #[serde(default)]
    targets: BTreeMap<String, Target>,
}

#[derive(Deserialize)]
struct Target {
    hashes: Hashes,
    #[serde(default)]
    custom: Option<Custom>,
}

#[derive(Deserialize)]
struct Hashes {
    sha256: HexDigest,
}

#[derive(Deserialize)]
struct Custom {
    #[serde(default)]
    zstd: Option<Compressed>,
}

#[derive(Deserialize)]
struct Compressed {
    length: u64,
    sha256: HexDigest,
}

/// A digest as metadata writes it: hexadecimal digits.
struct HexDigest(Digest);

impl<'de> Deserialize<'de> for HexDigest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digest = Digest::from_hex(&text).map_err(serde::de::Error::custom)?;
        Ok(Self(digest))
    }
}

impl CompressedForms {
    /// What verified metadata lists of one index.
    pub(crate) fn verified(index: Digest, form: Option<Content>) -> Self {
        let form = form.map_or(Form::NotListed, Form::Listed);
        Self(BTreeMap::from([(index, form)]))
    }

    /// Adds what one metadata file lists. A file that lists nothing in this form adds nothing: it cannot vouch for an index.
    pub(crate) fn add(&mut self, file: &[u8]) {
        let Ok(file) = serde_json::from_slice::<MetadataFile>(file) else {
            return;
        };
        for target in file.signed.targets.into_values() {
            let listed = target.custom.and_then(|custom| custom.zstd);
            let form = listed.map_or(Form::NotListed, |listed| {
                Form::Listed(Content {
                    digest: listed.sha256.0,
                    size: listed.length,
                })
            });
            self.0
                .entry(target.hashes.sha256.0)
                .and_modify(|known| {
                    if *known != form {
                        *known = Form::Differing;
                    }
                })
                .or_insert(form);
        }
    }

    /// The compressed form of the index with the digest `index`; `None` when it is not listed, or not in one way.
    pub(crate) fn of(&self, index: &Digest) -> Option<Content> {
        match self.0.get(index)? {
            Form::Listed(content) => Some(*content),
            Form::NotListed | Form::Differing => None,
        }
    }
}

/// The bytes of an index from its compressed form, both as signed metadata lists them.
///
/// # Errors
/// What differs, in words; nothing that differs from what is listed is decompressed.
pub fn open(bytes: &[u8], compressed: &Content, index: &Content) -> Result<Vec<u8>, String> {
    let found = Digest::of(bytes);
    if found != compressed.digest || bytes.len() as u64 != compressed.size {
        let Content { digest, size } = compressed;
        return Err(format!(
            "it has {} bytes with the digest {found}; {size} with {digest} are signed",
            bytes.len()
        ));
    }
    let out = decompress(bytes, index.size)?;
    let found = Digest::of(&out);
    match found == index.digest {
        true => Ok(out),
        false => Err(format!(
            "an index with the digest {found} came out, {} is signed",
            index.digest
        )),
    }
}

/// The index's bytes of verified compressed bytes: as many as were signed, or an error that says what came out.
fn decompress(bytes: &[u8], size: u64) -> Result<Vec<u8>, String> {
    let size = usize::try_from(size).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    out.try_reserve_exact(size)
        .map_err(|error| error.to_string())?;
    let mut decompressor = zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?;
    let count = decompressor
        .decompress_to_buffer(bytes, &mut out)
        .map_err(|error| error.to_string())?;
    match count == size {
        true => Ok(out),
        false => Err(format!("{count} bytes came out, {size} are signed")),
    }
}

#[cfg(test)]
mod tests;
