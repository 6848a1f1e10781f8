//! The bundles that the hub verified of the base commit that a record names, and how the record stands towards them.
//!
//! What comes in: a session, the site, and the record of the commit that it shows. What goes out: whether a signed bundle holds the same.
//! It reads the indexes that the hub keeps, a bounded number of them, and writes nothing; the comparison itself is in `compare`.

use outhaul_bundle::Index;
use outhaul_store::{BundleOnRecord, KeptIndex, Session, StoreError};

use crate::compare::{Compared, difference, is_same_base, other_commits, unknown_base};
use crate::record::KnownRecord;
use crate::settings::WebhookSettings;

/// Most bundles of one base commit that are looked at, the newest first.
const MAX_LISTED: usize = 64;
/// Most of them of which the index is read: those of the same commits before others.
const MAX_COMPARED: usize = 4;

/// Compares the record with the bundles of its base commit that are for the site. With which it agrees is remembered in it, so that the
/// next event reads no index.
pub(crate) fn compare(
    session: &Session<'_>,
    site: &str,
    settings: &WebhookSettings,
    record: &mut KnownRecord,
) -> Result<Compared, StoreError> {
    let role = settings.stream.role.as_str();
    let base = &record.snapshot.base.commit;
    let mut bundles = session.bundles_of_base(role, base, MAX_LISTED)?;
    bundles.retain(|one| {
        let mut recipients = one.recipients.iter();
        one.recipients.is_empty() || recipients.any(|name| name == site)
    });
    let agreed = record.same_as.take();
    if let Some(agreed) = agreed.filter(|agreed| bundles.iter().any(|one| one.index == *agreed)) {
        record.same_as = Some(agreed);
        return Ok(Compared::Same);
    }
    let is_of = |one: &BundleOnRecord| one.snapshot.is_of(&record.snapshot);
    bundles.sort_by_key(|one| !is_of(one));
    bundles.truncate(MAX_COMPARED);
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
    Ok(found.unwrap_or_else(|| Compared::Unknown(unknown_base(record))))
}

/// The index of a bundle, or why it is not there.
fn index(
    session: &Session<'_>,
    bundle: &BundleOnRecord,
) -> Result<Result<Index, String>, StoreError> {
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
