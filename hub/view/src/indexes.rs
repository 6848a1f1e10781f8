//! The indexes of bundles that a hub keeps, read within bounds, and why one is not there.
//!
//! What comes in: bundles on record. What goes out: the index of each, or a sentence. How much text is read for one answer is
//! bounded, because an index may have 8 MiB. It verifies no signature: what is kept has the digest that was verified.

use outhaul_bundle::Index;
use outhaul_store::{BundleOnRecord, KeptIndex, MAX_INDEX_BYTES, Session, StoreError};

/// The index of a bundle, or why it is not known.
pub(crate) type IndexResult = Result<Box<Index>, String>;

/// Reads indexes until so much text was read.
#[derive(Debug)]
pub(crate) struct Indexes<'a, 's> {
    session: &'a Session<'s>,
    left_bytes: u64,
}

/// Text of indexes that is read for the page of one thing, in bytes: two of the largest.
pub(crate) const FOR_ONE_BYTES: u64 = 16 * 1024 * 1024;
/// Text of indexes that is read for a list or one part of it, in bytes.
pub(crate) const FOR_A_LIST_BYTES: u64 = 8 * 1024 * 1024;

impl<'a, 's> Indexes<'a, 's> {
    /// At most so many bytes of text.
    pub(crate) fn new(session: &'a Session<'s>, at_most_bytes: u64) -> Self {
        Self {
            session,
            left_bytes: at_most_bytes,
        }
    }

    /// The index of a bundle. What no page could show is said before what this page has no room for.
    pub(crate) fn of(&mut self, bundle: &BundleOnRecord) -> Result<IndexResult, StoreError> {
        let number = bundle.number;
        if bundle.index_size > MAX_INDEX_BYTES as u64 {
            return Ok(Err(format!(
                "the index of bundle {number} has more than 8 MiB, and this hub keeps none of that size"
            )));
        }
        let none = || {
            format!(
                "this hub keeps no index of bundle {number}: it was recorded before indexes were kept"
            )
        };
        let Some(left) = self.left_bytes.checked_sub(bundle.index_size) else {
            return Ok(Err(match self.session.keeps_index(bundle)? {
                true => format!(
                    "the indexes of this list are too large to be read for it; the page of bundle {number} shows it"
                ),
                false => none(),
            }));
        };
        let text = match self.session.kept_index(bundle)? {
            KeptIndex::Whole(text) => text,
            KeptIndex::Missing => return Ok(Err(none())),
            KeptIndex::Other => {
                return Ok(Err(format!(
                    "the index that is kept of bundle {number} is of other content than the bundle on record"
                )));
            }
        };
        self.left_bytes = left;
        // What it holds was checked against the limits when it was recorded; its digest is still the same.
        let index = serde_json::from_str::<Index>(&text);
        Ok(index.map(Box::new).map_err(|_| {
            format!(
                "the index of bundle {number} is of a format that this hub cannot read any more"
            )
        }))
    }
}
