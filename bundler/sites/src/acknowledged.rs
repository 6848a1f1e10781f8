//! What single sites have already, so that a copy for them leaves it out.
//!
//! What comes in: the bundles that are copied, the records of the named sites, and what their reports say. What goes out: for each stream
//! that they follow the bundles that they run, or the reason why the whole bundle is copied. Nothing that is said here has to be believed
//! on site: a site that lacks something refuses the copy and says so. It reads no report and writes nothing.

use std::collections::BTreeMap;
use std::fmt;

use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_kit::failure::{Classified, FailureClass};
use outhaul_seal::Recipient;

use super::{Seen, SiteError, SiteRecord, Sites};

/// The named sites, by the role of the stream that they follow.
#[derive(Debug)]
pub struct Followers {
    by_role: BTreeMap<String, Vec<SiteRecord>>,
}

/// What one site has of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteStanding {
    /// Its name.
    pub site: String,
    /// The number of the bundle that it runs, where that is known.
    pub runs: Option<u64>,
    held: HeldBundle,
    /// The bundle that is copied, where the site left it or could not apply it, and why.
    left: Option<(u64, String)>,
}

/// What is to be done about one stream.
#[derive(Debug, PartialEq, Eq)]
pub struct StreamStanding {
    /// The sites.
    pub sites: Vec<SiteStanding>,
    /// Digests of the indexes of the bundles that they run, where each of them runs an earlier one of the stream; else the whole bundle is
    /// brought.
    pub bases: Option<Vec<Digest>>,
    /// Whether all of them run the bundle already.
    pub is_there: bool,
}

/// What a site holds, by its reports.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HeldBundle {
    /// This or a newer bundle of the stream.
    Current { number: u64, report: u64 },
    /// An earlier one; `sealed` is the number of a bundle of which nothing is left out because it is sealed.
    Earlier {
        number: u64,
        report: u64,
        sealed: Option<u64>,
    },
    /// A bundle of another stream.
    OtherStream,
    /// It carried out its revocation.
    Revoked,
    /// It is not known, and why; `is_unsigned` where lines name the site that no approved key of it signed.
    Unknown { why: String, is_unsigned: bool },
}

/// A bundle that is copied, as it is compared with what sites run.
#[derive(Debug, Clone)]
pub struct CopiedBundle<'a> {
    /// The signing role of its stream.
    pub role: &'a str,
    /// Its stream, for people.
    pub stream: String,
    /// Its number.
    pub number: u64,
    /// For whom it is sealed: names by the ids of their keys; `None` when it is open.
    pub sealed_for: Option<BTreeMap<Name, Name>>,
}

/// Why no copy is made for the named sites.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcknowledgedError {
    /// A site could not open what is copied.
    #[error(
        "bundle {number} of {stream} is sealed for {}, and not for the key that is approved for `{site}`: it could not open it",
        readers.join(", ")
    )]
    CannotOpen {
        /// The bundle's number.
        number: u64,
        /// Its stream.
        stream: String,
        /// Whom it is sealed for.
        readers: Vec<String>,
        /// The site.
        site: String,
    },
    /// A site follows a stream that is not copied.
    #[error("`{site}` follows {stream}, and no bundle of that stream is copied here")]
    NotCopied {
        /// The site.
        site: String,
        /// What it follows.
        stream: String,
    },
    /// A record cannot be read, or there is none.
    #[error(transparent)]
    Sites(#[from] SiteError),
}

impl Classified for AcknowledgedError {
    fn class(&self) -> FailureClass {
        match self {
            Self::CannotOpen { .. } => FailureClass::Refused,
            Self::NotCopied { .. } => FailureClass::Usage,
            Self::Sites(error) => error.class(),
        }
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::CannotOpen { .. } => Some(
                "make one that is sealed for it, too: `outhaul bundle --renew --seal-for FILE`, with what `outhaul site list --recipients` prints; nothing was written"
                    .to_owned(),
            ),
            Self::NotCopied { .. } => Some(
                "`outhaul bundle` makes one; `--environment` and `--cluster-type` must not leave it out; nothing was written"
                    .to_owned(),
            ),
            Self::Sites(error) => error.help(),
        }
    }
}

/// The named sites, each of which follows the stream of a bundle that is copied: one of `roles`.
///
/// # Errors
/// [`AcknowledgedError::NotCopied`], or a record that is not there or cannot be read.
pub fn followers(
    sites: &Sites<'_>,
    roles: &[&str],
    names: &[Name],
) -> Result<Followers, AcknowledgedError> {
    let mut by_role: BTreeMap<String, Vec<SiteRecord>> = BTreeMap::new();
    for name in names {
        let record = sites.one(name.as_str())?;
        let role = record.stream.role.to_string();
        if !roles.contains(&role.as_str()) {
            return Err(AcknowledgedError::NotCopied {
                site: name.to_string(),
                stream: record.stream_name(),
            });
        }
        let of_role = by_role.entry(role).or_default();
        if of_role.iter().all(|known| known.site != record.site) {
            of_role.push(record);
        }
    }
    Ok(Followers { by_role })
}

impl Followers {
    /// Whether one of them follows the stream of this role.
    pub fn follow(&self, role: &str) -> bool {
        self.by_role.contains_key(role)
    }

    /// What they have of `bundle`.
    ///
    /// # Errors
    /// [`AcknowledgedError::CannotOpen`].
    pub fn standing(
        &self,
        bundle: &CopiedBundle<'_>,
        seen: &Seen,
    ) -> Result<StreamStanding, AcknowledgedError> {
        let records = self.by_role.get(bundle.role);
        standing(bundle, records.map_or(&[], Vec::as_slice), seen)
    }
}

fn standing(
    bundle: &CopiedBundle<'_>,
    records: &[SiteRecord],
    seen: &Seen,
) -> Result<StreamStanding, AcknowledgedError> {
    let (mut sites, mut bases, mut is_whole) = (Vec::new(), Vec::new(), false);
    for record in records {
        can_open(bundle, record)?;
        let site = record.site.to_string();
        let (runs, held) = match seen.running(&site) {
            _ if seen.is_revoked(&site) => (None, HeldBundle::Revoked),
            Ok(running) if running.stream.role.as_str() != bundle.role => {
                (None, HeldBundle::OtherStream)
            }
            Ok(running) => {
                let (number, report) = (running.number, running.report);
                let sealed = bundle.sealed_for.as_ref().map(|_| bundle.number);
                let held = match number >= bundle.number {
                    true => HeldBundle::Current { number, report },
                    false => HeldBundle::Earlier {
                        number,
                        report,
                        sealed,
                    },
                };
                let base = running.index;
                let is_base = matches!(held, HeldBundle::Earlier { sealed: None, .. });
                if is_base && !bases.contains(&base) {
                    bases.push(base);
                }
                (Some(number), held)
            }
            Err(why) => {
                let is_unsigned = seen.unsigned(&site) > 0;
                (None, HeldBundle::Unknown { why, is_unsigned })
            }
        };
        is_whole |= held.needs_all();
        let left = seen.turned_away(&site, bundle.number);
        let left = left.filter(|_| runs.is_none_or(|runs| runs < bundle.number));
        let left = left.map(|why| (bundle.number, why.to_owned()));
        sites.push(SiteStanding {
            site,
            runs,
            held,
            left,
        });
    }
    Ok(StreamStanding {
        is_there: !is_whole && bases.is_empty(),
        bases: (!is_whole).then_some(bases),
        sites,
    })
}

/// Refuses a bundle that a site could not open.
fn can_open(bundle: &CopiedBundle<'_>, record: &SiteRecord) -> Result<(), AcknowledgedError> {
    let Some(readers) = &bundle.sealed_for else {
        return Ok(());
    };
    let key = record.seal_key.parse::<Recipient>().ok();
    let id = key.and_then(|key| key.id().parse::<Name>().ok());
    if id.is_some_and(|id| readers.contains_key(&id)) {
        return Ok(());
    }
    Err(AcknowledgedError::CannotOpen {
        number: bundle.number,
        stream: bundle.stream.clone(),
        readers: readers.values().map(|name| format!("`{name}`")).collect(),
        site: record.site.to_string(),
    })
}

impl HeldBundle {
    /// Whether a site that holds this needs the whole bundle.
    fn needs_all(&self) -> bool {
        match self {
            Self::Current { .. } | Self::Revoked => false,
            Self::Earlier { sealed, .. } => sealed.is_some(),
            Self::OtherStream | Self::Unknown { .. } => true,
        }
    }
}

impl fmt::Display for SiteStanding {
    /// What it runs, and why nothing is left out for it or has to be brought; a whole sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let site = &self.site;
        let brought = "the whole bundle is copied";
        match &self.held {
            HeldBundle::Current { number, report } => write!(
                f,
                "`{site}` runs bundle {number} by its report {report}: nothing has to be brought there"
            ),
            HeldBundle::Earlier {
                number,
                report,
                sealed,
            } => {
                write!(f, "`{site}` runs bundle {number} by its report {report}")?;
                match sealed {
                    Some(newest) => write!(
                        f,
                        "; bundle {newest} is sealed, and of a sealed one nothing is left out"
                    ),
                    None => Ok(()),
                }
            }
            HeldBundle::OtherStream => {
                write!(f, "`{site}` runs a bundle of another stream: {brought}")
            }
            HeldBundle::Revoked => write!(
                f,
                "`{site}` reports that it is revoked: it takes no bundle, and nothing is brought there"
            ),
            HeldBundle::Unknown { why, is_unsigned } => {
                write!(f, "`{site}` {why}: {brought}")?;
                match is_unsigned {
                    true => write!(
                        f,
                        "\nhelp: compare the fingerprint in its request with what `outhaul-agent status` shows there, and approve it: \
                         `outhaul site approve REQUEST --fleet FLEET --fingerprint HEX` (a stick that `outhaul-agent export` wrote there has it as `requests/{site}.request`)"
                    ),
                    false => Ok(()),
                }
            }
        }?;
        match &self.left {
            Some((number, why)) => write!(
                f,
                "\nhelp: `{site}` left bundle {number} or could not apply it ({why}): it takes it again after `outhaul-agent approve {number}` there"
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
