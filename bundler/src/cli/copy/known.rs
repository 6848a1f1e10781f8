//! What single sites have already, so that a copy for them leaves it out.
//!
//! What comes in: names of sites, and files of reports (such as those on the stick that came back). What goes out: for each stream that
//! they follow the bundles that they run, or the reason why the whole bundle is brought. Only reports count that an approved key of
//! the site signed. Nothing that is said here has to be believed on site: a site that lacks something refuses the copy and says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_kit::durable::FileError;
use outhaul_kit::media::{self, Bounds, Media};
use outhaul_ship::stream::copies::KeptBundle;
use outhaul_ship::stream::since::Earlier;
use outhaul_signer::fleet::Fleet;
use outhaul_sites::{Seen, SiteRecord, Sites};

use crate::cli::failure::{self, Failure};
use crate::cli::say;
use crate::cli::site::site_failure;

/// Largest file of reports, in bytes: what an agent writes at most.
const MAX_REPORTS_BYTES: u64 = 16 * 1024 * 1024;
/// How far a stick is looked through.
const BOUNDS: Bounds = Bounds {
    depth: 3,
    entries: 100_000,
    kept: 10_000,
};

/// What one site has of a bundle.
#[derive(Debug, Clone)]
pub(super) struct SiteStanding {
    /// Its name.
    pub(super) site: String,
    /// The number of the bundle that it runs, where that is known.
    pub(super) runs: Option<u64>,
    /// Why nothing is left out for it, or nothing has to be brought; a whole sentence.
    pub(super) note: Option<String>,
}

/// What is to be done about one stream.
#[derive(Debug)]
pub(super) struct StreamStanding {
    /// The sites.
    pub(super) sites: Vec<SiteStanding>,
    /// The bundles that they run, where each of them runs an earlier one of the stream; else the whole bundle is brought.
    pub(super) bases: Option<Vec<Earlier>>,
    /// Whether all of them run the bundle already.
    pub(super) is_there: bool,
}

/// The named sites that follow the streams of `bundles`, and what they have of them, by role.
pub(super) fn of(
    fleet: &Fleet,
    bundles: &[KeptBundle],
    names: &[Name],
    reports: &[PathBuf],
) -> Result<BTreeMap<String, StreamStanding>, Failure> {
    let records = Sites::of(fleet);
    let mut by_role: BTreeMap<String, Vec<SiteRecord>> = BTreeMap::new();
    for name in names {
        let record = records.one(name.as_str()).map_err(site_failure)?;
        let role = record.stream.role.to_string();
        if bundles.iter().all(|bundle| bundle.role() != role) {
            let text = format!(
                "`{name}` follows {}/{}, and no bundle of that stream is copied here",
                record.stream.environment, record.stream.cluster_type
            );
            return Err(Failure::say(failure::USAGE, text).help(
                "`outhaul bundle` makes one; `--environment` and `--cluster-type` must not leave it out; nothing was written",
            ));
        }
        let of_role = by_role.entry(role).or_default();
        if of_role.iter().all(|known| known.site != record.site) {
            of_role.push(record);
        }
    }
    let mut seen = Seen::default();
    for path in reports {
        read(&records, path, &mut seen)?;
    }
    let standings = bundles.iter().filter_map(|bundle| {
        let sites = by_role.get(bundle.role())?;
        Some((bundle.role().to_owned(), standing(bundle, sites, &seen)))
    });
    Ok(standings.collect())
}

fn standing(bundle: &KeptBundle, records: &[SiteRecord], seen: &Seen) -> StreamStanding {
    let (mut sites, mut bases, mut is_whole) = (Vec::new(), Vec::new(), false);
    for record in records {
        let site = record.site.to_string();
        let (runs, note) = match seen.running(&site) {
            Ok(running) if running.stream.role.as_str() != bundle.role() => {
                is_whole = true;
                let note = format!(
                    "`{site}` runs a bundle of another stream: the whole bundle is brought"
                );
                (None, Some(note))
            }
            Ok(running) if running.number >= bundle.number => {
                let note = format!(
                    "`{site}` runs bundle {} by its report {}: nothing has to be brought there",
                    running.number, running.report
                );
                (Some(running.number), Some(note))
            }
            Ok(running) => {
                let base = Earlier::Digest(running.index);
                if !bases.contains(&base) {
                    bases.push(base);
                }
                (Some(running.number), None)
            }
            Err(why) => {
                is_whole = true;
                (
                    None,
                    Some(format!("`{site}` {why}: the whole bundle is brought")),
                )
            }
        };
        sites.push(SiteStanding { site, runs, note });
    }
    StreamStanding {
        is_there: !is_whole && bases.is_empty(),
        bases: (!is_whole).then_some(bases),
        sites,
    }
}

/// Reads a file of reports, or all that lie in a folder.
fn read(sites: &Sites<'_>, path: &Path, seen: &mut Seen) -> Result<(), Failure> {
    let mut note = |bytes: &[u8]| -> Result<(), Failure> {
        for line in bytes.split(|byte| *byte == b'\n') {
            sites.note_running(line, seen).map_err(site_failure)?;
        }
        Ok(())
    };
    let unreadable = |error: FileError| Failure::file(&error);
    if !path.is_dir() {
        return note(&media::read_file(path, MAX_REPORTS_BYTES).map_err(unreadable)?);
    }
    let folder = Media::open(path).map_err(unreadable)?;
    let found = folder.files(BOUNDS, |name| media::is_named(Path::new(name), "reports"));
    let found = found.map_err(unreadable)?;
    for error in &found.unusable {
        say(&format!("left out: {error}"));
    }
    if found.incomplete {
        say(&format!(
            "`{}` has more files than are looked at: reports may be among the others",
            path.display()
        ));
    }
    for file in &found.files {
        match folder.read(file, MAX_REPORTS_BYTES) {
            Ok(Some(bytes)) => note(&bytes)?,
            Ok(None) => {}
            // The reports of other sites are in other files.
            Err(error) => say(&format!("left out: {error}")),
        }
    }
    Ok(())
}
