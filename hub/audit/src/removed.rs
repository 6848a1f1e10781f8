//! The reports that a file states to be no longer kept.
//!
//! What comes in: the ranges of the file, and its reports that hold. What goes out: what is wrong with the ranges. A range that could
//! be is believed: the hub alone says that it received what it removed.

use std::collections::BTreeMap;

use outhaul_gate::fold::{Removed, SeenReport};

use crate::outcome::Problem;

/// Ranges of removed reports that cannot be: a report in one is in the file, or it has the newest report of its epoch, which a hub
/// never removes.
pub fn impossible(
    removed: &BTreeMap<String, Removed>,
    reports: &BTreeMap<String, Vec<SeenReport>>,
    problems: &mut Vec<Problem>,
) {
    for (site, removed) in removed {
        let known = reports.get(site).map_or(&[][..], Vec::as_slice);
        // The file is foreign, and may name a range of as many numberings as it has reports: one walk through these for all of them.
        let mut here: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for one in known {
            let epoch = one.report.epoch.as_str();
            here.entry(epoch).or_default().push(one.report.number);
        }
        for (epoch, ranges) in &removed.0 {
            let numbers = here.get(epoch.as_str()).map_or(&[][..], Vec::as_slice);
            let newest = numbers.iter().max().copied().unwrap_or(0);
            let within = |number: &&u64| {
                let at = ranges.partition_point(|(_, last)| *last < **number);
                ranges.get(at).is_some_and(|(first, _)| first <= *number)
            };
            let what = match numbers.iter().find(within) {
                Some(found) => format!(
                    "report {found} of site `{site}` is in the file, which states that it is no longer kept",
                ),
                None if ranges.iter().any(|(_, last)| *last >= newest) => format!(
                    "the file states that the newest report of site `{site}` in epoch `{epoch}` is no longer kept: no hub removes \
                     that one"
                ),
                None => continue,
            };
            problems.push(Problem { line: 0, what });
        }
    }
}

#[cfg(test)]
mod tests {

    use outhaul_bundle::report::{FORMAT, Report, ReportEvent, SiteTime};

    use super::*;

    /// Report 2 of each of so many numberings.
    fn second_of_each(epochs: usize) -> Vec<SeenReport> {
        let of = |epoch: usize| SeenReport {
            ordinal: 0,
            digest: String::new(),
            via: String::new(),
            received_ms: 0,
            report: Report {
                format: FORMAT.to_owned(),
                fleet: "f".parse().unwrap(),
                site: "a".parse().unwrap(),
                epoch: format!("e{epoch}").parse().unwrap(),
                number: 2,
                previous: None,
                at: SiteTime {
                    wall_ms: 0,
                    lower_bound_ms: 0,
                    trusted: false,
                },
                event: ReportEvent::Refusal {
                    source: String::new(),
                    rule: String::new(),
                    message: String::new(),
                },
            },
        };
        (0..epochs).map(of).collect()
    }

    #[test]
    fn reports_are_walked_once_however_many_numberings_a_file_names() {
        let epochs = 100_000;
        let ranges = (0..epochs).map(|epoch| (format!("e{epoch}"), vec![(1, 1)]));
        let mut removed = Removed(ranges.collect());
        removed.0.insert("e7".to_owned(), vec![(2, 2)]);
        removed.0.insert("e8".to_owned(), vec![(1, 1), (3, 3)]);
        let removed = BTreeMap::from([("a".to_owned(), removed)]);
        let reports = BTreeMap::from([("a".to_owned(), second_of_each(epochs))]);
        let mut problems = Vec::new();
        impossible(&removed, &reports, &mut problems);
        // A walk for each numbering compares 10^10 names: it does not come back within the time of a test.
        let what: Vec<&str> = problems.iter().map(|problem| &*problem.what).collect();
        assert_eq!(what.len(), 2, "{what:?}");
        assert!(what[0].starts_with("report 2 of site `a` is in the file"));
        assert!(what[1].contains("newest report of site `a` in epoch `e8`"));
    }
}
