//! What single sites have already, so that a copy for them leaves it out.
//!
//! What comes in: names of sites, and their reports: files (such as those on the stick that came back), or a hub's answers. What goes out: for each stream that
//! they follow the bundles that they run, or the reason why the whole bundle is brought. Only reports count that an approved key of
//! the site signed. Nothing that is said here has to be believed on site: a site that lacks something refuses the copy and says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outhaul_bundle::name::Name;
use outhaul_bundle::report::Report;
use outhaul_kit::durable::FileError;
use outhaul_kit::format_count::format_count;
use outhaul_kit::media::{self, Bounds, Media};
use outhaul_promote::HubConnection;
use outhaul_ship::stream::copies::KeptBundle;
use outhaul_ship::stream::since::{self, Earlier};
use outhaul_signer::Envelope;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::seal::Recipient;
use outhaul_sites::{MAX_REPORTS_BYTES, ReportLine, Seen, SiteRecord, Sites};

use crate::cli::failure::{self, Failure};
use crate::cli::say;
use crate::cli::site::site_failure;

/// How far a stick is looked through.
const BOUNDS: Bounds = Bounds {
    depth: 3,
    entries: 100_000,
    kept: 10_000,
};

/// How often a hub is asked for the reports of one site: it answers a thousand at once.
const MAX_ANSWERS: usize = 20;

/// Where the reports of sites are.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReportSource<'s> {
    /// Files, or folders that are looked through.
    Files(&'s [PathBuf]),
    /// A hub that has them.
    Hub(HubConnection<'s>),
}

/// What one site has of a bundle.
#[derive(Debug, Clone)]
pub(super) struct SiteStanding {
    /// Its name.
    pub(super) site: String,
    /// The number of the bundle that it runs, where that is known.
    pub(super) runs: Option<u64>,
    /// What it runs, and why nothing is left out for it or has to be brought; a whole sentence.
    pub(super) note: String,
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
    reports: ReportSource<'_>,
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
    match reports {
        ReportSource::Files(paths) => {
            for path in paths {
                read(&records, path, &mut seen)?;
            }
        }
        ReportSource::Hub(hub) => {
            for name in names {
                ask(&records, hub, name, &mut seen)?;
            }
        }
    }
    let mut standings = BTreeMap::new();
    for bundle in bundles {
        let Some(sites) = by_role.get(bundle.role()) else {
            continue;
        };
        let sealed = since::sealed_for(bundle).map_err(|error| Failure::of(&error))?;
        let standing = standing(bundle, sealed.as_ref(), sites, &seen)?;
        standings.insert(bundle.role().to_owned(), standing);
    }
    Ok(standings)
}

fn standing(
    bundle: &KeptBundle,
    sealed_for: Option<&BTreeMap<Name, Name>>,
    records: &[SiteRecord],
    seen: &Seen,
) -> Result<StreamStanding, Failure> {
    let (mut sites, mut bases, mut is_whole) = (Vec::new(), Vec::new(), false);
    let is_sealed = sealed_for.is_some();
    for record in records {
        let site = record.site.to_string();
        can_open(bundle, sealed_for, record)?;
        let brought = "the whole bundle is brought";
        let (runs, note) = match seen.running(&site) {
            _ if seen.is_revoked(&site) => {
                let note = format!(
                    "`{site}` reports that it is revoked: it takes no bundle, and nothing is brought there"
                );
                (None, note)
            }
            Ok(running) if running.stream.role.as_str() != bundle.role() => {
                is_whole = true;
                (
                    None,
                    format!("`{site}` runs a bundle of another stream: {brought}"),
                )
            }
            Ok(running) if running.number >= bundle.number => {
                let note = format!(
                    "`{site}` runs bundle {} by its report {}: nothing has to be brought there",
                    running.number, running.report
                );
                (Some(running.number), note)
            }
            Ok(running) => {
                let by = format!(
                    "`{site}` runs bundle {} by its report {}",
                    running.number, running.report
                );
                let base = Earlier::Digest(running.index);
                if is_sealed {
                    is_whole = true;
                } else if !bases.contains(&base) {
                    bases.push(base);
                }
                let sealed = match is_sealed {
                    true => format!(
                        "; bundle {} is sealed, and of a sealed one nothing is left out",
                        bundle.number
                    ),
                    false => String::new(),
                };
                (Some(running.number), format!("{by}{sealed}"))
            }
            Err(why) => {
                is_whole = true;
                let help = match seen.unsigned(&site) {
                    0 => String::new(),
                    _ => format!(
                        "\nhelp: compare the fingerprint in its request with what `outhaul-agent status` shows there, and approve it: \
                         `outhaul site approve REQUEST --fleet FLEET --fingerprint HEX` (the stick has `requests/{site}.request`)"
                    ),
                };
                (None, format!("`{site}` {why}: {brought}{help}"))
            }
        };
        let left = seen
            .turned_away(&site, bundle.number)
            .filter(|_| runs.is_none_or(|runs| runs < bundle.number));
        let note = match left {
            Some(why) => format!(
                "{note}\nhelp: `{site}` left bundle {number} or could not apply it ({why}): it takes it again after `outhaul-agent approve {number}` there",
                number = bundle.number
            ),
            None => note,
        };
        sites.push(SiteStanding { site, runs, note });
    }
    Ok(StreamStanding {
        is_there: !is_whole && bases.is_empty(),
        bases: (!is_whole).then_some(bases),
        sites,
    })
}

/// Refuses a bundle that a site could not open.
fn can_open(
    bundle: &KeptBundle,
    sealed_for: Option<&BTreeMap<Name, Name>>,
    record: &SiteRecord,
) -> Result<(), Failure> {
    let Some(readers) = sealed_for else {
        return Ok(());
    };
    let key = record.seal_key.parse::<Recipient>().ok();
    let id = key.and_then(|key| key.id().parse::<Name>().ok());
    if id.is_some_and(|id| readers.contains_key(&id)) {
        return Ok(());
    }
    let site = &record.site;
    let names: Vec<String> = readers.values().map(|name| format!("`{name}`")).collect();
    let text = format!(
        "bundle {} of {} is sealed for {}, and not for the key that is approved for `{site}`: it could not open it",
        bundle.number,
        bundle.stream(),
        names.join(", ")
    );
    Err(Failure::say(failure::REFUSED, text).help(
        "make one that is sealed for it, too: `outhaul bundle --renew --seal-for FILE`, with what `outhaul site list --recipients` prints; nothing was written",
    ))
}

/// Asks a hub for the reports of a site, the newest first, until they say what it runs.
fn ask(
    sites: &Sites<'_>,
    hub: HubConnection<'_>,
    site: &Name,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let mut before = None;
    for _ in 0..MAX_ANSWERS {
        let lines = hub.reports(site.as_str(), before).map_err(|error| {
            Failure::of(&error).help(
                "nothing was written; `--reports FILE` takes them from the stick that came back",
            )
        })?;
        if lines.is_empty() {
            return Ok(());
        }
        let numbers = lines_of(&lines).filter_map(|line| {
            let envelope = Envelope::from_json(line).ok()?;
            let report = Report::from_bytes(envelope.unverified_payload()).ok()?;
            Some(report.number)
        });
        let lowest = numbers.min();
        note(sites, Path::new(hub.url), &lines, seen)?;
        // Each answer has to go on from the one before.
        if seen.running(site.as_str()).is_ok() || lowest.is_none() || lowest == before {
            return Ok(());
        }
        before = lowest;
    }
    say(&format!(
        "`{}` has more reports of `{site}` than are asked for, and none of the newest ones is of an active bundle",
        hub.url
    ));
    Ok(())
}

fn lines_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty())
}

/// Reads a file of reports, or all that lie in a folder.
fn read(sites: &Sites<'_>, path: &Path, seen: &mut Seen) -> Result<(), Failure> {
    let unreadable = |error: FileError| Failure::file(&error);
    if !path.is_dir() {
        let bytes = media::read_file(path, MAX_REPORTS_BYTES).map_err(unreadable)?;
        return note(sites, path, &bytes, seen);
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
            Ok(Some(bytes)) => note(sites, &path.join(file), &bytes, seen)?,
            Ok(None) => {}
            // The reports of other sites are in other files.
            Err(error) => say(&format!("left out: {error}")),
        }
    }
    Ok(())
}

/// Takes in the lines of one file, and says what of it is no report.
fn note(sites: &Sites<'_>, path: &Path, bytes: &[u8], seen: &mut Seen) -> Result<(), Failure> {
    let mut damaged = 0usize;
    for line in lines_of(bytes) {
        let line = sites.note_running(line, seen).map_err(site_failure)?;
        damaged += usize::from(line == ReportLine::Damaged);
    }
    if bytes.is_empty() {
        say(&format!("`{}` is empty: it has no report", path.display()));
    }
    if damaged > 0 {
        say(&format!(
            "`{}`: {} {} no report; the file was cut or changed, and what a site reported last may be missing",
            path.display(),
            format_count(damaged, "line", "lines"),
            if damaged == 1 { "is" } else { "are" }
        ));
    }
    Ok(())
}
