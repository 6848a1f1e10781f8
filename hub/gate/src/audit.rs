//! The lines of an audit export, and how its chains are made.
//!
//! What comes in: the entries of a hub's record. What goes out: one JSON object per line, and the digests that tie each
//! entry to the one before. Both sides use these types: the hub writes them, `outhaul-audit` reads them. Nothing is
//! signed or checked here.

use std::collections::BTreeMap;

use outhaul_bundle::Digest;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::facts::{Act, Conflict, Restored};

/// The format of the file, in its first line.
pub const FORMAT: &str = "outhaul-audit/2";
/// The same with numbers of reports that are no longer kept: where a hub has removed some.
pub const FORMAT_3: &str = "outhaul-audit/3";
/// The same with sites that were registered again after they were revoked: where a hub has some.
pub const FORMAT_4: &str = "outhaul-audit/4";
/// The same with entries about the hub's clock: where a hub has some.
pub const FORMAT_5: &str = "outhaul-audit/5";
/// The same with entries about reports whose signed text is lost: where a hub has some.
pub const FORMAT_6: &str = "outhaul-audit/6";
/// The same with outcomes of checks: where a hub has some. A decision that may rest on one states the number of the newest act that the
/// hub had.
pub const FORMAT_7: &str = "outhaul-audit/7";
/// The format before it, which is still read: without conflicts, restores and missing reports.
pub const FORMAT_1: &str = "outhaul-audit/1";
/// All of them, each with what the one before it has.
pub const FORMATS: [&str; 7] = [
    FORMAT_1, FORMAT, FORMAT_3, FORMAT_4, FORMAT_5, FORMAT_6, FORMAT_7,
];

/// Whether a file of `format` may have what `first` was the first to have.
pub fn is_from_on(format: &str, first: &str) -> bool {
    let place = |format: &str| FORMATS.iter().position(|known| *known == format);
    matches!((place(format), place(first)), (Some(format), Some(first)) if format >= first)
}

/// The payload type of its last line, an envelope of [`End`].
pub const END_TYPE: &str = "application/vnd.outhaul.audit+json";
/// Longest line, in bytes: an index of the largest size, as text in JSON.
pub const MAX_LINE_BYTES: usize = 160 * 1024 * 1024;

/// One line but the last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AuditLine {
    /// The first.
    Header {
        /// [`FORMAT`].
        format: String,
        /// The fleet.
        fleet: String,
        /// The public key of the hub that wrote it, SPKI PEM.
        hub_key: String,
    },
    /// A registered site.
    Site {
        /// Its name.
        site: String,
        /// Its stream's role.
        role: String,
        /// Its environment.
        environment: String,
        /// Its cluster type.
        cluster_type: String,
        /// When it was registered last, milliseconds since 1970.
        enrolled_ms: i64,
        /// When it was revoked.
        revoked_ms: Option<i64>,
        /// Since when its reports count, where it was registered again after it was revoked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counts_from_ms: Option<i64>,
    },
    /// A key that a site signs with, or did.
    SiteKey {
        /// The site.
        site: String,
        /// From 1.
        generation: i64,
        /// SPKI PEM.
        public_key: String,
    },
    /// Signed metadata that the hub accepted for a stream, in this order.
    Metadata {
        /// Its place.
        id: i64,
        /// The stream's role.
        role: String,
        /// When, milliseconds since 1970.
        at_ms: i64,
        /// The files by name, as they were signed.
        files: BTreeMap<String, String>,
        /// The bundle's `index.json`, where it was new; absent where it was too large to be kept.
        index: Option<String>,
    },
    /// A report as it was signed.
    Report {
        /// The site.
        site: String,
        /// Its epoch.
        epoch: String,
        /// Which of the site's epochs that is: the highest is the present one.
        ordinal: i64,
        /// Its number.
        number: u64,
        /// By which transport it came.
        via: String,
        /// When, milliseconds since 1970.
        received_ms: i64,
        /// The envelope.
        envelope: String,
    },
    /// Reports of a site that were on record and are no longer kept: no decision of this file rests on one.
    Removed {
        /// The site.
        site: String,
        /// Its epoch.
        epoch: String,
        /// The first number.
        first: u64,
        /// The last.
        last: u64,
        /// Since when the first of them was removed, milliseconds since 1970.
        since_ms: i64,
        /// By which rule the last of them was.
        rule: String,
        /// By whom.
        by: String,
    },
    /// The reports that never arrived, of the present epoch of a site that has some.
    Missing {
        /// The site.
        site: String,
        /// Its epoch.
        epoch: String,
        /// First and last number of each run.
        reports: Vec<(u64, u64)>,
    },
    /// A report that cannot come from the machine whose reports are on record.
    Conflict {
        /// The site.
        site: String,
        /// The report, and what it contradicts.
        conflict: Conflict,
        /// The envelope.
        envelope: String,
    },
    /// A restore of the hub from a backup.
    Restore {
        /// When, and from when the backup was.
        restored: Restored,
        /// The digest of the backup's file.
        digest: String,
    },
    /// An approval, choice, waiver, deferral, withdrawal or outcome of a check.
    Act {
        /// What was decided.
        act: Act,
        /// The digest of the entry before; empty for the first.
        previous: String,
        /// Its own.
        digest: String,
    },
    /// A decision.
    Decision {
        /// The decision.
        #[serde(flatten)]
        content: Recorded,
        /// Its place in the chain; absent for a decision of a hub that kept no chain yet.
        chain: Option<Link>,
    },
    /// A decision of which the hub keeps its place in the chain only.
    Forgotten {
        /// Its number.
        id: i64,
        /// `closed`: others are kept for good.
        verdict: String,
        /// The digest of its content.
        content: String,
        /// Its place in the chain.
        chain: Link,
    },
}

/// A decision as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recorded {
    /// Its number.
    pub id: i64,
    /// When, milliseconds since 1970.
    pub at_ms: i64,
    /// The environment.
    pub environment: String,
    /// The base commit.
    pub commit: String,
    /// `open` or `closed`.
    pub verdict: String,
    /// Who asked.
    pub asked_by: String,
    /// The decision without its sites, as JSON.
    pub decision: String,
    /// One line per site, with the digest of the report that it rests on.
    pub evidence: Vec<String>,
}

impl Recorded {
    /// The digest of all of it but its number.
    pub fn digest(&self) -> String {
        let text = json!([
            self.at_ms,
            self.environment,
            self.commit,
            self.verdict,
            self.asked_by,
            self.decision,
            self.evidence.concat()
        ]);
        Digest::of(text.to_string().as_bytes()).to_string()
    }
}

/// The place of a decision in the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The digest of the decision before; empty for the first.
    pub previous: String,
    /// Its own: [`Link::digest_of`].
    pub digest: String,
}

impl Link {
    /// The digest that a decision has after `previous`.
    pub fn digest_of(previous: &str, id: i64, verdict: &str, content: &str) -> String {
        let text = json!([previous, id, verdict, content]).to_string();
        Digest::of(text.as_bytes()).to_string()
    }
}

/// What the hub signs at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The fleet.
    pub fleet: String,
    /// Lines before this one.
    pub lines: u64,
    /// The digest of their bytes.
    pub digest: String,
    /// The digest of the newest decision; empty where there is none.
    pub decisions: String,
    /// The digest of the newest approval, waiver, deferral or withdrawal; empty where there is none.
    pub acts: String,
}
