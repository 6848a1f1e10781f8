//! The bundles that matter to a pair: what is desired, what runs, and what the signed index of each has of the pair.
//!
//! What comes in: the store and a pair, perhaps at a site. What goes out: bundles on record, and what their indexes say. Which bundle is
//! desired is decided as everywhere else: one that was taken back is not, and a stream that was given another role goes on under it.

use std::cmp::Reverse;

use outhaul_bundle::name::Name;
use outhaul_store::{BundleOnRecord, Session, SitePage, StoreError};

use super::asked::ExplainAsked;
use crate::indexes::Indexes;
use crate::{Reading, newest_for};

/// Bundles that run in a stream and are listed: those that most sites run.
const RUNNING_LISTED: usize = 3;

/// A bundle that matters.
pub(super) struct RelevantBundle {
    pub(super) bundle: BundleOnRecord,
    /// Whether it is what should run.
    pub(super) is_desired: bool,
    /// How many sites run it.
    pub(super) running: u64,
}

/// What the signed index of a bundle has of a pair.
pub(super) enum Signed {
    /// The assignment, with its config in this version.
    Has(String),
    /// No such assignment; a sentence.
    Lacks(String),
    /// That is not known; a sentence.
    Unknown(String),
}

/// Whether a site of this name is of the environment and the cluster type.
pub(super) fn is_site_of(
    session: &Session<'_>,
    site: &str,
    asked: &ExplainAsked<'_>,
) -> Result<bool, StoreError> {
    let known = session.site(site)?;
    Ok(known.is_some_and(|one| {
        (one.environment.as_str(), one.cluster_type.as_str())
            == (asked.environment, asked.cluster_type)
    }))
}

/// The newest bundle of the pair's streams, and those that most sites run.
pub(super) fn of_stream(
    session: &Session<'_>,
    asked: &ExplainAsked<'_>,
) -> Result<Vec<RelevantBundle>, StoreError> {
    let streams = session.streams_on_record()?;
    let roles = streams.iter().filter(|one| {
        (one.environment.as_str(), one.cluster_type.as_str())
            == (asked.environment, asked.cluster_type)
    });
    let mut desired: Option<BundleOnRecord> = None;
    let mut running: Vec<(String, u64, String, u64)> = Vec::new();
    for stream in roles {
        if let Some(newest) = session.newest_bundle(&stream.role)?
            && desired
                .as_ref()
                .is_none_or(|known| newest.issued_ms > known.issued_ms)
        {
            desired = Some(newest);
        }
        let of_role = session.running_in_stream(&stream.role)?.into_iter();
        running.extend(
            of_role.map(|(number, index, sites)| (stream.role.clone(), number, index, sites)),
        );
    }
    running.sort_by_key(|one| Reverse(one.3));
    let mut found: Vec<RelevantBundle> = Vec::new();
    if let Some(bundle) = desired {
        let key = (&bundle.role, bundle.number, &bundle.index);
        let runs = running.iter().find(|one| (&one.0, one.1, &one.2) == key);
        found.push(RelevantBundle {
            running: runs.map_or(0, |one| one.3),
            is_desired: true,
            bundle,
        });
    }
    for (role, number, index, sites) in running.into_iter().take(RUNNING_LISTED) {
        let is_listed = found
            .iter()
            .any(|one| (&one.bundle.role, one.bundle.number) == (&role, number));
        if is_listed {
            continue;
        }
        let bundle = session.bundle_on_record(&role, number)?;
        found.extend(
            bundle
                .filter(|bundle| bundle.index == index)
                .map(|bundle| RelevantBundle {
                    bundle,
                    is_desired: false,
                    running: sites,
                }),
        );
    }
    Ok(found)
}

/// The bundle that a site runs, and the one that it should run.
pub(super) fn of_site(
    session: &Session<'_>,
    asked: &ExplainAsked<'_>,
    now_ms: i64,
) -> Result<Vec<RelevantBundle>, StoreError> {
    let reading = Reading::of(session, SitePage::named(asked.site), now_ms)?;
    let first = reading.sites.first();
    let Some(state) = first.filter(|one| one.site == asked.site) else {
        return Ok(Vec::new());
    };
    let mut found: Vec<RelevantBundle> = Vec::new();
    if let Some(running) = state.running.as_ref().filter(|one| one.bundle > 0) {
        let bundle = session.bundle_on_record(&running.role, running.bundle)?;
        found.extend(
            bundle
                .filter(|bundle| bundle.index == running.index)
                .map(|bundle| RelevantBundle {
                    bundle,
                    is_desired: false,
                    running: 1,
                }),
        );
    }
    if let Some(desired) = newest_for(&reading.bundles, state) {
        let key = (&desired.role, desired.number);
        let same = |one: &&mut RelevantBundle| (&one.bundle.role, one.bundle.number) == key;
        match found.iter_mut().find(same) {
            Some(one) => one.is_desired = true,
            None => found.extend(
                session
                    .bundle_on_record(&desired.role, desired.number)?
                    .map(|bundle| RelevantBundle {
                        bundle,
                        is_desired: true,
                        running: 0,
                    }),
            ),
        }
    }
    Ok(found)
}

/// What the signed index of a bundle has of a pair.
pub(super) fn signed(
    indexes: &mut Indexes<'_, '_>,
    bundle: &BundleOnRecord,
    asked: &ExplainAsked<'_>,
) -> Result<Signed, StoreError> {
    let index = match indexes.of(bundle)? {
        Ok(index) => index,
        Err(why) => return Ok(Signed::Unknown(why)),
    };
    let number = bundle.number;
    let mut assignments = index.assignments.iter();
    let Some(named) = assignments.find(|one| one.name.as_str() == asked.target) else {
        let why = format!("bundle {number} does not have this assignment");
        return Ok(Signed::Lacks(why));
    };
    if asked.site.is_empty() {
        return Ok(Signed::Has(named.config_version.to_string()));
    }
    let site = asked.site.parse::<Name>().ok();
    Ok(match site.filter(|site| named.is_for(site)) {
        Some(site) => Signed::Has(named.for_site(&site).config_version.to_string()),
        None => Signed::Lacks(format!(
            "bundle {number} does not have this assignment at {}",
            asked.site
        )),
    })
}
