//! A report whose signature was looked at, and where a report belongs.
//!
//! What comes in: a report with its line, and who signed it. What goes out: its parts, and its place in its chain. It decides nothing.

use outhaul_bundle::report::Report;

use outhaul_store::ReportPosition;

/// The place of a report's chain.
pub(crate) fn place(report: &Report, number: u64) -> ReportPosition {
    ReportPosition {
        site: report.site.to_string(),
        epoch: report.epoch.to_string(),
        number,
    }
}

/// Why a report may be accepted.
#[derive(Debug, Clone)]
pub(crate) enum Signed {
    /// It is on record as it is here, or as well signed.
    OnRecord,
    /// It is on record because the report after it confirms it, and here a key of the site signed it.
    Better,
    /// It is on record, its text there is lost, and here a key of the site signed it.
    Restored,
    /// By the site's key of this generation.
    By(i64),
    /// By no key of the site; why. Only the report after it can confirm it.
    ByNobody(String),
}

impl Signed {
    /// The generation of the site's key that signed it, where one did that counts.
    pub(crate) fn generation(&self) -> Option<i64> {
        match self {
            Self::By(generation) => Some(*generation),
            _ => None,
        }
    }

    /// Whether the very payload is on record.
    pub fn is_on_record(&self) -> bool {
        matches!(self, Self::OnRecord | Self::Better | Self::Restored)
    }
}

/// A report that its site's key signed, that is on record already, or that another may confirm.
#[derive(Debug)]
pub(crate) struct SignedReport {
    pub(crate) report: Report,
    pub(crate) digest: String,
    pub(crate) line: Vec<u8>,
    pub(crate) signed: Signed,
}

impl SignedReport {
    /// Its number in its chain.
    pub fn number(&self) -> u64 {
        self.report.number
    }

    /// The report.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The signed envelope, as it came.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Its digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The digest of the report before it, as it says.
    pub fn previous(&self) -> Option<String> {
        self.report.previous.map(|digest| digest.to_string())
    }
}
