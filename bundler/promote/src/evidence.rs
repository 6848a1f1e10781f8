//! Reports as evidence that sites confirmed a commit: the lines of a promotion's message, and what makes them count.
//!
//! What comes in: the reports that a hub's answer names, or the lines of a message. What goes out: one line for each, the same
//! read back, and whether together they support that so many sites confirmed. An answer and a message are checked by
//! the same rules. It knows no hub and no history; whether a site or a report exists is not known here.

use std::collections::BTreeSet;
use std::fmt;

use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{Decision, Evidence, SiteStatus};
use outhaul_bundle::name::Name;
use outhaul_kit::text::printable;

/// The only state that confirms.
pub(super) const CONFIRMS: &str = "active";
/// States that close a gate whatever share of the sites confirms.
const FAILURES: [&str; 2] = ["failed", "reverted"];

/// What a site reported, as far as a promotion's message has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedState {
    site: String,
    report: u64,
    digest: String,
    bundle: u64,
    state: String,
}

impl From<&Evidence> for ReportedState {
    fn from(one: &Evidence) -> Self {
        Self {
            site: one.site.clone(),
            report: one.report,
            digest: one.digest.clone(),
            bundle: one.bundle,
            state: one.state.clone(),
        }
    }
}

/// `SITE: report N (DIGEST), bundle N STATE`, in one line whatever the texts are.
impl fmt::Display for ReportedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: report {} ({}), bundle {} {}",
            printable(&self.site),
            self.report,
            printable(&self.digest),
            self.bundle,
            printable(&self.state)
        )
    }
}

impl ReportedState {
    /// What a line states, when it reads as one of these.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (site, rest) = line.split_once(": report ")?;
        let (report, rest) = rest.split_once(" (")?;
        let (digest, rest) = rest.split_once("), bundle ")?;
        let (bundle, state) = rest.split_once(' ')?;
        let found = Self {
            site: site.to_owned(),
            report: report.parse().ok()?,
            digest: digest.to_owned(),
            bundle: bundle.parse().ok()?,
            state: state.to_owned(),
        };
        // Numbers have one spelling.
        (found.to_string() == line).then_some(found)
    }

    /// Whether it states that the site runs a bundle as it should.
    fn confirms(&self) -> bool {
        self.state == CONFIRMS && self.bundle > 0
    }

    /// What is wrong with it alone.
    fn problem(&self) -> Option<String> {
        let site = printable(&self.site);
        if self.site.parse::<Name>().is_err() {
            return Some(format!("names `{site}`, which is not the name of a site"));
        }
        if self.report == 0 {
            return Some(format!(
                "names report 0 of site `{site}`, and reports are numbered from 1"
            ));
        }
        let digest = self.digest.parse::<Digest>().map(|read| read.to_string());
        if digest.ok().as_ref() != Some(&self.digest) {
            return Some(format!(
                "names `{}` as the digest of a report of site `{site}`, which is not a digest",
                printable(&self.digest)
            ));
        }
        if FAILURES.contains(&self.state.as_str()) {
            return Some(format!(
                "names a report of site `{site}` that bundle {} is `{}`, which closes the gate",
                self.bundle, self.state
            ));
        }
        None
    }
}

/// Checks that each of these reports can be one, and that none closes a gate.
///
/// # Errors
/// What speaks against it, as the rest of a sentence about what names them.
pub(super) fn sound(reports: &[ReportedState]) -> Result<(), String> {
    if let Some(problem) = reports.iter().find_map(ReportedState::problem) {
        return Err(problem);
    }
    let mut sites = BTreeSet::new();
    match reports.iter().find(|one| !sites.insert(&one.site)) {
        Some(twice) => Err(format!("names two reports of site `{}`", twice.site)),
        None => Ok(()),
    }
}

/// Checks that these reports, those of the sites that confirm and no others, support that `confirmed` of `counted` sites confirmed.
///
/// # Errors
/// What speaks against it, as the rest of a sentence about what names them.
pub(super) fn supports(
    confirmed: usize,
    counted: usize,
    reports: &[ReportedState],
) -> Result<(), String> {
    if confirmed == 0 {
        return Err("no site confirms".to_owned());
    }
    if confirmed > counted {
        return Err(format!("{confirmed} of {counted} sites confirm"));
    }
    sound(reports)?;
    let confirming = reports.iter().filter(|one| one.confirms()).count();
    if confirming < confirmed {
        return Err(format!(
            "names {confirming} reports that a bundle is `{CONFIRMS}`, and {confirmed} sites confirm"
        ));
    }
    if reports.len() > confirmed {
        return Err(format!(
            "names {} reports, and {confirmed} sites confirm: a report of a site that does not confirm is no evidence",
            reports.len()
        ));
    }
    Ok(())
}

/// The reports of the sites of a decision that confirm: the evidence of a promotion.
pub(super) fn confirming(decision: &Decision) -> Vec<ReportedState> {
    let sites = decision.sites.iter();
    let confirming: BTreeSet<&str> = sites
        .filter(|site| site.standing == SiteStatus::Confirmed)
        .map(|site| site.site.as_str())
        .collect();
    let reports = decision.evidence.iter();
    reports
        .filter(|one| confirming.contains(one.site.as_str()))
        .map(ReportedState::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:3030303030303030303030303030303030303030303030303030303030303030";

    fn line(change: (&str, &str)) -> String {
        format!("edge-1: report 4 ({DIGEST}), bundle 1 active").replace(change.0, change.1)
    }

    #[track_caller]
    fn refused(lines: &[String], says: &str) {
        let reports: Vec<_> = lines
            .iter()
            .map(|line| ReportedState::parse(line).unwrap())
            .collect();
        let problem = supports(1, 1, &reports).unwrap_err();
        assert!(problem.contains(says), "{problem}");
    }

    #[test]
    fn a_line_is_read_back_as_it_is_written_and_in_one_spelling() {
        let line = line(("", ""));
        let read = ReportedState::parse(&line).unwrap();
        assert_eq!(read.to_string(), line);
        supports(1, 1, &[read]).unwrap();
        for other in [
            line.replace("report 4", "report 04"),
            line.replace("report 4", "report x"),
            line.replace("bundle 1", "bundle +1"),
            line.replace(" active", ""),
            format!("{line}\r"),
        ] {
            assert_eq!(ReportedState::parse(&other), None, "{other}");
        }
    }

    #[test]
    fn attack_reports_that_do_not_support_an_open_gate_are_refused() {
        refused(&[line(("active", "failed"))], "is `failed`");
        refused(&[line(("active", "reverted"))], "is `reverted`");
        refused(&[line(("active", "applying"))], "names 0 reports");
        refused(&[line(("active", "Active"))], "names 0 reports");
        refused(&[line(("bundle 1", "bundle 0"))], "names 0 reports");
        refused(&[line(("report 4", "report 0"))], "report 0 of site");
        refused(&[line(("edge-1", "no site"))], "not the name of a site");
        refused(&[line(("sha256:30", "sha256:3"))], "not a digest");
        refused(&[line(("sha256:30", "SHA256:30"))], "not a digest");
        refused(&[line(("", "")), line(("", ""))], "two reports of site");
        refused(
            &[line(("", "")), line(("report 4", "report 5"))],
            "two reports of site",
        );
        refused(&[], "names 0 reports");
        let one = ReportedState::parse(&line(("", ""))).unwrap();
        supports(0, 0, std::slice::from_ref(&one)).unwrap_err();
        supports(2, 1, std::slice::from_ref(&one)).unwrap_err();
        supports(2, 2, std::slice::from_ref(&one)).unwrap_err();
        // A report of a site that does not confirm beside it.
        let other = ReportedState::parse(&line(("edge-1", "edge-2"))).unwrap();
        let problem = supports(1, 2, &[one, other]).unwrap_err();
        assert!(problem.contains("is no evidence"), "{problem}");
    }
}
