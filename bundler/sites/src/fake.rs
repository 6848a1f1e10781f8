//! Made-up records, for tests here and in programs that read them.
//!
//! What comes in: the name of a site and its key. What goes out: a record as after an approval. Nothing is written.

use std::collections::BTreeSet;

use outhaul_bundle::Digest;
use outhaul_bundle::index::Stream;
use outhaul_bundle::name::{Name, NameError};

use crate::{FORMAT, SiteRecord};

/// The record of a site of `dev/press` with this key; none is approved yet where it is empty.
///
/// # Errors
/// [`NameError`]
pub fn record(site: &str, seal_key: &str) -> Result<SiteRecord, NameError> {
    let stream = Stream {
        role: "dev-press".parse()?,
        environment: "dev".parse()?,
        cluster_type: "press".parse()?,
    };
    let roles: BTreeSet<Name> = BTreeSet::from([stream.role.clone()]);
    Ok(SiteRecord {
        format: FORMAT.to_owned(),
        site: site.parse()?,
        moved_from: None,
        roles,
        stream,
        enrolment: Digest::of(b"kit"),
        public_keys: Vec::new(),
        seal_key: seal_key.to_owned(),
        last_order: 0,
        orders: Vec::new(),
        earlier: Vec::new(),
    })
}
