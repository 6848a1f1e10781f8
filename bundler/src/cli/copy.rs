//! `outhaul copy`: the bundles that were signed last, once more, onto a stick that may be pulled out afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::Digest;
use outhaul_bundle::name::Name;
use outhaul_bundle::volume::MAX_PARITY_PARTS;
use outhaul_copy::audience::{self, Audience, Standings};
use outhaul_copy::copies::{self, CopyError, Kept, KeptBundle};
use outhaul_copy::patches::Patching;
use outhaul_copy::since::Earlier;
use outhaul_copy::write::{self, FinishedCopy, Progress};
use outhaul_copy::{others, volumes};
use outhaul_kit::format_count::format_count;
use outhaul_kit::interrupt;
use outhaul_kit::size;
use outhaul_kit::text::json_path;
use outhaul_promote::HubConnection;
use outhaul_ship::stream;
use outhaul_signer::fleet::Fleet;
use outhaul_signer::media::Media;
use outhaul_sites::Sites;
use serde_json::json;

use super::failure::{self, Failure};
use super::foreign;
use super::key::fleet_failure;
use super::{Exit, Output, data, print_json, say};

mod known;
pub(super) mod words;

use known::ReportSource;

/// Copy the bundles that were signed last onto a stick: the same bytes, read back and compared
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It needs neither the control plane nor a passphrase: the fleet keeps the last bundle of each \
                  stream.\n\nWith `--parity 2` any two parts of a bundle may be lost or damaged on the way: the site makes them again of the others, and compares them with what was signed.\n\nWith `--since` a copy is small: it leaves out what its sites have from an earlier bundle, and carries \
                  patches for what changed where those are smaller. A site that lacks any of that refuses the copy and names the bundle it needs; the whole bundle works \
                  everywhere.\n\nExamples:\n  outhaul copy --fleet fleet --environment stage --to \
                  /media/stick\n  outhaul copy --fleet fleet --environment stage --cluster-type press --since 6 --to \
                  /media/stick\n  outhaul copy --fleet fleet --volume-size 3900M --parity 1 --to /media/stick\n  outhaul copy --fleet fleet --for press-7 --to /media/stick\n  \
                  outhaul copy --fleet fleet --for press-7 --ask-hub --hub https://hub.factory.example --to /media/stick"
)]
pub struct Args {
    /// The fleet's folder
    #[arg(long, value_name = "DIR")]
    fleet: PathBuf,
    /// Only bundles of this environment; without it of every one
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Only this cluster type (may be given more than once); without it every one
    #[arg(long, value_name = "NAME")]
    cluster_type: Vec<String>,
    /// Where to: a folder that is there, such as the place where a stick is mounted
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Write each bundle in parts of at most so many bytes, such as 3900M for FAT (K, M and G are powers of 1024, kB, MB and GB of 1000)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    volume_size: Option<u64>,
    /// Only this part (may be given more than once), when one stick does not hold all of them; no parity part then
    #[arg(long, value_name = "N", requires = "volume_size", conflicts_with_all = ["since", "since_file"])]
    part: Vec<usize>,
    /// Write so many parity parts beside the parts (64 at most): a site can lose or damage that many parts, whichever they are, and still recover the
    /// bundle. Each is as large as the largest part
    #[arg(long, value_name = "N", requires = "volume_size", value_parser = parity,
        conflicts_with_all = ["since", "since_file", "sites"])]
    parity: Option<usize>,
    /// Only this parity part (may be given more than once); without `--part` no other file
    #[arg(long, value_name = "N", requires = "parity", conflicts_with_all = ["since", "since_file", "sites"])]
    parity_part: Vec<usize>,
    /// Leave out what the stream's bundle of this number (or digest) has; given more than once: what each of them has
    #[arg(long, value_name = "N", value_parser = earlier, conflicts_with = "volume_size")]
    since: Vec<Earlier>,
    /// The same for a bundle in a file, when the fleet does not know any more what it has
    #[arg(long, value_name = "BUNDLE", conflicts_with = "volume_size")]
    since_file: Vec<PathBuf>,
    /// Only for this site (may be given more than once): omit what it has according to its newest report; not together with
    /// `--volume-size`, which splits whole bundles only
    #[arg(long = "for", value_name = "SITE", conflicts_with_all = ["since", "since_file", "volume_size", "part"])]
    sites: Vec<Name>,
    /// Where the reports of those sites are: a file, or a folder to search; default without `--ask-hub`: the folder of `--to`
    #[arg(long, value_name = "PATH", requires = "sites")]
    reports: Vec<PathBuf>,
    /// Ask the hub for the reports of those sites
    #[arg(long, requires = "sites", conflicts_with = "reports")]
    ask_hub: bool,
    /// The hub that is asked; `--ask-hub` needs it
    #[arg(long, value_name = "URL", requires = "ask_hub")]
    hub: Option<String>,
    /// The certificate of the hub's authority, when it is a private one
    #[arg(long, value_name = "FILE", requires = "ask_hub", value_parser = crate::cli::registries::authority_file())]
    hub_ca: Option<PathBuf>,
    /// Do not make patches: copy changed content whole, for agents that do not support patches
    #[arg(long, conflicts_with = "volume_size")]
    no_patches: bool,
    /// Where no small patch makes an image's layer itself, make one of its uncompressed archive (a twin): for sites whose agent brings images into
    /// containerd (`[containerd]` in agent.toml) on their only machine with containers; other sites refuse the copy
    #[arg(long, conflicts_with_all = ["volume_size", "no_patches"])]
    twins: bool,
    /// How data is printed
    #[arg(long, value_enum, default_value_t)]
    output: Output,
}

impl Args {
    /// Does it.
    pub fn run(self) -> Result<Exit, Failure> {
        self.check_twins()?;
        super::places::folder(&self.to)?;
        let fleet = Fleet::open(&self.fleet).map_err(fleet_failure)?;
        let Kept { bundles, mut lost } =
            copies::kept_or_lost(&fleet, self.environment.as_deref(), &self.cluster_type)?;
        // A stick that is not mounted is not made up.
        let media = Media::open(&self.to).map_err(|error| Failure::file(&error))?;
        // Of all of them, before anything is written.
        let standings = self.standings(&fleet, &bundles)?;
        let earlier = self.earlier()?;
        let audience = match (self.sites.is_empty(), earlier.as_slice()) {
            (false, _) => Audience::Sites(&standings),
            (true, []) => Audience::Everyone,
            (true, earlier) => Audience::Since(earlier),
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "the edge of the program: all below is given the time"
        )]
        let now = jiff::Timestamp::now();
        let cut = self.cut();
        let planned = audience::planned(&fleet, bundles, audience, now)?;
        for (stream, why) in &planned.unknown {
            say(&format!("{stream}: {why}: the whole bundle is copied"));
        }
        let named = planned.copies.iter().map(|one| &one.bundle);
        let named = named.map(|one| (one.role().to_owned(), one.stream()));
        let outdated = say_outdated(&fleet, named)?;
        let patching = match (self.no_patches, self.twins) {
            (true, _) => Patching::None,
            (false, true) => Patching::Twins,
            (false, false) => Patching::Exact,
        };
        let mut each = |progress: Progress<'_>| match progress {
            Progress::UpToDate(bundle) => say(&words::up_to_date(bundle)),
            Progress::Finished(one) => self.print(one),
        };
        // Until all is said: what is on the stick is named when that is interrupted.
        let _parts = interrupt::parts();
        let written = write::write(&planned.copies, &media, cut, patching, &mut each)?;
        lost.extend(written.lost);
        let files: BTreeSet<&Path> = written
            .files
            .iter()
            .map(|one| one.copied.file.as_path())
            .collect();
        match files.is_empty() {
            true if lost.is_empty() => say("nothing was written: these sites have what there is"),
            true => {}
            false => {
                let others = others::others(&fleet, &media, &files, now)?;
                for line in words::other_bundles(&others, &self.to) {
                    say(&line);
                }
                let is_new = written.files.iter().any(|one| one.copied.written);
                say(&match is_new {
                    true => removable(&self.to, files.len()),
                    false => words::all_there(&self.to, files.len()),
                });
            }
        }
        if self.output == Output::Json {
            let copied = written.files.iter();
            let copied = copied.map(|one| words::json(one, outdated.get(one.bundle.role())));
            let sites = standings.values().flat_map(|standing| &standing.sites);
            let sites: Vec<_> = sites
                .map(|one| json!({ "site": one.site, "runs": one.runs, "note": one.to_string() }))
                .collect();
            print_json(&json!({
                "to": json_path(&self.to), "copied": copied.collect::<Vec<_>>(), "sites": sites,
            }))?;
        }
        not_copied(&lost, written.files.len())
    }

    /// Refuses twins in a copy that has all layers.
    fn check_twins(&self) -> Result<(), Failure> {
        let is_since = !self.since.is_empty() || !self.since_file.is_empty();
        if !self.twins || is_since || !self.sites.is_empty() {
            return Ok(());
        }
        let text = "`--twins` applies to a copy for sites that have an earlier bundle; a whole bundle has all layers";
        let help = "add `--since N`, `--since-file BUNDLE` or `--for SITE`, or omit `--twins`";
        Err(Failure::say(2, text).help(help))
    }

    /// What the named sites have, by the role of their stream; empty when none is named.
    fn standings(&self, fleet: &Fleet, bundles: &[KeptBundle]) -> Result<Standings, Failure> {
        if self.sites.is_empty() {
            return Ok(Standings::new());
        }
        let reports = match (self.ask_hub, &self.hub, self.reports.as_slice()) {
            (true, Some(url), _) => ReportSource::Hub(HubConnection {
                url,
                authority: self.hub_ca.as_deref(),
            }),
            (true, None, _) => {
                let text = "`--ask-hub` needs to know the hub";
                return Err(Failure::say(failure::USAGE, text).help(
                    "give `--hub URL`, or write `hub` into outhaul.toml; nothing was written",
                ));
            }
            (false, _, []) => ReportSource::Files(std::slice::from_ref(&self.to)),
            (false, _, named) => ReportSource::Files(named),
        };
        let read = |sites: &Sites<'_>| known::seen(sites, &self.sites, reports);
        let standings = audience::standings(fleet, bundles, &self.sites, read)?;
        let sites = standings.values().flat_map(|standing| &standing.sites);
        for site in sites {
            say(&site.to_string());
        }
        Ok(standings)
    }

    /// The earlier bundles that are named.
    fn earlier(&self) -> Result<Vec<Earlier>, Failure> {
        for file in &self.since_file {
            foreign::refuse_other_file(file)?;
        }
        let files = self.since_file.iter().cloned().map(Earlier::File);
        Ok(self.since.iter().cloned().chain(files).collect())
    }

    fn cut(&self) -> Option<volumes::Cut<'_>> {
        self.volume_size.map(|max_bytes| volumes::Cut {
            max_bytes,
            only: &self.part,
            parity: self.parity.unwrap_or(0),
            only_parity: &self.parity_part,
        })
    }

    fn print(&self, one: &FinishedCopy) {
        if self.output != Output::Text {
            return;
        }
        data(&words::line(one));
        let others = one.left_out.as_ref();
        let others = others.map(|left_out| left_out.others.as_slice());
        for line in words::others_lines(others.unwrap_or_default()) {
            data(&line);
        }
        if one.left_out.is_none() && one.is_since {
            say(&words::nothing_left_out(&one.bundle));
        }
    }
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        Self::of(&error)
    }
}

/// Names the bundles, each by role and stream, that were signed before keys were changed, and gives why, by role: sites that are enrolled since refuse them, or do not
/// learn of the change.
pub(super) fn say_outdated(
    fleet: &Fleet,
    bundles: impl Iterator<Item = (String, String)>,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut found = BTreeMap::new();
    for (role, stream) in bundles {
        let why = stream::outdated(fleet, &role).map_err(fleet_failure)?;
        let Some(why) = why else { continue };
        say(&format!(
            "warning: {stream}: {why}\nhelp: `outhaul bundle` makes a new number of the stream"
        ));
        found.insert(role, why);
    }
    Ok(found)
}

/// The end of a run that copied `files`: each stream that was to be copied, too, and has no bundle, is an error.
fn not_copied(lost: &[CopyError], files: usize) -> Result<Exit, Failure> {
    let Some((first, others)) = lost.split_first() else {
        return Ok(Exit::SUCCESS);
    };
    let failure = others
        .iter()
        .fold(Failure::of(first), |failure, error| failure.and(error));
    Err(match files {
        0 => failure,
        _ => failure.help(
            "the files that are named above were copied and read back; only these streams were not",
        ),
    })
}

/// An earlier bundle: a number, or a digest as `outhaul inspect` prints it.
fn earlier(text: &str) -> Result<Earlier, String> {
    if let Some(number) = text.parse().ok().filter(|number| *number > 0) {
        return Ok(Earlier::Number(number));
    }
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    Digest::from_hex(hex).map(Earlier::Digest).map_err(|_| {
        "give the number of a bundle of the stream, or the 64 digits of the SHA-256 digest of its file".to_owned()
    })
}

/// How many parity parts.
fn parity(text: &str) -> Result<usize, String> {
    let count = text.parse().ok();
    let count = count.filter(|count| (1..=MAX_PARITY_PARTS).contains(count));
    count.ok_or_else(|| {
        format!(
            "give how many parts may be lost, from 1 to {MAX_PARITY_PARTS}: each parity part is as large as the largest part"
        )
    })
}

/// The size of a part.
fn size(text: &str) -> Result<u64, String> {
    size::parse(text).filter(|bytes| *bytes > 0).ok_or_else(|| {
        format!(
            "write a number of bytes, or a number and a unit: `3900M` fits on FAT, `650M` on a CD; units are {}",
            size::UNIT_NAMES
        )
    })
}

/// Whether a folder lies on another file system than the fleet's folder, as one on a stick does.
pub(super) fn is_elsewhere(folder: &Path, fleet: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    device(folder) != device(fleet)
}

/// What the person with the stick wants to read last, of so many files that were written.
pub(super) fn removable(to: &Path, files: usize) -> String {
    format!(
        "what was written to `{}` ({}) was read back and is what was signed; a stick is safe to remove now",
        to.display(),
        format_count(files, "file", "files")
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::Cli;

    #[test]
    fn options_that_would_have_no_effect_together_are_refused() {
        let parsed = |more: &str| {
            let words = format!("outhaul copy --fleet f --to t {more}");
            let parsed = Cli::try_parse_from(words.split_whitespace());
            parsed.map(drop).map_err(|error| error.kind())
        };
        let conflict = Err(clap::error::ErrorKind::ArgumentConflict);
        let earlier = ["--since 3", "--since-file b", "--for press-1"];
        let parts = [
            "--volume-size 1M",
            "--parity 1",
            "--parity-part 1",
            "--part 1",
            "--parity 1 --parity-part 1",
            "--volume-size 1M --parity 1",
            "--volume-size 1M --part 1",
        ];
        for since in earlier {
            for part in parts {
                assert_eq!(
                    parsed(&format!("{since} {part}")),
                    conflict,
                    "{since} {part}"
                );
                assert_eq!(
                    parsed(&format!("{part} {since}")),
                    conflict,
                    "{part} {since}"
                );
            }
        }
        assert_eq!(parsed("--since 3 --for press-1"), conflict);
        assert_eq!(parsed("--volume-size 1M --no-patches"), conflict);
        for fine in [
            "",
            "--since 3 --since-file b --no-patches",
            "--for press-1 --reports r --no-patches",
            "--volume-size 1M --part 1 --parity 2 --parity-part 1",
        ] {
            assert_eq!(parsed(fine), Ok(()), "{fine}");
        }
        for lonely in [
            "--parity 1",
            "--part 1",
            "--volume-size 1M --parity-part 1",
            "--reports r",
            "--for press-1 --hub https://hub.example",
            concat!(
                "--for press-1 --hub-ca ",
                env!("CARGO_MANIFEST_DIR"),
                "/registry/testdata/authority.pem"
            ),
        ] {
            let missing = Err(clap::error::ErrorKind::MissingRequiredArgument);
            assert_eq!(parsed(lonely), missing, "{lonely}");
        }
    }
}
