//! Why metadata is not trusted: each refusal with what was expected, what was found and its rule.
//!
//! What comes in: the facts of one failed check. What goes out: a message for the person at the machine
//! and a stable word for reports. A refusal always means that nothing was changed.

use jiff::Timestamp;

/// Why a source gave no bytes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The transport failed.
    #[error("cannot read `{name}`: {reason}")]
    Unreadable {
        /// The file.
        name: String,
        /// The error of the transport.
        reason: String,
    },
    /// More bytes than may be read.
    #[error("`{name}` is larger than the {max_bytes} bytes that it may have")]
    TooLarge {
        /// The file.
        name: String,
        /// The bound.
        max_bytes: u64,
    },
}

/// Why metadata was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// What the site has stored does not hold by itself.
    #[error(
        "the stored metadata of this site is damaged: {problem}\n\
         help: what runs is safe and continues; enrol the site again with a kit of its fleet, floors stay"
    )]
    DamagedStore {
        /// What is wrong with it.
        problem: String,
    },
    /// A role's date has passed (only where a caller asked for that to be a refusal).
    #[error("`{file}` expired on {expires}")]
    Expired {
        /// The file.
        file: String,
        /// Its date.
        expires: Timestamp,
    },
    /// Signed by another fleet.
    #[error(
        "this is of another fleet: root metadata version {version} is expected to have digest \
         {expected}…, found {found}…"
    )]
    ForeignFleet {
        /// The version of the root metadata compared.
        version: u64,
        /// First digits of the digest that the site trusts.
        expected: String,
        /// First digits of the digest offered.
        found: String,
    },
    /// Not metadata of the expected form.
    #[error("`{file}` is not valid metadata: {problem}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A file that the metadata lists is not there.
    #[error("`{file}` is missing")]
    Missing {
        /// The file.
        file: String,
    },
    /// Files that were not published together.
    #[error("`{file}` is not the file that was published with the others: {problem}")]
    MixAndMatch {
        /// The file.
        file: String,
        /// Which pin does not hold.
        problem: String,
    },
    /// Larger than its bound.
    #[error("`{file}` is larger than the {max_bytes} bytes that it may have")]
    Oversized {
        /// The file.
        file: String,
        /// The bound.
        max_bytes: u64,
    },
    /// Older than what was accepted before.
    #[error("`{file}` is version {found}, this site has accepted version {expected} before")]
    Rollback {
        /// The file.
        file: String,
        /// The floor.
        expected: u64,
        /// The version offered.
        found: u64,
    },
    /// Root metadata that does not follow from the trusted one.
    #[error("`{file}` does not continue this site's chain of root metadata: {problem}")]
    RootChain {
        /// The file.
        file: String,
        /// Why.
        problem: String,
    },
    /// Not signed by a key that its role has.
    #[error("`{file}` has no valid signature of a key that this site trusts for it")]
    Signature {
        /// The file.
        file: String,
    },
    /// The source could not be read.
    #[error("the metadata cannot be read")]
    Source {
        /// Why.
        source: SourceError,
    },
    /// Not for this site's stream.
    #[error("this bundle is not for this site's stream `{role}`: {problem}")]
    Stream {
        /// The site's role.
        role: String,
        /// What shows it.
        problem: String,
    },
    /// Signed, but by too few.
    #[error("`{file}` has {found} valid signatures, {expected} are needed")]
    Threshold {
        /// The file.
        file: String,
        /// Signatures needed.
        expected: usize,
        /// Distinct keys that signed.
        found: usize,
    },
}

impl TrustError {
    /// One stable word for the rule that refused, for reports and tests.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::DamagedStore { .. } => "damaged-store",
            Self::Expired { .. } => "expired",
            Self::ForeignFleet { .. } => "foreign-fleet",
            Self::Malformed { .. } => "malformed",
            Self::Missing { .. } => "missing",
            Self::MixAndMatch { .. } => "mix-and-match",
            Self::Oversized { .. } => "oversized",
            Self::Rollback { .. } => "rollback",
            Self::RootChain { .. } => "root-chain",
            Self::Signature { .. } => "signature",
            Self::Source { .. } => "source",
            Self::Stream { .. } => "stream",
            Self::Threshold { .. } => "threshold",
        }
    }

    /// Whether trying again later may help: the transport failed, not what came over it.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Source { .. })
    }
}
