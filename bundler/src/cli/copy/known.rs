//! The reports that say what single sites have already, from where a person said that they are.
//!
//! What comes in: names of sites, and files or a hub. What goes out: what was read of their reports. It decides nothing, and writes nothing.

use std::path::PathBuf;

use outhaul_bundle::name::Name;
use outhaul_promote::HubConnection;
use outhaul_sites::{Seen, Sites};

use crate::cli::failure::Failure;
use crate::cli::say;

/// Where the reports of sites are.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReportSource<'s> {
    /// Files, or folders that are looked through.
    Files(&'s [PathBuf]),
    /// A hub that has them.
    Hub(HubConnection<'s>),
}

/// What the reports of the sites `names` say.
pub(super) fn seen(
    sites: &Sites<'_>,
    names: &[Name],
    reports: ReportSource<'_>,
) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    match reports {
        ReportSource::Files(paths) => {
            for path in paths {
                sites.note_reports(path, &mut seen, &say)?;
            }
        }
        ReportSource::Hub(hub) => {
            for name in names {
                let mut fetch = |before| {
                    hub.reports(name.as_str(), before).map_err(|error| {
                        Failure::of(&error).help(
                            "nothing was written; `--reports FILE` takes them from the stick that came back",
                        )
                    })
                };
                sites.note_answers(hub.url, name, &mut seen, &say, &mut fetch)?;
            }
        }
    }
    Ok(seen)
}
