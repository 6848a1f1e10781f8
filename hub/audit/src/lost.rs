//! Reports whose signed text is lost, as people stated.
//!
//! What comes in: an export. What goes out: those statements, and what is wrong with them. Which text was lost the hub alone says.

use outhaul_gate::audit::Recorded;
use outhaul_gate::facts::Act;

use crate::outcome::Problem;
use crate::read::Export;

/// What people stated of reports whose signed text is lost.
pub fn texts(export: &Export) -> impl Iterator<Item = &Act> {
    export.acts.iter().filter(|act| act.lost_report().is_some())
}

/// What was stated of the report of a site with this digest.
pub fn of_report<'a>(export: &'a Export, site: &str, digest: &str) -> Option<&'a Act> {
    texts(export).find(|act| {
        let chosen = act.chosen.as_deref();
        let chosen = chosen.and_then(|chosen| chosen.split_once(' '));
        act.site.as_deref() == Some(site) && chosen.is_some_and(|chosen| chosen.1 == digest)
    })
}

/// The texts that are lost of an environment's sites, of which a decision of this time may have looked at the reports.
pub fn after<'a>(export: &'a Export, recorded: &'a Recorded) -> impl Iterator<Item = &'a Act> {
    texts(export).filter(move |act| {
        let site = act.site.as_deref().and_then(|site| export.sites.get(site));
        act.at_ms > recorded.at_ms
            && site.is_some_and(|site| site.environment == recorded.environment)
    })
}

/// Reports whose signed text is stated to be lost, and which are not among those that the file states to be no longer kept.
pub fn lost_and_kept(export: &Export, problems: &mut Vec<Problem>) {
    for act in texts(export) {
        let Some((site, epoch, number)) = act.lost_report() else {
            continue;
        };
        let removed = export.removed.get(site);
        let ranges = removed.map_or(&[][..], |removed| removed.of(epoch));
        if !ranges
            .iter()
            .any(|(first, last)| (first..=last).contains(&&number))
        {
            let what = format!(
                "entry {} states that the signed text of report {number} of site `{site}` is lost, and the file does not state that \
                 the report is no longer kept",
                act.id
            );
            problems.push(Problem { line: 0, what });
        }
    }
}
