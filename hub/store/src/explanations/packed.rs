//! A document in the form in which it is kept: its texts compressed one by one, each of a bounded size.
//!
//! What comes in: the texts, one at a time, so that no more than one is held uncompressed. What goes out: what is put on record, or that
//! a text is larger than what is read again. It writes nothing.

use outhaul_bundle::hub_api::MAX_EXPLANATION_TEXT_BYTES;
use outhaul_bundle::index::Snapshot;

use super::{StoreError, json};

/// As `zstd` has it: fast, and a tenth of the text.
const LEVEL: i32 = 3;
/// What a row takes besides its texts.
const ROW_BYTES: u64 = 64;

/// A document to be kept, without its texts.
#[derive(Debug, Clone)]
pub struct NewExplanation {
    /// Digest of the whole document.
    pub digest: String,
    /// The environment.
    pub environment: String,
    /// What was rendered.
    pub snapshot: Snapshot,
    /// How many assignments it explains.
    pub assignments: u64,
    /// Size of the whole document.
    pub bytes: u64,
}

/// A document, compressed.
#[derive(Debug)]
pub struct PackedExplanation {
    pub(super) document: NewExplanation,
    /// The snapshot as JSON, which is kept as it is.
    pub(super) snapshot: String,
    /// What pages of all of it need: the size of the text, and the compressed text.
    pub(super) head: (u64, Vec<u8>),
    /// Names of cluster types, sizes of the text, and compressed text.
    pub(super) parts: Vec<(String, u64, Vec<u8>)>,
    pub(super) kept_bytes: u64,
}

impl PackedExplanation {
    /// Compresses what pages of all of it need, as JSON; `None` where that is larger than what is kept. Outside of a transaction,
    /// because it takes long.
    ///
    /// # Errors
    /// [`StoreError`] when there is no memory for it.
    pub fn of(document: NewExplanation, head: &[u8]) -> Result<Option<Self>, StoreError> {
        let Some(packed) = pack(head)? else {
            return Ok(None);
        };
        let snapshot = json(&document.snapshot, "a snapshot")?;
        Ok(Some(Self {
            document,
            kept_bytes: ROW_BYTES + (snapshot.len() + packed.len()) as u64,
            snapshot,
            head: (head.len() as u64, packed),
            parts: Vec::new(),
        }))
    }

    /// Compresses what is for one cluster type, as JSON; `false` where that is larger than what is kept.
    ///
    /// # Errors
    /// [`StoreError`] when there is no memory for it.
    pub fn add_part(&mut self, cluster_type: &str, text: &[u8]) -> Result<bool, StoreError> {
        let Some(packed) = pack(text)? else {
            return Ok(false);
        };
        self.kept_bytes += ROW_BYTES + (cluster_type.len() + packed.len()) as u64;
        let part = (cluster_type.to_owned(), text.len() as u64, packed);
        self.parts.push(part);
        Ok(true)
    }

    /// Digest of the whole document.
    pub fn digest(&self) -> &str {
        &self.document.digest
    }

    /// Size of the whole document.
    pub fn bytes(&self) -> u64 {
        self.document.bytes
    }
}

/// The text, compressed, where it may be read again.
fn pack(text: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    if text.len() > MAX_EXPLANATION_TEXT_BYTES {
        return Ok(None);
    }
    let packed = zstd::bulk::compress(text, LEVEL).map_err(|_| StoreError::Corrupt {
        what: "an explanation that cannot be compressed".to_owned(),
    })?;
    Ok(Some(packed))
}

/// The text, which has as many bytes as was noted.
pub(super) fn unpacked(body: &[u8], bytes: i64) -> Result<Vec<u8>, StoreError> {
    let corrupt = || StoreError::Corrupt {
        what: "an explanation".to_owned(),
    };
    let bytes = usize::try_from(bytes).map_err(|_| corrupt())?;
    // Of a restored copy, a number is what someone wrote.
    if bytes > MAX_EXPLANATION_TEXT_BYTES {
        return Err(corrupt());
    }
    let text = zstd::bulk::decompress(body, bytes).map_err(|_| corrupt())?;
    match text.len() == bytes {
        true => Ok(text),
        false => Err(corrupt()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_would_not_be_read_again_is_not_kept() {
        let text = vec![b' '; MAX_EXPLANATION_TEXT_BYTES + 1];
        assert!(pack(&text).unwrap().is_none());
        let packed = pack(&text[1..]).unwrap().unwrap();
        let bytes = i64::try_from(MAX_EXPLANATION_TEXT_BYTES).unwrap();
        assert_eq!(
            unpacked(&packed, bytes).unwrap().len(),
            MAX_EXPLANATION_TEXT_BYTES
        );
    }
}
