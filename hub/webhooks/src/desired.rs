//! The bundles that the hub verified of the base commit that a record names, and how the record stands towards them.
//!
//! What comes in: a session, the site, and the record of the commit that it shows. What goes out: whether a signed bundle holds the same,
//! which is remembered in the record, too. It reads the indexes that the hub keeps, a bounded number of them, and stores nothing; the
//! comparison with one of them is in `compare`.

use outhaul_bundle::Index;
use outhaul_store::{BundleOnRecord, KeptIndex, MAX_INDEX_BYTES, Session, StoreError};

use crate::compare::{difference, is_same_base, other_commits, unknown_base};
use crate::record::{Compared, KnownRecord};
use crate::settings::WebhookSettings;

/// Most bundles of one base commit that are looked at, the newest first.
const MAX_LISTED: usize = 64;
/// Most of them of which the index is read: those of the same commits before others.
const MAX_COMPARED: usize = 4;

/// Compares the record with the bundles of its base commit that are for the site. What came of it is remembered in the record, so that the
/// next event reads no index as long as there are the same bundles.
pub(crate) fn compare(
    session: &Session<'_>,
    site: &str,
    settings: &WebhookSettings,
    record: &mut KnownRecord,
) -> Result<Compared, StoreError> {
    let role = settings.stream.role.as_str();
    let base = &record.snapshot.base.commit;
    let mut bundles = session.bundles_of_base((role, site), base, MAX_LISTED)?;
    let agreed = record.same_as.take();
    if let Some(agreed) = agreed.filter(|agreed| bundles.iter().any(|one| one.index == *agreed)) {
        record.same_as = Some(agreed);
        return Ok(Compared::Same);
    }
    let is_of = |one: &BundleOnRecord| one.snapshot.is_of(&record.snapshot);
    bundles.sort_by_key(|one| !is_of(one));
    bundles.truncate(MAX_COMPARED);
    // Of a bundle that is imported again the index is kept from then on.
    let with = bundles.iter().map(|one| {
        let is_kept = session.keeps_index(one)?;
        Ok((one.index.clone(), is_kept))
    });
    let with: Vec<(String, bool)> = with.collect::<Result<_, StoreError>>()?;
    let known = record.other_than.take();
    if let Some(known) = known.filter(|(others, _)| *others == with) {
        let (_, compared) = record.other_than.insert(known);
        return Ok(compared.clone());
    }
    let mut found = None;
    for bundle in &bundles {
        let verdict = match index(session, bundle)? {
            Err(text) => Compared::Unknown(text),
            Ok(index) => match difference(record, &index) {
                None => {
                    record.same_as = Some(bundle.index.clone());
                    return Ok(Compared::Same);
                }
                Some(text) if is_of(bundle) || !is_same_base(record, &index) => {
                    Compared::Differs(text)
                }
                Some(text) => Compared::Unknown(other_commits(record, &text)),
            },
        };
        found = found.or(Some(verdict));
    }
    let found = found.unwrap_or_else(|| Compared::Unknown(unknown_base(record)));
    record.other_than = Some((with, found.clone()));
    Ok(found)
}

/// The index of a bundle, or why it is not there.
fn index(
    session: &Session<'_>,
    bundle: &BundleOnRecord,
) -> Result<Result<Index, String>, StoreError> {
    if bundle.index_size > MAX_INDEX_BYTES as u64 {
        return Ok(Err(too_large(bundle.number, bundle.index_size)));
    }
    let unread = || {
        format!(
            "this hub keeps no index of bundle {}, with which the record of the commit is compared: import the bundle again",
            bundle.number
        )
    };
    Ok(match session.kept_index(bundle)? {
        KeptIndex::Whole(text) => serde_json::from_str(&text).map_err(|_| unread()),
        KeptIndex::Missing | KeptIndex::Other => Err(unread()),
    })
}

/// Why the record cannot be compared with a bundle of which no hub keeps the index.
fn too_large(number: u64, size: u64) -> String {
    format!(
        "the index of bundle {number} has {size} bytes, and a hub keeps none above {MAX_INDEX_BYTES}: the record of the commit cannot be compared with \
         it; divide the cluster type, so that a bundle lists fewer files, or run an agent at the site"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_no_hub_keeps_is_said_with_its_size_and_a_way_out() {
        let text = too_large(7, 9_000_000);
        for words in [
            "bundle 7 has 9000000 bytes",
            "above 8388608",
            "divide the cluster type",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("import"), "{text}");
    }
}
