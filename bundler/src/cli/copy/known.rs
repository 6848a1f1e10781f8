//! Where the reports are that say what single sites have already.
//!
//! What comes in: names of sites, and files or a hub as they were named. What goes out: what those sites have of each bundle, as
//! [`outhaul_sites::acknowledged`] decides. It decides nothing itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use outhaul_bundle::name::Name;
use outhaul_promote::HubConnection;
use outhaul_ship::stream::copies::KeptBundle;
use outhaul_ship::stream::since;
use outhaul_signer::fleet::Fleet;
use outhaul_sites::acknowledged::{CopiedBundle, StreamStanding, followers};
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

/// The named sites that follow the streams of `bundles`, and what they have of them, by role.
pub(super) fn of(
    fleet: &Fleet,
    bundles: &[KeptBundle],
    names: &[Name],
    reports: ReportSource<'_>,
) -> Result<BTreeMap<String, StreamStanding>, Failure> {
    let sites = Sites::of(fleet);
    let roles: Vec<&str> = bundles.iter().map(KeptBundle::role).collect();
    let followers = followers(&sites, &roles, names).map_err(|error| Failure::of(&error))?;
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
    let mut standings = BTreeMap::new();
    for bundle in bundles.iter().filter(|one| followers.follow(one.role())) {
        let copied = CopiedBundle {
            role: bundle.role(),
            stream: bundle.stream(),
            number: bundle.number,
            sealed_for: since::sealed_for(bundle).map_err(|error| Failure::of(&error))?,
        };
        let standing = followers.standing(&copied, &seen);
        let standing = standing.map_err(|error| Failure::of(&error))?;
        standings.insert(bundle.role().to_owned(), standing);
    }
    Ok(standings)
}

/// The bundles that a named site does not run yet.
pub(super) fn brought(
    bundles: Vec<KeptBundle>,
    standings: &BTreeMap<String, StreamStanding>,
) -> Vec<KeptBundle> {
    let is_brought = |bundle: &KeptBundle| {
        let standing = standings.get(bundle.role());
        standing.is_some_and(|standing| !standing.is_there)
    };
    bundles.into_iter().filter(is_brought).collect()
}
