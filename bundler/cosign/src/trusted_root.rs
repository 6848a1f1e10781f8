//! A trusted root of Sigstore: which certificate authorities, logs and timestamp authorities count.
//!
//! What comes in: the text of a `trusted_root.json`, and later a time. What goes out: a root that verifies, and what is old about it. It
//! is never fetched: it is as new as the file that it is from, so that its age is reported instead.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use outhaul_kit::carried::TRUSTED_ROOT;
use sigstore_verify::Verifier;
use sigstore_verify::crypto::parse_certificate_info;
use sigstore_verify::trust_root::TrustedRoot as Parts;
use sigstore_verify::types::{DerCertificate, TimeRange};

/// Most bytes that the text may have; Sigstore's own has about 7,000.
pub(crate) const MAX_TRUSTED_ROOT_BYTES: usize = 256 << 10;
/// Most entries of all kinds together.
const MAX_ENTRIES: usize = 200;
/// For how many days before its end something is reported.
pub(crate) const ENDS_SOON_DAYS: i64 = 30;
/// After how many days without anything new a root is reported: Sigstore's logs get new keys about once a year.
pub(crate) const OLD_AFTER_DAYS: i64 = 730;

/// A root that verifies.
pub struct TrustedRoot {
    pub(crate) verifier: Verifier,
    parts: Parts,
}

/// Why a text is no trusted root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootError(String);

impl fmt::Display for RootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RootError {}

impl fmt::Debug for TrustedRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TrustedRoot")
    }
}

/// What one kind of entry of a root is for, and from when to when each of them is.
struct EntryKind {
    name: &'static str,
    spans: Vec<(Option<Timestamp>, Option<Timestamp>)>,
}

impl TrustedRoot {
    /// The root in `json`.
    ///
    /// # Errors
    /// [`RootError`] when it is too large, something else, damaged, or nothing could be verified with it.
    pub fn parse(json: &str) -> Result<Self, RootError> {
        let refused = |why: &str| Err(RootError(why.to_owned()));
        if json.len() > MAX_TRUSTED_ROOT_BYTES {
            return refused(&format!("it has more than {MAX_TRUSTED_ROOT_BYTES} bytes"));
        }
        let parts = Parts::from_json(json)
            .map_err(|error| RootError(format!("it cannot be read: {error}")))?;
        if !parts.media_type.starts_with(TRUSTED_ROOT) {
            return refused("its media type is not that of a trusted root");
        }
        let entries = parts.tlogs.len()
            + parts.certificate_authorities.len()
            + parts.ctlogs.len()
            + parts.timestamp_authorities.len();
        if entries > MAX_ENTRIES {
            return refused(&format!("it has more than {MAX_ENTRIES} entries"));
        }
        if parts.certificate_authorities.is_empty() {
            return refused("it has no certificate authority");
        }
        if parts.tlogs.is_empty() && parts.timestamp_authorities.is_empty() {
            return refused(
                "it has neither a log nor a timestamp authority, so that nothing could say when a signature was made",
            );
        }
        let verifier = outhaul_algorithms::for_sigstore(|| Verifier::new(&parts));
        let verifier = verifier.map_err(|error| RootError(format!("it cannot verify: {error}")))?;
        Ok(Self { verifier, parts })
    }

    /// Whether signatures have to be in a log: where the root names one.
    pub(crate) fn has_log(&self) -> bool {
        !self.parts.tlogs.is_empty()
    }

    /// Whether certificates have to be in a log of certificates: where the root names one.
    pub(crate) fn has_certificate_log(&self) -> bool {
        !self.parts.ctlogs.is_empty()
    }

    /// What is old about it at `now`: a sentence for each kind of entry of which none is valid any more or for more than
    /// `ENDS_SOON_DAYS`, and one when nothing in it began within `OLD_AFTER_DAYS`.
    pub fn alarms(&self, now: Timestamp) -> Vec<String> {
        let kinds = self.kinds();
        let days = |days: i64| SignedDuration::from_hours(24 * days);
        let soon = now.checked_add(days(ENDS_SOON_DAYS)).unwrap_or(now);
        let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
        let mut alarms = Vec::new();
        for kind in &kinds {
            let ends: Option<Vec<Timestamp>> = kind.spans.iter().map(|(_, end)| *end).collect();
            let Some(last) = ends.and_then(|ends| ends.into_iter().max()) else {
                continue;
            };
            match last {
                last if last <= now => alarms.push(format!(
                    "its last {} ended on {}: what is signed since does not hold",
                    kind.name,
                    day(last)
                )),
                last if last <= soon => alarms.push(format!(
                    "its last {} ends on {}: what is signed from then on will not hold",
                    kind.name,
                    day(last)
                )),
                _ => {}
            }
        }
        let begun = kinds.iter().flat_map(|kind| &kind.spans);
        let newest = begun.filter_map(|(start, _)| *start).max();
        let bound = now.checked_sub(days(OLD_AFTER_DAYS)).unwrap_or(now);
        match newest {
            Some(newest) if newest < bound => alarms.push(format!(
                "nothing in it is newer than {}, which is more than {OLD_AFTER_DAYS} days ago",
                day(newest)
            )),
            _ => {}
        }
        alarms
    }

    fn kinds(&self) -> Vec<EntryKind> {
        let parts = &self.parts;
        let kinds = [
            EntryKind {
                name: "certificate authority",
                spans: (parts.certificate_authorities.iter())
                    .map(|one| {
                        let chain = one.cert_chain.certificates.iter();
                        of_authority(chain.map(|one| &one.raw_bytes), one.valid_for)
                    })
                    .collect(),
            },
            EntryKind {
                name: "log key",
                spans: (parts.tlogs.iter())
                    .map(|one| of_window(one.public_key.valid_for))
                    .collect(),
            },
            EntryKind {
                name: "key of a certificate log",
                spans: (parts.ctlogs.iter())
                    .map(|one| of_window(one.public_key.valid_for))
                    .collect(),
            },
            EntryKind {
                name: "timestamp authority",
                spans: (parts.timestamp_authorities.iter())
                    .map(|one| {
                        let chain = one.cert_chain.certificates.iter();
                        of_authority(chain.map(|one| &one.raw_bytes), one.valid_for)
                    })
                    .collect(),
            },
        ];
        kinds
            .into_iter()
            .filter(|kind| !kind.spans.is_empty())
            .collect()
    }
}

fn of_window(window: Option<TimeRange>) -> (Option<Timestamp>, Option<Timestamp>) {
    (
        window.map(|window| window.start),
        window.and_then(|window| window.end),
    )
}

/// An authority is valid as long as the file says and each certificate of its chain is.
fn of_authority<'c>(
    certificates: impl Iterator<Item = &'c DerCertificate>,
    window: Option<TimeRange>,
) -> (Option<Timestamp>, Option<Timestamp>) {
    let (start, end) = of_window(window);
    let known = certificates.filter_map(|one| {
        let known = parse_certificate_info(one).ok()?;
        Some((known.not_before, known.not_after))
    });
    let known: Vec<_> = known.collect();
    let begun = known.iter().map(|(begun, _)| *begun).max();
    let ends = known.iter().map(|(_, ends)| *ends);
    (start.or(begun), ends.chain(end).min())
}
